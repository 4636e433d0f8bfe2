/*
 * internal.h - calls between the files of core/. Each group is one file.
 */
#ifndef SCHEDULER_CORE_INTERNAL_H
#define SCHEDULER_CORE_INTERNAL_H

#include "scheduler/core/state.h"

/* ---- waiting.c: the queues of one model ---- */
void waiting_release(struct waiting *w);
struct tenant *waiting_tenant(struct waiting *w, struct u128 id); /* made when new; counts a request */
void waiting_tenant_put(struct waiting *w, struct tenant *tenant);
void waiting_add(struct waiting *w, struct sequence *q); /* among the resumed when counted so */
void waiting_remove(struct waiting *w, struct sequence *q);
/* Next in order, not removed; resumed ones only when allowed. NULL: none. */
struct sequence *waiting_first(const struct waiting *w, bool resumed_allowed);
void waiting_check(const struct waiting *w);

/* ---- sequence.c: moves of a sequence between its places ---- */
void seq_count(struct sched *s, struct sequence *q, enum counted counted);
/* From no place to where it belongs now: a queue, or parked. */
void seq_enqueue(struct sched *s, struct sequence *q);
/* Out of a queue, the parked list or the held ones; not out of a slot. */
void seq_unqueue(struct sched *s, struct sequence *q);
/* What waits goes where it belongs now: its request was paused or its gateway fell silent, or the contrary. */
void seq_requeue(struct sched *s, struct sequence *q);
/* May it run as far as its request and gateway are concerned? */
bool seq_is_runnable(const struct sequence *q);
/* Parked ones whose reason is gone are queued. */
void parked_review(struct sched *s);
void seq_hold(struct sched *s, struct sequence *q);
void siblings_release(struct sched *s, struct request *request);
/* Into a free slot, with the blocks of the prefix found (r->hits). */
void seq_place(struct sched *s, struct sequence *q, struct replica *r);
void seq_leave(struct sched *s, struct sequence *q, enum leave leave);
void seq_leave_finish(struct sched *s, struct sequence *q); /* no rows in flight any more */
void seq_finish(struct sched *s, struct sequence *q, enum wire_finish finish, bool quiet);
/* Replaces its tokens by prompt and this output. */
void seq_set_output(struct sched *s, struct sequence *q, struct tokens output);
void seq_append(struct sched *s, struct sequence *q, uint32_t token);
/* Blocks for positions below `upto` in every group. false: none free; what was taken is kept. */
bool seq_cover(struct sequence *q, struct store *store, uint32_t upto);
void seq_seal(struct sched *s, struct sequence *q);

/* ---- sched.c ---- */
void sched_at(struct sched *s, int64_t now); /* every event begins with it */

/* ---- request.c: a request's record ---- */
enum wire_reject_code
submit_check(const struct wire_submit *submit); /* 0: good as far as can be told without its model */
struct request *request_new(struct sched *s, struct gateway *gateway, const struct wire_submit *submit);
void request_start(struct sched *s, struct request *request);  /* binds it and queues its sequences; may reject */
void request_reopen(struct sched *s, struct request *request); /* finished, but a sequence of it runs again */
void request_move(struct request *request, struct gateway *gateway);
void requests_sweep(struct sched *s, bool all); /* frees dropped ones; the only place that frees */
void request_reject(struct sched *s, struct request *request, enum wire_reject_code code);
void reject_send(struct sched *s, struct u128 gateway, struct u128 id, uint32_t attempt, enum wire_reject_code code);
void request_drop(struct sched *s, struct request *request);
/* After a sequence left its slot or was acknowledged: ends the record when nothing holds it. */
void request_review(struct sched *s, struct request *request);
void request_finished(struct sched *s, struct request *request); /* its last sequence ended */
void request_bind(struct sched *s, struct request *request);     /* to its model, when that is known; may reject */
void request_validate(struct sched *s, struct request *request); /* may reject */
void requests_bind_all(struct sched *s, struct model *model);
void fresh_settle(struct sched *s); /* submit.c: accepts or refuses what came in this turn */
void request_hash(struct sched *s, struct request *request, const struct replica *r);

/* ---- timer.c ---- */
void timer_update(struct sched *s, struct request *request);
void timer_remove(struct sched *s, struct request *request);
void timers_run(struct sched *s);
int64_t timers_next(const struct sched *s);

/* ---- gateway.c ---- */
struct gateway *gateway_get(struct sched *s, struct u128 instance); /* made when new; wakes it */
void gateways_run(struct sched *s);
int64_t gateways_next(const struct sched *s);
void gateway_drop(struct sched *s, struct gateway *gateway);

/* ---- deliver.c ---- */
void seq_dirty(struct sched *s, struct sequence *q);
void seq_rewind(struct sched *s, struct sequence *q, uint32_t index); /* send again from here */
bool seq_is_owed(const struct sequence *q); /* something sent is not acknowledged, or not sent yet */
void deliver_flush(struct sched *s);
void deliver_release(struct sched *s);
uint32_t logprob_stride(const struct request *request); /* words a token; 0: none asked */
void logprobs_append(struct sched *s, struct sequence *q, const struct wire_logprobs *from, size_t token_idx,
                     size_t entry);

/* ---- models.c ---- */
struct model *model_find(struct sched *s, struct bytes name);
struct model *model_get(struct sched *s, struct bytes name); /* made when new */
void model_free(struct sched *s, struct model *model);
void model_review(struct sched *s, struct model *model); /* capacity, width and emptiness from its replicas */

/* ---- formation.c: what a replica's ranks can do together ---- */
void offer_take(struct offer *offer, const struct wire_hello *hello);
void offer_release(struct offer *offer);
/* Makes the replica what its ranks, all of them loaded, have in common; they may not fit. */
int replica_join(struct sched *s, struct replica *r, struct error *err);
/* Into the prefix cache goes what every rank still holds. */
void replica_adopt_held(struct replica *r);
void geometry_release(struct sched *s, struct replica *r); /* slots and pools */
void pools_reset(struct replica *r);

/* ---- worker.c: one rank's process ---- */
enum { ASK_AGAIN_MS = 1000 };
void worker_ask(struct sched *s, struct worker *worker); /* to register anew */
void worker_remove(struct sched *s, struct worker *worker);

/* ---- replica.c ---- */
struct replica *replica_get(struct sched *s, struct u128 id, struct model *model, uint32_t rank_count,
                            uint32_t stage_count); /* made when new */
bool replica_is_complete(const struct replica *r); /* all ranks registered and loaded */
void replica_try_start(struct sched *s, struct replica *r);
void replica_fall(struct sched *s, struct replica *r, enum replica_state state, bool attributable);
void replicas_run(struct sched *s);
int64_t replicas_next(const struct sched *s);
void replica_out_of_step(struct sched *s, struct replica *r); /* plans or results were lost: register anew */
void replica_free(struct sched *s, struct replica *r);

/* ---- place.c ---- */
/* Longest cached prefix of its known tokens into r->hits, at least one token left to compute. Returns positions. */
uint32_t prefix_find(struct sched *s, struct sequence *q, struct replica *r);
bool replica_has_room(const struct replica *r, const struct sequence *q); /* after prefix_find */
bool replica_fits(const struct replica *r, const struct sequence *q);
void place_all(struct sched *s);
/* Hash of the block idx of the sequence's tokens given the one before. */
struct u128 seq_block_hash(struct sched *s, const struct sequence *q, const struct replica *r, struct u128 parent,
                           uint32_t idx);

/* ---- snapshot.c: states at the ends of prompts, of workers whose layers carry one ---- */
void snapshot_trim_hits(struct replica *r, const struct request *request); /* r->hits: to the last with a snapshot */
void snapshot_hold(struct sequence *q);   /* placed on r->hits: keeps what it will be restored from */
void snapshot_let_go(struct sequence *q); /* if it is kept */
/* Positions until one is to be taken: a chunk ends there. UINT32_MAX: none. */
uint32_t snapshot_room(const struct sequence *q);
/* Before a row: takes one if it is due, as an operation of the plan under construction. BLOCK_NONE: not. */
uint32_t snapshot_take(struct sched *s, struct sequence *q);
void snapshot_restore(struct sched *s, struct sequence *q); /* its admission is in the plan under construction */
/* The row's result is in. good: it was computed. */
void snapshot_settle(struct sched *s, const struct flight_row *row, bool good);

/* ---- plan.c ---- */
void plan_all(struct sched *s);
void plan_release(struct sched *s);

/* ---- poison.c ---- */
/* These were in flight at an attributable death, computing positions below their danger. May refuse a request. */
void suspects_fell(struct sched *s, struct sequence **suspects, const uint32_t *dangers, size_t count);
void suspect_review(struct sched *s, struct sequence *q); /* after progress: past the danger? */
void suspect_clear(struct sched *s, struct sequence *q);  /* no longer under suspicion, or ended */
void fall_remember(struct sched *s, struct replica *r, struct sequence **suspects, const uint32_t *dangers,
                   size_t count);
void fall_explained(struct sched *s, struct u128 instance, bool fault);
/* It registered anew, done with its steps: what kills it later has nothing to do with the falls before. */
void fall_survived(struct sched *s, struct u128 instance);
void groups_place(struct sched *s); /* the front group gets a replica, and its members slots */
void groups_unassign(struct sched *s, struct replica *r);

#endif
