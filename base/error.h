/*
 * error.h - an expected failure with a text for a person. Calls that can fail return 0 or a
 * negative ERR_ code and fill *err.
 *
 * Texts: lower case, what failed first, the subject in quotes, what to do when we know it.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/base.h"

enum error_code {
    ERR_NONE = 0,
    ERR_INVALID = -1, /* malformed or out of range input */
    ERR_NOT_FOUND = -2,
    ERR_UNSUPPORTED = -3, /* well formed, but asks for what we lack */
    ERR_IO = -4,          /* the system refused; errno is in the text */
    ERR_LIMIT = -5,       /* a bound of ours was reached */
    ERR_MEMORY = -6,
    ERR_CLOSED = -7, /* the peer or resource is gone */
    ERR_TIMEOUT = -8,
    ERR_AGAIN = -9, /* not now; nothing was changed */
};

enum { ERROR_TEXT_MAX = 512 };

struct error {
    int code; /* enum error_code */
    char text[ERROR_TEXT_MAX];
};

/* Fills *err (may be NULL) and returns code, so that `return error_set(err, ERR_INVALID, "...")`
 * reads well. Long texts are cut. */
int error_set(struct error *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* As error_set, with ": strerror(errno)" appended. */
int error_set_errno(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Puts "prefix: " before the text already there; returns err->code. */
int error_wrap(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
