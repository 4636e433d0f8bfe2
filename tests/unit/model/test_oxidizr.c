/* Checkpoints of oxidizr (model/read/oxidizr.h): with and without config.json the same model, and what
 * does not fit is refused by name. Their goldens' numbers are checked in test_families.c. */
#include "golden.h"

static const double TOLERANCE = 1e-4; /* as in test_families.c */

/* The tensor that `name` is an entry of; both as the golden has them. */
static struct config_node *tensor_of(struct model_golden *g, const char *name) {
    const struct config_node *list = config_find(&g->json, 0, "tensors");
    for (uint32_t i = list->first; i; i = g->json.nodes[i].next)
        if (!strcmp(config_node_text(&g->json, config_item(&g->json, &g->json.nodes[i], 0)), name))
            return &g->json.nodes[i];
    check_fail(__FILE__, __LINE__, "%s has no '%s'", g->name, name);
    return NULL;
}

/* Renames a tensor (size 0), or makes its first dimension another. */
static void change(struct model_golden *g, const char *name, int64_t size) {
    struct config_node *t = tensor_of(g, name);
    if (!t)
        return;
    uint32_t first = g->json.nodes[t->first].next; /* the shape */
    if (size)
        g->json.nodes[g->json.nodes[first].first].integer = size;
    else
        g->json.texts.data[g->json.nodes[t->first].text] = 'x';
}

/* Opens a golden's weights beside another config ("": none). The error's text, or "" and the
 * relative error of its logits. */
static double open_with(const char *golden, const char *config, const char *tensor, int64_t size,
                        struct error *err) {
    char path[256], dir[] = "/tmp/trireme-oxidizr-XXXXXX";
    struct model_golden g;
    struct rig r;
    double error = 1;
    *err = (struct error){0};
    snprintf(path, sizeof path, TRIREME_SOURCE_DIR "/tests/goldens/models/%s.json", golden);
    if (!mkdtemp(dir) || !model_golden_read(&g, path))
        abort();
    if (tensor)
        change(&g, tensor, size);
    g.config = config;
    if (!golden_put_model(&g, dir, STORAGE_F32))
        abort();
    rig_slots = 1;
    rig_context = 128;
    if (rig_open(&r, dir, NULL, 1, STORAGE_F32, 16, err)) {
        float *logits = golden_logits(&r, g.tokens, g.token_count, 0, RIG_ROWS);
        error = golden_error(logits, g.logits, g.rows, g.row_count, g.vocab);
        free(logits);
    }
    rig_close(&r);
    golden_drop_dir(dir);
    model_golden_free(&g);
    return error;
}

TEST(config_and_shapes_say_the_same) {
    static const char *const cases[][2] = {
        {"oxidizr", ""},
        {"oxidizr-latent", ""},
        {"oxidizr-mamba1", ""},
        {"oxidizr-mamba2", ""},
        {"oxidizr-mamba3", ""},
        {"oxidizr-mamba3-conv", ""},
        {"oxidizr-mamba3-mimo", ""},
        {"oxidizr-mamba2-groups", "{\"mamba2_state_size\":12}"}, /* groups follow */
        {"oxidizr-mamba3-real", "{\"hidden_size\":48,"
                                "\"num_layers\":1,"
                                "\"vocab_size\":96,"
                                "\"mamba2_num_heads\":6,"
                                "\"mamba2_head_dim\":16,"
                                "\"mamba2_state_size\":9,"
                                "\"mamba2_chunk_size\":64,"
                                "\"mamba2_expand\":2,"
                                "\"mamba2_conv_kernel\":4,"
                                "\"mamba3_enabled\":true,"
                                "\"mamba3_complex_rope\":false,"
                                "\"mamba3_mimo_rank\":0,"
                                "\"mamba3_use_conv\":false,"
                                "\"num_attention_heads\":6,"
                                "\"mamba_layers\":[0],"
                                "\"rms_norm_eps\":1e-5,"
                                "\"max_seq_len\":512}"},
        {"oxidizr-all", "{\"num_hidden_layers\":7,"
                        "\"num_attention_heads\":2,"
                        "\"num_key_value_heads\":1,"
                        "\"rope_scaling\":{\"factor\":1,\"rope_type\":\"llama3\"},"
                        "\"kv_latent_dim\":20,"
                        "\"experts_per_tok\":2}"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err;
        double error = open_with(cases[i][0], cases[i][1], NULL, 0, &err);
        if (!(error <= TOLERANCE))
            check_fail(__FILE__, __LINE__, "%s with '%s': error %.3g %s", cases[i][0], cases[i][1],
                       error, err.text);
    }
}

TEST(a_config_that_contradicts_the_weights_is_refused_by_field) {
    static const char *const cases[][3] = {
        {"oxidizr-mamba3", "{\"mamba2_state_size\":12}", "'mamba2_state_size'"},
        {"oxidizr-mamba3", "{\"mamba2_num_heads\":12}", "'mamba2_num_heads'"},
        {"oxidizr-mamba3", "{\"mamba2_n_groups\":2}", "'mamba2_n_groups'"},
        {"oxidizr-mamba3", "{\"mamba2_expand\":4}", "'mamba2_expand'"},
        {"oxidizr-mamba3", "{\"mamba3_enabled\":false}", "'mamba3_enabled'"},
        {"oxidizr-mamba3", "{\"mamba3_complex_rope\":false}", "'mamba3_complex_rope'"},
        {"oxidizr-mamba3", "{\"mamba3_use_conv\":true}", "'mamba3_use_conv'"},
        {"oxidizr-mamba3", "{\"mamba3_mimo_rank\":2}", "'mamba3_mimo_rank'"},
        {"oxidizr-mamba3-conv", "{\"mamba2_conv_kernel\":4}", "'mamba2_conv_kernel'"},
        {"oxidizr-mamba3", "{\"num_layers\":3}", "'num_layers'"},
        {"oxidizr-mamba3", "{\"hidden_size\":64}", "'hidden_size'"},
        {"oxidizr-mamba3", "{\"vocab_size\":95}", "'vocab_size'"},
        {"oxidizr-mamba2", "{\"mamba2_n_groups\":4}", "'mamba2_n_groups'"},
        {"oxidizr-latent", "{\"kv_latent_dim\":24}", "'kv_latent_dim'"},
        {"oxidizr-latent", "{\"num_experts\":8}", "'num_experts'"},
        {"oxidizr-latent", "{\"num_attention_heads\":8}", "'num_attention_heads'"},
        {"oxidizr-latent", "{\"rope_scaling\":{\"factor\":8}}", "'rope_scaling'"},
        {"oxidizr-latent", "{\"sliding_window\":32}", "'sliding_window'"},
        {"oxidizr-attention", "", "'num_attention_heads'"},
        {"oxidizr-attention", "{\"num_attention_heads\":5}", "heads"},
        {"oxidizr-attention", "{\"num_attention_heads\":4,\"num_kv_heads\":4}", "'num_kv_heads'"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err;
        open_with(cases[i][0], cases[i][1], NULL, 0, &err);
        if (!err.code || !strstr(err.text, cases[i][2]))
            check_fail(__FILE__, __LINE__, "%s with %s: '%s'", cases[i][0], cases[i][1], err.text);
    }
}

TEST(weights_that_do_not_fit_are_refused_by_tensor_or_layer) {
    static const struct {
        const char *golden, *tensor;
        int64_t size; /* 0: it is not there */
        const char *says;
    } cases[] = {
        {"oxidizr-mamba1", "layers.1.mamba.a_log", 0, "layers.1.mamba.a_log"},
        {"oxidizr-mamba1", "layers.0.mamba.x_proj.weight", 100, "layer 0"},
        {"oxidizr-mamba1", "layers.1.norm.weight", 0, "layers.1.norm.weight"},
        {"oxidizr-mamba2", "layers.0.mamba2.mixer.in_proj.weight", 300, "layer 0"},
        {"oxidizr-mamba2", "layers.1.mamba2.norm.bias", 0, "layers.1.mamba2.norm.bias"},
        {"oxidizr-mamba3", "layers.0.mamba3.mixer.lambda_proj.weight", 0,
         "layers.0.mamba3.mixer.lambda_proj"},
        {"oxidizr-mamba3", "layers.0.mamba3.mixer.theta_proj.weight", 32, "layer 0"},
        {"oxidizr-mamba3", "layers.0.mamba3.mixer.bc_norm.weight", 0,
         "layers.0.mamba3.mixer.bc_norm.weight"},
        {"oxidizr-mamba3", "layers.1.mamba3.mixer.in_proj.weight", 0, "layer 1"},
        {"oxidizr-mamba3", "layers.1.mamba3.mixer.theta_proj.weight", 0,
         "layers.1.mamba3.mixer.theta_proj"},
        {"oxidizr-mamba3-mimo", "layers.0.mamba3.mixer.mimo_x_down.weight", 0, "mimo_x_down"},
        {"oxidizr-mamba3-mimo", "layers.0.mamba3.mixer.mimo_x_up.weight", 25, "layer 0"},
        {"oxidizr-mamba3-conv", "layers.0.mamba3.mixer.conv1d.bias", 0,
         "layers.0.mamba3.mixer.conv1d.bias"},
        {"oxidizr-mamba3-conv", "layers.0.mamba3.mixer.conv1d.weight", 100, "layer 0"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err;
        open_with(cases[i].golden, "", cases[i].tensor, cases[i].size, &err);
        if (!err.code || !strstr(err.text, cases[i].says))
            check_fail(__FILE__, __LINE__, "%s with another '%s': '%s'", cases[i].golden,
                       cases[i].tensor, err.text);
    }
}
