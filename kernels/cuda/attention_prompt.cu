/*
 * attention_prompt.cu - attention of prompt-class rows over the paged cache: the prefill family.
 *
 * A block makes 64 consecutive rows of one head; its four warps 16 rows each. Rows of a tile may
 * belong to several slots: each run of rows of one slot (a segment) is computed by itself, so
 * nobody's values meet another's. For a segment, KV tiles of 64 positions (32 beyond D = 128) at
 * absolute places go by in ascending order with the running max and sum of each row (Milakov and
 * Gimelshein, 2018; Dao, 2023). A tile that a row does not see leaves its bits as they are (weights
 * 0, factors 1), so they do not depend on which rows share the tile.
 *
 * K of the next tile arrives while V is used, V while scores are made: one buffer each. Scores
 * become weights in registers: an accumulator tile of scores is laid out as the next product's left
 * operand.
 *
 * Soft caps and ALiBi take a pass of their own over the scores, which others leave out.
 *
 * Numbers of 8 bits, fp8 or int8, come into an area of their own and become the activations' type,
 * exactly, by the thread that copied them, before the block meets. The scales of int8 meet the scores,
 * and the weights before they are rounded; the sum is of weights without them.
 *
 * Cost: 4 * D operations for each (row, head, position); K and V once for 64 rows of a head. Shared
 * memory: (64 + 2 * tile) * (D + 8) * 2; caches of 8 bits: 2 * tile * D more.
 */
#include "kernels/cuda/attention_prompt.cuh"

enum { PROMPT_THREADS = 128, PROMPT_ROWS = 64 };

/* TILE positions from `start` on, a multiple of TILE. As in attention_output.cu: where they lie
 * within one block, it is looked up once. */
template <int DP, int TILE>
static __device__ __forceinline__ void load_positions(const struct attention_call &call,
                                                      const struct segment &s, uint16_t *to,
                                                      uint32_t start, uint32_t head) {
    enum { CHUNKS = DP / 8, LINES = PROMPT_THREADS / CHUNKS, COPIES = TILE / LINES };
    const struct kv_pages &kv = call.kv;
    const uint32_t line = threadIdx.x / CHUNKS, c = threadIdx.x % CHUNKS,
                   row_bytes = kv.head_dim * 2, mask = kv.block_tokens - 1,
                   shift = (uint32_t)__ffs((int)kv.block_tokens) - 1;
    const uint32_t *table = kv.tables + (size_t)s.slot * kv.max_blocks;
    const unsigned char *head_at = kv.base + c * 16 + head * kv.head_stride() * 2;
    const bool whole = kv.block_tokens >= TILE, there = c * 8 < kv.head_dim;
    uint32_t block = whole && there ? table[start >> shift] : 0;
    to += line * (DP + 8) + c * 8;
#pragma unroll
    for (uint32_t n = 0; n < COPIES; n++) {
        const uint32_t position = start + line + n * LINES;
        const bool valid = position >= s.low && position <= s.high;
        if (!there)
            break;
        if (!whole && valid)
            block = table[position >> shift];
        cp_async_16(to + n * LINES * (DP + 8),
                    head_at + block * kv.block_stride + (position & mask) * row_bytes, valid);
    }
    cp_async_commit();
}

/* The same of a cache of 8 bits: 16 numbers at a time, to the area that this thread turns them from. */
template <int C, int DP, int TILE> struct narrow_tile {
    enum : uint32_t {
        CHUNKS = DP / 16,
        LINES = PROMPT_THREADS / CHUNKS,
        COPIES = TILE / LINES,
        BYTES = TILE * DP,
        SCALED = C == STORAGE_I8
    };
    unsigned char *staged; /* BYTES */
    float *scales;         /* [TILE] where SCALED */
    float own;             /* the scale of position threadIdx.x of the tile that is on its way */

    __device__ __forceinline__ void load(const struct attention_call &call, const struct segment &s,
                                         uint32_t start, uint32_t head) {
        const struct kv_pages &kv = call.kv;
        const uint32_t line = threadIdx.x / CHUNKS, c = threadIdx.x % CHUNKS,
                       mask = kv.block_tokens - 1,
                       shift = (uint32_t)__ffs((int)kv.block_tokens) - 1;
        const uint32_t *table = kv.tables + (size_t)s.slot * kv.max_blocks;
        auto block_of = [&](uint32_t position) {
            return kv.base + table[position >> shift] * kv.block_stride;
        };
        if (SCALED) {
            const uint32_t position = start + threadIdx.x;
            own = 0;
            if (threadIdx.x < TILE && position >= s.low && position <= s.high)
                own = ((const float *)(block_of(position) +
                                       2 * kv.kv_heads *
                                           kv.head_stride()))[(size_t)head * kv.block_tokens +
                                                              (position & mask)];
        }
#pragma unroll
        for (uint32_t n = 0; n < COPIES; n++) {
            const uint32_t position = start + line + n * LINES;
            const bool valid = position >= s.low && position <= s.high;
            if (c * 16 < kv.head_dim)
                cp_async_16(staged + (n * PROMPT_THREADS + threadIdx.x) * 16,
                            (valid ? block_of(position) : kv.base) + head * kv.head_stride() +
                                (position & mask) * kv.head_dim + c * 16,
                            valid);
        }
        cp_async_commit();
    }
    /* What has come, as type A, to `to`. */
    template <int A>
    __device__ __forceinline__ void dequantize(const struct attention_call &call,
                                               uint16_t *to) const {
        const uint32_t line = threadIdx.x / CHUNKS, c = threadIdx.x % CHUNKS;
        if (SCALED && threadIdx.x < TILE)
            scales[threadIdx.x] = own;
        if (c * 16 >= call.kv.head_dim)
            return;
#pragma unroll
        for (uint32_t n = 0; n < COPIES; n++) {
            const uint4 w = *(const uint4 *)(staged + (n * PROMPT_THREADS + threadIdx.x) * 16);
            uint4 *at = (uint4 *)(to + (line + n * LINES) * (DP + 8) + c * 16);
            at[0] = make_uint4(dequantize_two<A, C>(w.x, false), dequantize_two<A, C>(w.x, true),
                               dequantize_two<A, C>(w.y, false), dequantize_two<A, C>(w.y, true));
            at[1] = make_uint4(dequantize_two<A, C>(w.z, false), dequantize_two<A, C>(w.z, true),
                               dequantize_two<A, C>(w.w, false), dequantize_two<A, C>(w.w, true));
        }
    }
};

/* Of a warp's 16 rows, scores times log2 e: capped, biased by distance; not seen: minus infinity. A row that
 * is biased sees no further than itself. */
template <int TILE>
static __device__ __forceinline__ void
finish_scores(const struct attention_call &call, uint32_t h, uint32_t start,
              const uint32_t seen_from[2], const uint32_t seen_to[2], float scores[TILE / 8][4]) {
    const float slope = call.slopes ? call.slopes[h] * 1.44269504088896340736f : 0;
#pragma unroll
    for (int j = 0; j < TILE / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const uint32_t position = start + j * 8 + threadIdx.x % 4 * 2 + e % 2;
            float s = scores[j][e];
            if (call.soft_cap != 0)
                s = soft_capped(s, call.soft_cap);
            s -= slope * (float)(int)(seen_to[e / 2] - 1 - position);
            const bool seen = position >= seen_from[e / 2] && position < seen_to[e / 2];
            scores[j][e] = seen ? s : MINUS_INFINITY;
        }
}

/* C: of the cache. */
template <int A, int C, int DP, int TILE>
static __global__
__launch_bounds__(PROMPT_THREADS) void attention_prompt_kernel(struct attention_call call) {
    typedef typename values<A>::raw raw;
    typedef narrow_tile<C, DP, TILE> narrow;
    enum { STRIDE = DP + 8, NARROW = C != A };
    DYNAMIC_SHARED(area);
    uint16_t *q = (uint16_t *)area, *k_tile = q + PROMPT_ROWS * STRIDE,
             *v_tile = k_tile + TILE * STRIDE;
    const struct kv_pages &kv = call.kv;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = kv.head_dim,
                   h = blockIdx.y;
    const bool finishes = call.soft_cap != 0 || call.slopes;
    const uint32_t g = h / (call.heads / kv.kv_heads), t0 = blockIdx.x * PROMPT_ROWS;
    dependency_wait();
    dependents_launch();

    /* 1. the rows: where they are, their queries; padding is zeros */
    const prompt_rows<PROMPT_ROWS> rows = {(uint32_t *)(v_tile + TILE * STRIDE)};
    unsigned char *staged = (unsigned char *)(rows.numbers + 3 * PROMPT_ROWS);
    float *scales = (float *)(staged + 2 * narrow::BYTES);
    narrow k_narrow = {staged, scales, 0}, v_narrow = {staged + narrow::BYTES, scales + TILE, 0};
    const auto load_k = [&](const struct segment &s, uint32_t start) {
        if (NARROW)
            k_narrow.load(call, s, start, g);
        else
            load_positions<DP, TILE>(call, s, k_tile, start, g);
    };
    const auto load_v = [&](const struct segment &s, uint32_t start) {
        if (NARROW)
            v_narrow.load(call, s, start, kv.kv_heads + g);
        else
            load_positions<DP, TILE>(call, s, v_tile, start, kv.kv_heads + g);
    };
    rows.load(call, t0);
    __syncthreads();
    raw *out = (raw *)call.out + ((size_t)(call.row_first + t0) * call.heads + h) * dim;
    const size_t out_stride = (size_t)call.heads * dim;
    for (uint32_t n = threadIdx.x; n < PROMPT_ROWS * dim; n += PROMPT_THREADS) {
        const uint32_t r = n / dim, d = n % dim;
        const bool padding = rows.position(r) == (uint32_t)ROW_NONE;
        q[r * STRIDE + d] =
            padding ? 0
                    : ((const raw *)call.qkv)[(size_t)(call.row_first + t0 + r) * call.row_width() +
                                              (size_t)h * dim + d];
        if (padding && t0 + r < call.row_count)
            values<A>::set(out + r * out_stride + d, 0.0f);
    }

    for (struct segment s = rows.next_segment(call, 0); s.first < PROMPT_ROWS;
         s = rows.next_segment(call, s.end)) {
        float acc[DP / 8][4] = {}, max[2] = {MINUS_INFINITY, MINUS_INFINITY}, sum[2] = {0, 0};
        uint32_t seen_from[2], seen_to[2]; /* positions this thread's two rows see: [from, to) */
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t r = warp * 16 + lane / 4 + half * 8;
            const bool inside = r >= s.first && r < s.end;
            seen_to[half] = inside ? rows.last(r) + 1 : 0;
            seen_from[half] = inside ? call.first_position(rows.position(r)) : 0;
        }
        __syncthreads(); /* the segment before is done with the tiles */
        load_k(s, s.low / TILE * TILE);
        for (uint32_t start = s.low / TILE * TILE; start <= s.high; start += TILE) {
            cp_async_wait<0>();
            if constexpr (NARROW != 0)
                k_narrow.template dequantize<A>(call, k_tile);
            __syncthreads(); /* K is here; all are done with V */
            load_v(s, start);

            /* 2. scores of the warp's 16 rows */
            float scores[TILE / 8][4] = {};
            for (uint32_t k = 0; k < dim; k += 16) {
                uint32_t a[4], b[4];
                ldmatrix_x4(a, q + (warp * 16 + lane % 16) * STRIDE + k + lane / 16 * 8);
#pragma unroll
                for (int j = 0; j < TILE / 16; j++) {
                    ldmatrix_x4(b, k_tile + (j * 16 + lane % 8 + lane / 16 * 8) * STRIDE + k +
                                       lane / 8 % 2 * 8);
                    mma<A>(scores[2 * j], a, b);
                    mma<A>(scores[2 * j + 1], a, b + 2);
                }
            }
            /* 3. running max; weights, rounded; running sum of the rounded ones */
            float best[2] = {max[0], max[1]}, factor[2], added[2] = {0, 0};
#pragma unroll
            for (int j = 0; j < TILE / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const uint32_t position = start + j * 8 + lane % 4 * 2 + e % 2;
                    const bool seen = position >= seen_from[e / 2] && position < seen_to[e / 2];
                    if (narrow::SCALED)
                        scores[j][e] *= scales[position - start];
                    scores[j][e] *= call.scale;
                    if (!finishes)
                        scores[j][e] = seen ? scores[j][e] : MINUS_INFINITY;
                }
            if (finishes)
                finish_scores<TILE>(call, h, start, seen_from, seen_to, scores);
#pragma unroll
            for (int j = 0; j < TILE / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    best[e / 2] = scores[j][e] > best[e / 2] ? scores[j][e] : best[e / 2];
                }
#pragma unroll
            for (int half = 0; half < 2; half++) {
#pragma unroll
                for (int by = 1; by < 4; by *= 2) {
                    const float other = __shfl_xor_sync(0xffffffffu, best[half], by);
                    best[half] = other > best[half] ? other : best[half];
                }
                const float at = best[half] == MINUS_INFINITY ? 0.0f : best[half];
                factor[half] = fast_exp2((max[half] == MINUS_INFINITY ? at : max[half]) - at);
                max[half] = best[half];
                best[half] = at;
            }
            uint32_t weights[TILE / 16][4];
            const auto round = [&](const float *v_scales) {
#pragma unroll
                for (int j = 0; j < TILE / 8; j++)
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        float w[2] = {fast_exp2(scores[j][half * 2] - best[half]),
                                      fast_exp2(scores[j][half * 2 + 1] - best[half])};
                        if (narrow::SCALED) {
                            added[half] += w[0] + w[1];
                            w[0] *= v_scales[j * 8 + lane % 4 * 2];
                            w[1] *= v_scales[j * 8 + lane % 4 * 2 + 1];
                        }
                        const uint32_t pair = pack<A>(w[0], w[1]);
                        weights[j / 2][j % 2 * 2 + half] = pair;
                        if (!narrow::SCALED)
                            added[half] += rounded_sum<A>(pair);
                    }
            };
            if (!narrow::SCALED)
                round(NULL);
#pragma unroll
            for (int j = 0; j < DP / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[j][e] *= factor[e / 2];

            cp_async_wait<0>();
            if constexpr (NARROW != 0)
                v_narrow.template dequantize<A>(call, v_tile);
            __syncthreads(); /* V is here; all are done with K */
            if (start + TILE <= s.high)
                load_k(s, start + TILE);
            if (narrow::SCALED)
                round(scales + TILE);
#pragma unroll
            for (int half = 0; half < 2; half++) {
#pragma unroll
                for (int by = 1; by < 4; by *= 2)
                    added[half] += __shfl_xor_sync(0xffffffffu, added[half], by);
                sum[half] = __fmaf_rn(sum[half], factor[half], added[half]);
            }

            /* 4. weights by V */
#pragma unroll
            for (int k = 0; k < TILE / 16; k++)
#pragma unroll
                for (int j = 0; j < DP / 16; j++) {
                    if (j * 16 >= (int)dim)
                        continue;
                    uint32_t b[4];
                    ldmatrix_x4_trans(b, v_tile + (k * 16 + lane % 8 + lane / 8 % 2 * 8) * STRIDE +
                                             j * 16 + lane / 16 * 8);
                    mma<A>(acc[2 * j], weights[k], b);
                    mma<A>(acc[2 * j + 1], weights[k], b + 2);
                }
        }
        float factor[2];
#pragma unroll
        for (int half = 0; half < 2; half++)
            factor[half] = take_sink(call, h, max[half], &sum[half]);
#pragma unroll
        for (int j = 0; j < DP / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const uint32_t r = warp * 16 + lane / 4 + e / 2 * 8,
                               d = j * 8 + lane % 4 * 2 + e % 2;
                if (r >= s.first && r < s.end && d < dim)
                    values<A>::set(out + r * out_stride + d,
                                   __fdiv_rn(acc[j][e] * factor[e / 2], sum[e / 2]));
            }
    }
}

template <int A, int C, int DP, int TILE>
static void prompt_shape(struct stream *s, const struct attention_call &call) {
    const size_t narrow = C == A ? 0 : 2 * TILE * DP + 2 * TILE * sizeof(float);
    launch_shape shape = {dim3(blocks_for(call.row_count, PROMPT_ROWS), call.heads),
                          dim3(PROMPT_THREADS),
                          (PROMPT_ROWS + 2 * TILE) * (DP + 8) * 2 + 3 * PROMPT_ROWS * 4 + narrow,
                          device_of(s)->dependent_launch};
    LAUNCH((attention_prompt_kernel<A, C, DP, TILE>), shape, cuda_stream_of(s), call);
}

template <int A, int C> static void prompt_of(struct stream *s, const struct attention_call &call) {
    if (call.kv.head_dim <= 64)
        prompt_shape<A, C, 64, 64>(s, call);
    else if (call.kv.head_dim <= 128)
        prompt_shape<A, C, 128, 64>(s, call);
    else
        prompt_shape<A, C, 256, 32>(s, call);
}

template <int A>
static bool prompt_from(struct stream *s, const struct attention_call &call,
                        enum storage_type kv_type) {
    switch ((int)kv_type) {
    case A: prompt_of<A, A>(s, call); return true;
    case STORAGE_F8_E4M3: prompt_of<A, STORAGE_F8_E4M3>(s, call); return true;
    case STORAGE_I8: prompt_of<A, STORAGE_I8>(s, call); return true;
    default: return false;
    }
}

bool attention_prompt_rows(struct stream *s, const struct attention_call &call,
                           enum storage_type kv_type) {
    return s->dev->activation_type == STORAGE_BF16 ? prompt_from<STORAGE_BF16>(s, call, kv_type)
                                                   : prompt_from<STORAGE_F16>(s, call, kv_type);
}
