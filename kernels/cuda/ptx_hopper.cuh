/*
 * ptx_hopper.cuh - the PTX of sm_90a, each instruction a function with its plain-C twin for the
 * emulator: mbarriers, bulk copies, products of a warpgroup (wgmma), fences between the threads'
 * view of shared memory and theirs.
 *
 * Only code that runs where PTX_SM90A is set may call these: elsewhere they stop the kernel.
 * Source: PTX ISA 9.0, sections "Parallel Synchronization: mbarrier", "cp.async.bulk",
 * "Asynchronous Warpgroup Level Matrix Instructions", "Matrix Descriptor", "setmaxnreg".
 */
#ifndef KERNELS_CUDA_PTX_HOPPER_CUH
#define KERNELS_CUDA_PTX_HOPPER_CUH

#include "kernels/cuda/ptx.cuh"

#if defined(TRIREME_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define PTX_SM90A 1
#endif

#if defined(TRIREME_EMULATED)
#define HOPPER_PTX(emulated, ...) emulated
#elif defined(PTX_SM90A)
#define HOPPER_PTX(emulated, ...) asm volatile(__VA_ARGS__)
#else
#define HOPPER_PTX(emulated, ...) asm volatile("trap;")
#endif

/* ---- mbarriers: 8 bytes of shared memory, made by one thread before a __syncthreads ---- */

/* A phase ends when so many threads have arrived, and all bytes that they announced. */
__device__ __forceinline__ void mbarrier_init(uint64_t *at, uint32_t arrivals) {
    HOPPER_PTX(emu::mbarrier_init(at, arrivals),
               "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(at)), "r"(arrivals)
               : "memory");
}
/* The mbarriers made so far are there for bulk copies too. */
__device__ __forceinline__ void mbarrier_init_fence() {
    HOPPER_PTX((void)0, "fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint64_t *at) {
    HOPPER_PTX(emu::mbarrier_arrive(at, 0),
               "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(at))
               : "memory");
}
/* Arrives, and announces bytes that bulk copies will bring in this phase. */
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t *at, uint32_t bytes) {
    HOPPER_PTX(emu::mbarrier_arrive(at, bytes),
               "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(at)),
               "r"(bytes)
               : "memory");
}
/* Waits for the end of the phase with this parity: 0 for the first, 1 for the second, and so on.
 * Before the first phase has ended, the phase of parity 1 counts as ended. */
__device__ __forceinline__ void mbarrier_wait(uint64_t *at, uint32_t parity) {
    HOPPER_PTX(emu::mbarrier_wait(at, parity),
               "{ .reg .pred done;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again; }" ::"r"(shared_address(at)),
               "r"(parity)
               : "memory");
}

/* ---- bulk copies ---- */

/* `bytes` (a multiple of 16, both places aligned to 16) from global to shared memory; they arrive
 * at an mbarrier. Weights: read once, first to leave L2. */
__device__ __forceinline__ void copy_bulk(void *to_shared, const void *from, uint32_t bytes,
                                          uint64_t *barrier) {
    HOPPER_PTX(emu::copy_bulk(to_shared, from, bytes, barrier),
               "{ .reg .b64 policy;\n"
               "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
               "[%0], [%1], %2, [%3], policy; }" ::"r"(shared_address(to_shared)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

/* The same of what others will read as well. */
__device__ __forceinline__ void copy_bulk_shared(void *to_shared, const void *from, uint32_t bytes,
                                                 uint64_t *barrier) {
    HOPPER_PTX(emu::copy_bulk(to_shared, from, bytes, barrier),
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];" ::"r"(shared_address(to_shared)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

/* ---- fences, registers ---- */

/* What this thread wrote to shared memory, by stores or cp.async that it has waited for, may be
 * read by products of those who learn of it from now on. */
__device__ __forceinline__ void fence_async() {
    HOPPER_PTX(emu::fence_async(), "fence.proxy.async.shared::cta;" ::: "memory");
}
/* Registers a thread of this warpgroup has from now on (all its warps call it): others get them. */
template <int count> __device__ __forceinline__ void registers_grow() {
    static_assert(count % 8 == 0 && count >= 24 && count <= 256, "as the instruction wants it");
    HOPPER_PTX((void)0, "setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count> __device__ __forceinline__ void registers_shrink() {
    static_assert(count % 8 == 0 && count >= 24 && count <= 256, "as the instruction wants it");
    HOPPER_PTX((void)0, "setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

/* The block's place, read anew: it need not be kept through a loop. */
static __device__ __forceinline__ uint32_t block_x_again() {
#ifdef TRIREME_EMULATED
    return blockIdx.x;
#else
    uint32_t x;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
    return x;
#endif
}
static __device__ __forceinline__ uint32_t block_y_again() {
#ifdef TRIREME_EMULATED
    return blockIdx.y;
#else
    uint32_t y;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(y));
    return y;
#endif
}

/* ---- pairs of bf16 (f16), on any GPU ---- */

/* Both halves of a register, rounded once to nearest even; subnormal numbers count. */
#ifdef TRIREME_EMULATED
template <int A, class F> static inline uint32_t emu_pairs(uint32_t a, uint32_t b, F op) {
    const bool bf16 = A == STORAGE_BF16;
    const float2 x = bf16 ? bf16x2_float2(a) : f16x2_float2(a),
                 y = bf16 ? bf16x2_float2(b) : f16x2_float2(b);
    const float lo = op(x.x, y.x), hi = op(x.y, y.y);
    return bf16 ? float2_bf16x2(lo, hi) : float2_f16x2(lo, hi);
}
#define HOPPER_PAIRS(name, op, bf16, f16)                                                          \
    template <int A> static inline uint32_t name(uint32_t a, uint32_t b) {                         \
        return emu_pairs<A>(a, b, [](float x, float y) { return x op y; });                        \
    }
#elif defined(PTX_SM90)
#define HOPPER_PAIRS(name, op, bf16, f16)                                                          \
    template <int A> __device__ __forceinline__ uint32_t name(uint32_t a, uint32_t b) {            \
        uint32_t d;                                                                                \
        if (A == STORAGE_BF16)                                                                     \
            asm(bf16 " %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));                                   \
        else                                                                                       \
            asm(f16 " %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));                                    \
        return d;                                                                                  \
    }
#else /* a * 1 + b, a * b + (-0): the same, rounded once */
#define HOPPER_PAIRS(name, op, bf16, f16)                                                          \
    template <int A> __device__ __forceinline__ uint32_t name(uint32_t a, uint32_t b) {            \
        const bool adds = 1 op 1 == 2;                                                             \
        const uint32_t one = A == STORAGE_BF16 ? 0x3f803f80u : 0x3c003c00u, zero = 0x80008000u,    \
                       y = adds ? one : b, z = adds ? b : zero;                                    \
        return A == STORAGE_BF16 ? fma_bf16x2(a, y, z) : fma_f16x2(a, y, z);                       \
    }
#endif
HOPPER_PAIRS(pair_add, +, "add.rn.bf16x2", "add.rn.f16x2")
HOPPER_PAIRS(pair_multiply, *, "mul.rn.bf16x2", "mul.rn.f16x2")

/* (w & mask) | bits, as one instruction: of two constants the compiler makes two. */
__device__ __forceinline__ uint32_t mask_or(uint32_t w, uint32_t mask, uint32_t bits) {
#ifdef TRIREME_EMULATED
    return (w & mask) | bits;
#else
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(w), "r"(mask), "r"(bits));
    return d;
#endif
}
/* v is kept in a register, not computed again where it is used. */
__device__ __forceinline__ void register_hold(uint32_t &v) {
#ifndef TRIREME_EMULATED
    asm volatile("" : "+r"(v));
#endif
}

/* Two values as e4m3, low byte from lo: to the nearest, even among two; beyond 448 that; NaN stays. */
__device__ __forceinline__ uint32_t float2_e4m3x2(float lo, float hi) {
#if defined(TRIREME_EMULATED)
    return (uint32_t)f32_to_e4m3(hi) << 8 | f32_to_e4m3(lo);
#elif defined(PTX_SM90A)
    uint16_t both;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(hi), "f"(lo));
    return both;
#else
    return 0;
#endif
}
/* Bytes 0, 2 (odd: 1, 3) of a, then of b. */
__device__ __forceinline__ uint32_t every_other_byte(uint32_t a, uint32_t b, bool odd) {
#ifdef TRIREME_EMULATED
    a >>= odd ? 8 : 0, b >>= odd ? 8 : 0;
    return (a & 0xff) | (a >> 8 & 0xff00) | (b & 0xff) << 16 | (b << 8 & 0xff000000u);
#else
    return __byte_perm(a, b, odd ? 0x7531 : 0x6420);
#endif
}
/* ---- products of a warpgroup ---- */

/*
 * d[64, N] += a[64, 16] * b[16, N] by the four warps of a warpgroup (threads 128 i to 128 i + 127),
 * 16-bit operands, f32 sums. a and b lie in shared memory as tiles of 64 k (wgmma_tile), b as [N,
 * k]; or a in registers, each warp its 16 rows as in mma_bf16. d: warp w, lane l: d[4 j + i] is row
 * 16 w + l / 4 + i / 2 * 8, column 8 j + l % 4 * 2 + i % 2.
 *
 * Order: wgmma_fence once before the first and whenever registers were touched; wgmma...;
 * wgmma_commit; wgmma_wait<n> before d (or a in registers) may be touched, or a tile overwritten.
 */

/* Where products find a tile [rows, 64] of 16-bit values at a multiple of 1024 bytes: rows of 128
 * bytes, chunk c of 16 bytes of row r at place c ^ r % 8 (swizzled_chunk). From k on. */
__device__ __forceinline__ uint64_t wgmma_tile(const void *tile, uint32_t k) {
#if defined(TRIREME_EMULATED)
    return emu::product_tile(tile, k);
#elif defined(PTX_SM90A)
    /* start, leading offset (not used), 1024 bytes from 8 rows to the next 8, 128-byte swizzle */
    return ((uint64_t)(shared_address(tile) + k * 2) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 |
           1ull << 62;
#else
    return 0;
#endif
}
/* For b of by_panels: a tile [k, N] at a multiple of 1024 bytes, as panels of 64 columns that lie
 * `bytes` (a multiple of 1024) apart, each k rows of 128 bytes in the same swizzle; 16 k on: 2048
 * bytes past. */
__device__ __forceinline__ uint64_t wgmma_panels(const void *tile, uint32_t bytes) {
#if defined(TRIREME_EMULATED)
    return emu::product_panels(tile, bytes);
#elif defined(PTX_SM90A)
    /* leading offset: 64 columns to the next 64; stride: 1024 bytes from 8 k to the next 8 */
    return ((uint64_t)shared_address(tile) & 0x3ffff) >> 4 | (uint64_t)(bytes >> 4) << 16 |
           64ull << 32 | 1ull << 62;
#else
    return 0;
#endif
}
/* The same `bytes` (a multiple of 16) further: k of the tile, or another tile. */
__device__ __forceinline__ uint64_t wgmma_tile_past(uint64_t tile, uint32_t bytes) {
#ifdef TRIREME_EMULATED
    return tile + bytes;
#else
    return tile + (bytes >> 4);
#endif
}
/* Index of 16-bit value (row, chunk * 8) of such a tile. */
__device__ __forceinline__ uint32_t swizzled_chunk(uint32_t row, uint32_t chunk) {
    return row * 64 + (chunk ^ row % 8) * 8;
}

__device__ __forceinline__ void wgmma_fence() {
    HOPPER_PTX(emu::product_fence(), "wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
    HOPPER_PTX(emu::product_commit(), "wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int left> __device__ __forceinline__ void wgmma_wait() {
    HOPPER_PTX(emu::product_wait(left), "wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

/* Sums stay in the registers they are in: nothing moves them between products. */
template <int COUNT> __device__ __forceinline__ void wgmma_hold(float (&d)[COUNT]) {
#ifndef TRIREME_EMULATED
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i])::"memory");
#endif
}

#ifdef TRIREME_EMULATED
static inline void emu_bf16_to_f32(const uint32_t *pairs, unsigned count, float *out) {
    for (unsigned i = 0; i < count; i++) {
        const float2 v = bf16x2_float2(pairs[i]);
        out[2 * i] = v.x, out[2 * i + 1] = v.y;
    }
}
static inline void emu_e4m3_to_f32(const uint32_t *words, unsigned count, float *out) {
    for (unsigned i = 0; i < 4 * count; i++)
        out[i] = storage_get(STORAGE_F8_E4M3, words, i);
}
static inline void emu_f16_to_f32(const uint32_t *pairs, unsigned count, float *out) {
    for (unsigned i = 0; i < count; i++) {
        const float2 v = f16x2_float2(pairs[i]);
        out[2 * i] = v.x, out[2 * i + 1] = v.y;
    }
}
#endif

/* Operands "+f"(d[i]) and their names in the text, 4, 16, ... of them. */
#define WGMMA_D4(i)    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_D16(i)   WGMMA_D4(i), WGMMA_D4(i + 4), WGMMA_D4(i + 8), WGMMA_D4(i + 12)
#define WGMMA_D64(i)   WGMMA_D16(i), WGMMA_D16(i + 16), WGMMA_D16(i + 32), WGMMA_D16(i + 48)
#define WGMMA_NAMES_4  "%0, %1, %2, %3"
#define WGMMA_D_4      WGMMA_D4(0)
#define WGMMA_NAMES_8  "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_D_8      WGMMA_D4(0), WGMMA_D4(4)
#define WGMMA_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_D_16     WGMMA_D16(0)
#define WGMMA_NAMES_32                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_D_32 WGMMA_D16(0), WGMMA_D16(16)
#define WGMMA_NAMES_64                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_D_64 WGMMA_D64(0)
#define WGMMA_NAMES_128                                                                            \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_D_128 WGMMA_D64(0), WGMMA_D64(64)

/*
 * The instruction for one width and type. COUNT = N / 2 sums a thread; numbers of the operands
 * behind them are given as text, for they depend on COUNT. fresh: d = a * b. by_panels: b lies as
 * wgmma_panels has it.
 */
#define WGMMA_SHAPE(TYPE, ptx_type, to_f32, N, COUNT, O0, O1, O2, O3, O4, O5)                      \
    template <> struct wgmma_shape<TYPE, N> {                                                      \
        static __device__ __forceinline__ void tiles(float (&d)[COUNT], uint64_t a, uint64_t b,    \
                                                     bool fresh) {                                 \
            HOPPER_PTX(emu::product_ask(d, N, a, nullptr, b, fresh, to_f32),                       \
                       "{ .reg .pred add; setp.eq.u32 add, " O2 ", 0;\n"                           \
                       "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." ptx_type "." ptx_type     \
                       " {" WGMMA_NAMES_##COUNT "}, " O0 ", " O1 ", add, 1, 1, 0, 0; }"            \
                       : WGMMA_D_##COUNT                                                           \
                       : "l"(a), "l"(b), "r"((uint32_t)fresh));                                    \
        }                                                                                          \
        static __device__ __forceinline__ void                                                     \
        registers(float (&d)[COUNT], const uint32_t (&a)[4], uint64_t b, bool fresh) {             \
            HOPPER_PTX(emu::product_ask(d, N, 0, a, b, fresh, to_f32),                             \
                       "{ .reg .pred add; setp.eq.u32 add, " O5 ", 0;\n"                           \
                       "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." ptx_type "." ptx_type     \
                       " {" WGMMA_NAMES_##COUNT "}, {" O0 ", " O1 ", " O2 ", " O3 "}, " O4         \
                                                ", add, 1, 1, 0; }"                                \
                       : WGMMA_D_##COUNT                                                           \
                       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                       \
                         "r"((uint32_t)fresh));                                                    \
        }                                                                                          \
        static __device__ __forceinline__ void by_panels(float (&d)[COUNT],                        \
                                                         const uint32_t (&a)[4], uint64_t b) {     \
            HOPPER_PTX(emu::product_ask(d, N, 0, a, b, false, to_f32),                             \
                       "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." ptx_type "." ptx_type     \
                       " {" WGMMA_NAMES_##COUNT "}, {" O0 ", " O1 ", " O2 ", " O3 "}, " O4         \
                                                ", 1, 1, 1, 1;"                                    \
                       : WGMMA_D_##COUNT                                                           \
                       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                      \
        }                                                                                          \
    };
#define WGMMA_SHAPES(TYPE, ptx_type, to_f32)                                                       \
    WGMMA_SHAPE(TYPE, ptx_type, to_f32, 8, 4, "%4", "%5", "%6", "%7", "%8", "%9")                  \
    WGMMA_SHAPE(TYPE, ptx_type, to_f32, 16, 8, "%8", "%9", "%10", "%11", "%12", "%13")             \
    WGMMA_SHAPE(TYPE, ptx_type, to_f32, 32, 16, "%16", "%17", "%18", "%19", "%20", "%21")          \
    WGMMA_SHAPE(TYPE, ptx_type, to_f32, 64, 32, "%32", "%33", "%34", "%35", "%36", "%37")          \
    WGMMA_SHAPE(TYPE, ptx_type, to_f32, 128, 64, "%64", "%65", "%66", "%67", "%68", "%69")         \
    WGMMA_SHAPE(TYPE, ptx_type, to_f32, 256, 128, "%128", "%129", "%130", "%131", "%132", "%133")

template <int TYPE, int N> struct wgmma_shape;
WGMMA_SHAPES(STORAGE_BF16, "bf16", emu_bf16_to_f32)
WGMMA_SHAPES(STORAGE_F16, "f16", emu_f16_to_f32)

/* d[64, N] += a[64, 32] * b[32, N] of e4m3: bytes lie as those of 16 values of 16 bits do, in registers
 * and in tiles, whose rows of 128 bytes are 128 k. A GPU's sums keep fewer bits than f32 has: what is
 * summed over more than some hundred k is to be added up elsewhere. */
#define WGMMA_E4M3(N, COUNT, O0, O1, O2, O3, O4, O5)                                               \
    template <> struct wgmma_shape<STORAGE_F8_E4M3, N> {                                           \
        static __device__ __forceinline__ void                                                     \
        registers(float (&d)[COUNT], const uint32_t (&a)[4], uint64_t b, bool fresh) {             \
            HOPPER_PTX(emu::product_ask(d, N, 0, a, b, fresh, emu_e4m3_to_f32, 32),                \
                       "{ .reg .pred add; setp.eq.u32 add, " O5 ", 0;\n"                           \
                       "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3"                  \
                       " {" WGMMA_NAMES_##COUNT "}, {" O0 ", " O1 ", " O2 ", " O3 "}, " O4         \
                                                ", add, 1, 1; }"                                   \
                       : WGMMA_D_##COUNT                                                           \
                       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                       \
                         "r"((uint32_t)fresh));                                                    \
        }                                                                                          \
    };
WGMMA_E4M3(8, 4, "%4", "%5", "%6", "%7", "%8", "%9")
WGMMA_E4M3(32, 16, "%16", "%17", "%18", "%19", "%20", "%21")
WGMMA_E4M3(64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
WGMMA_E4M3(128, 64, "%64", "%65", "%66", "%67", "%68", "%69")

#endif
