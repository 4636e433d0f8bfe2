#include "gateway/server.h"

#include <stdio.h>

#include "base/clock.h"
#include "gateway/access/caller.h"
#include "gateway/answers/error_response.h"
#include "gateway/answers/gather.h"
#include "gateway/answers/gather_bodies.h"
#include "gateway/calls/abort.h"
#include "gateway/calls/call.h"
#include "gateway/calls/describe.h"
#include "gateway/calls/health.h"
#include "gateway/calls/loads.h"
#include "gateway/calls/model_control.h"
#include "gateway/calls/model_events.h"
#include "gateway/calls/ollama_models.h"
#include "gateway/calls/openapi.h"
#include "gateway/calls/refused.h"
#include "gateway/calls/response_calls.h"
#include "gateway/calls/text_calls.h"
#include "gateway/dialects/anthropic.h"
#include "gateway/dialects/embed.h"
#include "gateway/dialects/labels.h"
#include "gateway/dialects/responses.h"
#include "gateway/generation/generation.h"
#include "gateway/generation/resume.h"
#include "gateway/generation/turn.h"
#include "gateway/link/scheduler_link.h"
#include "gateway/page/page.h"
#include "gateway/prompts/prepare.h"
#include "gateway/watch/gateway_metrics.h"
#include "gateway/watch/model_metrics.h"
#include "gateway/watch/request_log.h"

#define JSON_TYPE "application/json"

/* ---- handlers ---- */

/* A long body is read off the event threads: *unread, and g is empty but for its dialect. */
static int read_request(const struct call *c, struct genreq *g, bool *unread,
                        struct api_error *err) {
    *unread = c->req->body.len >= PREPARE_LONG_BODY;
    if (*unread) {
        genreq_init(g, c->dialect);
        return 0;
    }
    int rc = genreq_parse(g, c->dialect, c->req->body, err);
    return rc ? rc : responses_resume(g, c->thread->gw->responses, c->tenant, err);
}

/* Takes g. */
static int open_request(const struct call *c, struct genreq *g, bool unread,
                        struct api_error *err) {
    struct bytes stream;
    if (resume_name(c->req, &stream, err) == 0)
        return generation_open(c->thread, c->req, g, unread, c->tenant, &stream, err);
    genreq_release(g);
    return -1;
}

static int on_generate(const struct call *c, struct api_error *err) {
    struct genreq g;
    bool unread;
    int rc = read_request(c, &g, &unread, err);
    enum genreq_dialect dialect = g.dialect; /* as the body says */
    if (rc == 0)
        rc = open_request(c, &g, unread, err);
    else
        genreq_release(&g);
    if (rc)
        error_respond_in(c->req, dialect, err);
    return 0;
}

/* Several requests in one body. */
static int on_gather(const struct call *c, struct api_error *err) {
    return gather_open(c->thread, c->req, c->dialect, c->tenant, err);
}

static int on_sglang(const struct call *c, struct api_error *err) {
    return gather_is_wanted(c->req->body) ? on_gather(c, err) : on_generate(c, err);
}

/* A stream's name: the rest of the path, else ?conv_id=NAME. Empty where neither can be one. */
static struct bytes stream_name(const struct call *c, char text[WIRE_MAX_STREAM + 1]) {
    if (c->rest.len)
        return c->rest;
    int len = http_query_find(c->req->query, "conv_id", text, WIRE_MAX_STREAM + 1);
    return bytes_of(text, (size_t)MAX(len, 0));
}

static int on_stream(const struct call *c, struct api_error *err) {
    char text[WIRE_MAX_STREAM + 1];
    return resume_open(c->thread, c->req, c->tenant, stream_name(c, text), err);
}

static int on_stream_delete(const struct call *c, struct api_error *err) {
    char text[WIRE_MAX_STREAM + 1];
    return resume_give_up(c->thread, c->req, c->tenant, stream_name(c, text), err);
}
static int on_live(const struct call *c, struct api_error *err) {
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, bytes_str("{\"status\":\"ok\"}\n"));
    return 0;
}
static int on_metrics(const struct call *c, struct api_error *err) {
    struct buf body;
    buf_init(&body, 0);
    metrics_write(&body);
    model_metrics_write_info(&body);
    if (body.failed) {
        buf_release(&body);
        return api_error_out_of_memory(err);
    }
    http_respond(c->req, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, 0,
                 buf_bytes(&body));
    buf_release(&body);
    return 0;
}

/* The page (rest is empty at "/") and its files. */
static int on_page(const struct call *c, struct api_error *err) {
    if (page_respond(c->req, c->rest))
        return 0;
    return api_error_no_path(err);
}

/* The list of calls, where servers made with FastAPI have theirs. */
static int on_docs(const struct call *c, struct api_error *err) {
    (void)err;
    CHECK(page_respond(c->req, bytes_str("calls.html")));
    return 0;
}

static int on_version(const struct call *c, struct api_error *err) {
    http_respond(c->req, 200, JSON_TYPE, NULL, 0,
                 bytes_str("{\"version\":\"" TRIREME_VERSION "\"}\n"));
    return 0;
}

/* llama.cpp's: there are none. */
static int on_adapters(const struct call *c, struct api_error *err) {
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, bytes_str("[]"));
    return 0;
}

/* ---- routes ---- */

static int on_openapi(const struct call *c, struct api_error *err);

#define CALL(path, method, open, quiet, handle, fields)                                            \
    { path, method, open, quiet, handle, fields, GENREQ_DIALECT_COUNT }
#define GENERATE(path, handle, dialect, fields)                                                    \
    { path, HTTP_POST, false, false, handle, fields, dialect }

static const struct route {
    const char *path;        /* ending in '/': a prefix, and something must follow */
    enum http_method method; /* GET takes HEAD too */
    bool open;               /* without a key */
    bool quiet;              /* asked again and again by machines: no line in the log */
    int (*handle)(const struct call *call, struct api_error *err);
    const struct field_set *fields; /* of its body, for /openapi.json; NULL: none */
    enum genreq_dialect dialect;    /* on_generate's */
} routes[] = {
    CALL("/", HTTP_GET, true, false, on_page, NULL),
    CALL("/page/", HTTP_GET, true, true, on_page, NULL),
    CALL("/docs", HTTP_GET, true, false, on_docs, NULL),
    GENERATE("/v1/chat/completions", on_generate, GENREQ_CHAT, &fields_chat),
    GENERATE("/chat/completions", on_generate, GENREQ_CHAT, &fields_chat),
    GENERATE("/v1/chat/completions/batch", on_gather, GENREQ_CHAT, &fields_chat),
    CALL("/v1/chat/completions/input_tokens", HTTP_POST, false, false, text_call_chat_tokens,
         &fields_chat),
    CALL("/chat/completions/input_tokens", HTTP_POST, false, false, text_call_chat_tokens,
         &fields_chat),
    GENERATE("/v1/completions", on_generate, GENREQ_COMPLETIONS, &fields_completions),
    GENERATE("/v1/messages", on_generate, GENREQ_MESSAGES, &fields_messages),
    CALL("/v1/messages/count_tokens", HTTP_POST, false, false, text_call_count_tokens,
         &fields_messages),
    GENERATE("/v1/responses", on_generate, GENREQ_RESPONSES, &fields_responses),
    CALL("/v1/responses/input_tokens", HTTP_POST, false, false, text_call_input_tokens,
         &fields_responses),
    GENERATE("/responses", on_generate, GENREQ_RESPONSES, &fields_responses),
    CALL("/responses/input_tokens", HTTP_POST, false, false, text_call_input_tokens,
         &fields_responses),
    CALL("/v1/responses/", HTTP_GET, false, false, response_call_get, NULL),
    CALL("/v1/responses/", HTTP_DELETE, false, false, response_call_delete, NULL),
    CALL("/v1/responses/", HTTP_POST, false, false, response_call_cancel, NULL),
    CALL("/v1/stream/", HTTP_GET, false, false, on_stream, NULL),
    CALL("/v1/stream/", HTTP_DELETE, false, false, on_stream_delete, NULL),
    CALL("/v1/stream", HTTP_GET, false, false, on_stream, NULL), /* by ?conv_id= */
    CALL("/v1/stream", HTTP_DELETE, false, false, on_stream_delete, NULL),
    GENERATE("/api/chat", on_generate, GENREQ_OLLAMA_CHAT, &fields_ollama_chat),
    GENERATE("/api/generate", on_generate, GENREQ_OLLAMA_GENERATE, &fields_ollama_generate),
    CALL("/api/tags", HTTP_GET, false, false, ollama_tags, NULL),
    CALL("/api/ps", HTTP_GET, false, false, ollama_ps, NULL),
    CALL("/api/show", HTTP_POST, false, false, ollama_show, NULL),
    CALL("/api/version", HTTP_GET, false, false, ollama_version, NULL),
    GENERATE("/api/embed", on_generate, GENREQ_OLLAMA_EMBED, &fields_ollama_embed),
    GENERATE("/api/embeddings", on_generate, GENREQ_OLLAMA_EMBEDDINGS, &fields_ollama_embeddings),
    CALL("/api/pull", HTTP_POST, false, false, ollama_refuse, NULL),
    CALL("/api/push", HTTP_POST, false, false, ollama_refuse, NULL),
    CALL("/api/create", HTTP_POST, false, false, ollama_refuse, NULL),
    CALL("/api/copy", HTTP_POST, false, false, ollama_refuse, NULL),
    CALL("/api/delete", HTTP_DELETE, false, false, ollama_refuse, NULL),
    GENERATE("/completion", on_generate, GENREQ_COMPLETION, &fields_completion),
    GENERATE("/completions", on_generate, GENREQ_COMPLETION, &fields_completion),
    GENERATE("/generate", on_sglang, GENREQ_GENERATE, &fields_generate),
    CALL("/abort_request", HTTP_POST, false, false, abort_requests, &fields_abort),
    GENERATE("/encode", on_generate, GENREQ_ENCODE, &fields_encode),
    GENERATE("/invocations", on_generate, GENREQ_INVOCATION, &fields_chat),
    GENERATE("/generate_stream", on_generate, GENREQ_TGI_STREAM, &fields_tgi),
    GENERATE("/", on_generate, GENREQ_TGI_ROOT, &fields_tgi),
    GENERATE("/inference/v1/generate", on_generate, GENREQ_TOKENS, &fields_tokens),
    GENERATE("/infill", on_generate, GENREQ_INFILL, &fields_infill),
    GENERATE("/v1/embeddings", on_generate, GENREQ_EMBEDDINGS, &fields_embeddings),
    GENERATE("/embedding", on_generate, GENREQ_LLAMA_EMBEDDING, &fields_llama_embedding),
    GENERATE("/embeddings", on_generate, GENREQ_LLAMA_EMBEDDING, &fields_llama_embedding),
    GENERATE("/pooling", on_generate, GENREQ_POOLING, &fields_pooling),
    GENERATE("/v1/classify", on_generate, GENREQ_CLASSIFY, &fields_classify),
    GENERATE("/classify", on_generate, GENREQ_CLASSIFY, &fields_classify),
    GENERATE("/v2/embed", on_generate, GENREQ_COHERE_EMBED, &fields_cohere_embed),
    GENERATE("/v1/rerank", on_generate, GENREQ_RERANK, &fields_rerank),
    GENERATE("/v2/rerank", on_generate, GENREQ_RERANK, &fields_rerank),
    GENERATE("/v1/reranking", on_generate, GENREQ_RERANK, &fields_rerank),
    GENERATE("/rerank", on_generate, GENREQ_RERANK, &fields_rerank),
    GENERATE("/reranking", on_generate, GENREQ_RERANK, &fields_rerank),
    GENERATE("/v1/score", on_generate, GENREQ_SCORE, &fields_score),
    GENERATE("/score", on_generate, GENREQ_SCORE, &fields_score),
    GENERATE("/generative_scoring", on_generate, GENREQ_GENERATIVE_SCORING,
             &fields_generative_scoring),
    GENERATE("/get_ppl", on_generate, GENREQ_PPL, &fields_ppl),
    CALL("/slots", HTTP_GET, false, true, describe_slots, NULL),
    CALL("/tokenizer_info", HTTP_GET, false, false, text_call_tokenizer_info, NULL),
    CALL("/v1/chat/completions/render", HTTP_POST, false, false, text_call_render, &fields_chat),
    CALL("/v1/completions/render", HTTP_POST, false, false, text_call_completion_tokens,
         &fields_completions),
    CALL("/tokenize", HTTP_POST, false, false, text_call_tokenize, &fields_text_calls),
    CALL("/detokenize", HTTP_POST, false, false, text_call_detokenize, &fields_text_calls),
    CALL("/v1/tokenize", HTTP_POST, false, false, text_call_tokenize, &fields_text_calls),
    CALL("/v1/detokenize", HTTP_POST, false, false, text_call_detokenize, &fields_text_calls),
    CALL("/chat_tokenize", HTTP_POST, false, false, text_call_chat_tokenize, &fields_chat),
    CALL("/v1/encode", HTTP_POST, false, false, text_call_encode, &fields_encode_text),
    CALL("/separate_reasoning", HTTP_POST, false, false, text_call_separate_reasoning,
         &fields_separate_reasoning),
    CALL("/parse_function_call", HTTP_POST, false, false, text_call_parse_calls,
         &fields_parse_function_call),
    CALL("/apply-template", HTTP_POST, false, false, text_call_apply_template, &fields_text_calls),
    CALL("/v1/models", HTTP_GET, false, false, describe_models, NULL),
    CALL("/models", HTTP_GET, false, false, describe_models, NULL),
    CALL("/v1/models/", HTTP_GET, false, false, describe_model, NULL),
    CALL("/anthropic/v1/models", HTTP_GET, false, false, describe_models, NULL),
    CALL("/models/sse", HTTP_GET, false, false, model_events_follow, NULL),
    CALL("/models/load", HTTP_POST, false, false, model_control_load, &fields_model_control),
    CALL("/models/reload", HTTP_POST, false, false, model_control_reload, &fields_model_control),
    CALL("/models/add", HTTP_POST, false, false, model_control_add, &fields_model_control),
    CALL("/models/remove", HTTP_POST, false, false, model_control_remove, &fields_model_control),
    CALL("/models/unload", HTTP_POST, false, false, model_control_unload, &fields_model_control),
    CALL("/health", HTTP_GET, true, true, on_live, NULL),
    CALL("/v1/health", HTTP_GET, true, true, on_live, NULL),
    CALL("/ping", HTTP_GET, true, true, on_live, NULL),
    CALL("/ping", HTTP_POST, true, true, on_live, NULL),
    CALL("/health_generate", HTTP_GET, true, true, health_on_e2e, NULL),
    CALL("/live", HTTP_GET, true, true, on_live, NULL),
    CALL("/health/live", HTTP_GET, true, true, on_live, NULL),
    CALL("/health/ready", HTTP_GET, true, true, health_on_ready, NULL),
    CALL("/health/e2e", HTTP_GET, true, true, health_on_e2e, NULL),
    CALL("/metrics", HTTP_GET, false, true, on_metrics, NULL),
    CALL("/version", HTTP_GET, false, false, on_version, NULL),
    CALL("/prometheus/metrics", HTTP_GET, false, true, on_metrics, NULL),
    CALL("/load", HTTP_GET, false, true, describe_load, NULL),
    CALL("/get_load", HTTP_GET, false, true, loads_get_old, NULL),
    CALL("/v1/loads", HTTP_GET, false, true, loads_get, NULL),
    CALL("/lora-adapters", HTTP_GET, false, false, on_adapters, NULL),
    CALL("/props", HTTP_GET, false, false, describe_props, NULL),
    CALL("/info", HTTP_GET, false, false, describe_info, NULL),
    CALL("/get_model_info", HTTP_GET, false, false, describe_model_info, NULL),
    CALL("/model_info", HTTP_GET, false, false, describe_model_info, NULL),
    CALL("/server_info", HTTP_GET, false, false, describe_server_info, NULL),
    CALL("/get_server_info", HTTP_GET, false, false, describe_server_info, NULL),
    CALL("/openapi.json", HTTP_GET, true, false, on_openapi, NULL),
};
#undef CALL
#undef GENERATE

static int on_openapi(const struct call *c, struct api_error *err) {
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, buf_bytes(&c->thread->gw->openapi));
    return 0;
}

static void describe_calls(struct buf *out) {
    struct openapi_call calls[ARRAY_LEN(routes)];
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        calls[i] = (struct openapi_call){.path = routes[i].path,
                                         .method = routes[i].method,
                                         .open = routes[i].open,
                                         .fields = routes[i].fields,
                                         .tgi_too = routes[i].dialect == GENREQ_GENERATE ||
                                                    routes[i].dialect == GENREQ_INVOCATION,
                                         .shape = error_shape_of(bytes_str(routes[i].path))};
    openapi_write(calls, ARRAY_LEN(calls), out);
}

static bool takes(const struct route *route, enum http_method method) {
    return method == route->method || (method == HTTP_HEAD && route->method == HTTP_GET);
}

/* Whether the route is one of this path; *rest: what follows a prefix. A slash that was written %2F
 * divides nothing, so it stands for none of a route's own; of what follows a prefix, names of models
 * alone may have some. */
static bool is_of_path(const struct route *route, const struct http_request *req,
                       struct bytes *rest) {
    struct bytes path = req->path;
    size_t len = strlen(route->path);
    bool prefix = len > 1 && route->path[len - 1] == '/';
    if (req->escaped_slash && (req->escaped_slash < len || route->handle != describe_model))
        return false;
    if (path.len < len || memcmp(path.data, route->path, len) != 0 ||
        (prefix ? path.len == len : path.len != len))
        return false;
    *rest = bytes_of(path.data + len, path.len - len);
    return true;
}

/* The path's route that takes the method, else its first one; NULL: no such path. */
static const struct route *find_route(const struct http_request *req, struct bytes *rest) {
    const struct route *first = NULL;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (first ? strcmp(routes[i].path, first->path) != 0 : !is_of_path(&routes[i], req, rest))
            continue;
        if (takes(&routes[i], req->method))
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

/* What the head alone tells: is the path there, and may this client ask? NULL: refused, and
 * answered. */
static const struct route *admit(struct gateway *gw, struct call *call) {
    struct http_request *req = call->req;
    struct api_error err;
    const struct route *route = find_route(req, &call->rest);
    event_thread_set_now(call->thread);
    req->user = (void *)(uintptr_t)route;
    if (req->method == HTTP_OPTIONS && bytes_equal(req->path, bytes_str("*"))) {
        respond_options(call, "GET, HEAD, POST, OPTIONS");
        return NULL;
    }
    if (!route) {
        if (!refused_call(req->path, &err))
            api_error_no_path(&err);
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
    if (caller_check(gw, req, &err)) {
        error_respond(req, &err);
        return NULL;
    }
    if (refused_method(req->method, req->path, &err)) {
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
    if (caller_check_media_type(req, &err) || caller_check_coding(req, &err))
        error_respond(req, &err);
    else
        req->holder = call.tenant;
}

/* A client that asks again for the stream that it had begun gets it, whatever its body says. */
static int handle(struct call *call, const struct route *route, struct api_error *err) {
    struct bytes stream;
    call->dialect = route->dialect;
    if (route->dialect != GENREQ_DIALECT_COUNT && resume_is_asked(call->req, &stream))
        return resume_open(call->thread, call->req, call->tenant, stream, err);
    return route->handle(call, err);
}

static void on_request(void *ctx, struct http_request *req) {
    struct gateway *gw = ctx;
    struct call call = {.thread = gw->threads[req->thread_idx], .req = req};
    struct api_error err;
    const struct route *route = admit(gw, &call);
    if (route && handle(&call, route, &err))
        error_respond(req, &err);
    turn_start_opened(call.thread);
}

static size_t on_head(void *ctx, struct http_request *req, int status, struct http_field *fields) {
    const struct gateway *gw = ctx;
    if (!request_log_is_taken(req)) {
        const struct route *route = req->user; /* NULL: none, or refused before it was looked for */
        request_log_head(req, route ? route->path : NULL, route && route->quiet, status);
    }
    size_t count = cors_fields(&gw->cors, req, fields);
    if (error_shape_of(req->path) ==
        ERROR_SHAPE_ANTHROPIC) /* its clients read the id under this name */
        fields[count++] = (struct http_field){"request-id", http_request_id(req)};
    return count;
}

static bool on_tick(void *ctx, int thread_idx) {
    struct gateway *gw = ctx;
    turn_tick(gw->threads[thread_idx]);
    if (thread_idx == 0)
        pulse_beat(&gw->pulse, clock_ms());
    return turn_waits(gw->threads[thread_idx]);
}

void server_install(struct gateway *gw, struct http_config *config) {
    config->ctx = gw;
    config->on_body = on_body;
    config->on_request = on_request;
    config->on_reject = error_on_reject;
    config->on_head = on_head;
    config->on_tick = on_tick;
    config->tick_ms = EVENT_THREAD_TICK_MS;
    config->calm_tick_ms = EVENT_THREAD_CALM_MS;
    describe_calls(&gw->openapi);
}
