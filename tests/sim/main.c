/* sim --seeds A..B --jobs N: runs the seeds, prints events per second; on failure the seed, why,
 * and the tail of the trace. */
#include "sim.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared {
    _Atomic uint64_t next, fewest;
#define SUMS(X)                                                                                    \
    X(event_count)                                                                                 \
    X(steps)                                                                                       \
    X(finished)                                                                                    \
    X(rejected)                                                                                    \
    X(poisoned)                                                                                    \
    X(resubmitted)                                                                                 \
    X(attached)                                                                                    \
    X(hits)                                                                                        \
    X(snapshots)                                                                                   \
    X(restores)                                                                                    \
    X(drafts)                                                                                      \
    X(accepted_drafts)                                                                             \
    X(preemptions)                                                                                 \
    X(evictions)                                                                                   \
    X(retransmits)                                                                                 \
    X(wasted) X(fences) X(faults) X(begun) X(begun_late) X(mixed) X(mixed_long)
#define X(name) _Atomic uint64_t name;
    SUMS(X)
#undef X

    _Atomic unsigned moves_seen[SEQUENCE_STATES];
    _Atomic int failures;
};
static struct world world;
static struct shared *shared;

static void on_abort(int signal_number) {
    fprintf(stderr, "seed %llu failed after %llu events; the last of them:\n",
            (unsigned long long)world.seed, (unsigned long long)world.event_count);
    trace_print(&world);
    dump_gateways(&world);
    dump_processes(&world);
    printf("not ok sim seed %llu\n", (unsigned long long)world.seed);
    fflush(stdout);
    shared->failures++;
    _exit(1);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_some(uint64_t last, bool stop_at_failure) {
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    signal(SIGFPE, on_abort);
    for (;;) {
        uint64_t seed = shared->next++;
        if (seed > last || (stop_at_failure && shared->failures))
            break;
        run_seed(&world, seed);
#define X(name) shared->name += world.name;
        SUMS(X)
#undef X
        for (int i = 0; i < SEQUENCE_STATES; i++)
            shared->moves_seen[i] |= world.moves_seen[i];
        uint64_t fewest = shared->fewest;
        while (world.event_count < fewest &&
               !atomic_compare_exchange_weak_explicit(&shared->fewest, &fewest, world.event_count,
                                                      0, 0)) {}
    }
    world_release(&world);
}

/* Of what was accepted on calm days, with more asked than could be done, 99 of 100 begin within twice
 * the bound; of few nothing is said. */
static bool begins_in_time(void) {
    uint64_t begun = shared->begun, late = shared->begun_late;
    if (begun < 1000 || late * 100 <= begun)
        return true;
    printf("violated: %llu of %llu requests began later than twice the bound\n",
           (unsigned long long)late, (unsigned long long)begun);
    return false;
}

/* Of the steps of calm days with rows that wait for a token and prompts, 99 of 100 take no longer than
 * was asked for; of few nothing is said. */
static bool steps_are_short(void) {
    uint64_t mixed = shared->mixed, longer = shared->mixed_long;
    if (mixed < 1000 || longer * 100 <= mixed)
        return true;
    printf("violated: %llu of %llu steps with prompts took longer than was asked for\n",
           (unsigned long long)longer, (unsigned long long)mixed);
    return false;
}

static int usage(void) {
    fprintf(stderr, "usage: sim [--seeds A..B] [--jobs N]\n");
    return 2;
}

int main(int argc, char **argv) {
    unsigned long long first = 1, last = 100;
    int jobs = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seeds") && i + 1 < argc) {
            int n = sscanf(argv[++i], "%llu..%llu", &first, &last);
            if (n < 1)
                return usage();
            if (n == 1)
                last = first;
        } else if (!strcmp(argv[i], "--jobs") && i + 1 < argc) {
            jobs = atoi(argv[++i]);
        } else {
            return usage();
        }
    }
    if (jobs < 1 || jobs > 256 || last < first)
        return usage();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    shared->next = first;
    shared->fewest = UINT64_MAX;
    double start = seconds();
    for (int i = 0; i < jobs; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return 2;
        if (pid == 0) {
            run_some(last, true);
            exit(0); /* sanitizers look for leaks */
        }
    }
    int status, bad = 0;
    while (wait(&status) > 0)
        bad += !WIFEXITED(status) || WEXITSTATUS(status);
    double took = seconds() - start;
    double rate = (double)shared->event_count / took;
    printf("%llu seeds, fewest events %llu, %.0f events/s with %d jobs (%.0f a job)\n",
           last - first + 1, (unsigned long long)shared->fewest, rate, jobs, rate / jobs);
#define X(name) printf("%s %llu  ", #name, (unsigned long long)shared->name);
    SUMS(X)
#undef X
    printf("\n");
    unsigned moves_seen[SEQUENCE_STATES];
    for (int i = 0; i < SEQUENCE_STATES; i++)
        moves_seen[i] = shared->moves_seen[i];
    if (!bad && !moves_are_good(moves_seen, last - first + 1)) {
        bad = 1;
        printf("not ok sim moves\n");
    }
    if (!bad && !begins_in_time()) {
        bad = 1;
        printf("not ok sim begin\n");
    }
    if (!bad && !steps_are_short()) {
        bad = 1;
        printf("not ok sim steps\n");
    }
    if (!bad)
        printf("ok sim %llu..%llu\n", first, last);
    return bad ? 1 : 0;
}
