/* Products with activations of 8 bits on AVX-512 with VNNI. */
#define INT8_VARIANT int8_vnni
#define INT8_NAME    "avx512_vnni"
#include "kernels/cpu/int8_avx512.h"
