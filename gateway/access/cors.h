/*
 * cors.h - which web pages may read this server's responses from a browser (Fetch standard,
 * section "CORS protocol").
 *
 * Without configured origins no response has a field of CORS, so a browser lets no page of another
 * origin read it: a server on a desktop answers no page that happens to be open there. Keys are not
 * cookies, so nothing here allows credentials.
 *
 * Threading: const after cors_init.
 */
#ifndef GATEWAY_ACCESS_CORS_H
#define GATEWAY_ACCESS_CORS_H

#include "base/error.h"
#include "http/http_server.h"

enum { CORS_ORIGINS_MAX = 256, CORS_FIELDS_MAX = 3, CORS_PREFLIGHT_FIELDS_MAX = 4 };

struct cors {
    char **origins; /* owned */
    size_t count;
    bool any; /* "*" */
};

/* list: origins "scheme://host[:port]" with commas between, or "*" for every page; NULL or empty:
 * none. 0, or ERR_INVALID or ERR_LIMIT with *err filled. */
MUST_CHECK int cors_init(struct cors *cors, const char *list, struct error *err);
/* Frees the origins; a zeroed one is fine. */
void cors_release(struct cors *cors);
/* May pages of this origin read responses? Not when it is empty. */
bool cors_allows(const struct cors *cors, struct bytes origin);
/* The fields that every response to req has: CORS_FIELDS_MAX at most, their count is returned.
 * Texts are borrowed from cors. */
size_t cors_fields(const struct cors *cors, const struct http_request *req,
                   struct http_field *fields);
/* The further fields of the response to a preflight for a path that takes `methods`: none when req
 * is no preflight of an origin that is allowed. The names of fields that the page wants to send are
 * allowed as they were asked for; they are put into `names`, which the caller keeps. */
size_t cors_preflight_fields(const struct cors *cors, const struct http_request *req,
                             const char *methods, struct buf *names, struct http_field *fields);

#endif
