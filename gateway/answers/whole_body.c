#include "gateway/answers/whole_body.h"

#include "gateway/answers/answer_room.h"
#include "gateway/watch/gateway_metrics.h"

enum { CHUNK_BYTES = 64 * 1024 };

struct whole_body {
    struct gateway *gw; /* borrowed */
    struct http_request *http;
    struct buf body; /* owned */
    size_t sent;     /* handed to the connection */
    size_t read;     /* by the client at the window's begin, as far as the kernel tells */
    struct u128 tenant;
    uint64_t room;
};

static void free_body(struct whole_body *w) {
    answer_room_give(w->gw->room, w->tenant, w->room);
    buf_release(&w->body);
    mem_free(w);
}

/* Parts until the connection has enough, or all is out. */
static void send_chunks(struct whole_body *w) {
    for (bool room = true; room && w->sent < w->body.len;) {
        size_t len = MIN(w->body.len - w->sent, (size_t)CHUNK_BYTES);
        room = http_stream_write(w->http, w->body.data + w->sent, len);
        w->sent += len;
    }
    if (w->sent < w->body.len)
        return;
    http_stream_end(w->http);
    free_body(w);
}

static void on_closed(void *ctx, struct http_request *req) {
    (void)req;
    free_body(ctx);
}

static void on_drained(void *ctx, struct http_request *req) {
    (void)req;
    send_chunks(ctx);
}

static void on_timer(void *ctx, struct http_request *req) {
    struct whole_body *w = ctx;
    size_t read = w->sent - MIN(w->sent, http_stream_pending(req));
    if (read - MIN(read, w->read) < WHOLE_BODY_WINDOW_BYTES) {
        http_abort(req);
        free_body(w);
        return;
    }
    w->read = read;
    http_request_set_timer(req, WHOLE_BODY_WINDOW_MS);
}

void whole_body_send(struct gateway *gw, struct http_request *req, struct buf *body,
                     struct u128 tenant, uint64_t room) {
    static const struct http_watch watch = {
        .on_closed = on_closed, .on_drained = on_drained, .on_timer = on_timer};
    gateway_metrics_answer(200);
    if (body->len <= WHOLE_BODY_SMALL) {
        http_respond(req, 200, "application/json", NULL, 0, buf_bytes(body));
        buf_release(body);
        answer_room_give(gw->room, tenant, room);
        return;
    }
    struct whole_body *w = mem_alloc(sizeof *w);
    *w = (struct whole_body){.gw = gw, .http = req, .body = *body, .tenant = tenant, .room = room};
    *body = (struct buf){0};
    http_request_watch(req, &watch, w);
    http_request_set_timer(req, WHOLE_BODY_WINDOW_MS);
    http_stream_begin(req, 200, "application/json", NULL, 0);
    send_chunks(w);
}
