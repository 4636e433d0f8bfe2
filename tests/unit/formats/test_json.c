/*
 * test_json.c - the scan: JSONTestSuite, our stricter refusals, every prefix, and that what passes
 * is seen alike by cJSON.
 */
#include "check.h"

#include "formats/json.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A copy that ends where the text ends, so that ASan sees a read past it. */
static int scan_tight(const char *text, size_t len, struct error *err) {
    char *copy = malloc(len ? len : 1);
    memcpy(copy, text, len);
    int rc = json_scan(bytes_of(copy, len), 0, err);
    free(copy);
    return rc;
}
static int scan(const char *text, struct error *err) {
    return scan_tight(text, strlen(text), err);
}

/* ---- JSONTestSuite ---- */

static bool load(const char *path, struct buf *out) {
    FILE *f = fopen(path, "rb");
    char piece[4096];
    buf_reset(out);
    for (size_t n; f && (n = fread(piece, 1, sizeof piece, f)) > 0;)
        buf_add(out, piece, n);
    if (f)
        fclose(f);
    return f;
}

/* Valid JSON by the RFC that we refuse on purpose. */
static const char *const stricter[] = {
    "y_object_duplicated_key.json",
    "y_object_duplicated_key_and_value.json",
    "y_object_escaped_null_in_key.json",
    "y_string_null_escape.json",
};
/* Left to the implementation ("i_") that we take: huge and tiny numbers, whose range is the
 * reader's business. */
static const char *const taken_prefix = "i_number_";

static bool is_stricter(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(stricter); i++)
        if (!strcmp(stricter[i], name))
            return true;
    return false;
}

TEST(json_test_suite) {
    const char *root = check_shared("structured/JSONTestSuite/test_parsing");
    char path[4096 + 300], dir_path[4096];
    struct buf text;
    struct error err;
    int seen_count = 0, stricter_count = 0;
    if (!root)
        SKIP("shared", "JSONTestSuite");
    snprintf(dir_path, sizeof dir_path, "%s", root);
    buf_init(&text, 0);
    DIR *dir = opendir(dir_path);
    EXPECT(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        const char *name = e->d_name;
        if (!strstr(name, ".json"))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir_path, name);
        EXPECT(load(path, &text));
        bool want = name[0] == 'y' ? !is_stricter(name)
                                   : strncmp(name, taken_prefix, strlen(taken_prefix)) == 0;
        bool got = scan_tight(buf_text(&text), text.len, &err) == 0;
        if (got != want)
            check_fail(__FILE__, __LINE__, "%s: %s", name, got ? "accepted" : err.text);
        seen_count++;
        stricter_count += is_stricter(name);
    }
    closedir(dir);
    buf_release(&text);
    EXPECT(seen_count > 300);
    EXPECT_EQ(stricter_count, ARRAY_LEN(stricter));
}

/* ---- refusals and their texts ---- */

TEST(json_scan_refuses) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "unexpected end of the text at byte 0"},
        {"  ", "unexpected end of the text at byte 2"},
        {"\xef\xbb\xbf{}", "byte order mark at byte 0"},
        {"{}x", "something behind the value at byte 2"},
        {"{} {}", "something behind the value at byte 3"},
        {"[1,]", "expected a value at byte 3"},
        {"[1 2]", "expected ',' or ']' at byte 3"},
        {"[1}", "expected ',' or ']' at byte 2"},
        {"{\"a\":1,}", "expected a key at byte 7"},
        {"{\"a\" 1}", "expected ':' at byte 5"},
        {"{a:1}", "expected a key at byte 1"},
        {"{\"a\":1]", "expected ',' or '}' at byte 6"},
        {"'a'", "expected a value at byte 0"},
        {"01", "bad number at byte 0"},
        {"-01", "bad number at byte 1"},
        {"-x", "bad number at byte 1"},
        {"-", "unexpected end of the text at byte 1"},
        {"1.", "unexpected end of the text at byte 2"},
        {"[1.]", "bad number at byte 3"},
        {"[.5]", "expected a value at byte 1"},
        {"[1e]", "bad number at byte 3"},
        {"[+1]", "expected a value at byte 1"},
        {"[0x1]", "expected ',' or ']' at byte 2"},
        {"NaN", "expected a value at byte 0"},
        {"Infinity", "expected a value at byte 0"},
        {"nulx", "bad value at byte 0"},
        {"tru", "bad value at byte 0"},
        {"\"abc", "unexpected end of the text at byte 4"},
        {"\"a\nb\"", "control character in a string at byte 2"},
        {"\"a\x1f\"", "control character in a string at byte 2"},
        {"\"\\x\"", "bad escape at byte 2"},
        {"\"\\u12g4\"", "bad \\u escape at byte 1"},
        {"\"\\u12", "bad \\u escape at byte 1"},
        {"\"\\u0000\"", "zero character (\\u0000) at byte 1"},
        {"{\"model\\u0000x\":1}", "zero character (\\u0000) at byte 7"},
        {"\"\\ud800\"", "lone surrogate escape at byte 1"},
        {"\"\\ud800\\u0041\"", "lone surrogate escape at byte 1"},
        {"\"\\udc00\"", "lone surrogate escape at byte 1"},
        {"\"\\ud800\\ud800\"", "lone surrogate escape at byte 1"},
        {"\"a\xff\"", "invalid UTF-8 at byte 2"},
        {"\"\xc0\x80\"", "invalid UTF-8 at byte 1"},
        {"\"\xed\xa0\x80\"", "invalid UTF-8 at byte 1"},
        {"\"\xf4\x90\x80\x80\"", "invalid UTF-8 at byte 1"},
        {"\"ok\xc3\"", "invalid UTF-8 at byte 3"},
        {"{\"a\":1,\"a\":2}", "repeated key \"a\" at byte 7"},
        {"{\"a\":1,\"\\u0061\":2}", "repeated key \"\\u0061\" at byte 7"},
        {"{\"\":1,\"\":2}", "repeated key \"\" at byte 6"},
        {"[{\"b\":{\"a\":1,\"c\":2,\"a\":3}}]", "repeated key \"a\" at byte 19"},
        {"{\"a\":1,\"b\":{\"a\":1},\"a\":2}", "repeated key \"a\" at byte 19"},
        {"/* c */ 1", "expected a value at byte 0"},
        {"1 // c", "something behind the value at byte 2"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = {0};
        int rc = scan(cases[i].text, &err);
        if (!rc || strcmp(err.text, cases[i].error))
            check_fail(__FILE__, __LINE__, "%s: '%s', expected '%s'", cases[i].text,
                       rc ? err.text : "accepted", cases[i].error);
    }
}

TEST(json_scan_accepts) {
    static const char *const cases[] = {
        "0",
        "-0",
        "1e400",
        "\"\"",
        " [ ] ",
        "\t{\r\n}\n",
        "[[],{}]",
        "{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":2}]}",
        "\"\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\\"\\\\\"",
        "{\"a\":1,\"A\":2,\"\\u00e9\":3,\"e\\u0301\":4}",
        "\"\x7f\"",
        "[true,false,null]",
        "\"\xf0\x9f\x98\x80\xe2\x82\xac\"",
        "[1,-1,1.5,1e5,1E+5,1.25e-7,-0.0]",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = {0};
        if (scan(cases[i], &err))
            check_fail(__FILE__, __LINE__, "%s: %s", cases[i], err.text);
    }
}

TEST(json_scan_depth) {
    struct error err;
    struct buf text;
    buf_init(&text, 0);
    for (int depth = 1; depth <= 70; depth++) {
        buf_reset(&text);
        for (int i = 0; i < depth; i++)
            buf_add_str(&text, i % 2 ? "{\"a\":" : "[");
        buf_add_byte(&text, '1');
        for (int i = depth; i-- > 0;)
            buf_add_byte(&text, i % 2 ? '}' : ']');
        EXPECT_EQ(json_scan(buf_bytes(&text), 0, &err),
                  depth <= JSON_DEPTH_DEFAULT ? 0 : ERR_LIMIT);
        EXPECT_EQ(json_scan(buf_bytes(&text), 10, &err), depth <= 10 ? 0 : ERR_LIMIT);
    }
    buf_reset(&text);
    for (int i = 0; i < 1000000; i++)
        buf_add_byte(&text, '[');
    EXPECT_EQ(json_scan(buf_bytes(&text), 100000, &err), ERR_LIMIT);
    EXPECT_STR(err.text, "nested too deeply at byte 1024");
    buf_release(&text);
}

TEST(json_number_length) {
    struct error err;
    char text[JSON_NUMBER_MAX + 2];
    memset(text, '1', sizeof text);
    EXPECT_EQ(scan_tight(text, JSON_NUMBER_MAX, &err), 0);
    EXPECT_EQ(scan_tight(text, JSON_NUMBER_MAX + 1, &err), ERR_LIMIT);
}

/* Up to 200 000 keys, with and without a repetition. Quadratic work would take minutes here. */
TEST(json_scan_many_keys) {
    struct error err;
    struct buf text;
    buf_init(&text, 0);
    for (int count = 2; count <= 200000; count = count * 3 + 1) {
        buf_reset(&text);
        for (int i = 0; i < count; i++)
            buf_addf(&text, "%s\"key%d\":%d", i ? "," : "{", i, i);
        size_t len = text.len;
        buf_add_byte(&text, '}');
        EXPECT_EQ(json_scan(buf_bytes(&text), 0, &err), 0);
        text.len = len;
        buf_addf(&text, ",\"\\u006bey%d\":0}", count / 2);
        EXPECT_EQ(json_scan(buf_bytes(&text), 0, &err), ERR_INVALID);
        EXPECT(strstr(err.text, "repeated key"));
    }
    buf_release(&text);
}

TEST(json_scan_bounds_open_keys) {
    struct error err;
    struct buf text;
    buf_init(&text, 0);
    for (int i = 0; i < 300000; i++)
        buf_addf(&text, "%s\"%d\":0", i ? "," : "{", i);
    buf_add_byte(&text, '}');
    EXPECT_EQ(json_scan(buf_bytes(&text), 0, &err), ERR_LIMIT);
    buf_release(&text);
}

TEST(json_scan_cuts_long_keys_in_errors) {
    struct error err;
    struct buf text;
    buf_init(&text, 0);
    for (int twice = 0; twice < 2; twice++) {
        buf_add_str(&text, twice ? ",\"" : "{\"");
        for (int i = 0; i < 50; i++)
            buf_add_str(&text, "a\xc3\xa9\\n");
        buf_add_str(&text, "\":1");
    }
    buf_add_byte(&text, '}');
    EXPECT_EQ(json_scan(buf_bytes(&text), 0, &err), ERR_INVALID);
    EXPECT(strlen(err.text) < 120 && strstr(err.text, "repeated key \"a"));
    buf_release(&text);
}

/* ---- prefixes and alignment ---- */

TEST(json_every_prefix_is_refused) {
    static const char text[] = "{\"a\":[1,2.5e3,-7,\"x\\ud83d\\ude00\\u00e9\\n\xe2\x82\xac "
                               "yyyyyyyyyyyyyyyyyyyyyyyyyyyyy\","
                               "true,false,null,{\"b\":{},\"c\":[]}]}";
    struct error err;
    for (size_t len = 0; len < sizeof text - 1; len++)
        EXPECT_EQ(scan_tight(text, len, &err), ERR_INVALID);
    EXPECT_EQ(scan_tight(text, sizeof text - 1, &err), 0);
}

/* The special bytes at every position of a vector's width are found. */
TEST(json_strings_at_every_alignment) {
    char text[80];
    struct error err;
    for (size_t len = 2; len < 70; len++)
        for (size_t at = 1; at < len; at++) {
            memset(text, 'a', sizeof text);
            text[0] = text[len] = '"';
            EXPECT_EQ(scan_tight(text, len + 1, &err), 0);
            text[at] = '\x01';
            EXPECT_EQ(scan_tight(text, len + 1, &err), ERR_INVALID);
            text[at] = '\x80';
            EXPECT_EQ(scan_tight(text, len + 1, &err), ERR_INVALID);
            text[at] = '\x7f';
            EXPECT_EQ(scan_tight(text, len + 1, &err), 0);
        }
}

/* ---- against cJSON ---- */

static const char *pick(const char *const *list, size_t count) {
    return list[check_random() % count];
}

static void random_string(struct buf *out) {
    static const char *const pieces[] = {"a",
                                         "key",
                                         "\\n",
                                         "\\u00e9",
                                         "\xc3\xa9",
                                         "\\\\",
                                         "\\\"",
                                         "\\ud83d\\ude00",
                                         "\xf0\x9f\x98\x80",
                                         "0",
                                         "\\/",
                                         " longer run of text "};
    buf_add_byte(out, '"');
    for (uint64_t n = check_random() % 6; n; n--)
        buf_add_str(out, pick(pieces, ARRAY_LEN(pieces)));
    buf_addf(out, "%u\"",
             (unsigned)(check_random() % 100000)); /* keys of an object hardly ever repeat */
}

static void random_space(struct buf *out) {
    static const char *const spaces[] = {"", "", "", "", " ", "\n", "\t ", "\r\n"};
    buf_add_str(out, pick(spaces, ARRAY_LEN(spaces)));
}

static void random_value(struct buf *out, int depth);

static void random_container(struct buf *out, bool object, int depth) {
    uint64_t count = check_random() % 5;
    buf_add_byte(out, object ? '{' : '[');
    for (uint64_t i = 0; i < count; i++) {
        if (i)
            buf_add_byte(out, ',');
        random_space(out);
        if (object) {
            random_string(out);
            random_space(out);
            buf_add_byte(out, ':');
        }
        random_value(out, depth - 1);
    }
    random_space(out);
    buf_add_byte(out, object ? '}' : ']');
}

static void random_value(struct buf *out, int depth) {
    static const char *const words[] = {"true", "false", "null", "0",
                                        "-1",   "1.5",   "1e3",  "123456789"};
    uint64_t kind = check_random() % (depth > 0 ? 4 : 2);
    random_space(out);
    if (kind == 0)
        buf_add_str(out, pick(words, ARRAY_LEN(words)));
    else if (kind == 1)
        random_string(out);
    else
        random_container(out, kind == 3, depth);
    random_space(out);
}

/* Reads the value that comes next and compares it with what cJSON made of it. */
static bool same(struct json_reader *r, const cJSON *item);

static bool same_children(struct json_reader *r, const cJSON *item, bool object) {
    if (object ? !cJSON_IsObject(item) : !cJSON_IsArray(item))
        return false;
    for (const cJSON *child = item->child; child; child = child->next) {
        if (object && (json_next(r) != JSON_KEY || !bytes_equal(r->text, bytes_str(child->string))))
            return false;
        if (!same(r, child))
            return false;
    }
    return json_next(r) == (object ? JSON_OBJECT_END : JSON_ARRAY_END);
}

static bool same(struct json_reader *r, const cJSON *item) {
    enum json_event event = json_next(r);
    double number;
    if (!item)
        return false;
    switch (event) {
    case JSON_TRUE: return cJSON_IsTrue(item);
    case JSON_FALSE: return cJSON_IsFalse(item);
    case JSON_NULL: return cJSON_IsNull(item);
    case JSON_STRING:
        return cJSON_IsString(item) && bytes_equal(r->text, bytes_str(item->valuestring));
    case JSON_NUMBER:
        if (!json_number_double(r->text, &number))
            return cJSON_IsNumber(item) && isinf(item->valuedouble);
        return cJSON_IsNumber(item) && number == item->valuedouble;
    case JSON_ARRAY_BEGIN: return same_children(r, item, false);
    case JSON_OBJECT_BEGIN: return same_children(r, item, true);
    default: return false;
    }
}

/* What the scan lets through, cJSON must take, and see the same in it. */
static bool agrees(struct bytes text) {
    struct json_reader r;
    cJSON *tree = cJSON_ParseWithLength((const char *)text.data, text.len);
    json_reader_init(&r, text, 0, 0);
    bool ok = same(&r, tree) && json_next(&r) == JSON_END && json_next(&r) == JSON_END;
    json_reader_release(&r);
    cJSON_Delete(tree);
    return ok;
}

TEST(json_agrees_with_cjson) {
    static const char odd[] = "\"\\{}[]:,01e.-+utn \x01\x80\xc3";
    struct buf text;
    int accepted_count = 0, damaged_count = 0;
    buf_init(&text, 0);
    for (int round = 0; round < 4000; round++) {
        struct error err = {0};
        buf_reset(&text);
        random_value(&text, 5);
        int rc = json_scan(buf_bytes(&text), 0, &err);
        if (rc)
            EXPECT(strstr(err.text, "repeated key"));
        else
            EXPECT(agrees(buf_bytes(&text)));
        accepted_count += !rc;
        for (int i = 0; i < 5; i++) {
            text.data[check_random() % text.len] = odd[check_random() % (sizeof odd - 1)];
            if (json_scan(buf_bytes(&text), 0, &err))
                continue;
            damaged_count++;
            if (!agrees(buf_bytes(&text)))
                check_fail(__FILE__, __LINE__, "seen differently: %s", buf_text(&text));
        }
    }
    buf_release(&text);
    EXPECT(accepted_count > 3500);
    EXPECT(damaged_count > 500);
}

/* A real tokenizer: the same tree as cJSON's. */
TEST(json_reads_a_tokenizer) {
    const char *path = check_shared("tokenizers/smollm2/tokenizer.json");
    struct buf text;
    struct error err;
    if (!path)
        SKIP("shared", "tokenizers");
    buf_init(&text, 0);
    EXPECT(load(path, &text));
    EXPECT(agrees(buf_bytes(&text)));
    EXPECT_EQ(json_scan(buf_bytes(&text), 0, &err), 0);
    buf_release(&text);
}
