/*
 * gateway.h - the gateway process as a whole: settings, and what its event threads share.
 *
 * Layers, from the wire up: wire.h (control thread) -> mailbox.h -> shard.h (an event thread's requests) -> stream.h
 * (one request) -> delivery.h, choice.h, render.h (pure parts). From the client down: server.h (routes) -> genreq.h
 * (dialects) -> prepare.h -> stream.h.
 */
#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include <stdatomic.h>

#include "base/pulse.h"
#include "gateway/auth.h"
#include "gateway/health.h"
#include "gateway/model_table.h"
#include "gateway/prepare_pool.h"
#include "gateway/wire.h"
#include "http/http_server.h"

struct gateway_settings {
    const char *host, *scheduler, *api_key, *api_key_file, *instance, *run_dir;
    int64_t port, threads;
    int64_t request_timeout_ms; /* 0: none */
    int64_t model_wait_ms;      /* how long a request waits for a model to be there */
    int64_t drain_ms, ping_ms, slow_ms, probe_ms;
    int64_t open_max, connections_max;
    uint64_t body_max;
    bool share_port, trust_request_template;
    const char *chat_template;                       /* a file; NULL: the model's own */
    const char *reasoning_parser, *tool_call_parser; /* names, "auto" or "none" */
    const char *cache_dir;                           /* of compiled vocabularies; NULL: the user's */
    int log_level, log_format;
};

struct shard;

struct gateway {
    struct gateway_settings settings;
    struct auth auth;
    struct http_server *http;
    struct model_table *models;
    struct buf chat_template; /* the file's bytes */
    struct wire *wire;
    struct prepare_pool *pool;
    struct mailbox *boxes; /* one an event thread */
    struct shard **shards; /* same */
    int shard_count;
    struct health health;
    struct pulse pulse;         /* of the first event thread */
    pthread_mutex_t http_mutex; /* guards `http` against its end, for wakes from other threads */
    _Atomic int64_t open_count; /* generation requests not ended */
    _Atomic bool draining;
};

/* Starts everything but signals. port 0 binds any free one. Returns owned. */
MUST_CHECK int gateway_new(struct gateway **out, const struct gateway_settings *settings, struct error *err);
uint16_t gateway_port(const struct gateway *gw);
/* Takes nothing new, waits until running requests have ended or settings.drain_ms passed. True when all ended. */
bool gateway_drain(struct gateway *gw);
void gateway_free(struct gateway **gw);

#endif
