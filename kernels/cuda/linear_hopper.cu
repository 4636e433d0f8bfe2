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
 * From 64 rows on two blocks with the same rows and neighbouring features are a cluster: x comes once
 * from L2 for both (linear_hopper.cuh).
 *
 * Each output is one chain of wgmma over k in ascending order, 16 at a time, whatever the block's
 * shape and the number of rows: the bits of a row do not depend on the others. Of output rows, where
 * there are few features, k is cut into two or four splits, each a chain of its own in a block of its
 * own, and the splits are added up in ascending order (put_splits). Tolerance: ops.h with lanes = 1.
 *
 * Cost: weights once for 256 rows; x from L2 once for 64 to 256 features. Registers: 8 to 128 sums
 * a thread.
 */
#include "kernels/cuda/linear_hopper.cuh"

/* GROUPS warpgroups that multiply, each with 64 features of TOKENS rows. */
template <int TOKENS, int GROUPS, int STAGES> struct hopper_shape {
    enum : unsigned {
        THREADS = PRODUCERS + 128 * GROUPS,
        WEIGHTS = GROUPS * TILE_BYTES,
        BRING = TOKENS == NORMED_ROWS ? 2 : 1, /* threads that bring weights */
        STAGE = WEIGHTS + TOKENS * TILE * 2,
        /* of bytes: full and empty of each stage; behind them what put_rope exchanges */
        PAIRS = 1024,
        BARRIERS = PAIRS + (TOKENS == NORMED_ROWS ? 1024 : 0),
        BYTES = BARRIERS + STAGES * STAGE + 1024 /* tiles begin at a multiple of it */
    };
    static_assert(BYTES <= 227 * 1024, "a block's shared memory");
    static_assert(GROUPS * TOKENS * 256 <= STAGES * STAGE, "sums of a split");
    static_assert(STAGE % 1024 == 0 && WEIGHTS % 1024 == 0, "where tiles begin");
    static_assert(2 * STAGES * sizeof(uint64_t) <= PAIRS, "full and empty");
};

/* The warpgroup that copies: one thread, or two, the weights, all of them x. NORMED: x is the residual. */
template <int A, int TOKENS, int GROUPS, int STAGES, bool NORMED>
static __device__ __forceinline__ void bring(const struct product &p, const hopper_ring &ring,
                                             const hopper_cluster &cluster, uint32_t first_tile,
                                             uint32_t groups, uint32_t t0) {
    typedef hopper_shape<TOKENS, GROUPS, STAGES> shape;
    constexpr bool CAN_ROPE = TOKENS == NORMED_ROWS;
    enum : uint32_t {
        LAG = STAGES / 2,
        LINES = PRODUCERS / 8,
        COPIES = (TOKENS + LINES - 1) / LINES
    };
    const uint32_t all = p.cols / TILE, first = cluster.first_of(all),
                   chunks = cluster.end_of(all) - first,
                   share = cluster.size > 1 ? TOKENS / 2 : TOKENS,
                   copies = cluster.size > 1 ? COPIES / 2 : COPIES,
                   row = cluster.rank * share + threadIdx.x / 8, chunk = threadIdx.x % 8;
    /* Where rows may be rotated two threads bring a tile, half of its features each: of a head of 128 they
     * come from the head's two tiles, the first or the second half of both. */
    const bool brings = threadIdx.x == 0 || (CAN_ROPE && threadIdx.x == 32),
               second = threadIdx.x != 0,
               halves = CAN_ROPE && p.rope.angles && p.rope.kv.head_dim == 2 * TILE;
    const char *w[GROUPS];
#pragma unroll
    for (uint32_t g = 0; g < GROUPS; g++) {
        const uint32_t tile = first_tile + g;
        const uint32_t place = p.gated ? tile / 2 : halves ? (tile & ~1u) + second : tile;
        const size_t at = ((size_t)place * all + first) * TILE_BYTES;
        w[g] = (const char *)(p.gated && tile % 2 ? p.up : p.w) + at;
        if (CAN_ROPE)
            w[g] += (halves ? tile % 2 : second) * (TILE_BYTES / 2);
    }
    const uint16_t *x =
        (const uint16_t *)p.x + (size_t)(t0 + row) * p.cols + first * TILE + chunk * 8;
    const uint32_t rows_left = p.rows > t0 + row ? p.rows - t0 - row : 0;
    const size_t lines = (size_t)LINES * p.cols;
    const uint32_t place = swizzled_chunk(row, chunk);

    auto weights = [&](uint32_t c) {
        unsigned char *to = ring.stages + c % STAGES * shape::STAGE;
        if (CAN_ROPE) {
            mbarrier_arrive_expect(ring.full + c % STAGES, TILE_BYTES / 2);
            copy_bulk(to + second * (TILE_BYTES / 2), w[0] + (size_t)c * TILE_BYTES, TILE_BYTES / 2,
                      ring.full + c % STAGES);
            return;
        }
        mbarrier_arrive_expect(ring.full + c % STAGES,
                               groups * TILE_BYTES + (TOKENS - share) * TILE * 2);
#pragma unroll
        for (uint32_t g = 0; g < GROUPS; g++)
            if (g < groups)
                copy_bulk(to + g * TILE_BYTES, w[g] + (size_t)c * TILE_BYTES, TILE_BYTES,
                          ring.full + c % STAGES);
    };

    /* 1. weights may be asked for before the kernel ahead has ended, its results only after */
    if (brings)
        for (uint32_t c = 0; c < STAGES && c < chunks; c++)
            weights(c);
    dependency_wait();
    dependents_launch();

    /* 2. x of stage c; copies of LAG stages ago have come */
    if constexpr (NORMED) {
        bring_normed<A>(
            p, first, chunks, t0,
            [&](uint32_t c) {
                if (c >= STAGES) {
                    mbarrier_wait(ring.empty + c % STAGES, (c / STAGES - 1) & 1);
                    if (brings)
                        weights(c);
                }
                return (uint16_t *)(ring.stages + c % STAGES * shape::STAGE + shape::WEIGHTS);
            },
            [&](uint32_t c) {
                fence_async();
                mbarrier_arrive(ring.full + c % STAGES);
            });
    } else {
        for (uint32_t c = 0; c < chunks + LAG; c++) {
            if (c < chunks) {
                if (c >= STAGES) {
                    mbarrier_wait(ring.empty + c % STAGES, (c / STAGES - 1) & 1);
                    if (brings)
                        weights(c);
                }
                uint16_t *to =
                    (uint16_t *)(ring.stages + c % STAGES * shape::STAGE + shape::WEIGHTS) + place;
                if (TOKENS >= (int)LINES || row < TOKENS)
#pragma unroll
                    for (uint32_t i = 0; i < COPIES; i++)
                        if (COPIES == 1 || i < copies)
                            cp_async_16(to + i * LINES * TILE, x + i * lines,
                                        i * LINES < rows_left);
                x += TILE;
            }
            cp_async_commit();
            if (c >= LAG) {
                cp_async_wait<LAG>();
                fence_async();
                const uint32_t stage = (c - LAG) % STAGES, lane = threadIdx.x % 32;
                if (cluster.size > 1) { /* pass i of this warp, by lane i */
                    __syncwarp();
                    if (lane < copies)
                        cluster.give_rows(ring.stages + stage * shape::STAGE + shape::WEIGHTS +
                                              (row - lane / 8 + lane * LINES) * (TILE * 2),
                                          ring.full + stage);
                }
                mbarrier_arrive(ring.full + stage);
            }
        }
        cp_async_wait<0>();
    }
}

/* A warpgroup that multiplies: 64 features. */
template <int A, int TOKENS, int GROUPS, int STAGES>
static __device__ __forceinline__ void multiply(const struct product &p, const hopper_ring &ring,
                                                const hopper_cluster &cluster, uint32_t group,
                                                uint32_t n0, uint32_t t0) {
    typedef hopper_shape<TOKENS, GROUPS, STAGES> shape;
    const uint32_t all = p.cols / TILE, chunks = cluster.end_of(all) - cluster.first_of(all);
    const peer_barriers peer = cluster.peer_of(ring.empty);
    uint32_t at = 0, phase = 0, before = 0; /* in the ring */
    const uint64_t first_w = wgmma_tile(ring.stages + group * TILE_BYTES, 0),
                   first_x = wgmma_tile(ring.stages + shape::WEIGHTS, 0);
    const bool ropes = TOKENS == NORMED_ROWS && p.rope.angles;
    rope_ahead ahead = {};
    if (ropes) {
        dependency_wait();
        ahead = rope_ahead_of<A>(p, n0 / TILE, t0);
    }
    float sums[TOKENS / 2] = {};
    wgmma_hold(sums);
    for (uint32_t c = 0; c < chunks; c++) {
        const uint64_t w = wgmma_tile_past(first_w, at * shape::STAGE),
                       x = wgmma_tile_past(first_x, at * shape::STAGE);
        mbarrier_wait(ring.full + at, phase);
        wgmma_fence();
#pragma unroll
        for (uint32_t k = 0; k < TILE; k += 16)
            wgmma_shape<A, TOKENS>::tiles(sums, wgmma_tile_past(w, k * 2),
                                          wgmma_tile_past(x, k * 2), false);
        wgmma_commit();
        wgmma_wait<1>();
        if (c && threadIdx.x % 32 == 0) /* the stage before has been read */
            cluster.arrive_empty(ring.empty, peer, before);
        before = at;
        if (++at == STAGES) {
            at = 0;
            phase ^= 1;
        }
    }
    wgmma_wait<0>();
    wgmma_hold(sums);
    if (ropes) {
        auto put_four = [&](const float *four, uint32_t) {
            put_rope<A>(p, (uint32_t *)((unsigned char *)ring.full + shape::PAIRS), four, ahead,
                        n0 / TILE);
        };
        if (cluster.has_splits())
            add_splits<TOKENS>(
                ring.stages, sums, group, [] {}, put_four);
        else
            put_four(sums, 0);
    } else if (cluster.has_splits())
        put_splits<A, TOKENS, TOKENS == NORMED_ROWS>(p, ring.stages, sums, group, n0, t0);
    else
        put_sums<A, TOKENS, TOKENS == NORMED_ROWS>(p, sums, n0, t0);
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
    const hopper_cluster cluster = hopper_cluster::of_block<TOKENS >= 64>();
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < STAGES; s++) {
            mbarrier_init(ring.full + s, PRODUCERS + shape::BRING);
            mbarrier_init(ring.empty + s, 4 * groups * cluster.size);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    cluster.synchronize();
    if (threadIdx.x < PRODUCERS) {
        if (GROUPS == 2 && BLOCKS == 1)
            registers_shrink<40>();
        if (TOKENS == NORMED_ROWS && p.norm.squares)
            bring<A, TOKENS, GROUPS, STAGES, TOKENS == NORMED_ROWS>(p, ring, cluster, first_tile,
                                                                    groups, t0);
        else
            bring<A, TOKENS, GROUPS, STAGES, false>(p, ring, cluster, first_tile, groups, t0);
        cluster.pass_splits();
        if (TOKENS == NORMED_ROWS)
            pass_rope(p);
    } else {
        const uint32_t group = threadIdx.x / 128 - 1;
        if (GROUPS == 2 && BLOCKS == 1) /* of two blocks an SM none has as many */
            registers_grow<232>();
        if (group < groups)
            multiply<A, TOKENS, GROUPS, STAGES>(p, ring, cluster, group,
                                                (first_tile + group) * TILE, t0);
        else
            cluster.pass_splits();
    }
    cluster.synchronize();
#endif
}

template <int A, int TOKENS, int GROUPS, int STAGES>
static void hopper_launch(struct stream *s, const struct product &p, uint32_t splits) {
    typedef hopper_shape<TOKENS, GROUPS, STAGES> shape;
    enum { BLOCKS = TOKENS <= 64 ? 2 : 1 };
    launch_shape launch = {
        dim3(blocks_for(p.rows, TOKENS), blocks_for(p.features / TILE, GROUPS), splits),
        dim3(shape::THREADS), shape::BYTES, device_of(s)->dependent_launch};
    if (TOKENS >= 64 && p.features / TILE % (2 * GROUPS) == 0)
        launch.cluster_y = 2;
    launch.cluster_z = splits;
    LAUNCH((linear_hopper_kernel<A, TOKENS, GROUPS, STAGES, BLOCKS>), launch, cuda_stream_of(s), p);
}

/* Up to 64 rows: two blocks an SM, or a block beside one of the next kernel. Beyond, two
 * warpgroups share x where that leaves blocks enough. */
template <int A>
static void linear_hopper_of(struct stream *s, const struct product &p, uint32_t splits) {
    const uint64_t sms = (uint64_t)device_of(s)->sm_count, pairs = p.features / TILE / 2 * splits;
    const uint32_t tokens = p.rows <= 64 ? 64 : p.rows <= 128 ? 128 : 256;
    const bool wide = pairs * blocks_for(p.rows, tokens) * 3 >= sms * 2,
               half = pairs * blocks_for(p.rows, 128) * 9 >= sms * 4;
    if (p.rows <= 8)
        hopper_launch<A, 8, 1, 11>(s, p, splits);
    else if (p.rows <= 16)
        hopper_launch<A, 16, 1, 10>(s, p, splits);
    else if (p.rows <= 32)
        hopper_launch<A, 32, 1, 8>(s, p, splits);
    else if (p.rows <= 64 && !wide)
        hopper_launch<A, 64, 1, 6>(s, p, splits);
    else if (p.rows <= 64)
        hopper_launch<A, 64, 2, 4>(s, p, splits);
    else if (p.rows > 128 && wide)
        hopper_launch<A, 256, 2, 4>(s, p, splits);
    else if (half)
        hopper_launch<A, 128, 2, 6>(s, p, splits);
    else
        hopper_launch<A, 128, 1, 4>(s, p, splits);
}

void linear_hopper(struct stream *s, const struct product &p, uint32_t class_rows) {
    with_splits(p, class_rows, [&](const struct product &some, uint32_t splits) {
        if (s->dev->activation_type == STORAGE_BF16)
            linear_hopper_of<STORAGE_BF16>(s, some, splits);
        else
            linear_hopper_of<STORAGE_F16>(s, some, splits);
    });
}
