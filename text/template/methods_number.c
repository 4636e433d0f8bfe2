/*
 * methods_number.c - the methods of numbers, ranges and cyclers, and dict.fromkeys.
 */
#include <math.h>

#include "text/template/python.h"
#include "text/template/strings.h"

/* ---- numbers ---- */

static uint64_t magnitude(struct tvalue v) {
    int64_t i;
    (void)op_is_int(v, &i);
    return i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
}

struct tvalue int_bit_length(struct run *r, struct tvalue self, struct args args) {
    uint64_t m = magnitude(self);
    return method_no_arguments(r, args) ? tvalue_int(m ? 64 - __builtin_clzll(m) : 0)
                                        : undefined_value();
}

struct tvalue float_is_integer(struct run *r, struct tvalue self, struct args args) {
    bool whole = isfinite(self.number) && floor(self.number) == self.number;
    return method_no_arguments(r, args) ? tvalue_bool(whole) : undefined_value();
}

/* ---- ranges and cyclers ---- */

/* Index of a number in the range; -1: not there. */
static int64_t range_find(const struct trange *range, struct tvalue v) {
    for (uint32_t i = 0; i < range->count; i++) /* at most 100 000 */
        if (op_is_number(v) && op_number(v) == (double)(range->start + range->step * (int64_t)i))
            return i;
    return -1;
}

struct tvalue range_count(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    const struct trange *range = self.pointer;
    if (!method_positional(r, "count", "value", 1, args, &p) || !run_burn(r, range->count / 16))
        return undefined_value();
    return tvalue_int(range_find(range, p.v[0]) >= 0);
}

struct tvalue range_index(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    const struct trange *range = self.pointer;
    if (!method_positional(r, "index", "value", 1, args, &p) || !run_burn(r, range->count / 16))
        return undefined_value();
    int64_t at = range_find(range, p.v[0]);
    return at >= 0 ? tvalue_int(at) : run_fail(r, ERR_INVALID, "the value is not in the range");
}

struct tvalue cycler_next(struct run *r, struct tvalue self, struct args args) {
    struct tcycler *c = (struct tcycler *)(uintptr_t)self.pointer;
    return method_no_arguments(r, args) ? c->items->items[c->at++ % c->items->count]
                                        : undefined_value();
}

struct tvalue cycler_reset(struct run *r, struct tvalue self, struct args args) {
    struct tcycler *c = (struct tcycler *)(uintptr_t)self.pointer;
    c->at = 0;
    return method_no_arguments(r, args) ? tvalue_none() : undefined_value();
}

/* ---- dict.fromkeys ---- */

struct tvalue dict_fromkeys(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct iter it;
    struct tvalue key, dict = tvalue_dict(&r->arena);
    if (!method_positional(r, "fromkeys", "iterable value", 1, args, &p) ||
        !iter_open(r, p.v[0], &it))
        return undefined_value();
    if (dict.kind != TVALUE_DICT)
        return run_fail(r, ERR_LIMIT, "the template uses too much memory");
    while (iter_next(r, &it, &key))
        run_set(r, dict, key, p.given[1] ? p.v[1] : tvalue_none());
    return dict;
}
