/* Lists in one text: their items, and whether a word is among them. */
#include "base/base.h"
#include "base/list.h"
#include "check.h"

TEST(items_of_a_list_come_one_after_another) {
    static const struct {
        const char *list, *items[4];
        size_t count;
    } CASES[] = {
        {NULL, {NULL}, 0},
        {"", {NULL}, 0},
        {"a", {"a"}, 1},
        {"ab,c", {"ab", "c"}, 2},
        {"ab,c,", {"ab", "c"}, 2},
        {",", {""}, 1},
        {"a,,b", {"a", "", "b"}, 3},
        {",a", {"", "a"}, 2},
        {" a , b", {" a ", " b"}, 2},
        {"a\nb,c", {"a\nb", "c"}, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        const char *rest = CASES[i].list;
        struct bytes item = {0};
        for (size_t k = 0; k < CASES[i].count; k++) {
            EXPECT(list_next(&rest, ',', &item));
            EXPECT(bytes_equal(item, bytes_str(CASES[i].items[k])));
        }
        EXPECT(!list_next(&rest, ',', &item));
        EXPECT(!rest || !*rest);
    }
}

TEST(items_are_taken_without_the_spaces_around_them) {
    const char *rest = " a b ,,  , c,";
    struct bytes item;
    EXPECT(list_next_trimmed(&rest, ',', &item) && bytes_equal(item, bytes_str("a b")));
    EXPECT(list_next_trimmed(&rest, ',', &item) && bytes_equal(item, bytes_str("c")));
    EXPECT(!list_next_trimmed(&rest, ',', &item));
    rest = "   ";
    EXPECT(!list_next_trimmed(&rest, ',', &item));
    rest = NULL;
    EXPECT(!list_next_trimmed(&rest, ',', &item));
}

TEST(a_word_is_in_a_list_whole_or_not_at_all) {
    static const struct {
        const char *list, *word;
        char separator;
        bool has;
    } CASES[] = {
        {"ab,cd,ef", "ab", ',', true},  /* the first, */
        {"ab,cd,ef", "cd", ',', true},  /* one between, */
        {"ab,cd,ef", "ef", ',', true},  /* the last, */
        {"ab,cd,ef,", "ef", ',', true}, /* and with a separator behind it */
        {"ab,cd", "a", ',', false},     /* the beginning of one, */
        {"ab,cd", "b", ',', false},     /* the end of one, */
        {"ab,cd", "abc", ',', false},   /* longer ones, */
        {"ab,cd", "cde", ',', false},
        {"ab,cd", "ab,cd", ',', false}, /* and two of them are none */
        {"ab,cd", "AB", ',', false},
        {"ab, cd", "cd", ',', false},
        {"ab", "ab", ',', true},
        {"", "ab", ',', false},
        {NULL, "ab", ',', false},
        {"", "", ',', false},
        {"a,,b", "", ',', false},
        {"/run/a\n/run/b\n", "/run/b", '\n', true},
        {"/run/a,x\n", "/run/a", '\n', false},
        {"/run/a,x\n", "/run/a,x", '\n', true},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        if (list_has(CASES[i].list, CASES[i].separator, bytes_str(CASES[i].word)) != CASES[i].has)
            check_fail(__FILE__, __LINE__, "'%s' in '%s'", CASES[i].word,
                       CASES[i].list ? CASES[i].list : "(none)");
    EXPECT(list_has("ab,cd", ',', bytes_of("cdef", 2)));
    EXPECT(!list_has("ab,cd", ',', bytes_of("cd\0", 3)));
}
