/* sample_rig.h - the sampler on rows of a test's own: a setting, and what it draws. */
#ifndef TESTS_UNIT_KERNELS_SAMPLE_RIG_H
#define TESTS_UNIT_KERNELS_SAMPLE_RIG_H

#include "rig.h"

enum { CONTEXT = 64 };

struct draw {
    uint32_t status, token, top_count, top_ids[SAMPLE_TOP_MAX], token_count, active;
    float logprob, top_logprobs[SAMPLE_TOP_MAX], state;
};

struct setting {
    struct slot_state state;
    uint32_t history[CONTEXT], bias_ids[8];
    float bias_values[8];
    const uint32_t *mask;
    uint32_t breakers[4]; /* bits of the first 128 tokens */
};

/* Runs the operation for `count` copies of the row (so that a row's place and neighbours change)
 * and returns the last. tokens, unless NULL: of all; then each has a seed of its own. */
static struct draw sample_all(const char *isa, const float *logits, uint32_t vocab,
                              const struct setting *set, uint32_t count, uint32_t *tokens) {
    struct bench b = bench_open(isa, 2);
    uint32_t stride = vocab + 5, *ids = calloc(count, SLOT_BIAS_MAX * 4), *rows = calloc(count, 4),
             *slots = calloc(count, 4), *positions = calloc(count, 4),
             *history = calloc(count, CONTEXT * 4);
    uint32_t words = (vocab + 31) / 32, *mask_rows = calloc(count, 4),
             *breakers = calloc((size_t)count * words, 4);
    float *values = calloc(count, SLOT_BIAS_MAX * 4), *copy = guarded((size_t)count * stride);
    struct slot_state *states = calloc(count, sizeof *states);
    for (uint32_t i = 0; i < count; i++) {
        states[i] = set->state;
        states[i].seed += tokens ? i : 0;
        memcpy(breakers + (size_t)i * words, set->breakers,
               MIN(words * sizeof *breakers, sizeof set->breakers));
        rows[i] = slots[i] = i;
        memcpy(copy + (size_t)i * stride, logits, vocab * sizeof *logits);
        memcpy(history + i * CONTEXT, set->history, sizeof set->history);
        memcpy(ids + (size_t)i * SLOT_BIAS_MAX, set->bias_ids, sizeof set->bias_ids);
        memcpy(values + (size_t)i * SLOT_BIAS_MAX, set->bias_values, sizeof set->bias_values);
    }
    struct slot_table table = {.slot_count = count,
                               .max_context = CONTEXT,
                               .states = states,
                               .tokens = history,
                               .bias_ids = ids,
                               .bias_values = values,
                               .breakers = breakers};
    struct step_batch batch = {.row_count = count,
                               .sample_count = count,
                               .sample_rows = rows,
                               .slots = slots,
                               .positions = positions};
    struct sample_out out = {.tokens = calloc(count, 4),
                             .status = calloc(count, 4),
                             .logprobs = calloc(count, 4),
                             .top_counts = calloc(count, 4),
                             .top_ids = calloc(count, 4 * SAMPLE_TOP_MAX),
                             .top_logprobs = calloc(count, 4 * SAMPLE_TOP_MAX),
                             .states = calloc(count, 4)};
    void *scratch = malloc(b.dev->ops->sample_scratch(b.dev, count, vocab));
    b.dev->ops->sample(b.stream, &(struct op_sample){.logits = copy,
                                                     .logits_stride = stride,
                                                     .vocab_size = vocab,
                                                     .masks = set->mask,
                                                     .mask_rows = mask_rows,
                                                     .mask_stride = words,
                                                     .slots = &table,
                                                     .batch = &batch,
                                                     .out = &out,
                                                     .scratch = scratch});
    uint32_t last = count - 1;
    struct draw d = {.status = out.status[last],
                     .token = out.tokens[last],
                     .top_count = out.top_counts[last],
                     .token_count = states[last].token_count,
                     .active = states[last].active,
                     .logprob = out.logprobs[last],
                     .state = out.states[last]};
    if (tokens)
        memcpy(tokens, out.tokens, count * sizeof *tokens);
    memcpy(d.top_ids, out.top_ids + (size_t)last * SAMPLE_TOP_MAX, sizeof d.top_ids);
    memcpy(d.top_logprobs, out.top_logprobs + (size_t)last * SAMPLE_TOP_MAX, sizeof d.top_logprobs);
    if (d.status <= SAMPLE_LENGTH && history[last * CONTEXT + d.token_count - 1] != d.token)
        check_fail(__FILE__, __LINE__, "the token is not in its slot");
    if (!guards_intact(copy, (size_t)count * stride))
        check_fail(__FILE__, __LINE__, "sample wrote outside its logits");
    void *arrays[] = {ids,          rows,           slots,       positions,        history,
                      mask_rows,    values,         states,      out.tokens,       out.status,
                      out.logprobs, out.top_counts, out.top_ids, out.top_logprobs, scratch,
                      out.states,   breakers};
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
        free(arrays[i]);
    unguard(copy);
    bench_close(&b);
    return d;
}

static inline struct draw sample_one(const char *isa, const float *logits, uint32_t vocab,
                                     const struct setting *set, uint32_t count) {
    return sample_all(isa, logits, vocab, set, count, NULL);
}

static inline struct setting plain(float temperature) {
    return (struct setting){.state = {.active = 1,
                                      .token_count = 4,
                                      .prompt_count = 2,
                                      .max_total = CONTEXT,
                                      .temperature = temperature,
                                      .top_p = 1,
                                      .repetition_penalty = 1,
                                      .logprobs = -1,
                                      .seed = 7},
                            .history = {1, 2, 3, 3}};
}

#endif
