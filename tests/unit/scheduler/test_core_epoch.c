#include "check.h"
#include "scheduler/core/epoch.h"

static struct epoch mine;

static enum epoch_verdict verdict_of(uint64_t number, bool hello, bool served, int64_t age_ms) {
    struct frame frame = {.epoch = {number, {1, 1}}};
    struct wire_hello message = {.epoch_number = number, .epoch_instance = {1, 1}};
    mine = epoch_start(99, (struct u128){2, 2});
    return epoch_compare_frame(&mine, &frame, hello ? &message : NULL, served, age_ms);
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
    EXPECT_EQ(epoch_compare_frame(&mine, &frame, NULL, true, 0), EPOCH_STALE);
    frame.epoch.instance = (struct u128){3, 3};
    EXPECT_EQ(epoch_compare_frame(&mine, &frame, NULL, true, 0), EPOCH_SUPERSEDED);
    frame.epoch.instance = (struct u128){2, 2};
    EXPECT_EQ(epoch_compare_frame(&mine, &frame, NULL, true, 0), EPOCH_TAKE);
}

TEST(epoch_that_nothing_can_rise_above_is_nonsense) {
    EXPECT_EQ(verdict_of(UINT64_MAX, true, false, 0), EPOCH_STALE);
    EXPECT_EQ(mine.number, 100);
}
