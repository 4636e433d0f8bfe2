/*
 * races.h - every access of the kernels to shared and device memory, watched: two threads that touch the same word,
 * one of them writing, with nothing between that orders them, are a race, and the grid fails.
 *
 * Kernels compiled with -fsanitize=thread call __tsan_read4() and the like before each access; watch.cc has functions
 * of these names, so no sanitizer's library takes part. Kernels compiled without are not watched.
 *
 * What orders two accesses: a barrier of the block between them; for threads of one warp also a meeting of it (shuffle,
 * vote, mma, __syncwarp); for threads of different blocks nothing, unless both are atomic. Atomics are not watched. A
 * cp.async writes its target when it is asked for and when it lands.
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
    uint16_t writer = 0, reader = 0;
    bool several = false, warps = false,
         blocks = false; /* readers: more than one of a warp, of several, of several blocks */
};

struct race_shared {
    std::vector<race_cell> cells; /* of two bytes each; made at the first access */
};
struct race_grid {
    std::unordered_map<uintptr_t, race_cell> cells;
};

/* Some kernel was compiled to be watched. */
extern bool watched;

/* The calling thread is about to touch [p, p + size). Outside kernels: nothing. */
void note_access(const void *p, size_t size, bool write);
/* The same for what the emulator does for a kernel: only where kernels are watched. */
void note_access_if_watched(const void *p, size_t size, bool write);

} // namespace emu
#endif
