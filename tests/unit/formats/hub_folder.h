/* hub_folder.h - a folder for a test of caches: made, filled, told as a text, removed. */
#ifndef TESTS_UNIT_FORMATS_HUB_FOLDER_H
#define TESTS_UNIT_FORMATS_HUB_FOLDER_H

#include "base/buf.h"
#include "base/fsutil.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[32];

static inline void folder_make(void) {
    snprintf(folder, sizeof folder, "/tmp/trm-test-XXXXXX");
    CHECK(mkdtemp(folder));
}

static inline void folder_remove(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0);
}

/* The path of a name in the folder; overwritten by the fourth call after it. */
static inline const char *in_folder(const char *name) {
    static char paths[4][600];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void make_parent_of(const char *path) {
    char *dir = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
    struct error err;
    CHECK(!dir_make(dir, 0755, &err));
    mem_free(dir);
}

/* A file there of these bytes, and the folders on its way. */
static inline void put_file(const char *name, const char *text) {
    const char *path = in_folder(name);
    struct error err;
    make_parent_of(path);
    CHECK(!file_write_atomic(path, text, strlen(text), 0644, &err));
}

static inline void put_link(const char *name, const char *target) {
    const char *path = in_folder(name);
    make_parent_of(path);
    CHECK(!symlink(target, path));
}

static inline int compare_entries(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void add_tree(const char *dir, size_t skip, struct buf *out) {
    char *names[256];
    size_t count = 0;
    DIR *d = opendir(dir);
    CHECK(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            CHECK(count < ARRAY_LEN(names));
            names[count++] = mem_strdup(e->d_name);
        }
    closedir(d);
    qsort(names, count, sizeof *names, compare_entries);
    for (size_t i = 0; i < count; i++) {
        char *path = path_join(dir, names[i]);
        struct stat st;
        CHECK(!lstat(path, &st));
        if (S_ISDIR(st.st_mode))
            add_tree(path, skip, out);
        else
            buf_addf(out, "%s%s\n", path + skip, S_ISLNK(st.st_mode) ? "@" : "");
        mem_free(path);
        mem_free(names[i]);
    }
}

/* All files in it, a line each in the order of bytes, links with an '@'; until the next call. */
static inline const char *folder_text(const char *name) {
    static struct buf text;
    const char *dir = in_folder(name);
    buf_reset(&text);
    if (dir_exists(dir))
        add_tree(dir, strlen(dir) + 1, &text);
    return buf_text(&text);
}

#endif
