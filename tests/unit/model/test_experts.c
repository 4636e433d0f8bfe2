/* Forms in which published files hold experts: one tensor of three dimensions for all, MXFP4
 * blocks, layers behind the last; and what a config may not say. */
#include "formats/safetensors.h"
#include "golden.h"
#include "mxfp4_model.h"

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
    if (!mkdtemp(s->dir) || !model_golden_read(&s->g, file) ||
        !golden_put_model(&s->g, s->dir, STORAGE_F32) || safetensors_open(&s->files, s->dir, &err))
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
static void expect_equal_logits(const struct sample *s, const float *a, const float *b,
                                const struct error *err) {
    if (!a || !b || memcmp(a, b, (size_t)s->g.token_count * s->g.vocab * sizeof *a))
        check_fail(__FILE__, __LINE__, "%s: other logits in this form (%s)", s->g.name, err->text);
}

/* ---- one tensor for all experts ---- */

/* Replaces experts' tensors `at`.0.., with the products a and b stacked (b NULL: a alone), by one
 * named `to`. */
static void fuse(struct maker *m, const struct sample *s, uint32_t layer, uint32_t experts,
                 const char *a, const char *b, const char *to) {
    struct buf data;
    char name[160];
    uint64_t dims[3] = {experts, 0, 0};
    buf_init(&data, 0);
    for (uint32_t e = 0; e < experts; e++) {
        const char *parts[] = {a, b};
        dims[1] = 0;
        for (int p = 0; p < 2 && parts[p]; p++) {
            snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%u.%s.weight", layer, e,
                     parts[p]);
            const struct tensor *t = safetensors_find(&s->files, name);
            if (!t)
                abort();
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
            if (!strstr(s.files.tensors[i].name, ".experts."))
                maker_copy(&m, &s.files.tensors[i]);
        for (int i = 0; i < 2; i++) {
            fuse(&m, &s, CASES[c].layers[i], CASES[c].experts, "gate_proj", "up_proj",
                 "gate_up_proj");
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
        for (size_t i = 0; i < s.files.tensor_count; i++)
            maker_copy(&m, &s.files.tensors[i]);
        maker_add(&m, CASES[c].name, "F32", (uint64_t[]){1, 1}, 2, &value, 4);
        maker_write(&m, s.dir);
        float *logits = sample_logits(&s, &err);
        EXPECT((logits != NULL) == CASES[c].fine);
        if (!CASES[c].fine)
            EXPECT(strstr(err.text, CASES[c].name));
        free(logits);
        sample_close(&s);
    }
}

/* ---- MXFP4 ---- */

static float *mxfp4_logits(bool blocks) {
    char dir[] = "/tmp/trireme-mxfp4-XXXXXX";
    if (!mkdtemp(dir))
        abort();
    put_mxfp4_model(dir, blocks);
    float *out = mxfp4_logits_of(dir);
    golden_drop_dir(dir);
    return out;
}

/* A product with any storage type has the bits of the product with its values as f32
 * (kernels/cpu/linear.inc.h). */
TEST(mxfp4_experts_have_the_bits_of_their_values) {
    float *blocks = mxfp4_logits(true), *values = mxfp4_logits(false);
    EXPECT(blocks && values &&
           !memcmp(blocks, values, (size_t)M_TOKENS * M_VOCAB * sizeof *blocks));
    EXPECT(blocks && isfinite(blocks[M_TOKENS * M_VOCAB - 1]));
    free(blocks);
    free(values);
}

/* The last byte of the file is the scale of the last expert's last block. */
TEST(an_mxfp4_scale_that_is_no_number_is_refused_by_name) {
    char dir[] = "/tmp/trireme-mxfp4-XXXXXX", path[sizeof dir + 32];
    struct rig r;
    struct error err = {0};
    if (!mkdtemp(dir))
        abort();
    put_mxfp4_model(dir, true);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *file = fopen(path, "r+b");
    EXPECT(file && !fseek(file, -1, SEEK_END) && fputc(255, file) == 255 && !fclose(file));
    EXPECT(!rig_open(&r, dir, NULL, 1, STORAGE_F32, 16, &err));
    EXPECT(strstr(err.text, "'model.layers.1.mlp.experts.down_proj_scales' has a scale of 255"));
    rig_close(&r);
    golden_drop_dir(dir);
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
        snprintf(
            text, sizeof text,
            "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"vocab_size\":97,\"hidden_size\":48,"
            "\"intermediate_size\":56,\"num_hidden_layers\":4,\"num_attention_heads\":4,%s,%s%s%s}",
            CASES[i].field, strstr(CASES[i].field, "per_tok") ? "" : "\"num_experts_per_tok\":3,",
            strstr(CASES[i].field, "n_group\"") ? "" : "\"n_group\":4,", "\"n_routed_experts\":12");
        EXPECT(spec_read_text(&spec, bytes_str(text), NULL, &err) &&
               strstr(err.text, CASES[i].says));
        spec_release(&spec);
    }
}

TEST(a_list_of_layers_is_a_list_of_a_few) {
    struct buf text;
    struct model_spec spec;
    struct error err = {0};
    buf_init(&text, 0);
    buf_add_str(&text,
                "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"vocab_size\":97,\"hidden_size\":48,"
                "\"intermediate_size\":56,\"num_hidden_layers\":1024,\"num_attention_heads\":4,"
                "\"mlp_only_layers\":[0");
    for (int i = 0; i < 200000; i++)
        buf_add_str(&text, ",7000");
    buf_add_str(&text, "]}");
    EXPECT(spec_read_text(&spec, buf_bytes(&text), NULL, &err) &&
           strstr(err.text, "'mlp_only_layers'"));
    spec_release(&spec);
    buf_release(&text);
}
