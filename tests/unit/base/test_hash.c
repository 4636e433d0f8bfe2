#include "base/error.h"
#include "base/hash.h"
#include "check.h"

#include <errno.h>

TEST(hasher_equals_one_shot) {
    uint8_t data[5000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)check_random();
    for (int round = 0; round < 50; round++) {
        size_t len = check_random() % sizeof data;
        struct hasher *h = hasher_new();
        for (size_t at = 0; at < len;) {
            size_t want = check_random() % 700, n = MIN(want, len - at);
            hasher_add(h, data + at, n);
            at += n;
        }
        EXPECT(u128_equal(hasher_end(h), hash128(data, len, 0)));
        hasher_free(&h);
        EXPECT(!h);
    }
}

/* XXH3 of the empty input with seed 0, from the xxHash specification's test values. */
TEST(hash_is_xxh3) {
    EXPECT(hash64(NULL, 0, 0) == 0x2d06800538d394c2u);
    struct u128 h = hash128(NULL, 0, 0);
    EXPECT(h.hi == 0x99aa06d3014798d8u && h.lo == 0x6001c324468d497fu);
}

TEST(hash_depends_on_seed_and_key) {
    struct hash_key one, two, again;
    hash_key_init(&one, "one", 3);
    hash_key_init(&two, "two", 3);
    hash_key_init(&again, "one", 3);
    EXPECT(hash64("abc", 3, 1) != hash64("abc", 3, 2));
    EXPECT(!u128_equal(hash128("abc", 3, 1), hash128("abc", 3, 2)));
    for (size_t len = 0; len < 600; len += 7) {
        static const uint8_t zeros[600];
        EXPECT(!u128_equal(hash128_keyed(&one, zeros, len), hash128_keyed(&two, zeros, len)));
        EXPECT(u128_equal(hash128_keyed(&one, zeros, len), hash128_keyed(&again, zeros, len)));
    }
}

/* A stranger cannot tell it, and this process always tells the same. */
TEST(hash_with_the_secret_of_the_process_is_its_own) {
    EXPECT(hash64_secret("abc", 3) == hash64_secret("abc", 3));
    EXPECT(hash64_secret("abc", 3) != hash64_secret("abd", 3));
    EXPECT(hash64_secret("abc", 3) != hash64("abc", 3, 0));
    EXPECT(hash64_secret("", 0) != hash64("", 0, 0));
}

TEST(u128_text_round_trips) {
    for (int i = 0; i < 200; i++) {
        struct u128 v = {.lo = check_random(), .hi = check_random()}, back;
        char text[U128_TEXT_MAX];
        u128_text(v, text);
        EXPECT_EQ(strlen(text), 32);
        EXPECT_EQ(u128_parse(text, &back), 0);
        EXPECT(u128_equal(v, back));
    }
    char text[U128_TEXT_MAX];
    u128_text((struct u128){.lo = 0x2, .hi = 0xab}, text);
    EXPECT_STR(text, "00000000000000ab0000000000000002");
}

TEST(u128_parse_refuses) {
    static const char *const BAD[] = {"",
                                      "0",
                                      "0000000000000000000000000000000",
                                      "000000000000000000000000000000000",
                                      "0000000000000000000000000000000g",
                                      " 0000000000000000000000000000000"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct u128 v;
        EXPECT_EQ(u128_parse(BAD[i], &v), ERR_INVALID);
    }
}

TEST(random_u128_differs) {
    struct u128 a = random_u128(), b = random_u128();
    EXPECT(!u128_equal(a, b) && !u128_is_zero(a) && !u128_is_zero(b));
}

/* What another call left in errno is not taken for an interruption. */
TEST(random_bytes_come_whatever_errno_says) {
    uint8_t out[3] = {0};
    errno = EINTR;
    for (int i = 0; i < 100 && !(out[0] && out[1] && out[2]); i++)
        random_bytes(out, sizeof out);
    EXPECT(out[0] && out[1] && out[2]);
}
