/* trireme list, delete and prune: all that they print of a cache that was made by hand, and what is left. */
#include "run_commands.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>

#define COMMIT       "0123456789012345678901234567890123456789"
#define OTHER_COMMIT "1111111111111111111111111111111111111111"
#define HASH         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LOOSE_HASH   "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

enum { CHANGED_S = 1714996800 }; /* noon of 2024-05-06, UTC */

static void make_parents(const char *path) {
    char part[256];
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
        CHECK(mkdir(part, 0755) == 0 || errno == EEXIST);
    }
}

static void put(const char *name, const char *text) {
    const struct timespec noon[2] = {{.tv_sec = CHANGED_S}, {.tv_sec = CHANGED_S}};
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    make_parents(path);
    CHECK(!file_write_atomic(path, text, strlen(text), 0644, NULL) &&
          !utimensat(AT_FDCWD, path, noon, 0));
}

static void put_link(const char *name, const char *target) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    make_parents(path);
    CHECK(symlink(target, path) == 0);
}

static bool is_there(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Empty caches in the test's folder. */
static void begin(void) {
    char command[128];
    CHECK(in_folder(""));
    snprintf(command, sizeof command, "rm -rf '%s/hub' '%s/ollama'", folder, folder);
    CHECK(system(command) == 0);
    setenv("HF_HUB_CACHE", in_folder("hub"), 1);
    setenv("TRIREME_OLLAMA_CACHE", in_folder("ollama"), 1);
    setenv("OLLAMA_MODELS", in_folder("none"), 1);
    setenv("TZ", "UTC", 1);
}

/* a/small has 12 bytes, of which seven are of nothing; b/two has two revisions; of Ollama there is one. */
static void fill(void) {
    begin();
    put("hub/models--a--small/blobs/" HASH, "first");
    put("hub/models--a--small/blobs/" LOOSE_HASH, "nothing");
    put("hub/models--a--small/refs/main", COMMIT);
    put_link("hub/models--a--small/snapshots/" COMMIT "/config.json", "../../blobs/" HASH);
    put("hub/models--b--two/blobs/" HASH, "abc");
    put("hub/models--b--two/refs/main", COMMIT);
    put("hub/models--b--two/refs/next", OTHER_COMMIT);
    put_link("hub/models--b--two/snapshots/" COMMIT "/config.json", "../../blobs/" HASH);
    put_link("hub/models--b--two/snapshots/" OTHER_COMMIT "/config.json", "../../blobs/" HASH);
    put("ollama/manifests/registry.ollama.ai/library/m/8b",
        "{\"layers\":[{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"sha256:" HASH
        "\",\"size\":9}]}");
    put("ollama/blobs/sha256-" HASH, "nine byte");
}

#define FIRST_ROW  "12 B       2024-05-06  a/small"
#define SECOND_ROW "3 B        2024-05-06  b/two"
#define THIRD_ROW  "9 B        2024-05-06  ollama:m:8b"

TEST(a_list_has_the_models_of_both_caches) {
    char expected[512];
    fill();
    EXPECT_EQ(RUN("", "list"), 0);
    EXPECT_STR(buf_text(&out), FIRST_ROW " (7 B unused)\n" SECOND_ROW "\n" THIRD_ROW "\n");
    EXPECT_EQ(RUN("", "list", "-v"), 0);
    snprintf(expected, sizeof expected,
             "caches     %s/hub\n           %s/ollama\n" FIRST_ROW
             "  revisions 1 (7 B unused)\n" SECOND_ROW "  revisions 2\n" THIRD_ROW
             "  revisions 1\n",
             folder, folder);
    EXPECT_STR(buf_text(&out), expected);
    begin();
    EXPECT_EQ(RUN("", "list"), 0);
    snprintf(expected, sizeof expected, "there is no model in '%s/hub'\n", folder);
    EXPECT_STR(buf_text(&out), expected);
}

static const cJSON *member(const cJSON *of, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(of, name);
}

TEST(a_list_for_programs_has_them_too) {
    static const struct {
        const char *name;
        double bytes, unused, revisions;
    } MODELS[] = {{"a/small", 12, 7, 1}, {"b/two", 3, 0, 2}, {"ollama:m:8b", 9, 0, 1}};
    const cJSON *model;
    size_t count = 0;
    fill();
    EXPECT_EQ(RUN("", "list", "--json"), 0);
    cJSON *list = cJSON_Parse(buf_text(&out));
    cJSON_ArrayForEach(model, member(list, "models")) {
        EXPECT(count < ARRAY_LEN(MODELS));
        EXPECT_STR(member(model, "name")->valuestring, MODELS[count].name);
        EXPECT(member(model, "bytes")->valuedouble == MODELS[count].bytes);
        EXPECT(member(model, "unused_bytes")->valuedouble == MODELS[count].unused);
        EXPECT(member(model, "revisions")->valuedouble == MODELS[count].revisions);
        EXPECT(member(model, "changed")->valuedouble == CHANGED_S);
        count++;
    }
    EXPECT_EQ(count, ARRAY_LEN(MODELS));
    EXPECT_STR(member(list, "cache")->valuestring, in_folder("hub"));
    EXPECT_STR(member(list, "ollama_cache")->valuestring, in_folder("ollama"));
    cJSON_Delete(list);
    begin();
    EXPECT_EQ(RUN("", "list", "--json"), 0);
    list = cJSON_Parse(buf_text(&out));
    EXPECT(cJSON_IsArray(member(list, "models")) && !member(list, "models")->child);
    cJSON_Delete(list);
}

TEST(prune_deletes_what_nothing_needs_in_both_caches) {
    fill();
    put("ollama/blobs/sha256-" LOOSE_HASH, "four");
    EXPECT_EQ(RUN("", "prune", "--dry-run"), 0);
    EXPECT_STR(buf_text(&out), "unused          11 B\n");
    EXPECT(is_there("hub/models--a--small/blobs/" LOOSE_HASH) &&
           is_there("ollama/blobs/sha256-" LOOSE_HASH));
    EXPECT_EQ(RUN("", "prune", "--json"), 0);
    EXPECT_STR(buf_text(&out), "{\n\t\"freed\":\t11\n}\n");
    EXPECT(!is_there("hub/models--a--small/blobs/" LOOSE_HASH) &&
           !is_there("ollama/blobs/sha256-" LOOSE_HASH));
    EXPECT(is_there("hub/models--a--small/blobs/" HASH) && is_there("ollama/blobs/sha256-" HASH));
    EXPECT_EQ(RUN("", "prune"), 0);
    EXPECT_STR(buf_text(&out), "freed           0 B\n");
}

TEST(delete_takes_a_model_or_one_revision_of_it) {
    fill();
    EXPECT_EQ(RUN("", "delete", "b/two@next"), 0); /* its file is another one's too */
    EXPECT_STR(buf_text(&out), "freed           0 B\n");
    EXPECT(!is_there("hub/models--b--two/refs/next") && is_there("hub/models--b--two/refs/main"));
    EXPECT_EQ(RUN("", "delete", "b/two", "--revision=main"), 0);
    EXPECT_STR(buf_text(&out), "freed           3 B\n");
    EXPECT_EQ(RUN("", "delete", "a/small@main"), 0); /* what is loose there goes with it */
    EXPECT(!is_there("hub/models--a--small/snapshots/" COMMIT));
    begin();
    fill();
    EXPECT_EQ(RUN("", "delete", "a/small"), 0);
    EXPECT_STR(buf_text(&out), "freed           12 B\n");
    EXPECT(!is_there("hub/models--a--small") && is_there("hub/models--b--two"));
    EXPECT_EQ(RUN("", "delete", "ollama:m:8b"), 0);
    EXPECT_STR(buf_text(&out), "freed           9 B\n");
    EXPECT_EQ(RUN("", "list"), 0);
    EXPECT_STR(buf_text(&out), SECOND_ROW "\n");
}

TEST(names_that_mean_nothing_are_refused) {
    fill();
    static const struct expected ROWS[] = {
        {{"delete", "a/none"}, NULL, 1, "", "trireme delete: 'a/none' is not in the cache '"},
        {{"delete", "a/small:Q4_K_M"}, NULL, 1, "", "leave out ':Q4_K_M', with @REVISION"},
        {{"delete", "a/small:m.gguf"}, NULL, 1, "", "leave out ':m.gguf', with @REVISION"},
        {{"delete"}, NULL, 2, "", "trireme delete: which model? give ORG/NAME or ollama:NAME\n"},
        {{"delete", "ollama:m:8b", "--revision=x"}, NULL, 2, "", "their tag behind a colon"},
        {{"pull", "a/b", "--file=x.txt"}, NULL, 2, "", "'a/b@main:x.txt' is no model's name"},
        {{"pull", "a/b:Q4_K_M", "--revision=../x"}, NULL, 2, "", "'a/b@../x:Q4_K_M' is no model's"},
        {{"pull", "a_b/c/d"}, NULL, 2, "", "'a_b/c/d' is no model's name: it should be ORG/NAME"},
    };
    check_rows(ROWS, ARRAY_LEN(ROWS));
    EXPECT_EQ(RUN("", "delete", "a/none", "--json"), 1);
    EXPECT(strstr(buf_text(&out), "\"errors\":\t[\"'a/none' is not in the cache '"));
    EXPECT(is_there("hub/models--a--small/blobs/" HASH));
}
