/* The work pool: who is next; and the room for whole answers. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "gateway/answers/answer_room.h"
#include "gateway/generation/work_pool.h"

/* One piece is in hand until `go`, so that the others wait and their order is the pool's choice. */
struct piece {
    struct work work;
    int idx;
};
static struct piece pieces[WORK_WAITING_MAX + 1];
static atomic_int order[WORK_WAITING_MAX + 1], done, dropped, holding;
static atomic_bool go;

static struct piece *piece_of(struct work *work) {
    return (struct piece *)(void *)work;
}

static void run(struct work *work) {
    order[atomic_fetch_add(&done, 1)] = piece_of(work)->idx;
}

static void hold(struct work *work) {
    (void)work;
    atomic_fetch_add(&holding, 1);
    while (!atomic_load(&go))
        usleep(500);
}

/* Looks short, and takes so long of a processor. */
static int64_t burn_ms;
static void burn(struct work *work) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    int64_t end = t.tv_sec * 1000000000ll + t.tv_nsec + burn_ms * 1000000;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec * 1000000000ll + t.tv_nsec < end);
    run(work);
}

static void drop(struct work *work) {
    (void)work;
    atomic_fetch_add(&dropped, 1);
}

static bool push(struct work_pool *pool, int idx, uint64_t tenant, size_t bytes,
                 void (*what)(struct work *)) {
    pieces[idx] =
        (struct piece){{.tenant = {tenant, 1}, .bytes = bytes, .run = what, .drop = drop}, idx};
    return work_pool_push(pool, &pieces[idx].work);
}

/* Both threads of a pool are in hand: what is pushed waits. */
static struct work_pool *busy_pool(void) {
    struct work_pool *pool = work_pool_new(2);
    done = dropped = holding = 0;
    go = false;
    CHECK(push(pool, 0, 99, WORK_SHORT_BYTES + 1, hold));
    while (atomic_load(&holding) < 1)
        usleep(500);
    CHECK(push(pool, 1, 98, 1, hold));
    while (atomic_load(&holding) < 2)
        usleep(500);
    return pool;
}

static void let_go(struct work_pool **pool, int count) {
    go = true;
    for (int i = 0; i < 5000 && atomic_load(&done) < count; i++)
        usleep(1000);
    work_pool_free(pool);
}

TEST(work_short_before_long_and_none_for_ever) {
    enum { LONG = 10 * WORK_SHORT_BYTES };
    struct work_pool *pool = busy_pool();
    EXPECT(push(pool, 2, 7, LONG, run));
    for (int i = 3; i < 30; i++)
        EXPECT(push(pool, i, 7, LONG / 2, run));
    let_go(&pool, 28);
    EXPECT_EQ(done, 28);
    int at = -1;
    for (int i = 0; i < 28; i++)
        if (order[i] == 2)
            at = i;
    /* shorter ones came in front of it, but only for WORK_PASSED times its bytes */
    EXPECT(at >= 4 && at <= 10);
}

TEST(work_of_tenants_takes_turns) {
    enum { LONG = WORK_SHORT_BYTES + 1 };
    struct work_pool *pool = busy_pool();
    for (int i = 2; i < 42; i++)
        EXPECT(push(pool, i, 7, LONG, run));
    for (int i = 42; i < 46; i++)
        EXPECT(push(pool, i, 8, LONG, run));
    let_go(&pool, 44);
    EXPECT_EQ(done, 44);
    int last = 0;
    for (int i = 0; i < 44; i++)
        if (order[i] >= 42)
            last = i;
    EXPECT(last <= 10); /* the second tenant's four do not wait behind the first one's forty */
}

TEST(work_that_is_short_never_waits_for_long_work) {
    struct work_pool *pool = work_pool_new(2);
    done = holding = 0;
    go = false;
    for (int i = 0; i < 4; i++)
        EXPECT(push(pool, i, 7, WORK_SHORT_BYTES + 1, hold));
    while (atomic_load(&holding) < 1)
        usleep(500);
    EXPECT(push(pool, 10, 7, WORK_SHORT_BYTES, run));
    for (int i = 0; i < 5000 && !atomic_load(&done); i++)
        usleep(1000);
    EXPECT_EQ(done, 1);
    EXPECT_EQ(holding, 1); /* the thread for short work took no long one */
    let_go(&pool, 1);
}

/* The thread for long work is in hand until let_go, the other one until go_short. */
static atomic_bool go_short;
static void hold_short(struct work *work) {
    (void)work;
    atomic_fetch_add(&holding, 1);
    while (!atomic_load(&go_short))
        usleep(500);
}

static struct work_pool *pool_with_one_thread(void) {
    struct work_pool *pool = work_pool_new(2);
    done = dropped = holding = 0;
    go = go_short = false;
    CHECK(push(pool, 0, 99, WORK_SHORT_BYTES + 1, hold));
    while (atomic_load(&holding) < 1)
        usleep(500);
    CHECK(push(pool, 1, 98, 1, hold_short));
    while (atomic_load(&holding) < 2)
        usleep(500);
    return pool;
}

static void wait_for(int count) {
    for (int i = 0; i < 5000 && atomic_load(&done) < count; i++)
        usleep(1000);
    EXPECT_EQ(done, count);
}

TEST(work_of_few_bytes_counts_by_its_time) {
    struct work_pool *pool = pool_with_one_thread();
    burn_ms = 3;
    for (int i = 2; i < 5; i++)
        EXPECT(push(pool, i, 7, 10, burn));
    for (int i = 10; i < 20; i++)
        EXPECT(push(pool, i, 8, 10, run));
    go_short = true;
    wait_for(13);
    int first_of_slow = 0, slow_before_last = 0;
    for (int i = 0; i < 13; i++)
        if (order[i] < 5)
            slow_before_last += i < 11;
    for (int i = 12; i >= 0; i--)
        if (order[i] < 5)
            first_of_slow = i;
    EXPECT(first_of_slow <= 1); /* it has its turn */
    EXPECT_EQ(slow_before_last, 1);
    let_go(&pool, 13);
}

TEST(work_of_who_was_slow_is_not_for_the_thread_of_short_work) {
    struct work_pool *pool = pool_with_one_thread();
    burn_ms = 60;
    go_short = true;
    EXPECT(push(pool, 2, 7, 10, burn));
    wait_for(1);
    EXPECT(push(pool, 3, 7, 10, run));
    EXPECT(push(pool, 4, 8, 10, run)); /* who was not has it */
    wait_for(2);
    usleep(20000);
    EXPECT_EQ(done, 2);
    EXPECT_EQ(order[1], 4);
    let_go(&pool, 3);
    EXPECT_EQ(done, 3);
}

TEST(work_of_one_tenant_leaves_room_for_another) {
    struct work_pool *pool = busy_pool();
    int taken = 0;
    while (push(pool, 2 + taken, 7, 1, run))
        taken++;
    EXPECT_EQ(taken, WORK_WAITING_MAX / 2);
    EXPECT(push(pool, 2 + taken, 8, 1, run));
    int count = atomic_load(&done);
    EXPECT_EQ(count, 0);
    let_go(&pool, taken + 1);
    EXPECT_EQ(done + dropped, taken + 1);
}

TEST(answer_room_is_shared) {
    struct answer_room *room = answer_room_new(100);
    struct u128 one = {1, 1}, two = {2, 2}, three = {3, 3};
    EXPECT(!answer_room_take(room, one, 51));
    EXPECT(answer_room_take(room, one, 50));
    EXPECT(!answer_room_take(room, one, 1));
    EXPECT(!answer_room_take(room, two, 26));
    EXPECT(answer_room_take(room, two, 25));
    EXPECT(answer_room_take(room, three, 12));
    EXPECT(!answer_room_take(room, three, 101));
    EXPECT(!answer_room_take(room, three, UINT64_MAX));
    EXPECT_EQ(answer_room_taken(room), 87);
    answer_room_give(room, one, 20);
    answer_room_give(room, one, 30);
    EXPECT(answer_room_take(room, two, 10));
    answer_room_give(room, two, 35);
    answer_room_give(room, three, 12);
    EXPECT_EQ(answer_room_taken(room), 0);
    EXPECT(answer_room_take(room, one, 0));
    answer_room_free(&room);
}
