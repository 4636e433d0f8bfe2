/*
 * control_group.h - the control groups of a process, from its own outwards, by the path that
 * /proc/self/cgroup gives (Linux; both kinds of groups).
 *
 * Threading: pure.
 */
#ifndef BASE_CONTROL_GROUP_H
#define BASE_CONTROL_GROUP_H

#include <stdbool.h>
#include <string.h>

/* Cuts a group's path to that of the group around it; that of the root is "". False: it was the
 * root's. A path as "/" is the root's first, so the root may come twice. */
static inline bool control_group_leave(char *path) {
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    return slash != NULL;
}

#endif
