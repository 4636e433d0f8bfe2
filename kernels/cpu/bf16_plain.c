/* Products in bf16 by f32 multiply-adds. */
#define BF16_VARIANT bf16_plain
#define BF16_NAME    "plain"
#include "kernels/cpu/vec_generic.h"

#include "kernels/cpu/bf16.inc.h"
