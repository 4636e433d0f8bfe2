/*
 * gguf_write.h - writes a GGUF v3 file: keys first, then the list of tensors, then their data in
 * the same order.
 *
 * Everything but the data is kept in memory until gguf_write_begin; the data goes to the file as it
 * comes. The file is written beside its path and renamed by gguf_write_end, so a reader never sees
 * half of one.
 *
 * Invariants, checked:
 *   (1) an array has as many elements as it was begun with, before anything else is put;
 *   (2) keys and tensors are put before gguf_write_begin, data is written after it;
 *   (3) gguf_write_end comes after exactly the data of all tensors.
 *
 * Threading: one thread.
 */
#ifndef FORMATS_GGUF_WRITE_H
#define FORMATS_GGUF_WRITE_H

#include <stdio.h>

#include "formats/gguf.h"

enum { GGUF_ALIGNMENT = 32 };

struct gguf_writer {
    struct buf keys, tensors;
    uint64_t key_count, tensor_count, data_len;
    uint64_t array_left;         /* elements of the last array that must still follow */
    long data_begin;             /* where the data begins in the file */
    char *path, *temporary_path; /* owned */
    FILE *file;
};

/* Nothing is written yet. Copies path. */
void gguf_writer_init(struct gguf_writer *w, const char *path);
/* Also removes a file that was not ended. */
void gguf_writer_release(struct gguf_writer *w);

/* U8 .. I64, BOOL */
void gguf_put_int(struct gguf_writer *w, const char *key, enum gguf_type type, int64_t value);
/* A number, rounded to f32. */
void gguf_put_f32(struct gguf_writer *w, const char *key, double value);
/* A string; copied. */
void gguf_put_string(struct gguf_writer *w, const char *key, struct bytes value);
/* A key of another file, as it is. */
void gguf_put_copy(struct gguf_writer *w, const struct gguf_kv *kv);
/* Begins an array; `count` elements must follow, by the calls below. */
void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_type type, uint64_t count);
/* The next element of an array of strings; copied. */
void gguf_add_string(struct gguf_writer *w, struct bytes value);
/* The next element of an array of bools. */
void gguf_add_bool(struct gguf_writer *w, bool value);
/* The next element of an array of I32 or, with the same bits, U32. */
void gguf_add_i32(struct gguf_writer *w, int32_t value);
/* The next element of an array of F32. */
void gguf_add_f32(struct gguf_writer *w, float value);
/* The next tensor; dims in row-major order. ERR_UNSUPPORTED: GGUF lacks the type. */
MUST_CHECK int gguf_put_tensor(struct gguf_writer *w, const char *name, enum tensor_type type,
                               const uint64_t *dims, uint32_t dim_count, struct error *err);

/* Writes what was put. Then each tensor's data, in order and whole, by any number of
 * gguf_write_data and one gguf_write_pad. */
MUST_CHECK int gguf_write_begin(struct gguf_writer *w, struct error *err);
/* Appends len bytes of the current tensor's data. ERR_IO: the disk is full or gone. */
MUST_CHECK int gguf_write_data(struct gguf_writer *w, const void *data, size_t len,
                               struct error *err);
/* Ends the current tensor: zeros up to GGUF_ALIGNMENT. */
MUST_CHECK int gguf_write_pad(struct gguf_writer *w, struct error *err);
/* Flushes, closes and renames the file to its path. After a failure gguf_writer_release removes
 * what there is. */
MUST_CHECK int gguf_write_end(struct gguf_writer *w, struct error *err);

#endif
