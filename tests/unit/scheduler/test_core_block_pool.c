#include "check.h"
#include "scheduler/core/block_pool.h"

enum { BLOCKS = 24, HASHES = 40, STEPS = 20000 };

/* The obvious pool: arrays searched from end to end, free blocks ordered by a clock. */
struct shadow {
    uint32_t refs[BLOCKS];
    struct u128 hash[BLOCKS];
    uint64_t freed_at[BLOCKS]; /* order on the free list */
    uint64_t clock;
};

static uint32_t shadow_find(const struct shadow *shadow, struct u128 hash) {
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (u128_equal(shadow->hash[i], hash))
            return i;
    return BLOCK_NONE;
}

/* Blank ones first, then cached ones; each in order of release. */
static uint32_t shadow_take(struct shadow *shadow) {
    uint32_t best = BLOCK_NONE;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (shadow->refs[i])
            continue;
        bool blank = u128_is_zero(shadow->hash[i]);
        bool best_blank = best != BLOCK_NONE && u128_is_zero(shadow->hash[best]);
        if (best == BLOCK_NONE || (blank && !best_blank) ||
            (blank == best_blank && shadow->freed_at[i] < shadow->freed_at[best]))
            best = i;
    }
    if (best == BLOCK_NONE)
        return best;
    shadow->refs[best] = 1;
    shadow->hash[best] = (struct u128){0};
    return best;
}

static struct u128 some_hash(void) {
    return (struct u128){.lo = 16 * (1 + check_random() % HASHES), .hi = 5};
}

static const char *step(struct block_pool *pool, struct shadow *shadow) {
    uint32_t id = (uint32_t)(check_random() % BLOCKS);
    struct u128 hash = some_hash();
    switch (check_random() % 6) {
    case 0:
    case 1: return block_pool_take(pool) == shadow_take(shadow) ? NULL : "took another block";
    case 2:
        id = shadow_find(shadow, hash);
        if (block_pool_find(pool, hash) != id)
            return "found another block";
        if (id == BLOCK_NONE)
            return NULL;
        block_pool_ref(pool, id);
        shadow->refs[id]++;
        return NULL;
    case 3:
        if (!shadow->refs[id])
            return NULL;
        block_pool_unref(pool, id);
        if (--shadow->refs[id] == 0)
            shadow->freed_at[id] = ++shadow->clock;
        return NULL;
    case 4: {
        if (!shadow->refs[id] || !u128_is_zero(shadow->hash[id]))
            return NULL;
        bool want = shadow_find(shadow, hash) == BLOCK_NONE;
        if (want)
            shadow->hash[id] = hash;
        return block_pool_seal(pool, id, hash) == want ? NULL : "sealed otherwise";
    }
    default: {
        bool want = !shadow->refs[id] && u128_is_zero(shadow->hash[id]) &&
                    shadow_find(shadow, hash) == BLOCK_NONE;
        if (want) {
            shadow->hash[id] = hash;
            shadow->freed_at[id] = ++shadow->clock;
        }
        return block_pool_adopt(pool, id, hash) == want ? NULL : "adopted otherwise";
    }
    }
}

TEST(block_pool_equals_a_slow_shadow) {
    struct block_pool pool;
    struct shadow shadow = {0};
    block_pool_init(&pool, BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i++)
        shadow.freed_at[i] = ++shadow.clock;
    for (int i = 0; i < STEPS; i++) {
        const char *why = step(&pool, &shadow);
        if (why) {
            check_fail(__FILE__, __LINE__, "%s at step %d", why, i);
            return;
        }
        block_pool_check(&pool);
        for (uint32_t id = 0; id < BLOCKS; id++) {
            EXPECT_EQ(block_pool_refs(&pool, id), shadow.refs[id]);
            EXPECT(u128_equal(block_pool_hash(&pool, id), shadow.hash[id]));
        }
    }
    block_pool_release(&pool);
}

TEST(block_pool_gives_out_every_block_once) {
    struct block_pool pool;
    bool seen[BLOCKS] = {0};
    block_pool_init(&pool, BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        uint32_t id = block_pool_take(&pool);
        EXPECT(id < BLOCKS && !seen[id]);
        seen[id] = true;
    }
    EXPECT_EQ(block_pool_take(&pool), BLOCK_NONE);
    block_pool_release(&pool);
}

TEST(block_pool_evicts_least_recently_released_first) {
    struct block_pool pool;
    block_pool_init(&pool, 3);
    uint32_t ids[3];
    for (uint32_t i = 0; i < 3; i++) {
        ids[i] = block_pool_take(&pool);
        EXPECT(block_pool_seal(&pool, ids[i], (struct u128){.lo = i + 1}));
    }
    block_pool_unref(&pool, ids[1]);
    block_pool_unref(&pool, ids[0]);
    block_pool_unref(&pool, ids[2]);
    block_pool_ref(&pool, ids[1]); /* used again: now the latest */
    block_pool_unref(&pool, ids[1]);
    EXPECT_EQ(block_pool_take(&pool), ids[0]);
    EXPECT_EQ(block_pool_find(&pool, (struct u128){.lo = 1}), BLOCK_NONE);
    EXPECT_EQ(block_pool_take(&pool), ids[2]);
    EXPECT_EQ(block_pool_find(&pool, (struct u128){.lo = 2}), ids[1]);
    EXPECT_EQ(pool.eviction_count, 2);
    block_pool_release(&pool);
}
