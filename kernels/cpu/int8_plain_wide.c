/* Products with activations of 8 bits in plain C, 16 outputs a vector. Tests alone run it. */
enum { LANES = 16 };
#define KERNEL_NOT_INLINED 1
#define INT8_VARIANT       int8_plain_wide
#define INT8_NAME          "plain, wide"
#include "kernels/cpu/int8_plain.h"
