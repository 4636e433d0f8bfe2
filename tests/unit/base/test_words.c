/* test_words.c - lists of words that a person types. */
#include "base/words.h"

#include "check.h"

#include <stdio.h>
#include <string.h>

/* The words with '|' behind each. */
static void expect_words(const char *list, const char *marks, const char *want) {
    char got[64] = "";
    struct bytes word;
    for (const char *at = list; words_next(&at, marks, &word);)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s|", (int)word.len,
                 (const char *)word.data);
    EXPECT_STR(got, want);
}

TEST(words_lie_between_marks) {
    expect_words("", ", ", "");
    expect_words(" , ,, ", ", ", "");
    expect_words("a", ", ", "a|");
    expect_words("a,b c", ", ", "a|b|c|");
    expect_words(",  one, two ,three,", ", ", "one|two|three|");
    expect_words("one, two", " ", "one,|two|");
}

TEST(text_is_read_to_its_end_and_not_behind) {
    const char *at = "a, b,";
    const char *end = at + 5;
    struct bytes word;
    EXPECT(words_next(&at, ",", &word) && word.len == 1);
    EXPECT(words_next(&at, ",", &word) && bytes_equal(word, bytes_str(" b")));
    EXPECT(!words_next(&at, ",", &word) && at == end && !word.len);
    EXPECT(!words_next(&at, ",", &word) && at == end);
}
