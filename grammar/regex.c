/*
 * regex.c - a recursive reader of patterns; the depth of groups is bounded by the builder's limit.
 */
#include "grammar/regex.h"

#include "base/utf8.h"
#include "text/unicode.h"

enum { BEGIN = 0x110000, END = 0x110001, CODE_MAX = 0x10ffff, REPEAT_MAX = 100000 };

struct reader {
    struct builder *b;
    const uint8_t *start, *at, *end;
    uint32_t depth;
    bool fold;    /* letters stand for both cases */
    bool dot_all; /* '.' is also a line end */
    /* What stands in front of and behind a sequence outside of groups; lookarounds see as far as it. */
    uint32_t head, tail;
    bool sees_before, sees_after; /* head (tail) is all that stands there */
    bool pinned;                  /* in front of a sequence stands the text's beginning alone */
    uint32_t lookarounds;         /* that are open */
    struct error *err;
    int rc;
};

static uint32_t fail(struct reader *r, int code, const char *what) {
    if (!r->rc)
        r->rc = error_set(r->err, code, "%s at byte %zu of the pattern", what,
                          (size_t)(r->at - r->start));
    return expr_never(r->b);
}

static bool skip_text(struct reader *r, const char *text) {
    size_t len = strlen(text);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len) != 0)
        return false;
    r->at += len;
    return true;
}

static uint32_t take_code(struct reader *r) {
    uint32_t cp = 0;
    size_t len = utf8_decode(r->at, (size_t)(r->end - r->at), &cp);
    if (!len) {
        fail(r, ERR_INVALID, "bytes that are not UTF-8");
        r->at = r->end;
        return 0;
    }
    r->at += len;
    return cp;
}

/* ---- sets of characters ---- */

static const struct code_range DIGITS[] = {{'0', '9'}};
static const struct code_range WORDS[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct code_range SPACES[] = {
    {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const struct code_range LINE_ENDS[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

/* The other case of ASCII letters. */
static void add_other_case(code_range_vec *v) {
    static const uint8_t FIRST[] = {'A', 'a'};
    for (size_t i = 0, count = v->count; i < count; i++)
        for (size_t k = 0; k < 2; k++) {
            uint32_t lo = MAX(v->items[i].lo, FIRST[k]), hi = MIN(v->items[i].hi, FIRST[k] + 25u);
            if (lo <= hi)
                vec_push(v, ((struct code_range){lo ^ 32, hi ^ 32}));
        }
}

static void add_ranges(code_range_vec *v, const struct code_range *ranges, size_t count,
                       bool outside) {
    code_range_vec set = {0};
    for (size_t i = 0; i < count; i++)
        vec_push(&set, ranges[i]);
    if (outside)
        code_ranges_complement(&set);
    for (size_t i = 0; i < set.count; i++)
        vec_push(v, set.items[i]);
    vec_release(&set);
}

/* \d and its like; false when the letter is none of them. */
static bool add_class_letter(code_range_vec *v, uint8_t letter) {
    switch (letter) {
    case 'd':
    case 'D': add_ranges(v, DIGITS, ARRAY_LEN(DIGITS), letter == 'D'); return true;
    case 'w':
    case 'W': add_ranges(v, WORDS, ARRAY_LEN(WORDS), letter == 'W'); return true;
    case 's':
    case 'S': add_ranges(v, SPACES, ARRAY_LEN(SPACES), letter == 'S'); return true;
    default: return false;
    }
}

/* Exactly `digits` hex digits, or nothing is taken. */
static bool take_hex(struct reader *r, size_t digits, uint32_t *out) {
    uint32_t value = 0;
    if ((size_t)(r->end - r->at) < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        int digit = hex_value(r->at[i]);
        if (digit < 0)
            return false;
        value = value << 4 | (uint32_t)digit;
    }
    r->at += digits;
    *out = value;
    return true;
}

/* Behind "\u". */
static uint32_t take_unicode_escape(struct reader *r) {
    uint32_t cp = 0, low = 0;
    if (skip_text(r, "{")) {
        size_t digits = 0;
        while (digits < 6 && r->at + digits < r->end && hex_value(r->at[digits]) >= 0)
            digits++;
        if (digits && take_hex(r, digits, &cp) && cp <= CODE_MAX && skip_text(r, "}"))
            return cp;
        return fail(r, ERR_INVALID, "a bad \\u{...}");
    }
    if (!take_hex(r, 4, &cp))
        return 'u';
    const uint8_t *before = r->at;
    if (cp >= 0xD800 && cp < 0xDC00 && skip_text(r, "\\u") && take_hex(r, 4, &low) &&
        low >= 0xDC00 && low < 0xE000)
        return 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    r->at = before;
    return cp;
}

/* The character of an escape, behind its backslash; class letters are not for here. */
static uint32_t take_escaped(struct reader *r) {
    uint32_t cp = take_code(r), value;
    switch (cp) {
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    case 'f': return '\f';
    case 'v': return '\v';
    case '0': return 0;
    case 'x': return take_hex(r, 2, &value) ? value : 'x';
    case 'u': return take_unicode_escape(r);
    case 'c':
        if (r->at < r->end && ((*r->at | 32) >= 'a' && (*r->at | 32) <= 'z'))
            return *r->at++ & 31;
        return fail(r, ERR_INVALID, "a bad \\c");
    default: return cp;
    }
}

/* General categories of Unicode 16, by both of their names, and what ECMA-262 makes of them. */
enum {
    UNICODE_Z = 1 << UNICODE_ZS | 1 << UNICODE_ZL | 1 << UNICODE_ZP,
    UNICODE_C =
        1 << UNICODE_CC | 1 << UNICODE_CF | 1 << UNICODE_CS | 1 << UNICODE_CO | 1 << UNICODE_CN,
    UNICODE_ANY = UNICODE_L | UNICODE_M | UNICODE_N | UNICODE_P | UNICODE_S | UNICODE_Z | UNICODE_C,
};
static const struct {
    const char *brief, *name;
    uint32_t set;
} PROPERTIES[] = {
    {"L", "Letter", UNICODE_L},
    {"LC", "Cased_Letter", 1 << UNICODE_LU | 1 << UNICODE_LL | 1 << UNICODE_LT},
    {"Lu", "Uppercase_Letter", 1 << UNICODE_LU},
    {"Ll", "Lowercase_Letter", 1 << UNICODE_LL},
    {"Lt", "Titlecase_Letter", 1 << UNICODE_LT},
    {"Lm", "Modifier_Letter", 1 << UNICODE_LM},
    {"Lo", "Other_Letter", 1 << UNICODE_LO},
    {"M", "Mark", UNICODE_M},
    {"M", "Combining_Mark", UNICODE_M},
    {"Mn", "Nonspacing_Mark", 1 << UNICODE_MN},
    {"Mc", "Spacing_Mark", 1 << UNICODE_MC},
    {"Me", "Enclosing_Mark", 1 << UNICODE_ME},
    {"N", "Number", UNICODE_N},
    {"Nd", "Decimal_Number", 1 << UNICODE_ND},
    {"Nd", "digit", 1 << UNICODE_ND},
    {"Nl", "Letter_Number", 1 << UNICODE_NL},
    {"No", "Other_Number", 1 << UNICODE_NO},
    {"P", "Punctuation", UNICODE_P},
    {"P", "punct", UNICODE_P},
    {"Pc", "Connector_Punctuation", 1 << UNICODE_PC},
    {"Pd", "Dash_Punctuation", 1 << UNICODE_PD},
    {"Ps", "Open_Punctuation", 1 << UNICODE_PS},
    {"Pe", "Close_Punctuation", 1 << UNICODE_PE},
    {"Pi", "Initial_Punctuation", 1 << UNICODE_PI},
    {"Pf", "Final_Punctuation", 1 << UNICODE_PF},
    {"Po", "Other_Punctuation", 1 << UNICODE_PO},
    {"S", "Symbol", UNICODE_S},
    {"Sm", "Math_Symbol", 1 << UNICODE_SM},
    {"Sc", "Currency_Symbol", 1 << UNICODE_SC},
    {"Sk", "Modifier_Symbol", 1 << UNICODE_SK},
    {"So", "Other_Symbol", 1 << UNICODE_SO},
    {"Z", "Separator", UNICODE_Z},
    {"Zs", "Space_Separator", 1 << UNICODE_ZS},
    {"Zl", "Line_Separator", 1 << UNICODE_ZL},
    {"Zp", "Paragraph_Separator", 1 << UNICODE_ZP},
    {"C", "Other", UNICODE_C},
    {"Cc", "Control", 1 << UNICODE_CC},
    {"Cc", "cntrl", 1 << UNICODE_CC},
    {"Cf", "Format", 1 << UNICODE_CF},
    {"Cs", "Surrogate", 1 << UNICODE_CS},
    {"Co", "Private_Use", 1 << UNICODE_CO},
    {"Cn", "Unassigned", 1 << UNICODE_CN},
    {"Any", "Any", UNICODE_ANY},
    {"Assigned", "Assigned", UNICODE_ANY & ~(1 << UNICODE_CN)},
};

/* The set that a name between braces means; 0: none. */
static uint32_t property_set(struct bytes name) {
    for (size_t i = 0; i < ARRAY_LEN(PROPERTIES); i++)
        if (bytes_equal(name, bytes_str(PROPERTIES[i].brief)) ||
            bytes_equal(name, bytes_str(PROPERTIES[i].name)))
            return PROPERTIES[i].set;
    return 0;
}

/* \p{L}, \p{Lu}, \p{Letter}, \p{gc=Lu}, \p{ASCII}, ... */
static bool add_property(struct reader *r, code_range_vec *v, bool outside) {
    const uint8_t *begin = r->at;
    bool braces = skip_text(r, "{");
    (void)(braces && (skip_text(r, "General_Category=") || skip_text(r, "gc=")));
    struct bytes name = bytes_of(r->at, 0);
    while (braces && r->at < r->end && *r->at != '}')
        r->at++;
    name.len = (size_t)(r->at - name.data);
    if (!braces || !skip_text(r, "}"))
        name.len = 0;
    uint32_t set = property_set(name);
    bool ascii = bytes_equal(name, bytes_str("ASCII"));
    if (!set && !ascii) {
        r->at = begin;
        fail(r, ERR_UNSUPPORTED, "an unknown property in \\p");
        return false;
    }
    unicode_init();
    for (uint32_t cp = 0; cp <= CODE_MAX; cp++) {
        uint32_t first = cp;
        while (cp <= CODE_MAX && (ascii ? cp < 0x80 : unicode_in(cp, set)) != outside)
            cp++;
        if (cp > first)
            vec_push(v, ((struct code_range){first, cp - 1}));
    }
    return true;
}

/* One member of [...]: a character (*single) or a class that is added to v. */
static bool take_class_member(struct reader *r, code_range_vec *v, uint32_t *single) {
    if (!skip_text(r, "\\")) {
        *single = take_code(r);
        return true;
    }
    if (r->at >= r->end) {
        fail(r, ERR_INVALID, "a lone backslash");
        return false;
    }
    if (add_class_letter(v, *r->at)) {
        r->at++;
        return false;
    }
    if (skip_text(r, "p") || skip_text(r, "P")) {
        (void)add_property(r, v, r->at[-1] == 'P');
        return false;
    }
    if (skip_text(r, "b")) {
        *single = '\b';
        return true;
    }
    *single = take_escaped(r);
    return true;
}

static uint32_t read_class(struct reader *r) {
    code_range_vec v = {0};
    bool outside = skip_text(r, "^");
    while (!r->rc && !skip_text(r, "]")) {
        uint32_t lo, hi;
        if (r->at >= r->end) {
            fail(r, ERR_INVALID, "a class without ]");
            break;
        }
        if (!take_class_member(r, &v, &lo))
            continue;
        hi = lo;
        if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            if (!take_class_member(r, &v, &hi)) {
                vec_push(&v, ((struct code_range){'-', '-'}));
                hi = lo;
            }
        }
        if (hi < lo)
            fail(r, ERR_INVALID, "a range whose end is before its beginning");
        vec_push(&v, ((struct code_range){lo, hi}));
    }
    if (r->fold)
        add_other_case(&v);
    if (outside)
        code_ranges_complement(&v);
    uint32_t e = r->rc ? expr_never(r->b) : expr_chars(r->b, v.items, v.count);
    vec_release(&v);
    return e;
}

/* ---- the grammar of patterns ---- */

static uint32_t read_alternatives(struct reader *r);

static uint32_t one_char(struct reader *r, uint32_t cp) {
    return expr_chars(r->b, &(struct code_range){cp, cp}, 1);
}

/* A character as a pattern has it. */
static uint32_t letter_of(struct reader *r, uint32_t cp) {
    uint32_t other = cp ^ 32;
    bool letter = cp < 0x80 && (cp | 32) >= 'a' && (cp | 32) <= 'z';
    if (!r->fold || !letter)
        return one_char(r, cp);
    return expr_chars(r->b, (struct code_range[]){{cp, cp}, {other, other}}, 2);
}

static uint32_t read_escape(struct reader *r) {
    code_range_vec v = {0};
    uint32_t e;
    if (r->at >= r->end)
        return fail(r, ERR_INVALID, "a lone backslash");
    uint8_t letter = *r->at;
    if (letter == 'b' || letter == 'B')
        return fail(r, ERR_UNSUPPORTED, "a word boundary");
    if ((letter >= '1' && letter <= '9') || letter == 'k')
        return fail(r, ERR_UNSUPPORTED, "a backreference");
    if (letter == 'A' || letter == 'z' || letter == 'Z') {
        r->at++;
        return one_char(r, letter == 'A' ? BEGIN : END);
    }
    if (letter == 'p' || letter == 'P') {
        r->at++;
        (void)add_property(r, &v, letter == 'P');
        e = expr_chars(r->b, v.items, v.count);
    } else if (add_class_letter(&v, letter)) {
        r->at++;
        e = expr_chars(r->b, v.items, v.count);
    } else {
        e = letter_of(r, take_escaped(r));
    }
    vec_release(&v);
    return e;
}

static uint32_t read_group(struct reader *r) {
    if (skip_text(r, "?:")) {
    } else if (skip_text(r, "?<=") || skip_text(r, "?<!")) {
        return fail(r, ERR_UNSUPPORTED, "a lookbehind");
    } else if (skip_text(r, "?=") || skip_text(r, "?!")) {
        return fail(r, ERR_UNSUPPORTED, "a lookahead inside a group");
    } else if (skip_text(r, "?P<") || skip_text(r, "?<")) {
        while (r->at < r->end && *r->at != '>')
            r->at++;
        if (!skip_text(r, ">"))
            return fail(r, ERR_INVALID, "a group's name without >");
    } else if (skip_text(r, "?")) {
        return fail(r, ERR_UNSUPPORTED, "an unknown kind of group");
    }
    if (++r->depth > r->b->limits.depth)
        return fail(r, ERR_LIMIT, "groups nested too deeply");
    uint32_t e = read_alternatives(r);
    r->depth--;
    if (!skip_text(r, ")"))
        return fail(r, ERR_INVALID, "a group without )");
    return e;
}

static uint32_t read_atom(struct reader *r) {
    if (skip_text(r, "("))
        return read_group(r);
    if (skip_text(r, "["))
        return read_class(r);
    if (skip_text(r, "\\"))
        return read_escape(r);
    if (skip_text(r, "^"))
        return one_char(r, BEGIN);
    if (skip_text(r, "$"))
        return one_char(r, END);
    if (skip_text(r, ".")) {
        code_range_vec v = {0};
        add_ranges(&v, LINE_ENDS, r->dot_all ? 0 : ARRAY_LEN(LINE_ENDS), true);
        uint32_t e = expr_chars(r->b, v.items, v.count);
        vec_release(&v);
        return e;
    }
    if (*r->at == '*' || *r->at == '+' || *r->at == '?')
        return fail(r, ERR_INVALID, "a quantifier without anything to repeat");
    return letter_of(r, take_code(r));
}

static bool take_number(struct reader *r, uint32_t *out) {
    const uint8_t *first = r->at;
    uint32_t value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        value = MIN(value * 10 + (uint32_t)(*r->at - '0'), (uint32_t)REPEAT_MAX + 1);
    *out = value;
    return r->at > first;
}

/* {m}, {m,}, {m,n}; anything else is a brace as it stands. */
static bool take_bounds(struct reader *r, uint32_t *min, uint32_t *max) {
    const uint8_t *before = r->at;
    if (skip_text(r, "{") && take_number(r, min)) {
        *max = *min;
        if (skip_text(r, ",") && !take_number(r, max))
            *max = REPEAT_NO_END;
        if (skip_text(r, "}"))
            return true;
    }
    r->at = before;
    return false;
}

static uint32_t read_repeated(struct reader *r) {
    uint32_t e = read_atom(r), min = 1, max = 1;
    while (!r->rc && r->at < r->end) {
        if (skip_text(r, "*"))
            min = 0, max = REPEAT_NO_END;
        else if (skip_text(r, "+"))
            min = 1, max = REPEAT_NO_END;
        else if (skip_text(r, "?"))
            min = 0, max = 1;
        else if (!take_bounds(r, &min, &max))
            break;
        if (min > max)
            return fail(r, ERR_INVALID, "a repetition whose end is below its beginning");
        if (min > REPEAT_MAX || (max != REPEAT_NO_END && max > REPEAT_MAX))
            return fail(r, ERR_LIMIT, "a repetition of more than 100000");
        e = expr_repeat(r->b, e, min, max);
        (void)skip_text(r, "?"); /* lazy: the same language */
    }
    return e;
}

/* Any text, markers included. */
static uint32_t anything(struct builder *b) {
    return expr_repeat(b, expr_chars(b, &(struct code_range){0, END}, 1), 0, REPEAT_NO_END);
}

static uint32_t read_sequence(struct reader *r, bool *bare);

/* What a and b both are, or what a is and b is not. */
static uint32_t combine(struct reader *r, uint32_t a, uint32_t b, bool without) {
    struct dfa first = {0}, second = {0}, both = {0};
    if (r->rc)
        return expr_never(r->b);
    r->rc = expr_to_dfa(r->b, a, &first, r->err);
    if (!r->rc)
        r->rc = expr_to_dfa(r->b, b, &second, r->err);
    if (!r->rc)
        r->rc = without ? dfa_without(&first, &second, &r->b->fuel, &both, r->err)
                        : dfa_and(&first, &second, &r->b->fuel, &both, r->err);
    dfa_release(&first);
    dfa_release(&second);
    return r->rc ? expr_never(r->b) : expr_dfa(r->b, &both, EXPR_DFA);
}

/* The inside of a lookaround, up to its bracket. */
static uint32_t read_inside(struct reader *r, uint32_t head, uint32_t tail) {
    struct reader outer = *r;
    if (r->lookarounds == r->b->limits.depth)
        return fail(r, ERR_LIMIT, "too many lookarounds");
    r->lookarounds++;
    r->head = head;
    r->tail = tail;
    r->sees_before = r->sees_after = false;
    uint32_t e = read_alternatives(r);
    if (!r->rc && !skip_text(r, ")"))
        fail(r, ERR_INVALID, "a group without )");
    r->head = outer.head;
    r->tail = outer.tail;
    r->sees_before = outer.sees_before;
    r->sees_after = outer.sees_after;
    r->lookarounds = outer.lookarounds;
    return e;
}

/* (?=X) Y: what begins with X and is Y up to the end; (?!X) Y: what does not begin with X. pinned:
 * nothing but the beginning of the text stands in front. */
static uint32_t read_lookahead(struct reader *r, bool negative, bool pinned) {
    struct reader outer = *r;
    if (!r->sees_after)
        return fail(r, ERR_UNSUPPORTED, "a lookahead inside a lookbehind or a lookahead");
    uint32_t x = read_inside(r, expr_empty(r->b), anything(r->b));
    r->lookarounds++; /* the rest is read inside of this one */
    r->head = expr_empty(r->b);
    r->sees_before = pinned;
    uint32_t y = r->lookarounds > r->b->limits.depth ? fail(r, ERR_LIMIT, "too many lookarounds")
                                                     : read_sequence(r, NULL);
    r->head = outer.head;
    r->sees_before = outer.sees_before;
    r->lookarounds = outer.lookarounds;
    return combine(r, y, x, negative);
}

/* W (?<=X): what is W, from the head on, and ends with X; (?<!X): what does not end with X. */
static uint32_t read_lookbehind(struct reader *r, bool negative, uint32_t w) {
    if (!r->sees_before)
        return fail(r, ERR_UNSUPPORTED, "a lookbehind behind or inside a lookahead");
    return combine(r, w, read_inside(r, anything(r->b), expr_empty(r->b)), negative);
}

/* Outside of groups it has its head and its tail; *bare: it looks around nowhere, and both are left to
 * the caller (NULL: never). */
static uint32_t read_sequence(struct reader *r, bool *bare) {
    VEC(uint32_t) terms = {0};
    bool top = r->depth == 0, begun = false, pinned = r->sees_before && r->pinned, ends = !top;
    bool looks = !bare;
    if (top)
        vec_push(&terms, r->head);
    while (!r->rc && r->at < r->end && *r->at != '|' && *r->at != ')') {
        if (top && (skip_text(r, "(?=") || skip_text(r, "(?!"))) {
            bool negative = r->at[-1] == '!';
            uint32_t e = read_lookahead(r, negative, !begun && pinned);
            vec_push(&terms, e);
            ends = looks = true;
            break;
        }
        if (top && (skip_text(r, "(?<=") || skip_text(r, "(?<!"))) {
            bool negative = r->at[-1] == '!';
            uint32_t e = expr_concat(r->b, terms.items, terms.count);
            terms.count = 0;
            e = read_lookbehind(r, negative, e);
            vec_push(&terms, e);
            looks = true;
            continue;
        }
        pinned |= *r->at == '^' && r->sees_before;
        begun |= *r->at != '^';
        uint32_t e = read_repeated(r);
        vec_push(&terms, e);
    }
    if (!ends && looks)
        vec_push(&terms, r->tail);
    size_t from = top && !looks; /* the head */
    uint32_t e = terms.count > from ? expr_concat(r->b, &terms.items[from], terms.count - from)
                                    : expr_empty(r->b);
    vec_release(&terms);
    if (bare)
        *bare = top && !looks;
    return e;
}

/* Alternatives that look around nowhere share one head and one tail: of `a|b|c` searched for, an
 * automaton would else tell apart which of them were there. */
static uint32_t read_alternatives(struct reader *r) {
    VEC(uint32_t) terms = {0};
    VEC(uint32_t) bare = {0};
    do {
        bool is_bare;
        uint32_t e = read_sequence(r, &is_bare);
        if (is_bare)
            vec_push(&bare, e);
        else
            vec_push(&terms, e);
    } while (!r->rc && skip_text(r, "|"));
    if (bare.count) {
        uint32_t any = expr_alt(r->b, bare.items, bare.count);
        any = expr_concat(r->b, (uint32_t[]){r->head, any, r->tail}, 3);
        vec_push(&terms, any);
    }
    uint32_t e = expr_alt(r->b, terms.items, terms.count);
    vec_release(&terms);
    vec_release(&bare);
    return e;
}

/* The texts s for which d accepts BEGIN s END. */
static int strip_markers(struct builder *b, const struct dfa *d, struct dfa *out,
                         struct error *err) {
    struct nfa n = {0};
    uint32_t first = dfa_step(d, 0, BEGIN);
    for (uint32_t i = 0; i < d->states.count; i++)
        (void)nfa_state(&n);
    uint32_t start = nfa_state(&n);
    if (first != FA_NONE)
        nfa_free_edge(&n, start, first);
    for (uint32_t i = 0; i < d->states.count; i++) {
        const struct dfa_state *s = &d->states.items[i];
        uint32_t last = dfa_step(d, i, END);
        if (last != FA_NONE && d->states.items[last].label != FA_NONE)
            n.labels.items[i] = 0;
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
            if (edge->lo <= CODE_MAX)
                nfa_edge(&n, i, edge->lo, MIN(edge->hi, (uint32_t)CODE_MAX), edge->to);
        }
    }
    int rc = dfa_from_nfa(&n, start, &b->fuel, out, err);
    nfa_release(&n);
    return rc;
}

/* (?is) in front of a pattern. */
static void read_flags(struct reader *r) {
    const uint8_t *before = r->at;
    if (!skip_text(r, "(?"))
        return;
    for (; r->at < r->end && strchr("isu", *r->at); r->at++) {
        r->fold |= *r->at == 'i';
        r->dot_all |= *r->at == 's';
    }
    if (r->at > before + 2 && skip_text(r, ")"))
        return;
    r->at = before;
    r->fold = r->dot_all = false;
}

int regex_to_dfa(struct builder *b, struct bytes pattern, bool whole, struct dfa *out,
                 struct error *err) {
    if (!pattern.len) /* null and zero: clang's sanitizer objects to a sum of them */
        pattern.data = (const uint8_t *)"";
    struct reader r = {.b = b,
                       .start = pattern.data,
                       .at = pattern.data,
                       .end = pattern.data + pattern.len,
                       .err = err};
    struct dfa marked;
    *out = (struct dfa){0};
    read_flags(&r);
    uint32_t begin = expr_repeat(b, one_char(&r, BEGIN), 0, 1);
    uint32_t end = expr_repeat(b, one_char(&r, END), 0, 1);
    r.head = whole ? begin : anything(b);
    r.tail = whole ? end : anything(b);
    r.sees_before = r.sees_after = true;
    r.pinned = whole;
    uint32_t e = read_alternatives(&r);
    if (!r.rc && r.at < r.end)
        fail(&r, ERR_INVALID, "a ) without its group");
    if (!r.rc && b->failed)
        r.rc = error_set(err, b->error.code, "%s", b->error.text);
    if (r.rc)
        return r.rc;
    int rc = expr_to_dfa(b, e, &marked, err);
    if (rc)
        return rc;
    rc = strip_markers(b, &marked, out, err);
    dfa_release(&marked);
    return rc;
}
