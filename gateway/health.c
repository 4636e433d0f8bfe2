#include "gateway/health.h"

#include "gateway/server.h"
#include "gateway/shard.h"

const char *health_not_ready(struct gateway *gw) {
    if (atomic_load(&gw->draining)) return "shutting down";
    if (!wire_is_registered(gw->wire)) return "no scheduler answers";
    struct served_model *model = model_table_any_ready(gw->models);
    served_model_put(model);
    return model ? NULL : "no model is ready";
}

static void answer(struct http_request *req, const char *why_not) {
    struct buf body;
    buf_init(&body, 0);
    buf_addf(&body, "{\"status\":\"%s\"", why_not ? "unavailable" : "ok");
    if (why_not) buf_addf(&body, ",\"reason\":\"%s\"", why_not);
    buf_add_str(&body, "}\n");
    http_respond(req, why_not ? 503 : 200, "application/json", NULL, 0, buf_bytes(&body));
    buf_release(&body);
}

void health_on_ready(struct shard *shard, struct http_request *req) { answer(req, health_not_ready(shard->gw)); }

static void answer_result(struct shard *shard, struct http_request *req) {
    answer(req, atomic_load(&shard->gw->health.ok) ? NULL : "no token was made in time");
}

static void remove_waiter(struct health_waiters *w, size_t i) { w->items[i] = w->items[--w->count]; }

static void on_closed(void *ctx, struct http_request *req) {
    struct health_waiters *w = ctx;
    for (size_t i = 0; i < w->count; i++) {
        if (w->items[i].req != req) continue;
        remove_waiter(w, i);
        return;
    }
}

/* Answers those whose result has come. */
static void settle(struct shard *shard) {
    struct health_waiters *w = &shard->health;
    int64_t result_ms = atomic_load(&shard->gw->health.result_ms);
    for (size_t i = 0; i < w->count;) {
        struct http_request *req = w->items[i].req;
        if (result_ms < w->items[i].since_ms) {
            i++;
            continue;
        }
        remove_waiter(w, i);
        answer_result(shard, req);
    }
}

static void on_probe(void *ctx, bool ok) {
    struct shard *shard = ctx;
    struct health *h = &shard->gw->health;
    atomic_store(&h->ok, ok);
    atomic_store(&h->result_ms, shard->now_ms);
    atomic_store(&h->running, false);
    settle(shard);
}

static void start_probe(struct shard *shard) {
    struct health *h = &shard->gw->health;
    bool running = false;
    if (!atomic_compare_exchange_strong(&h->running, &running, true)) return;
    struct served_model *model = model_table_any_ready(shard->gw->models);
    if (model)
        stream_probe(shard, bytes_str(model->name), shard->gw->settings.probe_ms, on_probe, shard);
    else
        on_probe(shard, false);
    served_model_put(model);
}

void health_on_e2e(struct shard *shard, struct http_request *req) {
    static const struct http_watch watch = {.on_closed = on_closed};
    struct health_waiters *w = &shard->health;
    const char *why_not = health_not_ready(shard->gw);
    int64_t result_ms = atomic_load(&shard->gw->health.result_ms);
    if (!why_not && w->count == HEALTH_WAITERS_MAX) why_not = "too many ask at once";
    if (why_not) {
        answer(req, why_not);
    } else if (result_ms && shard->now_ms - result_ms < HEALTH_FRESH_MS) {
        answer_result(shard, req);
    } else {
        w->items[w->count].req = req;
        w->items[w->count++].since_ms = shard->now_ms;
        http_request_watch(req, &watch, w);
        start_probe(shard);
    }
}

void health_tick(struct shard *shard) {
    struct health_waiters *w = &shard->health;
    if (w->count == 0) return;
    settle(shard);
    const char *why_not = health_not_ready(shard->gw);
    while (why_not && w->count) {
        struct http_request *req = w->items[0].req;
        remove_waiter(w, 0);
        answer(req, why_not);
    }
    if (w->count) start_probe(shard);
}
