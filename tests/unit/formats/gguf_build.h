/*
 * gguf_build.h - GGUF bytes put together by hand, for tests: keys and tensors as the specification
 * lays them out.
 */
#ifndef TESTS_UNIT_FORMATS_GGUF_BUILD_H
#define TESTS_UNIT_FORMATS_GGUF_BUILD_H

#include "base/buf.h"

static inline void put_u32(struct buf *b, uint32_t v) {
    buf_add(b, &v, 4);
}
static inline void put_u64(struct buf *b, uint64_t v) {
    buf_add(b, &v, 8);
}
static inline void put_text(struct buf *b, const char *s) {
    put_u64(b, strlen(s));
    buf_add_str(b, s);
}
static inline void put_head(struct buf *b, uint32_t version, uint64_t tensors, uint64_t kvs) {
    buf_add_str(b, "GGUF");
    put_u32(b, version);
    put_u64(b, tensors);
    put_u64(b, kvs);
}
static inline void put_key_u32(struct buf *b, const char *key, uint32_t v) {
    put_text(b, key);
    put_u32(b, 4);
    put_u32(b, v);
}
static inline void put_key_text(struct buf *b, const char *key, const char *v) {
    put_text(b, key);
    put_u32(b, 8);
    put_text(b, v);
}
static inline void put_tensor(struct buf *b, const char *name, uint64_t cols, uint64_t rows,
                              uint32_t type, uint64_t offset) {
    put_text(b, name);
    put_u32(b, rows ? 2 : 1);
    put_u64(b, cols);
    if (rows)
        put_u64(b, rows);
    put_u32(b, type);
    put_u64(b, offset);
}
static inline void put_zeros(struct buf *b, size_t n) {
    while (n--)
        buf_add_byte(b, 0);
}
static inline void put_padding(struct buf *b, size_t alignment) {
    while (b->len % alignment)
        buf_add_byte(b, 0);
}

#endif
