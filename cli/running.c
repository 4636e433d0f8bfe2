#include "cli/running.h"

#include "base/fsutil.h"
#include "base/list.h"
#include "cli/run_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_PORT = 8000 };

static const char NAME[] = "trireme(";

/* The run folder in the name of the process; false: it has none. */
static bool read_folder(const char *pid, char out[RUN_DIR_MAX + 1]) {
    char path[300], text[sizeof NAME + RUN_DIR_MAX + 1];
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    size_t len = strlen(text), head = sizeof NAME - 1;
    if (strncmp(text, NAME, head) != 0 || text[head] != '/' || text[len - 1] != ')')
        return false;
    snprintf(out, RUN_DIR_MAX + 1, "%.*s", (int)(len - head - 1), text + head);
    return true;
}

/* A process may call itself what it likes: its folder must be its user's, and that user be us. */
static bool is_ours(const char *pid, const char *folder) {
    char path[300];
    struct stat process, dir;
    snprintf(path, sizeof path, "/proc/%s", pid);
    if (stat(path, &process) || stat(folder, &dir) || !S_ISDIR(dir.st_mode))
        return false;
    return process.st_uid == dir.st_uid && (geteuid() == 0 || process.st_uid == geteuid());
}

void running_list(struct buf *out) {
    char folder[RUN_DIR_MAX + 1];
    DIR *dir = opendir("/proc");
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (*e->d_name >= '1' && *e->d_name <= '9' && read_folder(e->d_name, folder) &&
            !list_has(buf_text(out), '\n', bytes_str(folder)) && is_ours(e->d_name, folder))
            buf_addf(out, "%s\n", folder);
    if (dir)
        closedir(dir);
}

char *running_choose(const char *folders, struct error *err) {
    size_t len = strcspn(folders, "\n");
    char *usual = run_dir_default(DEFAULT_PORT);
    if (!*folders || list_has(folders, '\n', bytes_str(usual)))
        return usual;
    mem_free(usual);
    if (strlen(folders) <= len + 1)
        return mem_strndup(folders, len);
    struct buf list = {0};
    for (struct bytes folder; list_next(&folders, '\n', &folder);)
        buf_addf(&list, "%s%.*s", list.len ? ", " : "", (int)folder.len, (const char *)folder.data);
    error_set(err, ERR_INVALID, "several servers run here; say which one with --run-dir: %s",
              buf_text(&list));
    buf_release(&list);
    return NULL;
}
