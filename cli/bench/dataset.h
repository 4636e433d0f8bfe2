/*
 * dataset.h - the prompts of a load test: random tokens, conversations of ShareGPT's form, or a trace
 * of times and lengths.
 */
#ifndef CLI_BENCH_DATASET_H
#define CLI_BENCH_DATASET_H

#include "base/error.h"
#include "base/vec.h"
#include "cli/bench/arrivals.h"

struct bench_prompt {
    char *json; /* owned: a JSON string, or an array of token ids */
    uint32_t max_tokens;
    double at; /* of a trace: seconds since its first request */
};
typedef VEC(struct bench_prompt) bench_prompts;

struct bench_dataset_config {
    size_t count;
    bool as_text;   /* words instead of token ids, for chats */
    uint32_t vocab; /* token ids are below */
    uint32_t input_len, output_len, prefix_len;
    double range_ratio; /* lengths are uniform in [len * (1 - r), len * (1 + r)] */
    uint32_t max_len;   /* of a trace: longer prompts and outputs are cut to it; 0: none is */
};

/* Random prompts; the first prefix_len tokens are the same in all. */
void bench_random_prompts(const struct bench_dataset_config *c, struct bench_random *r,
                          bench_prompts *out);
/* First turns of conversations in a file [{"conversations": [{"value"}, {"value"}]}], count of them
 * drawn by r, all if there are fewer. The answers' lengths are guessed at four bytes a token, unless
 * output_len says one. */
MUST_CHECK int bench_sharegpt_prompts(const char *path, const struct bench_dataset_config *c,
                                      struct bench_random *r, bench_prompts *out,
                                      struct error *err);
/* The first `count` requests of a trace: lines {"timestamp": ms, "input_length", "output_length",
 * "hash_ids": one for each 512 tokens, equal where prompts are} (Mooncake's form), or a CSV file
 * TIMESTAMP,ContextTokens,GeneratedTokens (Azure's). Prompts are random; blocks of one hash are the
 * same. */
MUST_CHECK int bench_trace_prompts(const char *path, const struct bench_dataset_config *c,
                                   struct bench_random *r, bench_prompts *out, struct error *err);
/* Frees all prompts. */
void bench_prompts_release(bench_prompts *prompts);

#endif
