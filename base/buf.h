/*
 * buf.h - a growing byte buffer, always zero-terminated behind its length, with an optional hard limit.
 *
 * Past the limit (or out of memory) the buffer goes `failed`: further appends do nothing, and the caller checks once at
 * the end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/base.h"

struct buf {
    char *data;             /* owned; NULL while empty and never grown */
    size_t len, cap, limit; /* limit 0: none */
    bool failed;
};

void buf_init(struct buf *b, size_t limit);
void buf_release(struct buf *b);
void buf_reset(struct buf *b); /* empties, keeps memory, clears failed */
void buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_add_str(struct buf *b, const char *s);
void buf_add_byte(struct buf *b, char c);
void buf_add_bytes(struct buf *b, struct bytes s);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_add_u64(struct buf *b, uint64_t v); /* decimal, fast */
void buf_add_i64(struct buf *b, int64_t v);
/* Appends s as the inside of a JSON string (quotes not included): escapes ", \, control characters; bytes >= 0x80 pass
 * through. */
void buf_add_json(struct buf *b, struct bytes s);
/* Drops the first n bytes. */
void buf_consume(struct buf *b, size_t n);
static inline struct bytes buf_bytes(const struct buf *b) { return bytes_of(b->data, b->len); }
/* The text, never NULL. */
static inline const char *buf_text(const struct buf *b) { return b->data ? b->data : ""; }

#endif
