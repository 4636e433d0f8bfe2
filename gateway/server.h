/*
 * server.h - routes: which path does what, and who may ask for it.
 *
 * The path is matched first, then the method, then the key: what is not marked open needs one when
 * keys are configured.
 */
#ifndef GATEWAY_SERVER_H
#define GATEWAY_SERVER_H

#include "http/http_server.h"

struct gateway;

/* Sets on_request, on_tick and ctx, and writes gw->openapi. */
void server_install(struct gateway *gw, struct http_config *config);

#endif
