/* The CPU's operations for one instruction set: the vector wrapper, then every kernel, then the
 * table. */
#define CPU_OPS cpu_ops_neon
#include "kernels/cpu/vec_neon.h"

#include "kernels/cpu/table.inc.h"
