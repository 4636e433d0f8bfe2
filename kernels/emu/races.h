/*
 * races.h - every access of the kernels to shared and device memory, watched: two threads that
 * touch the same word, one of them writing, with nothing between that orders them, are a race, and
 * the grid fails.
 *
 * Kernels compiled with -fsanitize=thread call __tsan_read4() and the like before each access;
 * watch.cc has functions of these names, so no sanitizer's library takes part. Kernels compiled
 * without are not watched.
 *
 * What orders two accesses: a barrier of the block between them; for threads of one warp also a
 * meeting of it (shuffle, vote, mma, __syncwarp); an mbarrier at which the first arrived behind its
 * access and whose phase the second has waited for; for threads of different blocks an atomic that
 * orders (order_blocks) by the first or, behind a barrier, by another thread of its block, and a
 * later one at the same place by the second, or by another thread of its block and then a barrier.
 * Atomics are not watched. A cp.async writes its target when it is asked for and
 * when it lands; a bulk copy when it is asked for and until the phase of its mbarrier ends; a
 * product of a warpgroup reads when it is asked for and when it is waited for, and what threads
 * wrote themselves only behind a fence of theirs.
 *
 * What blocks of a cluster do to each other's shared memory is not watched: who reads it too early
 * finds poison.
 *
 * In a block with mbarriers every thread has a clock: how much it knows of each other thread's
 * accesses and of each mbarrier's phases. An arrival gives it to the mbarrier, a wait takes it.
 *
 * Threading: the thread that runs the grid.
 */
#ifndef KERNELS_EMU_RACES_H
#define KERNELS_EMU_RACES_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace emu {

/* The last write and the last reads of a word. Thread numbers count from 1; 0: none. */
struct race_cell {
    uint32_t write_block = 0, write_epoch = 0, write_meeting = 0;
    uint32_t read_block = 0, read_epoch = 0, read_meeting = 0;
    uint32_t write_clock = 0, write_fences = 0;
    /* of a reader in a cluster, and of the last reader in another block of it: which, how many of
     * its barriers it had passed */
    uint32_t read_cluster = 0, read_round = 0, mate_round = 0;
    uint16_t writer = 0, reader = 0;
    bool several = false, warps = false,
         blocks = false; /* readers: more than one of a warp, of several, of several blocks */
    bool mates = false;  /* of several blocks of one cluster */
};

/* The last readers of a word, in a block with mbarriers. */
struct race_readers {
    enum { KEPT = 4 };
    struct {
        uint32_t epoch, meeting, clock;
        uint16_t number;
    } last[KEPT];
    uint8_t count = 0, next = 0;
};

struct race_shared {
    std::vector<race_cell> cells; /* made at the first access */
    std::vector<race_readers> readers;
};
/* What a block released: what it did before its barrier `epoch`, and all that `thread` did. */
struct released_block {
    uint32_t epoch;
    uint16_t thread; /* from 1 */
};
/* What a block knows of another: at once in the thread that learned it, in others from the barrier
 * behind on. */
struct known_block {
    struct released_block what;
    uint32_t epoch;
    uint16_t thread;
};
struct race_grid {
    std::unordered_map<uintptr_t, race_cell> cells;
    /* by place, then by block */
    std::unordered_map<uintptr_t, std::unordered_map<uint32_t, released_block>> released;
};

/* Some kernel was compiled to be watched. */
extern bool watched;

/* The calling thread is about to touch [p, p + size). Outside kernels: nothing. */
void note_access(const void *p, size_t size, bool write);
/* The same for what the emulator does for a kernel: only where kernels are watched. */
void note_access_if_watched(const void *p, size_t size, bool write);

struct block;
struct thread;
/* What the blocks of a cluster did before its barrier is known to all of them behind it. */
void order_cluster(const std::vector<block *> &cluster);

/* ---- blocks with mbarriers; only where kernels are watched ---- */

void begin_clocks(block *b);
size_t clock_count(const block *b);
/* Does nothing where there are no clocks. */
void release_clock(thread *t, std::vector<uint32_t> *to);
void acquire_clock(thread *t, const std::vector<uint32_t> &from);
/* The lanes of a mask, in the warp of t, have met. */
void merge_clocks(thread *t, uint32_t mask);
/* A copy writes shared memory [p, p + size) until those who wait for `clock` of the block's clock
 * `place` (its mbarriers' come behind its threads') know that it has landed. */
void note_copy(const void *p, size_t size, unsigned place, uint32_t clock);
/* Read past the threads' own view of memory. */
void note_async_read(const void *p, size_t size);

} // namespace emu
#endif
