/* Whole answers of requests that get no tokens: vectors, scores of texts and of pairs, classes, labels'
 * probabilities. To the byte, from what the worker sends. */
#include "check.h"

#include "gateway/dialects/embed.h"
#include "gateway/dialects/labels.h"

#include <stdio.h>

enum { SUBMISSIONS_MAX = 6 };

/* An answer whose submissions have become these, with so many tokens each (n + 1 of the n-th; of them n
 * cached). */
struct shown {
    struct answer answer;
    struct submission submissions[SUBMISSIONS_MAX];
    struct choice choices[SUBMISSIONS_MAX];
};

static void shown_begin(struct shown *s, const struct answer_form *form,
                        enum genreq_dialect dialect, uint32_t count) {
    memset(s, 0, sizeof *s);
    s->answer.form = form;
    s->answer.submissions = s->submissions;
    s->answer.submission_count = count;
    form->init(&s->answer.writer, dialect, false, (struct u128){1, 2}, 1700000000,
               bytes_str("a \"b\""));
    for (uint32_t i = 0; i < count; i++) {
        s->submissions[i].choices = &s->choices[i];
        s->submissions[i].prompt.count = i + 2;
        s->submissions[i].cached_tokens = i;
    }
}

static void shown_text(struct shown *s, uint32_t i, const void *data, size_t len) {
    buf_add(&s->choices[i].text, data, len);
}

/* What is shown; ID stands for the answer's id. */
static bool shown_end(struct shown *s, const char *want) {
    struct buf out = {0}, expected = {0};
    const char *id = strstr(want, "ID"), *rest = id ? id + 2 : want;
    if (id) {
        buf_add(&expected, want, (size_t)(id - want));
        buf_add_str(&expected, s->answer.writer.id);
    }
    buf_add_str(&expected, rest);
    s->answer.form->whole(&s->answer, &out);
    bool same = !strcmp(buf_text(&out), buf_text(&expected));
    if (!same)
        check_fail(__FILE__, __LINE__, "'%s', expected '%s'", buf_text(&out), buf_text(&expected));
    buf_release(&out);
    buf_release(&expected);
    buf_release(&s->answer.writer.head);
    buf_release(&s->answer.embed.texts);
    vec_release(&s->answer.embed.text_ends);
    for (uint32_t i = 0; i < s->answer.submission_count; i++)
        buf_release(&s->choices[i].text);
    return same;
}

/* ---- vectors ---- */

TEST(vectors_are_shown_as_each_dialect_has_them) {
    static const struct {
        const struct answer_form *form;
        enum genreq_dialect dialect;
        uint32_t count;
        const char *want;
    } CASES[] = {
        {&answer_embeddings, GENREQ_EMBEDDINGS, 2,
         "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[0,1]},{"
         "\"object\":\"embedding\",\"index\":1,\"embedding\":[1,1]}],\"id\":\"ID\",\"model\":\"a "
         "\\\"b\\\"\",\"usage\":{\"prompt_tokens\":5,\"total_tokens\":5,\"prompt_tokens_details\":{"
         "\"cached_tokens\":1}}}"},
        {&answer_pooling, GENREQ_POOLING, 2,
         "{\"object\":\"list\",\"data\":[{\"object\":\"pooling\",\"index\":0,\"data\":[0,1]},{"
         "\"object\":\"pooling\",\"index\":1,\"data\":[1,1]}],\"id\":\"ID\",\"created\":1700000000,"
         "\"model\":\"a \\\"b\\\"\",\"usage\":{\"prompt_tokens\":5,\"total_tokens\":5,"
         "\"prompt_tokens_details\":{\"cached_tokens\":1}}}"},
        {&answer_llama_embedding, GENREQ_LLAMA_EMBEDDING, 2,
         "[{\"index\":0,\"embedding\":[[0,1]]},{\"index\":1,\"embedding\":[[1,1]]}]"},
        {&answer_ollama_embed, GENREQ_OLLAMA_EMBED, 3,
         "{\"model\":\"a \\\"b\\\"\",\"embeddings\":[[0,1],[1,1],[2,1]],\"total_duration\":1500000,"
         "\"load_duration\":0,\"prompt_eval_count\":9}"},
        {&answer_ollama_embed, GENREQ_OLLAMA_EMBEDDINGS, 1, "{\"embedding\":[0,1]}"},
        {&answer_encode, GENREQ_ENCODE, 2,
         "{\"embedding\":[0,1],\"meta_info\":{\"id\":\"mine\",\"finish_reason\":null,"
         "\"prompt_tokens\":2,\"cached_tokens\":0,\"e2e_latency\":0.001500}},{\"embedding\":[1,1],"
         "\"meta_info\":{\"id\":\"mine\",\"finish_reason\":null,\"prompt_tokens\":3,"
         "\"cached_tokens\":1,\"e2e_latency\":0.001500}}"},
        {&answer_cohere_embed, GENREQ_COHERE_EMBED, 2,
         "{\"id\":\"ID\",\"response_type\":\"embeddings_by_type\",\"embeddings\":{\"float\":[[0,1],"
         "[1,1]]},\"texts\":[mine],\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":{"
         "\"input_tokens\":5}}}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct shown s;
        shown_begin(&s, CASES[i].form, CASES[i].dialect, CASES[i].count);
        s.answer.times = (struct answer_times){.start_us = 1000, .end_us = 2500};
        for (uint32_t k = 0; k < CASES[i].count; k++) {
            char text[16];
            shown_text(&s, k, text, (size_t)snprintf(text, sizeof text, "[%u,1]", k));
        }
        buf_add_str(&s.answer.embed.texts, "mine");
        EXPECT(shown_end(&s, CASES[i].want));
    }
}

/* What Cohere's and SGLang's answers repeat of their requests. */
TEST(answers_repeat_their_requests) {
    struct genreq_prompt prompts[] = {{.text = bytes_str("a\n")}, {.text = bytes_str("b")}};
    struct genreq g = {.prompts = prompts, .prompt_count = 2};
    struct shown s;
    shown_begin(&s, &answer_cohere_embed, GENREQ_COHERE_EMBED, 0);
    s.answer.embed.base64 = g.embed.has_input_type = true;
    s.answer.form->settings(&s.answer, &g, NULL);
    EXPECT(shown_end(&s, "{\"id\":\"ID\",\"response_type\":\"embeddings_by_type\",\"embeddings\":{"
                         "\"base64\":[]},\"texts\":[\"a\\n\",\"b\"],\"meta\":{\"api_version\":{"
                         "\"version\":\"2\"},\"billed_units\":{\"input_tokens\":0},\"warnings\":["
                         "\"input_type has no effect here: a model's words for it have to stand in "
                         "the texts\"]}}"));
    for (int given = 0; given < 2; given++) {
        shown_begin(&s, &answer_encode, GENREQ_ENCODE, 1);
        s.answer.embed.list = true;
        g.request_id = bytes_str(given ? "my \"id\"" : "");
        s.answer.form->settings(&s.answer, &g, NULL);
        shown_text(&s, 0, "[7]", 3);
        EXPECT(shown_end(&s, given
                                 ? "[{\"embedding\":[7],\"meta_info\":{\"id\":\"my \\\"id\\\"\","
                                   "\"finish_reason\":null,\"prompt_tokens\":2,\"cached_tokens\":0,"
                                   "\"e2e_latency\":0.000000}}]"
                                 : "[{\"embedding\":[7],\"meta_info\":{\"id\":\"ID\","
                                   "\"finish_reason\":null,\"prompt_tokens\":2,\"cached_tokens\":0,"
                                   "\"e2e_latency\":0.000000}}]"));
    }
}

/* ---- texts that are compared ---- */

#define HEAD "{\"id\":\"ID\",\"object\":\"list\",\"created\":1700000000,\"model\":\"a \\\"b\\\"\","

/* The query and three documents; the second and third are as like it as each other. */
static void rerank_begin(struct shown *s, const struct answer_form *form,
                         enum genreq_dialect dialect, uint32_t first_count) {
    static const float VALUES[][2] = {{3, 4}, {-6, -8}, {1, 0}, {2, 0}, {30, 40}};
    shown_begin(s, form, dialect, 5);
    s->answer.embed.first_count = first_count;
    for (uint32_t i = 0; i < 5; i++)
        shown_text(s, i, VALUES[i], sizeof VALUES[i]);
}

TEST(documents_are_shown_by_relevance) {
    struct genreq_prompt prompts[] = {{.text = bytes_str("q")},
                                      {.text = bytes_str("one")},
                                      {.text = bytes_str("t\"wo")},
                                      {.text = bytes_str("three")},
                                      {.text = bytes_str("four")}};
    struct genreq g = {
        .prompts = prompts, .prompt_count = 5, .embed = {.first_count = 1, .shows_texts = true}};
    static const struct {
        uint32_t top_count;
        bool texts;
        const char *want;
    } CASES[] = {
        {0, false,
         HEAD
         "\"results\":[{\"index\":3,\"relevance_score\":1},{\"index\":1,\"relevance_score\":0.6},"
         "{\"index\":2,\"relevance_score\":0.6},{\"index\":0,\"relevance_score\":-1}],"
         "\"usage\":{\"prompt_tokens\":20,\"total_tokens\":20}}"},
        {1, true,
         HEAD "\"results\":[{\"index\":3,\"relevance_score\":1,\"document\":{\"text\":\"four\"}}],"
              "\"usage\":{\"prompt_tokens\":20,\"total_tokens\":20}}"},
        {4, true,
         HEAD
         "\"results\":[{\"index\":3,\"relevance_score\":1,\"document\":{\"text\":\"four\"}},{"
         "\"index\":1,\"relevance_score\":0.6,\"document\":{\"text\":\"t\\\"wo\"}},{\"index\":2,"
         "\"relevance_score\":0.6,\"document\":{\"text\":\"three\"}},{\"index\":0,"
         "\"relevance_score\":-1,\"document\":{\"text\":\"one\"}}],\"usage\":{"
         "\"prompt_tokens\":20,\"total_tokens\":20}}"},
        {9, false,
         HEAD
         "\"results\":[{\"index\":3,\"relevance_score\":1},{\"index\":1,\"relevance_score\":0.6},"
         "{\"index\":2,\"relevance_score\":0.6},{\"index\":0,\"relevance_score\":-1}],"
         "\"usage\":{\"prompt_tokens\":20,\"total_tokens\":20}}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct shown s;
        rerank_begin(&s, &answer_rerank, GENREQ_RERANK, 1);
        s.answer.embed.top_count = CASES[i].top_count;
        g.embed.shows_texts = CASES[i].texts;
        s.answer.form->settings(&s.answer, &g, NULL);
        EXPECT(shown_end(&s, CASES[i].want));
    }
}

/* One with each of the others, or pair by pair; a vector of no length is like none. */
TEST(pairs_have_their_scores) {
    static const float ZERO[2];
    struct shown s;
    shown_begin(&s, &answer_score, GENREQ_SCORE, 3);
    s.answer.embed.first_count = 1;
    shown_text(&s, 0, (const float[]){3, 4}, 8);
    shown_text(&s, 1, (const float[]){4, -3}, 8);
    shown_text(&s, 2, ZERO, 8);
    EXPECT(shown_end(&s,
                     HEAD "\"data\":[{\"index\":0,\"object\":\"score\",\"score\":0},{\"index\":1,"
                          "\"object\":\"score\",\"score\":0}],\"usage\":{\"prompt_tokens\":9,"
                          "\"total_tokens\":9}}"));
    shown_begin(&s, &answer_score, GENREQ_SCORE, 4);
    s.answer.embed.first_count = 2;
    shown_text(&s, 0, (const float[]){3, 4}, 8);
    shown_text(&s, 1, (const float[]){1, 0}, 8);
    shown_text(&s, 2, (const float[]){3, 4}, 8);
    shown_text(&s, 3, (const float[]){-1, 0}, 8);
    EXPECT(shown_end(&s,
                     HEAD "\"data\":[{\"index\":0,\"object\":\"score\",\"score\":1},{\"index\":1,"
                          "\"object\":\"score\",\"score\":-1}],\"usage\":{\"prompt_tokens\":14,"
                          "\"total_tokens\":14}}"));
    /* a model that is made for it says the score of each pair itself */
    shown_begin(&s, &answer_score, GENREQ_SCORE, 2);
    s.answer.embed.first_count = 1;
    s.answer.embed.scores = true;
    s.answer.embed.activation = EMBED_BARE;
    shown_text(&s, 0, (const float[]){0.5f}, 4);
    shown_text(&s, 1, (const float[]){-2}, 4);
    EXPECT(shown_end(&s,
                     HEAD "\"data\":[{\"index\":0,\"object\":\"score\",\"score\":0.5},{\"index\":1,"
                          "\"object\":\"score\",\"score\":-2}],\"usage\":{\"prompt_tokens\":5,"
                          "\"total_tokens\":5}}"));
}

/* The likeliest class, the first of equals; those that the model's files do not name have a number. */
TEST(texts_have_their_classes) {
    static char *names[] = {(char *)"no", (char *)"\"maybe\""};
    struct text_labels labels = {.names = names, .count = 2};
    struct shown s;
    shown_begin(&s, &answer_classify, GENREQ_CLASSIFY, 3);
    s.answer.embed.labels = &labels;
    s.answer.embed.activation = EMBED_BARE;
    shown_text(&s, 0, (const float[]){1, 2, 2}, 12);
    shown_text(&s, 1, (const float[]){1, 2, 3}, 12);
    shown_text(&s, 2, (const float[]){3, 2, 1}, 12);
    EXPECT(shown_end(&s, HEAD
                     "\"data\":[{\"index\":0,\"label\":\"\\\"maybe\\\"\",\"probs\":[1,2,2],"
                     "\"num_classes\":3},{\"index\":1,\"label\":\"LABEL_2\",\"probs\":[1,2,3],"
                     "\"num_classes\":3},{\"index\":2,\"label\":\"no\",\"probs\":[3,2,1],"
                     "\"num_classes\":3}],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":9}}"));
}

/* ---- labels ---- */

/* Two items of two labels each. log(0.25), log(0.5), log(0.1), log(0.3) */
static void labels_begin(struct shown *s, enum genreq_dialect dialect, bool softmax) {
    static const double SUMS[] = {-1.3862943611198906, -0.6931471805599453, -2.302585092994046,
                                  -1.2039728043259361};
    uint32_t ids[] = {7, 8};
    struct genreq g = {.labels = {.ids = {ids, 2}, .softmax = softmax}};
    shown_begin(s, &answer_labels, dialect, 4);
    s->answer.form->settings(&s->answer, &g, NULL);
    for (uint32_t i = 0; i < 4; i++)
        s->choices[i].logprob_sum = SUMS[i];
}

#define LABELS_USAGE                                                                               \
    "\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2,\"total_tokens\":6,"                   \
    "\"prompt_tokens_details\":{\"cached_tokens\":2}}}"

TEST(labels_have_their_probabilities) {
    struct shown s;
    labels_begin(&s, GENREQ_LABEL_SCORES, false);
    EXPECT(shown_end(&s,
                     "{\"model\":\"a \\\"b\\\"\",\"object\":\"scoring\",\"scores\":[[0.25,0.5],["
                     "0.1,0.3]]," LABELS_USAGE));
    labels_begin(&s, GENREQ_LABEL_SCORES, true);
    EXPECT(shown_end(&s,
                     "{\"model\":\"a \\\"b\\\"\",\"object\":\"scoring\",\"scores\":[[0.333333333,"
                     "0.666666667],[0.25,0.75]]," LABELS_USAGE));
    labels_begin(&s, GENREQ_GENERATIVE_SCORING, false);
    EXPECT(shown_end(&s, "{\"id\":\"ID\",\"object\":\"list\",\"created\":1700000000,\"model\":\"a "
                         "\\\"b\\\"\",\"data\":[{\"index\":0,\"object\":\"score\",\"score\":0.25},{"
                         "\"index\":1,\"object\":\"score\",\"score\":0.1}]," LABELS_USAGE));
    shown_begin(&s, &answer_labels, GENREQ_PPL, 1); /* of one token behind the first */
    s.submissions[0].prompt.count = 5;
    s.choices[0].logprob_sum = -6;
    EXPECT(shown_end(&s, "{\"ppl\":1.5}"));
}
