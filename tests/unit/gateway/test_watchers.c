/* Places of clients that are told of others' work: whoever takes many leaves others theirs. */
#include <poll.h>

#include "check.h"
#include "client.h"
#include "gateway/calls/health.h"
#include "world.h"

#define ONE "Authorization: Bearer one\r\n"
#define TWO "Authorization: Bearer two\r\n"

enum { CLOSED = 5 };

/* The status of an answer that may go on for ever. */
static int status_of(int fd) {
    char head[16] = "";
    for (size_t at = 0; at < sizeof "HTTP/1.1 200" - 1;) {
        ssize_t n = read(fd, head + at, sizeof "HTTP/1.1 200" - 1 - at);
        if (n <= 0)
            return 0;
        at += (size_t)n;
    }
    return atoi(head + sizeof "HTTP/1.1");
}

/* How many of `count` that ask one after the other are let in; *fds: all of them. */
static int let_in(struct world *w, const char *path, const char *key, int *fds, int count) {
    int in = 0;
    for (int i = 0; i < count; i++) {
        fds[i] = client_open(w->port, "GET", path, key, NULL);
        int status = status_of(fds[i]);
        in += status == 200;
        CHECK(status == 200 || status == 429);
    }
    return in;
}

static void close_all(const int *fds, int count) {
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static void watch_with_keys(struct world *w, uint64_t places) {
    w->settings.api_key = "one,two";
    w->settings.watchers_max = places;
}

static bool key_one_finds_four(struct world *w) {
    int fds[4];
    int in = let_in(w, "/models/sse", ONE, fds, 4);
    close_all(fds, 4);
    return in == 4;
}

TEST(models_are_followed_by_every_key) {
    struct world w;
    int one[CLOSED], two[CLOSED];
    world_prepare(&w);
    watch_with_keys(&w, 4);
    EXPECT(world_start(&w));
    EXPECT_EQ(let_in(&w, "/models/sse", ONE, one, 5), 4);
    EXPECT_EQ(let_in(&w, "/models/sse", TWO, two, 3), 2);
    close_all(one, 5);
    close_all(two, 3);
    EXPECT(wait_until(key_one_finds_four, &w)); /* all places came back */
    world_end(&w);
}

#define BACKGROUND                                                                                 \
    "{\"input\":\"a\",\"max_output_tokens\":16,\"background\":true,"                               \
    "\"stream\":true}"

static int begin_response(struct world *w, const char *key, int *status) {
    int fd = client_open(w->port, "POST", "/v1/responses", key, BACKGROUND);
    *status = status_of(fd);
    return fd;
}

/* The path of the response whose first event comes here. */
static void read_path(int fd, char path[128]) {
    struct buf head = {0};
    char bytes[512];
    const char *at = NULL;
    while (!at || strlen(at) < 60) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        CHECK(n > 0);
        buf_add(&head, bytes, (size_t)n);
        at = strstr(buf_text(&head), "X-Request-Id: resp_");
    }
    snprintf(path, 128, "/v1/responses/%.37s?stream=true", at + 14);
    buf_release(&head);
}

static bool is_done(struct world *w) {
    return atomic_load(&w->gw->open_count) == 0;
}

TEST(responses_are_followed_by_every_key) {
    struct world w;
    int fds[5], more[2], status;
    char path[128];
    world_prepare(&w);
    watch_with_keys(&w, 2);
    EXPECT(world_start(&w));
    fake_set_stepping(w.fake, false);
    fds[0] = begin_response(&w, ONE, &status);
    EXPECT_EQ(status, 200);
    read_path(fds[0], path);
    EXPECT_EQ(let_in(&w, path, ONE, more, 2), 1);
    fds[1] = begin_response(&w, ONE, &status);
    EXPECT_EQ(status, 429);
    fds[2] = begin_response(&w, TWO, &status);
    EXPECT_EQ(status, 200);
    fds[3] = begin_response(&w, TWO, &status);
    EXPECT_EQ(status, 429);
    fake_set_stepping(w.fake, true);
    EXPECT(wait_until(is_done, &w)); /* what was refused does not run on */
    for (int i = 0; i < 4; i++) {
        struct answer a;
        answer_init(&a);
        client_finish(fds[i], &a); /* each has ended */
        answer_release(&a);
    }
    close_all(more, 2);
    EXPECT_EQ(let_in(&w, path, ONE, more, 2), 2); /* it has ended, so each is read at once */
    close_all(more, 2);
    world_end(&w);
}

static int ask_from(struct world *w, uint32_t address) {
    return client_open_from(w->port, address, "GET", "/health/e2e", NULL, NULL);
}

/* A crowd at the probe, which anybody may ask: who looks after the server is told. */
TEST(the_probe_answers_every_address) {
    enum { CROWD = 6, PLACES = 4 };
    struct world w;
    struct pollfd fds[CROWD + 1];
    int refused = 0, told = 0;
    world_prepare(&w);
    w.settings.watchers_max = PLACES;
    w.settings.probe_ms = 2 * PATIENCE_MS;
    EXPECT(world_start(&w));
    fake_set_stepping(w.fake, false);
    sleep_ms(HEALTH_FRESH_MS + 100);
    for (int i = 0; i < CROWD; i++)
        fds[i] = (struct pollfd){.fd = ask_from(&w, 0x7f000002), .events = POLLIN};
    while (refused < CROWD - PLACES) {
        int ready = poll(fds, CROWD, PATIENCE_MS);
        EXPECT(ready > 0);
        if (ready <= 0)
            break;
        for (int i = 0; i < CROWD; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            EXPECT_EQ(status_of(fds[i].fd), 503);
            close(fds[i].fd);
            fds[i].fd = -1;
            refused++;
        }
    }
    fds[CROWD] = (struct pollfd){.fd = ask_from(&w, INADDR_LOOPBACK), .events = POLLIN};
    EXPECT_EQ(poll(&fds[CROWD], 1, 200), 0); /* it waits as they do */
    fake_set_stepping(w.fake, true);
    for (int i = 0; i <= CROWD; i++) {
        if (fds[i].fd < 0)
            continue;
        told += status_of(fds[i].fd) == 200;
        close(fds[i].fd);
    }
    EXPECT_EQ(refused, CROWD - PLACES);
    EXPECT_EQ(told, PLACES + 1);
    world_end(&w);
}
