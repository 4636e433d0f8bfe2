/*
 * raw_value.h - JSON values as they were written in a request, quotes and escapes included: what
 * kind they are, and what they say when that needs no decoding. Nothing here allocates.
 */
#ifndef GATEWAY_FIELDS_RAW_VALUE_H
#define GATEWAY_FIELDS_RAW_VALUE_H

#include <string.h>

#include "base/base.h"

/* Whether the value begins with `first`: '"' a string, '{' an object, '[' an array. An empty one
 * (not given) is of no kind. */
static inline bool raw_is(struct bytes raw, char first) {
    return raw.len > 0 && raw.data[0] == (uint8_t)first;
}

/* Whether it is the string `text`, which needs no escapes. */
static inline bool raw_is_text(struct bytes raw, const char *text) {
    size_t len = strlen(text);
    return raw.len == len + 2 && raw.data[0] == '"' && memcmp(raw.data + 1, text, len) == 0;
}

/* A string without its quotes, escapes as they stand. */
static inline struct bytes raw_content(struct bytes raw) {
    return bytes_of(raw.data + 1, raw.len - 2);
}

#endif
