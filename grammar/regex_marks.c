/*
 * regex_marks.c - from the marked texts of a pattern to its texts.
 *
 * The marks of lookarounds go first: of the marked texts those are taken away in which some mark of a
 * lookaround does not hold. Word boundaries are one more automaton, of the last character's kind and of
 * what the next one must be. The rest, ^ and $, are looked after while all marks are taken out.
 */
#include "grammar/fa_internal.h"
#include "grammar/regex_internal.h"

uint32_t regex_anything(struct builder *b) {
    return expr_repeat(b, expr_chars(b, &(struct code_range){0, CODE_MAX}, 1), 0, REPEAT_NO_END);
}

/* Whether an edge is over some symbol of lo to hi. */
static bool is_over(const struct fa_edge *edge, uint32_t lo, uint32_t hi) {
    return edge->lo <= hi && edge->hi >= lo;
}

/* Whether an edge of d is over one of these symbols. */
static bool has_symbols(const struct dfa *d, uint32_t lo, uint32_t hi) {
    for (size_t i = 0; i < d->edges.count; i++)
        if (is_over(&d->edges.items[i], lo, hi))
            return true;
    return false;
}

/* Puts what is left of d and b into d; b is released. */
static int take_away(struct reader *r, struct dfa *d, struct dfa *b, bool common) {
    struct dfa rest;
    int rc = common ? dfa_and(d, b, &r->b->fuel, &rest, r->err)
                    : dfa_without(d, b, &r->b->fuel, &rest, r->err);
    dfa_release(d);
    dfa_release(b);
    *d = rc ? (struct dfa){0} : rest;
    return rc;
}

/* ---- lookarounds ---- */

/* Texts with one MARK_PLACE, at which the lookaround does not hold. */
static int find_failing(struct reader *r, uint32_t idx, struct dfa *out) {
    struct look look = r->looks.items[idx];
    struct dfa holds, all;
    uint32_t any = regex_anything(r->b);
    uint32_t place = expr_chars(r->b, &(struct code_range){MARK_PLACE, MARK_PLACE}, 1);
    uint32_t found = expr_concat(
        r->b, (uint32_t[]){any, look.behind ? look.expr : place, look.behind ? place : look.expr},
        3);
    uint32_t anywhere = expr_concat(r->b, (uint32_t[]){any, place}, 2);
    *out = (struct dfa){0};
    if (r->b->failed)
        return error_set(r->err, r->b->error.code, "%s", r->b->error.text);
    int rc = regex_resolve(r, found, true, idx, &holds);
    if (rc || look.negative) {
        *out = rc ? (struct dfa){0} : holds;
        return rc;
    }
    rc = expr_to_dfa(r->b, anywhere, true, &all, r->err);
    if (rc) {
        dfa_release(&holds);
        return rc;
    }
    rc = take_away(r, &all, &holds, false);
    *out = all;
    return rc;
}

/* Of the marked texts of d, those in which some mark of the lookaround does not hold: pairs of a state
 * of d and one of `failing`, for which one such mark is its place, and all other marks say nothing. */
struct pairs {
    const struct dfa *d, *failing;
    uint32_t look; /* the symbol of the mark */
    struct nfa n;
    uint32_t *states;         /* [states of d][states of failing]: that of n, or FA_NONE */
    VEC(struct fa_edge) open; /* state of d, of failing, of n: to be looked at */
};

static uint32_t pair_state(struct pairs *p, uint32_t a, uint32_t b) {
    uint32_t *at = &p->states[(size_t)a * p->failing->states.count + b];
    if (*at != FA_NONE)
        return *at;
    *at = nfa_state(&p->n);
    if (p->d->states.items[a].label != FA_NONE)
        p->n.labels.items[*at] = p->failing->states.items[b].label;
    vec_push(&p->open, ((struct fa_edge){a, b, *at}));
    return *at;
}

/* The edges of a pair; those of both sides are sorted by their symbols. */
static void add_pair(struct pairs *p, uint32_t a, uint32_t b, uint32_t from) {
    const struct dfa_state *x = &p->d->states.items[a], *y = &p->failing->states.items[b];
    uint32_t next = 0, place = dfa_step(p->failing, b, MARK_PLACE);
    for (uint32_t i = 0; i < x->edge_count; i++) {
        struct fa_edge e = p->d->edges.items[x->edge_first + i];
        const struct fa_edge *other = &p->failing->edges.items[y->edge_first];
        while (next < y->edge_count && other[next].hi < e.lo)
            next++;
        for (uint32_t k = next; k < y->edge_count && other[k].lo <= MIN(e.hi, CODE_MAX); k++)
            nfa_edge(&p->n, from, MAX(e.lo, other[k].lo), MIN(e.hi, other[k].hi),
                     pair_state(p, e.to, other[k].to));
        if (e.hi > CODE_MAX)
            nfa_edge(&p->n, from, MAX(e.lo, (uint32_t)MARK_BEGIN), e.hi, pair_state(p, e.to, b));
        if (e.lo <= p->look && e.hi >= p->look && place != FA_NONE)
            nfa_edge(&p->n, from, p->look, p->look, pair_state(p, e.to, place));
    }
}

static int mark_failing(struct reader *r, uint32_t idx, const struct dfa *d,
                        const struct dfa *failing, struct dfa *out) {
    enum { PAIRS_OF_A_STATE = 16, EDGES_OF_A_STATE = 16 };
    struct pairs p = {.d = d, .failing = failing, .look = MARK_LOOK + idx};
    uint64_t count = (uint64_t)d->states.count * failing->states.count;
    int rc = fa_burn(&r->b->fuel, count / PAIRS_OF_A_STATE, r->err);
    if (rc)
        return rc;
    p.states = mem_alloc(count * sizeof *p.states);
    for (size_t i = 0; i < count; i++)
        p.states[i] = FA_NONE;
    uint32_t start = pair_state(&p, 0, 0);
    while (p.open.count && !rc) {
        struct fa_edge at = p.open.items[--p.open.count];
        size_t edges = p.n.edges.count;
        add_pair(&p, at.lo, at.hi, at.to);
        rc = fa_burn(&r->b->fuel, (p.n.edges.count - edges) / EDGES_OF_A_STATE, r->err);
    }
    if (!rc)
        rc = dfa_from_nfa(&p.n, start, &r->b->fuel, out, r->err);
    nfa_release(&p.n);
    mem_free(p.states);
    vec_release(&p.open);
    return rc;
}

static int apply_look(struct reader *r, uint32_t idx, struct dfa *d) {
    struct dfa failing, marked;
    int rc = find_failing(r, idx, &failing);
    if (rc)
        return rc;
    rc = mark_failing(r, idx, d, &failing, &marked);
    dfa_release(&failing);
    return rc ? rc : take_away(r, d, &marked, false);
}

/* ---- word boundaries ---- */

/* What the next character must be. */
enum next_kind { NEXT_ANY, NEXT_WORD, NEXT_OTHER, NEXT_KINDS };

/* A state for what the last character was (1: one of a word) and what the next one must be. */
static uint32_t boundary_state(bool word, enum next_kind next) {
    return (uint32_t)word * NEXT_KINDS + next;
}

/* Marked texts in which all \b and \B hold. */
static int make_boundaries(struct reader *r, struct dfa *out) {
    code_range_vec kinds[2] = {{0}};
    struct nfa n = {0};
    regex_add_letter(&kinds[0], 'W');
    regex_add_letter(&kinds[1], 'w');
    for (uint32_t i = 0; i < 2 * NEXT_KINDS; i++)
        (void)nfa_state(&n);
    for (int word = 0; word < 2; word++)
        for (int next = 0; next < NEXT_KINDS; next++) {
            uint32_t state = boundary_state(word, next);
            n.labels.items[state] = next == NEXT_WORD ? FA_NONE : 0;
            for (int kind = 0; kind < 2; kind++) {
                if (next == (kind ? NEXT_OTHER : NEXT_WORD))
                    continue;
                for (size_t i = 0; i < kinds[kind].count; i++)
                    nfa_edge(&n, state, kinds[kind].items[i].lo, kinds[kind].items[i].hi,
                             boundary_state(kind, NEXT_ANY));
            }
            for (uint32_t mark = MARK_BOUNDARY; mark <= MARK_WITHIN; mark++) {
                int must = word == (mark == MARK_BOUNDARY) ? NEXT_OTHER : NEXT_WORD;
                if (next == NEXT_ANY || next == must)
                    nfa_edge(&n, state, mark, mark, boundary_state(word, must));
            }
            nfa_edge(&n, state, MARK_BEGIN, MARK_END, state);
            nfa_edge(&n, state, MARK_PLACE, MARK_MAX, state);
        }
    int rc = dfa_from_nfa(&n, 0, &r->b->fuel, out, r->err);
    nfa_release(&n);
    vec_release(&kinds[0]);
    vec_release(&kinds[1]);
    return rc;
}

/* ---- taking the marks out ---- */

/* What has come of a text: nothing, something, all of it, all of the empty one. */
enum phase { AT_BEGIN, IN_TEXT, AT_END, AT_BOTH, PHASES };

struct strip {
    const struct dfa *d;
    struct nfa n;
    uint32_t *states;         /* [PHASES][states of d]: that of n, or FA_NONE */
    VEC(struct fa_edge) open; /* phase, state of d, state of n: to be looked at */
};

static uint32_t strip_state(struct strip *s, enum phase phase, uint32_t state) {
    uint32_t *at = &s->states[phase * s->d->states.count + state];
    if (*at != FA_NONE)
        return *at;
    *at = nfa_state(&s->n);
    s->n.labels.items[*at] = s->d->states.items[state].label;
    vec_push(&s->open, ((struct fa_edge){phase, state, *at}));
    return *at;
}

static void strip_edge(struct strip *s, enum phase phase, uint32_t from, const struct fa_edge *e) {
    static const enum phase ENDED[] = {AT_BOTH, AT_END, AT_END, AT_BOTH};
    bool begins = phase == AT_BEGIN || phase == AT_BOTH, goes_on = phase <= IN_TEXT;
    if (e->lo <= CODE_MAX && goes_on)
        nfa_edge(&s->n, from, e->lo, MIN(e->hi, (uint32_t)CODE_MAX),
                 strip_state(s, IN_TEXT, e->to));
    if (is_over(e, MARK_PLACE, MARK_PLACE))
        nfa_edge(&s->n, from, MARK_PLACE, MARK_PLACE, strip_state(s, phase, e->to));
    if (is_over(e, MARK_END, MARK_END))
        nfa_free_edge(&s->n, from, strip_state(s, ENDED[phase], e->to));
    if ((is_over(e, MARK_BEGIN, MARK_BEGIN) && begins) || is_over(e, MARK_BOUNDARY, MARK_WITHIN) ||
        is_over(e, MARK_LOOK, MARK_MAX))
        nfa_free_edge(&s->n, from, strip_state(s, phase, e->to));
}

/* Takes all marks out of d but MARK_PLACE, of the texts in which ^ and $ hold. */
static int strip_marks(struct reader *r, struct dfa *d) {
    size_t count = PHASES * d->states.count;
    struct strip s = {.d = d, .states = mem_alloc(count * sizeof *s.states)};
    struct dfa out;
    for (size_t i = 0; i < count; i++)
        s.states[i] = FA_NONE;
    uint32_t start = strip_state(&s, AT_BEGIN, 0);
    while (s.open.count) {
        struct fa_edge at = s.open.items[--s.open.count];
        const struct dfa_state *state = &d->states.items[at.hi];
        for (uint32_t e = 0; e < state->edge_count; e++)
            strip_edge(&s, (enum phase)at.lo, at.to, &d->edges.items[state->edge_first + e]);
    }
    int rc = dfa_from_nfa(&s.n, start, &r->b->fuel, &out, r->err);
    nfa_release(&s.n);
    mem_free(s.states);
    vec_release(&s.open);
    dfa_release(d);
    *d = rc ? (struct dfa){0} : out;
    return rc;
}

int regex_resolve(struct reader *r, uint32_t expr, bool found, uint32_t scope, struct dfa *out) {
    struct dfa boundaries;
    int rc = expr_to_dfa(r->b, expr, found, out, r->err);
    for (uint32_t i = 0; i < r->looks.count && !rc; i++)
        if (r->looks.items[i].scope == scope)
            rc = apply_look(r, i, out);
    if (!rc && has_symbols(out, MARK_BOUNDARY, MARK_WITHIN)) {
        rc = make_boundaries(r, &boundaries);
        if (!rc)
            rc = take_away(r, out, &boundaries, true);
    }
    if (!rc && (has_symbols(out, MARK_BEGIN, MARK_WITHIN) || has_symbols(out, MARK_LOOK, MARK_MAX)))
        rc = strip_marks(r, out);
    if (rc)
        dfa_release(out);
    return rc;
}
