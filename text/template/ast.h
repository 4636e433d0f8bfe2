/*
 * ast.h - a template's tokens and tree; for the files here only.
 *
 * Everything lies in the template's arena. Names are numbered, so a render keeps its variables in
 * arrays.
 */
#ifndef TEXT_TEMPLATE_AST_H
#define TEXT_TEMPLATE_AST_H

#include "base/vec.h"
#include "text/template/template.h"
#include "text/template/value_data.h"

/* ---- tokens ---- */

enum token_kind {
    T_EOF,
    T_DATA,
    T_PRINT_BEGIN, /* {{ */
    T_PRINT_END,
    T_BLOCK_BEGIN, /* {% */
    T_BLOCK_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_OP, /* op: the characters, up to two, as first | second << 8 */
};

struct token {
    enum token_kind kind;
    uint32_t line;
    uint32_t op;
    struct bytes text; /* DATA, NAME; STRING: decoded */
    struct tvalue number;
};

#define OP(a)     ((uint32_t)(a))
#define OP2(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)

struct lexed {
    VEC(struct token) tokens; /* ends with T_EOF; released by the caller */
};

/* Cuts source into tokens: white space control is done here. Texts lie in the arena. */
MUST_CHECK int template_lex(struct arena *a, struct bytes source, struct lexed *out,
                            struct error *err);

/* ---- tree ---- */

enum node_kind {
    /* expressions */
    N_CONST,     /* value; method and hash as of N_ATTR */
    N_NAME,      /* name */
    N_LIST,      /* items */
    N_TUPLE,     /* items */
    N_DICT,      /* items: key, value, key, value, ... */
    N_ATTR,      /* a.value; method: id of value as a method's name; hash of value */
    N_ITEM,      /* a[b] */
    N_SLICE,     /* a[items[0] : items[1] : items[2]], each may be NULL */
    N_CALL,      /* a(args) */
    N_FILTER,    /* a | function(args); a NULL in filter blocks */
    N_TEST,      /* a is function(args); op 1: negated */
    N_NOT,       /* a */
    N_NEGATE,    /* a */
    N_PLUS,      /* +a */
    N_AND,       /* a, b */
    N_OR,        /* a, b */
    N_JOIN,      /* items ~ items; op: enum escape_mode */
    N_ADD,       /* items + items, from the left */
    N_BINARY,    /* a op b: - * / // % ** */
    N_COMPARE,   /* a, then items with ops */
    N_CONDITION, /* a if b else c (c NULL: undefined) */
    /* statements; `next` links a body */
    N_TEXT,  /* value */
    N_PRINT, /* a; op: enum escape_mode */
    /* items: condition, body, condition, body, ...; a condition NULL: else. Bodies may be NULL */
    N_IF,
    /* a: target, b: iterable, c: condition or NULL; items: body, else body; op 1: recursive */
    N_FOR,
    N_SET,          /* a: target, b: value */
    N_SET_BLOCK,    /* a: target, b: body, c: filter chain or NULL */
    N_MACRO,        /* name; macro */
    N_CALL_BLOCK,   /* a: call; macro: the body */
    N_FILTER_BLOCK, /* a: filter chain; b: body */
    N_WITH,         /* items: target, value, ...; a: body */
    N_GROUP,        /* a: body, in a scope of its own */
    N_AUTOESCAPE,   /* a: condition; b: body */
    N_BLOCK,        /* block */
    N_BREAK,
    N_CONTINUE,
    N_OTHER_FILE, /* include and its like, which fail when they are reached */
};

enum compare_op { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE, CMP_IN, CMP_NOT_IN };

struct node;
struct keyword {
    struct bytes name;
    struct node *value;
};

struct call_args {
    struct node **items;
    struct keyword *keywords;
    struct node *star, *double_star; /* *args, **kwargs */
    uint32_t count, keyword_count;
};

struct macro_def {
    struct bytes name;
    uint32_t *params;       /* names */
    struct node **defaults; /* by parameter; NULL: none */
    uint32_t param_count;
    uint32_t varargs_name, kwargs_name, caller_name; /* UINT32_MAX unless the body uses them */
    struct node *body;
    struct template_scope *scope;
};

/* What a scope needs to know of its names: scope.c. */
struct template_scope {
    uint32_t *hidden; /* names that are undefined from its start */
    uint32_t hidden_count;
    /* while parsing */
    uint32_t use_count, use_cap;
    struct name_use {
        uint32_t name;
        bool assigned;
    } * uses;
    struct template_scope *parent; /* NULL: the template's or a block's */
    struct template_scope *next;   /* made before this one */
    uint64_t *used, *own, *outer, *inner;
};

/* A {% block %}, which runs where it stands and where self.name() is called. */
struct template_block {
    struct bytes name;
    struct node *body;
    struct template_scope *scope;
    bool scoped;   /* sees the variables around it, else only the template's */
    bool required; /* may not run: another template would have to fill it */
};

/* Whether what is printed is escaped; of {% autoescape %}. */
enum escape_mode { ESCAPE_OFF, ESCAPE_ON, ESCAPE_ASK /* the run */ };

struct node {
    uint8_t kind; /* enum node_kind */
    uint8_t method;
    /* N_ATTR or N_ITEM of a name, whose key is a string and of a dict never a method */
    bool member;
    uint16_t op;
    uint16_t depth;    /* of the tree below */
    uint16_t function; /* of filters and tests */
    uint32_t line, name, count;
    struct node *a, *b, *c, *next;
    struct node **items;
    uint8_t *ops; /* of N_COMPARE */
    struct call_args *args;
    union {
        struct macro_def *macro;
        struct template_block *block;
        struct template_scope *
            scope; /* of the body of N_FOR, N_SET_BLOCK, N_FILTER_BLOCK, N_WITH, N_GROUP, N_AUTOESCAPE */
    };
    struct tvalue value;
    uint64_t hash;
};

/* A name's value when the context has none: a function or an undefined value. */
struct template_global {
    uint64_t hash;
    struct tvalue value;
};

struct template {
    struct arena arena;
    struct node *body;
    struct template_scope *scope;
    VEC(struct bytes) names;         /* by number */
    struct template_global *globals; /* by name */
    VEC(struct template_block *) blocks;
    uint32_t loop_name; /* number of the name "loop"; UINT32_MAX: not used */
    bool wants_content_parts;
};

/* NULL: there is none. */
const struct template_block *template_find_block(const struct template *t, struct bytes name);

enum { FUNCTION_UNKNOWN = UINT16_MAX }; /* the name is in value; an error when it is reached */

enum { TEMPLATE_NAMES_MAX = 4096, TEMPLATE_CHAIN_MAX = 400 };

/* ---- parser: parse.c and parse_scopes.c have statements, operators.c and expression.c the rest
 * ---- */

struct parser {
    struct template *t;
    const struct token *tokens; /* current one first */
    struct error *err;
    int rc; /* sticky */
    unsigned depth, loop_depth;
    /* inside an if: unknown filters and tests are errors only when reached */
    bool soft;
    unsigned unknown_count; /* those met elsewhere; unknown_name is the first */
    struct token unknown;
    bool uses_varargs, uses_kwargs, uses_caller; /* in the macro being read */
    enum escape_mode escape;
    struct template_scope *scope, *scopes; /* the current one; all, newest first */
    size_t scope_count;
    unsigned branch_depth; /* ifs around, in the current scope */
};

struct node *parser_node(struct parser *p, enum node_kind kind); /* NULL once p->rc */
/* Keeps the first error, with the line of the current token; returns p->rc. */
int parser_fail(struct parser *p, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Zeroed memory of the tree; NULL once p->rc. */
void *parser_alloc(struct parser *p, size_t size);
/* The number of a name in this template. */
uint32_t parser_name(struct parser *p, struct bytes name);
bool parser_enter(struct parser *p); /* one level deeper; false past the limit */
/* One level up. */
void parser_leave(struct parser *p);
/* Whether the current token is this operator. */
bool token_is_op(const struct parser *p, uint32_t op);
/* Whether it is this name. */
bool token_is_name(const struct parser *p, const char *name);
/* Takes the current token if it is this operator. */
bool accept_op(struct parser *p, uint32_t op);
/* Takes the current token if it is this name. */
bool accept_name(struct parser *p, const char *name);
/* Takes this operator, or fails. */
void expect_op(struct parser *p, uint32_t op);
/* Fails: the current token has no place here. */
void parser_unexpected(struct parser *p);

/* Gives n the depth of its operands (NULL: none) plus one. Long chains are refused, since
 * evaluation recurses along them. NULL once p->rc. */
struct node *parser_grow(struct parser *p, struct node *n, const struct node *a,
                         const struct node *b);
/* A node with two operands; NULL once p->rc. */
struct node *parser_binary(struct parser *p, enum node_kind kind, struct node *a, struct node *b);

/* Scopes while parsing: scope.c. What parser_leave_scope returns goes into the tree. */
struct scope_mark {
    struct template_scope *scope;
    unsigned branch_depth;
};
/* alone: sees no scope around it */
struct scope_mark parser_enter_scope(struct parser *p, bool alone);
/* Back into a scope that was left: a call block's, whose parameters stand before its body. */
struct scope_mark parser_reenter_scope(struct parser *p, struct template_scope *scope);
/* Back to where the mark was taken; returns the scope left. */
struct template_scope *parser_leave_scope(struct parser *p, struct scope_mark mark);
/* In the order in which jinja2 looks at a scope: what is assigned comes before its target. */
void parser_uses(struct parser *p, uint32_t name);
/* The names of a target are set here. */
void parser_assigns(struct parser *p, const struct node *target);
/* The names of a target are parameters or loop variables of the scope. */
void parser_declares(struct parser *p, const struct node *target);
/* After parsing: which names each scope hides (scope.c). */
void parser_hide_names(struct parser *p);

/* A literal, a name, or something in brackets. */
struct node *parse_primary(struct parser *p);
/* n with the attributes, items and calls behind it. */
struct node *parse_postfix(struct parser *p, struct node *n);
/* n with the filters and tests behind it. */
struct node *parse_filters_and_tests(struct parser *p, struct node *n);
/* Behind the dot. */
struct node *parse_attribute(struct parser *p, struct node *of);
/* An expression; with_condition: `a if b else c` too. */
struct node *parse_expression(struct parser *p, bool with_condition);
/* Expressions separated by commas make a tuple; a single one stays itself. */
struct node *parse_tuple(struct parser *p, bool with_condition, bool explicit_parentheses);
/* One name, or (a, b), or a.b where namespaces are allowed. */
struct node *parse_single_target(struct parser *p, bool with_namespace);
/* The same, or several separated by commas. */
struct node *parse_target(struct parser *p, bool with_namespace);
/* a | filter | filter; `input` may be NULL (filter blocks). inline_only: the first filter's name
 * has no pipe before it. */
struct node *parse_filters(struct parser *p, struct node *input, bool begun);
/* "%}" body "{% end": the end's name is taken. */
struct node *parse_block(struct parser *p, const char *end);
/* Behind the tag's name. */
struct node *parse_macro(struct parser *p);
/* {% call %}, to its end; the same for those below. */
struct node *parse_call_block(struct parser *p);
/* {% filter %}. */
struct node *parse_filter_block(struct parser *p);
/* {% with %}. */
struct node *parse_with(struct parser *p);
/* {% generation %}, transformers' own. */
struct node *parse_generation(struct parser *p);
/* {% autoescape %}. */
struct node *parse_autoescape(struct parser *p);
/* {% block %}. */
struct node *parse_named_block(struct parser *p);
/* After "(": up to and with ")". */
struct call_args *parse_call_args(struct parser *p);
/* After "(": the call of callee. */
struct node *parse_call_of(struct parser *p, struct node *callee);

/* A growing list while parsing: nodes are copied to the arena at the end. */
struct node_list {
    struct node *fixed[16];
    struct node **items;
    uint32_t count, cap;
};
/* Appends. */
void node_list_push(struct parser *p, struct node_list *list, struct node *node);
/* The nodes in the arena; the list is empty then. */
struct node **node_list_items(struct parser *p, struct node_list *list);

#endif
