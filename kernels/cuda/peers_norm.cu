/*
 * peers_norm.cu - the sum over ranks, the residual's addition and the norm behind it in one kernel
 * (kernels/peers.h: op_peer_norm).
 *
 * d = sum over ranks of delta, in rank order, rounded to act; h = x + d * delta_scale; x = h; out =
 * h * rsqrt(mean(h^2) + eps) * (weight + weight_offset). delta, out: act of 16 bits [rows, width];
 * x: f32; squares are summed as row_norm.cuh says. The bits are those of peers.cu and norm.cu.
 *
 * Few rows take as long as their way: a store that leaves the chip, its answer, a flag behind it. So
 * here no message has a flag. Places are filled with a word that no message has (ABSENT); whoever
 * reads looks at the values themselves until no word is that one. Words may come in any order, each
 * by itself, and nothing is fenced. Who has read a piece fills its place again.
 *
 * Turns: the n-th kernel of block b uses places of turn n mod 2. Rank S pushes into R's of turn n + 2
 * when its own kernel n + 1 has ended, for which it read what R pushed in its kernel n + 1, behind
 * the end of R's kernel n: so R's filling of these places lies before. That is why every rank must
 * read something of every other in each kernel.
 *
 * Where a product has pushed its sums from its own end (peers_push.cuh), the kernel begins with 2.: what
 * the others pushed may be there already. A rank does either, whatever the others do.
 *
 * One shot: all push all to all. Two shots: the pieces of a block's rows are cut into a slice a rank;
 * each sums its slice and pushes it; then all have the sums, and add and norm all rows. Launch: a
 * block for `rows_each` rows, all in one message, at most one block an SM and BLOCKS_MAX; a thread
 * has the same 16 bytes of each row, a group of squares is two lanes'. Shared memory: two floats for 16
 * features. Cost: reads delta, x, weight, writes x and out once; the bytes over the link are those of
 * peers.cu. Tolerance: none.
 */
#include "kernels/cuda/peers.cuh"
#include "kernels/cuda/row_norm.cuh"

enum : uint32_t { NORM_THREADS_MAX = 1024, PIECE = 8, RANKS_AT_ONCE = 4, STATE_BYTES = 128 };
/* What a second hop costs, 1.2 us at 360 GB/s: in bytes that one shot has more of. TWO_SHOTS_PIECES: of
 * a row, from which on the slices of all ranks hold something. */
enum : uint32_t { ONE_SHOT_MORE = 400 * 1024, TWO_SHOTS_PIECES = PEERS_MAX * PEERS_MAX };
static_assert(sizeof(struct exchange_state) <= STATE_BYTES, "");
static_assert(NORM_GROUP == 2 * PIECE, "");

struct sum_norm_args {
    const float *weight;
    uint32_t width, rows, rows_each;
    float eps, weight_offset, delta_scale;
    bool weight_aligned, pushed;
};

static __device__ __forceinline__ unsigned char *bare_place(struct exchange_state *e,
                                                            const struct peer_view &v,
                                                            uint32_t rank, uint32_t shot,
                                                            uint32_t sender) {
    return e->boxes[rank] + bare_place_at(v.count, v.blocks, blockIdx.x, shot, e->round, sender);
}

static __device__ __forceinline__ void push_piece(struct exchange_state *e,
                                                  const struct peer_view &v, uint32_t rank,
                                                  uint32_t shot, uint32_t idx, uint4 w) {
    store16_system(bare_place(e, v, rank, shot, v.self) + idx * 16,
                   make_uint4(word_of(w.x), word_of(w.y), word_of(w.z), word_of(w.w)));
}

static __device__ __forceinline__ bool is_there(uint4 w) {
    return w.x != ABSENT && w.y != ABSENT && w.z != ABSENT && w.w != ABSENT;
}

static __device__ __forceinline__ void empty_piece(unsigned char *at) {
    *(uint4 *)at = make_uint4(ABSENT, ABSENT, ABSENT, ABSENT);
}

/* False: give up. */
static __device__ __forceinline__ bool waits_on(struct patience *p, struct exchange_state *e,
                                                const struct peer_view &v) {
    peer_pause();
    if (++p->asked % ASK_HOST)
        return true;
    const uint64_t now = global_timer();
    p->end = p->end ? p->end : now + e->wait_ns;
    if (now < p->end && !load_host(&v.signal->abort) && !*(volatile uint32_t *)&e->failed)
        return true;
    give_up(e, v);
    return false;
}

/* Piece idx of a sender's message; its place is empty then. */
static __device__ uint4 take_piece(struct exchange_state *e, const struct peer_view &v,
                                   uint32_t shot, uint32_t sender, uint32_t idx) {
    unsigned char *at = bare_place(e, v, v.self, shot, sender) + idx * 16;
    struct patience p = {};
    uint4 w = load16_system(at);
    while (!is_there(w) && waits_on(&p, e, v))
        w = load16_system(at);
    empty_piece(at);
    return w;
}

/* The sum of piece idx over the ranks, in their order; own is this rank's. Four ranks at a time are
 * looked at, so that registers do. */
template <int T>
static __device__ __forceinline__ uint4 sum_pieces(struct exchange_state *e,
                                                   const struct peer_view &v, uint32_t idx,
                                                   uint4 own) {
    unsigned char *at = bare_place(e, v, v.self, 0, 0) + idx * 16;
    float sums[PIECE], one[PIECE];
#pragma unroll
    for (uint32_t first = 0; first < PEERS_MAX; first += RANKS_AT_ONCE) {
        uint4 from[RANKS_AT_ONCE];
        struct patience p = {};
        bool all;
        if (first >= v.count)
            break;
        do {
            all = true;
#pragma unroll
            for (uint32_t i = 0, r = first; i < RANKS_AT_ONCE; i++, r++)
                if (r < v.count)
                    from[i] = r == v.self ? own : load16_system(at + r * (size_t)BARE_BYTES);
#pragma unroll
            for (uint32_t i = 0, r = first; i < RANKS_AT_ONCE; i++, r++)
                all = all && (r >= v.count || r == v.self || is_there(from[i]));
        } while (!all && waits_on(&p, e, v));
#pragma unroll
        for (uint32_t i = 0, r = first; i < RANKS_AT_ONCE; i++, r++) {
            if (r >= v.count)
                continue;
            if (r != v.self)
                empty_piece(at + r * (size_t)BARE_BYTES);
            piece<T>::unpack(from[i], one);
#pragma unroll
            for (uint32_t k = 0; k < PIECE; k++)
                sums[k] = r ? sums[k] + one[k] : one[k];
        }
    }
    return piece<T>::pack(sums);
}

/* The squares of a group, of whose features this lane has eight and its neighbour the others: what
 * group_squares makes. */
static __device__ __forceinline__ float pair_squares(const float h[PIECE]) {
    float s[PIECE];
#pragma unroll
    for (uint32_t i = 0; i < PIECE; i++) {
        const float own = __fmul_rn(h[i], h[i]);
        s[i] = __fadd_rn(own, __shfl_xor_sync(0xffffffffu, own, 1));
    }
#pragma unroll
    for (uint32_t by = 1; by < PIECE; by *= 2)
#pragma unroll
        for (uint32_t i = 0; i < PIECE; i += 2 * by)
            s[i] = __fadd_rn(s[i], s[i + by]);
    return s[0];
}

/* What this rank has of a block's rows, and how their pieces are cut. */
struct block_rows {
    uint4 *delta; /* of its first row on */
    uint32_t pieces, total, slice;
};

/* 1. All that others sum; with two shots, the sums of this rank's slice to all. */
template <int T, bool TWO_SHOTS>
static __device__ __forceinline__ void
push_rows(struct exchange_state *e, const struct peer_view &v, const struct block_rows &b) {
    for (uint32_t i = threadIdx.x; i < b.total; i += blockDim.x) {
        const uint32_t owner = TWO_SHOTS ? i / b.slice : 0;
        const uint4 w = b.delta[i];
        if (TWO_SHOTS && owner != v.self)
            push_piece(e, v, owner, 0, i - owner * b.slice, w);
        for (uint32_t r = 0; r < v.count && !TWO_SHOTS; r++)
            if (r != v.self)
                push_piece(e, v, r, 0, i, w);
    }
    if (!TWO_SHOTS)
        return;
    const uint32_t first = v.self * b.slice, end = min(first + b.slice, b.total);
    for (uint32_t i = first + threadIdx.x; i < end; i += blockDim.x) {
        const uint4 w = sum_pieces<T>(e, v, i - first, b.delta[i]);
        b.delta[i] = w;
        for (uint32_t r = 0; r < v.count; r++)
            if (r != v.self)
                push_piece(e, v, r, 1, i - first, w);
    }
    __syncthreads(); /* this rank's sums are there for the whole block */
}

/* Piece i of the block's rows, summed. */
template <int T, bool TWO_SHOTS>
static __device__ __forceinline__ uint4 summed(struct exchange_state *e, const struct peer_view &v,
                                               const struct block_rows &b, uint32_t i) {
    if (!TWO_SHOTS)
        return sum_pieces<T>(e, v, i, b.delta[i]);
    const uint32_t owner = i / b.slice;
    return owner == v.self ? b.delta[i] : take_piece(e, v, 1, owner, i - owner * b.slice);
}

static __device__ __forceinline__ void put_normed(float h[PIECE], float scale,
                                                  const struct sum_norm_args &n, uint32_t first) {
    float weight[PIECE];
    if (n.weight_aligned)
        values<STORAGE_F32>::get8(n.weight + first, weight);
#pragma unroll
    for (uint32_t i = 0; i < PIECE; i++) {
        if (!n.weight_aligned)
            weight[i] = n.weight[first + i];
        h[i] = normed_value(h[i], scale, weight[i] + n.weight_offset);
    }
}

/* 64 registers a thread: of 512 threads there is room beside the blocks of a product. */
template <int T, bool TWO_SHOTS>
static __global__ void __launch_bounds__(NORM_THREADS_MAX)
    peer_norm_kernel(uint4 *out, float *x, uint4 *delta, struct sum_norm_args n,
                     struct peer_view v) {
    DYNAMIC_SHARED(shared);
    struct exchange_state *e = (struct exchange_state *)shared;
    const uint32_t tid = threadIdx.x, pieces = n.width / PIECE, groups = n.width / NORM_GROUP;
    const uint32_t first = blockIdx.x * n.rows_each, rows = min(n.rows_each, n.rows - first);
    if (tid * 32 < n.width)
        prefetch_l2(n.weight + tid * 32); /* a weight: no kernel writes it */
    if (!begin_exchange(e, v))
        return;
    const uint32_t total = rows * pieces;
    const struct block_rows b = {delta + (size_t)first * pieces, pieces, total,
                                 TWO_SHOTS ? (total + v.count - 1) / v.count : total};
    if (!n.pushed)
        push_rows<T, TWO_SHOTS>(e, v, b);
    for (uint32_t row = 0; row < rows; row++) {
        float *squares = (float *)(shared + STATE_BYTES) + (row & 1) * groups;
        float *x_at = x + (size_t)(first + row) * n.width + tid * PIECE;
        float h[PIECE] = {};
        /* 2. h, and its squares */
        if (tid < pieces) {
            float d[PIECE];
            values<STORAGE_F32>::get8(x_at, h);
            piece<T>::unpack(summed<T, TWO_SHOTS>(e, v, b, row * pieces + tid), d);
#pragma unroll
            for (uint32_t i = 0; i < PIECE; i++)
                h[i] = residual_sum(h[i], d[i], n.delta_scale);
            values<STORAGE_F32>::set8(x_at, h);
        }
        const float sum = pair_squares(h);
        if (tid < pieces && tid % 2 == 0)
            squares[tid / 2] = sum;
        __syncthreads();
        /* 3. scale */
        const float scale = norm_scale(total_squares(squares, groups), n.width, n.eps);
        if (tid < pieces) {
            put_normed(h, scale, n, tid * PIECE);
            out[(size_t)(first + row) * pieces + tid] = piece<T>::pack(h);
        }
    }
    if (tid == 0)
        v.table->rounds[blockIdx.x] = e->round + 1;
}

/* ---- launches ---- */

bool cuda_peer_norms(const struct peers *p, const struct op_rmsnorm *a) {
    const enum storage_type act = p->cuda->dev.activation_type;
    return a->rows && a->out && a->out != a->x && a->delta && a->weight && a->x_f32 &&
           !a->delta_f32 && (act == STORAGE_BF16 || act == STORAGE_F16) &&
           a->width % NORM_GROUP == 0 && a->width <= NORM_THREADS_MAX * PIECE &&
           (uint64_t)norm_rows_each(p, a->rows) * a->width * sizeof(uint16_t) <= BARE_BYTES;
}

/* Whether two hops take less time than the bytes of one. */
static bool wants_two_shots(const struct peers *p, const struct op_rmsnorm *a) {
    const uint64_t bytes = (uint64_t)a->rows * a->width * sizeof(uint16_t);
    return bytes * (p->count - 1) * (p->count - 2) / p->count > ONE_SHOT_MORE;
}

bool cuda_peer_pushes(const struct peers *p, const struct op_rmsnorm *norm,
                      const struct matrix *w) {
    return cuda_peer_norms(p, norm) && !wants_two_shots(p, norm) && w->rows == norm->width &&
           cuda_pushes(&p->cuda->dev, w, norm->rows);
}

template <int T> static void peer_norm(struct stream *s, const struct op_peer_norm *a) {
    const struct op_rmsnorm *m = a->norm;
    const struct peers *p = a->peers;
    const uint32_t pieces = m->width / PIECE, each = norm_rows_each(p, m->rows);
    const bool two = a->shots ? a->shots == 2 : wants_two_shots(p, m);
    const launch_shape shape = {dim3((m->rows + each - 1) / each), dim3((pieces + 31) / 32 * 32),
                                STATE_BYTES + 2 * m->width / NORM_GROUP * sizeof(float),
                                device_of(s)->dependent_launch};
    const struct sum_norm_args n = {m->weight,
                                    m->width,
                                    m->rows,
                                    each,
                                    m->eps,
                                    m->weight_offset,
                                    m->delta_scale != 0 ? m->delta_scale : 1,
                                    (uintptr_t)m->weight % 16 == 0,
                                    a->pushed};
    CHECK(!a->pushed || !two);
    if (two && pieces >= TWO_SHOTS_PIECES)
        LAUNCH((peer_norm_kernel<T, true>), shape, cuda_stream_of(s), (uint4 *)m->out,
               (float *)m->x, (uint4 *)(uintptr_t)m->delta, n, view_of(p));
    else
        LAUNCH((peer_norm_kernel<T, false>), shape, cuda_stream_of(s), (uint4 *)m->out,
               (float *)m->x, (uint4 *)(uintptr_t)m->delta, n, view_of(p));
}

void cuda_peer_norm(struct stream *s, const struct op_peer_norm *a) {
    const struct op_rmsnorm *m = a->norm;
    CHECK(a->peers->joined && cuda_peer_norms(a->peers, m) &&
          ((uintptr_t)m->out | (uintptr_t)m->x | (uintptr_t)m->delta) % 16 == 0);
    if (s->dev->activation_type == STORAGE_BF16)
        peer_norm<STORAGE_BF16>(s, a);
    else
        peer_norm<STORAGE_F16>(s, a);
}
