#include "cli/api_client.h"

#include "base/clock.h"
#include "formats/json_document.h"

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
    *c = (struct api_client){.port = 80, .api_key = api_key && *api_key ? api_key : NULL};
    if (!strncmp(url, "https://", 8))
        return error_set(err, ERR_UNSUPPORTED,
                         "the address '%s' asks for TLS, which this command does not speak; ask a "
                         "gateway without --tls-cert (http://)",
                         url);
    if (strncmp(url, "http://", 7))
        return error_set(err, ERR_INVALID, "the address '%s' must begin with http://", url);
    const char *host = url + 7;
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

/* One answer being read. */
struct answer {
    int fd, timeout_ms;
    struct buf in; /* received, not yet taken */
    const volatile sig_atomic_t *stop;
    int status;
    bool chunked, is_events, ended;
    int64_t left; /* of the body or the chunk; -1: until the connection ends */
    struct error *err;
};

static int connect_to(const struct api_client *c, struct error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char port[8];
    int fd = -1;
    snprintf(port, sizeof port, "%u", c->port);
    int rc = getaddrinfo(c->host, port, &hints, &list);
    if (rc)
        return error_set(err, ERR_NOT_FOUND, "cannot resolve '%s': %s", c->host, gai_strerror(rc));
    for (struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next) {
        fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC, ai->ai_protocol);
        if (fd >= 0 && connect(fd, ai->ai_addr, ai->ai_addrlen)) {
            int saved = errno;
            close(fd);
            errno = saved;
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd >= 0 ? fd : error_set_errno(err, "cannot reach http://%s:%u", c->host, c->port);
}

static int send_request(const struct api_client *c, int fd, const char *path, const char *body,
                        struct error *err) {
    struct buf text;
    buf_init(&text, 0);
    buf_addf(&text, "%s %s HTTP/1.1\r\nHost: %s:%u\r\nConnection: close\r\n", body ? "POST" : "GET",
             path, c->host, c->port);
    if (c->api_key)
        buf_addf(&text, "Authorization: Bearer %s\r\n", c->api_key);
    if (body)
        buf_addf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    buf_add_str(&text, "\r\n");
    if (body)
        buf_add_str(&text, body);
    int rc = 0;
    for (size_t done = 0; done < text.len && !rc;) {
        ssize_t n = send(fd, text.data + done, text.len - done, MSG_NOSIGNAL);
        if (n > 0)
            done += (size_t)n;
        else if (n < 0 && errno != EINTR)
            rc = error_set_errno(err, "cannot send the request");
    }
    buf_release(&text);
    return rc;
}

/* Waits for more bytes: 1, 0 at the end of the connection, or a negative error. */
static int receive(struct answer *a) {
    char chunk[16384];
    struct pollfd p = {.fd = a->fd, .events = POLLIN};
    int ready = 0;
    /* in short waits: a signal may come just before one */
    for (int64_t end = clock_ms() + a->timeout_ms; ready <= 0 && clock_ms() < end;) {
        if (a->stop && *a->stop)
            return error_set(a->err, ERR_CLOSED, "stopped");
        ready = poll(&p, 1, MIN(a->timeout_ms, STOP_LOOK_MS));
        if (ready < 0 && errno != EINTR)
            return error_set_errno(a->err, "the connection broke");
    }
    if (ready <= 0)
        return error_set(a->err, ERR_TIMEOUT, "no answer within %d ms", a->timeout_ms);
    ssize_t n = recv(a->fd, chunk, sizeof chunk, 0);
    if (n < 0)
        return error_set_errno(a->err, "the connection broke");
    buf_add(&a->in, chunk, (size_t)n);
    return n > 0;
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
    int rc = a.fd = connect_to(c, err);
    if (rc < 0)
        return rc;
    buf_init(&a.in, 0);
    rc = send_request(c, a.fd, path, body, err);
    if (!rc)
        rc = read_head(&a);
    while (!rc && !a.ended) {
        rc = read_body(&a, out);
        if (!rc && on_event && a.is_events && a.status == 200 && !read_events(out, on_event, ctx))
            break;
    }
    buf_release(&a.in);
    close(a.fd);
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
