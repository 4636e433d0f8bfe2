/*
 * attention_decode.cuh - attention of output-class rows over the paged cache: the decode family.
 * Instances: attention_decode.cu (caches of 16 bits), attention_decode_narrow.cu and
 * attention_decode_narrow_f16.cu (of 8).
 *
 * A task is one split of one row (struct attention_call), or all of them, for up to 16 query heads
 * of one KV head: those heads are the 16 rows of the tensor cores' tiles. Blocks take tasks from a flat
 * list, which every block makes for itself from the rows' positions, so rows of any length share
 * the GPU evenly. Splits go to scratch; the block that brings the last split of a row merges them.
 * Rows that are short beside a block's share, or whose splits have no room, are one task each.
 *
 * A split is computed in steps of 4 * TILE positions at absolute places, 128 threads:
 *   (1) warp w makes scores of positions w * TILE .. of the step;
 *   (2) max over the step, weights (rounded), sum of the rounded weights;
 *   (3) warp w sums dims 16 w .., 16 (w + 4) .. over all V of the step;
 *   (4) steps are merged into splits, splits into the row.
 *
 * K and V lie in shared memory as 8 groups of TILE / 8 rows, 16 bytes between groups: row r of a
 * tensor core's tile j is row j of group r, so eight rows that are read at once lie in different
 * banks, though each group comes as it is by one bulk copy (BULK, sm_90a) or in chunks of 16 bytes
 * (cp.async). A group lies within a block of the cache: a lane finds its address, once a step, a
 * step ahead. K of the next step is asked for when this step's scores are there, V when its sums
 * are: whatever task it belongs to, so copies are always under way.
 *
 * With BULK a block makes its list, and asks for what earlier steps wrote of its first step's K and
 * V, before it waits for the kernels ahead, which make Q and this step's K and V meanwhile. The rows'
 * slots and positions and older steps' caches are there by then, because Q, K and V come from a
 * product, and each product lets dependents begin only after its own wait: once rope_kv behind it has
 * begun, and so once this has, all ahead of the product has ended.
 *
 * Numbers of 8 bits become pairs of the activations' type in registers. A pair holds dims 0 and 2,
 * or 1 and 3, of four; Q lies in that order, and so do the sums over V.
 *
 * A row's bits depend on the row alone: a tile's other 15 rows are other heads of it or zeros, and
 * whoever merges does the same. Cost: K and V of the row once for each 16 heads of a KV head.
 */
#ifndef KERNELS_CUDA_ATTENTION_DECODE_CUH
#define KERNELS_CUDA_ATTENTION_DECODE_CUH

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/pairs.cuh"
#include "kernels/cuda/ptx_hopper.cuh"

enum {
    DECODE_THREADS = 128,
    DECODE_WARPS = 4,
    DECODE_ROWS_MAX = 1024, /* rows of a launch, at most: their list lies in shared memory */
    MERGE_AT_ONCE = 8,      /* splits whose loads are under way together */
    WHOLE_SHARE = 4         /* a row within this fraction of a block's work is one task */
};

template <int K, int D, bool BULK> struct decode_shape {
    enum {
        NARROW = K == STORAGE_F8_E4M3 || K == STORAGE_I8,
        SCALED = K == STORAGE_I8,
        ROW = NARROW ? D : 2 * D, /* bytes */
        FIT = (BULK ? 16384 : 8192) / ROW,
        TILE = FIT >= 64   ? 64
               : FIT >= 32 ? 32
                           : 16, /* positions of a warp and step */
        TILES = TILE / 8,        /* of tensor cores */
        GROUP = TILE / 8,
        PITCH = GROUP * ROW + 16,
        BUFFER = 8 * PITCH,
        STEP = DECODE_WARPS * TILE,
        CHUNKS = D / 16, /* of dims */
        WARP_CHUNKS = (CHUNKS + DECODE_WARPS - 1) / DECODE_WARPS,
        Q_STRIDE = D + 8,
        P_STRIDE = STEP + 8,
        SCALES = SCALED ? 2 * STEP : 0
    };
};

/* Where things lie in shared memory. */
template <int K, int D, bool BULK> struct decode_area {
    typedef decode_shape<K, D, BULK> shape;
    unsigned char *k, *v; /* [4 warps] buffers */
    float *scales;        /* [4 warps, K and V, TILE] */
    uint16_t *q, *p;
    float *max, *sum;   /* [4 warps, 16 heads] */
    uint64_t *barriers; /* [4] of K, [4] of V */
    uint32_t *scratch;  /* [4] of the list's making, [1] of merging */
    uint32_t *firsts, *positions, *slots;
    __device__ __forceinline__ decode_area(unsigned char *at, uint32_t rows) {
        k = at;
        v = k + DECODE_WARPS * shape::BUFFER;
        scales = (float *)(v + DECODE_WARPS * shape::BUFFER);
        barriers = (uint64_t *)(scales + shape::SCALES);
        q = (uint16_t *)(barriers + 2 * DECODE_WARPS);
        p = q + 16 * shape::Q_STRIDE;
        max = (float *)(p + 16 * shape::P_STRIDE);
        sum = max + DECODE_WARPS * 16;
        scratch = (uint32_t *)(sum + DECODE_WARPS * 16);
        firsts = scratch + 8;
        positions = firsts + rows + 1;
        slots = positions + rows;
    }
    static size_t bytes(uint32_t rows) {
        return 2 * DECODE_WARPS * shape::BUFFER + shape::SCALES * 4 + 2 * DECODE_WARPS * 8 +
               16 * (shape::Q_STRIDE + shape::P_STRIDE) * 2 + 2 * DECODE_WARPS * 16 * 4 +
               (8 + 3 * (size_t)rows + 1) * 4;
    }
};

/* Numbers 0 and 2 of four of 8 bits as a pair of type A, exactly; those of numbers 1 and 3 by
 * dequantize_pair(four >> 8). A NaN of fp8 becomes 480. */
template <int A, int K> static __device__ __forceinline__ uint32_t dequantize_pair(uint32_t four) {
    if (K == STORAGE_F8_E4M3) { /* moved to the wider type's exponent, whose bias is put right */
        const uint32_t sign = (four & 0x00800080u) << 8, rest = four & 0x007f007fu;
        return A == STORAGE_BF16 ? fma_bf16x2(rest << 4 | sign, 0x7b807b80u, 0x80008000u)
                                 : fma_f16x2(rest << 7 | sign, 0x5c005c00u, 0x80008000u);
    }
    /* 128 + the low seven bits, less 128 or 256; f16: 1024 and 1152 */
    const uint32_t low = four & 0x007f007fu, high = four & 0x00800080u;
    return A == STORAGE_BF16 ? fma_bf16x2(low | 0x43004300u, 0x3f803f80u, high | 0xc300c300u)
                             : fma_f16x2(low | 0x64006400u, 0x3c003c00u, high | 0xe400e400u);
}

/* What a kernel wrote that has ended, before dependency_wait: as L2 has it, past what L1 kept. */
static __device__ __forceinline__ uint32_t load_early(const uint32_t *at) {
    return *(const volatile uint32_t *)at;
}

/* ---- the list of tasks ---- */

/* firsts[r] = the sum of what `of` says of the rows before r, r < row_count; returns that of all. Row
 * r is asked of by thread r % 128 alone, before its firsts[r] is written. */
template <class Area, class F>
static __device__ __forceinline__ uint32_t sum_rows(const Area &area, uint32_t row_count, F of) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t before = 0;
    for (uint32_t base = 0; base < row_count; base += DECODE_THREADS) {
        const uint32_t r = base + threadIdx.x, own = r < row_count ? of(r) : 0;
        uint32_t upto = own;
        for (uint32_t by = 1; by < 32; by *= 2) {
            const uint32_t other = __shfl_up_sync(0xffffffffu, upto, by);
            if (lane >= by)
                upto += other;
        }
        if (lane == 31)
            area.scratch[warp] = upto;
        __syncthreads();
        for (uint32_t w = 0; w < warp; w++)
            upto += area.scratch[w];
        if (r < row_count)
            area.firsts[r] = before + upto - own;
        for (uint32_t w = 0; w < DECODE_WARPS; w++)
            before += area.scratch[w];
        __syncthreads();
    }
    return before;
}

/* Reads the rows; firsts[r] = tasks of the rows before r and of one list, for r <= row_count. A row
 * is one task for each of its splits, if these have room in scratch, or one that does all. */
template <class Area>
static __device__ __forceinline__ void list_tasks(const struct attention_call &call,
                                                  const Area &area, uint32_t lists) {
    const uint32_t splits = sum_rows(area, call.row_count, [&](uint32_t r) {
        area.slots[r] = load_early(call.slots + call.row_first + r);
        area.positions[r] = load_early(call.positions + call.row_first + r);
        return call.splits_of(area.positions[r]);
    });
    const uint32_t few = max(splits * lists / (gridDim.x * WHOLE_SHARE), 1u);
    const uint32_t tasks = sum_rows(area, call.row_count, [&](uint32_t r) {
        const uint32_t own = call.splits_of(area.positions[r]);
        return own <= few || area.firsts[r] + own > call.unit_max ? 1u : own;
    });
    if (threadIdx.x == 0)
        area.firsts[call.row_count] = tasks;
    __syncthreads();
}

/* The largest r with firsts[r] <= unit, over r in [0, count]. */
static __device__ __forceinline__ uint32_t last_not_above(const uint32_t *firsts, uint32_t count,
                                                          uint32_t unit) {
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t mid = (low + high + 1) / 2;
        if (firsts[mid] <= unit)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

/* Tasks, each times `lists` (KV heads, 16 query heads at a time). */
struct decode_list {
    uint32_t lists, chunks, group, count;
};

/* A step of a task. Positions [from, end) of those from `start` on are seen. */
struct decode_step {
    uint32_t n, row, slot, position, first, g, head_first, head_count, list;
    uint32_t split, split_last, unit_first, splits, start, from, end;
    bool whole, opens_task, opens_split;
};

template <class Area>
static __device__ __forceinline__ void set_range(struct decode_step *s, uint32_t start) {
    s->start = start;
    s->from = max(start, s->first);
    s->end = min(start + Area::shape::STEP, s->position + 1);
}
template <class Area>
static __device__ __forceinline__ void open_split(struct decode_step *s, uint32_t split) {
    const uint32_t low = max(attention_call::split_start(split), s->first);
    s->split = split;
    s->opens_split = true;
    set_range<Area>(s, low / Area::shape::STEP * Area::shape::STEP);
}

/* The first step of the task at n, or of the first one behind that has any; n == list.count:
 * none. */
template <class Area>
static __device__ __forceinline__ void open_task(const struct attention_call &call,
                                                 const Area &area, const struct decode_list &list,
                                                 struct decode_step *s, uint32_t n) {
    s->opens_task = true;
    for (; n < list.count; n += gridDim.x) {
        const uint32_t task = n / list.lists, r = last_not_above(area.firsts, call.row_count, task);
        s->list = n % list.lists;
        s->row = r;
        s->position = area.positions[r];
        s->slot = area.slots[r];
        s->unit_first = area.firsts[r];
        s->splits = area.firsts[r + 1] - s->unit_first;
        s->whole = s->splits == 1;
        s->g = s->list / list.chunks;
        s->head_first = s->g * list.group + s->list % list.chunks * 16;
        s->head_count = min(list.group - s->list % list.chunks * 16, 16u);
        if (s->position == (uint32_t)ROW_NONE)
            continue;
        s->first = call.first_position(s->position);
        s->split_last = attention_call::split_of(s->position);
        const uint32_t split_first = attention_call::split_of(s->first);
        if (!s->whole) /* the longest splits come first */
            s->split_last -= task - s->unit_first;
        open_split<Area>(s, s->whole ? split_first : s->split_last);
        break;
    }
    s->n = n < list.count ? n : list.count;
}

template <class Area>
static __device__ __forceinline__ void advance(const struct attention_call &call, const Area &area,
                                               const struct decode_list &list,
                                               struct decode_step *s) {
    s->opens_task = s->opens_split = false;
    const uint32_t next = s->start + Area::shape::STEP;
    if (next < min(attention_call::split_start(s->split + 1), s->position + 1))
        set_range<Area>(s, next);
    else if (s->split < s->split_last)
        open_split<Area>(s, s->split + 1);
    else
        open_task(call, area, list, s, s->n + gridDim.x);
}

/* ---- copies ---- */

/* Whether positions [start, start + count) have any that are seen. */
static __device__ __forceinline__ bool any_seen(const struct decode_step &s, uint32_t start,
                                                uint32_t count) {
    return start < s.end && start + count > s.from;
}

/* Lane r < 8: the cache's block that has group r of this warp's tile. */
template <class Area>
static __device__ __forceinline__ uint32_t block_of(const struct attention_call &call,
                                                    const struct decode_step &s, uint32_t tasks,
                                                    uint32_t shift) {
    const uint32_t at =
        s.start + threadIdx.x / 32 * Area::shape::TILE + threadIdx.x % 32 * Area::shape::GROUP;
    if (s.n >= tasks || threadIdx.x % 32 >= 8 || !any_seen(s, at, Area::shape::GROUP))
        return 0;
    return load_early(call.kv.tables + (size_t)s.slot * call.kv.max_blocks + (at >> shift));
}

/* Which groups of a step are asked for: all, or those whose positions all lie below `old`, and then
 * the others. */
enum load_groups { LOAD_ALL, LOAD_OLD, LOAD_REST };

/* This warp's tile of K (head = the KV head) or V (kv_heads more) of a step. */
template <int WHICH, class Area>
static __device__ __forceinline__ void
load_bulk(const struct attention_call &call, const struct decode_step &s, uint32_t block,
          unsigned char *to, float *scales, uint32_t head, uint64_t *barrier, uint32_t old) {
    typedef typename Area::shape shape;
    const uint32_t lane = threadIdx.x % 32, low = s.start + threadIdx.x / 32 * shape::TILE,
                   at = low + lane * shape::GROUP;
    const bool seen = lane < 8 && any_seen(s, at, shape::GROUP);
    if (WHICH != LOAD_REST) {
        const uint32_t copies = (uint32_t)__popc(__ballot_sync(0xffffffffu, seen));
        const uint32_t bytes = shape::GROUP * shape::ROW + (shape::SCALED ? shape::GROUP * 4 : 0);
        if (lane == 0)
            mbarrier_arrive_expect(barrier, copies * bytes);
        __syncwarp();
    }
    if (!seen || (WHICH != LOAD_ALL && (at + shape::GROUP <= old) != (WHICH == LOAD_OLD)))
        return;
    const struct kv_pages &kv = call.kv;
    const uint32_t within = at & (kv.block_tokens - 1);
    const unsigned char *page = kv.base + block * kv.block_stride;
    copy_bulk(to + lane * shape::PITCH,
              page + ((size_t)head * kv.block_tokens + within) * shape::ROW,
              shape::GROUP * shape::ROW, barrier);
    if (shape::SCALED)
        copy_bulk(scales + lane * shape::GROUP,
                  page +
                      ((size_t)2 * kv.kv_heads * shape::ROW + (size_t)head * 4) * kv.block_tokens +
                      within * 4,
                  shape::GROUP * 4, barrier);
}

/* The same in chunks of 16 bytes; rows that are not seen become zeros. */
template <class Area>
static __device__ __forceinline__ void
load_chunks(const struct attention_call &call, const struct decode_step &s, uint32_t block,
            unsigned char *to, float *scales, uint32_t head) {
    typedef typename Area::shape shape;
    enum { CHUNKS = shape::ROW / 16, ALL = shape::TILE * CHUNKS };
    const struct kv_pages &kv = call.kv;
    const uint32_t lane = threadIdx.x % 32, low = s.start + threadIdx.x / 32 * shape::TILE;
    const uint32_t mask = kv.block_tokens - 1;
    const unsigned char *head_at = kv.base + (size_t)head * kv.block_tokens * shape::ROW;
#pragma unroll
    for (uint32_t n = 0; n < (ALL + 31) / 32; n++) {
        const uint32_t i = n * 32 + lane, row = i / CHUNKS, c = i % CHUNKS * 16;
        const uint32_t here = __shfl_sync(0xffffffffu, block, (int)(row / shape::GROUP % 8));
        const uint32_t at = low + row;
        if (ALL % 32 == 0 || i < ALL)
            cp_async_16(to + row / shape::GROUP * shape::PITCH + row % shape::GROUP * shape::ROW +
                            c,
                        head_at + here * kv.block_stride + (at & mask) * shape::ROW + c,
                        at >= s.from && at < s.end);
    }
    if (shape::SCALED) {
        const uint32_t at = low + lane * 4;
        const uint32_t here = __shfl_sync(0xffffffffu, block, (int)(lane * 4 / shape::GROUP % 8));
        if (lane < shape::TILE / 4)
            cp_async_16(scales + lane * 4,
                        kv.base + here * kv.block_stride +
                            ((size_t)2 * kv.kv_heads * shape::ROW + (size_t)head * 4) *
                                kv.block_tokens +
                            (at & mask) * 4,
                        any_seen(s, at, 4));
    }
}

template <bool BULK, int WHICH = LOAD_ALL, class Area>
static __device__ __forceinline__ void load(const struct attention_call &call, const Area &area,
                                            const struct decode_step &s, uint32_t tasks,
                                            uint32_t block, bool is_v, uint32_t old = 0) {
    typedef typename Area::shape shape;
    const uint32_t warp = threadIdx.x / 32, head = s.g + (is_v ? call.kv.kv_heads : 0);
    if (s.n < tasks) {
        unsigned char *to = (is_v ? area.v : area.k) + warp * shape::BUFFER;
        float *scales = area.scales + (shape::SCALED ? (2 * warp + is_v) * shape::TILE : 0);
        if (BULK)
            load_bulk<WHICH, Area>(call, s, block, to, scales, head,
                                   area.barriers + (is_v ? DECODE_WARPS : 0) + warp, old);
        else
            load_chunks<Area>(call, s, block, to, scales, head);
    }
    if (!BULK)
        cp_async_commit();
}

/* ---- a step ---- */

/* Scores of the warp's tile: s[j][e] of head lane / 4 + e / 2 * 8, row j of group lane % 4 * 2 + e
 * % 2. */
template <int A, int K, class Area>
static __device__ __forceinline__ void make_scores(const Area &area,
                                                   float s[Area::shape::TILES][4]) {
    typedef typename Area::shape shape;
    const uint32_t lane = threadIdx.x % 32;
    const unsigned char *k = area.k + threadIdx.x / 32 * shape::BUFFER + lane % 8 * shape::PITCH;
    const uint16_t *q = area.q + lane % 16 * shape::Q_STRIDE + lane / 16 * 8;
#pragma unroll
    for (int c = 0; c < shape::CHUNKS; c++) {
        uint32_t a[4], b[4];
        ldmatrix_x4(a, q + c * 16);
        if (shape::NARROW) {
#pragma unroll
            for (int j = 0; j < shape::TILES; j += 4) {
                ldmatrix_x4(b, k + (j + lane / 8) * shape::ROW + c * 16);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const uint32_t pairs[2] = {dequantize_pair<A, K>(b[i]),
                                               dequantize_pair<A, K>(b[i] >> 8)};
                    mma<A>(s[j + i], a, pairs);
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < shape::TILES; j += 2) {
                ldmatrix_x4(b, k + (j + lane / 16) * shape::ROW + c * 32 + lane / 8 % 2 * 16);
                mma<A>(s[j], a, b);
                mma<A>(s[j + 1], a, b + 2);
            }
        }
    }
}

/* sums += weights * V of warp `of`'s tile. masked: some of its positions are not seen, and hold
 * anything. */
template <int A, int K, bool masked, class Area>
static __device__ __forceinline__ void add_values(const Area &area, const struct decode_step &step,
                                                  uint32_t of,
                                                  float sums[Area::shape::WARP_CHUNKS][2][4]) {
    typedef typename Area::shape shape;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned char *v = area.v + of * shape::BUFFER + lane % 8 * shape::PITCH;
    const uint16_t *p = area.p + lane % 16 * shape::P_STRIDE + of * shape::TILE + lane / 16 * 8;
    const uint32_t at = step.start + of * shape::TILE + lane % 4 * 2 * shape::GROUP;
    auto seen = [&](uint32_t j) { /* of the pair of positions in row j of two groups */
                                  const uint32_t lo = at + j, hi = lo + shape::GROUP;
                                  return (lo >= step.from && lo < step.end ? 0xffffu : 0u) |
                                         (hi >= step.from && hi < step.end ? 0xffff0000u : 0u);
    };
    enum { WIDE = shape::NARROW ? 4 : 2 };
#pragma unroll
    for (int j = 0; j < shape::TILES; j += WIDE) {
        uint32_t a[WIDE / 2][4], mask[WIDE];
#pragma unroll
        for (int i = 0; i < WIDE / 2; i++)
            ldmatrix_x4(a[i], p + (j + 2 * i) * 8);
        if (masked)
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                mask[i] = seen((uint32_t)(j + i));
#pragma unroll
        for (int i = 0; i < shape::WARP_CHUNKS; i++) {
            const uint32_t c = warp + DECODE_WARPS * i;
            uint32_t b[4];
            if (shape::CHUNKS % DECODE_WARPS && c >= shape::CHUNKS)
                continue;
            if (shape::NARROW) {
                ldmatrix_x4_trans(b, v + (j + lane / 8) * shape::ROW + c * 16);
                if (masked)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        b[e] &= mask[e % WIDE];
#pragma unroll
                for (int e = 0; e < WIDE / 2; e++) {
                    const uint32_t even[2] = {dequantize_pair<A, K>(b[2 * e]),
                                              dequantize_pair<A, K>(b[2 * e + 1])},
                                   odd[2] = {dequantize_pair<A, K>(b[2 * e] >> 8),
                                             dequantize_pair<A, K>(b[2 * e + 1] >> 8)};
                    mma<A>(sums[i][0], a[e], even);
                    mma<A>(sums[i][1], a[e], odd);
                }
            } else {
                ldmatrix_x4_trans(b, v + (j + lane / 8 % 2) * shape::ROW + c * 32 + lane / 16 * 16);
                if (masked)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        b[e] &= mask[e % 2];
                mma<A>(sums[i][0], a[0], b);
                mma<A>(sums[i][1], a[0], b + 2);
            }
        }
    }
}

/* Scores times log2 e, as the call wants them: scaled, capped, biased; not seen: minus infinity. */
template <class Area>
static __device__ __forceinline__ void
finish_scores(const struct attention_call &call, const Area &area, const struct decode_step &step,
              float s[Area::shape::TILES][4]) {
    typedef typename Area::shape shape;
    const float log2_e = 1.44269504088896340736f;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t at = step.start + warp * shape::TILE + lane % 4 * 2 * shape::GROUP;
    const float *scales = area.scales + 2 * warp * shape::TILE + lane % 4 * 2 * shape::GROUP;
#pragma unroll
    for (int j = 0; j < shape::TILES; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[j][e] *= shape::SCALED ? scales[e % 2 * shape::GROUP + j] * call.scale : call.scale;
    if (call.soft_cap != 0) {
#pragma unroll
        for (int j = 0; j < shape::TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[j][e] = soft_capped(s[j][e], call.soft_cap);
    }
    if (call.slopes) {
        float slope[2];
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t h = lane / 4 + half * 8;
            slope[half] = h < step.head_count ? call.slopes[step.head_first + h] * log2_e : 0;
        }
#pragma unroll
        for (int j = 0; j < shape::TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[j][e] -=
                    slope[e / 2] * (float)(int)(step.position - (at + e % 2 * shape::GROUP + j));
    }
#pragma unroll
    for (int j = 0; j < shape::TILES; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const uint32_t position = at + e % 2 * shape::GROUP + j;
            if (position < step.from || position >= step.end)
                s[j][e] = MINUS_INFINITY;
        }
}

/* Largest scores of the warp's tile, a head's in all its four lanes. */
template <class Area>
static __device__ __forceinline__ void tile_max(const float s[Area::shape::TILES][4],
                                                float best[2]) {
    best[0] = best[1] = MINUS_INFINITY;
#pragma unroll
    for (int j = 0; j < Area::shape::TILES; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            best[e / 2] = s[j][e] > best[e / 2] ? s[j][e] : best[e / 2];
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int by = 1; by < 4; by *= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, best[half], by);
            best[half] = other > best[half] ? other : best[half];
        }
}

/* Weights of the warp's tile into p; their sums. An int8 V's scale goes into its weight. */
template <int A, class Area>
static __device__ __forceinline__ void
make_weights(const Area &area, const struct decode_step &step, const float s[Area::shape::TILES][4],
             const float best[2], float sum[2]) {
    typedef typename Area::shape shape;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t at = step.start + warp * shape::TILE + lane % 4 * 2 * shape::GROUP;
    const float *scales = area.scales + (2 * warp + 1) * shape::TILE + lane % 4 * 2 * shape::GROUP;
    uint32_t *p = (uint32_t *)(area.p + lane / 4 * shape::P_STRIDE + warp * shape::TILE) + lane % 4;
    sum[0] = sum[1] = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int j = 0; j < shape::TILES; j++) {
            float w[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t position = at + i * shape::GROUP + j;
                w[i] = fast_exp2(s[j][half * 2 + i] - best[half]);
                if (shape::SCALED) {
                    sum[half] += w[i];
                    w[i] *= position >= step.from && position < step.end
                                ? scales[i * shape::GROUP + j]
                                : 0.0f;
                }
            }
            const uint32_t pair = pack<A>(w[0], w[1]);
            if (!shape::SCALED)
                sum[half] += rounded_sum<A>(pair);
            p[half * 8 * shape::P_STRIDE / 2 + j * 4] = pair;
        }
#pragma unroll
        for (int by = 1; by < 4; by *= 2)
            sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], by);
    }
}

/* What a thread keeps of a step, a split, a row: of its heads lane / 4 and 8 more. */
template <int CHUNKS> struct softmax_state {
    float max[2], sum[2], acc[CHUNKS][2][4];
    __device__ __forceinline__ void clear() {
        max[0] = max[1] = MINUS_INFINITY;
        sum[0] = sum[1] = 0;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
#pragma unroll
            for (int e = 0; e < 8; e++)
                acc[i][e / 4][e % 4] = 0;
    }
    __device__ __forceinline__ void add(const struct softmax_state &s) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const struct merge_factors f = merge_max(&max[half], s.max[half]);
            sum[half] = merge(f, sum[half], s.sum[half]);
#pragma unroll
            for (int i = 0; i < CHUNKS; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[i][e / 2][half * 2 + e % 2] = merge(f, acc[i][e / 2][half * 2 + e % 2],
                                                            s.acc[i][e / 2][half * 2 + e % 2]);
        }
    }
};

/* Dim of acc[i][half][e]. */
template <bool narrow>
static __device__ __forceinline__ uint32_t dim_of(uint32_t i, uint32_t half, uint32_t e) {
    const uint32_t lane = threadIdx.x % 32, c = threadIdx.x / 32 + DECODE_WARPS * i;
    return c * 16 + (narrow ? lane % 4 * 4 + e % 2 * 2 + half : half * 8 + lane % 4 * 2 + e % 2);
}

/* ---- ends ---- */

/* Rows of padding: zeros. */
template <int A, int D, class Area>
static __device__ __forceinline__ void clear_padding(const struct attention_call &call,
                                                     const Area &area) {
    typedef typename values<A>::raw raw;
    for (uint32_t r = blockIdx.x; r < call.row_count; r += gridDim.x) {
        if (area.positions[r] != (uint32_t)ROW_NONE)
            continue;
        raw *out = (raw *)call.out + (size_t)(call.row_first + r) * call.heads * D;
        for (uint32_t i = threadIdx.x; i < call.heads * D; i += DECODE_THREADS)
            values<A>::set(out + i, 0.0f);
    }
}

template <int A, int D, class Area, class State>
static __device__ __forceinline__ void put_row(const struct attention_call &call,
                                               const struct decode_step &s, State &state) {
    typedef typename values<A>::raw raw;
    typedef typename Area::shape shape;
    raw *out = (raw *)call.out + ((size_t)(call.row_first + s.row) * call.heads + s.head_first) * D;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t h = threadIdx.x % 32 / 4 + half * 8;
        if (h >= s.head_count)
            continue;
        const float factor = take_sink(call, s.head_first + h, state.max[half], &state.sum[half]);
#pragma unroll
        for (uint32_t i = 0; i < shape::WARP_CHUNKS; i++)
#pragma unroll
            for (uint32_t e = 0; e < 4; e++) {
                const uint32_t d = dim_of<shape::NARROW>(i, e / 2, e % 2);
                if (shape::CHUNKS % DECODE_WARPS == 0 || d < D)
                    values<A>::set(
                        out + (size_t)h * D + d,
                        __fdiv_rn(state.acc[i][e / 2][half * 2 + e % 2] * factor, state.sum[half]));
            }
    }
}

template <int D, class Area, class State>
static __device__ __forceinline__ void store_split(const struct attention_call &call,
                                                   const struct decode_step &s, uint32_t unit,
                                                   const State &state) {
    typedef typename Area::shape shape;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t h = threadIdx.x % 32 / 4 + half * 8;
        if (h >= s.head_count)
            continue;
        const size_t place = (size_t)unit * call.heads + s.head_first + h;
#pragma unroll
        for (uint32_t i = 0; i < shape::WARP_CHUNKS; i++)
#pragma unroll
            for (uint32_t e = 0; e < 4; e++) {
                const uint32_t d = dim_of<shape::NARROW>(i, e / 2, e % 2);
                if (shape::CHUNKS % DECODE_WARPS == 0 || d < D)
                    call.split_sums[place * D + d] = state.acc[i][e / 2][half * 2 + e % 2];
            }
        if (threadIdx.x / 32 == 0 && threadIdx.x % 4 == 0)
            *(float2 *)(call.split_stats + place * 2) =
                make_float2(state.max[half], state.sum[half]);
    }
}

/* All splits of a row, for its task's heads: a thread four dims of a head at a time. */
template <int A, int D>
static __device__ __forceinline__ void merge_splits(const struct attention_call &call,
                                                    const struct decode_step &s) {
    typedef typename values<A>::raw raw;
    raw *out = (raw *)call.out + ((size_t)(call.row_first + s.row) * call.heads + s.head_first) * D;
    for (uint32_t n = threadIdx.x; n < s.head_count * (D / 4); n += DECODE_THREADS) {
        const uint32_t h = s.head_first + n / (D / 4), d = n % (D / 4) * 4;
        const float *stats = call.split_stats + ((size_t)s.unit_first * call.heads + h) * 2,
                    *sums = call.split_sums + ((size_t)s.unit_first * call.heads + h) * D + d;
        float max = MINUS_INFINITY, sum = 0, acc[4] = {};
        for (uint32_t base = 0; base < s.splits; base += MERGE_AT_ONCE) {
            float2 stat[MERGE_AT_ONCE];
            float4 split[MERGE_AT_ONCE];
#pragma unroll
            for (uint32_t i = 0; i < MERGE_AT_ONCE; i++)
                if (base + i < s.splits) {
                    stat[i] = *(const float2 *)(stats + (size_t)(base + i) * call.heads * 2);
                    split[i] = *(const float4 *)(sums + (size_t)(base + i) * call.heads * D);
                }
#pragma unroll
            for (uint32_t i = 0; i < MERGE_AT_ONCE; i++)
                if (base + i < s.splits) {
                    const struct merge_factors f = merge_max(&max, stat[i].x);
                    sum = merge(f, sum, stat[i].y);
                    acc[0] = merge(f, acc[0], split[i].x);
                    acc[1] = merge(f, acc[1], split[i].y);
                    acc[2] = merge(f, acc[2], split[i].z);
                    acc[3] = merge(f, acc[3], split[i].w);
                }
        }
        const float factor = take_sink(call, h, max, &sum);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            values<A>::set(out + (size_t)(n / (D / 4)) * D + d + i,
                           __fdiv_rn(acc[i] * factor, sum));
    }
}

/* A split is in scratch: the last of a row's blocks merges. Their count is nought again behind. */
template <int A, int D, class Area>
static __device__ __forceinline__ void end_split(const struct attention_call &call,
                                                 const Area &area, const struct decode_step &s,
                                                 uint32_t lists) {
    uint32_t *arrivals = call.arrivals + s.row * lists + s.list;
    __syncthreads(); /* the split is written */
    if (threadIdx.x == 0) {
        area.scratch[4] = atomic_add_ordered(arrivals, 1);
        if (area.scratch[4] + 1 == s.splits)
            (void)atomicExch(arrivals, 0u);
    }
    __syncthreads();
    if (area.scratch[4] + 1 == s.splits)
        merge_splits<A, D>(call, s);
}

/* ---- the kernel ---- */

/* Q of a task, its other heads zeros; dims in the order of such pairs where those are narrow. */
template <int A, int D, class Area>
static __device__ __forceinline__ void load_queries(const struct attention_call &call,
                                                    const Area &area, const struct decode_step &s) {
    typedef typename Area::shape shape;
    const uint16_t *q = (const uint16_t *)call.qkv +
                        (size_t)(call.row_first + s.row) * call.row_width() +
                        (size_t)s.head_first * D;
    for (uint32_t n = threadIdx.x; n < 16 * D / 2; n += DECODE_THREADS) {
        const uint32_t h = n / (D / 2), d = n % (D / 2) * 2, four = d % 16 / 4 * 2 + d % 4 / 2;
        uint32_t pair = 0;
        if (h < s.head_count)
            pair = *(const uint32_t *)(q + h * D + d);
        uint16_t *to = area.q + h * shape::Q_STRIDE;
        if (shape::NARROW) { /* of dims 0 to 3: 0 and 2 to a pair, 1 and 3 to the one 8 behind */
            to[d / 16 * 16 + four] = (uint16_t)pair;
            to[d / 16 * 16 + four + 8] = (uint16_t)(pair >> 16);
        } else
            *(uint32_t *)(to + d) = pair;
    }
    __syncthreads();
}

template <int A, int K, int D, bool BULK>
static __device__ __forceinline__ void decode_rows(const struct attention_call &call) {
    typedef decode_area<K, D, BULK> area_type;
    typedef typename area_type::shape shape;
    typedef softmax_state<shape::WARP_CHUNKS> state_type;
    DYNAMIC_SHARED(memory);
    const area_type area(memory, call.row_count);
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32,
                   shift = (uint32_t)__ffs((int)call.kv.block_tokens) - 1;
    if (BULK && threadIdx.x == 0) {
        for (uint32_t i = 0; i < 2 * DECODE_WARPS; i++)
            mbarrier_init(area.barriers + i, 1);
        mbarrier_init_fence();
    }
    dependents_launch();
    if (!BULK)
        dependency_wait();
    struct decode_list list;
    list.group = call.heads / call.kv.kv_heads;
    list.chunks = (list.group + 15) / 16;
    list.lists = call.kv.kv_heads * list.chunks;
    list_tasks(call, area, list.lists);
    list.count = area.firsts[call.row_count] * list.lists;

    struct decode_step now = {};
    state_type split, row;
    open_task(call, area, list, &now, blockIdx.x);
    uint32_t block = block_of<area_type>(call, now, list.count, shift);
    if (BULK) {
        const uint32_t old = call.written_before(now.position);
        load<true, LOAD_OLD>(call, area, now, list.count, block, false, old);
        load<true, LOAD_OLD>(call, area, now, list.count, block, true, old);
        dependency_wait();
        load<true, LOAD_REST>(call, area, now, list.count, block, false, old);
        load<true, LOAD_REST>(call, area, now, list.count, block, true, old);
    } else {
        load<false>(call, area, now, list.count, block, false);
        load<false>(call, area, now, list.count, block, true);
    }
    clear_padding<A, D>(call, area);
    for (uint32_t phase = 0; now.n < list.count; phase ^= 1) {
        struct decode_step next = now;
        advance(call, area, list, &next);
        block = block_of<area_type>(call, next, list.count, shift);
        if (now.opens_task) {
            load_queries<A, D>(call, area, now);
            row.clear();
        }
        if (now.opens_split)
            split.clear();

        /* 1. scores */
        const bool busy = any_seen(now, now.start + warp * shape::TILE, shape::TILE);
        float s[shape::TILES][4] = {}, best[2] = {MINUS_INFINITY, MINUS_INFINITY}, sum[2] = {0, 0};
        state_type step;
        if (BULK)
            mbarrier_wait(area.barriers + warp, phase);
        else
            cp_async_wait<1>();
        __syncwarp();
        if (busy) {
            make_scores<A, K>(area, s);
            finish_scores(call, area, now, s);
            tile_max<area_type>(s, best);
        }
        __syncwarp(); /* K has been read */
        load<BULK>(call, area, next, list.count, block, false);

        /* 2. weights */
        if (lane % 4 == 0) {
            area.max[warp * 16 + lane / 4] = best[0];
            area.max[warp * 16 + lane / 4 + 8] = best[1];
        }
        __syncthreads();
        step.clear();
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (uint32_t w = 0; w < DECODE_WARPS; w++) {
                const float other = area.max[w * 16 + lane / 4 + half * 8];
                step.max[half] = other > step.max[half] ? other : step.max[half];
            }
        if (BULK && shape::SCALED)
            mbarrier_wait(area.barriers + DECODE_WARPS + warp, phase);
        if (!BULK)
            cp_async_wait<1>();
        __syncwarp();
        if (busy)
            make_weights<A>(area, now, s, step.max, sum);
        if (lane % 4 == 0) {
            area.sum[warp * 16 + lane / 4] = sum[0];
            area.sum[warp * 16 + lane / 4 + 8] = sum[1];
        }
        __syncthreads(); /* weights are there; without BULK: V too */

        /* 3. sums */
#pragma unroll 1
        for (uint32_t of = 0; of < DECODE_WARPS; of++) {
            const uint32_t at = now.start + of * shape::TILE;
            if (BULK)
                mbarrier_wait(area.barriers + DECODE_WARPS + of, phase);
            if (!any_seen(now, at, shape::TILE))
                continue;
            if (!BULK || (at >= now.from && at + shape::TILE <= now.end))
                add_values<A, K, false>(area, now, of, step.acc);
            else
                add_values<A, K, true>(area, now, of, step.acc);
        }
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (uint32_t w = 0; w < DECODE_WARPS; w++)
                step.sum[half] += area.sum[w * 16 + lane / 4 + half * 8];
        __syncthreads(); /* V, weights and stats have been read */
        load<BULK>(call, area, next, list.count, block, true);

        /* 4. merges */
        split.add(step);
        if (next.n != now.n || next.opens_split) {
            if (now.whole) {
                row.add(split);
                if (next.n != now.n)
                    put_row<A, D, area_type>(call, now, row);
            } else {
                store_split<D, area_type>(
                    call, now, now.unit_first + now.split - attention_call::split_of(now.first),
                    split);
                end_split<A, D>(call, area, now, list.lists);
            }
        }
        now = next;
    }
    if (!BULK)
        cp_async_wait<0>();
}

template <int A, int K, int D, bool BULK>
static __global__
__launch_bounds__(DECODE_THREADS) void attention_decode_kernel(struct attention_call call) {
#if defined(TRIREME_EMULATED)
    decode_rows<A, K, D, BULK>(call);
#elif defined(PTX_SM90A)
    if (BULK)
        decode_rows<A, K, D, true>(call);
#else
    if (!BULK)
        decode_rows<A, K, D, false>(call);
#endif
}

template <int A, int K, int D, bool BULK>
static void decode_launch(struct stream *s, const struct attention_call &call) {
    typedef decode_area<K, D, BULK> area;
    const uint32_t group = call.heads / call.kv.kv_heads,
                   lists = call.kv.kv_heads * ((group + 15) / 16);
    const uint64_t most =
        (uint64_t)call.row_count * lists *
        (attention_call::split_of(call.kv.max_blocks * call.kv.block_tokens - 1) + 1);
    const size_t bytes = area::bytes(call.row_count);
    /* as many as fit beside each other on an SM, whose memory is a little more than a block's */
    const uint64_t resident =
        device_of(s)->sm_count * MIN(MAX(device_of(s)->shared_max / bytes, (size_t)1), (size_t)3);
    launch_shape shape = {dim3((unsigned)MIN(most, resident)), dim3(DECODE_THREADS), bytes,
                          device_of(s)->dependent_launch};
    LAUNCH((attention_decode_kernel<A, K, D, BULK>), shape, cuda_stream_of(s), call);
}

/* So many rows at a time as their list has room in shared memory (99 KB a block on sm_86 and
 * sm_89), and their arrivals. */
template <int A, int K, int D, bool BULK>
static void decode_sized(struct stream *s, const struct attention_call &all) {
    const size_t room = device_of(s)->shared_max - decode_area<K, D, BULK>::bytes(0);
    const uint32_t at_once =
        (uint32_t)MIN(MIN(room / (3 * sizeof(uint32_t)), (size_t)DECODE_ROWS_MAX),
                      (size_t)(ARRIVALS_MAX / all.heads));
    for (uint32_t first = 0; first < all.row_count; first += at_once) {
        struct attention_call call = all;
        call.row_first = all.row_first + first;
        call.row_count = MIN(all.row_count - first, at_once);
        decode_launch<A, K, D, BULK>(s, call);
    }
}

template <int A, int K, int D>
static void decode_of(struct stream *s, const struct attention_call &call) {
    if (device_of(s)->hopper)
        decode_sized<A, K, D, true>(s, call);
    else
        decode_sized<A, K, D, false>(s, call);
}

/* False: no instance has this head size. Of caches of 8 bits few models have those of the second half. */
template <int A, int K>
static bool decode_of_size(struct stream *s, const struct attention_call &call) {
    switch (call.kv.head_dim) {
    case 64: decode_of<A, K, 64>(s, call); return true;
    case 80: decode_of<A, K, 80>(s, call); return true;
    case 96: decode_of<A, K, 96>(s, call); return true;
    case 128: decode_of<A, K, 128>(s, call); return true;
    case 256: decode_of<A, K, 256>(s, call); return true;
    default: break;
    }
    if constexpr (A == K)
        switch (call.kv.head_dim) {
        case 112: decode_of<A, K, 112>(s, call); return true;
        case 160: decode_of<A, K, 160>(s, call); return true;
        case 192: decode_of<A, K, 192>(s, call); return true;
        default: break;
        }
    return false;
}

#endif
