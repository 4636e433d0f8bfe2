/*
 * What a rank takes from a rank on another host: each kind of frame from whom it may come, when and
 * how long; everything else ends the meeting and changes nothing. Three stages of two ranks, with
 * messages between all of them.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "proto/mesh.h"
#include "worker/comm_segment.h"

enum { TP = 2, PP = 3, RANKS = TP * PP, SAMPLER = 4, CHANNEL = 256, RECORD_MAX = 6 };
enum { RECORD_BYTES = 64 }; /* 16 and 8 for each row */

static struct comm *comms[RANKS];
static struct comm_meeting meeting;

static void *form(void *arg) {
    uint32_t self = (uint32_t)(uintptr_t)arg;
    struct comm_config config = {.place = {self % TP, TP, self / TP, PP},
                                 .at = meeting,
                                 .channel_bytes = CHANNEL,
                                 .record_max = RECORD_MAX,
                                 .form_ms = 60000,
                                 .timeout_ms = 60000};
    struct error err;
    if (comm_form(&comms[self], &config, &err))
        printf("# %s\n", err.text);
    return NULL;
}

static void form_all(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(!bind(fd, (struct sockaddr *)&at, len) && !getsockname(fd, (struct sockaddr *)&at, &len));
    close(fd);
    snprintf(meeting.rendezvous, sizeof meeting.rendezvous, "127.0.0.1:%d", ntohs(at.sin_port));
    mesh_key_new(meeting.key);
    pthread_t threads[RANKS];
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(!pthread_create(&threads[i], NULL, form, (void *)(uintptr_t)i));
    for (uint32_t i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
}

/* What a frame may change at whom it comes to; also what was there before it. */
struct figures {
    uint64_t posted, taken;      /* of the sender */
    uint64_t records, read;      /* posted by who samples, and taken by the receiver */
    uint64_t head, tail;         /* of the ring from the sender */
    uint64_t own_head, own_tail; /* of the ring to the next stage */
    uint64_t shared_len;
};

struct sending {
    uint32_t from, to;
    enum frame_kind kind;
    uint64_t number;
    size_t len;
    bool good;
    struct figures before;
};

static struct comm_channel *ring(const struct comm *c, uint32_t rank) {
    static struct comm_channel none;
    return rank < RANKS - TP ? channel_from(c, rank) : &none;
}

static void put(struct comm *c, const struct sending *s) {
    const struct figures *f = &s->before;
    atomic_store(&c->segment->broken, 0);
    atomic_store(&c->segment->ranks[s->from].posted, f->posted);
    atomic_store(&c->segment->ranks[s->from].taken, f->taken);
    atomic_store(&c->segment->records, f->records);
    atomic_store(&c->segment->ranks[s->to].taken, f->read);
    atomic_store(&ring(c, s->from)->head, f->head);
    atomic_store(&ring(c, s->from)->tail, f->tail);
    atomic_store(&ring(c, s->to)->head, f->own_head);
    atomic_store(&ring(c, s->to)->tail, f->own_tail);
    atomic_store(&c->segment->shared_len, f->shared_len);
}

static struct figures look(struct comm *c, const struct sending *s) {
    return (struct figures){.posted = atomic_load(&c->segment->ranks[s->from].posted),
                            .taken = atomic_load(&c->segment->ranks[s->from].taken),
                            .records = atomic_load(&c->segment->records),
                            .read = atomic_load(&c->segment->ranks[s->to].taken),
                            .head = atomic_load(&ring(c, s->from)->head),
                            .tail = atomic_load(&ring(c, s->from)->tail),
                            .own_head = atomic_load(&ring(c, s->to)->head),
                            .own_tail = atomic_load(&ring(c, s->to)->tail),
                            .shared_len = atomic_load(&c->segment->shared_len)};
}

static struct figures expected_of(const struct sending *s) {
    struct figures f = s->before;
    if (!s->good)
        return f;
    switch (s->kind) {
    case FRAME_SHARED: f.shared_len = s->len; break;
    case FRAME_CHUNK: f.posted = s->number + 1; break;
    case FRAME_STAGE: f.head = s->number + s->len; break;
    case FRAME_TAIL: f.own_tail = s->number; break;
    case FRAME_RECORD: f.records = s->number + 1; break;
    case FRAME_TAKEN: f.taken = s->number; break;
    case FRAME_BROKEN: break;
    }
    return f;
}

static const char *place_of(struct comm *c, const struct sending *s) {
    switch (s->kind) {
    case FRAME_SHARED: return c->segment->shared;
    case FRAME_CHUNK: return area_of(c, s->from, s->number);
    case FRAME_STAGE: return channel_from(c, s->from)->data + s->number % CHANNEL;
    case FRAME_RECORD: return record_at(c, s->number);
    default: return NULL;
    }
}

static void try_one(const struct sending *s) {
    static char data[AREA_BYTES + 1];
    struct comm *c = comms[s->to];
    struct comm_bell *bell = &c->segment->ranks[s->to].bell;
    memset(data, 'a' + (int)(s->number % 20), s->len);
    put(c, s);
    uint32_t rung = comm_bell_look(bell);
    EXPECT_EQ(mesh_send(comms[s->from]->mesh, s->to, s->kind, s->number, bytes_of(data, s->len)),
              0);
    for (int i = 0; i < 6000 && comm_bell_look(bell) == rung; i++) /* each frame rings it */
        comm_bell_sleep(bell, rung, 5);
    EXPECT_EQ(comm_bell_look(bell), rung + 1);
    struct figures seen = look(c, s), expected = expected_of(s);
    EXPECT_EQ(atomic_load(&c->segment->broken), !s->good);
    EXPECT(!memcmp(&seen, &expected, sizeof seen));
    if (s->good && s->len)
        EXPECT(!memcmp(place_of(c, s), data, s->len));
}

static const struct sending SENDINGS[] = {
    /* from the first rank of all, once */
    {0, 5, FRAME_SHARED, 0, 1, true, {0}},
    {0, 1, FRAME_SHARED, 0, COMM_SHARED_MAX, true, {0}},
    {0, 1, FRAME_SHARED, 0, COMM_SHARED_MAX + 1, false, {0}},
    {0, 1, FRAME_SHARED, 0, 0, false, {0}},
    {0, 1, FRAME_SHARED, 0, 8, false, {.shared_len = 8}},
    {1, 0, FRAME_SHARED, 0, 8, false, {0}},
    /* of the same stage, in order */
    {2, 3, FRAME_CHUNK, 0, AREA_BYTES, true, {0}},
    {3, 2, FRAME_CHUNK, 7, 0, true, {.posted = 7}},
    {2, 3, FRAME_CHUNK, 0, AREA_BYTES + 1, false, {0}},
    {2, 3, FRAME_CHUNK, 1, 8, false, {0}},
    {2, 3, FRAME_CHUNK, 6, 8, false, {.posted = 7}},
    {1, 2, FRAME_CHUNK, 0, 8, false, {0}},
    {4, 3, FRAME_CHUNK, 0, 8, false, {0}},
    /* of the same rank of the stage before; the ring is not overrun, and no frame goes past its end */
    {1, 3, FRAME_STAGE, 0, CHANNEL, true, {0}},
    {1, 3, FRAME_STAGE, 500, 12, true, {.head = 500, .tail = 256}},
    {1, 3, FRAME_STAGE, 500, 13, false, {.head = 500, .tail = 500}},
    {1, 3, FRAME_STAGE, 512, 100, true, {.head = 512, .tail = 356}},
    {1, 3, FRAME_STAGE, 512, 101, false, {.head = 512, .tail = 356}},
    {1, 3, FRAME_STAGE, 4, 8, false, {0}},
    {0, 3, FRAME_STAGE, 0, 8, false, {0}},
    {2, 3, FRAME_STAGE, 0, 8, false, {0}},
    {4, 0, FRAME_STAGE, 0, 8, false, {0}},
    /* of the same rank of the next stage: no more than was sent */
    {3, 1, FRAME_TAIL, 9, 0, true, {.own_head = 9}},
    {3, 1, FRAME_TAIL, 10, 0, false, {.own_head = 9}},
    {2, 1, FRAME_TAIL, 5, 0, false, {.own_head = 9}},
    {0, 2, FRAME_TAIL, 5, 0, false, {.own_head = 9}},
    /* from who samples, in order, while the receiver has room */
    {SAMPLER, 0, FRAME_RECORD, 0, RECORD_BYTES, true, {0}},
    {SAMPLER, 5, FRAME_RECORD, COMM_RECORDS, 16, true, {.records = COMM_RECORDS, .read = 1}},
    {SAMPLER, 5, FRAME_RECORD, COMM_RECORDS, 16, false, {.records = COMM_RECORDS}},
    {SAMPLER, 0, FRAME_RECORD, 0, RECORD_BYTES + 1, false, {0}},
    {SAMPLER, 0, FRAME_RECORD, 1, 16, false, {0}},
    {5, 0, FRAME_RECORD, 0, 16, false, {0}},
    {2, 0, FRAME_RECORD, 0, 16, false, {0}},
    /* to who samples: no more than there are */
    {1, SAMPLER, FRAME_TAKEN, 3, 0, true, {.records = 3}},
    {1, SAMPLER, FRAME_TAKEN, 4, 0, false, {.records = 3}},
    {1, 5, FRAME_TAKEN, 2, 0, false, {.records = 3}},
    /* what there is not */
    {0, 1, (enum frame_kind)(FRAME_TAKEN + 1), 0, 0, false, {0}},
};

TEST(frames_are_taken_from_whom_they_may_come_in_order_and_no_longer) {
    form_all();
    for (uint32_t i = 0; i < RANKS; i++)
        EXPECT(comms[i] && comm_is_spread(comms[i]));
    for (size_t i = 0; i < ARRAY_LEN(SENDINGS); i++)
        try_one(&SENDINGS[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        comm_free(&comms[i]);
}
