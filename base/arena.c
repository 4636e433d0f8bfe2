#include "base/arena.h"

#include "base/mem_large.h"

enum { CHUNK_BYTES = 16 * 1024, ALIGNMENT = 16 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(ALIGNMENT) uint8_t data[];
};

void arena_init(struct arena *a, size_t byte_budget, size_t call_budget) {
    *a = (struct arena){.byte_budget = byte_budget, .call_budget = call_budget};
}

static void free_chunks(struct arena_chunk *chunk) {
    while (chunk) {
        struct arena_chunk *next = chunk->next;
        mem_free(chunk);
        chunk = next;
    }
}

void arena_release(struct arena *a) {
    free_chunks(a->first);
    arena_init(a, a->byte_budget, a->call_budget);
}

void arena_reset(struct arena *a) {
    a->byte_count = a->call_count = 0;
    a->starved = false;
    a->current = a->first;
    if (!a->first)
        return;
    free_chunks(a->first->next);
    a->first->next = NULL;
    a->first->used = 0;
}

static struct arena_chunk *add_chunk(struct arena *a, size_t size) {
    uint64_t total;
    size = MAX(size, (size_t)CHUNK_BYTES);
    if (!add_ok(size, sizeof(struct arena_chunk), &total))
        return NULL;
    struct arena_chunk *chunk = mem_try_realloc(NULL, (size_t)total);
    a->starved |= !chunk;
    if (!chunk)
        return NULL;
    *chunk = (struct arena_chunk){.size = size};
    if (a->current)
        a->current->next = chunk;
    else
        a->first = chunk;
    a->current = chunk;
    return chunk;
}

/* Not zeroed. */
static void *alloc_raw(struct arena *a, size_t size) {
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (MAX(size, (size_t)1) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (a->byte_budget && (size > a->byte_budget || a->byte_count > a->byte_budget - size))
        return NULL;
    if (a->call_budget && a->call_count >= a->call_budget)
        return NULL;
    struct arena_chunk *chunk = a->current;
    if (!chunk || chunk->size - chunk->used < size)
        chunk = add_chunk(a, size);
    if (!chunk)
        return NULL;
    void *p = chunk->data + chunk->used;
    chunk->used += size;
    a->byte_count += size;
    a->call_count++;
    return p;
}

void *arena_alloc(struct arena *a, size_t size) {
    void *p = alloc_raw(a, size);
    return p ? memset(p, 0, size) : NULL;
}

void *arena_copy(struct arena *a, const void *data, size_t len) {
    if (len == SIZE_MAX)
        return NULL;
    uint8_t *p = alloc_raw(a, len + 1);
    if (!p)
        return NULL;
    if (len)
        memcpy(p, data, len);
    p[len] = 0;
    return p;
}

void *arena_join(struct arena *a, const struct bytes *pieces, size_t count) {
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].len > SIZE_MAX / 2 - len)
            return NULL;
        len += pieces[i].len;
    }
    uint8_t *joined = alloc_raw(a, len + 1), *at = joined;
    if (!joined)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].len)
            memcpy(at, pieces[i].data, pieces[i].len);
        at += pieces[i].len;
    }
    *at = 0;
    return joined;
}

bool arena_holds(const struct arena *a, const void *data) {
    const uint8_t *at = data;
    for (const struct arena_chunk *chunk = a->first; chunk; chunk = chunk->next)
        if (at >= chunk->data && at < chunk->data + chunk->used)
            return true;
    return false;
}
