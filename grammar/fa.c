/*
 * fa.c - subset construction, products, and minimisation by hashed signatures.
 *
 * Subsets are kept sorted in one pool and found by their hash. The symbols that leave a subset are
 * cut at every edge's ends, so each piece goes to one subset. Minimisation refines classes until
 * they stand still (after Hopcroft: the larger part keeps its name); edges of a state are kept
 * merged, so equal states have equal lists.
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

/* Costs as much as there was in it. */
static void interner_clear(struct interner *t) {
    if (t->cap > 64 + 16 * t->sets.count) {
        mem_free(t->slots);
        t->slots = NULL;
        t->cap = 0;
    } else if (t->cap) {
        memset(t->slots, 0, t->cap * sizeof *t->slots);
    }
    t->sets.count = t->pool.count = 0;
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

/* The states with an edge to s, once for each: from[into[s], into[s + 1]). */
struct ways_in {
    uint32_t *into, *from;
};

static void find_ways_in(const struct dfa *d, struct ways_in *out) {
    size_t count = d->states.count;
    uint32_t *into = mem_calloc(count + 1, sizeof *into);
    uint32_t *from = mem_calloc(d->edges.count + 1, sizeof *from);
    uint32_t *at = mem_calloc(count + 1, sizeof *at);
    for (size_t i = 0; i < d->edges.count; i++)
        into[d->edges.items[i].to + 1]++;
    for (size_t i = 0; i < count; i++)
        into[i + 1] += into[i];
    memcpy(at, into, (count + 1) * sizeof *at);
    for (uint32_t s = 0; s < count; s++) {
        const struct dfa_state *state = &d->states.items[s];
        for (uint32_t e = 0; e < state->edge_count; e++)
            from[at[d->edges.items[state->edge_first + e].to]++] = s;
    }
    mem_free(at);
    *out = (struct ways_in){into, from};
}

/* live[i]: an accepting state can be reached from i. */
static void find_live(const struct dfa *d, const struct ways_in *ways, bool *live) {
    word_vec work = {0};
    for (uint32_t s = 0; s < d->states.count; s++) {
        live[s] = d->states.items[s].label != FA_NONE;
        if (live[s])
            vec_push(&work, s);
    }
    while (work.count) {
        uint32_t s = work.items[--work.count];
        for (uint32_t e = ways->into[s]; e < ways->into[s + 1]; e++)
            if (!live[ways->from[e]]) {
                live[ways->from[e]] = true;
                vec_push(&work, ways->from[e]);
            }
    }
    vec_release(&work);
}

/* A partition of the live states into classes, which grows finer until it stands still. Where a
 * class falls apart its largest part keeps the number. So a state changes its class only a
 * logarithm of times, and only states with an edge to one that did are looked at again. States of a
 * class that are not dirty lead to the same classes. */
struct class {
    uint32_t first, count; /* of partition.order */
    uint32_t front;        /* of this round: where its clean states begin */
    uint32_t best, most;   /* of this round: where its largest part begins, and its size */
};
struct partition {
    const struct dfa *d;
    const bool *live;
    uint32_t *order, *place; /* the live states class by class; of each state: where it is there */
    uint32_t *class;         /* of each state */
    VEC(struct class) classes;
    const struct ways_in *ways;
    bool *is_dirty;
    word_vec dirty, moved;
    word_vec words, set_of;
    VEC(struct span) spans; /* of order, by set */
    struct interner sets;   /* of this round: a class, then where its states lead */
    uint64_t looked;        /* edges */
};

static void make_dirty(struct partition *p, uint32_t s) {
    if (p->is_dirty[s])
        return;
    p->is_dirty[s] = true;
    vec_push(&p->dirty, s);
}

/* The number of what tells a state from others; edges to dead states are left out. */
static uint32_t signature(struct partition *p, uint32_t s) {
    const struct dfa_state *state = &p->d->states.items[s];
    word_vec *words = &p->words;
    bool fresh;
    words->count = 0;
    vec_push(words, p->class[s]);
    for (uint32_t e = 0; e < state->edge_count; e++) {
        const struct fa_edge *edge = &p->d->edges.items[state->edge_first + e];
        if (!p->live[edge->to])
            continue;
        uint32_t to = p->class[edge->to];
        uint32_t *last = words->count > 1 ? &words->items[words->count - 3] : NULL;
        if (last && last[2] == to && last[1] + 1 == edge->lo && edge->hi < FA_ACTION) {
            last[1] = edge->hi;
            continue;
        }
        vec_push(words, edge->lo);
        vec_push(words, edge->hi);
        vec_push(words, to);
    }
    p->looked += state->edge_count + 1;
    return intern(&p->sets, words->items, words->count, &fresh);
}

static void place_state(struct partition *p, uint32_t s, uint32_t at) {
    uint32_t other = p->order[at], old = p->place[s];
    p->order[at] = s;
    p->order[old] = other;
    p->place[other] = old;
    p->place[s] = at;
}

/* Puts the dirty states to the front of their classes, those of one signature side by side. */
static void sort_dirty(struct partition *p) {
    word_vec at = {0}, sorted = {0};
    p->set_of.count = p->spans.count = 0;
    for (size_t i = 0; i < p->dirty.count; i++)
        vec_push(&p->set_of, signature(p, p->dirty.items[i]));
    for (size_t i = 0; i < p->sets.sets.count; i++)
        vec_push(&p->spans, ((struct span){0, 0}));
    for (size_t i = 0; i < p->dirty.count; i++)
        p->spans.items[p->set_of.items[i]].count++;
    for (uint32_t i = 0, sum = 0; i < p->spans.count; sum += p->spans.items[i++].count)
        vec_push(&at, sum);
    vec_reserve(&sorted, p->dirty.count);
    for (size_t i = 0; i < p->dirty.count; i++)
        sorted.items[at.items[p->set_of.items[i]]++] = p->dirty.items[i];
    const uint32_t *next = sorted.items;
    for (size_t i = 0; i < p->spans.count; i++) {
        struct class *c = &p->classes.items[p->class[*next]];
        p->spans.items[i].first = c->front;
        for (uint32_t k = 0; k < p->spans.items[i].count; k++)
            place_state(p, *next++, c->front++);
    }
    vec_release(&at);
    vec_release(&sorted);
}

/* A part of a class, unless it is the one that keeps the number, becomes a class of its own. */
static void split_off(struct partition *p, uint32_t class, struct span span) {
    if (!span.count || span.first == p->classes.items[class].best)
        return;
    uint32_t number = (uint32_t)p->classes.count;
    vec_push(&p->classes, ((struct class){span.first, span.count, span.first, 0, 0}));
    for (uint32_t i = span.first; i < span.first + span.count; i++) {
        p->class[p->order[i]] = number;
        vec_push(&p->moved, p->order[i]);
    }
}

static struct span clean_span(const struct class *c) {
    return (struct span){c->front, c->first + c->count - c->front};
}

static void split_classes(struct partition *p) {
    word_vec owners = {0};
    for (size_t i = 0; i < p->spans.count; i++) {
        uint32_t owner = p->sets.pool.items[p->sets.sets.items[i].first];
        struct class *c = &p->classes.items[owner];
        vec_push(&owners, owner);
        if (p->spans.items[i].first == c->first) { /* the first of its spans */
            struct span clean = clean_span(c);
            c->best = clean.first;
            c->most = clean.count;
        }
        if (p->spans.items[i].count > c->most) {
            c->best = p->spans.items[i].first;
            c->most = p->spans.items[i].count;
        }
    }
    for (size_t i = 0; i < p->spans.count; i++) {
        uint32_t owner = owners.items[i];
        const struct class c = p->classes.items[owner];
        if (p->spans.items[i].first == c.first)
            split_off(p, owner, clean_span(&c));
        split_off(p, owner, p->spans.items[i]);
    }
    for (size_t i = 0; i < owners.count; i++) {
        struct class *c = &p->classes.items[owners.items[i]];
        c->first = c->front = c->best;
        c->count = c->most;
    }
    vec_release(&owners);
}

/* One round: false when nothing moved. */
static bool refine(struct partition *p) {
    sort_dirty(p);
    p->moved.count = 0;
    split_classes(p);
    interner_clear(&p->sets);
    for (size_t i = 0; i < p->dirty.count; i++)
        p->is_dirty[p->dirty.items[i]] = false;
    p->dirty.count = 0;
    for (size_t i = 0; i < p->moved.count; i++) {
        uint32_t s = p->moved.items[i];
        for (uint32_t k = p->ways->into[s]; k < p->ways->into[s + 1]; k++)
            if (p->live[p->ways->from[k]])
                make_dirty(p, p->ways->from[k]);
    }
    return p->dirty.count > 0;
}

/* Classes by label; all live states are dirty. */
static void first_classes(struct partition *p) {
    uint32_t count = (uint32_t)p->d->states.count, sum = 0;
    bool fresh;
    for (uint32_t s = 0; s < count; s++) {
        if (!p->live[s])
            continue;
        p->class[s] = intern(&p->sets, &p->d->states.items[s].label, 1, &fresh);
        if (fresh)
            vec_push(&p->classes, ((struct class){0}));
        p->classes.items[p->class[s]].count++;
        make_dirty(p, s);
    }
    for (size_t i = 0; i < p->classes.count; sum += p->classes.items[i++].count)
        p->classes.items[i].first = p->classes.items[i].front = sum;
    for (size_t i = 0; i < p->dirty.count; i++) {
        uint32_t s = p->dirty.items[i];
        p->place[s] = p->classes.items[p->class[s]].front++;
        p->order[p->place[s]] = s;
    }
    for (size_t i = 0; i < p->classes.count; i++)
        p->classes.items[i].front = p->classes.items[i].first;
    interner_clear(&p->sets);
}

/* classes[i], of live states: equal for those that accept the same with the same labels. Returns
 * how many edges were looked at. */
static uint64_t find_classes(const struct dfa *d, const bool *live, const struct ways_in *ways,
                             uint32_t *classes) {
    size_t count = d->states.count;
    struct partition p = {.d = d, .live = live, .ways = ways, .class = classes};
    p.order = mem_calloc(count + 1, sizeof *p.order);
    p.place = mem_calloc(count + 1, sizeof *p.place);
    p.is_dirty = mem_calloc(count + 1, sizeof *p.is_dirty);
    first_classes(&p);
    while (refine(&p)) {}
    interner_release(&p.sets);
    mem_free(p.order);
    mem_free(p.place);
    mem_free(p.is_dirty);
    vec_release(&p.classes);
    vec_release(&p.dirty);
    vec_release(&p.moved);
    vec_release(&p.words);
    vec_release(&p.set_of);
    vec_release(&p.spans);
    return p.looked;
}

/* One state for each class of live states, numbered in the order of their first visit from the start,
 * so that state 0 stays state 0. */
static void join_classes(struct dfa *d, const bool *live, const uint32_t *class) {
    uint32_t *number = mem_alloc((d->states.count + 1) * sizeof *number);
    memset(number, 0xff, (d->states.count + 1) * sizeof *number);
    struct dfa out = {0};
    word_vec order = {0};
    number[class[0]] = 0;
    vec_push(&order, 0);
    for (size_t i = 0; i < order.count; i++) {
        const struct dfa_state state = d->states.items[order.items[i]];
        size_t first = out.edges.count;
        for (uint32_t e = 0; e < state.edge_count; e++) {
            struct fa_edge edge = d->edges.items[state.edge_first + e];
            if (!live[edge.to])
                continue;
            uint32_t to = class[edge.to];
            if (number[to] == FA_NONE) {
                number[to] = (uint32_t)order.count;
                vec_push(&order, edge.to);
            }
            push_edge(&out, first, edge.lo, edge.hi, number[to]);
        }
        vec_push(&out.states,
                 ((struct dfa_state){(uint32_t)first, (uint32_t)(out.edges.count - first),
                                     state.label}));
    }
    dfa_release(d);
    *d = out;
    mem_free(number);
    vec_release(&order);
}

static void minimise(struct dfa *d, struct fa_fuel *fuel) {
    size_t count = d->states.count;
    bool *live = mem_calloc(count, sizeof *live);
    uint32_t *class = mem_calloc(count, sizeof *class);
    struct ways_in ways;
    find_ways_in(d, &ways);
    find_live(d, &ways, live);
    live[0] = true;
    fuel->looked += find_classes(d, live, &ways, class);
    mem_free(ways.into);
    mem_free(ways.from);
    join_classes(d, live, class);
    mem_free(live);
    mem_free(class);
}

int dfa_fold(struct dfa *d, struct fa_fuel *fuel, struct error *err) {
    size_t count = d->states.count;
    struct interner t = {0};
    word_vec words = {0};
    bool fresh, *live = mem_alloc(count * sizeof *live);
    uint32_t *class = mem_calloc(count, sizeof *class);
    size_t price = count / 8;
    memset(live, 1, count * sizeof *live);
    for (size_t s = count; s-- > 0 && price <= fuel->states;) {
        const struct dfa_state *state = &d->states.items[s];
        words.count = 0;
        vec_push(&words, state->label);
        for (uint32_t e = 0; e < state->edge_count; e++) {
            const struct fa_edge *edge = &d->edges.items[state->edge_first + e];
            CHECK(edge->to > s);
            vec_push(&words, edge->lo);
            vec_push(&words, edge->hi);
            vec_push(&words, class[edge->to]);
        }
        class[s] = intern(&t, words.items, words.count, &fresh);
        price += fresh;
    }
    interner_release(&t);
    vec_release(&words);
    int rc = price > fuel->states ? out_of_fuel(err) : 0;
    if (rc) {
        dfa_release(d);
    } else {
        fuel->states -= (uint32_t)price;
        join_classes(d, live, class);
    }
    mem_free(live);
    mem_free(class);
    return rc;
}

/* ---- subset construction ---- */

/* Large sets over many ranges of symbols may make few states and take long: so many states entered by
 * closures cost what a new state does, and an edge that is sorted is worth some of them. */
enum { WORK_OF_A_STATE = 4096, SORTED_EDGE = 128 };

typedef VEC(struct fa_edge) fa_edge_vec;

struct subset_work {
    const struct nfa *n;
    uint32_t *mark; /* [states] the round that has the state */
    uint32_t round;
    uint32_t *free_first; /* [states + 1] where each one's free edges begin, */
    uint32_t *free_to;    /* which lead there */
    uint64_t work;        /* done since fuel was last taken for it */
    word_vec set, stack, cuts;
    fa_edge_vec edges, open; /* of a set; those over the symbol looked at */
    size_t opened;           /* of edges: those that begin up to there */
};

/* Free edges are followed for every symbol: apart from the others, which may be hundreds (those of
 * \p{L}) and are looked at once for each set. */
static void gather_free_edges(struct subset_work *w) {
    const struct nfa *n = w->n;
    uint32_t count = 0;
    for (size_t i = 0; i < n->edges.count; i++)
        count += n->edges.items[i].lo > n->edges.items[i].hi;
    w->free_first = mem_calloc(n->first.count + 1, sizeof *w->free_first);
    w->free_to = mem_calloc(count + 1, sizeof *w->free_to);
    count = 0;
    for (size_t i = 0; i < n->first.count; i++) {
        w->free_first[i] = count;
        for (uint32_t e = n->first.items[i]; e != FA_NONE; e = n->edges.items[e].next)
            if (n->edges.items[e].lo > n->edges.items[e].hi)
                w->free_to[count++] = n->edges.items[e].to;
    }
    w->free_first[n->first.count] = count;
}

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
        for (uint32_t e = w->free_first[s]; e < w->free_first[s + 1]; e++) {
            uint32_t to = w->free_to[e];
            if (w->mark[to] == w->round)
                continue;
            w->mark[to] = w->round;
            vec_push(&w->set, to);
            vec_push(&w->stack, to);
        }
    }
    w->work += w->set.count;
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
    w->open.count = w->opened = 0;
    w->work += SORTED_EDGE * w->edges.count;
}

/* The edges over a symbol, in w->open; symbols come in order. */
static void open_edges(struct subset_work *w, uint32_t symbol) {
    size_t kept = 0;
    for (size_t i = 0; i < w->open.count; i++)
        if (w->open.items[i].hi >= symbol)
            w->open.items[kept++] = w->open.items[i];
    w->open.count = kept;
    for (; w->opened < w->edges.count && w->edges.items[w->opened].lo <= symbol; w->opened++)
        vec_push(&w->open, w->edges.items[w->opened]);
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
    gather_free_edges(&w);
    *out = (struct dfa){0};
    vec_push(&w.set, start);
    close_set(&w);
    (void)intern(&t, w.set.items, w.set.count, &fresh);
    for (uint32_t i = 0; i < t.sets.count && !rc; i++) {
        struct span s = t.sets.items[i];
        gather_edges(&w, t.pool.items + s.first, s.count);
        struct dfa_state state = {(uint32_t)out->edges.count, 0,
                                  set_label(n, t.pool.items + s.first, s.count)};
        for (size_t c = 0; c + 1 < w.cuts.count && !rc; c++) {
            uint32_t lo = w.cuts.items[c], hi = w.cuts.items[c + 1] - 1;
            w.set.count = 0;
            open_edges(&w, lo);
            for (size_t e = 0; e < w.open.count; e++)
                vec_push(&w.set, w.open.items[e].to);
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
        if (!rc && fuel->states < w.work / WORK_OF_A_STATE)
            rc = out_of_fuel(err);
        else if (!rc)
            fuel->states -= (uint32_t)(w.work / WORK_OF_A_STATE);
        w.work %= WORK_OF_A_STATE;
    }
    interner_release(&t);
    mem_free(w.mark);
    mem_free(w.free_first);
    mem_free(w.free_to);
    vec_release(&w.set);
    vec_release(&w.stack);
    vec_release(&w.cuts);
    vec_release(&w.edges);
    vec_release(&w.open);
    if (rc)
        dfa_release(out);
    else
        minimise(out, fuel);
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
            labels[k] = s->label;
            if (!s->edge_count)
                continue;
            edge[k] = side[k]->edges.items + s->edge_first;
            end[k] = edge[k] + s->edge_count;
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
        minimise(out, fuel);
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
