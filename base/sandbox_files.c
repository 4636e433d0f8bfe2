/*
 * sandbox_files.c - Landlock (https://docs.kernel.org/userspace-api/landlock.html): which files are
 * left to a process. The numbers stand here, since Debian 12's headers are older than some of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/sandbox.h"

enum {
    CREATE_RULESET = 444,
    ADD_RULE = 445,
    RESTRICT_SELF = 446,
    ASK_VERSION = 1,
    RULE_PATH_BENEATH = 1
};

/* Rights of version 1, and one of version 3. To move a file into another folder is a right of its
 * own (version 2) that nobody gets. */
enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_FILE = 1 << 5,
    MAKE_DIR = 1 << 7,
    MAKE_REG = 1 << 8,
    MAKE_SOCK = 1 << 9,
    OF_VERSION_1 = (1 << 13) - 1,
    TRUNCATE = 1 << 14,
    OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE,
    READING = READ_FILE | READ_DIR,
    WRITING = READING | WRITE_FILE | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | TRUNCATE
};

struct ruleset {
    uint64_t handled;
};
struct path_beneath {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

struct rules {
    int fd;
    uint64_t handled;
};

/* What libc, OpenSSL and the page of metrics read: libraries, names of hosts, figures of the process.
 * Memory of other processes stays closed: the kernel asks Landlock for that, too. */
static const char *const SYSTEM[] = {"/usr",
                                     "/lib",
                                     "/lib64",
                                     "/etc",
                                     "/proc",
                                     "/sys",
                                     "/dev/null",
                                     "/dev/urandom",
                                     "/run/systemd/resolve",
                                     "/run/NetworkManager"};

/* What is not there needs no rule. */
static int allow(const struct rules *rules, const char *path, uint64_t rights, struct error *err) {
    struct stat st;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    if (!S_ISDIR(st.st_mode))
        rights &= OF_FILES;
    struct path_beneath beneath = {.allowed = rights & rules->handled, .parent = fd};
    long rc = syscall(ADD_RULE, rules->fd, RULE_PATH_BENEATH, &beneath, 0);
    if (rc)
        error_set_errno(err, "cannot leave '%s' to the process", path);
    close(fd);
    return rc ? err->code : 0;
}

/* The folder that a path is in. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return mem_strdup(".");
    return slash == path ? mem_strdup("/") : mem_strndup(path, (size_t)(slash - path));
}

static int allow_folder_of(const struct rules *rules, const char *path, uint64_t rights,
                           struct error *err) {
    char *folder = folder_of(path);
    int rc = allow(rules, folder, rights, err);
    mem_free(folder);
    return rc;
}

/* Who cannot make it is told so when he uses it. */
static int allow_writing(const struct rules *rules, const char *folder, struct error *err) {
    struct error ignored;
    if (dir_make(folder, 0700, &ignored))
        return 0;
    return allow(rules, folder, WRITING, err);
}

static int allow_place(const struct rules *rules, const struct sandbox_place *place,
                       struct error *err) {
    char *name = NULL;
    int rc = 0;
    if (!place->path || !*place->path)
        return 0;
    switch (place->use) {
    case SANDBOX_READS_FILE: /* and the folder of what it is a link to */
        rc = allow_folder_of(rules, place->path, READING, err);
        name = realpath(place->path, NULL);
        if (!rc && name)
            rc = allow_folder_of(rules, name, READING, err);
        free(name);
        break;
    case SANDBOX_WRITES_FILE:
        name = folder_of(place->path);
        rc = allow_writing(rules, name, err);
        mem_free(name);
        break;
    case SANDBOX_WRITES_BELOW: rc = allow_writing(rules, place->path, err); break;
    }
    return rc;
}

struct libraries {
    const struct rules *rules;
    struct error *err;
};

/* Those that are opened later lie beside those that are there. */
static int allow_library(struct dl_phdr_info *info, size_t size, void *ctx) {
    struct libraries *l = ctx;
    if (!info->dlpi_name || info->dlpi_name[0] != '/')
        return 0; /* the program itself */
    return allow_folder_of(l->rules, info->dlpi_name, READING, l->err);
}

static int allow_all(const struct rules *rules, const struct sandbox_place *places, size_t count,
                     struct error *err) {
    struct libraries libraries = {rules, err};
    int rc = dl_iterate_phdr(allow_library, &libraries);
    for (size_t i = 0; !rc && i < ARRAY_LEN(SYSTEM); i++)
        rc = allow(rules, SYSTEM[i], READING, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = allow_place(rules, &places[i], err);
    return rc;
}

int sandbox_enter_files(const struct sandbox_place *places, size_t count, struct error *err) {
    long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
    if (version < 1 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return error_set(err, ERR_UNSUPPORTED, "this kernel has no Landlock");
    struct ruleset set = {.handled = OF_VERSION_1 | (version >= 3 ? TRUNCATE : 0)};
    struct rules rules = {.fd = (int)syscall(CREATE_RULESET, &set, sizeof set, 0),
                          .handled = set.handled};
    if (rules.fd < 0)
        return error_set_errno(err, "cannot make rules for files");
    int rc = allow_all(&rules, places, count, err);
    if (!rc && syscall(RESTRICT_SELF, rules.fd, 0))
        rc = error_set_errno(err, "cannot give up files");
    close(rules.fd);
    return rc;
}
