/*
 * features.h - which kernels a processor gets: pure functions of its features
 * (base/cpu_features.h). All sets are known on every machine, so that a test on one can ask what
 * another would choose; which of them are built is device_cpu.c's business.
 */
#ifndef KERNELS_CPU_FEATURES_H
#define KERNELS_CPU_FEATURES_H

#include "base/cpu_features.h"

/* Best last, within an architecture. REF is the plain definition, never chosen by itself. */
enum cpu_isa {
    CPU_ISA_REF,
    CPU_ISA_SCALAR,
    CPU_ISA_NEON,
    CPU_ISA_AVX2,
    CPU_ISA_AVX512,
    CPU_ISA_AMX,
    CPU_ISA_COUNT
};

/* As in --isa: "ref", "scalar", "neon", "avx2", "avx512", "amx". */
const char *cpu_isa_name(enum cpu_isa isa);
/* The features that code of this set uses. */
struct cpu_features cpu_isa_needs(enum cpu_isa isa);
/* Whether f has all that code of this set uses. */
bool cpu_isa_runs(enum cpu_isa isa, struct cpu_features f);
/* The best set that runs: always one, since SCALAR needs nothing. */
enum cpu_isa cpu_isa_best(struct cpu_features f);
/* The set with this name; NULL, "" and "auto": the best. ERR_UNSUPPORTED where `f` lacks what it
 * needs, with the names of what is lacking, or where there is no such set. */
MUST_CHECK int cpu_isa_choose(const char *want, struct cpu_features f, enum cpu_isa *out,
                              struct error *err);

#endif
