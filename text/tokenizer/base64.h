/*
 * base64.h - RFC 4648 base64 to bytes, with or without padding.
 *
 * Threading: pure functions.
 */
#ifndef TEXT_TOKENIZER_BASE64_H
#define TEXT_TOKENIZER_BASE64_H

#include "base/buf.h"

/* Appends the bytes; false for a character outside the alphabet. */
bool base64_decode(struct bytes text, struct buf *out);

#endif
