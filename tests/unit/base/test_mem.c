#include "base/base.h"
#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs fn in a child; its standard error into text. Returns the signal that ended it, 0 when
 * none. */
static int run_child(void (*fn)(void), char *text, size_t max) {
    int pipes[2], status = 0;
    if (pipe(pipes))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        fn();
        _exit(0);
    }
    close(pipes[1]);
    size_t len = 0;
    for (ssize_t n; len < max - 1 && (n = read(pipes[0], text + len, max - 1 - len)) > 0;)
        len += (size_t)n;
    text[len] = 0;
    close(pipes[0]);
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void fail_plainly(void) {
    int zero = 0;
    CHECK(zero == 1);
}
static void fail_with_text(void) {
    CHECK_MSG(1 > 2, "numbers %d and %s", 42, "text");
}
static void pass(void) {
    CHECK(1 < 2);
    CHECK_MSG(true, "never");
}

TEST(check_aborts_and_tells_where) {
    char text[2048];
    EXPECT_EQ(run_child(fail_plainly, text, sizeof text), SIGABRT);
    EXPECT(strstr(text, "check failed: zero == 1 at ") && strstr(text, "test_mem.c:"));
    EXPECT_EQ(run_child(fail_with_text, text, sizeof text), SIGABRT);
    EXPECT(strstr(text, "1 > 2") && strstr(text, "numbers 42 and text\n"));
    EXPECT_EQ(run_child(pass, text, sizeof text), 0);
    EXPECT_STR(text, "");
}

TEST(mem_is_zeroed_and_copies_are_terminated) {
    uint8_t *p = mem_alloc(1000);
    for (int i = 0; i < 1000; i++)
        EXPECT_EQ(p[i], 0);
    p = mem_realloc(p, 2000);
    memset(p, 1, 2000);
    mem_free(p);
    p = mem_calloc(10, 10);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(p[i], 0);
    mem_free(p);
    char *s = mem_strndup("abcdef", 3);
    EXPECT_STR(s, "abc");
    mem_free(s);
    s = mem_strdup("xy");
    EXPECT_STR(s, "xy");
    mem_free(s);
    void *none = mem_alloc(0);
    EXPECT(none);
    mem_free(none);
}

TEST(checked_arithmetic_sees_overflow) {
    uint64_t out;
    EXPECT(mul_ok(1ull << 32, (1ull << 32) - 1, &out) && out == ((1ull << 32) - 1) << 32);
    EXPECT(!mul_ok(1ull << 32, 1ull << 32, &out));
    EXPECT(add_ok(UINT64_MAX - 1, 1, &out) && out == UINT64_MAX);
    EXPECT(!add_ok(UINT64_MAX, 1, &out));
}
