/*
 * Merges found from ranks against what they stand for: two neighbours merge when their joined text
 * is a token, the best token first, leftmost first.
 */
#include "text/tokenizer/rank_merges.h"

#include "check.h"

enum { LETTERS = 2, WORDS_MAX = 60, TEXT_MAX = 40 };

/* Random words over a few letters. The letters come first. */
struct fixture {
    struct vocab vocab;
    struct bpe bpe;
    struct ranked_token order[WORDS_MAX];
    uint32_t rank_of[WORDS_MAX];
    size_t count;
};

/* ties: so many neighbours in the order may have the same rank. Words have up to max letters. */
static void make_fixture(struct fixture *f, size_t words, size_t ties, size_t max) {
    struct error err;
    vocab_init(&f->vocab);
    f->vocab.keep_first = true;
    for (f->count = 0; f->count < words; f->count++) {
        char word[16];
        size_t len = f->count < LETTERS ? 1 : 2 + check_random() % (max - 1);
        for (size_t i = 0; i < len; i++)
            word[i] = (char)('a' + check_random() % LETTERS);
        if (f->count < LETTERS)
            word[0] = (char)('a' + f->count);
        if (vocab_add(&f->vocab, bytes_of(word, len), (uint32_t)f->count, &err))
            check_fail(__FILE__, __LINE__, "add");
    }
    vocab_seal_raw(&f->vocab);
    size_t listed = 0;
    for (uint32_t id = 0; id < words; id++) {
        struct bytes key = vocab_key(&f->vocab, id);
        f->rank_of[id] = (uint32_t)(id / ties);
        if (vocab_find(&f->vocab, key.data, key.len) == id)
            f->order[listed++] = (struct ranked_token){id, f->rank_of[id]};
    }
    if (rank_merges_build(&f->bpe, &f->vocab, f->order, listed, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    bpe_finish(&f->bpe);
}

static void release(struct fixture *f) {
    bpe_release(&f->bpe);
    vocab_release(&f->vocab);
}

/* Ends of the parts in text after merging by the definition; returns how many. */
static size_t merge_text(const struct fixture *f, const uint8_t *text, size_t len,
                         size_t ends[TEXT_MAX]) {
    size_t count = len;
    for (size_t i = 0; i < len; i++)
        ends[i] = i + 1;
    for (;;) {
        size_t best = SIZE_MAX;
        uint32_t best_rank = UINT32_MAX;
        for (size_t i = 0; i + 1 < count; i++) {
            size_t start = i ? ends[i - 1] : 0;
            uint32_t id = vocab_find(&f->vocab, text + start, ends[i + 1] - start);
            if (id == UINT32_MAX || f->rank_of[id] >= best_rank)
                continue;
            best = i;
            best_rank = f->rank_of[id];
        }
        if (best == SIZE_MAX)
            return count;
        for (size_t i = best; i + 1 < count; i++)
            ends[i] = ends[i + 1];
        count--;
    }
}

static void expect_same(const struct fixture *f, struct bpe_scratch *scratch) {
    uint8_t text[TEXT_MAX];
    size_t len = 1 + check_random() % TEXT_MAX, ends[TEXT_MAX], at = 0;
    struct token_vec ids = {0};
    for (size_t i = 0; i < len; i++)
        text[i] = (uint8_t)('a' + check_random() % LETTERS);
    size_t count = merge_text(f, text, len, ends);
    bpe_encode(&f->bpe, scratch, text, len, &ids);
    bool same = ids.count == count;
    for (size_t i = 0; i < count && same; i++) {
        same = ids.items[i] == vocab_find(&f->vocab, text + at, ends[i] - at);
        at = ends[i];
    }
    vec_release(&ids);
    EXPECT(same);
}

TEST(merges_are_those_of_joined_texts) {
    for (unsigned round = 0; round < 60; round++) {
        struct fixture f;
        struct bpe_scratch scratch = {0};
        make_fixture(&f, 8 + check_random() % (WORDS_MAX - 8), 1 + round % 3 * 7,
                     2 + check_random() % 5);
        for (unsigned i = 0; i < 50; i++)
            expect_same(&f, &scratch);
        bpe_scratch_release(&scratch);
        release(&f);
    }
}
