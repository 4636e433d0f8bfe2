/* Which streams can be taken up again, and how a client may say what it has of one. That they go on is
 * tested end to end. */
#include "world.h"

static const char NAMED[] = "X-Conversation-Id: c\r\n";

/* Those alone have numbered events whose bytes come of the tokens alone; the others are streams as ever. */
TEST(streams_of_openai_and_anthropic_have_ids) {
    static const struct {
        const char *path, *body;
        bool has_ids;
    } CASES[] = {
        {"/v1/chat/completions", "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]", true},
        {"/v1/completions", "\"prompt\":\"a\"", true},
        {"/v1/messages", "\"model\":\"fake\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]",
         true},
        {"/v1/responses", "\"input\":\"a\"", false},
        {"/completion", "\"prompt\":\"a\"", false},
        {"/generate", "\"text\":\"a\"", false},
        {"/api/chat", "\"model\":\"fake\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]",
         false},
    };
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        for (int named = 0; named < 2; named++) {
            char body[300];
            struct answer a;
            snprintf(body, sizeof body, "{%s,\"stream\":true,\"%s\":20}", CASES[i].body,
                     strstr(CASES[i].path, "responses") ? "max_output_tokens" : "max_tokens");
            client_request(w.port, "POST", CASES[i].path, named ? NAMED : NULL, body, &a);
            bool has = strstr(buf_text(&a.body), "id: 1-") != NULL;
            if (a.status != 200 || has != (named && CASES[i].has_ids))
                check_fail(__FILE__, __LINE__, "%s: %s", CASES[i].path, buf_text(&a.raw));
            answer_release(&a);
        }
    world_end(&w);
}

TEST(what_a_client_has_is_read_strictly) {
    static const char FROM[] = "'from' is the count of bytes that the client has",
                      ID[] = "Last-Event-ID is no id of this server's",
                      NAME[] = "the id of a conversation has 1 to ";
    static const struct {
        const char *path, *headers, *refusal; /* NULL: it is looked for, and not there */
    } CASES[] = {
        {"/v1/stream/c", NULL, NULL},
        {"/v1/stream/c?from=0", NULL, NULL},
        {"/v1/stream/c?from=7", NULL, NULL},
        {"/v1/stream/c?from=10", NULL, NULL},
        {"/v1/stream?conv_id=c&from=9", NULL, NULL},
        {"/v1/stream/c?from=", NULL, FROM},
        {"/v1/stream/c?from=x", NULL, FROM},
        {"/v1/stream/c?from=7x", NULL, FROM},
        {"/v1/stream/c?from=-7", NULL, FROM},
        {"/v1/stream/c?from=+7", NULL, FROM},
        {"/v1/stream/c?from=%207", NULL, FROM},
        {"/v1/stream/c?from=1234567890123456789012345", NULL, FROM},
        {"/v1/stream/c", "Last-Event-ID: 1-0\r\n", NULL},
        {"/v1/stream/c", "Last-Event-ID: 1\r\n", ID},
        {"/v1/stream/c?from=7", "Last-Event-ID: x\r\n", ID},
        {"/v1/stream?conv_id=", NULL, NAME},
        {"/v1/stream/a%20b", NULL, NAME},
        {"/v1/stream/a/b", NULL, NAME},
        {"/v1/stream/-._~:@+=aZ09", NULL, NULL},
    };
    struct world w;
    world_prepare(&w);
    w.settings.model_wait_ms = 20;
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct answer a;
        client_request(w.port, "GET", CASES[i].path, CASES[i].headers, NULL, &a);
        if (CASES[i].refusal ? a.status != 400 || !strstr(buf_text(&a.body), CASES[i].refusal)
                             : a.status == 400 || a.status == 200)
            check_fail(__FILE__, __LINE__, "%s: %s", CASES[i].path, buf_text(&a.raw));
        answer_release(&a);
    }
    world_end(&w);
}
