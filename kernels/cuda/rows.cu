/*
 * rows.cu - prepare, embed, gather_rows (kernels/ops.h): which token is in which row, and copies of rows.
 *
 * prepare: one block a run. Runs of a step name different slots, so blocks do not meet. Cost: T entries. Launch:
 * run_count blocks of 128. embed: out[t, :] = table[ids[t], :] * scale, 8 values a thread. table and out of any storage
 * type, cols a multiple of 8 (else one value a thread). gather: the same without a table. Tolerance: none but the
 * rounding of the activation type.
 */
#include "kernels/cuda/cuda_device.cuh"

static __global__ void prepare_kernel(struct slot_table slots, const struct step_run *runs, uint32_t *ids,
                                      uint32_t *row_slots, uint32_t *positions) {
    dependency_wait();
    const struct step_run run = runs[blockIdx.x];
    struct slot_state *state = &slots.states[run.slot];
    const uint32_t *tokens = slots.tokens + (size_t)run.slot * slots.max_context;
    const uint32_t first = state->computed_count;
    const bool padding = !state->active || first + run.token_count > state->token_count;
    for (uint32_t i = threadIdx.x; i < run.token_count; i += blockDim.x) {
        ids[run.row_first + i] = padding ? 0 : tokens[first + i];
        row_slots[run.row_first + i] = run.slot;
        positions[run.row_first + i] = padding ? (uint32_t)ROW_NONE : first + i;
    }
    __syncthreads(); /* everyone has read computed_count */
    if (threadIdx.x == 0 && !padding) state->computed_count = first + run.token_count;
}

void cuda_prepare(struct stream *s, const struct op_prepare *a) {
    if (!a->batch->run_count) return;
    launch_shape shape = {dim3(a->batch->run_count), dim3(128), 0, false};
    LAUNCH(prepare_kernel, shape, cuda_stream_of(s), *a->slots, a->batch->runs, a->batch->ids, a->batch->slots,
           a->batch->positions);
}

template <int A, int W>
static __global__ void embed_kernel(typename values<A>::raw *out, const typename values<W>::raw *table, uint32_t cols,
                                    struct batch_view batch, float scale) {
    dependency_wait();
    const uint32_t t = blockIdx.y, i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i >= cols) return;
    const bool padding = batch.positions[t] == (uint32_t)ROW_NONE;
    const typename values<W>::raw *row = table + (size_t)batch.ids[t] * cols;
    typename values<A>::raw *to = out + (size_t)t * cols;
    if (cols % 8 == 0) {
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (!padding) values<W>::get8(row + i, v);
        for (int k = 0; k < 8; k++) v[k] *= scale;
        values<A>::put8(to + i, v);
        return;
    }
    for (uint32_t k = i; k < i + 8 && k < cols; k++)
        values<A>::put(to + k, padding ? 0.0f : values<W>::get(row + k) * scale);
}

template <int A> static void embed(struct stream *s, const struct op_embed *a) {
    typedef typename values<A>::raw raw;
    const struct matrix *table = a->table;
    const void *data = table->parts[0].data;
    launch_shape shape = {dim3(blocks_for(table->cols, 8 * 128), a->batch->row_count), dim3(128), 0,
                          device_of(s)->dependent_launch};
    struct batch_view batch = batch_view_of(a->batch);
    if (table->type == STORAGE_F32)
        LAUNCH((embed_kernel<A, STORAGE_F32>), shape, cuda_stream_of(s), (raw *)a->out, (const float *)data,
               table->cols, batch, a->scale);
    else if (table->type == STORAGE_F16)
        LAUNCH((embed_kernel<A, STORAGE_F16>), shape, cuda_stream_of(s), (raw *)a->out, (const uint16_t *)data,
               table->cols, batch, a->scale);
    else
        LAUNCH((embed_kernel<A, STORAGE_BF16>), shape, cuda_stream_of(s), (raw *)a->out, (const uint16_t *)data,
               table->cols, batch, a->scale);
}

void cuda_embed(struct stream *s, const struct op_embed *a) {
    CHECK(a->table->part_count == 1);
    if (!a->batch->row_count) return;
    WITH_ACTIVATION(s->dev->activation_type, A, embed<A>(s, a));
}

template <int A>
static __global__ void gather_kernel(typename values<A>::raw *out, const typename values<A>::raw *x,
                                     const uint32_t *idx, uint32_t width) {
    dependency_wait();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width) out[(size_t)blockIdx.y * width + i] = x[(size_t)idx[blockIdx.y] * width + i];
}

void cuda_gather_rows(struct stream *s, const struct op_gather_rows *a) {
    if (!a->count) return;
    launch_shape shape = {dim3(blocks_for(a->width, 256), a->count), dim3(256), 0, device_of(s)->dependent_launch};
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(gather_kernel<A>, shape, cuda_stream_of(s), (typename values<A>::raw *)a->out,
                           (const typename values<A>::raw *)a->x, a->idx, a->width));
}
