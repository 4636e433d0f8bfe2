/*
 * linear.cuh - what the ways to make a product share (linear.cu, linear_blas.cu,
 * linear_hopper.cu, linear_packed.cu).
 */
#ifndef KERNELS_CUDA_LINEAR_CUH
#define KERNELS_CUDA_LINEAR_CUH

#include "kernels/cuda/cuda_device.cuh"

/* out[t, n] = sum_k x[t, k] * w[n, k] + bias[n], of one segment of a matrix. */
struct product {
    void *out;
    const void *x, *w;
    const float *bias;
    uint32_t rows, features, cols, out_stride;
    bool out_f32;
};

/* The product by cuBLASLt; false: not by it (linear_blas.cu says when), nothing is on the
 * stream. */
bool linear_blas(struct stream *s, const struct product &p);

/* The product with weights in tiles (linear_hopper.cu). */
void linear_hopper(struct stream *s, const struct product &p);

/* The product with quantized weights in units (linear_packed.cu); segment: theirs. */
void linear_packed(struct stream *s, const struct product &p, const struct matrix_segment &segment,
                   enum storage_type type);

#endif
