/*
 * submission_map.h - request ids to the parts that wait for tokens: an open-addressing table of one
 * event thread.
 *
 * Ids are random, so their bits are the hash. Linear probing, removal by shifting back: no
 * tombstones. At most half full.
 */
#ifndef GATEWAY_GENERATION_SUBMISSION_MAP_H
#define GATEWAY_GENERATION_SUBMISSION_MAP_H

#include "base/base.h"

struct submission;
struct submission_map {
    struct submission_map_slot {
        struct u128 key;
        struct submission *submission; /* borrowed; NULL: empty */
    } * slots;                         /* owned */
    size_t cap, count;                 /* cap: a power of two, or 0 */
};

/* Frees the table, not the submissions. */
void submission_map_release(struct submission_map *map);
/* the key must be new */
void submission_map_add(struct submission_map *map, struct u128 key, struct submission *submission);
/* NULL: there is none. */
struct submission *submission_map_find(const struct submission_map *map, struct u128 key);
void submission_map_remove(struct submission_map *map, struct u128 key); /* absent: nothing */

#endif
