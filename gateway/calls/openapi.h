/*
 * openapi.h - GET /openapi.json: what this server takes, made from the routes and the tables of
 * fields that check requests (field.h), so that it cannot say anything else than they do.
 *
 * A field with a reader of its own is described as any value. Source: OpenAPI 3.1.
 *
 * Threading: pure.
 */
#ifndef GATEWAY_CALLS_OPENAPI_H
#define GATEWAY_CALLS_OPENAPI_H

#include "gateway/answers/error_response.h"
#include "gateway/fields/field.h"
#include "http/http_types.h"

struct openapi_call {
    const char *path; /* ending in '/': something follows */
    enum http_method method;
    bool open;                      /* asks for no key */
    const struct field_set *fields; /* of its body; NULL: it has none that is described */
    enum error_shape shape;         /* of its errors, */
    bool tgi_too;                   /* or TGI's, where the body is one of TGI's */
};

/* Appends the document of all calls; those of one path need not stand together. */
void openapi_write(const struct openapi_call *calls, size_t count, struct buf *out);

#endif
