/* What a child leaves for its supervisor. */
#include "base/exit_reason.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static int leave(const char *dir, int code) {
    struct error err;
    error_set(&err, code, "cannot read 'x'");
    return exit_reason_leave(dir, "worker", &err);
}

TEST(what_cannot_pass_is_left_and_taken_once) {
    static const int codes[] = {ERR_INVALID, ERR_UNSUPPORTED, ERR_NOT_FOUND};
    char dir[] = "/tmp/trm-reason-XXXXXX", text[ERROR_TEXT_MAX];
    EXPECT(mkdtemp(dir));
    EXPECT_EQ(leave(dir, ERR_INVALID), EXIT_HOPELESS); /* nobody watches */
    EXPECT(!exit_reason_take(dir, (int)getpid(), text));
    exit_reason_supervise();
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        EXPECT_EQ(leave(dir, codes[i]), EXIT_HOPELESS);
        EXPECT(exit_reason_take(dir, (int)getpid(), text));
        EXPECT_STR(text, "cannot read 'x'");
        EXPECT(!exit_reason_take(dir, (int)getpid(), text));
    }
    EXPECT_EQ(rmdir(dir), 0);
    unsetenv("TRIREME_SUPERVISED");
}

TEST(what_may_pass_is_left_to_another_try) {
    static const int codes[] = {ERR_IO, ERR_LIMIT, ERR_MEMORY, ERR_CLOSED, ERR_TIMEOUT, ERR_AGAIN};
    char dir[] = "/tmp/trm-reason-XXXXXX", text[ERROR_TEXT_MAX];
    EXPECT(mkdtemp(dir));
    exit_reason_supervise();
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        EXPECT_EQ(leave(dir, codes[i]), EXIT_FAILED);
        EXPECT(exit_reason_take(dir, (int)getpid(), text)); /* for the log */
        EXPECT_STR(text, "cannot read 'x'");
    }
    EXPECT_EQ(rmdir(dir), 0);
    EXPECT(!exit_is_hopeless(EXIT_FAILED) && !exit_is_hopeless(EXIT_DONE));
    EXPECT(exit_is_hopeless(EXIT_HOPELESS) && exit_is_hopeless(EXIT_MISUSED));
}

/* What a process that leaves says on stderr: its reason, where no supervisor takes it. */
static const char *said(const char *dir, int code) {
    static char text[200];
    int fds[2], kept = dup(2);
    CHECK(!pipe(fds) && dup2(fds[1], 2) == 2);
    close(fds[1]);
    leave(dir, code);
    fflush(stderr);
    CHECK(dup2(kept, 2) == 2);
    close(kept);
    ssize_t len = read(fds[0], text, sizeof text - 1);
    close(fds[0]);
    text[MAX(len, 0)] = 0;
    return text;
}

TEST(a_reason_is_told_once) {
    static const char LINE[] = "trireme worker: cannot read 'x'\n";
    char dir[] = "/tmp/trm-reason-XXXXXX", text[ERROR_TEXT_MAX];
    EXPECT(mkdtemp(dir));
    unsetenv("TRIREME_SUPERVISED");
    EXPECT_STR(said(dir, ERR_IO), LINE); /* nobody watches */
    EXPECT(!exit_reason_take(dir, (int)getpid(), text));
    exit_reason_supervise();
    EXPECT_STR(said(dir, ERR_IO), "");
    EXPECT(exit_reason_take(dir, (int)getpid(), text));
    EXPECT_STR(said("/nowhere/at/all", ERR_IO), LINE);
    EXPECT_STR(said(NULL, ERR_IO), LINE);
    EXPECT_EQ(rmdir(dir), 0);
    unsetenv("TRIREME_SUPERVISED");
}

TEST(without_a_run_folder_the_code_says_it_all) {
    char text[ERROR_TEXT_MAX];
    EXPECT_EQ(leave(NULL, ERR_UNSUPPORTED), EXIT_HOPELESS);
    EXPECT_EQ(leave("/nowhere/at/all", ERR_UNSUPPORTED), EXIT_HOPELESS);
    EXPECT(!exit_reason_take(NULL, (int)getpid(), text));
}
