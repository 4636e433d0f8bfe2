/* The whole gateway against a fake scheduler over a real link, asked by real sockets: what streams and whole answers
 * hold, through faults, stops, cancels and pauses. */
#include <malloc.h>

#include "world.h"

#include "gateway/gateway_state.h"
#include "gateway/generation/event_thread.h"
#include "gateway/watch/gateway_metrics.h"
#include "text/tokenizer/detokenizer.h"

static bool is_paused(struct world *w) {
    return fake_counts(w->fake).paused > 0;
}

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
    EXPECT_EQ(fake_counts(w.fake).choice_cancels,
              1); /* not of the whole request, once the other ended */
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
    EXPECT(wait_until(is_paused, &w)); /* as soon as the kernel takes no more of it */
    answer_init(&slow);
    client_finish(fd, &slow);
    EXPECT(slow.done);
    EXPECT_STR(buf_text(&slow.text[0]), buf_text(&fast.text[0]));
    answer_release(&slow);
    answer_release(&fast);
    world_end(&w);
}

enum { SLOW_CLIENTS = 40 };
static bool are_paused(struct world *w) {
    return fake_counts(w->fake).paused == SLOW_CLIENTS;
}

/* What waits for one that reads too slowly is bounded well below what a crowd could take. */
TEST(slow_readers_hold_little_memory) {
    struct world w;
    int fds[SLOW_CLIENTS];
    world_prepare(&w);
    w.fake_config.step_us = 0;
    EXPECT(world_start(&w));
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < SLOW_CLIENTS; i++)
        fds[i] = client_open(w.port, "POST", "/v1/completions", NULL,
                             "{\"prompt\":[9,9],\"max_tokens\":1000000,\"ignore_eos\":true,"
                             "\"stream\":true}");
    EXPECT(wait_until(are_paused, &w));
    size_t held = mallinfo2().uordblks + mallinfo2().hblkhd - before;
    EXPECT(held / SLOW_CLIENTS < 128 * 1024); /* the fake scheduler's part, too */
    for (int i = 0; i < SLOW_CLIENTS; i++)
        close(fds[i]);
    EXPECT(wait_until(is_empty, &w));
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

static void *drain(void *ctx) {
    struct world *w = ctx;
    return gateway_drain(w->gw) ? w : NULL;
}

#define MEMBER(object, name) cJSON_GetObjectItemCaseSensitive(object, name)

/* Each call has its answers, and its body, where it takes one, as members of its own. */
TEST(the_openapi_document_is_whole) {
    struct world w;
    struct answer a;
    int with_body = 0, count = 0;
    world_prepare(&w);
    EXPECT(world_gateway(&w)); /* nobody else is asked */
    client_request(w.port, "GET", "/openapi.json", NULL, NULL, &a);
    EXPECT_EQ(a.status, 200);
    cJSON *document = cJSON_ParseWithLength(buf_text(&a.body), a.body.len);
    const cJSON *path, *call, *paths = MEMBER(document, "paths");
    cJSON_ArrayForEach(path, paths) cJSON_ArrayForEach(call, path) {
        const cJSON *body = MEMBER(call, "requestBody"), *responses = MEMBER(call, "responses");
        EXPECT(MEMBER(responses, "200") && MEMBER(responses, "default"));
        EXPECT(!MEMBER(body, "responses") && !MEMBER(MEMBER(body, "content"), "responses"));
        if (body)
            EXPECT(cJSON_IsObject(
                MEMBER(MEMBER(MEMBER(body, "content"), "application/json"), "schema")));
        with_body += body != NULL;
        count++;
    }
    EXPECT(count > 40 && with_body > 10 && MEMBER(document, "components"));
    cJSON_Delete(document);
    answer_release(&a);
    world_end(&w);
}

/* While a gateway ends its server is no longer to be asked, but its threads have turns until they are
 * joined. */
TEST(turns_go_on_while_the_gateway_ends) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":\"a\",\"max_tokens\":2}", &a); /* ticks come for a while behind it */
    EXPECT_EQ(a.status, 200);
    answer_release(&a);
    pthread_mutex_lock(&w.gw->http_mutex);
    struct http_server *http = w.gw->http;
    w.gw->http = NULL;
    pthread_mutex_unlock(&w.gw->http_mutex);
    sleep_ms(3 * EVENT_THREAD_TICK_MS);
    pthread_mutex_lock(&w.gw->http_mutex);
    w.gw->http = http;
    pthread_mutex_unlock(&w.gw->http_mutex);
    world_end(&w);
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
