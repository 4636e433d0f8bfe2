#include "gateway/answers/error_response.h"

#include <stdio.h>

#include "gateway/watch/gateway_metrics.h"

static const char *anthropic_type(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
    }
}

void anthropic_error_write(const struct api_error *err, const char *request_id, struct buf *out) {
    buf_addf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"",
             anthropic_type(err->status));
    buf_add_json(out, bytes_str(err->text));
    buf_add_str(out, "\"},\"request_id\":\"");
    buf_add_json(out, bytes_str(request_id));
    buf_add_str(out, "\"}");
}

static bool begins_with(struct bytes path, const char *prefix) {
    size_t len = strlen(prefix);
    return path.len >= len && memcmp(path.data, prefix, len) == 0;
}

static bool is_anthropic_path(struct bytes path) {
    return bytes_equal(path, bytes_str("/v1/messages")) || begins_with(path, "/v1/messages/");
}

/* Ollama's: {"error": TEXT}. */
static void write_ollama(const struct api_error *err, struct buf *out) {
    buf_add_str(out, "{\"error\":\"");
    buf_add_json(out, bytes_str(err->text));
    buf_add_str(out, "\"}");
}

static bool is_llama_path(struct bytes path) {
    static const char *const PATHS[] = {"/completion", "/completions", "/infill",
                                        "/slots",      "/embedding",   "/embeddings"};
    for (size_t i = 0; i < ARRAY_LEN(PATHS); i++)
        if (bytes_equal(path, bytes_str(PATHS[i])))
            return true;
    return begins_with(path, "/slots/");
}

static const char *llama_type(const struct api_error *err) {
    switch (err->status) {
    case 400: return err->context ? "exceed_context_size_error" : "invalid_request_error";
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return err->status < 500 ? "invalid_request_error" : "server_error";
    }
}

/* llama.cpp's: the code is the status. */
void llama_error_write(const struct api_error *err, struct buf *out) {
    buf_addf(out, "{\"error\":{\"code\":%d,\"message\":\"", err->status);
    buf_add_json(out, bytes_str(err->text));
    buf_addf(out, "\",\"type\":\"%s\"", llama_type(err));
    api_error_add_context(err, out);
    buf_add_str(out, "}}");
}

/* TGI's: its clients tell by error_type what they raise. */
void tgi_error_write(const struct api_error *err, struct buf *out) {
    const char *type = err->status == 429 || err->status == 503 ? "overloaded"
                       : err->status < 500                      ? "validation"
                                                                : "generation";
    buf_add_str(out, "{\"error\":\"");
    buf_add_json(out, bytes_str(err->text));
    buf_addf(out, "\",\"error_type\":\"%s\"}", type);
}

static bool is_tgi_path(struct bytes path) {
    return bytes_equal(path, bytes_str("/")) || bytes_equal(path, bytes_str("/generate_stream"));
}

static bool is_cohere_path(struct bytes path) {
    return bytes_equal(path, bytes_str("/v2/embed")) || bytes_equal(path, bytes_str("/v2/rerank"));
}

/* Cohere's: {"message": TEXT}. */
static void write_cohere(const struct api_error *err, struct buf *out) {
    buf_add_str(out, "{\"message\":\"");
    buf_add_json(out, bytes_str(err->text));
    buf_add_str(out, "\"}");
}

enum error_shape error_shape_of(struct bytes path) {
    return is_anthropic_path(path)      ? ERROR_SHAPE_ANTHROPIC
           : begins_with(path, "/api/") ? ERROR_SHAPE_OLLAMA
           : is_llama_path(path)        ? ERROR_SHAPE_LLAMA
           : is_cohere_path(path)       ? ERROR_SHAPE_COHERE
           : is_tgi_path(path)          ? ERROR_SHAPE_TGI
                                        : ERROR_SHAPE_OPENAI;
}

static void write_shape(struct http_request *req, enum error_shape shape,
                        const struct api_error *err, struct buf *out) {
    switch (shape) {
    case ERROR_SHAPE_TGI: tgi_error_write(err, out); return;
    case ERROR_SHAPE_ANTHROPIC: anthropic_error_write(err, http_request_id(req), out); return;
    case ERROR_SHAPE_OLLAMA: write_ollama(err, out); return;
    case ERROR_SHAPE_COHERE: write_cohere(err, out); return;
    case ERROR_SHAPE_LLAMA: llama_error_write(err, out); return;
    default: api_error_write(err, out);
    }
}

void error_body(struct http_request *req, const struct api_error *err, struct buf *out) {
    write_shape(req, error_shape_of(req->path), err, out);
}

void error_on_reject(void *ctx, struct http_request *req, int status, const char *text,
                     struct buf *out) {
    struct api_error err = {.status = status,
                            .type = status >= 500 ? "server_error" : "invalid_request_error",
                            .code = status == 413 ? "request_too_large" : NULL};
    (void)ctx;
    snprintf(err.text, sizeof err.text, "%s", text);
    error_body(req, &err, out);
}

static void respond(struct http_request *req, enum error_shape shape, const struct api_error *err) {
    struct buf body;
    char seconds[16];
    struct http_field fields[2];
    size_t count = 0;
    int status = err->status;
    CHECK(status >= 400);
    if (shape == ERROR_SHAPE_TGI && status == 400)
        status = 422; /* TGI's word for it */
    buf_init(&body, 0);
    write_shape(req, shape, err, &body);
    buf_add_byte(&body, '\n');
    snprintf(seconds, sizeof seconds, "%u", (err->retry_after_ms + 999) / 1000);
    if (err->retry_after_ms)
        fields[count++] = (struct http_field){"Retry-After", seconds};
    if (status == 401)
        fields[count++] = (struct http_field){"WWW-Authenticate", "Bearer"};
    http_respond(req, status, "application/json", fields, count, buf_bytes(&body));
    gateway_metrics_answer(status);
    buf_release(&body);
}

void error_respond(struct http_request *req, const struct api_error *err) {
    respond(req, error_shape_of(req->path), err);
}

void error_respond_in(struct http_request *req, enum genreq_dialect dialect,
                      const struct api_error *err) {
    respond(req, genreq_is_tgi(dialect) ? ERROR_SHAPE_TGI : error_shape_of(req->path), err);
}
