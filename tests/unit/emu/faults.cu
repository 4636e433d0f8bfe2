/*
 * faults.cu - kernels that are wrong on purpose, each in one way; test_emulator.c expects the
 * emulator to notice.
 *
 * Launched with 64 threads; `x` is device memory of `count` floats. What a kernel with a race
 * computes is compared between thread orders by the test: it must differ, else the orders would not
 * find such bugs.
 */
#include "kernels/cuda/cuda_device.cuh"

#include "kernels/cuda/ptx.cuh"

/* Each thread writes its value and reads its neighbour's: the barrier between is missing (or
 * not). */
template <bool BARRIER> static __global__ void neighbour(float *x, uint32_t count) {
    DYNAMIC_SHARED(area);
    float *s = (float *)area;
    s[threadIdx.x] = (float)threadIdx.x;
    if (BARRIER)
        __syncthreads();
    x[threadIdx.x] = s[(threadIdx.x + 33) % 64];
}

/* Two threads write the same place. */
static __global__ void race(float *x, uint32_t count) {
    DYNAMIC_SHARED(area);
    float *s = (float *)area;
    s[threadIdx.x % 32] = (float)threadIdx.x;
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x % 32];
}

/* Copies 16 bytes a thread through shared memory; reads before (or after) the wait. */
template <bool WAIT> static __global__ void early_read(float *x, uint32_t count) {
    DYNAMIC_SHARED(area);
    float *s = (float *)area;
    x[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x < 16)
        cp_async_16(s + threadIdx.x * 4, x + threadIdx.x * 4, true);
    cp_async_commit();
    if (WAIT)
        cp_async_wait<0>();
    __syncthreads();
    const float v = s[threadIdx.x];
    cp_async_wait<0>();
    __syncthreads();
    x[threadIdx.x] = v;
}

static __global__ void never_waits(float *x, uint32_t count) {
    DYNAMIC_SHARED(area);
    cp_async_16(area + threadIdx.x * 16, x, true);
    cp_async_commit();
}
static __global__ void past_the_end(float *x, uint32_t count) {
    x[count + threadIdx.x * 16] = 1;
}
static __global__ void before_the_start(float *x, uint32_t count) {
    x[-1024 - (int)threadIdx.x] = 1;
}
static __global__ void past_shared(float *x, uint32_t count) {
    DYNAMIC_SHARED(area);
    ((float *)area)[64 + threadIdx.x] = 1;
}
static __global__ void half_barrier(float *x, uint32_t count) {
    if (threadIdx.x < 32)
        __syncthreads();
}
static __global__ void early_exit(float *x, uint32_t count) {
    if (threadIdx.x == 5)
        return;
    __syncthreads();
}
static __global__ void missing_lane(float *x, uint32_t count) {
    if (threadIdx.x % 32 != 7)
        x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
static __global__ void two_collectives(float *x, uint32_t count) {
    if (threadIdx.x % 2)
        x[0] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
    else
        __syncwarp();
}
static __global__ void unaligned_copy(float *x, uint32_t count) {
    DYNAMIC_SHARED(area);
    cp_async_16(area, x + 1, true);
    cp_async_wait<0>();
}
/* A dependent launch that reads before its predecessor has written (or waits). */
template <bool WAIT> static __global__ void successor(float *x, uint32_t count) {
    if (WAIT)
        dependency_wait();
    const float v = x[threadIdx.x];
    dependency_wait();
    x[64 + threadIdx.x] = v;
}
/* Between the two: lets the successor begin before it waits itself, or after. */
template <bool EARLY> static __global__ void middle(float *x, uint32_t count) {
    if (EARLY)
        dependents_launch();
    dependency_wait();
    dependents_launch();
}
static __global__ void predecessor(float *x, uint32_t count) {
    x[threadIdx.x] = 7;
}
static __global__ void stale(float *x, uint32_t count) {
    x[threadIdx.x] += 1;
}

extern "C" void run_fault(struct stream *base, int which, float *x, uint32_t count) {
    struct cuda_stream *s = cuda_stream_of(base);
    const launch_shape shape = {dim3(1), dim3(64), 1024, false},
                       dependent = {dim3(1), dim3(64), 1024, true},
                       small = {dim3(1), dim3(64), 256, false},
                       large = {dim3(1), dim3(2048), 0, false},
                       /* as every launcher of kernels/cuda/ asks for it */
        usual = {dim3(1), dim3(64), 1024, device_of(base)->dependent_launch};
    switch (which) {
    case 0: LAUNCH(neighbour<false>, shape, s, x, count); break;
    case 1: LAUNCH(race, shape, s, x, count); break;
    case 2: LAUNCH(early_read<false>, shape, s, x, count); break;
    case 3: LAUNCH(never_waits, shape, s, x, count); break;
    case 4: LAUNCH(past_the_end, shape, s, x, count); break;
    case 5: LAUNCH(before_the_start, shape, s, x, count); break;
    case 6: LAUNCH(past_shared, small, s, x, count); break;
    case 7: LAUNCH(half_barrier, shape, s, x, count); break;
    case 8: LAUNCH(early_exit, shape, s, x, count); break;
    case 9: LAUNCH(missing_lane, shape, s, x, count); break;
    case 10: LAUNCH(two_collectives, shape, s, x, count); break;
    case 11: LAUNCH(unaligned_copy, shape, s, x, count); break;
    case 12:
        LAUNCH(predecessor, shape, s, x, count);
        LAUNCH(successor<false>, dependent, s, x, count);
        break;
    case 13: LAUNCH(stale, large, s, x, count); break;
    case 14: LAUNCH(stale, shape, s, x, count); break;
    case 15: LAUNCH(stale, (launch_shape{dim3(1, 65536), dim3(64), 0, false}), s, x, count); break;
    case 16:
        LAUNCH(stale, (launch_shape{dim3(1, 1, 65536), dim3(64), 0, false}), s, x, count);
        break;
    case 17: LAUNCH(stale, (launch_shape{dim3(1), dim3(1, 1, 65), 0, false}), s, x, count); break;
    case 18: LAUNCH(stale, (launch_shape{dim3(1), dim3(64), 100 << 10, false}), s, x, count); break;
    case 20: LAUNCH(neighbour<true>, shape, s, x, count); break;
    case 22: LAUNCH(early_read<true>, shape, s, x, count); break;
    case 32:
        LAUNCH(predecessor, shape, s, x, count);
        LAUNCH(successor<true>, dependent, s, x, count);
        break;
    case 33:
        LAUNCH(predecessor, shape, s, x, count);
        LAUNCH(successor<true>, usual, s, x, count);
        break;
    case 35:
    case 36:
    case 37:
        LAUNCH(predecessor, shape, s, x, count);
        if (which == 36)
            LAUNCH(middle<false>, dependent, s, x, count);
        else
            LAUNCH(middle<true>, dependent, s, x, count);
        if (which == 37)
            LAUNCH(successor<true>, dependent, s, x, count);
        else
            LAUNCH(successor<false>, dependent, s, x, count);
        break;
    case 34: /* behind what is no kernel, though there was one before */
        LAUNCH(predecessor, shape, s, x, count);
        stream_fill(base, x, 0, count * 4);
        LAUNCH(successor<true>, usual, s, x, count);
        break;
    }
}

/* Records x += 1 as a graph and launches it `times` times. Nothing runs while it is recorded. */
extern "C" int run_graph(struct stream *base, float *x, uint32_t times) {
    struct cuda_stream *s = cuda_stream_of(base);
    const launch_shape shape = {dim3(1), dim3(64), 0, false};
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaError_t e = cudaStreamBeginCapture(s->handle, cudaStreamCaptureModeThreadLocal);
    LAUNCH(stale, shape, s, x, 64);
    if (e == cudaSuccess)
        e = cudaStreamEndCapture(s->handle, &graph);
    if (e == cudaSuccess)
        e = cudaGraphInstantiate(&exec, graph, 0);
    for (uint32_t i = 0; e == cudaSuccess && i < times; i++)
        e = cudaGraphLaunch(exec, s->handle);
    (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
    return (int)e;
}

/* Waits for a stream that is being recorded. */
extern "C" bool spoil_by_waiting(struct stream *base) {
    return cudaStreamSynchronize(cuda_stream_of(base)->handle) != cudaSuccess;
}
