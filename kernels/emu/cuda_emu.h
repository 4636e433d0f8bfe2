/*
 * cuda_emu.h - what a .cu file of kernels/cuda/ may use of CUDA, when it is compiled as C++ for the
 * emulator.
 *
 * Language: __global__, __device__, __forceinline__, threadIdx and the like, __syncthreads,
 * shuffles, votes, atomics. Not: __shared__ variables (use DYNAMIC_SHARED), __constant__, textures,
 * printf. Every PTX instruction is a function of kernels/cuda/ptx.cuh, whose plain-C twin calls
 * emu:: functions.
 *
 * Runtime: the calls declared below, with the types and error codes of cuda_runtime_api.h, and
 * these semantics on purpose: work runs when the host waits or has asked often enough; pageable
 * memory is read by cudaMemcpyAsync at the call, pinned memory when the copy runs; an error of a
 * kernel is sticky. A launch past the device's limits is refused at the call. What a capture does
 * not allow spoils the capture.
 */
#ifndef KERNELS_EMU_CUDA_EMU_H
#define KERNELS_EMU_CUDA_EMU_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#include "kernels/emu/machine.h"

/* ---- language ---- */

#define __global__
#define __device__
#define __host__
#undef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n)         alignas(n)
#define DYNAMIC_SHARED(name) unsigned char *name = emu_shared()

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
inline float2 make_float2(float x, float y) {
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}

inline unsigned char *emu_shared() {
    return emu::self->owner->shared -
           (emu::self->owner->owner->what.shared_bytes + 127) / 128 * 128;
}
#define threadIdx (emu::self->idx)
#define blockIdx  (emu::self->owner->idx)
#define blockDim  (emu::self->owner->owner->what.block_dim)
#define gridDim   (emu::self->owner->owner->what.grid_dim)
enum { warpSize = 32 };

inline void __syncthreads() {
    emu::barrier(0);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
    emu::exchange(mask, "__syncwarp", "", 1);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {
    emu::yield();
}

template <class T> T emu_shuffle(unsigned mask, const char *what, T v, unsigned from) {
    auto *all = emu::exchange(mask, what, &v, sizeof v);
    /* undefined on a GPU unless it is the lane's own value: keep it */
    if (!(mask >> from & 1))
        return v;
    T out;
    memcpy(&out, all[from], sizeof out);
    return out;
}
template <class T> T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
    unsigned lane = emu::self->lane, base = lane / unsigned(width) * unsigned(width);
    return emu_shuffle(mask, "__shfl_sync", v, base + unsigned(from) % unsigned(width));
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
    unsigned lane = emu::self->lane, from = lane ^ unsigned(bits);
    return emu_shuffle(mask, "__shfl_xor_sync", v,
                       from / unsigned(width) == lane / unsigned(width) ? from : lane);
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
    unsigned lane = emu::self->lane, from = lane + by;
    return emu_shuffle(mask, "__shfl_down_sync", v,
                       from / unsigned(width) == lane / unsigned(width) ? from : lane);
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
    unsigned lane = emu::self->lane;
    bool inside = lane % unsigned(width) >= by;
    return emu_shuffle(mask, "__shfl_up_sync", v, inside ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    unsigned char p = predicate != 0;
    auto *all = emu::exchange(mask, "__ballot_sync", &p, 1);
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1)
            bits |= unsigned(all[i][0]) << i;
    return bits;
}
inline int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) == mask;
}

/* Atomics are not watched for races (races.h): instrumented callers must not inline them. */
#define EMU_ATOMIC __attribute__((noinline, no_sanitize_thread))
template <class T> EMU_ATOMIC T emu_atomic(T *at, T next) {
    T old = *at;
    *at = next;
    return old;
}
template <class T> EMU_ATOMIC T atomicAdd(T *at, T v) {
    return emu_atomic(at, T(*at + v));
}
template <class T> EMU_ATOMIC T atomicMax(T *at, T v) {
    return emu_atomic(at, *at > v ? *at : v);
}
template <class T> EMU_ATOMIC T atomicMin(T *at, T v) {
    return emu_atomic(at, *at < v ? *at : v);
}
template <class T> EMU_ATOMIC T atomicOr(T *at, T v) {
    return emu_atomic(at, T(*at | v));
}
template <class T> EMU_ATOMIC T atomicAnd(T *at, T v) {
    return emu_atomic(at, T(*at & v));
}
template <class T> EMU_ATOMIC T atomicExch(T *at, T v) {
    return emu_atomic(at, v);
}
template <class T> EMU_ATOMIC T atomicCAS(T *at, T expected, T v) {
    return emu_atomic(at, *at == expected ? v : *at);
}

inline int __popc(unsigned v) {
    return __builtin_popcount(v);
}
inline int __clz(int v) {
    return v ? __builtin_clz(unsigned(v)) : 32;
}
inline int __ffs(int v) {
    return __builtin_ffs(v);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return unsigned(uint64_t(a) * b >> 32);
}
inline float __uint_as_float(unsigned v) {
    float f;
    memcpy(&f, &v, 4);
    return f;
}
inline double __longlong_as_double(long long v) {
    double d;
    memcpy(&d, &v, sizeof d);
    return d;
}
inline long long __double_as_longlong(double d) {
    long long v;
    memcpy(&v, &d, sizeof v);
    return v;
}
inline unsigned __float_as_uint(float f) {
    unsigned v;
    memcpy(&v, &f, 4);
    return v;
}
inline int __float_as_int(float f) {
    return int(__float_as_uint(f));
}
inline float __int_as_float(int v) {
    return __uint_as_float(unsigned(v));
}
inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __fsub_rn(float a, float b) {
    return a - b;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline double __dmul_rn(double a, double b) {
    return a * b;
}
inline double __dadd_rn(double a, double b) {
    return a + b;
}
inline double __dsub_rn(double a, double b) {
    return a - b;
}
inline float __frsqrt_rn(float a) {
    return float(1.0 / sqrt(double(a)));
}
inline float __frcp_rn(float a) {
    return 1.0f / a;
}
inline float __fsqrt_rn(float a) {
    return sqrtf(a);
}
inline float rsqrtf(float a) {
    return float(1.0 / sqrt(double(a)));
}
template <class T> T __ldg(const T *p) {
    return *p;
}
template <class T> T min(T a, T b) {
    return a < b ? a : b;
}
template <class T> T max(T a, T b) {
    return a > b ? a : b;
}

/* ---- runtime ---- */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101,
    cudaErrorPeerAccessUnsupported = 217,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorUnknown = 999
};
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaIpcMemLazyEnablePeerAccess = 1 };
struct cudaIpcMemHandle_t {
    char reserved[64];
};
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlockOptin;
    int major, minor, multiProcessorCount, l2CacheSize;
    int pciDomainID, pciBusID, pciDeviceID;
};
/* Architectures as tens: what a function was compiled for, and what runs it. */
struct cudaFuncAttributes {
    int ptxVersion, binaryVersion;
};
struct emu_stream;
struct emu_event;
struct emu_graph;
typedef emu_stream *cudaStream_t;
typedef emu_event *cudaEvent_t;
typedef emu_graph *cudaGraph_t;
typedef emu_graph *cudaGraphExec_t;

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaMalloc(void **p, size_t size);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **p, size_t size, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p);
cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void *p);
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t size, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
template <class F> cudaError_t cudaFuncSetAttribute(F *, cudaFuncAttribute, int) {
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *function);

cudaError_t emu_enqueue_kernel(const emu::launch &launch, cudaStream_t stream);
/* Enqueues a function that reads and writes device memory: cuBLASLt and NCCL calls. */
cudaError_t emu_enqueue_call(const char *name, std::function<void()> call, cudaStream_t stream);

/* Forgets the sticky error and all that is on streams: a test that provokes one goes on with the
 * next. */
extern "C" void emu_recover(void);
/* What devices opened from now on look like: compute capability as tens (80, 86, 89, 90, 100, 120),
 * and the architecture that the kernels were compiled for (90; 80: code of compute_80 translated by
 * the driver, in which griddepcontrol.wait is nothing). */
extern "C" void emu_set_device(int arch, int compiled);
/* What fresh device memory holds: 0xff, unless a test wants to see who relies on that. */
extern "C" void emu_set_fill(int byte);
/* Launches are checked, not run. */
extern "C" void emu_set_dry(bool dry);
/* Kernels launched so far, recorded ones too. */
extern "C" uint64_t emu_launch_count(void);
/* Makes cuBLASLt choose another algorithm, one that computes the same. */
extern "C" void emu_set_blas_choice(int choice);

template <class... P, class... A>
cudaError_t emu_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                       size_t shared_bytes, cudaStream_t stream, bool dependent, unsigned cluster_y,
                       unsigned cluster_z, A... args) {
    emu::launch l;
    l.name = name;
    l.grid_dim = {grid.x, grid.y, grid.z};
    l.block_dim = {block.x, block.y, block.z};
    l.shared_bytes = shared_bytes;
    l.dependent = dependent;
    l.cluster_y = cluster_y;
    l.cluster_z = cluster_z;
    std::tuple<P...> values(static_cast<P>(args)...);
    l.run = [kernel, values] { std::apply(kernel, values); };
    return emu_enqueue_kernel(l, stream);
}

#endif
