/*
 * spell.c - ranges of code points as automata over bytes: UTF-8, and the escapes of JSON strings.
 *
 * A range is cut where the number of bytes (or of hex digits that stay fixed) changes; each piece
 * is one chain of ranges of bytes.
 */
#include "grammar/build.h"

/* Bytes first[i] to last[i] at place i. */
static void add_chain(struct nfa *n, uint32_t from, const uint8_t *first, const uint8_t *last,
                      size_t count, uint32_t to) {
    for (size_t i = 0; i < count; i++) {
        uint32_t next = i + 1 < count ? nfa_state(n) : to;
        nfa_edge(n, from, first[i], last[i], next);
        from = next;
    }
}

/* lo and hi have the same length in UTF-8. Where their heads differ the range is cut so that all
 * bytes behind the one that varies run over their whole range. */
static void add_utf8_of_length(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, int length,
                               uint32_t to) {
    static const uint8_t HEAD[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int tail = 1; tail < length; tail++) {
        uint32_t mask = (1u << (6 * tail)) - 1;
        if ((lo & ~mask) == (hi & ~mask))
            break;
        if (lo & mask) {
            add_utf8_of_length(n, from, lo, lo | mask, length, to);
            add_utf8_of_length(n, from, (lo | mask) + 1, hi, length, to);
            return;
        }
        if ((hi & mask) != mask) {
            add_utf8_of_length(n, from, lo, (hi & ~mask) - 1, length, to);
            add_utf8_of_length(n, from, hi & ~mask, hi, length, to);
            return;
        }
    }
    uint8_t first[4], last[4];
    for (int i = length - 1; i > 0; i--, lo >>= 6, hi >>= 6) {
        first[i] = 0x80 | (lo & 0x3F);
        last[i] = 0x80 | (hi & 0x3F);
    }
    first[0] = (uint8_t)(HEAD[length] | lo);
    last[0] = (uint8_t)(HEAD[length] | hi);
    add_chain(n, from, first, last, (size_t)length, to);
}

void nfa_add_utf8(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
    static const struct code_range PIECES[] = {
        {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
    static const int LENGTHS[] = {1, 2, 3, 3, 4};
    for (size_t i = 0; i < ARRAY_LEN(PIECES); i++) {
        uint32_t a = MAX(lo, PIECES[i].lo), b = MIN(hi, PIECES[i].hi);
        if (a <= b)
            add_utf8_of_length(n, from, a, b, LENGTHS[i], to);
    }
}

/* Hex digits lo to hi of one place, either case. */
static void add_digit(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
    if (lo < 10)
        nfa_edge(n, from, '0' + lo, '0' + MIN(hi, 9u), to);
    if (hi >= 10) {
        uint32_t first = MAX(lo, 10u) - 10, last = hi - 10;
        nfa_edge(n, from, 'a' + first, 'a' + last, to);
        nfa_edge(n, from, 'A' + first, 'A' + last, to);
    }
}

/* The numbers lo to hi in `digits` hex digits. */
static void add_hex(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, int digits,
                    uint32_t to) {
    for (int tail = 1; tail < digits; tail++) {
        uint32_t mask = (1u << (4 * tail)) - 1;
        if ((lo & ~mask) == (hi & ~mask))
            break;
        if (lo & mask) {
            add_hex(n, from, lo, lo | mask, digits, to);
            add_hex(n, from, (lo | mask) + 1, hi, digits, to);
            return;
        }
        if ((hi & mask) != mask) {
            add_hex(n, from, lo, (hi & ~mask) - 1, digits, to);
            add_hex(n, from, hi & ~mask, hi, digits, to);
            return;
        }
    }
    for (int i = digits - 1; i >= 0; i--) {
        uint32_t next = i ? nfa_state(n) : to;
        add_digit(n, from, lo >> (4 * i) & 15, hi >> (4 * i) & 15, next);
        from = next;
    }
}

static uint32_t escape_begin(struct nfa *n, uint32_t from) {
    uint32_t slash = nfa_state(n), u = nfa_state(n);
    nfa_edge(n, from, '\\', '\\', slash);
    nfa_edge(n, slash, 'u', 'u', u);
    return u;
}

/* Code points past 0xFFFF as a pair of surrogates. */
static void add_pairs(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
    uint32_t high_lo = 0xD800 + ((lo - 0x10000) >> 10), high_hi = 0xD800 + ((hi - 0x10000) >> 10);
    uint32_t low_lo = 0xDC00 + (lo & 0x3FF), low_hi = 0xDC00 + (hi & 0x3FF);
    if (high_lo != high_hi && low_lo != 0xDC00) {
        add_pairs(n, from, lo, lo | 0x3FF, to);
        add_pairs(n, from, (lo | 0x3FF) + 1, hi, to);
        return;
    }
    if (high_lo != high_hi && low_hi != 0xDFFF) {
        add_pairs(n, from, lo, (hi & ~0x3FFu) - 1, to);
        add_pairs(n, from, hi & ~0x3FFu, hi, to);
        return;
    }
    uint32_t high = escape_begin(n, from), between = nfa_state(n);
    add_hex(n, high, high_lo, high_hi, 4, between);
    add_hex(n, escape_begin(n, between), low_lo, low_hi, 4, to);
}

static void add_short_escapes(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
    static const struct {
        char letter;
        uint8_t cp;
    } ESCAPES[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'b', '\b'},
                   {'f', '\f'}, {'n', '\n'},  {'r', '\r'}, {'t', '\t'}};
    uint32_t slash = FA_NONE;
    for (size_t i = 0; i < ARRAY_LEN(ESCAPES); i++) {
        if (ESCAPES[i].cp < lo || ESCAPES[i].cp > hi)
            continue;
        if (slash == FA_NONE) {
            slash = nfa_state(n);
            nfa_edge(n, from, '\\', '\\', slash);
        }
        nfa_edge(n, slash, (uint8_t)ESCAPES[i].letter, (uint8_t)ESCAPES[i].letter, to);
    }
}

void nfa_add_quoted(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
    static const struct code_range PLAIN[] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x7F}, {0x80, 0x10FFFF}};
    static const struct code_range ESCAPED[] = {{0, 0x1F}, {0x7F, 0xD7FF}, {0xE000, 0xFFFF}};
    for (size_t i = 0; i < ARRAY_LEN(PLAIN); i++)
        if (MAX(lo, PLAIN[i].lo) <= MIN(hi, PLAIN[i].hi))
            nfa_add_utf8(n, from, MAX(lo, PLAIN[i].lo), MIN(hi, PLAIN[i].hi), to);
    add_short_escapes(n, from, lo, hi, to);
    for (size_t i = 0; i < ARRAY_LEN(ESCAPED); i++)
        if (MAX(lo, ESCAPED[i].lo) <= MIN(hi, ESCAPED[i].hi))
            add_hex(n, escape_begin(n, from), MAX(lo, ESCAPED[i].lo), MIN(hi, ESCAPED[i].hi), 4,
                    to);
    if (hi >= 0x10000)
        add_pairs(n, from, MAX(lo, 0x10000u), hi, to);
}
