/*
 * fa_minimise.c - the smallest automaton, by hashed signatures.
 *
 * Minimisation refines classes until they stand still (after Hopcroft: the larger part keeps its
 * name); edges of a state are kept merged, so equal states have equal lists.
 */
#include "grammar/fa_internal.h"

#include <stdlib.h>

void dfa_push_edge(struct dfa *d, size_t first, uint32_t lo, uint32_t hi, uint32_t to) {
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
    return interner_add(&p->sets, words->items, words->count, &fresh);
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
        p->class[s] = interner_add(&p->sets, &p->d->states.items[s].label, 1, &fresh);
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

/* The live states, each behind all that it leads to. False: there is a circle. */
static bool order_backwards(const struct dfa *d, const bool *live, const struct ways_in *ways,
                            word_vec *order) {
    size_t count = d->states.count, live_count = 0;
    uint32_t *left = mem_calloc(count + 1, sizeof *left); /* edges to live states without a place */
    order->count = 0;
    for (uint32_t s = 0; s < count; s++) {
        const struct dfa_state *state = &d->states.items[s];
        live_count += live[s];
        for (uint32_t e = 0; e < state->edge_count; e++)
            left[s] += live[d->edges.items[state->edge_first + e].to];
        if (live[s] && !left[s])
            vec_push(order, s);
    }
    for (size_t i = 0; i < order->count; i++) {
        uint32_t s = order->items[i];
        for (uint32_t k = ways->into[s]; k < ways->into[s + 1]; k++)
            if (!--left[ways->from[k]])
                vec_push(order, ways->from[k]);
    }
    mem_free(left);
    return order->count == live_count;
}

/* find_classes without circles: what a state leads to has its class before it, so one look at each is
 * enough, where rounds would be as many as the longest text has symbols. */
static bool find_classes_backwards(struct partition *p) {
    word_vec order = {0};
    bool found = order_backwards(p->d, p->live, p->ways, &order);
    for (size_t i = 0; i < order.count && found; i++) {
        uint32_t s = order.items[i];
        p->class[s] = p->d->states.items[s].label;
        p->class[s] = signature(p, s);
    }
    vec_release(&order);
    return found;
}

/* classes[i], of live states: equal for those that accept the same with the same labels. Returns
 * how many edges were looked at. */
static uint64_t find_classes(const struct dfa *d, const bool *live, const struct ways_in *ways,
                             uint32_t *classes) {
    size_t count = d->states.count;
    struct partition p = {.d = d, .live = live, .ways = ways, .class = classes};
    if (find_classes_backwards(&p)) {
        interner_release(&p.sets);
        vec_release(&p.words);
        return p.looked;
    }
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
            dfa_push_edge(&out, first, edge.lo, edge.hi, number[to]);
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

void dfa_minimise(struct dfa *d, struct fa_fuel *fuel) {
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
        class[s] = interner_add(&t, words.items, words.count, &fresh);
        price += fresh;
    }
    interner_release(&t);
    vec_release(&words);
    int rc = fa_burn(fuel, price, err);
    if (rc)
        dfa_release(d);
    else
        join_classes(d, live, class);
    mem_free(live);
    mem_free(class);
    return rc;
}
