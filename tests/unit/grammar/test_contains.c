/* How many items satisfy a schema, several times over, and what is asked of all others. */
#include "check.h"
#include "compile.h"

#include <stdio.h>

enum { DIGITS = 4, ITEMS = 3, NO_END = 9 };

/* Of items 1 to DIGITS: the set, as bits, of which `min` to `max` come from the place on. */
struct wanted {
    unsigned set, min, max;
};

static void add_set(struct buf *out, unsigned set) {
    const char *between = "";
    buf_add_str(out, "{\"enum\":[");
    for (int i = 0; i < DIGITS; i++)
        if (set >> i & 1) {
            buf_addf(out, "%s%d", between, i + 1);
            between = ",";
        }
    buf_add_str(out, "]}");
}

static void add_wanted(struct buf *out, const struct wanted *w) {
    buf_add_str(out, "{\"contains\":");
    add_set(out, w->set);
    buf_addf(out, ",\"minContains\":%u", w->min);
    if (w->max != NO_END)
        buf_addf(out, ",\"maxContains\":%u", w->max);
    buf_add_byte(out, '}');
}

static bool holds(const struct wanted *w, const int *items, int count) {
    unsigned found = 0;
    for (int i = 0; i < count; i++)
        found += w->set >> items[i] & 1;
    return found >= w->min && (w->max == NO_END || found <= w->max);
}

/* Every array of ITEMS items at most, against what counting says. */
static void try_arrays(const char *schema, const struct wanted *w, size_t count, unsigned rest) {
    struct program p;
    struct error err;
    int items[ITEMS], total = 1, rc = compile(GRAMMAR_JSON_SCHEMA, schema, &p, &err);
    if (rc && !strstr(err.text, "no text satisfies"))
        check_fail(__FILE__, __LINE__, "%s: %s", schema, err.text);
    for (int n = 0; n <= ITEMS; n++, total *= DIGITS)
        for (int k = 0; k < total; k++) {
            struct buf text = {0};
            bool want = true;
            buf_add_byte(&text, '[');
            for (int i = 0, left = k; i < n; i++, left /= DIGITS) {
                items[i] = left % DIGITS;
                buf_addf(&text, "%s%d", i ? "," : "", items[i] + 1);
            }
            buf_add_byte(&text, ']');
            for (size_t i = 0; i < count; i++)
                want &= holds(&w[i], items, n);
            for (int i = 0; i < n; i++) {
                bool evaluated = rest >> items[i] & 1;
                for (size_t j = 0; j < count; j++)
                    evaluated |= w[j].set >> items[i] & 1;
                want &= evaluated;
            }
            if ((!rc && accepts(&p, buf_bytes(&text))) != want)
                check_fail(__FILE__, __LINE__, "%s %s %s", schema, want ? "refuses" : "accepts",
                           buf_text(&text));
            buf_release(&text);
        }
    if (!rc)
        program_release(&p);
}

static const struct wanted WANTED[] = {{0x1, 1, NO_END}, {0x6, 0, 1},      {0x3, 2, NO_END},
                                       {0xe, 0, NO_END}, {0x5, 1, 2},      {0xc, 1, 1},
                                       {0xf, 1, 3},      {0x8, 0, NO_END}, {0x2, 2, 2}};

TEST(items_that_satisfy_several_schemas_are_counted) {
    for (size_t a = 0; a < ARRAY_LEN(WANTED); a++)
        for (size_t b = 0; b < ARRAY_LEN(WANTED); b++) {
            struct wanted w[] = {WANTED[a], WANTED[b]};
            unsigned rest = (unsigned)(a * 5 + b * 3) & 0xf;
            struct buf schema = {0};
            buf_add_str(&schema, "{\"type\":\"array\",\"allOf\":[");
            add_wanted(&schema, &w[0]);
            buf_add_byte(&schema, ',');
            add_wanted(&schema, &w[1]);
            buf_add_str(&schema, "],\"unevaluatedItems\":");
            add_set(&schema, rest);
            buf_add_byte(&schema, '}');
            if (w[0].min > w[0].max || w[1].min > w[1].max)
                continue;
            try_arrays(buf_text(&schema), w, 2, rest);
            buf_release(&schema);
        }
}

static const struct {
    const char *schema;
    const char *good[8], *bad[8];
} ROWS[] = {
    {"{\"type\":\"array\",\"prefixItems\":[true,true],\"items\":false,\"not\":{\"prefixItems\":[{\"const\":1}],\"items\":"
     "{\"const\":2}}}",
     {"[2]", "[1,1]", "[1,3]", "[3,2]"},
     {"[]", "[1]", "[1,2]", "[1,1,1]"}},
    {"{\"type\":\"array\",\"not\":{\"prefixItems\":[{\"const\":1},true],\"items\":{\"const\":2}}}",
     {"[2]", "[1,1,1]", "[1,2,2,3]", "[3,2,2]"},
     {"[]", "[1]", "[1,2]", "[1,1,2]", "[1,1,2,2]"}},
    {"{\"type\":\"array\",\"allOf\":[{\"not\":{\"items\":{\"type\":\"integer\"}}},"
     "{\"not\":{\"items\":{\"enum\":[1,\"a\"]}}}]}",
     {"[\"a\",2]", "[2,\"a\"]", "[\"b\"]"},
     {"[]", "[1,\"a\"]", "[2]", "[\"a\"]"}},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"array\","
     "\"not\":{\"items\":[true],\"additionalItems\":{\"const\":2}}}",
     {"[2,1]", "[2,2,2,3]"},
     {"[]", "[1]", "[1,2]", "[1,2,2]"}},
    {"{\"contains\":{\"const\":1},\"type\":\"array\",\"unevaluatedItems\":{\"const\":2}}",
     {"[1]", "[2,1]", "[1,1,2]"},
     {"[]", "[2]", "[1,3]"}},
    {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"type\":\"array\","
     "\"contains\":{\"const\":1},\"unevaluatedItems\":{\"enum\":[1,2]}}",
     {"[1]", "[2,1]"},
     {"[]", "[2]", "[1,3]"}},
    {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"type\":\"array\","
     "\"contains\":{\"const\":1},\"unevaluatedItems\":{\"const\":2},\"maxItems\":2}",
     {NULL},
     {"[1]", "[2,1]", "[2]", "[]"}},
    {"{\"type\":\"array\",\"if\":{\"contains\":{\"const\":1}},\"then\":{\"contains\":{\"const\":2}},"
     "\"unevaluatedItems\":{\"const\":3}}",
     {"[]", "[3]", "[1,2]", "[2,3,1]"},
     {"[1]", "[2]", "[2,3]", "[1,2,4]"}},
};

TEST(what_is_counted_is_evaluated) {
    for (size_t r = 0; r < ARRAY_LEN(ROWS); r++) {
        struct grammar_source source = {.kind = GRAMMAR_JSON_SCHEMA,
                                        .text = bytes_str(ROWS[r].schema)};
        struct program p;
        struct error err;
        if (grammar_compile(&source, NULL, &p, &err)) {
            if (ROWS[r].good[0])
                check_fail(__FILE__, __LINE__, "%s: %s", ROWS[r].schema, err.text);
            continue;
        }
        CHECK_TEXTS(&p, ROWS[r]);
        program_release(&p);
    }
}
