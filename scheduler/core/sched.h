/*
 * sched.h - the scheduler's core: events in, actions out, nothing else. No sockets, no clock, no
 * threads.
 *
 * The process around it turns frames into the calls below and the calls of struct sched_sink into
 * frames; the simulator does the same with virtual peers. Time is an argument (milliseconds of any
 * steady clock, never going back). Peers are named by the instance id of their Hello, so that
 * nobody else has to keep handles. Everything a call borrows may be gone when it returns.
 *
 * A turn: hand over every event that waits, then call sched_run(now) once. Events only change
 * state; sched_run decides: it judges stuck workers and deadlines, builds plans for every replica
 * that has credit, and flushes what gateways are owed. It returns the time at which it wants to be
 * called again when nothing else happens.
 *
 * Delivery. A finish counts as one more item behind the last token: a gateway acknowledges a choice
 * with the count of tokens it has taken, plus one once it has taken the finish (as struct wire_ack
 * says). Not acknowledged in time is sent again. A gateway that gets deltas of a request it does
 * not know answers Cancel (all choices), and Cancel of a choice for one that it has ended itself;
 * Cancel ends the record at once and nothing is sent back. Pause is not acknowledged: a gateway
 * tells the state again while nothing arrives.
 *
 * Registration. A worker's Hello with a higher incarnation, or of another instance for the same
 * replica and rank, starts it afresh: plan numbers begin at 1, its sequences requeue with their
 * tokens, and its held blocks enter the prefix cache. sink.reregister asks a worker for that (frame
 * kind BLOCKS_LOST, scheduler to worker): plans or results were lost, or it was given up as silent
 * and still lives.
 *
 * Invariants (sched_check asserts them all; its cost is linear in everything, so: tests and the
 * simulator):
 *   (1) Block pool: see block_pool.h; and a block's references are exactly the tables of sequences
 *       that name it. Snapshots of states are such a pool too (snapshot.c).
 *   (2) A sequence is in exactly one place: a waiting queue, held behind its sibling, parked, a
 *       slot of one replica, or done; and each slot holds at most one sequence, which names that
 *       slot.
 *   (3) For a sequence in a slot: what it has computed and its tokens lie in [lo, hi], its blocks
 *       cover hi, and the rows in flight explain the difference exactly. Its slot and its blocks
 *       return when no row is in flight.
 *   (4) A hashed block holds only positions below computed_lo of every sequence that refers to it:
 *       nobody writes to it.
 *   (5) At most steps_in_flight plans of a replica are unanswered, and their numbers are
 *       consecutive.
 *   (6) For each choice: acked <= the most ever sent in this attempt <= committed; a finish is sent
 *       only behind all tokens; what is owed and can be sent is on its gateway's list.
 *   (7) After a turn, waiting new sequences of a model exceed waiting_max by shares of tenants alone:
 *       the j-th largest tenant has at most waiting_max / j. So do those whose model is not known yet.
 *       Probes and resubmitted ones are counted apart.
 *   (8) Tokens of a sequence never exceed its max_total, and every output token is below the
 *       logits' width.
 *   (9) Counters equal what a recount gives: waiting, running, leaving, resuming, bytes of kept
 *       records.
 *   (10) One group of suspects of poison is tested at a time, on one replica, where no other
 *       suspect runs.
 *
 * Threading: one thread. Allocation: when peers register, when requests arrive, and when a pool
 * grows; a step of running sequences allocates nothing.
 */
#ifndef SCHEDULER_CORE_SCHED_H
#define SCHEDULER_CORE_SCHED_H

#include "base/base.h"
#include "base/error.h"
#include "base/hash.h"
#include "proto/messages.h"

struct sched;

/* Fill with sched_config_default, then change what is wanted. Times in milliseconds. */
struct sched_config {
    /* secret of the deployment: same after a restart, or held blocks miss */
    struct hash_key cache_key;
    /* new sequences that may wait for a model; past it and a tenant's share of it: OVERLOADED
     * (waiting.h) */
    uint32_t waiting_max;
    /* new requests that would wait longer than this, or than their own time: OVERLOADED; 0: no bound
     * (admission.h) */
    int32_t wait_max_ms;
    /* while no more sequences of a model wait and have slots, none is refused for wait_max_ms; 0: a
     * handful (admission.h) */
    uint32_t wait_crowd;
    uint32_t step_tokens; /* most tokens a step; 0: what the worker takes */
    /* most prompt tokens of one sequence in one step; 0: no bound but the budget */
    uint32_t chunk_tokens;
    /* prompt chunks beside decoding rows are sized for steps of this length (plan.h); 0: off */
    int32_t itl_target_ms;
    bool itl_auto;           /* shorter ones where few wait for a first token (plan.h) */
    uint32_t drafts;         /* most drafts of a sequence, a step (draft.h); 0: none */
    uint32_t resume_credits; /* resubmitted sequences recomputing at one time, each replica */
    /* a new request whose tenant has no slot takes one of a tenant that has most, of several, once it
     * has waited so long */
    int32_t slot_wait_ms;
    /* after steps that several tenants had a part in, those of one alone stay as short for so long */
    int32_t share_linger_ms;
    int32_t silence_drop_ms; /* a silent gateway's requests are dropped after this */
    /* without progress of acknowledgements, send again (doubles up to 16 times) */
    int32_t retransmit_ms;
    /* an open request not heard of for so long is told as ACCEPTED again: its Cancel may be lost */
    int32_t probe_ms;
    /* after the first event, unknown models wait so long for workers to register */
    int32_t start_grace_ms;
    /* a model without replicas stays known so long; resubmitted work waits so long */
    int32_t model_grace_ms;
    /* work that began on a revision of which no replica is left, while another revision runs, waits
     * so long for a replica of its own to begin loading */
    int32_t revision_grace_ms;
    int32_t record_ttl_ms;   /* finished requests are kept so long unless acknowledged earlier */
    uint64_t record_bytes;   /* budget of finished requests' records; the oldest go first */
    uint64_t table_bytes;    /* for blocks that workers say they have */
    uint32_t tenant_streams; /* resumable requests that nobody reads, of a tenant, */
    uint64_t tenant_stream_bytes; /* and their memory; the oldest go first */
    int32_t stuck_floor_ms;       /* no step is stuck before this */
    int32_t lost_plan_ms;   /* a worker idle for so long with plans unanswered has lost them */
    int32_t fence_wait_ms;  /* a replacement waits so long for news that the fenced one is gone */
    uint32_t poison_deaths; /* attributable deaths after which suspects run apart: 2 */
    bool isolate_tenants;   /* prefix cache is not shared between tenants; zero is one */
};
/* Sets every member to its default; cache_key to zero, which only tests may keep. */
void sched_config_default(struct sched_config *config);

/* Where actions go. What the arguments point to is valid during the call only. None of these may
 * call back into the core. A lost message is made good by the protocol, so sending may fail
 * silently. */
struct sched_sink {
    void *ctx;
    /* Same plan to each rank of the replica. */
    void (*plan)(void *ctx, struct u128s ranks, const struct wire_plan *plan);
    void (*deltas)(void *ctx, struct u128 gateway, const struct wire_deltas *deltas);
    void (*reject)(void *ctx, struct u128 gateway, const struct wire_reject *reject);
    /* The answer to an Attach that names a new request: what it is. NULL: nobody wants to know. */
    void (*attached)(void *ctx, struct u128 gateway, const struct wire_submit *submit);
    void (*fence)(void *ctx, struct u128 instance, uint32_t pid);
    void (*reregister)(void *ctx, struct u128 instance);
    /* To a worker that drains: nothing is left for it. NULL: nobody wants to know. */
    void (*released)(void *ctx, struct u128 instance);
    /* To the rank that samples. */
    void (*prepare)(void *ctx, struct u128s ranks, const struct wire_prepare *prepare);
};

/* Keeps copies of both. */
struct sched *sched_new(const struct sched_config *config, const struct sched_sink *sink);
/* Frees all it remembers, and sends nothing. NULL in *s is fine. */
void sched_free(struct sched **s);

/* ---- Gateways ---- */

/* Hello of a gateway, or any sign of life after silence: its preempted requests run again. */
void sched_gateway_up(struct sched *s, int64_t now, struct u128 gateway);
/* Heartbeats stopped: its requests are preempted at once (resumable ones run on), dropped after
 * silence_drop_ms. */
void sched_gateway_silent(struct sched *s, int64_t now, struct u128 gateway);
/* Known to be dead: its requests are dropped; resumable ones run on, for record_ttl_ms (streams.h). */
void sched_gateway_gone(struct sched *s, int64_t now, struct u128 gateway);

/* Answers through the sink (Reject, Deltas with ACCEPTED or a resend) in this call or the next
 * sched_run. A gateway not known is taken up. */
void sched_submit(struct sched *s, int64_t now, struct u128 gateway,
                  const struct wire_submit *submit);
/* One choice of a request of this gateway, or all (WIRE_ALL_CHOICES), are not wanted any more: they
 * end with CANCELLED, within two steps where they run. A resumable request that is detached runs on,
 * as after its gateway's death. Of another attempt: ignored. */
void sched_cancel(struct sched *s, int64_t now, struct u128 gateway,
                  const struct wire_cancel *cancel);
/* No more tokens are made for a request of this gateway, or they are again; what was made is still
 * sent. Of another attempt: ignored. */
void sched_pause(struct sched *s, int64_t now, struct u128 gateway, const struct wire_pause *pause);
/* Tokens, and finishes, that this gateway has taken: they are not sent again. A request that is
 * not here is answered UNKNOWN, one that was refused is refused again. */
void sched_ack(struct sched *s, int64_t now, struct u128 gateway, const struct wire_ack *ack);
/* Sends a choice again from this output token on; UNKNOWN when the request is not here. */
void sched_resend(struct sched *s, int64_t now, struct u128 gateway,
                  const struct wire_resend *resend);
/* The request moves to this gateway, from these indexes on. By its id: with the attempt given, which
 * must not be lower. By its stream: under a new id, whose attempts are its own; sink.attached tells
 * what it is, and whoever had it gets MOVED. UNKNOWN: not here, or another tenant's. */
void sched_attach(struct sched *s, int64_t now, struct u128 gateway,
                  const struct wire_attach *attach);

/* ---- Workers ---- */

/* Each rank's Hello; the replica counts as there once all tp * pp ranks are and none is loading.
 * ERR_UNSUPPORTED or ERR_INVALID: it cannot be used; text in err. */
MUST_CHECK int sched_worker_hello(struct sched *s, int64_t now, const struct wire_hello *hello,
                                  struct error *err);
/* false: the core does not know this instance (any more): it has been asked to register anew
 * through the sink. */
bool sched_worker_heartbeat(struct sched *s, int64_t now, struct u128 worker,
                            const struct wire_heartbeat *heartbeat);
/* From rank 0 of the last stage. ERR_INVALID: it did not fit; the worker has been asked to register
 * anew. Stale ones are ignored. */
MUST_CHECK int sched_step_result(struct sched *s, int64_t now, struct u128 worker,
                                 const struct wire_step_result *result);
/* An answer to sink.prepare: this worker has it. */
void sched_resource_ready(struct sched *s, int64_t now, struct u128 worker,
                          const struct wire_ready *ready);
/* The other answer: it cannot be had. Requests that wait for it are refused. */
void sched_resource_failed(struct sched *s, int64_t now, struct u128 worker,
                           const struct wire_failed *failed);
/* The worker noticed a gap. Its sequences requeue; it is used again after its next Hello. */
void sched_blocks_lost(struct sched *s, int64_t now, struct u128 worker, uint32_t incarnation);
/* Heartbeats stopped. Sequences requeue, the process is fenced. Never attributable. */
void sched_worker_silent(struct sched *s, int64_t now, struct u128 worker);
/* The process is known to have ended (supervisor). exited->fault makes it attributable to what ran.
 * Also confirms a fence. */
void sched_worker_exited(struct sched *s, int64_t now, const struct wire_exited *exited);
/* Takes nothing new; what it runs finishes, and what came before and no other replica may have. When
 * nothing of that is left, each heartbeat that says so is answered by sink.released. */
void sched_worker_drain(struct sched *s, int64_t now, struct u128 worker);

/* ---- The turn ---- */

/* Decides everything that can be decided at `now`. Returns when to call again at the latest
 * (INT64_MAX: when something happens). */
int64_t sched_run(struct sched *s, int64_t now);
/* No new work from now on (REJECT_DRAINING); resubmitted work and what runs goes on. */
void sched_drain(struct sched *s, int64_t now);
/* Nothing waits, runs or is owed to anyone. */
bool sched_is_idle(const struct sched *s);

/* ---- Looking in ---- */

/* Models, queues and figures, for gateways. Borrowed until the next call that changes anything. */
struct wire_status sched_status(struct sched *s);
/* Changes whenever the status (bar counts and figures) does. */
uint64_t sched_status_version(const struct sched *s);
/* A live worker that has this bundle; zero: none. */
struct u128 sched_bundle_source(const struct sched *s, struct u128 bundle);
/* The replica a registered worker belongs to (for Welcome); zero: not registered. */
struct u128 sched_worker_replica(const struct sched *s, struct u128 worker);

struct sched_counts {
    /* now */
    uint32_t waiting, resumed_waiting, running, records, replicas_ready, gateways;
    uint64_t blocks_total, blocks_used, blocks_cached, record_bytes;
    /* since the start */
    uint64_t steps, prompt_tokens, computed_tokens, cached_tokens, output_tokens, wasted_rows;
    uint64_t drafted_tokens, accepted_drafts;
    uint64_t preemptions, evictions, requests, rejected[WIRE_REJECT_OLD_WORKERS + 1],
        finished[WIRE_FINISH_CONSTRAINT + 1];
    uint64_t snapshots;
    uint64_t retransmits, deaths, attributable_deaths, fences, reregistrations, stale_messages;
};
/* What it counts, of all models together; O(replicas). */
struct sched_counts sched_counts(const struct sched *s);

/* Asserts the invariants above (CHECK). */
void sched_check(const struct sched *s);

#endif
