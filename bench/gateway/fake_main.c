/* The fake scheduler as a program: gateway_fake_scheduler --scheduler ENDPOINT --model-dir DIR.
 * Runs until SIGTERM. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>

#include "base/log.h"
#include "base/option.h"
#include "fake_scheduler.h"

struct settings {
    const char *endpoint, *model_dir, *name;
    bool echo;
    int64_t step_us, window, drop, repeat, low, high, context;
};
#define AT(m) offsetof(struct settings, m)
static const struct option_row rows[] = {
    {.name = "scheduler",
     .type = OPTION_STRING,
     .offset = AT(endpoint),
     .fallback = "ipc:///tmp/trireme-fake/scheduler.sock",
     .help = "Endpoint to bind."},
    {.name = "model-dir",
     .type = OPTION_STRING,
     .offset = AT(model_dir),
     .fallback = "demo/model",
     .help = "Folder whose text files are served."},
    {.name = "model-name",
     .type = OPTION_STRING,
     .offset = AT(name),
     .fallback = "fake",
     .help = "Public name of the model."},
    {.name = "step-us",
     .type = OPTION_INT,
     .offset = AT(step_us),
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .help = "Shortest step; 0: as fast as acknowledged."},
    {.name = "window",
     .type = OPTION_INT,
     .offset = AT(window),
     .fallback = "64",
     .min = 0,
     .max = 1e9,
     .help = "Unacknowledged tokens of a sequence."},
    {.name = "drop-percent",
     .type = OPTION_INT,
     .offset = AT(drop),
     .fallback = "0",
     .min = 0,
     .max = 100,
     .help = "Deltas lost."},
    {.name = "repeat-percent",
     .type = OPTION_INT,
     .offset = AT(repeat),
     .fallback = "0",
     .min = 0,
     .max = 100,
     .help = "Deltas sent twice."},
    {.name = "token-low",
     .type = OPTION_INT,
     .offset = AT(low),
     .fallback = "100",
     .min = 0,
     .max = 1e9,
     .help = "Lowest token id made."},
    {.name = "token-high",
     .type = OPTION_INT,
     .offset = AT(high),
     .fallback = "2500",
     .min = 1,
     .max = 1e9,
     .help = "Highest token id made, plus one."},
    {.name = "echo",
     .type = OPTION_BOOL,
     .offset = AT(echo),
     .help = "Every answer is its own prompt."},
    {.name = "context",
     .type = OPTION_INT,
     .offset = AT(context),
     .fallback = "1048576",
     .min = 1,
     .max = 1 << 20,
     .help = "Context of the model."},
};
static const struct option_table options = {.program = "gateway_fake_scheduler",
                                            .synopsis = "[OPTIONS]",
                                            .summary = "Makes tokens out of arithmetic.",
                                            .rows = rows,
                                            .count = sizeof rows / sizeof rows[0]};

int main(int argc, char **argv) {
    struct settings s;
    struct error err;
    size_t positional;
    sigset_t signals;
    int number, outcome = option_parse(&options, &s, argc, argv, NULL, 0, &positional, &err);
    if (outcome == OPTION_HELP_PRINTED)
        return 0;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    log_init("fake", LOG_INFO, false);
    struct fake_config config;
    fake_config_init(&config);
    if (outcome == OPTION_RUN) {
        config.endpoint = s.endpoint;
        config.model_dir = s.model_dir;
        config.model_name = s.name;
        config.echo = s.echo;
        config.step_us = (uint32_t)s.step_us;
        config.window = (uint32_t)s.window;
        config.drop_percent = (uint32_t)s.drop;
        config.repeat_percent = (uint32_t)s.repeat;
        config.token_low = (uint32_t)s.low;
        config.token_high = (uint32_t)s.high;
        config.max_context = (uint32_t)s.context;
    }
    struct fake_scheduler *fake = outcome == OPTION_RUN ? fake_start(&config, &err) : NULL;
    if (!fake) {
        fprintf(stderr, "gateway_fake_scheduler: %s\n", err.text);
        return 1;
    }
    sigwait(&signals, &number);
    fake_kill(&fake);
    option_free(&options, &s);
    return 0;
}
