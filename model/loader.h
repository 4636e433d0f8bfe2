/*
 * loader.h - what a mixer's or feed-forward's load function works with: tensors by role, into device memory.
 *
 * Every call checks names, types and shapes, marks tensors as used and counts progress. Errors are in l->err.
 */
#ifndef MODEL_LOADER_H
#define MODEL_LOADER_H

#include "model/names.h"
#include "model/weights.h"

struct loader {
    struct model_weights *w;
    const struct model_spec *spec;
    const struct safetensors *files;
    const struct name_prefix *prefix;
    struct stream *stream;
    bool *used; /* [tensor_count] */
    weights_progress_fn progress;
    void *progress_ctx;
    uint64_t done, total;
    struct error *err;
};

/* One tensor of a product that may be made of several, stacked by rows. */
struct part {
    enum weight_role role, bias;
    uint32_t rows;
};

/* Zeroed memory that weights_release gives back. */
void *loader_new(struct loader *l, size_t size);
/* Whether the files have the role's tensor. */
bool loader_has(const struct loader *l, enum weight_role role, uint32_t layer);
/* f32 device memory [count] from a tensor [count], or [heads, count / heads]. */
MUST_CHECK int loader_vector(struct loader *l, const float **out, enum weight_role role, uint32_t layer,
                             uint32_t count);
/* Weight [width] and, where the spec has one, bias; nothing when the kind is NORM_NONE. */
MUST_CHECK int loader_norm(struct loader *l, struct norm_weights *out, const struct norm_spec *spec,
                           enum weight_role weight, enum weight_role bias, uint32_t layer, uint32_t width);
/* One product of `count` parts, [sum of rows, cols]; with biases [rows] of all parts where `bias`. */
MUST_CHECK int loader_matrix(struct loader *l, struct matrix *m, const struct part *parts, uint32_t count,
                             uint32_t cols, bool bias, uint32_t layer);
/* As loader_matrix, of one tensor whose rows are taken in another order: row i of the product is row order[i] of the
 * tensor. */
MUST_CHECK int loader_reordered(struct loader *l, struct matrix *m, const struct part *part, uint32_t cols, bool bias,
                                uint32_t layer, const uint32_t *order);

#endif
