/* What a worker tells of itself once it has loaded a model: sizes by its options, what becomes of prompts, and the
 * fingerprint. All of its memory comes back, which sanitized runs see. */
#include "check.h"
#include "worker/load.h"

#include <stdio.h>
#include <stdlib.h>

#define DEMO       TRIREME_SOURCE_DIR "/demo/model"
#define EMBEDDINGS TRIREME_SOURCE_DIR "/tests/goldens/embeddings/"
enum { WORDS_MAX = 24 };

static struct worker_progress progress;
static struct loaded loaded;
static struct error err;

/* Loads with small sizes, unless these words, which end with NULL, say otherwise. */
static int load(const char *model, const char *const *words) {
    static const char *const SMALL[] = {"--device=cpu", "--threads=1",          "--slots=4",
                                        "--blocks=64",  "--max-step-tokens=64", "--cache-dir=none"};
    struct worker_settings settings;
    char *argv[WORDS_MAX] = {(char[]){"worker"}};
    int argc = 1;
    size_t rest;
    loaded = (struct loaded){0};
    for (size_t i = 0; i < ARRAY_LEN(SMALL); i++)
        argv[argc++] = mem_strdup(SMALL[i]);
    argv[argc++] = mem_strdup("--model");
    argv[argc++] = mem_strdup(model);
    for (; *words && argc < WORDS_MAX; words++)
        argv[argc++] = mem_strdup(*words);
    int rc = option_parse(&worker_options, &settings, argc, argv, NULL, 0, &rest, &err);
    if (!rc) {
        rc = worker_load(&loaded, &settings, &progress, &err);
        option_free(&worker_options, &settings);
    }
    for (int i = 1; i < argc; i++)
        mem_free(argv[i]);
    return rc;
}
/* What is not given back has nobody who knows it then. */
static void unload(void) {
    loaded_release(&loaded);
    loaded = (struct loaded){0};
}

#define LOAD(model, ...) load(model, (const char *const[]){__VA_ARGS__, NULL})

TEST(a_worker_tells_its_sizes) {
    uint64_t before = atomic_load(&progress.count);
    EXPECT_EQ(LOAD(DEMO, NULL), 0);
    const struct wire_hello *a = &loaded.about;
    EXPECT(bytes_equal(a->model, bytes_str("demo")));
    EXPECT(a->bundle_bytes == loaded.bundle.len && a->bundle_bytes > 1000);
    EXPECT_EQ(a->slot_count, 4);
    EXPECT_EQ(a->max_step_tokens, 64);
    EXPECT_EQ(a->max_context, 2048);
    EXPECT_EQ(a->logits_width, 3072);
    EXPECT_EQ(a->steps_in_flight, 2);
    EXPECT(!a->class_sensitive && !a->snapshot_count && !a->vectors.pooling);
    EXPECT(a->group_count == 1 && a->groups[0].kind == WIRE_GROUP_FULL);
    EXPECT_EQ(a->groups[0].block_tokens, 32);
    EXPECT_EQ(a->groups[0].block_count, 64);
    EXPECT_EQ(a->groups[0].window_tokens, 0);
    EXPECT_EQ(a->groups[0].block_bytes, 32 * 2560); /* as f16, five layers of two heads of 64 */
    EXPECT(!u128_is_zero(a->revision) && !u128_is_zero(a->bundle));
    EXPECT(atomic_load(&progress.count) > before);
    unload();
}

TEST(a_workers_options_are_its_sizes) {
    static const struct {
        const char *option;
        uint32_t slots, step, context, block_tokens, blocks, block_bytes;
    } ROWS[] = {
        {"--slots=7", 7, 64, 2048, 32, 64, 81920},
        {"--max-step-tokens=128", 4, 128, 2048, 32, 64, 81920},
        {"--max-context=512", 4, 64, 512, 32, 64, 81920},
        {"--max-context=2049", 4, 64, 2048, 32, 64, 81920},
        {"--block-tokens=16", 4, 64, 2048, 16, 64, 40960},
        {"--blocks=65", 4, 64, 2048, 32, 65, 81920},
        {"--kv-type=f32", 4, 64, 2048, 32, 64, 163840},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        EXPECT_EQ(LOAD(DEMO, ROWS[i].option), 0);
        const struct wire_hello *a = &loaded.about;
        if (a->slot_count != ROWS[i].slots || a->max_step_tokens != ROWS[i].step ||
            a->max_context != ROWS[i].context ||
            a->groups[0].block_tokens != ROWS[i].block_tokens ||
            a->groups[0].block_count != ROWS[i].blocks ||
            a->groups[0].block_bytes != ROWS[i].block_bytes)
            check_fail(__FILE__, __LINE__, "%s: %u slots, steps of %u, context %u, %u blocks of %u",
                       ROWS[i].option, a->slot_count, a->max_step_tokens, a->max_context,
                       a->groups[0].block_count, a->groups[0].block_tokens);
        unload();
    }
}

TEST(what_becomes_of_prompts_is_told) {
    static const struct {
        const char *model, *option;
        struct wire_vectors vectors;
    } ROWS[] = {
        {DEMO, "--pooling=none", {0}},
        {DEMO, "--pooling=auto", {0}},
        {DEMO, "--pooling=last", {.pooling = WIRE_POOLING_LAST, .width = 256, .normalize = true}},
        {DEMO, "--pooling=mean", {.pooling = WIRE_POOLING_MEAN, .width = 256, .normalize = true}},
        {DEMO, "--pooling=cls", {.pooling = WIRE_POOLING_CLS, .width = 256, .normalize = true}},
        {DEMO, "--pooling=max", {.pooling = WIRE_POOLING_MAX, .width = 256, .normalize = true}},
        {EMBEDDINGS "qwen3-last",
         NULL,
         {.pooling = WIRE_POOLING_LAST, .normalize = true, .only = true}},
        {EMBEDDINGS "bert-mean",
         NULL,
         {.pooling = WIRE_POOLING_MEAN, .normalize = true, .whole_prompts = true, .only = true}},
        {EMBEDDINGS "bert-max",
         NULL,
         {.pooling = WIRE_POOLING_MAX, .whole_prompts = true, .only = true}},
        {EMBEDDINGS "xlm-roberta-cls",
         NULL,
         {.pooling = WIRE_POOLING_CLS, .normalize = true, .whole_prompts = true, .only = true}},
        {EMBEDDINGS "xlm-roberta-rank",
         NULL,
         {.pooling = WIRE_POOLING_CLS,
          .width = 1,
          .whole_prompts = true,
          .only = true,
          .scores = true}},
        {EMBEDDINGS "modernbert-mean",
         NULL,
         {.pooling = WIRE_POOLING_MEAN, .normalize = true, .whole_prompts = true, .only = true}},
        {EMBEDDINGS "gemma-dense",
         NULL,
         {.pooling = WIRE_POOLING_MEAN,
          .width = 24,
          .normalize = true,
          .whole_prompts = true,
          .only = true}},
        {EMBEDDINGS "bert-rank-bare",
         NULL,
         {.pooling = WIRE_POOLING_CLS,
          .width = 1,
          .whole_prompts = true,
          .only = true,
          .scores = true,
          .bare = true}},
        {EMBEDDINGS "modernbert-rank",
         NULL,
         {.pooling = WIRE_POOLING_MEAN,
          .width = 1,
          .whole_prompts = true,
          .only = true,
          .scores = true}},
        {EMBEDDINGS "bert-classes",
         NULL,
         {.pooling = WIRE_POOLING_CLS,
          .width = 3,
          .whole_prompts = true,
          .only = true,
          .scores = true,
          .softmax = true}},
        {EMBEDDINGS "modernbert-tags",
         NULL,
         {.pooling = WIRE_POOLING_MEAN,
          .width = 4,
          .whole_prompts = true,
          .only = true,
          .scores = true}},
        {EMBEDDINGS "qwen3-rank",
         NULL,
         {.pooling = WIRE_POOLING_LAST, .width = 1, .only = true, .scores = true}},
        {DEMO,
         "--score-tokens=Yes,No",
         {.pooling = WIRE_POOLING_LAST, .width = 1, .only = true, .scores = true}},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct wire_vectors want = ROWS[i].vectors;
        if (LOAD(ROWS[i].model, ROWS[i].option))
            check_fail(__FILE__, __LINE__, "row %zu: %s", i, err.text);
        const struct wire_vectors *v = &loaded.about.vectors;
        if (want.pooling && !want.width)
            want.width = loaded.model.spec.hidden;
        if (v->pooling != want.pooling || v->width != want.width ||
            v->normalize != want.normalize || v->whole_prompts != want.whole_prompts ||
            v->only != want.only || v->scores != want.scores || v->bare != want.bare ||
            v->softmax != want.softmax)
            check_fail(__FILE__, __LINE__, "row %zu: pooling %d of %u, %d %d %d %d %d %d", i,
                       (int)v->pooling, v->width, v->normalize, v->whole_prompts, v->only,
                       v->scores, v->bare, v->softmax);
        unload();
    }
    EXPECT_EQ(LOAD(EMBEDDINGS "bert-mean", "--pooling=none"), ERR_INVALID);
    EXPECT(strstr(err.text, "the model has no head, so it writes no text: say with --pooling"));
    unload();
}

/* The head of two tokens is the difference of their rows: turned round it is the opposite. */
TEST(a_score_of_two_tokens_is_their_difference) {
    float weights[2][256];
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(LOAD(DEMO, i ? "--score-tokens=No, Yes" : "--score-tokens=Yes,No"), 0);
        const struct vector_head *head = loaded_head(&loaded);
        EXPECT(head && head->count == 1 && head->layers[0].in == ARRAY_LEN(weights[i]));
        memcpy(weights[i], head->layers[0].weight, sizeof weights[i]);
        unload();
    }
    float most = 0;
    for (size_t k = 0; k < ARRAY_LEN(weights[0]); k++) {
        EXPECT(weights[0][k] == -weights[1][k]);
        most = MAX(most, weights[0][k]);
    }
    EXPECT(most > 0);
}

/* What may change a bit of an answer is another fingerprint; nothing else is, and the revision is the model's alone. */
TEST(fingerprints_differ_where_bits_may) {
    static const struct {
        const char *option;
        bool same;
    } ROWS[] = {{"--threads=2", true},   {"--slots=9", true},      {"--max-context=100", true},
                {"--blocks=70", true},   {"--kv-type=f32", false}, {"--isa=scalar", false},
                {"--compute=f32", false}};
    EXPECT_EQ(LOAD(DEMO, "--compute=bf16"), 0);
    struct u128 revision = loaded.about.revision, bundle = loaded.about.bundle;
    unload();
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        EXPECT_EQ(LOAD(DEMO, NULL), 0);
        struct u128 usual = loaded.about.fingerprint;
        unload();
        EXPECT_EQ(LOAD(DEMO, ROWS[i].option), 0);
        if (u128_equal(loaded.about.fingerprint, usual) != ROWS[i].same)
            check_fail(__FILE__, __LINE__, "%s: another than expected", ROWS[i].option);
        EXPECT(u128_equal(loaded.about.revision, revision) &&
               u128_equal(loaded.about.bundle, bundle));
        unload();
    }
}

TEST(what_cannot_be_loaded_is_told) {
    static const struct {
        const char *model, *option, *text;
    } ROWS[] = {
        {"", NULL, "no model was given; use --model FOLDER"},
        {"/no/such/folder", NULL, "/no/such/folder"},
        {DEMO, "--vocab=none", "--vocab 'none' is neither a file nor a vocabulary known by name: "},
        {DEMO, "--isa=none", "none"},
        {DEMO, "--score-tokens=Yes", "--score-tokens 'Yes' is no pair of tokens"},
        {DEMO, "--score-tokens=Yes,No,a", "--score-tokens 'Yes,No,a' is no pair of tokens"},
        {DEMO, "--score-tokens=Yes,none such", "the model has no token 'none such'"},
        {DEMO, "--score-tokens=none such,No", "the model has no token 'none such'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        if (!LOAD(ROWS[i].model, ROWS[i].option) || !strstr(err.text, ROWS[i].text))
            check_fail(__FILE__, __LINE__, "row %zu: %s", i, err.text);
        unload();
    }
}

TEST(names_that_are_given_are_told) {
    EXPECT_EQ(LOAD(DEMO, "--served-model-name=my,other"), 0);
    EXPECT(bytes_equal(loaded.about.model, bytes_str("my")));
    unload();
}
