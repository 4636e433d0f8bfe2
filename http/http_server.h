/*
 * http_server.h - a strict HTTP/1.1 server (RFC 9112) on libevent bufferevents, several event
 * threads, everything bounded.
 *
 * One listener (on thread 0) hands accepted sockets to the threads in turn; a connection lives and
 * dies on one thread. The parser is http_parse.h; framing that it refuses is answered here (see
 * on_reject) with Connection: close and a lingering close, and no handler ever sees it. The
 * requests of a connection run one after the other, in order; while one runs, at most
 * HTTP_READ_AHEAD bytes of what the client sends next are read, so a client that goes away is
 * noticed at once, and a flood stops in the kernel.
 *
 * Output is gathered: all that is written to a connection in one turn of its event loop leaves in
 * one send (and as one chunk of a chunked response). What the kernel does not take waits in the
 * connection and is sent when it can be.
 *
 * Invariants:
 *   (1) Every request given to on_request ends exactly once: by http_respond, http_stream_end,
 *       http_abort, or its closed callback. After that the pointer is dead. A handler that returns
 *       without having ended its request must have set on_closed.
 *   (2) No callback runs inside a call of this header: http_respond, http_stream_write, ... never
 *       call back into the caller.
 *   (3) The timers of a connection are absolute: a byte every few seconds does not extend the
 *       head's or the body's deadline. A body that comes too slowly ends before its deadline.
 *   (4) Past high_water pending bytes no further pipelined request is begun; past pending_max_bytes
 *       a stream is cut.
 *
 * Threading: all calls on a request are made on its own event thread (req->thread_idx); other
 * threads get there by http_thread_post. http_server_* and http_thread_post may be called from any
 * thread. SIGPIPE is ignored from http_server_new on.
 */
#ifndef HTTP_HTTP_SERVER_H
#define HTTP_HTTP_SERVER_H

#include "base/buf.h"
#include "base/error.h"
#include "http/http_types.h"

enum {
    HTTP_READ_AHEAD = 16384,
    HTTP_PEER_TEXT_MAX = 64,
    HTTP_THREADS_MAX = 64,
    HTTP_REQUEST_ID_MAX = 128,
    HTTP_HEAD_FIELDS_MAX = 8,
    HTTP_TICKS_CALM = 10
};

struct http_server;

/* What a handler sees: read only but for `user`. Spans point into the connection and stay until the
 * request has ended. */
struct http_request {
    enum http_method method;
    /* decoded, starts with '/' (or is "*" for OPTIONS), valid UTF-8, no control characters */
    struct bytes path;
    /* where in the path is the first '/' that was written %2F: it is a segment's data, and divides
     * nothing (RFC 3986, section 2.2). 0: there is none */
    uint32_t escaped_slash;
    struct bytes query; /* raw, behind the '?'; empty when there is none */
    struct bytes body;  /* complete; transfer coding removed */
    const struct http_header *headers;
    uint32_t header_count;
    /* whose part of the memory for bodies this body takes; zero: its address's. Set in on_body */
    struct u128 holder;
    struct u128 address;              /* where it comes from: http_network_enter's */
    int version_minor;                /* 1 or 0 */
    int thread_idx;                   /* the event thread it belongs to */
    int64_t start_us;                 /* clock_us() at the first byte of its head */
    const char *peer;                 /* "192.0.2.1:5000" or "[2001:db8::1]:5000" */
    void *user;                       /* the handler's own; NULL at first */
    bool id_given;                    /* id is the client's */
    char id[HTTP_REQUEST_ID_MAX + 1]; /* see http_request_id; "": not drawn yet */
};

struct sockaddr;
/* A number for an IPv4 address (one that IPv6 carries is the same one), or for the /64 of an IPv6
 * one. Every process has the same; none is zero. Who counts how often: http_network.h. */
struct u128 http_address_of(const struct sockaddr *addr);

/* A response header; value must be one line (control characters are sent as spaces, so no client's
 * text can split a response). */
struct http_field {
    const char *name, *value;
};

/* Later events of one request; any member may be NULL (but see invariant 1). All run on the
 * request's thread. */
struct http_watch {
    void (*on_closed)(void *ctx,
                      /* the client is gone or was cut; req is valid until this returns */
                      struct http_request *req);
    void (*on_drained)(void *ctx, struct http_request *req); /* see http_stream_write */
    void (*on_timer)(void *ctx, struct http_request *req);   /* see http_request_set_timer */
};

struct http_tls;

struct http_config {
    /* speak TLS with this certificate (http_tls.h); borrowed until http_server_free. NULL: plain */
    struct http_tls *tls;
    /* "127.0.0.1", "::", "localhost", ...; NULL: 127.0.0.1, which is ::1 where there is none */
    const char *host;
    uint16_t port; /* 0: any free one, see http_server_port */
    /* SO_REUSEPORT: several processes of this user listen on it, the kernel spreads connections */
    bool share_port;
    int backlog;      /* of listen(2) */
    int thread_count; /* event threads, 1 to HTTP_THREADS_MAX */
    /* past it a newcomer is answered 503 and closed. What an address holds without a request that
     * runs is bounded by what is free, and all that it holds by 15 times that, as http_share.h says */
    uint32_t connections_max;
    /* of the hash that gives an address its account of http_share.h: nobody else may know it, or he could
     * share another's. 0: drawn */
    uint64_t holders_seed;
    /* request line and headers: 431 (414 when the request line alone is too long) */
    uint32_t head_max_bytes;
    uint32_t target_max_bytes; /* request target: 414 */
    uint32_t headers_max;      /* 431 */
    uint64_t body_max_bytes;   /* of one request: 413 */
    /* of all requests held at once, shared as http_share.h says: 503 */
    uint64_t bodies_max_bytes;
    /* of complete answers that clients have not read, shared by addresses in the same way: 503 */
    uint64_t unread_max_bytes;
    uint32_t head_deadline_ms; /* from the first byte of a head (or from accept) to its end: 408 */
    uint32_t body_deadline_ms; /* from the end of the head to the end of the body: 408 */
    /* of a body that is still arriving in every body_window_ms: 408 */
    uint32_t body_window_ms, body_window_bytes;
    uint32_t idle_timeout_ms;  /* between two requests of a connection */
    uint32_t write_timeout_ms; /* no byte taken by the client for so long: cut */
    /* how long a closing connection is still read, so that the client sees the last answer */
    uint32_t linger_ms;
    uint32_t low_water;  /* pending output bytes at which on_drained runs */
    uint32_t high_water; /* pending output bytes above which http_stream_write says false */
    /* of a stream: past it the client is cut (http_respond's bodies are exempt) */
    uint64_t pending_max_bytes;
    uint32_t posts_max; /* functions waiting per thread */
    uint32_t tick_ms;   /* period of on_tick; 0: none */
    /* and of a thread that is calm: in HTTP_TICKS_CALM ticks no request and nothing posted came, and
     * on_tick said that nothing waits; 0: the same */
    uint32_t calm_tick_ms;

    void *ctx; /* of the three below */
    /* A complete request. Must be set. */
    void (*on_request)(void *ctx, struct http_request *req);
    /* A head is complete, its body is not; nothing of it was taken yet, and the client was not asked
     * to go on. It may name the holder of the body, or answer with http_respond: then the body is not
     * taken, and the connection closes. NULL: all bodies are taken. */
    void (*on_body)(void *ctx, struct http_request *req);
    /* Writes the body of an answer the server gives on its own (400, 408, 413, 414, 417, 431, 501,
     * 503, 505, ...). NULL: http_reject_json. Of req it may look at the path, which is empty where
     * the head was not complete, and at the id. status and text are ours, short, and fit for a
     * client. The content type is application/json. Any event thread. */
    void (*on_reject)(void *ctx, struct http_request *req, int status, const char *text,
                      struct buf *body);
    /* Every response, the server's own ones too, just before its head goes out: may add up to
     * HTTP_HEAD_FIELDS_MAX fields and returns how many; their texts are borrowed until it is called
     * again. Of a request that was refused before its head was complete there is no more than the
     * id. It may ask of the request (http_request_header, http_request_id) and call nothing else of
     * this header. NULL: none. Any event thread. */
    size_t (*on_head)(void *ctx, struct http_request *req, int status, struct http_field *fields);
    /* Every tick_ms (calm_tick_ms), on each event thread. Whether something waits for the next. */
    bool (*on_tick)(void *ctx, int thread_idx);
};

/* Sets every limit and timeout to its default; ctx and callbacks to NULL. */
void http_config_init(struct http_config *config);
/* {"error":{"message":text,"type":"invalid_request_error" ("server_error" from 500
 * on),"param":null,"code":null}} */
void http_reject_json(int status, const char *text, struct buf *body);

/* Binds and listens (so that the port is known), starts nothing. Copies *config. NULL with *err
 * filled on failure. */
MUST_CHECK struct http_server *http_server_new(const struct http_config *config, struct error *err);
/* Starts the event threads. Once. */
MUST_CHECK int http_server_start(struct http_server *server, struct error *err);
uint16_t http_server_port(const struct http_server *server); /* the bound one */
/* Open connections, the lingering ones among them. */
uint32_t http_server_connection_count(const struct http_server *server);
/* Stops accepting, closes idle connections, lets running requests finish (their responses say
 * Connection: close). Returns at once. */
void http_server_drain(struct http_server *server);
/* After http_server_drain: waits until the last connection is gone; false when timeout_ms passed
 * before that. Not on an event thread. */
bool http_server_wait_drained(struct http_server *server, int64_t timeout_ms);
/* Cuts what is left (closed callbacks run on their threads), then joins the threads. Posted
 * functions that have not run by then run before their thread ends. Not on an event thread. */
void http_server_free(struct http_server **server);

/* Runs fn(ctx) on an event thread, soon, in order of posting. From any thread, also from that one
 * (then it runs after the present callback). False when posts_max wait already or the server is
 * being freed: fn will not run. */
MUST_CHECK bool http_thread_post(struct http_server *server, int thread_idx, void (*fn)(void *ctx),
                                 void *ctx);

/* The value of a request's header (without case), or {NULL, 0}. An empty value has data != NULL. Of
 * repeated headers the first; Host, Content-Length, Transfer-Encoding, Content-Type, Authorization,
 * X-Api-Key and Expect are never repeated (400). */
struct bytes http_request_header(const struct http_request *req, const char *name);
/* What the request is called in logs and in its response's X-Request-Id: the client's own
 * X-Request-Id when that is of 1 to HTTP_REQUEST_ID_MAX letters, digits and "-._~:/+=@", else what
 * http_request_set_id said, else 32 hex digits, drawn by the first call. */
const char *http_request_id(struct http_request *req);
/* Whether a client may call its request so. */
bool http_is_request_id(struct bytes id);
/* Names a request whose client has not (copied; HTTP_REQUEST_ID_MAX bytes at most); before its
 * response. */
void http_request_set_id(struct http_request *req, const char *id);
/* The event thread that owns the request, in [0, thread_count). */
int http_request_thread(const struct http_request *req);
/* Keeps *watch (copied) and ctx for later events. May be called again to replace them. */
void http_request_watch(struct http_request *req, const struct http_watch *watch, void *ctx);
/* on_timer once, ms from now; replaces an earlier one; 0 disarms. Ends with the request. */
void http_request_set_timer(struct http_request *req, uint32_t ms);

/* Answers completely and ends the request. body is copied. content_type NULL: none sent. A HEAD
 * gets the headers alone. Where the client's address has no part of the room for unread answers left
 * (unread_max_bytes), it is a 503 instead, and the connection closes. */
void http_respond(struct http_request *req, int status, const char *content_type,
                  const struct http_field *fields, size_t field_count, struct bytes body);
/* Begins a response of unknown length: chunked for HTTP/1.1, ended by the close for 1.0. */
void http_stream_begin(struct http_request *req, int status, const char *content_type,
                       const struct http_field *fields, size_t field_count);
/* Appends to the stream (copied; sent at the end of this turn of the event loop). Returns true
 * while no more than high_water bytes wait; once it has returned false, on_drained runs once, when
 * no more than low_water bytes wait. Nothing is dropped either way. */
bool http_stream_write(struct http_request *req, const void *data, size_t len);
/* Ends the response and the request. */
void http_stream_end(struct http_request *req);
/* Output bytes of this connection that the kernel has not taken yet. */
size_t http_stream_pending(const struct http_request *req);
/* Cuts the connection without a (further) word and ends the request; on_closed does not run. For a
 * stream that cannot be finished: a chunked client sees the missing last chunk. What was written
 * before may or may not arrive. */
void http_abort(struct http_request *req);

#endif
