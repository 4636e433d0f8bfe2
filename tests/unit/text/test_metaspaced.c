/*
 * Cutting text where no merge crosses, against the definition: the whole text as symbols, and of
 * all pairs the one of lowest rank, leftmost, again and again.
 */
#include "text/tokenizer/fast/metaspaced.h"

#include <stdio.h>

#include "check.h"
#include "text/unicode.h"

#define METASPACE "\xE2\x96\x81"

static const char *const LETTERS[] = {
    METASPACE, "\n", "a", "b", ",", "\xC3\xA9", "\xE2\x96\x82", "\xE6\x97\xA5", "\xF0\x9F\x99\x82"};
/* No symbols of any vocabulary; the second one's bytes are partly those of U+2581. */
static const char *const STRANGERS[] = {"x", "\xE2\x96\x83", "\xF0\x9F\x98\x81"};
enum {
    TOKENS_MAX = 90,
    BYTES_MAX = 16,
    SYMBOLS_MAX = 1200,
    WHOLE_BYTES_MAX = 4096,
    ROUNDS = 150,
    TEXTS = 25
};

struct model {
    struct vocab vocab;
    struct bpe bpe;
    char texts[TOKENS_MAX][BYTES_MAX];
    uint32_t count, merges[TOKENS_MAX][2]; /* by result; 0, 0: none */
};

static bool is_space(const char *text) {
    return !strncmp(text, METASPACE, 3);
}
static bool ends_in_space(const char *text) {
    return strlen(text) >= 3 && is_space(text + strlen(text) - 3);
}

/* Random words of random words. In most models none crosses into a space or between a line end and
 * others. */
static void make_words(struct model *m, bool crossing) {
    for (m->count = 0; m->count < ARRAY_LEN(LETTERS); m->count++)
        strcpy(m->texts[m->count], LETTERS[m->count]);
    if (check_random() % 4 == 0)
        strcpy(m->texts[1], "c"); /* then line ends are strangers */
    uint32_t wanted = (uint32_t)ARRAY_LEN(LETTERS) + (uint32_t)(check_random() % 60);
    for (int tries = 0; m->count < wanted && tries < 1000; tries++) {
        uint32_t l = (uint32_t)(check_random() % m->count),
                 r = (uint32_t)(check_random() % m->count);
        const char *left = m->texts[l], *right = m->texts[r];
        bool known = strlen(left) + strlen(right) >= BYTES_MAX;
        if (!crossing && is_space(right) && !ends_in_space(left))
            continue;
        if (!crossing && (left[strlen(left) - 1] == '\n') != (right[0] == '\n') &&
            check_random() % 32)
            continue;
        char joined[2 * BYTES_MAX];
        snprintf(joined, sizeof joined, "%s%s", left, right);
        for (uint32_t i = 0; i < m->count && !known; i++)
            known = !strcmp(m->texts[i], joined);
        if (known)
            continue;
        m->merges[m->count][0] = l;
        m->merges[m->count][1] = r;
        strcpy(m->texts[m->count++], joined);
    }
}

static void make_model(struct model *m, bool crossing, bool fallback, bool fuse) {
    struct error err;
    *m = (struct model){0};
    vocab_init(&m->vocab);
    make_words(m, crossing);
    for (uint32_t i = 0; i < m->count; i++)
        (void)!vocab_add(&m->vocab, bytes_str(m->texts[i]), i, &err);
    (void)!vocab_add(&m->vocab, bytes_str("<unk>"), m->count, &err);
    for (unsigned i = 0; fallback && i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        (void)!vocab_add(&m->vocab, bytes_str(name), m->count + 1 + i, &err);
    }
    vocab_seal(&m->vocab, false);
    bpe_init(&m->bpe, &m->vocab, m->count);
    m->bpe.byte_fallback = fallback;
    m->bpe.fuse_unk = fuse;
    m->bpe.unk_id = m->count;
    for (uint32_t i = ARRAY_LEN(LETTERS); i < m->count; i++) {
        /* not quite in the order of training */
        uint32_t k = check_random() % 2 ? i : (uint32_t)ARRAY_LEN(LETTERS);
        bpe_add_ranked(&m->bpe, m->merges[i][0], m->merges[i][1], i, k == i ? i : TOKENS_MAX + i);
    }
    bpe_finish(&m->bpe);
}

static void free_model(struct model *m) {
    bpe_release(&m->bpe);
    vocab_release(&m->vocab);
}

/* The symbols of the text, one character after the other. */
static size_t read_symbols(const struct model *m, struct bytes text, bool spaces, bool prefix,
                           uint32_t *ids) {
    size_t count = 0;
    bool unknown = false;
    if (prefix)
        ids[count++] = 0;
    for (size_t i = 0, n; i < text.len; i += n) {
        uint32_t cp, id = 0;
        n = unicode_next(text.data + i, &cp);
        if (!spaces || cp != ' ')
            id = vocab_find(&m->vocab, text.data + i, n);
        if (id == UINT32_MAX && m->bpe.byte_fallback) {
            for (size_t k = 0; k < n; k++)
                ids[count++] = m->count + 1 + text.data[i + k];
        } else if (id != UINT32_MAX || !unknown || !m->bpe.fuse_unk) {
            ids[count++] = id == UINT32_MAX ? m->count : id;
        }
        unknown = id == UINT32_MAX;
    }
    return count;
}

static size_t merge_plainly(const struct model *m, uint32_t *ids, size_t count) {
    for (;;) {
        uint32_t best = UINT32_MAX, result = 0;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; i++)
            for (uint32_t k = 0; k < m->bpe.merge_count; k++) {
                const struct bpe_merge *x = &m->bpe.merges[k];
                bool is = x->left == ids[i] && x->right == ids[i + 1] && x->rank < best;
                if (!is)
                    continue;
                best = x->rank;
                result = x->result;
                at = i;
            }
        if (best == UINT32_MAX)
            return count;
        ids[at] = result;
        memmove(ids + at + 1, ids + at + 2, (count - at - 2) * sizeof *ids);
        count--;
    }
}

static struct bytes random_text(char out[WHOLE_BYTES_MAX], bool spaces) {
    size_t parts = 1 + check_random() % 60, one_letter = check_random() % 8, len = 0;
    for (size_t i = 0; i < parts; i++) {
        const char *piece = LETTERS[check_random() % ARRAY_LEN(LETTERS)];
        if (!one_letter)
            piece = LETTERS[2 + i / 20];
        if (check_random() % 12 == 0)
            piece = STRANGERS[check_random() % ARRAY_LEN(STRANGERS)];
        if (spaces && check_random() % 4 == 0)
            piece = " ";
        for (size_t n = check_random() % 16 ? 1 : 1 + check_random() % 10; n;
             n--, len += strlen(piece))
            memcpy(out + len, piece, strlen(piece));
    }
    return bytes_of(out, len);
}

static void expect_same(const struct model *m, struct bpe_scratch *s, struct bytes text,
                        struct metaspaced how) {
    uint32_t ids[SYMBOLS_MAX * 4];
    size_t count = merge_plainly(m, ids, read_symbols(m, text, how.spaces, how.prefix, ids));
    struct token_vec out = {0};
    for (size_t round = 1; round <= 2; round++) { /* the second time from the caches */
        metaspaced_encode(&m->bpe, s, text, how, &out);
        EXPECT_EQ(out.count, round * count);
        EXPECT(out.count != round * count ||
               !memcmp(out.items + (round - 1) * count, ids, count * sizeof *ids));
    }
    vec_release(&out);
}

TEST(cut_text_has_the_tokens_of_the_whole) {
    static struct model m;
    struct bpe_scratch scratch = {0};
    char text[WHOLE_BYTES_MAX];
    size_t fitting = 0;
    for (int round = 0; round < ROUNDS; round++) {
        make_model(&m, round % 8 == 7, round % 2, round % 4 > 1);
        bool fits = metaspaced_fits(&m.bpe), spaces = check_random() % 2;
        fitting += fits;
        for (int i = 0; i < TEXTS && fits; i++)
            expect_same(&m, &scratch, random_text(text, spaces),
                        (struct metaspaced){spaces, spaces && check_random() % 2});
        free_model(&m);
        bpe_scratch_release(&scratch);
    }
    EXPECT(fitting > ROUNDS / 2);
}

/* What follows a dropped character meets what stands before it: no place to cut. */
TEST(models_that_drop_characters_are_not_cut) {
    static struct model m;
    make_model(&m, false, false, false);
    EXPECT(metaspaced_fits(&m.bpe));
    m.bpe.unk_id = UINT32_MAX;
    bpe_finish(&m.bpe);
    EXPECT(!metaspaced_fits(&m.bpe));
    free_model(&m);
}
