#include "kernels/nccl.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static const struct nccl_calls *registered;
static struct nccl_calls loaded;

void nccl_register(const struct nccl_calls *calls) { registered = calls; }

struct nccl_config nccl_config_default(void) {
    return (struct nccl_config){.size = sizeof(struct nccl_config),
                                .magic = 0xcafebeef,
                                .version = NCCL_LEAST_VERSION,
                                .blocking = 0,
                                .cga_cluster_size = INT_MIN,
                                .min_ctas = INT_MIN,
                                .max_ctas = INT_MIN,
                                .split_share = INT_MIN};
}

int nccl_type_of(enum storage_type type) {
    return type == STORAGE_F16 ? NCCL_FLOAT16 : type == STORAGE_BF16 ? NCCL_BFLOAT16 : NCCL_FLOAT32;
}

static const struct {
    const char *name;
    size_t at;
} SYMBOLS[] = {
    {"ncclGetVersion", offsetof(struct nccl_calls, version)},
    {"ncclGetUniqueId", offsetof(struct nccl_calls, unique_id)},
    {"ncclCommInitRankConfig", offsetof(struct nccl_calls, init)},
    {"ncclCommGetAsyncError", offsetof(struct nccl_calls, async_error)},
    {"ncclCommAbort", offsetof(struct nccl_calls, abort)},
    {"ncclGetErrorString", offsetof(struct nccl_calls, error_string)},
    {"ncclSend", offsetof(struct nccl_calls, send)},
    {"ncclRecv", offsetof(struct nccl_calls, receive)},
    {"ncclGroupStart", offsetof(struct nccl_calls, group_start)},
    {"ncclGroupEnd", offsetof(struct nccl_calls, group_end)},
};

static int take_symbols(void *library, const char *path, struct error *err) {
    int version = 0;
    for (size_t i = 0; i < ARRAY_LEN(SYMBOLS); i++) {
        void *symbol = dlsym(library, SYMBOLS[i].name);
        if (!symbol) return error_set(err, ERR_UNSUPPORTED, "'%s' has no %s", path, SYMBOLS[i].name);
        memcpy((char *)&loaded + SYMBOLS[i].at, &symbol, sizeof symbol);
    }
    if (loaded.version(&version) != NCCL_SUCCESS || version < NCCL_LEAST_VERSION)
        return error_set(err, ERR_UNSUPPORTED, "'%s' is NCCL %d; %d and later work", path, version, NCCL_LEAST_VERSION);
    return 0;
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

static void *open_library(const char *given, char *path, size_t path_max) {
    static const char *const PACKAGES[] = {"/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
                                           "/usr/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2"};
    char pattern[PATH_MAX];
    const char *cuda = getenv("CUDA_HOME"), *venv = getenv("VIRTUAL_ENV");
    snprintf(path, path_max, "%s", given && *given ? given : "libnccl.so.2");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library || (given && *given)) return library;
    if (cuda && snprintf(pattern, sizeof pattern, "%s/lib64/libnccl.so.2", cuda) < (int)sizeof pattern)
        library = open_pattern(pattern, path, path_max);
    if (!library && venv &&
        snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2", venv) <
            (int)sizeof pattern)
        library = open_pattern(pattern, path, path_max);
    for (size_t i = 0; i < ARRAY_LEN(PACKAGES) && !library; i++) library = open_pattern(PACKAGES[i], path, path_max);
    return library;
}

int nccl_open(const char *library, const struct nccl_calls **out, struct error *err) {
    static bool done;
    char path[PATH_MAX];
    *out = registered ? registered : &loaded;
    if (registered || done) return 0;
    void *handle = open_library(library, path, sizeof path);
    if (!handle)
        return error_set(err, ERR_UNSUPPORTED,
                         "no NCCL: '%s' cannot be opened; install libnccl2 or the Python package nvidia-nccl-cu12, or "
                         "name it with --nccl",
                         path);
    int rc = take_symbols(handle, path, err);
    if (rc)
        dlclose(handle);
    else
        done = true;
    return rc;
}
