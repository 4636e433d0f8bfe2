/*
 * linear_blas.cu - prompt-class products of 16-bit types by cuBLASLt (--gemm cublaslt).
 *
 * A row's bits must not depend on how many rows there are, and the library chooses among kernels by
 * the shape. So every call has the shape [BLAS_ROWS, features, cols]: the last rows of a product,
 * fewer than that, are copied to a pad of as many, and their outputs back. For each shape one
 * algorithm is chosen, when it is first met: the library's first, of those that cut no sum and add
 * it up afterwards. dev.isa, and so the device's fingerprint, names the library's version and a
 * hash of the choices (forward_rehearse meets all shapes of a model before the fingerprint is
 * taken). Taken are products without bias (the library's is of out's type) whose rows lie
 * on 16 bytes and whose pads fit; that rule knows the shape only. Cost beside the product: less
 * than BLAS_ROWS rows too many.
 */
#include <cstdio>
#include <new>

#include "kernels/cuda/linear.cuh"

extern "C" {
#include "kernels/cublaslt.h"
}

enum { BLAS_ROWS = 256, BLAS_PLANS = 256 };
enum : size_t { X_PAD_BYTES = 16u << 20, OUT_PAD_BYTES = 48u << 20, WORKSPACE_BYTES = 32u << 20 };

struct blas_plan {
    uint32_t features, cols, out_stride;
    bool out_f32, usable;
    void *desc, *w, *x, *out; /* the library's */
    struct cublaslt_algo algo;
};

struct cuda_blas {
    const struct cublaslt_calls *calls;
    void *handle;
    char *x_pad, *out_pad, *workspace;
    struct blas_plan plans[BLAS_PLANS];
    uint32_t plan_count;
    uint64_t choices; /* a hash of all algorithms chosen */
};

/* ---- opening ---- */

int blas_open(struct cuda_device *cuda, size_t *version, struct error *err) {
    const struct cublaslt_calls *calls;
    int rc = cublaslt_open(&calls, err);
    if (rc)
        return rc;
    struct cuda_blas *blas = cuda->blas = (struct cuda_blas *)mem_alloc(sizeof *blas);
    blas->calls = calls;
    *version = calls->version();
    cudaError_t e = cudaMalloc((void **)&blas->x_pad, X_PAD_BYTES);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&blas->out_pad, OUT_PAD_BYTES);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&blas->workspace, WORKSPACE_BYTES);
    if (e != cudaSuccess)
        return error_set(err, ERR_MEMORY, "no memory for cuBLASLt: %s", cudaGetErrorString(e));
    int status = calls->create(&blas->handle);
    if (status)
        return error_set(err, ERR_UNSUPPORTED, "cuBLASLt cannot be used: it answers %d", status);
    return 0;
}

void blas_close(struct cuda_device *cuda) {
    struct cuda_blas *blas = cuda->blas;
    if (!blas)
        return;
    for (uint32_t i = 0; i < blas->plan_count; i++) {
        struct blas_plan *p = &blas->plans[i];
        if (p->desc)
            (void)blas->calls->desc_destroy(p->desc);
        for (void *layout : {p->w, p->x, p->out})
            if (layout)
                (void)blas->calls->layout_destroy(layout);
    }
    if (blas->handle)
        (void)blas->calls->destroy(blas->handle);
    for (char *memory : {blas->x_pad, blas->out_pad, blas->workspace})
        if (memory)
            (void)cudaFree(memory);
    mem_free(blas);
    cuda->blas = NULL;
}

/* ---- plans ---- */

static int number_of(enum storage_type type) {
    return type == STORAGE_F32 ? CUBLASLT_F32 : type == STORAGE_F16 ? CUBLASLT_F16 : CUBLASLT_BF16;
}

static int make_preference(const struct cublaslt_calls *calls, void **out) {
    const uint64_t workspace = WORKSPACE_BYTES;
    const uint32_t no_reductions = 0, alignment = 16;
    int status = calls->preference_create(out);
    if (!status)
        status =
            calls->preference_set(*out, CUBLASLT_PREFER_WORKSPACE, &workspace, sizeof workspace);
    if (!status)
        status = calls->preference_set(*out, CUBLASLT_PREFER_REDUCTIONS, &no_reductions,
                                       sizeof no_reductions);
    for (int i = 0; i < 4 && !status; i++)
        status = calls->preference_set(*out, CUBLASLT_PREFER_ALIGNMENT + i, &alignment,
                                       sizeof alignment);
    return status;
}

/* Column-major: out [features, rows] = transposed w [cols, features] times x [cols, rows]. */
static int describe(const struct cublaslt_calls *calls, struct blas_plan *p,
                    enum storage_type act) {
    const int transposed = CUBLASLT_TRANSPOSED,
              out_type = p->out_f32 ? CUBLASLT_F32 : number_of(act);
    int status = calls->desc_create(&p->desc, CUBLASLT_COMPUTE_F32, CUBLASLT_F32);
    if (!status)
        status =
            calls->desc_set(p->desc, CUBLASLT_DESC_TRANSPOSE_A, &transposed, sizeof transposed);
    if (!status)
        status = calls->layout_create(&p->w, number_of(act), p->cols, p->features, p->cols);
    if (!status)
        status = calls->layout_create(&p->x, number_of(act), p->cols, BLAS_ROWS, p->cols);
    if (!status)
        status = calls->layout_create(&p->out, out_type, p->features, BLAS_ROWS, p->out_stride);
    return status;
}

static bool choose_algorithm(struct cuda_blas *blas, struct blas_plan *p, enum storage_type act) {
    struct cublaslt_choice choice;
    void *preference = NULL;
    int count = 0, status = describe(blas->calls, p, act);
    if (!status)
        status = make_preference(blas->calls, &preference);
    if (!status)
        status = blas->calls->choose(blas->handle, p->desc, p->w, p->x, p->out, p->out, preference,
                                     1, &choice, &count);
    if (preference)
        (void)blas->calls->preference_destroy(preference);
    if (status || count < 1 || choice.state || choice.workspace_bytes > WORKSPACE_BYTES)
        return false;
    p->algo = choice.algo;
    return true;
}

/* What was chosen for a shape becomes part of dev.isa: "/cublaslt130000-<hash of all choices>".
 * The order in which shapes are met does not matter. */
static void tell_choice(struct cuda_device *cuda, const struct blas_plan *p) {
    const uint64_t told[12] = {p->features,     p->cols,         p->out_stride,   p->out_f32,
                               p->algo.data[0], p->algo.data[1], p->algo.data[2], p->algo.data[3],
                               p->algo.data[4], p->algo.data[5], p->algo.data[6], p->algo.data[7]};
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, by words */
    for (uint64_t word : told)
        hash = (hash ^ word) * 0x100000001b3u;
    cuda->blas->choices += hash ^ hash >> 29;
    char *at = strstr(cuda->dev.isa, "/cublaslt");
    const size_t used = at + strcspn(at, "-") - cuda->dev.isa;
    snprintf(cuda->dev.isa + used, sizeof cuda->dev.isa - used, "-%08x",
             (unsigned)(cuda->blas->choices ^ cuda->blas->choices >> 32));
}

/* NULL: this shape is not for the library. */
static const struct blas_plan *find_plan(struct cuda_device *cuda, const struct product &p) {
    struct cuda_blas *blas = cuda->blas;
    for (uint32_t i = 0; i < blas->plan_count; i++) {
        const struct blas_plan *at = &blas->plans[i];
        if (at->features == p.features && at->cols == p.cols && at->out_stride == p.out_stride &&
            at->out_f32 == p.out_f32)
            return at->usable ? at : NULL;
    }
    if (blas->plan_count == BLAS_PLANS)
        return NULL;
    struct blas_plan *plan = &blas->plans[blas->plan_count++];
    *plan = blas_plan();
    plan->features = p.features;
    plan->cols = p.cols;
    plan->out_stride = p.out_stride;
    plan->out_f32 = p.out_f32;
    plan->usable = choose_algorithm(blas, plan, cuda->dev.activation_type);
    tell_choice(cuda, plan);
    return plan->usable ? plan : NULL;
}

/* ---- products ---- */

template <class T>
static __global__ void unpad_kernel(T *out, const T *pad, uint32_t features, uint32_t stride) {
    const uint32_t n = blockIdx.x * blockDim.x + threadIdx.x;
    dependency_wait();
    dependents_launch();
    if (n < features)
        out[(size_t)blockIdx.y * stride + n] = pad[(size_t)blockIdx.y * stride + n];
}

template <class T>
static void unpad(struct stream *s, const struct product &p, const char *pad, uint32_t rows) {
    launch_shape shape = {dim3(blocks_for(p.features, 256), rows), dim3(256), 0, false};
    LAUNCH(unpad_kernel<T>, shape, cuda_stream_of(s), (T *)p.out, (const T *)pad, p.features,
           p.out_stride);
}

static void multiply(struct stream *s, const struct blas_plan *plan, const void *w, const void *x,
                     void *out) {
    const float one = 1, zero = 0;
    struct cuda_blas *blas = device_of(s)->blas;
    cuda_stream_of(s)->kernel_last = false;
    int status = blas->calls->matmul(blas->handle, plan->desc, &one, w, plan->w, x, plan->x, &zero,
                                     out, plan->out, out, plan->out, &plan->algo, blas->workspace,
                                     WORKSPACE_BYTES, cuda_stream_of(s)->handle);
    if (status)
        cuda_note(cuda_stream_of(s), cudaErrorUnknown, "a product by cuBLASLt");
}

bool linear_blas(struct stream *s, const struct product &p) {
    struct cuda_blas *blas = device_of(s)->blas;
    const size_t out_size = p.out_f32 ? 4 : 2, out_row = p.out_stride * out_size,
                 x_row = (size_t)p.cols * 2;
    if (!blas || p.bias || x_row % 16 || out_row % 16 || p.features % 8 ||
        ((uintptr_t)p.out | (uintptr_t)p.x) % 16 || BLAS_ROWS * x_row > X_PAD_BYTES ||
        BLAS_ROWS * out_row > OUT_PAD_BYTES)
        return false;
    const struct blas_plan *plan = find_plan(device_of(s), p);
    if (!plan)
        return false;
    struct product left = p;
    for (; left.rows >= BLAS_ROWS; left.rows -= BLAS_ROWS) {
        multiply(s, plan, p.w, left.x, left.out);
        left.x = (const char *)left.x + BLAS_ROWS * x_row;
        left.out = (char *)left.out + BLAS_ROWS * out_row;
    }
    if (!left.rows)
        return true;
    cuda_stream_of(s)->kernel_last = false;
    cuda_note(cuda_stream_of(s),
              cudaMemcpyAsync(blas->x_pad, left.x, left.rows * x_row, cudaMemcpyDeviceToDevice,
                              cuda_stream_of(s)->handle),
              "padding a product");
    multiply(s, plan, p.w, blas->x_pad, blas->out_pad);
    if (p.out_f32)
        unpad<float>(s, left, blas->out_pad, left.rows);
    else
        unpad<uint16_t>(s, left, blas->out_pad, left.rows);
    return true;
}
