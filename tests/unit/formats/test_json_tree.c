/*
 * test_json_tree.c - small documents as trees.
 */
#include "check.h"

#include "formats/json.h"
#include "formats/json_tree.h"

#include <stdlib.h>

static struct json_value parse(struct arena *a, const char *text) {
    struct json_value v;
    arena_init(a, 0, 0);
    CHECK(json_parse(a, bytes_str(text), &v, NULL) == 0);
    return v;
}

TEST(json_tree_has_each_kind) {
    struct arena a;
    struct json_value v = parse(
        &a, "{\"n\":null,\"t\":true,\"f\":false,\"i\":-7,\"d\":7.0,\"e\":1e2,\"s\":\"x\\u0000y\","
            "\"a\":[1,[],{}],\"o\":{\"k\":\"v\"},\"big\":9223372036854775808}");
    EXPECT(v.kind == JSON_IS_OBJECT && json_count(v) == 10);
    EXPECT(json_get(v, "n").kind == JSON_IS_NULL);
    EXPECT(json_get_bool(v, "t", false) && !json_get_bool(v, "f", true));
    EXPECT(json_get_bool(v, "i", true) && !json_get_bool(v, "none", false));
    EXPECT(json_get(v, "i").kind == JSON_IS_INT && json_get(v, "i").integer == -7);
    EXPECT(json_get(v, "d").kind == JSON_IS_DOUBLE && json_get(v, "e").number == 100);
    EXPECT(json_get(v, "big").kind == JSON_IS_DOUBLE &&
           json_get(v, "big").number == 9223372036854775808.0);
    EXPECT(bytes_equal(json_text(json_get(v, "s")), bytes_of("x\0y", 3)));
    struct json_value list = json_get(v, "a");
    EXPECT(json_count(list) == 3 && json_at(list, 0).integer == 1);
    EXPECT(json_at(list, 1).kind == JSON_IS_ARRAY && json_count(json_at(list, 1)) == 0);
    EXPECT(json_at(list, 2).kind == JSON_IS_OBJECT && json_count(json_at(list, 2)) == 0);
    EXPECT(json_is(json_get(json_get(v, "o"), "k"), "v"));
    EXPECT(json_at(v, 0).kind == JSON_IS_ABSENT); /* an object has no places */
    arena_release(&a);
}

TEST(json_tree_absent_values_chain) {
    struct arena a;
    struct json_value v = parse(&a, "[\"text\", 3]"), none = json_get(json_at(v, 5), "a");
    EXPECT(none.kind == JSON_IS_ABSENT && json_get(v, "text").kind == JSON_IS_ABSENT);
    EXPECT(json_at(none, 0).kind == JSON_IS_ABSENT && json_count(none) == 0);
    EXPECT(json_text(none).len == 0 && json_text(json_at(v, 1)).len == 0);
    EXPECT(!json_is(none, "") && json_count(json_at(v, 0)) == 0);
    arena_release(&a);
}

/* Behind each of these lists lies another's item. */
TEST(json_tree_lists_end_where_they_end) {
    struct arena a;
    static const size_t COUNTS[] = {2, 1, 3, 4, 8, 16, 1};
    struct json_value v =
        parse(&a, "[[1,2],[3],[4,5,6],[1,2,3,4],[1,2,3,4,5,6,7,8],[1,2,3,4,5,6,7,8,"
                  "9,10,11,12,13,14,15,16],[\"x\"],{\"a\":7}]");
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
        struct json_value list = json_at(v, i);
        EXPECT_EQ(json_count(list), COUNTS[i]);
        EXPECT(json_at(list, json_count(list) - 1).kind != JSON_IS_ABSENT);
        EXPECT(json_at(list, json_count(list)).kind == JSON_IS_ABSENT);
    }
    EXPECT(json_at(v, 8).kind == JSON_IS_ABSENT);
    arena_release(&a);
}

TEST(json_tree_last_of_equal_keys_counts_at_the_first_place) {
    struct arena a;
    struct json_value v = parse(&a, "{\"a\":1,\"b\":2,\"\\u0061\":3,\"c\":4,\"a\":5}");
    EXPECT(json_count(v) == 3 && json_get(v, "a").integer == 5);
    EXPECT(bytes_equal(v.members[0].key, bytes_str("a")) && v.members[0].value.integer == 5);
    EXPECT(bytes_equal(v.members[1].key, bytes_str("b")));
    EXPECT(bytes_equal(v.members[2].key, bytes_str("c")));
    arena_release(&a);
}

/* Quadratic time would show. */
TEST(json_tree_many_keys) {
    enum { COUNT = 100000 };
    struct buf text = {0};
    struct arena a;
    buf_add_byte(&text, '{');
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < COUNT; i++)
            buf_addf(&text, "%s\"k%d\":%d", text.len > 1 ? "," : "", i, round * COUNT + i);
    buf_add_byte(&text, '}');
    struct json_value v = parse(&a, buf_text(&text));
    EXPECT(json_count(v) == COUNT);
    bool same = true;
    for (int i = 0; i < COUNT; i++)
        same &= v.members[i].value.integer == COUNT + i;
    EXPECT(same);
    arena_release(&a);
    buf_release(&text);
}

static int parse_code(const char *text, size_t budget) {
    struct arena a;
    struct json_value v;
    struct error err;
    arena_init(&a, budget, 0);
    int rc = json_parse(&a, bytes_str(text), &v, &err);
    CHECK(!rc || (v.kind == JSON_IS_ABSENT && err.text[0]));
    arena_release(&a);
    return rc;
}

TEST(json_tree_refuses) {
    struct buf deep = {0};
    for (int i = 0; i < JSON_DEPTH_DEFAULT; i++)
        buf_add_byte(&deep, '[');
    for (int i = 0; i < JSON_DEPTH_DEFAULT; i++)
        buf_add_byte(&deep, ']');
    EXPECT(parse_code(buf_text(&deep), 0) == 0);
    EXPECT(parse_code("", 0) == ERR_INVALID);
    EXPECT(parse_code("{\"a\":1,}", 0) == ERR_INVALID);
    EXPECT(parse_code("[1] 2", 0) == ERR_INVALID);
    EXPECT(parse_code("1e999", 0) == ERR_INVALID);
    EXPECT(parse_code("\"\xff\"", 0) == ERR_INVALID);
    buf_reset(&deep);
    for (int i = 0; i <= JSON_DEPTH_DEFAULT; i++)
        buf_add_byte(&deep, '[');
    EXPECT(parse_code(buf_text(&deep), 0) == ERR_LIMIT);
    EXPECT(parse_code("[\"0123456789012345678901234567890123456789\",1,2,3,4,5,6,7,8]", 64) ==
           ERR_LIMIT);
    buf_release(&deep);
}
