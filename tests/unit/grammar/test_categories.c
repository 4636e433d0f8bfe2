/* test_categories.c - \p{...} in patterns. */
#include "compile.h"

/* One character of each general category, and those of it that stand for others. */
TEST(categories_have_two_names) {
    static const struct {
        const char *brief, *name, *text;
    } ROWS[] = {
        {"Lu", "Uppercase_Letter", "A"},
        {"Ll", "Lowercase_Letter", "\xc3\xa9"},
        {"Lt", "Titlecase_Letter", "\xc7\x85"},
        {"Lm", "Modifier_Letter", "\xca\xb0"},
        {"Lo", "Other_Letter", "\xe4\xb8\xad"},
        {"Mn", "Nonspacing_Mark", "\xcc\x81"},
        {"Mc", "Spacing_Mark", "\xe0\xa4\x83"},
        {"Me", "Enclosing_Mark", "\xe2\x83\x9d"},
        {"Nd", "Decimal_Number", "7"},
        {"Nl", "Letter_Number", "\xe2\x85\xa7"},
        {"No", "Other_Number", "\xc2\xbd"},
        {"Pc", "Connector_Punctuation", "_"},
        {"Pd", "Dash_Punctuation", "-"},
        {"Ps", "Open_Punctuation", "("},
        {"Pe", "Close_Punctuation", ")"},
        {"Pi", "Initial_Punctuation", "\xc2\xab"},
        {"Pf", "Final_Punctuation", "\xc2\xbb"},
        {"Po", "Other_Punctuation", "!"},
        {"Sm", "Math_Symbol", "+"},
        {"Sc", "Currency_Symbol", "$"},
        {"Sk", "Modifier_Symbol", "^"},
        {"So", "Other_Symbol", "\xc2\xa9"},
        {"Zs", "Space_Separator", " "},
        {"Zl", "Line_Separator", "\xe2\x80\xa8"},
        {"Zp", "Paragraph_Separator", "\xe2\x80\xa9"},
        {"Cc", "Control", "\x01"},
        {"Cf", "Format", "\xe2\x80\x8b"},
        {"Co", "Private_Use", "\xee\x80\x80"},
        {"Cn", "Unassigned", "\xcd\xb8"},
    };
    static const char *const FORMS[] = {"\\p{%s}", "[\\p{gc=%s}]", "\\p{General_Category=%s}",
                                        "[^\\P{%s}]"};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        for (size_t k = 0; k < ARRAY_LEN(FORMS); k++) {
            const char *form = FORMS[k], *name = (k + i) % 2 ? ROWS[i].name : ROWS[i].brief;
            size_t before = (size_t)(strstr(form, "%s") - form);
            struct buf pattern = {0};
            struct program p;
            struct error err;
            buf_add(&pattern, form, before);
            buf_addf(&pattern, "%s%s", name, form + before + 2);
            CHECK(!compile_text(GRAMMAR_REGEX, &pattern, &p, &err));
            for (size_t j = 0; j < ARRAY_LEN(ROWS); j++)
                if (accepts(&p, bytes_str(ROWS[j].text)) != (i == j))
                    check_fail(__FILE__, __LINE__, "form %zu of %s and a character of %s", k,
                               ROWS[i].brief, ROWS[j].brief);
            program_release(&p);
        }
}

TEST(other_properties) {
    static const struct {
        const char *pattern, *good, *bad;
    } ROWS[] = {
        {"\\p{C}", "\x01", "a"},
        {"\\P{C}+", "a\xc3\xa9 1", "a\xe2\x80\x8b"},
        {"\\p{ASCII}+", "aZ~\n", "\xc3\xa9"},
        {"\\p{Any}", "\xf0\x9f\x98\x80", "aa"},
        {"\\p{Assigned}", "a", "\xcd\xb8"},
        {"\\p{LC}\\p{punct}\\p{digit}", "a!1", "\xe4\xb8\xad!1"},
    };
    static const char *const UNKNOWN[] = {"\\p{Greek}", "\\p{Lu", "\\pL", "\\p{}", "\\p{gc=}"};
    struct program p;
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        CHECK(!compile(GRAMMAR_REGEX, ROWS[i].pattern, &p, &err));
        CHECK(accepts(&p, bytes_str(ROWS[i].good)));
        CHECK(!accepts(&p, bytes_str(ROWS[i].bad)));
        program_release(&p);
    }
    for (size_t i = 0; i < ARRAY_LEN(UNKNOWN); i++)
        CHECK(compile(GRAMMAR_REGEX, UNKNOWN[i], &p, &err) == ERR_UNSUPPORTED);
}
