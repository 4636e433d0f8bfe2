#include "replay/cluster.h"

#include "base/clock.h"
#include "replay/arrivals.h"
#include "replay/fleet.h"

#include <time.h>

enum { GAPS = 1 << 17 /* milliseconds */ };

struct cluster {
    const struct replay_config *config;
    const struct bench_trace *trace;
    struct replay_result *out;
    struct sched *core;
    struct replay_arrivals arrivals;
    size_t next_arrival, open_count;
    struct replay_prompt prompt; /* of the request that comes now */
    struct fleet fleet;
    int64_t now_ms, beat_ms, ack_ms;
    struct gateway_acks {
        VEC(struct u128) requests;
        VEC(uint32_t) attempts, choices, counts;
        VEC(uint32_t) dirty; /* outcomes */
    } * acks;                /* owned [gateways] */
    /* figures */
    int64_t core_ns, wall_ns, cpu_ns;
    struct replay_span span; /* events so far */
};

/* ---- Time spent ---- */

static void core_enter(struct cluster *c) {
    c->core_ns -= clock_ns();
}
static void core_leave(struct cluster *c) {
    c->core_ns += clock_ns();
}

static int64_t thread_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What was done so far; `busy` is in seconds of all replicas. */
static struct replay_span span_now(const struct cluster *c) {
    struct replay_span span = c->span;
    struct sched_counts counts = sched_counts(c->core);
    double wall_ns = (double)(clock_ns() - c->wall_ns);
    span.seconds = (double)c->now_ms / 1000;
    span.busy = (double)fleet_busy_us(&c->fleet, c->now_ms * 1000) / 1e6;
    span.cpu_seconds = (double)(thread_cpu_ns() - c->cpu_ns) / 1e9;
    span.core_share = (double)c->core_ns / MAX(wall_ns, 1);
    span.computed_tokens = counts.computed_tokens;
    span.output_tokens = counts.output_tokens;
    return span;
}

/* From one moment to another; `busy` becomes a share. */
static struct replay_span span_between(const struct replay_span *from, const struct replay_span *to,
                                       uint32_t replicas) {
    struct replay_span span = *to;
    double core = to->core_share * to->cpu_seconds - from->core_share * from->cpu_seconds;
    span.seconds -= from->seconds;
    span.busy = span.seconds > 0 ? (to->busy - from->busy) / span.seconds / replicas : 0;
    span.cpu_seconds -= from->cpu_seconds;
    span.core_share = span.cpu_seconds > 0 ? core / span.cpu_seconds : 0;
    span.turns -= from->turns;
    span.submits -= from->submits;
    span.steps -= from->steps;
    span.acks -= from->acks;
    span.beats -= from->beats;
    span.computed_tokens -= from->computed_tokens;
    span.output_tokens -= from->output_tokens;
    return span;
}

/* ---- Submits ---- */

static struct u128 gateway_id(uint32_t idx) {
    return (struct u128){.lo = idx + 1, .hi = 2};
}

static struct u128 request_id(const struct cluster *c, size_t outcome) {
    return (struct u128){.lo = outcome + 1, .hi = replay_mix(outcome, c->config->seed)};
}

static void submit(struct cluster *c, const struct replay_arrival *arrival) {
    size_t idx = c->out->outcomes.count;
    uint32_t output = c->trace->requests.items[arrival->request].output;
    struct replay_outcome outcome = {.sent_us = arrival->at_us,
                                     .first_us = -1,
                                     .last_us = -1,
                                     .request = arrival->request,
                                     .copy = arrival->copy,
                                     .tenant = replay_tenant(c->config, c->trace, arrival)};
    replay_prompt_make(c->config, c->trace, arrival, &c->prompt);
    vec_push(&c->out->outcomes, outcome);
    c->open_count++;
    c->span.submits++;
    struct wire_submit message = {.request = request_id(c, idx),
                                  .kind = WIRE_GENERATE,
                                  .prompt = {c->prompt.items, c->prompt.count},
                                  .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1},
                                  .max_tokens = MAX(output, 1u),
                                  .tenant = {.lo = outcome.tenant + 1, .hi = 3}};
    core_enter(c);
    sched_submit(c->core, c->now_ms, gateway_id((uint32_t)(idx % c->config->gateways)), &message);
    core_leave(c);
}

/* ---- Workers ---- */

static void register_worker(struct cluster *c, uint32_t idx) {
    struct wire_kv_group group;
    struct wire_hello hello;
    struct error err;
    fleet_hello(&c->fleet, idx, &group, &hello);
    int rc = sched_worker_hello(c->core, 0, &hello, &err);
    CHECK_MSG(rc == 0, "a worker is refused: %s", err.text);
}

static void on_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {
    struct cluster *c = ctx;
    core_leave(c);
    fleet_take_plan(&c->fleet, c->now_ms * 1000, ranks.items[0], plan);
    core_enter(c);
}

/* The first step to end does so, and its result goes to the core. */
static void end_step(struct cluster *c) {
    struct wire_step_result result;
    struct u128 instance = fleet_end_step(&c->fleet, &result);
    c->span.steps++;
    core_enter(c);
    int rc = sched_step_result(c->core, c->now_ms, instance, &result);
    core_leave(c);
    c->out->faults += rc != 0;
}

static void beat_all(struct cluster *c) {
    for (uint32_t i = 0; i < c->config->replicas; i++) {
        struct wire_heartbeat beat;
        struct u128 instance = fleet_beat(&c->fleet, i, c->now_ms, &beat);
        core_enter(c);
        bool known = sched_worker_heartbeat(c->core, c->now_ms, instance, &beat);
        core_leave(c);
        c->out->faults += !known;
    }
    c->span.beats += c->config->replicas;
}

/* ---- Gateways ---- */

static void note_pieces(struct cluster *c, struct replay_outcome *o, uint32_t count) {
    int64_t now_us = c->now_ms * 1000;
    if (o->first_us < 0)
        o->first_us = now_us;
    else
        c->out->gaps.items[MIN((now_us - o->last_us) / 1000, GAPS - 1)]++;
    o->last_us = now_us;
    o->output += count;
}

static void on_deltas(void *ctx, struct u128 gateway, const struct wire_deltas *deltas) {
    struct cluster *c = ctx;
    core_leave(c);
    struct gateway_acks *acks = &c->acks[gateway.lo - 1];
    for (size_t i = 0; i < deltas->requests.count; i++) {
        size_t idx = (size_t)deltas->requests.items[i].lo - 1;
        uint32_t count = deltas->token_counts.items[i], finish = deltas->finishes.items[i];
        struct replay_outcome *o =
            idx < c->out->outcomes.count ? &c->out->outcomes.items[idx] : NULL;
        if (!o || (count && (o->state != REPLAY_OPEN || deltas->indexes.items[i] != o->output))) {
            c->out->faults++;
            continue;
        }
        if (count)
            note_pieces(c, o, count);
        o->cached = deltas->cached_counts.items[i];
        if (finish) {
            c->out->faults += finish != WIRE_FINISH_LENGTH || o->state != REPLAY_OPEN;
            o->state = REPLAY_ANSWERED;
            o->last_us = c->now_ms * 1000;
            c->open_count--;
        }
        if ((count || finish) && !o->dirty) {
            o->dirty = true;
            vec_push(&acks->dirty, (uint32_t)idx);
        }
    }
    core_enter(c);
}

static void on_reject(void *ctx, struct u128 gateway, const struct wire_reject *reject) {
    struct cluster *c = ctx;
    size_t idx = (size_t)reject->request.lo - 1;
    if (idx >= c->out->outcomes.count || c->out->outcomes.items[idx].state != REPLAY_OPEN) {
        c->out->faults++;
        return;
    }
    struct replay_outcome *o = &c->out->outcomes.items[idx];
    o->state = REPLAY_REFUSED;
    o->code = (uint8_t)reject->code;
    o->last_us = c->now_ms * 1000;
    c->open_count--;
}

static void on_fence(void *ctx, struct u128 instance, uint32_t pid) {
    ((struct cluster *)ctx)->out->faults++;
}
static void on_reregister(void *ctx, struct u128 instance) {
    ((struct cluster *)ctx)->out->faults++;
}

/* What each gateway has got since it last said so. */
static void acknowledge_all(struct cluster *c) {
    for (uint32_t g = 0; g < c->config->gateways; g++) {
        struct gateway_acks *acks = &c->acks[g];
        acks->requests.count = acks->attempts.count = acks->choices.count = acks->counts.count = 0;
        for (size_t i = 0; i < acks->dirty.count; i++) {
            uint32_t idx = acks->dirty.items[i];
            struct replay_outcome *o = &c->out->outcomes.items[idx];
            vec_push(&acks->requests, request_id(c, idx));
            vec_push(&acks->attempts, 0);
            vec_push(&acks->choices, 0);
            vec_push(&acks->counts, o->output + (o->state == REPLAY_ANSWERED));
            o->dirty = false;
        }
        acks->dirty.count = 0;
        if (!acks->requests.count)
            continue;
        struct wire_ack message = {{acks->requests.items, acks->requests.count},
                                   {acks->attempts.items, acks->attempts.count},
                                   {acks->choices.items, acks->choices.count},
                                   {acks->counts.items, acks->counts.count}};
        c->span.acks += acks->requests.count;
        core_enter(c);
        sched_ack(c->core, c->now_ms, gateway_id(g), &message);
        core_leave(c);
    }
}

static bool owes_acks(const struct cluster *c) {
    for (uint32_t g = 0; g < c->config->gateways; g++)
        if (c->acks[g].dirty.count)
            return true;
    return false;
}

/* ---- Turns ---- */

/* The millisecond of the next turn; INT64_MAX: nothing will ever happen. */
static int64_t next_turn(const struct cluster *c, int64_t wake_ms) {
    int64_t next_us = fleet_next_us(&c->fleet);
    if (c->next_arrival < c->arrivals.count)
        next_us = MIN(next_us, c->arrivals.items[c->next_arrival].at_us);
    int64_t next_ms = next_us == INT64_MAX ? INT64_MAX : (next_us + 999) / 1000;
    if (owes_acks(c))
        next_ms = MIN(next_ms, c->ack_ms);
    if (next_ms == INT64_MAX && c->open_count == 0)
        return INT64_MAX;
    return MAX(MIN(MIN(next_ms, wake_ms), c->beat_ms), c->now_ms + 1);
}

static int64_t take_turn(struct cluster *c) {
    int64_t now_us = c->now_ms * 1000;
    for (;
         c->next_arrival < c->arrivals.count && c->arrivals.items[c->next_arrival].at_us <= now_us;
         c->next_arrival++)
        submit(c, &c->arrivals.items[c->next_arrival]);
    while (fleet_next_us(&c->fleet) <= now_us)
        end_step(c);
    if (c->now_ms >= c->ack_ms) {
        acknowledge_all(c);
        c->ack_ms = c->now_ms + REPLAY_ACK_MS;
    }
    if (c->now_ms >= c->beat_ms) {
        beat_all(c);
        c->beat_ms = c->now_ms + REPLAY_BEAT_MS;
    }
    core_enter(c);
    int64_t wake_ms = sched_run(c->core, c->now_ms);
    core_leave(c);
    c->span.turns++;
    if (c->config->check)
        sched_check(c->core);
    return wake_ms;
}

/* Longer than anything waits for in the core: who is still open then is lost. */
enum { STILL_MS = 600000 };

static void run(struct cluster *c) {
    struct replay_span begun = span_now(c), ended = begun;
    int64_t wake_ms = 0, moved_ms = 0;
    bool warm = false;
    for (int64_t at; (at = next_turn(c, wake_ms)) != INT64_MAX;) {
        if (c->fleet.computing_count || c->next_arrival < c->arrivals.count)
            moved_ms = at;
        if (at - moved_ms > STILL_MS)
            break;
        if (!warm && (double)at >= c->config->warm * 1000) {
            warm = true;
            begun = span_now(c);
        }
        c->now_ms = at;
        bool sending = c->next_arrival < c->arrivals.count;
        wake_ms = take_turn(c);
        if (sending && c->next_arrival == c->arrivals.count)
            ended = span_now(c);
    }
    struct replay_span zero = {0}, last = span_now(c);
    c->out->all = span_between(&zero, &last, c->config->replicas);
    c->out->window = span_between(&begun, &ended, c->config->replicas);
}

static uint64_t digest_of(const struct replay_result *out) {
    uint64_t digest = 0;
    for (size_t i = 0; i < out->outcomes.count; i++) {
        const struct replay_outcome *o = &out->outcomes.items[i];
        digest = replay_mix(digest, (uint64_t)o->sent_us);
        digest = replay_mix(digest, (uint64_t)o->first_us);
        digest = replay_mix(digest, (uint64_t)o->last_us);
        digest = replay_mix(digest, (uint64_t)o->output << 32 | o->cached);
        digest = replay_mix(digest, (uint64_t)o->tenant << 16 | (uint64_t)o->state << 8 | o->code);
    }
    return digest;
}

static void cluster_release(struct cluster *c) {
    for (uint32_t g = 0; g < c->config->gateways; g++) {
        vec_release(&c->acks[g].requests);
        vec_release(&c->acks[g].attempts);
        vec_release(&c->acks[g].choices);
        vec_release(&c->acks[g].counts);
        vec_release(&c->acks[g].dirty);
    }
    vec_release(&c->arrivals);
    vec_release(&c->prompt);
    fleet_release(&c->fleet);
    mem_free(c->acks);
    sched_free(&c->core);
}

void replay_run(const struct replay_config *config, const struct bench_trace *trace,
                struct replay_result *out) {
    CHECK(config->replicas && config->gateways && config->tenants && config->slots);
    CHECK(config->steps_in_flight && config->steps_in_flight <= REPLAY_STEPS_MAX);
    *out = (struct replay_result){0};
    struct cluster c = {.config = config, .trace = trace, .out = out};
    struct sched_sink sink = {.ctx = &c,
                              .plan = on_plan,
                              .deltas = on_deltas,
                              .reject = on_reject,
                              .fence = on_fence,
                              .reregister = on_reregister};
    vec_reserve(&out->gaps, GAPS);
    memset(out->gaps.items, 0, GAPS * sizeof *out->gaps.items);
    out->gaps.count = GAPS;
    c.core = sched_new(&config->sched, &sink);
    fleet_init(&c.fleet, config);
    c.acks = mem_calloc(config->gateways, sizeof *c.acks);
    for (uint32_t i = 0; i < config->replicas; i++)
        register_worker(&c, i);
    replay_arrivals_make(config, trace, &c.arrivals);
    c.core_ns = 0;
    c.wall_ns = clock_ns();
    c.cpu_ns = thread_cpu_ns();
    run(&c);
    out->counts = sched_counts(c.core);
    out->idle = sched_is_idle(c.core);
    out->digest = digest_of(out);
    cluster_release(&c);
}

void replay_result_release(struct replay_result *result) {
    vec_release(&result->outcomes);
    vec_release(&result->gaps);
}
