/*
 * fa.h - finite automata over ranges of 32-bit symbols: from expressions to small deterministic
 * ones.
 *
 * A symbol is a code point (patterns of strings), a byte (what the matcher reads), or, from
 * FA_ACTION on, the number of an action (program.h) that the determinisation carries along unread.
 * The states of an nfa have free edges and edges over ranges; those of a dfa have edges sorted by
 * their symbols that do not overlap.
 *
 * Every construction takes its states out of a budget (fuel), so no pattern costs more than the
 * caller allows: "(a|b)*a(a|b){30}" ends with ERR_LIMIT, not with 2^30 states.
 *
 * Threading: values; no shared state.
 */
#ifndef GRAMMAR_FA_H
#define GRAMMAR_FA_H

#include "base/error.h"
#include "base/vec.h"

enum { FA_ACTION = 0x40000000, FA_NONE = 0xffffffff };

struct fa_edge {
    uint32_t lo, hi; /* symbols, both included */
    uint32_t to;
};

/* ---- with free edges ---- */

struct nfa_edge {
    uint32_t lo, hi, to; /* lo > hi: free */
    uint32_t next;       /* of the same state; FA_NONE ends */
};
/* A state in copies of one thing: it accepts all that those of a higher rank in its row accept. */
struct nfa_place {
    uint32_t row; /* from 1 on; 0: in none */
    uint32_t rank;
};
struct nfa {
    VEC(uint32_t) first;  /* of each state: its last added edge, or FA_NONE */
    VEC(uint32_t) labels; /* of each state: FA_NONE, or accepting with this label */
    VEC(struct nfa_place) places;
    VEC(struct nfa_edge) edges;
    uint32_t row_count;
    uint32_t
        end; /* 1 + a state behind which nothing else counts: sets that have it are it alone; 0: none */
};
/* n is empty then, and may be used again. */
void nfa_release(struct nfa *n);
/* Adds a state without edges that does not accept; returns its number, from 0 on. */
uint32_t nfa_state(struct nfa *n);
/* Adds an edge for the symbols lo to hi, both included. */
void nfa_edge(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to);
/* Adds an edge that reads nothing. */
void nfa_free_edge(struct nfa *n, uint32_t from, uint32_t to);
/* Says that the states [first, first + count * times) are `times` copies of `count` states each, of
 * which each accepts, with the same labels, all that the same one in the next copy does (falling: in
 * the copy before). Of such states in one set the determinisation keeps the first alone, so that a
 * count that may begin at many places, [ab][abc]{1,60}[ab], takes no exponential number of sets.
 * States that were in such copies already stay in those. */
void nfa_copies(struct nfa *n, uint32_t first, uint32_t count, uint32_t times, bool falling);

/* ---- deterministic; the start is state 0 ---- */

struct dfa_state {
    uint32_t edge_first, edge_count;
    uint32_t label; /* FA_NONE: not accepting */
};
struct dfa {
    VEC(struct dfa_state) states;
    VEC(struct fa_edge) edges;
};
/* d is empty then, and may be used again. */
void dfa_release(struct dfa *d);

/* Counts down the states that may still be made; shared by all steps of one compilation. */
struct fa_fuel {
    uint32_t states;
    uint64_t looked; /* edges that were looked at to find smallest dfas; only counted */
};

/* The smallest dfa for what n accepts from `start`, states that lead nowhere left out; state 0 is
 * there even when nothing is accepted. Where a state accepts with several labels the lowest counts.
 * Of action symbols nothing is assumed but that they differ. ERR_LIMIT: the fuel is spent. */
MUST_CHECK int dfa_from_nfa(const struct nfa *n, uint32_t start, struct fa_fuel *fuel,
                            struct dfa *out, struct error *err);
/* Pairs of states reachable together; label(ctx, a, b) (each FA_NONE where that side does not
 * accept) says how a pair accepts. A side may have died: then it never accepts again; with
 * `both` pairs with a dead side are dropped at once. */
typedef uint32_t (*dfa_label_fn)(void *ctx, uint32_t a, uint32_t b);
/* The smallest dfa of them is not sought. ERR_LIMIT: the fuel is spent; *out is empty then. */
MUST_CHECK int dfa_product(const struct dfa *a, const struct dfa *b, bool both, dfa_label_fn label,
                           void *ctx, struct fa_fuel *fuel, struct dfa *out, struct error *err);
/* What both accept, with the labels of a. ERR_LIMIT: the fuel is spent; *out is empty then. */
MUST_CHECK int dfa_and(const struct dfa *a, const struct dfa *b, struct fa_fuel *fuel,
                       struct dfa *out, struct error *err);
/* What a accepts and b does not; labels, errors as dfa_and. */
MUST_CHECK int dfa_without(const struct dfa *a, const struct dfa *b, struct fa_fuel *fuel,
                           struct dfa *out, struct error *err);
/* Joins states that accept the same, where every edge leads to a state of a higher number and to one
 * from which something is accepted. Costs the states that are left, and an eighth of those there
 * were. ERR_LIMIT: the fuel is spent; d is empty then. */
MUST_CHECK int dfa_fold(struct dfa *d, struct fa_fuel *fuel, struct error *err);
/* True when nothing is accepted. */
bool dfa_is_empty(const struct dfa *d);
/* [states]: symbols of the shortest text that is accepted from each on; FA_NONE: none is. Returns
 * owned. */
uint32_t *dfa_shortest(const struct dfa *d);
/* Symbols of the longest text that is accepted, or FA_NONE: there is no longest. */
uint32_t dfa_longest(const struct dfa *d);
/* The state behind a symbol, or FA_NONE. */
uint32_t dfa_step(const struct dfa *d, uint32_t state, uint32_t symbol);
/* Adds to n what leads over the symbols lo to hi from one state to another: nfa_edge, or a spelling
 * of code points (build.h). */
typedef void nfa_spell_fn(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to);
/* Puts d between two states of n, each edge as `spell` writes it. */
void nfa_add_dfa(struct nfa *n, const struct dfa *d, nfa_spell_fn *spell, uint32_t from,
                 uint32_t to);

#endif
