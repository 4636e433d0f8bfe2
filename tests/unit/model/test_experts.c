/* Forms in which published files hold experts: one tensor of three dimensions for all, MXFP4 blocks, layers behind the
 * last; and what a config may not say. */
#include "formats/safetensors.h"
#include "golden.h"

/* A model.safetensors in the making. */
struct maker {
    struct buf header, data;
};
static void maker_init(struct maker *m) {
    buf_init(&m->header, 0);
    buf_init(&m->data, 0);
}
static void maker_add(struct maker *m, const char *name, const char *dtype, const uint64_t *dims, uint32_t dim_count,
                      const void *data, size_t size) {
    buf_addf(&m->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", m->header.len ? "," : "{", name, dtype);
    for (uint32_t i = 0; i < dim_count; i++) buf_addf(&m->header, "%s%llu", i ? "," : "", (unsigned long long)dims[i]);
    buf_addf(&m->header, "],\"data_offsets\":[%zu,%zu]}", m->data.len, m->data.len + size);
    buf_add(&m->data, data, size);
}
static void maker_write(struct maker *m, const char *dir) {
    struct buf file;
    buf_init(&file, 0);
    buf_add_str(&m->header, "}");
    while (m->header.len % 8) buf_add_byte(&m->header, ' ');
    uint64_t len = m->header.len;
    buf_add(&file, &len, 8);
    buf_add_bytes(&file, buf_bytes(&m->header));
    buf_add_bytes(&file, buf_bytes(&m->data));
    if (!golden_put_file(dir, "model.safetensors", buf_bytes(&file))) abort();
    buf_release(&file);
    buf_release(&m->header);
    buf_release(&m->data);
}
static void maker_copy(struct maker *m, const struct tensor *t) {
    maker_add(m, t->name, tensor_type_name(t->type), t->dims, t->dim_count, t->data, t->byte_len);
}

/* A golden's model in a folder of its own, and its logits. */
struct sample {
    struct model_golden g;
    char dir[32];
    struct safetensors files;
};
static void sample_open(struct sample *s, const char *name) {
    char file[128];
    snprintf(file, sizeof file, TRIREME_SOURCE_DIR "/tests/goldens/models/%s.json", name);
    snprintf(s->dir, sizeof s->dir, "/tmp/trireme-experts-XXXXXX");
    struct error err = {0};
    if (!mkdtemp(s->dir) || !model_golden_read(&s->g, file) || !golden_put_model(&s->g, s->dir, STORAGE_F32) ||
        safetensors_open(&s->files, s->dir, &err))
        abort();
}
static void sample_close(struct sample *s) {
    safetensors_close(&s->files);
    golden_drop_dir(s->dir);
    model_golden_free(&s->g);
}
/* NULL, with the text in err, when the folder is refused. */
static float *sample_logits(struct sample *s, struct error *err) {
    struct rig r;
    float *out = NULL;
    if (rig_open(&r, s->dir, NULL, 1, STORAGE_F32, 16, err))
        out = golden_logits(&r, s->g.tokens, s->g.token_count, 3, 32);
    rig_close(&r);
    return out;
}
static void expect_equal_logits(const struct sample *s, const float *a, const float *b, const struct error *err) {
    if (!a || !b || memcmp(a, b, (size_t)s->g.token_count * s->g.vocab * sizeof *a))
        check_fail(__FILE__, __LINE__, "%s: other logits in this form (%s)", s->g.name, err->text);
}

/* ---- one tensor for all experts ---- */

/* Replaces experts' tensors `at`.0.., with the products a and b stacked (b NULL: a alone), by one named `to`. */
static void fuse(struct maker *m, const struct sample *s, uint32_t layer, uint32_t experts, const char *a,
                 const char *b, const char *to) {
    struct buf data;
    char name[160];
    uint64_t dims[3] = {experts, 0, 0};
    buf_init(&data, 0);
    for (uint32_t e = 0; e < experts; e++) {
        const char *parts[] = {a, b};
        dims[1] = 0;
        for (int p = 0; p < 2 && parts[p]; p++) {
            snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%u.%s.weight", layer, e, parts[p]);
            const struct tensor *t = safetensors_find(&s->files, name);
            if (!t) abort();
            buf_add(&data, t->data, t->byte_len);
            dims[1] += t->dims[0];
            dims[2] = t->dims[1];
        }
    }
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s", layer, to);
    maker_add(m, name, "F32", dims, 3, data.data, data.len);
    buf_release(&data);
}

TEST(experts_in_one_tensor_are_the_same_model) {
    static const struct {
        const char *golden;
        uint32_t experts, layers[2];
    } CASES[] = {{"qwen2_moe", 7, {0, 2}}, {"deepseek_v3", 12, {1, 2}}};
    for (size_t c = 0; c < ARRAY_LEN(CASES); c++) {
        struct sample s;
        struct error err = {0};
        struct maker m;
        sample_open(&s, CASES[c].golden);
        float *apart = sample_logits(&s, &err);
        maker_init(&m);
        for (size_t i = 0; i < s.files.tensor_count; i++)
            if (!strstr(s.files.tensors[i].name, ".experts.")) maker_copy(&m, &s.files.tensors[i]);
        for (int i = 0; i < 2; i++) {
            fuse(&m, &s, CASES[c].layers[i], CASES[c].experts, "gate_proj", "up_proj", "gate_up_proj");
            fuse(&m, &s, CASES[c].layers[i], CASES[c].experts, "down_proj", NULL, "down_proj");
        }
        maker_write(&m, s.dir);
        float *fused = sample_logits(&s, &err);
        expect_equal_logits(&s, apart, fused, &err);
        free(apart);
        free(fused);
        sample_close(&s);
    }
}

/* ---- layers behind the last ---- */

TEST(a_layer_for_drafting_is_left_alone_and_an_unknown_tensor_is_not) {
    static const struct {
        const char *golden, *name;
        bool fine;
    } CASES[] = {{"deepseek_v3", "model.layers.3.eh_proj.weight", true},
                 {"deepseek_v3", "model.layers.2.eh_proj.weight", false},
                 {"qwen2_moe", "model.layers.3.eh_proj.weight", false}};
    for (size_t c = 0; c < ARRAY_LEN(CASES); c++) {
        struct sample s;
        struct error err = {0};
        struct maker m;
        float value = 1;
        sample_open(&s, CASES[c].golden);
        maker_init(&m);
        for (size_t i = 0; i < s.files.tensor_count; i++) maker_copy(&m, &s.files.tensors[i]);
        maker_add(&m, CASES[c].name, "F32", (uint64_t[]){1, 1}, 2, &value, 4);
        maker_write(&m, s.dir);
        float *logits = sample_logits(&s, &err);
        EXPECT((logits != NULL) == CASES[c].fine);
        if (!CASES[c].fine) EXPECT(strstr(err.text, CASES[c].name));
        free(logits);
        sample_close(&s);
    }
}

/* ---- MXFP4 ---- */

enum { M_HIDDEN = 64, M_WIDTH = 32, M_EXPERTS = 3, M_VOCAB = 40, M_TOKENS = 24 };

static const char M_CONFIG[] =
    "{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\",\"vocab_size\":40,\"hidden_size\":64,"
    "\"intermediate_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":"
    "16,"
    "\"num_local_experts\":3,\"num_experts_per_tok\":2,\"sliding_window\":8,\"max_position_embeddings\":128%s}";

static void add_drawn(struct maker *m, const char *name, const uint64_t *dims, uint32_t dim_count, double mean,
                      double sigma) {
    struct buf data;
    size_t count = 1;
    for (uint32_t i = 0; i < dim_count; i++) count *= dims[i];
    buf_init(&data, 0);
    golden_draw(&data, name, 5, count, mean, sigma, STORAGE_F32);
    maker_add(m, name, "F32", dims, dim_count, data.data, data.len);
    buf_release(&data);
}

/* What the format says (OCP Microscaling 1.0): sign, two bits of exponent, one of fraction; times 2^(scale - 127). */
static float mxfp4_value(uint32_t code, uint32_t scale) {
    static const float MAGNITUDES[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float v = ldexpf(MAGNITUDES[code & 7], (int)scale - 127);
    return code & 8 ? -v : v;
}

/* One product of all experts of a layer: [experts, rows, cols] as blocks and scales, or its values as [experts, cols,
 * rows] in f32. */
static void add_experts(struct maker *m, uint32_t layer, const char *what, uint32_t rows, uint32_t cols, bool blocks) {
    size_t count = (size_t)M_EXPERTS * rows * cols;
    uint8_t *codes = calloc(count / 2, 1), *scales = calloc(count / 32, 1);
    float *values = calloc(count, sizeof *values);
    char name[120];
    const uint32_t key[2] = {layer, rows};
    for (size_t i = 0; i < count / 32; i++) {
        uint32_t counter[4] = {(uint32_t)i, 0, 0, 0}, w[4];
        philox4x32_10(counter, key, w);
        scales[i] = (uint8_t)(122 + w[0] % 3);
        for (size_t n = 0; n < 16; n++) {
            counter[1] = (uint32_t)n + 1;
            philox4x32_10(counter, key, w);
            codes[i * 16 + n] = (uint8_t)w[1];
            for (size_t half = 0; half < 2; half++) {
                size_t at = i * 32 + n * 2 + half, e = at / ((size_t)rows * cols), r = at / cols % rows, c = at % cols;
                values[(e * cols + c) * rows + r] = mxfp4_value(codes[i * 16 + n] >> (4 * half) & 15, scales[i]);
            }
        }
    }
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_proj", layer, what);
    if (!blocks) maker_add(m, name, "F32", (uint64_t[]){M_EXPERTS, cols, rows}, 3, values, count * sizeof *values);
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_proj_blocks", layer, what);
    if (blocks) maker_add(m, name, "U8", (uint64_t[]){M_EXPERTS, rows, cols / 32, 16}, 4, codes, count / 2);
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_proj_scales", layer, what);
    if (blocks) maker_add(m, name, "U8", (uint64_t[]){M_EXPERTS, rows, cols / 32}, 3, scales, count / 32);
    free(codes);
    free(scales);
    free(values);
}

static void put_mxfp4_model(const char *dir, bool blocks) {
    static const struct {
        const char *name;
        uint64_t dims[2];
        double mean, sigma;
    } LAYER[] = {{"input_layernorm.weight", {M_HIDDEN}, 1, 0.2},
                 {"post_attention_layernorm.weight", {M_HIDDEN}, 1, 0.2},
                 {"self_attn.q_proj.weight", {32, M_HIDDEN}, 0, 0.125},
                 {"self_attn.k_proj.weight", {16, M_HIDDEN}, 0, 0.125},
                 {"self_attn.v_proj.weight", {16, M_HIDDEN}, 0, 0.125},
                 {"self_attn.q_proj.bias", {32}, 0, 0.2},
                 {"self_attn.k_proj.bias", {16}, 0, 0.2},
                 {"self_attn.v_proj.bias", {16}, 0, 0.2},
                 {"self_attn.o_proj.weight", {M_HIDDEN, 32}, 0, 0.2},
                 {"self_attn.o_proj.bias", {M_HIDDEN}, 0, 0.2},
                 {"self_attn.sinks", {2}, 0, 1},
                 {"mlp.router.weight", {M_EXPERTS, M_HIDDEN}, 0, 0.3},
                 {"mlp.router.bias", {M_EXPERTS}, 0, 0.2},
                 {"mlp.experts.gate_up_proj_bias", {M_EXPERTS, 2 * M_WIDTH}, 0, 0.2},
                 {"mlp.experts.down_proj_bias", {M_EXPERTS, M_HIDDEN}, 0, 0.2}};
    struct maker m;
    struct buf config;
    char name[120];
    maker_init(&m);
    add_drawn(&m, "model.embed_tokens.weight", (uint64_t[]){M_VOCAB, M_HIDDEN}, 2, 0, 1);
    add_drawn(&m, "lm_head.weight", (uint64_t[]){M_VOCAB, M_HIDDEN}, 2, 0, 0.125);
    add_drawn(&m, "model.norm.weight", (uint64_t[]){M_HIDDEN}, 1, 1, 0.2);
    for (uint32_t layer = 0; layer < 2; layer++) {
        for (size_t i = 0; i < ARRAY_LEN(LAYER); i++) {
            snprintf(name, sizeof name, "model.layers.%u.%s", layer, LAYER[i].name);
            add_drawn(&m, name, LAYER[i].dims, LAYER[i].dims[1] ? 2 : 1, LAYER[i].mean, LAYER[i].sigma);
        }
        add_experts(&m, layer, "gate_up", 2 * M_WIDTH, M_HIDDEN, blocks);
        add_experts(&m, layer, "down", M_HIDDEN, M_WIDTH, blocks);
    }
    maker_write(&m, dir);
    buf_init(&config, 0);
    buf_addf(&config, M_CONFIG,
             blocks ? ",\"quantization_config\":{\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":[\"lm_head\"]}"
                    : "");
    if (!golden_put_file(dir, "config.json", buf_bytes(&config))) abort();
    buf_release(&config);
}

static float *mxfp4_logits(bool blocks) {
    char dir[] = "/tmp/trireme-mxfp4-XXXXXX";
    struct rig r;
    struct error err = {0};
    uint32_t tokens[M_TOKENS];
    float *out = NULL;
    if (!mkdtemp(dir)) abort();
    put_mxfp4_model(dir, blocks);
    for (uint32_t i = 0; i < M_TOKENS; i++) tokens[i] = i * 7 % M_VOCAB;
    if (rig_open(&r, dir, NULL, 1, STORAGE_F32, 16, &err))
        out = golden_logits(&r, tokens, M_TOKENS, 3, 32);
    else
        check_fail(__FILE__, __LINE__, "%s", err.text);
    rig_close(&r);
    golden_drop_dir(dir);
    return out;
}

/* A product with any storage type has the bits of the product with its values as f32 (kernels/cpu/linear.inc.h). */
TEST(mxfp4_experts_have_the_bits_of_their_values) {
    float *blocks = mxfp4_logits(true), *values = mxfp4_logits(false);
    EXPECT(blocks && values && !memcmp(blocks, values, (size_t)M_TOKENS * M_VOCAB * sizeof *blocks));
    EXPECT(blocks && isfinite(blocks[M_TOKENS * M_VOCAB - 1]));
    free(blocks);
    free(values);
}

/* ---- configs ---- */

TEST(a_router_that_is_not_the_familys_is_refused_by_name) {
    static const struct {
        const char *field, *says;
    } CASES[] = {{"\"scoring_func\":\"tanh\"", "'scoring_func'"},
                 {"\"topk_method\":\"greedy\"", "'topk_method'"},
                 {"\"num_experts_per_tok\":13", "'num_experts_per_tok'"},
                 {"\"n_group\":5", "'n_group'"},
                 {"\"topk_group\":9", "'topk_group'"},
                 {"\"n_shared_experts\":9000000000000000000", "'n_shared_experts'"},
                 {"\"n_shared_experts\":-9000000000000000000", "'n_shared_experts'"},
                 {"\"routed_scaling_factor\":\"x\"", "'routed_scaling_factor'"},
                 {"\"expert_shuffle\":true", "'expert_shuffle'"}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char text[900];
        struct model_spec spec;
        struct error err = {0};
        snprintf(text, sizeof text,
                 "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"vocab_size\":97,\"hidden_size\":48,"
                 "\"intermediate_size\":56,\"num_hidden_layers\":4,\"num_attention_heads\":4,%s,%s%s%s}",
                 CASES[i].field, strstr(CASES[i].field, "per_tok") ? "" : "\"num_experts_per_tok\":3,",
                 strstr(CASES[i].field, "n_group\"") ? "" : "\"n_group\":4,", "\"n_routed_experts\":12");
        EXPECT(spec_read_text(&spec, bytes_str(text), NULL, &err) && strstr(err.text, CASES[i].says));
        spec_release(&spec);
    }
}

TEST(a_list_of_layers_is_a_list_of_a_few) {
    struct buf text;
    struct model_spec spec;
    struct error err = {0};
    buf_init(&text, 0);
    buf_add_str(&text, "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"vocab_size\":97,\"hidden_size\":48,"
                       "\"intermediate_size\":56,\"num_hidden_layers\":1024,\"num_attention_heads\":4,"
                       "\"mlp_only_layers\":[0");
    for (int i = 0; i < 200000; i++) buf_add_str(&text, ",7000");
    buf_add_str(&text, "]}");
    EXPECT(spec_read_text(&spec, buf_bytes(&text), NULL, &err) && strstr(err.text, "'mlp_only_layers'"));
    spec_release(&spec);
    buf_release(&text);
}
