/*
 * page.h - the chat page at /: files of gateway/page/ that the program holds, and that talk to this
 * gateway's own API from the browser of whoever opens them.
 *
 * They hold nothing secret and load nothing from elsewhere; a Content-Security-Policy says so to
 * the browser. Each file has a strong ETag (RFC 9110 8.8.3) and is sent compressed to clients that
 * take gzip. The libraries among them are those of page/libraries.txt, where the build found them.
 */
#ifndef GATEWAY_PAGE_PAGE_H
#define GATEWAY_PAGE_PAGE_H

#include "http/http_server.h"

/* Responds with the page (name empty) or one of its files ("main.js", "lib/marked.js"), or with 304
 * where the client has it. False, and nothing is sent, when there is no such file; else the request
 * has ended. */
MUST_CHECK bool page_respond(struct http_request *req, struct bytes name);

/* Whether a client that sends this Accept-Encoding (RFC 9110 12.5.3; data NULL: none) takes gzip:
 * it names gzip or "*", and not with a weight of 0. */
bool page_takes_gzip(struct bytes accept);

/* Whether If-None-Match (RFC 9110 13.1.2; data NULL: none) has the tag, in quotes, or is "*". */
bool page_has_tag(struct bytes header, const char *tag);

#endif
