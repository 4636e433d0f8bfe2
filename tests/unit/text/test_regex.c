/*
 * Patterns of a model's files in a client's text: so many steps for a text, whatever the pattern.
 */
#include "text/tokenizer/regex_run.h"

#include "check.h"
#include "golden.h"
#include "text/tokenizer/known_splits.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode.h"

enum { TEXT_BYTES = 4096 };

/* Alternatives, each the same. */
#define TWICE(a) a "|" a
#define EIGHT(a) TWICE(TWICE(TWICE(a)))

/* Each reads far for each place of a text of a's, with a 'c' as every so-manieth letter, and finds
 * little. */
static const struct {
    const char *pattern;
    size_t period;
} HARD[] = {
    {"a*?b|.", TEXT_BYTES},                        /* forward, lazily */
    {"a++b|.", TEXT_BYTES},                        /* in one item */
    {"a+b|.", TEXT_BYTES},                         /* forward and back */
    {"(?=(a+))\\1b|.", TEXT_BYTES},                /* by a reference to a group */
    {"\\p{L}+?\\p{L}+?\\p{L}+?!|.", TEXT_BYTES},   /* more than once */
    {"(?:(?=a*+)a)*+b|.", TEXT_BYTES},             /* n^2 steps for one place */
    {"(?:a|a)*+b|.", TEXT_BYTES},                  /* by a group */
    {"(a*+c)(?:" EIGHT(EIGHT("\\1d")) ")|.", 128}, /* references that fail late */
    {EIGHT(EIGHT("a{800}b")) "|.", 700},           /* what is repeated much */
    {"[^\\P{Ll}]{0,100}b|.", TEXT_BYTES},          /* a large class */
};

static struct bytes letters(uint8_t text[TEXT_BYTES], size_t period) {
    for (size_t i = 0; i < TEXT_BYTES; i++)
        text[i] = (i + 1) % period ? 'a' : 'c';
    return bytes_of(text, TEXT_BYTES);
}

/* All matches, one behind the other. */
static int find_all(struct regex_run *run, const struct regex *regex, struct bytes text,
                    struct error *err) {
    size_t at = 0, begin, end;
    int rc;
    while ((rc = regex_run_find(run, regex, text, at, &begin, &end, err)) > 0 && at < text.len)
        at = end > at ? end : at + 1;
    return MIN(rc, 0);
}

TEST(a_text_has_so_many_steps_for_all_matches) {
    uint8_t text[TEXT_BYTES];
    unicode_init();
    for (size_t i = 0; i < ARRAY_LEN(HARD); i++) {
        struct regex_run run = {0};
        struct regex regex;
        struct error err;
        struct bytes all = letters(text, HARD[i].period);
        EXPECT_EQ(regex_compile(bytes_str(HARD[i].pattern), &regex, &err), 0);
        regex_run_begin(&run, REGEX_STEPS_TEXT / 64);
        regex_run_allow(&run, all.len);
        int rc = find_all(&run, &regex, all, &err);
        if (rc != ERR_LIMIT || !run.refused || !strstr(err.text, "too hard for this model"))
            check_fail(__FILE__, __LINE__, "%.40s: %d, %llu of %llu steps", HARD[i].pattern, rc,
                       (unsigned long long)run.used, (unsigned long long)run.allowed);
        /* the same pattern, a text that it takes */
        regex_run_begin(&run, REGEX_STEPS_TEXT);
        regex_run_allow(&run, 8);
        EXPECT_EQ(find_all(&run, &regex, bytes_of(text, 8), &err), 0);
        EXPECT(!run.refused);
        regex_run_release(&run);
        regex_release(&regex);
    }
}

/* ---- patterns that are known ---- */

static const char *const PLAIN[] = {
    "The quick brown fox didn't jump over 12345 lazy dogs; it's 3.14 o'clock, they'll say.\n",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4 5 6 7 8 9 0 . , ; : ! ?",
    "int main(void) {\n        return printf(\"%d\\n\", a[i] += 0x1F) ? 0 : 1;\n}\n\n\n",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82 \xEC\x95\x88\xEB\x85"
    "\x95 \xE3\x81\x93\xE3\x82\x93 \xD0\x9F\xD1\x80\xD0\xB8 \xD9\x85\xD8\xB1\xD8\xAD",
    "e\xCC\x81t\xC3\xA9 \xF0\x9F\x99\x82\xF0\x9F\x99\x82 --- === ///// ###### $$$ 000111222333",
    "                                        x\t\t\t\t\t\t\t\ty\r\n\r\n\r\n   \n   \n",
};

/* Were they counted, they would take a small part of what is allowed for plain text: so does what a
 * stranger's pattern of their kind does. */
TEST(patterns_of_their_kind_are_far_from_the_bound) {
    const char *known;
    unicode_init();
    for (size_t i = 0; (known = known_split_pattern(i)); i++)
        for (size_t k = 0; k < ARRAY_LEN(PLAIN); k++) {
            struct regex_run run = {0};
            struct regex regex;
            struct buf text = {0}, pattern = {0};
            for (int times = 0; times < 8; times++)
                buf_add_str(&text, PLAIN[k]);
            buf_addf(&pattern, "%s(?:)", known);
            EXPECT_EQ(regex_compile(buf_bytes(&pattern), &regex, NULL), 0);
            regex_run_allow(&run, text.len);
            EXPECT_EQ(find_all(&run, &regex, buf_bytes(&text), NULL), 0);
            if (run.used > run.allowed / 4)
                check_fail(__FILE__, __LINE__, "%.40s: text %zu: %llu steps of %llu", known, k,
                           (unsigned long long)run.used, (unsigned long long)run.allowed);
            regex_run_release(&run);
            regex_release(&regex);
            buf_release(&text);
            buf_release(&pattern);
        }
}

TEST(patterns_that_are_known_are_not_counted) {
    const char *known;
    unicode_init();
    EXPECT(!known_split_has(bytes_str("a*?b|.")) && !known_split_has(bytes_str("")));
    for (size_t i = 0; (known = known_split_pattern(i)); i++) {
        struct regex_run run = {0};
        struct regex regex;
        EXPECT(known_split_has(bytes_str(known)));
        EXPECT_EQ(regex_compile(bytes_str(known), &regex, NULL), 0);
        EXPECT_EQ(find_all(&run, &regex, bytes_str(PLAIN[0]), NULL), 0);
        EXPECT_EQ(run.used, 0);
        regex_run_release(&run);
        regex_release(&regex);
    }
}

/* ---- in a tokenizer ---- */

static struct tokenizer *tokenizer_of(const char *parts) {
    struct buf json = {0};
    struct bytes none = {0};
    struct tokenizer *t;
    struct error err;
    buf_addf(&json,
             "{%s,\"added_tokens\":[{\"id\":1,\"content\":\"<x>\",\"special\":false}],"
             "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0}}}",
             parts);
    if (tokenizer_load(buf_bytes(&json), none, none, &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    buf_release(&json);
    return t;
}

#define SPLIT(pattern)                                                                             \
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern                      \
    "\"},\"behavior\":\"Isolated\"}"
#define REPLACE(pattern)                                                                           \
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"" pattern "\"},\"content\":\"d\"}"

static int encode(const struct tokenizer *t, struct bytes text, bool offsets, struct error *err) {
    struct token_vec ids = {0};
    struct offset_map map = {0};
    int rc = offsets ? tokenizer_encode_offsets(t, text, 0, &ids, &map, err)
                     : tokenizer_encode(t, text, 0, &ids, err);
    vec_release(&ids);
    vec_release(&map.spans);
    return rc;
}

TEST(split_patterns_and_normalizers_share_the_steps_of_a_text) {
    static const char *const PARTS[] = {SPLIT("a*?b|."), "\"normalizer\":" REPLACE("a*?b|c")};
    uint8_t text[TEXT_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(PARTS); i++)
        for (int offsets = 0; offsets < 2; offsets++) {
            struct tokenizer *t = tokenizer_of(PARTS[i]);
            struct error err;
            EXPECT_EQ(encode(t, letters(text, TEXT_BYTES), offsets, &err), ERR_LIMIT);
            EXPECT(strstr(err.text, i ? "this model's normalizer" : "this model's own pattern"));
            /* a text's steps are its own */
            EXPECT_EQ(encode(t, bytes_of(text, 64), offsets, &err), 0);
            EXPECT_EQ(encode(t, letters(text, TEXT_BYTES), offsets, &err), ERR_LIMIT);
            tokenizer_free(&t);
        }
}

/* Between added tokens a text has many spans: one of them is easy, and it has no more steps for
 * having more of them. */
TEST(spans_between_added_tokens_have_no_steps_of_their_own) {
    struct tokenizer *t = tokenizer_of(SPLIT("(?:a|a)*b|."));
    struct buf text = {0};
    struct error err;
    for (int i = 0; i < 40; i++) {
        buf_add_str(&text, "aaaaaaaaaaaaaa<x>");
        if (i == 0)
            EXPECT_EQ(encode(t, buf_bytes(&text), false, &err), 0);
    }
    EXPECT_EQ(encode(t, buf_bytes(&text), false, &err), ERR_LIMIT);
    buf_release(&text);
    tokenizer_free(&t);
}

/* A decoder has no way to refuse: what is too hard stays as it is. */
TEST(decoders_leave_what_is_too_hard) {
    uint8_t text[TEXT_BYTES];
    letters(text, TEXT_BYTES);
    for (int hard = 0; hard < 2; hard++) {
        struct tokenizer *t;
        struct buf json = {0}, out = {0};
        struct error err;
        struct bytes none = {0};
        uint32_t id = 0;
        buf_add_str(
            &json,
            "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
            "{\"type\":\"Fuse\"}," REPLACE(
                "a*?b|c") "]},"
                          "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"");
        buf_add(&json, text + (hard ? 0 : TEXT_BYTES - 64), hard ? TEXT_BYTES : 64);
        buf_add_str(&json, "\":0,\"u\":1}}}");
        EXPECT_EQ(tokenizer_load(buf_bytes(&json), none, none, &t, &err), 0);
        tokenizer_detokenize(t, (struct tokens){&id, 1}, 0, &out);
        EXPECT_EQ(out.len, hard ? TEXT_BYTES : 64);
        EXPECT_EQ(out.data[out.len - 1], hard ? 'c' : 'd');
        buf_release(&json);
        buf_release(&out);
        tokenizer_free(&t);
    }
}
