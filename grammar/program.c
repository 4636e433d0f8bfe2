/*
 * program.c - from rules of expressions to a program.
 *
 * Each rule becomes an nfa over bytes in which an action is one more symbol, then the smallest dfa
 * of it, then states. Actions with equal arguments are one symbol, so alternatives that begin with
 * the same call are walked once. Rules that are small and not recursive are copied into their
 * callers. Objects and counted strings have a layout of their own (program_layout.c).
 */
#include "grammar/program_internal.h"

enum { CALL_DEPTH = 32 /* of rules copied into each other */ };

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
    if (compiler_nullable(c, x.a))
        return error_set(c->err, ERR_UNSUPPORTED,
                         "something that may be empty is repeated more than %d times",
                         EXPAND_STATES);
    uint32_t loop = nfa_state(n), body = nfa_state(n);
    action_edge(c, n, from, (struct symbol){ACT_COUNT_BEGIN, x.b, x.c}, loop);
    action_edge(c, n, loop, (struct symbol){ACT_COUNT_NEXT, x.b, x.c}, body);
    action_edge(c, n, loop, (struct symbol){ACT_COUNT_END, x.b, 0}, to);
    return add_expr(c, n, x.a, body, loop);
}

/* Where the characters of one state lead on that leave the same shortest way to an end. */
struct counted_way {
    uint32_t left, body; /* characters of that way; the state behind the count */
};

/* Edges of one state of an automaton whose characters are counted: no more come than leave room for the
 * shortest way to an end. */
static void add_counted_edges(struct compiler *c, struct nfa *n, const struct dfa *d,
                              const uint32_t *shortest, uint32_t max, uint32_t state,
                              uint32_t base) {
    const struct dfa_state *s = &d->states.items[state];
    VEC(struct counted_way) ways = {0};
    for (uint32_t e = 0; e < s->edge_count; e++) {
        const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
        uint32_t left = shortest[edge->to];
        size_t k = 0;
        if (left >= max) /* FA_NONE, too: none */
            continue;
        while (k < ways.count && ways.items[k].left != left)
            k++;
        if (k == ways.count) {
            vec_push(&ways, ((struct counted_way){left, nfa_state(n)}));
            action_edge(c, n, base + state, (struct symbol){ACT_COUNT_NEXT, 0, max - left},
                        ways.items[k].body);
        }
        nfa_add_quoted(n, ways.items[k].body, edge->lo, edge->hi, base + edge->to);
    }
    vec_release(&ways);
}

/* A count below which each of the automaton's edges leaves room for its way to an end. */
static uint32_t counted_room(const struct dfa *d, const uint32_t *shortest, uint32_t max) {
    uint32_t room = max;
    for (size_t e = 0; e < d->edges.count; e++)
        if (shortest[d->edges.items[e].to] < max)
            room = MIN(room, max - shortest[d->edges.items[e].to]);
    return room;
}

/* The states of an automaton stand between characters; each asks the count for the next one. */
static void add_counted_dfa(struct compiler *c, struct nfa *n, const struct dfa *d, uint32_t max,
                            uint32_t from, uint32_t to) {
    uint32_t *shortest = dfa_shortest(d), base = (uint32_t)n->first.count;
    for (size_t i = 0; i < d->states.count; i++)
        (void)nfa_state(n);
    action_edge(c, n, from, (struct symbol){ACT_COUNT_BEGIN, 0, counted_room(d, shortest, max)},
                base);
    for (uint32_t i = 0; i < d->states.count; i++) {
        add_counted_edges(c, n, d, shortest, max, i, base);
        if (d->states.items[i].label != FA_NONE)
            action_edge(c, n, base + i, (struct symbol){ACT_COUNT_END, 0, 0}, to);
    }
    mem_free(shortest);
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
    bool automaton = x.kind == EXPR_DFA || x.kind == EXPR_QUOTED || x.kind == EXPR_COUNTED;
    if (n->first.count > b->limits.states ||
        (automaton && b->dfas.items[x.a].edges.count > b->limits.states))
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
        rc = compiler_written_size(c, e, 0) <= EXPAND_STATES
                 ? add_written_repeat(c, n, x, from, to)
                 : add_counted_repeat(c, n, x, from, to);
        break;
    case EXPR_RULE:
        if (c->productive[x.a])
            rc = add_rule_call(c, n, x.a, from, to);
        break;
    case EXPR_UNIQUE: {
        uint32_t first = nfa_state(n), last = nfa_state(n);
        c->p->has_unique = true;
        action_edge(c, n, from, (struct symbol){ACT_UNIQUE_BEGIN, x.b, 0}, first);
        action_edge(c, n, last, (struct symbol){ACT_UNIQUE_END, 0, 0}, to);
        rc = add_expr(c, n, x.a, first, last);
        break;
    }
    case EXPR_ITEM: {
        uint32_t last = nfa_state(n);
        action_edge(c, n, last, (struct symbol){ACT_UNIQUE_NEXT, 0, 0}, to);
        rc = add_expr(c, n, x.a, from, last);
        break;
    }
    case EXPR_DFA:
    case EXPR_QUOTED:
        nfa_add_dfa(n, &b->dfas.items[x.a], x.kind == EXPR_QUOTED ? nfa_add_quoted : nfa_add_utf8,
                    from, to);
        break;
    case EXPR_COUNTED: add_counted_dfa(c, n, &b->dfas.items[x.a], x.b, from, to); break;
    case EXPR_STRING: {
        bool any = x.a == 0 && x.b == REPEAT_NO_END;
        uint32_t target = any ? FA_NONE : counted_string(c, x.a, x.b);
        action_edge(c, n, from, (struct symbol){ACT_CALL, target, 0}, to);
        break;
    }
    case EXPR_OBJECT:
        if (compiler_productive(c, e))
            action_edge(c, n, from, (struct symbol){ACT_CALL, object_target(c, x.a), 0}, to);
        break;
    }
    return rc;
}

/* ---- states ---- */

uint32_t program_new_state(struct program *p) {
    vec_push(&p->states, ((struct state){.edge_first = (uint32_t)p->edges.count,
                                         .action_first = (uint32_t)p->actions.count}));
    return (uint32_t)p->states.count - 1;
}

/* Until the next one is made. */
struct state *program_last_state(struct program *p) {
    return &p->states.items[p->states.count - 1];
}

/* Edges and actions go to the state made last, edges in the order of their bytes. */
void program_state_edge(struct program *p, uint8_t lo, uint8_t hi, uint32_t to) {
    vec_push(&p->edges, ((struct byte_edge){lo, hi, to}));
    program_last_state(p)->edge_count++;
}

void program_state_action(struct program *p, enum action_kind kind, uint32_t a, uint32_t b,
                          uint32_t to) {
    vec_push(&p->actions, ((struct action){(uint8_t)kind, to, a, b}));
    program_last_state(p)->action_count++;
}

static void add_dfa_states(struct compiler *c, const struct dfa *d, uint32_t base) {
    struct program *p = c->p;
    for (uint32_t i = 0; i < d->states.count; i++) {
        const struct dfa_state *s = &d->states.items[i];
        uint32_t at = program_new_state(p);
        CHECK(at == base + i);
        p->states.items[at].flags = s->label != FA_NONE ? STATE_ACCEPTS : 0;
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
            if (edge->lo < FA_ACTION) {
                program_state_edge(p, (uint8_t)edge->lo, (uint8_t)edge->hi, base + edge->to);
                continue;
            }
            const struct symbol *symbol = &c->symbols.items[edge->lo - FA_ACTION];
            program_state_action(p, symbol->kind, symbol->a, symbol->b, base + edge->to);
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
    compiler_find_sets(c);
    int rc = compiler_refuse_left_recursion(c);
    if (!rc && c->b->may_refuse_all &&
        c->b->exprs.items[c->b->rules.items[root]].kind == EXPR_NEVER) {
        compile_any_string(c);
        c->p->start = program_new_state(c->p);
        return 0;
    }
    if (!rc && !c->productive[root])
        rc = error_set(c->err, ERR_INVALID, "no text satisfies the grammar or schema");
    if (!rc) {
        compiler_find_sizes(c);
        compile_any_string(c);
    }
    if (!rc)
        rc = compile_rule(c, root);
    if (!rc)
        rc = compile_called(c);
    if (!rc)
        c->p->start = c->starts[root];
    return rc;
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
        program_mark_text(out);
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
