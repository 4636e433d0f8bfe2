/*
 * strings.h - string methods, for the table in methods.c.
 */
#ifndef TEXT_TEMPLATE_STRINGS_H
#define TEXT_TEMPLATE_STRINGS_H

#include "text/template/run.h"

typedef struct tvalue method_fn(struct run *r, struct tvalue self, struct args args);

/* False after failing. */
bool method_int_argument(struct run *r, struct tvalue v, int64_t *out);
/* Fails (false) when there are arguments. */
bool method_no_arguments(struct run *r, struct args args);
/* The bytes of a string argument; fails (false) for another kind. */
bool method_string_argument(struct run *r, struct tvalue v, struct bytes *out);
/* Binds arguments that may not be given by name, as those of Python's C functions. */
bool method_positional(struct run *r, const char *name, const char *names, unsigned required,
                       struct args args, struct params *p);

/* Where the first or last `what` lies in s; NULL: nowhere. */
const uint8_t *method_find_first(struct bytes s, struct bytes what);
/* The last place of what in s; NULL: none. */
const uint8_t *method_find_last(struct bytes s, struct bytes what);

method_fn str_upper, str_lower, str_title, str_capitalize, str_swapcase, str_strip, str_lstrip,
    str_rstrip, str_startswith, str_endswith, str_removeprefix, str_removesuffix, str_find,
    str_rfind, str_index, str_rindex, str_count, str_split, str_rsplit, str_splitlines,
    str_partition, str_rpartition, str_join, str_replace, str_ljust, str_rjust, str_center,
    str_zfill, str_isalpha, str_isdigit, str_isnumeric, str_isalnum, str_isspace, str_isascii,
    str_isupper, str_islower, str_format, str_format_map, str_expandtabs, str_isidentifier,
    str_isprintable, str_istitle;

/* methods_number.c, strings_translate.c */
method_fn str_translate, str_maketrans, dict_fromkeys, int_bit_length, float_is_integer,
    range_count, range_index, cycler_next, cycler_reset;

#endif
