/*
 * gateway_state.h - what the threads of the gateway process share: its settings and the objects
 * that live as long as the process.
 *
 * gateway.h makes and ends it. In between only what is atomic changes, and `http` under its mutex.
 */
#ifndef GATEWAY_GATEWAY_STATE_H
#define GATEWAY_GATEWAY_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/pulse.h"
#include "gateway/access/auth.h"
#include "gateway/access/cors.h"
#include "gateway/access/hosts.h"
#include "gateway/link/mailbox.h"
#include "gateway/models/model_table.h"
#include "http/http_server.h"

struct gateway_settings {
    const char *host, *scheduler, *api_key, *api_key_file, *instance, *run_dir;
    const char *key_file, *allow_keys; /* for tcp */
    const char *tls_cert, *tls_key;    /* files; NULL: plain HTTP */
    int64_t port;                      /* 0: any free one */
    int64_t threads;                   /* event threads */
    int64_t request_timeout_ms;        /* 0: none */
    int64_t model_wait_ms;             /* how long a request waits for a model to be there */
    int64_t drain_ms, ping_ms, slow_ms, probe_ms;
    int64_t open_max, connections_max;
    int64_t priority_min;                    /* of requests whose key does not say otherwise */
    int64_t key_requests, key_minute_tokens; /* auth_limits of keys that do not say theirs */
    uint64_t body_max;
    uint64_t responses_bytes; /* of answers that are kept (response_store.h) */
    uint64_t answers_max;     /* bytes of whole answers, of all that wait and are not read */
    uint64_t submit_max;      /* bytes of a Submit; 0: what a frame may have (tests: less) */
    uint32_t visits_max;      /* as EVENT_THREAD_VISITS, which 0 is (tests: less) */
    uint64_t aside_max;       /* bytes of long runs that wait for readers; 0: 16 MB (tests: less) */
    uint64_t watchers_max;    /* places of watchers; 0: 1024 (tests: less) */
    bool trusts_quiet;        /* tests: nothing is asked for because nothing was heard for long */
    const char *allow_hosts;  /* see hosts.h */
    const char *allow_origins; /* of web pages: see cors.h */
    bool share_port, trust_request_template;
    bool models_on_demand;                           /* as text_settings.on_demand */
    bool sandbox;                                    /* see base/sandbox.h */
    bool api_key_stdin;                              /* api_key is read from there */
    const char *chat_template;                       /* a file; NULL: the model's own */
    const char *reasoning_parser, *tool_call_parser; /* names, "auto" or "none" */
    const char *served_names;                        /* as text_settings.served_names */
    int64_t seed; /* of requests that bring none; -1: drawn anew for each */
    /* of compiled vocabularies; NULL: the user's */
    const char *cache_dir;
    int log_level, log_format;
    const char *otlp_endpoint; /* of a collector of traces; NULL: none */
    double trace_ratio;        /* of requests without a traceparent */
};

/* Result of the last /health/e2e probe of the process (health.h). */
struct health {
    _Atomic int64_t result_ms; /* when it ended; 0: never */
    _Atomic bool ok;
    _Atomic bool running;     /* one is under way */
    _Atomic int64_t token_ms; /* when a token came, a client's or a probe's; 0: never */
    /* a token was made since a scheduler and a model are there; one is being made to know it */
    _Atomic bool proven, proving;
};

struct event_thread;
struct prepare_pool;
struct response_store;
struct work_pool;
struct answer_room;
struct open_places;
struct scheduler_link;

struct gateway {
    struct gateway_settings settings;
    struct auth auth;
    struct cors cors;
    struct hosts hosts;
    struct http_tls *tls;        /* NULL: plain HTTP */
    struct trace_export *traces; /* NULL: none are told */
    struct http_server *http;
    struct model_table *models;
    struct buf chat_template; /* the file's bytes */
    struct buf openapi;       /* what /openapi.json answers, made once: anyone may ask for it */
    struct scheduler_link *link;
    struct work_pool *workers; /* threads for what is long */
    struct prepare_pool *pool;
    struct response_store *responses;
    struct answer_room *room;     /* for answers that are held whole */
    struct open_places *places;   /* for generation requests */
    struct open_places *watchers; /* for clients that are told of others' work: followers, probes */
    struct mailbox *boxes;        /* one for each event thread */
    struct event_thread **threads; /* thread_count */
    int thread_count;
    struct health health;
    struct pulse pulse;         /* of the first event thread */
    pthread_mutex_t http_mutex; /* guards `http` against its end, for wakes from other threads */
    _Atomic int64_t open_count; /* generation requests not ended */
    _Atomic bool draining;
};

#endif
