/* Jobs and answers come out as they went in, however often the rings go round. */
#include "worker/handoff.h"

#include <poll.h>
#include <stdio.h>

#include "check.h"

static bool readable(const struct handoff *m) {
    struct pollfd p = {.fd = handoff_fd(m), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

TEST(handoff_keeps_the_order_of_jobs_and_bounds_them) {
    struct handoff *m = handoff_new();
    struct job job = {0};
    uint32_t in = 0, out = 0;
    for (int round = 0; round < 100; round++) {
        size_t wanted = 1 + (size_t)(check_random() % HANDOFF_JOBS);
        while (in - out < wanted) {
            char text[16];
            snprintf(text, sizeof text, "job %u", in);
            EXPECT(handoff_push(m, JOB_PLAN, in++, bytes_str(text)));
        }
        if (wanted == HANDOFF_JOBS)
            EXPECT(!handoff_push(m, JOB_PLAN, in, bytes_str("one more")));
        for (size_t k = 1 + (size_t)(check_random() % wanted); k; k--) {
            char text[16];
            EXPECT(handoff_pop(m, 0, &job));
            snprintf(text, sizeof text, "job %u", out);
            EXPECT_EQ(job.registration, out++);
            EXPECT(job.kind == JOB_PLAN && bytes_equal(buf_bytes(&job.payload), bytes_str(text)));
        }
    }
    while (out < in) {
        EXPECT(handoff_pop(m, 0, &job));
        EXPECT_EQ(job.registration, out++);
    }
    EXPECT(!handoff_pop(m, 0, &job));
    buf_release(&job.payload);
    handoff_free(&m);
}

TEST(handoff_keeps_the_order_of_answers) {
    struct handoff *m = handoff_new();
    struct answer answer = {0};
    uint32_t in = 0, out = 0;
    EXPECT(!readable(m));
    for (int round = 0; round < 100; round++) {
        size_t wanted = 1 + (size_t)(check_random() % HANDOFF_JOBS);
        while (in - out < wanted) {
            answer.kind = ANSWER_RESULT;
            answer.registration = in;
            buf_reset(&answer.payload);
            buf_addf(&answer.payload, "answer %u", in++);
            handoff_answer(m, &answer);
        }
        EXPECT(readable(m));
        for (size_t k = 1 + (size_t)(check_random() % wanted); k; k--) {
            char text[16];
            EXPECT(handoff_result(m, &answer));
            snprintf(text, sizeof text, "answer %u", out);
            EXPECT_EQ(answer.registration, out++);
            EXPECT(bytes_equal(buf_bytes(&answer.payload), bytes_str(text)));
        }
    }
    while (out < in) {
        EXPECT(handoff_result(m, &answer));
        EXPECT_EQ(answer.registration, out++);
    }
    EXPECT(!handoff_result(m, &answer));
    EXPECT(!readable(m));
    buf_release(&answer.payload);
    handoff_free(&m);
}

/* Which registration is worked for: that of the latest reset put, and none after the end. */
TEST(handoff_tells_the_registration_that_counts) {
    struct handoff *m = handoff_new();
    EXPECT(handoff_push(m, JOB_RESET, 4, bytes_str("")));
    EXPECT_EQ(handoff_current(m), 4);
    EXPECT(handoff_push(m, JOB_PLAN, 9, bytes_str("x")));
    EXPECT_EQ(handoff_current(m), 4);
    EXPECT(handoff_push(m, JOB_END, 0, bytes_str("")));
    EXPECT_EQ(handoff_current(m), UINT32_MAX);
    handoff_free(&m);
}
