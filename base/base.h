/*
 * base.h - the handful of macros every file may use: MUST_CHECK, CHECK, array sizes, checked
 * arithmetic, spans.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MUST_CHECK        __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define NORETURN          __attribute__((noreturn))
#define ARRAY_LEN(a)      (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)         ((a) < (b) ? (a) : (b))
#define MAX(a, b)         ((a) > (b) ? (a) : (b))

/* A borrowed run of bytes: not owned, not terminated. {NULL, 0} is "absent or empty". */
struct bytes {
    const uint8_t *data;
    size_t len;
};
static inline struct bytes bytes_of(const void *data, size_t len) {
    return (struct bytes){(const uint8_t *)data, len};
}
static inline struct bytes bytes_str(const char *s) {
    return bytes_of(s, s ? strlen(s) : 0);
}
static inline bool bytes_equal(struct bytes a, struct bytes b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* A borrowed run of token ids. */
struct tokens {
    const uint32_t *ids;
    size_t count;
};

/* A 128-bit identifier or hash. Zero means "none". */
struct u128 {
    uint64_t lo, hi;
};
static inline bool u128_equal(struct u128 a, struct u128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}
static inline bool u128_is_zero(struct u128 a) {
    return (a.lo | a.hi) == 0;
}

/* A bug: prints the condition, place and text, then aborts. Always compiled in. */
NORETURN void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            check_failed(__FILE__, __LINE__, #cond, " ");                                          \
    } while (0)
#define CHECK_MSG(cond, ...)                                                                       \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            check_failed(__FILE__, __LINE__, #cond, __VA_ARGS__);                                  \
    } while (0)

/* Checked arithmetic: false when the result does not fit (then *out is unspecified). */
static inline MUST_CHECK bool mul_ok(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline MUST_CHECK bool add_ok(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* malloc family that aborts (CHECK) when memory is out: for start-up and for sizes already bounded.
 * The process is then restarted and nothing is lost. Sizes that come from outside go through
 * mem_try_alloc. */
void *mem_alloc(size_t size);                /* returns owned, zeroed */
void *mem_calloc(size_t count, size_t size); /* overflow-checked, zeroed */
/* Takes old (NULL: as mem_alloc) and returns owned; bytes past the old size are not zeroed. */
void *mem_realloc(void *old, size_t size);
/* Returns an owned copy. */
char *mem_strdup(const char *s);
/* Returns an owned copy of the len bytes at s, with a zero behind them. */
char *mem_strndup(const char *s, size_t len);
MUST_CHECK void *mem_try_alloc(size_t size); /* NULL when out; zeroed */
/* Frees what a call above returned. NULL: nothing happens. */
void mem_free(void *p);

#endif
