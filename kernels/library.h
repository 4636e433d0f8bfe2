/*
 * library.h - NVIDIA's libraries, opened at run time: this program starts without them.
 *
 * They come with a CUDA toolkit, as Debian packages, or in Python packages; all of these places are
 * looked at.
 *
 * Threading: while a device is opened.
 */
#ifndef KERNELS_LIBRARY_H
#define KERNELS_LIBRARY_H

#include "base/error.h"

struct library_symbol {
    const char *name;
    size_t at; /* of the pointer in the table of calls */
};

/* Opens `given` (a path), else `file` where the linker, CUDA_HOME, or the Python packages' `folder`
 * have it; NULL: it is in none. path: what was opened, or tried first. */
void *library_open(const char *given, const char *file, const char *folder, char *path,
                   size_t path_max);
/* Fills `calls`; ERR_UNSUPPORTED names the symbol that is missing. */
MUST_CHECK int library_symbols(void *library, const char *path,
                               const struct library_symbol *symbols, size_t count, void *calls,
                               struct error *err);

#endif
