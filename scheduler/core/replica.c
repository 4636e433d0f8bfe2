/* Workers register as ranks of replicas; replicas fall and rise. */
#include "scheduler/core/internal.h"

enum { ASK_AGAIN_MS = 1000 };

/* ---- Models ---- */

struct model *model_find(struct sched *s, struct bytes name) {
    struct model *only = NULL;
    uint32_t count = 0;
    LIST_EACH(at, &s->models) {
        struct model *model = LINK_ITEM(at, struct model, link);
        if (bytes_equal(bytes_str(model->name), name)) return model;
        only = model;
        count++;
    }
    return name.len == 0 && count == 1 ? only : NULL;
}

static struct model *model_get(struct sched *s, struct bytes name) {
    LIST_EACH(at, &s->models) {
        struct model *model = LINK_ITEM(at, struct model, link);
        if (bytes_equal(bytes_str(model->name), name)) return model;
    }
    struct model *model = mem_alloc(sizeof *model);
    *model = (struct model){.name = mem_strndup((const char *)name.data, name.len), .empty_since = NEVER};
    list_push(&s->models, &model->link);
    s->status_version++;
    return model;
}

void model_free(struct sched *s, struct model *model) {
    CHECK(model->request_count == 0 && model->replicas.count == 0);
    waiting_release(&model->waiting);
    vec_release(&model->replicas);
    list_remove(&model->link);
    mem_free(model->name);
    mem_free(model);
    s->status_version++;
}

void model_review(struct sched *s, struct model *model) {
    model->max_capacity = model->max_context = model->logits_width = 0;
    bool any = false;
    for (size_t i = 0; i < model->replicas.count; i++) {
        const struct replica *r = model->replicas.items[i];
        any = any || r->state != REPLICA_DOWN;
        model->max_capacity = MAX(model->max_capacity, r->capacity);
        model->max_context = MAX(model->max_context, r->max_context);
        if (!r->capacity) continue;
        model->logits_width = model->logits_width ? MIN(model->logits_width, r->logits_width) : r->logits_width;
        model->revision = r->revision;
        model->bundle = r->bundle;
    }
    if (any)
        model->empty_since = NEVER;
    else if (model->empty_since == NEVER)
        model->empty_since = s->now;
    s->status_version++;
}

/* ---- Making replicas ---- */

static struct replica *replica_get(struct sched *s, struct u128 id, struct model *model, uint32_t rank_count,
                                   uint32_t stage_count) {
    struct replica *r = id_map_get(&s->replica_ids, id);
    if (r && (r->model != model || r->rank_count != rank_count || r->stage_count != stage_count)) {
        replica_free(s, r); /* another service under the same name */
        r = NULL;
    }
    if (r) return r;
    r = mem_alloc(sizeof *r);
    *r = (struct replica){
        .id = id, .model = model, .state = REPLICA_GATHERING, .rank_count = rank_count, .stage_count = stage_count};
    id_map_put(&s->replica_ids, id, r);
    vec_push(&model->replicas, r);
    vec_push(&s->replicas, r);
    return r;
}

static void geometry_release(struct sched *s, struct replica *r) {
    CHECK(r->running_count == 0 && r->flight_count == 0);
    for (uint32_t group = 0; group < r->group_count; group++) block_pool_release(&r->pools[group]);
    for (uint32_t i = 0; i < r->steps_in_flight; i++) {
        mem_free(r->flights[i].rows);
        r->flights[i].rows = NULL;
    }
    s->slot_total -= r->slot_count;
    mem_free(r->slots);
    mem_free(r->free_slots);
    mem_free(r->running);
    r->slots = r->running = NULL;
    r->free_slots = NULL;
    r->slot_count = r->group_count = r->steps_in_flight = r->capacity = 0;
}

static void geometry_init(struct sched *s, struct replica *r, const struct offer *offer) {
    r->slot_count = offer->slot_count;
    r->group_count = offer->group_count;
    r->steps_in_flight = offer->steps_in_flight;
    r->slots = mem_calloc(r->slot_count, sizeof *r->slots);
    r->running = mem_calloc(r->slot_count, sizeof *r->running);
    r->free_slots = mem_calloc(r->slot_count, sizeof *r->free_slots);
    for (uint32_t i = 0; i < r->steps_in_flight; i++)
        r->flights[i].rows = mem_calloc(r->slot_count, sizeof *r->flights[i].rows);
    r->capacity = offer->max_context;
    for (uint32_t group = 0; group < r->group_count; group++) {
        const struct wire_kv_group *g = &offer->groups[group];
        r->groups[group] = *g;
        block_pool_init(&r->pools[group], g->block_count);
        if (g->kind != WIRE_GROUP_WINDOW)
            r->capacity = (uint32_t)MIN(r->capacity, (uint64_t)g->block_count * g->block_tokens);
    }
    r->caching =
        r->group_count == 1 && (r->groups[0].kind == WIRE_GROUP_FULL || r->groups[0].kind == WIRE_GROUP_LATENT);
    s->slot_total += r->slot_count;
    vec_reserve(&r->released_slots, r->slot_count);
    vec_reserve(&r->sealed_ids, r->groups[0].block_count);
    vec_reserve(&r->sealed_hashes, r->groups[0].block_count);
    vec_reserve(&r->hits, r->groups[0].block_count);
}

static bool geometry_is_same(const struct replica *r, const struct offer *offer) {
    if (r->slot_count != offer->slot_count || r->group_count != offer->group_count ||
        r->max_context != offer->max_context || r->steps_in_flight != offer->steps_in_flight)
        return false;
    for (uint32_t group = 0; group < r->group_count; group++) {
        const struct wire_kv_group *a = &r->groups[group], *b = &offer->groups[group];
        if (a->kind != b->kind || a->block_tokens != b->block_tokens || a->block_count != b->block_count ||
            a->window_tokens != b->window_tokens)
            return false;
    }
    return true;
}

static void offer_release(struct offer *offer) {
    vec_release(&offer->held_blocks);
    vec_release(&offer->held_hashes);
}

static void take_offer(struct offer *offer, const struct wire_hello *hello) {
    offer->revision = hello->revision;
    offer->fingerprint = hello->fingerprint;
    offer->slot_count = hello->slot_count;
    offer->max_step_tokens = hello->max_step_tokens;
    offer->max_context = hello->max_context;
    offer->logits_width = hello->logits_width;
    offer->steps_in_flight = MIN(hello->steps_in_flight, SCHED_MAX_STEPS_IN_FLIGHT);
    offer->class_sensitive = hello->class_sensitive;
    offer->group_count = (uint32_t)hello->group_count;
    for (size_t i = 0; i < hello->group_count; i++) offer->groups[i] = hello->groups[i];
    offer->held_blocks.count = offer->held_hashes.count = 0;
    size_t held = MIN(hello->held_blocks.count, hello->held_hashes.count);
    for (size_t i = 0; i < held; i++) {
        vec_push(&offer->held_blocks, hello->held_blocks.items[i]);
        vec_push(&offer->held_hashes, hello->held_hashes.items[i]);
    }
    offer->comm_id_len = (uint32_t)MIN(hello->comm_id.len, sizeof offer->comm_id);
    if (offer->comm_id_len) memcpy(offer->comm_id, hello->comm_id.data, offer->comm_id_len);
}

/* ---- What the ranks have in common ---- */

static int differs(struct error *err, uint32_t rank, const char *what) {
    return error_set(err, ERR_INVALID, "rank %u of the replica has another %s than rank 0", rank, what);
}

/* Narrows *all by one more rank's offer. */
static int offer_meet(struct offer *all, const struct offer *one, uint32_t rank, struct error *err) {
    if (!u128_equal(all->revision, one->revision)) return differs(err, rank, "revision of the model");
    if (all->logits_width != one->logits_width) return differs(err, rank, "width of the logits");
    if (all->group_count != one->group_count) return differs(err, rank, "number of KV groups");
    all->slot_count = MIN(all->slot_count, one->slot_count);
    all->max_step_tokens = MIN(all->max_step_tokens, one->max_step_tokens);
    all->max_context = MIN(all->max_context, one->max_context);
    all->steps_in_flight = MIN(all->steps_in_flight, one->steps_in_flight);
    all->class_sensitive = all->class_sensitive || one->class_sensitive;
    for (uint32_t i = 0; i < all->group_count; i++) {
        struct wire_kv_group *a = &all->groups[i];
        const struct wire_kv_group *b = &one->groups[i];
        if (a->kind != b->kind || a->block_tokens != b->block_tokens || a->window_tokens != b->window_tokens)
            return differs(err, rank, "geometry of KV blocks");
        a->block_count = MIN(a->block_count, b->block_count);
    }
    return 0;
}

/* The bits of a token come from all ranks together. */
static struct u128 joint_fingerprint(const struct replica *r) {
    struct u128 all[SCHED_MAX_RANKS];
    for (uint32_t i = 0; i < r->rank_count; i++) all[i] = r->ranks[i]->offer.fingerprint;
    return r->rank_count == 1 ? all[0] : hash128(all, r->rank_count * sizeof *all, r->stage_count);
}

/* Makes the replica what its ranks, all of them loaded, can do together. */
static int replica_join(struct sched *s, struct replica *r, struct error *err) {
    struct offer all = r->ranks[0]->offer; /* its vectors are not touched */
    for (uint32_t i = 1; i < r->rank_count; i++) {
        int code = offer_meet(&all, &r->ranks[i]->offer, i, err);
        if (code) return code;
    }
    if (!geometry_is_same(r, &all)) {
        geometry_release(s, r);
        geometry_init(s, r, &all);
    }
    r->max_context = all.max_context;
    r->max_step_tokens = all.max_step_tokens;
    r->logits_width = all.logits_width;
    r->class_sensitive = all.class_sensitive;
    r->revision = all.revision;
    r->fingerprint = joint_fingerprint(r);
    return 0;
}

/* Into the prefix cache goes what every rank still holds: one that was replaced has lost its part of everything. */
static void adopt_held(struct replica *r) {
    struct block_pool *pool = &r->pools[0];
    const struct offer *first = &r->ranks[0]->offer;
    struct u128 *held = NULL;
    uint32_t *holders = NULL;
    if (r->rank_count > 1) {
        held = mem_calloc(pool->block_count, sizeof *held);
        holders = mem_calloc(pool->block_count, sizeof *holders);
    }
    for (uint32_t rank = 0; rank < r->rank_count && held; rank++) {
        const struct offer *offer = &r->ranks[rank]->offer;
        for (size_t i = 0; i < offer->held_blocks.count; i++) {
            uint32_t block = offer->held_blocks.items[i];
            if (block >= pool->block_count) continue;
            if (rank == 0) held[block] = offer->held_hashes.items[i];
            holders[block] += u128_equal(held[block], offer->held_hashes.items[i]);
        }
    }
    for (size_t i = 0; i < first->held_blocks.count; i++) {
        uint32_t block = first->held_blocks.items[i];
        if (block >= pool->block_count || (holders && holders[block] < r->rank_count)) continue;
        block_pool_adopt(pool, block, first->held_hashes.items[i]);
    }
    mem_free(held);
    mem_free(holders);
}

/* ---- Hello ---- */

static int group_check(const struct wire_hello *hello, const struct wire_kv_group *g, struct error *err) {
    if (g->kind < WIRE_GROUP_FULL || g->kind > WIRE_GROUP_RECURRENT)
        return error_set(err, ERR_UNSUPPORTED, "unknown kind of KV group %d", (int)g->kind);
    if (g->block_tokens == 0 || g->block_tokens > CHAIN_MAX_BLOCK_TOKENS || g->block_count == 0 ||
        g->block_count > WIRE_MAX_BLOCKS)
        return error_set(err, ERR_INVALID, "a KV group of %u blocks of %u tokens is out of bounds", g->block_count,
                         g->block_tokens);
    uint64_t least = (uint64_t)g->window_tokens + hello->max_step_tokens + 2 * (uint64_t)g->block_tokens;
    if (g->kind == WIRE_GROUP_WINDOW && (uint64_t)g->block_count * g->block_tokens < least)
        return error_set(err, ERR_INVALID, "a window's KV group needs at least %llu tokens", (unsigned long long)least);
    return 0;
}

static int hello_check(const struct wire_hello *hello, struct error *err) {
    uint64_t ranks = (uint64_t)hello->tp * hello->pp;
    if (u128_is_zero(hello->instance) || hello->model.len > WIRE_MAX_TEXT || ranks == 0 || ranks > SCHED_MAX_RANKS ||
        hello->rank >= hello->tp || hello->stage >= hello->pp)
        return error_set(err, ERR_INVALID, "worker's place is out of bounds: rank %u of %u, stage %u of %u",
                         hello->rank, hello->tp, hello->stage, hello->pp);
    if (hello->state == WIRE_STATE_LOADING) return 0;
    if (hello->slot_count == 0 || hello->slot_count > WIRE_MAX_SLOTS || hello->max_step_tokens == 0 ||
        hello->max_context < 2 || hello->max_context > WIRE_MAX_TOKENS || hello->logits_width == 0 ||
        hello->steps_in_flight == 0)
        return error_set(err, ERR_INVALID, "worker's sizes are out of bounds");
    if (hello->group_count == 0 || hello->group_count > SCHED_MAX_GROUPS)
        return error_set(err, ERR_UNSUPPORTED, "%zu KV groups; this scheduler takes 1 to %d", hello->group_count,
                         SCHED_MAX_GROUPS);
    for (size_t i = 0; i < hello->group_count; i++) {
        int code = group_check(hello, &hello->groups[i], err);
        if (code) return code;
    }
    return 0;
}

static void worker_remove(struct sched *s, struct worker *worker) {
    worker->replica->ranks[worker->rank] = NULL;
    id_map_remove(&s->worker_ids, worker->instance);
    offer_release(&worker->offer);
    mem_free(worker);
}

static void fence(struct sched *s, struct replica *r, const struct worker *worker) {
    r->fenced = worker->instance;
    r->fence_until = s->now + s->config.fence_wait_ms;
    s->counts.fences++;
    s->sink.fence(s->sink.ctx, worker->instance, worker->pid);
}

static bool is_complete(const struct replica *r) {
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (!r->ranks[i] || !r->ranks[i]->registered || r->ranks[i]->loading) return false;
    return true;
}

/* From registration to use: plan numbers, slots and pools begin anew. */
static void replica_start(struct sched *s, struct replica *r) {
    r->state = REPLICA_READY;
    r->draining = false;
    r->plan_number = 0;
    r->flight_first = r->cursor = 0;
    r->free_slot_count = 0;
    for (uint32_t slot = r->slot_count; slot-- > 0;) r->free_slots[r->free_slot_count++] = slot;
    r->released_slots.count = r->sealed_ids.count = r->sealed_hashes.count = 0;
    for (uint32_t group = 0; group < r->group_count; group++) block_pool_reset(&r->pools[group]);
    if (r->caching) adopt_held(r);
    for (uint32_t i = 0; i < r->rank_count; i++) r->rank_ids[i] = r->ranks[i]->instance;
    model_review(s, r->model);
    requests_bind_all(s, r->model);
    parked_review(s);
}

static void replica_try_start(struct sched *s, struct replica *r) {
    if (r->state != REPLICA_GATHERING && r->state != REPLICA_FENCING) return;
    if (!is_complete(r)) return;
    r->state = u128_is_zero(r->fenced) ? REPLICA_GATHERING : REPLICA_FENCING;
    if (r->state == REPLICA_GATHERING) replica_start(s, r);
}

static void ask_to_register(struct sched *s, struct worker *worker) {
    worker->asked_at = s->now;
    s->counts.reregistrations++;
    s->sink.reregister(s->sink.ctx, worker->instance);
}

/* One rank is gone or begins anew: the others wait for it in the middle of a step, and have slots of a registration
 * that is void. Those that were not used since they registered stay as they are. */
static void ask_others(struct sched *s, struct replica *r, uint32_t rank) {
    for (uint32_t i = 0; i < r->rank_count && r->plan_number; i++) {
        struct worker *other = r->ranks[i];
        if (!other || i == rank || !other->registered || other->asked_at == s->now) continue;
        other->registered = false;
        ask_to_register(s, other);
    }
    r->plan_number = 0;
}

/* Another process takes this rank over: the old one has to be gone before its memory is used again. */
static void displace(struct sched *s, struct replica *r, uint32_t rank, struct u128 instance) {
    struct worker *old = r->ranks[rank];
    if (!old || u128_equal(old->instance, instance)) return;
    fence(s, r, old);
    worker_remove(s, old);
}

static struct worker *worker_get(struct sched *s, struct replica *r, uint32_t rank, const struct wire_hello *hello) {
    struct worker *worker = id_map_get(&s->worker_ids, hello->instance);
    if (worker) return worker;
    worker = mem_alloc(sizeof *worker);
    *worker =
        (struct worker){.instance = hello->instance, .rank = rank, .replica = r, .asked_at = s->now - ASK_AGAIN_MS};
    id_map_put(&s->worker_ids, hello->instance, worker);
    r->ranks[rank] = worker;
    return worker;
}

static bool is_repeated(struct sched *s, const struct wire_hello *hello) {
    const struct worker *worker = id_map_get(&s->worker_ids, hello->instance);
    if (!worker) return false;
    if (hello->incarnation != worker->incarnation) return hello->incarnation < worker->incarnation;
    return !worker->loading || hello->state == WIRE_STATE_LOADING;
}

int sched_worker_hello(struct sched *s, int64_t now, const struct wire_hello *hello, struct error *err) {
    sched_at(s, now);
    int code = hello_check(hello, err);
    if (code) return code;
    if (is_repeated(s, hello)) {
        s->counts.stale_messages++;
        return 0;
    }
    struct u128 id = u128_is_zero(hello->replica) ? hello->instance : hello->replica;
    uint32_t rank = hello->stage * hello->tp + hello->rank;
    struct worker *moved = id_map_get(&s->worker_ids, hello->instance);
    if (moved && (!u128_equal(moved->replica->id, id) || moved->rank != rank)) replica_free(s, moved->replica);
    struct model *model = model_get(s, hello->model);
    struct replica *r = replica_get(s, id, model, hello->tp * hello->pp, hello->pp);
    replica_fall(s, r, REPLICA_GATHERING, false);
    displace(s, r, rank, hello->instance);
    if (u128_equal(r->fenced, hello->instance)) r->fenced = (struct u128){0}; /* it lives, and begins anew */
    ask_others(s, r, rank);
    struct worker *worker = worker_get(s, r, rank, hello);
    worker->pid = hello->pid;
    worker->incarnation = hello->incarnation;
    worker->registered = true;
    worker->loading = hello->state == WIRE_STATE_LOADING;
    worker->idle_beats = 0;
    r->bundle = hello->bundle;
    model->bundle = hello->bundle;
    model->bundle_bytes = hello->bundle_bytes;
    if (!worker->loading) {
        take_offer(&worker->offer, hello);
        fall_survived(s, hello->instance);
    }
    code = is_complete(r) ? replica_join(s, r, err) : 0;
    if (code) {
        worker->registered = false;
        return code;
    }
    model_review(s, model);
    requests_bind_all(s, model);
    r->asked_at = s->now; /* the other ranks, just now */
    replica_try_start(s, r);
    return 0;
}

/* ---- Falling ---- */

static void collect_suspects(struct sched *s, struct replica *r) {
    s->scratch.count = 0;
    for (uint32_t i = 0; i < r->flight_count; i++) {
        struct flight *flight = &r->flights[(r->flight_first + i) % r->steps_in_flight];
        for (uint32_t row = 0; row < flight->row_count; row++) {
            struct sequence *q = flight->rows[row].sequence;
            if (q->rows_in_flight == 0) continue; /* seen in an earlier flight */
            q->rows_in_flight = 0;
            vec_push(&s->scratch, q);
        }
    }
    r->flight_count = 0;
}

static void sequence_fell(struct sched *s, struct sequence *q) {
    q->admitted = false; /* nobody to tell of its release */
    q->rows_in_flight = 0;
    seq_leave(s, q, LEAVE_REQUEUE);
}

/*
 * The replica's registration is void. Its sequences requeue with the tokens committed; what was in flight is lost.
 * Attributable: a fault that a request may have caused, so those in flight become suspects.
 */
void replica_fall(struct sched *s, struct replica *r, enum replica_state state, bool attributable) {
    bool was_ready = r->state == REPLICA_READY;
    r->state = state;
    collect_suspects(s, r);
    uint32_t *dangers = NULL;
    size_t count = s->scratch.count;
    struct sequence **suspects = NULL;
    if (count) {
        suspects = mem_calloc(count, sizeof(struct sequence *));
        dangers = mem_calloc(count, sizeof *dangers);
    }
    for (size_t i = 0; i < count; i++) {
        suspects[i] = s->scratch.items[i];
        dangers[i] = suspects[i]->computed_hi;
    }
    s->scratch.count = 0;
    groups_unassign(s, r);
    while (r->running_count) sequence_fell(s, r->running[r->running_count - 1]);
    for (uint32_t group = 0; group < r->group_count; group++) block_pool_reset(&r->pools[group]);
    r->released_slots.count = r->sealed_ids.count = r->sealed_hashes.count = 0;
    r->down_since = s->now;
    if (was_ready) s->counts.deaths += state == REPLICA_DOWN;
    if (attributable)
        suspects_fell(s, suspects, dangers, count);
    else if (state == REPLICA_DOWN || r->rank_count > 1) /* a peer may tell of a death before the supervisor does */
        fall_remember(s, r, suspects, dangers, count);
    mem_free(suspects);
    mem_free(dangers);
    model_review(s, r->model);
}

void replica_free(struct sched *s, struct replica *r) {
    replica_fall(s, r, REPLICA_DOWN, false);
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (r->ranks[i]) worker_remove(s, r->ranks[i]);
    geometry_release(s, r);
    struct model *model = r->model;
    for (size_t i = 0; i < model->replicas.count; i++)
        if (model->replicas.items[i] == r) model->replicas.items[i--] = model->replicas.items[--model->replicas.count];
    for (size_t i = 0; i < s->replicas.count; i++)
        if (s->replicas.items[i] == r) s->replicas.items[i--] = s->replicas.items[--s->replicas.count];
    id_map_remove(&s->replica_ids, r->id);
    vec_release(&r->released_slots);
    vec_release(&r->sealed_ids);
    vec_release(&r->sealed_hashes);
    vec_release(&r->hits);
    mem_free(r);
    model_review(s, model);
}

void replica_out_of_step(struct sched *s, struct replica *r) {
    replica_fall(s, r, REPLICA_STALE, false);
    for (uint32_t i = 0; i < r->rank_count; i++) {
        if (!r->ranks[i]) continue;
        r->ranks[i]->registered = false;
        ask_to_register(s, r->ranks[i]);
    }
    r->asked_at = s->now;
}

/* ---- Events ---- */

void sched_blocks_lost(struct sched *s, int64_t now, struct u128 instance, uint32_t incarnation) {
    sched_at(s, now);
    struct worker *worker = id_map_get(&s->worker_ids, instance);
    if (!worker || (incarnation && incarnation != worker->incarnation) || worker->replica->state != REPLICA_READY) {
        s->counts.stale_messages++;
        return;
    }
    struct replica *r = worker->replica;
    replica_fall(s, r, REPLICA_STALE, false);
    worker->registered = false;
    ask_others(s, r, worker->rank);
    r->asked_at = s->now; /* its Hello follows by itself; asked for when it does not */
}

void sched_worker_silent(struct sched *s, int64_t now, struct u128 instance) {
    sched_at(s, now);
    struct worker *worker = id_map_get(&s->worker_ids, instance);
    if (!worker) return;
    struct replica *r = worker->replica;
    replica_fall(s, r, REPLICA_DOWN, false);
    fence(s, r, worker);
    ask_others(s, r, worker->rank);
    worker_remove(s, worker);
    model_review(s, r->model);
}

static void fence_confirmed(struct sched *s, struct u128 instance) {
    for (size_t i = 0; i < s->replicas.count; i++) {
        struct replica *r = s->replicas.items[i];
        if (!u128_equal(r->fenced, instance)) continue;
        r->fenced = (struct u128){0};
        replica_try_start(s, r);
    }
}

void sched_worker_exited(struct sched *s, int64_t now, const struct wire_exited *exited) {
    sched_at(s, now);
    if (u128_is_zero(exited->instance)) return;
    struct worker *worker = id_map_get(&s->worker_ids, exited->instance);
    bool fault = exited->fault && exited->cause != WIRE_EXIT_FENCED;
    if (worker) {
        struct replica *r = worker->replica;
        bool attributable = fault && r->flight_count;
        s->counts.attributable_deaths += attributable;
        replica_fall(s, r, REPLICA_DOWN, attributable);
        ask_others(s, r, worker->rank);
        worker_remove(s, worker);
    }
    fall_explained(s, exited->instance, fault);
    fence_confirmed(s, exited->instance);
}

void sched_worker_drain(struct sched *s, int64_t now, struct u128 instance) {
    sched_at(s, now);
    struct worker *worker = id_map_get(&s->worker_ids, instance);
    if (worker) worker->replica->draining = true;
}

/* A step is stuck when it takes far longer than its tokens explain by what this replica has shown so far. */
static bool is_stuck(const struct sched *s, const struct replica *r, const struct wire_heartbeat *beat) {
    if (beat->state != WIRE_STATE_STEPPING || r->state != REPLICA_READY || !r->flight_count) return false;
    double allowed = s->config.stuck_floor_ms + 20.0 * r->ms_per_token * beat->step_tokens;
    return beat->step_age_ms > allowed;
}

/* Plans are out, and it has nothing to do or only waits for another rank. */
static bool may_be_lost(const struct sched *s, const struct replica *r, const struct worker *worker,
                        const struct wire_heartbeat *beat) {
    bool waits = beat->state == WIRE_STATE_IDLE || (beat->waiting && beat->progress == worker->progress);
    return r->state == REPLICA_READY && r->flight_count && waits &&
           s->now - r->flights[r->flight_first].sent_at >= s->config.lost_plan_ms;
}

/* One rank of a pipeline may well be idle while another computes; not all of them. */
static bool all_are_idle(const struct replica *r) {
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (!r->ranks[i] || r->ranks[i]->idle_beats < 2) return false;
    return true;
}

bool sched_worker_heartbeat(struct sched *s, int64_t now, struct u128 instance, const struct wire_heartbeat *beat) {
    sched_at(s, now);
    struct worker *worker = id_map_get(&s->worker_ids, instance);
    if (!worker) {
        s->counts.reregistrations++;
        s->sink.reregister(s->sink.ctx, instance);
        return false;
    }
    struct replica *r = worker->replica;
    if (beat->state == WIRE_STATE_DRAINING) r->draining = true;
    bool loaded = worker->loading && beat->state != WIRE_STATE_LOADING; /* the Hello that said so was lost */
    if (loaded && s->now - worker->asked_at >= ASK_AGAIN_MS) ask_to_register(s, worker);
    worker->stuck_beats = is_stuck(s, r, beat) ? worker->stuck_beats + 1 : 0;
    if (worker->stuck_beats >= 3) { /* one that was stopped and woke shows a long step, too, but ends it */
        s->counts.attributable_deaths++;
        replica_fall(s, r, REPLICA_DOWN, true);
        fence(s, r, worker);
        ask_others(s, r, worker->rank);
        worker_remove(s, worker);
        return true;
    }
    worker->idle_beats = may_be_lost(s, r, worker, beat) ? worker->idle_beats + 1 : 0;
    worker->progress = beat->progress;
    if (all_are_idle(r)) replica_out_of_step(s, r);
    return true;
}

/* ---- Time ---- */

static bool has_worker(const struct replica *r) {
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (r->ranks[i]) return true;
    return false;
}

/* Ranks were asked to register anew, and have not; the asking may have been lost. */
static bool waits_for_ranks(const struct replica *r) {
    if (r->state == REPLICA_STALE) return true;
    for (uint32_t i = 0; i < r->rank_count && r->state == REPLICA_GATHERING; i++)
        if (r->ranks[i] && !r->ranks[i]->registered) return true;
    return false;
}

static void ask_again(struct sched *s, struct replica *r) {
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (r->ranks[i] && !r->ranks[i]->registered) ask_to_register(s, r->ranks[i]);
    r->asked_at = s->now;
}

void replicas_run(struct sched *s) {
    for (size_t i = s->replicas.count; i-- > 0;) {
        struct replica *r = s->replicas.items[i];
        if (r->state == REPLICA_FENCING && r->fence_until <= s->now) {
            r->fenced = (struct u128){0};
            replica_try_start(s, r);
        }
        if (waits_for_ranks(r) && s->now - r->asked_at >= ASK_AGAIN_MS) ask_again(s, r);
        if (r->state == REPLICA_DOWN && !has_worker(r) && s->now - r->down_since >= s->config.model_grace_ms)
            replica_free(s, r);
    }
    LIST_EACH(at, &s->models) {
        struct model *model = LINK_ITEM(at, struct model, link);
        if (model->replicas.count == 0 && model->request_count == 0) model_free(s, model);
    }
}

int64_t replicas_next(const struct sched *s) {
    int64_t next = NEVER;
    for (size_t i = 0; i < s->replicas.count; i++) {
        const struct replica *r = s->replicas.items[i];
        if (r->state == REPLICA_FENCING) next = MIN(next, r->fence_until);
        if (waits_for_ranks(r)) next = MIN(next, r->asked_at + ASK_AGAIN_MS);
        if (r->state == REPLICA_DOWN && !has_worker(r)) next = MIN(next, r->down_since + s->config.model_grace_ms);
    }
    return next;
}
