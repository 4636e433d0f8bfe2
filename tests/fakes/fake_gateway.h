/*
 * fake_gateway.h - a gateway that submits requests over a real link, keeps to the rules of
 * delivery, and checks every token against fake_lm.h.
 *
 * A token is taken when epoch and attempt are current and its index is the next one; a gap asks for
 * a resend. When the scheduler is lost, every open request is submitted again with its tokens once
 * another is found. What is wrong is counted in `wrong`.
 *
 * Threading: one thread, which calls fake_gateway_run.
 */
#ifndef TESTS_FAKES_FAKE_GATEWAY_H
#define TESTS_FAKES_FAKE_GATEWAY_H

#include "base/error.h"
#include "proto/link.h"

struct fake_stream {
    struct u128 request;
    uint32_t attempt;
    uint32_t *tokens; /* owned: prompt and output */
    uint32_t prompt_count, count, max_tokens;
    enum wire_finish finish;
    enum wire_reject_code reject; /* 0: not refused */
    uint32_t cached_count;
    bool accepted, cancelled, open;
    int64_t submit_ms, first_ms, last_ms, longest_gap_ms;
};

struct fake_gateway {
    struct link_client *link;
    struct fake_stream *streams; /* owned */
    size_t stream_count, stream_cap;
    uint64_t wrong;       /* tokens that are not the model's, or past the end */
    uint64_t stale, gaps; /* runs of dead attempts; gaps seen */
    int registered, lost;
    struct {
        bool seen, draining;
        uint32_t model_count, replicas_ready, waiting, running;
        struct u128 bundle;
        uint64_t bundle_bytes;
    } status;
    struct {
        uint64_t wanted, arrived, wrong;
    } bundle;
    struct arena arena;
    struct buf out;
    bool no_ack;    /* acknowledge nothing */
    bool any_token; /* take tokens that are not the model's, too */
};

MUST_CHECK int fake_gateway_new(struct fake_gateway **out, const char *endpoint, struct error *err);
/* The same over tcp, with its key and the list that has the scheduler's. */
MUST_CHECK int fake_gateway_new_on_tcp(struct fake_gateway **out, const char *endpoint,
                                       const char *key_file, const char *allow_keys,
                                       struct error *err);
void fake_gateway_free(struct fake_gateway **gateway);
/* Dispatches for at most ms. */
void fake_gateway_run(struct fake_gateway *g, int64_t ms);
/* Submits a request whose prompt is made from `seed` (equal seeds, equal prompts); returns its
 * index. */
size_t fake_gateway_submit(struct fake_gateway *g, uint64_t seed, uint32_t prompt_count,
                           uint32_t max_tokens);
void fake_gateway_cancel(struct fake_gateway *g, size_t stream_idx);
void fake_gateway_fetch_bundle(struct fake_gateway *g); /* the one of the latest status */
/* streams neither finished nor refused */
size_t fake_gateway_open_count(const struct fake_gateway *g);
uint64_t fake_gateway_token_count(const struct fake_gateway *g);

#endif
