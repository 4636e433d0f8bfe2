/*
 * program.c - from rules of expressions to a program.
 *
 * Each rule becomes an nfa over bytes in which an action is one more symbol, then the smallest dfa
 * of it, then states. Actions with equal arguments are one symbol, so alternatives that begin with
 * the same call are walked once. Rules that are small and not recursive are copied into their
 * callers. Objects and counted strings are laid out by hand: they are deterministic as they are.
 */
#include "grammar/program.h"

#include <pthread.h>

enum {
    INLINE_SIZE = 48,    /* expressions of a rule that is copied into its callers */
    EXPAND_STATES = 256, /* repetitions of at most so many expressions are written out */
    CALL_DEPTH = 32,     /* of rules copied into each other */
};

struct symbol { /* an action on its way through the dfa */
    uint8_t kind;
    uint32_t a, b;
};

/* What a call may go to: numbers from here on are no rules of the builder. */
struct counted {
    uint32_t min, max;
};

struct compiler {
    struct builder *b;
    struct program *p;
    VEC(struct symbol) symbols;
    VEC(struct counted) strings; /* counted strings met so far */
    uint32_t *size;              /* [rule]: its expressions, or FA_NONE: too many, or recursive */
    bool *nullable;              /* [rule] */
    bool *productive;            /* [rule] */
    uint32_t *starts;            /* [rule, then object]: state */
    VEC(uint32_t) string_starts; /* [strings] */
    uint32_t copying;            /* rules that are being copied into each other */
    struct error *err;
};

static uint32_t object_target(const struct compiler *c, uint32_t object) {
    return (uint32_t)c->b->rules.count + object;
}
static uint32_t string_target(const struct compiler *c, uint32_t string) {
    return (uint32_t)(c->b->rules.count + c->b->objects.count) + string;
}

static uint32_t symbol_of(struct compiler *c, struct symbol s) {
    for (uint32_t i = 0; i < c->symbols.count; i++) {
        const struct symbol *x = &c->symbols.items[i];
        if (x->kind == s.kind && x->a == s.a && x->b == s.b)
            return FA_ACTION + i;
    }
    vec_push(&c->symbols, s);
    return FA_ACTION + (uint32_t)c->symbols.count - 1;
}

static void action_edge(struct compiler *c, struct nfa *n, uint32_t from, struct symbol s,
                        uint32_t to) {
    uint32_t symbol = symbol_of(c, s);
    nfa_edge(n, from, symbol, symbol, to);
}

/* ---- what is known of rules before they are compiled ---- */

static bool expr_nullable(const struct compiler *c, uint32_t e) {
    const struct builder *b = c->b;
    const struct expr x = b->exprs.items[e];
    switch ((enum expr_kind)x.kind) {
    case EXPR_EMPTY: return true;
    case EXPR_RULE: return c->nullable[x.a];
    case EXPR_REPEAT: return x.b == 0 || expr_nullable(c, x.a);
    case EXPR_DFA:
    case EXPR_QUOTED: return b->dfas.items[x.a].states.items[0].label != FA_NONE;
    case EXPR_CONCAT:
        for (uint32_t i = 0; i < x.b; i++)
            if (!expr_nullable(c, b->kids.items[x.a + i]))
                return false;
        return true;
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b; i++)
            if (expr_nullable(c, b->kids.items[x.a + i]))
                return true;
        return false;
    default: return false;
    }
}

/* A text is made in the end: alternatives that never end are as good as none. */
static bool expr_productive(const struct compiler *c, uint32_t e) {
    const struct builder *b = c->b;
    const struct expr x = b->exprs.items[e];
    switch ((enum expr_kind)x.kind) {
    case EXPR_NEVER: return false;
    case EXPR_RULE: return c->productive[x.a];
    case EXPR_REPEAT: return x.b == 0 || expr_productive(c, x.a);
    case EXPR_OBJECT: {
        const struct object_rules *o = &b->objects.items[x.a];
        for (uint32_t i = 0; o->required && i < o->property_count; i++)
            if ((o->required[i / 64] >> i % 64 & 1) && !c->productive[o->values.items[i]])
                return false;
        uint32_t some = 0;
        for (size_t i = 0; i < o->somes.count; i++)
            some |= c->productive[o->somes.items[i].rule] ? o->somes.items[i].set : 0;
        return !(o->some & ~some);
    }
    case EXPR_CONCAT:
        for (uint32_t i = 0; i < x.b; i++)
            if (!expr_productive(c, b->kids.items[x.a + i]))
                return false;
        return true;
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b; i++)
            if (expr_productive(c, b->kids.items[x.a + i]))
                return true;
        return false;
    default: return true;
    }
}

/* Adds an edge from each rule that e names to the rule that e is of. */
static void add_uses(const struct compiler *c, uint32_t e, struct nfa *uses, uint32_t rule) {
    const struct builder *b = c->b;
    const struct expr x = b->exprs.items[e];
    if (x.kind == EXPR_RULE)
        nfa_free_edge(uses, x.a, rule);
    else if (x.kind == EXPR_REPEAT)
        add_uses(c, x.a, uses, rule);
    else if (x.kind == EXPR_CONCAT || x.kind == EXPR_ALT)
        for (uint32_t i = 0; i < x.b; i++)
            add_uses(c, b->kids.items[x.a + i], uses, rule);
    else if (x.kind == EXPR_OBJECT) {
        const struct object_rules *o = &b->objects.items[x.a];
        for (size_t i = 0; i < o->values.count; i++)
            nfa_free_edge(uses, o->values.items[i], rule);
        for (size_t i = 0; i < o->somes.count; i++)
            nfa_free_edge(uses, o->somes.items[i].rule, rule);
    }
}

/* The least set of rules for which `holds` of their expressions, given the set. */
static void least_set(const struct compiler *c, const struct nfa *uses, bool *set,
                      bool (*holds)(const struct compiler *c, uint32_t e)) {
    VEC(uint32_t) work = {0};
    for (uint32_t r = 0; r < c->b->rules.count; r++)
        vec_push(&work, r);
    while (work.count) {
        uint32_t r = work.items[--work.count];
        if (set[r] || !holds(c, c->b->rules.items[r]))
            continue;
        set[r] = true;
        for (uint32_t e = uses->first.items[r]; e != FA_NONE; e = uses->edges.items[e].next)
            if (!set[uses->edges.items[e].to])
                vec_push(&work, uses->edges.items[e].to);
    }
    vec_release(&work);
}

static void find_sets(struct compiler *c) {
    struct nfa uses = {0};
    for (uint32_t r = 0; r < c->b->rules.count; r++)
        (void)nfa_state(&uses);
    for (uint32_t r = 0; r < c->b->rules.count; r++)
        add_uses(c, c->b->rules.items[r], &uses, r);
    least_set(c, &uses, c->nullable, expr_nullable);
    least_set(c, &uses, c->productive, expr_productive);
    nfa_release(&uses);
}

/* Adds the rules that e may call before it reads a byte. */
static void first_calls(const struct compiler *c, uint32_t e, struct nfa *graph, uint32_t rule) {
    const struct builder *b = c->b;
    const struct expr x = b->exprs.items[e];
    switch ((enum expr_kind)x.kind) {
    case EXPR_RULE: nfa_free_edge(graph, rule, x.a); return;
    case EXPR_REPEAT: first_calls(c, x.a, graph, rule); return;
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b; i++)
            first_calls(c, b->kids.items[x.a + i], graph, rule);
        return;
    case EXPR_CONCAT:
        for (uint32_t i = 0; i < x.b; i++) {
            first_calls(c, b->kids.items[x.a + i], graph, rule);
            if (!expr_nullable(c, b->kids.items[x.a + i]))
                return;
        }
        return;
    default: return;
    }
}

/* Takes away rules that nobody first calls until none is left, or a circle is. */
static int refuse_left_recursion(struct compiler *c) {
    uint32_t count = (uint32_t)c->b->rules.count, gone = 0;
    struct nfa graph = {0};
    uint32_t *callers = mem_calloc(count + 1, sizeof *callers);
    VEC(uint32_t) work = {0};
    for (uint32_t r = 0; r < count; r++)
        (void)nfa_state(&graph);
    for (uint32_t r = 0; r < count; r++)
        first_calls(c, c->b->rules.items[r], &graph, r);
    for (size_t e = 0; e < graph.edges.count; e++)
        callers[graph.edges.items[e].to]++;
    for (uint32_t r = 0; r < count; r++)
        if (!callers[r])
            vec_push(&work, r);
    while (work.count) {
        uint32_t r = work.items[--work.count];
        gone++;
        for (uint32_t e = graph.first.items[r]; e != FA_NONE; e = graph.edges.items[e].next)
            if (--callers[graph.edges.items[e].to] == 0)
                vec_push(&work, graph.edges.items[e].to);
    }
    vec_release(&work);
    mem_free(callers);
    nfa_release(&graph);
    return gone == count ? 0
                         : error_set(c->err, ERR_INVALID,
                                     "a rule of the grammar calls itself before it reads anything "
                                     "(left recursion)");
}

/* Expressions below e, rules followed; FA_NONE: more than INLINE_SIZE, recursive, or with objects.
 */
static uint32_t expr_size(struct compiler *c, uint32_t e, uint32_t depth) {
    enum { VISITING = 0xfffffffe };
    const struct builder *b = c->b;
    const struct expr x = b->exprs.items[e];
    uint64_t sum = 1;
    if (depth > 200)
        return FA_NONE;
    switch ((enum expr_kind)x.kind) {
    case EXPR_RULE: {
        uint32_t *size = &c->size[x.a];
        if (*size == VISITING)
            return *size = FA_NONE;
        if (*size == 0) {
            *size = VISITING;
            uint32_t found = expr_size(c, b->rules.items[x.a], depth + 1);
            *size = *size == FA_NONE ? FA_NONE : found;
        }
        return *size;
    }
    case EXPR_REPEAT: {
        uint32_t body = expr_size(c, x.a, depth + 1);
        uint64_t times = MAX(x.b, x.c == REPEAT_NO_END ? 1 : x.c);
        return body == FA_NONE || body * times > INLINE_SIZE ? FA_NONE
                                                             : (uint32_t)(body * times) + 1;
    }
    case EXPR_OBJECT: return FA_NONE;
    case EXPR_BYTES: return x.b;
    case EXPR_DFA:
    case EXPR_QUOTED: return (uint32_t)MIN(b->dfas.items[x.a].states.count, (size_t)FA_NONE);
    case EXPR_CONCAT:
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b; i++) {
            uint32_t kid = expr_size(c, b->kids.items[x.a + i], depth + 1);
            if (kid == FA_NONE || (sum += kid) > INLINE_SIZE)
                return FA_NONE;
        }
        return (uint32_t)sum;
    default: return 1;
    }
}

/* Writing a repetition out costs so many expressions; more than EXPAND_STATES are cut off. */
static uint64_t written_size(struct compiler *c, uint32_t e, uint32_t depth) {
    const struct expr x = c->b->exprs.items[e];
    uint64_t sum = 1;
    if (depth > 200)
        return EXPAND_STATES + 1;
    switch ((enum expr_kind)x.kind) {
    case EXPR_BYTES: return x.b;
    case EXPR_CHARS: return x.b * 2;
    case EXPR_DFA:
    case EXPR_QUOTED: return c->b->dfas.items[x.a].states.count;
    case EXPR_RULE: return c->size[x.a] <= INLINE_SIZE ? c->size[x.a] : 1;
    case EXPR_REPEAT:
        sum = written_size(c, x.a, depth + 1) * MAX(1, x.c == REPEAT_NO_END ? MAX(x.b, 1) : x.c);
        return MIN(sum, (uint64_t)EXPAND_STATES + 1);
    case EXPR_CONCAT:
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b && sum <= EXPAND_STATES; i++)
            sum += written_size(c, c->b->kids.items[x.a + i], depth + 1);
        return sum;
    default: return 1;
    }
}

/* ---- expressions to automata over bytes and actions ---- */

static int add_expr(struct compiler *c, struct nfa *n, uint32_t e, uint32_t from, uint32_t to);

static int add_written_repeat(struct compiler *c, struct nfa *n, struct expr x, uint32_t from,
                              uint32_t to) {
    int rc = 0;
    for (uint32_t i = 0; i < x.b && !rc; i++) {
        uint32_t next = nfa_state(n);
        rc = add_expr(c, n, x.a, from, next);
        from = next;
    }
    if (x.c == REPEAT_NO_END) {
        uint32_t loop = nfa_state(n);
        nfa_free_edge(n, from, loop);
        nfa_free_edge(n, loop, to);
        return rc ? rc : add_expr(c, n, x.a, loop, loop);
    }
    for (uint32_t i = x.b; i < x.c && !rc; i++) {
        uint32_t next = nfa_state(n);
        nfa_free_edge(n, from, to);
        rc = add_expr(c, n, x.a, from, next);
        from = next;
    }
    nfa_free_edge(n, from, to);
    return rc;
}

static int add_counted_repeat(struct compiler *c, struct nfa *n, struct expr x, uint32_t from,
                              uint32_t to) {
    if (expr_nullable(c, x.a))
        return error_set(c->err, ERR_UNSUPPORTED,
                         "something that may be empty is repeated more than %d times",
                         EXPAND_STATES);
    uint32_t loop = nfa_state(n), body = nfa_state(n);
    action_edge(c, n, from, (struct symbol){ACT_COUNT_BEGIN, 0, 0}, loop);
    action_edge(c, n, loop, (struct symbol){ACT_COUNT_NEXT, x.b, x.c}, body);
    action_edge(c, n, loop, (struct symbol){ACT_COUNT_END, x.b, 0}, to);
    return add_expr(c, n, x.a, body, loop);
}

static int add_rule_call(struct compiler *c, struct nfa *n, uint32_t rule, uint32_t from,
                         uint32_t to) {
    if (c->size[rule] > INLINE_SIZE || c->copying >= CALL_DEPTH) {
        action_edge(c, n, from, (struct symbol){ACT_CALL, rule, 0}, to);
        return 0;
    }
    c->copying++;
    int rc = add_expr(c, n, c->b->rules.items[rule], from, to);
    c->copying--;
    return rc;
}

static uint32_t counted_string(struct compiler *c, uint32_t min, uint32_t max) {
    for (uint32_t i = 0; i < c->strings.count; i++)
        if (c->strings.items[i].min == min && c->strings.items[i].max == max)
            return string_target(c, i);
    vec_push(&c->strings, ((struct counted){min, max}));
    return string_target(c, (uint32_t)c->strings.count - 1);
}

static int add_expr(struct compiler *c, struct nfa *n, uint32_t e, uint32_t from, uint32_t to) {
    const struct builder *b = c->b;
    const struct expr x = b->exprs.items[e];
    int rc = 0;
    if (n->first.count > b->limits.states)
        return error_set(c->err, ERR_LIMIT, "the grammar needs too many states");
    switch ((enum expr_kind)x.kind) {
    case EXPR_NEVER: break;
    case EXPR_EMPTY: nfa_free_edge(n, from, to); break;
    case EXPR_BYTES:
        for (uint32_t i = 0; i < x.b; i++) {
            uint8_t byte = (uint8_t)b->text.data[x.a + i];
            uint32_t next = i + 1 < x.b ? nfa_state(n) : to;
            nfa_edge(n, from, byte, byte, next);
            from = next;
        }
        break;
    case EXPR_CHARS:
        for (uint32_t i = 0; i < x.b; i++)
            nfa_add_utf8(n, from, b->ranges.items[x.a + i].lo, b->ranges.items[x.a + i].hi, to);
        break;
    case EXPR_CONCAT:
        for (uint32_t i = 0; i < x.b && !rc; i++) {
            uint32_t next = i + 1 < x.b ? nfa_state(n) : to;
            rc = add_expr(c, n, b->kids.items[x.a + i], from, next);
            from = next;
        }
        break;
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b && !rc; i++)
            rc = add_expr(c, n, b->kids.items[x.a + i], from, to);
        break;
    case EXPR_REPEAT:
        rc = written_size(c, e, 0) <= EXPAND_STATES ? add_written_repeat(c, n, x, from, to)
                                                    : add_counted_repeat(c, n, x, from, to);
        break;
    case EXPR_RULE:
        if (c->productive[x.a])
            rc = add_rule_call(c, n, x.a, from, to);
        break;
    case EXPR_DFA:
    case EXPR_QUOTED:
        nfa_add_dfa(n, &b->dfas.items[x.a], x.kind == EXPR_QUOTED ? nfa_add_quoted : nfa_add_utf8,
                    from, to);
        break;
    case EXPR_STRING: {
        bool any = x.a == 0 && x.b == REPEAT_NO_END;
        uint32_t target = any ? FA_NONE : counted_string(c, x.a, x.b);
        action_edge(c, n, from, (struct symbol){ACT_CALL, target, 0}, to);
        break;
    }
    case EXPR_OBJECT:
        if (expr_productive(c, e))
            action_edge(c, n, from, (struct symbol){ACT_CALL, object_target(c, x.a), 0}, to);
        break;
    }
    return rc;
}

/* ---- states ---- */

static uint32_t new_state(struct program *p) {
    vec_push(&p->states, ((struct state){.edge_first = (uint32_t)p->edges.count,
                                         .action_first = (uint32_t)p->actions.count}));
    return (uint32_t)p->states.count - 1;
}

/* Until the next one is made. */
static struct state *last_state(struct program *p) {
    return &p->states.items[p->states.count - 1];
}

/* Edges and actions go to the state made last, edges in the order of their bytes. */
static void state_edge(struct program *p, uint8_t lo, uint8_t hi, uint32_t to) {
    vec_push(&p->edges, ((struct byte_edge){lo, hi, to}));
    last_state(p)->edge_count++;
}

static void state_action(struct program *p, enum action_kind kind, uint32_t a, uint32_t b,
                         uint32_t to) {
    vec_push(&p->actions, ((struct action){(uint8_t)kind, to, a, b}));
    last_state(p)->action_count++;
}

/* A run of white space, where there may be one. */
static void state_space(struct compiler *c, uint32_t to) {
    if (!c->b->loose_space || c->b->plain)
        return;
    state_edge(c->p, '\t', '\n', to);
    state_edge(c->p, '\r', '\r', to);
    state_edge(c->p, ' ', ' ', to);
}

static void add_dfa_states(struct compiler *c, const struct dfa *d, uint32_t base) {
    struct program *p = c->p;
    for (uint32_t i = 0; i < d->states.count; i++) {
        const struct dfa_state *s = &d->states.items[i];
        uint32_t at = new_state(p);
        CHECK(at == base + i);
        p->states.items[at].flags = s->label != FA_NONE ? STATE_ACCEPTS : 0;
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
            if (edge->lo < FA_ACTION) {
                state_edge(p, (uint8_t)edge->lo, (uint8_t)edge->hi, base + edge->to);
                continue;
            }
            const struct symbol *symbol = &c->symbols.items[edge->lo - FA_ACTION];
            state_action(p, symbol->kind, symbol->a, symbol->b, base + edge->to);
        }
    }
}

static int compile_rule(struct compiler *c, uint32_t rule) {
    struct nfa n = {0};
    struct dfa d = {0};
    uint32_t from = nfa_state(&n), to = nfa_state(&n);
    n.labels.items[to] = 0;
    int rc = add_expr(c, &n, c->b->rules.items[rule], from, to);
    if (!rc)
        rc = dfa_from_nfa(&n, from, &c->b->fuel, &d, c->err);
    if (!rc) {
        c->starts[rule] = (uint32_t)c->p->states.count;
        add_dfa_states(c, &d, c->starts[rule]);
    }
    dfa_release(&d);
    nfa_release(&n);
    return rc;
}

/* What stands behind a string's first quote, the last one included: the same in every program, so
 * it is made once. */
static struct dfa body_dfa;
static pthread_once_t body_once = PTHREAD_ONCE_INIT;

static void make_body_dfa(void) {
    struct nfa n = {0};
    struct fa_fuel fuel = {.states = 10000};
    struct error err;
    uint32_t body = nfa_state(&n), end = nfa_state(&n), slash = nfa_state(&n), u = nfa_state(&n);
    n.labels.items[end] = 0;
    nfa_add_quoted(&n, body, 0, 0x10ffff, body);
    nfa_edge(&n, body, '"', '"', end);
    /* Printable characters may be escaped by number as well: two hex digits, 20 to 7e. */
    uint32_t zero = nfa_state(&n), zeros = nfa_state(&n), digit = nfa_state(&n),
             seven = nfa_state(&n);
    nfa_edge(&n, body, '\\', '\\', slash);
    nfa_edge(&n, slash, 'u', 'u', u);
    nfa_edge(&n, u, '0', '0', zero);
    nfa_edge(&n, zero, '0', '0', zeros);
    nfa_edge(&n, zeros, '2', '6', digit);
    nfa_edge(&n, zeros, '7', '7', seven);
    static const uint8_t HEX[][2] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    for (size_t i = 0; i < ARRAY_LEN(HEX); i++) {
        nfa_edge(&n, digit, HEX[i][0], HEX[i][1], body);
        nfa_edge(&n, seven, HEX[i][0], HEX[i][1], body);
    }
    CHECK(!dfa_from_nfa(&n, body, &fuel, &body_dfa, &err));
    CHECK(body_dfa.states.count + 1 <= STATE_BEHIND_STRING);
    nfa_release(&n);
}

/* The strings' own states: STATE_BODY is the dfa's start, STATE_STRING_END its only accepting one.
 */
static void compile_string(struct compiler *c) {
    CHECK(!pthread_once(&body_once, make_body_dfa));
    const struct dfa *d = &body_dfa;
    uint32_t number[STATE_BEHIND_STRING], next = STATE_STRING_END + 1;
    for (uint32_t i = 0; i < d->states.count; i++)
        number[i] = i == 0                                ? STATE_BODY
                    : d->states.items[i].label != FA_NONE ? STATE_STRING_END
                                                          : next++;
    (void)new_state(c->p);
    state_edge(c->p, '"', '"', STATE_BODY);
    for (uint32_t want = STATE_BODY; want < STATE_BEHIND_STRING; want++) {
        (void)new_state(c->p);
        for (uint32_t i = 0; i < d->states.count; i++) {
            if (number[i] != want)
                continue;
            const struct dfa_state *s = &d->states.items[i];
            c->p->states.items[want].flags = s->label != FA_NONE ? STATE_ACCEPTS : 0;
            for (uint32_t e = 0; e < s->edge_count; e++) {
                const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
                state_edge(c->p, (uint8_t)edge->lo, (uint8_t)edge->hi, number[edge->to]);
            }
        }
    }
}

/* open: '"' -> begin: count -> loop: (next) -> character ... -> loop | (end) -> close: '"' -> end */
static void compile_counted_string(struct compiler *c, uint32_t index) {
    struct program *p = c->p;
    const struct counted *count = &c->strings.items[index];
    uint32_t open = (uint32_t)p->states.count, begin = open + 1, loop = open + 2, close = open + 3,
             end = open + 4, first = open + 5;
    vec_push(&c->string_starts, open);
    (void)new_state(p);
    state_edge(p, '"', '"', begin);
    (void)new_state(p);
    state_action(p, ACT_COUNT_BEGIN, 0, 0, loop);
    (void)new_state(p);
    state_action(p, ACT_COUNT_NEXT, count->min, count->max, first);
    state_action(p, ACT_COUNT_END, count->min, 0, close);
    (void)new_state(p);
    state_edge(p, '"', '"', end);
    (void)new_state(p);
    last_state(p)->flags = STATE_ACCEPTS;
    /* A copy of the body's states, whose whole characters lead back to the loop. */
    for (uint32_t s = STATE_BODY; s < STATE_BEHIND_STRING; s++) {
        (void)new_state(p);
        struct state *copy = last_state(p);
        if (s == STATE_BODY) {
            copy->flags = STATE_CHAR;
            copy->reach = (uint32_t)p->words.count;
            vec_push(&p->words, count->min);
            vec_push(&p->words, count->max);
        }
        const struct state from = p->states.items[s];
        for (uint32_t e = 0; e < from.edge_count; e++) {
            struct byte_edge edge = p->edges.items[from.edge_first + e];
            if (edge.to != STATE_STRING_END)
                state_edge(p, edge.lo, edge.hi,
                           edge.to == STATE_BODY ? loop : first + edge.to - STATE_BODY);
        }
    }
}

/* ---- objects ---- */

/* The state of the code points' dfa that accepts every continuation with one open label: there a
 * key is any string. FA_NONE when there is none. */
static uint32_t any_key_state(const struct object_rules *o) {
    for (uint32_t i = 0; i < o->keys.states.count; i++) {
        const struct dfa_state *s = &o->keys.states.items[i];
        if (s->label == FA_NONE || s->label < o->property_count || s->edge_count != 1)
            continue;
        const struct fa_edge *e = &o->keys.edges.items[s->edge_first];
        if (e->lo == 0 && e->hi >= 0x10ffff && e->to == i)
            return i;
    }
    return FA_NONE;
}

/* Keys whose values could never end may not come. any_label stands for the label of any key. */
static bool label_lives(const struct compiler *c, const struct object_rules *o, uint32_t label) {
    if (label >= o->values.count)
        label = o->keys.states.items[any_key_state(o)].label;
    return c->productive[o->values.items[label]];
}

/* The sets of labels that each key state may still reach, as one word array a state. */
static void find_reach(const struct compiler *c, const struct dfa *keys,
                       const struct object_rules *o, uint32_t words, uint64_t *reach) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = (uint32_t)keys->states.count; i-- > 0;) {
            const struct dfa_state *s = &keys->states.items[i];
            uint64_t *mine = reach + (size_t)i * words;
            if (s->label != FA_NONE && label_lives(c, o, s->label)) {
                uint32_t bit = MIN(s->label, o->property_count);
                changed |= !(mine[bit / 64] >> bit % 64 & 1);
                mine[bit / 64] |= 1ull << bit % 64;
            }
            for (uint32_t e = 0; e < s->edge_count; e++) {
                const uint64_t *to =
                    reach + (size_t)keys->edges.items[s->edge_first + e].to * words;
                for (uint32_t w = 0; w < words; w++) {
                    changed |= (to[w] & ~mine[w]) != 0;
                    mine[w] |= to[w];
                }
            }
        }
    }
}

/* Code points that are no plain printable ASCII inside a string: all of these are escaped, or are
 * more than one byte. */
static const struct code_range UNPLAIN[] = {
    {0, 0x1F}, {'"', '"'}, {'/', '/'}, {'\\', '\\'}, {0x7F, 0x10FFFF}};

/* All unplain code points lead from the state to `any`. */
static bool unplain_is_any(const struct dfa *d, uint32_t state, uint32_t any) {
    const struct dfa_state *s = &d->states.items[state];
    size_t covered = 0;
    for (uint32_t e = 0; e < s->edge_count && any != FA_NONE; e++) {
        const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
        for (size_t i = 0; i < ARRAY_LEN(UNPLAIN); i++)
            covered += edge->to == any && edge->lo <= UNPLAIN[i].lo && edge->hi >= UNPLAIN[i].hi;
    }
    return covered == ARRAY_LEN(UNPLAIN);
}

/* Nearly all states of keys go to `any` on whatever is not plain; that way is built once. */
static int key_bytes(struct compiler *c, const struct object_rules *o, uint32_t any_label,
                     struct dfa *out) {
    struct nfa n = {0};
    uint32_t any = any_key_state(o);
    for (size_t i = 0; i < o->keys.states.count; i++)
        (void)nfa_state(&n);
    uint32_t unplain = nfa_state(&n);
    for (size_t i = 0; i < ARRAY_LEN(UNPLAIN) && any != FA_NONE; i++)
        nfa_add_quoted(&n, unplain, UNPLAIN[i].lo, UNPLAIN[i].hi, any);
    for (uint32_t i = 0; i < o->keys.states.count; i++) {
        const struct dfa_state *s = &o->keys.states.items[i];
        n.labels.items[i] = s->label;
        if (i == any) { /* read on by the strings' own states */
            n.labels.items[i] = any_label;
            continue;
        }
        bool shared = unplain_is_any(&o->keys, i, any);
        if (shared)
            nfa_free_edge(&n, i, unplain);
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const struct fa_edge *edge = &o->keys.edges.items[s->edge_first + e];
            static const struct code_range PLAIN[] = {
                {0x20, '"' - 1}, {'"' + 1, '/' - 1}, {'/' + 1, '\\' - 1}, {'\\' + 1, 0x7E}};
            if (!shared)
                nfa_add_quoted(&n, i, edge->lo, MIN(edge->hi, 0x10ffffu), edge->to);
            for (size_t k = 0; k < ARRAY_LEN(PLAIN) && shared; k++)
                if (MAX(edge->lo, PLAIN[k].lo) <= MIN(edge->hi, PLAIN[k].hi))
                    nfa_edge(&n, i, MAX(edge->lo, PLAIN[k].lo), MIN(edge->hi, PLAIN[k].hi),
                             edge->to);
        }
    }
    int rc = dfa_from_nfa(&n, 0, &c->b->fuel, out, c->err);
    nfa_release(&n);
    return rc;
}

static uint32_t words_of(struct program *p, const uint64_t *bits, uint32_t count,
                         uint32_t bit_count) {
    uint32_t at = (uint32_t)p->words.count;
    for (uint32_t w = 0; w < count; w++)
        vec_push(&p->words, bits && w * 64 < bit_count ? bits[w] : 0);
    return at;
}

static uint32_t add_object(struct program *p, const struct object_rules *o) {
    uint32_t words = o->property_count / 64 + 1, needs = FA_NONE;
    uint32_t required = words_of(p, o->required, words, o->property_count);
    if (o->needs) {
        needs = (uint32_t)p->words.count;
        for (uint32_t i = 0; i < o->property_count; i++)
            (void)words_of(p, o->needs[i], words, o->property_count);
    }
    vec_push(&p->objects, ((struct object_program){.property_count = o->property_count,
                                                   .word_count = words,
                                                   .count_min = o->count_min,
                                                   .count_max = o->count_max,
                                                   .required = required,
                                                   .needs = needs,
                                                   .some = o->some,
                                                   .ordered = o->ordered,
                                                   .open = o->values.count > o->property_count}));
    return (uint32_t)p->objects.count - 1;
}

/* Adds to the state made last the values that may stand behind a label. */
static void call_values(struct compiler *c, const struct object_rules *o, uint32_t label,
                        uint32_t noted, uint32_t next) {
    state_action(c->p, ACT_CALL, o->values.items[label], 0, next);
    for (uint32_t i = 0; i < o->somes.count; i++)
        if (o->somes.items[i].label == label && c->productive[o->somes.items[i].rule])
            state_action(c->p, ACT_CALL, o->somes.items[i].rule, 0, noted + i);
}

/* start: '{' -> begin -> first: space* (end) -> close: '}' | (more) -> quote: '"' -> key ...
 * -> after the key, one chain a rule of values: (key) space* ':' space* (call) -> next: space*
 * (end) | (more) -> comma: ',' -> behind: space* '"' -> key
 * A value that is noted leads to a state of its own in front of next.
 * With `plain` one space may come behind ':' and ',', to a state like the one where it comes. */
static int compile_object(struct compiler *c, uint32_t index) {
    struct program *p = c->p;
    const struct object_rules *o = &c->b->objects.items[index];
    uint32_t one = c->b->loose_space && c->b->plain;
    struct dfa keys;
    uint32_t any_label = (uint32_t)o->values.count; /* one above all labels */
    int rc = key_bytes(c, o, any_label, &keys);
    if (rc)
        return rc;
    uint32_t object = add_object(p, o), words = p->objects.items[object].word_count;
    uint32_t start = (uint32_t)p->states.count, begin = start + 1, first = start + 2,
             close = start + 3, end = start + 4, quote = start + 5, next = start + 6,
             comma = start + 7, behind = start + 8, key = start + 9 + one, width = 3 + one;
    uint32_t any = any_key_state(o), tail = key + (uint32_t)keys.states.count;
    c->starts[object_target(c, index)] = start;
    p->objects.items[object].key = key;
    (void)new_state(p);
    state_edge(p, '{', '{', begin);
    (void)new_state(p);
    state_action(p, ACT_OBJECT_BEGIN, object, 0, first);
    (void)new_state(p);
    state_space(c, first);
    state_action(p, ACT_OBJECT_END, 0, 0, close);
    state_action(p, ACT_OBJECT_MORE, 0, 0, quote);
    (void)new_state(p);
    state_edge(p, '}', '}', end);
    (void)new_state(p);
    last_state(p)->flags = STATE_ACCEPTS;
    (void)new_state(p);
    state_edge(p, '"', '"', key);
    (void)new_state(p);
    state_space(c, next);
    state_action(p, ACT_OBJECT_END, 0, 0, close);
    state_action(p, ACT_OBJECT_MORE, 0, 0, comma);
    (void)new_state(p);
    state_edge(p, ',', ',', behind);
    (void)new_state(p);
    state_space(c, behind);
    if (one) {
        state_edge(p, ' ', ' ', behind + 1);
        state_edge(p, '"', '"', key);
        (void)new_state(p);
    }
    state_edge(p, '"', '"', key);
    /* Behind each label: the state that notes it, then the value. Labels of one rule share that. */
    uint64_t *reach = mem_calloc(keys.states.count * words + 1, sizeof *reach);
    find_reach(c, &keys, o, words, reach);
    for (uint32_t i = 0; i < keys.states.count; i++) {
        const struct dfa_state *s = &keys.states.items[i];
        (void)new_state(p);
        struct state *made = last_state(p);
        made->flags = STATE_KEY;
        made->reach = (uint32_t)p->words.count;
        for (uint32_t w = 0; w < words; w++)
            vec_push(&p->words, reach[(size_t)i * words + w]);
        if (s->label == any_label) {
            /* The rest of the string, its quote included, then the note. */
            uint32_t label = o->keys.states.items[any].label;
            state_action(p, ACT_CALL, FA_NONE, 1, tail + width * label);
            continue;
        }
        bool closed = s->label == FA_NONE || !label_lives(c, o, s->label);
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const struct fa_edge *edge = &keys.edges.items[s->edge_first + e];
            if (!closed && edge->lo > '"') {
                state_edge(p, '"', '"', tail + width * s->label);
                closed = true;
            }
            state_edge(p, (uint8_t)edge->lo, (uint8_t)edge->hi, key + edge->to);
        }
        if (!closed)
            state_edge(p, '"', '"', tail + width * s->label);
    }
    uint32_t noted = tail + width * (uint32_t)o->values.count; /* behind a member that is needed */
    for (uint32_t label = 0; label < o->values.count; label++) {
        uint32_t colon = tail + width * label + 1, value = colon + 1;
        (void)new_state(p);
        state_action(p, ACT_OBJECT_KEY, label, 0, colon);
        (void)new_state(p);
        state_space(c, colon);
        state_edge(p, ':', ':', value);
        (void)new_state(p);
        state_space(c, value);
        if (one) {
            state_edge(p, ' ', ' ', value + 1);
            call_values(c, o, label, noted, next);
            (void)new_state(p);
        }
        call_values(c, o, label, noted, next);
    }
    for (size_t i = 0; i < o->somes.count; i++) {
        (void)new_state(p);
        state_action(p, ACT_OBJECT_SOME, o->somes.items[i].set, 0, next);
    }
    mem_free(reach);
    dfa_release(&keys);
    return 0;
}

/* ---- the whole ---- */

/* Calls say which rule, object or string they mean until its states are there; what nobody calls
 * gets none. */
static int compile_called(struct compiler *c) {
    uint32_t rules = (uint32_t)c->b->rules.count, named = rules + (uint32_t)c->b->objects.count;
    int rc = 0;
    for (size_t i = 0; i < c->p->actions.count && !rc; i++) {
        struct action call = c->p->actions.items[i];
        if (call.kind != ACT_CALL)
            continue;
        if (call.a == FA_NONE) {
            c->p->actions.items[i].a = call.b ? STATE_BODY : STATE_STRING;
            continue;
        }
        if (call.a >= named)
            while (c->string_starts.count <= call.a - named)
                compile_counted_string(c, (uint32_t)c->string_starts.count);
        else if (c->starts[call.a] == FA_NONE)
            rc = call.a < rules ? compile_rule(c, call.a) : compile_object(c, call.a - rules);
        c->p->actions.items[i].a =
            call.a < named ? c->starts[call.a] : c->string_starts.items[call.a - named];
    }
    return rc;
}

static int compile(struct compiler *c, uint32_t root) {
    uint32_t rules = (uint32_t)c->b->rules.count;
    find_sets(c);
    int rc = refuse_left_recursion(c);
    if (!rc && c->b->may_refuse_all &&
        c->b->exprs.items[c->b->rules.items[root]].kind == EXPR_NEVER) {
        compile_string(c);
        c->p->start = new_state(c->p);
        return 0;
    }
    if (!rc && !c->productive[root])
        rc = error_set(c->err, ERR_INVALID, "no text satisfies the grammar or schema");
    for (uint32_t r = 0; r < rules && !rc; r++)
        if (!c->size[r]) {
            uint32_t size = expr_size(c, c->b->rules.items[r], 0);
            c->size[r] = c->size[r] == FA_NONE ? FA_NONE : size;
        }
    if (!rc)
        compile_string(c);
    if (!rc)
        rc = compile_rule(c, root);
    if (!rc)
        rc = compile_called(c);
    if (!rc)
        c->p->start = c->starts[root];
    return rc;
}

/* ---- where text goes on for ever ---- */

/* What a state can be for: between two characters of text, or within one. */
enum text_place {
    TEXT_BETWEEN, /* characters */
    TEXT_LAST,    /* one more byte of a character, any; then of those with two and three more */
    TEXT_LAST_2,
    TEXT_LAST_3,
    TEXT_E0, /* behind a first byte that does not take every second one */
    TEXT_ED,
    TEXT_F0,
    TEXT_F4,
    TEXT_E2,    /* U+2028 and U+2029 are not asked for, since patterns' `.` has them not */
    TEXT_E2_80, /* behind two bytes of those */
    TEXT_PLACES
};
static const struct {
    uint8_t place, lo, hi, to;
} TEXT_STEPS[] = {
    {TEXT_BETWEEN, 0x20, 0x21, TEXT_BETWEEN}, /* printable, but for quotes and backslashes */
    {TEXT_BETWEEN, 0x23, 0x5b, TEXT_BETWEEN}, {TEXT_BETWEEN, 0x5d, 0x7e, TEXT_BETWEEN},
    {TEXT_BETWEEN, 0xc2, 0xdf, TEXT_LAST},    {TEXT_BETWEEN, 0xe0, 0xe0, TEXT_E0},
    {TEXT_BETWEEN, 0xe1, 0xe1, TEXT_LAST_2},  {TEXT_BETWEEN, 0xe2, 0xe2, TEXT_E2},
    {TEXT_BETWEEN, 0xe3, 0xec, TEXT_LAST_2},  {TEXT_BETWEEN, 0xed, 0xed, TEXT_ED},
    {TEXT_BETWEEN, 0xee, 0xef, TEXT_LAST_2},  {TEXT_BETWEEN, 0xf0, 0xf0, TEXT_F0},
    {TEXT_BETWEEN, 0xf1, 0xf3, TEXT_LAST_3},  {TEXT_BETWEEN, 0xf4, 0xf4, TEXT_F4},
    {TEXT_LAST, 0x80, 0xbf, TEXT_BETWEEN},    {TEXT_LAST_2, 0x80, 0xbf, TEXT_LAST},
    {TEXT_LAST_3, 0x80, 0xbf, TEXT_LAST_2},   {TEXT_E0, 0xa0, 0xbf, TEXT_LAST},
    {TEXT_ED, 0x80, 0x9f, TEXT_LAST},         {TEXT_F0, 0x90, 0xbf, TEXT_LAST_2},
    {TEXT_F4, 0x80, 0x8f, TEXT_LAST_2},       {TEXT_E2, 0x80, 0x80, TEXT_E2_80},
    {TEXT_E2, 0x81, 0xbf, TEXT_LAST},         {TEXT_E2_80, 0x80, 0xa7, TEXT_BETWEEN},
    {TEXT_E2_80, 0xaa, 0xbf, TEXT_BETWEEN},
};

/* Each byte from lo to hi leads to a state that can be `to`. */
static bool leads_to(const struct program *p, const struct state *s, const uint16_t *can,
                     uint32_t lo, uint32_t hi, uint8_t to) {
    for (uint32_t i = 0; i < s->edge_count && lo <= hi; i++) {
        const struct byte_edge *e = &p->edges.items[s->edge_first + i];
        if (e->hi < lo)
            continue;
        if (e->lo > lo || !(can[e->to] >> to & 1))
            return false;
        lo = (uint32_t)e->hi + 1;
    }
    return lo > hi;
}

static uint16_t still_can(const struct program *p, uint32_t state, const uint16_t *can) {
    uint16_t left = can[state];
    for (size_t i = 0; i < ARRAY_LEN(TEXT_STEPS) && left; i++)
        if (left >> TEXT_STEPS[i].place & 1 &&
            !leads_to(p, &p->states.items[state], can, TEXT_STEPS[i].lo, TEXT_STEPS[i].hi,
                      TEXT_STEPS[i].to))
            left &= (uint16_t) ~(1u << TEXT_STEPS[i].place);
    return left;
}

/* Every state can be everything until a step of it leads nowhere. Long chains of states in an
 * unlucky order would need many rounds; they are given up, and walked when masks are made. */
static void mark_text(struct compiler *c) {
    enum { ROUNDS = 16 };
    struct program *p = c->p;
    uint16_t *can = mem_calloc(p->states.count + 1, sizeof *can);
    bool changed = true;
    for (uint32_t i = 0; i < p->states.count; i++) /* frames have a say there */
        can[i] = p->states.items[i].flags & (STATE_KEY | STATE_CHAR) ? 0 : (1u << TEXT_PLACES) - 1;
    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = false;
        for (uint32_t i = (uint32_t)p->states.count; i-- > 0;) {
            uint16_t left = still_can(p, i, can);
            changed |= left != can[i];
            can[i] = left;
        }
    }
    for (uint32_t i = 0; i < p->states.count && !changed; i++)
        if (can[i] & 1u << TEXT_BETWEEN)
            p->states.items[i].flags |= STATE_TEXT;
    mem_free(can);
}

int program_compile(struct builder *b, uint32_t root, struct program *out, struct error *err) {
    *out = (struct program){0};
    if (b->failed)
        return error_set(err, b->error.code, "%s", b->error.text);
    size_t targets = b->rules.count + b->objects.count;
    struct compiler c = {.b = b, .p = out, .err = err};
    c.size = mem_calloc(targets + 1, sizeof *c.size);
    c.starts = mem_calloc(targets + 1, sizeof *c.starts);
    memset(c.starts, 0xff, (targets + 1) * sizeof *c.starts);
    c.nullable = mem_calloc(targets + 1, sizeof *c.nullable);
    c.productive = mem_calloc(targets + 1, sizeof *c.productive);
    int rc = compile(&c, root);
    if (!rc)
        mark_text(&c);
    mem_free(c.size);
    mem_free(c.starts);
    mem_free(c.nullable);
    mem_free(c.productive);
    vec_release(&c.symbols);
    vec_release(&c.strings);
    vec_release(&c.string_starts);
    if (rc)
        program_release(out);
    return rc;
}

void program_release(struct program *p) {
    vec_release(&p->states);
    vec_release(&p->edges);
    vec_release(&p->actions);
    vec_release(&p->objects);
    vec_release(&p->words);
}

size_t program_size(const struct program *p) {
    return p->states.cap * sizeof *p->states.items + p->edges.cap * sizeof *p->edges.items +
           p->actions.cap * sizeof *p->actions.items + p->objects.cap * sizeof *p->objects.items +
           p->words.cap * sizeof *p->words.items;
}
