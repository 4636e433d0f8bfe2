/* What the core's actions become on the wire: to whom, as what, and what a frame that cannot be sent leaves behind. The
 * link is the test's own. */
#include <stdio.h>

#include "check.h"
#include "scheduler/process.h"
#include "scheduler/scheduler_metrics.h"

static struct {
    struct buf log; /* a line for each frame: the peer, its kind and length */
    struct buf last;
    int answer;
} wire;

/* In place of the link's. */
int link_server_send(struct link_server *server, struct u128 peer, enum wire_kind kind,
                     struct bytes payload) {
    buf_addf(&wire.log, "%u %s; ", (unsigned)peer.lo, message_kind_name(kind));
    buf_reset(&wire.last);
    buf_add_bytes(&wire.last, payload);
    return wire.answer;
}

static struct u128 peers[] = {{1, 7}, {2, 7}, {3, 7}, {4, 7}, {5, 7}};

/* Gateways 1 and 2, supervisors 3 and 4. */
static struct process *process_with_peers(void) {
    static struct process p;
    struct sched_config config;
    wire.answer = 0;
    buf_reset(&wire.log);
    if (p.core)
        return &p;
    scheduler_metrics_register();
    sched_config_default(&config);
    struct sched_sink sink = process_sink(&p);
    p.core = sched_new(&config, &sink);
    for (size_t i = 0; i < 2; i++) {
        vec_push(&p.gateways, peers[i]);
        vec_push(&p.supervisors, peers[2 + i]);
    }
    return &p;
}

static const char *sent(void) {
    return buf_text(&wire.log);
}

#define UNPACK(name, message) message_unpack_##name(buf_bytes(&wire.last), &arena, message, &err)

TEST(outbound_actions_go_to_whom_they_are_for) {
    struct process *p = process_with_peers();
    struct sched_sink sink = process_sink(p);
    struct arena arena = {0};
    struct error err;
    struct wire_plan plan = {.number = 9, .incarnation = 2};
    struct wire_deltas deltas = {0};
    struct wire_reject reject = {{11, 12}, 3, WIRE_REJECT_POISON, 77, bytes_str("no")};
    struct wire_prepare prepare = {.resource = WIRE_RESOURCE_GRAMMAR, .hash = {5, 6}};
    int64_t plans = metric_value(&scheduler_metrics[METRIC_PLANS], 0),
            batches = metric_value(&scheduler_metrics[METRIC_DELTAS], 0);
    sink.plan(sink.ctx, (struct u128s){peers + 2, 3}, &plan);
    EXPECT_STR(sent(), "3 plan; 4 plan; 5 plan; ");
    EXPECT(!UNPACK(plan, &plan) && plan.number == 9 && plan.incarnation == 2);
    EXPECT_EQ(metric_value(&scheduler_metrics[METRIC_PLANS], 0), plans + 3);
    buf_reset(&wire.log);
    sink.deltas(sink.ctx, peers[1], &deltas);
    EXPECT_EQ(metric_value(&scheduler_metrics[METRIC_DELTAS], 0), batches + 1);
    sink.reject(sink.ctx, peers[0], &reject);
    EXPECT(!UNPACK(reject, &reject) && reject.attempt == 3 && reject.retry_after_ms == 77);
    sink.reregister(sink.ctx, peers[4]);
    sink.released(sink.ctx, peers[3]);
    EXPECT_STR(sent(), "2 deltas; 1 reject; 5 blocks_lost; 4 drain; ");
    buf_reset(&wire.log);
    sink.prepare(sink.ctx, (struct u128s){peers, 2}, &prepare);
    EXPECT_STR(sent(), "1 prepare; 2 prepare; ");
    EXPECT(!UNPACK(prepare, &prepare) && prepare.hash.lo == 5);
    arena_release(&arena);
}

/* Each supervisor is asked for the end of a worker, and again until one has said it. */
TEST(outbound_fences_are_repeated_when_they_are_due) {
    struct process *p = process_with_peers();
    struct sched_sink sink = process_sink(p);
    struct arena arena = {0};
    struct error err;
    struct wire_fence fence;
    p->clock.now_ms = 50000;
    sink.fence(sink.ctx, peers[4], 4321);
    EXPECT_STR(sent(), "3 fence; 4 fence; ");
    EXPECT(!UNPACK(fence, &fence) && fence.pid == 4321 && fence.instance.lo == 5);
    buf_reset(&wire.log);
    p->clock.now_ms += FENCE_AGAIN_MS - 1;
    process_repeat_fences(p);
    EXPECT_STR(sent(), "");
    p->clock.now_ms++;
    process_repeat_fences(p);
    EXPECT_STR(sent(), "3 fence; 4 fence; ");
    fence_ledger_confirm(&p->fences, peers[4]);
    arena_release(&arena);
}

TEST(outbound_status_goes_to_gateways_and_supervisors) {
    struct process *p = process_with_peers();
    process_send_status(p);
    EXPECT_STR(sent(), "1 status; 2 status; 3 status; 4 status; ");
}

/* What models are wanted waits for somebody who can load them. */
TEST(outbound_wants_wait_for_a_supervisor) {
    struct process *p = process_with_peers();
    struct wire_want want = {.model = bytes_str("m"), .wish = 1};
    size_t count = p->supervisors.count;
    p->supervisors.count = 0;
    want_ledger_add(&p->wants, p->clock.now_ms, &want);
    process_send_wants(p);
    EXPECT_STR(sent(), "");
    p->supervisors.count = count;
    process_send_wants(p);
    EXPECT_STR(sent(), "3 want; 4 want; ");
    process_send_wants(p); /* each once */
    EXPECT_STR(sent(), "3 want; 4 want; ");
}

/* Who waits for an outcome gets one: at once where nobody can be asked, and when the last that was asked has gone. */
TEST(outbound_tickets_always_have_an_outcome) {
    struct process *p = process_with_peers();
    struct arena arena = {0};
    struct error err;
    struct wire_outcome outcome;
    struct wire_want want = {.model = bytes_str("m"), .wish = 1, .ticket = {8, 9}};
    size_t count = p->supervisors.count;
    p->supervisors.count = 0;
    process_send_ticket(p, peers[1], &want);
    EXPECT_STR(sent(), "2 outcome; ");
    EXPECT(!UNPACK(outcome, &outcome) && outcome.away && !outcome.done && outcome.ticket.lo == 8);
    EXPECT(
        bytes_equal(outcome.text, bytes_str("no trireme serve answers the scheduler; try again")));
    p->supervisors.count = count;
    buf_reset(&wire.log);
    process_send_ticket(p, peers[1], &want);
    EXPECT_STR(sent(), "3 want; 4 want; ");
    buf_reset(&wire.log);
    process_end_tickets(p, peers[2]);
    EXPECT_STR(sent(), "");
    process_end_tickets(p, peers[3]);
    EXPECT_STR(sent(), "1 outcome; 2 outcome; ");
    EXPECT(!UNPACK(outcome, &outcome) && outcome.away && !outcome.done && outcome.ticket.lo == 8);
    EXPECT(bytes_equal(bytes_of(outcome.text.data, 47),
                       bytes_str("the trireme serve that was asked has ended mean")));
    process_send_ticket(p, peers[1], &want); /* the outcome is known: nobody waits any more */
    buf_reset(&wire.log);
    process_send_outcome(p, &(struct wire_outcome){.ticket = want.ticket, .done = true});
    EXPECT_STR(sent(), "1 outcome; 2 outcome; ");
    process_end_tickets(p, peers[2]);
    process_end_tickets(p, peers[3]);
    EXPECT_STR(sent(), "1 outcome; 2 outcome; ");
    arena_release(&arena);
}

TEST(outbound_chunks_of_bundles_are_counted) {
    struct process *p = process_with_peers();
    struct bundle_relay_calls calls = process_bundle_calls(p);
    struct wire_bundle_chunk chunk = {.bundle = {1, 2}, .total = 3, .data = bytes_str("abc")};
    struct wire_bundle_get get = {.bundle = {1, 2}};
    int64_t before = metric_value(&scheduler_metrics[METRIC_BUNDLE_BYTES], 0);
    calls.answer(calls.ctx, peers[0], &chunk);
    EXPECT_STR(sent(), "1 bundle_chunk; ");
    EXPECT_EQ(metric_value(&scheduler_metrics[METRIC_BUNDLE_BYTES], 0), before + 3);
    EXPECT(!calls.ask(calls.ctx, &get)); /* no worker has it */
    EXPECT_STR(sent(), "1 bundle_chunk; ");
}

/* A frame that is lost is made good later; nothing else happens. */
TEST(outbound_frames_that_cannot_be_sent_are_dropped) {
    static const int ANSWERS[] = {ERR_AGAIN, ERR_LIMIT, ERR_CLOSED};
    struct process *p = process_with_peers();
    for (size_t i = 0; i < ARRAY_LEN(ANSWERS); i++) {
        wire.answer = ANSWERS[i];
        buf_reset(&wire.log);
        process_send_status(p);
        EXPECT_STR(sent(), "1 status; 2 status; 3 status; 4 status; ");
    }
    sched_free(&p->core);
    vec_release(&p->gateways);
    vec_release(&p->supervisors);
    fence_ledger_release(&p->fences);
    want_ledger_release(&p->wants);
    ticket_ledger_release(&p->tickets);
    buf_release(&p->out);
    buf_release(&wire.log);
    buf_release(&wire.last);
}
