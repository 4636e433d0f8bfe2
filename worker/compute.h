/*
 * compute.h - the compute thread: loads the executor, then takes plans, runs them, answers.
 *
 * The answer to JOB_RESET is {u32 count, u32 blocks[count], u128 hashes[count]} of the sealed
 * blocks the cache still holds, for the next Hello. A step never takes less than min_step_ms. A
 * device that fails ends the process with a fault.
 */
#ifndef WORKER_COMPUTE_H
#define WORKER_COMPUTE_H

#include "worker/executor.h"
#include "worker/handoff.h"

struct compute;
/* Starts the thread. Borrows all until compute_end. */
MUST_CHECK int compute_start(struct compute **out, const struct worker_settings *settings,
                             struct handoff *handoff, struct worker_progress *progress,
                             struct error *err);
/* After ANSWER_LOADED: the executor, for executor_describe and executor_bundle. */
const struct executor *compute_executor(const struct compute *c);
/* Ends the thread after the step it is in. */
void compute_end(struct compute **c);

#endif
