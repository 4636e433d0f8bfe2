/*
 * members.h - ranks of a replica as processes, each with a device of its own (kernels/peers.h): what
 * their tests share. Failures are told in memory of the parent's, which fails the test.
 */
#ifndef TESTS_UNIT_EMU_MEMBERS_H
#define TESTS_UNIT_EMU_MEMBERS_H

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "rig.h"

enum { WAIT_MS = 60000, TOLD_MAX = 640 };

/* What the processes of a test share. */
struct meeting {
    pthread_barrier_t barrier;
    struct peer_card cards[PEERS_MAX];
    char told[PEERS_MAX][TOLD_MAX]; /* what went wrong */
};

struct member {
    struct meeting *meeting;
    struct rig rig;
    struct peers *peers;
    const struct peer_ops *ops;
    uint32_t self, count;
};

#define TELL(m, ...)                                                                               \
    do {                                                                                           \
        if (!(m)->meeting->told[(m)->self][0])                                                     \
            snprintf((m)->meeting->told[(m)->self], TOLD_MAX, __VA_ARGS__);                        \
    } while (0)

static inline void meet(struct member *m) {
    pthread_barrier_wait(&m->meeting->barrier);
}

static inline bool member_join(struct member *m, int64_t wait_ms) {
    struct error err;
    int rc = m->ops->join(m->peers, m->meeting->cards, wait_ms, &err);
    if (rc)
        TELL(m, "does not join: %s", err.text);
    return !rc;
}

static inline void member_main(struct meeting *meeting, uint32_t self, uint32_t count,
                               enum storage_type act, void (*body)(struct member *m)) {
    struct member m = {.meeting = meeting, .self = self, .count = count};
    struct device_options options = {.kind = "cuda", .activation = act, .ordinal = (int)self};
    struct error err;
    alarm(100);
    if (device_open(&options, &m.rig.dev, &err))
        abort();
    m.rig.act = act;
    m.rig.stream = stream_new(m.rig.dev);
    m.rig.event = event_new(m.rig.dev);
    m.ops = m.rig.dev->ops->peers;
    if (m.ops->open(m.rig.dev, self, count, &m.peers, &meeting->cards[self], &err))
        TELL(&m, "has no memory for others: %s", err.text);
    meet(&m);
    if (!meeting->told[self][0])
        body(&m);
    event_record(m.rig.event, m.rig.stream);
    if (event_wait(m.rig.event))
        TELL(&m, "has a device that failed: %s", emu_failure());
    _exit(0); /* what it holds ends with it */
}

/* Runs body in `count` processes. */
static inline void run_members(uint32_t count, enum storage_type act,
                               void (*body)(struct member *m)) {
    struct meeting *meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    pid_t pids[PEERS_MAX];
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&meeting->barrier, &shared, count);
    fflush(NULL);
    for (uint32_t r = 0; r < count; r++)
        if ((pids[r] = fork()) == 0)
            member_main(meeting, r, count, act, body);
    for (uint32_t r = 0; r < count; r++) {
        int status = -1;
        waitpid(pids[r], &status, 0);
        if (meeting->told[r][0])
            check_fail(__FILE__, __LINE__, "rank %u of %u %s", r, count, meeting->told[r]);
        else if (!WIFEXITED(status) || WEXITSTATUS(status))
            check_fail(__FILE__, __LINE__, "rank %u of %u ended with status %x", r, count, status);
    }
    munmap(meeting, sizeof *meeting);
}

/* Sizes differ by rank, so that another order of the addends is another sum. */
static inline float addend(uint32_t rank, uint64_t seed, size_t i) {
    uint64_t words[] = {rank, seed, i}, h = hash64(words, sizeof words, 7);
    return ((float)(h >> 40) / (float)(1 << 23) - 1.0f) * (float)(1 << (h & 7));
}

static inline void put_addends(struct member *m, void *x, enum storage_type type, size_t count,
                               uint64_t seed) {
    void *host = malloc(storage_bytes(type, count) + 1);
    for (size_t i = 0; i < count; i++)
        storage_put(type, host, i, addend(m->self, seed, i));
    stream_copy_in(m->rig.stream, x, host, storage_bytes(type, count));
    free(host);
}

#endif
