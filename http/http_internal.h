/*
 * http_internal.h - threads and connections, as the server's files share them.
 *
 * A connection is on its thread's list from accept to reap. Work that must not happen inside a
 * caller's function (sending, going on with pipelined requests, telling of a closed client,
 * freeing) is left to the thread's flush, which runs after all other events of a turn.
 */
#ifndef HTTP_HTTP_INTERNAL_H
#define HTTP_HTTP_INTERNAL_H

#include "base/vec.h"
#include "http/http_metrics.h"
#include "http/http_network.h"
#include "http/http_parse.h"
#include "http/http_server.h"
#include "http/http_share.h"
#include "http/http_tls_internal.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <pthread.h>
#include <stdatomic.h>

enum conn_state {
    CONN_IDLE,      /* before the first byte of a request */
    CONN_HEAD,      /* a head is arriving */
    CONN_BODY,      /* a body is arriving */
    CONN_HANDLING,  /* the handler has the request, nothing is answered */
    CONN_STREAMING, /* the handler has begun a stream */
    CONN_LINGER,    /* the last answer is being sent; input is thrown away */
    CONN_DEAD,      /* to be freed by the next flush */
    CONN_STATE_COUNT
};

struct http_conn {
    struct http_request req; /* first: a request is its connection */
    struct http_thread *thread;
    struct http_conn *prev, *next; /* thread's list */
    struct http_conn *next_dirty;
    enum conn_state state;
    bool dirty;          /* on the thread's dirty list */
    bool keep_alive;     /* after the present response */
    bool bodiless;       /* response to HEAD, or 204, 304: no body bytes are sent */
    bool chunked;        /* the stream */
    bool answered;       /* a request has been answered before: idle_timeout counts */
    bool peer_done;      /* EOF was read */
    bool shut;           /* our side is shut down */
    bool want_drain;     /* http_stream_write has said false */
    bool refused;        /* it only gets a 503 */
    bool waits;          /* no request of it runs: counted for its address */
    struct u128 address; /* http_network_enter's */
    struct http_network *network;
    uint32_t holder;      /* of its connection: the address as a number of http_share.h */
    size_t unread;        /* bytes of its answers that are counted as not read */
    uint32_t body_holder; /* and of its body */
    int64_t body_end_ms;  /* deadline of the body */
    size_t body_seen;     /* bytes of the body at the beginning of this window */
    int64_t
        drain_end_ms; /* of an idle one, which is closed then at the latest; 0: it does not drain */
    bool broken;      /* sending failed, or the stream was cut: the request's on_closed is due */
    enum http_cut cut;
    int fd;
    struct bufferevent *bev;
    struct ssl_st *session; /* of TLS; NULL: plain */
    bool shaken;            /* TLS: hands are shaken */
    bool speaks_plain;      /* a client of http:// at a port of TLS: it only gets a 400 */
    struct event *deadline, *user_timer; /* user_timer: NULL until used */
    struct http_parser parser;
    struct buf body;  /* of the request */
    struct buf out;   /* wire bytes of this turn */
    struct buf chunk; /* stream bytes of this turn, not yet framed */
    struct http_watch watch;
    void *watch_ctx;
    char peer[HTTP_PEER_TEXT_MAX];
};

struct http_post {
    void (*fn)(void *ctx);
    void *ctx;
};

struct http_thread {
    struct http_server *server;
    int idx;
    bool started;
    pthread_t id;
    struct event_base *base;
    struct event *wake, *flush, *tick; /* tick: NULL when none */
    int wake_fd;
    struct http_conn *conns, *dirty_first, **dirty_last;
    bool flushing;
    uint32_t calm_ticks; /* in which nothing came and nothing waited */
    atomic_bool stopping;
    int64_t date_second;
    char date[32];
    pthread_mutex_t lock; /* of the three below */
    VEC(struct http_post) posts;
    bool closed;                 /* no more posts */
    VEC(struct http_post) taken; /* the thread's own */
};

/* Something came: ticks are wanted in the short period again. */
void http_thread_stir(struct http_thread *thread);

struct http_server {
    struct http_config config;
    struct http_limits limits;
    char host[256];
    uint16_t port;
    int listen_fd;
    struct evconnlistener *listener; /* thread 0's */
    struct event *accept_again;      /* thread 0's: after EMFILE */
    int next_thread_idx;             /* thread 0's */
    bool running;
    atomic_bool draining;
    atomic_uint connection_count, refused_count; /* the refused ones are connections, too */
    uint64_t seed;                               /* of holders */
    struct http_share connections; /* what is held: those without a request that runs */
    struct http_share connected;   /* all of them */
    struct http_share bodies, unread;
    struct http_networks networks;
    struct http_thread threads[HTTP_THREADS_MAX];
};

/* http_conn.c */
/* An address or another holder as a number of http_share.h. */
uint32_t http_server_holder(const struct http_server *server, struct u128 id);
/* Somebody who has connected. */
struct http_newcomer {
    struct http_thread *thread; /* where it will live */
    int fd;
    struct u128 address;
    struct http_network *network; /* it has entered it */
    bool refused;                 /* it only gets a 503 */
    char peer[HTTP_PEER_TEXT_MAX];
};
/* Takes what *newcomer has. */
void http_conn_new(const struct http_newcomer *newcomer);
/* goes on with the input; only from the event loop */
void http_conn_process(struct http_conn *conn);
void http_conn_mark(struct http_conn *conn); /* puts it on the dirty list */
/* DEAD; the next flush frees it. The request must have ended. */
void http_conn_kill(struct http_conn *conn);
void http_conn_lose(struct http_conn *conn,
                    /* the client is gone: on_closed if a request runs, then kill */
                    enum http_cut cut);
void http_conn_drain(struct http_conn *conn); /* ends it if it is between requests */
void http_conn_flushed(
    /* after sending: close, tell of drained output, or go on with the input */
    struct http_conn *conn);
/* Leaves TLS, to tell a client that speaks plain HTTP of its mistake. */
void http_conn_refuse_plain(struct http_conn *conn);
/* Frees a DEAD connection that is on no list. */
void http_conn_free(struct http_conn *conn);
void http_conn_begin_stream(struct http_conn *conn); /* HANDLING to STREAMING; the head is in out */
/* The response is complete in out: forget the request, go on or close. */
void http_conn_end_request(struct http_conn *conn);

/* http_server.c */
/* A connection less. */
void http_server_forget(struct http_server *server, uint32_t holder, bool refused);

/* http_output.c */
size_t http_conn_pending(const struct http_conn *conn);
/* Counts what is pending now for the connection's address, unless it is no more than a stream may
 * have. */
void http_conn_count_unread(struct http_conn *conn);
void http_conn_seal(struct http_conn *conn); /* frames what the stream has gathered */
void http_conn_send(struct http_conn *conn); /* out to the kernel, the rest to the bufferevent */
void http_thread_flush(struct http_thread *thread);

/* http_response.c */
/* What its request has of a complete head: path, fields and id. None of an incomplete one. */
void http_conn_take_head(struct http_conn *conn);
void http_conn_reject(struct http_conn *conn, int status, const char *text);

#endif
