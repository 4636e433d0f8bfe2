/*
 * unicode.h - what kind of character a code point is, as the regular expressions of HF tokenizers
 * see it (Unicode 16.0).
 *
 * The table of runs in unicode_data.h is unrolled once into two stages (about 80 kB); lookups are
 * two loads.
 *
 * Threading: unicode_init may be called by any thread, any number of times; lookups need it to have
 * returned once.
 */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include "base/base.h"

enum unicode_category {
    UNICODE_LU,
    UNICODE_LL,
    UNICODE_LT,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_MN,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PS,
    UNICODE_PE,
    UNICODE_PI,
    UNICODE_PF,
    UNICODE_PO,
    UNICODE_SM,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SO,
    UNICODE_ZS,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CS,
    UNICODE_CO,
    UNICODE_CN,
};

enum { UNICODE_CATEGORY_MASK = 31, UNICODE_IS_WORD = 32, UNICODE_IS_SPACE = 64 };

/* In front of the trailing jamo and none of them: it combines with nothing, though utf8proc 2.6
 * takes it into a syllable. */
enum { UNICODE_NO_JAMO = 0x11A7 };

/* Sets of categories, for unicode_in. */
enum {
    UNICODE_L =
        1 << UNICODE_LU | 1 << UNICODE_LL | 1 << UNICODE_LT | 1 << UNICODE_LM | 1 << UNICODE_LO,
    UNICODE_M = 1 << UNICODE_MN | 1 << UNICODE_MC | 1 << UNICODE_ME,
    UNICODE_N = 1 << UNICODE_ND | 1 << UNICODE_NL | 1 << UNICODE_NO,
    UNICODE_P = 1 << UNICODE_PC | 1 << UNICODE_PD | 1 << UNICODE_PS | 1 << UNICODE_PE |
                1 << UNICODE_PI | 1 << UNICODE_PF | 1 << UNICODE_PO,
    UNICODE_S = 1 << UNICODE_SM | 1 << UNICODE_SC | 1 << UNICODE_SK | 1 << UNICODE_SO,
};

extern uint8_t unicode_block[0x110000 / 256 + 1];
extern uint8_t unicode_classes[][256];

/* Unrolls the tables once; from any thread. Every other call here needs it to have run. */
void unicode_init(void);

/* Category and the two flags; code points past U+10FFFF are unassigned. */
static inline unsigned unicode_class(uint32_t cp) {
    return cp < 0x110000 ? unicode_classes[unicode_block[cp >> 8]][cp & 255] : (unsigned)UNICODE_CN;
}
/* Whether the general category of cp is in the set of bits (1 << UNICODE_LU, ..., UNICODE_L). */
static inline bool unicode_in(uint32_t cp, uint32_t set) {
    return set >> (unicode_class(cp) & UNICODE_CATEGORY_MASK) & 1;
}
/* The same as tables of Unicode 8 have it, for punctuation, nonspacing marks and format characters:
 * HF's own rules use such. */
bool unicode_in_old(uint32_t cp, uint32_t set);
/* A number for the character's script as HF's UnicodeScripts has it (Han, Hiragana and Katakana are
 * one); 0 for the space, unassigned ones and others that go with any script. A binary search. */
uint8_t unicode_script(uint32_t cp);
/* White space as \s has it. */
static inline bool unicode_is_space(uint32_t cp) {
    return unicode_class(cp) & UNICODE_IS_SPACE;
}
/* A word character as \w has it. */
static inline bool unicode_is_word(uint32_t cp) {
    return unicode_class(cp) & UNICODE_IS_WORD;
}

/* Decodes one character of text known to be valid UTF-8, p < end; returns its length. */
static inline size_t unicode_next(const uint8_t *p, uint32_t *cp) {
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    if (p[0] < 0xE0) {
        *cp = (p[0] & 31u) << 6 | (p[1] & 63u);
        return 2;
    }
    if (p[0] < 0xF0) {
        *cp = (p[0] & 15u) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
        return 3;
    }
    *cp = (p[0] & 7u) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 | (p[3] & 63u);
    return 4;
}
/* The character that ends right before p (begin < p), in valid UTF-8; returns its length. */
static inline size_t unicode_prev(const uint8_t *p, uint32_t *cp) {
    const uint8_t *q = p - 1;
    while ((*q & 0xC0) == 0x80)
        q--;
    return unicode_next(q, cp);
}

#endif
