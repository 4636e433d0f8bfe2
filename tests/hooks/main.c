/*
 * trireme-hooked: the trireme command with a worker that fails when a test wants it to. The
 * environment, which every child inherits, says how:
 *
 *   HOOK_ABORT_TOKEN=N   abort when a prompt begins with 5, 6, N
 *   HOOK_LOAD_MS=N       loading takes at least so long
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "worker/hooks.h"

static int64_t abort_token = -1, least_load_ms;

static int64_t number_of(const char *name, int64_t fallback) {
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : fallback;
}

static void load_slowly(int64_t load_ms) {
    if (load_ms < least_load_ms)
        sleep_ms(least_load_ms - load_ms);
}

static void abort_if_asked(const struct wire_plan *plan) {
    for (size_t i = 0; i < plan->admit_count; i++) {
        struct tokens tokens = plan->admits[i].tokens;
        if (tokens.count < 3 || tokens.ids[0] != 5 || tokens.ids[1] != 6 ||
            tokens.ids[2] != (uint32_t)abort_token)
            continue;
        log_error("a test's prompt asks this worker to abort");
        abort();
    }
}

int main(int argc, char **argv) {
    abort_token = number_of("HOOK_ABORT_TOKEN", -1);
    least_load_ms = number_of("HOOK_LOAD_MS", 0);
    worker_hooks.loaded = load_slowly;
    if (abort_token >= 0)
        worker_hooks.plan = abort_if_asked;
    return trireme_main(argc, argv);
}
