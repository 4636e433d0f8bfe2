/*
 * pool.h - a fixed set of threads that run one parallel loop at a time. The caller's thread takes part.
 *
 * Work is cut into `part_count` parts with fixed bounds, so results never depend on which thread ran which part. Idle
 * threads spin briefly (spin_us), then sleep on a futex: an idle process uses no CPU.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/base.h"

struct thread_pool;
struct thread_pool *thread_pool_new(int thread_count,
                                    int spin_us); /* thread_count includes the caller; 1: no threads made */
void thread_pool_free(struct thread_pool **pool);
int thread_pool_size(const struct thread_pool *pool);
/* Calls run(ctx, part_idx, thread_idx) for part_idx in [0, part_count), in any order, and returns when all are done.
 * Not reentrant. */
void thread_pool_run(struct thread_pool *pool, size_t part_count,
                     void (*run)(void *ctx, size_t part_idx, int thread_idx), void *ctx);

#endif
