/* Many values, deep schemas, wide automata: what is held, and what is refused in time. */
#include "check.h"
#include "compile.h"

/* So many numbers, each between `begin` and `end`. */
static void add_values(struct buf *out, size_t count, const char *begin, const char *end) {
    for (size_t i = 0; i < count; i++) {
        /* No two of them share more than chance has it. */
        unsigned long value = i * 7919 % 1000003;
        buf_add_str(out, i ? "," : "");
        buf_add_str(out, begin);
        buf_add_u64(out, value);
        buf_add_str(out, end);
    }
}

/* A schema with an enum of so many values, and `more` behind the last of them. */
static void add_enum(struct buf *out, size_t count, const char *begin, const char *end,
                     const char *more) {
    buf_add_str(out, "{\"enum\":[");
    add_values(out, count, begin, end);
    buf_add_str(out, more);
}

TEST(twenty_thousand_values_are_held) {
    static const char *const TEXTS[] = {"\"0\"", "0", "0.0", "\"n7919\"", "7919"},
                             *const KINDS[][2] = {{"\"", "\""}, {"", ""}, {"\"n", "\""}},
                             *const FITS[] = {"10000", "01101", "00010"};
    for (size_t k = 0; k < ARRAY_LEN(KINDS); k++) {
        struct buf text = {0};
        struct program p;
        struct error err;
        add_enum(&text, 20000, KINDS[k][0], KINDS[k][1], "],\"minLength\":1,\"minimum\":0}");
        if (compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err)) {
            check_fail(__FILE__, __LINE__, "values of kind %zu: %s", k, err.text);
            return;
        }
        for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++)
            EXPECT_EQ(accepts(&p, bytes_str(TEXTS[i])), FITS[k][i] == '1');
        program_release(&p);
    }
}

TEST(twenty_thousand_choices_are_held) {
    struct buf text = {0};
    struct program p;
    struct error err;
    buf_add_str(&text, "{\"type\":\"choice\",\"values\":[");
    add_values(&text, 20000, "\"the number ", "\"");
    buf_add_str(&text, "]}");
    EXPECT(!compile_text(GRAMMAR_STRUCTURE, &text, &p, &err));
    EXPECT(accepts(&p, bytes_str("the number 7919")));
    EXPECT(!accepts(&p, bytes_str("the number 1")));
    program_release(&p);
}

TEST(lists_of_values_meet_by_value) {
    static const char *const GOOD[] = {"\"7919\"", "1.0", "{\"b\":[2],\"a\":1}", "0", "null"},
                             *const BAD[] = {"\"a\"", "2", "\"x\"", "{\"a\":1}", "true", "[1]"};
    struct buf text = {0};
    struct program p;
    struct error err;
    buf_add_str(&text, "{\"allOf\":[");
    add_enum(&text, 1000, "\"", "\"", ",1,-0,null,{\"a\":1,\"b\":[2]},\"a\",[1],1e999]},");
    add_enum(&text, 2000, "\"", "\"", ",1.0,0,null,{\"b\":[2.0],\"a\":1.0},\"x\",[1,1],2]}]}");
    EXPECT(!compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err));
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++)
        if (!accepts(&p, bytes_str(GOOD[i])))
            check_fail(__FILE__, __LINE__, "refuses %s", GOOD[i]);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        if (accepts(&p, bytes_str(BAD[i])))
            check_fail(__FILE__, __LINE__, "accepts %s", BAD[i]);
    program_release(&p);
}

/* Each value would be checked against each schema. */
TEST(too_many_checks_of_values_are_refused) {
    struct buf text = {0};
    struct program p;
    struct error err;
    buf_add_str(&text, "{\"allOf\":[");
    for (int i = 0; i < 100; i++)
        buf_add_str(&text, "{\"minLength\":1},");
    add_enum(&text, 20000, "\"", "\"", "]}]}");
    EXPECT(compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err) == ERR_LIMIT);
    EXPECT(strstr(err.text, "1048576 steps"));
}

/* What a schema of arrays in each other comes to, so many deep by references. */
static int compile_deep(int depth, struct error *err) {
    struct buf text = {0};
    struct program p;
    buf_add_str(&text, "{\"$ref\":\"#/$defs/1\",\"$defs\":{");
    for (int i = 1; i < depth; i++)
        buf_addf(&text, "\"%d\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/%d\"}},", i,
                 i + 1);
    buf_addf(&text, "\"%d\":{\"const\":1}}}", depth);
    int rc = compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, err);
    if (!rc)
        program_release(&p);
    return rc;
}

TEST(schemas_are_as_deep_as_they_may_be) {
    struct error err;
    EXPECT_EQ(compile_deep(200, &err), 0);
    EXPECT_EQ(compile_deep(201, &err), ERR_LIMIT);
    EXPECT_STR(err.text, "the schema is nested too deeply or has too many cases");
}

/* Few states, of which each has the ranges of a hundred copies of \p{L}. */
TEST(many_ranges_at_once_are_refused_in_time) {
    struct buf text = {0};
    struct program p;
    struct error err;
    buf_add_str(&text, ".*(");
    for (int i = 1; i < 100; i++)
        buf_addf(&text, "\\p{L}{%d}|", i);
    buf_add_str(&text, "a)x.*");
    EXPECT(compile_text(GRAMMAR_REGEX, &text, &p, &err) == ERR_LIMIT);
    EXPECT(strstr(err.text, "too many states"));
}

/* Each two of them may hold, so that each is taken without all others, in any way. */
TEST(many_branches_that_may_hold_at_once_are_refused_in_time) {
    struct buf text = {0};
    struct program p;
    struct error err;
    buf_add_str(&text, "{\"oneOf\":[");
    for (int i = 0; i < 100; i++)
        buf_addf(&text,
                 "%s{\"type\":\"object\",\"properties\":{\"p%d\":{\"type\":\"string\"}},"
                 "\"additionalProperties\":false}",
                 i ? "," : "", i);
    buf_add_str(&text, "]}");
    EXPECT_EQ(compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err), ERR_LIMIT);
    EXPECT(strstr(err.text, "too many cases"));
}
