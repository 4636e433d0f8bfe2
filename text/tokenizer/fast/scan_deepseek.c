/*
 * scan_deepseek.c - the three stages of DeepSeek V3's splitter in one scanner: digits, then Asian
 * characters, then words, signs and spaces in what is between. Each stage sees the pieces of the
 * one before it, so text ends where digits begin and where Asian characters begin or end. The last
 * does not match everything: characters such as controls are a piece as far as nothing matches.
 */
#include "text/tokenizer/fast/scan.h"
#include "text/unicode.h"

const char *const SCAN_DEEPSEEK3_STAGES[3] = {SCAN_DEEPSEEK3_DIGITS, SCAN_DEEPSEEK3_ASIAN,
                                              SCAN_DEEPSEEK3_REST};

enum kind { LETTER, SIGN, SPACE, LINE_END, DIGIT, OTHER, END };

static enum kind kind_of(uint32_t cp) {
    if (cp == '\r' || cp == '\n')
        return LINE_END;
    unsigned class = unicode_class(cp), category = 1u << (class & UNICODE_CATEGORY_MASK);
    if (class & UNICODE_IS_SPACE)
        return SPACE;
    if (category & (UNICODE_L | UNICODE_M))
        return LETTER;
    if (category & (UNICODE_P | UNICODE_S))
        return SIGN;
    return category & UNICODE_N ? DIGIT : OTHER;
}

/* What the last stage looks at: up to a digit, or where `asian` changes. */
struct text {
    const uint8_t *end;
    bool asian;
};

static enum kind kind_at(const struct text *t, const uint8_t *p, size_t *len) {
    uint32_t cp;
    *len = 0;
    if (p >= t->end)
        return END;
    *len = unicode_next(p, &cp);
    if (scan_is_deepseek_asian(cp) != t->asian)
        return END;
    enum kind kind = kind_of(cp);
    return kind == DIGIT ? END : kind;
}

static enum kind next_kind(const struct text *t, const uint8_t *p) {
    size_t len;
    return kind_at(t, p, &len);
}

static const uint8_t *run_end(const struct text *t, const uint8_t *p, enum kind kind) {
    for (size_t len; kind_at(t, p, &len) == kind;)
        p += len;
    return p;
}

/* Signs and the line ends behind them. */
static const uint8_t *signs_end(const struct text *t, const uint8_t *p) {
    return run_end(t, run_end(t, p, SIGN), LINE_END);
}

static bool is_ascii_letter(uint8_t c) {
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static const uint8_t *spaces_end(const struct text *t, const uint8_t *p) {
    const uint8_t *at = p, *last = p, *line_end = NULL;
    enum kind kind;
    for (size_t len; (kind = kind_at(t, at, &len)) == SPACE || kind == LINE_END; at += len) {
        last = at;
        if (kind == LINE_END)
            line_end = at + len;
    }
    if (line_end)
        return line_end;
    return kind != END && last > p ? last : at;
}

static const uint8_t *unmatched_end(const struct text *t, const uint8_t *p) {
    size_t len;
    kind_at(t, p, &len);
    for (p += len; kind_at(t, p, &len) == OTHER && next_kind(t, p + len) != LETTER;)
        p += len;
    return p;
}

static const uint8_t *digits_end(const uint8_t *p, const uint8_t *end) {
    uint32_t cp;
    for (int i = 0; i < 3 && p < end; i++) {
        size_t len = unicode_next(p, &cp);
        if (kind_of(cp) != DIGIT)
            break;
        p += len;
    }
    return p;
}

static const uint8_t *piece_end(const uint8_t *p, const uint8_t *end) {
    uint32_t cp;
    size_t len = unicode_next(p, &cp);
    enum kind kind = kind_of(cp);
    if (kind == DIGIT)
        return digits_end(p, end);
    const struct text t = {end, scan_is_deepseek_asian(cp)};
    enum kind next = next_kind(&t, p + len);
    if (kind == LETTER)
        return run_end(&t, p, LETTER);
    if (kind == SIGN && cp < 0x80 && p + 1 < end && is_ascii_letter(p[1])) {
        for (p++; p < end && is_ascii_letter(*p);)
            p++;
        return p;
    }
    if ((kind == SPACE || kind == OTHER) && next == LETTER)
        return run_end(&t, p + len, LETTER);
    if (kind == SIGN)
        return signs_end(&t, p);
    if (cp == ' ' && next == SIGN)
        return signs_end(&t, p + 1);
    return kind == OTHER ? unmatched_end(&t, p) : spaces_end(&t, p);
}

size_t scan_deepseek3(const uint8_t *p, const uint8_t *end) {
    return (size_t)(piece_end(p, end) - p);
}
