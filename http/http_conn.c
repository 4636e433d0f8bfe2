/*
 * http_conn.c - one connection: its states, its deadlines, reading, and how it ends.
 */
#include "http/http_internal.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODY_KEPT_BYTES = 16384, TAKEN_LOOK_MS = 20 };

#define BIT(s) (1u << (s))

/* From each state, where it may go. */
static const unsigned legal_moves[CONN_STATE_COUNT] = {
    [CONN_IDLE] = BIT(CONN_HEAD) | BIT(CONN_LINGER) | BIT(CONN_DEAD),
    [CONN_HEAD] = BIT(CONN_BODY) | BIT(CONN_HANDLING) | BIT(CONN_LINGER) | BIT(CONN_DEAD),
    [CONN_BODY] = BIT(CONN_HANDLING) | BIT(CONN_LINGER) | BIT(CONN_DEAD),
    [CONN_HANDLING] =
        BIT(CONN_BODY) | BIT(CONN_STREAMING) | BIT(CONN_IDLE) | BIT(CONN_LINGER) | BIT(CONN_DEAD),
    [CONN_STREAMING] = BIT(CONN_IDLE) | BIT(CONN_LINGER) | BIT(CONN_DEAD),
    [CONN_LINGER] = BIT(CONN_DEAD),
    [CONN_DEAD] = 0,
};

static const struct http_config *config_of(const struct http_conn *conn) {
    return &conn->thread->server->config;
}

static void arm(struct event *timer, uint32_t ms) {
    struct timeval tv = timeval_of_ms(ms);
    evtimer_add(timer, &tv);
}

/* To the end of the window, or of the time for the whole body. */
static uint32_t body_wait_ms(const struct http_conn *conn) {
    int64_t left = conn->body_end_ms - clock_ms();
    return left <= 0 ? 1 : (uint32_t)MIN(left, (int64_t)config_of(conn)->body_window_ms);
}

static void arm_deadline(struct http_conn *conn) {
    const struct http_config *c = config_of(conn);
    switch (conn->state) {
    case CONN_IDLE:
        arm(conn->deadline, conn->answered ? c->idle_timeout_ms : c->head_deadline_ms);
        break;
    case CONN_HEAD: arm(conn->deadline, c->head_deadline_ms); break;
    case CONN_BODY: arm(conn->deadline, body_wait_ms(conn)); break;
    default: evtimer_del(conn->deadline); /* LINGER: armed when its output is sent */
    }
}

/* Connections that nobody is being served on are what an address may not hoard. */
static void count_waiting(struct http_conn *conn, bool waits) {
    if (conn->refused || waits == conn->waits)
        return;
    conn->waits = waits;
    http_share_add_held(&conn->thread->server->connections, conn->holder, waits ? 1 : -1);
}

static void move(struct http_conn *conn, enum conn_state to) {
    CHECK_MSG(legal_moves[conn->state] >> to & 1, "connection goes from %d to %d", (int)conn->state,
              (int)to);
    conn->state = to;
    count_waiting(conn, to != CONN_HANDLING && to != CONN_STREAMING && to != CONN_DEAD);
    arm_deadline(conn);
}

static bool request_runs(const struct http_conn *conn) {
    return conn->state == CONN_HANDLING || conn->state == CONN_STREAMING;
}

void http_conn_mark(struct http_conn *conn) {
    struct http_thread *thread = conn->thread;
    if (conn->dirty)
        return;
    if (!thread->dirty_first && thread->flushing)
        arm(thread->flush, 0);
    else if (!thread->dirty_first)
        event_active(thread->flush, 0, 0);
    conn->dirty = true;
    conn->next_dirty = NULL;
    *thread->dirty_last = conn;
    thread->dirty_last = &conn->next_dirty;
}

/* ---- the end of requests and connections ---- */

static void charge_body(struct http_conn *conn, int64_t bytes) {
    struct http_share *bodies = &conn->thread->server->bodies;
    if (!bytes)
        return;
    http_share_add_total(bodies, bytes);
    http_share_add_held(bodies, conn->body_holder, bytes);
    metric_add(&http_metrics[HTTP_METRIC_BODY_BYTES], bytes);
}

static void uncharge_body(struct http_conn *conn) {
    charge_body(conn, -(int64_t)conn->body.len);
    if (conn->body.cap > BODY_KEPT_BYTES)
        buf_release(&conn->body);
    else
        buf_reset(&conn->body);
}

static void forget_request(struct http_conn *conn) {
    uncharge_body(conn);
    http_parser_reset(&conn->parser);
    memset(&conn->watch, 0, sizeof conn->watch);
    conn->watch_ctx = NULL;
    conn->want_drain = false;
    if (conn->user_timer)
        evtimer_del(conn->user_timer);
    memset(&conn->req, 0, sizeof conn->req);
    conn->req.thread_idx = conn->thread->idx;
    conn->req.peer = conn->peer;
    conn->req.address = conn->address;
}

void http_conn_end_request(struct http_conn *conn) {
    forget_request(conn);
    conn->answered = true;
    bool keep = conn->keep_alive && !atomic_load(&conn->thread->server->draining);
    move(conn, keep ? CONN_IDLE : CONN_LINGER);
    http_conn_mark(conn);
}

void http_conn_begin_stream(struct http_conn *conn) {
    move(conn, CONN_STREAMING);
    http_conn_mark(conn);
}

void http_conn_kill(struct http_conn *conn) {
    if (conn->state == CONN_DEAD)
        return;
    forget_request(conn);
    bufferevent_disable(conn->bev, EV_READ | EV_WRITE);
    move(conn, CONN_DEAD);
    http_conn_mark(conn);
}

void http_conn_lose(struct http_conn *conn, enum http_cut cut) {
    struct http_watch watch = conn->watch;
    void *ctx = conn->watch_ctx;
    bool runs = request_runs(conn);
    if (conn->state == CONN_DEAD)
        return;
    if (runs || cut != HTTP_CUT_CLIENT)
        metric_add_label(&http_metrics[HTTP_METRIC_CUT], (int)cut, 1);
    bufferevent_disable(conn->bev, EV_READ | EV_WRITE);
    move(conn, CONN_DEAD); /* what on_closed writes goes nowhere */
    if (runs && watch.on_closed)
        watch.on_closed(ctx, &conn->req);
    forget_request(conn);
    http_conn_mark(conn);
}

void http_conn_free(struct http_conn *conn) {
    struct http_thread *thread = conn->thread;
    CHECK(conn->state == CONN_DEAD);
    http_conn_count_unread(conn);
    uint32_t holder = conn->holder;
    bool refused = conn->refused;
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        thread->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    event_free(conn->deadline);
    if (conn->user_timer)
        event_free(conn->user_timer);
    bufferevent_free(conn->bev);
    http_tls_end(&conn->session);
    close(conn->fd);
    http_network_leave(&thread->server->networks, conn->network);
    http_parser_release(&conn->parser);
    buf_release(&conn->body);
    buf_release(&conn->out);
    buf_release(&conn->chunk);
    mem_free(conn);
    metric_add(&http_metrics[HTTP_METRIC_CONNECTIONS], -1);
    http_server_forget(thread->server, holder, refused);
}

/* Has the client's system taken all that was sent to it? Then nothing is lost if the connection is
 * reset by a request that is on its way now. */
static bool is_taken(const struct http_conn *conn) {
    int unsent = 0;
    return ioctl(conn->fd, SIOCOUTQ, &unsent) == 0 && !unsent;
}

void http_conn_drain(struct http_conn *conn) {
    if (conn->state == CONN_HEAD || conn->state == CONN_BODY) /* half a request has not long */
        arm(conn->deadline, config_of(conn)->linger_ms);
    if (conn->state != CONN_IDLE || evbuffer_get_length(bufferevent_get_input(conn->bev)))
        return;
    if (!conn->drain_end_ms)
        conn->drain_end_ms = clock_ms() + config_of(conn)->linger_ms;
    if (http_conn_pending(conn)) {
        move(conn, CONN_LINGER);
        http_conn_mark(conn);
    } else if (is_taken(conn) || clock_ms() >= conn->drain_end_ms) {
        if (conn->session)
            http_tls_close_notify(conn->session);
        http_conn_kill(conn);
    } else {
        arm(conn->deadline, TAKEN_LOOK_MS); /* systems are slow to say what they took */
    }
}

/* Reads on while there is room. At its high watermark libevent calls on_readable again in every
 * turn for as long as reading is enabled, so a full input is not to be left enabled. */
static void read_while_room(struct http_conn *conn) {
    bool room = evbuffer_get_length(bufferevent_get_input(conn->bev)) < HTTP_READ_AHEAD;
    bool reads = bufferevent_get_enabled(conn->bev) & EV_READ;
    if (conn->state == CONN_DEAD || room == reads)
        return;
    if (room)
        bufferevent_enable(conn->bev, EV_READ);
    else
        bufferevent_disable(conn->bev, EV_READ);
}

static void discard_input(struct http_conn *conn) {
    struct evbuffer *input = bufferevent_get_input(conn->bev);
    size_t len = evbuffer_get_length(input);
    metric_add_label(&http_metrics[HTTP_METRIC_BYTES], 0, (int64_t)len);
    evbuffer_drain(input, len);
    read_while_room(conn);
}

/* Our last answer is out: close our side, and read on for a while, because closing with unread
 * input would reset the connection and take the answer from the client (RFC 9112 section 9.6). */
static void linger(struct http_conn *conn) {
    discard_input(conn);
    if (http_conn_pending(conn))
        return;
    if (conn->peer_done) {
        http_conn_kill(conn);
    } else if (!conn->shut) {
        conn->shut = true;
        if (conn->session)
            http_tls_close_notify(conn->session);
        if (shutdown(conn->fd, SHUT_WR))
            http_conn_kill(conn);
        else
            arm(conn->deadline, config_of(conn)->linger_ms);
    }
}

void http_conn_flushed(struct http_conn *conn) {
    size_t pending = http_conn_pending(conn);
    http_conn_count_unread(conn);
    if (conn->state == CONN_IDLE && conn->peer_done)
        move(conn, CONN_LINGER);
    if (conn->state == CONN_LINGER)
        linger(conn);
    if (conn->state == CONN_STREAMING && conn->want_drain &&
        pending <= config_of(conn)->low_water) {
        conn->want_drain = false;
        if (conn->watch.on_drained)
            conn->watch.on_drained(conn->watch_ctx, &conn->req);
    }
    if (conn->state == CONN_IDLE)
        http_conn_process(conn);
}

/* ---- input ---- */

static void fill_request(struct http_conn *conn) {
    const struct http_parser *p = &conn->parser;
    struct http_request *req = &conn->req;
    req->method = p->method;
    req->version_minor = p->version_minor;
    req->query = p->query;
    http_conn_take_head(conn);
    req->body = buf_bytes(&conn->body);
}

static void dispatch_request(struct http_conn *conn) {
    const struct http_config *c = config_of(conn);
    fill_request(conn);
    conn->keep_alive = conn->parser.keep_alive;
    move(conn, CONN_HANDLING);
    http_thread_stir(conn->thread);
    c->on_request(c->ctx, &conn->req);
    CHECK_MSG(!request_runs(conn) || conn->watch.on_closed,
              "the handler neither answered nor watches for the end");
}

/* The owner looks at a request before its body is taken. False: it has answered. */
static bool ask_owner(struct http_conn *conn) {
    const struct http_config *c = config_of(conn);
    struct http_request *req = &conn->req;
    conn->body_holder = conn->holder;
    if (!c->on_body)
        return true;
    fill_request(conn);
    conn->keep_alive = false;
    move(conn, CONN_HANDLING);
    c->on_body(c->ctx, req);
    if (conn->state != CONN_HANDLING)
        return false;
    if (!u128_is_zero(req->holder))
        conn->body_holder = http_server_holder(conn->thread->server, req->holder);
    return true;
}

static void take_head(struct http_conn *conn, bool more_input) {
    const struct http_parser *p = &conn->parser;
    if ((!p->chunked && !p->length) || !ask_owner(conn))
        return;
    if (p->expect_continue && !more_input) {
        buf_add_str(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
        http_conn_mark(conn);
    }
    conn->body_end_ms = clock_ms() + config_of(conn)->body_deadline_ms;
    conn->body_seen = 0;
    move(conn, CONN_BODY);
}

static void take_body(struct http_conn *conn, struct bytes body) {
    struct http_server *server = conn->thread->server;
    size_t before = conn->body.len;
    bool allowed = http_share_allows(&server->bodies, conn->body_holder, body.len);
    if (allowed)
        buf_add_bytes(&conn->body, body);
    charge_body(conn, (int64_t)(conn->body.len - before));
    if (!allowed || conn->body.failed)
        http_conn_reject(conn, 503, "too many request bodies are being held; try again later");
}

/* One event of the parser; false when it wants more input. */
static bool feed(struct http_conn *conn, struct bytes *in) {
    struct bytes body;
    switch (http_parser_feed(&conn->parser, in, &body)) {
    case HTTP_PARSE_MORE: return false;
    case HTTP_PARSE_HEAD: take_head(conn, in->len > 0); break;
    case HTTP_PARSE_BODY: take_body(conn, body); break;
    case HTTP_PARSE_DONE: dispatch_request(conn); break;
    case HTTP_PARSE_BAD: http_conn_reject(conn, conn->parser.status, conn->parser.text); break;
    }
    return true;
}

/* One contiguous piece from the front of the input, up to the end of a request at most. */
static bool process_piece(struct http_conn *conn, struct evbuffer *input) {
    struct evbuffer_iovec piece;
    struct bytes in;
    if (evbuffer_peek(input, -1, NULL, &piece, 1) < 1)
        return false;
    in = bytes_of(piece.iov_base, piece.iov_len);
    if (conn->state == CONN_IDLE) {
        conn->req.start_us = clock_us();
        move(conn, CONN_HEAD);
    }
    while ((conn->state == CONN_HEAD || conn->state == CONN_BODY) && feed(conn, &in)) {}
    metric_add_label(&http_metrics[HTTP_METRIC_BYTES], 0, (int64_t)(piece.iov_len - in.len));
    evbuffer_drain(input, piece.iov_len - in.len);
    return true;
}

/* Requests that follow wait while the answers to earlier ones do. */
static bool may_read(const struct http_conn *conn) {
    if (conn->state == CONN_IDLE)
        return http_conn_pending(conn) <= config_of(conn)->high_water;
    return conn->state == CONN_HEAD || conn->state == CONN_BODY;
}

void http_conn_process(struct http_conn *conn) {
    struct evbuffer *input = bufferevent_get_input(conn->bev);
    while (may_read(conn) && evbuffer_get_length(input) && process_piece(conn, input)) {}
    read_while_room(conn);
}

/* ---- events ---- */

static void on_readable(struct bufferevent *bev, void *arg) {
    struct http_conn *conn = arg;
    if (conn->state == CONN_LINGER)
        discard_input(conn);
    else
        http_conn_process(conn);
}

/* The bufferevent's output has fallen to low_water. */
static void on_writable(struct bufferevent *bev, void *arg) {
    http_conn_mark(arg);
}

static void count_handshake(enum http_handshake outcome) {
    metric_add_label(&http_metrics[HTTP_METRIC_HANDSHAKES], (int)outcome, 1);
}

/* Before hands are shaken. Who only looks whether the port is open ends without a word. */
static void on_handshake(struct http_conn *conn, short what) {
    bool plain = false;
    if (conn->state == CONN_DEAD)
        return;
    if (what & BEV_EVENT_CONNECTED) {
        conn->shaken = true;
        count_handshake(HTTP_HANDSHAKE_DONE);
        return;
    }
    if (what & BEV_EVENT_ERROR) {
        const char *why = http_tls_failure(conn->bev, &plain);
        LOG_LIMITED(LOG_INFO, "a TLS handshake failed: %s peer=%s", why, conn->peer);
        count_handshake(plain ? HTTP_HANDSHAKE_PLAIN : HTTP_HANDSHAKE_FAILED);
    }
    conn->speaks_plain = plain && conn->state == CONN_IDLE;
    if (conn->speaks_plain)
        http_conn_mark(conn);
    else
        http_conn_kill(conn);
}

static void on_event(struct bufferevent *bev, short what, void *arg) {
    struct http_conn *conn = arg;
    if (conn->session && !conn->shaken)
        on_handshake(conn, what);
    else if (what & BEV_EVENT_TIMEOUT)
        http_conn_lose(conn, HTTP_CUT_WRITE_TIMEOUT);
    else if (what & BEV_EVENT_ERROR || request_runs(conn))
        http_conn_lose(conn, HTTP_CUT_CLIENT);
    else if (conn->state == CONN_HEAD || conn->state == CONN_BODY)
        http_conn_kill(conn);
    else {
        conn->peer_done = true; /* it may still read what we have not sent yet */
        http_conn_mark(conn);
    }
}

/* Does the body come as fast as it must? Begins the next window. */
static bool body_comes(struct http_conn *conn) {
    size_t came = conn->body.len - conn->body_seen;
    conn->body_seen = conn->body.len;
    return clock_ms() < conn->body_end_ms && came >= config_of(conn)->body_window_bytes;
}

static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    struct http_conn *conn = arg;
    bool drains = atomic_load(&conn->thread->server->draining);
    if (drains && conn->state == CONN_IDLE) {
        http_conn_drain(conn);
        return;
    }
    /* while the last answer is still being taken a connection is not idle */
    bool sends = conn->state == CONN_IDLE && http_conn_pending(conn);
    if (sends || (conn->state == CONN_BODY && !drains && body_comes(conn))) {
        arm_deadline(conn);
        return;
    }
    bool waits =
        conn->state == CONN_HEAD ? !http_parser_at_start(&conn->parser) : conn->state == CONN_BODY;
    if (conn->session && !conn->shaken)
        count_handshake(HTTP_HANDSHAKE_TIMEOUT);
    if (!waits)
        http_conn_kill(conn);
    else if (drains)
        http_conn_reject(conn, 503, "this server is shutting down");
    else
        http_conn_reject(conn, 408, "the request took too long to arrive");
}

/* ---- birth ---- */

static void link_conn(struct http_conn *conn) {
    struct http_thread *thread = conn->thread;
    conn->next = thread->conns;
    if (conn->next)
        conn->next->prev = conn;
    thread->conns = conn;
}

static void set_up(struct http_conn *conn) {
    const struct http_config *c = config_of(conn);
    struct timeval write_timeout = timeval_of_ms(c->write_timeout_ms);
    bufferevent_setcb(conn->bev, on_readable, on_writable, on_event, conn);
    /* What libevent leaves inside of OpenSSL at a watermark it would not read before the client sends
     * more, so records are taken whole and read_while_room holds the bound. */
    bufferevent_setwatermark(conn->bev, EV_READ, 0, conn->session ? 0 : HTTP_READ_AHEAD);
    bufferevent_setwatermark(conn->bev, EV_WRITE, c->low_water, 0);
    bufferevent_set_timeouts(conn->bev, NULL, &write_timeout);
    bufferevent_enable(conn->bev, EV_READ);
}

void http_conn_refuse_plain(struct http_conn *conn) {
    conn->speaks_plain = false;
    if (conn->state != CONN_IDLE)
        return;
    bufferevent_free(conn->bev);
    http_tls_end(&conn->session);
    conn->bev = bufferevent_socket_new(conn->thread->base, conn->fd, 0);
    CHECK(conn->bev);
    set_up(conn);
    http_conn_reject(conn, 400, "this port speaks TLS: the address begins with https://");
}

static struct bufferevent *new_bufferevent(struct http_conn *conn) {
    struct http_thread *thread = conn->thread;
    struct http_tls *tls = thread->server->config.tls;
    return tls ? http_tls_accept(tls, thread->base, conn->fd, &conn->session)
               : bufferevent_socket_new(thread->base, conn->fd, 0);
}

void http_conn_new(const struct http_newcomer *newcomer) {
    struct http_conn *conn = mem_alloc(sizeof *conn);
    struct http_thread *thread = newcomer->thread;
    conn->thread = thread;
    conn->address = newcomer->address;
    conn->network = newcomer->network;
    conn->holder = http_server_holder(thread->server, conn->address);
    conn->refused = newcomer->refused;
    conn->fd = newcomer->fd;
    memcpy(conn->peer, newcomer->peer, sizeof conn->peer);
    conn->bev = new_bufferevent(conn);
    conn->deadline = evtimer_new(thread->base, on_deadline, conn);
    CHECK(conn->bev && conn->deadline);
    buf_init(&conn->body, 0);
    buf_init(&conn->out, 0);
    buf_init(&conn->chunk, 0);
    http_parser_init(&conn->parser, &thread->server->limits);
    link_conn(conn);
    metric_add(&http_metrics[HTTP_METRIC_CONNECTIONS], 1);
    forget_request(conn);
    set_up(conn);
    count_waiting(conn, true);
    arm_deadline(conn);
    if (conn->refused)
        http_conn_reject(conn, 503, "too many connections");
    else if (atomic_load(&thread->server->draining))
        http_conn_drain(conn);
}
