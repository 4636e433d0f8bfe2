/*
 * gguf.h - GGUF v2 and v3: metadata and tensors in one file, or in numbered parts; mapped and never
 * copied.
 *
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, little-endian. The files come
 * from strangers; everything is checked before a byte is used, and a file's claims never decide how
 * much memory is taken: an entry is kept only after its bytes were found in the file.
 *
 * Invariants of an opened file:
 *   (1) keys are unique, 1 to GGUF_NAME_MAX bytes without zeros, sorted; every value lies in the
 *       mapping;
 *   (2) tensor names are unique, sorted (struct tensor, as in safetensors.h); dims are in row-major
 *       order, so the last one is GGUF's first; rows are whole blocks; every tensor's bytes lie in
 *       its file, aligned as the file says;
 *   (3) parts (general names "-00001-of-00003.gguf") are complete and agree on their count;
 *       metadata is the first's.
 *
 * Memory: at most GGUF_KEYS_MAX keys and GGUF_TENSORS_MAX tensors. Threading: read-only after open.
 */
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H

#include "formats/safetensors.h"

enum {
    GGUF_KEYS_MAX = 1 << 16,
    GGUF_TENSORS_MAX = 1 << 16,
    GGUF_FILES_MAX = 1024,
    GGUF_NAME_MAX = 256
};

enum gguf_type {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12
};

/* One value, or an array of values of one type (arrays of arrays are refused). */
struct gguf_kv {
    struct bytes key;
    enum gguf_type type; /* of the value, or of the array's elements */
    bool is_array;
    uint64_t count; /* elements; 1 for a value */
    /* numbers: packed, unaligned; strings: u64 length and bytes, one behind the other */
    const uint8_t *data;
    size_t byte_len; /* of data */
};

struct gguf {
    /* files and tensors, under GGUF's names; header: everything before the data */
    struct safetensors set;
    struct gguf_kv *kvs; /* owned, sorted by key */
    size_t kv_count;
    uint32_t version; /* of the first file */
};

/* True when the path is a file that begins with GGUF's magic. */
bool gguf_is(const char *path);
/* The GGUF file that a model path means: the path itself when gguf_is, or, in a folder without
 * config.json, its only .gguf file (of several that belong together: the first). Returns owned, or NULL. */
char *gguf_path_of(const char *path);
/* Opens a file and, when it is one of several that belong together, all of them. */
MUST_CHECK int gguf_open(struct gguf *g, const char *path, struct error *err);
/* Unmaps and frees everything; pointers into the metadata and tensors are stale then. */
void gguf_close(struct gguf *g);
/* One file's bytes, already in memory, borrowed; fuzzed. One of several is refused. */
MUST_CHECK int gguf_open_bytes(struct gguf *g, struct bytes file, const char *path,
                               struct error *err);

/* ---- metadata ---- */

/* NULL when there is none. */
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);
/* True when the key is there with a single value of that kind: any integer type that fits (or a
 * bool: 0, 1), any number, a bool, a string (bytes in the mapping; not checked as UTF-8). */
MUST_CHECK bool gguf_int(const struct gguf *g, const char *key, int64_t *out);
/* Any number, an integer too. */
MUST_CHECK bool gguf_double(const struct gguf *g, const char *key, double *out);
/* A bool only. */
MUST_CHECK bool gguf_bool(const struct gguf *g, const char *key, bool *out);
/* Bytes in the mapping. */
MUST_CHECK bool gguf_string(const struct gguf *g, const char *key, struct bytes *out);
/* Element idx < count of a value or array of numbers (or bools); false for strings or where it does
 * not fit. */
MUST_CHECK bool gguf_int_at(const struct gguf_kv *kv, uint64_t idx, int64_t *out);
/* The same, as a double. */
MUST_CHECK bool gguf_double_at(const struct gguf_kv *kv, uint64_t idx, double *out);

/* Walks the strings of an array (or one string) in order; false at the end, or when kv holds no
 * strings. */
struct gguf_strings {
    const uint8_t *at, *end;
};
/* Begins a walk. kv must not be NULL. */
struct gguf_strings gguf_strings_of(const struct gguf_kv *kv);
/* The next string, in the mapping, into *out. */
MUST_CHECK bool gguf_strings_next(struct gguf_strings *s, struct bytes *out);

#endif
