/*
 * mem_large.h - memory of sizes that a client, a message or a file decides: these calls may fail,
 * and whoever asked gets an error.
 *
 * What is smaller than MEM_LARGE aborts when memory is out (mem_alloc, and buffers while they are
 * small): nobody can go on without it, and the process is restarted. From there on a caller has to
 * look: at NULL, or at a buffer's `failed`. Tests replace mem_try_alloc and mem_try_realloc by ones
 * that fail (tests/unit/memory_faults.h).
 */
#ifndef BASE_MEM_LARGE_H
#define BASE_MEM_LARGE_H

#include "base/base.h"

enum { MEM_LARGE = 64 * 1024 };

/* As mem_realloc, but NULL when memory is out: old is whole then, and still the caller's. */
MUST_CHECK void *mem_try_realloc(void *old, size_t size);

#endif
