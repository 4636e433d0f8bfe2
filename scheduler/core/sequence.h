/*
 * sequence.h - one choice of a request while it is generated: its tokens, and how far it has been
 * computed.
 *
 * Progress is an interval. computed_lo positions are answered, computed_hi are planned; token_count
 * tokens are known, tokens_hi with those that rows in flight may still sample. Blocks cover
 * computed_hi and are named up to computed_lo.
 *
 * Where it is (waiting, in a slot, done) is sequence_state.h's, its blocks are sequence_blocks.h's,
 * and what its gateway has been told is deliver.h's.
 *
 * Invariants: (2), (3), (4) and (8) of sched.h.
 */
#ifndef SCHEDULER_CORE_SEQUENCE_H
#define SCHEDULER_CORE_SEQUENCE_H

#include "proto/messages.h"
#include "scheduler/core/draft.h"
#include "scheduler/core/list.h"
#include "scheduler/core/sched.h"
#include "scheduler/core/word_pool.h"

enum { SCHED_MAX_GROUPS = 4, SLOT_NONE = UINT32_MAX, SEQ_NOT_TOLD = UINT32_MAX };

struct replica;
struct request;
struct suspect_group;

/* sequence_state.h says what each means, and moves between them. */
enum seq_state {
    SEQ_NEW,        /* made; on no list yet */
    SEQ_HELD,       /* waits until its sibling has computed the prompt they share */
    SEQ_QUEUED,     /* in its model's queue */
    SEQ_PARKED,     /* may not run now */
    SEQ_PLACED,     /* in a slot; its worker has not been told */
    SEQ_RUNNING,    /* in a slot, and its worker has it */
    SEQ_PREEMPTED,  /* leaves its slot when its rows have retired, and is enqueued */
    SEQ_RESTARTING, /* the same, but tokens of those rows do not count */
    SEQ_ENDING,     /* over; leaves its slot when its rows have retired */
    SEQ_DONE,       /* over */
    SEQ_STATE_COUNT
};

struct block_table {
    struct words ids;    /* block ids by position; BLOCK_NONE once behind a window */
    uint32_t count;      /* blocks so far */
    uint32_t sent_count; /* of these, the worker knows */
    uint32_t first;      /* blocks before it are behind the window */
};

struct sequence {
    struct request *request;
    struct replica *replica; /* while it is in a slot */
    uint64_t number;         /* unique in this scheduler */
    uint32_t choice;
    uint32_t slot;     /* of the replica; SLOT_NONE */
    uint32_t load;     /* what it adds to the replica's: seq_load_review; 0: not in a slot */
    uint32_t run_idx;  /* in replica->running */
    uint8_t state;     /* enum seq_state; this and the next three: set by sequence_state.c alone */
    uint8_t finish;    /* enum wire_finish */
    int64_t placed_at; /* in its slot */
    bool started;      /* was in a slot before, or had ended and goes on: no new work */
    bool recomputing;  /* holds one of its replica's resume credits */
    bool overdue;      /* with its replica's last plan, see admission.h; of prompts alone */
    bool gave_way;     /* to a probe; that is asked of it once */

    /* Tokens: prompt, then output. words is empty before the first admission when nothing was
     * emitted: then see the request's prompt. */
    struct words words;
    uint32_t prompt_count; /* the request's */
    uint32_t token_count;  /* known: prompt_count + output */
    uint32_t tokens_hi;    /* with those that rows in flight may sample */
    uint32_t computed_lo;
    uint32_t computed_hi;
    uint32_t rows_in_flight;
    uint32_t max_total; /* most tokens it may have on this replica */
    uint64_t planned;   /* number of the plan that last had a row of it */
    struct sequence_draft draft;
    struct block_table tables[SCHED_MAX_GROUPS];
    uint32_t snapshot;        /* its state is restored from this one on admission; BLOCK_NONE */
    uint32_t sealed_count;    /* blocks of group 0 hashed so far */
    struct u128 chain;        /* hash of the last of them, or the root */
    uint32_t recompute_until; /* tokens known when it was placed */

    /* Delivery (deliver.h), counted in output tokens; a finish counts one. */
    uint32_t sent;      /* falls back to acked when it has to be sent again */
    uint32_t acked;     /* the gateway has them */
    uint32_t sent_high; /* most ever sent in this attempt: nobody can acknowledge more */
    bool finish_sent;
    bool accepted_due;      /* owes an ACCEPTED: the answer to a Submit, or a probe */
    bool progress_due;      /* its gateway is to be told how far its prompt is */
    bool quiet;             /* ended on the gateway's wish: nothing more is told */
    struct list_node dirty; /* of its gateway: has something to send */
    struct words logprobs;  /* logprob_stride words a token from logprob_base on */
    uint32_t logprob_base;
    struct words vector;   /* f32: what its prompt became, told with its finish */
    uint32_t vector_width; /* 0: it has not become one */
    /* where a sampler steers: floats, behind each token from logprob_base on, and before those */
    struct words sampler_states;
    float first_state;
    uint32_t cached_count;   /* prompt tokens found in the cache when it was first placed */
    uint32_t shared_count;   /* of group 0: blocks in use that it found when it was last placed */
    uint32_t queued_ms;      /* from its request's Submit until it was first placed */
    uint32_t prefill_ms;     /* from there until its first token was told; SEQ_NOT_TOLD: not yet */
    struct u128 fingerprint; /* of tokens from fingerprint_from on */
    struct u128 older_fingerprint; /* of those before */
    uint32_t fingerprint_from;

    /* Queues (waiting.h) */
    struct list_node link; /* of the parked list */
    uint32_t heap_idx;
    uint32_t recompute_cost; /* key among resumed ones: positions to compute again */

    /* Poison (poison.h) */
    uint32_t deaths;
    uint32_t danger_until;       /* cleared when it has computed this position */
    struct suspect_group *group; /* NULL: not under suspicion */
    struct list_node group_link;
};

/* Tokens of output that are known. */
static inline uint32_t seq_output_count(const struct sequence *q) {
    return q->token_count - q->prompt_count;
}
/* Its token_count known tokens. Valid until a token is added. */
const uint32_t *seq_tokens(const struct sequence *q);
/* Replaces its tokens by the prompt and this output, which is copied; sampler_state is what a
 * sampler that steers has behind it. */
void seq_set_output(struct sched *s, struct sequence *q, struct tokens output, float sampler_state);
/* Of a sampler that steers: the state behind the first `count` tokens of output. */
float seq_sampler_state(const struct sequence *q, uint32_t count);
/* The state behind the token that is appended next. */
void seq_add_sampler_state(struct sched *s, struct sequence *q, float state);
/* Adds one token of output. */
void seq_append(struct sched *s, struct sequence *q, uint32_t token);

/* Positions to compute before somebody that joins it on its replica; not in a slot: 0. A row costs
 * its neighbours something (REPLICA_ROW_LOAD) even when it has a single one to compute. */
uint32_t seq_load(const struct sequence *q);
/* Its replica's load follows what has just changed of it: slot, tokens or planned positions. */
void seq_load_review(struct sequence *q);

/* What is queued or parked goes into a free slot of r, with the prefix that prefix_find has found
 * there and blocks for all its known tokens: r has room (place.h). */
void seq_place(struct sched *s, struct sequence *q, struct replica *r);
/* A row of token_count positions of it is in the plan with this number. samples: it reaches the
 * last token, so one more will be known. */
void seq_row_planned(struct sequence *q, uint64_t plan, uint32_t token_count, bool samples);

#endif
