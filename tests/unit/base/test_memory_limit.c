/* Limits of memory on made-up machines: a folder that holds what Linux tells of memory and control
 * groups. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/memory_limit.h"
#include "check.h"

#define MB *(uint64_t)(1 << 20)

static char root[32];

static void end_machine(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    CHECK(system(command) == 0);
}

/* Writes root/folder/name, folders included. */
static void put(const char *folder, const char *name, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s/%s", root, folder, name);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(full, 0700);
    }
    FILE *f = fopen(full, "w");
    CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

/* Another machine: 64 GB, of which 48 are free. */
static void begin_machine(const char *groups) {
    snprintf(root, sizeof root, "/tmp/trm-test-XXXXXX");
    CHECK(mkdtemp(root));
    put("proc", "meminfo",
        "MemTotal:       67108864 kB\nMemFree:         1048576 kB\nMemAvailable:   50331648 kB\n");
    if (groups)
        put("proc/self", "cgroup", groups);
}

static void put_number(const char *folder, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)value);
    put(folder, name, text);
}

/* A group of the second kind: its limit, what it uses, and how much of that caches files. */
static void put_v2(const char *folder, const char *max, uint64_t used, uint64_t inactive,
                   uint64_t active) {
    char stat[256];
    snprintf(stat, sizeof stat,
             "anon 7\nfile 9\nactive_anon 11\ninactive_file %llu\nactive_file %llu\n",
             (unsigned long long)inactive, (unsigned long long)active);
    put(folder, "memory.max", max);
    put_number(folder, "memory.current", used);
    put(folder, "memory.stat", stat);
}

/* One of the first kind: what the group holds without those below it comes first. */
static void put_v1(const char *folder, uint64_t limit, uint64_t used, uint64_t cached) {
    char stat[256];
    snprintf(stat, sizeof stat,
             "inactive_file 1\nactive_file 2\nhierarchical_memory_limit 3\n"
             "total_inactive_file %llu\ntotal_active_file %llu\n",
             (unsigned long long)cached / 2, (unsigned long long)cached / 2);
    put_number(folder, "memory.limit_in_bytes", limit);
    put_number(folder, "memory.usage_in_bytes", used);
    put(folder, "memory.stat", stat);
}

#define EXPECT_MEMORY(limit, available)                                                            \
    do {                                                                                           \
        EXPECT_EQ(memory_limit(root), limit);                                                      \
        EXPECT_EQ(memory_available(root), available);                                              \
    } while (0)

TEST(a_machine_without_groups_has_what_its_kernel_says) {
    begin_machine(NULL);
    EXPECT_MEMORY(65536 MB, 49152 MB);
    put("proc/self", "cgroup", "0::/user.slice\n"); /* whose files are not there */
    EXPECT_MEMORY(65536 MB, 49152 MB);
    end_machine();
}

TEST(a_machine_of_which_nothing_is_known_has_no_figures) {
    snprintf(root, sizeof root, "/tmp/trm-test-XXXXXX");
    CHECK(mkdtemp(root));
    EXPECT_MEMORY(0, 0);
    put("proc/self", "cgroup", "0::/\n");
    put_v2("sys/fs/cgroup", "536870912\n", 12 MB, 0, 0);
    EXPECT_MEMORY(512 MB, 500 MB);
    end_machine();
}

TEST(a_group_of_the_second_kind_leaves_what_is_not_used_or_caches_files) {
    begin_machine("0::/a.slice/b\n");
    put_v2("sys/fs/cgroup/a.slice/b", "536870912\n", 200 MB, 40 MB, 60 MB);
    EXPECT_MEMORY(512 MB, 412 MB);
    put("sys/fs/cgroup/a.slice/b", "memory.high", "max\n");
    EXPECT_MEMORY(512 MB, 412 MB);
    put("sys/fs/cgroup/a.slice/b", "memory.high", "268435456\n");
    EXPECT_MEMORY(256 MB, 156 MB);
    put("sys/fs/cgroup/a.slice/b", "memory.max", "max\n");
    EXPECT_MEMORY(256 MB, 156 MB);
    put("sys/fs/cgroup/a.slice/b", "memory.high", "max\n");
    EXPECT_MEMORY(65536 MB, 49152 MB);
    end_machine();
}

TEST(each_group_around_it_bounds_a_process) {
    begin_machine("0::/kubepods/pod7/c\n");
    put_v2("sys/fs/cgroup/kubepods/pod7/c", "max\n", 100 MB, 0, 0);
    put_v2("sys/fs/cgroup/kubepods/pod7", "2147483648\n", 1792 MB, 0, 0); /* full of others */
    put_v2("sys/fs/cgroup/kubepods", "1073741824\n", 512 MB, 0, 0);
    EXPECT_MEMORY(1024 MB, 256 MB);
    end_machine();
}

TEST(a_container_sees_its_own_group_as_the_root) {
    begin_machine("0::/\n");
    put_v2("sys/fs/cgroup", "536870912\n", 128 MB, 0, 0);
    EXPECT_MEMORY(512 MB, 384 MB);
    end_machine();
    begin_machine("0::/../sibling\n");
    put_v2("sys/fs/cgroup", "536870912\n", 128 MB, 0, 0);
    EXPECT_MEMORY(512 MB, 384 MB);
    end_machine();
}

TEST(groups_of_the_first_kind_bound_it_too) {
    begin_machine("9:name=systemd:/x\n4:hugetlb,memory:/a/b\n1:cpu:/c\n");
    put_v1("sys/fs/cgroup/memory", 9223372036854771712u, 50000 MB, 0);
    put_v1("sys/fs/cgroup/memory/a", 9223372036854771712u, 4000 MB, 0);
    put_v1("sys/fs/cgroup/memory/a/b", 9223372036854771712u, 300 MB, 0);
    put_v1("sys/fs/cgroup/memory/c", 1 MB, 0, 0); /* that is where its CPU is bounded */
    EXPECT_MEMORY(65536 MB, 49152 MB);
    put_v1("sys/fs/cgroup/memory/a", 4096 MB, 4000 MB, 3000 MB);
    EXPECT_MEMORY(4096 MB, 3096 MB);
    put_v1("sys/fs/cgroup/memory/a/b", 512 MB, 300 MB, 64 MB);
    EXPECT_MEMORY(512 MB, 276 MB);
    end_machine();
}

TEST(a_container_of_the_first_kind_is_told_a_path_that_it_does_not_see) {
    begin_machine("4:memory:/docker/0123abcd\n0::/\n");
    put_v1("sys/fs/cgroup/memory", 512 MB, 100 MB, 0);
    EXPECT_MEMORY(512 MB, 412 MB);
    end_machine();
}

TEST(both_kinds_at_once_bound_it_by_the_first) {
    begin_machine("4:memory:/a\n0::/b\n");
    put_v1("sys/fs/cgroup/memory/a", 512 MB, 100 MB, 0);
    put("sys/fs/cgroup/unified/b", "cgroup.procs", "1\n");
    EXPECT_MEMORY(512 MB, 412 MB);
    end_machine();
}

TEST(a_full_group_leaves_a_byte_for_none_would_mean_unknown) {
    begin_machine("0::/\n");
    put_v2("sys/fs/cgroup", "536870912\n", 600 MB, 0, 0);
    EXPECT_MEMORY(512 MB, 1);
    put_v2("sys/fs/cgroup", "536870912\n", 100 MB, 300 MB, 0); /* figures of two moments */
    EXPECT_MEMORY(512 MB, 512 MB);
    end_machine();
}

TEST(missing_figures_and_garbage_bound_nothing) {
    static const char *const GROUPS[] = {"",
                                         "\n",
                                         "0",
                                         "0:",
                                         "0::",
                                         "0::",
                                         "memory:/a\n",
                                         "::/",
                                         "4:memory",
                                         "4:memory:a\n",
                                         "4:memory2:/\n",
                                         "4:name=memory:/\n"};
    static const char *const LIMITS[] = {"", "\n", "-1\n", "much\n", "max"};
    for (size_t i = 0; i < ARRAY_LEN(GROUPS); i++) {
        begin_machine(GROUPS[i]);
        put_v1("sys/fs/cgroup/memory", 1 MB, 0, 0);
        put_v2("sys/fs/cgroup", "1048576\n", 0, 0, 0);
        EXPECT_MEMORY(65536 MB, 49152 MB);
        end_machine();
    }
    begin_machine("0::/\n");
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++) {
        put("sys/fs/cgroup", "memory.max", LIMITS[i]);
        EXPECT_MEMORY(65536 MB, 49152 MB);
    }
    put("sys/fs/cgroup", "memory.max", "536870912"); /* alone: nothing of it is used */
    EXPECT_MEMORY(512 MB, 512 MB);
    put("sys/fs/cgroup", "memory.current", "?\n");
    put("sys/fs/cgroup", "memory.stat", "inactive_file\nactive_file x\ninactive_file_2 9\n");
    EXPECT_MEMORY(512 MB, 512 MB);
    put_number("sys/fs/cgroup", "memory.current", 12 MB);
    EXPECT_MEMORY(512 MB, 500 MB);
    end_machine();
}
