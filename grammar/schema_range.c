/*
 * schema_range.c - numbers within bounds, as automata over their digits.
 *
 * A bound is compared digit by digit: a number without leading zeros is above another when it has
 * more digits in front of its point, or as many and the first one that differs is larger. One with
 * an exponent is compared as programs write it: one digit, not 0, in front of the point, so that the
 * exponents decide, and where they are equal the digits; other texts with exponents are not taken
 * beside bounds.
 */
#include "grammar/schema_range.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- decimals ---- */

bool decimal_read(struct bytes text, struct decimal *d) {
    char digits[DIGITS_MAX * 2];
    size_t count = 0, at = 0;
    long point = 0, exponent = 0;
    bool behind = false;
    *d = (struct decimal){0};
    if (text.len && text.data[0] == '-')
        d->negative = text.data[at++];
    for (; at < text.len && (text.data[at] | 32) != 'e'; at++) {
        if (text.data[at] == '.') {
            behind = true;
            continue;
        }
        if (count == DIGITS_MAX)
            return false;
        digits[count++] = (char)text.data[at];
        point += !behind;
    }
    if (at < text.len) {
        char buffer[16] = {0};
        memcpy(buffer, text.data + at + 1, MIN(text.len - at - 1, sizeof buffer - 1));
        exponent = strtol(buffer, NULL, 10);
    }
    if (labs(exponent) > DIGITS_MAX / 2)
        return false;
    point += exponent;
    for (long i = 0; i < point || (size_t)MAX(i, 0L) < count; i++) {
        char digit = (size_t)i < count ? digits[i] : '0';
        if (i < point && d->whole_count < DIGITS_MAX && (d->whole_count || digit != '0'))
            d->whole[d->whole_count++] = digit;
        if (i >= point) {
            for (long z = point; i == 0 && z < 0 && d->fraction_count < DIGITS_MAX; z++)
                d->fraction[d->fraction_count++] = '0';
            if (d->fraction_count < DIGITS_MAX)
                d->fraction[d->fraction_count++] = digit;
        }
    }
    while (d->fraction_count && d->fraction[d->fraction_count - 1] == '0')
        d->fraction_count--;
    if (!d->whole_count && !d->fraction_count)
        d->negative = false;
    return true;
}

bool decimal_is_zero(const struct decimal *d) {
    return !d->whole_count && !d->fraction_count;
}

/* -1, 0, 1 */
static int compare_sizes(const struct decimal *a, const struct decimal *b) {
    if (a->whole_count != b->whole_count)
        return a->whole_count < b->whole_count ? -1 : 1;
    int order = memcmp(a->whole, b->whole, a->whole_count);
    if (order)
        return order < 0 ? -1 : 1;
    for (size_t i = 0; i < MAX(a->fraction_count, b->fraction_count); i++) {
        char x = i < a->fraction_count ? a->fraction[i] : '0';
        char y = i < b->fraction_count ? b->fraction[i] : '0';
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

int decimal_compare(const struct decimal *a, const struct decimal *b) {
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? -compare_sizes(a, b) : compare_sizes(a, b);
}

/* ---- automata of unsigned numbers ---- */

void number_add_fraction(struct nfa *n, uint32_t from, bool whole, uint32_t to) {
    uint32_t point = nfa_state(n), digits = nfa_state(n);
    uint8_t last = whole ? '0' : '9';
    nfa_free_edge(n, from, to);
    nfa_edge(n, from, '.', '.', point);
    nfa_edge(n, point, '0', last, digits);
    nfa_edge(n, digits, '0', last, digits);
    nfa_free_edge(n, digits, to);
}

/* count or more digits, the first not 0. */
static void add_long(struct nfa *n, uint32_t from, size_t count, bool endless, uint32_t to) {
    for (size_t i = 0; i < count; i++) {
        uint32_t next = nfa_state(n);
        nfa_edge(n, from, i ? '0' : '1', '9', next);
        from = next;
    }
    if (endless)
        nfa_edge(n, from, '0', '9', from);
    nfa_free_edge(n, from, to);
}

/* Numbers above (or below) b; b itself with `equal`. `whole`: fractions are zeros. */
static void add_beyond(struct nfa *n, uint32_t from, const struct decimal *b, bool above,
                       bool equal, bool whole, uint32_t to) {
    uint32_t beyond = nfa_state(n); /* behind the whole part of a number that is beyond b */
    number_add_fraction(n, beyond, whole, to);
    size_t count = b->whole_count;
    uint32_t tail = (uint32_t)n->first.count; /* tail + k: k more digits of the whole part come */
    for (size_t k = 0; k < MAX(count, (size_t)1); k++)
        (void)nfa_state(n);
    nfa_free_edge(n, tail, beyond);
    for (uint32_t k = 1; k < count; k++)
        nfa_edge(n, tail + k, '0', '9', tail + k - 1);
    if (above)
        add_long(n, from, count + 1, true, beyond);
    for (uint32_t k = 1; k < count && !above; k++)
        nfa_edge(n, from, '1', '9', tail + k - 1);
    if (count && !above)
        nfa_edge(n, from, '0', '0', beyond);
    /* As many digits: along b until one differs. A 0 alone stands for no digits. */
    uint32_t along = from;
    if (!count) {
        uint32_t zero = nfa_state(n);
        nfa_edge(n, from, '0', '0', zero);
        if (above)
            add_long(n, from, 1, false, beyond);
        along = zero;
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t digit = (uint8_t)b->whole[i], least = i ? '0' : '1';
        uint32_t next = nfa_state(n), free = tail + (uint32_t)(count - 1 - i);
        if (above && digit < '9')
            nfa_edge(n, along, digit + 1, '9', free);
        if (!above && digit > least)
            nfa_edge(n, along, least, digit - 1, free);
        nfa_edge(n, along, digit, digit, next);
        along = next;
    }
    /* The whole parts are equal: the fractions decide, missing digits being zeros. */
    uint32_t rest = nfa_state(n);
    nfa_edge(n, rest, '0', whole ? '0' : '9', rest);
    nfa_free_edge(n, rest, to);
    if (b->fraction_count ? !above : equal)
        nfa_free_edge(n, along, to);
    uint32_t point = nfa_state(n);
    nfa_edge(n, along, '.', '.', point);
    along = point;
    for (size_t i = 0; i < b->fraction_count; i++) {
        uint8_t digit = (uint8_t)b->fraction[i];
        uint32_t next = nfa_state(n);
        if (above && digit < '9' && !whole)
            nfa_edge(n, along, digit + 1, '9', rest);
        if (!above && digit > '0')
            nfa_edge(n, along, '0', whole ? '0' : digit - 1, rest);
        if (!whole || digit == '0')
            nfa_edge(n, along, digit, digit, next);
        along = next;
        /* Stopping here means zeros from here on: below b, whose last digit is none. */
        bool last = i + 1 == b->fraction_count;
        if (last ? equal : !above)
            nfa_free_edge(n, along, to);
    }
    uint32_t zeros = b->fraction_count ? along : nfa_state(n);
    if (!b->fraction_count)
        nfa_edge(n, along, '0', '0', zeros);
    if (equal) {
        nfa_edge(n, zeros, '0', '0', zeros);
        nfa_free_edge(n, zeros, to);
    } else {
        nfa_edge(n, zeros, '0', '0', zeros);
    }
    if (above && !whole) {
        nfa_edge(n, zeros, '1', '9', rest);
        if (!b->fraction_count)
            nfa_edge(n, along, '1', '9', rest);
    }
}

/* ---- unsigned numbers with exponents ---- */

/* Digits that are worth more or less than m, or m; zeros may stand in front. */
static void add_size(struct nfa *n, uint32_t from, uint32_t m, enum relation r, uint32_t to) {
    char digits[16];
    size_t count = (size_t)snprintf(digits, sizeof digits, "%u", m);
    uint32_t along = nfa_state(n);
    nfa_edge(n, from, '0', '0', from);
    nfa_free_edge(n, from, along);
    if (r == BELOW && m > 0) /* 0 */
        nfa_edge(n, from, '0', '0', to);
    if (r == ABOVE)
        add_long(n, along, m ? count + 1 : 1, true, to);
    for (size_t k = 1; k < count && r == BELOW; k++)
        add_long(n, along, k, false, to);
    if (!m) {
        if (r == AT)
            nfa_edge(n, from, '0', '0', to);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t digit = (uint8_t)digits[i], least = i ? '0' : '1';
        uint32_t next = nfa_state(n), free = nfa_state(n);
        if (r == ABOVE && digit < '9')
            nfa_edge(n, along, digit + 1, '9', free);
        if (r == BELOW && digit > least)
            nfa_edge(n, along, least, digit - 1, free);
        for (size_t k = i + 1; k < count; k++) {
            uint32_t more = nfa_state(n);
            nfa_edge(n, free, '0', '9', more);
            free = more;
        }
        nfa_free_edge(n, free, to);
        nfa_edge(n, along, digit, digit, next);
        along = next;
    }
    if (r == AT)
        nfa_free_edge(n, along, to);
}

/* Any digits, one at least. */
static void add_digits(struct nfa *n, uint32_t from, uint32_t to) {
    uint32_t more = nfa_state(n);
    nfa_edge(n, from, '0', '9', more);
    nfa_edge(n, more, '0', '9', more);
    nfa_free_edge(n, more, to);
}

void number_add_exponent(struct nfa *n, uint32_t from, long than, enum relation r, uint32_t to) {
    uint32_t sign = nfa_state(n), plus = nfa_state(n), minus = nfa_state(n);
    uint32_t size = (uint32_t)labs(than);
    nfa_edge(n, from, 'E', 'E', sign);
    nfa_edge(n, from, 'e', 'e', sign);
    nfa_free_edge(n, sign, plus);
    nfa_edge(n, sign, '+', '+', plus);
    nfa_edge(n, sign, '-', '-', minus);
    if (than >= 0)
        add_size(n, plus, size, r, to);
    else if (r == ABOVE)
        add_digits(n, plus, to);
    if (than <= 0)
        add_size(n, minus, size, r == ABOVE ? BELOW : r == BELOW ? ABOVE : AT, to);
    else if (r == BELOW)
        add_digits(n, minus, to);
}

/* Numbers of one digit, not 0, in front of the point and with an exponent, above or below b; b
 * itself with `equal`. Those of integers are told by multiple_dfa. */
static void add_scaled_beyond(struct nfa *n, uint32_t from, const struct decimal *b, bool above,
                              bool equal, uint32_t to) {
    char digits[DIGITS_MAX * 2];
    size_t count = 0, first = 0;
    uint32_t any = nfa_state(n), scaled = nfa_state(n);
    nfa_edge(n, from, '1', '9', any);
    number_add_fraction(n, any, false, scaled);
    if (decimal_is_zero(b)) { /* they are all above it */
        if (above) {
            number_add_exponent(n, scaled, -1, ABOVE, to);
            number_add_exponent(n, scaled, 0, BELOW, to);
        }
        return;
    }
    memcpy(digits, b->whole, b->whole_count);
    memcpy(digits + b->whole_count, b->fraction, b->fraction_count);
    for (count = b->whole_count + b->fraction_count; digits[count - 1] == '0';)
        count--;
    while (digits[first] == '0')
        first++;
    long exponent = (long)b->whole_count - (long)first - 1;
    number_add_exponent(n, scaled, exponent, above ? ABOVE : BELOW, to);
    /* The exponents are equal: along b's digits until one differs, missing ones being zeros. */
    uint32_t same = nfa_state(n), along = from, rest = nfa_state(n);
    nfa_edge(n, rest, '0', '9', rest);
    nfa_free_edge(n, rest, same);
    number_add_exponent(n, same, exponent, AT, to);
    for (size_t i = first; i < count; i++) {
        uint8_t digit = (uint8_t)digits[i], least = i > first ? '0' : '1';
        uint32_t next = nfa_state(n), other = rest;
        if (i == first) { /* behind it a fraction, or none */
            other = nfa_state(n);
            number_add_fraction(n, other, false, same);
        }
        if (above && digit < '9')
            nfa_edge(n, along, digit + 1, '9', other);
        if (!above && digit > least)
            nfa_edge(n, along, least, digit - 1, other);
        nfa_edge(n, along, digit, digit, next);
        if (i + 1 < count ? !above : equal) /* zeros from here on: below b, or b */
            nfa_free_edge(n, next, same);
        along = next;
        if (i == first) {
            along = nfa_state(n);
            nfa_edge(n, next, '.', '.', along);
        }
    }
    if (count - first == 1) { /* nothing is read behind the point yet */
        uint32_t zeros = nfa_state(n);
        nfa_edge(n, along, '0', '0', zeros);
        if (above)
            nfa_edge(n, along, '1', '9', rest);
        along = zeros;
    }
    nfa_edge(n, along, '0', '0', along);
    if (equal)
        nfa_free_edge(n, along, same);
    if (above)
        nfa_edge(n, along, '1', '9', rest);
}

static int beyond_dfa(struct schema *s, const struct bound *b, bool above, bool whole,
                      struct dfa *out, struct error *err) {
    static const struct decimal ZERO = {0};
    struct nfa n = {0};
    uint32_t from = nfa_state(&n), to = nfa_state(&n);
    n.labels.items[to] = 0;
    const struct decimal *at = b->set ? &b->at : &ZERO;
    above |= !b->set;
    add_beyond(&n, from, at, above, !b->set || !b->open, whole, to);
    if (!s->b->plain)
        add_scaled_beyond(&n, from, at, above, !b->open, to);
    int rc = dfa_from_nfa(&n, from, &s->b->fuel, out, err);
    nfa_release(&n);
    return rc;
}

/* Sizes from low to high; with either side unset, without it. */
static int between_dfa(struct schema *s, const struct bound *low, const struct bound *high,
                       bool whole, struct dfa *out, struct error *err) {
    struct dfa above, below;
    int rc = beyond_dfa(s, low, true, whole, &above, err);
    if (rc)
        return rc;
    rc = beyond_dfa(s, high, high->set ? false : true, whole, &below, err);
    if (!rc) {
        rc = dfa_and(&above, &below, &s->b->fuel, out, err);
        dfa_release(&below);
    }
    dfa_release(&above);
    return rc;
}

/* Zero stays zero with a sign. */
int number_range_dfa(struct schema *s, const struct range *r, bool whole, struct dfa *out,
                     struct error *err) {
    struct nfa n = {0};
    struct dfa half;
    static const struct bound NONE = {0};
    uint32_t from = nfa_state(&n), to = nfa_state(&n), minus = nfa_state(&n);
    int rc = 0;
    n.labels.items[to] = 0;
    nfa_edge(&n, from, '-', '-', minus);
    for (int negative = 0; negative < 2 && !rc; negative++) {
        const struct bound *near = negative ? &r->high : &r->low;
        const struct bound *far = negative ? &r->low : &r->high;
        bool near_here =
            near->set && (near->at.negative == (negative == 1) || decimal_is_zero(&near->at));
        bool far_there =
            far->set && far->at.negative != (negative == 1) && !decimal_is_zero(&far->at);
        struct bound end = *far;
        if (far_there)
            continue;
        rc = between_dfa(s, near_here ? near : &NONE, &end, whole, &half, err);
        if (rc)
            break;
        nfa_add_dfa(&n, &half, nfa_edge, negative ? minus : from, to);
        dfa_release(&half);
    }
    if (!rc)
        rc = dfa_from_nfa(&n, from, &s->b->fuel, out, err);
    nfa_release(&n);
    return rc;
}
