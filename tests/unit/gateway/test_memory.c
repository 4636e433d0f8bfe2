/*
 * test_memory.c - a gateway whose memory runs out: for each kind of request every call that may
 * fail does, alone and with all behind it. The client gets its right answer or an error, and the
 * next one is served.
 */
#include "memory_faults.h"
#include "world.h"

enum { ALL = 1 << 30 };

struct kind {
    const char *path, *body;
    const char *repeated, *rest; /* NULL: none; follow the body, the first LARGE times */
    bool raw;                    /* all of it is compared: no id or time is in it */
};

enum { LARGE = 40000 };

#define SAMPLED ",\"max_tokens\":50,\"ignore_eos\":true}"
#define HELLO   "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"

static const struct kind KINDS[] = {
    {.path = "/v1/completions",
     .body = "{\"prompt\":[5,6,7],\"max_tokens\":300,\"n\":8,\"logprobs\":5,"
             "\"ignore_eos\":true}"},
    {.path = "/v1/completions",
     .body = "{\"prompt\":[\"one\",\"two\"],\"stream\":true,\"logit_bias\":{\"5\":1},"
             "\"stop\":[\"qqqq\"]" SAMPLED},
    {.path = "/v1/completions", .body = "{\"prompt\":\"a", .repeated = " b", .rest = "\"" SAMPLED},
    {.path = "/v1/completions", .body = "{\"prompt\":[5", .repeated = ",6", .rest = "]" SAMPLED},
    {.path = "/v1/chat/completions", .body = "{" HELLO TOOL SAMPLED},
    {.path = "/v1/chat/completions",
     .body = "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"a",
     .repeated = " b",
     .rest = "\"}]" SAMPLED},
    {.path = "/v1/chat/completions",
     .body = "{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\","
             "\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[\"b\",\"c\"]}}"
             "}}}," HELLO ",\"max_tokens\":50}"},
    {.path = "/v1/messages",
     .body = "{\"model\":\"fake\",\"max_tokens\":50,\"messages\":[{\"role\":\"user\","
             "\"content\":\"a",
     .repeated = " b",
     .rest = "\"}]}"},
    {.path = "/v1/responses",
     .body = "{\"max_output_tokens\":50,\"store\":true,\"input\":\"a",
     .repeated = " b",
     .rest = "\"}"},
    {.path = "/api/generate",
     .body = "{\"model\":\"fake\",\"stream\":false,\"options\":{\"num_predict\":50},\"prompt\":\"a",
     .repeated = " b",
     .rest = "\"}"},
    {.path = "/completion", .body = "{\"prompt\":\"hello\",\"n_predict\":50}"},
    {.path = "/generate", .body = "{\"text\":\"hello\",\"stream\":true}"},
    {.path = "/generate_stream", .body = "{\"inputs\":\"hello\"}", .raw = true},
    {.path = "/", .body = "{\"inputs\":\"hello\",\"parameters\":{\"details\":true}}", .raw = true},
    {.path = "/inference/v1/generate",
     .body = "{\"token_ids\":[5,6],\"request_id\":\"a\"}",
     .raw = true},
    {.path = "/tokenize", .body = "{\"content\":\"hello\"}", .raw = true},
};

static void write_body(const struct kind *k, struct buf *out) {
    buf_add_str(out, k->body);
    for (int i = 0; k->repeated && i < LARGE; i++)
        buf_add_str(out, k->repeated);
    buf_add_str(out, k->rest ? k->rest : "");
}

/* What the answer says, without ids and times. */
static void text_of(const struct answer *a, bool raw, struct buf *out) {
    buf_reset(out);
    for (int i = 0; i < CLIENT_CHOICES; i++)
        buf_addf(out, "%s|%s|", buf_text(&a->text[i]), a->finish[i]);
    buf_addf(out, "%s|%d", buf_text(&a->calls), a->prompt_tokens);
    if (raw)
        buf_add_bytes(out, buf_bytes(&a->body));
}

/* Is this all that the client should have had, or an error that says so? */
static bool is_right(const struct kind *k, const struct answer *a, const struct answer *calm) {
    struct buf is = {0}, shall = {0};
    text_of(a, k->raw, &is);
    text_of(calm, k->raw, &shall);
    bool same = a->status == calm->status && strcmp(buf_text(&is), buf_text(&shall)) == 0 &&
                a->events == calm->events &&
                (a->body.len + 64 > calm->body.len && calm->body.len + 64 > a->body.len);
    buf_release(&is);
    buf_release(&shall);
    bool told = a->status == 503 || a->status == 500;
    /* a stream that has begun says so, or is cut: its end is missing */
    bool cut = a->status == 200 && calm->events && (a->error_event || !a->done);
    return same || told || cut || a->status == 0;
}

static long ask_with_faults(struct world *w, const struct kind *k, const char *body,
                            const struct answer *calm, long n, long further) {
    struct answer a;
    faults_arm(n, further);
    client_request(w->port, "POST", k->path, NULL, body, &a);
    long calls = faults_disarm();
    if (!is_right(k, &a, calm))
        check_fail(__FILE__, __LINE__, "%s without call %ld and %ld more: %.*s", k->path, n,
                   further, (int)MIN(a.raw.len, (size_t)2000), buf_text(&a.raw));
    answer_release(&a);
    return calls;
}

TEST(memory_that_runs_out_costs_one_request_its_answer_and_nothing_else) {
    struct world w;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    w.fake_config.max_context = 1 << 20;
    w.fake_config.step_us = 0;
    w.settings.seed = 9;
    EXPECT(world_fake(&w));
    faults_spare_threads();
    EXPECT(world_gateway(&w));
    EXPECT(wait_until(is_ready, &w));
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        const struct kind *k = &KINDS[i];
        struct answer calm, again;
        struct buf body = {0};
        write_body(k, &body);
        client_request(w.port, "POST", k->path, NULL, body.data, &calm);
        if (calm.status != 200)
            check_fail(__FILE__, __LINE__, "%s: %s", k->path, buf_text(&calm.raw));
        long n = 1; /* until one n-th call was never made */
        while (ask_with_faults(&w, k, body.data, &calm, n, 0) >= n) {
            ask_with_faults(&w, k, body.data, &calm, n, ALL);
            n++;
        }
        printf("# %s: %ld calls\n", k->path, n - 1);
        client_request(w.port, "POST", k->path, NULL, body.data, &again);
        EXPECT_EQ(again.status, calm.status);
        EXPECT(wait_until(is_empty, &w));
        answer_release(&calm);
        answer_release(&again);
        buf_release(&body);
    }
    world_end(&w);
}
