/* The small port of a process without a public one: what each path answers. */
#include "http/admin.h"

#include "base/metrics.h"
#include "check.h"
#include "wire.h"

#include <stdio.h>

static struct error err;
static _Atomic bool is_ready;
static _Atomic int asked;

static bool ready(void *ctx) {
    asked++;
    return ctx == &is_ready && is_ready;
}

static const struct http_admin_config CONFIG = {
    .host = "127.0.0.1", .version = "1.2.3", .ready = ready, .ctx = &is_ready};

/* One request on a connection of its own: all that is answered. */
static bool exchange(const struct http_admin *admin, const char *line, const char *body,
                     struct buf *in) {
    char text[6000];
    snprintf(text, sizeof text,
             "%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", line,
             strlen(body), body);
    buf_reset(in);
    int fd = wire_connect(http_admin_port(admin), 0);
    bool ok = fd >= 0 && wire_send(fd, text) && wire_read_all(fd, in);
    close(fd);
    return ok;
}

static struct metric metrics[] = {{.name = "admin_test_total", .help = "Of a test."}};

TEST(admin_answers_each_path) {
    static const struct {
        const char *line;
        bool ready;
        int status, asked;
        const char *type, *body;
    } ROWS[] = {
        {"GET /health/live", false, 200, 0, "text/plain; charset=utf-8", "live\n"},
        {"GET /health", false, 200, 0, "text/plain; charset=utf-8", "live\n"},
        {"GET /health/ready", true, 200, 1, "text/plain; charset=utf-8", "ready\n"},
        {"GET /health/ready", false, 503, 1, "text/plain; charset=utf-8", "not ready\n"},
        {"GET /version", false, 200, 0, "application/json", "{\"version\":\"1.2.3\"}"},
        {"GET /version?x=1", false, 200, 0, "application/json", "{\"version\":\"1.2.3\"}"},
        {"GET /", true, 404, 0, "text/plain; charset=utf-8", "not found\n"},
        {"GET /health/", true, 404, 0, "text/plain; charset=utf-8", "not found\n"},
        {"GET /health%2Flive", true, 404, 0, "text/plain; charset=utf-8", "not found\n"},
        {"GET /%76ersion", true, 200, 0, "application/json", "{\"version\":\"1.2.3\"}"},
        {"GET /versions", true, 404, 0, "text/plain; charset=utf-8", "not found\n"},
        {"HEAD /health/ready", true, 200, 1, "text/plain; charset=utf-8", ""},
        {"HEAD /health/ready", false, 503, 1, "text/plain; charset=utf-8", ""},
        {"POST /health", true, 405, 0, "text/plain; charset=utf-8", "method not allowed\n"},
        {"DELETE /metrics", true, 405, 0, "text/plain; charset=utf-8", "method not allowed\n"},
    };
    struct http_admin *admin = NULL;
    struct buf in;
    char want[200];
    buf_init(&in, 0);
    EXPECT_EQ(http_admin_start(&admin, &CONFIG, &err), 0);
    EXPECT(http_admin_port(admin) > 0);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        is_ready = ROWS[i].ready;
        asked = 0;
        EXPECT(exchange(admin, ROWS[i].line, "", &in));
        const char *body = strstr(buf_text(&in), "\r\n\r\n");
        snprintf(want, sizeof want, "Content-Type: %s\r\n", ROWS[i].type);
        if (atoi(buf_text(&in) + 9) != ROWS[i].status || asked != ROWS[i].asked || !body ||
            strcmp(body + 4, ROWS[i].body) || !strstr(buf_text(&in), want))
            check_fail(__FILE__, __LINE__, "row %zu: '%s'", i, buf_text(&in));
    }
    http_admin_end(&admin);
    EXPECT(!admin);
    http_admin_end(&admin); /* nothing to end */
    buf_release(&in);
}

TEST(admin_shows_the_metrics_of_the_process) {
    struct http_admin *admin = NULL;
    struct buf in;
    buf_init(&in, 0);
    metrics_register(metrics, ARRAY_LEN(metrics));
    metric_add(&metrics[0], 41);
    EXPECT_EQ(http_admin_start(&admin, &CONFIG, &err), 0);
    EXPECT(exchange(admin, "GET /metrics", "", &in));
    EXPECT(!strncmp(buf_text(&in), "HTTP/1.1 200 ", 13));
    EXPECT(strstr(buf_text(&in), "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    EXPECT(strstr(buf_text(&in), "\nadmin_test_total 41\n"));
    http_admin_end(&admin);
    buf_release(&in);
}

TEST(admin_takes_small_bodies_alone) {
    static char body[4098];
    struct http_admin *admin = NULL;
    struct buf in;
    buf_init(&in, 0);
    memset(body, 'x', 4096);
    EXPECT_EQ(http_admin_start(&admin, &CONFIG, &err), 0);
    EXPECT(exchange(admin, "POST /health", body, &in));
    EXPECT(!strncmp(buf_text(&in), "HTTP/1.1 405 ", 13));
    body[4096] = 'x';
    EXPECT(exchange(admin, "POST /health", body, &in));
    EXPECT(!strncmp(buf_text(&in), "HTTP/1.1 413 ", 13));
    http_admin_end(&admin);
    buf_release(&in);
}

/* As many connections as it has, each from another address, and not one more. */
TEST(admin_has_sixty_four_connections) {
    struct http_admin *admin = NULL;
    struct buf in;
    int fds[65], served = 0;
    buf_init(&in, 0);
    EXPECT_EQ(http_admin_start(&admin, &CONFIG, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = wire_connect_from(http_admin_port(admin), 0, INADDR_LOOPBACK + 1 + (uint32_t)i);
        EXPECT(fds[i] >= 0 && wire_send(fds[i], "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"));
        buf_reset(&in);
        served += wire_read_until(fds[i], &in, "live\n");
    }
    EXPECT_EQ(served, 64);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        close(fds[i]);
    http_admin_end(&admin);
    buf_release(&in);
}

TEST(admin_says_why_it_cannot_listen) {
    struct http_admin *first = NULL, *second = NULL;
    struct http_admin_config config = CONFIG;
    EXPECT_EQ(http_admin_start(&first, &CONFIG, &err), 0);
    config.port = http_admin_port(first);
    err = (struct error){0};
    int rc = http_admin_start(&second, &config, &err);
    EXPECT(rc < 0 && rc == err.code && !second);
    char port[8];
    snprintf(port, sizeof port, "%u", config.port);
    EXPECT(strstr(err.text, port));
    http_admin_end(&first);
    EXPECT_EQ(http_admin_start(&second, &config, &err), 0); /* it is free again */
    EXPECT_EQ(http_admin_port(second), config.port);
    http_admin_end(&second);
}
