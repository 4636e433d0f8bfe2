/*
 * run_tables.c - numbers for contents: equal frames, sets of properties and sets of threads are kept
 * once.
 */
#include "base/hash.h"
#include "grammar/run.h"

#include <stdlib.h>

typedef bool (*same_fn)(const struct grammar_run *run, uint32_t item, const void *key, size_t size);

static uint64_t hash_item(const struct grammar_run *run, const struct index *x, uint32_t item);

static void index_grow(const struct grammar_run *run, struct index *x) {
    size_t cap = x->cap ? x->cap * 2 : 256;
    uint32_t *slots = mem_calloc(cap, sizeof *slots);
    for (size_t i = 0; i < x->cap; i++) {
        if (!x->slots[i])
            continue;
        size_t at = hash_item(run, x, x->slots[i] - 1) & (cap - 1);
        while (slots[at])
            at = (at + 1) & (cap - 1);
        slots[at] = x->slots[i];
    }
    mem_free(x->slots);
    x->slots = slots;
    x->cap = cap;
}

/* The slot of the item with this key, or the free one where it belongs. */
static uint32_t *index_find(const struct grammar_run *run, struct index *x, const void *key,
                            size_t size, uint64_t hash, same_fn same) {
    if ((x->count + 1) * 2 > x->cap)
        index_grow(run, x);
    size_t at = hash & (x->cap - 1);
    while (x->slots[at] && !same(run, x->slots[at] - 1, key, size))
        at = (at + 1) & (x->cap - 1);
    return &x->slots[at];
}

static bool same_frame(const struct grammar_run *run, uint32_t item, const void *key, size_t size) {
    return !memcmp(&run->frames.items[item], key, size);
}
static bool same_bits(const struct grammar_run *run, uint32_t item, const void *key, size_t size) {
    return run->bit_sets.items[item].count * sizeof(uint64_t) == size &&
           !memcmp(run->bits.items + run->bit_sets.items[item].first, key, size);
}
static bool same_set(const struct grammar_run *run, uint32_t item, const void *key, size_t size) {
    const struct thread_set *s = &run->sets.items[item];
    const struct thread *threads = run->threads.items + s->first;
    /* The key is the newest set, whose threads lie at the end of the pool. */
    const struct thread_set *k = key;
    return s->count == k->count && s->may_end == k->may_end &&
           (!k->count ||
            !memcmp(threads, run->threads.items + k->first, k->count * sizeof *threads));
}

static uint64_t hash_set(const struct grammar_run *run, const struct thread_set *s) {
    return hash64(run->threads.items + s->first, s->count * sizeof(struct thread),
                  s->may_end ? 1 : 2);
}

static uint64_t hash_item(const struct grammar_run *run, const struct index *x, uint32_t item) {
    if (x == &run->frame_index)
        return hash64(&run->frames.items[item], sizeof(struct frame), 0);
    if (x == &run->set_index)
        return hash_set(run, &run->sets.items[item]);
    return hash64(run->bits.items + run->bit_sets.items[item].first,
                  run->bit_sets.items[item].count * sizeof(uint64_t), 0);
}

uint32_t run_frame(struct grammar_run *run, struct frame frame) {
    frame.unique = frame.kind == FRAME_UNIQUE || run->frames.items[frame.parent].unique;
    frame.counts = frame.kind == FRAME_COUNT || run->frames.items[frame.parent].counts;
    uint32_t *slot = index_find(run, &run->frame_index, &frame, sizeof frame,
                                hash64(&frame, sizeof frame, 0), same_frame);
    if (!*slot) {
        vec_push(&run->frames, frame);
        *slot = (uint32_t)run->frames.count;
        run->frame_index.count++;
    }
    return *slot - 1;
}

uint32_t run_bits(struct grammar_run *run, const uint64_t *words, uint32_t count) {
    size_t size = count * sizeof *words;
    uint32_t *slot =
        index_find(run, &run->bit_index, words, size, hash64(words, size, 0), same_bits);
    if (!*slot) {
        struct bit_set span = {(uint32_t)run->bits.count, count};
        vec_reserve(&run->bits, run->bits.count + count);
        memcpy(run->bits.items + run->bits.count, words, size);
        run->bits.count += count;
        vec_push(&run->bit_sets, span);
        *slot = (uint32_t)run->bit_sets.count;
        run->bit_index.count++;
    }
    return *slot - 1;
}

static int compare_threads(const void *a, const void *b) {
    const struct thread *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* Mostly they are few, or nearly in order. */
static void sort_threads(struct thread *threads, size_t count) {
    enum { FEW = 16 };
    if (count > FEW) {
        qsort(threads, count, sizeof *threads, compare_threads);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        struct thread t = threads[i];
        size_t at = i;
        for (; at && compare_threads(&threads[at - 1], &t) > 0; at--)
            threads[at] = threads[at - 1];
        threads[at] = t;
    }
}

uint32_t run_set_of_readers(struct grammar_run *run, struct thread *threads, size_t count,
                            bool may_end) {
    if (!count && !may_end)
        return SET_DEAD;
    sort_threads(threads, count);
    struct thread_set set = {
        .first = (uint32_t)run->threads.count, .count = (uint32_t)count, .may_end = may_end};
    vec_reserve(&run->threads, run->threads.count + count);
    if (count)
        memcpy(run->threads.items + run->threads.count, threads, count * sizeof *threads);
    run->threads.count += count;
    uint32_t *slot =
        index_find(run, &run->set_index, &set, sizeof set, hash_set(run, &set), same_set);
    if (*slot) {
        run->threads.count -= count;
        return *slot - 1;
    }
    for (size_t i = 0; i < count && run->loose; i++)
        set.unique |= run->frames.items[threads[i].frame].unique;
    vec_push(&run->sets, set);
    *slot = (uint32_t)run->sets.count;
    run->set_index.count++;
    return *slot - 1;
}
