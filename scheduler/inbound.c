/*
 * inbound.c - frames to events: each kind has a row that says who may send it and what it does.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/core/epoch.h"
#include "scheduler/process.h"
#include "scheduler/scheduler_metrics.h"

union message {
#define MEMBER(kind, name) struct wire_##name name;
    WIRE_MESSAGES(MEMBER)
#undef MEMBER
};

/* ---- What each message does ---- */

static void on_submit(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    sched_submit(p->core, now, peer, &m->submit);
}
static void on_cancel(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    sched_cancel(p->core, now, peer, &m->cancel);
}
static void on_pause(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    sched_pause(p->core, now, peer, &m->pause);
}
static void on_ack(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    sched_ack(p->core, now, peer, &m->ack);
}
static void on_resend(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    sched_resend(p->core, now, peer, &m->resend);
}
static void on_attach(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    sched_attach(p->core, now, peer, &m->attach);
}

static void on_heartbeat(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    if (link_server_role(p->link, peer) == WIRE_ROLE_WORKER)
        sched_worker_heartbeat(p->core, now, peer, &m->heartbeat);
}

static void on_step_result(struct process *p, int64_t now, struct u128 peer,
                           const union message *m) {
    if (sched_step_result(p->core, now, peer, &m->step_result) != 0)
        LOG_LIMITED(LOG_WARN, "a worker's result of step %llu did not fit; it registers anew",
                    (unsigned long long)m->step_result.plan_number);
}

static void on_blocks_lost(struct process *p, int64_t now, struct u128 peer,
                           const union message *m) {
    sched_blocks_lost(p->core, now, peer, m->blocks_lost.incarnation);
}

static void on_drain(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    if (link_server_role(p->link, peer) == WIRE_ROLE_WORKER)
        sched_worker_drain(p->core, now, peer);
}

static void on_exited(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    const struct wire_exited *e = &m->exited;
    char instance[U128_TEXT_MAX];
    u128_text(e->instance, instance);
    LOG_SOME(LOG_INFO, "a process ended instance=%s cause=%d value=%u fault=%d", instance,
             (int)e->cause, e->value, e->fault);
    fence_ledger_confirm(&p->fences, e->instance);
    if (link_server_role(p->link, e->instance) == WIRE_ROLE_GATEWAY) {
        peer_list_remove(&p->gateways, e->instance);
        sched_gateway_gone(p->core, now, e->instance);
    } else
        sched_worker_exited(p->core, now, e);
    link_server_drop(p->link, e->instance);
    p->status_due = true;
}

static void on_bundle_get(struct process *p, int64_t now, struct u128 peer,
                          const union message *m) {
    bundle_relay_get(&p->bundles, now, peer, &m->bundle_get);
}
static void on_bundle_chunk(struct process *p, int64_t now, struct u128 peer,
                            const union message *m) {
    bundle_relay_chunk(&p->bundles, now, &m->bundle_chunk);
}

static void on_want(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    if (u128_is_zero(m->want.ticket))
        want_ledger_add(&p->wants, now, &m->want);
    else
        process_send_ticket(p, peer, &m->want);
}

static void on_outcome(struct process *p, int64_t now, struct u128 peer, const union message *m) {
    const struct wire_outcome *o = &m->outcome;
    bool others_may = !u128_is_zero(o->ticket) && !o->done &&
                      !ticket_ledger_refused(&p->tickets, o->ticket, peer);
    if (!others_may)
        process_send_outcome(p, o);
}

static void on_resource_ready(struct process *p, int64_t now, struct u128 peer,
                              const union message *m) {
    sched_resource_ready(p->core, now, peer, &m->ready);
}
static void on_resource_failed(struct process *p, int64_t now, struct u128 peer,
                               const union message *m) {
    LOG_LIMITED(LOG_WARN, "a worker cannot have a grammar that a gateway took: %.*s",
                (int)m->failed.text.len, (const char *)m->failed.text.data);
    sched_resource_failed(p->core, now, peer, &m->failed);
}

enum {
    GATEWAY = 1 << WIRE_ROLE_GATEWAY,
    WORKER = 1 << WIRE_ROLE_WORKER,
    SUPERVISOR = 1 << WIRE_ROLE_SUPERVISOR
};

static const struct inbound_row {
    int roles;
    void (*handle)(struct process *p, int64_t now, struct u128 peer, const union message *m);
} ROWS[WIRE_KIND_MAX] = {
    [WIRE_HEARTBEAT] = {GATEWAY | WORKER | SUPERVISOR, on_heartbeat},
    [WIRE_BUNDLE_GET] = {GATEWAY, on_bundle_get},
    [WIRE_BUNDLE_CHUNK] = {WORKER, on_bundle_chunk},
    [WIRE_SUBMIT] = {GATEWAY, on_submit},
    [WIRE_CANCEL] = {GATEWAY, on_cancel},
    [WIRE_PAUSE] = {GATEWAY, on_pause},
    [WIRE_ACK] = {GATEWAY, on_ack},
    [WIRE_RESEND] = {GATEWAY, on_resend},
    [WIRE_ATTACH] = {GATEWAY, on_attach},
    [WIRE_STEP_RESULT] = {WORKER, on_step_result},
    [WIRE_READY] = {WORKER, on_resource_ready},
    [WIRE_FAILED] = {WORKER, on_resource_failed},
    [WIRE_BLOCKS_LOST] = {WORKER, on_blocks_lost},
    [WIRE_DRAIN] = {GATEWAY | WORKER | SUPERVISOR, on_drain},
    [WIRE_EXITED] = {SUPERVISOR, on_exited},
    [WIRE_WANT] = {GATEWAY, on_want},
    [WIRE_OUTCOME] = {SUPERVISOR, on_outcome},
};

/* ---- Malformed ones ---- */

/* A gateway's request is answered, so that it does not wait for ever; a worker begins anew; from
 * others nothing was lost. */
static void refuse(struct process *p, struct u128 peer, enum wire_kind kind,
                   const union message *m) {
    struct wire_reject reject = {.code = WIRE_REJECT_INVALID,
                                 .text = bytes_str("the request is out of bounds")};
    if (p->arena.starved)
        reject = (struct wire_reject){.code = WIRE_REJECT_OVERLOADED,
                                      .text = bytes_str("the scheduler is out of memory"),
                                      .retry_after_ms = 1000};
    if (kind == WIRE_SUBMIT)
        reject.request = m->submit.request, reject.attempt = m->submit.attempt;
    if (kind == WIRE_ATTACH)
        reject.request = m->attach.request, reject.attempt = m->attach.attempt;
    if (!u128_is_zero(reject.request)) {
        buf_reset(&p->out);
        message_pack_reject(&reject, &p->out);
        process_send(p, peer, WIRE_REJECT);
    }
    if (link_server_role(p->link, peer) == WIRE_ROLE_WORKER) {
        buf_reset(&p->out);
        process_send(p, peer, WIRE_BLOCKS_LOST);
    }
}

static void on_frame(void *ctx, struct u128 peer, enum wire_role role, enum wire_kind kind,
                     struct bytes payload) {
    struct process *p = ctx;
    const struct inbound_row *row = &ROWS[kind];
    union message message;
    struct error err;
    p->dirty = true;
    if (!row->handle || !(row->roles & 1 << role)) {
        metric_add(&scheduler_metrics[METRIC_MALFORMED], 1);
        return;
    }
    arena_reset(&p->arena);
    if (message_unpack(kind, payload, &p->arena, &message, &err) == 0) {
        row->handle(p, p->clock.now_ms, peer, &message);
        return;
    }
    metric_add(&scheduler_metrics[METRIC_MALFORMED], 1);
    LOG_LIMITED(LOG_WARN, "dropped: %s", err.text);
    refuse(p, peer, kind, &message);
}

/* ---- Coming and going ---- */

static enum link_verdict check_epoch(void *ctx, struct epoch *mine, const struct frame *frame,
                                     const struct wire_hello *hello, bool served) {
    const struct process *p = ctx;
    switch (epoch_compare_frame(mine, frame, hello, served, clock_ms() - p->started_ms,
                                (uint64_t)wall_ms())) {
    case EPOCH_STALE: return LINK_STALE;
    case EPOCH_SUPERSEDED: return LINK_SUPERSEDED;
    case EPOCH_ROSE:
        log_info("a peer has met a higher epoch; ours is now %llu",
                 (unsigned long long)mine->number);
        return hello ? LINK_TAKE : LINK_STALE;
    default: return LINK_TAKE;
    }
}

static const char *const ROLE_NAMES[] = {"nobody", "gateway", "worker", "supervisor", "scheduler"};

static bool take_worker(struct process *p, const struct wire_hello *hello,
                        struct wire_welcome *welcome) {
    struct error err;
    if (sched_worker_hello(p->core, p->clock.now_ms, hello, &err) != 0) {
        LOG_LIMITED(LOG_ERROR, "worker '%.*s' cannot be used: %s", (int)hello->name.len,
                    (const char *)hello->name.data, err.text);
        return false;
    }
    fence_ledger_confirm(&p->fences, hello->instance);
    welcome->replica = sched_worker_replica(p->core, hello->instance);
    return true;
}

static bool on_hello(void *ctx, struct u128 peer, const struct wire_hello *hello,
                     struct wire_welcome *welcome) {
    struct process *p = ctx;
    p->dirty = true;
    if (hello->role == WIRE_ROLE_WORKER && !take_worker(p, hello, welcome))
        return false;
    if (hello->role == WIRE_ROLE_GATEWAY) {
        sched_gateway_up(p->core, p->clock.now_ms, peer);
        peer_list_add(&p->gateways, peer);
    }
    if (hello->role == WIRE_ROLE_SUPERVISOR)
        peer_list_add(&p->supervisors, peer);
    p->status_due = true;
    LOG_SOME(LOG_INFO, "%s '%.*s' registered pid=%u incarnation=%u", ROLE_NAMES[hello->role],
             (int)hello->name.len, hello->name.len ? (const char *)hello->name.data : "",
             hello->pid, hello->incarnation);
    return true;
}

static void on_gone(void *ctx, struct u128 peer, enum wire_role role) {
    struct process *p = ctx;
    char instance[U128_TEXT_MAX];
    u128_text(peer, instance);
    LOG_SOME(LOG_WARN, "%s is silent instance=%s", ROLE_NAMES[role], instance);
    p->dirty = p->status_due = true;
    peer_list_remove(&p->gateways, peer);
    peer_list_remove(&p->supervisors, peer);
    process_end_tickets(p, peer);
    if (role == WIRE_ROLE_GATEWAY)
        sched_gateway_silent(p->core, p->clock.now_ms, peer);
    if (role == WIRE_ROLE_WORKER)
        sched_worker_silent(p->core, p->clock.now_ms, peer);
}

static void on_superseded(void *ctx, struct epoch by) {
    struct process *p = ctx;
    if (p->end != PROCESS_RUNS)
        return;
    log_error("a newer scheduler has taken over epoch=%llu", (unsigned long long)by.number);
    p->end = PROCESS_SUPERSEDED;
}

static void on_own_heartbeat(void *ctx, struct wire_heartbeat *heartbeat) {
    const struct process *p = ctx;
    if (p->drain_until_ms)
        heartbeat->state = WIRE_STATE_DRAINING;
}

const struct link_server_calls process_link_calls = {.check_epoch = check_epoch,
                                                     .hello = on_hello,
                                                     .frame = on_frame,
                                                     .gone = on_gone,
                                                     .superseded = on_superseded,
                                                     .heartbeat = on_own_heartbeat};
