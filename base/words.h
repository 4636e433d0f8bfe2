/*
 * words.h - lists that a person types: words with commas or blanks between, as many as one likes.
 */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include "base/base.h"

/* The next word of the text at *at, between letters of `marks`; false at its end. *word borrows from the text, and
 * *at moves behind it. */
bool words_next(const char **at, const char *marks, struct bytes *word);

#endif
