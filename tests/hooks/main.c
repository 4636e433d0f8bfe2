/*
 * trireme-hooked: the trireme command with a worker that fails when a test wants it to. The
 * environment, which every child inherits, says how:
 *
 *   HOOK_ABORT_TOKEN=N   abort when a prompt begins with 5, 6, N
 *   HOOK_LOAD_MS=N       loading takes at least so long
 *   HOOK_SLOW_DISK_MS=N  when a prompt begins with 5, 6, 7: the weights' pages are out of memory, and each
 *                        SLOW_BYTES of them take so long to come back
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "worker/hooks.h"

enum { SLOW_BYTES = 256 * 1024, SLOW_RANGES = 64 };
static int64_t abort_token = -1, least_load_ms, slow_disk_ms;
static struct { uintptr_t begin, end; } away[SLOW_RANGES]; /* mappings of weights */
static size_t away_count;

static int64_t number_of(const char *name, int64_t fallback) {
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : fallback;
}

static void load_slowly(int64_t load_ms) {
    if (load_ms < least_load_ms)
        sleep_ms(least_load_ms - load_ms);
}

static bool has_prompt(const struct wire_plan *plan, int64_t third) {
    for (size_t i = 0; i < plan->admit_count; i++) {
        struct tokens tokens = plan->admits[i].tokens;
        if (tokens.count >= 3 && tokens.ids[0] == 5 && tokens.ids[1] == 6 &&
            tokens.ids[2] == (uint32_t)third)
            return true;
    }
    return false;
}

/* As a page that has to be read from a disk: the thread that touches it waits. */
static void bring_back(int signal_number, siginfo_t *info, void *context) {
    uintptr_t at = (uintptr_t)info->si_addr;
    (void)context;
    for (size_t i = 0; i < away_count; i++) {
        if (at < away[i].begin || at >= away[i].end)
            continue;
        uintptr_t begin = away[i].begin + (at - away[i].begin) / SLOW_BYTES * SLOW_BYTES;
        sleep_ms(slow_disk_ms);
        mprotect((void *)begin, away[i].end - begin < SLOW_BYTES ? away[i].end - begin : SLOW_BYTES,
                 PROT_READ);
        return;
    }
    signal(signal_number, SIG_DFL); /* a fault of the program's own */
}

static void take_weights_away(void) {
    struct sigaction action = {.sa_sigaction = bring_back, .sa_flags = SA_SIGINFO};
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    sigaction(SIGSEGV, &action, NULL);
    away_count = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        bool weights = strstr(line, ".safetensors") || strstr(line, ".weights");
        if (weights && sscanf(line, "%lx-%lx", &begin, &end) == 2 && away_count < SLOW_RANGES) {
            away[away_count].begin = begin;
            away[away_count++].end = end;
        }
    }
    if (maps)
        fclose(maps);
    for (size_t i = 0; i < away_count; i++)
        mprotect((void *)away[i].begin, away[i].end - away[i].begin, PROT_NONE);
    log_error("a test's prompt asks for a slow disk: %zu mappings of weights are away", away_count);
}

static void on_plan(const struct wire_plan *plan) {
    if (abort_token >= 0 && has_prompt(plan, abort_token)) {
        log_error("a test's prompt asks this worker to abort");
        abort();
    }
    if (slow_disk_ms && has_prompt(plan, 7))
        take_weights_away();
}

int main(int argc, char **argv) {
    abort_token = number_of("HOOK_ABORT_TOKEN", -1);
    least_load_ms = number_of("HOOK_LOAD_MS", 0);
    worker_hooks.loaded = load_slowly;
    slow_disk_ms = number_of("HOOK_SLOW_DISK_MS", 0);
    worker_hooks.plan = on_plan;
    return trireme_main(argc, argv);
}
