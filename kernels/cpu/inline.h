/* inline.h - how the kernels' parts become one loop: the CPU's kernels are written as parts with constant
 * arguments (rows, columns, types), which the compiler is to set in wherever they are called. */
#ifndef KERNELS_CPU_INLINE_H
#define KERNELS_CPU_INLINE_H

/* Sanitized builds, and what tests alone run (KERNEL_NOT_INLINED), call the parts instead: the same
 * operations in the same order, compiled and checked once and not in each of a hundred copies. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(KERNEL_NOT_INLINED)
#define ALWAYS_INLINE static __attribute__((unused))
#define UNROLL
#else
#define ALWAYS_INLINE static inline __attribute__((always_inline, unused))
#define UNROLL        _Pragma("GCC unroll 16")
#endif

#endif
