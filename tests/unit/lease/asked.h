/*
 * asked.h - a server for engines of leases, in place of formats/hub/http.c: what is asked is written down, and the
 * answers are those that a test has put in line. Included by one source of a program.
 */
#ifndef TESTS_UNIT_LEASE_ASKED_H
#define TESTS_UNIT_LEASE_ASKED_H

#include "base/buf.h"
#include "check.h"
#include "formats/hub/http.h"

#include <stdio.h>

enum { ANSWERS_MAX = 32 };

static struct {
    struct answer {
        long status; /* 0: none comes */
        const char *body;
    } answers[ANSWERS_MAX];
    size_t count, at;
    /* "METHOD URL", " AUTHORIZATION" where there is one, "\nBODY" where there is one, "\n" */
    char log[8192];
    char origin[128], token[64], trust[128], identity[128]; /* of the client that was made last */
    int clients;                                            /* that are not freed */
    int waits;
    long limit_ms, patience_s;
    struct hub_request *running;
} server;

/* Nothing is in line, and nothing was asked. */
static void server_reset(void) {
    int clients = server.clients;
    memset(&server, 0, sizeof server);
    server.clients = clients;
}

/* In line behind the others. Borrowed. */
static void will_answer(long status, const char *body) {
    CHECK(server.count < ANSWERS_MAX);
    server.answers[server.count++] = (struct answer){status, body};
}

/* True when all was asked that has an answer in line, and this; the log is empty then. */
static bool was_asked(const char *log) {
    bool same = !strcmp(server.log, log) && server.at == server.count;
    if (!same)
        printf("asked:\n%s%zu of %zu answers\n", server.log, server.at, server.count);
    server.log[0] = 0;
    server.at = server.count = 0;
    return same;
}

static void write_down(const char *text, size_t len) {
    size_t at = strlen(server.log);
    CHECK(at + len < sizeof server.log);
    memcpy(server.log + at, text, len);
    server.log[at + len] = 0;
}

static void write_down_text(const char *text) {
    write_down(text, strlen(text));
}

/* --- in place of http.c's --- */

struct hub_http {
    int unused;
};

int hub_http_new(struct hub_http **out, const char *origin, const char *token, long patience_s,
                 struct error *err) {
    (void)err;
    snprintf(server.origin, sizeof server.origin, "%s", origin);
    snprintf(server.token, sizeof server.token, "%s", token ? token : "");
    server.trust[0] = 0;
    server.patience_s = patience_s;
    server.clients++;
    *out = mem_calloc(1, sizeof **out);
    return 0;
}

void hub_http_trust(struct hub_http *http, const char *certificates) {
    (void)http;
    snprintf(server.trust, sizeof server.trust, "%s", certificates);
}

void hub_http_identify(struct hub_http *http, const char *certificate, const char *key) {
    (void)http;
    snprintf(server.identity, sizeof server.identity, "%s %s", certificate ? certificate : "-",
             key ? key : "-");
}

void hub_http_free(struct hub_http **http) {
    if (*http)
        server.clients--;
    mem_free(*http);
    *http = NULL;
}

void hub_http_start(struct hub_http *http, struct hub_request *r) {
    CHECK(http && !server.running);
    server.running = r;
    server.waits = 0;
    server.limit_ms = r->limit_ms;
    write_down_text(r->method ? r->method : r->post.len ? "POST" : "GET");
    write_down_text(" ");
    write_down_text(r->url);
    if (r->authorization) {
        write_down_text(" ");
        write_down_text(r->authorization);
    }
    if (r->post.len) {
        write_down_text("\n");
        write_down((const char *)r->post.data, r->post.len);
    }
    write_down_text("\n");
}

/* The answer is there at the second call, in two pieces. */
struct hub_request *hub_http_wait(struct hub_http *http, int wait_ms) {
    struct hub_request *r = server.running;
    const struct answer none = {0, ""};
    CHECK(http && r && wait_ms > 0);
    if (!server.waits++)
        return NULL;
    const struct answer *a =
        server.at < server.count ? &server.answers[server.at] : &none; /* nobody was expected */
    server.at++;
    bool good = a->status == 200 || a->status == 201;
    const uint8_t *body = (const uint8_t *)a->body;
    size_t len = good ? strlen(a->body) : 0, half = len / 2;
    server.running = NULL;
    r->status = a->status;
    r->outcome = good                                                     ? HUB_OK
                 : !a->status || a->status == 429 || a->status / 100 == 5 ? HUB_LATER
                                                                          : HUB_REFUSED;
    if (!good)
        error_set(&r->why, ERR_AGAIN, "it answers %ld", a->status);
    if (good && !(r->take_body(r->ctx, r, body, half) &&
                  r->take_body(r->ctx, r, body + half, len - half))) {
        r->outcome = HUB_REJECTED;
        error_set(&r->why, ERR_LIMIT, "it is too long");
    }
    return r;
}

#endif
