/*
 * test_exhaustive.c - small families of constraints, each against every text of a list: what is accepted is counted out
 * here once more, by other means. Edges are met from both sides, since every edge is in the lists.
 */
#include "check.h"
#include "grammar/grammar.h"

#include <stdio.h>
#include <stdlib.h>

/* One compiled constraint and its tables. */
struct judge {
    struct program program;
    struct grammar_run *run;
    struct error err;
};

static int judge_open(struct judge *j, enum grammar_kind kind, const char *text) {
    struct grammar_source source = {.kind = kind, .text = bytes_str(text)};
    *j = (struct judge){.run = NULL};
    int rc = grammar_compile(&source, NULL, &j->program, &j->err);
    if (!rc)
        j->run = grammar_run_new(&j->program, NULL);
    return rc;
}

static bool accepts(const struct judge *j, const char *text) {
    struct matcher *m = matcher_new(j->run);
    bool fits = matcher_bytes(m, bytes_str(text)) && matcher_may_end(m);
    matcher_free(&m);
    return fits;
}

static void judge_close(struct judge *j) {
    if (j->run)
        grammar_run_free(&j->run);
    program_release(&j->program);
}

/* ---- numbers ---- */

enum { THOUSAND = 1000, TEXTS_MAX = 600 };

/* A plain number in thousandths: all that these tests write. */
static int64_t thousandths(const char *text) {
    bool negative = *text == '-';
    const char *point = strchr(text, '.');
    int64_t value = strtoll(text + negative, NULL, 10) * THOUSAND, unit = THOUSAND;
    for (const char *c = point ? point + 1 : ""; *c; c++) {
        unit /= 10;
        value += (*c - '0') * unit;
    }
    return negative ? -value : value;
}

static const char *const BOUNDS[] = {"-100.5", "-12.25", "-10", "-9.5", "-1",    "-0.05", "0",
                                     "0.05",   "1",      "9",   "9.99", "12.25", "99",    "105.5"};

static char texts[TEXTS_MAX][12];
static int64_t values[TEXTS_MAX];
static size_t text_count;

static void make_texts(void) {
    static const char *const WHOLES[] = {"0",  "1",  "2",  "8",   "9",   "10",  "11",
                                         "12", "13", "99", "100", "105", "106", "1000"};
    static const char *const FRACTIONS[] = {"",    ".0",  ".04", ".05", ".050", ".06",
                                            ".24", ".25", ".26", ".49", ".5",   ".51",
                                            ".9",  ".98", ".99", ".991"};
    text_count = 0;
    for (size_t i = 0; i < ARRAY_LEN(WHOLES); i++)
        for (size_t k = 0; k < ARRAY_LEN(FRACTIONS); k++)
            for (int negative = 0; negative < 2; negative++) {
                CHECK(text_count < TEXTS_MAX);
                snprintf(texts[text_count], sizeof *texts, "%s%s%s", negative ? "-" : "", WHOLES[i],
                         FRACTIONS[k]);
                values[text_count] = thousandths(texts[text_count]);
                text_count++;
            }
}

struct limits {
    const char *low, *high; /* NULL: none */
    bool low_open, high_open, integer;
    const char *factor; /* multipleOf; NULL: none */
};

static bool in_limits(const struct limits *l, int64_t value) {
    int64_t low = l->low ? thousandths(l->low) : INT64_MIN;
    int64_t high = l->high ? thousandths(l->high) : INT64_MAX;
    return (value > low || (value == low && !l->low_open)) &&
           (value < high || (value == high && !l->high_open)) &&
           (!l->integer || value % THOUSAND == 0) &&
           (!l->factor || value % thousandths(l->factor) == 0);
}

/* The schema against every text; how many it accepts. */
static size_t check_limits(const struct limits *l, size_t step) {
    static const char *const NO_NUMBERS[] = {"05",  "-",  ".5", "1.", "+1",
                                             "--1", "00", "",   "1 ", "\"1\""};
    char schema[200];
    struct judge j;
    size_t fits = 0;
    int len =
        snprintf(schema, sizeof schema, "{\"type\":\"%s\"", l->integer ? "integer" : "number");
    const char *edges[] = {l->low, l->high};
    for (int i = 0; i < 2; i++)
        if (edges[i])
            len += snprintf(schema + len, sizeof schema - (size_t)len, ",\"%s\":%s",
                            i ? (l->high_open ? "exclusiveMaximum" : "maximum")
                              : (l->low_open ? "exclusiveMinimum" : "minimum"),
                            edges[i]);
    if (l->factor)
        len += snprintf(schema + len, sizeof schema - (size_t)len, ",\"multipleOf\":%s", l->factor);
    snprintf(schema + len, sizeof schema - (size_t)len, "}");
    if (judge_open(&j, GRAMMAR_JSON_SCHEMA, schema)) {
        for (size_t i = 0; i < text_count; i++)
            if (in_limits(l, values[i]))
                check_fail(__FILE__, __LINE__, "%s is refused (%s), and %s fits", schema,
                           j.err.text, texts[i]);
        judge_close(&j);
        return 0;
    }
    for (size_t i = check_random() % step; i < text_count; i += step) {
        bool want = in_limits(l, values[i]);
        fits += want;
        if (accepts(&j, texts[i]) != want)
            check_fail(__FILE__, __LINE__, "%s %s %s", schema, want ? "refuses" : "accepts",
                       texts[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(NO_NUMBERS); i++)
        if (accepts(&j, NO_NUMBERS[i]))
            check_fail(__FILE__, __LINE__, "%s accepts '%s'", schema, NO_NUMBERS[i]);
    judge_close(&j);
    return fits;
}

TEST(numbers_end_at_one_bound) {
    make_texts();
    for (size_t i = 0; i < ARRAY_LEN(BOUNDS); i++)
        for (int how = 0; how < 8; how++) {
            struct limits l = {.low = how & 1 ? BOUNDS[i] : NULL,
                               .high = how & 1 ? NULL : BOUNDS[i],
                               .low_open = how & 2,
                               .high_open = how & 2,
                               .integer = how & 4};
            EXPECT(check_limits(&l, 1) > 0);
        }
}

TEST(numbers_lie_between_two_bounds) {
    make_texts();
    for (size_t i = 0; i < ARRAY_LEN(BOUNDS); i++)
        for (size_t k = i; k < ARRAY_LEN(BOUNDS); k++)
            for (int whole = 0; whole < 2; whole++) {
                struct limits l = {.low = BOUNDS[i],
                                   .high = BOUNDS[k],
                                   .low_open = check_random() & 1,
                                   .high_open = check_random() & 1,
                                   .integer = whole};
                check_limits(&l, 3);
            }
}

TEST(numbers_are_multiples) {
    static const char *const FACTORS[] = {"1",    "2",   "3",    "7",    "11",
                                          "0.25", "0.5", "0.01", "0.05", "1.5"};
    make_texts();
    for (size_t i = 0; i < ARRAY_LEN(FACTORS); i++)
        for (int how = 0; how < 4; how++) {
            struct limits l = {.factor = FACTORS[i],
                               .integer = how & 1,
                               .low = how & 2 ? BOUNDS[check_random() % 7] : NULL,
                               .high = how & 2 ? BOUNDS[7 + check_random() % 7] : NULL};
            EXPECT(check_limits(&l, 1) > 0);
        }
}

/* ---- counts ---- */

/* Texts of n parts: `first`, then n - 1 times `more`; nothing for none. */
static const struct counted {
    const char *type, *least, *most, *begin, *first, *more, *end;
} COUNTED[] = {
    {"string", "minLength", "maxLength", "\"", "x", "x", "\""},
    {"string", "minLength", "maxLength", "\"", "\xC3\xA9", "\\u00e9", "\""},
    {"string", "minLength", "maxLength", "\"", "\\ud83d\\ude00", "\xF0\x9F\x98\x80", "\""},
    {"array", "minItems", "maxItems", "[", "1", ",\"a\"", "]"},
    {"object", "minProperties", "maxProperties", "{", "\"a\":1", ",\"b%d\":2", "}"},
};

TEST(counts_end_at_their_bounds) {
    enum { MOST = 4, NONE = -1 };
    for (size_t i = 0; i < ARRAY_LEN(COUNTED); i++) {
        const struct counted *c = &COUNTED[i];
        for (int least = NONE; least <= MOST; least++)
            for (int most = NONE; most <= MOST; most++) {
                char schema[200], text[200];
                struct judge j;
                int len = snprintf(schema, sizeof schema, "{\"type\":\"%s\"", c->type);
                if (least != NONE)
                    len += snprintf(schema + len, sizeof schema - (size_t)len, ",\"%s\":%d",
                                    c->least, least);
                if (most != NONE)
                    len += snprintf(schema + len, sizeof schema - (size_t)len, ",\"%s\":%d",
                                    c->most, most);
                snprintf(schema + len, sizeof schema - (size_t)len, "}");
                int rc = judge_open(&j, GRAMMAR_JSON_SCHEMA, schema);
                EXPECT_EQ(rc != 0, most != NONE && least > most); /* nothing fits */
                for (int n = 0; n <= MOST + 2 && !rc; n++) {
                    int at = snprintf(text, sizeof text, "%s", c->begin);
                    for (int k = 0; k < n; k++)
                        at += strchr(c->more, '%') && k
                                  ? snprintf(text + at, sizeof text - (size_t)at, ",\"b%d\":2", k)
                                  : snprintf(text + at, sizeof text - (size_t)at, "%s",
                                             k ? c->more : c->first);
                    snprintf(text + at, sizeof text - (size_t)at, "%s", c->end);
                    bool want = n >= least && (most == NONE || n <= most);
                    if (accepts(&j, text) != want)
                        check_fail(__FILE__, __LINE__, "%s %s %s", schema,
                                   want ? "refuses" : "accepts", text);
                }
                judge_close(&j);
            }
    }
}

/* Lists whose first items have their own kind: p numbers, then texts; n items of the right kinds, and of one wrong. */
TEST(first_items_have_their_own_kind) {
    enum { MOST = 4, NONE = -1 };
    for (int first = 0; first <= 3; first++)
        for (int rest = 0; rest < 2; rest++) /* items behind them: none, texts */
            for (int least = 0; least <= MOST; least++)
                for (int most = NONE; most <= MOST; most++) {
                    char schema[300], text[100];
                    struct judge j;
                    int len = snprintf(schema, sizeof schema, "{\"type\":\"array\",\"minItems\":%d",
                                       least);
                    if (most != NONE)
                        len += snprintf(schema + len, sizeof schema - (size_t)len,
                                        ",\"maxItems\":%d", most);
                    for (int k = 0; k < first; k++)
                        len += snprintf(schema + len, sizeof schema - (size_t)len,
                                        "%s{\"type\":\"integer\"}", k ? "," : ",\"prefixItems\":[");
                    snprintf(schema + len, sizeof schema - (size_t)len, "%s,\"items\":%s}",
                             first ? "]" : "", rest ? "{\"type\":\"string\"}" : "false");
                    int rc = judge_open(&j, GRAMMAR_JSON_SCHEMA, schema);
                    bool any = false;
                    for (int n = 0; n <= MOST + 1; n++)
                        for (int wrong = NONE; wrong < n; wrong++) {
                            int at = snprintf(text, sizeof text, "[");
                            for (int k = 0; k < n; k++)
                                at += snprintf(text + at, sizeof text - (size_t)at, "%s%s",
                                               k ? "," : "",
                                               (k < first) != (k == wrong) ? "1" : "\"x\"");
                            snprintf(text + at, sizeof text - (size_t)at, "]");
                            bool want = n >= least && (most == NONE || n <= most) &&
                                        wrong == NONE && (rest || n <= first);
                            any |= want;
                            if (!rc && accepts(&j, text) != want)
                                check_fail(__FILE__, __LINE__, "%s %s %s", schema,
                                           want ? "refuses" : "accepts", text);
                        }
                    if (rc && any)
                        check_fail(__FILE__, __LINE__, "%s: %s", schema, j.err.text);
                    judge_close(&j);
                }
}

/* Repetitions in expressions and GBNF, of a letter and of a group. */
TEST(repetitions_end_at_their_bounds) {
    static const struct row {
        enum grammar_kind kind;
        const char *source;
        int least, most, width;
    } ROWS[] = {
        {GRAMMAR_REGEX, "^x{0}$", 0, 0, 1},
        {GRAMMAR_REGEX, "^x{1}$", 1, 1, 1},
        {GRAMMAR_REGEX, "^x{3}$", 3, 3, 1},
        {GRAMMAR_REGEX, "^x{0,1}$", 0, 1, 1},
        {GRAMMAR_REGEX, "^x{2,3}$", 2, 3, 1},
        {GRAMMAR_REGEX, "^x{2,}$", 2, 99, 1},
        {GRAMMAR_REGEX, "^x{0,}$", 0, 99, 1},
        {GRAMMAR_REGEX, "^x*$", 0, 99, 1},
        {GRAMMAR_REGEX, "^x+$", 1, 99, 1},
        {GRAMMAR_REGEX, "^x?$", 0, 1, 1},
        {GRAMMAR_REGEX, "^x{1,3}?$", 1, 3, 1},
        {GRAMMAR_REGEX, "^(xx){1,2}$", 1, 2, 2},
        {GRAMMAR_REGEX, "^(?:xx)+$", 1, 99, 2},
        {GRAMMAR_REGEX, "^(xx?){2}$", 2, 4, 1},
        {GRAMMAR_REGEX, "^(x|xx){1,2}x$", 2, 5, 1},
        {GRAMMAR_GBNF, "root ::= \"x\"{2}", 2, 2, 1},
        {GRAMMAR_GBNF, "root ::= \"x\"{2,}", 2, 99, 1},
        {GRAMMAR_GBNF, "root ::= \"x\"{0,3}", 0, 3, 1},
        {GRAMMAR_GBNF, "root ::= \"x\"{1,3}", 1, 3, 1},
        {GRAMMAR_GBNF, "root ::= (\"xx\")*", 0, 99, 2},
        {GRAMMAR_GBNF, "root ::= (\"x\" \"x\")+", 1, 99, 2},
        {GRAMMAR_GBNF, "root ::= [x]?", 0, 1, 1},
        {GRAMMAR_LARK, "start: \"x\"~2", 2, 2, 1},
        {GRAMMAR_LARK, "start: \"x\"~1..3", 1, 3, 1},
        {GRAMMAR_LARK, "start: \"x\"{2,4}", 2, 4, 1},
        {GRAMMAR_LARK, "start: \"x\"+", 1, 99, 1},
        {GRAMMAR_LARK, "start: \"x\"*", 0, 99, 1},
        {GRAMMAR_LARK, "start: [\"xx\"]", 0, 1, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct judge j;
        char text[16] = "";
        if (judge_open(&j, ROWS[i].kind, ROWS[i].source))
            check_fail(__FILE__, __LINE__, "%s: %s", ROWS[i].source, j.err.text);
        for (int n = 0; n <= 9 && j.run; n++) {
            bool want = n % ROWS[i].width == 0 && n / ROWS[i].width >= ROWS[i].least &&
                        n / ROWS[i].width <= ROWS[i].most;
            if (accepts(&j, text) != want)
                check_fail(__FILE__, __LINE__, "%s %s %s", ROWS[i].source,
                           want ? "refuses" : "accepts", text);
            text[n] = 'x';
            text[n + 1] = 0;
        }
        judge_close(&j);
    }
}

/* ---- kinds of values ---- */

enum kind_bits {
    KIND_NULL = 1,
    KIND_BOOL = 2,
    KIND_INT = 4,
    KIND_NUMBER = 8,
    KIND_STRING = 16,
    KIND_ARRAY = 32,
    KIND_OBJECT = 64,
    KINDS = 7
};
static const char *const KIND_NAMES[KINDS] = {"null",   "boolean", "integer", "number",
                                              "string", "array",   "object"};
static const struct value {
    const char *text;
    unsigned kinds;
} VALUES[] = {
    {"null", KIND_NULL},
    {"true", KIND_BOOL},
    {"false", KIND_BOOL},
    {"0", KIND_INT | KIND_NUMBER},
    {"-3", KIND_INT | KIND_NUMBER},
    {"1.5", KIND_NUMBER},
    {"\"\"", KIND_STRING},
    {"\"null\"", KIND_STRING},
    {"[]", KIND_ARRAY},
    {"[1]", KIND_ARRAY},
    {"{}", KIND_OBJECT},
    {"{\"a\":1}", KIND_OBJECT},
};

/* Every set of kinds, as a list of types, as anyOf, and under "not". */
TEST(kinds_of_values_in_every_set) {
    for (unsigned set = 1; set < 1u << KINDS; set++) {
        char list[200] = "", any[400] = "";
        for (unsigned k = 0; k < KINDS; k++)
            if (set & 1u << k) {
                size_t at = strlen(list), any_at = strlen(any);
                snprintf(list + at, sizeof list - at, "%s\"%s\"", at ? "," : "", KIND_NAMES[k]);
                snprintf(any + any_at, sizeof any - any_at, "%s{\"type\":\"%s\"}",
                         any_at ? "," : "", KIND_NAMES[k]);
            }
        for (int form = 0; form < 3; form++) {
            char schema[500];
            struct judge j;
            snprintf(schema, sizeof schema,
                     form == 0   ? "{\"type\":[%s]}"
                     : form == 1 ? "{\"anyOf\":[%s]}"
                                 : "{\"not\":{\"type\":[%s]}}",
                     form == 1 ? any : list);
            int rc = judge_open(&j, GRAMMAR_JSON_SCHEMA, schema);
            bool nothing = true;
            for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
                bool want = !(VALUES[i].kinds & set) == (form == 2);
                nothing = nothing && !want;
                if (!rc && accepts(&j, VALUES[i].text) != want)
                    check_fail(__FILE__, __LINE__, "%s %s %s", schema, want ? "refuses" : "accepts",
                               VALUES[i].text);
            }
            if (rc && !nothing)
                check_fail(__FILE__, __LINE__, "%s: %s", schema, j.err.text);
            judge_close(&j);
        }
    }
}

/* One value, two, all but one, all but two of those that stand alone. */
TEST(values_in_and_out_of_lists) {
    enum { ALONE = 8 }; /* of VALUES: no arrays, no objects */
    for (size_t a = 0; a < ARRAY_LEN(VALUES); a++)
        for (size_t b = a; b < ARRAY_LEN(VALUES); b++)
            for (int out = 0; out < 2; out++) {
                char schema[200];
                struct judge j;
                if (out && (a >= ALONE || b >= ALONE))
                    continue;
                if (a == b)
                    snprintf(schema, sizeof schema,
                             out ? "{\"not\":{\"const\":%s}}" : "{\"const\":%s}", VALUES[a].text);
                else
                    snprintf(schema, sizeof schema,
                             out ? "{\"not\":{\"enum\":[%s,%s]}}" : "{\"enum\":[%s,%s]}",
                             VALUES[a].text, VALUES[b].text);
                if (judge_open(&j, GRAMMAR_JSON_SCHEMA, schema))
                    check_fail(__FILE__, __LINE__, "%s: %s", schema, j.err.text);
                for (size_t i = 0; i < ARRAY_LEN(VALUES) && j.run; i++) {
                    bool want = (i == a || i == b) != out;
                    if (accepts(&j, VALUES[i].text) != want)
                        check_fail(__FILE__, __LINE__, "%s %s %s", schema,
                                   want ? "refuses" : "accepts", VALUES[i].text);
                }
                judge_close(&j);
            }
}

/* ---- ranges of characters ---- */

/* Where UTF-8 and pairs of surrogates take another form, from both sides. */
static const uint32_t CHARACTERS[] = {0x21,    0x41,     0x7F,     0x80,    0xFF,    0x100,
                                      0x7FF,   0x800,    0xFFF,    0x1000,  0xD7FF,  0xE000,
                                      0xFFFF,  0x10000,  0x10001,  0x103FF, 0x10400, 0x107FF,
                                      0x1F600, 0x10FBFF, 0x10FC00, 0x10FFFF};

static void add_utf8(char *out, uint32_t cp) {
    static const uint8_t HEADS[] = {0, 0xC0, 0xE0, 0xF0};
    size_t at = strlen(out);
    int more = cp < 0x80 ? 0 : cp < 0x800 ? 1 : cp < 0x10000 ? 2 : 3;
    out[at++] = (char)(HEADS[more] | cp >> (6 * more));
    for (int i = more; i-- > 0;)
        out[at++] = (char)(0x80 | (cp >> (6 * i) & 0x3F));
    out[at] = 0;
}

static void add_mark(char *out, const char *mark) {
    snprintf(out + strlen(out), strlen(mark) + 1, "%s", mark);
}

static void add_escape(char *out, uint32_t unit, bool upper) {
    size_t at = strlen(out);
    if (upper)
        snprintf(out + at, 8, "\\u%04X", unit);
    else
        snprintf(out + at, 8, "\\u%04x", unit);
}

/* As a JSON string: by itself, or escaped, which what is printed in ASCII never is. */
static void spell(char *out, uint32_t cp, bool escaped, bool upper) {
    out[0] = 0;
    add_mark(out, "\"");
    if (!escaped)
        add_utf8(out, cp);
    else if (cp < 0x10000)
        add_escape(out, cp, upper);
    else {
        add_escape(out, 0xD800 + ((cp - 0x10000) >> 10), upper);
        add_escape(out, 0xDC00 + (cp & 0x3FF), upper);
    }
    add_mark(out, "\"");
}

TEST(ranges_of_characters_end_at_their_ends) {
    for (size_t i = 0; i < ARRAY_LEN(CHARACTERS); i++)
        for (size_t k = i; k < ARRAY_LEN(CHARACTERS); k++) {
            char schema[100] = "{\"type\":\"string\",\"pattern\":\"^[", text[20];
            struct judge j;
            add_utf8(schema, CHARACTERS[i]);
            add_mark(schema, "-");
            add_utf8(schema, CHARACTERS[k]);
            add_mark(schema, "]$\"}");
            if (judge_open(&j, GRAMMAR_JSON_SCHEMA, schema))
                check_fail(__FILE__, __LINE__, "%s: %s", schema, j.err.text);
            for (size_t c = 0; c < ARRAY_LEN(CHARACTERS) && j.run; c++)
                for (int by = -1; by <= 1; by++)
                    for (int form = 0; form < 3; form++) {
                        uint32_t cp = CHARACTERS[c] + (uint32_t)by;
                        if (cp <= 0x20 || cp == '"' || cp > 0x10FFFF ||
                            (cp >= 0xD800 && cp < 0xE000))
                            continue;
                        spell(text, cp, form > 0, form > 1);
                        bool want =
                            cp >= CHARACTERS[i] && cp <= CHARACTERS[k] && (!form || cp >= 0x7F);
                        if (accepts(&j, text) != want)
                            check_fail(__FILE__, __LINE__, "%s %s %s", schema,
                                       want ? "refuses" : "accepts", text);
                    }
            judge_close(&j);
        }
}

/* ---- members ---- */

/* Of three members every set may be required, and every set is tried, as JSON and as elements. */
TEST(members_that_are_required) {
    enum { MEMBERS = 3, SETS = 1 << MEMBERS };
    static const struct notation {
        enum grammar_kind kind;
        const char *head, *tail; /* around the list of what is required */
        const char *begin, *before, *after, *between, *end; /* before and after a member's letter */
    } NOTATIONS[] = {
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"},"
         "\"c\":{\"type\":\"integer\"}},\"additionalProperties\":false,\"required\":[",
         "]}", "{", "\"", "\":1", ",", "}"},
        {GRAMMAR_STRUCTURE,
         "{\"type\":\"arguments\",\"before\":{\"type\":\"const_string\",\"value\":\"<\"},"
         "\"middle\":{\"type\":\"const_string\",\"value\":\">\"},"
         "\"after\":{\"type\":\"const_string\",\"value\":\"</>\"},\"stops\":[\"</>\"],"
         "\"json_schema\":{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"},"
         "\"c\":{\"type\":\"integer\"}},\"additionalProperties\":false,\"required\":[",
         "]}}", "", "<", ">1</>", "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(NOTATIONS); i++)
        for (unsigned required = 0; required < SETS; required++) {
            const struct notation *n = &NOTATIONS[i];
            char source[800], text[64];
            struct judge j;
            int len = snprintf(source, sizeof source, "%s", n->head), names = 0;
            for (int k = 0; k < MEMBERS; k++)
                if (required & 1u << k)
                    len += snprintf(source + len, sizeof source - (size_t)len, "%s\"%c\"",
                                    names++ ? "," : "", 'a' + k);
            snprintf(source + len, sizeof source - (size_t)len, "%s", n->tail);
            if (judge_open(&j, n->kind, source))
                check_fail(__FILE__, __LINE__, "%s: %s", source, j.err.text);
            for (unsigned there = 0; there < SETS && j.run; there++) {
                int at = snprintf(text, sizeof text, "%s", n->begin), count = 0;
                for (int k = 0; k < MEMBERS; k++)
                    if (there & 1u << k)
                        at += snprintf(text + at, sizeof text - (size_t)at, "%s%s%c%s",
                                       count++ ? n->between : "", n->before, 'a' + k, n->after);
                snprintf(text + at, sizeof text - (size_t)at, "%s", n->end);
                bool want = (required & there) == required;
                if (accepts(&j, text) != want)
                    check_fail(__FILE__, __LINE__, "%s %s %s", source, want ? "refuses" : "accepts",
                               text);
            }
            judge_close(&j);
        }
}

/* ---- what stands for a character in an expression ---- */

TEST(characters_of_expressions) {
    static const struct row {
        const char *pattern, *good, *bad; /* texts between blanks */
    } ROWS[] = {
        {"^\\u0041$", "A", "u0041 B"},
        {"^\\u{41}$", "A", "u B"},
        {"^\\u{1F600}$", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x81 u"},
        {"^\\ud83d\\ude00$", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x81 \xF0\x9F\x98\xC0"},
        {"^[\\ud83d\\u0041]$", "A", "u \xF0\x9F\x98\x80"}, /* a half alone is no pair's */
        {"^\\uDBFF\\uDFFF$", "\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBE"},
        {"^\\x41\\x7a$", "Az", "A z AZ"},
        {"^[a-c]$", "a b c", "` d A"},
        {"^[^a-c]$", "` d A", "a b c"},
        {"^[a-c-]$", "a c -", "d ,"},
        {"^[-a]$", "- a", "b"},
        {"^[\\]\\\\]$", "] \\", "[ a"},
        {"^[a\\-c]$", "a - c", "b"},
        {"^\\d$", "0 5 9", "/ : a"},
        {"^\\D$", "/ : a", "0 5 9"},
        {"^\\w$", "a z A Z 0 9 _", "@ [ ` { / : -"},
        {"^\\W$", "@ [ ` { / : -", "a z A Z 0 9 _"},
        {"^\\S$", "! ~ a", "\t \n"},
        {"^[\\d_]$", "0 9 _", "a /"},
        {"^.$", "a \xC3\xA9 \t", "\n ab"},
        {"(?s)^.$", "a \n", "ab"},
        {"(?i)^a$", "a A", "b \xC3\xA9"},
        {"(?is)^a.$", "ab A\n", "a"},
        {"(?i)^[x-z]$", "x X z Z", "w W {"},
        {"^a|^b", "a b", "c"},
        {"^(a|b)c$", "ac bc", "c ab abc"},
        {"^a\\.b$", "a.b", "axb"},
        {"^\\t\\n$", "\t\n", "tn"},
        {"^\\/$", "/", "\\/"},
        {"^\\0$", "", "0"},
        {"^\\cA$", "\x01", "A cA"},
        {"^(?=ab)a.$", "ab", "ac"},
        {"^(?!ab)a.$", "ac", "ab"},
        {"^a$|^bc$", "a bc", "b ab abc"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct judge j;
        if (judge_open(&j, GRAMMAR_REGEX, ROWS[i].pattern))
            check_fail(__FILE__, __LINE__, "%s: %s", ROWS[i].pattern, j.err.text);
        for (int good = 0; good < 2 && j.run; good++)
            for (const char *at = good ? ROWS[i].good : ROWS[i].bad; *at;) {
                char text[16];
                size_t len = strcspn(at, " ");
                snprintf(text, sizeof text, "%.*s", (int)len, at);
                if (accepts(&j, text) != good)
                    check_fail(__FILE__, __LINE__, "%s %s '%s'", ROWS[i].pattern,
                               good ? "refuses" : "accepts", text);
                at += len + (at[len] == ' ');
            }
        judge_close(&j);
    }
}
