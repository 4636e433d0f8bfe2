#include "kernels/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

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
    char pattern[4096], tried[4096];
    const char *cuda = getenv("CUDA_HOME"), *venv = getenv("VIRTUAL_ENV");
    const char *const places[] = {venv ? venv : "", "/usr/local", "/usr"};
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

int library_symbols(void *library, const char *path, const struct library_symbol *symbols,
                    size_t count, void *calls, struct error *err) {
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return error_set(err, ERR_UNSUPPORTED, "'%s' has no %s", path, symbols[i].name);
        memcpy((char *)calls + symbols[i].at, &symbol, sizeof symbol);
    }
    return 0;
}
