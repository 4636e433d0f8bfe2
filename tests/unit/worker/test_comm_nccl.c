/* What a rank asks of NCCL, and what becomes of its answers: a library of our own stands in for it, and writes
 * down what it is asked. */
#include "check.h"

#include "base/buf.h"
#include "base/clock.h"
#include "kernels/device.h"
#include "worker/comm_nccl.h"

#include <stdio.h>

enum { FAILED = 3, VALUES = 6 };

/* ---- the library ---- */

static struct buf asked;              /* a word for each call */
static int init_result, group_result; /* of the next init, and of group_end */
static int send_result;               /* of each send */
static int busy_count, busy_result;   /* so many async_errors are in progress, then this one */
static int async_code;                /* of async_error itself */
static int abort_count;
static float peers[4][VALUES];      /* what each of the ranks sends */
static uint32_t number_received[4]; /* values so far */

static int lib_init(struct nccl_comm **comm, int count, struct nccl_id id, int rank,
                    struct nccl_config *config) {
    static char one;
    *comm = (struct nccl_comm *)(void *)&one;
    buf_addf(&asked, "init %d of %d %c %s;", rank, count, id.bytes[0],
             config->blocking ? "blocking" : "non-blocking");
    return init_result;
}
static int lib_async_error(struct nccl_comm *comm, int *result) {
    *result = busy_count ? NCCL_IN_PROGRESS : busy_result;
    busy_count -= busy_count > 0;
    return async_code;
}
static int lib_abort(struct nccl_comm *comm) {
    CHECK(comm);
    abort_count++;
    return NCCL_SUCCESS;
}
static const char *lib_error_string(int result) {
    return result == FAILED ? "it failed" : "another";
}
static int lib_send(const void *data, size_t count, int type, int peer, struct nccl_comm *comm,
                    void *stream) {
    CHECK(comm);
    buf_addf(&asked, "send %zu/%d to %d (%g);", count, type, peer, (double)*(const float *)data);
    return send_result;
}
static int lib_receive(void *data, size_t count, int type, int peer, struct nccl_comm *comm,
                       void *stream) {
    CHECK(comm && number_received[peer] + count <= VALUES);
    buf_addf(&asked, "receive %zu/%d from %d;", count, type, peer);
    memcpy(data, peers[peer] + number_received[peer], count * sizeof(float));
    number_received[peer] += (uint32_t)count;
    return NCCL_SUCCESS;
}
static int lib_group_start(void) {
    buf_add_str(&asked, "(");
    return NCCL_SUCCESS;
}
static int lib_group_end(void) {
    buf_add_str(&asked, ")");
    return group_result;
}

static const struct nccl_calls CALLS = {.init = lib_init,
                                        .async_error = lib_async_error,
                                        .abort = lib_abort,
                                        .error_string = lib_error_string,
                                        .send = lib_send,
                                        .receive = lib_receive,
                                        .group_start = lib_group_start,
                                        .group_end = lib_group_end};

/* ---- a rank ---- */

struct rank {
    struct device *dev;
    struct stream *stream;
    struct comm_nccl *comm;
    struct comm_nccl_config config;
    struct error err;
    bool stopped;
};

static bool is_stopped(void *ctx) {
    return ((struct rank *)ctx)->stopped;
}

static int rank_form(struct rank *r, struct comm_place place) {
    const struct device_options cpu = {.kind = "cpu", .thread_count = 1};
    const struct nccl_id id = {"x"};
    *r = (struct rank){.stopped = false};
    CHECK(!device_open(&cpu, &r->dev, &r->err));
    r->stream = stream_new(r->dev);
    r->config = (struct comm_nccl_config){.calls = &CALLS,
                                          .dev = r->dev,
                                          .place = place,
                                          .sum_max = VALUES,
                                          .form_ms = 60000,
                                          .timeout_ms = 60000,
                                          .stopped = is_stopped,
                                          .ctx = r};
    buf_reset(&asked);
    memset(number_received, 0, sizeof number_received);
    abort_count = 0;
    return comm_nccl_form(&r->comm, &r->config, &id, &r->err);
}

static void rank_end(struct rank *r) {
    comm_nccl_free(&r->comm);
    stream_free(&r->stream);
    device_close(&r->dev);
    init_result = group_result = send_result = busy_count = busy_result = async_code = 0;
    buf_release(&asked);
}

static bool was_asked(const char *want) {
    bool same = !strcmp(buf_text(&asked), want);
    if (!same)
        check_fail(__FILE__, __LINE__, "'%s', expected '%s'", buf_text(&asked), want);
    buf_reset(&asked);
    return same;
}

/* Rank 1 of 2 in the second of two stages. */
static const struct comm_place PLACE = {.rank = 1, .tp = 2, .stage = 1, .pp = 2};

TEST(a_rank_has_its_number_among_all) {
    struct rank r;
    busy_count = 3;
    init_result = NCCL_IN_PROGRESS;
    EXPECT_EQ(rank_form(&r, PLACE), 0);
    EXPECT(was_asked("init 3 of 4 x non-blocking;"));
    EXPECT_EQ(busy_count, 0);
    EXPECT_EQ(comm_nccl_failed(r.comm, &r.err), 0);
    rank_end(&r);
    EXPECT_EQ(abort_count, 1);
}

TEST(sums_have_every_ranks_values_once) {
    struct rank r;
    EXPECT_EQ(rank_form(&r, PLACE), 0);
    buf_reset(&asked);
    float x[VALUES] = {1};
    for (int i = 0; i < VALUES; i++) {
        peers[2][i] = (float)i;
        peers[3][i] = 100;
    }
    comm_nccl_sum(r.comm, r.stream, x, 2, 3, STORAGE_F32);
    EXPECT(
        was_asked("(send 6/7 to 2 (1);receive 6/7 from 2;send 6/7 to 3 (1);receive 6/7 from 3;)"));
    for (int i = 0; i < VALUES; i++)
        EXPECT(x[i] == (float)i + 100);
    rank_end(&r);
}

/* Rank 0 gets of each row each rank's columns; the others send theirs. */
TEST(rows_are_gathered_at_rank_0) {
    static const struct shard_range RANGES[] = {{0, 1}, {1, 2}};
    static const float OWN[] = {5, 6, 7, 8};
    struct rank r;
    EXPECT_EQ(rank_form(&r, PLACE), 0);
    buf_reset(&asked);
    comm_nccl_gather(r.comm, r.stream, NULL, 0, OWN, 2, RANGES);
    EXPECT(was_asked("(send 2/7 to 2 (5);send 2/7 to 2 (7);)"));
    rank_end(&r);
    EXPECT_EQ(rank_form(&r, (struct comm_place){.rank = 0, .tp = 2, .stage = 1, .pp = 2}), 0);
    buf_reset(&asked);
    float all[8] = {0};
    for (int i = 0; i < VALUES; i++) {
        peers[2][i] = (float)(10 + i);
        peers[3][i] = (float)(20 + i);
    }
    comm_nccl_gather(r.comm, r.stream, all, 4, OWN, 2, RANGES);
    EXPECT(was_asked("(send 1/7 to 2 (5);receive 1/7 from 2;receive 2/7 from 3;"
                     "send 1/7 to 2 (6);receive 1/7 from 2;receive 2/7 from 3;)"));
    static const float WANT[8] = {10, 20, 21, 0, 11, 22, 23, 0};
    EXPECT(!memcmp(all, WANT, sizeof WANT));
    rank_end(&r);
}

TEST(stages_pass_values_to_the_next) {
    struct rank r;
    float x[2] = {9, 9};
    EXPECT_EQ(rank_form(&r, (struct comm_place){.rank = 1, .tp = 2, .stage = 0, .pp = 2}), 0);
    buf_reset(&asked);
    comm_nccl_send(r.comm, r.stream, x, 2);
    EXPECT(was_asked("(send 2/7 to 3 (9);)"));
    rank_end(&r);
    EXPECT_EQ(rank_form(&r, PLACE), 0);
    buf_reset(&asked);
    peers[1][0] = 4;
    peers[1][1] = 5;
    comm_nccl_receive(r.comm, r.stream, x, 2);
    EXPECT(was_asked("(receive 2/7 from 1;)"));
    EXPECT(x[0] == 4 && x[1] == 5);
    rank_end(&r);
}

/* ---- what goes wrong ---- */

TEST(what_cannot_be_formed_says_why) {
    static const struct {
        int init, busy, async, form_ms;
        bool stopped;
        int code;
        const char *why;
    } CASES[] = {
        {FAILED, 0, 0, 1000, false, ERR_CLOSED, "forming: it failed"},
        {NCCL_IN_PROGRESS, 0, FAILED, 1000, false, ERR_CLOSED, "forming: it failed"},
        {NCCL_IN_PROGRESS, 1, 0, 0, false, ERR_TIMEOUT,
         "forming: another rank did not answer in time"},
        {NCCL_IN_PROGRESS, 1, 0, 0, true, ERR_CLOSED, "forming: told to stop"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct rank r;
        const struct nccl_id id = {"x"};
        struct comm_nccl *comm = NULL;
        EXPECT_EQ(rank_form(&r, PLACE), 0);
        init_result = CASES[i].init;
        busy_count = CASES[i].busy;
        async_code = CASES[i].async;
        r.config.form_ms = CASES[i].form_ms;
        r.stopped = CASES[i].stopped;
        EXPECT_EQ(comm_nccl_form(&comm, &r.config, &id, &r.err), CASES[i].code);
        EXPECT(!comm && strstr(r.err.text, CASES[i].why));
        EXPECT(strstr(r.err.text, "the replica's ranks have lost each other: "));
        EXPECT_EQ(abort_count, 1);
        rank_end(&r);
    }
}

/* The first failure ends the communicator, once, and is what every later call says. */
TEST(a_rank_that_failed_asks_nothing_more) {
    struct rank r;
    float x[VALUES] = {0};
    EXPECT_EQ(rank_form(&r, PLACE), 0);
    buf_reset(&asked);
    send_result = FAILED;
    comm_nccl_sum(r.comm, r.stream, x, 1, VALUES, STORAGE_F32);
    EXPECT(was_asked("(send 6/7 to 2 (0);"));
    EXPECT_EQ(abort_count, 1);
    EXPECT_EQ(comm_nccl_failed(r.comm, &r.err), ERR_CLOSED);
    EXPECT(strstr(r.err.text, "sending: it failed"));
    const struct shard_range ranges[] = {{0, 1}, {1, 2}};
    struct event *e = event_new(r.dev);
    comm_nccl_sum(r.comm, r.stream, x, 1, VALUES, STORAGE_F32);
    comm_nccl_gather(r.comm, r.stream, x, 3, x, 1, ranges);
    comm_nccl_send(r.comm, r.stream, x, 1);
    comm_nccl_receive(r.comm, r.stream, x, 1);
    EXPECT_EQ(comm_nccl_done(r.comm, e, clock_ms() + 60000), ERR_CLOSED);
    EXPECT_EQ(comm_nccl_wait(r.comm, e), ERR_CLOSED);
    EXPECT(was_asked(""));
    EXPECT_EQ(abort_count, 1);
    event_free(&e);
    rank_end(&r);
    EXPECT_EQ(abort_count, 1);
}

/* A group that does not end ends by its time, by a failure that comes later, or with this rank. */
TEST(a_group_that_does_not_end_is_given_up) {
    static const struct {
        int busy, result, timeout_ms;
        bool stopped;
        int code;
        const char *why;
    } CASES[] = {
        {2, NCCL_SUCCESS, 60000, false, 0, ""},
        {2, FAILED, 60000, false, ERR_CLOSED, "in a step: it failed"},
        {2, NCCL_SUCCESS, 0, false, ERR_TIMEOUT, "in a step: another rank did not answer in time"},
        {2, NCCL_SUCCESS, 60000, true, ERR_CLOSED, "in a step: told to stop"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct rank r;
        float x = 0;
        const struct nccl_id id = {"x"};
        EXPECT_EQ(rank_form(&r, PLACE), 0);
        comm_nccl_free(&r.comm);
        r.config.timeout_ms = CASES[i].timeout_ms;
        EXPECT_EQ(comm_nccl_form(&r.comm, &r.config, &id, &r.err), 0);
        group_result = NCCL_IN_PROGRESS;
        busy_count = CASES[i].busy;
        busy_result = CASES[i].result;
        r.stopped = CASES[i].stopped;
        comm_nccl_send(r.comm, r.stream, &x, 1);
        EXPECT_EQ(comm_nccl_failed(r.comm, &r.err), CASES[i].code);
        EXPECT(!CASES[i].code || strstr(r.err.text, CASES[i].why));
        rank_end(&r);
    }
}

/* ---- waiting for the stream ---- */

static int event_state;
static int ask_event(struct event *e) {
    return event_state;
}

TEST(a_wait_for_the_stream_sees_what_ranks_do) {
    static const struct {
        int event, async, result;
        bool stopped, late;
        int code;
        const char *why;
    } CASES[] = {
        {1, FAILED, FAILED, true, true, 1, ""}, /* it is done, whatever else */
        {-5, 0, 0, false, false, -5, ""},
        {0, 0, 0, false, false, 0, ""},
        {0, 0, NCCL_IN_PROGRESS, false, false, 0, ""},
        {0, 0, FAILED, false, false, ERR_CLOSED, "in a step: it failed"},
        {0, FAILED, 0, false, false, ERR_CLOSED, "in a step: "},
        {0, 0, 0, true, false, ERR_CLOSED, "in a step: told to stop"},
        {0, 0, 0, false, true, ERR_TIMEOUT, "in a step: another rank did not answer in time"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct rank r;
        EXPECT_EQ(rank_form(&r, PLACE), 0);
        struct device_calls calls = *r.dev->calls;
        const struct device_calls *real = r.dev->calls;
        struct event *e = event_new(r.dev);
        calls.event_done = ask_event;
        r.dev->calls = &calls;
        event_state = CASES[i].event;
        async_code = CASES[i].async;
        busy_result = CASES[i].result;
        r.stopped = CASES[i].stopped;
        EXPECT_EQ(comm_nccl_done(r.comm, e, clock_ms() + (CASES[i].late ? 0 : 60000)),
                  CASES[i].code);
        bool failed = CASES[i].code < 0 && CASES[i].code != -5;
        EXPECT_EQ(comm_nccl_failed(r.comm, &r.err), failed ? CASES[i].code : 0);
        EXPECT(!failed || strstr(r.err.text, CASES[i].why));
        EXPECT_EQ(abort_count, failed);
        if (CASES[i].code)
            EXPECT_EQ(comm_nccl_wait(r.comm, e), CASES[i].code < 0 ? CASES[i].code : 0);
        r.dev->calls = real;
        event_free(&e);
        rank_end(&r);
    }
}
