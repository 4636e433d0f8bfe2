/*
 * part_map.h - request ids to the parts that wait for tokens: an open-addressing table of one event thread.
 *
 * Ids are random, so their bits are the hash. Linear probing, removal by shifting back: no tombstones. At most half
 * full.
 */
#ifndef GATEWAY_PART_MAP_H
#define GATEWAY_PART_MAP_H

#include "base/base.h"

struct part;
struct part_map {
    struct part_map_slot {
        struct u128 key;
        struct part *part; /* borrowed; NULL: empty */
    } * slots;             /* owned */
    size_t cap, count;     /* cap: a power of two, or 0 */
};

void part_map_release(struct part_map *map);
void part_map_put(struct part_map *map, struct u128 key, struct part *part); /* the key must be new */
struct part *part_map_find(const struct part_map *map, struct u128 key);
void part_map_remove(struct part_map *map, struct u128 key); /* absent: nothing */

#endif
