/*
 * open_places.h - how many generation requests may be open at once, and whose they are.
 *
 * A holder is a tenant, or where no key is asked for an address (open_holder). One alone may have
 * all places. When they are all taken, a holder still finds its share of them: the places by the
 * number of holders that have some, itself included. So no one, however many requests it leaves
 * open, keeps another out; nothing that was taken is given up for it. With H holders the j-th largest
 * has at most places / j, and all together places * (1 + 1/2 + ... + 1/H). The scheduler's queue
 * follows the same rule (scheduler/core/waiting.h).
 *
 * Threading: any.
 */
#ifndef GATEWAY_GENERATION_OPEN_PLACES_H
#define GATEWAY_GENERATION_OPEN_PLACES_H

#include "base/base.h"

struct open_places;
/* So many places, one or more. Returns owned. */
struct open_places *open_places_new(uint64_t places);
/* Every place was given back. NULL: nothing. */
void open_places_free(struct open_places **places);
/* Takes a place; false: all are taken, and this holder has its share. */
MUST_CHECK bool open_places_take(struct open_places *places, struct u128 holder);
/* Takes a place past every bound: for what another gateway took in before. */
void open_places_force(struct open_places *places, struct u128 holder);
/* One of this holder's places goes back. */
void open_places_give(struct open_places *places, struct u128 holder);
/* Who holds the place of a request: its tenant, or where that is zero its address (http_address_of). */
struct u128 open_holder(struct u128 tenant, struct u128 address);

#endif
