/*
 * Every golden of tests/goldens/models whose family has a GGUF architecture: trireme convert writes
 * it as GGUF, that file gives the golden's logits, and converted back its tensors are those of the
 * folder, bit by bit.
 *
 * TRIREME_GOLDEN=NAME runs one golden.
 */
#include "model/golden.h"
#include "model/mxfp4_model.h"

#include "cli/commands.h"
#include "model/read/gguf_model.h"

static int run_convert(const char *from, const char *to) {
    char *argv[] = {(char *)"convert", (char *)"--model", (char *)from, (char *)"--out",
                    (char *)to};
    return convert_main(5, argv);
}

static int run_quantize(const char *from, const char *to, const char *type) {
    char *argv[] = {(char *)"quantize", (char *)"--model", (char *)from, (char *)"--out",
                    (char *)to,         (char *)"--type",  (char *)type};
    return quantize_main(7, argv);
}

/* What no key of the format says: limits of a state's step, an epsilon of inner norms, dynamic
 * scaling, two YaRN corrections that differ, clamps of GPT-OSS's gates, layers without rotation or
 * experts other than every so many. */
static const char *const NOT_IN_KEYS[] = {
    "deepseek_v3", "falcon_mamba", "gpt_oss",   "llama-dynamic", "llama4",
    "mamba2",      "nemotron_h",   "qwen2_moe", "qwen3_moe",     "smollm3"};

/* Hides the config.json that the file keeps, so that its keys alone must say what the network
 * is. */
static bool hide_config(const char *gguf) {
    static const char KEY[] = GGUF_FILE_KEY "config.json";
    struct buf file;
    struct error err;
    buf_init(&file, 0);
    bool ok = !file_read(gguf, 1 << 28, &file, &err);
    char *at = ok ? memmem(file.data, file.len, KEY, strlen(KEY)) : NULL;
    if (at)
        at[strlen(GGUF_FILE_KEY)] = 'X';
    ok = at && !file_write_atomic(gguf, file.data, file.len, 0600, &err);
    buf_release(&file);
    return ok;
}

/* llama.cpp opens a file without a tokenizer if it says so. */
static bool says_no_vocabulary(const char *path) {
    struct gguf g;
    struct error err;
    struct bytes model = {0};
    bool ok = !gguf_open(&g, path, &err) && gguf_string(&g, "tokenizer.ggml.model", &model) &&
              bytes_equal(model, bytes_str("no_vocab"));
    gguf_close(&g);
    return ok;
}

static void check_logits(const struct model_golden *g, const char *gguf) {
    struct rig r;
    struct error err = {0};
    rig_slots = 4;
    rig_context = 256;
    if (!rig_open(&r, gguf, NULL, 1, STORAGE_F32, 16, &err)) {
        check_fail(__FILE__, __LINE__, "%s: %s", g->name, err.text);
    } else {
        float *logits = golden_logits(&r, g->tokens, g->token_count, 3, RIG_ROWS);
        double error = golden_error(logits, g->logits, g->rows, g->row_count, g->vocab);
        if (!(error <= 1e-4))
            check_fail(__FILE__, __LINE__, "%s: relative error %.3g", g->name, error);
        free(logits);
    }
    rig_close(&r);
}

static bool same_tensor(const struct tensor *a, const struct tensor *b) {
    return b && a->type == b->type && a->dim_count == b->dim_count && a->byte_len == b->byte_len &&
           !memcmp(a->dims, b->dims, a->dim_count * sizeof *a->dims) &&
           !memcmp(a->data, b->data, a->byte_len);
}

static void check_same(const char *name, const char *folder, const char *back) {
    struct safetensors a, b;
    struct error err = {0};
    if (safetensors_open(&a, folder, &err) || safetensors_open(&b, back, &err)) {
        check_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
        return;
    }
    if (a.tensor_count != b.tensor_count)
        check_fail(__FILE__, __LINE__, "%s: %zu tensors, not %zu", name, b.tensor_count,
                   a.tensor_count);
    for (size_t i = 0; i < a.tensor_count; i++)
        if (!same_tensor(&a.tensors[i], safetensors_find(&b, a.tensors[i].name)))
            check_fail(__FILE__, __LINE__, "%s: '%s' has changed", name, a.tensors[i].name);
    safetensors_close(&a);
    safetensors_close(&b);
}

static bool has_architecture(const char *folder) {
    struct model m = {0};
    struct buf config;
    struct error err = {0};
    buf_init(&config, 0);
    bool ok = !model_open_files(&m, &(struct model_options){.dir = folder}, &config, &err) &&
              gguf_arch_for(&m.spec, &err) != NULL;
    model_close(&m);
    buf_release(&config);
    return ok;
}

/* In `type`; the logits are those of f32 weights. */
static bool check_golden(struct model_golden *g, const char *folder, enum storage_type type) {
    if (!golden_put_model(g, folder, type) || !has_architecture(folder))
        return false;
    char *gguf = path_join(folder, "m.gguf"), *back = path_join(folder, "back");
    if (run_convert(folder, gguf) || run_convert(gguf, back)) {
        check_fail(__FILE__, __LINE__, "%s cannot be converted", g->name);
    } else {
        bool told = type == STORAGE_F32;
        check_same(g->name, folder, back);
        if (!says_no_vocabulary(gguf))
            check_fail(__FILE__, __LINE__, "%s: a vocabulary from nowhere", g->name);
        if (type == STORAGE_F32)
            check_logits(g, gguf);
        for (size_t i = 0; i < ARRAY_LEN(NOT_IN_KEYS); i++)
            told = told && strcmp(NOT_IN_KEYS[i], g->name) != 0;
        if (told && !hide_config(gguf))
            check_fail(__FILE__, __LINE__, "%s: no config is kept", g->name);
        if (told)
            check_logits(g, gguf);
    }
    golden_drop_dir(back);
    unlink(gguf);
    mem_free(gguf);
    mem_free(back);
    return true;
}

static uint32_t each_golden(enum storage_type type) {
    static const char folder[] = TRIREME_SOURCE_DIR "/tests/goldens/models";
    const char *only = getenv("TRIREME_GOLDEN");
    uint32_t count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t stem = strcspn(e->d_name, ".");
        if (!strstr(e->d_name, ".json") ||
            (only && (strlen(only) != stem || strncmp(only, e->d_name, stem))))
            continue;
        struct model_golden g;
        char *path = path_join(folder, e->d_name), dir[] = "/tmp/trireme-convert-XXXXXX";
        if (!mkdtemp(dir))
            abort();
        if (model_golden_read(&g, path) && *g.config)
            count += check_golden(&g, dir, type);
        golden_drop_dir(dir);
        model_golden_free(&g);
        mem_free(path);
    }
    if (d)
        closedir(d);
    return count;
}

TEST(gguf_gives_the_logits_and_the_folder_back) {
    EXPECT(each_golden(STORAGE_F32) >= (getenv("TRIREME_GOLDEN") ? 0 : 68));
}
TEST(bf16_comes_back_unchanged) {
    EXPECT(each_golden(STORAGE_BF16) >= (getenv("TRIREME_GOLDEN") ? 0 : 68));
}

/* ---- MXFP4 ---- */

static void expect_same_logits(const char *a_path, const char *b_path) {
    float *a = mxfp4_logits_of(a_path), *b = mxfp4_logits_of(b_path);
    EXPECT(a && b && !memcmp(a, b, (size_t)M_TOKENS * M_VOCAB * sizeof *a));
    free(a);
    free(b);
}

static enum tensor_type type_in(const char *gguf, const char *name) {
    struct gguf g;
    struct error err;
    if (gguf_open(&g, gguf, &err))
        return TENSOR_TYPE_COUNT;
    const struct tensor *t = safetensors_find(&g.set, name);
    enum tensor_type type = t ? t->type : TENSOR_TYPE_COUNT;
    gguf_close(&g);
    return type;
}

/* Blocks and scales of a folder are MXFP4 in the file, and come back, also where only the file's
 * own keys tell. */
TEST(mxfp4_experts_cross_as_they_are) {
    char dir[] = "/tmp/trireme-convert-XXXXXX";
    if (!mkdtemp(dir))
        abort();
    put_mxfp4_model(dir, true);
    char *gguf = path_join(dir, "m.gguf"), *back = path_join(dir, "back");
    EXPECT_EQ(run_convert(dir, gguf), 0);
    EXPECT_EQ(type_in(gguf, "blk.1.ffn_up_exps.weight"), TENSOR_MXFP4);
    EXPECT_EQ(type_in(gguf, "blk.1.ffn_down_exps.weight"), TENSOR_MXFP4);
    EXPECT_EQ(type_in(gguf, "blk.1.ffn_gate_exps.bias"), TENSOR_F32);
    expect_same_logits(dir, gguf);
    for (int told = 0; told < 2; told++) {
        if (told)
            EXPECT(hide_config(gguf));
        EXPECT_EQ(run_convert(gguf, back), 0);
        check_same("mxfp4", dir, back);
        expect_same_logits(dir, back);
        golden_drop_dir(back);
    }
    unlink(gguf);
    golden_drop_dir(dir);
    mem_free(gguf);
    mem_free(back);
}

/* In another type they are what their values would be; the router is of no block type. */
TEST(mxfp4_experts_are_quantized_by_their_values) {
    char blocks[] = "/tmp/trireme-convert-XXXXXX", values[] = "/tmp/trireme-convert-XXXXXX";
    if (!mkdtemp(blocks) || !mkdtemp(values))
        abort();
    put_mxfp4_model(blocks, true);
    put_mxfp4_model(values, false);
    char *a = path_join(blocks, "m.gguf"), *b = path_join(values, "m.gguf");
    EXPECT_EQ(run_quantize(blocks, a, "q8_0"), 0);
    EXPECT_EQ(run_quantize(values, b, "q8_0"), 0);
    EXPECT_EQ(type_in(a, "blk.1.ffn_up_exps.weight"), TENSOR_Q8_0);
    EXPECT_EQ(type_in(a, "blk.1.ffn_gate_inp.weight"), TENSOR_F32);
    EXPECT_EQ(type_in(a, "blk.1.ffn_down_exps.bias"), TENSOR_F32);
    expect_same_logits(a, b);
    unlink(a);
    unlink(b);
    golden_drop_dir(blocks);
    golden_drop_dir(values);
    mem_free(a);
    mem_free(b);
}
