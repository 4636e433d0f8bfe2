/*
 * Vocabularies in other forms than tokenizer.json: SentencePiece models, tiktoken files, named ones.
 */
#include "text/tokenizer/open.h"

#include <unistd.h>

#include "check.h"
#include "formats/gguf_write.h"
#include "golden.h"
#include "text/tokenizer/detokenizer.h"

static struct tokenizer *open_source(const char *relative) {
    char path[1024];
    struct tokenizer *t;
    struct error err;
    snprintf(path, sizeof path, "%s/%s", TRIREME_SOURCE_DIR, relative);
    if (tokenizer_open(path, &t, &err)) check_fail(__FILE__, __LINE__, "%s", err.text);
    return t;
}

static bool same_ids(const struct token_vec *got, struct tvalue want) {
    bool same = got->count == tvalue_count(want);
    for (size_t i = 0; i < got->count && same; i++) same = got->items[i] == (uint32_t)tvalue_list_at(want, i).integer;
    return same;
}

static void decode_streamed(const struct tokenizer *t, struct tokens ids, struct buf *out) {
    struct detok d;
    detok_init(&d, t, 0);
    for (size_t i = 0; i < ids.count; i++) detok_push(&d, ids.ids[i], out);
    detok_flush(&d, out);
}

static const char *check_vector(const struct tokenizer *t, struct tvalue v) {
    struct tvalue text = golden_member(v, "text"), want = golden_member(v, "ids"), all = golden_member(v, "all");
    struct token_vec ids = {0};
    struct buf whole = {0}, streamed = {0};
    const char *wrong = "";
    if (text.kind == TVALUE_STRING && (tokenizer_encode(t, tvalue_text(text), 0, &ids, NULL) || !same_ids(&ids, want)))
        wrong = "encoded";
    ids.count = 0;
    for (size_t i = 0; i < tvalue_count(want); i++) vec_push(&ids, (uint32_t)tvalue_list_at(want, i).integer);
    tokenizer_decode(t, (struct tokens){ids.items, ids.count}, 0, &whole);
    decode_streamed(t, (struct tokens){ids.items, ids.count}, &streamed);
    if (!golden_equal(tvalue_text(all), &whole)) wrong = "decoded";
    if (!golden_equal(tvalue_text(all), &streamed)) wrong = "streamed";
    vec_release(&ids);
    buf_release(&whole);
    buf_release(&streamed);
    return wrong;
}

/* The vectors of tests/goldens/text/forms, made by sentencepiece and tiktoken (make_vocab_goldens.py). */
static void run_goldens(const char *file) {
    char path[256];
    struct arena a;
    struct buf json = golden_read_source("tests/goldens/text/forms/vectors.json");
    arena_init(&a, 0, 0);
    struct tvalue vectors = golden_parse(&a, buf_bytes(&json));
    snprintf(path, sizeof path, "tests/goldens/text/forms/%s", file);
    struct tokenizer *t = open_source(path);
    size_t seen = 0;
    for (size_t i = 0; t && i < tvalue_count(vectors); i++) {
        struct tvalue v = tvalue_list_at(vectors, i);
        if (!bytes_equal(tvalue_text(golden_member(v, "file")), bytes_str(file))) continue;
        const char *wrong = check_vector(t, v);
        if (*wrong) check_fail(__FILE__, __LINE__, "%s: vector %zu is not %s as it should be", file, i, wrong);
        seen++;
    }
    EXPECT(seen > 90);
    tokenizer_free(&t);
    arena_release(&a);
    buf_release(&json);
}

TEST(sentencepiece_bpe_with_bytes) { run_goldens("bpe_bytes.model"); }
TEST(sentencepiece_bpe_with_unused_pieces) { run_goldens("bpe_unused.model"); }
TEST(sentencepiece_bpe_with_rules) { run_goldens("bpe_rules.model"); }
TEST(sentencepiece_unigram) { run_goldens("unigram.model"); }
TEST(sentencepiece_unigram_with_bytes) { run_goldens("unigram_bytes.model"); }
TEST(sentencepiece_unigram_with_suffix) { run_goldens("unigram_suffix.model"); }
TEST(tiktoken_trained) { run_goldens("small.tiktoken"); }
TEST(tiktoken_with_ranks_no_training_gives) { run_goldens("odd_ranks.tiktoken"); }

/* ---- special tokens ---- */

TEST(sentencepiece_control_tokens_are_parsed_only_when_asked) {
    struct tokenizer *t = open_source("tests/goldens/text/forms/bpe_bytes.model");
    struct token_vec ids = {0};
    uint32_t bos = tokenizer_find(t, bytes_str("<s>")), ctl = tokenizer_find(t, bytes_str("<ctl>"));
    EXPECT_EQ(tokenizer_bos(t), bos);
    EXPECT(tokenizer_is_special(t, ctl));
    EXPECT_EQ(tokenizer_encode(t, bytes_str("a<ctl>b"), 0, &ids, NULL), 0);
    for (size_t i = 0; i < ids.count; i++) EXPECT(ids.items[i] != ctl);
    ids.count = 0;
    EXPECT_EQ(tokenizer_encode(t, bytes_str("<ctl>"), TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL, &ids, NULL), 0);
    EXPECT_EQ(ids.count, 2);
    EXPECT_EQ(ids.items[0], bos);
    EXPECT_EQ(ids.items[1], ctl);
    vec_release(&ids);
    tokenizer_free(&t);
}

/* ---- named vocabularies ---- */

static struct tokenizer *open_named(const char *name) {
    struct tokenizer *t = NULL;
    struct error err;
    const char *dir = check_shared("tokenizers");
    if (dir && tokenizer_open_named(name, dir, &t, &err)) check_fail(__FILE__, __LINE__, "%s", err.text);
    return t;
}

/* One line a vocabulary: name, first and last agent token, a text and its ids (tiktoken's, sentencepiece's). */
TEST(named_vocabularies_have_their_tokens) {
    static const struct {
        const char *name;
        uint32_t system, end_summary, image;
        uint32_t hello[6]; /* "Hello world's", without BOS; ends with 0 */
    } ROWS[] = {{"cl100k_base", 100277, 100330, 100319, {9906, 1917, 596}},
                {"o200k_base", 200019, 200072, 200061, {13225, 30226}},
                {"llama3", 128300, 128353, 128256, {9906, 1917, 596}},
                {"deepseek_v3", 128900, 128953, 128942, {19923, 2058, 734}},
                {"mistral_v1", 32000, 32053, 32042, {22557, 1526, 28742, 28713}},
                {"mistral_v2", 32768, 32821, 32810, {23325, 2294, 29510, 29481}},
                {"mistral_v3", 131072, 131125, 131114, {22177, 4304, 1681}}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct tokenizer *t = open_named(ROWS[i].name);
        if (!t) SKIP("shared", "no vocabularies");
        EXPECT_EQ(tokenizer_find(t, bytes_str("<|system|>")), ROWS[i].system);
        EXPECT_EQ(tokenizer_find(t, bytes_str("<|/summary|>")), ROWS[i].end_summary);
        EXPECT_EQ(tokenizer_find(t, bytes_str("<|image|>")), ROWS[i].image);
        EXPECT_EQ(tokenizer_vocab_count(t), ROWS[i].end_summary + 1);
        struct token_vec ids = {0};
        EXPECT_EQ(tokenizer_encode(t, bytes_str("Hello world's"), 0, &ids, NULL), 0);
        size_t count = 0;
        while (ROWS[i].hello[count]) count++;
        EXPECT_EQ(ids.count, count);
        for (size_t k = 0; k < ids.count && k < count; k++)
            if (ids.items[k] != ROWS[i].hello[k])
                check_fail(__FILE__, __LINE__, "%s: token %zu is %u", ROWS[i].name, k, ids.items[k]);
        vec_release(&ids);
        tokenizer_free(&t);
    }
}

TEST(a_missing_vocabulary_says_what_and_where) {
    struct tokenizer *t;
    struct error err;
    EXPECT_EQ(tokenizer_open_named("llama3", "/nonexistent", &t, &err), ERR_NOT_FOUND);
    EXPECT(strstr(err.text, "llama3.tiktoken") && strstr(err.text, "https://") && strstr(err.text, "/nonexistent"));
    EXPECT_EQ(tokenizer_open_named("llama3", NULL, &t, &err), ERR_NOT_FOUND);
    EXPECT(strstr(err.text, "TRIREME_VOCAB_DIR") && strstr(err.text, "https://"));
    EXPECT_EQ(tokenizer_open_named("llama4", "/", &t, &err), ERR_NOT_FOUND);
    EXPECT(strstr(err.text, "cl100k_base"));
    EXPECT_EQ(tokenizer_open("/nonexistent/tokenizer.model", &t, &err), ERR_NOT_FOUND);
    EXPECT(t == NULL);
}

/* ---- damaged files ---- */

TEST(bad_files_are_refused_with_a_reason) {
    static const struct {
        const char *text;
        size_t len;
    } BAD[] = {{"YQ== 0\nYg==\n", 0},
               {"YQ== 0\nYg== x\n", 0},
               {"YQ== 0\nYg== 0\n", 0},
               {"YQ== 0\n!! 1\n", 0},
               {"YQ== 99999999999\n", 0},
               {"\n\n", 0},
               {"\x0A", 1},
               {"\x0A\x7F", 2},
               {"\x0A\x03\x0A\x01\x61", 5},         /* no unknown piece */
               {"\x0A\x05\x0A\x01\xFF\x18\x02", 7}, /* not UTF-8 */
               {"\x0A\x05\x0A\x01\x61\x18\x02\x12\x02\x18\x03", 11} /* a word model */};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct bytes file = bytes_of(BAD[i].text, BAD[i].len ? BAD[i].len : strlen(BAD[i].text)), none = {0};
        struct tokenizer *t;
        struct error err = {0};
        if (!tokenizer_load_any(file, none, none, &t, &err)) check_fail(__FILE__, __LINE__, "file %zu was taken", i);
        EXPECT(err.text[0] && !t);
    }
}

/* ---- RWKV's World vocabulary ---- */

static const char *const WORLD[] = {"<s>", "ab", "abc", " a", "\\n\\n", "\\\\n", "c\\xc3\\xa9", "\\t a", "aba"};
static const char *const WORLD_RAW[] = {"", "ab", "abc", " a", "\n\n", "\\n", "c\xC3\xA9", "\t a", "aba"};

/* The tokens above behind those of all bytes; the first one is a control token. */
static void write_world(const char *path) {
    struct gguf_writer w;
    struct error err;
    char byte[8];
    gguf_writer_init(&w, path);
    gguf_put_string(&w, "general.architecture", bytes_str("rwkv7"));
    gguf_put_string(&w, "tokenizer.ggml.model", bytes_str("rwkv"));
    gguf_put_array(&w, "tokenizer.ggml.tokens", GGUF_STRING, ARRAY_LEN(WORLD) + 256);
    for (size_t i = 0; i < ARRAY_LEN(WORLD); i++) gguf_add_string(&w, bytes_str(WORLD[i]));
    for (unsigned i = 0; i < 256; i++) {
        snprintf(byte, sizeof byte, "\\x%02x", i);
        gguf_add_string(&w, bytes_str(byte));
    }
    gguf_put_array(&w, "tokenizer.ggml.token_type", GGUF_I32, ARRAY_LEN(WORLD) + 256);
    for (int32_t i = 0; i < (int32_t)ARRAY_LEN(WORLD) + 256; i++) gguf_add_i32(&w, i ? 1 : 3);
    if (gguf_write_begin(&w, &err) || gguf_write_end(&w, &err)) check_fail(__FILE__, __LINE__, "%s", err.text);
    gguf_writer_release(&w);
}

/* The id of the longest token that text begins with. */
static uint32_t longest_world(const char *text, size_t *len) {
    uint32_t best = (uint32_t)ARRAY_LEN(WORLD) + (uint8_t)text[0];
    *len = 1;
    for (uint32_t i = 1; i < ARRAY_LEN(WORLD); i++) {
        size_t n = strlen(WORLD_RAW[i]);
        if (n <= *len || strncmp(text, WORLD_RAW[i], n)) continue;
        *len = n;
        best = i;
    }
    return best;
}

TEST(world_takes_the_longest_token) {
    static const char *const PARTS[] = {"a", "b", "c", " ", "\n", "\t", "\\", "n", "\xC3\xA9", "<s>"};
    char path[64];
    struct tokenizer *t;
    struct error err;
    snprintf(path, sizeof path, "/tmp/trireme-world-%d.gguf", (int)getpid());
    write_world(path);
    if (tokenizer_open(path, &t, &err)) check_fail(__FILE__, __LINE__, "%s", err.text);
    unlink(path);
    EXPECT(t);
    for (int round = 0; round < 500; round++) {
        struct buf text = {0}, decoded = {0};
        struct token_vec ids = {0};
        for (size_t n = 1 + check_random() % 30; n; n--) buf_add_str(&text, PARTS[check_random() % ARRAY_LEN(PARTS)]);
        EXPECT_EQ(tokenizer_encode(t, buf_bytes(&text), 0, &ids, &err), 0);
        size_t at = 0, len;
        for (size_t i = 0; i < ids.count && at < text.len; i++, at += len)
            EXPECT_EQ(ids.items[i], longest_world(text.data + at, &len));
        EXPECT_EQ(at, text.len);
        tokenizer_decode(t, (struct tokens){ids.items, ids.count}, 0, &decoded);
        EXPECT_STR(buf_text(&decoded), buf_text(&text));
        vec_release(&ids);
        buf_release(&text);
        buf_release(&decoded);
    }
    struct token_vec ids = {0};
    EXPECT_EQ(tokenizer_encode(t, bytes_str("<s>a"), TOKENIZE_PARSE_SPECIAL, &ids, &err), 0);
    EXPECT(ids.count == 2 && ids.items[0] == 0 && tokenizer_is_special(t, 0));
    vec_release(&ids);
    tokenizer_free(&t);
}
