#include "gateway/calls/health.h"

#include "formats/json.h"
#include "gateway/generation/generation.h"
#include "gateway/generation/open_places.h"
#include "gateway/link/scheduler_link.h"

enum { PROOF_MS = 30000 }; /* weights may come from a slow disk with the first token */

static const char *find_missing(struct gateway *gw) {
    if (atomic_load(&gw->draining))
        return "shutting down";
    if (!scheduler_link_is_registered(gw->link))
        return "no scheduler answers";
    struct served_model *model = model_table_any_ready(gw->models);
    served_model_put(model);
    if (model || gw->settings.models_on_demand)
        return NULL;
    return model_table_is_broken(gw->models) ? HEALTH_BROKEN : "no model is ready";
}

/* NULL: a scheduler, a replica and a tokenizer are there. Else what comes next must make its own token,
 * also where it comes before the next tick. */
static const char *what_is_missing(struct gateway *gw) {
    const char *missing = find_missing(gw);
    if (missing)
        atomic_store(&gw->health.proven, false);
    return missing;
}

const char *health_not_ready(struct gateway *gw) {
    const char *missing = what_is_missing(gw);
    struct served_model *model = model_table_any_ready(gw->models);
    bool none = !model; /* all wait for a request that needs them: there is nothing to prove */
    served_model_put(model);
    if (missing || none || atomic_load(&gw->health.proven))
        return missing;
    return "no token has been made yet";
}

struct model_list {
    struct json_writer *w;
    struct bytes name; /* the one asked for; empty: all */
    bool found, ready;
};

static void add_model(void *ctx, const struct model_info *info) {
    struct model_list *list = ctx;
    bool ready = info->servable && info->replicas_ready;
    if (bytes_equal(bytes_str(info->name), list->name)) {
        list->found = true;
        list->ready = ready;
    }
    json_key(list->w, info->name);
    json_bool(list->w, ready);
}

/* One model's readiness is asked for with ?model=NAME, told for each of them always. */
static void answer_models(struct event_thread *thread, struct http_request *req,
                          const char *why_not) {
    char name[256];
    int len = http_query_find(req->query, "model", name, sizeof name);
    struct buf models = {0}, body = {0};
    struct json_writer w;
    struct model_list list = {.w = &w, .name = bytes_of(name, len > 0 ? (size_t)len : 0)};
    json_writer_init(&w, &models);
    json_begin_object(&w);
    model_table_each(thread->gw->models, add_model, &list);
    json_end_object(&w);
    if (!why_not && list.name.len && !list.ready)
        why_not = list.found ? "this model is not ready" : "no such model";
    buf_addf(&body, "{\"status\":\"%s\"", why_not ? "unavailable" : "ok");
    if (why_not)
        buf_addf(&body, ",\"reason\":\"%s\"", why_not);
    buf_addf(&body, ",\"models\":%s}\n", buf_text(&models));
    http_respond(req, why_not ? 503 : 200, "application/json", NULL, 0, buf_bytes(&body));
    buf_release(&body);
    buf_release(&models);
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

int health_on_ready(const struct call *c, struct api_error *err) {
    answer_models(c->thread, c->req, health_not_ready(c->thread->gw));
    return 0;
}

static bool has_token_since(const struct event_thread *thread, int64_t since_ms) {
    int64_t token_ms = atomic_load(&thread->gw->health.token_ms);
    return token_ms && token_ms >= since_ms;
}

void health_note_token(struct event_thread *thread) {
    struct health *h = &thread->gw->health;
    if (atomic_load(&h->token_ms) < thread->now_ms)
        atomic_store(&h->token_ms, thread->now_ms);
}

static void answer_result(struct event_thread *thread, struct http_request *req) {
    answer(req, atomic_load(&thread->gw->health.ok) ? NULL : "no token was made in time");
}

static struct http_request *remove_waiter(struct event_thread *thread, size_t i) {
    struct health_waiter w = thread->health.items[i];
    thread->health.items[i] = thread->health.items[--thread->health.count];
    open_places_give(thread->gw->watchers, w.holder);
    return w.req;
}

static void on_closed(void *ctx, struct http_request *req) {
    struct event_thread *thread = ctx;
    for (size_t i = 0; i < thread->health.count; i++) {
        if (thread->health.items[i].req != req)
            continue;
        remove_waiter(thread, i);
        return;
    }
}

/* Answers those whose result has come. */
static void finish_probe(struct event_thread *thread) {
    int64_t result_ms = atomic_load(&thread->gw->health.result_ms);
    for (size_t i = 0; i < thread->health.count;) {
        int64_t since_ms = thread->health.items[i].since_ms;
        bool made = has_token_since(thread, since_ms);
        if (!made && result_ms < since_ms) {
            i++;
            continue;
        }
        struct http_request *req = remove_waiter(thread, i);
        if (made)
            answer(req, NULL);
        else
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

int health_on_e2e(const struct call *c, struct api_error *err) {
    static const struct http_watch watch = {.on_closed = on_closed};
    struct event_thread *thread = c->thread;
    struct http_request *req = c->req;
    struct u128 holder = open_holder(c->tenant, req->address);
    const char *why_not = what_is_missing(thread->gw);
    int64_t result_ms = atomic_load(&thread->gw->health.result_ms);
    if (why_not) {
        answer(req, why_not);
    } else if (has_token_since(thread, thread->now_ms - HEALTH_FRESH_MS + 1)) {
        answer(req, NULL);
    } else if (result_ms && thread->now_ms - result_ms < HEALTH_FRESH_MS) {
        answer_result(thread, req);
    } else if (!open_places_take(thread->gw->watchers, holder)) {
        answer(req, "too many ask at once");
    } else {
        struct health_waiter waiter = {.req = req, .holder = holder, .since_ms = thread->now_ms};
        vec_push(&thread->health, waiter);
        http_request_watch(req, &watch, thread);
        start_probe(thread);
    }
    return 0;
}

static void on_proof(void *ctx, bool ok) {
    struct event_thread *thread = ctx;
    struct health *h = &thread->gw->health;
    atomic_store(&h->proven, ok);
    atomic_store(&h->proving, false);
}

/* What has registered may be unable to compute: a token is made before anybody is told to come. */
static void prove(struct event_thread *thread) {
    struct health *h = &thread->gw->health;
    bool proving = false;
    if (atomic_load(&h->proven) || !atomic_compare_exchange_strong(&h->proving, &proving, true))
        return;
    struct served_model *model = model_table_any_ready(thread->gw->models);
    if (model)
        generation_probe(thread, bytes_str(model->name), PROOF_MS,
                         (struct generation_probe){on_proof, thread});
    else
        on_proof(thread, false);
    served_model_put(model);
}

void health_tick(struct event_thread *thread) {
    const char *why_not = what_is_missing(thread->gw);
    if (!why_not)
        prove(thread);
    if (!thread->health.count)
        return;
    finish_probe(thread);
    while (why_not && thread->health.count)
        answer(remove_waiter(thread, 0), why_not);
    if (thread->health.count)
        start_probe(thread);
}
