/* Products with activations of 8 bits on AMX's tiles; few rows on AVX-512 with VNNI. */
#define INT8_VARIANT int8_amx
#define INT8_NAME    "amx_int8"
#define INT8_TILES   1
#include "kernels/cpu/int8_avx512.h"
