/*
 * blocks.c - who has which part of the blocks, looked at as policy.c does: from outside.
 *
 *   parts       while a tenant has more than its part of a replica's blocks, and several sequences, no
 *               tenant with fewer blocks gives way, and none with one sequence
 *   shortage    the next new sequence, of a tenant without a slot, that has waited for its time and finds a
 *               free slot but no blocks, is let in after a few plans, be they ever so many who grow
 *
 * What was written down is from before the turn or plan, so where a bound may have moved since, the
 * one is taken that forbids less.
 */
#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/models.h"
#include "scheduler/core/place.h"
#include "scheduler/core/sequence_state.h"
#include "sim.h"

/* Plans that go out until as many blocks have come free as the longest sequence needs. */
enum { PLANS_MOST = 40 };

uint32_t blocks_taken(const struct sequence *q) {
    const struct block_table *table = &q->tables[0];
    uint32_t others = MAX(table->first, q->shared_count);
    return q->replica && table->count > others ? table->count - others : 0;
}

/* What a tenant had on a replica at any moment since something was written down. */
struct part {
    int64_t least, most; /* blocks */
    uint32_t rows_least, rows_most;
};

static const struct seen_sequence *find(const struct seen_sequences *seen,
                                        const struct sequence *q) {
    for (size_t i = 0; i < seen->count; i++)
        if (seen->items[i].number == q->number)
            return &seen->items[i];
    return NULL;
}

/* There, as written down or now, whichever is more. What got a slot in this turn, perhaps of this replica, and has
 * lost it already, may have had what it would need. -1: it was not there. */
static int64_t most_of_one(const struct sched *s, const struct seen_sequence *before,
                           const struct replica *r, const struct sequence *q) {
    int64_t most = before && before->replica == r ? (int64_t)before->blocks : -1;
    if (q->replica == r)
        return MAX(most, (int64_t)blocks_taken(q));
    if (q->started && q->placed_at == s->now && (!before || before->state == SEQ_QUEUED))
        return q->token_count / r->groups[0].block_tokens + 1;
    return most;
}

/* It has been there all the time, and what it had has not become less. */
static bool has_stayed(const struct sched *s, const struct seen_sequence *before,
                       const struct replica *r, const struct sequence *q) {
    return before && before->replica == r && q->replica == r && q->placed_at != s->now &&
           !seq_is_leaving(q) && !request_is_probe(q->request);
}

static void add_one(struct part *part, const struct sched *s, const struct seen_sequences *seen,
                    const struct replica *r, const struct sequence *q) {
    const struct seen_sequence *before = find(seen, q);
    int64_t most = most_of_one(s, before, r, q);
    if (has_stayed(s, before, r, q)) {
        part->least += MIN(before->blocks, blocks_taken(q));
        part->rows_least++;
    }
    part->most += MAX(most, 0);
    part->rows_most += most >= 0;
}

/* Its request is forgotten since: it ended, or its gateway did. */
static bool is_gone(const struct sched *s, const struct seen_sequence *before) {
    const struct request *request = id_map_get(&s->request_ids, before->request);
    for (uint32_t k = 0; request && k < request->sequence_count; k++)
        if (request->sequences[k].number == before->number)
            return false;
    return true;
}

/* What is gone may have had a slot of this turn before. */
static struct part part_of(const struct sched *s, const struct seen_sequences *seen,
                           const struct replica *r, struct u128 tenant) {
    struct part part = {0};
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        if (!request || request->model != r->model || !u128_equal(request->share_id, tenant))
            continue;
        for (uint32_t k = 0; k < request->sequence_count; k++)
            add_one(&part, s, seen, r, &request->sequences[k]);
    }
    for (size_t i = 0; i < seen->count; i++) {
        const struct seen_sequence *before = &seen->items[i];
        bool may_have = before->replica == r || before->state == SEQ_QUEUED;
        if (!may_have || !u128_equal(before->tenant, tenant) || !is_gone(s, before))
            continue;
        part.most += before->tokens / r->groups[0].block_tokens + 1;
        part.rows_most++;
    }
    return part;
}

/* Tenants with anything that runs or waits: no more than that share. */
static uint32_t tenants_of(const struct seen_sequences *seen) {
    uint32_t count = 0;
    for (size_t i = 0; i < seen->count; i++) {
        bool known = false;
        for (size_t k = 0; k < i; k++)
            known = known || u128_equal(seen->items[i].tenant, seen->items[k].tenant);
        count += !known;
    }
    return MAX(count, 1u);
}

bool blocks_had_too_many(const struct sched *s, const struct seen_sequences *seen,
                         const struct replica *r, struct u128 tenant) {
    struct part part = part_of(s, seen, r, tenant);
    return part.rows_most > 1 && part.most > r->pools[0].block_count / tenants_of(seen);
}

/* Tenants that have been there all the time: at least as many share. */
static uint32_t tenants_stayed(const struct sched *s, const struct seen_sequences *seen,
                               const struct replica *r) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        bool stayed = has_stayed(s, find(seen, q), r, q);
        for (uint32_t k = 0; k < i && stayed; k++)
            stayed = r->running[k]->request->tenant != q->request->tenant ||
                     !has_stayed(s, find(seen, r->running[k]), r, r->running[k]);
        count += stayed;
    }
    return MAX(count, 1u);
}

void blocks_check_victim(struct process *process, const struct replica *r,
                         const struct sequence *victim) {
    const struct sched *s = process->core;
    const struct seen_sequences *plan = &process->policy.plan;
    if (victim->request->paused || victim->gave_way)
        return;
    struct part own = part_of(s, plan, r, victim->request->share_id);
    uint32_t share = r->pools[0].block_count / tenants_stayed(s, plan, r);
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct request *request = r->running[i]->request;
        if (request->tenant == victim->request->tenant)
            continue;
        struct part other = part_of(s, plan, r, request->share_id);
        MUST(
            process->world,
            other.rows_least < 2 || other.least <= share ||
                (own.rows_most > 1 && own.most >= other.least),
            "request %llu gives way, %lld blocks in %u sequences of its tenant are there, and another "
            "has %lld in %u",
            (unsigned long long)victim->request->id.lo, (long long)own.most, own.rows_most,
            (long long)other.least, other.rows_least);
    }
}

bool blocks_let_in(const struct process *process, const struct sequence *placed) {
    const struct sched *s = process->core;
    const struct seen_sequences *turn = &process->policy.turn;
    const struct replica *r = placed->replica;
    if (!r || s->now - placed->request->submitted_at < s->config.slot_wait_ms)
        return false;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        bool came_too = q == placed || q->placed_at == s->now; /* where room was left */
        if (q->request->tenant == placed->request->tenant && !came_too)
            return false;
    }
    for (size_t i = 0; i < turn->count; i++)
        if (!u128_equal(turn->items[i].tenant, placed->request->share_id) &&
            blocks_had_too_many(s, turn, r, turn->items[i].tenant))
            return true;
    return false;
}

/* ---- Shortage ---- */

static bool somebody_has_too_many(const struct model *model, const struct replica *r,
                                  const struct tenant *newcomer) {
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct tenant *tenant = r->running[i]->request->tenant;
        uint32_t blocks = 0, rows = 0, sharers = 1;
        for (uint32_t k = 0; k < r->running_count; k++) {
            const struct sequence *q = r->running[k];
            bool first = q->request->tenant != newcomer;
            for (uint32_t j = 0; j < k; j++)
                first = first && r->running[j]->request->tenant != q->request->tenant;
            sharers += first;
            if (q->request->tenant != tenant || seq_is_leaving(q))
                continue;
            blocks += blocks_taken(q);
            rows++;
        }
        if (rows > 1 && blocks > r->pools[0].block_count / sharers)
            return true;
    }
    return false;
}

/* Who has to be let in soon, where there is one replica; NULL: nobody. */
static const struct sequence *find_short(const struct sched *s, const struct model *model) {
    const struct sequence *next = waiting_first(&model->waiting, false);
    const struct replica *r = model->replicas.count == 1 ? model->replicas.items[0] : NULL;
    if (!next || seq_is_resumed(next) || !r || r->state != REPLICA_READY || r->testing ||
        !list_is_empty(&s->groups) || !r->free_slot_count || !replica_fits(r, next) ||
        next->request->fresh || next->request->tenant->slot_count ||
        s->now - next->request->submitted_at < s->config.slot_wait_ms)
        return NULL;
    return somebody_has_too_many(model, r, next->request->tenant) ? next : NULL;
}

void blocks_check_short(struct process *process) {
    struct policy *p = &process->policy;
    const struct sched *s = process->core;
    uint64_t before = p->short_of_blocks;
    p->short_of_blocks = 0;
    for (const struct list_node *at = s->models.next; at != &s->models; at = at->next) {
        const struct model *model = LIST_ITEM(at, const struct model, link);
        const struct sequence *q = find_short(s, model);
        if (!q)
            continue;
        uint64_t plans = model->replicas.items[0]->plan_number;
        p->short_of_blocks = q->number;
        if (q->number != before || plans < p->short_plans)
            p->short_plans = plans;
        MUST(process->world, plans - p->short_plans <= PLANS_MOST,
             "request %llu finds no blocks for %llu plans, and another tenant has too many",
             (unsigned long long)q->request->id.lo, (unsigned long long)(plans - p->short_plans));
    }
}
