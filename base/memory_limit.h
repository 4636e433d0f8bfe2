/*
 * memory_limit.h - how much memory the process may take: the machine's, or less where a control
 * group bounds it (a container's or a pod's limit, MemoryMax= of systemd). The kernel ends who takes
 * more than his groups may have, however much the machine has free.
 *
 * Read are the process's own group and each around it, of the second kind (memory.max, and
 * memory.high, above which the kernel slows a group down) and of the first (memory.limit_in_bytes):
 * https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1/memory.html. As in MemAvailable,
 * a group's cache of files counts as free: the kernel drops it before it ends anybody.
 *
 * root: a folder that stands for / (with proc/meminfo, proc/self/cgroup and sys/fs/cgroup); "" outside
 * of tests. What is missing or cannot be understood bounds nothing.
 *
 * Threading: pure, apart from the files.
 */
#ifndef BASE_MEMORY_LIMIT_H
#define BASE_MEMORY_LIMIT_H

#include <stdint.h>

/* Bytes that the process may have in all: the machine's memory or its groups' lowest limit. 0:
 * nothing is known. */
uint64_t memory_limit(const char *root);
/* Bytes that it can take now: the lowest of what the machine and each of the groups have left. At least
 * 1 where a group has nothing left; 0: nothing is known. */
uint64_t memory_available(const char *root);

#endif
