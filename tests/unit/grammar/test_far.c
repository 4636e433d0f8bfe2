/*
 * test_far.c - masks where something is counted: near a bound each token is told exactly, and far from all
 * bounds positions have one mask.
 */
#include "check.h"
#include "compile.h"
#include "grammar/run.h"

/* Runs of a letter about as long as VOCAB_SHORT_BYTES, and what ends such runs. */
static const uint32_t LENGTHS[] = {1, 2, 7, 23, 24, 25, 26, 40, 100};
static const char *const PIECES[] = {"\"", "\"}", ",",    "-",  ")",        "(",
                                     "),", "a\"", "aa)(", "-a", "\xc3\xa9", "0"};
enum { END_TOKEN = 64, TOKENS };

/* Ids: runs of "a", of "\xc3\xa9" and of "a" with a quote behind it, then the pieces. */
static struct vocab *make_vocab(struct buf *texts) {
    static const uint32_t ENDS[] = {END_TOKEN};
    struct bytes tokens[TOKENS] = {{0}};
    size_t from[TOKENS], lens[TOKENS], count = 0;
    for (int kind = 0; kind < 3; kind++)
        for (size_t i = 0; i < ARRAY_LEN(LENGTHS); i++, count++) {
            from[count] = texts->len;
            for (uint32_t k = 0; k < LENGTHS[i]; k++)
                buf_add_str(texts, kind == 1 ? "\xc3\xa9" : "a");
            buf_add_str(texts, kind == 2 ? "\"" : "");
            lens[count] = texts->len - from[count];
        }
    for (size_t i = 0; i < count; i++)
        tokens[i] = bytes_of((const uint8_t *)texts->data + from[i], lens[i]);
    for (size_t i = 0; i < ARRAY_LEN(PIECES); i++)
        tokens[count++] = bytes_str(PIECES[i]);
    CHECK(count <= END_TOKEN);
    return vocab_new(tokens, TOKENS, ENDS, 1);
}

static const struct {
    enum grammar_kind kind;
    const char *source, *begin; /* what stands in front of the run of a's */
    uint32_t bounds[3];
} ROWS[] = {
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"minLength\":60,\"maxLength\":200}",
     "\"",
     {60, 200}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^[a\\\\p{L}]+(-[a-z0-9]+)*$\",\"maxLength\":2000}",
     "\"",
     {2000}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"aaa\\\\)-a\",\"maxLength\":1500}",
     "\"",
     {1500}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":300},\"maxItems\":2}",
     "[\"",
     {300}},
    {GRAMMAR_REGEX, "(yes|no): .{30,400}(,a*)?", "yes: ", {30, 400}},
    {GRAMMAR_REGEX, "^[^0]{70,300}$", "", {70, 300}},
    {GRAMMAR_GBNF, "root ::= [a-z\\u00e9]{40,300} \",\" [a-z]{0,500}", "", {40, 300}},
    {GRAMMAR_GBNF, "root ::= (\"(\" [a-z]{0,300} \")\"){2,260}", "()(", {300}},
    {GRAMMAR_GBNF, "root ::= [a-z]{0,300} [a-z]{50,310} \"-\"", "", {50, 310, 610}},
};

/* The mask behind so many a's tells of each token whether it is read there. */
static void check_mask(size_t row, struct grammar_run *run, struct grammar_run *plain,
                       uint32_t length) {
    struct buf text = {0};
    struct matcher *m = matcher_new(run), *reads = matcher_new(plain);
    uint32_t bits[(TOKENS + 31) / 32];
    buf_add_str(&text, ROWS[row].begin);
    for (uint32_t i = 0; i < length; i++)
        buf_add_byte(&text, 'a');
    if (matcher_bytes(m, buf_bytes(&text))) {
        matcher_mask(m, bits);
        for (uint32_t id = 0; id < TOKENS; id++) {
            matcher_reset(reads);
            bool fits = matcher_bytes(reads, buf_bytes(&text)) &&
                        (id == END_TOKEN ? matcher_may_end(reads)
                                         : run->vocab->tokens[id].len &&
                                               matcher_bytes(reads, run->vocab->tokens[id]));
            if (fits != (bits[id / 32] >> id % 32 & 1))
                check_fail(__FILE__, __LINE__, "%s behind %u: token %u is not %s", ROWS[row].source,
                           length, id, fits ? "in" : "out");
        }
    }
    matcher_free(&m);
    matcher_free(&reads);
    buf_release(&text);
}

TEST(masks_near_and_far_from_bounds_are_what_is_accepted) {
    struct buf texts = {0};
    struct vocab *v = make_vocab(&texts);
    for (size_t r = 0; r < ARRAY_LEN(ROWS); r++) {
        struct program p;
        struct error err;
        if (compile(ROWS[r].kind, ROWS[r].source, &p, &err)) {
            check_fail(__FILE__, __LINE__, "%s: %s", ROWS[r].source, err.text);
            continue;
        }
        struct grammar_run *run = grammar_run_new(&p, v), *plain = grammar_run_new(&p, NULL);
        for (size_t i = 0; i < ARRAY_LEN(ROWS[r].bounds); i++) {
            uint32_t bound = ROWS[r].bounds[i];
            for (uint32_t k = 0; k < 30; k++)
                check_mask(r, run, plain, bound - MIN(bound, k));
            for (uint32_t k = 0; k < 12; k++)
                check_mask(r, run, plain, (uint32_t)(check_random() % (bound + 1)));
            check_mask(r, run, plain, bound - MIN(bound, 100u));
            check_mask(r, run, plain, bound - MIN(bound, 101u));
        }
        grammar_run_free(&run);
        grammar_run_free(&plain);
        program_release(&p);
    }
    vocab_free(&v);
    buf_release(&texts);
}

static uint32_t far_behind(struct grammar_run *run, struct matcher *m, uint32_t count, bool *all) {
    for (uint32_t i = 0; i < count; i++)
        CHECK(matcher_bytes(m, bytes_str("a")));
    return run_far_set(run, m->set, all);
}

TEST(positions_far_from_bounds_have_one_mask) {
    struct buf texts = {0};
    struct vocab *v = make_vocab(&texts);
    struct program p;
    struct error err;
    bool all;
    EXPECT(!compile(GRAMMAR_REGEX, "(yes|no): .{60,900}", &p, &err));
    struct grammar_run *run = grammar_run_new(&p, v);
    struct matcher *m = matcher_new(run);
    EXPECT(matcher_bytes(m, bytes_str("yes: ")));
    uint32_t below = far_behind(run, m, 1, &all); /* of these 60 the longest token has more */
    EXPECT(below != m->set && !all);
    EXPECT(far_behind(run, m, 20, &all) == below);
    uint32_t between = far_behind(run, m, 50, &all);
    EXPECT(between != below && between != m->set && all);
    EXPECT(far_behind(run, m, 500, &all) == between && all);
    EXPECT(far_behind(run, m, 200, &all) == between && !all);
    EXPECT(far_behind(run, m, 115, &all) == m->set);
    matcher_free(&m);
    grammar_run_free(&run);
    program_release(&p);
    vocab_free(&v);
    buf_release(&texts);
}
