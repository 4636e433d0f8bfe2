/* Products in bf16 by f32 multiply-adds. */
#define BF16_VARIANT bf16_avx512
#define BF16_NAME    "avx512"
#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/bf16.inc.h"
