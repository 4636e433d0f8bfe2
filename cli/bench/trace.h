/*
 * trace.h - what a trace of a service says of its requests: when each came, how long its prompt and
 * its answer were, and which prompts begin alike.
 */
#ifndef CLI_BENCH_TRACE_H
#define CLI_BENCH_TRACE_H

#include "base/error.h"
#include "base/vec.h"

enum { BENCH_TRACE_BLOCK = 512 }; /* tokens of a prompt that one hash stands for */

struct bench_trace_request {
    double at;       /* seconds since the first one */
    uint32_t input;  /* tokens, at least 1 */
    uint32_t output; /* tokens; may be 0 */
    size_t
        hash_first; /* of bench_trace.hashes: one for each BENCH_TRACE_BLOCK tokens of the prompt, */
    size_t hash_count; /* equal where prompts are; 0: nothing is known of it */
};
struct bench_trace {
    VEC(struct bench_trace_request) requests; /* by time */
    VEC(uint64_t) hashes;
};

/* The first `count` requests of a file: lines {"timestamp": ms, "input_length", "output_length",
 * "hash_ids"} (Mooncake's form), or CSV TIMESTAMP,ContextTokens,GeneratedTokens (Azure's). *out is
 * to be released, also after an error. */
MUST_CHECK int bench_trace_read(const char *path, size_t count, struct bench_trace *out,
                                struct error *err);
/* Frees what it holds; a zeroed one is fine. */
void bench_trace_release(struct bench_trace *trace);

#endif
