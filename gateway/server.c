#include "gateway/server.h"

#include <stdio.h>

#include "base/clock.h"
#include "formats/json.h"
#include "gateway/gateway_metrics.h"
#include "gateway/page.h"
#include "gateway/shard.h"
#include "gateway/text_calls.h"

#define JSON_TYPE "application/json"

void server_respond_error(struct http_request *req, const struct api_error *err) {
    struct buf body;
    char seconds[16];
    struct http_field fields[2];
    size_t count = 0;
    buf_init(&body, 0);
    api_error_write(err, &body);
    buf_add_byte(&body, '\n');
    snprintf(seconds, sizeof seconds, "%u", (err->retry_after_ms + 999) / 1000);
    if (err->retry_after_ms) fields[count++] = (struct http_field){"Retry-After", seconds};
    if (err->status == 401) fields[count++] = (struct http_field){"WWW-Authenticate", "Bearer"};
    http_respond(req, err->status, JSON_TYPE, fields, count, buf_bytes(&body));
    gateway_metrics_answer(err->status);
    buf_release(&body);
}

static void respond(struct http_request *req, int status, const char *type, struct buf *body) {
    http_respond(req, status, type, NULL, 0, buf_bytes(body));
    buf_release(body);
}

/* ---- handlers ---- */

struct call {
    struct shard *shard;
    struct http_request *req;
    struct u128 tenant;
    struct bytes rest; /* of the path, behind a prefix route */
};

static void on_generate(const struct call *c, enum genreq_dialect dialect) {
    struct genreq g;
    struct api_error err;
    if (c->req->body.len >= PREPARE_LONG_BODY) {
        stream_open_long(c->shard, c->req, dialect, c->tenant);
        return;
    }
    if (genreq_parse(&g, dialect, c->req->body, &err)) {
        genreq_release(&g);
        server_respond_error(c->req, &err);
        return;
    }
    stream_open(c->shard, c->req, &g, c->tenant);
}

static void on_chat(const struct call *c) { on_generate(c, GENREQ_CHAT); }
static void on_completions(const struct call *c) { on_generate(c, GENREQ_COMPLETIONS); }

static void write_model(struct json_writer *w, const struct model_info *info) {
    json_begin_object(w);
    json_key(w, "id");
    json_string(w, info->name);
    json_key(w, "object");
    json_string(w, "model");
    json_key(w, "created");
    json_int(w, info->created_s);
    json_key(w, "owned_by");
    json_string(w, "trireme");
    json_key(w, "max_model_len");
    json_uint(w, info->max_context);
    json_end_object(w);
}

static void list_model(void *ctx, const struct model_info *info) {
    if (info->servable) write_model(ctx, info);
}

static void on_models(const struct call *c) {
    struct buf body;
    struct json_writer w;
    buf_init(&body, 0);
    json_writer_init(&w, &body);
    json_begin_object(&w);
    json_key(&w, "object");
    json_string(&w, "list");
    json_key(&w, "data");
    json_begin_array(&w);
    model_table_each(c->shard->gw->models, list_model, &w);
    json_end_array(&w);
    json_end_object(&w);
    respond(c->req, 200, JSON_TYPE, &body);
}

struct model_search {
    struct bytes name;
    struct json_writer w;
    bool found;
};

static void find_model(void *ctx, const struct model_info *info) {
    struct model_search *search = ctx;
    if (!info->servable || !bytes_equal(bytes_str(info->name), search->name)) return;
    search->found = true;
    write_model(&search->w, info);
}

static void on_model(const struct call *c) {
    struct buf body;
    struct api_error err;
    struct model_search search = {.name = c->rest};
    buf_init(&body, 0);
    json_writer_init(&search.w, &body);
    model_table_each(c->shard->gw->models, find_model, &search);
    if (search.found) {
        respond(c->req, 200, JSON_TYPE, &body);
        return;
    }
    api_error_set(&err, API_MODEL_NOT_FOUND, "model", "the model '%.*s' does not exist", (int)MIN(c->rest.len, 100),
                  (const char *)c->rest.data);
    server_respond_error(c->req, &err);
    buf_release(&body);
}

static void on_tokenize(const struct call *c) { text_call_tokenize(c->shard, c->req); }
static void on_detokenize(const struct call *c) { text_call_detokenize(c->shard, c->req); }
static void on_apply_template(const struct call *c) { text_call_apply_template(c->shard, c->req); }

static void on_live(const struct call *c) {
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, bytes_str("{\"status\":\"ok\"}\n"));
}
static void on_ready(const struct call *c) { health_on_ready(c->shard, c->req); }
static void on_e2e(const struct call *c) { health_on_e2e(c->shard, c->req); }

static void on_metrics(const struct call *c) {
    struct buf body;
    buf_init(&body, 0);
    metric_set(&gateway_metrics[GATEWAY_METRIC_SCHEDULER], wire_is_registered(c->shard->gw->wire));
    metrics_write(&body);
    respond(c->req, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

static void on_page(const struct call *c) { page_respond(c->req); }

static void on_version(const struct call *c) {
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, bytes_str("{\"version\":\"" TRIREME_VERSION "\"}\n"));
}

/* ---- routes ---- */

static const struct route {
    const char *path;        /* ending in '/': a prefix, and something must follow */
    enum http_method method; /* GET takes HEAD too */
    bool open;
    void (*handle)(const struct call *call);
} routes[] = {
    {"/", HTTP_GET, true, on_page},
    {"/v1/chat/completions", HTTP_POST, false, on_chat},
    {"/v1/completions", HTTP_POST, false, on_completions},
    {"/tokenize", HTTP_POST, false, on_tokenize},
    {"/detokenize", HTTP_POST, false, on_detokenize},
    {"/apply-template", HTTP_POST, false, on_apply_template},
    {"/v1/models", HTTP_GET, false, on_models},
    {"/v1/models/", HTTP_GET, false, on_model},
    {"/health", HTTP_GET, true, on_live},
    {"/health/live", HTTP_GET, true, on_live},
    {"/health/ready", HTTP_GET, true, on_ready},
    {"/health/e2e", HTTP_GET, true, on_e2e},
    {"/metrics", HTTP_GET, false, on_metrics},
    {"/version", HTTP_GET, false, on_version},
};

static const struct route *find_route(struct bytes path, struct bytes *rest) {
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        size_t len = strlen(routes[i].path);
        bool prefix = len > 1 && routes[i].path[len - 1] == '/';
        if (path.len < len || memcmp(path.data, routes[i].path, len) != 0 ||
            (prefix ? path.len == len : path.len != len))
            continue;
        *rest = bytes_of(path.data + len, path.len - len);
        return &routes[i];
    }
    return NULL;
}

static void refuse_method(struct http_request *req, const struct route *route) {
    struct api_error err;
    struct buf body;
    struct http_field allow = {"Allow", route->method == HTTP_GET ? "GET, HEAD" : "POST"};
    api_error_set(&err, API_METHOD, NULL, "this path takes %s", http_method_text(route->method));
    buf_init(&body, 0);
    api_error_write(&err, &body);
    http_respond(req, err.status, JSON_TYPE, &allow, 1, buf_bytes(&body));
    gateway_metrics_answer(err.status);
    buf_release(&body);
}

static void on_request(void *ctx, struct http_request *req) {
    struct gateway *gw = ctx;
    struct call call = {.shard = gw->shards[req->thread_idx], .req = req};
    struct api_error err;
    const struct route *route = find_route(req->path, &call.rest);
    shard_set_now(call.shard);
    if (!route) {
        api_error_set(&err, API_NOT_FOUND, NULL, "there is nothing at this path");
        server_respond_error(req, &err);
    } else if (req->method != route->method && !(req->method == HTTP_HEAD && route->method == HTTP_GET)) {
        refuse_method(req, route);
    } else if (!route->open && !auth_check(&gw->auth, http_request_header(req, "Authorization"), &call.tenant)) {
        api_error_set(&err, API_UNAUTHORIZED, NULL, "a valid API key is needed: 'Authorization: Bearer KEY'");
        server_respond_error(req, &err);
    } else {
        route->handle(&call);
    }
}

static void on_tick(void *ctx, int thread_idx) {
    struct gateway *gw = ctx;
    shard_tick(gw->shards[thread_idx]);
    if (thread_idx == 0) pulse_beat(&gw->pulse, clock_ms());
}

void server_install(struct gateway *gw, struct http_config *config) {
    config->ctx = gw;
    config->on_request = on_request;
    config->on_tick = on_tick;
    config->tick_ms = SHARD_TICK_MS;
}
