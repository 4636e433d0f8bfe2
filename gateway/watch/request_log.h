/*
 * request_log.h - one line of the log for each request.
 *
 * A generation's line is written when it has ended: who asked for what (id, path, model), what it
 * cost (tokens, times) and how it ended. Any other request's is written with the head of its
 * response. What a client wrote never stands in a line, but for its X-Request-Id (which is of plain
 * characters): not its text, its path, or the name of a model that is not served.
 *
 * Threading: any.
 */
#ifndef GATEWAY_WATCH_REQUEST_LOG_H
#define GATEWAY_WATCH_REQUEST_LOG_H

#include "http/http_server.h"

/* What is said of a generation request; texts are borrowed. */
struct request_line {
    const char *id;       /* http_request_id */
    const char *response; /* the id in its body; NULL: there is none, or it is the same */
    const char *trace;    /* the trace's id; "": it is not traced */
    const char *path;     /* the route's */
    const char *model;    /* NULL: none was found */
    uint32_t prompt_tokens, cached_tokens, output_tokens;
    int64_t ttft_us; /* from its first byte to its first token; 0: none came */
    int64_t duration_us;
    const char *finish; /* "stop", "length", ..., "cancelled", "error" */
    int status;         /* 499: the client went away first */
};

/* The request's line is written by request_log_generation: request_log_head says nothing of it.
 * Uses req->user. */
void request_log_take(struct http_request *req);
/* Whether request_log_take was called. */
bool request_log_is_taken(const struct http_request *req);
/* The line of a request that is answered with `status` now. path: its route's; NULL: none was
 * found. quiet: a probe's, of level debug. */
void request_log_head(struct http_request *req, const char *path, bool quiet, int status);
/* The line of a generation that has ended. */
void request_log_generation(const struct request_line *line);

#endif
