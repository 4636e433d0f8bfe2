/*
 * admin.h - the small HTTP port of a process that has no public one: GET /health/live (and
 * /health), /health/ready, /metrics, /version.
 *
 * Threading: one event thread of its own; `ready` is called on it and must only read atomics.
 */
#ifndef HTTP_ADMIN_H
#define HTTP_ADMIN_H

#include "base/error.h"

struct http_admin;

struct http_admin_config {
    const char *host;
    uint16_t port; /* 0: any free one, see http_admin_port */
    const char *version;
    bool (*ready)(void *ctx);
    void *ctx;
};

/* Listens and serves. Strings are borrowed until http_admin_end. */
MUST_CHECK int http_admin_start(struct http_admin **out, const struct http_admin_config *config,
                                struct error *err);
/* The port that it listens on. */
uint16_t http_admin_port(const struct http_admin *admin);
/* Ends its thread. NULL in *admin is fine. */
void http_admin_end(struct http_admin **admin);

#endif
