/*
 * linear_packed.cu - out[t, n] = sum_k x[t, k] * w[n, k] + bias[n] on sm_90a with quantized
 * weights, for any number of rows: fp8 and int8 (a scale for all, for a row, fp8 also for 128 x 128 values),
 * int4 with groups, Q8_0, Q4_0, Q4_K, Q6_K, MXFP4, put into units when they were loaded
 * (packed.cuh).
 *
 * As linear_hopper.cu: a warpgroup brings the operands through a ring of stages, weights by bulk
 * copies, x by cp.async; one or two more multiply 64 features each. But A comes from registers: each
 * thread makes its codes whole numbers of 16 bits and hands them to wgmma, and while a piece of 32 k
 * is multiplied it unpacks the next. Scales meet the sums: those of k that share one are summed
 * alone, in `partial`, and then sums += scale * partial. Types with minima, and int4 with zeros,
 * also take off minimum * (the sum of x over the piece), which the warpgroup that brings x adds up.
 *
 * Each output is one chain: over k in ascending order, 16 at a time, a piece (or what shares a
 * scale) after the other, whatever the block's shape and the number of rows: the bits of a row do
 * not depend on the others, and output class and prompt class have the same. Tolerance: ops.h with
 * lanes = 1, where minima are terms of their own.
 *
 * Cost: weights once for 128 rows (twice from L2 for 256); 2 to 3 instructions a weight and 128
 * rows. Registers: 4 to 64 sums a thread, and as many partial ones.
 */
#include "kernels/cuda/linear_hopper.cuh"
#include "kernels/cuda/packed.cuh"

/* A product with weights in units. */
struct packed_product {
    struct product p;
    const float *scales, *zeros; /* int4: [features / 64, cols / group, 64] */
    uint32_t scale_rows, stride; /* others: scales[n / scale_rows * stride], fp8: + k / 128 */
    uint32_t group, group_bits;  /* int4: 2^bits values of k share a scale; else 0 */
    float zero;
};

/* One of the block's stages. BLOCKS: on an SM at a time.  */
template <int W, int TOKENS, int GROUPS, int BLOCKS> struct packed_stage {
    typedef packed<W> form;
    enum : unsigned {
        THREADS = PRODUCERS + 128 * GROUPS,
        PIECES = form::TILES * 2,
        X_TILE = TOKENS * TILE * 2,
        UNITS_AT = form::TILES * X_TILE,
        SCALES = W == STORAGE_U4 ? PIECES * PACKED_FEATURES * 4 : 0, /* and as many zeros */
        SCALES_AT = UNITS_AT + GROUPS * form::UNITS * form::UNIT,
        SUMS_AT = SCALES_AT + GROUPS * 2 * SCALES, /* of x: [PIECES, TOKENS] */
        END = SUMS_AT + (form::MINIMUM ? PIECES * TOKENS * 4 : 0),
        BYTES = (END + 1023) / 1024 * 1024,
        BARRIERS = 1024,
        ROOM = (BLOCKS == 2 ? 113 : 227) * 1024 - BARRIERS - 1024,
        STAGES = ROOM / BYTES < 12 ? ROOM / BYTES : 12,
        SHARED = BARRIERS + STAGES * BYTES + 1024
    };
    static_assert(STAGES >= 2, "a ring");
};

/* ---- bringing ---- */

/* Sums of x over pieces, from the chunks that this thread copied. */
template <int A, class STAGE, int TOKENS>
static __device__ __forceinline__ void sum_pieces(unsigned char *stage, uint32_t tiles) {
    const uint32_t row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    for (uint32_t i = 0; i < tiles; i++)
        for (uint32_t t = row; t < (TOKENS < 16 ? 16 : TOKENS); t += PRODUCERS / 8) {
            float v[8] = {}, sum = 0;
            if (t < TOKENS)
                values<A>::get8(
                    (const uint16_t *)(stage + i * STAGE::X_TILE) + swizzled_chunk(t, chunk), v);
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum += v[j];
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if (t < TOKENS && chunk % 4 == 0)
                ((float *)(stage + STAGE::SUMS_AT))[(i * 2 + chunk / 4) * TOKENS + t] = sum;
        }
}

/* Weights, scales and zeros of stage c of each of `groups` x 64 features: one thread. */
template <int W, class STAGE>
static __device__ __forceinline__ void bring_weights(const struct packed_product &q,
                                                     unsigned char *stage, uint64_t *full,
                                                     uint32_t c, uint32_t first, uint32_t groups) {
    typedef packed<W> form;
    const uint32_t units = q.p.cols / form::UNIT_K, done = c * form::UNITS,
                   bytes = min((uint32_t)form::UNITS, units - done) * form::UNIT;
    const uint32_t spans = q.group ? q.p.cols / q.group : 0,
                   each = q.group ? form::TILES * TILE / q.group : 0,
                   scale_bytes = q.group ? min(each, spans - c * each) * PACKED_FEATURES * 4 : 0;
    mbarrier_arrive_expect(full, groups * (bytes + scale_bytes * (q.zeros ? 2 : 1)));
    for (uint32_t g = 0; g < groups; g++) {
        copy_bulk(stage + STAGE::UNITS_AT + g * form::UNITS * form::UNIT,
                  (const char *)q.p.w + ((size_t)(first + g) * units + done) * form::UNIT, bytes,
                  full);
        if (W != STORAGE_U4)
            continue;
        const size_t from = ((size_t)(first + g) * spans + c * each) * PACKED_FEATURES;
        unsigned char *to = stage + STAGE::SCALES_AT + g * 2 * STAGE::SCALES;
        copy_bulk(to, q.scales + from, scale_bytes, full);
        if (q.zeros)
            copy_bulk(to + STAGE::SCALES, q.zeros + from, scale_bytes, full);
    }
}

/* The warpgroup that copies: thread 0 the weights, all of them x. */
template <int A, int W, int TOKENS, class STAGE>
static __device__ __forceinline__ void bring(const struct packed_product &q,
                                             const hopper_ring &ring, uint32_t first,
                                             uint32_t groups, uint32_t t0) {
    enum : uint32_t {
        STAGES = STAGE::STAGES,
        LAG = STAGES / 2,
        TILES = packed<W>::TILES,
        LINES = PRODUCERS / 8,
        COPIES = (TOKENS + LINES - 1) / LINES
    };
    const struct product &p = q.p;
    const uint32_t tiles = p.cols / TILE, stages = (tiles + TILES - 1) / TILES,
                   row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    const uint16_t *x = (const uint16_t *)p.x + (size_t)(t0 + row) * p.cols + chunk * 8;
    const uint32_t rows_left = p.rows > t0 + row ? p.rows - t0 - row : 0;
    const size_t lines = (size_t)LINES * p.cols;
    const uint32_t place = swizzled_chunk(row, chunk);
    auto at = [&](uint32_t c) { return ring.stages + c % STAGES * STAGE::BYTES; };

    /* 1. weights may be asked for before the kernel ahead has ended, its results only after */
    if (threadIdx.x == 0)
        for (uint32_t c = 0; c < STAGES && c < stages; c++)
            bring_weights<W, STAGE>(q, at(c), ring.full + c % STAGES, c, first, groups);
    dependency_wait();
    dependents_launch();

    /* 2. x of stage c; that of LAG stages ago has come */
    for (uint32_t c = 0; c < stages + LAG; c++) {
        if (c < stages) {
            if (c >= STAGES) {
                mbarrier_wait(ring.empty + c % STAGES, (c / STAGES - 1) & 1);
                if (threadIdx.x == 0)
                    bring_weights<W, STAGE>(q, at(c), ring.full + c % STAGES, c, first, groups);
            }
            uint16_t *to = (uint16_t *)at(c) + place;
            if (TOKENS >= (int)LINES || row < TOKENS)
#pragma unroll
                for (uint32_t i = 0; i < TILES; i++)
                    if (c * TILES + i < tiles)
#pragma unroll
                        for (uint32_t j = 0; j < COPIES; j++)
                            cp_async_16(to + i * TOKENS * TILE + j * LINES * TILE,
                                        x + i * TILE + j * lines, j * LINES < rows_left);
            x += TILES * TILE;
        }
        cp_async_commit();
        if (c >= LAG) {
            cp_async_wait<LAG>();
            if (packed<W>::MINIMUM) {
                __syncwarp(); /* of a piece's four chunks each has been copied by its own lane */
                sum_pieces<A, STAGE, TOKENS>(at(c - LAG),
                                             min((uint32_t)TILES, tiles - (c - LAG) * TILES));
            }
            fence_async();
            mbarrier_arrive(ring.full + (c - LAG) % STAGES);
        }
    }
    cp_async_wait<0>();
}

/* ---- multiplying ---- */

/* Scales and minima of a thread's two features. */
struct two_scales {
    float scale[2], minimum[2];
};

/* tile, half: of the stage; step: of the half. */
template <int A, int W, class STAGE>
static __device__ __forceinline__ two_scales scales_of(const struct packed_product &q,
                                                       const unsigned char *stage, uint32_t group,
                                                       const unit_reader<A, W> &reader,
                                                       uint32_t tile, uint32_t half,
                                                       uint32_t step) {
    two_scales s;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        if (W == STORAGE_U4) {
            const float *scales =
                (const float *)(stage + STAGE::SCALES_AT + group * 2 * STAGE::SCALES) +
                ((tile * TILE + half * PIECE) >> q.group_bits) * PACKED_FEATURES + reader.row +
                i * 8;
            s.scale[i] = scales[0];
            s.minimum[i] =
                __fmul_rn((q.zeros ? scales[STAGE::SCALES / 4] : q.zero) - 8.0f, s.scale[i]);
        } else {
            reader.scale_of(i, half, step, &s.scale[i], &s.minimum[i]);
        }
    }
    return s;
}

/* sums += scale * partial - minimum * (sum of x). x_sums: of this thread's columns. */
template <int TOKENS, bool MINIMUM>
static __device__ __forceinline__ void add_partial(float (&sums)[TOKENS / 2],
                                                   const float (&partial)[TOKENS / 2],
                                                   const two_scales &s, const float *x_sums) {
#pragma unroll
    for (int j = 0; j < TOKENS / 8; j++) {
        const float2 x = MINIMUM ? *(const float2 *)(x_sums + j * 8) : make_float2(0, 0);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float &sum = sums[j * 4 + i];
            sum = __fmaf_rn(s.scale[i / 2], partial[j * 4 + i], sum);
            if (MINIMUM)
                sum = __fmaf_rn(-s.minimum[i / 2], i % 2 ? x.y : x.x, sum);
        }
    }
}

/* A warpgroup that multiplies: 64 features. BY_128: fp8 with scales of 128 x 128. */
template <int A, int W, bool BY_128, int TOKENS, class STAGE>
static __device__ __forceinline__ void multiply(const struct packed_product &q,
                                                const hopper_ring &ring, uint32_t group,
                                                uint32_t n0, uint32_t t0) {
    typedef packed<W> form;
    enum : uint32_t { STAGES = STAGE::STAGES, TILES = form::TILES, STEPS = form::STEPS };
    const struct product &p = q.p;
    const uint32_t all = p.cols / TILE, stages = (all + TILES - 1) / TILES;
    const float *block_scales = BY_128 ? q.scales + (size_t)(n0 / q.scale_rows) * q.stride : NULL;
    float sums[TOKENS / 2] = {}, partial[TOKENS / 2] = {},
                        block_scale = BY_128 ? block_scales[0] : 1, next_scale = 0;
    uint32_t a[2][2][4], sums_at = STAGE::SUMS_AT + threadIdx.x % 4 * 8;
    unit_reader<A, W> reader;
    register_hold(sums_at);

    for (uint32_t c = 0; c < stages; c++) {
        const unsigned char *stage = ring.stages + c % STAGES * STAGE::BYTES;
        const uint32_t tiles = min((uint32_t)TILES, all - c * TILES);
        const float *x_sums = (const float *)(stage + sums_at);
        uint64_t x = wgmma_tile(stage, 0);

        mbarrier_wait(ring.full + c % STAGES, c / STAGES & 1);
        reader.begin(stage + STAGE::UNITS_AT + group * form::UNITS * form::UNIT);
        reader.unpack(0, a[0]);
        for (uint32_t i = 0; i < tiles; i++) {
            const bool last_of_128 = i % 2 || i + 1 == tiles;
            if (BY_128 && i % 2 == 0 && c * TILES + i + 2 < all)
                next_scale = block_scales[(c * TILES + i) / 2 + 1];
#pragma unroll
            for (uint32_t half = 0; half < 2; half++) {
                auto next = [&] {
                    if (half == 0) {
                        reader.unpack(1, a[1]);
                    } else if (i + 1 < tiles) {
                        reader.move();
                        reader.unpack(0, a[0]);
                    }
                };
                auto ask = [&](float(&to)[TOKENS / 2], uint32_t step, bool fresh) {
                    wgmma_shape<A, TOKENS>::registers(
                        to, a[half][step], wgmma_tile_past(x, (half * PIECE + step * 16) * 2),
                        fresh);
                };
                if (STEPS == 0) { /* scales wait for the end of 128 k, or of all */
                    wgmma_fence();
                    ask(BY_128 ? partial : sums, 0, BY_128 && i % 2 == 0 && half == 0);
                    ask(BY_128 ? partial : sums, 1, false);
                    wgmma_commit();
                    next();
                    wgmma_wait<0>();
                    wgmma_hold(BY_128 ? partial : sums);
                    if (BY_128 && half == 1 && last_of_128) {
                        const two_scales s = {{block_scale, block_scale}, {0, 0}};
                        add_partial<TOKENS, false>(sums, partial, s, NULL);
                    }
                } else if (STEPS == 2) {
                    wgmma_fence();
                    ask(partial, 0, true);
                    ask(partial, 1, false);
                    wgmma_commit();
                    const two_scales s =
                        scales_of<A, W, STAGE>(q, stage, group, reader, i, half, 0);
                    next();
                    wgmma_wait<0>();
                    wgmma_hold(partial);
                    add_partial<TOKENS, form::MINIMUM>(sums, partial, s, x_sums + half * TOKENS);
                } else {
#pragma unroll
                    for (uint32_t step = 0; step < 2; step++) {
                        wgmma_fence();
                        ask(partial, step, true);
                        wgmma_commit();
                        const two_scales s =
                            scales_of<A, W, STAGE>(q, stage, group, reader, i, half, step);
                        if (step == 1)
                            next();
                        wgmma_wait<0>();
                        wgmma_hold(partial);
                        add_partial<TOKENS, false>(sums, partial, s, NULL);
                    }
                }
            }
            x = wgmma_tile_past(x, STAGE::X_TILE);
            x_sums += 2 * TOKENS;
            if (BY_128 && last_of_128)
                block_scale = next_scale;
        }
        __syncwarp(); /* the stage has been read */
        if (threadIdx.x % 32 == 0)
            mbarrier_arrive(ring.empty + c % STAGES);
    }
    if (STEPS == 0 && !BY_128 && q.scales) {
        const uint32_t n = n0 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
        const float scale[2] = {q.scales[(size_t)(n / q.scale_rows) * q.stride],
                                q.scales[(size_t)((n + 8) / q.scale_rows) * q.stride]};
#pragma unroll
        for (int i = 0; i < TOKENS / 2; i++)
            sums[i] = __fmul_rn(sums[i], scale[i % 4 / 2]);
    }
    put_sums<A, TOKENS>(p, sums, n0, t0);
}

template <int A, int W, bool BY_128, int TOKENS, int GROUPS, int BLOCKS>
static __global__ __launch_bounds__(128 * (GROUPS + 1),
                                    BLOCKS) void linear_packed_kernel(struct packed_product q) {
#if defined(PTX_SM90A) /* elsewhere nobody launches it */
    typedef packed_stage<W, TOKENS, GROUPS, BLOCKS> stage;
    DYNAMIC_SHARED(area);
    const hopper_ring ring = ring_of<stage::STAGES, stage::BARRIERS>(area);
    const uint32_t first = blockIdx.y * GROUPS, t0 = blockIdx.x * TOKENS,
                   groups = min((uint32_t)GROUPS, q.p.features / PACKED_FEATURES - first);
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < stage::STAGES; s++) {
            mbarrier_init(ring.full + s, PRODUCERS + 1);
            mbarrier_init(ring.empty + s, 4 * groups);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < PRODUCERS) {
        if (GROUPS == 2)
            registers_shrink<40>();
        bring<A, W, TOKENS, stage>(q, ring, first, groups, t0);
    } else {
        const uint32_t group = threadIdx.x / 128 - 1;
        if (GROUPS == 2)
            registers_grow<232>();
        if (group < groups)
            multiply<A, W, BY_128, TOKENS, stage>(q, ring, group, (first + group) * PACKED_FEATURES,
                                                  t0);
    }
#endif
}

/* ---- launching ---- */

template <int A, int W, bool BY_128, int TOKENS, int GROUPS, int BLOCKS>
static void packed_launch(struct stream *s, const struct packed_product &q) {
    typedef packed_stage<W, TOKENS, GROUPS, BLOCKS> stage;
    const launch_shape launch = {
        dim3(blocks_for(q.p.rows, TOKENS), blocks_for(q.p.features / PACKED_FEATURES, GROUPS)),
        dim3(stage::THREADS), stage::SHARED, device_of(s)->dependent_launch};
    LAUNCH((linear_packed_kernel<A, W, BY_128, TOKENS, GROUPS, BLOCKS>), launch, cuda_stream_of(s),
           q);
}

/* Two blocks an SM for few rows. Beyond, two warpgroups share x, and blocks have 128 rows, where
 * that leaves blocks enough. */
template <int A, int W, bool BY_128>
static void packed_shape(struct stream *s, const struct packed_product &q) {
    const uint64_t sms = (uint64_t)device_of(s)->sm_count,
                   pairs = blocks_for(q.p.features / PACKED_FEATURES, 2);
    auto enough = [&](uint32_t rows) { return pairs * blocks_for(q.p.rows, rows) * 3 >= sms * 2; };
    if (q.p.rows <= 8)
        packed_launch<A, W, BY_128, 8, 1, 2>(s, q);
    else if (q.p.rows <= 32)
        packed_launch<A, W, BY_128, 32, 1, 2>(s, q);
    else if (q.p.rows > 64 && enough(128))
        packed_launch<A, W, BY_128, 128, 2, 1>(s, q);
    else if (enough(64))
        packed_launch<A, W, BY_128, 64, 2, 1>(s, q);
    else
        packed_launch<A, W, BY_128, 64, 1, 1>(s, q);
}

template <int A, int W>
static void packed_scaled(struct stream *s, const struct packed_product &q, bool by_128) {
    if (W == STORAGE_F8_E4M3 && by_128)
        packed_shape<A, W, W == STORAGE_F8_E4M3>(s, q);
    else
        packed_shape<A, W, false>(s, q);
}

void linear_packed(struct stream *s, const struct product &p, const struct matrix_segment &segment,
                   enum storage_type type) {
    const bool grouped = segment.scale_cols && segment.scale_cols < p.cols;
    const uint32_t bits = segment.scale_cols == 32 ? 5 : segment.scale_cols == 64 ? 6 : 7;
    const struct packed_product q = {p,
                                     segment.scales,
                                     segment.zeros,
                                     segment.scale_rows ? segment.scale_rows : 1,
                                     segment.scale_stride,
                                     type == STORAGE_U4 ? segment.scale_cols : 0,
                                     bits,
                                     segment.zero};
    if (s->dev->activation_type == STORAGE_BF16)
        WITH_PACKED(type, W, (packed_scaled<STORAGE_BF16, W>(s, q, grouped)));
    else
        WITH_PACKED(type, W, (packed_scaled<STORAGE_F16, W>(s, q, grouped)));
}
