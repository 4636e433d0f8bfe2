/*
 * call.c - arguments, macros, and the functions every template may call.
 */
#include <time.h>

#include "text/template/run.h"

/* ---- arguments ---- */

static void spread_star(struct run *r, struct tvalue star, struct tvalue list) {
    struct iter it;
    struct tvalue item;
    if (!iter_open(r, star, &it))
        return;
    while (iter_next(r, &it, &item))
        run_push(r, list, item);
}

static void spread_double_star(struct run *r, struct tvalue from, struct tvalue dict) {
    if (from.kind != TVALUE_DICT && !r->rc)
        run_fail(r, ERR_INVALID, "argument after ** must be a mapping, not %s", python_type(from));
    for (uint32_t i = 0; !r->rc && i < from.dict->count; i++) {
        struct tvalue key = from.dict->entries[i].key;
        if (key.kind != TVALUE_STRING)
            run_fail(r, ERR_INVALID, "keywords must be strings");
        else
            run_set(r, dict, key, from.dict->entries[i].value);
    }
}

bool run_eval_args(struct run *r, const struct call_args *from, struct args *out) {
    *out = (struct args){.count = from->count};
    if (from->count)
        out->items = run_alloc(r, from->count * sizeof *out->items);
    for (uint32_t i = 0; i < from->count && !r->rc; i++)
        out->items[i] = run_eval(r, from->items[i]);
    if (from->star && !r->rc) {
        struct tvalue list = run_list(r, TVALUE_LIST);
        for (uint32_t i = 0; i < out->count && !r->rc; i++)
            run_push(r, list, out->items[i]);
        spread_star(r, run_eval(r, from->star), list);
        if (r->rc)
            return false;
        out->items = list.list->items;
        out->count = list.list->count;
    }
    if ((!from->keyword_count && !from->double_star) || r->rc)
        return !r->rc;
    struct tvalue dict = tvalue_dict(&r->arena);
    if (dict.kind != TVALUE_DICT)
        return run_fail(r, ERR_LIMIT, "the template uses too much memory"), false;
    for (uint32_t i = 0; i < from->keyword_count && !r->rc; i++)
        run_set(r, dict, tvalue_string(from->keywords[i].name),
                run_eval(r, from->keywords[i].value));
    if (from->double_star && !r->rc)
        spread_double_star(r, run_eval(r, from->double_star), dict);
    out->keywords = dict.dict;
    return !r->rc;
}

/* Index of the name in "a b c", or -1; *count: how many names there are. */
static int name_index(const char *names, struct bytes name, unsigned *count) {
    int found = -1;
    *count = 0;
    while (*names) {
        size_t len = strcspn(names, " ");
        if (bytes_equal(name, bytes_of(names, len)))
            found = (int)*count;
        ++*count;
        names += len;
        names += *names == ' ';
    }
    return found;
}

bool params_bind(struct run *r, const char *what, const char *names, unsigned required,
                 struct args args, struct params *out) {
    unsigned total;
    *out = (struct params){0};
    if (!args.count && !args.keywords && !required)
        return true;
    name_index(names, bytes_of(NULL, 0), &total);
    if (args.count > total)
        return run_fail(r, ERR_INVALID, "%s() takes at most %u arguments (%u given)", what, total,
                        args.count),
               false;
    for (uint32_t i = 0; i < args.count; i++) {
        out->v[i] = args.items[i];
        out->given[i] = true;
    }
    for (uint32_t i = 0; args.keywords && i < args.keywords->count; i++) {
        struct bytes name = tvalue_text(args.keywords->entries[i].key);
        int at = name_index(names, name, &total);
        if (at < 0 || out->given[at])
            return run_fail(r, ERR_INVALID, "%s() got an unexpected argument '%.*s'", what,
                            (int)MIN(name.len, (size_t)64), (const char *)name.data),
                   false;
        out->v[at] = args.keywords->entries[i].value;
        out->given[at] = true;
    }
    for (unsigned i = 0; i < required; i++)
        if (!out->given[i])
            return run_fail(r, ERR_INVALID, "%s() misses an argument", what), false;
    return true;
}

/* ---- macros ---- */

static void bind(struct run *r, uint32_t name, struct tvalue value) {
    vec_push(&r->bindings, ((struct binding){name, value}));
}

static const struct tvalue *keyword(const struct args *args, struct bytes name) {
    return args->keywords ? tdict_find(args->keywords, tvalue_string(name)) : NULL;
}

static void bind_rest(struct run *r, const struct macro_def *def, struct args args,
                      uint32_t used_keywords) {
    struct tvalue caller = undefined_value();
    const struct tvalue *given = keyword(&args, bytes_str("caller"));
    if (given && def->caller_name != UINT32_MAX) {
        caller = *given;
        used_keywords++;
    }
    if (def->caller_name != UINT32_MAX)
        bind(r, def->caller_name, caller);
    if (def->kwargs_name != UINT32_MAX) {
        struct tvalue rest = tvalue_dict(&r->arena);
        for (uint32_t i = 0; args.keywords && i < args.keywords->count; i++) {
            struct tdict_entry *e = &args.keywords->entries[i];
            bool known = bytes_equal(tvalue_text(e->key), bytes_str("caller")) &&
                         def->caller_name != UINT32_MAX;
            for (uint32_t k = 0; k < def->param_count; k++)
                known |= bytes_equal(tvalue_text(e->key), r->t->names.items[def->params[k]]);
            if (!known)
                run_set(r, rest, e->key, e->value);
        }
        bind(r, def->kwargs_name, rest);
    } else if (args.keywords && args.keywords->count > used_keywords) {
        run_fail(r, ERR_INVALID, "macro '%.*s' got an unexpected keyword argument",
                 (int)MIN(def->name.len, (size_t)64), (const char *)def->name.data);
    }
    if (def->varargs_name != UINT32_MAX) {
        struct tvalue rest = run_list(r, TVALUE_TUPLE);
        for (uint32_t i = def->param_count; i < args.count && !r->rc; i++)
            run_push(r, rest, args.items[i]);
        bind(r, def->varargs_name, rest);
    } else if (args.count > def->param_count) {
        run_fail(r, ERR_INVALID, "macro '%.*s' takes not more than %u argument(s)",
                 (int)MIN(def->name.len, (size_t)64), (const char *)def->name.data,
                 def->param_count);
    }
}

static void bind_params(struct run *r, const struct macro_def *def, struct args args) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < def->param_count && !r->rc; i++) {
        struct bytes name = r->t->names.items[def->params[i]];
        const struct tvalue *named = keyword(&args, name);
        struct tvalue value = run_undefined_name(name);
        if (i < args.count) {
            value = args.items[i];
            if (named)
                run_fail(r, ERR_INVALID, "macro got multiple values for an argument");
        } else if (named) {
            value = *named;
            used++;
        } else if (def->defaults && def->defaults[i]) {
            value = run_eval(r, def->defaults[i]);
        }
        bind(r, def->params[i], value);
    }
    if (!r->rc)
        bind_rest(r, def, args, used);
}

struct tvalue run_call_macro(struct run *r, const struct tmacro *macro, struct args args) {
    if (r->rc)
        return undefined_value();
    if (++r->calls > RUN_CALLS_MAX)
        run_fail(r, ERR_LIMIT, "calls nested deeper than %d", RUN_CALLS_MAX);
    size_t count = r->bindings.count, frame = r->frame_base, scope = r->scope_base,
           mark = r->out->len;
    unsigned loop_depth = r->loop_depth;
    bool at_root = r->at_root;
    r->frame_base = count;
    for (uint32_t i = 0; i < macro->closure_count; i++)
        bind(r, macro->closure[i].name, macro->closure[i].value);
    r->scope_base = r->bindings.count;
    r->at_root = false;
    r->loop_depth = 0;
    bind_params(r, macro->def, args);
    run_hide_names(r, macro->def->scope);
    run_body(r, macro->def->body);
    r->flow = FLOW_ON;
    struct tvalue text = run_take_output(r, mark);
    r->bindings.count = count;
    r->frame_base = frame;
    r->scope_base = scope;
    r->at_root = at_root;
    r->loop_depth = loop_depth;
    r->calls--;
    return text;
}

struct tvalue run_call(struct run *r, struct tvalue callee, struct args args) {
    if (r->rc)
        return undefined_value();
    switch (callee.kind) {
    case TVALUE_MACRO: return run_call_macro(r, callee.pointer, args);
    case TVALUE_FUNCTION:
        return callee.tag == FUNCTION_BLOCK ? run_call_block_of(r, callee.pointer)
                                            : function_call(r, callee.tag, args);
    case TVALUE_METHOD:
        return method_call(r, *(const struct tvalue *)callee.pointer, callee.tag, args);
    case TVALUE_LOOP: return run_loop_again(r, callee.pointer, args);
    case TVALUE_UNDEFINED: return run_fail_undefined(r, callee);
    case TVALUE_JOINER: {
        struct tjoiner *j = (struct tjoiner *)(uintptr_t)callee.pointer;
        bool first = !j->used;
        j->used = true;
        return first ? tvalue_string(bytes_of(NULL, 0)) : j->separator;
    }
    default: return run_fail(r, ERR_INVALID, "'%s' object is not callable", python_type(callee));
    }
}

/* ---- functions ---- */

static struct tvalue call_range(struct run *r, struct args args) {
    struct params p;
    int64_t v[3] = {0, 0, 1};
    if (!params_bind(r, "range", "a b c", 1, args, &p))
        return undefined_value();
    for (int i = 0; i < 3; i++) {
        if (!p.given[i] || op_is_int(p.v[i], &v[i]))
            continue;
        if (p.v[i].kind == TVALUE_UNDEFINED)
            return run_fail_undefined(r, p.v[i]);
        return run_fail(r, ERR_INVALID, "'%s' object cannot be interpreted as an integer",
                        python_type(p.v[i]));
    }
    int64_t start = p.given[1] ? v[0] : 0, stop = p.given[1] ? v[1] : v[0], step = v[2];
    if (!step)
        return run_fail(r, ERR_INVALID, "range() arg 3 must not be zero");
    uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step, count = 0;
    if (step > 0 ? stop > start : stop < start)
        count = (span - 1) / stride + 1;
    if (count > 100000)
        return run_fail(r, ERR_INVALID,
                        "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    struct trange *range = run_alloc(r, sizeof *range);
    if (!range)
        return undefined_value();
    *range = (struct trange){start, stop, step, (uint32_t)count};
    return (struct tvalue){.kind = TVALUE_RANGE, .pointer = range};
}

static struct tvalue call_dict(struct run *r, struct args args, unsigned kind) {
    struct tvalue dict = tvalue_dict(&r->arena), item;
    struct iter it;
    if (dict.kind != TVALUE_DICT)
        return run_fail(r, ERR_LIMIT, "the template uses too much memory");
    if (args.count > 1)
        return run_fail(r, ERR_INVALID, "dict expected at most 1 argument, got %u", args.count);
    if (args.count &&
        (args.items[0].kind == TVALUE_DICT || args.items[0].kind == TVALUE_NAMESPACE)) {
        const struct tdict *from = args.items[0].dict;
        for (uint32_t i = 0; i < from->count && !r->rc; i++)
            run_set(r, dict, from->entries[i].key, from->entries[i].value);
    } else if (args.count && iter_open(r, args.items[0], &it)) {
        while (iter_next(r, &it, &item)) {
            bool is_pair =
                (item.kind == TVALUE_LIST || item.kind == TVALUE_TUPLE) && item.list->count == 2;
            if (!is_pair)
                return run_fail(r, ERR_INVALID,
                                "cannot convert dictionary update sequence element to a sequence");
            run_set(r, dict, item.list->items[0], item.list->items[1]);
        }
    }
    for (uint32_t i = 0; args.keywords && i < args.keywords->count && !r->rc; i++)
        run_set(r, dict, args.keywords->entries[i].key, args.keywords->entries[i].value);
    dict.kind = (uint8_t)kind;
    return dict;
}

static struct tvalue call_raise(struct run *r, struct args args) {
    struct params p;
    if (!params_bind(r, "raise_exception", "message", 1, args, &p))
        return undefined_value();
    struct tvalue text = run_to_string(r, p.v[0]);
    return run_fail(r, ERR_INVALID, "%.*s", (int)MIN(text.len, (uint32_t)ERROR_TEXT_MAX),
                    text.kind == TVALUE_STRING ? text.text : "");
}

static struct tvalue call_strftime(struct run *r, struct args args) {
    struct params p;
    char format[256], text[1024];
    if (!params_bind(r, "strftime_now", "format", 1, args, &p))
        return undefined_value();
    if (p.v[0].kind != TVALUE_STRING)
        return run_fail(r, ERR_INVALID, "strftime() argument 1 must be str, not %s",
                        python_type(p.v[0]));
    if (p.v[0].len + 2 > sizeof format)
        return run_fail(r, ERR_LIMIT, "a time format is too long");
    memcpy(format, p.v[0].text, p.v[0].len);
    /* so that an empty result is not mistaken for one that does not fit */
    memcpy(format + p.v[0].len, ".", 2);
    time_t now = (time_t)r->now_s;
    struct tm tm;
    if (!gmtime_r(&now, &tm))
        return run_fail(r, ERR_INVALID, "the time is out of range");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored                                                                     \
    "-Wformat-nonliteral" /* the template's own format: bounded by the buffer, and %n is no time format */
    size_t len = strftime(text, sizeof text, format, &tm);
#pragma GCC diagnostic pop
    if (!len)
        return run_fail(r, ERR_LIMIT, "a formatted time is too long");
    return run_string(r, text, len - 1);
}

static struct tvalue call_joiner(struct run *r, struct args args) {
    struct params p;
    struct tjoiner *j = run_alloc(r, sizeof *j);
    if (!params_bind(r, "joiner", "sep", 0, args, &p) || !j)
        return undefined_value();
    j->separator = p.given[0] ? p.v[0] : tvalue_string(bytes_str(", "));
    return (struct tvalue){.kind = TVALUE_JOINER, .pointer = j};
}

static struct tvalue call_cycler(struct run *r, struct args args) {
    struct tcycler *c = run_alloc(r, sizeof *c);
    struct tvalue items = run_list(r, TVALUE_LIST);
    if (!args.count)
        return run_fail(r, ERR_INVALID, "at least one item has to be provided");
    for (uint32_t i = 0; i < args.count && !r->rc; i++)
        run_push(r, items, args.items[i]);
    if (r->rc)
        return undefined_value();
    c->items = items.list;
    return (struct tvalue){.kind = TVALUE_CYCLER, .pointer = c};
}

int function_find(struct bytes name) {
    static const char *const NAMES[FUNCTION_COUNT] = {
        "range",  "dict", "namespace", "raise_exception", "strftime_now", "joiner",
        "cycler", "self", NULL}; /* a block has no name of its own */
    for (int i = 0; i < FUNCTION_COUNT; i++)
        if (NAMES[i] && bytes_equal(name, bytes_str(NAMES[i])))
            return i;
    return -1;
}

struct tvalue function_call(struct run *r, int function, struct args args) {
    switch ((enum function_id)function) {
    case FUNCTION_RANGE: return call_range(r, args);
    case FUNCTION_DICT: return call_dict(r, args, TVALUE_DICT);
    case FUNCTION_NAMESPACE: return call_dict(r, args, TVALUE_NAMESPACE);
    case FUNCTION_RAISE: return call_raise(r, args);
    case FUNCTION_STRFTIME: return call_strftime(r, args);
    case FUNCTION_JOINER: return call_joiner(r, args);
    case FUNCTION_CYCLER: return call_cycler(r, args);
    case FUNCTION_SELF:
    case FUNCTION_BLOCK:
    case FUNCTION_COUNT: break;
    }
    return run_fail(r, ERR_INVALID, "'TemplateReference' object is not callable");
}
