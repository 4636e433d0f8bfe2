/*
 * trireme convert and quantize on the bundled model: a folder comes back unchanged from GGUF; and
 * in every type that can be written, the network has the mean negative log-likelihood of the f32
 * network with the decoded weights.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "check.h"
#include "cli/commands.h"
#include "cli/scorer.h"
#include "kernels/encode.h"
#include "model/convert/export.h"
#include "text/tokenizer/tokenizer.h"

static const char MODEL[] = TRIREME_SOURCE_DIR "/demo/model";
static const char TEXT[] =
    "Once upon a time there was a small ship. It had three rows of oars, and every oar knew its "
    "place. One day the "
    "wind "
    "was gone, and the sea was flat. The captain said: row! And the ship went home. The end. "
    "Trireme serves large "
    "language models. It is built from three small kinds of process, so that a fault stays small.";
static char dir[64];

static char *in_dir(const char *name) {
    return path_join(dir, name);
}

static int run_quietly(int (*command)(int, char **), const char *a, const char *b, const char *c) {
    char *argv[] = {(char *)"x",     (char *)"--force", (char *)"--model", (char *)a,
                    (char *)"--out", (char *)b,         (char *)"--type",  (char *)c};
    return command(c ? 8 : 6, argv);
}

static bool same_file(const char *a_dir, const char *b_dir, const char *name) {
    struct buf a, b;
    struct error err;
    char *a_path = path_join(a_dir, name), *b_path = path_join(b_dir, name);
    buf_init(&a, 0);
    buf_init(&b, 0);
    bool same = !file_read(a_path, 1 << 28, &a, &err) && !file_read(b_path, 1 << 28, &b, &err) &&
                bytes_equal(buf_bytes(&a), buf_bytes(&b));
    buf_release(&a);
    buf_release(&b);
    mem_free(a_path);
    mem_free(b_path);
    return same;
}

struct told {
    uint64_t count, done, total;
    bool rises;
};
static void note_progress(void *ctx, uint64_t done, uint64_t total) {
    struct told *told = ctx;
    told->rises = told->rises && done > told->done && done <= total;
    told->count++;
    told->done = done;
    told->total = total;
}

/* A call for each matrix that changes; the last one near the end. */
TEST(quantizing_at_load_tells_how_far_it_is) {
    struct told told = {.rises = true};
    struct model_options options = {
        .dir = MODEL, .quantize = STORAGE_I8, .progress = note_progress, .progress_ctx = &told};
    struct model m = {0};
    struct buf config;
    struct error err;
    uint64_t changed = 0;
    buf_init(&config, 0);
    EXPECT_EQ(model_open_files(&m, &options, &config, &err), 0);
    for (size_t i = 0; i < m.files.tensor_count; i++)
        changed += m.files.tensors[i].scales != NULL;
    EXPECT(changed > m.spec.layer_count && told.count == changed);
    EXPECT(told.rises && told.done * 10 > told.total * 8);
    model_close(&m);
    buf_release(&config);
}

static void drop(const char *path) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command))
        check_fail(__FILE__, __LINE__, "%s", command);
}

static bool new_dir(void) {
    snprintf(dir, sizeof dir, "/tmp/trm-convert-XXXXXX");
    return mkdtemp(dir) != NULL;
}

TEST(a_folder_comes_back_unchanged_from_gguf) {
    static const char *const TEXTS[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                        "generation_config.json", "special_tokens_map.json"};
    struct safetensors a, b;
    struct error err = {0};
    EXPECT(new_dir());
    char *gguf = in_dir("m.gguf"), *back = in_dir("back");
    EXPECT_EQ(run_quietly(convert_main, MODEL, gguf, NULL), 0);
    EXPECT_EQ(run_quietly(convert_main, gguf, back, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++)
        if (!same_file(MODEL, back, TEXTS[i]))
            check_fail(__FILE__, __LINE__, "%s has changed", TEXTS[i]);
    EXPECT(!safetensors_open(&a, MODEL, &err) && !safetensors_open(&b, back, &err));
    EXPECT_EQ(a.tensor_count, b.tensor_count);
    for (size_t i = 0; i < a.tensor_count; i++) {
        const struct tensor *x = &a.tensors[i], *y = &b.tensors[i];
        if (strcmp(x->name, y->name) || x->type != y->type || x->byte_len != y->byte_len ||
            memcmp(x->dims, y->dims, sizeof x->dims) || memcmp(x->data, y->data, x->byte_len))
            check_fail(__FILE__, __LINE__, "'%s' has changed", x->name);
    }
    safetensors_close(&a);
    safetensors_close(&b);
    drop(dir);
    mem_free(gguf);
    mem_free(back);
}

/* ---- likelihood ---- */

struct score {
    const struct token_vec *ids;
    uint32_t vocab;
    double sum;
};

static bool add(void *ctx, uint32_t first, const float *logits, uint32_t count) {
    struct score *s = ctx;
    for (uint32_t i = 0; i < count && first + i + 1 < s->ids->count; i++, logits += s->vocab) {
        double sum = 0;
        for (uint32_t v = 0; v < s->vocab; v++)
            sum += exp((double)logits[v] - 40);
        s->sum += log(sum) + 40 - (double)logits[s->ids->items[first + i + 1]];
    }
    return true;
}

static double mean_nll_as(const char *model, const struct token_vec *ids,
                          enum storage_type quantize, enum storage_type kv) {
    struct scorer s;
    struct error err = {0};
    struct score score = {.ids = ids};
    struct scorer_options options = {
        .model = model, .thread_count = 1, .quantize = quantize, .kv = kv, .compute = "f32"};
    if (scorer_open(&s, &options, &err)) {
        check_fail(__FILE__, __LINE__, "%s: %s", model, err.text);
        return NAN;
    }
    score.vocab = s.model.spec.vocab;
    if (scorer_run(&s, ids->items, ids->count, NULL, 0, add, &score, &err))
        check_fail(__FILE__, __LINE__, "%s: %s", model, err.text);
    scorer_close(&s);
    return score.sum / (double)(ids->count - 1);
}

static double mean_nll(const char *model, const struct token_vec *ids) {
    return mean_nll_as(model, ids, STORAGE_NONE, STORAGE_NONE);
}

/* The bundled model with its matrices quantized at load and decoded again, as a folder of f32. */
static bool write_decoded(const char *out, enum storage_type quantize) {
    struct model m = {0};
    struct buf config;
    struct error err = {0};
    struct export_plan plan = {0};
    struct model_options options = {.dir = MODEL, .quantize = quantize};
    buf_init(&config, 0);
    bool ok = !model_open_files(&m, &options, &config, &err);
    struct export_options o = {.matrices = STORAGE_F32, .vectors = TENSOR_TYPE_COUNT};
    o.arch = ok ? gguf_arch_for(&m.spec, &err) : NULL;
    char *weights = path_join(out, "model.safetensors"), *path = path_join(out, "config.json");
    ok = ok && !dir_make(out, 0755, &err) && !export_plan_make(&plan, &m, &o, &err) &&
         !export_write_safetensors(weights, &plan, &err) &&
         !file_write_atomic(path, config.data, config.len, 0644, &err);
    if (!ok)
        check_fail(__FILE__, __LINE__, "%s", err.text);
    export_plan_release(&plan);
    model_close(&m);
    buf_release(&config);
    mem_free(weights);
    mem_free(path);
    return ok;
}

static void check_online(const struct token_vec *ids, double plain) {
    for (int i = 1; i < 4; i++) {
        enum storage_type type = SCORER_QUANTIZE[i];
        char *dense = in_dir(storage_name(type));
        if (!write_decoded(dense, type))
            return;
        double quantized = mean_nll_as(MODEL, ids, type, STORAGE_NONE),
               decoded = mean_nll(dense, ids);
        printf("# %-6s mean nll %.5f, with decoded weights %.5f (at load)\n", storage_name(type),
               quantized, decoded);
        if (!(fabs(quantized - decoded) <= 1e-3) || quantized == plain)
            check_fail(__FILE__, __LINE__,
                       "%s at load: mean nll %g, with decoded weights %g, as is %g",
                       storage_name(type), quantized, decoded, plain);
        mem_free(dense);
    }
}

/* Folders that quantize writes, as compressed-tensors has them: the network that quantising at load
 * makes. */
static void check_folders(const struct token_vec *ids) {
    for (int i = 1; i < 4; i++) {
        enum storage_type type = SCORER_QUANTIZE[i];
        struct error err = {0};
        struct safetensors set = {0};
        char *out = in_dir("folder"), *again = in_dir("again");
        EXPECT_EQ(run_quietly(quantize_main, MODEL, out, storage_name(type)), 0);
        double written = mean_nll(out, ids), at_load = mean_nll_as(MODEL, ids, type, STORAGE_NONE);
        printf("# %-6s mean nll %.5f (folder)\n", storage_name(type), written);
        if (written != at_load)
            check_fail(__FILE__, __LINE__, "%s: mean nll %g, quantized at load %g",
                       storage_name(type), written, at_load);
        EXPECT(same_file(MODEL, out, "tokenizer.json") && !same_file(MODEL, out, "config.json"));
        EXPECT_EQ(safetensors_open(&set, out, &err), 0);
        const char *part = type == STORAGE_U4 ? "weight_packed" : "weight";
        char name[128];
        snprintf(name, sizeof name, "model.layers.0.mlp.down_proj.%s", part);
        const struct tensor *t = safetensors_find(&set, name),
                            *s =
                                safetensors_find(&set, "model.layers.0.mlp.down_proj.weight_scale");
        EXPECT(t && s && t->dims[0] == 256 && t->dims[1] == (type == STORAGE_U4 ? 768 / 8 : 768));
        EXPECT(s->dim_count == 2 && s->dims[0] == 256 &&
               s->dims[1] == (type == STORAGE_U4 ? 768 / 128 : 1));
        safetensors_close(&set);
        EXPECT_EQ(run_quietly(quantize_main, out, again, "int8"), 1); /* it is quantized already */
        drop(out);
        mem_free(out);
        mem_free(again);
    }
}

/* f32 rounds nothing, the 16-bit types little; fp8 has 4 bits: its effect is measured and must be
 * there. */
static void check_caches(const struct token_vec *ids) {
    static const enum storage_type CACHES[] = {STORAGE_F16, STORAGE_BF16, STORAGE_F8_E4M3,
                                               STORAGE_I8};
    static const double ALLOWED[] = {1e-3, 1e-2, 0.1, 1e-2};
    double exact = mean_nll_as(MODEL, ids, STORAGE_NONE, STORAGE_F32);
    for (size_t i = 0; i < ARRAY_LEN(CACHES); i++) {
        double nll = mean_nll_as(MODEL, ids, STORAGE_NONE, CACHES[i]);
        printf("# cache %-5s mean nll %.5f, f32 %.5f\n", storage_name(CACHES[i]), nll, exact);
        if (!(fabs(nll - exact) <= ALLOWED[i]) || nll == exact)
            check_fail(__FILE__, __LINE__, "cache %s: mean nll %g, f32 %g", storage_name(CACHES[i]),
                       nll, exact);
    }
}

TEST(every_written_type_has_the_likelihood_of_its_decoded_weights) {
    struct buf packed;
    struct bundle bundle;
    struct tokenizer *t = NULL;
    struct token_vec ids = {0};
    struct error err = {0};
    buf_init(&packed, 0);
    EXPECT(new_dir() && !bundle_pack(MODEL, &packed, &err) &&
           !bundle_open(&bundle, buf_bytes(&packed), &err));
    EXPECT(!tokenizer_load_bundle(&bundle, &t, &err));
    EXPECT(!tokenizer_encode(t, bytes_str(TEXT), TOKENIZE_ADD_SPECIAL, &ids, &err));
    double plain = mean_nll(MODEL, &ids);
    printf("# %-6s mean nll %.5f over %zu tokens\n", "as is", plain, ids.count - 1);
    char *gguf = in_dir("m.gguf"), *dense = in_dir("dense");
    for (int type = STORAGE_F32; type <= STORAGE_Q6_K; type++) {
        const char *name = storage_name((enum storage_type)type);
        if (!storage_can_encode((enum storage_type)type))
            continue;
        EXPECT_EQ(run_quietly(quantize_main, MODEL, gguf, name), 0);
        EXPECT_EQ(run_quietly(convert_main, gguf, dense, "f32"), 0);
        double quantized = mean_nll(gguf, &ids), decoded = mean_nll(dense, &ids);
        printf("# %-6s mean nll %.5f, with decoded weights %.5f\n", name, quantized, decoded);
        if (!(fabs(quantized - decoded) <= 1e-3))
            check_fail(__FILE__, __LINE__, "%s: mean nll %g, with decoded weights %g", name,
                       quantized, decoded);
        if (type <= STORAGE_BF16 && !(fabs(quantized - plain) <= 2e-3))
            check_fail(__FILE__, __LINE__, "%s: mean nll %g, as is %g", name, quantized, plain);
    }
    check_online(&ids, plain);
    check_folders(&ids);
    check_caches(&ids);
    vec_release(&ids);
    tokenizer_free(&t);
    buf_release(&packed);
    drop(dir);
    mem_free(gguf);
    mem_free(dense);
}
