/* The whole gateway against a fake scheduler over a real link, asked by real sockets. */
#include "world.h"

#include "gateway/gateway_metrics.h"
#include "gateway/health.h"
#include "text/tokenizer/detokenizer.h"

static bool is_unready(struct world *w) {
    return !is_ready(w);
}
static bool is_made(struct world *w) {
    return client_status(w->port, "/health/e2e") == 200;
}
static bool is_not_made(struct world *w) {
    return client_status(w->port, "/health/e2e") == 503;
}
static bool is_not_ready(struct world *w) {
    return client_status(w->port, "/health/ready") == 503;
}
static bool is_empty(struct world *w) {
    return fake_counts(w->fake).sequences == 0;
}
static bool is_paused(struct world *w) {
    return fake_counts(w->fake).paused > 0;
}

#define POST(w, body, a) client_request((w)->port, "POST", "/v1/completions", NULL, body, a)

/* What the fake's tokens of one choice read, from the token ids up by another path. */
static void expected_text(struct world *w, const uint32_t *prompt, size_t prompt_count,
                          uint64_t seed, uint32_t choice, uint32_t count, struct buf *out) {
    struct buf packed;
    struct bundle bundle;
    struct tokenizer *t;
    struct error err;
    uint32_t ids[512];
    CHECK(count <= ARRAY_LEN(ids));
    for (uint32_t i = 0; i < count; i++)
        ids[i] = fake_token(&w->fake_config, prompt, prompt_count, seed, choice, i);
    buf_init(&packed, 0);
    CHECK(bundle_pack(w->fake_config.model_dir, &packed, &err) == 0 &&
          bundle_open(&bundle, buf_bytes(&packed), &err) == 0);
    CHECK(tokenizer_load_bundle(&bundle, &t, &err) == 0);
    tokenizer_detokenize(t, (struct tokens){ids, count},
                         DETOKENIZE_SKIP_SPECIAL | DETOKENIZE_CONTINUES, out);
    tokenizer_free(&t);
    buf_release(&packed);
}

TEST(streamed_and_whole_answers_are_the_tokens_text) {
    static const uint32_t prompt[] = {5, 6, 7};
    struct world w;
    struct answer whole, streamed;
    struct buf text;
    world_prepare(&w);
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":[5,6,7],\"max_tokens\":200,\"seed\":9,\"n\":2,\"ignore_eos\":true}",
         &whole);
    POST(&w,
         "{\"prompt\":[5,6,7],"
         "\"max_tokens\":200,"
         "\"seed\":9,"
         "\"n\":2,"
         "\"ignore_eos\":true,"
         "\"stream\":true,"
         "\"stream_options\":{\"include_usage\":true}}",
         &streamed);
    EXPECT_EQ(whole.status, 200);
    EXPECT_EQ(streamed.status, 200);
    EXPECT(streamed.done);
    for (uint32_t i = 0; i < 2; i++) {
        buf_init(&text, 0);
        expected_text(&w, prompt, 3, 9, i, 200, &text);
        EXPECT_STR(buf_text(&whole.text[i]), buf_text(&text));
        EXPECT_STR(buf_text(&streamed.text[i]), buf_text(&text));
        EXPECT_STR(whole.finish[i], "length");
        EXPECT_STR(streamed.finish[i], "length");
        buf_release(&text);
    }
    EXPECT_EQ(whole.prompt_tokens, 3);
    EXPECT_EQ(whole.completion_tokens, 400);
    EXPECT_EQ(streamed.completion_tokens, 400);
    EXPECT_EQ(streamed.prompt_tokens, 3);
    answer_release(&whole);
    answer_release(&streamed);
    world_end(&w);
}

/* ---- faults ---- */

enum { STREAMS = 24 };

static void stream_body(char *body, size_t size, int i, const char *more) {
    snprintf(body, size,
             "{\"prompt\":[%d,6,7],\"max_tokens\":300,\"seed\":%d,\"n\":%d,\"ignore_eos\":true,"
             "\"stream\":true,"
             "\"stream_options\":{\"include_usage\":true}%s}",
             i + 5, i * 17, i % 3 == 0 ? 2 : 1, more);
}

static void start_streams(struct world *w, int *fds, const char *more) {
    char body[512];
    for (int i = 0; i < STREAMS; i++) {
        stream_body(body, sizeof body, i, more);
        fds[i] = client_open(w->port, "POST", "/v1/completions", NULL, body);
    }
}

static void finish_streams(int *fds, struct answer *answers) {
    for (int i = 0; i < STREAMS; i++) {
        answer_init(&answers[i]);
        client_finish(fds[i], &answers[i]);
    }
}

static bool same_answers(struct answer *a, struct answer *b) {
    bool same = true;
    for (int i = 0; i < STREAMS; i++) {
        same &= a[i].status == 200 && b[i].status == 200 && a[i].done && b[i].done &&
                a[i].completion_tokens == b[i].completion_tokens &&
                a[i].cached_tokens == b[i].cached_tokens;
        for (int c = 0; c < 2; c++)
            same &= strcmp(buf_text(&a[i].text[c]), buf_text(&b[i].text[c])) == 0 &&
                    strcmp(a[i].finish[c], b[i].finish[c]) == 0;
        same &= a[i].text[0].len > 0;
        answer_release(&a[i]);
        answer_release(&b[i]);
    }
    return same;
}

static bool has_tokens(struct world *w) {
    return fake_counts(w->fake).tokens > STREAMS * 20;
}

TEST(streams_outlive_the_scheduler) {
    struct world w;
    int fds[STREAMS];
    struct answer calm[STREAMS], shaken[STREAMS];
    world_prepare(&w);
    EXPECT(world_start(&w));
    start_streams(&w, fds, "");
    finish_streams(fds, calm);
    for (int round = 0; round < 3; round++) {
        int64_t resubmits = metric_value(&gateway_metrics[GATEWAY_METRIC_RESUBMITS], 0);
        fake_kill(&w.fake);
        EXPECT(world_fake(&w));
        EXPECT(wait_until(is_ready, &w));
        start_streams(&w, fds, "");
        for (int death = 0; death <= round; death++) {
            EXPECT(wait_until(has_tokens, &w));
            fake_kill(&w.fake);
            sleep_ms(round * 300);
            EXPECT(world_fake(&w));
        }
        finish_streams(fds, shaken);
        EXPECT(fake_counts(w.fake).resumed > 0 && fake_counts(w.fake).emitted > 0);
        /* submitted anew at once, not after being asked */
        EXPECT_EQ(fake_counts(w.fake).unknown, 0);
        EXPECT(metric_value(&gateway_metrics[GATEWAY_METRIC_RESUBMITS], 0) > resubmits);
        for (int i = 0; i < STREAMS; i++) {
            EXPECT(shaken[i].status == 200 && shaken[i].done);
            EXPECT_EQ(shaken[i].completion_tokens, calm[i].completion_tokens);
            EXPECT_STR(buf_text(&shaken[i].text[0]), buf_text(&calm[i].text[0]));
            EXPECT_STR(buf_text(&shaken[i].text[1]), buf_text(&calm[i].text[1]));
            answer_release(&shaken[i]);
        }
        EXPECT(wait_until(is_empty, &w));
    }
    for (int i = 0; i < STREAMS; i++)
        answer_release(&calm[i]);
    world_end(&w);
}

static bool has_long_answer(struct world *w) {
    return fake_counts(w->fake).tokens > 400;
}

/* A Submit past the bound of a frame would end the gateway's connection, be made again when it is
 * back, and so on for ever, for all streams: it is refused, once. */
TEST(what_no_frame_holds_is_refused_once) {
    struct world w;
    struct answer a;
    struct buf body;
    world_prepare(&w);
    w.settings.submit_max = 1200;
    EXPECT(world_start(&w));
    buf_init(&body, 0);
    buf_add_str(&body, "{\"max_tokens\":5,\"prompt\":[300");
    for (int i = 0; i < 1000; i++)
        buf_add_str(&body, ",300");
    buf_add_str(&body, "]}");
    POST(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 413);
    answer_release(&a);
    buf_release(&body);
    /* it fits at first, and no more with its answer */
    int fd = client_open(w.port, "POST", "/v1/completions", NULL,
                         "{\"prompt\":[5,6,7],\"max_tokens\":1500,\"ignore_eos\":true,"
                         "\"stream\":true}");
    EXPECT(wait_until(has_long_answer, &w));
    fake_kill(&w.fake);
    EXPECT(world_fake(&w));
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT(a.status == 200 && a.text[0].len > 0 && a.error_event && a.done);
    EXPECT(strstr(buf_text(&a.raw), "larger than this server can hand on"));
    answer_release(&a);
    EXPECT_EQ(fake_counts(w.fake).resumed, 0);
    int64_t resubmits = metric_value(&gateway_metrics[GATEWAY_METRIC_RESUBMITS], 0);
    POST(&w, "{\"prompt\":\"a\",\"max_tokens\":5,\"ignore_eos\":true}", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT_EQ(metric_value(&gateway_metrics[GATEWAY_METRIC_RESUBMITS], 0), resubmits);
    answer_release(&a);
    world_end(&w);
}

TEST(lost_and_repeated_messages_change_nothing) {
    struct world w;
    int fds[STREAMS];
    struct answer calm[STREAMS], shaken[STREAMS];
    world_prepare(&w);
    EXPECT(world_start(&w));
    start_streams(&w, fds, "");
    finish_streams(fds, calm);
    fake_kill(&w.fake);
    w.fake_config.drop_percent = 10;
    w.fake_config.repeat_percent = 20;
    EXPECT(world_fake(&w));
    EXPECT(wait_until(is_ready, &w));
    start_streams(&w, fds, "");
    finish_streams(fds, shaken);
    EXPECT(fake_counts(w.fake).resends > 0);
    EXPECT(same_answers(calm, shaken));
    EXPECT(metric_value(&gateway_metrics[GATEWAY_METRIC_GAPS], 0) > 0);
    EXPECT(metric_value(&gateway_metrics[GATEWAY_METRIC_DUPLICATES], 0) > 0);
    world_end(&w);
}

/* ---- stops, cancels, pauses ---- */

TEST(a_stop_string_ends_the_answer_and_the_work) {
    struct world w;
    struct answer plain, stopped, streamed;
    char body[512], stop[16] = "", text[32];
    world_prepare(&w);
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":[5,6,7],\"max_tokens\":300,\"seed\":4,\"ignore_eos\":true}", &plain);
    EXPECT(plain.text[0].len > 200);
    /* eight letters from the middle of the text that JSON need not escape */
    const char *all = buf_text(&plain.text[0]), *at = all + plain.text[0].len / 2;
    for (;; at++) {
        size_t i = 0;
        while (i < 8 && ((at[i] >= 'a' && at[i] <= 'z') || at[i] == ' '))
            i++;
        if (i == 8)
            break;
        EXPECT(at[8] != 0);
    }
    memcpy(stop, at, 8);
    const char *first = strstr(all, stop);
    snprintf(body, sizeof body,
             "{\"prompt\":[5,6,7],\"max_tokens\":100000,\"seed\":4,\"ignore_eos\":true,\"stop\":["
             "\"\\u0007none\",\"%s\"]}",
             stop);
    POST(&w, body, &stopped);
    EXPECT_EQ(stopped.status, 200);
    EXPECT_STR(stopped.finish[0], "stop");
    EXPECT_EQ(stopped.text[0].len, (size_t)(first - all));
    EXPECT(memcmp(stopped.text[0].data, all, stopped.text[0].len) == 0);
    EXPECT(stopped.completion_tokens > 0 && stopped.completion_tokens < 300);
    EXPECT(wait_until(is_empty, &w));
    snprintf(body, sizeof body,
             "{\"prompt\":[5,6,7],\"max_tokens\":100000,\"seed\":4,\"ignore_eos\":true,\"stop\":\"%"
             "s\",\"stream\":true,"
             "\"stream_options\":{\"include_usage\":true}}",
             stop);
    POST(&w, body, &streamed);
    EXPECT_STR(buf_text(&streamed.text[0]), buf_text(&stopped.text[0]));
    EXPECT_STR(streamed.finish[0], "stop");
    EXPECT_EQ(streamed.completion_tokens, stopped.completion_tokens);
    snprintf(text, sizeof text, "%s", stop);
    answer_release(&plain);
    answer_release(&stopped);
    answer_release(&streamed);
    world_end(&w);
}

/* Of two choices one is stopped: its work ends, the other goes on to its end. */
TEST(a_stop_string_ends_one_choice_alone) {
    struct world w;
    struct answer plain, stopped;
    char body[512], stop[9] = "";
    world_prepare(&w);
    w.fake_config.step_us = 3000;
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":[5,6,7],\"max_tokens\":200,\"seed\":4,\"n\":2,\"ignore_eos\":true}",
         &plain);
    const char *all = buf_text(&plain.text[0]), *at = all;
    for (;; at++) { /* letters that only the first choice has */
        size_t i = 0;
        while (i < 8 && ((at[i] >= 'a' && at[i] <= 'z') || at[i] == ' '))
            i++;
        memcpy(stop, at, i);
        if (i == 8 && !strstr(buf_text(&plain.text[1]), stop))
            break;
        EXPECT(at[i] != 0);
    }
    snprintf(body, sizeof body,
             "{\"prompt\":[5,6,7],\"max_tokens\":200,\"seed\":4,\"n\":2,\"ignore_eos\":true,"
             "\"stop\":\"%s\",\"stream\":"
             "true}",
             stop);
    int fd = client_open(w.port, "POST", "/v1/completions", NULL, body);
    answer_init(&stopped);
    client_finish(fd, &stopped);
    EXPECT_EQ(fake_counts(w.fake).cancels, 1);
    /* not all of the first choice was made again */
    EXPECT(fake_counts(w.fake).tokens < 2 * 200 + 2 * 200);
    EXPECT_STR(stopped.finish[0], "stop");
    EXPECT_STR(stopped.finish[1], "length");
    EXPECT_EQ(stopped.text[0].len, (size_t)(strstr(all, stop) - all));
    EXPECT_STR(buf_text(&stopped.text[1]), buf_text(&plain.text[1]));
    answer_release(&plain);
    answer_release(&stopped);
    world_end(&w);
}

TEST(a_stop_token_is_counted_and_not_shown) {
    struct world w;
    struct answer with, without;
    world_prepare(&w);
    EXPECT(world_start(&w));
    POST(&w,
         "{\"prompt\":[5,6,7],\"max_tokens\":500,\"seed\":4,\"ignore_eos\":true,\"stop_token_ids\":"
         "[200]}",
         &with);
    EXPECT_STR(with.finish[0], "stop");
    EXPECT(with.completion_tokens > 1 && with.completion_tokens < 500);
    char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\":[5,6,7],\"max_tokens\":%d,\"seed\":4,\"ignore_eos\":true}",
             with.completion_tokens - 1);
    POST(&w, body, &without);
    EXPECT_STR(buf_text(&with.text[0]), buf_text(&without.text[0]));
    answer_release(&with);
    answer_release(&without);
    world_end(&w);
}

TEST(a_client_that_leaves_is_cancelled) {
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    int fd =
        client_open(w.port, "POST", "/v1/completions", NULL,
                    "{\"prompt\":\"a\",\"max_tokens\":100000,\"ignore_eos\":true,\"stream\":true}");
    int quiet = client_open(w.port, "POST", "/v1/completions", NULL,
                            "{\"prompt\":\"b\",\"max_tokens\":100000,\"ignore_eos\":true}");
    while (fake_counts(w.fake).sequences < 2)
        sleep_ms(1);
    fake_set_stepping(w.fake, false); /* nothing comes that could remind the gateway */
    sleep_ms(100);
    close(fd);
    close(quiet);
    EXPECT(wait_until(is_empty, &w));
    EXPECT(fake_counts(w.fake).cancels >= 2);
    EXPECT_EQ(atomic_load(&w.gw->open_count), 0);
    world_end(&w);
}

TEST(a_slow_reader_is_paused_and_loses_nothing) {
    struct world w;
    struct answer slow, fast;
    static const char body[] =
        "{\"prompt\":[9,9],\"max_tokens\":30000,\"seed\":3,\"ignore_eos\":true,\"stream\":true}";
    world_prepare(&w);
    w.fake_config.step_us = 0;
    w.fake_config.window = 1024;
    EXPECT(world_start(&w));
    int fd = client_open(w.port, "POST", "/v1/completions", NULL, body);
    EXPECT(wait_until(is_paused, &w));
    POST(&w, body, &fast); /* its neighbour does not wait */
    EXPECT(fast.done);
    EXPECT(fake_counts(w.fake).paused == 1);
    answer_init(&slow);
    client_finish(fd, &slow);
    EXPECT(slow.done);
    EXPECT_STR(buf_text(&slow.text[0]), buf_text(&fast.text[0]));
    answer_release(&slow);
    answer_release(&fast);
    world_end(&w);
}

TEST(a_client_that_never_reads_is_cut) {
    struct world w;
    world_prepare(&w);
    w.fake_config.step_us = 0;
    w.fake_config.window = 1024;
    w.settings.slow_ms = 300;
    EXPECT(world_start(&w));
    int fd = client_open(
        w.port, "POST", "/v1/completions", NULL,
        "{\"prompt\":[9,9],\"max_tokens\":1000000,\"ignore_eos\":true,\"stream\":true}");
    EXPECT(wait_until(is_paused, &w));
    EXPECT(wait_until(is_empty, &w));
    close(fd);
    world_end(&w);
}

/* ---- refusals, waiting, health ---- */

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

TEST(keys_guard_what_is_not_health) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.api_key = "secret";
    EXPECT(world_start(&w));
    static const struct {
        const char *path;
        int status;
    } without[] = {{"/v1/models", 401}, {"/metrics", 401},     {"/version", 401},
                   {"/health", 200},    {"/health/live", 200}, {"/health/ready", 200},
                   {"/v1/nothing", 404}};
    for (size_t i = 0; i < ARRAY_LEN(without); i++)
        EXPECT_EQ(client_status(w.port, without[i].path), without[i].status);
    client_request(w.port, "GET", "/v1/models", "Authorization: Bearer secret\r\n", NULL, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(strstr(buf_text(&a.body), "\"id\":\"fake\""));
    answer_release(&a);
    client_request(w.port, "GET", "/v1/models", "x-api-key: secret\r\n", NULL, &a);
    EXPECT_EQ(a.status, 200);
    answer_release(&a);
    client_request(w.port, "POST", "/v1/completions", "Authorization: Bearer wrong\r\n",
                   "{\"prompt\":\"a\"}", &a);
    EXPECT_EQ(a.status, 401);
    EXPECT(strstr(buf_text(&a.raw), "WWW-Authenticate: Bearer\r\n"));
    answer_release(&a);
    world_end(&w);
}

/* A stranger's body is not waited for. */
TEST(keys_are_checked_before_the_body) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.api_key = "secret";
    EXPECT(world_start(&w));
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                               "Authorization: Bearer wrong\r\nContent-Length: 10000000\r\n\r\n";
    int fd = client_connect(w.port);
    EXPECT(write(fd, head, sizeof head - 1) == (ssize_t)sizeof head - 1);
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT_EQ(a.status, 401);
    EXPECT(strstr(buf_text(&a.raw), "Connection: close\r\n"));
    answer_release(&a);
    world_end(&w);
}

/* The answer's field, or "". */
static const char *field_of(const struct answer *a, const char *name) {
    static char value[256];
    char key[64];
    const char *end = strstr(buf_text(&a->raw), "\r\n\r\n");
    snprintf(key, sizeof key, "\r\n%s: ", name);
    const char *at = strstr(buf_text(&a->raw), key);
    value[0] = 0;
    if (at && at < end)
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at + strlen(key), "\r"),
                 at + strlen(key));
    return value;
}

static const char PREFLIGHT[] = "Access-Control-Request-Method: POST\r\n"
                                "Access-Control-Request-Headers: authorization,content-type,"
                                "x-stainless-os\r\n";

static void ask_as(struct world *w, const char *method, const char *path, const char *origin,
                   const char *more, struct answer *a) {
    char headers[512] = "";
    if (origin)
        snprintf(headers, sizeof headers, "Origin: %s\r\n%s", origin, more);
    client_request(w->port, method, path, headers, NULL, a);
}

TEST(pages_of_allowed_origins_may_ask) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.api_key = "secret";
    w.settings.allow_origins = "https://chat.example, http://localhost:3000";
    EXPECT(world_start(&w));
    /* a preflight needs no key, and what the page wants to send is allowed */
    ask_as(&w, "OPTIONS", "/v1/chat/completions", "https://chat.example", PREFLIGHT, &a);
    EXPECT_EQ(a.status, 204);
    EXPECT_STR(field_of(&a, "Access-Control-Allow-Origin"), "https://chat.example");
    EXPECT_STR(field_of(&a, "Access-Control-Allow-Methods"), "POST, OPTIONS");
    EXPECT_STR(field_of(&a, "Access-Control-Allow-Headers"),
               "authorization,content-type,x-stainless-os");
    EXPECT_STR(field_of(&a, "Vary"), "Origin");
    answer_release(&a);
    /* refusals can be read, too, and their id */
    ask_as(&w, "GET", "/v1/models", "http://localhost:3000", "", &a);
    EXPECT_EQ(a.status, 401);
    EXPECT_STR(field_of(&a, "Access-Control-Allow-Origin"), "http://localhost:3000");
    EXPECT(strstr(field_of(&a, "Access-Control-Expose-Headers"), "X-Request-Id"));
    answer_release(&a);
    static const char *const others[] = {"https://evil.example", "http://chat.example",
                                         "https://chat.example.evil.example",
                                         "https://chat.example:444", "null"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        ask_as(&w, "OPTIONS", "/v1/chat/completions", others[i], PREFLIGHT, &a);
        EXPECT_EQ(a.status, 204);
        EXPECT_STR(field_of(&a, "Allow"), "POST, OPTIONS");
        EXPECT(!strstr(buf_text(&a.raw), "Access-Control"));
        answer_release(&a);
    }
    world_end(&w);
}

TEST(no_page_or_every_page_may_ask) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    EXPECT(world_start(&w));
    ask_as(&w, "OPTIONS", "/v1/models", "https://chat.example", PREFLIGHT, &a);
    EXPECT_EQ(a.status, 204);
    EXPECT_STR(field_of(&a, "Allow"), "GET, HEAD, OPTIONS");
    EXPECT(!strstr(buf_text(&a.raw), "Access-Control") && !*field_of(&a, "Vary"));
    answer_release(&a);
    ask_as(&w, "OPTIONS", "/v1/nothing", NULL, "", &a);
    EXPECT_EQ(a.status, 404);
    answer_release(&a);
    ask_as(&w, "OPTIONS", "*", NULL, "", &a);
    EXPECT_EQ(a.status, 204);
    answer_release(&a);
    world_end(&w);

    world_prepare(&w);
    w.settings.allow_origins = "*";
    EXPECT(world_start(&w));
    ask_as(&w, "GET", "/v1/models", "https://chat.example", "", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT_STR(field_of(&a, "Access-Control-Allow-Origin"), "*");
    answer_release(&a);
    ask_as(&w, "GET", "/v1/models", NULL, "", &a);
    EXPECT(!strstr(buf_text(&a.raw), "Access-Control"));
    answer_release(&a);
    /* a list that is none is not given back */
    ask_as(&w, "OPTIONS", "/v1/models", "https://chat.example",
           "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: a\"b\r\n", &a);
    EXPECT(*field_of(&a, "Access-Control-Allow-Methods") &&
           !*field_of(&a, "Access-Control-Allow-Headers"));
    answer_release(&a);
    world_end(&w);
}

/* ---- the log ---- */

/* Standard error goes to a file from here until capture_end. */
struct capture {
    int real, file;
};

static struct capture capture_begin(void) {
    char path[] = "/tmp/trireme-gw-log-XXXXXX";
    struct capture c = {.real = dup(STDERR_FILENO), .file = mkstemp(path)};
    CHECK(c.real >= 0 && c.file >= 0);
    unlink(path);
    dup2(c.file, STDERR_FILENO);
    return c;
}

static void capture_read(const struct capture *c, struct buf *out) {
    char piece[4096];
    ssize_t n;
    buf_reset(out);
    while ((n = pread(c->file, piece, sizeof piece, (off_t)out->len)) > 0)
        buf_add(out, piece, (size_t)n);
}

static void capture_end(struct capture *c, struct buf *out) {
    dup2(c->real, STDERR_FILENO);
    capture_read(c, out);
    close(c->real);
    close(c->file);
}

/* The line of the log that has these members; NULL: none, or several. Owned by the caller. */
static cJSON *line_with(const struct buf *log, const char *name, const char *value) {
    cJSON *found = NULL;
    for (const char *at = buf_text(log), *end; (end = strchr(at, '\n')); at = end + 1) {
        cJSON *line = cJSON_ParseWithLength(at, (size_t)(end - at));
        if (strcmp(client_string(line, name), value) != 0) {
            cJSON_Delete(line);
            continue;
        }
        if (found) {
            cJSON_Delete(found);
            cJSON_Delete(line);
            return NULL;
        }
        found = line;
    }
    return found;
}

static int number_of(const cJSON *line, const char *name) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, name);
    return cJSON_IsNumber(v) ? v->valueint : -1;
}

#define JSON_POST(path, headers, body, a) client_request(w.port, "POST", path, headers, body, a)

TEST(each_request_has_one_line) {
    struct world w;
    struct answer a;
    struct buf log = {0};
    char id[128], cancelled[64];
    world_prepare(&w);
    EXPECT(world_start(&w));
    log_init("test", LOG_INFO, true);
    struct capture capture = capture_begin();
    JSON_POST("/v1/completions", "X-Request-Id: whole-1\r\n",
              "{\"prompt\":[5,6,7],\"max_tokens\":9,\"ignore_eos\":true}", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT_STR(field_of(&a, "X-Request-Id"), "whole-1");
    answer_release(&a);
    JSON_POST("/v1/chat/completions", NULL,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"zebra\"}],\"max_tokens\":4,"
              "\"ignore_eos\":true,\"stream\":true,\"n\":2}",
              &a);
    EXPECT_EQ(a.status, 200);
    snprintf(id, sizeof id, "%s", field_of(&a, "X-Request-Id"));
    EXPECT(strncmp(id, "chatcmpl-", 9) == 0 && strstr(buf_text(&a.body), id) != NULL);
    answer_release(&a);
    JSON_POST("/v1/completions", "X-Request-Id: bad-1\r\n", "{\"prompt\":\"zebra\",\"n\":0}", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    JSON_POST("/v1/completions", "X-Request-Id: other-1\r\n",
              "{\"prompt\":\"zebra\",\"model\":\"zebra\"}", &a);
    EXPECT_EQ(a.status, 404);
    answer_release(&a);
    client_request(w.port, "GET", "/zebra", "X-Request-Id: lost-1\r\n", NULL, &a);
    EXPECT_STR(field_of(&a, "X-Request-Id"), "lost-1");
    answer_release(&a);
    client_request(w.port, "GET", "/health", "X-Request-Id: probe-1\r\n", NULL, &a);
    answer_release(&a);
    client_request(w.port, "GET", "/v1/models", "X-Request-Id: list-1\r\n", NULL, &a);
    answer_release(&a);
    int64_t before = metric_value(&gateway_metrics[GATEWAY_METRIC_FINISHES], 4);
    snprintf(cancelled, sizeof cancelled, "X-Request-Id: gone-1\r\n");
    int fd =
        client_open(w.port, "POST", "/v1/completions", cancelled,
                    "{\"prompt\":\"zebra\",\"max_tokens\":100000,\"ignore_eos\":true,\"n\":3}");
    while (fake_counts(w.fake).sequences < 3)
        sleep_ms(1);
    close(fd);
    EXPECT(wait_until(is_empty, &w));
    capture_end(&capture, &log);
    log_init("test", LOG_ERROR, false);

    cJSON *line = line_with(&log, "id", "whole-1");
    EXPECT_STR(client_string(line, "msg"), "request");
    EXPECT_STR(client_string(line, "path"), "/v1/completions");
    EXPECT_STR(client_string(line, "model"), "fake");
    EXPECT_STR(client_string(line, "finish"), "length");
    EXPECT(strncmp(client_string(line, "response"), "cmpl-", 5) == 0);
    EXPECT(number_of(line, "prompt_tokens") == 3 && number_of(line, "output_tokens") == 9 &&
           number_of(line, "cached_tokens") >= 0 && number_of(line, "status") == 200);
    EXPECT(number_of(line, "ttft_ms") >= 0 &&
           number_of(line, "duration_ms") >= number_of(line, "ttft_ms"));
    cJSON_Delete(line);
    line = line_with(&log, "id", id);
    EXPECT(number_of(line, "output_tokens") == 8 && number_of(line, "status") == 200);
    EXPECT_STR(client_string(line, "response"), ""); /* it is the id */
    cJSON_Delete(line);
    line = line_with(&log, "id", "bad-1");
    EXPECT(number_of(line, "status") == 400);
    EXPECT_STR(client_string(line, "path"), "/v1/completions");
    cJSON_Delete(line);
    line = line_with(&log, "id", "other-1");
    EXPECT_EQ(number_of(line, "status"), 404);
    EXPECT_STR(client_string(line, "model"), "-");
    EXPECT_STR(client_string(line, "finish"), "error");
    cJSON_Delete(line);
    line = line_with(&log, "id", "lost-1");
    EXPECT_EQ(number_of(line, "status"), 404);
    EXPECT_STR(client_string(line, "path"), "-");
    cJSON_Delete(line);
    line = line_with(&log, "id", "list-1");
    EXPECT_EQ(number_of(line, "status"), 200);
    cJSON_Delete(line);
    line = line_with(&log, "id", "gone-1");
    EXPECT_EQ(number_of(line, "status"), 499);
    EXPECT_STR(client_string(line, "finish"), "cancelled");
    cJSON_Delete(line);
    EXPECT(!strstr(buf_text(&log), "probe-1"));
    EXPECT(!strstr(buf_text(&log), "zebra")); /* never text */
    EXPECT_EQ(metric_value(&gateway_metrics[GATEWAY_METRIC_FINISHES], 4) - before, 3);
    buf_release(&log);
    world_end(&w);
}

/* Pages elsewhere reach a server on the loopback by a name of their own, or with a form. */
#define FROM_A_PAGE "Origin: http://localhost:3000\r\n"
TEST(pages_elsewhere_do_not_reach_the_loopback) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.allow_hosts = "llm.example, other.example";
    w.settings.allow_origins = "https://chat.example";
    EXPECT(world_start(&w));
    static const struct {
        const char *headers;
        int status;
    } cases[] = {
        {"Host: localhost\r\n", 200},
        {"Host: LocalHost:8080\r\n", 200},
        {"Host: 127.0.0.1:8080\r\n", 200},
        {"Host: 127.1.2.3\r\n", 200},
        {"Host: [::1]:8080\r\n", 200},
        {"Host: app.localhost\r\n", 200},
        {"Host: LLM.example:443\r\n", 200},
        {"Host: evil.example\r\n", 403},
        {"Host: evil.example:8080\r\n", 403},
        {"Host: localhost.evil.example\r\n", 403},
        {"Host: notlocalhost\r\n", 403},
        {"Host: 127.0.0.1.evil.example\r\n", 403},
        {"Host: 128.0.0.1\r\n", 403},
        {"Host: [::2]\r\n", 403},
        {"Origin: http://localhost:3000\r\n", 200},
        {"Origin: https://llm.example\r\n", 200},
        {"Origin: https://chat.example\r\n", 200},
        {"Origin: https://evil.example\r\n", 403},
        {"Origin: http://localhost.evil.example\r\n", 403},
        {"Origin: null\r\n", 403},
        {"Content-Type: application/json; charset=utf-8\r\n", 200},
        {"Content-Type: application/x-www-form-urlencoded\r\n", 200}, /* curl -d */
        {FROM_A_PAGE "Content-Type: application/json; charset=utf-8\r\n", 200},
        {FROM_A_PAGE "Content-Type: text/plain\r\n", 415},
        {FROM_A_PAGE "Content-Type: application/jsonp\r\n", 415},
        {FROM_A_PAGE "Content-Type: application/x-www-form-urlencoded\r\n", 415},
        {"Sec-Fetch-Site: cross-site\r\nContent-Type: text/plain\r\n", 415},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        client_request(w.port, "POST", "/v1/completions", cases[i].headers,
                       "{\"prompt\":\"a\",\"max_tokens\":1}", &a);
        if (a.status != cases[i].status)
            check_fail(__FILE__, __LINE__, "%s: %d", cases[i].headers, a.status);
        answer_release(&a);
    }
    ask_as(
        &w, "OPTIONS", "/v1/completions", "https://chat.example",
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n",
        &a);
    EXPECT_STR(field_of(&a, "Access-Control-Allow-Private-Network"), "true");
    answer_release(&a);
    ask_as(
        &w, "OPTIONS", "/v1/completions", "https://evil.example",
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n",
        &a);
    EXPECT_STR(field_of(&a, "Access-Control-Allow-Private-Network"), "");
    answer_release(&a);
    world_end(&w);
}

/* On other addresses nothing is checked unless names are given. */
TEST(hosts_are_checked_where_it_matters) {
    struct hosts hosts;
    struct error err;
    EXPECT_EQ(hosts_init(&hosts, "0.0.0.0", NULL, &err), 0);
    EXPECT(hosts_allow(&hosts, bytes_str("any.example")) &&
           hosts_allow_origin(&hosts, bytes_str("https://any.example")));
    EXPECT_EQ(hosts_init(&hosts, "0.0.0.0", "one.example", &err), 0);
    EXPECT(hosts_allow(&hosts, bytes_str("one.example:1")) &&
           !hosts_allow(&hosts, bytes_str("any.example")));
    hosts_release(&hosts);
    EXPECT_EQ(hosts_init(&hosts, "::1", "*", &err), 0);
    EXPECT(hosts_allow(&hosts, bytes_str("any.example")));
    hosts_release(&hosts);
    EXPECT_EQ(hosts_init(&hosts, "localhost", "http://a", &err), ERR_INVALID);
    EXPECT(strstr(err.text, "--allow-hosts"));
}

TEST(paths_methods_and_models_are_checked) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    EXPECT(world_start(&w));
    static const struct {
        const char *method, *path, *body;
        int status;
    } cases[] = {
        {"GET", "/", NULL, 200},
        {"GET", "//", NULL, 404},
        {"GET", "/v1/models/", NULL, 404},
        {"GET", "/v1/models/none", NULL, 404},
        {"GET", "/v1/models/fake", NULL, 200},
        {"HEAD", "/health", NULL, 200},
        {"DELETE", "/v1/models", NULL, 405},
        {"GET", "/v1/completions", NULL, 405},
        {"POST", "/health", "{}", 405},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"model\":\"other\"}", 404},
        {"POST", "/v1/completions", "{\"prompt\":[1,2,99999999]}", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"stop_token_ids\":[99999999]}", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":3,\"min_tokens\":4}", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":3,\"model\":\"fake\"}", 200},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":3,\"priority\":7}", 200},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":3,\"priority\":-1}", 400},
        {"GET", "/metrics", NULL, 200},
        {"GET", "/version", NULL, 200},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        client_request(w.port, cases[i].method, cases[i].path, NULL, cases[i].body, &a);
        EXPECT_EQ(a.status, cases[i].status);
        if (a.status >= 400)
            EXPECT(strstr(buf_text(&a.body), "{\"error\":{\"message\":\"") == buf_text(&a.body));
        answer_release(&a);
    }
    world_end(&w);
}

TEST(a_prompt_past_the_context_is_refused_and_a_long_answer_cut) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.max_context = 8;
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":[1,2,3,4,5,6,7,8]}", &a);
    EXPECT_EQ(a.status, 400);
    EXPECT(strstr(buf_text(&a.body), "\"context_length_exceeded\""));
    answer_release(&a);
    POST(&w, "{\"prompt\":[1,2,3,4,5],\"max_tokens\":100,\"ignore_eos\":true}", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT_EQ(a.completion_tokens, 3);
    EXPECT_STR(a.finish[0], "length");
    answer_release(&a);
    world_end(&w);
}

TEST(several_prompts_are_several_choices) {
    static const uint32_t second[] = {7, 8};
    struct world w;
    struct answer a;
    struct buf text;
    world_prepare(&w);
    EXPECT(world_start(&w));
    POST(&w,
         "{\"prompt\":[[5,6],[7,8]],"
         "\"n\":2,"
         "\"max_tokens\":20,"
         "\"seed\":1,"
         "\"ignore_eos\":true,"
         "\"stream\":true,"
         "\"stream_options\":{\"include_usage\":true}}",
         &a);
    EXPECT(a.done);
    EXPECT_EQ(a.completion_tokens, 80);
    EXPECT_EQ(a.prompt_tokens, 4);
    buf_init(&text, 0);
    expected_text(&w, second, 2, 1, 1, 20, &text);
    EXPECT_STR(buf_text(&a.text[3]), buf_text(&text));
    buf_release(&text);
    answer_release(&a);
    world_end(&w);
}

TEST(log_probabilities_have_both_shapes) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":[5],\"max_tokens\":3,\"seed\":1,\"ignore_eos\":true,\"logprobs\":2}", &a);
    EXPECT_EQ(a.status, 200);
    cJSON *json = cJSON_Parse(buf_text(&a.body));
    const cJSON *choice = cJSON_GetObjectItemCaseSensitive(json, "choices")->child;
    const cJSON *lp = cJSON_GetObjectItemCaseSensitive(choice, "logprobs"), *token;
    static const char *const columns[] = {"tokens", "token_logprobs", "text_offset",
                                          "top_logprobs"};
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        EXPECT_EQ(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(lp, columns[i])), 3);
    EXPECT(cJSON_GetObjectItemCaseSensitive(lp, "token_logprobs")->child->next->valuedouble ==
           -0.5);
    EXPECT_EQ(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(lp, "top_logprobs")->child), 2);
    struct buf joined;
    buf_init(&joined, 0);
    cJSON_ArrayForEach(token, cJSON_GetObjectItemCaseSensitive(lp, "tokens"))
        buf_add_str(&joined, token->valuestring);
    EXPECT_STR(buf_text(&joined), buf_text(&a.text[0]));
    buf_release(&joined);
    cJSON_Delete(json);
    answer_release(&a);
    POST(&w,
         "{\"prompt\":[5],"
         "\"max_tokens\":3,"
         "\"seed\":1,"
         "\"ignore_eos\":true,"
         "\"logprobs\":0,"
         "\"stream\":true,"
         "\"return_token_ids\":true}",
         &a);
    EXPECT(a.done);
    EXPECT_EQ(a.events, 5);
    EXPECT(strstr(buf_text(&a.body), "\"token_ids\":["));
    answer_release(&a);
    world_end(&w);
}

/* Long enough for the other thread to tokenize it; its client leaves in the middle once. */
TEST(a_long_prompt_is_prepared_aside) {
    struct world w;
    struct answer a;
    struct buf body;
    world_prepare(&w);
    EXPECT(world_start(&w));
    buf_init(&body, 0);
    buf_add_str(&body, "{\"max_tokens\":4,\"seed\":3,\"ignore_eos\":true,\"stop\":\"\\u0001none\","
                       "\"cache_salt\":\"s\",\"prompt\":\"");
    for (int i = 0; i < 60000; i++)
        buf_addf(&body, "word%d ", i % 100);
    buf_add_str(&body, "\"}");
    int left = client_open(w.port, "POST", "/v1/completions", NULL, buf_text(&body));
    close(left);
    POST(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(a.prompt_tokens > 60000);
    EXPECT_EQ(a.completion_tokens, 4);
    answer_release(&a);
    buf_add_str(&body, "x"); /* read elsewhere as well, and refused */
    POST(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 400);
    EXPECT(strstr(buf_text(&a.body), "malformed JSON"));
    answer_release(&a);
    body.data[--body.len] = 0;
    w.fake_config.max_context = 1000; /* as the gateway will hear */
    fake_kill(&w.fake);
    EXPECT(wait_until(is_unready, &w));
    EXPECT(world_fake(&w));
    EXPECT(wait_until(is_ready, &w));
    POST(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    buf_release(&body);
    EXPECT_EQ(atomic_load(&w.gw->open_count), 0);
    world_end(&w);
}

/* Between 32 and 128 KB: read at once, tokenized aside. And one that comes before there is a
 * model. */
TEST(a_middling_prompt_and_an_early_one) {
    struct world w;
    struct answer a;
    struct buf body;
    world_prepare(&w);
    EXPECT(world_gateway(&w));
    buf_init(&body, 0);
    for (int size = 8000; size <= 40000; size *= 5) {
        buf_reset(&body);
        buf_add_str(&body, "{\"max_tokens\":4,\"ignore_eos\":true,\"prompt\":\"");
        for (int i = 0; i < size; i++)
            buf_addf(&body, "word%d ", i % 100);
        buf_add_str(&body, "\"}");
        int fd = client_open(w.port, "POST", "/v1/completions", NULL, buf_text(&body));
        if (!w.fake) {
            sleep_ms(200);
            EXPECT(world_fake(&w));
        }
        answer_init(&a);
        client_finish(fd, &a);
        EXPECT_EQ(a.status, 200);
        EXPECT(a.prompt_tokens > size);
        EXPECT_EQ(a.completion_tokens, 4);
        answer_release(&a);
    }
    buf_release(&body);
    world_end(&w);
}

TEST(an_early_long_body_waits_for_its_model) {
    struct world w;
    struct answer a;
    struct buf body;
    world_prepare(&w);
    EXPECT(world_gateway(&w));
    buf_init(&body, 0);
    buf_add_str(&body, "{\"max_tokens\":4,\"ignore_eos\":true,\"stop\":\"\\u0001\",\"prompt\":\"");
    for (int i = 0; i < 50000; i++)
        buf_addf(&body, "word%d ", i % 100);
    buf_add_str(&body, "\"}");
    int fd = client_open(w.port, "POST", "/v1/completions", NULL, buf_text(&body));
    sleep_ms(300);
    EXPECT(world_fake(&w));
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(a.prompt_tokens > 50000);
    answer_release(&a);
    buf_release(&body);
    world_end(&w);
}

TEST(a_chat_goes_through_the_template) {
    struct world w;
    struct answer one, two;
    static const char messages[] = "{\"messages\":[{\"role\":\"user\",\"content\":%s}],"
                                   "\"max_tokens\":12,"
                                   "\"seed\":2,"
                                   "\"ignore_eos\":true%s}";
    char body[512];
    world_prepare(&w);
    EXPECT(world_start(&w));
    snprintf(body, sizeof body, messages, "\"hello\"", "");
    client_request(w.port, "POST", "/v1/chat/completions", NULL, body, &one);
    EXPECT_EQ(one.status, 200);
    EXPECT(one.prompt_tokens > 1);
    EXPECT_EQ(one.completion_tokens, 12);
    EXPECT(strstr(buf_text(&one.body), "\"object\":\"chat.completion\""));
    snprintf(body, sizeof body, messages, "[{\"type\":\"text\",\"text\":\"hello\"}]",
             ",\"stream\":true");
    client_request(w.port, "POST", "/v1/chat/completions", NULL, body, &two);
    EXPECT(two.done);
    EXPECT_STR(buf_text(&one.text[0]), buf_text(&two.text[0]));
    EXPECT(strstr(buf_text(&two.body), "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"));
    answer_release(&one);
    answer_release(&two);
    world_end(&w);
}

static void *drain(void *ctx) {
    struct world *w = ctx;
    return gateway_drain(w->gw) ? w : NULL;
}

TEST(a_drain_lets_streams_end) {
    struct world w;
    struct answer a;
    pthread_t thread;
    void *drained;
    world_prepare(&w);
    EXPECT(world_start(&w));
    int fd =
        client_open(w.port, "POST", "/v1/completions", NULL,
                    "{\"prompt\":\"a\",\"max_tokens\":500,\"ignore_eos\":true,\"stream\":true}");
    while (is_empty(&w))
        sleep_ms(1);
    pthread_create(&thread, NULL, drain, &w);
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT(a.done);
    pthread_join(thread, &drained);
    EXPECT(drained != NULL);
    answer_release(&a);
    world_end(&w);
}

/* ---- answers taken apart ---- */

#define CHAT(w, content, more, a)                                                                  \
    client_request((w)->port, "POST", "/v1/chat/completions", NULL,                                \
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"" content "\"}]" more "}", a)
#define TOOL ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]"
#define SAYS                                                                                       \
    "<think>I "                                                                                    \
    "look.</"                                                                                      \
    "think>Wait.\\n<tool_call>{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"a\\\":"               \
    "\\\"\\\\\\\"é\\\"}}</"                                                                       \
    "tool_call>"                                                                                   \
    "<tool_call>{\\\"name\\\":\\\"g\\\"}</tool_call>"

TEST(chats_are_taken_apart_streamed_and_whole) {
    struct world w;
    struct answer whole, streamed;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    CHAT(&w, SAYS, TOOL ",\"seed\":1", &whole);
    CHAT(&w, SAYS, TOOL ",\"seed\":1,\"stream\":true", &streamed);
    EXPECT_STR(buf_text(&whole.text[0]), "Wait.");
    EXPECT_STR(buf_text(&whole.reasoning), "I look.");
    EXPECT(strncmp(buf_text(&whole.calls), "f ", 2) == 0);
    EXPECT(strstr(buf_text(&whole.calls), " {\"a\":\"\\\"é\"}\ng "));
    EXPECT_STR(whole.finish[0], "tool_calls");
    EXPECT_STR(buf_text(&streamed.text[0]), buf_text(&whole.text[0]));
    EXPECT_STR(buf_text(&streamed.reasoning), buf_text(&whole.reasoning));
    EXPECT_STR(streamed.finish[0], "tool_calls");
    EXPECT(strstr(buf_text(&streamed.calls), " {\"a\":\"\\\"é\"}\ng "));
    EXPECT(strstr(buf_text(&streamed.body), "\"tool_calls\":[{\"index\":0,\"id\":\""));
    EXPECT(strstr(buf_text(&whole.body), "\"reasoning_content\":\"I look.\""));
    EXPECT(strstr(buf_text(&whole.body), "\"completion_tokens_details\":{\"reasoning_tokens\":"));
    EXPECT(!strstr(buf_text(&whole.body), "\"reasoning_tokens\":0"));
    answer_release(&whole);
    answer_release(&streamed);
    world_echo_end(&w);
}

TEST(fields_say_what_is_taken_apart) {
    struct world w;
    struct answer a;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    CHAT(&w, SAYS, "", &a); /* no tools: calls are text */
    EXPECT(strstr(buf_text(&a.text[0]), "Wait.\n<tool_call>"));
    EXPECT_STR(a.finish[0], "stop");
    answer_release(&a);
    CHAT(&w, SAYS, TOOL ",\"tool_choice\":\"none\",\"include_reasoning\":false", &a);
    EXPECT(strstr(buf_text(&a.text[0]), "Wait.\n<tool_call>"));
    EXPECT_STR(buf_text(&a.reasoning), "");
    answer_release(&a);
    CHAT(&w, SAYS, TOOL ",\"separate_reasoning\":false", &a);
    EXPECT_STR(buf_text(&a.text[0]), "<think>I look.</think>Wait.");
    EXPECT(!a.reasoning.len && a.calls.len && !strstr(buf_text(&a.body), "reasoning_tokens"));
    answer_release(&a);
    CHAT(&w, SAYS, TOOL ",\"parallel_tool_calls\":false", &a);
    EXPECT(!strstr(buf_text(&a.calls), "\ng "));
    answer_release(&a);
    /* as the fake echoes the whole prompt */
    CHAT(&w, "x</think>y", ",\"chat_template_kwargs\":{\"open\":1}", &a);
    EXPECT_STR(buf_text(&a.reasoning), "x");
    EXPECT_STR(buf_text(&a.text[0]), "y");
    answer_release(&a);
    CHAT(&w, "x", ",\"tool_choice\":\"required\"", &a); /* of no tools */
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    CHAT(&w, "x", ",\"reasoning_effort\":\"huge\"", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    world_echo_end(&w);
}

TEST(parsers_may_be_chosen_by_name) {
    struct world w;
    struct answer a;
    struct error err;
    world_echo(&w, "{{ messages[-1]['content'] }}");
    w.settings.reasoning_parser = "magistral";
    w.settings.tool_call_parser = "mistral";
    EXPECT(world_start(&w));
    CHAT(&w, "[THINK]a[/THINK][TOOL_CALLS]f[ARGS]{}", TOOL, &a);
    EXPECT_STR(buf_text(&a.reasoning), "a");
    EXPECT(strncmp(buf_text(&a.calls), "f ", 2) == 0);
    answer_release(&a);
    struct gateway *other;
    w.settings.tool_call_parser = "nobody's";
    EXPECT(gateway_new(&other, &w.settings, &err) != 0);
    EXPECT(strstr(err.text, "nobody's"));
    world_echo_end(&w);
}

/* ---- text calls ---- */

static cJSON *call_json(struct world *w, const char *path, const char *body, int status) {
    struct answer a;
    client_request(w->port, "POST", path, NULL, body, &a);
    cJSON *json = a.status == status ? cJSON_ParseWithLength(buf_text(&a.body), a.body.len) : NULL;
    if (!json)
        check_fail(__FILE__, __LINE__, "%s %s: %d %s", path, body, a.status, buf_text(&a.body));
    answer_release(&a);
    return json;
}

static int count_of(const cJSON *json) {
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "tokens"));
}

TEST(text_becomes_tokens_and_text_again) {
    struct world w;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    cJSON *plain = call_json(&w, "/tokenize", "{\"content\":\"Hello, 🚀 world\"}", 200),
          *vllm = call_json(&w, "/tokenize",
                            "{\"prompt\":\"Hello, 🚀 world\",\"return_token_strs\":true}", 200),
          *pieces = call_json(&w, "/tokenize",
                              "{\"content\":\"Hello, 🚀 world\",\"with_pieces\":true}", 200);
    EXPECT(plain && vllm && pieces && count_of(plain) > 3);
    EXPECT_EQ(count_of(vllm), cJSON_GetObjectItemCaseSensitive(vllm, "count")->valueint);
    EXPECT_EQ(count_of(vllm),
              cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(vllm, "token_strs")));
    EXPECT(cJSON_GetObjectItemCaseSensitive(vllm, "max_model_len")->valueint > 0);
    EXPECT_EQ(count_of(pieces), count_of(plain));
    char *tokens = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(plain, "tokens"));
    struct buf body = {0}, joined = {0};
    buf_addf(&body, "{\"tokens\":%s}", tokens);
    cJSON *back = call_json(&w, "/detokenize", buf_text(&body), 200), *piece;
    EXPECT(back);
    EXPECT_STR(client_string(back, "prompt"), "Hello, 🚀 world");
    EXPECT_STR(client_string(back, "content"), "Hello, 🚀 world");
    cJSON_ArrayForEach(piece, cJSON_GetObjectItemCaseSensitive(pieces, "tokens")) {
        const cJSON *p = cJSON_GetObjectItemCaseSensitive(piece, "piece"), *byte;
        if (cJSON_IsString(p))
            buf_add_str(&joined, p->valuestring);
        cJSON_ArrayForEach(byte, p) buf_add_byte(&joined, (char)byte->valueint);
    }
    EXPECT_STR(buf_text(&joined), "Hello, 🚀 world");
    buf_release(&joined);
    buf_release(&body);
    cJSON_free(tokens);
    cJSON_Delete(plain), cJSON_Delete(vllm), cJSON_Delete(pieces), cJSON_Delete(back);
    world_echo_end(&w);
}

TEST(templates_are_applied_without_an_answer) {
    struct world w;
    world_echo(&w, "{{ tools|length if tools }}{% for m in messages %}<{{ m.role }}>{{ m.content "
                   "}}{% endfor %}"
                   "{% if add_generation_prompt %}<a>{% endif %}{{ x }}");
    EXPECT(world_start(&w));
#define HELLO                                                                                      \
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}]}]"
    cJSON *json =
        call_json(&w, "/apply-template", HELLO ",\"chat_template_kwargs\":{\"x\":5}}", 200);
    EXPECT(json);
    EXPECT_STR(client_string(json, "prompt"), "<user>Hi<a>5");
    cJSON_Delete(json);
    json = call_json(&w, "/apply-template", HELLO ",\"add_generation_prompt\":false" TOOL "}", 200);
    EXPECT(json);
    EXPECT_STR(client_string(json, "prompt"), "1<user>Hi");
    cJSON_Delete(json);
    json = call_json(&w, "/tokenize", HELLO "}", 200);
    EXPECT(json && count_of(json) > 2);
    cJSON_Delete(json);
    static const char *const BAD[][2] = {
        {"/apply-template", "{}"},
        {"/tokenize", "{}"},
        {"/tokenize", "{\"prompt\":5}"},
        {"/detokenize", "{}"},
        {"/detokenize", "{\"tokens\":[-1]}"},
        {"/detokenize", "{\"tokens\":[99999999]}"},
        {"/detokenize", "{\"tokens\":\"a\"}"},
        {"/apply-template", HELLO ",\"chat_template\":\"x\"}"},
        {"/tokenize", HELLO ",\"chat_template\":\"x\"}"},
        {"/apply-template", "{\"messages\":[{\"role\":\"user\"}]}"}};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        json = call_json(&w, BAD[i][0], BAD[i][1], 400);
        EXPECT(json && cJSON_GetObjectItemCaseSensitive(json, "error"));
        cJSON_Delete(json);
    }
    json = call_json(&w, "/tokenize", "{\"prompt\":\"a\",\"model\":\"nobody\"}", 404);
    EXPECT(json);
    cJSON_Delete(json);
    world_echo_end(&w);
}

TEST(requests_bring_a_template_where_they_are_trusted) {
    struct world w;
    struct answer a;
    world_echo(&w, ECHO_TEMPLATE);
    w.settings.trust_request_template = true;
    EXPECT(world_start(&w));
    cJSON *json = call_json(&w, "/apply-template",
                            HELLO ",\"chat_template\":\"{{ messages[0].role }}!\"}", 200);
    EXPECT(json);
    EXPECT_STR(client_string(json, "prompt"), "user!");
    cJSON_Delete(json);
    CHAT(&w, "Hi", ",\"chat_template\":\"own {{ messages[0].content }}\"", &a);
    EXPECT_STR(buf_text(&a.text[0]), "own Hi");
    answer_release(&a);
    json = call_json(&w, "/apply-template", HELLO ",\"chat_template\":\"{% if %}\"}", 400);
    EXPECT(json && strstr(client_string(cJSON_GetObjectItemCaseSensitive(json, "error"), "message"),
                          "chat_template"));
    cJSON_Delete(json);
    json = call_json(&w, "/apply-template", HELLO ",\"chat_template\":7}", 400);
    EXPECT(json);
    cJSON_Delete(json);
    world_echo_end(&w);
}

/* Refused before there is any prompt: nothing of one may be freed. */
TEST(constraints_of_completions_are_refused_too) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":\"x\",\"guided_json\":false}", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    POST(&w, "{\"prompt\":\"x\",\"guided_regex\":\"(\"}", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    POST(&w, "{\"prompt\":[5],\"max_tokens\":2,\"ignore_eos\":true}", &a);
    EXPECT_EQ(a.status, 200);
    answer_release(&a);
    world_end(&w);
}

/* How often `what` stands in an answer. */
static int times(const struct answer *a, const char *what) {
    int count = 0;
    for (const char *at = buf_text(&a->body); (at = strstr(at, what)); at++)
        count++;
    return count;
}

TEST(token_ids_of_the_prompt_come_along) {
    struct world w;
    struct answer a;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    static const char *const streams[] = {"", ",\"stream\":true"};
    for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
        struct buf body = {0};
        buf_addf(&body,
                 "{\"prompt\":[[5,6],[7]],\"n\":2,\"max_tokens\":2,\"ignore_eos\":true,"
                 "\"return_token_ids\":true%s}",
                 streams[i]);
        POST(&w, buf_text(&body), &a);
        EXPECT_EQ(a.status, 200);
        EXPECT_EQ(times(&a, "\"prompt_token_ids\":[5,6]"), 2);
        EXPECT_EQ(times(&a, "\"prompt_token_ids\":[7]"), 2);
        answer_release(&a);
        buf_reset(&body);
        buf_addf(&body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"n\":2,"
                 "\"return_token_ids\":true%s}",
                 streams[i]);
        client_request(w.port, "POST", "/v1/chat/completions", NULL, buf_text(&body), &a);
        EXPECT_EQ(times(&a, "\"prompt_token_ids\":["), 1);
        EXPECT_STR(buf_text(&a.text[0]), "Hi");
        answer_release(&a);
        buf_release(&body);
    }
    world_echo_end(&w);
}
