#include "http/admin.h"

#include "base/metrics.h"
#include "http/http_server.h"

enum { ADMIN_CONNECTIONS = 64, ADMIN_BODY_BYTES = 4096 };

struct http_admin {
    struct http_admin_config config;
    struct http_server *server;
};

static void answer_text(struct http_request *req, int status, const char *text) {
    http_respond(req, status, "text/plain; charset=utf-8", NULL, 0, bytes_str(text));
}

static void answer_metrics(struct http_request *req) {
    struct buf out;
    buf_init(&out, 0);
    metrics_write(&out);
    http_respond(req, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, 0, buf_bytes(&out));
    buf_release(&out);
}

static void answer_version(struct http_request *req, const char *version) {
    struct buf out;
    buf_init(&out, 0);
    buf_addf(&out, "{\"version\":\"%s\"}", version);
    http_respond(req, 200, "application/json", NULL, 0, buf_bytes(&out));
    buf_release(&out);
}

static bool path_is(const struct http_request *req, const char *path) {
    return !req->escaped_slash && bytes_equal(req->path, bytes_str(path));
}

static void on_request(void *ctx, struct http_request *req) {
    struct http_admin *admin = ctx;
    if (req->method != HTTP_GET && req->method != HTTP_HEAD)
        answer_text(req, 405, "method not allowed\n");
    else if (path_is(req, "/health/live") || path_is(req, "/health"))
        answer_text(req, 200, "live\n");
    else if (path_is(req, "/health/ready")) {
        bool ready = admin->config.ready(admin->config.ctx);
        answer_text(req, ready ? 200 : 503, ready ? "ready\n" : "not ready\n");
    } else if (path_is(req, "/metrics"))
        answer_metrics(req);
    else if (path_is(req, "/version"))
        answer_version(req, admin->config.version);
    else
        answer_text(req, 404, "not found\n");
}

int http_admin_start(struct http_admin **out, const struct http_admin_config *config,
                     struct error *err) {
    struct http_admin *admin = mem_alloc(sizeof *admin);
    struct http_config http;
    admin->config = *config;
    http_config_init(&http);
    http.host = config->host;
    http.port = config->port;
    http.thread_count = 1;
    http.connections_max = ADMIN_CONNECTIONS;
    http.body_max_bytes = ADMIN_BODY_BYTES;
    http.ctx = admin;
    http.on_request = on_request;
    admin->server = http_server_new(&http, err);
    if (!admin->server || http_server_start(admin->server, err)) {
        int code = err && err->code ? err->code : ERR_IO;
        http_admin_end(&admin);
        return code;
    }
    *out = admin;
    return 0;
}

uint16_t http_admin_port(const struct http_admin *admin) {
    return http_server_port(admin->server);
}

void http_admin_end(struct http_admin **admin) {
    if (!*admin)
        return;
    if ((*admin)->server)
        http_server_free(&(*admin)->server);
    mem_free(*admin);
    *admin = NULL;
}
