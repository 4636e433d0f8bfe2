/*
 * export.h - a model's tensors under the names of another format, with their rows in its order and their numbers in
 * another type: HF folder to GGUF, GGUF to HF folder, either to itself with other types.
 *
 * A list of items is made once from the two name tables: each tensor of the source has one. A tensor that the other
 * format has no name for is an error. Rows are made one at a time, so memory does not grow with the model.
 *
 * Threading: one thread.
 */
#ifndef MODEL_EXPORT_H
#define MODEL_EXPORT_H

#include "formats/gguf_write.h"
#include "model/gguf_model.h"
#include "model/model.h"

struct export_item {
    const struct tensor *tensor; /* borrowed */
    char name[TENSOR_NAME_MAX];  /* in the target */
    enum tensor_type type;       /* in the target */
    uint32_t rows, cols;         /* a vector: 1 row */
    bool is_vector;
    uint32_t turn_heads; /* rows of each of so many heads change between half and interleaved order; 0: no */
    bool to_interleaved;
    float add; /* to a norm's weights */
};

struct export_plan {
    struct export_item *items; /* owned */
    size_t count;
};

/* matrices: type of matrices where their rows fit whole blocks (else Q8_0, else F16), STORAGE_NONE: as they are;
 * vectors: of the others, TENSOR_TYPE_COUNT: as they are. to_gguf: which way. */
struct export_options {
    const struct gguf_arch *arch;
    bool from_gguf, to_gguf;
    enum storage_type matrices;
    enum tensor_type vectors;
    bool head_only; /* the folder stores a tied embedding under the head's name, as GGUF never does */
};
/* Whether a folder's model is so. */
bool export_is_head_only(const struct model *model);
/* model: of model_open_files. */
MUST_CHECK int export_plan_make(struct export_plan *plan, const struct model *model,
                                const struct export_options *options, struct error *err);
void export_plan_release(struct export_plan *plan);
/* Bytes of a row of the target, and the row itself. values: f32 [cols] to work in. */
size_t export_row_bytes(const struct export_item *item);
void export_row(const struct export_item *item, uint32_t row, float *values, void *out);

/* ---- files ---- */

/* Puts the keys that say what the network is (not: the tokenizer's). */
void export_gguf_keys(struct gguf_writer *w, const struct model *model, const struct gguf_arch *arch,
                      enum storage_type matrices);
/* Lists the tensors and writes the file, keys and data, to its end. */
MUST_CHECK int export_write_gguf(struct gguf_writer *w, const struct model *model, const struct export_plan *plan,
                                 struct error *err);
/* Writes one .safetensors file. */
MUST_CHECK int export_write_safetensors(const char *path, const struct export_plan *plan, struct error *err);

#endif
