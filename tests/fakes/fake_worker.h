/*
 * fake_worker.h - a worker of one rank that computes with fake_lm.h: slots, plans, results, held
 * blocks, a bundle, all over a real link.
 *
 * It is strict: a plan that no honest scheduler would send (an unknown slot, blocks that do not
 * cover the rows, a number out of turn) is counted in `faults` and answered by registering anew.
 *
 * Threading: one thread, which calls fake_worker_run.
 */
#ifndef TESTS_FAKES_FAKE_WORKER_H
#define TESTS_FAKES_FAKE_WORKER_H

#include "base/error.h"
#include "proto/messages.h"

struct fake_worker_config {
    const char *endpoint;
    const char *key_file, *allow_keys; /* for tcp */
    struct u128 instance;              /* zero: drawn */
    uint32_t slots, blocks, block_tokens, max_step_tokens, max_context,
        steps_in_flight;  /* 0: 16, 512, 16, 64, 2048, 2 */
    int64_t step_ms;      /* a step takes so long */
    int64_t load_ms;      /* it registers as loading first */
    size_t bundle_bytes;  /* of a bundle made of arithmetic */
    uint32_t abort_token; /* a prompt that begins with it ends the process by abort(); 0: none */
};

struct fake_worker;
MUST_CHECK int fake_worker_new(struct fake_worker **out, const struct fake_worker_config *config,
                               struct error *err);
void fake_worker_free(struct fake_worker **worker);
/* Works for ms (-1: for ever). */
void fake_worker_run(struct fake_worker *worker, int64_t ms);
uint64_t fake_worker_faults(const struct fake_worker *worker);
uint64_t fake_worker_rows(const struct fake_worker *worker); /* positions computed */

/* The byte at a place of every fake bundle, and the hash of one of so many bytes. */
uint8_t fake_bundle_byte(size_t at);
struct u128 fake_bundle_hash(size_t len);

#endif
