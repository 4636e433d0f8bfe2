#include "check.h"
#include "scheduler/ticket_ledger.h"

static const struct u128 ONE = {1, 1}, TWO = {2, 2}, HERE = {7, 1}, THERE = {7, 2};

static void count(void *ctx, struct u128 ticket) {
    size_t *told = ctx;
    told[ticket.lo]++;
}

/* How often ONE and TWO are told to be answered by nobody, when this supervisor goes. */
static size_t told_of(struct ticket_ledger *l, struct u128 supervisor, struct u128 ticket) {
    size_t told[4] = {0};
    ticket_ledger_gone(l, supervisor, count, told);
    return told[ticket.lo];
}

TEST(ticket_ledger_tells_when_the_last_that_was_asked_has_gone) {
    struct ticket_ledger l = {0};
    ticket_ledger_add(&l, ONE, HERE);
    ticket_ledger_add(&l, ONE, THERE);
    EXPECT_EQ(told_of(&l, HERE, ONE), 0);
    EXPECT_EQ(told_of(&l, HERE, ONE), 0);
    EXPECT_EQ(told_of(&l, THERE, ONE), 1);
    EXPECT_EQ(told_of(&l, THERE, ONE), 0);
    ticket_ledger_release(&l);
}

TEST(ticket_ledger_forgets_what_has_its_outcome) {
    struct ticket_ledger l = {0};
    ticket_ledger_add(&l, ONE, HERE);
    ticket_ledger_add(&l, TWO, HERE);
    ticket_ledger_done(&l, ONE);
    size_t told[4] = {0};
    ticket_ledger_gone(&l, HERE, count, told);
    EXPECT_EQ(told[ONE.lo], 0);
    EXPECT_EQ(told[TWO.lo], 1);
    EXPECT_EQ(l.entries.count, 0);
    ticket_ledger_release(&l);
}

TEST(ticket_ledger_lets_the_last_refusal_count) {
    struct ticket_ledger l = {0};
    ticket_ledger_add(&l, ONE, HERE);
    ticket_ledger_add(&l, ONE, THERE);
    ticket_ledger_add(&l, TWO, THERE);
    EXPECT(!ticket_ledger_refused(&l, ONE, HERE));
    EXPECT(ticket_ledger_refused(&l, ONE, THERE));
    EXPECT(ticket_ledger_refused(&l, ONE, THERE)); /* of a scheduler before this one */
    EXPECT_EQ(told_of(&l, THERE, TWO), 1);
    ticket_ledger_release(&l);
}

TEST(ticket_ledger_is_bounded) {
    struct ticket_ledger l = {0};
    ticket_ledger_add(&l, ONE, HERE);
    for (size_t i = 0; i < TICKETS_MAX; i++)
        ticket_ledger_add(&l, TWO, THERE);
    EXPECT_EQ(l.entries.count, TICKETS_MAX);
    EXPECT_EQ(told_of(&l, HERE, ONE), 0);
    EXPECT_EQ(told_of(&l, THERE, TWO), 1);
    ticket_ledger_release(&l);
}
