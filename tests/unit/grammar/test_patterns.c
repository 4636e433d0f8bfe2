/* test_patterns.c - what patterns match, and what they cost. */
#include "compile.h"
#include "grammar/regex.h"

/* Each takes few states; they were refused once. */
TEST(counts_that_begin_anywhere_cost_their_length) {
    static const struct {
        const char *pattern, *good, *bad;
    } ROWS[] = {
        {"[a-z0-9][.a-z0-9-]{1,61}[a-z0-9]", "--ab.c", "a."},
        {"arn:[a-z.]{1,63}:[a-z.]{0,63}:[a-z.]{0,63}:[^/].{0,1023}", "xarn:a:::b", "arn:a:::/"},
        {"([_A-Za-z][_0-9A-Za-z]{0,511}){2}x", "abx", "ax"},
        {"^(a+/?){3,1016}$", "aaa/", "aa/"},
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
