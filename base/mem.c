#include "base/mem_large.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* write(2) only: the heap, stdio and locks may be what is broken. */
void check_failed(const char *file, int line, const char *cond, const char *fmt, ...) {
    char text[1024];
    va_list args;
    int used = snprintf(text, sizeof text, "check failed: %s at %s:%d: ", cond, file, line);
    size_t len = MIN((size_t)MAX(used, 0), sizeof text - 2);
    va_start(args, fmt);
    used = vsnprintf(text + len, sizeof text - 1 - len, fmt, args);
    va_end(args);
    len = MIN(len + (size_t)MAX(used, 0), sizeof text - 2);
    text[len++] = '\n';
    for (size_t done = 0; done < len;) {
        ssize_t n = write(STDERR_FILENO, text + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    abort();
}

void *mem_try_alloc(size_t size) {
    return calloc(1, size ? size : 1);
}

void *mem_alloc(size_t size) {
    void *p = mem_try_alloc(size);
    CHECK_MSG(p, "out of memory for %zu bytes", size);
    return p;
}

void *mem_calloc(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size ? size : 1);
    CHECK_MSG(p, "out of memory for %zu items of %zu bytes", count, size);
    return p;
}

void *mem_try_realloc(void *old, size_t size) {
    return realloc(old, size ? size : 1);
}

void *mem_realloc(void *old, size_t size) {
    void *p = mem_try_realloc(old, size);
    CHECK_MSG(p, "out of memory for %zu bytes", size);
    return p;
}

char *mem_strndup(const char *s, size_t len) {
    char *copy = mem_alloc(len + 1);
    if (len)
        memcpy(copy, s, len);
    return copy;
}

char *mem_strdup(const char *s) {
    return mem_strndup(s, strlen(s));
}

void mem_free(void *p) {
    free(p);
}
