/* What the core keeps things in: ids, words, and who is due next, each against a slow model of it. */
#include "check.h"
#include "scheduler/core/core.h"
#include "scheduler/core/request.h"
#include "scheduler/core/timer.h"

/* ---- ids ---- */

enum { IDS = 96, MAPS = 30 };

/* Groups of eight are alike in what their place is made of; which places they have differs from map to
 * map. */
static struct u128 id_of(uint32_t map, uint32_t i) {
    return (struct u128){.lo = (uint64_t)(map * 12 + i % 12) << 20 ^ (uint64_t)(i / 12) << 1,
                         .hi = i / 12};
}

/* Runs of equal places are long, and some of them wrap around the end of the table. */
TEST(ids_are_found_whatever_was_removed_at_random) {
    static char values[IDS];
    for (uint32_t m = 0; m < MAPS; m++) {
        struct id_map map = {0};
        bool in[IDS] = {false};
        size_t count = 0;
        EXPECT(!id_map_get(&map, id_of(m, 0)));
        for (uint32_t round = 0; round < 2000; round++) {
            uint32_t i = (uint32_t)(check_random() % IDS);
            if (in[i])
                id_map_remove(&map, id_of(m, i));
            else
                id_map_put(&map, id_of(m, i), &values[i]);
            in[i] = !in[i];
            count += in[i] ? 1 : (size_t)-1;
            EXPECT_EQ(map.count, count);
            EXPECT(map.count * 2 <= map.cap);
            for (uint32_t k = round % 7; k < IDS; k += 7)
                EXPECT(id_map_get(&map, id_of(m, k)) == (in[k] ? &values[k] : NULL));
        }
        id_map_release(&map);
        EXPECT(map.count == 0 && !map.entries);
    }
}

/* ---- words ---- */

TEST(words_grow_by_doubling_and_keep_what_is_used) {
    struct word_pool pool;
    struct words words = {0};
    word_pool_init(&pool, 1 << 20);
    for (uint32_t used = 0, want = 1; want < 3000; want += 1 + used / 3) {
        word_pool_reserve(&pool, &words, used, want);
        uint32_t cap = WORD_POOL_SMALLEST;
        while (cap < want)
            cap *= 2;
        EXPECT_EQ(words.cap, cap);
        EXPECT_EQ(pool.used_bytes, cap * sizeof(uint32_t));
        for (uint32_t i = 0; i < used; i++)
            EXPECT_EQ(words.items[i], i * 3);
        for (; used < want; used++)
            words.items[used] = used * 3;
    }
    uint32_t *before = words.items, cap = words.cap;
    word_pool_reserve(&pool, &words, 5, cap);
    EXPECT(words.items == before);
    word_pool_put_back(&pool, &words);
    EXPECT(!words.items && !words.cap && pool.used_bytes == 0);
    word_pool_put_back(&pool, &words); /* nothing there */
    EXPECT_EQ(pool.used_bytes, 0);
    word_pool_reserve(&pool, &words, 0, cap);
    EXPECT(words.items == before); /* the one that was put back */
    word_pool_put_back(&pool, &words);
    word_pool_release(&pool);
}

/* What was put back is kept up to so many bytes, and no further. */
TEST(words_are_kept_to_the_last_byte_that_is_allowed) {
    enum { BYTES = WORD_POOL_SMALLEST * sizeof(uint32_t) };
    for (size_t keep = 2 * BYTES - 1; keep <= 3 * BYTES; keep += keep % BYTES ? 1 : BYTES) {
        struct word_pool pool;
        struct words words[4] = {0};
        word_pool_init(&pool, keep);
        for (int i = 0; i < 4; i++)
            word_pool_reserve(&pool, &words[i], 0, 1);
        EXPECT_EQ(pool.used_bytes, 4 * BYTES);
        for (size_t i = 0; i < 4; i++) {
            word_pool_put_back(&pool, &words[i]);
            EXPECT_EQ(pool.free_bytes, MIN(i + 1, keep / BYTES) * BYTES);
        }
        word_pool_reserve(&pool, &words[0], 0, 1);
        EXPECT_EQ(pool.free_bytes, (keep / BYTES - 1) * BYTES);
        word_pool_put_back(&pool, &words[0]);
        EXPECT_EQ(pool.used_bytes, 0);
        word_pool_release(&pool);
    }
}

/* ---- who is due next ---- */

enum { REQUESTS = 40 };

/* A timer comes forward at once, and goes back only when it has run. */
TEST(the_next_timer_is_the_least_at_random) {
    static struct request requests[REQUESTS];
    struct sched s = {0};
    for (uint32_t i = 0; i < REQUESTS; i++)
        requests[i] = (struct request){.timer_idx = UINT32_MAX,
                                       .open_count = 1,
                                       .deadline_at = NEVER,
                                       .probe_at = NEVER,
                                       .retransmit_at = NEVER,
                                       .expire_at = NEVER,
                                       .unbound_until = NEVER};
    EXPECT_EQ(timers_next(&s), NEVER);
    for (uint32_t round = 0; round < 20000; round++) {
        struct request *r = &requests[check_random() % REQUESTS];
        int64_t *const times[] = {&r->deadline_at, &r->probe_at, &r->retransmit_at, &r->expire_at,
                                  &r->unbound_until};
        if (check_random() % 3 == 0) {
            timer_remove(&s, r);
            timer_remove(&s, r); /* again: nothing */
            for (size_t i = 0; i < ARRAY_LEN(times); i++)
                *times[i] = NEVER;
        } else {
            *times[check_random() % ARRAY_LEN(times)] = (int64_t)(check_random() % 1000);
            timer_update(&s, r);
        }
        int64_t least = NEVER;
        for (uint32_t i = 0; i < REQUESTS; i++) {
            const struct request *q = &requests[i];
            int64_t due = MIN(MIN(q->deadline_at, q->probe_at), q->retransmit_at);
            due = MIN(due, MIN(q->expire_at, q->unbound_until));
            EXPECT((q->timer_idx == UINT32_MAX) == (due == NEVER));
            if (due == NEVER)
                continue;
            EXPECT(q->timer_at <= due && s.timers.items[q->timer_idx] == q);
            least = MIN(least, q->timer_at);
        }
        EXPECT_EQ(timers_next(&s), least);
    }
    vec_release(&s.timers);
}

/* Deadline and probe are of what is open alone. */
TEST(what_is_over_has_no_deadline) {
    struct sched s = {0};
    struct request r = {.timer_idx = UINT32_MAX,
                        .deadline_at = 5,
                        .probe_at = 6,
                        .retransmit_at = 9,
                        .expire_at = NEVER,
                        .unbound_until = NEVER};
    timer_update(&s, &r);
    EXPECT_EQ(timers_next(&s), 9);
    r.open_count = 1;
    timer_update(&s, &r);
    EXPECT_EQ(timers_next(&s), 5);
    timer_remove(&s, &r);
    r.deadline_at = NEVER;
    timer_update(&s, &r);
    EXPECT_EQ(timers_next(&s), 6);
    vec_release(&s.timers);
}
