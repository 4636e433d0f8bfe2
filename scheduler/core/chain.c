#include "scheduler/core/chain.h"

static struct u128 not_zero(struct u128 hash) {
    if (u128_is_zero(hash))
        hash.lo = 1;
    return hash;
}

struct u128 chain_root(const struct hash_key *key, const struct chain_scope *scope) {
    struct {
        struct u128 revision, tenant, adapter, salt;
        uint64_t block_tokens;
    } all = {
        .revision = scope->revision,
        .tenant = scope->tenant,
        .adapter = hash128_keyed(key, scope->adapter.data, scope->adapter.len),
        .salt = hash128_keyed(key, scope->salt.data, scope->salt.len),
        .block_tokens = scope->block_tokens,
    };
    return not_zero(hash128_keyed(key, &all, sizeof all));
}

struct u128 chain_next(const struct hash_key *key, struct u128 parent, const uint32_t *tokens,
                       uint32_t block_tokens, uint32_t prompt_count) {
    struct {
        struct u128 parent;
        uint32_t prompt_count, tokens[CHAIN_MAX_BLOCK_TOKENS];
    } all;
    all.parent = parent;
    all.prompt_count = prompt_count;
    memcpy(all.tokens, tokens, block_tokens * sizeof *tokens);
    size_t len = offsetof(__typeof__(all), tokens) + block_tokens * sizeof *tokens;
    return not_zero(hash128_keyed(key, &all, len));
}
