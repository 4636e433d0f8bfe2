/*
 * matcher.h - which bytes and tokens may come next: a program run on what was written so far.
 *
 * A position of a text is a set of threads, each a state and a stack of frames. Frames and sets
 * are kept once (equal ones have equal numbers), and what follows a set on a byte is found once,
 * so a text that repeats itself costs table look-ups. All matchers of a grammar share these tables
 * (struct grammar_run); they are made anew when they pass their budget, and what live matchers
 * stand on is carried over.
 *
 * Invariants:
 *   (1) A matcher's position is a function of the program and the bytes it has accepted, so it can
 *       be rebuilt anywhere from the tokens of a sequence.
 *   (2) A call that refuses bytes leaves the position as it was.
 *   (3) A token is in the mask exactly when matcher_token would accept it.
 *
 * Threading: a grammar_run and its matchers belong to one thread at a time.
 */
#ifndef GRAMMAR_MATCHER_H
#define GRAMMAR_MATCHER_H

#include "grammar/program.h"
#include "grammar/vocab.h"

enum {
    MATCH_THREADS_MAX = 512, /* of one position; more: the grammar is too ambiguous */
    RUN_BYTES = 16 << 20,    /* of the tables, past which they are made anew */
    EXACT_BYTES = 2 << 20,   /* the same of what is kept of unique items, most of it for one mask */
    RUN_BYTES_MAX = 128 << 20, /* past which a matcher fails */
};

struct grammar_run;
struct matcher;

/* Looks for a position with more than MATCH_THREADS_MAX threads, as far as a bounded number of steps
 * leads, which is farther where threads are many; false: there is one. */
bool matcher_can_begin(const struct program *program);

/* Borrows both, which outlive it. vocab may be NULL: bytes only. */
struct grammar_run *grammar_run_new(const struct program *program, const struct vocab *vocab);
/* After the last matcher. */
void grammar_run_free(struct grammar_run **run);
/* Bytes of memory the tables hold. */
size_t grammar_run_size(const struct grammar_run *run);

/* At the beginning of a text. */
struct matcher *matcher_new(struct grammar_run *run);
/* Clears *m; NULL is allowed. Before grammar_run_free. */
void matcher_free(struct matcher **m);
/* Back to the beginning of a text. */
void matcher_reset(struct matcher *m);
/* Goes on behind these bytes. False, and nothing changes, when they may not come here. */
MUST_CHECK bool matcher_bytes(struct matcher *m, struct bytes text);
/* As matcher_bytes with the bytes of a token. An end of sequence is accepted where the text may
 * end; nothing is accepted behind it. */
MUST_CHECK bool matcher_token(struct matcher *m, uint32_t id);
/* The text may end here. */
bool matcher_may_end(const struct matcher *m);
/* Sets bits[vocab->word_count]: bit id % 32 of word id / 32 is whether the token may come. */
void matcher_mask(struct matcher *m, uint32_t *bits);
/* Appends the bytes that must come, up to the next choice (at most `max`); the position stays. */
void matcher_forced(struct matcher *m, size_t max, struct buf *out);
/* The tables passed their last bound, or a position had too many threads: the matcher accepts
 * nothing any more. */
bool matcher_failed(const struct matcher *m);

#endif
