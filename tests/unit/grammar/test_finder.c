/* Patterns in texts that come in pieces: against POSIX's regexec on every beginning of the text. */
#include "grammar/finder.h"

#include "check.h"

#include <regex.h>
#include <string.h>

/* Means the same to POSIX and here. */
static const char *const PATTERNS[] = {"a+b",  "(ab|c)c", "^a.b", "[^a]b{2}", "b$",
                                       "aabb", "(a|b)*c", "c.*c", "^b+$"};

static struct finder *make(const struct bytes *patterns, size_t count) {
    struct finder *f;
    struct error err;
    CHECK_MSG(finder_new(patterns, count, &f, &err) == 0, "%s", err.text);
    return f;
}

static bool posix_finds(const char *pattern, const char *text, size_t len) {
    regex_t re;
    char prefix[64];
    memcpy(prefix, text, len);
    prefix[len] = 0;
    CHECK(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) == 0);
    bool found = regexec(&re, prefix, 0, NULL, 0) == 0;
    regfree(&re);
    return found;
}

/* The shortest beginning of the text in which one of the patterns is found; 0: none. */
static size_t naive(const char *const *patterns, size_t count, const char *text, size_t len,
                    size_t *idx) {
    for (size_t end = 1; end <= len; end++)
        for (*idx = 0; *idx < count; ++*idx)
            if (posix_finds(patterns[*idx], text, end))
                return end;
    return 0;
}

TEST(a_pattern_is_found_at_the_same_byte_for_every_cut) {
    for (int round = 0; round < 3000; round++) {
        const char *patterns[3];
        struct bytes list[3];
        char text[20];
        size_t count = 1 + check_random() % 3, len = check_random() % sizeof text;
        for (size_t i = 0; i < count; i++) {
            patterns[i] = PATTERNS[check_random() % ARRAY_LEN(PATTERNS)];
            list[i] = bytes_str(patterns[i]);
        }
        for (size_t i = 0; i < len; i++)
            text[i] = "aabbcx"[check_random() % 6];
        struct finder *f = make(list, count);
        size_t want_idx, idx = 0, at = 0, part = 0;
        size_t want = naive(patterns, count, text, len, &want_idx);
        uint32_t state = FINDER_BEGIN;
        bool found = false;
        while (at < len && !found) {
            size_t n = 1 + check_random() % 5;
            n = MIN(n, len - at);
            found = finder_read(f, &state, bytes_of(text + at, n), &part, &idx);
            at += found ? part : n;
        }
        bool right = found == (want > 0) &&
                     (!found || (at == want && idx == want_idx &&
                                 bytes_equal(finder_pattern(f, idx), list[want_idx])));
        if (!right)
            check_fail(__FILE__, __LINE__, "'%s' and %zu more in '%.*s': %zu, expected %zu",
                       patterns[0], count - 1, (int)len, text, found ? at : 0, want);
        finder_free(&f);
    }
}

TEST(characters_are_more_than_bytes) {
    static const char text[] = "na\xC3\xAFve caf\xC3\xA9s \xF0\x9F\x9A\x80!";
    static const struct {
        const char *pattern;
        size_t end; /* 0: not found */
    } rows[] = {{"\xC3\xA9.", 13}, {"[\xC3\xA0-\xC3\xBF]", 4},
                {"\\p{Greek}", 0}, {"\\u{1F680}", 18},
                {"^.{4}e", 6},     {"\\s\\S{2}!", 0},
                {"(?i)CAF", 10},   {"(?=.*v)n", 5},
                {"^na(?!x)", 2},   {"(?<=a).", 4},
                {"(?<!n)a", 9},    {"\\bv", 5},
                {"\\Be", 6},       {"((?<=c)a)", 9},
                {"a\\b", 2},       {"(?:(?!n)a)f", 10}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct bytes pattern = bytes_str(rows[i].pattern);
        struct finder *f;
        struct error err;
        if (finder_new(&pattern, 1, &f, &err)) { /* an unknown property */
            EXPECT_EQ(err.code, ERR_UNSUPPORTED);
            EXPECT(strstr(rows[i].pattern, "\\p"));
            continue;
        }
        uint32_t state = FINDER_BEGIN;
        size_t len = 0, idx;
        if (!finder_read(f, &state, bytes_str(text), &len, &idx))
            len = 0;
        if (len != rows[i].end)
            check_fail(__FILE__, __LINE__, "'%s' is found at %zu", rows[i].pattern, len);
        finder_free(&f);
    }
}

TEST(patterns_that_cannot_be_sought_are_refused) {
    static char large[FINDER_BYTES_MAX + 2], deep[800];
    memset(large, 'a', sizeof large - 1);
    memset(deep, '(', 400);
    memset(deep + 400, ')', 399);
    const struct {
        const char *pattern, *text;
        int code;
    } rows[] = {{"", "empty text", ERR_INVALID},
                {"a*", "empty text", ERR_INVALID},
                {"$", "empty text", ERR_INVALID},
                {"(?!a)", "empty text", ERR_INVALID},
                {"(", "group", ERR_INVALID},
                {"(a)\\1", "backreference", ERR_UNSUPPORTED},
                {"(?m)a", "flag", ERR_UNSUPPORTED},
                {"a.{30}b.{30}c", "", ERR_LIMIT},
                {"(a|b)*a(a|b){40}", "", ERR_LIMIT},
                {"(\\p{L}*a\\p{L}*){30}b", "", ERR_LIMIT},
                {"((a{1000}){1000}){1000}", "", ERR_LIMIT},
                {deep, "deep", ERR_LIMIT},
                {large, "longer", ERR_LIMIT}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct bytes pattern = bytes_str(rows[i].pattern);
        struct finder *f;
        struct error err = {0};
        int rc = finder_new(&pattern, 1, &f, &err);
        EXPECT(f == NULL);
        if (rc != rows[i].code || !strstr(err.text, rows[i].text))
            check_fail(__FILE__, __LINE__, "'%.40s': %d '%s'", rows[i].pattern, rc, err.text);
    }
    struct bytes many[FINDER_PATTERNS_MAX + 1];
    struct finder *f;
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = bytes_str("a");
    EXPECT_EQ(finder_new(many, ARRAY_LEN(many), &f, &err), ERR_LIMIT);
}
