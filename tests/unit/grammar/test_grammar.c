/* Constraints and the texts they accept; what cannot be held is refused by name. */
#include "check.h"
#include "compile.h"
#include "rows.h"

TEST(constraints_accept_and_refuse) {
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct row *row = &ROWS[i];
        struct program p;
        struct error err;
        if (compile(row->kind, row->source, &p, &err)) {
            check_fail(__FILE__, __LINE__, "'%s' does not compile: %s", row->source, err.text);
            return;
        }
        for (size_t k = 0; k < ARRAY_LEN(row->good); k++)
            for (int bad = 0; bad < 2; bad++) {
                const char *text = bad ? row->bad[k] : row->good[k];
                if (text && accepts(&p, bytes_str(*text == '~' ? "" : text)) == (bad == 1)) {
                    check_fail(__FILE__, __LINE__, "'%s' %s '%s'", row->source,
                               bad ? "accepts" : "refuses", text);
                    program_release(&p);
                    return;
                }
            }
        program_release(&p);
    }
}

/* Ordered, as a worker compiles them: members as "properties" has them, optional ones may lack, others
 * come last. Else any order is accepted. */
TEST(members_come_in_the_order_of_the_schema) {
    static const char SCHEMA[] =
        "{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"},"
        "\"c\":{\"type\":\"integer\"},\"d\":{\"type\":\"integer\"}},\"required\":[\"b\"]}";
    static const struct {
        const char *text;
        bool in_order, valid;
    } CASES[] = {
        {"{\"b\":1}", true, true},
        {"{\"a\":1,\"b\":1}", true, true},
        {"{\"b\":1,\"c\":1,\"d\":1}", true, true},
        {"{\"b\":1,\"d\":1}", true, true},
        {"{\"b\":1,\"x\":1}", true, true},
        {"{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"x\":1,\"y\":1}", true, true},
        {"{\"b\":1,\"a\":1}", false, true},
        {"{\"a\":1,\"c\":1,\"b\":1}", false, true},
        {"{\"c\":1,\"b\":1}", false, true},
        {"{\"b\":1,\"d\":1,\"c\":1}", false, true},
        {"{\"x\":1,\"b\":1}", false, true},
        {"{\"a\":1}", false, false},
        {"{\"b\":1,\"b\":1}", false, false},
        {"{}", false, false},
    };
    for (int ordered = 0; ordered < 2; ordered++) {
        struct grammar_source source = {
            .kind = GRAMMAR_JSON_SCHEMA, .text = bytes_str(SCHEMA), .ordered = ordered};
        struct program p;
        struct error err;
        EXPECT_EQ(grammar_compile(&source, NULL, &p, &err), 0);
        for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
            if (accepts(&p, bytes_str(CASES[i].text)) !=
                (ordered ? CASES[i].in_order : CASES[i].valid))
                check_fail(__FILE__, __LINE__, "%s%s", CASES[i].text, ordered ? ", ordered" : "");
        program_release(&p);
    }
}

TEST(what_cannot_be_held_is_refused_by_name) {
    static const struct {
        enum grammar_kind kind;
        const char *source, *word;
    } REFUSED[] = {
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"other.json\"}", "other.json"},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"http://json-schema.org/draft-03/schema#\"}", "draft-03"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"$ref\":\"a\",\"$defs\":{\"a\":{\"$id\":\"a\",\"$dynamicAnchor\":\"meta\",\"$ref\":"
         "\"https://json-schema.org/draft/2020-12/schema\"}}}",
         "2020-12"},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"#n\",\"x\":{\"$anchor\":\"n\"}}", "#n"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"$ref\":\"u\",\"$defs\":{\"a\":{\"$id\":\"u\"},\"b\":{\"$id\":\"u\",\"not\":{}}}}",
         "'u'"},
        {GRAMMAR_JSON_SCHEMA, "{\"$schema\":\"http://h/mine\",\"type\":\"null\"}", "$schema"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"anyOf\":[{\"const\":1},{\"const\":2},{\"const\":3},{\"const\":4},{\"const\":5},{}],"
         "\"unevaluatedProperties\":false}",
         "unevaluated"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\":{\"items\":{\"not\":{\"uniqueItems\":true}}}}",
         "keyword \"not\" at #/items/items/not: its schema cannot be turned around (because of "
         "\"uniqueItems\")"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"properties\":{\"a\":{\"uniqueItems\":true,\"items\":{\"type\":\"boolean\"},"
         "\"minItems\":2}}}",
         "keyword \"uniqueItems\" at #/properties/a/uniqueItems: of items that may run out"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"maxProperties\":3,\"not\":{\"additionalProperties\":{\"type\":\"null\"}}}",
         "maxProperties"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"allOf\":[{\"properties\":{\"a\":true}},{\"allOf\":[{\"properties\":{\"b\":true}}],"
         "\"unevaluatedProperties\":false}]}",
         "unevaluated"},
        {GRAMMAR_JSON_SCHEMA, "{\"contains\":{\"uniqueItems\":true},\"maxContains\":1}",
         "maxContains"},
        {GRAMMAR_JSON_SCHEMA, "{\"contains\":{\"const\":1},\"minContains\":100,\"maxItems\":200}",
         "contains"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"contains\":{\"const\":1},\"allOf\":[{\"contains\":{\"const\":2}},"
         "{\"contains\":{\"const\":3}},{\"contains\":{\"const\":4}},{\"contains\":{\"const\":5}}]}",
         "more than 4 times"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"properties\":{\"a\":{\"contains\":{\"uniqueItems\":true},\"allOf\":[{\"contains\":{}}]},"
         "\"b\":{\"not\":{\"contentMediaType\":\"application/json\"}}}}",
         "(because of \"contentMediaType\")"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\":\"thing\"}", "type"},
        {GRAMMAR_JSON_SCHEMA, "{\"allOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}",
         "no text satisfies"},
        {GRAMMAR_JSON_SCHEMA, "[", "byte"},
        {GRAMMAR_REGEX, "a(b", "group"},
        {GRAMMAR_REGEX, "(a)\\1", "backreference"},
        {GRAMMAR_REGEX, "((?<=a)b)", "no text satisfies"},
        {GRAMMAR_REGEX, "a(?m)b", "a flag other than i, s and u at byte 3"},
        {GRAMMAR_REGEX, "(?>a)b", "an unknown kind of group at byte 2"},
        {GRAMMAR_REGEX, "((?=a)b|a\\Bc-){0,3}\\Bx(?<=-x)a\\B", "no text satisfies"},
        {GRAMMAR_REGEX, "(a{1,1000}){1,1000}", "states"},
        {GRAMMAR_REGEX, "(a|b)*a(a|b){40}", "states"},
        {GRAMMAR_GBNF, "root ::= root \"a\" | \"b\"", "left recursion"},
        {GRAMMAR_GBNF, "root ::= \"a\" root", "no text satisfies"},
        {GRAMMAR_GBNF, "root ::= x", "'x'"},
        {GRAMMAR_GBNF, "x ::= \"a\"", "'root'"},
        {GRAMMAR_LARK, "start: a\na: b\nb: a \"x\" | \"y\"", "left recursion"},
        {GRAMMAR_LARK, "start: start \"a\"", "no text satisfies"},
        {GRAMMAR_LARK, "start: x", "'x'"},
        {GRAMMAR_LARK, "x: \"a\"", "'start'"},
        {GRAMMAR_LARK, "start: \"a\"\n\n%import python.NAME", "in line 3"},
        {GRAMMAR_GBNF, "root ::= x\n# two\nx ::= [a", "in line 3"},
        {GRAMMAR_GBNF, "root ::= \"ab", "closing quote"},
        {GRAMMAR_GBNF, "root ::= \"ab\n  \"c\"", "closing quote"},
        {GRAMMAR_LARK, "start: a{\"x\"}\na{p}: p a{p}", "no text satisfies"},
        {GRAMMAR_LARK, "start: a{\"x\"}\na{p}: p a{p p} | p", "templates"},
        {GRAMMAR_LARK, "start: x[max_tokens=3]\nx: \"a\"", "attribute"},
        {GRAMMAR_LARK, "start: /a/x", "flag"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"arguments\",\"json_schema\":{\"minProperties\":1}}",
         "minProperties"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"arguments\",\"json_schema\":{\"required\":[\"a<b\"]}}",
         "a<b"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"nope\"}", "'nope'"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"const_string\"}", "'value'"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"sequence\",\"elements\":3}", "'elements'"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"choice\",\"values\":[\"a\",1]}", "list of texts"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"choice\",\"values\":[]}", "no text satisfies"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"until\",\"value\":\"\"}", "empty"},
        {GRAMMAR_STRUCTURE,
         "{\"type\":\"json_schema\",\"json_schema\":{\"not\":{\"uniqueItems\":true}}}",
         "uniqueItems"},
        {GRAMMAR_STRUCTURE,
         "{\"type\":\"arguments\",\"json_schema\":{\"properties\":{\"a\":{\"uniqueItems\":true}}}}",
         "uniqueItems"},
    };
    for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++) {
        struct program p;
        struct error err;
        int rc = compile(REFUSED[i].kind, REFUSED[i].source, &p, &err);
        if (!rc || !strstr(err.text, REFUSED[i].word)) {
            check_fail(__FILE__, __LINE__, "'%s': %s", REFUSED[i].source,
                       rc ? err.text : "compiles");
            program_release(&p);
            return;
        }
    }
}

TEST(plain_json_has_an_end) {
    static const char *const good[] = {"{\"a\": [1, 2 ], \"b\": {}}",
                                       "{\"a\":[],\"b\":{\"c\": 1}}"},
                             *const bad[] = {
                                 "{\"a\":  [],\"b\":{}}", "{\"a\":\n[],\"b\":{}}",
                                 "{ \"a\":[],\"b\":{}}",  "{\"a\":[],  \"b\":{}}",
                                 "{\"a\":[],\"b\":{} }",  "{\"a\":[],\"b\":{\"c\":  1}}"};
    struct program p;
    struct error err;
    struct grammar_source source = {
        .kind = GRAMMAR_JSON_SCHEMA,
        .text = bytes_str("{\"type\":\"object\",\"required\":[\"a\",\"b\"],\"properties\":{\"a\":"
                          "{\"type\":\"array\"},\"b\":{\"type\":\"object\"}}}"),
        .plain = true};
    EXPECT(!grammar_compile(&source, NULL, &p, &err));
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        EXPECT(accepts(&p, bytes_str(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        EXPECT(!accepts(&p, bytes_str(bad[i])));
    program_release(&p);
    static const struct {
        const char *schema, *good, *bad;
    } NUMBERS[] = {
        {"{\"type\":\"integer\"}", "-120", "1.0"},
        {"{\"type\":\"integer\",\"minimum\":1}", "7", "7.00"},
        {"{\"type\":\"number\"}", "1.5e10", "1e100"},
        {"{\"type\":\"number\",\"maximum\":2}", "-0.25", "0.000000000000000000"},
        {"{\"enum\":[1]}", "1", "1.0"},
        {"{\"type\":\"integer\",\"minimum\":100000000000000000000}", "100000000000000000000", "1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        source.text = bytes_str(NUMBERS[i].schema);
        EXPECT(!grammar_compile(&source, NULL, &p, &err));
        if (!accepts(&p, bytes_str(NUMBERS[i].good)) || accepts(&p, bytes_str(NUMBERS[i].bad)))
            check_fail(__FILE__, __LINE__, "%s", NUMBERS[i].schema);
        program_release(&p);
    }
}
