/*
 * rows.cu - prepare, embed, gather_rows (kernels/ops.h): which token is in which row, and copies of
 * rows.
 *
 * prepare: one block a slot: that of the slot's first run makes all of them, one after the other
 * (they lie next to each other), the others' blocks end at once. Cost: T entries. Launch: run_count
 * blocks of 128. embed: out[t, :] = table[ids[t], :] * scale, 8 values a thread. table and out of
 * any storage type, cols a multiple of 8 (else one value a thread). gather: the same without a
 * table. Tolerance: none but the rounding of the activation type.
 */
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/dequantize.cuh"

/* tokens NULL: padding. */
static __device__ __forceinline__ void put_run(const struct step_run &run, uint32_t slot,
                                               const uint32_t *tokens, uint32_t first,
                                               uint32_t *ids, uint32_t *row_slots,
                                               uint32_t *positions) {
    for (uint32_t i = threadIdx.x; i < run.token_count; i += blockDim.x) {
        ids[run.row_first + i] = tokens ? tokens[first + i] : 0;
        row_slots[run.row_first + i] = slot;
        positions[run.row_first + i] = tokens ? first + i : (uint32_t)ROW_NONE;
    }
}

static __global__ void prepare_kernel(struct slot_table slots, const struct step_run *runs,
                                      uint32_t run_count, uint32_t *ids, uint32_t *row_slots,
                                      uint32_t *positions) {
    dependents_launch();
    dependency_wait();
    struct step_run run = runs[blockIdx.x];
    const uint32_t slot = run.slot;
    if (slot == (uint32_t)ROW_NONE) {
        put_run(run, 0, NULL, 0, ids, row_slots, positions);
        return;
    }
    if (blockIdx.x && runs[blockIdx.x - 1].slot == slot)
        return;
    struct slot_state *state = &slots.states[slot];
    const uint32_t *tokens = slots.tokens + (size_t)slot * slots.max_context;
    const uint32_t known = state->active ? state->token_count : 0;
    uint32_t first = state->computed_count;
    for (uint32_t r = blockIdx.x; r < run_count && (run = runs[r]).slot == slot; r++) {
        const bool padding = first + run.token_count > known;
        put_run(run, slot, padding ? NULL : tokens, first, ids, row_slots, positions);
        if (!padding)
            first += run.token_count;
    }
    __syncthreads(); /* everyone has read computed_count */
    if (threadIdx.x == 0)
        state->computed_count = first;
}

void cuda_prepare(struct stream *s, const struct op_prepare *a) {
    if (!a->batch->run_count)
        return;
    launch_shape shape = {dim3(a->batch->run_count), dim3(128), 0, false};
    LAUNCH(prepare_kernel, shape, cuda_stream_of(s), *a->slots, a->batch->runs, a->batch->run_count,
           a->batch->ids, a->batch->slots, a->batch->positions);
}

/* The ids a table has. */
struct embed_range {
    uint32_t first, count;
};

/* The table's row for row t; ROW_NONE: zeros. */
static __device__ inline uint32_t embed_row_of(const struct batch_view &batch,
                                               struct embed_range range, uint32_t t) {
    const uint32_t row = batch.ids[t] - range.first; /* wraps around for an id before the first */
    return batch.positions[t] == (uint32_t)ROW_NONE || row >= range.count ? (uint32_t)ROW_NONE
                                                                          : row;
}

template <int A, int W>
static __global__ void
embed_kernel(typename values<A>::raw *out, const typename values<W>::raw *table, uint32_t cols,
             struct embed_range range, struct batch_view batch, float scale) {
    dependents_launch();
    dependency_wait();
    const uint32_t t = blockIdx.x, i = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
    if (i >= cols)
        return;
    const uint32_t at = embed_row_of(batch, range, t);
    const bool padding = at == (uint32_t)ROW_NONE;
    const typename values<W>::raw *row = table + (padding ? 0 : (size_t)at * cols);
    typename values<A>::raw *to = out + (size_t)t * cols;
    if (cols % 8 == 0) {
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (!padding)
            values<W>::get8(row + i, v);
        for (int k = 0; k < 8; k++)
            v[k] *= scale;
        values<A>::set8(to + i, v);
        return;
    }
    for (uint32_t k = i; k < i + 8 && k < cols; k++)
        values<A>::set(to + k, padding ? 0.0f : values<W>::get(row + k) * scale);
}

template <int A>
static __global__ void
embed_dequantized_kernel(typename values<A>::raw *out, struct matrix_segment segment,
                         enum storage_type type, uint32_t cols, struct embed_range range,
                         struct batch_view batch, float scale) {
    dependents_launch();
    dependency_wait();
    const uint32_t t = blockIdx.x, k = (blockIdx.y * blockDim.x + threadIdx.x) * 32;
    if (k >= cols)
        return;
    const uint32_t count = min(32u, cols - k), row = embed_row_of(batch, range, t);
    float v[32];
    if (row != (uint32_t)ROW_NONE)
        dequantize_group(type, segment, cols, row, k, count, v);
    for (uint32_t i = 0; i < count; i++)
        values<A>::set(out + (size_t)t * cols + k + i,
                       row == (uint32_t)ROW_NONE ? 0.0f : __fmul_rn(v[i], scale));
}

template <int A> static void embed_dequantized(struct stream *s, const struct op_embed *a) {
    const struct matrix *table = a->table;
    launch_shape shape = {dim3(a->batch->row_count, blocks_for(table->cols, 32 * 64)), dim3(64), 0,
                          device_of(s)->dependent_launch};
    struct batch_view batch = batch_view_of(a->batch);
    LAUNCH(embed_dequantized_kernel<A>, shape, cuda_stream_of(s), (typename values<A>::raw *)a->out,
           table->segments[0], segment_type(table, &table->segments[0]), table->cols,
           embed_range{a->first, table->rows}, batch, a->scale);
}

template <int A> static void embed(struct stream *s, const struct op_embed *a) {
    typedef typename values<A>::raw raw;
    const struct matrix *table = a->table;
    const void *data = table->segments[0].data;
    const struct embed_range range = {a->first, table->rows};
    launch_shape shape = {dim3(a->batch->row_count, blocks_for(table->cols, 8 * 128)), dim3(128), 0,
                          device_of(s)->dependent_launch};
    struct batch_view batch = batch_view_of(a->batch);
    if (table->type == STORAGE_F32)
        LAUNCH((embed_kernel<A, STORAGE_F32>), shape, cuda_stream_of(s), (raw *)a->out,
               (const float *)data, table->cols, range, batch, a->scale);
    else if (table->type == STORAGE_F16)
        LAUNCH((embed_kernel<A, STORAGE_F16>), shape, cuda_stream_of(s), (raw *)a->out,
               (const uint16_t *)data, table->cols, range, batch, a->scale);
    else
        LAUNCH((embed_kernel<A, STORAGE_BF16>), shape, cuda_stream_of(s), (raw *)a->out,
               (const uint16_t *)data, table->cols, range, batch, a->scale);
}

void cuda_embed(struct stream *s, const struct op_embed *a) {
    CHECK(a->table->segment_count == 1);
    if (!a->batch->row_count)
        return;
    if (storage_is_plain(segment_type(a->table, &a->table->segments[0])))
        WITH_ACTIVATION(s->dev->activation_type, A, embed<A>(s, a));
    else
        WITH_ACTIVATION(s->dev->activation_type, A, embed_dequantized<A>(s, a));
}

template <int A>
static __global__ void gather_kernel(typename values<A>::raw *out, const typename values<A>::raw *x,
                                     const uint32_t *idx, uint32_t width) {
    dependents_launch();
    dependency_wait();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i < width)
        out[(size_t)blockIdx.x * width + i] = x[(size_t)idx[blockIdx.x] * width + i];
}

void cuda_gather_rows(struct stream *s, const struct op_gather_rows *a) {
    if (!a->count)
        return;
    launch_shape shape = {dim3(a->count, blocks_for(a->width, 256)), dim3(256), 0,
                          device_of(s)->dependent_launch};
    WITH_ACTIVATION(a->f32 ? STORAGE_F32 : s->dev->activation_type, A,
                    LAUNCH(gather_kernel<A>, shape, cuda_stream_of(s),
                           (typename values<A>::raw *)a->out, (const typename values<A>::raw *)a->x,
                           a->idx, a->width));
}
