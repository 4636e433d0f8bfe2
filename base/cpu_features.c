#include "base/cpu_features.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static const struct {
    const char *name;
    enum cpu_feature needs;
} FEATURES[CPU_FEATURE_COUNT] = {{"none", CPU_NONE},
#define X(id_, name_, needs_) {name_, CPU_##needs_},
                                 CPU_FEATURE_TABLE(X)
#undef X
};

static const struct {
    const char *name;
    enum cpu_feature feature;
} GROUPS[] = {{"avx512", CPU_AVX512F}, {"amx", CPU_AMX_TILE}};

const char *cpu_feature_name(enum cpu_feature feature) {
    CHECK(feature < CPU_FEATURE_COUNT);
    return FEATURES[feature].name;
}

/* Clears what stands without the feature that it needs. One pass does it: needs come first. */
static struct cpu_features closed(struct cpu_features f) {
    for (size_t i = CPU_NONE + 1; i < CPU_FEATURE_COUNT; i++) {
        CHECK(FEATURES[i].needs < i);
        if (FEATURES[i].needs != CPU_NONE && !cpu_has(f, FEATURES[i].needs))
            f.bits &= ~((uint64_t)1 << i);
    }
    return f;
}

/* ---- from registers ---- */

enum {
    XCR0_AVX = 1 << 1 | 1 << 2,                        /* xmm, ymm */
    XCR0_AVX512 = XCR0_AVX | 1 << 5 | 1 << 6 | 1 << 7, /* masks, upper halves, zmm16 to zmm31 */
    XCR0_TILES = 1 << 17 | 1 << 18,
};

struct cpu_features cpu_features_of_x86(const struct cpu_registers_x86 *r) {
    bool avx = (r->xcr0 & XCR0_AVX) == XCR0_AVX;
    bool avx512 = (r->xcr0 & XCR0_AVX512) == XCR0_AVX512;
    bool tiles = (r->xcr0 & XCR0_TILES) == XCR0_TILES && r->tiles_allowed;
    const struct {
        enum cpu_feature feature;
        uint32_t value;
        int bit;
        bool saved; /* the operating system keeps its registers */
    } rows[] = {
        {CPU_SSE4_2, r->leaf1_ecx, 20, true},
        {CPU_BMI1, r->leaf7_ebx, 3, true},
        {CPU_BMI2, r->leaf7_ebx, 8, true},
        {CPU_LZCNT, r->extended1_ecx, 5, true},
        {CPU_AVX, r->leaf1_ecx, 28, avx},
        {CPU_F16C, r->leaf1_ecx, 29, avx},
        {CPU_FMA, r->leaf1_ecx, 12, avx},
        {CPU_AVX2, r->leaf7_ebx, 5, avx},
        {CPU_AVX_VNNI, r->leaf7_1_eax, 4, avx},
        {CPU_AVX_VNNI_INT8, r->leaf7_1_edx, 4, avx},
        {CPU_AVX512F, r->leaf7_ebx, 16, avx512},
        {CPU_AVX512BW, r->leaf7_ebx, 30, avx512},
        {CPU_AVX512DQ, r->leaf7_ebx, 17, avx512},
        {CPU_AVX512VL, r->leaf7_ebx, 31, avx512},
        {CPU_AVX512_VBMI, r->leaf7_ecx, 1, avx512},
        {CPU_AVX512_VBMI2, r->leaf7_ecx, 6, avx512},
        {CPU_AVX512_VNNI, r->leaf7_ecx, 11, avx512},
        {CPU_AVX512_BF16, r->leaf7_1_eax, 5, avx512},
        {CPU_AVX512_FP16, r->leaf7_edx, 23, avx512},
        {CPU_AMX_TILE, r->leaf7_edx, 24, tiles},
        {CPU_AMX_INT8, r->leaf7_edx, 25, tiles},
        {CPU_AMX_BF16, r->leaf7_edx, 22, tiles},
        {CPU_AMX_FP16, r->leaf7_1_eax, 21, tiles},
    };
    struct cpu_features f = {0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].saved && (rows[i].value >> rows[i].bit & 1))
            f.bits |= (uint64_t)1 << rows[i].feature;
    return closed(f);
}

struct cpu_features cpu_features_of_arm64(uint64_t hwcap, uint64_t hwcap2) {
    const struct {
        enum cpu_feature feature;
        uint64_t value;
        int bit;
    } rows[] = {
        {CPU_NEON, hwcap, 1},     /* ASIMD */
        {CPU_FP16, hwcap, 10},    /* ASIMDHP */
        {CPU_DOTPROD, hwcap, 20}, /* ASIMDDP */
        {CPU_SVE, hwcap, 22},     {CPU_SVE2, hwcap2, 1},
        {CPU_I8MM, hwcap2, 13},   {CPU_BF16, hwcap2, 14},
    };
    struct cpu_features f = {0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value >> rows[i].bit & 1)
            f.bits |= (uint64_t)1 << rows[i].feature;
    return closed(f);
}

/* ---- of this machine ---- */

#if defined(__x86_64__)
static uint64_t read_xcr0(uint32_t leaf1_ecx) {
    uint32_t low = 0, high = 0;
    if (leaf1_ecx & bit_OSXSAVE)
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
/* The kernel gives the tiles' state only to processes that ask for it. */
static bool ask_for_tiles(uint64_t xcr0) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return (xcr0 & XCR0_TILES) == XCR0_TILES &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}
static struct cpu_features machine_features(void) {
    struct cpu_registers_x86 r = {0};
    uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d))
        r.leaf1_ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        r.leaf7_ebx = b;
        r.leaf7_ecx = c;
        r.leaf7_edx = d;
        uint32_t subleaf_max = a;
        if (subleaf_max >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
            r.leaf7_1_eax = a;
            r.leaf7_1_edx = d;
        }
    }
    if (__get_cpuid(0x80000001, &a, &b, &c, &d))
        r.extended1_ecx = c;
    r.xcr0 = read_xcr0(r.leaf1_ecx);
    r.tiles_allowed = ask_for_tiles(r.xcr0);
    return cpu_features_of_x86(&r);
}
#elif defined(__aarch64__)
static struct cpu_features machine_features(void) {
    return cpu_features_of_arm64(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
}
#else
static struct cpu_features machine_features(void) {
    return (struct cpu_features){0};
}
#endif

static struct {
    struct cpu_features machine; /* nothing hidden */
    struct cpu_features process;
} once;

static void read_once(void) {
    once.machine = once.process = machine_features();
    if (cpu_features_hide(&once.process, getenv("TRIREME_CPU_FEATURES"), NULL))
        once.process = once.machine;
}

static void be_read(void) {
    static pthread_once_t control = PTHREAD_ONCE_INIT;
    CHECK(pthread_once(&control, read_once) == 0);
}

struct cpu_features cpu_features(void) {
    be_read();
    return once.process;
}

int cpu_features_read(struct cpu_features *out, struct error *err) {
    be_read();
    *out = once.machine;
    int rc = cpu_features_hide(out, getenv("TRIREME_CPU_FEATURES"), err);
    return rc ? error_wrap(err, "TRIREME_CPU_FEATURES") : 0;
}

/* ---- names ---- */

static enum cpu_feature feature_named(const char *name, size_t len) {
    for (size_t i = 0; i < ARRAY_LEN(GROUPS); i++)
        if (strlen(GROUPS[i].name) == len && !memcmp(GROUPS[i].name, name, len))
            return GROUPS[i].feature;
    for (size_t i = CPU_NONE + 1; i < CPU_FEATURE_COUNT; i++)
        if (strlen(FEATURES[i].name) == len && !memcmp(FEATURES[i].name, name, len))
            return (enum cpu_feature)i;
    return CPU_NONE;
}

int cpu_features_hide(struct cpu_features *f, const char *list, struct error *err) {
    static const char BETWEEN[] = ", \t";
    struct cpu_features left = *f;
    char known[CPU_FEATURES_TEXT_MAX];
    for (const char *at = list ? list : ""; *(at += strspn(at, BETWEEN));) {
        size_t len = strcspn(at, BETWEEN);
        if (*at != '-')
            return error_set(err, ERR_INVALID,
                             "'%.*s' has no minus: features can only be hidden, as in '-avx512f'",
                             (int)MIN(len, 64), at);
        enum cpu_feature feature = feature_named(at + 1, len - 1);
        if (feature == CPU_NONE)
            return error_set(
                err, ERR_INVALID, "unknown feature '%.*s'; known are avx512 amx %s",
                (int)MIN(len - 1, 64), at + 1,
                cpu_features_text((struct cpu_features){~(uint64_t)0}, known, sizeof known));
        left.bits &= ~((uint64_t)1 << feature);
        at += len;
    }
    *f = closed(left);
    return 0;
}

const char *cpu_features_text(struct cpu_features f, char *out, size_t size) {
    size_t used = 0;
    snprintf(out, size, "none");
    for (size_t i = CPU_NONE + 1; i < CPU_FEATURE_COUNT && used < size; i++)
        if (cpu_has(f, (enum cpu_feature)i))
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "",
                                     FEATURES[i].name);
    return out;
}
