#include "check.h"
#include "scheduler/run_clock.h"

TEST(run_clock_follows_the_wall_while_turns_come) {
    struct run_clock c;
    run_clock_init(&c, 250, 1000);
    EXPECT_EQ(run_clock_turn(&c, 1000), 1000);
    EXPECT_EQ(run_clock_turn(&c, 1003), 1003);
    EXPECT_EQ(run_clock_turn(&c, 1253), 1253);
    EXPECT_EQ(run_clock_turn(&c, 2253), 2253); /* four heartbeats: starved, not stopped */
    EXPECT_EQ(c.late_count, 0);
}

TEST(run_clock_leaves_a_stop_out) {
    struct run_clock c;
    run_clock_init(&c, 250, 0);
    EXPECT_EQ(run_clock_turn(&c, 100), 100);
    EXPECT_EQ(run_clock_turn(&c, 10100), 350); /* ten seconds count as one heartbeat */
    EXPECT_EQ(c.late_count, 1);
    EXPECT_EQ(run_clock_turn(&c, 10101), 351);
}

TEST(run_clock_never_goes_back) {
    struct run_clock c;
    int64_t wall = 5000, last = 5000;
    run_clock_init(&c, 250, wall);
    for (int i = 0; i < 10000; i++) {
        wall += (int64_t)(check_random() % 3000) - 500;
        int64_t now = run_clock_turn(&c, wall);
        EXPECT(now >= last);
        last = now;
    }
}
