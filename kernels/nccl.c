#include "kernels/nccl.h"

#include <dlfcn.h>
#include <limits.h>

#include "kernels/library.h"

static const struct nccl_calls *registered;
static struct nccl_calls loaded;

void nccl_register(const struct nccl_calls *calls) {
    registered = calls;
}

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

static const struct library_symbol SYMBOLS[] = {
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
    int version = 0, rc = library_symbols(library, path, SYMBOLS, ARRAY_LEN(SYMBOLS), &loaded, err);
    if (rc)
        return rc;
    if (loaded.version(&version) != NCCL_SUCCESS || version < NCCL_LEAST_VERSION)
        return error_set(err, ERR_UNSUPPORTED, "'%s' is NCCL %d; %d and later work", path, version,
                         NCCL_LEAST_VERSION);
    return 0;
}

int nccl_open(const char *library, const struct nccl_calls **out, struct error *err) {
    static bool done;
    char path[PATH_MAX];
    *out = registered ? registered : &loaded;
    if (registered || done)
        return 0;
    void *handle = library_open(library, "libnccl.so.2", "nvidia/nccl/lib", path, sizeof path);
    if (!handle)
        return error_set(err, ERR_UNSUPPORTED,
                         "no NCCL: '%s' cannot be opened; install libnccl2 or the Python package "
                         "nvidia-nccl-cu12, or "
                         "name it with --nccl",
                         path);
    int rc = take_symbols(handle, path, err);
    if (rc)
        dlclose(handle);
    else
        done = true;
    return rc;
}
