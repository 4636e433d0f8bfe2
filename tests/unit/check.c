#include "check.h"
#include "locks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TESTS = 1024 };

static struct {
    const char *file, *name;
    void (*run)(void);
} tests[MAX_TESTS];
static int test_count;
static char verdict[2048];
static enum { PASSED, FAILED, SKIPPED } outcome;
static const char *running; /* the test's name */
static uint64_t seed, random_state;

void check_register(const char *file, const char *name, void (*run)(void)) {
    const char *slash = strrchr(file, '/');
    if (test_count == MAX_TESTS)
        abort();
    tests[test_count].file = slash ? slash + 1 : file;
    tests[test_count].name = name;
    tests[test_count++].run = run;
}

static void print_failure(void) {
    printf("not ok %s: %s (TRIREME_TEST_SEED=%" PRIu64 ")\n", running, verdict, seed);
}

void check_fail(const char *file, int line, const char *fmt, ...) {
    va_list args;
    if (outcome == FAILED)
        return;
    outcome = FAILED;
    int used = snprintf(verdict, sizeof verdict, "%s:%d: ", file, line);
    va_start(args, fmt);
    vsnprintf(verdict + used, sizeof verdict - (size_t)used, fmt, args);
    va_end(args);
    if (!getenv("TRIREME_TEST_FIRST"))
        return;
    print_failure();
    _exit(1);
}

static bool required(const char *kind) {
    const char *list = getenv("TRIREME_TEST_REQUIRE");
    size_t len = strlen(kind);
    for (const char *at = list; at && (at = strstr(at, kind)); at += len) {
        bool starts = at == list || at[-1] == ',' || at[-1] == ' ';
        bool ends = !at[len] || at[len] == ',' || at[len] == ' ';
        if (starts && ends)
            return true;
    }
    return false;
}

void check_skip(const char *kind, const char *why) {
    if (outcome == FAILED)
        return;
    outcome = required(kind) ? FAILED : SKIPPED;
    if (outcome == FAILED)
        snprintf(verdict, sizeof verdict, "needs %s, which is required here: %s", kind, why);
    else
        snprintf(verdict, sizeof verdict, "%s|%s", kind, why);
}

const char *check_shared(const char *relative) {
    static char path[4096];
    const char *root = getenv("TRIREME_SHARED");
    if (root)
        snprintf(path, sizeof path, "%s/%s", root, relative);
    else
        snprintf(path, sizeof path, "%s/../shared/data/%s", TRIREME_SOURCE_DIR, relative);
    return access(path, R_OK) == 0 ? path : NULL;
}

uint64_t check_random(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int main(int argc, char **argv) {
    int failures = 0, of_file = 0;
    const char *given = getenv("TRIREME_TEST_SEED"), *file = getenv("TRIREME_TEST_FILE");
    seed =
        given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < test_count; i++) {
        if (file && strcmp(tests[i].file, file))
            continue;
        of_file++;
        if (argc > 1 && !strstr(tests[i].name, argv[1]))
            continue;
        outcome = PASSED;
        running = tests[i].name;
        random_state = seed;
        tests[i].run();
        if (locks_held && locks_held())
            check_fail(tests[i].file, 0, "it ended with a lock");
        if (outcome == PASSED)
            printf("ok %s\n", tests[i].name);
        if (outcome == FAILED)
            print_failure();
        if (outcome == SKIPPED) {
            char *bar = strchr(verdict, '|');
            *bar = 0;
            printf("skip %s %s: %s\n", verdict, tests[i].name, bar + 1);
        }
        failures += outcome == FAILED;
    }
    if (file && !of_file) {
        printf("not ok %s: this program has no test of that file\n", file);
        failures++;
    }
    return failures > 99 ? 99 : failures;
}

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer cannot see how libraries that were built without it (ZeroMQ, libevent) order
 * their threads. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "ignore_noninstrumented_modules=1";
}
#endif
