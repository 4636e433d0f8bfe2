/* test_foreign_environment.c - what variables of other programs say of ours. */
#include "cli/foreign_environment.h"

#include "base/base.h"
#include "capture.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const THEIRS[] = {
    "BLAZR_API_KEY", "VLLM_API_KEY",        "LLAMA_API_KEY",       "BOLT_MODEL",
    "BOLT_USE_CPU",  "XANDLLM_SERVER_HOST", "XANDLLM_SERVER_PORT", "XANDLLM_DEVICE_PREFER_GPU",
    "CANDLE_DEVICE", "RAYON_NUM_THREADS"};
static const char *const OURS[] = {"TRIREME_API_KEY", "TRIREME_MODEL", "TRIREME_DEVICE",
                                   "TRIREME_HOST",    "TRIREME_PORT",  "TRIREME_THREADS"};

static void clear(void) {
    for (size_t i = 0; i < ARRAY_LEN(THEIRS); i++)
        unsetenv(THEIRS[i]);
    for (size_t i = 0; i < ARRAY_LEN(OURS); i++)
        unsetenv(OURS[i]);
}

TEST(variables_of_others_say_what_an_option_says) {
    static const struct {
        const char *theirs, *value, *ours, *want; /* want NULL: nothing is set */
    } ROWS[] = {
        {"BLAZR_API_KEY", "one,two", "TRIREME_API_KEY", "one,two"},
        {"VLLM_API_KEY", "one", "TRIREME_API_KEY", "one"},
        {"LLAMA_API_KEY", "one", "TRIREME_API_KEY", "one"},
        {"BOLT_MODEL", "a folder", "TRIREME_MODEL", "a folder"},
        {"XANDLLM_SERVER_HOST", "::1", "TRIREME_HOST", "::1"},
        {"XANDLLM_SERVER_PORT", "0", "TRIREME_PORT", "0"},
        {"RAYON_NUM_THREADS", "3", "TRIREME_THREADS", "3"},
        {"RAYON_NUM_THREADS", "", "TRIREME_THREADS", NULL},
        {"CANDLE_DEVICE", "cpu", "TRIREME_DEVICE", "cpu"},
        {"CANDLE_DEVICE", "cuda:1", "TRIREME_DEVICE", "cuda"},
        {"CANDLE_DEVICE", "cuda", "TRIREME_DEVICE", "cuda"},
        {"BOLT_USE_CPU", "1", "TRIREME_DEVICE", "cpu"},
        {"BOLT_USE_CPU", "True", "TRIREME_DEVICE", "cpu"},
        {"BOLT_USE_CPU", "0", "TRIREME_DEVICE", NULL},
        {"BOLT_USE_CPU", "False", "TRIREME_DEVICE", NULL},
        {"XANDLLM_DEVICE_PREFER_GPU", "yes", "TRIREME_DEVICE", "auto"},
        {"XANDLLM_DEVICE_PREFER_GPU", "NO", "TRIREME_DEVICE", "cpu"},
        {"XANDLLM_DEVICE_PREFER_GPU", "off", "TRIREME_DEVICE", "cpu"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        clear();
        setenv(ROWS[i].theirs, ROWS[i].value, 1);
        foreign_environment_take();
        const char *got = getenv(ROWS[i].ours);
        if (!got != !ROWS[i].want || (got && strcmp(got, ROWS[i].want)))
            check_fail(__FILE__, __LINE__, "%s=%s is taken as %s", ROWS[i].theirs, ROWS[i].value,
                       got ? got : "nothing");
        for (size_t k = 0; k < ARRAY_LEN(OURS); k++)
            EXPECT(!strcmp(OURS[k], ROWS[i].ours) || !getenv(OURS[k]));
    }
    clear();
}

TEST(keys_of_others_are_not_shown) {
    clear();
    setenv("BLAZR_API_KEY", "sesame", 1);
    struct buf out = {0};
    struct capture shown = capture_begin(STDERR_FILENO);
    foreign_environment_take();
    capture_end(&shown, &out);
    EXPECT_STR(buf_text(&out), "trireme: BLAZR_API_KEY is taken as TRIREME_API_KEY=...\n");
    EXPECT(!getenv("BLAZR_API_KEY")); /* nor handed on to children */
    buf_release(&out);
    clear();
}

TEST(variables_of_others_give_way_to_ours) {
    clear();
    setenv("TRIREME_DEVICE", "auto", 1);
    setenv("BOLT_USE_CPU", "1", 1);
    foreign_environment_take();
    EXPECT_STR(getenv("TRIREME_DEVICE"), "auto");
    clear();
}

static void expect_told(const char *name, const char *value, const char *want) {
    struct buf out = {0};
    setenv(name, value, 1);
    struct capture shown = capture_begin(STDERR_FILENO);
    foreign_environment_take();
    capture_end(&shown, &out);
    EXPECT_STR(buf_text(&out), want);
    EXPECT(!getenv(name));
    buf_release(&out);
}

TEST(variables_without_an_option_are_told) {
    clear();
    expect_told(
        "BLAZR_MODEL_DIR", "models",
        "trireme: BLAZR_MODEL_DIR is not read: give a model as a path, or as a hub's name\n");
}

/* A server that is asked for a key by its own name keeps no other one for its children. */
TEST(keys_of_others_do_not_outlive_ours) {
    clear();
    setenv("TRIREME_API_KEY", "ours", 1);
    expect_told("VLLM_API_KEY", "theirs", "");
    EXPECT_STR(getenv("TRIREME_API_KEY"), "ours");
    clear();
}

/* Kubernetes sets NAME_PORT in every pod for a service called NAME. */
TEST(port_of_a_service_is_no_port) {
    clear();
    expect_told("TRIREME_PORT", "tcp://10.0.0.1:8000",
                "trireme: TRIREME_PORT=tcp://10.0.0.1:8000 is the address of a service called "
                "trireme, not a port: it is not read\n");
    setenv("TRIREME_PORT", "8123", 1);
    foreign_environment_take();
    EXPECT_STR(getenv("TRIREME_PORT"), "8123");
    clear();
}
