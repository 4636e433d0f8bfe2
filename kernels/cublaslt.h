/*
 * cublaslt.h - NVIDIA's library of matrix products, opened at run time: the few calls used, with
 * declarations of our own, after the public cublasLt.h of CUDA 12 and 13.
 *
 * Matrices are column-major there. A program may bring its own implementation (the emulated device
 * does): cublaslt_register, before main(). Handles, descriptors and layouts are the library's,
 * opaque.
 */
#ifndef KERNELS_CUBLASLT_H
#define KERNELS_CUBLASLT_H

#include "base/error.h"
#include "kernels/types.h"

enum { CUBLASLT_SUCCESS = 0, CUBLASLT_NOT_SUPPORTED = 15 };
enum { CUBLASLT_F32 = 0, CUBLASLT_F16 = 2, CUBLASLT_BF16 = 14, CUBLASLT_COMPUTE_F32 = 68 };
enum { CUBLASLT_DESC_TRANSPOSE_A = 3, CUBLASLT_TRANSPOSED = 1 }; /* int */
enum {
    CUBLASLT_PREFER_WORKSPACE = 1, /* uint64_t: bytes at most */
    /* uint32_t: mask of schemes; 0: no sum is cut and added up afterwards */
    CUBLASLT_PREFER_REDUCTIONS = 3,
    CUBLASLT_PREFER_ALIGNMENT = 5 /* uint32_t: bytes, of A; the next three are B, C, D */
};

struct cublaslt_algo {
    uint64_t data[8];
};
struct cublaslt_choice {
    struct cublaslt_algo algo;
    size_t workspace_bytes;
    int state; /* CUBLASLT_SUCCESS: it can be used */
    float waves;
    int reserved[4];
};

struct cublaslt_calls {
    size_t (*version)(void);
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*desc_create)(void **desc, int compute_type, int scale_type);
    int (*desc_set)(void *desc, int attribute, const void *value, size_t size);
    int (*desc_destroy)(void *desc);
    int (*layout_create)(void **layout, int type, uint64_t rows, uint64_t cols, int64_t stride);
    int (*layout_destroy)(void *layout);
    int (*preference_create)(void **preference);
    int (*preference_set)(void *preference, int attribute, const void *value, size_t size);
    int (*preference_destroy)(void *preference);
    int (*choose)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                  int wanted, struct cublaslt_choice *choices, int *count);
    int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                  const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                  void *d, void *d_layout, const struct cublaslt_algo *algo, void *workspace,
                  size_t workspace_bytes, void *stream);
};

/* Calls to be used in place of a library: the emulator's. They live on. Before cublaslt_open. */
void cublaslt_register(const struct cublaslt_calls *calls);
/* Opens the library once: the registered one, else libcublasLt.so.13 or .12 (library.h). */
MUST_CHECK int cublaslt_open(const struct cublaslt_calls **out, struct error *err);

#endif
