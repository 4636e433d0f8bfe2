/*
 * linear_hopper.cuh - what the products for sm_90a share (linear_hopper.cu: weights of 16 bits,
 * linear_packed.cu: quantized ones): the ring of stages, x that is normed on its way in, and sums on
 * their way out, to the residual too.
 */
#ifndef KERNELS_CUDA_LINEAR_HOPPER_CUH
#define KERNELS_CUDA_LINEAR_HOPPER_CUH

#include "kernels/cuda/activate.cuh"
#include "kernels/cuda/cache.cuh"
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/pairs.cuh"
#include "kernels/cuda/peers_push.cuh"
#include "kernels/cuda/ptx_cluster.cuh"
#include "kernels/cuda/row_norm.cuh"

enum : uint32_t { TILE = 64, TILE_BYTES = TILE * TILE * 2, PRODUCERS = 128 };

struct hopper_ring {
    uint64_t *full, *empty;
    unsigned char *stages;
};

/* What blocks of a cluster do together.
 *
 * Two, neighbours in features, share x: each brings half of a stage's rows and gives it to the other
 * from shared memory; a stage is empty when both have read it. `rank`: of those `size`.
 *
 * Up to four, neighbours along the grid's z, share k: each sums a split of it, and the splits are added
 * in ascending order (put_splits). */
struct hopper_cluster {
    uint32_t size, rank;
    /* CAN: not for few rows, which are not worth it. */
    template <bool CAN> static __device__ __forceinline__ hopper_cluster of_block() {
        const uint32_t size = CAN ? cluster_y() : 1;
        return {size, CAN ? blockIdx.y % size : 0};
    }
    static __device__ __forceinline__ bool has_splits() {
        return gridDim.z > 1;
    }
    /* Of `chunks` of k, this block's first, and the end. */
    static __device__ __forceinline__ uint32_t first_of(uint32_t chunks) {
        return chunks * blockIdx.z / gridDim.z;
    }
    static __device__ __forceinline__ uint32_t end_of(uint32_t chunks) {
        return chunks * (blockIdx.z + 1) / gridDim.z;
    }
    __device__ __forceinline__ uint32_t neighbour() const {
        return cluster_rank() ^ 1;
    }
    /* All mbarriers are there, or: nobody looks at this block any more. */
    __device__ __forceinline__ void synchronize() const {
        if (size > 1 || has_splits())
            cluster_barrier();
    }
    /* Of threads that have no sums: the barriers of put_splits. */
    static __device__ __forceinline__ void pass_splits() {
        if (has_splits()) {
            cluster_barrier();
            cluster_barrier();
        }
    }
    /* Of a warp, at `empty` of the stage here and there; peer: barriers_of_peer of the first. */
    __device__ __forceinline__ void arrive_empty(uint64_t *empty, const peer_barriers &peer,
                                                 uint32_t stage) const {
        mbarrier_arrive(empty + stage);
        if (size > 1)
            mbarrier_arrive_peer(peer, stage);
    }
    __device__ __forceinline__ peer_barriers peer_of(uint64_t *empty) const {
        return size > 1 ? barriers_of_peer(empty, neighbour()) : peer_barriers{};
    }
    /* 512 bytes, four rows of a tile of x, that this warp has copied. */
    __device__ __forceinline__ void give_rows(const void *rows, uint64_t *full) const {
        copy_to_peer((void *)rows, 512, full, neighbour());
    }
};

template <int STAGES, int BARRIERS>
static __device__ __forceinline__ hopper_ring ring_of(unsigned char *area) {
    const uintptr_t past = (uintptr_t)(area + BARRIERS) % 1024;
    return {(uint64_t *)area, (uint64_t *)area + STAGES,
            area + BARRIERS + (past ? 1024 - past : 0)};
}

/* ---- x that is normed on its way in ---- */

/* Of a warp: the factor of the norm of each lane's row, eight lanes a row, of four rows from `first` on. */
static __device__ __forceinline__ float norm_scale_of_lane(const struct product &p,
                                                           uint32_t first) {
    const uint32_t groups = p.cols / NORM_GROUP;
    float total = 0;
#pragma unroll
    for (uint32_t r = 0; r < 4; r++) {
        if (first + r >= p.rows)
            break;
        const float all = total_squares(p.norm.squares + (size_t)(first + r) * groups, groups);
        total = threadIdx.x % 32 / 8 == r ? all : total;
    }
    return norm_scale(total, p.cols, p.norm.eps);
}

/* The warpgroup that copies, where x is the residual of up to NORMED_ROWS rows: `tiles` of 64 k from
 * tile `first` on, one in a stage, normed, rounded and put where copies would lie. Values and weights of
 * AHEAD tiles are on their way. begin(c) gives where x of stage c is to be, once it may be written; end(c)
 * hands the stage over. The kernel ahead has ended. */
template <int A, class Begin, class End>
static __device__ __forceinline__ void bring_normed(const struct product &p, uint32_t first,
                                                    uint32_t tiles, uint32_t t0, Begin begin,
                                                    End end) {
    enum : uint32_t { AHEAD = 4 };
    const uint32_t row = threadIdx.x / 8, chunk = threadIdx.x % 8,
                   place = swizzled_chunk(row, chunk);
    const bool copies = row < NORMED_ROWS, there = copies && t0 + row < p.rows;
    const float *x = (const float *)p.x + (size_t)(t0 + row) * p.cols + first * TILE + chunk * 8,
                *weight = p.norm.weight + first * TILE + chunk * 8;
    float ahead[AHEAD][8] = {}, weights[AHEAD][8] = {};
    auto bring = [&](uint32_t tile, uint32_t u) {
        if (tile >= tiles || !there)
            return;
        values<STORAGE_F32>::get8(x + tile * TILE, ahead[u]);
        values<STORAGE_F32>::get8(weight + tile * TILE, weights[u]);
    };
#pragma unroll
    for (uint32_t u = 0; u < AHEAD; u++)
        bring(u, u);
    const float scale = norm_scale_of_lane(p, t0 + threadIdx.x / 32 * 4);
    for (uint32_t next = 0; next < tiles; next += AHEAD)
#pragma unroll
        for (uint32_t u = 0; u < AHEAD; u++) {
            const uint32_t tile = next + u;
            if (tile >= tiles)
                break;
            float v[8] = {};
            uint16_t *to = begin(tile);
            if (there)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    v[j] = normed_value(ahead[u][j], scale, weights[u][j] + p.norm.weight_offset);
            if (copies)
                values<A>::set8(to + place, v);
            bring(tile + AHEAD, u);
            end(tile);
        }
}

/* The same where a stage has TILES tiles of 64 k: half of the threads have the even ones, the others the
 * odd ones, so that no warp has more to norm than another. begin(c), end(c): of a stage. */
template <int A, uint32_t TILES, class Begin, class End>
static __device__ __forceinline__ void bring_normed_stages(const struct product &p, uint32_t first,
                                                           uint32_t tiles, uint32_t t0, Begin begin,
                                                           End end) {
    enum : uint32_t { AHEAD = 2, SHARERS = PRODUCERS / (NORMED_ROWS * 8), EACH = TILES / SHARERS };
    static_assert(SHARERS * EACH == TILES, "threads have as many tiles each");
    const uint32_t row = threadIdx.x / 8 % NORMED_ROWS, chunk = threadIdx.x % 8,
                   turn = threadIdx.x / (NORMED_ROWS * 8), place = swizzled_chunk(row, chunk),
                   stages = (tiles + TILES - 1) / TILES;
    const bool there = t0 + row < p.rows;
    const size_t from = (size_t)(first + turn) * TILE + chunk * 8;
    const float *x = (const float *)p.x + (size_t)(t0 + row) * p.cols + from,
                *weight = p.norm.weight + from;
    float ahead[AHEAD][EACH][8] = {}, weights[AHEAD][EACH][8] = {};
    auto bring = [&](uint32_t stage, uint32_t u) {
#pragma unroll
        for (uint32_t i = 0; i < EACH; i++) {
            const uint32_t tile = stage * TILES + i * SHARERS;
            if (tile + turn >= tiles || !there)
                continue;
            values<STORAGE_F32>::get8(x + tile * TILE, ahead[u][i]);
            values<STORAGE_F32>::get8(weight + tile * TILE, weights[u][i]);
        }
    };
#pragma unroll
    for (uint32_t u = 0; u < AHEAD; u++)
        bring(u, u);
    const float scale = norm_scale_of_lane(p, t0 + threadIdx.x / 32 * 4 % NORMED_ROWS);
    for (uint32_t next = 0; next < stages; next += AHEAD)
#pragma unroll
        for (uint32_t u = 0; u < AHEAD; u++) {
            const uint32_t stage = next + u;
            if (stage >= stages)
                break;
            uint16_t *to = begin(stage) + turn * NORMED_ROWS * TILE + place;
#pragma unroll
            for (uint32_t i = 0; i < EACH; i++) {
                float v[8] = {};
                if (there)
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        v[j] = normed_value(ahead[u][i][j], scale,
                                            weights[u][i][j] + p.norm.weight_offset);
                values<A>::set8(to + i * SHARERS * NORMED_ROWS * TILE, v);
            }
            bring(stage + AHEAD, u);
            end(stage);
        }
}

/* The same of a gated product, whose thread has a gate and, 8 rows below, what it gates. */
template <int A, int TOKENS>
static __device__ __forceinline__ void put_gated(const struct product &p, const float *sums,
                                                 uint32_t n0, uint32_t t0) {
    typedef typename values<A>::raw raw;
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, odd = g & 1;
    const uint32_t n = n0 / 2 + threadIdx.x % 128 / 32 * 8 + g;
    const bool pairs = p.out_stride % 2 == 0 && (uintptr_t)p.out % 4 == 0;
    const float bias[2] = {p.bias ? p.bias[n] : 0, p.bias ? p.bias[p.features / 2 + n] : 0};
#pragma unroll
    for (int j = 0; j < TOKENS / 8; j++) {
        const uint32_t t = t0 + j * 8 + lane % 4 * 2;
        float v[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float gate = sums[j * 4 + e], up = sums[j * 4 + 2 + e];
            if (p.bias)
                gate += bias[0], up += bias[1];
            const float2 y = unpack<A>(pack<A>(gate, up));
            v[e] = activate(ACTIVATION_SILU, y.x) * y.y;
        }
        if (pairs) { /* two features of one row, from the lane with the other */
            const float other = __shfl_xor_sync(0xffffffffu, odd ? v[0] : v[1], 4);
            raw *out = (raw *)p.out + (size_t)(t + odd) * p.out_stride + n - odd;
            if (t + odd < p.rows)
                *(uint32_t *)out = odd ? pack<A>(other, v[1]) : pack<A>(v[0], other);
            continue;
        }
#pragma unroll
        for (uint32_t e = 0; e < 2; e++)
            if (t + e < p.rows)
                values<A>::set((raw *)p.out + (size_t)(t + e) * p.out_stride + n, v[e]);
    }
}

static __device__ __forceinline__ residual_four residual_at(const struct product &p, uint32_t n0,
                                                            uint32_t t0) {
    const uint32_t lane = threadIdx.x % 32, n = n0 + threadIdx.x % 128 / 32 * 16 + lane / 4,
                   t = t0 + lane % 4 * 2;
    residual_four four = {};
#pragma unroll
    for (uint32_t i = 0; i < 2; i++)
#pragma unroll
        for (uint32_t e = 0; e < 2; e++)
            if (t + e < p.rows)
                four.x[i][e] = ((const float *)p.out)[(size_t)(t + e) * p.out_stride + n + i * 8];
    return four;
}

/* Sums of eight rows, rounded, added to the residual, and its squares. */
template <int A>
static __device__ __forceinline__ void put_residual(const struct product &p, const float sums[4],
                                                    const residual_four &before, uint32_t n0,
                                                    uint32_t t0) {
    const uint32_t lane = threadIdx.x % 32, first = n0 + threadIdx.x % 128 / 32 * 16,
                   n = first + lane / 4, t = t0 + lane % 4 * 2;
    float h[2][2];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const float bias = p.bias ? p.bias[n + i * 8] : 0;
        float v[2] = {sums[i * 2], sums[i * 2 + 1]};
        if (p.bias)
            v[0] += bias, v[1] += bias;
        const float2 y = unpack<A>(pack<A>(v[0], v[1]));
        h[i][0] = residual_sum(before.x[i][0], y.x, p.residual.scale);
        h[i][1] = residual_sum(before.x[i][1], y.y, p.residual.scale);
#pragma unroll
        for (uint32_t e = 0; e < 2; e++)
            if (t + e < p.rows)
                ((float *)p.out)[(size_t)(t + e) * p.out_stride + n + i * 8] = h[i][e];
    }
#pragma unroll
    for (uint32_t e = 0; e < 2; e++) {
        const float squares = lanes_squares(square_pair(h[0][e], h[1][e]), 4);
        if (lane / 4 == 0 && t + e < p.rows)
            p.residual.squares[((size_t)(t + e) * p.out_stride + first) / NORM_GROUP] = squares;
    }
}

/* ---- rows of Q, K and V, rotated and put into the cache ---- */

/* Head size 64: the block's 64 features are a head, and its threads 64 apart have the dims of a pair. 128:
 * tiles 2 i and 2 i + 1 are one, and the block has the first, or the second, 32 rows of both, as above;
 * WHOLE: it has a tile, and its neighbour in the cluster the other dim of each pair. */
template <bool WHOLE> struct rope_place_of {
    uint32_t head,
        first; /* dims first .. first + 31, and as many half a head on; WHOLE: 64 from there */
    static __device__ __forceinline__ rope_place_of of_tile(const struct product &p,
                                                            uint32_t tile) {
        if (WHOLE)
            return {tile / 2, tile % 2 * TILE};
        return p.rope.kv.head_dim == 64 ? rope_place_of{tile, 0}
                                        : rope_place_of{tile / 2, tile % 2 * 32};
    }
    /* The dim that is the thread's sum i of four, 0 or 1 eight rows below. */
    __device__ __forceinline__ uint32_t dim(const struct product &p, uint32_t i) const {
        const uint32_t r = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + i * 8;
        return WHOLE ? first + r : first + r % 32 + r / 32 * (p.rope.kv.head_dim / 2);
    }
    /* Whether the thread's dims are the second of their pairs. */
    __device__ __forceinline__ bool second() const {
        return WHOLE ? first > 0 : threadIdx.x % 128 >= 64;
    }
};
typedef rope_place_of<false> rope_place;

/* What a thread needs when its sums are there: of rows t and t + 1, the cosine and sine of both dims, and
 * where the row goes, NULL where nothing is to be written. Asked for while x is on its way; what lies
 * ahead of the product has ended. */
struct rope_ahead {
    float2 angles[2][2];
    void *rows[2];
};
template <int A, bool WHOLE = false>
static __device__ __forceinline__ rope_ahead rope_ahead_of(const struct product &p, uint32_t tile,
                                                           uint32_t t0) {
    typedef typename values<A>::raw raw;
    const struct rope_of_rows &rope = p.rope;
    const auto place = rope_place_of<WHOLE>::of_tile(p, tile);
    const uint32_t t = t0 + threadIdx.x % 4 * 2, half = rope.kv.head_dim / 2;
    rope_ahead ahead = {};
#pragma unroll
    for (uint32_t e = 0; e < 2; e++) {
        const uint32_t position = t + e < p.rows ? rope.positions[t + e] : (uint32_t)ROW_NONE;
        if (position == (uint32_t)ROW_NONE)
            continue;
        raw *row = (raw *)p.out + (size_t)(t + e) * p.out_stride + place.head * 2 * half;
        if (place.head >= rope.heads)
            row = (raw *)rope.kv.at(rope.slots[t + e], position) +
                  (size_t)(place.head - rope.heads) * rope.kv.head_stride();
        ahead.rows[e] = row;
        if (place.head < rope.heads + rope.kv.kv_heads)
#pragma unroll
            for (uint32_t i = 0; i < 2; i++)
                ahead.angles[i][e] =
                    ((const float2 *)rope.angles)[(size_t)(t + e) * half + place.dim(p, i) % half];
    }
    return ahead;
}

/* A thread's four sums of eight rows, rounded: of dim i, of rows t and t + 1. */
template <int A, class Place>
static __device__ __forceinline__ void round_for_rope(const struct product &p, const Place &place,
                                                      const float sums[4], uint32_t own[2]) {
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const float bias = p.bias ? p.bias[place.head * p.rope.kv.head_dim + place.dim(p, i)] : 0;
        float v[2] = {sums[i * 2], sums[i * 2 + 1]};
        if (p.bias)
            v[0] += bias, v[1] += bias;
        own[i] = pack<A>(v[0], v[1]);
    }
}
/* Rotated but for V, rounded, to qkv or to the cache. other: the same of the pairs' other dims. */
template <int A, class Place>
static __device__ __forceinline__ void put_rotated(const struct product &p, const Place &place,
                                                   const uint32_t own[2], const uint32_t other[2],
                                                   const rope_ahead &ahead) {
    typedef typename values<A>::raw raw;
    const bool turns = place.head < p.rope.heads + p.rope.kv.kv_heads, second = place.second();
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const float2 x = unpack<A>(own[i]), y = unpack<A>(other[i]);
        const float mine_of[2] = {x.x, x.y}, other_of[2] = {y.x, y.y};
#pragma unroll
        for (uint32_t e = 0; e < 2; e++) {
            const float2 angle = ahead.angles[i][e];
            const struct rotated_pair r =
                rotate(second ? other_of[e] : mine_of[e], second ? mine_of[e] : other_of[e],
                       angle.x, angle.y);
            if (ahead.rows[e])
                values<A>::set((raw *)ahead.rows[e] + place.dim(p, i), !turns   ? mine_of[e]
                                                                       : second ? r.second
                                                                                : r.first);
        }
    }
}

/* A block's sums of eight rows, rotated and put away. Its threads without sums meet the others by
 * pass_rope. pairs: 1024 bytes of shared memory. */
template <int A>
static __device__ __forceinline__ void put_rope(const struct product &p, uint32_t *pairs,
                                                const float sums[4], const rope_ahead &ahead,
                                                uint32_t tile) {
    const rope_place place = rope_place::of_tile(p, tile);
    const uint32_t mine = threadIdx.x % 128;
    uint32_t own[2];
    round_for_rope<A>(p, place, sums, own);
    pairs[mine] = own[0];
    pairs[128 + mine] = own[1];
    __syncthreads();
    const uint32_t other[2] = {pairs[mine ^ 64], pairs[128 + (mine ^ 64)]};
    put_rotated<A>(p, place, own, other, ahead);
}
/* Of threads of a block that have no sums, behind pass_splits. */
static __device__ __forceinline__ void pass_rope(const struct product &p) {
    if (p.rope.angles && blockIdx.z == 0)
        __syncthreads();
}

/* A thread's sums: 8 j + i as wgmma lays them out. ADDS: to the residual, PUSHES: to other ranks, where
 * the product says so. */
template <int A, int TOKENS, bool ADDS = false, bool PUSHES = (TOKENS <= PUSHED_ROWS)>
static __device__ __forceinline__ void put_sums(const struct product &p, const float *sums,
                                                uint32_t n0, uint32_t t0) {
    typedef typename values<A>::raw raw;
    if (p.gated) {
        put_gated<A, TOKENS>(p, sums, n0, t0);
        return;
    }
    if (ADDS && p.residual.squares) {
        dependency_wait();
        if (p.push.table)
            put_added<A>(p, sums, residual_row_at(p, n0), n0);
        else
            put_residual<A>(p, sums, residual_at(p, n0, t0), n0, t0);
        return;
    }
    if (PUSHES && p.push.table) {
        dependency_wait();
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j++)
            put_pushed<A>(p, sums + j * 4, n0, t0 + j * 8);
        return;
    }
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, odd = g & 1;
    const uint32_t n = n0 + threadIdx.x % 128 / 32 * 16 + g;
    const bool pairs = !p.out_f32 && p.out_stride % 2 == 0 && (uintptr_t)p.out % 4 == 0;
#pragma unroll
    for (int i = 0; i < 2; i++) { /* features n, n + 8 */
        const float bias = p.bias ? p.bias[n + i * 8] : 0;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j++) {
            const uint32_t t = t0 + j * 8 + lane % 4 * 2;
            float v[2] = {sums[j * 4 + i * 2], sums[j * 4 + i * 2 + 1]};
            if (p.bias)
                v[0] += bias, v[1] += bias;
            if (pairs) { /* two features of one row, from the lane with the other */
                const float other = __shfl_xor_sync(0xffffffffu, odd ? v[0] : v[1], 4);
                const float lo = odd ? other : v[0], hi = odd ? v[1] : other;
                raw *out = (raw *)p.out + (size_t)(t + odd) * p.out_stride + n - odd + i * 8;
                if (t + odd < p.rows)
                    *(uint32_t *)out = pack<A>(lo, hi);
                continue;
            }
#pragma unroll
            for (uint32_t e = 0; e < 2; e++) {
                const size_t at = (size_t)(t + e) * p.out_stride + n + i * 8;
                if (t + e >= p.rows)
                    continue;
                if (p.out_f32)
                    ((float *)p.out)[at] = v[e];
                else
                    values<A>::set((raw *)p.out + at, v[e]);
            }
        }
    }
}

/* Calls launch(rows, splits) for output rows and for prompt rows, at once where both have k whole. */
template <class F>
static inline void with_splits(const struct product &p, uint32_t class_rows, F launch) {
    const uint32_t splits = feature_splits(p.features, p.cols), first = splits > 1 ? class_rows : 0;
    if (first)
        launch(product_rows(p, 0, first), splits);
    if (p.rows > first)
        launch(product_rows(p, first, p.rows - first), 1u);
}

/* All splits lay their sums down in `area`, their own shared memory, and each adds up some of the rows,
 * eight at a time, which it gives to put_four(sums, j). area: TOKENS * 256 bytes for each group of 64 features.
 * meanwhile() is called while the splits meet. */
template <int TOKENS, class Meanwhile, class Put>
static __device__ __forceinline__ void add_splits(unsigned char *area, const float *sums,
                                                  uint32_t group, Meanwhile meanwhile,
                                                  Put put_four) {
    float4 *mine = (float4 *)(area + group * TOKENS * 256) + threadIdx.x % 128;
    meanwhile();
    cluster_barrier(); /* nobody reads or fills a ring any more */
#pragma unroll
    for (int j = 0; j < TOKENS / 8; j++)
        mine[j * 128] = make_float4(sums[j * 4], sums[j * 4 + 1], sums[j * 4 + 2], sums[j * 4 + 3]);
    cluster_barrier();
    const uint32_t splits = gridDim.z, apart = cluster_y(),
                   first = cluster_rank() - blockIdx.z * apart; /* the rank of split 0 */
#pragma unroll 1
    for (uint32_t j = blockIdx.z; j < TOKENS / 8; j += splits) {
        float4 sum = load_of_peer(mine + j * 128, first);
        for (uint32_t split = 1; split < splits; split++) {
            const float4 more = load_of_peer(mine + j * 128, first + split * apart);
            sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
        }
        const float four[4] = {sum.x, sum.y, sum.z, sum.w};
        put_four(four, j);
    }
}

/* put_sums of a split. */
template <int A, int TOKENS, bool ADDS = false>
static __device__ __forceinline__ void put_splits(const struct product &p, unsigned char *area,
                                                  const float *sums, uint32_t group, uint32_t n0,
                                                  uint32_t t0) {
    const bool adds = ADDS && p.residual.squares, pushes = TOKENS <= PUSHED_ROWS && p.push.table;
    residual_four before = {};
    add_splits<TOKENS>(
        area, sums, group,
        [&] {
            if (!adds && !pushes)
                return;
            dependency_wait();
            if (adds && blockIdx.z == 0)
                before = pushes ? residual_row_at(p, n0) : residual_at(p, n0, t0);
        },
        [&](const float four[4], uint32_t j) {
            if (adds && pushes)
                put_added<A>(p, four, before, n0);
            else if (adds)
                put_residual<A>(p, four, before, n0, t0);
            else if (pushes)
                put_pushed<A>(p, four, n0, t0 + j * 8);
            else
                put_sums<A, 8, false, false>(p, four, n0, t0 + j * 8);
        });
}

#endif
