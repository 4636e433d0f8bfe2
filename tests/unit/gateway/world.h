/*
 * world.h - a whole gateway against a fake scheduler over a real link, for tests that ask it by real
 * sockets.
 */
#ifndef TESTS_UNIT_GATEWAY_WORLD_H
#define TESTS_UNIT_GATEWAY_WORLD_H

#include "client.h"

#include "base/fsutil.h"
#include "base/log.h"
#include "check.h"
#include "fake_scheduler.h"
#include "gateway/gateway.h"
#include "gateway/gateway_main.h"

struct world {
    char dir[64], endpoint[128];
    struct fake_config fake_config;
    struct fake_scheduler *fake;
    struct gateway_settings defaults, settings; /* the second: changed by tests */
    struct gateway *gw;
    uint16_t port;
};

static inline void world_prepare(struct world *w) {
    static char *no_args[] = {(char *)"gateway"};
    struct error err;
    size_t positional;
    memset(w, 0, sizeof *w);
    snprintf(w->dir, sizeof w->dir, "/tmp/trireme-gw-XXXXXX");
    CHECK(mkdtemp(w->dir));
    snprintf(w->endpoint, sizeof w->endpoint, "ipc://%s/s", w->dir);
    fake_config_init(&w->fake_config);
    w->fake_config.endpoint = w->endpoint;
    w->fake_config.model_dir = TRIREME_SOURCE_DIR "/demo/model";
    w->fake_config.step_us = 1000;
    CHECK(option_parse(&gateway_options, &w->defaults, 1, no_args, NULL, 0, &positional, &err) ==
          OPTION_RUN);
    w->settings = w->defaults;
    w->settings.scheduler = w->endpoint;
    w->settings.port = 0;
    /* The fake ends a sequence by its seed: with drawn ones an answer of three tokens is cut short in
     * one of two hundred runs. */
    w->settings.seed = 1;
    log_init("test", LOG_ERROR, false);
}

/* That things happen is tested here; how soon, by the end-to-end tests: a busy machine shall not
 * fail these. */
enum { PATIENCE_MS = 30000 };

static inline bool wait_until(bool (*is_true)(struct world *), struct world *w) {
    int64_t end_ms = clock_ms() + PATIENCE_MS;
    while (!is_true(w))
        if (clock_ms() > end_ms)
            return false;
        else
            sleep_ms(5);
    return true;
}

static inline bool is_ready(struct world *w) {
    return client_status(w->port, "/health/ready") == 200;
}
/* No sequence is left at the fake. */
static inline bool is_empty(struct world *w) {
    return fake_counts(w->fake).sequences == 0;
}

static inline bool world_fake(struct world *w) {
    struct error err;
    w->fake = fake_start(&w->fake_config, &err);
    if (!w->fake)
        fprintf(stderr, "%s\n", err.text);
    return w->fake != NULL;
}

static inline bool world_gateway(struct world *w) {
    struct error err;
    if (gateway_new(&w->gw, &w->settings, &err))
        return false;
    w->port = gateway_port(w->gw);
    return true;
}

/* Ready, and nothing is left of the request that showed it. */
static inline bool world_start(struct world *w) {
    return world_fake(w) && world_gateway(w) && wait_until(is_ready, w) && wait_until(is_empty, w);
}

static inline void world_end(struct world *w) {
    char path[128];
    gateway_free(&w->gw);
    fake_kill(&w->fake);
    option_free(&gateway_options, &w->defaults);
    snprintf(path, sizeof path, "%s/s", w->dir);
    unlink(path);
    rmdir(w->dir);
}

/* ---- a model that echoes ---- */

/* A model that says what the last message says; the comment shows the marks that choose the
 * parsers. */
#define ECHO_TEMPLATE                                                                              \
    "{# tool <tool_call> </think> #}{% if open is defined %}<think>{% endif %}"                    \
    "{{ messages[-1]['content'] }}"

static inline void world_echo(struct world *w, const char *template) {
    struct error err;
    static char path[96];
    world_prepare(w);
    snprintf(path, sizeof path, "%s/t", w->dir);
    CHECK(file_write_atomic(path, template, strlen(template), 0600, &err) == 0);
    w->fake_config.echo = true;
    w->settings.chat_template = path;
}

static inline void world_echo_end(struct world *w) {
    unlink(w->settings.chat_template);
    world_end(w);
}

/* Posts, and expects this status. Returns owned: the answer's JSON. */
static inline cJSON *world_ask(struct world *w, const char *path, const char *body, int status) {
    struct answer a;
    client_request(w->port, "POST", path, NULL, body, &a);
    if (a.status != status)
        check_fail(__FILE__, __LINE__, "%s %s: %d %s", path, body, a.status, buf_text(&a.body));
    cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
    answer_release(&a);
    return json;
}

/* Posts these fields twice, for an answer in one piece and for a stream; expects both to be answered. */
static inline void world_ask_both(struct world *w, const char *path, const char *fields,
                                  struct answer *whole, struct answer *streamed) {
    struct buf body = {0};
    buf_addf(&body, "{%s}", fields);
    client_request(w->port, "POST", path, NULL, buf_text(&body), whole);
    buf_reset(&body);
    buf_addf(&body, "{\"stream\":true,%s}", fields);
    client_request(w->port, "POST", path, NULL, buf_text(&body), streamed);
    EXPECT_EQ(whole->status, 200);
    EXPECT_EQ(streamed->status, 200);
    buf_release(&body);
}

#define POST(w, body, a) client_request((w)->port, "POST", "/v1/completions", NULL, body, a)
#define CHAT(w, content, more, a)                                                                  \
    client_request((w)->port, "POST", "/v1/chat/completions", NULL,                                \
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"" content "\"}]" more "}", a)
#define TOOL ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]"

#endif
