/*
 * error_response.h - a refusal as the whole response of an HTTP request.
 *
 * Threading: the event thread that owns the request.
 */
#ifndef GATEWAY_ANSWERS_ERROR_RESPONSE_H
#define GATEWAY_ANSWERS_ERROR_RESPONSE_H

#include "gateway/fields/genreq.h"
#include "http/http_server.h"

/* How dialects write an error. */
enum error_shape {
    ERROR_SHAPE_OPENAI,
    ERROR_SHAPE_ANTHROPIC,
    ERROR_SHAPE_OLLAMA,
    ERROR_SHAPE_LLAMA,
    ERROR_SHAPE_COHERE,
    ERROR_SHAPE_TGI,
    ERROR_SHAPE_COUNT
};
/* The shape of the dialect that a path is of. */
enum error_shape error_shape_of(struct bytes path);
/* Appends err in the shape of the dialect that req's path is of. */
void error_body(struct http_request *req, const struct api_error *err, struct buf *out);
/* Appends err in Anthropic's shape: {"type":"error","error":{"type":..,"message":..},
 * "request_id":..}. */
void anthropic_error_write(const struct api_error *err, const char *request_id, struct buf *out);
/* Appends err in llama.cpp's shape. */
void llama_error_write(const struct api_error *err, struct buf *out);
/* Appends err in TGI's shape: {"error":..,"error_type":..}. */
void tgi_error_write(const struct api_error *err, struct buf *out);
/* As http_config's on_reject: what the HTTP server refuses by itself, in the shape of the dialect
 * that req's path is of; OpenAI's where there is none yet. */
void error_on_reject(void *ctx, struct http_request *req, int status, const char *text,
                     struct buf *out);
/* Responds with err's status, the error object and the headers that belong to it (Retry-After,
 * WWW-Authenticate), and counts the response. Ends the request: req must not be used afterwards. */
void error_respond(struct http_request *req, const struct api_error *err);
/* The same for a generation: TGI's requests come to a path that is of another dialect too. */
void error_respond_in(struct http_request *req, enum genreq_dialect dialect,
                      const struct api_error *err);

#endif
