/*
 * json_number.c - numbers from their text: exact integers however written, and doubles without the
 * locale.
 */
#include "formats/json.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

/* A number's text taken apart: (-1)^negative * digits * 10^exponent, digits without leading and
 * trailing zeros. */
struct decimal {
    bool negative;
    bool exact;        /* mantissa holds all digits */
    uint64_t mantissa; /* means nothing unless exact */
    int digit_count;   /* significant digits in the text */
    int64_t exponent;  /* of the last significant digit */
};

static inline bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

/* Adds one digit. A run of zeros counts only when a digit other than zero follows. */
static void add_digit(struct decimal *d, int *zero_count, int digit) {
    if (digit == 0) {
        *zero_count += d->digit_count > 0;
        return;
    }
    for (int i = 0; i <= *zero_count; i++) {
        uint64_t low = (uint64_t)(i == *zero_count ? digit : 0), v = d->mantissa;
        d->digit_count++;
        d->exact =
            d->exact && !__builtin_mul_overflow(v, 10u, &v) && !__builtin_add_overflow(v, low, &v);
        d->mantissa = v;
    }
    *zero_count = 0;
}

static bool read_exponent(struct bytes n, size_t at, int64_t *exponent) {
    bool negative = at < n.len && n.data[at] == '-';
    int64_t v = 0;
    if (at < n.len && (n.data[at] == '-' || n.data[at] == '+'))
        at++;
    if (at == n.len)
        return false;
    for (; at < n.len; at++) {
        if (!is_digit(n.data[at]))
            return false;
        if (v < 1000000000)
            v = v * 10 + (n.data[at] - '0');
    }
    *exponent += negative ? -v : v;
    return true;
}

/* Takes the grammar for granted where the reader has checked it, but never reads outside and
 * refuses what is no number. */
static bool decimal_parse(struct bytes n, struct decimal *d) {
    size_t at = 0;
    int zero_count = 0;
    int64_t fraction_count = 0;
    bool fraction = false, any = false;
    *d = (struct decimal){.exact = true};
    if (n.len > JSON_NUMBER_MAX)
        return false;
    if (at < n.len && n.data[at] == '-')
        d->negative = true, at++;
    for (; at < n.len && (is_digit(n.data[at]) || (n.data[at] == '.' && !fraction)); at++) {
        if (n.data[at] == '.') {
            fraction = true;
            continue;
        }
        any = true;
        fraction_count += fraction;
        add_digit(d, &zero_count, n.data[at] - '0');
    }
    d->exponent = zero_count - fraction_count;
    if (at < n.len) {
        if ((n.data[at] | 0x20) != 'e' || !read_exponent(n, at + 1, &d->exponent))
            return false;
    }
    return any;
}

/* Magnitude as an integer, when it is one that fits. */
static bool decimal_integer(const struct decimal *d, uint64_t *out) {
    uint64_t v = d->mantissa;
    if (!d->digit_count)
        return *out = 0, true;
    if (d->exponent < 0 || d->exponent + d->digit_count > 20)
        return false;
    if (!d->exact)
        return false;
    for (int64_t i = 0; i < d->exponent; i++)
        if (__builtin_mul_overflow(v, 10u, &v))
            return false;
    *out = v;
    return true;
}

static bool magnitude(struct bytes n, bool *negative, uint64_t *out) {
    struct decimal d;
    if (!decimal_parse(n, &d))
        return false;
    *negative = d.negative;
    return decimal_integer(&d, out);
}

bool json_number_int64(struct bytes number, int64_t *out) {
    bool negative;
    uint64_t v;
    if (!magnitude(number, &negative, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool json_number_uint64(struct bytes number, uint64_t *out) {
    bool negative;
    return magnitude(number, &negative, out) && (!negative || *out == 0);
}

static locale_t c_locale;
static void make_c_locale(void) {
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool slow_double(struct bytes n, double *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char text[JSON_NUMBER_MAX + 1], *end;
    pthread_once(&once, make_c_locale);
    CHECK(c_locale);
    memcpy(text, n.data, n.len);
    text[n.len] = 0;
    *out = strtod_l(text, &end, c_locale);
    return end == text + n.len && isfinite(*out);
}

bool json_number_double(struct bytes number, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    struct decimal d;
    if (!decimal_parse(number, &d))
        return false;
    /* Both factors are exact doubles, so one rounding gives the nearest (W. D. Clinger, How to read
     * floating point numbers). */
    if (d.exact && d.mantissa <= 1ull << 53 && d.exponent >= -22 && d.exponent <= 22) {
        double v = (double)d.mantissa;
        v = d.exponent < 0 ? v / powers[-d.exponent] : v * powers[d.exponent];
        *out = d.negative ? -v : v;
        return true;
    }
    return slow_double(number, out);
}
