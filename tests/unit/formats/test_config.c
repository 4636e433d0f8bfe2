/* config.json: both spellings of the rotary options, and nothing silently ignored. */
#include "check.h"
#include "formats/config.h"

static struct hf_config config;
static struct error err;

static int reads(const char *text, const char *accept) { return config_read(&config, bytes_str(text), accept, &err); }

TEST(a_llama_config_of_the_old_spelling_is_read) {
    EXPECT_EQ(reads("{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":128256,\"hidden_"
                    "size\":2048,\"intermediate_size\":8192,"
                    "\"num_hidden_layers\":16,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"head_dim\":64,"
                    "\"rms_norm_eps\":1e-05,\"rope_theta\":500000.0,"
                    "\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,\"original_max_"
                    "position_embeddings\":8192,\"rope_type\":\"llama3\"},"
                    "\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\",\"hidden_act\":\"silu\",\"attention_"
                    "bias\":false,\"mlp_bias\":false,"
                    "\"max_position_embeddings\":131072,\"eos_token_id\":[1,2],\"bos_token_id\":0,\"transformers_"
                    "version\":\"4.45\",\"use_cache\":true,\"pretraining_tp\":1}",
                    NULL),
              0);
    EXPECT_STR(config.architecture, "LlamaForCausalLM");
    EXPECT_STR(config.rope.type, "llama3");
    EXPECT_STR(config.dtype, "bfloat16");
    EXPECT(config.vocab_size == 128256 && config.num_key_value_heads == 8 && config.rope.theta == 500000 &&
           config.rope.factor == 32 && config.rope.low_freq_factor == 1);
    EXPECT(config.rope.original_max_position_embeddings == 8192 && config.tie_word_embeddings == CONFIG_TRUE &&
           config.attention_bias == CONFIG_FALSE);
    EXPECT(config.use_sliding_window == CONFIG_UNSET && !config.sliding_window_set);
}

TEST(the_new_spelling_ends_in_the_same_fields) {
    EXPECT_EQ(reads("{\"dtype\":\"float16\",\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":10000,"
                    "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
                    "\"original_max_position_embeddings\":4096}}",
                    NULL),
              0);
    EXPECT(config.rope.theta == 10000 && config.rope.factor == 8);
    EXPECT_STR(config.rope.type, "llama3");
    EXPECT_STR(config.dtype, "float16");
}

TEST(null_means_absent) {
    EXPECT_EQ(reads("{\"rope_scaling\":null,\"head_dim\":null,\"sliding_window\":null,\"tie_word_embeddings\":null,"
                    "\"architectures\":null}",
                    NULL),
              0);
    EXPECT(config.head_dim == 0 && config.sliding_window_set && config.sliding_window == 0 &&
           config.tie_word_embeddings == CONFIG_UNSET && !config.architecture[0]);
}

TEST(a_field_we_do_not_know_is_refused_by_name_unless_it_asks_for_nothing) {
    EXPECT_EQ(reads("{\"flux_capacitor\":1.21}", NULL), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "flux_capacitor") != NULL);
    EXPECT_EQ(reads("{\"quantization_config\":{\"bits\":4}}", NULL), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "quantization_config") != NULL);
    EXPECT_EQ(reads("{\"rope_scaling\":{\"type\":\"linear\",\"wobble\":3}}", NULL), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "wobble") != NULL);
    EXPECT_EQ(reads("{\"layer_types\":[\"full_attention\",\"mamba\"]}", NULL), ERR_UNSUPPORTED);
    EXPECT_EQ(reads("{\"flux_capacitor\":null,\"time_circuits\":false,\"_private\":{\"x\":[1]}}", NULL), 0);
    EXPECT_EQ(reads("{\"flux_capacitor\":{\"gw\":[1.21,{}]},\"hidden_size\":8}", "time_circuits,flux_capacitor"), 0);
    EXPECT_EQ(config.hidden_size, 8);
    EXPECT_EQ(reads("{\"flux_capacitor\":1}", "flux,flux_capacitors"), ERR_UNSUPPORTED);
}

TEST(values_of_the_wrong_kind_are_refused_by_name) {
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"{\"hidden_size\":-1}", "hidden_size"},        {"{\"hidden_size\":1.5}", "hidden_size"},
        {"{\"hidden_size\":\"8\"}", "hidden_size"},     {"{\"hidden_size\":1e40}", "hidden_size"},
        {"{\"hidden_size\":true}", "hidden_size"},      {"{\"rms_norm_eps\":\"x\"}", "rms_norm_eps"},
        {"{\"rms_norm_eps\":1e999}", "rms_norm_eps"},   {"{\"mlp_bias\":1}", "mlp_bias"},
        {"{\"hidden_act\":7}", "hidden_act"},           {"{\"architectures\":[\"A\",\"B\"]}", "architectures"},
        {"{\"architectures\":\"A\"}", "architectures"}, {"{\"rope_scaling\":3}", "rotary"},
        {"{\"layer_types\":{}}", "layer_types"},        {"{\"layer_types\":[1]}", "layer_types"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!reads(cases[i].text, NULL) || !strstr(err.text, cases[i].name))
            check_fail(__FILE__, __LINE__, "%s: %s", cases[i].text, err.text);
}

TEST(malformed_files_are_refused) {
    static const char *const cases[] = {
        "", "[]", "{", "{\"a\":1,\"a\":2}", "{\"hidden_size\":8}x", "{\"hidden_act\":\"a\\u0000b\"}", "\xef\xbb\xbf{}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!reads(cases[i], NULL)) check_fail(__FILE__, __LINE__, "taken: %s", cases[i]);
    static char deep[4096] = "{\"_x\":";
    memset(deep + 6, '[', 4000);
    EXPECT(reads(deep, NULL));
}
