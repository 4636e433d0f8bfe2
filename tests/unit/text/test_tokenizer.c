#include "text/tokenizer/open.h"

#include <pthread.h>

#include "base/utf8.h"
#include "check.h"
#include "golden.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/normalize.h"

static struct tokenizer *load(const char *relative) {
    struct buf json = golden_read_source(relative);
    struct tokenizer *t = NULL;
    struct error err;
    if (tokenizer_load(buf_bytes(&json), bytes_of(NULL, 0), bytes_of(NULL, 0), &t, &err))
        check_fail(__FILE__, __LINE__, "%s: %s", relative, err.text);
    buf_release(&json);
    return t;
}

static struct tokenizer *load_shared(const char *relative) {
    const char *path = check_shared(relative);
    struct tokenizer *t = NULL;
    struct error err;
    if (path && tokenizer_open(path, &t, &err))
        check_fail(__FILE__, __LINE__, "%s: %s", relative, err.text);
    return t;
}

static void take_ids(struct tvalue from, struct token_vec *to) {
    to->count = 0;
    for (size_t i = 0; i < tvalue_count(from); i++)
        vec_push(to, (uint32_t)tvalue_list_at(from, i).integer);
}

static void detokenize_streamed(const struct tokenizer *t, const struct token_vec *ids,
                                unsigned flags, struct buf *out) {
    struct detok d;
    detok_init(&d, t, flags);
    for (size_t i = 0; i < ids->count; i++)
        detok_push(&d, ids->items[i], out);
    detok_flush(&d, out);
}

/* "" when the vector holds, else what is wrong. */
static const char *check_vector(const struct tokenizer *t, struct tvalue v) {
    struct tvalue text = golden_member(v, "text"), want = golden_member(v, "ids"),
                  skipped = golden_member(v, "skipped");
    struct token_vec ids = {0};
    struct buf out = {0};
    const char *wrong = "";
    if (text.kind == TVALUE_STRING) {
        unsigned flags = (unsigned)golden_member(v, "flags").integer;
        if (tokenizer_encode(t, tvalue_text(text), flags, &ids, NULL) ||
            !golden_is_list(want, ids.items, ids.count))
            wrong = "encoded";
    }
    take_ids(want, &ids);
    struct tvalue all = golden_member(v, "all");
    if (skipped.kind != TVALUE_STRING)
        skipped = all;
    tokenizer_detokenize(t, (struct tokens){ids.items, ids.count}, 0, &out);
    if (!golden_equal(tvalue_text(all), &out))
        wrong = "decoded";
    buf_reset(&out);
    tokenizer_detokenize(t, (struct tokens){ids.items, ids.count}, DETOKENIZE_SKIP_SPECIAL, &out);
    if (!golden_equal(tvalue_text(skipped), &out))
        wrong = "decoded without specials";
    buf_reset(&out);
    detokenize_streamed(t, &ids, DETOKENIZE_SKIP_SPECIAL, &out);
    if (!golden_equal(tvalue_text(skipped), &out))
        wrong = "streamed";
    vec_release(&ids);
    buf_release(&out);
    return wrong;
}

/* The vectors of tests/goldens/text, made by HF tokenizers (make_text_goldens.py). */
static void run_goldens(const char *name) {
    char path[256];
    struct arena a;
    struct buf json = golden_read_source("tests/goldens/text/vectors.json");
    arena_init(&a, 0, 0);
    struct tvalue vectors = golden_parse(&a, buf_bytes(&json));
    snprintf(path, sizeof path, "tests/goldens/text/%s.tokenizer.json", name);
    struct tokenizer *t = load(path);
    size_t seen = 0;
    for (size_t i = 0; t && i < tvalue_count(vectors); i++) {
        struct tvalue v = tvalue_list_at(vectors, i);
        if (!bytes_equal(tvalue_text(golden_member(v, "tokenizer")), bytes_str(name)))
            continue;
        const char *wrong = check_vector(t, v);
        if (*wrong)
            check_fail(__FILE__, __LINE__, "%s: vector %zu is not %s as it should be", name, i,
                       wrong);
        seen++;
    }
    if (!seen)
        check_fail(__FILE__, __LINE__, "no vectors for %s", name);
    tokenizer_free(&t);
    arena_release(&a);
    buf_release(&json);
}

TEST(goldens_byte_level) {
    run_goldens("byte_level");
}
TEST(goldens_sentencepiece) {
    run_goldens("sentencepiece");
}
TEST(goldens_added_rules) {
    run_goldens("added_rules");
}
TEST(goldens_metaspace) {
    run_goldens("metaspace");
}
TEST(goldens_odd_regex) {
    run_goldens("odd_regex");
}
TEST(goldens_unigram) {
    run_goldens("unigram");
}
TEST(goldens_wordpiece) {
    run_goldens("wordpiece");
}
TEST(goldens_scripts) {
    run_goldens("scripts");
}
TEST(goldens_byte_normalizer) {
    run_goldens("byte_normalizer");
}
TEST(goldens_nested_regex) {
    run_goldens("nested_regex");
}

/* ---- Oniguruma's words ---- */

/* What a pattern does to texts, by HF tokenizers: matches are removed, so each token left is a
 * piece between them. */
static bool becomes(const char *normalizer, const char *text, const char *want) {
    struct arena a;
    struct normalizer n;
    struct buf one = {0}, other = {0};
    struct regex_run run = {0};
    arena_init(&a, 0, 0);
    bool same = !normalizer_load(&n, golden_json(&a, bytes_str(normalizer)), NULL);
    same = same &&
           bytes_equal(normalizer_apply(&n, bytes_str(text), &run, &one, &other), bytes_str(want));
    regex_run_release(&run);
    normalizer_release(&n);
    buf_release(&one);
    buf_release(&other);
    arena_release(&a);
    return same;
}

/* U+11A7 stands in front of the trailing jamo (U+11A8 on) and is none. */
TEST(what_only_borders_on_the_jamo_is_not_composed) {
    EXPECT(becomes("{\"type\": \"NFC\"}", "\xEB\x9C\xA8\xE1\x86\xA7", "\xEB\x9C\xA8\xE1\x86\xA7"));
    EXPECT(becomes("{\"type\": \"NFKC\"}", "x\xEB\x9C\xA8\xE1\x86\xA7y",
                   "x\xEB\x9C\xA8\xE1\x86\xA7y"));
    EXPECT(becomes("{\"type\": \"NFC\"}", "\xEB\x9C\xA8\xE1\x86\xA8", "\xEB\x9C\xA9"));
}

/* Eight steps that each make ten letters of one: of a short text a hundred million. */
TEST(a_normalizer_that_makes_too_much_is_refused) {
    static const char TEN[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaa\"}";
    for (int steps = 1; steps <= 8; steps++) {
        struct buf json = {0};
        struct bytes none = {0};
        struct tokenizer *t;
        struct token_vec ids = {0};
        struct offset_map offsets = {0};
        struct error err;
        buf_add_str(&json, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
        for (int i = 0; i < steps; i++)
            buf_addf(&json, "%s%s", i ? "," : "", TEN);
        buf_add_str(&json, "]},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{"
                           "\"u\":0}}}");
        EXPECT_EQ(tokenizer_load(buf_bytes(&json), none, none, &t, &err), 0);
        int want = steps == 1 ? 0 : ERR_MEMORY;
        EXPECT_EQ(tokenizer_encode(t, bytes_str("aaaaaaaaaa"), 0, &ids, &err), want);
        EXPECT(!want || strstr(err.text, "normalizer makes too much"));
        EXPECT_EQ(tokenizer_encode_offsets(t, bytes_str("aaaaaaaaaa"), 0, &ids, &offsets, &err),
                  want);
        vec_release(&ids);
        vec_release(&offsets.spans);
        tokenizer_free(&t);
        buf_release(&json);
    }
}

TEST(patterns_know_words_as_oniguruma_does) {
    static const struct {
        const char *pattern, *text;
        size_t pieces;
    } ROWS[] = {{"\\\\w", "\xC2\xBD", 0},
                {"[\\\\w]", "\xC2\xBD", 1},
                {"\\\\w", "\xE2\x80\x8D", 1},
                {"1\\\\b", "1-", 1},
                {"1\\\\b", "-1\xC2\xBD-", 1},
                {"1\\\\b", "-1\xCC\x81-", 1},
                {"1\\\\b", "-1-", 2},
                {"1\\\\B", "-1-", 1},
                {"1\\\\B", "-1\xCC\x81-", 2},
                {"\\\\b1",
                 "\xE0\xA4\xBE"
                 "1-",
                 1},
                {"\\\\b1", "-1-", 2}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct buf json = {0};
        struct bytes none = {0};
        struct tokenizer *t;
        struct token_vec ids = {0};
        struct error err;
        buf_addf(&json,
                 "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Removed\",\"invert\":false,"
                 "\"pattern\":{\"Regex\":\"%s\"}},"
                 "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0}}}",
                 ROWS[i].pattern);
        EXPECT_EQ(tokenizer_load(buf_bytes(&json), none, none, &t, &err), 0);
        EXPECT_EQ(tokenizer_encode(t, bytes_str(ROWS[i].text), 0, &ids, &err), 0);
        if (ids.count != ROWS[i].pieces)
            check_fail(__FILE__, __LINE__, "row %zu: %zu pieces", i, ids.count);
        vec_release(&ids);
        tokenizer_free(&t);
        buf_release(&json);
    }
}

/* ---- shared vectors ---- */

/* llama.cpp's: texts in .inp between marks, ids in .out one line a text, no special tokens. */
static void run_llama_cpp(const char *tokenizer, const char *vectors) {
    static const char MARK[] = "\n__ggml_vocab_test__\n";
    char name[256];
    struct tokenizer *t = load_shared(tokenizer);
    if (!t)
        SKIP("shared", "no tokenizer");
    snprintf(name, sizeof name, "tokenizer_vectors/llama.cpp/ggml-vocab-%s.gguf.inp", vectors);
    struct buf in = golden_read(check_shared(name));
    snprintf(name, sizeof name, "tokenizer_vectors/llama.cpp/ggml-vocab-%s.gguf.out", vectors);
    struct buf want = golden_read(check_shared(name));
    char *text = in.data, *line = want.data;
    size_t seen = 0;
    while (text && line && *line) {
        char *next = strstr(text, MARK), *line_end = strchr(line, '\n');
        struct token_vec ids = {0};
        size_t len = next ? (size_t)(next - text) : strlen(text);
        EXPECT_EQ(tokenizer_encode(t, bytes_of(text, len), 0, &ids, NULL), 0);
        char *p = line;
        bool same = true;
        for (size_t i = 0; i < ids.count; i++)
            same &= strtoul(p, &p, 10) == ids.items[i];
        while (*p == ' ')
            p++;
        if (!same || (*p && *p != '\n'))
            check_fail(__FILE__, __LINE__, "%s: text %zu differs", vectors, seen);
        vec_release(&ids);
        seen++;
        text = next ? next + sizeof MARK - 1 : NULL;
        line = line_end ? line_end + 1 : NULL;
    }
    EXPECT(seen > 40);
    tokenizer_free(&t);
    buf_release(&in);
    buf_release(&want);
}

TEST(llama_cpp_vectors_llama3) {
    run_llama_cpp("tokenizers/llama3/tokenizer.derived.json", "llama-bpe");
}
TEST(llama_cpp_vectors_qwen2) {
    run_llama_cpp("tokenizers/qwen2.5/tokenizer.derived.json", "qwen2");
}
TEST(llama_cpp_vectors_deepseek_r1_qwen) {
    run_llama_cpp("tokenizers/qwen2.5/tokenizer.derived.json", "deepseek-r1-qwen");
}
TEST(llama_cpp_vectors_llama2) {
    run_llama_cpp("tokenizers/llama2/tokenizer.model", "llama-spm");
}
TEST(llama_cpp_vectors_gguf_llama) {
    run_llama_cpp("tokenizers/gguf-vocab/ggml-vocab-llama-spm.gguf", "llama-spm");
}
TEST(llama_cpp_vectors_gguf_phi3) {
    run_llama_cpp("tokenizers/gguf-vocab/ggml-vocab-phi-3.gguf", "phi-3");
}
TEST(llama_cpp_vectors_gguf_gpt2) {
    run_llama_cpp("tokenizers/gguf-vocab/ggml-vocab-gpt-2.gguf", "gpt-2");
}
TEST(llama_cpp_vectors_gguf_falcon) {
    run_llama_cpp("tokenizers/gguf-vocab/ggml-vocab-falcon.gguf", "falcon");
}
TEST(llama_cpp_vectors_gguf_starcoder) {
    run_llama_cpp("tokenizers/gguf-vocab/ggml-vocab-starcoder.gguf", "starcoder");
}
TEST(llama_cpp_vectors_gguf_deepseek_coder) {
    run_llama_cpp("tokenizers/gguf-vocab/ggml-vocab-deepseek-coder.gguf", "deepseek-coder");
}
TEST(llama_cpp_vectors_gguf_deepseek_llm) {
    run_llama_cpp("tokenizers/gguf-vocab/ggml-vocab-deepseek-llm.gguf", "deepseek-llm");
}

/* transformers.js: {model: [{text, ids, decoded}]}; ids include special tokens, which our files of
 * the same model may add or not. */
static void run_transformers_js(const char *tokenizer, const char *file, const char *model) {
    char name[256];
    struct tokenizer *t = load_shared(tokenizer);
    struct arena a;
    if (!t)
        SKIP("shared", "no tokenizer");
    arena_init(&a, 0, 0);
    snprintf(name, sizeof name, "tokenizer_vectors/transformers.js/%s", file);
    struct buf json = golden_read(check_shared(name));
    struct tvalue cases = golden_member(golden_parse(&a, buf_bytes(&json)), model);
    EXPECT(tvalue_count(cases) > 3);
    for (size_t i = 0; i < tvalue_count(cases); i++) {
        struct tvalue c = tvalue_list_at(cases, i);
        struct token_vec ids = {0};
        EXPECT_EQ(tokenizer_encode(t, tvalue_text(golden_member(c, "text")),
                                   TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL, &ids, NULL),
                  0);
        if (!golden_is_list(golden_member(c, "ids"), ids.items, ids.count))
            check_fail(__FILE__, __LINE__, "%s: case %zu differs", model, i);
        vec_release(&ids);
    }
    tokenizer_free(&t);
    arena_release(&a);
    buf_release(&json);
}

TEST(transformers_js_vectors_gpt2) {
    run_transformers_js("tokenizers/gguf-vocab/ggml-vocab-gpt-2.gguf", "gpt2.json", "Xenova/gpt2");
    run_transformers_js("tokenizers/openai/cl100k_base.tiktoken", "gpt2.json", "Xenova/gpt-4");
    run_transformers_js("tokenizers/openai/o200k_base.tiktoken", "gpt2.json", "Xenova/gpt-4o");
}
TEST(transformers_js_vectors_falcon) {
    run_transformers_js("tokenizers/gguf-vocab/ggml-vocab-falcon.gguf", "falcon.json",
                        "tiiuae/falcon-7b");
}
TEST(transformers_js_vectors_llama) {
    run_transformers_js("tokenizers/llama2/tokenizer.model", "llama.json",
                        "Xenova/llama-tokenizer");
    run_transformers_js("tokenizers/llama3/llama3.tiktoken", "llama.json",
                        "Xenova/llama3-tokenizer-new");
    run_transformers_js("tokenizers/gguf-vocab/ggml-vocab-deepseek-coder.gguf", "llama.json",
                        "Xenova/deepseek-coder-1.3b-instruct");
}
TEST(transformers_js_vectors_qwen2) {
    run_transformers_js("tokenizers/qwen2.5/tokenizer.derived.json", "qwen2.json",
                        "Xenova/Qwen1.5-0.5B-Chat");
}

/* ---- behaviour ---- */

TEST(special_tokens_in_user_text_are_text) {
    struct tokenizer *t = load("tests/goldens/text/byte_level.tokenizer.json");
    struct token_vec plain = {0}, parsed = {0};
    struct buf out = {0};
    uint32_t end = tokenizer_find(t, bytes_str("<|end|>"));
    EXPECT(end != TOKEN_NONE && tokenizer_is_special(t, end));
    EXPECT_EQ(tokenizer_encode(t, bytes_str("a<|end|>"), 0, &plain, NULL), 0);
    EXPECT_EQ(tokenizer_encode(t, bytes_str("a<|end|>"), TOKENIZE_PARSE_SPECIAL, &parsed, NULL), 0);
    EXPECT_EQ(parsed.count, 2);
    EXPECT_EQ(parsed.items[1], end);
    for (size_t i = 0; i < plain.count; i++)
        EXPECT(!tokenizer_is_special(t, plain.items[i]));
    tokenizer_detokenize(t, (struct tokens){plain.items, plain.count}, DETOKENIZE_SKIP_SPECIAL,
                         &out);
    EXPECT_STR(buf_text(&out), "a<|end|>");
    vec_release(&plain);
    vec_release(&parsed);
    buf_release(&out);
    tokenizer_free(&t);
}

TEST(bos_and_eos_come_from_the_configs) {
    struct buf json = golden_read_source("tests/goldens/text/byte_level.tokenizer.json");
    struct bytes config =
        bytes_str("{\"bos_token\": {\"content\": \"<|begin|>\"}, \"eos_token\": \"<|end|>\"}");
    struct bytes generation = bytes_str("{\"eos_token_id\": [5, 7, 5]}");
    struct tokenizer *t;
    EXPECT_EQ(tokenizer_load(buf_bytes(&json), config, generation, &t, NULL), 0);
    EXPECT_EQ(tokenizer_bos(t), tokenizer_find(t, bytes_str("<|begin|>")));
    struct tokens eos = tokenizer_eos(t);
    EXPECT_EQ(eos.count, 3);
    EXPECT_EQ(eos.ids[0], tokenizer_find(t, bytes_str("<|end|>")));
    EXPECT_EQ(eos.ids[1], 5);
    EXPECT_EQ(eos.ids[2], 7);
    EXPECT_EQ(tokenizer_prefix(t).count, 1);
    tokenizer_free(&t);
    EXPECT_EQ(
        tokenizer_load(buf_bytes(&json), config, bytes_str("{\"eos_token_id\": 9}"), &t, NULL), 0);
    eos = tokenizer_eos(t);
    EXPECT_EQ(eos.count, 2);
    EXPECT_EQ(eos.ids[1], 9);
    tokenizer_free(&t);
    buf_release(&json);
}

TEST(invalid_text_is_refused_and_nothing_appended) {
    struct tokenizer *t = load("tests/goldens/text/byte_level.tokenizer.json");
    struct token_vec ids = {0};
    struct error err;
    vec_push(&ids, 7);
    EXPECT_EQ(tokenizer_encode(t, bytes_of("ab\xFF", 3), TOKENIZE_ADD_SPECIAL, &ids, &err),
              ERR_INVALID);
    EXPECT_EQ(tokenizer_encode(t, bytes_of("\xED\xA0\x80", 3), 0, &ids, &err), ERR_INVALID);
    EXPECT_EQ(ids.count, 1);
    vec_release(&ids);
    tokenizer_free(&t);
}

TEST(ids_out_of_range_are_harmless) {
    struct tokenizer *t = load("tests/goldens/text/sentencepiece.tokenizer.json");
    uint32_t ids[] = {UINT32_MAX, 1u << 30, tokenizer_vocab_count(t), 70};
    struct buf out = {0};
    struct detok d;
    detok_init(&d, t, 0);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        (void)tokenizer_token_bytes(t, ids[i]);
        EXPECT(!tokenizer_is_special(t, ids[i]));
        detok_push(&d, ids[i], &out);
    }
    tokenizer_detokenize(t, (struct tokens){ids, ARRAY_LEN(ids)}, 0, &out);
    buf_release(&out);
    tokenizer_free(&t);
}

/* Every token's bytes, found again, and decoding one token gives them. */
TEST(token_bytes_agree_with_decoding) {
    static const char *const NAMES[] = {"byte_level", "added_rules", "odd_regex"};
    for (size_t n = 0; n < ARRAY_LEN(NAMES); n++) {
        char path[256];
        snprintf(path, sizeof path, "tests/goldens/text/%s.tokenizer.json", NAMES[n]);
        struct tokenizer *t = load(path);
        struct buf text = {0}, spelling = {0};
        for (uint32_t id = 0; id < tokenizer_vocab_count(t); id++) {
            buf_reset(&spelling);
            tokenizer_token_text(t, id, &spelling);
            EXPECT_EQ(tokenizer_find(t, buf_bytes(&spelling)), id);
            buf_reset(&text);
            struct detok d;
            detok_init(&d, t, 0);
            detok_push(&d, id, &text);
            struct bytes raw = tokenizer_token_bytes(t, id);
            if (!detok_holds(&d) && !memmem(buf_text(&text), text.len, "\xEF\xBF\xBD", 3))
                EXPECT(bytes_equal(raw, bytes_of(buf_text(&text), text.len)));
        }
        buf_release(&text);
        buf_release(&spelling);
        tokenizer_free(&t);
    }
}

/* The spans of all tokens of a text cover it, in order; a whole token's span is its own text. */
static const char *check_spans(const struct tokenizer *t, const struct token_vec *ids) {
    struct tokens tokens = {ids->items, ids->count};
    struct token_span *spans = mem_calloc(ids->count + 1, sizeof *spans);
    struct buf text = {0}, streamed = {0};
    const char *wrong = "";
    size_t covered = 0, last = 0;
    detok_spans(t, tokens, 0, spans, &text);
    detokenize_streamed(t, ids, 0, &streamed);
    for (size_t i = 0; i < ids->count; i++) {
        struct bytes own = tokenizer_token_bytes(t, ids->items[i]),
                     span =
                         bytes_of(buf_text(&text) + spans[i].begin, spans[i].end - spans[i].begin);
        bool whole = utf8_valid(own.data, own.len) && (!i || spans[i].begin >= spans[i - 1].end);
        if (spans[i].begin < last || spans[i].begin > covered || spans[i].end < spans[i].begin)
            wrong = "rising";
        if (whole && !bytes_equal(own, span))
            wrong = "the token's text";
        if (!utf8_valid(span.data, span.len))
            wrong = "whole characters";
        last = spans[i].begin;
        covered = MAX(covered, spans[i].end);
    }
    if (covered != text.len)
        wrong = "covering";
    if (!bytes_equal(buf_bytes(&text), buf_bytes(&streamed)))
        wrong = "of the streamed text";
    mem_free(spans);
    buf_release(&text);
    buf_release(&streamed);
    return wrong;
}

TEST(spans_say_which_token_made_what) {
    struct tokenizer *t = load("tests/goldens/text/byte_level.tokenizer.json");
    struct token_vec ids = {0};
    for (int round = 0; round < 2000; round++) {
        ids.count = 0;
        for (size_t n = check_random() % 20; n; n--)
            vec_push(&ids,
                     (uint32_t)(check_random() % (round % 2 ? tokenizer_vocab_count(t) : 256)));
        const char *wrong = check_spans(t, &ids);
        if (*wrong)
            check_fail(__FILE__, __LINE__, "round %d: spans are not %s", round, wrong);
    }
    struct token_span spans[8];
    struct buf text = {0};
    ids.count = 0; /* one character, cut between tokens */
    EXPECT_EQ(tokenizer_encode(t, bytes_str("\xE2\x82\xAC"), 0, &ids, NULL), 0);
    EXPECT(ids.count > 1 && ids.count < 8);
    detok_spans(t, (struct tokens){ids.items, ids.count}, 0, spans, &text);
    for (size_t i = 0; i < ids.count; i++)
        EXPECT(spans[i].begin == 0 && spans[i].end == 3);
    vec_release(&ids);
    buf_release(&text);
    tokenizer_free(&t);
}

/* ---- hostile files ---- */

static int try_load(const char *json, struct error *err) {
    struct tokenizer *t;
    int rc = tokenizer_load(bytes_str(json), bytes_of(NULL, 0), bytes_of(NULL, 0), &t, err);
    tokenizer_free(&t);
    return rc;
}

TEST(bad_files_are_refused_with_a_reason) {
    static const char *const BAD[] = {
        "",
        "{",
        "[]",
        "{}",
        "null",
        "{\"model\": {}}",
        "{\"model\": {\"vocab\": []}}",
        "{\"model\": {\"vocab\": {\"a\": -1}}}",
        "{\"model\": {\"vocab\": {\"a\": 4294967296}}}",
        "{\"model\": {\"vocab\": {\"a\": 16777215}}}",
        "{\"model\": {\"vocab\": {\"a\": 1.5}}}",
        "{\"model\": {\"type\": \"Unknown\", \"vocab\": {}}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [5]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"unk_token\": \"b\"}}",
        "{\"model\": {\"vocab\": {\"a\": 0}}, \"normalizer\": {\"type\": \"What\"}}",
        "{\"model\": {\"vocab\": {\"a\": 0}}, \"decoder\": {\"type\": \"What\"}}",
        "{\"model\": {\"vocab\": {\"a\": 0}}, \"pre_tokenizer\": {\"type\": \"Split\", "
        "\"pattern\": {\"Regex\": "
        "\"(\"}}}",
        "{\"model\": {\"vocab\": {\"a\": 0}}, \"added_tokens\": [{\"id\": 5}]}",
        "{\"model\": {\"vocab\": {\"a\": 0}}, \"added_tokens\": [{\"id\": 999999999, \"content\": "
        "\"x\"}]}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"vocab\": {\"b\": 0}}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": null}}",
        "{\"model\": {\"vocab\": {\"a\": 0, \"aa\": 1, \"aaa\": 2, \"aaaa\": 3, \"aaaaa\": 4}, "
        "\"merges\": [[\"a\", "
        "\"a\"], \"aa a\", \"a aa\", \"aaa a\", \"a aaa\", \"aaaa a\", \"aa aa\"]}}",
        "{\"model\": {\"vocab\": [[\"a\", 0]]}}",
        "{\"model\": {\"type\": \"Unigram\", \"vocab\": {\"a\": 0}}}",
        "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\"]]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}}} x"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct error err = {0};
        if (!try_load(BAD[i], &err))
            check_fail(__FILE__, __LINE__, "taken: %s", BAD[i]);
        EXPECT(err.text[0]);
    }
    EXPECT_EQ(try_load("{\"model\": {\"vocab\": {\"a\": 0}}}", NULL), 0);
}

/* What the large parts need (whether keys are bytes, the prefix of continuations) may come behind
 * them. */
#define PRE    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define PREFIX "\"continuing_subword_prefix\": \"##\""
#define VOCAB                                                                                      \
    "\"vocab\": {\"a\": 0, \"##b\": 1, \"ab\": 2, \"\\u00c3\": 3, \"##\\u00a9\": 4, "              \
    "\"\\u00c3\\u00a9\": 5}"
#define MERGES "\"merges\": [\"a ##b\", \"\\u00c3 ##\\u00a9\"]"

TEST(members_come_in_any_order) {
    static const char *const ORDERS[] = {
        "{" PRE ", \"model\": {\"type\": \"BPE\", " PREFIX ", " VOCAB ", " MERGES "}}",
        "{\"model\": {" PREFIX ", " VOCAB ", " MERGES "}, " PRE "}",
        "{" PRE ", \"model\": {" PREFIX ", " MERGES ", " VOCAB "}}",
        "{" PRE ", \"model\": {" VOCAB ", " MERGES ", " PREFIX "}}",
        "{\"model\": {" MERGES ", " PREFIX ", " VOCAB ", \"type\": \"BPE\"}, " PRE "}",
    };
    for (size_t i = 0; i < ARRAY_LEN(ORDERS); i++) {
        struct token_vec ids = {0};
        struct tokenizer *t;
        struct error err;
        EXPECT_EQ(
            tokenizer_load(bytes_str(ORDERS[i]), bytes_of(NULL, 0), bytes_of(NULL, 0), &t, &err),
            0);
        EXPECT_EQ(tokenizer_encode(t, bytes_str("ab"), 0, &ids, &err), 0);
        EXPECT_EQ(tokenizer_encode(t, bytes_str("\xC3\xA9"), 0, &ids, &err), 0);
        EXPECT(ids.count == 2 && ids.items[0] == 2 && ids.items[1] == 5);
        vec_release(&ids);
        tokenizer_free(&t);
    }
}

TEST(deep_nesting_is_refused) {
    struct buf json = {0};
    struct error err;
    buf_add_str(&json, "{\"model\": {\"vocab\": {}}, \"decoder\": ");
    for (int i = 0; i < 100000; i++)
        buf_add_str(&json, "{\"type\":\"Sequence\",\"decoders\":[");
    EXPECT(try_load(json.data, &err) < 0);
    buf_release(&json);
}

/* ---- threads ---- */

struct job {
    const struct tokenizer *t;
    struct bytes text;
    struct token_vec want;
    bool ok;
};

static void *encode_often(void *arg) {
    struct job *job = arg;
    struct token_vec ids = {0};
    job->ok = true;
    for (int i = 0; i < 200; i++) {
        ids.count = 0;
        job->ok &= !tokenizer_encode(job->t, job->text, 0, &ids, NULL) &&
                   ids.count == job->want.count &&
                   !memcmp(ids.items, job->want.items, ids.count * sizeof *ids.items);
    }
    vec_release(&ids);
    return NULL;
}

TEST(many_threads_encode_at_once) {
    static const char *const TEXTS[] = {
        "Three banks of oars", "pull one stroke at a time \xF0\x9F\x99\x82",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1234 !!"};
    struct tokenizer *t = load("tests/goldens/text/byte_level.tokenizer.json");
    struct job jobs[4] = {0};
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        jobs[i].t = t;
        jobs[i].text = bytes_str(TEXTS[i]);
        EXPECT_EQ(tokenizer_encode(t, jobs[i].text, 0, &jobs[i].want, NULL), 0);
        EXPECT_EQ(pthread_create(&threads[i], NULL, encode_often, &jobs[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        EXPECT(jobs[i].ok);
        vec_release(&jobs[i].want);
    }
    tokenizer_free(&t);
}

/* A text of pieces that tokens are long for: spaces, marks to be composed, the vocabulary's own. */
static void draw_text(const struct tokenizer *t, struct buf *out) {
    static const char *const PIECES[] = {
        " ",   "  ",      "        ",           "\n",
        "a",   "e\u0301", "\u1100\u1161\u11A8", "\u03B9\u0308\u0301",
        "Zoo", "99",      "\U0001F600",         "\u00A0",
        "!"};
    buf_reset(out);
    for (size_t n = 1 + check_random() % 12; n; n--) {
        uint32_t id = (uint32_t)(check_random() % tokenizer_vocab_count(t));
        struct bytes own = tokenizer_token_bytes(t, id);
        bool takes = check_random() % 2 && utf8_valid(own.data, own.len);
        for (size_t times = 1 + check_random() % 9; times; times--) {
            if (takes)
                buf_add_bytes(out, own);
            else
                buf_add_str(out, PIECES[check_random() % ARRAY_LEN(PIECES)]);
        }
    }
}

/* What is said of a token's bytes holds for any text, and is said where nothing can be lost. */
TEST(no_token_stands_for_more_bytes_than_is_said) {
    static const struct {
        const char *name;
        size_t most; /* by the file: its longest token, times what the normalizer makes shorter */
    } CASES[] = {
        {"byte_level", 10},
        {"metaspace", 16},
        {"nested_regex", 4},
        {"odd_regex", 4},
        {"sentencepiece", 19},
        {"added_rules", SIZE_MAX},     /* an added token takes white space along */
        {"byte_normalizer", SIZE_MAX}, /* characters may lack, and no token is for them */
        {"scripts", SIZE_MAX},         /* what stands before the first script is dropped */
        {"unigram", SIZE_MAX},         /* unknown runs are one token */
        {"wordpiece", SIZE_MAX},
    };
    struct buf text = {0};
    struct token_vec ids = {0};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char path[256];
        snprintf(path, sizeof path, "tests/goldens/text/%s.tokenizer.json", CASES[i].name);
        struct tokenizer *t = load(path);
        size_t most = tokenizer_token_bytes_most(t);
        if (most != CASES[i].most)
            check_fail(__FILE__, __LINE__, "%s: %zu", CASES[i].name, most);
        for (int round = 0; round < 500; round++) {
            draw_text(t, &text);
            ids.count = 0;
            EXPECT_EQ(tokenizer_encode(t, buf_bytes(&text), TOKENIZE_PARSE_SPECIAL, &ids, NULL), 0);
            EXPECT(text.len / most <= ids.count);
            EXPECT(most == SIZE_MAX || text.len <= ids.count * most);
        }
        tokenizer_free(&t);
    }
    vec_release(&ids);
    buf_release(&text);
}

/* Rules of tokenizer.json that lose text, and such that only rewrite it. */
TEST(what_drops_text_leaves_a_tokens_bytes_unsaid) {
    static const struct {
        const char *normalizer, *splitter, *options;
        size_t most;
    } CASES[] = {
        {"null", "null", "\"unk_token\":\"<u>\"", 4}, /* an unknown character has up to four */
        {"null", "null", "\"unk_token\":\"<u>\",\"fuse_unk\":true", SIZE_MAX},
        {"null", "null", "\"unk_token\":null", SIZE_MAX},
        {"{\"type\":\"NFC\"}", "null", "\"unk_token\":\"<u>\"", 16},
        {"{\"type\":\"NFKC\"}", "null", "\"unk_token\":\"<u>\"", SIZE_MAX},
        {"{\"type\":\"Lowercase\"}", "null", "\"unk_token\":\"<u>\"", SIZE_MAX},
        {"{\"type\":\"Strip\"}", "null", "\"unk_token\":\"<u>\"", SIZE_MAX},
        {"{\"type\":\"Prepend\",\"prepend\":\"_\"}", "null", "\"unk_token\":\"<u>\"", 4},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"abc\"},\"content\":\"ab\"}", "null",
         "\"unk_token\":\"<u>\"", 8},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"abc\"},\"content\":\"abc\"}", "null",
         "\"unk_token\":\"<u>\"", 4},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"abc\"},\"content\":\"\"}", "null",
         "\"unk_token\":\"<u>\"", SIZE_MAX},
        {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"a\"}", "null",
         "\"unk_token\":\"<u>\"", SIZE_MAX},
        {"null", "{\"type\":\"Whitespace\"}", "\"unk_token\":\"<u>\"", SIZE_MAX},
        {"null", "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"-\"}", "\"unk_token\":\"<u>\"",
         SIZE_MAX},
        {"null",
         "{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"Removed\",\"invert\":"
         "false}",
         "\"unk_token\":\"<u>\"", SIZE_MAX},
        {"null",
         "{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"Isolated\",\"invert\":"
         "false}",
         "\"unk_token\":\"<u>\"", 4},
        {"null", "{\"type\":\"Digits\",\"individual_digits\":true}", "\"unk_token\":\"<u>\"", 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct buf json = {0};
        struct tokenizer *t = NULL;
        struct error err;
        buf_addf(&json,
                 "{\"added_tokens\":[],\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":{\"type\":"
                 "\"BPE\",%s,\"vocab\":{\"<u>\":0,\"a\":1,\"b\":2},\"merges\":[]}}",
                 CASES[i].normalizer, CASES[i].splitter, CASES[i].options);
        if (tokenizer_load(buf_bytes(&json), bytes_of(NULL, 0), bytes_of(NULL, 0), &t, &err))
            check_fail(__FILE__, __LINE__, "case %zu: %s", i, err.text);
        else if (tokenizer_token_bytes_most(t) != CASES[i].most)
            check_fail(__FILE__, __LINE__, "case %zu: %zu", i, tokenizer_token_bytes_most(t));
        tokenizer_free(&t);
        buf_release(&json);
    }
}

/* ---- two texts in one prompt ---- */

#define WORDS_VOCAB                                                                                \
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"[CLS]\":1,"        \
    "\"[SEP]\":2,\"a\":3,\"b\":4}}"
#define SPECIALS                                                                                   \
    "\"special_tokens\":{\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[1]},"                                \
    "\"[SEP]\":{\"id\":\"[SEP]\",\"ids\":[2]}}"
#define SPECIAL(name, type)  "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":" type "}}"
#define SEQUENCE(name, type) "{\"Sequence\":{\"id\":\"" name "\",\"type_id\":" type "}}"
#define SINGLE                                                                                     \
    "\"single\":[" SPECIAL("[CLS]", "0") "," SEQUENCE("A", "0") "," SPECIAL("[SEP]", "0") "]"

/* As HF's post-processors put a pair together, and which of its tokens are of the first type. */
TEST(a_pair_stands_as_the_post_processor_says) {
    static const struct {
        const char *post;
        uint32_t ids[8], count, first_count;
    } CASES[] = {
        {"null", {3, 4}, 2, 0},
        {"{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}",
         {1, 3, 2, 4, 2},
         5,
         3},
        {"{\"type\":\"RobertaProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1],"
         "\"trim_offsets\":true,\"add_prefix_space\":false}",
         {1, 3, 2, 2, 4, 2},
         6,
         0},
        {"{\"type\":\"TemplateProcessing\"," SINGLE
         ",\"pair\":[" SPECIAL("[CLS]", "0") "," SEQUENCE("A", "0") "," SPECIAL(
             "[SEP]", "0") "," SEQUENCE("B", "1") "," SPECIAL("[SEP]", "1") "]," SPECIALS "}",
         {1, 3, 2, 4, 2},
         5,
         3},
        {"{\"type\":\"TemplateProcessing\"," SINGLE
         ",\"pair\":[" SPECIAL("[CLS]", "0") "," SEQUENCE("A", "0") "," SPECIAL(
             "[SEP]", "0") "," SPECIAL("[SEP]", "1") "," SEQUENCE("B", "1") "]," SPECIALS "}",
         {1, 3, 2, 2, 4},
         5,
         3},
        {"{\"type\":\"TemplateProcessing\"," SINGLE ",\"pair\":[" SEQUENCE("A", "0") "," SPECIAL(
             "[SEP]", "0") "," SEQUENCE("B", "0") "]," SPECIALS "}",
         {3, 2, 4},
         3,
         0},
        /* in another order than ours: as each text alone */
        {"{\"type\":\"TemplateProcessing\"," SINGLE
         ",\"pair\":[" SEQUENCE("B", "0") "," SEQUENCE("A", "1") "]," SPECIALS "}",
         {1, 3, 2, 1, 4, 2},
         6,
         0},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct tokenizer *t = NULL;
        struct error err = {0};
        struct buf json = {0};
        struct token_vec ids = {0};
        uint32_t first_count = 77;
        static const uint32_t A[] = {3}, B[] = {4};
        buf_addf(&json, "{\"added_tokens\":[],\"post_processor\":%s," WORDS_VOCAB "}",
                 CASES[i].post);
        if (tokenizer_load(buf_bytes(&json), bytes_str(""), bytes_str(""), &t, &err))
            check_fail(__FILE__, __LINE__, "case %zu: %s", i, err.text);
        tokenizer_join(t, (struct tokens){A, 1}, (struct tokens){B, 1}, &ids, &first_count);
        if (ids.count != CASES[i].count || first_count != CASES[i].first_count ||
            memcmp(ids.items, CASES[i].ids, ids.count * sizeof *ids.items) != 0)
            check_fail(__FILE__, __LINE__, "case %zu: %zu tokens, %u of the first", i, ids.count,
                       first_count);
        vec_release(&ids);
        buf_release(&json);
        tokenizer_free(&t);
    }
}
