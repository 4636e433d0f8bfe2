/*
 * fa.c - subset construction, products, and Moore's minimisation by hashed signatures.
 *
 * Subsets are kept sorted in one pool and found by their hash. The symbols that leave a subset are
 * cut at every edge's ends, so each piece goes to one subset. Minimisation refines classes until
 * their number stands still; edges of a state are kept merged, so equal states have equal lists.
 */
#include "grammar/fa.h"

#include "base/hash.h"

#include <stdlib.h>

void nfa_release(struct nfa *n) {
    vec_release(&n->first);
    vec_release(&n->labels);
    vec_release(&n->edges);
}

uint32_t nfa_state(struct nfa *n) {
    vec_push(&n->first, FA_NONE);
    vec_push(&n->labels, FA_NONE);
    return (uint32_t)n->first.count - 1;
}

static void add_edge(struct nfa *n, uint32_t from, struct nfa_edge edge) {
    edge.next = n->first.items[from];
    vec_push(&n->edges, edge);
    n->first.items[from] = (uint32_t)n->edges.count - 1;
}

void nfa_edge(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
    CHECK(lo <= hi);
    add_edge(n, from, (struct nfa_edge){.lo = lo, .hi = hi, .to = to});
}

void nfa_free_edge(struct nfa *n, uint32_t from, uint32_t to) {
    add_edge(n, from, (struct nfa_edge){.lo = 1, .hi = 0, .to = to});
}

void dfa_release(struct dfa *d) {
    vec_release(&d->states);
    vec_release(&d->edges);
}

static int out_of_fuel(struct error *err) {
    return error_set(err, ERR_LIMIT, "the pattern or grammar needs too many states");
}

/* ---- sets of words, interned ---- */

typedef VEC(uint32_t) word_vec;

struct span {
    uint32_t first, count;
};
struct interner {
    word_vec pool;
    VEC(struct span) sets;
    uint32_t *slots; /* [cap] of set + 1 */
    size_t cap;
};

static void interner_release(struct interner *t) {
    vec_release(&t->pool);
    vec_release(&t->sets);
    mem_free(t->slots);
}

static void interner_grow(struct interner *t) {
    size_t cap = t->cap ? t->cap * 2 : 64;
    uint32_t *slots = mem_calloc(cap, sizeof *slots);
    for (uint32_t i = 0; i < t->sets.count; i++) {
        struct span s = t->sets.items[i];
        size_t at = hash64(t->pool.items + s.first, s.count * sizeof(uint32_t), 0) & (cap - 1);
        while (slots[at])
            at = (at + 1) & (cap - 1);
        slots[at] = i + 1;
    }
    mem_free(t->slots);
    t->slots = slots;
    t->cap = cap;
}

/* The number of the set of these words; *fresh when it is new. */
static uint32_t intern(struct interner *t, const uint32_t *words, size_t count, bool *fresh) {
    if (t->sets.count * 2 >= t->cap)
        interner_grow(t);
    size_t size = count * sizeof *words;
    size_t at = hash64(words, size, 0) & (t->cap - 1);
    for (; t->slots[at]; at = (at + 1) & (t->cap - 1)) {
        struct span s = t->sets.items[t->slots[at] - 1];
        if (s.count == count && (!count || !memcmp(t->pool.items + s.first, words, size))) {
            *fresh = false;
            return t->slots[at] - 1;
        }
    }
    struct span s = {(uint32_t)t->pool.count, (uint32_t)count};
    vec_reserve(&t->pool, t->pool.count + count);
    if (count)
        memcpy(t->pool.items + t->pool.count, words, size);
    t->pool.count += count;
    vec_push(&t->sets, s);
    t->slots[at] = (uint32_t)t->sets.count;
    *fresh = true;
    return (uint32_t)t->sets.count - 1;
}

static int compare_words(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static size_t sort_unique(uint32_t *words, size_t count) {
    if (count > 1)
        qsort(words, count, sizeof *words, compare_words);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || words[kept - 1] != words[i])
            words[kept++] = words[i];
    return kept;
}

/* ---- minimisation and trimming ---- */

/* Adds an edge behind the last one of the state being made, joined with it where they meet. */
static void push_edge(struct dfa *d, size_t first, uint32_t lo, uint32_t hi, uint32_t to) {
    if (d->edges.count > first) {
        struct fa_edge *last = &d->edges.items[d->edges.count - 1];
        if (last->to == to && last->hi + 1 == lo && lo != FA_ACTION && hi < FA_ACTION) {
            last->hi = hi;
            return;
        }
    }
    vec_push(&d->edges, ((struct fa_edge){lo, hi, to}));
}

/* live[i]: an accepting state can be reached from i. */
static void find_live(const struct dfa *d, bool *live) {
    size_t count = d->states.count;
    uint32_t *into = mem_calloc(count + 1, sizeof *into);
    uint32_t *from = mem_calloc(d->edges.count + 1, sizeof *from);
    word_vec work = {0};
    for (size_t i = 0; i < d->edges.count; i++)
        into[d->edges.items[i].to + 1]++;
    for (size_t i = 0; i < count; i++)
        into[i + 1] += into[i];
    uint32_t *at = mem_calloc(count + 1, sizeof *at);
    memcpy(at, into, (count + 1) * sizeof *at);
    for (uint32_t s = 0; s < count; s++) {
        const struct dfa_state *state = &d->states.items[s];
        for (uint32_t e = 0; e < state->edge_count; e++)
            from[at[d->edges.items[state->edge_first + e].to]++] = s;
        live[s] = state->label != FA_NONE;
        if (live[s])
            vec_push(&work, s);
    }
    while (work.count) {
        uint32_t s = work.items[--work.count];
        for (uint32_t e = into[s]; e < into[s + 1]; e++)
            if (!live[from[e]]) {
                live[from[e]] = true;
                vec_push(&work, from[e]);
            }
    }
    mem_free(into);
    mem_free(from);
    mem_free(at);
    vec_release(&work);
}

/* One round of Moore: classes by (label, edges to classes of the round before), edges to dead
 * states left out. Returns the number of classes. */
static uint32_t refine(const struct dfa *d, const bool *live, const uint32_t *old, uint32_t *new,
                       word_vec *words) {
    struct interner t = {0};
    bool fresh;
    for (uint32_t s = 0; s < d->states.count; s++) {
        if (!live[s])
            continue;
        const struct dfa_state *state = &d->states.items[s];
        words->count = 0;
        vec_push(words, state->label);
        vec_push(words, old[s]);
        for (uint32_t e = 0; e < state->edge_count; e++) {
            const struct fa_edge *edge = &d->edges.items[state->edge_first + e];
            if (!live[edge->to])
                continue;
            uint32_t to = old[edge->to];
            uint32_t *last = words->count > 2 ? &words->items[words->count - 3] : NULL;
            if (last && last[2] == to && last[1] + 1 == edge->lo && edge->hi < FA_ACTION) {
                last[1] = edge->hi;
                continue;
            }
            vec_push(words, edge->lo);
            vec_push(words, edge->hi);
            vec_push(words, to);
        }
        new[s] = intern(&t, words->items, words->count, &fresh);
    }
    uint32_t count = (uint32_t)t.sets.count;
    interner_release(&t);
    return count;
}

static void minimise(struct dfa *d) {
    size_t count = d->states.count;
    bool *live = mem_calloc(count, sizeof *live);
    uint32_t *old = mem_calloc(count, sizeof *old), *new = mem_calloc(count, sizeof *new);
    word_vec words = {0};
    find_live(d, live);
    live[0] = true;
    for (uint32_t before = 0, now = 1; now != before;) {
        before = now;
        now = refine(d, live, old, new, &words);
        uint32_t *swap = old;
        old = new;
        new = swap;
    }
    /* Numbers in order of first visit from the start, so that state 0 stays state 0. */
    uint32_t *number = mem_alloc((count + 1) * sizeof *number);
    memset(number, 0xff, (count + 1) * sizeof *number);
    struct dfa out = {0};
    word_vec order = {0};
    number[old[0]] = 0;
    vec_push(&order, 0);
    for (size_t i = 0; i < order.count; i++) {
        const struct dfa_state state = d->states.items[order.items[i]];
        size_t first = out.edges.count;
        for (uint32_t e = 0; e < state.edge_count; e++) {
            struct fa_edge edge = d->edges.items[state.edge_first + e];
            if (!live[edge.to])
                continue;
            uint32_t class = old[edge.to];
            if (number[class] == FA_NONE) {
                number[class] = (uint32_t)order.count;
                vec_push(&order, edge.to);
            }
            push_edge(&out, first, edge.lo, edge.hi, number[class]);
        }
        vec_push(&out.states,
                 ((struct dfa_state){(uint32_t)first, (uint32_t)(out.edges.count - first),
                                     state.label}));
    }
    dfa_release(d);
    *d = out;
    mem_free(live);
    mem_free(old);
    mem_free(new);
    mem_free(number);
    vec_release(&words);
    vec_release(&order);
}

/* ---- subset construction ---- */

struct subset_work {
    const struct nfa *n;
    uint32_t *mark; /* [states] the round that has the state */
    uint32_t round;
    word_vec set, stack, cuts;
    VEC(struct fa_edge) edges;
};

static void close_set(struct subset_work *w) {
    w->round++;
    w->stack.count = 0;
    size_t given = w->set.count;
    for (size_t i = 0; i < given; i++) {
        w->mark[w->set.items[i]] = w->round;
        vec_push(&w->stack, w->set.items[i]);
    }
    while (w->stack.count) {
        uint32_t s = w->stack.items[--w->stack.count];
        for (uint32_t e = w->n->first.items[s]; e != FA_NONE; e = w->n->edges.items[e].next) {
            const struct nfa_edge *edge = &w->n->edges.items[e];
            if (edge->lo <= edge->hi || w->mark[edge->to] == w->round)
                continue;
            w->mark[edge->to] = w->round;
            vec_push(&w->set, edge->to);
            vec_push(&w->stack, edge->to);
        }
    }
    w->set.count = sort_unique(w->set.items, w->set.count);
}

static int compare_edges(const void *a, const void *b) {
    const struct fa_edge *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* The edges that leave a set, sorted, and the symbols where any of them begins or has ended. */
static void gather_edges(struct subset_work *w, const uint32_t *set, size_t count) {
    w->edges.count = 0;
    w->cuts.count = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t e = w->n->first.items[set[i]]; e != FA_NONE; e = w->n->edges.items[e].next) {
            const struct nfa_edge *edge = &w->n->edges.items[e];
            if (edge->lo > edge->hi)
                continue;
            vec_push(&w->edges, ((struct fa_edge){edge->lo, edge->hi, edge->to}));
            vec_push(&w->cuts, edge->lo);
            vec_push(&w->cuts, edge->hi + 1);
        }
    w->cuts.count = sort_unique(w->cuts.items, w->cuts.count);
    if (w->edges.count > 1)
        qsort(w->edges.items, w->edges.count, sizeof *w->edges.items, compare_edges);
}

static uint32_t set_label(const struct nfa *n, const uint32_t *set, size_t count) {
    uint32_t label = FA_NONE;
    for (size_t i = 0; i < count; i++)
        label = MIN(label, n->labels.items[set[i]]);
    return label;
}

int dfa_from_nfa(const struct nfa *n, uint32_t start, struct fa_fuel *fuel, struct dfa *out,
                 struct error *err) {
    struct subset_work w = {.n = n};
    struct interner t = {0};
    bool fresh;
    int rc = 0;
    w.mark = mem_calloc(n->first.count + 1, sizeof *w.mark);
    *out = (struct dfa){0};
    vec_push(&w.set, start);
    close_set(&w);
    (void)intern(&t, w.set.items, w.set.count, &fresh);
    for (uint32_t i = 0; i < t.sets.count && !rc; i++) {
        struct span s = t.sets.items[i];
        gather_edges(&w, t.pool.items + s.first, s.count);
        struct dfa_state state = {(uint32_t)out->edges.count, 0,
                                  set_label(n, t.pool.items + s.first, s.count)};
        size_t from = 0;
        for (size_t c = 0; c + 1 < w.cuts.count && !rc; c++) {
            uint32_t lo = w.cuts.items[c], hi = w.cuts.items[c + 1] - 1;
            w.set.count = 0;
            while (from < w.edges.count && w.edges.items[from].hi < lo)
                from++;
            for (size_t e = from; e < w.edges.count && w.edges.items[e].lo <= lo; e++)
                if (w.edges.items[e].hi >= lo)
                    vec_push(&w.set, w.edges.items[e].to);
            if (!w.set.count)
                continue;
            w.set.count = sort_unique(w.set.items, w.set.count);
            close_set(&w);
            uint32_t to = intern(&t, w.set.items, w.set.count, &fresh);
            push_edge(out, state.edge_first, lo, hi, to);
            /* A subset costs what it holds, so that few but wide ones are counted, too. */
            uint32_t price = fresh ? 1 + (uint32_t)(w.set.count / 16) : 0;
            if (fuel->states < price)
                rc = out_of_fuel(err);
            else
                fuel->states -= price;
        }
        state.edge_count = (uint32_t)out->edges.count - state.edge_first;
        vec_push(&out->states, state);
    }
    interner_release(&t);
    mem_free(w.mark);
    vec_release(&w.set);
    vec_release(&w.stack);
    vec_release(&w.cuts);
    vec_release(&w.edges);
    if (rc)
        dfa_release(out);
    else
        minimise(out);
    return rc;
}

/* ---- products ---- */

int dfa_product(const struct dfa *a, const struct dfa *b, bool both, dfa_label_fn label, void *ctx,
                struct fa_fuel *fuel, struct dfa *out, struct error *err) {
    struct interner t = {0};
    bool fresh;
    int rc = 0;
    *out = (struct dfa){0};
    (void)intern(&t, (uint32_t[]){0, 0}, 2, &fresh);
    for (uint32_t i = 0; i < t.sets.count && !rc; i++) {
        uint32_t at[2];
        memcpy(at, t.pool.items + t.sets.items[i].first, sizeof at);
        const struct dfa *side[2] = {a, b};
        const struct fa_edge *edge[2], *end[2];
        uint32_t labels[2] = {FA_NONE, FA_NONE};
        for (int k = 0; k < 2; k++) {
            edge[k] = end[k] = NULL;
            if (at[k] == FA_NONE)
                continue;
            const struct dfa_state *s = &side[k]->states.items[at[k]];
            edge[k] = side[k]->edges.items + s->edge_first;
            end[k] = edge[k] + s->edge_count;
            labels[k] = s->label;
        }
        struct dfa_state state = {(uint32_t)out->edges.count, 0, label(ctx, labels[0], labels[1])};
        for (uint64_t lo = 0; !rc;) {
            /* The next run of symbols over which neither side changes its edge. */
            uint64_t begin = UINT64_MAX, hi = UINT64_MAX;
            uint32_t to[2] = {FA_NONE, FA_NONE};
            for (int k = 0; k < 2; k++) {
                while (edge[k] < end[k] && edge[k]->hi < lo)
                    edge[k]++;
                if (edge[k] < end[k])
                    begin = MIN(begin, MAX(lo, (uint64_t)edge[k]->lo));
            }
            if (begin == UINT64_MAX)
                break;
            for (int k = 0; k < 2; k++) {
                if (edge[k] >= end[k])
                    continue;
                if (edge[k]->lo <= begin) {
                    to[k] = edge[k]->to;
                    hi = MIN(hi, (uint64_t)edge[k]->hi);
                } else {
                    hi = MIN(hi, (uint64_t)edge[k]->lo - 1);
                }
            }
            lo = hi + 1;
            if (both && (to[0] == FA_NONE || to[1] == FA_NONE))
                continue;
            uint32_t target = intern(&t, to, 2, &fresh);
            push_edge(out, state.edge_first, (uint32_t)begin, (uint32_t)hi, target);
            if (fresh && !fuel->states)
                rc = out_of_fuel(err);
            fuel->states -= fresh && !rc;
        }
        state.edge_count = (uint32_t)out->edges.count - state.edge_first;
        vec_push(&out->states, state);
    }
    interner_release(&t);
    if (rc)
        dfa_release(out);
    else
        minimise(out);
    return rc;
}

static uint32_t label_and(void *ctx, uint32_t a, uint32_t b) {
    return b == FA_NONE ? FA_NONE : a;
}
static uint32_t label_without(void *ctx, uint32_t a, uint32_t b) {
    return b == FA_NONE ? a : FA_NONE;
}

int dfa_and(const struct dfa *a, const struct dfa *b, struct fa_fuel *fuel, struct dfa *out,
            struct error *err) {
    return dfa_product(a, b, true, label_and, NULL, fuel, out, err);
}

int dfa_without(const struct dfa *a, const struct dfa *b, struct fa_fuel *fuel, struct dfa *out,
                struct error *err) {
    return dfa_product(a, b, false, label_without, NULL, fuel, out, err);
}

bool dfa_is_empty(const struct dfa *d) {
    return d->states.count == 0 || (d->states.items[0].label == FA_NONE && !d->edges.count);
}

uint32_t dfa_step(const struct dfa *d, uint32_t state, uint32_t symbol) {
    const struct dfa_state *s = &d->states.items[state];
    size_t lo = s->edge_first, hi = lo + s->edge_count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        const struct fa_edge *e = &d->edges.items[mid];
        if (symbol < e->lo)
            hi = mid;
        else if (symbol > e->hi)
            lo = mid + 1;
        else
            return e->to;
    }
    return FA_NONE;
}

void nfa_add_dfa(struct nfa *n, const struct dfa *d, nfa_spell_fn *spell, uint32_t from,
                 uint32_t to) {
    uint32_t base = (uint32_t)n->first.count;
    for (size_t i = 0; i < d->states.count; i++)
        (void)nfa_state(n);
    for (uint32_t i = 0; i < d->states.count; i++) {
        const struct dfa_state *s = &d->states.items[i];
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
            spell(n, base + i, edge->lo, edge->hi, base + edge->to);
        }
        if (s->label != FA_NONE)
            nfa_free_edge(n, base + i, to);
    }
    if (d->states.count)
        nfa_free_edge(n, from, base);
}
