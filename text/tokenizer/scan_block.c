#include "text/tokenizer/scan_block.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* What the patterns differ in; the names are scan.c's. */
struct block_rules {
    unsigned digits_max;  /* 1, 3; 0: any number, with an optional space before */
    bool any_prefix;      /* one character of any kind but letter, digit, line end may begin a word; else one space */
    bool line_ends;       /* `\s*[\r\n]+`, and others take the line ends behind them */
    bool slash_tail;      /* ... and slashes */
    bool cased;           /* a capital behind a small letter begins a word */
    bool contract_before; /* 's is a piece of its own, in front of everything */
    bool contract_after;  /* 's belongs to the word before it */
    bool exact;           /* contractions in small letters only */
};

struct classes {
    uint64_t letter, capital, digit, space, blank, line_end, apostrophe, slash, high;
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
#define HIGH_ROWS                                                                                                      \
    B_BLANK | B_LINE_END, 0, B_SPACE | B_QUOTE, B_DIGIT, B_LETTER_45, B_LETTER_57, B_LETTER_45, B_LETTER_57, 0, 0, 0,  \
        0, 0, 0, 0, 0
#define ALPHA (B_LETTER_45 | B_LETTER_57)
#define LOW_COLUMNS                                                                                                    \
    B_LETTER_57 | B_DIGIT | B_SPACE, ALPHA | B_DIGIT, ALPHA | B_DIGIT, ALPHA | B_DIGIT, ALPHA | B_DIGIT,               \
        ALPHA | B_DIGIT, ALPHA | B_DIGIT, ALPHA | B_DIGIT | B_QUOTE, ALPHA | B_DIGIT, ALPHA | B_DIGIT | B_BLANK,       \
        ALPHA | B_LINE_END, B_LETTER_45 | B_BLANK, B_LETTER_45 | B_BLANK, B_LETTER_45 | B_LINE_END, B_LETTER_45,       \
        B_LETTER_45

#define INLINE static inline __attribute__((always_inline))

/* 'll, 've, ...: the masks of apostrophes that begin a contraction of one letter, of two, and those for which the block
 * ends too early to say. */
struct contractions {
    uint64_t one, two, unknown;
};

INLINE struct contractions find_contractions(const uint8_t *p, uint64_t apostrophes, unsigned known, bool exact) {
    struct contractions c = {0, 0, 0};
    const uint8_t fold = exact ? 0 : 0x20;
    for (uint64_t left = apostrophes; left; left &= left - 1) { /* few */
        unsigned i = (unsigned)__builtin_ctzll(left);
        uint64_t bit = left & -left;
        if (i + 1 >= known) {
            c.unknown |= bit;
            continue;
        }
        uint8_t a = p[i + 1] | fold;
        if (a == 's' || a == 't' || a == 'm' || a == 'd') c.one |= bit;
        if (a != 'r' && a != 'v' && a != 'l') continue;
        if (i + 2 >= known)
            c.unknown |= bit;
        else if ((p[i + 2] | fold) == (a == 'l' ? 'l' : 'e'))
            c.two |= bit;
    }
    return c;
}

INLINE uint64_t digit_starts(uint64_t digits, unsigned max) {
    if (max == 1) return digits;
    uint64_t starts = digits & ~(digits << 1), at = starts;
    if (max == 3)
        while ((at = at << 3 & digits & digits << 1 & digits << 2)) starts |= at;
    return starts;
}

/* Bits of `in` that are reached from the bits of `from` through neighbours in `in`; each of `from` lies in `in`. */
INLINE uint64_t run_from(uint64_t from, uint64_t in) { return ((from + in) ^ in) & in; }

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

INLINE uint64_t borders(const uint8_t *p, struct classes c, const struct block_rules r) {
    unsigned known = c.high ? (unsigned)__builtin_ctzll(c.high) : 64;
    const uint64_t in = known == 64 ? ~(uint64_t)0 : ((uint64_t)1 << known) - 1;
    const uint64_t L = c.letter & in, N = c.digit & in, SP = c.space & in, LE = c.line_end & in;
    const uint64_t S = SP | (c.blank & in) | LE;
    uint64_t O = in & ~(L | N | S);
    if (!(L | N)) return 1;
    uint64_t taken = 0; /* line ends (and slashes) that the others before them take */
    if (r.line_ends) {
        taken = r.slash_tail && c.slash ? tails(O << 1 & LE, LE | (c.slash & in)) : run_from(O << 1 & LE, LE);
        O &= ~taken;
    }
    const uint64_t W = S & ~taken, text = L | N | O;
    const uint64_t alone = O & ~(O << 1) & ~(O >> 1) & ~(SP << 1); /* one other, that no space takes */
    uint64_t starts = (W & ~(W << 1)) | (O & ~(O << 1) & ~(SP << 1));
    uint64_t limit_bits = L | N; /* borders behind the last of these are not certain */
    if (r.line_ends) {
        const uint64_t inner = W & ~LE, after = inner & (W & LE) << 1;
        starts |= after | (inner & text >> 1);
        if (((after + inner) & ~inner) & LE) { /* blanks between line ends: the scanner's */
            uint64_t before = (after & -after) - 1;
            limit_bits &= before;
            if (!limit_bits) return 1;
        }
    } else {
        starts |= W & text >> 1;
    }
    uint64_t letter_starts = L & ~(L << 1);
    if (r.cased) letter_starts |= c.capital & L & (L & ~c.capital) << 1;
    const uint64_t prefix = r.any_prefix ? alone | (W & ~LE) : SP;
    letter_starts &= ~(prefix << 1);
    const uint64_t quotes = c.apostrophe & in & (r.contract_after ? L << 1 : r.contract_before ? alone : 0);
    if (quotes) {
        struct contractions k = find_contractions(p, quotes, known, r.exact);
        if (r.contract_before) letter_starts &= ~((k.one | k.two) << 1);
        if (r.contract_after) {
            starts &= ~(k.one | k.two);
            letter_starts &= ~((k.one | k.two) << 1 | k.two << 2);
        }
        starts |= k.one << 2 | k.two << 3;
        if (r.contract_after) /* a word takes one: 's's */
            k.unknown |= (k.one << 2 | k.two << 3) & (k.one | k.two);
        if (k.unknown) {
            limit_bits &= (k.unknown & -k.unknown) - 1;
            if (!limit_bits) return 1;
        }
    }
    uint64_t number_starts = digit_starts(N, r.digits_max);
    if (!r.digits_max) number_starts &= ~(SP << 1);
    starts |= letter_starts | number_starts;
    unsigned last = 63 - (unsigned)__builtin_clzll(limit_bits);
    return (starts & (((uint64_t)2 << last) - 1)) | 1;
}

__attribute__((target("avx512f,avx512bw,bmi,bmi2,lzcnt"))) INLINE struct classes classes_avx512(const uint8_t *p) {
    const __m512i rows = _mm512_broadcast_i32x4(_mm_setr_epi8(HIGH_ROWS));
    const __m512i columns = _mm512_broadcast_i32x4(_mm_setr_epi8(LOW_COLUMNS));
    const __m512i low = _mm512_set1_epi8(15);
    __m512i x = _mm512_loadu_si512(p);
    __m512i high = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
    __m512i bits =
        _mm512_and_si512(_mm512_shuffle_epi8(rows, high), _mm512_shuffle_epi8(columns, _mm512_and_si512(x, low)));
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

struct half {
    __m256i x, bits;
};

__attribute__((target("avx2,bmi,bmi2,lzcnt"))) INLINE struct half classify_half(const uint8_t *p) {
    const __m256i rows = _mm256_broadcastsi128_si256(_mm_setr_epi8(HIGH_ROWS));
    const __m256i columns = _mm256_broadcastsi128_si256(_mm_setr_epi8(LOW_COLUMNS));
    const __m256i low = _mm256_set1_epi8(15);
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
    return (struct half){
        x, _mm256_and_si256(_mm256_shuffle_epi8(rows, high), _mm256_shuffle_epi8(columns, _mm256_and_si256(x, low)))};
}

/* The bytes whose bit `shift` places below the sign is set. */
__attribute__((target("avx2,bmi,bmi2,lzcnt"))) INLINE uint64_t mask_of(__m256i a, __m256i b, int shift) {
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(a, shift));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(b, shift));
    return (uint64_t)high << 32 | low;
}

__attribute__((target("avx2,bmi,bmi2,lzcnt"))) INLINE struct classes classes_avx2(const uint8_t *p) {
    struct half a = classify_half(p), b = classify_half(p + 32);
    const __m256i slash = _mm256_set1_epi8('/');
    return (struct classes){.letter = mask_of(a.bits, b.bits, 7) | mask_of(a.bits, b.bits, 6),
                            .capital = ~mask_of(a.x, b.x, 2),
                            .digit = mask_of(a.bits, b.bits, 5),
                            .space = mask_of(a.bits, b.bits, 4),
                            .blank = mask_of(a.bits, b.bits, 3),
                            .line_end = mask_of(a.bits, b.bits, 2),
                            .apostrophe = mask_of(a.bits, b.bits, 1),
                            .slash = mask_of(_mm256_cmpeq_epi8(a.x, slash), _mm256_cmpeq_epi8(b.x, slash), 0),
                            .high = mask_of(a.x, b.x, 0)};
}

#define BLOCK_SCANNER(name, ...)                                                                                       \
    __attribute__((target("avx512f,avx512bw,bmi,bmi2,lzcnt"))) static uint64_t name##_avx512(const uint8_t *p) {       \
        return borders(p, classes_avx512(p), (struct block_rules){__VA_ARGS__});                                       \
    }                                                                                                                  \
    __attribute__((target("avx2,bmi,bmi2,lzcnt"))) static uint64_t name##_avx2(const uint8_t *p) {                     \
        return borders(p, classes_avx2(p), (struct block_rules){__VA_ARGS__});                                         \
    }

BLOCK_SCANNER(gpt2, .contract_before = true, .exact = true)
BLOCK_SCANNER(llama3, .digits_max = 3, .any_prefix = true, .line_ends = true, .contract_before = true)
BLOCK_SCANNER(qwen2, .digits_max = 1, .any_prefix = true, .line_ends = true, .contract_before = true)
BLOCK_SCANNER(o200k, .digits_max = 3, .any_prefix = true, .line_ends = true, .slash_tail = true, .cased = true,
              .contract_after = true)
BLOCK_SCANNER(tekken, .digits_max = 1, .any_prefix = true, .line_ends = true, .slash_tail = true, .cased = true)

/* Marks are above 127: in a block, Qwen 3.5's pattern is Qwen 2's. */
static const struct {
    scan_fn *scan;
    scan_block_fn *avx512, *avx2;
} BLOCK_SCANNERS[] = {{scan_gpt2, gpt2_avx512, gpt2_avx2},    {scan_llama3, llama3_avx512, llama3_avx2},
                      {scan_qwen2, qwen2_avx512, qwen2_avx2}, {scan_qwen35, qwen2_avx512, qwen2_avx2},
                      {scan_o200k, o200k_avx512, o200k_avx2}, {scan_tekken, tekken_avx512, tekken_avx2}};

/* clang's __builtin_cpu_supports does not know it. */
static bool has_lzcnt(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && c & bit_LZCNT;
}

scan_block_fn *scan_block_find(scan_fn *scan) {
    bool bits = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_lzcnt();
    for (size_t i = 0; i < ARRAY_LEN(BLOCK_SCANNERS) && bits; i++) {
        if (BLOCK_SCANNERS[i].scan != scan) continue;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return BLOCK_SCANNERS[i].avx512;
        if (__builtin_cpu_supports("avx2")) return BLOCK_SCANNERS[i].avx2;
    }
    return NULL;
}

#else

scan_block_fn *scan_block_find(scan_fn *scan) {
    (void)scan;
    return NULL;
}

#endif
