/*
 * linear_hopper.cu - out[t, n] = sum_k x[t, k] * w[n, k] + bias[n] on sm_90a by wgmma, for any
 * number of rows, with weights that were put into tiles when they were loaded.
 *
 * Tiles (cuda_pack): weights [features, cols] of 16-bit types, both multiples of 64, become
 * [features / 64, cols / 64] tiles of 64 x 64 values, 8192 bytes each, as products read them
 * (ptx_hopper.cuh: 128-byte swizzle): one bulk copy a tile. A tile takes the place of its values:
 * 64 rows of a matrix have the same bytes before and after, in another order.
 *
 * A block makes 64 or 128 features (one or two warpgroups, each its 64 as the rows of wgmma) of
 * 8 to 256 of the step's rows (its columns). A third warpgroup brings the operands through a ring
 * of stages of 64 k: weights by bulk copies, asked for before the kernel ahead has ended, and x by
 * cp.async in the same swizzle, rows that are not there as zeros. A stage's `full` ends a phase
 * when the bytes of the weights and all who copied x have arrived, its `empty` when all warps that
 * multiplied have.
 *
 * Each output is one chain of wgmma over k in ascending order, 16 at a time, whatever the block's
 * shape and the number of rows: the bits of a row do not depend on the others, and output class
 * and prompt class have the same. Tolerance: ops.h with lanes = 1.
 *
 * Cost: weights once for 256 rows; x from L2 once for 64 or 128 features. Registers: 8 to 128 sums
 * a thread.
 */
#include "kernels/cuda/linear_hopper.cuh"

/* GROUPS warpgroups that multiply, each with 64 features of TOKENS rows. */
template <int TOKENS, int GROUPS, int STAGES> struct hopper_shape {
    enum : unsigned {
        THREADS = PRODUCERS + 128 * GROUPS,
        WEIGHTS = GROUPS * TILE_BYTES,
        STAGE = WEIGHTS + TOKENS * TILE * 2,
        BARRIERS = 1024,                         /* of bytes: full and empty of each stage */
        BYTES = BARRIERS + STAGES * STAGE + 1024 /* tiles begin at a multiple of it */
    };
    static_assert(BYTES <= 227 * 1024, "a block's shared memory");
};

/* The warpgroup that copies: thread 0 the weights, all of them x. */
template <int TOKENS, int GROUPS, int STAGES>
static __device__ __forceinline__ void bring(const struct product &p, const hopper_ring &ring,
                                             uint32_t first_tile, uint32_t groups, uint32_t t0) {
    typedef hopper_shape<TOKENS, GROUPS, STAGES> shape;
    enum : uint32_t {
        LAG = STAGES / 2,
        LINES = PRODUCERS / 8,
        COPIES = (TOKENS + LINES - 1) / LINES
    };
    const uint32_t chunks = p.cols / TILE, row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    const char *w = (const char *)p.w + (size_t)first_tile * chunks * TILE_BYTES;
    const uint16_t *x = (const uint16_t *)p.x + (size_t)(t0 + row) * p.cols + chunk * 8;
    const uint32_t rows_left = p.rows > t0 + row ? p.rows - t0 - row : 0;
    const size_t lines = (size_t)LINES * p.cols;
    const uint32_t place = swizzled_chunk(row, chunk);

    auto weights = [&](uint32_t c) {
        unsigned char *to = ring.stages + c % STAGES * shape::STAGE;
        mbarrier_arrive_expect(ring.full + c % STAGES, groups * TILE_BYTES);
        for (uint32_t g = 0; g < groups; g++)
            copy_bulk(to + g * TILE_BYTES, w + ((size_t)g * chunks + c) * TILE_BYTES, TILE_BYTES,
                      ring.full + c % STAGES);
    };

    /* 1. weights may be asked for before the kernel ahead has ended, its results only after */
    if (threadIdx.x == 0)
        for (uint32_t c = 0; c < STAGES && c < chunks; c++)
            weights(c);
    dependency_wait();
    dependents_launch();

    /* 2. x of stage c; that of LAG stages ago has come */
    for (uint32_t c = 0; c < chunks + LAG; c++) {
        if (c < chunks) {
            if (c >= STAGES) {
                mbarrier_wait(ring.empty + c % STAGES, (c / STAGES - 1) & 1);
                if (threadIdx.x == 0)
                    weights(c);
            }
            uint16_t *to =
                (uint16_t *)(ring.stages + c % STAGES * shape::STAGE + shape::WEIGHTS) + place;
            if (TOKENS >= (int)LINES || row < TOKENS)
#pragma unroll
                for (uint32_t i = 0; i < COPIES; i++)
                    cp_async_16(to + i * LINES * TILE, x + i * lines, i * LINES < rows_left);
            x += TILE;
        }
        cp_async_commit();
        if (c >= LAG) {
            cp_async_wait<LAG>();
            fence_async();
            mbarrier_arrive(ring.full + (c - LAG) % STAGES);
        }
    }
    cp_async_wait<0>();
}

/* A warpgroup that multiplies: 64 features. */
template <int A, int TOKENS, int GROUPS, int STAGES>
static __device__ __forceinline__ void multiply(const struct product &p, const hopper_ring &ring,
                                                uint32_t group, uint32_t n0, uint32_t t0) {
    typedef hopper_shape<TOKENS, GROUPS, STAGES> shape;
    const uint32_t chunks = p.cols / TILE;
    float sums[TOKENS / 2] = {};
    wgmma_hold(sums);
    for (uint32_t c = 0; c < chunks; c++) {
        const unsigned char *stage = ring.stages + c % STAGES * shape::STAGE;
        mbarrier_wait(ring.full + c % STAGES, c / STAGES & 1);
        wgmma_fence();
#pragma unroll
        for (uint32_t k = 0; k < TILE; k += 16)
            wgmma_shape<A, TOKENS>::tiles(sums, wgmma_tile(stage + group * TILE_BYTES, k),
                                          wgmma_tile(stage + shape::WEIGHTS, k), false);
        wgmma_commit();
        wgmma_wait<1>();
        if (c && threadIdx.x % 32 == 0) /* the stage before has been read */
            mbarrier_arrive(ring.empty + (c - 1) % STAGES);
    }
    wgmma_wait<0>();
    wgmma_hold(sums);
    put_sums<A, TOKENS>(p, sums, n0, t0);
}

/* BLOCKS of them on an SM at a time. */
template <int A, int TOKENS, int GROUPS, int STAGES, int BLOCKS>
static __global__ __launch_bounds__(128 * (GROUPS + 1),
                                    BLOCKS) void linear_hopper_kernel(struct product p) {
#if defined(PTX_SM90A) /* elsewhere nobody launches it */
    typedef hopper_shape<TOKENS, GROUPS, STAGES> shape;
    DYNAMIC_SHARED(area);
    const hopper_ring ring = ring_of<STAGES, shape::BARRIERS>(area);
    const uint32_t first_tile = blockIdx.y * GROUPS, t0 = blockIdx.x * TOKENS,
                   groups = min((uint32_t)GROUPS, p.features / TILE - first_tile);
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < STAGES; s++) {
            mbarrier_init(ring.full + s, PRODUCERS + 1);
            mbarrier_init(ring.empty + s, 4 * groups);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < PRODUCERS) {
        if (GROUPS == 2)
            registers_shrink<40>();
        bring<TOKENS, GROUPS, STAGES>(p, ring, first_tile, groups, t0);
    } else {
        const uint32_t group = threadIdx.x / 128 - 1;
        if (GROUPS == 2)
            registers_grow<232>();
        if (group < groups)
            multiply<A, TOKENS, GROUPS, STAGES>(p, ring, group, (first_tile + group) * TILE, t0);
    }
#endif
}

template <int A, int TOKENS, int GROUPS, int STAGES>
static void hopper_launch(struct stream *s, const struct product &p) {
    typedef hopper_shape<TOKENS, GROUPS, STAGES> shape;
    enum { BLOCKS = TOKENS <= 64 ? 2 : 1 };
    const launch_shape launch = {
        dim3(blocks_for(p.rows, TOKENS), blocks_for(p.features / TILE, GROUPS)),
        dim3(shape::THREADS), shape::BYTES, device_of(s)->dependent_launch};
    LAUNCH((linear_hopper_kernel<A, TOKENS, GROUPS, STAGES, BLOCKS>), launch, cuda_stream_of(s), p);
}

/* Up to 64 rows: two blocks an SM, or a block beside one of the next kernel. Beyond, two
 * warpgroups share x where that leaves blocks enough. */
template <int A> static void linear_hopper_of(struct stream *s, const struct product &p) {
    const uint64_t sms = (uint64_t)device_of(s)->sm_count, pairs = p.features / TILE / 2;
    const uint32_t tokens = p.rows <= 64 ? 64 : p.rows <= 128 ? 128 : 256;
    const bool wide = pairs * blocks_for(p.rows, tokens) * 3 >= sms * 2,
               half = pairs * blocks_for(p.rows, 128) * 9 >= sms * 4;
    if (p.rows <= 8)
        hopper_launch<A, 8, 1, 11>(s, p);
    else if (p.rows <= 16)
        hopper_launch<A, 16, 1, 10>(s, p);
    else if (p.rows <= 32)
        hopper_launch<A, 32, 1, 8>(s, p);
    else if (p.rows <= 64 && !wide)
        hopper_launch<A, 64, 1, 6>(s, p);
    else if (p.rows <= 64)
        hopper_launch<A, 64, 2, 4>(s, p);
    else if (p.rows > 128 && wide)
        hopper_launch<A, 256, 2, 4>(s, p);
    else if (half)
        hopper_launch<A, 128, 2, 6>(s, p);
    else
        hopper_launch<A, 128, 1, 4>(s, p);
}

void linear_hopper(struct stream *s, const struct product &p) {
    if (s->dev->activation_type == STORAGE_BF16)
        linear_hopper_of<STORAGE_BF16>(s, p);
    else
        linear_hopper_of<STORAGE_F16>(s, p);
}
