/*
 * methods.c - the methods of Python's strings, lists and dicts that a template may call.
 *
 * All of Python's method names are known (`x.foo is defined` depends on it); those that would change a value are
 * refused, as jinja2's immutable sandbox does, and a few that no template needs are refused as unsupported.
 */
#include "text/template/strings.h"

enum of_kind { OF_STRING = 1, OF_LIST = 2, OF_TUPLE = 4, OF_DICT = 8, OF_LOOP = 16 };

/* ---- lists and dicts ---- */

static struct tvalue list_index(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    if (!params_bind(r, "index", "value", 1, args, &p)) return undefined_value();
    for (uint32_t i = 0; i < self.list->count && !r->rc; i++)
        if (op_equal(r, self.list->items[i], p.v[0])) return tvalue_int(i);
    return run_fail(r, ERR_INVALID, "the value is not in the list");
}

static struct tvalue list_count(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    int64_t n = 0;
    if (!params_bind(r, "count", "value", 1, args, &p)) return undefined_value();
    for (uint32_t i = 0; i < self.list->count && !r->rc; i++) n += op_equal(r, self.list->items[i], p.v[0]);
    return tvalue_int(n);
}

/* The one method that changes a value: jinja2 3.1.2's sandbox let it through, and templates in use rely on it. */
static struct tvalue list_pop(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    int64_t idx = -1;
    struct tlist *list = self.list;
    if (!params_bind(r, "pop", "index", 0, args, &p) || (p.given[0] && !method_int_argument(r, p.v[0], &idx)))
        return undefined_value();
    if (idx < 0) idx += list->count;
    if (!list->count) return run_fail(r, ERR_INVALID, "pop from empty list");
    if (idx < 0 || idx >= list->count) return run_fail(r, ERR_INVALID, "pop index out of range");
    struct tvalue item = list->items[idx];
    run_burn(r, list->count / 16);
    list->count--;
    memmove(list->items + idx, list->items + idx + 1, (list->count - (size_t)idx) * sizeof *list->items);
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
    if (args.keywords && args.keywords->count) return run_fail(r, ERR_INVALID, "dict.get() takes no keyword arguments");
    if (!params_bind(r, "get", "key default", 1, args, &p)) return undefined_value();
    if (!tvalue_is_key(p.v[0]) && p.v[0].kind != TVALUE_TUPLE && p.v[0].kind != TVALUE_UNDEFINED)
        return run_fail(r, ERR_INVALID, "unhashable type: '%s'", python_type(p.v[0]));
    const struct tvalue *found = tdict_find(self.dict, p.v[0]);
    return found ? *found : p.given[1] ? p.v[1] : tvalue_none();
}

static struct tvalue view(struct run *r, struct tvalue self, struct args args, enum view_kind kind) {
    if (!method_no_arguments(r, args)) return undefined_value();
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
    if (!args.count) return run_fail(r, ERR_INVALID, "no items for cycling given");
    return args.items[loop->idx % args.count];
}

static struct tvalue loop_changed(struct run *r, struct tvalue self, struct args args) {
    struct tloop *loop = (struct tloop *)(uintptr_t)self.pointer;
    struct tvalue now = run_list(r, TVALUE_TUPLE);
    for (uint32_t i = 0; i < args.count && !r->rc; i++) run_push(r, now, args.items[i]);
    if (r->rc) return undefined_value();
    bool same = loop->changed.kind == TVALUE_TUPLE && op_equal(r, loop->changed, now);
    loop->changed = now;
    return tvalue_bool(!same);
}

/* ---- the table ---- */

enum { MUTATES = 1 };
static const struct {
    const char *name;
    method_fn *string, *list, *dict, *loop; /* list: tuples too */
    uint8_t also;                           /* of_kind where the name exists without being supported */
    uint8_t mutates;                        /* of_kind whose method of this name would change the value */
} METHODS[] = {
    {.name = ""}, /* 0 is no method */
    {"upper", str_upper, NULL, NULL, NULL, 0, 0},
    {"lower", str_lower, NULL, NULL, NULL, 0, 0},
    {"title", str_title, NULL, NULL, NULL, 0, 0},
    {"capitalize", str_capitalize, NULL, NULL, NULL, 0, 0},
    {"swapcase", str_swapcase, NULL, NULL, NULL, 0, 0},
    {"casefold", str_lower, NULL, NULL, NULL, 0, 0},
    {"strip", str_strip, NULL, NULL, NULL, 0, 0},
    {"lstrip", str_lstrip, NULL, NULL, NULL, 0, 0},
    {"rstrip", str_rstrip, NULL, NULL, NULL, 0, 0},
    {"startswith", str_startswith, NULL, NULL, NULL, 0, 0},
    {"endswith", str_endswith, NULL, NULL, NULL, 0, 0},
    {"removeprefix", str_removeprefix, NULL, NULL, NULL, 0, 0},
    {"removesuffix", str_removesuffix, NULL, NULL, NULL, 0, 0},
    {"find", str_find, NULL, NULL, NULL, 0, 0},
    {"rfind", str_rfind, NULL, NULL, NULL, 0, 0},
    {"index", str_index, list_index, NULL, NULL, 0, 0},
    {"rindex", str_rindex, NULL, NULL, NULL, 0, 0},
    {"count", str_count, list_count, NULL, NULL, 0, 0},
    {"split", str_split, NULL, NULL, NULL, 0, 0},
    {"rsplit", str_rsplit, NULL, NULL, NULL, 0, 0},
    {"splitlines", str_splitlines, NULL, NULL, NULL, 0, 0},
    {"partition", str_partition, NULL, NULL, NULL, 0, 0},
    {"rpartition", str_rpartition, NULL, NULL, NULL, 0, 0},
    {"join", str_join, NULL, NULL, NULL, 0, 0},
    {"replace", str_replace, NULL, NULL, NULL, 0, 0},
    {"ljust", str_ljust, NULL, NULL, NULL, 0, 0},
    {"rjust", str_rjust, NULL, NULL, NULL, 0, 0},
    {"center", str_center, NULL, NULL, NULL, 0, 0},
    {"zfill", str_zfill, NULL, NULL, NULL, 0, 0},
    {"isalpha", str_isalpha, NULL, NULL, NULL, 0, 0},
    {"isdigit", str_isdigit, NULL, NULL, NULL, 0, 0},
    {"isdecimal", str_isdigit, NULL, NULL, NULL, 0, 0},
    {"isnumeric", str_isnumeric, NULL, NULL, NULL, 0, 0},
    {"isalnum", str_isalnum, NULL, NULL, NULL, 0, 0},
    {"isspace", str_isspace, NULL, NULL, NULL, 0, 0},
    {"isascii", str_isascii, NULL, NULL, NULL, 0, 0},
    {"isupper", str_isupper, NULL, NULL, NULL, 0, 0},
    {"islower", str_islower, NULL, NULL, NULL, 0, 0},
    {"format", str_format, NULL, NULL, NULL, 0, 0},
    {"copy", NULL, list_copy, any_copy, NULL, 0, 0},
    {"get", NULL, NULL, dict_get, NULL, 0, 0},
    {"items", NULL, NULL, dict_items, NULL, 0, 0},
    {"keys", NULL, NULL, dict_keys, NULL, 0, 0},
    {"values", NULL, NULL, dict_values, NULL, 0, 0},
    {"cycle", NULL, NULL, NULL, loop_cycle, 0, 0},
    {"changed", NULL, NULL, NULL, loop_changed, 0, 0},
    {"append", NULL, NULL, NULL, NULL, OF_LIST, OF_LIST},
    {"extend", NULL, NULL, NULL, NULL, OF_LIST, OF_LIST},
    {"insert", NULL, NULL, NULL, NULL, OF_LIST, OF_LIST},
    {"remove", NULL, NULL, NULL, NULL, OF_LIST, OF_LIST},
    {"reverse", NULL, NULL, NULL, NULL, OF_LIST, OF_LIST},
    {"sort", NULL, NULL, NULL, NULL, OF_LIST, OF_LIST},
    {"pop", NULL, list_pop, NULL, NULL, OF_DICT, OF_DICT},
    {"clear", NULL, NULL, NULL, NULL, OF_LIST | OF_DICT, OF_LIST | OF_DICT},
    {"update", NULL, NULL, NULL, NULL, OF_DICT, OF_DICT},
    {"setdefault", NULL, NULL, NULL, NULL, OF_DICT, OF_DICT},
    {"popitem", NULL, NULL, NULL, NULL, OF_DICT, OF_DICT},
    {"fromkeys", NULL, NULL, NULL, NULL, OF_DICT, 0},
    {"expandtabs", str_expandtabs, NULL, NULL, NULL, 0, 0},
    {"isidentifier", str_isidentifier, NULL, NULL, NULL, 0, 0},
    {"isprintable", str_isprintable, NULL, NULL, NULL, 0, 0},
    {"istitle", str_istitle, NULL, NULL, NULL, 0, 0},
    {"encode", NULL, NULL, NULL, NULL, OF_STRING, 0},
    {"format_map", NULL, NULL, NULL, NULL, OF_STRING, 0},
    {"maketrans", NULL, NULL, NULL, NULL, OF_STRING, 0},
    {"translate", NULL, NULL, NULL, NULL, OF_STRING, 0},
};

uint8_t method_find(struct bytes name) {
    if (!name.len) return 0;
    for (uint8_t i = 1; i < ARRAY_LEN(METHODS); i++)
        if (METHODS[i].name[0] == (char)name.data[0] && bytes_equal(name, bytes_str(METHODS[i].name))) return i;
    return 0;
}

static unsigned of_kind(struct tvalue v) {
    switch (v.kind) {
    case TVALUE_STRING: return OF_STRING;
    case TVALUE_LIST: return OF_LIST;
    case TVALUE_TUPLE: return OF_TUPLE;
    case TVALUE_DICT: return OF_DICT;
    case TVALUE_LOOP: return OF_LOOP;
    default: return 0;
    }
}

static method_fn *method_of(struct tvalue of, unsigned method) {
    switch (of.kind) {
    case TVALUE_STRING: return METHODS[method].string;
    case TVALUE_LIST: return METHODS[method].list;
    case TVALUE_TUPLE:
        return METHODS[method].list == list_copy || METHODS[method].list == list_pop ? NULL : METHODS[method].list;
    case TVALUE_DICT: return METHODS[method].dict;
    case TVALUE_LOOP: return METHODS[method].loop;
    default: return NULL;
    }
}

bool method_exists(struct tvalue of, unsigned method) {
    return method_of(of, method) || METHODS[method].also & of_kind(of);
}
bool method_is_mutating(struct tvalue of, unsigned method) { return METHODS[method].mutates & of_kind(of); }

struct tvalue method_call(struct run *r, struct tvalue self, unsigned method, struct args args) {
    method_fn *call = method_of(self, method);
    if (r->rc || !run_burn(r, 1)) return undefined_value();
    if (!call) return run_fail(r, ERR_UNSUPPORTED, "the method '%s' is not supported", METHODS[method].name);
    return is_markup(self) ? markup_of_method(r, call(r, self, args)) : call(r, self, args);
}
