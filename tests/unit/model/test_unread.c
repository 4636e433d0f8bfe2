/* Fields of config.json that nobody reads: what tools leave behind is passed over and named, what may
 * be mathematics is refused by name. */
#include <stdio.h>

#include "check.h"
#include "model/spec.h"

static struct error err;
static char unread[512];

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":4,\"vocab_size\":96,"      \
    "\"max_position_embeddings\":64"
#define LLAMA "\"architectures\":[\"LlamaForCausalLM\"],\"intermediate_size\":96," SIZES

static int read_fields(const char *base, const char *more, bool strict) {
    char text[2048];
    struct model_spec spec;
    snprintf(text, sizeof text, "{%s%s%s}", base, *more ? "," : "", more);
    err = (struct error){0};
    int rc = spec_read_text(&spec, bytes_str(text), &(struct spec_options){.strict = strict}, &err);
    *unread = 0;
    if (!rc) {
        snprintf(unread, sizeof unread, "%s", spec.unread ? spec.unread : "");
        spec_release(&spec);
    }
    return rc;
}

/* As fine-tuning tools, quantizers, converters and servers write them. */
TEST(what_tools_leave_behind_is_passed_over) {
    static const char *const FIELDS[] = {
        /* unsloth, trl, axolotl, LLaMA-Factory, torchtune */
        "\"unsloth_fixed\":true",
        "\"unsloth_version\":\"2025.3.1\"",
        "\"use_cache\":false",
        "\"max_seq_length\":2048",
        "\"neftune_noise_alpha\":5",
        "\"gradient_checkpointing\":true",
        "\"gradient_checkpointing_kwargs\":{\"use_reentrant\":false}",
        "\"use_liger\":true",
        "\"tokenizer_model_max_length\":4096",
        "\"tokenizer_padding_side\":\"right\"",
        "\"padding_side\":\"left\"",
        "\"lora_alpha\":16",
        "\"lora_r\":8",
        "\"lora_dropout\":0.05",
        "\"peft_type\":\"LORA\"",
        "\"base_model_name\":\"x/y\"",
        "\"merge_method\":\"slerp\"",
        "\"model_parallel_size\":null",
        "\"train_batch_size\":4",
        "\"initializer_gain\":1.5",
        "\"rms_norm_init\":1",
        "\"end_token_id\":2",
        "\"tensor_parallel_degree\":8",
        "\"special_tokens_map\":{\"a\":1}",
        /* quantizers, converters, other servers */
        "\"quantized_by\":\"somebody\"",
        "\"mlx_lm\":{\"version\":\"0.20\"}",
        "\"awq_version\":\"gemm\"",
        "\"exl2_bpw\":4.5",
        "\"gguf_file\":\"m.gguf\"",
        "\"onnx_export\":true",
        "\"prompt_format\":\"chatml\"",
        "\"license\":\"apache-2.0\"",
        "\"_experimental\":{\"rope\":1}",
        "\"keys_to_ignore_at_inference\":[\"past_key_values\"]",
        /* of another family, which this one's reference ignores */
        "\"n_inner\":null",
        "\"d_kv\":64",
        "\"encoder_layers\":6",
        "\"num_labels\":2",
        "\"type_vocab_size\":2",
    };
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++)
        if (read_fields(LLAMA, FIELDS[i], false))
            check_fail(__FILE__, __LINE__, "%s: %s", FIELDS[i], err.text);
    EXPECT_EQ(read_fields(LLAMA, "\"lora_r\":8,\"d_kv\":64,\"use_cache\":true", false), 0);
    EXPECT_STR(unread, "lora_r, d_kv");
    EXPECT_EQ(read_fields(LLAMA, "\"lora_r\":8,\"d_kv\":64", true), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "lora_r"));
}

TEST(what_may_be_mathematics_is_refused_by_name) {
    static const char *const FIELDS[] = {
        "attn_logit_softcapping\":30.0",
        "final_logit_softcapping\":30.0",
        "local_window_size\":128",
        "clip_hidden\":8",
        "alibi\":true",
        "use_qk_norm\":true",
        "embedding_multiplier\":12",
        "logits_scaling\":16",
        "residual_scale\":0.5",
        "rope_wobble\":2",
        "yarn_attn_factor\":1.2",
        "attention_sinks\":4",
        "num_experts\":8",
        "moe_top_k\":2",
        "swiglu_limit\":7.0",
        "attention_chunk_size\":8192",
        "attn_output_gate\":true",
        "query_temper\":0.1",
        "parallel_attn\":true",
        "kv_bias\":true",
        "norm_after\":true",
    };
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++) {
        char more[128], name[64];
        snprintf(more, sizeof more, "\"%s", FIELDS[i]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(FIELDS[i], "\""), FIELDS[i]);
        if (read_fields(LLAMA, more, false) != ERR_UNSUPPORTED || !strstr(err.text, name))
            check_fail(__FILE__, __LINE__, "%s: '%s'", FIELDS[i], err.text);
    }
    EXPECT_EQ(read_fields(LLAMA,
                          "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2,\"wobble\":1}",
                          false),
              ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "wobble"));
}

TEST(mathematics_with_a_value_that_changes_nothing_is_passed_over) {
    EXPECT_EQ(read_fields(LLAMA,
                          "\"embedding_multiplier\":1.0,\"clip_hidden\":0,\"num_experts\":0,"
                          "\"alibi\":false,\"attention_chunk_size\":null",
                          false),
              0);
    EXPECT_STR(unread, "embedding_multiplier, clip_hidden, num_experts");
}

/* Factors change nothing when they are 1, all else when it is 0; any other number does. */
TEST(each_word_of_mathematics_has_its_neutral_number) {
    static const char *const FACTORS[] = {"divisor",     "factor", "multiplier",
                                          "multipliers", "scale",  "scaling"},
                             *const OTHERS[] = {
                                 "act",         "alibi",    "bias",    "cap",     "capping",
                                 "causal",      "chunk",    "clip",    "conv",    "eps",
                                 "expert",      "experts",  "gate",    "gated",   "gating",
                                 "layernorm",   "ln",       "mask",    "moe",     "mrope",
                                 "mup",         "norm",     "norms",   "ntk",     "parallel",
                                 "qk",          "residual", "rmsnorm", "rope",    "rotary",
                                 "router",      "sink",     "sinks",   "sliding", "softcap",
                                 "softcapping", "softmax",  "swiglu",  "temper",  "theta",
                                 "topk",        "window",   "yarn"};
    for (size_t i = 0; i < ARRAY_LEN(FACTORS) + ARRAY_LEN(OTHERS); i++) {
        bool factor = i < ARRAY_LEN(FACTORS);
        const char *word = factor ? FACTORS[i] : OTHERS[i - ARRAY_LEN(FACTORS)];
        for (int value = 0; value <= 2; value++) {
            char field[64];
            snprintf(field, sizeof field, "\"wobble_%s\":%d", word, value);
            bool passed = read_fields(LLAMA, field, false) == 0;
            if (passed != (value == (factor ? 1 : 0)))
                check_fail(__FILE__, __LINE__, "%s is %s", field,
                           passed ? "passed over" : "refused");
        }
    }
}

/* transformers knows these only by the family's own name. */
TEST(a_common_name_that_the_reference_ignores_is_not_taken) {
    static const struct {
        const char *base;
        uint32_t width;
    } CASES[] = {
        {"\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":64,\"n_layer\":1,\"n_head\":4,"
         "\"vocab_size\":96,\"n_positions\":64",
         256},
        {"\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":64,\"n_layer\":1,\"n_head\":4,"
         "\"vocab_size\":96,\"n_positions\":64,\"n_inner\":80",
         80},
        {"\"architectures\":[\"OPTForCausalLM\"],\"ffn_dim\":80," SIZES, 80},
        {"\"architectures\":[\"BloomForCausalLM\"],\"n_layer\":1,\"n_head\":4,\"hidden_size\":64,"
         "\"vocab_size\":96",
         256},
        {"\"architectures\":[\"FalconForCausalLM\"],\"alibi\":false," SIZES, 256},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char text[1024];
        struct model_spec spec;
        snprintf(text, sizeof text, "{%s,\"intermediate_size\":99,\"num_key_value_heads\":2}",
                 CASES[i].base);
        if (spec_read_text(&spec, bytes_str(text), NULL, &err)) {
            check_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
            continue;
        }
        EXPECT_EQ(spec.layers[0].ffn.width, CASES[i].width);
        EXPECT(spec.unread && strstr(spec.unread, "intermediate_size"));
        spec_release(&spec);
    }
}

#define OLMO3                                                                                      \
    "\"architectures\":[\"Olmo3ForCausalLM\"],\"intermediate_size\":96,\"sliding_window\":16,"     \
    "\"layer_types\":[\"sliding_attention\",\"full_attention\"],\"num_hidden_layers\":2,"          \
    "\"hidden_size\":64,\"num_attention_heads\":4,\"vocab_size\":96,"                              \
    "\"max_position_embeddings\":64"

/* transformers puts the flat one there itself and reads those of the layer types. */
TEST(a_flat_theta_beside_tables_for_layer_types_is_passed_over) {
    static const char *const TABLES[] = {
        "\"rope_theta\":7,\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":1e4,"
        "\"rope_type\":\"default\"},\"full_attention\":{\"rope_theta\":5e5,\"rope_type\":"
        "\"default\"}}",
        "\"rope_parameters\":{\"rope_theta\":7,\"rope_type\":\"default\",\"sliding_attention\":{"
        "\"rope_theta\":1e4,\"rope_type\":\"default\"},\"full_attention\":{\"rope_theta\":5e5,"
        "\"rope_type\":\"default\"}}"};
    for (size_t i = 0; i < ARRAY_LEN(TABLES); i++) {
        char text[1024];
        struct model_spec spec;
        snprintf(text, sizeof text, "{%s,%s}", OLMO3, TABLES[i]);
        EXPECT_EQ(spec_read_text(&spec, bytes_str(text), NULL, &err), 0);
        double windowed = spec.ropes[spec.layers[0].attention.rope_idx].theta,
               full = spec.ropes[spec.layers[1].attention.rope_idx].theta;
        spec_release(&spec);
        EXPECT(windowed == 1e4 && full == 5e5);
    }
    EXPECT_EQ(read_fields(OLMO3,
                          "\"rope_parameters\":{\"rope_theta\":7,\"sliding_attention\":{"
                          "\"rope_type\":\"default\"},\"full_attention\":{\"rope_type\":"
                          "\"default\"}}",
                          false),
              ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "rope_theta"));
}

/* Widths that are not the usual multiple of the hidden size. */
TEST(widths_of_their_own_are_read) {
    struct model_spec spec;
    EXPECT_EQ(spec_read_text(&spec,
                             bytes_str("{\"architectures\":[\"MptForCausalLM\"],\"d_model\":64,"
                                       "\"n_heads\":4,\"n_layers\":1,\"vocab_size\":96,"
                                       "\"expansion_ratio\":3}"),
                             NULL, &err),
              0);
    EXPECT_EQ(spec.layers[0].ffn.width, 192);
    spec_release(&spec);
    static const char *const MAMBAS[] = {"MambaForCausalLM", "FalconMambaForCausalLM"};
    for (size_t i = 0; i < ARRAY_LEN(MAMBAS); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"architectures\":[\"%s\"],\"hidden_size\":64,\"num_hidden_layers\":1,"
                 "\"vocab_size\":96,\"expand\":2,\"intermediate_size\":192}",
                 MAMBAS[i]);
        EXPECT_EQ(spec_read_text(&spec, bytes_str(text), NULL, &err), 0);
        EXPECT_EQ(spec.layers[0].recurrent.width, 192);
        spec_release(&spec);
    }
}
