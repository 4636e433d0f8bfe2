#include "kernels/cpu/thread_count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/control_group.h"

enum { LINE_BYTES = 1024, PATH_BYTES = 4096 };

/* The first line of root/path. */
static bool read_line(const char *root, const char *path, char line[LINE_BYTES]) {
    char full[PATH_BYTES];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *f = fopen(full, "re");
    bool got = f && fgets(line, LINE_BYTES, f);
    if (f)
        fclose(f);
    return got;
}

/* Whether a list as "0-1,64" names an allowed CPU below `cpu`: its core is counted there. */
static bool names_lower(const char *list, int cpu, const cpu_set_t *allowed) {
    char *end;
    for (const char *at = list;; at = end + 1) {
        long first = strtol(at, &end, 10), last = first;
        if (end == at)
            return false;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long i = MAX(first, 0L); i <= last && i < cpu; i++)
            if (CPU_ISSET((size_t)i, allowed))
                return true;
        if (*end != ',')
            return false;
    }
}

static int core_count(const char *root, const cpu_set_t *allowed) {
    int count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[128], line[LINE_BYTES];
        if (!CPU_ISSET((size_t)cpu, allowed))
            continue;
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        count += !read_line(root, path, line) || !names_lower(line, cpu, allowed);
    }
    return MAX(count, 1);
}

/* CPUs' worth of time of one group, rounded up: "200000 100000" is 2, "max 100000" no limit. */
static int group_limit(const char *root, const char *group, int limit) {
    char path[PATH_BYTES], line[LINE_BYTES];
    long quota, period;
    snprintf(path, sizeof path, "sys/fs/cgroup%s/cpu.max", group);
    if (!read_line(root, path, line) || sscanf(line, "%ld %ld", &quota, &period) != 2 ||
        quota <= 0 || period <= 0)
        return limit;
    return (int)MIN((quota + period - 1) / period, (long)limit);
}

/* The process's group and those around it. */
static int groups_limit(const char *root, int limit) {
    char line[LINE_BYTES];
    if (!read_line(root, "proc/self/cgroup", line) || strncmp(line, "0::/", 4))
        return limit;
    char *group = line + 3;
    group[strcspn(group, "\n")] = 0;
    do
        limit = group_limit(root, group, limit);
    while (control_group_leave(group));
    return limit;
}

int cpu_thread_count(const char *root, const cpu_set_t *allowed) {
    return groups_limit(root, core_count(root, allowed));
}
