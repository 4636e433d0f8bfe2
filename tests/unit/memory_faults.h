/*
 * memory_faults.h - memory that runs out on purpose: in programs named test_*_memory every call of
 * mem_try_alloc and mem_try_realloc from another file than base/mem.c comes here first
 * (tests/CMakeLists.txt). Include it once a program.
 *
 * Threads that exist when faults_spare_threads() is called (the test's own, and a fake's) get what
 * they ask for.
 */
#ifndef TESTS_UNIT_MEMORY_FAULTS_H
#define TESTS_UNIT_MEMORY_FAULTS_H

#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem_large.h"

static struct {
    pid_t spared[64];
    size_t spared_count;
    atomic_long calls;          /* since the last faults_arm */
    atomic_long first, further; /* the first call that fails, and how many behind it do */
} faults;

static inline void faults_spare_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    faults.spared_count = 0;
    for (struct dirent *d; (d = readdir(tasks));)
        if (d->d_name[0] != '.' && faults.spared_count < ARRAY_LEN(faults.spared))
            faults.spared[faults.spared_count++] = (pid_t)atoi(d->d_name);
    closedir(tasks);
}

/* The n-th call from now on fails (1 is the next), and `further` after it. 0: none. */
static inline void faults_arm(long n, long further) {
    atomic_store(&faults.first, 0);
    atomic_store(&faults.calls, 0);
    atomic_store(&faults.further, further);
    atomic_store(&faults.first, n);
}

/* Ends it. How many calls there were. */
static inline long faults_disarm(void) {
    atomic_store(&faults.first, 0);
    return atomic_load(&faults.calls);
}

static inline bool faults_fail(void) {
    long first = atomic_load(&faults.first);
    if (!first)
        return false;
    for (size_t i = 0; i < faults.spared_count; i++)
        if (faults.spared[i] == gettid())
            return false;
    long call = atomic_fetch_add(&faults.calls, 1) + 1;
    return call >= first && call - first <= atomic_load(&faults.further);
}

void *__real_mem_try_alloc(size_t size);
void *__real_mem_try_realloc(void *old, size_t size);
void *__wrap_mem_try_alloc(size_t size);
void *__wrap_mem_try_realloc(void *old, size_t size);

void *__wrap_mem_try_alloc(size_t size) {
    return faults_fail() ? NULL : __real_mem_try_alloc(size);
}
void *__wrap_mem_try_realloc(void *old, size_t size) {
    return faults_fail() ? NULL : __real_mem_try_realloc(old, size);
}

#endif
