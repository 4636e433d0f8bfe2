#include "scheduler/core/block_pool.h"

static uint32_t bucket_of(const struct block_pool *pool, struct u128 hash) {
    return (uint32_t)hash.lo & pool->bucket_mask;
}

static void table_add(struct block_pool *pool, uint32_t id) {
    uint32_t *bucket = &pool->buckets[bucket_of(pool, pool->blocks[id].hash)];
    pool->blocks[id].bucket_next = *bucket;
    *bucket = id;
}

static void table_remove(struct block_pool *pool, uint32_t id) {
    uint32_t *at = &pool->buckets[bucket_of(pool, pool->blocks[id].hash)];
    while (*at != id) {
        CHECK(*at != BLOCK_NONE);
        at = &pool->blocks[*at].bucket_next;
    }
    *at = pool->blocks[id].bucket_next;
}

/* Inserts behind `after`; BLOCK_NONE: at the head. */
static void free_insert(struct block_pool *pool, uint32_t id, uint32_t after) {
    struct block *block = &pool->blocks[id];
    block->prev = after;
    block->next = after == BLOCK_NONE ? pool->head : pool->blocks[after].next;
    *(block->prev == BLOCK_NONE ? &pool->head : &pool->blocks[block->prev].next) = id;
    *(block->next == BLOCK_NONE ? &pool->tail : &pool->blocks[block->next].prev) = id;
    pool->free_count++;
    if (u128_is_zero(block->hash)) {
        if (pool->last_blank == after)
            pool->last_blank = id;
    } else {
        pool->cached_count++;
    }
}

static void free_remove(struct block_pool *pool, uint32_t id) {
    struct block *block = &pool->blocks[id];
    *(block->prev == BLOCK_NONE ? &pool->head : &pool->blocks[block->prev].next) = block->next;
    *(block->next == BLOCK_NONE ? &pool->tail : &pool->blocks[block->next].prev) = block->prev;
    pool->free_count--;
    if (pool->last_blank == id)
        pool->last_blank = block->prev;
    if (!u128_is_zero(block->hash))
        pool->cached_count--;
}

void block_pool_init(struct block_pool *pool, uint32_t block_count) {
    *pool = (struct block_pool){.block_count = block_count};
    uint32_t bucket_count = 16;
    while (bucket_count < block_count)
        bucket_count *= 2;
    pool->bucket_mask = bucket_count - 1;
    pool->blocks = mem_calloc(block_count, sizeof *pool->blocks);
    pool->buckets = mem_calloc(bucket_count, sizeof *pool->buckets);
    block_pool_reset(pool);
}

void block_pool_release(struct block_pool *pool) {
    mem_free(pool->blocks);
    mem_free(pool->buckets);
    *pool = (struct block_pool){0};
}

void block_pool_reset(struct block_pool *pool) {
    pool->head = pool->tail = pool->last_blank = BLOCK_NONE;
    pool->free_count = pool->cached_count = 0;
    memset(pool->buckets, 0xff, ((size_t)pool->bucket_mask + 1) * sizeof *pool->buckets);
    for (uint32_t id = 0; id < pool->block_count; id++) {
        pool->blocks[id] = (struct block){.bucket_next = BLOCK_NONE};
        free_insert(pool, id, pool->tail);
    }
}

uint32_t block_pool_take(struct block_pool *pool) {
    uint32_t id = pool->head;
    if (id == BLOCK_NONE)
        return BLOCK_NONE;
    free_remove(pool, id);
    struct block *block = &pool->blocks[id];
    if (!u128_is_zero(block->hash)) {
        table_remove(pool, id);
        block->hash = (struct u128){0};
        pool->eviction_count++;
    }
    block->refs = 1;
    return id;
}

uint32_t block_pool_find(const struct block_pool *pool, struct u128 hash) {
    uint32_t id = pool->buckets[bucket_of(pool, hash)];
    while (id != BLOCK_NONE && !u128_equal(pool->blocks[id].hash, hash))
        id = pool->blocks[id].bucket_next;
    return id;
}

void block_pool_ref(struct block_pool *pool, uint32_t id) {
    CHECK(id < pool->block_count);
    if (pool->blocks[id].refs == 0)
        free_remove(pool, id);
    pool->blocks[id].refs++;
}

void block_pool_unref(struct block_pool *pool, uint32_t id) {
    CHECK(id < pool->block_count && pool->blocks[id].refs > 0);
    if (--pool->blocks[id].refs > 0)
        return;
    free_insert(pool, id, u128_is_zero(pool->blocks[id].hash) ? pool->last_blank : pool->tail);
}

bool block_pool_seal(struct block_pool *pool, uint32_t id, struct u128 hash) {
    CHECK(id < pool->block_count && pool->blocks[id].refs > 0 &&
          u128_is_zero(pool->blocks[id].hash));
    CHECK(!u128_is_zero(hash));
    if (block_pool_find(pool, hash) != BLOCK_NONE)
        return false;
    pool->blocks[id].hash = hash;
    table_add(pool, id);
    return true;
}

bool block_pool_adopt(struct block_pool *pool, uint32_t id, struct u128 hash) {
    if (id >= pool->block_count || u128_is_zero(hash))
        return false;
    struct block *block = &pool->blocks[id];
    if (block->refs || !u128_is_zero(block->hash) || block_pool_find(pool, hash) != BLOCK_NONE)
        return false;
    free_remove(pool, id);
    block->hash = hash;
    table_add(pool, id);
    free_insert(pool, id, pool->tail);
    return true;
}

static uint32_t check_free_list(const struct block_pool *pool) {
    uint32_t length = 0, cached = 0, prev = BLOCK_NONE, last_blank = BLOCK_NONE;
    for (uint32_t id = pool->head; id != BLOCK_NONE; prev = id, id = pool->blocks[id].next) {
        const struct block *block = &pool->blocks[id];
        CHECK(block->refs == 0 && block->prev == prev && ++length <= pool->block_count);
        if (u128_is_zero(block->hash)) {
            CHECK(cached == 0);
            last_blank = id;
        } else {
            cached++;
        }
    }
    CHECK(pool->tail == prev && pool->last_blank == last_blank && pool->cached_count == cached);
    return length;
}

void block_pool_check(const struct block_pool *pool) {
    CHECK(pool->free_count == check_free_list(pool));
    uint32_t unreferenced = 0;
    for (uint32_t id = 0; id < pool->block_count; id++) {
        const struct block *block = &pool->blocks[id];
        unreferenced += block->refs == 0;
        if (!u128_is_zero(block->hash))
            CHECK(block_pool_find(pool, block->hash) == id);
    }
    CHECK(unreferenced == pool->free_count);
}
