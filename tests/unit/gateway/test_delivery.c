/* Exactly once, in order: verdicts one by one, then a long random life against a lossy, repeating,
 * reordering scheduler that dies. */
#include "base/base.h"
#include "check.h"
#include "gateway/generation/delivery.h"

static const struct epoch first = {7, {1, 1}}, second = {8, {2, 2}};

static enum delivery_verdict offer(struct delivery *d, struct epoch epoch, uint32_t attempt,
                                   uint32_t choice, uint32_t index, uint32_t count, bool finish,
                                   uint32_t *skip) {
    struct delivery_run run = {epoch, attempt, choice, index, count, finish};
    bool ask;
    return delivery_accept(d, &run, 0, skip, &ask);
}

static void take(struct delivery *d, uint32_t choice, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        delivery_take(d, choice, d->choices[choice].count, 0);
}

TEST(takes_only_what_is_next) {
    struct delivery d;
    uint32_t skip;
    delivery_init(&d, (struct u128){1, 2}, 2);
    /* nothing was submitted */
    EXPECT_EQ(offer(&d, first, 0, 0, 0, 1, false, &skip), DELIVERY_STALE);
    delivery_submitted(&d, first, 0);
    EXPECT_EQ(offer(&d, first, 0, 0, 0, 3, false, &skip), DELIVERY_TAKE);
    EXPECT_EQ(skip, 0);
    take(&d, 0, 3);
    EXPECT_EQ(offer(&d, first, 0, 0, 0, 3, false, &skip), DELIVERY_DUPLICATE);
    EXPECT_EQ(offer(&d, first, 0, 0, 1, 4, false, &skip), DELIVERY_TAKE);
    EXPECT_EQ(skip, 2);
    take(&d, 0, 2);
    EXPECT_EQ(offer(&d, first, 0, 0, 6, 1, false, &skip), DELIVERY_GAP);
    EXPECT_EQ(offer(&d, first, 0, 1, 0, 0, false, &skip), DELIVERY_DUPLICATE); /* "accepted" */
    EXPECT_EQ(offer(&d, first, 0, 2, 0, 1, false, &skip), DELIVERY_STALE);     /* no such choice */
    delivery_release(&d);
}

TEST(drops_other_epochs_and_attempts) {
    struct delivery d;
    uint32_t skip;
    delivery_init(&d, (struct u128){1, 2}, 1);
    delivery_submitted(&d, first, 0);
    EXPECT_EQ(offer(&d, second, 0, 0, 0, 1, false, &skip), DELIVERY_STALE);
    EXPECT_EQ(offer(&d, first, 1, 0, 0, 1, false, &skip), DELIVERY_STALE);
    delivery_restart(&d, second);
    EXPECT_EQ(d.attempt, 1);
    EXPECT(!d.submitted && !d.accepted);
    EXPECT_EQ(delivery_due(&d, 5), DELIVERY_SUBMIT);
    EXPECT_EQ(offer(&d, first, 0, 0, 0, 1, false, &skip), DELIVERY_STALE);
    EXPECT_EQ(offer(&d, second, 1, 0, 0, 1, false, &skip), DELIVERY_TAKE);
    delivery_release(&d);
}

TEST(a_restart_before_any_submit_keeps_the_attempt) {
    struct delivery d;
    delivery_init(&d, (struct u128){1, 2}, 1);
    delivery_restart(&d, first);
    EXPECT_EQ(d.attempt, 0);
    delivery_release(&d);
}

TEST(finish_is_told_once) {
    struct delivery d;
    uint32_t skip;
    delivery_init(&d, (struct u128){1, 2}, 1);
    delivery_submitted(&d, first, 0);
    EXPECT_EQ(offer(&d, first, 0, 0, 0, 2, false, &skip), DELIVERY_TAKE);
    take(&d, 0, 2);
    /* only the finish is new */
    EXPECT_EQ(offer(&d, first, 0, 0, 2, 0, true, &skip), DELIVERY_TAKE);
    EXPECT_EQ(skip, 0);
    delivery_finish(&d, 0, true);
    delivery_finish(&d, 0, true);
    EXPECT(delivery_is_done(&d));
    EXPECT_EQ(offer(&d, first, 0, 0, 2, 0, true, &skip), DELIVERY_FINISHED);
    EXPECT_EQ(delivery_due(&d, 100000), DELIVERY_NOTHING);
    delivery_release(&d);
}

TEST(a_finish_behind_known_tokens_skips_them) {
    struct delivery d;
    uint32_t skip;
    delivery_init(&d, (struct u128){1, 2}, 1);
    delivery_submitted(&d, first, 0);
    take(&d, 0, 3);
    EXPECT_EQ(offer(&d, first, 0, 0, 1, 2, true, &skip), DELIVERY_TAKE);
    EXPECT_EQ(skip, 2);
    /* an end we are already past cannot be */
    EXPECT_EQ(offer(&d, first, 0, 0, 1, 1, true, &skip), DELIVERY_DUPLICATE);
    delivery_release(&d);
}

TEST(submits_again_until_accepted_then_asks_when_quiet) {
    struct delivery d;
    uint32_t skip;
    delivery_init(&d, (struct u128){1, 2}, 1);
    EXPECT_EQ(delivery_due(&d, 100), DELIVERY_SUBMIT);
    EXPECT_EQ(delivery_due(&d, 100 + DELIVERY_SUBMIT_AGAIN_MS - 1), DELIVERY_NOTHING);
    EXPECT_EQ(delivery_due(&d, 100 + DELIVERY_SUBMIT_AGAIN_MS), DELIVERY_SUBMIT);
    d.epoch = first;
    EXPECT_EQ(offer(&d, first, 0, 0, 0, 0, false, &skip), DELIVERY_DUPLICATE);
    EXPECT(d.accepted);
    EXPECT_EQ(delivery_due(&d, DELIVERY_QUIET_MS - 1), DELIVERY_NOTHING);
    EXPECT_EQ(delivery_due(&d, DELIVERY_QUIET_MS), DELIVERY_ASK);
    EXPECT_EQ(delivery_due(&d, DELIVERY_QUIET_MS), DELIVERY_NOTHING);
    delivery_release(&d);
}

TEST(a_choice_that_goes_on_is_cancelled_again) {
    struct delivery d;
    struct delivery_run run = {first, 0, 0, 2, 1, false};
    uint32_t skip;
    bool ask;
    delivery_init(&d, (struct u128){1, 2}, 2);
    delivery_submitted(&d, first, 0);
    take(&d, 0, 2);
    take(&d, 1, 2);
    delivery_finish(&d, 0, false);
    EXPECT_EQ(delivery_accept(&d, &run, 1000, &skip, &ask), DELIVERY_FINISHED);
    EXPECT(ask);
    EXPECT_EQ(delivery_accept(&d, &run, 1001, &skip, &ask), DELIVERY_FINISHED);
    EXPECT(!ask);
    delivery_finish(&d, 1, true); /* it ended by itself: a late repetition asks for nothing */
    run.choice = 1;
    EXPECT_EQ(delivery_accept(&d, &run, 1000, &skip, &ask), DELIVERY_FINISHED);
    EXPECT(!ask);
    delivery_release(&d);
}

TEST(a_gap_asks_at_most_every_quarter_second) {
    struct delivery d;
    struct delivery_run run = {first, 0, 0, 5, 1, false};
    uint32_t skip;
    bool ask;
    delivery_init(&d, (struct u128){1, 2}, 1);
    delivery_submitted(&d, first, 1000);
    EXPECT_EQ(delivery_accept(&d, &run, 1000, &skip, &ask), DELIVERY_GAP);
    EXPECT(ask);
    EXPECT_EQ(delivery_accept(&d, &run, 1000 + DELIVERY_ASK_AGAIN_MS - 1, &skip, &ask),
              DELIVERY_GAP);
    EXPECT(!ask);
    EXPECT_EQ(delivery_accept(&d, &run, 1000 + DELIVERY_ASK_AGAIN_MS, &skip, &ask), DELIVERY_GAP);
    EXPECT(ask);
    delivery_release(&d);
}

TEST(an_ack_tells_whether_the_finish_was_taken) {
    struct delivery d;
    delivery_init(&d, (struct u128){1, 2}, 2);
    delivery_submitted(&d, first, 0);
    take(&d, 0, 3);
    take(&d, 1, 4);
    EXPECT_EQ(delivery_ack_count(&d, 0), 3);
    delivery_finish(&d, 0, true);  /* the scheduler's finish */
    delivery_finish(&d, 1, false); /* ours, by a stop string */
    EXPECT_EQ(delivery_ack_count(&d, 0), 4);
    EXPECT_EQ(delivery_ack_count(&d, 1), 4);
    delivery_release(&d);
}

/* Taken, and given up for want of a model: it must not meet the bounds of new ones again. */
TEST(what_was_taken_is_resumed_when_it_is_refused_for_now) {
    struct delivery d;
    delivery_init(&d, (struct u128){1, 2}, 1);
    delivery_submitted(&d, first, 0);
    uint32_t skip;
    EXPECT_EQ(offer(&d, first, 0, 0, 0, 0, false, &skip), DELIVERY_DUPLICATE); /* Accepted */
    delivery_retry(&d);
    EXPECT(d.resumed);
    EXPECT_EQ(d.attempt, 1);
    delivery_release(&d);
}

TEST(only_a_lost_scheduler_makes_a_request_resumed) {
    struct delivery d;
    delivery_init(&d, (struct u128){1, 2}, 1);
    delivery_restart(&d, first);
    EXPECT(!d.resumed);
    delivery_submitted(&d, first, 0);
    delivery_retry(&d); /* refused for now */
    EXPECT(!d.resumed);
    EXPECT_EQ(d.attempt, 1);
    delivery_submitted(&d, first, 0);
    delivery_restart(&d, second);
    EXPECT(d.resumed);
    EXPECT_EQ(d.attempt, 2);
    delivery_release(&d);
}

TEST(questions_get_rarer_while_nothing_comes) {
    struct delivery d;
    uint32_t skip;
    int64_t asked[6] = {0};
    int count = 0;
    delivery_init(&d, (struct u128){1, 2}, 1);
    delivery_submitted(&d, first, 0);
    EXPECT_EQ(offer(&d, first, 0, 0, 0, 0, false, &skip), DELIVERY_DUPLICATE);
    for (int64_t now = 0; count < 6; now += 100)
        if (delivery_due(&d, now) == DELIVERY_ASK)
            asked[count++] = now;
    EXPECT_EQ(asked[0], DELIVERY_QUIET_MS);
    EXPECT_EQ(asked[1] - asked[0], 2 * DELIVERY_QUIET_MS);
    EXPECT_EQ(asked[5] - asked[4], DELIVERY_QUIET_MAX_MS);
    delivery_release(&d);
}

/* ---- a random life ---- */

enum { LENGTH_MAX = 200, FLIGHT = 64 };

/* The model: tokens of a choice are a function of their place, and the scheduler knows how many it
 * has made. */
static uint32_t token_at(uint32_t choice, uint32_t index) {
    return choice * 1000 + index * 7 + 3;
}

struct world {
    struct delivery d;
    struct epoch epoch;
    uint32_t made[3], length[3];
    bool known; /* the scheduler has the present attempt */
    struct delivery_run flight[FLIGHT];
    uint32_t flight_count;
    int64_t now_ms;
};

static uint32_t below(uint32_t n) {
    return (uint32_t)(check_random() % n);
}

static void send(struct world *w, uint32_t choice, uint32_t index, uint32_t count) {
    struct delivery_run run = {w->epoch, w->d.attempt, choice,
                               index,    count,        index + count == w->length[choice]};
    if (w->flight_count < FLIGHT && below(10) != 0)
        w->flight[w->flight_count++] = run;
    if (w->flight_count < FLIGHT && below(10) == 0)
        w->flight[w->flight_count++] = run;
}

static void scheduler_makes(struct world *w) {
    uint32_t c = below(3), count = 1 + below(3);
    if (!w->known)
        return;
    count = count < w->length[c] - w->made[c] ? count : w->length[c] - w->made[c];
    if (count == 0)
        return;
    send(w, c, w->made[c], count);
    w->made[c] += count;
}

static void scheduler_resends(struct world *w, uint32_t c) {
    uint32_t from = w->d.choices[c].count;
    if (w->known && w->made[c] >= from)
        send(w, c, from, w->made[c] - from);
}

static bool deliver(struct world *w) {
    uint32_t i = below(w->flight_count), skip;
    struct delivery_run run = w->flight[i];
    bool ask;
    w->flight[i] = w->flight[--w->flight_count];
    switch (delivery_accept(&w->d, &run, w->now_ms, &skip, &ask)) {
    case DELIVERY_TAKE:
        for (uint32_t k = skip; k < run.count; k++) {
            if (w->d.choices[run.choice].count != run.index + k)
                return false;
            delivery_take(&w->d, run.choice, token_at(run.choice, run.index + k), 0);
        }
        if (run.finish)
            delivery_finish(&w->d, run.choice, true);
        break;
    case DELIVERY_GAP:
        if (ask)
            scheduler_resends(w, run.choice);
        break;
    default: break;
    }
    return true;
}

static void scheduler_dies(struct world *w) {
    w->epoch.number++;
    w->known = false;
    delivery_restart(&w->d, w->epoch);
}

static void tick(struct world *w) {
    w->now_ms += 100;
    switch (delivery_due(&w->d, w->now_ms)) {
    case DELIVERY_SUBMIT:
        if (below(5) == 0)
            break; /* lost on the way */
        w->known = true;
        for (uint32_t c = 0; c < 3; c++)
            w->made[c] = w->d.choices[c].count;
        if (w->flight_count < FLIGHT)
            w->flight[w->flight_count++] =
                (struct delivery_run){w->epoch, w->d.attempt, 0, w->made[0], 0, false};
        break;
    case DELIVERY_ASK:
        for (uint32_t c = 0; c < 3; c++)
            if (!w->d.choices[c].finished)
                scheduler_resends(w, c);
        break;
    case DELIVERY_NOTHING: break;
    }
}

static bool live(struct world *w, uint32_t steps_max) {
    for (uint32_t step = 0; step < steps_max && !delivery_is_done(&w->d); step++) {
        if (below(400) == 0)
            scheduler_dies(w);
        if (below(2) == 0)
            scheduler_makes(w);
        if (below(3) == 0)
            tick(w);
        if (w->flight_count && below(2) == 0 && !deliver(w))
            return false;
    }
    return delivery_is_done(&w->d);
}

TEST(random_lives_end_with_every_token_once) {
    for (int life = 0; life < 300; life++) {
        struct world w = {.epoch = {1, {9, 9}}};
        delivery_init(&w.d, (struct u128){3, 4}, 3);
        for (uint32_t c = 0; c < 3; c++)
            w.length[c] = 1 + below(LENGTH_MAX);
        delivery_restart(&w.d, w.epoch);
        EXPECT(live(&w, 200000));
        for (uint32_t c = 0; c < 3; c++) {
            EXPECT_EQ(w.d.choices[c].count, w.length[c]);
            for (uint32_t i = 0; i < w.length[c]; i++)
                EXPECT_EQ(w.d.choices[c].ids[i], token_at(c, i));
        }
        delivery_release(&w.d);
    }
}
