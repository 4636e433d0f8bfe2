/*
 * option_internal.h - between option.c, option_yaml.c, option_print.c and option_man.c only.
 */
#ifndef BASE_OPTION_INTERNAL_H
#define BASE_OPTION_INTERNAL_H

#include "base/option.h"

/* One entry of the mapping, a scalar or a list of them, joined by line breaks; returns 0 or a negative
 * error that ends the load. */
typedef int (*option_yaml_entry)(void *ctx, const char *key, const char *value, bool is_list,
                                 struct error *err);

/* Calls take for each "key: scalar" or "key: [scalar, ...]" of the file's one flat mapping, in order. An empty file has
 * none; a value left empty (or null) is passed over. Nested values, aliases, several documents and
 * repeated keys are errors that name the file and the line. */
MUST_CHECK int option_yaml_load(const char *path, option_yaml_entry take, void *ctx,
                                struct error *err);

/* What stands for the row's value in texts for people: "N", "TEXT", an enum's choices; "" for a
 * bool. */
const char *option_value_word(const struct option_row *row);
/* The heading under which the row stands. */
const char *option_group(const struct option_table *table, const struct option_row *row);
/* Appends before and "1 to 65535 tokens", or nothing where the row has no bounds. */
void option_add_range(struct buf *out, const struct option_row *row, const char *before);
/* Appends before and the other spellings, "-c, --ctx-size", each in `quote`; or nothing. */
void option_add_aliases(struct buf *out, const struct option_row *row, const char *before,
                        const char *quote);

#endif
