#include "gateway/part_map.h"

void part_map_release(struct part_map *map) {
    mem_free(map->slots);
    *map = (struct part_map){0};
}

static size_t home(const struct part_map *map, struct u128 key) {
    return (size_t)(key.hi ^ (key.lo >> 8)) & (map->cap - 1);
}

static struct part_map_slot *probe(const struct part_map *map, struct u128 key) {
    size_t i = home(map, key);
    while (map->slots[i].part && !u128_equal(map->slots[i].key, key)) i = (i + 1) & (map->cap - 1);
    return &map->slots[i];
}

static void grow(struct part_map *map) {
    struct part_map old = *map;
    map->cap = old.cap ? old.cap * 2 : 64;
    map->slots = mem_calloc(map->cap, sizeof *map->slots);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].part) *probe(map, old.slots[i].key) = old.slots[i];
    mem_free(old.slots);
}

void part_map_put(struct part_map *map, struct u128 key, struct part *part) {
    if (2 * (map->count + 1) > map->cap) grow(map);
    struct part_map_slot *slot = probe(map, key);
    CHECK(!slot->part);
    *slot = (struct part_map_slot){key, part};
    map->count++;
}

struct part *part_map_find(const struct part_map *map, struct u128 key) {
    return map->cap ? probe(map, key)->part : NULL;
}

void part_map_remove(struct part_map *map, struct u128 key) {
    if (!map->cap) return;
    size_t hole = (size_t)(probe(map, key) - map->slots), mask = map->cap - 1;
    if (!map->slots[hole].part) return;
    map->count--;
    /* Whoever probes past the hole from its home moves back into it. */
    for (size_t i = (hole + 1) & mask; map->slots[i].part; i = (i + 1) & mask) {
        size_t from_home = (i - home(map, map->slots[i].key)) & mask, from_hole = (i - hole) & mask;
        if (from_home < from_hole) continue;
        map->slots[hole] = map->slots[i];
        hole = i;
    }
    map->slots[hole] = (struct part_map_slot){0};
}
