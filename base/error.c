#include "base/error.h"

#include <errno.h>
#include <stdio.h>

PRINTF_LIKE(2, 0) static void set_text(struct error *err, const char *fmt, va_list args) {
    vsnprintf(err->text, sizeof err->text, fmt, args);
}

int error_set(struct error *err, int code, const char *fmt, ...) {
    if (!err)
        return code;
    va_list args;
    va_start(args, fmt);
    set_text(err, fmt, args);
    va_end(args);
    err->code = code;
    return code;
}

int error_set_errno(struct error *err, const char *fmt, ...) {
    int saved = errno;
    int code = saved == ENOENT ? ERR_NOT_FOUND : saved == ENOMEM ? ERR_MEMORY : ERR_IO;
    if (!err)
        return code;
    va_list args;
    va_start(args, fmt);
    set_text(err, fmt, args);
    va_end(args);
    err->code = code;
    size_t len = strlen(err->text);
    char reason[128];
    snprintf(err->text + len, sizeof err->text - len, ": %s",
             strerror_r(saved, reason, sizeof reason));
    return code;
}

int error_wrap(struct error *err, const char *fmt, ...) {
    if (!err)
        return ERR_INVALID; /* nothing is known of it; any negative code says "failed" */
    char inner[ERROR_TEXT_MAX];
    memcpy(inner, err->text, sizeof inner);
    va_list args;
    va_start(args, fmt);
    set_text(err, fmt, args);
    va_end(args);
    size_t len = strlen(err->text);
    snprintf(err->text + len, sizeof err->text - len, ": %s", inner);
    return err->code;
}
