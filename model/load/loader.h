/*
 * loader.h - what a mixer's or feed-forward's load function works with: tensors by role, into
 * device memory.
 *
 * A tensor of three dimensions [experts, ...] stands for the matrix of l->expert.
 *
 * Every call checks names, types and shapes, marks tensors as used and counts progress. Errors are
 * in l->err.
 */
#ifndef MODEL_LOADER_H
#define MODEL_LOADER_H

#include "model/load/packed_file.h"
#include "model/load/weights.h"
#include "model/read/names.h"
#include "model/run/shard.h"

struct loader {
    struct model_weights *w;
    const struct model_spec *spec; /* of the whole model */
    const struct shard *shard;     /* this rank's part of it; NULL: all */
    const struct safetensors *files;
    const struct name_prefix *prefix;
    struct stream *stream;
    bool *used; /* [tensor_count] */
    weights_progress_fn progress;
    void *progress_ctx;
    uint64_t done, total;
    uint32_t expert; /* names and slices are those of this expert */
    struct tensor slices[MATRIX_SEGMENTS_MAX];
    uint32_t slice_count;
    struct packed_file *packed; /* where packed weights are kept; NULL: nowhere */
    bool packs_later;           /* what is not there is left to weights_pack_next */
    struct error *err;
};

/* One tensor of a product that may be made of several, stacked by rows. */
struct product_segment {
    enum weight_role role, bias;
    uint32_t rows;
};

/* Of a segment's rows and columns only these, for a rank that has a shard of it (shard.h);
 * count 0: all. Columns begin and end at blocks of the storage type. */
struct cut {
    struct shard_range rows, cols;
};

/* Where a matrix may be put in the order of the device's kernels, when that could be its own
 * place: there; beside it, for others read it too; not at all, for expert_linear. */
enum pack_place { PACK_HERE, PACK_BESIDE, PACK_NOT };

/* Zeroed memory that weights_release gives back. */
void *loader_new(struct loader *l, size_t size);
/* Whether the files have the role's tensor. */
bool loader_has(const struct loader *l, enum weight_role role, uint32_t layer);
/* f32 device memory [count] from a tensor [count], or [heads, count / heads]. */
MUST_CHECK int loader_vector(struct loader *l, const float **out, enum weight_role role,
                             uint32_t layer, uint32_t count);
/* The current expert's matrix out of MXFP4 tensors as GPT-OSS has them: blocks u8 [experts, rows,
 * cols / 32, 16], two neighbouring values a byte, and scales u8 [experts, rows, cols / 32].
 * Repacked to STORAGE_MXFP4, the same bits. cut: as above, or NULL. */
MUST_CHECK int loader_mxfp4(struct loader *l, struct matrix *m, enum weight_role blocks,
                            enum weight_role scales, uint32_t rows, uint32_t cols,
                            const struct cut *cut, uint32_t layer);
/* Device memory with a copy of host bytes. */
MUST_CHECK int loader_bytes(struct loader *l, const void **out, const void *host, size_t size);
/* A tensor of these dims (ended by 0; sizes of 1 do not count), widened, on the host; NULL: an
 * error is in l->err. The caller frees it. */
float *loader_values(struct loader *l, enum weight_role role, uint32_t layer, const uint32_t *dims);
/* f32 device memory [count] with these values; takes `host`, which may be NULL (an error is set
 * already). */
MUST_CHECK int loader_put(struct loader *l, const float **out, float *host, size_t count);
/* `pieces` of them behind each other, each [count]; more than one: tensors of l->expert = 0, 1,
 * ... */
MUST_CHECK int loader_vectors(struct loader *l, const float **out, enum weight_role role,
                              uint32_t layer, uint32_t pieces, uint32_t count);
/* The same of ones: for norms without weights. */
MUST_CHECK int loader_ones(struct loader *l, const float **out, uint32_t count);
/* Weight [width] and, where the spec has one, bias; nothing when the kind is NORM_NONE. */
MUST_CHECK int loader_norm(struct loader *l, struct norm_weights *out, const struct norm_spec *spec,
                           enum weight_role weight, enum weight_role bias, uint32_t layer,
                           uint32_t width);
/* One product of `count` segments, [sum of rows, cols]; with biases [rows] of all segments where
 * `bias`. */
MUST_CHECK int loader_matrix(struct loader *l, struct matrix *m,
                             const struct product_segment *segments, uint32_t count, uint32_t cols,
                             bool bias, uint32_t layer);
/* As loader_cut, but the matrix is left in the order of its file, for reads of its rows, until
 * loader_pack. */
MUST_CHECK int loader_take(struct loader *l, struct matrix *m,
                           const struct product_segment *segments, const struct cut *cuts,
                           uint32_t count, uint32_t cols, bool bias, uint32_t layer,
                           const uint32_t *order);
/* As loader_matrix, with a cut for each segment (all with the same columns; NULL: whole ones).
 * order may be NULL, else the rows change places: it has an entry for each row of the product,
 * segment after segment (cuts' rows then only say how many), the row of the segment's tensor. */
MUST_CHECK int loader_cut(struct loader *l, struct matrix *m,
                          const struct product_segment *segments, const struct cut *cuts,
                          uint32_t count, uint32_t cols, bool bias, uint32_t layer,
                          const uint32_t *order);
/* A product [segment->rows, cols] whose results ranks add up: of its columns only `own` (count 0:
 * all), and rank 0 adds the bias. */
MUST_CHECK int loader_partial(struct loader *l, struct matrix *m,
                              const struct product_segment *segment, struct shard_range own,
                              uint32_t cols, bool bias, uint32_t layer);
/* Gives the matrix the compute type that the device has for it, and the order of its kernels, now or
 * later: it stays where it is. For those of linear and expert_linear; loader_cut and loader_mxfp4 do
 * it. */
MUST_CHECK int loader_pack(struct loader *l, struct matrix *m, enum pack_place place);
/* A bias that another rank adds: its tensor counts as used. */
void loader_skip(struct loader *l, enum weight_role role, uint32_t layer);

#endif
