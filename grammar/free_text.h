/*
 * free_text.h - what text may go on behind a position, whatever its order: looked for once, so that
 * a walk over the vocabulary takes whole subtrees whose bytes are all of it.
 *
 * For run.h's sets of threads; used by mask.c alone.
 *
 * Invariants:
 *   (1) From a set that is known with room n, n bytes follow of those that `may` tells, in any order,
 *       and of characters above ASCII where it tells of them.
 *
 * Threading: as the grammar_run's.
 */
#ifndef GRAMMAR_FREE_TEXT_H
#define GRAMMAR_FREE_TEXT_H

#include "grammar/run.h"

enum { FREE_SETS_MAX = 250, FREE_SLOTS = 1024 };

struct free_set {
    uint32_t set;
    uint8_t state; /* enum text_state */
    uint8_t depth; /* bytes behind the first */
};
struct free_text {
    struct text_bytes may;
    uint32_t room; /* of the first set; TEXT_ENDLESS */
    uint32_t count;
    struct free_set sets[FREE_SETS_MAX];
    uint16_t slots[FREE_SLOTS]; /* 1 + a place in sets, by hash */
};

/* What goes on from `set`. A room of 0: too little to look for. */
void free_text_find(struct free_text *f, struct grammar_run *run, uint32_t set);
/* Everything that is below may come behind `set`. */
bool free_text_covers(const struct free_text *f, uint32_t set, struct text_bytes below,
                      uint32_t height);

#endif
