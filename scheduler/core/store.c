#include "scheduler/core/store.h"

void store_init(struct store *store, size_t keep_bytes) { *store = (struct store){.keep_bytes = keep_bytes}; }

void store_release(struct store *store) {
    CHECK(store->used_bytes == 0);
    for (int class = 0; class < STORE_CLASS_COUNT; class ++)
        while (store->free[class]) {
            void *item = store->free[class];
            memcpy(&store->free[class], item, sizeof(void *));
            mem_free(item);
        }
    *store = (struct store){0};
}

static int class_of(uint32_t want) {
    int class = 0;
    while (((uint64_t)STORE_SMALLEST << class) < want) class ++;
    CHECK(class < STORE_CLASS_COUNT);
    return class;
}

static uint32_t *take(struct store *store, int class) {
    size_t bytes = ((size_t)STORE_SMALLEST << class) * sizeof(uint32_t);
    store->used_bytes += bytes;
    void *item = store->free[class];
    if (!item) return mem_alloc(bytes);
    memcpy(&store->free[class], item, sizeof(void *));
    store->free_bytes -= bytes;
    return item;
}

void store_reserve(struct store *store, struct words *words, uint32_t used, uint32_t want) {
    if (want <= words->cap) return;
    int class = class_of(want);
    struct words bigger = {.items = take(store, class), .cap = (uint32_t)STORE_SMALLEST << class};
    if (used) memcpy(bigger.items, words->items, used * sizeof(uint32_t));
    store_give(store, words);
    *words = bigger;
}

void store_give(struct store *store, struct words *words) {
    if (!words->cap) return;
    int class = class_of(words->cap);
    size_t bytes = (size_t)words->cap * sizeof(uint32_t);
    store->used_bytes -= bytes;
    if (store->free_bytes + bytes > store->keep_bytes) {
        mem_free(words->items);
    } else {
        memcpy(words->items, &store->free[class], sizeof(void *));
        store->free[class] = words->items;
        store->free_bytes += bytes;
    }
    *words = (struct words){0};
}
