/*
 * expression.c - the tight operands of expressions: literals, names, subscripts, calls, filters and
 * tests.
 */
#include "base/hash.h"
#include "text/template/ast.h"
#include "text/template/run.h"

/* Gives n the depth of its operands plus one; long chains are refused, since evaluation recurses
 * along them. */
struct node *parser_grow(struct parser *p, struct node *n, const struct node *a,
                         const struct node *b) {
    if (p->rc || !n)
        return NULL;
    unsigned depth = MAX(n->depth, MAX(a ? a->depth + 1u : 0u, b ? b->depth + 1u : 0u));
    if (depth > TEMPLATE_CHAIN_MAX)
        parser_fail(p, ERR_LIMIT, "an expression is longer than %d steps", TEMPLATE_CHAIN_MAX);
    n->depth = (uint16_t)depth;
    return p->rc ? NULL : n;
}

static struct node *constant(struct parser *p, struct tvalue value) {
    struct node *n = parser_node(p, N_CONST);
    if (!n)
        return NULL;
    n->value = value;
    if (tvalue_is_key(value))
        n->hash = tdict_hash(value);
    if (value.kind == TVALUE_STRING)
        n->method = method_find(tvalue_text(value));
    return n;
}

struct node *parser_binary(struct parser *p, enum node_kind kind, struct node *a, struct node *b) {
    struct node *n = parser_node(p, kind);
    if (!n)
        return NULL;
    n->a = a;
    n->b = b;
    return parser_grow(p, n, a, b);
}

/* ---- primary ---- */

static struct node *parse_name(struct parser *p) {
    struct bytes name = p->tokens->text;
    static const struct {
        const char *name;
        enum tvalue_kind kind;
        bool value;
    } CONSTANTS[] = {{"true", TVALUE_BOOL, true},   {"True", TVALUE_BOOL, true},
                     {"false", TVALUE_BOOL, false}, {"False", TVALUE_BOOL, false},
                     {"none", TVALUE_NONE, false},  {"None", TVALUE_NONE, false}};
    for (size_t i = 0; i < ARRAY_LEN(CONSTANTS); i++) {
        if (!bytes_equal(name, bytes_str(CONSTANTS[i].name)))
            continue;
        struct node *n = constant(
            p, CONSTANTS[i].kind == TVALUE_BOOL ? tvalue_bool(CONSTANTS[i].value) : tvalue_none());
        p->tokens++;
        return n;
    }
    p->uses_varargs |= bytes_equal(name, bytes_str("varargs"));
    p->uses_kwargs |= bytes_equal(name, bytes_str("kwargs"));
    p->uses_caller |= bytes_equal(name, bytes_str("caller"));
    struct node *n = parser_node(p, N_NAME);
    if (n)
        n->name = parser_name(p, name);
    if (n)
        parser_uses(p, n->name);
    p->tokens++;
    return n;
}

/* Adjacent strings are one. */
static struct node *parse_string(struct parser *p) {
    struct bytes text = p->tokens->text;
    size_t total = 0, count = 0;
    while (p->tokens[count].kind == T_STRING)
        total += p->tokens[count++].text.len;
    if (count > 1) {
        uint8_t *joined = parser_alloc(p, total + 1);
        if (!joined)
            return NULL;
        size_t at = 0;
        for (size_t i = 0; i < count; i++) {
            struct bytes literal = p->tokens[i].text;
            if (literal.len)
                memcpy(joined + at, literal.data, literal.len);
            at += literal.len;
        }
        text = bytes_of(joined, total);
    }
    struct node *n = constant(p, tvalue_string(text));
    p->tokens += count;
    return n;
}

static struct node *parse_list(struct parser *p) {
    struct node *n = parser_node(p, N_LIST);
    struct node_list list = {0};
    p->tokens++;
    while (!p->rc && !token_is_op(p, OP(']'))) {
        if (list.count)
            expect_op(p, OP(','));
        if (token_is_op(p, OP(']')))
            break;
        node_list_push(p, &list, parse_expression(p, true));
    }
    expect_op(p, OP(']'));
    if (p->rc)
        return NULL;
    n->count = list.count;
    n->items = node_list_items(p, &list);
    return n;
}

static struct node *parse_dict(struct parser *p) {
    struct node *n = parser_node(p, N_DICT);
    struct node_list list = {0};
    p->tokens++;
    while (!p->rc && !token_is_op(p, OP('}'))) {
        if (list.count)
            expect_op(p, OP(','));
        if (token_is_op(p, OP('}')))
            break;
        node_list_push(p, &list, parse_expression(p, true));
        expect_op(p, OP(':'));
        node_list_push(p, &list, parse_expression(p, true));
    }
    expect_op(p, OP('}'));
    if (p->rc)
        return NULL;
    n->count = list.count;
    n->items = node_list_items(p, &list);
    return n;
}

struct node *parse_primary(struct parser *p) {
    if (p->rc)
        return NULL;
    switch (p->tokens->kind) {
    case T_NAME: return parse_name(p);
    case T_STRING: return parse_string(p);
    case T_INT:
    case T_FLOAT: {
        struct node *n = constant(p, p->tokens->number);
        p->tokens++;
        return n;
    }
    default: break;
    }
    if (accept_op(p, OP('('))) {
        struct node *n = parse_tuple(p, true, true);
        expect_op(p, OP(')'));
        return n;
    }
    if (token_is_op(p, OP('[')))
        return parse_list(p);
    if (token_is_op(p, OP('{')))
        return parse_dict(p);
    parser_unexpected(p);
    return NULL;
}

/* ---- postfix ---- */

struct node *parse_attribute(struct parser *p, struct node *of) {
    struct node *n = NULL;
    if (p->tokens->kind == T_NAME) {
        n = parser_node(p, N_ATTR);
        if (!n)
            return NULL;
        n->value = tvalue_string(p->tokens->text);
        n->hash = tdict_hash(n->value);
        n->method = method_find(p->tokens->text);
    } else if (p->tokens->kind == T_INT) {
        n = parser_node(p, N_ITEM);
        if (n)
            n->b = constant(p, p->tokens->number);
    } else {
        parser_unexpected(p);
    }
    if (!n || p->rc)
        return NULL;
    p->tokens++;
    n->a = of;
    n->member = n->kind == N_ATTR && !n->method && of && of->kind == N_NAME;
    return parser_grow(p, n, of, NULL);
}

/* One subscript: an expression, or a slice whose operands may be missing. */
static struct node *parse_subscripted(struct parser *p) {
    struct node *operands[3] = {NULL, NULL, NULL};
    if (!token_is_op(p, OP(':'))) {
        operands[0] = parse_expression(p, true);
        if (p->rc || !token_is_op(p, OP(':')))
            return operands[0];
    }
    struct node *n = parser_node(p, N_SLICE);
    for (int i = 1; i < 3 && accept_op(p, OP(':')); i++)
        if (!token_is_op(p, OP(':')) && !token_is_op(p, OP(']')) && !token_is_op(p, OP(',')))
            operands[i] = parse_expression(p, true);
    if (p->rc)
        return NULL;
    n->items = parser_alloc(p, sizeof operands);
    if (!n->items)
        return NULL;
    memcpy(n->items, operands, sizeof operands);
    n->count = 3;
    return n;
}

/* A slice that still lacks what it is taken of; x[:] is one that has it. */
static bool is_open_slice(const struct node *n) {
    return n->kind == N_SLICE && !n->a;
}

static struct node *parse_subscript(struct parser *p, struct node *of) {
    struct node_list list = {0};
    while (!p->rc && !token_is_op(p, OP(']'))) {
        if (list.count)
            expect_op(p, OP(','));
        node_list_push(p, &list, parse_subscripted(p));
    }
    expect_op(p, OP(']'));
    if (p->rc)
        return NULL;
    struct node *arg = list.count ? list.items[0] : NULL;
    if (list.count == 1 && is_open_slice(arg)) {
        arg->a = of;
        return parser_grow(p, arg, of, NULL);
    }
    for (uint32_t i = 0; i < list.count; i++)
        if (is_open_slice(list.items[i]))
            parser_fail(p, ERR_UNSUPPORTED, "a slice in a tuple");
    if (list.count != 1) {
        arg = parser_node(p, N_TUPLE);
        if (!arg)
            return NULL;
        arg->count = list.count;
        arg->items = node_list_items(p, &list);
    }
    struct node *n = parser_binary(p, N_ITEM, of, arg);
    if (n)
        n->member = of->kind == N_NAME && arg->kind == N_CONST && arg->value.kind == TVALUE_STRING;
    return n;
}

static void push_keyword(struct parser *p, struct call_args *args, struct bytes name,
                         struct node *value, uint32_t *cap) {
    if (p->rc)
        return;
    if (args->keyword_count == *cap) {
        uint32_t bigger = *cap ? *cap * 2 : 4;
        struct keyword *keywords = parser_alloc(p, bigger * sizeof *keywords);
        if (!keywords)
            return;
        if (*cap)
            memcpy(keywords, args->keywords, *cap * sizeof *keywords);
        args->keywords = keywords;
        *cap = bigger;
    }
    args->keywords[args->keyword_count++] = (struct keyword){name, value};
}

struct call_args *parse_call_args(struct parser *p) {
    struct call_args *args = parser_alloc(p, sizeof *args);
    struct node_list list = {0};
    uint32_t keyword_cap = 0;
    bool more = false;
    while (!p->rc && !token_is_op(p, OP(')'))) {
        if (more)
            expect_op(p, OP(','));
        if (more && token_is_op(p, OP(')')))
            break;
        more = true;
        if (accept_op(p, OP('*'))) {
            if (args->star)
                parser_unexpected(p);
            args->star = parse_expression(p, true);
        } else if (accept_op(p, OP2('*', '*'))) {
            if (args->double_star)
                parser_unexpected(p);
            args->double_star = parse_expression(p, true);
        } else if (p->tokens->kind == T_NAME && p->tokens[1].kind == T_OP &&
                   p->tokens[1].op == OP('=')) {
            struct bytes name = p->tokens->text;
            p->tokens += 2;
            push_keyword(p, args, name, parse_expression(p, true), &keyword_cap);
        } else {
            if (args->keyword_count || args->star)
                parser_unexpected(p);
            node_list_push(p, &list, parse_expression(p, true));
        }
    }
    expect_op(p, OP(')'));
    if (p->rc)
        return NULL;
    args->count = list.count;
    args->items = node_list_items(p, &list);
    return args;
}

struct node *parse_call_of(struct parser *p, struct node *callee) {
    struct node *n = parser_node(p, N_CALL);
    struct call_args *args = parse_call_args(p);
    if (p->rc)
        return NULL;
    n->a = callee;
    n->args = args;
    return parser_grow(p, n, callee, NULL);
}

struct node *parse_postfix(struct parser *p, struct node *n) {
    while (!p->rc) {
        if (accept_op(p, OP('.')))
            n = parse_attribute(p, n);
        else if (accept_op(p, OP('[')))
            n = parse_subscript(p, n);
        else if (accept_op(p, OP('(')))
            n = parse_call_of(p, n);
        else
            break;
    }
    return p->rc ? NULL : n;
}

/* ---- filters and tests ---- */

/* "name" or "a.b": filters and tests have no dots that we know, so a dotted name is unknown. */
static struct bytes parse_dotted(struct parser *p) {
    if (p->tokens->kind != T_NAME) {
        parser_unexpected(p);
        return bytes_of(NULL, 0);
    }
    struct bytes name = p->tokens->text;
    p->tokens++;
    while (accept_op(p, OP('.'))) {
        if (p->tokens->kind != T_NAME)
            parser_unexpected(p);
        name = bytes_str("?");
        p->tokens++;
    }
    return name;
}

static void note_unknown(struct parser *p, struct node *n, struct bytes name) {
    n->value = tvalue_string(name);
    if (p->soft)
        return;
    if (!p->unknown_count++)
        p->unknown = (struct token){.line = n->line, .text = name};
}

static struct node *parse_filter(struct parser *p, struct node *input) {
    struct node *n = parser_node(p, N_FILTER);
    struct bytes name = parse_dotted(p);
    struct call_args *args = accept_op(p, OP('(')) ? parse_call_args(p) : NULL;
    if (p->rc)
        return NULL;
    int function = filter_find(name);
    if (function < 0)
        note_unknown(p, n, name);
    n->a = input;
    n->args = args;
    n->function = function < 0 ? FUNCTION_UNKNOWN : (uint16_t)function;
    return parser_grow(p, n, input, NULL);
}

struct node *parse_filters(struct parser *p, struct node *input, bool begun) {
    while (!p->rc && (begun || accept_op(p, OP('|')))) {
        begun = false;
        input = parse_filter(p, input);
    }
    return p->rc ? NULL : input;
}

/* A test's argument without parentheses: `x is divisibleby 3`. */
static bool begins_test_argument(const struct parser *p) {
    switch (p->tokens->kind) {
    case T_NAME:
        return !token_is_name(p, "else") && !token_is_name(p, "or") && !token_is_name(p, "and");
    case T_STRING:
    case T_INT:
    case T_FLOAT: return true;
    default: return token_is_op(p, OP('[')) || token_is_op(p, OP('{'));
    }
}

static struct node *parse_test(struct parser *p, struct node *of) {
    struct node *n = parser_node(p, N_TEST), *argument;
    bool negated = accept_name(p, "not");
    struct bytes name = parse_dotted(p);
    struct call_args *args = NULL;
    if (accept_op(p, OP('('))) {
        args = parse_call_args(p);
    } else if (!p->rc && begins_test_argument(p)) {
        if (token_is_name(p, "is"))
            parser_fail(p, ERR_INVALID, "you cannot chain multiple tests with is");
        args = parser_alloc(p, sizeof *args);
        argument = parse_postfix(p, parse_primary(p));
        if (p->rc)
            return NULL;
        args->items = parser_alloc(p, sizeof *args->items);
        if (p->rc)
            return NULL;
        args->items[0] = argument;
        args->count = 1;
    }
    if (p->rc)
        return NULL;
    int function = test_find(name);
    if (function < 0)
        note_unknown(p, n, name);
    n->a = of;
    n->args = args;
    n->op = negated;
    n->function = function < 0 ? FUNCTION_UNKNOWN : (uint16_t)function;
    return parser_grow(p, n, of, NULL);
}

struct node *parse_filters_and_tests(struct parser *p, struct node *n) {
    while (!p->rc) {
        if (accept_op(p, OP('|')))
            n = parse_filter(p, n);
        else if (accept_name(p, "is"))
            n = parse_test(p, n);
        else if (accept_op(p, OP('(')))
            n = parse_call_of(p, n);
        else
            break;
    }
    return p->rc ? NULL : n;
}
