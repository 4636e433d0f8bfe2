/*
 * unique.h - arrays whose items must differ: what was read of them, and which tokens would make two
 * items equal.
 *
 * Of such an array a stack has a frame (FRAME_UNIQUE) with the items that are there and the text of
 * the one that is being read. So positions in it are as many as texts, and nothing of them can be
 * kept for later. A grammar with such arrays has two runs, therefore: one passes over the keyword,
 * like any other, and makes the masks; the other (`exact`) has the frames. Its matchers stand there,
 * and it takes from a mask the few tokens behind which an item equals one that was there, or must
 * come to.
 *
 * Such tokens are sought where the text may still become an item that was there (item.h), and among
 * those that end an item and go on.
 *
 * Invariants:
 *   (1) A position of the exact run lives: some text follows it, as far as UNIQUE_SETS_MAX positions
 *       behind it tell.
 *
 * Threading: as the grammar_run's.
 */
#ifndef GRAMMAR_UNIQUE_H
#define GRAMMAR_UNIQUE_H

#include "grammar/run.h"

enum { UNIQUE_SETS_MAX = 256 };

/* The frame behind one more byte of text. */
uint32_t unique_read(struct grammar_run *exact, uint32_t frame, uint8_t byte);
/* The frame behind an item that has ended, or FA_NONE: it equals one that was there. */
uint32_t unique_item_ended(struct grammar_run *exact, uint32_t frame);
/* Whether some text follows the set. */
bool unique_lives(struct grammar_run *exact, uint32_t set);
/* Takes from a mask what may not come behind `set`, whose like in the other run is `loose`. */
void unique_refuse(struct grammar_run *exact, uint32_t set, uint32_t loose, uint32_t *bits);
/* Frees what it keeps of a run. */
void unique_release(struct grammar_run *exact);

#endif
