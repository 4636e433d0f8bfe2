#include "gateway/watch/request_log.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

static char taken;

void request_log_take(struct http_request *req) {
    req->user = &taken;
}

bool request_log_is_taken(const struct http_request *req) {
    return req->user == &taken;
}

static double ms(int64_t us) {
    return (double)us * 1e-3;
}

void request_log_head(struct http_request *req, const char *path, bool quiet, int status) {
    enum log_level level = quiet ? LOG_DEBUG : LOG_INFO;
    CHECK(!request_log_is_taken(req));
    if (!log_enabled(level))
        return;
    /* a connection that is refused has no first byte */
    int64_t took_us = req->start_us ? clock_us() - req->start_us : 0;
    log_write(level, "request id=%s method=%s path=%s status=%d duration_ms=%.3f",
              http_request_id(req), http_method_text(req->method), path ? path : "-", status,
              ms(took_us));
}

/* A model's name as the value of a field: its operator chose it, so it may have spaces. */
static void write_name(const char *name, char *out, size_t size) {
    bool plain = *name && !strpbrk(name, " \"");
    snprintf(out, size, plain ? "%.*s" : "\"%.*s\"", (int)size - 3, name);
    for (char *c = out + 1; !plain && *c && c[1]; c++)
        if (*c == '"')
            *c = '\'';
}

void request_log_generation(const struct request_line *line) {
    char model[300], ttft[48] = "", response[96] = "", trace[48] = "";
    if (!log_enabled(LOG_INFO))
        return;
    write_name(line->model ? line->model : "-", model, sizeof model);
    if (line->ttft_us)
        snprintf(ttft, sizeof ttft, " ttft_ms=%.3f", ms(line->ttft_us));
    if (line->response)
        snprintf(response, sizeof response, " response=%s", line->response);
    if (*line->trace)
        snprintf(trace, sizeof trace, " trace=%s", line->trace);
    log_info("request id=%s path=%s model=%s prompt_tokens=%u cached_tokens=%u output_tokens=%u%s "
             "duration_ms=%.3f finish=%s status=%d%s%s",
             line->id, line->path, model, line->prompt_tokens, line->cached_tokens,
             line->output_tokens, ttft, ms(line->duration_us), line->finish, line->status, response,
             trace);
}
