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

#include "kernels/cuda/attention_decode_step.cuh"

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
