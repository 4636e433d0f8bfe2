/* What a model's files say of its embeddings. */
#include "check.h"
#include "model/read/pooling.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *dir, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

#define MODULE(path, type)                                                                         \
    "{\"idx\":0,\"path\":\"" path "\",\"type\":\"sentence_transformers." type "\"}"
#define NETWORK MODULE("", "models.Transformer")
#define POOLED  "[" NETWORK "," MODULE("1_Pooling", "models.Pooling") "]"

#define POOLED_AND(more) "[" NETWORK "," MODULE("1_Pooling", "models.Pooling") "," more "]"
#define DENSE            MODULE("", "models.Dense")
#define MEAN             "{\"pooling_mode_mean_tokens\":true}"

TEST(modules_say_how_embeddings_are_pooled) {
    static const struct {
        const char *modules, *pooling;
        int rc;
        enum pooling kind;
        bool normalize;
        const char *error;
    } cases[] = {
        {NULL, NULL, 0, POOLING_NONE, false, NULL},
        {"[" NETWORK "]", NULL, 0, POOLING_NONE, false, NULL},
        {POOLED, "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false}", 0,
         POOLING_CLS, false, NULL},
        {POOLED, "{\"pooling_mode_mean_tokens\":true}", 0, POOLING_MEAN, false, NULL},
        {POOLED, "{\"pooling_mode_max_tokens\":true}", 0, POOLING_MAX, false, NULL},
        {POOLED, "{\"pooling_mode_lasttoken\":true,\"include_prompt\":true}", 0, POOLING_LAST,
         false, NULL},
        {POOLED, "{\"pooling_mode\":\"lasttoken\"}", 0, POOLING_LAST, false, NULL},
        {"[" NETWORK
         "," MODULE("1_Pooling", "sentence_transformer.modules.pooling.Pooling") "," MODULE(
             "2_Normalize", "base.modules.normalize.Normalize") "]",
         "{\"pooling_mode\":\"mean\"}", 0, POOLING_MEAN, true, NULL},
        {POOLED, "{\"pooling_mode_weightedmean_tokens\":true}", ERR_UNSUPPORTED, POOLING_NONE,
         false, "weightedmean"},
        {POOLED, "{\"pooling_mode_cls_token\":true,\"pooling_mode_max_tokens\":true}",
         ERR_UNSUPPORTED, POOLING_NONE, false, "2 ways"},
        {POOLED, "{}", ERR_UNSUPPORTED, POOLING_NONE, false, "0 ways"},
        {"[" NETWORK "," MODULE("2_CNN", "models.CNN") "]", NULL, ERR_UNSUPPORTED, POOLING_NONE,
         false, "'CNN'"},
        {"[" NETWORK "," MODULE("2_Dense", "models.Dense") "]", NULL, ERR_UNSUPPORTED, POOLING_NONE,
         false, "'Dense' where it is not offered"},
        {POOLED_AND(MODULE("2_Normalize", "models.Normalize") "," DENSE), MEAN, ERR_UNSUPPORTED,
         POOLING_NONE, false, "'Dense' where it is not offered"},
        {POOLED_AND(DENSE), MEAN, ERR_INVALID, POOLING_NONE, false, "'in_features'"},
        {"[" MODULE("../x", "models.Pooling") "]", NULL, ERR_INVALID, POOLING_NONE, false,
         "outside"},
        {"[" MODULE("/etc", "models.Pooling") "]", NULL, ERR_INVALID, POOLING_NONE, false,
         "outside"},
        {"[{", NULL, ERR_INVALID, POOLING_NONE, false, ""},
    };
    char dir[] = "/tmp/trireme-pooling-XXXXXX", command[128], inner[64];
    CHECK(mkdtemp(dir));
    snprintf(inner, sizeof inner, "%s/1_Pooling", dir);
    CHECK(mkdir(inner, 0700) == 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct pooling_spec spec;
        struct error err = {0};
        if (cases[i].modules)
            put(dir, "modules.json", cases[i].modules);
        if (cases[i].pooling)
            put(dir, "1_Pooling/config.json", cases[i].pooling);
        int rc = pooling_read(dir, &spec, &err);
        EXPECT_EQ(rc, cases[i].rc);
        if (rc == 0)
            EXPECT(spec.kind == cases[i].kind && spec.normalize == cases[i].normalize);
        else if (!strstr(err.text, cases[i].error))
            check_fail(__FILE__, __LINE__, "case %zu: '%s'", i, err.text);
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
}

/* What cannot be computed as its config says is refused by name. */
TEST(layers_that_we_lack_are_refused) {
    static const struct {
        const char *config, *error;
    } CASES[] = {
        {"{\"in_features\":32,\"out_features\":0}", "'out_features'"},
        {"{\"in_features\":32,\"out_features\":8,\"use_residual\":true}", "'use_residual'"},
        {"{\"in_features\":32,\"out_features\":8,\"module_input_name\":\"token_embeddings\"}",
         "'sentence_embedding'"},
        {"{\"in_features\":32,\"out_features\":8,"
         "\"activation_function\":\"torch.nn.modules.activation.Mish\"}",
         "'torch.nn.modules.activation.Mish'"},
        {"{\"in_features\":32,\"out_features\":8}", "safetensors"},
    };
    char dir[] = "/tmp/trireme-pooling-XXXXXX", command[128], inner[64];
    CHECK(mkdtemp(dir));
    snprintf(inner, sizeof inner, "%s/1_Pooling", dir);
    CHECK(mkdir(inner, 0700) == 0);
    snprintf(inner, sizeof inner, "%s/2_Dense", dir);
    CHECK(mkdir(inner, 0700) == 0);
    put(dir, "modules.json", POOLED_AND(MODULE("2_Dense", "models.Dense")));
    put(dir, "1_Pooling/config.json", MEAN);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct pooling_spec spec;
        struct error err = {0};
        put(dir, "2_Dense/config.json", CASES[i].config);
        EXPECT(pooling_read(dir, &spec, &err) != 0);
        if (!strstr(err.text, CASES[i].error) || spec.head.count)
            check_fail(__FILE__, __LINE__, "case %zu: '%s'", i, err.text);
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
}

/* The newest place counts before older ones. */
TEST(files_say_what_becomes_of_a_score) {
    static const struct {
        uint32_t labels;
        const char *own, *config;
        int rc;
        enum score_activation activation;
    } CASES[] = {
        {1, "{}", "{}", 0, SCORES_SIGMOID},
        {3, "{}", "{}", 0, SCORES_SOFTMAX},
        {2, "{}", "{\"problem_type\":null}", 0, SCORES_SOFTMAX},
        {2, "{}", "{\"problem_type\":\"single_label_classification\"}", 0, SCORES_SOFTMAX},
        {2, "{}", "{\"problem_type\":\"multi_label_classification\"}", 0, SCORES_SIGMOID},
        {2, "{}", "{\"problem_type\":\"regression\"}", 0, SCORES_BARE},
        {2, "{}", "{\"problem_type\":\"ranking\"}", ERR_UNSUPPORTED, 0},
        /* what a pair's score becomes says nothing of classes, and the other way round */
        {3, "{\"activation_fn\":\"torch.nn.modules.linear.Identity\"}", "{}", 0, SCORES_SOFTMAX},
        {1, "{}", "{\"problem_type\":\"regression\"}", 0, SCORES_SIGMOID},
        {1, "{\"activation_fn\":\"torch.nn.modules.linear.Identity\"}", "{}", 0, SCORES_BARE},
        {1, "{\"activation_fn\":\"torch.nn.modules.activation.Sigmoid\"}",
         "{\"sentence_transformers\":{\"activation_fn\":\"torch.nn.modules.linear.Identity\"}}", 0,
         SCORES_SIGMOID},
        {1, "{}",
         "{\"sentence_transformers\":{\"activation_fn\":\"torch.nn.modules.linear.Identity\"}}", 0,
         SCORES_BARE},
        {1, "{}", "{\"sbert_ce_default_activation_function\":\"torch.nn.modules.linear.Identity\"}",
         0, SCORES_BARE},
        {1, "{}", "{\"sbert_ce_default_activation_function\":null}", 0, SCORES_SIGMOID},
        {1, "{\"activation_fn\":\"torch.nn.modules.activation.Tanh\"}", "{}", ERR_UNSUPPORTED, 0},
    };
    char dir[] = "/tmp/trireme-pooling-XXXXXX", command[128];
    CHECK(mkdtemp(dir));
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct error err = {0};
        enum score_activation activation = SCORES_SIGMOID;
        put(dir, "config_sentence_transformers.json", CASES[i].own);
        put(dir, "config.json", CASES[i].config);
        int rc = score_activation_read(dir, CASES[i].labels, &activation, &err);
        if (rc != CASES[i].rc || (!rc && activation != CASES[i].activation))
            check_fail(__FILE__, __LINE__, "case %zu: %d, %d: '%s'", i, rc, (int)activation,
                       err.text);
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
}
