/* Arrays whose items must differ: which texts they accept, and what masks are in them. */
#include "check.h"
#include "compile.h"
#include "grammar/item.h"
#include "grammar/run.h"

/* ---- items ---- */

/* Spellings of one value each; "" ends a row. */
static const char *const SPELLINGS[][6] = {
    {"1", "1.0", "10e-1", "0.1E1", "100e-2"},
    {"-1", "-1.00", "-10e-1"},
    {"0", "-0", "0.00", "0e5", "-0.0e-3"},
    {"0.05", "5e-2", "0.050", "50E-3"},
    {"10", "1e1", "10.0", "1.0e+1", "1e01"},
    {"100", "1e2"},
    {"1e400", "10e399", "0.1e401"},
    {"1e401"},
    {"9007199254740993"},
    {"9007199254740992"},
    {"true"},
    {"false"},
    {"null"},
    {"\"\""},
    {"\"1\"", "\"\\u0031\""},
    {"\"a\"", "\"\\u0061\""},
    {"\"a/b\"", "\"a\\/b\"", "\"\\u0061\\u002fb\""},
    {"\"\\n\"", "\"\\u000a\"", "\"\\u000A\""},
    {"\"\\\"\"", "\"\\u0022\""},
    {"\"\xC3\xA9\"", "\"\\u00e9\"", "\"\\u00E9\""},
    {"\"\xF0\x9F\x98\x80\"", "\"\\ud83d\\ude00\"", "\"\\uD83D\\uDE00\""},
    {"\"ab\""},
    {"[]", "[ ]"},
    {"{}", "{ }"},
    {"[1]", "[1.0]", "[ 1 ]"},
    {"[1,2]", "[1, 2]"},
    {"[2,1]"},
    {"[[1],2]"},
    {"[1,[2]]"},
    {"{\"a\":1}", "{\"\\u0061\": 1.0}"},
    {"{\"a\":2,\"a\":1}"},
    {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", "{ \"b\" : 2.0, \"a\" : 1 }"},
    {"{\"a\":2,\"b\":1}"},
    {"{\"a\":\"1\"}"},
    {"{\"ab\":1}"},
    {"{\"a\":{\"b\":1}}"},
    {"{\"a\":{},\"b\":1}"},
};

static bool may_become(struct bytes begun, struct bytes item, struct byte_set *next) {
    item_scalar_vec mine = {0}, other = {0};
    item_split(begun, &mine);
    item_split(item, &other);
    struct item_text b = {begun, mine.items, mine.count}, i = {item, other.items, other.count};
    bool may = item_may_become(&b, &i, next);
    vec_release(&mine);
    vec_release(&other);
    return may;
}

static bool hash_of(const char *text, struct u128 *out) {
    return item_hash(bytes_str(text), 7, out);
}

TEST(items_are_equal_by_value) {
    for (size_t a = 0; a < ARRAY_LEN(SPELLINGS); a++)
        for (size_t b = 0; b < ARRAY_LEN(SPELLINGS); b++)
            for (size_t i = 0; i < 6 && SPELLINGS[a][i]; i++)
                for (size_t k = 0; k < 6 && SPELLINGS[b][k]; k++) {
                    struct u128 x, y;
                    EXPECT(hash_of(SPELLINGS[a][i], &x) && hash_of(SPELLINGS[b][k], &y));
                    if (u128_equal(x, y) != (a == b))
                        check_fail(__FILE__, __LINE__, "%s and %s", SPELLINGS[a][i],
                                   SPELLINGS[b][k]);
                }
    struct u128 x;
    EXPECT(!hash_of("", &x) && !hash_of("[1", &x) && !hash_of("1,2", &x));
}

TEST(what_begins_as_an_item_may_become_it) {
    for (size_t a = 0; a < ARRAY_LEN(SPELLINGS); a++)
        for (size_t i = 0; i < 6 && SPELLINGS[a][i]; i++)
            for (size_t k = 0; k < 6 && SPELLINGS[a][k]; k++) {
                struct bytes text = bytes_str(SPELLINGS[a][i]), item = bytes_str(SPELLINGS[a][k]);
                for (size_t len = 0; len < text.len; len++) {
                    struct byte_set next = {{0}};
                    struct bytes begun = bytes_of(text.data, len);
                    if (!may_become(begun, item, &next) || !byte_set_has(&next, text.data[len]))
                        check_fail(__FILE__, __LINE__, "%zu bytes of %s to %s", len,
                                   SPELLINGS[a][i], SPELLINGS[a][k]);
                }
                EXPECT(may_become(text, item, NULL));
            }
}

TEST(what_begins_otherwise_never_becomes_an_item) {
    static const struct {
        const char *begun, *item;
    } NEVER[] = {{"\"b", "\"ab\""},
                 {"\"abc", "\"ab\""},
                 {"\"a\"", "\"ab\""},
                 {"12", "1"},
                 {"2", "12"},
                 {"-1", "1"},
                 {"t", "false"},
                 {"[", "{}"},
                 {"{\"b", "{\"a\":1}"},
                 {"[1,3", "[1,2]"},
                 {"[1,", "[11]"},
                 {"{\"a\":\"x", "{\"a\":\"y\"}"},
                 {"\"\\u0062", "\"a\""},
                 {"n", "1"},
                 {"\"", "1"}};
    for (size_t i = 0; i < ARRAY_LEN(NEVER); i++)
        if (may_become(bytes_str(NEVER[i].begun), bytes_str(NEVER[i].item), NULL))
            check_fail(__FILE__, __LINE__, "%s and %s", NEVER[i].begun, NEVER[i].item);
}

TEST(the_comma_behind_an_item_is_found) {
    static const struct {
        const char *begun, *token;
        size_t at;
    } CASES[] = {
        {"\"ab", "\",\"", 1}, {"\"ab", ",\"", 2}, {"\"ab", "\\\",", 3}, {"\"ab\\", "\",", 2},
        {"1", ",2", 0},       {"[1", ",2]", 3},   {"[1", ",2],", 3},    {"{\"a\":\"", "\"},[", 2},
        {"[1", "]]", 2},      {"[1", "]],", 3}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        if (item_token_comma(item_place_of(bytes_str(CASES[i].begun)), bytes_str(CASES[i].token)) !=
            CASES[i].at)
            check_fail(__FILE__, __LINE__, "%s behind %s", CASES[i].token, CASES[i].begun);
}

/* ---- arrays ---- */

/* A schema; texts it accepts, texts it refuses. */
static const struct {
    const char *schema;
    const char *good[10], *bad[10];
} ROWS[] = {
    {"{\"uniqueItems\":true}",
     {"[]", "[1]", "[1,2]", "[1,\"1\",true,null,[1],{\"1\":1}]", "[ [1] , [2] ]", "[1,11,111]",
      "[{},[],0,false,\"\"]", "[[1,1],[1]]", "3"},
     {"[1,1]", "[1,1.0]", "[\"a\",\"b\",\"a\"]", "[[],[]]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]",
      "[null,null]", "[1 , 2, 1 ]", "[\"a\",\"\\u0061\"]", "[1,]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true,\"minItems\":2,"
     "\"maxItems\":3}",
     {"[\"a\",\"b\"]", "[\"a\",\"ab\",\"abc\"]", "[\"\",\"a\"]", "[\"a,b\",\"a\"]"},
     {"[\"a\"]", "[\"a\",\"a\"]", "[\"a\",\"b\",\"c\",\"d\"]", "[\"a\",\"b\",\"a\"]", "[1,2]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},"
     "\"uniqueItems\":true},\"uniqueItems\":true}",
     {"[[1],[2]]", "[[1,2],[2,1]]", "[[],[1]]", "[[1,2],[1]]"},
     {"[[1,1]]", "[[1],[1]]", "[[1,2],[3],[1,2.0]]", "[[],[]]", "[[1],[2,2]]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
     "\"boolean\"}},\"required\":[\"a\"],\"additionalProperties\":false},\"uniqueItems\":true}",
     {"[{\"a\":true},{\"a\":false}]", "[{\"a\":true}]"},
     {"[{\"a\":true},{\"a\":true}]", "[{\"a\":true},{\"a\":false},{\"a\":true}]"}},
    {"{\"prefixItems\":[{\"type\":\"boolean\"},{\"type\":\"boolean\"}],\"uniqueItems\":true,"
     "\"items\":false}",
     {"[]", "[true]", "[true,false]", "[false,true]"},
     {"[true,true]", "[false,false]", "[true,false,true]", "[null]"}},
    {"{\"type\":\"array\",\"items\":{\"enum\":[1,2,3,4,5,6,7,8,9,10,11,12]},\"uniqueItems\":true}",
     {"[12,11,10,9,8,7,6,5,4,3,2,1]", "[1,11]", "[11,1.0]"},
     {"[1,1]", "[1,2,1.0]", "[13]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"uniqueItems\":true}",
     {"[1]", "[2,1]", "[1,\"1\",11]"},
     {"[]", "[2]", "[1,1]", "[2,2,1]"}},
    {"{\"anyOf\":[{\"type\":\"array\",\"uniqueItems\":true},{\"type\":\"array\",\"maxItems\":2}]}",
     {"[1,1]", "[1,2,3]"},
     {"[1,1,2]", "[1,2,1]"}},
    {"{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\",\"pattern\":\"^[ab]*$\"},"
     "{\"type\":\"integer\",\"minimum\":0,\"maximum\":3}]},\"uniqueItems\":true}",
     {"[null,\"a\",0,\"b\",3]", "[\"ab\",\"a\"]"},
     {"[null,null]", "[0,0]", "[\"ab\",\"ab\"]", "[4]"}},
};

TEST(items_differ) {
    for (size_t r = 0; r < ARRAY_LEN(ROWS); r++) {
        struct program p;
        struct error err;
        if (compile(GRAMMAR_JSON_SCHEMA, ROWS[r].schema, &p, &err)) {
            check_fail(__FILE__, __LINE__, "%s: %s", ROWS[r].schema, err.text);
            return;
        }
        CHECK_TEXTS(&p, ROWS[r]);
        program_release(&p);
    }
}

TEST(items_that_may_run_out_are_refused_where_some_must_come) {
    static const struct {
        const char *schema, *word;
    } REFUSED[] = {
        {"{\"items\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":20},\"uniqueItems\":true,"
         "\"minItems\":2}",
         "at #/uniqueItems: of items that may run out"},
        {"{\"contains\":{\"const\":1},\"minContains\":2,\"uniqueItems\":true}", "may run out"},
        {"{\"items\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}},"
         "\"additionalProperties\":false},\"uniqueItems\":true,\"minItems\":2}",
         "may run out"},
        {"{\"items\":{\"type\":\"object\",\"patternProperties\":{\"^[ab]$\":{\"type\":\"null\"}},"
         "\"additionalProperties\":false},\"uniqueItems\":true,\"minItems\":2}",
         "may run out"},
    };
    for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++) {
        struct program p;
        struct error err;
        EXPECT(compile(GRAMMAR_JSON_SCHEMA, REFUSED[i].schema, &p, &err) == ERR_UNSUPPORTED);
        EXPECT(strstr(err.text, REFUSED[i].word));
    }
}

/* ---- masks ---- */

/* What JSON is made of, and tokens that end an item and go on. */
static const char *const PIECES[] = {
    "[",  "]",    "{",       "}",     "\"",     ",",     ":",     " ",        "0",
    "1",  "2",    "11",      ".",     "e",      "-",     "5",     "a",        "b",
    "ab", "\\",   "u",       "6",     "\\u00",  "61",    "t",     "r",        "true",
    "f",  "l",    "s",       "n",     "null",   "false", "\",\"", "\",\"a\"", "\",\"a\",",
    ",1", ",1,1", "],[",     "],[1]", "\"]",    "a\"",   "ab\",", "\"a\":",   "{\"a\":",
    "e}", "},{",  "}]",      "[1,1",  "[[1],[", "1,",    "e,",    "\", \"",   "\"\",\"",
    ",n", ",\"",  "[\"a\",", "1]",    "\"b\"",  "true,", "3",     "10",       "\xC3\xA9"};
enum { PIECE_COUNT = ARRAY_LEN(PIECES), END = PIECE_COUNT, TOKEN_COUNT = END + 1 };

static struct vocab *pieces_vocab(void) {
    struct bytes tokens[TOKEN_COUNT] = {{0}};
    uint32_t end = END;
    for (size_t i = 0; i < PIECE_COUNT; i++)
        tokens[i] = bytes_str(PIECES[i]);
    return vocab_new(tokens, TOKEN_COUNT, &end, 1);
}

/* Walks at random; false: a mask was not what is accepted, or empty. */
static bool walk_holds(struct grammar_run *run, const char *schema) {
    enum { DEEP = 14 };
    uint32_t bits[(TOKEN_COUNT + 31) / 32], choices[TOKEN_COUNT];
    struct matcher *m = matcher_new(run), *other = matcher_new(run);
    bool holds = true;
    for (int n = 0; n < DEEP && holds; n++) {
        size_t count = 0;
        bool ends = false;
        matcher_mask(m, bits);
        for (uint32_t id = 0; id < TOKEN_COUNT && holds; id++) {
            bool in = bits[id / 32] >> id % 32 & 1;
            other->set = m->set;
            other->ended = false;
            holds = in == matcher_token(other, id);
            if (!holds)
                check_fail(__FILE__, __LINE__, "%s: token %u '%s' is %s", schema, id,
                           id < END ? PIECES[id] : "end", in ? "in" : "out");
            ends |= in && id == END;
            if (in && id != END)
                choices[count++] = id;
        }
        if (holds && !count && !ends) {
            check_fail(__FILE__, __LINE__, "%s: nothing may come", schema);
            holds = false;
        }
        if (!count)
            break;
        holds &= matcher_token(m, choices[check_random() % count]);
    }
    matcher_free(&other);
    matcher_free(&m);
    return holds;
}

TEST(masks_of_unique_items_are_what_is_accepted) {
    struct vocab *v = pieces_vocab();
    for (size_t r = 0; r < ARRAY_LEN(ROWS); r++)
        for (int plain = 0; plain < 2; plain++) {
            struct grammar_source source = {.kind = GRAMMAR_JSON_SCHEMA,
                                            .text = bytes_str(ROWS[r].schema),
                                            .plain = plain,
                                            .ordered = plain};
            struct program p;
            struct error err;
            EXPECT(!grammar_compile(&source, NULL, &p, &err));
            struct grammar_run *run = grammar_run_new(&p, v);
            for (int walk = 0; walk < 8 && walk_holds(run, ROWS[r].schema); walk++) {}
            grammar_run_free(&run);
            program_release(&p);
        }
    vocab_free(&v);
}

TEST(no_comma_comes_behind_the_last_of_all_items) {
    static const struct {
        const char *schema, *text;
    } ROWS_OUT[] = {
        {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"uniqueItems\":true}",
         "[true,false"},
        {"{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
         "\"boolean\"}},\"required\":[\"a\"],\"additionalProperties\":false},\"uniqueItems\":true}",
         "[{\"a\":true},{\"a\":false}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS_OUT); i++) {
        struct program p;
        struct error err;
        EXPECT(!compile(GRAMMAR_JSON_SCHEMA, ROWS_OUT[i].schema, &p, &err));
        struct grammar_run *run = grammar_run_new(&p, NULL);
        struct matcher *m = matcher_new(run);
        EXPECT(matcher_bytes(m, bytes_str(ROWS_OUT[i].text)));
        EXPECT(!matcher_bytes(m, bytes_str(",")));
        matcher_free(&m);
        grammar_run_free(&run);
        program_release(&p);
    }
}

TEST(tables_of_unique_items_are_made_anew) {
    struct program p;
    struct error err;
    struct buf text = {0};
    EXPECT(!compile(GRAMMAR_JSON_SCHEMA, "{\"uniqueItems\":true}", &p, &err));
    struct grammar_run *run = grammar_run_new(&p, NULL);
    struct matcher *keeps = matcher_new(run), *fills = matcher_new(run);
    EXPECT(matcher_bytes(keeps, bytes_str("[[1,2],\"ab\",\"a")));
    EXPECT(matcher_bytes(fills, bytes_str("[\"")));
    for (int i = 0; i < 400; i++) { /* each byte is a frame and more */
        buf_reset(&text);
        for (int k = 0; k < 500; k++)
            buf_add_byte(&text, (char)('a' + check_random() % 26));
        EXPECT(matcher_bytes(fills, buf_bytes(&text)));
        EXPECT(grammar_run_size(run) < 2 * (size_t)RUN_BYTES);
    }
    EXPECT(!matcher_bytes(keeps, bytes_str("b\"")));
    EXPECT(matcher_bytes(keeps, bytes_str("\",[1,2")));
    EXPECT(!matcher_bytes(keeps, bytes_str("]]")));
    EXPECT(matcher_bytes(keeps, bytes_str("3]]")) && matcher_may_end(keeps));
    buf_release(&text);
    matcher_free(&keeps);
    matcher_free(&fills);
    grammar_run_free(&run);
    program_release(&p);
}
