/* The ends of what a request's fields may be: the last value that is taken, and the next one. */
#include <stdio.h>

#include "check.h"
#include "gateway/fields/genreq.h"

static struct genreq g;
static struct api_error err;
static struct buf body;

/* A completion with what `body` has been given behind its prompt: 0, or -1. */
static int parse(void) {
    int rc = genreq_parse(&g, GENREQ_COMPLETIONS, buf_bytes(&body), &err);
    genreq_release(&g);
    return rc;
}

static void begin(const char *name) {
    buf_reset(&body);
    buf_addf(&body, "{\"prompt\":\"x\",\"%s\":", name);
}

/* ---- numbers ---- */

static const struct bounds {
    const char *name, *taken, *refused; /* values with a blank between */
} NUMBERS[] = {
    {"temperature", "0 100", "-0.0001 100.0001"},
    {"top_p", "0 1", "-0.0001 1.0001"},
    {"top_k", "-1 0 2147483647", "-2 2147483648"},
    {"min_p", "0 1", "-0.0001 1.0001"},
    {"top_n_sigma", "-1000 0 1000", "-1000.1 1000.1"},
    {"repetition_penalty", "0.01 100", "0.0099 100.1"},
    {"presence_penalty", "-100 100", "-100.1 100.1"},
    {"frequency_penalty", "-100 100", "-100.1 100.1"},
    {"max_tokens", "-1 0 1048576", "-2 1048577"},
    {"max_new_tokens", "0 1048576", "-1 1048577"},
    {"min_tokens", "0 1048576", "-1 1048577"},
    {"n", "1 128", "0 129"},
    {"seed", "-9223372036854775808 9223372036854775807",
     "-9223372036854775809 9223372036854775808"},
    {"timeout", "0 86400", "-0.1 86400.1"},
    {"priority", "-2147483648 2147483647", "-2147483649 2147483648"},
    {"prompt_logprobs", "-1 20", "-2 21"},
    {"repeat_last_n", "-1 0 2147483647", "-2 2147483648"},
    {"dry_allowed_length", "1 1048576", "0 1048577"},
    {"dry_penalty_last_n", "-1 2147483647", "-2 2147483648"},
};

static void expect_values(const char *name, const char *values, int rc) {
    while (*values) {
        int len = (int)strcspn(values, " ");
        begin(name);
        buf_addf(&body, "%.*s}", len, values);
        if (parse() != rc || (rc && strcmp(err.param, name) != 0))
            check_fail(__FILE__, __LINE__, "%s: %.*s, %s", name, len, values,
                       rc ? "taken" : err.text);
        values += len + (values[len] == ' ');
    }
}

TEST(numbers_are_taken_up_to_their_bounds) {
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        expect_values(NUMBERS[i].name, NUMBERS[i].taken, 0);
        expect_values(NUMBERS[i].name, NUMBERS[i].refused, -1);
    }
    buf_release(&body);
}

/* ---- texts and lists ---- */

static void add_text(size_t bytes) {
    buf_add_byte(&body, '"');
    for (size_t i = 0; i < bytes; i++)
        buf_add_byte(&body, 'q');
    buf_add_byte(&body, '"');
}

static int parse_text(const char *name, size_t bytes) {
    begin(name);
    add_text(bytes);
    buf_add_byte(&body, '}');
    return parse();
}

/* A list of so many texts, of which the last has some bytes more. */
static int parse_texts(const char *name, size_t count, size_t bytes, size_t more) {
    begin(name);
    for (size_t i = 0; i < count; i++) {
        buf_add_byte(&body, i ? ',' : '[');
        add_text(bytes + (i + 1 == count ? more : 0));
    }
    buf_add_str(&body, "]}");
    return parse();
}

static int parse_ids(const char *name, size_t count) {
    begin(name);
    for (size_t i = 0; i < count; i++)
        buf_add_str(&body, i ? ",7" : "[7");
    buf_add_str(&body, "]}");
    return parse();
}

TEST(texts_are_taken_up_to_their_bounds) {
    static const struct {
        const char *name;
        size_t bytes;
    } ROWS[] = {{"user", 512}, {"model", 256}, {"cache_salt", 1024}, {"stop", 1024}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        if (parse_text(ROWS[i].name, ROWS[i].bytes))
            check_fail(__FILE__, __LINE__, "%s: %s", ROWS[i].name, err.text);
        EXPECT_EQ(parse_text(ROWS[i].name, ROWS[i].bytes + 1), -1);
        EXPECT_STR(err.param, ROWS[i].name);
    }
    buf_release(&body);
}

TEST(lists_are_taken_up_to_their_bounds) {
    static const struct {
        const char *name;
        size_t count, bytes; /* of texts; 0: of ids */
    } ROWS[] = {
        {"stop", 64, 1},       {"bad_words", 128, 1},     {"dry_sequence_breakers", 64, 1},
        {"stop_regex", 16, 1}, {"stop_token_ids", 40, 0}, {"allowed_token_ids", 1 << 18, 0}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        for (size_t more = 0; more < 2; more++) {
            const char *name = ROWS[i].name;
            size_t count = ROWS[i].count + more;
            int rc =
                ROWS[i].bytes ? parse_texts(name, count, ROWS[i].bytes, 0) : parse_ids(name, count);
            if (rc != (more ? -1 : 0))
                check_fail(__FILE__, __LINE__, "%zu of %s: %d", count, name, rc);
        }
    for (size_t more = 0; more < 2; more++) {
        EXPECT_EQ(parse_texts("bad_words", 2, 256, more), more ? -1 : 0);
        EXPECT_EQ(parse_texts("dry_sequence_breakers", 2, 40, more), more ? -1 : 0);
        /* all together 16384 bytes */
        EXPECT_EQ(parse_texts("stop", 32, 512, more), more ? -1 : 0);
    }
    buf_release(&body);
}

/* ---- biases ---- */

/* So many of ids, then of texts of so many bytes. */
static int parse_biases(size_t ids, size_t texts, size_t bytes) {
    begin("logit_bias");
    buf_add_str(&body, "[[7,1]");
    for (size_t i = 1; i < ids; i++)
        buf_add_str(&body, ",[7,1]");
    for (size_t i = 0; i < texts; i++) {
        buf_add_str(&body, ",[");
        add_text(bytes);
        buf_add_str(&body, ",1]");
    }
    buf_add_str(&body, "]}");
    return parse();
}

TEST(biases_are_as_many_as_ids_and_texts_together_may_be) {
    EXPECT_EQ(parse_biases(1024, 0, 0), 0);
    EXPECT_EQ(parse_biases(1025, 0, 0), -1);
    EXPECT_EQ(parse_biases(1, 1023, 1), 0);
    EXPECT_EQ(parse_biases(1, 1024, 1), -1);
    EXPECT_EQ(parse_biases(512, 512, 1), 0);
    EXPECT_EQ(parse_biases(512, 513, 1), -1);
    EXPECT(strstr(err.text, "more than 1024 entries"));
    EXPECT_EQ(parse_biases(1, 1, 256), 0);
    EXPECT_EQ(parse_biases(1, 1, 257), -1);
    EXPECT(strstr(err.text, "more than 256 bytes"));
    expect_values("logit_bias", "{\"2147483647\":1} {\"0\":100} {\"0\":-100} [[0,false]]", 0);
    expect_values("logit_bias", "{\"2147483648\":1} {\"0\":100.1} {\"0\":-100.1} {\"0\":true}", -1);
    buf_release(&body);
}

/* ---- what is meant where nothing was said, or the least ---- */

static void taken(const char *fields) {
    buf_reset(&body);
    buf_addf(&body, "{\"prompt\":\"x\"%s}", fields);
    CHECK(genreq_parse(&g, GENREQ_COMPLETIONS, buf_bytes(&body), &err) == 0);
}

/* llama.cpp's -1 is one by chance. */
TEST(only_minus_one_is_no_seed) {
    static const struct {
        int64_t seed;
        bool given;
    } ROWS[] = {{0, true}, {-2, true}, {-1, false}, {5, true}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        buf_reset(&body);
        buf_addf(&body, "{\"prompt\":\"x\",\"seed\":%lld}", (long long)ROWS[i].seed);
        EXPECT_EQ(genreq_parse(&g, GENREQ_COMPLETION, buf_bytes(&body), &err), 0);
        EXPECT(g.seed == ROWS[i].seed && (bool)(g.given & GENREQ_SEED) == ROWS[i].given);
        genreq_release(&g);
    }
    buf_release(&body);
}

TEST(an_answers_length_is_what_was_said_last_and_least) {
    taken(",\"max_tokens\":0");
    EXPECT_EQ(genreq_max_tokens(&g, 77), 0);
    genreq_release(&g);
    taken(",\"max_tokens\":-1");
    EXPECT_EQ(genreq_max_tokens(&g, 77), WIRE_MAX_TOKENS);
    genreq_default_max_tokens(&g, 5); /* it was said */
    EXPECT_EQ(genreq_max_tokens(&g, 77), WIRE_MAX_TOKENS);
    genreq_release(&g);
    taken(",\"min_tokens\":9");
    genreq_default_max_tokens(&g, 5);
    EXPECT_EQ(genreq_max_tokens(&g, 77), 9);
    genreq_release(&g);
    taken(",\"min_tokens\":4");
    genreq_default_max_tokens(&g, 5);
    EXPECT_EQ(genreq_max_tokens(&g, 77), 5);
    genreq_release(&g);
    buf_release(&body);
}

/* As many choices as there may be, of all prompts together; the field that asks for most is named. */
TEST(choices_of_all_prompts_have_a_bound) {
    static const struct {
        const char *fields, *param; /* NULL: taken */
    } ROWS[] = {{"\"n\":64", NULL},
                {"\"n\":65", "n"},
                {"\"n\":65,\"best_of\":65", "n"},
                {"\"n\":2,\"best_of\":64", NULL},
                {"\"n\":2,\"best_of\":65", "best_of"}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        buf_reset(&body);
        buf_addf(&body, "{\"prompt\":[\"x\",\"y\"],%s}", ROWS[i].fields);
        EXPECT_EQ(parse(), ROWS[i].param ? -1 : 0);
        if (ROWS[i].param)
            EXPECT_STR(err.param, ROWS[i].param);
    }
    buf_release(&body);
}
