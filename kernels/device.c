/* device_open: the CPU, and the kinds that a program brings along. */
#include "kernels/device.h"
#include <stdio.h>

#include "kernels/cpu/cpu.h"

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
        if (!strcmp(kind, kinds[i].name)) return true;
    return !strcmp(kind, "cpu");
}

int device_open(const struct device_options *options, struct device **out, struct error *err) {
    if (!options->kind || !strcmp(options->kind, "cpu")) return cpu_device_open(options, out, err);
    for (size_t i = 0; i < kind_count; i++)
        if (!strcmp(options->kind, kinds[i].name)) return kinds[i].open(options, out, err);
    return error_set(err, ERR_UNSUPPORTED, "no device of kind '%s' in this build", options->kind);
}

uint64_t device_memory_available(struct device *dev) {
    if (device_memory_free(dev)) return device_memory_free(dev);
    char line[128];
    unsigned long long kb = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1) break;
    if (f) fclose(f);
    return (uint64_t)kb * 1024;
}
