/*
 * The index of tokens against a list: of equal keys the last (or the first), of an id's two keys
 * both.
 */
#include "text/tokenizer/vocab.h"

#include <stdio.h>

#include "check.h"

enum { TOKENS = 300, LATER = 200 };

/* A token as it was given. */
struct given {
    char key[24];
    size_t len;
    uint32_t id;
    bool later;
};

struct fixture {
    struct vocab vocab;
    struct given list[TOKENS + LATER];
    size_t count;
};

/* A few letters, so that keys repeat; a long tail at times. */
static size_t random_key(char out[24]) {
    size_t len = check_random() % 4;
    for (size_t i = 0; i < len; i++)
        out[i] = "ab"[check_random() % 2];
    if (check_random() % 4)
        return len;
    memset(out + len, 'c', 20 - len);
    out[19] = (char)('a' + check_random() % 8);
    return 20;
}

static bool is_same(const struct given *g, struct bytes key) {
    return bytes_equal(bytes_of(g->key, g->len), key);
}

/* By the list: of the model's tokens, else of those that came later. */
static uint32_t wanted(const struct fixture *f, struct bytes key, bool later) {
    uint32_t found = UINT32_MAX;
    for (size_t i = 0; i < f->count; i++) {
        const struct given *g = &f->list[i];
        if (g->later != later || !is_same(g, key))
            continue;
        if (later || found == UINT32_MAX || f->vocab.keep_first == (g->id < found))
            found = g->id;
    }
    return found;
}

static bool id_is_taken(const struct fixture *f, uint32_t id) {
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i].id == id)
            return true;
    return false;
}

static void give(struct fixture *f, uint32_t id, bool later) {
    struct given *g = &f->list[f->count++];
    struct error err;
    *g = (struct given){.id = id, .later = later};
    g->len = random_key(g->key);
    struct bytes key = bytes_of(g->key, g->len);
    if (later ? vocab_add_sealed(&f->vocab, key, id, &err) : vocab_add(&f->vocab, key, id, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
}

static void make_fixture(struct fixture *f, bool byte_level, bool keep_first) {
    f->count = 0;
    vocab_init(&f->vocab);
    f->vocab.keep_first = keep_first;
    while (f->count < TOKENS) {
        uint32_t id = (uint32_t)(check_random() % (2 * TOKENS));
        if (!id_is_taken(f, id))
            give(f, id, false);
    }
    vocab_seal(&f->vocab, byte_level);
}

static void expect_list(const struct fixture *f) {
    for (size_t i = 0; i < f->count; i++) {
        struct bytes key = bytes_of(f->list[i].key, f->list[i].len);
        uint32_t model = wanted(f, key, false), later = wanted(f, key, true);
        EXPECT_EQ(vocab_find(&f->vocab, key.data, key.len), model);
        EXPECT_EQ(vocab_find_spelling(&f->vocab, key), model != UINT32_MAX ? model : later);
    }
}

TEST(finds_what_was_given) {
    for (unsigned kind = 0; kind < 4; kind++) {
        struct fixture f;
        make_fixture(&f, kind & 1, kind & 2);
        expect_list(&f);
        EXPECT_EQ(vocab_find(&f.vocab, (const uint8_t *)"no", 2), UINT32_MAX);
        vocab_release(&f.vocab);
    }
}

/* Later tokens with ids of their own and with the model's, whose first keys are found still. */
TEST(finds_the_first_key_of_an_id_that_has_another) {
    for (unsigned kind = 0; kind < 2; kind++) {
        struct fixture f;
        make_fixture(&f, kind & 1, false);
        for (uint32_t i = 0; i < LATER; i++) {
            uint32_t id = (uint32_t)(check_random() % (3 * TOKENS));
            give(&f, id, true);
            EXPECT(bytes_equal(vocab_key(&f.vocab, id),
                               bytes_of(f.list[f.count - 1].key, f.list[f.count - 1].len)));
            expect_list(&f);
        }
        vocab_release(&f.vocab);
    }
}

/* Spellings become bytes, which lie side by side; what is none stays, and is no key of bytes. */
TEST(spellings_become_bytes) {
    static const char *const SPELLINGS[] = {"a",   "\xC4\xA0the",      "\xC3\x83\xC2\xA9",
                                            "a b", "\xC4\x8A\xC4\x8A", ""};
    static const char *const KEYS[] = {"a", " the", "\xC3\xA9", NULL, "\n\n", ""};
    struct vocab v;
    struct error err;
    vocab_init(&v);
    for (uint32_t i = 0; i < ARRAY_LEN(SPELLINGS); i++)
        EXPECT_EQ(vocab_add(&v, bytes_str(SPELLINGS[i]), 2 * i, &err), 0);
    vocab_seal(&v, true);
    EXPECT_EQ(v.pool.len, 1 + 4 + 2 + 3 + 2);
    for (uint32_t i = 0; i < ARRAY_LEN(SPELLINGS); i++) {
        struct bytes key = bytes_str(KEYS[i] ? KEYS[i] : SPELLINGS[i]);
        EXPECT(bytes_equal(vocab_key(&v, 2 * i), key));
        EXPECT_EQ(vocab_find(&v, key.data, key.len), KEYS[i] ? 2 * i : UINT32_MAX);
        EXPECT_EQ(vocab_find_spelling(&v, bytes_str(SPELLINGS[i])), 2 * i);
    }
    vocab_release(&v);
}
