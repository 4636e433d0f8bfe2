/*
 * scorer.h - a model opened for scoring: one sequence at a time, the logits of every position. What
 * `trireme logits` and `trireme perplexity` are made of; no processes, no tokenizer.
 *
 * A sequence runs through the same forward pass as in the worker, cut into steps as the caller
 * says. Memory (slot, KV blocks, buffers) grows with the longest sequence and the longest step seen
 * so far.
 *
 * Invariants:
 *   (1) a sequence begins with an empty cache;
 *   (2) on_rows sees positions in order, each once.
 *
 * Threading: one thread.
 */
#ifndef CLI_SCORER_H
#define CLI_SCORER_H

#include "model/run/forward.h"

enum { SCORER_STEP_MAX = 1024 };

struct scorer_options {
    const char *model;  /* as in model_options.dir */
    const char *device; /* as in device_options; NULL: "auto" */
    const char *isa;
    uint32_t layers_on_gpu; /* as in model_options */
    uint32_t max_context;   /* longest sequence; 0: the model's; ERR_INVALID when it is more */
    int thread_count;
    enum storage_type quantize; /* as in model_options */
    enum storage_type kv;       /* STORAGE_NONE: as served */
    const char *compute;        /* as in device_options; "f32": activations and cache in f32, too */
};

/* By the numbers of --quantize: "none|fp8|int8|int4". */
extern const enum storage_type SCORER_QUANTIZE[4];

/* By the numbers of --compute: "auto|f32|bf16|int8|fp8|fp8-prompts". */
extern const char *const SCORER_COMPUTE[6];

struct scorer {
    struct device *dev;
    struct stream *stream;
    struct model model;
    struct kv_geometry geometry;
    struct slots slots;
    struct forward forward;
    struct event *done;
    float *host; /* [HEAD_ROWS, vocab] pinned */
    uint32_t token_room, step_room;
    uint32_t max_context;
};

/* Opens the device and the model. Errors are those of device_open and model_open. On failure
 * nothing is open, but scorer_close may be called. */
MUST_CHECK int scorer_open(struct scorer *s, const struct scorer_options *options,
                           struct error *err);
/* Releases everything that was opened. */
void scorer_close(struct scorer *s);

/* Logits f32 [count, vocab] of positions [first, first + count), valid during the call. False stops
 * the run. */
typedef bool (*scorer_rows_fn)(void *ctx, uint32_t first, const float *logits, uint32_t count);

/* Runs a sequence of count >= 1 ids in steps of chunks[i] tokens, which add up to count
 * (chunk_count 0: one step). Steps over SCORER_STEP_MAX are cut. ERR_INVALID: an id outside the
 * logits, a count past the model's context, chunks that do not add up. */
MUST_CHECK int scorer_run(struct scorer *s, const uint32_t *ids, size_t count,
                          const uint32_t *chunks, size_t chunk_count, scorer_rows_fn on_rows,
                          void *ctx, struct error *err);

#endif
