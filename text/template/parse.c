/*
 * parse.c - statements, as jinja2's parser reads them; those with a scope of their own are in
 * parse_scopes.c.
 */
#include <stdio.h>

#include "base/hash.h"
#include "text/template/ast.h"
#include "text/template/run.h"
#include "text/unicode.h"

enum { TREE_BUDGET = 256 << 20, TREE_CALLS = 16 << 20 };

/* ---- helpers ---- */

int parser_fail(struct parser *p, int code, const char *fmt, ...) {
    char text[300];
    va_list args;
    if (p->rc)
        return p->rc;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return p->rc = error_set(p->err, code, "template line %u: %s", p->tokens->line, text);
}

void *parser_alloc(struct parser *p, size_t size) {
    void *memory = arena_alloc(&p->t->arena, size);
    if (!memory)
        parser_fail(p, ERR_LIMIT, "the template is too large");
    return memory;
}

struct node *parser_node(struct parser *p, enum node_kind kind) {
    struct node *n = p->rc ? NULL : parser_alloc(p, sizeof *n);
    if (!n)
        return NULL;
    n->kind = (uint8_t)kind;
    n->line = p->tokens->line;
    return n;
}

uint32_t parser_name(struct parser *p, struct bytes name) {
    for (size_t i = 0; i < p->t->names.count; i++)
        if (bytes_equal(p->t->names.items[i], name))
            return (uint32_t)i;
    if (p->t->names.count >= TEMPLATE_NAMES_MAX) {
        parser_fail(p, ERR_LIMIT, "more than %d names", TEMPLATE_NAMES_MAX);
        return 0;
    }
    vec_push(&p->t->names, name);
    return (uint32_t)p->t->names.count - 1;
}

bool parser_enter(struct parser *p) {
    if (++p->depth > TEMPLATE_DEPTH_MAX)
        parser_fail(p, ERR_LIMIT, "nested deeper than %d", TEMPLATE_DEPTH_MAX);
    return !p->rc;
}

void parser_leave(struct parser *p) {
    p->depth--;
}

bool token_is_op(const struct parser *p, uint32_t op) {
    return p->tokens->kind == T_OP && p->tokens->op == op;
}
bool token_is_name(const struct parser *p, const char *name) {
    return p->tokens->kind == T_NAME && bytes_equal(p->tokens->text, bytes_str(name));
}

bool accept_op(struct parser *p, uint32_t op) {
    if (p->rc || !token_is_op(p, op))
        return false;
    p->tokens++;
    return true;
}

bool accept_name(struct parser *p, const char *name) {
    if (p->rc || !token_is_name(p, name))
        return false;
    p->tokens++;
    return true;
}

void parser_unexpected(struct parser *p) {
    const struct token *t = p->tokens;
    char op[3] = {(char)t->op, (char)(t->op >> 8), 0};
    switch (t->kind) {
    case T_EOF: parser_fail(p, ERR_INVALID, "unexpected end of template"); break;
    case T_OP: parser_fail(p, ERR_INVALID, "unexpected '%s'", op); break;
    case T_PRINT_END:
    case T_BLOCK_END: parser_fail(p, ERR_INVALID, "unexpected end of tag"); break;
    default:
        parser_fail(p, ERR_INVALID, "unexpected '%.*s'", (int)MIN(t->text.len, (size_t)64),
                    t->text.len ? (const char *)t->text.data : "");
    }
}

void expect_op(struct parser *p, uint32_t op) {
    if (!accept_op(p, op))
        parser_unexpected(p);
}

static void expect_name(struct parser *p, const char *name) {
    if (!accept_name(p, name))
        parser_unexpected(p);
}

static void expect_block_end(struct parser *p) {
    if (p->rc)
        return;
    if (p->tokens->kind != T_BLOCK_END)
        parser_unexpected(p);
    else
        p->tokens++;
}

void node_list_push(struct parser *p, struct node_list *list, struct node *node) {
    if (p->rc)
        return;
    if (!list->items) {
        list->items = list->fixed;
        list->cap = ARRAY_LEN(list->fixed);
    }
    if (list->count == list->cap) {
        struct node **bigger = parser_alloc(p, list->cap * 2 * sizeof *bigger);
        if (!bigger)
            return;
        memcpy(bigger, list->items, list->count * sizeof *bigger);
        list->items = bigger;
        list->cap *= 2;
    }
    list->items[list->count++] = node;
}

struct node **node_list_items(struct parser *p, struct node_list *list) {
    if (!list->count)
        return NULL;
    struct node **items = parser_alloc(p, list->count * sizeof *items);
    if (items)
        memcpy(items, list->items, list->count * sizeof *items);
    return items;
}

/* ---- bodies ---- */

static struct node *parse_statement(struct parser *p);

static bool at_any(const struct parser *p, const char *const *names) {
    for (; *names; names++)
        if (token_is_name(p, *names))
            return true;
    return false;
}

static struct node *parse_print(struct parser *p) {
    struct node *n = parser_node(p, N_PRINT);
    p->tokens++;
    struct node *value = parse_tuple(p, true, false);
    if (!p->rc && p->tokens->kind != T_PRINT_END)
        parser_unexpected(p);
    if (p->rc)
        return NULL;
    p->tokens++;
    n->a = value;
    n->op = p->escape;
    return n;
}

static struct node *parse_text(struct parser *p) {
    struct node *n = parser_node(p, N_TEXT);
    if (n)
        n->value = tvalue_string(p->tokens->text);
    p->tokens++;
    return n;
}

/* Statements up to a block tag that begins with one of the names (NULL: up to the end of the
 * template); that tag's name is current then. */
static struct node *parse_body(struct parser *p, const char *const *ends) {
    struct node *first = NULL, **last = &first;
    if (!parser_enter(p))
        return NULL;
    while (!p->rc && p->tokens->kind != T_EOF) {
        struct node *n;
        if (p->tokens->kind == T_DATA) {
            n = parse_text(p);
        } else if (p->tokens->kind == T_PRINT_BEGIN) {
            n = parse_print(p);
        } else {
            p->tokens++; /* {% */
            if (ends && at_any(p, ends)) {
                parser_leave(p);
                return first;
            }
            n = parse_statement(p);
            expect_block_end(p);
        }
        if (!n)
            continue;
        *last = n;
        last = &n->next;
    }
    if (!p->rc && ends)
        parser_fail(p, ERR_INVALID, "'%s' is missing", *ends);
    parser_leave(p);
    return first;
}

struct node *parse_block(struct parser *p, const char *end) {
    const char *const ends[] = {end, NULL};
    bool soft = p->soft;
    p->soft = false;
    expect_block_end(p);
    struct node *body = parse_body(p, ends);
    expect_name(p, end);
    p->soft = soft;
    return body;
}

/* ---- statements ---- */

static struct node *parse_if(struct parser *p) {
    static const char *const ENDS[] = {"endif", "elif", "else", NULL}, *const ELSE_ENDS[] = {
                                                                           "endif", NULL};
    struct node *n = parser_node(p, N_IF);
    struct node_list list = {0};
    bool soft = p->soft;
    p->soft = true;
    do {
        struct node *condition = parse_tuple(p, false, false);
        expect_block_end(p);
        if (!list.count)
            p->branch_depth++;
        struct node *body = parse_body(p, ENDS);
        node_list_push(p, &list, condition);
        node_list_push(p, &list, body);
    } while (accept_name(p, "elif"));
    if (accept_name(p, "else")) {
        expect_block_end(p);
        struct node *body = parse_body(p, ELSE_ENDS);
        node_list_push(p, &list, NULL);
        node_list_push(p, &list, body);
    }
    expect_name(p, "endif");
    p->branch_depth--;
    p->soft = soft;
    if (p->rc)
        return NULL;
    n->count = list.count;
    n->items = node_list_items(p, &list);
    return n;
}

/* True for message.content, message['content'], a variable called content, and filters of these. */
static bool is_content(const struct parser *p, const struct node *n) {
    struct bytes name = bytes_of(NULL, 0);
    while (n && n->kind == N_FILTER)
        n = n->a;
    if (!n)
        return false;
    if (n->kind == N_ATTR)
        name = tvalue_text(n->value);
    if (n->kind == N_ITEM && n->b->kind == N_CONST)
        name = tvalue_text(n->b->value);
    if (n->kind == N_NAME)
        name = p->t->names.items[n->name];
    return bytes_equal(name, bytes_str("content"));
}

static struct node *parse_loop_condition(struct parser *p, const struct node *target) {
    struct scope_mark mark = parser_enter_scope(p, false);
    parser_declares(p, target);
    struct node *condition = parse_expression(p, true);
    parser_leave_scope(p, mark);
    return condition;
}

static struct node *parse_for_else(struct parser *p) {
    static const char *const ENDS[] = {"endfor", NULL};
    if (!accept_name(p, "else"))
        return NULL;
    struct scope_mark mark = parser_enter_scope(p, false);
    expect_block_end(p);
    struct node *body = parse_body(p, ENDS);
    parser_leave_scope(p, mark);
    return body;
}

static struct node *parse_for(struct parser *p) {
    static const char *const ENDS[] = {"endfor", "else", NULL};
    struct node *n = parser_node(p, N_FOR), *bodies[2] = {NULL, NULL};
    struct node *target = parse_target(p, false);
    expect_name(p, "in");
    struct node *iterable = parse_tuple(p, false, false);
    struct node *condition = accept_name(p, "if") ? parse_loop_condition(p, target) : NULL;
    bool recursive = accept_name(p, "recursive"), soft = p->soft;
    expect_block_end(p);
    p->soft = false;
    p->loop_depth++;
    struct scope_mark mark = parser_enter_scope(p, false);
    parser_declares(p, target);
    bodies[0] = parse_body(p, ENDS);
    struct template_scope *scope = parser_leave_scope(p, mark);
    p->loop_depth--;
    bodies[1] = parse_for_else(p);
    p->soft = soft;
    expect_name(p, "endfor");
    if (p->rc)
        return NULL;
    n->items = parser_alloc(p, sizeof bodies);
    if (!n->items)
        return NULL;
    memcpy(n->items, bodies, sizeof bodies);
    p->t->wants_content_parts |= is_content(p, iterable);
    n->a = target;
    n->b = iterable;
    n->c = condition;
    n->op = recursive;
    n->scope = scope;
    return n;
}

static struct node *parse_set(struct parser *p) {
    struct node *target = parse_target(p, true);
    if (accept_op(p, OP('='))) {
        struct node *n = parser_node(p, N_SET), *value = parse_tuple(p, true, false);
        if (p->rc)
            return NULL;
        parser_assigns(p, target);
        n->a = target;
        n->b = value;
        return n;
    }
    struct node *n = parser_node(p, N_SET_BLOCK), *filters = NULL;
    parser_assigns(p, target);
    struct scope_mark mark = parser_enter_scope(p, false);
    if (!p->rc && token_is_op(p, OP('|')))
        filters = parse_filters(p, NULL, false);
    struct node *body = parse_block(p, "endset");
    struct template_scope *scope = parser_leave_scope(p, mark);
    if (p->rc)
        return NULL;
    n->scope = scope;
    n->a = target;
    n->b = body;
    n->c = filters;
    return n;
}

static struct node *parse_jump(struct parser *p, enum node_kind kind) {
    if (!p->loop_depth)
        parser_fail(p, ERR_INVALID, "break or continue outside of a loop");
    return parser_node(p, kind);
}

/* There are no other templates: jinja2 without a loader fails where one is asked for, not
 * before. */
static struct node *parse_other_file(struct parser *p) {
    struct node *n = parser_node(p, N_OTHER_FILE);
    (void)parse_expression(p, false);
    while (!p->rc && p->tokens->kind != T_BLOCK_END && p->tokens->kind != T_EOF)
        p->tokens++;
    return n;
}

static struct node *parse_statement(struct parser *p) {
    if (!p->rc && p->tokens->kind != T_NAME)
        parser_unexpected(p);
    if (accept_name(p, "if"))
        return parse_if(p);
    if (accept_name(p, "for"))
        return parse_for(p);
    if (accept_name(p, "set"))
        return parse_set(p);
    if (accept_name(p, "macro"))
        return parse_macro(p);
    if (accept_name(p, "call"))
        return parse_call_block(p);
    if (accept_name(p, "filter"))
        return parse_filter_block(p);
    if (accept_name(p, "with"))
        return parse_with(p);
    if (accept_name(p, "generation"))
        return parse_generation(p);
    if (accept_name(p, "autoescape"))
        return parse_autoescape(p);
    if (accept_name(p, "block"))
        return parse_named_block(p);
    if (accept_name(p, "break"))
        return parse_jump(p, N_BREAK);
    if (accept_name(p, "continue"))
        return parse_jump(p, N_CONTINUE);
    if (accept_name(p, "include") || accept_name(p, "import") || accept_name(p, "from") ||
        accept_name(p, "extends"))
        return parse_other_file(p);
    if (!p->rc)
        parser_fail(p, ERR_INVALID, "unknown tag '%.*s'", (int)MIN(p->tokens->text.len, (size_t)64),
                    (const char *)p->tokens->text.data);
    return NULL;
}

/* ---- the whole ---- */

void template_free(struct template **t) {
    if (!*t)
        return;
    arena_release(&(*t)->arena);
    vec_release(&(*t)->names);
    vec_release(&(*t)->blocks);
    mem_free(*t);
    *t = NULL;
}

static struct tvalue global_value(struct bytes name) {
    int function = function_find(name);
    if (function >= 0)
        return (struct tvalue){.kind = TVALUE_FUNCTION, .tag = (uint16_t)function};
    return run_undefined_name(name);
}

static void finish(struct parser *p) {
    struct template *t = p->t;
    t->loop_name = UINT32_MAX;
    t->globals = parser_alloc(p, t->names.count * sizeof *t->globals);
    for (size_t i = 0; i < t->names.count && !p->rc; i++) {
        struct bytes name = t->names.items[i];
        if (bytes_equal(name, bytes_str("loop")))
            t->loop_name = (uint32_t)i;
        t->globals[i] =
            (struct template_global){tdict_hash(tvalue_string(name)), global_value(name)};
    }
}

int template_parse(struct bytes source, struct template **out, struct error *err) {
    CHECK(out);
    struct error local;
    struct lexed lexed;
    *out = NULL;
    unicode_init();
    struct template *t = mem_alloc(sizeof *t);
    arena_init(&t->arena, TREE_BUDGET, TREE_CALLS);
    struct parser p = {.t = t, .err = err ? err : &local};
    p.rc = template_lex(&t->arena, source, &lexed, p.err);
    p.tokens = lexed.tokens.items;
    (void)parser_enter_scope(&p, true);
    t->scope = p.scope;
    if (!p.rc)
        t->body = parse_body(&p, NULL);
    if (!p.rc && p.unknown_count)
        p.rc = error_set(p.err, ERR_INVALID, "template line %u: no filter or test named '%.*s'",
                         p.unknown.line, (int)MIN(p.unknown.text.len, (size_t)64),
                         (const char *)p.unknown.text.data);
    vec_release(&lexed.tokens);
    if (!p.rc)
        finish(&p);
    if (!p.rc)
        parser_hide_names(&p);
    if (p.rc)
        template_free(&t);
    *out = t;
    return p.rc;
}

bool template_wants_content_parts(const struct template *t) {
    return t->wants_content_parts;
}
