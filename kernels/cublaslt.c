#include "kernels/cublaslt.h"

#include <limits.h>

#include "kernels/library.h"

static const struct cublaslt_calls *registered;
static struct cublaslt_calls loaded;

void cublaslt_register(const struct cublaslt_calls *calls) {
    registered = calls;
}

#define SYMBOL(field, name)                                                                        \
    { "cublasLt" name, offsetof(struct cublaslt_calls, field) }
static const struct library_symbol SYMBOLS[] = {
    SYMBOL(version, "GetVersion"),
    SYMBOL(create, "Create"),
    SYMBOL(destroy, "Destroy"),
    SYMBOL(desc_create, "MatmulDescCreate"),
    SYMBOL(desc_set, "MatmulDescSetAttribute"),
    SYMBOL(desc_destroy, "MatmulDescDestroy"),
    SYMBOL(layout_create, "MatrixLayoutCreate"),
    SYMBOL(layout_destroy, "MatrixLayoutDestroy"),
    SYMBOL(preference_create, "MatmulPreferenceCreate"),
    SYMBOL(preference_set, "MatmulPreferenceSetAttribute"),
    SYMBOL(preference_destroy, "MatmulPreferenceDestroy"),
    SYMBOL(choose, "MatmulAlgoGetHeuristic"),
    SYMBOL(matmul, "Matmul"),
};

int cublaslt_open(const struct cublaslt_calls **out, struct error *err) {
    static bool done;
    char path[PATH_MAX];
    *out = registered ? registered : &loaded;
    if (registered || done)
        return 0;
    void *handle = library_open(NULL, "libcublasLt.so.13", "nvidia/cu13/lib", path, sizeof path);
    if (!handle)
        handle = library_open(NULL, "libcublasLt.so.12", "nvidia/cublas/lib", path, sizeof path);
    if (!handle)
        return error_set(
            err, ERR_UNSUPPORTED,
            "no cuBLASLt: '%s' cannot be opened; install a CUDA toolkit or the Python package "
            "nvidia-cublas, or use --gemm own",
            path);
    int rc = library_symbols(handle, path, SYMBOLS, ARRAY_LEN(SYMBOLS), &loaded, err);
    done = rc == 0;
    return rc;
}
