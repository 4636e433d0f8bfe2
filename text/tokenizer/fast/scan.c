#include "text/tokenizer/fast/scan.h"

#include "text/unicode.h"

/*
 * All patterns here are alternations tried in order, which a scanner turns into decisions on the
 * first characters:
 *
 *   contraction    (?i:'s|'t|'re|'ve|'m|'ll|'d)
 *   letters        [^\r\n\p{L}\p{N}]?\p{L}+            or, GPT-2: ` ?\p{L}+`; with marks: [\p{L}\p{M}]+
 *   cased letters  o200k and tekken: upper* lower+ or upper+ lower*, where Lm, Lo and M count as both
 *   digits         \p{N}{1,3}, \p{N}, or GPT-2: ` ?\p{N}+`
 *   others         ` ?[^\s\p{L}\p{N}]+[\r\n]*`         tail: none, [\r\n]* or [\r\n/]*
 *   line ends      \s*[\r\n]+                          a run of spaces up to its last line end
 *   spaces         \s+(?!\S)|\s+                       a run, but for its last character when text follows
 */
enum letter_rule { LETTERS, LETTERS_AND_MARKS, LETTERS_CASED };
enum prefix_rule { PREFIX_SPACE, PREFIX_ANY };
enum tail_rule { TAIL_NONE, TAIL_LINE_ENDS, TAIL_LINE_ENDS_SLASH };
enum contraction_rule { CONTRACT_NONE, CONTRACT_BEFORE_EXACT, CONTRACT_BEFORE, CONTRACT_AFTER };

struct rules {
    enum letter_rule letter;
    enum prefix_rule prefix;
    unsigned digits_max; /* 0: any number, with an optional space before */
    enum tail_rule tail;
    enum contraction_rule contraction;
    bool line_ends; /* the `\s*[\r\n]+` alternative */
    bool apart;     /* digits were taken out before: text ends in front of them */
};

enum char_class {
    C_OTHER = 0,
    C_LETTER = 1,
    C_DIGIT = 2,
    C_SPACE = 4,
    C_LINE_END = 8,
    C_MARK = 16,
    C_UPPER = 32,
    C_LOWER = 64
};

#define UPPER_SET                                                                                  \
    (1 << UNICODE_LU | 1 << UNICODE_LT | 1 << UNICODE_LM | 1 << UNICODE_LO | UNICODE_M)
#define LOWER_SET (1 << UNICODE_LL | 1 << UNICODE_LM | 1 << UNICODE_LO | UNICODE_M)

/* clang-format off */
#define X5(v)  v, v, v, v, v
#define X10(v) X5(v), X5(v)
#define X26(v) X10(v), X10(v), X5(v), v
static const uint8_t ASCII_CLASS[128] = {
    X5(0), 0, 0, 0, 0, C_SPACE, C_SPACE | C_LINE_END, C_SPACE, C_SPACE, C_SPACE | C_LINE_END, X10(0), X5(0), 0, 0, 0,
    C_SPACE, X10(0), X5(0), X10(C_DIGIT), X5(0), 0, 0,
    X26(C_LETTER | C_UPPER), X5(0), 0, X26(C_LETTER | C_LOWER), X5(0),
};
/* clang-format on */

static inline unsigned class_of(uint32_t cp) {
    unsigned c = unicode_class(cp), bit = 1u << (c & UNICODE_CATEGORY_MASK), r = 0;
    if (bit & UNICODE_L)
        r |= C_LETTER;
    if (bit & UNICODE_N)
        r |= C_DIGIT;
    if (bit & UNICODE_M)
        r |= C_MARK;
    if (bit & UPPER_SET)
        r |= C_UPPER;
    if (bit & LOWER_SET)
        r |= C_LOWER;
    if (c & UNICODE_IS_SPACE)
        r |= C_SPACE;
    return r;
}

/* Class of the character at p < end and its length. */
static inline unsigned peek(const uint8_t *p, size_t *len) {
    if (*p < 0x80) {
        *len = 1;
        return ASCII_CLASS[*p];
    }
    if (*p >= 0xE5 && *p <= 0xE8) { /* U+5000 to U+8FFF: ideographs */
        *len = 3;
        return C_LETTER | C_UPPER | C_LOWER;
    }
    uint32_t cp;
    *len = unicode_next(p, &cp);
    return class_of(cp);
}

/* End of the run of characters that have one of the bits. */
static inline const uint8_t *skip_any(const uint8_t *p, const uint8_t *end, unsigned bits) {
    while (p < end) {
        size_t len;
        if (!(peek(p, &len) & bits))
            break;
        p += len;
    }
    return p;
}

/* End of the run of characters that have none of the bits. */
static inline const uint8_t *skip_none(const uint8_t *p, const uint8_t *end, unsigned bits) {
    while (p < end) {
        size_t len;
        if (peek(p, &len) & bits)
            break;
        p += len;
    }
    return p;
}

/* Length of a contraction at p (*p is the apostrophe), or 0. U+017F folds to s. */
static inline size_t contraction(const uint8_t *p, const uint8_t *end, bool exact) {
    size_t left = (size_t)(end - p);
    if (left < 2)
        return 0;
    if (!exact && left >= 3 && p[1] == 0xC5 && p[2] == 0xBF)
        return 3;
    uint8_t fold = exact ? 0 : 0x20, a = p[1] | fold, b = left >= 3 ? p[2] | fold : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return 3;
    return 0;
}

/* upper* lower+ at p, or NULL. Greedy upper* gives back characters that are both (Lm, Lo, M) until
 * lower+ has one. */
static inline const uint8_t *cased_lower(const uint8_t *p, const uint8_t *end) {
    const uint8_t *at = p, *last_both = NULL;
    while (at < end) {
        size_t len;
        unsigned c = peek(at, &len);
        if (!(c & C_UPPER))
            break;
        at += len;
        if (c & C_LOWER)
            last_both = at;
    }
    const uint8_t *stop = skip_any(at, end, C_LOWER);
    /* what follows last_both is upper only: lower+ ends there */
    return stop > at ? stop : last_both;
}

/* upper+ lower* at p, or NULL. */
static inline const uint8_t *cased_upper(const uint8_t *p, const uint8_t *end) {
    const uint8_t *at = skip_any(p, end, C_UPPER);
    return at > p ? skip_any(at, end, C_LOWER) : NULL;
}

/* [^\r\n\p{L}\p{N}]? then letters of either case rule; body is p without that prefix, or NULL where
 * there is none. */
static inline const uint8_t *cased_word(const uint8_t *p, const uint8_t *body, const uint8_t *end,
                                        bool contract) {
    const uint8_t *stop = body && body < end ? cased_lower(body, end) : NULL;
    if (!stop)
        stop = cased_lower(p, end);
    if (!stop && body && body < end)
        stop = cased_upper(body, end);
    if (!stop)
        stop = cased_upper(p, end);
    if (stop && contract && stop < end && *stop == '\'')
        stop += contraction(stop, end, false);
    return stop;
}

/* Letters after their prefix rule, or NULL. c and next are the classes at p and at p + len. */
static inline const uint8_t *word(const uint8_t *p, const uint8_t *end, size_t len, unsigned c,
                                  unsigned next, const struct rules r) {
    const unsigned letters = r.letter == LETTERS ? C_LETTER : C_LETTER | C_MARK;
    bool prefix = r.prefix == PREFIX_SPACE ? *p == ' ' : !(c & (C_LETTER | C_DIGIT | C_LINE_END));
    if (!(c & letters) && !(prefix && next & letters))
        return NULL;
    if (r.letter == LETTERS_CASED)
        return cased_word(p, prefix ? p + len : NULL, end, r.contraction == CONTRACT_AFTER);
    return skip_any(p + len, end, letters);
}

static inline const uint8_t *digit_run(const uint8_t *p, const uint8_t *end, unsigned max) {
    if (!max)
        return skip_any(p, end, C_DIGIT);
    size_t len;
    for (unsigned i = 0; i < max && p < end && peek(p, &len) & C_DIGIT; i++)
        p += len;
    return p;
}

static inline const uint8_t *other_run(const uint8_t *p, const uint8_t *end, const struct rules r) {
    p = skip_none(p, end,
                  C_SPACE | C_DIGIT | C_LETTER | (r.letter == LETTERS_AND_MARKS ? C_MARK : 0));
    if (r.tail == TAIL_NONE)
        return p;
    while (p < end && (*p == '\r' || *p == '\n' || (r.tail == TAIL_LINE_ENDS_SLASH && *p == '/')))
        p++;
    return p;
}

/* A run of white space from p. */
static inline const uint8_t *space_run(const uint8_t *p, const uint8_t *end, const struct rules r) {
    const uint8_t *at = p, *last_start = p, *line_end = NULL;
    while (at < end) {
        size_t len;
        unsigned c = peek(at, &len);
        if (r.apart && c & C_DIGIT)
            return at;
        if (!(c & C_SPACE))
            break;
        last_start = at;
        at += len;
        if (c & C_LINE_END)
            line_end = at;
    }
    if (r.line_ends && line_end)
        return line_end;
    return at < end && last_start > p ? last_start : at;
}

static inline size_t scan(const uint8_t *p, const uint8_t *end, const struct rules r) {
    size_t len, next_len = 0;
    unsigned c = peek(p, &len);
    const uint8_t *stop;
    if ((r.contraction == CONTRACT_BEFORE || r.contraction == CONTRACT_BEFORE_EXACT) &&
        *p == '\'') {
        size_t n = contraction(p, end, r.contraction == CONTRACT_BEFORE_EXACT);
        if (n)
            return n;
    }
    unsigned next = p + len < end ? peek(p + len, &next_len) : C_SPACE;
    if ((stop = word(p, end, len, c, next, r)))
        return (size_t)(stop - p);
    if (c & C_DIGIT)
        return (size_t)(digit_run(p, end, r.digits_max) - p);
    if (!r.digits_max && *p == ' ' && next & C_DIGIT)
        return (size_t)(digit_run(p + 1, end, 0) - p);
    const unsigned not_other =
        C_SPACE | C_DIGIT | C_LETTER | (r.letter == LETTERS_AND_MARKS ? C_MARK : 0);
    if (!(c & not_other))
        return (size_t)(other_run(p, end, r) - p);
    if (*p == ' ' && p + 1 < end && !(next & not_other))
        return (size_t)(other_run(p + 1, end, r) - p);
    return (size_t)(space_run(p, end, r) - p);
}

#define SCANNER(name, ...)                                                                         \
    size_t name(const uint8_t *p, const uint8_t *end) {                                            \
        return scan(p, end, (struct rules){__VA_ARGS__});                                          \
    }

size_t scan_gpt2(const uint8_t *p, const uint8_t *end) {
    return scan(
        p, end,
        (struct rules){LETTERS, PREFIX_SPACE, 0, TAIL_NONE, CONTRACT_BEFORE_EXACT, false, false});
}
size_t scan_digits_gpt2(const uint8_t *p, const uint8_t *end) {
    return scan(
        p, end,
        (struct rules){LETTERS, PREFIX_SPACE, 1, TAIL_NONE, CONTRACT_BEFORE_EXACT, false, true});
}
SCANNER(scan_llama3, LETTERS, PREFIX_ANY, 3, TAIL_LINE_ENDS, CONTRACT_BEFORE, true, false)
SCANNER(scan_qwen2, LETTERS, PREFIX_ANY, 1, TAIL_LINE_ENDS, CONTRACT_BEFORE, true, false)
SCANNER(scan_qwen35, LETTERS_AND_MARKS, PREFIX_ANY, 1, TAIL_LINE_ENDS, CONTRACT_BEFORE, true, false)
SCANNER(scan_o200k, LETTERS_CASED, PREFIX_ANY, 3, TAIL_LINE_ENDS_SLASH, CONTRACT_AFTER, true, false)
SCANNER(scan_tekken, LETTERS_CASED, PREFIX_ANY, 1, TAIL_LINE_ENDS_SLASH, CONTRACT_NONE, true, false)

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE       "[^\\r\\n\\p{L}\\p{N}]?"
#define SPACES       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *pattern;
    scan_fn *scan;
} SCANNERS[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     scan_gpt2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", scan_gpt2},
    {"\\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| "
     "?[^\\s\\p{L}\\p{N}]+|\\s+(?=\\p{N})|\\s+(?!\\S)|\\s+",
     scan_digits_gpt2},
    {CONTRACTIONS "|" BEFORE "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     scan_llama3},
    {"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|" BEFORE
     "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     NULL}, /* no U+017F here: left to the regex engine */
    {CONTRACTIONS "|" BEFORE "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES, scan_qwen2},
    {CONTRACTIONS "|" BEFORE "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
     scan_qwen35},
    {BEFORE UPPER "*" LOWER "+" CONTRACTIONS "?|" BEFORE UPPER "+" LOWER "*" CONTRACTIONS
                  "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
     scan_o200k},
    {BEFORE UPPER "*" LOWER "+|" BEFORE UPPER "+" LOWER
                  "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
     scan_tekken},
};

scan_fn *scan_find(struct bytes pattern) {
    for (size_t i = 0; i < ARRAY_LEN(SCANNERS); i++)
        if (bytes_equal(pattern, bytes_str(SCANNERS[i].pattern)))
            return SCANNERS[i].scan;
    return NULL;
}

const char *scan_pattern(size_t idx) {
    return idx < ARRAY_LEN(SCANNERS) ? SCANNERS[idx].pattern : NULL;
}
