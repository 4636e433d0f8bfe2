/* Products with activations of 8 bits on AVX2. */
#define INT8_VARIANT int8_avx2
#define INT8_NAME    "avx2"
#include "kernels/cpu/int8_avx2.h"
