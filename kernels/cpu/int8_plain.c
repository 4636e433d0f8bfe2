/* Products with activations of 8 bits in plain C, 8 outputs a vector. */
enum { LANES = 8 };
#define INT8_VARIANT int8_plain
#define INT8_NAME    "plain"
#include "kernels/cpu/int8_plain.h"
