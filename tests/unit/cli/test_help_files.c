/* test_help_files.c - manual pages and completions, as a package lays them out. */
#include "cli/help_files.h"

#include "base/base.h"
#include "base/fsutil.h"
#include "capture.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct settings {
    int64_t port;
};
static const struct option_row ROWS[] = {
    {"port", 'p', OPTION_INT, offsetof(struct settings, port), "80", .help = "A port."}};
static const struct option_table TABLE = {.program = "trireme go",
                                          .synopsis = "[OPTIONS]",
                                          .summary = "Goes.",
                                          .rows = ROWS,
                                          .count = ARRAY_LEN(ROWS)};
static const struct completion_command COMMANDS[] = {{"go", "lets go", &TABLE},
                                                     {"stay", "stays here", NULL}};

static bool file_has(const char *dir, const char *name, const char *want) {
    char *path = path_join(dir, name);
    struct buf text = {0};
    struct error err;
    struct stat st;
    bool good = !file_read(path, 1 << 20, &text, &err) && strstr(buf_text(&text), want) &&
                !stat(path, &st) && (st.st_mode & 07777) == 0644;
    buf_release(&text);
    good = !unlink(path) && good;
    mem_free(path);
    return good;
}

TEST(help_files_lie_where_packages_have_them) {
    static const char *const FOLDERS[] = {"man/man1",
                                          "man",
                                          "bash-completion/completions",
                                          "bash-completion",
                                          "zsh/site-functions",
                                          "zsh",
                                          "fish/vendor_completions.d",
                                          "fish",
                                          ""};
    char dir[] = "/tmp/trireme-help-XXXXXX";
    struct error err;
    EXPECT(mkdtemp(dir));
    umask(022);
    EXPECT_EQ(help_files_write(dir, COMMANDS, ARRAY_LEN(COMMANDS), &err), 0);
    EXPECT(file_has(dir, "man/man1/trireme.1", "stays here"));
    EXPECT(file_has(dir, "man/man1/trireme-go.1", "A port."));
    EXPECT(file_has(dir, "bash-completion/completions/trireme", "compgen"));
    EXPECT(file_has(dir, "zsh/site-functions/_trireme", "#compdef"));
    EXPECT(file_has(dir, "fish/vendor_completions.d/trireme.fish", "complete -c trireme"));
    for (size_t i = 0; i < ARRAY_LEN(FOLDERS); i++) { /* no page for a command without options */
        char *path = path_join(dir, FOLDERS[i]);
        EXPECT_EQ(rmdir(path), 0);
        mem_free(path);
    }
}

TEST(help_files_that_cannot_be_written_are_an_error) {
    struct error err = {0};
    EXPECT(help_files_write("/dev/null/none", COMMANDS, ARRAY_LEN(COMMANDS), &err) < 0);
    EXPECT(strstr(err.text, "/dev/null"));
}

TEST(help_of_a_shell_nobody_has_written_is_refused) {
    struct error err = {0};
    EXPECT_EQ(help_completion_print("tcsh", COMMANDS, ARRAY_LEN(COMMANDS), &err), ERR_INVALID);
    EXPECT(strstr(err.text, "'tcsh'") && strstr(err.text, "bash"));
    struct buf text = {0};
    struct capture c = capture_begin(STDOUT_FILENO);
    int rc = help_completion_print("zsh", COMMANDS, ARRAY_LEN(COMMANDS), &err);
    capture_end(&c, &text);
    EXPECT_EQ(rc, 0);
    EXPECT(strstr(buf_text(&text), "#compdef trireme") && !strstr(buf_text(&text), "compgen"));
    buf_release(&text);
}
