#include "gateway/calls/model_events.h"

#include "base/vec.h"
#include "gateway/calls/describe.h"
#include "gateway/generation/open_places.h"
#include "gateway/watch/gateway_metrics.h"

struct model_seen {
    char *name; /* owned */
    enum model_state state;
    bool is_there; /* in the look that is under way */
};

struct model_follower {
    struct model_follower *prev, *next;
    struct event_thread *thread;
    struct http_request *http;
    struct u128 tenant, holder; /* holder: of its place among the watchers */
    VEC(struct model_seen) seen;
    struct buf out; /* of the look that is under way */
    int64_t wrote_ms;
    bool paused; /* the client does not read */
};

static void follower_free(struct model_follower *f) {
    *(f->prev ? &f->prev->next : &f->thread->model_followers) = f->next;
    if (f->next)
        f->next->prev = f->prev;
    for (size_t i = 0; i < f->seen.count; i++)
        mem_free(f->seen.items[i].name);
    vec_release(&f->seen);
    buf_release(&f->out);
    open_places_give(f->thread->gw->watchers, f->holder);
    mem_free(f);
}

static void add_event(struct model_follower *f, const char *name, const char *event,
                      const char *state) {
    buf_add_str(&f->out, "data: {\"model\":\"");
    buf_add_json(&f->out, bytes_str(name));
    buf_addf(&f->out,
             state ? "\",\"event\":\"%s\",\"data\":{\"status\":\"%s\"}}\n\n"
                   : "\",\"event\":\"%s\",\"data\":{}}\n\n",
             event, state);
}

static void look_at(void *ctx, const struct model_info *info) {
    struct model_follower *f = ctx;
    size_t i = 0;
    if (!auth_allows_model(&f->thread->gw->auth, f->tenant, info->own_name))
        return;
    while (i < f->seen.count && strcmp(f->seen.items[i].name, info->name) != 0)
        i++;
    bool is_new = i == f->seen.count;
    if (is_new) {
        struct model_seen seen = {.name = mem_strndup(info->name, strlen(info->name))};
        vec_push(&f->seen, seen);
    }
    struct model_seen *seen = &f->seen.items[i];
    seen->is_there = true;
    if (is_new || seen->state != info->state)
        add_event(f, info->name, "model_status", describe_state(info->state));
    seen->state = info->state;
}

static void forget_removed(struct model_follower *f) {
    size_t left = 0;
    for (size_t i = 0; i < f->seen.count; i++) {
        struct model_seen *seen = &f->seen.items[i];
        if (seen->is_there) {
            f->seen.items[left++] = *seen;
            continue;
        }
        add_event(f, seen->name, "model_remove", NULL);
        mem_free(seen->name);
    }
    f->seen.count = left;
}

static void feed(struct model_follower *f) {
    const struct event_thread *thread = f->thread;
    if (f->paused)
        return;
    buf_reset(&f->out);
    for (size_t i = 0; i < f->seen.count; i++)
        f->seen.items[i].is_there = false;
    model_table_each(thread->gw->models, look_at, f);
    forget_removed(f);
    if (!f->out.len && thread->now_ms - f->wrote_ms >= thread->gw->settings.ping_ms)
        buf_add_str(&f->out, ": ping\n\n");
    if (!f->out.len)
        return;
    f->wrote_ms = thread->now_ms;
    f->paused = !http_stream_write(f->http, f->out.data, f->out.len);
}

static void on_closed(void *ctx, struct http_request *req) {
    (void)req;
    follower_free(ctx);
}

static void on_drained(void *ctx, struct http_request *req) {
    struct model_follower *f = ctx;
    (void)req;
    event_thread_set_now(f->thread);
    f->paused = false;
    feed(f);
}

int model_events_follow(const struct call *c, struct api_error *err) {
    static const struct http_watch watch = {.on_closed = on_closed, .on_drained = on_drained};
    const struct http_field fields[] = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    struct event_thread *thread = c->thread;
    struct u128 holder = open_holder(c->tenant, c->req->address);
    if (!open_places_take(thread->gw->watchers, holder))
        return api_error_set(err, API_OVERLOADED, NULL, "too many clients follow the models");
    struct model_follower *f = mem_alloc(sizeof *f);
    *f = (struct model_follower){.next = thread->model_followers,
                                 .thread = thread,
                                 .http = c->req,
                                 .tenant = c->tenant,
                                 .holder = holder,
                                 .wrote_ms = thread->now_ms};
    if (f->next)
        f->next->prev = f;
    thread->model_followers = f;
    http_request_watch(c->req, &watch, f);
    http_stream_begin(c->req, 200, "text/event-stream; charset=utf-8", fields, ARRAY_LEN(fields));
    gateway_metrics_answer(200);
    feed(f);
    return 0;
}

void model_events_turn(struct event_thread *thread) {
    bool draining = atomic_load(&thread->gw->draining);
    for (struct model_follower *f = thread->model_followers, *next; f; f = next) {
        next = f->next;
        if (!draining) {
            feed(f);
            continue;
        }
        http_stream_end(f->http);
        follower_free(f);
    }
}
