/*
 * render.c - statements, scopes, and a render from start to end.
 */
#include <stdio.h>

#include "text/template/run.h"

enum { DEFAULT_OUTPUT = 64 << 20, DEFAULT_MEMORY = 256 << 20, BINDINGS_MAX = 1 << 16 };
#define DEFAULT_FUEL ((uint64_t)20 * 1000 * 1000)

/* ---- errors, memory, fuel ---- */

struct tvalue run_fail(struct run *r, int code, const char *fmt, ...) {
    va_list args;
    char text[ERROR_TEXT_MAX];
    if (r->rc)
        return undefined_value();
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->rc = error_set(r->err, code, "%s", text);
    return undefined_value();
}

struct tvalue run_fail_undefined(struct run *r, struct tvalue u) {
    int len = (int)MIN(u.len, 200u);
    const char *text = u.text ? u.text : "";
    if (u.tag == UNDEFINED_UNSAFE || u.tag == UNDEFINED_TEXT)
        return run_fail(r, ERR_INVALID, "%.*s", len, text);
    if (u.tag == UNDEFINED_NAME)
        return run_fail(r, ERR_INVALID, "'%.*s' is undefined", len, text);
    struct tvalue of = {.kind = (uint8_t)(u.tag - UNDEFINED_ATTRIBUTE)};
    return run_fail(r, ERR_INVALID, "'%s object' has no attribute '%.*s'", python_type(of), len,
                    text);
}

void *run_alloc(struct run *r, size_t size) {
    void *memory = r->rc ? NULL : arena_alloc(&r->arena, size);
    if (!memory)
        run_fail(r, ERR_LIMIT, "the template uses too much memory");
    return memory;
}

bool run_out_of_fuel(struct run *r) {
    r->fuel = 0;
    run_fail(r, ERR_LIMIT, "the template runs too long");
    return false;
}

struct tvalue run_string(struct run *r, const void *data, size_t len) {
    run_burn(r, len / 16);
    struct tvalue v =
        r->rc ? undefined_value() : tvalue_string_copy(&r->arena, bytes_of(data, len));
    if (v.kind != TVALUE_STRING)
        run_fail(r, ERR_LIMIT, "the template uses too much memory");
    return v;
}

struct tvalue run_take_buf(struct run *r, struct buf *b) {
    struct tvalue v = undefined_value();
    if (b->failed)
        run_fail(r, ERR_LIMIT, "a string is too large");
    else
        v = run_string(r, b->data, b->len);
    buf_release(b);
    return v;
}

struct tvalue run_list(struct run *r, unsigned kind) {
    struct tlist *list = run_alloc(r, sizeof *list);
    return list ? (struct tvalue){.kind = (uint8_t)kind, .list = list} : undefined_value();
}

void run_push(struct run *r, struct tvalue list, struct tvalue item) {
    if (!r->rc && !tlist_push(&r->arena, list.list, item))
        run_fail(r, ERR_LIMIT, "the template uses too much memory");
}

void run_set(struct run *r, struct tvalue dict, struct tvalue key, struct tvalue value) {
    if (r->rc || !run_burn_read(r, key))
        return;
    if (!tvalue_is_key(key))
        run_fail(r, ERR_INVALID, "unhashable type: '%s'", python_type(key));
    else if (!tdict_set(&r->arena, dict.dict, key, value))
        run_fail(r, ERR_LIMIT, "the template uses too much memory");
}

/* ---- scopes ---- */

struct scope {
    size_t count, base;
    bool at_root;
};

static struct scope enter_scope(struct run *r) {
    struct scope saved = {r->bindings.count, r->scope_base, r->at_root};
    r->scope_base = r->bindings.count;
    r->at_root = false;
    return saved;
}

static void leave_scope(struct run *r, struct scope saved) {
    r->bindings.count = saved.count;
    r->scope_base = saved.base;
    r->at_root = saved.at_root;
}

static void assign_name(struct run *r, uint32_t name, struct tvalue value) {
    if (r->at_root) {
        r->root[name] = value;
        return;
    }
    for (size_t i = r->bindings.count; i-- > r->scope_base;) {
        if (r->bindings.items[i].name != name)
            continue;
        r->bindings.items[i].value = value;
        return;
    }
    if (r->bindings.count >= BINDINGS_MAX)
        run_fail(r, ERR_LIMIT, "too many variables");
    else
        vec_push(&r->bindings, ((struct binding){name, value}));
}

void run_hide_names(struct run *r, const struct template_scope *scope) {
    for (uint32_t i = 0; i < scope->hidden_count && !r->rc; i++)
        if (r->root[scope->hidden[i]].kind != TVALUE_UNDEFINED)
            assign_name(r, scope->hidden[i],
                        run_undefined_name(r->t->names.items[scope->hidden[i]]));
}

static void assign(struct run *r, const struct node *target, struct tvalue value);

static void unpack(struct run *r, const struct node *target, struct tvalue value) {
    struct seq s;
    if (!seq_open(r, value, &s))
        return;
    if (s.count < target->count)
        run_fail(r, ERR_INVALID, "not enough values to unpack (expected %u, got %u)", target->count,
                 s.count);
    else if (s.count > target->count)
        run_fail(r, ERR_INVALID, "too many values to unpack (expected %u)", target->count);
    for (uint32_t i = 0; i < target->count && !r->rc; i++)
        assign(r, target->items[i], seq_at(r, &s, i));
}

static void assign(struct run *r, const struct node *target, struct tvalue value) {
    if (r->rc)
        return;
    if (target->kind == N_NAME) {
        assign_name(r, target->name, value);
    } else if (target->kind == N_TUPLE) {
        unpack(r, target, value);
    } else { /* namespace.name */
        struct tvalue of = run_eval(r, target->a);
        if (of.kind == TVALUE_NAMESPACE)
            run_set(r, of, target->value, value);
        else
            run_fail(r, ERR_INVALID, "cannot assign attribute on non-namespace object");
    }
}

/* ---- statements ---- */

struct tvalue run_take_output(struct run *r, size_t mark) {
    struct tvalue text =
        r->rc ? undefined_value() : run_string(r, buf_text(r->out) + mark, r->out->len - mark);
    r->out->len = MIN(mark, r->out->len);
    return r->autoescape ? markup_of(text) : text;
}

static void run_group(struct run *r, const struct node *body, const struct template_scope *names) {
    struct scope scope = enter_scope(r);
    run_hide_names(r, names);
    run_body(r, body);
    leave_scope(r, scope);
}

static struct tvalue capture(struct run *r, const struct node *body,
                             const struct template_scope *names) {
    size_t mark = r->out->len;
    run_group(r, body, names);
    return run_take_output(r, mark);
}

static void run_if(struct run *r, const struct node *n) {
    for (uint32_t i = 0; i < n->count && !r->rc; i += 2) {
        if (n->items[i] && !run_truth(r, n->items[i]))
            continue;
        if (!r->rc)
            run_body(r, n->items[i + 1]);
        return;
    }
}

/* The items that pass the loop's condition, with the target bound for it. */
static struct tvalue filter_items(struct run *r, const struct node *n, const struct seq *s) {
    struct tvalue kept = run_list(r, TVALUE_LIST);
    for (uint32_t i = 0; i < s->count && run_burn(r, 1); i++) {
        struct scope scope = enter_scope(r);
        struct tvalue item = seq_at(r, s, i);
        assign(r, n->a, item);
        if (run_truth(r, n->c))
            run_push(r, kept, item);
        leave_scope(r, scope);
    }
    return kept;
}

static void loop_over(struct run *r, const struct node *n, struct tvalue iterable) {
    struct tloop *loop = run_alloc(r, sizeof *loop);
    if (!loop || !seq_open(r, iterable, &loop->seq))
        return;
    if (n->c) {
        struct tvalue kept = filter_items(r, n, &loop->seq);
        if (r->rc)
            return;
        loop->seq = (struct seq){kept, kept.list->count};
    }
    loop->depth = r->loop_depth;
    loop->node = n->op ? n : NULL;
    struct tvalue self = {.kind = TVALUE_LOOP, .pointer = loop};
    uint32_t name = r->t->loop_name;
    /* by any round: as in jinja2, else also serves loops that break or continue each time */
    bool reached_end = false;
    for (; loop->idx < loop->seq.count && run_burn(r, 1); loop->idx++) {
        struct scope scope = enter_scope(r);
        if (name != UINT32_MAX)
            assign_name(r, name, self);
        assign(r, n->a, seq_at(r, &loop->seq, loop->idx));
        run_hide_names(r, n->scope);
        run_body(r, n->items[0]);
        leave_scope(r, scope);
        bool stop = r->flow == FLOW_BREAK;
        reached_end |= r->flow == FLOW_ON;
        r->flow = FLOW_ON;
        if (stop || r->rc)
            break;
    }
    if (!reached_end && n->items[1] && !r->rc) {
        struct scope scope = enter_scope(r);
        run_body(r, n->items[1]);
        leave_scope(r, scope);
    }
}

struct tvalue run_loop_again(struct run *r, const struct tloop *loop, struct args args) {
    if (!loop->node || args.count != 1)
        return run_fail(r, ERR_INVALID,
                        "The loop must have the 'recursive' marker to be called recursively.");
    if (++r->calls > RUN_CALLS_MAX)
        run_fail(r, ERR_LIMIT, "calls nested deeper than %d", RUN_CALLS_MAX);
    size_t mark = r->out->len;
    unsigned depth = r->loop_depth;
    r->loop_depth = loop->depth + 1;
    loop_over(r, loop->node, args.items[0]);
    r->loop_depth = depth;
    r->calls--;
    return run_take_output(r, mark);
}

/* Sees what is visible here, and itself by its name unless that is UINT32_MAX. */
static struct tvalue new_macro(struct run *r, const struct macro_def *def, uint32_t name) {
    struct tmacro *macro = run_alloc(r, sizeof *macro);
    size_t count = r->bindings.count - r->frame_base;
    if (!macro)
        return undefined_value();
    struct tvalue self = {.kind = TVALUE_MACRO, .pointer = macro};
    macro->def = def;
    macro->closure = run_alloc(r, (count + 1) * sizeof *macro->closure);
    if (!macro->closure)
        return undefined_value();
    if (count)
        memcpy(macro->closure, r->bindings.items + r->frame_base, count * sizeof *macro->closure);
    macro->closure[count] = (struct binding){name, self};
    macro->closure_count = (uint32_t)count + (name != UINT32_MAX);
    return self;
}

static void run_call_block(struct run *r, const struct node *n) {
    struct tvalue callee = run_eval(r, n->a->a), caller = new_macro(r, n->macro, UINT32_MAX);
    struct args args;
    if (r->rc || !run_eval_args(r, n->a->args, &args))
        return;
    struct tvalue keywords = tvalue_dict(&r->arena);
    if (keywords.kind != TVALUE_DICT) {
        run_fail(r, ERR_LIMIT, "the template uses too much memory");
        return;
    }
    for (uint32_t i = 0; args.keywords && i < args.keywords->count; i++)
        run_set(r, keywords, args.keywords->entries[i].key, args.keywords->entries[i].value);
    run_set(r, keywords, tvalue_string(bytes_str("caller")), caller);
    args.keywords = keywords.dict;
    run_str(r, run_call(r, callee, args), r->out);
}

/* A chain of filters whose innermost input is `input`. */
static struct tvalue apply_filters(struct run *r, const struct node *chain, struct tvalue input) {
    struct args args = {0};
    if (chain->function == FUNCTION_UNKNOWN)
        return run_fail(r, ERR_INVALID, "No filter named '%.*s' found.",
                        (int)MIN(chain->value.len, 64u), chain->value.text);
    if (chain->a)
        input = apply_filters(r, chain->a, input);
    if (r->rc || (chain->args && !run_eval_args(r, chain->args, &args)))
        return undefined_value();
    return filter_call(r, chain->function, input, args);
}

static void run_with(struct run *r, const struct node *n) {
    struct tvalue values[64];
    uint32_t count = MIN(n->count / 2, (uint32_t)ARRAY_LEN(values));
    if (n->count / 2 > ARRAY_LEN(values))
        run_fail(r, ERR_LIMIT, "too many variables in with");
    for (uint32_t i = 0; i < count; i++)
        values[i] = run_eval(r, n->items[2 * i + 1]);
    struct scope scope = enter_scope(r);
    for (uint32_t i = 0; i < count; i++)
        assign(r, n->items[2 * i], values[i]);
    run_hide_names(r, n->scope);
    run_body(r, n->a);
    leave_scope(r, scope);
}

static void run_autoescape(struct run *r, const struct node *n) {
    bool outer = r->autoescape;
    r->autoescape = run_truth(r, n->a);
    run_group(r, n->b, n->scope);
    r->autoescape = outer;
}

/* What the template hides and has not assigned yet is the context's in a block. */
static void show_behind(struct run *r) {
    const struct template_scope *scope = r->t->scope;
    for (uint32_t i = 0; i < scope->hidden_count; i++)
        if (r->root[scope->hidden[i]].kind == TVALUE_UNDEFINED)
            vec_push(&r->bindings, ((struct binding){scope->hidden[i], r->behind[i]}));
}

/* A block sees the template's variables, and those around it only where it says so. */
static void run_block(struct run *r, const struct template_block *block) {
    size_t frame = r->frame_base, count = r->bindings.count;
    unsigned loop_depth = r->loop_depth;
    if (block->required)
        run_fail(r, ERR_INVALID, "Required block '%.*s' not found",
                 (int)MIN(block->name.len, (size_t)64), (const char *)block->name.data);
    if (!block->scoped)
        r->frame_base = count;
    if (!block->scoped)
        show_behind(r);
    r->loop_depth = 0;
    run_group(r, block->body, block->scope);
    r->bindings.count = count;
    r->frame_base = frame;
    r->loop_depth = loop_depth;
}

struct tvalue run_call_block_of(struct run *r, const struct template_block *block) {
    size_t mark = r->out->len;
    if (++r->calls > RUN_CALLS_MAX)
        run_fail(r, ERR_LIMIT, "calls nested deeper than %d", RUN_CALLS_MAX);
    if (!r->rc)
        run_block(r, block);
    r->calls--;
    return run_take_output(r, mark);
}

static void run_statement(struct run *r, const struct node *n) {
    switch (n->kind) {
    case N_TEXT:
        run_burn(r, n->value.len / 16);
        buf_add(r->out, n->value.text, n->value.len);
        break;
    case N_PRINT: run_print(r, n->a, n->op == ESCAPE_ON || (n->op && r->autoescape)); break;
    case N_IF: run_if(r, n); break;
    case N_FOR: {
        struct tvalue iterable = run_eval(r, n->b);
        unsigned depth = r->loop_depth;
        r->loop_depth = 0;
        loop_over(r, n, iterable);
        r->loop_depth = depth;
        break;
    }
    case N_SET: assign(r, n->a, run_eval(r, n->b)); break;
    case N_SET_BLOCK: {
        struct tvalue text = capture(r, n->b, n->scope);
        assign(r, n->a, n->c ? apply_filters(r, n->c, text) : text);
        break;
    }
    case N_MACRO:
        assign_name(r, n->name, new_macro(r, n->macro, r->at_root ? UINT32_MAX : n->name));
        break;
    case N_CALL_BLOCK: run_call_block(r, n); break;
    case N_FILTER_BLOCK:
        run_str(r, apply_filters(r, n->a, capture(r, n->b, n->scope)), r->out);
        break;
    case N_WITH: run_with(r, n); break;
    case N_GROUP: run_group(r, n->a, n->scope); break;
    case N_AUTOESCAPE: run_autoescape(r, n); break;
    case N_BLOCK: run_block(r, n->block); break;
    case N_BREAK: r->flow = FLOW_BREAK; break;
    case N_CONTINUE: r->flow = FLOW_CONTINUE; break;
    case N_OTHER_FILE: run_fail(r, ERR_INVALID, "no loader for this environment specified"); break;
    default: CHECK_MSG(false, "node kind %d is no statement", n->kind);
    }
}

void run_body(struct run *r, const struct node *body) {
    if (++r->depth > RUN_DEPTH_MAX)
        run_fail(r, ERR_LIMIT, "nested too deep");
    for (const struct node *n = body; n && !r->rc && r->flow == FLOW_ON; n = n->next) {
        if (!run_burn(r, 1))
            break;
        run_statement(r, n);
        if (r->out->failed || r->out->len - r->out_start > r->out_max)
            run_fail(r, ERR_LIMIT, "the output is too large");
    }
    r->depth--;
}

/* ---- from start to end ---- */

static void bind_context(struct run *r, struct tvalue context) {
    size_t count = r->t->names.count;
    r->root = run_alloc(r, MAX(count, (size_t)1) * sizeof *r->root);
    for (size_t i = 0; r->root && i < count; i++) {
        const struct tvalue *given = NULL;
        if (context.kind == TVALUE_DICT)
            given = tdict_find_hashed(context.dict, tvalue_string(r->t->names.items[i]),
                                      r->t->globals[i].hash);
        r->root[i] = given ? *given : r->t->globals[i].value;
    }
}

static void hide_at_root(struct run *r) {
    const struct template_scope *scope = r->t->scope;
    r->behind = scope->hidden_count ? run_alloc(r, scope->hidden_count * sizeof *r->behind) : NULL;
    for (uint32_t i = 0; r->behind && i < scope->hidden_count; i++)
        r->behind[i] = r->root[scope->hidden[i]];
    run_hide_names(r, scope);
}

int template_render(const struct template *t, struct tvalue context,
                    const struct template_limits *limits, struct buf *out, struct error *err) {
    CHECK(t && out);
    static const struct template_limits NONE;
    struct error local;
    struct run r = {
        .t = t, .out = out, .out_start = out->len, .err = err ? err : &local, .at_root = true};
    if (!limits)
        limits = &NONE;
    r.fuel = limits->fuel ? limits->fuel : DEFAULT_FUEL;
    r.out_max = limits->output_bytes ? limits->output_bytes : DEFAULT_OUTPUT;
    r.now_s = limits->now_s;
    arena_init(&r.arena, limits->memory_bytes ? limits->memory_bytes : DEFAULT_MEMORY, 0);
    buf_init(&r.scratch, r.out_max);
    bind_context(&r, context);
    hide_at_root(&r);
    run_body(&r, t->body);
    if (r.rc && (r.arena.starved || (out->failed && !out->limit)))
        r.rc = error_set(r.err, ERR_MEMORY, "out of memory");
    vec_release(&r.bindings);
    buf_release(&r.scratch);
    arena_release(&r.arena);
    if (r.rc) {
        out->len = r.out_start;
        if (out->data)
            out->data[out->len] = 0;
    } else if (out->data) {
        out->data[out->len] = 0;
    }
    return r.rc;
}
