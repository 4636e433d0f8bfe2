/*
 * python.h - what Python says about characters: white space, case, printability.
 */
#ifndef TEXT_TEMPLATE_PYTHON_H
#define TEXT_TEMPLATE_PYTHON_H

#include "base/buf.h"
#include "text/unicode.h"

/* str.isspace: white space, and the separators U+001C to U+001F. */
static inline bool python_is_space(uint32_t cp) {
    return cp < 0x80 ? cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 31)
                     : unicode_is_space(cp);
}
/* As str.isprintable has it. */
bool python_is_printable(uint32_t cp);
enum python_case { PYTHON_LOWER, PYTHON_UPPER, PYTHON_TITLE, PYTHON_FOLD };
/* Appends the character in that case. */
void python_add_cased(struct buf *out, uint32_t cp, enum python_case to);
/* Appends s with each character in that case. */
void python_add_all_cased(struct buf *out, struct bytes s, enum python_case to);
/* Appends 'text' as repr does. */
void python_add_repr(struct buf *out, struct bytes s);
/* Code points in valid UTF-8. */
size_t python_length(struct bytes s);
/* The line at *at without its end, as str.splitlines cuts; *at moves behind the end. *ended: there
 * was one. */
struct bytes python_take_line(struct bytes s, size_t *at, bool *ended);
/* Byte offset of the code point number idx (idx at most the length). */
size_t python_offset(struct bytes s, size_t idx);
/* s without white space at its left, its right end; borrows. */
struct bytes python_strip(struct bytes s, bool left, bool right);
/* Strips the characters of `chars`. */
struct bytes python_strip_chars(struct bytes s, struct bytes chars, bool left, bool right);

#endif
