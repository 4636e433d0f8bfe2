/* Default threads on made-up machines: a folder that holds what Linux tells of cores and control
 * groups. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "kernels/cpu/thread_count.h"

static char root[] = "/tmp/trireme-threads-XXXXXX";

/* Writes root/path, folders included. */
static void put(const char *path, const char *text) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(full, 0700);
    }
    FILE *f = fopen(full, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        abort();
}
static void siblings(int cpu, const char *list) {
    char path[128];
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    put(path, list);
}

static int threads_on(const char *cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (; *cpus; cpus++)
        CPU_SET((size_t)(*cpus - '0'), &set);
    return cpu_thread_count(root, &set);
}

static void remove_root(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (system(command))
        abort();
}

TEST(threads_are_the_cores_allowed_and_no_more_than_the_groups_grant) {
    if (!mkdtemp(root))
        abort();
    atexit(remove_root);
    EXPECT_EQ(threads_on("0123"), 4); /* nothing known */
    siblings(0, "0,4\n");
    siblings(1, "1,5\n");
    siblings(2, "2-3\n");
    siblings(3, "2-3\n");
    siblings(4, "0,4\n");
    siblings(5, "1,5\n");
    EXPECT_EQ(threads_on("012345"), 3);
    EXPECT_EQ(threads_on("04"), 1);
    EXPECT_EQ(threads_on("45"), 2); /* the lower siblings are not ours */
    EXPECT_EQ(threads_on("35"), 2);
    EXPECT_EQ(threads_on(""), 1);

    put("proc/self/cgroup", "0::/a.slice/b\n");
    put("sys/fs/cgroup/cpu.max", "max 100000\n");
    EXPECT_EQ(threads_on("012345"), 3);
    put("sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n");
    EXPECT_EQ(threads_on("012345"), 2);
    put("sys/fs/cgroup/a.slice/b/cpu.max", "50000 100000\n");
    EXPECT_EQ(threads_on("012345"), 1);
    put("sys/fs/cgroup/a.slice/b/cpu.max", "max 100000\n");
    EXPECT_EQ(threads_on("012345"), 2);
    put("proc/self/cgroup", "0::/\n"); /* as a container sees its own */
    EXPECT_EQ(threads_on("012345"), 3);
    put("sys/fs/cgroup/cpu.max", "100000 100000\n");
    EXPECT_EQ(threads_on("012345"), 1);
}

TEST(groups_of_the_first_kind_bound_threads_too) {
    put("proc/self/cgroup", "12:cpuset:/\n4:cpuacct,cpu:/docker/abc\n1:name=systemd:/x\n0::/\n");
    put("sys/fs/cgroup/cpu.max", "max 100000\n");
    EXPECT_EQ(threads_on("012345"), 3);
    put("sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(threads_on("012345"), 3);
    put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "150000\n");
    EXPECT_EQ(threads_on("012345"), 3); /* no period */
    put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(threads_on("012345"), 2);
    put("sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "100000\n");
    EXPECT_EQ(threads_on("012345"), 1);
    put("sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"); /* a container sees its own as root */
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(threads_on("012345"), 1);
    put("proc/self/cgroup", "12:cpuset:/\n0::/\n");
    EXPECT_EQ(threads_on("012345"), 3);
}
