#include "replay/cluster.h"

#include "base/clock.h"
#include "proto/messages.h"

#include <stdlib.h>
#include <time.h>

enum { GAPS = 1 << 17, /* milliseconds */ REPLAY_STEPS_MAX = 8 };

struct arrival {
    int64_t at_us;
    uint32_t request, copy;
};

/* A plan that a worker has and has not answered. */
struct worker_step {
    uint64_t number;
    uint32_t incarnation;
    uint32_t row_count;
    uint32_t token_count; /* computed */
    uint32_t sampled;     /* tokens that come out */
    int64_t duration_us;
    uint32_t *slots;   /* owned [slots], as are */
    uint32_t *samples; /* tokens of each row */
};
struct worker {
    struct u128 instance;
    struct worker_step steps[REPLAY_STEPS_MAX]; /* ring */
    uint32_t first, count;
    int64_t begun_us, ends_us; /* of the first one */
    uint32_t *context;         /* owned [slots]: positions computed or planned */
    uint32_t *remaining;       /* owned [slots]: of the prompt */
    uint64_t progress;
};

struct cluster {
    const struct replay_config *config;
    const struct bench_trace *trace;
    struct replay_result *out;
    struct sched *core;
    VEC(struct arrival) arrivals;
    size_t next_arrival, open_count;
    struct worker *workers; /* owned [replicas] */
    uint32_t *heap;         /* owned [replicas]: those that compute, the first to end in front */
    uint32_t heap_count;
    int64_t now_ms, beat_ms, ack_ms;
    VEC(uint32_t) tokens; /* of one prompt */
    uint32_t *zeros;      /* owned [slots] */
    struct gateway_acks {
        VEC(struct u128) requests;
        VEC(uint32_t) attempts, choices, counts;
        VEC(uint32_t) dirty; /* outcomes */
    } * acks;                /* owned [gateways] */
    /* figures */
    int64_t core_ns, wall_ns, cpu_ns, busy_us;
    struct replay_span span; /* events so far */
};

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6))) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
    return x ^ (x >> 32);
}

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
    int64_t busy_us = c->busy_us;
    for (uint32_t i = 0; i < c->heap_count; i++)
        busy_us += c->now_ms * 1000 - c->workers[c->heap[i]].begun_us;
    span.seconds = (double)c->now_ms / 1000;
    span.busy = (double)busy_us / 1e6;
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

/* ---- Arrivals ---- */

static int compare_arrivals(const void *a, const void *b) {
    const struct arrival *x = a, *y = b;
    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? -1 : 1;
    if (x->copy != y->copy)
        return x->copy < y->copy ? -1 : 1;
    return x->request < y->request ? -1 : x->request > y->request;
}

static void make_arrivals(struct cluster *c) {
    const struct replay_config *config = c->config;
    size_t count = c->trace->requests.count;
    const struct bench_trace_request *requests = c->trace->requests.items;
    double last = count ? requests[count - 1].at : 0;
    double length = count ? last + last / (double)count : 0; /* and it begins again */
    for (uint32_t copy = 0; copy < config->copies; copy++) {
        double drawn = (double)(mix(config->seed, copy) >> 11) / (double)(UINT64_C(1) << 53);
        double begin = copy ? drawn * length : 0;
        for (size_t i = 0; i < count; i++) {
            double at = requests[i].at - begin;
            at += at < 0 ? length : 0;
            struct arrival arrival = {
                .at_us = (int64_t)(at * 1e6 / config->speed), .request = (uint32_t)i, .copy = copy};
            if (config->until <= 0 || at <= config->until)
                vec_push(&c->arrivals, arrival);
        }
    }
    if (c->arrivals.count)
        qsort(c->arrivals.items, c->arrivals.count, sizeof *c->arrivals.items, compare_arrivals);
}

static const uint64_t *hashes_of(const struct cluster *c, const struct bench_trace_request *r) {
    return r->hash_count ? c->trace->hashes.items + r->hash_first : NULL;
}

static void make_prompt(struct cluster *c, const struct arrival *arrival) {
    const struct bench_trace_request *r = &c->trace->requests.items[arrival->request];
    const uint64_t *hashes = hashes_of(c, r);
    uint64_t copy = mix(c->config->seed, arrival->copy);
    vec_reserve(&c->tokens, r->input);
    c->tokens.count = r->input;
    uint32_t *out = c->tokens.items;
    for (uint32_t at = 0, block = 0; at < r->input; block++) {
        uint64_t name =
            block < r->hash_count ? hashes[block] : mix(~(uint64_t)arrival->request, block);
        uint64_t state = mix(copy, name);
        uint32_t end = MIN(at + BENCH_TRACE_BLOCK, r->input);
        for (; at < end; at++, state += 0x9e3779b97f4a7c15u) {
            uint32_t drawn = (uint32_t)(state >> 32 ^ state);
            out[at] = (uint32_t)((uint64_t)drawn * REPLAY_VOCABULARY >> 32);
        }
    }
}

static uint32_t tenant_of(const struct cluster *c, const struct arrival *arrival) {
    const struct bench_trace_request *r = &c->trace->requests.items[arrival->request];
    const uint64_t *hashes = hashes_of(c, r);
    uint64_t key = hashes ? hashes[r->hash_count > 1] : arrival->request;
    return (uint32_t)(mix(mix(c->config->seed, arrival->copy), key) % c->config->tenants);
}

static struct u128 gateway_id(uint32_t idx) {
    return (struct u128){.lo = idx + 1, .hi = 2};
}

static struct u128 request_id(const struct cluster *c, size_t outcome) {
    return (struct u128){.lo = outcome + 1, .hi = mix(outcome, c->config->seed)};
}

static void submit(struct cluster *c, const struct arrival *arrival) {
    size_t idx = c->out->outcomes.count;
    uint32_t output = c->trace->requests.items[arrival->request].output;
    struct replay_outcome outcome = {.sent_us = arrival->at_us,
                                     .first_us = -1,
                                     .last_us = -1,
                                     .request = arrival->request,
                                     .copy = arrival->copy,
                                     .tenant = tenant_of(c, arrival)};
    make_prompt(c, arrival);
    vec_push(&c->out->outcomes, outcome);
    c->open_count++;
    c->span.submits++;
    struct wire_submit message = {.request = request_id(c, idx),
                                  .kind = WIRE_GENERATE,
                                  .prompt = {c->tokens.items, c->tokens.count},
                                  .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1},
                                  .max_tokens = MAX(output, 1u),
                                  .tenant = {.lo = outcome.tenant + 1, .hi = 3}};
    core_enter(c);
    sched_submit(c->core, c->now_ms, gateway_id((uint32_t)(idx % c->config->gateways)), &message);
    core_leave(c);
}

/* ---- Workers ---- */

static bool ends_before(const struct cluster *c, uint32_t a, uint32_t b) {
    const struct worker *x = &c->workers[a], *y = &c->workers[b];
    return x->ends_us != y->ends_us ? x->ends_us < y->ends_us : a < b;
}

static void heap_push(struct cluster *c, uint32_t worker) {
    uint32_t at = c->heap_count++;
    for (; at && ends_before(c, worker, c->heap[(at - 1) / 2]); at = (at - 1) / 2)
        c->heap[at] = c->heap[(at - 1) / 2];
    c->heap[at] = worker;
}

static void heap_pop(struct cluster *c) {
    uint32_t last = c->heap[--c->heap_count], at = 0;
    for (uint32_t child; (child = 2 * at + 1) < c->heap_count; at = child) {
        child += child + 1 < c->heap_count && ends_before(c, c->heap[child + 1], c->heap[child]);
        if (!ends_before(c, c->heap[child], last))
            break;
        c->heap[at] = c->heap[child];
    }
    c->heap[at] = last;
}

static void begin_step(struct cluster *c, struct worker *w, int64_t at_us) {
    w->begun_us = at_us;
    w->ends_us = at_us + w->steps[w->first].duration_us;
    heap_push(c, (uint32_t)(w - c->workers));
}

/* The first worker's step ends: its result goes to the core, the next step begins. */
static void end_step(struct cluster *c) {
    struct worker *w = &c->workers[c->heap[0]];
    const struct worker_step *step = &w->steps[w->first];
    struct wire_step_result result = {.plan_number = step->number,
                                      .incarnation = step->incarnation,
                                      .slots = {step->slots, step->row_count},
                                      .token_counts = {step->samples, step->row_count},
                                      .finishes = {c->zeros, step->row_count},
                                      .tokens = {c->zeros, step->sampled},
                                      .compute_us = (uint64_t)step->duration_us};
    heap_pop(c);
    c->busy_us += step->duration_us;
    c->span.steps++;
    w->progress++;
    core_enter(c);
    int rc = sched_step_result(c->core, c->now_ms, w->instance, &result);
    core_leave(c);
    c->out->faults += rc != 0;
    w->first = (w->first + 1) % REPLAY_STEPS_MAX;
    if (--w->count)
        begin_step(c, w, w->ends_us);
}

static struct worker *worker_of(struct cluster *c, struct u128 instance) {
    CHECK(instance.lo > 0 && instance.lo <= c->config->replicas);
    return &c->workers[instance.lo - 1];
}

static void on_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {
    struct cluster *c = ctx;
    core_leave(c);
    struct worker *w = worker_of(c, ranks.items[0]);
    CHECK(w->count < c->config->steps_in_flight);
    struct worker_step *step = &w->steps[(w->first + w->count) % REPLAY_STEPS_MAX];
    struct replay_work work = {0};
    for (size_t i = 0; i < plan->admit_count; i++) {
        const struct wire_admit *admit = &plan->admits[i];
        w->context[admit->slot] = admit->computed_count;
        w->remaining[admit->slot] = (uint32_t)admit->tokens.count - admit->computed_count;
    }
    step->number = plan->number;
    step->incarnation = plan->incarnation;
    step->row_count = (uint32_t)plan->row_slots.count;
    step->sampled = 0;
    for (uint32_t i = 0; i < step->row_count; i++) {
        uint32_t slot = plan->row_slots.items[i], count = plan->row_token_counts.items[i];
        bool samples = w->remaining[slot] <= count;
        replay_work_add(&work, w->context[slot], count);
        w->context[slot] += count;
        w->remaining[slot] = samples ? 0 : w->remaining[slot] - count;
        step->slots[i] = slot;
        step->samples[i] = samples;
        step->sampled += samples;
    }
    step->token_count = (uint32_t)work.positions;
    step->duration_us = replay_step_us(&c->config->cost, &work);
    if (w->count++ == 0)
        begin_step(c, w, c->now_ms * 1000);
    core_enter(c);
}

static void beat_all(struct cluster *c) {
    for (uint32_t i = 0; i < c->config->replicas; i++) {
        const struct worker *w = &c->workers[i];
        const struct worker_step *step = w->count ? &w->steps[w->first] : NULL;
        struct wire_heartbeat beat = {.state = step ? WIRE_STATE_STEPPING : WIRE_STATE_IDLE,
                                      .progress = w->progress};
        if (step) {
            beat.plan_number = step->number;
            beat.step_tokens = step->token_count;
            beat.step_age_ms = (uint32_t)(c->now_ms - w->begun_us / 1000);
        }
        core_enter(c);
        bool known = sched_worker_heartbeat(c->core, c->now_ms, w->instance, &beat);
        core_leave(c);
        c->out->faults += !known;
    }
    c->span.beats += c->config->replicas;
}

static void register_worker(struct cluster *c, uint32_t idx) {
    const struct replay_config *config = c->config;
    struct worker *w = &c->workers[idx];
    struct error err;
    *w = (struct worker){.instance = {.lo = idx + 1, .hi = 1}};
    w->context = mem_calloc(config->slots, sizeof *w->context);
    w->remaining = mem_calloc(config->slots, sizeof *w->remaining);
    for (uint32_t i = 0; i < REPLAY_STEPS_MAX; i++) {
        w->steps[i].slots = mem_calloc(config->slots, sizeof(uint32_t));
        w->steps[i].samples = mem_calloc(config->slots, sizeof(uint32_t));
    }
    struct wire_kv_group group = {.kind = WIRE_GROUP_FULL,
                                  .block_tokens = config->block_tokens,
                                  .block_count = config->block_count};
    struct wire_hello hello = {.role = WIRE_ROLE_WORKER,
                               .instance = w->instance,
                               .tp = 1,
                               .pp = 1,
                               .incarnation = 1,
                               .state = WIRE_STATE_IDLE,
                               .model = bytes_str("replayed"),
                               .slot_count = config->slots,
                               .max_step_tokens = config->max_step_tokens,
                               .max_context = config->max_context,
                               .logits_width = REPLAY_VOCABULARY,
                               .steps_in_flight = config->steps_in_flight,
                               .groups = &group,
                               .group_count = 1};
    int rc = sched_worker_hello(c->core, 0, &hello, &err);
    CHECK_MSG(rc == 0, "a worker is refused: %s", err.text);
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
    int64_t next_us = INT64_MAX;
    if (c->next_arrival < c->arrivals.count)
        next_us = c->arrivals.items[c->next_arrival].at_us;
    if (c->heap_count)
        next_us = MIN(next_us, c->workers[c->heap[0]].ends_us);
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
    while (c->heap_count && c->workers[c->heap[0]].ends_us <= now_us)
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
        if (c->heap_count || c->next_arrival < c->arrivals.count)
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
        digest = mix(digest, (uint64_t)o->sent_us);
        digest = mix(digest, (uint64_t)o->first_us);
        digest = mix(digest, (uint64_t)o->last_us);
        digest = mix(digest, (uint64_t)o->output << 32 | o->cached);
        digest = mix(digest, (uint64_t)o->tenant << 16 | (uint64_t)o->state << 8 | o->code);
    }
    return digest;
}

static void cluster_release(struct cluster *c) {
    for (uint32_t i = 0; i < c->config->replicas; i++) {
        struct worker *w = &c->workers[i];
        for (uint32_t k = 0; k < REPLAY_STEPS_MAX; k++) {
            mem_free(w->steps[k].slots);
            mem_free(w->steps[k].samples);
        }
        mem_free(w->context);
        mem_free(w->remaining);
    }
    for (uint32_t g = 0; g < c->config->gateways; g++) {
        vec_release(&c->acks[g].requests);
        vec_release(&c->acks[g].attempts);
        vec_release(&c->acks[g].choices);
        vec_release(&c->acks[g].counts);
        vec_release(&c->acks[g].dirty);
    }
    vec_release(&c->arrivals);
    vec_release(&c->tokens);
    mem_free(c->workers);
    mem_free(c->heap);
    mem_free(c->zeros);
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
    c.workers = mem_calloc(config->replicas, sizeof *c.workers);
    c.heap = mem_calloc(config->replicas, sizeof *c.heap);
    c.zeros = mem_calloc(config->slots, sizeof *c.zeros);
    c.acks = mem_calloc(config->gateways, sizeof *c.acks);
    for (uint32_t i = 0; i < config->replicas; i++)
        register_worker(&c, i);
    make_arrivals(&c);
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
