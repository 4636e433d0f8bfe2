/*
 * device_cpu.c - memory, streams and events of the CPU, and the choice of instruction set. Every call is done when it
 * returns, so a stream is only a pointer to its device and an event is always done.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static void cpu_close(struct device *dev) {
    struct cpu_device *cpu = (struct cpu_device *)dev;
    thread_pool_free(&cpu->pool);
    free(cpu->pack);
    mem_free(cpu);
}

/* Aligned to a page's worth of lanes; not touched, so that memory nobody writes costs nothing. */
static void *cpu_alloc(struct device *dev, size_t size) {
    size_t rounded = (size + 63) / 64 * 64;
    return rounded < size ? NULL : aligned_alloc(64, MAX(rounded, (size_t)64));
}
static void cpu_free(struct device *dev, void *p) { free(p); }
static const void *cpu_import(struct device *dev, const void *host, size_t size) { return host; }
static void cpu_unimport(struct device *dev, const void *p) {}

static struct stream *cpu_stream_new(struct device *dev) {
    struct stream *s = mem_alloc(sizeof *s);
    s->dev = dev;
    return s;
}
static void cpu_stream_free(struct stream *s) { mem_free(s); }
static void cpu_copy_in(struct stream *s, void *to, const void *host, size_t size) {
    if (size) memcpy(to, host, size);
}
static void cpu_copy_out(struct stream *s, void *host, const void *from, size_t size) {
    if (size) memcpy(host, from, size);
}
static void cpu_fill(struct stream *s, void *to, int byte, size_t size) { memset(to, byte, size); }

static struct event *cpu_event_new(struct device *dev) {
    struct event *e = mem_alloc(sizeof *e);
    e->dev = dev;
    return e;
}
static void cpu_event_free(struct event *e) { mem_free(e); }
static void cpu_event_record(struct event *e, struct stream *s) {}
static int cpu_event_done(struct event *e) { return 1; }
static int cpu_event_wait(struct event *e) { return 0; }

static const struct device_calls CPU_CALLS = {
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .alloc_host = cpu_alloc,
    .free_host = cpu_free,
    .import = cpu_import,
    .unimport = cpu_unimport,
    .stream_new = cpu_stream_new,
    .stream_free = cpu_stream_free,
    .copy_in = cpu_copy_in,
    .copy_out = cpu_copy_out,
    .fill = cpu_fill,
    .event_new = cpu_event_new,
    .event_free = cpu_event_free,
    .event_record = cpu_event_record,
    .event_done = cpu_event_done,
    .event_wait = cpu_event_wait,
};

/* ---- instruction sets ---- */

static bool any_machine(void) { return true; }
#if defined(__x86_64__)
/* clang 14's builtin does not know f16c. */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
/* The kernel gives the tiles' state only to processes that ask for it. */
static bool has_amx(void) {
    enum { BF16 = 1 << 22, TILE = 1 << 24, ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    unsigned a, b, c, d;
    return has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16) && (d & TILE) &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}
#endif

static const struct isa {
    const char *name;
    bool (*present)(void);
    const struct ops *ops;
} ISAS[] = {
    /* best last */
    {"scalar", any_machine, &cpu_ops_scalar},
#if defined(__x86_64__)
    {"avx2", has_avx2, &cpu_ops_avx2},
    {"avx512", has_avx512, &cpu_ops_avx512},
    {"amx", has_amx, &cpu_ops_amx},
#endif
};

size_t device_cpu_isas(const char *names[4]) {
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(ISAS); i++)
        if (ISAS[i].present()) names[count++] = ISAS[i].name;
    return count;
}

static int choose_isa(const char *want, struct isa *out, struct error *err) {
    if (!want || !*want || !strcmp(want, "auto")) want = getenv("TRIREME_ISA");
    if (want && !strcmp(want, "ref")) {
        *out = (struct isa){"ref", any_machine, &ref_ops};
        return 0;
    }
    bool best = !want || !*want || !strcmp(want, "auto");
    for (size_t i = ARRAY_LEN(ISAS); i-- > 0;) {
        if (!best && strcmp(want, ISAS[i].name)) continue;
        if (ISAS[i].present()) {
            *out = ISAS[i];
            return 0;
        }
        return error_set(err, ERR_UNSUPPORTED, "this machine lacks the instruction set '%s'", ISAS[i].name);
    }
    return error_set(err, ERR_UNSUPPORTED, "unknown instruction set '%s'; known are ref, scalar, avx2, avx512, amx",
                     want);
}

static void cpu_name(char *out, size_t size) {
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    snprintf(out, size, "CPU");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f) fclose(f);
}

static int usable_cpus(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

int cpu_device_open(const struct device_options *options, struct device **out, struct error *err) {
    struct isa isa = {0};
    int rc = choose_isa(options->isa, &isa, err);
    if (rc) return rc;
    struct cpu_device *cpu = mem_alloc(sizeof *cpu);
    struct sysinfo info;
    int threads = options->thread_count > 0 ? options->thread_count : usable_cpus();
    cpu->dev = (struct device){.calls = &CPU_CALLS,
                               .ops = isa.ops,
                               .kind = DEVICE_CPU,
                               .thread_count = (uint32_t)MIN(threads, CPU_THREADS_MAX),
                               .activation_type = STORAGE_F32,
                               .in_order_at_once = true};
    if (!sysinfo(&info)) cpu->dev.memory_bytes = (uint64_t)info.totalram * info.mem_unit;
    snprintf(cpu->dev.isa, sizeof cpu->dev.isa, "%s", isa.name);
    cpu_name(cpu->dev.name, sizeof cpu->dev.name);
    cpu->pack = !strcmp(isa.name, "amx") ? aligned_alloc(64, CPU_PACK_BYTES) : NULL;
    cpu->pool = thread_pool_new((int)cpu->dev.thread_count, options->spin_us);
    *out = &cpu->dev;
    return 0;
}
