/*
 * admin.h - the small HTTP port of a process that has no public one: GET /health/live (and /health), /health/ready,
 * /metrics, /version.
 *
 * Threading: one event thread of its own; `ready` is called on it and must only read atomics.
 */
#ifndef HTTP_ADMIN_H
#define HTTP_ADMIN_H

#include "base/error.h"

struct admin;

struct admin_config {
    const char *host;
    uint16_t port; /* 0: any free one, see admin_port */
    const char *version;
    bool (*ready)(void *ctx);
    void *ctx;
};

/* Listens and serves. Strings are borrowed until admin_end. */
MUST_CHECK int admin_start(struct admin **out, const struct admin_config *config, struct error *err);
uint16_t admin_port(const struct admin *admin);
void admin_end(struct admin **admin);

#endif
