/* The choice of instruction set over a table of real machines. */
#include "kernels/cpu/features.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "kernels/device.h"
#include "kernels/ops.h"

/* CPUID as published for these processors (InstLatx64); xcr0: what Linux enables of leaf 13. */
static const struct {
    const char *name;
    struct cpu_registers_x86 registers;
    enum cpu_isa best;
    uint64_t has, lacks;
} X86[] = {
    {"plain x86-64 (Sledgehammer)", {.xcr0 = 0}, CPU_ISA_SCALAR, 0, ~(uint64_t)0},
    {"Nehalem (Bloomfield)",
     {0x0098e3bd, 0, 0, 0, 0, 0, 0x00000001, 0, false},
     CPU_ISA_SCALAR,
     CPU_BIT(SSE4_2),
     CPU_BIT(AVX)},
    {"Haswell (EP)",
     {0x7dfefbff, 0x00003fbb, 0, 0, 0, 0, 0x00000021, 0x7, false},
     CPU_ISA_AVX2,
     CPU_BIT(AVX2) | CPU_BIT(FMA) | CPU_BIT(F16C) | CPU_BIT(LZCNT),
     CPU_BIT(AVX512F) | CPU_BIT(AVX_VNNI)},
    {"Zen 2 (Rome)",
     {0x7ef8320b, 0x219c91a9, 0x00400004, 0, 0, 0, 0x75c237ff, 0x207, false},
     CPU_ISA_AVX2,
     CPU_BIT(AVX2) | CPU_BIT(BMI2),
     CPU_BIT(AVX512F)},
    {"Zen 3 (Milan)",
     {0x7eda320b, 0x219c97a9, 0x0040068c, 0x00000010, 0, 0, 0x75c237ff, 0x207, false},
     CPU_ISA_AVX2,
     CPU_BIT(AVX2),
     CPU_BIT(AVX512F) | CPU_BIT(AVX_VNNI)},
    {"Skylake-X",
     {0x7ffefbbf, 0xd39ffffb, 0, 0, 0, 0, 0x00000121, 0xff, false},
     CPU_ISA_AVX512,
     CPU_BIT(AVX512F) | CPU_BIT(AVX512VL),
     CPU_BIT(AVX512_VNNI) | CPU_BIT(AVX512_BF16)},
    {"Ice Lake (ICX)",
     {0x7ffefbff, 0xf3bfbfff, 0x40417f4e, 0xbc040412, 0, 0, 0x00000121, 0x2e7, false},
     CPU_ISA_AVX512,
     CPU_BIT(AVX512_VNNI) | CPU_BIT(AVX512_VBMI),
     CPU_BIT(AVX512_BF16) | CPU_BIT(AMX_TILE)},
    {"Alder Lake, efficient cores on",
     {0x7ffafbff, 0x239ca7eb, 0x98c027ac, 0xfc1cc410, 0x00400810, 0, 0x00000121, 0x207, false},
     CPU_ISA_AVX2,
     CPU_BIT(AVX_VNNI),
     CPU_BIT(AVX512F)},
    {"Zen 4 (Genoa)",
     {0x7efa320b, 0xf1bf97a9, 0x00415fce, 0x10000010, 0x00000020, 0, 0x75c237ff, 0x2e7, false},
     CPU_ISA_AVX512,
     CPU_BIT(AVX512_VNNI) | CPU_BIT(AVX512_BF16),
     CPU_BIT(AVX_VNNI) | CPU_BIT(AMX_TILE) | CPU_BIT(AVX512_FP16)},
    {"Zen 5 (Turin)",
     {0x7efa320b, 0xf1bf97ab, 0x19415fce, 0x10000110, 0x00000030, 0, 0x75c237ff, 0x2e7, false},
     CPU_ISA_AVX512,
     CPU_BIT(AVX512_VNNI) | CPU_BIT(AVX512_BF16) | CPU_BIT(AVX_VNNI),
     CPU_BIT(AMX_TILE)},
    {"Zen 4 under a system that saves no zmm registers",
     {0x7efa320b, 0xf1bf97a9, 0x00415fce, 0x10000010, 0x00000020, 0, 0x75c237ff, 0x7, false},
     CPU_ISA_AVX2,
     CPU_BIT(AVX2),
     CPU_BIT(AVX512F)},
    {"Sapphire Rapids",
     {0x7ffefbff, 0xf3bfbffb, 0xbb417fee, 0xffdd4430, 0x00001c30, 0, 0x00000121, 0x602e7, true},
     CPU_ISA_AMX,
     CPU_BIT(AMX_TILE) | CPU_BIT(AMX_INT8) | CPU_BIT(AMX_BF16) | CPU_BIT(AVX_VNNI) |
         CPU_BIT(AVX512_FP16),
     CPU_BIT(AMX_FP16) | CPU_BIT(AVX_VNNI_INT8)},
    {"Sapphire Rapids without the kernel's leave for tiles",
     {0x7ffefbff, 0xf3bfbffb, 0xbb417fee, 0xffdd4430, 0x00001c30, 0, 0x00000121, 0x602e7, false},
     CPU_ISA_AVX512,
     CPU_BIT(AVX512_BF16) | CPU_BIT(AVX512_VNNI),
     CPU_BIT(AMX_TILE) | CPU_BIT(AMX_INT8) | CPU_BIT(AMX_BF16)},
    {"Sapphire Rapids under a kernel older than tiles",
     {0x7ffefbff, 0xf3bfbffb, 0xbb417fee, 0xffdd4430, 0x00001c30, 0, 0x00000121, 0x2e7, false},
     CPU_ISA_AVX512,
     CPU_BIT(AVX512_BF16),
     CPU_BIT(AMX_TILE)},
};

TEST(each_x86_machine_gets_its_best_set) {
    for (size_t i = 0; i < ARRAY_LEN(X86); i++) {
        struct cpu_features f = cpu_features_of_x86(&X86[i].registers);
        enum cpu_isa best = cpu_isa_best(f), automatic = CPU_ISA_REF;
        char text[CPU_FEATURES_TEXT_MAX];
        if (best != X86[i].best || (X86[i].has & ~f.bits) || (X86[i].lacks & f.bits))
            check_fail(__FILE__, __LINE__, "%s: chose %s of %s", X86[i].name, cpu_isa_name(best),
                       cpu_features_text(f, text, sizeof text));
        EXPECT_EQ(cpu_isa_choose("auto", f, &automatic, NULL), 0);
        EXPECT_EQ(automatic, best);
    }
}

/* AT_HWCAP and AT_HWCAP2 by the features that Arm's manuals give these cores. */
TEST(each_arm64_machine_gets_its_best_set) {
    enum { ASIMD = 1 << 1, HALF = 1 << 9 | 1 << 10, DOT = 1 << 20, SVE1 = 1 << 22 };
    enum { SVE2_2 = 1 << 1, I8MM_2 = 1 << 13, BF16_2 = 1 << 14 };
    static const struct {
        const char *name;
        uint64_t hwcap, hwcap2, has, lacks;
    } arm[] = {
        {"Cortex-A72 (Graviton 1, Raspberry Pi 4)", ASIMD, 0, CPU_BIT(NEON), CPU_BIT(DOTPROD)},
        {"Neoverse N1 (Graviton 2)", ASIMD | HALF | DOT, 0, CPU_BIT(DOTPROD) | CPU_BIT(FP16),
         CPU_BIT(I8MM) | CPU_BIT(SVE)},
        {"Neoverse V1 (Graviton 3)", ASIMD | HALF | DOT | SVE1, I8MM_2 | BF16_2,
         CPU_BIT(I8MM) | CPU_BIT(BF16) | CPU_BIT(SVE), CPU_BIT(SVE2)},
        {"Neoverse V2 (Grace, Graviton 4)", ASIMD | HALF | DOT | SVE1, SVE2_2 | I8MM_2 | BF16_2,
         CPU_BIT(SVE2) | CPU_BIT(BF16), 0},
        {"Apple M1, a virtual machine", ASIMD | HALF | DOT, 0, CPU_BIT(DOTPROD), CPU_BIT(BF16)},
        {"Apple M2, a virtual machine", ASIMD | HALF | DOT, I8MM_2 | BF16_2,
         CPU_BIT(I8MM) | CPU_BIT(BF16), CPU_BIT(SVE)},
    };
    for (size_t i = 0; i < ARRAY_LEN(arm); i++) {
        struct cpu_features f = cpu_features_of_arm64(arm[i].hwcap, arm[i].hwcap2);
        if (cpu_isa_best(f) != CPU_ISA_NEON || (arm[i].has & ~f.bits) || (arm[i].lacks & f.bits))
            check_fail(__FILE__, __LINE__, "%s: chose %s", arm[i].name,
                       cpu_isa_name(cpu_isa_best(f)));
    }
}

/* Whatever is taken away, one feature or two, something is left, and it runs. */
TEST(taking_any_features_away_leaves_a_set_that_runs) {
    for (size_t m = 0; m < ARRAY_LEN(X86); m++)
        for (size_t a = 1; a < CPU_FEATURE_COUNT; a++)
            for (size_t b = 1; b < CPU_FEATURE_COUNT; b++) {
                struct cpu_features f = cpu_features_of_x86(&X86[m].registers);
                char list[64];
                snprintf(list, sizeof list, "-%s,-%s", cpu_feature_name((enum cpu_feature)a),
                         cpu_feature_name((enum cpu_feature)b));
                EXPECT_EQ(cpu_features_hide(&f, list, NULL), 0);
                enum cpu_isa best = cpu_isa_best(f);
                EXPECT(best <= X86[m].best && cpu_isa_runs(best, f));
                for (size_t better = best + 1; better < CPU_ISA_COUNT; better++)
                    EXPECT(!cpu_isa_runs((enum cpu_isa)better, f));
            }
}

TEST(a_set_by_name_is_taken_or_refused_with_what_is_lacking) {
    struct cpu_features zen4 = cpu_features_of_x86(&X86[8].registers);
    enum cpu_isa isa = CPU_ISA_COUNT;
    struct error err = {0};
    EXPECT_EQ(cpu_isa_choose("avx2", zen4, &isa, &err), 0);
    EXPECT_EQ(isa, CPU_ISA_AVX2);
    EXPECT_EQ(cpu_isa_choose("ref", zen4, &isa, &err), 0);
    EXPECT_EQ(isa, CPU_ISA_REF);
    EXPECT_EQ(cpu_isa_choose("amx", zen4, &isa, &err), ERR_UNSUPPORTED);
    EXPECT_STR(err.text, "this machine lacks the instruction set 'amx': it has no amx_tile "
                         "amx_bf16; with 'auto' it takes 'avx512'");
    EXPECT_EQ(cpu_isa_choose("sse9", zen4, &isa, &err), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "unknown instruction set 'sse9'"));
    for (size_t i = 0; i < CPU_ISA_COUNT; i++)
        EXPECT(strcmp(cpu_isa_name((enum cpu_isa)i), "sse9"));
}

/* The device itself, with what this machine has taken away bit by bit: it opens each time. */
TEST(the_device_opens_with_any_features_hidden) {
    static const char *const lists[] = {"",          "-amx",  "-amx_bf16", "-avx512f,-amx",
                                        "-avx512vl", "-avx2", "-avx,-amx", "-neon"};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        struct device_options options = {.isa = "auto", .thread_count = 1};
        struct device *dev = NULL;
        struct cpu_features f;
        struct error err = {0};
        unsetenv("TRIREME_ISA");
        setenv("TRIREME_CPU_FEATURES", lists[i], 1);
        EXPECT_EQ(cpu_features_read(&f, &err), 0);
        EXPECT_EQ(device_open(&options, &dev, &err), 0);
        EXPECT_STR(dev->isa, cpu_isa_name(cpu_isa_best(f)));
        device_close(&dev);
        const char *names[CPU_ISAS_MAX];
        size_t count = device_cpu_isas(names);
        EXPECT(count > 0);
        EXPECT_STR(names[count - 1], cpu_isa_name(cpu_isa_best(f)));
    }
    setenv("TRIREME_CPU_FEATURES", "-avx2,-avx512f,-neon", 1);
    struct device_options options = {.isa = "avx2"};
    struct device *dev = NULL;
    struct error err = {0};
    EXPECT_EQ(device_open(&options, &dev, &err), ERR_UNSUPPORTED);
    setenv("TRIREME_CPU_FEATURES", "-avx9", 1);
    EXPECT_EQ(device_open(&(struct device_options){0}, &dev, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "TRIREME_CPU_FEATURES"));
    unsetenv("TRIREME_CPU_FEATURES");
}

/* Each set by its name: opened where it is present, counted as a skip where it is not. The kernels'
 * tests run all that are present. */
static void open_forced(enum cpu_isa isa) {
    const char *names[CPU_ISAS_MAX], *name = cpu_isa_name(isa);
    size_t count = device_cpu_isas(names), i = 0;
    struct device_options options = {.isa = name, .thread_count = 1};
    struct device *dev = NULL;
    struct error err = {0};
    char why[64];
    while (i < count && strcmp(names[i], name))
        i++;
    if (i == count) {
        snprintf(why, sizeof why, "no %s on this machine", name);
        SKIP("isa", why);
    }
    EXPECT_EQ(device_open(&options, &dev, &err), 0);
    EXPECT_STR(dev->isa, name);
    device_close(&dev);
}
TEST(the_set_scalar_is_here) {
    open_forced(CPU_ISA_SCALAR);
}
TEST(the_set_neon_is_here) {
    open_forced(CPU_ISA_NEON);
}
TEST(the_set_avx2_is_here) {
    open_forced(CPU_ISA_AVX2);
}
TEST(the_set_avx512_is_here) {
    open_forced(CPU_ISA_AVX512);
}
TEST(the_set_amx_is_here) {
    open_forced(CPU_ISA_AMX);
}

/* What a worker asks before it loads a model. */
TEST(what_the_cpu_has_kernels_for_is_told) {
    static const struct {
        enum storage_type kv;
        uint32_t block_tokens, head_dim;
        const char *why; /* NULL: it has them */
    } ROWS[] = {
        {STORAGE_F16, 16, 1, NULL},
        {STORAGE_F32, 256, 512, NULL},
        {STORAGE_BF16, 64, 80, NULL},
        {STORAGE_F8_E4M3, 32, 128, NULL},
        {STORAGE_I8, 128, 64, NULL},
        {STORAGE_F16, 16, 0, "head size 0"},
        {STORAGE_F16, 16, 513, "head size 513 is past 512"},
        {STORAGE_F16, 24, 64, "a block of 24 tokens"},
        {STORAGE_F16, 48, 64, "a block of 48 tokens"},
        {STORAGE_F16, 512, 64, "a block of 512 tokens"},
        {STORAGE_Q8_0, 16, 64, "not q8_0"},
    };
    const struct device_options options = {.isa = "auto", .thread_count = 1};
    struct device *dev;
    struct error err;
    EXPECT_EQ(device_open(&options, &dev, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        err.text[0] = 0;
        int rc = dev->ops->supports(STORAGE_BF16, ROWS[i].kv, ROWS[i].block_tokens,
                                    ROWS[i].head_dim, &err);
        EXPECT_EQ(rc, ROWS[i].why ? ERR_UNSUPPORTED : 0);
        EXPECT(!ROWS[i].why || strstr(err.text, ROWS[i].why));
    }
    device_close(&dev);
}
