#include "cli/foreign_environment.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct foreign_variable {
    const char *theirs, *ours;
    const char *on, *off; /* what a switch means; on NULL: the value is passed on */
    bool secret;          /* the value is not shown */
    const char *instead;  /* ours NULL: why it is not read, and what to do */
} VARIABLES[] = {
    {.theirs = "BLAZR_API_KEY", .ours = "TRIREME_API_KEY", .secret = true},
    {.theirs = "VLLM_API_KEY", .ours = "TRIREME_API_KEY", .secret = true},
    {.theirs = "LLAMA_API_KEY", .ours = "TRIREME_API_KEY", .secret = true},
    {.theirs = "BOLT_MODEL", .ours = "TRIREME_MODEL"},
    {.theirs = "BOLT_USE_CPU", .ours = "TRIREME_DEVICE", .on = "cpu"},
    {.theirs = "XANDLLM_SERVER_HOST", .ours = "TRIREME_HOST"},
    {.theirs = "XANDLLM_SERVER_PORT", .ours = "TRIREME_PORT"},
    {.theirs = "XANDLLM_DEVICE_PREFER_GPU", .ours = "TRIREME_DEVICE", .on = "auto", .off = "cpu"},
    {.theirs = "CANDLE_DEVICE", .ours = "TRIREME_DEVICE"},
    {.theirs = "RAYON_NUM_THREADS", .ours = "TRIREME_THREADS"},
    {.theirs = "BLAZR_MODEL_DIR", .instead = "give a model as a path, or as a hub's name"},
    {.theirs = "XANDLLM_MODEL_CACHE_DIR",
     .instead = "models from a hub lie where HF_HUB_CACHE says"},
    {.theirs = "YARN_SCALING_FACTOR",
     .instead = "how positions are scaled is in the model's config.json"},
};

static bool is_off(const char *value) {
    return !strcmp(value, "0") || !strcasecmp(value, "false") || !strcasecmp(value, "no") ||
           !strcasecmp(value, "off");
}

/* NULL: nothing is to be set. */
static const char *meaning(const struct foreign_variable *v, const char *value) {
    if (!v->on)
        return !strncmp(value, "cuda:", 5) ? "cuda" : value;
    return is_off(value) ? v->off : v->on;
}

static void take_variable(const struct foreign_variable *v, const char *value) {
    const char *ours = meaning(v, value);
    if (ours && !getenv(v->ours)) {
        setenv(v->ours, ours, 0);
        fprintf(stderr, "trireme: %s is taken as %s=%s\n", v->theirs, v->ours,
                v->secret ? "..." : ours);
    }
    if (v->secret) /* else a child would take it again, whatever became of ours */
        unsetenv(v->theirs);
}

void foreign_environment_take(void) {
    for (size_t i = 0; i < ARRAY_LEN(VARIABLES); i++) {
        const struct foreign_variable *v = &VARIABLES[i];
        const char *value = getenv(v->theirs);
        if (!value || !*value)
            continue;
        if (v->ours) {
            take_variable(v, value);
            continue;
        }
        fprintf(stderr, "trireme: %s is not read: %s\n", v->theirs, v->instead);
        unsetenv(v->theirs); /* told once, not by each child again */
    }
    const char *port = getenv("TRIREME_PORT");
    if (port && strstr(port, "://")) {
        fprintf(stderr,
                "trireme: TRIREME_PORT=%s is the address of a service called trireme, not a port: "
                "it is not read\n",
                port);
        unsetenv("TRIREME_PORT");
    }
}

void foreign_environment_print(void) {
    for (size_t i = 0; i < ARRAY_LEN(VARIABLES); i++) {
        const struct foreign_variable *v = &VARIABLES[i];
        if (v->ours)
            printf("| `%s` | `%s`%s%s%s |\n", v->theirs, v->ours, v->on ? ": " : "",
                   v->on ? v->on : "", v->off ? " or cpu" : "");
        else
            printf("| `%s` | not read: %s |\n", v->theirs, v->instead);
    }
}
