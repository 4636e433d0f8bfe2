/* send_all.h - what a host of a test's own answers. */
#ifndef TESTS_UNIT_FORMATS_SEND_ALL_H
#define TESTS_UNIT_FORMATS_SEND_ALL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Sends it all, or as much as the client takes before it is gone. */
static inline void send_all(int fd, const void *data, size_t len) {
    const uint8_t *at = data;
    for (ssize_t n; len && (n = send(fd, at, len, MSG_NOSIGNAL)) > 0; len -= (size_t)n)
        at += n;
}

#endif
