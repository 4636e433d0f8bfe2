/*
 * linear.cuh - what the ways to make a product share (linear.cu, linear_blas.cu,
 * linear_hopper.cu, linear_packed.cu, linear_packed_mma.cu).
 */
#ifndef KERNELS_CUDA_LINEAR_CUH
#define KERNELS_CUDA_LINEAR_CUH

#include "kernels/cuda/paged.cuh"

/* Rows of a product that norms its x or adds to the residual. Of more, x in f32, which each block reads,
 * would cost more of L2 than the norm's kernel takes. */
enum : uint32_t { NORMED_ROWS = 8 };

/* What a product of Q, K and V does with its rows (op_linear.rope; linear_hopper.cuh). */
struct rope_of_rows {
    const float *angles; /* f32 [rows, head size / 2, 2]; NULL: nothing */
    uint32_t heads;      /* of Q */
    struct kv_pages kv;
    const uint32_t *slots, *positions;
};

/* Rows of a product that gives its out to other ranks: of products with more, whose sums fill the
 * registers, the norm's kernel does. */
enum : uint32_t { PUSHED_ROWS = 64 };

struct peer_table;
struct peer_signal;
/* What a product does with its sums where they are one rank's addends (op_linear.push; peers_push.cuh). */
struct push_to_ranks {
    struct peer_table *table; /* NULL: nothing */
    uint32_t self, count, blocks;
    uint32_t rows_each, width; /* of the norm behind it: rows of a block, features of a row */
    uint32_t row, feature;     /* the product's first, of the norm's */
    struct peer_signal *signal;
};

/* out[t, n] = sum_k x[t, k] * w[n, k] + bias[n], of one segment of a matrix. */
struct product {
    void *out;
    const void *x, *w;
    const float *bias;
    uint32_t rows, features, cols, out_stride;
    bool out_f32;
    /* out[t, i] = silu(gate) * up, act: of 16 features that lie together 8 are of w's first half, the
     * gate, 8 of the other; each second 64 of them lie at `up` (pack.cu). */
    bool gated;
    const void *up;
    /* as op_linear has them: x, or out, is the residual then, f32 (linear_hopper.cuh) */
    struct norm_of_x norm;
    struct residual_out residual;
    struct rope_of_rows rope;
    struct push_to_ranks push;
};

/* Tiles of 64 features, half as many as an H100 has SMs; those of which four splits have more blocks than it has
 * SMs, and two leave SMs for decode attention, which begins beside QKV's product (two ranks of an 8B); the least
 * k of a split. */
enum : uint32_t { SPLIT_TILES = 132 / 2, HALVED_MIN = 34, HALVED_MAX = 48, SPLIT_COLS = 1024 };

/* Into how many splits the k of output rows is cut, on sm_90a: few features make too few blocks for the
 * SMs. By the matrix alone, so that a row's sums do not depend on the step, nor on the GPU's size. */
static inline uint32_t feature_splits(uint32_t features, uint32_t cols) {
    const uint32_t tiles = features / 64;
    if (tiles > SPLIT_TILES || cols < SPLIT_COLS * 2)
        return 1;
    return cols < SPLIT_COLS * 4 || (tiles >= HALVED_MIN && tiles <= HALVED_MAX) ? 2 : 4;
}

/* The product by cuBLASLt; false: not by it (linear_blas.cu says when), nothing is on the
 * stream. */
bool linear_blas(struct stream *s, const struct product &p);

/* Rows of a product from one on; x is of 16 bits, or all rows are asked for. */
static inline struct product product_rows(const struct product &p, uint32_t first, uint32_t count) {
    struct product some = p;
    CHECK(!first || (!p.norm.squares && !p.residual.squares && !p.rope.angles));
    some.rows = count;
    some.push.row += first;
    some.x = (const uint16_t *)p.x + (size_t)first * p.cols;
    some.out = (char *)p.out + (size_t)first * p.out_stride * (p.out_f32 ? 4 : 2);
    return some;
}

/* The product with weights in tiles (linear_hopper.cu); of the first class_rows with k in splits
 * (feature_splits). */
void linear_hopper(struct stream *s, const struct product &p, uint32_t class_rows);

/* The product with quantized weights in units (linear_packed.cu): segments of one type that follow
 * each other, each packed_alike the first. p.features: of all; p.w: none. As linear_hopper. */
void linear_packed(struct stream *s, const struct product &p, uint32_t class_rows,
                   const struct matrix_segment *segments, uint32_t count, enum storage_type type);
/* The same by mma.sync, on GPUs that are no Hopper (linear_packed_mma.cu): no norm, residual, rotation, push. */
void linear_packed_mma(struct stream *s, const struct product &p,
                       const struct matrix_segment *segments, uint32_t count,
                       enum storage_type type);
/* The same of weights in fp8, with x rounded to fp8 in `scratch` (linear_fp8.cu); cols: whole times 128. */
void linear_fp8(struct stream *s, const struct product &p, uint32_t class_rows,
                const struct matrix_segment *segments, uint32_t count, void *scratch);
/* Whether weights of this type, in units, are those of products that make a norm (op_linear.norm). features,
 * cols: of the product. */
bool packed_folds_norm(enum storage_type type, uint32_t features, uint32_t cols);
bool packed_alike(const struct matrix_segment &a, const struct matrix_segment &b, uint32_t cols);

/* The halves of a gated matrix, each as a segment of its own. */
static inline void gated_halves(const struct matrix *w, struct matrix_segment half[2]) {
    half[0] = w->segments[0];
    half[1] = w->segments[w->segment_count - 1];
    if (w->segment_count == 2)
        return;
    const uint32_t rows = half[0].rows /= 2, type = segment_type(w, &half[0]);
    const size_t scales =
        half[0].scale_rows ? (size_t)(rows / half[0].scale_rows) * half[0].scale_stride : 0;
    half[1].rows = rows;
    half[1].data =
        (const char *)half[0].data + rows * storage_bytes((enum storage_type)type, w->cols);
    half[1].packed = half[0].packed ? half[1].data : NULL;
    half[1].scales = half[0].scales ? half[0].scales + scales : NULL;
    half[1].zeros = half[0].zeros ? half[0].zeros + scales : NULL;
}

#endif
