/*
 * chain.h - names for the content of KV blocks: a 128-bit keyed hash of everything that determines
 * the values.
 *
 * hash(block) = H(hash of the block before, tokens, count of prompt-class positions when that
 * changes the bits); the first block's parent is a root made of model revision, adapter, salt,
 * tenant (when caches are apart) and block size. H is keyed with the deployment's secret, so that
 * nobody outside can construct two contents with one name.
 */
#ifndef SCHEDULER_CORE_CHAIN_H
#define SCHEDULER_CORE_CHAIN_H

#include "base/hash.h"

enum { CHAIN_MAX_BLOCK_TOKENS = 512, CHAIN_CLASS_FREE = UINT32_MAX };

struct chain_scope {
    struct u128 revision, tenant; /* tenant zero: shared */
    struct bytes adapter, salt;
    uint32_t block_tokens;
};

/* What the first block of a sequence of this scope has as its parent. Never zero. */
struct u128 chain_root(const struct hash_key *key, const struct chain_scope *scope);
/* prompt_count: of the block's positions; CHAIN_CLASS_FREE where classes do not matter. Never
 * zero. */
struct u128 chain_next(const struct hash_key *key, struct u128 parent, const uint32_t *tokens,
                       uint32_t block_tokens, uint32_t prompt_count);

#endif
