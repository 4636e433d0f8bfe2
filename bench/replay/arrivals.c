#include "replay/arrivals.h"

#include <stdlib.h>

uint64_t replay_mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6))) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
    return x ^ (x >> 32);
}

static int compare_arrivals(const void *a, const void *b) {
    const struct replay_arrival *x = a, *y = b;
    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? -1 : 1;
    if (x->copy != y->copy)
        return x->copy < y->copy ? -1 : 1;
    return x->request < y->request ? -1 : x->request > y->request;
}

void replay_arrivals_make(const struct replay_config *config, const struct bench_trace *trace,
                          struct replay_arrivals *out) {
    size_t count = trace->requests.count;
    const struct bench_trace_request *requests = trace->requests.items;
    double last = count ? requests[count - 1].at : 0;
    double length = count ? last + last / (double)count : 0; /* and it begins again */
    *out = (struct replay_arrivals){0};
    for (uint32_t copy = 0; copy < config->copies; copy++) {
        double drawn = (double)(replay_mix(config->seed, copy) >> 11) / (double)(UINT64_C(1) << 53);
        double begin = copy ? drawn * length : 0;
        for (size_t i = 0; i < count; i++) {
            double at = requests[i].at - begin;
            at += at < 0 ? length : 0;
            struct replay_arrival arrival = {
                .at_us = (int64_t)(at * 1e6 / config->speed), .request = (uint32_t)i, .copy = copy};
            if (config->until <= 0 || at <= config->until)
                vec_push(out, arrival);
        }
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare_arrivals);
}

static const uint64_t *hashes_of(const struct bench_trace *trace,
                                 const struct bench_trace_request *r) {
    return r->hash_count ? trace->hashes.items + r->hash_first : NULL;
}

void replay_prompt_make(const struct replay_config *config, const struct bench_trace *trace,
                        const struct replay_arrival *arrival, struct replay_prompt *out) {
    const struct bench_trace_request *r = &trace->requests.items[arrival->request];
    const uint64_t *hashes = hashes_of(trace, r);
    uint64_t copy = replay_mix(config->seed, arrival->copy);
    vec_reserve(out, r->input);
    out->count = r->input;
    for (uint32_t at = 0, block = 0; at < r->input; block++) {
        uint64_t name =
            block < r->hash_count ? hashes[block] : replay_mix(~(uint64_t)arrival->request, block);
        uint64_t state = replay_mix(copy, name);
        uint32_t end = MIN(at + BENCH_TRACE_BLOCK, r->input);
        for (; at < end; at++, state += 0x9e3779b97f4a7c15u) {
            uint32_t drawn = (uint32_t)(state >> 32 ^ state);
            out->items[at] = (uint32_t)((uint64_t)drawn * REPLAY_VOCABULARY >> 32);
        }
    }
}

uint32_t replay_tenant(const struct replay_config *config, const struct bench_trace *trace,
                       const struct replay_arrival *arrival) {
    const struct bench_trace_request *r = &trace->requests.items[arrival->request];
    const uint64_t *hashes = hashes_of(trace, r);
    uint64_t key = hashes ? hashes[r->hash_count > 1] : arrival->request;
    return (uint32_t)(replay_mix(replay_mix(config->seed, arrival->copy), key) % config->tenants);
}
