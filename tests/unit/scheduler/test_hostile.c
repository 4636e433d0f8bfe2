/*
 * test_hostile.c - well-formed messages with hostile content, straight into the core: what a
 * decoder lets through from a gateway or worker that has gone mad must never end the scheduler (no
 * CHECK may be reachable) nor break its books (sched_check after every few events).
 *
 * Messages are random within the codec's bounds; half of them are bent towards sense (models,
 * slots, plan numbers and requests that exist), so that they get past the first checks.
 */
#include <stdio.h>

#include "check.h"
#include "proto/random_message.h"
#include "scheduler/core/sched.h"

enum { GATEWAYS = 2, WORKERS = 3, REQUESTS = 12, EVENTS = 6000, CHECK_EVERY = 16, WIDTH = 500 };

struct last_plan {
    uint64_t number;
    uint32_t incarnation, slots[64];
    size_t row_count;
};

struct world {
    struct sched *core;
    struct arena arena;
    int64_t now;
    uint32_t incarnations[WORKERS];
    struct last_plan plans[WORKERS];
    uint64_t plan_count, deltas_count, reject_count, attached_count;
    bool bad_output;
};

static struct u128 gateway_id(uint64_t i) {
    return (struct u128){1 + i % GATEWAYS, 100};
}
static struct u128 worker_id(uint64_t i) {
    return (struct u128){1 + i % WORKERS, 200};
}
static struct u128 request_id(uint64_t i) {
    return (struct u128){1 + i % REQUESTS, 300};
}

/* ---- What comes out must be what a decoder takes ---- */

static void check_output(struct world *w, enum wire_kind kind, const void *message) {
    static struct buf out;
    static struct arena arena;
    static union {
        struct wire_plan plan;
        struct wire_deltas deltas;
        struct wire_reject reject;
        struct wire_submit submit;
    } back;
    struct error err;
    buf_reset(&out);
    arena_reset(&arena);
    message_pack(kind, message, &out);
    if (message_unpack(kind, buf_bytes(&out), &arena, &back, &err) == 0)
        return;
    w->bad_output = true;
    check_fail(__FILE__, __LINE__, "the core made a %s that is refused: %s",
               message_kind_name(kind), err.text);
}

static void on_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {
    struct world *w = ctx;
    w->plan_count++;
    check_output(w, WIRE_PLAN, plan);
    for (size_t i = 0; i < ranks.count; i++) {
        struct last_plan *last = &w->plans[(ranks.items[i].lo - 1) % WORKERS];
        last->number = plan->number;
        last->incarnation = plan->incarnation;
        last->row_count = MIN(plan->row_slots.count, ARRAY_LEN(last->slots));
        memcpy(last->slots, plan->row_slots.items, last->row_count * 4);
    }
}

static void on_deltas(void *ctx, struct u128 gateway, const struct wire_deltas *deltas) {
    struct world *w = ctx;
    w->deltas_count++;
    check_output(w, WIRE_DELTAS, deltas);
}
static void on_reject(void *ctx, struct u128 gateway, const struct wire_reject *reject) {
    struct world *w = ctx;
    w->reject_count++;
    check_output(w, WIRE_REJECT, reject);
}
static void on_attached(void *ctx, struct u128 gateway, const struct wire_submit *submit) {
    struct world *w = ctx;
    w->attached_count++;
    check_output(w, WIRE_SUBMIT, submit);
}
static void on_fence(void *ctx, struct u128 instance, uint32_t pid) {}
static void on_reregister(void *ctx, struct u128 instance) {}
static void on_prepare(void *ctx, struct u128s ranks, const struct wire_prepare *prepare) {}

/* ---- What goes in ---- */

static bool often(void) {
    return random_below(16) != 0;
}

static void bend_tokens(struct tokens *t) {
    for (size_t i = 0; i < t->count; i++)
        ((uint32_t *)(uintptr_t)t->ids)[i] %= WIDTH;
}

/* Few, so that streams meet. */
static struct bytes name_of(uint64_t random) {
    static const char *const NAMES[] = {"", "a", "b", "ab"};
    return bytes_str(NAMES[random % ARRAY_LEN(NAMES)]);
}

static void send_submit(struct world *w) {
    struct wire_submit m;
    random_message(WIRE_SUBMIT, &w->arena, &m);
    m.request = request_id(check_random());
    m.attempt = (uint32_t)random_below(4);
    if (often())
        m.model = bytes_str("m");
    if (often())
        m.revision = (struct u128){0};
    if (often())
        m.kind = WIRE_GENERATE;
    if (often())
        m.adapter = (struct bytes){0};
    if (often())
        m.grammar_kind = WIRE_GRAMMAR_NONE, m.grammar = (struct bytes){0};
    if (often())
        m.media_count = 0;
    if (often())
        m.sampler_state = (struct bytes){0};
    m.stream = name_of(check_random());
    if (random_below(2))
        m.tenant = (struct u128){0};
    if (often())
        m.max_tokens = 8 + (uint32_t)random_below(20);
    if (often())
        m.stop_tokens.count = 0;
    if (often())
        m.deadline_ms = (uint32_t)random_below(20000);
    if (often())
        bend_tokens(&m.prompt);
    if (often())
        m.sampling.bias_ids.count = m.sampling.bias_values.count = 0;
    for (size_t i = 0; i < m.choice_count; i++) {
        struct wire_choice *c = (struct wire_choice *)(uintptr_t)&m.choices[i];
        if (often())
            c->choice = (uint32_t)i;
        if (often())
            bend_tokens(&c->emitted);
    }
    struct buf out = {0};
    struct wire_submit checked;
    /* bending may have made choices equal: then no decoder lets it through */
    message_pack_submit(&m, &out);
    if (message_unpack_submit(buf_bytes(&out), &w->arena, &checked, NULL) == 0)
        sched_submit(w->core, w->now, gateway_id(check_random()), &checked);
    buf_release(&out);
}

static void send_ack(struct world *w) {
    struct wire_ack m;
    random_message(WIRE_ACK, &w->arena, &m);
    for (size_t i = 0; i < m.requests.count; i++) {
        if (often())
            ((struct u128 *)(uintptr_t)m.requests.items)[i] = request_id(check_random());
        if (often())
            ((uint32_t *)(uintptr_t)m.attempts.items)[i] %= 4;
        if (often())
            ((uint32_t *)(uintptr_t)m.choices.items)[i] %= 3;
        if (often())
            ((uint32_t *)(uintptr_t)m.counts.items)[i] %= 24;
    }
    sched_ack(w->core, w->now, gateway_id(check_random()), &m);
}

static void send_small(struct world *w) {
    struct u128 gateway = gateway_id(check_random()), request = request_id(check_random());
    uint32_t attempt = (uint32_t)random_below(4),
             choice = (uint32_t)random_below(random_below(2) ? 3 : WIRE_MAX_CHOICES);
    struct wire_attach attach;
    switch (random_below(4)) {
    case 0:
        sched_cancel(w->core, w->now, gateway,
                     &(struct wire_cancel){request, attempt,
                                           random_below(2) ? choice : WIRE_ALL_CHOICES,
                                           random_below(2)});
        break;
    case 1:
        sched_pause(w->core, w->now, gateway,
                    &(struct wire_pause){request, attempt, random_below(2)});
        break;
    case 2:
        sched_resend(w->core, w->now, gateway,
                     &(struct wire_resend){request, attempt, choice,
                                           (uint32_t)random_within(0, WIRE_MAX_TOKENS)});
        break;
    default:
        random_message(WIRE_ATTACH, &w->arena, &attach);
        if (often())
            attach.request = request;
        if (often())
            attach.attempt = attempt;
        if (often())
            attach.tenant = (struct u128){0};
        if (often())
            attach.stream = name_of(check_random());
        if (random_below(2))
            attach.request = (struct u128){0};
        if (often())
            attach.choices.count = attach.indexes.count = 0;
        attach.new_request = random_below(2) ? request_id(check_random()) : (struct u128){0};
        sched_attach(w->core, w->now, gateway, &attach);
    }
}

static void send_hello(struct world *w) {
    struct wire_hello m;
    uint64_t i = random_below(WORKERS);
    struct error err;
    do
        random_message(WIRE_HELLO, &w->arena, &m);
    while (m.role != WIRE_ROLE_WORKER);
    static struct wire_kv_group group;
    group = (struct wire_kv_group){
        .kind = WIRE_GROUP_FULL, .block_tokens = 4, .block_count = 40, .block_bytes = 64};
    m.instance = worker_id(i);
    if (often())
        m.incarnation = ++w->incarnations[i];
    if (often())
        m.model = bytes_str("m");
    if (often())
        m.replica = (struct u128){i + 1, 400};
    if (often())
        m.rank = m.stage = 0, m.tp = m.pp = 1;
    if (often())
        m.state = WIRE_STATE_IDLE;
    if (often())
        m.revision = (struct u128){5, 5};
    if (m.state != WIRE_STATE_LOADING) { /* bounded, or the books take too long to check */
        m.groups = &group;
        m.group_count = 1;
        m.held_blocks = random_unique(&w->arena, random_below(8), 40);
        m.held_hashes = random_u128s(&w->arena, m.held_blocks.count);
        m.logits_width = WIDTH;
        m.slot_count = 1 + (uint32_t)random_below(8);
        m.max_step_tokens = 1 + (uint32_t)random_below(64);
        m.max_context = 1 + (uint32_t)random_below(100);
        m.steps_in_flight = 1 + (uint32_t)random_below(4);
    }
    if (!random_below(30) && m.held_blocks.count)
        ((uint32_t *)(uintptr_t)m.held_blocks.items)[0] = 1; /* perhaps twice */
    (void)!sched_worker_hello(w->core, w->now, &m, &err);
}

static void send_result(struct world *w) {
    struct wire_step_result m;
    uint64_t i = random_below(WORKERS);
    const struct last_plan *last = &w->plans[i];
    random_message(WIRE_STEP_RESULT, &w->arena, &m);
    if (often()) {
        m.plan_number = last->number - random_below(2);
        m.incarnation = last->incarnation;
        m.slots = (struct u32s){last->slots, last->row_count};
        m.token_counts = random_u32s(&w->arena, last->row_count, 0, often() ? 1 : 3);
        m.finishes =
            random_u32s(&w->arena, last->row_count, 0, often() ? 0 : WIRE_FINISH_CONSTRAINT);
        m.tokens = random_tokens(&w->arena, sum_of(m.token_counts));
        if (often())
            bend_tokens(&m.tokens);
        m.logprobs = (struct wire_logprobs){0};
        if (!random_below(4))
            agree_logprobs(&w->arena, &m.logprobs, m.tokens.count);
    }
    (void)!sched_step_result(w->core, w->now, worker_id(i), &m);
}

static void send_worker_news(struct world *w) {
    struct u128 worker = worker_id(check_random());
    struct wire_heartbeat heartbeat;
    struct wire_exited exited;
    switch (random_below(6)) {
    case 0: sched_worker_silent(w->core, w->now, worker); break;
    case 1: sched_worker_drain(w->core, w->now, worker); break;
    case 2: sched_blocks_lost(w->core, w->now, worker, (uint32_t)random_below(50)); break;
    case 3:
        random_message(WIRE_EXITED, &w->arena, &exited);
        if (often())
            exited.instance = worker;
        sched_worker_exited(w->core, w->now, &exited);
        break;
    default:
        random_message(WIRE_HEARTBEAT, &w->arena, &heartbeat);
        sched_worker_heartbeat(w->core, w->now, worker, &heartbeat);
    }
}

static void send_gateway_news(struct world *w) {
    struct u128 gateway = gateway_id(check_random());
    switch (random_below(4)) {
    case 0: sched_gateway_silent(w->core, w->now, gateway); break;
    case 1: sched_gateway_gone(w->core, w->now, gateway); break;
    default: sched_gateway_up(w->core, w->now, gateway);
    }
}

static void one_event(struct world *w) {
    static void (*const SENDERS[])(struct world *) = {
        send_submit, send_submit, send_submit, send_ack,    send_ack,         send_small,
        send_hello,  send_result, send_result, send_result, send_worker_news, send_gateway_news};
    size_t which = random_below(ARRAY_LEN(SENDERS));
    if (which >= 10 && random_below(3))
        which = 7; /* deaths are rarer than work */
    arena_reset(&w->arena);
    SENDERS[which](w);
    w->now += (int64_t)random_below(random_below(50) ? 20 : 3000);
    if (random_below(3))
        sched_run(w->core, w->now);
}

TEST(core_takes_hostile_messages) {
    struct sched_config config;
    uint64_t plans = 0, deltas = 0, rejects = 0, attached = 0;
    sched_config_default(&config);
    config.waiting_max = 20;
    config.record_bytes = 20000;
    hash_key_init(&config.cache_key, "test", 4);
    for (int round = 0; round < 5; round++) {
        struct world w = {0};
        struct sched_sink sink = {.ctx = &w,
                                  .plan = on_plan,
                                  .deltas = on_deltas,
                                  .reject = on_reject,
                                  .attached = on_attached,
                                  .fence = on_fence,
                                  .reregister = on_reregister,
                                  .released = on_reregister,
                                  .prepare = on_prepare};
        w.core = sched_new(&config, &sink);
        for (int i = 0; i < EVENTS && !w.bad_output; i++) {
            one_event(&w);
            if (i % CHECK_EVERY == 0)
                sched_check(w.core);
        }
        sched_check(w.core);
        plans += w.plan_count;
        deltas += w.deltas_count;
        rejects += w.reject_count;
        attached += w.attached_count;
        sched_free(&w.core);
        arena_release(&w.arena);
        if (w.bad_output)
            return;
    }
    printf("# %llu plans, %llu deltas, %llu rejects, %llu attached\n", (unsigned long long)plans,
           (unsigned long long)deltas, (unsigned long long)rejects, (unsigned long long)attached);
    /* it got past the first checks */
    EXPECT(plans > 100 && deltas > 100 && rejects > 100 && attached > 3);
}
