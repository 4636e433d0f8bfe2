/*
 * utf8.h - strict UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF).
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/base.h"

/* True when all of data[0..len) is valid and no character is cut. */
bool utf8_valid(const void *data, size_t len);
/* Length of the longest prefix that is valid and complete. Stops at the first bad byte or at a cut
 * character. */
size_t utf8_valid_prefix(const void *data, size_t len);
/* 1 when data[0..len) is the proper beginning of some valid character (len 1 to 3) and needs more
 * bytes. */
bool utf8_is_partial(const void *data, size_t len);
/* Decodes one character: returns its length in bytes (1 to 4) and *cp, or 0 for bad or cut
 * input. */
size_t utf8_decode(const void *data, size_t len, uint32_t *cp);
/* Writes one character, without a zero; returns its length (1 to 4), or 0 for what is no
 * character (surrogates, past U+10FFFF). */
size_t utf8_encode(uint32_t cp, char out[4]);

/* The value of a hexadecimal digit in ASCII, of either case; -1: it is none. */
static inline int hex_value(uint8_t c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
