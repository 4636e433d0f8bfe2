/* What a config says of attention, layer by layer: who rotates, windows, chunks, heads, scales; and the width
 * of what feeds forward. */
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "model/run/rope.h"
#include "model/spec.h"

static struct model_spec spec;
static struct error err;

/* A model of four layers, 64 wide, with eight heads; `fields` may be any more. */
static int make(const char *type, const char *fields) {
    char text[700];
    spec_release(&spec);
    err = (struct error){0};
    snprintf(text, sizeof text,
             "{\"model_type\":\"%s\",\"vocab_size\":100,\"hidden_size\":64,\"num_hidden_layers\":4,"
             "\"num_attention_heads\":8,\"num_key_value_heads\":8,\"head_dim\":8%s%s}",
             type, *fields ? "," : "", fields);
    return spec_read_text(&spec, bytes_str(text), NULL, &err);
}

static const struct attention_spec *attention(uint32_t layer) {
    return &spec.layers[layer].attention;
}

/* Each layer: r where it rotates, n where not; then its window, and its chunk where there is one. */
static const char *layers(void) {
    static char out[200];
    size_t len = 0;
    for (uint32_t i = 0; i < spec.layer_count; i++) {
        const struct attention_spec *a = attention(i);
        bool rotates = spec.ropes[a->rope_idx].kind != ROPE_NONE;
        len += (size_t)snprintf(out + len, sizeof out - len, "%s%c%u", i ? " " : "",
                                rotates ? 'r' : 'n', a->window);
        if (a->chunk)
            len += (size_t)snprintf(out + len, sizeof out - len, "/%u", a->chunk);
    }
    return out;
}

#define FFN          "\"intermediate_size\":96"
#define TYPES(a, b)  "\"layer_types\":[\"" a "\",\"" b "\",\"" a "\",\"" b "\"]"
#define NO_ROPE(...) FFN ",\"no_rope_layers\":[" #__VA_ARGS__ "]"

TEST(layers_rotate_and_look_back_as_the_family_says) {
    static const struct {
        const char *type, *fields, *layers; /* layers: or a part of the refusal, behind '!' */
    } ROWS[] = {
        {"llama", FFN, "r0 r0 r0 r0"},
        {"smollm3", FFN, "r0 r0 r0 n0"},
        {"smollm3", FFN ",\"no_rope_layer_interval\":2", "r0 n0 r0 n0"},
        {"smollm3", FFN ",\"no_rope_layer_interval\":0", "r0 r0 r0 r0"},
        {"smollm3", NO_ROPE(1, 0, 1, 0), "r0 n0 r0 n0"},
        {"smollm3", NO_ROPE(0, 1, 1, 1), "n0 r0 r0 r0"},
        {"smollm3", NO_ROPE(), "r0 r0 r0 n0"},
        {"smollm3", NO_ROPE(1, 0, 1), "!'no_rope_layers'"},
        {"smollm3", NO_ROPE(1, 0, 1, "0"), "!'no_rope_layers'"},
        {"smollm3", FFN ",\"sliding_window\":8", "r0 r0 r0 n0"},
        {"smollm3", FFN ",\"sliding_window\":8,\"use_sliding_window\":true", "r0 r0 r0 n8"},
        {"smollm3",
         FFN ",\"sliding_window\":8,\"use_sliding_window\":true," TYPES("sliding_attention",
                                                                        "full_attention"),
         "r8 r0 r8 n0"},
        {"cohere2", FFN ",\"sliding_window\":8", "r8 r8 r8 n0"},
        {"cohere2", FFN ",\"sliding_window\":8,\"sliding_window_pattern\":2", "r8 n0 r8 n0"},
        {"cohere2", FFN ",\"sliding_window\":8,\"sliding_window_pattern\":0", "n0 n0 n0 n0"},
        {"exaone4", FFN ",\"sliding_window\":8", "r8 r8 r8 n0"},
        {"exaone4", FFN ",\"sliding_window\":null", "r0 r0 r0 r0"},
        {"exaone4", FFN ",\"sliding_window\":8,\"sliding_window_pattern\":\"LG\"", "r8 n0 r8 n0"},
        {"exaone4", FFN ",\"sliding_window\":8,\"sliding_window_pattern\":\"\"", "n0 n0 n0 n0"},
        {"cwm", FFN ",\"sliding_window\":8", "r0 r8 r8 r8"},
        {"gpt_oss", "\"intermediate_size\":96,\"sliding_window\":8", "r8 r0 r8 r0"},
        {"qwen2", FFN ",\"sliding_window\":8,\"max_window_layers\":2", "r0 r0 r0 r0"},
        {"qwen2", FFN ",\"sliding_window\":8,\"max_window_layers\":2,\"use_sliding_window\":true",
         "r0 r0 r8 r8"},
        {"qwen2", FFN ",\"sliding_window\":8,\"use_sliding_window\":true", "r0 r0 r0 r0"},
        {"qwen2", FFN ",\"use_sliding_window\":true," TYPES("sliding_attention", "wide_attention"),
         "!'layer_types'"},
        {"mistral", FFN ",\"sliding_window\":8", "r8 r8 r8 r8"},
        {"mistral", FFN ",\"sliding_window\":8," TYPES("sliding_attention", "full_attention"),
         "!'layer_types'"},
        {"llama", FFN ",\"use_sliding_window\":true", "!'use_sliding_window'"},
        {"cohere2", FFN ",\"sliding_window\":null," TYPES("sliding_attention", "full_attention"),
         "!'sliding_window' is missing"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        int rc = make(ROWS[i].type, ROWS[i].fields);
        const char *want = ROWS[i].layers;
        bool good =
            *want == '!' ? rc && strstr(err.text, want + 1) : !rc && !strcmp(layers(), want);
        if (!good)
            check_fail(__FILE__, __LINE__, "%s %s: %s", ROWS[i].type, ROWS[i].fields,
                       rc ? err.text : layers());
    }
    spec_release(&spec);
}

/* Half of the window lies on either side of a position, and the first and each third layer see all. */
TEST(windows_of_encoders_reach_both_ways) {
    EXPECT_EQ(make("modernbert", FFN ",\"local_attention\":8"), 0);
    EXPECT_STR(layers(), "r0 r5 r5 r0");
    EXPECT(spec.bidirectional && spec.window_ahead == 4);
    EXPECT_EQ(make("modernbert", FFN ",\"local_attention\":9,\"global_attn_every_n_layers\":2"), 0);
    EXPECT_STR(layers(), "r0 r5 r0 r5");
    EXPECT_EQ(spec.window_ahead, 4);
    spec_release(&spec);
}

#define LLAMA4 "\"num_local_experts\":2,\"intermediate_size\":96,\"intermediate_size_mlp\":96,"

TEST(chunks_and_tempered_queries_of_llama_4) {
    EXPECT_EQ(make("llama4_text", LLAMA4 "\"attention_chunk_size\":16"), 0);
    EXPECT_STR(layers(), "r0/16 r0/16 r0/16 n0");
    EXPECT(attention(2)->temperature == 0 && attention(3)->temperature == 0.1f);
    EXPECT(attention(3)->temperature_floor == 8192 && attention(3)->temperature_offset == 1);
    EXPECT_EQ(make("llama4_text", LLAMA4
                   "\"attention_chunk_size\":16," TYPES("full_attention", "chunked_attention")),
              0);
    EXPECT_STR(layers(), "r0 r0/16 r0 n0/16");
    static const struct {
        const char *fields, *why; /* NULL: it is taken */
        bool tempered;
    } ROWS[] = {
        {"\"attn_temperature_tuning\":false", NULL, false},
        {"\"attn_temperature_tuning\":4", NULL, true},
        {"\"attn_temperature_tuning\":0", NULL, false},
        {"\"floor_scale\":1", NULL, true},
        {"\"floor_scale\":0.5", "'floor_scale'", false},
        {"\"floor_scale\":0.5,\"attn_temperature_tuning\":false", NULL, false},
        {"\"attention_chunk_size\":4294967295", NULL, true},
        {"\"attention_chunk_size\":4294967296", "'attention_chunk_size'", false},
        {"\"attention_chunk_size\":-1", "'attention_chunk_size'", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char fields[300];
        snprintf(fields, sizeof fields, LLAMA4 "%s", ROWS[i].fields);
        int rc = make("llama4_text", fields);
        if ((rc != 0) != (ROWS[i].why != NULL) || (rc && !strstr(err.text, ROWS[i].why)))
            check_fail(__FILE__, __LINE__, "%s: %d '%s'", ROWS[i].fields, rc, rc ? err.text : "");
        else if (!rc)
            EXPECT_EQ(attention(3)->temperature > 0, ROWS[i].tempered);
    }
    spec_release(&spec);
}

TEST(heads_and_scales_of_attention) {
    EXPECT_EQ(make("falcon", ""), 0);
    EXPECT(attention(0)->heads == 8 && attention(0)->kv_heads == 1);
    EXPECT_EQ(spec.layers[0].ffn.width, 256);
    EXPECT_EQ(make("falcon", "\"multi_query\":false"), 0);
    EXPECT_EQ(attention(0)->kv_heads, 8);
    EXPECT_EQ(make("falcon", "\"new_decoder_architecture\":true,\"num_kv_heads\":2"), 0);
    EXPECT_EQ(attention(0)->kv_heads, 2);
    EXPECT_EQ(make("granite", FFN ",\"attention_multiplier\":0.5"), 0);
    EXPECT(attention(0)->scale == 0.5f);
    EXPECT(make("granite", FFN ",\"attention_multiplier\":0") && strstr(err.text, "scale"));
    EXPECT_EQ(make("gemma2", FFN ",\"query_pre_attn_scalar\":16"), 0);
    EXPECT(attention(0)->scale == 0.25f);
    EXPECT(make("gemma2", FFN ",\"query_pre_attn_scalar\":0") && strstr(err.text, "scale"));
    EXPECT_EQ(make("gpt2", "\"scale_attn_weights\":false"), 0);
    EXPECT(attention(0)->scale == 1);
    EXPECT_STR(layers(), "n0 n0 n0 n0");
    EXPECT_EQ(make("mpt", "\"attn_config\":{\"alibi\":true,\"clip_qkv\":6,\"softmax_scale\":0.5},"
                          "\"expansion_ratio\":3"),
              0);
    EXPECT(attention(0)->clip == 6 && attention(0)->scale == 0.5f && attention(0)->alibi);
    EXPECT_EQ(spec.layers[0].ffn.width, 192);
    EXPECT(make("mpt", "\"attn_config\":{\"alibi\":true},\"expansion_ratio\":100000000") &&
           strstr(err.text, "'expansion_ratio'"));
    spec_release(&spec);
}

/* Two thirds of the width, times a factor, rounded up to a multiple. */
TEST(widths_of_lfm2_are_adjusted) {
    static const struct {
        const char *fields;
        uint32_t width; /* 0: refused */
    } ROWS[] = {
        {"\"intermediate_size\":96", 256},
        {"\"intermediate_size\":384", 256},
        {"\"intermediate_size\":385", 256},
        {"\"intermediate_size\":386", 512},
        {"\"intermediate_size\":96,\"block_multiple_of\":10", 70},
        {"\"intermediate_size\":96,\"block_multiple_of\":64", 64},
        {"\"intermediate_size\":96,\"block_multiple_of\":10,\"block_ffn_dim_multiplier\":1.5", 100},
        {"\"intermediate_size\":96,\"block_auto_adjust_ff_dim\":false", 96},
        {"\"intermediate_size\":96,\"block_ffn_dim_multiplier\":0", 0},
        {"\"intermediate_size\":96,\"block_ffn_dim_multiplier\":10000", 0},
        {"\"intermediate_size\":96,\"block_ffn_dim_multiplier\":0,\"block_auto_adjust_ff_dim\":"
         "false",
         96},
        {"\"intermediate_size\":1,\"block_multiple_of\":1", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char fields[300];
        snprintf(fields, sizeof fields, "%s," TYPES("full_attention", "full_attention"),
                 ROWS[i].fields);
        int rc = make("lfm2", fields);
        uint32_t width = rc ? 0 : spec.layers[0].ffn.width;
        if (width != ROWS[i].width || (rc && !strstr(err.text, "is out of range")))
            check_fail(__FILE__, __LINE__, "%s: %u %s", ROWS[i].fields, width, rc ? err.text : "");
    }
    spec_release(&spec);
}

/* One option of a rotary table each. */
TEST(rotary_options_are_within_bounds) {
    static const struct {
        const char *fields, *why; /* NULL: it is taken */
    } ROWS[] = {
        {"\"rope_theta\":1", NULL},
        {"\"rope_theta\":0.5", "'rope_theta'"},
        {"\"rope_theta\":1e12", NULL},
        {"\"rope_theta\":1.1e12", "'rope_theta'"},
        {"\"partial_rotary_factor\":1", NULL},
        {"\"partial_rotary_factor\":1.01", "'partial_rotary_factor'"},
        {"\"partial_rotary_factor\":0", "'partial_rotary_factor'"},
        {"\"partial_rotary_factor\":0.1", "0 rotated dimensions of 8"},
        {"\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":1}", NULL},
        {"\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":0.99}", "'factor'"},
        {"\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":1e6}", NULL},
        {"\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":1000001}", "'factor'"},
        {"\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":4,\"low_freq_factor\":1,"
         "\"high_freq_factor\":1,\"original_max_position_embeddings\":1}",
         NULL},
        {"\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":4,\"low_freq_factor\":2,"
         "\"high_freq_factor\":1,\"original_max_position_embeddings\":1}",
         "out of order"},
        {"\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":4,\"low_freq_factor\":1,"
         "\"high_freq_factor\":1,\"original_max_position_embeddings\":0}",
         "out of order"},
        {"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"beta_fast\":-1}", "'beta_fast'"},
        {"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"beta_slow\":-1}", "'beta_fast'"},
        {"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"attention_factor\":-1}",
         "'attention_factor'"},
        {"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"attn_factor\":0}",
         "'attn_factor'"},
        {"\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2,\"short_factor\":[1,1,1,1],"
         "\"long_factor\":[1,1,1,1]}",
         NULL},
        {"\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2,\"short_factor\":[1,1,1],"
         "\"long_factor\":[1,1,1,1]}",
         "'short_factor' has 3 numbers, not 4"},
        {"\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2,\"short_factor\":[1,1,1,1],"
         "\"long_factor\":[1,1,1,1,1]}",
         "'long_factor' has 5 numbers, not 4"},
        {"\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2,\"short_factor\":[0,1,1,1],"
         "\"long_factor\":[1,1,1,1]}",
         "'short_factor' is out of range"},
        {"\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2,\"short_factor\":[1,1,1,1],"
         "\"long_factor\":[1,1,1,-1]}",
         "'long_factor' is out of range"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char fields[400];
        snprintf(fields, sizeof fields, FFN ",\"max_position_embeddings\":4096,%s", ROWS[i].fields);
        int rc = make("llama", fields);
        if ((rc != 0) != (ROWS[i].why != NULL) || (rc && !strstr(err.text, ROWS[i].why)))
            check_fail(__FILE__, __LINE__, "%s: %d '%s'", ROWS[i].fields, rc, rc ? err.text : "");
    }
    spec_release(&spec);
}

TEST(rotary_options_say_how_tables_are_made) {
#define SCALED(type, more)                                                                         \
    FFN ",\"max_position_embeddings\":4096,\"rope_scaling\":{\"rope_type\":\"" type "\"" more "}"
    const struct rope_spec *rope = &spec.ropes[0];
    EXPECT_EQ(make("llama", SCALED("yarn", ",\"original_max_position_embeddings\":1024")), 0);
    EXPECT(rope->kind == ROPE_YARN && rope->factor == 4 && rope->original_context == 1024);
    EXPECT(rope->beta_fast == 32 && rope->beta_slow == 1 && !rope->no_truncate);
    EXPECT(fabs(rope->scale - (0.1 * log(4) + 1)) < 1e-12);
    EXPECT_EQ(make("llama", SCALED("yarn", ",\"factor\":4,\"beta_fast\":0,\"beta_slow\":0,"
                                           "\"truncate\":false,\"mscale\":1,\"mscale_all_dim\":2")),
              0);
    EXPECT(rope->beta_fast == 32 && rope->beta_slow == 1 && rope->no_truncate);
    EXPECT(fabs(rope->scale - (0.1 * log(4) + 1) / (0.2 * log(4) + 1)) < 1e-12);
    EXPECT_EQ(make("llama", SCALED("yarn", ",\"factor\":1")), 0);
    EXPECT(rope->scale == 1);
    EXPECT_EQ(make("llama", SCALED("yarn", ",\"factor\":4,\"attention_factor\":1.5")), 0);
    EXPECT(rope->scale == 1.5);
    EXPECT_EQ(make("llama", SCALED("yarn", ",\"factor\":4,\"attn_factor\":0.5")), 0);
    EXPECT(fabs(rope->scale - 0.5 * (0.1 * log(4) + 1)) < 1e-12);
    EXPECT_EQ(make("llama", SCALED("yarn", ",\"factor\":4,\"attn_factor\":0.5,"
                                           "\"attention_factor\":1.5")),
              0);
    EXPECT(rope->scale == 1.5);
    EXPECT_EQ(make("llama", SCALED("linear", ",\"factor\":4,\"attention_factor\":1.5")), 0);
    EXPECT(rope->scale == 1); /* of others */
    EXPECT_EQ(make("llama", SCALED("dynamic", ",\"factor\":4")), 0);
    EXPECT(rope->kind == ROPE_DYNAMIC && rope->original_context == 4096);
    EXPECT(spec.max_context == 16384 && spec_depends_on_length(&spec));
    EXPECT_EQ(make("llama", SCALED("dynamic", ",\"factor\":1")), 0);
    EXPECT(spec.max_context == 4096 && !spec_depends_on_length(&spec));
    EXPECT_EQ(make("llama", SCALED("longrope", ",\"original_max_position_embeddings\":1024,"
                                               "\"short_factor\":[1,1,1,1],\"long_factor\":"
                                               "[2,2,2,2]")),
              0);
    EXPECT(rope->factor == 4 && fabs(rope->scale - sqrt(1 + log(4) / log(1024))) < 1e-12);
    EXPECT(spec_depends_on_length(&spec));
    EXPECT_EQ(make("llama", FFN ",\"max_position_embeddings\":4096"), 0);
    EXPECT(!spec_depends_on_length(&spec));
    spec_release(&spec);
}
