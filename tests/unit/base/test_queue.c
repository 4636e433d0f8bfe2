#include "base/queue.h"
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

static bool readable(struct queue *q, int timeout_ms) {
    struct pollfd p = {.fd = queue_fd(q), .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

TEST(queue_is_first_in_first_out_and_bounded) {
    struct queue *q = queue_new(3);
    intptr_t next_in = 1, next_out = 1;
    for (int round = 0; round < 50; round++) {
        while (next_in - next_out < 3)
            EXPECT(queue_push(q, (void *)next_in++));
        EXPECT(!queue_push(q, (void *)next_in));
        EXPECT_EQ(queue_full_count(q), round + 1);
        for (int i = 0; i < 1 + round % 3; i++)
            EXPECT_EQ((intptr_t)queue_pop(q), next_out++);
    }
    while (next_out < next_in)
        EXPECT_EQ((intptr_t)queue_pop(q), next_out++);
    EXPECT(!queue_pop(q));
    queue_free(&q);
    EXPECT(!q);
}

TEST(queue_fd_is_readable_exactly_while_not_empty) {
    struct queue *q = queue_new(8);
    size_t count = 0;
    EXPECT(!readable(q, 0));
    for (int i = 0; i < 2000; i++) {
        if (check_random() % 2)
            count += queue_push(q, q);
        else
            count -= queue_pop(q) != NULL;
        EXPECT_EQ(readable(q, 0), count > 0);
    }
    queue_free(&q);
}

enum { PRODUCERS = 4, ITEMS_EACH = 20000 };
static struct queue *shared_queue;
static void *produce(void *arg) {
    for (uintptr_t i = 0; i < ITEMS_EACH; i++)
        while (!queue_push(shared_queue, (void *)((uintptr_t)arg << 32 | (i + 1))))
            sched_yield();
    return NULL;
}

TEST(queue_with_four_producers_loses_and_reorders_nothing) {
    pthread_t threads[PRODUCERS];
    uint32_t last[PRODUCERS] = {0};
    shared_queue = queue_new(64);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        pthread_create(&threads[i], NULL, produce, (void *)i);
    for (int taken = 0; taken < PRODUCERS * ITEMS_EACH;) {
        EXPECT(readable(shared_queue, 10000));
        for (void *item; (item = queue_pop(shared_queue)); taken++) {
            uintptr_t who = (uintptr_t)item >> 32;
            EXPECT(who < PRODUCERS);
            EXPECT_EQ((uint32_t)(uintptr_t)item, last[who] + 1);
            last[who]++;
        }
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    EXPECT(!readable(shared_queue, 0));
    queue_free(&shared_queue);
}

static long resident_pages(void) {
    long all, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident;
}

/* A queue made for a flood that never comes takes no memory as time goes by. */
TEST(queue_that_stays_short_touches_few_pages) {
    enum { PLACES = 1 << 22, ITEMS = 1 << 20, PAGE_ITEMS = 512 };
    struct queue *q = queue_new(PLACES);
    EXPECT(queue_push(q, q) && queue_pop(q) == q);
    long before = resident_pages();
    EXPECT(before > 0);
    for (int i = 0; i < ITEMS / 2; i++) {
        EXPECT(queue_push(q, q) && queue_push(q, q));
        EXPECT(queue_pop(q) == q && queue_pop(q) == q);
    }
    EXPECT(resident_pages() - before < ITEMS / PAGE_ITEMS / 4);
    queue_free(&q);
}
