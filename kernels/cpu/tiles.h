/*
 * tiles.h - AMX's instructions. Compilers' own forms want tile numbers and give no order among loads
 * of a configuration and its memory; these keep both. A thread that has configured tiles releases
 * them when it is done.
 */
#ifndef KERNELS_CPU_TILES_H
#define KERNELS_CPU_TILES_H

#include "base/base.h"

#define TILE_LOAD(n, base, stride)                                                                 \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #n ::"r"(base), "r"((size_t)(stride)) : "memory")
#define TILE_STORE(n, base, stride)                                                                \
    __asm__ volatile("tilestored %%tmm" #n ", (%0,%1,1)" ::"r"(base), "r"((size_t)(stride))        \
                     : "memory")
#define TILE_ZERO(n) __asm__ volatile("tilezero %tmm" #n)
/* c += a . b: pairs of bf16 into f32; fours of signed bytes into int32. */
#define TILE_ADD_DOT(c, a, b)      __asm__ volatile("tdpbf16ps %tmm" #b ", %tmm" #a ", %tmm" #c)
#define TILE_ADD_INT8_DOT(c, a, b) __asm__ volatile("tdpbssd %tmm" #b ", %tmm" #a ", %tmm" #c)

/* As LDTILECFG reads it; tiles 8 to 15 are none. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
static inline void tiles_configure(const struct tile_config *config) {
    __asm__ volatile("ldtilecfg %0" ::"m"(*config));
}
static inline void tiles_release(void) {
    __asm__ volatile("tilerelease");
}

#endif
