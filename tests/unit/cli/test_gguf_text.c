/* What the tokenizer of a folder is called in the GGUF file that it becomes. */
#include "cli/gguf_text.h"

#include "base/fsutil.h"
#include "check.h"
#include "formats/gguf_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A tokenizer of three tokens, and those that are added, that splits so, for a model of five rows, as
 * GGUF. config: what tokenizer_config.json has; NULL: there is none. g: closed by the caller, its file
 * is gone. */
static const char *merges = "\"a b\"", *words = "\"a\":0,\"b\":1,\"ab\":2";

static void put_added(const char *added, const char *splits, const char *config, struct gguf *g) {
    char dir[] = "/tmp/trireme-text-XXXXXX";
    struct gguf_writer w;
    struct error err = {0};
    struct buf text;
    if (!mkdtemp(dir))
        abort();
    char *tokenizer = path_join(dir, "tokenizer.json"), *file = path_join(dir, "m.gguf"),
         *special = path_join(dir, "tokenizer_config.json");
    buf_init(&text, 0);
    buf_addf(
        &text,
        "{\"added_tokens\":[%s],\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[%s{"
        "\"type\":"
        "\"ByteLevel\"}]},\"model\":{\"type\":\"BPE\",\"vocab\":{%s},"
        "\"merges\":[%s]}}",
        added, splits, words, merges);
    EXPECT_EQ(file_write_atomic(tokenizer, text.data, text.len, 0600, &err), 0);
    if (config)
        EXPECT_EQ(file_write_atomic(special, config, strlen(config), 0600, &err), 0);
    gguf_writer_init(&w, file);
    EXPECT_EQ(gguf_text_put(&w, dir, 5, &err), 0);
    EXPECT_EQ(gguf_write_begin(&w, &err), 0);
    EXPECT_EQ(gguf_write_end(&w, &err), 0);
    EXPECT_EQ(gguf_open(g, file, &err), 0);
    gguf_writer_release(&w);
    unlink(tokenizer);
    unlink(special);
    unlink(file);
    rmdir(dir);
    buf_release(&text);
    mem_free(tokenizer);
    mem_free(special);
    mem_free(file);
}

static void put_text(const char *splits, const char *config, struct gguf *g) {
    put_added("", splits, config, g);
}

/* tokenizer.ggml.pre of a folder whose tokenizer splits so; "": none. */
static void pre_of(const char *splits, char out[32]) {
    struct gguf g = {0};
    struct bytes name = {0};
    put_text(splits, NULL, &g);
    *out = '\0';
    if (gguf_string(&g, "tokenizer.ggml.pre", &name))
        snprintf(out, 32, "%.*s", (int)name.len, (const char *)name.data);
    gguf_close(&g);
}

#define SPLIT(regex) "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"}},"
#define WORDS        "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
#define CASES                                                                                      \
    WORDS "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|"

TEST(splits_are_called_as_llama_cpp_calls_them) {
    static const struct {
        const char *splits, *name;
    } ROWS[] = {{"", "gpt-2"},
                {SPLIT(WORDS "\\\\p{L}+|\\\\p{N}{1,3}| ?x"), "llama-bpe"},
                {SPLIT(WORDS "\\\\p{L}+|\\\\p{N}| ?x"), "qwen2"},
                {SPLIT(WORDS "[\\\\p{L}\\\\p{M}]+|\\\\p{N}| ?x"), "qwen35"},
                {SPLIT(CASES "\\\\p{N}{1,3}| ?x"), "gpt-4o"},
                {SPLIT(CASES "\\\\p{N}| ?x"), "tekken"},
                {SPLIT("\\\\p{N}{1,3}") SPLIT("[一-龥぀-ゟ゠-ヿ]+"), "deepseek-v3"},
                {"{\"type\":\"Digits\",\"individual_digits\":true},", "smollm"},
                {"{\"type\": \"Digits\", \"individual_digits\": true},", "smollm"},
                {"{\"type\":\"Digits\",\"individual_digits\":false},", "gpt-2"}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char name[32];
        pre_of(ROWS[i].splits, name);
        EXPECT_STR(name, ROWS[i].name);
    }
}

/* Newer files have the two parts apart. */
TEST(merges_are_two_words_in_each_form) {
    static const char *const FORMS[] = {"\"a b\",\"b a\"", "[\"a\",\"b\"],[\"b\",\"a\"]",
                                        "[\"a\",\"b\"],\"b a\""};
    for (size_t i = 0; i < ARRAY_LEN(FORMS); i++) {
        struct gguf g = {0};
        struct bytes one = {0}, other = {0};
        merges = FORMS[i];
        put_text("", NULL, &g);
        const struct gguf_kv *kv = gguf_find(&g, "tokenizer.ggml.merges");
        EXPECT(kv && kv->count == 2);
        struct gguf_strings list = gguf_strings_of(kv);
        EXPECT(gguf_strings_next(&list, &one) && gguf_strings_next(&list, &other));
        EXPECT(bytes_equal(one, bytes_str("a b")) && bytes_equal(other, bytes_str("b a")));
        gguf_close(&g);
    }
    merges = "\"a b\"";
}

TEST(every_row_of_the_embedding_has_a_token) {
    struct gguf g = {0};
    put_text("", NULL, &g);
    const struct gguf_kv *tokens = gguf_find(&g, "tokenizer.ggml.tokens"),
                         *types = gguf_find(&g, "tokenizer.ggml.token_type");
    EXPECT(tokens && types);
    EXPECT_EQ(tokens->count, 5);
    EXPECT_EQ(types->count, 5);
    static const int64_t TYPES[] = {1, 1, 1, 5, 5}; /* used, and unused */
    for (uint64_t i = 0; i < ARRAY_LEN(TYPES); i++) {
        int64_t type = 0;
        EXPECT(gguf_int_at(types, i, &type));
        EXPECT_EQ(type, TYPES[i]);
    }
    gguf_close(&g);
}

TEST(added_tokens_have_their_texts_and_types) {
    static const struct {
        const char *text;
        int64_t type;
    } TOKENS[] = {
        {"a", 1}, {"b", 1}, {"ab", 1}, {"<x>", 3}, {"<y>", 4}}; /* control, and the user's */
    struct gguf g = {0};
    put_added("{\"id\":3,\"lstrip\":{\"id\":[9]},\"special\":true,\"content\":\"<x>\"},"
              "{\"content\":\"<y>\",\"id\":4}",
              "", NULL, &g);
    const struct gguf_kv *tokens = gguf_find(&g, "tokenizer.ggml.tokens"),
                         *types = gguf_find(&g, "tokenizer.ggml.token_type");
    EXPECT(tokens && types && tokens->count == ARRAY_LEN(TOKENS));
    struct gguf_strings texts = gguf_strings_of(tokens);
    for (uint64_t i = 0; i < ARRAY_LEN(TOKENS); i++) {
        struct bytes text = {0};
        int64_t type = 0;
        EXPECT(gguf_strings_next(&texts, &text) && bytes_equal(text, bytes_str(TOKENS[i].text)));
        EXPECT(gguf_int_at(types, i, &type) && type == TOKENS[i].type);
    }
    gguf_close(&g);
    static const char *const BROKEN[] = {"{\"id\":\"3\",\"content\":\"<x>\"}",
                                         "{\"id\":3,\"content\":[]}",
                                         "{\"id\":3,\"special\":1,\"content\":\"<x>\"}", "3"};
    for (size_t i = 0; i < ARRAY_LEN(BROKEN); i++) { /* there is no tokenizer to be had */
        struct bytes model = {0};
        put_added(BROKEN[i], "", NULL, &g);
        EXPECT(gguf_string(&g, "tokenizer.ggml.model", &model));
        EXPECT(bytes_equal(model, bytes_str("no_vocab")));
        gguf_close(&g);
    }
}

static int64_t int_of(const struct gguf *g, const char *key) {
    const struct gguf_kv *kv = gguf_find(g, key);
    int64_t value = -2;
    return kv && gguf_int_at(kv, 0, &value) ? value : -1;
}

/* Ids of special tokens, whether one begins each text, and the template: -1 or "": not there. */
TEST(special_tokens_are_those_of_the_config) {
    static const struct {
        const char *config;
        int bos, eos, adds;
        const char *chat;
    } ROWS[] = {
        {"{\"bos_token\":\"b\",\"eos_token\":\"ab\"}", 1, 2, -1, ""},
        {"{\"bos_token\":{\"lstrip\":[1,{}],\"content\":\"ab\",\"special\":true},"
         "\"eos_token\":\"a\"}",
         2, 0, -1, ""},
        {"{\"bos_token\":null,\"eos_token\":\"zz\"}", -1, -1, -1, ""},
        {"{\"bos_token\":{\"content\":\"zz\"},\"eos_token\":{\"content\":\"b\"}}", -1, 1, -1, ""},
        {"{\"add_bos_token\":true,\"eos_token\":\"b\"}", -1, 1, 1, ""},
        {"{\"add_bos_token\":false,\"eos_token\":\"b\"}", -1, 1, 0, ""},
        {"{\"add_bos_token\":null,\"eos_token\":\"b\"}", -1, 1, -1, ""},
        {"{\"chat_template\":\"{{ 1 }}\",\"eos_token\":\"b\"}", -1, 1, -1, "{{ 1 }}"},
        {"{\"chat_template\":[{\"name\":\"default\"}],\"eos_token\":\"b\"}", -1, 1, -1, ""},
        {"{\"chat_template\":{\"a\":{}},\"eos_token\":\"b\"}", -1, 1, -1, ""},
        {"{\"other\":{\"bos_token\":\"b\"},\"more\":[1,[2]],\"eos_token\":\"b\"}", -1, 1, -1, ""},
        {"[\"bos_token\",\"b\"]", -1, -1, -1, ""}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct gguf g = {0};
        struct bytes chat = {0};
        put_text("", ROWS[i].config, &g);
        if (int_of(&g, "tokenizer.ggml.bos_token_id") != ROWS[i].bos ||
            int_of(&g, "tokenizer.ggml.eos_token_id") != ROWS[i].eos ||
            int_of(&g, "tokenizer.ggml.add_bos_token") != ROWS[i].adds)
            check_fail(__FILE__, __LINE__, "%s", ROWS[i].config);
        bool has_chat = gguf_string(&g, "tokenizer.chat_template", &chat);
        if (has_chat != !!*ROWS[i].chat || !bytes_equal(chat, bytes_str(ROWS[i].chat)))
            check_fail(__FILE__, __LINE__, "%s", ROWS[i].config);
        gguf_close(&g);
    }
}

/* Of what a vocabulary falls back to, "<0x41>" and its like are bytes; what only looks alike is text. */
TEST(bytes_have_their_type) {
    static const int64_t TYPES[] = {6, 1, 1, 1, 6}; /* a byte, text */
    struct gguf g = {0};
    words = "\"<0x41>\":0,\"<0x41>>\":1,\"<0y41>\":2,\"<0x4>\":3,\"<0xFF>\":4";
    merges = "";
    put_text("", NULL, &g);
    const struct gguf_kv *types = gguf_find(&g, "tokenizer.ggml.token_type");
    EXPECT(types && types->count == ARRAY_LEN(TYPES));
    for (uint64_t i = 0; i < ARRAY_LEN(TYPES); i++) {
        int64_t type = 0;
        EXPECT(gguf_int_at(types, i, &type));
        EXPECT_EQ(type, TYPES[i]);
    }
    gguf_close(&g);
    words = "\"a\":0,\"b\":1,\"ab\":2";
    merges = "\"a b\"";
}
