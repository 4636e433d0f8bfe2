/* run_commands.h - commands, called as a shell calls them: exit code, standard output, standard error. */
#ifndef TESTS_UNIT_CLI_RUN_COMMANDS_H
#define TESTS_UNIT_CLI_RUN_COMMANDS_H

#include "base/clock.h"
#include "base/fsutil.h"
#include "capture.h"
#include "check.h"
#include "cli/commands.h"

#include <stdlib.h>
#include <sys/stat.h>

#define MODEL TRIREME_SOURCE_DIR "/demo/model"
enum { WORDS_MAX = 16 };

static struct buf out, err; /* what the last command printed */
static char folder[] = "/tmp/trm-commands-XXXXXX";

static inline void remove_folder(void) {
    char text[100];
    snprintf(text, sizeof text, "rm -rf '%s'", folder);
    for (int i = 0; i < 50 && system(text); i++)
        sleep_ms(100); /* a cache may be written meanwhile */
}

/* A file of the test's folder; static buffers, the last 16. */
static inline const char *in_folder(const char *name) {
    static char paths[16][64];
    static unsigned next;
    char *path = paths[next++ % ARRAY_LEN(paths)];
    if (strstr(folder, "XXXXXX")) {
        CHECK(mkdtemp(folder));
        atexit(remove_folder);
    }
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* trireme WORD..., with this on standard input; its exit code. */
static inline int run(const char *input, const char *const *words) {
    char *argv[WORDS_MAX + 2] = {(char[]){"trireme"}};
    int argc = 1;
    static const char *file;
    if (!file)
        file = mem_strdup(in_folder("input"));
    while (*words && argc <= WORDS_MAX)
        argv[argc++] = mem_strdup(*words++);
    CHECK(!file_write_atomic(file, input, strlen(input), 0600, NULL) && freopen(file, "r", stdin));
    struct capture o = capture_begin(STDOUT_FILENO), e = capture_begin(STDERR_FILENO);
    int code = trireme_main(argc, argv);
    capture_end(&e, &err);
    capture_end(&o, &out);
    for (int i = 1; i < argc; i++)
        mem_free(argv[i]);
    return code;
}

#define RUN(input, ...) run(input, (const char *const[]){__VA_ARGS__, NULL})

/* What is printed, all of it; of standard error, that this is in it. */
struct expected {
    const char *words[WORDS_MAX], *input;
    int code;
    const char *out, *err;
};

static inline void check_rows(const struct expected *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct expected *r = &rows[i];
        int code = run(r->input ? r->input : "", r->words);
        if (code != r->code || strcmp(buf_text(&out), r->out ? r->out : "") != 0 ||
            !strstr(buf_text(&err), r->err ? r->err : ""))
            check_fail(__FILE__, __LINE__, "row %zu (%s): exit code %d, prints\n%s\nand\n%s", i,
                       r->words[0], code, buf_text(&out), buf_text(&err));
    }
}

#endif
