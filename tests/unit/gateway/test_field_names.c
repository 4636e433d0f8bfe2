/* Errors name a field as the client did: of every other name in every table, and in requests as
 * clients send them. */
#include <stdio.h>

#include "base/base.h"
#include "check.h"
#include "gateway/dialects/embed.h"
#include "gateway/dialects/labels.h"
#include "gateway/fields/field.h"

static const struct field_set *const SETS[] = {&fields_chat,         &fields_completions,
                                               &fields_messages,     &fields_responses,
                                               &fields_ollama_chat,  &fields_ollama_generate,
                                               &fields_completion,   &fields_infill,
                                               &fields_generate,     &fields_tgi,
                                               &fields_tokens,       &fields_text_calls,
                                               &fields_embeddings,   &fields_llama_embedding,
                                               &fields_ollama_embed, &fields_ollama_embeddings,
                                               &fields_pooling,      &fields_classify,
                                               &fields_cohere_embed, &fields_encode,
                                               &fields_rerank,       &fields_score,
                                               &fields_label_scores, &fields_generative_scoring};

/* A dialect's readers may write behind struct genreq. */
struct roomy_request {
    struct genreq g;
    char room[4096];
};

static const char *canonical(const struct field *f) {
    return f->of ? f->of : f->name;
}

/* Do both set the same thing? What a constraint is called is kept beside it. */
static bool is_same(const struct field *a, const struct field *b) {
    if (a->kind != b->kind || a->kind >= FIELD_REFUSED)
        return false;
    return a->kind == FIELD_CUSTOM ? a->read == b->read : a->offset == b->offset;
}

static bool is_constraint(const struct field *f) {
    for (size_t i = 0; i < field_constraint.row_count; i++)
        if (is_same(f, &field_constraint.rows[i]))
            return true;
    return false;
}

/* Every row of a set that some request reaches: a later table's of the same name never is. */
#define EACH_ROW(set, f)                                                                           \
    for (size_t f##_t = 0; f##_t < (set)->table_count; f##_t++)                                    \
        for (const struct field *f = (set)->tables[f##_t]->rows,                                   \
                                *f##_end = f + (set)->tables[f##_t]->row_count;                    \
             f < f##_end; f++)                                                                     \
            if (field_find(set, bytes_str(f->name)) == f)

TEST(two_names_of_a_field_are_told_of_in_the_table) {
    for (size_t s = 0; s < ARRAY_LEN(SETS); s++)
        EACH_ROW(SETS[s], a) {
            EACH_ROW(SETS[s], b) {
                if (!is_same(a, b) || is_constraint(a))
                    continue;
                EXPECT_STR(canonical(a), canonical(b));
            }
        }
}

/* A body that gives the field alone, with a value that its reader takes. */
static bool give(const struct field_set *set, const struct field *f, struct roomy_request *q) {
    static const char *const VALUES[] = {"1",        "true",
                                         "\"x\"",    "[\"x\"]",
                                         "[1]",      "[{\"name\":\"x\"}]",
                                         "\"none\"", "[{\"a\":\"x\"}]",
                                         "[]",       "{\"type\":\"text\"}"};
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
        char body[128];
        struct api_error err;
        snprintf(body, sizeof body, "{\"%s\":%s}", f->name, VALUES[i]);
        *q = (struct roomy_request){.room = {0}};
        genreq_init(&q->g, GENREQ_CHAT);
        if (field_read_request(&q->g, set, bytes_str(body), &err) == 0)
            return true;
        genreq_release(&q->g);
    }
    return false;
}

/* Its reader keeps lists that the dialect's parser frees. */
static bool keeps_lists(const struct field_set *set, const struct field *f) {
    return (set == &fields_rerank || set == &fields_score) && f->kind == FIELD_CUSTOM;
}

TEST(an_error_calls_a_field_as_its_client_did) {
    uint32_t told = 0;
    for (size_t s = 0; s < ARRAY_LEN(SETS); s++)
        EACH_ROW(SETS[s], f) {
            struct roomy_request q;
            struct api_error err;
            char expected[256];
            if (!f->of || keeps_lists(SETS[s], f))
                continue;
            if (!give(SETS[s], f, &q)) {
                check_fail(__FILE__, __LINE__, "no value for '%s'", f->name);
                continue;
            }
            api_error_set(&err, API_BAD_REQUEST, f->of, "'%s' and 'it', as '%s'", f->of, f->of);
            field_name_as_asked(&q.g, &err);
            field_name_as_asked(&q.g, &err); /* changes nothing more */
            snprintf(expected, sizeof expected, "'%s' and 'it', as '%s'", f->name, f->name);
            EXPECT_STR(err.param, f->name);
            EXPECT_STR(err.text, expected);
            genreq_release(&q.g);
            told++;
        }
    EXPECT(told > 50);
}

TEST(long_texts_and_other_names_are_left) {
    struct genreq g;
    struct api_error err;
    char text[API_ERROR_TEXT_MAX];
    genreq_init(&g, GENREQ_CHAT);
    g.aliases[g.alias_count++] = (struct genreq_alias){"n", "n_cmpl"};
    api_error_set(&err, API_BAD_REQUEST, "min_tokens", "'min_tokens' or n or 'n_cmpl'");
    field_name_as_asked(&g, &err);
    EXPECT_STR(err.param, "min_tokens");
    EXPECT_STR(err.text, "'min_tokens' or n or 'n_cmpl'");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "'n'"[i % 3];
    text[sizeof text - 1] = 0;
    api_error_set(&err, API_BAD_REQUEST, "n", "%s", text);
    field_name_as_asked(&g, &err);
    EXPECT_STR(err.param, "n_cmpl");
    EXPECT_EQ(strlen(err.text), sizeof err.text - 1);
    genreq_release(&g);
}

/* Requests that are refused by what spans fields, or by their readers. */
TEST(requests_are_refused_by_the_names_they_use) {
    static const struct {
        enum genreq_dialect dialect;
        const char *body, *param, *text;
    } CASES[] = {
        {GENREQ_COMPLETION, "{\"prompt\":[\"a\",\"b\"],\"n_cmpl\":100}", "n_cmpl",
         "prompts times 'n_cmpl' is more than 128"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[\"a\",\"b\"],\"n\":100}", "n",
         "prompts times 'n' is more than 128"},
        /* a reader says its field's own name, whatever came before */
        {GENREQ_GENERATE, "{\"text\":\"a\",\"prompt\":\"b\"}", "prompt",
         "'prompt' is not offered by this server"},
        {GENREQ_RESPONSES, "{\"input\":\"a\",\"messages\":[1]}", "messages",
         "'messages' is not offered by this server"},
        {GENREQ_CHAT, "{\"max_new_tokens\":5,\"max_tokens\":6}", "max_tokens",
         "'max_tokens' and another name of the same field have different values"},
        {GENREQ_COMPLETIONS, "{\"max_tokens\":1,\"prompt\":\"a\\u0000b\",\"n\":1}", "prompt",
         "'prompt' holds a zero character (\\u0000) at byte 27, which no field may have"},
        {GENREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\\u0000\"}]}", "messages",
         "'messages' holds a zero character (\\u0000) at byte 39, which no field may have"},
        {GENREQ_CHAT, "{\"user\":\"a\",\"messages\":[{]}", "messages", NULL},
        {GENREQ_CHAT, "{\"user\":\"a\" \"n\":1}", "", NULL},
        {GENREQ_CHAT, "{\"user\\u0000\":\"a\"}", "", NULL},
        {GENREQ_CHAT, "[\"\\u0000\"]", "", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err = {.text = ""};
        EXPECT_EQ(genreq_parse(&g, CASES[i].dialect, bytes_str(CASES[i].body), &err), -1);
        EXPECT_STR(err.param, CASES[i].param);
        if (CASES[i].text)
            EXPECT_STR(err.text, CASES[i].text);
        genreq_release(&g);
    }
}
