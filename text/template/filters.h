/*
 * filters.h - the filters that lie outside filters.c, for its table.
 */
#ifndef TEXT_TEMPLATE_FILTERS_H
#define TEXT_TEMPLATE_FILTERS_H

#include "text/template/run.h"

typedef struct tvalue filter_fn(struct run *r, struct tvalue v, const struct params *p,
                                struct args args);

/* filters.c: str.replace; a count below 0: all */
struct tvalue replace_text(struct run *r, struct bytes s, struct bytes from, struct bytes to,
                           int64_t count);

/* filters_sequence.c: those that work on sequences */
filter_fn filter_length, filter_list, filter_first, filter_last, filter_join, filter_map,
    filter_select, filter_reject, filter_selectattr, filter_rejectattr, filter_items,
    filter_reverse, filter_sort, filter_dictsort, filter_unique, filter_sum, filter_min, filter_max,
    filter_batch, filter_slice, filter_groupby;

/* markup.c */
filter_fn filter_safe, filter_escape, filter_forceescape;

/* format.c */
filter_fn filter_format;

/* spec.c: what stands behind the colon in '{:>10.2f}' */
struct format_spec {
    struct bytes fill;          /* one character */
    char align, sign, grouping; /* 0: not given */
    char type;                  /* 0: not given */
    bool alternate;             /* '#' */
    int64_t width, precision;   /* precision -1: not given */
    int64_t min_digits;         /* of an integer ('%.3d') */
};
extern const struct format_spec FORMAT_SPEC_NONE;
/* Appends v as a specification says; fails where Python does. */
void format_value(struct run *r, struct tvalue v, struct bytes specification, struct buf *out);
/* The same with a specification that was read. */
void format_with(struct run *r, struct tvalue v, const struct format_spec *spec, struct buf *out);

#endif
