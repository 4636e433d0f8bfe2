/*
 * Vocabularies in other forms than tokenizer.json: SentencePiece models, tiktoken files, named
 * ones, GGUF, RWKV's.
 */
#include "text/tokenizer/open.h"

#include <unistd.h>

#include "check.h"
#include "formats/gguf_write.h"
#include "golden.h"
#include "text/tokenizer/build.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/spm.h"

static struct tokenizer *open_source(const char *relative) {
    char path[1024];
    struct tokenizer *t;
    struct error err;
    snprintf(path, sizeof path, "%s/%s", TRIREME_SOURCE_DIR, relative);
    if (tokenizer_open(path, &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    return t;
}

/* Where the vector says them. */
static bool same_offsets(const struct tokenizer *t, struct tvalue text, struct tvalue want) {
    struct token_vec ids = {0};
    struct offset_map got = {0};
    bool same = want.kind != TVALUE_LIST ||
                (!tokenizer_encode_offsets(t, tvalue_text(text), 0, &ids, &got, NULL) &&
                 golden_is_list(want, (const uint32_t *)got.spans.items, 2 * got.spans.count));
    vec_release(&ids);
    vec_release(&got.spans);
    return same;
}

static void detokenize_streamed(const struct tokenizer *t, struct tokens ids, struct buf *out) {
    struct detok d;
    detok_init(&d, t, 0);
    for (size_t i = 0; i < ids.count; i++)
        detok_push(&d, ids.ids[i], out);
    detok_flush(&d, out);
}

static const char *check_vector(const struct tokenizer *t, struct tvalue v) {
    struct tvalue text = golden_member(v, "text"), want = golden_member(v, "ids"),
                  all = golden_member(v, "all");
    struct token_vec ids = {0};
    struct buf whole = {0}, streamed = {0};
    const char *wrong = "";
    if (text.kind == TVALUE_STRING && (tokenizer_encode(t, tvalue_text(text), 0, &ids, NULL) ||
                                       !golden_is_list(want, ids.items, ids.count)))
        wrong = "encoded";
    if (!same_offsets(t, text, golden_member(v, "offsets")))
        wrong = "given offsets";
    ids.count = 0;
    for (size_t i = 0; i < tvalue_count(want); i++)
        vec_push(&ids, (uint32_t)tvalue_list_at(want, i).integer);
    tokenizer_detokenize(t, (struct tokens){ids.items, ids.count}, 0, &whole);
    detokenize_streamed(t, (struct tokens){ids.items, ids.count}, &streamed);
    if (!golden_equal(tvalue_text(all), &whole))
        wrong = "decoded";
    if (!golden_equal(tvalue_text(all), &streamed))
        wrong = "streamed";
    vec_release(&ids);
    buf_release(&whole);
    buf_release(&streamed);
    return wrong;
}

/* The vectors of tests/goldens/text/forms, made by sentencepiece and tiktoken
 * (make_vocab_goldens.py). */
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
        if (!bytes_equal(tvalue_text(golden_member(v, "file")), bytes_str(file)))
            continue;
        const char *wrong = check_vector(t, v);
        if (*wrong)
            check_fail(__FILE__, __LINE__, "%s: vector %zu is not %s as it should be", file, i,
                       wrong);
        seen++;
    }
    EXPECT(seen > 90);
    tokenizer_free(&t);
    arena_release(&a);
    buf_release(&json);
}

TEST(sentencepiece_bpe_with_bytes) {
    run_goldens("bpe_bytes.model");
}
TEST(sentencepiece_bpe_with_unused_pieces) {
    run_goldens("bpe_unused.model");
}
TEST(sentencepiece_bpe_with_rules) {
    run_goldens("bpe_rules.model");
}
TEST(sentencepiece_unigram) {
    run_goldens("unigram.model");
}
TEST(sentencepiece_unigram_with_bytes) {
    run_goldens("unigram_bytes.model");
}
TEST(sentencepiece_unigram_with_suffix) {
    run_goldens("unigram_suffix.model");
}
TEST(sentencepiece_words) {
    run_goldens("words.model");
}
TEST(sentencepiece_words_with_bytes) {
    run_goldens("words_bytes.model");
}
TEST(tiktoken_trained) {
    run_goldens("small.tiktoken");
}
TEST(tiktoken_with_ranks_no_training_gives) {
    run_goldens("odd_ranks.tiktoken");
}

/* ---- special tokens ---- */

TEST(sentencepiece_control_tokens_are_parsed_only_when_asked) {
    struct tokenizer *t = open_source("tests/goldens/text/forms/bpe_bytes.model");
    struct token_vec ids = {0};
    uint32_t bos = tokenizer_find(t, bytes_str("<s>")), ctl = tokenizer_find(t, bytes_str("<ctl>"));
    EXPECT_EQ(tokenizer_bos(t), bos);
    EXPECT(tokenizer_is_special(t, ctl));
    EXPECT_EQ(tokenizer_encode(t, bytes_str("a<ctl>b"), 0, &ids, NULL), 0);
    for (size_t i = 0; i < ids.count; i++)
        EXPECT(ids.items[i] != ctl);
    ids.count = 0;
    EXPECT_EQ(tokenizer_encode(t, bytes_str("<ctl>"), TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL,
                               &ids, NULL),
              0);
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
    if (dir && tokenizer_open_named(name, dir, &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    return t;
}

/* One line a vocabulary: name, first and last agent token, a text and its ids (tiktoken's,
 * sentencepiece's). */
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
        if (!t)
            SKIP("shared", "no vocabularies");
        EXPECT_EQ(tokenizer_find(t, bytes_str("<|system|>")), ROWS[i].system);
        EXPECT_EQ(tokenizer_find(t, bytes_str("<|/summary|>")), ROWS[i].end_summary);
        EXPECT_EQ(tokenizer_find(t, bytes_str("<|image|>")), ROWS[i].image);
        EXPECT_EQ(tokenizer_vocab_count(t), ROWS[i].end_summary + 1);
        struct token_vec ids = {0};
        EXPECT_EQ(tokenizer_encode(t, bytes_str("Hello world's"), 0, &ids, NULL), 0);
        size_t count = 0;
        while (ROWS[i].hello[count])
            count++;
        EXPECT_EQ(ids.count, count);
        for (size_t k = 0; k < ids.count && k < count; k++)
            if (ids.items[k] != ROWS[i].hello[k])
                check_fail(__FILE__, __LINE__, "%s: token %zu is %u", ROWS[i].name, k,
                           ids.items[k]);
        vec_release(&ids);
        tokenizer_free(&t);
    }
}

/* What no file holds: the models' own special tokens, each one id after the one before. */
static void expect_row(const struct tokenizer *t, uint32_t first, const char *const *names,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t id = tokenizer_find(t, bytes_str(names[i]));
        if (id != first + i)
            check_fail(__FILE__, __LINE__, "%s is token %u", names[i], id);
    }
}

TEST(named_vocabularies_have_their_models_special_tokens) {
    static const char *const LLAMA[] = {"<|begin_of_text|>",
                                        "<|end_of_text|>",
                                        "<|reserved_special_token_0|>",
                                        "<|reserved_special_token_1|>",
                                        "<|finetune_right_pad_id|>",
                                        "<|reserved_special_token_2|>",
                                        "<|start_header_id|>",
                                        "<|end_header_id|>",
                                        "<|eom_id|>",
                                        "<|eot_id|>",
                                        "<|python_tag|>",
                                        "<|reserved_special_token_3|>"};
    static const char *const DEEPSEEK[] = {"<think>",
                                           "</think>",
                                           "<｜fim▁hole｜>",
                                           "<｜fim▁begin｜>",
                                           "<｜fim▁end｜>",
                                           "<｜User｜>",
                                           "<｜Assistant｜>",
                                           "<|EOT|>",
                                           "<｜tool▁calls▁begin｜>",
                                           "<｜tool▁calls▁end｜>",
                                           "<｜tool▁call▁begin｜>",
                                           "<｜tool▁call▁end｜>",
                                           "<｜tool▁outputs▁begin｜>",
                                           "<｜tool▁outputs▁end｜>",
                                           "<｜tool▁output▁begin｜>",
                                           "<｜tool▁output▁end｜>",
                                           "<｜tool▁sep｜>"};
    static const char *const MISTRAL[] = {"<unk>",
                                          "<s>",
                                          "</s>",
                                          "[INST]",
                                          "[/INST]",
                                          "[AVAILABLE_TOOLS]",
                                          "[/AVAILABLE_TOOLS]",
                                          "[TOOL_RESULTS]",
                                          "[/TOOL_RESULTS]",
                                          "[TOOL_CALLS]",
                                          "<pad>",
                                          "[PREFIX]",
                                          "[MIDDLE]",
                                          "[SUFFIX]",
                                          "<SPECIAL_14>"};
    struct tokenizer *llama = open_named("llama3"), *deepseek = open_named("deepseek_v3"),
                     *mistral = open_named("mistral_v3");
    if (!llama || !deepseek || !mistral)
        SKIP("shared", "no vocabularies");
    expect_row(llama, 128000, LLAMA, ARRAY_LEN(LLAMA));
    EXPECT_EQ(tokenizer_find(llama, bytes_str("<|reserved_special_token_247|>")), 128255);
    expect_row(deepseek, 128798, DEEPSEEK, ARRAY_LEN(DEEPSEEK));
    EXPECT_EQ(tokenizer_find(deepseek, bytes_str("<｜▁pad▁｜>")), 2);
    EXPECT(!tokenizer_is_special(deepseek, 128799) && tokenizer_is_special(deepseek, 128800));
    expect_row(mistral, 0, MISTRAL, ARRAY_LEN(MISTRAL));
    EXPECT_EQ(tokenizer_find(mistral, bytes_str("<SPECIAL_999>")), 999);
    tokenizer_free(&llama);
    tokenizer_free(&deepseek);
    tokenizer_free(&mistral);
}

TEST(a_missing_vocabulary_says_what_and_where) {
    struct tokenizer *t;
    struct error err;
    EXPECT_EQ(tokenizer_open_named("llama3", "/nonexistent", &t, &err), ERR_NOT_FOUND);
    EXPECT(strstr(err.text, "llama3.tiktoken") && strstr(err.text, "https://") &&
           strstr(err.text, "/nonexistent"));
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
               {"\x0A\x05\x0A\x01\x61\x18\x02\x12\x02\x18\x05", 11} /* no kind of model */};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct bytes file = bytes_of(BAD[i].text, BAD[i].len ? BAD[i].len : strlen(BAD[i].text)),
                     none = {0};
        struct tokenizer *t;
        struct error err = {0};
        if (!tokenizer_load_any(file, none, none, &t, &err))
            check_fail(__FILE__, __LINE__, "file %zu was taken", i);
        EXPECT(err.text[0] && !t);
    }
}

/* After a piece that is right, a field whose number goes on past the file. */
TEST(a_sentencepiece_number_without_an_end_is_damage) {
    static const char FILE_BYTES[] = "\x0A\x09\x0A\x05<unk>\x18\x02\x78\x80";
    struct error err = {0};
    for (size_t cut = 1; cut <= 2; cut++) { /* and one that is not there at all */
        struct spm_model m;
        if (!spm_model_read(bytes_of(FILE_BYTES, sizeof FILE_BYTES - cut), &m, &err))
            check_fail(__FILE__, __LINE__, "all but %zu bytes were taken", cut - 1);
        EXPECT(strstr(err.text, "damaged"));
    }
}

static void add_base64(struct buf *out, const void *data, size_t len, uint32_t rank) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = data;
    for (size_t i = 0; i < len; i += 3) {
        uint32_t bits = (uint32_t)in[i] << 16 | (i + 1 < len ? (uint32_t)in[i + 1] << 8 : 0) |
                        (i + 2 < len ? in[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            buf_add_byte(out, i + k > len ? '=' : (uint8_t)DIGITS[bits >> (18 - 6 * k) & 63]);
    }
    buf_addf(out, " %u\n", rank);
}

/* <unk>, control pieces, the 256 bytes, then pieces by falling score. */
TEST(a_sentencepiece_vocabulary_may_be_a_tiktoken_file) {
    for (uint32_t controls = 0; controls < 3; controls++) {
        struct buf text = {0};
        struct tiktoken_file f;
        struct spm_model m;
        struct error err;
        uint32_t rank = 0, first = 1 + controls;
        add_base64(&text, "<unk>", 5, rank++);
        for (; rank < first; rank++)
            add_base64(&text, rank == 1 ? "<s>" : "</s>", rank == 1 ? 3 : 4, rank);
        for (int byte = 0; byte < 256; byte++)
            add_base64(&text, &(uint8_t){(uint8_t)byte}, 1, rank++);
        add_base64(&text, "\xE2\x96\x81t", 4, rank++);
        EXPECT_EQ(tiktoken_read(buf_bytes(&text), &f, &err), 0);
        EXPECT(tiktoken_to_spm(&f, &m));
        EXPECT_EQ(m.pieces.count, first + 257);
        EXPECT_EQ(m.pieces.items[0].type, SPM_UNKNOWN);
        EXPECT_EQ(m.pieces.items[first - 1].type, controls ? SPM_CONTROL : SPM_UNKNOWN);
        EXPECT_EQ(m.pieces.items[first].type, SPM_BYTE);
        EXPECT_EQ(m.pieces.items[first + 255].type, SPM_BYTE);
        EXPECT(bytes_equal(m.pieces.items[first + 255].text, bytes_str("<0xFF>")));
        EXPECT_EQ(m.pieces.items[first + 256].type, SPM_NORMAL);
        spm_model_release(&m);
        tiktoken_release(&f);
        buf_release(&text);
    }
}

TEST(sentencepiece_characters) {
    static const char PIECES[] = "\x0A\x09\x0A\x05<unk>\x18\x02" /* unknown */
                                 "\x0A\x05\x0A\x03\xE2\x96\x81"
                                 "\x0A\x03\x0A\x01"
                                 "a"
                                 "\x0A\x03\x0A\x01"
                                 "b"
                                 "\x12\x02\x18\x04"; /* model_type: CHAR */
    static const uint32_t WANT[] = {1, 2, 3, 1, 2, 0};
    struct bytes none = {0};
    struct token_vec ids = {0};
    struct tokenizer *t;
    struct error err;
    if (tokenizer_load_any(bytes_of(PIECES, sizeof PIECES - 1), none, none, &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    EXPECT_EQ(tokenizer_encode(t, bytes_str("ab axy"), 0, &ids, &err), 0);
    EXPECT_EQ(ids.count, ARRAY_LEN(WANT));
    for (size_t i = 0; i < ids.count; i++)
        EXPECT_EQ(ids.items[i], WANT[i]);
    vec_release(&ids);
    tokenizer_free(&t);
}

/* A user-defined piece costs 0.1, whatever its length: less than any other here. */
TEST(sentencepiece_user_defined_pieces_cost_little) {
    static const struct {
        const char *text;
        float score;
        enum spm_type type;
    } PIECES[] = {{"<unk>", 0, SPM_UNKNOWN},
                  {"\xE2\x96\x81", -3, SPM_NORMAL},
                  {"ab", 0, SPM_USER_DEFINED},
                  {"b", -7, SPM_NORMAL},
                  {"\xE2\x96\x81"
                   "a",
                   -5, SPM_NORMAL},
                  {"bb", -9, SPM_NORMAL}};
    static const uint32_t WANT[] = {1, 2, 3};
    struct tokenizer *t = tokenizer_new(VOCAB_IDS_MAX);
    struct token_vec ids = {0};
    struct spm_model m;
    struct error err;
    spm_model_init(&m);
    for (size_t i = 0; i < ARRAY_LEN(PIECES); i++)
        vec_push(&m.pieces, ((struct spm_piece){bytes_str(PIECES[i].text), PIECES[i].score,
                                                (uint8_t)PIECES[i].type}));
    EXPECT_EQ(spm_build(&m, t, &err), 0);
    EXPECT_EQ(tokenizer_encode(t, bytes_str("abb"), 0, &ids, &err), 0);
    EXPECT_EQ(ids.count, ARRAY_LEN(WANT));
    for (size_t i = 0; i < ids.count && i < ARRAY_LEN(WANT); i++)
        EXPECT_EQ(ids.items[i], WANT[i]);
    vec_release(&ids);
    spm_model_release(&m);
    tokenizer_free(&t);
}

/* ---- RWKV's World vocabulary ---- */

static const char *const WORLD[] = {"<s>",   "ab",          "abc",   " a", "\\n\\n",
                                    "\\\\n", "c\\xc3\\xa9", "\\t a", "aba"};
static const char *const WORLD_RAW[] = {"",    "ab",        "abc",  " a", "\n\n",
                                        "\\n", "c\xC3\xA9", "\t a", "aba"};

/* The tokens above behind those of all bytes; the first one is a control token. */
static void write_world(const char *path) {
    struct gguf_writer w;
    struct error err;
    char byte[8];
    gguf_writer_init(&w, path);
    gguf_put_string(&w, "general.architecture", bytes_str("rwkv7"));
    gguf_put_string(&w, "tokenizer.ggml.model", bytes_str("rwkv"));
    gguf_put_array(&w, "tokenizer.ggml.tokens", GGUF_STRING, ARRAY_LEN(WORLD) + 256);
    for (size_t i = 0; i < ARRAY_LEN(WORLD); i++)
        gguf_add_string(&w, bytes_str(WORLD[i]));
    for (unsigned i = 0; i < 256; i++) {
        snprintf(byte, sizeof byte, "\\x%02x", i);
        gguf_add_string(&w, bytes_str(byte));
    }
    gguf_put_array(&w, "tokenizer.ggml.token_type", GGUF_I32, ARRAY_LEN(WORLD) + 256);
    for (int32_t i = 0; i < (int32_t)ARRAY_LEN(WORLD) + 256; i++)
        gguf_add_i32(&w, i ? 1 : 3);
    if (gguf_write_begin(&w, &err) || gguf_write_end(&w, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    gguf_writer_release(&w);
}

/* The same tokens as RWKV's file has them: ids from 1, Python's literals, in either quotes, as
 * bytes or as text. */
static void add_world_lines(struct buf *out) {
    static const char *const LITERALS[] = {"'ab'",     "'abc'",    "\" a\"",        "'\\n\\n'",
                                           "b'\\\\n'", "'c\\xe9'", "'\\t\\u0020a'", "b'aba'"};
    for (unsigned i = 1; i < ARRAY_LEN(WORLD); i++)
        buf_addf(out, "%u %s %zu\n", i, LITERALS[i - 1], strlen(WORLD_RAW[i]));
    for (unsigned i = 0; i < 256; i++)
        buf_addf(out, "%u b'\\x%02x' 1\r\n", (unsigned)ARRAY_LEN(WORLD) + i, i);
}

static struct tokenizer *load_world_text(struct error *err) {
    struct buf file = {0};
    struct tokenizer *t;
    struct bytes none = {0};
    add_world_lines(&file);
    if (tokenizer_load_any(buf_bytes(&file), none, none, &t, err))
        check_fail(__FILE__, __LINE__, "%s", err->text);
    buf_release(&file);
    return t;
}

TEST(bad_world_files_are_refused_with_their_line) {
    static const char *const BAD[] = {
        "1 'a' 1\n2 'b'\n",      "1 'a' 1\n2 'b 1\n",        "1 'a' 1\n1 'b' 1\n",
        "1 'a' 1\n0 'b' 1\n",    "1 'a' 1\n2 'b' 2\n",       "1 'a' 1\n2 '\\q' 1\n",
        "1 'a' 1\n2 '\\x4' 1\n", "1 'a' 1\n2 '\\ud800' 3\n", "1 'a' 1\n2 b'\\u0041' 1\n",
        "1 'a' 1\n2 ''' 1\n",    "1 'a' 1\n2 '' 0\n",        "1 'a' 1\n99999999 'b' 1\n",
        "1 'a' 1\n2 'b\\' 1\n"};
    struct bytes none = {0};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct tokenizer *t;
        struct error err = {0};
        EXPECT(tokenizer_load_any(bytes_str(BAD[i]), none, none, &t, &err) < 0);
        if (!strstr(err.text, "line 2") && !strstr(err.text, "99999999"))
            check_fail(__FILE__, __LINE__, "file %zu: '%s'", i, err.text);
    }
}

/* The id of the longest token that text begins with. */
static uint32_t longest_world(const char *text, size_t *len) {
    uint32_t best = (uint32_t)ARRAY_LEN(WORLD) + (uint8_t)text[0];
    *len = 1;
    for (uint32_t i = 1; i < ARRAY_LEN(WORLD); i++) {
        size_t n = strlen(WORLD_RAW[i]);
        if (n <= *len || strncmp(text, WORLD_RAW[i], n))
            continue;
        *len = n;
        best = i;
    }
    return best;
}

static void check_world(const struct tokenizer *t) {
    static const char *const PARTS[] = {"a",  "b",  "c", " ",        "\n",
                                        "\t", "\\", "n", "\xC3\xA9", "<s>"};
    struct error err;
    for (int round = 0; round < 500; round++) {
        struct buf text = {0}, decoded = {0};
        struct token_vec ids = {0};
        for (size_t n = 1 + check_random() % 30; n; n--)
            buf_add_str(&text, PARTS[check_random() % ARRAY_LEN(PARTS)]);
        EXPECT_EQ(tokenizer_encode(t, buf_bytes(&text), 0, &ids, &err), 0);
        size_t at = 0, len;
        for (size_t i = 0; i < ids.count && at < text.len; i++, at += len)
            EXPECT_EQ(ids.items[i], longest_world(text.data + at, &len));
        EXPECT_EQ(at, text.len);
        tokenizer_detokenize(t, (struct tokens){ids.items, ids.count}, 0, &decoded);
        EXPECT_STR(buf_text(&decoded), buf_text(&text));
        vec_release(&ids);
        buf_release(&text);
        buf_release(&decoded);
    }
}

/* The special token that ends a text, id 0, is parsed where it is asked for. */
static void check_world_end(const struct tokenizer *t, const char *text) {
    struct token_vec ids = {0};
    struct error err;
    EXPECT_EQ(tokenizer_encode(t, bytes_str(text), TOKENIZE_PARSE_SPECIAL, &ids, &err), 0);
    EXPECT(ids.count == 2 && ids.items[0] == 0 && tokenizer_is_special(t, 0));
    vec_release(&ids);
}

TEST(world_takes_the_longest_token) {
    char path[64];
    struct tokenizer *t;
    struct error err;
    snprintf(path, sizeof path, "/tmp/trireme-world-%d.gguf", (int)getpid());
    write_world(path);
    if (tokenizer_open(path, &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    unlink(path);
    EXPECT(t);
    check_world(t);
    check_world_end(t, "<s>a");
    tokenizer_free(&t);
    t = load_world_text(&err);
    check_world(t);
    check_world_end(t, "<|rwkv_tokenizer_end_of_text|>a");
    EXPECT_EQ(tokenizer_eos(t).ids[0], 0);
    tokenizer_free(&t);
}

/* ---- GGUF files against the tokenizer.json they come from ---- */

/* The spelling of a token in the GGUF file. */
typedef void spell_fn(struct bytes spelling, bool special, struct buf *out);

static void spell_as_it_is(struct bytes spelling, bool special, struct buf *out) {
    buf_add_bytes(out, spelling);
}

/* llama.cpp's converter for BERT: "##x" is "x", "x" is U+2581 and "x". */
static void spell_word(struct bytes spelling, bool special, struct buf *out) {
    bool continues = spelling.len > 2 && !memcmp(spelling.data, "##", 2);
    if (!special && !continues)
        buf_add_str(out, "\xE2\x96\x81");
    if (!special && continues)
        spelling = bytes_of(spelling.data + 2, spelling.len - 2);
    buf_add_bytes(out, spelling);
}

static void put_tokens(struct gguf_writer *w, const struct tokenizer *from, spell_fn *spell) {
    uint32_t count = tokenizer_vocab_count(from);
    gguf_put_array(w, "tokenizer.ggml.tokens", GGUF_STRING, count);
    for (uint32_t id = 0; id < count; id++) {
        struct buf spelling = {0}, text = {0};
        tokenizer_token_text(from, id, &spelling);
        spell(buf_bytes(&spelling), tokenizer_is_special(from, id), &text);
        gguf_add_string(w, buf_bytes(&text));
        buf_release(&spelling);
        buf_release(&text);
    }
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, count);
    for (uint32_t id = 0; id < count; id++)
        gguf_add_i32(w, tokenizer_is_special(from, id) ? 3 : 1);
}

static void put_merges(struct gguf_writer *w, const char *json_path) {
    struct arena a;
    struct buf json = golden_read_source(json_path);
    arena_init(&a, 0, 0);
    struct tvalue merges =
        golden_member(golden_member(golden_parse(&a, buf_bytes(&json)), "model"), "merges");
    gguf_put_array(w, "tokenizer.ggml.merges", GGUF_STRING, tvalue_count(merges));
    for (size_t i = 0; i < tvalue_count(merges); i++) {
        struct tvalue pair = tvalue_list_at(merges, i);
        struct buf line = {0};
        buf_add_bytes(&line, tvalue_text(tvalue_list_at(pair, 0)));
        buf_add_byte(&line, ' ');
        buf_add_bytes(&line, tvalue_text(tvalue_list_at(pair, 1)));
        gguf_add_string(w, buf_bytes(&line));
        buf_release(&line);
    }
    arena_release(&a);
    buf_release(&json);
}

/* The tokenizer of a GGUF file with the tokens of `from`; merges of its tokenizer.json, or NULL. */
static struct tokenizer *convert(const struct tokenizer *from, const char *kind, spell_fn *spell,
                                 const char *merges) {
    struct gguf_writer w;
    struct tokenizer *t = NULL;
    struct error err;
    char path[64];
    snprintf(path, sizeof path, "/tmp/trireme-vocab-%d.gguf", (int)getpid());
    gguf_writer_init(&w, path);
    gguf_put_string(&w, "general.architecture", bytes_str("any"));
    gguf_put_string(&w, "tokenizer.ggml.model", bytes_str(kind));
    put_tokens(&w, from, spell);
    if (merges)
        put_merges(&w, merges);
    gguf_put_int(&w, "tokenizer.ggml.unknown_token_id", GGUF_U32,
                 tokenizer_find(from, bytes_str("<unk>")));
    if (gguf_write_begin(&w, &err) || gguf_write_end(&w, &err) || tokenizer_open(path, &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    unlink(path);
    gguf_writer_release(&w);
    return t;
}

/* The file's own text and ours: words of at most 20 characters, for the golden's limit is not in
 * the file; and none of "<", where a special token would end what is prefixed. */
static bool is_fit(struct bytes text) {
    size_t run = 0;
    for (size_t i = 0; i < text.len; i++) {
        run = text.data[i] == ' ' ? 0 : run + 1;
        if (run > 20 || text.data[i] == '<')
            return false;
    }
    return text.len;
}

/* before: what the golden's normalizer puts before a text and the file's does not. */
static void expect_same_ids(const struct tokenizer *from, const struct tokenizer *t,
                            const char *before) {
    struct arena a;
    struct buf json = golden_read_source("tests/goldens/text/vectors.json");
    size_t seen = 0;
    arena_init(&a, 0, 0);
    struct tvalue vectors = golden_parse(&a, buf_bytes(&json));
    for (size_t i = 0; i < tvalue_count(vectors); i++) {
        struct bytes text = tvalue_text(golden_member(tvalue_list_at(vectors, i), "text"));
        struct token_vec want = {0}, got = {0};
        struct buf prefixed = {0}, want_text = {0}, got_text = {0};
        if (!is_fit(text))
            continue;
        buf_add_str(&prefixed, before);
        buf_add_bytes(&prefixed, text);
        EXPECT(!tokenizer_encode(from, text, 0, &want, NULL));
        EXPECT(!tokenizer_encode(t, buf_bytes(&prefixed), 0, &got, NULL));
        bool same = want.count == got.count;
        for (size_t k = 0; same && k < got.count; k++)
            same = want.items[k] == got.items[k];
        if (!same)
            check_fail(__FILE__, __LINE__, "vector %zu is encoded in another way", i);
        tokenizer_detokenize(from, (struct tokens){want.items, want.count}, DETOKENIZE_CONTINUES,
                             &want_text);
        tokenizer_detokenize(t, (struct tokens){want.items, want.count}, DETOKENIZE_CONTINUES,
                             &got_text);
        EXPECT_STR(buf_text(&got_text), buf_text(&want_text));
        seen++;
        vec_release(&want);
        vec_release(&got);
        buf_release(&prefixed);
        buf_release(&want_text);
        buf_release(&got_text);
    }
    EXPECT(seen > 100);
    arena_release(&a);
    buf_release(&json);
}

TEST(wordpiece_of_a_gguf_file) {
    struct tokenizer *from = open_source("tests/goldens/text/wordpiece.tokenizer.json");
    struct tokenizer *t = convert(from, "bert", spell_word, NULL);
    struct token_vec ids = {0};
    expect_same_ids(from, t, "");
    EXPECT_EQ(tokenizer_encode(t, bytes_str("a"), TOKENIZE_ADD_SPECIAL, &ids, NULL), 0);
    EXPECT(ids.count == 3 && ids.items[0] == tokenizer_find(from, bytes_str("[CLS]")) &&
           ids.items[2] == tokenizer_find(from, bytes_str("[SEP]")));
    EXPECT(tokenizer_is_special(t, ids.items[0]) && !tokenizer_is_special(t, ids.items[1]));
    ids.count = 0;
    EXPECT_EQ(tokenizer_encode(t, bytes_str("a[SEP]"), TOKENIZE_PARSE_SPECIAL, &ids, NULL), 0);
    EXPECT(ids.count == 2 && ids.items[1] == tokenizer_find(from, bytes_str("[SEP]")));
    vec_release(&ids);
    tokenizer_free(&from);
    tokenizer_free(&t);
}

/* Words of a vocabulary are text, not bytes that are spelled as other characters: "Ġ" is itself. */
TEST(wordpieces_of_a_gguf_file_are_characters) {
    static const char *const TOKENS[] = {"[UNK]", "[CLS]", "[SEP]", "\xE2\x96\x81é",
                                         "\xE2\x96\x81Ġ"};
    struct gguf_writer w;
    struct tokenizer *t = NULL;
    struct token_vec ids = {0};
    struct error err;
    char path[64];
    snprintf(path, sizeof path, "/tmp/trireme-vocab-%d.gguf", (int)getpid());
    gguf_writer_init(&w, path);
    gguf_put_string(&w, "general.architecture", bytes_str("any"));
    gguf_put_string(&w, "tokenizer.ggml.model", bytes_str("bert"));
    gguf_put_int(&w, "tokenizer.ggml.normalizer.lowercase", GGUF_BOOL, 0);
    gguf_put_array(&w, "tokenizer.ggml.tokens", GGUF_STRING, ARRAY_LEN(TOKENS));
    for (size_t i = 0; i < ARRAY_LEN(TOKENS); i++)
        gguf_add_string(&w, bytes_str(TOKENS[i]));
    gguf_put_array(&w, "tokenizer.ggml.token_type", GGUF_I32, ARRAY_LEN(TOKENS));
    for (size_t i = 0; i < ARRAY_LEN(TOKENS); i++)
        gguf_add_i32(&w, i < 3 ? 3 : 1);
    if (gguf_write_begin(&w, &err) || gguf_write_end(&w, &err) || tokenizer_open(path, &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    unlink(path);
    gguf_writer_release(&w);
    EXPECT_EQ(tokenizer_encode(t, bytes_str("é Ġ"), 0, &ids, NULL), 0);
    EXPECT(ids.count == 2 && ids.items[0] == 3 && ids.items[1] == 4);
    struct buf text = {0};
    tokenizer_detokenize(t, (struct tokens){ids.items, ids.count}, 0, &text);
    EXPECT_STR(buf_text(&text), "é Ġ");
    buf_release(&text);
    vec_release(&ids);
    tokenizer_free(&t);
}

TEST(bpe_of_pieces_in_a_gguf_file) {
    static const char NAME[] = "tests/goldens/text/sentencepiece.tokenizer.json";
    struct tokenizer *from = open_source(NAME), *t = convert(from, "gemma4", spell_as_it_is, NAME);
    expect_same_ids(from, t, " ");
    tokenizer_free(&from);
    tokenizer_free(&t);
}
