/*
 * attention_prompt_hopper.cuh - attention of prompt-class rows on sm_90a by wgmma, head sizes 64, 128
 * and 256: the same rows, segments and result as attention_prompt.cu. Instances:
 * attention_prompt_hopper.cu (caches of 16 bits), attention_prompt_narrow.cu (of 8).
 *
 * A block makes 128 consecutive rows of one head. A warpgroup brings K and V, the other two multiply, 64
 * rows each (Shah et al., FlashAttention-3, 2024):
 *
 *   - The positions of a segment go by in tiles of 128 (64 with head size 256) at absolute places, in
 *     ascending order, with the running max and sum of each row. A tile that a row does not see leaves
 *     its bits as they are, so they depend neither on the rows beside it nor on how its prompt is cut.
 *   - Two warps bring K and two V, each through a ring of two tiles, by cp.async: pages hold rows of a
 *     head one after the other, while products want 128-byte swizzle, which one-dimensional bulk copies
 *     cannot make. `full` ends a phase when the 64 threads have their copies, `empty` when all eight
 *     warps have multiplied.
 *   - Of a warpgroup scores of a tile and the weights of the tile before by its V are asked for at once,
 *     and while V is multiplied the new scores become weights. `turn` lets one warpgroup ask after the
 *     other, so that one's products have the tensor cores while the other has its exponentials.
 *
 * V lies as it came, [positions, head size], and is read across (wgmma_panels).
 *
 * Numbers of 8 bits, fp8 or int8, become the activations' type on their way, exactly (bring_narrow): each
 * thread that brings them copies what it will turn, half a tile ahead, and nobody else touches that.
 * The scales of int8 meet the scores, and the weights before they are rounded; the sum is of weights
 * without them.
 *
 * Cost: 4 * D operations for each (row, head, position); K and V from L2 once for 128 rows of a head.
 * Blocks of the last rows, which see most, begin first. Tolerance: as attention_prompt.cu.
 */
#ifndef KERNELS_CUDA_ATTENTION_PROMPT_HOPPER_CUH
#define KERNELS_CUDA_ATTENTION_PROMPT_HOPPER_CUH

#include "kernels/cuda/attention_prompt.cuh"
#include "kernels/cuda/ptx_hopper.cuh"

enum : uint32_t {
    GROUP = 128,
    GROUP_ROWS = 64,
    ROWS = 2 * GROUP_ROWS,
    RING = 2,
    PAGE = 16 /* positions that lie in one block of the cache, whatever its size */
};
enum kind : uint32_t { K, V };

/* Of head size D, activations A, a cache of C; bytes of shared memory. Rows of 64 values lie in 128
 * bytes: a panel is all rows of 64 of the D. */
template <int A, int C, int D> struct prompt_shape {
    enum : uint32_t {
        NARROW = C != A,
        SCALED = C == STORAGE_I8,
        TILE = D > 128 ? 64 : 128,
        PAGES = TILE / PAGE,
        PANELS = D / 64,
        Q_PANEL = GROUP_ROWS * 128,
        PANEL = TILE * 128,
        TILE_BYTES = PANELS * PANEL,
        BARRIERS = 128,
        SCALES_AT = BARRIERS + 3 * ROWS * 4, /* [K, V][RING][TILE], f32 */
        AHEAD = SCALES_AT +
                (SCALED ? 2 * RING * TILE * 4 : 0), /* before the first of what is swizzled */
        STAGED_PAGES = PAGES / 2,
        STAGED = NARROW ? STAGED_PAGES * PAGE * D : 0, /* of K, and of V */
        BYTES = AHEAD + 2 * PANELS * Q_PANEL + 2 * RING * TILE_BYTES + 2 * STAGED + 1024
    };
    static_assert(BYTES <= 227 * 1024, "a block's shared memory");
    /* The first row of the block, of the call's: those of the last rows begin first. */
    static __device__ __forceinline__ uint32_t first_row(const struct attention_call &call) {
        return ((call.row_count - 1) / ROWS - block_y_again()) * ROWS;
    }
};

struct prompt_barriers {
    uint64_t *at;
    __device__ __forceinline__ uint64_t *full(uint32_t kind, uint32_t n) const {
        return at + kind * RING + n % RING;
    }
    __device__ __forceinline__ uint64_t *empty(uint32_t kind, uint32_t n) const {
        return at + (2 + kind) * RING + n % RING;
    }
    __device__ __forceinline__ uint64_t *turn(uint32_t group) const {
        return at + 4 * RING + group;
    }
    __device__ __forceinline__ uint64_t *queries(uint32_t group) const {
        return at + 4 * RING + 2 + group;
    }
    __device__ __forceinline__ void init() const {
        for (uint32_t i = 0; i < 2 * RING; i++) {
            mbarrier_init(at + i, 64);
            mbarrier_init(at + 2 * RING + i, 8);
        }
        for (uint32_t i = 0; i < 2; i++) {
            mbarrier_init(turn(i), 4);
            mbarrier_init(queries(i), GROUP);
        }
        mbarrier_init_fence();
    }
    /* Tile n of the block is there; all have read it. */
    __device__ __forceinline__ void wait_full(uint32_t kind, uint32_t n) const {
        mbarrier_wait(full(kind, n), n / RING & 1);
    }
    __device__ __forceinline__ void release(uint32_t kind, uint32_t n) const {
        if (threadIdx.x % 32 == 0)
            mbarrier_arrive(empty(kind, n));
    }
    /* A warpgroup's products of tile n may be asked for; they have been. */
    __device__ __forceinline__ void wait_turn(uint32_t group, uint32_t n) const {
        mbarrier_wait(turn(group), group ? n & 1 : ~n & 1);
    }
    __device__ __forceinline__ void pass_turn(uint32_t group) const {
        if (threadIdx.x % 32 == 0)
            mbarrier_arrive(turn(group ^ 1));
    }
};

/* Two warps: K or V of head `head` of all tiles of all segments. ring: RING tiles. */
template <class shape, int D>
static __device__ __forceinline__ void
bring(const struct attention_call &call, const prompt_rows<ROWS> &rows,
      const prompt_barriers &barriers, unsigned char *ring, uint32_t kind, uint32_t head) {
    enum : uint32_t { CHUNKS = D / 8, LINES = 64 / CHUNKS, PAGES = shape::PAGES };
    const struct kv_pages &kv = call.kv;
    const uint32_t lane = threadIdx.x % 32, line = threadIdx.x % 64 / CHUNKS,
                   chunk = threadIdx.x % CHUNKS, mask = kv.block_tokens - 1,
                   shift = (uint32_t)__ffs((int)kv.block_tokens) - 1;
    const unsigned char *head_at =
        kv.base + head * kv.head_stride() * 2 + (line * D + chunk * 8) * 2;
    unsigned char *to = ring + chunk / 8 * shape::PANEL + line * 128;
    uint32_t n = 0;
    for (struct segment s = rows.next_segment(call, 0); s.first < ROWS;
         s = rows.next_segment(call, s.end)) {
        const uint32_t *table = kv.tables + (size_t)s.slot * kv.max_blocks;
        /* the block of each 16 positions of a tile, by lanes; none where nothing is seen */
        auto blocks_of = [&](uint32_t start) {
            const uint32_t first = start + lane % PAGES * PAGE;
            const bool seen = first <= s.high && first + PAGE > s.low;
            return seen ? table[first >> shift] : 0;
        };
        uint32_t blocks = blocks_of(s.low / shape::TILE * shape::TILE);
        for (uint32_t start = s.low / shape::TILE * shape::TILE; start <= s.high;
             start += shape::TILE, n++) {
            if (n >= RING)
                mbarrier_wait(barriers.empty(kind, n), (n / RING - 1) & 1);
            unsigned char *tile = to + n % RING * shape::TILE_BYTES;
#pragma unroll
            for (uint32_t page = 0; page < PAGES; page++) {
                const uint32_t block = __shfl_sync(0xffffffffu, blocks, (int)page),
                               first = start + page * PAGE;
                const unsigned char *from =
                    head_at + block * kv.block_stride + (size_t)(first & mask) * (D * 2);
#pragma unroll
                for (uint32_t i = 0; i < PAGE; i += LINES) {
                    /* row % 8 is line + i % 8: LINES and i have no bit in common */
                    const uint32_t position = first + line + i,
                                   place = (chunk % 8 ^ line % 8 ^ i % 8) * 16;
                    cp_async_16(tile + (page * PAGE + i) * 128 + place, from + i * (D * 2),
                                position >= s.low && position <= s.high);
                }
            }
            cp_async_commit();
            blocks = blocks_of(start + shape::TILE);
            cp_async_wait<0>();
            fence_async();
            mbarrier_arrive(barriers.full(kind, n));
        }
    }
}

/* As bring, of a cache of 8 bits. A thread has 16 numbers of rows that are 8 apart: eight threads that
 * store at once have eight rows, so other banks. staged: STAGED bytes. */
template <class shape, int A, int C, int D>
static __device__ __forceinline__ void
bring_narrow(const struct attention_call &call, const prompt_rows<ROWS> &rows,
             const prompt_barriers &barriers, unsigned char *ring, unsigned char *staged,
             uint32_t kind, uint32_t head) {
    enum : uint32_t {
        CHUNKS = D / 16,
        PASSES = PAGE * CHUNKS / 64,
        ACROSS = CHUNKS > 8 ? CHUNKS / 8 : 1, /* passes with the same rows */
        PAGES = shape::PAGES,
        LEAD = shape::STAGED_PAGES
    };
    const struct kv_pages &kv = call.kv;
    const uint32_t tid = threadIdx.x % 64, lane = tid % 32, row = tid % 8,
                   mask = kv.block_tokens - 1, shift = (uint32_t)__ffs((int)kv.block_tokens) - 1;
    const uint32_t first_chunk = tid / 8 % CHUNKS, first_line = tid / 8 / CHUNKS * 8 + row;
    const unsigned char *base =
        kv.base + head * kv.head_stride() + first_line * D + first_chunk * 16;
    /* of the first of the two chunks that 16 numbers become; the other is next to it, as row is odd or not */
    const uint32_t place =
        first_chunk / 4 * shape::PANEL + first_line * 128 + (first_chunk * 2 % 8 ^ row) * 16;
    staged += tid * 16;

    struct segment s = rows.next_segment(call, 0);
    if (s.first >= ROWS)
        return;
    uint32_t start = s.low / shape::TILE * shape::TILE, blocks = 0;
    const uint32_t *table = NULL;
    auto look_up = [&] { /* the block of each 16 positions, by lanes */
                         const uint32_t first = start + lane % PAGES * PAGE;
                         table = kv.tables + (size_t)s.slot * kv.max_blocks;
                         blocks =
                             first <= s.high && first + PAGE > s.low ? table[first >> shift] : 0;
    };
    auto copy = [&](uint32_t page) {
        const uint32_t block = __shfl_sync(0xffffffffu, blocks, (int)page),
                       first = start + page * PAGE;
        const unsigned char *from = base + block * kv.block_stride + (first & mask) * D;
#pragma unroll
        for (uint32_t i = 0; i < PASSES; i++) {
            const uint32_t line = i / ACROSS * 8, position = first + first_line + line;
            cp_async_16(staged + (page % LEAD * PASSES + i) * 1024,
                        from + line * D + i % ACROSS * 128,
                        position >= s.low && position <= s.high);
        }
    };
    /* Four positions a thread; what lies behind the last that is seen is zeros, as nobody may have written
     * it. Before the first lies what was. */
    auto copy_scales = [&](uint32_t n) {
        DYNAMIC_SHARED(area); /* not by a pointer: registers are short */
        float *to = (float *)(area + shape::SCALES_AT) + (kind * RING + n % RING) * shape::TILE;
        const uint32_t at = tid * 4, first = start + at,
                       block = __shfl_sync(0xffffffffu, blocks, (int)(at / PAGE % PAGES));
        uint32_t past = 2 * kv.kv_heads; /* made anew each time: registers are short */
        register_hold(past);
        const float *from =
            (const float *)(kv.base + block * kv.block_stride + past * kv.head_stride()) +
            (size_t)head * kv.block_tokens + (first & mask);
        const uint32_t seen =
            first + 4 > s.low && first <= s.high ? min(s.high - first + 1, 4u) : 0;
        if (at < shape::TILE)
            cp_async_some(to + at, from, seen * 4);
    };
    look_up();
#pragma unroll
    for (uint32_t page = 0; page < LEAD; page++) {
        copy(page);
        cp_async_commit();
    }
    bool more = true;
    for (uint32_t n = 0; more; n++) {
        if (n >= RING)
            mbarrier_wait(barriers.empty(kind, n), (n / RING - 1) & 1);
        if (shape::SCALED)
            copy_scales(n); /* with this tile's first page, which is waited for below */
        unsigned char *lower = ring + n % RING * shape::TILE_BYTES + place,
                      *upper = ring + n % RING * shape::TILE_BYTES + (place ^ 16);
#pragma unroll
        for (uint32_t page = 0; page < PAGES; page++) {
            if (page == LEAD) { /* all of this tile has been asked for */
                start += shape::TILE;
                if (start > s.high) {
                    s = rows.next_segment(call, s.end);
                    more = s.first < ROWS;
                    start = s.low / shape::TILE * shape::TILE;
                }
                if (more)
                    look_up();
            }
            cp_async_wait<LEAD - 1>(); /* this page has come */
#pragma unroll
            for (uint32_t i = 0; i < PASSES; i++) {
                const uint4 w = *(const uint4 *)(staged + (page % LEAD * PASSES + i) * 1024);
                const uint32_t past =
                    (page * PAGE + i / ACROSS * 8) * 128 + i % ACROSS * 2 * shape::PANEL;
                *(uint4 *)(lower + past) =
                    make_uint4(dequantize_two<A, C>(w.x, false), dequantize_two<A, C>(w.x, true),
                               dequantize_two<A, C>(w.y, false), dequantize_two<A, C>(w.y, true));
                *(uint4 *)(upper + past) =
                    make_uint4(dequantize_two<A, C>(w.z, false), dequantize_two<A, C>(w.z, true),
                               dequantize_two<A, C>(w.w, false), dequantize_two<A, C>(w.w, true));
            }
            if (page < LEAD || more)
                copy((page + LEAD) % PAGES);
            cp_async_commit();
        }
        fence_async();
        mbarrier_arrive(barriers.full(kind, n));
    }
    cp_async_wait<0>();
}

/* What a thread knows of its two rows, 8 apart. */
struct row_state {
    float max[2], sum[2];              /* of scores as they are, of its own columns */
    uint32_t seen_from[2], seen_to[2]; /* it sees [from, to) */
    uint32_t all_from, all_to;         /* seen by all of the warp's rows */
};

/* Scores of a tile become weights, not rounded yet; factor: of what was summed before. */
template <int COUNT>
static __device__ __forceinline__ void exponentials(float (&scores)[COUNT], struct row_state *row,
                                                    float scale, uint32_t start, float factor[2]) {
    if (start < row->all_from || start + COUNT * 2 > row->all_to) {
        const uint32_t first = start + threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const uint32_t position = first + i / 4 * 8 + i % 2;
            const bool seen =
                position >= row->seen_from[i % 4 / 2] && position < row->seen_to[i % 4 / 2];
            scores[i] = seen ? scores[i] : MINUS_INFINITY;
        }
    }
    float best[2] = {row->max[0], row->max[1]};
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        best[i % 4 / 2] = fmaxf(best[i % 4 / 2], scores[i]);
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int by = 1; by < 4; by *= 2)
            best[half] = fmaxf(best[half], __shfl_xor_sync(0xffffffffu, best[half], by));
        const float at = best[half] == MINUS_INFINITY ? 0.0f : best[half] * scale;
        factor[half] = fast_exp2(__fmaf_rn(row->max[half], scale, -at));
        row->max[half] = best[half];
        best[half] = at;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        scores[i] = fast_exp2(__fmaf_rn(scores[i], scale, -best[i % 4 / 2]));
}

/* Scores of keys that have a scale: of a tile's positions, those of the thread's columns. */
template <int COUNT>
static __device__ __forceinline__ void scale_scores(float (&scores)[COUNT], const float *scales) {
    scales += threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const float2 of = *(const float2 *)(scales + i * 2);
#pragma unroll
        for (int e = 0; e < 4; e++)
            scores[i + e] *= e % 2 ? of.y : of.x;
    }
}

/* Weights rounded, as the left operand of the product by V; the sum is of the rounded ones. SCALED:
 * times the scales of a tile's values; the sum is of those without. */
template <int A, bool SCALED, int COUNT>
static __device__ __forceinline__ void
round_weights(const float (&weights)[COUNT], uint32_t (&rounded)[COUNT / 8][4],
              struct row_state *row, const float factor[2], const float *scales) {
    float added[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        float2 of = make_float2(1, 1);
        if (SCALED)
            of = *(const float2 *)(scales + threadIdx.x % 4 * 2 + i / 4 * 8);
        const uint32_t pair = SCALED ? pack<A>(weights[i] * of.x, weights[i + 1] * of.y)
                                     : pack<A>(weights[i], weights[i + 1]);
        rounded[i / 8][i % 8 / 2] = pair;
        added[i % 4 / 2] += SCALED ? weights[i] + weights[i + 1] : rounded_sum<A>(pair);
    }
#pragma unroll
    for (int half = 0; half < 2; half++)
        row->sum[half] = __fmaf_rn(row->sum[half], factor[half], added[half]);
}

/* The sums over V so far, to the new max. Plus nought: a nought never has a sign, so that a tile that is
 * not seen and adds one changes no bit. */
template <int COUNT>
static __device__ __forceinline__ void scale_sums(float (&sums)[COUNT], const float factor[2]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        sums[i] = __fmaf_rn(sums[i], factor[i % 4 / 2], 0.0f);
}

/* A warpgroup's 64 rows of head h. q: its queries; k, v: the rings. */
template <class shape, int A, int D>
static __device__ __forceinline__ void
attend(const struct attention_call &call, const prompt_rows<ROWS> &rows,
       const prompt_barriers &barriers, unsigned char *q, unsigned char *k, unsigned char *v,
       uint32_t group, uint32_t h, uint32_t t0) {
    typedef typename values<A>::raw raw;
    enum : uint32_t { TILE = shape::TILE };
    const uint32_t mine = threadIdx.x % GROUP, lane = mine % 32, own = group * GROUP_ROWS;
    const uint32_t row_0 = own + mine / 32 * 16 + lane / 4;

    /* 1. queries; padding is zeros, and so is what becomes of it */
    for (uint32_t i = mine; i < GROUP_ROWS * D / 8; i += GROUP) {
        const uint32_t r = i / (D / 8), chunk = i % (D / 8);
        const bool padding = rows.position(own + r) == (uint32_t)ROW_NONE;
        cp_async_16(q + chunk / 8 * shape::Q_PANEL + swizzled_chunk(r, chunk % 8) * 2,
                    (const raw *)call.qkv +
                        (size_t)(call.row_first + t0 + own + r) * call.row_width() + (size_t)h * D +
                        chunk * 8,
                    !padding);
        if (padding && t0 + own + r < call.row_count)
            *(uint4 *)((raw *)call.out +
                       ((size_t)(call.row_first + t0 + own + r) * call.heads + h) * D + chunk * 8) =
                make_uint4(0, 0, 0, 0);
    }
    cp_async_commit();
    cp_async_wait<0>();
    fence_async();
    mbarrier_arrive(barriers.queries(group));
    mbarrier_wait(barriers.queries(group), 0);

    const uint64_t first_q = wgmma_tile(q, 0), first_k = wgmma_tile(k, 0),
                   first_v = wgmma_panels(v, shape::PANEL);
    float scores[TILE / 2], sums[D / 2], factor[2];
    uint32_t weights[TILE / 16][4];
    uint32_t n = 0; /* tiles of the block so far, as bring counts them */
    /* asks for the scores of tile n; for the weights at hand by V of tile n */
    auto ask_scores = [&](uint32_t number) {
        const uint64_t tile = wgmma_tile_past(first_k, number % RING * shape::TILE_BYTES);
#pragma unroll
        for (uint32_t i = 0; i < D / 16; i++)
            wgmma_shape<A, TILE>::tiles(
                scores, wgmma_tile_past(first_q, i / 4 * shape::Q_PANEL + i % 4 * 32),
                wgmma_tile_past(tile, i / 4 * shape::PANEL + i % 4 * 32), i == 0);
        wgmma_commit();
    };
    auto ask_sums = [&](uint32_t number) {
        const uint64_t tile = wgmma_tile_past(first_v, number % RING * shape::TILE_BYTES);
#pragma unroll
        for (uint32_t i = 0; i < TILE / 16; i++)
            wgmma_shape<A, D>::by_panels(sums, weights[i], wgmma_tile_past(tile, i * 2048));
        wgmma_commit();
    };
    auto scales_of = [&](uint32_t kind, uint32_t number) {
        DYNAMIC_SHARED(area); /* not by a pointer: registers are short */
        return (const float *)(area + shape::SCALES_AT) + (kind * RING + number % RING) * TILE;
    };
    /* scores of tile n that are there become weights of its V */
    auto weigh = [&](uint32_t number, uint32_t at, struct row_state *row) {
        if (shape::SCALED) {
            scale_scores(scores, scales_of(K, number));
            __syncwarp(); /* one lane says for all that they have been read */
        }
        barriers.release(K, number);
        exponentials(scores, row, call.scale, at * TILE, factor);
    };
    auto round = [&](uint32_t number, struct row_state *row) {
        if (shape::SCALED)
            barriers.wait_full(V, number);
        round_weights<A, shape::SCALED != 0>(scores, weights, row, factor, scales_of(V, number));
        if (shape::SCALED)
            __syncwarp();
    };
    auto skip = [&](uint32_t number) {
        barriers.wait_turn(group, number);
        barriers.pass_turn(group);
        barriers.wait_full(K, number);
        barriers.release(K, number);
        barriers.wait_full(V, number);
        barriers.release(V, number);
    };

    for (struct segment s = rows.next_segment(call, 0); s.first < ROWS;
         s = rows.next_segment(call, s.end)) {
        const uint32_t from = max(s.first, own), to = min(s.end, own + GROUP_ROWS);
        const uint32_t tiles = s.high / TILE - s.low / TILE + 1, first_tile = s.low / TILE;
        uint32_t low, high;
        rows.see(call, from, to, &low, &high);
        if (from >= to) { /* none of its rows */
            for (uint32_t i = 0; i < tiles; i++)
                skip(n++);
            continue;
        }
        struct row_state row = {{MINUS_INFINITY, MINUS_INFINITY}, {0, 0}, {0, 0}, {0, 0}, 0, 0};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t r = row_0 + half * 8;
            const bool inside = r >= s.first && r < s.end;
            row.seen_from[half] = inside ? call.first_position(rows.position(r)) : 0;
            row.seen_to[half] = inside ? rows.last(r) + 1 : UINT32_MAX;
        }
        row.all_from = warp_max_u32(max(row.seen_from[0], row.seen_from[1]));
        row.all_to = warp_min_u32(min(row.seen_to[0], row.seen_to[1]));
#pragma unroll
        for (int i = 0; i < D / 2; i++)
            sums[i] = 0;
        uint32_t at = first_tile;
        for (; at < low / TILE; at++)
            skip(n++);

        /* 2. the first tile that is seen: scores alone */
        barriers.wait_full(K, n);
        barriers.wait_turn(group, n);
        wgmma_fence();
        ask_scores(n);
        barriers.pass_turn(group);
        wgmma_wait<0>();
        wgmma_hold(scores);
        weigh(n, at, &row);
        round(n, &row);
        n++;

        /* 3. scores of the next, sums over V of the one before */
        for (at++; at <= high / TILE; at++, n++) {
            barriers.wait_full(K, n);
            barriers.wait_full(V, n - 1);
            barriers.wait_turn(group, n);
            wgmma_hold(sums);
            wgmma_fence();
            ask_scores(n);
            ask_sums(n - 1);
            barriers.pass_turn(group);
            wgmma_wait<1>();
            wgmma_hold(scores);
            weigh(n, at, &row);
            wgmma_wait<0>();
            wgmma_hold(sums);
            barriers.release(V, n - 1);
            scale_sums(sums, factor);
            round(n, &row);
        }
        barriers.wait_full(V, n - 1);
        wgmma_hold(sums);
        wgmma_fence();
        ask_sums(n - 1);
        wgmma_wait<0>();
        wgmma_hold(sums);
        barriers.release(V, n - 1);
        for (; at <= s.high / TILE; at++)
            skip(n++);

            /* 4. the rows, two dims at a time */
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int by = 1; by < 4; by *= 2)
                row.sum[half] += __shfl_xor_sync(0xffffffffu, row.sum[half], by);
            factor[half] =
                take_sink(call, block_x_again(), row.max[half] * call.scale, &row.sum[half]);
            factor[half] = __fdiv_rn(factor[half], row.sum[half]);
            const uint32_t r = row_0 + half * 8;
            if (r < s.first || r >= s.end)
                continue;
            raw *to_row = (raw *)call.out +
                          ((size_t)(call.row_first + shape::first_row(call) + r) * call.heads +
                           block_x_again()) *
                              D +
                          lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < D / 8; j++)
                *(uint32_t *)(to_row + j * 8) = pack<A>(sums[j * 4 + half * 2] * factor[half],
                                                        sums[j * 4 + half * 2 + 1] * factor[half]);
        }
    }
}

template <int A, int C, int D>
static __global__
__launch_bounds__(3 * GROUP, 1) void attention_prompt_hopper_kernel(struct attention_call call) {
#if defined(PTX_SM90A) /* elsewhere nobody launches it */
    typedef prompt_shape<A, C, D> shape;
    DYNAMIC_SHARED(area);
    const prompt_barriers barriers = {(uint64_t *)area};
    const prompt_rows<ROWS> rows = {(uint32_t *)(area + shape::BARRIERS)};
    const uintptr_t past = (uintptr_t)(area + shape::AHEAD) % 1024;
    unsigned char *q = area + shape::AHEAD + (past ? 1024 - past : 0),
                  *k = q + 2 * shape::PANELS * shape::Q_PANEL, *v = k + RING * shape::TILE_BYTES;
    const uint32_t h = blockIdx.x, t0 = shape::first_row(call);
    if (threadIdx.x == 0)
        barriers.init();
    dependency_wait();
    dependents_launch();
    rows.load(call, t0);
    __syncthreads();
    if (threadIdx.x < GROUP) {
        registers_shrink<40>();
        const uint32_t kind = threadIdx.x / 64, g = h / (call.heads / call.kv.kv_heads);
        const uint32_t head = kind == K ? g : call.kv.kv_heads + g;
        if constexpr (shape::NARROW != 0)
            bring_narrow<shape, A, C, D>(call, rows, barriers, kind == K ? k : v,
                                         v + RING * shape::TILE_BYTES + kind * shape::STAGED, kind,
                                         head);
        else
            bring<shape, D>(call, rows, barriers, kind == K ? k : v, kind, head);
    } else {
        registers_grow<232>();
        const uint32_t group = threadIdx.x / GROUP - 1;
        attend<shape, A, D>(call, rows, barriers, q + group * shape::PANELS * shape::Q_PANEL, k, v,
                            group, h, t0);
    }
#endif
}

template <int A, int C, int D>
static void launch_shape_of(struct stream *s, const struct attention_call &call) {
    const launch_shape shape = {dim3(call.heads, blocks_for(call.row_count, ROWS)), dim3(3 * GROUP),
                                prompt_shape<A, C, D>::BYTES, device_of(s)->dependent_launch};
    LAUNCH((attention_prompt_hopper_kernel<A, C, D>), shape, cuda_stream_of(s), call);
}

/* False: not for this head size, nothing is done. */
template <int A, int C>
static bool attention_prompt_hopper_of(struct stream *s, const struct attention_call &call) {
    switch (call.kv.head_dim) {
    case 64: launch_shape_of<A, C, 64>(s, call); return true;
    case 128: launch_shape_of<A, C, 128>(s, call); return true;
    case 256: launch_shape_of<A, C, 256>(s, call); return true;
    default: return false;
    }
}

#endif
