/*
 * core.h - all that the scheduler's core remembers, in one place. Private to core/: the process and
 * its tests use sched.h.
 *
 *     sched ─┬─ gateways ── requests ── sequences (one a choice)
 *            └─ models ─┬─ waiting (queues of sequences)
 *                       └─ replicas ── workers (ranks), block pools, slots, flights (plans not
 *                                      answered yet)
 *
 * Each part's header stands beside its source. Events of sched.h end in these files; a turn
 * (sched_run) then decides, in the order of sched.c.
 */
#ifndef SCHEDULER_CORE_CORE_H
#define SCHEDULER_CORE_CORE_H

#include "scheduler/core/deliver.h"
#include "scheduler/core/id_map.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/poison.h"
#include "scheduler/core/quota.h"
#include "scheduler/core/streams.h"
#include "scheduler/core/waiting.h"

struct sched {
    struct sched_config config;
    struct sched_sink sink;
    int64_t now;
    int64_t started_at; /* NEVER: no event yet */
    bool draining;
    struct word_pool word_pool; /* of the sequences' words */
    struct id_map request_ids, gateway_ids, worker_ids, replica_ids;
    struct id_map stream_ids, stream_owners; /* streams.h */
    struct quotas quotas;
    struct list_node gateways, models;
    struct list_node parked;       /* sequences that may not run now */
    struct list_node records;      /* finished requests, oldest first */
    struct list_node dropped;      /* requests to be freed */
    struct list_node fresh;        /* requests of this turn */
    struct list_node streams_over; /* owners of whom too much is kept */
    struct list_node groups;       /* of suspects; the front one is tested */
    VEC(struct request *) timers;  /* heap */
    VEC(struct replica *) replicas;
    struct list_node unready; /* those of them that are in another state than READY */
    struct list_node to_plan; /* at least those that replica_takes_plan, as they came to do so */
    int64_t plan_at;          /* when plan_all has to look again, for a plan that it kept back */
    int64_t slots_kept_until; /* latest slot_kept_until that any replica had */
    uint64_t next_sequence, next_arrival, status_version;
    uint32_t next_group;
    uint32_t waiting_new;     /* sequences that wait and never ran, of all models */
    uint32_t waiting_unbound; /* of them, those whose model is not known */
    struct waiting unbound;   /* tenants of requests whose model is not known; nothing is queued */
    uint32_t waiting_resumed; /* that wait, and ran before */
    uint32_t running;         /* that are in slots */
    uint32_t paused;          /* requests whose clients read slowly */
    uint64_t table_bytes;     /* of all replicas */
    uint64_t record_bytes;
    struct crash_record crashes[SCHED_CRASH_RECORDS]; /* ring */
    uint32_t next_crash;
    struct delta_build delta_build;
    struct plan_build plan_build;
    VEC(struct sequence *) scratch;
    VEC(struct wire_model_status) status_models;
    unsigned moves_seen[SEQ_STATE_COUNT]; /* of sequences: from a state, a bit for each to */
    struct sched_counts counts;
};

/* Every event begins with it: time never goes back. */
void sched_at(struct sched *s, int64_t now);

#endif
