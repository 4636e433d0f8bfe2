#include "scheduler/core/snapshot.h"
#include "scheduler/core/core.h"
#include "scheduler/core/place.h"
#include "scheduler/core/sequence_blocks.h"

static uint32_t position_of(const struct sequence *q) {
    uint32_t block_tokens = q->replica->groups[0].block_tokens;
    return (q->prompt_count - 1) / block_tokens * block_tokens;
}

static struct u128 hash_of(struct sched *s, const struct sequence *q) {
    request_hash(s, q->request, q->replica); /* another replica may have been looked at last */
    return q->request->hashes.items[position_of(q) / q->replica->groups[0].block_tokens - 1];
}

void snapshot_trim_hits(struct replica *r, const struct request *request) {
    uint32_t count = (uint32_t)MIN(r->hits.count, request->hashes.count);
    r->hit_snapshot = BLOCK_NONE;
    for (; count; count--) {
        r->hit_snapshot = block_pool_find(&r->snapshots, request->hashes.items[count - 1]);
        if (r->hit_snapshot != BLOCK_NONE)
            break;
    }
    r->hits.count = count;
}

void snapshot_hold(struct sequence *q, struct replica *r) {
    if (!r->snapshot_count || !r->hits.count)
        return;
    block_pool_ref(&r->snapshots, r->hit_snapshot);
    q->snapshot = r->hit_snapshot;
}

void snapshot_let_go(struct sched *s, struct sequence *q) {
    if (q->snapshot != BLOCK_NONE)
        block_pool_unref(&q->replica->snapshots, q->snapshot, seq_block_user(s, q));
    q->snapshot = BLOCK_NONE;
}

uint32_t snapshot_room(const struct sequence *q) {
    uint32_t at = q->replica->snapshot_count ? position_of(q) : 0;
    return at > q->computed_hi ? at - q->computed_hi : UINT32_MAX;
}

static void add_op(struct plan_build *b, enum wire_block_op kind, uint32_t source,
                   uint32_t target) {
    vec_push(&b->op_kinds, kind);
    vec_push(&b->op_groups, 0);
    vec_push(&b->op_sources, source);
    vec_push(&b->op_targets, target);
}

uint32_t snapshot_take(struct sched *s, struct sequence *q) {
    struct replica *r = q->replica;
    if (!r->snapshot_count || !q->computed_hi || q->computed_hi != position_of(q))
        return BLOCK_NONE;
    if (block_pool_find(&r->snapshots, hash_of(s, q)) != BLOCK_NONE)
        return BLOCK_NONE;
    uint32_t snapshot = block_pool_take(&r->snapshots, seq_block_user(s, q));
    if (snapshot != BLOCK_NONE)
        add_op(&s->plan_build, WIRE_OP_SNAPSHOT, q->slot, snapshot);
    return snapshot;
}

void snapshot_restore(struct sched *s, struct sequence *q) {
    if (q->snapshot != BLOCK_NONE)
        add_op(&s->plan_build, WIRE_OP_RESTORE, q->snapshot, q->slot);
    snapshot_let_go(s, q);
}

void snapshot_finish_ops(struct sched *s, const struct flight_row *row, bool good) {
    if (row->snapshot == BLOCK_NONE)
        return;
    struct block_pool *pool = &row->sequence->replica->snapshots;
    bool sealed = good && block_pool_seal(pool, row->snapshot, hash_of(s, row->sequence));
    s->counts.snapshots += sealed; /* not sealed: it failed, or another one was quicker */
    block_pool_unref(pool, row->snapshot, seq_block_user(s, row->sequence));
}
