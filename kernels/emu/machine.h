/*
 * machine.h - how the emulator runs a grid: blocks on two SMs, warps whose lanes meet at
 * collectives, barriers, asynchronous copies.
 *
 * A CUDA thread is a fiber. One OS thread runs everything, so a run is decided by (kernel,
 * arguments, order, seed) alone. Lanes run one after the other until each waits; who goes first in
 * each pass is drawn from the order, so code that relies on an accidental order breaks in one of
 * them.
 *
 * Invariants:
 *   (1) at most SM_COUNT blocks are resident, twice as many of those of which an SM has room for two, or
 *       one cluster;
 *   (2) a thread waits for exactly one thing;
 *   (3) a pass in which nobody could run is a deadlock and is reported with what each thread waits
 *       for;
 *   (4) a block's shared memory is poisoned before it begins.
 *
 * Threading: one OS thread for each emulated device (thread-local machine).
 */
#ifndef KERNELS_EMU_MACHINE_H
#define KERNELS_EMU_MACHINE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/emu/fiber.h"
#include "kernels/emu/hopper.h"
#include "kernels/emu/races.h"

namespace emu {

enum {
    SM_COUNT = 2,
    SHARED_OF_TWO =
        113 * 1024,  /* of shared memory, a block's where an SM has room for two (of 9.0) */
    CLUSTER_MAX = 8, /* blocks, as all GPUs of sm_90 have it */
    WARP = 32,
    BARRIERS = 16,
    EXCHANGE_BYTES = 64,
    MEETINGS = 64,
    SHARED_MAX = 227 * 1024 /* of any architecture */
};

struct dim {
    unsigned x = 1, y = 1, z = 1;
};

/* What a thread waits for. */
enum class wait : uint8_t {
    nothing,
    barrier,
    cluster,
    mbarrier,
    warp,
    dependency,
    outside,
    yield,
    ended
};

/* Which thread goes first within a pass. `seeded` shuffles anew each pass, and now and then lets
 * one warp of a block run ahead of the others as far as it can. */
enum class order : uint8_t { ascending, descending, seeded };

struct block;
struct grid;

struct async_copy {
    void *to;
    const void *from;
    unsigned bytes, zero_bytes, group;
};

struct thread {
    struct fiber fiber {};
    dim idx;
    unsigned linear = 0, lane = 0, warp = 0;
    block *owner = nullptr;
    wait state = wait::nothing;
    unsigned barrier_idx = 0;
    const char *collective = "";
    const unsigned char (*view)[EXCHANGE_BYTES] = nullptr; /* what its last meeting exchanged */
    unsigned copy_group = 0;
    std::vector<async_copy> copies;
    /* sm_90 (hopper.h) */
    const uint64_t *waits_at = nullptr; /* an mbarrier, for the phase of this parity */
    uint32_t parity = 0;
    unsigned product_group = 0;
    bool product_fenced = false;
    std::vector<warpgroup_product> products;
    std::vector<product_sums> sums;
    uint32_t fences = 0;         /* fence.proxy.async so far */
    std::vector<uint32_t> clock; /* what it knows of the block's threads and mbarriers (races.h) */
};

/* Lanes deposit; when the last of a meeting comes, their deposits are copied to a place of the
 * meeting's own, for all of them to read. A lane reads before its next turn is over, in which time
 * a warp of 32 lanes cannot hold MEETINGS meetings. */
struct warp {
    struct gathering {
        uint32_t mask, here; /* lanes that shall meet, and those that have come */
        const char *what;
    };
    gathering open[WARP]; /* masks that do not overlap */
    unsigned open_count;
    uint32_t ended;
    alignas(16) unsigned char deposits[WARP][EXCHANGE_BYTES];
    alignas(16) unsigned char meetings[MEETINGS][WARP][EXCHANGE_BYTES];
    unsigned next_meeting;
    uint32_t meeting_count; /* so far */
};

struct block {
    grid *owner = nullptr;
    dim idx;
    std::vector<thread> threads;
    std::vector<std::unique_ptr<warp>> warps;
    unsigned char *shared = nullptr;
    unsigned live = 0;
    uint32_t epoch = 0; /* barriers passed */
    race_shared races;
    std::unordered_map<uint32_t, known_block> known; /* of other blocks, by number */
    unsigned arrived[BARRIERS] = {};
    std::vector<std::unique_ptr<mbarrier>> mbarriers;
    std::vector<bulk_copy> bulk;  /* on their way here */
    std::vector<block *> cluster; /* its blocks in order of rank, this one too */
    unsigned cluster_rank = 0;
    /* of rank 0: threads at the cluster's barrier, how often it has opened */
    unsigned cluster_arrived = 0, cluster_rounds = 0;
    /* a warp that runs alone for some passes (order::seeded) */
    unsigned favoured = 0, favoured_passes = 0;
};

struct launch {
    const char *name = "";
    dim grid_dim, block_dim;
    size_t shared_bytes = 0;
    /* programmatic dependent launch: the prologue may run before the predecessor has ended */
    bool dependent = false;
    /* blocks, neighbours along y and z, that begin together and see each other's shared memory */
    unsigned cluster_y = 1, cluster_z = 1;
    unsigned cluster() const {
        return cluster_y * cluster_z;
    }
    std::function<void()> run;
};

/* A launched grid in the course of running. */
struct grid {
    explicit grid(const launch &l);
    ~grid();
    /* Runs until all blocks have ended (true) or, with dependency_done false, until every resident
     * thread waits for the predecessor (false); or until nobody can go on but by what another
     * process writes (false, and waits_outside). */
    bool advance(bool dependency_done);

    launch what;
    std::vector<std::unique_ptr<block>> resident;
    std::vector<unsigned> block_order;
    size_t next_block = 0;
    bool lets_dependents_begin = false; /* a thread said so that had not waited yet */
    bool waited = false;                /* the grid before has ended */
    bool waits_outside = false;
    race_grid races;

  private:
    bool pass(bool dependency_done);
    block *start_block(unsigned linear);
    void start_cluster(unsigned first);
    void report_deadlock();
};

/* The thread that runs now; kernels' built-in variables read it. */
extern thread_local thread *self;

/* Which GPU is emulated: compute capability as tens, and what its kernels were compiled for. With
 * code older than 90, dependency_wait does nothing, as where the driver translates PTX. */
struct model {
    int arch = 90, compiled = 90;
    size_t shared_max() const; /* bytes of shared memory that a block may have */
};
extern model emulated;

/* Whether a launch keeps the limits of CUDA and of the emulated GPU; if not, failure_text() says
 * why not. */
bool launchable(const launch &l);

/* Order and seed of the grids launched from now on. */
void set_order(order o, uint64_t seed);

/* ---- called from kernels ---- */
/* Waits until all threads of the block are here (bar.sync idx). */
void barrier(unsigned idx = 0);
/* Lets other threads run. */
void yield();
/* Waits until all threads of the cluster's blocks are here (barrier.cluster). */
void cluster_barrier();
/* This block among those of its cluster, and how many lie along y. */
unsigned cluster_rank();
unsigned cluster_y();
/* Where `p`, of this block's shared memory, is in another block of the cluster (mapa). */
void *of_peer(const void *p, unsigned rank);
/* Writes a word of another process's device memory (st.release.sys), for which [sent, sent + bytes)
 * has been written. */
void tell_outside(uint32_t *flag, uint32_t v, const void *sent, size_t bytes);
/* Whether such a word is `wanted` or later (ld.acquire.sys), with which [here, here + bytes) comes;
 * if not, the thread has had its turn. */
bool told_outside(const uint32_t *flag, uint32_t wanted, const void *here, size_t bytes);
uint64_t host_clock_ns();
/* Waits for the grid before, which this one may have begun beside (griddepcontrol.wait). */
void dependency_wait();
/* The grid behind may begin its prologue (griddepcontrol.launch_dependents). */
void dependents_launch();
/* Deposits `size` bytes for the lanes of mask to read, and waits until all of them have. Returns
 * the warp's exchange area of this meeting; entry `lane` is that lane's deposit. */
const unsigned char (*exchange(uint32_t mask, const char *what, const void *in,
                               size_t size))[EXCHANGE_BYTES];
/* An atomic at `at` that orders blocks: what this thread knows is released there, and what others
 * released there before is known (races.h). */
void order_blocks(const void *at);
/* cp.async: bytes of global memory into shared memory, then zeros; there once waited for. */
void copy_async(void *to, const void *from, unsigned bytes, unsigned zero_bytes);
/* cp.async.commit_group. */
void copy_commit();
/* cp.async.wait_group: all but so many of the last groups are there. */
void copy_wait(unsigned groups_left);
/* The calling thread goes on when what it waits for has come. */
void wait_here(wait what);
/* Whether, by the order of threads, what may happen early or late happens early now. */
bool reads_early();
[[noreturn]] void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* True after fail(): the device is in its sticky failed state. */
bool failed();
/* As a new process would find the device. */
void clear_failure();
/* What fail() said; "" while nothing failed. */
const char *failure_text();

} // namespace emu
#endif
