/*
 * methods.c - the methods of Python's values that a template may call: those of lists and dicts,
 * and the table of all.
 *
 * All of Python's method names are known (`x.foo is defined` depends on it); those that would
 * change a value are refused, as jinja2's immutable sandbox does, and a few that no template needs
 * are refused as unsupported.
 */
#include "text/template/strings.h"

enum of_kind {
    OF_STRING = 1,
    OF_LIST = 2,
    OF_TUPLE = 4,
    OF_DICT = 8,
    OF_LOOP = 16,
    OF_INT = 32,
    OF_FLOAT = 64
};

/* ---- lists and dicts ---- */

static struct tvalue list_index(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    if (!params_bind(r, "index", "value", 1, args, &p))
        return undefined_value();
    for (uint32_t i = 0; i < self.list->count && !r->rc; i++)
        if (op_equal(r, self.list->items[i], p.v[0]))
            return tvalue_int(i);
    return run_fail(r, ERR_INVALID, "the value is not in the list");
}

static struct tvalue list_count(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    int64_t n = 0;
    if (!params_bind(r, "count", "value", 1, args, &p))
        return undefined_value();
    for (uint32_t i = 0; i < self.list->count && !r->rc; i++)
        n += op_equal(r, self.list->items[i], p.v[0]);
    return tvalue_int(n);
}

/* The one method that changes a value: jinja2 3.1.2's sandbox let it through, and templates in use
 * rely on it. */
static struct tvalue list_pop(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    int64_t idx = -1;
    struct tlist *list = self.list;
    if (!params_bind(r, "pop", "index", 0, args, &p) ||
        (p.given[0] && !method_int_argument(r, p.v[0], &idx)))
        return undefined_value();
    if (idx < 0)
        idx += list->count;
    if (!list->count)
        return run_fail(r, ERR_INVALID, "pop from empty list");
    if (idx < 0 || idx >= list->count)
        return run_fail(r, ERR_INVALID, "pop index out of range");
    struct tvalue item = list->items[idx];
    run_burn(r, list->count / 16);
    list->count--;
    memmove(list->items + idx, list->items + idx + 1,
            (list->count - (size_t)idx) * sizeof *list->items);
    return item;
}

static struct tvalue list_copy(struct run *r, struct tvalue self, struct args args) {
    return method_no_arguments(r, args) ? op_to_list(r, self) : undefined_value();
}

static struct tvalue any_copy(struct run *r, struct tvalue self, struct args args) {
    return method_no_arguments(r, args) ? self : undefined_value(); /* dicts never change */
}

static struct tvalue dict_get(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    if (args.keywords && args.keywords->count)
        return run_fail(r, ERR_INVALID, "dict.get() takes no keyword arguments");
    if (!params_bind(r, "get", "key default", 1, args, &p))
        return undefined_value();
    if (!tvalue_is_key(p.v[0]) && p.v[0].kind != TVALUE_TUPLE && p.v[0].kind != TVALUE_UNDEFINED)
        return run_fail(r, ERR_INVALID, "unhashable type: '%s'", python_type(p.v[0]));
    const struct tvalue *found = run_burn_read(r, p.v[0]) ? tdict_find(self.dict, p.v[0]) : NULL;
    return found ? *found : p.given[1] ? p.v[1] : tvalue_none();
}

static struct tvalue view(struct run *r, struct tvalue self, struct args args,
                          enum view_kind kind) {
    if (!method_no_arguments(r, args))
        return undefined_value();
    return (struct tvalue){.kind = TVALUE_VIEW, .tag = (uint16_t)kind, .dict = self.dict};
}
static struct tvalue dict_items(struct run *r, struct tvalue self, struct args args) {
    return view(r, self, args, VIEW_ITEMS);
}
static struct tvalue dict_keys(struct run *r, struct tvalue self, struct args args) {
    return view(r, self, args, VIEW_KEYS);
}
static struct tvalue dict_values(struct run *r, struct tvalue self, struct args args) {
    return view(r, self, args, VIEW_VALUES);
}

static struct tvalue loop_cycle(struct run *r, struct tvalue self, struct args args) {
    const struct tloop *loop = self.pointer;
    if (!args.count)
        return run_fail(r, ERR_INVALID, "no items for cycling given");
    return args.items[loop->idx % args.count];
}

static struct tvalue loop_changed(struct run *r, struct tvalue self, struct args args) {
    struct tloop *loop = (struct tloop *)(uintptr_t)self.pointer;
    struct tvalue now = run_list(r, TVALUE_TUPLE);
    for (uint32_t i = 0; i < args.count && !r->rc; i++)
        run_push(r, now, args.items[i]);
    if (r->rc)
        return undefined_value();
    bool same = loop->changed.kind == TVALUE_TUPLE && op_equal(r, loop->changed, now);
    loop->changed = now;
    return tvalue_bool(!same);
}

/* ---- the table ---- */

enum { MUTATES = 1 };
static const struct {
    const char *name;
    method_fn *string, *list, *dict, *loop; /* list: tuples too */
    /* of_kind where the name exists without being supported */
    uint8_t also;
    /* of_kind whose method of this name would change the value */
    uint8_t mutates;
    method_fn *integer, *real, *range, *cycler;
} METHODS[] = {
    {.name = ""}, /* 0 is no method */
    {.name = "upper", .string = str_upper},
    {.name = "lower", .string = str_lower},
    {.name = "title", .string = str_title},
    {.name = "capitalize", .string = str_capitalize},
    {.name = "swapcase", .string = str_swapcase},
    {.name = "casefold", .string = str_lower},
    {.name = "strip", .string = str_strip},
    {.name = "lstrip", .string = str_lstrip},
    {.name = "rstrip", .string = str_rstrip},
    {.name = "startswith", .string = str_startswith},
    {.name = "endswith", .string = str_endswith},
    {.name = "removeprefix", .string = str_removeprefix},
    {.name = "removesuffix", .string = str_removesuffix},
    {.name = "find", .string = str_find},
    {.name = "rfind", .string = str_rfind},
    {.name = "index", .string = str_index, .list = list_index, .range = range_index},
    {.name = "rindex", .string = str_rindex},
    {.name = "count", .string = str_count, .list = list_count, .range = range_count},
    {.name = "split", .string = str_split},
    {.name = "rsplit", .string = str_rsplit},
    {.name = "splitlines", .string = str_splitlines},
    {.name = "partition", .string = str_partition},
    {.name = "rpartition", .string = str_rpartition},
    {.name = "join", .string = str_join},
    {.name = "replace", .string = str_replace},
    {.name = "ljust", .string = str_ljust},
    {.name = "rjust", .string = str_rjust},
    {.name = "center", .string = str_center},
    {.name = "zfill", .string = str_zfill},
    {.name = "isalpha", .string = str_isalpha},
    {.name = "isdigit", .string = str_isdigit},
    {.name = "isdecimal", .string = str_isdigit},
    {.name = "isnumeric", .string = str_isnumeric},
    {.name = "isalnum", .string = str_isalnum},
    {.name = "isspace", .string = str_isspace},
    {.name = "isascii", .string = str_isascii},
    {.name = "isupper", .string = str_isupper},
    {.name = "islower", .string = str_islower},
    {.name = "format", .string = str_format},
    {.name = "copy", .list = list_copy, .dict = any_copy},
    {.name = "get", .dict = dict_get},
    {.name = "items", .dict = dict_items},
    {.name = "keys", .dict = dict_keys},
    {.name = "values", .dict = dict_values},
    {.name = "cycle", .loop = loop_cycle},
    {.name = "changed", .loop = loop_changed},
    {.name = "append", .also = OF_LIST, .mutates = OF_LIST},
    {.name = "extend", .also = OF_LIST, .mutates = OF_LIST},
    {.name = "insert", .also = OF_LIST, .mutates = OF_LIST},
    {.name = "remove", .also = OF_LIST, .mutates = OF_LIST},
    {.name = "reverse", .also = OF_LIST, .mutates = OF_LIST},
    {.name = "sort", .also = OF_LIST, .mutates = OF_LIST},
    {.name = "pop", .list = list_pop, .also = OF_DICT, .mutates = OF_DICT},
    {.name = "clear", .also = OF_LIST | OF_DICT, .mutates = OF_LIST | OF_DICT},
    {.name = "update", .also = OF_DICT, .mutates = OF_DICT},
    {.name = "setdefault", .also = OF_DICT, .mutates = OF_DICT},
    {.name = "popitem", .also = OF_DICT, .mutates = OF_DICT},
    {.name = "fromkeys", .dict = dict_fromkeys},
    {.name = "expandtabs", .string = str_expandtabs},
    {.name = "isidentifier", .string = str_isidentifier},
    {.name = "isprintable", .string = str_isprintable},
    {.name = "istitle", .string = str_istitle},
    {.name = "format_map", .string = str_format_map},
    {.name = "maketrans", .string = str_maketrans},
    {.name = "translate", .string = str_translate},
    {.name = "encode", .also = OF_STRING}, /* gives bytes, which nothing here is made of */
    {.name = "bit_length", .integer = int_bit_length},
    {.name = "is_integer", .real = float_is_integer},
    {.name = "as_integer_ratio", .also = OF_INT | OF_FLOAT},
    {.name = "from_bytes", .also = OF_INT},
    {.name = "to_bytes", .also = OF_INT},
    {.name = "fromhex", .also = OF_FLOAT},
    {.name = "hex", .also = OF_FLOAT},
    {.name = "next", .cycler = cycler_next},
    {.name = "reset", .cycler = cycler_reset},
};

uint8_t method_find(struct bytes name) {
    if (!name.len)
        return 0;
    for (uint8_t i = 1; i < ARRAY_LEN(METHODS); i++)
        if (METHODS[i].name[0] == (char)name.data[0] &&
            bytes_equal(name, bytes_str(METHODS[i].name)))
            return i;
    return 0;
}

static unsigned of_kind(struct tvalue v) {
    switch (v.kind) {
    case TVALUE_STRING: return OF_STRING;
    case TVALUE_LIST: return OF_LIST;
    case TVALUE_TUPLE: return OF_TUPLE;
    case TVALUE_DICT: return OF_DICT;
    case TVALUE_LOOP: return OF_LOOP;
    case TVALUE_BOOL:
    case TVALUE_INT: return OF_INT;
    case TVALUE_FLOAT: return OF_FLOAT;
    default: return 0;
    }
}

static method_fn *method_of(struct tvalue of, unsigned method) {
    switch (of.kind) {
    case TVALUE_STRING: return METHODS[method].string;
    case TVALUE_LIST: return METHODS[method].list;
    case TVALUE_TUPLE:
        return METHODS[method].list == list_copy || METHODS[method].list == list_pop
                   ? NULL
                   : METHODS[method].list;
    case TVALUE_DICT: return METHODS[method].dict;
    case TVALUE_LOOP: return METHODS[method].loop;
    case TVALUE_BOOL:
    case TVALUE_INT: return METHODS[method].integer;
    case TVALUE_FLOAT: return METHODS[method].real;
    case TVALUE_RANGE: return METHODS[method].range;
    case TVALUE_CYCLER: return METHODS[method].cycler;
    default: return NULL;
    }
}

bool method_exists(struct tvalue of, unsigned method) {
    return method_of(of, method) || METHODS[method].also & of_kind(of);
}
bool method_is_mutating(struct tvalue of, unsigned method) {
    return METHODS[method].mutates & of_kind(of);
}

struct tvalue method_call(struct run *r, struct tvalue self, unsigned method, struct args args) {
    method_fn *call = method_of(self, method);
    if (r->rc || !run_burn(r, 1) || !run_burn_read(r, self))
        return undefined_value();
    if (!call)
        return run_fail(r, ERR_UNSUPPORTED, "the method '%s' is not supported",
                        METHODS[method].name);
    return is_markup(self) ? markup_of_method(r, call(r, self, args)) : call(r, self, args);
}
