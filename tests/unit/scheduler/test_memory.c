/*
 * test_memory.c - a scheduler's core whose memory runs out: what a request's size decides fails,
 * the request is refused as for load, and all others go on.
 */
#include "memory_faults.h"
#include "stage.h"

TEST(memory_that_runs_out_refuses_a_request_and_no_other) {
    struct stage *stage = stage_new(NULL);
    CHECK(stage_hello(stage, stage_worker(stage, 0)) == 0);
    stage_simple(stage, 0, 40, 60);
    uint32_t n = 1;
    for (;; n++) { /* until one n-th call was never made */
        struct wire_submit submit = stage_submit(stage, n, 40, 20, n);
        faults_arm(n, 0);
        stage_send(stage, &submit);
        if (faults_disarm() < (long)n)
            break;
        EXPECT_EQ(stage->requests[n].reject, WIRE_REJECT_OVERLOADED);
    }
    EXPECT(n > 1);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 60));
    EXPECT(stage_is_right(stage, n, 0, 20));
    stage_free(stage);
}
