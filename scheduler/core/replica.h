/*
 * replica.h - the ranks that compute one model together. It starts when all of them have
 * registered, and its registration is void for all when one is lost.
 *
 * Invariants (sched_check asserts them): (1), (2), (3) and (5) of sched.h; and only a READY replica
 * has anything in slots or in flight.
 */
#ifndef SCHEDULER_CORE_REPLICA_H
#define SCHEDULER_CORE_REPLICA_H

#include "base/vec.h"
#include "scheduler/core/block_pool.h"
#include "scheduler/core/grammars.h"
#include "scheduler/core/sequence.h"
#include "scheduler/core/step_cost.h"

enum { SCHED_MAX_RANKS = 64, SCHED_MAX_STEPS_IN_FLIGHT = 8 };

struct model;
struct worker;

enum replica_state {
    REPLICA_GATHERING, /* ranks missing or loading */
    REPLICA_FENCING,   /* complete, but waits for the end of the process it replaces */
    REPLICA_READY,
    REPLICA_STALE, /* asked to register anew */
    REPLICA_DOWN
};

/* A plan that is not answered yet, and its rows. */
struct flight_row {
    struct sequence *sequence;
    uint32_t slot;
    uint32_t token_count;
    uint32_t draft_count; /* behind them (draft.h) */
    uint32_t snapshot;    /* taken of it before the row; BLOCK_NONE */
    bool samples;         /* reaches the last known token, and one more follows */
    bool embeds;          /* reaches the prompt's end, and its vector follows */
};
struct flight {
    uint64_t number;
    int64_t sent_at;
    double expected_ms; /* what it takes, as steps have cost; 0: not known */
    uint32_t row_count;
    uint32_t token_total; /* drafts among them: */
    uint32_t draft_total;
    struct flight_row *rows; /* owned by the replica; slot_count of them */
};

enum { REPLICA_ROW_LOAD = 16 }; /* what a sequence in a slot costs its neighbours, in positions */

struct replica {
    /* What every turn asks of every replica stands together. */
    enum replica_state state; /* set by replica.c alone */
    uint32_t running_count;
    uint32_t flight_count;
    uint32_t steps_in_flight;
    uint32_t free_slot_count;
    uint32_t resume_count;         /* of those running, recomputing */
    struct list_node plan_link;    /* of sched.to_plan */
    int64_t slot_kept_until;       /* the last free one is for a tenant that has none */
    struct suspect_group *testing; /* reserved for this group */
    uint64_t load;                 /* sum of sequence.load of those in slots */
    double row_positions;     /* what a row costs a step, in positions of a prompt; 0: not known */
    uint32_t prompt_count;    /* of those in slots, with more to compute than the next token */
    bool grammar_turned_away; /* a sequence may be parked whose grammar was not asked for */
    bool draining;            /* takes nothing new, but what no other replica may have (place.h) */
    bool caching;             /* its blocks can be found by hash */
    bool class_sensitive;
    /* And what each placing asks of most of them. */
    struct block_pool pools[SCHED_MAX_GROUPS];

    struct u128 id;
    struct list_node unready_link; /* of sched.unready */
    struct model *model;
    uint64_t drain_arrival; /* the last request that came before it drained */
    uint32_t rank_count;
    uint32_t stage_count;                  /* rank_count / stage_count ranks a stage */
    struct worker *ranks[SCHED_MAX_RANKS]; /* stage by stage; NULL: not there */
    struct u128 rank_ids[SCHED_MAX_RANKS];
    struct u128 fenced; /* instance whose end is awaited; zero: none */
    int64_t fence_until;
    int64_t down_since;
    int64_t asked_at; /* last time its ranks were asked to register */

    /* What its ranks have in common (capabilities.h) */
    struct u128 revision, bundle, fingerprint;
    uint64_t bundle_bytes;
    uint32_t slot_count, max_step_tokens, max_context, logits_width;
    uint32_t group_count;
    uint32_t capacity; /* tokens that one sequence can have here */
    struct wire_vectors vectors;
    uint64_t features;       /* WIRE_FEATURE_ bits of all ranks */
    uint32_t snapshot_count; /* 0: layers carry no state, or it is not kept */
    uint32_t draft_max;      /* of a plan; 0: it takes none */
    struct wire_kv_group groups[SCHED_MAX_GROUPS];

    struct block_pool snapshots;
    uint64_t table_bytes;      /* of the pools and what goes with them */
    struct sequence **slots;   /* owned [slot_count] */
    uint32_t *free_slots;      /* owned stack */
    struct sequence **running; /* owned [slot_count]: those in slots, in no order */
    uint32_t cursor;           /* where decode rows begin; in running */
    uint32_t leaving_count;    /* of them, leaving */
    struct flight flights[SCHED_MAX_STEPS_IN_FLIGHT]; /* ring */
    uint32_t flight_first;
    uint64_t plan_number;       /* last one sent; 0: none since it registered */
    double ms_per_token;        /* observed, decaying maximum: for what may be stuck */
    double ms_per_step;         /* observed, mean */
    double ms_per_prompt_token; /* by which each made a step longer; observed, mean; 0: none yet */
    /* in the step in which it was cheapest: mostly prompt and large, where the fixed part weighs least,
     * as that of a prompt whose beginning is not found; 0: none yet */
    double ms_per_position;
    struct step_cost cost; /* observed */
    int64_t answered_at;   /* when its last result came */
    double share_ms;       /* the length of the last step that tenants shared, */
    int64_t share_until;   /* and until when those of one alone are no longer */

    VEC(struct replica_grammar) grammars;
    uint32_t grammars_asked;

    /* To tell with the next plan */
    VEC(uint32_t) released_slots;
    VEC(uint32_t) sealed_ids;
    VEC(struct u128) sealed_hashes;

    /* Scratch of prefix lookups (place.h) */
    VEC(uint32_t) hits;
    struct u128 hit_chain; /* name of the last of them, or the root */
    uint32_t hit_snapshot; /* with snapshots: of the last of them */
};

/* The replica of this id, made when new; one of another model or shape is freed first. */
struct replica *replica_get(struct sched *s, struct u128 id, struct model *model,
                            uint32_t rank_count, uint32_t stage_count);
/* Do both give a prompt's blocks the same names (request_hash)? */
static inline bool replica_names_as(const struct replica *a, const struct replica *b) {
    return a->caching == b->caching && a->class_sensitive == b->class_sensitive &&
           a->groups[0].block_tokens == b->groups[0].block_tokens &&
           u128_equal(a->revision, b->revision);
}
/* Something is in its slots, and a further step may be in flight. What came to be so is told to
 * replica_to_plan. */
static inline bool replica_takes_plan(const struct replica *r) {
    return r->state == REPLICA_READY && r->running_count && r->flight_count < r->steps_in_flight;
}
/* When all that is in flight will have been computed, as steps have cost; now: nothing is, or it is not
 * known, as of a pipeline, whose steps overlap. */
int64_t replica_free_at(const struct sched *s, const struct replica *r);
/* It may take a plan now: plan_all looks at it, until it takes none. */
void replica_to_plan(struct sched *s, struct replica *r);
/* Positions that those in slots have to compute still. */
static inline uint64_t replica_backlog(const struct replica *r) {
    return r->load - (uint64_t)REPLICA_ROW_LOAD * r->running_count;
}
/* Its sequences requeue, its workers are forgotten. */
void replica_free(struct sched *s, struct replica *r);
/* Have all ranks registered, and loaded? */
bool replica_is_complete(const struct replica *r);
/* Into use, if it is complete and no fence is awaited: plan numbers, slots and pools begin anew. */
void replica_try_start(struct sched *s, struct replica *r);
/* The registration is void; sequences requeue with the tokens committed, and what was in flight is
 * lost. attributable: by a fault that a request may have caused, so those in flight become
 * suspects. */
void replica_fail(struct sched *s, struct replica *r, enum replica_state state, bool attributable);
/* It takes nothing new from now on. */
void replica_drain(struct sched *s, struct replica *r);
/* Plans or results were lost: its ranks are asked to register anew. */
void replica_out_of_step(struct sched *s, struct replica *r);
/* What is due now; frees what has been down for long, or while another replica of its model is ready,
 * and models that nobody needs. */
void replicas_run(struct sched *s);
/* When replicas_run has something to do; NEVER. */
int64_t replicas_next(const struct sched *s);

#endif
