/* What references mean that depend on the way to them, on the draft, or on what evaluates what. */
#include "check.h"
#include "compile.h"

#include <stdio.h>

#define NEW "\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
/* A list whose items are what the first resource on the way says. */
#define LIST                                                                                       \
    "\"list\":{\"$id\":\"list\",\"type\":\"array\",\"items\":{\"$dynamicRef\":\"#item\"},"         \
    "\"$defs\":{\"item\":{\"$dynamicAnchor\":\"item\",\"type\":\"null\"}}},"                       \
    "\"numbers\":{\"$id\":\"numbers\",\"$ref\":\"list\",\"$defs\":{\"item\":{"                     \
    "\"$dynamicAnchor\":\"item\",\"type\":\"integer\"}}},"                                         \
    "\"texts\":{\"$id\":\"texts\",\"$ref\":\"list\",\"$defs\":{\"item\":{"                         \
    "\"$dynamicAnchor\":\"item\",\"type\":\"string\"}}}"
/* A tree whose children are what the first resource on the way says. */
#define TREE                                                                                       \
    "\"tree\":{\"$id\":\"tree\",\"$dynamicAnchor\":\"node\",\"type\":\"object\",\"properties\":{"  \
    "\"data\":true,\"children\":{\"type\":\"array\",\"items\":{\"$dynamicRef\":\"#node\"}}}},"     \
    "\"strict\":{\"$id\":\"strict\",\"$dynamicAnchor\":\"node\",\"$ref\":\"tree\","                \
    "\"unevaluatedProperties\":false}"

static const struct {
    const char *schema;
    const char *good[8], *bad[8];
} ROWS[] = {
    {"{" NEW
     "\"$id\":\"http://h/m\",\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"numbers\"},"
     "\"t\":{\"$ref\":\"texts\"},\"l\":{\"$ref\":\"list\"}},\"$defs\":{" LIST "}}",
     {"{\"n\":[1],\"t\":[\"a\"],\"l\":[null]}", "{\"n\":[],\"t\":[]}"},
     {"{\"n\":[\"a\"]}", "{\"n\":[null]}", "{\"t\":[1]}", "{\"t\":[null]}", "{\"l\":[1]}",
      "{\"l\":[\"a\"]}"}},
    {"{" NEW "\"$id\":\"http://h/m\",\"anyOf\":[{\"$ref\":\"numbers\"},{\"$ref\":\"texts\"}],"
     "\"$defs\":{" LIST "}}",
     {"[1,2]", "[\"a\"]", "[]"},
     {"[1,\"a\"]", "[null]", "1"}},
    /* the outer of two that are nested counts */
    {"{" NEW "\"$id\":\"http://h/m\",\"$ref\":\"outer\",\"$defs\":{" LIST ",\"outer\":{\"$id\":"
     "\"outer\",\"$ref\":\"numbers\",\"$defs\":{\"x\":{\"$dynamicAnchor\":\"item\",\"type\":"
     "\"boolean\"}}}}}",
     {"[true]", "[]"},
     {"[1]", "[null]", "[\"a\"]"}},
    /* the document's own anchor counts everywhere */
    {"{" NEW "\"$id\":\"http://h/m\",\"$ref\":\"numbers\",\"$defs\":{\"mine\":{\"$dynamicAnchor\":"
     "\"item\",\"const\":7}," LIST "}}",
     {"[7]", "[]"},
     {"[1]", "[null]"}},
    /* turned around */
    {"{" NEW
     "\"$id\":\"http://h/m\",\"type\":\"array\",\"not\":{\"$ref\":\"numbers\"},\"$defs\":{" LIST
     "}}",
     {"[\"a\"]", "[1,null]"},
     {"[]", "[1]", "[1,2]"}},
    /* values that are listed */
    {"{" NEW
     "\"$id\":\"http://h/m\",\"enum\":[[1],[\"a\"],[null]],\"$ref\":\"texts\",\"$defs\":{" LIST
     "}}",
     {"[\"a\"]"},
     {"[1]", "[null]", "[]"}},
    /* schemas that lead to themselves */
    {"{" NEW
     "\"$id\":\"http://h/m\",\"type\":\"object\",\"properties\":{\"s\":{\"$ref\":\"strict\"},"
     "\"l\":{\"$ref\":\"tree\"}},\"$defs\":{" TREE "}}",
     {"{\"s\":{\"data\":1,\"children\":[{\"children\":[{\"data\":{}}]}]}}",
      "{\"l\":{\"x\":1,\"children\":[{\"y\":1}]}}"},
     {"{\"s\":{\"x\":1}}", "{\"s\":{\"children\":[{\"x\":1}]}}",
      "{\"s\":{\"children\":[{\"children\":[{\"x\":1}]}]}}", "{\"l\":{\"children\":[1]}}"}},
    /* an anchor that is no dynamic one, and one that is not entered */
    {"{" NEW
     "\"$id\":\"http://h/m\",\"$dynamicRef\":\"a#x\",\"$defs\":{\"a\":{\"$id\":\"a\",\"$dynamicAnchor\":"
     "\"x\",\"type\":\"string\"},\"b\":{\"$id\":\"b\",\"$dynamicAnchor\":\"x\",\"type\":\"null\"}}}",
     {"\"s\""},
     {"null", "1"}},
    {"{" NEW
     "\"$id\":\"http://h/m\",\"$ref\":\"b\",\"$defs\":{\"a\":{\"$id\":\"a\",\"$anchor\":\"x\","
     "\"type\":\"string\"},\"b\":{\"$id\":\"b\",\"$dynamicAnchor\":\"x\",\"anyOf\":[{\"type\":\"null\"},"
     "{\"type\":\"array\",\"items\":{\"$dynamicRef\":\"a#x\"}}]},\"c\":{\"$id\":\"c\",\"$dynamicAnchor\":"
     "\"x\"}}}",
     {"null", "[\"a\"]"},
     {"[null]", "[[]]", "\"a\""}},
    /* without $schema, by the name of its definitions */
    {"{\"properties\":{\"a\":{\"$ref\":\"#/definitions/l\",\"maxItems\":1}},\"type\":\"object\","
     "\"definitions\":{\"l\":{\"type\":\"array\"}}}",
     {"{\"a\":[1,2]}", "{\"a\":[]}"},
     {"{\"a\":1}"}},
    {"{\"properties\":{\"a\":{\"$ref\":\"#/$defs/l\",\"maxItems\":1}},\"type\":\"object\","
     "\"$defs\":{\"l\":{\"type\":\"array\"}},\"definitions\":{}}",
     {"{\"a\":[1]}", "{\"a\":[]}"},
     {"{\"a\":1}", "{\"a\":[1,2]}"}},
    {"{\"type\":\"array\",\"not\":{\"$ref\":\"#/definitions/l\",\"maxItems\":1},"
     "\"definitions\":{\"l\":{\"items\":{\"type\":\"integer\"}}}}",
     {"[\"a\"]", "[1,null]"},
     {"[]", "[1]", "[1,2]"}},
    /* the schemas of schemas */
    {"{\"$ref\":\"http://json-schema.org/draft-04/schema#\"}",
     {"{}", "{\"id\":\"x\",\"minimum\":1,\"exclusiveMinimum\":true}", "{\"items\":[{}]}",
      "{\"additionalItems\":false}", "{\"const\":1}"},
     {"true", "{\"exclusiveMinimum\":true}", "{\"items\":true}", "{\"required\":[]}",
      "{\"enum\":[]}", "{\"multipleOf\":0}", "{\"not\":{\"type\":\"x\"}}"}},
    {"{\"$ref\":\"http://json-schema.org/draft-06/schema\"}",
     {"{}", "true", "{\"required\":[]}", "{\"contains\":{\"const\":[]}}", "{\"if\":1}"},
     {"1", "{\"exclusiveMinimum\":true}", "{\"contains\":1}", "{\"examples\":{}}"}},
    {"{\"$ref\":\"http://json-schema.org/draft-07/schema#\"}",
     {"false", "{\"minLength\":1}", "{\"if\":{\"items\":[true]},\"then\":{}}",
      "{\"dependencies\":{\"a\":[\"b\"],\"c\":true}}", "{\"type\":[\"null\",\"string\"]}"},
     {"{\"minLength\":-1}", "{\"if\":1}", "{\"items\":[]}", "{\"type\":[\"null\",\"null\"]}",
      "{\"definitions\":{\"a\":{\"type\":1}}}", "{\"dependencies\":{\"a\":1}}", "{\"allOf\":[]}",
      "{\"required\":[\"a\",\"a\"]}"}},
    {"{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"http://json-schema.org/draft-07/schema#/"
     "definitions/nonNegativeInteger\"}}}",
     {"{\"n\":0}", "{\"n\":12}"},
     {"{\"n\":-1}", "{\"n\":\"a\"}", "{\"n\":1.5}"}},
    {"{\"$ref\":\"https://json-schema.org/draft/2019-09/schema\"}",
     {"{\"$anchor\":\"a:b\"}", "{\"items\":[{}]}", "{\"dependentRequired\":{\"a\":[\"b\"]}}"},
     {"{\"$anchor\":\"_a\"}", "{\"items\":[]}", "{\"unevaluatedItems\":1}"}},
    {"{\"$ref\":\"https://json-schema.org/draft/2020-12/schema\"}",
     {"{\"$anchor\":\"_a\"}", "{\"items\":false,\"prefixItems\":[{}]}", "{\"$id\":\"a#\"}"},
     {"{\"items\":[{}]}", "{\"$id\":\"a#b\"}", "{\"prefixItems\":[]}", "{\"not\":{\"$defs\":[]}}"}},
    /* a schema of schemas that has more to say of each */
    {"{" NEW "\"$id\":\"http://h/m\",\"$dynamicAnchor\":\"meta\",\"$ref\":"
     "\"https://json-schema.org/draft/2020-12/schema\",\"properties\":{\"title\":{\"const\":\"t\"}}}",
     {"{\"title\":\"t\"}", "{\"not\":{\"title\":\"t\"}}"},
     {"{\"title\":\"u\"}", "{\"not\":{\"title\":\"u\"}}", "{\"not\":{\"minLength\":-1}}"}},
    /* conditions evaluate nothing where they are turned around */
    {"{\"type\":\"object\",\"properties\":{\"a\":true},\"not\":{\"not\":{\"properties\":{\"b\":"
     "{\"const\":1}},\"required\":[\"b\"]}},\"unevaluatedProperties\":{\"const\":1}}",
     {"{\"b\":1}", "{\"a\":7,\"b\":1}", "{\"b\":1,\"c\":1}"},
     {"{}", "{\"a\":1}", "{\"b\":2}", "{\"b\":1,\"c\":2}"}},
    {"{\"type\":\"object\",\"not\":{\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
     "\"then\":{\"required\":[\"b\"]},\"else\":{\"required\":[\"c\"]}},\"unevaluatedProperties\":{"
     "\"type\":\"integer\"}}",
     {"{}", "{\"a\":1}", "{\"a\":2,\"b\":1}", "{\"b\":1}"},
     {"{\"a\":\"x\"}", "{\"a\":1,\"b\":1}", "{\"c\":1}", "{\"b\":\"x\"}"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"not\":{\"not\":{\"prefixItems\":[true,"
     "{\"const\":2}]}},\"unevaluatedItems\":{\"type\":\"integer\"}}",
     {"[]", "[1]", "[1,2]", "[1,2,7]"},
     {"[1,\"a\"]", "[1,3]", "[1,2,\"a\"]"}},
    {"{\"type\":\"object\",\"oneOf\":[{\"$ref\":\"#/$defs/one\"},{\"properties\":{\"c\":true},"
     "\"required\":[\"c\"]}],\"unevaluatedProperties\":false,\"$defs\":{\"one\":{\"oneOf\":[{"
     "\"properties\":{\"a\":true},\"required\":[\"a\"]},{\"properties\":{\"b\":true},\"required\":[\"b\"]"
     "},{\"required\":[\"all\"],\"unevaluatedProperties\":true}]}}}",
     {"{\"a\":1}", "{\"b\":1}", "{\"c\":1}", "{\"all\":1,\"x\":1}"},
     {"{}", "{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}", "{\"a\":1,\"x\":1}", "{\"all\":1,\"a\":1}"}},
};

TEST(references_lead_where_they_should) {
    for (size_t r = 0; r < ARRAY_LEN(ROWS); r++) {
        struct program p;
        struct error err;
        if (compile(GRAMMAR_JSON_SCHEMA, ROWS[r].schema, &p, &err)) {
            check_fail(__FILE__, __LINE__, "%s: %s", ROWS[r].schema, err.text);
            continue;
        }
        CHECK_TEXTS(&p, ROWS[r]);
        program_release(&p);
    }
}

/* An answer that is generated is held to both readings of what stands beside a "$ref". */
TEST(an_answer_keeps_to_what_stands_beside_a_reference) {
    struct grammar_source source = {
        .kind = GRAMMAR_JSON_SCHEMA,
        .text =
            bytes_str("{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/definitions/l\","
                      "\"maxItems\":1}},\"definitions\":{\"l\":{\"type\":\"array\"}}}"),
        .plain = true};
    struct program p;
    struct error err;
    EXPECT_EQ(grammar_compile(&source, NULL, &p, &err), 0);
    EXPECT(accepts(&p, bytes_str("{\"a\":[1]}")));
    EXPECT(!accepts(&p, bytes_str("{\"a\":[1,2]}")));
    program_release(&p);
}

/* Many resources with the same names: either they compile or the number of ways is refused. */
TEST(ways_without_number_are_refused_in_time) {
    enum { NAMES = 12, RESOURCES = 60 };
    struct buf schema = {0};
    struct program p;
    struct error err;
    buf_add_str(&schema, "{" NEW "\"$id\":\"http://h/m\",\"$ref\":\"r0\",\"$defs\":{");
    for (int i = 0; i < RESOURCES; i++) {
        buf_addf(&schema, "%s\"r%d\":{\"$id\":\"r%d\",\"$defs\":{", i ? "," : "", i, i);
        for (int n = 0; n < NAMES; n++)
            if (i >> (n % 6) & 1)
                buf_addf(&schema, "%s\"n%d\":{\"$dynamicAnchor\":\"n%d\",\"const\":%d}",
                         schema.data[schema.len - 1] == '{' ? "" : ",", n, n, i);
        buf_add_str(&schema, "},\"anyOf\":[");
        for (int n = 0; n < NAMES; n++)
            buf_addf(&schema, "{\"type\":\"array\",\"items\":{\"$ref\":\"r%d\"}},",
                     (i * 7 + n * 11 + 1) % RESOURCES);
        buf_addf(&schema, "{\"$dynamicRef\":\"r%d#n%d\"}]}", RESOURCES - 1, i % 5);
    }
    buf_add_str(&schema, "}}");
    int rc = compile_text(GRAMMAR_JSON_SCHEMA, &schema, &p, &err);
    EXPECT_EQ(rc, ERR_LIMIT);
    if (!rc)
        program_release(&p);
}
