/* The process around the core, as thin as it can be: epochs, who has been heard, and messages
 * turned into calls and back. And the supervisor. */
#include "sim.h"

#include "scheduler/core/epoch.h"

/* ---- From the core ---- */

static uint32_t peer_of(const struct process *p, struct u128 instance) {
    for (uint32_t i = 0; i < PEERS; i++)
        if (p->peers[i].known && u128_equal(p->peers[i].instance, instance))
            return i;
    return PEERS;
}

static void send_down(struct process *p, struct message *m, uint32_t peer, struct u128 to) {
    m->epoch = p->epoch;
    m->to = to;
    m->process = (uint8_t)(p - p->world->procs);
    send_message(p->world, m, peer, false);
}

static void on_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {
    struct process *p = ctx;
    policy_plan(p, ranks, plan);
    for (size_t i = 0; i < ranks.count; i++) {
        uint32_t peer = peer_of(p, ranks.items[i]);
        if (peer == PEERS)
            continue;
        struct message *m = message_new(p->world, WIRE_PLAN);
        message_set_plan(m, plan);
        send_down(p, m, peer, ranks.items[i]);
    }
}

static void set_stream(struct process *p, struct u128 id, bool open) {
    while (p->streams.count < id.lo)
        vec_push(&p->streams, false);
    p->streams.items[id.lo - 1] = open;
}

static void on_deltas(void *ctx, struct u128 gateway, const struct wire_deltas *deltas) {
    struct process *p = ctx;
    for (size_t i = 0; i < deltas->requests.count; i++)
        if (deltas->finishes.items[i])
            set_stream(p, deltas->requests.items[i], false);
    uint32_t peer = peer_of(p, gateway);
    if (peer == PEERS)
        return;
    struct message *m = message_new(p->world, WIRE_DELTAS);
    message_set_deltas(m, deltas);
    send_down(p, m, peer, gateway);
}

static void on_reject(void *ctx, struct u128 gateway, const struct wire_reject *reject) {
    struct process *p = ctx;
    set_stream(p, reject->request, false);
    policy_reject(p, reject);
    uint32_t peer = peer_of(p, gateway);
    if (peer == PEERS)
        return;
    struct message *m = message_new(p->world, WIRE_REJECT);
    m->u.reject = *reject;
    m->u.reject.text = (struct bytes){0};
    send_down(p, m, peer, gateway);
}

static void on_fence(void *ctx, struct u128 instance, uint32_t pid) {
    struct process *p = ctx;
    if (!p->peers[SUPERVISOR].known)
        return;
    struct message *m = message_new(p->world, WIRE_FENCE);
    m->u.fence = (struct wire_fence){instance, pid};
    send_down(p, m, SUPERVISOR, p->peers[SUPERVISOR].instance);
}

static void on_reregister(void *ctx, struct u128 instance) {
    struct process *p = ctx;
    uint32_t peer = peer_of(p, instance);
    if (peer < PEERS)
        send_down(p, message_new(p->world, WIRE_BLOCKS_LOST), peer, instance);
}

/* ---- Life ---- */

void process_start(struct world *w) {
    uint32_t idx = w->current;
    /* nothing to replace */
    if (w->procs[idx].alive && w->procs[idx].paused_until <= w->now)
        return;
    if (w->procs[idx].alive)
        idx = 1 - idx;
    if (w->procs[idx].alive)
        return;
    struct process *p = &w->procs[idx];
    *p = (struct process){
        .world = w, .alive = true, .wants = INT64_MAX, .beat_at = w->now, .started_at = w->now};
    struct sched_sink sink = {.ctx = p,
                              .plan = on_plan,
                              .deltas = on_deltas,
                              .reject = on_reject,
                              .fence = on_fence,
                              .reregister = on_reregister};
    p->core = sched_new(&w->config, &sink);
    int64_t skew = chance(w, 3) ? below(w, 3000) : 0; /* clocks go back, too */
    p->epoch = epoch_start((uint64_t)MAX(w->now - skew, 0), world_instance(w));
    w->current = idx;
    trace(w, "scheduler starts", idx, p->epoch.number, 0, 0);
}

void process_kill(struct world *w, uint32_t idx) {
    struct process *p = &w->procs[idx];
    if (!p->alive)
        return;
    trace(w, "scheduler dies", idx, 0, 0, 0);
    struct sched_counts counts = sched_counts(p->core);
    w->preemptions += counts.preemptions;
    w->evictions += counts.evictions;
    w->retransmits += counts.retransmits;
    w->wasted += counts.wasted_rows;
    w->fences += counts.fences;
    w->faults += counts.attributable_deaths;
    moves_collect(w, p->core);
    p->alive = false;
    sched_free(&p->core);
    vec_release(&p->attempts);
    vec_release(&p->streams);
    policy_release(&p->policy);
    while (p->inbox) {
        struct message *m = p->inbox;
        p->inbox = m->next;
        message_free(w, m);
    }
}

static void after_event(struct process *p) {
    struct world *w = p->world;
    sched_check(p->core);
    policy_shares(p);
    if (p->turn_due)
        return;
    p->turn_due = true;
    at(w, w->now + (chance(w, 4) ? 1 : 0), EVENT_TURN, (uint32_t)(p - w->procs), 0, NULL);
}

/* ---- Messages ---- */

static void hear(struct process *p, uint32_t peer, const struct message *m) {
    struct known_peer *known = &p->peers[peer];
    if (known->known && !u128_equal(known->instance, m->from)) {
        /* late news of one that is gone */
        if (m->kind != WIRE_HELLO || m->from.lo < known->instance.lo)
            return;
        if (!known->silent && peer < GATEWAYS)
            sched_gateway_silent(p->core, p->world->now, known->instance);
        if (!known->silent && peer >= GATEWAYS && peer < SUPERVISOR)
            sched_worker_silent(p->core, p->world->now, known->instance);
        *known = (struct known_peer){0};
    }
    known->known = true;
    known->instance = m->from;
    known->heard_at = p->world->now;
    if (known->silent && peer < GATEWAYS)
        sched_gateway_up(p->core, p->world->now, m->from);
    known->silent = false;
}

static void answer(struct process *p, const struct message *m) {
    struct message *reply =
        message_new(p->world, m->kind == WIRE_HELLO ? WIRE_WELCOME : WIRE_HEARTBEAT);
    /* which Hello it answers */
    reply->u.lost.incarnation = m->kind == WIRE_HELLO ? m->u.hello.incarnation : 0;
    send_down(p, reply, m->peer, m->from);
}

/* A request belongs to the highest attempt that was heard of. */
static void note_attempt(struct process *p, struct u128 id, uint32_t attempt) {
    while (p->attempts.count < id.lo)
        vec_push(&p->attempts, 0);
    p->attempts.items[id.lo - 1] = MAX(p->attempts.items[id.lo - 1], attempt);
}

/* What speaks of an attempt that is over must change nothing: the core counts it, or knows no such
 * request. */
static void take_ack(struct process *p, const struct message *m) {
    const struct wire_ack *ack = &m->u.ack;
    struct sched_counts before = sched_counts(p->core), after;
    uint64_t old = 0;
    for (size_t i = 0; i < ack->requests.count; i++) {
        uint64_t idx = ack->requests.items[i].lo - 1;
        old += idx < p->attempts.count && ack->attempts.items[i] < p->attempts.items[idx];
    }
    sched_ack(p->core, p->world->now, m->from, ack);
    after = sched_counts(p->core);
    uint64_t refused = after.stale_messages - before.stale_messages +
                       after.rejected[WIRE_REJECT_UNKNOWN] - before.rejected[WIRE_REJECT_UNKNOWN];
    MUST(p->world, refused >= old, "acknowledgements of %llu attempts that are over are taken",
         (unsigned long long)old);
}

/* A stream that runs, or waits, here goes to the gateway that asks for it, whichever gateway had it:
 * unless that one comes from an attempt that this scheduler has missed. */
static void take_attach(struct process *p, const struct message *m) {
    const struct wire_attach *attach = &m->u.attach;
    uint64_t before = sched_counts(p->core).rejected[WIRE_REJECT_UNKNOWN],
             idx = attach->request.lo - 1;
    bool owed = idx < p->streams.count && p->streams.items[idx] &&
                attach->attempt == p->attempts.items[idx] + 1;
    sched_attach(p->core, p->world->now, m->from, attach);
    bool taken = sched_counts(p->core).rejected[WIRE_REJECT_UNKNOWN] == before;
    MUST(p->world, taken || !owed, "an open stream, %llu, is refused to who takes it up",
         (unsigned long long)attach->request.lo);
    if (taken)
        note_attempt(p, attach->request, attach->attempt);
    p->world->attached += taken && owed;
}

/* Those with a deadline may end at any time, and so may what aborts workers. */
static void take_submit(struct process *p, const struct message *m) {
    const struct wire_submit *submit = &m->u.submit;
    bool lasts = submit->resumable && !submit->deadline_ms &&
                 !p->world->truths.items[submit->request.lo - 1].killer;
    note_attempt(p, submit->request, submit->attempt);
    set_stream(p, submit->request, lasts);
    uint64_t before = sched_counts(p->core).rejected[WIRE_REJECT_OVERLOADED];
    sched_submit(p->core, p->world->now, m->from, submit);
    policy_submit(p, submit, sched_counts(p->core).rejected[WIRE_REJECT_OVERLOADED] > before);
}

static void call_core(struct process *p, const struct message *m) {
    struct world *w = p->world;
    struct sched *core = p->core;
    struct error err;
    switch (m->kind) {
    case WIRE_HELLO:
        if (m->u.hello.role == WIRE_ROLE_GATEWAY)
            sched_gateway_up(core, w->now, m->from);
        else if (m->u.hello.role == WIRE_ROLE_WORKER)
            MUST(w, sched_worker_hello(core, w->now, &m->u.hello, &err) == 0, "hello refused: %s",
                 err.text);
        p->peers[m->peer].served = true;
        answer(p, m);
        break;
    case WIRE_HEARTBEAT:
        if (m->peer >= GATEWAYS && m->peer < SUPERVISOR)
            sched_worker_heartbeat(core, w->now, m->from, &m->u.heartbeat);
        break;
    case WIRE_SUBMIT: take_submit(p, m); break;
    case WIRE_CANCEL:
        set_stream(p, m->u.cancel.request, false);
        sched_cancel(core, w->now, m->from, &m->u.cancel);
        break;
    case WIRE_PAUSE: sched_pause(core, w->now, m->from, &m->u.pause); break;
    case WIRE_ACK: take_ack(p, m); break;
    case WIRE_RESEND: sched_resend(core, w->now, m->from, &m->u.resend); break;
    case WIRE_ATTACH: take_attach(p, m); break;
    case WIRE_STEP_RESULT:
        if (sched_step_result(core, w->now, m->from, &m->u.result))
            trace(w, "result unfit", m->peer, m->u.result.plan_number, 0, 0);
        break;
    case WIRE_BLOCKS_LOST: sched_blocks_lost(core, w->now, m->from, m->u.lost.incarnation); break;
    case WIRE_EXITED: sched_worker_exited(core, w->now, &m->u.exited); break;
    default: violated(w, "a scheduler got a message of kind %u", m->kind);
    }
}

static void handle_message(struct process *p, struct message *m) {
    struct world *w = p->world;
    struct known_peer *known = &p->peers[m->peer];
    bool served = known->known && known->served && u128_equal(known->instance, m->from);
    struct frame frame = {.kind = m->kind, .epoch = m->epoch};
    enum epoch_verdict verdict =
        epoch_compare_frame(&p->epoch, &frame, m->kind == WIRE_HELLO ? &m->u.hello : NULL, served,
                            w->now - p->started_at, (uint64_t)w->now);
    if (verdict == EPOCH_SUPERSEDED) {
        trace(w, "superseded", (uint64_t)(p - w->procs), m->peer, m->epoch.number, p->epoch.number);
        bool current = p == &w->procs[w->current];
        message_free(w, m);
        process_kill(w, (uint32_t)(p - w->procs));
        if (current)
            at(w, w->now + 100, EVENT_RESTART, PEERS, 0, NULL);
        return;
    }
    if (verdict == EPOCH_ROSE)
        for (uint32_t i = 0; i < PEERS; i++)
            p->peers[i].served = false;
    bool believe = verdict == EPOCH_TAKE || (verdict == EPOCH_ROSE && m->kind == WIRE_HELLO);
    if (!believe) {
        answer(p, m);
        message_free(w, m);
        return;
    }
    hear(p, m->peer, m);
    if (u128_equal(known->instance, m->from))
        call_core(p, m);
    message_free(w, m);
    after_event(p);
}

void process_receive(struct world *w, uint32_t idx, struct message *m) {
    struct process *p = &w->procs[idx];
    if (!p->alive) {
        message_free(w, m);
        return;
    }
    if (p->paused_until > w->now) {
        m->next = NULL;
        if (p->inbox)
            p->last->next = m;
        else
            p->inbox = m;
        p->last = m;
        return;
    }
    handle_message(p, m);
}

/* ---- Time ---- */

static void judge_silence(struct process *p) {
    struct world *w = p->world;
    bool was_late = w->now - p->beat_at > 3 * HEARTBEAT_MS; /* nobody is blamed for our own sleep */
    p->beat_at = w->now;
    for (uint32_t i = 0; i < SUPERVISOR; i++) {
        struct known_peer *known = &p->peers[i];
        if (was_late)
            known->heard_at = w->now;
        if (!known->known || known->silent || w->now - known->heard_at < SILENCE_MS)
            continue;
        known->silent = true;
        trace(w, "silent", i, known->instance.lo, 0, 0);
        if (i < GATEWAYS)
            sched_gateway_silent(p->core, w->now, known->instance);
        else
            sched_worker_silent(p->core, w->now, known->instance);
        after_event(p);
    }
}

void process_beat(struct world *w, uint32_t idx) {
    struct process *p = &w->procs[idx];
    if (!p->alive || p->paused_until > w->now)
        return;
    judge_silence(p);
    for (uint32_t i = 0; i < PEERS; i++)
        if (p->peers[i].known)
            send_down(p, message_new(w, WIRE_HEARTBEAT), i, p->peers[i].instance);
}

void process_turn(struct world *w, uint32_t idx) {
    struct process *p = &w->procs[idx];
    if (!p->alive || p->paused_until > w->now || (!p->turn_due && p->wants > w->now))
        return;
    p->turn_due = false;
    policy_turn_begins(p);
    p->wants = sched_run(p->core, w->now);
    policy_turn_ends(p);
    sched_check(p->core);
    struct sched_counts counts = sched_counts(p->core);
    MUST(w, p->wants > w->now, "the core wants to run at once again");
    MUST(w, counts.attributable_deaths <= 9 * (uint64_t)w->killer_goal,
         "%llu deaths, and the one that kills is not refused",
         (unsigned long long)counts.attributable_deaths);
    if (p->wants != INT64_MAX)
        at(w, p->wants, EVENT_TURN, idx, 0, NULL);
}

void process_wake(struct world *w, uint32_t idx) {
    struct process *p = &w->procs[idx];
    if (!p->alive || p->paused_until > w->now)
        return;
    while (p->alive && p->inbox) {
        struct message *m = p->inbox;
        p->inbox = m->next;
        handle_message(p, m);
    }
    p->turn_due = false; /* the one that was due fell into the sleep */
    if (p->alive)
        after_event(p);
}

/* ---- The supervisor ---- */

static void supervisor_send(struct world *w, struct message *m) {
    m->epoch = w->supervisor_epoch;
    m->from = (struct u128){.lo = 99999, .hi = 1};
    send_message(w, m, SUPERVISOR, true);
}

void supervisor_beat(struct world *w) {
    if (w->supervisor_welcome) {
        supervisor_send(w, message_new(w, WIRE_HEARTBEAT));
        return;
    }
    struct wire_hello hello = {.role = WIRE_ROLE_SUPERVISOR,
                               .instance = {.lo = 99999, .hi = 1},
                               .epoch_number = w->supervisor_epoch.number,
                               .epoch_instance = w->supervisor_epoch.instance};
    struct message *m = message_new(w, WIRE_HELLO);
    message_set_hello(m, &hello);
    supervisor_send(w, m);
}

void supervisor_tell_exit(struct world *w, struct u128 instance, enum wire_exit_cause cause,
                          bool fault) {
    struct message *m = message_new(w, WIRE_EXITED);
    m->u.exited = (struct wire_exited){.instance = instance, .cause = cause, .fault = fault};
    supervisor_send(w, m);
}

void supervisor_receive(struct world *w, struct message *m) {
    int order = epoch_compare(m->epoch, w->supervisor_epoch);
    if (order < 0) {
        answer_stale(w, m, w->supervisor_epoch, (struct u128){.lo = 99999, .hi = 1});
        message_free(w, m);
        return;
    }
    if (order > 0)
        w->supervisor_welcome = false;
    w->supervisor_epoch = m->epoch;
    if (m->kind == WIRE_WELCOME)
        w->supervisor_welcome = true;
    if (m->kind == WIRE_FENCE) {
        bool found = false;
        for (uint32_t i = 0; i < w->worker_count && !found; i++) {
            found = w->workers[i].alive && u128_equal(w->workers[i].instance, m->u.fence.instance);
            if (found)
                worker_kill(w, i, WIRE_EXIT_FENCED, false);
        }
        if (!found)
            supervisor_tell_exit(w, m->u.fence.instance, WIRE_EXIT_UNKNOWN, false);
    }
    message_free(w, m);
}
