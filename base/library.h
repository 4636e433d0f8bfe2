/*
 * library.h - calls of a shared library that is opened at run time.
 *
 * Threading: pure.
 */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include "base/error.h"

struct library_symbol {
    const char *name;
    size_t at; /* of the pointer in the table of calls */
};

/* Fills `calls` from what dlopen returned; path: what was opened, for the error. ERR_UNSUPPORTED
 * names the symbol that is missing. */
MUST_CHECK int library_symbols(void *library, const char *path,
                               const struct library_symbol *symbols, size_t count, void *calls,
                               struct error *err);

#endif
