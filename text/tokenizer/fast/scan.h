/*
 * scan.h - hand-written scanners for the split patterns that models use, equal to the regular
 * expressions they stand for.
 *
 * Each pattern covers any text without gaps, so a scanner is one function: the length of the piece
 * that begins here. The table in scan.c lists the pattern text of each, as it stands in
 * tokenizer.json files; scan_find recognises it.
 *
 * Threading: pure functions; unicode_init must have run.
 */
#ifndef TEXT_TOKENIZER_FAST_SCAN_H
#define TEXT_TOKENIZER_FAST_SCAN_H

#include "base/base.h"

/* Valid UTF-8, p < end. Returns the bytes of the first piece, at least one character, never past
 * end. */
typedef size_t scan_fn(const uint8_t *p, const uint8_t *end);

/* The scanner for this pattern text, or NULL when it is not a known one. */
scan_fn *scan_find(struct bytes pattern);
/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ : what ByteLevel's
 * use_regex means. */
scan_fn scan_gpt2;
/* Each \p{N} by itself, and what is between by scan_gpt2: two stages in one. */
scan_fn scan_digits_gpt2;
/* The three stages of DeepSeek V3 in one: scan_deepseek.c. */
#define SCAN_DEEPSEEK3_DIGITS "\\p{N}{1,3}"
#define SCAN_DEEPSEEK3_ASIAN  "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define SCAN_DEEPSEEK3_REST                                                                        \
    "[!\"#$%&'()*+,\\-./"                                                                          \
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "             \
    "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
extern const char *const SCAN_DEEPSEEK3_STAGES[3];
scan_fn scan_deepseek3;
/* In the ranges of DeepSeek-V3's second stage: CJK ideographs, kana. */
static inline bool scan_is_deepseek_asian(uint32_t cp) {
    return (cp >= 0x4E00 && cp <= 0x9FA5) || (cp >= 0x3040 && cp <= 0x30FF);
}
/* The others, named after the family that brought them. */
scan_fn scan_llama3, scan_qwen2, scan_qwen35, scan_o200k, scan_tekken;

/* All known patterns, for tests: NULL past the last. */
const char *scan_pattern(size_t idx);

#endif
