/* activate.cuh - the activations of ops.h (enum activation), in f32. */
#ifndef KERNELS_CUDA_ACTIVATE_CUH
#define KERNELS_CUDA_ACTIVATE_CUH

#include "kernels/cuda/cuda_device.cuh"

static __device__ __forceinline__ float activate(int kind, float x) {
    switch (kind) {
    case ACTIVATION_SILU: return x / (1.0f + expf(-x));
    case ACTIVATION_GELU: return 0.5f * x * erfcf(-x * 0.70710678118654752440f);
    case ACTIVATION_GELU_QUICK: return x / (1.0f + expf(-1.702f * x));
    case ACTIVATION_RELU: return x < 0 ? 0.0f : x;
    case ACTIVATION_RELU2: return x < 0 ? 0.0f : x * x;
    default:
        return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
    }
}

#endif
