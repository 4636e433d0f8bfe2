/* Metadata of GGUF files whose layers carry a state: what is missing or makes no sense is refused
 * by its name. */
#include "check.h"
#include "formats/gguf_build.h"
#include "model/read/gguf_model.h"

#include <stdio.h>
#include <stdlib.h>

struct key {
    const char *name;
    uint32_t value;
};

/* The keys of a file of one architecture, one of which (NULL: none) is left out or has another
 * value. */
struct odd_file {
    const char *arch;
    const struct key *keys;
    const char *name;
    bool left_out;
    uint32_t value;
    const char *error;
};

static const struct key MAMBA[] = {
    {"block_count", 1},          {"context_length", 64},    {"embedding_length", 32},
    {"attention.head_count", 0}, {"ssm.conv_kernel", 4},    {"ssm.inner_size", 64},
    {"ssm.state_size", 16},      {"ssm.time_step_rank", 2}, {NULL, 0}};
static const struct key MAMBA2[] = {
    {"block_count", 1},          {"context_length", 64},    {"embedding_length", 32},
    {"attention.head_count", 0}, {"ssm.conv_kernel", 4},    {"ssm.inner_size", 64},
    {"ssm.state_size", 16},      {"ssm.time_step_rank", 4}, {NULL, 0}};
static const struct key LFM2[] = {{"block_count", 1},
                                  {"context_length", 64},
                                  {"embedding_length", 32},
                                  {"attention.head_count", 4},
                                  {"attention.head_count_kv", 2},
                                  {"feed_forward_length", 64},
                                  {"shortconv.l_cache", 3},
                                  {NULL, 0}};

static bool is_odd(const struct odd_file *f, const struct key *k) {
    return f->name && !strcmp(k->name, f->name);
}

static const struct key JAMBA[] = {{"block_count", 2},
                                   {"context_length", 64},
                                   {"embedding_length", 32},
                                   {"attention.head_count", 4},
                                   {"attention.head_count_kv", 2},
                                   {"feed_forward_length", 64},
                                   {"ssm.conv_kernel", 4},
                                   {"ssm.inner_size", 64},
                                   {"ssm.state_size", 16},
                                   {"ssm.time_step_rank", 2},
                                   {NULL, 0}};
static const struct key GRANITE[] = {
    {"block_count", 2},          {"context_length", 64},      {"embedding_length", 32},
    {"embedding_scale", 2},      {"attention.head_count", 4}, {"attention.head_count_kv", 2},
    {"feed_forward_length", 64}, {"ssm.conv_kernel", 4},      {"ssm.inner_size", 64},
    {"ssm.state_size", 16},      {"ssm.time_step_rank", 4},   {NULL, 0}};
static const struct key NEMOTRON[] = {{"block_count", 2},
                                      {"context_length", 64},
                                      {"embedding_length", 32},
                                      {"attention.head_count", 4},
                                      {"attention.head_count_kv", 2},
                                      {"feed_forward_length", 64},
                                      {"ssm.conv_kernel", 4},
                                      {"ssm.inner_size", 64},
                                      {"ssm.state_size", 16},
                                      {"ssm.time_step_rank", 4},
                                      {"expert_count", 4},
                                      {"expert_feed_forward_length", 8},
                                      {"expert_shared_feed_forward_length", 8},
                                      {NULL, 0}};

static const struct key QWEN[] = {{"block_count", 3},
                                  {"context_length", 64},
                                  {"embedding_length", 32},
                                  {"attention.head_count", 4},
                                  {"attention.head_count_kv", 2},
                                  {"feed_forward_length", 64},
                                  {"full_attention_interval", 2},
                                  {"nextn_predict_layers", 1},
                                  {"attention.recurrent_layers", 1},
                                  {"ssm.conv_kernel", 4},
                                  {"ssm.inner_size", 64},
                                  {"ssm.state_size", 16},
                                  {"ssm.group_count", 2},
                                  {"ssm.time_step_rank", 4},
                                  {NULL, 0}};

/* A key of numbers, one a layer. */
static void put_key_array(struct buf *b, const char *key, const uint32_t *values, uint32_t count) {
    put_text(b, key);
    put_u32(b, 9);
    put_u32(b, 4);
    put_u64(b, count);
    for (uint32_t i = 0; i < count; i++)
        put_u32(b, values[i]);
}

/* Returns a text that the caller frees: the config, or the error. values: in place of f->name's,
 * where count > 0. */
static char *config_of(const struct odd_file *f, const uint32_t *values, uint32_t value_count) {
    struct buf file, json;
    struct gguf g = {0};
    struct error err = {0};
    char name[128];
    uint64_t count = 1;
    for (const struct key *k = f->keys; k->name; k++)
        count += !(f->left_out && is_odd(f, k));
    buf_init(&file, 0);
    buf_init(&json, 0);
    put_head(&file, 3, 1, count);
    put_key_text(&file, "general.architecture", f->arch);
    for (const struct key *k = f->keys; k->name; k++) {
        bool odd = is_odd(f, k);
        snprintf(name, sizeof name, "%s.%s", f->arch, k->name);
        if (odd && value_count)
            put_key_array(&file, name, values, value_count);
        else if (!odd || !f->left_out)
            put_key_u32(&file, name, odd ? f->value : k->value);
    }
    put_tensor(&file, "token_embd.weight", 32, 4, 0, 0);
    put_padding(&file, 32);
    put_zeros(&file, (size_t)32 * 4 * 4);
    int rc = gguf_open_bytes(&g, buf_bytes(&file), "odd.gguf", &err);
    const struct gguf_arch *arch = rc ? NULL : gguf_arch_of(&g, &err);
    if (arch)
        rc = gguf_config_text(&g, arch, &json, &err);
    char *text = strdup(rc || !arch ? err.text : buf_text(&json));
    gguf_close(&g);
    buf_release(&json);
    buf_release(&file);
    return text;
}

TEST(state_metadata_that_makes_no_sense_is_refused_by_name) {
    static const struct odd_file FILES[] = {
        {"mamba", MAMBA, "ssm.inner_size", true, 0, "mamba.ssm.inner_size"},
        {"mamba", MAMBA, "embedding_length", false, 0, "mamba.embedding_length"},
        {"mamba", MAMBA, "embedding_length", true, 0, "mamba.embedding_length"},
        {"mamba", MAMBA, "ssm.conv_kernel", true, 0, "mamba.ssm.conv_kernel"},
        {"mamba", MAMBA, "ssm.time_step_rank", true, 0, "mamba.ssm.time_step_rank"},
        {"mamba2", MAMBA2, "ssm.inner_size", true, 0, "mamba2.ssm.inner_size"},
        {"mamba2", MAMBA2, "embedding_length", false, 0, "mamba2.embedding_length"},
        {"mamba2", MAMBA2, "ssm.time_step_rank", false, 0, "mamba2.ssm.time_step_rank"},
        {"mamba2", MAMBA2, "ssm.time_step_rank", true, 0, "mamba2.ssm.time_step_rank"},
        {"lfm2", LFM2, "shortconv.l_cache", true, 0, "lfm2.shortconv.l_cache"},
        {"lfm2", LFM2, "attention.head_count", false, 0, "lfm2.attention.head_count"},
        {"jamba", JAMBA, "ssm.time_step_rank", true, 0, "jamba.ssm.time_step_rank"},
        {"jamba", JAMBA, "ssm.inner_size", false, 0, "jamba.ssm.inner_size"},
        {"jamba", JAMBA, "attention.head_count", false, 0, "jamba.attention.head_count"},
        {"granitehybrid", GRANITE, "ssm.time_step_rank", false, 0,
         "granitehybrid.ssm.time_step_rank"},
        {"granitehybrid", GRANITE, "feed_forward_length", true, 0,
         "granitehybrid.feed_forward_length"},
        {"nemotron_h", NEMOTRON, "ssm.time_step_rank", false, 0, "nemotron_h.ssm.time_step_rank"},
        {"nemotron_h", NEMOTRON, "ssm.state_size", true, 0, "nemotron_h.ssm.state_size"},
        {"nemotron_h_moe", NEMOTRON, "expert_feed_forward_length", true, 0,
         "nemotron_h_moe.expert_feed_forward_length"},
        {"nemotron_h_moe", NEMOTRON, "expert_count", true, 0, "nemotron_h_moe"},
        {"qwen35", QWEN, "full_attention_interval", false, 0, "qwen35.full_attention_interval"},
        {"qwen35", QWEN, "ssm.time_step_rank", false, 0, "qwen35.ssm.time_step_rank"},
        {"qwen3next", QWEN, "ssm.group_count", true, 0, "qwen3next.ssm.group_count"},
    };
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        struct odd_file whole = FILES[i];
        char *text = config_of(&FILES[i], NULL, 0);
        if (!strstr(text, FILES[i].error) || *text == '{')
            check_fail(__FILE__, __LINE__, "%s: '%s', not about '%s'", FILES[i].arch, text,
                       FILES[i].error);
        free(text);
        whole.name = NULL;
        text = config_of(&whole, NULL, 0);
        if (*text != '{')
            check_fail(__FILE__, __LINE__, "%s: %s", whole.arch, text);
        free(text);
    }
}

TEST(layers_show_in_arrays_with_a_number_for_each) {
    static const struct {
        const char *arch;
        const struct key *keys;
        const char *name;
        uint32_t values[3], count;
        const char *text;
    } FILES[] = {
        {"jamba",
         JAMBA,
         "attention.head_count_kv",
         {0, 2},
         2,
         "\"attn_layer_period\":2,\"attn_layer_offset\":1"},
        {"jamba",
         JAMBA,
         "attention.head_count_kv",
         {2, 0},
         2,
         "\"attn_layer_period\":2,\"attn_layer_offset\":0"},
        {"jamba",
         JAMBA,
         "attention.head_count_kv",
         {2},
         1,
         "'jamba.attention.head_count_kv' has 1 numbers"},
        {"jamba",
         JAMBA,
         "attention.head_count_kv",
         {1, 2},
         2,
         "'jamba.attention.head_count_kv' differs"},
        {"granitehybrid",
         GRANITE,
         "attention.head_count_kv",
         {0, 2},
         2,
         "[\"mamba\",\"attention\"]"},
        {"granitehybrid", GRANITE, "attention.head_count_kv", {2}, 1, "has 1 numbers for 2 layers"},
        {"lfm2", LFM2, "attention.head_count_kv", {0}, 1, "\"layer_types\":[\"conv\"]"},
        {"qwen35",
         QWEN,
         "attention.recurrent_layers",
         {0, 1, 0},
         3,
         "[\"full_attention\",\"linear_attention\"]"},
        {"qwen35", QWEN, "attention.recurrent_layers", {1}, 1, "has 1 numbers for 2 layers"},
        {"qwen35", QWEN, "attention.head_count_kv", {2, 2, 2}, 3, "\"num_hidden_layers\":2"},
        {"nemotron_h",
         NEMOTRON,
         "feed_forward_length",
         {0, 64},
         2,
         "\"hybrid_override_pattern\":\"**\""},
        {"nemotron_h",
         NEMOTRON,
         "attention.head_count_kv",
         {0, 2},
         2,
         "\"hybrid_override_pattern\":\"-*\""},
        {"nemotron_h",
         NEMOTRON,
         "feed_forward_length",
         {64},
         1,
         "'nemotron_h.feed_forward_length' has 1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        const struct odd_file file = {FILES[i].arch, FILES[i].keys, FILES[i].name, false, 0,
                                      FILES[i].text};
        char *text = config_of(&file, FILES[i].values, FILES[i].count);
        if (!strstr(text, FILES[i].text))
            check_fail(__FILE__, __LINE__, "%s: '%s' lacks '%s'", FILES[i].arch, text,
                       FILES[i].text);
        free(text);
    }
}
