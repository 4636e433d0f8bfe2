/*
 * api_error.h - a client's mistake (or our temporary inability) as a value, in OpenAI's shape.
 *
 * Everything the gateway refuses is one of these: it is answered, never logged as an error. Texts
 * are for the client: they quote at most a little of what the client sent, and never a path, an
 * address or an internal id.
 */
#ifndef GATEWAY_ANSWERS_API_ERROR_H
#define GATEWAY_ANSWERS_API_ERROR_H

#include "base/buf.h"

enum { API_ERROR_TEXT_MAX = 512, API_ERROR_PARAM_MAX = 96 };

struct api_error {
    int status;       /* HTTP status; 0: no error */
    const char *type; /* "invalid_request_error", ...; static */
    const char *code; /* "model_not_found", ...; static; NULL: null */
    /* > 0: a Retry-After header goes with it, in whole seconds, rounded up */
    uint32_t retry_after_ms;
    /* of a prompt that does not fit, as llama.cpp's clients read it: tokens of the prompt, and of the
     * model's context; 0: not told */
    uint32_t prompt_tokens, context;
    char param[API_ERROR_PARAM_MAX]; /* the field at fault; empty: null */
    char text[API_ERROR_TEXT_MAX];   /* valid UTF-8 (made so when set) */
};

/* What went wrong, in the terms of the API: each has its status, type and code (see the table in
 * api_error.c). */
enum api_fault {
    API_BAD_REQUEST,     /* 400: malformed JSON, wrong type, out of range */
    API_UNSUPPORTED,     /* 400: a field we know and do not offer */
    API_CONTEXT_LENGTH,  /* 400: the prompt does not fit the model */
    API_UNAUTHORIZED,    /* 401 */
    API_FORBIDDEN,       /* 403: called by a name, or by a page, that is not allowed */
    API_NOT_FOUND,       /* 404: no such path */
    API_MODEL_NOT_FOUND, /* 404 */
    API_METHOD,          /* 405 */
    API_STREAM_TAKEN,    /* 409: another request has the stream now */
    API_TOO_LARGE,       /* 413 */
    API_MEDIA_TYPE,      /* 415 */
    API_OVERLOADED,      /* 429, with Retry-After */
    API_INTERNAL,        /* 500 */
    API_UNAVAILABLE,     /* 503: not ready, draining, the model is gone */
    API_TIMEOUT,         /* 504 */
    API_FAULT_COUNT
};

/* Fills *err; param NULL or empty: null. Always returns -1, so that `return api_error_set(...)`
 * reads well. err must not be NULL. */
int api_error_set(struct api_error *err, enum api_fault fault, const char *param, const char *fmt,
                  ...) PRINTF_LIKE(4, 5);
/* API_NOT_FOUND of a path. Returns -1. */
int api_error_no_path(struct api_error *err);
/* API_UNAVAILABLE for want of memory. Returns -1. */
int api_error_out_of_memory(struct api_error *err);
/* Of a client whose stream another one has now, or has ended. */
void api_error_stream_taken(struct api_error *err);
/* Appends ,"n_prompt_tokens":..,"n_ctx":.. where err tells them. */
void api_error_add_context(const struct api_error *err, struct buf *out);
/* Appends {"error":{"message":..,"type":..,"param":..,"code":..}}, and what api_error_add_context does. */
void api_error_write(const struct api_error *err, struct buf *out);

#endif
