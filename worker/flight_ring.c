#include "worker/flight_ring.h"

#define BIT(state) (1u << (state))

static const unsigned legal_moves[FLIGHT_STATE_COUNT] = {
    [FLIGHT_FREE] = BIT(FLIGHT_RUNNING),
    [FLIGHT_RUNNING] = BIT(FLIGHT_SHARED) | BIT(FLIGHT_COLLECTED) | BIT(FLIGHT_FREE),
    [FLIGHT_SHARED] = BIT(FLIGHT_OVER) | BIT(FLIGHT_FREE),
    [FLIGHT_COLLECTED] = BIT(FLIGHT_OVER) | BIT(FLIGHT_FREE),
    [FLIGHT_OVER] = BIT(FLIGHT_FREE),
};

static void flight_move(struct flight *f, enum flight_state to) {
    CHECK_MSG(legal_moves[f->state] & BIT(to), "step of plan %llu goes from %d to %d",
              (unsigned long long)f->plan_number, (int)f->state, (int)to);
    f->state = to;
}

int flight_ring_init(struct flight_ring *ring, struct device *dev, uint32_t size,
                     uint32_t slot_count, struct error *err) {
    CHECK(size >= 1 && size <= STEPS_MAX);
    *ring = (struct flight_ring){.size = size};
    int rc = 0;
    for (uint32_t i = 0; !rc && i < size; i++)
        rc = flight_init(&ring->flights[i], dev, slot_count, err);
    return rc;
}

void flight_ring_release(struct flight_ring *ring) {
    for (uint32_t i = 0; i < ring->size; i++)
        flight_release(&ring->flights[i]);
    *ring = (struct flight_ring){0};
}

static uint32_t place_of(const struct flight_ring *ring, uint32_t idx) {
    return (ring->first + idx) % ring->size;
}

/* The oldest in one of these states. */
static struct flight *find_oldest(struct flight_ring *ring, unsigned states) {
    for (uint32_t i = 0; i < ring->count; i++) {
        struct flight *f = &ring->flights[place_of(ring, i)];
        if (states & BIT(f->state))
            return f;
    }
    return NULL;
}

struct flight *flight_ring_untaken(struct flight_ring *ring) {
    for (uint32_t i = 0; i < ring->count; i++)
        if (!ring->flights[place_of(ring, i)].taken)
            return &ring->flights[place_of(ring, i)];
    return NULL;
}

struct flight *flight_ring_free(struct flight_ring *ring) {
    return ring->count < ring->size ? &ring->flights[place_of(ring, ring->count)] : NULL;
}

void flight_ring_start(struct flight_ring *ring, struct flight *f) {
    CHECK(f == flight_ring_free(ring));
    ring->count++;
    flight_move(f, FLIGHT_RUNNING);
}

struct flight *flight_ring_oldest(struct flight_ring *ring) {
    return ring->count ? &ring->flights[ring->first] : NULL;
}

struct flight *flight_ring_uncollected(struct flight_ring *ring) {
    return find_oldest(ring, BIT(FLIGHT_RUNNING) | BIT(FLIGHT_SHARED));
}

struct flight *flight_ring_unshared(struct flight_ring *ring) {
    return find_oldest(ring, BIT(FLIGHT_RUNNING) | BIT(FLIGHT_COLLECTED));
}

void flight_ring_collect(struct flight_ring *ring, struct flight *f) {
    CHECK(f == flight_ring_uncollected(ring));
    flight_move(f, f->state == FLIGHT_SHARED ? FLIGHT_OVER : FLIGHT_COLLECTED);
}

void flight_ring_share(struct flight_ring *ring, struct flight *f) {
    CHECK(f == flight_ring_unshared(ring));
    flight_move(f, f->state == FLIGHT_COLLECTED ? FLIGHT_OVER : FLIGHT_SHARED);
}

static bool samples_for(const struct flight *f, uint32_t slot) {
    for (uint32_t i = 0; i < f->row_count; i++)
        if (f->rows[i].slot == slot && f->sample_of[i] != ROW_NONE)
            return true;
    return false;
}

uint64_t flight_ring_awaited(const struct flight_ring *ring, uint32_t slot) {
    for (uint32_t i = ring->count; i-- > 0;) {
        const struct flight *f = &ring->flights[place_of(ring, i)];
        if (f->state == FLIGHT_SHARED || f->state == FLIGHT_OVER)
            return 0; /* and so are all before it */
        if (samples_for(f, slot))
            return f->plan_number;
    }
    return 0;
}

void flight_ring_retire(struct flight_ring *ring) {
    struct flight *f = flight_ring_oldest(ring);
    CHECK(f && f->state == FLIGHT_OVER);
    flight_move(f, FLIGHT_FREE);
    ring->first = (ring->first + 1) % ring->size;
    ring->count--;
}

void flight_ring_reset(struct flight_ring *ring) {
    bool failed = false;
    for (uint32_t i = 0; i < ring->count; i++) {
        struct flight *f = &ring->flights[place_of(ring, i)];
        bool runs = f->state == FLIGHT_RUNNING || f->state == FLIGHT_SHARED;
        if (runs && !failed)
            failed = event_wait(f->done) != 0;
        flight_move(f, FLIGHT_FREE);
    }
    ring->count = 0;
}
