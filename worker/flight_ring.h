/*
 * flight_ring.h - the steps of a rank that are not over, oldest first.
 *
 *     FREE ─► RUNNING ─► SHARED ────► OVER ─► FREE
 *                └─────► COLLECTED ───┘
 *
 * A step is SHARED once its tokens are known to this rank and have been sent to the others, or have
 * come from the rank that samples; it is COLLECTED once its result has been handed out. The two
 * come in either order, and a step is over after both. It stays in the ring until its place is
 * needed: several ranks count its ends from that plan on, all of them from the same one.
 *
 * Invariants:
 *   (1) The steps in the ring have consecutive plan numbers.
 *   (2) No step is collected before an older one, nor shared before an older one.
 *
 * Threading: the compute thread.
 */
#ifndef WORKER_FLIGHT_RING_H
#define WORKER_FLIGHT_RING_H

#include "worker/flight.h"

enum { STEPS_MAX = 8 };

struct flight_ring {
    struct flight flights[STEPS_MAX]; /* the first `size` are used */
    uint32_t size;
    uint32_t first; /* the oldest */
    uint32_t count; /* not FREE */
};

/* size: 1 to STEPS_MAX steps, of slot_count rows at most. ERR_MEMORY: release it all the same. */
MUST_CHECK int flight_ring_init(struct flight_ring *ring, struct device *dev, uint32_t size,
                                uint32_t slot_count, struct error *err);
/* Frees all steps; nothing of them runs. Also after a flight_ring_init that failed. */
void flight_ring_release(struct flight_ring *ring);
/* The place of the next step, still FREE. NULL: the ring is full. */
struct flight *flight_ring_free(struct flight_ring *ring);
/* What flight_ring_free returned is on the device. */
void flight_ring_start(struct flight_ring *ring, struct flight *f);
/* The oldest. NULL: the ring is empty. */
struct flight *flight_ring_oldest(struct flight_ring *ring);
/* The oldest whose result is not collected. NULL: none. */
struct flight *flight_ring_uncollected(struct flight_ring *ring);
/* The oldest whose tokens are not shared with the other ranks. NULL: none. */
struct flight *flight_ring_unshared(struct flight_ring *ring);
/* The oldest whose tokens the constraints lack. NULL: none. */
struct flight *flight_ring_untaken(struct flight_ring *ring);
/* What flight_ring_uncollected returned is collected. */
void flight_ring_collect(struct flight_ring *ring, struct flight *f);
/* What flight_ring_unshared returned is shared. */
void flight_ring_share(struct flight_ring *ring, struct flight *f);
/* Number of the newest step that is not shared and samples for this slot; 0: none. */
uint64_t flight_ring_awaited(const struct flight_ring *ring, uint32_t slot);
/* The oldest, which is OVER, makes room. */
void flight_ring_retire(struct flight_ring *ring);
/* Waits for what runs and forgets all. A device that has failed shows itself at the next step. */
void flight_ring_reset(struct flight_ring *ring);

#endif
