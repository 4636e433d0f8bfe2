/*
 * template_tests.c - `x is test`.
 */
#include "text/template/python.h"
#include "text/template/run.h"

typedef bool test_fn(struct run *r, struct tvalue v, struct tvalue argument);

static bool is_defined(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind != TVALUE_UNDEFINED;
}
static bool is_undefined(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_UNDEFINED;
}
static bool is_none(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_NONE;
}
static bool is_boolean(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_BOOL;
}
static bool is_true(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_BOOL && v.boolean;
}
static bool is_false(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_BOOL && !v.boolean;
}
static bool is_integer(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_INT || v.kind == TVALUE_BIG_INT;
}
static bool is_float(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_FLOAT;
}
static bool is_number(struct run *r, struct tvalue v, struct tvalue a) {
    return op_is_number(v) || v.kind == TVALUE_BIG_INT;
}
static bool is_string(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_STRING;
}
static bool is_mapping(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_DICT;
}

/* len(v) and v[...] work: views have no items, undefined has both. */
static bool is_sequence(struct run *r, struct tvalue v, struct tvalue a) {
    uint32_t count;
    return op_length(v, &count) && v.kind != TVALUE_VIEW && v.kind != TVALUE_LOOP;
}

static bool is_iterable(struct run *r, struct tvalue v, struct tvalue a) {
    uint32_t count;
    return op_length(v, &count) || v.kind == TVALUE_GENERATOR;
}

static bool is_callable(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_UNDEFINED ||
           (v.kind >= TVALUE_MACRO && v.kind <= TVALUE_JOINER && v.kind != TVALUE_CYCLER);
}

static bool parity(struct run *r, struct tvalue v, int64_t want) {
    struct tvalue rest = op_binary(r, OP('%'), v, tvalue_int(2));
    return !r->rc && op_equal(r, rest, tvalue_int(want));
}
static bool is_odd(struct run *r, struct tvalue v, struct tvalue a) {
    return parity(r, v, 1);
}
static bool is_even(struct run *r, struct tvalue v, struct tvalue a) {
    return parity(r, v, 0);
}

static bool is_divisible(struct run *r, struct tvalue v, struct tvalue a) {
    struct tvalue rest = op_binary(r, OP('%'), v, a);
    return !r->rc && op_equal(r, rest, tvalue_int(0));
}

static bool is_equal(struct run *r, struct tvalue v, struct tvalue a) {
    return op_equal(r, v, a);
}
static bool is_unequal(struct run *r, struct tvalue v, struct tvalue a) {
    return !op_equal(r, v, a);
}
static bool is_less(struct run *r, struct tvalue v, struct tvalue a) {
    return op_order(r, v, a) < 0;
}
static bool is_at_most(struct run *r, struct tvalue v, struct tvalue a) {
    return op_order(r, v, a) <= 0;
}
static bool is_greater(struct run *r, struct tvalue v, struct tvalue a) {
    return op_order(r, v, a) == 1;
}
static bool is_at_least(struct run *r, struct tvalue v, struct tvalue a) {
    return (unsigned)op_order(r, v, a) <= 1;
}
static bool is_in(struct run *r, struct tvalue v, struct tvalue a) {
    return op_contains(r, a, v);
}

static bool is_same(struct run *r, struct tvalue v, struct tvalue a) {
    if (v.kind != a.kind)
        return false;
    if (v.kind <= TVALUE_STRING)
        return op_equal(r, v, a);
    return v.pointer == a.pointer;
}

static bool is_case(struct run *r, struct tvalue v, const char *method) {
    struct tvalue text = run_to_string(r, v);
    if (r->rc)
        return false;
    return op_truth(method_call(r, text, method_find(bytes_str(method)), (struct args){0}));
}
static bool is_lower(struct run *r, struct tvalue v, struct tvalue a) {
    return is_case(r, v, "islower");
}
static bool is_upper(struct run *r, struct tvalue v, struct tvalue a) {
    return is_case(r, v, "isupper");
}

static bool is_filter(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_STRING && filter_find(tvalue_text(v)) >= 0;
}
static bool is_test(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_STRING && test_find(tvalue_text(v)) >= 0;
}
static bool is_escaped(struct run *r, struct tvalue v, struct tvalue a) {
    return v.kind == TVALUE_STRING && v.flags & TVALUE_SAFE;
}

static const struct {
    const char *name;
    test_fn *run;
    unsigned argument_count;
} TESTS[] = {
    {"defined", is_defined, 0},
    {"undefined", is_undefined, 0},
    {"none", is_none, 0},
    {"boolean", is_boolean, 0},
    {"true", is_true, 0},
    {"false", is_false, 0},
    {"integer", is_integer, 0},
    {"float", is_float, 0},
    {"number", is_number, 0},
    {"string", is_string, 0},
    {"mapping", is_mapping, 0},
    {"sequence", is_sequence, 0},
    {"iterable", is_iterable, 0},
    {"callable", is_callable, 0},
    {"odd", is_odd, 0},
    {"even", is_even, 0},
    {"divisibleby", is_divisible, 1},
    {"eq", is_equal, 1},
    {"equalto", is_equal, 1},
    {"==", is_equal, 1},
    {"ne", is_unequal, 1},
    {"!=", is_unequal, 1},
    {"lt", is_less, 1},
    {"lessthan", is_less, 1},
    {"<", is_less, 1},
    {"le", is_at_most, 1},
    {"<=", is_at_most, 1},
    {"gt", is_greater, 1},
    {"greaterthan", is_greater, 1},
    {">", is_greater, 1},
    {"ge", is_at_least, 1},
    {">=", is_at_least, 1},
    {"in", is_in, 1},
    {"sameas", is_same, 1},
    {"lower", is_lower, 0},
    {"upper", is_upper, 0},
    {"filter", is_filter, 0},
    {"test", is_test, 0},
    {"escaped", is_escaped, 0},
};

int test_find(struct bytes name) {
    for (size_t i = 0; i < ARRAY_LEN(TESTS); i++)
        if (bytes_equal(name, bytes_str(TESTS[i].name)))
            return (int)i;
    return -1;
}

bool test_call(struct run *r, int function, struct tvalue input, struct args args) {
    if (r->rc || !run_burn(r, 1) || !run_burn_read(r, input))
        return false;
    uint32_t keywords = args.keywords ? args.keywords->count : 0;
    if (args.count + keywords != TESTS[function].argument_count) {
        run_fail(r, ERR_INVALID, "the test '%s' takes %u arguments", TESTS[function].name,
                 TESTS[function].argument_count);
        return false;
    }
    struct tvalue argument = args.count ? args.items[0]
                             : keywords ? args.keywords->entries[0].value
                                        : undefined_value();
    return TESTS[function].run(r, input, argument);
}
