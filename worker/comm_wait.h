/*
 * comm_wait.h - waiting for a peer in shared memory: a bell for each rank, rung by whoever changes
 * what that rank may wait for.
 *
 * A ring that finds nobody asleep costs one atomic addition. The sleeper reads the bell before it
 * looks at its condition, so a ring between look and sleep is not lost. Sleeps are cut into slices,
 * so that a process that died between a change and its ring delays nobody for long.
 */
#ifndef WORKER_COMM_WAIT_H
#define WORKER_COMM_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct comm_bell {
    _Atomic uint32_t count, sleeping;
};

/* Wakes all that sleep in comm_bell_sleep, in whatever process. Any thread; never waits. */
void comm_bell_ring(struct comm_bell *bell);
/* Sleeps until the bell has moved on from `seen`, at most slice_ms. */
void comm_bell_sleep(struct comm_bell *bell, uint32_t seen, int slice_ms);
static inline uint32_t comm_bell_look(struct comm_bell *bell) {
    return atomic_load(&bell->count);
}

#endif
