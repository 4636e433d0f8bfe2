/*
 * export.h - a model's tensors under the names of another format, with their rows in its order and
 * their numbers in another type: HF folder to GGUF, GGUF to HF folder, either to itself with other
 * types.
 *
 * A list of items is made once from the two name tables (export_planner.h): each is a tensor of the
 * target, put together from views of tensors of the source. What the formats do differently is a
 * way of viewing: experts in a tensor each or in one of three dimensions, gate and up fused or
 * apart, matrices turned, heads' rows in another order. A tensor that the other format has no name
 * for is an error. Rows are made one at a time, so memory does not grow with the model.
 *
 * Threading: one thread.
 */
#ifndef MODEL_EXPORT_H
#define MODEL_EXPORT_H

#include "formats/gguf_write.h"
#include "model/model.h"
#include "model/read/gguf_model.h"

/* Part of a tensor that is taken as planes of plane_rows rows of `cols` values each, whatever its
 * dims. Row r of plane p: row first + r * step of plane plane_first + p; turned: column first + r *
 * step of that plane. */
struct export_view {
    const struct tensor *tensor; /* borrowed */
    uint32_t cols, plane_first, plane_rows, first, step;
    bool turned;
    uint32_t count; /* rows (EXPORT_COLUMNS: columns) of the item that it gives */
};

/* How views make an item. */
enum export_join {
    EXPORT_STACK,  /* in each plane their rows behind one another */
    EXPORT_TURNS,  /* in each plane a row of each in turn */
    EXPORT_PLANES, /* a plane each */
    /* in each row their columns behind one another; `alternate`: one of each in turn */
    EXPORT_COLUMNS,
    EXPORT_PACKED, /* of two, a folder's MXFP4 blocks and scales: the rows that they make */
    EXPORT_BLOCKS, /* the blocks, or the scales, of MXFP4 rows of each in turn, for a folder */
    EXPORT_SCALES
};

/* What a state's decay becomes. */
enum export_map {
    MAP_NONE,
    MAP_NEGATED_EXP, /* A = -exp(A_log) */
    MAP_LOG_NEGATED  /* the reverse */
};

struct export_item {
    char name[TENSOR_NAME_MAX]; /* in the target */
    enum tensor_type type;      /* in the target */
    uint64_t dims[3];
    uint32_t dim_count, planes, rows, cols;
    uint32_t inner;            /* a further dimension, within the last; 0: none */
    struct export_view *views; /* owned */
    uint32_t view_count;
    enum export_join join;
    bool alternate;
    /* owned; row r of a plane is row order[r] of what the views make; NULL: as it is */
    uint32_t *order;
    uint32_t *columns; /* owned; column c of a row is column columns[c]; NULL: as it is */
    bool vector;       /* no matrix: not of the types that matrices become */
    float add;         /* to a norm's weights */
    enum export_map map;
    /* f32 [rows, cols], borrowed: its values, where the way back would not give them; NULL */
    const uint8_t *exact;
};

struct export_plan {
    struct export_item *items; /* owned */
    size_t count, room;
    /* told while the files are written, in bytes of weights; NULL: nobody asks */
    void (*on_progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};

/* matrices: type of matrices where their rows fit whole blocks (else Q8_0, else F16), STORAGE_NONE:
 * as they are; vectors: of the others, TENSOR_TYPE_COUNT: as they are. to_gguf: which way. kept:
 * what a folder was like that a GGUF file was made from (export_kept_text), NULL: not known. */
struct export_options {
    const struct gguf_arch *arch;
    bool from_gguf, to_gguf;
    enum storage_type matrices;
    enum tensor_type vectors;
    /* the folder stores a tied embedding under the head's name, as GGUF never does */
    bool head_only;
    const char *kept;
};
/* Whether a folder's model is so. */
bool export_is_head_only(const struct model *model);
/* Whether a folder of this model has a tensor of this type, which is no type of folders, as blocks
 * and scales. */
bool export_has_blocks(const struct model_spec *spec, enum tensor_type type);
/* model: of model_open_files. */
MUST_CHECK int export_plan_make(struct export_plan *plan, const struct model *model,
                                const struct export_options *options, struct error *err);
/* Frees what the plan owns; its model stays. plan may be zeroes. */
void export_plan_release(struct export_plan *plan);
/* What is lost on the way from a folder to GGUF, a line each: "name type" of tensors that change
 * their type without being matrices, "* prefix", "+" where the experts of a layer share a tensor.
 * Appended to out. */
void export_kept_text(const struct model *model, const struct export_plan *plan, struct buf *out);
/* Bytes of a row of the target. */
size_t export_row_bytes(const struct export_item *item);
/* Whether values change on the way, other than by rounding. */
bool export_changes(const struct export_item *item);
/* What becomes of a value of the source. */
float export_changed(const struct export_item *item, float value);
/* The reverse: which value of the source becomes this one, but for rounding. */
float export_unchanged(const struct export_item *item, float value);
/* Writes row `row` of all planes' rows, in the target's type, to out[export_row_bytes]. values: f32
 * [2 * cols] to work in. */
void export_row(const struct export_item *item, uint64_t row, float *values, void *out);

/* ---- files ---- */

/* Puts the keys that say what the network is (not: the tokenizer's). */
void export_gguf_keys(struct gguf_writer *w, const struct model *model,
                      const struct gguf_arch *arch, enum storage_type matrices);
/* The table of rotation that a file's keys tell; NULL: nothing rotates. */
const struct rope_spec *export_main_rope(const struct model_spec *spec);
/* Lists the tensors and writes the file, keys and data, to its end. */
MUST_CHECK int export_write_gguf(struct gguf_writer *w, const struct model *model,
                                 const struct export_plan *plan, struct error *err);
/* Writes one .safetensors file. */
MUST_CHECK int export_write_safetensors(const char *path, const struct export_plan *plan,
                                        struct error *err);

/* A folder's tensors as they are, those with scales (quantized_online's) as the library
 * compressed-tensors lays them out: fp8 and int8 as X.weight with X.weight_scale [rows, 1], int4 as
 * X.weight_packed, words of eight numbers above their middle, with X.weight_scale [rows, groups]
 * and X.weight_shape. ERR_UNSUPPORTED: rows of no whole groups. */
MUST_CHECK int export_write_compressed(const char *path, const struct model *model,
                                       struct error *err);
/* Appends what config.json says of it: the value of quantization_config. */
void export_compressed_config(struct buf *out, const struct model *model, enum storage_type type);

#endif
