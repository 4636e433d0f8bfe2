/*
 * page.h - the chat page at /: one HTML file that talks to this gateway's own API, from the browser of whoever opens
 * it.
 *
 * It holds nothing secret and loads nothing from elsewhere; a Content-Security-Policy says so to the browser.
 */
#ifndef GATEWAY_PAGE_H
#define GATEWAY_PAGE_H

#include "http/http_server.h"

void page_respond(struct http_request *req);

#endif
