/* Requests that ask how likely tokens are, and how rerankers are asked about pairs of texts. */
#include "check.h"
#include "gateway/dialects/labels.h"
#include "gateway/prompts/pair_template.h"

TEST(labels_make_a_prompt_of_each_item) {
    struct genreq g;
    struct api_error err;
    const char *body = "{\"query\":\"q\",\"items\":[\"a\",[1,2],\"c\"],\"label_token_ids\":[7,8],"
                       "\"item_first\":true}";
    EXPECT_EQ(genreq_parse(&g, GENREQ_GENERATIVE_SCORING, bytes_str(body), &err), 0);
    EXPECT_EQ(g.prompt_count, 4u);
    EXPECT_EQ(labels_prompt_count(&g), 6u);
    EXPECT(g.prompts[2].is_ids && g.prompts[2].ids.count == 2 && !g.prompts[1].is_ids);
    EXPECT(g.labels.item_first && g.labels.softmax && !g.labels.joins_texts);
    EXPECT(g.prompt_logprobs == 0 && genreq_max_tokens(&g, 5) == 0 && g.add_special_tokens);
    genreq_release(&g);
    EXPECT_EQ(genreq_parse(&g, GENREQ_SCORE, bytes_str(body), &err), 0); /* as the body says */
    EXPECT(g.dialect == GENREQ_LABEL_SCORES && !g.labels.softmax && g.labels.joins_texts);
    genreq_release(&g);
}

TEST(labels_that_make_no_sense_are_refused_by_name) {
    static const struct {
        enum genreq_dialect dialect;
        const char *body, *param;
    } CASES[] = {
        {GENREQ_GENERATIVE_SCORING, "{\"items\":[\"a\"],\"label_token_ids\":[1]}", "query"},
        {GENREQ_GENERATIVE_SCORING, "{\"query\":\"q\",\"label_token_ids\":[1]}", "items"},
        {GENREQ_GENERATIVE_SCORING, "{\"query\":\"q\",\"items\":[\"a\"]}", "label_token_ids"},
        {GENREQ_GENERATIVE_SCORING, "{\"query\":\"q\",\"items\":[],\"label_token_ids\":[1]}",
         "items"},
        {GENREQ_GENERATIVE_SCORING, "{\"query\":\"q\",\"items\":[3],\"label_token_ids\":[1]}",
         "items"},
        {GENREQ_GENERATIVE_SCORING, "{\"query\":1,\"items\":[\"a\"],\"label_token_ids\":[1]}",
         "query"},
        {GENREQ_GENERATIVE_SCORING, "{\"query\":\"q\",\"items\":[\"a\"],\"label_token_ids\":[]}",
         "label_token_ids"},
        {GENREQ_GENERATIVE_SCORING, "{\"query\":\"q\",\"items\":[\"a\"],\"label_token_ids\":\"x\"}",
         "label_token_ids"},
        {GENREQ_PPL, "{}", "input"},
        {GENREQ_PPL, "{\"input\":[[1]]}", "input"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(genreq_parse(&g, CASES[i].dialect, bytes_str(CASES[i].body), &err), -1);
        if (err.status != 400 || strcmp(err.param, CASES[i].param) != 0)
            check_fail(__FILE__, __LINE__, "%s: %d '%s' '%s'", CASES[i].body, err.status, err.param,
                       err.text);
        genreq_release(&g);
    }
}

/* A chat with these templates; "" is none. */
static struct chat *chat_of(const char *usual, const char *rerank) {
    struct bundle bundle = {.file_count = 0};
    struct chat *chat;
    struct error err;
    CHECK(chat_load(&bundle, &chat, &err) == 0);
    CHECK(!*usual || chat_set_template(chat, bytes_str(usual), &err) == 0);
    CHECK(!*rerank || chat_add_template(chat, "rerank", bytes_str(rerank), &err) == 0);
    return chat;
}

TEST(the_template_of_pairs_is_found) {
    static const char ROLES[] =
        "{% for m in messages if m.role in ['query', 'document'] %}x{% endfor %}";
    static const char MARKS[] = "Q {query} D {document}\n";
    static const struct {
        const char *usual, *rerank;
        bool qwen3_writes, is_there, takes_instruction;
        const char *name;
    } CASES[] = {
        {"", "", false, false, false, NULL},
        {"{{ messages[0].content }}", "", false, false, false, NULL},
        {"{{ messages[0].content }}", "", true, true, true, "pair of texts"},
        {ROLES, "", true, true, false, NULL},
        {"{# \"system\" 'query' \"document\" #}", "", false, true, true, NULL},
        {ROLES, MARKS, true, true, false, "pair of texts"},
        {"", "{{ 'query' + 'document' }}", false, true, false, "rerank"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct chat *chat = chat_of(CASES[i].usual, CASES[i].rerank);
        struct pair_template found;
        struct error err;
        EXPECT_EQ(pair_template_find(chat, CASES[i].qwen3_writes, &found, &err), 0);
        EXPECT_EQ(found.is_there, CASES[i].is_there);
        if (found.is_there) {
            EXPECT_EQ(found.takes_instruction, CASES[i].takes_instruction);
            EXPECT_STR(found.name ? found.name : "", CASES[i].name ? CASES[i].name : "");
        }
        chat_free(&chat);
    }
}

/* llama.cpp's marks stand for the texts, whatever they hold; the end of the template stays. */
TEST(marks_become_the_texts) {
    struct chat *chat = chat_of("{{ messages[0].content }}", "<{query}|{document}|{query}>\n\n");
    struct pair_template found;
    struct error err;
    struct buf out = {0};
    EXPECT_EQ(pair_template_find(chat, false, &found, &err), 0);
    struct chat_request request = {
        .messages = bytes_str("[{\"role\":\"query\",\"content\":\"{document} {{ 1 }}\"},"
                              "{\"role\":\"document\",\"content\":\"d\"}]"),
        .template_name = found.name};
    EXPECT_EQ(chat_render(chat, &request, &out, &err), 0);
    EXPECT_STR(buf_text(&out), "<{document} {{ 1 }}|d|{document} {{ 1 }}>\n\n");
    buf_release(&out);
    chat_free(&chat);
}
