/*
 * linear.cu - out[t, n] = sum_k x[t, k] * w[n, k] + bias[n] (kernels/ops.h: op_linear), four ways;
 * three more, on sm_90a, are linear_hopper.cu (16-bit weights in tiles), linear_packed.cu
 * (quantized ones in units) and linear_fp8.cu (those in fp8, with x in fp8); one more, on all other GPUs, is
 * linear_packed_mma.cu (quantized ones in the same units).
 *
 * rows (output class, 16-bit types): a team of four warps makes 16 or 32 features of up to 64 rows,
 * and a block has one, two or four teams (struct rows_shape). Weights stream through a ring of
 * cp.async stages of 128 k; each warp of a team takes 32 k of every stage, features as the 16 rows of mma.m16n8k16 and the step's rows as its 8 columns; the four
 * sums are added in order at the end. So an output's sum has one shape whatever the number of rows:
 * four interleaved sums over k in ascending order, then ((0 + 1) + 2) + 3.
 *
 * tiles (prompt class, 16-bit types): a block makes 64 x 64 or 128 x 128 outputs, all k in
 * ascending order by mma.m16n8k16: the tile's size does not change a bit. Where the device was
 * opened so, by cuBLASLt instead (linear_blas.cu).
 *
 * plain (any types, any cols, both classes): a warp makes one feature of four rows; lane l sums k =
 * l, l + 32, ..., then a fixed tree.
 *
 * dequantized (types that are no plain numbers and have no units, both classes): as plain, but a lane
 * takes runs of 32 k and dequantizes each.
 *
 * Which way depends on the types and on cols % 8 alone. Cost: weights are read once for 64 or
 * 128 rows (rows; once from DRAM, for blocks that share them run side by side), once for 128
 * (tiles). Tolerance: ops.h with lanes = 4, 1, 32.
 */
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/pairs.cuh"
#include "kernels/cuda/peers.cuh"

template <int A>
static __device__ __forceinline__ void store(const struct product &p, uint32_t t, uint32_t n,
                                             float v) {
    const size_t at = (size_t)t * p.out_stride + n;
    if (p.bias)
        v += p.bias[n];
    if (p.out_f32)
        ((float *)p.out)[at] = v;
    else
        values<A>::set((typename values<A>::raw *)p.out + at, v);
}

/* ---- lines of a matrix on their way to shared memory ---- */

/* A block of THREADS threads copies lines of K values of a matrix [limit, cols], 16-byte chunks.
 * What one thread copies lies in one column of chunks: a place is computed once, and a copy costs
 * an addition and a comparison. */
template <int K, int THREADS> struct line_loader {
    enum { CHUNKS = K / 8, LINES = THREADS / CHUNKS, STRIDE = K + 8 /* lines in other banks */ };
    const uint16_t *at;  /* the thread's first value */
    uint32_t lines_left; /* of the matrix, from the thread's first line on */
    uint32_t cols_left;  /* from the thread's first value on */
    size_t step;         /* values from one of its lines to the next */
    __device__ __forceinline__ line_loader(const void *matrix, uint32_t first, uint32_t limit,
                                           uint32_t cols) {
        const uint32_t line = first + threadIdx.x / CHUNKS, k = threadIdx.x % CHUNKS * 8;
        at = (const uint16_t *)matrix + (size_t)line * cols + k;
        lines_left = limit > line ? limit - line : 0;
        cols_left = cols > k ? cols - k : 0;
        step = (size_t)LINES * cols;
    }
    /* COUNT lines from the first on, k from k0 on, to [COUNT, STRIDE] of shared memory. What lies
     * outside of the matrix becomes zeros. */
    template <int COUNT> __device__ __forceinline__ void load(uint16_t *to, uint32_t k0) const {
        static_assert(COUNT % LINES == 0, "every thread copies as many lines");
        to += threadIdx.x / CHUNKS * STRIDE + threadIdx.x % CHUNKS * 8;
#pragma unroll
        for (uint32_t i = 0; i < COUNT / LINES; i++)
            cp_async_16(to + i * LINES * STRIDE, at + k0 + i * step,
                        i * LINES < lines_left && k0 < cols_left);
    }
};

/* ---- rows ---- */

enum { ROWS_K = 128, ROWS_STRIDE = ROWS_K + 8 };

/* What a block makes: WARPS_N x WARPS_T teams of four warps, each team 16 GROUPS features of
 * TEAM_ROWS rows. The more of them, the fewer times weights and x are read from L2; the sums of an
 * output are the same in all. */
template <int TEAM_ROWS, int GROUPS, int STAGES, int WARPS_N, int WARPS_T> struct rows_shape {
    enum : unsigned {
        THREADS = 128 * WARPS_N * WARPS_T,
        TEAM_FEATURES = 16 * GROUPS,
        FEATURES = TEAM_FEATURES * WARPS_N,
        TOKENS = TEAM_ROWS * WARPS_T,
        STAGE = (FEATURES + TOKENS) * ROWS_STRIDE,
        BYTES = STAGES * STAGE * 2,
        PARTIALS_BYTES = 4 * FEATURES * TOKENS * 4
    };
    static_assert(PARTIALS_BYTES <= BYTES, "the sums lie where the ring was");
};

template <int A, int TEAM_ROWS, int GROUPS, int STAGES, int WARPS_N, int WARPS_T>
static __global__ __launch_bounds__(128 * WARPS_N *
                                    WARPS_T) void linear_rows_kernel(struct product p) {
    typedef rows_shape<TEAM_ROWS, GROUPS, STAGES, WARPS_N, WARPS_T> shape;
    typedef line_loader<ROWS_K, shape::THREADS> rows_loader;
    enum : unsigned {
        FEATURES = shape::FEATURES,
        TOKENS = shape::TOKENS,
        STAGE = shape::STAGE,
        THREADS = shape::THREADS
    };
    DYNAMIC_SHARED(area);
    uint16_t *ring = (uint16_t *)area;
    const uint32_t n0 = blockIdx.y * FEATURES, t0 = blockIdx.x * TOKENS,
                   chunks = (p.cols + ROWS_K - 1) / ROWS_K;
    const uint32_t lane = threadIdx.x % 32, quarter = threadIdx.x / 32 % 4,
                   team = threadIdx.x / 128, team_n = team % WARPS_N * shape::TEAM_FEATURES,
                   team_t = team / WARPS_N * TEAM_ROWS;
    const rows_loader weights(p.w, n0, p.features, p.cols), inputs(p.x, t0, p.rows, p.cols);
    float sums[GROUPS][TEAM_ROWS / 8][4] = {};

    /* 1. weights may be asked for before the kernel ahead has ended, its results only after */
    for (uint32_t c = 0; c < STAGES - 1; c++)
        if (c < chunks)
            weights.template load<FEATURES>(ring + c * STAGE, c * ROWS_K);
    dependency_wait();
    dependents_launch();
    for (uint32_t c = 0; c < STAGES - 1; c++) {
        if (c < chunks)
            inputs.template load<TOKENS>(ring + c * STAGE + FEATURES * ROWS_STRIDE, c * ROWS_K);
        cp_async_commit();
    }

    /* 2. each warp of a team its 32 k of every stage */
    for (uint32_t c = 0; c < chunks; c++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads(); /* stage c is here for all; everyone is done with stage c - 1 */
        const uint32_t next = c + STAGES - 1;
        if (next < chunks) {
            uint16_t *stage = ring + next % STAGES * STAGE;
            weights.template load<FEATURES>(stage, next * ROWS_K);
            inputs.template load<TOKENS>(stage + FEATURES * ROWS_STRIDE, next * ROWS_K);
        }
        cp_async_commit();
        const uint16_t *stage = ring + c % STAGES * STAGE + quarter * 32,
                       *ws = stage + team_n * ROWS_STRIDE,
                       *xs = stage + (FEATURES + team_t) * ROWS_STRIDE;
        uint32_t a[2][GROUPS][4], b[4];
#pragma unroll
        for (int step = 0; step < 2; step++)
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
                ldmatrix_x4(a[step][g],
                            ws + (g * 16 + lane % 16) * ROWS_STRIDE + step * 16 + lane / 16 * 8);
#pragma unroll
        for (int group = 0; group < TEAM_ROWS / 8; group++) {
            ldmatrix_x4(b, xs + (group * 8 + lane % 8) * ROWS_STRIDE + lane / 8 * 8);
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                mma<A>(sums[g][group], a[0][g], b);
                mma<A>(sums[g][group], a[1][g], b + 2);
            }
        }
    }
    cp_async_wait<0>();
    __syncthreads();

    /* 3. the warps' sums in order: partials[quarter][token][feature] */
    float *partials = (float *)area;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int group = 0; group < TEAM_ROWS / 8; group++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t n = team_n + g * 16 + lane / 4 + i / 2 * 8,
                               t = team_t + group * 8 + lane % 4 * 2 + i % 2;
                partials[(quarter * TOKENS + t) * FEATURES + n] = sums[g][group][i];
            }
    __syncthreads();
    for (uint32_t e = threadIdx.x; e < TOKENS * FEATURES; e += THREADS) {
        const uint32_t t = t0 + e / FEATURES, n = n0 + e % FEATURES;
        float sum = partials[e];
#pragma unroll
        for (int i = 1; i < 4; i++)
            sum += partials[i * TOKENS * FEATURES + e];
        if (t < p.rows && n < p.features)
            store<A>(p, t, n, sum);
    }
}

template <int A, int TEAM_ROWS, int GROUPS, int STAGES, int WARPS_N = 1, int WARPS_T = 1>
static void linear_rows_shape(struct stream *s, const struct product &p) {
    typedef rows_shape<TEAM_ROWS, GROUPS, STAGES, WARPS_N, WARPS_T> block;
    launch_shape shape = {
        dim3(blocks_for(p.rows, block::TOKENS), blocks_for(p.features, block::FEATURES)),
        dim3(block::THREADS), block::BYTES, device_of(s)->dependent_launch};
    LAUNCH((linear_rows_kernel<A, TEAM_ROWS, GROUPS, STAGES, WARPS_N, WARPS_T>), shape,
           cuda_stream_of(s), p);
}

/* More than 32 rows. Large blocks where the SM has room for them (not on sm_86 and sm_89) and there
 * are enough of them for the GPU: at 256 rows a block of 64 features by 128 rows reads half as much
 * from L2 as one of 32 by 64. */
template <int A> static void linear_many_rows(struct stream *s, const struct product &p) {
    const uint32_t sms = (uint32_t)device_of(s)->sm_count, wide = blocks_for(p.features, 64);
    const bool roomy = device_of(s)->shared_max >= rows_shape<64, 2, 3, 2, 2>::BYTES;
    if (roomy && p.rows > 64 && wide * blocks_for(p.rows, 128) > sms / 2)
        linear_rows_shape<A, 64, 2, 3, 2, 2>(s, p);
    else if (roomy && p.rows > 64)
        linear_rows_shape<A, 64, 2, 3, 1, 2>(s, p);
    else if (roomy && wide > sms)
        linear_rows_shape<A, 64, 2, 3, 2, 1>(s, p);
    else
        linear_rows_shape<A, 64, 2, 3>(s, p);
}

template <int A> static void linear_rows(struct stream *s, const struct product &p) {
    if (p.rows <= 8)
        linear_rows_shape<A, 8, 1, 8>(s, p);
    else if (p.rows <= 16)
        linear_rows_shape<A, 16, 1, 6>(s, p);
    else if (p.rows <= 32)
        linear_rows_shape<A, 32, 2, 4>(s, p);
    else
        linear_many_rows<A>(s, p);
}

/* ---- tiles ---- */

enum { TILE_K = 32, TILE_STRIDE = TILE_K + 8, TILE_STAGES = 4 };

/* A block of WARPS_T x WARPS_N warps, each WARP_T rows by WARP_N features. */
template <int A, int WARPS_T, int WARPS_N, int WARP_T, int WARP_N>
static __global__ __launch_bounds__(WARPS_T *WARPS_N *
                                    32) void linear_tiles_kernel(struct product p) {
    enum {
        THREADS = WARPS_T * WARPS_N * 32,
        TOKENS = WARPS_T * WARP_T,
        FEATURES = WARPS_N * WARP_N,
        STAGE = (TOKENS + FEATURES) * TILE_STRIDE
    };
    DYNAMIC_SHARED(area);
    uint16_t *ring = (uint16_t *)area;
    const uint32_t t0 = blockIdx.x * TOKENS, n0 = blockIdx.y * FEATURES,
                   chunks = (p.cols + TILE_K - 1) / TILE_K;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t warp_t = warp / WARPS_N * WARP_T, warp_n = warp % WARPS_N * WARP_N;
    const line_loader<TILE_K, THREADS> inputs(p.x, t0, p.rows, p.cols),
        weights(p.w, n0, p.features, p.cols);
    float sums[WARP_T / 16][WARP_N / 8][4] = {};

    dependency_wait();
    dependents_launch();
    for (uint32_t c = 0; c < TILE_STAGES - 1; c++) {
        if (c < chunks) {
            inputs.template load<TOKENS>(ring + c * STAGE, c * TILE_K);
            weights.template load<FEATURES>(ring + c * STAGE + TOKENS * TILE_STRIDE, c * TILE_K);
        }
        cp_async_commit();
    }
    for (uint32_t c = 0; c < chunks; c++) {
        cp_async_wait<TILE_STAGES - 2>();
        __syncthreads();
        const uint32_t next = c + TILE_STAGES - 1;
        if (next < chunks) {
            uint16_t *stage = ring + next % TILE_STAGES * STAGE;
            inputs.template load<TOKENS>(stage, next * TILE_K);
            weights.template load<FEATURES>(stage + TOKENS * TILE_STRIDE, next * TILE_K);
        }
        cp_async_commit();
        const uint16_t *xs = ring + c % TILE_STAGES * STAGE + warp_t * TILE_STRIDE;
        const uint16_t *ws = ring + c % TILE_STAGES * STAGE + (TOKENS + warp_n) * TILE_STRIDE;
#pragma unroll
        for (int step = 0; step < TILE_K; step += 16) {
            uint32_t a[WARP_T / 16][4], b[WARP_N / 16][4];
#pragma unroll
            for (int i = 0; i < WARP_T / 16; i++)
                ldmatrix_x4(a[i], xs + (i * 16 + lane % 16) * TILE_STRIDE + step + lane / 16 * 8);
#pragma unroll
            for (int j = 0; j < WARP_N / 16; j++)
                ldmatrix_x4(b[j], ws + (j * 16 + lane % 8 + lane / 16 * 8) * TILE_STRIDE + step +
                                      lane / 8 % 2 * 8);
#pragma unroll
            for (int i = 0; i < WARP_T / 16; i++)
#pragma unroll
                for (int j = 0; j < WARP_N / 8; j++)
                    mma<A>(sums[i][j], a[i], b[j / 2] + j % 2 * 2);
        }
    }
    cp_async_wait<0>(); /* groups that are empty by now */
#pragma unroll
    for (int i = 0; i < WARP_T / 16; i++)
#pragma unroll
        for (int j = 0; j < WARP_N / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const uint32_t t = t0 + warp_t + i * 16 + lane / 4 + e / 2 * 8;
                const uint32_t n = n0 + warp_n + j * 8 + lane % 4 * 2 + e % 2;
                if (t < p.rows && n < p.features)
                    store<A>(p, t, n, sums[i][j][e]);
            }
}

template <int A, int WARPS_T, int WARPS_N, int WARP_T, int WARP_N>
static void linear_tiles_shape(struct stream *s, const struct product &p) {
    enum : unsigned { TOKENS = WARPS_T * WARP_T, FEATURES = WARPS_N * WARP_N };
    launch_shape shape = {dim3(blocks_for(p.rows, TOKENS), blocks_for(p.features, FEATURES)),
                          dim3(WARPS_T * WARPS_N * 32),
                          TILE_STAGES * (TOKENS + FEATURES) * TILE_STRIDE * 2,
                          device_of(s)->dependent_launch};
    LAUNCH((linear_tiles_kernel<A, WARPS_T, WARPS_N, WARP_T, WARP_N>), shape, cuda_stream_of(s), p);
}

template <int A> static void linear_tiles(struct stream *s, const struct product &p) {
    const uint64_t blocks = (uint64_t)blocks_for(p.rows, 128) * blocks_for(p.features, 128);
    if (p.rows > 64 && blocks >= (uint64_t)device_of(s)->sm_count)
        linear_tiles_shape<A, 2, 4, 64, 32>(s, p);
    else
        linear_tiles_shape<A, 2, 2, 32, 32>(s, p);
}

/* ---- plain ---- */

enum { PLAIN_ROWS = 4, PLAIN_WARPS = 4 };

template <int A, int W> static __global__ void linear_plain_kernel(struct product p) {
    typedef typename values<A>::raw raw;
    const uint32_t row_blocks = (p.rows + PLAIN_ROWS - 1) / PLAIN_ROWS,
                   n = blockIdx.x / row_blocks * PLAIN_WARPS + threadIdx.x / 32,
                   t0 = blockIdx.x % row_blocks * PLAIN_ROWS, lane = threadIdx.x % 32;
    dependency_wait();
    dependents_launch();
    if (n >= p.features)
        return;
    const typename values<W>::raw *w = (const typename values<W>::raw *)p.w + (size_t)n * p.cols;
    const raw *x = (const raw *)p.x + (size_t)t0 * p.cols;
    float sums[PLAIN_ROWS] = {};
    for (uint32_t k = lane; k < p.cols; k += 32) {
        const float v = values<W>::get(w + k);
#pragma unroll
        for (uint32_t i = 0; i < PLAIN_ROWS; i++)
            if (t0 + i < p.rows)
                sums[i] += values<A>::get(x + (size_t)i * p.cols + k) * v;
    }
#pragma unroll
    for (uint32_t i = 0; i < PLAIN_ROWS; i++) {
        const float sum = warp_sum(sums[i]);
        if (lane == 0 && t0 + i < p.rows)
            store<A>(p, t0 + i, n, sum);
    }
}

template <int A, int W> static void linear_plain(struct stream *s, const struct product &p) {
    launch_shape shape = {
        dim3(blocks_for(p.rows, PLAIN_ROWS) * blocks_for(p.features, PLAIN_WARPS)),
        dim3(PLAIN_WARPS * 32), 0, device_of(s)->dependent_launch};
    LAUNCH((linear_plain_kernel<A, W>), shape, cuda_stream_of(s), p);
}

/* ---- dequantized ---- */

/* A warp makes one feature of four rows, as above; lane l takes the groups of 32 values l, l + 32,
 * ..., dequantizes each (dequantize.h) and sums along it. */
template <int A>
static __global__ void linear_dequantized_kernel(struct product p, struct matrix_segment segment,
                                                 enum storage_type type) {
    typedef typename values<A>::raw raw;
    const uint32_t row_blocks = (p.rows + PLAIN_ROWS - 1) / PLAIN_ROWS,
                   n = blockIdx.x / row_blocks * PLAIN_WARPS + threadIdx.x / 32,
                   t0 = blockIdx.x % row_blocks * PLAIN_ROWS, lane = threadIdx.x % 32;
    dependency_wait();
    dependents_launch();
    if (n >= p.features)
        return;
    const raw *x = (const raw *)p.x + (size_t)t0 * p.cols;
    float sums[PLAIN_ROWS] = {};
    for (uint32_t k = lane * 32; k < p.cols; k += 32 * 32) {
        const uint32_t count = min(32u, p.cols - k);
        float v[32];
        dequantize_group(type, segment, p.cols, n, k, count, v);
#pragma unroll
        for (uint32_t i = 0; i < PLAIN_ROWS; i++)
            if (t0 + i < p.rows)
                for (uint32_t j = 0; j < count; j++)
                    sums[i] += values<A>::get(x + (size_t)i * p.cols + k + j) * v[j];
    }
#pragma unroll
    for (uint32_t i = 0; i < PLAIN_ROWS; i++) {
        const float sum = warp_sum(sums[i]);
        if (lane == 0 && t0 + i < p.rows)
            store<A>(p, t0 + i, n, sum);
    }
}

template <int A>
static void linear_dequantized(struct stream *s, const struct product &p,
                               const struct matrix_segment &segment, enum storage_type weights) {
    launch_shape shape = {
        dim3(blocks_for(p.rows, PLAIN_ROWS) * blocks_for(p.features, PLAIN_WARPS)),
        dim3(PLAIN_WARPS * 32), 0, device_of(s)->dependent_launch};
    LAUNCH(linear_dequantized_kernel<A>, shape, cuda_stream_of(s), p, segment, weights);
}

/* ---- choice ---- */

template <int A>
static void linear_any(struct stream *s, const struct product &p, enum storage_type weights) {
    WITH_ACTIVATION(weights, W, (linear_plain<A, W>(s, p)));
}

template <int A>
static void linear_16(struct stream *s, const struct product &p, uint32_t class_rows) {
    const struct product first = product_rows(p, 0, class_rows),
                         rest = product_rows(p, class_rows, p.rows - class_rows);
    if (first.rows)
        linear_rows<A>(s, first);
    if (rest.rows && !linear_blas(s, rest))
        linear_tiles<A>(s, rest);
}

/* Weights that are there in tiles as well: prompt rows by the library. */
static void linear_tiled(struct stream *s, const struct product &p,
                         const struct matrix_segment &segment, uint32_t class_rows) {
    const uint32_t rest = p.rows - class_rows;
    struct product first = p;
    if (segment.packed != segment.data && rest && linear_blas(s, product_rows(p, class_rows, rest)))
        first.rows = class_rows;
    first.w = segment.packed;
    if (first.rows)
        linear_hopper(s, first, class_rows);
}

/* Quantized weights in units; int4 only in place, for its scales have moved with them. */
static bool has_units(const struct matrix_segment &segment, enum storage_type type) {
    return !storage_is_plain(type) && (type != STORAGE_U4 || segment.packed == segment.data);
}
/* How many segments from `first` on are one launch of linear_packed; 0: none is. */
static uint32_t units_from(const struct matrix *w, uint32_t first) {
    const struct matrix_segment *p = w->segments + first;
    const enum storage_type type = segment_type(w, p);
    uint32_t count = 0;
    while (first + count < w->segment_count && p[count].packed && p[count].rows &&
           segment_type(w, p + count) == type && has_units(p[count], type) &&
           packed_alike(*p, p[count], w->cols))
        count++;
    return count;
}

/* Segments that are one launch, with x as it is or rounded as the matrix says. */
static void linear_units(struct stream *s, const struct op_linear *a, const struct product &p,
                         const struct matrix_segment *segments, uint32_t count,
                         enum storage_type type) {
    const enum compute_type compute = a->w->compute;
    const uint32_t rest = a->rows - a->class_rows;
    if (!device_of(s)->hopper) {
        linear_packed_mma(s, p, segments, count, type);
    } else if (compute & COMPUTE_FP8) {
        linear_fp8(s, p, a->class_rows, segments, count, a->scratch);
    } else if (compute & COMPUTE_FP8_PROMPTS && rest) {
        if (a->class_rows)
            linear_packed(s, product_rows(p, 0, a->class_rows), a->class_rows, segments, count,
                          type);
        linear_fp8(s, product_rows(p, a->class_rows, rest), 0, segments, count, a->scratch);
    } else {
        linear_packed(s, p, a->class_rows, segments, count, type);
    }
}

static void linear_segment(struct stream *s, const struct product &p, enum storage_type weights,
                           uint32_t class_rows) {
    const enum storage_type act = s->dev->activation_type;
    if (act == weights && act == STORAGE_BF16 && p.cols % 8 == 0)
        linear_16<STORAGE_BF16>(s, p, class_rows);
    else if (act == weights && act == STORAGE_F16 && p.cols % 8 == 0)
        linear_16<STORAGE_F16>(s, p, class_rows);
    else
        WITH_ACTIVATION(act, A, linear_any<A>(s, p, weights));
}

/* Weights whose halves lie beside each other, for both classes of rows. */
static void linear_gated(struct stream *s, const struct op_linear *a) {
    const struct matrix *w = a->w;
    struct matrix_segment half[2];
    gated_halves(w, half);
    CHECK(a->gated == ACTIVATION_SILU && !a->out_f32 && half[0].packed &&
          a->out_stride >= w->rows / 2 && !a->residual.squares && !a->push);
    struct product p = {a->out,         a->x,    half[0].packed, w->bias,        a->rows,
                        w->rows,        w->cols, a->out_stride,  false,          true,
                        half[1].packed, a->norm, a->residual,    rope_of_rows(), push_to_ranks()};
    if (!p.rows)
        return;
    if (storage_is_plain(segment_type(w, &half[0])))
        linear_hopper(s, p, a->class_rows);
    else
        linear_units(s, a, p, half, 2, segment_type(w, &half[0]));
}

/* Of quantized weights: where a matrix has more blocks of 64 features than an H100 has SMs, all of them read more
 * of the residual of so many rows out of L2 than the norm's kernel is worth; the fewer bits, the sooner. */
enum : uint32_t { PACKED_TILE = 64, WIDE_TILES = 132, WIDE_NORMED_ROWS = 6, WIDE_NORMED_FOURS = 4 };

static bool folds_norm_of(const struct device *dev, const struct matrix *w,
                          const struct matrix_segment *segment, uint32_t rows) {
    const enum storage_type type = segment_type(w, segment);
    const bool wide = w->rows / PACKED_TILE > WIDE_TILES,
               four = storage_bytes(type, 256) < 256 / 8 * 6;
    if (!segment->packed || !segment->rows)
        return false;
    if (type == dev->activation_type)
        return true;
    return packed_folds_norm(type, w->rows, w->cols) &&
           (!wide || rows <= (four ? WIDE_NORMED_FOURS : WIDE_NORMED_ROWS));
}

/* Each segment is a product of linear_hopper.cu, of linear_packed.cu with codes of 8 bits, or of
 * linear_packed_few.cu: those of six bits, and of four with a long k, would wait for the norm's instructions. */
bool cuda_folds_norm(const struct device *dev, const struct matrix *w, uint32_t rows) {
    if (!((const struct cuda_device *)dev)->hopper || rows > NORMED_ROWS || w->rows % NORM_GROUP ||
        w->compute & COMPUTE_FP8)
        return false;
    for (uint32_t i = 0; i < w->segment_count; i++)
        if (!folds_norm_of(dev, w, &w->segments[i], rows))
            return false;
    return w->segment_count > 0;
}

/* Head sizes whose pairs a block of 64 features can have together, in one launch. */
bool cuda_folds_rope(const struct device *dev, const struct matrix *w,
                     const struct op_rope_kv *rope) {
    const struct kv_view *kv = rope->kv;
    if (!cuda_folds_norm(dev, w, rope->batch->row_count) ||
        w->segment_count != MAX(units_from(w, 0), 1u))
        return false;
    for (uint32_t i = 0; i < w->segment_count; i++)
        if (w->segments[i].rows % kv->head_dim)
            return false;
    return w->rows == (rope->heads + 2 * kv->kv_heads) * kv->head_dim && rope->angles &&
           !rope->interleaved && 2 * rope->half == kv->head_dim &&
           (kv->head_dim == 64 || kv->head_dim == 128) && kv->type == dev->activation_type;
}

static struct rope_of_rows rope_of(const struct op_rope_kv *rope) {
    if (!rope)
        return rope_of_rows();
    return {rope->angles, rope->heads, kv_pages_of(rope->kv), rope->batch->slots,
            rope->batch->positions};
}

/* Products for Hopper all can, in blocks of at most PUSHED_ROWS; cuBLASLt cannot. */
bool cuda_pushes(const struct device *dev, const struct matrix *w, uint32_t rows) {
    if (!((const struct cuda_device *)dev)->hopper || rows > PUSHED_ROWS || w->rows % PACKED_TILE)
        return false;
    for (uint32_t i = 0; i < w->segment_count; i++) {
        const struct matrix_segment &segment = w->segments[i];
        const enum storage_type type = segment_type(w, &segment);
        if (!segment.packed || !segment.rows ||
            (type == dev->activation_type ? segment.packed != segment.data
                                          : !has_units(segment, type)))
            return false;
    }
    return w->segment_count > 0 && !w->gated;
}

/* Its blocks wait for other GPUs', so all of them must be resident at once, two an SM. */
bool cuda_adds_up(const struct device *dev, const struct matrix *w, uint32_t rows) {
    const uint32_t tiles = w->rows / PACKED_TILE;
    return cuda_folds_norm(dev, w, rows) && cuda_pushes(dev, w, rows) && tiles <= ADDED_TILES_MAX &&
           tiles * feature_splits(w->rows, w->cols) <=
               2 * (uint32_t)((const struct cuda_device *)dev)->sm_count;
}

/* From feature n on. */
static struct push_to_ranks push_of(const struct op_linear *a, uint32_t n) {
    const struct peers *p = a->push;
    if (!p)
        return push_to_ranks();
    return {p->table,   p->self, p->count, p->blocks, norm_rows_each(p, a->rows),
            a->w->rows, 0,       n,        p->signal};
}

/* From feature n on. */
static struct residual_out residual_from(const struct residual_out &all, uint32_t n) {
    return {all.squares ? all.squares + n / NORM_GROUP : NULL, all.scale != 0 ? all.scale : 1.0f};
}

void cuda_linear(struct stream *s, const struct op_linear *a) {
    const struct matrix *w = a->w;
    const bool folds = a->norm.squares || a->residual.squares;
    CHECK(!a->gated == !w->gated && a->class_rows <= a->rows);
    CHECK(!a->push || (!a->norm.squares && !a->rope && !a->out_f32 && a->push->joined &&
                       a->out_stride == w->rows && (uintptr_t)a->out % 16 == 0 &&
                       (a->residual.squares ? cuda_adds_up(s->dev, w, a->rows)
                                            : cuda_pushes(s->dev, w, a->rows))));
    CHECK(!folds || (a->class_rows == a->rows && cuda_folds_norm(s->dev, w, a->rows)));
    CHECK(!a->rope || (a->class_rows == a->rows && a->rope->batch->row_count == a->rows &&
                       a->rope->qkv == a->out && a->out_stride == w->rows && !a->out_f32 &&
                       cuda_folds_rope(s->dev, w, a->rope)));
    if (w->gated) {
        linear_gated(s, a);
        return;
    }
    CHECK(a->residual.squares ? a->out_stride == w->rows : a->out_stride >= w->rows);
    const size_t out_size =
        a->out_f32 || a->residual.squares ? 4 : storage_bytes(s->dev->activation_type, 1);
    uint32_t n = 0, taken = 0;
    for (uint32_t i = 0; a->rows && w->cols && i < w->segment_count; i += taken) {
        const struct matrix_segment *segment = w->segments + i;
        const enum storage_type type = segment_type(w, segment);
        const uint32_t units = units_from(w, i);
        uint32_t features = 0;
        taken = MAX(units, 1u);
        for (uint32_t j = 0; j < taken; j++)
            features += segment[j].rows;
        const struct product p = {(char *)a->out + n * out_size,
                                  a->x,
                                  segment->data,
                                  w->bias ? w->bias + n : NULL,
                                  a->rows,
                                  features,
                                  w->cols,
                                  a->out_stride,
                                  a->out_f32,
                                  false,
                                  NULL,
                                  a->norm,
                                  residual_from(a->residual, n),
                                  rope_of(a->rope),
                                  push_of(a, n)};
        if (units)
            linear_units(s, a, p, segment, units, type);
        else if (features && segment->packed && storage_is_plain(type))
            linear_tiled(s, p, *segment, a->class_rows);
        else if (features && storage_is_plain(type))
            linear_segment(s, p, type, a->class_rows);
        else if (features)
            WITH_ACTIVATION(s->dev->activation_type, A,
                            linear_dequantized<A>(s, p, *segment, type));
        n += features;
    }
}
