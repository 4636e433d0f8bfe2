/*
 * answer_room.h - memory for answers that are held as a whole: until they are complete, and until
 * their clients have read them.
 *
 * Streams have a bound for each connection; a whole answer may be large (n choices with 20
 * log-probabilities a token; pieces of a long text), so all of them share one room. A tenant, which is
 * a key, or where none is asked for an address (open_places.h), may have as much as is free: alone
 * half of the room, and there is always some for another.
 *
 * Threading: any.
 */
#ifndef GATEWAY_ANSWERS_ANSWER_ROOM_H
#define GATEWAY_ANSWERS_ANSWER_ROOM_H

#include "base/base.h"

struct answer_room;
/* Room for so many bytes. Returns owned. */
struct answer_room *answer_room_new(uint64_t bytes);
/* Everything was given back. */
void answer_room_free(struct answer_room **room);
/* Takes some for a tenant; false: it has its share, or all is taken. */
MUST_CHECK bool answer_room_take(struct answer_room *room, struct u128 tenant, uint64_t bytes);
/* What was taken goes back, in parts or at once. */
void answer_room_give(struct answer_room *room, struct u128 tenant, uint64_t bytes);
/* Bytes taken now. */
uint64_t answer_room_taken(struct answer_room *room);

#endif
