/*
 * unicode_form.h - a text in one of Unicode's normalization forms (Unicode Standard Annex 15).
 *
 * utf8proc has the tables, the decomposition of a character and the composition of many. The marks
 * between are put into their order here, since utf8proc moves each past one other at a time: a
 * character with n marks in the wrong order, which any client may send, would take n^2 steps.
 *
 * Threading: none shared.
 */
#ifndef TEXT_TOKENIZER_UNICODE_FORM_H
#define TEXT_TOKENIZER_UNICODE_FORM_H

#include <utf8proc.h>

#include "base/buf.h"

/* Appends s, UTF-8, in the form that the options say: UTF8PROC_COMPOSE (NFC) or UTF8PROC_DECOMPOSE
 * (NFD), with UTF8PROC_COMPAT or without. O(n log n), and 28 bytes of memory for one of s at most.
 * False: out of memory, or s is no UTF-8; then nothing has been appended. */
MUST_CHECK bool unicode_form(struct bytes s, utf8proc_option_t options, struct buf *out);

#endif
