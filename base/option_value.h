/*
 * option_value.h - one option's value: from text, into the settings, back to text. For the
 * option_*.c files.
 */
#ifndef BASE_OPTION_VALUE_H
#define BASE_OPTION_VALUE_H

#include "base/buf.h"
#include "base/option.h"

enum { OPTION_BOUND_MAX = 32 };

union option_value {
    bool flag;
    int64_t integer; /* OPTION_INT, OPTION_DURATION (ms) */
    uint64_t size;
    double number;
    int choice;
    const char *text; /* borrowed from the parsed text */
};

/* Reads text as row's type and checks range and choices. err->text says what is wrong with it, not
 * where it was. */
MUST_CHECK int option_value_parse(const struct option_row *row, const char *text,
                                  union option_value *out, struct error *err);
/* A bound of row as people write it: of a size or a time in the largest unit in which it is whole
 * ("256m", "24h"). Returns out. */
const char *option_bound_text(const struct option_row *row, double bound,
                              char out[OPTION_BOUND_MAX]);
/* Puts it in its place; a string is copied, and the string that was there is freed. */
void option_value_store(const struct option_row *row, void *settings, union option_value value);
/* True when the setting has its row's default value. */
bool option_value_is_default(const struct option_row *row, const void *settings);
/* Appends the text that parses to the same value. */
void option_value_print(const struct option_row *row, const void *settings, struct buf *out);

#endif
