/*
 * A vocabulary kept in the cache folder is the one that was read; a file that is not as it was
 * written is made anew.
 */
#include "text/tokenizer/fast/compiled.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "check.h"
#include "golden.h"
#include "text/tokenizer/open.h"

/* Files of tests/goldens/text, or the text itself. */
static const char *const KEPT[] = {
    "byte_level.tokenizer.json", "sentencepiece.tokenizer.json", "added_rules.tokenizer.json",
    "metaspace.tokenizer.json", "odd_regex.tokenizer.json", "forms/small.tiktoken",
    "unigram.tokenizer.json", "wordpiece.tokenizer.json", "scripts.tokenizer.json",
    "forms/bpe_rules.model", "forms/bpe_unused.model", "forms/unigram_bytes.model",
    "forms/unigram_suffix.model", "forms/words_bytes.model",
    /* whole words, decoded by a chain */
    "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"the\":1,\"a\":2,"
    "\"|\":3,\"<pad>\":4}},"
    "\"pre_tokenizer\":{\"type\":\"Whitespace\"},"
    "\"decoder\":{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\","
    "\"cleanup\":true}}",
    /* RWKV's */
    "1 'a' 1\n2 ' ' 1\n3 'th' 2\n4 'the' 3\n5 b'\\xe3\\x81' 2\n6 'e' 1\n"};

struct fixture {
    char folder[64];
    struct buf source;
    struct u128 key;
    char *path; /* of the image */
};

static void set_up(struct fixture *f, const char *file) {
    char relative[512];
    snprintf(f->folder, sizeof f->folder, "/tmp/trireme-compiled-XXXXXX");
    if (!mkdtemp(f->folder))
        check_fail(__FILE__, __LINE__, "no folder");
    compiled_set_folder(f->folder);
    snprintf(relative, sizeof relative, "tests/goldens/text/%s", file);
    f->source = (struct buf){0};
    if (strchr(file, '\'') || strchr(file, '{'))
        buf_add_str(&f->source, file);
    else
        f->source = golden_read_source(relative);
    struct bytes sections[3] = {buf_bytes(&f->source)};
    char hex[U128_TEXT_MAX], name[U128_TEXT_MAX + 8];
    f->key = compiled_key(sections, ARRAY_LEN(sections));
    u128_text(f->key, hex);
    snprintf(name, sizeof name, "%s.vocab", hex);
    f->path = path_join(f->folder, name);
}

static void tear_down(struct fixture *f) {
    unlink(f->path);
    rmdir(f->folder);
    mem_free(f->path);
    buf_release(&f->source);
    compiled_set_folder("none");
}

static struct tokenizer *load(const struct fixture *f) {
    struct bytes none = {0};
    struct tokenizer *t;
    struct error err;
    if (tokenizer_load_any(buf_bytes(&f->source), none, none, &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    return t;
}

static bool is_kept(const struct fixture *f) {
    struct tokenizer *t = compiled_open(f->key);
    bool kept = t;
    tokenizer_free(&t);
    return kept;
}

static bool same_encoding(const struct tokenizer *a, const struct tokenizer *b, struct bytes text,
                          unsigned flags) {
    struct token_vec x = {0}, y = {0};
    struct buf s = {0}, u = {0};
    bool same =
        tokenizer_encode(a, text, flags, &x, NULL) == tokenizer_encode(b, text, flags, &y, NULL) &&
        x.count == y.count && (!x.count || !memcmp(x.items, y.items, x.count * sizeof *x.items));
    tokenizer_detokenize(a, (struct tokens){x.items, x.count}, flags & DETOKENIZE_SKIP_SPECIAL, &s);
    tokenizer_detokenize(b, (struct tokens){x.items, x.count}, flags & DETOKENIZE_SKIP_SPECIAL, &u);
    same = same && bytes_equal(buf_bytes(&s), buf_bytes(&u));
    vec_release(&x);
    vec_release(&y);
    buf_release(&s);
    buf_release(&u);
    return same;
}

static bool same_tokens(const struct tokenizer *a, const struct tokenizer *b) {
    bool same = tokenizer_vocab_count(a) == tokenizer_vocab_count(b) &&
                tokenizer_bos(a) == tokenizer_bos(b);
    for (uint32_t id = 0; same && id < tokenizer_vocab_count(a); id++) {
        struct buf x = {0}, y = {0};
        tokenizer_token_text(a, id, &x);
        tokenizer_token_text(b, id, &y);
        same = bytes_equal(buf_bytes(&x), buf_bytes(&y)) &&
               tokenizer_is_special(a, id) == tokenizer_is_special(b, id) &&
               tokenizer_find(a, buf_bytes(&x)) == tokenizer_find(b, buf_bytes(&x));
        buf_release(&x);
        buf_release(&y);
    }
    return same;
}

/* The texts of all goldens. */
static bool same_everywhere(const struct tokenizer *a, const struct tokenizer *b) {
    struct buf json = golden_read_source("tests/goldens/text/vectors.json");
    struct arena arena;
    arena_init(&arena, 0, 0);
    struct tvalue vectors = golden_parse(&arena, buf_bytes(&json));
    bool same = same_tokens(a, b);
    for (size_t i = 0; same && i < tvalue_count(vectors); i++)
        same = same_encoding(a, b, tvalue_text(golden_member(tvalue_list_at(vectors, i), "text")),
                             (unsigned)i % 4);
    arena_release(&arena);
    buf_release(&json);
    return same;
}

TEST(a_kept_vocabulary_is_the_same) {
    for (size_t i = 0; i < ARRAY_LEN(KEPT); i++) {
        struct fixture f;
        set_up(&f, KEPT[i]);
        struct tokenizer *first = load(&f);
        if (!is_kept(&f))
            check_fail(__FILE__, __LINE__, "%s is not kept", KEPT[i]);
        struct tokenizer *second = load(&f);
        compiled_set_folder("none");
        struct tokenizer *fresh = load(&f);
        if (!same_everywhere(first, fresh) || !same_everywhere(second, fresh))
            check_fail(__FILE__, __LINE__, "%s is another one from the file", KEPT[i]);
        tokenizer_free(&first);
        tokenizer_free(&second);
        tokenizer_free(&fresh);
        tear_down(&f);
    }
}

static void write_bytes(const char *path, struct bytes data) {
    struct error err;
    if (file_write_atomic(path, data.data, data.len, 0600, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
}

/* One byte changed anywhere, or the end missing: not used, and the next load repairs it. */
static void expect_repairs(const char *file) {
    struct fixture f;
    set_up(&f, file);
    struct tokenizer *fresh = load(&f);
    struct buf good = golden_read(f.path);
    for (int round = 0; round < 60; round++) {
        size_t at = round < 30 ? (size_t)round * 3 : check_random() % good.len, len = good.len;
        if (round % 5 == 4)
            len = check_random() % good.len;
        good.data[at] ^= (char)(1 << check_random() % 8);
        write_bytes(f.path, bytes_of(good.data, len));
        bool taken = is_kept(&f);
        struct tokenizer *t = load(&f);
        struct buf again = golden_read(f.path);
        bool repaired = is_kept(&f) && again.len == good.len;
        buf_release(&good);
        good = again;
        if (taken || !repaired || !same_tokens(t, fresh))
            check_fail(__FILE__, __LINE__, "byte %zu of %zu: %s", at, len,
                       taken ? "taken" : "not made anew");
        tokenizer_free(&t);
    }
    tokenizer_free(&fresh);
    buf_release(&good);
    tear_down(&f);
}

TEST(a_damaged_file_is_made_anew) {
    expect_repairs("byte_level.tokenizer.json");
    expect_repairs("unigram.tokenizer.json");
    expect_repairs("forms/bpe_rules.model");
}

TEST(a_file_that_others_can_write_is_not_used) {
    struct fixture f;
    set_up(&f, "byte_level.tokenizer.json");
    struct tokenizer *t = load(&f);
    EXPECT(is_kept(&f));
    EXPECT_EQ(chmod(f.path, 0620), 0);
    EXPECT(!is_kept(&f));
    EXPECT_EQ(chmod(f.path, 0602), 0);
    EXPECT(!is_kept(&f));
    EXPECT_EQ(chmod(f.path, 0600), 0);
    EXPECT(is_kept(&f));
    char *other = path_join(f.folder, "other"); /* a link may lead anywhere */
    EXPECT_EQ(rename(f.path, other), 0);
    EXPECT_EQ(symlink(other, f.path), 0);
    EXPECT(!is_kept(&f));
    unlink(other);
    mem_free(other);
    tokenizer_free(&t);
    tear_down(&f);
}

/* The file of one source under the name of another. */
TEST(a_file_of_another_source_is_not_used) {
    struct fixture f, g;
    set_up(&f, "byte_level.tokenizer.json");
    struct tokenizer *t = load(&f);
    struct buf image = golden_read(f.path);
    tokenizer_free(&t);
    tear_down(&f);
    set_up(&g, "added_rules.tokenizer.json");
    write_bytes(g.path, buf_bytes(&image));
    EXPECT(!is_kept(&g));
    buf_release(&image);
    tear_down(&g);
}

TEST(a_folder_that_cannot_be_made_is_none) {
    struct fixture f;
    set_up(&f, "byte_level.tokenizer.json");
    compiled_set_folder("/dev/null/below");
    struct tokenizer *t = load(&f);
    EXPECT(t && !is_kept(&f) && !file_exists(f.path));
    tokenizer_free(&t);
    tear_down(&f);
}

/* Mapped by one, replaced by another: the first goes on with what it has. */
TEST(a_replaced_file_does_not_disturb_who_has_it) {
    struct fixture f;
    set_up(&f, "byte_level.tokenizer.json");
    struct tokenizer *first = load(&f);
    EXPECT_EQ(unlink(f.path), 0);
    struct tokenizer *second = load(&f);
    EXPECT(is_kept(&f) && same_everywhere(first, second));
    tokenizer_free(&first);
    tokenizer_free(&second);
    tear_down(&f);
}
