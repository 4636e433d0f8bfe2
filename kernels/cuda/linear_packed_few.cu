/*
 * linear_packed_few.cu - the product of linear_packed.cu with codes of four bits (int4 with groups, Q4_0,
 * Q4_K, MXFP4) for up to eight rows: as many instructions as there must be.
 *
 * A block makes 64 features. It brings its x, all of its split's, before it multiplies: eight warps copy
 * it, or norm it on its way where it is the residual, and sum it up where the type has minima. Then a
 * warpgroup multiplies (multiply_fours) what one thread brings through the ring of stages, which has
 * been asked for before the kernel ahead had ended. So nobody brings x while codes are unpacked, which
 * is what these products wait for. What bringing x takes passes while the ring fills.
 *
 * The order of sums is that of linear_packed.cu. Rotation of heads of 128: the tiles of a head are
 * neighbours in a cluster, and show each other their sums.
 *
 * Shared memory: 64 KB of x for k up to 4096 (WHOLE_STAGES), a ring of 3 to 5 stages, two blocks an SM.
 * Launch: 256 threads; grid (1, features / 64, splits).
 */
#include "kernels/cuda/linear_packed_fours.cuh"

enum : uint32_t { WHOLE_STAGES = 16, FEW_WARPS = 8 };

template <int W> struct few_stage {
    typedef packed<W> form;
    enum : unsigned {
        TOKENS = NORMED_ROWS,
        FEATURE_GROUPS = 1,
        PIECES = form::TILES * 2,
        X_TILE = TOKENS * TILE * 2,
        X_STAGE = form::TILES * X_TILE,
        SUMS_STAGE = form::MINIMUM ? PIECES * TOKENS * 4 : 0,
        SUMS = WHOLE_STAGES * SUMS_STAGE,      /* of x, right ahead of the ring */
        WHOLE = WHOLE_STAGES * X_STAGE + SUMS, /* x and its sums */
        UNITS_AT = 0,
        SCALES = W == STORAGE_U4 ? PIECES * PACKED_FEATURES * 4 : 0, /* and as many zeros */
        SCALES_AT = form::UNITS * form::UNIT,
        SUMS_AT = 0,
        BYTES = SCALES_AT + 2 * SCALES,
        /* of bytes: full and empty of each stage, the rows' factors, what neighbours exchange */
        FACTORS = 512,
        PAIRS = 1024,
        BARRIERS = PAIRS + 2048,
        ROOM = 113 * 1024 - BARRIERS - 1024 - WHOLE,
        STAGES = ROOM / BYTES,
        SHARED = BARRIERS + 1024 + WHOLE + STAGES * BYTES
    };
    static_assert(STAGES >= 3, "a ring");
    static_assert(TOKENS * 256 <= STAGES * BYTES, "sums of a split");
};

/* Whether the tiles of a head are neighbours in a cluster. */
static __host__ __device__ __forceinline__ bool rotates_with_neighbour(const struct product &p) {
    return p.rope.angles && p.rope.kv.head_dim == 2 * TILE;
}

/* ---- bringing x ---- */

/* What a warp brings: of the stages warp and warp + FEW_WARPS a chunk of 8 values a lane, of each row. */
struct whole_place {
    uint32_t chunk, first, count; /* tiles of the split: its first, their number */
    __device__ __forceinline__ uint32_t tile(uint32_t i) const {
        return (i * FEW_WARPS + threadIdx.x / 32) * 4 + threadIdx.x % 32 / 8;
    }
    __device__ __forceinline__ bool there(uint32_t i) const {
        return tile(i) < count;
    }
    /* of a row of all k */
    __device__ __forceinline__ size_t from(uint32_t i) const {
        return (size_t)(first + tile(i)) * TILE + chunk * 8;
    }
    __device__ __forceinline__ uint32_t to(uint32_t i, uint32_t row) const {
        return tile(i) * NORMED_ROWS * TILE + swizzled_chunk(row, chunk);
    }
};
enum : uint32_t { WHOLE_EACH = WHOLE_STAGES / FEW_WARPS };

template <int A>
static __device__ __forceinline__ void copy_whole(const struct product &p, const whole_place &at,
                                                  uint16_t *x) {
    dependency_wait();
    dependents_launch();
#pragma unroll
    for (uint32_t i = 0; i < WHOLE_EACH; i++)
#pragma unroll
        for (uint32_t row = 0; row < NORMED_ROWS; row++)
            if (at.there(i))
                cp_async_16(x + at.to(i, row),
                            (const uint16_t *)p.x + (size_t)row * p.cols + at.from(i),
                            row < p.rows);
    cp_async_commit();
    cp_async_wait<0>();
}

/* factors: room for those of the rows. Weights of the norm come, and rows that are not there become zeros,
 * before the kernel ahead has ended. */
template <int A>
static __device__ __forceinline__ void norm_whole(const struct product &p, const whole_place &at,
                                                  uint16_t *x, float *factors) {
    enum : uint32_t { AT_ONCE = 4 };
    const uint32_t warp = threadIdx.x / 32, groups = p.cols / NORM_GROUP;
    float weights[WHOLE_EACH][8] = {}, h[WHOLE_EACH][AT_ONCE][8];
#pragma unroll
    for (uint32_t i = 0; i < WHOLE_EACH; i++) {
        if (!at.there(i))
            continue;
        values<STORAGE_F32>::get8(p.norm.weight + at.from(i), weights[i]);
#pragma unroll
        for (uint32_t j = 0; j < 8; j++)
            weights[i][j] += p.norm.weight_offset;
        for (uint32_t row = p.rows; row < NORMED_ROWS; row++)
            *(uint4 *)(x + at.to(i, row)) = make_uint4(0, 0, 0, 0);
    }
    dependency_wait();
    dependents_launch();
    auto ask = [&](uint32_t first) {
#pragma unroll
        for (uint32_t r = 0; r < AT_ONCE; r++)
#pragma unroll
            for (uint32_t i = 0; i < WHOLE_EACH; i++)
                if (at.there(i) && first + r < p.rows)
                    values<STORAGE_F32>::get8(
                        (const float *)p.x + (size_t)(first + r) * p.cols + at.from(i), h[i][r]);
    };
    ask(0);
    if (warp < p.rows) {
        const float total = total_squares(p.norm.squares + (size_t)warp * groups, groups);
        if (threadIdx.x % 32 == 0)
            factors[warp] = norm_scale(total, p.cols, p.norm.eps);
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t first = 0; first < p.rows; first += AT_ONCE) {
        if (first)
            ask(first);
#pragma unroll
        for (uint32_t r = 0; r < AT_ONCE; r++) {
            if (first + r >= p.rows)
                break;
            const float factor = factors[first + r];
#pragma unroll
            for (uint32_t i = 0; i < WHOLE_EACH; i++) {
                float v[8];
                if (!at.there(i))
                    continue;
#pragma unroll
                for (int j = 0; j < 8; j++)
                    v[j] = normed_value(h[i][r][j], factor, weights[i][j]);
                values<A>::set8(x + at.to(i, first + r), v);
            }
        }
    }
}

/* x of the block's split, by all its threads; then everybody may read it. whole: STAGE::WHOLE bytes. */
template <int A, int W, class STAGE>
static __device__ __forceinline__ void bring_whole(const packed_product &q, unsigned char *whole,
                                                   float *factors, uint32_t first, uint32_t tiles) {
    const whole_place at = {threadIdx.x % 8, first, tiles};
    uint16_t *x = (uint16_t *)whole;
    if (q.p.norm.squares)
        norm_whole<A>(q.p, at, x, factors);
    else
        copy_whole<A>(q.p, at, x);
    if (packed<W>::MINIMUM) {
        float4 *sums = (float4 *)(whole + WHOLE_STAGES * STAGE::X_STAGE);
        __syncwarp(); /* what a warp sums its lanes have brought */
#pragma unroll
        for (uint32_t i = 0; i < WHOLE_EACH * 4; i++) {
            const uint32_t tile = (i / 4 * FEW_WARPS + threadIdx.x / 32) * 4 + i % 4;
            if (tile < tiles)
                sum_tile<A, NORMED_ROWS>(x + tile * NORMED_ROWS * TILE,
                                         sums + tile * NORMED_ROWS / 2);
        }
    }
    fence_async();
    __syncthreads();
}

/* ---- sums on their way out ---- */

/* A block's sums, rotated with those that its neighbour has, by all threads that have sums. has: of
 * splits the first, which has them all. Others meet them by one barrier of the cluster. */
template <int A>
static __device__ __forceinline__ void put_rope_of_two(const struct product &p, float4 *pairs,
                                                       const float sums[4], bool has,
                                                       const rope_ahead &ahead, uint32_t tile) {
    const auto place = rope_place_of<true>::of_tile(p, tile);
    const uint32_t mine = threadIdx.x % 128;
    uint32_t own[2] = {0, 0};
    if (has) {
        round_for_rope<A>(p, place, sums, own);
        pairs[mine] = make_float4(__uint_as_float(own[0]), __uint_as_float(own[1]), 0, 0);
    }
    cluster_barrier();
    if (!has)
        return;
    const float4 there = load_of_peer(pairs + mine, cluster_rank() ^ 1);
    const uint32_t other[2] = {__float_as_uint(there.x), __float_as_uint(there.y)};
    put_rotated<A>(p, place, own, other, ahead);
}

/* The warpgroup that multiplies. before, stages: of the split, in 256 k; tiles: of all k. */
template <int A, int W>
static __device__ __forceinline__ void multiply_few(const packed_product &q,
                                                    const hopper_ring &ring, uint32_t before,
                                                    uint32_t stages, uint32_t tiles) {
    typedef few_stage<W> stage;
    const struct product &p = q.p;
    const hopper_cluster cluster = {1, 0};
    const uint32_t tile = blockIdx.y;
    const bool ropes = p.rope.angles, with_neighbour = rotates_with_neighbour(p);
    float sums[4] = {};
    rope_ahead ahead = {};
    if (ropes)
        ahead = with_neighbour ? rope_ahead_of<A, true>(p, tile, 0)
                               : rope_ahead_of<A, false>(p, tile, 0);
    if (W != STORAGE_U4 || scales_by_piece<W>(q))
        multiply_fours<A, W, true, NORMED_ROWS, stage>(q, ring, cluster, 0, before, stages, tiles,
                                                       sums);
    else
        multiply_fours<A, W, W != STORAGE_U4, NORMED_ROWS, stage>(q, ring, cluster, 0, before,
                                                                  stages, tiles, sums);
    const uint32_t n0 = block_y_again() * PACKED_FEATURES;
    if (!ropes) {
        if (cluster.has_splits())
            put_splits<A, NORMED_ROWS, true>(p, ring.stages, sums, 0, n0, 0);
        else
            put_sums<A, NORMED_ROWS, true>(p, sums, n0, 0);
        return;
    }
    unsigned char *pairs = (unsigned char *)ring.full + stage::PAIRS;
    bool has = true;
    if (cluster.has_splits()) {
        has = false;
        add_splits<NORMED_ROWS>(
            ring.stages, sums, 0, [] {},
            [&](const float four[4], uint32_t) {
                has = true;
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sums[i] = four[i];
            });
    }
    if (with_neighbour)
        put_rope_of_two<A>(p, (float4 *)pairs, sums, has, ahead, n0 / TILE);
    else if (has)
        put_rope<A>(p, (uint32_t *)pairs, sums, ahead, n0 / TILE);
}

template <int A, int W>
static __global__ __launch_bounds__(32 * FEW_WARPS,
                                    2) void linear_packed_few_kernel(struct packed_product q) {
#if defined(PTX_SM90A) /* elsewhere nobody launches it */
    typedef few_stage<W> stage;
    enum : uint32_t { TILES = packed<W>::TILES, STAGES = stage::STAGES };
    DYNAMIC_SHARED(area);
    hopper_ring ring = ring_of<STAGES, stage::BARRIERS>(area);
    unsigned char *whole = ring.stages;
    ring.stages += stage::WHOLE;
    const uint32_t tiles = q.p.cols / TILE, all = (tiles + TILES - 1) / TILES,
                   before = hopper_cluster::first_of(all),
                   stages = hopper_cluster::end_of(all) - before;
    const packed_bases<W, 1> bases(q, blockIdx.y);
    auto weights = [&](uint32_t c) {
        bring_weights<W, stage>(q, bases, ring.stages + c % STAGES * stage::BYTES,
                                ring.full + c % STAGES, before + c, 1, 0);
    };

    /* 1. weights may be asked for before the kernel ahead has ended, its results only after */
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < STAGES; s++) {
            mbarrier_init(ring.full + s, 1);
            mbarrier_init(ring.empty + s, 4);
        }
        mbarrier_init_fence();
        for (uint32_t c = 0; c < STAGES && c < stages; c++)
            weights(c);
    }

    /* 2. x, all of it */
    bring_whole<A, W, stage>(q, whole, (float *)(area + stage::FACTORS), before * TILES,
                             min(stages * TILES, tiles - before * TILES));

    /* 3. a thread brings what is left of the weights, a warpgroup multiplies */
    if (threadIdx.x >= PRODUCERS) {
        multiply_few<A, W>(q, ring, before, stages, tiles);
    } else {
        if (threadIdx.x == 0)
            for (uint32_t c = STAGES; c < stages; c++) {
                mbarrier_wait(ring.empty + c % STAGES, (c / STAGES - 1) & 1);
                weights(c);
            }
        __syncwarp();
        /* barriers of those who have sums */
        hopper_cluster::pass_splits();
        if (rotates_with_neighbour(q.p))
            cluster_barrier();
        else
            pass_rope(q.p);
    }
    if (hopper_cluster::has_splits() || rotates_with_neighbour(q.p))
        cluster_barrier(); /* nobody looks at this block any more */
#endif
}

/* ---- launching ---- */

bool packed_few_takes(enum storage_type type, uint32_t cols, uint32_t splits) {
    const uint32_t stages = blocks_for(cols, TILE * 4);
    return (type == STORAGE_U4 || type == STORAGE_Q4_0 || type == STORAGE_Q4_K ||
            type == STORAGE_MXFP4) &&
           blocks_for(stages, splits) <= WHOLE_STAGES;
}

template <int A, int W>
static void few_launch(struct stream *s, const packed_product &q, uint32_t splits) {
    launch_shape launch = {dim3(1, q.p.features / PACKED_FEATURES, splits), dim3(32 * FEW_WARPS),
                           few_stage<W>::SHARED, device_of(s)->dependent_launch};
    CHECK(q.p.rows <= NORMED_ROWS && packed_few_takes((enum storage_type)W, q.p.cols, splits));
    launch.cluster_y = rotates_with_neighbour(q.p) ? 2 : 1;
    launch.cluster_z = splits;
    LAUNCH((linear_packed_few_kernel<A, W>), launch, cuda_stream_of(s), q);
}

template <int A>
static void few_of_type(struct stream *s, const packed_product &q, enum storage_type type,
                        uint32_t splits) {
    switch (type) {
        STORAGE_CASE(STORAGE_U4, W, (few_launch<A, W>(s, q, splits)))
        STORAGE_CASE(STORAGE_Q4_0, W, (few_launch<A, W>(s, q, splits)))
        STORAGE_CASE(STORAGE_Q4_K, W, (few_launch<A, W>(s, q, splits)))
        STORAGE_CASE(STORAGE_MXFP4, W, (few_launch<A, W>(s, q, splits)))
    default: CHECK_MSG(false, "type %d has no codes of four bits", (int)type);
    }
}

void linear_packed_few(struct stream *s, const packed_product &q, enum storage_type type,
                       uint32_t splits) {
    if (s->dev->activation_type == STORAGE_BF16)
        few_of_type<STORAGE_BF16>(s, q, type, splits);
    else
        few_of_type<STORAGE_F16>(s, q, type, splits);
}
