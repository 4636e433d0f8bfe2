#include "base/exit_reason.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fsutil.h"

static const char SUPERVISED[] = "TRIREME_SUPERVISED";

static bool path_of(char *out, size_t size, const char *run_dir, int pid) {
    int len = run_dir ? snprintf(out, size, "%s/reason-%d", run_dir, pid) : -1;
    return len > 0 && (size_t)len < size;
}

static bool can_pass(int code) {
    return code != ERR_INVALID && code != ERR_UNSUPPORTED && code != ERR_NOT_FOUND;
}

int exit_reason_leave(const char *run_dir, const char *name, const struct error *err) {
    char path[4096];
    CHECK(err->code < 0);
    bool left = getenv(SUPERVISED) && path_of(path, sizeof path, run_dir, (int)getpid()) &&
                !file_write_atomic(path, err->text, strlen(err->text), 0600, NULL);
    if (!left)
        fprintf(stderr, "trireme %s: %s\n", name, err->text);
    return can_pass(err->code) ? EXIT_FAILED : EXIT_HOPELESS;
}

void exit_reason_supervise(void) {
    CHECK(setenv(SUPERVISED, "1", 1) == 0);
}

bool exit_reason_take(const char *run_dir, int pid, char out[ERROR_TEXT_MAX]) {
    char path[4096];
    struct buf text;
    if (!path_of(path, sizeof path, run_dir, pid))
        return false;
    buf_init(&text, 0);
    bool found = !file_read(path, ERROR_TEXT_MAX, &text, NULL) && text.len > 0;
    if (found)
        snprintf(out, ERROR_TEXT_MAX, "%s", buf_text(&text));
    unlink(path);
    buf_release(&text);
    return found;
}
