#include "kernels/cpu/int8.h"

/* The widest unit with one scale. */
static uint32_t scaled_unit(uint32_t cols, uint32_t scale_cols) {
    uint32_t unit = INT8_UNIT_MAX;
    while (cols % unit || scale_cols % unit)
        unit /= 2;
    return unit;
}

struct int8_layout int8_layout(const struct matrix *w, const struct matrix_segment *p) {
    enum storage_type type = segment_type(w, p);
    struct int8_layout l = {storage_block(type),
                            (uint32_t)storage_bytes(type, storage_block(type))};
    if (type == STORAGE_Q4_K || type == STORAGE_Q5_K)
        l.row_bytes += 4; /* scales and minima take a byte each, not six bits */
    if (type == STORAGE_IQ4_XS)
        l.row_bytes += 2;
    if (storage_is_scaled(type)) {
        l.unit_cols = scaled_unit(w->cols, p->scale_cols);
        l.row_bytes = type == STORAGE_U4 ? 8 + l.unit_cols / 2 : 4 + l.unit_cols;
    }
    return l;
}

#define AVX2_BITS (CPU_BIT(AVX2) | CPU_BIT(FMA) | CPU_BIT(F16C))
#define AVX512_BITS                                                                                \
    (AVX2_BITS | CPU_BIT(AVX512F) | CPU_BIT(AVX512BW) | CPU_BIT(AVX512DQ) | CPU_BIT(AVX512VL))

/* What folder.cmake compiles each with, and no more. */
const struct int8_choice INT8_VARIANTS[] = {
    {&int8_plain, CPU_ISA_REF, 0},
    {&int8_plain_wide, CPU_ISA_COUNT, 0},
#if defined(__x86_64__)
    {&int8_avx2, CPU_ISA_AVX2, AVX2_BITS},
    {&int8_avx_vnni, CPU_ISA_AVX2, AVX2_BITS | CPU_BIT(AVX_VNNI)},
    {&int8_avx512, CPU_ISA_AVX512, AVX512_BITS},
    {&int8_vnni, CPU_ISA_AVX512, AVX512_BITS | CPU_BIT(AVX512_VNNI)},
    {&int8_amx, CPU_ISA_AMX,
     AVX512_BITS | CPU_BIT(AVX512_VNNI) | CPU_BIT(AMX_TILE) | CPU_BIT(AMX_INT8)},
#endif
};
const size_t INT8_VARIANT_COUNT = ARRAY_LEN(INT8_VARIANTS);

const struct int8_variant *int8_best(enum cpu_isa isa, struct cpu_features features) {
    size_t i = INT8_VARIANT_COUNT - 1;
    while (INT8_VARIANTS[i].least > isa || INT8_VARIANTS[i].needs & ~features.bits)
        i--;
    return INT8_VARIANTS[i].variant;
}

/* Zen 4 (family 19h has AVX-512 from there on), measured. Zen 5 gains by memory that is asked for from
 * further ahead. */
bool int8_wants_order(void) {
#if defined(__x86_64__)
    return __builtin_cpu_is("amdfam19h") && __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}
