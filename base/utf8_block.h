/*
 * utf8_block.h - passes over valid UTF-8 by 32 bytes, for utf8.c.
 */
#ifndef BASE_UTF8_BLOCK_H
#define BASE_UTF8_BLOCK_H

#include "base/base.h"

/* Text from `at`, where a character begins, everything before being valid: returns where one begins
 * up to which all is valid; what follows has not been decided. */
size_t utf8_skip_blocks(const uint8_t *s, size_t at, size_t len);

#endif
