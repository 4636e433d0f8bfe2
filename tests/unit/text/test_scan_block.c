/*
 * The scanners by blocks against the scanners themselves: whatever follows a block, its borders are theirs.
 */
#include "text/tokenizer/scan_block.h"

#include <stdio.h>

#include "base/utf8.h"
#include "check.h"
#include "text/unicode.h"

enum { BEHIND = 16 };

static scan_fn *const SCANNERS[] = {scan_gpt2, scan_llama3, scan_qwen2, scan_qwen35, scan_o200k, scan_tekken};

/* Text of what the patterns look at; `kind` shifts the mixture from words to chaos. */
static size_t random_text(uint8_t *text, size_t len, unsigned kind) {
    static const char CHAOS[] = "abcstdlmrveSTLREV''''   \t\n\r\n0123456789!.,_/-/\v\f\x1b{}";
    static const char *const WORDS[] = {"the",    " of",        " cat's", "don't", " I'll", "  ",  "\n\n",
                                        "\n    ", " \n \n",     "1234",   " 567",  "...",   ".\n", " //",
                                        "x.y",    "HTTPServer", " we'Ve", "\t",    "'s's",  "''s", " 's",
                                        "'re",    "'lL",        ".\n/",   "a'd'd", "\r\n",  " ()"};
    size_t at = 0;
    while (at < len) {
        unsigned what = (unsigned)(check_random() % 100);
        const char *word = WORDS[check_random() % ARRAY_LEN(WORDS)];
        char single[8] = {CHAOS[check_random() % (sizeof CHAOS - 1)], 0};
        if (what < kind) word = single;
        if (what == 99 && kind) {
            static const uint32_t FAR[] = {0xE9, 0x17F, 0x301, 0xA0, 0x2028, 0x4E2D, 0x1F642, 0x660};
            single[utf8_encode(FAR[check_random() % ARRAY_LEN(FAR)], single)] = 0;
            word = single;
        }
        for (size_t n = strlen(word), i = 0; i < n && at < len; i++) text[at++] = (uint8_t)word[i];
    }
    return len;
}

/* The last character of a text may have been cut: it becomes a letter. */
static void mend_end(uint8_t *text, size_t len) {
    for (size_t i = len > 4 ? len - 4 : 0; i < len; i++)
        if (text[i] >= 0x80) text[i] = 'e';
}

static bool same_borders(scan_fn *scan, uint64_t starts, const uint8_t *p, const uint8_t *end) {
    uint64_t want = 0;
    unsigned last = 63 - (unsigned)__builtin_clzll(starts);
    for (const uint8_t *at = p; at < end && at <= p + last; at += scan(at, end)) want |= (uint64_t)1 << (at - p);
    if (want == starts) return true;
    fprintf(stderr, "borders %016llx, the scanner has %016llx:", (unsigned long long)starts, (unsigned long long)want);
    for (const uint8_t *at = p; at < end; at++) fprintf(stderr, *at >= ' ' && *at < 127 ? "%c" : "\\x%02x", *at);
    fprintf(stderr, "\n");
    return false;
}

TEST(blocks_have_the_borders_of_their_scanner_whatever_follows) {
    unicode_init();
    bool same = true;
    size_t found = 0, blocks = 0;
    if (!scan_block_find(scan_gpt2)) SKIP("avx2", "no scanner by blocks for this machine");
    for (size_t s = 0; s < ARRAY_LEN(SCANNERS); s++) {
        scan_block_fn *block = scan_block_find(SCANNERS[s]);
        EXPECT(block != NULL);
        for (int round = 0; round < 60000 && same; round++) {
            uint8_t text[SCAN_BLOCK_BYTES + BEHIND];
            size_t len = random_text(text, sizeof text, (unsigned)(round % 5) * 25);
            mend_end(text, len);
            if ((text[0] & 0xC0) == 0x80) text[0] = 'x';
            uint64_t starts = block(text);
            EXPECT(starts & 1);
            blocks++;
            found += (size_t)__builtin_popcountll(starts) - 1;
            for (int behind = 0; behind < 3 && same; behind++) {
                same = same_borders(SCANNERS[s], starts, text, text + len);
                random_text(text + SCAN_BLOCK_BYTES, BEHIND, 100 - (unsigned)behind * 30);
                if (text[SCAN_BLOCK_BYTES - 1] >= 0x80) break; /* a character is cut there */
                mend_end(text, len);
            }
        }
        EXPECT(same);
    }
    EXPECT(found > 3 * blocks); /* and it finds most of what there is */
}
