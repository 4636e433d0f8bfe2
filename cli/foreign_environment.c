#include "cli/foreign_environment.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct foreign_variable {
    const char *theirs, *ours;
    const char *on, *off; /* what a switch means; on NULL: the value is passed on */
} VARIABLES[] = {
    {"BOLT_MODEL", "TRIREME_MODEL", NULL, NULL},
    {"BOLT_USE_CPU", "TRIREME_DEVICE", "cpu", NULL},
    {"XANDLLM_SERVER_HOST", "TRIREME_HOST", NULL, NULL},
    {"XANDLLM_SERVER_PORT", "TRIREME_PORT", NULL, NULL},
    {"XANDLLM_DEVICE_PREFER_GPU", "TRIREME_DEVICE", "auto", "cpu"},
    {"CANDLE_DEVICE", "TRIREME_DEVICE", NULL, NULL},
    {"RAYON_NUM_THREADS", "TRIREME_THREADS", NULL, NULL},
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

void foreign_environment_take(void) {
    for (size_t i = 0; i < ARRAY_LEN(VARIABLES); i++) {
        const struct foreign_variable *v = &VARIABLES[i];
        const char *value = getenv(v->theirs), *ours = value && *value ? meaning(v, value) : NULL;
        if (!ours || getenv(v->ours))
            continue;
        setenv(v->ours, ours, 0);
        fprintf(stderr, "trireme: %s is taken as %s=%s\n", v->theirs, v->ours, ours);
    }
}
