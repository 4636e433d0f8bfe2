/* Products in bf16 by f32 multiply-adds. */
#define BF16_VARIANT bf16_avx2
#define BF16_NAME    "avx2"
#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/bf16.inc.h"
