#include "scheduler/core/block_share.h"
#include "scheduler/core/core.h"
#include "scheduler/core/replica.h"
#include "scheduler/core/request.h"
#include "scheduler/core/sequence_blocks.h"
#include "scheduler/core/sequence_state.h"

struct block_share block_share_count(const struct replica *r, uint32_t group,
                                     struct tenant *newcomer) {
    uint32_t sharers = 0, coming = 0;
    for (uint32_t i = 0; i < r->running_count; i++) {
        struct tenant *tenant = r->running[i]->request->tenant;
        tenant->block_count = tenant->block_rows = 0;
    }
    if (newcomer) {
        newcomer->block_count = 0;
        newcomer->block_rows = 1;
        sharers = 1;
    }
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        struct tenant *tenant = q->request->tenant;
        if (seq_is_leaving(q))
            coming += seq_own_blocks(q, group);
        if (seq_is_leaving(q) || request_is_probe(q->request))
            continue;
        sharers += tenant->block_rows++ == 0;
        tenant->block_count += seq_own_blocks(q, group);
    }
    if (newcomer)
        newcomer->block_rows--;
    return (struct block_share){r->pools[group].block_count / MAX(sharers, 1u), coming};
}

bool block_share_is_over(const struct tenant *tenant, uint32_t blocks) {
    return tenant->block_count > blocks && tenant->block_rows > 1;
}

/* Whose client does not read needs no blocks now. */
static struct sequence *latest_paused(const struct replica *r) {
    struct sequence *victim = NULL;
    for (uint32_t i = 0; i < r->running_count; i++) {
        struct sequence *q = r->running[i];
        if (q->request->paused && !seq_is_leaving(q) &&
            (!victim || q->request->arrival > victim->request->arrival))
            victim = q;
    }
    return victim;
}

const struct tenant *block_share_giver(const struct replica *r, struct block_share share) {
    const struct tenant *most = NULL;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct tenant *tenant = r->running[i]->request->tenant;
        if (block_share_is_over(tenant, share.blocks) &&
            (!most || tenant->block_count > most->block_count))
            most = tenant;
    }
    return most;
}

struct sequence *block_share_victim(const struct replica *r, struct block_share share) {
    const struct tenant *most = block_share_giver(r, share);
    struct sequence *victim = most ? latest_paused(r) : NULL;
    if (victim)
        return victim;
    for (uint32_t i = 0; i < r->running_count && most; i++) {
        struct sequence *q = r->running[i];
        if (q->request->tenant == most && !seq_is_leaving(q) && !request_is_probe(q->request) &&
            (!victim || seq_gives_way_before(q, victim)))
            victim = q;
    }
    return victim;
}
