/*
 * stage.h - a small world for tests of the scheduler's core: one gateway, some workers, everything
 * in order and at once.
 *
 * A worker computes a plan when it gets it and keeps the result until stage_answer() hands it over,
 * so that tests see what the core plans before it knows. The next token is a hash of all tokens so
 * far, thus any wrong token, order or restart shows in the text.
 */
#ifndef TESTS_UNIT_SCHEDULER_STAGE_H
#define TESTS_UNIT_SCHEDULER_STAGE_H

#include "base/vec.h"
#include "check.h"
#include "scheduler/core/sched.h"

#include <stdlib.h>

/* What a prompt becomes: its length, and a number that any other token or order changes. */
enum { STAGE_VECTOR = 2 };
enum {
    STAGE_WORKERS = 4,
    STAGE_REQUESTS = 2048,
    STAGE_CHOICES = 4,
    STAGE_WIDTH = 1000,
    STAGE_DRAFTS = 16
};

struct stage_tokens {
    uint32_t *items;
    size_t count, cap;
};
struct stage_row {
    uint32_t slot, token_count;
    uint64_t sequence;
};
struct stage_slot {
    struct stage_tokens tokens;
    uint32_t prompt_count, computed, max_total;
    struct u128 request;
    uint32_t choice;
    uint64_t sequence;
    bool ended;
    bool embeds;
    uint32_t computed_from; /* its first position that is computed here */
};
struct stage_result {
    uint64_t number;
    size_t row_count;
    uint32_t slots[64], counts[64], finishes[64], tokens[64 + STAGE_DRAFTS], lens[64];
    uint32_t drafts[64]; /* of each row */
    size_t token_count, value_count;
    float values[64 * STAGE_VECTOR];
    uint64_t sequences[64];
    size_t admit_count, release_count;
};
struct stage_op {
    uint32_t kind, source, target;
    uint64_t plan;
};
struct stage_worker {
    struct u128 instance;
    struct wire_hello hello;
    struct wire_kv_group group;
    struct stage_slot slots[64];
    struct {
        struct stage_result *items;
        size_t count, cap;
    } results; /* not handed over yet */
    uint64_t next_plan;
    uint64_t comm_plan; /* the last plan that said where ranks meet */
    struct u128 comm_id;
    size_t rank_count; /* of the last plan */
    struct {
        struct stage_op *items;
        size_t count, cap;
    } ops; /* of all plans */
    struct stage_tokens sealed_ids;
    struct {
        struct u128 *items;
        size_t count, cap;
    } sealed_hashes;
    uint32_t blocks[4096]; /* which sequence's position tag a block holds: not used by all tests */
    uint64_t computed_tokens;
    struct u128 killer; /* a request that aborts this worker when it is computed; zero: none */
    bool killed;
    uint32_t step_ms;      /* how long it says each step took; 0: as below */
    uint32_t ms_per_token; /* how long it says a step took; 0: 1 ms a step */
    uint32_t fixed_ms;     /* and so much more, whatever is in it */
    bool steers;           /* tells a state behind each token: the token as a number */
    uint32_t state_errors; /* admissions of what has output with another state than that */
};
struct stage_stream {
    struct stage_tokens tokens;
    uint32_t finish, cached;
    uint32_t queued_ms, prefill_ms; /* told with the first token */
    uint32_t times_told;            /* runs with times of more than 0 ms */
    struct stage_tokens progress;   /* what it was told of its prompt, in order */
    float vector[STAGE_VECTOR];
    uint32_t vector_width, vector_count; /* and how often it came */
    uint32_t other_count;                /* of its tokens, made by another replica's bits */
    struct u128 fingerprint;             /* of the last ones */
    uint32_t state_count, state_errors;  /* tokens with a state; with another than themselves */
};
struct stage_request {
    struct stage_stream choices[STAGE_CHOICES];
    uint32_t reject, retry_after_ms, accepted, attempt;
    struct stage_tokens prompt;
};
struct stage {
    struct sched *s;
    struct sched_config config;
    int64_t now, wants;
    struct u128 gateway;
    struct stage_worker workers[STAGE_WORKERS];
    struct stage_request requests[STAGE_REQUESTS];
    struct u128 fenced, asked, released;
    uint32_t fence_count, ask_count, deltas_count, prepare_count;
    struct u128 prepared, prepared_by; /* of the last Prepare: hash, rank */
    struct wire_submit attached;       /* the last answer to an Attach; its texts are the core's */
    struct u128 attached_by;
    uint32_t attached_count;
    bool deaf; /* deltas are lost */
    bool auto_ack;
};

static inline struct u128 stage_id(uint32_t idx) {
    return (struct u128){.lo = 1000 + idx, .hi = 7};
}
static inline struct u128 stage_instance(uint32_t worker) {
    return (struct u128){.lo = 1 + worker, .hi = 9};
}

/* What is written repeats itself after so many tokens, 0: it does not; and has so many different ones. */
static uint32_t stage_period, stage_words = STAGE_WIDTH - 1;

static inline uint32_t stage_next(const struct stage_tokens *tokens, uint32_t choice) {
    if (stage_period && tokens->count >= stage_period)
        return tokens->items[tokens->count - stage_period];
    /* never 0 */
    return (uint32_t)(hash64(tokens->items, tokens->count * 4, choice) % stage_words) + 1;
}

static inline void stage_extend(struct stage_tokens *tokens, uint32_t choice) {
    uint32_t token = stage_next(tokens, choice);
    vec_push(tokens, token);
}

static inline void stage_vector(const struct stage_tokens *tokens, float out[STAGE_VECTOR]) {
    out[0] = (float)tokens->count;
    out[1] = (float)(hash64(tokens->items, tokens->count * 4, 99) % 1000000);
}

static inline uint32_t stage_sample(struct stage_slot *slot, struct stage_result *result,
                                    size_t row) {
    uint32_t token = stage_next(&slot->tokens, slot->choice);
    vec_push(&slot->tokens, token);
    result->counts[row]++;
    result->tokens[result->token_count++] = token;
    slot->ended = slot->tokens.count >= slot->max_total;
    if (slot->ended)
        result->finishes[row] = WIRE_FINISH_LENGTH;
    return token;
}

static inline void stage_compute_row(struct stage_worker *w, struct stage_result *result,
                                     size_t row, uint32_t count, struct tokens drafts) {
    struct stage_slot *slot = &w->slots[result->slots[row]];
    result->counts[row] = result->finishes[row] = 0;
    result->sequences[row] = slot->sequence;
    result->lens[row] = count;
    result->drafts[row] = (uint32_t)drafts.count;
    if (u128_equal(slot->request, w->killer) && !u128_is_zero(w->killer))
        w->killed = true;
    if (slot->ended)
        return;
    slot->computed += count;
    w->computed_tokens += count;
    CHECK(slot->computed <= slot->tokens.count);
    if (slot->computed < slot->tokens.count)
        return;
    if (slot->embeds) {
        stage_vector(&slot->tokens, result->values + result->value_count);
        result->value_count += STAGE_VECTOR;
        result->finishes[row] = WIRE_FINISH_STOP;
        slot->ended = true;
        return;
    }
    CHECK(!drafts.count || slot->tokens.count + drafts.count < slot->max_total);
    for (size_t i = 0;; i++) {
        uint32_t token = stage_sample(slot, result, row);
        if (slot->ended || i == drafts.count || token != drafts.ids[i])
            return;
        slot->computed++;
        w->computed_tokens++;
    }
}

static inline struct stage_worker *stage_worker_of(struct stage *stage, struct u128 instance) {
    for (int i = 0; i < STAGE_WORKERS; i++)
        if (u128_equal(stage->workers[i].instance, instance))
            return &stage->workers[i];
    return NULL;
}

static inline void stage_on_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {
    struct stage_worker *w = stage_worker_of(ctx, ranks.items[0]);
    CHECK(w && plan->number == ++w->next_plan && plan->incarnation == w->hello.incarnation);
    w->rank_count = ranks.count;
    if (plan->comm_id.len == sizeof w->comm_id) {
        w->comm_plan = plan->number;
        memcpy(&w->comm_id, plan->comm_id.data, sizeof w->comm_id);
    }
    for (size_t i = 0; i < plan->admit_count; i++) {
        const struct wire_admit *admit = &plan->admits[i];
        struct stage_slot *slot = &w->slots[admit->slot];
        slot->tokens.count = 0;
        for (size_t k = 0; k < admit->tokens.count; k++)
            vec_push(&slot->tokens, admit->tokens.ids[k]);
        slot->prompt_count = admit->prompt_count;
        slot->computed = admit->computed_count;
        slot->max_total = admit->max_total;
        slot->request = admit->request;
        slot->choice = admit->choice;
        slot->sequence = admit->sequence;
        slot->ended = false;
        slot->embeds = admit->kind == WIRE_EMBED;
        slot->computed_from = admit->computed_count;
        if (w->steers && admit->sampling.steering && admit->tokens.count > admit->prompt_count)
            w->state_errors +=
                admit->sampler_state != (float)admit->tokens.ids[admit->tokens.count - 1];
    }
    for (size_t i = 0; i < plan->op_kinds.count; i++) {
        struct stage_op op = {plan->op_kinds.items[i], plan->op_sources.items[i],
                              plan->op_targets.items[i], plan->number};
        vec_push(&w->ops, op);
    }
    for (size_t i = 0; i < plan->sealed_ids.count; i++) {
        vec_push(&w->sealed_ids, plan->sealed_ids.items[i]);
        vec_push(&w->sealed_hashes, plan->sealed_hashes.items[i]);
    }
    struct stage_result result = {.number = plan->number, .row_count = plan->row_slots.count};
    result.admit_count = plan->admit_count;
    result.release_count = plan->release_slots.count;
    CHECK(result.row_count <= 64 && plan->draft_tokens.count <= STAGE_DRAFTS);
    const uint32_t *drafts = plan->draft_tokens.ids;
    for (size_t i = 0; i < result.row_count; i++) {
        uint32_t count = plan->draft_counts.count ? plan->draft_counts.items[i] : 0;
        result.slots[i] = plan->row_slots.items[i];
        stage_compute_row(w, &result, i, plan->row_token_counts.items[i],
                          (struct tokens){drafts, count});
        drafts += count;
    }
    vec_push(&w->results, result);
}

static inline void stage_on_deltas(void *ctx, struct u128 gateway,
                                   const struct wire_deltas *deltas) {
    struct stage *stage = ctx;
    stage->deltas_count++;
    if (stage->deaf)
        return;
    const uint32_t *tokens = deltas->tokens.ids;
    const float *values = deltas->vectors.items, *states = deltas->sampler_states.items;
    for (size_t i = 0; i < deltas->requests.count; tokens += deltas->token_counts.items[i++]) {
        const float *own = states;
        states += deltas->sampler_states.count ? deltas->token_counts.items[i] : 0;
        uint64_t idx = deltas->requests.items[i].lo - 1000;
        uint32_t width = deltas->vector_widths.count ? deltas->vector_widths.items[i] : 0;
        const float *vector = values;
        values += width;
        CHECK(idx < STAGE_REQUESTS && deltas->choices.items[i] < STAGE_CHOICES);
        struct stage_request *request = &stage->requests[idx];
        struct stage_stream *stream = &request->choices[deltas->choices.items[i]];
        if (deltas->attempts.items[i] != request->attempt)
            continue;
        if (deltas->flags.items[i] & WIRE_DELTA_ACCEPTED)
            request->accepted++;
        for (uint32_t k = 0; k < deltas->token_counts.items[i]; k++)
            if (deltas->indexes.items[i] + k == stream->tokens.count) {
                vec_push(&stream->tokens, tokens[k]);
                stream->state_count += deltas->sampler_states.count > 0;
                stream->state_errors += deltas->sampler_states.count && own[k] != (float)tokens[k];
                stream->other_count += (deltas->flags.items[i] & WIRE_DELTA_OTHER_FINGERPRINT) != 0;
                stream->fingerprint = deltas->fingerprints.items[i];
            }
        stream->cached = deltas->cached_counts.items[i];
        if (deltas->flags.items[i] & WIRE_DELTA_PROGRESS)
            vec_push(&stream->progress, deltas->prompt_counts.items[i]);
        CHECK(width <= STAGE_VECTOR);
        if (width) {
            memcpy(stream->vector, vector, width * sizeof *vector);
            stream->vector_width = width;
            stream->vector_count++;
        }
        if (deltas->queued_ms.count && deltas->queued_ms.items[i] + deltas->prefill_ms.items[i]) {
            stream->queued_ms = deltas->queued_ms.items[i];
            stream->prefill_ms = deltas->prefill_ms.items[i];
            stream->times_told++;
        }
        bool complete =
            deltas->indexes.items[i] + deltas->token_counts.items[i] == stream->tokens.count;
        if (deltas->finishes.items[i] && complete)
            stream->finish = deltas->finishes.items[i];
    }
}

static inline void stage_on_reject(void *ctx, struct u128 gateway,
                                   const struct wire_reject *reject) {
    struct stage *stage = ctx;
    uint64_t idx = reject->request.lo - 1000;
    CHECK(idx < STAGE_REQUESTS);
    stage->requests[idx].reject = reject->code;
    stage->requests[idx].retry_after_ms = reject->retry_after_ms;
}

static inline void stage_on_attached(void *ctx, struct u128 gateway,
                                     const struct wire_submit *submit) {
    struct stage *stage = ctx;
    stage->attached = *submit;
    stage->attached_by = gateway;
    stage->attached_count++;
}

static inline void stage_on_fence(void *ctx, struct u128 instance, uint32_t pid) {
    struct stage *stage = ctx;
    stage->fenced = instance;
    stage->fence_count++;
}

static inline void stage_on_reregister(void *ctx, struct u128 instance) {
    struct stage *stage = ctx;
    stage->asked = instance;
    stage->ask_count++;
}

static inline void stage_on_released(void *ctx, struct u128 instance) {
    struct stage *stage = ctx;
    stage->released = instance;
}

static inline void stage_on_prepare(void *ctx, struct u128s ranks,
                                    const struct wire_prepare *prepare) {
    struct stage *stage = ctx;
    CHECK(ranks.count == 1 && prepare->resource == WIRE_RESOURCE_GRAMMAR);
    stage->prepared = prepare->hash;
    stage->prepared_by = ranks.items[0];
    stage->prepare_count++;
}

/* config: sched_config_default if NULL. */
static inline struct stage *stage_new(const struct sched_config *config) {
    struct stage *stage = mem_alloc(sizeof *stage);
    if (config)
        stage->config = *config;
    else
        sched_config_default(&stage->config);
    struct sched_sink sink = {.ctx = stage,
                              .plan = stage_on_plan,
                              .deltas = stage_on_deltas,
                              .reject = stage_on_reject,
                              .attached = stage_on_attached,
                              .fence = stage_on_fence,
                              .reregister = stage_on_reregister,
                              .released = stage_on_released,
                              .prepare = stage_on_prepare};
    stage->s = sched_new(&stage->config, &sink);
    stage->gateway = (struct u128){42, 42};
    stage->now = 1000;
    stage->auto_ack = true;
    sched_gateway_up(stage->s, stage->now, stage->gateway);
    return stage;
}

static inline void stage_free(struct stage *stage) {
    sched_check(stage->s);
    sched_free(&stage->s);
    for (int i = 0; i < STAGE_WORKERS; i++) {
        for (int slot = 0; slot < 64; slot++)
            vec_release(&stage->workers[i].slots[slot].tokens);
        vec_release(&stage->workers[i].sealed_ids);
        vec_release(&stage->workers[i].ops);
        vec_release(&stage->workers[i].sealed_hashes);
        vec_release(&stage->workers[i].results);
    }
    for (int i = 0; i < STAGE_REQUESTS; i++) {
        vec_release(&stage->requests[i].prompt);
        for (int c = 0; c < STAGE_CHOICES; c++) {
            vec_release(&stage->requests[i].choices[c].tokens);
            vec_release(&stage->requests[i].choices[c].progress);
        }
    }
    mem_free(stage);
}

/* The Hello of a small worker; tests change it before stage_hello. */
static inline struct stage_worker *stage_worker(struct stage *stage, uint32_t idx) {
    struct stage_worker *w = &stage->workers[idx];
    w->instance = stage_instance(idx);
    w->group =
        (struct wire_kv_group){.kind = WIRE_GROUP_FULL, .block_tokens = 16, .block_count = 256};
    w->hello = (struct wire_hello){.role = WIRE_ROLE_WORKER,
                                   .instance = w->instance,
                                   .pid = 100 + idx,
                                   .replica = {.lo = 500 + idx, .hi = 1},
                                   .tp = 1,
                                   .pp = 1,
                                   .incarnation = 1,
                                   .state = WIRE_STATE_IDLE,
                                   .model = bytes_str("m"),
                                   .revision = {1, 2},
                                   .fingerprint = {3, 4},
                                   .slot_count = 16,
                                   .max_step_tokens = 256,
                                   .max_context = 2048,
                                   .logits_width = STAGE_WIDTH,
                                   .steps_in_flight = 2,
                                   .groups = &w->group,
                                   .group_count = 1};
    return w;
}

static inline int stage_hello(struct stage *stage, struct stage_worker *w) {
    w->hello.held_blocks = (struct u32s){w->sealed_ids.items, w->sealed_ids.count};
    w->hello.held_hashes = (struct u128s){w->sealed_hashes.items, w->sealed_hashes.count};
    w->next_plan = w->results.count = 0;
    struct error err;
    return sched_worker_hello(stage->s, stage->now, &w->hello, &err);
}

static inline void stage_run(struct stage *stage) {
    stage->wants = sched_run(stage->s, stage->now);
    sched_check(stage->s);
    if (!stage->auto_ack)
        return;
    for (uint32_t i = 0; i < STAGE_REQUESTS; i++)
        for (uint32_t c = 0; c < STAGE_CHOICES; c++) {
            const struct stage_stream *stream = &stage->requests[i].choices[c];
            if (!stream->tokens.count && !stream->finish)
                continue;
            struct u128 id = stage_id(i);
            uint32_t count = (uint32_t)stream->tokens.count + (stream->finish != 0);
            uint32_t attempt = stage->requests[i].attempt;
            struct wire_ack ack = {{&id, 1}, {&attempt, 1}, {&c, 1}, {&count, 1}};
            if (stage->requests[i].reject)
                continue;
            uint32_t before = stage->requests[i].reject;
            sched_ack(stage->s, stage->now, stage->gateway, &ack);
            stage->requests[i].reject = before; /* finished ones are forgotten */
        }
}

/* Hands over the worker's oldest result; false: there is none. */
static inline bool stage_answer(struct stage *stage, struct stage_worker *w) {
    if (!w->results.count)
        return false;
    struct stage_result r = w->results.items[0];
    memmove(w->results.items, w->results.items + 1, --w->results.count * sizeof r);
    struct wire_step_result result = {.plan_number = r.number,
                                      .incarnation = w->hello.incarnation,
                                      .slots = {r.slots, r.row_count},
                                      .token_counts = {r.counts, r.row_count},
                                      .finishes = {r.finishes, r.row_count},
                                      .tokens = {r.tokens, r.token_count},
                                      .vectors = {r.values, r.value_count},
                                      .vector_width = r.value_count ? STAGE_VECTOR : 0,
                                      .compute_us = 1000};
    float states[64 + STAGE_DRAFTS];
    for (size_t i = 0; w->steers && i < r.token_count; i++)
        states[i] = (float)r.tokens[i];
    if (w->steers)
        result.sampler_states = (struct f32s){states, r.token_count};
    uint64_t step_tokens = 0;
    for (size_t i = 0; i < r.row_count; i++)
        step_tokens += r.lens[i] + r.drafts[i];
    if (w->step_ms)
        result.compute_us = w->step_ms * 1000;
    else if (w->ms_per_token)
        result.compute_us = (step_tokens * w->ms_per_token + w->fixed_ms) * 1000;
    CHECK(sched_step_result(stage->s, stage->now, w->instance, &result) == 0);
    return true;
}

/* Runs turns until nothing is left to answer. */
static inline void stage_finish(struct stage *stage) {
    for (bool any = true; any;) {
        stage_run(stage);
        any = false;
        for (int i = 0; i < STAGE_WORKERS; i++)
            any = stage_answer(stage, &stage->workers[i]) || any;
        stage->now++;
    }
}

/* A prompt of random tokens, the same for the same salt. */
static inline struct wire_submit stage_submit(struct stage *stage, uint32_t idx,
                                              uint32_t prompt_count, uint32_t max_tokens,
                                              uint64_t salt) {
    struct stage_request *request = &stage->requests[idx];
    request->prompt.count = 0;
    for (uint32_t i = 0; i < prompt_count; i++) {
        uint64_t at[2] = {salt, i};
        vec_push(&request->prompt, (uint32_t)(hash64(at, sizeof at, 0) % STAGE_WIDTH));
    }
    return (struct wire_submit){.request = stage_id(idx),
                                .kind = WIRE_GENERATE,
                                .prompt = {request->prompt.items, request->prompt.count},
                                .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1},
                                .max_tokens = max_tokens};
}

static inline void stage_send(struct stage *stage, const struct wire_submit *submit) {
    sched_submit(stage->s, stage->now, stage->gateway, submit);
}

static inline void stage_simple(struct stage *stage, uint32_t idx, uint32_t prompt_count,
                                uint32_t max_tokens) {
    struct wire_submit submit = stage_submit(stage, idx, prompt_count, max_tokens, idx);
    stage_send(stage, &submit);
}

/* Is the stream exactly what the prompt leads to, `count` tokens of it? */
static inline bool stage_is_right(struct stage *stage, uint32_t idx, uint32_t choice,
                                  size_t count) {
    const struct stage_request *request = &stage->requests[idx];
    const struct stage_tokens *got = &request->choices[choice].tokens;
    struct stage_tokens all = {0};
    for (size_t i = 0; i < request->prompt.count; i++)
        vec_push(&all, request->prompt.items[i]);
    bool right = got->count == count;
    for (size_t i = 0; i < count && right; i++) {
        uint32_t token = stage_next(&all, choice);
        right = got->items[i] == token;
        vec_push(&all, token);
    }
    vec_release(&all);
    return right;
}

/* Runs to the end: the first `requests` requests have `tokens` tokens each, the right ones. Frees. */
static inline void stage_ends_right(struct stage *stage, uint32_t requests, size_t tokens) {
    stage_finish(stage);
    for (uint32_t i = 0; i < requests; i++)
        EXPECT(stage_is_right(stage, i, 0, tokens));
    stage_free(stage);
}

#endif
