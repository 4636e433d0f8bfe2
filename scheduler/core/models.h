/*
 * models.h - the models that workers serve: known as long as one has a worker or a request.
 */
#ifndef SCHEDULER_CORE_MODELS_H
#define SCHEDULER_CORE_MODELS_H

#include "base/vec.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/list.h"
#include "scheduler/core/waiting.h"

/* What was done for a model, as long as it is known. */
struct model_counts {
    uint64_t steps, step_tokens, output_tokens, prefix_queries, prefix_hits, preemptions;
    uint64_t evictions; /* of pools that are gone */
    uint64_t compute_us;
    struct wire_step_bucket step_buckets[WIRE_STEP_BUCKETS]; /* answered ones */
};

struct model {
    struct list_node link; /* of sched.models */
    char *name;            /* owned */
    VEC(struct replica *) replicas;
    struct waiting waiting;
    /* of the replica registered last, of those that are ready and do not drain if there are any */
    struct u128 revision;
    struct u128 bundle;
    uint64_t bundle_bytes;
    uint32_t logits_width;       /* least of its replicas'; 0: not known yet */
    uint32_t max_context;        /* most of its replicas' */
    uint32_t block_tokens;       /* of group 0 of the replica registered last; 0: not known yet */
    uint32_t max_capacity;       /* most of its replicas'; 0: not known yet */
    uint64_t features;           /* those that one of its replicas has at least */
    struct wire_vectors vectors; /* of the replica registered last */
    bool names_alike; /* its ready replicas give a prompt's blocks the same names (request_hash) */
    uint32_t request_count;
    uint32_t waiting_new;       /* sequences that wait and never ran */
    uint32_t slot_total;        /* of its replicas */
    uint32_t turned_away_count; /* replicas where grammar_turned_away */
    bool took_blocks;           /* in this turn, from a tenant with more than its share */
    struct model_counts counts;
    struct admission admission;
    int64_t empty_since; /* no live replica since; NEVER: there is one */
};

/* The model of this name; the only one for an empty name. NULL: none. One whose last replica is
 * forgotten, and that is here for its requests alone, is not found: who came now would keep it, too. */
struct model *model_find(struct sched *s, struct bytes name);
/* The model of this name, made when new. Copies the name. */
struct model *model_get(struct sched *s, struct bytes name);
/* It has no replicas and no requests. */
void model_free(struct sched *s, struct model *model);
/* How many sequences of it wait and never ran; NULL: of no known model. */
uint32_t *model_waiting_new(struct sched *s, struct model *model);
/* Where the tenants of its requests are; NULL: of requests of no known model. */
struct waiting *model_waiting(struct sched *s, struct model *model);
/* Its sizes, revision and emptiness follow from its replicas. */
void model_review(struct sched *s, struct model *model);

#endif
