#include "gateway/generation/submission_map.h"

void submission_map_release(struct submission_map *map) {
    mem_free(map->slots);
    *map = (struct submission_map){0};
}

static size_t home(const struct submission_map *map, struct u128 key) {
    return (size_t)(key.hi ^ (key.lo >> 8)) & (map->cap - 1);
}

static struct submission_map_slot *probe(const struct submission_map *map, struct u128 key) {
    size_t i = home(map, key);
    while (map->slots[i].submission && !u128_equal(map->slots[i].key, key))
        i = (i + 1) & (map->cap - 1);
    return &map->slots[i];
}

static void grow(struct submission_map *map) {
    struct submission_map old = *map;
    map->cap = old.cap ? old.cap * 2 : 64;
    map->slots = mem_calloc(map->cap, sizeof *map->slots);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].submission)
            *probe(map, old.slots[i].key) = old.slots[i];
    mem_free(old.slots);
}

void submission_map_add(struct submission_map *map, struct u128 key,
                        struct submission *submission) {
    if (2 * (map->count + 1) > map->cap)
        grow(map);
    struct submission_map_slot *slot = probe(map, key);
    CHECK(!slot->submission);
    *slot = (struct submission_map_slot){key, submission};
    map->count++;
}

struct submission *submission_map_find(const struct submission_map *map, struct u128 key) {
    return map->cap ? probe(map, key)->submission : NULL;
}

void submission_map_remove(struct submission_map *map, struct u128 key) {
    if (!map->cap)
        return;
    size_t hole = (size_t)(probe(map, key) - map->slots), mask = map->cap - 1;
    if (!map->slots[hole].submission)
        return;
    map->count--;
    /* Whoever probes past the hole from its home moves back into it. */
    for (size_t i = (hole + 1) & mask; map->slots[i].submission; i = (i + 1) & mask) {
        size_t from_home = (i - home(map, map->slots[i].key)) & mask, from_hole = (i - hole) & mask;
        if (from_home < from_hole)
            continue;
        map->slots[hole] = map->slots[i];
        hole = i;
    }
    map->slots[hole] = (struct submission_map_slot){0};
}
