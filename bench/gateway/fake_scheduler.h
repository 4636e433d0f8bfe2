/*
 * fake_scheduler.h - a scheduler and workers in one, for benchmarks and tests of the gateway: it
 * makes tokens out of arithmetic.
 *
 * It speaks the wire over a real link: Status, bundles, Submit, Deltas with acknowledgements,
 * Resend, Cancel, Pause. The tokens of a sequence depend on the prompt, the seed and the place
 * alone, so a sequence resubmitted to another fake goes on as it would have. It can lose and repeat
 * Deltas on purpose.
 *
 * Threading: runs on a thread of its own; calls come from the one that started it.
 */
#ifndef BENCH_GATEWAY_FAKE_SCHEDULER_H
#define BENCH_GATEWAY_FAKE_SCHEDULER_H

#include "base/error.h"
#include "proto/messages.h"

struct fake_config {
    const char *endpoint;
    const char *model_dir; /* its bundle is served */
    const char *model_name;
    /* at least so long a step; 0: as fast as acknowledgements come */
    uint32_t step_us;
    uint32_t run_tokens; /* of a sequence in a step, in one run */
    /* tokens of a sequence that may be unacknowledged; 0: no bound */
    uint32_t window;
    uint32_t token_low, token_high; /* ids it makes */
    uint32_t max_context, logits_width;
    uint32_t drop_percent, repeat_percent; /* of Deltas messages */
    /* sequences; past it new requests are rejected with OVERLOADED; 0: none */
    uint32_t waiting_max;
    /* Status says that no replica is ready, and nothing is made */
    bool no_replicas;
    bool hangs;               /* no step is made before fake_set_stepping() */
    bool silent_about_models; /* Status names none */
    bool with_logprobs;       /* make some when asked */
    bool echo;                /* the answer is the prompt itself, then a stop token */
    bool takes_any;           /* tokens that a gateway holds may be others than the fake's own */
    struct fake_load {
        uint32_t running, waiting, slots, block_tokens;
        uint64_t blocks, blocks_used;
    } load; /* what Status tells of the model */
};
void fake_config_init(struct fake_config *config);

struct fake_counts {
    uint32_t sequences, paused; /* now */
    uint64_t submits, resumed, emitted, unknown, cancels, resends, acks, tokens, steps;
    uint64_t choice_cancels; /* of cancels, those of one choice */
};

struct fake_scheduler;
/* returns owned, or NULL */
struct fake_scheduler *fake_start(const struct fake_config *config, struct error *err);
/* Ends at once, telling nobody: as kill -9 would. */
void fake_kill(struct fake_scheduler **fake);
struct fake_counts fake_counts(const struct fake_scheduler *fake);
/* Whether steps are made; false is a worker that hangs. */
void fake_set_stepping(struct fake_scheduler *fake, bool stepping);
/* Whether Status tells of a ready replica. */
void fake_set_ready(struct fake_scheduler *fake, bool ready);
/* The token of a place, for checks. */
uint32_t fake_token(const struct fake_config *config, const uint32_t *prompt, size_t prompt_count,
                    uint64_t seed, uint32_t choice, uint32_t index);

#endif
