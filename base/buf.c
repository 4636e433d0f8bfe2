#include "base/buf.h"

#include "base/mem_large.h"

#include <stdio.h>

enum { FIRST_CAPACITY = 64 };

void buf_init(struct buf *b, size_t limit) {
    *b = (struct buf){.limit = limit};
}

void buf_release(struct buf *b) {
    mem_free(b->data);
    *b = (struct buf){.limit = b->limit};
}

void buf_reset(struct buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

/* Room for `more` bytes and the terminator; false puts the buffer into its failed state. */
static bool grow(struct buf *b, size_t more) {
    if (b->failed)
        return false;
    if (b->data && more < b->cap - b->len)
        return true;
    uint64_t want;
    if (!add_ok(b->len, more, &want) || !add_ok(want, 1, &want) ||
        (b->limit && want - 1 > b->limit)) {
        b->failed = true;
        return false;
    }
    size_t cap =
        MAX((size_t)want, MAX((size_t)FIRST_CAPACITY, b->cap < SIZE_MAX / 2 ? b->cap * 2 : b->cap));
    if (b->limit && cap > b->limit + 1)
        cap = b->limit + 1;
    char *data = cap < MEM_LARGE ? mem_realloc(b->data, cap) : mem_try_realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    b->data[b->len] = 0;
    return true;
}

/* The same, for the usual case that there is room. */
static inline bool room(struct buf *b, size_t more) {
    return (!b->failed && more < b->cap - b->len) || grow(b, more);
}

void buf_reserve(struct buf *b, size_t more) {
    (void)grow(b, more);
}

/* At most 16 bytes, without a call: most of what is added are a few. */
static inline void copy_few(char *to, const char *from, size_t len) {
    if (len >= 8) {
        memcpy(to, from, 8);
        memcpy(to + len - 8, from + len - 8, 8);
    } else if (len >= 4) {
        memcpy(to, from, 4);
        memcpy(to + len - 4, from + len - 4, 4);
    } else {
        for (size_t i = 0; i < len; i++)
            to[i] = from[i];
    }
}

void buf_add(struct buf *b, const void *data, size_t len) {
    if (!len || !room(b, len))
        return;
    if (len <= 16)
        copy_few(b->data + b->len, data, len);
    else
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = 0;
}

void buf_add_str(struct buf *b, const char *s) {
    buf_add(b, s, strlen(s));
}
void buf_add_byte(struct buf *b, char c) {
    if (!room(b, 1))
        return;
    b->data[b->len++] = c;
    b->data[b->len] = 0;
}
void buf_add_bytes(struct buf *b, struct bytes s) {
    buf_add(b, s.data, s.len);
}

void buf_addf(struct buf *b, const char *fmt, ...) {
    va_list args;
    char small[256];
    va_start(args, fmt);
    int need = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    CHECK(need >= 0);
    if ((size_t)need < sizeof small) {
        buf_add(b, small, (size_t)need);
        return;
    }
    if (!grow(b, (size_t)need))
        return;
    va_start(args, fmt);
    vsnprintf(b->data + b->len, (size_t)need + 1, fmt, args);
    va_end(args);
    b->len += (size_t)need;
}

void buf_add_u64(struct buf *b, uint64_t v) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    buf_add(b, digits + at, sizeof digits - at);
}

void buf_add_i64(struct buf *b, int64_t v) {
    if (v < 0)
        buf_add_byte(b, '-');
    buf_add_u64(b, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* 0: passes as it is; 'u': \u00XX; else the letter behind the backslash. */
static const char JSON_ESCAPES[256] = {
    [0 ... 7] = 'u', ['\b'] = 'b', ['\t'] = 't',      ['\n'] = 'n', [11] = 'u',
    ['\f'] = 'f',    ['\r'] = 'r', [14 ... 31] = 'u', ['"'] = '"',  ['\\'] = '\\',
};

/* None of the eight bytes is a quote, a backslash or below a space. */
static bool passes_all(const uint8_t *eight) {
    const uint64_t ones = 0x0101010101010101u;
    uint64_t x, quote, backslash;
    memcpy(&x, eight, sizeof x);
    quote = x ^ ones * '"';
    backslash = x ^ ones * '\\';
    return !(
        (((x - ones * ' ') & ~x) | ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash)) &
        (ones << 7));
}

void buf_add_json(struct buf *b, struct bytes s) {
    static const char HEX[] = "0123456789abcdef";
    size_t start = 0;
    for (size_t i = 0; i < s.len; i++) {
        while (s.len - i > 8 && passes_all(s.data + i))
            i += 8;
        if (s.len >= 8 && s.len - i <= 8 && passes_all(s.data + s.len - 8))
            break;
        char escape = JSON_ESCAPES[s.data[i]];
        if (!escape)
            continue;
        buf_add(b, s.data + start, i - start);
        start = i + 1;
        char text[6] = {'\\', escape, '0', '0', HEX[s.data[i] >> 4], HEX[s.data[i] & 15]};
        buf_add(b, text, escape == 'u' ? 6 : 2);
    }
    if (start < s.len)
        buf_add(b, s.data + start, s.len - start);
}

void buf_consume(struct buf *b, size_t n) {
    CHECK(n <= b->len);
    if (!n)
        return;
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}
