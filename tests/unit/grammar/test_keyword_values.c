/*
 * test_keyword_values.c - a keyword whose value is none for it is refused by name and place, wherever it
 * stands; what a draft allows is not.
 */
#include "compile.h"

static const struct {
    const char *keyword, *value;
} BAD[] = {
    {"minimum", "\"3\""},
    {"minimum", "null"},
    {"maximum", "[]"},
    {"exclusiveMinimum", "\"3\""},
    {"exclusiveMaximum", "{}"},
    {"multipleOf", "\"2\""},
    {"minLength", "\"2\""},
    {"minLength", "-1"},
    {"maxLength", "1.5"},
    {"minItems", "true"},
    {"maxItems", "\"2\""},
    {"minProperties", "[1]"},
    {"maxProperties", "-2"},
    {"uniqueItems", "\"true\""},
    {"uniqueItems", "1"},
    {"pattern", "1"},
    {"format", "[\"date\"]"},
    {"enum", "1"},
    {"enum", "{}"},
    {"allOf", "{}"},
    {"anyOf", "{}"},
    {"oneOf", "1"},
    {"prefixItems", "{}"},
    {"properties", "[]"},
    {"patternProperties", "[]"},
    {"dependencies", "[]"},
    {"dependentSchemas", "1"},
    {"dependentRequired", "\"a\""},
    {"required", "\"a\""},
    {"required", "[1]"},
    {"minContains", "\"1\""},
    {"maxContains", "null"},
};
/* Where the schema stands, and its place there. */
static const struct {
    const char *before, *behind, *place;
} PLACES[] = {
    {"", "", "#/"},
    {"{\"type\":\"array\",\"items\":", "}", "#/items/"},
    {"{\"properties\":{\"minimum\":", "}}", "#/properties/minimum/"},
    {"{\"not\":", "}", "#/not/"},
    {"{\"anyOf\":[true,{\"allOf\":[", "]}]}", "#/anyOf/1/allOf/0/"},
};

TEST(values_that_are_none_are_refused_by_name) {
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        for (size_t k = 0; k < ARRAY_LEN(PLACES); k++) {
            struct program p;
            struct error err;
            struct buf schema = {0}, want = {0};
            buf_addf(&schema, "%s{\"%s\":%s}%s", PLACES[k].before, BAD[i].keyword, BAD[i].value,
                     PLACES[k].behind);
            buf_addf(&want, "keyword \"%s\" at %s%s: its value must be ", BAD[i].keyword,
                     PLACES[k].place, BAD[i].keyword);
            int rc = compile(GRAMMAR_JSON_SCHEMA, buf_text(&schema), &p, &err);
            if (!rc || strncmp(err.text, buf_text(&want), want.len) != 0)
                check_fail(__FILE__, __LINE__, "%s: %s", buf_text(&schema),
                           rc ? err.text : "compiles");
            program_release(&p);
            buf_release(&schema);
            buf_release(&want);
        }
}

TEST(values_of_some_draft_are_none_too_many) {
    static const char *const GOOD[] = {
        "{\"minimum\":1,\"exclusiveMinimum\":true}",
        "{\"properties\":{\"a\":{\"required\":true}}}",
        "{\"maxLength\":9007199254740993,\"minLength\":2.0}",
        "{\"maxItems\":1e400}",
        "{\"properties\":{\"minimum\":true,\"required\":{\"type\":\"string\"}}}",
        "{\"default\":{\"minimum\":\"3\"},\"const\":{\"minimum\":\"3\"}}",
        "{\"$schema\":\"http://json-schema.org/draft-07/schema#\","
        "\"properties\":{\"a\":{\"$ref\":\"#/definitions/a\",\"minimum\":\"3\"}},"
        "\"definitions\":{\"a\":{\"type\":\"integer\"}}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++) {
        struct program p;
        struct error err;
        if (compile(GRAMMAR_JSON_SCHEMA, GOOD[i], &p, &err))
            check_fail(__FILE__, __LINE__, "%s: %s", GOOD[i], err.text);
        program_release(&p);
    }
}
