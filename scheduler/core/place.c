#include "scheduler/core/place.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/block_share.h"
#include "scheduler/core/chain.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/sequence_blocks.h"
#include "scheduler/core/sequence_state.h"
#include "scheduler/core/snapshot.h"
#include "scheduler/core/timer.h"

#include <math.h>

void request_hash(struct sched *s, struct request *request, const struct replica *r) {
    uint32_t block_tokens = r->groups[0].block_tokens;
    if (request->hashed && request->hash_block_tokens == block_tokens &&
        request->hash_class_sensitive == r->class_sensitive &&
        u128_equal(request->hash_revision, r->revision))
        return;
    request->hashed = true;
    request->hash_block_tokens = block_tokens;
    request->hash_class_sensitive = r->class_sensitive;
    request->hash_revision = r->revision;
    struct chain_scope scope = {
        .revision = r->revision, .salt = request->salt, .block_tokens = block_tokens};
    if (s->config.isolate_tenants)
        scope.tenant = request->tenant_id;
    request->root = chain_root(&s->config.cache_key, &scope);
    uint32_t count = (uint32_t)request->prompt.count / block_tokens;
    vec_reserve(&request->hashes, count);
    struct u128 hash = request->root;
    for (uint32_t i = 0; i < count; i++) {
        hash =
            chain_next(&s->config.cache_key, hash, request->prompt.ids + (size_t)i * block_tokens,
                       block_tokens, r->class_sensitive ? block_tokens : CHAIN_CLASS_FREE);
        request->hashes.items[i] = hash;
    }
    request->hashes.count = count;
}

struct u128 seq_block_hash(struct sched *s, const struct sequence *q, const struct replica *r,
                           struct u128 parent, uint32_t idx) {
    uint32_t block_tokens = r->groups[0].block_tokens, start = idx * block_tokens,
             prompt_count = q->prompt_count;
    if (idx < q->request->hashes.count)
        return q->request->hashes.items[idx];
    uint32_t prompt_class = prompt_count > start ? prompt_count - start : 0;
    return chain_next(&s->config.cache_key, parent, seq_tokens(q) + start, block_tokens,
                      r->class_sensitive ? prompt_class : CHAIN_CLASS_FREE);
}

uint32_t prefix_find(struct sched *s, struct sequence *q, struct replica *r) {
    r->hits.count = 0;
    if (!r->caching)
        return 0;
    request_hash(s, q->request, r);
    uint32_t block_tokens = r->groups[0].block_tokens, most = (q->token_count - 1) / block_tokens;
    if (request_embeds(q->request) && r->vectors.pooling != WIRE_POOLING_LAST)
        most = 0; /* its vector is made of all positions */
    r->hit_chain = q->request->root;
    struct u128 hash = r->hit_chain;
    for (uint32_t i = 0; i < most; i++) {
        hash = seq_block_hash(s, q, r, hash, i);
        uint32_t block = block_pool_find(&r->pools[0], hash);
        if (block == BLOCK_NONE)
            break;
        vec_push(&r->hits, block);
    }
    if (r->snapshot_count)
        snapshot_trim_hits(r, q->request);
    if (r->hits.count)
        r->hit_chain = block_pool_hash(&r->pools[0], r->hits.items[r->hits.count - 1]);
    return (uint32_t)r->hits.count * block_tokens;
}

/* Of those that could take it: may it run there, by what it began on or was encoded with? A bundle
 * that no replica has any more binds nobody: its prompt is tokens all the same. */
static bool is_of_its_revision(const struct replica *r, const struct request *request) {
    if (!u128_is_zero(request->revision))
        return u128_equal(request->revision, r->revision);
    if (u128_is_zero(request->bundle) || u128_equal(request->bundle, r->bundle))
        return true;
    for (size_t i = 0; i < request->model->replicas.count; i++) {
        const struct replica *other = request->model->replicas.items[i];
        if (other->state != REPLICA_DOWN && u128_equal(other->bundle, request->bundle))
            return false;
    }
    return true;
}

/* It drains, but had come before, and there is no other replica of its revision that does not. */
static bool is_last_home(const struct replica *r, const struct request *request) {
    bool bound = !u128_is_zero(request->revision) || !u128_is_zero(request->bundle);
    if (!bound || (request->arrival > r->drain_arrival && !request->resumed))
        return false;
    for (size_t i = 0; i < request->model->replicas.count; i++) {
        const struct replica *other = request->model->replicas.items[i];
        if (other != r && other->state != REPLICA_DOWN && !other->draining &&
            (other->capacity ? is_of_its_revision(other, request)
                             : u128_equal(other->bundle, r->bundle)))
            return false;
    }
    return true;
}

bool replica_is_awaited(const struct sched *s, const struct replica *r) {
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        if (!request || request->model != r->model || !request->open_count)
            continue;
        for (uint32_t k = 0; k < request->sequence_count; k++)
            if (!request->sequences[k].replica && !seq_is_over(&request->sequences[k]) &&
                replica_fits(r, &request->sequences[k]))
                return true;
    }
    return false;
}

/* Could it ever run there? */
bool replica_fits(const struct replica *r, const struct sequence *q) {
    const struct request *request = q->request;
    if (r->draining && !is_last_home(r, request))
        return false;
    if (!r->capacity)
        return r->state != REPLICA_DOWN; /* loading: its sizes are not known yet */
    if (!is_of_its_revision(r, request))
        return false;
    if (request_embeds(request) && !r->vectors.pooling)
        return false;
    if (request->features & ~r->features)
        return false;
    if (request->token_end > r->logits_width)
        return false;
    uint64_t want = request->prompt.count + request->max_tokens;
    uint32_t least = q->token_count + (request_embeds(request) ? 0 : 1);
    return r->capacity >= MIN(want, request->model->max_capacity) && r->capacity >= least;
}

/* Of a group's free blocks those for all its known tokens and one more, if there will be one. */
static uint32_t blocks_wanted(const struct replica *r, const struct sequence *q, uint32_t group) {
    uint32_t last = q->token_count - (request_embeds(q->request) ? 1 : 0),
             want = last / r->groups[group].block_tokens + 1,
             hits = group == 0 ? (uint32_t)r->hits.count : 0;
    for (uint32_t i = 0; i < hits; i++)
        want -= block_pool_refs(&r->pools[0], r->hits.items[i]) > 0;
    return want;
}

/* The first group that has too few free ones; group_count: none. spared: leave some for the growth of
 * those that run. */
static uint32_t short_group(const struct replica *r, const struct sequence *q, bool spared) {
    for (uint32_t group = 0; group < r->group_count; group++) {
        const struct wire_kv_group *g = &r->groups[group];
        if (g->kind == WIRE_GROUP_WINDOW)
            continue;
        uint32_t spare = spared ? MIN(r->running_count, g->block_count / 8) : 0;
        if (r->pools[group].free_count < blocks_wanted(r, q, group) + spare)
            return group;
    }
    return r->group_count;
}

bool replica_has_room(const struct replica *r, const struct sequence *q) {
    return short_group(r, q, true) == r->group_count;
}

/* A cached position that is given up counts as this part of one to compute: it may be asked for again,
 * and is among those that were longest not. */
enum { GIVEN_UP_DIVISOR = 4 };

/* Of the steps that an answer may take, the part that those in slots now are beside it: they are half
 * through, on average, and an answer seldom takes all that it may. */
enum { BESIDE_DIVISOR = 4 };

/* What placing it there with so many positions found costs, in positions to compute: those of its
 * own, those queued before it, what those in slots slow its answer down by, and what the cache has to
 * give up for it; blocks that hold nothing cost nothing. */
static uint64_t placing_cost(const struct sequence *q, const struct replica *r, uint32_t found) {
    uint32_t own = q->token_count - found, block_tokens = r->groups[0].block_tokens;
    double row =
        r->row_positions * admission_guess_tokens(q->request) / BESIDE_DIVISOR - REPLICA_ROW_LOAD;
    uint64_t cost = own + r->load + (uint64_t)(MAX(row, 0) * r->running_count);
    if (!r->caching)
        return cost;
    uint32_t need = own / block_tokens + 1,
             blank = r->pools[0].free_count - r->pools[0].cached_count;
    return cost + (uint64_t)(need > blank ? need - blank : 0) * block_tokens / GIVEN_UP_DIVISOR;
}

/* Could r cost less than `least`, which is what another one costs? What is found there is a run from
 * the first block on, so one block tells of most replicas that they hold too little. */
static bool may_cost_less(struct sched *s, const struct sequence *q, const struct replica *r,
                          uint64_t least) {
    uint64_t cost = placing_cost(q, r, 0);
    if (cost < least || !r->caching)
        return cost < least;
    uint32_t block_tokens = r->groups[0].block_tokens, most = (q->token_count - 1) / block_tokens;
    /* A block that is found saves its positions, and at most as many from being given up: with fewer
     * than up to this one it does not. */
    uint64_t idx = (cost - least) / (block_tokens + block_tokens / GIVEN_UP_DIVISOR);
    if (idx >= most)
        return false;
    if (!q->request->model->names_alike) /* else the names that the other one gave hold here, too */
        request_hash(s, q->request, r);
    const size_t hashed = q->request->hashes.count; /* those of the prompt */
    return !hashed || block_pool_find(&r->pools[0],
                                      q->request->hashes.items[MIN(idx, hashed - 1)]) != BLOCK_NONE;
}

static bool is_usable(const struct replica *r) {
    return r->state == REPLICA_READY && !r->testing;
}

static bool has_credit(const struct sched *s, const struct replica *r) {
    return r->resume_count < s->config.resume_credits;
}

/* A free one, that is not kept for somebody else. */
static bool has_slot(const struct sched *s, const struct replica *r, const struct sequence *q) {
    bool kept = s->now < r->slot_kept_until && q->request->tenant->slot_count &&
                !request_is_probe(q->request);
    return r->free_slot_count > (kept ? 1 : 0);
}

/* It could run here if there were blocks. Its grammar is asked for where all else is there. */
static bool lacks_only_blocks(struct sched *s, struct replica *r, const struct sequence *q) {
    return is_usable(r) && has_slot(s, r, q) && (!seq_is_resumed(q) || has_credit(s, r)) &&
           grammar_is_ready(s, r, q->request);
}

/* The replica where it costs least (placing_cost).
 * The cost is compared first, since it rules out most replicas; but not where a grammar is needed,
 * because each replica that could run the sequence is asked to compile it. */
static struct replica *choose(struct sched *s, struct sequence *q, bool *fits) {
    struct model *model = q->request->model;
    struct replica *best = NULL;
    uint64_t least = UINT64_MAX;
    bool cost_first = model->names_alike && q->request->grammar_kind == WIRE_GRAMMAR_NONE;
    for (size_t i = 0; i < model->replicas.count; i++) {
        struct replica *r = model->replicas.items[i];
        if (cost_first && !may_cost_less(s, q, r, least))
            continue;
        if (!replica_fits(r, q))
            continue;
        *fits = true;
        if (!lacks_only_blocks(s, r, q))
            continue;
        if (!cost_first && !may_cost_less(s, q, r, least))
            continue;
        uint64_t cost = placing_cost(q, r, prefix_find(s, q, r));
        if (cost >= least || !replica_has_room(r, q))
            continue;
        least = cost;
        best = r;
    }
    return best;
}

bool request_fits_somewhere(const struct request *request) {
    if (!request->model)
        return false;
    if (!request->validated) /* none was loaded yet: one that loads may */
        return request->model->replicas.count > 0;
    for (uint32_t k = 0; k < request->sequence_count; k++) {
        const struct sequence *q = &request->sequences[k];
        for (size_t i = 0; i < request->model->replicas.count && !seq_is_over(q); i++)
            if (replica_fits(request->model->replicas.items[i], q))
                return true;
    }
    return false;
}

/* Where another revision runs, the one it began on was replaced, and its workers come back only if
 * they are being restarted right now. */
static bool is_replaced(const struct request *request) {
    if (u128_is_zero(request->revision))
        return false;
    for (size_t i = 0; i < request->model->replicas.count; i++) {
        const struct replica *r = request->model->replicas.items[i];
        if (r->state == REPLICA_READY && !u128_equal(r->revision, request->revision))
            return true;
    }
    return false;
}

static void park_unfit(struct sched *s, struct sequence *q) {
    struct request *request = q->request;
    int64_t grace_ms = s->config.model_grace_ms;
    if (is_replaced(request))
        grace_ms = MIN(grace_ms, s->config.revision_grace_ms);
    seq_park(s, q);
    request->unbound_until = MIN(request->unbound_until, s->now + grace_ms);
    timer_update(s, request);
}

/* Paused ones keep their blocks while there is room; now somebody needs it. true: there may be room
 * at once. */
static bool preempt_paused(struct sched *s, const struct sequence *q) {
    const struct model *model = q->request->model;
    for (size_t i = 0; i < model->replicas.count && s->paused; i++) {
        struct replica *r = model->replicas.items[i];
        if (!is_usable(r) || r->leaving_count || !replica_fits(r, q))
            continue;
        for (uint32_t k = 0; k < r->running_count; k++) {
            if (!r->running[k]->request->paused)
                continue;
            seq_preempt(s, r->running[k]);
            return !r->leaving_count;
        }
    }
    return false;
}

/* No slot is free, or no blocks: the latest gives way to a probe, which needs both for a moment. Once
 * in its life: whoever probes again and again must not keep anybody from getting on. */
static bool preempt_for_probe(struct sched *s, const struct sequence *q) {
    const struct model *model = q->request->model;
    if (!request_is_probe(q->request))
        return false;
    for (size_t i = 0; i < model->replicas.count; i++) {
        struct replica *r = model->replicas.items[i];
        struct sequence *latest = NULL;
        if (!is_usable(r) || r->leaving_count || !replica_fits(r, q))
            continue;
        for (uint32_t k = 0; k < r->running_count; k++)
            if (!request_is_probe(r->running[k]->request) && !r->running[k]->gave_way &&
                (!latest || r->running[k]->request->arrival > latest->request->arrival))
                latest = r->running[k];
        if (!latest)
            continue;
        latest->gave_way = true;
        seq_preempt(s, latest);
        return !r->leaving_count;
    }
    return false;
}

/* ---- A tenant that has no slot ---- */

/* A slot that the last sequence of a tenant has left is kept for one without a slot, for a moment. */
static bool slot_is_kept(const struct sched *s, const struct model *model) {
    for (size_t i = 0; i < model->replicas.count && s->now < s->slots_kept_until; i++)
        if (is_usable(model->replicas.items[i]) && model->replicas.items[i]->free_slot_count &&
            s->now < model->replicas.items[i]->slot_kept_until)
            return true;
    return false;
}

/* The next new one, if its tenant has no slot and one is kept, or it has waited for long enough: it
 * goes before those that ran already, or the first of them would take its slot back. NULL: there is
 * none. */
static struct sequence *shut_out(const struct sched *s, const struct model *model) {
    struct sequence *q = waiting_first(&model->waiting, false);
    if (!q || seq_is_resumed(q) || q->request->tenant->slot_count)
        return NULL;
    if (slot_is_kept(s, model))
        return q;
    bool waited = !q->request->fresh && s->now - q->request->submitted_at >= s->config.slot_wait_ms;
    return waited ? q : NULL;
}

/* Of these the tenant with more slots gives way, by its least important one, then its latest. */
static bool gives_slot_before(const struct sequence *a, const struct sequence *b) {
    const struct tenant *x = a->request->tenant, *y = b->request->tenant;
    return x->slot_count != y->slot_count ? x->slot_count > y->slot_count
                                          : seq_gives_way_before(a, b);
}

/* No slot is free: one is taken from the tenant that has most, and keeps one at least. One at a time:
 * what is leaving already may be enough. true: it is free at once. */
static bool preempt_for_tenant(struct sched *s, const struct sequence *q) {
    const struct model *model = q->request->model;
    struct sequence *out = NULL;
    for (size_t i = 0; i < model->replicas.count; i++) {
        struct replica *r = model->replicas.items[i];
        if (r->leaving_count)
            return false;
        if (!is_usable(r) || !replica_fits(r, q))
            continue;
        for (uint32_t k = 0; k < r->running_count; k++) {
            struct sequence *other = r->running[k];
            if (!request_is_probe(other->request) && other->request->tenant->slot_count > 1 &&
                (!out || gives_slot_before(other, out)))
                out = other;
        }
    }
    if (!out)
        return false;
    struct replica *r = out->replica;
    seq_preempt(s, out);
    return !r->leaving_count;
}

/* ---- A tenant that has no slot, where blocks are short ---- */

/* Where a sequence could be let in if tenants with more than their share gave some blocks up. */
struct shortage {
    struct replica *replica; /* NULL: nowhere */
    uint32_t group, wanted;  /* blocks of it that have to be free */
    int64_t missing;         /* of those, what neither is free nor leaves already */
};

/* Of this replica. */
static struct shortage shortage_of(struct sched *s, struct sequence *q, struct replica *r) {
    if (!replica_fits(r, q) || !lacks_only_blocks(s, r, q))
        return (struct shortage){0};
    (void)prefix_find(s, q, r);
    uint32_t group = short_group(r, q, true);
    if (group == r->group_count)
        return (struct shortage){0};
    struct block_share share = block_share_count(r, group, q->request->tenant);
    if (!block_share_giver(r, share))
        return (struct shortage){0};
    struct shortage at = {.replica = r, .group = group, .wanted = blocks_wanted(r, q, group)};
    at.missing = (int64_t)at.wanted - r->pools[group].free_count - share.coming;
    return at;
}

/* Where fewest further blocks have to be given up, if its tenant has no slot, and it has waited as for
 * one. */
static struct shortage least_shortage(struct sched *s, struct sequence *q) {
    const struct model *model = q->request->model;
    struct shortage least = {0};
    if (q->request->tenant->slot_count || q->request->fresh ||
        s->now - q->request->submitted_at < s->config.slot_wait_ms)
        return least;
    for (size_t i = 0; i < model->replicas.count; i++) {
        struct shortage at = shortage_of(s, q, model->replicas.items[i]);
        if (at.replica && (!least.replica || at.missing < least.missing))
            least = at;
    }
    return least;
}

/* Tenants with more than their share give way until enough of their blocks come free. false: they do
 * not at once. */
static bool take_blocks(struct sched *s, struct sequence *q, const struct shortage *at) {
    struct replica *r = at->replica;
    for (;;) {
        struct block_share share = block_share_count(r, at->group, q->request->tenant);
        struct sequence *victim = block_share_victim(r, share);
        if (r->pools[at->group].free_count + share.coming >= at->wanted || !victim)
            break;
        seq_preempt(s, victim);
    }
    (void)prefix_find(s, q, r); /* what was preempted has been looked for, too */
    return short_group(r, q, false) == r->group_count;
}

/* For the first in order there is no room. The first that has it at the expense of a tenant with more
 * than its share: this one, the next new one, or one that ran before. Replaces *q by it. One a turn, so
 * that a turn has an end, whoever came and went in it. NULL: there is none, or not yet. */
static struct replica *choose_by_share(struct sched *s, struct model *model, struct sequence **q) {
    if (model->waiting.tenants.count < 2 || !model->waiting.slotted || model->took_blocks)
        return NULL;
    struct sequence *others[] = {*q, waiting_first(&model->waiting, false),
                                 waiting_first_slotless(&model->waiting)};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct shortage at = {0};
        if (others[i] && (i == 0 || others[i] != *q))
            at = least_shortage(s, others[i]);
        if (!at.replica)
            continue;
        *q = others[i];
        model->took_blocks = true;
        return take_blocks(s, *q, &at) ? at.replica : NULL;
    }
    return NULL;
}

void place_on(struct sched *s, struct sequence *q, struct replica *r) {
    seq_place(s, q, r);
    if (q->request->held_count && seq_shares_prompt(q))
        siblings_release(s, q->request);
}

/* A sequence whose grammar can be asked for now is back in the queue. */
static bool wake_next(struct sched *s, const struct model *model) {
    for (size_t i = 0; i < model->replicas.count && model->turned_away_count; i++) {
        struct replica *r = model->replicas.items[i];
        if (is_usable(r) && grammars_wake_next(s, r))
            return true;
    }
    return false;
}

/* It is new, and its first token would come later than anybody should wait. */
static bool comes_too_late(const struct sched *s, const struct sequence *q,
                           const struct replica *r) {
    double most = q->request->fresh && q == q->request->sequences
                      ? request_most_wait_ms(s, q->request, admission_is_crowded(s, q->request))
                      : INFINITY;
    return most < INFINITY && admission_delay_ms(s, q, r) > most;
}

static void place_waiting(struct sched *s, struct model *model) {
    while (model->waiting.count) {
        bool open = model->replicas.count == 0, resumed_allowed = open;
        for (size_t i = 0; i < model->replicas.count && !resumed_allowed; i++)
            resumed_allowed =
                is_usable(model->replicas.items[i]) && has_credit(s, model->replicas.items[i]);
        struct sequence *first = waiting_first(&model->waiting, resumed_allowed);
        struct sequence *out = shut_out(s, model);
        struct sequence *q = out && !request_is_probe(first->request) ? out : first;
        for (size_t i = 0; i < model->replicas.count && q && !open; i++)
            open = is_usable(model->replicas.items[i]) && has_slot(s, model->replicas.items[i], q);
        if (!open && q &&
            (preempt_paused(s, q) || preempt_for_probe(s, q) ||
             (q == out && preempt_for_tenant(s, q))))
            continue;
        if (!open || !q)
            return;
        bool fits = false;
        struct replica *r = choose(s, q, &fits);
        if (!fits) {
            park_unfit(s, q);
            continue;
        }
        if (!r && grammar_is_awaited(s, q->request)) {
            seq_park(s, q); /* until a replica has it ready; others go on meanwhile */
            continue;
        }
        if (!r && (preempt_paused(s, q) || preempt_for_probe(s, q)))
            continue;
        if (!r)
            r = choose_by_share(s, model, &q);
        if (!r)
            return; /* the first in order waits for room; nobody else overtakes it */
        if (comes_too_late(s, q, r)) {
            request_reject(s, q->request, WIRE_REJECT_OVERLOADED);
            continue;
        }
        if (!seq_is_resumed(q))
            model->waiting.floor = MAX(model->waiting.floor, q->request->tenant->served);
        place_on(s, q, r);
    }
}

static void place_model(struct sched *s, struct model *model) {
    model->took_blocks = false;
    for (uint32_t i = 0; i < GRAMMARS_ASKED_MAX && (wake_next(s, model) || !i); i++)
        place_waiting(s, model);
}

void place_all(struct sched *s) {
    groups_place(s);
    LIST_EACH(at, &s->models) place_model(s, LIST_ITEM(at, struct model, link));
}
