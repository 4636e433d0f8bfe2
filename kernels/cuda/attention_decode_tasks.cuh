/*
 * attention_decode_tasks.cuh - decode attention (attention_decode.cuh): what lies where in shared
 * memory, and which rows, splits and steps a block computes.
 */
#ifndef KERNELS_CUDA_ATTENTION_DECODE_TASKS_CUH
#define KERNELS_CUDA_ATTENTION_DECODE_TASKS_CUH

#include "kernels/cuda/attention.cuh"

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
#endif
