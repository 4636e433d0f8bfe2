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

/* A number at the start of a file; 0: there is none. */
static long read_number(const char *root, const char *path) {
    char line[LINE_BYTES];
    return read_line(root, path, line) ? strtol(line, NULL, 10) : 0;
}

/* CPUs' worth of time, rounded up. No quota, or -1: no limit. */
static int least(long quota, long period, int limit) {
    if (quota <= 0 || period <= 0)
        return limit;
    return (int)MIN((quota + period - 1) / period, (long)limit);
}

/* Of one group: "200000 100000" is 2, "max 100000" no limit. */
static int v2_limit(const char *root, const char *group, int limit) {
    char path[PATH_BYTES], line[LINE_BYTES];
    long quota = 0, period = 0;
    snprintf(path, sizeof path, "sys/fs/cgroup%s/cpu.max", group);
    if (!read_line(root, path, line) || sscanf(line, "%ld %ld", &quota, &period) != 2)
        return limit;
    return least(quota, period, limit);
}

/* The same two figures, in files of their own. Systems call the folder "cpu" too where it is of
 * more controllers. */
static int v1_limit(const char *root, const char *group, int limit) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", group);
    long quota = read_number(root, path);
    snprintf(path, sizeof path, "sys/fs/cgroup/cpu%s/cpu.cfs_period_us", group);
    return least(quota, read_number(root, path), limit);
}

/* The process's groups and those around them. */
static int groups_limit(const char *root, int limit) {
    char full[PATH_BYTES], line[LINE_BYTES], *group;
    snprintf(full, sizeof full, "%s/proc/self/cgroup", root);
    FILE *f = fopen(full, "re");
    while (f && fgets(line, sizeof line, f)) {
        enum control_group_kind kind = control_group_of(line, "cpu", &group);
        if (kind == CONTROL_GROUP_OTHER)
            continue;
        do
            limit = kind == CONTROL_GROUP_V2 ? v2_limit(root, group, limit)
                                             : v1_limit(root, group, limit);
        while (control_group_leave(group));
    }
    if (f)
        fclose(f);
    return limit;
}

int cpu_thread_count(const char *root, const cpu_set_t *allowed) {
    return groups_limit(root, core_count(root, allowed));
}
