/*
 * ptx.cuh - every PTX instruction our kernels use but those of sm_90a (ptx_hopper.cuh), each a
 * function with its plain-C twin for the emulator.
 *
 * Nothing else in kernels/cuda/ contains asm. Instructions that need a newer architecture than
 * sm_80 say so and have a fallback for the older ones. Source of shapes and layouts: PTX ISA 9.0,
 * sections "Warp-level matrix instructions", "Data movement: asynchronous copy", "griddepcontrol".
 */
#ifndef KERNELS_CUDA_PTX_CUH
#define KERNELS_CUDA_PTX_CUH

#include "kernels/cuda/cuda.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define PTX_SM90 1
#endif

/* ---- bf16 and f16 as bits: no toolkit header has types the emulator could use ---- */

__device__ __forceinline__ float bf16_bits_float(uint32_t low16) {
    return __uint_as_float(low16 << 16);
}
/* Both halves of a packed pair, low first. */
__device__ __forceinline__ float2 bf16x2_float2(uint32_t v) {
    return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000u));
}

/* Round to nearest even; low half from lo. */
__device__ __forceinline__ uint32_t float2_bf16x2(float lo, float hi) {
#ifdef TRIREME_EMULATED
    auto one = [](float f) -> uint32_t {
        uint32_t b = __float_as_uint(f);
        if ((b & 0x7fffffffu) > 0x7f800000u)
            return 0x7fff;
        return (b + 0x7fffu + (b >> 16 & 1)) >> 16;
    };
    return one(hi) << 16 | one(lo);
#else
    uint32_t out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(hi), "f"(lo));
    return out;
#endif
}

__device__ __forceinline__ float2 f16x2_float2(uint32_t v) {
#ifdef TRIREME_EMULATED
    auto one = [](uint32_t h) -> float {
        uint32_t sign = (h & 0x8000u) << 16, e = h >> 10 & 31, m = h & 0x3ff;
        if (e == 31)
            return __uint_as_float(sign | 0x7f800000u | m << 13);
        if (e)
            return __uint_as_float(sign | (e + 112) << 23 | m << 13);
        float f = (float)m * 5.9604644775390625e-8f; /* 2^-24 */
        return sign ? -f : f;
    };
    return make_float2(one(v & 0xffff), one(v >> 16));
#else
    float2 out;
    asm("{ .reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
        : "=f"(out.x), "=f"(out.y)
        : "r"(v));
    return out;
#endif
}

/* Round to nearest even, beyond the largest finite value: that value. */
__device__ __forceinline__ uint32_t float2_f16x2(float lo, float hi) {
    lo = lo > 65504.0f ? 65504.0f : lo < -65504.0f ? -65504.0f : lo;
    hi = hi > 65504.0f ? 65504.0f : hi < -65504.0f ? -65504.0f : hi;
#ifdef TRIREME_EMULATED
    auto one = [](float f) -> uint32_t {
        uint32_t b = __float_as_uint(f), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
        if (a > 0x7f800000u)
            return 0x7fff;
        if (a >= 0x38800000u) { /* normal */
            a -= 112u << 23;
            return sign | (a + 0xfffu + (a >> 13 & 1)) >> 13;
        }
        return sign | (uint32_t)nearbyintf(__uint_as_float(a) * 16777216.0f);
    };
    return one(hi) << 16 | one(lo);
#else
    uint32_t out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(hi), "f"(lo));
    return out;
#endif
}

/* a * b + c of packed pairs, subnormal numbers kept. The emulator rounds twice: right where f32
 * holds the result. */
__device__ __forceinline__ uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
#ifdef TRIREME_EMULATED
    const float2 x = bf16x2_float2(a), y = bf16x2_float2(b), z = bf16x2_float2(c);
    return float2_bf16x2(fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y));
#else
    uint32_t out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
#endif
}
__device__ __forceinline__ uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c) {
#ifdef TRIREME_EMULATED
    const float2 x = f16x2_float2(a), y = f16x2_float2(b), z = f16x2_float2(c);
    return float2_f16x2(fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y));
#else
    uint32_t out;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
#endif
}

/* Bytes 0 and 1 (upper: 2 and 3) of four, each the lower (high: the upper) of two. */
__device__ __forceinline__ uint32_t spread_bytes(uint32_t four, bool upper, bool high) {
#ifdef TRIREME_EMULATED
    const uint32_t two = upper ? four >> 16 : four, spread = (two & 0xff) | (two & 0xff00) << 8;
    return high ? spread << 8 : spread;
#else
    return __byte_perm(four, 0, high ? (upper ? 0x3424 : 0x1404) : (upper ? 0x4342 : 0x4140));
#endif
}

/* ---- matrix products of a warp ---- */

/*
 * d[16, 8] += a[16, 16] * b[16, 8], f32 accumulators; a row-major, b column-major, of bf16 or f16
 * pairs. Lane l, g = l / 4, t = l % 4: a0 = (g, 2t..), a1 = (g + 8, 2t..), a2 = (g, 2t + 8..), a3 =
 * (g + 8, 2t + 8..); b0 = rows 2t.. of column g, b1 = rows 2t + 8..; d0, d1 = (g, 2t), (g, 2t + 1);
 * d2, d3 = (g + 8, ...).
 */
#ifdef TRIREME_EMULATED
template <class F>
static inline void emu_mma(float d[4], const uint32_t a[4], const uint32_t b[2], const char *what,
                           F pair) {
    struct {
        uint32_t a[4], b[2];
    } mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    auto *all = emu::exchange(0xffffffffu, what, &mine, sizeof mine);
    unsigned g = emu::self->lane / 4, t = emu::self->lane % 4;
    for (int i = 0; i < 4; i++) {
        unsigned row = g, column = 2 * t + unsigned(i & 1), half = unsigned(i >> 1);
        float sum = 0;
        for (unsigned k = 0; k < 8; k++) { /* pairs (2k, 2k + 1) of the 16 */
            uint32_t av[4], bv[2];
            memcpy(av, all[row * 4 + k % 4], sizeof av);
            memcpy(bv, all[column * 4 + k % 4] + sizeof av, sizeof bv);
            float2 x = pair(av[half + 2 * (k / 4)]), y = pair(bv[k / 4]);
            sum += x.x * y.x;
            sum += x.y * y.y;
        }
        d[i] += sum;
    }
}
#endif

__device__ __forceinline__ void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
#ifdef TRIREME_EMULATED
    emu_mma(d, a, b, "mma.bf16", bf16x2_float2);
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ __forceinline__ void mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
#ifdef TRIREME_EMULATED
    emu_mma(d, a, b, "mma.f16", f16x2_float2);
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Four 8x8 matrices of 16-bit values from shared memory: lane l gives the address of row l % 8 of
 * matrix l / 8 (16 bytes, aligned). out[m]: lane's pair of matrix m (row l / 4, columns 2 (l % 4)
 * ..); transposed: the pair (rows 2 (l % 4) .., column l / 4). */
#ifdef TRIREME_EMULATED
static inline void emu_ldmatrix(uint32_t *out, const void *row, int count, bool transposed,
                                const char *what) {
    uint64_t at = reinterpret_cast<uint64_t>(row);
    if (at % 16)
        emu::fail("%s: a row is not aligned to 16 bytes", what);
    auto *all = emu::exchange(0xffffffffu, what, &at, sizeof at);
    unsigned g = emu::self->lane / 4, t = emu::self->lane % 4;
    for (int m = 0; m < count; m++) {
        uint16_t pair[2];
        for (unsigned i = 0; i < 2; i++) {
            unsigned r = transposed ? 2 * t + i : g, c = transposed ? g : 2 * t + i;
            memcpy(&at, all[unsigned(m) * 8 + r], sizeof at);
            pair[i] = reinterpret_cast<const uint16_t *>(at)[c];
        }
        out[m] = uint32_t(pair[1]) << 16 | pair[0];
    }
}
#else
__device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}
#endif

__device__ __forceinline__ void ldmatrix_x4(uint32_t out[4], const void *row) {
#ifdef TRIREME_EMULATED
    emu_ldmatrix(out, row, 4, false, "ldmatrix.x4");
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
#endif
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t out[4], const void *row) {
#ifdef TRIREME_EMULATED
    emu_ldmatrix(out, row, 4, true, "ldmatrix.x4.trans");
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
#endif
}

/* ---- copies ---- */

/* 16 bytes from global to shared memory, landing at the cp_async_wait that covers it. With valid
 * false: 16 zero bytes, and `from` is not read. */
__device__ __forceinline__ void cp_async_16(void *to_shared, const void *from, bool valid) {
#ifdef TRIREME_EMULATED
    emu::copy_async(to_shared, from, 16, valid ? 0 : 16);
#else
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
                 "l"(from), "r"(bytes)
                 : "memory");
#endif
}
/* 16 bytes, of which the first `bytes` are there; the others become zeros. */
__device__ __forceinline__ void cp_async_some(void *to_shared, const void *from, uint32_t bytes) {
#ifdef TRIREME_EMULATED
    emu::copy_async(to_shared, from, 16, 16 - bytes);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
                 "l"(from), "r"(bytes)
                 : "memory");
#endif
}
__device__ __forceinline__ void cp_async_commit() {
#ifdef TRIREME_EMULATED
    emu::copy_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits until at most `left` of the newest groups of this thread are on their way. */
template <int left> __device__ __forceinline__ void cp_async_wait() {
#ifdef TRIREME_EMULATED
    emu::copy_wait(left);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#endif
}

/* 16 bytes that are read once: past L1, first to leave L2. */
__device__ __forceinline__ uint4 load_streaming(const void *p) {
#ifdef TRIREME_EMULATED
    return *static_cast<const uint4 *>(p);
#else
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
#endif
}

/* Asks for a line to be brought into L2. */
__device__ __forceinline__ void prefetch_l2(const void *p) {
#ifdef TRIREME_EMULATED
    (void)p;
#else
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}

/* ---- between blocks ---- */

/* *at += v; what it was. Whoever finds v there sees all that this thread has seen, and what its
 * block had written before its last barrier. */
__device__ __forceinline__ uint32_t atomic_add_ordered(uint32_t *at, uint32_t v) {
#ifdef TRIREME_EMULATED
    emu::order_blocks(at);
    return atomicAdd(at, v);
#else
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(at), "r"(v)
                 : "memory");
    return old;
#endif
}

/* ---- between GPUs ---- */

/* *flag = v, in memory that another GPU reads: it sees [sent, sent + bytes) too, which this block
 * had written there before its last barrier. */
__device__ __forceinline__ void peer_tell(uint32_t *flag, uint32_t v, const void *sent,
                                          size_t bytes) {
#ifdef TRIREME_EMULATED
    emu::tell_outside(flag, v, sent, bytes);
#else
    (void)sent;
    (void)bytes;
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(v) : "memory");
#endif
}
/* The flag, and what was written before it was set: seen by this thread, and by its block behind the
 * next barrier, once it is `wanted` or later. [here, here + bytes) is what comes with it. */
__device__ __forceinline__ bool peer_told(const uint32_t *flag, uint32_t wanted, const void *here,
                                          size_t bytes) {
#ifdef TRIREME_EMULATED
    return emu::told_outside(flag, wanted, here, bytes);
#else
    uint32_t v;
    (void)here;
    (void)bytes;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
    return (int32_t)(v - wanted) >= 0;
#endif
}
/* 16 bytes that another GPU wrote: never what an L1 cache kept of an earlier message. */
__device__ __forceinline__ uint4 load16_system(const void *p) {
#ifdef TRIREME_EMULATED
    return *(const uint4 *)p;
#else
    uint4 v;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
#endif
}
/* The same of 8 bytes. */
__device__ __forceinline__ uint2 load8_system(const void *p) {
#ifdef TRIREME_EMULATED
    return *(const uint2 *)p;
#else
    uint2 v;
    asm volatile("ld.relaxed.sys.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
#endif
}
/* 16 bytes into another GPU's memory. Each word of them is seen there by itself, in any order. */
__device__ __forceinline__ void store16_system(void *p, uint4 v) {
#ifdef TRIREME_EMULATED
    *(uint4 *)p = v;
#else
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
#endif
}
/* The same of 8 bytes. */
__device__ __forceinline__ void store8_system(void *p, uint2 v) {
#ifdef TRIREME_EMULATED
    *(uint2 *)p = v;
#else
    asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(v.x), "r"(v.y)
                 : "memory");
#endif
}
/* Between two looks at what another GPU has yet to write. */
__device__ __forceinline__ void peer_pause() {
#ifdef TRIREME_EMULATED
    emu::wait_here(emu::wait::outside);
#endif
}
/* A word that the host may write while the kernel runs. */
__device__ __forceinline__ uint32_t load_host(const uint32_t *p) {
    return *(const volatile uint32_t *)p;
}
/* Nanoseconds of some clock; steps of up to a millisecond. */
__device__ __forceinline__ uint64_t global_timer() {
#ifdef TRIREME_EMULATED
    return emu::host_clock_ns();
#else
    uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
#endif
}

/* ---- dependent launch (sm_90; nothing on older ones, where launches are in order anyway) ---- */

/* All that the kernels before have written is visible after this. */
__device__ __forceinline__ void dependency_wait() {
#ifdef TRIREME_EMULATED
    emu::dependency_wait();
#elif defined(PTX_SM90)
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* The next kernel's blocks may begin their prologues, once all blocks of this one have said so.
 * Before dependency_wait: while the kernel ahead of this one still runs; their own wait is for this
 * kernel's end, and so for that of all before it. */
__device__ __forceinline__ void dependents_launch() {
#ifdef TRIREME_EMULATED
    emu::dependents_launch();
#elif defined(PTX_SM90)
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* ---- arithmetic ---- */

/* 2^x, 2 ulp (ex2.approx). Kernels whose bits must be those of other devices do not use it. */
__device__ __forceinline__ float fast_exp2(float x) {
#ifdef TRIREME_EMULATED
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

#endif
