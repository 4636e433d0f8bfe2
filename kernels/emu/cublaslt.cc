/*
 * cublaslt.cc - kernels/cublaslt.h for the emulated device.
 *
 * Strict where the library is lenient: an algorithm works for the shape it was chosen for only, all sums are cut by a
 * rule that depends on the whole shape (so that bits tell who asks with another number of rows), the workspace is
 * written, and what lies between the rows of the result is left alone.
 */
#include <memory>

#include "kernels/emu/cuda_emu.h"

extern "C" {
#include "kernels/cublaslt.h"
}

namespace {

enum { INVALID_VALUE = 7, WORKSPACE = 4096, PARTIALS_MAX = 4 };

struct desc {
    bool transpose_a;
};
struct layout {
    enum storage_type type;
    uint64_t rows, cols;
    int64_t stride;
};
struct preference {
    uint64_t workspace;
    uint32_t reductions, alignments;
};

int choice_made;

size_t version() { return 130000; }
int create(void **handle) {
    *handle = new int(0);
    return CUBLASLT_SUCCESS;
}
int destroy(void *handle) {
    delete (int *)handle;
    return CUBLASLT_SUCCESS;
}
int desc_create(void **out, int compute_type, int scale_type) {
    if (compute_type != CUBLASLT_COMPUTE_F32 || scale_type != CUBLASLT_F32) return CUBLASLT_NOT_SUPPORTED;
    *out = new desc{false};
    return CUBLASLT_SUCCESS;
}
int desc_set(void *d, int attribute, const void *value, size_t size) {
    if (attribute != CUBLASLT_DESC_TRANSPOSE_A || size != sizeof(int)) return INVALID_VALUE;
    ((desc *)d)->transpose_a = *(const int *)value == CUBLASLT_TRANSPOSED;
    return CUBLASLT_SUCCESS;
}
int desc_destroy(void *d) {
    delete (desc *)d;
    return CUBLASLT_SUCCESS;
}
int layout_create(void **out, int type, uint64_t rows, uint64_t cols, int64_t stride) {
    const enum storage_type t = type == CUBLASLT_F32    ? STORAGE_F32
                                : type == CUBLASLT_F16  ? STORAGE_F16
                                : type == CUBLASLT_BF16 ? STORAGE_BF16
                                                        : STORAGE_NONE;
    if (t == STORAGE_NONE || !rows || !cols || stride < (int64_t)rows) return INVALID_VALUE;
    *out = new layout{t, rows, cols, stride};
    return CUBLASLT_SUCCESS;
}
int layout_destroy(void *l) {
    delete (layout *)l;
    return CUBLASLT_SUCCESS;
}
int preference_create(void **out) {
    *out = new preference{0, 7, 0};
    return CUBLASLT_SUCCESS;
}
int preference_set(void *p, int attribute, const void *value, size_t size) {
    preference *to = (preference *)p;
    if (attribute == CUBLASLT_PREFER_WORKSPACE && size == 8) {
        memcpy(&to->workspace, value, 8);
    } else if (attribute == CUBLASLT_PREFER_REDUCTIONS && size == 4) {
        memcpy(&to->reductions, value, 4);
    } else if (attribute >= CUBLASLT_PREFER_ALIGNMENT && attribute < CUBLASLT_PREFER_ALIGNMENT + 4 && size == 4) {
        to->alignments++;
    } else {
        return INVALID_VALUE;
    }
    return CUBLASLT_SUCCESS;
}
int preference_destroy(void *p) {
    delete (preference *)p;
    return CUBLASLT_SUCCESS;
}

/* Sums of how many interleaved partials. */
uint64_t partials_of(uint64_t features, uint64_t rows, uint64_t cols) {
    return 1 + (features * 7 + rows * 3 + cols / 8) % PARTIALS_MAX;
}

int choose(void *, void *d, void *a, void *b, void *, void *out, void *p, int wanted, struct cublaslt_choice *choices,
           int *count) {
    const layout *w = (layout *)a, *x = (layout *)b, *o = (layout *)out;
    const preference *prefer = (preference *)p;
    *count = 0;
    if (wanted < 1 || !((desc *)d)->transpose_a || w->rows != x->rows || o->rows != w->cols || o->cols != x->cols ||
        w->type != x->type)
        return INVALID_VALUE;
    if (prefer->workspace < WORKSPACE) return CUBLASLT_SUCCESS; /* none */
    choices[0] = cublaslt_choice();
    choices[0].algo.data[0] = o->rows;
    choices[0].algo.data[1] = o->cols;
    choices[0].algo.data[2] = w->rows;
    choices[0].algo.data[3] = (uint64_t)choice_made;
    choices[0].workspace_bytes = WORKSPACE;
    /* Where sums may be added up afterwards, the order of that would be anybody's. */
    choices[0].state = prefer->reductions || prefer->alignments < 4 ? CUBLASLT_NOT_SUPPORTED : CUBLASLT_SUCCESS;
    *count = 1;
    return CUBLASLT_SUCCESS;
}

void put_row(const layout &w, const layout &x, const layout &o, const void *a, const void *b, void *d, uint64_t t,
             uint64_t partials) {
    for (uint64_t n = 0; n < o.rows; n++) {
        float sums[PARTIALS_MAX] = {}, sum = 0;
        for (uint64_t k = 0; k < w.rows; k++)
            sums[k % partials] += storage_get(w.type, a, n * (uint64_t)w.stride + k) *
                               storage_get(x.type, b, t * (uint64_t)x.stride + k);
        for (uint64_t i = 0; i < partials; i++) sum += sums[i];
        storage_put(o.type, d, t * (uint64_t)o.stride + n, sum);
    }
}

int matmul(void *, void *d, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
           const void *beta, const void *, void *, void *out, void *out_layout, const struct cublaslt_algo *algo,
           void *workspace, size_t workspace_bytes, void *stream) {
    const layout w = *(layout *)a_layout, x = *(layout *)b_layout, o = *(layout *)out_layout;
    if (algo->data[0] != o.rows || algo->data[1] != o.cols || algo->data[2] != w.rows) return CUBLASLT_NOT_SUPPORTED;
    if (!((desc *)d)->transpose_a || *(const float *)alpha != 1 || *(const float *)beta != 0 ||
        workspace_bytes < WORKSPACE || ((uintptr_t)a | (uintptr_t)b | (uintptr_t)out) % 16)
        return INVALID_VALUE;
    const uint64_t partials = partials_of(o.rows, o.cols, w.rows);
    auto run = [=]() {
        memset(workspace, 0xff, WORKSPACE);
        for (uint64_t t = 0; t < o.cols; t++) put_row(w, x, o, a, b, out, t, partials);
    };
    return emu_enqueue_call("cublasLtMatmul", run, (cudaStream_t)stream) == cudaSuccess ? (int)CUBLASLT_SUCCESS
                                                                                       : INVALID_VALUE;
}

const cublaslt_calls CALLS = {version,           create,         destroy,            desc_create, desc_set,
                              desc_destroy,      layout_create,  layout_destroy,     preference_create,
                              preference_set,    preference_destroy, choose,         matmul};

__attribute__((constructor)) void bring() { cublaslt_register(&CALLS); }

} // namespace

void emu_set_blas_choice(int choice) { choice_made = choice; }
