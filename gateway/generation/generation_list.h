/*
 * generation_list.h - the open generations of a thread, newest first, and a round over them that
 * takes as many turns as it needs.
 *
 * A visit may end any generation, and what comes meanwhile is left for the next round.
 *
 * Invariants:
 *   (1) A round visits each generation that was there when it began, and lives still, once.
 *   (2) next is in the list, or NULL: no round is under way.
 *
 * Threading: its event thread's.
 */
#ifndef GATEWAY_GENERATION_GENERATION_LIST_H
#define GATEWAY_GENERATION_GENERATION_LIST_H

#include "base/base.h"

struct generation;

/* Zeroed: empty. */
struct generation_list {
    struct generation *first;
    struct generation *next; /* that the round visits */
};

typedef void generation_visit(struct generation *gen);

void generation_list_add(struct generation_list *list, struct generation *gen);
/* It is in the list. */
void generation_list_remove(struct generation_list *list, struct generation *gen);
/* Visits all, at once; a visit ends no other generation than its own. */
void generation_list_each(struct generation_list *list, generation_visit *visit);
/* Begins a round, unless one is under way. */
void generation_list_begin(struct generation_list *list);
/* Goes on with the round by so many visits at most. true: it is not over. */
bool generation_list_go_on(struct generation_list *list, size_t most, generation_visit *visit);

#endif
