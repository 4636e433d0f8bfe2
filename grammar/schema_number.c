/*
 * schema_number.c - what a schema asks of numbers: bounds, multiples, numbers that are listed.
 *
 * Numbers are what they are worth, however they are written: 100, 100.0 and 1e2 are one.
 *
 * multipleOf keeps the remainder of what was read; where its divisor divides a power
 * of ten, numbers with exponents are taken that are multiples whatever their one digit is. So are
 * integers. (Digits behind the point, each with its own least exponent, made compiling an integer
 * with bounds cost 10 ms.)
 */
#include "formats/json.h"
#include "grammar/schema_range.h"

#include <stdio.h>
#include <stdlib.h>

enum { REMAINDERS_MAX = 20000 };

/* ---- multiples ---- */

/* A digit times a power of ten that is large enough for each such number to be a multiple: k divides
 * a power. */
static void add_scaled_multiples(struct nfa *n, uint32_t from, uint32_t k, uint32_t places) {
    long power = 0;
    uint32_t digit = nfa_state(n), scaled = nfa_state(n), to = nfa_state(n);
    for (; k % 10 == 0; power++)
        k /= 10;
    for (; k % 2 == 0 || k % 5 == 0; power++) /* either, now: their powers count as ten's */
        k /= k % 2 ? 5 : 2;
    if (k != 1)
        return;
    n->labels.items[to] = 0;
    nfa_edge(n, from, '1', '9', digit);
    number_add_fraction(n, digit, true, scaled);
    number_add_exponent(n, scaled, power - (long)places - 1, ABOVE, to);
}

/* Numbers that are whole multiples of k / 10^places: [-]digits[.digits], where behind the first
 * `places` digits of the fraction only zeros follow. */
static int multiple_dfa(struct schema *s, uint32_t k, uint32_t places, struct dfa *out,
                        struct error *err) {
    struct nfa n = {0};
    uint64_t states = (uint64_t)k * (places + 3);
    if (states > REMAINDERS_MAX)
        return error_set(err, ERR_UNSUPPORTED, "keyword \"multipleOf\" is too large or too fine");
    uint32_t start = nfa_state(&n), minus = nfa_state(&n), base = (uint32_t)n.first.count;
    for (uint64_t i = 0; i < states; i++)
        (void)nfa_state(&n);
    /* State base + place * k + remainder: place 0 in front of the point, 1 right behind it, then
     * one more for each digit; the last place is that of the zeros at the end. */
    uint32_t last = places + 2;
    for (uint32_t place = 0; place <= last; place++)
        for (uint32_t r = 0; r < k; r++) {
            uint32_t at = base + place * k + r;
            uint64_t value = r;
            for (uint32_t p = place ? place - 1 : 0; p < places; p++)
                value = value * 10 % k;
            if (value == 0 && place != 1)
                n.labels.items[at] = 0;
            if (place == 0)
                nfa_edge(&n, at, '.', '.', base + k + r);
            if (place > places)
                nfa_edge(&n, at, '0', '0', base + last * k + r);
            for (uint32_t d = 0; d < 10 && place <= places; d++)
                nfa_edge(&n, at, '0' + d, '0' + d,
                         base + (place ? place + 1 : 0) * k + (r * 10 + d) % k);
        }
    nfa_edge(&n, start, '-', '-', minus);
    nfa_free_edge(&n, start, minus);
    for (uint32_t d = 1; d < 10; d++)
        nfa_edge(&n, minus, '0' + d, '0' + d, base + d % k);
    /* A single 0, then the point or nothing: no more digits in front. */
    uint32_t zero = nfa_state(&n);
    nfa_edge(&n, minus, '0', '0', zero);
    n.labels.items[zero] = 0;
    nfa_edge(&n, zero, '.', '.', base + k);
    if (!s->b->plain)
        add_scaled_multiples(&n, minus, k, places);
    int rc = dfa_from_nfa(&n, start, &s->b->fuel, out, err);
    nfa_release(&n);
    return rc;
}

/* Of the numbers in have the multiples. Takes have where it fails. */
static int keep_multiples(struct schema *s, uint32_t k, uint32_t places, struct dfa *have,
                          struct error *err) {
    struct dfa more, both;
    int rc = multiple_dfa(s, k, places, &more, err);
    if (!rc) {
        rc = dfa_and(have, &more, &s->b->fuel, &both, err);
        dfa_release(&more);
    }
    dfa_release(have);
    if (!rc)
        *have = both;
    return rc;
}

/* k and places of a divisor written as a decimal; false when it is too large. */
static bool read_divisor(struct bytes text, uint32_t *k, uint32_t *places) {
    struct decimal d;
    if (!decimal_read(text, &d) || d.negative || decimal_is_zero(&d) ||
        d.whole_count + d.fraction_count > 9)
        return false;
    *k = 0;
    for (size_t i = 0; i < d.whole_count; i++)
        *k = *k * 10 + (uint32_t)(d.whole[i] - '0');
    for (size_t i = 0; i < d.fraction_count; i++)
        *k = *k * 10 + (uint32_t)(d.fraction[i] - '0');
    *places = (uint32_t)d.fraction_count;
    return true;
}

/* ---- bounds ---- */

static bool take_bound(struct schema *s, uint32_t node, bool open, bool low, struct bound *b) {
    struct bound next = {.set = true, .open = open};
    if (!node || tree_kind(&s->t, node) != TREE_NUMBER)
        return true;
    if (!decimal_read(tree_text(&s->t, node), &next.at)) {
        schema_fail(s, ERR_UNSUPPORTED, "a bound of numbers has too many digits");
        return false;
    }
    int order = b->set ? decimal_compare(&next.at, &b->at) : 0;
    if (!b->set || (low ? order > 0 : order < 0))
        *b = next;
    else if (order == 0)
        b->open |= open;
    return true;
}

static bool gather_range(struct schema *s, const conjunction *c, struct range *r) {
    for (size_t i = 0; i < c->count; i++) {
        uint32_t node = c->items[i].node;
        uint32_t low = tree_get(&s->t, node, "minimum"), high = tree_get(&s->t, node, "maximum");
        uint32_t above = tree_get(&s->t, node, "exclusiveMinimum");
        uint32_t below = tree_get(&s->t, node, "exclusiveMaximum");
        bool above_flag = tree_kind(&s->t, above) == TREE_TRUE; /* draft 4 */
        bool below_flag = tree_kind(&s->t, below) == TREE_TRUE;
        if (!take_bound(s, low, above_flag, true, &r->low) ||
            !take_bound(s, above, true, true, &r->low) ||
            !take_bound(s, high, below_flag, false, &r->high) ||
            !take_bound(s, below, true, false, &r->high))
            return false;
    }
    return true;
}

/* Of the numbers in have those that are written plainly, if there are any. */
static int keep_plain(struct schema *s, bool whole, struct dfa *have, struct error *err) {
    struct dfa plain, both;
    int rc = expr_to_dfa(s->b, expr_number(s->b, whole), false, &plain, err);
    if (rc)
        return rc;
    rc = dfa_and(have, &plain, &s->b->fuel, &both, err);
    dfa_release(&plain);
    if (rc)
        return rc;
    struct dfa *drop = dfa_is_empty(&both) ? &both : have, kept = drop == have ? both : *have;
    dfa_release(drop);
    *have = kept;
    return 0;
}

/* Takes from have the number that text is, however it is written: what is below it and what is above
 * it stays. Takes have where it fails. */
static int take_out(struct schema *s, struct bytes text, bool whole, struct dfa *have,
                    struct error *err) {
    struct range sides[2] = {{.high = {.set = true, .open = true}}};
    struct dfa side, others, both;
    struct nfa n = {0};
    uint32_t from = nfa_state(&n), to = nfa_state(&n);
    int rc = 0;
    n.labels.items[to] = 0;
    if (!decimal_read(text, &sides[0].high.at))
        rc = error_set(err, ERR_UNSUPPORTED, "keyword \"not\": a number has too many digits");
    sides[1].low = sides[0].high;
    for (size_t i = 0; i < 2 && !rc; i++) {
        rc = number_range_dfa(s, &sides[i], whole, &side, err);
        if (rc)
            break;
        nfa_add_dfa(&n, &side, nfa_edge, from, to);
        dfa_release(&side);
    }
    if (!rc)
        rc = dfa_from_nfa(&n, from, &s->b->fuel, &others, err);
    nfa_release(&n);
    if (!rc) {
        rc = dfa_and(have, &others, &s->b->fuel, &both, err);
        dfa_release(&others);
    }
    dfa_release(have);
    if (!rc)
        *have = both;
    return rc;
}

/* The numbers that members say a value is not; zeroes but for c. */
struct taken_out {
    const conjunction *c;
    size_t member;
    uint32_t node; /* the last one; 0: none yet of this member */
};

/* The next one; 0: none is left. */
static uint32_t taken_out_next(const struct schema *s, struct taken_out *w) {
    for (; w->member < w->c->count; w->member++) {
        uint32_t list = tree_get(&s->t, w->c->items[w->member].node, KEY_NOT_ENUM);
        w->node = w->node ? tree_next(&s->t, w->node) : tree_first(&s->t, list);
        while (w->node && tree_kind(&s->t, w->node) != TREE_NUMBER)
            w->node = tree_next(&s->t, w->node);
        if (w->node)
            return w->node;
    }
    return 0;
}

/* ---- one number, however it is written ---- */

enum { EXPONENTS_NEAR = 3 };

bool schema_number_plainly(struct bytes text, struct buf *out) {
    struct decimal *d = mem_alloc(sizeof *d);
    bool ok = decimal_read(text, d);
    if (ok && d->negative)
        buf_add_byte(out, '-');
    if (ok && !d->whole_count)
        buf_add_byte(out, '0');
    if (ok) {
        buf_add(out, d->whole, d->whole_count);
        if (d->fraction_count)
            buf_add_byte(out, '.');
        buf_add(out, d->fraction, d->fraction_count);
    }
    mem_free(d);
    return ok;
}

/* [eE] and what stands for this exponent; 0 need not be written. */
static uint32_t exponent_of(struct builder *b, long exponent) {
    static const struct code_range E[] = {{'E', 'E'}, {'e', 'e'}}, PLUS = {'+', '+'},
                                   SIGN[] = {{'+', '+'}, {'-', '-'}};
    char digits[24];
    snprintf(digits, sizeof digits, "%ld", labs(exponent));
    uint32_t sign = exponent > 0   ? expr_repeat(b, expr_chars(b, &PLUS, 1), 0, 1)
                    : exponent < 0 ? expr_text(b, "-")
                                   : expr_repeat(b, expr_chars(b, SIGN, 2), 0, 1);
    uint32_t zeros = expr_repeat(b, expr_text(b, "0"), 0, REPEAT_NO_END);
    uint32_t e =
        expr_concat(b, (uint32_t[]){expr_chars(b, E, 2), sign, zeros, expr_text(b, digits)}, 4);
    return exponent ? e : expr_repeat(b, e, 0, 1);
}

/* digits with the point behind so many of them, zeros where there are none, and more zeros behind
 * a fraction. */
static uint32_t mantissa(struct builder *b, bool negative, struct bytes digits, long point) {
    struct buf text = {0};
    uint32_t zero = expr_text(b, "0");
    if (negative)
        buf_add_byte(&text, '-');
    if (point <= 0)
        buf_add_str(&text, "0.");
    for (long i = point; i < 0; i++)
        buf_add_byte(&text, '0');
    for (long i = 0; i < MAX(point, (long)digits.len); i++) {
        if (i == point && i)
            buf_add_byte(&text, '.');
        buf_add_byte(&text, i < (long)digits.len ? digits.data[i] : '0');
    }
    bool whole = point >= (long)digits.len;
    uint32_t more = expr_repeat(b, zero, whole ? 1 : 0, REPEAT_NO_END);
    if (whole)
        more = expr_repeat(b, expr_concat(b, (uint32_t[]){expr_text(b, "."), more}, 2), 0, 1);
    uint32_t e = expr_concat(b, (uint32_t[]){expr_bytes(b, buf_bytes(&text)), more}, 2);
    buf_release(&text);
    return e;
}

/* 0 with any sign and exponent. */
static uint32_t any_zero(struct builder *b) {
    static const struct code_range E[] = {{'E', 'E'}, {'e', 'e'}}, DIGIT = {'0', '9'},
                                   SIGN[] = {{'+', '+'}, {'-', '-'}};
    uint32_t exponent =
        expr_concat(b,
                    (uint32_t[]){expr_chars(b, E, 2), expr_repeat(b, expr_chars(b, SIGN, 2), 0, 1),
                                 expr_repeat(b, expr_chars(b, &DIGIT, 1), 1, REPEAT_NO_END)},
                    3);
    return expr_concat(b,
                       (uint32_t[]){expr_repeat(b, expr_text(b, "-"), 0, 1),
                                    mantissa(b, false, bytes_str("0"), 1),
                                    expr_repeat(b, exponent, 0, 1)},
                       3);
}

uint32_t schema_number_expr(struct schema *s, struct bytes text, bool exponents) {
    struct decimal *d = mem_alloc(sizeof *d);
    struct buf digits = {0};
    uint32_t e = 0;
    if (s->b->plain || !decimal_read(text, d)) {
        e = expr_bytes(s->b, text);
    } else if (decimal_is_zero(d)) {
        e = any_zero(s->b);
    } else {
        /* the value is 0.DIGITS times ten to the power of `point`, neither end of DIGITS a 0 */
        size_t zeros = 0, end;
        buf_add(&digits, d->whole, d->whole_count);
        buf_add(&digits, d->fraction, d->fraction_count);
        while (digits.data[zeros] == '0')
            zeros++;
        for (end = digits.len; digits.data[end - 1] == '0';)
            end--;
        struct bytes own = bytes_of(digits.data + zeros, end - zeros);
        long point = (long)d->whole_count - (long)zeros, last = point - 1;
        VEC(uint32_t) forms = {0};
        for (long k = MIN(last, 0L) - EXPONENTS_NEAR; k <= MAX(last, 0L) + EXPONENTS_NEAR; k++) {
            bool near = labs(k) <= EXPONENTS_NEAR || labs(k - last) <= EXPONENTS_NEAR;
            if (k != 0 && !(exponents && near))
                continue;
            uint32_t form = mantissa(s->b, d->negative, own, point - k);
            if (exponents)
                form = expr_concat(s->b, (uint32_t[]){form, exponent_of(s->b, k)}, 2);
            vec_push(&forms, form);
        }
        e = forms.count == 1 ? forms.items[0] : expr_alt(s->b, forms.items, forms.count);
        vec_release(&forms);
    }
    buf_release(&digits);
    mem_free(d);
    return e;
}

/* ---- the leaf ---- */

/* Of the numbers in have those that are no integers, as far as that is seen: with a point and a digit
 * behind it other than 0, or below one by an exponent. Takes have where it fails. */
static int keep_fractions(struct schema *s, struct dfa *have, struct error *err) {
    static const char FRACTIONS[] = "-?(?:(?:0|[1-9]\\d*)\\.\\d*[1-9]\\d*|"
                                    "[1-9](?:\\.\\d+)?[eE]-0*[1-9]\\d*)";
    struct dfa more, both = {0};
    int rc = regex_to_dfa(s->b, bytes_str(FRACTIONS), true, &more, err);
    if (!rc) {
        rc = dfa_and(have, &more, &s->b->fuel, &both, err);
        dfa_release(&more);
    }
    dfa_release(have);
    *have = both;
    return rc;
}

/* What a "multipleOf" leaves of the numbers in have (not: what it refuses, of those without
 * exponents). Takes have where it fails. */
static int apply_divisor(struct schema *s, uint32_t node, bool not, struct dfa *have,
                         struct error *err) {
    uint32_t k = 0, places = 0;
    if (tree_kind(&s->t, node) != TREE_NUMBER ||
        !read_divisor(tree_text(&s->t, node), &k, &places)) {
        dfa_release(have);
        return error_set(err, ERR_UNSUPPORTED, "keyword \"multipleOf\" is too large or too fine");
    }
    if (!not )
        return keep_multiples(s, k, places, have, err);
    struct dfa plain, out, some = {0}, rest = {0};
    int rc = regex_to_dfa(s->b, bytes_str("[^eE]*"), true, &plain, err);
    if (!rc) {
        rc = dfa_and(have, &plain, &s->b->fuel, &some, err);
        dfa_release(&plain);
    }
    if (!rc)
        rc = multiple_dfa(s, k, places, &out, err);
    if (!rc) {
        rc = dfa_without(&some, &out, &s->b->fuel, &rest, err);
        dfa_release(&out);
    }
    dfa_release(&some);
    dfa_release(have);
    *have = rest;
    return rc;
}

uint32_t leaf_number(struct schema *s, const conjunction *c, uint32_t types) {
    static const char *const DIVISORS[] = {"multipleOf", KEY_NOT_MULTIPLE};
    struct range *r = mem_alloc(sizeof *r);
    struct dfa have;
    struct error err;
    struct taken_out asks = {.c = c}, out = {.c = c};
    bool whole = !(types & TYPE_FRACTION), fractions = !(types & TYPE_INTEGER);
    bool asked = fractions || taken_out_next(s, &asks) != 0;
    uint32_t e = 0;
    if (!gather_range(s, c, r))
        goto done;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < ARRAY_LEN(DIVISORS); k++)
            asked |= tree_get(&s->t, c->items[i].node, DIVISORS[k]) != 0;
    if (!r->low.set && !r->high.set && !asked) {
        e = expr_number(s->b, whole);
        goto done;
    }
    int rc = number_range_dfa(s, r, whole, &have, &err);
    if (!rc && whole && !s->b->plain)
        rc = keep_multiples(s, 1, 0, &have, &err);
    if (!rc && fractions)
        rc = keep_fractions(s, &have, &err);
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < ARRAY_LEN(DIVISORS) && !rc; k++) {
            uint32_t node = tree_get(&s->t, c->items[i].node, DIVISORS[k]);
            if (node)
                rc = apply_divisor(s, node, k == 1, &have, &err);
        }
    for (uint32_t k; !rc && (k = taken_out_next(s, &out)) != 0;)
        rc = take_out(s, tree_text(&s->t, k), whole, &have, &err);
    if (!rc && s->b->plain) {
        rc = keep_plain(s, whole, &have, &err);
        if (rc)
            dfa_release(&have);
    }
    e = rc ? schema_fail(s, rc, "%s", err.text) : expr_dfa(s->b, &have, EXPR_DFA);
done:
    mem_free(r);
    return e;
}
