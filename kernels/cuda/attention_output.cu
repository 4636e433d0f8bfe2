/*
 * attention_output.cu - attention of output-class rows over the paged cache: the decode family.
 *
 * A task is one part (ATTENTION_SPLIT positions) of one row, for up to 16 query heads of one KV
 * head: those heads are the 16 rows of the tensor cores' tiles. Blocks take tasks from a flat list:
 * unit u of row r (struct attention_call) for KV head g; every block makes the list for itself from
 * the rows' positions, so rows of any length share the GPU evenly. Parts go to scratch and are
 * merged by attention_merge_kernel; a row of one part, or one whose parts have no room there, is
 * finished by its task.
 *
 * A part in four phases, 128 threads:
 *   (1) K tiles of 64 positions arrive through a ring of cp.async stages; warp w makes scores of
 *       positions 16 w .. of each tile;
 *   (2) max, weights (rounded to the cache's type, in place of the scores), sum of the rounded
 *       weights: a warp takes four heads;
 *   (3) V tiles arrive through the same ring; warp w sums dims 16 w .., 16 (w + 4) ...;
 *   (4) merge.
 *
 * A row's bits depend on the row alone: a tile's other 15 rows are other heads of it or zeros.
 * Cost: K and V of the row once for each KV head. Shared memory: 16 * (D + 8) * 2 + 16 KB + stages
 * * 64 * (D + 8) * 2.
 */
#include "kernels/cuda/attention.cuh"

enum {
    OUT_THREADS = 128,
    OUT_TILE = 64,                      /* positions of a stage */
    SCORE_STRIDE = ATTENTION_SPLIT + 4, /* f32 */
    WEIGHT_STRIDE = 2 * SCORE_STRIDE,   /* of the 16-bit weights in the same place */
    OUT_ROWS_MAX = 4096 /* rows of a launch, at most: their list lies in shared memory */
};

template <int DP> struct out_shape {
    enum { STAGES = DP <= 128 ? 3 : 2, STRIDE = DP + 8, STAGE = OUT_TILE * STRIDE };
};

/* Where things lie in shared memory. */
template <int DP> struct out_area {
    uint16_t *q, *ring;
    float *scores, *stats; /* stats: [16] max, [16] sum of the part */
    uint32_t *blocks, *firsts;
    __device__ __forceinline__ explicit out_area(unsigned char *at) {
        ring = (uint16_t *)at;
        q = ring + out_shape<DP>::STAGES * out_shape<DP>::STAGE;
        scores = (float *)(q + 16 * out_shape<DP>::STRIDE);
        stats = scores + 16 * SCORE_STRIDE;
        blocks = (uint32_t *)(stats + 32);
        firsts = blocks + 32; /* 16 blocks, 4 warps' sums */
    }
};
template <int DP> static size_t out_bytes(uint32_t rows) {
    return (out_shape<DP>::STAGES * out_shape<DP>::STAGE + 16 * out_shape<DP>::STRIDE) * 2 +
           (16 * SCORE_STRIDE + 32 + 32 + (size_t)rows + 1) * 4;
}

template <int A>
static __device__ __forceinline__ void mma(float d[4], const uint32_t a[4], const uint32_t *b) {
    if (A == STORAGE_BF16)
        mma_bf16(d, a, b);
    else
        mma_f16(d, a, b);
}

/* firsts[r] = parts of the rows before r, for r <= row_count. `sums`: [4] of shared memory. */
static __device__ __forceinline__ void list_units(const struct attention_call &call,
                                                  uint32_t *firsts, uint32_t *sums) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t before = 0;
    for (uint32_t base = 0; base < call.row_count; base += OUT_THREADS) {
        const uint32_t r = base + threadIdx.x;
        const uint32_t parts =
            r < call.row_count ? call.parts_of(call.positions[call.row_first + r]) : 0;
        uint32_t upto = parts;
        for (uint32_t by = 1; by < 32; by *= 2) {
            const uint32_t other = __shfl_up_sync(0xffffffffu, upto, by);
            if (lane >= by)
                upto += other;
        }
        if (lane == 31)
            sums[warp] = upto;
        __syncthreads();
        for (uint32_t w = 0; w < warp; w++)
            upto += sums[w];
        if (r < call.row_count)
            firsts[r] = before + upto - parts;
        for (uint32_t w = 0; w < OUT_THREADS / 32; w++)
            before += sums[w];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        firsts[call.row_count] = before;
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

/* The place of a task: parts [part_first, part_first + part_count) of a row, for heads head_first
 * .. of KV head g. */
struct out_task {
    uint32_t row, slot, position, g, head_first, head_count, part_first, part_count, unit;
    bool whole; /* all parts of the row: finish it */
};

/* Tile `i` of the part's sequence: its K tiles, then its V tiles. Positions outside [from, end)
 * become zeros. A thread copies one chunk of 16 bytes of every LINES-th position; where a tile lies
 * within one block, as with blocks of 64 and more, the block is looked up once. */
template <int DP>
static __device__ __forceinline__ void
load_tile(const struct attention_call &call, const struct out_task &task,
          const struct out_area<DP> &area, uint32_t i, uint32_t tiles, uint32_t tile_first,
          uint32_t from, uint32_t end) {
    enum { CHUNKS = DP / 8, LINES = OUT_THREADS / CHUNKS, COPIES = OUT_TILE / LINES };
    const struct kv_pages &kv = call.kv;
    const bool is_v = i >= tiles;
    const uint32_t start = (tile_first + (is_v ? i - tiles : i)) * OUT_TILE,
                   line = threadIdx.x / CHUNKS, c = threadIdx.x % CHUNKS,
                   row_bytes = kv.head_dim * 2, mask = kv.block_tokens - 1,
                   shift = (uint32_t)__ffs((int)kv.block_tokens) - 1;
    uint16_t *to = area.ring + i % out_shape<DP>::STAGES * out_shape<DP>::STAGE +
                   line * out_shape<DP>::STRIDE + c * 8;
    const unsigned char *head =
        kv.base + c * 16 + (is_v ? kv.kv_heads + task.g : task.g) * kv.head_stride() * 2;
    if (c * 8 >= kv.head_dim)
        return;
    if (kv.block_tokens >= (uint32_t)OUT_TILE) {
        const unsigned char *at = head +
                                  area.blocks[start % ATTENTION_SPLIT >> shift] * kv.block_stride +
                                  ((start & mask) + line) * row_bytes;
#pragma unroll
        for (uint32_t n = 0; n < COPIES; n++) {
            const uint32_t position = start + line + n * LINES;
            cp_async_16(to + n * LINES * out_shape<DP>::STRIDE, at + n * LINES * row_bytes,
                        position >= from && position < end);
        }
        return;
    }
#pragma unroll
    for (uint32_t n = 0; n < COPIES; n++) {
        const uint32_t position = start + line + n * LINES;
        cp_async_16(to + n * LINES * out_shape<DP>::STRIDE,
                    head + area.blocks[position % ATTENTION_SPLIT >> shift] * kv.block_stride +
                        (position & mask) * row_bytes,
                    position >= from && position < end);
    }
}

/* One part: stats[h] = max, stats[16 + h] = sum; returns this thread's share of the sums over V. */
template <int A, int DP>
static __device__ __forceinline__ void
attend_part(const struct attention_call &call, const struct out_task &task,
            const struct out_area<DP> &area, uint32_t part, float sums[DP / 64][2][4]) {
    typedef typename values<A>::raw raw;
    const struct kv_pages &kv = call.kv;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = kv.head_dim;
    const uint32_t low = part * ATTENTION_SPLIT, first = call.first_position(task.position);
    const uint32_t from = low > first ? low : first,
                   end = min(low + ATTENTION_SPLIT, task.position + 1);
    const uint32_t tile_first = from / OUT_TILE, tiles = (end - 1) / OUT_TILE - tile_first + 1;
    enum {
        STAGES = out_shape<DP>::STAGES,
        STRIDE = out_shape<DP>::STRIDE,
        STAGE = out_shape<DP>::STAGE
    };

    __syncthreads(); /* the part before is done with everything */
    for (uint32_t b = threadIdx.x; b < ATTENTION_SPLIT / kv.block_tokens; b += OUT_THREADS) {
        const uint32_t position = low + b * kv.block_tokens;
        if (position < end && position + kv.block_tokens > from)
            area.blocks[b] =
                kv.tables[(size_t)task.slot * kv.max_blocks + position / kv.block_tokens];
    }
    __syncthreads();
    for (uint32_t i = 0; i < STAGES - 1; i++) {
        if (i < 2 * tiles)
            load_tile<DP>(call, task, area, i, tiles, tile_first, from, end);
        cp_async_commit();
    }
#pragma unroll
    for (int j = 0; j < DP / 64; j++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            sums[j][e / 4][e % 4] = 0;
    for (uint32_t i = 0; i < 2 * tiles; i++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads(); /* tile i is here; all are done with tile i - 1, and with the scores */
        if (i + STAGES - 1 < 2 * tiles)
            load_tile<DP>(call, task, area, i + STAGES - 1, tiles, tile_first, from, end);
        cp_async_commit();
        const uint16_t *tile = area.ring + i % STAGES * STAGE;
        const uint32_t column = (tile_first + i % tiles) % (ATTENTION_SPLIT / OUT_TILE) * OUT_TILE;
        if (i < tiles) {
            /* 1. scores of 16 heads by the warp's 16 positions */
            float s[2][4] = {};
#pragma unroll
            for (uint32_t k = 0; k < DP; k += 16) {
                uint32_t a[4], b[4];
                if (k >= dim)
                    continue;
                ldmatrix_x4(a, area.q + lane % 16 * STRIDE + k + lane / 16 * 8);
                ldmatrix_x4(b, tile + (warp * 16 + lane % 8 + lane / 16 * 8) * STRIDE + k +
                                   lane / 8 % 2 * 8);
                mma<A>(s[0], a, b);
                mma<A>(s[1], a, b + 2);
            }
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const uint32_t h = lane / 4 + e % 4 / 2 * 8,
                               c = column + warp * 16 + e / 4 * 8 + lane % 4 * 2 + e % 2;
                const bool valid = low + c >= from && low + c < end;
                area.scores[h * SCORE_STRIDE + c] =
                    valid ? s[e / 4][e % 4] * call.scale : MINUS_INFINITY;
            }
        } else {
            /* 3. weights by the warp's dims */
            const uint16_t *weights = (const uint16_t *)area.scores + column;
            for (uint32_t k = 0; k < OUT_TILE; k += 16) {
                uint32_t a[4], b[4];
                ldmatrix_x4(a, weights + lane % 16 * WEIGHT_STRIDE + k + lane / 16 * 8);
#pragma unroll
                for (uint32_t j = 0; j < DP / 64; j++) {
                    const uint32_t d = (warp + 4 * j) * 16;
                    if (d >= dim)
                        continue;
                    ldmatrix_x4_trans(b, tile + (k + lane % 8 + lane / 8 % 2 * 8) * STRIDE + d +
                                             lane / 16 * 8);
                    mma<A>(sums[j][0], a, b);
                    mma<A>(sums[j][1], a, b + 2);
                }
            }
        }
        if (i + 1 != tiles)
            continue;
        __syncthreads();
        /* 2. scores become weights; what a lane reads it reads before its warp writes */
        const uint32_t column_first = tile_first % (ATTENTION_SPLIT / OUT_TILE) * OUT_TILE,
                       columns = tiles * OUT_TILE;
        for (uint32_t h = warp * 4; h < warp * 4 + 4; h++) {
            const float *row = area.scores + h * SCORE_STRIDE + column_first;
            raw *to = (raw *)(area.scores + h * SCORE_STRIDE) + column_first;
            float score[ATTENTION_SPLIT / 32], max = MINUS_INFINITY, sum = 0;
#pragma unroll
            for (uint32_t j = 0; j < ATTENTION_SPLIT / 32; j++) {
                score[j] = j * 32 + lane < columns ? row[j * 32 + lane] : MINUS_INFINITY;
                max = score[j] > max ? score[j] : max;
            }
            max = warp_max(max);
            __syncwarp();
#pragma unroll
            for (uint32_t j = 0; j < ATTENTION_SPLIT / 32; j++) {
                if (j * 32 + lane >= columns)
                    continue;
                values<A>::put(to + j * 32 + lane, fast_exp2(score[j] - max));
                sum += values<A>::get(to + j * 32 + lane);
            }
            sum = warp_sum(sum);
            if (lane == 0) {
                area.stats[h] = max;
                area.stats[16 + h] = sum;
            }
        }
    }
    cp_async_wait<0>();
    __syncthreads(); /* the stats are there */
}

template <int A, int DP>
static __device__ __forceinline__ void run_task(const struct attention_call &call,
                                                const struct out_task &task,
                                                const struct out_area<DP> &area) {
    typedef typename values<A>::raw raw;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = call.kv.head_dim;
    const raw *q =
        (const raw *)call.qkv + (size_t)task.row * call.row_width() + (size_t)task.head_first * dim;
    raw *out = (raw *)call.out + ((size_t)task.row * call.heads + task.head_first) * dim;
    if (task.position == (uint32_t)ROW_NONE) {
        for (uint32_t n = threadIdx.x; n < task.head_count * dim; n += OUT_THREADS)
            values<A>::put(out + n, 0.0f);
        return;
    }
    __syncthreads(); /* all are done with the task before */
#pragma unroll
    for (uint32_t h = 0; h < 16; h++)
        for (uint32_t d = threadIdx.x; d < dim; d += OUT_THREADS)
            area.q[h * out_shape<DP>::STRIDE + d] = h < task.head_count ? q[h * dim + d] : 0;
    float max[2] = {MINUS_INFINITY, MINUS_INFINITY}, sum[2] = {0, 0}, acc[DP / 64][2][4] = {};
    for (uint32_t part = 0; part < task.part_count; part++) {
        float sums[DP / 64][2][4];
        attend_part<A, DP>(call, task, area, task.part_first + part, sums);
#pragma unroll
        for (int half = 0; half < 2; half++) { /* 4. this thread's heads are lane / 4 and 8 more */
            const uint32_t h = lane / 4 + half * 8;
            const struct merge_factors f = merge_max(&max[half], area.stats[h]);
            sum[half] = merge(f, sum[half], area.stats[16 + h]);
#pragma unroll
            for (int j = 0; j < DP / 64; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[j][e / 2][half * 2 + e % 2] =
                        merge(f, acc[j][e / 2][half * 2 + e % 2], sums[j][e / 2][half * 2 + e % 2]);
        }
    }
    float factor[2] = {1.0f, 1.0f};
    if (task.whole)
#pragma unroll
        for (int half = 0; half < 2; half++)
            if (lane / 4 + half * 8 < task.head_count)
                factor[half] =
                    take_sink(call, task.head_first + lane / 4 + half * 8, max[half], &sum[half]);
#pragma unroll
    for (int j = 0; j < DP / 64; j++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const uint32_t half = e % 4 / 2, h = lane / 4 + half * 8,
                           d = (warp + 4 * j) * 16 + e / 4 * 8 + lane % 4 * 2 + e % 2;
            if (h >= task.head_count || d >= dim)
                continue;
            const float v = acc[j][e / 4][e % 4];
            if (task.whole)
                values<A>::put(out + (size_t)h * dim + d, __fdiv_rn(v * factor[half], sum[half]));
            else
                call.part_sums[((size_t)task.unit * call.heads + task.head_first + h) * dim + d] =
                    v;
        }
    if (!task.whole && warp == 0 && lane % 4 == 0)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t h = lane / 4 + half * 8;
            if (h >= task.head_count)
                continue;
            float *stats =
                call.part_stats + ((size_t)task.unit * call.heads + task.head_first + h) * 2;
            stats[0] = max[half];
            stats[1] = sum[half];
        }
}

template <int A, int DP>
static __global__ __launch_bounds__(OUT_THREADS,
                                    2) void attention_output_kernel(struct attention_call call) {
    DYNAMIC_SHARED(memory);
    const struct out_area<DP> area(memory);
    dependency_wait();
    dependents_launch();
    list_units(call, area.firsts, area.blocks + 16);
    const uint32_t *firsts = area.firsts, rows = call.row_count,
                   group = call.heads / call.kv.kv_heads;
    if (blockIdx.x == 0)
        for (uint32_t r = threadIdx.x; r <= rows; r += OUT_THREADS)
            call.unit_firsts[r] = firsts[r];
    /* rows before `apart` have room for their parts; the others are one task each */
    const uint32_t apart = last_not_above(firsts, rows, call.unit_max), units = firsts[apart];
    const uint32_t chunks = (group + 15) / 16, lists = call.kv.kv_heads * chunks;
    for (uint32_t n = blockIdx.x; n / lists < units + (rows - apart); n += gridDim.x) {
        const uint32_t unit = n / lists, r = unit < units ? last_not_above(firsts, rows, unit)
                                                          : apart + (unit - units);
        struct out_task task;
        task.row = call.row_first + r;
        task.slot = call.slots[task.row];
        task.position = call.positions[task.row];
        task.g = n % lists / chunks;
        task.head_first = task.g * group + n % chunks * 16;
        task.head_count = min(group - n % chunks * 16, 16u);
        task.unit = unit;
        const uint32_t parts = firsts[r + 1] - firsts[r];
        task.whole = parts == 1 || unit >= units;
        task.part_first = task.position == (uint32_t)ROW_NONE
                              ? 0
                              : call.first_position(task.position) / ATTENTION_SPLIT;
        task.part_count = parts;
        if (!task.whole) {
            task.part_first += unit - firsts[r];
            task.part_count = 1;
        }
        run_task<A, DP>(call, task, area);
    }
}

/* Merges the parts of the rows that have several. One block a head and row. */
template <int A> static __global__ void attention_merge_kernel(struct attention_call call) {
    dependency_wait();
    dependents_launch();
    const uint32_t h = blockIdx.y, r = blockIdx.x, dim = call.kv.head_dim;
    const uint32_t first = call.unit_firsts[r], end = call.unit_firsts[r + 1];
    if (end - first == 1 || end > call.unit_max)
        return;
    typename values<A>::raw *out =
        (typename values<A>::raw *)call.out + ((size_t)(call.row_first + r) * call.heads + h) * dim;
    for (uint32_t d = threadIdx.x; d < dim; d += blockDim.x) {
        float max = MINUS_INFINITY, sum = 0, acc = 0;
        for (uint32_t unit = first; unit < end; unit++) {
            const float *stats = call.part_stats + ((size_t)unit * call.heads + h) * 2;
            const struct merge_factors f = merge_max(&max, stats[0]);
            sum = merge(f, sum, stats[1]);
            acc = merge(f, acc, call.part_sums[((size_t)unit * call.heads + h) * dim + d]);
        }
        const float factor = take_sink(call, h, max, &sum);
        values<A>::put(out + d, __fdiv_rn(acc * factor, sum));
    }
}

template <int A, int DP>
static void output_launch(struct stream *s, const struct attention_call &call) {
    const uint32_t group = call.heads / call.kv.kv_heads,
                   lists = call.kv.kv_heads * ((group + 15) / 16);
    const uint64_t most = (uint64_t)call.row_count * lists *
                          (call.kv.max_blocks * call.kv.block_tokens / ATTENTION_SPLIT + 1);
    const size_t bytes = out_bytes<DP>(call.row_count);
    /* as many as fit beside each other on an SM, whose memory is a little more than a block's */
    const uint64_t resident =
        device_of(s)->sm_count * MIN(MAX(device_of(s)->shared_max / bytes, (size_t)2), (size_t)4);
    launch_shape shape = {dim3((unsigned)MIN(most, resident)), dim3(OUT_THREADS), bytes,
                          device_of(s)->dependent_launch};
    LAUNCH((attention_output_kernel<A, DP>), shape, cuda_stream_of(s), call);
    launch_shape merging = {dim3(call.row_count, call.heads), dim3(64), 0,
                            device_of(s)->dependent_launch};
    LAUNCH(attention_merge_kernel<A>, merging, cuda_stream_of(s), call);
}

/* So many rows at a time as their list has room in shared memory (99 KB a block on sm_86 and
 * sm_89). */
template <int A, int DP>
static void output_shape(struct stream *s, const struct attention_call &all) {
    const size_t room = device_of(s)->shared_max - out_bytes<DP>(0);
    const uint32_t at_once = (uint32_t)MIN(room / sizeof(uint32_t), (size_t)OUT_ROWS_MAX);
    for (uint32_t first = 0; first < all.row_count; first += at_once) {
        struct attention_call call = all;
        call.row_first = all.row_first + first;
        call.row_count = MIN(all.row_count - first, at_once);
        output_launch<A, DP>(s, call);
    }
}

template <int A> static void output_rows(struct stream *s, const struct attention_call &call) {
    if (call.kv.head_dim <= 64)
        output_shape<A, 64>(s, call);
    else if (call.kv.head_dim <= 128)
        output_shape<A, 128>(s, call);
    else
        output_shape<A, 256>(s, call);
}

void attention_output_rows(struct stream *s, const struct attention_call &call,
                           enum storage_type type) {
    if (type == STORAGE_BF16)
        output_rows<STORAGE_BF16>(s, call);
    else
        output_rows<STORAGE_F16>(s, call);
}
