/*
 * fa_internal.h - sets of words by number, and what the fa*.c files share.
 */
#ifndef GRAMMAR_FA_INTERNAL_H
#define GRAMMAR_FA_INTERNAL_H

#include "grammar/fa.h"

typedef VEC(uint32_t) word_vec;

struct span {
    uint32_t first, count;
};
struct interner {
    word_vec pool;
    VEC(struct span) sets;
    uint32_t *slots; /* [cap] of set + 1 */
    size_t cap;
};

/* Frees all; t may be zeroes. */
void interner_release(struct interner *t);
/* Empties it. Costs as much as there was in it. */
void interner_clear(struct interner *t);
/* The number of the set of these words; *fresh when it is new. */
uint32_t interner_add(struct interner *t, const uint32_t *words, size_t count, bool *fresh);

/* Takes the price, in states, from the fuel. ERR_LIMIT, in the words for people, where it has less. */
int fa_burn(struct fa_fuel *fuel, uint64_t price, struct error *err);
/* Makes d the smallest dfa for what it accepts; states that lead nowhere are left out. */
void dfa_minimise(struct dfa *d, struct fa_fuel *fuel);
/* Adds an edge behind the last one of the state being made, whose edges begin at `first`, joined with it
 * where they meet. */
void dfa_push_edge(struct dfa *d, size_t first, uint32_t lo, uint32_t hi, uint32_t to);

#endif
