/*
 * int8.h - products with activations of 8 bits: what the variants of one template share.
 *
 * kernels/integers.h defines the result to the bit, so variants differ in speed alone. A variant
 * has its own order of weights: a panel is 2 * `lanes` consecutive outputs of a segment, unit
 * after unit along the columns (int8_layout). In a unit: scales, then the stored bytes, of which
 * each 4 of one output lie beside the same 4 of the next, for the upper and the lower half of the
 * panel apart. Outputs behind the segment's end have scale 0.
 */
#ifndef KERNELS_CPU_INT8_H
#define KERNELS_CPU_INT8_H

#include "kernels/cpu/features.h"
#include "kernels/integers.h"

enum { INT8_LANES_MAX = 16, INT8_CHUNK = 512, INT8_UNIT_MAX = 256 };

/*
 * Quantized activations of some rows. A row is `cols` values, then four arrays (int8_scales), one item a
 * block. Its stride is an odd number of cache lines, so that rows side by side do not meet in the same
 * sets of a cache. INT8_SPARE_ROWS more may be read, their values are of no consequence.
 */
enum { INT8_SPARE_ROWS = 15 };
struct int8_rows {
    char *data;
    size_t stride;
    uint32_t row_count, cols;
};
static inline size_t int8_stride(uint32_t cols) {
    return (((size_t)cols + cols / 2 + 63) / 64 | 1) * 64;
}
static inline int8_t *int8_values(const struct int8_rows *rows, size_t t) {
    return (int8_t *)(rows->data + t * rows->stride);
}
/* d of the row's blocks; behind it, cols / 32 items each, `sum` of struct int8_scale, then minus the sums
 * of q over the block and over its first half, each in 4 bytes as the variant wants it. */
static inline float *int8_scales(const struct int8_rows *rows, size_t t) {
    return (float *)(rows->data + t * rows->stride + rows->cols);
}

/* Minus the sums of a block and of its first half in 32 bits. */
static inline void int8_sums_32(const struct int8_scale *s, void *whole, void *first) {
    int32_t sums[2] = {-s->total, -s->first};
    memcpy(whole, &sums[0], 4);
    memcpy(first, &sums[1], 4);
}

/* One product of such rows: outputs of w into out [row_count, out_stride]. */
struct int8_product {
    const struct matrix *w;
    struct int8_rows x;
    float *out;
    size_t out_stride;
    bool in_order; /* few rows read packed weights in the order of memory: as fast as it is here */
};
/* Whether that is faster on this machine. */
bool int8_wants_order(void);

struct int8_layout {
    uint32_t unit_cols; /* divides the matrix's columns, a multiple of 32 */
    uint32_t row_bytes; /* of one output in one unit */
};

/* How a segment is cut; the answer depends on its type and scales. */
struct int8_layout int8_layout(const struct matrix *w, const struct matrix_segment *p);

struct int8_variant {
    const char *name;
    uint32_t lanes;
    /* Row t of x, f32, into row t of `rows`. */
    void (*quantize)(const float *x, const struct int8_rows *rows, uint32_t t);
    /* A panel into `out`, [cols / unit_cols] units of 2 * lanes * row_bytes. */
    void (*pack)(const struct matrix *w, uint32_t segment, uint32_t panel, uint8_t *out);
    /* All rows of the product for one panel, packed before or now. */
    void (*multiply)(const struct int8_product *p, uint32_t segment, uint32_t panel);
};

extern const struct int8_variant int8_plain, int8_plain_wide, int8_avx2, int8_avx_vnni, int8_avx512,
    int8_vnni, int8_amx;

/* Those of this build, the best last, with the features that each needs (CPU_BIT). The least set
 * whose device takes it; CPU_ISA_COUNT: tests alone. */
extern const struct int8_choice {
    const struct int8_variant *variant;
    enum cpu_isa least;
    uint64_t needs;
} INT8_VARIANTS[];
extern const size_t INT8_VARIANT_COUNT;
/* What a device of the set takes on a processor with these features. */
const struct int8_variant *int8_best(enum cpu_isa isa, struct cpu_features features);

static inline size_t int8_panel_bytes(const struct int8_variant *v, const struct matrix *w,
                                      const struct matrix_segment *p) {
    struct int8_layout l = int8_layout(w, p);
    return (size_t)(w->cols / l.unit_cols) * l.row_bytes * 2 * v->lanes;
}
static inline uint32_t int8_panels(const struct int8_variant *v, const struct matrix_segment *p) {
    return (p->rows + 2 * v->lanes - 1) / (2 * v->lanes);
}

#endif
