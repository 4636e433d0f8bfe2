/*
 * run.h - a render in progress, and what its parts offer each other; for the files here only.
 *
 * Errors are sticky: the first run_fail sets run.rc, from then on every step returns undefined at
 * once. Memory is the render's arena; nothing is freed alone. Values follow Python: 1 == 1.0 ==
 * True, strings are sequences of code points, dicts keep order, generators run once.
 */
#ifndef TEXT_TEMPLATE_RUN_H
#define TEXT_TEMPLATE_RUN_H

#include "text/template/ast.h"

/* Kinds that only a running template makes. */
enum {
    TVALUE_RANGE = TVALUE_TUPLE + 1, /* struct trange */
    TVALUE_VIEW,                     /* dict; tag: enum view_kind */
    TVALUE_GENERATOR,                /* struct tgenerator */
    TVALUE_NAMESPACE,                /* dict */
    TVALUE_MACRO,                    /* struct tmacro */
    TVALUE_FUNCTION,                 /* tag: enum function_id */
    /* tag: enum method_id; pointer: the struct tvalue it belongs to */
    TVALUE_METHOD,
    TVALUE_LOOP,   /* struct tloop */
    TVALUE_CYCLER, /* struct tcycler */
    TVALUE_JOINER, /* struct tjoiner */
};

enum {
    TVALUE_SAFE = 1,  /* flag of a string: marked by safe or escape */
    TVALUE_GROUP = 2, /* flag of a tuple: made by groupby */
};

enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };
enum function_id {
    FUNCTION_RANGE,
    FUNCTION_DICT,
    FUNCTION_NAMESPACE,
    FUNCTION_RAISE,
    FUNCTION_STRFTIME,
    FUNCTION_JOINER,
    FUNCTION_CYCLER,
    FUNCTION_SELF,  /* the template: no function; its attributes are its blocks */
    FUNCTION_BLOCK, /* pointer: the struct template_block */
    FUNCTION_COUNT
};

/* What an undefined value remembers, for its error: text is the name; tag says of what. */
enum undefined_tag {
    UNDEFINED_NAME = 0,
    UNDEFINED_UNSAFE = 1,
    UNDEFINED_TEXT = 2,
    UNDEFINED_ATTRIBUTE = 16 /* + kind of the object */
};

struct trange {
    int64_t start, stop, step;
    uint32_t count;
};

/* Something to iterate over whose length is known. */
struct seq {
    struct tvalue of;
    uint32_t count;
};

struct tgenerator;
struct iter {
    struct seq seq;
    uint32_t at;
    struct tgenerator *generator; /* instead of seq */
};

enum generator_kind {
    GENERATE_PLAIN,
    GENERATE_REVERSED,
    GENERATE_ITEMS,
    GENERATE_MAP_ATTRIBUTE,
    GENERATE_MAP_FILTER,
    GENERATE_SELECT,
    GENERATE_REJECT,
    GENERATE_SELECT_ATTRIBUTE,
    GENERATE_REJECT_ATTRIBUTE,
    GENERATE_UNIQUE,
    GENERATE_ROWS
};

struct run;
struct args {
    struct tvalue *items;
    uint32_t count;
    struct tdict *keywords; /* NULL: none */
};

/* Makes the list of what batch and slice yield. */
typedef struct tvalue make_rows(struct run *r, struct tvalue of, struct tvalue count,
                                struct tvalue fill);

struct tgenerator {
    enum generator_kind kind;
    bool opened, done;
    struct tvalue source;
    struct iter iter;
    struct tvalue attribute, fallback;
    int function; /* filter or test; -1: truth */
    struct args args;
    bool case_sensitive;
    struct tvalue seen; /* of UNIQUE: a dict */
    make_rows *make;    /* of ROWS, whose arguments are attribute and fallback */
};

struct binding {
    uint32_t name;
    struct tvalue value;
};

struct tmacro {
    const struct macro_def *def;
    struct binding *closure; /* what was visible where it was made */
    uint32_t closure_count;
};

struct tloop {
    struct seq seq;
    uint32_t idx, depth;
    struct tvalue changed;   /* last arguments of loop.changed; a tuple or undefined */
    const struct node *node; /* of a recursive loop */
};

struct tcycler {
    struct tlist *items;
    uint32_t at;
};
struct tjoiner {
    struct tvalue separator;
    bool used;
};

enum { RUN_DEPTH_MAX = 1500, RUN_CALLS_MAX = 64 };

struct run {
    const struct template *t;
    struct arena arena;
    struct buf *out;
    struct buf scratch; /* of a filter at work that calls no other */
    size_t out_start, out_max;
    uint64_t fuel;
    int64_t now_s;
    struct error *err;
    int rc;
    unsigned depth, calls, loop_depth;
    struct tvalue *root; /* by name */
    /* what the context has for the names the template's scope hides, in their order */
    struct tvalue *behind;
    VEC(struct binding) bindings;
    /* of the bindings: first of this macro call, first of this scope */
    size_t frame_base, scope_base;
    bool at_root;    /* assignments go to root */
    bool autoescape; /* inside {% autoescape true %} */
    enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;
};

/* ---- errors, memory, fuel ---- */

/* returns undefined */
struct tvalue run_fail(struct run *r, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Fails as jinja2 does when an undefined value is used. */
struct tvalue run_fail_undefined(struct run *r, struct tvalue undefined);
void *run_alloc(struct run *r, size_t size);                /* NULL after failing */
bool run_out_of_fuel(struct run *r);                        /* fails; false */
static inline bool run_burn(struct run *r, uint64_t fuel) { /* false: out of fuel (failed) */
    if (r->fuel < fuel)
        return run_out_of_fuel(r);
    r->fuel -= fuel;
    return true;
}
/* For what reads a string and makes nothing of it. */
static inline bool run_burn_read(struct run *r, struct tvalue v) {
    return run_burn(r, v.kind == TVALUE_STRING ? v.len / 64 : 0);
}
struct tvalue run_string(struct run *r, const void *data, size_t len); /* copies */
struct tvalue run_take_buf(struct run *r, struct buf *b);              /* copies and releases */
struct tvalue run_list(struct run *r, unsigned kind);                  /* LIST or TUPLE */
/* Appends to a list; out of memory fails the run. */
void run_push(struct run *r, struct tvalue list, struct tvalue item);
/* Sets a dict's key; a key of a kind that cannot be one fails the run, as Python does. */
void run_set(struct run *r, struct tvalue dict, struct tvalue key, struct tvalue value);
/* An undefined value without a name. */
static inline struct tvalue undefined_value(void) {
    return (struct tvalue){0};
}

/* Of a variable that there is not. */
static inline struct tvalue run_undefined_name(struct bytes name) {
    return (struct tvalue){
        .tag = UNDEFINED_NAME, .len = (uint32_t)name.len, .text = (const char *)name.data};
}

/* ---- statements and expressions ---- */

/* The value of an expression; undefined after a failure. */
struct tvalue run_eval(struct run *r, const struct node *n);
/* op_truth(run_eval(r, n)), cheaper */
bool run_truth(struct run *r, const struct node *n);
/* appends str(run_eval(r, n)) to the output */
void run_print(struct run *r, const struct node *n, bool escape);
/* Runs statements up to a break, continue or failure. */
void run_body(struct run *r, const struct node *body);
/* Calls a macro, function, method or block; fails for what cannot be called. */
struct tvalue run_call(struct run *r, struct tvalue callee, struct args args);
/* The macro's output as a string. */
struct tvalue run_call_macro(struct run *r, const struct tmacro *macro, struct args args);
/* loop(...) of a recursive loop: its body over other items, as a string. */
struct tvalue run_loop_again(struct run *r, const struct tloop *loop, struct args args);
/* At a scope's start: what it hides of the context is undefined. */
void run_hide_names(struct run *r, const struct template_scope *scope);
/* What was put out since `mark`, taken back as a string (marked inside {% autoescape true %}). */
struct tvalue run_take_output(struct run *r, size_t mark);
/* The output of a block as a string. */
struct tvalue run_call_block_of(struct run *r, const struct template_block *block);
/* Evaluates the arguments of a call; false after a failure. */
bool run_eval_args(struct run *r, const struct call_args *from, struct args *out);
/* of.name. hash: tdict_hash(name); method: method_find of it. */
struct tvalue run_get_attribute(struct run *r, struct tvalue of, struct tvalue name, uint64_t hash,
                                unsigned method);
/* of[key]; undefined where there is none. */
struct tvalue run_get_item(struct run *r, struct tvalue of, struct tvalue key);
/* of[start:stop:step]; none stands for what is left out. */
struct tvalue run_slice(struct run *r, struct tvalue of, struct tvalue start, struct tvalue stop,
                        struct tvalue step);

/* ---- Python's operations: arithmetic.c ---- */

/* As Python's bool(v). */
bool op_truth(struct tvalue v);
/* As Python's a == b. */
bool op_equal(struct run *r, struct tvalue a, struct tvalue b);
/* Order as <: -1, 0, 1, or 2 where NaN has none; fails for kinds without one. */
int op_order(struct run *r, struct tvalue a, struct tvalue b);
/* As Python's `item in in`. */
bool op_contains(struct run *r, struct tvalue in, struct tvalue item);
/* a + b. Integers past 64 bits are an error, here and below. */
struct tvalue op_add(struct run *r, struct tvalue a, struct tvalue b);
/* a op b for -, *, /, //, %, **; op: OP or OP2 of its characters. */
struct tvalue op_binary(struct run *r, uint32_t op, struct tvalue a, struct tvalue b);
/* -v, or +v. */
struct tvalue op_negate(struct run *r, struct tvalue v, bool minus);
bool op_length(struct tvalue v, uint32_t *count); /* false: has none */
bool op_is_number(struct tvalue v);               /* int, float or bool */
/* Of a number; else 0. */
double op_number(struct tvalue v);
/* An int that fits, or a bool, into *out; false for others. */
bool op_is_int(struct tvalue v, int64_t *out);
/* Opens v for iteration; fails (false) for what cannot be. */
bool iter_open(struct run *r, struct tvalue v, struct iter *it);
/* The next item; false at the end or after a failure. */
bool iter_next(struct run *r, struct iter *it, struct tvalue *out);
/* A sequence with a length; what has none is collected first. */
bool seq_open(struct run *r, struct tvalue v, struct seq *s);
/* The item at idx < s->count. */
struct tvalue seq_at(struct run *r, const struct seq *s, uint32_t idx);
/* A new list of all items. */
struct tvalue op_to_list(struct run *r, struct tvalue v);
/* of.path, where "a.b.0" steps inside: each step as an item first, then as an attribute. */
struct tvalue run_attribute_path(struct run *r, struct tvalue of, struct tvalue path);
/* A generator over source; *out is its state. */
struct tvalue new_generator(struct run *r, enum generator_kind kind, struct tvalue source,
                            struct tgenerator **out);

/* ---- strings marked as safe: markup.c ---- */

/* Whether v is a string marked as safe. */
static inline bool is_markup(struct tvalue v) {
    return v.kind == TVALUE_STRING && v.flags & TVALUE_SAFE;
}
struct tvalue markup_of(struct tvalue v); /* marked; v itself when it is no string */
/* str(v) with &, <, >, quotes escaped, and marked; what is marked stays as it is. */
struct tvalue markup_escape(struct run *r, struct tvalue v);
/* Appends s with &, <, > and quotes as entities. */
void markup_add_escaped(struct bytes s, struct buf *out);
/* What a method of a marked string gives: its strings are marked. */
struct tvalue markup_of_method(struct run *r, struct tvalue result);

/* ---- text: python.c ---- */

void run_str(struct run *r, struct tvalue v, struct buf *out);  /* str(v) */
void run_repr(struct run *r, struct tvalue v, struct buf *out); /* repr(v) */
/* str(v); v itself when it is a string */
struct tvalue run_to_string(struct run *r, struct tvalue v);
/* The name of v's type in Python. */
const char *python_type(struct tvalue v);
struct json_style {
    int64_t indent;           /* -1: one line */
    struct bytes indent_text; /* instead of so many spaces; empty: none */
    struct bytes item_separator, key_separator;
    bool sort_keys, ascii;
};
/* Appends v as JSON in that style; fails for what JSON does not have. */
void run_to_json(struct run *r, struct tvalue v, const struct json_style *style, unsigned depth,
                 struct buf *out);

/* ---- tables ---- */

uint8_t method_find(struct bytes name); /* 0: no method has this name */
int filter_find(struct bytes name);     /* -1: unknown */
/* -1: no test has this name. */
int test_find(struct bytes name);
/* -1: no global function has this name. */
int function_find(struct bytes name);
/* Whether v's type has the method. */
bool method_exists(struct tvalue of, unsigned method);
/* Whether the method would change its value. */
bool method_is_mutating(struct tvalue of, unsigned method);
/* Calls a method; fails for one that v's type does not have. */
struct tvalue method_call(struct run *r, struct tvalue self, unsigned method, struct args args);
/* Calls the filter of this number (filter_find); fails as the filter does. */
struct tvalue filter_call(struct run *r, int function, struct tvalue input, struct args args);
/* text % args: positional values, or keywords for %(name)s; format.c */
struct tvalue format_percent(struct run *r, struct tvalue text, struct args args);
/* `input is test`. */
bool test_call(struct run *r, int function, struct tvalue input, struct args args);
/* Calls a global function. */
struct tvalue function_call(struct run *r, int function, struct args args);

/* Arguments by name. `names` is "old new count"; those before `required` must be given. Absent ones
 * are undefined and not given. */
enum { PARAMS_MAX = 6 };
struct params {
    struct tvalue v[PARAMS_MAX];
    bool given[PARAMS_MAX];
};
/* Binds args; fails (false) for unknown, repeated or missing ones. what: for the error. */
bool params_bind(struct run *r, const char *what, const char *names, unsigned required,
                 struct args args, struct params *out);

#endif
