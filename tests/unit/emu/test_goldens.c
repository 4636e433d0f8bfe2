/*
 * The goldens of tests/goldens/models on the emulated device, in f32: logits of one prefill and of
 * mixed chunks within the tolerance of the CPU's test. Short: a few kinds of layer. LONG=1: all.
 * TRIREME_GOLDEN=NAME: one.
 */
#include "machine.h"
#include "model/mxfp4_model.h"
#include "model/run/ffn_moe_weights.h"

void emu_set_device(int arch, int compiled);

static const double TOLERANCE = 1e-4;
enum { ROWS = 96 };

/* All positions' logits, [count, vocab], computed in chunks; of output class: each, or every other one. */
static float *chunks_of(struct machine *m, uint32_t slot, const uint32_t *tokens, uint32_t count,
                        uint32_t chunk, bool each) {
    uint32_t vocab = m->model.spec.vocab;
    float *out = calloc((size_t)count * vocab, sizeof *out);
    machine_admit(m, slot, tokens, count, (struct slot_state){0});
    for (uint32_t at = 0, k = 0; at < count; at += chunk, k++)
        if (!machine_step(m, slot, MIN(chunk, count - at), each || k % 2, out + (size_t)at * vocab))
            break;
    slots_remove(&m->slots, m->stream, slot);
    return out;
}

static float *logits_of(struct machine *m, uint32_t slot, const uint32_t *tokens, uint32_t count,
                        uint32_t chunk) {
    return chunks_of(m, slot, tokens, count, chunk, false);
}

static void check_golden(const char *name) {
    struct model_golden g;
    struct machine m;
    char path[256], dir[] = "/tmp/trireme-emugold-XXXXXX";
    static const uint32_t chunks[] = {ROWS, 37};
    snprintf(path, sizeof path, TRIREME_SOURCE_DIR "/tests/goldens/models/%s.json", name);
    if (!mkdtemp(dir) || !model_golden_read(&g, path) || !golden_put_model(&g, dir, STORAGE_F32)) {
        check_fail(__FILE__, __LINE__, "%s cannot be read or written", name);
        return;
    }
    if (machine_open(&m, dir, "cuda", STORAGE_F32, STORAGE_F32)) {
        for (uint32_t c = 0; c < ARRAY_LEN(chunks); c++) {
            float *logits = logits_of(&m, c, g.tokens, g.token_count, chunks[c]);
            double error = golden_error(logits, g.logits, g.rows, g.row_count, g.vocab);
            if (!(error <= TOLERANCE))
                check_fail(__FILE__, __LINE__, "%s, chunks of %u: relative error %.3g", name,
                           chunks[c], error);
            free(logits);
        }
    }
    machine_close(&m);
    golden_drop_dir(dir);
    model_golden_free(&g);
}

TEST(goldens_hold_on_the_emulated_device) {
    static const char *const FEW[] = {"llama3", "mixtral", "gpt_oss", "deepseek_v3",
                                      "oxidizr-mamba3-mimo"};
    const char *set = getenv("LONG"), *only = getenv("TRIREME_GOLDEN");
    if (only) {
        check_golden(only);
        return;
    }
    DIR *d = set && *set == '1' ? opendir(TRIREME_SOURCE_DIR "/tests/goldens/models") : NULL;
    struct dirent *e;
    for (size_t i = 0; !d && i < ARRAY_LEN(FEW); i++)
        check_golden(FEW[i]);
    while (d && (e = readdir(d))) {
        char name[200];
        size_t stem = strcspn(e->d_name, ".");
        if (strcmp(e->d_name + stem, ".json"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)stem, e->d_name);
        check_golden(name);
    }
    if (d)
        closedir(d);
}

/* A mixture whose experts lie in units, which one launch multiplies: the CPU's logits, but for what rounding to
 * bf16 costs: two layers round some twenty times, each by 2^-9 at most. */
TEST(experts_in_mxfp4_lie_in_units_and_give_the_cpus_logits) {
    static const int ARCHS[] = {90, 80};
    char dir[] = "/tmp/trireme-emuexperts-XXXXXX";
    uint32_t tokens[M_TOKENS];
    struct machine m;
    for (uint32_t i = 0; i < M_TOKENS; i++)
        tokens[i] = (i * 7 + 3) % M_VOCAB;
    if (!mkdtemp(dir))
        abort();
    put_mxfp4_model(dir, true);
    if (!machine_open(&m, dir, "cpu", STORAGE_NONE, STORAGE_F32))
        return;
    float *want = logits_of(&m, 0, tokens, M_TOKENS, M_TOKENS);
    machine_close(&m);
    for (size_t i = 0; i < ARRAY_LEN(ARCHS); i++) {
        double difference = 0, size = 0;
        emu_set_device(ARCHS[i], ARCHS[i]);
        if (!machine_open(&m, dir, "cuda", STORAGE_BF16, STORAGE_BF16))
            break;
        const struct moe_weights *w = m.model.weights.layers[1].ffn;
        EXPECT(w->up.packed && w->down.packed);
        float *got = logits_of(&m, 0, tokens, M_TOKENS, 10);
        for (size_t at = 0; at < (size_t)M_TOKENS * M_VOCAB; at++) {
            difference += pow((double)got[at] - want[at], 2);
            size += pow(want[at], 2);
        }
        if (!(sqrt(difference / size) <= 20 * 0x1p-9))
            check_fail(__FILE__, __LINE__, "sm_%d: logits differ by %g of their size", ARCHS[i],
                       sqrt(difference / size));
        fprintf(stderr, "sm_%d: logits differ by %g\n", ARCHS[i], sqrt(difference / size));
        free(got);
        machine_close(&m);
    }
    emu_set_device(90, 90);
    free(want);
    golden_drop_dir(dir);
}

/* A mixture in bf16 whose norms are made by the products and sums around them in steps of up to 8 rows, and
 * by the sums of experts in larger ones: a row has the same bits in either, and alone. */
TEST(a_mixtures_rows_have_the_same_bits_in_small_steps_and_in_large_ones) {
    static const uint32_t CHUNKS[] = {M_TOKENS, 1, 8, 9};
    static const struct m_shape shape = {64, 4, STORAGE_BF16};
    char dir[] = "/tmp/trireme-emumixture-XXXXXX";
    uint32_t tokens[M_TOKENS];
    struct machine m;
    float *first = NULL;
    for (uint32_t i = 0; i < M_TOKENS; i++)
        tokens[i] = (i * 5 + 1) % M_VOCAB;
    if (!mkdtemp(dir))
        abort();
    put_model_of(dir, &shape, false);
    if (machine_open(&m, dir, "cuda", STORAGE_BF16, STORAGE_BF16)) {
        const struct moe_weights *w = m.model.weights.layers[1].ffn;
        EXPECT(m.dev->ops->folds_norm(m.dev, &w->router, 8));
        for (uint32_t c = 0; c < ARRAY_LEN(CHUNKS); c++) {
            float *got = chunks_of(&m, c, tokens, M_TOKENS, CHUNKS[c], true);
            if (first && memcmp(first, got, sizeof *got * M_TOKENS * M_VOCAB))
                check_fail(__FILE__, __LINE__, "steps of %u rows have other bits", CHUNKS[c]);
            if (first)
                free(got);
            else
                first = got;
        }
        free(first);
    }
    machine_close(&m);
    golden_drop_dir(dir);
}
