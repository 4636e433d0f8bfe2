#include "base/utf8.h"
#include "base/utf8_block.h"
#include "check.h"

/* Slow and obvious: decodes by the bit patterns, then asks whether the value could have been
 * written shorter. */
static size_t slow_decode(const uint8_t *s, size_t len, uint32_t *cp) {
    static const uint32_t SMALLEST[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = 0;
    if (len == 0)
        return 0;
    if (s[0] < 0x80)
        n = 1;
    else if (s[0] >> 5 == 6)
        n = 2;
    else if (s[0] >> 4 == 14)
        n = 3;
    else if (s[0] >> 3 == 30)
        n = 4;
    if (n == 0 || n > len)
        return 0;
    *cp = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        *cp = *cp * 64 + s[i] % 64;
    }
    if (*cp < SMALLEST[n] || *cp > 0x10ffff || (*cp >= 0xd800 && *cp <= 0xdfff))
        return 0;
    return n;
}

static size_t slow_valid_prefix(const uint8_t *s, size_t len) {
    size_t at = 0, n;
    uint32_t cp;
    while ((n = slow_decode(s + at, len - at, &cp)))
        at += n;
    return at;
}

/* Bytes that reach the corners: ASCII, continuation, every lead and the bounds of second bytes. */
static uint8_t spicy_byte(void) {
    static const uint8_t CORNERS[] = {0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0,
                                      0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                      0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
    uint64_t r = check_random();
    if (r % 4 == 0)
        return (uint8_t)(r >> 8);
    if (r % 4 == 1)
        return (uint8_t)(r >> 8 & 0x7f);
    return CORNERS[(r >> 8) % ARRAY_LEN(CORNERS)];
}

TEST(utf8_agrees_with_the_slow_decoder) {
    for (int round = 0; round < 200000; round++) {
        uint8_t s[24];
        size_t len = check_random() % (sizeof s + 1);
        for (size_t i = 0; i < len; i++)
            s[i] = spicy_byte();
        uint32_t cp = 0, slow_cp = 0;
        size_t n = utf8_decode(s, len, &cp);
        EXPECT_EQ(n, slow_decode(s, len, &slow_cp));
        if (n)
            EXPECT_EQ(cp, slow_cp);
        size_t prefix = slow_valid_prefix(s, len);
        EXPECT_EQ(utf8_valid_prefix(s, len), prefix);
        EXPECT_EQ(utf8_valid(s, len), prefix == len);
    }
}

TEST(utf8_every_code_point_round_trips) {
    for (uint32_t cp = 0; cp < 0x120000; cp++) {
        char text[4];
        uint32_t back = 0;
        size_t n = utf8_encode(cp, text);
        bool good = cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff);
        EXPECT_EQ(n != 0, good);
        if (!n)
            continue;
        EXPECT_EQ(utf8_decode(text, n, &back), n);
        EXPECT_EQ(back, cp);
        for (size_t cut = 1; cut < n; cut++) {
            EXPECT(utf8_is_partial(text, cut));
            EXPECT(!utf8_valid(text, cut));
        }
        EXPECT(!utf8_is_partial(text, n));
    }
}

/* A prefix is partial exactly when some ending makes it a character. */
TEST(utf8_is_partial_means_an_ending_exists) {
    for (uint32_t first = 0; first < 256; first++) {
        for (uint32_t second = 0; second < 256; second++) {
            uint8_t s[4] = {(uint8_t)first, (uint8_t)second, 0x80, 0x80};
            uint32_t cp;
            bool longer = slow_decode(s, 3, &cp) == 3 || slow_decode(s, 4, &cp) == 4;
            EXPECT_EQ(utf8_is_partial(s, 2), longer);
        }
    }
    EXPECT(!utf8_is_partial("", 0));
}

TEST(utf8_fast_path_stops_at_the_right_byte) {
    char text[64];
    for (size_t bad = 0; bad < sizeof text; bad++) {
        memset(text, 'a', sizeof text);
        text[bad] = (char)0xff;
        EXPECT_EQ(utf8_valid_prefix(text, sizeof text), bad);
        EXPECT_EQ(utf8_valid_prefix(text, bad), bad);
    }
}

/* Long texts of good characters with a few bytes of any kind in them: blocks find what is wrong,
 * wherever it stands. */
TEST(utf8_blocks_stop_at_the_right_byte) {
    static const uint32_t LIMITS[] = {0x80, 0x800, 0x10000, 0x110000};
    size_t stopped = 0;
    for (int round = 0; round < 60000; round++) {
        uint8_t s[256];
        size_t len = 0, target = check_random() % 240, limit = check_random() % ARRAY_LEN(LIMITS);
        while (len < target)
            len += utf8_encode((uint32_t)(check_random() % LIMITS[limit]), (char *)s + len);
        size_t bad = len && round % 4 ? 1 + check_random() % 4 : 0;
        for (size_t at = len ? check_random() % len : 0; bad && at < len; bad--, at++)
            s[at] = spicy_byte();
        size_t prefix = slow_valid_prefix(s, len);
        EXPECT_EQ(utf8_valid_prefix(s, len), prefix);
        stopped += prefix < len;
    }
    EXPECT(stopped > 10000);
}

/* A character that is cut off is wrong wherever it stands, also in front of nothing but letters. */
TEST(utf8_blocks_see_what_is_cut_off_in_front_of_letters) {
    enum { LEN = 200 };
    static const char *const CUT[] = {"\xc3",     "\xe2", "\xe2\x82",
                                      "\xf0\x9f", "\xf0", "\xf0\x9f\x8c"};
    uint8_t s[LEN];
    for (size_t i = 0; i < ARRAY_LEN(CUT); i++)
        for (size_t at = 0; at + 4 <= LEN; at++) {
            size_t n = strlen(CUT[i]);
            memset(s, 'a', sizeof s);
            memcpy(s + at, CUT[i], n);
            EXPECT_EQ(utf8_valid_prefix(s, sizeof s), at);
            EXPECT_EQ(utf8_valid_prefix(s, at + n), at);
        }
}

/* What blocks do not pass over is looked at byte by byte: right as well, but slow. */
TEST(utf8_blocks_pass_over_characters_of_every_length) {
    enum { BEFORE = 8, LEN = 240 }; /* a multiple of 2, 3 and 4 */
    static const char *const CHARACTERS[] = {"a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x8c\x8d"};
    uint8_t s[BEFORE + LEN + 1];
    size_t passed[ARRAY_LEN(CHARACTERS)];
    for (size_t i = 0; i < ARRAY_LEN(CHARACTERS); i++) {
        size_t step = strlen(CHARACTERS[i]);
        memset(s, 'a', BEFORE);
        for (size_t at = 0; at < LEN; at += step)
            memcpy(s + BEFORE + at, CHARACTERS[i], step);
        passed[i] = utf8_skip_blocks(s, BEFORE, BEFORE + LEN);
        EXPECT(passed[i] + 4 >= passed[0]); /* none at all on some machines */
    }
}
