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

#include "base/library.h"

/* Opens `given` (a path), else `file` where the linker, CUDA_HOME, or the Python packages' `folder`
 * have it: those of VIRTUAL_ENV, of the environment in whose bin/ this program lies, of the system.
 * NULL: it is in none. path: what was opened, or tried first. */
void *library_open(const char *given, const char *file, const char *folder, char *path,
                   size_t path_max);

#endif
