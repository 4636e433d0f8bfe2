/*
 * id_map.h - from 128-bit ids to pointers: open addressing, linear probes, at most half full, no
 * tombstones.
 *
 * Ids are random (minted by our own processes), so folding them is hash enough.
 */
#ifndef SCHEDULER_CORE_ID_MAP_H
#define SCHEDULER_CORE_ID_MAP_H

#include "base/base.h"

struct id_entry {
    struct u128 id;
    void *value; /* NULL: empty */
};
struct id_map {
    struct id_entry *entries; /* owned */
    size_t cap, count;        /* cap: zero or a power of two */
};

/* Frees its memory, not the values; a zeroed map is fine, and empty. */
void id_map_release(struct id_map *map);
void *id_map_get(const struct id_map *map, struct u128 id); /* NULL: not there */
/* The id must not be there; value must not be NULL. May grow. */
void id_map_put(struct id_map *map, struct u128 id, void *value);
void id_map_remove(struct id_map *map, struct u128 id); /* must be there */

#endif
