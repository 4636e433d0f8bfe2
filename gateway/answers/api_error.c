#include "gateway/answers/api_error.h"

#include <stdio.h>

#include "base/utf8.h"

static const struct {
    int status;
    const char *type, *code;
} faults[API_FAULT_COUNT] = {
    [API_BAD_REQUEST] = {400, "invalid_request_error", NULL},
    [API_UNSUPPORTED] = {400, "invalid_request_error", "unsupported_parameter"},
    [API_CONTEXT_LENGTH] = {400, "invalid_request_error", "context_length_exceeded"},
    [API_UNAUTHORIZED] = {401, "invalid_request_error", "invalid_api_key"},
    [API_FORBIDDEN] = {403, "invalid_request_error", "forbidden"},
    [API_NOT_FOUND] = {404, "invalid_request_error", "not_found"},
    [API_MODEL_NOT_FOUND] = {404, "invalid_request_error", "model_not_found"},
    [API_METHOD] = {405, "invalid_request_error", "method_not_allowed"},
    [API_STREAM_TAKEN] = {409, "invalid_request_error", "stream_taken"},
    [API_TOO_LARGE] = {413, "invalid_request_error", "request_too_large"},
    [API_MEDIA_TYPE] = {415, "invalid_request_error", "unsupported_media_type"},
    [API_OVERLOADED] = {429, "rate_limit_error", "rate_limit_exceeded"},
    [API_INTERNAL] = {500, "server_error", NULL},
    [API_UNAVAILABLE] = {503, "server_error", "service_unavailable"},
    [API_TIMEOUT] = {504, "server_error", "timeout"},
};

/* A cut text may end inside a character, and a client's bytes may be anything: keep what is valid,
 * '?' for the rest. */
static void make_utf8(char *text) {
    size_t len = strlen(text), at = 0;
    while (at < len) {
        at += utf8_valid_prefix(text + at, len - at);
        if (at < len)
            text[at++] = '?';
    }
}

int api_error_set(struct api_error *err, enum api_fault fault, const char *param, const char *fmt,
                  ...) {
    *err = (struct api_error){
        .status = faults[fault].status, .type = faults[fault].type, .code = faults[fault].code};
    if (param)
        snprintf(err->param, sizeof err->param, "%s", param);
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    make_utf8(err->text);
    make_utf8(err->param);
    if (fault == API_OVERLOADED)
        err->retry_after_ms = 1000;
    return -1;
}

static void add_nullable(struct buf *out, const char *s) {
    if (!s || !*s) {
        buf_add_str(out, "null");
        return;
    }
    buf_add_byte(out, '"');
    buf_add_json(out, bytes_str(s));
    buf_add_byte(out, '"');
}

int api_error_no_path(struct api_error *err) {
    return api_error_set(err, API_NOT_FOUND, NULL,
                         "there is nothing at this path; /docs lists those that are there");
}

int api_error_out_of_memory(struct api_error *err) {
    api_error_set(err, API_UNAVAILABLE, NULL, "this server is out of memory; try again later");
    err->retry_after_ms = 1000;
    return -1;
}

void api_error_stream_taken(struct api_error *err) {
    api_error_set(err, API_STREAM_TAKEN, NULL,
                  "another request has taken this stream up, begun another of its name, or ended "
                  "it; a stream has one reader at a time");
}

void api_error_add_context(const struct api_error *err, struct buf *out) {
    if (err->context)
        buf_addf(out, ",\"n_prompt_tokens\":%u,\"n_ctx\":%u", err->prompt_tokens, err->context);
}

void api_error_write(const struct api_error *err, struct buf *out) {
    buf_add_str(out, "{\"error\":{\"message\":\"");
    buf_add_json(out, bytes_str(err->text));
    buf_add_str(out, "\",\"type\":\"");
    buf_add_str(out, err->type);
    buf_add_str(out, "\",\"param\":");
    add_nullable(out, err->param);
    buf_add_str(out, ",\"code\":");
    add_nullable(out, err->code);
    api_error_add_context(err, out);
    buf_add_str(out, "}}");
}
