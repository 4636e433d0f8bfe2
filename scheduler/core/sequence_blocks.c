#include "scheduler/core/sequence_blocks.h"

#include "scheduler/core/core.h"
#include "scheduler/core/place.h"
#include "scheduler/core/snapshot.h"

struct block_user seq_block_user(const struct sched *s, const struct sequence *q) {
    return (struct block_user){q->request->block_holder, s->now};
}

static bool cover_group(struct sched *s, struct sequence *q, struct replica *r, uint32_t group,
                        uint32_t upto) {
    struct block_table *table = &q->tables[group];
    uint32_t block_tokens = r->groups[group].block_tokens;
    uint32_t need = (upto + block_tokens - 1) / block_tokens;
    if (table->count >= need)
        return true;
    word_pool_reserve(&s->word_pool, &table->ids, table->count, need);
    while (table->count < need) {
        uint32_t block = block_pool_take(&r->pools[group], seq_block_user(s, q));
        if (block == BLOCK_NONE)
            return false;
        table->ids.items[table->count++] = block;
    }
    return true;
}

uint32_t seq_begin_blocks(struct sched *s, struct sequence *q, struct replica *r) {
    uint32_t hit_count = (uint32_t)r->hits.count;
    struct block_table *table = &q->tables[0];
    word_pool_reserve(&s->word_pool, &table->ids, 0, hit_count);
    q->shared_count = 0;
    for (uint32_t i = 0; i < hit_count; i++) {
        q->shared_count += block_pool_refs(&r->pools[0], r->hits.items[i]) > 0;
        block_pool_ref(&r->pools[0], r->hits.items[i]);
        table->ids.items[i] = r->hits.items[i];
    }
    table->count = q->sealed_count = hit_count;
    q->chain = r->hit_chain;
    snapshot_hold(q, r);
    for (uint32_t group = 0; group < r->group_count; group++)
        if (r->groups[group].kind != WIRE_GROUP_WINDOW)
            CHECK(cover_group(s, q, r, group, q->token_count));
    return r->caching ? hit_count * r->groups[0].block_tokens : 0;
}

bool seq_cover(struct sched *s, struct sequence *q, uint32_t upto) {
    for (uint32_t group = 0; group < q->replica->group_count; group++)
        if (!cover_group(s, q, q->replica, group, upto))
            return false;
    return true;
}

static void drop_behind_window(struct sched *s, struct sequence *q, uint32_t group) {
    struct replica *r = q->replica;
    struct block_table *table = &q->tables[group];
    uint32_t window = r->groups[group].window_tokens, block_tokens = r->groups[group].block_tokens;
    while (q->computed_lo > window &&
           (table->first + 1) * block_tokens <= q->computed_lo - window) {
        block_pool_unref(&r->pools[group], table->ids.items[table->first], seq_block_user(s, q));
        table->ids.items[table->first++] = BLOCK_NONE;
    }
}

void seq_seal(struct sched *s, struct sequence *q) {
    struct replica *r = q->replica;
    for (uint32_t group = 0; group < r->group_count; group++)
        if (r->groups[group].kind == WIRE_GROUP_WINDOW)
            drop_behind_window(s, q, group);
    uint32_t block_tokens = r->groups[0].block_tokens;
    if (!r->caching || (q->sealed_count + 1) * block_tokens > q->computed_lo)
        return;
    request_hash(s, q->request, r); /* another replica may have been looked at last */
    while ((q->sealed_count + 1) * block_tokens <= q->computed_lo) {
        uint32_t block = q->tables[0].ids.items[q->sealed_count];
        q->chain = seq_block_hash(s, q, r, q->chain, q->sealed_count++);
        if (!block_pool_seal(&r->pools[0], block, q->chain))
            continue;
        vec_push(&r->sealed_ids, block);
        vec_push(&r->sealed_hashes, q->chain);
    }
}

bool seq_shares_prompt(const struct sequence *q) {
    const struct replica *r = q->replica;
    if (!r->caching)
        return true;
    uint32_t block_tokens = r->groups[0].block_tokens;
    uint32_t shared = q->prompt_count / block_tokens * block_tokens;
    /* with a state: one row behind its snapshot */
    return q->computed_lo >= (r->snapshot_count ? q->prompt_count : shared);
}

/* Last block first, so that the start of a prompt stays cached longest. */
void seq_release_blocks(struct sched *s, struct sequence *q) {
    snapshot_let_go(s, q);
    for (uint32_t group = 0; group < q->replica->group_count; group++) {
        struct block_table *table = &q->tables[group];
        for (uint32_t i = table->count; i-- > table->first;)
            block_pool_unref(&q->replica->pools[group], table->ids.items[i], seq_block_user(s, q));
        word_pool_put_back(&s->word_pool, &table->ids);
        *table = (struct block_table){0};
    }
    q->sealed_count = 0;
}
