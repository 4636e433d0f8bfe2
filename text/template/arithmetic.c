/*
 * arithmetic.c - Python's operators on values.
 */
#include <math.h>
#include <stdlib.h>

#include "text/template/python.h"
#include "text/template/run.h"

/* ---- numbers and truth ---- */

bool op_is_number(struct tvalue v) {
    return v.kind == TVALUE_INT || v.kind == TVALUE_FLOAT || v.kind == TVALUE_BOOL;
}
double op_number(struct tvalue v) {
    return v.kind == TVALUE_FLOAT ? v.number
           : v.kind == TVALUE_INT ? (double)v.integer
                                  : v.kind == TVALUE_BOOL && v.boolean;
}

bool op_is_int(struct tvalue v, int64_t *out) {
    *out = v.kind == TVALUE_INT ? v.integer : v.kind == TVALUE_BOOL && v.boolean;
    return v.kind == TVALUE_INT || v.kind == TVALUE_BOOL;
}

bool op_length(struct tvalue v, uint32_t *count) {
    switch (v.kind) {
    case TVALUE_UNDEFINED: *count = 0; return true;
    case TVALUE_STRING: *count = (uint32_t)python_length(tvalue_text(v)); return true;
    case TVALUE_LIST:
    case TVALUE_TUPLE: *count = v.list->count; return true;
    case TVALUE_DICT:
    case TVALUE_VIEW: *count = v.dict->count; return true;
    case TVALUE_RANGE: *count = ((const struct trange *)v.pointer)->count; return true;
    case TVALUE_LOOP: *count = ((const struct tloop *)v.pointer)->seq.count; return true;
    default: return false;
    }
}

bool op_truth(struct tvalue v) {
    uint32_t count;
    switch (v.kind) {
    case TVALUE_NONE: return false;
    case TVALUE_BOOL: return v.boolean;
    case TVALUE_INT: return v.integer != 0;
    case TVALUE_FLOAT: return v.number != 0;
    case TVALUE_STRING: return v.len != 0;
    default: return !op_length(v, &count) || count;
    }
}

/* ---- comparing ---- */

/* -1, 0, 1: i against d, exactly; d is no NaN. */
static int order_int_float(int64_t i, double d) {
    const double limit = 9223372036854775808.0;
    if (d >= limit)
        return -1;
    if (d < -limit)
        return 1;
    int64_t whole = (int64_t)d;
    if (i != whole)
        return i < whole ? -1 : 1;
    double rest = d - (double)whole;
    return (rest < 0) - (rest > 0);
}

/* Of two numbers; UNORDERED when one is NaN. */
enum { UNORDERED = 2 };
static int order_numbers(struct tvalue a, struct tvalue b) {
    int64_t x, y;
    double p = op_number(a), q = op_number(b);
    bool whole_a = op_is_int(a, &x), whole_b = op_is_int(b, &y);
    if (whole_a && whole_b)
        return (x > y) - (x < y);
    if (isnan(p) || isnan(q))
        return UNORDERED;
    if (whole_a)
        return order_int_float(x, q);
    return whole_b ? -order_int_float(y, p) : (p > q) - (p < q);
}

static double big_double(struct tvalue v) {
    return v.kind == TVALUE_BIG_INT ? strtod(v.text, NULL) : op_number(v);
}

/* The same where at least one is a big integer, which lies outside of all of 64 bits. */
static int order_big(struct tvalue a, struct tvalue b) {
    bool big_a = a.kind == TVALUE_BIG_INT, big_b = b.kind == TVALUE_BIG_INT;
    bool minus_a = big_a ? a.text[0] == '-' : op_number(a) < 0,
         minus_b = big_b ? b.text[0] == '-' : op_number(b) < 0;
    if (a.kind == TVALUE_FLOAT || b.kind == TVALUE_FLOAT) { /* to the nearest double */
        double p = big_double(a), q = big_double(b);
        return isnan(p) || isnan(q) ? UNORDERED : (p > q) - (p < q);
    }
    if (minus_a != minus_b)
        return minus_a ? -1 : 1;
    int order = !big_b           ? 1
                : !big_a         ? -1
                : a.len != b.len ? (a.len > b.len ? 1 : -1)
                                 : memcmp(a.text, b.text, a.len);
    order = (order > 0) - (order < 0);
    return minus_a ? -order : order;
}

static bool is_any_number(struct tvalue v) {
    return op_is_number(v) || v.kind == TVALUE_BIG_INT;
}

static bool is_sequence(struct tvalue v) {
    return v.kind == TVALUE_LIST || v.kind == TVALUE_TUPLE;
}

static bool dict_equal(struct run *r, const struct tdict *a, const struct tdict *b) {
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count && !r->rc; i++) {
        const struct tvalue *other = tdict_find(b, a->entries[i].key);
        if (!other || !op_equal(r, a->entries[i].value, *other))
            return false;
    }
    return true;
}

static bool list_equal(struct run *r, const struct tlist *a, const struct tlist *b) {
    if (a->count != b->count || !run_burn(r, a->count / 4)) /* numbers burn nothing */
        return false;
    for (uint32_t i = 0; i < a->count && !r->rc; i++)
        if (!op_equal(r, a->items[i], b->items[i]))
            return false;
    return true;
}

static bool same_kind_equal(struct run *r, struct tvalue a, struct tvalue b) {
    switch (a.kind) {
    case TVALUE_UNDEFINED:
    case TVALUE_NONE: return true;
    case TVALUE_BIG_INT:
    case TVALUE_STRING:
        return a.len == b.len && run_burn_read(r, a) && same_text(a.text, b.text, a.len);
    case TVALUE_LIST:
    case TVALUE_TUPLE: return list_equal(r, a.list, b.list);
    case TVALUE_DICT: return dict_equal(r, a.dict, b.dict);
    case TVALUE_RANGE: {
        const struct trange *x = a.pointer, *y = b.pointer;
        return x->count == y->count &&
               (!x->count || (x->start == y->start && (x->count == 1 || x->step == y->step)));
    }
    case TVALUE_FUNCTION: return a.tag == b.tag;
    default: return a.pointer == b.pointer && a.tag == b.tag;
    }
}

bool op_equal(struct run *r, struct tvalue a, struct tvalue b) {
    if (op_is_number(a) && op_is_number(b))
        return order_numbers(a, b) == 0;
    if (is_any_number(a) && is_any_number(b))
        return order_big(a, b) == 0;
    if (a.kind != b.kind || !run_burn(r, 1))
        return false;
    if (++r->depth > RUN_DEPTH_MAX)
        run_fail(r, ERR_LIMIT, "nested too deep");
    bool equal = !r->rc && same_kind_equal(r, a, b);
    r->depth--;
    return equal;
}

static int order_strings(struct bytes a, struct bytes b) { /* UTF-8 sorts as its code points do */
    int c = memcmp(a.data, b.data, MIN(a.len, b.len));
    return c ? (c > 0) - (c < 0) : (a.len > b.len) - (a.len < b.len);
}

int op_order(struct run *r, struct tvalue a, struct tvalue b) {
    if (op_is_number(a) && op_is_number(b))
        return order_numbers(a, b);
    if (is_any_number(a) && is_any_number(b))
        return order_big(a, b);
    if (a.kind == TVALUE_STRING && b.kind == TVALUE_STRING && run_burn_read(r, a))
        return order_strings(tvalue_text(a), tvalue_text(b));
    if (is_sequence(a) && a.kind == b.kind && run_burn(r, 1) && r->depth < RUN_DEPTH_MAX) {
        r->depth++;
        int order = 0;
        uint32_t both = MIN(a.list->count, b.list->count);
        run_burn(r, both / 4); /* numbers burn nothing */
        for (uint32_t i = 0; i < both && !order && !r->rc; i++)
            if (!op_equal(r, a.list->items[i], b.list->items[i]))
                order = op_order(r, a.list->items[i], b.list->items[i]);
        r->depth--;
        return order ? order : (a.list->count > b.list->count) - (a.list->count < b.list->count);
    }
    if (r->rc)
        return 0;
    if (a.kind == TVALUE_UNDEFINED || b.kind == TVALUE_UNDEFINED)
        run_fail_undefined(r, a.kind == TVALUE_UNDEFINED ? a : b);
    else
        run_fail(r, ERR_INVALID, "'<' not supported between instances of '%s' and '%s'",
                 python_type(a), python_type(b));
    return 0;
}

bool op_contains(struct run *r, struct tvalue in, struct tvalue item) {
    struct iter it;
    struct tvalue v;
    if (in.kind == TVALUE_STRING) {
        if (item.kind == TVALUE_UNDEFINED)
            return run_fail_undefined(r, item), false;
        if (item.kind != TVALUE_STRING)
            return run_fail(r, ERR_INVALID, "'in <string>' requires string as left operand, not %s",
                            python_type(item)),
                   false;
        run_burn(r, in.len / 16);
        return !item.len || memmem(in.text, in.len, item.text, item.len);
    }
    if (in.kind == TVALUE_DICT || (in.kind == TVALUE_VIEW && in.tag == VIEW_KEYS)) {
        if (!tvalue_is_key(item) && item.kind != TVALUE_UNDEFINED && item.kind != TVALUE_TUPLE)
            return run_fail(r, ERR_INVALID, "unhashable type: '%s'", python_type(item)), false;
        return run_burn_read(r, item) && tdict_find(in.dict, item);
    }
    if (in.kind == TVALUE_NONE || op_is_number(in))
        return run_fail(r, ERR_INVALID, "argument of type '%s' is not iterable", python_type(in)),
               false;
    if (!iter_open(r, in, &it))
        return false;
    while (iter_next(r, &it, &v))
        if (op_equal(r, v, item))
            return true;
    return false;
}

/* ---- arithmetic ---- */

static struct tvalue fail_overflow(struct run *r) {
    return run_fail(r, ERR_LIMIT, "a number is too large: integers are reckoned with in 64 bits");
}

static struct tvalue power_of_ints(struct run *r, int64_t base, int64_t exponent) {
    int64_t result = 1;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result))
            return fail_overflow(r);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return fail_overflow(r);
    }
    return tvalue_int(result);
}

static struct tvalue no_operation(struct run *r, const char *op, struct tvalue a, struct tvalue b) {
    if (a.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, a);
    if (b.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, b);
    if (is_any_number(a) && is_any_number(b))
        return fail_overflow(r);
    return run_fail(r, ERR_INVALID, "unsupported operand type(s) for %s: '%s' and '%s'", op,
                    python_type(a), python_type(b));
}

static struct tvalue concat_lists(struct run *r, struct tvalue a, struct tvalue b) {
    struct tvalue list = run_list(r, a.kind);
    for (uint32_t i = 0; i < a.list->count && !r->rc; i++)
        run_push(r, list, a.list->items[i]);
    for (uint32_t i = 0; i < b.list->count && !r->rc; i++)
        run_push(r, list, b.list->items[i]);
    return list;
}

static struct tvalue concat_strings(struct run *r, struct tvalue a, struct tvalue b) {
    size_t len = (size_t)a.len + b.len;
    if (!b.len)
        return a;
    if (!a.len)
        return b;
    run_burn(r, len / 16);
    char *text = len < UINT32_MAX ? run_alloc(r, len) : NULL;
    if (!text)
        return run_fail(r, ERR_LIMIT, "a string is too large");
    memcpy(text, a.text, a.len);
    memcpy(text + a.len, b.text, b.len);
    return tvalue_string(bytes_of(text, len));
}

struct tvalue op_add(struct run *r, struct tvalue a, struct tvalue b) {
    int64_t x, y, sum;
    if (a.kind == TVALUE_STRING && b.kind == TVALUE_STRING) {
        if (!is_markup(a) && !is_markup(b))
            return concat_strings(r, a, b);
        a = markup_escape(r, a);
        return r->rc ? a : markup_of(concat_strings(r, a, markup_escape(r, b)));
    }
    if (op_is_int(a, &x) && op_is_int(b, &y))
        return __builtin_add_overflow(x, y, &sum) ? fail_overflow(r) : tvalue_int(sum);
    if (op_is_number(a) && op_is_number(b))
        return tvalue_float(op_number(a) + op_number(b));
    if (is_sequence(a) && a.kind == b.kind)
        return concat_lists(r, a, b);
    if (a.kind == TVALUE_STRING && b.kind != TVALUE_UNDEFINED)
        return run_fail(r, ERR_INVALID, "can only concatenate str (not \"%s\") to str",
                        python_type(b));
    return no_operation(r, "+", a, b);
}

static struct tvalue repeat(struct run *r, struct tvalue v, int64_t times) {
    times = MAX(times, 0);
    if (v.kind == TVALUE_STRING) {
        uint64_t len;
        if (!mul_ok(v.len, (uint64_t)times, &len) || len >= r->out_max)
            return run_fail(r, ERR_LIMIT, "a string is too large");
        char *text = run_burn(r, len / 16) ? run_alloc(r, (size_t)len + 1) : NULL;
        if (!text)
            return undefined_value();
        for (int64_t i = 0; v.len && i < times; i++)
            memcpy(text + (size_t)i * v.len, v.text, v.len);
        return is_markup(v) ? markup_of(tvalue_string(bytes_of(text, (size_t)len)))
                            : tvalue_string(bytes_of(text, (size_t)len));
    }
    struct tvalue list = run_list(r, v.kind);
    for (int64_t k = 0; v.list->count && k < times && !r->rc; k++)
        for (uint32_t i = 0; i < v.list->count && !r->rc; i++)
            run_push(r, list, v.list->items[i]);
    return list;
}

static struct tvalue multiply(struct run *r, struct tvalue a, struct tvalue b) {
    int64_t x, y, product;
    if (op_is_int(a, &x) && op_is_int(b, &y))
        return __builtin_mul_overflow(x, y, &product) ? fail_overflow(r) : tvalue_int(product);
    if (op_is_number(a) && op_is_number(b))
        return tvalue_float(op_number(a) * op_number(b));
    if ((a.kind == TVALUE_STRING || is_sequence(a)) && op_is_int(b, &y))
        return repeat(r, a, y);
    if ((b.kind == TVALUE_STRING || is_sequence(b)) && op_is_int(a, &x))
        return repeat(r, b, x);
    return no_operation(r, "*", a, b);
}

static struct tvalue divide(struct run *r, uint32_t op, struct tvalue a, struct tvalue b) {
    int64_t x, y;
    if (op_number(b) == 0)
        return run_fail(r, ERR_INVALID, "division by zero");
    if (op == OP('/'))
        return tvalue_float(op_number(a) / op_number(b));
    if (op_is_int(a, &x) && op_is_int(b, &y)) {
        if (y == -1)
            return op == OP('%') ? tvalue_int(0) : op_negate(r, a, true);
        int64_t quotient = x / y, rest = x % y;
        if (rest && (rest < 0) != (y < 0)) { /* Python rounds down */
            quotient--;
            rest += y;
        }
        return tvalue_int(op == OP('%') ? rest : quotient);
    }
    double p = op_number(a), q = op_number(b), rest = fmod(p, q), quotient = (p - rest) / q;
    if (rest != 0 && (rest < 0) != (q < 0)) {
        rest += q;
        quotient -= 1;
    }
    if (op == OP('%'))
        return tvalue_float(rest != 0 ? rest : copysign(0, q));
    if (quotient == 0)
        return tvalue_float(copysign(0, p / q));
    double whole = floor(quotient); /* as CPython's float_divmod */
    return tvalue_float(quotient - whole > 0.5 ? whole + 1 : whole);
}

static struct tvalue power(struct run *r, struct tvalue a, struct tvalue b) {
    int64_t x, y;
    if (!op_is_int(a, &x) || !op_is_int(b, &y) || y < 0) {
        if (op_number(a) == 0 && op_number(b) < 0)
            return run_fail(r, ERR_INVALID, "0.0 cannot be raised to a negative power");
        double p = op_number(a), q = op_number(b), made = pow(p, q);
        if (p < 0 && isfinite(p) && isfinite(q) && q != floor(q))
            return run_fail(r, ERR_UNSUPPORTED, "complex numbers are not supported");
        if (isinf(made) && isfinite(p) && isfinite(q))
            return run_fail(r, ERR_INVALID, "Numerical result out of range");
        return tvalue_float(made);
    }
    return power_of_ints(r, x, y);
}

static struct tvalue subtract(struct run *r, struct tvalue a, struct tvalue b) {
    int64_t x, y, difference;
    if (op_is_int(a, &x) && op_is_int(b, &y))
        return __builtin_sub_overflow(x, y, &difference) ? fail_overflow(r)
                                                         : tvalue_int(difference);
    return tvalue_float(op_number(a) - op_number(b));
}

/* "..." % b. What has items by key may have more than the text uses, and for Python lists and
 * undefined values have. */
static struct tvalue percent(struct run *r, struct tvalue a, struct tvalue b) {
    static struct tdict none;
    struct tvalue items[1] = {b};
    struct args args = {items, 1, NULL};
    if (b.kind == TVALUE_TUPLE)
        args = (struct args){b.list->items, b.list->count, NULL};
    if (b.kind == TVALUE_DICT)
        args.keywords = b.dict;
    if (b.kind == TVALUE_LIST || b.kind == TVALUE_RANGE || b.kind == TVALUE_UNDEFINED)
        args.keywords = &none;
    return format_percent(r, a, args);
}

struct tvalue op_binary(struct run *r, uint32_t op, struct tvalue a, struct tvalue b) {
    char name[3] = {(char)op, (char)(op >> 8), 0};
    if (r->rc)
        return undefined_value();
    if (op == OP('*'))
        return multiply(r, a, b);
    if (op == OP('%') && a.kind == TVALUE_STRING)
        return percent(r, a, b);
    if (!op_is_number(a) || !op_is_number(b))
        return no_operation(r, name, a, b);
    if (op == OP('-'))
        return subtract(r, a, b);
    return op == OP2('*', '*') ? power(r, a, b) : divide(r, op, a, b);
}

struct tvalue op_negate(struct run *r, struct tvalue v, bool minus) {
    int64_t i;
    if (v.kind == TVALUE_FLOAT)
        return tvalue_float(minus ? -v.number : v.number);
    if (op_is_int(v, &i))
        return !minus ? tvalue_int(i) : i == INT64_MIN ? fail_overflow(r) : tvalue_int(-i);
    if (v.kind == TVALUE_BIG_INT)
        return minus ? fail_overflow(r) : v;
    if (v.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, v);
    return run_fail(r, ERR_INVALID, "bad operand type for unary %c: '%s'", minus ? '-' : '+',
                    python_type(v));
}
