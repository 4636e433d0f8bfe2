#include "check.h"

#include "formats/json_document.h"

static int parse(const char *text, cJSON **out) {
    struct error err;
    int rc = json_document_parse(bytes_str(text), out, &err);
    CHECK(!rc == (*out != NULL));
    return rc;
}

TEST(json_document_follows_paths) {
    cJSON *d;
    EXPECT_EQ(parse("{\"a\": [{\"b\": \"x\"}, {\"b\": 7}], \"A\": \"other\"}", &d), 0);
    EXPECT_STR(json_document_text(d, "a.0.b"), "x");
    EXPECT(json_document_text(d, "a.1.b") == NULL); /* no string */
    EXPECT_EQ(json_document_find(d, "a.1.b")->valueint, 7);
    EXPECT(json_document_find(d, "a.2") == NULL);
    EXPECT(json_document_find(d, "a.b") == NULL);
    EXPECT(json_document_find(d, "a.0.b.c") == NULL);
    EXPECT(json_document_find(d, "b.0") == NULL);
    EXPECT_STR(json_document_text(d, "A"), "other"); /* case counts */
    EXPECT(json_document_find(NULL, "a") == NULL);
    cJSON_Delete(d);
}

TEST(json_document_refuses_what_a_tree_would_hide) {
    cJSON *d;
    EXPECT_EQ(parse("{\"a\": 1, \"a\": 2}", &d), ERR_INVALID);
    EXPECT_EQ(parse("{\"a\": \"x\\u0000y\"}", &d), ERR_UNSUPPORTED);
    EXPECT_EQ(parse("{\"a\": 1} x", &d), ERR_INVALID);
    EXPECT_EQ(parse("", &d), ERR_INVALID);
    struct error err;
    char *long_text = mem_calloc(JSON_DOCUMENT_MAX + 1, 1);
    memset(long_text, ' ', JSON_DOCUMENT_MAX + 1);
    EXPECT_EQ(json_document_parse(bytes_of(long_text, JSON_DOCUMENT_MAX + 1), &d, &err), ERR_LIMIT);
    mem_free(long_text);
}

TEST(json_document_survives_deep_nesting) {
    char text[4096];
    cJSON *d;
    memset(text, '[', 2000);
    memset(text + 2000, ']', 2000);
    text[4000] = 0;
    EXPECT_EQ(parse(text, &d), ERR_LIMIT);
}
