/* capture.h - what a program writes to standard output or standard error meanwhile. */
#ifndef TESTS_UNIT_CAPTURE_H
#define TESTS_UNIT_CAPTURE_H

#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"

struct capture {
    int fd, real;
    FILE *file;
};

/* fd (STDOUT_FILENO, STDERR_FILENO) goes to a file from here until capture_end. */
static inline struct capture capture_begin(int fd) {
    fflush(NULL); /* what was printed before goes where it went */
    struct capture c = {.fd = fd, .real = dup(fd), .file = tmpfile()};
    CHECK(c.real >= 0 && c.file && dup2(fileno(c.file), fd) == fd);
    return c;
}

/* What has come so far, in place of what is in out. */
static inline void capture_read(const struct capture *c, struct buf *out) {
    char piece[4096];
    ssize_t n;
    fflush(NULL);
    buf_reset(out);
    while ((n = pread(fileno(c->file), piece, sizeof piece, (off_t)out->len)) > 0)
        buf_add(out, piece, (size_t)n);
}

/* That, and fd is what it was. */
static inline void capture_end(struct capture *c, struct buf *out) {
    capture_read(c, out);
    CHECK(dup2(c->real, c->fd) == c->fd);
    close(c->real);
    fclose(c->file);
}

#endif
