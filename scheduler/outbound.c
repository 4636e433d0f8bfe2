/*
 * outbound.c - actions to frames. A frame that cannot be sent is dropped: acknowledgements, plan
 * numbers and registrations make it good.
 */
#include "base/log.h"
#include "scheduler/process.h"
#include "scheduler/scheduler_metrics.h"

void process_send(struct process *p, struct u128 peer, enum wire_kind kind) {
    CHECK(!p->out.failed);
    int rc = link_server_send(p->link, peer, kind, buf_bytes(&p->out));
    if (rc == ERR_AGAIN || rc == ERR_LIMIT)
        LOG_LIMITED(LOG_WARN, "%s not sent: %s", message_kind_name(kind),
                    rc == ERR_AGAIN ? "the peer does not read" : "too large");
}

#define ENCODE(p, name, message)                                                                   \
    do {                                                                                           \
        buf_reset(&(p)->out);                                                                      \
        message_pack_##name(message, &(p)->out);                                                   \
    } while (0)

static void send_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {
    struct process *p = ctx;
    ENCODE(p, plan, plan);
    for (size_t i = 0; i < ranks.count; i++)
        process_send(p, ranks.items[i], WIRE_PLAN);
    metric_add(&scheduler_metrics[METRIC_PLANS], (int64_t)ranks.count);
}

static void send_deltas(void *ctx, struct u128 gateway, const struct wire_deltas *deltas) {
    struct process *p = ctx;
    ENCODE(p, deltas, deltas);
    process_send(p, gateway, WIRE_DELTAS);
    metric_add(&scheduler_metrics[METRIC_DELTAS], 1);
}

static void send_reject(void *ctx, struct u128 gateway, const struct wire_reject *reject) {
    struct process *p = ctx;
    ENCODE(p, reject, reject);
    process_send(p, gateway, WIRE_REJECT);
}

static void send_attached(void *ctx, struct u128 gateway, const struct wire_submit *submit) {
    struct process *p = ctx;
    ENCODE(p, submit, submit);
    process_send(p, gateway, WIRE_SUBMIT);
}

/* What p->out holds, to each of the list. */
static void send_to_all(struct process *p, const struct peer_list *peers, enum wire_kind kind) {
    for (size_t i = 0; i < peers->count; i++)
        process_send(p, peers->items[i], kind);
}

/* To every supervisor: the one whose child it is acts. */
static void tell_fence(struct process *p, const struct wire_fence *fence) {
    ENCODE(p, fence, fence);
    send_to_all(p, &p->supervisors, WIRE_FENCE);
}

static void send_fence(void *ctx, struct u128 instance, uint32_t pid) {
    struct process *p = ctx;
    struct wire_fence fence = {instance, pid};
    char text[U128_TEXT_MAX];
    u128_text(instance, text);
    LOG_SOME(LOG_WARN, "asking for the end of a worker pid=%u instance=%s", pid, text);
    fence_ledger_add(&p->fences, p->clock.now_ms, &fence);
    tell_fence(p, &fence);
}

void process_repeat_fences(struct process *p) {
    for (const struct wire_fence *fence; (fence = fence_ledger_due(&p->fences, p->clock.now_ms));)
        tell_fence(p, fence);
}

/* To every supervisor: whoever has such a model acts. */
static void tell_want(void *ctx, const struct wire_want *want) {
    struct process *p = ctx;
    ENCODE(p, want, want);
    send_to_all(p, &p->supervisors, WIRE_WANT);
}

void process_send_wants(struct process *p) {
    if (p->supervisors.count)
        want_ledger_empty(&p->wants, p->clock.now_ms, tell_want, p);
}

void process_send_ticket(struct process *p, struct u128 peer, const struct wire_want *want) {
    const struct wire_outcome nobody = {
        .ticket = want->ticket,
        .away = true,
        .text = bytes_str("no trireme serve answers the scheduler; try again")};
    if (!p->supervisors.count) {
        ENCODE(p, outcome, &nobody);
        process_send(p, peer, WIRE_OUTCOME);
        return;
    }
    for (size_t i = 0; i < p->supervisors.count; i++)
        ticket_ledger_add(&p->tickets, want->ticket, p->supervisors.items[i]);
    tell_want(p, want);
}

void process_send_outcome(struct process *p, const struct wire_outcome *outcome) {
    ticket_ledger_done(&p->tickets, outcome->ticket);
    ENCODE(p, outcome, outcome);
    send_to_all(p, &p->gateways, WIRE_OUTCOME);
}

static void tell_ended(void *ctx, struct u128 ticket) {
    process_send_outcome(
        ctx, &(struct wire_outcome){
                 .ticket = ticket,
                 .away = true,
                 .text = bytes_str("the trireme serve that was asked has ended meanwhile; GET "
                                   "/v1/models tells which models are there")});
}

void process_end_tickets(struct process *p, struct u128 supervisor) {
    ticket_ledger_gone(&p->tickets, supervisor, tell_ended, p);
}

static void send_reregister(void *ctx, struct u128 instance) {
    struct process *p = ctx;
    struct wire_blocks_lost message = {0};
    ENCODE(p, blocks_lost, &message);
    process_send(p, instance, WIRE_BLOCKS_LOST);
}

static void send_prepare(void *ctx, struct u128s ranks, const struct wire_prepare *prepare) {
    struct process *p = ctx;
    ENCODE(p, prepare, prepare);
    for (size_t i = 0; i < ranks.count; i++)
        process_send(p, ranks.items[i], WIRE_PREPARE);
}

static void send_released(void *ctx, struct u128 instance) {
    struct process *p = ctx;
    struct wire_drain message = {0};
    ENCODE(p, drain, &message);
    process_send(p, instance, WIRE_DRAIN);
}

struct sched_sink process_sink(struct process *p) {
    return (struct sched_sink){.ctx = p,
                               .plan = send_plan,
                               .deltas = send_deltas,
                               .reject = send_reject,
                               .attached = send_attached,
                               .fence = send_fence,
                               .reregister = send_reregister,
                               .released = send_released,
                               .prepare = send_prepare};
}

void process_send_status(struct process *p) {
    struct wire_status status = sched_status(p->core);
    status.model_count = MIN(status.model_count, (size_t)WIRE_MAX_MODELS);
    ENCODE(p, status, &status);
    send_to_all(p, &p->gateways, WIRE_STATUS);
    send_to_all(p, &p->supervisors, WIRE_STATUS);
}

/* ---- Bundles ---- */

static void send_chunk(void *ctx, struct u128 gateway, const struct wire_bundle_chunk *chunk) {
    struct process *p = ctx;
    ENCODE(p, bundle_chunk, chunk);
    process_send(p, gateway, WIRE_BUNDLE_CHUNK);
    metric_add(&scheduler_metrics[METRIC_BUNDLE_BYTES], (int64_t)chunk->data.len);
}

static bool ask_chunk(void *ctx, const struct wire_bundle_get *get) {
    struct process *p = ctx;
    struct u128 source = sched_bundle_source(p->core, get->bundle);
    if (u128_is_zero(source))
        return false;
    ENCODE(p, bundle_get, get);
    return link_server_send(p->link, source, WIRE_BUNDLE_GET, buf_bytes(&p->out)) == 0;
}

struct bundle_relay_calls process_bundle_calls(struct process *p) {
    return (struct bundle_relay_calls){.ctx = p, .answer = send_chunk, .ask = ask_chunk};
}
