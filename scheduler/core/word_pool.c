#include "scheduler/core/word_pool.h"

void word_pool_init(struct word_pool *pool, size_t keep_bytes) {
    *pool = (struct word_pool){.keep_bytes = keep_bytes};
}

void word_pool_release(struct word_pool *pool) {
    CHECK(pool->used_bytes == 0);
    for (int class = 0; class < WORD_POOL_CLASS_COUNT; class ++)
        while (pool->free[class]) {
            void *item = pool->free[class];
            memcpy(&pool->free[class], item, sizeof(void *));
            mem_free(item);
        }
    *pool = (struct word_pool){0};
}

static int class_of(uint32_t want) {
    int class = 0;
    while (((uint64_t)WORD_POOL_SMALLEST << class) < want)
        class ++;
    CHECK(class < WORD_POOL_CLASS_COUNT);
    return class;
}

static uint32_t *word_pool_take(struct word_pool *pool, int class) {
    size_t bytes = ((size_t)WORD_POOL_SMALLEST << class) * sizeof(uint32_t);
    pool->used_bytes += bytes;
    void *item = pool->free[class];
    if (!item)
        return mem_alloc(bytes);
    memcpy(&pool->free[class], item, sizeof(void *));
    pool->free_bytes -= bytes;
    return item;
}

void word_pool_reserve(struct word_pool *pool, struct words *words, uint32_t used, uint32_t want) {
    if (want <= words->cap)
        return;
    int class = class_of(want);
    struct words bigger = {.items = word_pool_take(pool, class),
                           .cap = (uint32_t)WORD_POOL_SMALLEST << class};
    if (used)
        memcpy(bigger.items, words->items, used * sizeof(uint32_t));
    word_pool_put_back(pool, words);
    *words = bigger;
}

void word_pool_put_back(struct word_pool *pool, struct words *words) {
    if (!words->cap)
        return;
    int class = class_of(words->cap);
    size_t bytes = (size_t)words->cap * sizeof(uint32_t);
    pool->used_bytes -= bytes;
    if (pool->free_bytes + bytes > pool->keep_bytes) {
        mem_free(words->items);
    } else {
        memcpy(words->items, &pool->free[class], sizeof(void *));
        pool->free[class] = words->items;
        pool->free_bytes += bytes;
    }
    *words = (struct words){0};
}
