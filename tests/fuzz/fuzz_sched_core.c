/* Hostile peers for the scheduler's core: the input is a list of events with any values in them;
 * invariants hold after each, and nothing ends the process. A worker's results are sometimes right,
 * so that states behind them are reached. */
#include "fuzz.h"

#include "base/vec.h"
#include "proto/messages.h"
#include "scheduler/core/sched.h"

enum { SPAN = 40, PLANS = 4 };

struct script {
    const uint8_t *at, *end;
    struct sched *s;
    int64_t now;
    struct {
        uint64_t number;
        uint32_t incarnation, slots[64], counts[64];
        size_t rows;
        struct u128 worker;
    } plans[PLANS]; /* the last ones sent, to be answered */
    uint32_t plan_count;
    uint32_t words[4][SPAN];
};

static uint8_t byte(struct script *t) {
    return t->at < t->end ? *t->at++ : 0;
}
/* Mostly small, sometimes extreme. */
static uint32_t word(struct script *t) {
    static const uint32_t EXTREME[] = {UINT32_MAX, INT32_MAX, 1u << 20, 1u << 16,
                                       4096,       999,       1000,     1001};
    uint8_t b = byte(t);
    return b < 240 ? b % 24 : EXTREME[b % 8];
}
static struct u128 id(struct script *t) {
    return (struct u128){byte(t) % 6, 0};
}

static size_t fill(struct script *t, int which) {
    size_t count = byte(t) % SPAN;
    for (size_t i = 0; i < count; i++)
        t->words[which][i] = byte(t) == 255 ? UINT32_MAX : byte(t) % 100;
    return count;
}

static void on_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {
    struct script *t = ctx;
    if (plan->row_slots.count > 64)
        return;
    __typeof__(&t->plans[0]) p = &t->plans[t->plan_count++ % PLANS];
    p->number = plan->number;
    p->incarnation = plan->incarnation;
    p->rows = plan->row_slots.count;
    p->worker = ranks.items[0];
    for (size_t i = 0; i < p->rows; i++)
        p->slots[i] = plan->row_slots.items[i];
}
static void on_deltas(void *ctx, struct u128 gateway, const struct wire_deltas *deltas) {}
static void on_reject(void *ctx, struct u128 gateway, const struct wire_reject *reject) {}
static void on_fence(void *ctx, struct u128 instance, uint32_t pid) {}
static void on_reregister(void *ctx, struct u128 instance) {}

static void do_submit(struct script *t) {
    static struct wire_choice choices[4];
    size_t count = byte(t) % 4;
    for (size_t i = 0; i < count; i++)
        choices[i] = (struct wire_choice){.choice = byte(t) % 5 == 0 ? word(t) : (uint32_t)i,
                                          .emitted = {t->words[1], fill(t, 1)},
                                          .finished = byte(t) % 4 == 0};
    struct wire_submit submit = {.request = id(t),
                                 .attempt = byte(t) % 4,
                                 .kind = byte(t) % 16 ? WIRE_GENERATE : WIRE_SCORE,
                                 .model = bytes_str(byte(t) % 8 ? "m" : ""),
                                 .prompt = {t->words[0], fill(t, 0)},
                                 .sampling = {.temperature = (float)byte(t) - 1,
                                              .top_p = 1,
                                              .repetition_penalty = 1,
                                              .logprobs = (int32_t)(byte(t) % 5) - 1},
                                 .max_tokens = word(t),
                                 .choices = choices,
                                 .choice_count = count,
                                 .deadline_ms = word(t),
                                 .priority = (int32_t)word(t),
                                 .tenant = id(t),
                                 .resumed = byte(t) % 2,
                                 .resumable = byte(t) % 2,
                                 .stop_tokens = {t->words[2], fill(t, 2)},
                                 .cache_salt = bytes_of(t->words[2], byte(t) % 9),
                                 .presentation = bytes_of(t->words[2], byte(t) % 9),
                                 .stream = bytes_of(t->words[2], byte(t) % 3)};
    sched_submit(t->s, t->now, id(t), &submit);
}

static void do_hello(struct script *t) {
    static struct u128 hashes[SPAN];
    struct wire_kv_group groups[2];
    for (int i = 0; i < 2; i++)
        groups[i] = (struct wire_kv_group){
            .kind = (enum wire_group_kind)(byte(t) % 8 ? 1 + byte(t) % 3 : byte(t)),
            .block_tokens = 1 + byte(t) % 8,
            .block_count = byte(t) % 60,
            .window_tokens = byte(t) % 40};
    for (size_t i = 0; i < SPAN; i++)
        hashes[i] = id(t);
    size_t held = fill(t, 3);
    struct wire_hello hello = {.role = WIRE_ROLE_WORKER,
                               .instance = id(t),
                               .replica = id(t),
                               .rank = byte(t) % 3,
                               .tp = byte(t) % 4 ? 1 : byte(t) % 4,
                               .stage = byte(t) % 8 ? 0 : byte(t),
                               .pp = byte(t) % 8 ? 1 : byte(t),
                               .incarnation = byte(t) % 8,
                               .state = byte(t) % 4 ? WIRE_STATE_IDLE : WIRE_STATE_LOADING,
                               .model = bytes_str(byte(t) % 8 ? "m" : "n"),
                               .revision = {1 + byte(t) % 2, 0},
                               .slot_count = byte(t) % 10,
                               .max_step_tokens = byte(t),
                               .max_context = byte(t),
                               .logits_width = byte(t) % 16 ? 100 : byte(t),
                               .steps_in_flight = byte(t) % 12,
                               .class_sensitive = byte(t) % 2,
                               .groups = groups,
                               .group_count = byte(t) % 8 ? 1 : byte(t) % 3,
                               .held_blocks = {t->words[3], held},
                               .held_hashes = {hashes, byte(t) % SPAN}};
    struct error err;
    if (sched_worker_hello(t->s, t->now, &hello, &err))
        return;
}

/* Right in form; sometimes one value is changed. */
static void do_result(struct script *t) {
    static uint32_t counts[64], finishes[64], tokens[64], tops[64], ids[256];
    static float values[256];
    __typeof__(&t->plans[0]) p = &t->plans[byte(t) % PLANS];
    size_t made = 0;
    for (size_t i = 0; i < p->rows; i++) {
        counts[i] = byte(t) % 2;
        finishes[i] = byte(t) % 8 ? 0 : byte(t) % 7;
        for (uint32_t k = 0; k < counts[i]; k++) {
            tokens[made] = byte(t) % 64 ? byte(t) % 100 : word(t);
            tops[made++] = byte(t) % 8 ? byte(t) % 4 : word(t);
        }
    }
    size_t rows = byte(t) % 32 ? p->rows : byte(t) % 64;
    struct wire_step_result result = {
        .plan_number = byte(t) % 16 ? p->number : word(t),
        .incarnation = byte(t) % 16 ? p->incarnation : word(t),
        .slots = {p->slots, rows},
        .token_counts = {counts, rows},
        .finishes = {finishes, rows},
        .tokens = {tokens, made},
        .logprobs = {{tops, byte(t) % 2 ? made : 0}, {ids, byte(t)}, {values, byte(t)}},
        .compute_us = word(t)};
    int rc = sched_step_result(t->s, t->now, byte(t) % 16 ? p->worker : id(t), &result);
    (void)rc;
}

static void do_ack(struct script *t) {
    struct u128 ids[2] = {id(t), id(t)};
    uint32_t a[2] = {byte(t) % 4, byte(t) % 4}, c[2] = {byte(t) % 4, word(t)},
             n[2] = {word(t), word(t)};
    struct wire_ack ack = {{ids, 2}, {a, 2}, {c, byte(t) % 3}, {n, 2}};
    sched_ack(t->s, t->now, id(t), &ack);
}

static void do_small(struct script *t, uint8_t which) {
    uint32_t choice = byte(t) % 4, index = word(t);
    struct wire_cancel cancel = {id(t), byte(t) % 4, byte(t) % 2 ? WIRE_ALL_CHOICES : choice,
                                 byte(t) % 2};
    struct wire_pause pause = {id(t), byte(t) % 4, byte(t) % 2};
    struct wire_resend resend = {id(t), byte(t) % 4, choice, index};
    struct wire_attach attach = {id(t),
                                 byte(t) % 4,
                                 id(t),
                                 {&choice, 1},
                                 {&index, 1},
                                 .new_request = byte(t) % 2 ? id(t) : (struct u128){0},
                                 .stream = bytes_of(t->words[2], byte(t) % 3)};
    if (byte(t) % 2)
        attach.request = (struct u128){0};
    struct wire_heartbeat beat = {.state = (enum wire_state)(byte(t) % 6),
                                  .plan_number = word(t),
                                  .step_tokens = word(t),
                                  .step_age_ms = word(t)};
    struct wire_exited exited = {id(t), (enum wire_exit_cause)(byte(t) % 6), word(t), byte(t) % 2};
    struct u128 peer = id(t);
    switch (which % 11) {
    case 0: sched_cancel(t->s, t->now, peer, &cancel); break;
    case 1: sched_pause(t->s, t->now, peer, &pause); break;
    case 2: sched_resend(t->s, t->now, peer, &resend); break;
    case 3: sched_attach(t->s, t->now, peer, &attach); break;
    case 4: sched_worker_heartbeat(t->s, t->now, peer, &beat); break;
    case 5: sched_worker_exited(t->s, t->now, &exited); break;
    case 6: sched_worker_silent(t->s, t->now, peer); break;
    case 7: sched_gateway_silent(t->s, t->now, peer); break;
    case 8: sched_gateway_gone(t->s, t->now, peer); break;
    case 9: sched_blocks_lost(t->s, t->now, peer, byte(t) % 8); break;
    default: sched_worker_drain(t->s, t->now, peer); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct script t = {.at = data, .end = data + size};
    struct sched_config config;
    struct sched_sink sink = {.ctx = &t,
                              .plan = on_plan,
                              .deltas = on_deltas,
                              .reject = on_reject,
                              .fence = on_fence,
                              .reregister = on_reregister};
    sched_config_default(&config);
    config.waiting_max = 3;
    config.record_bytes = 20000;
    config.tenant_streams = 2;
    config.resume_credits = 1 + byte(&t) % 3;
    config.chunk_tokens = byte(&t) % 6;
    t.s = sched_new(&config, &sink);
    while (t.at < t.end) {
        uint8_t what = byte(&t);
        if (what < 60)
            do_submit(&t);
        else if (what < 90)
            do_hello(&t);
        else if (what < 170)
            do_result(&t);
        else if (what < 190)
            do_ack(&t);
        else if (what < 225)
            do_small(&t, what);
        else
            t.now += what == 255 ? 20000 : what - 224;
        sched_check(t.s);
        if (what % 3 == 0)
            continue;
        sched_run(t.s, t.now);
        sched_check(t.s);
    }
    sched_free(&t.s);
    return 0;
}
