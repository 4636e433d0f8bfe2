/*
 * http_output.c - gathered output: one send a turn, the rest through the bufferevent.
 *
 * Sending at once, without waiting for EPOLLOUT, saves two epoll_ctl calls and a turn for nearly
 * every write of a stream. Only what the kernel refuses goes into the bufferevent's output, which
 * then owns the order: while it holds something, all goes through it. TLS is the bufferevent's alone,
 * which encrypts and sends at once, too.
 */
#include "http/http_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

enum { OUT_KEPT_BYTES = 16384 };

size_t http_conn_pending(const struct http_conn *conn) {
    return conn->out.len + conn->chunk.len + evbuffer_get_length(bufferevent_get_output(conn->bev));
}

static void set_unread(struct http_conn *conn, size_t bytes) {
    struct http_share *unread = &conn->thread->server->unread;
    int64_t more = (int64_t)bytes - (int64_t)conn->unread;
    if (!more)
        return;
    http_share_add_total(unread, more);
    http_share_add_held(unread, conn->holder, more);
    conn->unread = bytes;
}

void http_conn_count_unread(struct http_conn *conn) {
    size_t pending = conn->state == CONN_DEAD ? 0 : http_conn_pending(conn);
    set_unread(conn, pending > conn->thread->server->config.high_water ? pending : 0);
}

void http_conn_seal(struct http_conn *conn) {
    char size[20];
    if (!conn->chunk.len)
        return;
    if (conn->chunked) {
        int len = snprintf(size, sizeof size, "%zx\r\n", conn->chunk.len);
        buf_add(&conn->out, size, (size_t)len);
    }
    buf_add(&conn->out, conn->chunk.data, conn->chunk.len);
    if (conn->chunked)
        buf_add(&conn->out, "\r\n", 2);
    buf_reset(&conn->chunk);
}

static void keep_small(struct buf *b) {
    if (b->cap > OUT_KEPT_BYTES)
        buf_release(b);
    else
        buf_reset(b);
}

/* Bytes the kernel took at once; -1 when the connection is broken. */
static ssize_t send_now(struct http_conn *conn) {
    ssize_t sent;
    if (conn->session || evbuffer_get_length(bufferevent_get_output(conn->bev)))
        return 0;
    do
        sent = send(conn->fd, conn->out.data, conn->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 &&
        (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM))
        return 0;
    return sent;
}

void http_conn_send(struct http_conn *conn) {
    http_conn_seal(conn);
    if (conn->out.failed)
        conn->broken = true;
    if (!conn->out.len || conn->broken)
        return;
    ssize_t sent = send_now(conn);
    if (sent < 0) {
        conn->broken = true;
        conn->cut = HTTP_CUT_CLIENT;
        return;
    }
    metric_add_label(&http_metrics[HTTP_METRIC_BYTES], 1, (int64_t)conn->out.len);
    if ((size_t)sent < conn->out.len) {
        int rc = bufferevent_write(conn->bev, conn->out.data + sent, conn->out.len - (size_t)sent);
        if (rc)
            conn->broken = true;
    }
    keep_small(&conn->out);
    if (conn->chunk.cap > OUT_KEPT_BYTES)
        buf_release(&conn->chunk);
}

static void flush_one(struct http_conn *conn) {
    if (conn->state == CONN_DEAD) {
        http_conn_free(conn);
        return;
    }
    if (conn->speaks_plain)
        http_conn_refuse_plain(conn);
    http_conn_send(conn);
    if (conn->broken) {
        http_conn_lose(conn, conn->cut);
        return;
    }
    http_conn_flushed(conn);
}

/* What is marked meanwhile waits for the next turn, so that no connection keeps the others
 * waiting. */
void http_thread_flush(struct http_thread *thread) {
    struct http_conn *first = thread->dirty_first;
    thread->dirty_first = NULL;
    thread->dirty_last = &thread->dirty_first;
    thread->flushing = true;
    while (first) {
        struct http_conn *conn = first;
        first = conn->next_dirty;
        conn->dirty = false;
        flush_one(conn);
    }
    thread->flushing = false;
}
