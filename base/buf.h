/*
 * buf.h - a growing byte buffer, always zero-terminated behind its length, with an optional hard
 * limit.
 *
 * Past the limit (or out of memory for a large one) it goes `failed`: further appends do nothing,
 * and the caller checks once at the end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/base.h"

struct buf {
    char *data;             /* owned; NULL while empty and never grown */
    size_t len, cap, limit; /* limit 0: none */
    bool failed;
};

/* Empty, without memory. limit: the most bytes it may hold, the zero not counted; 0: no limit. */
void buf_init(struct buf *b, size_t limit);
/* Frees the memory; the buffer is empty then and keeps its limit. */
void buf_release(struct buf *b);
void buf_reset(struct buf *b); /* empties, keeps memory, clears failed */
/* Makes room for `more` further bytes, so that appending them allocates nothing; failed if it
 * cannot. */
void buf_reserve(struct buf *b, size_t more);
/* Appends len bytes; all of them or, when the buffer goes failed, none. data must not lie in b. */
void buf_add(struct buf *b, const void *data, size_t len);
/* Appends a string without its zero. */
void buf_add_str(struct buf *b, const char *s);
/* Appends one byte. */
void buf_add_byte(struct buf *b, char c);
/* Appends the bytes of s. */
void buf_add_bytes(struct buf *b, struct bytes s);
/* Appends what printf would print. */
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_add_u64(struct buf *b, uint64_t v); /* decimal, fast */
/* Appends v in decimal. */
void buf_add_i64(struct buf *b, int64_t v);
/* Appends s as the inside of a JSON string (quotes not included): escapes ", \, control characters;
 * bytes >= 0x80 pass through. */
void buf_add_json(struct buf *b, struct bytes s);
/* Drops the first n bytes. */
void buf_consume(struct buf *b, size_t n);
static inline struct bytes buf_bytes(const struct buf *b) {
    return bytes_of(b->data, b->len);
}
/* The text, never NULL. */
static inline const char *buf_text(const struct buf *b) {
    return b->data ? b->data : "";
}

#endif
