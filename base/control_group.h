/*
 * control_group.h - the control groups of a process, from its own outwards, by the paths that
 * /proc/self/cgroup gives (Linux; both kinds of groups).
 *
 * Threading: pure.
 */
#ifndef BASE_CONTROL_GROUP_H
#define BASE_CONTROL_GROUP_H

#include <stdbool.h>
#include <string.h>

enum control_group_kind {
    CONTROL_GROUP_OTHER, /* the line is of other controllers, or none at all */
    CONTROL_GROUP_V1,    /* a group of its own for a few controllers */
    CONTROL_GROUP_V2     /* the one group for all; its line names no controller */
};

/* Of one line of /proc/self/cgroup, number:controllers:path: *path is the group's path, where the
 * group is one that may bound `controller`. Cuts the line at its end. */
static inline enum control_group_kind control_group_of(char *line, const char *controller,
                                                       char **path) {
    line[strcspn(line, "\n")] = 0;
    const char *at = strchr(line, ':');
    *path = at ? strchr(at + 1, ':') : NULL;
    if (!*path || *++*path != '/')
        return CONTROL_GROUP_OTHER;
    if (!strncmp(line, "0::", 3))
        return CONTROL_GROUP_V2;
    size_t len = strlen(controller);
    for (at++; *at; at += *at == ',') {
        size_t n = strcspn(at, ",:");
        if (n == len && !memcmp(at, controller, n))
            return CONTROL_GROUP_V1;
        at += n;
        if (*at == ':')
            break;
    }
    return CONTROL_GROUP_OTHER;
}

/* Cuts a group's path to that of the group around it; that of the root is "". False: it was the
 * root's. A path as "/" is the root's first, so the root may come twice. */
static inline bool control_group_leave(char *path) {
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    return slash != NULL;
}

#endif
