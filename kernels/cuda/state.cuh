/*
 * state.cuh - how the kernels of state*.cu walk a step: a block belongs to one sequence (grid x:
 * runs; the first run of a slot does the slot's others too) and goes through its rows in order.
 */
#ifndef KERNELS_CUDA_STATE_CUH
#define KERNELS_CUDA_STATE_CUH

#include "kernels/cuda/cuda_device.cuh"

struct runs_view {
    const struct step_run *runs;
    const uint32_t *positions;
    uint32_t run_count, row_count;
};
static inline struct runs_view runs_view_of(const struct step_batch *b) {
    return {b->runs, b->positions, b->run_count, b->row_count};
}

__device__ __forceinline__ float *state_of(const struct state_view v, uint32_t slot) {
    return (float *)((char *)v.base + slot * v.slot_stride + v.offset);
}

/* for (state_rows w(view, blockIdx.x); w.next();) over the runs of a sequence that are not padding;
 * nothing at all where run `run` continues another. Every thread of a block takes the same path. */
struct state_rows {
    const struct runs_view view;
    uint32_t run, slot, row, end;
    bool fresh;
    __device__ __forceinline__ state_rows(const struct runs_view &v, uint32_t first)
        : view(v), run(first), slot(v.runs[first].slot), row(0), end(0), fresh(false) {
        if (first && v.runs[first - 1].slot == slot)
            run = v.run_count;
    }
    __device__ __forceinline__ bool next() {
        for (; run < view.run_count && view.runs[run].slot == slot; run++) {
            row = view.runs[run].row_first;
            end = row + view.runs[run].token_count;
            if (row == end || view.positions[row] == (uint32_t)ROW_NONE)
                continue;
            fresh = view.positions[row] == 0;
            run++;
            return true;
        }
        return false;
    }
};

__device__ __forceinline__ float sigmoid_of(float x) {
    return 1.0f / (1.0f + expf(-x));
}
__device__ __forceinline__ float silu_of(float x) {
    return x / (1.0f + expf(-x));
}

/* Sum over a block: warps by a fixed tree, then in order. shared: one float a warp. Every thread
 * gets it. */
__device__ __forceinline__ float block_sum(float v, float *shared) {
    v = warp_sum(v);
    __syncthreads(); /* the last sum has been read */
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = v;
    __syncthreads();
    float total = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++)
        total += shared[w];
    return total;
}

#endif
