#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t world_random(struct world *w) {
    uint64_t z = (w->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct u128 world_instance(struct world *w) {
    return (struct u128){.lo = ++w->instance_count, .hi = world_random(w) | 1};
}

/* ---- Events ---- */

static bool earlier(const struct event *a, const struct event *b) {
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void at(struct world *w, int64_t when, enum event_kind kind, uint32_t who, uint32_t generation,
        struct message *m) {
    struct event event = {.at = when,
                          .order = ++w->order,
                          .kind = (uint8_t)kind,
                          .who = (uint8_t)who,
                          .generation = generation,
                          .message = m};
    vec_push(&w->events, event);
    struct event *heap = w->events.items;
    size_t i = w->events.count - 1;
    for (; i && earlier(&event, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = event;
}

static struct event pop(struct world *w) {
    struct event *heap = w->events.items, first = heap[0], last = heap[--w->events.count];
    size_t count = w->events.count, i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= count)
            break;
        if (child + 1 < count && earlier(&heap[child + 1], &heap[child]))
            child++;
        if (!earlier(&heap[child], &last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    if (count)
        heap[i] = last;
    return first;
}

/* ---- Trace and failure ---- */

void trace(struct world *w, const char *what, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    w->trace[w->trace_count++ % TRACE_LINES] = (struct trace_line){w->now, what, a, b, c, d};
}

void trace_print(const struct world *w) {
    uint64_t first = w->trace_count > TRACE_LINES ? w->trace_count - TRACE_LINES : 0;
    for (uint64_t i = first; i < w->trace_count; i++) {
        const struct trace_line *line = &w->trace[i % TRACE_LINES];
        fprintf(stderr, "  %8lld %-18s %llu %llu %llu %llu\n", (long long)line->at, line->what,
                (unsigned long long)line->a, (unsigned long long)line->b,
                (unsigned long long)line->c, (unsigned long long)line->d);
    }
}

void violated(struct world *w, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "violated: %s\n", text);
    abort(); /* main.c's handler prints the seed and the trace, as for a failed CHECK */
}

/* ---- Truth ---- */

uint32_t next_token(const struct truth *t, uint32_t choice, uint64_t prefix) {
    return (uint32_t)(mix(prefix, mix(t->id.lo, choice)) % t->words);
}

/* ---- A day ---- */

/* On some days the layers carry a state; few snapshots, so that they are taken over often. */
static void choose_states(struct world *w) {
    uint64_t draw = mix(w->seed, 0x73746174);
    for (uint32_t i = 0; draw % 3 == 0 && i < w->worker_count; i++) {
        w->workers[i].group.kind = WIRE_GROUP_RECURRENT;
        w->workers[i].snapshot_count = (uint32_t)(mix(draw, i) % (SNAPSHOTS + 1));
    }
}

/* On some days the workers are ranks of one replica, which have to agree on the kind of their
 * blocks and on little else. */
static void group_ranks(struct world *w) {
    static const uint32_t SHAPES[][2] = {{2, 1}, {1, 2}, {3, 1}, {1, 3}};
    uint64_t draw = mix(w->seed, 0x72616e6b);
    const uint32_t *shape = SHAPES[draw / 2 % ARRAY_LEN(SHAPES)];
    bool grouped = draw % 2 && shape[0] * shape[1] <= w->worker_count;
    for (uint32_t i = 0; i < w->worker_count; i++) {
        struct fake_worker *worker = &w->workers[i];
        bool inside = grouped && i < shape[0] * shape[1];
        worker->first = inside ? 0 : i;
        worker->place = i - worker->first;
        worker->tp = inside ? shape[0] : 1;
        worker->pp = inside ? shape[1] : 1;
        worker->replica = w->workers[worker->first].replica;
        worker->group.kind = w->workers[worker->first].group.kind;
    }
}

/* Nothing fails, one worker with room for all its slots, be they few or many, is always as fast, and more is
 * asked of it than it can do: what is taken begins in time. */
static void choose_calm(struct world *w) {
    struct fake_worker *worker = &w->workers[0];
    w->calm = true;
    w->worker_count = w->priority_levels = 1;
    w->killer_goal = 0;
    w->target_events *= 4;
    w->arrival_ms = MIN(w->arrival_ms, 40);
    w->config.waiting_max = 200; /* time alone says who is taken */
    w->config.step_tokens = w->config.chunk_tokens = 0;
    w->config.wait_max_ms = 400 + (int32_t)(mix(w->seed, 1) % 1000);
    if (mix(w->seed, 2) % 2) { /* steps that may be longer than they should */
        worker->max_step_tokens = 2 * MAX_CONTEXT;
        w->config.itl_target_ms = calm_step_ms(SLOTS + 32) + (int32_t)(mix(w->seed, 3) % 12);
        w->config.itl_auto = mix(w->seed, 4) % 2;
    }
    worker->first = worker->place = 0;
    worker->tp = worker->pp = 1;
    worker->snapshot_count = 0;
    worker->slot_count = 2 + (uint32_t)(mix(w->seed, 2) % (SLOTS - 1));
    worker->group.kind = WIRE_GROUP_FULL;
    worker->group.block_tokens = 16;
    worker->group.block_count = MAX_BLOCKS;
}

/* On some days tokens are guessed ahead, by a scheduler that may and workers that can. */
static void choose_drafts(struct world *w) {
    uint64_t draw = mix(w->seed, 0x64726166);
    if (draw % 3)
        return;
    w->config.drafts = 1 + (uint32_t)(draw / 3 % 7);
    for (uint32_t i = 0; i < w->worker_count; i++)
        if (w->workers[i].group.kind != WIRE_GROUP_RECURRENT)
            w->workers[i].draft_max = (uint32_t)(mix(draw, i) % 9);
}

static void choose_day(struct world *w) {
    static const uint32_t BLOCK_TOKENS[] = {2, 4, 8, 16};
    uint32_t block_tokens = BLOCK_TOKENS[below(w, ARRAY_LEN(BLOCK_TOKENS))];
    w->worker_count = 1 + below(w, WORKERS);
    w->class_sensitive = chance(w, 2);
    w->killer_goal = chance(w, 4) ? 1 + below(w, 2) : 0;
    w->arrival_ms = 5 + below(w, 120);
    w->priority_levels = 1 + below(w, 3);
    w->tenants = 1 + below(w, 3);
    w->keyless = mix(w->seed, 0x6b657973) % 3 == 0;
    w->target_events = 2000 + below(w, 600);
    sched_config_default(&w->config);
    struct sched_config *c = &w->config;
    hash_key_init(&c->cache_key, "sim", 3);
    c->waiting_max = 2 + below(w, 20);
    c->step_tokens = chance(w, 2) ? 0 : 4 + below(w, 20);
    c->chunk_tokens = chance(w, 2) ? 0 : 1 + below(w, 8);
    c->resume_credits = 1 + below(w, 4);
    c->silence_drop_ms = 3000 + (int32_t)below(w, 4000);
    c->retransmit_ms = 200 + (int32_t)below(w, 800);
    c->probe_ms = 1000 + (int32_t)below(w, 5000);
    c->start_grace_ms = 60000; /* a worker may be away for long in a day like this */
    c->model_grace_ms = 600000;
    c->record_ttl_ms = 20000;
    c->stuck_floor_ms = 2500;
    c->lost_plan_ms = 600;
    c->fence_wait_ms = 4000;
    c->isolate_tenants = chance(w, 2);
    uint64_t wait = mix(w->seed, 0x77616974);
    if (wait % 2)
        c->wait_max_ms = 0;
    else if (wait / 2 % 2)
        c->wait_max_ms = 20 + (int32_t)(wait / 4 % 2000);
    for (uint32_t i = 0; i < w->worker_count; i++) {
        struct fake_worker *worker = &w->workers[i];
        worker->replica = (struct u128){.lo = 77 + i, .hi = 1};
        worker->slot_count = 2 + below(w, SLOTS - 1);
        worker->steps_in_flight = 1 + below(w, 3);
        worker->max_step_tokens = 4 + below(w, 28);
        uint32_t blocks = (MAX_CONTEXT + block_tokens - 1) / block_tokens + below(w, 8);
        worker->group =
            (struct wire_kv_group){.kind = chance(w, 4) ? WIRE_GROUP_LATENT : WIRE_GROUP_FULL,
                                   .block_tokens = block_tokens,
                                   .block_count = MIN(blocks, MAX_BLOCKS),
                                   .block_bytes = 1024};
    }
    choose_states(w);
    group_ranks(w);
    choose_drafts(w);
    if (mix(w->seed, 0x63616c6d) % 8 == 0)
        choose_calm(w);
}

static void schedule_faults(struct world *w) {
    uint32_t total = w->calm ? 0 : FAULT_KINDS + below(w, 12);
    for (uint32_t i = 0; i < total; i++) {
        enum fault fault = i < FAULT_KINDS ? (enum fault)i : (enum fault)below(w, FAULT_KINDS);
        at(w, 400 + below(w, w->target_events * 2), EVENT_FAULT, fault, 0, NULL);
    }
}

static void reset(struct world *w, uint64_t seed) {
    struct world fresh = {.seed = seed, .random = seed * 0x9e3779b97f4a7c15u + 1};
    fresh.events.items = w->events.items;
    fresh.events.cap = w->events.cap;
    fresh.free_messages = w->free_messages;
    fresh.truths.items = w->truths.items;
    fresh.truths.cap = w->truths.cap;
    fresh.left.items = w->left.items;
    fresh.left.cap = w->left.cap;
    fresh.seal_contents.items = w->seal_contents.items;
    fresh.seal_contents.cap = w->seal_contents.cap;
    *w = fresh;
}

static bool peer_is_stopped(const struct world *w, uint32_t peer) {
    if (peer < GATEWAYS)
        return w->gateways[peer].paused_until > w->now;
    if (peer < SUPERVISOR)
        return w->workers[peer - GATEWAYS].paused_until > w->now;
    return false;
}

static void deliver(struct world *w, const struct event *event) {
    struct message *m = event->message;
    bool to_scheduler = event->who == PEERS;
    const struct link_state *link = &w->links[m->peer][to_scheduler ? 0 : 1];
    if (m->link_generation != link->generation) {
        message_free(w, m);
        return;
    }
    if (to_scheduler) {
        process_receive(w, m->process < PROCS ? m->process : w->current, m);
        return;
    }
    if (peer_is_stopped(w, m->peer)) { /* waits in its socket */
        int64_t until = m->peer < GATEWAYS ? w->gateways[m->peer].paused_until
                                           : w->workers[m->peer - GATEWAYS].paused_until;
        at(w, until, EVENT_MESSAGE, event->who, 0, m);
        return;
    }
    if (m->peer < GATEWAYS)
        gateway_receive(w, m->peer, m);
    else if (m->peer < SUPERVISOR)
        worker_receive(w, m->peer - GATEWAYS, m);
    else
        supervisor_receive(w, m);
}

static void beat(struct world *w, uint32_t who) {
    if (who < GATEWAYS)
        gateway_beat(w, who);
    else if (who < SUPERVISOR)
        worker_beat(w, who - GATEWAYS);
    else if (who == SUPERVISOR)
        supervisor_beat(w);
    else
        process_beat(w, who - PEERS);
    at(w, w->now + HEARTBEAT_MS, EVENT_BEAT, who, 0, NULL);
}

static void handle(struct world *w, const struct event *event) {
    switch ((enum event_kind)event->kind) {
    case EVENT_MESSAGE: deliver(w, event); break;
    case EVENT_STEP: worker_step(w, event->who, event->generation); break;
    case EVENT_BEAT: beat(w, event->who); break;
    case EVENT_TURN: process_turn(w, event->who); break;
    case EVENT_ARRIVAL: gateway_arrival(w); break;
    case EVENT_FAULT:
        if (!w->quiet)
            fault_inject(w, event->who);
        break;
    case EVENT_WAKE:
        if (event->who >= PEERS)
            process_wake(w, event->who - PEERS);
        else if (event->who >= GATEWAYS)
            worker_wake(w, event->who - GATEWAYS);
        break;
    case EVENT_RESTART:
        if (event->who == PEERS)
            process_start(w);
        else if (event->who >= GATEWAYS)
            worker_start(w, event->who - GATEWAYS);
        else
            gateway_start(w, event->who);
        break;
    case EVENT_GATEWAY: gateway_flush(w, event->who); break;
    case EVENT_ATTACH: gateway_attach(w, event->who, event->generation); break;
    }
}

static bool all_faults_seen(const struct world *w) {
    for (int i = 0; i < FAULT_KINDS; i++)
        if (!w->fault_counts[i])
            return false;
    return !w->drop_next && !w->duplicate_next && !w->delay_next;
}

/* From here on nothing fails: whatever is open has to end, rightly. */
static void make_quiet(struct world *w) {
    w->quiet = true;
    w->drop_next = w->duplicate_next = w->delay_next = 0;
    for (int i = 0; i < PEERS; i++)
        for (int k = 0; k < 2; k++)
            w->links[i][k].cut_until = MIN(w->links[i][k].cut_until, w->now + 1);
    trace(w, "quiet", 0, 0, 0, 0);
}

/* One that was replaced while it slept learns of it from the first peer that answers; it may live
 * on when nobody does. */
static bool is_forgotten(const struct process *p) {
    for (int i = 0; i < SUPERVISOR; i++)
        if (p->peers[i].known && !p->peers[i].silent)
            return false;
    return true;
}

static void check_end(struct world *w) {
    for (uint32_t i = 0; i < PROCS; i++) {
        struct process *p = &w->procs[i];
        if (!p->alive)
            continue;
        sched_check(p->core);
        struct sched_counts counts = sched_counts(p->core);
        MUST(w, i == w->current || is_forgotten(p), "a replaced scheduler lives on");
        MUST(w, counts.blocks_used == 0, "%llu blocks still have references",
             (unsigned long long)counts.blocks_used);
        MUST(w,
             i != w->current ||
                 (counts.running == 0 && counts.waiting == 0 && counts.resumed_waiting == 0),
             "sequences are left: %u running, %u and %u waiting", counts.running, counts.waiting,
             counts.resumed_waiting);
    }
    MUST(w, w->procs[w->current].alive, "no scheduler lives");
}

static void free_everything(struct world *w) {
    for (size_t i = 0; i < w->events.count; i++)
        if (w->events.items[i].message)
            message_free(w, w->events.items[i].message);
    w->events.count = 0;
    for (uint32_t i = 0; i < PROCS; i++)
        process_kill(w, i);
    for (uint32_t i = 0; i < WORKERS; i++)
        while (w->workers[i].plans) {
            struct message *m = w->workers[i].plans;
            w->workers[i].plans = m->next;
            message_free(w, m);
        }
}

int run_seed(struct world *w, uint64_t seed) {
    reset(w, seed);
    choose_day(w);
    schedule_faults(w);
    process_start(w);
    for (uint32_t i = 0; i < GATEWAYS; i++)
        gateway_start(w, i);
    for (uint32_t i = 0; i < w->worker_count; i++)
        worker_start(w, i);
    for (uint32_t i = 0; i < PEERS + PROCS; i++)
        at(w, 1 + below(w, HEARTBEAT_MS), EVENT_BEAT, i, 0, NULL);
    at(w, 10, EVENT_ARRIVAL, 0, 0, NULL);
    int64_t quiet_since = 0;
    for (;;) {
        struct event event = pop(w);
        w->now = event.at;
        w->event_count++;
        handle(w, &event);
        bool whole = w->calm || all_faults_seen(w);
        if (!w->quiet && w->event_count >= w->target_events && whole) {
            make_quiet(w);
            quiet_since = w->now;
        }
        if (!w->quiet) {
            MUST(w, w->event_count < 200000, "the day does not end");
            continue;
        }
        MUST(w, w->now - quiet_since < 400000, "%u requests never ended", gateways_open(w));
        /* also lets records end */
        if (gateways_open(w) == 0 && w->now - quiet_since > 30000)
            break;
    }
    check_end(w);
    free_everything(w);
    return 0;
}

void world_release(struct world *w) {
    while (w->free_messages) {
        struct message *m = w->free_messages;
        w->free_messages = m->next;
        mem_free(m->blob);
        mem_free(m);
    }
    vec_release(&w->events);
    vec_release(&w->truths);
    vec_release(&w->left);
    vec_release(&w->seal_contents);
}
