#include "scheduler/core/id_map.h"

static size_t home(const struct id_map *map, struct u128 id) {
    uint64_t mixed = (id.lo ^ (id.hi << 1 | id.hi >> 63)) * 0x9e3779b97f4a7c15u;
    return (size_t)(mixed >> 20) & (map->cap - 1);
}

static size_t find(const struct id_map *map, struct u128 id) {
    size_t i = home(map, id);
    while (map->entries[i].value && !u128_equal(map->entries[i].id, id))
        i = (i + 1) & (map->cap - 1);
    return i;
}

static void grow(struct id_map *map) {
    struct id_map bigger = {.cap = map->cap ? map->cap * 2 : 16};
    bigger.entries = mem_calloc(bigger.cap, sizeof *bigger.entries);
    for (size_t i = 0; i < map->cap; i++)
        if (map->entries[i].value)
            bigger.entries[find(&bigger, map->entries[i].id)] = map->entries[i];
    bigger.count = map->count;
    mem_free(map->entries);
    *map = bigger;
}

void id_map_release(struct id_map *map) {
    mem_free(map->entries);
    *map = (struct id_map){0};
}

void *id_map_get(const struct id_map *map, struct u128 id) {
    return map->count ? map->entries[find(map, id)].value : NULL;
}

void id_map_put(struct id_map *map, struct u128 id, void *value) {
    CHECK(value);
    if (map->count * 2 >= map->cap)
        grow(map);
    size_t i = find(map, id);
    CHECK(!map->entries[i].value);
    map->entries[i] = (struct id_entry){id, value};
    map->count++;
}

/* Moves later entries of the run back over the hole, so that no probe ends early. */
void id_map_remove(struct id_map *map, struct u128 id) {
    CHECK(map->count);
    size_t hole = find(map, id), mask = map->cap - 1;
    CHECK(map->entries[hole].value);
    for (size_t i = (hole + 1) & mask; map->entries[i].value; i = (i + 1) & mask) {
        size_t want = home(map, map->entries[i].id);
        if (((i - want) & mask) < ((i - hole) & mask))
            continue;
        map->entries[hole] = map->entries[i];
        hole = i;
    }
    map->entries[hole].value = NULL;
    map->count--;
}
