/*
 * test_patterns.c - patterns made by chance, each against every short text: which of them it is found in
 * is known once more by trying all places, part by part.
 */
#include "compile.h"
#include "grammar/regex.h"

/* ---- patterns ---- */

enum kind { CHARS, ALL_OF, ONE_OF, TIMES, GROUP, LOOK, PLACE, FLAGS };

struct node {
    enum kind kind;
    uint32_t kids[3], count;
    uint32_t min, max;     /* TIMES; max 9: any number */
    const char *text;      /* as it is written, or begins */
    bool behind, negative; /* LOOK */
    int fold, dot_all;     /* FLAGS, GROUP: -1 off, 0 as before, 1 on */
};

static struct node nodes[800]; /* a pattern has 687 at most */
static uint32_t node_count;

static uint32_t chance(uint32_t of) {
    return (uint32_t)(check_random() % of);
}

static uint32_t make_node(struct node n) {
    CHECK(node_count < ARRAY_LEN(nodes));
    nodes[node_count] = n;
    return node_count++;
}

static uint32_t make_choice(uint32_t depth);

static uint32_t make_atom(uint32_t depth) {
    static const char *const SETS[] = {"a",    "A",    "b",   "-",   ".",
                                       "[ab]", "[^a]", "\\w", "\\W", "[^A-]"};
    static const struct node GROUPS[] = {
        {.kind = GROUP, .text = "("},
        {.kind = GROUP, .text = "(?:"},
        {.kind = GROUP, .text = "(?i:", .fold = 1},
        {.kind = GROUP, .text = "(?-i:", .fold = -1},
        {.kind = GROUP, .text = "(?s-i:", .fold = -1, .dot_all = 1}};
    if (!depth || chance(3))
        return make_node((struct node){.kind = CHARS, .text = SETS[chance(ARRAY_LEN(SETS))]});
    struct node n = GROUPS[chance(ARRAY_LEN(GROUPS))];
    n.kids[n.count++] = make_choice(depth - 1);
    return make_node(n);
}

static uint32_t make_item(uint32_t depth) {
    static const char *const PLACES[] = {"^", "$", "\\b", "\\B"};
    static const char *const LOOKS[] = {"(?=", "(?!", "(?<=", "(?<!"};
    static const struct node SWITCHES[] = {{.kind = FLAGS, .text = "(?i)", .fold = 1},
                                           {.kind = FLAGS, .text = "(?-i)", .fold = -1},
                                           {.kind = FLAGS, .text = "(?su)", .dot_all = 1}};
    static const struct node COUNTS[] = {{.text = "*", .max = 9},
                                         {.text = "+", .min = 1, .max = 9},
                                         {.text = "?", .max = 1},
                                         {.text = "{2}", .min = 2, .max = 2},
                                         {.text = "{0,2}", .max = 2},
                                         {.text = "{1,3}", .min = 1, .max = 3},
                                         {.text = "{2,}?", .min = 2, .max = 9}};
    uint32_t kind = chance(16);
    if (kind < 2)
        return make_node((struct node){.kind = PLACE, .text = PLACES[chance(4)]});
    if (kind == 2)
        return make_node(SWITCHES[chance(ARRAY_LEN(SWITCHES))]);
    if (kind < 5 && depth) {
        uint32_t look = chance(4);
        uint32_t inside = make_choice(depth - 1);
        return make_node((struct node){.kind = LOOK,
                                       .text = LOOKS[look],
                                       .behind = look > 1,
                                       .negative = look & 1,
                                       .kids = {inside},
                                       .count = 1});
    }
    uint32_t atom = make_atom(depth);
    if (kind < 10)
        return atom;
    struct node n = COUNTS[chance(ARRAY_LEN(COUNTS))];
    n.kind = TIMES;
    n.kids[n.count++] = atom;
    return make_node(n);
}

static uint32_t make_choice(uint32_t depth) {
    struct node choice = {.kind = ONE_OF, .count = 1 + !chance(3)};
    for (uint32_t i = 0; i < choice.count; i++) {
        struct node row = {.kind = ALL_OF, .count = chance(4)};
        for (uint32_t k = 0; k < row.count; k++)
            row.kids[k] = make_item(depth);
        choice.kids[i] = make_node(row);
    }
    return make_node(choice);
}

static void write_node(uint32_t at, struct buf *out) {
    const struct node *n = &nodes[at];
    if (n->kind != TIMES && n->text)
        buf_add_str(out, n->text);
    for (uint32_t i = 0; i < n->count; i++) {
        if (n->kind == ONE_OF && i)
            buf_add_str(out, "|");
        write_node(n->kids[i], out);
    }
    if (n->kind == TIMES)
        buf_add_str(out, n->text);
    if (n->kind == GROUP || n->kind == LOOK)
        buf_add_str(out, ")");
}

/* ---- where they match ---- */

struct text {
    const char *chars;
    uint32_t len;
    bool fold, dot_all;
};

static bool is_word(char c) {
    return c == 'a' || c == 'A' || c == 'b';
}

static bool in_set(const char *set, char c, bool fold, bool dot_all) {
    bool is_a = c == 'a' || (fold && c == 'A'), is_big = c == 'A' || (fold && c == 'a');
    switch (set[0]) {
    case 'a': return is_a;
    case 'A': return is_big;
    case '.': return dot_all || c != '\n';
    case '\\': return is_word(c) == (set[1] == 'w');
    case '[': return set[1] != '^' ? is_a || c == 'b' : set[2] == 'a' ? !is_a : !is_big && c != '-';
    default: return c == set[0];
    }
}

static bool holds(const char *place, const struct text *t, uint32_t at) {
    bool before = at > 0 && is_word(t->chars[at - 1]),
         behind = at < t->len && is_word(t->chars[at]);
    switch (place[0]) {
    case '^': return at == 0;
    case '$': return at == t->len;
    default: return (before != behind) == (place[1] == 'b');
    }
}

static void set_flags(struct text *t, const struct node *n) {
    t->fold = n->fold ? n->fold > 0 : t->fold;
    t->dot_all = n->dot_all ? n->dot_all > 0 : t->dot_all;
}

/* The places (a bit each) where it may end that begins at one of `from`. */
static uint32_t ends(uint32_t node, struct text *t, uint32_t from);

/* The places where a lookaround holds. */
static uint32_t looked(const struct node *n, struct text *t) {
    uint32_t there = 0;
    for (uint32_t at = 0; at <= t->len; at++) {
        struct text inside = *t;
        uint32_t found = ends(n->kids[0], &inside, 1u << at);
        if (n->behind)
            there |= found; /* from here on, it ends there */
        else if (found)
            there |= 1u << at;
    }
    return n->negative ? ~there : there;
}

static uint32_t times(const struct node *n, struct text *t, uint32_t from) {
    uint32_t now = from, all = n->min ? 0 : from;
    for (uint32_t i = 1; i <= (n->max == 9 ? 16 : n->max); i++) {
        now = ends(n->kids[0], t, now);
        all |= i >= n->min ? now : 0;
    }
    return all;
}

static uint32_t ends(uint32_t node, struct text *t, uint32_t from) {
    const struct node *n = &nodes[node];
    const struct text before = *t;
    uint32_t out = 0;
    switch (n->kind) {
    case CHARS:
        for (uint32_t at = 0; at < t->len; at++)
            if ((from >> at & 1) && in_set(n->text, t->chars[at], t->fold, t->dot_all))
                out |= 2u << at;
        return out;
    case PLACE:
        for (uint32_t at = 0; at <= t->len; at++)
            out |= holds(n->text, t, at) ? from & 1u << at : 0;
        return out;
    case ONE_OF:
        for (uint32_t i = 0; i < n->count; i++)
            out |= ends(n->kids[i], t, from);
        return out;
    case ALL_OF:
        for (uint32_t i = 0; i < n->count; i++)
            from = ends(n->kids[i], t, from);
        return from;
    case GROUP:
        set_flags(t, n);
        out = ends(n->kids[0], t, from);
        *t = before;
        return out;
    case TIMES: return times(n, t, from);
    case LOOK: return from & looked(n, t);
    case FLAGS: set_flags(t, n); return from;
    }
    return 0;
}

/* ---- both ---- */

static void compare(uint32_t root, const char *pattern, bool whole, const struct dfa *d) {
    static const char LETTERS[] = "aAb-\n";
    for (uint32_t len = 0, count = 1; len <= 4; len++, count *= 5)
        for (uint32_t i = 0; i < count; i++) {
            char chars[5] = {0};
            for (uint32_t k = 0, rest = i; k < len; k++, rest /= 5)
                chars[k] = LETTERS[rest % 5];
            struct text t = {.chars = chars, .len = len};
            uint32_t found = ends(root, &t, whole ? 1 : (2u << len) - 1);
            bool want = whole ? found >> len & 1 : found != 0;
            if (dfa_accepts(d, bytes_str(chars)) != want)
                check_fail(__FILE__, __LINE__, "'%s' (%s) %s '%s'", pattern,
                           whole ? "whole" : "found", want ? "refuses" : "accepts", chars);
        }
}

TEST(patterns_match_what_their_parts_say) {
    struct grammar_limits limits = grammar_limits_default();
    int held = 0;
    for (int round = 0; round < 150; round++) {
        struct buf pattern = {0};
        struct builder b;
        struct dfa d;
        struct error err;
        node_count = 0;
        uint32_t root = make_choice(2);
        write_node(root, &pattern);
        for (int whole = 0; whole < 2; whole++) {
            builder_init(&b, &limits);
            int rc = regex_to_dfa(&b, buf_bytes(&pattern), whole, &d, &err);
            held += !rc;
            if (!rc)
                compare(root, buf_text(&pattern), whole, &d);
            else if (rc != ERR_LIMIT) /* many lookarounds in one may take too many states */
                check_fail(__FILE__, __LINE__, "'%s': %s", buf_text(&pattern), err.text);
            dfa_release(&d);
            builder_release(&b);
        }
        buf_release(&pattern);
    }
    EXPECT(held > 200); /* of 300 */
}

/* Each takes few states; they were refused once. */
TEST(counts_that_begin_anywhere_cost_their_length) {
    static const struct {
        const char *pattern, *good, *bad;
    } ROWS[] = {
        {"[a-z0-9][.a-z0-9-]{1,61}[a-z0-9]", "--ab.c", "a."},
        {"arn:[a-z.]{1,63}:[a-z.]{0,63}:[a-z.]{0,63}:[^/].{0,1023}", "xarn:a:::b", "arn:a:::/"},
        {"([_A-Za-z][_0-9A-Za-z]{0,511}){2}x", "abx", "ax"},
        {"^(a+/?){3,1016}$", "aaa/", "aa/"},
        {"^(?=.{2,256}$)(a+(-a+)*/)*a$", "a-a/a", "a"},
        {"^((?!-)[a-z-]{1,63}(?<!-)\\.)+[a-z]+$", "a-b.c.d", "a-.c"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct grammar_limits limits = grammar_limits_default();
        struct builder b;
        struct dfa d;
        struct error err;
        builder_init(&b, &limits);
        b.fuel.states = 20000;
        if (regex_to_dfa(&b, bytes_str(ROWS[i].pattern), false, &d, &err))
            check_fail(__FILE__, __LINE__, "'%s': %s", ROWS[i].pattern, err.text);
        else if (!dfa_accepts(&d, bytes_str(ROWS[i].good)) ||
                 dfa_accepts(&d, bytes_str(ROWS[i].bad)))
            check_fail(__FILE__, __LINE__, "'%s' is found where it is not", ROWS[i].pattern);
        dfa_release(&d);
        builder_release(&b);
    }
}
