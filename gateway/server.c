#include "gateway/server.h"

#include <cJSON.h>
#include <stdio.h>
#include <strings.h>

#include "base/clock.h"
#include "gateway/anthropic.h"
#include "gateway/error_response.h"
#include "gateway/gateway_metrics.h"
#include "gateway/generation.h"
#include "gateway/health.h"
#include "gateway/model_metrics.h"
#include "gateway/ollama_models.h"
#include "gateway/openapi.h"
#include "gateway/page.h"
#include "gateway/request_log.h"
#include "gateway/response_calls.h"
#include "gateway/responses.h"
#include "gateway/resume.h"
#include "gateway/scheduler_link.h"
#include "gateway/text_calls.h"
#include "gateway/turn.h"

#define JSON_TYPE "application/json"

/* ---- handlers ---- */

struct call {
    struct event_thread *thread;
    struct http_request *req;
    struct u128 tenant;
    struct bytes rest; /* of the path, behind a prefix route */
};

static void on_generate(const struct call *c, enum genreq_dialect dialect) {
    struct genreq g;
    struct api_error err;
    struct bytes stream;
    if (resume_name(c->req, &stream, &err)) {
        error_respond(c->req, &err);
        return;
    }
    if (stream.len && http_request_header(c->req, "Last-Event-ID").len) {
        resume_open(c->thread, c->req, c->tenant, stream); /* it asks again for what it had begun */
        return;
    }
    bool unread = c->req->body.len >= PREPARE_LONG_BODY;
    int rc = 0;
    if (unread)
        genreq_init(&g, dialect);
    else
        rc = genreq_parse(&g, dialect, c->req->body, &err);
    if (rc == 0 && !unread)
        rc = responses_resume(&g, c->thread->gw->responses, c->tenant, &err);
    if (rc == 0 && !unread && genreq_asks_nothing(&g)) {
        ollama_load(c->thread, c->req, &g);
        genreq_release(&g);
        return;
    }
    if (rc == 0) {
        generation_open(c->thread, c->req, &g, unread, c->tenant, &stream);
        return;
    }
    genreq_release(&g);
    error_respond(c->req, &err);
}

static void on_chat(const struct call *c) {
    on_generate(c, GENREQ_CHAT);
}
static void on_completions(const struct call *c) {
    on_generate(c, GENREQ_COMPLETIONS);
}
static void on_messages(const struct call *c) {
    on_generate(c, GENREQ_MESSAGES);
}
static void on_stream(const struct call *c) {
    resume_open(c->thread, c->req, c->tenant, c->rest);
}
static void on_ollama_chat(const struct call *c) {
    on_generate(c, GENREQ_OLLAMA_CHAT);
}
static void on_ollama_generate(const struct call *c) {
    on_generate(c, GENREQ_OLLAMA_GENERATE);
}
static void on_responses(const struct call *c) {
    on_generate(c, GENREQ_RESPONSES);
}
static void on_response_get(const struct call *c) {
    response_call_get(c->thread, c->req, c->tenant, c->rest);
}
static void on_response_delete(const struct call *c) {
    response_call_delete(c->thread, c->req, c->tenant, c->rest);
}
static void on_response_cancel(const struct call *c) {
    response_call_cancel(c->thread, c->req, c->tenant, c->rest);
}
static void on_input_tokens(const struct call *c) {
    text_call_input_tokens(c->thread, c->req, c->tenant);
}
static void on_completion(const struct call *c) {
    on_generate(c, GENREQ_COMPLETION);
}
static void on_infill(const struct call *c) {
    on_generate(c, GENREQ_INFILL);
}
static void on_ollama_tags(const struct call *c) {
    ollama_tags(c->thread, c->req);
}
static void on_ollama_ps(const struct call *c) {
    ollama_ps(c->thread, c->req);
}
static void on_ollama_show(const struct call *c) {
    ollama_show(c->thread, c->req);
}
static void on_ollama_version(const struct call *c) {
    ollama_version(c->req);
}
static void on_ollama_refused(const struct call *c) {
    ollama_refuse(c->req);
}

/* ---- models: small documents of our own, so cJSON writes them. What clients send is read by the
 * strict reader of field.h instead. ---- */

/* Returns owned. */
static cJSON *model_document(const struct model_info *info) {
    cJSON *model = cJSON_CreateObject();
    cJSON_AddStringToObject(model, "id", info->name);
    cJSON_AddStringToObject(model, "object", "model");
    cJSON_AddNumberToObject(model, "created", (double)info->created_s);
    cJSON_AddStringToObject(model, "owned_by", "trireme");
    cJSON_AddNumberToObject(model, "max_model_len", info->max_context);
    return model;
}

/* Takes the document. */
static void respond_document(struct http_request *req, cJSON *document) {
    char *text = cJSON_PrintUnformatted(document);
    CHECK_MSG(text, "out of memory");
    http_respond(req, 200, JSON_TYPE, NULL, 0, bytes_str(text));
    cJSON_free(text);
    cJSON_Delete(document);
}

static void list_model(void *ctx, const struct model_info *info) {
    if (info->servable)
        cJSON_AddItemToArray(ctx, model_document(info));
}

static void on_models(const struct call *c) {
    cJSON *list = cJSON_CreateObject();
    cJSON_AddStringToObject(list, "object", "list");
    cJSON *data = cJSON_AddArrayToObject(list, "data");
    CHECK_MSG(data, "out of memory");
    model_table_each(c->thread->gw->models, list_model, data);
    respond_document(c->req, list);
}

struct model_search {
    struct bytes name;
    cJSON *document; /* owned; NULL: not found */
};

static void find_model(void *ctx, const struct model_info *info) {
    struct model_search *search = ctx;
    if (info->servable && !search->document && bytes_equal(bytes_str(info->name), search->name))
        search->document = model_document(info);
}

static void on_model(const struct call *c) {
    struct model_search search = {.name = c->rest};
    struct api_error err;
    model_table_each(c->thread->gw->models, find_model, &search);
    if (search.document) {
        respond_document(c->req, search.document);
        return;
    }
    prepare_refuse_model(MODEL_UNKNOWN, c->rest, &err);
    error_respond(c->req, &err);
}

static void on_tokenize(const struct call *c) {
    text_call_tokenize(c->thread, c->req, c->tenant);
}
static void on_detokenize(const struct call *c) {
    text_call_detokenize(c->thread, c->req, c->tenant);
}
static void on_apply_template(const struct call *c) {
    text_call_apply_template(c->thread, c->req, c->tenant);
}

static void on_count_tokens(const struct call *c) {
    text_call_count_tokens(c->thread, c->req, c->tenant);
}

static void on_live(const struct call *c) {
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, bytes_str("{\"status\":\"ok\"}\n"));
}
static void on_ready(const struct call *c) {
    health_on_ready(c->thread, c->req);
}
static void on_e2e(const struct call *c) {
    health_on_e2e(c->thread, c->req);
}

static void on_metrics(const struct call *c) {
    struct buf body;
    buf_init(&body, 0);
    metrics_write(&body);
    model_metrics_write_info(&body);
    http_respond(c->req, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, 0,
                 buf_bytes(&body));
    buf_release(&body);
}

/* The page (rest is empty at "/") and its files. */
static void on_page(const struct call *c) {
    struct api_error err;
    if (page_respond(c->req, c->rest))
        return;
    api_error_set(&err, API_NOT_FOUND, NULL, "there is nothing at this path");
    error_respond(c->req, &err);
}

static void on_version(const struct call *c) {
    http_respond(c->req, 200, JSON_TYPE, NULL, 0,
                 bytes_str("{\"version\":\"" TRIREME_VERSION "\"}\n"));
}

/* How busy this gateway is, as vLLM tells it: for load balancers. */
static void on_load(const struct call *c) {
    struct buf body;
    CHECK(c->thread && c->req);
    buf_init(&body, 0);
    buf_addf(&body, "{\"server_load\":%lld}\n", (long long)atomic_load(&c->thread->gw->open_count));
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, buf_bytes(&body));
    buf_release(&body);
}

/* llama.cpp's slots. Here a request takes none for itself in the gateway: one that works for each
 * that is open, and one that is free while another may be opened. */
static void on_slots(const struct call *c) {
    enum { SLOTS_MAX = 1024 };
    const struct gateway *gw = c->thread->gw;
    struct served_model *model = model_table_any_ready(gw->models);
    int64_t open = atomic_load(&gw->open_count);
    bool full = open >= gw->settings.open_max;
    struct api_error err;
    struct buf body = {0};
    if (full && bytes_equal(c->req->query, bytes_str("fail_on_no_slot=1"))) {
        api_error_set(&err, API_UNAVAILABLE, NULL, "no slot available");
        error_respond(c->req, &err);
        served_model_put(model);
        return;
    }
    buf_add_byte(&body, '[');
    for (int64_t i = 0; i < MIN(open + !full, SLOTS_MAX); i++)
        buf_addf(&body, "%s{\"id\":%lld,\"n_ctx\":%u,\"is_processing\":%s}", i ? "," : "",
                 (long long)i, model ? model->max_context : 0, i < open ? "true" : "false");
    buf_add_byte(&body, ']');
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, buf_bytes(&body));
    buf_release(&body);
    served_model_put(model);
}

static void on_tokenizer_info(const struct call *c) {
    text_call_tokenizer_info(c->thread, c->req);
}
static void on_render(const struct call *c) {
    text_call_render(c->thread, c->req, c->tenant);
}

static void add_default(cJSON *to, const char *name, double value) {
    if (value >= 0)
        cJSON_AddNumberToObject(to, name, value);
}

/* What llama-server tells of its model: the context, and the defaults that the model's own files
 * give (what they do not name is left out). */
static void on_props(const struct call *c) {
    struct served_model *model = model_table_any_ready(c->thread->gw->models);
    struct api_error err;
    if (!model) {
        api_error_set(&err, API_UNAVAILABLE, NULL, "no model is ready yet");
        error_respond(c->req, &err);
        return;
    }
    const struct model_defaults *defaults = &model->text->defaults;
    cJSON *props = cJSON_CreateObject();
    cJSON *settings = cJSON_AddObjectToObject(props, "default_generation_settings");
    cJSON *params = cJSON_AddObjectToObject(settings, "params");
    cJSON_AddNumberToObject(settings, "n_ctx", model->max_context);
    add_default(params, "temperature", defaults->temperature);
    add_default(params, "top_p", defaults->top_p);
    add_default(params, "min_p", defaults->min_p);
    add_default(params, "top_k", (double)defaults->top_k);
    add_default(params, "repeat_penalty", defaults->repetition_penalty);
    cJSON_AddStringToObject(props, "model_alias", model->name);
    cJSON_AddStringToObject(props, "build_info", "trireme " TRIREME_VERSION);
    served_model_put(model);
    respond_document(c->req, props);
}

/* ---- routes ---- */

static void on_openapi(const struct call *c);

static const struct route {
    const char *path;        /* ending in '/': a prefix, and something must follow */
    enum http_method method; /* GET takes HEAD too */
    bool open;               /* without a key */
    bool quiet;              /* asked again and again by machines: no line in the log */
    void (*handle)(const struct call *call);
    const struct field_set *fields; /* of its body, for /openapi.json; NULL: none */
} routes[] = {
    {"/", HTTP_GET, true, false, on_page, NULL},
    {"/page/", HTTP_GET, true, true, on_page, NULL},
    {"/v1/chat/completions", HTTP_POST, false, false, on_chat, &fields_chat},
    {"/v1/completions", HTTP_POST, false, false, on_completions, &fields_completions},
    {"/v1/messages", HTTP_POST, false, false, on_messages, &fields_messages},
    {"/v1/messages/count_tokens", HTTP_POST, false, false, on_count_tokens, &fields_messages},
    {"/v1/responses", HTTP_POST, false, false, on_responses, &fields_responses},
    {"/v1/responses/input_tokens", HTTP_POST, false, false, on_input_tokens, &fields_responses},
    {"/v1/responses/", HTTP_GET, false, false, on_response_get, NULL},
    {"/v1/responses/", HTTP_DELETE, false, false, on_response_delete, NULL},
    {"/v1/responses/", HTTP_POST, false, false, on_response_cancel, NULL},
    {"/v1/stream/", HTTP_GET, false, false, on_stream, NULL},
    {"/api/chat", HTTP_POST, false, false, on_ollama_chat, &fields_ollama_chat},
    {"/api/generate", HTTP_POST, false, false, on_ollama_generate, &fields_ollama_generate},
    {"/api/tags", HTTP_GET, false, false, on_ollama_tags, NULL},
    {"/api/ps", HTTP_GET, false, false, on_ollama_ps, NULL},
    {"/api/show", HTTP_POST, false, false, on_ollama_show, NULL},
    {"/api/version", HTTP_GET, false, false, on_ollama_version, NULL},
    {"/api/embed", HTTP_POST, false, false, on_ollama_refused, NULL},
    {"/api/embeddings", HTTP_POST, false, false, on_ollama_refused, NULL},
    {"/api/pull", HTTP_POST, false, false, on_ollama_refused, NULL},
    {"/api/push", HTTP_POST, false, false, on_ollama_refused, NULL},
    {"/api/create", HTTP_POST, false, false, on_ollama_refused, NULL},
    {"/api/copy", HTTP_POST, false, false, on_ollama_refused, NULL},
    {"/api/delete", HTTP_DELETE, false, false, on_ollama_refused, NULL},
    {"/completion", HTTP_POST, false, false, on_completion, &fields_completion},
    {"/completions", HTTP_POST, false, false, on_completion, &fields_completion},
    {"/infill", HTTP_POST, false, false, on_infill, &fields_infill},
    {"/slots", HTTP_GET, false, true, on_slots, NULL},
    {"/tokenizer_info", HTTP_GET, false, false, on_tokenizer_info, NULL},
    {"/v1/chat/completions/render", HTTP_POST, false, false, on_render, &fields_chat},
    {"/tokenize", HTTP_POST, false, false, on_tokenize, &fields_text_calls},
    {"/detokenize", HTTP_POST, false, false, on_detokenize, &fields_text_calls},
    {"/apply-template", HTTP_POST, false, false, on_apply_template, &fields_text_calls},
    {"/v1/models", HTTP_GET, false, false, on_models, NULL},
    {"/v1/models/", HTTP_GET, false, false, on_model, NULL},
    {"/health", HTTP_GET, true, true, on_live, NULL},
    {"/health/live", HTTP_GET, true, true, on_live, NULL},
    {"/health/ready", HTTP_GET, true, true, on_ready, NULL},
    {"/health/e2e", HTTP_GET, true, true, on_e2e, NULL},
    {"/metrics", HTTP_GET, false, true, on_metrics, NULL},
    {"/version", HTTP_GET, false, false, on_version, NULL},
    {"/load", HTTP_GET, false, true, on_load, NULL},
    {"/props", HTTP_GET, false, false, on_props, NULL},
    {"/openapi.json", HTTP_GET, true, false, on_openapi, NULL},
};

static void on_openapi(const struct call *c) {
    struct openapi_call calls[ARRAY_LEN(routes)];
    struct buf body = {0};
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        calls[i] = (struct openapi_call){.path = routes[i].path,
                                         .method = routes[i].method,
                                         .open = routes[i].open,
                                         .fields = routes[i].fields,
                                         .shape = error_shape_of(bytes_str(routes[i].path))};
    openapi_write(calls, ARRAY_LEN(calls), &body);
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, buf_bytes(&body));
    buf_release(&body);
}

static bool takes(const struct route *route, enum http_method method) {
    return method == route->method || (method == HTTP_HEAD && route->method == HTTP_GET);
}

/* Whether the route is one of this path; *rest: what follows a prefix. */
static bool is_of_path(const struct route *route, struct bytes path, struct bytes *rest) {
    size_t len = strlen(route->path);
    bool prefix = len > 1 && route->path[len - 1] == '/';
    if (path.len < len || memcmp(path.data, route->path, len) != 0 ||
        (prefix ? path.len == len : path.len != len))
        return false;
    *rest = bytes_of(path.data + len, path.len - len);
    return true;
}

/* The path's route that takes the method, else its first one; NULL: no such path. */
static const struct route *find_route(struct bytes path, enum http_method method,
                                      struct bytes *rest) {
    const struct route *first = NULL;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (first ? strcmp(routes[i].path, first->path) != 0 : !is_of_path(&routes[i], path, rest))
            continue;
        if (takes(&routes[i], method))
            return &routes[i];
        first = first ? first : &routes[i];
    }
    return first;
}

enum { METHODS_TEXT_MAX = 64 };

/* What the routes of a path take: "POST", "GET, HEAD, DELETE". */
static void methods_of(const struct route *route, char out[METHODS_TEXT_MAX]) {
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (strcmp(routes[i].path, route->path) == 0)
            len += (size_t)snprintf(
                out + len, METHODS_TEXT_MAX - len, "%s%s", len ? ", " : "",
                routes[i].method == HTTP_GET ? "GET, HEAD" : http_method_text(routes[i].method));
    CHECK(len < METHODS_TEXT_MAX);
}

/* OPTIONS: what a path takes, and whether a web page may ask for it. Before any key: a browser
 * sends none with a preflight. */
static void respond_options(const struct call *c, const char *methods) {
    struct http_field fields[1 + CORS_PREFLIGHT_FIELDS_MAX] = {{"Allow", methods}};
    struct buf names;
    buf_init(&names, 0);
    size_t count =
        1 + cors_preflight_fields(&c->thread->gw->cors, c->req, methods, &names, fields + 1);
    http_respond(c->req, 204, NULL, fields, count, bytes_of(NULL, 0));
    buf_release(&names);
}

static void refuse_method(struct http_request *req, const struct route *route) {
    struct api_error err;
    struct buf body;
    char methods[METHODS_TEXT_MAX + 16], taken[METHODS_TEXT_MAX];
    methods_of(route, taken);
    snprintf(methods, sizeof methods, "%s, OPTIONS", taken);
    struct http_field allow = {"Allow", methods};
    api_error_set(&err, API_METHOD, NULL, "this path takes %s", taken);
    buf_init(&body, 0);
    error_body(req, &err, &body);
    http_respond(req, err.status, JSON_TYPE, &allow, 1, buf_bytes(&body));
    gateway_metrics_answer(err.status);
    buf_release(&body);
}

/* 0, or -1 with *err filled: a page elsewhere must not call a server on the loopback. */
static int check_caller(const struct gateway *gw, const struct http_request *req,
                        struct api_error *err) {
    struct bytes host = http_request_header(req, "Host"),
                 origin = http_request_header(req, "Origin");
    if (host.len && !hosts_allow(&gw->hosts, host))
        return api_error_set(err, API_FORBIDDEN, NULL,
                             "this server is not called '%.*s'; see --allow-hosts",
                             (int)MIN(host.len, (size_t)100), (const char *)host.data);
    if (origin.len && !hosts_allow_origin(&gw->hosts, origin) && !cors_allows(&gw->cors, origin))
        return api_error_set(err, API_FORBIDDEN, NULL,
                             "pages of '%.*s' may not use this server; see --allow-origins",
                             (int)MIN(origin.len, (size_t)100), (const char *)origin.data);
    return 0;
}

/* A form can be sent by any page, JSON only after a preflight. Who is no browser (curl -d says it
 * sends a form, and the peers' manuals type that) is not asked. */
static int check_media_type(const struct http_request *req, struct api_error *err) {
    static const char json[] = "application/json";
    struct bytes type = http_request_header(req, "Content-Type");
    size_t len = sizeof json - 1;
    if (!http_request_header(req, "Origin").len && !http_request_header(req, "Sec-Fetch-Site").len)
        return 0;
    bool same = type.len >= len && strncasecmp((const char *)type.data, json, len) == 0;
    if (same && (type.len == len || strchr("; \t", type.data[len])))
        return 0;
    return api_error_set(err, API_MEDIA_TYPE, NULL, "the body must be JSON: 'Content-Type: %s'",
                         json);
}

/* What the head alone tells: is the path there, and may this client ask? NULL: refused, and
 * answered. */
static const struct route *admit(struct gateway *gw, struct call *call) {
    struct http_request *req = call->req;
    struct api_error err;
    const struct route *route = find_route(req->path, req->method, &call->rest);
    event_thread_set_now(call->thread);
    req->user = (void *)(uintptr_t)route;
    if (req->method == HTTP_OPTIONS && bytes_equal(req->path, bytes_str("*"))) {
        respond_options(call, "GET, HEAD, POST, OPTIONS");
        return NULL;
    }
    if (!route) {
        api_error_set(&err, API_NOT_FOUND, NULL, "there is nothing at this path");
        error_respond(req, &err);
        return NULL;
    }
    if (req->method == HTTP_OPTIONS) {
        char taken[METHODS_TEXT_MAX], methods[METHODS_TEXT_MAX + 16];
        methods_of(route, taken);
        snprintf(methods, sizeof methods, "%s, OPTIONS", taken);
        respond_options(call, methods);
        return NULL;
    }
    if (check_caller(gw, req, &err)) {
        error_respond(req, &err);
        return NULL;
    }
    if (!takes(route, req->method)) {
        refuse_method(req, route);
        return NULL;
    }
    if (!route->open && !auth_check(&gw->auth, http_request_header(req, "Authorization"),
                                    http_request_header(req, "X-Api-Key"), &call->tenant)) {
        api_error_set(&err, API_UNAUTHORIZED, NULL,
                      "a valid API key is needed: 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'");
        error_respond(req, &err);
        return NULL;
    }
    return route;
}

/* Before a body is taken: whoever may not ask sends none, and a key's bodies are its own. */
static void on_body(void *ctx, struct http_request *req) {
    struct gateway *gw = ctx;
    struct call call = {.thread = gw->threads[req->thread_idx], .req = req};
    struct api_error err;
    if (!admit(gw, &call))
        return;
    if (check_media_type(req, &err))
        error_respond(req, &err);
    else
        req->holder = call.tenant;
}

static void on_request(void *ctx, struct http_request *req) {
    struct gateway *gw = ctx;
    struct call call = {.thread = gw->threads[req->thread_idx], .req = req};
    const struct route *route = admit(gw, &call);
    if (route)
        route->handle(&call);
    turn_start_opened(call.thread);
}

static size_t on_head(void *ctx, struct http_request *req, int status, struct http_field *fields) {
    const struct gateway *gw = ctx;
    if (!request_log_is_taken(req)) {
        const struct route *route = req->user; /* NULL: none, or refused before it was looked for */
        request_log_head(req, route ? route->path : NULL, route && route->quiet, status);
    }
    size_t count = cors_fields(&gw->cors, req, fields);
    if (anthropic_is_path(req->path)) /* its clients read the id under this name */
        fields[count++] = (struct http_field){"request-id", http_request_id(req)};
    return count;
}

static void on_tick(void *ctx, int thread_idx) {
    struct gateway *gw = ctx;
    turn_tick(gw->threads[thread_idx]);
    if (thread_idx == 0)
        pulse_beat(&gw->pulse, clock_ms());
}

void server_install(struct gateway *gw, struct http_config *config) {
    config->ctx = gw;
    config->on_body = on_body;
    config->on_request = on_request;
    config->on_head = on_head;
    config->on_tick = on_tick;
    config->tick_ms = EVENT_THREAD_TICK_MS;
}
