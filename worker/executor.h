/*
 * executor.h - computes plans: slots that mirror sequences, the batch of a step, the forward pass,
 * the sampler.
 *
 * The shape is a GPU's: a plan is enqueued, its result is collected later, and the next plan may be
 * enqueued before (it runs on the token that the first one samples, which never visits the host).
 * On the CPU a plan is done when executor_enqueue returns.
 *
 * Everything in a plan is checked before it is used: slots, tokens against the vocabulary, block
 * ids against the cache, tables against what a slot holds. A plan that fails a check changes
 * nothing, and the worker registers anew.
 *
 * Invariants:
 *   (1) plan numbers are consecutive from 1 after executor_reset;
 *   (2) a slot's tokens and blocks are those of its admission plus what plans and the sampler
 *       added;
 *   (3) no row reads or writes a block that is not in its slot's table;
 *   (4) after loading nothing is allocated.
 *
 * Several ranks (ranks.h) compute the same plans. Only one of them samples and answers; it tells
 * the others the tokens, and they wait for those that a plan's rows follow. So that all of them
 * make the same batch of a plan, an end that a result shows is applied when the plan
 * STEPS_IN_FLIGHT later comes, not when it happens to be known.
 *
 * Threading: the compute thread only, but for executor_describe and executor_bundle, which read
 * what never changes after loading.
 */
#ifndef WORKER_EXECUTOR_H
#define WORKER_EXECUTOR_H

#include "base/error.h"
#include "proto/messages.h"
#include "worker/progress.h"
#include "worker/settings.h"

struct executor;
struct grammar_store;

/* Opens the device, maps and checks the model, plans and takes its memory. May take minutes; counts
 * progress up as it goes. */
MUST_CHECK int executor_new(struct executor **out, const struct worker_settings *settings,
                            struct worker_progress *progress, struct error *err);
/* Frees all it holds: steps, memory, model, device. NULL in *e is fine. */
void executor_free(struct executor **e);
/* Of several ranks: asked while this one waits for another; true ends the wait, and the plan
 * fails. */
void executor_watch(struct executor *e, bool (*stopped)(void *ctx), void *ctx);
/* Whether results of this rank go to the scheduler. */
bool executor_answers(const struct executor *e);
/* Fills in what a worker's Hello says of model, sizes, groups and fingerprint (not: held blocks,
 * state, identity). Pointers stay until executor_free. */
void executor_describe(const struct executor *e, struct wire_hello *hello);
/* The model's text files, packed (text/bundle.h). */
struct bytes executor_bundle(const struct executor *e);
/* Where grammars are compiled; NULL: this rank samples nothing. */
struct grammar_store *executor_grammars(const struct executor *e);
/* Goes on with having the weights' pages mapped that the first step will read, a matrix or so; no step
 * may be in flight. false: nothing was left to do. */
bool executor_fetch(struct executor *e);
/* Goes on with putting weights into the order of the device's kernels, a matrix or so; no step may be
 * in flight. false: nothing was left to do. */
bool executor_pack(struct executor *e);
/* Forgets slots and plan numbers; blocks keep their contents. Waits for work in flight. */
void executor_reset(struct executor *e);
/* Sealed blocks of group 0 that still hold what their hash says. Valid until the next plan. */
void executor_held(const struct executor *e, struct u32s *blocks, struct u128s *hashes);
/* Puts a plan on the device. 0, or ERR_INVALID: a gap in the numbers or something out of bounds
 * (text says what); of several ranks also ERR_CLOSED, ERR_TIMEOUT and others of ranks_form: they
 * have lost each other. */
MUST_CHECK int executor_enqueue(struct executor *e, const struct wire_plan *plan,
                                struct error *err);
/* The oldest result: 1 and *result (valid until its plan's successor is collected), or 0: none is
 * done (never with wait, when one is in flight), or a negative code: the device failed, the process
 * must end with a fault; but ERR_CLOSED, ERR_TIMEOUT: the ranks have lost each other. */
MUST_CHECK int executor_collect(struct executor *e, bool wait, struct wire_step_result *result,
                                struct error *err);

#endif
