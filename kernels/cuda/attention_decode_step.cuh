/*
 * attention_decode_step.cuh - decode attention (attention_decode.cuh): one step's copies of K and V,
 * its scores, its weights and its sums over V.
 */
#ifndef KERNELS_CUDA_ATTENTION_DECODE_STEP_CUH
#define KERNELS_CUDA_ATTENTION_DECODE_STEP_CUH

#include "kernels/cuda/attention_decode_tasks.cuh"
#include "kernels/cuda/pairs.cuh"
#include "kernels/cuda/ptx_hopper.cuh"

/* ---- copies ---- */

/* Whether positions [start, start + count) have any that are seen. */
static __device__ __forceinline__ bool any_seen(const struct decode_step &s, uint32_t start,
                                                uint32_t count) {
    return start < s.end && start + count > s.from;
}

/* Lane r < 8: the cache's block that has group r of this warp's tile. */
template <class Area>
static __device__ __forceinline__ uint32_t block_of(const struct attention_call &call,
                                                    const struct decode_step &s, uint32_t tasks,
                                                    uint32_t shift) {
    const uint32_t at =
        s.start + threadIdx.x / 32 * Area::shape::TILE + threadIdx.x % 32 * Area::shape::GROUP;
    if (s.n >= tasks || threadIdx.x % 32 >= 8 || !any_seen(s, at, Area::shape::GROUP))
        return 0;
    return load_early(call.kv.tables + (size_t)s.slot * call.kv.max_blocks + (at >> shift));
}

/* Which groups of a step are asked for: all, or those whose positions all lie below `old`, and then
 * the others. */
enum load_groups { LOAD_ALL, LOAD_OLD, LOAD_REST };

/* This warp's tile of K (head = the KV head) or V (kv_heads more) of a step. */
template <int WHICH, class Area>
static __device__ __forceinline__ void
load_bulk(const struct attention_call &call, const struct decode_step &s, uint32_t block,
          unsigned char *to, float *scales, uint32_t head, uint64_t *barrier, uint32_t old) {
    typedef typename Area::shape shape;
    const uint32_t lane = threadIdx.x % 32, low = s.start + threadIdx.x / 32 * shape::TILE,
                   at = low + lane * shape::GROUP;
    const bool seen = lane < 8 && any_seen(s, at, shape::GROUP);
    if (WHICH != LOAD_REST) {
        const uint32_t copies = (uint32_t)__popc(__ballot_sync(0xffffffffu, seen));
        const uint32_t bytes = shape::GROUP * shape::ROW + (shape::SCALED ? shape::GROUP * 4 : 0);
        if (lane == 0)
            mbarrier_arrive_expect(barrier, copies * bytes);
        __syncwarp();
    }
    if (!seen || (WHICH != LOAD_ALL && (at + shape::GROUP <= old) != (WHICH == LOAD_OLD)))
        return;
    const struct kv_pages &kv = call.kv;
    const uint32_t within = at & (kv.block_tokens - 1);
    const unsigned char *page = kv.base + block * kv.block_stride;
    copy_bulk(to + lane * shape::PITCH,
              page + ((size_t)head * kv.block_tokens + within) * shape::ROW,
              shape::GROUP * shape::ROW, barrier);
    if (shape::SCALED)
        copy_bulk(scales + lane * shape::GROUP,
                  page +
                      ((size_t)2 * kv.kv_heads * shape::ROW + (size_t)head * 4) * kv.block_tokens +
                      within * 4,
                  shape::GROUP * 4, barrier);
}

/* The same in chunks of 16 bytes; rows that are not seen become zeros. */
template <class Area>
static __device__ __forceinline__ void
load_chunks(const struct attention_call &call, const struct decode_step &s, uint32_t block,
            unsigned char *to, float *scales, uint32_t head) {
    typedef typename Area::shape shape;
    enum { CHUNKS = shape::ROW / 16, ALL = shape::TILE * CHUNKS };
    const struct kv_pages &kv = call.kv;
    const uint32_t lane = threadIdx.x % 32, low = s.start + threadIdx.x / 32 * shape::TILE;
    const uint32_t mask = kv.block_tokens - 1;
    const unsigned char *head_at = kv.base + (size_t)head * kv.block_tokens * shape::ROW;
#pragma unroll
    for (uint32_t n = 0; n < (ALL + 31) / 32; n++) {
        const uint32_t i = n * 32 + lane, row = i / CHUNKS, c = i % CHUNKS * 16;
        const uint32_t here = __shfl_sync(0xffffffffu, block, (int)(row / shape::GROUP % 8));
        const uint32_t at = low + row;
        if (ALL % 32 == 0 || i < ALL)
            cp_async_16(to + row / shape::GROUP * shape::PITCH + row % shape::GROUP * shape::ROW +
                            c,
                        head_at + here * kv.block_stride + (at & mask) * shape::ROW + c,
                        at >= s.from && at < s.end);
    }
    if (shape::SCALED) {
        const uint32_t at = low + lane * 4;
        const uint32_t here = __shfl_sync(0xffffffffu, block, (int)(lane * 4 / shape::GROUP % 8));
        if (lane < shape::TILE / 4)
            cp_async_16(scales + lane * 4,
                        kv.base + here * kv.block_stride +
                            ((size_t)2 * kv.kv_heads * shape::ROW + (size_t)head * 4) *
                                kv.block_tokens +
                            (at & mask) * 4,
                        any_seen(s, at, 4));
    }
}

template <bool BULK, int WHICH = LOAD_ALL, class Area>
static __device__ __forceinline__ void load(const struct attention_call &call, const Area &area,
                                            const struct decode_step &s, uint32_t tasks,
                                            uint32_t block, bool is_v, uint32_t old = 0) {
    typedef typename Area::shape shape;
    const uint32_t warp = threadIdx.x / 32, head = s.g + (is_v ? call.kv.kv_heads : 0);
    if (s.n < tasks) {
        unsigned char *to = (is_v ? area.v : area.k) + warp * shape::BUFFER;
        float *scales = area.scales + (shape::SCALED ? (2 * warp + is_v) * shape::TILE : 0);
        if (BULK)
            load_bulk<WHICH, Area>(call, s, block, to, scales, head,
                                   area.barriers + (is_v ? DECODE_WARPS : 0) + warp, old);
        else
            load_chunks<Area>(call, s, block, to, scales, head);
    }
    if (!BULK)
        cp_async_commit();
}

/* ---- a step ---- */

/* Numbers 0 and 2 of four of 8 bits as a pair of type A, exactly; those of numbers 1 and 3 by
 * dequantize_pair(four >> 8). A NaN of fp8 becomes 480. */
template <int A, int K> static __device__ __forceinline__ uint32_t dequantize_pair(uint32_t four) {
    if (K == STORAGE_F8_E4M3) { /* moved to the wider type's exponent, whose bias is put right */
        const uint32_t sign = (four & 0x00800080u) << 8, rest = four & 0x007f007fu;
        return A == STORAGE_BF16 ? fma_bf16x2(rest << 4 | sign, 0x7b807b80u, 0x80008000u)
                                 : fma_f16x2(rest << 7 | sign, 0x5c005c00u, 0x80008000u);
    }
    /* 128 + the low seven bits, less 128 or 256; f16: 1024 and 1152 */
    const uint32_t low = four & 0x007f007fu, high = four & 0x00800080u;
    return A == STORAGE_BF16 ? fma_bf16x2(low | 0x43004300u, 0x3f803f80u, high | 0xc300c300u)
                             : fma_f16x2(low | 0x64006400u, 0x3c003c00u, high | 0xe400e400u);
}

/* Scores of the warp's tile: s[j][e] of head lane / 4 + e / 2 * 8, row j of group lane % 4 * 2 + e
 * % 2. */
template <int A, int K, class Area>
static __device__ __forceinline__ void make_scores(const Area &area,
                                                   float s[Area::shape::TILES][4]) {
    typedef typename Area::shape shape;
    const uint32_t lane = threadIdx.x % 32;
    const unsigned char *k = area.k + threadIdx.x / 32 * shape::BUFFER + lane % 8 * shape::PITCH;
    const uint16_t *q = area.q + lane % 16 * shape::Q_STRIDE + lane / 16 * 8;
#pragma unroll
    for (int c = 0; c < shape::CHUNKS; c++) {
        uint32_t a[4], b[4];
        ldmatrix_x4(a, q + c * 16);
        if (shape::NARROW) {
#pragma unroll
            for (int j = 0; j < shape::TILES; j += 4) {
                ldmatrix_x4(b, k + (j + lane / 8) * shape::ROW + c * 16);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const uint32_t pairs[2] = {dequantize_pair<A, K>(b[i]),
                                               dequantize_pair<A, K>(b[i] >> 8)};
                    mma<A>(s[j + i], a, pairs);
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < shape::TILES; j += 2) {
                ldmatrix_x4(b, k + (j + lane / 16) * shape::ROW + c * 32 + lane / 8 % 2 * 16);
                mma<A>(s[j], a, b);
                mma<A>(s[j + 1], a, b + 2);
            }
        }
    }
}

/* sums += weights * V of warp `of`'s tile. masked: some of its positions are not seen, and hold
 * anything. */
template <int A, int K, bool masked, class Area>
static __device__ __forceinline__ void add_values(const Area &area, const struct decode_step &step,
                                                  uint32_t of,
                                                  float sums[Area::shape::WARP_CHUNKS][2][4]) {
    typedef typename Area::shape shape;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned char *v = area.v + of * shape::BUFFER + lane % 8 * shape::PITCH;
    const uint16_t *p = area.p + lane % 16 * shape::P_STRIDE + of * shape::TILE + lane / 16 * 8;
    const uint32_t at = step.start + of * shape::TILE + lane % 4 * 2 * shape::GROUP;
    auto seen = [&](uint32_t j) { /* of the pair of positions in row j of two groups */
                                  const uint32_t lo = at + j, hi = lo + shape::GROUP;
                                  return (lo >= step.from && lo < step.end ? 0xffffu : 0u) |
                                         (hi >= step.from && hi < step.end ? 0xffff0000u : 0u);
    };
    enum { WIDE = shape::NARROW ? 4 : 2 };
#pragma unroll
    for (int j = 0; j < shape::TILES; j += WIDE) {
        uint32_t a[WIDE / 2][4], mask[WIDE];
#pragma unroll
        for (int i = 0; i < WIDE / 2; i++)
            ldmatrix_x4(a[i], p + (j + 2 * i) * 8);
        if (masked)
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                mask[i] = seen((uint32_t)(j + i));
#pragma unroll
        for (int i = 0; i < shape::WARP_CHUNKS; i++) {
            const uint32_t c = warp + DECODE_WARPS * i;
            uint32_t b[4];
            if (shape::CHUNKS % DECODE_WARPS && c >= shape::CHUNKS)
                continue;
            if (shape::NARROW) {
                ldmatrix_x4_trans(b, v + (j + lane / 8) * shape::ROW + c * 16);
                if (masked)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        b[e] &= mask[e % WIDE];
#pragma unroll
                for (int e = 0; e < WIDE / 2; e++) {
                    const uint32_t even[2] = {dequantize_pair<A, K>(b[2 * e]),
                                              dequantize_pair<A, K>(b[2 * e + 1])},
                                   odd[2] = {dequantize_pair<A, K>(b[2 * e] >> 8),
                                             dequantize_pair<A, K>(b[2 * e + 1] >> 8)};
                    mma<A>(sums[i][0], a[e], even);
                    mma<A>(sums[i][1], a[e], odd);
                }
            } else {
                ldmatrix_x4_trans(b, v + (j + lane / 8 % 2) * shape::ROW + c * 32 + lane / 16 * 16);
                if (masked)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        b[e] &= mask[e % 2];
                mma<A>(sums[i][0], a[0], b);
                mma<A>(sums[i][1], a[0], b + 2);
            }
        }
    }
}

/* Scores times log2 e, as the call wants them: scaled, capped, biased; not seen: minus infinity. */
template <class Area>
static __device__ __forceinline__ void
finish_scores(const struct attention_call &call, const Area &area, const struct decode_step &step,
              float s[Area::shape::TILES][4]) {
    typedef typename Area::shape shape;
    const float log2_e = 1.44269504088896340736f;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t at = step.start + warp * shape::TILE + lane % 4 * 2 * shape::GROUP;
    const float *scales = area.scales + 2 * warp * shape::TILE + lane % 4 * 2 * shape::GROUP;
#pragma unroll
    for (int j = 0; j < shape::TILES; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[j][e] *= shape::SCALED ? scales[e % 2 * shape::GROUP + j] * call.scale : call.scale;
    if (call.soft_cap != 0) {
#pragma unroll
        for (int j = 0; j < shape::TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[j][e] = soft_capped(s[j][e], call.soft_cap);
    }
    if (call.slopes) {
        float slope[2];
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t h = lane / 4 + half * 8;
            slope[half] = h < step.head_count ? call.slopes[step.head_first + h] * log2_e : 0;
        }
#pragma unroll
        for (int j = 0; j < shape::TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[j][e] -=
                    slope[e / 2] * (float)(int)(step.position - (at + e % 2 * shape::GROUP + j));
    }
#pragma unroll
    for (int j = 0; j < shape::TILES; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const uint32_t position = at + e % 2 * shape::GROUP + j;
            if (position < step.from || position >= step.end)
                s[j][e] = MINUS_INFINITY;
        }
}

/* Largest scores of the warp's tile, a head's in all its four lanes. */
template <class Area>
static __device__ __forceinline__ void tile_max(const float s[Area::shape::TILES][4],
                                                float best[2]) {
    best[0] = best[1] = MINUS_INFINITY;
#pragma unroll
    for (int j = 0; j < Area::shape::TILES; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            best[e / 2] = s[j][e] > best[e / 2] ? s[j][e] : best[e / 2];
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int by = 1; by < 4; by *= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, best[half], by);
            best[half] = other > best[half] ? other : best[half];
        }
}

/* Weights of the warp's tile into p; their sums. An int8 V's scale goes into its weight. */
template <int A, class Area>
static __device__ __forceinline__ void
make_weights(const Area &area, const struct decode_step &step, const float s[Area::shape::TILES][4],
             const float best[2], float sum[2]) {
    typedef typename Area::shape shape;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t at = step.start + warp * shape::TILE + lane % 4 * 2 * shape::GROUP;
    const float *scales = area.scales + (2 * warp + 1) * shape::TILE + lane % 4 * 2 * shape::GROUP;
    uint32_t *p = (uint32_t *)(area.p + lane / 4 * shape::P_STRIDE + warp * shape::TILE) + lane % 4;
    sum[0] = sum[1] = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int j = 0; j < shape::TILES; j++) {
            float w[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t position = at + i * shape::GROUP + j;
                w[i] = fast_exp2(s[j][half * 2 + i] - best[half]);
                if (shape::SCALED) {
                    sum[half] += w[i];
                    w[i] *= position >= step.from && position < step.end
                                ? scales[i * shape::GROUP + j]
                                : 0.0f;
                }
            }
            const uint32_t pair = pack<A>(w[0], w[1]);
            if (!shape::SCALED)
                sum[half] += rounded_sum<A>(pair);
            p[half * 8 * shape::P_STRIDE / 2 + j * 4] = pair;
        }
#pragma unroll
        for (int by = 1; by < 4; by *= 2)
            sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], by);
    }
}

/* What a thread keeps of a step, a split, a row: of its heads lane / 4 and 8 more. */
template <int CHUNKS> struct softmax_state {
    float max[2], sum[2], acc[CHUNKS][2][4];
    __device__ __forceinline__ void clear() {
        max[0] = max[1] = MINUS_INFINITY;
        sum[0] = sum[1] = 0;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
#pragma unroll
            for (int e = 0; e < 8; e++)
                acc[i][e / 4][e % 4] = 0;
    }
    __device__ __forceinline__ void add(const struct softmax_state &s) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const struct merge_factors f = merge_max(&max[half], s.max[half]);
            sum[half] = merge(f, sum[half], s.sum[half]);
#pragma unroll
            for (int i = 0; i < CHUNKS; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[i][e / 2][half * 2 + e % 2] = merge(f, acc[i][e / 2][half * 2 + e % 2],
                                                            s.acc[i][e / 2][half * 2 + e % 2]);
        }
    }
};

/* Dim of acc[i][half][e]. */
template <bool narrow>
static __device__ __forceinline__ uint32_t dim_of(uint32_t i, uint32_t half, uint32_t e) {
    const uint32_t lane = threadIdx.x % 32, c = threadIdx.x / 32 + DECODE_WARPS * i;
    return c * 16 + (narrow ? lane % 4 * 4 + e % 2 * 2 + half : half * 8 + lane % 4 * 2 + e % 2);
}
#endif
