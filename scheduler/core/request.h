/*
 * request.h - the record of a request, from its Submit until its gateway has everything.
 *
 * A record lives in one allocation with its sequences and copies of the message's arrays. It is
 * open while a sequence is not done; then a finished record, kept until the gateway has
 * acknowledged all, its time is over or the budget of bytes is. request_drop takes it out of every
 * list at once; requests_sweep frees it when no row of it is in flight.
 *
 * Invariants (sched_check asserts them):
 *   (1) open_count is the number of sequences without a finish; held_count of those held, and while
 *       one is held another one is open and leads.
 *   (2) Every record that is not open expires some day.
 *   (3) A dropped one is on no list but sched.dropped.
 */
#ifndef SCHEDULER_CORE_REQUEST_H
#define SCHEDULER_CORE_REQUEST_H

#include "base/vec.h"
#include "scheduler/core/sequence.h"

#define NEVER INT64_MAX

struct gateway;
struct model;
struct quota;
struct tenant;

struct request {
    struct u128 id;
    enum wire_request_kind kind;
    uint32_t attempt;
    struct gateway *gateway; /* NULL: detached, or its gateway is gone */
    struct list_node gateway_link;
    struct model *model;     /* NULL: not known yet */
    struct tenant *tenant;   /* set with model */
    struct quota *quota;     /* NULL: its tenant has no bounds (quota.h) */
    bool quota_counts;       /* it is one of the tenant's requests, not a further prompt of one */
    bool quota_open;         /* and counted as open */
    uint32_t weight;         /* of its tenant's share; more is more */
    struct bytes model_name; /* the bytes and arrays here are owned by this allocation */
    struct u128 revision;    /* of the model it began on; zero: has not */
    uint64_t token_end;      /* above all its output tokens: a replica's logits must be as wide */
    struct u128 tenant_id;   /* whose prefixes, bounds and streams */
    struct u128 share_id;    /* whose turns, slots, parts of steps and places: tenant's id */
    uint32_t block_holder;   /* who that is among those that hold blocks (block_pool.h) */
    struct u128 bundle;      /* that the prompt was encoded with; zero: not told */
    struct tokens prompt;
    struct wire_sampling sampling;
    struct u32s stop_tokens;
    struct bytes salt;
    struct bytes presentation;
    struct bytes stream;                 /* what its client calls it; empty: nothing */
    struct u128 stream_id;               /* its key in sched.stream_ids; zero: it is not there */
    uint64_t features;                   /* WIRE_FEATURE_ bits that its worker must have */
    enum wire_grammar_kind grammar_kind; /* WIRE_GRAMMAR_NONE: none */
    struct bytes grammar;
    struct u128 grammar_hash; /* keyed; zero: none */
    uint32_t max_tokens;      /* 0: its end is a vector */
    int32_t priority;         /* lower goes first of its tenant's */
    uint64_t arrival;         /* unique */
    int64_t deadline_at;      /* NEVER: none */
    int64_t submitted_at;     /* the turn it came in; not known while it is fresh */
    bool resumed;             /* was accepted before: goes around the bound of the queue */
    bool resumable;           /* runs on without its gateway (streams.h) */
    bool progress;            /* its gateway is told how far its prompt is (seq_tell_progress) */
    bool paused;              /* its client reads slowly; set by request_pause */
    bool validated;           /* against the model's width and capacity */
    bool dropped; /* no longer in the map; freed when its last row in flight has retired */
    bool fresh;   /* of this turn: may still be refused for the bound */
    struct list_node fresh_link;
    uint8_t rejected; /* enum wire_reject_code: a refused request whose record stays */
    uint8_t resend_count;
    uint32_t held_count;
    uint32_t open_count;

    /* Prefix hashes (place.h), for the geometry they were made for. */
    VEC(struct u128) hashes;
    struct u128 root;
    struct u128 hash_revision;
    uint32_t hash_block_tokens;
    bool hash_class_sensitive;
    bool hashed;

    /* One timer for all (timer.h): the heap's key is never later than what is due. */
    uint32_t timer_idx; /* UINT32_MAX: none */
    int64_t timer_at;
    int64_t retransmit_at;
    int64_t expire_at;
    int64_t unbound_until; /* refused when no worker that fits it has come until then */
    int64_t probe_at;
    uint32_t backoff_ms;

    struct list_node kept_link; /* of an account's: resumable ones that nobody reads */
    struct stream_owner *owner; /* NULL: somebody does, or it is not resumable */
    uint64_t kept_bytes;

    struct list_node record_link; /* finished requests, oldest first; or dropped ones */
    uint64_t record_bytes;
    size_t own_bytes;
    uint32_t sequence_count;
    struct sequence sequences[];
};

/* It asks whether tokens are made: before all others. */
static inline bool request_is_probe(const struct request *request) {
    return request->priority == WIRE_PRIORITY_PROBE;
}

/* Its prompt becomes a vector, and no token is made. */
static inline bool request_embeds(const struct request *request) {
    return request->kind != WIRE_GENERATE;
}

/* Who shares: an address, where its gateway tells one, else the tenant. */
static inline struct u128 submit_share_id(const struct wire_submit *submit) {
    return u128_is_zero(submit->share) ? submit->tenant : submit->share;
}

/* For its first token, while it is new, by its own deadline and, in a crowd, the server's bound;
 * INFINITY: as long as it takes. */
double request_most_wait_ms(const struct sched *s, const struct request *request, bool crowded);
/* 0, or why it is refused whatever its model. */
enum wire_reject_code submit_check(const struct wire_submit *submit);
/* A record of this message, which is copied, in the map and on its gateway's list. Its sequences
 * are on no list yet. NULL: memory is out. */
struct request *request_new(struct sched *s, struct gateway *gateway,
                            const struct wire_submit *submit);
/* Binds it to its model, when that is known, and queues its sequences. May reject it. */
void request_start(struct sched *s, struct request *request);
/* To its model, when that is known; nothing happens to one that is bound. May reject it. */
void request_bind(struct sched *s, struct request *request);
/* Checks it against its model, once the model's sizes are known. May reject it, or finish sequences
 * that are complete already. */
void request_validate(struct sched *s, struct request *request);
/* How a sequence has ended whose output is what its gateway holds; WIRE_FINISH_NONE: it goes on. */
enum wire_finish seq_held_finish(const struct sequence *q);
/* Binds and validates what waited for this model to be known, or for its sizes. */
void requests_bind_all(struct sched *s, struct model *model);
/* Its last replica is gone: those that never met one that was loaded are refused after the grace of a
 * model, as those that fitted it are. */
void requests_await_replica(struct sched *s, const struct model *model);
/* The gateway has it from now on; what was owed to the one before is on no list. */
void request_move(struct request *request, struct gateway *gateway);
/* Its gateway is gone, or its client: it runs on without. It must be resumable. */
void request_detach(struct sched *s, struct request *request);
/* Its client reads slowly, or does so no longer; its sequences stay where they are. */
void request_pause(struct sched *s, struct request *request, bool paused);
/* It is called `id` from now on, which must be free. */
void request_rename(struct sched *s, struct request *request, struct u128 id);
/* Its last sequence ended: the record is kept for those who have not got all of it. */
void request_finished(struct sched *s, struct request *request);
/* It was finished, but a sequence of it runs again. */
void request_reopen(struct sched *s, struct request *request);
/* After a sequence left its slot or was acknowledged: drops the record when nothing holds it. */
void request_review(struct sched *s, struct request *request);
/* Tells the gateway and ends all sequences; the record stays, to tell it again, unless it is of this
 * turn or has no gateway. */
void request_reject(struct sched *s, struct request *request, enum wire_reject_code code);
/* Memory that it holds, its sequences' tokens and log-probabilities included. */
uint64_t request_bytes(const struct request *request);
/* The message alone. model: whose queue is too long; NULL: not known. */
void reject_send(struct sched *s, const struct model *model, struct u128 gateway, struct u128 id,
                 uint32_t attempt, enum wire_reject_code code);
/* The same for a new request that its tenant's quota does not allow; to be asked again after so long. */
void reject_send_tenant(struct sched *s, struct u128 gateway, const struct wire_submit *submit,
                        enum wire_reject_code code, uint32_t retry_ms);
/* Ends all sequences and forgets the request; nobody is told. */
void request_drop(struct sched *s, struct request *request);
/* As request_drop; a gateway that has not got all of it is told, and submits it again from there. */
void request_forget(struct sched *s, struct request *request);
/* Its gateway has not acknowledged all there is. */
bool request_is_owed(const struct request *request);
/* Frees the dropped ones without rows in flight; all: also those with some. Nothing else frees. */
void requests_sweep(struct sched *s, bool all);

#endif
