/*
 * The best way through a text against the definition: for each place all tokens that end there,
 * over the whole text.
 */
#include "text/tokenizer/unigram.h"

#include "check.h"
#include "text/unicode.h"

static const char *const LETTERS[] = {"\xE2\x96\x81", "a",           "b", "\xC3\xA9",
                                      "\xE6\x97\xA5", "\xE2\x96\x82"};
enum { TOKENS_MAX = 60, TOKEN_BYTES = 16, TEXT_BYTES = 400, ROUNDS = 200, TEXTS = 20 };

struct model {
    struct vocab vocab;
    struct unigram unigram;
    char texts[TOKENS_MAX][TOKEN_BYTES];
    uint32_t count; /* the unknown token is [0] */
};

static size_t random_letters(char *out, size_t letters) {
    size_t len = 0;
    for (; letters; letters--) {
        const char *letter = LETTERS[check_random() % ARRAY_LEN(LETTERS)];
        memcpy(out + len, letter, strlen(letter));
        len += strlen(letter);
    }
    out[len] = 0;
    return len;
}

static void make_model(struct model *m, bool single_precision, bool fuse) {
    struct error err;
    double *scores = mem_calloc(TOKENS_MAX, sizeof *scores);
    *m = (struct model){.texts = {"<unk>"}, .count = 1};
    vocab_init(&m->vocab);
    (void)!vocab_add(&m->vocab, bytes_str(m->texts[0]), 0, &err);
    for (size_t wanted = 4 + check_random() % (TOKENS_MAX - 4), tries = 0;
         m->count < wanted && tries < 500; tries++) {
        bool known = false;
        random_letters(m->texts[m->count], 1 + check_random() % 4);
        for (uint32_t i = 1; i < m->count && !known; i++)
            known = !strcmp(m->texts[i], m->texts[m->count]);
        if (known)
            continue;
        scores[m->count] = -(double)(float)(1 + check_random() % 64) / (check_random() % 2 ? 4 : 7);
        (void)!vocab_add(&m->vocab, bytes_str(m->texts[m->count]), m->count, &err);
        m->count++;
    }
    vocab_seal(&m->vocab, false);
    EXPECT_EQ(unigram_init(&m->unigram, &m->vocab, scores, 0, false, NULL, &err), 0);
    m->unigram.single_precision = single_precision;
    m->unigram.fuse_unk = fuse;
}

struct place {
    double score;
    size_t start;
    uint32_t id;
    bool reached;
};

static void offer_plainly(const struct model *m, struct place *places, size_t start, size_t end,
                          double score, uint32_t id) {
    double sum = places[start].score + score;
    if (m->unigram.single_precision)
        sum = (float)sum;
    if (!places[end].reached || sum > places[end].score)
        places[end] = (struct place){sum, start, id, true};
}

static size_t encode_plainly(const struct model *m, struct bytes text, uint32_t *ids) {
    static struct place places[TEXT_BYTES + 1];
    size_t count = 0;
    memset(places, 0, sizeof places);
    for (size_t at = 0, n; at < text.len; at += n) {
        uint32_t cp;
        bool single = false;
        n = unicode_next(text.data + at, &cp);
        for (size_t end = at + 1; end <= text.len; end++)
            for (uint32_t id = 1; id < m->count; id++) {
                if (!bytes_equal(bytes_of(text.data + at, end - at), bytes_str(m->texts[id])))
                    continue;
                offer_plainly(m, places, at, end, m->unigram.scores[id], id);
                single |= end == at + n;
            }
        if (!single)
            offer_plainly(m, places, at, at + n, m->unigram.unk_score, 0);
    }
    for (size_t end = text.len; end; end = places[end].start)
        if (places[end].id || !count || ids[count - 1] || !m->unigram.fuse_unk)
            ids[count++] = places[end].id;
    for (size_t i = 0; i < count / 2; i++) {
        uint32_t id = ids[i];
        ids[i] = ids[count - 1 - i];
        ids[count - 1 - i] = id;
    }
    return count;
}

TEST(the_way_is_the_best_of_all) {
    static struct model m;
    struct unigram_scratch scratch = {0};
    char text[TEXT_BYTES];
    uint32_t ids[TEXT_BYTES];
    struct error err;
    for (int round = 0; round < ROUNDS; round++) {
        make_model(&m, round % 2, round % 4 < 2);
        for (int i = 0; i < TEXTS; i++) {
            struct token_vec out = {0};
            struct bytes piece = bytes_of(text, random_letters(text, 1 + check_random() % 60));
            size_t count = encode_plainly(&m, piece, ids);
            EXPECT_EQ(unigram_encode(&m.unigram, &scratch, piece, &out, &err), 0);
            EXPECT_EQ(out.count, count);
            EXPECT(out.count != count || !memcmp(out.items, ids, count * sizeof *ids));
            vec_release(&out);
        }
        unigram_release(&m.unigram);
        vocab_release(&m.vocab);
    }
    unigram_scratch_release(&scratch);
}

/* Tokens of 1 to `longest` letters a. */
static void make_long_tokens(struct unigram *u, struct vocab *vocab, uint32_t longest) {
    struct error err;
    char *text = mem_alloc(longest);
    double *scores = mem_calloc(longest, sizeof *scores);
    memset(text, 'a', longest);
    vocab_init(vocab);
    for (uint32_t id = 0; id < longest; id++) {
        scores[id] = -1;
        EXPECT_EQ(vocab_add(vocab, bytes_of(text, id + 1), id, &err), 0);
    }
    vocab_seal(vocab, false);
    EXPECT_EQ(unigram_init(u, vocab, scores, UINT32_MAX, false, NULL, &err), 0);
    mem_free(text);
}

/* What becomes of `len` letters: so many tokens, or a refusal. */
static void expect_letters(const struct unigram *u, size_t len, int wanted, size_t tokens) {
    struct unigram_scratch scratch = {0};
    struct token_vec out = {0};
    struct error err;
    char *text = mem_alloc(len);
    memset(text, 'a', len);
    EXPECT_EQ(unigram_encode(u, &scratch, bytes_of(text, len), &out, &err), wanted);
    EXPECT(!wanted || strstr(err.text, "too hard"));
    EXPECT(wanted || out.count == tokens);
    vec_release(&out);
    unigram_scratch_release(&scratch);
    mem_free(text);
}

/* A vocabulary is a file that somebody made. Its tokens may be as long as it likes. */
TEST(long_tokens_take_no_quadratic_time) {
    struct vocab vocab;
    struct unigram u;
    make_long_tokens(&u, &vocab, UNIGRAM_STEPS_BYTE);
    expect_letters(&u, 200 * UNIGRAM_STEPS_BYTE, 0, 200);
    unigram_release(&u);
    vocab_release(&vocab);
    make_long_tokens(&u, &vocab, 4000);
    expect_letters(&u, 700, 0, 1);
    expect_letters(&u, 8000, ERR_LIMIT, 0);
    unigram_release(&u);
    vocab_release(&vocab);
}
