#include "text/tokenizer/regex_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/utf8.h"
#include "base/vec.h"
#include "text/tokenizer/known_splits.h"
#include "text/unicode.h"

enum { CLASS_DEPTH_MAX = 8, CLASS_ITEMS_MAX = 512, GROUP_DEPTH_MAX = 64 };
/* So many repetitions of a character, which one item compares at once, count for a step. */
enum { REPEATS_STEP = 16 };
enum { PATTERN_BYTES_MAX = 64 * 1024, REWRITTEN_BYTES_MAX = 1 << 20 };

/* Assigned after Unicode 14. */
static const uint32_t YOUNG[][2] = {
    {0x897, 0x897},     {0xCF3, 0xCF3},     {0xECE, 0xECE},     {0x1B4E, 0x1B4F},
    {0x1B7F, 0x1B7F},   {0x1C89, 0x1C8A},   {0x2427, 0x2429},   {0x2FFC, 0x2FFF},
    {0x31E4, 0x31E5},   {0x31EF, 0x31EF},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},
    {0x105C0, 0x105F3}, {0x10D40, 0x10D65}, {0x10D69, 0x10D85}, {0x10D8E, 0x10D8F},
    {0x10EC2, 0x10EC4}, {0x10EFC, 0x10EFF}, {0x1123F, 0x11241}, {0x11380, 0x11389},
    {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113C0},
    {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D5},
    {0x113D7, 0x113D8}, {0x113E1, 0x113E2}, {0x116D0, 0x116E3}, {0x11B00, 0x11B09},
    {0x11BC0, 0x11BE1}, {0x11BF0, 0x11BF9}, {0x11F00, 0x11F10}, {0x11F12, 0x11F3A},
    {0x11F3E, 0x11F5A}, {0x1342F, 0x1342F}, {0x13439, 0x13455}, {0x13460, 0x143FA},
    {0x16100, 0x16139}, {0x16D40, 0x16D79}, {0x18CFF, 0x18CFF}, {0x1B132, 0x1B132},
    {0x1B155, 0x1B155}, {0x1CC00, 0x1CCF9}, {0x1CD00, 0x1CEB3}, {0x1D2C0, 0x1D2D3},
    {0x1DF25, 0x1DF2A}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E4D0, 0x1E4F9},
    {0x1E5D0, 0x1E5FA}, {0x1E5FF, 0x1E5FF}, {0x1F6DC, 0x1F6DC}, {0x1F774, 0x1F776},
    {0x1F77B, 0x1F77F}, {0x1F7D9, 0x1F7D9}, {0x1F8B2, 0x1F8BB}, {0x1F8C0, 0x1F8C1},
    {0x1FA75, 0x1FA77}, {0x1FA87, 0x1FA89}, {0x1FA8F, 0x1FA8F}, {0x1FAAD, 0x1FAAF},
    {0x1FABB, 0x1FABF}, {0x1FAC6, 0x1FAC6}, {0x1FACE, 0x1FACF}, {0x1FADA, 0x1FADC},
    {0x1FADF, 0x1FADF}, {0x1FAE8, 0x1FAE9}, {0x1FAF7, 0x1FAF8}, {0x1FBCB, 0x1FBEF},
    {0x2B739, 0x2B739}, {0x2EBF0, 0x2EE5D}, {0x31350, 0x323AF}};

static const uint32_t HAN[][2] = {
    {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
    {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
    {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
    {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
    {0x30000, 0x3134A}, {0x31350, 0x323AF}};

/* ---- sets of characters by name ---- */

enum set_kind { SET_RANGE, SET_CATEGORIES, SET_SPACE, SET_WORD, SET_HAN, SET_CLASS };

struct set {
    enum set_kind kind;
    bool negated;
    uint32_t low, high; /* RANGE */
    uint32_t categories;
    struct class *class; /* of CLASS; owned by the rewriter */
};

static bool in_runs(const uint32_t (*runs)[2], size_t count, uint32_t cp) {
    for (size_t i = 0; i < count && cp >= runs[i][0]; i++)
        if (cp <= runs[i][1])
            return true;
    return false;
}

/* General categories by name: one letter or two, "Letter" and the like are not used by anyone. */
static uint32_t categories_of(struct bytes name) {
    static const char NAMES[] = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";
    uint32_t set = 0;
    for (unsigned i = 0; i < sizeof NAMES / 2; i++)
        if (name.len && name.len <= 2 && !memcmp(NAMES + 2 * i, name.data, name.len))
            set |= 1u << i;
    return set;
}

/* The set of an escape; p is behind the backslash. Returns the bytes read, 0: it is none. */
static size_t read_set(const uint8_t *p, const uint8_t *end, struct set *out) {
    *out = (struct set){0};
    switch (p < end ? *p : 0) {
    case 's':
    case 'S': *out = (struct set){.kind = SET_SPACE, .negated = *p == 'S'}; return 1;
    case 'w':
    case 'W': *out = (struct set){.kind = SET_WORD, .negated = *p == 'W'}; return 1;
    case 'd':
    case 'D':
        *out = (struct set){
            .kind = SET_CATEGORIES, .negated = *p == 'D', .categories = 1 << UNICODE_ND};
        return 1;
    case 'p':
    case 'P': break;
    default: return 0;
    }
    const uint8_t *close = p + 1 < end && p[1] == '{' ? memchr(p, '}', (size_t)(end - p)) : NULL;
    if (!close)
        return 0;
    struct bytes name = bytes_of(p + 2, (size_t)(close - p) - 2);
    out->negated = *p == 'P';
    if (name.len && name.data[0] == '^') {
        out->negated = !out->negated;
        name = bytes_of(name.data + 1, name.len - 1);
    }
    if (bytes_equal(name, bytes_str("Han"))) {
        out->kind = SET_HAN;
    } else {
        out->kind = SET_CATEGORIES;
        out->categories = categories_of(name);
        if (!out->categories)
            return 0;
    }
    return (size_t)(close - p) + 1;
}

/* ---- classes ---- */

struct class {
    VEC(struct set) items;
    struct class *also; /* [items && also] */
    /* nested: has a class inside, an intersection or a negated set: PCRE2 cannot say it */
    bool negated, nested;
    struct class *next_made;
};

struct rewriter {
    const uint8_t *p, *end;
    struct buf *out;
    struct error *err;
    struct class *made; /* all, for release */
    /* where in out the last thing begins that a quantifier would repeat */
    size_t atom;
    uint32_t repeats; /* the most that an item is repeated at least: of a{n,m} the n */
    size_t groups[GROUP_DEPTH_MAX]; /* where the open groups begin */
    unsigned group_depth;
};

static struct class *new_class(struct rewriter *r) {
    struct class *c = mem_alloc(sizeof *c);
    c->next_made = r->made;
    r->made = c;
    return c;
}

static bool set_has(const struct set *s, uint32_t cp);

static bool class_has(const struct class *c, uint32_t cp) {
    bool found = false;
    for (size_t i = 0; i < c->items.count && !found; i++)
        found = set_has(&c->items.items[i], cp);
    if (c->also)
        found = found && class_has(c->also, cp);
    return found != c->negated;
}

static bool set_has(const struct set *s, uint32_t cp) {
    bool has = false;
    switch (s->kind) {
    case SET_RANGE: has = cp >= s->low && cp <= s->high; break;
    case SET_CATEGORIES: has = unicode_in(cp, s->categories); break;
    case SET_SPACE: has = unicode_is_space(cp); break;
    case SET_WORD: has = unicode_is_word(cp) && cp != 0x200C && cp != 0x200D; break;
    case SET_HAN: has = in_runs(HAN, ARRAY_LEN(HAN), cp); break;
    case SET_CLASS: has = class_has(s->class, cp); break;
    }
    return has != s->negated;
}

static int bad_class(struct rewriter *r) {
    return error_set(r->err, ERR_UNSUPPORTED, "split pattern: a character class cannot be read");
}

/* One character of a class, escaped or not. */
static int read_char(struct rewriter *r, uint32_t *cp) {
    static const char FROM[] = "nrtfvae", TO[] = "\n\r\t\f\v\a\x1b";
    if (r->p >= r->end)
        return bad_class(r);
    if (*r->p != '\\') {
        size_t n = utf8_decode(r->p, (size_t)(r->end - r->p), cp);
        r->p += n;
        return n ? 0 : bad_class(r);
    }
    if (++r->p >= r->end)
        return bad_class(r);
    uint8_t c = *r->p++;
    const char *known = memchr(FROM, c, sizeof FROM - 1);
    if (c == 'x' || c == 'u') {
        bool braces = r->p < r->end && *r->p == '{';
        int max = braces ? 8 : c == 'u' ? 4 : 2, digits = 0;
        r->p += braces;
        *cp = 0;
        while (digits < max && r->p < r->end && hex_value(*r->p) >= 0) {
            *cp = *cp * 16 + (uint32_t)hex_value(*r->p++);
            digits++;
        }
        if (!digits || *cp > 0x10FFFF || (braces && (r->p >= r->end || *r->p++ != '}')))
            return bad_class(r);
        return 0;
    }
    if ((c >= 'a' && c <= 'z' && !known) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return bad_class(r);
    *cp = known ? (uint8_t)TO[known - FROM] : c;
    return c < 0x80 ? 0 : bad_class(r);
}

static int read_class(struct rewriter *r, struct class *c, unsigned depth);

/* A set, a nested class, a character or a range. */
static int read_item(struct rewriter *r, struct class *c, unsigned depth) {
    struct set s = {.kind = SET_RANGE};
    int rc;
    if (c->items.count >= CLASS_ITEMS_MAX)
        return bad_class(r);
    if (*r->p == '[') {
        if (r->p + 1 < r->end && r->p[1] == ':')
            return bad_class(r); /* POSIX names */
        r->p++;
        s = (struct set){.kind = SET_CLASS, .class = new_class(r)};
        c->nested = true;
        if ((rc = read_class(r, s.class, depth + 1)))
            return rc;
    } else {
        size_t n = *r->p == '\\' ? read_set(r->p + 1, r->end, &s) : 0;
        if (n) {
            r->p += n + 1;
            c->nested |= s.negated || s.kind == SET_HAN || s.kind == SET_WORD;
        } else {
            if ((rc = read_char(r, &s.low)))
                return rc;
            s.kind = SET_RANGE;
            s.high = s.low;
            if (r->p + 1 < r->end && *r->p == '-' && r->p[1] != ']' && r->p[1] != '[') {
                r->p++;
                if ((rc = read_char(r, &s.high)))
                    return rc;
                if (s.high < s.low)
                    return bad_class(r);
            }
        }
    }
    vec_push(&c->items, s);
    return 0;
}

/* Behind "[": up to and with "]". */
static int read_class(struct rewriter *r, struct class *c, unsigned depth) {
    if (depth > CLASS_DEPTH_MAX)
        return bad_class(r);
    if (r->p < r->end && *r->p == '^') {
        c->negated = true;
        r->p++;
    }
    for (bool first = true; r->p < r->end; first = false) {
        int rc;
        if (*r->p == ']' && !first) {
            r->p++;
            return 0;
        }
        if (r->end - r->p >= 2 && r->p[0] == '&' &&
            r->p[1] == '&') { /* the rest is the other side */
            r->p += 2;
            c->nested = true;
            c->also = new_class(r);
            return read_class(r, c->also, depth + 1);
        }
        if ((rc = read_item(r, c, depth)))
            return rc;
    }
    return bad_class(r);
}

/* ---- writing ---- */

static void add_range(struct buf *out, uint32_t low, uint32_t high) {
    buf_addf(out, low == high ? "\\x{%x}" : "\\x{%x}-\\x{%x}", low, high);
}

/* The members of the set that PCRE2's tables do not know yet, as ranges. */
static void add_young(struct buf *out, const struct set *s) {
    for (size_t i = 0; i < ARRAY_LEN(YOUNG); i++)
        for (uint32_t cp = YOUNG[i][0]; cp <= YOUNG[i][1]; cp++) {
            uint32_t last = cp;
            if (!set_has(s, cp))
                continue;
            while (last < YOUNG[i][1] && set_has(s, last + 1))
                last++;
            add_range(out, cp, last);
            cp = last;
        }
}

/* A set that is not negated, as it stands inside a PCRE2 class. */
static void add_members(struct buf *out, const struct set *s) {
    static const char NAMES[] = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";
    if (s->kind == SET_SPACE) {
        buf_add_str(out, "\\t-\\r "
                         "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{"
                         "205f}\\x{3000}");
        return;
    }
    if (s->kind == SET_RANGE) {
        add_range(out, s->low, s->high);
        return;
    }
    if (s->categories == UNICODE_L)
        buf_add_str(out, "\\p{L}");
    else if (s->categories == UNICODE_N)
        buf_add_str(out, "\\p{N}");
    else
        for (unsigned i = 0; i < 30; i++)
            if (s->categories >> i & 1)
                buf_addf(out, "\\p{%.2s}", NAMES + 2 * (size_t)i);
    add_young(out, s);
}

/* All members by their code points. */
static void add_listed(struct buf *out, const struct class *c) {
    size_t start = out->len;
    buf_add_byte(out, '[');
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        uint32_t last = cp;
        if (!class_has(c, cp))
            continue;
        while (last + 1 < 0x110000 && class_has(c, last + 1))
            last++;
        /* surrogates may not be named */
        if (cp < 0xD800 && last > 0xDFFF) {
            add_range(out, cp, 0xD7FF);
            add_range(out, 0xE000, last);
        } else if (last < 0xD800 || cp > 0xDFFF) {
            add_range(out, cp, last);
        }
        cp = last;
    }
    if (out->len == start + 1) { /* nothing: a class that never matches */
        out->len = start;
        buf_add_str(out, "(?!)");
        return;
    }
    buf_add_byte(out, ']');
}

static void add_class(struct buf *out, const struct class *c) {
    if (c->nested) {
        add_listed(out, c);
        return;
    }
    buf_add_str(out, c->negated ? "[^" : "[");
    for (size_t i = 0; i < c->items.count; i++)
        add_members(out, &c->items.items[i]);
    buf_add_byte(out, ']');
}

/* \w outside of brackets: there, and there only, Oniguruma counts the number signs of Latin 1
 * in. */
static void add_word(struct buf *out, bool negated) {
    static const struct set SETS[] = {{.kind = SET_WORD},
                                      {.kind = SET_RANGE, .low = 0xB2, .high = 0xB3},
                                      {.kind = SET_RANGE, .low = 0xB9, .high = 0xB9},
                                      {.kind = SET_RANGE, .low = 0xBC, .high = 0xBE}};
    struct class word = {.negated = negated, .nested = true};
    for (size_t i = 0; i < ARRAY_LEN(SETS); i++)
        vec_push(&word.items, SETS[i]);
    add_listed(out, &word);
    vec_release(&word.items);
}

/* \b and \B: PCRE2's know other words. */
static void add_boundary(struct buf *out, bool negated) {
    struct buf word = {0};
    add_word(&word, false);
    const char *w = buf_text(&word);
    buf_addf(out, negated ? "(?(?<=%s)(?=%s)|(?!%s))" : "(?(?<=%s)(?!%s)|(?=%s))", w, w, w);
    buf_release(&word);
}

static void add_set(struct buf *out, struct set s) {
    struct class c = {.negated = s.negated, .nested = s.kind == SET_HAN};
    s.negated = false;
    vec_push(&c.items, s);
    add_class(out, &c);
    vec_release(&c.items);
}

static int rewrite_escape(struct rewriter *r) {
    struct set s;
    uint8_t c = r->end - r->p >= 2 ? r->p[1] : 0;
    size_t n = read_set(r->p + 1, r->end, &s), len = n + 1;
    if (c == 'b' || c == 'B') {
        add_boundary(r->out, c == 'B');
        len = 2;
    } else if (n && s.kind == SET_WORD) {
        add_word(r->out, s.negated);
    } else if (n) {
        add_set(r->out, s);
    } else { /* an escape of one character, passed on */
        const uint8_t *close = c == 'x' && r->end - r->p > 2 && r->p[2] == '{'
                                   ? memchr(r->p, '}', (size_t)(r->end - r->p))
                                   : NULL;
        len = close ? (size_t)(close - r->p) + 1 : MIN((size_t)(r->end - r->p), (size_t)2);
        buf_add(r->out, r->p, len);
    }
    r->p += len;
    return 0;
}

static int rewrite_class(struct rewriter *r) {
    struct class *c = new_class(r);
    r->p++;
    int rc = read_class(r, c, 0);
    if (!rc)
        add_class(r->out, c);
    return rc;
}

/* Length of "{n}", "{n,}", "{,m}" or "{n,m}" at p, 0: none. *fixed: there is no comma. */
static size_t interval_len(const uint8_t *p, const uint8_t *end, bool *fixed) {
    const uint8_t *at = p + 1;
    while (at < end && ((*at >= '0' && *at <= '9') || *at == ','))
        at++;
    if (at == p + 1 || at >= end || *at != '}')
        return 0;
    *fixed = !memchr(p, ',', (size_t)(at - p));
    return (size_t)(at - p) + 1;
}

/* In Ruby's syntax a{1,3}+ repeats a{1,3} (PCRE2 would take it for possessive), and a{3}? makes it
 * optional. */
static int rewrite_interval(struct rewriter *r) {
    bool fixed = false;
    size_t n = interval_len(r->p, r->end, &fixed), atom_len = r->out->len - r->atom;
    const uint8_t *behind = r->p + n;
    uint32_t least = 0;
    for (size_t i = 1; i < n && r->p[i] != ',' && r->p[i] != '}'; i++)
        least = MIN(least * 10 + (r->p[i] - '0'), 1u << 20);
    r->repeats = MAX(r->repeats, least);
    bool again = n && behind < r->end && (*behind == '+' || (*behind == '?' && fixed));
    if (!again || r->out->failed) {
        buf_add(r->out, r->p, MAX(n, (size_t)1));
        r->p += MAX(n, (size_t)1);
        return 0;
    }
    buf_add(r->out, "(?:", 3); /* in front of the atom */
    if (r->out->failed)
        return 0;
    memmove(r->out->data + r->atom + 3, r->out->data + r->atom, atom_len);
    memcpy(r->out->data + r->atom, "(?:", 3);
    buf_add(r->out, r->p, n);
    buf_addf(r->out, ")%c", *behind);
    r->p = behind + 1;
    return 0;
}

static int rewrite_plain(struct rewriter *r) {
    uint8_t c = *r->p;
    if (c == '{')
        return rewrite_interval(r);
    if (c == '(') {
        if (r->group_depth == GROUP_DEPTH_MAX)
            return error_set(r->err, ERR_LIMIT, "split pattern: nested deeper than %d",
                             GROUP_DEPTH_MAX);
        r->groups[r->group_depth++] = r->out->len;
    } else if (c == ')') {
        if (r->group_depth)
            r->atom = r->groups[--r->group_depth];
    } else if (c != '+' && c != '*' && c != '?' && (c & 0xC0) != 0x80) {
        r->atom = r->out->len;
    }
    buf_add_byte(r->out, (char)c);
    r->p++;
    return 0;
}

static int rewrite(struct bytes pattern, struct buf *out, uint32_t *repeats, struct error *err) {
    struct rewriter r = {.p = pattern.data,
                         .end = pattern.data + pattern.len,
                         .out = out,
                         .err = err,
                         .atom = out->len};
    int rc = 0;
    while (!rc && r.p < r.end) {
        if (*r.p == '\\' || *r.p == '[') {
            r.atom = out->len;
            rc = *r.p == '[' ? rewrite_class(&r) : rewrite_escape(&r);
        } else {
            rc = rewrite_plain(&r);
        }
    }
    *repeats = r.repeats;
    for (struct class *c = r.made, *next; c; c = next) {
        next = c->next_made;
        vec_release(&c->items);
        mem_free(c);
    }
    return rc;
}

int regex_compile(struct bytes pattern, struct regex *out, struct error *err) {
    int code;
    PCRE2_SIZE at;
    uint32_t repeats = 0, references = 0;
    *out = (struct regex){0};
    if (pattern.len > PATTERN_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "split pattern longer than %d bytes", PATTERN_BYTES_MAX);
    struct buf text;
    buf_init(&text, REWRITTEN_BYTES_MAX);
    int rc = rewrite(pattern, &text, &repeats, err);
    if (!rc && text.failed)
        rc = error_set(err, ERR_LIMIT, "split pattern: too large");
    if (rc) {
        buf_release(&text);
        return rc;
    }
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    if (!known_split_has(pattern))
        options |= PCRE2_AUTO_CALLOUT; /* regex_run.h counts there */
    out->code = pcre2_compile((PCRE2_SPTR)buf_text(&text), text.len, options, &code, &at, NULL);
    buf_release(&text);
    if (!out->code) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(code, why, sizeof why);
        return error_set(err, ERR_UNSUPPORTED, "split pattern: %s at byte %zu", (const char *)why,
                         (size_t)at);
    }
    out->item_steps = repeats / REPEATS_STEP;
    (void)pcre2_pattern_info(out->code, PCRE2_INFO_BACKREFMAX, &references);
    out->refers_back = references > 0;
    (void)pcre2_jit_compile(out->code, PCRE2_JIT_COMPLETE); /* else matching is only slower */
    return 0;
}

void regex_release(struct regex *regex) {
    pcre2_code_free(regex->code);
    *regex = (struct regex){0};
}
