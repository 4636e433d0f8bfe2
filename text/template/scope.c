/*
 * scope.c - which of the context's names a scope hides from its start.
 *
 * jinja2 decides before it runs where each name of a scope comes from (jinja2/idtracking.py): a
 * name whose first use in a scope is to be assigned, not within an if, and which no scope around it
 * uses, is that scope's own, so it is undefined until then, also where a loop or macro inside reads
 * it and the context has it. What is read in the scope itself before the assignment was a use
 * before it, so only scopes inside can tell.
 */
#include "text/template/ast.h"

enum { WORD_BITS = 64 };

static struct template_scope *new_scope(struct parser *p, struct template_scope *parent) {
    struct template_scope *s = parser_alloc(p, sizeof *s);
    if (!s)
        return p->scope;
    s->parent = parent;
    s->next = p->scopes;
    p->scopes = s;
    p->scope_count++;
    return s;
}

struct scope_mark parser_enter_scope(struct parser *p, bool alone) {
    struct scope_mark mark = {p->scope, p->branch_depth};
    p->scope = new_scope(p, alone ? NULL : p->scope);
    p->branch_depth = 0;
    return mark;
}

struct scope_mark parser_reenter_scope(struct parser *p, struct template_scope *scope) {
    struct scope_mark mark = {p->scope, p->branch_depth};
    p->scope = scope;
    p->branch_depth = 0;
    return mark;
}

struct template_scope *parser_leave_scope(struct parser *p, struct scope_mark mark) {
    struct template_scope *left = p->scope;
    p->scope = mark.scope;
    p->branch_depth = mark.branch_depth;
    return left;
}

static void use_name(struct parser *p, uint32_t name, bool assigned) {
    struct template_scope *s = p->scope;
    if (p->rc)
        return;
    if (s->use_count == s->use_cap) {
        uint32_t cap = s->use_cap ? s->use_cap * 2 : 16;
        struct name_use *uses = parser_alloc(p, cap * sizeof *uses);
        if (!uses)
            return;
        if (s->use_count)
            memcpy(uses, s->uses, s->use_count * sizeof *uses);
        s->uses = uses;
        s->use_cap = cap;
    }
    s->uses[s->use_count++] = (struct name_use){name, assigned};
}

void parser_uses(struct parser *p, uint32_t name) {
    use_name(p, name, false);
}

/* assigned: by set; else as a parameter, which is there from the start. */
static void use_target(struct parser *p, const struct node *target, bool assigned) {
    if (p->rc)
        return;
    if (target->kind == N_NAME)
        use_name(p, target->name, assigned && !p->branch_depth);
    if (target->kind == N_ATTR)
        use_name(p, target->a->name, false); /* a namespace's member */
    for (uint32_t i = 0; target->kind == N_TUPLE && i < target->count; i++)
        use_target(p, target->items[i], assigned);
}

void parser_assigns(struct parser *p, const struct node *target) {
    use_target(p, target, true);
}
void parser_declares(struct parser *p, const struct node *target) {
    use_target(p, target, false);
}

/* ---- at the end ---- */

static bool set_name(uint64_t *set, uint32_t name) {
    uint64_t *word = &set[name / WORD_BITS], bit = (uint64_t)1 << name % WORD_BITS;
    bool had = *word & bit;
    *word |= bit;
    return had;
}

/* Sets of names: those the scope uses, those of them it assigns first, those that scopes around and
 * inside it use. */
static void init_sets(struct parser *p, struct template_scope *s, size_t words) {
    uint64_t *memory = parser_alloc(p, 4 * words * sizeof *memory);
    if (!memory)
        return;
    s->used = memory;
    s->own = memory + words;
    s->outer = memory + 2 * words;
    s->inner = memory + 3 * words;
    for (uint32_t i = 0; i < s->use_count; i++)
        if (!set_name(s->used, s->uses[i].name) && s->uses[i].assigned)
            set_name(s->own, s->uses[i].name);
    for (size_t w = 0; s->parent && w < words; w++)
        s->outer[w] = s->parent->outer[w] | s->parent->used[w];
}

static void hide(struct parser *p, struct template_scope *s, size_t words) {
    for (size_t w = 0; w < words; w++)
        for (uint64_t left = s->own[w] & s->inner[w] & ~s->outer[w]; left; left &= left - 1) {
            if (!s->hidden)
                s->hidden = parser_alloc(p, s->use_count * sizeof *s->hidden);
            if (s->hidden)
                s->hidden[s->hidden_count++] =
                    (uint32_t)(w * WORD_BITS) + (uint32_t)__builtin_ctzll(left);
        }
}

void parser_hide_names(struct parser *p) {
    size_t words = (p->t->names.count + WORD_BITS - 1) / WORD_BITS;
    struct template_scope **all = parser_alloc(p, MAX(p->scope_count, (size_t)1) * sizeof *all),
                          *s = p->scopes;
    /* parents before their children */
    for (size_t i = p->scope_count; all && i-- > 0; s = s->next)
        all[i] = s;
    for (size_t i = 0; i < p->scope_count && !p->rc; i++)
        init_sets(p, all[i], words);
    for (size_t i = p->scope_count; i-- > 0 && !p->rc;)
        for (size_t w = 0; all[i]->parent && w < words; w++)
            all[i]->parent->inner[w] |= all[i]->used[w] | all[i]->inner[w];
    for (size_t i = 0; i < p->scope_count && !p->rc; i++)
        hide(p, all[i], words);
}
