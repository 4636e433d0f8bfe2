/* Places where one more or one less is another answer: the byte zero, how deep rules for names may be, which members of a
 * constant a pattern is about. */
#include "base/buf.h"
#include "check.h"
#include "grammar/grammar.h"

static struct error err;

static int compile(enum grammar_kind kind, const char *text, struct program *program) {
    struct grammar_source source = {.kind = kind, .text = bytes_str(text)};
    *program = (struct program){0};
    err = (struct error){0};
    return grammar_compile(&source, NULL, program, &err);
}

TEST(a_byte_that_is_zero_is_forced_like_any_other) {
    static const struct {
        const char *regex, *forced;
        size_t len;
    } ROWS[] = {{"\\x00a", "\0a", 2},
                {"a\\x00", "a\0", 2},
                {"\\x01b",
                 "\x01"
                 "b",
                 2},
                {"a[bc]", "a", 1},
                {"[bc]", "", 0},
                {"ab?", "a", 1},
                {"\\x00|a", "", 0},
                {"(\\x00|\\x01)a", "", 0}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct program program;
        struct buf out = {0};
        EXPECT_EQ(compile(GRAMMAR_REGEX, ROWS[i].regex, &program), 0);
        struct grammar_run *run = grammar_run_new(&program, NULL);
        struct matcher *m = matcher_new(run);
        matcher_forced(m, 10, &out);
        if (!bytes_equal(buf_bytes(&out), bytes_of(ROWS[i].forced, ROWS[i].len)))
            check_fail(__FILE__, __LINE__, "%s: %zu bytes are forced", ROWS[i].regex, out.len);
        buf_reset(&out);
        matcher_forced(m, 1, &out);
        EXPECT_EQ(out.len, MIN(ROWS[i].len, (size_t)1));
        matcher_free(&m);
        grammar_run_free(&run);
        program_release(&program);
        buf_release(&out);
    }
}

/* "propertyNames" in which so many schemas lie in each other. */
static int names_so_deep(int depth, const char *before, const char *behind) {
    struct buf text = {0};
    struct program program;
    buf_add_str(&text, "{\"type\": \"object\", \"propertyNames\": ");
    for (int i = 0; i < depth; i++)
        buf_add_str(&text, before);
    buf_add_str(&text, "{\"maxLength\": 3}");
    for (int i = 0; i < depth; i++)
        buf_add_str(&text, behind);
    buf_add_byte(&text, '}');
    int rc = compile(GRAMMAR_JSON_SCHEMA, buf_text(&text), &program);
    program_release(&program);
    buf_release(&text);
    return rc;
}

TEST(rules_for_names_may_be_24_deep) {
    static const struct {
        const char *before, *behind;
    } LEVELS[] = {{"{\"allOf\": [", "]}"},
                  {"{\"if\": ", ", \"else\": false}"},
                  {"{\"if\": true, \"then\": ", "}"}};
    for (size_t i = 0; i < ARRAY_LEN(LEVELS); i++) {
        EXPECT_EQ(names_so_deep(1, LEVELS[i].before, LEVELS[i].behind), 0);
        EXPECT_EQ(names_so_deep(24, LEVELS[i].before, LEVELS[i].behind), 0);
        EXPECT_EQ(names_so_deep(25, LEVELS[i].before, LEVELS[i].behind), ERR_LIMIT);
        EXPECT(strstr(err.text, "keyword \"propertyNames\" is nested too deeply"));
    }
}

/* Constants are looked at by the patterns of their members' names; what does not fit leaves no text. */
TEST(constants_fit_the_patterns_of_their_members) {
    static const struct {
        const char *schema;
        bool fits[3]; /* {"a":1}, {"ab":"x"}, {} */
    } ROWS[] = {
        {"{\"enum\": [{\"a\": 1}, {\"ab\": \"x\"}, {}], \"patternProperties\": {\"^a$\": {\"type\": "
         "\"string\"}}}",
         {false, true, true}},
        {"{\"enum\": [{\"a\": 1}, {\"ab\": \"x\"}, {}], \"patternProperties\": {\"^a\": {\"type\": "
         "\"integer\"}}}",
         {true, false, true}},
        {"{\"enum\": [{\"a\": 1}, {\"ab\": \"x\"}, {}], \"patternProperties\": {\"b\": {}}, "
         "\"additionalProperties\": false}",
         {false, true, true}},
    };
    static const char *const TEXTS[3] = {"{\"a\":1}", "{\"ab\":\"x\"}", "{}"};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct program program;
        EXPECT_EQ(compile(GRAMMAR_JSON_SCHEMA, ROWS[i].schema, &program), 0);
        struct grammar_run *run = grammar_run_new(&program, NULL);
        struct matcher *m = matcher_new(run);
        for (size_t k = 0; k < 3; k++) {
            matcher_reset(m);
            bool fits = matcher_bytes(m, bytes_str(TEXTS[k])) && matcher_may_end(m);
            if (fits != ROWS[i].fits[k])
                check_fail(__FILE__, __LINE__, "schema %zu, %s: %d", i, TEXTS[k], fits);
        }
        matcher_free(&m);
        grammar_run_free(&run);
        program_release(&program);
    }
}

/* Nothing can be generated from such a schema, but texts can be judged by it. */
TEST(schemas_that_refuse_all_are_compiled_when_asked_for) {
    static const char *const SCHEMAS[] = {
        "false", "{\"not\":{}}", "{\"enum\":[]}",
        "{\"allOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}",
        "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":false}}"};
    static const char *const TEXTS[] = {"", "null", "1", "{}", "{\"a\":1}", "\"\""};
    for (size_t i = 0; i < ARRAY_LEN(SCHEMAS); i++) {
        struct program program;
        struct buf out = {0};
        struct grammar_source source = {
            .kind = GRAMMAR_JSON_SCHEMA, .text = bytes_str(SCHEMAS[i]), .may_refuse_all = true};
        EXPECT_EQ(compile(GRAMMAR_JSON_SCHEMA, SCHEMAS[i], &program), ERR_INVALID);
        EXPECT(strstr(err.text, "no text satisfies"));
        EXPECT_EQ(grammar_compile(&source, NULL, &program, &err), 0);
        struct grammar_run *run = grammar_run_new(&program, NULL);
        struct matcher *m = matcher_new(run);
        matcher_forced(m, 10, &out);
        EXPECT_EQ(out.len, 0);
        for (size_t k = 0; k < ARRAY_LEN(TEXTS); k++) {
            matcher_reset(m);
            if (matcher_bytes(m, bytes_str(TEXTS[k])) && matcher_may_end(m))
                check_fail(__FILE__, __LINE__, "%s accepts '%s'", SCHEMAS[i], TEXTS[k]);
        }
        matcher_free(&m);
        grammar_run_free(&run);
        program_release(&program);
    }
    struct program program; /* of schemas alone */
    struct grammar_source source = {
        .kind = GRAMMAR_GBNF, .text = bytes_str("root ::= \"a\" root"), .may_refuse_all = true};
    EXPECT_EQ(grammar_compile(&source, NULL, &program, &err), ERR_INVALID);
}
