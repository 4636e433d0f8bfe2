/*
 * deliver.h - what gateways are owed: tokens committed and not sent, finishes, answers to a Submit;
 * once a turn, one message a gateway.
 *
 * Invariants: (6) of sched.h. What is owed and can be sent is on its gateway's list.
 */
#ifndef SCHEDULER_CORE_DELIVER_H
#define SCHEDULER_CORE_DELIVER_H

#include "base/vec.h"
#include "scheduler/core/request.h"

/* Columns of the message under construction; capacity stays. */
struct delta_build {
    VEC(struct u128) requests;
    VEC(struct u128) fingerprints;
    VEC(uint32_t) attempts;
    VEC(uint32_t) choices;
    VEC(uint32_t) indexes;
    VEC(uint32_t) token_counts;
    VEC(uint32_t) finishes;
    VEC(uint32_t) cached_counts;
    VEC(uint32_t) flags;
    VEC(uint32_t) queued_ms;
    VEC(uint32_t) prefill_ms;
    VEC(uint32_t) tokens;
    VEC(uint32_t) tops;
    VEC(uint32_t) ids;
    VEC(float) values;
    VEC(uint32_t) vector_widths;
    VEC(float) vectors;
    VEC(float) sampler_states;
    VEC(uint32_t) prompt_counts;
    bool any_logprobs, any_states;
    bool any_first; /* first tokens, whose times are told */
    bool any_progress;
};

/* Onto its gateway's list, if it has something to send and can. */
void seq_dirty(struct sched *s, struct sequence *q);
/* If its request asks for it and nothing has come of its prompt yet: its gateway is told how much of it
 * has been computed. Told once; what is lost is not told again. */
void seq_tell_progress(struct sched *s, struct sequence *q);
/* Sends again from this output token on. */
void seq_rewind(struct sched *s, struct sequence *q, uint32_t index);
/* Is something of it not sent, or not acknowledged? */
bool seq_is_owed(const struct sequence *q);
/* Sends everything that is on a gateway's list, silent ones' apart. */
void deliver_flush(struct sched *s);
/* Frees the columns that messages were built in. */
void deliver_release(struct sched *s);

/* Words kept for each token's log-probabilities: top count, ids[1 + most], values[1 + most]. 0: none
 * were asked for. */
uint32_t logprob_stride(const struct request *request);
/* Keeps those of the token that is appended next: entry `token_idx` of from, whose ids and values
 * begin at `entry`. */
void logprobs_append(struct sched *s, struct sequence *q, const struct wire_logprobs *from,
                     size_t token_idx, size_t entry);

#endif
