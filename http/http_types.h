/*
 * http_types.h - the words of HTTP that parser, server and handlers share: methods, header fields,
 * status texts.
 */
#ifndef HTTP_HTTP_TYPES_H
#define HTTP_HTTP_TYPES_H

#include "base/base.h"

/* The methods a handler can meet. CONNECT and TRACE are answered 405, every other token 501, before
 * any handler. */
enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_PATCH,
    HTTP_QUERY, /* a GET with a body; no path takes it, so it is answered 405 as the others are */
    HTTP_METHOD_COUNT
};
const char *http_method_text(enum http_method method); /* "GET", ... */

/* A header line: name as sent (compare without case), value without the white space around it.
 * Borrowed. */
struct http_header {
    struct bytes name, value;
};

/* "Not Found" for 404; "Unknown" for what is not in the table. */
const char *http_status_text(int status);

/* ASCII comparison without case, independent of the locale. */
bool http_name_equal(struct bytes name, const char *text);
/* True when the comma-separated list holds token (without case): "keep-alive, Upgrade" holds
 * "upgrade". */
bool http_list_has(struct bytes list, const char *token);
/* The first field called name (without case), or NULL. */
const struct http_header *http_header_find(const struct http_header *headers, size_t count,
                                           const char *name);
/* Finds name in a raw query string and decodes its value (%XX, + as space) into out,
 * zero-terminated. Returns the value's length, or -1 when it is absent, badly encoded, holds a zero
 * byte, or does not fit. */
int http_query_find(struct bytes query, const char *name, char *out, size_t out_size);

#endif
