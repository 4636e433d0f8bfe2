/*
 * thread_count.h - how many threads compute where nobody says: one for each physical core that the
 * process may run on (a core's second hardware thread adds nothing to products and attention), and
 * no more than its control groups may use at a time (Linux, cgroup v2).
 */
#ifndef KERNELS_CPU_THREAD_COUNT_H
#define KERNELS_CPU_THREAD_COUNT_H

#include <sched.h>

/* At least 1. allowed: the CPUs that the process may run on. root: a folder that stands for / (with
 * proc/self/cgroup, sys/devices/system/cpu and sys/fs/cgroup); "" outside of tests. What cannot be
 * read limits nothing: without it each CPU counts as a core. */
int cpu_thread_count(const char *root, const cpu_set_t *allowed);

#endif
