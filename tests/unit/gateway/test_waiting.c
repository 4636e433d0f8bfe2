/* Requests that are refused, that wait, or that are too late, and what the probes say meanwhile. */
#include "world.h"

#include "gateway/calls/health.h"
#include "gateway/generation/event_thread.h"
#include "gateway/watch/gateway_metrics.h"

static bool is_made(struct world *w) {
    return client_status(w->port, "/health/e2e") == 200;
}

static bool is_not_made(struct world *w) {
    return client_status(w->port, "/health/e2e") == 503;
}

static bool is_not_ready(struct world *w) {
    return client_status(w->port, "/health/ready") == 503;
}

TEST(past_the_bound_is_429_with_retry_after) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.waiting_max = 1;
    EXPECT(world_start(&w));
    int fd =
        client_open(w.port, "POST", "/v1/completions", NULL,
                    "{\"prompt\":\"a\",\"max_tokens\":100000,\"ignore_eos\":true,\"stream\":true}");
    while (is_empty(&w))
        sleep_ms(1);
    POST(&w, "{\"prompt\":\"b\",\"max_tokens\":5,\"stream\":true}", &a);
    EXPECT_EQ(a.status, 429);
    EXPECT(strstr(buf_text(&a.raw), "Retry-After: 2\r\n"));
    EXPECT(strstr(buf_text(&a.body), "\"rate_limit_exceeded\""));
    answer_release(&a);
    close(fd);
    world_end(&w);
}

static bool load_is(struct world *w, int count) {
    struct answer a;
    char want[64];
    snprintf(want, sizeof want, "{\"server_load\":%d}\n", count);
    client_request(w->port, "GET", "/load", NULL, NULL, &a);
    bool same = a.status == 200 && !strcmp(buf_text(&a.body), want);
    answer_release(&a);
    return same;
}
static bool load_is_none(struct world *w) {
    return load_is(w, 0);
}

TEST(props_tell_the_context_of_the_model) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.max_context = 777;
    EXPECT(world_start(&w));
    client_request(w.port, "GET", "/props", NULL, NULL, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(strstr(buf_text(&a.body), "\"n_ctx\":777"));
    EXPECT(strstr(buf_text(&a.body), "\"model_alias\":"));
    answer_release(&a);
    world_end(&w);
}

TEST(load_counts_open_requests) {
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    EXPECT(load_is_none(&w));
    int fd =
        client_open(w.port, "POST", "/v1/completions", NULL,
                    "{\"prompt\":\"a\",\"max_tokens\":100000,\"ignore_eos\":true,\"stream\":true}");
    while (is_empty(&w))
        sleep_ms(1);
    EXPECT(load_is(&w, 1));
    close(fd);
    EXPECT(wait_until(load_is_none, &w));
    world_end(&w);
}

TEST(requests_wait_for_a_scheduler) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    EXPECT(world_gateway(&w));
    EXPECT_EQ(client_status(w.port, "/health/ready"), 503);
    EXPECT_EQ(client_status(w.port, "/health/e2e"), 503);
    EXPECT_EQ(client_status(w.port, "/health/live"), 200);
    int fd = client_open(w.port, "POST", "/v1/completions", NULL,
                         "{\"prompt\":\"a\",\"max_tokens\":5,\"ignore_eos\":true}");
    sleep_ms(300);
    EXPECT(world_fake(&w));
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT_EQ(a.completion_tokens, 5);
    answer_release(&a);
    world_end(&w);
}

TEST(waiting_has_an_end) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.model_wait_ms = 200;
    EXPECT(world_gateway(&w));
    POST(&w, "{\"prompt\":\"a\"}", &a);
    EXPECT_EQ(a.status, 503);
    EXPECT(strstr(buf_text(&a.raw), "Retry-After: 1\r\n"));
    answer_release(&a);
    world_end(&w);
}

TEST(a_request_past_its_time_is_504) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.request_timeout_ms = 300;
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":\"a\",\"max_tokens\":100000,\"ignore_eos\":true}", &a);
    EXPECT_EQ(a.status, 504);
    answer_release(&a);
    POST(&w, "{\"prompt\":\"a\",\"max_tokens\":100000,\"ignore_eos\":true,\"stream\":true}", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(a.error_event && a.done);
    answer_release(&a);
    EXPECT(wait_until(is_empty, &w));
    world_end(&w);
}

TEST(probes_tell_the_truth) {
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    EXPECT_EQ(client_status(w.port, "/health/e2e"), 200);
    w.gw->settings.probe_ms = 300;
    fake_set_stepping(w.fake, false); /* ready says nothing of it, end to end does */
    EXPECT(wait_until(is_not_made, &w));
    EXPECT_EQ(client_status(w.port, "/health/ready"), 200);
    fake_set_stepping(w.fake, true);
    EXPECT(wait_until(is_made, &w));
    fake_set_ready(w.fake, false);
    EXPECT(wait_until(is_not_ready, &w));
    EXPECT_EQ(client_status(w.port, "/health/e2e"), 503);
    EXPECT_EQ(client_status(w.port, "/health/live"), 200);
    fake_set_ready(w.fake, true);
    EXPECT(wait_until(is_ready, &w));
    fake_kill(&w.fake);
    EXPECT(wait_until(is_not_ready, &w));
    world_end(&w);
}

static bool is_registered(struct world *w) {
    return client_status(w->port, "/v1/models/fake") == 200;
}

/* Workers that have registered may be unable to compute. */
TEST(ready_comes_from_a_token_that_was_made) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.hangs = true; /* from its first message on */
    EXPECT(world_fake(&w));
    EXPECT(world_gateway(&w) && wait_until(is_registered, &w));
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(client_status(w.port, "/health/ready"), 503);
        sleep_ms(50);
    }
    client_request(w.port, "GET", "/health/ready", NULL, NULL, &a);
    EXPECT(strstr(buf_text(&a.raw), "no token has been made yet"));
    answer_release(&a);
    fake_set_stepping(w.fake, true);
    EXPECT(wait_until(is_ready, &w));
    fake_kill(&w.fake);
    EXPECT(wait_until(is_not_ready, &w));
    EXPECT(world_fake(&w)); /* the next has to make one, too */
    EXPECT(wait_until(is_registered, &w));
    sleep_ms(300);
    EXPECT_EQ(client_status(w.port, "/health/ready"), 503);
    fake_set_stepping(w.fake, true);
    EXPECT(wait_until(is_ready, &w));
    world_end(&w);
}

/* While clients get tokens nobody needs to ask for one, and nobody gives way to who asks. */
TEST(tokens_of_clients_are_proof_enough) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.step_us = 5000;
    EXPECT(world_start(&w));
    int fd =
        client_open(w.port, "POST", "/v1/completions", NULL,
                    "{\"prompt\":\"a\",\"max_tokens\":500,\"ignore_eos\":true,\"stream\":true}");
    sleep_ms(100);
    uint64_t submits = fake_counts(w.fake).submits;
    for (int i = 0; i < 16; i++) {
        EXPECT_EQ(client_status(w.port, "/health/e2e"), 200);
        sleep_ms(HEALTH_FRESH_MS / 4);
    }
    EXPECT(fake_counts(w.fake).submits <= submits + 1); /* one where this machine stood still */
    submits = fake_counts(w.fake).submits;
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT(a.done);
    answer_release(&a);
    EXPECT_EQ(client_status(w.port, "/health/e2e"), 200);
    sleep_ms(HEALTH_FRESH_MS + 50);
    EXPECT_EQ(client_status(w.port, "/health/e2e"), 200); /* now one was made for it */
    EXPECT(fake_counts(w.fake).submits > submits);
    world_end(&w);
}

TEST(who_waits_for_a_probe_is_told_on_every_thread) {
    enum { ASKERS = 6 };
    struct world w;
    struct answer a;
    int fds[ASKERS];
    world_prepare(&w);
    w.settings.threads = 3;
    EXPECT(world_start(&w));
    w.gw->settings.probe_ms = 300;
    fake_set_stepping(w.fake, false);
    EXPECT(wait_until(is_not_made, &w));
    sleep_ms(HEALTH_FRESH_MS + 100); /* one probe runs from here on, on one of the threads */
    for (int i = 0; i < ASKERS; i++)
        fds[i] = client_open(w.port, "GET", "/health/e2e", NULL, NULL);
    for (int i = 0; i < ASKERS; i++) {
        answer_init(&a);
        client_finish(fds[i], &a);
        EXPECT_EQ(a.status, 503);
        answer_release(&a);
    }
    fake_set_stepping(w.fake, true);
    world_end(&w);
}

TEST(silence_is_filled_with_comments) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.ping_ms = 150;
    EXPECT(world_start(&w));
    fake_set_stepping(w.fake, false);
    int fd = client_open(w.port, "POST", "/v1/completions", NULL,
                         "{\"prompt\":\"a\",\"max_tokens\":5,\"ignore_eos\":true,\"stream\":true}");
    sleep_ms(1500);
    fake_set_stepping(w.fake, true);
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT(a.pings >= 2);
    EXPECT(a.done);
    EXPECT_STR(a.finish[0], "length");
    answer_release(&a);
    world_end(&w);
}

static bool has_answer(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* Two hundred requests wait for a scheduler that does not come, and a turn looks at one of them: the
 * time that each may take is over long before two hundred ticks are. */
TEST(a_round_is_no_longer_than_its_turns) {
    enum { WAITING = 200, LATE_MS = WAITING * EVENT_THREAD_TICK_MS / 2 };
    static int fds[WAITING];
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.threads = 1;
    w.settings.visits_max = 1;
    w.settings.request_timeout_ms = 500;
    EXPECT(world_gateway(&w));
    int64_t began_ms = clock_ms();
    for (uint32_t i = 0; i < WAITING; i++)
        fds[i] = client_open(w.port, "POST", "/v1/completions", NULL, "{\"prompt\":\"a\"}");
    for (uint32_t i = 0; i < WAITING; i++)
        while (!has_answer(fds[i]) && clock_ms() - began_ms < LATE_MS)
            sleep_ms(1);
    EXPECT(clock_ms() - began_ms < LATE_MS);
    for (uint32_t i = 0; i < WAITING; i++) {
        answer_init(&a);
        client_finish(fds[i], &a);
        EXPECT_EQ(a.status, 504);
        answer_release(&a);
    }
    world_end(&w);
}
