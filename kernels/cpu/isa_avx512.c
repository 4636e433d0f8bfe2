/* The CPU's operations for one instruction set: the vector wrapper, then every kernel, then the
 * table. */
#define CPU_OPS cpu_ops_avx512
#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/table.inc.h"
