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
        {"[" NETWORK "," MODULE("2_Dense", "models.Dense") "]", NULL, ERR_UNSUPPORTED, POOLING_NONE,
         false, "'Dense'"},
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
