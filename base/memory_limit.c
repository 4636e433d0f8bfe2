#include "base/memory_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/control_group.h"

enum { LINE_BYTES = 4096 + 64, PATH_BYTES = 2 * 4096 };

/* Where a group's files lie, and what they are called. */
struct layout {
    const char *folder, *limits[2], *usage, *file_caches[2];
};

static const struct layout V1 = {.folder = "sys/fs/cgroup/memory",
                                 .limits = {"memory.limit_in_bytes"},
                                 .usage = "memory.usage_in_bytes",
                                 .file_caches = {"total_inactive_file", "total_active_file"}},
                           V2 = {.folder = "sys/fs/cgroup",
                                 .limits = {"memory.max", "memory.high"},
                                 .usage = "memory.current",
                                 .file_caches = {"inactive_file", "active_file"}};

struct memory {
    uint64_t limit, available; /* UINT64_MAX: no bound */
};

/* A number at the start of a text, after blanks; `otherwise` where there is none ("max"). */
static uint64_t number_of(const char *text, uint64_t otherwise) {
    text += strspn(text, " \t");
    return *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : otherwise;
}

/* The number after `name` in a file of one figure a line; name "": the file's only figure. */
static uint64_t figure(const char *path, const char *name, uint64_t otherwise) {
    char line[LINE_BYTES];
    size_t len = strlen(name);
    uint64_t value = otherwise;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (!len || (!strncmp(line, name, len) && strchr(" \t", line[len]))) {
            value = number_of(line + len, otherwise);
            break;
        }
    if (f)
        fclose(f);
    return value;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static void bound_by_group(struct memory *m, const char *root, const struct layout *files,
                           const char *group) {
    char path[PATH_BYTES];
    uint64_t limit = UINT64_MAX, cached = 0;
    for (size_t i = 0; i < ARRAY_LEN(files->limits) && files->limits[i]; i++) {
        snprintf(path, sizeof path, "%s/%s%s/%s", root, files->folder, group, files->limits[i]);
        uint64_t bound = figure(path, "", UINT64_MAX);
        limit = MIN(limit, bound);
    }
    if (limit == UINT64_MAX)
        return;
    snprintf(path, sizeof path, "%s/%s%s/%s", root, files->folder, group, files->usage);
    uint64_t used = figure(path, "", 0);
    snprintf(path, sizeof path, "%s/%s%s/memory.stat", root, files->folder, group);
    for (size_t i = 0; i < ARRAY_LEN(files->file_caches); i++)
        cached += figure(path, files->file_caches[i], 0);
    m->limit = MIN(m->limit, limit);
    uint64_t left = less(limit, less(used, cached));
    m->available = MIN(m->available, left);
}

/* A container may see its own group as the root, and yet be told the path that it has outside: what
 * of it is not there bounds nothing, and the root is read in any case. */
static void bound_by_groups(struct memory *m, const char *root, const struct layout *files,
                            char *group) {
    do
        bound_by_group(m, root, files, group);
    while (control_group_leave(group));
}

static void bound_by_line(struct memory *m, const char *root, char *line) {
    char *path;
    enum control_group_kind kind = control_group_of(line, "memory", &path);
    if (kind != CONTROL_GROUP_OTHER)
        bound_by_groups(m, root, kind == CONTROL_GROUP_V2 ? &V2 : &V1, path);
}

static struct memory memory_read(const char *root) {
    char path[PATH_BYTES], line[LINE_BYTES];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    uint64_t total = figure(path, "MemTotal:", 0), available = figure(path, "MemAvailable:", 0);
    struct memory m = {.limit = total ? total * 1024 : UINT64_MAX,
                       .available = available ? available * 1024 : UINT64_MAX};
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        bound_by_line(&m, root, line);
    if (f)
        fclose(f);
    return m;
}

uint64_t memory_limit(const char *root) {
    struct memory m = memory_read(root);
    return m.limit == UINT64_MAX ? 0 : m.limit;
}

uint64_t memory_available(const char *root) {
    struct memory m = memory_read(root);
    return m.available == UINT64_MAX ? 0 : MAX(m.available, (uint64_t)1);
}
