/*
 * trireme convert and quantize on the bundled model: a folder comes back unchanged from GGUF; and in every type that
 * can be written, the network has the mean negative log-likelihood of the f32 network with the decoded weights.
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
#include "text/tokenizer.h"

static const char MODEL[] = TRIREME_SOURCE_DIR "/demo/model";
static const char TEXT[] =
    "Once upon a time there was a small ship. It had three rows of oars, and every oar knew its place. One day the "
    "wind "
    "was gone, and the sea was flat. The captain said: row! And the ship went home. The end. Trireme serves large "
    "language models. It is built from three small kinds of process, so that a fault stays small.";
static char dir[64];

static char *in_dir(const char *name) { return path_join(dir, name); }

static int run_quietly(int (*command)(int, char **), const char *a, const char *b, const char *c) {
    char *argv[] = {(char *)"x", (char *)"--model", (char *)a, (char *)"--out", (char *)b, (char *)"--type", (char *)c};
    return command(c ? 7 : 5, argv);
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

static void drop(const char *path) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command)) check_fail(__FILE__, __LINE__, "%s", command);
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
        if (!same_file(MODEL, back, TEXTS[i])) check_fail(__FILE__, __LINE__, "%s has changed", TEXTS[i]);
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
        for (uint32_t v = 0; v < s->vocab; v++) sum += exp((double)logits[v] - 40);
        s->sum += log(sum) + 40 - (double)logits[s->ids->items[first + i + 1]];
    }
    return true;
}

static double mean_nll(const char *model, const struct token_vec *ids) {
    struct scorer s;
    struct error err = {0};
    struct score score = {.ids = ids};
    if (scorer_open(&s, &(struct scorer_options){.model = model, .thread_count = 1, .compute_f32 = true}, &err)) {
        check_fail(__FILE__, __LINE__, "%s: %s", model, err.text);
        return NAN;
    }
    score.vocab = s.model.spec.vocab;
    if (scorer_run(&s, ids->items, ids->count, NULL, 0, add, &score, &err))
        check_fail(__FILE__, __LINE__, "%s: %s", model, err.text);
    scorer_close(&s);
    return score.sum / (double)(ids->count - 1);
}

TEST(every_written_type_has_the_likelihood_of_its_decoded_weights) {
    struct buf packed;
    struct bundle bundle;
    struct tokenizer *t = NULL;
    struct token_vec ids = {0};
    struct error err = {0};
    buf_init(&packed, 0);
    EXPECT(new_dir() && !bundle_pack(MODEL, &packed, &err) && !bundle_open(&bundle, buf_bytes(&packed), &err));
    EXPECT(!tokenizer_load_bundle(&bundle, &t, &err));
    EXPECT(!tokenizer_encode(t, bytes_str(TEXT), TOKENIZE_ADD_SPECIAL, &ids, &err));
    double plain = mean_nll(MODEL, &ids);
    printf("# %-6s mean nll %.5f over %zu tokens\n", "as is", plain, ids.count - 1);
    char *gguf = in_dir("m.gguf"), *dense = in_dir("dense");
    for (int type = STORAGE_F32; type <= STORAGE_Q6_K; type++) {
        const char *name = storage_name((enum storage_type)type);
        if (!storage_can_encode((enum storage_type)type)) continue;
        EXPECT_EQ(run_quietly(quantize_main, MODEL, gguf, name), 0);
        EXPECT_EQ(run_quietly(convert_main, gguf, dense, "f32"), 0);
        double quantised = mean_nll(gguf, &ids), decoded = mean_nll(dense, &ids);
        printf("# %-6s mean nll %.5f, with decoded weights %.5f\n", name, quantised, decoded);
        if (!(fabs(quantised - decoded) <= 1e-3))
            check_fail(__FILE__, __LINE__, "%s: mean nll %g, with decoded weights %g", name, quantised, decoded);
        if (type <= STORAGE_BF16 && !(fabs(quantised - plain) <= 2e-3))
            check_fail(__FILE__, __LINE__, "%s: mean nll %g, as is %g", name, quantised, plain);
    }
    vec_release(&ids);
    tokenizer_free(&t);
    buf_release(&packed);
    drop(dir);
    mem_free(gguf);
    mem_free(dense);
}
