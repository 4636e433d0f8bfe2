/*
 * fa.c - subset construction and products.
 *
 * Subsets are kept sorted in one pool and found by their hash. The symbols that leave a subset are
 * cut at every edge's ends, so each piece goes to one subset.
 */
#include "grammar/fa_internal.h"

void nfa_release(struct nfa *n) {
    vec_release(&n->first);
    vec_release(&n->labels);
    vec_release(&n->places);
    vec_release(&n->edges);
    n->row_count = n->end = 0;
}

uint32_t nfa_state(struct nfa *n) {
    vec_push(&n->first, FA_NONE);
    vec_push(&n->labels, FA_NONE);
    vec_push(&n->places, ((struct nfa_place){0}));
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

void nfa_copies(struct nfa *n, uint32_t first, uint32_t count, uint32_t times, bool falling) {
    CHECK((uint64_t)first + (uint64_t)count * times <= n->first.count);
    for (uint32_t i = 0; i < count; i++) {
        n->row_count++;
        for (uint32_t k = 0; k < times; k++) {
            struct nfa_place *place = &n->places.items[first + k * count + i];
            if (!place->row)
                *place = (struct nfa_place){n->row_count, falling ? times - k : k};
        }
    }
}

void dfa_release(struct dfa *d) {
    vec_release(&d->states);
    vec_release(&d->edges);
}

int fa_burn(struct fa_fuel *fuel, uint64_t price, struct error *err) {
    if (price > fuel->states)
        return error_set(err, ERR_LIMIT, "the pattern or grammar needs too many states");
    fuel->states -= (uint32_t)price;
    return 0;
}

/* ---- subset construction ---- */

/* Gaps of Shell's sort (Ciura, 2001). Most lists are short, or in order from their front or end. */
static const uint32_t GAPS[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};

static void sort_words(uint32_t *words, size_t count) {
    size_t ordered = 1;
    while (ordered < count && words[ordered - 1] <= words[ordered])
        ordered++;
    for (size_t g = 0; g < ARRAY_LEN(GAPS) && ordered < count; g++)
        for (size_t i = GAPS[g]; i < count; i++) {
            uint32_t word = words[i];
            size_t at = i;
            for (; at >= GAPS[g] && words[at - GAPS[g]] > word; at -= GAPS[g])
                words[at] = words[at - GAPS[g]];
            words[at] = word;
        }
}

/* By their first symbols. */
static void sort_edges(struct fa_edge *edges, size_t count) {
    size_t ordered = 1;
    while (ordered < count && edges[ordered - 1].lo >= edges[ordered].lo)
        ordered++;
    if (ordered == count)
        for (size_t i = 0; i < count / 2; i++) {
            struct fa_edge edge = edges[i];
            edges[i] = edges[count - 1 - i];
            edges[count - 1 - i] = edge;
        }
    for (size_t g = 0; g < ARRAY_LEN(GAPS); g++)
        for (size_t i = GAPS[g]; i < count; i++) {
            struct fa_edge edge = edges[i];
            size_t at = i;
            for (; at >= GAPS[g] && edges[at - GAPS[g]].lo > edge.lo; at -= GAPS[g])
                edges[at] = edges[at - GAPS[g]];
            edges[at] = edge;
        }
}

static size_t sort_unique(uint32_t *words, size_t count) {
    sort_words(words, count);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || words[kept - 1] != words[i])
            words[kept++] = words[i];
    return kept;
}

/* Large sets over many ranges of symbols may make few states and take long: so many states entered by
 * closures cost what a new state does, and an edge that is sorted is worth some of them. */
enum { WORK_OF_A_STATE = 4096, SORTED_EDGE = 128 };

typedef VEC(struct fa_edge) fa_edge_vec;

struct subset_work {
    const struct nfa *n;
    uint32_t *mark; /* [states] the round that has the state */
    uint32_t round;
    uint64_t *lowest;     /* [rows + 1] the round, and behind it the lowest rank in the set */
    uint32_t *free_first; /* [states + 1] where each one's free edges begin, */
    uint32_t *free_to;    /* which lead there */
    uint32_t *alone;      /* [states] 1 + the subset behind an edge to this one alone, or 0 */
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

/* Drops the states that accept nothing which another one of their row does not. */
static void drop_copies(struct subset_work *w) {
    const struct nfa_place *places = w->n->places.items;
    size_t kept = 0;
    if (!w->n->row_count)
        return;
    for (size_t i = 0; i < w->set.count; i++) {
        struct nfa_place p = places[w->set.items[i]];
        if (p.row && (w->lowest[p.row] >> 32 != w->round || p.rank < (uint32_t)w->lowest[p.row]))
            w->lowest[p.row] = (uint64_t)w->round << 32 | p.rank;
    }
    for (size_t i = 0; i < w->set.count; i++) {
        struct nfa_place p = places[w->set.items[i]];
        if (!p.row || p.rank == (uint32_t)w->lowest[p.row])
            w->set.items[kept++] = w->set.items[i];
    }
    w->set.count = kept;
}

/* Adds what free edges lead to from the states of the set, and sorts it. */
static void close_set(struct subset_work *w) {
    size_t given = w->set.count;
    w->round++;
    w->stack.count = w->set.count = 0;
    for (size_t i = 0; i < given; i++) {
        uint32_t s = w->set.items[i];
        if (w->mark[s] == w->round)
            continue;
        w->mark[s] = w->round;
        w->set.items[w->set.count++] = s;
        vec_push(&w->stack, s);
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
    if (w->n->end && w->mark[w->n->end - 1] == w->round) {
        w->set.items[0] = w->n->end - 1;
        w->set.count = 1;
        return;
    }
    drop_copies(w);
    sort_words(w->set.items, w->set.count);
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
        }
    sort_edges(w->edges.items, w->edges.count);
    for (size_t i = 0; i < w->edges.count; i++) {
        vec_push(&w->cuts, w->edges.items[i].lo);
        vec_push(&w->cuts, w->edges.items[i].hi + 1);
    }
    w->cuts.count = sort_unique(w->cuts.items, w->cuts.count);
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

/* The subset behind the open edges. */
static uint32_t subset_behind(struct subset_work *w, struct interner *t, bool *fresh) {
    uint32_t first = w->open.items[0].to;
    bool alone = true;
    w->set.count = 0;
    for (size_t e = 0; e < w->open.count; e++) {
        vec_push(&w->set, w->open.items[e].to);
        alone &= w->open.items[e].to == first;
    }
    *fresh = false;
    uint32_t known = alone ? w->alone[first] : 0;
    if (!known) {
        close_set(w);
        known = 1 + interner_add(t, w->set.items, w->set.count, fresh);
        if (alone)
            w->alone[first] = known;
    }
    w->work += t->sets.items[known - 1].count;
    return known - 1;
}

int dfa_from_nfa(const struct nfa *n, uint32_t start, struct fa_fuel *fuel, struct dfa *out,
                 struct error *err) {
    struct subset_work w = {.n = n};
    struct interner t = {0};
    bool fresh;
    int rc = 0;
    w.mark = mem_calloc(n->first.count + 1, sizeof *w.mark);
    w.alone = mem_calloc(n->first.count + 1, sizeof *w.alone);
    w.lowest = mem_calloc(n->row_count + 1, sizeof *w.lowest);
    gather_free_edges(&w);
    *out = (struct dfa){0};
    vec_push(&w.set, start);
    close_set(&w);
    w.work += w.set.count;
    (void)interner_add(&t, w.set.items, w.set.count, &fresh);
    for (uint32_t i = 0; i < t.sets.count && !rc; i++) {
        struct span s = t.sets.items[i];
        gather_edges(&w, t.pool.items + s.first, s.count);
        struct dfa_state state = {(uint32_t)out->edges.count, 0,
                                  set_label(n, t.pool.items + s.first, s.count)};
        for (size_t c = 0; c + 1 < w.cuts.count && !rc; c++) {
            uint32_t lo = w.cuts.items[c], hi = w.cuts.items[c + 1] - 1;
            open_edges(&w, lo);
            if (!w.open.count)
                continue;
            uint32_t to = subset_behind(&w, &t, &fresh);
            dfa_push_edge(out, state.edge_first, lo, hi, to);
            /* A subset costs what it holds, so that few but wide ones are counted, too. */
            uint32_t price = fresh ? 1 + (uint32_t)(w.set.count / 16) : 0;
            rc = fa_burn(fuel, price, err);
        }
        state.edge_count = (uint32_t)out->edges.count - state.edge_first;
        vec_push(&out->states, state);
        if (!rc)
            rc = fa_burn(fuel, w.work / WORK_OF_A_STATE, err);
        w.work %= WORK_OF_A_STATE;
    }
    interner_release(&t);
    mem_free(w.mark);
    mem_free(w.alone);
    mem_free(w.lowest);
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
        dfa_minimise(out, fuel);
    return rc;
}

/* ---- products ---- */

enum { EDGES_OF_A_STATE = 16 };

int dfa_product(const struct dfa *a, const struct dfa *b, bool both, dfa_label_fn label, void *ctx,
                struct fa_fuel *fuel, struct dfa *out, struct error *err) {
    struct interner t = {0};
    bool fresh;
    int rc = 0;
    *out = (struct dfa){0};
    (void)interner_add(&t, (uint32_t[]){0, 0}, 2, &fresh);
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
            uint32_t target = interner_add(&t, to, 2, &fresh);
            dfa_push_edge(out, state.edge_first, (uint32_t)begin, (uint32_t)hi, target);
            rc = fa_burn(fuel, fresh, err);
        }
        state.edge_count = (uint32_t)out->edges.count - state.edge_first;
        vec_push(&out->states, state);
        /* So many edges cost what a state does: classes of Unicode have thousands. */
        if (!rc)
            rc = fa_burn(fuel, state.edge_count / EDGES_OF_A_STATE, err);
    }
    interner_release(&t);
    if (rc)
        dfa_release(out);
    else
        dfa_minimise(out, fuel);
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
