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
} VARIABLES[] = {
    {.theirs = "BLAZR_API_KEY", .ours = "TRIREME_API_KEY", .secret = true},
    {.theirs = "BOLT_MODEL", .ours = "TRIREME_MODEL"},
    {.theirs = "BOLT_USE_CPU", .ours = "TRIREME_DEVICE", .on = "cpu"},
    {.theirs = "XANDLLM_SERVER_HOST", .ours = "TRIREME_HOST"},
    {.theirs = "XANDLLM_SERVER_PORT", .ours = "TRIREME_PORT"},
    {.theirs = "XANDLLM_DEVICE_PREFER_GPU", .ours = "TRIREME_DEVICE", .on = "auto", .off = "cpu"},
    {.theirs = "CANDLE_DEVICE", .ours = "TRIREME_DEVICE"},
    {.theirs = "RAYON_NUM_THREADS", .ours = "TRIREME_THREADS"},
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
        fprintf(stderr, "trireme: %s is taken as %s=%s\n", v->theirs, v->ours,
                v->secret ? "..." : ours);
        if (v->secret) /* else a child would take it again, whatever became of ours */
            unsetenv(v->theirs);
    }
}
