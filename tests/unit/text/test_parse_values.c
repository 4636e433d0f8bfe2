/* Values that models write without quotes: what a tool's schema says of them, and the JSON that they
 * become. */
#include "check.h"
#include "text/parse/internal.h"
#include "text/parse/parse.h"

/* The tools of one function `f`, whose parameter `p` has this schema; `s` is a string. */
static struct parse_tools *tools_of(const char *schema) {
    struct buf text = {0};
    struct parse_tools *t;
    struct error err;
    buf_addf(&text,
             "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"p\": %s, "
             "\"s\": {\"type\": \"string\"}}, \"$defs\": {\"n\": {\"type\": \"integer\"}, "
             "\"a/b\": {\"type\": \"string\"}}}}}]",
             schema);
    CHECK(!parse_tools_new(buf_bytes(&text), &t, &err));
    buf_release(&text);
    return t;
}

TEST(values_have_the_type_that_their_schema_says) {
    static const struct {
        const char *schema;
        enum parse_type type;
    } ROWS[] = {
        {"{\"type\": \"string\"}", TYPE_STRING},
        {"{\"type\": \"str\"}", TYPE_STRING},
        {"{\"type\": \"text\"}", TYPE_STRING},
        {"{\"type\": \"enum\"}", TYPE_STRING},
        {"{\"type\": \"strings\"}", TYPE_OTHER},
        {"{\"type\": \"integer\"}", TYPE_OTHER},
        {"{\"type\": 5}", TYPE_UNKNOWN},
        {"{}", TYPE_UNKNOWN},
        {"true", TYPE_UNKNOWN},
        {"{\"type\": []}", TYPE_UNKNOWN},
        {"{\"type\": [\"string\"]}", TYPE_STRING},
        {"{\"type\": [\"string\", \"string\"]}", TYPE_STRING},
        {"{\"type\": [\"null\", \"integer\"]}", TYPE_OTHER},
        {"{\"type\": [\"string\", \"null\"]}", TYPE_MIXED},
        {"{\"type\": [\"null\", \"string\"]}", TYPE_MIXED},
        {"{\"type\": [\"null\", \"string\", \"null\"]}", TYPE_MIXED},
        {"{\"type\": [5, \"string\"]}", TYPE_STRING},
        {"{\"type\": [\"string\", 5]}", TYPE_STRING},
        {"{\"type\": [{\"type\": \"string\"}, {}]}", TYPE_STRING},
        {"{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"integer\"}]}", TYPE_MIXED},
        {"{\"oneOf\": [{\"type\": \"string\"}]}", TYPE_STRING},
        {"{\"allOf\": [{\"type\": \"integer\"}]}", TYPE_OTHER},
        {"{\"not\": [{\"type\": \"integer\"}]}", TYPE_UNKNOWN},
        {"{\"type\": \"integer\", \"anyOf\": [{\"type\": \"string\"}]}", TYPE_OTHER},
        {"{\"anyOf\": [{\"enum\": [1, 2]}], \"enum\": [\"a\"]}", TYPE_OTHER},
        {"{\"anyOf\": [], \"oneOf\": [{\"type\": \"string\"}]}", TYPE_UNKNOWN},
        {"{\"anyOf\": {\"a\": 1}, \"oneOf\": [{\"type\": \"string\"}]}", TYPE_STRING},
        {"{\"enum\": [\"a\", \"b\"]}", TYPE_STRING},
        {"{\"enum\": [1, null]}", TYPE_OTHER},
        {"{\"enum\": [\"a\", 1]}", TYPE_MIXED},
        {"{\"enum\": []}", TYPE_UNKNOWN},
        {"{\"$ref\": \"#/$defs/n\"}", TYPE_OTHER},
        {"{\"$ref\": \"#/properties/s\"}", TYPE_STRING},
        {"{\"$ref\": \"#/properties/s/type\"}", TYPE_UNKNOWN},
        {"{\"$ref\": \"#/$defs/none\"}", TYPE_UNKNOWN},
        {"{\"$ref\": \"#/\"}", TYPE_UNKNOWN},
        {"{\"$ref\": \"other#/x\", \"type\": \"string\"}", TYPE_STRING},
        {"{\"$ref\": 5, \"type\": \"string\"}", TYPE_STRING},
        {"{\"$ref\": \"#/properties/p\"}", TYPE_UNKNOWN},
        {"{\"anyOf\": [{\"$ref\": \"#/properties/s\"}, {\"$ref\": \"#/$defs/n\"}]}", TYPE_MIXED},
        {"{\"anyOf\": [{\"$ref\": \"#/properties/p\"}, {\"$ref\": \"#/properties/p\"}]}",
         TYPE_UNKNOWN}, /* for ever, but for a bound */
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct parse_tools *t = tools_of(ROWS[i].schema);
        enum parse_type type = parse_tools_type(t, bytes_str("f"), bytes_str("p"));
        if (type != ROWS[i].type)
            check_fail(__FILE__, __LINE__, "%s is %d, not %d", ROWS[i].schema, (int)type,
                       (int)ROWS[i].type);
        parse_tools_free(&t);
    }
    struct parse_tools *t = tools_of("{}");
    EXPECT_EQ(parse_tools_type(t, bytes_str("f"), bytes_str("s")), TYPE_STRING);
    EXPECT_EQ(parse_tools_type(t, bytes_str("f"), bytes_str("none")), TYPE_UNKNOWN);
    EXPECT_EQ(parse_tools_type(t, bytes_str("g"), bytes_str("s")), TYPE_UNKNOWN);
    EXPECT_EQ(parse_tools_type(NULL, bytes_str("f"), bytes_str("s")), TYPE_UNKNOWN);
    parse_tools_free(&t);
}

TEST(values_become_json_by_their_type) {
    static const char STRING[] = "{\"type\": \"string\"}", NUMBER[] = "{\"type\": \"integer\"}",
                      MIXED[] = "{\"type\": [\"string\", \"null\"]}", NOTHING[] = "{}";
    static const struct {
        const char *schema;
        enum parse_type unknown; /* where the schema says nothing */
        const char *value, *json;
    } ROWS[] = {
        {STRING, TYPE_OTHER, "5", "\"5\""},
        {STRING, TYPE_OTHER, " null ", "\" null \""},
        {STRING, TYPE_OTHER, "a\"b", "\"a\\\"b\""},
        {NUMBER, TYPE_STRING, " 5\n", "5"},
        {NUMBER, TYPE_STRING, "null", "null"},
        {NUMBER, TYPE_STRING, " NuLL ", "null"},
        {NUMBER, TYPE_STRING, "nul", "\"nul\""},
        {NUMBER, TYPE_STRING, "nulls", "\"nulls\""},
        {NUMBER, TYPE_STRING, "true", "true"},
        {NUMBER, TYPE_STRING, "True", "true"},
        {NUMBER, TYPE_STRING, "None", "null"},
        {NUMBER, TYPE_STRING, "True x", "\"True x\""},
        {NUMBER, TYPE_STRING, "['a', 1]", "[\"a\", 1]"},
        {NUMBER, TYPE_STRING, "[1, 2", "\"[1, 2\""},
        {NUMBER, TYPE_STRING, "{\"a\": [1]}", "{\"a\": [1]}"},
        {NUMBER, TYPE_STRING, "1 2", "\"1 2\""},
        {NUMBER, TYPE_STRING, " about five ", "\" about five \""},
        {NUMBER, TYPE_STRING, "", "\"\""},
        {MIXED, TYPE_OTHER, "null", "null"},
        {MIXED, TYPE_OTHER, "x", "\"x\""},
        {NOTHING, TYPE_STRING, "5", "\"5\""},
        {NOTHING, TYPE_OTHER, "5", "5"},
    };
    struct buf out = {0};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct parse_tools *t = tools_of(ROWS[i].schema);
        buf_reset(&out);
        add_typed(t, bytes_str("f"), bytes_str("p"), ROWS[i].unknown, bytes_str(ROWS[i].value),
                  &out);
        EXPECT_STR(buf_text(&out), ROWS[i].json);
        parse_tools_free(&t);
    }
    buf_release(&out);
}

/* What a request has in its list of tools: OpenAI's form, bare, Anthropic's, and what is none. */
TEST(tools_are_read_in_each_form) {
    static const char TEXT[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"a\", \"parameters\": {\"properties\":"
        " {\"x\": {}}}}}, {\"name\": \"b\", \"input_schema\": {\"properties\": {\"y\": {}}}},"
        " {\"name\": \"c\", \"parameters\": {\"properties\": {\"z\": {}}}, \"input_schema\": {}},"
        " {\"name\": \"d\", \"parameters\": 5}, {\"function\": 5, \"name\": \"e\"},"
        " {\"name\": 5}, 5, {\"name\": \"f\", \"parameters\": {\"properties\": {}}}]";
    static const struct {
        const char *name, *parameter; /* NULL: it has none */
    } ROWS[] = {{"a", "x"}, {"b", "y"}, {"c", "z"}, {"d", NULL}, {"e", NULL}, {"f", NULL}};
    struct parse_tools *t;
    struct error err;
    EXPECT_EQ(parse_tools_new(bytes_str(TEXT), &t, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct bytes name = bytes_str(ROWS[i].name);
        EXPECT(parse_tools_has(t, name));
        EXPECT_EQ(parse_tools_has_parameters(t, name), ROWS[i].parameter != NULL);
        if (ROWS[i].parameter)
            EXPECT(parse_tools_has_parameter(t, name, bytes_str(ROWS[i].parameter)));
        EXPECT(!parse_tools_has_parameter(t, name, bytes_str("none")));
    }
    EXPECT(!parse_tools_has(t, bytes_str("g")) && !parse_tools_has(t, bytes_str("")));
    EXPECT(parse_tools_has(NULL, bytes_str("g"))); /* without a list anything is called */
    parse_tools_free(&t);
    EXPECT_EQ(parse_tools_new(bytes_str("{}"), &t, &err), ERR_INVALID);
    EXPECT(!t && strstr(err.text, "tools must be a list"));
    EXPECT_EQ(parse_tools_new(bytes_str("[]"), &t, &err), 0);
    EXPECT(t && !parse_tools_has(t, bytes_str("a")));
    parse_tools_free(&t);
}

/* A schema in which so many items stand in front of the last one. */
static void long_schema(struct buf *out, const char *list, const char *item, int count,
                        const char *last) {
    buf_reset(out);
    buf_addf(out, "{\"%s\": [", list);
    for (int i = 0; i < count; i++)
        buf_addf(out, "%s, ", item);
    buf_addf(out, "%s]}", last);
}

/* A text may have many values, and a schema many items: their product is nobody's to compute. */
TEST(only_so_much_of_a_schema_is_looked_at_for_a_value) {
    static const struct {
        const char *list, *item, *last;
        int near, far;
        enum parse_type with, without;
    } ROWS[] = {
        {"type", "\"integer\"", "\"string\"", 900, 1000, TYPE_MIXED, TYPE_OTHER},
        {"enum", "5", "\"a\"", 999, 1000, TYPE_MIXED, TYPE_OTHER},
        {"anyOf", "{\"type\": \"null\"}", "{\"type\": \"string\"}", 400, 600, TYPE_MIXED,
         TYPE_OTHER},
    };
    struct buf schema = {0}, name = {0};
    for (size_t i = 0; i < 2 * ARRAY_LEN(ROWS); i++) {
        long_schema(&schema, ROWS[i / 2].list, ROWS[i / 2].item,
                    i % 2 ? ROWS[i / 2].far : ROWS[i / 2].near, ROWS[i / 2].last);
        struct parse_tools *t = tools_of(buf_text(&schema));
        EXPECT_EQ(parse_tools_type(t, bytes_str("f"), bytes_str("p")),
                  i % 2 ? ROWS[i / 2].without : ROWS[i / 2].with);
        parse_tools_free(&t);
    }
    for (int len = 1024; len <= 1025; len++) { /* of a function's name, and of a reference */
        struct parse_tools *named;
        struct error err;
        buf_reset(&schema);
        buf_reset(&name);
        buf_addf(&name, "%0*d", len, 7);
        buf_addf(
            &schema,
            "[{\"name\": \"%s\", \"parameters\": {\"%0*d\": {\"type\": \"string\"}, "
            "\"properties\": {\"p\": {\"$ref\": \"#/%0*d\"}, \"q\": {\"type\": \"integer\"}}}}, "
            "{\"name\": \"g\", \"parameters\": {\"%0*d\": {\"type\": \"string\"}, \"properties\": "
            "{\"p\": {\"$ref\": \"#/%0*d\"}}}}]",
            buf_text(&name), len - 2, 7, len - 2, 7, len - 2, 7, len - 2, 7);
        EXPECT_EQ(parse_tools_new(buf_bytes(&schema), &named, &err), 0);
        EXPECT_EQ(parse_tools_type(named, buf_bytes(&name), bytes_str("q")),
                  len == 1024 ? TYPE_OTHER : TYPE_UNKNOWN);
        EXPECT_EQ(parse_tools_type(named, bytes_str("g"), bytes_str("p")),
                  len == 1024 ? TYPE_STRING : TYPE_UNKNOWN);
        parse_tools_free(&named);
    }
    buf_release(&schema);
    buf_release(&name);
}

TEST(only_so_much_of_a_schema_is_looked_at_for_an_element) {
#define M_ MINIMAX_SPACE
    static const char BODY[] = "\"f\">" M_ "<p>" M_ "<item>1" M_ "</item>" M_ "</p>";
    struct buf schema = {0};
    for (int i = 0; i < 4; i++) {
        if (i < 2)
            long_schema(&schema, "anyOf", "{\"type\": \"null\"}", i ? 1000 : 999,
                        "{\"type\": \"array\"}");
        else
            long_schema(&schema, "type", "\"null\"", i == 3 ? 16 : 15, "\"array\"");
        struct parse_tools *t = tools_of(buf_text(&schema));
        struct call_reader r = {.tools = t};
        EXPECT(read_minimax(&r, bytes_str(BODY)));
        EXPECT_EQ(r.calls.count, 1);
        const struct read_call *call = &r.calls.items[0];
        struct bytes arguments = bytes_of(r.made.data + call->arguments_at, call->arguments_len);
        const char *expected = i % 2 ? "{\"p\": {\"item\": \"1\"}}" : "{\"p\": [\"1\"]}";
        if (!bytes_equal(arguments, bytes_str(expected)))
            check_fail(__FILE__, __LINE__, "%d: %.*s", i, (int)arguments.len,
                       (const char *)arguments.data);
        buf_release(&r.made);
        vec_release(&r.calls);
        parse_tools_free(&t);
    }
    buf_release(&schema);
#undef M_
}

TEST(json_is_told_from_what_looks_like_it) {
    static const struct {
        const char *text;
        bool value, object;
    } ROWS[] = {
        {"{}", true, true},     {"{\"a\": 1}", true, true}, {" {} ", true, true},
        {"[]", true, false},    {"5", true, false},         {"\"a\"", true, false},
        {"null", true, false},  {"", false, false},         {" ", false, false},
        {"{} x", false, false}, {"{}{}", false, false},     {"{", false, false},
        {"[1", false, false},   {"5 6", false, false},      {"}", false, false},
        {"{]", false, false},   {"{\"a\"}", false, false},  {"True", false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        if (json_is_value(bytes_str(ROWS[i].text)) != ROWS[i].value ||
            json_is_object(bytes_str(ROWS[i].text)) != ROWS[i].object)
            check_fail(__FILE__, __LINE__, "'%s'", ROWS[i].text);
    EXPECT_EQ(find_bytes(bytes_str("aba"), bytes_str("a"), 0), 0);
    EXPECT_EQ(find_bytes(bytes_str("aba"), bytes_str("a"), 1), 2);
    EXPECT_EQ(find_bytes(bytes_str("aba"), bytes_str("a"), 2), 2);
    EXPECT(find_bytes(bytes_str("aba"), bytes_str("a"), 3) == SIZE_MAX);
    EXPECT(find_bytes(bytes_str("aba"), bytes_str(""), 0) == SIZE_MAX);
    EXPECT(find_bytes(bytes_str("aba"), bytes_str("c"), 0) == SIZE_MAX);
}
