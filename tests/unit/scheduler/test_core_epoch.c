#include "check.h"
#include "scheduler/core/epoch.h"

static struct epoch mine;

static enum epoch_verdict verdict_of(uint64_t number, bool hello, bool served, int64_t age_ms) {
    struct frame frame = {.epoch = {number, {1, 1}}};
    struct wire_hello message = {.epoch_number = number, .epoch_instance = {1, 1}};
    mine = epoch_start(99, (struct u128){2, 2});
    return epoch_compare_frame(&mine, &frame, hello ? &message : NULL, served, age_ms, 99);
}

TEST(epoch_lower_frames_are_stale_but_a_hello_is_taken) {
    EXPECT_EQ(verdict_of(50, false, true, 0), EPOCH_STALE);
    EXPECT_EQ(verdict_of(50, true, false, 0), EPOCH_TAKE);
    EXPECT_EQ(verdict_of(0, true, false, 0), EPOCH_TAKE);
    EXPECT_EQ(mine.number, 100);
}

TEST(epoch_higher_one_of_a_stranger_is_risen_above_when_young) {
    EXPECT_EQ(verdict_of(5000, true, false, 0), EPOCH_ROSE);
    EXPECT_EQ(mine.number, 5001);
    EXPECT_EQ(verdict_of(5000, false, false, EPOCH_YOUNG_MS), EPOCH_ROSE);
    EXPECT_EQ(mine.number, 5001);
}

TEST(epoch_higher_one_means_replaced_when_served_or_old) {
    EXPECT_EQ(verdict_of(5000, false, true, 0), EPOCH_SUPERSEDED);
    EXPECT_EQ(verdict_of(5000, true, true, 0), EPOCH_SUPERSEDED);
    EXPECT_EQ(verdict_of(5000, false, false, EPOCH_YOUNG_MS + 1), EPOCH_SUPERSEDED);
    EXPECT_EQ(mine.number, 100);
}

TEST(epoch_equal_numbers_are_ordered_by_instance) {
    struct frame frame = {.epoch = {100, {1, 1}}};
    mine = epoch_start(99, (struct u128){2, 2});
    EXPECT_EQ(epoch_compare_frame(&mine, &frame, NULL, true, 0, 99), EPOCH_STALE);
    frame.epoch.instance = (struct u128){3, 3};
    EXPECT_EQ(epoch_compare_frame(&mine, &frame, NULL, true, 0, 99), EPOCH_SUPERSEDED);
    frame.epoch.instance = (struct u128){2, 2};
    EXPECT_EQ(epoch_compare_frame(&mine, &frame, NULL, true, 0, 99), EPOCH_TAKE);
}

/* A number that a proven peer made up: it neither ends a scheduler nor drives it to where no later
 * one can follow. */
TEST(epoch_that_no_clock_explains_is_nonsense) {
    const uint64_t last = 99 + EPOCH_AHEAD_MAX_MS;
    EXPECT_EQ(verdict_of(UINT64_MAX, true, false, 0), EPOCH_STALE);
    EXPECT_EQ(verdict_of(UINT64_MAX - 1, true, false, 0), EPOCH_STALE);
    EXPECT_EQ(verdict_of(last + 1, true, false, 0), EPOCH_STALE);
    EXPECT_EQ(verdict_of(last + 1, false, true, EPOCH_YOUNG_MS + 1), EPOCH_STALE);
    EXPECT_EQ(mine.number, 100);
    EXPECT_EQ(verdict_of(last, true, false, 0), EPOCH_ROSE);
    EXPECT_EQ(mine.number, last + 1);
}

/* However far one was driven, the next that starts rises above it, as soon as the clock has moved. */
TEST(epoch_of_the_next_scheduler_rises_above_whatever_one_was_driven_to) {
    uint64_t wall_ms = 1000, held = wall_ms + EPOCH_AHEAD_MAX_MS;
    for (int life = 0; life < 50; life++, wall_ms += 2) {
        struct frame frame = {.epoch = {held, {3, 3}}};
        mine = epoch_start(wall_ms, (struct u128){2, 2});
        EXPECT_EQ(epoch_compare_frame(&mine, &frame, NULL, false, 0, wall_ms), EPOCH_ROSE);
        EXPECT_EQ(mine.number, held + 1);
        held = mine.number;
    }
}
