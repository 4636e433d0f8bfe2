/*
 * http_response.c - what a handler calls: response heads, complete bodies, streams; and the
 * server's own refusals.
 */
#include "http/http_internal.h"

#include "base/clock.h"
#include "base/hash.h"

#include <stdio.h>
#include <time.h>

static struct http_conn *conn_of(const struct http_request *req) {
    return (struct http_conn *)(uintptr_t)req;
}

/* ---- heads ---- */

/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 section 5.6.7), made once a second. */
static const char *date_now(struct http_thread *thread) {
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = (time_t)(wall_ms() / 1000);
    struct tm tm;
    if (now == thread->date_second)
        return thread->date;
    gmtime_r(&now, &tm);
    snprintf(thread->date, sizeof thread->date, "%s, %02d %s %04d %02d:%02d:%02d GMT",
             days[tm.tm_wday % 7], tm.tm_mday % 100, months[tm.tm_mon % 12],
             (tm.tm_year + 1900) % 10000, tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
    thread->date_second = now;
    return thread->date;
}

/* One line: what could end it is sent as a space. */
static void add_value(struct buf *out, const char *value) {
    for (; *value; value++) {
        uint8_t c = (uint8_t)*value;
        buf_add_byte(out, c < 0x20 || c == 0x7f ? ' ' : (char)c);
    }
}

static void add_field(struct buf *out, const char *name, const char *value) {
    buf_add_str(out, name);
    buf_add(out, ": ", 2);
    add_value(out, value);
    buf_add(out, "\r\n", 2);
}

static void add_status(struct buf *out, int status) {
    buf_add_str(out, "HTTP/1.1 ");
    buf_add_u64(out, (uint64_t)status);
    buf_add_byte(out, ' ');
    buf_add_str(out, http_status_text(status));
    buf_add(out, "\r\n", 2);
    metric_add_label(&http_metrics[HTTP_METRIC_RESPONSES], status / 100 - 1, 1);
}

static void add_owners_fields(struct http_conn *conn, int status) {
    const struct http_config *config = &conn->thread->server->config;
    struct http_field fields[HTTP_HEAD_FIELDS_MAX];
    size_t count = config->on_head ? config->on_head(config->ctx, &conn->req, status, fields) : 0;
    CHECK(count <= HTTP_HEAD_FIELDS_MAX);
    for (size_t i = 0; i < count; i++)
        add_field(&conn->out, fields[i].name, fields[i].value);
}

/* Everything but the fields that tell the body's length, and the empty line. */
static void add_head(struct http_conn *conn, int status, const char *content_type,
                     const struct http_field *fields, size_t field_count) {
    struct buf *out = &conn->out;
    CHECK(status >= 200 && status <= 599);
    add_status(out, status);
    add_field(out, "Date", date_now(conn->thread));
    add_field(out, "X-Request-Id", http_request_id(&conn->req));
    add_owners_fields(conn, status);
    if (content_type)
        add_field(out, "Content-Type", content_type);
    for (size_t i = 0; i < field_count; i++)
        add_field(out, fields[i].name, fields[i].value);
    if (!conn->keep_alive)
        add_field(out, "Connection", "close");
    else if (conn->req.version_minor == 0)
        add_field(out, "Connection", "keep-alive");
}

static void add_length(struct buf *out, size_t len) {
    buf_add_str(out, "Content-Length: ");
    buf_add_u64(out, len);
    buf_add(out, "\r\n", 2);
}

static bool status_has_body(int status) {
    return status != 204 && status != 304;
}

/* ---- a complete answer ---- */

/* No more than a stream may have pending needs none. */
static bool has_room(const struct http_conn *conn, size_t bytes) {
    struct http_server *server = conn->thread->server;
    return bytes <= server->config.high_water ||
           http_share_allows(&server->unread, conn->holder, bytes);
}

void http_respond(struct http_request *req, int status, const char *content_type,
                  const struct http_field *fields, size_t field_count, struct bytes body) {
    struct http_conn *conn = conn_of(req);
    if (conn->state == CONN_DEAD)
        return;
    CHECK(conn->state == CONN_HANDLING);
    if (!has_room(conn, body.len)) {
        http_conn_reject(conn, 503, "too many answers have not been read; try again later");
        return;
    }
    conn->keep_alive = conn->keep_alive && !atomic_load(&conn->thread->server->draining);
    add_head(conn, status, content_type, fields, field_count);
    if (status_has_body(status))
        add_length(&conn->out, body.len);
    buf_add(&conn->out, "\r\n", 2);
    if (status_has_body(status) && req->method != HTTP_HEAD)
        buf_add_bytes(&conn->out, body);
    http_conn_count_unread(conn);
    http_conn_end_request(conn);
}

/* ---- streams ---- */

void http_stream_begin(struct http_request *req, int status, const char *content_type,
                       const struct http_field *fields, size_t field_count) {
    struct http_conn *conn = conn_of(req);
    if (conn->state == CONN_DEAD)
        return;
    conn->bodiless = req->method == HTTP_HEAD || !status_has_body(status);
    conn->chunked = req->version_minor == 1 && !conn->bodiless;
    conn->keep_alive = conn->keep_alive && !atomic_load(&conn->thread->server->draining);
    if (req->version_minor == 0 && !conn->bodiless)
        conn->keep_alive = false;
    add_head(conn, status, content_type, fields, field_count);
    if (req->version_minor == 1 && status_has_body(status))
        add_field(&conn->out, "Transfer-Encoding", "chunked");
    buf_add(&conn->out, "\r\n", 2);
    http_conn_begin_stream(conn);
}

bool http_stream_write(struct http_request *req, const void *data, size_t len) {
    struct http_conn *conn = conn_of(req);
    const struct http_config *config = &conn->thread->server->config;
    if (conn->state == CONN_DEAD)
        return true;
    CHECK(conn->state == CONN_STREAMING);
    if (!len || conn->bodiless || conn->broken)
        return true;
    buf_add(&conn->chunk, data, len);
    http_conn_mark(conn);
    size_t pending = http_conn_pending(conn);
    if (pending > config->pending_max_bytes || conn->chunk.failed) {
        conn->broken = true;
        conn->cut = HTTP_CUT_PENDING;
    }
    conn->want_drain |= pending > config->high_water;
    return pending <= config->high_water;
}

void http_stream_end(struct http_request *req) {
    struct http_conn *conn = conn_of(req);
    if (conn->state == CONN_DEAD)
        return;
    CHECK(conn->state == CONN_STREAMING);
    if (conn->broken) { /* ended by its owner before the cut was told */
        http_abort(req);
        return;
    }
    http_conn_seal(conn);
    if (conn->chunked)
        buf_add_str(&conn->out, "0\r\n\r\n");
    http_conn_end_request(conn);
}

size_t http_stream_pending(const struct http_request *req) {
    return http_conn_pending(conn_of(req));
}

void http_abort(struct http_request *req) {
    struct http_conn *conn = conn_of(req);
    if (conn->state == CONN_DEAD)
        return;
    http_conn_send(conn); /* what the kernel takes at once may still arrive */
    metric_add_label(&http_metrics[HTTP_METRIC_CUT], conn->broken ? (int)conn->cut : HTTP_CUT_ABORT,
                     1);
    http_conn_kill(conn);
}

/* ---- refusals ---- */

void http_reject_json(int status, const char *text, struct buf *body) {
    buf_add_str(body, "{\"error\":{\"message\":\"");
    buf_add_json(body, bytes_str(text));
    buf_addf(body, "\",\"type\":\"%s\",\"param\":null,\"code\":null}}",
             status >= 500 ? "server_error" : "invalid_request_error");
}

void http_conn_reject(struct http_conn *conn, int status, const char *text) {
    const struct http_config *config = &conn->thread->server->config;
    const struct http_field retry = {"Retry-After", "1"};
    struct buf body;
    bool head = conn->parser.method == HTTP_HEAD;
    http_conn_take_head(conn);
    buf_init(&body, 0);
    if (config->on_reject)
        config->on_reject(config->ctx, &conn->req, status, text, &body);
    else
        http_reject_json(status, text, &body);
    conn->keep_alive = false;
    add_head(conn, status, "application/json", &retry, status == 503);
    add_length(&conn->out, body.len);
    buf_add(&conn->out, "\r\n", 2);
    if (!head)
        buf_add_bytes(&conn->out, buf_bytes(&body));
    buf_release(&body);
    if (status != 503)
        metric_add_label(&http_metrics[HTTP_METRIC_CUT],
                         status == 408 ? HTTP_CUT_DEADLINE : HTTP_CUT_FRAMING, 1);
    http_conn_end_request(conn);
}

/* ---- the rest of a request ---- */

struct bytes http_request_header(const struct http_request *req, const char *name) {
    const struct http_header *header = http_header_find(req->headers, req->header_count, name);
    return header ? header->value : bytes_of(NULL, 0);
}

static bool is_id_byte(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("-._~:/+=@", c));
}

bool http_is_request_id(struct bytes id) {
    bool ok = id.len > 0 && id.len <= HTTP_REQUEST_ID_MAX;
    for (size_t i = 0; i < id.len && ok; i++)
        ok = is_id_byte(id.data[i]);
    return ok;
}

void http_conn_take_head(struct http_conn *conn) {
    struct http_request *req = &conn->req;
    req->path = conn->parser.path;
    req->escaped_slash = conn->parser.escaped_slash;
    req->headers = conn->parser.headers.items;
    req->header_count = (uint32_t)conn->parser.headers.count;
    struct bytes id = http_request_header(req, "X-Request-Id");
    if (!http_is_request_id(id))
        return;
    memcpy(req->id, id.data, id.len);
    req->id[id.len] = 0;
    req->id_given = true;
}

const char *http_request_id(struct http_request *req) {
    _Static_assert(U128_TEXT_MAX <= sizeof req->id, "an id that is drawn fits");
    if (!*req->id)
        u128_text(random_u128(), req->id);
    return req->id;
}

void http_request_set_id(struct http_request *req, const char *id) {
    size_t len = strlen(id);
    CHECK(len > 0 && len <= HTTP_REQUEST_ID_MAX);
    if (!req->id_given)
        memcpy(req->id, id, len + 1);
}

int http_request_thread(const struct http_request *req) {
    return req->thread_idx;
}

void http_request_watch(struct http_request *req, const struct http_watch *watch, void *ctx) {
    struct http_conn *conn = conn_of(req);
    conn->watch = *watch;
    conn->watch_ctx = ctx;
}

static void on_user_timer(evutil_socket_t fd, short what, void *arg) {
    struct http_conn *conn = arg;
    if (conn->watch.on_timer)
        conn->watch.on_timer(conn->watch_ctx, &conn->req);
}

void http_request_set_timer(struct http_request *req, uint32_t ms) {
    struct http_conn *conn = conn_of(req);
    struct timeval tv = timeval_of_ms(ms);
    if (conn->state == CONN_DEAD)
        return;
    if (!conn->user_timer)
        conn->user_timer = evtimer_new(conn->thread->base, on_user_timer, conn);
    CHECK(conn->user_timer);
    evtimer_del(conn->user_timer);
    if (ms)
        evtimer_add(conn->user_timer, &tv);
}
