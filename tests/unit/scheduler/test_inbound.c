/* What the process makes of frames and of peers that come and go, without any peer: its calls are
 * made as the link makes them. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "scheduler/process.h"
#include "scheduler/scheduler_main.h"
#include "scheduler/scheduler_metrics.h"

static const struct link_server_calls *const calls = &process_link_calls;

struct stage {
    char folder[40];
    struct scheduler_settings settings;
    struct process process;
};

static bool stage_open(struct stage *t) {
    char listen[80], dir[80];
    struct error err = {0};
    size_t rest;
    *t = (struct stage){.folder = "/tmp/trireme-inbound-XXXXXX"};
    if (!mkdtemp(t->folder))
        return false;
    snprintf(listen, sizeof listen, "--listen=ipc://%s/s", t->folder);
    snprintf(dir, sizeof dir, "--run-dir=%s", t->folder);
    char *argv[] = {(char[]){"scheduler"}, listen, dir, (char[]){"--log-level=error"}};
    int rc =
        option_parse(&scheduler_options, &t->settings, ARRAY_LEN(argv), argv, NULL, 0, &rest, &err);
    if (rc == 0)
        rc = process_init(&t->process, &t->settings, &err);
    if (rc)
        printf("# %s\n", err.text);
    return rc == 0;
}

static void stage_close(struct stage *t) {
    char command[96];
    process_release(&t->process);
    option_free(&scheduler_options, &t->settings);
    snprintf(command, sizeof command, "rm -rf %s", t->folder);
    EXPECT_EQ(system(command), 0);
}

/* A later scheduler has taken over: this one ends, and says why; one that ends already ends as it
 * was going to. */
TEST(inbound_a_later_epoch_ends_the_scheduler) {
    struct stage t;
    EXPECT(stage_open(&t));
    struct epoch mine = {5000, {1, 1}};
    const struct frame later = {.epoch = {6000, {2, 2}}}, earlier = {.epoch = {4000, {2, 2}}},
                       equal = {.epoch = mine};
    const struct wire_hello hello = {.role = WIRE_ROLE_GATEWAY};
    EXPECT_EQ(calls->check_epoch(&t.process, &mine, &earlier, NULL, true), LINK_STALE);
    EXPECT_EQ(calls->check_epoch(&t.process, &mine, &equal, NULL, true), LINK_TAKE);
    EXPECT_EQ(calls->check_epoch(&t.process, &mine, &later, NULL, true), LINK_SUPERSEDED);
    EXPECT_EQ(mine.number, 5000);
    /* young, and heard from nobody yet: it takes a number above; what is no Hello is of an epoch
     * that ended with that */
    EXPECT_EQ(calls->check_epoch(&t.process, &mine, &later, &hello, false), LINK_TAKE);
    EXPECT_EQ(mine.number, 6001);
    mine.number = 5000;
    EXPECT_EQ(calls->check_epoch(&t.process, &mine, &later, NULL, false), LINK_STALE);
    EXPECT_EQ(mine.number, 6001);
    EXPECT_EQ(t.process.end, PROCESS_RUNS);
    calls->superseded(&t.process, later.epoch);
    EXPECT_EQ(t.process.end, PROCESS_SUPERSEDED);
    t.process.end = PROCESS_DRAINED;
    calls->superseded(&t.process, later.epoch);
    EXPECT_EQ(t.process.end, PROCESS_DRAINED);
    stage_close(&t);
}

/* Gateways hear at once of whoever comes and goes; only gateways and supervisors are listed. */
TEST(inbound_whoever_comes_and_goes_is_told_of) {
    static const struct {
        enum wire_role role;
        size_t gateways, supervisors;
    } CASES[] = {{WIRE_ROLE_SUPERVISOR, 0, 1}, {WIRE_ROLE_GATEWAY, 1, 0}};
    struct stage t;
    struct process *p = &t.process;
    EXPECT(stage_open(&t));
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct wire_welcome welcome = {0};
        const struct u128 peer = {7, i + 1};
        const struct wire_hello hello = {
            .role = CASES[i].role, .instance = peer, .incarnation = 1, .pid = 1};
        for (int again = 0; again < 2; again++) { /* a Hello may come twice */
            p->dirty = p->status_due = false;
            EXPECT(calls->hello(p, peer, &hello, &welcome));
            EXPECT(p->dirty && p->status_due);
            EXPECT_EQ(p->gateways.count, CASES[i].gateways);
            EXPECT_EQ(p->supervisors.count, CASES[i].supervisors);
        }
        EXPECT_EQ(sched_counts(p->core).gateways, CASES[i].gateways);
        p->dirty = p->status_due = false;
        calls->gone(p, peer, CASES[i].role);
        EXPECT(p->dirty && p->status_due);
        EXPECT_EQ(p->gateways.count + p->supervisors.count, 0);
    }
    stage_close(&t);
}

/* A worker's Welcome says which replica it is; one that cannot be used gets none. */
TEST(inbound_a_worker_is_taken_or_refused) {
    const struct u128 peer = {7, 7};
    struct wire_kv_group group = {.kind = WIRE_GROUP_FULL, .block_tokens = 16, .block_count = 8};
    struct wire_hello hello = {.role = WIRE_ROLE_WORKER,
                               .instance = peer,
                               .replica = {8, 8},
                               .tp = 1,
                               .pp = 1,
                               .incarnation = 1,
                               .state = WIRE_STATE_IDLE,
                               .model = bytes_str("m"),
                               .revision = {1, 2},
                               .fingerprint = {3, 4},
                               .slot_count = 4,
                               .max_step_tokens = 64,
                               .max_context = 128,
                               .logits_width = 100,
                               .steps_in_flight = 2,
                               .groups = &group,
                               .group_count = 1};
    struct wire_welcome welcome = {0};
    struct stage t;
    struct process *p = &t.process;
    EXPECT(stage_open(&t));
    EXPECT(calls->hello(p, peer, &hello, &welcome));
    EXPECT(u128_equal(welcome.replica, hello.replica));
    EXPECT(p->status_due);
    EXPECT_EQ(sched_counts(p->core).replicas_ready, 1);
    EXPECT_EQ(p->gateways.count + p->supervisors.count, 0);
    calls->gone(p, peer, WIRE_ROLE_WORKER);
    EXPECT_EQ(sched_counts(p->core).replicas_ready, 0);
    EXPECT_EQ(sched_counts(p->core).deaths, 1);
    hello.incarnation = 2;
    hello.logits_width = 0;
    EXPECT(!calls->hello(p, peer, &hello, &welcome));
    EXPECT_EQ(sched_counts(p->core).replicas_ready, 0);
    stage_close(&t);
}

/* What is not the sender's to say is counted, and so is what does not decode; a heartbeat is neither. */
TEST(inbound_counts_what_it_drops) {
    struct metric *malformed = &scheduler_metrics[METRIC_MALFORMED];
    const struct u128 peer = {7, 7};
    struct buf beat = {0};
    struct stage t;
    EXPECT(stage_open(&t));
    const struct wire_heartbeat idle = {.state = WIRE_STATE_IDLE};
    message_pack_heartbeat(&idle, &beat);
    int64_t before = metric_value(malformed, 0);
    t.process.dirty = false;
    calls->frame(&t.process, peer, WIRE_ROLE_GATEWAY, WIRE_HEARTBEAT, buf_bytes(&beat));
    EXPECT(t.process.dirty);
    EXPECT_EQ(metric_value(malformed, 0), before);
    calls->frame(&t.process, peer, WIRE_ROLE_WORKER, WIRE_SUBMIT, buf_bytes(&beat));
    EXPECT_EQ(metric_value(malformed, 0), before + 1);
    calls->frame(&t.process, peer, WIRE_ROLE_GATEWAY, WIRE_WELCOME, buf_bytes(&beat));
    EXPECT_EQ(metric_value(malformed, 0), before + 2);
    calls->frame(&t.process, peer, WIRE_ROLE_GATEWAY, WIRE_HEARTBEAT, bytes_str("\377\377"));
    EXPECT_EQ(metric_value(malformed, 0), before + 3);
    buf_release(&beat);
    stage_close(&t);
}

/* Each of a gateway's messages reaches the core: for a request that nobody knows it has an answer. */
TEST(inbound_what_a_gateway_asks_is_answered) {
    const struct u128 peer = {7, 7}, request = {9, 9};
    const uint32_t zero = 0;
    const struct wire_attach attach = {.request = request};
    const struct wire_resend resend = {.request = request};
    const struct wire_ack ack = {{&request, 1}, {&zero, 1}, {&zero, 1}, {&zero, 1}};
    struct buf out = {0};
    struct stage t;
    EXPECT(stage_open(&t));
    message_pack_attach(&attach, &out);
    calls->frame(&t.process, peer, WIRE_ROLE_GATEWAY, WIRE_ATTACH, buf_bytes(&out));
    EXPECT_EQ(sched_counts(t.process.core).rejected[WIRE_REJECT_UNKNOWN], 1);
    buf_reset(&out);
    message_pack_resend(&resend, &out);
    calls->frame(&t.process, peer, WIRE_ROLE_GATEWAY, WIRE_RESEND, buf_bytes(&out));
    EXPECT_EQ(sched_counts(t.process.core).rejected[WIRE_REJECT_UNKNOWN], 2);
    buf_reset(&out);
    message_pack_ack(&ack, &out);
    calls->frame(&t.process, peer, WIRE_ROLE_GATEWAY, WIRE_ACK, buf_bytes(&out));
    EXPECT_EQ(sched_counts(t.process.core).rejected[WIRE_REJECT_UNKNOWN], 3);
    buf_release(&out);
    stage_close(&t);
}

/* What does not decode is refused by the request's number and attempt, so that nobody waits for it. */
TEST(inbound_what_is_malformed_is_refused_by_its_number) {
    static const uint32_t CHOICES[2] = {3, 3};
    static const struct wire_choice TWICE[2] = {{.choice = 3}, {.choice = 3}};
    const struct u128 peer = {7, 7}, request = {9, 9};
    const struct wire_attach attach = {
        .request = request, .attempt = 4, .choices = {CHOICES, 2}, .indexes = {CHOICES, 2}};
    const struct wire_submit submit = {
        .request = request,
        .attempt = 5,
        .kind = WIRE_GENERATE,
        .prompt = {CHOICES, 2},
        .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1},
        .max_tokens = 1,
        .choices = TWICE,
        .choice_count = 2};
    struct stage t;
    EXPECT(stage_open(&t));
    for (uint32_t i = 0; i < 2; i++) {
        struct arena arena;
        struct wire_reject reject;
        struct buf out = {0};
        if (i)
            message_pack_submit(&submit, &out);
        else
            message_pack_attach(&attach, &out);
        calls->frame(&t.process, peer, WIRE_ROLE_GATEWAY, i ? WIRE_SUBMIT : WIRE_ATTACH,
                     buf_bytes(&out));
        arena_init(&arena, 0, 0);
        EXPECT_EQ(message_unpack_reject(buf_bytes(&t.process.out), &arena, &reject, NULL), 0);
        EXPECT(reject.code == WIRE_REJECT_INVALID && u128_equal(reject.request, request));
        EXPECT_EQ(reject.attempt, 4 + i);
        arena_release(&arena);
        buf_release(&out);
    }
    stage_close(&t);
}

static void say_want(struct process *p, const char *model, enum wire_wish wish) {
    const struct wire_want want = {.model = bytes_str(model), .wish = wish};
    struct buf out = {0};
    message_pack_want(&want, &out);
    calls->frame(p, (struct u128){7, 7}, WIRE_ROLE_GATEWAY, WIRE_WANT, buf_bytes(&out));
    buf_release(&out);
}

/* The gateway has said yes to its client: a wish waits for the supervisor that registers later. */
TEST(inbound_a_wish_waits_for_a_supervisor) {
    struct stage t;
    struct process *p = &t.process;
    struct wire_welcome welcome = {0};
    const struct wire_hello hello = {
        .role = WIRE_ROLE_SUPERVISOR, .instance = {7, 1}, .incarnation = 1, .pid = 1};
    EXPECT(stage_open(&t));
    say_want(p, "tiny", WIRE_WISH_LOAD);
    process_turn(p, 0);
    EXPECT_EQ(p->wants.entries.count, 1);
    EXPECT(calls->hello(p, hello.instance, &hello, &welcome));
    process_turn(p, 0);
    EXPECT_EQ(p->wants.entries.count, 0);
    say_want(p, "tiny", WIRE_WISH_UNLOAD);
    process_turn(p, 0);
    EXPECT_EQ(p->wants.entries.count, 0);
    stage_close(&t);
}

/* Whoever waits for the outcome is told at once that nobody is there: the wish is not kept. */
TEST(inbound_a_wish_with_a_ticket_waits_for_nobody) {
    const struct wire_want want = {
        .model = bytes_str("/srv/new"), .wish = WIRE_WISH_ADD, .ticket = {5, 6}};
    const struct wire_outcome outcome = {.ticket = {5, 6}, .done = true};
    struct metric *malformed = &scheduler_metrics[METRIC_MALFORMED];
    int64_t before = metric_value(malformed, 0);
    struct buf out = {0};
    struct stage t;
    EXPECT(stage_open(&t));
    message_pack_want(&want, &out);
    calls->frame(&t.process, (struct u128){7, 7}, WIRE_ROLE_GATEWAY, WIRE_WANT, buf_bytes(&out));
    EXPECT_EQ(t.process.wants.entries.count, 0);
    buf_reset(&out);
    message_pack_outcome(&outcome, &out);
    calls->frame(&t.process, (struct u128){7, 1}, WIRE_ROLE_SUPERVISOR, WIRE_OUTCOME,
                 buf_bytes(&out));
    EXPECT_EQ(metric_value(malformed, 0), before);
    calls->frame(&t.process, (struct u128){7, 7}, WIRE_ROLE_GATEWAY, WIRE_OUTCOME, buf_bytes(&out));
    EXPECT_EQ(metric_value(malformed, 0), before + 1);
    buf_release(&out);
    stage_close(&t);
}

/* It has gone with what it was asked; nobody else was. */
TEST(inbound_a_ticket_ends_with_the_supervisor_that_was_asked) {
    const struct wire_hello hello = {
        .role = WIRE_ROLE_SUPERVISOR, .instance = {7, 1}, .incarnation = 1, .pid = 1};
    const struct wire_want want = {
        .model = bytes_str("/srv/new"), .wish = WIRE_WISH_ADD, .ticket = {5, 6}};
    struct wire_welcome welcome = {0};
    struct wire_outcome told;
    struct arena arena = {0};
    struct buf out = {0};
    struct stage t;
    struct process *p = &t.process;
    EXPECT(stage_open(&t));
    EXPECT(calls->hello(p, hello.instance, &hello, &welcome));
    message_pack_want(&want, &out);
    calls->frame(p, (struct u128){7, 7}, WIRE_ROLE_GATEWAY, WIRE_WANT, buf_bytes(&out));
    EXPECT_EQ(p->tickets.entries.count, 1);
    calls->gone(p, hello.instance, WIRE_ROLE_SUPERVISOR);
    EXPECT_EQ(p->tickets.entries.count, 0);
    EXPECT_EQ(message_unpack_outcome(buf_bytes(&p->out), &arena, &told, NULL), 0);
    EXPECT(u128_equal(told.ticket, want.ticket) && told.away && !told.done);
    arena_release(&arena);
    buf_release(&out);
    stage_close(&t);
}

/* Its own heartbeats say that it drains. */
TEST(inbound_a_draining_scheduler_says_so) {
    struct wire_heartbeat beat = {.state = WIRE_STATE_IDLE};
    struct stage t;
    EXPECT(stage_open(&t));
    calls->heartbeat(&t.process, &beat);
    EXPECT_EQ(beat.state, WIRE_STATE_IDLE);
    t.process.drain_until_ms = 1;
    calls->heartbeat(&t.process, &beat);
    EXPECT_EQ(beat.state, WIRE_STATE_DRAINING);
    stage_close(&t);
}
