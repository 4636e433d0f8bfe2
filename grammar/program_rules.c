/*
 * program_rules.c - what is known of rules before they are compiled: which accept the empty text,
 * which end at all, which call themselves before they read, how large they are.
 */
#include "grammar/program_internal.h"

bool compiler_nullable(const struct compiler *c, uint32_t e) {
    const struct builder *b = c->b;
    const struct expr x = b->exprs.items[e];
    switch ((enum expr_kind)x.kind) {
    case EXPR_EMPTY: return true;
    case EXPR_RULE: return c->nullable[x.a];
    case EXPR_REPEAT: return x.b == 0 || compiler_nullable(c, x.a);
    case EXPR_UNIQUE:
    case EXPR_ITEM: return compiler_nullable(c, x.a);
    case EXPR_DFA:
    case EXPR_COUNTED:
    case EXPR_QUOTED: return b->dfas.items[x.a].states.items[0].label != FA_NONE;
    case EXPR_CONCAT:
        for (uint32_t i = 0; i < x.b; i++)
            if (!compiler_nullable(c, b->kids.items[x.a + i]))
                return false;
        return true;
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b; i++)
            if (compiler_nullable(c, b->kids.items[x.a + i]))
                return true;
        return false;
    default: return false;
    }
}

/* A text is made in the end: alternatives that never end are as good as none. */
bool compiler_productive(const struct compiler *c, uint32_t e) {
    const struct builder *b = c->b;
    const struct expr x = b->exprs.items[e];
    switch ((enum expr_kind)x.kind) {
    case EXPR_NEVER: return false;
    case EXPR_RULE: return c->productive[x.a];
    case EXPR_REPEAT: return x.b == 0 || compiler_productive(c, x.a);
    case EXPR_UNIQUE:
    case EXPR_ITEM: return compiler_productive(c, x.a);
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
            if (!compiler_productive(c, b->kids.items[x.a + i]))
                return false;
        return true;
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b; i++)
            if (compiler_productive(c, b->kids.items[x.a + i]))
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
    else if (x.kind == EXPR_REPEAT || x.kind == EXPR_UNIQUE || x.kind == EXPR_ITEM)
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

void compiler_find_sets(struct compiler *c) {
    struct nfa uses = {0};
    for (uint32_t r = 0; r < c->b->rules.count; r++)
        (void)nfa_state(&uses);
    for (uint32_t r = 0; r < c->b->rules.count; r++)
        add_uses(c, c->b->rules.items[r], &uses, r);
    least_set(c, &uses, c->nullable, compiler_nullable);
    least_set(c, &uses, c->productive, compiler_productive);
    nfa_release(&uses);
}

/* Adds the rules that e may call before it reads a byte. */
static void first_calls(const struct compiler *c, uint32_t e, struct nfa *graph, uint32_t rule) {
    const struct builder *b = c->b;
    const struct expr x = b->exprs.items[e];
    switch ((enum expr_kind)x.kind) {
    case EXPR_RULE: nfa_free_edge(graph, rule, x.a); return;
    case EXPR_REPEAT:
    case EXPR_UNIQUE:
    case EXPR_ITEM: first_calls(c, x.a, graph, rule); return;
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b; i++)
            first_calls(c, b->kids.items[x.a + i], graph, rule);
        return;
    case EXPR_CONCAT:
        for (uint32_t i = 0; i < x.b; i++) {
            first_calls(c, b->kids.items[x.a + i], graph, rule);
            if (!compiler_nullable(c, b->kids.items[x.a + i]))
                return;
        }
        return;
    default: return;
    }
}

/* Takes away rules that nobody first calls until none is left, or a circle is. */
int compiler_refuse_left_recursion(struct compiler *c) {
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

/* Expressions below e, rules followed; FA_NONE: more than INLINE_SIZE, recursive, with objects, or with
 * unique items.
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
    case EXPR_UNIQUE:
    case EXPR_ITEM:
    case EXPR_COUNTED:
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
uint64_t compiler_written_size(struct compiler *c, uint32_t e, uint32_t depth) {
    const struct expr x = c->b->exprs.items[e];
    uint64_t sum = 1;
    if (depth > 200)
        return EXPAND_STATES + 1;
    switch ((enum expr_kind)x.kind) {
    case EXPR_BYTES: return x.b;
    case EXPR_CHARS: return x.b * 2;
    case EXPR_DFA:
    case EXPR_COUNTED:
    case EXPR_QUOTED: return c->b->dfas.items[x.a].states.count;
    case EXPR_RULE: return c->size[x.a] <= INLINE_SIZE ? c->size[x.a] : 1;
    case EXPR_REPEAT:
        sum = compiler_written_size(c, x.a, depth + 1) *
              MAX(1, x.c == REPEAT_NO_END ? MAX(x.b, 1) : x.c);
        return MIN(sum, (uint64_t)EXPAND_STATES + 1);
    case EXPR_UNIQUE:
    case EXPR_ITEM: return compiler_written_size(c, x.a, depth + 1) + 2;
    case EXPR_CONCAT:
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b && sum <= EXPAND_STATES; i++)
            sum += compiler_written_size(c, c->b->kids.items[x.a + i], depth + 1);
        return sum;
    default: return 1;
    }
}
void compiler_find_sizes(struct compiler *c) {
    for (uint32_t r = 0; r < c->b->rules.count; r++)
        if (!c->size[r]) {
            uint32_t size = expr_size(c, c->b->rules.items[r], 0);
            c->size[r] = c->size[r] == FA_NONE ? FA_NONE : size;
        }
}
