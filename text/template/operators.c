/*
 * operators.c - operators in jinja2's order of precedence, tuples, and what may be assigned to.
 */
#include "text/template/ast.h"
#include "text/template/run.h"

static struct node *parse_or(struct parser *p);
static struct node *parse_unary(struct parser *p, bool with_filter);

static struct node *parse_sign(struct parser *p, enum node_kind kind) {
    if (!parser_enter(p))
        return NULL;
    struct node *operand = parse_unary(p, false);
    parser_leave(p);
    return parser_binary(p, kind, operand, NULL);
}

static struct node *parse_unary(struct parser *p, bool with_filter) {
    struct node *n;
    if (accept_op(p, OP('-')))
        n = parse_sign(p, N_NEGATE);
    else if (accept_op(p, OP('+')))
        n = parse_sign(p, N_PLUS);
    else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    return with_filter ? parse_filters_and_tests(p, n) : n;
}

static struct node *parse_power(struct parser *p) {
    struct node *n = parse_unary(p, true);
    while (accept_op(p, OP2('*', '*'))) {
        n = parser_binary(p, N_BINARY, n, parse_unary(p, true));
        if (n)
            n->op = OP2('*', '*');
    }
    return n;
}

static struct node *parse_product(struct parser *p) {
    static const uint32_t OPS[] = {OP('*'), OP('/'), OP2('/', '/'), OP('%')};
    struct node *n = parse_power(p);
    for (size_t i = 0; i < ARRAY_LEN(OPS); i++) {
        if (!accept_op(p, OPS[i]))
            continue;
        n = parser_binary(p, N_BINARY, n, parse_power(p));
        if (n)
            n->op = (uint16_t)OPS[i];
        i = (size_t)-1; /* look for any of them again */
    }
    return n;
}

static struct node *many(struct parser *p, enum node_kind kind, struct node_list *list) {
    if (p->rc)
        return NULL;
    struct node *n = parser_node(p, kind);
    if (!n)
        return NULL;
    n->count = list->count;
    n->items = node_list_items(p, list);
    for (uint32_t i = 0; i < list->count && !p->rc; i++)
        n = parser_grow(p, n, list->items[i], NULL);
    return p->rc ? NULL : n;
}

static struct node *parse_join(struct parser *p) {
    struct node_list list = {0};
    struct node *first = parse_product(p);
    if (p->rc || !token_is_op(p, OP('~')))
        return first;
    node_list_push(p, &list, first);
    while (accept_op(p, OP('~')))
        node_list_push(p, &list, parse_product(p));
    struct node *n = many(p, N_JOIN, &list);
    if (n)
        n->op = p->escape;
    return n;
}

/* Sums: runs of + are one node. */
static struct node *parse_sum(struct parser *p) {
    struct node *n = parse_join(p);
    while (!p->rc && (token_is_op(p, OP('+')) || token_is_op(p, OP('-')))) {
        if (accept_op(p, OP('-'))) {
            n = parser_binary(p, N_BINARY, n, parse_join(p));
            if (n)
                n->op = OP('-');
            continue;
        }
        struct node_list list = {0};
        node_list_push(p, &list, n);
        while (accept_op(p, OP('+')))
            node_list_push(p, &list, parse_join(p));
        n = many(p, N_ADD, &list);
    }
    return n;
}

static int take_compare(struct parser *p) {
    static const uint32_t OPS[] = {OP2('=', '='), OP2('!', '='), OP('<'),
                                   OP2('<', '='), OP('>'),       OP2('>', '=')};
    for (size_t i = 0; i < ARRAY_LEN(OPS); i++)
        if (accept_op(p, OPS[i]))
            return (int)i;
    if (accept_name(p, "in"))
        return CMP_IN;
    if (!p->rc && token_is_name(p, "not") && p->tokens[1].kind == T_NAME &&
        bytes_equal(p->tokens[1].text, bytes_str("in"))) {
        p->tokens += 2;
        return CMP_NOT_IN;
    }
    return -1;
}

static struct node *parse_compare(struct parser *p) {
    struct node *first = parse_sum(p);
    struct node_list list = {0};
    uint8_t ops[64];
    int op;
    while (!p->rc && (op = take_compare(p)) >= 0) {
        if (list.count == sizeof ops)
            parser_fail(p, ERR_LIMIT, "too many comparisons in a row");
        if (p->rc)
            return NULL;
        ops[list.count] = (uint8_t)op;
        node_list_push(p, &list, parse_sum(p));
    }
    if (!list.count || p->rc)
        return p->rc ? NULL : first;
    struct node *n = many(p, N_COMPARE, &list);
    if (!n)
        return NULL;
    n->a = first;
    n->ops = parser_alloc(p, list.count);
    if (n->ops)
        memcpy(n->ops, ops, list.count);
    return parser_grow(p, n, first, NULL);
}

static struct node *parse_not(struct parser *p) {
    if (!accept_name(p, "not"))
        return parse_compare(p);
    if (!parser_enter(p))
        return NULL;
    struct node *operand = parse_not(p);
    parser_leave(p);
    return parser_binary(p, N_NOT, operand, NULL);
}

static struct node *parse_and(struct parser *p) {
    struct node *n = parse_not(p);
    while (accept_name(p, "and"))
        n = parser_binary(p, N_AND, n, parse_not(p));
    return n;
}

static struct node *parse_or(struct parser *p) {
    struct node *n = parse_and(p);
    while (accept_name(p, "or"))
        n = parser_binary(p, N_OR, n, parse_and(p));
    return n;
}

static struct node *parse_condition(struct parser *p) {
    unsigned unknown_before = p->unknown_count;
    bool soft = p->soft;
    struct node *n = parse_or(p);
    while (accept_name(p, "if")) {
        /* all parts of a condition are soft, also the one already read */
        p->unknown_count = unknown_before;
        p->soft = true;
        struct node *condition = parse_or(p);
        struct node *otherwise = NULL;
        if (accept_name(p, "else") && parser_enter(p)) {
            otherwise = parse_condition(p);
            parser_leave(p);
        }
        struct node *whole = parser_binary(p, N_CONDITION, n, condition);
        if (!whole)
            break;
        whole->c = otherwise;
        n = parser_grow(p, whole, otherwise, NULL);
    }
    p->soft = soft;
    return n;
}

struct node *parse_expression(struct parser *p, bool with_condition) {
    if (!parser_enter(p))
        return NULL;
    struct node *n = with_condition ? parse_condition(p) : parse_or(p);
    parser_leave(p);
    return p->rc ? NULL : n;
}

static bool ends_tuple(const struct parser *p) {
    return p->tokens->kind == T_PRINT_END || p->tokens->kind == T_BLOCK_END ||
           token_is_op(p, OP(')'));
}

struct node *parse_tuple(struct parser *p, bool with_condition, bool explicit_parentheses) {
    struct node_list list = {0};
    bool comma = false;
    while (!p->rc) {
        if (list.count) {
            if (!accept_op(p, OP(',')))
                break;
            comma = true;
        }
        if (ends_tuple(p) || (list.count && token_is_name(p, "recursive")))
            break;
        node_list_push(p, &list, parse_expression(p, with_condition));
    }
    if (p->rc)
        return NULL;
    if (!comma && list.count)
        return list.items[0];
    if (!list.count && !explicit_parentheses) {
        parser_unexpected(p);
        return NULL;
    }
    return many(p, N_TUPLE, &list);
}

/* ---- targets ---- */

static bool is_reserved(struct bytes name) {
    static const char *const NAMES[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (bytes_equal(name, bytes_str(NAMES[i])))
            return true;
    return false;
}

struct node *parse_single_target(struct parser *p, bool with_namespace) {
    if (accept_op(p, OP('('))) {
        if (!parser_enter(p))
            return NULL;
        struct node *n = parse_target(p, with_namespace);
        parser_leave(p);
        expect_op(p, OP(')'));
        return n;
    }
    if (p->rc || p->tokens->kind != T_NAME || is_reserved(p->tokens->text)) {
        parser_unexpected(p);
        return NULL;
    }
    struct node *n = parser_node(p, N_NAME);
    if (!n)
        return NULL;
    n->name = parser_name(p, p->tokens->text);
    p->tokens++;
    if (!with_namespace || !accept_op(p, OP('.')))
        return n;
    if (p->tokens->kind != T_NAME) {
        parser_unexpected(p);
        return NULL;
    }
    return parse_attribute(p, n);
}

struct node *parse_target(struct parser *p, bool with_namespace) {
    struct node_list list = {0};
    struct node *first = parse_single_target(p, with_namespace);
    if (p->rc || !token_is_op(p, OP(',')))
        return first;
    node_list_push(p, &list, first);
    while (accept_op(p, OP(','))) {
        if (token_is_name(p, "in") || token_is_op(p, OP('=')))
            break;
        node_list_push(p, &list, parse_single_target(p, with_namespace));
    }
    return many(p, N_TUPLE, &list);
}
