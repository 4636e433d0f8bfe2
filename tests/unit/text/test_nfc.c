/*
 * Where text may not be in NFC, against utf8proc.
 */
#include "text/tokenizer/nfc.h"
#include "text/tokenizer/normalize.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "check.h"
#include "text/unicode.h"

static bool is_composed(const uint8_t *text, size_t len) {
    utf8proc_uint8_t *mapped = NULL;
    utf8proc_ssize_t n =
        utf8proc_map(text, (utf8proc_ssize_t)len, &mapped, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    bool same = n == (utf8proc_ssize_t)len && !memcmp(mapped, text, len);
    free(mapped);
    return same;
}

/* One that may turn up in text; of those that UTF-8 has. */
static uint32_t random_char(void) {
    static const uint32_t LOW[] = {0x20,   0xA0,   0x300,  0x370,  0x400,  0x900, 0x1100,
                                   0x1E00, 0x2000, 0x3000, 0x3040, 0xAC00, 0xF900};
    uint64_t r = check_random();
    uint32_t cp = r % 3 ? LOW[r / 3 % ARRAY_LEN(LOW)] + (uint32_t)(r >> 32) % 256
                        : (uint32_t)(r >> 32) % 0x30000;
    return cp >= 0xD800 && cp < 0xE000 ? 'x' : cp;
}

TEST(text_of_stable_characters_is_its_own_nfc) {
    nfc_init();
    size_t stable = 0;
    for (int round = 0; round < 20000; round++) {
        uint8_t text[80];
        size_t len = 0;
        while (len < 40) {
            uint32_t cp = random_char();
            if (nfc_is_stable(cp))
                len += utf8_encode(cp, (char *)text + len);
        }
        EXPECT(is_composed(text, len));
        stable += nfc_skip_stable(bytes_of(text, len), 0) == len;
    }
    EXPECT_EQ(stable, 20000u);
}

/* Blocks, their ends and what is behind them: each is as the table has it. Once most of the text is
 * behind the character, so that blocks pass over it, whatever the seed; once its end is near. */
TEST(the_first_character_that_is_not_stable_is_found_anywhere) {
    nfc_init();
    size_t found = 0;
    for (uint32_t n = 2 * 0x80; n < 2 * 0x20000; n++) {
        uint32_t cp = n / 2;
        uint8_t text[320];
        size_t len = 0, at = check_random() % 150, tail = check_random() % 80 + (n % 2 ? 70 : 0);
        static const char *const FILL[] = {
            "a", "\xC3\xA9", "\xE3\x81\x8B", "\xE4\xB8\xAD", "\xE2\x80\x99", "\xD0\xB9"};
        if (cp >= 0xD800 && cp < 0xE000)
            continue;
        const char *fill = FILL[check_random() % ARRAY_LEN(FILL)];
        for (; len < at; len += strlen(fill))
            memcpy(text + len, fill, strlen(fill));
        at = len;
        len += utf8_encode(cp, (char *)text + len);
        for (size_t end = len + tail; len < end; len += strlen(fill))
            memcpy(text + len, fill, strlen(fill));
        size_t want = nfc_is_stable(cp) ? len : at;
        EXPECT_EQ(nfc_skip_stable(bytes_of(text, len), 0), want);
        found += want == at;
    }
    EXPECT(found > 1000);
}

/* Nothing that NFC changes is called stable, alone or behind another. */
TEST(what_nfc_changes_is_not_stable) {
    nfc_init();
    for (int round = 0; round < 200000; round++) {
        uint8_t text[8];
        uint32_t a = random_char(), b = random_char();
        size_t first = utf8_encode(a, (char *)text),
               len = first + utf8_encode(b, (char *)text + first);
        if (!is_composed(text, len))
            EXPECT(!nfc_is_stable(a) || !nfc_is_stable(b));
        if (is_composed(text, first) && !is_composed(text, len))
            EXPECT(!nfc_is_stable(b));
    }
}

/* Marks that are younger than the tables of those who made tokenizers: they stay where they are. */
TEST(young_marks_are_no_more_and_no_fewer) {
    static const struct {
        uint32_t first, last;
    } SOME[] = {{0x7FD, 0x7FD},     {0x897, 0x89F},     {0x1ABF, 0x1ACE},   {0xA82C, 0xA82C},
                {0x10D24, 0x10D27}, {0x11D44, 0x11D45}, {0x16FF0, 0x16FF1}, {0x1E5EE, 0x1E5EF}};
    uint32_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(SOME); i++) {
        EXPECT(normalizer_is_young_mark(SOME[i].first) && normalizer_is_young_mark(SOME[i].last));
        EXPECT(!normalizer_is_young_mark(SOME[i].first - 1));
        EXPECT(!normalizer_is_young_mark(SOME[i].last + 1));
    }
    for (uint32_t cp = 0; cp < 0x110000; cp++)
        count += normalizer_is_young_mark(cp);
    EXPECT_EQ(count, 123);
    EXPECT(!normalizer_is_young_mark(0x301) && !normalizer_is_young_mark(0x323));
}
