/*
 * fa_lengths.c - how long the texts are that an automaton accepts.
 */
#include "grammar/fa.h"

/* The states from which an edge leads to each one, back to back. */
struct ways_back {
    uint32_t *first; /* [states + 1] */
    uint32_t *from;
};

static struct ways_back find_ways_back(const struct dfa *d) {
    size_t count = d->states.count;
    struct ways_back w = {mem_calloc(count + 1, sizeof *w.first),
                          mem_calloc(d->edges.count + 1, sizeof *w.from)};
    for (size_t e = 0; e < d->edges.count; e++)
        w.first[d->edges.items[e].to]++;
    for (size_t i = 1; i <= count; i++)
        w.first[i] += w.first[i - 1];
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t e = 0; e < d->states.items[i].edge_count; e++)
            w.from[--w.first[d->edges.items[d->states.items[i].edge_first + e].to]] = i;
    return w;
}

uint32_t *dfa_shortest(const struct dfa *d) {
    size_t count = d->states.count, done = 0, known = 0;
    struct ways_back w = find_ways_back(d);
    uint32_t *length = mem_alloc((count + 1) * sizeof *length);
    uint32_t *queue = mem_alloc((count + 1) * sizeof *queue);
    for (uint32_t i = 0; i < count; i++) {
        length[i] = d->states.items[i].label != FA_NONE ? 0 : FA_NONE;
        if (!length[i])
            queue[known++] = i;
    }
    while (done < known) {
        uint32_t to = queue[done++];
        for (uint32_t k = w.first[to]; k < w.first[to + 1]; k++) {
            if (length[w.from[k]] != FA_NONE)
                continue;
            length[w.from[k]] = length[to] + 1;
            queue[known++] = w.from[k];
        }
    }
    mem_free(queue);
    mem_free(w.first);
    mem_free(w.from);
    return length;
}

/* Edges between states that a text passes, to each state; those that no text passes are counted as
 * known already. */
static uint32_t *edges_to(const struct dfa *d, const uint32_t *shortest) {
    uint32_t *count = mem_calloc(d->states.count + 1, sizeof *count);
    for (size_t i = 0; i < d->states.count; i++) {
        const struct dfa_state *s = &d->states.items[i];
        for (uint32_t e = 0; e < s->edge_count && shortest[i] != FA_NONE; e++)
            count[d->edges.items[s->edge_first + e].to]++;
    }
    return count;
}

uint32_t dfa_longest(const struct dfa *d) {
    size_t count = d->states.count, done = 0, known = 0, living = 0;
    uint32_t *shortest = dfa_shortest(d), *missing = edges_to(d, shortest), longest = 0;
    uint32_t *queue = mem_alloc((count + 1) * sizeof *queue);
    uint32_t *length = mem_calloc(count + 1, sizeof *length);
    for (uint32_t i = 0; i < count; i++) {
        living += shortest[i] != FA_NONE;
        if (shortest[i] != FA_NONE && !missing[i])
            queue[known++] = i;
    }
    while (done < known) { /* in an order in which all edges lead onwards */
        uint32_t from = queue[done++];
        const struct dfa_state *s = &d->states.items[from];
        if (s->label != FA_NONE)
            longest = MAX(longest, length[from]);
        for (uint32_t e = 0; e < s->edge_count; e++) {
            uint32_t to = d->edges.items[s->edge_first + e].to;
            length[to] = MAX(length[to], length[from] + 1);
            if (!--missing[to] && shortest[to] != FA_NONE)
                queue[known++] = to;
        }
    }
    mem_free(shortest);
    mem_free(missing);
    mem_free(queue);
    mem_free(length);
    return done == living ? longest : FA_NONE;
}
