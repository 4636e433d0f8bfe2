/*
 * fa_sets.c - sets of words, kept once.
 */
#include "base/hash.h"
#include "grammar/fa_internal.h"

void interner_release(struct interner *t) {
    vec_release(&t->pool);
    vec_release(&t->sets);
    mem_free(t->slots);
}

void interner_clear(struct interner *t) {
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

uint32_t interner_add(struct interner *t, const uint32_t *words, size_t count, bool *fresh) {
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
