/* Features as a value: read from registers, hidden by name, closed under what needs what. */
#include "base/cpu_features.h"

#include <stdlib.h>

#include "check.h"

static struct cpu_features with(uint64_t bits) {
    return (struct cpu_features){bits};
}

/* Everything set: each bit counts, and only where the operating system saves the registers. */
static const struct cpu_registers_x86 FULL = {.leaf1_ecx = UINT32_MAX,
                                              .leaf7_ebx = UINT32_MAX,
                                              .leaf7_ecx = UINT32_MAX,
                                              .leaf7_edx = UINT32_MAX,
                                              .leaf7_1_eax = UINT32_MAX,
                                              .leaf7_1_edx = UINT32_MAX,
                                              .extended1_ecx = UINT32_MAX,
                                              .xcr0 = UINT64_MAX,
                                              .tiles_allowed = true};
#define AVX_BITS                                                                                   \
    (CPU_BIT(AVX) | CPU_BIT(F16C) | CPU_BIT(FMA) | CPU_BIT(AVX2) | CPU_BIT(AVX_VNNI) |             \
     CPU_BIT(AVX_VNNI_INT8))
#define PLAIN_BITS (CPU_BIT(SSE4_2) | CPU_BIT(BMI1) | CPU_BIT(BMI2) | CPU_BIT(LZCNT))
#define TILE_BITS  (CPU_BIT(AMX_TILE) | CPU_BIT(AMX_INT8) | CPU_BIT(AMX_BF16) | CPU_BIT(AMX_FP16))

TEST(registers_that_the_system_does_not_save_hide_their_features) {
    struct cpu_registers_x86 r = FULL;
    r.xcr0 = 0;
    EXPECT_EQ(cpu_features_of_x86(&r).bits, PLAIN_BITS);
    r.xcr0 = 7; /* x87, xmm, ymm */
    EXPECT_EQ(cpu_features_of_x86(&r).bits, PLAIN_BITS | AVX_BITS);
    r.xcr0 = 7 | 1 << 5 | 1 << 6; /* the upper sixteen zmm are lacking */
    EXPECT_EQ(cpu_features_of_x86(&r).bits, PLAIN_BITS | AVX_BITS);
    r.xcr0 = 0xe7;
    EXPECT(cpu_has(cpu_features_of_x86(&r), CPU_AVX512_VNNI));
    EXPECT_EQ(cpu_features_of_x86(&r).bits & TILE_BITS, 0);
    r.xcr0 = 0x600e7;
    EXPECT_EQ(cpu_features_of_x86(&r).bits & TILE_BITS, TILE_BITS);
}

TEST(tiles_need_the_kernels_leave) {
    struct cpu_registers_x86 r = FULL;
    uint64_t all = cpu_features_of_x86(&r).bits;
    r.tiles_allowed = false;
    EXPECT_EQ(cpu_features_of_x86(&r).bits, all & ~TILE_BITS);
}

/* With one bit of a full register cleared its feature is gone. The table of bits is the SDM's. */
TEST(each_bit_of_cpuid_is_the_feature_that_the_manual_names) {
    static const struct {
        enum cpu_feature feature;
        size_t reg; /* offset in cpu_registers_x86 */
        int bit;
    } rows[] = {
#define REG(name_) offsetof(struct cpu_registers_x86, name_)
        {CPU_FMA, REG(leaf1_ecx), 12},         {CPU_SSE4_2, REG(leaf1_ecx), 20},
        {CPU_AVX, REG(leaf1_ecx), 28},         {CPU_F16C, REG(leaf1_ecx), 29},
        {CPU_BMI1, REG(leaf7_ebx), 3},         {CPU_AVX2, REG(leaf7_ebx), 5},
        {CPU_BMI2, REG(leaf7_ebx), 8},         {CPU_AVX512F, REG(leaf7_ebx), 16},
        {CPU_AVX512DQ, REG(leaf7_ebx), 17},    {CPU_AVX512BW, REG(leaf7_ebx), 30},
        {CPU_AVX512VL, REG(leaf7_ebx), 31},    {CPU_AVX512_VBMI, REG(leaf7_ecx), 1},
        {CPU_AVX512_VBMI2, REG(leaf7_ecx), 6}, {CPU_AVX512_VNNI, REG(leaf7_ecx), 11},
        {CPU_AMX_BF16, REG(leaf7_edx), 22},    {CPU_AVX512_FP16, REG(leaf7_edx), 23},
        {CPU_AMX_TILE, REG(leaf7_edx), 24},    {CPU_AMX_INT8, REG(leaf7_edx), 25},
        {CPU_AVX_VNNI, REG(leaf7_1_eax), 4},   {CPU_AVX512_BF16, REG(leaf7_1_eax), 5},
        {CPU_AMX_FP16, REG(leaf7_1_eax), 21},  {CPU_AVX_VNNI_INT8, REG(leaf7_1_edx), 4},
        {CPU_LZCNT, REG(extended1_ecx), 5},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cpu_registers_x86 r = FULL;
        uint32_t *reg = (uint32_t *)((char *)&r + rows[i].reg);
        *reg &= ~(1u << rows[i].bit);
        EXPECT(!cpu_has(cpu_features_of_x86(&r), rows[i].feature));
    }
}

TEST(arm_hardware_capabilities_are_read) {
    EXPECT_EQ(cpu_features_of_arm64(0, 0).bits, 0);
    EXPECT_EQ(cpu_features_of_arm64(1 << 1, 0).bits, CPU_BIT(NEON));
    EXPECT_EQ(cpu_features_of_arm64(1 << 1 | 1 << 10 | 1 << 20, 0).bits,
              CPU_BIT(NEON) | CPU_BIT(FP16) | CPU_BIT(DOTPROD));
    EXPECT_EQ(cpu_features_of_arm64(1 << 1 | 1 << 22, 1 << 1 | 1 << 13 | 1 << 14).bits,
              CPU_BIT(NEON) | CPU_BIT(SVE) | CPU_BIT(SVE2) | CPU_BIT(I8MM) | CPU_BIT(BF16));
    EXPECT_EQ(cpu_features_of_arm64(0, 1 << 13).bits, 0); /* i8mm without ASIMD is nothing */
}

/* With one bit of all cleared its feature is gone. The bits are those of Linux' asm/hwcap.h. */
TEST(each_bit_of_arm_is_its_feature) {
    static const struct {
        enum cpu_feature feature;
        bool second;
        int bit;
    } ROWS[] = {{CPU_NEON, false, 1}, {CPU_FP16, false, 10}, {CPU_DOTPROD, false, 20},
                {CPU_SVE, false, 22}, {CPU_SVE2, true, 1},   {CPU_I8MM, true, 13},
                {CPU_BF16, true, 14}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        uint64_t words[2] = {UINT64_MAX, UINT64_MAX};
        words[ROWS[i].second] &= ~(UINT64_C(1) << ROWS[i].bit);
        EXPECT(!cpu_has(cpu_features_of_arm64(words[0], words[1]), ROWS[i].feature));
    }
}

#if defined(__x86_64__)
/* The compiler's own library reads the same registers. */
TEST(this_machine_has_what_the_compilers_library_finds) {
    struct cpu_features all;
    unsetenv("TRIREME_CPU_FEATURES");
    EXPECT_EQ(cpu_features_read(&all, NULL), 0);
    EXPECT_EQ(cpu_has(all, CPU_SSE4_2), !!__builtin_cpu_supports("sse4.2"));
    EXPECT_EQ(cpu_has(all, CPU_AVX), !!__builtin_cpu_supports("avx"));
    EXPECT_EQ(cpu_has(all, CPU_FMA), !!__builtin_cpu_supports("fma"));
    EXPECT_EQ(cpu_has(all, CPU_AVX2), !!__builtin_cpu_supports("avx2"));
    EXPECT_EQ(cpu_has(all, CPU_BMI1), !!__builtin_cpu_supports("bmi"));
    EXPECT_EQ(cpu_has(all, CPU_BMI2), !!__builtin_cpu_supports("bmi2"));
    EXPECT_EQ(cpu_has(all, CPU_AVX512F), !!__builtin_cpu_supports("avx512f"));
    EXPECT_EQ(cpu_has(all, CPU_AVX512BW), !!__builtin_cpu_supports("avx512bw"));
}
#endif

TEST(hiding_a_feature_hides_what_needs_it) {
    struct cpu_registers_x86 r = FULL;
    struct cpu_features all = cpu_features_of_x86(&r), f = all;
    EXPECT_EQ(cpu_features_hide(&f, "-avx512f", NULL), 0);
    EXPECT_EQ(f.bits, PLAIN_BITS | AVX_BITS | TILE_BITS);
    EXPECT_EQ(cpu_features_hide(&f, " -amx,, -bmi1\t-neon ", NULL), 0);
    EXPECT_EQ(f.bits, (PLAIN_BITS | AVX_BITS) & ~CPU_BIT(BMI1));
    EXPECT_EQ(cpu_features_hide(&f, "-avx", NULL), 0);
    EXPECT_EQ(f.bits, PLAIN_BITS & ~CPU_BIT(BMI1));
    f = all;
    EXPECT_EQ(cpu_features_hide(&f, "-amx_bf16,-avx512_vnni", NULL), 0);
    EXPECT_EQ(f.bits, all.bits & ~(CPU_BIT(AMX_BF16) | CPU_BIT(AVX512_VNNI)));
    EXPECT_EQ(cpu_features_hide(&f, "-avx512", NULL), 0);
    EXPECT(!cpu_has(f, CPU_AVX512VL));
}

TEST(a_list_that_hides_nothing_changes_nothing) {
    struct cpu_features f = with(CPU_BIT(AVX));
    EXPECT_EQ(cpu_features_hide(&f, NULL, NULL), 0);
    EXPECT_EQ(cpu_features_hide(&f, "", NULL), 0);
    EXPECT_EQ(cpu_features_hide(&f, " ,", NULL), 0);
    EXPECT_EQ(f.bits, CPU_BIT(AVX));
}

TEST(a_wrong_list_is_refused_and_changes_nothing) {
    static const char *const wrong[] = {"avx",   "-avx,avx2", "-",         "+avx",
                                        "-avx3", "-AVX2",     "-avx,-none"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct cpu_features f = with(CPU_BIT(AVX));
        struct error err = {0};
        EXPECT_EQ(cpu_features_hide(&f, wrong[i], &err), ERR_INVALID);
        EXPECT(strchr(err.text, '\''));
        EXPECT_EQ(f.bits, CPU_BIT(AVX));
    }
    struct cpu_features f = with(0);
    struct error err = {0};
    EXPECT_EQ(cpu_features_hide(&f, "-avx512g", &err), ERR_INVALID);
    EXPECT(strstr(err.text, "'avx512g'") && strstr(err.text, "avx512_bf16") &&
           strstr(err.text, "i8mm"));
}

TEST(features_are_told_by_name) {
    char text[CPU_FEATURES_TEXT_MAX], small[8];
    EXPECT_STR(cpu_features_text(with(0), text, sizeof text), "none");
    EXPECT_STR(cpu_features_text(with(CPU_BIT(AVX) | CPU_BIT(FMA)), text, sizeof text), "avx fma");
    EXPECT_STR(cpu_features_text(with(CPU_BIT(AVX) | CPU_BIT(AMX_TILE)), small, sizeof small),
               "avx amx");
    cpu_features_text(with(~(uint64_t)0), text, sizeof text);
    EXPECT(strstr(text, "sve2") && strlen(text) < CPU_FEATURES_TEXT_MAX - 1);
}

TEST(the_environment_hides_features_of_this_machine) {
    struct cpu_features all, some;
    struct error err = {0};
    unsetenv("TRIREME_CPU_FEATURES");
    EXPECT_EQ(cpu_features_read(&all, &err), 0);
    setenv("TRIREME_CPU_FEATURES", "-avx,-neon,-amx,-sse4_2", 1);
    EXPECT_EQ(cpu_features_read(&some, &err), 0);
    EXPECT_EQ(some.bits & (CPU_BIT(AVX2) | CPU_BIT(AMX_INT8) | CPU_BIT(NEON)), 0);
    EXPECT_EQ(some.bits & ~all.bits, 0);
    setenv("TRIREME_CPU_FEATURES", "-avx9", 1);
    EXPECT_EQ(cpu_features_read(&some, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "TRIREME_CPU_FEATURES"));
    unsetenv("TRIREME_CPU_FEATURES");
#if defined(__x86_64__) || defined(__aarch64__)
    EXPECT(all.bits != 0);
#endif
}
