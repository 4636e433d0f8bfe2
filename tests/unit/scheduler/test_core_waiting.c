/* The queue of a model by itself: who is before whom, for each reason alone, and at random against a
 * list that is searched from end to end. */
#include "scheduler/core/waiting.h"

#include "check.h"
#include "scheduler/core/request.h"
#include "scheduler/core/sequence_state.h"

enum { SEQUENCES = 60, TENANTS = 5 };

static struct request requests[SEQUENCES];
static struct sequence sequences[SEQUENCES];
static struct tenant tenants[TENANTS];

/* Both of tenant 0, of the same priority, new; the first came first. */
static void two_alike(void) {
    memset(tenants, 0, sizeof tenants);
    for (uint32_t i = 0; i < 2; i++) {
        requests[i] = (struct request){.tenant = &tenants[0], .arrival = 10 + i, .priority = 5};
        sequences[i] = (struct sequence){.request = &requests[i], .state = SEQ_QUEUED};
    }
}

/* Exactly one of two is before the other: this one. */
static bool goes_first(uint32_t first) {
    const struct sequence *a = &sequences[first], *b = &sequences[!first];
    return waiting_before(a, b) && !waiting_before(b, a);
}

TEST(of_a_tenant_importance_goes_first_then_arrival_then_choice) {
    two_alike();
    EXPECT(goes_first(0));
    requests[1].priority = 4;
    EXPECT(goes_first(1));
    requests[0].priority = WIRE_PRIORITY_PROBE;
    EXPECT(goes_first(0));
    requests[1].priority = WIRE_PRIORITY_PROBE;
    EXPECT(goes_first(0));
    two_alike();
    sequences[0].request = &requests[1];
    sequences[0].choice = 1;
    EXPECT(goes_first(1));
}

TEST(of_two_tenants_who_got_less_goes_first_whatever_the_importance) {
    two_alike();
    requests[1].tenant = &tenants[1];
    EXPECT(goes_first(0)); /* by arrival */
    requests[1].priority = 1;
    EXPECT(goes_first(0));
    tenants[0].served = 1;
    EXPECT(goes_first(1));
    tenants[1].served = 2;
    EXPECT(goes_first(0));
    requests[1].priority = WIRE_PRIORITY_PROBE;
    EXPECT(goes_first(1));
}

TEST(of_two_that_ran_who_costs_less_goes_first) {
    two_alike();
    sequences[0].started = sequences[1].started = true;
    sequences[0].recompute_cost = sequences[1].recompute_cost = 7;
    EXPECT(goes_first(0));
    requests[1].priority = 1; /* counts among new ones alone */
    EXPECT(goes_first(0));
    requests[0].tenant = &tenants[1];
    tenants[1].served = 9; /* and so do shares */
    EXPECT(goes_first(0));
    sequences[0].recompute_cost = 8;
    EXPECT(goes_first(1));
    requests[0].priority = WIRE_PRIORITY_PROBE;
    EXPECT(goes_first(0));
}

TEST(what_ran_goes_before_what_is_new_but_for_what_is_more_important) {
    two_alike();
    sequences[1].started = true;
    EXPECT(goes_first(1));
    requests[0].priority = 4;
    EXPECT(goes_first(0));
    requests[0].tenant = &tenants[1]; /* of another tenant that is nothing */
    EXPECT(goes_first(1));
    requests[0].priority = WIRE_PRIORITY_PROBE;
    EXPECT(goes_first(0));
    two_alike();
    requests[1].resumed = true; /* under another scheduler */
    EXPECT(goes_first(1));
}

TEST(places_are_shared_by_those_of_whom_something_new_waits) {
    struct waiting w = {0};
    struct tenant *a = waiting_tenant_ref(&w, (struct u128){7, 1}),
                  *b = waiting_tenant_ref(&w, (struct u128){7, 2});
    EXPECT_EQ(waiting_share(&w, NULL, 9), 9);
    EXPECT_EQ(waiting_share(&w, a, 9), 9);
    a->new_count = 3;
    EXPECT_EQ(waiting_share(&w, a, 9), 9);
    EXPECT_EQ(waiting_share(&w, b, 9), 4); /* it is one more, then */
    EXPECT_EQ(waiting_share(&w, NULL, 9), 4);
    b->new_count = 1;
    EXPECT_EQ(waiting_share(&w, a, 9), 4);
    EXPECT_EQ(waiting_share(&w, b, 9), 4);
    EXPECT_EQ(waiting_share(&w, NULL, 9), 3);
    a->new_count = b->new_count = 0;
    waiting_tenant_unref(&w, a);
    waiting_tenant_unref(&w, b);
    waiting_release(&w);
}

TEST(a_tenant_lasts_as_long_as_its_requests_and_begins_at_the_floor) {
    static const struct u128 NOBODY = {0};
    struct waiting w = {.floor = 50};
    struct tenant *a = waiting_tenant_ref(&w, NOBODY);
    EXPECT(a->served == 50 && waiting_tenant_find(&w, NOBODY) == a);
    EXPECT(!waiting_tenant_find(&w, (struct u128){2, 2}));
    EXPECT(waiting_tenant_ref(&w, NOBODY) == a && a->request_count == 2);
    a->served = 60;
    w.floor = 70;
    struct tenant *b = waiting_tenant_ref(&w, (struct u128){2, 2}),
                  *c = waiting_tenant_ref(&w, (struct u128){3, 3});
    EXPECT(b->served == 70 && a->served == 60 && b->idx == 1 && c->idx == 2);
    waiting_tenant_unref(&w, b);
    EXPECT(w.tenants.count == 2 && c->idx == 1 && !waiting_tenant_find(&w, (struct u128){2, 2}));
    waiting_check(&w);
    waiting_tenant_unref(&w, a);
    EXPECT(waiting_tenant_find(&w, NOBODY) == a);
    waiting_tenant_unref(&w, a);
    EXPECT(!waiting_tenant_find(&w, NOBODY));
    waiting_tenant_unref(&w, c);
    waiting_release(&w);
}

/* Raised when the first of it comes, once. */
TEST(idleness_earns_nothing_and_costs_nothing) {
    struct waiting w = {0};
    struct tenant *a = waiting_tenant_ref(&w, (struct u128){1, 2});
    two_alike();
    requests[0].tenant = requests[1].tenant = a;
    a->served = 40;
    w.floor = 30;
    waiting_add(&w, &sequences[0]);
    EXPECT_EQ(a->served, 40);
    w.floor = 50;
    waiting_add(&w, &sequences[1]);
    EXPECT_EQ(a->served, 40); /* it waited all the time */
    waiting_remove(&w, &sequences[0]);
    waiting_remove(&w, &sequences[1]);
    sequences[0].started = true;
    waiting_add(&w, &sequences[0]);
    EXPECT_EQ(a->served, 40); /* of what ran nothing is asked */
    waiting_add(&w, &sequences[1]);
    EXPECT_EQ(a->served, 50);
    EXPECT(waiting_first(&w, true) == &sequences[0] && waiting_first(&w, false) == &sequences[1]);
    waiting_remove(&w, &sequences[1]);
    EXPECT(!waiting_first(&w, false) && waiting_first(&w, true) == &sequences[0]);
    waiting_remove(&w, &sequences[0]);
    EXPECT(!waiting_first(&w, true));
    waiting_tenant_unref(&w, a);
    waiting_release(&w);
}

/* One that ran costs little to go on with, and is less important than a new one of its tenant. That holds
 * up neither those that ran and are as important, nor those of another tenant. */
TEST(who_waits_for_a_new_one_holds_nobody_else_up) {
    struct waiting w = {0};
    struct tenant *own = waiting_tenant_ref(&w, (struct u128){1, 2}),
                  *other = waiting_tenant_ref(&w, (struct u128){3, 4});
    static const int32_t priorities[] = {2, 0, 0, 2};
    memset(sequences, 0, sizeof sequences);
    for (uint32_t i = 0; i < 4; i++) {
        requests[i] = (struct request){
            .tenant = i == 3 ? other : own, .arrival = i, .priority = priorities[i]};
        sequences[i] = (struct sequence){.request = &requests[i],
                                         .state = SEQ_QUEUED,
                                         .started = i != 2,
                                         .recompute_cost = 10 * i};
        waiting_add(&w, &sequences[i]);
    }
    static const uint32_t order[] = {1, 3, 2, 0};
    for (uint32_t i = 0; i < ARRAY_LEN(order); i++) {
        EXPECT(waiting_first(&w, true) == &sequences[order[i]]);
        waiting_remove(&w, &sequences[order[i]]);
    }
    waiting_tenant_unref(&w, own);
    waiting_tenant_unref(&w, other);
    waiting_release(&w);
}

/* Of those that ran before and whose tenant has no slot, the first in order, wherever it stands. */
TEST(of_what_ran_the_first_whose_tenant_has_no_slot) {
    struct waiting w = {0};
    struct tenant *of[3];
    static const uint32_t COSTS[] = {1, 9, 5, 7};
    static const uint32_t TENANT[] = {0, 1, 2, 1};
    for (uint64_t i = 0; i < ARRAY_LEN(of); i++)
        of[i] = waiting_tenant_ref(&w, (struct u128){i, 1});
    EXPECT(!waiting_first_slotless(&w));
    for (uint32_t i = 0; i < ARRAY_LEN(COSTS); i++) {
        requests[i] = (struct request){.tenant = of[TENANT[i]], .arrival = i};
        sequences[i] = (struct sequence){.request = &requests[i],
                                         .state = SEQ_QUEUED,
                                         .started = true,
                                         .recompute_cost = COSTS[i]};
        waiting_add(&w, &sequences[i]);
    }
    EXPECT(waiting_first_slotless(&w) == &sequences[0]);
    of[0]->slot_count = 1;
    EXPECT(waiting_first_slotless(&w) == &sequences[2]);
    of[2]->slot_count = 1;
    EXPECT(waiting_first_slotless(&w) == &sequences[3]);
    of[1]->slot_count = 1;
    EXPECT(!waiting_first_slotless(&w));
    for (uint32_t i = 0; i < ARRAY_LEN(COSTS); i++)
        waiting_remove(&w, &sequences[i]);
    for (uint32_t i = 0; i < ARRAY_LEN(of); i++)
        waiting_tenant_unref(&w, of[i]);
    waiting_release(&w);
}

/* ---- at random ---- */

/* Of the new ones of a tenant. */
static struct sequence *search(struct sequence *const *queued, uint32_t count,
                               const struct tenant *tenant) {
    struct sequence *first = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!seq_is_resumed(queued[i]) && queued[i]->request->tenant == tenant &&
            (!first || waiting_before(queued[i], first)))
            first = queued[i];
    return first;
}

/* Of those that ran; where there is a new one (or NULL), of those that go before it. */
static struct sequence *resumed_of(struct sequence *const *queued, uint32_t count,
                                   const struct sequence *fresh) {
    struct sequence *first = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (seq_is_resumed(queued[i]) && (!fresh || waiting_before(queued[i], fresh)) &&
            (!first || waiting_before(queued[i], first)))
            first = queued[i];
    return first;
}

/* Of the first ones of all tenants. */
static struct sequence *fresh_of(struct sequence *const *queued, uint32_t count,
                                 struct tenant *const *of) {
    struct sequence *first = NULL;
    for (uint32_t i = 0; i < TENANTS; i++) {
        struct sequence *own = search(queued, count, of[i]);
        if (own && (!first || waiting_before(own, first)))
            first = own;
    }
    return first;
}

static struct sequence *first_of(struct sequence *const *queued, uint32_t count,
                                 struct tenant *const *of) {
    struct sequence *fresh = fresh_of(queued, count, of);
    struct sequence *resumed = resumed_of(queued, count, fresh);
    return resumed ? resumed : fresh;
}

TEST(the_first_is_before_all_others_at_random) {
    struct waiting w = {0};
    struct tenant *of[TENANTS];
    struct sequence *queued[SEQUENCES];
    uint32_t count = 0;
    for (uint64_t i = 0; i < TENANTS; i++)
        of[i] = waiting_tenant_ref(&w, (struct u128){i, i});
    for (uint32_t round = 0; round < 4000; round++) {
        bool adds = count < SEQUENCES && (!count || check_random() % 100 < 55);
        uint32_t at = adds ? count : (uint32_t)(check_random() % count);
        if (adds) {
            uint32_t slot = 0; /* one that is not queued */
            while (sequences[slot].state == SEQ_QUEUED && round)
                slot++;
            if (!round)
                memset(sequences, 0, sizeof sequences);
            requests[slot] = (struct request){.tenant = of[check_random() % TENANTS],
                                              .arrival = round,
                                              .priority = (int32_t)(check_random() % 3)};
            if (check_random() % 50 == 0)
                requests[slot].priority = WIRE_PRIORITY_PROBE;
            sequences[slot] = (struct sequence){.request = &requests[slot],
                                                .state = SEQ_QUEUED,
                                                .started = check_random() % 4 == 0,
                                                .recompute_cost = (uint32_t)check_random() % 5};
            waiting_add(&w, queued[count++] = &sequences[slot]);
        } else {
            if (check_random() % 2)
                while (queued[at] != waiting_first(&w, true))
                    at = (at + 1) % count;
            waiting_remove(&w, queued[at]);
            queued[at]->request->tenant->served += check_random() % 20;
            queued[at]->state = SEQ_NEW;
            queued[at] = queued[--count];
        }
        waiting_check(&w);
        EXPECT_EQ(w.count, count);
        EXPECT(waiting_first(&w, false) == fresh_of(queued, count, of));
        EXPECT(waiting_first(&w, true) == first_of(queued, count, of));
    }
    while (count)
        waiting_remove(&w, queued[--count]);
    for (uint32_t i = 0; i < TENANTS; i++)
        waiting_tenant_unref(&w, of[i]);
    waiting_release(&w);
}
