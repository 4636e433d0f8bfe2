/*
 * test_json_values.c - numbers, reader and writer.
 */
#include "check.h"

#include "formats/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- numbers ---- */

TEST(json_integers_are_exact) {
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"7", true, 7},
        {"7.0", true, 7},
        {"70e-1", true, 7},
        {"0.7e1", true, 7},
        {"7.5", false, 0},
        {"1e3", true, 1000},
        {"1E+3", true, 1000},
        {"123.456e3", true, 123456},
        {"123.4567e3", false, 0},
        {"9007199254740993", true, 9007199254740993},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775809", false, 0},
        {"922337203685477580700e-2", true, INT64_MAX},
        {"1e18", true, 1000000000000000000},
        {"1e19", false, 0},
        {"1e999999999999", false, 0},
        {"0e999999999999", true, 0},
        {"1e-999999999999", false, 0},
        {"0.0000e5", true, 0},
        {"1000000000000000000000e-20", true, 10},
        {"", false, 0},
        {"-", false, 0},
        {"--1", false, 0},
        {"1x", false, 0},
        {"1e", false, 0},
        {"1.2.3", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t v = 0;
        bool ok = json_number_int64(bytes_str(cases[i].text), &v);
        if (ok != cases[i].ok || (ok && v != cases[i].value))
            check_fail(__FILE__, __LINE__, "%s: %d %lld", cases[i].text, ok, (long long)v);
    }
    uint64_t u;
    EXPECT(json_number_uint64(bytes_str("18446744073709551615"), &u) && u == UINT64_MAX);
    EXPECT(json_number_uint64(bytes_str("18446744073709551615.000"), &u) && u == UINT64_MAX);
    EXPECT(!json_number_uint64(bytes_str("18446744073709551616"), &u));
    EXPECT(!json_number_uint64(bytes_str("-1"), &u));
    EXPECT(json_number_uint64(bytes_str("-0"), &u) && u == 0);
}

static void number_text(int i, char *text, size_t size) {
    static const char *const fixed[] = {
        "0",
        "-0.0",
        "1.7976931348623157e308",
        "5e-324",
        "2.2250738585072014e-308",
        "0.1",
        "1e22",
        "1e23",
        "1e-400",
        "1e-22",
        "123456789012345678901234567890",
        "8.5e22",
        "3.14159265358979323846",
        "1e-23",
    };
    if (i < (int)ARRAY_LEN(fixed))
        snprintf(text, size, "%s", fixed[i]);
    else if (i % 2) {
        int digits = (int)(1 + check_random() % 17);
        snprintf(text, size, "%.*g", digits, (double)(int64_t)check_random() / 1e9);
    } else {
        unsigned whole = (unsigned)(check_random() % 1000),
                 part = (unsigned)(check_random() % 1000000);
        snprintf(text, size, "%u.%ue%d", whole, part, (int)(check_random() % 600) - 300);
    }
}

TEST(json_doubles_equal_strtod) {
    char text[64];
    for (int i = 0; i < 20000; i++) {
        double got, want;
        number_text(i, text, sizeof text);
        want = strtod(text, NULL);
        EXPECT(json_number_double(bytes_str(text), &got));
        if (memcmp(&got, &want, sizeof got))
            check_fail(__FILE__, __LINE__, "%s: %.17g, expected %.17g", text, got, want);
    }
    double v;
    EXPECT(!json_number_double(bytes_str("1e400"), &v));
    EXPECT(!json_number_double(bytes_str("nan"), &v));
    EXPECT(!json_number_double(bytes_str("inf"), &v));
    EXPECT(!json_number_double(bytes_str("0x10"), &v));
    EXPECT(!json_number_double(bytes_str(""), &v));
}

/* ---- reader ---- */

TEST(json_reader_events) {
    static const char text[] = " {\"a\\n\": [1, \"x\"], \"b\":{}, \"c\":null} ";
    static const struct {
        enum json_event event;
        const char *text, *raw;
        uint32_t depth;
    } want[] = {
        {JSON_OBJECT_BEGIN, NULL, "{", 1}, {JSON_KEY, "a\n", "\"a\\n\"", 1},
        {JSON_ARRAY_BEGIN, NULL, "[", 2},  {JSON_NUMBER, "1", "1", 2},
        {JSON_STRING, "x", "\"x\"", 2},    {JSON_ARRAY_END, NULL, "]", 1},
        {JSON_KEY, "b", "\"b\"", 1},       {JSON_OBJECT_BEGIN, NULL, "{", 2},
        {JSON_OBJECT_END, NULL, "}", 1},   {JSON_KEY, "c", "\"c\"", 1},
        {JSON_NULL, NULL, "null", 1},      {JSON_OBJECT_END, NULL, "}", 0},
        {JSON_END, NULL, "", 0},
    };
    struct json_reader r;
    json_reader_init(&r, bytes_str(text), 0, 0);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        EXPECT_EQ(json_next(&r), want[i].event);
        if (want[i].text)
            EXPECT(bytes_equal(r.text, bytes_str(want[i].text)));
        EXPECT(bytes_equal(r.raw, bytes_str(want[i].raw)));
        EXPECT(memcmp(text + r.offset, want[i].raw, strlen(want[i].raw)) == 0);
        EXPECT_EQ(r.depth, want[i].depth);
    }
    json_reader_release(&r);
}

TEST(json_reader_skips) {
    struct json_reader r;
    int64_t v;
    json_reader_init(
        &r, bytes_str("{\"a\":{\"x\":[1,{\"y\":[]}]},\"b\":\"s\",\"c\":[[[]],2],\"d\":7}"), 0, 0);
    EXPECT(json_expect(&r, JSON_OBJECT_BEGIN));
    for (int i = 0; i < 3; i++) {
        EXPECT(json_expect(&r, JSON_KEY));
        EXPECT(json_skip(&r));
    }
    EXPECT(json_expect(&r, JSON_KEY));
    EXPECT(bytes_equal(r.text, bytes_str("d")));
    EXPECT(json_read_int64(&r, &v) && v == 7);
    EXPECT(json_expect(&r, JSON_OBJECT_END));
    EXPECT(json_expect(&r, JSON_END));
    json_reader_release(&r);
    json_reader_init(&r, bytes_str("[[1,[2]],3]"), 0, 0);
    EXPECT(json_expect(&r, JSON_ARRAY_BEGIN));
    EXPECT(json_expect(&r, JSON_ARRAY_BEGIN));
    EXPECT(json_skip(&r));
    EXPECT(json_read_int64(&r, &v) && v == 3);
    EXPECT(json_skip(&r));
    EXPECT(json_expect(&r, JSON_ARRAY_END));
    json_reader_release(&r);
    json_reader_init(&r, bytes_str("{\"a\":[1,2"), 0, 0);
    EXPECT(json_expect(&r, JSON_OBJECT_BEGIN));
    EXPECT(json_expect(&r, JSON_KEY));
    EXPECT(!json_skip(&r));
    json_reader_release(&r);
}

TEST(json_take_gives_what_was_written) {
    struct json_reader r;
    struct bytes first = {0}, list = {0}, none = {0}, absent = {0};
    const struct json_wanted members[] = {
        {"a", &first}, {"b", &list}, {"none", &none}, {"absent", &absent}};
    json_reader_init(
        &r, bytes_str("[{\"x\":{},\"b\": [1, {\"a\":2}] ,\"none\":null,\"\\u0061\":\"\\n\"},3]"), 0,
        0);
    EXPECT(json_expect(&r, JSON_ARRAY_BEGIN));
    EXPECT(json_expect(&r, JSON_OBJECT_BEGIN));
    EXPECT(json_take_members(&r, members, ARRAY_LEN(members)));
    EXPECT(bytes_equal(first, bytes_str("\"\\n\"")));
    EXPECT(bytes_equal(list, bytes_str("[1, {\"a\":2}]")));
    EXPECT(!none.len && !absent.len);
    EXPECT(json_next(&r) == JSON_NUMBER && json_take(&r, &first));
    EXPECT(bytes_equal(first, bytes_str("3")));
    EXPECT(json_expect(&r, JSON_ARRAY_END));
    json_reader_release(&r);
    json_reader_init(&r, bytes_str("{\"a\":1,\"b\":[}"), 0, 0);
    EXPECT(json_expect(&r, JSON_OBJECT_BEGIN));
    EXPECT(!json_take_members(&r, members, ARRAY_LEN(members)));
    json_reader_release(&r);
}

TEST(json_reader_errors_stay) {
    struct json_reader r;
    struct bytes s;
    json_reader_init(&r, bytes_str("[1, true]"), 0, 0);
    EXPECT(json_expect(&r, JSON_ARRAY_BEGIN));
    EXPECT(!json_read_string(&r, &s));
    EXPECT_STR(r.error.text, "expected a string at byte 1");
    EXPECT_EQ(json_next(&r), JSON_ERROR);
    EXPECT(!json_fail(&r, "another"));
    EXPECT_STR(r.error.text, "expected a string at byte 1");
    json_reader_release(&r);
    json_reader_init(&r, bytes_str("1.5"), 0, 0);
    int64_t v;
    EXPECT(!json_read_int64(&r, &v));
    EXPECT_STR(r.error.text, "expected an integer of 64 bits at byte 0");
    json_reader_release(&r);
}

TEST(json_reader_reads_values) {
    struct json_reader r;
    double d;
    bool b;
    struct bytes s;
    json_reader_init(&r, bytes_str("[2.5,true,false,\"x\\ty\",null]"), 0, 0);
    EXPECT(json_expect(&r, JSON_ARRAY_BEGIN));
    EXPECT(json_read_double(&r, &d) && d == 2.5);
    EXPECT(json_read_bool(&r, &b) && b);
    EXPECT(json_read_bool(&r, &b) && !b);
    EXPECT(json_read_string(&r, &s) && bytes_equal(s, bytes_str("x\ty")));
    EXPECT(!json_read_bool(&r, &b));
    EXPECT_STR(r.error.text, "expected true or false at byte 23");
    json_reader_release(&r);
}

TEST(json_reader_may_allow_zero_bytes) {
    struct json_reader r;
    json_reader_init(&r, bytes_str("\"a\\u0000b\""), 0, JSON_ALLOW_NUL);
    EXPECT_EQ(json_next(&r), JSON_STRING);
    EXPECT(bytes_equal(r.text, bytes_of("a\0b", 3)));
    json_reader_release(&r);
}

/* ---- writer ---- */

TEST(json_writer_writes) {
    struct buf out;
    struct json_writer w;
    buf_init(&out, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, "a\"b");
    json_begin_array(&w);
    json_int(&w, INT64_MIN);
    json_uint(&w, UINT64_MAX);
    json_double(&w, 0.1);
    json_double(&w, 1.0 / 3);
    json_double(&w, 1e300);
    json_double(&w, NAN);
    json_double(&w, -INFINITY);
    json_bool(&w, true);
    json_bool(&w, false);
    json_null(&w);
    json_string(&w, NULL);
    json_string(&w, "x\ny\x01\xc3\xa9");
    json_begin_object(&w);
    json_end_object(&w);
    json_begin_array(&w);
    json_end_array(&w);
    json_end_array(&w);
    json_key_bytes(&w, bytes_of("key", 1));
    json_raw(&w, bytes_str("[1]"));
    json_key(&w, "n");
    json_int(&w, 0);
    json_end_object(&w);
    EXPECT_STR(buf_text(&out),
               "{\"a\\\"b\":[-9223372036854775808,18446744073709551615,0.1,0.3333333333333333,1e+"
               "300,null,null,"
               "true,false,null,null,\"x\\ny\\u0001\xc3\xa9\",{},[]],\"k\":[1],\"n\":0}");
    struct error err;
    EXPECT_EQ(json_scan(buf_bytes(&out), 0, &err), 0);
    buf_release(&out);
}

TEST(json_doubles_round_trip) {
    struct buf out;
    struct json_writer w;
    buf_init(&out, 0);
    for (int i = 0; i < 20000; i++) {
        union {
            uint64_t bits;
            double value;
        } in = {.bits = check_random()};
        double back;
        if (!isfinite(in.value))
            continue;
        buf_reset(&out);
        json_writer_init(&w, &out);
        json_double(&w, in.value);
        EXPECT(json_number_double(buf_bytes(&out), &back));
        EXPECT(back == in.value);
    }
    buf_release(&out);
}
