/* Configs in the spellings their publishers use (published.jsonl, one a line): fields that ask for
 * nothing, others that say one thing twice, wrappers, quantized storage. All are read in full; a
 * field that nobody knows is named, and refused in a strict reading. */
#include <stdio.h>

#include "base/fsutil.h"
#include "check.h"
#include "model/spec.h"

static char unread[512]; /* of the last config that was read */

static int read_with(const struct spec_options *o, const char *line, size_t len,
                     struct error *err) {
    struct model_spec spec;
    int rc = spec_read_text(&spec, bytes_of(line, len), o, err);
    *unread = 0;
    if (!rc) {
        snprintf(unread, sizeof unread, "%s", spec.unread ? spec.unread : "");
        spec_release(&spec);
    }
    return rc;
}

static int read_line(const char *line, size_t len, struct error *err) {
    return read_with(NULL, line, len, err);
}

TEST(published_configs_are_read_and_nothing_in_them_ignored) {
    struct buf text, odd;
    struct error err = {0};
    uint32_t count = 0;
    buf_init(&text, 0);
    buf_init(&odd, 0);
    EXPECT_EQ(
        file_read(TRIREME_SOURCE_DIR "/tests/unit/model/published.jsonl", 1 << 20, &text, &err), 0);
    for (const char *at = buf_text(&text); *at; count++) {
        size_t len = strcspn(at, "\n");
        if (read_line(at, len, &err))
            check_fail(__FILE__, __LINE__, "%.120s: %s", at, err.text);
        buf_reset(&odd);
        buf_addf(&odd, "{\"of_another_day\": 1, %.*s", (int)len - 1, at + 1);
        EXPECT_EQ(read_line(buf_text(&odd), odd.len, &err), 0);
        EXPECT_STR(unread, "of_another_day");
        EXPECT_EQ(read_with(&(struct spec_options){.strict = true}, buf_text(&odd), odd.len, &err),
                  ERR_UNSUPPORTED);
        EXPECT(strstr(err.text, "of_another_day"));
        at += len + (at[len] == '\n');
    }
    EXPECT(count >= 40);
    buf_release(&text);
    buf_release(&odd);
}

#define WRAPPED                                                                                    \
    "{\"architectures\":[\"Mistral3ForConditionalGeneration\"],%s\"text_config\":{"                \
    "\"model_type\":\"mistral\",\"hidden_size\":64,\"num_hidden_layers\":1,"                       \
    "\"num_attention_heads\":8,\"vocab_size\":96,\"intermediate_size\":96%s}}"

/* Whether the head is the embedding: the wrapper knows, else the text model, else its class. */
TEST(wrappers_say_whether_the_head_is_tied) {
    static const struct {
        const char *top, *inner;
        bool tied;
    } ROWS[] = {{"", "", false},
                {"", ",\"tie_word_embeddings\":true", true},
                {"\"tie_word_embeddings\":true,", "", true},
                {"\"tie_word_embeddings\":true,", ",\"tie_word_embeddings\":false", true},
                {"\"tie_word_embeddings\":false,", ",\"tie_word_embeddings\":true", false},
                {"\"tie_word_embeddings\":null,", ",\"tie_word_embeddings\":true", true}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char text[512];
        struct model_spec s;
        struct error err = {0};
        int len = snprintf(text, sizeof text, WRAPPED, ROWS[i].top, ROWS[i].inner);
        if (spec_read_text(&s, bytes_of(text, (size_t)len), NULL, &err))
            check_fail(__FILE__, __LINE__, "%s", err.text);
        EXPECT_EQ(s.tied_head, ROWS[i].tied);
        EXPECT(!s.unread);
        spec_release(&s);
    }
}

#define TWO_SPELLINGS                                                                              \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"num_hidden_layers\":1,"        \
    "\"num_attention_heads\":4,\"vocab_size\":96,\"intermediate_size\":96,"                        \
    "\"max_sequence_length\":64,\"max_position_embeddings\":%d}"

/* A field in two spellings that disagree is no fit for a guess. */
TEST(spellings_that_disagree_are_refused) {
    char text[512];
    struct error err = {0};
    EXPECT_EQ(read_line(text, (size_t)snprintf(text, sizeof text, TWO_SPELLINGS, 64), &err), 0);
    EXPECT_EQ(read_line(text, (size_t)snprintf(text, sizeof text, TWO_SPELLINGS, 65), &err),
              ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "max_position_embeddings"));
}

/* "gelu" is the exact one, but in Gemma 1, whose authors and transformers mean the other. */
TEST(gelu_of_gemma_is_the_tanh_form) {
    static const struct {
        const char *config;
        enum activation activation;
    } ROWS[] = {
        {"{\"architectures\":[\"GemmaForCausalLM\"],\"hidden_act\":\"gelu\",",
         ACTIVATION_GELU_TANH},
        {"{\"architectures\":[\"GemmaForCausalLM\"],", ACTIVATION_GELU_TANH},
        {"{\"architectures\":[\"GemmaForCausalLM\"],\"hidden_act\":\"silu\",", ACTIVATION_SILU},
        {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_act\":\"gelu\",", ACTIVATION_GELU}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char text[512];
        struct model_spec s;
        struct error err = {0};
        int len = snprintf(text, sizeof text,
                           "%s\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":8,"
                           "\"vocab_size\":96,\"num_key_value_heads\":8,\"intermediate_size\":96}",
                           ROWS[i].config);
        if (spec_read_text(&s, bytes_of(text, (size_t)len), NULL, &err))
            check_fail(__FILE__, __LINE__, "%s", err.text);
        else
            EXPECT_EQ(s.layers[0].ffn.activation, ROWS[i].activation);
        spec_release(&s);
    }
}
