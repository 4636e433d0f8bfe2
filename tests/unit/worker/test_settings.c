/* By which name clients know a worker's model. */
#include "worker/settings.h"

#include "check.h"
#include "option_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[32];

static bool is_called(const char *served_name, const char *model, const char *want) {
    char out[WORKER_NAME_MAX];
    const struct worker_settings settings = {.served_name = served_name, .model = model};
    worker_public_name(&settings, out);
    if (strcmp(out, want))
        printf("called '%s'\n", out);
    return !strcmp(out, want);
}

/* The path of a name in the folder; until the next call. */
static const char *in_folder(const char *name) {
    static char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

TEST(worker_options_are_those_of_the_manual) {
    EXPECT(option_page_has(&worker_options));
}

TEST(worker_names_that_are_given) {
    EXPECT(is_called("a", NULL, "a"));
    EXPECT(is_called("a,b", "/tmp", "a"));
    EXPECT(is_called(",b", "/tmp", ""));
    EXPECT(is_called("a.gguf", "/tmp", "a.gguf"));
}

TEST(worker_names_of_paths) {
    static const char *const FOLDERS[] = {"m", "m/model", "x.gguf", ".gguf", "modelx"};
    char long_name[256], want[256];
    snprintf(folder, sizeof folder, "/tmp/trm-test-XXXXXX");
    EXPECT(mkdtemp(folder));
    for (size_t i = 0; i < ARRAY_LEN(FOLDERS); i++)
        EXPECT_EQ(mkdir(in_folder(FOLDERS[i]), 0700), 0);
    EXPECT(is_called(NULL, in_folder("m"), "m"));
    EXPECT(is_called("", in_folder("m/"), "m"));
    EXPECT(is_called(NULL, in_folder("m/model"), "m"));
    EXPECT(is_called(NULL, in_folder("modelx"), "modelx"));
    EXPECT(is_called(NULL, in_folder("x.gguf"), "x"));
    EXPECT(is_called(NULL, in_folder(".gguf"), ".gguf")); /* nothing would be left */
    EXPECT_EQ(symlink("m", in_folder("link")), 0);
    EXPECT(is_called(NULL, in_folder("link"), "m"));
    EXPECT(is_called(NULL, in_folder("none"), "model"));
    EXPECT(is_called(NULL, NULL, "model"));
    EXPECT(is_called(NULL, "/", "model"));
    memset(long_name, 'l', sizeof long_name);
    long_name[255] = 0; /* the longest that a file system takes, and that fits */
    snprintf(want, sizeof want, "%s", long_name);
    EXPECT_EQ(mkdir(in_folder(long_name), 0700), 0);
    EXPECT(is_called(NULL, in_folder(long_name), want));
    EXPECT_EQ(rmdir(in_folder(long_name)), 0);
    EXPECT_EQ(unlink(in_folder("link")), 0);
    for (size_t i = ARRAY_LEN(FOLDERS); i-- > 0;)
        EXPECT_EQ(rmdir(in_folder(FOLDERS[i])), 0);
    EXPECT_EQ(rmdir(folder), 0);
}
