/*
 * cpu_features.h - what this machine's processor can do, as a value. Everything that chooses an
 * instruction set or a faster routine is a pure function of this value, so that a test can ask
 * what another machine would choose.
 *
 * Invariants:
 *   (1) A bit is set only where code may use the feature: the processor has it, the operating
 *       system saves its registers (XCR0), and, for AMX tiles, the kernel has let this process
 *       have them.
 *   (2) A feature is present only together with those it needs (avx2 needs avx, amx_int8 needs
 *       amx_tile, ...): hiding one hides what needs it.
 *   (3) All bits are known on every machine; those of another architecture are never set.
 *
 * Sources: Intel SDM volume 2 (CPUID) and volume 1, chapter 13 (XCR0); Linux's
 * Documentation/arch/x86/xstate.rst and Documentation/arch/arm64/elf_hwcaps.rst.
 *
 * Threading: any thread.
 */
#ifndef BASE_CPU_FEATURES_H
#define BASE_CPU_FEATURES_H

#include "base/error.h"

/* X(IDENTIFIER, name as people write it, the feature it needs). A feature stands behind what it
 * needs. */
#define CPU_FEATURE_TABLE(X)                                                                       \
    X(SSE4_2, "sse4_2", NONE)                                                                      \
    X(BMI1, "bmi1", NONE)                                                                          \
    X(BMI2, "bmi2", NONE)                                                                          \
    X(LZCNT, "lzcnt", NONE)                                                                        \
    X(AVX, "avx", NONE)                                                                            \
    X(F16C, "f16c", AVX)                                                                           \
    X(FMA, "fma", AVX)                                                                             \
    X(AVX2, "avx2", AVX)                                                                           \
    X(AVX_VNNI, "avx_vnni", AVX2)                                                                  \
    X(AVX_VNNI_INT8, "avx_vnni_int8", AVX2)                                                        \
    X(AVX512F, "avx512f", AVX2)                                                                    \
    X(AVX512BW, "avx512bw", AVX512F)                                                               \
    X(AVX512DQ, "avx512dq", AVX512F)                                                               \
    X(AVX512VL, "avx512vl", AVX512F)                                                               \
    X(AVX512_VBMI, "avx512_vbmi", AVX512BW)                                                        \
    X(AVX512_VBMI2, "avx512_vbmi2", AVX512BW)                                                      \
    X(AVX512_VNNI, "avx512_vnni", AVX512F)                                                         \
    X(AVX512_BF16, "avx512_bf16", AVX512BW)                                                        \
    X(AVX512_FP16, "avx512_fp16", AVX512BW)                                                        \
    X(AMX_TILE, "amx_tile", NONE)                                                                  \
    X(AMX_INT8, "amx_int8", AMX_TILE)                                                              \
    X(AMX_BF16, "amx_bf16", AMX_TILE)                                                              \
    X(AMX_FP16, "amx_fp16", AMX_TILE)                                                              \
    X(NEON, "neon", NONE)                                                                          \
    X(FP16, "fp16", NEON)                                                                          \
    X(DOTPROD, "dotprod", NEON)                                                                    \
    X(I8MM, "i8mm", NEON)                                                                          \
    X(BF16, "bf16", NEON)                                                                          \
    X(SVE, "sve", NEON)                                                                            \
    X(SVE2, "sve2", SVE)

enum cpu_feature {
    CPU_NONE, /* what needs nothing needs this */
#define X(id_, name_, needs_) CPU_##id_,
    CPU_FEATURE_TABLE(X)
#undef X
        CPU_FEATURE_COUNT
};

struct cpu_features {
    uint64_t bits; /* 1 << enum cpu_feature; bit 0 is never set */
};

#define CPU_BIT(id_) ((uint64_t)1 << CPU_##id_)

static inline bool cpu_has(struct cpu_features f, enum cpu_feature feature) {
    return f.bits >> feature & 1;
}

/* This process's features: the machine's, less what TRIREME_CPU_FEATURES hides. Both are read on
 * the first call and never again. A list that cannot be read hides nothing; opening a CPU
 * device reports it. */
struct cpu_features cpu_features(void);

/* As cpu_features, but reads the variable anew and says what is wrong with it (ERR_INVALID). */
MUST_CHECK int cpu_features_read(struct cpu_features *out, struct error *err);

/* Takes features away. `list` is "-avx512f,-amx": names with a minus, commas or blanks between;
 * "avx512" stands for avx512f and "amx" for amx_tile. Empty or NULL hides nothing. A name that is
 * known and absent is no error; ERR_INVALID for anything else, and *f is then as before. */
MUST_CHECK int cpu_features_hide(struct cpu_features *f, const char *list, struct error *err);

/* The name of one feature; "none" for CPU_NONE. */
const char *cpu_feature_name(enum cpu_feature feature);

/* The names, a blank between; "none" where there are none. Returns out; a text that does not fit
 * is cut. CPU_FEATURES_TEXT_MAX is enough for all. */
enum { CPU_FEATURES_TEXT_MAX = 512 };
const char *cpu_features_text(struct cpu_features f, char *out, size_t size);

/* ---- from registers: pure, so that a table of other machines can be tested ---- */

struct cpu_registers_x86 {
    uint32_t leaf1_ecx;                       /* CPUID 1 */
    uint32_t leaf7_ebx, leaf7_ecx, leaf7_edx; /* CPUID 7, subleaf 0 */
    uint32_t leaf7_1_eax, leaf7_1_edx;        /* CPUID 7, subleaf 1 */
    uint32_t extended1_ecx;                   /* CPUID 0x80000001 */
    uint64_t xcr0;                            /* 0 without OSXSAVE */
    bool tiles_allowed;                       /* arch_prctl(ARCH_REQ_XCOMP_PERM) said yes */
};
struct cpu_features cpu_features_of_x86(const struct cpu_registers_x86 *r);
/* AT_HWCAP and AT_HWCAP2 of an arm64 Linux. */
struct cpu_features cpu_features_of_arm64(uint64_t hwcap, uint64_t hwcap2);

#endif
