#include "gateway/watch/trace_export.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "gateway/watch/gateway_metrics.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SEND_EVERY_MS = 1000, IO_TIMEOUT_MS = 3000, HEAD_BYTES = 512 };
enum outcome { SENT, FULL, FAILED }; /* labels of GATEWAY_METRIC_TRACES */

struct trace_export {
    char host[256], port[8], path[256];
    bool started, unreachable; /* unreachable: said in the log */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping;                    /* under the lock, */
    VEC(struct trace_record) waiting; /* as this */
    VEC(struct trace_record) batch;   /* the thread's own */
};

static void count(enum outcome outcome, size_t records) {
    metric_add_label(&gateway_metrics[GATEWAY_METRIC_TRACES], (int)outcome, (int64_t)records);
}

/* ---- one batch ---- */

static int connect_to(const struct trace_export *t) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const struct timeval timeout = {.tv_sec = IO_TIMEOUT_MS / 1000};
    struct addrinfo *list = NULL;
    int fd = -1;
    if (getaddrinfo(t->host, t->port, &hints, &list))
        return -1;
    for (const struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next) {
        fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC, ai->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout); /* of connect, too */
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        if (connect(fd, ai->ai_addr, ai->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* One that takes or says a byte now and then is given up at until_ms, too. */
static bool send_all(int fd, const char *data, size_t len, int64_t until_ms) {
    while (len) {
        ssize_t sent = clock_ms() < until_ms ? send(fd, data, len, MSG_NOSIGNAL) : 0;
        if (sent <= 0)
            return false;
        data += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* The status of the answer; 0: there is none. The rest of it tells nothing that we would act on. */
static int read_status(int fd, int64_t until_ms) {
    char head[HEAD_BYTES];
    size_t len = 0;
    int status = 0;
    while (len < sizeof head - 1 && !memchr(head, '\n', len) && clock_ms() < until_ms) {
        ssize_t got = recv(fd, head + len, sizeof head - 1 - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    head[len] = 0;
    return sscanf(head, "HTTP/1.%*1d %3d", &status) == 1 ? status : 0;
}

static int post(const struct trace_export *t, struct bytes body) {
    char head[sizeof t->host + sizeof t->path + HEAD_BYTES];
    int fd = connect_to(t);
    if (fd < 0)
        return 0;
    int len = snprintf(head, sizeof head,
                       "POST %s/v1/traces HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: "
                       "application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                       t->path, t->host, t->port, body.len);
    int64_t until_ms = clock_ms() + IO_TIMEOUT_MS;
    bool sent = send_all(fd, head, (size_t)len, until_ms) &&
                send_all(fd, (const char *)body.data, body.len, until_ms);
    int status = sent ? read_status(fd, until_ms) : 0;
    close(fd);
    return status;
}

/* One line when it begins to fail, one when it works again. */
static void tell_reach(struct trace_export *t, int status, bool delivered) {
    if (!delivered && !t->unreachable)
        LOG_SOME(LOG_WARN,
                 "traces are dropped: the collector at http://%s:%s%s answers %s status=%d",
                 t->host, t->port, t->path, status ? "with an error" : "nothing", status);
    if (delivered && t->unreachable)
        LOG_SOME(LOG_INFO, "the collector of traces takes them again");
    t->unreachable = !delivered;
}

/* At the end of the process a collector that fails is asked no further. */
static void send_batch(struct trace_export *t, bool ends) {
    for (size_t at = 0; at < t->batch.count; at += TRACE_BATCH_MAX) {
        size_t records = MIN(t->batch.count - at, (size_t)TRACE_BATCH_MAX);
        if (ends && t->unreachable) {
            count(FAILED, records);
            continue;
        }
        struct buf body;
        buf_init(&body, 0);
        trace_write(&body, t->batch.items + at, records, TRIREME_VERSION);
        int status = body.failed ? 0 : post(t, buf_bytes(&body));
        bool delivered = status >= 200 && status < 300;
        count(delivered ? SENT : FAILED, records);
        tell_reach(t, status, delivered);
        buf_release(&body);
    }
    t->batch.count = 0;
}

/* ---- the thread ---- */

/* Takes what waits, a second after the last time at the earliest. False: that was the last. The wall
 * clock may be set back by hours meanwhile. */
static bool take_waiting(struct trace_export *t) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += SEND_EVERY_MS / 1000;
    pthread_mutex_lock(&t->lock);
    while (!t->stopping && pthread_cond_timedwait(&t->wake, &t->lock, &until) == 0) {}
    for (size_t i = 0; i < t->waiting.count; i++)
        vec_push(&t->batch, t->waiting.items[i]);
    t->waiting.count = 0;
    bool more = !t->stopping;
    pthread_mutex_unlock(&t->lock);
    return more;
}

static void *export_main(void *arg) {
    struct trace_export *t = arg;
    bool more;
    do {
        more = take_waiting(t);
        send_batch(t, !more);
    } while (more);
    return NULL;
}

void trace_export_add(struct trace_export *t, const struct trace_record *record) {
    pthread_mutex_lock(&t->lock);
    bool room = t->waiting.count < TRACE_WAITING_MAX;
    if (room)
        vec_push(&t->waiting, *record);
    pthread_mutex_unlock(&t->lock);
    if (!room)
        count(FULL, 1);
}

/* ---- its life ---- */

static int read_endpoint(struct trace_export *t, const char *endpoint, struct error *err) {
    static const char SCHEME[] = "http://";
    const char *host = endpoint + sizeof SCHEME - 1;
    if (strncmp(endpoint, SCHEME, sizeof SCHEME - 1) != 0)
        return error_set(err, ERR_INVALID, "--otlp-endpoint '%s' must begin with http://",
                         endpoint);
    bool bracketed = *host == '[';
    size_t len = bracketed ? strcspn(host, "]") : strcspn(host, ":/");
    const char *rest = host + len + (bracketed && host[len] == ']');
    host += bracketed;
    len -= bracketed;
    if (!len || len >= sizeof t->host || (*rest && *rest != ':' && *rest != '/'))
        return error_set(err, ERR_INVALID, "--otlp-endpoint '%s' has no host", endpoint);
    memcpy(t->host, host, len);
    char *end = NULL;
    long port = *rest == ':' ? strtol(rest + 1, &end, 10) : 4318;
    if (port < 1 || port > 65535)
        return error_set(err, ERR_INVALID, "--otlp-endpoint '%s' has no proper port", endpoint);
    snprintf(t->port, sizeof t->port, "%ld", port);
    const char *path = end ? end : rest;
    size_t path_len = strlen(path);
    while (path_len && path[path_len - 1] == '/')
        path_len--;
    if ((path_len && *path != '/') || path_len >= sizeof t->path || strpbrk(path, " \r\n?#"))
        return error_set(err, ERR_INVALID, "--otlp-endpoint '%s' has no proper path", endpoint);
    memcpy(t->path, path, path_len);
    return 0;
}

int trace_export_new(struct trace_export **out, const char *endpoint, struct error *err) {
    struct trace_export *t = mem_calloc(1, sizeof *t);
    int rc = read_endpoint(t, endpoint, err);
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (rc)
        trace_export_free(&t);
    *out = t;
    return rc;
}

int trace_export_start(struct trace_export *t, struct error *err) {
    sigset_t all, old;
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int rc = pthread_create(&t->thread, NULL, export_main, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        return error_set(err, ERR_IO, "cannot start the thread of traces: %s", strerror(rc));
    pthread_setname_np(t->thread, "traces");
    t->started = true;
    return 0;
}

void trace_export_free(struct trace_export **t_ptr) {
    struct trace_export *t = *t_ptr;
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    if (t->started)
        pthread_join(t->thread, NULL);
    vec_release(&t->waiting);
    vec_release(&t->batch);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
    *t_ptr = NULL;
}
