#include "kernels/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The folder above that of this program's file, or "": where a Python environment has its lib/. */
static const char *own_prefix(char *out, size_t out_max) {
    ssize_t len = readlink("/proc/self/exe", out, out_max - 1);
    out[MAX(len, 0)] = 0;
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(out, '/');
        if (slash)
            *slash = 0;
    }
    return out;
}

static void *open_pattern(const char *pattern, char *path, size_t path_max) {
    glob_t found = {0};
    void *library = NULL;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !library; i++) {
            snprintf(path, path_max, "%s", found.gl_pathv[i]);
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    globfree(&found);
    return library;
}

void *library_open(const char *given, const char *file, const char *folder, char *path,
                   size_t path_max) {
    char pattern[4096], tried[4096], prefix[4096];
    const char *cuda = getenv("CUDA_HOME"), *venv = getenv("VIRTUAL_ENV");
    const char *const places[] = {venv ? venv : "", own_prefix(prefix, sizeof prefix), "/usr/local",
                                  "/usr"};
    snprintf(path, path_max, "%s", given && *given ? given : file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library || (given && *given))
        return library;
    if (cuda && snprintf(pattern, sizeof pattern, "%s/lib64/%s", cuda, file) < (int)sizeof pattern)
        library = open_pattern(pattern, tried, sizeof tried);
    for (size_t i = 0; i < ARRAY_LEN(places) && !library; i++)
        if (*places[i] && snprintf(pattern, sizeof pattern, "%s/lib/python3*/*-packages/%s/%s",
                                   places[i], folder, file) < (int)sizeof pattern)
            library = open_pattern(pattern, tried, sizeof tried);
    if (library)
        snprintf(path, path_max, "%s", tried);
    return library;
}
