#include "check.h"
#include "proto/liveness.h"

enum { BEAT = 250, SILENCE = 1500 };

TEST(liveness_silence_counts_while_the_judge_runs) {
    struct liveness l;
    struct liveness_peer peer;
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
    struct liveness_peer silent, heard;
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
    struct liveness_peer peer;
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
    struct liveness_peer peer;
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
