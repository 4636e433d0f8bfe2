/* test_unknown_environment.c - variables that nothing reads are told, all others are not. */
#include "cli/unknown_environment.h"

#include "base/base.h"
#include "capture.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_row SERVE_ROWS[] = {
    {.name = "port", .type = OPTION_INT},
    {.name = "max-context", .type = OPTION_INT, .aliases = "-c --ctx-size --max-model-len"},
    {.name = "instance", .type = OPTION_STRING, .hidden = true},
};
static const struct option_row TOP_ROWS[] = {{.name = "interval", .type = OPTION_DURATION}};
static const struct option_table SERVE = {.rows = SERVE_ROWS, .count = ARRAY_LEN(SERVE_ROWS)};
static const struct option_table TOP = {.rows = TOP_ROWS, .count = ARRAY_LEN(TOP_ROWS)};
static const struct option_table *const TABLES[] = {&SERVE, &TOP};

/* What is told of one variable; want "" also says that it stays as it was. */
static void expect_told(const char *name, const char *value, const char *want) {
    struct buf out = {0};
    setenv(name, value, 1);
    struct capture shown = capture_begin(STDERR_FILENO);
    unknown_environment_tell(TABLES, ARRAY_LEN(TABLES));
    capture_end(&shown, &out);
    if (strcmp(buf_text(&out), want))
        check_fail(__FILE__, __LINE__, "of %s is told: %s", name, buf_text(&out));
    const char *left = getenv(name);
    if (*want ? left != NULL : !left || strcmp(left, value))
        check_fail(__FILE__, __LINE__, "%s is then %s", name, left ? left : "not set");
    unsetenv(name);
    buf_release(&out);
}

/* What the test's own surroundings set must not be told. */
static void clear(void) {
    unknown_environment_tell(TABLES, ARRAY_LEN(TABLES));
}

TEST(variables_that_nothing_reads_are_told) {
    clear();
    expect_told("TRIREME_MAX_CONTEXTS", "4096",
                "trireme: the environment variable TRIREME_MAX_CONTEXTS is not read; did you mean "
                "TRIREME_MAX_CONTEXT (--max-context)?\n");
    expect_told("TRIREME_INTERVALL", "1s",
                "trireme: the environment variable TRIREME_INTERVALL is not read; did you mean "
                "TRIREME_INTERVAL (--interval)?\n");
    expect_told("TRIREME_COLOUR_OF_THE_SEA", "blue",
                "trireme: the environment variable TRIREME_COLOUR_OF_THE_SEA is not read\n");
    expect_told("TRIREME_MAX_MODEL_LEN", "4096",
                "trireme: the environment variable TRIREME_MAX_MODEL_LEN is not read; did you mean "
                "TRIREME_MAX_CONTEXT (--max-context)?\n");
    expect_told("TRIREME_", "", "trireme: the environment variable TRIREME_ is not read\n");
}

TEST(variables_of_llama_server_are_told) {
    clear();
    expect_told("LLAMA_ARG_CTX_SIZE", "4096",
                "trireme: the environment variable LLAMA_ARG_CTX_SIZE is not read; did you mean "
                "TRIREME_MAX_CONTEXT (--max-context)?\n");
    expect_told("LLAMA_ARG_PORT", "8080",
                "trireme: the environment variable LLAMA_ARG_PORT is not read; did you mean "
                "TRIREME_PORT (--port)?\n");
    expect_told("LLAMA_CACHE", "here", "");
}

TEST(variables_that_are_read_are_not_told) {
    clear();
    expect_told("TRIREME_PORT", "8000", "");
    expect_told("TRIREME_INTERVAL", "1s", "");
    expect_told("TRIREME_INSTANCE", "7", "");
    expect_told("TRIREME_CPU_FEATURES", "-avx512", "");
    expect_told("TRIREME_OLLAMA_CACHE", "here", "");
    expect_told("TRIREME_TEST_SOMETHING", "1", "");
    expect_told("TRIREMES", "1", "");
}

/* A service called trireme, and one called trireme-scheduler. */
TEST(variables_of_services_are_not_told) {
    clear();
    expect_told("TRIREME_SERVICE_HOST", "10.0.0.1", "");
    expect_told("TRIREME_SERVICE_PORT", "8000", "");
    expect_told("TRIREME_SERVICE_PORT_HTTP", "8000", "");
    expect_told("TRIREME_PORT_8000_TCP", "tcp://10.0.0.1:8000", "");
    expect_told("TRIREME_PORT_8000_TCP_ADDR", "10.0.0.1", "");
    expect_told("TRIREME_SCHEDULER_PORT", "tcp://10.0.0.2:7000", "");
    expect_told("TRIREME_SCHEDULER_PORT_7000_TCP_PROTO", "tcp", "");
    expect_told("TRIREME_SCHEDULER_PORT", "7000",
                "trireme: the environment variable TRIREME_SCHEDULER_PORT is not read\n");
}
