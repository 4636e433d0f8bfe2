/*
 * test_counted.c - strings of a pattern whose length is counted: they are those of the pattern with the
 * length written out, and whatever has begun can be ended.
 */
#include "compile.h"
#include "grammar/regex.h"

/* What stands inside the quotes of a string of the pattern, with at most `max` characters. */
static void compile_counted(struct builder *b, const char *pattern, uint32_t max,
                            struct program *p) {
    struct grammar_limits limits = grammar_limits_default();
    struct error err;
    struct dfa d;
    builder_init(b, &limits);
    CHECK(!regex_to_dfa(b, bytes_str(pattern), true, &d, &err));
    uint32_t rule = builder_rule(b);
    builder_set_rule(b, rule, expr_counted(b, &d, max));
    int rc = program_compile(b, rule, p, &err);
    CHECK(rc == 0 || rc == ERR_INVALID); /* none is that short */
}

/* As a JSON string's inside, by number: characters of one, two and four bytes, and an escape. */
static void text_of(uint32_t number, uint32_t length, struct buf *out) {
    static const char *const LETTERS[] = {"a", "b", "\xc3\xa9", "\xf0\x9f\x98\x80", "\\n"};
    for (uint32_t i = 0; i < length; i++, number /= ARRAY_LEN(LETTERS))
        buf_add_str(out, LETTERS[number % ARRAY_LEN(LETTERS)]);
}

/* Whether up to `more` characters behind `begun` make a text that may end. */
static bool can_end(struct matcher *m, struct bytes begun, uint32_t more) {
    bool ends = false;
    for (uint32_t length = 0, count = 1; length <= more && !ends; length++, count *= 5)
        for (uint32_t i = 0; i < count && !ends; i++) {
            struct buf text = {0};
            buf_add_bytes(&text, begun);
            text_of(i, length, &text);
            matcher_reset(m);
            ends = matcher_bytes(m, buf_bytes(&text)) && matcher_may_end(m);
            buf_release(&text);
        }
    return ends;
}

static bool reads(struct matcher *m, struct bytes text) {
    matcher_reset(m);
    return matcher_bytes(m, text) && matcher_may_end(m);
}

/* Every text up to one more than `max` characters; `written` has quotes around it. */
static void compare(const struct program *counted, const struct program *written,
                    const char *pattern, uint32_t max) {
    struct grammar_run *runs[] = {grammar_run_new(counted, NULL), grammar_run_new(written, NULL)};
    struct matcher *m[] = {matcher_new(runs[0]), matcher_new(runs[1])};
    for (uint32_t length = 0, count = 1; length <= max + 1; length++, count *= 5)
        for (uint32_t i = 0; i < count; i++) {
            struct buf text = {0};
            buf_add_byte(&text, '"');
            text_of(i, length, &text);
            buf_add_byte(&text, '"');
            if (reads(m[0], bytes_of(text.data + 1, text.len - 2)) != reads(m[1], buf_bytes(&text)))
                check_fail(__FILE__, __LINE__, "'%s' of %u: %s", pattern, max, buf_text(&text));
            buf_release(&text);
        }
    for (int k = 0; k < 2; k++) {
        matcher_free(&m[k]);
        grammar_run_free(&runs[k]);
    }
}

/* Counted and written out. */
static void check_pattern(const char *pattern, uint32_t max) {
    struct builder b;
    struct program counted, written;
    struct error err;
    struct buf source = {0};
    compile_counted(&b, pattern, max, &counted);
    buf_addf(&source, "{\"type\":\"string\",\"pattern\":\"^(?:%s)$\",\"maxLength\":%u}", pattern,
             max);
    int rc = compile_text(GRAMMAR_JSON_SCHEMA, &source, &written, &err);
    CHECK(!rc == !!counted.states.count);
    if (!rc)
        compare(&counted, &written, pattern, max);
    program_release(&counted);
    program_release(&written);
    builder_release(&b);
}

static const char *const PATTERNS[] = {"[ab]*",    "a+b",      "(a|bb)*",  "a(b|\xc3\xa9)*b?",
                                       "(ab|b)+a", ".*b",      "a*|b",     "(aaa|b)*",
                                       "aab",      "[^a]{2,}", "(\\n|a.)*"};

TEST(what_is_counted_is_what_is_written_out) {
    for (size_t i = 0; i < ARRAY_LEN(PATTERNS); i++)
        for (uint32_t max = 0; max <= 4; max++)
            check_pattern(PATTERNS[i], max);
}

static bool any_byte_may_come(struct matcher *m) {
    bool any = false;
    for (unsigned byte = 0; byte < 256 && !any; byte++)
        any = matcher_bytes(m, bytes_of((uint8_t[]){(uint8_t)byte}, 1));
    return any;
}

TEST(what_has_begun_can_be_ended) {
    static const char *const BEGINNINGS[] = {"", "a", "b", "aa", "ab", "ba", "bb", "aaa", "aab"};
    static const char *const CUT[] = {"\xc3", "\\", "a\xf0\x9f", "ab\\"};
    for (size_t i = 0; i < ARRAY_LEN(PATTERNS); i++)
        for (uint32_t max = 1; max <= 4; max++) {
            struct builder b;
            struct program p;
            compile_counted(&b, PATTERNS[i], max, &p);
            if (!p.states.count) {
                builder_release(&b);
                continue;
            }
            struct grammar_run *run = grammar_run_new(&p, NULL);
            struct matcher *m = matcher_new(run);
            for (size_t k = 0; k < ARRAY_LEN(BEGINNINGS); k++) {
                matcher_reset(m);
                if (matcher_bytes(m, bytes_str(BEGINNINGS[k])) &&
                    !can_end(m, bytes_str(BEGINNINGS[k]), max))
                    check_fail(__FILE__, __LINE__, "'%s' of %u is stuck behind '%s'", PATTERNS[i],
                               max, BEGINNINGS[k]);
            }
            /* a character begins only where it may end */
            for (size_t k = 0; k < ARRAY_LEN(CUT); k++) {
                matcher_reset(m);
                if (matcher_bytes(m, bytes_str(CUT[k])) && !any_byte_may_come(m))
                    check_fail(__FILE__, __LINE__, "'%s' of %u is stuck within a character",
                               PATTERNS[i], max);
            }
            matcher_free(&m);
            grammar_run_free(&run);
            program_release(&p);
            builder_release(&b);
        }
}

/* Schemas as they are in use: unicode classes and long strings. */
TEST(a_length_beside_a_pattern_costs_no_states) {
    static const struct {
        const char *schema;
        uint32_t longest; /* texts of x: this one is accepted, and none longer */
    } ROWS[] = {
        {"{\"type\":\"string\",\"pattern\":\"^([\\\\p{L}\\\\p{Z}\\\\p{N}_.:/=+@-]*)$\",\"maxLength\":256}",
         256},
        {"{\"type\":\"string\",\"pattern\":\".*\",\"maxLength\":4096}", 4096},
        {"{\"type\":\"string\",\"pattern\":\"[\\\\s\\\\S]+\",\"minLength\":5,\"maxLength\":65536}",
         65536},
        {"{\"type\":\"string\",\"pattern\":\"^x+(:.*)?$\",\"minLength\":20,\"maxLength\":65536}",
         65536},
        {"{\"type\":\"string\",\"pattern\":\"^x{1,30}(/.{0,900})?$\",\"maxLength\":10000000}", 30},
        {"{\"type\":\"string\",\"pattern\":\"^x*[\\\\p{L}\\\\p{S}]*$\",\"maxLength\":20000}",
         20000},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct program p;
        struct error err;
        struct buf text = {0};
        if (compile(GRAMMAR_JSON_SCHEMA, ROWS[i].schema, &p, &err))
            check_fail(__FILE__, __LINE__, "%s: %s", ROWS[i].schema, err.text);
        buf_add_byte(&text, '"');
        for (uint32_t k = 0; k < ROWS[i].longest; k++)
            buf_add_byte(&text, 'x');
        buf_add_str(&text, "\"");
        if (!accepts(&p, buf_bytes(&text)))
            check_fail(__FILE__, __LINE__, "%s refuses %u", ROWS[i].schema, ROWS[i].longest);
        text.data[text.len - 1] = 'x';
        buf_add_str(&text, "\"");
        CHECK(!accepts(&p, buf_bytes(&text)));
        buf_release(&text);
        program_release(&p);
    }
}

static bool takes_length(const struct program *p, uint32_t length) {
    struct buf text = {0};
    buf_add_byte(&text, '"');
    for (uint32_t k = 0; k < length; k++)
        buf_add_byte(&text, 'x');
    buf_add_byte(&text, '"');
    bool fits = accepts(p, buf_bytes(&text));
    buf_release(&text);
    return fits;
}

TEST(a_count_that_is_the_length_costs_no_states) {
    static const struct {
        const char *rest; /* of the schema */
        uint32_t shortest, longest;
    } ROWS[] = {
        {"\"pattern\":\"^.{3,65535}$\",\"maxLength\":65535", 3, 65535},
        {"\"pattern\":\"^.{3,65535}$\",\"maxLength\":60000", 3, 60000},
        {"\"pattern\":\"^.{0,2500}$\"", 0, 2500},
        {"\"pattern\":\"^xx.{16,2044}$\"", 18, 2046},
        {"\"pattern\":\"^(?:xx|xy)[^y]{1,2044}x{3}$\",\"minLength\":20", 20, 2049},
        {"\"pattern\":\"^xx?.{1,200}$\"", 2, 202},
        {"\"pattern\":\"^x{1,100}y?x{2,70}$\"", 3, 170},
        {"\"pattern\":\"^(?:.{1,90}|y)$\"", 1, 90},
        {"\"pattern\":\"^.{1,90}$|y\",\"maxLength\":100", 1, 90},
        {"\"pattern\":\"^.{1,90}(?=$)$\"", 1, 90},
        {"\"pattern\":\"^.{1,90}\\\\b$\"", 1, 90},
        {"\"pattern\":\"^.{1,3000}$\",\"not\":{\"pattern\":\"^.{0,70}$\"}", 71, 3000},
        {"\"allOf\":[{\"pattern\":\"^.{2,900}$\"},{\"pattern\":\"^.{1,800}$\"}]", 2, 800},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct program p;
        struct error err;
        struct buf schema = {0};
        buf_addf(&schema, "{\"type\":\"string\",%s}", ROWS[i].rest);
        if (compile_text(GRAMMAR_JSON_SCHEMA, &schema, &p, &err))
            check_fail(__FILE__, __LINE__, "%s: %s", ROWS[i].rest, err.text);
        else if (!takes_length(&p, ROWS[i].shortest) || !takes_length(&p, ROWS[i].longest) ||
                 takes_length(&p, ROWS[i].longest + 1) ||
                 (ROWS[i].shortest && takes_length(&p, ROWS[i].shortest - 1)))
            check_fail(__FILE__, __LINE__, "%s: not from %u to %u", ROWS[i].rest, ROWS[i].shortest,
                       ROWS[i].longest);
        program_release(&p);
    }
}

/* ---- counts of a pattern that is a whole grammar ---- */

TEST(a_count_behind_one_place_costs_no_states) {
    static const struct {
        const char *pattern, *begin, *end;
        uint32_t min, max, states_max; /* 0: written out */
    } ROWS[] = {
        {"(positive|negative): .{1,200}", "negative: ", "", 1, 200, 120},
        {"^ab[a-z]{3,5000}$", "ab", "", 3, 5000, 80},
        {".{2,3000}", "", "", 2, 3000, 80},
        {"x(a|b){2,300}(y|z+)", "x", "zz", 2, 300, 120},
        {".{1,70}x.{1,80}", "", "x-", 1, 70, 2000},
        {"b+.{1,90}", "b", "", 1, 90, 0},     /* begins at many places */
        {"x(?!b).{1,90}", "x", "", 1, 90, 0}, /* has a lookaround */
        {"x.{1,90}\\b", "x", "", 1, 90, 0},   /* and a mark */
        {"x.{1,90}|y", "x", "", 1, 90, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct program p;
        struct error err;
        EXPECT(!compile(GRAMMAR_REGEX, ROWS[i].pattern, &p, &err));
        if (ROWS[i].states_max && p.states.count > ROWS[i].states_max)
            check_fail(__FILE__, __LINE__, "%s takes %zu states", ROWS[i].pattern, p.states.count);
        uint32_t lengths[] = {ROWS[i].min - 1, ROWS[i].min, ROWS[i].max, ROWS[i].max + 1};
        for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
            struct buf text = {0};
            buf_add_str(&text, ROWS[i].begin);
            for (uint32_t n = 0; n < lengths[k]; n++)
                buf_add_byte(&text, 'a');
            buf_add_str(&text, ROWS[i].end);
            if (accepts(&p, buf_bytes(&text)) != (k == 1 || k == 2))
                check_fail(__FILE__, __LINE__, "%s of %u", ROWS[i].pattern, lengths[k]);
            buf_release(&text);
        }
        program_release(&p);
    }
}
