/*
 * hopper.h - what sm_90 brings, emulated: barriers in shared memory that count arrivals and bytes
 * (mbarrier), bulk copies that arrive at them, and products of a warpgroup (wgmma) that run beside
 * the threads which asked for them.
 *
 * Strict on purpose: a bulk copy poisons its target at once and lands as late as the order of
 * threads allows (machine.h: ascending late, descending early, seeded anywhere); a product's sums
 * are poison until the wait that covers it, and what it reads of shared memory it reads then (or at
 * once, by the order). What a GPU leaves undefined fails with the kernel's name: a wait at what is
 * no mbarrier, bytes past those expected, a copy that is not aligned or reads no device memory, a
 * product without a fence before it, a thread that ends with products or a block with copies under
 * way.
 *
 * Source: PTX ISA 9.0, "Parallel Synchronization: mbarrier", "cp.async.bulk", "Asynchronous
 * Warpgroup Level Matrix Instructions".
 */
#ifndef KERNELS_EMU_HOPPER_H
#define KERNELS_EMU_HOPPER_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emu {

struct block;
struct thread;

enum { MBARRIERS_MAX = 64, PRODUCT_COLUMNS_MAX = 256 };

/* The state of one; the 8 bytes in shared memory only name it. */
struct mbarrier {
    uintptr_t at;
    uint32_t expected, missing;           /* arrivals of a phase; those that have not come yet */
    int64_t bytes;                        /* expected, less those that have come */
    uint32_t phase;                       /* phases completed */
    std::vector<uint32_t> coming, passed; /* clocks of who arrived (races.h) */
};

struct bulk_copy {
    void *to;
    const void *from;
    uint32_t bytes;
    uint64_t *barrier;
};

/* `count` words as floats: two values of 16 bits each, or four of 8. */
typedef void (*pairs_to_f32)(const uint32_t *pairs, unsigned count, float *out);

/* d[64, n] += a[64, depth] * b[depth, n] of one warp's 16 rows, as one thread sees it. */
struct warpgroup_product {
    unsigned sums; /* index of the thread's sums */
    unsigned columns, group;
    unsigned depth;    /* 16; of 8 bits 32 */
    bool fresh;        /* d = a * b */
    uint64_t a, b;     /* shared memory (product_tile, b also product_panels); a 0: registers */
    uint32_t rows[16]; /* of a from registers: the words of rows g and g + 8 */
    pairs_to_f32 to_f32;
};
/* The sums of a product under way: poison in the thread's registers, true here. */
struct product_sums {
    float *at;
    unsigned count;
    bool early; /* operands are read at once */
    std::vector<float> value;
};

/* ---- called from kernels, by ptx_hopper.cuh ---- */
void mbarrier_init(uint64_t *at, uint32_t arrivals);
/* This thread arrives; the phase shall also wait for so many more bytes. */
void mbarrier_arrive(uint64_t *at, uint32_t bytes);
/* Waits until the phase of this parity has been completed. */
void mbarrier_wait(uint64_t *at, uint32_t parity);
void copy_bulk(void *to, const void *from, uint32_t bytes, uint64_t *barrier);
/* An arrival at the mbarrier that another block of the cluster has at the same place. */
void mbarrier_arrive_peer(uint64_t *at, unsigned rank);
/* From this block's shared memory to the same place of another block of the cluster; the bytes
 * arrive at that block's mbarrier. */
void copy_to_peer(void *at, uint32_t bytes, uint64_t *barrier, unsigned rank);
/* From device memory to the same place of the blocks of the cluster whose ranks' bits are set; the bytes
 * arrive at the mbarrier of each. */
void copy_bulk_to_ranks(void *to, const void *from, uint32_t bytes, uint64_t *barrier,
                        uint16_t ranks);
/* What a block of the cluster has where this one has `at`, `size` bytes of shared memory. */
void load_of_peer(void *to, const void *at, size_t size, unsigned rank);
/* What this thread has written to shared memory by itself may now be read by products. */
void fence_async();
/* A tile [rows, 64 values of 16 bits] whose rows of 128 bytes lie one after the other from a
 * multiple of 1024 on, their 16-byte chunks exchanged (128-byte swizzle); from k on. */
uint64_t product_tile(const void *tile, uint32_t k);
/* A tile [k, columns] for b: panels of 64 columns, each [k, 64 values] as above, `bytes` (a multiple
 * of 1024) from one to the next. */
uint64_t product_panels(const void *tile, uint32_t bytes);
void product_fence();
/* a: its tile, or NULL regs. d: 4 values for each 8 columns. */
void product_ask(float *d, unsigned columns, uint64_t a, const uint32_t *regs, uint64_t b,
                 bool fresh, pairs_to_f32 to_f32, unsigned depth = 16);
void product_commit();
void product_wait(unsigned groups_left);

/* ---- called by the machine ---- */
/* Whether the phase that a thread waits for has come; then it holds what those who arrived knew. */
bool mbarrier_passed(thread *t);
/* Lands some copies of a block, by the order of threads (0, 1, 2); with `must` at least one of
 * them. False: none was under way. */
bool land_copies(block *b, int order, uint64_t random, bool must);
/* A thread is about to end. */
void check_products_done();

} // namespace emu
#endif
