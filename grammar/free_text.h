/*
 * free_text.h - what text may go on behind a position, whatever its order: looked for once, so that
 * a walk over the vocabulary takes whole subtrees whose bytes are all of it.
 *
 * Two kinds of it are looked for. Bytes that lead nowhere soon are left out first, so that what is
 * left may go on for long. Where few are left out for words that must not come, all of them may still
 * come until the shortest such word is whole; that is the second kind.
 *
 * For run.h's sets of threads; used by mask.c alone.
 *
 * Invariants:
 *   (1) From a set that is known with n bytes left, n bytes follow of those that `may` tells, in any
 *       order, and of characters above ASCII where it tells of them.
 *
 * Threading: as the grammar_run's.
 */
#ifndef GRAMMAR_FREE_TEXT_H
#define GRAMMAR_FREE_TEXT_H

#include "grammar/run.h"

enum { FREE_SETS_MAX = 250, FREE_SLOTS = 1024, FREE_ENDLESS = UINT8_MAX };

struct free_set {
    uint32_t set;
    uint8_t state; /* enum text_state */
    uint8_t depth; /* bytes behind the first */
    uint8_t left;  /* bytes that may follow; FREE_ENDLESS: any number */
};
/* Text of some bytes. */
struct free_class {
    struct text_bytes may;
    uint32_t count;
    struct free_set sets[FREE_SETS_MAX];
    uint16_t slots[FREE_SLOTS]; /* 1 + a place in sets, by hash */
};
struct free_text {
    struct free_class lasting, near; /* of a count of 0: there is too little of it */
};

/* What goes on from `set`. */
void free_text_find(struct free_text *f, struct grammar_run *run, uint32_t set);
/* Everything that is below may come behind `set`. */
bool free_text_covers(const struct free_text *f, uint32_t set, struct text_bytes below,
                      uint32_t height);

#endif
