/* Products with activations of 8 bits on AVX-512 without VNNI. */
#define INT8_VARIANT int8_avx512
#define INT8_NAME    "avx512"
#include "kernels/cpu/int8_avx512.h"
