/* Values of options, type by type: what each unit and word means, where ranges begin and end, how a
 * bound is told; and which spelling is near to another. */
#include "base/option_spelling.h"
#include "base/option_value.h"
#include "check.h"

#include <math.h>

static const struct option_row FLAG = {.name = "f", .type = OPTION_BOOL},
                               COUNT = {.name = "c", .type = OPTION_INT, .min = -2, .max = 7},
                               FREE = {.name = "n", .type = OPTION_INT},
                               RATIO = {.name = "r", .type = OPTION_FLOAT, .min = -1, .max = 1},
                               SIZE = {.name = "s", .type = OPTION_SIZE},
                               SMALL = {.name = "s", .type = OPTION_SIZE, .min = 1024, .max = 2048},
                               TIME = {.name = "t", .type = OPTION_DURATION},
                               KIND = {.name = "k", .type = OPTION_ENUM, .choices = "a|bc|d"},
                               TEXT = {.name = "x", .type = OPTION_STRING};

/* The value as a number; NAN: it was refused. */
static double value_of(const struct option_row *row, const char *text, struct error *err) {
    union option_value v = {0};
    if (option_value_parse(row, text, &v, err))
        return NAN;
    switch (row->type) {
    case OPTION_BOOL: return v.flag;
    case OPTION_FLOAT: return v.number;
    case OPTION_SIZE: return (double)v.size;
    case OPTION_ENUM: return v.choice;
    case OPTION_STRING: return (double)strlen(v.text);
    default: return (double)v.integer;
    }
}

TEST(option_values_are_read_by_their_type) {
    static const struct {
        const struct option_row *row;
        const char *text;
        double value;
    } ROWS[] = {
        {&FLAG, "false", 0},
        {&FLAG, "true", 1},
        {&FLAG, "no", 0},
        {&FLAG, "yes", 1},
        {&FLAG, "off", 0},
        {&FLAG, "on", 1},
        {&FLAG, "0", 0},
        {&FLAG, "1", 1},
        {&FLAG, "TRUE", 1},
        {&COUNT, "-2", -2},
        {&COUNT, "7", 7},
        {&COUNT, "+3", 3},
        {&COUNT, "007", 7},
        {&FREE, "-9007199254740992", -9007199254740992.0},
        {&RATIO, "-1", -1},
        {&RATIO, "1", 1},
        {&RATIO, "2.5e-1", 0.25},
        {&SIZE, "9", 9},
        {&SIZE, "9b", 9},
        {&SIZE, "9k", 9 * 1024.0},
        {&SIZE, "9kb", 9 * 1024.0},
        {&SIZE, "9KiB", 9 * 1024.0},
        {&SIZE, "3m", 3 * 1048576.0},
        {&SIZE, "3mb", 3145728},
        {&SIZE, "3mib", 3145728},
        {&SIZE, "2g", 2147483648.0},
        {&SIZE, "2gb", 2147483648.0},
        {&SIZE, "2gib", 2147483648.0},
        {&SIZE, "0.5k", 512},
        {&SIZE, "0", 0},
        {&SMALL, "1024", 1024},
        {&SMALL, "2k", 2048},
        {&TIME, "9", 9},
        {&TIME, "9ms", 9},
        {&TIME, "9s", 9000},
        {&TIME, "9m", 540000},
        {&TIME, "9h", 32400000},
        {&TIME, "0.5s", 500},
        {&KIND, "a", 0},
        {&KIND, "bc", 1},
        {&KIND, "d", 2},
        {&TEXT, "", 0},
        {&TEXT, "some", 4},
    };
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        double value = value_of(ROWS[i].row, ROWS[i].text, &err);
        if (!(value == ROWS[i].value))
            check_fail(__FILE__, __LINE__, "'%s' is %g, not %g", ROWS[i].text, value,
                       ROWS[i].value);
    }
}

TEST(option_values_past_their_range_are_refused_with_it) {
    static const struct {
        const struct option_row *row;
        const char *text, *says;
    } ROWS[] = {
        {&FLAG, "2", "neither true nor false"},
        {&FLAG, "", "neither true nor false"},
        {&COUNT, "-3", "'-3' is out of range (-2 to 7)"},
        {&COUNT, "8", "'8' is out of range (-2 to 7)"},
        {&COUNT, "", "not a whole number"},
        {&COUNT, " 1", "not a whole number"},
        {&COUNT, "-", "not a whole number"},
        {&COUNT, "1.0", "not a whole number"},
        {&FREE, "9223372036854775808", "too large"},
        {&RATIO, "1.0001", "out of range (-1 to 1)"},
        {&RATIO, "-1.0001", "out of range (-1 to 1)"},
        {&RATIO, "inf", "not a number"},
        {&RATIO, "1x", "not a number"},
        {&RATIO, "", "not a number"},
        {&SIZE, "18446744073709551616", "too large"},
        {&SIZE, "0x1g", "known unit"},
        {&SIZE, "1t", "known unit (k, m, g)"},
        {&SIZE, "1ki", "known unit"},
        {&SIZE, "b", "known unit"},
        {&SMALL, "1023", "out of range (1k to 2k)"},
        {&SMALL, "2049", "out of range (1k to 2k)"},
        {&TIME, "9223372036854775808", "too large"},
        {&TIME, "1d", "known unit (ms, s, m, h)"},
        {&TIME, "1k", "known unit"},
        {&KIND, "b", "'b' is none of a|bc|d"},
        {&KIND, "a|bc", "none of"},
        {&KIND, "", "none of"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct error err = {0};
        if (!isnan(value_of(ROWS[i].row, ROWS[i].text, &err)))
            check_fail(__FILE__, __LINE__, "'%s' was taken", ROWS[i].text);
        if (err.code != ERR_INVALID || !strstr(err.text, ROWS[i].says))
            check_fail(__FILE__, __LINE__, "'%s' says '%s'", ROWS[i].text, err.text);
    }
}

TEST(option_bounds_are_told_in_their_largest_whole_unit) {
    static const struct {
        const struct option_row *row;
        double bound;
        const char *text;
    } ROWS[] = {
        {&SIZE, 0, "0"},
        {&SIZE, 1, "1"},
        {&SIZE, 1023, "1023"},
        {&SIZE, 1024, "1k"},
        {&SIZE, 1536, "1536"},
        {&SIZE, 1048576, "1m"},
        {&SIZE, 1049600, "1025k"},
        {&SIZE, 1073741824, "1g"},
        {&SIZE, 1610612736, "1536m"},
        {&TIME, 0, "0"},
        {&TIME, 999, "999ms"},
        {&TIME, 1000, "1s"},
        {&TIME, 1500, "1500ms"},
        {&TIME, 60000, "1m"},
        {&TIME, 61000, "61s"},
        {&TIME, 3600000, "1h"},
        {&TIME, 3660000, "61m"},
        {&COUNT, 1000, "1000"},
        {&RATIO, -0.5, "-0.5"},
        {&COUNT, 3600000, "3600000"},
    };
    char out[OPTION_BOUND_MAX];
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        EXPECT_STR(option_bound_text(ROWS[i].row, ROWS[i].bound, out), ROWS[i].text);
}

TEST(option_values_are_printed_as_they_are_read) {
    static const struct {
        struct option_row row;
        const char *given, *printed;
    } ROWS[] = {
        {{.type = OPTION_BOOL, .fallback = "true"}, "off", "false"},
        {{.type = OPTION_INT, .fallback = "5"}, "-7", "-7"},
        {{.type = OPTION_DURATION, .fallback = "5"}, "2s", "2000ms"},
        {{.type = OPTION_FLOAT, .fallback = "5"}, "0.5", "0.5"},
        {{.type = OPTION_SIZE, .fallback = "5"}, "2k", "2048"},
        {{.type = OPTION_ENUM, .fallback = "a", .choices = "a|bc|d"}, "d", "d"},
        {{.type = OPTION_ENUM, .fallback = "d", .choices = "a|bc|d"}, "bc", "bc"},
        {{.type = OPTION_STRING, .fallback = "x"}, "y", "y"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        union {
            int64_t integer;
            char *text;
        } place = {0};
        union option_value value;
        struct buf out = {0};
        struct error err;
        EXPECT_EQ(option_value_parse(&ROWS[i].row, ROWS[i].given, &value, &err), 0);
        option_value_store(&ROWS[i].row, &place, value);
        option_value_print(&ROWS[i].row, &place, &out);
        EXPECT_STR(buf_text(&out), ROWS[i].printed);
        EXPECT(!option_value_is_default(&ROWS[i].row, &place));
        EXPECT_EQ(option_value_parse(&ROWS[i].row, ROWS[i].row.fallback, &value, &err), 0);
        option_value_store(&ROWS[i].row, &place, value);
        EXPECT(option_value_is_default(&ROWS[i].row, &place));
        if (ROWS[i].row.type == OPTION_STRING)
            mem_free(place.text);
        buf_release(&out);
    }
    char *none = NULL;
    struct buf out = {0};
    EXPECT(option_value_is_default(&TEXT, &none));
    option_value_print(&TEXT, &none, &out);
    EXPECT_EQ(out.len, 0);
    none = (char *)"";
    EXPECT(!option_value_is_default(&TEXT, &none));
}

TEST(option_spellings_have_a_distance) {
    static const struct {
        const char *a, *b;
        size_t distance;
    } ROWS[] = {
        {"", "", 0},          {"a", "", 1},       {"", "abc", 3},       {"port", "port", 0},
        {"port", "prot", 1},  {"port", "pot", 1}, {"port", "poort", 1}, {"port", "part", 1},
        {"port", "tropp", 4}, {"ab", "ba", 1},    {"abcd", "badc", 2},  {"kitten", "sitting", 3},
        {"a", "b", 1},        {"xab", "xba", 1},  {"abx", "bax", 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const char *a = ROWS[i].a, *b = ROWS[i].b;
        EXPECT_EQ(option_distance(a, strlen(a), b, strlen(b)), ROWS[i].distance);
        EXPECT_EQ(option_distance(b, strlen(b), a, strlen(a)), ROWS[i].distance);
    }
    /* of longer ones, the first 64 letters */
    char a[80], b[80];
    memset(a, 'a', sizeof a);
    memset(b, 'a', sizeof b);
    b[64] = 'b';
    EXPECT_EQ(option_distance(a, 80, b, 80), 0);
    b[63] = 'b';
    EXPECT_EQ(option_distance(a, 80, b, 80), 1);
    EXPECT_EQ(option_distance(a, 0, b, 80), 64);
}

TEST(option_the_nearest_spelling_is_near) {
    static const struct option_row LIST[] = {
        {.name = "port"},
        {.name = "host", .aliases = "--listen-address !--anywhere -h"},
        {.name = "hidden-port", .hidden = true},
        {.name = "max-tokens"},
    };
    static const struct option_table T = {.rows = LIST, .count = ARRAY_LEN(LIST)};
    static const struct {
        const char *spelling, *name; /* NULL: none */
    } ROWS[] = {
        {"--prot", "port"},
        {"--pots", "port"}, /* before the equally near "host" */
        {"--hast", "host"},
        {"--xxrt", "port"},
        {"--xxxt", NULL},
        {"--listen-adress", "host"},
        {"--anywere", "host"},
        {"--hidden-prt", NULL},
        {"--max-token", "max-tokens"},
        {"--maximum", NULL},
        {"--p", NULL},
        {"prot", NULL},
        {"-prot", NULL},
        {"--ma", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct option_row *row =
            option_find_nearest(&T, ROWS[i].spelling, strlen(ROWS[i].spelling));
        EXPECT_STR(row ? row->name : "none", ROWS[i].name ? ROWS[i].name : "none");
    }
}
