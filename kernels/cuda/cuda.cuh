/*
 * cuda.cuh - what every .cu file begins with: the CUDA runtime, or the emulator in its place, and
 * the one way to launch.
 *
 * Kernels use no __shared__ variables, only DYNAMIC_SHARED (one untyped area, 128-byte aligned, cut
 * up by the kernel), and no PTX but by ptx.cuh and ptx_hopper.cuh. So the same file runs on a GPU
 * and in kernels/emu/.
 */
#ifndef KERNELS_CUDA_CUDA_CUH
#define KERNELS_CUDA_CUDA_CUH

#ifdef TRIREME_EMULATED
#include "kernels/emu/cuda_emu.h"
#else
#include <cstdint>
#include <cstring>
#include <cuda_runtime.h>
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#endif

#include <cstdarg>
#include <cstddef>

extern "C" {
#include "kernels/ops.h"
}

struct launch_shape {
    dim3 grid, block;
    size_t shared_bytes;
    /* may begin before the kernel ahead of it on the stream has ended: it calls dependency_wait()
     * before it touches anything that one writes */
    bool dependent;
    /* so many blocks, neighbours along y and along z, are a cluster (sm_90) */
    unsigned cluster_y = 1, cluster_z = 1;
};

#ifdef TRIREME_EMULATED
template <class... P, class... A>
static inline cudaError_t cuda_launch(const char *name, void (*kernel)(P...), const launch_shape &s,
                                      cudaStream_t stream, A... args) {
    return emu_launch(name, kernel, s.grid, s.block, s.shared_bytes, stream, s.dependent,
                      s.cluster_y, s.cluster_z, args...);
}
#else
template <class... P, class... A>
static inline cudaError_t cuda_launch(const char *name, void (*kernel)(P...), const launch_shape &s,
                                      cudaStream_t stream, A... args) {
    (void)name;
    if (s.shared_bytes > 48 * 1024) {
        cudaError_t e = cudaFuncSetAttribute(
            (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)s.shared_bytes);
        if (e != cudaSuccess)
            return e;
    }
    cudaLaunchAttribute attributes[2] = {};
    unsigned count = 0;
    if (s.dependent) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (s.cluster_y * s.cluster_z > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count++].val.clusterDim = {1, s.cluster_y, s.cluster_z};
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = s.grid;
    config.blockDim = s.block;
    config.dynamicSmemBytes = s.shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    return cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
}
#endif

/* The only way a kernel is launched. The device's sticky error takes note of a failure. */
#define LAUNCH(kernel, shape, stream, ...)                                                         \
    cuda_note(                                                                                     \
        stream,                                                                                    \
        cuda_launch(#kernel, kernel, behind_last(stream, shape), (stream)->handle, __VA_ARGS__),   \
        #kernel)

#endif
