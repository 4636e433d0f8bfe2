#include "check.h"
#include "scheduler/core/block_pool.h"

enum { BLOCKS = 24, HASHES = 40, STEPS = 20000, USERS = 4 };

/* The obvious pool: arrays searched from end to end, free blocks ordered by a clock. */
struct shadow {
    uint32_t refs[BLOCKS], holder[BLOCKS];
    struct u128 hash[BLOCKS];
    uint64_t freed_at[BLOCKS]; /* order on the free list */
    int64_t released_ms[BLOCKS];
    uint64_t clock;
    int64_t now_ms;
};

static uint32_t shadow_find(const struct shadow *shadow, struct u128 hash) {
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (u128_equal(shadow->hash[i], hash))
            return i;
    return BLOCK_NONE;
}

static bool is_cached(const struct shadow *shadow, uint32_t i) {
    return !shadow->refs[i] && !u128_is_zero(shadow->hash[i]);
}

static uint32_t held_by(const struct shadow *shadow, uint32_t holder) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < BLOCKS; i++)
        sum += (shadow->refs[i] || is_cached(shadow, i)) && shadow->holder[i] == holder;
    return sum;
}

/* Of those that are free, and blank or this holder's cached ones, the one that was released first. */
static uint32_t first_of(const struct shadow *shadow, bool blank, uint32_t holder) {
    uint32_t best = BLOCK_NONE;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (shadow->refs[i] || u128_is_zero(shadow->hash[i]) != blank ||
            (!blank && shadow->holder[i] != holder))
            continue;
        if (best == BLOCK_NONE || shadow->freed_at[i] < shadow->freed_at[best])
            best = i;
    }
    return best;
}

/* Blank ones first, then what nobody used for long, then of the holder with most. */
static uint32_t shadow_take(struct shadow *shadow, struct block_user by) {
    uint32_t best = first_of(shadow, true, 0), old = BLOCK_NONE, most = BLOCK_NONE;
    for (uint32_t holder = 0; best == BLOCK_NONE && holder < USERS; holder++) {
        uint32_t first = first_of(shadow, false, holder);
        if (first == BLOCK_NONE)
            continue;
        if (old == BLOCK_NONE || shadow->released_ms[first] < shadow->released_ms[old])
            old = first;
        if (most == BLOCK_NONE || held_by(shadow, holder) > held_by(shadow, shadow->holder[most]))
            most = first;
    }
    if (best == BLOCK_NONE && old != BLOCK_NONE)
        best = by.now_ms - shadow->released_ms[old] >= BLOCK_KEPT_MS ? old : most;
    if (best == BLOCK_NONE)
        return best;
    shadow->refs[best] = 1;
    shadow->holder[best] = by.holder;
    shadow->hash[best] = (struct u128){0};
    return best;
}

static const struct block_user nobody = {0};

static struct u128 some_hash(void) {
    return (struct u128){.lo = 16 * (1 + check_random() % HASHES), .hi = 5};
}

static const char *step(struct block_pool *pool, struct shadow *shadow) {
    uint32_t id = (uint32_t)(check_random() % BLOCKS);
    struct u128 hash = some_hash();
    struct block_user by = {(uint32_t)(check_random() % USERS), shadow->now_ms};
    switch (check_random() % 6) {
    case 0:
    case 1:
        return block_pool_take(pool, by) == shadow_take(shadow, by) ? NULL : "took another block";
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
        block_pool_unref(pool, id, by);
        if (--shadow->refs[id] == 0) {
            shadow->freed_at[id] = ++shadow->clock;
            shadow->released_ms[id] = by.now_ms;
            shadow->holder[id] = by.holder;
        }
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
            shadow->released_ms[id] = INT64_MIN / 2;
            shadow->holder[id] = 0;
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
        shadow.now_ms += check_random() % 8 ? (int64_t)(check_random() % 1000) : BLOCK_KEPT_MS / 8;
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
        uint32_t id = block_pool_take(&pool, nobody);
        EXPECT(id < BLOCKS && !seen[id]);
        seen[id] = true;
    }
    EXPECT_EQ(block_pool_take(&pool, nobody), BLOCK_NONE);
    block_pool_release(&pool);
}

TEST(block_pool_evicts_least_recently_released_first) {
    struct block_pool pool;
    block_pool_init(&pool, 3);
    uint32_t ids[3];
    for (uint32_t i = 0; i < 3; i++) {
        ids[i] = block_pool_take(&pool, nobody);
        EXPECT(block_pool_seal(&pool, ids[i], (struct u128){.lo = i + 1}));
    }
    block_pool_unref(&pool, ids[1], nobody);
    block_pool_unref(&pool, ids[0], nobody);
    block_pool_unref(&pool, ids[2], nobody);
    block_pool_ref(&pool, ids[1]); /* used again: now the latest */
    block_pool_unref(&pool, ids[1], nobody);
    EXPECT_EQ(block_pool_take(&pool, nobody), ids[0]);
    EXPECT_EQ(block_pool_find(&pool, (struct u128){.lo = 1}), BLOCK_NONE);
    EXPECT_EQ(block_pool_take(&pool, nobody), ids[2]);
    EXPECT_EQ(block_pool_find(&pool, (struct u128){.lo = 2}), ids[1]);
    EXPECT_EQ(pool.eviction_count, 2);
    block_pool_release(&pool);
}

/* The first block, whatever bucket its hash falls into, is found by it and by no other of that bucket. */
TEST(block_pool_buckets_end) {
    for (uint64_t low = 0; low < 64; low++) {
        struct block_pool pool;
        block_pool_init(&pool, 16);
        uint32_t id = block_pool_take(&pool, nobody);
        EXPECT_EQ(id, 0);
        EXPECT(block_pool_seal(&pool, id, (struct u128){.hi = 1, .lo = low}));
        EXPECT_EQ(pool.blocks[id].bucket_next, BLOCK_NONE);
        EXPECT_EQ(block_pool_find(&pool, (struct u128){.hi = 1, .lo = low}), id);
        for (uint64_t other = 0; other < 16; other++)
            EXPECT_EQ(block_pool_find(&pool, (struct u128){.hi = 2, .lo = other}), BLOCK_NONE);
        block_pool_release(&pool);
    }
}

/* Takes, names and gives back. */
static void fill(struct block_pool *pool, struct block_user by, uint64_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = block_pool_take(pool, by);
        CHECK(block_pool_seal(pool, id, (struct u128){.lo = first + i}));
        block_pool_unref(pool, id, by);
    }
}

static uint32_t found(const struct block_pool *pool, uint64_t first, uint32_t count) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += block_pool_find(pool, (struct u128){.lo = first + i}) != BLOCK_NONE;
    return sum;
}

/* Who fills the pool again and again leaves what another has, up to an equal share. */
TEST(block_pool_flood_takes_from_itself) {
    struct block_pool pool;
    struct block_user one = {1, 0}, two = {2, 0};
    block_pool_init(&pool, 20);
    fill(&pool, one, 1000, 6);
    for (int i = 1; i < 100; i++) {
        two.now_ms = i * 1000;
        fill(&pool, two, 2000 + 7 * (uint64_t)i, 7);
    }
    EXPECT_EQ(found(&pool, 1000, 6), 6);
    one.now_ms = two.now_ms;
    fill(&pool, one, 3000, 100);
    EXPECT_EQ(found(&pool, 3090, 10), 10);
    EXPECT_EQ(pool.held[2], 10);
    uint32_t running[10]; /* what runs counts, too */
    for (uint32_t i = 0; i < 10; i++)
        running[i] = block_pool_take(&pool, two);
    fill(&pool, two, 4000, 50);
    EXPECT_EQ(pool.held[1], 9); /* of two that had 10 the first gave one */
    for (uint32_t i = 0; i < 10; i++)
        block_pool_unref(&pool, running[i], two);
    block_pool_check(&pool);
    block_pool_release(&pool);
}

/* Whoever has been away for so long has nothing that others could use. */
TEST(block_pool_what_nobody_used_for_long_goes_first) {
    struct block_pool pool;
    struct block_user one = {1, 0}, two = {2, 0};
    block_pool_init(&pool, 20);
    fill(&pool, one, 1000, 6);
    fill(&pool, two, 2000, 14);
    two.now_ms = BLOCK_KEPT_MS - 1;
    fill(&pool, two, 3000, 14);
    EXPECT_EQ(found(&pool, 1000, 6), 6);
    two.now_ms = BLOCK_KEPT_MS;
    fill(&pool, two, 4000, 6);
    EXPECT_EQ(found(&pool, 1000, 6), 0);
    EXPECT_EQ(found(&pool, 3000, 14), 14);
    block_pool_release(&pool);
}
