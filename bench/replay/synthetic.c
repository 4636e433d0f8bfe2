#include "replay/synthetic.h"

#include "cli/bench/arrivals.h"

#include <math.h>

struct conversation {
    uint32_t input;
    VEC(uint64_t) hashes;
};

static uint32_t about(uint32_t mean, struct bench_random *r) {
    return (uint32_t)MAX(bench_random_range(r, mean / 2, mean + mean / 2), 1);
}

/* One turn more. Full blocks stay, the last one is another when it was not full. */
static void grow(struct conversation *talk, const struct replay_synthetic *config,
                 uint64_t *next_hash, struct bench_random *r) {
    uint32_t more = about(config->input, r);
    if (talk->input + more > config->input_max)
        talk->input = 0;
    talk->hashes.count = talk->input / BENCH_TRACE_BLOCK;
    talk->input += more;
    while (talk->hashes.count * BENCH_TRACE_BLOCK < talk->input) {
        bool common = talk->hashes.count == 0;
        vec_push(&talk->hashes, common ? 0 : (*next_hash)++);
    }
}

void replay_synthetic_make(const struct replay_synthetic *config, struct bench_trace *out) {
    *out = (struct bench_trace){0};
    struct bench_random random = {config->seed};
    struct conversation *talks =
        config->conversations ? mem_calloc(config->conversations, sizeof *talks) : NULL;
    uint64_t next_hash = 1;
    double at = 0;
    for (size_t i = 0; i < config->requests; i++) {
        struct bench_trace_request request = {.at = at, .hash_first = out->hashes.count};
        if (talks) {
            struct conversation *talk =
                &talks[bench_random_range(&random, 0, config->conversations - 1)];
            grow(talk, config, &next_hash, &random);
            request.input = talk->input;
            request.hash_count = talk->hashes.count;
            for (size_t k = 0; k < talk->hashes.count; k++)
                vec_push(&out->hashes, talk->hashes.items[k]);
        } else {
            request.input = about(config->input, &random);
        }
        request.output = about(config->output, &random);
        vec_push(&out->requests, request);
        at -= log(bench_random_unit(&random)) * config->seconds / (double)config->requests;
    }
    for (uint32_t i = 0; i < config->conversations; i++)
        vec_release(&talks[i].hashes);
    mem_free(talks);
}
