/* What the name of a model means to a command: a file, or what a cache of a hub has, and what it is called then. */
#include "cli/model_path.h"

#include "check.h"
#include "formats/hub_folder.h"

#include <errno.h>

#define HASH   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define MANIFEST                                                                                   \
    "{\"layers\":[{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"sha256:" HASH \
    "\",\"size\":5}]}"

static struct error err;
static char *path, *called;

/* Caches of a home of its own, with three models of Ollama's and one of Hugging Face's. */
static void begin(void) {
    static const char *const UNSET[] = {
        "HF_HOME",       "HF_HUB_CACHE",         "HUGGINGFACE_HUB_CACHE",
        "OLLAMA_MODELS", "TRIREME_OLLAMA_CACHE", "XDG_CACHE_HOME"};
    folder_make();
    for (size_t i = 0; i < ARRAY_LEN(UNSET); i++)
        unsetenv(UNSET[i]);
    setenv("HOME", folder, 1);
    put_file(".cache/trireme/ollama/manifests/registry.ollama.ai/library/m/latest", MANIFEST);
    put_file(".cache/trireme/ollama/manifests/registry.ollama.ai/library/m/8b", MANIFEST);
    put_file(".ollama/models/manifests/registry.ollama.ai/someone/x/1b", MANIFEST);
    put_file(".cache/trireme/ollama/blobs/sha256-" HASH, "first");
    put_file(".ollama/models/blobs/sha256-" HASH, "first");
    put_file(".cache/huggingface/hub/models--o--n/refs/main", COMMIT "\n");
    put_file(".cache/huggingface/hub/models--o--n/snapshots/" COMMIT "/config.json", "{}");
    put_file(".cache/huggingface/hub/models--o--n/snapshots/" COMMIT "/model.safetensors", "w");
}

static int find(const char *given) {
    mem_free(path);
    mem_free(called);
    return model_path_cached(given, &path, &called, &err);
}

static void end(void) {
    mem_free(path);
    mem_free(called);
    path = called = NULL;
    folder_remove();
}

TEST(models_of_hubs_are_called_as_their_users_know_them) {
    static const char *const ROWS[][3] = {
        {"ollama:m", "m", ".cache/trireme/ollama/blobs/sha256-" HASH},
        {"ollama:m:latest", "m", ".cache/trireme/ollama/blobs/sha256-" HASH},
        {"ollama:m:8b", "m:8b", ".cache/trireme/ollama/blobs/sha256-" HASH},
        {"ollama:someone/x:1b", "someone/x:1b", ".ollama/models/blobs/sha256-" HASH},
        {"o/n", "o/n", ".cache/huggingface/hub/models--o--n/snapshots/" COMMIT},
        {"o/n@main", "o/n", ".cache/huggingface/hub/models--o--n/snapshots/" COMMIT},
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        if (find(ROWS[i][0]))
            check_fail(__FILE__, __LINE__, "%s: %s", ROWS[i][0], err.text);
        EXPECT_STR(called, ROWS[i][1]);
        EXPECT_STR(path, in_folder(ROWS[i][2]));
    }
    mem_free(path);
    EXPECT_EQ(model_path_cached("o/n", &path, NULL, &err), 0); /* nobody asks what it is called */
    end();
}

TEST(paths_are_taken_as_they_are) {
    begin();
    put_file("o/n", "x"); /* a file is no name of a hub */
    put_file("here", "x");
    EXPECT_EQ(chdir(folder), 0);
    static const char *const GIVEN[] = {"o/n", "./o", "/no/such/folder", "x.gguf", ".gguf",
                                        "",    "here"};
    for (size_t i = 0; i < ARRAY_LEN(GIVEN); i++) {
        errno = ENOENT; /* of something before */
        EXPECT_EQ(find(GIVEN[i]), 0);
        EXPECT(!path && !called);
    }
    EXPECT_EQ(chdir("/"), 0);
    end();
}

TEST(what_no_cache_has_is_told) {
    static const char *const BARE[] = {"m", "llama3.2", "gguf", "x.ggufs"};
    begin();
    for (size_t i = 0; i < ARRAY_LEN(BARE); i++) {
        EXPECT_EQ(find(BARE[i]), ERR_NOT_FOUND);
        EXPECT(strstr(err.text, "no file or folder is called so") && !path && !called);
    }
    EXPECT_EQ(find("ollama:m:70b"), ERR_NOT_FOUND);
    EXPECT(!path && !called);
    EXPECT_EQ(find("o/other"), ERR_NOT_FOUND);
    EXPECT_EQ(find("ollama:a:b/c"), ERR_INVALID);
    end();
}

TEST(an_options_model_is_replaced_by_its_path) {
    begin();
    const char *model = mem_strdup("ollama:m:8b");
    EXPECT_EQ(model_path_of_option(&model, &err), 0);
    EXPECT_STR(model, in_folder(".cache/trireme/ollama/blobs/sha256-" HASH));
    mem_free((char *)(uintptr_t)model);
    model = mem_strdup("/no/such");
    EXPECT_EQ(model_path_of_option(&model, &err), 0);
    EXPECT_STR(model, "/no/such");
    mem_free((char *)(uintptr_t)model);
    model = NULL;
    EXPECT_EQ(model_path_of_option(&model, &err), 0);
    EXPECT(!model);
    end();
}
