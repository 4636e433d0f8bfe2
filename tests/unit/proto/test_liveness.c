#include "check.h"
#include "proto/liveness.h"

enum { BEAT = 250, SILENCE = 1500 };

TEST(liveness_silence_counts_while_the_judge_runs) {
    struct liveness l;
    struct liveness_peer peer = {0};
    liveness_init(&l, BEAT, SILENCE, 0);
    liveness_hear(&peer, 0);
    int64_t now = 0;
    for (int i = 0; i < 6; i++) {
        EXPECT(liveness_tick(&l, now += BEAT));
        EXPECT(!liveness_is_dead(&l, &peer));
    }
    EXPECT(liveness_tick(&l, now += BEAT));
    EXPECT(liveness_is_dead(&l, &peer));
    liveness_hear(&peer, now);
    EXPECT(!liveness_is_dead(&l, &peer));
}

TEST(liveness_counts_anew_after_a_late_tick) {
    struct liveness l;
    struct liveness_peer silent = {0}, heard = {0};
    liveness_init(&l, BEAT, SILENCE, 0);
    liveness_hear(&silent, 0);
    liveness_hear(&heard, 0);
    int64_t now = 0;
    for (int i = 0; i < 5; i++)
        EXPECT(liveness_tick(&l, now += BEAT));
    now += 10000; /* stopped */
    EXPECT(!liveness_tick(&l, now));
    EXPECT(!liveness_is_dead(&l, &silent));
    EXPECT_EQ(liveness_silence(&l, &silent), 0);
    for (int i = 0; i < 6; i++) {
        EXPECT(liveness_tick(&l, now += BEAT));
        EXPECT(!liveness_is_dead(&l, &silent));
        liveness_hear(&heard, now);
    }
    EXPECT(liveness_tick(&l, now += BEAT));
    EXPECT(liveness_is_dead(&l, &silent)); /* it had its full time again, and is dead */
    EXPECT(!liveness_is_dead(&l, &heard));
}

/* Two heartbeats are in time, one millisecond more is late. */
TEST(liveness_is_late_after_two_heartbeats) {
    struct liveness l;
    struct liveness_peer peer = {0};
    liveness_init(&l, BEAT, SILENCE, 0);
    liveness_hear(&peer, 0);
    EXPECT(liveness_tick(&l, 2 * BEAT));
    EXPECT_EQ(liveness_silence(&l, &peer), 2 * BEAT);
    EXPECT(!liveness_tick(&l, 4 * BEAT + 1));
    EXPECT_EQ(liveness_silence(&l, &peer), 0);
    EXPECT(!liveness_tick(&l, 4 * BEAT + 1 + SILENCE + 1)); /* and stopped for that long */
    EXPECT(!liveness_is_dead(&l, &peer));
}

TEST(liveness_tolerates_a_jittering_judge) {
    struct liveness l;
    struct liveness_peer peer = {0};
    liveness_init(&l, BEAT, SILENCE, 0);
    liveness_hear(&peer, 0);
    int64_t now = 0;
    while (now <= SILENCE) {
        EXPECT(liveness_tick(&l, now));
        now += 1 + (int64_t)(check_random() % (2 * BEAT)); /* never so late that it counts anew */
    }
    EXPECT(liveness_tick(&l, now));
    EXPECT(liveness_is_dead(&l, &peer));
}

/* A peer that idles, and knows what quiet is, 250 ms after 250 ms. */
TEST(liveness_of_a_quiet_peer_is_asked_seldom) {
    struct liveness l;
    struct liveness_peer peer = {.knows_quiet = true, .idle = true};
    liveness_init(&l, BEAT, SILENCE, 0);
    int64_t now = 0;
    while ((now += BEAT) < LIVENESS_QUIET_AFTER_MS) {
        EXPECT(liveness_tick(&l, now) && liveness_is_due(&l, &peer, now));
        liveness_hear(&peer, now);
        peer.told_ms = now;
    }
    EXPECT_EQ(liveness_quiet_ms(&l), 1000);
    EXPECT(liveness_tick(&l, now) && !liveness_is_due(&l, &peer, now) && peer.quiet);
    EXPECT_EQ(liveness_set_slow(&l, true), 1000);
    for (int i = 0; i < 5; i++) {
        EXPECT(liveness_tick(&l, now += 1000) && liveness_is_due(&l, &peer, now));
        peer.told_ms = now;
        EXPECT(!liveness_is_dead(&l, &peer)); /* six of the longer ones may be missing, too */
    }
    EXPECT(!liveness_tick(&l, now += 2001)); /* late is later, as well */
    EXPECT_EQ(liveness_silence(&l, &peer), 0);
    for (int i = 0; i < 6; i++)
        EXPECT(liveness_tick(&l, now += 1000) && !liveness_is_dead(&l, &peer));
    EXPECT(liveness_tick(&l, now += 1000) && liveness_is_dead(&l, &peer));
}

/* To the millisecond: when quiet begins, and when a quiet peer is told something again, which is half a
 * heartbeat before the longer time is over, so that it is not the next tick's. */
TEST(liveness_of_a_quiet_peer_has_its_moments) {
    struct liveness l;
    struct liveness_peer peer = {
        .knows_quiet = true, .idle = true, .talk_ms = 100, .told_ms = 5100};
    liveness_init(&l, BEAT, SILENCE, 0);
    EXPECT(liveness_is_due(&l, &peer, 99 + LIVENESS_QUIET_AFTER_MS) && !peer.quiet);
    EXPECT(!liveness_is_due(&l, &peer, 100 + LIVENESS_QUIET_AFTER_MS) && peer.quiet);
    EXPECT(!liveness_is_due(&l, &peer, 5100 + 1000 - BEAT / 2 - 1));
    EXPECT(liveness_is_due(&l, &peer, 5100 + 1000 - BEAT / 2));
}

/* Whoever begins to judge has heard nothing before, and nobody is silent since then. */
TEST(liveness_counts_from_where_it_begins) {
    struct liveness l;
    const struct liveness_peer peer = {.heard_ms = 0};
    liveness_init(&l, BEAT, SILENCE, 1000000);
    EXPECT_EQ(liveness_silence(&l, &peer), 0);
    EXPECT(liveness_tick(&l, 1000000 + 2 * BEAT));
    EXPECT_EQ(liveness_silence(&l, &peer), 2 * BEAT);
    EXPECT(!liveness_is_dead(&l, &peer));
    /* the longer time is never shorter than the usual one */
    liveness_init(&l, 3000, SILENCE, 0);
    EXPECT_EQ(liveness_quiet_ms(&l), 3000);
}

/* Silence that was allowed while it was quiet does not condemn it, and from now on little is. */
TEST(liveness_counts_from_the_first_word_to_a_quiet_peer) {
    struct liveness l;
    struct liveness_peer peer = {.knows_quiet = true, .idle = true};
    liveness_init(&l, BEAT, SILENCE, 0);
    int64_t now = LIVENESS_QUIET_AFTER_MS;
    liveness_hear(&peer, now);
    EXPECT(liveness_is_due(&l, &peer, BEAT));
    (void)liveness_tick(&l, now);
    (void)liveness_is_due(&l, &peer, now);
    EXPECT(peer.quiet);
    (void)liveness_set_slow(&l, true);
    for (int i = 0; i < 4; i++)
        EXPECT(liveness_tick(&l, now += 1000));
    liveness_talk(&peer, now);
    EXPECT_EQ(liveness_set_slow(&l, false), BEAT);
    for (int i = 0; i < 6; i++) {
        EXPECT(liveness_tick(&l, now += BEAT) && !liveness_is_dead(&l, &peer));
        EXPECT(liveness_is_due(&l, &peer, now));
    }
    EXPECT(liveness_tick(&l, now += BEAT) && liveness_is_dead(&l, &peer));
}

/* One that works, or is of an older build, or heartbeats that are rare already. */
TEST(liveness_is_not_slower_where_it_must_not_be) {
    struct liveness l;
    struct liveness_peer works = {.knows_quiet = true}, old = {.idle = true};
    liveness_init(&l, BEAT, SILENCE, 0);
    EXPECT(liveness_is_due(&l, &works, 60000) && !works.quiet);
    EXPECT(liveness_is_due(&l, &old, 60000) && !old.quiet);
    liveness_init(&l, 50, 400, 0);
    EXPECT_EQ(liveness_quiet_ms(&l), 200);
    liveness_init(&l, 3000, 9000, 0);
    EXPECT_EQ(liveness_quiet_ms(&l), 3000);
}
