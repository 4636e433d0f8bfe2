/*
 * health.h - /health/ready and /health/e2e: does this gateway answer, really?
 *
 * Ready means that a scheduler is heard and a model with a live replica and a compiled tokenizer is there. End to end
 * means that a token was just made: a request of one token goes the whole way. Its result is good for HEALTH_FRESH_MS,
 * one probe runs at a time in the process, and whoever asks meanwhile waits for it. When the gateway stops being ready,
 * those who wait are told so at once.
 *
 * Threading: struct health is shared (atomics only); waiters belong to their event thread.
 */
#ifndef GATEWAY_HEALTH_H
#define GATEWAY_HEALTH_H

#include <stdatomic.h>

#include "http/http_server.h"

enum { HEALTH_FRESH_MS = 500, HEALTH_WAITERS_MAX = 64 };

struct health {
    _Atomic int64_t result_ms; /* when the last probe ended; 0: never */
    _Atomic bool ok, running;
};

struct health_waiters {
    struct {
        struct http_request *req;
        int64_t since_ms;
    } items[HEALTH_WAITERS_MAX];
    size_t count;
};

struct shard;
struct gateway;

/* NULL when ready, else why not: a static text fit for a client. */
const char *health_not_ready(struct gateway *gw);
void health_on_ready(struct shard *shard, struct http_request *req);
void health_on_e2e(struct shard *shard, struct http_request *req);
/* With every tick of the shard. */
void health_tick(struct shard *shard);

#endif
