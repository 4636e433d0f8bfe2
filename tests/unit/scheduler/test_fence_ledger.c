#include "check.h"
#include "scheduler/fence_ledger.h"

static const struct wire_fence A = {{1, 1}, 11}, B = {{2, 2}, 22};

static size_t due_count(struct fence_ledger *l, int64_t now) {
    size_t count = 0;
    while (fence_ledger_due(l, now))
        count++;
    return count;
}

TEST(fence_ledger_asks_again_until_it_is_confirmed) {
    struct fence_ledger l = {0};
    fence_ledger_add(&l, 0, &A);
    fence_ledger_add(&l, 500, &B);
    EXPECT_EQ(due_count(&l, 999), 0);
    const struct wire_fence *due = fence_ledger_due(&l, 1000);
    EXPECT(due && due->pid == 11);
    EXPECT(fence_ledger_due(&l, 1000) == NULL);
    EXPECT_EQ(due_count(&l, 2000), 2);
    fence_ledger_confirm(&l, A.instance);
    fence_ledger_confirm(&l, (struct u128){9, 9});
    EXPECT_EQ(due_count(&l, 3000), 1);
    fence_ledger_confirm(&l, B.instance);
    EXPECT_EQ(due_count(&l, 4000), 0);
    fence_ledger_release(&l);
}

TEST(fence_ledger_gives_up_and_starts_over_when_asked_anew) {
    struct fence_ledger l = {0};
    fence_ledger_add(&l, 0, &A);
    EXPECT_EQ(due_count(&l, FENCE_GIVE_UP_MS - 1), 1);
    EXPECT_EQ(due_count(&l, FENCE_GIVE_UP_MS), 0);
    EXPECT_EQ(l.entries.count, 0);
    fence_ledger_add(&l, 0, &A);
    fence_ledger_add(&l, FENCE_GIVE_UP_MS, &A); /* the core asked again */
    EXPECT_EQ(l.entries.count, 1);
    EXPECT_EQ(due_count(&l, FENCE_GIVE_UP_MS + FENCE_AGAIN_MS), 1);
    fence_ledger_release(&l);
}
