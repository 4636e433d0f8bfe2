/*
 * comm_segment.h - inside the ranks' meeting place (comm.h): how its shared memory is laid out, what goes
 * to ranks on other hosts, and waiting. For comm.c and comm_flow.c alone.
 *
 * Behind `struct comm_segment` lie the ranks' areas, the channels from stage to stage, and the records.
 */
#ifndef WORKER_COMM_SEGMENT_H
#define WORKER_COMM_SEGMENT_H

#include "worker/comm.h"
#include "worker/comm_wait.h"

enum { AREA_BYTES = 1 << 18, AREAS = 2, LINE = 64, SLICE_MS = 5 };

struct rank_line {
    _Alignas(LINE) struct comm_bell bell;
    _Atomic uint64_t posted; /* chunks this rank has put into its areas */
    _Atomic uint64_t taken;  /* records this rank has read */
    uint64_t unit;           /* written before it is present */
    _Alignas(8) char card[COMM_CARD_MAX];
};

struct comm_segment {
    _Alignas(LINE) _Atomic uint64_t present; /* bit of each rank that is in */
    _Atomic uint64_t layout;                 /* hash of what all must agree on; 0: not told yet */
    _Atomic uint32_t broken;                 /* somebody has given up */
    _Alignas(LINE) _Atomic uint64_t records; /* posted */
    _Atomic uint64_t shared_len;             /* 0: not given yet */
    char shared[COMM_SHARED_MAX];
    struct rank_line ranks[COMM_RANKS_MAX];
};

/* A byte ring from one rank to its successor in the next stage. */
struct comm_channel {
    _Alignas(LINE) _Atomic uint64_t head; /* bytes written */
    _Alignas(LINE) _Atomic uint64_t tail; /* bytes read */
    _Alignas(LINE) char data[];
};

struct comm {
    struct comm_config config;
    struct comm_place place;
    /* place in the segment; the stage's ranks are [first, first + tp); of all */
    uint32_t self, first, count;
    struct comm_segment *segment;
    uint64_t bytes;
    bool owned, own_memory;
    struct mesh *mesh;      /* NULL: all share the segment */
    bool spread;            /* it has met: what is put into the segment goes to the others */
    uint64_t chunk, record; /* next to post; next to post or to take */
    int failed;
    char why[128];
};

static inline uint64_t round_up(uint64_t n) {
    return (n + LINE - 1) / LINE * LINE;
}
static inline uint64_t channel_stride(const struct comm_config *f) {
    return sizeof(struct comm_channel) + round_up(f->channel_bytes);
}
static inline uint64_t record_stride(const struct comm_config *f) {
    return round_up(16 + (uint64_t)f->record_max * 8);
}
static inline uint64_t areas_at(void) {
    return sizeof(struct comm_segment);
}
static inline uint64_t channels_at(const struct comm_config *f) {
    return areas_at() + (uint64_t)f->place.tp * f->place.pp * AREAS * AREA_BYTES;
}
static inline uint64_t records_at(const struct comm_config *f) {
    return channels_at(f) + (uint64_t)(f->place.pp - 1) * f->place.tp * channel_stride(f);
}

static inline char *area_of(const struct comm *c, uint32_t rank, uint64_t chunk) {
    return (char *)c->segment + areas_at() + ((uint64_t)rank * AREAS + chunk % AREAS) * AREA_BYTES;
}
static inline struct comm_channel *channel_from(const struct comm *c, uint32_t rank) {
    return (struct comm_channel *)(void *)((char *)c->segment + channels_at(&c->config) +
                                           rank * channel_stride(&c->config));
}
static inline char *record_at(const struct comm *c, uint64_t number) {
    return (char *)c->segment + records_at(&c->config) +
           number % COMM_RECORDS * record_stride(&c->config);
}

/* What a rank sends of what it has put into its segment. */
enum frame_kind {
    FRAME_BROKEN, /* it has given up */
    FRAME_SHARED, /* from the first rank to all: the bytes */
    FRAME_CHUNK,  /* to its stage; number: of the chunk; the bytes of its area */
    FRAME_STAGE,  /* to the next stage; number: the ring's head before these bytes */
    FRAME_TAIL,   /* back; number: the ring's tail */
    FRAME_RECORD, /* from who samples to all; number: of the record; as it lies there */
    FRAME_TAKEN   /* back; number: records taken */
};

/* The first reason stays; wakes all ranks, tells those on other hosts. Returns its code. */
int comm_fail(struct comm *c, int code, const char *why);
/* To a rank on another host; nothing where it shares the segment. Without memory for it the comm fails. */
void comm_publish(struct comm *c, uint32_t to, enum frame_kind kind, uint64_t number,
                  struct bytes data);
void comm_publish_to_all(struct comm *c, enum frame_kind kind, uint64_t number, struct bytes data);

typedef bool (*comm_ready)(const struct comm *c, uint64_t goal);
/* Until ready(c, goal): spins, then sleeps. ERR_CLOSED or ERR_TIMEOUT where a rank has given up or does not
 * answer within limit_ms, and the comm has failed then. */
MUST_CHECK int comm_wait_until(struct comm *c, comm_ready ready, uint64_t goal, int64_t limit_ms);

#endif
