/*
 * peers_push.cuh - what a product does with its sums where they are one rank's addends
 * (op_linear.push): besides writing them it gives them to the other ranks, so that the kernel that adds
 * all ranks' up (peers_norm.cu, one shot) finds them when it begins. Up to eight rows it adds them up
 * itself (put_added), and the product behind norms them (linear_hopper.cuh).
 *
 * A thread has features n and n + 8 of rows t and t + 1 (wgmma); two exchanges of lanes make of them
 * four features of one row, so that four lanes store 32 bytes that lie together. Words are what
 * peers_norm.cu's push_piece would store, and where.
 *
 * Turns (peers_norm.cu): the product lies between two of those kernels of its rank, n and n + 1, and
 * pushes for n + 1 behind its own wait, so when n has ended: what is said there of a kernel that pushes
 * holds. n + 1 waits for the product's end, and leaves n + 2's turn to be read from the table.
 */
#ifndef KERNELS_CUDA_PEERS_PUSH_CUH
#define KERNELS_CUDA_PEERS_PUSH_CUH

#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/pairs.cuh"
#include "kernels/cuda/peers.cuh"
#include "kernels/cuda/row_norm.cuh"

/* Four features of a row, from feature n on, of the product, to all others. Nothing where this rank is
 * broken: their memory may be gone. */
static __device__ __forceinline__ void push_words(const struct push_to_ranks &to, uint32_t row,
                                                  uint32_t n, uint2 w) {
    const uint32_t of_norm = to.row + row, block = of_norm / to.rows_each,
                   turn = *(const volatile uint32_t *)&to.table->rounds[block];
    const size_t at = bare_place_at(to.count, to.blocks, block, 0, turn, to.self) +
                      ((size_t)(of_norm - block * to.rows_each) * to.width + to.feature + n) * 2;
    if (*(const volatile uint32_t *)&to.table->broken)
        return;
#pragma unroll
    for (uint32_t r = 0; r < PEERS_MAX; r++)
        if (r < to.count && r != to.self)
            store8_system(to.table->boxes[r] + at, make_uint2(word_of(w.x), word_of(w.y)));
}

/* Sums of eight rows as the thread's four features of one row, rounded. */
struct row_words {
    uint32_t row, n, first; /* first: of the warp's 16 features */
    uint2 w;
};
static __device__ __forceinline__ row_words row_words_at(uint32_t n0, uint32_t t0) {
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, first = n0 + threadIdx.x % 128 / 32 * 16;
    return {t0 + lane % 4 * 2 + (g & 1), first + (g / 2 & 1) * 8 + g / 4 * 4, first, {0, 0}};
}
template <int A>
static __device__ __forceinline__ row_words row_words_of(const struct product &p,
                                                         const float sums[4], uint32_t n0,
                                                         uint32_t t0) {
    const uint32_t g = threadIdx.x % 32 / 4, odd = g & 1, upper = g / 2 & 1;
    row_words r = row_words_at(n0, t0);
    uint32_t words[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) { /* features g + 8 i, and the neighbour's, of one row */
        const float bias = p.bias ? p.bias[r.first + g + i * 8] : 0;
        float v[2] = {sums[i * 2], sums[i * 2 + 1]};
        if (p.bias)
            v[0] += bias, v[1] += bias;
        const float other = __shfl_xor_sync(0xffffffffu, odd ? v[0] : v[1], 4);
        words[i] = odd ? pack<A>(other, v[1]) : pack<A>(v[0], other);
    }
    const uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? words[0] : words[1], 8);
    r.w = upper ? make_uint2(other, words[1]) : make_uint2(words[0], other);
    return r;
}

/* Sums of eight rows: to out, and to the others. */
template <int A>
static __device__ __forceinline__ void put_pushed(const struct product &p, const float sums[4],
                                                  uint32_t n0, uint32_t t0) {
    const row_words r = row_words_of<A>(p, sums, n0, t0);
    if (r.row >= p.rows)
        return;
    *(uint2 *)((uint16_t *)p.out + (size_t)r.row * p.out_stride + r.n) = r.w;
    push_words(p.push, r.row, r.n, r.w);
}

/* ---- adding up: without the norm's kernel ---- */

/* The residual at a thread's sums of eight rows: [feature n or n + 8][row t or t + 1]; of a product that
 * adds up, at its four features of one row. */
struct residual_four {
    float x[2][2];
};
static __device__ __forceinline__ residual_four residual_row_at(const struct product &p,
                                                                uint32_t n0) {
    const row_words r = row_words_at(n0, 0);
    float4 x = make_float4(0, 0, 0, 0);
    if (r.row < p.rows)
        x = *(const float4 *)((const float *)p.out + (size_t)r.row * p.out_stride + r.n);
    return {{{x.x, x.y}, {x.z, x.w}}};
}

/* False: give up. */
static __device__ __forceinline__ bool keeps_waiting(struct patience *p,
                                                     const struct push_to_ranks &to) {
    peer_pause();
    if (++p->asked % ASK_HOST)
        return true;
    const uint64_t now = global_timer();
    p->end = p->end ? p->end : now + to.table->wait_ns;
    if (now < p->end && !load_host(&to.signal->abort) &&
        !*(const volatile uint32_t *)&to.table->broken)
        return true;
    (void)atomicExch(&to.table->broken, 1u);
    *(volatile uint32_t *)&to.signal->broken = 1;
    __threadfence_system();
    return false;
}

/* Four features over the ranks, in their order: what others pushed to `at` and ADDED_BYTES further, and
 * own. Their places are empty then. */
template <int A>
static __device__ __forceinline__ void sum_words(const struct push_to_ranks &to, unsigned char *at,
                                                 uint2 own, float sums[4]) {
    enum : uint32_t { AT_ONCE = 4 };
    struct patience p = {};
#pragma unroll
    for (uint32_t first = 0; first < PEERS_MAX; first += AT_ONCE) {
        uint2 from[AT_ONCE];
        bool all;
        if (first >= to.count)
            break;
        do {
            all = true;
#pragma unroll
            for (uint32_t i = 0, r = first; i < AT_ONCE; i++, r++)
                if (r < to.count)
                    from[i] = r == to.self ? own : load8_system(at + r * ADDED_BYTES);
#pragma unroll
            for (uint32_t i = 0, r = first; i < AT_ONCE; i++, r++)
                all = all && (r >= to.count || r == to.self ||
                              (from[i].x != ABSENT && from[i].y != ABSENT));
        } while (!all && keeps_waiting(&p, to));
#pragma unroll
        for (uint32_t i = 0, r = first; i < AT_ONCE; i++, r++) {
            if (r >= to.count)
                continue;
            if (r != to.self)
                *(uint2 *)(at + r * ADDED_BYTES) = make_uint2(ABSENT, ABSENT);
            const float2 a = unpack<A>(from[i].x), b = unpack<A>(from[i].y);
            const float one[4] = {a.x, a.y, b.x, b.y};
#pragma unroll
            for (uint32_t k = 0; k < 4; k++)
                sums[k] = r ? sums[k] + one[k] : one[k];
        }
    }
}

/* Sums of up to eight rows: given to the others, added up over the ranks, rounded, added to the
 * residual, and its squares, with the bits of put_residual. before: residual_row_at. A warp's places
 * have turns of their own; why they are empty is what peers_norm.cu says, with its product in the place
 * of a block's kernel: the next but one pushes when the next has read what its readers pushed behind
 * their own wait. */
template <int A>
static __device__ __forceinline__ void put_added(const struct product &p, const float sums[4],
                                                 const residual_four &before, uint32_t n0) {
    const struct push_to_ranks &to = p.push;
    const row_words r = row_words_of<A>(p, sums, n0, 0);
    const uint32_t lane = threadIdx.x % 32, tile = (to.feature + n0) / 64;
    uint32_t *turn_at = &to.table->added[tile][threadIdx.x % 128 / 32];
    const uint32_t turn = *(const volatile uint32_t *)turn_at;
    const size_t at = added_place_at(to.count, to.blocks, tile, turn) + r.row * ADDED_ROW +
                      (to.feature + r.n) % 64 * 2;
    float h[4] = {};
    if (r.row < p.rows && !*(const volatile uint32_t *)&to.table->broken) {
        float total[4];
#pragma unroll
        for (uint32_t i = 0; i < PEERS_MAX; i++)
            if (i < to.count && i != to.self)
                store8_system(to.table->boxes[i] + at + to.self * ADDED_BYTES,
                              make_uint2(word_of(r.w.x), word_of(r.w.y)));
        sum_words<A>(to, to.table->boxes[to.self] + at, r.w, total);
        const float2 a = unpack<A>(pack<A>(total[0], total[1])),
                     b = unpack<A>(pack<A>(total[2], total[3]));
        const float y[4] = {a.x, a.y, b.x, b.y};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            h[i] = residual_sum(before.x[i / 2][i % 2], y[i], p.residual.scale);
        *(float4 *)((float *)p.out + (size_t)r.row * p.out_stride + r.n) =
            make_float4(h[0], h[1], h[2], h[3]);
    }
    __syncwarp();
    /* as lanes_squares: features 8 apart, then neighbours, then two, then four apart */
    float s[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const float own = __fmul_rn(h[i], h[i]);
        s[i] = __fadd_rn(own, __shfl_xor_sync(0xffffffffu, own, 8));
    }
    float all = __fadd_rn(__fadd_rn(s[0], s[1]), __fadd_rn(s[2], s[3]));
    all = __fadd_rn(all, __shfl_xor_sync(0xffffffffu, all, 16));
    if (lane / 8 == 0 && r.row < p.rows)
        p.residual.squares[((size_t)r.row * p.out_stride + r.first) / NORM_GROUP] = all;
    if (lane == 0) /* all lanes have read it */
        *turn_at = turn + 1;
}

#endif
