/*
 * regex_class.c - characters, escapes and classes of patterns.
 */
#include "grammar/regex_internal.h"

#include "base/utf8.h"
#include "text/unicode.h"

uint32_t regex_fail(struct reader *r, int code, const char *what) {
    if (!r->rc)
        r->rc = error_set(r->err, code, "%s at byte %zu of the pattern", what,
                          (size_t)(r->at - r->start));
    return expr_never(r->b);
}

bool regex_skip(struct reader *r, const char *text) {
    size_t len = strlen(text);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len) != 0)
        return false;
    r->at += len;
    return true;
}

uint32_t regex_code(struct reader *r) {
    uint32_t cp = 0;
    size_t len = utf8_decode(r->at, (size_t)(r->end - r->at), &cp);
    if (!len) {
        regex_fail(r, ERR_INVALID, "bytes that are not UTF-8");
        r->at = r->end;
        return 0;
    }
    r->at += len;
    return cp;
}

static const struct code_range DIGITS[] = {{'0', '9'}};
static const struct code_range WORDS[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct code_range SPACES[] = {
    {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

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

void regex_add_ranges(code_range_vec *v, const struct code_range *ranges, size_t count,
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

bool regex_add_letter(code_range_vec *v, uint8_t letter) {
    switch (letter) {
    case 'd':
    case 'D': regex_add_ranges(v, DIGITS, ARRAY_LEN(DIGITS), letter == 'D'); return true;
    case 'w':
    case 'W': regex_add_ranges(v, WORDS, ARRAY_LEN(WORDS), letter == 'W'); return true;
    case 's':
    case 'S': regex_add_ranges(v, SPACES, ARRAY_LEN(SPACES), letter == 'S'); return true;
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
    if (regex_skip(r, "{")) {
        size_t digits = 0;
        while (digits < 6 && r->at + digits < r->end && hex_value(r->at[digits]) >= 0)
            digits++;
        if (digits && take_hex(r, digits, &cp) && cp <= CODE_MAX && regex_skip(r, "}"))
            return cp;
        return regex_fail(r, ERR_INVALID, "a bad \\u{...}");
    }
    if (!take_hex(r, 4, &cp))
        return 'u';
    const uint8_t *before = r->at;
    if (cp >= 0xD800 && cp < 0xDC00 && regex_skip(r, "\\u") && take_hex(r, 4, &low) &&
        low >= 0xDC00 && low < 0xE000)
        return 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    r->at = before;
    return cp;
}

uint32_t regex_escaped(struct reader *r) {
    uint32_t cp = regex_code(r), value;
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
        return regex_fail(r, ERR_INVALID, "a bad \\c");
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

bool regex_add_property(struct reader *r, code_range_vec *v, bool outside) {
    const uint8_t *begin = r->at;
    bool braces = regex_skip(r, "{");
    (void)(braces && (regex_skip(r, "General_Category=") || regex_skip(r, "gc=")));
    struct bytes name = bytes_of(r->at, 0);
    while (braces && r->at < r->end && *r->at != '}')
        r->at++;
    name.len = (size_t)(r->at - name.data);
    if (!braces || !regex_skip(r, "}"))
        name.len = 0;
    uint32_t set = property_set(name);
    bool ascii = bytes_equal(name, bytes_str("ASCII"));
    if (!set && !ascii) {
        r->at = begin;
        regex_fail(r, ERR_UNSUPPORTED, "an unknown property in \\p");
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
    if (!regex_skip(r, "\\")) {
        *single = regex_code(r);
        return true;
    }
    if (r->at >= r->end) {
        regex_fail(r, ERR_INVALID, "a lone backslash");
        return false;
    }
    if (regex_add_letter(v, *r->at)) {
        r->at++;
        return false;
    }
    if (regex_skip(r, "p") || regex_skip(r, "P")) {
        (void)regex_add_property(r, v, r->at[-1] == 'P');
        return false;
    }
    if (regex_skip(r, "b")) {
        *single = '\b';
        return true;
    }
    *single = regex_escaped(r);
    return true;
}

uint32_t regex_class(struct reader *r) {
    code_range_vec v = {0};
    bool outside = regex_skip(r, "^");
    while (!r->rc && !regex_skip(r, "]")) {
        uint32_t lo, hi;
        if (r->at >= r->end) {
            regex_fail(r, ERR_INVALID, "a class without ]");
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
            regex_fail(r, ERR_INVALID, "a range whose end is before its beginning");
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
