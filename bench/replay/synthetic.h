/*
 * synthetic.h - traces in the form of the real ones, made from a seed: for tests, and where there are no
 * files.
 */
#ifndef REPLAY_SYNTHETIC_H
#define REPLAY_SYNTHETIC_H

#include "cli/bench/trace.h"

struct replay_synthetic {
    size_t requests;
    double seconds; /* between the first and the last, about */
    uint32_t
        conversations;  /* whose prompts grow by each turn; 0: prompts share nothing, no hashes */
    uint32_t input;     /* tokens of a prompt, or that a turn adds: half to one and a half of it */
    uint32_t output;    /* likewise */
    uint32_t input_max; /* a conversation that would be longer begins anew */
    uint64_t seed;
};

/* All conversations begin with the same block. *out is to be released. */
void replay_synthetic_make(const struct replay_synthetic *config, struct bench_trace *out);

#endif
