#include "text/template/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "check.h"
#include "text/template/value_data.h"

static const char *float_text(double v) {
    static struct buf out;
    buf_reset(&out);
    tvalue_format_float(v, &out);
    return buf_text(&out);
}

TEST(floats_are_written_as_python_does) {
    static const struct {
        double v;
        const char *want;
    } CASES[] = {{0, "0.0"},
                 {-0.0, "-0.0"},
                 {1, "1.0"},
                 {0.1, "0.1"},
                 {1e15, "1000000000000000.0"},
                 {1e16, "1e+16"},
                 {1.5e300, "1.5e+300"},
                 {0.0001, "0.0001"},
                 {0.00001, "1e-05"},
                 {123456789.125, "123456789.125"},
                 {1.0 / 3, "0.3333333333333333"},
                 {5e-324, "5e-324"},
                 {1e22, "1e+22"},
                 {100, "100.0"},
                 {-2.5, "-2.5"},
                 {12345678901234567.0, "1.2345678901234568e+16"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        EXPECT_STR(float_text(CASES[i].v), CASES[i].want);
    EXPECT_STR(float_text(INFINITY), "inf");
    EXPECT_STR(float_text(NAN), "nan");
}

TEST(floats_read_back) {
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = check_random();
        double v;
        memcpy(&v, &bits, sizeof v);
        if (isfinite(v))
            EXPECT(strtod(float_text(v), NULL) == v);
    }
}

TEST(json_keeps_order_types_and_text) {
    static const char JSON[] =
        "{\"b\": [1, 2.0, -3, 1e3, true, false, null], \"a\": {\"\xC3\xA9\\n\\u0041\": \"x\"}, "
        "\"b2\": 9223372036854775807, \"f\": 9223372036854775808}";
    struct arena a;
    struct tvalue v;
    struct buf out = {0};
    arena_init(&a, 1 << 20, 0);
    EXPECT_EQ(tvalue_from_json(&a, bytes_str(JSON), &v, NULL), 0);
    tvalue_to_json(v, &out);
    EXPECT_STR(buf_text(&out),
               "{\"b\": [1, 2.0, -3, 1000.0, true, false, null], \"a\": {\"\xC3\xA9\\nA\": \"x\"}, "
               "\"b2\": 9223372036854775807, \"f\": 9223372036854775808}");
    buf_release(&out);
    arena_release(&a);
}

TEST(json_is_bounded) {
    struct arena a;
    struct tvalue v;
    struct error err;
    struct buf deep = {0};
    arena_init(&a, 4096, 0);
    for (int i = 0; i < 100000; i++)
        buf_add_byte(&deep, '[');
    EXPECT(tvalue_from_json(&a, buf_bytes(&deep), &v, &err) < 0);
    buf_reset(&deep);
    buf_add_byte(&deep, '[');
    for (int i = 0; i < 5000; i++)
        buf_add_str(&deep, "\"abc\",");
    buf_add_str(&deep, "1]");
    EXPECT_EQ(tvalue_from_json(&a, buf_bytes(&deep), &v, &err), ERR_LIMIT);
    arena_release(&a);
    buf_release(&deep);
}

/* 0 and 1 are booleans too; the others end in the same bits. */
static int64_t wide(int k) {
    return k < 2 ? k : (int64_t)k << 32 | 1;
}

/* A dict against a plain array, with keys that are equal across types. */
TEST(dicts_hold_what_was_set) {
    struct arena a;
    arena_init(&a, 0, 0);
    for (int round = 0; round < 50; round++) {
        struct tvalue dict = tvalue_dict(&a);
        int64_t shadow[40];
        for (int i = 0; i < 40; i++)
            shadow[i] = -1;
        size_t present = 0;
        for (int step = 0; step < 100; step++) {
            int k = (int)(check_random() % 40);
            struct tvalue key = tvalue_int(wide(k));
            if (check_random() % 3 == 0)
                key = tvalue_float((double)wide(k));
            if (k < 2 && check_random() % 2)
                key = tvalue_bool(k);
            EXPECT(tdict_set(&a, dict.dict, key, tvalue_int(step)));
            present += shadow[k] < 0;
            shadow[k] = step;
        }
        EXPECT_EQ(tvalue_count(dict), present);
        for (int k = 0; k < 40; k++) {
            const struct tvalue *found = tdict_find(dict.dict, tvalue_int(wide(k)));
            EXPECT((found != NULL) == (shadow[k] >= 0));
            if (found)
                EXPECT_EQ(found->integer, shadow[k]);
        }
    }
    arena_release(&a);
}

/* Keys that meet in one place of a table whose hash everybody knows: a client could send a hundred thousand
 * of them. Here they are as far apart as others. */
TEST(dicts_cannot_be_filled_with_keys_that_collide) {
    enum { KEYS = 64, MASK = 0xfff };
    uint32_t places[KEYS], same = 0;
    uint64_t drawn = 0;
    for (int i = 0; i < KEYS; i++) {
        char key[24];
        size_t len;
        do
            len = (size_t)snprintf(key, sizeof key, "%llx", (unsigned long long)drawn++);
        while (hash64(key, len, 0) & MASK);
        places[i] = (uint32_t)tdict_hash(tvalue_string(bytes_of(key, len))) & MASK;
        for (int k = 0; k < i; k++)
            same += places[k] == places[i];
    }
    EXPECT(same < KEYS / 4); /* half a pair of 64 in 4096 places meets by chance */
}
