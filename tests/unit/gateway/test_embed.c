/* Requests for embeddings: their fields, and how vectors are shown. */
#include "check.h"
#include "demo_tokenizer.h"
#include "gateway/dialects/embed.h"
#include "gateway/prompts/prepare.h"

#include <math.h>

static int parse(struct genreq *g, enum genreq_dialect dialect, const char *body,
                 struct api_error *err) {
    *err = (struct api_error){0};
    return genreq_parse(g, dialect, bytes_str(body), err);
}

TEST(inputs_are_texts_or_token_ids) {
    static const struct {
        const char *body;
        uint32_t count;
        bool ids;
    } cases[] = {{"{\"input\":\"a\"}", 1, false},
                 {"{\"input\":[\"a\",\"\",\"c\"]}", 3, false},
                 {"{\"input\":[1,2,3]}", 1, true},
                 {"{\"input\":[[1],[2,3]]}", 2, true}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(parse(&g, GENREQ_EMBEDDINGS, cases[i].body, &err), 0);
        EXPECT_EQ(g.prompt_count, cases[i].count);
        for (uint32_t k = 0; k < g.prompt_count; k++)
            EXPECT_EQ(g.prompts[k].is_ids, cases[i].ids);
        EXPECT(genreq_embeds(&g) && g.add_special_tokens && !g.truncate.wanted);
        genreq_release(&g);
    }
}

#define COHERE(more) "{\"texts\":[\"a\"]," more "}"

TEST(what_makes_no_sense_is_refused_by_name) {
    static const struct {
        enum genreq_dialect dialect;
        const char *body, *param, *text;
    } cases[] = {
        {GENREQ_EMBEDDINGS, "{}", "input", "missing"},
        {GENREQ_EMBEDDINGS, "{\"input\":[]}", "input", "empty"},
        {GENREQ_EMBEDDINGS, "{\"input\":[\"a\",[1]]}", "input", "not an array"},
        {GENREQ_EMBEDDINGS, "{\"input\":[[1],\"a\"]}", "input", "not a string"},
        {GENREQ_EMBEDDINGS, "{\"input\":[[]]}", "input", "empty list"},
        {GENREQ_EMBEDDINGS, "{\"input\":[-1]}", "input", "between 0"},
        {GENREQ_EMBEDDINGS, "{\"input\":{}}", "input", "a string or an array"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"input\":\"b\"}", NULL, "malformed"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"dimensions\":0}", "dimensions",
         "between 1 and 65536"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"dimensions\":65537}", "dimensions", "between 1"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"encoding_format\":\"hex\"}", "encoding_format",
         "float or base64"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"truncate_prompt_tokens\":-2}",
         "truncate_prompt_tokens", "between -1"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"truncation_side\":\"up\"}", "truncation_side",
         "left or right"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"embd_normalize\":1}", "embd_normalize", "-1"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"messages\":[{}]}", "messages", "not offered"},
        {GENREQ_LLAMA_EMBEDDING, "{\"content\":\"a\",\"input\":\"b\"}", "input",
         "different values"},
        {GENREQ_LLAMA_EMBEDDING, "{\"content\":\"a\",\"encoding_format\":\"base64\"}",
         "encoding_format", "/v1/embeddings"},
        {GENREQ_OLLAMA_EMBED, "{\"prompt\":\"a\"}", "input", "missing"},
        {GENREQ_OLLAMA_EMBED, "{\"input\":\"a\",\"options\":[]}", "options", "an object"},
        {GENREQ_OLLAMA_EMBEDDINGS, "{\"prompt\":[\"a\"]}", "prompt", "a string"},
        {GENREQ_POOLING, "{\"input\":\"a\",\"task\":\"token_embed\"}", "task", "embed"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"output_dimension\":8}", "output_dimension",
         "use dimensions"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"output_dtype\":\"int8\"}", "output_dtype",
         "use encoding_format"},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"late_chunking\":true}", "late_chunking",
         "not offered"},
        {GENREQ_OLLAMA_EMBED, "{\"input\":\"a\",\"encoding_format\":\"base64\"}", "encoding_format",
         "not offered"},
        {GENREQ_OLLAMA_EMBEDDINGS, "{\"prompt\":\"a\",\"dimensions\":8}", "dimensions",
         "not offered"},
        {GENREQ_RERANK, "{\"query\":\"a\",\"documents\":[\"b\"],\"top_k\":1}", "top_k",
         "use top_n"},
        {GENREQ_SCORE, "{\"text_1\":\"a\",\"text_2\":\"b\",\"return_documents\":true}",
         "return_documents", "not offered"},
        {GENREQ_CLASSIFY, "{\"text\":\"a\"}", "input", "missing"},
        {GENREQ_CLASSIFY, "{\"input\":\"a\",\"messages\":[{}]}", "messages", "not offered"},
        {GENREQ_COHERE_EMBED, "{\"texts\":\"a\"}", "texts", "an array of strings"},
        {GENREQ_COHERE_EMBED, "{\"texts\":[1,2]}", "texts", "an array of strings"},
        {GENREQ_COHERE_EMBED, "{\"texts\":[]}", "texts", "empty"},
        {GENREQ_COHERE_EMBED, "{\"images\":[\"a\"]}", "images", "not offered"},
        {GENREQ_COHERE_EMBED, COHERE("\"input_type\":\"image\""), "input_type", "clustering"},
        {GENREQ_COHERE_EMBED, COHERE("\"embedding_types\":[\"int8\"]"), "embedding_types", "float"},
        {GENREQ_COHERE_EMBED, COHERE("\"embedding_types\":[\"float\",\"base64\"]"),
         "embedding_types", "float"},
        {GENREQ_COHERE_EMBED, COHERE("\"truncate\":\"end\""), "truncate", "START"},
        {GENREQ_COHERE_EMBED, COHERE("\"truncate\":\"NONE\",\"max_tokens\":5"), "max_tokens",
         "NONE"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(parse(&g, cases[i].dialect, cases[i].body, &err), -1);
        if (err.status != 400 || !strstr(err.text, cases[i].text) ||
            strcmp(err.param, cases[i].param ? cases[i].param : "") != 0)
            check_fail(__FILE__, __LINE__, "%s: %d '%s' '%s'", cases[i].body, err.status, err.param,
                       err.text);
        genreq_release(&g);
    }
}

TEST(dialects_have_their_own_defaults) {
    static const struct {
        enum genreq_dialect dialect;
        const char *body;
        bool truncates;
        enum embed_normalize normalize;
    } cases[] = {
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\"}", false, EMBED_AS_THE_MODEL},
        {GENREQ_EMBEDDINGS, "{\"input\":\"a\",\"normalize\":false,\"truncate_prompt_tokens\":-1}",
         true, EMBED_AS_IT_IS},
        {GENREQ_LLAMA_EMBEDDING, "{\"content\":\"a\"}", false, EMBED_NORMALIZE},
        {GENREQ_LLAMA_EMBEDDING, "{\"content\":\"a\",\"embd_normalize\":-1}", false,
         EMBED_AS_IT_IS},
        {GENREQ_OLLAMA_EMBED, "{\"input\":\"a\"}", true, EMBED_NORMALIZE},
        {GENREQ_OLLAMA_EMBED, "{\"input\":\"a\",\"truncate\":false}", false, EMBED_NORMALIZE},
        {GENREQ_OLLAMA_EMBEDDINGS, "{\"prompt\":\"a\"}", true, EMBED_AS_IT_IS},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(parse(&g, cases[i].dialect, cases[i].body, &err), 0);
        EXPECT_EQ(g.truncate.wanted, cases[i].truncates);
        EXPECT_EQ(g.embed.normalize, cases[i].normalize);
        genreq_release(&g);
    }
}

static void expect_shown(struct embed_form form, const float *values, const char *want) {
    struct buf out = {0};
    embed_write(&form, values, 4, &out);
    buf_add_byte(&out, 0);
    if (strcmp(out.data, want) != 0)
        check_fail(__FILE__, __LINE__, "'%s', expected '%s'", out.data, want);
    buf_release(&out);
}

TEST(vectors_are_cut_scaled_and_shown) {
    static const float values[] = {3, -4, 12, 0.1f}, nothing[4] = {0};
    expect_shown((struct embed_form){.width = 4}, values, "[3,-4,12,0.100000001]");
    expect_shown((struct embed_form){.width = 2}, values, "[3,-4]");
    expect_shown((struct embed_form){.width = 2, .normalize = true}, values,
                 "[0.600000024,-0.800000012]");
    expect_shown((struct embed_form){.width = 3, .normalize = true}, values,
                 "[0.230769232,-0.307692319,0.923076928]");
    expect_shown((struct embed_form){.width = 4, .normalize = true}, nothing, "[0,0,0,0]");
    /* base64.b64encode(struct.pack("<f...", ...)) in Python */
    expect_shown((struct embed_form){.width = 1, .base64 = true}, values, "\"AABAQA==\"");
    expect_shown((struct embed_form){.width = 2, .base64 = true}, values, "\"AABAQAAAgMA=\"");
    expect_shown((struct embed_form){.width = 3, .base64 = true}, values, "\"AABAQAAAgMAAAEBB\"");
}

/* The query stands in front of each text: what a request asks for in tokens grows as their product. */
TEST(pairs_of_one_request_have_a_bound) {
    static const int COUNTS[] = {510, 515}; /* of 8192 tokens and two or three more */
    struct buf packed, body = {0};
    struct tokenizer *t = demo_tokenizer(&packed);
    struct text_model text = {.tokenizer = t, .token_bytes_most = tokenizer_token_bytes_most(t)};
    struct served_model m = {.name = (char *)"pairs",
                             .max_context = 16384,
                             .logits_width = tokenizer_vocab_count(t),
                             .vectors = {.pooling = WIRE_POOLING_CLS, .width = 1, .scores = true},
                             .text = &text};
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
        struct genreq g;
        struct api_error err = {0};
        struct prepared p = {0};
        buf_reset(&body);
        buf_add_str(&body, "{\"query\":\"");
        for (int k = 0; k < 4096; k++)
            buf_add_str(&body, "7%");
        buf_add_str(&body, "\",\"documents\":[");
        for (int k = 0; k < COUNTS[i]; k++)
            buf_addf(&body, "%s\"%%\"", k ? "," : "");
        buf_add_str(&body, "]}");
        EXPECT_EQ(parse(&g, GENREQ_RERANK, buf_text(&body), &err), 0);
        int rc = embed_prepare(&g, &m, &p, &err);
        EXPECT_EQ(rc, i ? -1 : 0);
        EXPECT(i || p.prompts[0].count >= 8192);
        EXPECT_EQ(err.status, i ? 413 : 0);
        EXPECT(!i || strstr(err.text, "send fewer"));
        prepared_release(&p);
        genreq_release(&g);
    }
    buf_release(&body);
    tokenizer_free(&t);
    buf_release(&packed);
}

/* Of a classifier's values: the softmax does not overflow, and sums to one. */
TEST(scores_are_shown_as_the_model_wants_them) {
    static const float values[] = {1000, 999, -1000}, small[] = {0, 2, -800};
    static const struct {
        enum embed_activation activation;
        const float *values;
        double want[3];
    } CASES[] = {
        {EMBED_BARE, values, {1000, 999, -1000}},
        {EMBED_SIGMOID, small, {0.5, 0.8807970779778823, 0}},
        {EMBED_SOFTMAX, values, {0.7310585786300049, 0.2689414213699951, 0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        const struct embed_form form = {.activation = CASES[i].activation};
        double shown[3];
        embed_activate(&form, CASES[i].values, 3, shown);
        for (int k = 0; k < 3; k++)
            EXPECT(fabs(shown[k] - CASES[i].want[k]) < 1e-12);
    }
    expect_shown((struct embed_form){.scores = true, .activation = EMBED_SOFTMAX},
                 (const float[]){0, 0, 0, 0}, "[0.25,0.25,0.25,0.25]");
}

TEST(what_pooling_is_for) {
    struct genreq g;
    struct api_error err;
    static const struct {
        const char *body;
        enum embed_task task;
    } CASES[] = {{"{\"input\":\"a\"}", EMBED_TASK_ANY},
                 {"{\"input\":\"a\",\"task\":\"embed\"}", EMBED_TASK_EMBED},
                 {"{\"input\":\"a\",\"task\":\"classify\"}", EMBED_TASK_CLASSIFY}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        EXPECT_EQ(parse(&g, GENREQ_POOLING, CASES[i].body, &err), 0);
        EXPECT_EQ(g.embed.task, CASES[i].task);
        genreq_release(&g);
    }
}
