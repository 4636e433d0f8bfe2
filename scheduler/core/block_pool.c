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

static struct block_list *list_of(struct block_pool *pool, const struct block *block) {
    return u128_is_zero(block->hash) ? &pool->blank : &pool->cached[block->holder];
}

/* Something has been put at the head of a holder's list, or taken from it. */
static void note_head(struct block_pool *pool, uint32_t holder) {
    uint32_t head = pool->cached[holder].head;
    uint64_t bit = UINT64_C(1) << holder;
    pool->cached_bits = head == BLOCK_NONE ? pool->cached_bits & ~bit : pool->cached_bits | bit;
    pool->oldest_ms[holder] = head == BLOCK_NONE ? 0 : pool->blocks[head].released_ms;
}

/* Behind all others of its list. */
static void free_insert(struct block_pool *pool, uint32_t id) {
    struct block *block = &pool->blocks[id];
    struct block_list *list = list_of(pool, block);
    block->prev = list->tail;
    block->next = BLOCK_NONE;
    *(list->tail == BLOCK_NONE ? &list->head : &pool->blocks[list->tail].next) = id;
    list->tail = id;
    pool->free_count++;
    if (u128_is_zero(block->hash))
        return;
    pool->cached_count++;
    if (list->head == id)
        note_head(pool, block->holder);
}

static void free_remove(struct block_pool *pool, uint32_t id) {
    struct block *block = &pool->blocks[id];
    struct block_list *list = list_of(pool, block);
    bool first = list->head == id;
    *(first ? &list->head : &pool->blocks[block->prev].next) = block->next;
    *(block->next == BLOCK_NONE ? &list->tail : &pool->blocks[block->next].prev) = block->prev;
    pool->free_count--;
    if (u128_is_zero(block->hash))
        return;
    pool->cached_count--;
    if (first)
        note_head(pool, block->holder);
}

static void hold(struct block_pool *pool, struct block *block, uint32_t holder) {
    block->holder = holder;
    pool->held[holder]++;
}

uint32_t block_holder(const struct hash_key *key, struct u128 tenant) {
    return 1 + (uint32_t)(hash128_keyed(key, &tenant, sizeof tenant).lo % (BLOCK_HOLDERS - 1));
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
    pool->free_count = pool->cached_count = 0;
    pool->cached_bits = 0;
    pool->blank = (struct block_list){BLOCK_NONE, BLOCK_NONE};
    for (uint32_t i = 0; i < BLOCK_HOLDERS; i++)
        pool->cached[i] = pool->blank;
    memset(pool->held, 0, sizeof pool->held);
    memset(pool->buckets, 0xff, ((size_t)pool->bucket_mask + 1) * sizeof *pool->buckets);
    for (uint32_t id = 0; id < pool->block_count; id++) {
        pool->blocks[id] = (struct block){.bucket_next = BLOCK_NONE};
        free_insert(pool, id);
    }
}

/* Of the holders with a cached block the one that loses its oldest. */
static uint32_t holder_that_yields(const struct block_pool *pool, int64_t now_ms) {
    uint32_t oldest = (uint32_t)__builtin_ctzll(pool->cached_bits), most = oldest;
    for (uint64_t bits = pool->cached_bits & (pool->cached_bits - 1); bits; bits &= bits - 1) {
        uint32_t holder = (uint32_t)__builtin_ctzll(bits);
        if (pool->oldest_ms[holder] < pool->oldest_ms[oldest])
            oldest = holder;
        if (pool->held[holder] > pool->held[most])
            most = holder;
    }
    return now_ms - pool->oldest_ms[oldest] >= BLOCK_KEPT_MS ? oldest : most;
}

static uint32_t first_free(const struct block_pool *pool, int64_t now_ms) {
    if (pool->blank.head != BLOCK_NONE || !pool->cached_bits)
        return pool->blank.head;
    return pool->cached[holder_that_yields(pool, now_ms)].head;
}

uint32_t block_pool_take(struct block_pool *pool, struct block_user by) {
    CHECK(by.holder < BLOCK_HOLDERS);
    uint32_t id = first_free(pool, by.now_ms);
    if (id == BLOCK_NONE)
        return BLOCK_NONE;
    free_remove(pool, id);
    struct block *block = &pool->blocks[id];
    if (!u128_is_zero(block->hash)) {
        table_remove(pool, id);
        block->hash = (struct u128){0};
        pool->held[block->holder]--;
        pool->eviction_count++;
    }
    hold(pool, block, by.holder);
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

void block_pool_unref(struct block_pool *pool, uint32_t id, struct block_user by) {
    CHECK(id < pool->block_count && pool->blocks[id].refs > 0 && by.holder < BLOCK_HOLDERS);
    struct block *block = &pool->blocks[id];
    if (--block->refs > 0)
        return;
    pool->held[block->holder]--;
    if (!u128_is_zero(block->hash))
        hold(pool, block, by.holder);
    block->released_ms = by.now_ms;
    free_insert(pool, id);
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
    block->released_ms = INT64_MIN / 2;
    hold(pool, block, 0);
    table_add(pool, id);
    free_insert(pool, id);
    return true;
}

/* How many are on this list, all of which are blank, or cached and held by this one. */
static uint32_t check_list(const struct block_pool *pool, const struct block_list *list, bool blank,
                           uint32_t holder) {
    uint32_t length = 0, prev = BLOCK_NONE;
    for (uint32_t id = list->head; id != BLOCK_NONE; prev = id, id = pool->blocks[id].next) {
        const struct block *block = &pool->blocks[id];
        CHECK(block->refs == 0 && block->prev == prev && ++length <= pool->block_count);
        CHECK(u128_is_zero(block->hash) == blank && (blank || block->holder == holder));
    }
    CHECK(list->tail == prev);
    return length;
}

static void check_holders(const struct block_pool *pool) {
    uint32_t cached = 0, held[BLOCK_HOLDERS] = {0};
    for (uint32_t i = 0; i < BLOCK_HOLDERS; i++) {
        uint32_t length = check_list(pool, &pool->cached[i], false, i);
        CHECK((pool->cached_bits >> i & 1) == (length > 0));
        CHECK(!length || pool->oldest_ms[i] == pool->blocks[pool->cached[i].head].released_ms);
        cached += length;
    }
    for (uint32_t id = 0; id < pool->block_count; id++)
        if (pool->blocks[id].refs || !u128_is_zero(pool->blocks[id].hash))
            held[pool->blocks[id].holder]++;
    CHECK(pool->cached_count == cached && !memcmp(held, pool->held, sizeof held));
}

void block_pool_check(const struct block_pool *pool) {
    CHECK(pool->free_count == pool->cached_count + check_list(pool, &pool->blank, true, 0));
    check_holders(pool);
    uint32_t unreferenced = 0;
    for (uint32_t id = 0; id < pool->block_count; id++) {
        const struct block *block = &pool->blocks[id];
        unreferenced += block->refs == 0;
        if (!u128_is_zero(block->hash))
            CHECK(block_pool_find(pool, block->hash) == id);
    }
    CHECK(unreferenced == pool->free_count);
}
