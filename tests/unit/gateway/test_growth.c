/*
 * test_growth.c - a gateway that has answered many requests holds as much as one that has answered
 * a few. Bytes that were asked for and not given back are counted, of the whole process: the
 * gateway, its libraries, and the fake scheduler. Resident memory in time would say less.
 */
#include "live_bytes.h"
#include "world.h"

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"

/* The kinds of bench/soak, and more. Those that leave close their connection behind the head. */
static const struct kind {
    const char *path, *body, *headers;
    int status;
    bool leaves;
} KINDS[] = {
    {"/v1/chat/completions", "{" HELLO ",\"max_tokens\":9,\"stream\":true}", NULL, 200, false},
    {"/v1/chat/completions", "{" HELLO TOOL ",\"max_tokens\":9}", NULL, 200, false},
    {"/v1/completions",
     "{\"prompt\":[\"a\",\"b c\"],\"max_tokens\":9,\"n\":2,\"logprobs\":2,"
     "\"stop\":[\"qq\"],\"logit_bias\":{\"5\":1}}",
     NULL, 200, false},
    {"/v1/messages", "{\"model\":\"fake\",\"max_tokens\":9," HELLO ",\"stream\":true}", NULL, 200,
     false},
    {"/v1/responses", "{\"input\":\"hello\",\"max_output_tokens\":16}", NULL, 200, false},
    {"/v1/responses", "{\"input\":\"hello\",\"max_output_tokens\":16,\"store\":false}", NULL, 200,
     false},
    {"/api/chat", "{\"model\":\"fake\"," HELLO ",\"options\":{\"num_predict\":9}}", NULL, 200,
     false},
    {"/completion", "{\"prompt\":\"hello\",\"n_predict\":9}", NULL, 200, false},
    {"/tokenize", "{\"content\":\"hello\",\"with_pieces\":true}", NULL, 200, false},
    {"/v1/embeddings", "{\"input\":[\"a\",\"b\"]}", NULL, 0, false},
    {"/v1/chat/completions",
     "{" HELLO ",\"max_tokens\":9,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
     "\"name\":\"x\",\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[\"b\"]}}}}}}",
     NULL, 200, false},
    {"/v1/completions",
     "{\"prompt\":\"hello\",\"max_tokens\":500,\"ignore_eos\":true,\"stream\":true}", NULL, 200,
     true},
    {"/v1/completions", "{\"prompt\":\"hello\",\"max_tokens\":9,\"stream\":true}",
     "X-Conversation-Id: c\r\n", 200, false},
    {"/v1/chat/completions", "{\"messages\":7}", NULL, 400, false},
    {"/v1/completions", "{\"prompt\":[4294967295]}", NULL, 400, false},
    {"/v1/completions", "{", NULL, 400, false},
    {"/v1/none", "{}", NULL, 404, false},
};

static void ask(struct world *w, const struct kind *k) {
    struct answer a;
    if (k->leaves) {
        char head[200];
        int fd = client_open(w->port, "POST", k->path, k->headers, k->body);
        EXPECT(read(fd, head, sizeof head) > 0);
        close(fd);
        return;
    }
    client_request(w->port, "POST", k->path, k->headers, k->body, &a);
    if (k->status ? a.status != k->status : a.status == 0)
        check_fail(__FILE__, __LINE__, "%s %s: %s", k->path, k->body, buf_text(&a.raw));
    answer_release(&a);
}

static void ask_all(struct world *w, int rounds) {
    for (int i = 0; i < rounds; i++)
        for (size_t k = 0; k < ARRAY_LEN(KINDS); k++)
            ask(w, &KINDS[k]);
    EXPECT(wait_until(is_empty, w));
}

/* What is held once nothing is given back any more: the least of some moments. */
static int64_t at_rest(void) {
    int64_t least = live_bytes();
    for (int same = 0; same < 20; same++) {
        sleep_ms(10);
        if (live_bytes() < least)
            same = 0;
        least = MIN(least, live_bytes());
    }
    return least;
}

enum { WARM_ROUNDS = 40, ROUNDS = 120, PHASES = 5, SMALLEST = 16 /* bytes an allocation takes */ };

/* What is kept to be used again grows to the most that was ever needed at one time, which one phase
 * or another may pass; what is lost with each request of a kind grows in every one. */
TEST(a_gateway_holds_no_more_after_many_requests_than_after_few) {
    struct world w;
    world_prepare(&w);
    w.fake_config.step_us = 0;
    w.fake_config.with_logprobs = true;
    w.settings.responses_bytes = 16 << 10; /* full before the first look */
    EXPECT(world_start(&w));
    ask_all(&w, WARM_ROUNDS);
    int64_t grown = ROUNDS * SMALLEST;
    for (int phase = 0; phase < PHASES && grown >= ROUNDS * SMALLEST; phase++) {
        int64_t before = at_rest();
        ask_all(&w, ROUNDS);
        grown = at_rest() - before;
        printf("# %lld bytes, and %lld more\n", (long long)before, (long long)grown);
    }
    EXPECT(grown < ROUNDS * SMALLEST); /* less than the smallest object with each of one kind */
    world_end(&w);
}
