/* device_open: the CPU, and the kinds that a program brings along. */
#include "kernels/device.h"

#include "base/log.h"
#include "base/memory_limit.h"
#include "kernels/cpu/cpu.h"
#include "kernels/integer_groups.h"
#include "kernels/integers.h"

enum { KINDS_MAX = 4 };

static struct {
    const char *name;
    device_open_fn open;
} kinds[KINDS_MAX];
static size_t kind_count;

void device_register(const char *kind, device_open_fn open) {
    CHECK(kind_count < KINDS_MAX);
    kinds[kind_count].name = kind;
    kinds[kind_count++].open = open;
}

bool device_known(const char *kind) {
    for (size_t i = 0; i < kind_count; i++)
        if (!strcmp(kind, kinds[i].name))
            return true;
    return !strcmp(kind, "cpu");
}

static int open_kind(const struct device_options *options, const char *kind, struct device **out,
                     struct error *err) {
    struct device_options one = *options;
    one.kind = kind;
    if (!strcmp(kind, "cpu"))
        return cpu_device_open(&one, out, err);
    for (size_t i = 0; i < kind_count; i++)
        if (!strcmp(kind, kinds[i].name))
            return kinds[i].open(&one, out, err);
    return error_set(err, ERR_UNSUPPORTED, "no device of kind '%s' in this build", kind);
}

int device_open(const struct device_options *options, struct device **out, struct error *err) {
    const char *kind = options->kind ? options->kind : "cpu";
    struct error why;
    if (*kind && strcmp(kind, "auto"))
        return open_kind(options, kind, out, err);
    if (device_known("cuda")) {
        int rc = open_kind(options, "cuda", out, &why);
        if (!rc && (*out)->kind == DEVICE_CUDA)
            return 0;
        if (rc)
            log_info("computing on the CPU: %s", why.text);
        else
            device_close(out);
    }
    return open_kind(options, "cpu", out, err);
}

/* ---- memory ---- */

uint64_t device_memory_available(struct device *dev) {
    uint64_t own = device_memory_free(dev);
    return own ? own : memory_available("");
}

/* Whether all weights are fp8, in whole steps of k that the products of fp8 have. */
static bool allows_fp8(const struct matrix *w) {
    for (uint32_t i = 0; i < w->segment_count; i++)
        if (segment_type(w, &w->segments[i]) != STORAGE_F8_E4M3)
            return false;
    return w->segment_count && w->cols % 128 == 0;
}

enum compute_type device_compute(const struct device *dev, const struct matrix *w) {
    bool integers = dev->compute & COMPUTE_INT8, bf16 = dev->compute & COMPUTE_BF16,
         groups = dev->compute & COMPUTE_INT8_GROUPS;
    if (dev->compute & (COMPUTE_FP8 | COMPUTE_FP8_PROMPTS))
        return allows_fp8(w) ? dev->compute : COMPUTE_F32;
    for (uint32_t i = 0; i < w->segment_count; i++) {
        groups = groups && segment_has_groups(w, &w->segments[i]);
        integers = integers && segment_has_integers(w, &w->segments[i]);
        enum storage_type type = segment_type(w, &w->segments[i]);
        bf16 = bf16 && (type == STORAGE_BF16 || (dev->bf16_of_blocks && !storage_is_plain(type)));
    }
    if (groups)
        return COMPUTE_INT8_GROUPS;
    return integers ? COMPUTE_INT8 : bf16 ? COMPUTE_BF16 : COMPUTE_F32;
}
