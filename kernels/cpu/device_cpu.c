/*
 * device_cpu.c - memory, streams and events of the CPU, and the choice of instruction set. Every
 * call is done when it returns, so a stream is only a pointer to its device and an event is always
 * done.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory_limit.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/int8.h"
#include "kernels/cpu/thread_count.h"

static void cpu_close(struct device *dev) {
    struct cpu_device *cpu = (struct cpu_device *)dev;
    thread_pool_free(&cpu->pool);
    free(cpu->pack);
    mem_free(cpu);
}

/* Aligned to vectors, what is large to huge pages; not touched, so that memory nobody writes costs
 * nothing. */
static void *cpu_alloc(struct device *dev, size_t size) {
    enum { HUGE_PAGE = 2 << 20 };
    size_t align = size < 2 * HUGE_PAGE ? 64 : HUGE_PAGE,
           rounded = (size + align - 1) / align * align;
    return rounded < size ? NULL : aligned_alloc(align, MAX(rounded, align));
}
static void cpu_free(struct device *dev, void *p) {
    free(p);
}
static const void *cpu_import(struct device *dev, const void *host, size_t size) {
    return host;
}
static void cpu_unimport(struct device *dev, const void *p) {}

static struct stream *cpu_stream_new(struct device *dev) {
    struct stream *s = mem_alloc(sizeof *s);
    s->dev = dev;
    return s;
}
static void cpu_stream_free(struct stream *s) {
    mem_free(s);
}
static void cpu_copy_in(struct stream *s, void *to, const void *host, size_t size) {
    if (size)
        memcpy(to, host, size);
}
static void cpu_copy_out(struct stream *s, void *host, const void *from, size_t size) {
    if (size)
        memcpy(host, from, size);
}
static void cpu_fill(struct stream *s, void *to, int byte, size_t size) {
    memset(to, byte, size);
}

static struct event *cpu_event_new(struct device *dev) {
    struct event *e = mem_alloc(sizeof *e);
    e->dev = dev;
    return e;
}
static void cpu_event_free(struct event *e) {
    mem_free(e);
}
static void cpu_event_record(struct event *e, struct stream *s) {}
static int cpu_event_done(struct event *e) {
    return 1;
}
static int cpu_event_wait(struct event *e) {
    return 0;
}

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

/* The tables of operations that this build has. */
static const struct ops *const OPS[CPU_ISA_COUNT] = {
    [CPU_ISA_REF] = &ref_ops,        [CPU_ISA_SCALAR] = &cpu_ops_scalar,
#if defined(__x86_64__)
    [CPU_ISA_AVX2] = &cpu_ops_avx2,  [CPU_ISA_AVX512] = &cpu_ops_avx512,
    [CPU_ISA_AMX] = &cpu_ops_avx512, /* cpu_device.tiles says where it takes tiles */
#elif defined(__aarch64__)
    [CPU_ISA_NEON] = &cpu_ops_neon,
#endif
};

size_t device_cpu_isas(const char *names[CPU_ISAS_MAX]) {
    struct cpu_features features;
    struct error err;
    size_t count = 0;
    CHECK_MSG(!cpu_features_read(&features, &err), "%s", err.text);
    for (size_t i = CPU_ISA_SCALAR; i < CPU_ISA_COUNT; i++)
        if (OPS[i] && cpu_isa_runs((enum cpu_isa)i, features)) {
            CHECK(count < CPU_ISAS_MAX);
            names[count++] = cpu_isa_name((enum cpu_isa)i);
        }
    return count;
}

static int choose_isa(const char *want, struct cpu_features *features, enum cpu_isa *isa,
                      struct error *err) {
    if (!want || !*want || !strcmp(want, "auto"))
        want = getenv("TRIREME_ISA");
    int rc = cpu_features_read(features, err);
    if (!rc)
        rc = cpu_isa_choose(want, *features, isa, err);
    CHECK(rc || OPS[*isa]);
    return rc;
}

/* By itself a device takes fewer bits where they are faster. Tiles take weights of all types in
 * bf16, but one row of few bits is read faster as integers, and the number of rows must not
 * decide. */
static int choose_compute(const char *want, enum cpu_isa isa, struct cpu_features features,
                          enum compute_type *out, struct error *err) {
    *out = COMPUTE_F32;
    if (!want || !strcmp(want, "f32"))
        return 0;
    if (!strcmp(want, "int8") || !strcmp(want, "bf16")) {
        *out = *want == 'i' ? COMPUTE_INT8 : COMPUTE_BF16;
        return 0;
    }
    if (!strncmp(want, "fp8", 3))
        return error_set(err, ERR_UNSUPPORTED,
                         "compute type '%s' is one of GPUs; a CPU has auto, f32, bf16, int8", want);
    if (strcmp(want, "auto"))
        return error_set(err, ERR_UNSUPPORTED,
                         "unknown compute type '%s'; known are auto, f32, bf16, int8", want);
    if (isa == CPU_ISA_AMX && features.bits & CPU_BIT(AMX_INT8) &&
        features.bits & CPU_BIT(AVX512_VNNI))
        *out |= COMPUTE_INT8_GROUPS;
    else if (int8_best(isa, features) != &int8_plain)
        *out |= COMPUTE_INT8;
    if (isa >= CPU_ISA_AVX512 && features.bits & CPU_BIT(AVX512_BF16))
        *out |= COMPUTE_BF16;
    return 0;
}

/* Where it is faster, or the set has tiles for it. */
static bool attends_in_bf16(enum cpu_isa isa, struct cpu_features features) {
    return (isa == CPU_ISA_AMX || isa == CPU_ISA_AVX512) && features.bits & CPU_BIT(AVX512_BF16);
}

static void cpu_name(char *out, size_t size) {
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    snprintf(out, size, "CPU");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f)
        fclose(f);
}

static int default_threads(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : cpu_thread_count("", &set);
}

int cpu_device_open(const struct device_options *options, struct device **out, struct error *err) {
    struct cpu_features features;
    enum cpu_isa isa;
    enum compute_type compute = COMPUTE_F32;
    int rc = choose_isa(options->isa, &features, &isa, err);
    if (!rc)
        rc = choose_compute(options->compute, isa, features, &compute, err);
    if (rc)
        return rc;
    struct cpu_device *cpu = mem_alloc(sizeof *cpu);
    int threads = options->thread_count > 0 ? options->thread_count : default_threads();
    cpu->dev = (struct device){.calls = &CPU_CALLS,
                               .ops = OPS[isa],
                               .kind = DEVICE_CPU,
                               .thread_count = (uint32_t)MIN(threads, CPU_THREADS_MAX),
                               .memory_bytes = memory_limit(""),
                               .step_tokens = DEVICE_STEP_TOKENS,
                               .activation_type = STORAGE_F32,
                               .compute = compute,
                               .bf16_of_blocks = isa == CPU_ISA_AMX,
                               .in_order_at_once = true,
                               .drafts = true};
    snprintf(cpu->dev.isa, sizeof cpu->dev.isa, "%s", cpu_isa_name(isa));
    cpu->features = features;
    cpu_name(cpu->dev.name, sizeof cpu->dev.name);
    cpu->pack = aligned_alloc(64, CPU_PACK_BYTES);
    CHECK(cpu->pack);
    cpu->int8 = int8_best(isa, features);
    cpu->bf16 = bf16_best(isa, features);
    cpu->attends_in_bf16 = compute != COMPUTE_F32 && attends_in_bf16(isa, features);
    snprintf(cpu->dev.attention, sizeof cpu->dev.attention, "%s",
             cpu->attends_in_bf16 ? "bf16" : "f32");
    snprintf(cpu->dev.packed_order, sizeof cpu->dev.packed_order, "%s, %s, %llx", cpu->int8->name,
             cpu->bf16->name, (unsigned long long)features.bits);
    cpu->tiles = isa == CPU_ISA_AMX;
    cpu->pool = thread_pool_new((int)cpu->dev.thread_count, options->spin_us);
    *out = &cpu->dev;
    return 0;
}
