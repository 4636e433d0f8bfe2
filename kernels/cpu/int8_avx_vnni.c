/* Products with activations of 8 bits on AVX2 with AVX-VNNI. */
#define INT8_VARIANT int8_avx_vnni
#define INT8_NAME    "avx_vnni"
#include "kernels/cpu/int8_avx2.h"
