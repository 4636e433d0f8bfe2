#include "kernels/cpu/features.h"

#define AVX2_BITS (CPU_BIT(AVX2) | CPU_BIT(FMA) | CPU_BIT(F16C))
#define AVX512_BITS                                                                                \
    (AVX2_BITS | CPU_BIT(AVX512F) | CPU_BIT(AVX512BW) | CPU_BIT(AVX512DQ) | CPU_BIT(AVX512VL))

/* What folder.cmake compiles each set with, and no more. */
static const struct {
    const char *name;
    uint64_t needs;
} ISAS[CPU_ISA_COUNT] = {
    [CPU_ISA_REF] = {"ref", 0},
    [CPU_ISA_SCALAR] = {"scalar", 0},
    [CPU_ISA_NEON] = {"neon", CPU_BIT(NEON)},
    [CPU_ISA_AVX2] = {"avx2", AVX2_BITS},
    [CPU_ISA_AVX512] = {"avx512", AVX512_BITS},
    [CPU_ISA_AMX] = {"amx", AVX512_BITS | CPU_BIT(AVX512_VBMI) | CPU_BIT(AVX512_VBMI2) |
                                CPU_BIT(AVX512_BF16) | CPU_BIT(AMX_TILE) | CPU_BIT(AMX_BF16)},
};

const char *cpu_isa_name(enum cpu_isa isa) {
    CHECK(isa < CPU_ISA_COUNT);
    return ISAS[isa].name;
}

struct cpu_features cpu_isa_needs(enum cpu_isa isa) {
    CHECK(isa < CPU_ISA_COUNT);
    return (struct cpu_features){ISAS[isa].needs};
}

bool cpu_isa_runs(enum cpu_isa isa, struct cpu_features f) {
    return !(cpu_isa_needs(isa).bits & ~f.bits);
}

enum cpu_isa cpu_isa_best(struct cpu_features f) {
    enum cpu_isa best = CPU_ISA_COUNT - 1;
    while (!cpu_isa_runs(best, f))
        best--;
    CHECK(best >= CPU_ISA_SCALAR);
    return best;
}

int cpu_isa_choose(const char *want, struct cpu_features f, enum cpu_isa *out, struct error *err) {
    char lacking[CPU_FEATURES_TEXT_MAX];
    size_t i = 0;
    if (!want || !*want || !strcmp(want, "auto")) {
        *out = cpu_isa_best(f);
        return 0;
    }
    while (i < CPU_ISA_COUNT && strcmp(want, ISAS[i].name))
        i++;
    if (i == CPU_ISA_COUNT)
        return error_set(err, ERR_UNSUPPORTED,
                         "unknown instruction set '%s'; known are auto, ref, scalar, neon, avx2, "
                         "avx512, amx",
                         want);
    if (!cpu_isa_runs((enum cpu_isa)i, f))
        return error_set(err, ERR_UNSUPPORTED,
                         "this machine lacks the instruction set '%s': it has no %s; with 'auto' "
                         "it takes '%s'",
                         want,
                         cpu_features_text((struct cpu_features){ISAS[i].needs & ~f.bits}, lacking,
                                           sizeof lacking),
                         cpu_isa_name(cpu_isa_best(f)));
    *out = (enum cpu_isa)i;
    return 0;
}
