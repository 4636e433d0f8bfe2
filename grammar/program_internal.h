/*
 * program_internal.h - a program while it is compiled. For the program*.c files.
 */
#ifndef GRAMMAR_PROGRAM_INTERNAL_H
#define GRAMMAR_PROGRAM_INTERNAL_H

#include "grammar/program.h"

enum {
    INLINE_SIZE = 48,    /* expressions of a rule that is copied into its callers */
    EXPAND_STATES = 256, /* repetitions of at most so many expressions are written out */
};

struct symbol { /* an action on its way through the dfa */
    uint8_t kind;
    uint32_t a, b;
};

/* A string of min to max characters. */
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

/* What a call may go to: rules of the builder have the numbers below these. */
static inline uint32_t object_target(const struct compiler *c, uint32_t object) {
    return (uint32_t)c->b->rules.count + object;
}
static inline uint32_t string_target(const struct compiler *c, uint32_t string) {
    return (uint32_t)(c->b->rules.count + c->b->objects.count) + string;
}

/* ---- what is known of rules (program_rules.c) ---- */

/* Finds the rules that accept the empty text, and those that accept any. */
void compiler_find_sets(struct compiler *c);
/* ERR_INVALID: a rule calls itself before it reads anything. */
MUST_CHECK int compiler_refuse_left_recursion(struct compiler *c);
/* Finds the sizes of all rules. */
void compiler_find_sizes(struct compiler *c);
/* The expression accepts the empty text; any text. Rules as far as they are known. */
bool compiler_nullable(const struct compiler *c, uint32_t e);
bool compiler_productive(const struct compiler *c, uint32_t e);
/* Expressions that writing e out takes; more than EXPAND_STATES are cut off. Sizes are known. */
uint64_t compiler_written_size(struct compiler *c, uint32_t e, uint32_t depth);

/* ---- states (program.c) ---- */

/* A state without edges; returns its number. */
uint32_t program_new_state(struct program *p);
/* The state made last, until the next one is made. */
struct state *program_last_state(struct program *p);
/* Both add to the state made last; edges in the order of their bytes. */
void program_state_edge(struct program *p, uint8_t lo, uint8_t hi, uint32_t to);
void program_state_action(struct program *p, enum action_kind kind, uint32_t a, uint32_t b,
                          uint32_t to);

/* ---- strings and objects (program_layout.c) ---- */

/* The states of any string, with which every program begins. */
void compile_any_string(struct compiler *c);
/* Those of a string of c->strings, with a count. */
void compile_counted_string(struct compiler *c, uint32_t index);
/* Those of an object of the builder. ERR_LIMIT: its keys need too many states. */
MUST_CHECK int compile_object(struct compiler *c, uint32_t index);

/* ---- text (program_text.c) ---- */

/* Sets STATE_TEXT where text may go on for ever. */
void program_mark_text(struct program *p);

#endif
