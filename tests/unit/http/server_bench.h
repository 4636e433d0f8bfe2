/*
 * server_bench.h - a server on the loopback with short deadlines, its handlers, and what they have seen.
 */
#ifndef TESTS_UNIT_HTTP_SERVER_BENCH_H
#define TESTS_UNIT_HTTP_SERVER_BENCH_H

#include "check.h"

#include "http/http_metrics.h"
#include "http/http_server.h"
#include "wire.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

#define H "Host: a\r\n"

/* One server and what its handlers have seen. */
struct bench {
    struct http_server *server;
    struct http_config config;
    uint16_t port;
    _Atomic int closed_count, drained_count, tick_count, post_count, request_count, timer_count;
    _Atomic int refused_write_count, more_to_nobody;
    bool writes_to_nobody; /* in on_closed */
    _Atomic size_t pending_max;
    _Atomic uint32_t thread_bits;
    _Atomic(struct http_request *) held;
    _Atomic size_t to_write, written; /* of the stream being pumped */
};

static inline struct bench *bench_of(struct http_request *req) {
    return req->user;
}

/* What an owner does that does not know yet: the client is gone, and nothing comes of it. */
static inline void write_to_nobody(struct bench *b, struct http_request *req) {
    b->more_to_nobody += http_stream_write(req, "lost", 4);
    http_stream_begin(req, 200, "text/plain", NULL, 0);
    http_respond(req, 200, "text/plain", NULL, 0, bytes_str("lost"));
    http_request_set_timer(req, 1);
    http_stream_end(req);
    http_abort(req);
}

static inline void on_closed(void *ctx, struct http_request *req) {
    struct bench *b = ctx;
    b->held = NULL;
    if (b->writes_to_nobody)
        write_to_nobody(b, req);
    b->closed_count++;
}

/* Writes numbered bytes until the stream says it has enough. */
static inline void pump(struct bench *b, struct http_request *req) {
    char piece[1000];
    while (b->written < b->to_write) {
        size_t len = b->to_write - b->written;
        len = MIN(len, sizeof piece);
        for (size_t i = 0; i < len; i++)
            piece[i] = (char)((b->written + i) * 7 % 251);
        b->written += len;
        bool more = http_stream_write(req, piece, len);
        size_t pending = http_stream_pending(req);
        if (pending > b->pending_max)
            b->pending_max = pending;
        if (!more) {
            b->refused_write_count++;
            return;
        }
    }
    http_stream_end(req);
}

static inline void on_drained(void *ctx, struct http_request *req) {
    struct bench *b = ctx;
    b->drained_count++;
    pump(b, req);
}

static inline void on_timer(void *ctx, struct http_request *req) {
    struct bench *b = ctx;
    b->timer_count++;
    http_respond(req, 200, "text/plain", NULL, 0, bytes_str("late"));
}

static const struct http_watch watch = {on_closed, on_drained, on_timer};

static inline void stream_begin(struct http_request *req) {
    http_stream_begin(req, 200, "text/event-stream", NULL, 0);
}

static inline void handle_stream(struct http_request *req) {
    char count[16];
    int n = http_query_find(req->query, "n", count, sizeof count) > 0 ? atoi(count) : 0,
        status = http_query_find(req->query, "status", count, sizeof count) > 0 ? atoi(count) : 200;
    http_stream_begin(req, status, "text/event-stream", NULL, 0);
    for (int i = 0; i < n; i++)
        (void)http_stream_write(req, "x", 1);
    http_stream_end(req);
}

static inline void handle_fields(struct http_request *req) {
    const struct http_field fields[] = {{"X-Echo", "one\r\nX-Evil: two"}, {"Retry-After", "3"}};
    http_respond(req, 429, NULL, fields, ARRAY_LEN(fields), bytes_str(""));
}

static inline void handle_many(struct http_request *req) {
    struct bench *b = bench_of(req);
    char n[16];
    http_request_watch(req, &watch, b);
    b->written = 0;
    b->to_write = http_query_find(req->query, "n", n, sizeof n) > 0 ? (size_t)atol(n) : 0;
    stream_begin(req);
    pump(b, req);
}

/* Never ends, never listens to reason. */
static inline void handle_flood(struct http_request *req) {
    static char piece[65536];
    http_request_watch(req, &watch, bench_of(req));
    stream_begin(req);
    for (int i = 0; i < 200; i++)
        (void)http_stream_write(req, piece, sizeof piece);
}

static inline void handle_hold(struct http_request *req) {
    struct bench *b = bench_of(req);
    http_request_watch(req, &watch, b);
    if (req->query.len) {
        stream_begin(req);
        (void)http_stream_write(req, "begun", 5);
    }
    b->held = req;
}

static inline void handle_late(struct http_request *req) {
    http_request_watch(req, &watch, bench_of(req));
    http_request_set_timer(req, 40);
}

static inline void handle_cut(struct http_request *req) {
    stream_begin(req);
    (void)http_stream_write(req, "half", 4);
    http_abort(req);
}

static inline void handle_big(struct http_request *req) {
    size_t len = 3u << 20;
    char *body = mem_alloc(len);
    http_respond(req, 200, NULL, NULL, 0, bytes_of(body, len));
    mem_free(body);
}

static inline void handle_echo(struct http_request *req) {
    char type[64] = "none";
    struct bytes given = http_request_header(req, "content-type");
    if (given.data)
        snprintf(type, sizeof type, "%.*s", (int)given.len, (const char *)given.data);
    http_respond(req, 200, type, NULL, 0, req->body);
}

static inline void handle_204(struct http_request *req) {
    http_respond(req, 204, NULL, NULL, 0, bytes_str("dropped"));
}

static inline void handle_304(struct http_request *req) {
    http_respond(req, 304, NULL, NULL, 0, bytes_str("dropped"));
}

/* Writes until as much is pending as may be (?n=0) or more, whether anybody reads or not, and ends. */
static inline void handle_brim(struct http_request *req) {
    static const char piece[65536];
    const struct bench *b = bench_of(req);
    size_t most = MIN(b->config.pending_max_bytes, sizeof piece) + (req->query.len ? 1 : 0);
    http_request_watch(req, &watch, bench_of(req));
    stream_begin(req);
    (void)http_stream_write(req, piece, most - http_stream_pending(req));
    http_stream_end(req);
}

/* Sets a timer, and does not wait for it. */
static inline void handle_timer(struct http_request *req) {
    http_request_watch(req, &watch, bench_of(req));
    http_request_set_timer(req, 30);
    http_respond(req, 200, NULL, NULL, 0, bytes_str(""));
}

static inline void handle_peer(struct http_request *req) {
    http_respond(req, 200, NULL, NULL, 0, bytes_str(req->peer));
}

/* Gives the request a long id, then that of the query. */
static inline void handle_named(struct http_request *req) {
    char id[HTTP_REQUEST_ID_MAX + 1] = "";
    http_request_set_id(req, "an-id-that-is-not-the-last-one");
    if (http_query_find(req->query, "id", id, sizeof id) > 0)
        http_request_set_id(req, id);
    http_respond(req, 200, NULL, NULL, 0, bytes_str(http_request_id(req)));
}

static inline void on_request(void *ctx, struct http_request *req) {
    static const struct {
        const char *path;
        void (*run)(struct http_request *req);
    } routes[] = {{"/echo", handle_echo},   {"/stream", handle_stream}, {"/many", handle_many},
                  {"/flood", handle_flood}, {"/hold", handle_hold},     {"/late", handle_late},
                  {"/cut", handle_cut},     {"/fields", handle_fields}, {"/big", handle_big},
                  {"/204", handle_204},     {"/peer", handle_peer},     {"/named", handle_named},
                  {"/304", handle_304},     {"/brim", handle_brim},     {"/timer", handle_timer}};
    struct bench *b = ctx;
    req->user = ctx;
    b->request_count++;
    b->thread_bits |= 1u << req->thread_idx;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (bytes_equal(req->path, bytes_str(routes[i].path))) {
            routes[i].run(req);
            return;
        }
    http_respond(req, 404, NULL, NULL, 0, bytes_str(""));
}

/* /closed is refused before its body; /a and /b are holders of their own. */
static inline void on_body(void *ctx, struct http_request *req) {
    if (bytes_equal(req->path, bytes_str("/closed")))
        http_respond(req, 401, NULL, NULL, 0, bytes_str("no"));
    else if (req->query.len)
        req->holder = (struct u128){.lo = req->query.data[0]};
}

static inline bool on_tick(void *ctx, int thread_idx) {
    return ((struct bench *)ctx)->tick_count++ < 30;
}

static inline void bench_config(struct bench *b) {
    memset(b, 0, sizeof *b);
    http_config_init(&b->config);
    b->config.head_deadline_ms = b->config.body_deadline_ms = 200;
    b->config.idle_timeout_ms = 400;
    b->config.write_timeout_ms = 300;
    b->config.linger_ms = 200;
    b->config.body_max_bytes = 100000;
    b->config.on_request = on_request;
    b->config.ctx = b;
}

static inline bool bench_start(struct bench *b) {
    struct error err;
    b->server = http_server_new(&b->config, &err);
    if (!b->server)
        return false;
    b->port = http_server_port(b->server);
    return b->port && http_server_start(b->server, &err) == 0;
}

/* Sends text on a fresh connection and collects everything until the server closes (or 5 s of
 * silence). */
static inline bool exchange(struct bench *b, const char *text, struct buf *in) {
    int fd = wire_connect(b->port, 0);
    bool ok = fd >= 0 && wire_send(fd, text) && wire_read_all(fd, in);
    close(fd);
    return ok;
}

static inline void bench_end(struct bench *b) {
    http_server_free(&b->server);
}

/* Starts a server for the rest of the test, "b", with the defaults as these statements change them; "in"
 * and "out" are empty. All three end with the test, wherever it returns. */
#define BENCH(...)                                                                                 \
    __attribute__((cleanup(buf_release))) struct buf in;                                           \
    __attribute__((cleanup(buf_release))) struct buf out;                                          \
    __attribute__((cleanup(bench_end))) struct bench b;                                            \
    buf_init(&in, 0);                                                                              \
    buf_init(&out, 0);                                                                             \
    bench_config(&b);                                                                              \
    __VA_ARGS__;                                                                                   \
    EXPECT(bench_start(&b))

#endif
