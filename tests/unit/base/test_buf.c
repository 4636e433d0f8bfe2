#include "base/buf.h"
#include "check.h"

#include <stdio.h>

TEST(buf_is_always_terminated) {
    struct buf b;
    buf_init(&b, 0);
    EXPECT_STR(buf_text(&b), "");
    for (int i = 0; i < 1000; i++) {
        buf_add_byte(&b, (char)('a' + i % 26));
        EXPECT_EQ(b.len, i + 1);
        EXPECT_EQ(b.data[b.len], 0);
    }
    buf_reset(&b);
    EXPECT_STR(buf_text(&b), "");
    buf_release(&b);
}

TEST(buf_limit_fails_and_keeps_what_was_there) {
    struct buf b;
    buf_init(&b, 10);
    buf_add_str(&b, "0123456789");
    EXPECT(!b.failed);
    buf_add_byte(&b, 'x');
    EXPECT(b.failed);
    EXPECT_STR(buf_text(&b), "0123456789");
    buf_consume(&b, 5);
    buf_add_byte(&b, 'x'); /* stays failed until it is reset */
    EXPECT_STR(buf_text(&b), "56789");
    buf_reset(&b);
    buf_addf(&b, "%s", "12345678901");
    EXPECT(b.failed);
    buf_release(&b);
}

TEST(buf_addf_takes_long_texts) {
    struct buf b;
    char big[5000];
    memset(big, 'z', sizeof big);
    big[sizeof big - 1] = 0;
    buf_init(&b, 0);
    buf_addf(&b, "[%s]%d", big, 7);
    EXPECT_EQ(b.len, sizeof big - 1 + 3);
    EXPECT_STR(b.data + b.len - 3, "z]7");
    buf_release(&b);
}

TEST(buf_add_u64_writes_what_printf_writes) {
    struct buf b;
    buf_init(&b, 0);
    for (int i = 0; i < 1000; i++) {
        char want[32];
        uint64_t v = i < 2 ? (uint64_t)-i : check_random() >> (check_random() % 64);
        snprintf(want, sizeof want, "%" PRIu64, v);
        buf_reset(&b);
        buf_add_u64(&b, v);
        EXPECT_STR(buf_text(&b), want);
    }
    buf_release(&b);
}

TEST(buf_add_json_escapes) {
    struct buf b;
    buf_init(&b, 0);
    buf_add_json(&b, bytes_of("a\"b\\c\n\t\r\b\f\x01\x1f\x7f\0/\xc3\xa9", 17));
    EXPECT_STR(buf_text(&b), "a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\x7f\\u0000/\xc3\xa9");
    buf_release(&b);
}

/* Against a plain array under random appends and consumes. */
TEST(buf_equals_a_plain_array) {
    enum { MAX_LEN = 8192 };
    static uint8_t shadow[MAX_LEN];
    size_t len = 0;
    struct buf b;
    buf_init(&b, MAX_LEN);
    for (int i = 0; i < 20000; i++) {
        uint8_t piece[300];
        size_t n = check_random() % sizeof piece;
        if (check_random() % 3) {
            for (size_t j = 0; j < n; j++)
                piece[j] = (uint8_t)check_random();
            bool fits = len + n <= MAX_LEN;
            buf_add(&b, piece, n);
            EXPECT_EQ(b.failed, !fits);
            if (fits)
                memcpy(shadow + len, piece, n);
            if (fits)
                len += n;
            b.failed = false;
        } else {
            n = MIN(n, len);
            buf_consume(&b, n);
            memmove(shadow, shadow + n, len - n);
            len -= n;
        }
        EXPECT_EQ(b.len, len);
        EXPECT(bytes_equal(buf_bytes(&b), bytes_of(shadow, len)));
    }
    buf_release(&b);
}
