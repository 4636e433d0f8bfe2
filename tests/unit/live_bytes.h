/*
 * live_bytes.h - bytes of this process that were asked for and not given back: what is held, whatever
 * the allocator keeps for later.
 *
 * For one source of a program: without a sanitizer it stands between everybody and the C library's
 * allocator.
 */
#ifndef TESTS_UNIT_LIVE_BYTES_H
#define TESTS_UNIT_LIVE_BYTES_H

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
size_t __sanitizer_get_current_allocated_bytes(void);

static int64_t live_bytes(void) {
    return (int64_t)__sanitizer_get_current_allocated_bytes();
}
#else
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static atomic_llong live;

static int64_t live_bytes(void) {
    return atomic_load(&live);
}

static void *count_in(void *p) {
    atomic_fetch_add(&live, p ? (long long)malloc_usable_size(p) : 0);
    return p;
}

void *malloc(size_t size) {
    return count_in(__libc_malloc(size));
}
void *calloc(size_t count, size_t size) {
    return count_in(__libc_calloc(count, size));
}
void *realloc(void *old, size_t size) {
    long long before = old ? (long long)malloc_usable_size(old) : 0;
    void *p = __libc_realloc(old, size);
    if (p || !size)
        atomic_fetch_sub(&live, before);
    return count_in(p);
}
void *memalign(size_t alignment, size_t size) {
    return count_in(__libc_memalign(alignment, size));
}
void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}
int posix_memalign(void **p, size_t alignment, size_t size) {
    *p = memalign(alignment, size);
    return *p ? 0 : ENOMEM;
}
void free(void *p) {
    atomic_fetch_sub(&live, p ? (long long)malloc_usable_size(p) : 0);
    __libc_free(p);
}
#endif

#endif
