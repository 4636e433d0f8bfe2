#include "stage.h"

TEST(core_runs_one_request_to_its_end) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    stage_simple(stage, 0, 40, 25);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].accepted, 1);
    EXPECT_EQ(stage->requests[0].choices[0].finish, WIRE_FINISH_LENGTH);
    EXPECT(stage_is_right(stage, 0, 0, 25));
    EXPECT(sched_is_idle(stage->s));
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    EXPECT_EQ(sched_counts(stage->s).blocks_used, 0);
    stage_free(stage);
}

TEST(core_batches_many_requests) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    for (uint32_t i = 0; i < 64; i++)
        stage_simple(stage, i, 1 + i * 7 % 90, 1 + i % 30);
    stage_finish(stage);
    for (uint32_t i = 0; i < 64; i++)
        EXPECT(stage_is_right(stage, i, 0, 1 + i % 30));
    EXPECT(sched_counts(stage->s).steps < 200);
    EXPECT_EQ(sched_counts(stage->s).blocks_used, 0);
    stage_free(stage);
}
