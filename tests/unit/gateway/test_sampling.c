/* What a request's fields and a model's defaults become for the worker: which of both counts, the ends of
 * each range, and how much may follow a prompt. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "check.h"
#include "gateway/fields/field.h"
#include "gateway/prompts/prepare.h"
#include "text/tokenizer/tokenizer.h"

enum { CONTEXT = 40, WIDTH = 3072 };

static struct text_model *text;
static struct served_model model;
static struct api_error err;
static struct prepared p;

static bool open_model(void) {
    static const struct text_settings settings = {.reasoning_parser = "none",
                                                  .tool_call_parser = "none"};
    struct buf packed = {0};
    struct error why;
    CHECK_MSG(bundle_pack(TRIREME_SOURCE_DIR "/demo/model", &packed, &why) == 0, "%s", why.text);
    CHECK_MSG(text_model_new(buf_bytes(&packed), &settings, &text, &why) == 0, "%s", why.text);
    buf_release(&packed);
    text->defaults = (struct model_defaults){-1, -1, -1, -1, -1};
    model = (struct served_model){
        .name = (char[]){"m"}, .max_context = CONTEXT, .logits_width = WIDTH, .text = text};
    return true;
}

static void close_model(void) {
    prepared_release(&p);
    text_model_put(text);
}

/* A completion of three tokens with these fields: 0, or the status it is refused with. */
static int ask_for(const char *prompt, const char *fields) {
    struct genreq g;
    struct buf body = {0};
    prepared_release(&p);
    err = (struct api_error){0};
    buf_addf(&body, "{\"prompt\":%s%s%s}", prompt, *fields ? "," : "", fields);
    int rc = genreq_parse(&g, GENREQ_COMPLETIONS, buf_bytes(&body), &err);
    if (!rc)
        rc = prepare(&g, &model, 99, &p, &err);
    genreq_release(&g);
    buf_release(&body);
    return rc ? err.status : 0;
}

static int ask(const char *fields) {
    return ask_for("[5,6,7]", fields);
}

TEST(a_request_goes_before_the_model_and_the_model_before_the_usual) {
    const struct wire_sampling *s = &p.sampling;
    EXPECT(open_model());
    EXPECT_EQ(ask(""), 0);
    EXPECT(s->temperature == 1 && s->top_p == 1 && s->min_p == 0 && s->top_k == 0);
    EXPECT(s->repetition_penalty == 1 && s->seed == 99 && s->logprobs == -1);
    EXPECT(s->typical_p == 0 && s->dry_multiplier == 0 && s->xtc_probability == 0);
    EXPECT(s->order == 0 && s->steering == 0 && s->penalty_window == 0 && s->min_tokens == 0);
    text->defaults = (struct model_defaults){
        .temperature = 0.5, .top_p = 0.25, .min_p = 0.125, .repetition_penalty = 1.5, .top_k = 20};
    EXPECT_EQ(ask(""), 0);
    EXPECT(s->temperature == 0.5f && s->top_p == 0.25f && s->min_p == 0.125f);
    EXPECT(s->repetition_penalty == 1.5f && s->top_k == 20);
    EXPECT_EQ(ask("\"temperature\":0.75,\"top_p\":0.375,\"min_p\":0.0625,\"top_k\":3,"
                  "\"repetition_penalty\":1.25,\"presence_penalty\":-0.5,"
                  "\"frequency_penalty\":0.875,\"top_n_sigma\":2.5,\"seed\":7"),
              0);
    EXPECT(s->temperature == 0.75f && s->top_p == 0.375f && s->min_p == 0.0625f);
    EXPECT(s->repetition_penalty == 1.25f && s->top_k == 3 && s->presence_penalty == -0.5f);
    EXPECT(s->frequency_penalty == 0.875f && s->top_n_sigma == 2.5f && s->seed == 7);
    EXPECT_EQ(ask("\"temperature\":0,\"top_p\":1,\"min_p\":0,\"top_k\":0"), 0);
    EXPECT(s->temperature == 0 && s->top_p == 1 && s->min_p == 0 && s->top_k == 0);
    EXPECT_EQ(ask("\"top_k\":-1"), 0);
    EXPECT_EQ(s->top_k, 0);
    text->defaults = (struct model_defaults){0, 1, 0, 1, 0};
    EXPECT_EQ(ask(""), 0);
    EXPECT(s->temperature == 0 && s->top_k == 0); /* a default of zero is one */
    close_model();
}

/* The API's ranges are closed, the wire's open at one end. */
TEST(the_ends_of_ranges_mean_the_nearest_that_there_is) {
    const struct wire_sampling *s = &p.sampling;
    EXPECT(open_model());
    EXPECT_EQ(ask("\"top_p\":0,\"min_p\":1,\"temperature\":0.0000009"), 0);
    EXPECT(s->top_p == FLT_MIN && s->min_p < 1 && s->min_p > 0.9999999f && s->temperature == 0);
    EXPECT_EQ(ask("\"temperature\":0.000001"), 0);
    EXPECT(s->temperature == 1e-6f);
    EXPECT_EQ(ask("\"temperature\":0.000002,\"top_n_sigma\":-5,\"xtc_probability\":-3"), 0);
    EXPECT(s->temperature == 0.000002f && s->top_n_sigma == 0 && s->xtc_probability == 0);
    EXPECT_EQ(ask("\"typical_p\":0"), 0);
    EXPECT(s->typical_p == FLT_MIN);
    EXPECT_EQ(ask("\"typical_p\":0.5"), 0);
    EXPECT(s->typical_p == 0.5f);
    EXPECT_EQ(ask("\"typical_p\":1"), 0);
    EXPECT(s->typical_p == 0);
    close_model();
}

TEST(penalties_look_back_as_far_as_is_said) {
    static const char PENALTIES[] = "\"repetition_penalty\":1.5,\"presence_penalty\":0.5,"
                                    "\"frequency_penalty\":0.25,\"repeat_last_n\":%d";
    static const struct {
        int last_n;
        uint32_t window;
        bool on;
    } ROWS[] = {{-1, 0, true},
                {0, 0, false},
                {1, 1, true},
                {64, 64, true},
                {INT32_MAX, WIRE_MAX_TOKENS, true}};
    const struct wire_sampling *s = &p.sampling;
    char fields[160];
    EXPECT(open_model());
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        snprintf(fields, sizeof fields, PENALTIES, ROWS[i].last_n);
        EXPECT_EQ(ask(fields), 0);
        EXPECT_EQ(s->penalty_window, ROWS[i].window);
        EXPECT(s->repetition_penalty == (ROWS[i].on ? 1.5f : 1));
        EXPECT(s->presence_penalty == (ROWS[i].on ? 0.5f : 0));
        EXPECT(s->frequency_penalty == (ROWS[i].on ? 0.25f : 0));
    }
    close_model();
}

TEST(dry_xtc_and_ranges_of_temperature_are_passed_on) {
    const struct wire_sampling *s = &p.sampling;
    EXPECT(open_model());
    EXPECT_EQ(ask("\"dry_multiplier\":0.5,\"dry_base\":1.25,\"dry_allowed_length\":3,"
                  "\"dry_penalty_last_n\":77,\"xtc_probability\":0.375,\"xtc_threshold\":0.125,"
                  "\"dynatemp_range\":0.75,\"dynatemp_exponent\":2"),
              0);
    EXPECT(s->dry_multiplier == 0.5f && s->dry_base == 1.25f && s->dry_allowed == 3);
    EXPECT(s->dry_window == 77 && s->dry_breakers.len > 0);
    EXPECT(s->xtc_probability == 0.375f && s->xtc_threshold == 0.125f);
    EXPECT(s->temperature_range == 0.75f && s->temperature_exponent == 2);
    EXPECT_EQ(ask("\"dry_multiplier\":0.5,\"dry_penalty_last_n\":-1"), 0);
    EXPECT(s->dry_multiplier == 0.5f && s->dry_window == 0); /* all of it */
    EXPECT_EQ(ask("\"dry_multiplier\":0.5,\"dry_penalty_last_n\":0"), 0);
    EXPECT(s->dry_multiplier == 0 && s->dry_breakers.len == 0);
    EXPECT_EQ(ask("\"dry_multiplier\":0,\"dry_penalty_last_n\":9"), 0);
    EXPECT(s->dry_multiplier == 0 && s->dry_window == 0);
    close_model();
}

TEST(an_order_of_samplers_leaves_out_what_it_does_not_name) {
    static const char ALL[] = "\"repetition_penalty\":1.5,\"presence_penalty\":0.5,"
                              "\"frequency_penalty\":0.25,\"dry_multiplier\":0.5,\"samplers\":";
    const struct wire_sampling *s = &p.sampling;
    char fields[200];
    EXPECT(open_model());
    snprintf(fields, sizeof fields, "%s[\"temperature\",\"top_k\",\"xtc\"]", ALL);
    EXPECT_EQ(ask(fields), 0);
    EXPECT_EQ(s->order, WIRE_SAMPLE_TEMPERATURE | WIRE_SAMPLE_TOP_K << 4 | WIRE_SAMPLE_XTC << 8);
    EXPECT(s->repetition_penalty == 1 && !s->presence_penalty && !s->frequency_penalty);
    EXPECT(s->dry_multiplier == 0 && s->dry_breakers.len == 0);
    snprintf(fields, sizeof fields, "%s\"edskypmxt\"", ALL);
    EXPECT_EQ(ask(fields), 0);
    static const enum wire_sample_step NAMED[] = {
        WIRE_SAMPLE_PENALTIES, WIRE_SAMPLE_DRY,       WIRE_SAMPLE_TOP_N_SIGMA,
        WIRE_SAMPLE_TOP_K,     WIRE_SAMPLE_TYPICAL_P, WIRE_SAMPLE_TOP_P,
        WIRE_SAMPLE_MIN_P,     WIRE_SAMPLE_XTC,       WIRE_SAMPLE_TEMPERATURE};
    for (size_t i = 0; i < ARRAY_LEN(NAMED); i++)
        EXPECT_EQ(s->order >> 4 * i & 15, NAMED[i]);
    EXPECT_EQ(s->order >> 36, 0);
    EXPECT(s->repetition_penalty == 1.5f && s->presence_penalty == 0.5f);
    EXPECT(s->frequency_penalty == 0.25f && s->dry_multiplier == 0.5f);
    /* adaptive_p takes no place, wherever it is named */
    snprintf(fields, sizeof fields, "%s[\"adaptive_p\",\"top_k\"]", ALL);
    EXPECT_EQ(ask(fields), 0);
    EXPECT_EQ(s->order, WIRE_SAMPLE_TOP_K);
    snprintf(fields, sizeof fields, "%s\"tde\"", ALL); /* the last counts as well */
    EXPECT_EQ(ask(fields), 0);
    EXPECT(s->repetition_penalty == 1.5f && s->dry_multiplier == 0.5f);
    close_model();
}

/* A sampler that aims has no cuts but those that were asked for. */
TEST(steering_takes_the_place_of_usual_cuts) {
    const struct wire_sampling *s = &p.sampling;
    EXPECT(open_model());
    text->defaults = (struct model_defaults){0.5, 0.25, 0.125, 1.5, 20};
    EXPECT_EQ(ask("\"mirostat\":2,\"mirostat_tau\":3.5,\"mirostat_eta\":0.25"), 0);
    EXPECT(s->steering == (enum wire_steering)2 && s->target == 3.5f && s->rate == 0.25f);
    EXPECT(s->top_p == 1 && s->top_k == 0 && s->min_p == 0 && s->temperature == 0.5f);
    EXPECT_EQ(ask("\"mirostat\":1,\"mirostat_eta\":1,\"top_p\":0.75,\"top_k\":4,\"min_p\":0.5"), 0);
    EXPECT(s->steering == (enum wire_steering)1 && s->rate == 1);
    EXPECT(s->top_p == 0.75f && s->top_k == 4 && s->min_p == 0.5f);
    EXPECT_EQ(ask("\"mirostat\":0,\"mirostat_tau\":3.5"), 0);
    EXPECT(s->steering == 0 && s->top_k == 20);
    EXPECT_EQ(ask("\"adaptive_target\":0,\"adaptive_decay\":0.99"), 0);
    EXPECT(s->steering == WIRE_STEERING_ADAPTIVE && s->target == 0 && s->rate == 0.99f);
    EXPECT(s->top_p == 1 && s->top_k == 0 && s->min_p == 0);
    EXPECT_EQ(ask("\"adaptive_target\":-0.5"), 0);
    EXPECT(s->steering == 0 && s->top_k == 20);
    EXPECT_EQ(ask("\"adaptive_target\":0.5,\"mirostat\":1"), 400);
    EXPECT_STR(err.param, "adaptive_target");
    close_model();
}

/* ---- how much may follow ---- */

/* So many tokens as a list of ids. */
static const char *ids(uint32_t count) {
    static char list[8 * (CONTEXT + 2)];
    size_t len = 0;
    for (uint32_t i = 0; i < count; i++)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%u", i ? "," : "[", 3 + i);
    snprintf(list + len, sizeof list - len, "]");
    return list;
}

TEST(an_answer_has_what_is_asked_for_as_far_as_the_context_goes) {
    EXPECT(open_model());
    EXPECT_EQ(ask(""), 0);
    EXPECT_EQ(p.max_tokens[0], 16); /* a completion's usual */
    EXPECT_EQ(ask("\"max_tokens\":36"), 0);
    EXPECT_EQ(p.max_tokens[0], 36);
    EXPECT_EQ(ask("\"max_tokens\":37"), 0);
    EXPECT_EQ(p.max_tokens[0], 37);
    EXPECT_EQ(ask("\"max_tokens\":38"), 0);
    EXPECT_EQ(p.max_tokens[0], 37);
    EXPECT_EQ(ask_for(ids(CONTEXT - 1), ""), 0);
    EXPECT_EQ(p.max_tokens[0], 1);
    EXPECT_EQ(ask_for(ids(CONTEXT), ""), 400);
    EXPECT(strstr(err.text, "the prompt has 40 tokens; this model's context is 40"));
    EXPECT(err.prompt_tokens == CONTEXT && err.context == CONTEXT);
    EXPECT_EQ(ask_for("[3071]", ""), 0);
    EXPECT_EQ(ask_for("[3072]", ""), 400);
    EXPECT_EQ(ask_for("[[5,6],[7,8,9]]", "\"max_tokens\":39"), 0);
    EXPECT(p.prompt_count == 2 && p.max_tokens[0] == 38 && p.max_tokens[1] == 37);
    close_model();
}

TEST(the_least_is_no_more_than_the_most) {
    EXPECT(open_model());
    EXPECT_EQ(ask("\"max_tokens\":5,\"min_tokens\":5"), 0);
    EXPECT_EQ(p.sampling.min_tokens, 5);
    EXPECT_EQ(ask("\"max_tokens\":5,\"min_tokens\":6"), 400);
    EXPECT_STR(err.param, "min_tokens");
    EXPECT_EQ(ask("\"min_tokens\":16"), 0);
    EXPECT_EQ(ask("\"min_tokens\":17"), 400);
    close_model();
}

static bool is_prompt(uint32_t first, uint32_t last) {
    const struct token_vec *v = &p.prompts[0];
    return v->count == last - first + 1 && v->items[0] == first && v->items[v->count - 1] == last;
}

TEST(a_prompt_is_cut_to_what_was_asked_for) {
    EXPECT(open_model());
    EXPECT_EQ(ask_for(ids(10), "\"truncate_prompt_tokens\":4"), 0);
    EXPECT(is_prompt(9, 12)); /* of 3 to 12 the last ones */
    EXPECT_EQ(ask_for(ids(10), "\"truncate_prompt_tokens\":4,\"truncation_side\":\"right\""), 0);
    EXPECT(is_prompt(3, 6));
    EXPECT_EQ(ask_for(ids(10), "\"truncate_prompt_tokens\":10"), 0);
    EXPECT(is_prompt(3, 12));
    EXPECT_EQ(ask_for(ids(10), "\"truncate_prompt_tokens\":40"), 0);
    EXPECT_EQ(ask_for(ids(10), "\"truncate_prompt_tokens\":41"), 400);
    EXPECT_STR(err.param, "truncate_prompt_tokens");
    /* -1: so that the answer has room */
    EXPECT_EQ(ask_for(ids(CONTEXT + 1), "\"truncate_prompt_tokens\":-1,\"max_tokens\":30"), 0);
    EXPECT(is_prompt(3 + 31, 3 + CONTEXT) && p.max_tokens[0] == 30);
    EXPECT_EQ(ask_for(ids(CONTEXT), "\"truncate_prompt_tokens\":-1,\"max_tokens\":100"), 0);
    EXPECT(is_prompt(3 + CONTEXT - 1, 3 + CONTEXT - 1) && p.max_tokens[0] == CONTEXT - 1);
    close_model();
}

/* What the model puts around a text stays, whatever the text itself begins and ends with. */
TEST(a_text_is_cut_between_what_the_model_adds) {
    static const char JSON[] =
        "{\"added_tokens\":[],\"post_processor\":{\"type\":\"BertProcessing\","
        "\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]},\"model\":{\"type\":\"WordLevel\","
        "\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"b\":4}}}";
    static const struct {
        uint32_t ids[6], left[4];
        bool keeps_end, adds;
    } CASES[] = {{{1, 3, 3, 4, 4, 2}, {1, 4, 4, 2}, true, true},
                 {{1, 3, 3, 4, 4, 2}, {1, 3, 3, 2}, false, true},
                 {{1, 3, 3, 4, 4, 2}, {3, 4, 4, 2}, true, false},
                 {{1, 2, 3, 4, 4, 2}, {1, 4, 4, 2}, true, true},
                 {{1, 2, 3, 4, 4, 2}, {1, 2, 3, 2}, false, true},
                 {{1, 3, 3, 4, 1, 2}, {1, 4, 1, 2}, true, true}};
    const struct genreq_prompt text_prompt = {.is_ids = false};
    struct tokenizer *t = NULL;
    struct error why;
    CHECK_MSG(tokenizer_load(bytes_str(JSON), bytes_str(""), bytes_str(""), &t, &why) == 0, "%s",
              why.text);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g = {.add_special_tokens = CASES[i].adds,
                           .truncate.keeps_end = CASES[i].keeps_end};
        struct token_vec ids = {0};
        for (size_t k = 0; k < ARRAY_LEN(CASES[i].ids); k++)
            vec_push(&ids, CASES[i].ids[k]);
        prepare_cut(&g, t, &text_prompt, 4, &ids);
        if (ids.count != 4 || memcmp(ids.items, CASES[i].left, sizeof CASES[i].left))
            check_fail(__FILE__, __LINE__, "case %zu: other tokens are left", i);
        vec_release(&ids);
    }
    tokenizer_free(&t);
}

/* ---- tokens ---- */

TEST(stop_tokens_are_the_models_and_the_requests_once_each) {
    char fields[100];
    EXPECT(open_model());
    struct tokens eos = tokenizer_eos(text->tokenizer);
    EXPECT(eos.count >= 1);
    EXPECT_EQ(ask(""), 0);
    EXPECT(p.stop_token_count == eos.count && p.stop_tokens[0] == eos.ids[0]);
    snprintf(fields, sizeof fields, "\"stop_token_ids\":[9,%u,9,8]", eos.ids[0]);
    EXPECT_EQ(ask(fields), 0);
    EXPECT_EQ(p.stop_token_count, eos.count + 2);
    EXPECT(p.stop_tokens[eos.count] == 9 && p.stop_tokens[eos.count + 1] == 8);
    EXPECT_EQ(ask("\"stop_token_ids\":[9],\"ignore_eos\":true"), 0);
    EXPECT(p.stop_token_count == 1 && p.stop_tokens[0] == 9);
    EXPECT_EQ(ask("\"stop_token_ids\":[3071]"), 0);
    EXPECT_EQ(ask("\"stop_token_ids\":[3072]"), 400);
    model.logits_width = eos.ids[0]; /* what is never sampled stops nothing */
    EXPECT_EQ(ask_for("[0]", ""), 0);
    EXPECT_EQ(p.stop_token_count, 0);
    close_model();
}

TEST(allowed_tokens_are_bits) {
    EXPECT(open_model());
    EXPECT_EQ(ask("\"allowed_token_ids\":[0,9,3071]"), 0);
    struct bytes bits = p.sampling.allowed;
    EXPECT_EQ(bits.len, WIDTH / 8);
    for (uint32_t id = 0; id < WIDTH; id++)
        EXPECT_EQ(bits.data[id / 8] >> id % 8 & 1, id == 0 || id == 9 || id == 3071);
    EXPECT_EQ(ask("\"allowed_token_ids\":[3072]"), 400);
    EXPECT_EQ(ask("\"allowed_token_ids\":[9],\"min_tokens\":1"), 0);
    EXPECT_EQ(ask("\"allowed_token_ids\":[9],\"min_tokens\":1,\"stop_token_ids\":[9]"), 400);
    EXPECT_EQ(ask("\"allowed_token_ids\":[9],\"min_tokens\":0,\"stop_token_ids\":[9]"), 0);
    EXPECT_EQ(ask("\"allowed_token_ids\":[9,8],\"min_tokens\":1,\"stop_token_ids\":[9]"), 0);
    close_model();
}

/* As many as the wire takes, of ids and of the tokens of texts together; a text's tokens all have its bias. */
TEST(biases_of_texts_are_of_their_tokens) {
    static const char WORDS[] = "one two three";
    struct token_vec tokens = {0};
    struct buf fields = {0};
    struct error why;
    EXPECT(open_model());
    EXPECT_EQ(tokenizer_encode(text->tokenizer, bytes_str(WORDS), 0, &tokens, &why), 0);
    EXPECT(tokens.count > 1);
    for (size_t more = 0; more < 2; more++) {
        size_t ids = WIRE_MAX_LOGIT_BIAS - tokens.count + more;
        buf_reset(&fields);
        buf_addf(&fields, "\"logit_bias\":[[\"%s\",-2]", WORDS);
        for (size_t i = 0; i < ids; i++)
            buf_addf(&fields, ",[%zu,1]", i);
        buf_add_str(&fields, "]");
        EXPECT_EQ(ask(buf_text(&fields)), more ? 400 : 0);
        if (more)
            EXPECT_STR(err.param, "logit_bias");
        else
            EXPECT(p.sampling.bias_ids.count == WIRE_MAX_LOGIT_BIAS &&
                   p.sampling.bias_values.count == WIRE_MAX_LOGIT_BIAS);
        for (size_t i = 0; !more && i < WIRE_MAX_LOGIT_BIAS; i++)
            EXPECT(p.bias_ids[i] == (i < ids ? i : tokens.items[i - ids]) &&
                   p.bias_values[i] == (i < ids ? 1 : -2));
    }
    buf_release(&fields);
    vec_release(&tokens);
    close_model();
}

/* A word is written as it begins a text and as it stands behind a space; each has 32 tokens at most, and all of
 * them with their lengths 4096 numbers. */
TEST(bad_words_have_bounds_of_tokens) {
    struct buf fields = {0}, word = {0};
    struct token_vec plain = {0}, spaced = {0};
    struct error why;
    EXPECT(open_model());
    EXPECT_EQ(ask("\"bad_words\":[\"  cat\"]"), 0);
    struct u32s words = p.sampling.bad_words;
    EXPECT_EQ(tokenizer_encode(text->tokenizer, bytes_str("cat"), 0, &plain, &why), 0);
    EXPECT_EQ(tokenizer_encode(text->tokenizer, bytes_str(" cat"), 0, &spaced, &why), 0);
    EXPECT_EQ(words.count, 2 + plain.count + spaced.count);
    EXPECT(words.items[0] == plain.count && words.items[1] == plain.items[0]);
    EXPECT(words.items[1 + plain.count] == spaced.count &&
           words.items[2 + plain.count] == spaced.items[0]);
    for (size_t most = 0;
         most <= WIRE_BAD_WORD_TOKENS_MAX;) { /* a sign more, until it is too long */
        buf_add_str(&word, "~");
        plain.count = spaced.count = 0;
        EXPECT_EQ(tokenizer_encode(text->tokenizer, buf_bytes(&word), 0, &plain, &why), 0);
        buf_reset(&fields);
        buf_addf(&fields, " %s", buf_text(&word));
        EXPECT_EQ(tokenizer_encode(text->tokenizer, buf_bytes(&fields), 0, &spaced, &why), 0);
        most = MAX(plain.count, spaced.count);
        buf_reset(&fields);
        buf_addf(&fields, "\"bad_words\":[\"%s\"]", buf_text(&word));
        EXPECT_EQ(ask(buf_text(&fields)), most > WIRE_BAD_WORD_TOKENS_MAX ? 400 : 0);
    }
    EXPECT_STR(err.param, "bad_words");
    buf_release(&fields);
    buf_release(&word);
    vec_release(&plain);
    vec_release(&spaced);
    close_model();
}

static const char SIGNS[] = "~=~=~=~=~=~=~=~=~=~=";

/* Numbers that `signs` signs take: their tokens in both forms, and how many these are. */
static uint32_t numbers_of(uint32_t signs) {
    struct buf fields = {0};
    buf_addf(&fields, "\"bad_words\":[\"%.*s\"]", (int)signs, SIGNS);
    CHECK(ask(buf_text(&fields)) == 0);
    buf_release(&fields);
    return (uint32_t)p.sampling.bad_words.count;
}

/* Words that take exactly so many numbers, as few as may be. */
static void words_of_numbers(const uint32_t *numbers, uint32_t kinds, uint32_t total,
                             struct buf *fields) {
    uint32_t few[WIRE_MAX_BAD_WORDS + 2] = {0}, last[WIRE_MAX_BAD_WORDS + 2] = {0};
    for (uint32_t sum = 1; sum <= total; sum++) {
        few[sum] = GENREQ_BAD_WORDS_MAX + 1;
        for (uint32_t kind = 0; kind < kinds; kind++)
            if (numbers[kind] <= sum && few[sum - numbers[kind]] + 1 < few[sum]) {
                few[sum] = few[sum - numbers[kind]] + 1;
                last[sum] = kind;
            }
    }
    CHECK(few[total] <= GENREQ_BAD_WORDS_MAX);
    buf_reset(fields);
    buf_add_str(fields, "\"bad_words\":[");
    for (uint32_t sum = total; sum; sum -= numbers[last[sum]])
        buf_addf(fields, "%s\"%.*s\"", sum == total ? "" : ",", (int)last[sum] + 1, SIGNS);
    buf_add_str(fields, "]");
}

TEST(bad_words_are_4096_numbers_together) {
    enum { KINDS = 20 };
    uint32_t numbers[KINDS];
    struct buf fields = {0};
    EXPECT(open_model());
    for (uint32_t i = 0; i < KINDS; i++)
        numbers[i] = numbers_of(i + 1);
    words_of_numbers(numbers, KINDS, WIRE_MAX_BAD_WORDS, &fields);
    EXPECT_EQ(ask(buf_text(&fields)), 0);
    EXPECT_EQ(p.sampling.bad_words.count, WIRE_MAX_BAD_WORDS);
    words_of_numbers(numbers, KINDS, WIRE_MAX_BAD_WORDS + 1, &fields);
    EXPECT_EQ(ask(buf_text(&fields)), 400);
    EXPECT_STR(err.param, "bad_words");
    buf_release(&fields);
    close_model();
}

TEST(log_probabilities_are_computed_where_one_is_shown_or_chosen_by) {
    EXPECT(open_model());
    EXPECT_EQ(ask("\"logprobs\":0"), 0);
    EXPECT_EQ(p.sampling.logprobs, 0);
    EXPECT_EQ(ask("\"logprobs\":3"), 0);
    EXPECT_EQ(p.sampling.logprobs, 3);
    EXPECT_EQ(ask("\"best_of\":2,\"n\":2"), 0);
    EXPECT_EQ(p.sampling.logprobs, -1);
    EXPECT_EQ(ask("\"best_of\":3,\"n\":2"), 0);
    EXPECT_EQ(p.sampling.logprobs, 0);
    EXPECT_EQ(ask("\"logprobs\":2,\"prompt_logprobs\":4"), 0);
    EXPECT(p.sampling.logprobs == 4 && p.echo && p.hides_echo);
    EXPECT_EQ(ask("\"logprobs\":4,\"prompt_logprobs\":2,\"echo\":true"), 0);
    EXPECT(p.sampling.logprobs == 4 && p.echo && !p.hides_echo);
    close_model();
}
