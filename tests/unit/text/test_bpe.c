/*
 * Merging against the definition: of all pairs the one of lowest rank, leftmost, again and again.
 */
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/fast/fast.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "check.h"

enum { LETTERS = 4 };

/* A vocabulary of random words over a few letters, and random merges: ranks are no training's, so
 * lower ranks do turn up late. */
struct fixture {
    struct vocab vocab;
    struct bpe bpe;
    struct {
        uint32_t left, right, result;
    } merges[400];
    size_t merge_count;
    size_t ties; /* so many merges have the same rank */
};

/* Ranks from which on byte-level vocabularies get their tables of bytes. */
enum { MANY_RANKS = 5000 };

/* The model of f->merges, whose ranks begin at first_rank; the vocabulary is sealed. */
static void add_merges(struct fixture *f, uint32_t first_rank) {
    bpe_init(&f->bpe, &f->vocab, f->vocab.entries.count);
    for (size_t i = 0; i < f->merge_count; i++)
        bpe_add_ranked(&f->bpe, f->merges[i].left, f->merges[i].right, f->merges[i].result,
                       first_rank + (uint32_t)(i / f->ties));
    bpe_finish(&f->bpe);
}

/* Two letters or words, by their place: letters first, then words in the order they are made. */
struct joint {
    uint8_t left, right;
};

/* letters: one byte each. given: the first words, up to one of two zeros; then the vocabulary has
 * all other bytes, too. NULL: words are random. */
static void make_fixture_of(struct fixture *f, const char *letters, const struct joint *given,
                            size_t words, size_t ties, bool byte_level) {
    size_t letter_count = strlen(letters);
    const struct joint *next = given;
    struct error err;
    vocab_init(&f->vocab);
    f->merge_count = 0;
    f->ties = ties;
    char texts[200][16];
    size_t count = 0;
    for (; count < letter_count; count++)
        memcpy(texts[count], (char[]){letters[count], 0}, 2);
    size_t pairs[200][2];
    while (count < words) {
        bool is_given = next && (next->left || next->right);
        size_t l = is_given ? next->left : check_random() % count,
               r = is_given ? next++->right : check_random() % count;
        size_t len = strlen(texts[l]) + strlen(texts[r]);
        bool known = len > 12;
        char joined[32];
        memcpy(joined, texts[l], strlen(texts[l]));
        memcpy(joined + strlen(texts[l]), texts[r], strlen(texts[r]) + 1);
        for (size_t i = 0; i < count && !known; i++)
            known = !strcmp(texts[i], joined);
        if (known)
            continue;
        pairs[count][0] = l;
        pairs[count][1] = r;
        memcpy(texts[count++], joined, strlen(joined) + 1);
    }
    for (size_t i = 0; i < count; i++)
        (void)!vocab_add(&f->vocab, bytes_str(texts[i]), (uint32_t)i, &err);
    for (unsigned i = 0; given && i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        if (!i || !strchr(letters, (char)byte))
            (void)!vocab_add(&f->vocab, bytes_of(&byte, 1), (uint32_t)count + i, &err);
    }
    if (byte_level)
        vocab_seal_raw(&f->vocab);
    else
        vocab_seal(&f->vocab, false);
    for (size_t i = letter_count; i < count; i++) { /* in random order, more or less */
        size_t k = given && check_random() % 2
                       ? i
                       : letter_count + check_random() % (i - letter_count + 1);
        size_t at = i - letter_count;
        f->merges[at] = f->merges[k - letter_count];
        f->merges[k - letter_count].left = (uint32_t)pairs[i][0];
        f->merges[k - letter_count].right = (uint32_t)pairs[i][1];
        f->merges[k - letter_count].result = (uint32_t)i;
        f->merge_count++;
    }
    add_merges(f, byte_level ? MANY_RANKS : 0);
}

static void make_fixture(struct fixture *f, size_t words, size_t ties, bool byte_level) {
    make_fixture_of(f, "abcd", NULL, words, ties, byte_level);
}

static void free_fixture(struct fixture *f) {
    bpe_release(&f->bpe);
    vocab_release(&f->vocab);
}

static size_t naive(const struct fixture *f, uint32_t *ids, size_t count) {
    for (;;) {
        size_t best_merge = f->merge_count, best = 0;
        for (size_t i = 0; i + 1 < count; i++)
            for (size_t m = 0; m < best_merge &&
                               (best_merge == f->merge_count || m / f->ties < best_merge / f->ties);
                 m++)
                if (f->merges[m].left == ids[i] && f->merges[m].right == ids[i + 1]) {
                    best_merge = m;
                    best = i;
                }
        if (best_merge == f->merge_count)
            return count;
        ids[best] = f->merges[best_merge].result;
        for (size_t i = best + 1; i + 1 < count; i++)
            ids[i] = ids[i + 1];
        count--;
    }
}

/* Appends the piece's tokens. Checked: the plain way and the fast one, which may have it in a cache
 * the second time, agree. */
static void encode(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                   const uint8_t *limit, struct token_vec *out) {
    size_t from = out->count;
    bpe_encode(b, s, piece, len, out);
    size_t count = out->count - from;
    for (int round = 0; round < 2; round++) {
        struct token_vec fast = {0};
        fast_encode_piece(b, s, piece, len, limit, &fast);
        EXPECT_EQ(fast.count, count);
        EXPECT(!count || !memcmp(fast.items, out->items + from, count * sizeof *fast.items));
        vec_release(&fast);
    }
}

TEST(merging_follows_the_definition) {
    struct bpe_scratch scratch = {0};
    for (int round = 0; round < 60; round++) {
        struct fixture f = {0};
        make_fixture(&f, 8 + check_random() % 100, round % 4 ? 1 : 2 + check_random() % 8,
                     round % 3 == 0);
        for (int k = 0; k < 60; k++) {
            uint8_t text[400];
            uint32_t ids[400];
            size_t len = 1 + check_random() % (k % 3 ? 40 : 400),
                   letters = 1 + check_random() % LETTERS, count = 0;
            for (size_t i = 0; i < len; i++) {
                /* such characters are left out */
                bool unknown = k % 4 == 0 && check_random() % 50 == 0;
                text[i] = (uint8_t)(unknown ? 'z' : 'a' + check_random() % letters);
                if (!unknown)
                    ids[count++] = text[i] - 'a';
            }
            struct token_vec out = {0};
            encode(&f.bpe, &scratch, text, len, text + len, &out);
            count = naive(&f, ids, count);
            EXPECT_EQ(out.count, count);
            EXPECT(!count || !memcmp(out.items, ids, count * sizeof *ids));
            /* now perhaps from a cache */
            encode(&f.bpe, &scratch, text, len, text + len, &out);
            EXPECT_EQ(out.count, 2 * count);
            EXPECT(!count || !memcmp(out.items + count, ids, count * sizeof *ids));
            vec_release(&out);
        }
        free_fixture(&f);
        bpe_scratch_release(&scratch); /* buckets belong to one set of merges */
    }
}

/* Each way of merging short pieces that this machine can run, from symbols and from bytes. */
TEST(all_variants_merge_alike) {
    fast_short_fn *variants[FAST_SHORT_VARIANTS_MAX];
    size_t variant_count = fast_short_variants(variants);
    EXPECT(variant_count > 0 && variant_count <= FAST_SHORT_VARIANTS_MAX);
    for (int round = 0; round < 40; round++) {
        struct fixture f = {0};
        make_fixture(&f, 8 + check_random() % 100, round % 4 ? 1 : 2 + check_random() % 8,
                     round % 2 == 0);
        EXPECT(!f.bpe.byte_pairs == (round % 2 != 0));
        for (int k = 0; k < 40; k++) {
            uint8_t text[BPE_SHORT_MAX];
            uint32_t ids[BPE_SHORT_MAX], want[BPE_SHORT_MAX];
            size_t len = 2 + check_random() % (k % 3 ? 30 : BPE_SHORT_MAX - 1);
            for (size_t i = 0; i < len; i++) {
                text[i] = (uint8_t)('a' + check_random() % LETTERS);
                want[i] = text[i] - 'a';
            }
            size_t count = naive(&f, want, len);
            for (size_t v = 0; v < 2 * variant_count; v++) {
                bool bytes = v >= variant_count && f.bpe.byte_pairs;
                for (size_t i = 0; i < len; i++)
                    ids[i] = text[i] - 'a';
                EXPECT_EQ(variants[v % variant_count](&f.bpe, ids, len, bytes ? text : NULL),
                          count);
                EXPECT(!memcmp(ids, want, count * sizeof *ids));
            }
        }
        free_fixture(&f);
    }
}

/* Characters of several bytes whose parts merge with their neighbours in some vocabularies, and
 * among themselves. */
TEST(characters_follow_the_definition) {
    static const char LETTERS_OF[] = "a \xC3\xA9\xA8\xE3\x81\x82\x97";
    static const char *const CHARS[] = {
        "a", " ", "\xC3\xA9", "\xC3\xA8", "\xE3\x81\x82", "\xE3\x81\x97", "\xE3\x82\x97"};
    static const struct joint WHOLE[] = {{2, 3}, {2, 4}, {5, 6}, {11, 7}, {11, 8}, {0, 0}};
    struct bpe_scratch scratch = {0};
    size_t char_count = 0;
    for (int round = 0; round < 60; round++) {
        struct fixture f = {0};
        make_fixture_of(&f, LETTERS_OF, WHOLE, 20 + check_random() % 100,
                        round % 4 ? 1 : 2 + check_random() % 8, true);
        char_count += f.bpe.char_count - 1;
        for (int k = 0; k < 60; k++) {
            struct buf text = {0};
            struct token_vec out = {0};
            uint32_t ids[400];
            for (size_t n = 1 + check_random() % 20; n; n--)
                buf_add_str(&text, CHARS[check_random() % ARRAY_LEN(CHARS)]);
            for (size_t i = 0; i < text.len; i++)
                ids[i] = (uint32_t)(strchr(LETTERS_OF, text.data[i]) - LETTERS_OF);
            size_t count = naive(&f, ids, text.len);
            const uint8_t *piece = (const uint8_t *)text.data;
            encode(&f.bpe, &scratch, piece, text.len, piece + text.len, &out);
            bool same = out.count == count;
            for (size_t i = 0; same && i < count; i++)
                same = out.items[i] == ids[i];
            if (!same)
                check_fail(__FILE__, __LINE__, "round %d: '%s' is merged in another way", round,
                           text.data);
            vec_release(&out);
            buf_release(&text);
        }
        bpe_scratch_release(&scratch); /* what it remembers is this vocabulary's */
        free_fixture(&f);
    }
    EXPECT(char_count > 60);
}

TEST(merging_runs_follows_the_definition) {
    struct bpe_scratch scratch = {0};
    for (int round = 0; round < 150; round++) {
        struct fixture f = {0};
        make_fixture(&f, 6 + check_random() % (round % 2 ? 12 : 60),
                     round % 3 ? 1 : 2 + check_random() % 12, round % 5 == 0);
        for (int k = 0; k < 30; k++) {
            uint8_t text[400];
            uint32_t ids[400];
            size_t len = 0, letters = 1 + check_random() % 3, least = k ? 60 : BPE_SHORT_MAX + 1;
            while (len < least || (len < 300 && check_random() % 4)) {
                uint32_t id = (uint32_t)(check_random() % letters);
                for (size_t n = check_random() % 5 ? 8 + check_random() % 60 : 1; n && len < 400;
                     n--, len++) {
                    text[len] = (uint8_t)('a' + id);
                    ids[len] = id;
                }
            }
            struct token_vec out = {0};
            encode(&f.bpe, &scratch, text, len, text + len, &out);
            size_t count = naive(&f, ids, len);
            EXPECT_EQ(out.count, count);
            EXPECT(!memcmp(out.items, ids, count * sizeof *ids));
            vec_release(&out);
        }
        free_fixture(&f);
        bpe_scratch_release(&scratch);
    }
}

/* ---- pieces of runs longer than BPE_SHORT_MAX: each row fails where merging leaves
 * its order ---- */

struct run_case {
    const char *runs;      /* a letter and how many of it */
    size_t ties;           /* so many of the merges, in order, share a rank */
    const char *merges[4]; /* "left right"; "d d" fills a rank */
};

/* The id of the token, which is added when it is new. */
static uint32_t token_of(struct fixture *f, const char *text, char texts[][8], uint32_t *count) {
    struct error err;
    for (uint32_t i = 0; i < *count; i++)
        if (!strcmp(texts[i], text))
            return i;
    snprintf(texts[*count], sizeof texts[0], "%s", text);
    (void)!vocab_add(&f->vocab, bytes_str(text), *count, &err);
    return (*count)++;
}

static void make_run_fixture(struct fixture *f, const struct run_case *c) {
    char texts[16][8], left[8], right[8], joined[16];
    uint32_t count = 0;
    vocab_init(&f->vocab);
    f->ties = c->ties;
    for (const char *letter = "a\0b\0c\0d"; count < LETTERS; letter += 2)
        token_of(f, letter, texts, &count);
    for (f->merge_count = 0; f->merge_count < ARRAY_LEN(c->merges) && c->merges[f->merge_count];
         f->merge_count++) {
        EXPECT_EQ(sscanf(c->merges[f->merge_count], "%7s %7s", left, right), 2);
        snprintf(joined, sizeof joined, "%s%s", left, right);
        f->merges[f->merge_count].left = token_of(f, left, texts, &count);
        f->merges[f->merge_count].right = token_of(f, right, texts, &count);
        f->merges[f->merge_count].result = token_of(f, joined, texts, &count);
    }
    vocab_seal(&f->vocab, false);
    add_merges(f, 0);
}

static void check_run_case(const struct run_case *c) {
    struct fixture f = {0};
    struct bpe_scratch scratch = {0};
    struct token_vec out = {0};
    uint8_t text[400];
    uint32_t ids[400];
    size_t len = 0;
    make_run_fixture(&f, c);
    for (const char *p = c->runs; *p;) {
        uint8_t letter = (uint8_t)*p++;
        for (long n = strtol(p, (char **)&p, 10); n; n--, len++) {
            text[len] = letter;
            ids[len] = letter - 'a';
        }
    }
    encode(&f.bpe, &scratch, text, len, text + len, &out);
    size_t count = naive(&f, ids, len);
    if (out.count != count || memcmp(out.items, ids, count * sizeof *ids))
        check_fail(__FILE__, __LINE__, "'%s' with '%s' is merged otherwise", c->runs, c->merges[0]);
    vec_release(&out);
    bpe_scratch_release(&scratch);
    free_fixture(&f);
}

TEST(merging_runs_sees_better_pairs_and_keeps_the_order) {
    static const struct run_case CASES[] = {
        /* the a left over comes before the b, though made later */
        {"a301b1c64", 2, {"a a", "d d", "a b", "b c"}},
        /* ab makes a better pair, which takes c's b */
        {"a300b2c64", 2, {"ab b", "d d", "a b", "b c"}},
        {"a300b2c64", 3, {"a b", "b c", "ab b"}}, /* the same with one as good */
        /* on the way to aaa there is aa behind b */
        {"b64a300", 2, {"b aa", "d d", "a a", "aa a"}},
        {"a300", 1, {"aa a", "a a"}}, /* aa does not stay */
        /* on the way to a second aaa there is aa behind the first */
        {"a300", 2, {"aaa aa", "d d", "a a", "aa a"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        check_run_case(&CASES[i]);
}

/* a a -> aa, aa aa -> aaaa, ...: one letter a million times, in time linear in the text (a heap
 * would be slower, a scan never end). */
TEST(a_million_equal_letters_take_no_time) {
    enum { DOUBLINGS = 7, COUNT = 1 << 20 };
    struct vocab vocab;
    struct bpe bpe;
    struct bpe_scratch scratch = {0};
    struct token_vec out = {0};
    struct error err;
    char text[(1 << DOUBLINGS) + 1];
    vocab_init(&vocab);
    memset(text, 'a', sizeof text);
    for (uint32_t i = 0; i <= DOUBLINGS; i++)
        EXPECT_EQ(vocab_add(&vocab, bytes_of(text, (size_t)1 << i), i, &err), 0);
    vocab_seal(&vocab, false);
    bpe_init(&bpe, &vocab, DOUBLINGS);
    for (uint32_t i = 0; i < DOUBLINGS; i++)
        bpe_add_merge(&bpe, i, i, i + 1);
    bpe_finish(&bpe);
    uint8_t *letters = mem_alloc(COUNT);
    memset(letters, 'a', COUNT);
    int64_t start = clock_ms();
    encode(&bpe, &scratch, letters, COUNT, letters + COUNT, &out);
    /* generous: sanitizers and other work; a quadratic one takes hours */
    EXPECT(clock_ms() - start < 10000);
    EXPECT_EQ(out.count, COUNT >> DOUBLINGS);
    for (size_t i = 0; i < out.count; i++)
        EXPECT_EQ(out.items[i], DOUBLINGS);
    mem_free(letters);
    vec_release(&out);
    bpe_scratch_release(&scratch);
    bpe_release(&bpe);
    vocab_release(&vocab);
}
