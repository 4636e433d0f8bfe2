/* Masks are what is accepted, token by token; the tables behind them. */
#include "check.h"
#include "compile.h"
#include "grammar/run.h"
#include "rows.h"

/* Every byte, and texts that begin, end and cross what JSON is made of. */
static const char *const PIECES[] = {
    "{\"", "\":", "\": ", "\",", "\", \"", "\"}", "\"]", "}}", "]}", "},", ", ", "true", "fal",
    "null", "12", "0.5", "ab", "abc", "name", "na", "me\"", "me\":", "\\n", "\\u00", "e9", "\\\"",
    "\xC3", "\xA9", "\xF0\x9F", "  ", "\n  ", "[[", "[\"", "-1", "e+", "a\"", "xy\"z", "\"\"",
    /* characters of two to four bytes; one that `.` does not take; a cut one behind a whole one */
    "\xC3\xA9o", "\xE2\x80\x94", "\xE2\x80\xA8", "a\xE2\x80\xA9", "\xED\x9F\xBF",
    "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "x\xE0\xA0", "ot", "hote", "l Pa",
    /* subtrees of some size: of letters alone, with a slash, and with characters of two bytes */
    "el", "ela", "elas", "elast", "elasti", "else", "el/s", "elf%e", "ho\xC3\xA9", "hoh", "hohe",
    "hoher", "zz", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "zzzzzzzzzzzz"};
enum { BYTE_TOKENS = 256, END_TOKEN = BYTE_TOKENS + 80, TOKENS = END_TOKEN + 1 };
_Static_assert(ARRAY_LEN(PIECES) <= END_TOKEN - BYTE_TOKENS, "room for all pieces");

static struct vocab *small_vocab(uint8_t bytes[BYTE_TOKENS]) {
    static const uint32_t ENDS[] = {END_TOKEN};
    struct bytes tokens[TOKENS] = {{0}};
    for (uint32_t i = 0; i < BYTE_TOKENS; i++) {
        bytes[i] = (uint8_t)i;
        tokens[i] = bytes_of(&bytes[i], 1);
    }
    for (uint32_t i = 0; i < ARRAY_LEN(PIECES); i++)
        tokens[BYTE_TOKENS + i] = bytes_str(PIECES[i]);
    return vocab_new(tokens, TOKENS, ENDS, 1);
}

static bool allowed(const uint32_t *bits, uint32_t id) {
    return bits[id / 32] >> id % 32 & 1;
}

/* Whether a token is accepted by a fresh matcher at the same place. */
static bool token_fits(struct grammar_run *run, const uint32_t *before, size_t count, uint32_t id) {
    struct matcher *m = matcher_new(run);
    bool fits = true;
    for (size_t i = 0; i < count && fits; i++)
        fits = matcher_token(m, before[i]);
    fits = fits && matcher_token(m, id);
    matcher_free(&m);
    return fits;
}

TEST(masks_are_what_is_accepted) {
    uint8_t bytes[BYTE_TOKENS];
    struct vocab *v = small_vocab(bytes);
    for (size_t r = 0; r < ARRAY_LEN(ROWS); r++) {
        struct program p;
        struct error err;
        EXPECT(!compile(ROWS[r].kind, ROWS[r].source, &p, &err));
        struct grammar_run *run = grammar_run_new(&p, v);
        for (int walk = 0; walk < 6; walk++) {
            struct matcher *m = matcher_new(run);
            uint32_t tokens[40], bits[(TOKENS + 31) / 32], choices[TOKENS];
            for (size_t n = 0; n < ARRAY_LEN(tokens); n++) {
                size_t count = 0;
                matcher_mask(m, bits);
                for (uint32_t id = 0; id < TOKENS; id++) {
                    if (allowed(bits, id) != token_fits(run, tokens, n, id)) {
                        check_fail(__FILE__, __LINE__, "'%s' after %zu tokens: token %u is %s",
                                   ROWS[r].source, n, id, allowed(bits, id) ? "in" : "out");
                        return;
                    }
                    if (allowed(bits, id) && id != END_TOKEN)
                        choices[count++] = id;
                }
                /* There is always a way on, or the end. */
                EXPECT(count || allowed(bits, END_TOKEN));
                if (!count)
                    break;
                tokens[n] = choices[check_random() % count];
                EXPECT(matcher_token(m, tokens[n]));
            }
            matcher_free(&m);
        }
        grammar_run_free(&run);
        program_release(&p);
    }
    vocab_free(&v);
}

/* Behind the end nothing comes, not the end once more; nor a token that there is not. */
TEST(nothing_comes_behind_the_end) {
    uint8_t bytes[BYTE_TOKENS];
    struct vocab *v = small_vocab(bytes);
    struct program p;
    struct error err;
    EXPECT(!compile(GRAMMAR_REGEX, "a*", &p, &err));
    struct grammar_run *run = grammar_run_new(&p, v);
    struct matcher *m = matcher_new(run);
    EXPECT(matcher_token(m, 'a') && matcher_token(m, 'a') && !matcher_token(m, 'b'));
    EXPECT(!matcher_token(m, v->token_count) && !matcher_token(m, UINT32_MAX));
    EXPECT(matcher_may_end(m) && matcher_token(m, END_TOKEN));
    EXPECT(!matcher_token(m, END_TOKEN) && !matcher_token(m, 'a') &&
           !matcher_bytes(m, bytes_str("a")));
    EXPECT(matcher_may_end(m) && !matcher_failed(m));
    matcher_reset(m);
    EXPECT(matcher_token(m, 'a'));
    matcher_free(&m);
    grammar_run_free(&run);
    program_release(&p);
    vocab_free(&v);
}

TEST(a_mask_asked_for_again_is_the_same) {
    uint8_t bytes[BYTE_TOKENS];
    struct vocab *v = small_vocab(bytes);
    struct program p;
    struct error err;
    /* Inside a string, a counted one and a key; behind each byte the same mask three times. */
    static const char TEXT[] = "{\"a\":\"xyz\",\"b\":\"xyz\",\"other\":1}";
    EXPECT(!compile(GRAMMAR_JSON_SCHEMA,
                    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},"
                    "\"b\":{\"type\":\"string\",\"maxLength\":4}}}",
                    &p, &err));
    struct grammar_run *run = grammar_run_new(&p, v);
    struct matcher *m = matcher_new(run);
    for (size_t i = 0; i < sizeof TEXT - 1; i++) {
        uint32_t first[(TOKENS + 31) / 32], again[(TOKENS + 31) / 32];
        matcher_mask(m, first);
        for (int k = 0; k < 2; k++) {
            memset(again, 0xff, sizeof again);
            matcher_mask(m, again);
            EXPECT(!memcmp(first, again, v->word_count * sizeof *first));
        }
        EXPECT(allowed(first, (uint8_t)TEXT[i]) && matcher_token(m, (uint8_t)TEXT[i]));
    }
    matcher_free(&m);
    grammar_run_free(&run);
    vocab_free(&v);
    program_release(&p);
}

/* ---- words that may not come ---- */

/* Every byte, and texts drawn from pieces of words, of characters, and of what ends a string. */
static struct vocab *word_vocab(struct buf *texts, struct bytes *tokens, uint32_t count) {
    static const char *const WORDS[] = {"ma",          "ak",
                                        "ker",         "maker",
                                        "ad",          "dm",
                                        "min",         "admin",
                                        "op",          "per",
                                        "a",           "e",
                                        "r",           "n",
                                        "x",           " ",
                                        "-",           "%",
                                        "2f",          "zzzz",
                                        "\xC3\xA9",    "\xC3",
                                        "\xA9",        "\xE4\xB8\xAD",
                                        "\xE4\xB8",    "\xE2\x80\xA8",
                                        "\"",          "\\",
                                        "\n",          "\xC2\x85",
                                        "\xE3\x80\x80"};
    size_t ends[1024] = {0};
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (i < 256)
            buf_add_byte(texts, (char)i);
        for (size_t k = 0; i >= 256 && k < 1 + i % 7; k++)
            buf_add_str(texts, WORDS[check_random() % ARRAY_LEN(WORDS)]);
        ends[i + 1] = texts->len;
    }
    for (uint32_t i = 0; i + 1 < count; i++)
        tokens[i] = bytes_of(texts->data + ends[i], ends[i + 1] - ends[i]);
    uint32_t end = count - 1;
    return vocab_new(tokens, count, &end, 1);
}

/* Whether the mask is what the matcher accepts, token by token, behind these. */
static bool mask_is_exact(struct grammar_run *run, const uint32_t *before, size_t n,
                          const uint32_t *bits) {
    struct matcher *at = matcher_new(run), *m = matcher_new(run);
    bool exact = true;
    for (size_t i = 0; i < n; i++)
        exact &= matcher_token(at, before[i]);
    for (uint32_t id = 0; id < run->vocab->token_count && exact; id++) {
        m->set = at->set;
        m->ended = false;
        exact = allowed(bits, id) == matcher_token(m, id);
    }
    matcher_free(&m);
    matcher_free(&at);
    return exact;
}

TEST(masks_beside_words_that_may_not_come) {
    static const struct {
        enum grammar_kind kind;
        const char *source;
    } CASES[] = {
        {GRAMMAR_JSON_SCHEMA, "{\"type\":\"string\",\"not\":{\"pattern\":\"maker\"}}"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"string\",\"oneOf\":[{\"pattern\":\"maker\"},{\"pattern\":"
         "\"admin\"},{\"pattern\":\"oper\"}]}"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"string\",\"pattern\":\"^(?!.*(ma|adm))[^x]*$\",\"maxLength\":30}"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\":\"string\",\"not\":{\"pattern\":\"a.e|x\"}}"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\":\"string\",\"format\":\"uri\"}"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\":\"string\",\"not\":{\"pattern\":\"\u00e9a|%[^2]\"}}"},
        {GRAMMAR_REGEX, "(?!.*(maker|admin)).*"},
        {GRAMMAR_REGEX, "([^%a]|%2f|a[^d]|ad[^m])*"},
        {GRAMMAR_REGEX, "(?![a-m][n-z])[^%]*"}, /* at the beginning alone */
        {GRAMMAR_REGEX, "(.|\\n){0,40}(maker)?"},
        /* text of control characters and quotes, too, but not of some characters above ASCII */
        {GRAMMAR_REGEX, "[^%\xC2\x85\xE3\x80\x80]*(\xE3\x80\x80[a-m]*)?"},
        {GRAMMAR_GBNF, "root ::= (\"-\" [^\\n\\x85\\u2028]+ \"\\n\")+"},
        {GRAMMAR_GBNF, "root ::= [^%\\x85]{2,30}"},
        /* stacks that grow with each character */
        {GRAMMAR_GBNF, "root ::= [^x%] (\"maker\" | root) \"e\""},
        {GRAMMAR_GBNF, "root ::= \"\" | [a-z \\n] root [d-r]"},
        {GRAMMAR_GBNF, "root ::= [^%] [^m] root? \"e\""},
        {GRAMMAR_GBNF,
         "root ::= (\"%\" | word) root? \"n\"\nword ::= char+ \"-\"?\nchar ::= [^x%-]"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\":\"object\",\"patternProperties\":{\"^(?!.*maker)\":true},"
                              "\"additionalProperties\":false}"},
    };
    enum { COUNT = 900, DEEP = 8 };
    struct buf texts = {0};
    struct bytes tokens[COUNT] = {{0}};
    struct vocab *v = word_vocab(&texts, tokens, COUNT);
    for (size_t c = 0; c < ARRAY_LEN(CASES); c++) {
        struct program p;
        struct error err;
        if (compile(CASES[c].kind, CASES[c].source, &p, &err)) {
            check_fail(__FILE__, __LINE__, "%s: %s", CASES[c].source, err.text);
            continue;
        }
        struct grammar_run *run = grammar_run_new(&p, v);
        for (int walk = 0; walk < 10; walk++) {
            struct matcher *m = matcher_new(run);
            uint32_t path[DEEP], bits[(COUNT + 31) / 32], choices[COUNT];
            for (size_t n = 0; n < DEEP; n++) {
                size_t count = 0;
                matcher_mask(m, bits);
                if (!mask_is_exact(run, path, n, bits))
                    check_fail(__FILE__, __LINE__, "'%s' after %zu tokens", CASES[c].source, n);
                for (uint32_t id = 0; id + 1 < COUNT; id++)
                    if (allowed(bits, id) && !memchr(tokens[id].data, n ? '"' : 0, tokens[id].len))
                        choices[count++] = id;
                if (!count)
                    break;
                path[n] = choices[check_random() % count];
                EXPECT(matcher_token(m, path[n]));
            }
            matcher_free(&m);
        }
        grammar_run_free(&run);
        program_release(&p);
    }
    vocab_free(&v);
    buf_release(&texts);
}

/* ---- many alternatives ---- */

/* `count` alternatives, each an object of 20 properties whose values are `value`. */
static void add_objects(struct buf *out, int count, const char *value) {
    buf_add_str(out, "{\"anyOf\":[");
    for (int i = 0; i < count; i++) {
        buf_add_str(out, i ? ",{\"type\":\"object\",\"properties\":{"
                           : "{\"type\":\"object\",\"properties\":{");
        for (int k = 0; k < 20; k++) {
            buf_add_str(out, k ? ",\"p" : "\"p");
            buf_add_u64(out, (uint64_t)k);
            buf_add_str(out, "\":");
            buf_add_str(out, k ? "{\"type\":\"string\"}" : value);
        }
        buf_add_str(out, "},\"required\":[\"p");
        buf_add_u64(out, (uint64_t)(i % 20));
        buf_add_str(out, "\"],\"minProperties\":");
        buf_add_u64(out, (uint64_t)(i / 20));
        buf_add_str(out, "}");
    }
    buf_add_str(out, "]}");
}

TEST(a_hundred_objects_may_be_open_at_once) {
    struct buf text = {0};
    struct program p;
    struct error err;
    uint8_t bytes[BYTE_TOKENS];
    uint32_t bits[(TOKENS + 31) / 32];
    add_objects(&text, 100, "{\"type\":\"integer\"}");
    EXPECT(!compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err));
    EXPECT(accepts(&p, bytes_str("{\"p0\":1,\"p3\":\"x\"}")));
    EXPECT(!accepts(&p, bytes_str("{\"p0\":\"x\"}")));
    struct vocab *v = small_vocab(bytes);
    struct grammar_run *run = grammar_run_new(&p, v);
    struct matcher *m = matcher_new(run);
    static const char TEXT[] = "{\"p0\":1,\"p3\":\"x\",\"other\":[]}";
    for (size_t i = 0; i < sizeof TEXT - 1; i++) {
        matcher_mask(m, bits);
        EXPECT(!matcher_failed(m) && allowed(bits, (uint8_t)TEXT[i]));
        EXPECT(matcher_token(m, (uint8_t)TEXT[i]));
    }
    EXPECT(matcher_may_end(m));
    matcher_free(&m);
    grammar_run_free(&run);
    vocab_free(&v);
    program_release(&p);
}

TEST(too_many_open_alternatives_are_refused_at_once) {
    struct buf text = {0}, inner = {0};
    struct program p;
    struct error err;
    add_objects(&text, 300, "{}");
    EXPECT(compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err) == ERR_LIMIT);
    EXPECT(strstr(err.text, "512 alternatives"));
    /* 30 at each of two depths are 900 behind the second brace. */
    add_objects(&inner, 30, "{}");
    add_objects(&text, 30, buf_text(&inner));
    EXPECT(compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err) == ERR_LIMIT);
    EXPECT(strstr(err.text, "512 alternatives"));
    buf_release(&inner);
}

TEST(tables_made_anew_change_nothing) {
    struct program p;
    struct error err;
    EXPECT(!compile(GRAMMAR_JSON_SCHEMA, "{\"type\":\"object\"}", &p, &err));
    struct grammar_run *run = grammar_run_new(&p, NULL);
    struct matcher *keeps = matcher_new(run), *fills = matcher_new(run);
    EXPECT(matcher_bytes(keeps, bytes_str("{\"a\":[{\"b\":[1,")));
    /* Each depth of nesting is a stack of its own, so the tables grow past their budget. */
    EXPECT(matcher_bytes(fills, bytes_str("{\"a\":")));
    for (int i = 0; i < 20000; i++)
        EXPECT(matcher_bytes(fills, bytes_str("[")));
    EXPECT(grammar_run_size(run) < RUN_BYTES_MAX);
    EXPECT(matcher_bytes(keeps, bytes_str("2]}]}")) && matcher_may_end(keeps));
    EXPECT(!matcher_bytes(keeps, bytes_str("]")));
    EXPECT(matcher_bytes(fills, bytes_str("]")));
    matcher_free(&keeps);
    matcher_free(&fills);
    grammar_run_free(&run);
    program_release(&p);
}

TEST(forced_text_is_told) {
    struct program p;
    struct error err;
    struct buf out = {0};
    struct grammar_source source = {
        .kind = GRAMMAR_JSON_SCHEMA,
        .text = bytes_str("{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
                          "\"required\":[\"city\"],\"additionalProperties\":false}"),
        .compact = true};
    EXPECT(!grammar_compile(&source, NULL, &p, &err));
    struct grammar_run *run = grammar_run_new(&p, NULL);
    struct matcher *m = matcher_new(run);
    matcher_forced(m, 100, &out);
    EXPECT_STR(buf_text(&out), "{\"city\":\"");
    buf_release(&out);
    matcher_free(&m);
    grammar_run_free(&run);
    program_release(&p);
}
