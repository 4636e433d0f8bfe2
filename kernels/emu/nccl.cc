/*
 * nccl.cc - the NCCL calls of kernels/nccl.h for emulated devices, between processes: a segment of shared memory with a
 * byte ring for each ordered pair of ranks.
 *
 * A group becomes one piece of work on the stream: all its sends and receives together, moved forward in turns until
 * every one is done, as NCCL promises. The emulated stream runs in the caller's thread, so a wait for a rank that never
 * comes has to end by itself: when a rank has aborted, or its process is gone. Like the real one it refuses
 * two ranks on one device, a second user of an id's rank, and calls on an aborted communicator.
 */
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <new>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "kernels/emu/cuda_emu.h"
extern "C" {
#include "kernels/nccl.h"
}

namespace {

enum { RANKS = 8, RING = 1 << 14 };
const int ERROR_SYSTEM = 2, ERROR_ARGUMENT = 4, ERROR_USAGE = 5, ERROR_REMOTE = 6;

struct ring {
    alignas(64) std::atomic<uint64_t> head, tail;
    char data[RING];
};
struct segment {
    std::atomic<uint32_t> pids[RANKS];
    std::atomic<uint32_t> present, aborted;
    ring rings[RANKS][RANKS]; /* [from][to] */
};

struct transfer {
    bool sends;
    char *data;
    size_t left;
    int peer;
};

} // namespace

struct nccl_comm {
    segment *shared;
    int rank, count;
    bool ready;
    std::shared_ptr<std::atomic<bool>> dead; /* also held by work still on a stream */
    char name[64];
};

namespace {

thread_local int depth;
struct pending {
    nccl_comm *comm;
    cudaStream_t stream;
    std::vector<transfer> list;
};
thread_local std::vector<pending> pendings;

/* By its folder: a worker's sandbox lets it signal nobody else, not even with signal 0. */
bool runs(pid_t pid) {
    char folder[32];
    snprintf(folder, sizeof folder, "/proc/%d", (int)pid);
    return access(folder, F_OK) == 0;
}

bool somebody_is_gone(const nccl_comm &c) {
    if (*c.dead || c.shared->aborted) return true;
    for (int i = 0; i < c.count; i++)
        if (!runs((pid_t)c.shared->pids[i])) return true;
    return false;
}

/* Moves what it can; true when the transfer got anywhere. */
bool move(segment *shared, int rank, transfer &t) {
    ring &r = t.sends ? shared->rings[rank][t.peer] : shared->rings[t.peer][rank];
    uint64_t head = r.head.load(std::memory_order_acquire), tail = r.tail.load(std::memory_order_acquire);
    uint64_t at = t.sends ? head : tail;
    size_t room = t.sends ? RING - (size_t)(head - tail) : (size_t)(head - tail);
    size_t n = t.left < room ? t.left : room;
    if (n > RING - at % RING) n = RING - at % RING;
    if (n == 0) return false;
    if (t.sends) memcpy(r.data + at % RING, t.data, n);
    else memcpy(t.data, r.data + at % RING, n);
    (t.sends ? r.head : r.tail).store(at + n, std::memory_order_release);
    t.data += n;
    t.left -= n;
    return true;
}

void run(const nccl_comm &c, std::vector<transfer> list) {
    for (uint32_t idle = 0;;) {
        bool all = true, any = false;
        /* Two transfers on one ring keep their order: a later one waits for the one before. */
        for (size_t i = 0; i < list.size(); i++) {
            bool first = true;
            for (size_t k = 0; k < i; k++)
                if (list[k].left && list[k].sends == list[i].sends && list[k].peer == list[i].peer) first = false;
            if (list[i].left && first) any = move(c.shared, c.rank, list[i]) || any;
            all = all && !list[i].left;
        }
        if (all) return;
        if (any) {
            idle = 0;
            continue;
        }
        if (++idle % 64 == 0) {
            if (somebody_is_gone(c)) return; /* what was not received stays as it was: poison */
            timespec pause = {0, 200000};
            nanosleep(&pause, nullptr);
        } else {
            sched_yield();
        }
    }
}

int flush() {
    for (pending &p : pendings) {
        nccl_comm copy = *p.comm;
        std::vector<transfer> list = p.list;
        if (emu_enqueue_call("ncclGroup", [copy, list]() { run(copy, list); }, p.stream) != cudaSuccess)
            return ERROR_SYSTEM;
    }
    pendings.clear();
    return NCCL_SUCCESS;
}

int add(nccl_comm *c, bool sends, void *data, size_t count, int type, int peer, void *stream) {
    size_t size = type == NCCL_FLOAT32 ? 4 : type == NCCL_FLOAT16 || type == NCCL_BFLOAT16 ? 2 : 0;
    if (!c || *c->dead || !c->ready) return ERROR_USAGE;
    if (!size || peer < 0 || peer >= c->count || !stream) return ERROR_ARGUMENT;
    cudaStream_t on = (cudaStream_t)stream;
    pending *found = nullptr;
    for (pending &p : pendings)
        if (p.comm == c && p.stream == on) found = &p;
    if (!found) {
        pendings.push_back(pending{c, on, {}});
        found = &pendings.back();
    }
    found->list.push_back(transfer{sends, (char *)data, count * size, peer});
    return depth ? (int)NCCL_SUCCESS : flush();
}

int get_version(int *version) { *version = NCCL_LEAST_VERSION; return NCCL_SUCCESS; }

int get_unique_id(nccl_id *id) {
    FILE *f = fopen("/dev/urandom", "rb");
    bool ok = f && fread(id->bytes, 1, sizeof id->bytes, f) == sizeof id->bytes;
    if (f) fclose(f);
    return ok ? (int)NCCL_SUCCESS : ERROR_SYSTEM;
}

int init(nccl_comm **out, int count, nccl_id id, int rank, nccl_config *config) {
    if (count < 1 || count > RANKS || rank < 0 || rank >= count || config->magic != 0xcafebeef || config->blocking != 0)
        return ERROR_ARGUMENT;
    std::unique_ptr<nccl_comm> c(new nccl_comm{nullptr, rank, count, false, std::make_shared<std::atomic<bool>>(false), ""});
    int n = snprintf(c->name, sizeof c->name, "/trireme-emu-");
    for (int i = 0; i < 16; i++) n += snprintf(c->name + n, sizeof c->name - (size_t)n, "%02x", (unsigned char)id.bytes[i]);
    int fd = shm_open(c->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, sizeof(segment)) != 0) return ERROR_SYSTEM;
    void *p = mmap(nullptr, sizeof(segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return ERROR_SYSTEM;
    c->shared = (segment *)p;
    uint32_t nobody = 0;
    if (!c->shared->pids[rank].compare_exchange_strong(nobody, (uint32_t)getpid())) return ERROR_USAGE;
    c->shared->present |= 1u << rank;
    *out = c.release();
    return NCCL_IN_PROGRESS;
}

int async_error(nccl_comm *c, int *result) {
    if (!c) return ERROR_ARGUMENT;
    bool all = c->shared->present == (1u << c->count) - 1;
    if (all && !c->ready) shm_unlink(c->name);
    c->ready = c->ready || all;
    *result = *c->dead || c->shared->aborted ? ERROR_REMOTE : c->ready ? (int)NCCL_SUCCESS : (int)NCCL_IN_PROGRESS;
    if (c->ready && *result == NCCL_SUCCESS && somebody_is_gone(*c)) *result = ERROR_REMOTE;
    return NCCL_SUCCESS;
}

/* The mapping stays: work on a stream may still look at it. A process makes few of them. */
int abort_comm(nccl_comm *c) {
    *c->dead = true;
    c->shared->aborted = 1;
    shm_unlink(c->name);
    for (pending &p : pendings)
        if (p.comm == c) p.list.clear();
    pendings.clear();
    depth = 0;
    delete c;
    return NCCL_SUCCESS;
}

const char *error_string(int result) {
    switch (result) {
    case NCCL_SUCCESS: return "no error";
    case ERROR_SYSTEM: return "unhandled system error";
    case ERROR_ARGUMENT: return "invalid argument";
    case ERROR_USAGE: return "invalid usage";
    case ERROR_REMOTE: return "remote process exited or there was a network error";
    default: return "another error";
    }
}

int send(const void *data, size_t count, int type, int peer, nccl_comm *c, void *stream) {
    return add(c, true, const_cast<void *>(data), count, type, peer, stream);
}
int receive(void *data, size_t count, int type, int peer, nccl_comm *c, void *stream) {
    return add(c, false, data, count, type, peer, stream);
}
int group_start() { depth++; return NCCL_SUCCESS; }
int group_end() {
    if (depth == 0) return ERROR_USAGE;
    return --depth ? (int)NCCL_SUCCESS : flush();
}

const nccl_calls CALLS = {get_version, get_unique_id, init,    async_error, abort_comm,
                          error_string, send,          receive, group_start, group_end};

__attribute__((constructor)) void bring() { nccl_register(&CALLS); }

} // namespace
