/*
 * block_pool.h - the KV blocks of one group on one replica: who refers to them, which hold sealed
 * content, which may be taken.
 *
 * A block is block_tokens consecutive positions of a sequence. This file holds numbers, never
 * memory of a device. A block with references belongs to sequences. One without is free; if it
 * still holds sealed content (it has a hash) it is also cached: found by its hash until it is taken
 * for something else. Free blocks are taken in this order: those without content, then cached ones,
 * of one holder the least recently released first.
 *
 * A holder is who took a block, or used it last: a number of a small table, to which tenants are
 * hashed. Whose cached block goes: that of the holder which has most blocks, so that what one asks
 * for takes no more than a share from the others. But what nobody used for BLOCK_KEPT_MS goes before
 * all that was, whoever had it: who is gone keeps nothing from who is there.
 *
 * Invariants (block_pool_check asserts them):
 *   (1) A block is on the free list exactly when its references are 0; free_count is the length of
 *       all those lists.
 *   (2) A free block without hash is on the list of blank ones, one with a hash on its holder's.
 *   (3) A block with a hash is found under it, and no two blocks have the same hash.
 *   (4) used + free == block_count; cached_count is the number of free blocks with a hash.
 *   (5) held says how many blocks with references or a hash each holder has.
 *
 * Every operation is O(1); taking a cached block is O(holders with one). Nothing is allocated after block_pool_init.
 */
#ifndef SCHEDULER_CORE_BLOCK_POOL_H
#define SCHEDULER_CORE_BLOCK_POOL_H

#include "base/hash.h"

enum { BLOCK_NONE = UINT32_MAX };

enum {
    BLOCK_HOLDERS = 64, /* 0: nobody that is known */
    BLOCK_KEPT_MS = 5 * 60 * 1000,
};

/* Who takes or gives back, and when. */
struct block_user {
    uint32_t holder;
    int64_t now_ms;
};

struct block {
    struct u128 hash; /* zero: content is not sealed */
    uint32_t refs;
    uint32_t prev, next;  /* on a free list; BLOCK_NONE at its ends */
    uint32_t bucket_next; /* same bucket of the hash table */
    uint32_t holder;      /* while it has references or a hash */
    int64_t released_ms;  /* while it is cached */
};

struct block_list {
    uint32_t head, tail; /* taken from the head */
};

struct block_pool {
    struct block *blocks; /* owned */
    uint32_t *buckets;    /* owned */
    uint32_t block_count, bucket_mask;
    uint32_t free_count, cached_count;
    struct block_list blank, cached[BLOCK_HOLDERS];
    int64_t oldest_ms[BLOCK_HOLDERS]; /* released_ms of the first of its list, if there is one */
    uint32_t held[BLOCK_HOLDERS];
    uint64_t cached_bits; /* which holders' lists are not empty */
    uint64_t eviction_count;
};

/* All blocks free and without content; block_count may be 0. Must be released. */
void block_pool_init(struct block_pool *pool, uint32_t block_count);
/* Frees its memory; a zeroed pool is fine. */
void block_pool_release(struct block_pool *pool);
/* All blocks free and without content. */
void block_pool_reset(struct block_pool *pool);

/* A holder's number: of two tenants that meet in one, each has what both have. */
uint32_t block_holder(const struct hash_key *key, struct u128 tenant);

/* A block with one reference and no hash; BLOCK_NONE when none is free. */
MUST_CHECK uint32_t block_pool_take(struct block_pool *pool, struct block_user by);
/* The block that holds this content, or BLOCK_NONE. Takes no reference. */
uint32_t block_pool_find(const struct block_pool *pool, struct u128 hash);
/* One reference more, to a block that has one or is cached: then it leaves the free list. */
void block_pool_ref(struct block_pool *pool, uint32_t block);
/* One reference less, of one that is there; with the last the block is free, behind all others of
 * its list. */
void block_pool_unref(struct block_pool *pool, uint32_t block, struct block_user by);
/* The content of a referenced block is complete and will not change. false: another block already
 * holds the same; this one stays without hash. */
bool block_pool_seal(struct block_pool *pool, uint32_t block, struct u128 hash);
/* A free block without hash is known to hold this content (told by a worker); nobody has
 * used it. false: out of range, not blank, or held twice. */
bool block_pool_adopt(struct block_pool *pool, uint32_t block, struct u128 hash);
static inline uint32_t block_pool_refs(const struct block_pool *pool, uint32_t block) {
    return pool->blocks[block].refs;
}
static inline struct u128 block_pool_hash(const struct block_pool *pool, uint32_t block) {
    return pool->blocks[block].hash;
}
/* CHECKs the invariants above; O(blocks). */
void block_pool_check(const struct block_pool *pool);

#endif
