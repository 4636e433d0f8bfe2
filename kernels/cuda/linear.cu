/*
 * linear.cu - out[t, n] = sum_k x[t, k] * w[n, k] + bias[n] (kernels/ops.h: op_linear), four ways.
 *
 * rows (output class, 16-bit types): a block makes 16 or 32 features of up to 64 rows. Weights stream through a ring of
 * cp.async stages of 128 k; each of its four warps takes 32 k of every stage, features as the 16 rows of mma.m16n8k16
 * and the step's rows as its 8 columns; the four sums are added in order at the end. So an output's sum has one shape
 * whatever the number of rows: four interleaved sums over k in ascending order, then ((0 + 1) + 2) + 3.
 *
 * tiles (prompt class, 16-bit types): a block makes 64 x 64 or 128 x 128 outputs, all k in ascending order by
 * mma.m16n8k16: the tile's size does not change a bit. Where the device was opened so, by cuBLASLt instead
 * (linear_blas.cu).
 *
 * plain (any types, any cols, both classes): a warp makes one feature of four rows; lane l sums k = l, l + 32, ...,
 * then a fixed tree.
 *
 * decoded (types that are no plain numbers, both classes): as plain, but a lane takes runs of 32 k and decodes each.
 *
 * Which way depends on the types and on cols % 8 alone. Cost: weights are read once for 64 rows (rows), once for 128
 * (tiles, from L2). Tolerance: ops.h with lanes = 4, 1, 32.
 */
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/linear.cuh"

template <int A>
static __device__ __forceinline__ void store(const struct product &p, uint32_t t, uint32_t n, float v) {
    const size_t at = (size_t)t * p.out_stride + n;
    if (p.bias) v += p.bias[n];
    if (p.out_f32)
        ((float *)p.out)[at] = v;
    else
        values<A>::put((typename values<A>::raw *)p.out + at, v);
}

template <int A> static __device__ __forceinline__ void mma(float d[4], const uint32_t a[4], const uint32_t *b) {
    if (A == STORAGE_BF16)
        mma_bf16(d, a, b);
    else
        mma_f16(d, a, b);
}

/* ---- rows ---- */

enum { ROWS_THREADS = 128, ROWS_K = 128, ROWS_STRIDE = ROWS_K + 8 /* rows in different banks */ };

/* `count` lines of ROWS_K values from the matrix at `from`, lines [first, first + count), k from k0. */
static __device__ __forceinline__ void rows_load(uint16_t *to, const uint16_t *from, uint32_t first, uint32_t count,
                                                 uint32_t limit, uint32_t k0, uint32_t cols) {
    for (uint32_t n = threadIdx.x; n < count * (ROWS_K / 8); n += ROWS_THREADS) {
        const uint32_t line = n / (ROWS_K / 8), k = n % (ROWS_K / 8) * 8;
        const bool valid = first + line < limit && k0 + k < cols;
        cp_async_16(to + line * ROWS_STRIDE + k, from + (valid ? (size_t)(first + line) * cols + k0 + k : 0), valid);
    }
}

template <int A, int TOKENS, int GROUPS, int STAGES>
static __global__ __launch_bounds__(ROWS_THREADS) void linear_rows_kernel(struct product p) {
    enum { FEATURES = 16 * GROUPS, STAGE = (FEATURES + TOKENS) * ROWS_STRIDE };
    DYNAMIC_SHARED(area);
    uint16_t *ring = (uint16_t *)area;
    const uint16_t *x = (const uint16_t *)p.x, *w = (const uint16_t *)p.w;
    const uint32_t n0 = blockIdx.x * FEATURES, t0 = blockIdx.y * TOKENS, chunks = (p.cols + ROWS_K - 1) / ROWS_K;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sums[GROUPS][TOKENS / 8][4] = {};

    /* 1. weights may be asked for before the kernel ahead has ended, its results only after */
    for (uint32_t c = 0; c < STAGES - 1; c++)
        if (c < chunks) rows_load(ring + c * STAGE, w, n0, FEATURES, p.features, c * ROWS_K, p.cols);
    dependency_wait();
    dependents_launch();
    for (uint32_t c = 0; c < STAGES - 1; c++) {
        if (c < chunks) rows_load(ring + c * STAGE + FEATURES * ROWS_STRIDE, x, t0, TOKENS, p.rows, c * ROWS_K, p.cols);
        cp_async_commit();
    }

    /* 2. each warp its 32 k of every stage */
    for (uint32_t c = 0; c < chunks; c++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads(); /* stage c is here for all; everyone is done with stage c - 1 */
        const uint32_t next = c + STAGES - 1;
        if (next < chunks) {
            uint16_t *stage = ring + next % STAGES * STAGE;
            rows_load(stage, w, n0, FEATURES, p.features, next * ROWS_K, p.cols);
            rows_load(stage + FEATURES * ROWS_STRIDE, x, t0, TOKENS, p.rows, next * ROWS_K, p.cols);
        }
        cp_async_commit();
        const uint16_t *ws = ring + c % STAGES * STAGE + warp * 32, *xs = ws + FEATURES * ROWS_STRIDE;
        uint32_t a[2][GROUPS][4], b[4];
#pragma unroll
        for (int step = 0; step < 2; step++)
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
                ldmatrix_x4(a[step][g], ws + (g * 16 + lane % 16) * ROWS_STRIDE + step * 16 + lane / 16 * 8);
#pragma unroll
        for (int group = 0; group < TOKENS / 8; group++) {
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

    /* 3. the warps' sums in order: parts[warp][token][feature] */
    float *parts = (float *)area;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int group = 0; group < TOKENS / 8; group++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t n = g * 16 + lane / 4 + i / 2 * 8, t = group * 8 + lane % 4 * 2 + i % 2;
                parts[(warp * TOKENS + t) * FEATURES + n] = sums[g][group][i];
            }
    __syncthreads();
    for (uint32_t e = threadIdx.x; e < TOKENS * FEATURES; e += ROWS_THREADS) {
        const uint32_t t = t0 + e / FEATURES, n = n0 + e % FEATURES;
        float sum = parts[e];
#pragma unroll
        for (int part = 1; part < 4; part++) sum += parts[part * TOKENS * FEATURES + e];
        if (t < p.rows && n < p.features) store<A>(p, t, n, sum);
    }
}

template <int A, int TOKENS, int GROUPS, int STAGES>
static void linear_rows_shape(struct stream *s, const struct product &p) {
    enum : unsigned {
        STAGE_BYTES = (16 * GROUPS + TOKENS) * ROWS_STRIDE * 2,
        PARTS_BYTES = 4 * 16 * GROUPS * TOKENS * 4
    };
    static_assert(PARTS_BYTES <= STAGES * STAGE_BYTES, "the sums lie where the ring was");
    launch_shape shape = {dim3(blocks_for(p.features, 16 * GROUPS), blocks_for(p.rows, TOKENS)), dim3(ROWS_THREADS),
                          STAGES * STAGE_BYTES, device_of(s)->dependent_launch};
    LAUNCH((linear_rows_kernel<A, TOKENS, GROUPS, STAGES>), shape, cuda_stream_of(s), p);
}

template <int A> static void linear_rows(struct stream *s, const struct product &p) {
    if (p.rows <= 8)
        linear_rows_shape<A, 8, 1, 8>(s, p);
    else if (p.rows <= 16)
        linear_rows_shape<A, 16, 1, 6>(s, p);
    else if (p.rows <= 32)
        linear_rows_shape<A, 32, 2, 4>(s, p);
    else
        linear_rows_shape<A, 64, 2, 3>(s, p);
}

/* ---- tiles ---- */

enum { TILE_K = 32, TILE_STRIDE = TILE_K + 8, TILE_STAGES = 4 };

template <int THREADS>
static __device__ __forceinline__ void tile_load(uint16_t *to, const uint16_t *from, uint32_t first, uint32_t count,
                                                 uint32_t limit, uint32_t k0, uint32_t cols) {
    for (uint32_t n = threadIdx.x; n < count * (TILE_K / 8); n += THREADS) {
        const uint32_t line = n / (TILE_K / 8), k = n % (TILE_K / 8) * 8;
        const bool valid = first + line < limit && k0 + k < cols;
        cp_async_16(to + line * TILE_STRIDE + k, from + (valid ? (size_t)(first + line) * cols + k0 + k : 0), valid);
    }
}

/* A block of WARPS_T x WARPS_N warps, each WARP_T rows by WARP_N features. */
template <int A, int WARPS_T, int WARPS_N, int WARP_T, int WARP_N>
static __global__ __launch_bounds__(WARPS_T *WARPS_N * 32) void linear_tiles_kernel(struct product p) {
    enum {
        THREADS = WARPS_T * WARPS_N * 32,
        TOKENS = WARPS_T * WARP_T,
        FEATURES = WARPS_N * WARP_N,
        STAGE = (TOKENS + FEATURES) * TILE_STRIDE
    };
    DYNAMIC_SHARED(area);
    uint16_t *ring = (uint16_t *)area;
    const uint16_t *x = (const uint16_t *)p.x, *w = (const uint16_t *)p.w;
    const uint32_t t0 = blockIdx.x * TOKENS, n0 = blockIdx.y * FEATURES, chunks = (p.cols + TILE_K - 1) / TILE_K;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t warp_t = warp / WARPS_N * WARP_T, warp_n = warp % WARPS_N * WARP_N;
    float sums[WARP_T / 16][WARP_N / 8][4] = {};

    dependency_wait();
    dependents_launch();
    for (uint32_t c = 0; c < TILE_STAGES - 1; c++) {
        if (c < chunks) {
            tile_load<THREADS>(ring + c * STAGE, x, t0, TOKENS, p.rows, c * TILE_K, p.cols);
            tile_load<THREADS>(ring + c * STAGE + TOKENS * TILE_STRIDE, w, n0, FEATURES, p.features, c * TILE_K,
                               p.cols);
        }
        cp_async_commit();
    }
    for (uint32_t c = 0; c < chunks; c++) {
        cp_async_wait<TILE_STAGES - 2>();
        __syncthreads();
        const uint32_t next = c + TILE_STAGES - 1;
        if (next < chunks) {
            uint16_t *stage = ring + next % TILE_STAGES * STAGE;
            tile_load<THREADS>(stage, x, t0, TOKENS, p.rows, next * TILE_K, p.cols);
            tile_load<THREADS>(stage + TOKENS * TILE_STRIDE, w, n0, FEATURES, p.features, next * TILE_K, p.cols);
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
                ldmatrix_x4(b[j], ws + (j * 16 + lane % 8 + lane / 16 * 8) * TILE_STRIDE + step + lane / 8 % 2 * 8);
#pragma unroll
            for (int i = 0; i < WARP_T / 16; i++)
#pragma unroll
                for (int j = 0; j < WARP_N / 8; j++) mma<A>(sums[i][j], a[i], b[j / 2] + j % 2 * 2);
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
                if (t < p.rows && n < p.features) store<A>(p, t, n, sums[i][j][e]);
            }
}

template <int A, int WARPS_T, int WARPS_N, int WARP_T, int WARP_N>
static void linear_tiles_shape(struct stream *s, const struct product &p) {
    enum : unsigned { TOKENS = WARPS_T * WARP_T, FEATURES = WARPS_N * WARP_N };
    launch_shape shape = {dim3(blocks_for(p.rows, TOKENS), blocks_for(p.features, FEATURES)),
                          dim3(WARPS_T * WARPS_N * 32), TILE_STAGES * (TOKENS + FEATURES) * TILE_STRIDE * 2,
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
    const uint32_t n = blockIdx.x * PLAIN_WARPS + threadIdx.x / 32, t0 = blockIdx.y * PLAIN_ROWS,
                   lane = threadIdx.x % 32;
    dependency_wait();
    dependents_launch();
    if (n >= p.features) return;
    const typename values<W>::raw *w = (const typename values<W>::raw *)p.w + (size_t)n * p.cols;
    const raw *x = (const raw *)p.x + (size_t)t0 * p.cols;
    float sums[PLAIN_ROWS] = {};
    for (uint32_t k = lane; k < p.cols; k += 32) {
        const float v = values<W>::get(w + k);
#pragma unroll
        for (uint32_t i = 0; i < PLAIN_ROWS; i++)
            if (t0 + i < p.rows) sums[i] += values<A>::get(x + (size_t)i * p.cols + k) * v;
    }
#pragma unroll
    for (uint32_t i = 0; i < PLAIN_ROWS; i++) {
        const float sum = warp_sum(sums[i]);
        if (lane == 0 && t0 + i < p.rows) store<A>(p, t0 + i, n, sum);
    }
}

template <int A, int W> static void linear_plain(struct stream *s, const struct product &p) {
    launch_shape shape = {dim3(blocks_for(p.features, PLAIN_WARPS), blocks_for(p.rows, PLAIN_ROWS)),
                          dim3(PLAIN_WARPS * 32), 0, device_of(s)->dependent_launch};
    LAUNCH((linear_plain_kernel<A, W>), shape, cuda_stream_of(s), p);
}

/* ---- decoded ---- */

/* A warp makes one feature of four rows, as above; lane l takes the groups of 32 values l, l + 32, ..., decodes each
 * (decode.h) and sums along it. */
template <int A>
static __global__ void linear_decoded_kernel(struct product p, struct matrix_part part, enum storage_type type) {
    typedef typename values<A>::raw raw;
    const uint32_t n = blockIdx.x * PLAIN_WARPS + threadIdx.x / 32, t0 = blockIdx.y * PLAIN_ROWS,
                   lane = threadIdx.x % 32;
    dependency_wait();
    dependents_launch();
    if (n >= p.features) return;
    const raw *x = (const raw *)p.x + (size_t)t0 * p.cols;
    float sums[PLAIN_ROWS] = {};
    for (uint32_t k = lane * 32; k < p.cols; k += 32 * 32) {
        const uint32_t count = min(32u, p.cols - k);
        float v[32];
        decode_group(type, part, p.cols, n, k, count, v);
#pragma unroll
        for (uint32_t i = 0; i < PLAIN_ROWS; i++)
            if (t0 + i < p.rows)
                for (uint32_t j = 0; j < count; j++) sums[i] += values<A>::get(x + (size_t)i * p.cols + k + j) * v[j];
    }
#pragma unroll
    for (uint32_t i = 0; i < PLAIN_ROWS; i++) {
        const float sum = warp_sum(sums[i]);
        if (lane == 0 && t0 + i < p.rows) store<A>(p, t0 + i, n, sum);
    }
}

template <int A>
static void linear_decoded(struct stream *s, const struct product &p, const struct matrix_part &part,
                           enum storage_type weights) {
    launch_shape shape = {dim3(blocks_for(p.features, PLAIN_WARPS), blocks_for(p.rows, PLAIN_ROWS)),
                          dim3(PLAIN_WARPS * 32), 0, device_of(s)->dependent_launch};
    LAUNCH(linear_decoded_kernel<A>, shape, cuda_stream_of(s), p, part, weights);
}

/* ---- choice ---- */

template <int A> static void linear_any(struct stream *s, const struct product &p, enum storage_type weights) {
    WITH_ACTIVATION(weights, W, (linear_plain<A, W>(s, p)));
}

template <int A> static void linear_16(struct stream *s, const struct product &p, uint32_t class_rows) {
    struct product first = p, rest = p;
    first.rows = class_rows;
    rest.rows = p.rows - class_rows;
    rest.x = (const uint16_t *)p.x + (size_t)class_rows * p.cols;
    rest.out = (char *)p.out + (size_t)class_rows * p.out_stride * (p.out_f32 ? 4 : 2);
    if (first.rows) linear_rows<A>(s, first);
    if (rest.rows && !linear_blas(s, rest)) linear_tiles<A>(s, rest);
}

static void linear_part(struct stream *s, const struct product &p, enum storage_type weights, uint32_t class_rows) {
    const enum storage_type act = s->dev->activation_type;
    if (act == weights && act == STORAGE_BF16 && p.cols % 8 == 0)
        linear_16<STORAGE_BF16>(s, p, class_rows);
    else if (act == weights && act == STORAGE_F16 && p.cols % 8 == 0)
        linear_16<STORAGE_F16>(s, p, class_rows);
    else
        WITH_ACTIVATION(act, A, linear_any<A>(s, p, weights));
}

void cuda_linear(struct stream *s, const struct op_linear *a) {
    const struct matrix *w = a->w;
    CHECK(a->out_stride >= w->rows && a->class_rows <= a->rows);
    uint32_t n = 0;
    for (uint32_t i = 0; a->rows && w->cols && i < w->part_count; i++) {
        const size_t out_size = a->out_f32 ? 4 : storage_bytes(s->dev->activation_type, 1);
        struct product p = {(char *)a->out + n * out_size,
                            a->x,
                            w->parts[i].data,
                            w->bias ? w->bias + n : NULL,
                            a->rows,
                            w->parts[i].rows,
                            w->cols,
                            a->out_stride,
                            a->out_f32};
        const enum storage_type type = part_type(w, &w->parts[i]);
        if (p.features && storage_is_plain(type))
            linear_part(s, p, type, a->class_rows);
        else if (p.features)
            WITH_ACTIVATION(s->dev->activation_type, A, linear_decoded<A>(s, p, w->parts[i], type));
        n += w->parts[i].rows;
    }
}
