#include "gateway/calls/response_calls.h"

#include "base/vec.h"
#include "formats/json.h"
#include "gateway/dialects/responses.h"
#include "gateway/generation/open_places.h"
#include "gateway/watch/gateway_metrics.h"

enum { FOLLOW_BYTES = 64 * 1024, ITEMS_DEFAULT = 20, ITEMS_MAX = 100 };

struct follower {
    struct follower *prev, *next;
    struct event_thread *thread;
    struct http_request *http;
    struct kept_response *kept; /* a reference */
    struct u128 holder;         /* of its place among the watchers */
    size_t at;                  /* in its events */
    int64_t wrote_ms;
    bool paused; /* the client does not read */
};

static struct response_store *store_of(const struct event_thread *thread) {
    return thread->gw->responses;
}

/* ---- followers ---- */

static void follower_free(struct follower *f) {
    *(f->prev ? &f->prev->next : &f->thread->followers) = f->next;
    if (f->next)
        f->next->prev = f->prev;
    kept_response_put(store_of(f->thread), f->kept);
    open_places_give(f->thread->gw->watchers, f->holder);
    mem_free(f);
}

/* Writes what is there; ends with the response. */
static void feed(struct follower *f) {
    const struct event_thread *thread = f->thread;
    struct buf out = {0};
    bool more = true;
    size_t wrote = 1;
    if (f->paused && !kept_response_is_listed(store_of(thread), f->kept)) { /* nobody else has it */
        http_abort(f->http);
        follower_free(f);
        return;
    }
    while (!f->paused && more && wrote) {
        buf_reset(&out);
        more = kept_response_events(store_of(thread), f->kept, &f->at, FOLLOW_BYTES, &out);
        wrote = out.len;
        if (!wrote && more && thread->now_ms - f->wrote_ms >= thread->gw->settings.ping_ms)
            buf_add_str(&out, ": ping\n\n");
        if (out.len) {
            f->wrote_ms = thread->now_ms;
            f->paused = !http_stream_write(f->http, out.data, out.len);
        }
    }
    buf_release(&out);
    if (more)
        return;
    http_stream_end(f->http);
    follower_free(f);
}

static void on_closed(void *ctx, struct http_request *req) {
    (void)req;
    follower_free(ctx);
}

static void on_drained(void *ctx, struct http_request *req) {
    struct follower *f = ctx;
    (void)req;
    event_thread_set_now(f->thread);
    f->paused = false;
    feed(f);
}

static int take_place(struct event_thread *thread, struct u128 holder, struct api_error *err) {
    if (open_places_take(thread->gw->watchers, holder))
        return 0;
    return api_error_set(err, API_OVERLOADED, NULL, "too many clients follow responses");
}

/* Takes the reference, and the holder's place. */
static void follow(struct event_thread *thread, struct http_request *req, struct u128 holder,
                   struct kept_response *kept, size_t at) {
    static const struct http_watch watch = {.on_closed = on_closed, .on_drained = on_drained};
    const struct http_field fields[] = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    struct follower *f = mem_alloc(sizeof *f);
    *f = (struct follower){.next = thread->followers,
                           .thread = thread,
                           .http = req,
                           .kept = kept,
                           .holder = holder,
                           .at = at,
                           .wrote_ms = thread->now_ms};
    if (f->next)
        f->next->prev = f;
    thread->followers = f;
    http_request_watch(req, &watch, f);
    http_stream_begin(req, 200, answer_responses.stream_type, fields, ARRAY_LEN(fields));
    gateway_metrics_answer(200);
    feed(f);
}

void response_calls_turn(struct event_thread *thread) {
    for (struct follower *f = thread->followers, *next; f; f = next) {
        next = f->next;
        feed(f);
    }
}

static void respond(struct http_request *req, const struct buf *body) {
    http_respond(req, 200, "application/json", NULL, 0, buf_bytes(body));
    gateway_metrics_answer(200);
}

int response_call_detach(struct generation *gen, struct api_error *err) {
    struct answer *a = &gen->answer;
    struct http_request *req = a->http;
    struct buf object = {0};
    CHECK(req && !a->begun && !a->background);
    if (a->stream && take_place(gen->thread, gen->terms.holder, err))
        return -1;
    struct kept_response *kept = responses_keep_running(a);
    if (!kept) {
        if (a->stream)
            open_places_give(gen->thread->gw->watchers, gen->terms.holder);
        return api_error_set(err, API_TOO_LARGE, "background",
                             "the response does not fit into the memory for responses");
    }
    a->background = true;
    a->http = NULL;
    if (a->stream) {
        follow(gen->thread, req, gen->terms.holder, kept, 0);
        return 0;
    }
    kept_response_object(store_of(gen->thread), kept, &object);
    kept_response_put(store_of(gen->thread), kept);
    respond(req, &object);
    buf_release(&object);
    return 0;
}

/* ---- finding ---- */

static struct bytes id_of(struct bytes rest) {
    const char *slash = memchr(rest.data, '/', rest.len);
    return bytes_of(rest.data, slash ? (size_t)(slash - (const char *)rest.data) : rest.len);
}

static bool is_call(struct bytes rest, struct bytes id, const char *call) {
    return bytes_equal(bytes_of(rest.data + id.len, rest.len - id.len), bytes_str(call));
}

/* A reference; NULL: there is none, and err says so. */
static struct kept_response *find(const struct call *c, struct bytes id, struct api_error *err) {
    struct u128 number;
    struct kept_response *kept = NULL;
    if (responses_id_parse(id, &number))
        kept = response_store_find(store_of(c->thread), number, c->tenant);
    if (!kept)
        api_error_set(err, API_NOT_FOUND, NULL,
                      "no response '%.*s' is kept here: it was not stored, it was deleted or gave "
                      "way to newer ones, or another gateway has it",
                      (int)MIN(id.len, (size_t)64), (const char *)id.data);
    return kept;
}

/* ---- queries ---- */

/* The value of a name in NAME=VALUE&...; as it was sent. */
static struct bytes query_value(struct bytes query, const char *name) {
    size_t len = strlen(name);
    for (const char *at = (const char *)query.data, *end = at + query.len; at < end;) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > len && memcmp(at, name, len) == 0 && at[len] == '=')
            return bytes_of(at + len + 1, (size_t)(stop - at) - len - 1);
        at = stop + 1;
    }
    return bytes_of(NULL, 0);
}

/* False: it is given, and no integer in [0, max]. */
static bool query_int(struct bytes query, const char *name, int64_t max, int64_t *out) {
    struct bytes text = query_value(query, name);
    if (!text.len)
        return true;
    return json_number_int64(text, out) && *out >= 0 && *out <= max;
}

/* ---- GET ---- */

/* Takes the reference where it succeeds. */
static int stream_from(const struct call *c, struct kept_response *kept, struct api_error *err) {
    struct u128 holder = open_holder(c->tenant, c->req->address);
    int64_t after = -1;
    size_t at = 0;
    if (!kept_response_streams(kept))
        return api_error_set(err, API_BAD_REQUEST, "stream",
                             "only a response that was made with 'background' and 'stream' can be "
                             "streamed again");
    if (!query_int(c->req->query, "starting_after", INT32_MAX, &after))
        return api_error_set(err, API_BAD_REQUEST, "starting_after",
                             "'starting_after' must be an integer");
    if (!kept_response_seek(store_of(c->thread), kept, (uint64_t)(after + 1), &at))
        return api_error_set(err, API_BAD_REQUEST, "starting_after",
                             "'starting_after' is the number of an event that is not there yet");
    if (take_place(c->thread, holder, err))
        return -1;
    follow(c->thread, c->req, holder, kept, at);
    return 0;
}

struct listed_item {
    struct bytes whole, id; /* id: without quotes, as it was written */
};
struct listed_items {
    struct listed_item *items;
    size_t count, cap;
};

/* The items of a comma-separated list in brackets. */
static void read_items(struct bytes list, struct listed_items *items) {
    struct json_reader r;
    json_reader_init(&r, list, GENREQ_DEPTH_MAX + 1, JSON_ALLOW_NUL);
    CHECK(json_next(&r) == JSON_ARRAY_BEGIN);
    while (json_next(&r) == JSON_OBJECT_BEGIN) {
        struct listed_item item = {.id = {0}};
        size_t begin = r.offset;
        while (json_next(&r) == JSON_KEY) {
            bool is_id = bytes_equal(r.text, bytes_str("id"));
            if (!is_id) {
                CHECK(json_skip(&r));
            } else if (json_next(&r) == JSON_STRING) {
                item.id = bytes_of(r.start + r.offset + 1, r.raw.len - 2);
            } else {
                bool skipped = json_skip(&r);
                CHECK(skipped);
            }
        }
        item.whole = json_since(&r, begin);
        vec_push(items, item);
    }
    CHECK_MSG(r.last == JSON_ARRAY_END, "items are no JSON");
    json_reader_release(&r);
}

static void add_id(const char *name, const struct listed_item *item, struct buf *out) {
    buf_addf(out, ",\"%s\":", name);
    if (!item || !item->id.len) {
        buf_add_str(out, "null");
        return;
    }
    buf_add_byte(out, '"');
    buf_add_bytes(out, item->id);
    buf_add_byte(out, '"');
}

/* From the item behind `after` (or the first) at most `limit`, in the order asked for. */
static void write_items(const struct listed_items *items, bool newest_first, struct bytes after,
                        size_t limit, struct buf *out) {
    const struct listed_item *first = NULL, *last = NULL;
    size_t count = 0, i = 0;
    bool begun = !after.len;
    buf_add_str(out, "{\"object\":\"list\",\"data\":[");
    for (; i < items->count && count < limit; i++) {
        const struct listed_item *item = &items->items[newest_first ? items->count - 1 - i : i];
        if (!begun) {
            begun = bytes_equal(item->id, after);
            continue;
        }
        if (count++)
            buf_add_byte(out, ',');
        buf_add_bytes(out, item->whole);
        first = first ? first : item;
        last = item;
    }
    buf_add_byte(out, ']');
    add_id("first_id", first, out);
    add_id("last_id", last, out);
    buf_addf(out, ",\"has_more\":%s}", i < items->count ? "true" : "false");
}

static int list_items(const struct call *c, struct kept_response *kept, struct api_error *err) {
    struct bytes query = c->req->query, order = query_value(query, "order");
    struct buf list = {0}, out = {0};
    struct listed_items items = {0};
    int64_t limit = ITEMS_DEFAULT;
    bool ascends = bytes_equal(order, bytes_str("asc"));
    if (!query_int(query, "limit", ITEMS_MAX, &limit) || limit == 0)
        return api_error_set(err, API_BAD_REQUEST, "limit", "'limit' must be between 1 and 100");
    if (order.len && !ascends && !bytes_equal(order, bytes_str("desc")))
        return api_error_set(err, API_BAD_REQUEST, "order", "'order' must be asc or desc");
    buf_add_byte(&list, '[');
    kept_response_items(store_of(c->thread), kept, &list);
    buf_add_byte(&list, ']');
    read_items(buf_bytes(&list), &items);
    write_items(&items, !ascends, query_value(query, "after"), (size_t)limit, &out);
    respond(c->req, &out);
    vec_release(&items);
    buf_release(&list);
    buf_release(&out);
    return 0;
}

static int respond_with(const struct call *c, struct kept_response *kept) {
    struct buf object = {0};
    kept_response_object(store_of(c->thread), kept, &object);
    respond(c->req, &object);
    buf_release(&object);
    return 0;
}

int response_call_get(const struct call *c, struct api_error *err) {
    struct bytes id = id_of(c->rest);
    bool items = is_call(c->rest, id, "/input_items");
    bool streams = !items && bytes_equal(query_value(c->req->query, "stream"), bytes_str("true"));
    if (!items && id.len != c->rest.len)
        return api_error_no_path(err);
    struct kept_response *kept = find(c, id, err);
    if (!kept)
        return -1;
    int rc = streams ? stream_from(c, kept, err)
             : items ? list_items(c, kept, err)
                     : respond_with(c, kept);
    if (rc || !streams)
        kept_response_put(store_of(c->thread), kept);
    return rc;
}

/* ---- DELETE and cancel ---- */

int response_call_delete(const struct call *c, struct api_error *err) {
    struct kept_response *kept = find(c, c->rest, err);
    struct buf out = {0};
    if (!kept)
        return -1;
    response_store_remove(store_of(c->thread), kept);
    kept_response_put(store_of(c->thread), kept);
    buf_add_str(&out, "{\"id\":\"");
    buf_add_bytes(&out, c->rest);
    buf_add_str(&out, "\",\"object\":\"response\",\"deleted\":true}");
    respond(c->req, &out);
    buf_release(&out);
    return 0;
}

static void say_cancelled(struct buf *object) {
    static const char from[] = "\"status\":\"in_progress\"", to[] = "\"status\":\"cancelled\"";
    const char *at = memmem(object->data, object->len, from, sizeof from - 1);
    struct buf out = {0};
    CHECK(at);
    buf_add(&out, object->data, (size_t)(at - object->data));
    buf_add_str(&out, to);
    at += sizeof from - 1;
    buf_add(&out, at, (size_t)(object->data + object->len - at));
    buf_release(object);
    *object = out;
}

int response_call_cancel(const struct call *c, struct api_error *err) {
    struct bytes id = id_of(c->rest);
    if (!is_call(c->rest, id, "/cancel"))
        return api_error_no_path(err);
    struct kept_response *kept = find(c, id, err);
    if (!kept)
        return -1;
    bool cancelled = kept_response_cancel(store_of(c->thread), kept, say_cancelled);
    int rc =
        cancelled
            ? respond_with(c, kept)
            : api_error_set(err, API_BAD_REQUEST, NULL,
                            "only a response that was made with 'background' can be cancelled");
    kept_response_put(store_of(c->thread), kept);
    return rc;
}
