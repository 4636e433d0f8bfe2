#include "gateway/health.h"

#include "gateway/generation.h"
#include "gateway/scheduler_link.h"

const char *health_not_ready(struct gateway *gw) {
    if (atomic_load(&gw->draining))
        return "shutting down";
    if (!scheduler_link_is_registered(gw->link))
        return "no scheduler answers";
    struct served_model *model = model_table_any_ready(gw->models);
    served_model_put(model);
    return model ? NULL : "no model is ready";
}

static void answer(struct http_request *req, const char *why_not) {
    struct buf body;
    buf_init(&body, 0);
    buf_addf(&body, "{\"status\":\"%s\"", why_not ? "unavailable" : "ok");
    if (why_not)
        buf_addf(&body, ",\"reason\":\"%s\"", why_not);
    buf_add_str(&body, "}\n");
    http_respond(req, why_not ? 503 : 200, "application/json", NULL, 0, buf_bytes(&body));
    buf_release(&body);
}

void health_on_ready(struct event_thread *thread, struct http_request *req) {
    answer(req, health_not_ready(thread->gw));
}

static void answer_result(struct event_thread *thread, struct http_request *req) {
    answer(req, atomic_load(&thread->gw->health.ok) ? NULL : "no token was made in time");
}

static void remove_waiter(struct health_waiters *w, size_t i) {
    w->items[i] = w->items[--w->count];
}

static void on_closed(void *ctx, struct http_request *req) {
    struct health_waiters *w = ctx;
    for (size_t i = 0; i < w->count; i++) {
        if (w->items[i].req != req)
            continue;
        remove_waiter(w, i);
        return;
    }
}

/* Answers those whose result has come. */
static void finish_probe(struct event_thread *thread) {
    struct health_waiters *w = &thread->health;
    int64_t result_ms = atomic_load(&thread->gw->health.result_ms);
    for (size_t i = 0; i < w->count;) {
        struct http_request *req = w->items[i].req;
        if (result_ms < w->items[i].since_ms) {
            i++;
            continue;
        }
        remove_waiter(w, i);
        answer_result(thread, req);
    }
}

static void on_probe(void *ctx, bool ok) {
    struct event_thread *thread = ctx;
    struct health *h = &thread->gw->health;
    atomic_store(&h->ok, ok);
    atomic_store(&h->result_ms, thread->now_ms);
    atomic_store(&h->running, false);
    finish_probe(thread);
}

static void start_probe(struct event_thread *thread) {
    struct health *h = &thread->gw->health;
    bool running = false;
    if (!atomic_compare_exchange_strong(&h->running, &running, true))
        return;
    struct served_model *model = model_table_any_ready(thread->gw->models);
    if (model)
        generation_probe(thread, bytes_str(model->name), thread->gw->settings.probe_ms,
                         (struct generation_probe){on_probe, thread});
    else
        on_probe(thread, false);
    served_model_put(model);
}

void health_on_e2e(struct event_thread *thread, struct http_request *req) {
    static const struct http_watch watch = {.on_closed = on_closed};
    struct health_waiters *w = &thread->health;
    const char *why_not = health_not_ready(thread->gw);
    int64_t result_ms = atomic_load(&thread->gw->health.result_ms);
    if (!why_not && w->count == HEALTH_WAITERS_MAX)
        why_not = "too many ask at once";
    if (why_not) {
        answer(req, why_not);
    } else if (result_ms && thread->now_ms - result_ms < HEALTH_FRESH_MS) {
        answer_result(thread, req);
    } else {
        w->items[w->count].req = req;
        w->items[w->count++].since_ms = thread->now_ms;
        http_request_watch(req, &watch, w);
        start_probe(thread);
    }
}

void health_tick(struct event_thread *thread) {
    struct health_waiters *w = &thread->health;
    if (w->count == 0)
        return;
    finish_probe(thread);
    const char *why_not = health_not_ready(thread->gw);
    while (why_not && w->count) {
        struct http_request *req = w->items[0].req;
        remove_waiter(w, 0);
        answer(req, why_not);
    }
    if (w->count)
        start_probe(thread);
}
