#include "text/tokenizer/fast/scan_block.h"

#include "text/unicode.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* What the patterns differ in; the names are scan.c's. */
struct block_rules {
    unsigned digits_max; /* 1, 3; 0: any number, with an optional space before */
    /* one character of any kind but letter, digit, line end may begin a word; else one space */
    bool any_prefix;
    bool line_ends;       /* `\s*[\r\n]+`, and others take the line ends behind them */
    bool slash_tail;      /* ... and slashes */
    bool cased;           /* a capital behind a small letter begins a word */
    bool contract_before; /* 's is a piece of its own, in front of everything */
    bool contract_after;  /* 's belongs to the word before it */
    bool exact;           /* contractions in small letters only */
    bool apart;           /* digits were taken out before: text ends in front of them */
    /* scan_deepseek.c: asian characters are apart too, one ASCII sign may begin an ASCII word */
    bool deepseek;
    /* are letters; else others, of which `cased` patterns make several things */
    bool marks;
};

/* Bytes above 127 by range. */
enum far_kind {
    FAR_C3,
    FAR_D0,
    FAR_D1,
    FAR_E3,
    FAR_E4,
    FAR_E5_E9,
    FAR_E9,
    FAR_EB_EC,
    FAR_80,
    FAR_81,
    FAR_82,
    FAR_83,
    FAR_97,
    FAR_B7,
    FAR_BB,
    FAR_80_9E,
    FAR_80_9F,
    FAR_80_AF,
    FAR_97_A0,
    FAR_B8_BF,
    FAR_BE_BF,
    FAR_CONTROL,
    FAR_DELETE,
    FAR_KINDS
};
static const uint8_t FAR_RANGES[FAR_KINDS][2] = {
    [FAR_C3] = {0xC3, 0xC3},    [FAR_D0] = {0xD0, 0xD0},    [FAR_D1] = {0xD1, 0xD1},
    [FAR_E3] = {0xE3, 0xE3},    [FAR_E4] = {0xE4, 0xE4},    [FAR_E5_E9] = {0xE5, 0xE9},
    [FAR_E9] = {0xE9, 0xE9},    [FAR_EB_EC] = {0xEB, 0xEC}, [FAR_80] = {0x80, 0x80},
    [FAR_81] = {0x81, 0x81},    [FAR_82] = {0x82, 0x82},    [FAR_83] = {0x83, 0x83},
    [FAR_97] = {0x97, 0x97},    [FAR_B7] = {0xB7, 0xB7},    [FAR_BB] = {0xBB, 0xBB},
    [FAR_80_9E] = {0x80, 0x9E}, [FAR_80_9F] = {0x80, 0x9F}, [FAR_80_AF] = {0x80, 0xAF},
    [FAR_97_A0] = {0x97, 0xA0}, [FAR_B8_BF] = {0xB8, 0xBF}, [FAR_BE_BF] = {0xBE, 0xBF},
    [FAR_CONTROL] = {0, 0x1F},  [FAR_DELETE] = {0x7F, 0x7F}};

/* A bit for each byte, of characters of several bytes for the first. `far`: kinds of bytes that
 * tell letters above U+007F. */
struct classes {
    uint64_t asian, letter, capital, digit, space, blank, line_end, apostrophe, slash, high, inside;
    uint64_t far[FAR_KINDS];
};

enum {
    B_LETTER_45 = 1, /* rows 4 and 6 of ASCII: letters from column 1 */
    B_LETTER_57 = 2, /* rows 5 and 7: letters to column 10 */
    B_DIGIT = 4,
    B_SPACE = 8,
    B_BLANK = 16, /* tab, vertical tab, form feed */
    B_LINE_END = 32,
    B_QUOTE = 64
};

/* The class bits of a byte are those that the tables of its high and its low four bits share. */
#define HIGH_ROWS                                                                                  \
    B_BLANK | B_LINE_END, 0, B_SPACE | B_QUOTE, B_DIGIT, B_LETTER_45, B_LETTER_57, B_LETTER_45,    \
        B_LETTER_57, 0, 0, 0, 0, 0, 0, 0, 0
#define ALPHA (B_LETTER_45 | B_LETTER_57)
#define LOW_COLUMNS                                                                                \
    B_LETTER_57 | B_DIGIT | B_SPACE, ALPHA | B_DIGIT, ALPHA | B_DIGIT, ALPHA | B_DIGIT,            \
        ALPHA | B_DIGIT, ALPHA | B_DIGIT, ALPHA | B_DIGIT, ALPHA | B_DIGIT | B_QUOTE,              \
        ALPHA | B_DIGIT, ALPHA | B_DIGIT | B_BLANK, ALPHA | B_LINE_END, B_LETTER_45 | B_BLANK,     \
        B_LETTER_45 | B_BLANK, B_LETTER_45 | B_LINE_END, B_LETTER_45, B_LETTER_45

#define INLINE static inline __attribute__((always_inline))
#define BITS   __attribute__((target("bmi,bmi2,lzcnt")))
#define AVX2   __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#define AVX512 __attribute__((target("avx512f,avx512bw,bmi,bmi2,lzcnt")))

/* 'll, 've, ...: the masks of apostrophes that begin a contraction of one letter, of two, and those
 * for which the block ends too early to say. */
struct contractions {
    uint64_t one, two, unknown;
};

/* known: bytes. */
INLINE struct contractions find_contractions(const uint8_t *p, uint64_t apostrophes, unsigned known,
                                             bool exact) {
    struct contractions c = {0, 0, 0};
    const uint8_t fold = exact ? 0 : 0x20;
    for (uint64_t left = apostrophes; left; left &= left - 1) { /* few */
        unsigned i = (unsigned)__builtin_ctzll(left);
        uint64_t bit = left & -left;
        if (i + 1 >= known || (!exact && p[i + 1] == 0xC5)) { /* U+017F is an s */
            c.unknown |= bit;
            continue;
        }
        uint8_t a = p[i + 1] | fold;
        if (a == 's' || a == 't' || a == 'm' || a == 'd')
            c.one |= bit;
        if (a != 'r' && a != 'v' && a != 'l')
            continue;
        if (i + 2 >= known)
            c.unknown |= bit;
        else if ((p[i + 2] | fold) == (a == 'l' ? 'l' : 'e'))
            c.two |= bit;
    }
    return c;
}

/* The letters among the characters that texts in many languages are made of: U+00C0 to U+00FF,
 * Cyrillic, kana, Han and Hangul. */
INLINE uint64_t common_letters(const uint64_t far[FAR_KINDS], uint64_t *capital) {
    const uint64_t latin = far[FAR_C3] & ~((far[FAR_97] | far[FAR_B7]) >> 1);
    const uint64_t cyrillic = far[FAR_D0] | (far[FAR_D1] & far[FAR_80_9F] >> 1);
    const uint64_t kana = (far[FAR_81] & ~(far[FAR_80] >> 1)) |
                          (far[FAR_82] & ~(far[FAR_97_A0] >> 1)) |
                          (far[FAR_83] & ~(far[FAR_BB] >> 1));
    const uint64_t han = far[FAR_E5_E9] | (far[FAR_E4] & far[FAR_B8_BF] >> 1);
    *capital |= (far[FAR_C3] & far[FAR_80_9E] >> 1) | (far[FAR_D0] & far[FAR_80_AF] >> 1);
    return latin | cyrillic | (far[FAR_E3] & kana >> 1) | han | far[FAR_EB_EC];
}

/* Classes of the characters above U+007F; returns how many bytes are known: up to a character that
 * the block cuts, or one that the rules of masks do not cover. */
BITS INLINE unsigned classify_far(const uint8_t *p, struct classes *c, const struct block_rules r) {
    const uint64_t leads = c->high & ~c->inside;
    unsigned known = 64, last = 63 - (unsigned)__builtin_clzll(leads | 1);
    unsigned last_len = p[last] < 0x80 ? 1 : p[last] < 0xE0 ? 2 : p[last] < 0xF0 ? 3 : 4;
    if (last + last_len > 64)
        known = last;
    if (r.deepseek) {
        const uint64_t strange =
            (c->far[FAR_CONTROL] & ~(c->blank | c->line_end)) | c->far[FAR_DELETE];
        if (strange)
            known = MIN(known, (unsigned)__builtin_ctzll(strange));
    }
    uint64_t both = 0; /* neither capital nor small */
    c->capital &= ~c->high;
    uint64_t letters = common_letters(c->far, &c->capital) & leads;
    if (r.deepseek) {
        const uint64_t e3_e9 = c->far[FAR_E3] | c->far[FAR_E4] | c->far[FAR_E5_E9];
        /* the last few end amid U+9Fxx */
        c->asian = letters & e3_e9 & ~(c->far[FAR_E9] & c->far[FAR_BE_BF] >> 1);
        letters &= ~e3_e9;
    }
    c->letter |= letters;
    if (r.cased)
        both = letters & ~(c->far[FAR_C3] | c->far[FAR_D0] | c->far[FAR_D1]);
    for (uint64_t rest = leads & ~(letters | c->asian); rest; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctzll(rest);
        uint64_t bit = rest & -rest;
        if (i >= known)
            break;
        uint32_t cp;
        unicode_next(p + i, &cp);
        unsigned class = unicode_class(cp);
        uint32_t category = 1u << (class & UNICODE_CATEGORY_MASK);
        if (category & UNICODE_M && r.cased)
            known = i;
        if (r.deepseek && scan_is_deepseek_asian(cp)) {
            if (!(category & (UNICODE_L | UNICODE_M)))
                known = i;
            c->asian |= bit;
            continue;
        }
        const uint32_t matched = UNICODE_L | UNICODE_M | UNICODE_N | UNICODE_P | UNICODE_S;
        if (r.deepseek && !(category & matched) && !(class & UNICODE_IS_SPACE))
            known = i;
        if (category & (r.marks ? UNICODE_L | UNICODE_M : UNICODE_L))
            c->letter |= bit;
        if (category & (1u << UNICODE_LU | 1u << UNICODE_LT))
            c->capital |= bit;
        if (category & (1u << UNICODE_LM | 1u << UNICODE_LO))
            both |= bit;
        if (category & UNICODE_N)
            c->digit |= bit;
        if (class & UNICODE_IS_SPACE)
            c->blank |= bit;
    }
    if (r.cased &&
        both) { /* what a capital behind such a letter is depends on what comes before and after */
        const uint64_t outer = ~c->inside, capitals = _pext_u64(c->capital & c->letter, outer);
        uint64_t trouble = _pdep_u64(_pext_u64(both, outer) & capitals >> 1, outer);
        if (trouble)
            known = MIN(known, (unsigned)__builtin_ctzll(trouble));
    }
    return known;
}

INLINE uint64_t digit_starts(uint64_t digits, unsigned max) {
    if (max == 1)
        return digits;
    uint64_t starts = digits & ~(digits << 1), at = starts;
    if (max == 3)
        while ((at = at << 3 & digits & digits << 1 & digits << 2))
            starts |= at;
    return starts;
}

/* Bits of `in` that are reached from the bits of `from` through neighbours in `in`; each of `from`
 * lies in `in`. */
INLINE uint64_t run_from(uint64_t from, uint64_t in) {
    return ((from + in) ^ in) & in;
}

/* run_from where a run may hold several of `from`: the first one counts. */
INLINE uint64_t tails(uint64_t from, uint64_t in) {
    uint64_t all = 0;
    while (from) {
        uint64_t run = run_from(from & -from, in);
        all |= run;
        from &= ~run;
    }
    return all;
}

/* The borders of characters that are a byte each; k: the contractions among them. */
INLINE uint64_t char_borders(struct classes c, uint64_t ascii, struct contractions k, uint64_t in,
                             const struct block_rules r) {
    const uint64_t K = r.deepseek ? c.asian & in : 0;
    const uint64_t L = c.letter & in, N = c.digit & in, SP = c.space & in, LE = c.line_end & in;
    const uint64_t S = SP | (c.blank & in) | LE;
    uint64_t O = in & ~(L | N | S | K);
    if (!(L | N | K))
        return 1;
    uint64_t taken = 0; /* line ends (and slashes) that the others before them take */
    if (r.line_ends) {
        taken = r.slash_tail && c.slash ? tails(O << 1 & LE, LE | (c.slash & in))
                                        : run_from(O << 1 & LE, LE);
        O &= ~taken;
    }
    const uint64_t W = S & ~taken, text = r.apart ? L | O : L | N | O;
    /* one other, that no space takes */
    const uint64_t alone = O & ~(O << 1) & ~(O >> 1) & ~(SP << 1);
    uint64_t starts = (W & ~(W << 1)) | (O & ~(O << 1) & ~(SP << 1));
    uint64_t limit_bits = L | N | K; /* borders behind the last of these are not certain */
    if (r.line_ends) {
        const uint64_t inner = W & ~LE, after = inner & (W & LE) << 1;
        starts |= after | (inner & text >> 1);
        if (((after + inner) & ~inner) & LE) { /* blanks between line ends: the scanner's */
            uint64_t before = (after & -after) - 1;
            limit_bits &= before;
            if (!limit_bits)
                return 1;
        }
    } else {
        starts |= W & text >> 1;
    }
    uint64_t letter_starts = L & ~(L << 1);
    if (r.cased)
        letter_starts |= c.capital & L & (L & ~c.capital) << 1;
    uint64_t prefix = r.any_prefix ? alone | (W & ~LE) : SP;
    if (r.deepseek) { /* one ASCII sign takes the ASCII letters behind it, no others */
        const uint64_t near = L & ascii, signs = alone & ascii & near >> 1;
        prefix = signs | (W & ~LE);
        starts |= (K & ~(K << 1)) | (run_from(signs << 1, near) << 1 & L & ~near);
    }
    letter_starts &= ~(prefix << 1);
    const uint64_t quotes = r.contract_after ? L << 1 : r.contract_before ? alone : 0;
    k.one &= quotes, k.two &= quotes, k.unknown &= quotes;
    if (k.one | k.two | k.unknown) {
        if (r.contract_before)
            letter_starts &= ~((k.one | k.two) << 1);
        if (r.contract_after) {
            starts &= ~(k.one | k.two);
            letter_starts &= ~((k.one | k.two) << 1 | k.two << 2);
        }
        starts |= k.one << 2 | k.two << 3;
        if (r.contract_after) /* a word takes one: 's's */
            k.unknown |= (k.one << 2 | k.two << 3) & (k.one | k.two);
        if (k.unknown) {
            limit_bits &= (k.unknown & -k.unknown) - 1;
            if (!limit_bits)
                return 1;
        }
    }
    uint64_t number_starts = digit_starts(N, r.digits_max);
    if (!r.digits_max)
        number_starts &= ~(SP << 1);
    starts |= letter_starts | number_starts;
    unsigned last = 63 - (unsigned)__builtin_clzll(limit_bits);
    return (starts & (((uint64_t)2 << last) - 1)) | 1;
}

INLINE uint64_t low_bits(unsigned count) {
    return count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
}

/* Characters of several bytes are pressed into one bit, and spread again. */
BITS INLINE uint64_t far_borders(const uint8_t *p, struct classes c, const struct block_rules r) {
    const unsigned known = classify_far(p, &c, r);
    struct contractions k = {0, 0, 0};
    if (c.apostrophe && (r.contract_before || r.contract_after))
        k = find_contractions(p, c.apostrophe & low_bits(known), known, r.exact);
    const uint64_t outer = ~c.inside, in = _pext_u64(low_bits(known), outer);
    const struct classes chars = {.asian = r.deepseek ? _pext_u64(c.asian, outer) : 0,
                                  .letter = _pext_u64(c.letter, outer),
                                  .capital = r.cased ? _pext_u64(c.capital, outer) : 0,
                                  .digit = _pext_u64(c.digit, outer),
                                  .space = _pext_u64(c.space, outer),
                                  .blank = _pext_u64(c.blank, outer),
                                  .line_end = _pext_u64(c.line_end, outer),
                                  .slash = r.slash_tail ? _pext_u64(c.slash, outer) : 0};
    const struct contractions of_chars = {_pext_u64(k.one, outer), _pext_u64(k.two, outer),
                                          _pext_u64(k.unknown, outer)};
    return _pdep_u64(char_borders(chars, _pext_u64(~c.high, outer), of_chars, in, r), outer);
}

INLINE uint64_t near_borders(const uint8_t *p, struct classes c, const struct block_rules r) {
    struct contractions k = {0, 0, 0};
    if (c.apostrophe && (r.contract_before || r.contract_after))
        k = find_contractions(p, c.apostrophe, 64, r.exact);
    return char_borders(c, ~(uint64_t)0, k, ~(uint64_t)0, r);
}

AVX512 INLINE struct classes classes_avx512(const uint8_t *p) {
    const __m512i rows = _mm512_broadcast_i32x4(_mm_setr_epi8(HIGH_ROWS));
    const __m512i columns = _mm512_broadcast_i32x4(_mm_setr_epi8(LOW_COLUMNS));
    const __m512i low = _mm512_set1_epi8(15);
    __m512i x = _mm512_loadu_si512(p);
    __m512i high = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
    __m512i bits = _mm512_and_si512(_mm512_shuffle_epi8(rows, high),
                                    _mm512_shuffle_epi8(columns, _mm512_and_si512(x, low)));
#define HAS(b) _mm512_test_epi8_mask(bits, _mm512_set1_epi8(b))
    return (struct classes){.letter = HAS(ALPHA),
                            .capital = _mm512_testn_epi8_mask(x, _mm512_set1_epi8(0x20)),
                            .digit = HAS(B_DIGIT),
                            .space = HAS(B_SPACE),
                            .blank = HAS(B_BLANK),
                            .line_end = HAS(B_LINE_END),
                            .apostrophe = HAS(B_QUOTE),
                            .slash = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('/')),
                            .high = _mm512_movepi8_mask(x)};
#undef HAS
}

AVX512 INLINE void far_avx512(const uint8_t *p, struct classes *c) {
    __m512i x = _mm512_loadu_si512(p);
    for (int k = 0; k < FAR_KINDS; k++) {
        const uint8_t low = FAR_RANGES[k][0], high = FAR_RANGES[k][1];
        c->far[k] = low == high
                        ? _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8((char)low))
                        : _mm512_cmple_epu8_mask(_mm512_sub_epi8(x, _mm512_set1_epi8((char)low)),
                                                 _mm512_set1_epi8((char)(high - low)));
    }
    c->inside = _mm512_cmplt_epi8_mask(x, _mm512_set1_epi8((char)0xC0));
}

struct half {
    __m256i x, bits;
};

AVX2 INLINE struct half classify_half(const uint8_t *p) {
    const __m256i rows = _mm256_broadcastsi128_si256(_mm_setr_epi8(HIGH_ROWS));
    const __m256i columns = _mm256_broadcastsi128_si256(_mm_setr_epi8(LOW_COLUMNS));
    const __m256i low = _mm256_set1_epi8(15);
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
    return (struct half){x,
                         _mm256_and_si256(_mm256_shuffle_epi8(rows, high),
                                          _mm256_shuffle_epi8(columns, _mm256_and_si256(x, low)))};
}

/* The bytes whose bit `shift` places below the sign is set. */
AVX2 INLINE uint64_t mask_of(__m256i a, __m256i b, int shift) {
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(a, shift));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(b, shift));
    return (uint64_t)high << 32 | low;
}

AVX2 INLINE struct classes classes_avx2(const uint8_t *p) {
    struct half a = classify_half(p), b = classify_half(p + 32);
    const __m256i slash = _mm256_set1_epi8('/');
    return (struct classes){
        .letter = mask_of(a.bits, b.bits, 7) | mask_of(a.bits, b.bits, 6),
        .capital = ~mask_of(a.x, b.x, 2),
        .digit = mask_of(a.bits, b.bits, 5),
        .space = mask_of(a.bits, b.bits, 4),
        .blank = mask_of(a.bits, b.bits, 3),
        .line_end = mask_of(a.bits, b.bits, 2),
        .apostrophe = mask_of(a.bits, b.bits, 1),
        .slash = mask_of(_mm256_cmpeq_epi8(a.x, slash), _mm256_cmpeq_epi8(b.x, slash), 0),
        .high = mask_of(a.x, b.x, 0)};
}

AVX2 INLINE __m256i in_range(__m256i x, uint8_t low, uint8_t high) {
    __m256i up = _mm256_sub_epi8(x, _mm256_set1_epi8((char)low));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(up, _mm256_set1_epi8((char)(high - low))), up);
}

AVX2 INLINE void far_avx2(const uint8_t *p, struct classes *c) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
    for (int k = 0; k < FAR_KINDS; k++)
        c->far[k] = mask_of(in_range(a, FAR_RANGES[k][0], FAR_RANGES[k][1]),
                            in_range(b, FAR_RANGES[k][0], FAR_RANGES[k][1]), 0);
    c->inside = mask_of(in_range(a, 0x80, 0xBF), in_range(b, 0x80, 0xBF), 0);
}

#define SCANNER_OF(isa, name, ...)                                                                 \
    static uint64_t name##_##isa(const uint8_t *p) {                                               \
        struct classes c = classes_##isa(p);                                                       \
        const struct block_rules r = {__VA_ARGS__};                                                \
        if (!c.high && !r.deepseek)                                                                \
            return near_borders(p, c, r);                                                          \
        far_##isa(p, &c);                                                                          \
        return far_borders(p, c, r);                                                               \
    }
#define BLOCK_SCANNER(name, ...)                                                                   \
    AVX512 SCANNER_OF(avx512, name, __VA_ARGS__)                                                   \
    AVX2 SCANNER_OF(avx2, name, __VA_ARGS__)

BLOCK_SCANNER(gpt2, .contract_before = true, .exact = true)
BLOCK_SCANNER(digits_gpt2, .digits_max = 1, .contract_before = true, .exact = true, .apart = true)
BLOCK_SCANNER(deepseek3, .digits_max = 3, .line_ends = true, .apart = true, .deepseek = true,
              .marks = true)
BLOCK_SCANNER(llama3, .digits_max = 3, .any_prefix = true, .line_ends = true,
              .contract_before = true)
BLOCK_SCANNER(qwen2, .digits_max = 1, .any_prefix = true, .line_ends = true,
              .contract_before = true)
BLOCK_SCANNER(qwen35, .digits_max = 1, .any_prefix = true, .line_ends = true,
              .contract_before = true, .marks = true)
BLOCK_SCANNER(o200k, .digits_max = 3, .any_prefix = true, .line_ends = true, .slash_tail = true,
              .cased = true, .contract_after = true)
BLOCK_SCANNER(tekken, .digits_max = 1, .any_prefix = true, .line_ends = true, .slash_tail = true,
              .cased = true)

static const struct {
    scan_fn *scan;
    scan_block_fn *avx512, *avx2;
} BLOCK_SCANNERS[] = {{scan_gpt2, gpt2_avx512, gpt2_avx2},
                      {scan_digits_gpt2, digits_gpt2_avx512, digits_gpt2_avx2},
                      {scan_deepseek3, deepseek3_avx512, deepseek3_avx2},
                      {scan_llama3, llama3_avx512, llama3_avx2},
                      {scan_qwen2, qwen2_avx512, qwen2_avx2},
                      {scan_qwen35, qwen35_avx512, qwen35_avx2},
                      {scan_o200k, o200k_avx512, o200k_avx2},
                      {scan_tekken, tekken_avx512, tekken_avx2}};

/* clang's __builtin_cpu_supports does not know it. */
static bool has_lzcnt(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && c & bit_LZCNT;
}

size_t scan_block_variants(scan_fn *scan, scan_block_fn *out[SCAN_BLOCK_VARIANTS_MAX]) {
    bool bits = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_lzcnt();
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(BLOCK_SCANNERS) && bits; i++) {
        if (BLOCK_SCANNERS[i].scan != scan)
            continue;
        if (__builtin_cpu_supports("avx2"))
            out[count++] = BLOCK_SCANNERS[i].avx2;
        if (wide)
            out[count++] = BLOCK_SCANNERS[i].avx512;
    }
    return count;
}

#else

size_t scan_block_variants(scan_fn *scan, scan_block_fn *out[SCAN_BLOCK_VARIANTS_MAX]) {
    (void)scan, (void)out;
    return 0;
}

#endif

scan_block_fn *scan_block_find(scan_fn *scan) {
    scan_block_fn *variants[SCAN_BLOCK_VARIANTS_MAX];
    size_t count = scan_block_variants(scan, variants);
    return count ? variants[count - 1] : NULL;
}
