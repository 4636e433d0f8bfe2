/*
 * regex_counts.c - large counts of a pattern that need not be written out as states.
 */
#include "grammar/regex_internal.h"

/* ---- a count that is the text's length ---- */

/* The length of all texts of an expression without marks; FA_NONE: they differ, or it has some. */
static uint32_t fixed_length(const struct builder *b, uint32_t e, uint32_t depth) {
    const struct expr x = b->exprs.items[e];
    uint64_t sum = 0;
    if (depth > b->limits.depth)
        return FA_NONE;
    switch ((enum expr_kind)x.kind) {
    case EXPR_EMPTY: return 0;
    case EXPR_CHARS: return b->ranges.items[x.a].lo <= CODE_MAX ? 1 : FA_NONE;
    case EXPR_CONCAT:
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b; i++) {
            uint32_t length = fixed_length(b, b->kids.items[x.a + i], depth + 1);
            if (length == FA_NONE || (x.kind == EXPR_ALT && i && length != sum))
                return FA_NONE;
            sum = x.kind == EXPR_ALT ? length : sum + length;
        }
        break;
    case EXPR_REPEAT:
        sum = fixed_length(b, x.a, depth + 1);
        if (sum == FA_NONE || x.b != x.c)
            return FA_NONE;
        sum *= x.b;
        break;
    default: return FA_NONE;
    }
    return sum < FA_NONE ? (uint32_t)sum : FA_NONE;
}

static bool is_mark(const struct builder *b, uint32_t e, uint32_t mark) {
    const struct expr x = b->exprs.items[e];
    return x.kind == EXPR_CHARS && b->ranges.items[x.a].lo == mark;
}

/* Up to many single characters. */
static bool is_count(const struct builder *b, struct expr x) {
    enum { COUNT_MIN = 64 };
    return x.kind == EXPR_REPEAT && x.c != REPEAT_NO_END && x.c >= COUNT_MIN &&
           fixed_length(b, x.a, 0) == 1;
}

/* ^AX{m,n}B$, where X is a character, n is large, and the texts of A and of B have one length: it is
 * ^AX{m,}B$ of at most |A| + n + |B| characters. */
uint32_t regex_count_by_length(struct reader *r, uint32_t e) {
    struct builder *b = r->b;
    const struct expr all = b->exprs.items[e];
    uint64_t others = 0;
    uint32_t at = FA_NONE;
    if (all.kind != EXPR_CONCAT || !is_mark(b, b->kids.items[all.a], MARK_BEGIN) ||
        !is_mark(b, b->kids.items[all.a + all.b - 1], MARK_END))
        return e;
    for (uint32_t i = 1; i + 1 < all.b; i++) {
        uint32_t kid = b->kids.items[all.a + i], length = fixed_length(b, kid, 0);
        const struct expr x = b->exprs.items[kid];
        bool counts = is_count(b, x);
        if (length != FA_NONE)
            others += length;
        else if (counts && at == FA_NONE)
            at = i;
        else
            return e;
    }
    if (at == FA_NONE)
        return e;
    const struct expr x = b->exprs.items[b->kids.items[all.a + at]];
    VEC(uint32_t) kids = {0}; /* the builder's list moves while it grows */
    for (uint32_t i = 0; i < all.b; i++)
        vec_push(&kids, b->kids.items[all.a + i]);
    kids.items[at] = expr_repeat(b, x.a, x.b, REPEAT_NO_END);
    r->longest = (uint32_t)MIN(r->longest, others + x.c);
    e = expr_concat(b, kids.items, kids.count);
    vec_release(&kids);
    return e;
}

/* ---- a count that begins at one place ---- */

static bool has_marks(const struct builder *b, uint32_t e, uint32_t depth) {
    const struct expr x = b->exprs.items[e];
    bool has = depth > b->limits.depth;
    if (x.kind == EXPR_CHARS)
        for (uint32_t i = 0; i < x.b && !has; i++)
            has = b->ranges.items[x.a + i].hi > CODE_MAX;
    if (x.kind == EXPR_REPEAT)
        has = has || has_marks(b, x.a, depth + 1);
    if (x.kind == EXPR_CONCAT || x.kind == EXPR_ALT)
        for (uint32_t i = 0; i < x.b && !has; i++)
            has = has_marks(b, b->kids.items[x.a + i], depth + 1);
    return has;
}

/* No text that it accepts begins with another. */
static bool is_prefix_free(const struct dfa *d) {
    for (size_t i = 0; i < d->states.count; i++)
        if (d->states.items[i].label != FA_NONE && d->states.items[i].edge_count)
            return false;
    return true;
}

/* The kids [from, until) of an expression as an automaton's. */
static int kids_dfa(struct reader *r, struct expr all, uint32_t from, uint32_t until,
                    struct dfa *out) {
    struct builder *b = r->b;
    VEC(uint32_t) kids = {0}; /* the builder's list moves while it grows */
    for (uint32_t i = from; i < until; i++)
        vec_push(&kids, b->kids.items[all.a + i]);
    uint32_t e = expr_concat(b, kids.items, kids.count);
    vec_release(&kids);
    return expr_to_dfa(b, e, false, out, r->err);
}

int regex_split_count(struct reader *r, uint32_t e, uint32_t *out) {
    struct builder *b = r->b;
    const struct expr all = b->exprs.items[e];
    uint32_t first = 0, until = all.b, terms[3];
    struct dfa front, back;
    *out = FA_NONE;
    if (all.kind == EXPR_REPEAT && is_count(b, all)) {
        *out = e;
        return 0;
    }
    if (all.kind != EXPR_CONCAT)
        return 0;
    first += is_mark(b, b->kids.items[all.a], MARK_BEGIN);
    until -= until > first && is_mark(b, b->kids.items[all.a + until - 1], MARK_END);
    uint32_t at = first;
    for (uint32_t i = first; i < until; i++)
        if (has_marks(b, b->kids.items[all.a + i], 0))
            return 0;
    while (at < until && !is_count(b, b->exprs.items[b->kids.items[all.a + at]]))
        at++;
    if (at == until)
        return 0;
    int rc = kids_dfa(r, all, first, at, &front);
    if (rc || !is_prefix_free(&front)) {
        dfa_release(&front);
        return rc;
    }
    rc = kids_dfa(r, all, at + 1, until, &back);
    terms[0] = expr_dfa(b, &front, EXPR_DFA);
    terms[1] = b->kids.items[all.a + at];
    if (rc)
        return rc;
    terms[2] = expr_dfa(b, &back, EXPR_DFA);
    *out = expr_concat(b, terms, ARRAY_LEN(terms));
    return 0;
}
