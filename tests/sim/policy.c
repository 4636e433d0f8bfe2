/*
 * policy.c - who gets what, and when: looked at in every turn of a scheduler, from outside.
 *
 * sched_check says that a core's state holds together; this says that it is just. Before a turn the
 * queues and slots are written down, with each plan and after the turn compared with what they have
 * become. The order of things is said here once more, in words of its own:
 *
 *   order       of one tenant nobody new is placed before one of more importance, or of the same and
 *               an earlier arrival; of resumed ones nobody before one that costs less, but for what
 *               a new one of its tenant goes before
 *   turns       of tenants with somebody new in the queue, the one that got least is next
 *   shares      what a tenant got is what was computed for it; who comes (back) begins where the one
 *               served last stands: never before (nothing is earned by idleness), never behind
 *   places      past waiting_max nobody new is taken whose tenant has its share of the places
 *               already, and nobody is refused whose tenant has not
 *   slots       who is next, has waited for its time, and whose tenant has no slot, takes one of a
 *               tenant that has several
 *   starvation  resumed ones go before new ones while there are credits; while a step has room,
 *               nothing that can run is left out of it; the oldest prompt has its quarter of a step
 *   overtaking  a prompt that has waited for half of the bound is overtaken by no newer one of its
 *               tenant and importance
 *   parts       where tenants share a step each has a row in it, and a tenant's rows take turns
 *   preemption  paused ones first; then a sequence of the tenant whose latest came last, and of
 *               that tenant's the least important, then the latest; or of one with too many blocks
 *               (blocks.c)
 */
#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/models.h"
#include "scheduler/core/place.h"
#include "scheduler/core/sequence_state.h"
#include "sim.h"

#include <stdlib.h>

/* ---- What is written down ---- */

static struct seen_sequence look(const struct sequence *q) {
    return (struct seen_sequence){.number = q->number,
                                  .q = q,
                                  .tenant = q->request->share_id,
                                  .request = q->request->id,
                                  .replica = q->replica,
                                  .tokens = q->token_count,
                                  .cost = q->recompute_cost,
                                  .blocks = blocks_taken(q),
                                  .planned = q->planned,
                                  .priority = q->request->priority,
                                  .state = q->state,
                                  .resumed = seq_is_resumed(q)};
}

static int by_number(const void *a, const void *b) {
    const struct seen_sequence *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static const struct seen_sequence *find(const struct seen_sequences *seen, uint64_t number) {
    struct seen_sequence key = {.number = number};
    return seen->count ? bsearch(&key, seen->items, seen->count, sizeof key, by_number) : NULL;
}

static bool waits_or_runs(const struct sequence *q) {
    return q->state == SEQ_QUEUED || (seq_in_slot(q) && !seq_is_leaving(q));
}

static void write_down(struct seen_sequences *seen, const struct sched *s) {
    seen->count = 0;
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        for (uint32_t k = 0; request && k < request->sequence_count; k++)
            if (waits_or_runs(&request->sequences[k]))
                vec_push(seen, look(&request->sequences[k]));
    }
    if (seen->count)
        qsort(seen->items, seen->count, sizeof *seen->items, by_number);
    seen->preemptions = s->counts.preemptions;
}

/* ---- Shares ---- */

static struct seen_tenant *tenant_of(struct policy *p, const struct model *model, struct u128 id) {
    for (size_t i = 0; i < p->tenants.count; i++)
        if (p->tenants.items[i].model == model && u128_equal(p->tenants.items[i].id, id))
            return &p->tenants.items[i];
    return NULL;
}

/* Has it had a request all the time? Else it was forgotten meanwhile, and came anew. */
static bool was_there(const struct policy *p, const struct sched *s, const struct tenant *tenant) {
    for (size_t i = 0; i < p->requests.count; i++) {
        const struct request *request = id_map_get(&s->request_ids, p->requests.items[i].id);
        if (request && request->tenant == tenant && request->arrival <= p->arrivals &&
            p->requests.items[i].bound)
            return true;
    }
    return false;
}

static void check_share(struct world *w, const struct policy *p, const struct sched *s,
                        const struct model *model, const struct tenant *tenant) {
    const struct seen_tenant *before = tenant_of((struct policy *)p, model, tenant->id);
    uint64_t floor = model->waiting.floor, got = before ? before->computed : 0,
             lowest = before ? before->floor : 0;
    MUST(w, floor >= lowest, "the one served last is said to have %llu, after %llu",
         (unsigned long long)floor, (unsigned long long)lowest);
    MUST(w, !tenant->heap.count || tenant->served >= floor,
         "a tenant has saved up: it got %llu, the one served last %llu",
         (unsigned long long)tenant->served, (unsigned long long)floor);
    if (before && before->served + got == tenant->served)
        return;
    bool stayed = before && was_there(p, s, tenant);
    MUST(w, !stayed || tenant->served > before->served + got,
         "a tenant that got %llu and %llu is said to have got %llu",
         (unsigned long long)before->served, (unsigned long long)got,
         (unsigned long long)tenant->served);
    MUST(w, tenant->served >= lowest && tenant->served <= floor + got,
         "a tenant comes with %llu where the one served last has %llu",
         (unsigned long long)tenant->served, (unsigned long long)floor);
}

static void write_shares_down(struct policy *p, const struct sched *s) {
    p->tenants.count = p->requests.count = 0;
    p->arrivals = s->next_arrival;
    for (const struct list_node *at = s->models.next; at != &s->models; at = at->next) {
        const struct model *model = LIST_ITEM(at, const struct model, link);
        for (size_t i = 0; i < model->waiting.tenants.count; i++) {
            const struct tenant *tenant = model->waiting.tenants.items[i];
            struct seen_tenant seen = {.model = model,
                                       .id = tenant->id,
                                       .served = tenant->served,
                                       .floor = model->waiting.floor};
            vec_push(&p->tenants, seen);
        }
    }
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        struct seen_request seen = {.bound = request && request->tenant};
        if (!request)
            continue;
        seen.id = request->id;
        vec_push(&p->requests, seen);
    }
}

/* After each event and each turn: nothing but rows, and coming back, changes what a tenant got. */
void policy_shares(struct process *process) {
    struct policy *p = &process->policy;
    const struct sched *s = process->core;
    for (const struct list_node *at = s->models.next; at != &s->models; at = at->next) {
        const struct model *model = LIST_ITEM(at, const struct model, link);
        for (size_t i = 0; i < model->waiting.tenants.count; i++)
            check_share(process->world, p, s, model, model->waiting.tenants.items[i]);
    }
    write_shares_down(p, s);
}

/* ---- Who was placed ---- */

static bool goes_first(const struct sequence *a, const struct sequence *b) {
    const struct request *x = a->request, *y = b->request;
    if (x->priority != y->priority)
        return x->priority < y->priority;
    return x->arrival != y->arrival ? x->arrival < y->arrival : a->choice < b->choice;
}

static uint64_t got_before(const struct policy *p, const struct sequence *q) {
    return tenant_of((struct policy *)p, q->request->model, q->request->tenant->id)->served;
}

/* `placed` was in the queue before the turn, and is in a slot; `waits` was and is in the queue. */
static void check_new_order(struct world *w, const struct policy *p, const struct sequence *placed,
                            const struct sequence *waits) {
    if (placed->request->tenant == waits->request->tenant)
        MUST(w, goes_first(placed, waits), "request %llu is overtaken by %llu of its tenant",
             (unsigned long long)waits->request->id.lo, (unsigned long long)placed->request->id.lo);
    else
        MUST(w, got_before(p, placed) <= got_before(p, waits),
             "request %llu waits while a tenant that got more has %llu placed",
             (unsigned long long)waits->request->id.lo, (unsigned long long)placed->request->id.lo);
}

static bool is_placed(const struct seen_sequence *q) {
    return q->state == SEQ_PLACED || q->state == SEQ_RUNNING;
}

/* Of one tenant, and the new one is more important than the one that ran before. */
static bool is_more_important(const struct seen_sequence *fresh, const struct seen_sequence *ran) {
    return u128_equal(fresh->tenant, ran->tenant) && fresh->priority < ran->priority;
}

/* A new one goes before it, or did: it waits for that one, and others do not wait for it. */
static bool is_held_back(const struct process *process, const struct seen_sequence *ran) {
    const struct seen_sequences *turn = &process->policy.turn;
    const struct sched *s = process->core;
    for (size_t i = 0; i < turn->count; i++)
        if (turn->items[i].state == SEQ_QUEUED && !turn->items[i].resumed &&
            is_more_important(&turn->items[i], ran))
            return true;
    /* those that waited for another choice of their request came into the queue in this turn */
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        for (uint32_t k = 0; request && k < request->sequence_count; k++) {
            const struct seen_sequence now = look(&request->sequences[k]);
            bool placed = is_placed(&now) && now.q->placed_at == s->now;
            if (((now.state == SEQ_QUEUED && !now.resumed) || placed) &&
                is_more_important(&now, ran))
                return true;
        }
    }
    return false;
}

static void check_resumed_order(struct process *process, const struct seen_sequence *placed,
                                const struct seen_sequence *waits) {
    uint64_t arrival = placed->q->request->arrival, other = waits->q->request->arrival;
    /* one of them left the queue in this turn, came back, and has less or more to compute by now */
    if (placed->q->recompute_cost != placed->cost || waits->q->recompute_cost != waits->cost)
        return;
    if (blocks_let_in(process, placed->q) || is_held_back(process, waits))
        return;
    bool right =
        placed->cost != waits->cost
            ? placed->cost < waits->cost
            : arrival < other || (arrival == other && placed->q->choice < waits->q->choice);
    MUST(process->world, right,
         "request %llu, %u positions to compute again, waits behind one with %u",
         (unsigned long long)waits->q->request->id.lo, waits->cost, placed->cost);
}

static bool has_credit(const struct sched *s, const struct model *model) {
    for (size_t i = 0; i < model->replicas.count; i++) {
        const struct replica *r = model->replicas.items[i];
        if (r->state == REPLICA_READY && !r->testing && r->resume_count < s->config.resume_credits)
            return true;
    }
    return false;
}

/* Somebody's last sequence has left its slot a moment ago; in this turn the slot may be taken again. */
static bool slot_is_kept(const struct sched *s, const struct model *model) {
    for (size_t i = 0; i < model->replicas.count; i++)
        if (s->now <= model->replicas.items[i]->slot_kept_until)
            return true;
    return false;
}

static void write_kept_down(struct policy *p, const struct sched *s) {
    p->slot_kept = false;
    for (const struct list_node *at = s->models.next; at != &s->models; at = at->next)
        p->slot_kept = p->slot_kept || slot_is_kept(s, LIST_ITEM(at, const struct model, link));
}

/* It has waited for its time, or a slot was kept, and its tenant has had no slot in this turn, or has
 * lost it at once (a deadline): it goes before those that ran. */
static bool was_shut_out(const struct process *process, const struct sequence *placed) {
    const struct seen_sequences *turn = &process->policy.turn;
    const struct request *request = placed->request;
    if (process->core->now - request->submitted_at < process->core->config.slot_wait_ms &&
        !process->policy.slot_kept && !slot_is_kept(process->core, request->model))
        return false;
    for (size_t i = 0; i < turn->count; i++)
        if (turn->items[i].state != SEQ_QUEUED && seq_in_slot(turn->items[i].q) &&
            u128_equal(turn->items[i].tenant, request->share_id))
            return false;
    return true;
}

static void check_pair(struct process *process, const struct seen_sequence *placed,
                       const struct seen_sequence *waits) {
    struct policy *p = &process->policy;
    const struct sched *s = process->core;
    struct world *w = process->world;
    if (placed->q->request->model != waits->q->request->model)
        return;
    if (!placed->resumed && !waits->resumed)
        check_new_order(w, p, placed->q, waits->q);
    if (placed->resumed && waits->resumed)
        check_resumed_order(process, placed, waits);
    if (!placed->resumed && waits->resumed && s->counts.preemptions == p->turn.preemptions)
        MUST(w,
             !has_credit(s, waits->q->request->model) || is_more_important(placed, waits) ||
                 was_shut_out(process, placed->q) || blocks_let_in(process, placed->q),
             "request %llu, that ran before, waits behind the new one %llu",
             (unsigned long long)waits->q->request->id.lo,
             (unsigned long long)placed->q->request->id.lo);
}

static uint32_t slots_of(const struct model *model, const struct tenant *tenant) {
    uint32_t own = 0;
    for (size_t i = 0; i < model->replicas.count; i++) {
        const struct replica *r = model->replicas.items[i];
        for (uint32_t k = 0; k < r->running_count; k++)
            own += r->running[k]->request->tenant == tenant;
    }
    return own;
}

static bool has_several(const struct model *model, const struct replica *r) {
    for (uint32_t k = 0; k < r->running_count; k++)
        if (!request_is_probe(r->running[k]->request) &&
            slots_of(model, r->running[k]->request->tenant) > 1)
            return true;
    return false;
}

/* The next new one, whose tenant has waited for its time and has no slot, where the only replica has
 * none free, and somebody has several. NULL: there is none. */
static const struct sequence *find_shut_out(const struct sched *s, const struct model *model) {
    const struct sequence *next = waiting_first(&model->waiting, false);
    const struct replica *r = model->replicas.count == 1 ? model->replicas.items[0] : NULL;
    if (!next || seq_is_resumed(next) || !r || r->state != REPLICA_READY || r->testing ||
        !list_is_empty(&s->groups) || r->free_slot_count || r->leaving_count ||
        !replica_fits(r, next) || next->request->fresh ||
        s->now - next->request->submitted_at < s->config.slot_wait_ms)
        return NULL;
    bool owed = !slots_of(model, next->request->tenant) && has_several(model, r);
    return owed ? next : NULL;
}

static void write_shut_out_down(struct policy *p, const struct sched *s) {
    p->shut_out = 0;
    for (const struct list_node *at = s->models.next; at != &s->models; at = at->next) {
        const struct sequence *q = find_shut_out(s, LIST_ITEM(at, const struct model, link));
        if (q)
            p->shut_out = q->number;
    }
}

/* Something has left its slot in this turn, or is about to. */
static void check_slots(struct process *process) {
    const struct policy *p = &process->policy;
    const struct sched *s = process->core;
    if (!p->shut_out || s->counts.preemptions != p->turn.preemptions)
        return;
    for (const struct list_node *at = s->models.next; at != &s->models; at = at->next) {
        const struct sequence *q = find_shut_out(s, LIST_ITEM(at, const struct model, link));
        MUST(process->world, !q || q->number != p->shut_out,
             "request %llu waits, its tenant has no slot, and another has several",
             (unsigned long long)q->request->id.lo);
    }
}

/* Whoever comes (back) later begins at least there. */
static void check_floor(struct process *process, const struct seen_sequence *placed) {
    MUST(process->world,
         placed->resumed ||
             placed->q->request->model->waiting.floor >= got_before(&process->policy, placed->q),
         "request %llu is placed, and what its tenant got is not remembered",
         (unsigned long long)placed->q->request->id.lo);
}

/* What lives now of what was written down, as it was then; state is that of now. */
static void find_again(struct policy *p, const struct sched *s) {
    p->now.count = 0;
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        for (uint32_t k = 0; request && k < request->sequence_count; k++) {
            const struct sequence *q = &request->sequences[k];
            const struct seen_sequence *before = find(&p->turn, q->number);
            if (!before || before->state != SEQ_QUEUED)
                continue;
            /* placed, and preempted in the same turn */
            if (q->state == SEQ_QUEUED &&
                (q->placed_at == s->now || seq_is_resumed(q) != before->resumed))
                continue;
            struct seen_sequence now = *before;
            now.state = q->state;
            vec_push(&p->now, now);
        }
    }
}

/* ---- Plans ---- */

static bool came_later(const struct sequence *a, const struct sequence *b) {
    uint64_t x = a->request->arrival, y = b->request->arrival;
    return x != y ? x > y : a->choice > b->choice;
}

static bool has_row(const struct replica *r, const struct sequence *q) {
    return q->planned == r->plan_number;
}

/* Was in a slot of this replica with its last plan, or when the turn began, and may be preempted. */
static bool had_slot(const struct policy *p, const struct replica *r, const struct sequence *q) {
    const struct seen_sequence *before = find(&p->plan, q->number);
    return before && before->replica == r && before->state != SEQ_QUEUED;
}

/* In a slot of this replica, or out of it since: also what got its slot in this turn and has lost it
 * already. */
static bool took_part(const struct policy *p, const struct sched *s, const struct replica *r,
                      const struct sequence *q) {
    return q->replica == r || had_slot(p, r, q) ||
           (q->state == SEQ_QUEUED && q->started && q->placed_at == s->now);
}

/* A sequence of the victim's tenant that came later than this one: why its tenant gives way. */
static bool has_later(const struct process *process, const struct replica *r,
                      const struct sequence *victim, const struct sequence *spared) {
    const struct sched *s = process->core;
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        if (!request || request->paused || request->tenant != victim->request->tenant)
            continue;
        for (uint32_t k = 0; k < request->sequence_count; k++)
            if (came_later(&request->sequences[k], spared) &&
                took_part(&process->policy, s, r, &request->sequences[k]))
                return true;
    }
    return false;
}

/* Both had a slot; the victim has lost it to make room, the spared one has got no row either. */
static void check_victim(struct process *process, const struct replica *r,
                         const struct sequence *victim, const struct sequence *spared) {
    const struct request *x = victim->request, *y = spared->request;
    unsigned long long lost = x->id.lo, kept = y->id.lo;
    MUST(process->world, !y->paused, "request %llu is preempted, and %llu is paused", lost, kept);
    if (x->tenant == y->tenant)
        MUST(process->world,
             x->priority != y->priority ? x->priority > y->priority : came_later(victim, spared),
             "request %llu is preempted before %llu of its tenant", lost, kept);
    else
        MUST(process->world,
             has_later(process, r, victim, spared) ||
                 blocks_had_too_many(process->core, &process->policy.plan, r, x->share_id),
             "request %llu is preempted, and %llu of another tenant came later", lost, kept);
}

/* Somebody who was owed a slot may have taken one in this turn: of whoever has most, not of the
 * latest. */
static bool slot_was_owed(const struct process *process) {
    const struct seen_sequences *turn = &process->policy.turn;
    for (size_t i = 0; i < turn->count; i++)
        if (turn->items[i].state == SEQ_QUEUED && !turn->items[i].resumed &&
            !turn->items[i].q->request->fresh && was_shut_out(process, turn->items[i].q))
            return true;
    return false;
}

/* Its slot is of this turn: others may have left theirs before. */
static bool has_just_come(const struct process *process, const struct sequence *q) {
    return q->placed_at == process->core->now;
}

static void check_victims(struct process *process, const struct replica *r) {
    const struct policy *p = &process->policy;
    if (slot_was_owed(process))
        return;
    for (size_t i = 0; i < p->plan.count; i++) {
        const struct sequence *victim = p->plan.items[i].q;
        bool out = victim->state == SEQ_QUEUED || victim->state == SEQ_PREEMPTED;
        if (!had_slot(p, r, victim) || !out || !seq_is_runnable(victim))
            continue;
        blocks_check_victim(process, r, victim);
        for (uint32_t k = 0; k < r->running_count; k++)
            if (!has_row(r, r->running[k]) && !seq_is_leaving(r->running[k]) &&
                !has_just_come(process, r->running[k]))
                check_victim(process, r, victim, r->running[k]);
    }
}

/* Positions that it had to compute before its row. */
static uint32_t left_before(const struct flight_row *row) {
    const struct sequence *q = row->sequence;
    return q->tokens_hi - (row->samples ? 1 : 0) - (q->computed_hi - row->token_count);
}

static const struct flight_row *row_of(const struct flight *flight, const struct sequence *q) {
    for (uint32_t i = 0; i < flight->row_count; i++)
        if (flight->rows[i].sequence == q)
            return &flight->rows[i];
    return NULL;
}

static bool can_run(const struct sequence *q) {
    return !seq_is_leaving(q) && !q->request->paused && q->tokens_hi < q->max_total;
}

/* Of those with more than a token to compute, before this plan. */
static const struct sequence *oldest_prompt(const struct replica *r, const struct flight *flight) {
    const struct sequence *best = NULL;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        const struct flight_row *row = row_of(flight, q);
        uint32_t left = row ? left_before(row) : can_run(q) ? q->tokens_hi - q->computed_hi : 0;
        if (left > 1 && (!best || came_later(best, q)))
            best = q;
    }
    return best;
}

static void check_quarter(struct world *w, const struct sched *s, const struct replica *r,
                          const struct flight *flight, uint32_t budget) {
    const struct sequence *oldest = oldest_prompt(r, flight);
    uint32_t for_prompts = budget - flight->draft_total;
    for (uint32_t i = 0; i < flight->row_count; i++)
        for_prompts -= left_before(&flight->rows[i]) > 1 ? 0 : flight->rows[i].token_count;
    if (!oldest || !for_prompts)
        return;
    const struct flight_row *row = row_of(flight, oldest);
    uint32_t got = row ? row->token_count : 0;
    uint32_t left = row ? left_before(row) : oldest->tokens_hi - oldest->computed_hi;
    uint32_t sure = MIN(left, (for_prompts + 3) / 4);
    if (s->config.chunk_tokens)
        sure = MIN(sure, s->config.chunk_tokens);
    if (r->snapshot_count)
        sure = 1; /* a chunk may end where a snapshot is taken */
    MUST(w, got >= sure, "the oldest prompt gets %u of %u tokens for prompts", got, for_prompts);
}

/* Most tokens of this step, given its rows that get one each: what prompts have beside them. */
static uint32_t bound_of(const struct sched *s, const struct replica *r,
                         const struct flight *flight, uint32_t budget) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < flight->row_count; i++)
        rows += left_before(&flight->rows[i]) <= 1;
    if (!rows || r->ms_per_prompt_token <= 0 || !s->config.itl_target_ms)
        return budget;
    double ms = step_cost_rows_ms(&r->cost, rows), target = s->config.itl_target_ms;
    if (s->config.itl_auto) { /* each sequence without a row has the time of two */
        double others = r->running_count > rows ? r->running_count - rows : 0,
               fair = ms + MAX(2 * others * ms / rows, ms);
        target = MIN(target, MAX(fair, 30.0));
    }
    double for_prompts = target < 2 * ms ? ms : target - ms,
           tokens = for_prompts / r->ms_per_prompt_token;
    return (uint32_t)MIN((double)budget, flight->draft_total + rows + MAX(tokens, 16.0));
}

static bool waits_since_half(const struct sched *s, const struct sequence *q) {
    const struct request *request = q->request;
    return s->config.wait_max_ms && !request->fresh && q->token_count == q->prompt_count &&
           s->now - request->submitted_at >= s->config.wait_max_ms / 2;
}

/* It has no row of this step, and could have one. */
static bool waits_for_a_row(const struct replica *r, const struct sequence *q) {
    return !has_row(r, q) && can_run(q) && q->tokens_hi - q->computed_hi > 1;
}

static void check_overtaking(struct process *process, const struct replica *r,
                             const struct flight *flight) {
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        if (!waits_for_a_row(r, q) || !waits_since_half(process->core, q))
            continue;
        for (uint32_t k = 0; k < flight->row_count; k++) {
            const struct sequence *other = flight->rows[k].sequence;
            MUST(process->world,
                 other->request->tenant != q->request->tenant ||
                     other->request->priority != q->request->priority ||
                     left_before(&flight->rows[k]) < 2 || !came_later(other, q),
                 "request %llu has waited for half of the bound, and %llu goes before it",
                 (unsigned long long)q->request->id.lo, (unsigned long long)other->request->id.lo);
        }
    }
}

/* Several tenants are there, or were a moment ago: each has its part of the step, and no more. */
static bool is_shared(const struct sched *s, const struct replica *r) {
    if (s->now < r->share_until)
        return true;
    for (uint32_t i = 1; i < r->running_count; i++)
        if (r->running[i]->request->tenant != r->running[0]->request->tenant)
            return true;
    return false;
}

/* A tenant that can run has a row in each step, and of its rows that compute one token none runs twice
 * while another does not run at all. */
static void check_parts(struct process *process, const struct replica *r,
                        const struct flight *flight, uint32_t budget) {
    for (uint32_t i = 0; i < r->running_count && flight->token_total < budget; i++) {
        const struct sequence *q = r->running[i];
        if (has_row(r, q) || !can_run(q))
            continue;
        bool has = false;
        for (uint32_t k = 0; k < flight->row_count; k++) {
            const struct sequence *other = flight->rows[k].sequence;
            if (other->request->tenant != q->request->tenant)
                continue;
            const struct seen_sequence *before = find(&process->policy.plan, other->number);
            bool came = !before || before->replica != r; /* since: none of its rows was here */
            MUST(process->world,
                 came || q->tokens_hi - q->computed_hi > 1 || left_before(&flight->rows[k]) > 1 ||
                     before->planned <= q->planned,
                 "request %llu runs again before %llu of its tenant",
                 (unsigned long long)other->request->id.lo, (unsigned long long)q->request->id.lo);
            has = true;
        }
        MUST(process->world, has, "a step has no row of request %llu's tenant",
             (unsigned long long)q->request->id.lo);
    }
}

/* With each plan, before it is sent. Where something was preempted for its rows, or is still to
 * leave, rows may be missing for want of blocks. */
static void check_rows(struct process *process, const struct replica *r) {
    const struct sched *s = process->core;
    struct world *w = process->world;
    const struct flight *flight =
        &r->flights[(r->flight_first + r->flight_count - 1) % r->steps_in_flight];
    uint32_t budget = r->max_step_tokens;
    if (s->config.step_tokens)
        budget = MIN(budget, s->config.step_tokens);
    budget = bound_of(s, r, flight, budget);
    if (r->stage_count > 1 || r->testing || r->leaving_count ||
        s->counts.preemptions != process->policy.plan.preemptions)
        return;
    check_overtaking(process, r, flight);
    if (is_shared(s, r)) {
        check_parts(process, r, flight, budget);
        return;
    }
    for (uint32_t i = 0; i < r->running_count && flight->token_total < budget; i++)
        MUST(w, has_row(r, r->running[i]) || !can_run(r->running[i]),
             "a step of %u tokens has %u, and request %llu is left out", budget,
             flight->token_total, (unsigned long long)r->running[i]->request->id.lo);
    check_quarter(w, s, r, flight, budget);
}

/* What the rows add to what their tenants got, at a weight of one hundred. */
static void count_rows(struct policy *p, const struct replica *r) {
    const struct flight *flight =
        &r->flights[(r->flight_first + r->flight_count - 1) % r->steps_in_flight];
    for (uint32_t i = 0; i < flight->row_count; i++) {
        const struct request *request = flight->rows[i].sequence->request;
        struct seen_tenant *tenant = tenant_of(p, r->model, request->tenant->id);
        if (!tenant) { /* came in this turn */
            struct seen_tenant seen = {.model = r->model, .id = request->tenant->id};
            vec_push(&p->tenants, seen);
            tenant = &p->tenants.items[p->tenants.count - 1];
        }
        tenant->computed +=
            100 * (uint64_t)(flight->rows[i].token_count + flight->rows[i].draft_count);
    }
}

void policy_plan(struct process *process, struct u128s ranks, const struct wire_plan *plan) {
    const struct sched *s = process->core;
    for (size_t i = 0; i < s->replicas.count; i++) {
        const struct replica *r = s->replicas.items[i];
        if (r->rank_ids != ranks.items)
            continue;
        MUST(process->world, r->plan_number == plan->number, "a plan of another number");
        if (list_is_empty(&s->groups)) { /* suspects take slots from others */
            check_victims(process, r);
            check_rows(process, r);
        }
        count_rows(&process->policy, r);
        /* for the next plan of this turn */
        write_down(&process->policy.plan, s);
    }
}

/* ---- Places ---- */

struct holding {
    struct u128 tenant;
    uint32_t count;
};
struct holdings {
    struct holding *items;
    size_t count, cap;
};

static uint32_t *held_by(struct holdings *held, struct u128 tenant) {
    for (size_t i = 0; i < held->count; i++)
        if (u128_equal(held->items[i].tenant, tenant))
            return &held->items[i].count;
    struct holding none = {.tenant = tenant};
    vec_push(held, none);
    return &held->items[held->count - 1].count;
}

/* What of each tenant waits and never ran, of the only model or (false) of none. */
static void count_held(struct holdings *held, const struct sched *s, bool of_model) {
    held->count = 0;
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        if (!request || request->resumed || (request->model != NULL) != of_model)
            continue;
        for (uint32_t k = 0; k < request->sequence_count; k++) {
            const struct sequence *q = &request->sequences[k];
            bool waits = q->state == SEQ_HELD || q->state == SEQ_QUEUED || q->state == SEQ_PARKED;
            *held_by(held, request->share_id) += waits && !q->started;
        }
    }
}

static int most_first(const void *a, const void *b) {
    const struct holding *x = a, *y = b;
    return x->count > y->count ? -1 : x->count < y->count;
}

static void check_places(struct process *process) {
    struct holdings held = {0};
    uint32_t places = process->world->config.waiting_max;
    count_held(&held, process->core, true);
    if (held.count)
        qsort(held.items, held.count, sizeof *held.items, most_first);
    for (size_t i = 0; i < held.count; i++)
        MUST(process->world, held.items[i].count * (i + 1) <= places,
             "%u of a tenant wait, the %uth most of them, for %u places", held.items[i].count,
             (unsigned)i + 1, places);
    vec_release(&held);
}

/* In the time there is nobody is refused for a long wait. */
static bool may_wait(const struct process *process, bool has_deadline) {
    return process->world->config.wait_max_ms == 0 && !has_deadline;
}

/* more: of this tenant, that are not counted. */
static void check_refusal(struct process *process, struct u128 tenant, uint32_t more) {
    struct holdings held = {0};
    uint32_t places = process->world->config.waiting_max, sharers = 0;
    count_held(&held, process->core, true);
    uint32_t own = *held_by(&held, tenant) += more;
    for (size_t i = 0; i < held.count; i++)
        sharers += held.items[i].count > 0;
    MUST(process->world, own * sharers > places,
         "one is refused of a tenant that has, with it, %u of %u places, where %u tenants wait",
         own, places, sharers);
    vec_release(&held);
}

void policy_reject(struct process *process, const struct wire_reject *reject) {
    const struct sched *s = process->core;
    const struct request *request = id_map_get(&s->request_ids, reject->request);
    if (request && request->model && reject->code == WIRE_REJECT_OVERLOADED &&
        may_wait(process, request->deadline_at != NEVER))
        check_refusal(process, request->share_id, 0);
}

void policy_submit(struct process *process, const struct wire_submit *submit, bool refused) {
    if (refused && process->core->models.next != &process->core->models &&
        may_wait(process, submit->deadline_ms != 0))
        check_refusal(process, u128_is_zero(submit->share) ? submit->tenant : submit->share,
                      (uint32_t)submit->choice_count);
}

void policy_turn_begins(struct process *process) {
    write_down(&process->policy.turn, process->core);
    write_down(&process->policy.plan, process->core);
    write_shut_out_down(&process->policy, process->core);
    write_kept_down(&process->policy, process->core);
}

void policy_turn_ends(struct process *process) {
    struct policy *p = &process->policy;
    find_again(p, process->core);
    check_slots(process);
    blocks_check_short(process);
    for (size_t i = 0; i < p->now.count; i++) {
        if (!is_placed(&p->now.items[i]))
            continue;
        check_floor(process, &p->now.items[i]);
        for (size_t k = 0; k < p->now.count; k++)
            if (p->now.items[k].state == SEQ_QUEUED)
                check_pair(process, &p->now.items[i], &p->now.items[k]);
    }
    policy_shares(process);
    check_places(process);
}

void policy_release(struct policy *p) {
    vec_release(&p->turn);
    vec_release(&p->plan);
    vec_release(&p->now);
    vec_release(&p->tenants);
    vec_release(&p->requests);
}
