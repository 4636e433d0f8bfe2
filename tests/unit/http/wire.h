/*
 * wire.h - a blocking client for tests: connect, send raw bytes, read one response or all until the
 * close.
 */
#ifndef TESTS_UNIT_HTTP_WIRE_H
#define TESTS_UNIT_HTTP_WIRE_H

#include "base/buf.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WIRE_TIMEOUT_MS = 5000 };

/* From this address of the loopback, as a number. */
static inline int wire_connect_from(uint16_t port, int receive_buffer, uint32_t from) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(from)};
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    if (bind(fd, (struct sockaddr *)&own, sizeof own) ||
        connect(fd, (struct sockaddr *)&addr, sizeof addr)) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline int wire_connect(uint16_t port, int receive_buffer) {
    return wire_connect_from(port, receive_buffer, INADDR_ANY);
}

static inline bool wire_send_bytes(int fd, const void *data, size_t len) {
    const char *at = data;
    while (len) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);
        if (sent < 0)
            return false;
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}
static inline bool wire_send(int fd, const char *text) {
    return wire_send_bytes(fd, text, strlen(text));
}

/* Appends what comes. 1 for some bytes, 0 for the end of the stream, -1 for a reset, -2 when
 * nothing came in time. */
static inline int wire_read_some(int fd, struct buf *in, int timeout_ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char piece[65536];
    if (poll(&p, 1, timeout_ms) <= 0)
        return -2;
    ssize_t len = recv(fd, piece, sizeof piece, 0);
    if (len > 0)
        buf_add(in, piece, (size_t)len);
    return len > 0 ? 1 : len < 0 ? -1 : 0;
}

/* Until the server closes. False when it resets instead or keeps us waiting. */
static inline bool wire_read_all(int fd, struct buf *in) {
    int rc;
    do
        rc = wire_read_some(fd, in, WIRE_TIMEOUT_MS);
    while (rc == 1);
    return rc == 0;
}

/* Until in holds text (anywhere). */
static inline bool wire_read_until(int fd, struct buf *in, const char *text) {
    while (!in->len || !memmem(in->data, in->len, text, strlen(text)))
        if (wire_read_some(fd, in, WIRE_TIMEOUT_MS) != 1)
            return false;
    return true;
}

/* The first response in `in`, of known length: its body's text is put into out, and it is taken off
 * `in`. Status, or -1. */
static inline int wire_take_response(int fd, struct buf *in, struct buf *out) {
    if (!wire_read_until(fd, in, "\r\n\r\n"))
        return -1;
    size_t head = (size_t)((char *)memmem(in->data, in->len, "\r\n\r\n", 4) - in->data) + 4;
    const char *length = memmem(in->data, head, "Content-Length: ", 16);
    size_t body = length ? strtoul(length + 16, NULL, 10) : 0;
    while (in->len < head + body)
        if (wire_read_some(fd, in, WIRE_TIMEOUT_MS) != 1)
            return -1;
    int status = atoi(in->data + 9);
    buf_reset(out);
    buf_add(out, in->data + head, body);
    buf_consume(in, head + body);
    return status;
}

/* Puts the decoded chunks of everything behind the head into out; the number of chunks, or -1 when
 * the last one is missing. */
static inline int wire_decode_chunks(const struct buf *in, struct buf *out) {
    const char *at = in->len ? memmem(in->data, in->len, "\r\n\r\n", 4) : NULL,
               *end = in->data + in->len;
    int count = 0;
    if (!at)
        return -1;
    for (at += 4; at < end; count++) {
        char *data;
        size_t len = strtoul(at, &data, 16);
        if (data + 2 > end || data[0] != '\r')
            return -1;
        if (!len)
            return count;
        if (data + 2 + len + 2 > end)
            return -1;
        buf_add(out, data + 2, len);
        at = data + 2 + len + 2;
    }
    return -1;
}

/* Waits until *value is at least want. */
static inline bool wire_wait_for(_Atomic int *value, int want) {
    int64_t end = clock_ms() + WIRE_TIMEOUT_MS;
    while (*value < want && clock_ms() < end)
        sleep_ms(1);
    return *value >= want;
}

#endif
