/* The CPU's operations for one instruction set: the vector wrapper, then every kernel, then the
 * table. */
#define CPU_OPS cpu_ops_scalar
#include "kernels/cpu/vec_generic.h"

#include "kernels/cpu/table.inc.h"
