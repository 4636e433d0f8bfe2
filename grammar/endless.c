/*
 * endless.c - whether an expression has more texts than anybody writes: then one more is always to
 * be had.
 */
#include "grammar/build.h"

/* Texts are counted up to here. */
enum { ENOUGH = 1 << 20, ON_THE_WAY = UINT32_MAX };

static uint32_t both(uint32_t a, uint32_t b) {
    return (uint32_t)MIN((uint64_t)a * b, (uint64_t)ENOUGH);
}

static uint32_t either(uint32_t a, uint32_t b) {
    return MIN(a + b, (uint32_t)ENOUGH);
}

/* Texts from a state on, of those labels that are not `dead` (NULL: of all). counts: 0 where they are
 * not known, else 1 + them. Where a circle closes they are enough, but for circles of zeros, with which
 * a number stays what it is, and for those from which nothing comes. */
static uint32_t dfa_texts(const struct dfa *d, const bool *dead, uint32_t state, uint32_t *counts,
                          uint32_t depth) {
    enum { DEPTH_MAX = 4096 };
    const struct dfa_state *s = &d->states.items[state];
    uint32_t sum = s->label != FA_NONE && !(dead && dead[s->label]);
    bool circles = false;
    if (depth == DEPTH_MAX)
        return ENOUGH;
    if (counts[state])
        return counts[state] - 1;
    counts[state] = ON_THE_WAY;
    for (uint32_t e = 0; e < s->edge_count && sum < ENOUGH; e++) {
        const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
        bool zero = edge->lo == '0' && edge->hi == '0', circle = counts[edge->to] == ON_THE_WAY;
        uint32_t width = MIN(edge->hi - edge->lo, (uint32_t)ENOUGH - 1) + 1;
        uint32_t behind = !circle ? dfa_texts(d, dead, edge->to, counts, depth + 1) : 0;
        circles |= circle && !zero;
        sum = either(sum, both(width, behind));
    }
    if (circles && (sum || !dead))
        sum = ENOUGH;
    counts[state] = sum + 1;
    return sum;
}

static uint32_t texts_of_dfa(const struct dfa *d, const bool *dead) {
    uint32_t *counts = mem_calloc(d->states.count + 1, sizeof *counts);
    uint32_t count = dfa_texts(d, dead, 0, counts, 0);
    mem_free(counts);
    return count;
}

/* Enough where a state that is passed early goes round by one of two symbols; else it is not known
 * that there is more than one. */
static uint32_t texts_of_counted(const struct dfa *d, uint32_t max) {
    enum { ROUNDS = 20 }; /* 2^20 texts */
    for (uint32_t i = 0; i < d->states.count && max >= d->states.count + ROUNDS; i++)
        for (uint32_t e = 0; e < d->states.items[i].edge_count; e++) {
            const struct fa_edge *edge = &d->edges.items[d->states.items[i].edge_first + e];
            if (edge->to == i && edge->hi > edge->lo)
                return ENOUGH;
        }
    return 1;
}

static uint32_t repeated(uint32_t once, uint32_t min, uint32_t max) {
    uint32_t sum = 0, power = 1;
    if (max == REPEAT_NO_END)
        return once ? ENOUGH : min == 0;
    if (once <= 1)
        return once ? either(max - min, 1) : min == 0;
    for (uint32_t i = 0; i <= max && sum < ENOUGH; i++, power = both(power, once))
        sum = i >= min ? either(sum, power) : power == ENOUGH ? ENOUGH : sum;
    return sum;
}

static uint32_t texts_of(const struct builder *b, uint32_t e, uint32_t *rules, uint32_t depth);

/* rules: as counts above. A rule that is not known yet leads to itself. */
static uint32_t texts_of_rule(const struct builder *b, uint32_t rule, uint32_t *rules,
                              uint32_t depth) {
    if (rules[rule] == ON_THE_WAY || b->rules.items[rule] == EXPR_NOT_SET)
        return ENOUGH;
    if (!rules[rule]) {
        rules[rule] = ON_THE_WAY;
        uint32_t count = texts_of(b, b->rules.items[rule], rules, depth + 1);
        rules[rule] = count + 1;
    }
    return rules[rule] - 1;
}

/* Of an object: as many as its member with the most has values, or as there are keys that come as often
 * as one likes. Labels that have no value are of keys that may not come. */
static uint32_t texts_of_object(const struct builder *b, const struct object_rules *o,
                                uint32_t *rules, uint32_t depth) {
    bool *dead = mem_calloc(o->values.count + 1, sizeof *dead), open = false;
    uint32_t count = 1;
    for (uint32_t i = 0; i < o->values.count && o->count_max && count < ENOUGH; i++) {
        uint32_t values = texts_of_rule(b, o->values.items[i], rules, depth);
        count = MAX(count, values);
        dead[i] = !values || i < o->property_count;
        open |= !dead[i];
    }
    if (open && count < ENOUGH)
        count = MAX(count, texts_of_dfa(&o->keys, dead));
    mem_free(dead);
    return count;
}

/* depth bounds the recursion. */
static uint32_t texts_of(const struct builder *b, uint32_t e, uint32_t *rules, uint32_t depth) {
    enum { DEPTH_MAX = 1000 };
    const struct expr x = b->exprs.items[e];
    uint32_t count = x.kind == EXPR_CONCAT;
    if (depth == DEPTH_MAX)
        return ENOUGH;
    if (e == b->space) /* says nothing */
        return 1;
    switch ((enum expr_kind)x.kind) {
    case EXPR_NEVER: return 0;
    case EXPR_EMPTY:
    case EXPR_BYTES: return 1;
    case EXPR_CHARS:
        for (uint32_t i = 0; i < x.b; i++)
            count = either(count, MIN(b->ranges.items[x.a + i].hi - b->ranges.items[x.a + i].lo,
                                      (uint32_t)ENOUGH - 1) +
                                      1);
        return count;
    case EXPR_CONCAT:
        for (uint32_t i = 0; i < x.b; i++)
            count = both(count, texts_of(b, b->kids.items[x.a + i], rules, depth + 1));
        return count;
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b && count < ENOUGH; i++)
            count = either(count, texts_of(b, b->kids.items[x.a + i], rules, depth + 1));
        return count;
    case EXPR_REPEAT: return repeated(texts_of(b, x.a, rules, depth + 1), x.b, x.c);
    case EXPR_RULE: return texts_of_rule(b, x.a, rules, depth);
    case EXPR_DFA:
    case EXPR_QUOTED: return texts_of_dfa(&b->dfas.items[x.a], NULL);
    case EXPR_COUNTED: return texts_of_counted(&b->dfas.items[x.a], x.b);
    case EXPR_STRING: return x.b ? ENOUGH : 1; /* there are more characters than that */
    case EXPR_OBJECT: return texts_of_object(b, &b->objects.items[x.a], rules, depth);
    case EXPR_UNIQUE:
    case EXPR_ITEM: return texts_of(b, x.a, rules, depth + 1);
    }
    return 0;
}

bool expr_is_endless(const struct builder *b, uint32_t term) {
    uint32_t *rules = mem_calloc(b->rules.count + 1, sizeof *rules);
    uint32_t count = texts_of(b, term, rules, 0);
    mem_free(rules);
    return count >= ENOUGH;
}
