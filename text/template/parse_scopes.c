/*
 * parse_scopes.c - statements with a scope of their own: macro, call, filter, with, block,
 * autoescape, generation.
 */
#include "text/template/run.h"

/* "(a, b=1)" of macros and call blocks, into def. */
static void parse_signature(struct parser *p, struct macro_def *def) {
    struct node_list params = {0}, defaults = {0};
    expect_op(p, OP('('));
    while (!p->rc && !token_is_op(p, OP(')'))) {
        if (params.count)
            expect_op(p, OP(','));
        struct node *param = parse_single_target(p, false);
        if (!p->rc && param->kind != N_NAME)
            parser_fail(p, ERR_INVALID, "a parameter must be a name");
        struct node *fallback = accept_op(p, OP('=')) ? parse_expression(p, true) : NULL;
        if (!p->rc && !fallback && defaults.count && defaults.items[defaults.count - 1])
            parser_fail(p, ERR_INVALID, "non-default argument follows default argument");
        node_list_push(p, &params, param);
        node_list_push(p, &defaults, fallback);
    }
    expect_op(p, OP(')'));
    if (p->rc || !params.count)
        return;
    def->params = parser_alloc(p, params.count * sizeof *def->params);
    def->defaults = node_list_items(p, &defaults);
    if (p->rc)
        return;
    def->param_count = params.count;
    for (uint32_t i = 0; i < params.count; i++) {
        def->params[i] = params.items[i]->name;
        parser_declares(p, params.items[i]);
    }
}

static void parse_macro_body(struct parser *p, struct macro_def *def, const char *end) {
    bool varargs = p->uses_varargs, kwargs = p->uses_kwargs, caller = p->uses_caller;
    unsigned loop_depth = p->loop_depth;
    p->uses_varargs = p->uses_kwargs = p->uses_caller = false;
    p->loop_depth = 0;
    def->body = parse_block(p, end);
    def->varargs_name = p->uses_varargs ? parser_name(p, bytes_str("varargs")) : UINT32_MAX;
    def->kwargs_name = p->uses_kwargs ? parser_name(p, bytes_str("kwargs")) : UINT32_MAX;
    def->caller_name = p->uses_caller ? parser_name(p, bytes_str("caller")) : UINT32_MAX;
    p->uses_varargs |= varargs; /* what a macro inside uses counts for the one around it, too */
    p->uses_kwargs |= kwargs;
    p->uses_caller |= caller;
    p->loop_depth = loop_depth;
}

static struct macro_def *new_macro(struct parser *p, struct bytes name) {
    struct macro_def *def = p->rc ? NULL : parser_alloc(p, sizeof *def);
    if (def)
        def->name = name;
    return def;
}

struct node *parse_macro(struct parser *p) {
    struct node *n = parser_node(p, N_MACRO), *target = parse_single_target(p, false);
    if (!p->rc && target->kind != N_NAME)
        parser_fail(p, ERR_INVALID, "a macro's name is expected");
    if (p->rc)
        return NULL;
    n->name = target->name;
    n->macro = new_macro(p, p->t->names.items[target->name]);
    if (p->rc)
        return NULL;
    parser_assigns(p, target);
    struct scope_mark mark = parser_enter_scope(p, false);
    parse_signature(p, n->macro);
    parse_macro_body(p, n->macro, "endmacro");
    n->macro->scope = parser_leave_scope(p, mark);
    return n;
}

struct node *parse_call_block(struct parser *p) {
    struct node *n = parser_node(p, N_CALL_BLOCK);
    struct macro_def *def = new_macro(p, bytes_str("caller"));
    if (p->rc)
        return NULL;
    struct scope_mark mark = parser_enter_scope(p, false);
    if (token_is_op(p, OP('(')))
        parse_signature(p, def);
    def->scope = parser_leave_scope(p, mark);
    n->a = parse_expression(p, true);
    if (!p->rc && n->a->kind != N_CALL)
        parser_fail(p, ERR_INVALID, "a call is expected");
    n->macro = def;
    mark = parser_reenter_scope(p, def->scope);
    parse_macro_body(p, def, "endcall");
    parser_leave_scope(p, mark);
    return p->rc ? NULL : n;
}

struct node *parse_filter_block(struct parser *p) {
    struct node *n = parser_node(p, N_FILTER_BLOCK), *filters = parse_filters(p, NULL, true);
    struct scope_mark mark = parser_enter_scope(p, false);
    struct node *body = parse_block(p, "endfilter");
    struct template_scope *scope = parser_leave_scope(p, mark);
    if (p->rc)
        return NULL;
    n->scope = scope;
    n->a = filters;
    n->b = body;
    return n;
}

struct node *parse_with(struct parser *p) {
    struct node *n = parser_node(p, N_WITH);
    struct node_list list = {0};
    while (!p->rc && p->tokens->kind != T_BLOCK_END) {
        if (list.count)
            expect_op(p, OP(','));
        node_list_push(p, &list, parse_target(p, false));
        expect_op(p, OP('='));
        node_list_push(p, &list, parse_expression(p, true));
    }
    struct scope_mark mark = parser_enter_scope(p, false);
    for (uint32_t i = 0; i < list.count; i += 2)
        parser_declares(p, list.items[i]);
    struct node *body = parse_block(p, "endwith");
    struct template_scope *scope = parser_leave_scope(p, mark);
    if (p->rc)
        return NULL;
    n->count = list.count;
    n->items = node_list_items(p, &list);
    n->a = body;
    n->scope = scope;
    return n;
}

struct node *parse_generation(struct parser *p) {
    struct node *n = parser_node(p, N_GROUP);
    struct scope_mark mark = parser_enter_scope(p, false);
    struct node *body = parse_block(p, "endgeneration");
    struct template_scope *scope = parser_leave_scope(p, mark);
    if (p->rc)
        return NULL;
    n->a = body;
    n->scope = scope;
    return n;
}

/* The condition is a constant nearly always; else each print asks when it runs. */
struct node *parse_autoescape(struct parser *p) {
    struct node *n = parser_node(p, N_AUTOESCAPE);
    struct scope_mark mark = parser_enter_scope(p, false);
    struct node *condition = parse_expression(p, true);
    enum escape_mode outer = p->escape;
    if (p->rc)
        return NULL;
    bool constant = condition->kind == N_CONST;
    p->escape = !constant ? ESCAPE_ASK : op_truth(condition->value) ? ESCAPE_ON : ESCAPE_OFF;
    n->a = condition;
    n->b = parse_block(p, "endautoescape");
    p->escape = outer;
    n->scope = parser_leave_scope(p, mark);
    return p->rc ? NULL : n;
}

/* ---- {% block %} ---- */

const struct template_block *template_find_block(const struct template *t, struct bytes name) {
    for (size_t i = 0; i < t->blocks.count; i++)
        if (bytes_equal(t->blocks.items[i]->name, name))
            return t->blocks.items[i];
    return NULL;
}

static struct template_block *new_block(struct parser *p) {
    if (!p->rc && p->tokens->kind != T_NAME)
        parser_unexpected(p);
    struct template_block *block = p->rc ? NULL : parser_alloc(p, sizeof *block);
    if (!block)
        return NULL;
    block->name = p->tokens->text;
    if (template_find_block(p->t, block->name))
        parser_fail(p, ERR_INVALID, "block '%.*s' defined twice",
                    (int)MIN(block->name.len, (size_t)64), (const char *)block->name.data);
    else if (p->t->blocks.count >= TEMPLATE_NAMES_MAX)
        parser_fail(p, ERR_LIMIT, "more than %d blocks", TEMPLATE_NAMES_MAX);
    else
        vec_push(&p->t->blocks, block);
    p->tokens++;
    return block;
}

/* A body that holds nothing but white space. */
static bool is_blank(const struct node *body) {
    for (; body; body = body->next) {
        struct bytes text = tvalue_text(body->value);
        if (body->kind != N_TEXT)
            return false;
        for (size_t i = 0; i < text.len; i++)
            if (!strchr(" \t\n\v\f\r", text.data[i]))
                return false;
    }
    return true;
}

/* A block is a template of its own: no escaping, no loop around it. */
struct node *parse_named_block(struct parser *p) {
    struct node *n = parser_node(p, N_BLOCK);
    struct template_block *block = new_block(p);
    enum escape_mode escape = p->escape;
    unsigned loop_depth = p->loop_depth;
    if (p->rc)
        return NULL;
    block->scoped = accept_name(p, "scoped");
    block->required = accept_name(p, "required");
    p->escape = ESCAPE_OFF;
    p->loop_depth = 0;
    struct scope_mark mark = parser_enter_scope(p, !block->scoped);
    block->body = parse_block(p, "endblock");
    block->scope = parser_leave_scope(p, mark);
    p->escape = escape;
    p->loop_depth = loop_depth;
    if (!p->rc && block->required && !is_blank(block->body))
        parser_fail(p, ERR_INVALID, "required blocks can only contain comments or white space");
    if (!p->rc && p->tokens->kind == T_NAME && bytes_equal(p->tokens->text, block->name))
        p->tokens++;
    if (p->rc)
        return NULL;
    n->block = block;
    return n;
}
