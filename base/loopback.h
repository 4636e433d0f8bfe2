/*
 * loopback.h - the machine's own address: 127.0.0.1, or ::1 where the system has none of version 4
 * (IPv6-only containers).
 *
 * Threading: pure.
 */
#ifndef BASE_LOOPBACK_H
#define BASE_LOOPBACK_H

#include "base/error.h"

#include <sys/socket.h>

/* Whether `host` is 127.0.0.1 or localhost and a call that failed with `error` (errno) says that there is none,
 * so that LOOPBACK_V6 is to be tried instead. */
bool loopback_is_missing(const char *host, int error);
#define LOOPBACK_V6 "::1"

/* A TCP socket (close-on-exec) that is bound to the loopback at this port, 0: at any free one, with
 * SO_REUSEADDR as servers have it. *at, *len: where. The caller owns it. -1: errno says why not. */
int loopback_bind(uint16_t port, struct sockaddr_storage *at, socklen_t *len);
/* The port of what loopback_bind filled. */
uint16_t loopback_port(const struct sockaddr_storage *at);
/* A port of the loopback that is free now and that a client can reach. ERR_IO says why there is
 * none. */
MUST_CHECK int loopback_free_port(uint16_t *port, struct error *err);

#endif
