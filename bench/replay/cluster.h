/*
 * cluster.h - a trace replayed against the scheduler's core: virtual time, gateways that submit at the
 * trace's times and acknowledge every REPLAY_ACK_MS, and workers whose steps take what a cost model
 * says.
 *
 * The core is the real one, called as its process calls it: what came in since the last turn is
 * handed over, then comes one turn, at most one a millisecond. Messages take no time on their way.
 * Nothing fails here (tests/sim is for faults). A worker computes its plans in order, the next one
 * at once when the one before ends; how many it may have is steps_in_flight. Every answer has the
 * trace's length.
 *
 * A prompt's tokens follow from its hashes, so prompts share what their hashes say; without hashes
 * every prompt is its own. The answers' tokens are no part of later prompts. With several copies the
 * trace goes round: each copy but the first begins at another time of it, drawn by the seed, and its
 * prompts are its own. A tenant has whole conversations (prompts whose second hash is equal; without
 * hashes: single requests).
 *
 * One seed, one result, to the microsecond of virtual time. Threading: one.
 */
#ifndef REPLAY_CLUSTER_H
#define REPLAY_CLUSTER_H

#include "base/vec.h"
#include "cli/bench/trace.h"
#include "replay/cost.h"
#include "scheduler/core/sched.h"

enum {
    REPLAY_ACK_MS = 10,
    REPLAY_BEAT_MS = 250,
    REPLAY_VOCABULARY = 128256,
    REPLAY_STEPS_MAX = 8 /* of steps_in_flight */
};

struct replay_config {
    struct sched_config sched;
    struct replay_cost cost;
    uint32_t replicas;
    uint32_t slots;        /* of each replica, as are the next five */
    uint32_t block_tokens; /* of a KV block */
    uint32_t block_count;
    uint32_t max_step_tokens;
    uint32_t max_context;     /* longer requests are refused */
    uint32_t steps_in_flight; /* 1 to REPLAY_STEPS_MAX */
    uint32_t gateways;
    uint32_t tenants; /* 1: all requests are of one */
    uint32_t copies;  /* of the trace */
    double speed;     /* the trace's time runs so many times as fast */
    double until;     /* seconds of the trace that are replayed; 0: all */
    double warm;      /* virtual seconds before `window` begins */
    uint64_t seed;
    bool check; /* sched_check after every turn: for tests */
};

enum replay_state { REPLAY_OPEN, REPLAY_ANSWERED, REPLAY_REFUSED };
/* What became of one request. Microseconds of virtual time. */
struct replay_outcome {
    int64_t sent_us;
    int64_t first_us; /* its gateway has the first token */
    int64_t last_us;  /* and the finish */
    uint32_t request; /* of the trace */
    uint32_t copy;
    uint32_t tenant;
    uint32_t output; /* tokens that its gateway has */
    uint32_t cached; /* prompt tokens found in the cache when it was first placed */
    uint8_t state;   /* enum replay_state */
    uint8_t code;    /* enum wire_reject_code */
    bool dirty;      /* to be acknowledged */
};

/* Of a stretch of virtual time. */
struct replay_span {
    double seconds;     /* virtual */
    double busy;        /* share of the replicas' time that they computed */
    double cpu_seconds; /* processor time of this thread, the simulated peers' included */
    double core_share;  /* of it, in the core, by the wall */
    uint64_t turns;
    uint64_t submits, steps, acks, beats; /* events handed to the core; acks: requests named */
    uint64_t computed_tokens, output_tokens;
};

struct replay_result {
    VEC(struct replay_outcome) outcomes; /* by time of sending */
    /* of pieces of text: how many came so many milliseconds after the one before; the last is for all longer */
    VEC(uint64_t) gaps;
    struct replay_span window; /* from `warm` until the last request was sent */
    struct replay_span all;
    struct sched_counts counts; /* of the core, at the end */
    uint64_t digest;            /* of all outcomes: equal runs are equal */
    uint64_t faults;            /* messages that are not as the core promises: 0 */
    bool idle;                  /* nothing was left in the core */
};

/* Runs until every request is answered or refused, or nothing moves any more. *out is to be released.
 * The trace's requests must fit the bounds of a Submit (messages.h). */
void replay_run(const struct replay_config *config, const struct bench_trace *trace,
                struct replay_result *out);
/* Frees what a result holds. */
void replay_result_release(struct replay_result *result);

#endif
