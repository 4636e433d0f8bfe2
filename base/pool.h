/*
 * pool.h - a fixed set of threads that run one parallel loop at a time. The caller's thread
 * runs units, too.
 *
 * Work is cut into `unit_count` units with fixed bounds, so results never depend on which thread
 * ran which unit. Units side by side should read memory side by side: a thread begins with as many of
 * them as are its share, in turn, and then takes what others have left. Idle threads spin briefly
 * (spin_us), then sleep on a futex: an idle process uses no CPU.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <pthread.h>

#include "base/base.h"

/* pthread_create for a thread that may run kernels, whose frames are not looked through page by page
 * (kernels/folder.cmake): below its stack lies a guard that none of them steps over. 0, or an errno. */
MUST_CHECK int thread_start(pthread_t *out, void *(*run)(void *), void *arg);

struct thread_pool;
struct thread_pool *thread_pool_new(int thread_count,
                                    /* thread_count includes the caller; 1: no threads made */
                                    int spin_us);
/* Ends the threads and clears the pointer. No run may be going on. NULL: nothing happens. */
void thread_pool_free(struct thread_pool **pool);
/* The thread_count that it was made with: thread_idx in a run is below it. */
int thread_pool_size(const struct thread_pool *pool);
/* The number of the last loop that threads shared; 0: there was none. No two in turn have the same. */
uint32_t thread_pool_round(const struct thread_pool *pool);
/* Calls run(ctx, unit_idx, thread_idx) for unit_idx in [0, unit_count), in any order, and returns
 * when all are done. Not reentrant. */
void thread_pool_run(struct thread_pool *pool, size_t unit_count,
                     void (*run)(void *ctx, size_t unit_idx, int thread_idx), void *ctx);

/* For what may wait: the calling thread, and no other, gives way to those that have not called this,
 * when there is not enough processor for all. Where that is not allowed, nothing happens. */
void thread_give_way(void);

#endif
