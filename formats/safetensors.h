/*
 * safetensors.h - tensors in .safetensors files, one file or several with an index, mapped and
 * never copied.
 *
 * Format: https://github.com/huggingface/safetensors (README, "Format"): u64 little-endian header
 * length, a JSON header, then the data. The files come from strangers; everything is checked before
 * a byte of data is used.
 *
 * Invariants of an opened set:
 *   (1) names are unique over all files, valid UTF-8 without zero bytes, sorted by bytes;
 *   (2) byte_len == product of dims * size of the type, computed without overflow;
 *   (3) in each file the tensors' ranges neither overlap nor leave holes, and end exactly at the
 *       file's end;
 *   (4) with an index, each tensor it names lies in the file it says.
 *
 * Memory: the header's size bounds it: at most 100 MB of header a file, 1 << 20 tensors in all.
 * Threading: read-only after open.
 */
#ifndef FORMATS_SAFETENSORS_H
#define FORMATS_SAFETENSORS_H

#include "base/buf.h"
#include "base/error.h"
#include "base/fsutil.h"

enum { TENSOR_DIMS_MAX = 8, SAFETENSORS_FILES_MAX = 4096, SAFETENSORS_TENSORS_MAX = 1 << 20 };
#define SAFETENSORS_HEADER_MAX ((uint64_t)100 * 1000 * 1000)

/* Types of both formats. The first have one value an element; block types (GGUF) only whole
 * blocks. */
enum tensor_type {
    TENSOR_BOOL,
    TENSOR_U8,
    TENSOR_I8,
    TENSOR_F8_E5M2,
    TENSOR_F8_E4M3,
    TENSOR_I16,
    TENSOR_U16,
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_I32,
    TENSOR_U32,
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_I64,
    TENSOR_U64,
    TENSOR_F8_E8M0,
    TENSOR_SAFETENSORS_COUNT, /* no type: what safetensors headers may name comes before */
    TENSOR_Q4_0,
    TENSOR_Q4_1,
    TENSOR_Q5_0,
    TENSOR_Q5_1,
    TENSOR_Q8_0,
    TENSOR_Q2_K,
    TENSOR_Q3_K,
    TENSOR_Q4_K,
    TENSOR_Q5_K,
    TENSOR_Q6_K,
    TENSOR_IQ1_S,
    TENSOR_IQ1_M,
    TENSOR_IQ2_XXS,
    TENSOR_IQ2_XS,
    TENSOR_IQ2_S,
    TENSOR_IQ3_XXS,
    TENSOR_IQ3_S,
    TENSOR_IQ4_NL,
    TENSOR_IQ4_XS,
    TENSOR_TQ1_0,
    TENSOR_TQ2_0,
    TENSOR_MXFP4,
    TENSOR_Q1_0,
    TENSOR_U4,  /* not of any file: two numbers a byte, the first in the lower half */
    TENSOR_NF4, /* the same, the first in the upper half */
    TENSOR_TYPE_COUNT
};
/* "BF16", as the format spells it. */
const char *tensor_type_name(enum tensor_type type);
/* Bytes of one value, or of one block. */
size_t tensor_type_size(enum tensor_type type);
/* Values in a block: 1, 32 or 256. */
uint32_t tensor_type_block(enum tensor_type type);

/* What turns a quantized tensor's stored numbers into values: kernels/types.h (matrix_segment)
 * says how. Made from a checkpoint's companion tensors, not read from a file. */
struct tensor_scales {
    const float *scales, *zeros; /* [count]; zeros NULL: `zero` for all */
    const uint32_t *groups;      /* [cols], or NULL */
    size_t count;
    uint32_t rows_each, cols_each, stride;
    float zero;
};

struct tensor {
    const char *name; /* owned by the set */
    enum tensor_type type;
    uint32_t dim_count;
    uint64_t dims[TENSOR_DIMS_MAX];
    const uint8_t *data; /* into the mapping; any alignment */
    uint64_t byte_len;
    uint32_t file_idx;
    const struct tensor_scales *scales; /* borrowed; NULL: none */
};

struct safetensors_file {
    char *path; /* owned */
    struct file_map map;
    struct bytes header; /* the JSON text, in the mapping */
};

struct safetensors {
    struct safetensors_file *files; /* owned */
    size_t file_count;
    struct tensor *tensors; /* owned, sorted by name */
    size_t tensor_count;
};

/* Opens a .safetensors file, or a folder with model.safetensors, model.safetensors.index.json, or
 * files of other names: then the one, else that which ends in "_final", else that of the highest
 * "_step_N". Errors name file and tensor. */
MUST_CHECK int safetensors_open(struct safetensors *set, const char *path, struct error *err);
/* file_map_forget of all files. */
void safetensors_forget(const struct safetensors *set);
/* Unmaps and frees everything; tensors and their data are stale then. A zeroed set may be
 * closed. */
void safetensors_close(struct safetensors *set);
/* NULL when there is none of this name. */
const struct tensor *safetensors_find(const struct safetensors *set, const char *name);

/* One file's bytes, already in memory; path is for error texts. What safetensors_open does for each
 * file; fuzzed. The set borrows bytes. */
MUST_CHECK int safetensors_open_bytes(struct safetensors *set, struct bytes file, const char *path,
                                      struct error *err);

#endif
