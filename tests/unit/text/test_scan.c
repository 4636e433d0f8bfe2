/*
 * The hand-written scanners against the regular expressions they stand for, on random text made of
 * what such patterns look at.
 */
#include "text/tokenizer/fast/scan.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "check.h"
#include "golden.h"
#include "text/tokenizer/split.h"
#include "text/unicode.h"

static const uint32_t CHARS[] = {
    'a',    'B',  's',    'S',     't',    'T',   'l',    'L',    'e',    'r',     'v',
    'm',    'd',  '\'',   '\'',    ' ',    ' ',   '\t',   '\n',   '\r',   '0',     '7',
    '!',    '.',  '_',    '/',     0xA0,   0x85,  0x2028, 0x3000, 0x17F,  0x301,   0x300,
    0x660,  0xBD, 0x4E2D, 0x416,   0x436,  0x1C5, 0x2B0,  0x5D0,  0x20AC, 0x1F642, 0x200D,
    0xFE0F, 0x00, 0x7F,   0x1D400, 0x200B, 0x903, 0x16EE};

/* Characters whose class is the same in Unicode 16 and in the older tables of PCRE2. */
static uint32_t random_char(void) {
    if (check_random() % 4)
        return CHARS[check_random() % (sizeof CHARS / sizeof *CHARS)];
    static const uint32_t BLOCKS[][2] = {{0, 0x2FF},       {0x370, 0x556},   {0x900, 0x97F},
                                         {0x1E00, 0x20BF}, {0x2100, 0x23FF}, {0x3041, 0x3096},
                                         {0x4E00, 0x9FD5}, {0xAC00, 0xD7A3}};
    const uint32_t *block = BLOCKS[check_random() % (sizeof BLOCKS / sizeof *BLOCKS)];
    return block[0] + (uint32_t)(check_random() % (block[1] - block[0] + 1));
}

static size_t random_text(uint8_t *text, size_t max) {
    size_t len = 0, chars = check_random() % 24;
    for (size_t i = 0; i < chars; i++) {
        uint32_t cp = random_char();
        size_t times = check_random() % 8 ? 1 : 1 + check_random() % 5;
        for (size_t k = 0; k < times && len + 4 < max; k++)
            len += utf8_encode(cp, (char *)text + len);
    }
    return len;
}

static bool same_pieces(pcre2_code *code, pcre2_match_data *match, scan_fn *scan,
                        const uint8_t *text, size_t len) {
    for (size_t at = 0; at < len;) {
        size_t got = scan(text + at, text + len);
        int rc = pcre2_match(code, text, len, at, PCRE2_ANCHORED, match, NULL);
        size_t want = rc > 0 ? pcre2_get_ovector_pointer(match)[1] - at : 0;
        if (got != want) {
            fprintf(stderr, "at byte %zu: scanned %zu bytes, the pattern takes %zu; text:", at, got,
                    want);
            for (size_t i = 0; i < len; i++)
                fprintf(stderr, " %02x", text[i]);
            fprintf(stderr, "\n");
            return false;
        }
        at += got;
    }
    return true;
}

TEST(scanners_equal_their_patterns) {
    unicode_init();
    for (size_t i = 0; scan_pattern(i); i++) {
        const char *pattern = scan_pattern(i);
        scan_fn *scan = scan_find(bytes_str(pattern));
        int error;
        PCRE2_SIZE at;
        if (!scan)
            continue;
        pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
        EXPECT(code);
        pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
        pcre2_match_data *match = pcre2_match_data_create(4, NULL);
        bool same = true;
        for (int round = 0; round < 20000 && same; round++) {
            uint8_t text[512];
            same = same_pieces(code, match, scan, text, random_text(text, sizeof text));
        }
        pcre2_match_data_free(match);
        pcre2_code_free(code);
        if (!same)
            check_fail(__FILE__, __LINE__, "pattern %zu: %s", i, pattern);
    }
}

TEST(scanners_are_linear_on_long_runs) {
    static uint8_t text[1 << 20];
    static const char *const UNITS[] = {"a",        " ",  "\n", "!", "'", "7", "\xF0\x9F\x99\x82",
                                        "\xCC\x81", " \n"};
    for (size_t u = 0; u < sizeof UNITS / sizeof *UNITS; u++) {
        size_t unit = strlen(UNITS[u]), len = 0;
        while (len + unit <= sizeof text) {
            memcpy(text + len, UNITS[u], unit);
            len += unit;
        }
        for (size_t i = 0; scan_pattern(i); i++) {
            scan_fn *scan = scan_find(bytes_str(scan_pattern(i)));
            if (!scan)
                continue;
            size_t pieces = 0;
            for (size_t at = 0; at < len; pieces++) {
                size_t n = scan(text + at, text + len);
                EXPECT(n > 0 && at + n <= len);
                at += n;
            }
            EXPECT(pieces <= len);
        }
    }
}

/* ---- digits by threes, counted from their end ---- */

struct ends {
    const uint8_t *text;
    size_t at[512], count;
};

static int note_end(void *ctx, struct bytes piece, const uint8_t *limit) {
    struct ends *e = ctx;
    (void)limit;
    if (e->count < ARRAY_LEN(e->at))
        e->at[e->count] = (size_t)(piece.data + piece.len - e->text);
    e->count++;
    return 0;
}

static void load_split(struct splitter *s, const char *pattern, struct arena *a) {
    char json[160];
    snprintf(json, sizeof json,
             "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\","
             "\"invert\":false}",
             pattern);
    if (splitter_load(s, golden_json(a, bytes_str(json)), NULL))
        check_fail(__FILE__, __LINE__, "%s", json);
}

static void split_text(const struct splitter *s, struct bytes text, struct ends *out) {
    struct split_scratch scratch = {0};
    *out = (struct ends){.text = text.data};
    if (splitter_run(s, &scratch, text, true, note_end, out, NULL, NULL))
        check_fail(__FILE__, __LINE__, "split");
    split_scratch_release(&scratch);
}

TEST(digits_by_threes_are_cut_as_the_pattern_does) {
    static const char *const BITS[] = {"0",        "1",        "23", "456",
                                       "7890",     "12345",    "a",  " ",
                                       "\xD9\xA0", "\xC2\xBD", ",",  "\xF0\x9D\x9F\x8E"};
    struct arena a;
    struct splitter ours, theirs;
    struct ends want, got;
    unicode_init();
    arena_init(&a, 0, 0);
    load_split(&ours, "(?=(\\\\d{3})+(?!\\\\d))", &a);
    load_split(&theirs, "(?=(?:\\\\d{3})+(?!\\\\d))", &a); /* by PCRE2 */
    EXPECT(ours.stages[0].kind == SPLIT_GROUPS && theirs.stages[0].kind == SPLIT_REGEX);
    for (int round = 0; round < 2000; round++) {
        struct buf text = {0};
        for (uint64_t n = check_random() % 12; n; n--)
            buf_add_str(&text, BITS[check_random() % ARRAY_LEN(BITS)]);
        split_text(&ours, buf_bytes(&text), &got);
        split_text(&theirs, buf_bytes(&text), &want);
        if (got.count != want.count || memcmp(got.at, want.at, got.count * sizeof *got.at))
            check_fail(__FILE__, __LINE__, "'%s' is cut otherwise", buf_text(&text));
        buf_release(&text);
    }
    /* in time that a look to the run's end from each digit would not allow */
    size_t len = 1000 * 1000;
    char *digits = mem_alloc(len);
    memset(digits, '7', len);
    split_text(&ours, bytes_of(digits, len), &got);
    EXPECT_EQ(got.count, (len + 2) / 3);
    mem_free(digits);
    splitter_release(&ours);
    splitter_release(&theirs);
    arena_release(&a);
}
