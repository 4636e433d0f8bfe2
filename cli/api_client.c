#include "cli/api_client.h"

#include "base/clock.h"
#include "base/loopback.h"
#include "base/url_host.h"
#include "formats/json_document.h"
#include "http/tls_client.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_MAX = 64 << 10, BODY_MAX = 16 << 20, STOP_LOOK_MS = 100 };

void api_client_take_port(const char **url, int64_t port) {
    char text[64];
    if (!port)
        return;
    snprintf(text, sizeof text, "http://127.0.0.1:%" PRId64, port);
    mem_free((char *)(uintptr_t)*url);
    *url = mem_strdup(text);
}

int api_client_init(struct api_client *c, const char *url, const char *api_key, struct error *err) {
    bool tls = !strncmp(url, "https://", 8);
    *c = (struct api_client){
        .port = tls ? 443 : 80, .tls = tls, .api_key = api_key && *api_key ? api_key : NULL};
    if (!tls && strncmp(url, "http://", 7) != 0)
        return error_set(err, ERR_INVALID, "the address '%s' must begin with http:// or https://",
                         url);
    const char *host = url + (tls ? 8 : 7);
    size_t len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
    size_t skip = *host == '[';
    if (len <= 2 * skip || len - 2 * skip >= sizeof c->host || len > strlen(host))
        return error_set(err, ERR_INVALID, "the address '%s' has no host", url);
    memcpy(c->host, host + skip, len - 2 * skip);
    if (host[len] == ':') {
        long port = strtol(host + len + 1, NULL, 10);
        if (port < 1 || port > 65535)
            return error_set(err, ERR_INVALID, "the address '%s' has no proper port", url);
        c->port = (uint16_t)port;
    }
    return 0;
}

/* A connection, and TLS over it where there is any. */
struct conn {
    int fd;
    struct ssl_st *session; /* owned; NULL: plain */
};

/* One answer being read. */
struct answer {
    struct conn conn;
    int timeout_ms;
    struct buf in; /* received, not yet taken */
    const volatile sig_atomic_t *stop;
    int status;
    bool chunked, is_events, ended;
    int64_t left; /* of the body or the chunk; -1: until the connection ends */
    struct error *err;
};

/* errno tells why -1. */
static int connect_one_of(const struct addrinfo *list) {
    int fd = -1;
    for (const struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next) {
        fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC, ai->ai_protocol);
        if (fd >= 0 && connect(fd, ai->ai_addr, ai->ai_addrlen)) {
            int saved = errno;
            close(fd);
            errno = saved;
            fd = -1;
        }
    }
    return fd;
}

static int connect_to(const struct api_client *c, struct error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    const char *name = c->host;
    char port[8];
    snprintf(port, sizeof port, "%u", c->port);
    for (;;) {
        int rc = getaddrinfo(name, port, &hints, &list);
        if (rc)
            return error_set(err, ERR_NOT_FOUND, "cannot resolve '%s': %s", name, gai_strerror(rc));
        int fd = connect_one_of(list), saved = errno;
        freeaddrinfo(list);
        if (fd >= 0)
            return fd;
        if (!loopback_is_missing(name, saved)) {
            errno = saved;
            return error_set_errno(err, "cannot reach http%s://%s:%u", c->tls ? "s" : "",
                                   url_host(c->host).text, c->port);
        }
        name = LOOPBACK_V6;
    }
}

static int conn_open(struct conn *conn, const struct api_client *c, int timeout_ms,
                     struct error *err) {
    int rc = conn->fd = connect_to(c, err);
    if (rc < 0 || !c->tls)
        return MIN(rc, 0);
    rc = tls_client_begin(&conn->session, conn->fd, c->host, timeout_ms, err);
    if (rc)
        close(conn->fd);
    return rc;
}

static void conn_close(struct conn *conn) {
    tls_client_end(&conn->session);
    close(conn->fd);
}

/* Bytes that were taken, ERR_AGAIN (wait for POLLOUT), or another code. */
static ssize_t conn_write(struct conn *conn, const void *bytes, size_t size, struct error *err) {
    if (conn->session)
        return tls_client_write(conn->session, bytes, size, err);
    ssize_t n = send(conn->fd, bytes, size, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR)
        return error_set_errno(err, "the connection broke");
    return n < 0 ? ERR_AGAIN : n;
}

/* Bytes that were there (0: the other end has ended), ERR_AGAIN (wait for POLLIN), or another code. */
static ssize_t conn_read(struct conn *conn, void *out, size_t size, struct error *err) {
    if (conn->session)
        return tls_client_read(conn->session, out, size, err);
    ssize_t n = recv(conn->fd, out, size, MSG_DONTWAIT);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return error_set_errno(err, "the connection broke");
    return n < 0 ? ERR_AGAIN : n;
}

/* Waits until the connection may be read or written: ERR_CLOSED when the caller was told to stop,
 * ERR_TIMEOUT at `end` (clock_ms), ERR_IO. */
static int conn_wait(const struct conn *conn, short events, const volatile sig_atomic_t *stop,
                     int64_t end, struct error *err) {
    struct pollfd p = {.fd = conn->fd, .events = events};
    for (;;) { /* in short waits: a signal may come just before one */
        int64_t left = end - clock_ms();
        if (stop && *stop)
            return error_set(err, ERR_CLOSED, "stopped");
        if (left <= 0)
            return error_set(err, ERR_TIMEOUT, "timed out");
        int ready = poll(&p, 1, (int)MIN(left, STOP_LOOK_MS));
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return error_set_errno(err, "the connection broke");
    }
}

static int send_request(const struct api_client *c, struct conn *conn, const char *path,
                        const char *body, int timeout_ms, struct error *err) {
    struct buf text;
    buf_init(&text, 0);
    buf_addf(&text, "%s %s HTTP/1.1\r\nHost: %s:%u\r\nConnection: close\r\n", body ? "POST" : "GET",
             path, url_host(c->host).text, c->port);
    if (c->api_key)
        buf_addf(&text, "Authorization: Bearer %s\r\n", c->api_key);
    if (body)
        buf_addf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    buf_add_str(&text, "\r\n");
    if (body)
        buf_add_str(&text, body);
    int rc = 0;
    for (size_t done = 0; done < text.len && !rc;) {
        ssize_t n = conn_write(conn, text.data + done, text.len - done, err);
        if (n > 0)
            done += (size_t)n;
        else if (n != ERR_AGAIN)
            rc = (int)n;
        else
            rc = conn_wait(conn, POLLOUT, c->stop, clock_ms() + timeout_ms, err);
    }
    buf_release(&text);
    if (rc == ERR_TIMEOUT)
        return error_set(err, rc, "the request was not taken within %d ms", timeout_ms);
    return rc ? error_wrap(err, "cannot send the request") : 0;
}

/* Waits for more bytes: 1, 0 at the end of the connection, or a negative error. */
static int receive(struct answer *a) {
    char chunk[16384];
    for (int64_t end = clock_ms() + a->timeout_ms;;) {
        if (a->stop && *a->stop)
            return error_set(a->err, ERR_CLOSED, "stopped");
        ssize_t n = conn_read(&a->conn, chunk, sizeof chunk, a->err);
        if (n > 0)
            buf_add(&a->in, chunk, (size_t)n);
        if (n != ERR_AGAIN)
            return n > 0 ? 1 : (int)n;
        int rc = conn_wait(&a->conn, POLLIN, a->stop, end, a->err);
        if (rc == ERR_TIMEOUT)
            return error_set(a->err, rc, "no answer within %d ms", a->timeout_ms);
        if (rc)
            return rc;
    }
}

static void take_header(struct answer *a, const char *line) {
    if (!strncasecmp(line, "content-length:", 15))
        a->left = strtoll(line + 15, NULL, 10);
    if (!strncasecmp(line, "transfer-encoding:", 18) && strcasestr(line + 18, "chunked"))
        a->chunked = true;
    if (!strncasecmp(line, "content-type:", 13) && strcasestr(line + 13, "text/event-stream"))
        a->is_events = true;
}

static int read_head(struct answer *a) {
    char *end;
    while (!(end = a->in.data ? strstr(a->in.data, "\r\n\r\n") : NULL)) {
        if (a->in.len > HEAD_MAX)
            return error_set(a->err, ERR_LIMIT, "the answer's head is too long");
        int rc = receive(a);
        if (rc <= 0)
            return rc ? rc : error_set(a->err, ERR_CLOSED, "the server hung up without an answer");
    }
    *end = 0;
    a->left = -1;
    if (sscanf(a->in.data, "HTTP/1.%*d %d", &a->status) != 1 || a->status < 100 || a->status > 599)
        return error_set(a->err, ERR_INVALID, "the answer is not HTTP");
    char *rest = NULL;
    for (char *line = strtok_r(a->in.data, "\r\n", &rest); line;
         line = strtok_r(NULL, "\r\n", &rest))
        take_header(a, line);
    buf_consume(&a->in, (size_t)(end - a->in.data) + 4);
    if (a->chunked)
        a->left = 0;
    return 0;
}

/* The next chunk's size line; what ended the chunk before is stepped over. */
static int read_chunk_head(struct answer *a) {
    for (;;) {
        size_t skip = 0;
        while (skip < a->in.len && (a->in.data[skip] == '\r' || a->in.data[skip] == '\n'))
            skip++;
        char *end = a->in.data ? memchr(a->in.data + skip, '\n', a->in.len - skip) : NULL;
        if (end) {
            a->left = strtoll(a->in.data + skip, NULL, 16);
            if (a->left < 0)
                return error_set(a->err, ERR_INVALID, "the answer's framing is broken");
            buf_consume(&a->in, (size_t)(end - a->in.data) + 1);
            a->ended = a->left == 0;
            return 0;
        }
        int rc = receive(a);
        if (rc <= 0)
            return rc ? rc : error_set(a->err, ERR_CLOSED, "the answer was cut");
    }
}

/* Moves what is there of the body to out; waits when nothing is. */
static int read_body(struct answer *a, struct buf *out) {
    if (a->chunked && a->left == 0) {
        int rc = read_chunk_head(a);
        if (rc || a->ended)
            return rc;
    }
    if (!a->chunked && a->left == 0)
        a->ended = true;
    if (a->ended)
        return 0;
    if (!a->in.len) {
        int rc = receive(a);
        if (rc < 0)
            return rc;
        if (rc == 0 && a->left > 0)
            return error_set(a->err, ERR_CLOSED, "the answer was cut");
        a->ended = rc == 0;
    }
    size_t n = a->left < 0 ? a->in.len : MIN(a->in.len, (size_t)a->left);
    if (out->len + n > BODY_MAX)
        return error_set(a->err, ERR_LIMIT, "the answer is too long");
    buf_add(out, a->in.data, n);
    buf_consume(&a->in, n);
    if (a->left > 0)
        a->left -= (int64_t)n;
    return 0;
}

/* Gives each whole event in text; the rest stays. False: stop. */
static bool read_events(struct buf *text, bool (*on_event)(void *ctx, struct bytes data),
                        void *ctx) {
    char *end;
    while ((end = text->data ? memchr(text->data, '\n', text->len) : NULL)) {
        size_t len = (size_t)(end - text->data),
               data_len = len && text->data[len - 1] == '\r' ? len - 1 : len;
        bool go = true;
        if (data_len >= 6 && !memcmp(text->data, "data: ", 6))
            go = on_event(ctx, bytes_of(text->data + 6, data_len - 6));
        buf_consume(text, len + 1);
        if (!go)
            return false;
    }
    return true;
}

int api_stream(const struct api_client *c, const char *path, const char *body,
               bool (*on_event)(void *ctx, struct bytes data), void *ctx, struct buf *out,
               int timeout_ms, struct error *err) {
    struct answer a = {.timeout_ms = timeout_ms, .stop = c->stop, .err = err};
    int rc = conn_open(&a.conn, c, timeout_ms, err);
    if (rc)
        return rc;
    buf_init(&a.in, 0);
    rc = send_request(c, &a.conn, path, body, timeout_ms, err);
    if (!rc)
        rc = read_head(&a);
    while (!rc && !a.ended) {
        rc = read_body(&a, out);
        if (!rc && on_event && a.is_events && a.status == 200 && !read_events(out, on_event, ctx))
            break;
    }
    buf_release(&a.in);
    conn_close(&a.conn);
    return rc ? rc : a.status;
}

int api_call(const struct api_client *c, const char *path, const char *body, struct buf *out,
             int timeout_ms, struct error *err) {
    return api_stream(c, path, body, NULL, NULL, out, timeout_ms, err);
}

char *api_error_text(struct bytes body) {
    /* OpenAI's form, and two that other servers have */
    static const char *const PATHS[] = {"error.message", "error", "message"};
    cJSON *document;
    struct error ignored;
    const char *text = NULL;
    if (json_document_parse(body, &document, &ignored))
        return mem_strdup("");
    for (size_t i = 0; i < ARRAY_LEN(PATHS) && !text; i++)
        text = json_document_text(document, PATHS[i]);
    char *found = mem_strdup(text ? text : "");
    cJSON_Delete(document);
    return found;
}

int api_status_error(const char *url, const char *path, int status, struct bytes body,
                     struct error *err) {
    char *why = api_error_text(body);
    error_set(err, ERR_INVALID, "%s answers %s with status %d%s%s", url, path, status,
              *why ? ": " : "", why);
    mem_free(why);
    return ERR_INVALID;
}
