/*
 * link_endpoint.c - what an endpoint may look like, and what must hold before one is bound.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "proto/link_socket.h"

enum { IPC_PATH_MAX = 107 }; /* sun_path has 108 bytes, one for the zero */

static const char *after_prefix(const char *s, const char *prefix) {
    size_t len = strlen(prefix);
    return strncmp(s, prefix, len) == 0 ? s + len : NULL;
}

static int check_ipc(const char *path, struct error *err) {
    if (path[0] != '/')
        return error_set(err, ERR_INVALID, "endpoint 'ipc://%s' is not an absolute path", path);
    if (strlen(path) > IPC_PATH_MAX)
        return error_set(err, ERR_INVALID,
                         "endpoint 'ipc://%s' is too long: its path has %zu bytes, a socket's name "
                         "at most %d; use a shorter folder",
                         path, strlen(path), IPC_PATH_MAX);
    return 0;
}

static int check_tcp(const char *address, struct error *err) {
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address)
        return error_set(err, ERR_INVALID, "endpoint 'tcp://%s' is not 'tcp://host:port'", address);
    if (strcmp(colon, ":*") == 0)
        return 0;
    char *end;
    errno = 0;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (errno || end == colon + 1 || *end || port > 65535 || colon[1] < '0' || colon[1] > '9')
        return error_set(err, ERR_INVALID, "endpoint 'tcp://%s' has no port from 0 to 65535",
                         address);
    return 0;
}

int link_endpoint_check(const char *endpoint, struct error *err) {
    const char *rest;
    if (!endpoint || !endpoint[0])
        return error_set(
            err, ERR_INVALID,
            "an endpoint is missing; it looks like 'ipc:///run/trireme/scheduler.sock'");
    if ((rest = after_prefix(endpoint, "ipc://")))
        return check_ipc(rest, err);
    if ((rest = after_prefix(endpoint, "tcp://")))
        return check_tcp(rest, err);
    return error_set(err, ERR_INVALID,
                     "endpoint '%s' begins neither with 'ipc://' nor with 'tcp://'", endpoint);
}

int link_endpoints_check(const char *endpoints, struct error *err) {
    char *all = mem_strdup(endpoints ? endpoints : ""), *rest = all, *one;
    int rc = 0;
    while (!rc && (one = strsep(&rest, ",")))
        rc = link_endpoint_check(one, err);
    mem_free(all);
    return rc;
}

/* The folder keeps strangers out: whoever can open the socket can speak to the scheduler. */
static int prepare_folder(const char *path, struct error *err) {
    struct stat st;
    char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
    int rc = folder[0] ? dir_make(folder, 0700, err) : 0;
    if (!rc && stat(folder[0] ? folder : "/", &st) != 0)
        rc = error_set_errno(err, "cannot look at folder '%s'", folder);
    if (!rc && (st.st_mode & 0077))
        rc = error_set(err, ERR_INVALID,
                       "folder '%s' of the socket may be entered by others (mode %04o); make it "
                       "0700 or choose another",
                       folder, (unsigned)(st.st_mode & 07777));
    mem_free(folder);
    return rc;
}

int link_endpoint_prepare(const char *endpoint, struct error *err) {
    int rc = link_endpoint_check(endpoint, err);
    const char *path = rc ? NULL : after_prefix(endpoint, "ipc://");
    return path ? prepare_folder(path, err) : rc;
}

/* Whoever may write into the folder may have put a socket of his there. */
int link_endpoint_trust(const char *endpoint, struct error *err) {
    struct stat st;
    const char *path = after_prefix(endpoint, "ipc://");
    char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
    int rc = 0;
    if (stat(folder[0] ? folder : "/", &st) != 0)
        rc = error_set(err, ERR_AGAIN, "there is no folder '%s' yet", folder);
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        rc = error_set(err, ERR_INVALID, "folder '%s' of the socket is another user's", folder);
    else if (st.st_mode & 0022)
        rc = error_set(err, ERR_INVALID,
                       "others may write into folder '%s' of the socket (mode %04o); chmod 700 it",
                       folder, (unsigned)(st.st_mode & 07777));
    mem_free(folder);
    return rc;
}
