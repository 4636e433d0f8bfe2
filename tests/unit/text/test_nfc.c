/*
 * Where text may not be in NFC, against utf8proc.
 */
#include "text/tokenizer/nfc.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/unicode_form.h"

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

/* A character of UTF-8, as utf8proc itself has it. */
static bool is_as_utf8proc_says(struct bytes s, utf8proc_option_t options) {
    utf8proc_uint8_t *mapped = NULL;
    struct buf out = {0};
    utf8proc_ssize_t n =
        utf8proc_map(s.data, (utf8proc_ssize_t)s.len, &mapped, UTF8PROC_STABLE | options);
    bool same = n >= 0 && unicode_form(s, options, &out) &&
                bytes_equal(buf_bytes(&out), bytes_of(mapped, (size_t)n));
    free(mapped);
    buf_release(&out);
    return same;
}

/* Letters with up to twenty marks in any order, precomposed ones, Hangul, ligatures. */
TEST(forms_are_those_of_utf8proc) {
    static const utf8proc_option_t FORMS[] = {UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE,
                                              UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                              UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    for (int round = 0; round < 4000; round++) {
        uint8_t text[256];
        size_t len = 0;
        for (int i = 0; i < 40; i++) {
            uint64_t r = check_random();
            uint32_t mark =
                r % 8 ? 0x300 + (uint32_t)(r >> 8) % 0x70 : 0xF71 + (uint32_t)(r >> 8) % 16;
            len += utf8_encode(r % 3 ? mark : random_char(), (char *)text + len);
        }
        for (size_t form = 0; form < ARRAY_LEN(FORMS); form++)
            EXPECT(is_as_utf8proc_says(bytes_of(text, len), FORMS[form]));
    }
    struct buf out = {0};
    EXPECT(!unicode_form(bytes_str("a\xFF"), UTF8PROC_COMPOSE, &out) && !out.len);
    EXPECT(unicode_form(bytes_str(""), UTF8PROC_COMPOSE, &out) && !out.len);
    buf_release(&out);
}

/* The marks of a letter in the worst order: they come in the right one, and no step is taken for each
 * pair of them, which would be hours. */
TEST(many_marks_in_the_wrong_order_take_no_quadratic_time) {
    enum { PAIRS = 1 << 19 };
    struct buf text = {0}, out = {0};
    buf_add_byte(&text, 'a');
    for (int i = 0; i < PAIRS; i++)
        buf_add_str(&text, "\xCC\x81\xCC\xA3"); /* above (230), below (220) */
    EXPECT(unicode_form(buf_bytes(&text), UTF8PROC_DECOMPOSE, &out));
    EXPECT_EQ(out.len, text.len);
    for (int i = 0; i < 2 * PAIRS; i++)
        EXPECT((uint8_t)out.data[2 + 2 * i] == (i < PAIRS ? 0xA3 : 0x81));
    buf_release(&text);
    buf_release(&out);
}
