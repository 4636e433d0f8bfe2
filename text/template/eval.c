/*
 * eval.c - expressions.
 */
#include "text/template/python.h"
#include "text/template/run.h"

/* ---- names, attributes, items ---- */

static struct tvalue look_up(struct run *r, uint32_t name) {
    for (size_t i = r->bindings.count; i-- > r->frame_base;)
        if (r->bindings.items[i].name == name)
            return r->bindings.items[i].value;
    return r->root[name];
}

static struct tvalue eval_deeper(struct run *r, const struct node *n);
static struct tvalue eval_attribute(struct run *r, const struct node *n);

/* run_eval, with what has no operands and a variable's member done at once. */
static inline struct tvalue eval_operand(struct run *r, const struct node *n) {
    if (r->rc || !run_burn(r, 1))
        return undefined_value();
    if (n->kind == N_CONST)
        return n->value;
    if (n->kind == N_NAME)
        return look_up(r, n->name);
    return n->member ? eval_attribute(r, n) : eval_deeper(r, n);
}

struct tvalue run_eval(struct run *r, const struct node *n) {
    return eval_operand(r, n);
}

static struct tvalue undefined_attribute(struct tvalue of, struct tvalue name) {
    uint16_t tag = (uint16_t)(UNDEFINED_ATTRIBUTE + of.kind);
    return (struct tvalue){
        .kind = TVALUE_UNDEFINED, .tag = tag, .len = name.len, .text = name.text};
}

static struct tvalue method_value(struct run *r, struct tvalue of, struct tvalue name,
                                  unsigned method) {
    if (method_is_mutating(of, method)) {
        struct tvalue u = undefined_attribute(of, name);
        struct tvalue text = run_string(r, NULL, 0);
        struct buf b = {0};
        buf_addf(&b, "access to attribute '%.*s' of '%s' object is unsafe.",
                 (int)MIN(name.len, 64u), name.text, python_type(of));
        text = run_take_buf(r, &b);
        u.tag = UNDEFINED_UNSAFE;
        u.text = text.text;
        u.len = text.len;
        return u;
    }
    struct tvalue *self = run_alloc(r, sizeof *self);
    if (!self)
        return undefined_value();
    *self = of;
    return (struct tvalue){.kind = TVALUE_METHOD, .tag = (uint16_t)method, .pointer = self};
}

static bool loop_attribute(struct run *r, const struct tloop *loop, struct bytes name,
                           struct tvalue *out);

/* What getattr(of, name) finds; false: nothing. */
static bool macro_attribute(struct run *r, const struct tmacro *macro, struct bytes name,
                            struct tvalue *out) {
    const struct macro_def *def = macro->def;
    if (bytes_equal(name, bytes_str("name"))) {
        *out = tvalue_string(def->name);
    } else if (bytes_equal(name, bytes_str("arguments"))) {
        *out = run_list(r, TVALUE_TUPLE);
        for (uint32_t i = 0; i < def->param_count && !r->rc; i++)
            run_push(r, *out, tvalue_string(r->t->names.items[def->params[i]]));
    } else if (bytes_equal(name, bytes_str("catch_kwargs"))) {
        *out = tvalue_bool(def->kwargs_name != UINT32_MAX);
    } else if (bytes_equal(name, bytes_str("catch_varargs"))) {
        *out = tvalue_bool(def->varargs_name != UINT32_MAX);
    } else if (bytes_equal(name, bytes_str("caller"))) {
        *out = tvalue_bool(def->caller_name != UINT32_MAX);
    } else {
        return false;
    }
    return true;
}

static bool is_named(struct tvalue name, const char *want) {
    return bytes_equal(tvalue_text(name), bytes_str(want));
}

static bool range_attribute(const struct trange *range, struct tvalue name, struct tvalue *out) {
    if (is_named(name, "start"))
        *out = tvalue_int(range->start);
    else if (is_named(name, "stop"))
        *out = tvalue_int(range->stop);
    else if (is_named(name, "step"))
        *out = tvalue_int(range->step);
    else
        return false;
    return true;
}

static bool number_attribute(struct tvalue number, struct tvalue name, struct tvalue *out) {
    int64_t i = 0;
    bool whole = op_is_int(number, &i);
    if (is_named(name, "real") || (whole && is_named(name, "numerator")))
        *out = whole ? tvalue_int(i) : number;
    else if (is_named(name, "imag"))
        *out = whole ? tvalue_int(0) : tvalue_float(0);
    else if (whole && is_named(name, "denominator"))
        *out = tvalue_int(1);
    else
        return false;
    return true;
}

static bool real_attribute(struct run *r, struct tvalue of, struct tvalue name, uint64_t hash,
                           unsigned method, struct tvalue *out) {
    if (of.kind == TVALUE_NAMESPACE) {
        const struct tvalue *found = tdict_find_hashed(of.dict, name, hash);
        if (found)
            *out = *found;
        return found;
    }
    if (of.kind == TVALUE_LOOP && loop_attribute(r, of.pointer, tvalue_text(name), out))
        return true;
    if (of.kind == TVALUE_MACRO && macro_attribute(r, of.pointer, tvalue_text(name), out))
        return true;
    if (of.kind == TVALUE_RANGE && range_attribute(of.pointer, name, out))
        return true;
    if (op_is_number(of) && number_attribute(of, name, out))
        return true;
    if (of.kind == TVALUE_CYCLER && is_named(name, "current")) {
        const struct tcycler *c = of.pointer;
        *out = c->items->items[c->at % c->items->count];
        return true;
    }
    if (of.kind == TVALUE_FUNCTION && of.tag == FUNCTION_SELF) {
        const struct template_block *block = template_find_block(r->t, tvalue_text(name));
        *out = (struct tvalue){.kind = TVALUE_FUNCTION, .tag = FUNCTION_BLOCK, .pointer = block};
        return block;
    }
    if (!method || !method_exists(of, method))
        return false;
    *out = method_value(r, of, name, method);
    return true;
}

/* jinja2's environment.getattr: an attribute of the object, else an item. */
struct tvalue run_get_attribute(struct run *r, struct tvalue of, struct tvalue name, uint64_t hash,
                                unsigned method) {
    struct tvalue out;
    if (r->rc)
        return undefined_value();
    if (of.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, of);
    if (real_attribute(r, of, name, hash, method, &out))
        return out;
    if (of.kind == TVALUE_DICT) {
        const struct tvalue *found = tdict_find_text(of.dict, name, hash);
        if (found)
            return *found;
    }
    if (of.kind == TVALUE_TUPLE && of.flags & TVALUE_GROUP) {
        if (bytes_equal(tvalue_text(name), bytes_str("grouper")))
            return of.list->items[0];
        if (bytes_equal(tvalue_text(name), bytes_str("list")))
            return of.list->items[1];
    }
    return undefined_attribute(of, name);
}

static struct tvalue character_at(struct run *r, struct tvalue of, int64_t idx, uint32_t count) {
    (void)r;
    struct bytes s = tvalue_text(of);
    uint32_t cp;
    size_t at = count == of.len ? (size_t)idx : python_offset(s, (size_t)idx);
    return tvalue_string(bytes_of(s.data + at, unicode_next(s.data + at, &cp)));
}

/* What is not among a dict's items: an item by number, else an attribute. */
static struct tvalue item_or_attribute(struct run *r, struct tvalue of, struct tvalue key,
                                       uint64_t hash, unsigned method) {
    int64_t idx;
    uint32_t count;
    struct tvalue out;
    if (r->rc || !run_burn_read(r, of))
        return undefined_value();
    if (of.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, of);
    if (of.kind != TVALUE_DICT && op_is_int(key, &idx) && of.kind != TVALUE_VIEW &&
        of.kind != TVALUE_LOOP && op_length(of, &count)) {
        if (idx < 0)
            idx += count;
        if (idx < 0 || idx >= count)
            return undefined_attribute(of, tvalue_string(bytes_str("item")));
        if (of.kind == TVALUE_STRING)
            return is_markup(of) ? markup_of(character_at(r, of, idx, count))
                                 : character_at(r, of, idx, count);
        struct seq s = {of, count};
        return seq_at(r, &s, (uint32_t)idx);
    }
    if (key.kind == TVALUE_STRING && real_attribute(r, of, key, hash, method, &out))
        return out;
    return undefined_attribute(of,
                               key.kind == TVALUE_STRING ? key : tvalue_string(bytes_str("item")));
}

/* jinja2's environment.getitem: an item of the object, else an attribute. */
struct tvalue run_get_item(struct run *r, struct tvalue of, struct tvalue key) {
    if (!run_burn_read(r, key))
        return undefined_value();
    const struct tvalue *found = of.kind == TVALUE_DICT ? tdict_find(of.dict, key) : NULL;
    if (found)
        return *found;
    if (key.kind != TVALUE_STRING)
        return item_or_attribute(r, of, key, 0, 0);
    return item_or_attribute(r, of, key, tdict_hash(key), method_find(tvalue_text(key)));
}

/* The same for a key that stands in the template, whose hash is known. */
static struct tvalue get_constant_item(struct run *r, struct tvalue of, const struct node *key) {
    const struct tvalue *found = NULL;
    if (of.kind == TVALUE_DICT)
        found = key->value.kind == TVALUE_STRING
                    ? tdict_find_text(of.dict, key->value, key->hash)
                    : tdict_find_hashed(of.dict, key->value, key->hash);
    return found ? *found : item_or_attribute(r, of, key->value, key->hash, key->method);
}

/* name.member and name['member'], which are most of what templates read. */
static struct tvalue eval_attribute(struct run *r, const struct node *n) {
    if (!run_burn(r, 1))
        return undefined_value();
    struct tvalue of = look_up(r, n->a->name);
    const struct node *key = n->kind == N_ATTR ? n : n->b;
    const struct tvalue *found =
        of.kind == TVALUE_DICT ? tdict_find_text(of.dict, key->value, key->hash) : NULL;
    if (found)
        return *found;
    return n->kind == N_ATTR ? run_get_attribute(r, of, n->value, n->hash, n->method)
                             : get_constant_item(r, of, key);
}

/* ---- slices ---- */

/* One bound of a slice, clipped as Python does; false after failing. */
static bool slice_bound(struct run *r, struct tvalue v, int64_t count, int64_t fallback,
                        bool backwards, int64_t *out) {
    *out = fallback;
    if (v.kind == TVALUE_NONE)
        return true;
    if (v.kind == TVALUE_BIG_INT) {
        *out = v.text[0] == '-' ? INT64_MIN : INT64_MAX;
    } else if (!op_is_int(v, out)) {
        if (v.kind == TVALUE_UNDEFINED)
            return run_fail_undefined(r, v), false;
        return run_fail(r, ERR_INVALID,
                        "slice indices must be integers or None or have an __index__ method"),
               false;
    }
    if (*out < 0)
        *out = *out < -count ? -1 : *out + count;
    if (*out < 0)
        *out = backwards ? -1 : 0;
    if (*out >= count)
        *out = backwards ? count - 1 : count;
    return true;
}

static struct tvalue slice_string(struct run *r, struct tvalue of, int64_t start, int64_t stop,
                                  int64_t step, int64_t count) {
    struct bytes s = tvalue_text(of);
    if (step == 1) {
        if (stop <= start)
            return tvalue_string(bytes_of(NULL, 0));
        bool ascii = count == (int64_t)s.len;
        size_t from = ascii ? (size_t)start : python_offset(s, (size_t)start);
        size_t len =
            ascii ? (size_t)(stop - start)
                  : python_offset(bytes_of(s.data + from, s.len - from), (size_t)(stop - start));
        return tvalue_string(bytes_of(s.data + from, len));
    }
    struct seq chars;
    struct buf out = {0};
    if (!seq_open(r, of, &chars))
        return undefined_value();
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
        buf_add_bytes(&out, tvalue_text(seq_at(r, &chars, (uint32_t)i)));
    return run_take_buf(r, &out);
}

static struct tvalue slice_range(struct run *r, const struct trange *of, int64_t from, int64_t to,
                                 int64_t by) {
    struct trange *range = run_alloc(r, sizeof *range);
    if (!range)
        return undefined_value();
    bool empty = by > 0 ? from >= to : from <= to;
    uint64_t steps = by > 0 ? (uint64_t)(to - from - 1) / (uint64_t)by
                            : (uint64_t)(from - to - 1) / (uint64_t)-by;
    *range = (struct trange){.start = of->start + from * of->step,
                             .stop = of->start + to * of->step,
                             .step = of->step * by,
                             .count = empty ? 0 : (uint32_t)steps + 1};
    return (struct tvalue){.kind = TVALUE_RANGE, .pointer = range};
}

struct tvalue run_slice(struct run *r, struct tvalue of, struct tvalue start, struct tvalue stop,
                        struct tvalue step) {
    uint32_t length;
    int64_t from, to, by = 1;
    if (r->rc)
        return undefined_value();
    if (of.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, of);
    bool sliceable = of.kind == TVALUE_STRING || of.kind == TVALUE_LIST ||
                     of.kind == TVALUE_TUPLE || of.kind == TVALUE_RANGE;
    if (!sliceable || !op_length(of, &length))
        return run_fail(r, ERR_INVALID, "'%s' object is not subscriptable", python_type(of));
    if (step.kind != TVALUE_NONE && !op_is_int(step, &by))
        return run_fail(r, ERR_INVALID, "slice indices must be integers or None");
    if (!by)
        return run_fail(r, ERR_INVALID, "slice step cannot be zero");
    if (by < -(int64_t)UINT32_MAX)
        by = -(int64_t)UINT32_MAX;
    if (by > UINT32_MAX)
        by = UINT32_MAX;
    bool back = by < 0;
    if (!slice_bound(r, start, length, back ? (int64_t)length - 1 : 0, back, &from) ||
        !slice_bound(r, stop, length, back ? -1 : (int64_t)length, back, &to))
        return undefined_value();
    run_burn(r, length / 16 + 1);
    if (of.kind == TVALUE_STRING) {
        struct tvalue operand = slice_string(r, of, from, to, by, length);
        return is_markup(of) ? markup_of(operand) : operand;
    }
    if (of.kind == TVALUE_RANGE)
        return slice_range(r, of.pointer, from, to, by);
    struct seq s = {of, length};
    struct tvalue list = run_list(r, of.kind == TVALUE_TUPLE ? TVALUE_TUPLE : TVALUE_LIST);
    for (int64_t i = from; (back ? i > to : i < to) && run_burn(r, 1); i += by)
        run_push(r, list, seq_at(r, &s, (uint32_t)i));
    return list;
}

static struct tvalue eval_slice(struct run *r, const struct node *n) {
    struct tvalue of = run_eval(r, n->a), operands[3];
    for (int i = 0; i < 3; i++)
        operands[i] = n->items[i] ? run_eval(r, n->items[i]) : tvalue_none();
    return run_slice(r, of, operands[0], operands[1], operands[2]);
}

/* ---- loop ---- */

static bool loop_attribute(struct run *r, const struct tloop *loop, struct bytes name,
                           struct tvalue *out) {
    uint32_t i = loop->idx, count = loop->seq.count;
    struct tvalue missing = {.kind = TVALUE_UNDEFINED, .tag = UNDEFINED_TEXT};
    if (bytes_equal(name, bytes_str("index")))
        *out = tvalue_int((int64_t)i + 1);
    else if (bytes_equal(name, bytes_str("index0")))
        *out = tvalue_int(i);
    else if (bytes_equal(name, bytes_str("first")))
        *out = tvalue_bool(i == 0);
    else if (bytes_equal(name, bytes_str("last")))
        *out = tvalue_bool(i + 1 == count);
    else if (bytes_equal(name, bytes_str("length")))
        *out = tvalue_int(count);
    else if (bytes_equal(name, bytes_str("revindex")))
        *out = tvalue_int((int64_t)count - i);
    else if (bytes_equal(name, bytes_str("revindex0")))
        *out = tvalue_int((int64_t)count - i - 1);
    else if (bytes_equal(name, bytes_str("previtem")))
        *out = i ? seq_at(r, &loop->seq, i - 1) : missing;
    else if (bytes_equal(name, bytes_str("nextitem")))
        *out = i + 1 < count ? seq_at(r, &loop->seq, i + 1) : missing;
    else if (bytes_equal(name, bytes_str("depth")))
        *out = tvalue_int((int64_t)loop->depth + 1);
    else if (bytes_equal(name, bytes_str("depth0")))
        *out = tvalue_int(loop->depth);
    else
        return false;
    return true;
}

/* ---- making ---- */

static struct tvalue eval_list(struct run *r, const struct node *n) {
    struct tvalue list = run_list(r, n->kind == N_LIST ? TVALUE_LIST : TVALUE_TUPLE);
    for (uint32_t i = 0; i < n->count && !r->rc; i++)
        run_push(r, list, run_eval(r, n->items[i]));
    return list;
}

static struct tvalue eval_dict(struct run *r, const struct node *n) {
    struct tvalue dict = tvalue_dict(&r->arena);
    if (dict.kind != TVALUE_DICT)
        return run_fail(r, ERR_LIMIT, "the template uses too much memory");
    for (uint32_t i = 0; i + 1 < n->count && !r->rc; i += 2) {
        struct tvalue key = run_eval(r, n->items[i]);
        run_set(r, dict, key, run_eval(r, n->items[i + 1]));
    }
    return dict;
}

/* ---- operators ---- */

/* a ~ b inside {% autoescape true %}: where one operand is marked, the others are escaped. */
static struct tvalue join_markup(struct run *r, const struct node *n) {
    struct tvalue joined = tvalue_string(bytes_of(NULL, 0));
    for (uint32_t i = 0; i < n->count && !r->rc; i++) {
        struct tvalue operand = run_to_string(r, run_eval(r, n->items[i]));
        if (!r->rc)
            joined = op_add(r, joined, operand);
    }
    return joined;
}

/* a ~ b: every operand as a string. */
static struct tvalue eval_join(struct run *r, const struct node *n) {
    struct buf out;
    if (n->op == ESCAPE_ON)
        return join_markup(r, n);
    buf_init(&out, r->out_max);
    for (uint32_t i = 0; i < n->count && !r->rc; i++)
        run_str(r, run_eval(r, n->items[i]), &out);
    return run_take_buf(r, &out);
}

enum { SUM_FIXED = 16 };

static struct tvalue sum_on(struct run *r, const struct node *n, struct tvalue sum, uint32_t from) {
    for (uint32_t i = from; i < n->count && !r->rc; i++)
        sum = op_add(r, sum, run_eval(r, n->items[i]));
    return sum;
}

enum sum_kind { SUM_TEXT, SUM_MARKUP, SUM_OTHER };

/* Evaluates the operands of a sum as long as they are strings. SUM_OTHER: not all were, and *sum is
 * the sum. SUM_MARKUP: one is marked, so the others are to be escaped. What stands behind a sum
 * that fails is not evaluated, as in Python. */
static enum sum_kind sum_operands(struct run *r, const struct node *n,
                                  struct tvalue operands[SUM_FIXED], struct tvalue *sum) {
    bool markup = false;
    if (n->count > SUM_FIXED) {
        *sum = sum_on(r, n, run_eval(r, n->items[0]), 1);
        return SUM_OTHER;
    }
    for (uint32_t i = 0; i < n->count; i++) {
        operands[i] = eval_operand(r, n->items[i]);
        markup |= is_markup(operands[i]);
        if (!r->rc && operands[i].kind == TVALUE_STRING)
            continue;
        *sum = operands[0];
        for (uint32_t k = 1; k <= i && !r->rc; k++)
            *sum = op_add(r, *sum, operands[k]);
        *sum = sum_on(r, n, *sum, i + 1);
        return SUM_OTHER;
    }
    return markup ? SUM_MARKUP : SUM_TEXT;
}

/* a + b + c: strings are put together at once. */
__attribute__((noinline)) static struct tvalue eval_sum(struct run *r, const struct node *n) {
    struct tvalue operands[SUM_FIXED], sum;
    size_t total = 0, at = 0;
    enum sum_kind kind = sum_operands(r, n, operands, &sum);
    if (kind == SUM_OTHER)
        return sum;
    for (uint32_t i = 0; i < n->count; i++) {
        if (kind == SUM_MARKUP)
            operands[i] = markup_escape(r, operands[i]);
        total += operands[i].len;
    }
    char *text =
        total < UINT32_MAX && run_burn(r, total / 16) ? run_alloc(r, MAX(total, (size_t)1)) : NULL;
    if (!text)
        return run_fail(r, ERR_LIMIT, "a string is too large");
    for (uint32_t i = 0; i < n->count; i++) {
        if (operands[i].len)
            memcpy(text + at, operands[i].text, operands[i].len);
        at += operands[i].len;
    }
    sum = tvalue_string(bytes_of(text, total));
    return kind == SUM_MARKUP ? markup_of(sum) : sum;
}

static void print(struct run *r, struct tvalue v) {
    if (v.kind == TVALUE_STRING) {
        run_burn(r, v.len / 16);
        buf_add(r->out, v.text, v.len);
    } else if (!r->rc) {
        run_str(r, v, r->out);
    }
}

void run_print(struct run *r, const struct node *n, bool escape) {
    struct tvalue operands[SUM_FIXED], sum;
    enum sum_kind kind =
        n->kind == N_ADD && !escape ? sum_operands(r, n, operands, &sum) : SUM_OTHER;
    if (kind == SUM_OTHER) {
        struct tvalue v = n->kind == N_ADD && !escape ? sum : eval_operand(r, n);
        print(r, escape && !r->rc ? markup_escape(r, v) : v);
        return;
    }
    for (uint32_t i = 0; i < n->count; i++) { /* the sum needs no string of its own */
        if (kind == SUM_MARKUP && !is_markup(operands[i])) {
            run_burn(r, operands[i].len / 16);
            markup_add_escaped(tvalue_text(operands[i]), r->out);
        } else {
            print(r, operands[i]);
        }
    }
}

/* op_equal; roles and types, which templates compare most, at once. */
static bool equal(struct run *r, struct tvalue a, struct tvalue b) {
    if (a.kind != TVALUE_STRING || b.kind != TVALUE_STRING)
        return op_equal(r, a, b);
    return a.len == b.len && same_text(a.text, b.text, a.len) && run_burn(r, a.len / 16);
}

static bool compare(struct run *r, enum compare_op op, struct tvalue a, struct tvalue b) {
    switch (op) {
    case CMP_EQ: return equal(r, a, b);
    case CMP_NE: return !equal(r, a, b);
    case CMP_LT: return op_order(r, a, b) < 0;
    case CMP_LE: return op_order(r, a, b) <= 0;
    case CMP_GT: return op_order(r, a, b) == 1;
    case CMP_GE: return (unsigned)op_order(r, a, b) <= 1;
    case CMP_IN: return op_contains(r, b, a);
    case CMP_NOT_IN: return !op_contains(r, b, a);
    }
    return false;
}

static bool eval_compare(struct run *r, const struct node *n) {
    struct tvalue left = eval_operand(r, n->a);
    if (n->count == 1 && n->ops[0] <= CMP_NE) {
        bool same = equal(r, left, eval_operand(r, n->items[0]));
        return !r->rc && same == (n->ops[0] == CMP_EQ);
    }
    for (uint32_t i = 0; i < n->count && !r->rc; i++) {
        struct tvalue right = eval_operand(r, n->items[i]);
        if (r->rc || !compare(r, n->ops[i], left, right))
            return false;
        left = right;
    }
    return !r->rc;
}

static struct tvalue eval_condition(struct run *r, const struct node *n) {
    if (run_truth(r, n->b))
        return run_eval(r, n->a);
    if (n->c)
        return run_eval(r, n->c);
    struct bytes why =
        bytes_str("the inline if-expression evaluated to false and no else section was defined.");
    return (struct tvalue){.kind = TVALUE_UNDEFINED,
                           .tag = UNDEFINED_TEXT,
                           .text = (const char *)why.data,
                           .len = (uint32_t)why.len};
}

/* ---- calls, filters, tests ---- */

static struct tvalue eval_call(struct run *r, const struct node *n) {
    struct tvalue callee = run_eval(r, n->a);
    struct args args;
    if (r->rc)
        return undefined_value();
    if (!run_eval_args(r, n->args, &args))
        return undefined_value();
    return run_call(r, callee, args);
}

static struct tvalue eval_filter(struct run *r, const struct node *n) {
    if (n->function == FUNCTION_UNKNOWN)
        return run_fail(r, ERR_INVALID, "No filter named '%.*s' found.",
                        (int)MIN(n->value.len, 64u), n->value.text);
    struct tvalue input = n->a ? run_eval(r, n->a) : undefined_value();
    struct args args = {0};
    if (r->rc || (n->args && !run_eval_args(r, n->args, &args)))
        return undefined_value();
    return filter_call(r, n->function, input, args);
}

__attribute__((noinline)) static bool eval_test(struct run *r, const struct node *n) {
    if (n->function == FUNCTION_UNKNOWN) {
        run_fail(r, ERR_INVALID, "No test named '%.*s' found.", (int)MIN(n->value.len, 64u),
                 n->value.text);
        return false;
    }
    struct tvalue input = run_eval(r, n->a);
    struct args args = {0};
    if (r->rc || (n->args && !run_eval_args(r, n->args, &args)))
        return false;
    return test_call(r, n->function, input, args) != (n->op != 0);
}

/* ---- all ---- */

static bool eval_truth(struct run *r, const struct node *n) {
    /* the most frequent: before the jump through a table */
    if (n->kind == N_COMPARE)
        return eval_compare(r, n);
    switch (n->kind) {
    case N_TEST: return eval_test(r, n);
    case N_NOT: return !run_truth(r, n->a);
    case N_AND: return run_truth(r, n->a) && run_truth(r, n->b);
    case N_OR: return run_truth(r, n->a) || run_truth(r, n->b);
    default: return op_truth(run_eval(r, n));
    }
}

bool run_truth(struct run *r, const struct node *n) {
    if (r->rc || !run_burn(r, 1))
        return false;
    if (++r->depth > RUN_DEPTH_MAX)
        run_fail(r, ERR_LIMIT, "nested too deep");
    bool truth = !r->rc && eval_truth(r, n);
    r->depth--;
    return truth;
}

static struct tvalue eval(struct run *r, const struct node *n) {
    struct tvalue left;
    switch (n->kind) {
    case N_LIST:
    case N_TUPLE: return eval_list(r, n);
    case N_DICT: return eval_dict(r, n);
    case N_ATTR: return run_get_attribute(r, eval_operand(r, n->a), n->value, n->hash, n->method);
    case N_ITEM:
        left = eval_operand(r, n->a);
        return n->b->kind == N_CONST ? get_constant_item(r, left, n->b)
                                     : run_get_item(r, left, run_eval(r, n->b));
    case N_SLICE: return eval_slice(r, n);
    case N_CALL: return eval_call(r, n);
    case N_FILTER: return eval_filter(r, n);
    case N_TEST:
    case N_NOT:
    case N_COMPARE: return tvalue_bool(eval_truth(r, n));
    case N_NEGATE: return op_negate(r, run_eval(r, n->a), true);
    case N_PLUS: return op_negate(r, run_eval(r, n->a), false);
    case N_AND: left = run_eval(r, n->a); return op_truth(left) ? run_eval(r, n->b) : left;
    case N_OR: left = run_eval(r, n->a); return op_truth(left) ? left : run_eval(r, n->b);
    case N_JOIN: return eval_join(r, n);
    case N_ADD: return eval_sum(r, n);
    case N_BINARY: left = run_eval(r, n->a); return op_binary(r, n->op, left, run_eval(r, n->b));
    case N_CONDITION: return eval_condition(r, n);
    default: CHECK_MSG(false, "node kind %d is no expression", n->kind);
    }
    return undefined_value();
}

/* What has operands. */
__attribute__((noinline)) static struct tvalue eval_deeper(struct run *r, const struct node *n) {
    if (++r->depth > RUN_DEPTH_MAX)
        run_fail(r, ERR_LIMIT, "nested too deep");
    struct tvalue v = r->rc ? undefined_value() : eval(r, n);
    r->depth--;
    return v;
}
