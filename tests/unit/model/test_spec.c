/* From config to spec: what each family takes from it, and that what we lack is refused by name. */
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "model/read/names.h"
#include "model/run/rope.h"
#include "model/spec.h"

static struct model_spec spec;
static struct error err;

#define SIZES                                                                                      \
    "\"vocab_size\":100,\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"      \
    "\"num_attention_heads\":8"
#define LLAMA "{\"architectures\":[\"LlamaForCausalLM\"]," SIZES

static int make(const char *text) {
    spec_release(&spec);
    err = (struct error){0};
    return spec_read_text(&spec, bytes_str(text), NULL, &err);
}

TEST(a_llama_config_becomes_a_table) {
    EXPECT_EQ(make(LLAMA ","
                         "\"num_key_value_heads\":2,"
                         "\"rms_norm_eps\":1e-5,"
                         "\"attention_bias\":true,"
                         "\"tie_word_embeddings\":true,"
                         "\"max_position_embeddings\":4096}"),
              0);
    const struct layer_spec *l = &spec.layers[3];
    EXPECT(spec.layer_count == 4 && spec.hidden == 64 && spec.vocab == 100 &&
           spec.max_context == 4096 && spec.tied_head);
    EXPECT(l->attention.heads == 8 && l->attention.kv_heads == 2 && l->attention.head_dim == 8 &&
           l->attention.window == 0);
    EXPECT(l->attention.qkv_bias && l->attention.out_bias && !l->ffn.bias && l->ffn.width == 96);
    EXPECT(fabsf(l->attention.scale - 0.35355339f) < 1e-7f && spec.ropes[0].kind == ROPE_DEFAULT &&
           spec.ropes[0].dims == 8 && spec.ropes[0].theta == 10000);
    spec_release(&spec);
}

TEST(absent_fields_take_the_familys_defaults) {
    EXPECT_EQ(make(LLAMA "}"), 0);
    EXPECT(spec.layers[0].attention.kv_heads == 8 && spec.max_context == 2048 && !spec.tied_head &&
           spec.final_norm.eps == 1e-6f);
    EXPECT_EQ(make("{" SIZES "}"), ERR_UNSUPPORTED);
    EXPECT_EQ(make("{\"model_type\":\"mistral\"," SIZES "}"), 0);
    EXPECT(spec.layers[0].attention.kv_heads == 8 && spec.layers[0].attention.window == 4096);
    EXPECT_EQ(make("{\"model_type\":\"mistral\",\"sliding_window\":null," SIZES "}"), 0);
    EXPECT(spec.layers[0].attention.window == 0);
    EXPECT_EQ(make("{\"model_type\":\"qwen2\",\"num_key_value_heads\":8,\"sliding_window\":32,"
                   "\"use_sliding_window\":"
                   "false," SIZES "}"),
              0);
    EXPECT(spec.layers[0].attention.qkv_bias && !spec.layers[0].attention.out_bias &&
           spec.layers[3].attention.window == 0);
    EXPECT_EQ(make("{\"model_type\":\"qwen2\",\"num_key_value_heads\":8,\"sliding_window\":32,"
                   "\"use_sliding_window\":"
                   "true,\"max_window_layers\":2," SIZES "}"),
              0);
    EXPECT(spec.layers[1].attention.window == 0 && spec.layers[2].attention.window == 32);
    spec_release(&spec);
}

/* What files need not say of states that go from position to position, as the families' configuration classes assume it:
 * the first layer that has such a state, as "width; heads of size, groups; state, taps". */
static const struct absent {
    const char *fields, *state;
} ABSENT[] = {
    {"\"model_type\":\"mamba\"", "96; 0 of 0, 0; 16, 4"},
    {"\"model_type\":\"falcon_mamba\"", "96; 0 of 0, 0; 16, 4"},
    {"\"model_type\":\"mamba2\",\"expand\":128", "8192; 128 of 64, 8; 128, 4"},
    {"\"model_type\":\"bamba\"", "128; 128 of 1, 1; 256, 4"},
    {"\"model_type\":\"jamba\"", "128; 0 of 0, 0; 16, 4"},
    {"\"model_type\":\"falcon_h1\"", "1024; 128 of 8, 1; 256, 4"},
    {"\"model_type\":\"nemotron_h\",\"hybrid_override_pattern\":\"M-M-\"",
     "128; 128 of 1, 8; 128, 4"},
    {"\"model_type\":\"granitemoehybrid\",\"num_experts_per_tok\":1,\"num_local_experts\":2",
     "128; 128 of 1, 1; 256, 4"},
    {"\"model_type\":\"recurrent_gemma\"", "64; 8 of 8, 0; 0, 4"},
    {"\"model_type\":\"qwen3_next\"", "4096; 32 of 128, 16; 128, 4"},
    {"\"model_type\":\"lfm2\",\"layer_types\":[\"conv\",\"conv\",\"conv\",\"conv\"]",
     "64; 0 of 0, 0; 0, 3"},
    {"\"model_type\":\"rwkv\"", "64; 0 of 0, 0; 0, 0"},
    {"\"model_type\":\"rwkv6\"", "64; 1 of 64, 0; 0, 0"},
    {"\"model_type\":\"rwkv7\"", "64; 1 of 64, 0; 0, 0"},
};

TEST(absent_fields_of_states_take_the_familys_defaults) {
    for (size_t i = 0; i < ARRAY_LEN(ABSENT); i++) {
        char text[300], state[100] = "none";
        snprintf(text, sizeof text, "{%s," SIZES "}", ABSENT[i].fields);
        if (make(text)) {
            check_fail(__FILE__, __LINE__, "%s: %s", ABSENT[i].fields, err.text);
            continue;
        }
        for (uint32_t k = 0; k < spec.layer_count; k++) {
            const struct recurrent_spec *s = &spec.layers[k].recurrent;
            if (!s->kind)
                continue;
            snprintf(state, sizeof state, "%u; %u of %u, %u; %u, %u", s->width, s->heads,
                     s->head_dim, s->groups, s->state_size, s->taps);
            break;
        }
        if (strcmp(state, ABSENT[i].state) != 0)
            check_fail(__FILE__, __LINE__, "%s: %s", ABSENT[i].fields, state);
    }
    EXPECT_EQ(make("{\"model_type\":\"mamba\"," SIZES "}"), 0);
    EXPECT_EQ(spec.layers[0].recurrent.mamba1.rank, 4); /* a sixteenth of the width, rounded up */
    EXPECT_EQ(make("{\"model_type\":\"rwkv7\"," SIZES "}"), 0);
    const struct rwkv7_spec *low = &spec.layers[0].recurrent.rwkv7;
    EXPECT(low->decay_low == 64 && low->rate_low == 64 && low->value_low == 16 &&
           low->gate_low == 128);
    spec_release(&spec);
}

TEST(a_list_of_layer_types_counts_more_than_a_pattern) {
    EXPECT_EQ(
        make("{\"model_type\":\"cohere2\","
             "\"sliding_window\":8,"
             "\"sliding_window_pattern\":2,"
             "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\","
             "\"full_attention\"]," SIZES "}"),
        0);
    EXPECT(!spec.layers[0].attention.window && spec.layers[2].attention.window == 8 &&
           !spec.layers[3].attention.window);
    EXPECT_EQ(
        make("{\"model_type\":\"cohere2\",\"sliding_window\":8,\"sliding_window_pattern\":2," SIZES
             "}"),
        0);
    EXPECT(spec.layers[0].attention.window == 8 && !spec.layers[1].attention.window &&
           spec.layers[2].attention.window);
    spec_release(&spec);
}

TEST(what_we_lack_is_refused_by_name) {
    static const struct {
        const char *text, *name;
        int code;
    } cases[] = {
        {"{\"architectures\":[\"XLNetLMHeadModel\"]," SIZES "}", "XLNetLMHeadModel",
         ERR_UNSUPPORTED},
        {"{\"model_type\":\"gpt9\"," SIZES "}", "gpt9", ERR_UNSUPPORTED},
        {"{" SIZES "}", "model_type", ERR_UNSUPPORTED},
        {LLAMA ",\"hidden_act\":\"wobble\"}", "hidden_act", ERR_UNSUPPORTED},
        {LLAMA ",\"rope_scaling\":{\"rope_type\":\"wave\",\"factor\":4}}", "rope_type",
         ERR_UNSUPPORTED},
        {LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":4}}", "low_freq_factor",
         ERR_INVALID},
        {LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", "factor", ERR_INVALID},
        {LLAMA ",\"rope_theta\":-1}", "rope_theta", ERR_INVALID},
        {LLAMA ",\"sliding_window\":16}", "sliding_window", ERR_UNSUPPORTED},
        {LLAMA ",\"num_key_value_heads\":3}", "num_key_value_heads", ERR_INVALID},
        {LLAMA ",\"num_key_value_heads\":16}", "num_key_value_heads", ERR_UNSUPPORTED},
        {LLAMA ",\"rms_norm_eps\":2}", "rms_norm_eps", ERR_INVALID},
        {LLAMA ",\"head_dim\":1024}", "head_dim", ERR_UNSUPPORTED},
        {LLAMA ",\"head_dim\":7}", "rotated", ERR_UNSUPPORTED},
        {"{\"model_type\":\"llama\",\"vocab_size\":100}", "hidden_size", ERR_INVALID},
        {"{\"model_type\":\"llama\","
         "\"vocab_size\":9000000000000,"
         "\"hidden_size\":64,"
         "\"intermediate_size\":96,"
         "\"num_hidden_layers\":4,"
         "\"num_attention_heads\":8}",
         "vocab_size", ERR_UNSUPPORTED},
        {"{\"model_type\":\"llama\","
         "\"vocab_size\":10,"
         "\"hidden_size\":65,"
         "\"intermediate_size\":96,"
         "\"num_hidden_layers\":4,"
         "\"num_attention_heads\":8}",
         "hidden_size", ERR_INVALID},
        {"{\"model_type\":\"mistral\",\"attention_bias\":true," SIZES "}", "attention_bias",
         ERR_UNSUPPORTED},
        {"{\"model_type\":\"qwen2\",\"num_key_value_heads\":8,\"mlp_bias\":true," SIZES "}",
         "mlp_bias", ERR_UNSUPPORTED},
        {LLAMA ",\"layer_types\":[\"sliding_attention\",\"full_attention\",\"full_attention\","
               "\"full_attention\"]}",
         "layer_types", ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = make(cases[i].text);
        if (rc != cases[i].code || !strstr(err.text, cases[i].name))
            check_fail(__FILE__, __LINE__, "%s: code %d, '%s'", cases[i].text, rc, err.text);
    }
    spec_release(&spec);
}

/* Llama 3.1's own parameters; the values are those its reference gives (double precision of the
 * published formula). */
TEST(llama3_scaling_leaves_high_frequencies_and_divides_low_ones) {
    float f[64];
    struct rope_spec rope = {.kind = ROPE_LLAMA3,
                             .dims = 128,
                             .theta = 500000,
                             .factor = 8,
                             .low_freq_factor = 1,
                             .high_freq_factor = 4,
                             .original_context = 8192};
    rope_inv_freq(&rope, 1, f);
    for (int i = 0; i < 64; i++) {
        double plain = pow(500000, -2.0 * i / 128), wave = 2 * 3.14159265358979323846 / plain;
        if (wave < 2048)
            EXPECT(fabs(f[i] / plain - 1) < 2e-7);
        else if (wave > 8192)
            EXPECT(fabs(f[i] / (plain / 8) - 1) < 2e-7);
        else
            EXPECT(f[i] > plain / 8 && f[i] < plain);
    }
    rope = (struct rope_spec){.kind = ROPE_LINEAR, .dims = 4, .theta = 100, .factor = 4};
    rope_inv_freq(&rope, 1, f);
    EXPECT(f[0] == 0.25f && f[1] == 0.025f);
}

/* A sequence of exactly the original context is a short one. */
TEST(tables_for_long_sequences_begin_behind_the_original_context) {
    float f[2], short_factor[] = {1, 2}, long_factor[] = {4, 8};
    struct rope_spec rope = {.kind = ROPE_LONG,
                             .dims = 4,
                             .theta = 100,
                             .original_context = 8,
                             .short_factor = short_factor,
                             .long_factor = long_factor};
    rope_inv_freq(&rope, 8, f);
    EXPECT(f[0] == 1 && f[1] == 0.05f);
    rope_inv_freq(&rope, 9, f);
    EXPECT(f[0] == 0.25f && f[1] == 0.0125f);
    rope = (struct rope_spec){
        .kind = ROPE_DYNAMIC, .dims = 4, .theta = 100, .factor = 2, .original_context = 8};
    rope_inv_freq(&rope, 8, f);
    EXPECT(f[0] == 1 && f[1] == 0.1f);
    rope_inv_freq(&rope, 9, f); /* theta * (2 * 9 / 8 - 1)^(4 / 2) */
    EXPECT(f[0] == 1 && fabsf(f[1] - 0.08f) < 1e-8f);
    struct model_spec model = {.max_context = 8, .rope_count = 1, .ropes = {rope}};
    EXPECT(!spec_depends_on_length(&model));
    model.max_context = 9;
    EXPECT(spec_depends_on_length(&model));
}

/* Peng et al. 2023: the ramp goes from the dimension that turns beta_fast times to the one that
 * turns beta_slow times, and not past the first and the last. */
TEST(yarns_ramp_ends_at_the_first_and_the_last_dimension) {
    float f[4];
    struct rope_spec rope = {.kind = ROPE_YARN,
                             .dims = 8,
                             .theta = 10000,
                             .factor = 4,
                             .beta_fast = 32,
                             .beta_slow = 1,
                             .original_context = 32};
    rope_inv_freq(&rope, 1, f); /* from floor(-0.8), so 0, to ceil(0.7) */
    EXPECT(f[0] == 1 && fabs(f[1] / 0.1 * 4 - 1) < 1e-6);
    rope.theta = 10; /* from floor(0.8) to ceil(20.8), so 7 */
    rope.original_context = 1e6;
    rope.beta_fast = 1e5;
    rope_inv_freq(&rope, 1, f);
    for (int i = 0; i < 4; i++)
        EXPECT(fabs(f[i] / (pow(10, -i / 4.0) * (i / 7.0 / 4 + (7 - i) / 7.0)) - 1) < 1e-6);
}

/* Of three dimensions the last turns alone, and a power of theta counts thirds. */
TEST(an_odd_count_of_rotated_dimensions_is_rounded_up) {
    float f[2];
    EXPECT_EQ(make(LLAMA ",\"partial_rotary_factor\":0.375}"), 0);
    EXPECT(spec.ropes[0].dims == 4 && spec.ropes[0].odd);
    rope_inv_freq(&spec.ropes[0], 1, f);
    EXPECT(f[0] == 1 && fabs(f[1] / pow(10000, -2.0 / 3) - 1) < 1e-6);
    EXPECT_EQ(make(LLAMA ",\"partial_rotary_factor\":0.875}"), 0);
    EXPECT(spec.ropes[0].dims == 8 && spec.ropes[0].odd);
    EXPECT_EQ(make(LLAMA ",\"partial_rotary_factor\":0.25}"), 0);
    EXPECT(spec.ropes[0].dims == 2 && !spec.ropes[0].odd);
    EXPECT(make(LLAMA ",\"partial_rotary_factor\":0.1}"));
    EXPECT(make(LLAMA ",\"head_dim\":7}"));
}

/* Queries at positions behind the first context may be scaled: by numbers that are in range. */
TEST(scales_of_queries_are_in_range) {
    static const struct {
        const char *beta, *original;
        bool good;
    } ROWS[] = {{"0.1", "8192", true},        {"0.1", "1", true},
                {"0.1", "0.5", false},        {"-0.1", "2147483646", true},
                {"0.1", "2147483647", false}, {"999999", "8192", true},
                {"1e6", "8192", false},       {"-1e6", "8192", false}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char text[400];
        snprintf(
            text, sizeof text,
            "{\"model_type\":\"ministral3\",\"max_position_embeddings\":16384,\"rope_parameters\":{"
            "\"rope_type\":\"default\",\"rope_theta\":10000,\"llama_4_scaling_beta\":%s,"
            "\"original_max_position_embeddings\":%s}," SIZES "}",
            ROWS[i].beta, ROWS[i].original);
        if (make(text) != (ROWS[i].good ? 0 : ERR_INVALID))
            check_fail(__FILE__, __LINE__, "row %zu: %s", i, err.text);
    }
    spec_release(&spec);
}

/* The field says what is left out. */
TEST(a_last_norm_may_be_removed) {
#define OPT "{\"model_type\":\"opt\",\"ffn_dim\":96,\"word_embed_proj_dim\":64," SIZES
    EXPECT_EQ(make(OPT "}"), 0);
    EXPECT(spec.final_norm.kind == NORM_LAYER);
    EXPECT_EQ(make(OPT ",\"_remove_final_layer_norm\":true}"), 0);
    EXPECT(spec.final_norm.kind == NORM_NONE);
    spec_release(&spec);
}

/* As many labels as are named, else two; one at least and SPEC_LABELS_MAX at most. */
TEST(a_classifier_has_labels_within_bounds) {
#define SCORES                                                                                     \
    "{\"architectures\":[\"BertForSequenceClassification\"],\"model_type\":\"bert\"," SIZES
    char text[1024];
    static const struct {
        int64_t told;
        bool good;
    } ROWS[] = {{1, true},  {2, true},  {SPEC_LABELS_MAX, true}, {SPEC_LABELS_MAX + 1, false},
                {0, false}, {-1, false}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        snprintf(text, sizeof text, SCORES ",\"num_labels\":%lld}", (long long)ROWS[i].told);
        EXPECT_EQ(make(text), ROWS[i].good ? 0 : ERR_INVALID);
        if (ROWS[i].good)
            EXPECT_EQ(spec.score.label_count, ROWS[i].told);
        else
            EXPECT(err.text[0]);
    }
    EXPECT_EQ(make(SCORES "}"), 0);
    EXPECT_EQ(spec.score.label_count, 2);
    EXPECT_EQ(make(SCORES ",\"num_labels\":5,\"id2label\":{\"0\":\"no\"}}"), 0);
    EXPECT_EQ(spec.score.label_count, 1);
    EXPECT_EQ(make(SCORES ",\"num_labels\":5,\"id2label\":{}}"), 0);
    EXPECT_EQ(spec.score.label_count, 5);
    spec_release(&spec);
}

TEST(the_inverse_of_the_layers_number_scales_attention) {
    EXPECT_EQ(make("{\"model_type\":\"gpt2\",\"vocab_size\":100,\"n_embd\":64,\"n_layer\":3,"
                   "\"n_head\":4,\"n_positions\":32,\"scale_attn_by_inverse_layer_idx\":true}"),
              0);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT(spec.layers[i].attention.scale == 0.25f / (float)(i + 1));
    spec_release(&spec);
}

TEST(names_have_the_layers_number_and_old_buffers_are_known) {
    char name[TENSOR_NAME_MAX];
    role_name(&LLAMA_NAMES, NULL, ROLE_DOWN, 31, name);
    EXPECT_STR(name, "model.layers.31.mlp.down_proj.weight");
    role_name(&LLAMA_NAMES, NULL, ROLE_HEAD, 0, name);
    EXPECT_STR(name, "lm_head.weight");
    EXPECT(name_is_ignored(&LLAMA_NAMES, NULL, "model.layers.12.self_attn.rotary_emb.inv_freq"));
    EXPECT(!name_is_ignored(&LLAMA_NAMES, NULL, "model.layers.x.self_attn.rotary_emb.inv_freq") &&
           !name_is_ignored(&LLAMA_NAMES, NULL, "model.layers.1.mlp.extra"));
}
