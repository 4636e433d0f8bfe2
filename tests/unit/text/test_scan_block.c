/*
 * The scanners by blocks against the scanners themselves: whatever follows a block, its borders are
 * theirs.
 */
#include "text/tokenizer/fast/scan_block.h"

#include <stdio.h>

#include "base/utf8.h"
#include "check.h"
#include "text/unicode.h"

enum { BEHIND = 16 };

static scan_fn *const SCANNERS[] = {scan_gpt2,  scan_digits_gpt2, scan_deepseek3, scan_llama3,
                                    scan_qwen2, scan_qwen35,      scan_o200k,     scan_tekken};

/* Text of what the patterns look at; `kind` shifts the mixture from words to chaos. */
static size_t random_text(uint8_t *text, size_t len, unsigned kind) {
    static const char CHAOS[] = "abcstdlmrveSTLREV''''   \t\n\r\n0123456789!.,_/-/\v\f\x1b{}";
    static const char *const WORDS[] = {
        "the",  " of",  " cat's", "don't", " I'll", "  ",   "\n\n",       "\n    ", " \n \n",
        "1234", " 567", "...",    ".\n",   " //",   "x.y",  "HTTPServer", " we'Ve", "\t",
        "'s's", "''s",  " 's",    "'re",   "'lL",   ".\n/", "a'd'd",      "\r\n",   " ()"};
    static const uint32_t FAR[] = {
        0xE9,   0xC9,    0xD7,   0xF7,   0x17F,   0x301,  0xA0,   0x85,   0x2028, 0x4E2D, 0x4DC0,
        0x4DBF, 0x1F642, 0x660,  0x3042, 0x30A2,  0x30FB, 0x30FC, 0x3099, 0x3002, 0x3000, 0xFF11,
        0xFF01, 0xAC00,  0xB098, 0xD7A3, 0x410,   0x430,  0x44F,  0x450,  0x460,  0x2019, 0x201C,
        0x2014, 0x1C5,   0x2B0,  0xAA,   0x20000, 0x3097, 0x30A0, 0x9FA5, 0x9FA6, 0x200D};
    const unsigned far = (unsigned)(check_random() % 4) * 30; /* of a hundred */
    size_t at = 0;
    while (at < len) {
        unsigned what = (unsigned)(check_random() % 100);
        const char *word = WORDS[check_random() % ARRAY_LEN(WORDS)];
        char single[8] = {CHAOS[check_random() % (sizeof CHAOS - 1)], 0};
        if (what < kind)
            word = single;
        if (check_random() % 100 < far) {
            single[utf8_encode(FAR[check_random() % ARRAY_LEN(FAR)], single)] = 0;
            word = single;
        }
        for (size_t n = strlen(word), i = 0; i < n && at < len; i++)
            text[at++] = (uint8_t)word[i];
    }
    return len;
}

/* The last character of a text may have been cut: it becomes letters. */
static void mend_end(uint8_t *text, size_t len) {
    size_t good = utf8_valid_prefix(text, len);
    memset(text + good, 'e', len - good);
}

static bool same_borders(scan_fn *scan, uint64_t starts, const uint8_t *p, const uint8_t *end) {
    uint64_t want = 0;
    unsigned last = 63 - (unsigned)__builtin_clzll(starts);
    for (const uint8_t *at = p; at < end && at <= p + last; at += scan(at, end))
        want |= (uint64_t)1 << (at - p);
    if (want == starts)
        return true;
    fprintf(stderr, "borders %016llx, the scanner has %016llx:", (unsigned long long)starts,
            (unsigned long long)want);
    for (const uint8_t *at = p; at < end; at++)
        fprintf(stderr, *at >= ' ' && *at < 127 ? "%c" : "\\x%02x", *at);
    fprintf(stderr, "\n");
    return false;
}

struct tally {
    size_t found, blocks;
};

static bool blocks_agree(scan_fn *scan, scan_block_fn *block, int rounds, struct tally *tally) {
    bool same = true;
    for (int round = 0; round < rounds && same; round++) {
        uint8_t text[SCAN_BLOCK_BYTES + BEHIND];
        size_t len = random_text(text, sizeof text, (unsigned)(round % 5) * 25);
        mend_end(text, len);
        uint64_t starts = block(text);
        same = starts & 1;
        tally->blocks++;
        tally->found += (size_t)__builtin_popcountll(starts) - 1;
        for (int behind = 0; behind < 3 && same; behind++) {
            same = same_borders(scan, starts, text, text + len);
            /* a character is cut there */
            if (utf8_valid_prefix(text, SCAN_BLOCK_BYTES) < SCAN_BLOCK_BYTES)
                break;
            random_text(text + SCAN_BLOCK_BYTES, BEHIND, 100 - (unsigned)behind * 30);
            mend_end(text, len);
        }
    }
    return same;
}

TEST(blocks_have_the_borders_of_their_scanner_whatever_follows) {
    unicode_init();
    struct tally tally = {0, 0};
    if (!scan_block_find(scan_gpt2))
        SKIP("avx2", "no scanner by blocks for this machine");
    for (size_t s = 0; s < ARRAY_LEN(SCANNERS); s++) {
        scan_block_fn *variants[SCAN_BLOCK_VARIANTS_MAX];
        size_t count = scan_block_variants(SCANNERS[s], variants);
        EXPECT(count > 0);
        for (size_t v = 0; v < count; v++)
            EXPECT(blocks_agree(SCANNERS[s], variants[v], 40000, &tally));
    }
    EXPECT(tally.found > 3 * tally.blocks); /* and it finds most of what there is */
}
