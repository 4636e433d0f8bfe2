/*
 * state.h - what the scheduler's core remembers. Private to core/: the process and its tests use sched.h.
 *
 *     sched ─┬─ gateways ── requests ── sequences (one a choice)
 *            └─ models ─┬─ waiting (queues of sequences)
 *                       └─ replicas ── workers (ranks), block pools, slots, flights (plans not answered yet)
 *
 * A sequence's life:  HELD ─► QUEUED ─► SLOT ─► DONE;  PARKED when it may not run now; SLOT ─► QUEUED when preempted or
 * its replica fell. In a slot it leaves in two moves: seq_leave() marks it (no new rows), and when its last row in
 * flight has retired its blocks and slot return. Everything a sequence has computed is told by an interval: computed_lo
 * (answered) to computed_hi (planned).
 */
#ifndef SCHEDULER_CORE_STATE_H
#define SCHEDULER_CORE_STATE_H

#include "base/vec.h"
#include "scheduler/core/block_pool.h"
#include "scheduler/core/chain.h"
#include "scheduler/core/id_map.h"
#include "scheduler/core/list.h"
#include "scheduler/core/sched.h"
#include "scheduler/core/store.h"

enum { SCHED_MAX_GROUPS = 4, SCHED_MAX_RANKS = 64, SCHED_MAX_STEPS_IN_FLIGHT = 8, SLOT_NONE = UINT32_MAX };
#define NEVER INT64_MAX

struct request;
struct replica;

/* ---- Sequences ---- */

enum place { PLACE_NEW, PLACE_HELD, PLACE_QUEUED, PLACE_PARKED, PLACE_SLOT, PLACE_DONE };
enum leave {
    LEAVE_NOT,
    LEAVE_REQUEUE /* tokens in flight still count */,
    LEAVE_RESTART /* they do not; requeue */,
    LEAVE_DONE
};
enum counted { COUNTED_NOT, COUNTED_NEW, COUNTED_RESUMED };

struct block_table {
    struct words ids;    /* block ids by position; BLOCK_NONE once behind a window */
    uint32_t count;      /* blocks so far */
    uint32_t told_count; /* of these, the worker knows */
    uint32_t first;      /* blocks before it are behind the window */
};

struct sequence {
    struct request *request;
    struct replica *replica;        /* PLACE_SLOT only */
    uint64_t number;                /* unique in this scheduler */
    uint32_t choice, slot, run_idx; /* run_idx: in replica->running */
    uint8_t place, leave, counted, finish;
    bool admitted;    /* the worker has been told */
    bool started;     /* was in a slot before */
    bool recomputing; /* holds one of its replica's resume credits */

    /* Tokens: prompt, then output. words is empty before the first admission when nothing was emitted: then see the
     * request's prompt. */
    struct words words;
    uint32_t token_count; /* known; prompt_count + output */
    uint32_t tokens_hi;   /* with those that rows in flight may sample */
    uint32_t computed_lo, computed_hi;
    uint32_t rows_in_flight, max_total;
    uint64_t planned; /* number of the plan that last had a row of it */
    struct block_table tables[SCHED_MAX_GROUPS];
    uint32_t snapshot;        /* its state is restored from this one on admission; BLOCK_NONE */
    uint32_t sealed_count;    /* blocks of group 0 hashed so far */
    struct u128 chain;        /* hash of the last of them, or the root */
    uint32_t recompute_until; /* tokens known when it was placed */

    /* Delivery, counted in output tokens; a finish counts one. */
    uint32_t sent, acked; /* sent falls back to acked when it has to be sent again */
    uint32_t sent_high;   /* most ever sent in this attempt: nobody can acknowledge more */
    bool finish_sent;
    bool accepted_due;     /* owes an ACCEPTED: the answer to a Submit, or a probe */
    bool quiet;            /* ended on the gateway's wish: nothing more is told */
    struct link dirty;     /* of its gateway: has something to send */
    struct words logprobs; /* (1 + 2 * (1 + top)) words a token from logprob_base on */
    uint32_t logprob_base;
    uint32_t cached_count;
    struct u128 fingerprint, older_fingerprint; /* of tokens from fingerprint_from on, and of those before */
    uint32_t fingerprint_from;

    /* Queues */
    struct link link; /* parked list, or its suspect group's members */
    uint32_t heap_idx;
    uint32_t recompute_cost; /* key among resumed ones */

    /* Poison */
    uint32_t deaths, danger_until;
    struct suspect_group *group; /* NULL: not under suspicion */
    struct link group_link;
};

/* ---- Requests ---- */

struct request {
    struct u128 id;
    uint32_t attempt;
    struct gateway *gateway; /* NULL: detached, or its gateway is gone */
    struct link gateway_link;
    struct model *model;     /* NULL: not known yet */
    struct tenant *tenant;   /* set with model */
    struct bytes model_name; /* the bytes and arrays here are owned by this allocation */
    struct u128 revision, tenant_id;
    struct tokens prompt;
    struct wire_sampling sampling;
    struct u32s stop_tokens;
    struct bytes salt, presentation;
    uint32_t max_tokens;
    int32_t priority;
    uint64_t arrival;
    int64_t deadline_at; /* NEVER: none */
    bool resumed, resumable, paused;
    bool validated; /* against the model's width and capacity */
    bool dropped;   /* no longer in the map; freed when its last row in flight has retired */
    bool fresh;     /* of this turn: may still be refused for the bound */
    struct link fresh_link;
    uint8_t rejected; /* enum wire_reject_code: a refused request whose record stays */
    uint8_t resend_count;
    uint32_t held_count; /* sequences behind their sibling */
    uint32_t open_count; /* sequences not done */

    /* Prefix hashes for the geometry they were made for. */
    VEC(struct u128) hashes;
    struct u128 root, hash_revision;
    uint32_t hash_block_tokens;
    bool hash_class_sensitive, hashed;

    /* One timer for all: the heap's key is never later than what is due. */
    uint32_t timer_idx;
    int64_t timer_at, retransmit_at, expire_at, unbound_until, probe_at;
    uint32_t backoff_ms;

    struct link record_link; /* finished requests, oldest first */
    uint64_t record_bytes;
    size_t own_bytes;
    uint32_t sequence_count;
    struct sequence sequences[];
};

/* ---- Waiting ---- */

struct tenant {
    struct u128 id;
    uint64_t served; /* tokens computed for it, raised to the least of the others when it comes back */
    uint32_t request_count;
    uint32_t idx;                /* in waiting.tenants */
    VEC(struct sequence *) heap; /* by priority, then arrival */
};
struct waiting {
    VEC(struct tenant *) tenants; /* owned */
    struct id_map tenant_ids;
    VEC(struct sequence *) resumed; /* heap by priority, least recompute, arrival */
    uint32_t count;
    uint64_t floor; /* served count of the tenant picked last */
};

/* ---- Models, replicas, workers ---- */

struct model {
    struct link link;
    char *name; /* owned */
    VEC(struct replica *) replicas;
    struct waiting waiting;
    struct u128 revision, bundle; /* of the replica registered last */
    uint64_t bundle_bytes;
    uint32_t logits_width, max_context, max_capacity;
    uint32_t request_count;
    int64_t empty_since; /* no live replica since; NEVER: there is one */
};

enum replica_state {
    REPLICA_GATHERING, /* ranks missing or loading */
    REPLICA_FENCING,   /* complete, but waits for the end of the process it replaces */
    REPLICA_READY,
    REPLICA_STALE, /* asked to register anew */
    REPLICA_DOWN
};

/* What a rank's Hello says of itself; the replica is what all of its ranks have in common. */
struct offer {
    struct u128 revision, fingerprint;
    uint32_t slot_count, max_step_tokens, max_context, logits_width, steps_in_flight, group_count, snapshot_count;
    bool class_sensitive;
    struct wire_kv_group groups[SCHED_MAX_GROUPS];
    VEC(uint32_t) held_blocks;
    VEC(struct u128) held_hashes;
    uint8_t comm_id[WIRE_COMM_ID_MAX];
    uint32_t comm_id_len;
};

struct worker {
    struct u128 instance;
    uint32_t pid, rank, incarnation;
    bool loading, registered;
    struct replica *replica;
    struct offer offer;
    uint64_t progress;    /* of its last heartbeat */
    uint32_t idle_beats;  /* heartbeats that say idle, or waiting for another rank, while plans are out */
    uint32_t stuck_beats; /* heartbeats past the deadline of one step */
    int64_t asked_at;     /* last time it was asked to register */
};

struct flight_row {
    struct sequence *sequence;
    uint32_t slot, token_count;
    uint32_t snapshot; /* taken of it before the row; BLOCK_NONE */
    bool samples;
};
struct flight {
    uint64_t number;
    int64_t sent_at;
    uint32_t row_count, token_total;
    struct flight_row *rows; /* owned by the replica; slot_count of them */
};

struct replica {
    struct u128 id;
    struct model *model;
    enum replica_state state;
    bool draining, caching, class_sensitive;
    uint32_t rank_count, stage_count;      /* rank_count / stage_count ranks a stage */
    struct worker *ranks[SCHED_MAX_RANKS]; /* stage by stage */
    struct u128 rank_ids[SCHED_MAX_RANKS];
    struct u128 fenced; /* instance whose end is awaited; zero: none */
    int64_t fence_until, down_since, asked_at;

    /* From Hello */
    struct u128 revision, bundle, fingerprint;
    uint32_t slot_count, max_step_tokens, max_context, logits_width, steps_in_flight, group_count, capacity;
    uint32_t snapshot_count; /* 0: layers carry no state, or it is not kept */
    struct wire_kv_group groups[SCHED_MAX_GROUPS];

    struct block_pool pools[SCHED_MAX_GROUPS], snapshots;
    struct sequence **slots; /* owned [slot_count] */
    uint32_t *free_slots;    /* owned stack */
    uint32_t free_slot_count;
    struct sequence **running; /* owned [slot_count]: those in slots, in order of placement but for swaps */
    uint32_t running_count, cursor, leaving_count, resume_count;
    struct flight flights[SCHED_MAX_STEPS_IN_FLIGHT]; /* ring */
    uint32_t flight_first, flight_count;
    uint64_t plan_number;          /* last one sent */
    struct suspect_group *testing; /* reserved for this group */
    double ms_per_token;           /* observed, decaying maximum: for what may be stuck */
    double ms_per_prompt_token;    /* observed, mean of steps that are mostly prompt: for sizing chunks; 0: none yet */

    /* To tell with the next plan */
    VEC(uint32_t) released_slots;
    VEC(uint32_t) sealed_ids;
    VEC(struct u128) sealed_hashes;
    /* Scratch of prefix lookups */
    VEC(uint32_t) hits;
    uint32_t hit_snapshot; /* with snapshots: of the last of them */
};

/* ---- Gateways, poison, records of falls ---- */

struct gateway {
    struct u128 instance;
    bool silent;
    int64_t silent_since;
    struct link requests, dirty; /* dirty: sequences */
    struct link link;            /* of all */
};

struct suspect_group {
    struct link link;    /* queue of groups; the front one is tested */
    struct link members; /* sequences, by group_link */
    uint32_t id, count;
    struct replica *replica; /* being tested there; NULL: waits */
};

/* Who was in flight when a worker was given up without a known cause: its exit may tell later. */
struct fall_suspect {
    struct u128 request;
    uint32_t choice, danger_until;
};
struct fall {
    struct u128 instances[4];
    uint32_t instance_count;
    int64_t until;
    VEC(struct fall_suspect) suspects;
};
enum { SCHED_FALLS = 8 };

/* Columns of the Deltas message and the plan under construction; capacity stays. */
struct delta_build {
    VEC(struct u128) requests, fingerprints;
    VEC(uint32_t) attempts, choices, indexes, token_counts, finishes, cached_counts, flags, tokens, tops, ids;
    VEC(float) values;
    bool any_logprobs;
};
struct plan_build {
    VEC(struct wire_admit) admits;
    VEC(uint32_t) row_slots, row_token_counts, new_rows, new_groups, new_ids, sealed_ids, admit_groups, admit_ids;
    VEC(uint32_t) op_kinds, op_groups, op_sources, op_targets;
    VEC(struct u128) sealed_hashes;
    VEC(struct sequence *) prefills, order, admitted;
};

struct sched {
    struct sched_config config;
    struct sched_sink sink;
    int64_t now, started_at; /* started_at NEVER: no event yet */
    bool draining;
    struct store store;
    struct id_map request_ids, gateway_ids, worker_ids, replica_ids;
    struct link gateways, models, parked, records, groups, fresh, dropped;
    VEC(struct request *) timers; /* heap */
    VEC(struct replica *) replicas;
    uint64_t next_sequence, next_arrival, status_version;
    uint32_t waiting_new, waiting_resumed, running, next_group, slot_total;
    uint64_t record_bytes;
    struct fall falls[SCHED_FALLS];
    uint32_t next_fall;
    double ms_per_finish; /* observed */
    int64_t last_finish_at;
    struct delta_build delta_build;
    struct plan_build plan_build;
    VEC(struct sequence *) scratch;
    VEC(struct wire_model_status) status_models;
    struct sched_counts counts;
};

/* ---- Shared small things ---- */

static inline uint32_t seq_prompt_count(const struct sequence *q) { return (uint32_t)q->request->prompt.count; }
static inline uint32_t seq_output_count(const struct sequence *q) { return q->token_count - seq_prompt_count(q); }
static inline const uint32_t *seq_tokens(const struct sequence *q) {
    return q->words.cap ? q->words.items : q->request->prompt.ids;
}

#endif
