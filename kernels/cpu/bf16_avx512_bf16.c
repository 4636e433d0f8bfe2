/* Products in bf16 by AVX-512 BF16's own. */
#define BF16_VARIANT bf16_avx512_bf16
#define BF16_NAME    "avx512_bf16"
#include "kernels/cpu/vec_avx512.h"

#define BF16_DOT(acc, w, x) _mm512_dpbf16_ps(acc, (__m512bh)(w), (__m512bh)(x))
#include "kernels/cpu/bf16.inc.h"
