/*
 * option_internal.h - between option.c and option_yaml.c only.
 */
#ifndef BASE_OPTION_INTERNAL_H
#define BASE_OPTION_INTERNAL_H

#include "base/error.h"

/* One scalar entry of the mapping; returns 0 or a negative error that ends the load. */
typedef int (*option_yaml_entry)(void *ctx, const char *key, const char *value, struct error *err);

/* Calls take for each "key: scalar" of the file's one flat mapping, in order. An empty file has
 * none; a value left empty (or null) is passed over. Nested values, aliases, several documents and
 * repeated keys are errors that name the file and the line. */
MUST_CHECK int option_yaml_load(const char *path, option_yaml_entry take, void *ctx,
                                struct error *err);

#endif
