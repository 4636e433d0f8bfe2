#include "scheduler/core/capabilities.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/worker.h"

/* ---- Slots and pools ---- */

void geometry_release(struct sched *s, struct replica *r) {
    CHECK(r->running_count == 0 && r->flight_count == 0);
    for (uint32_t group = 0; group < r->group_count; group++) {
        s->counts.evictions += r->pools[group].eviction_count;
        r->model->counts.evictions += r->pools[group].eviction_count;
        block_pool_release(&r->pools[group]);
    }
    if (r->snapshot_count)
        block_pool_release(&r->snapshots);
    for (uint32_t i = 0; i < r->steps_in_flight; i++) {
        mem_free(r->flights[i].rows);
        r->flights[i].rows = NULL;
    }
    s->table_bytes -= r->table_bytes;
    r->table_bytes = 0;
    r->model->slot_total -= r->slot_count;
    mem_free(r->slots);
    mem_free(r->free_slots);
    mem_free(r->running);
    r->slots = r->running = NULL;
    r->free_slots = NULL;
    r->slot_count = r->group_count = r->steps_in_flight = r->capacity = r->snapshot_count = 0;
}

void pools_reset(struct replica *r) {
    for (uint32_t group = 0; group < r->group_count; group++)
        block_pool_reset(&r->pools[group]);
    if (r->snapshot_count)
        block_pool_reset(&r->snapshots);
}

/* What the blocks that a replica says it has cost here. */
static uint64_t table_bytes(const struct rank_capabilities *own) {
    const struct replica *r = NULL;
    uint64_t block = sizeof(struct block) + 2 * sizeof(uint32_t); /* and up to two buckets */
    uint64_t first = sizeof *r->sealed_ids.items + sizeof *r->sealed_hashes.items +
                     sizeof *r->hits.items + sizeof(struct u128) + sizeof(uint32_t);
    uint64_t bytes = own->snapshot_count * block + own->groups[0].block_count * first;
    for (uint32_t group = 0; group < own->group_count; group++)
        bytes += own->groups[group].block_count * block;
    return bytes;
}

static int check_tables(const struct sched *s, const struct replica *r,
                        const struct rank_capabilities *own, struct error *err) {
    uint64_t bytes = table_bytes(own), others = s->table_bytes - r->table_bytes;
    if (bytes <= s->config.table_bytes && others <= s->config.table_bytes - bytes)
        return 0;
    return error_set(err, ERR_LIMIT,
                     "its %u blocks need %llu bytes here, and those of all workers may have %llu: "
                     "start it with larger blocks, or the scheduler with more --table-bytes",
                     own->groups[0].block_count, (unsigned long long)bytes,
                     (unsigned long long)s->config.table_bytes);
}

static void geometry_init(struct sched *s, struct replica *r, const struct rank_capabilities *own) {
    r->slot_count = own->slot_count;
    r->group_count = own->group_count;
    r->steps_in_flight = own->steps_in_flight;
    r->slots = mem_calloc(r->slot_count, sizeof *r->slots);
    r->running = mem_calloc(r->slot_count, sizeof *r->running);
    r->free_slots = mem_calloc(r->slot_count, sizeof *r->free_slots);
    for (uint32_t i = 0; i < r->steps_in_flight; i++)
        r->flights[i].rows = mem_calloc(r->slot_count, sizeof *r->flights[i].rows);
    r->capacity = own->max_context;
    for (uint32_t group = 0; group < r->group_count; group++) {
        const struct wire_kv_group *g = &own->groups[group];
        r->groups[group] = *g;
        block_pool_init(&r->pools[group], g->block_count);
        if (g->kind != WIRE_GROUP_WINDOW)
            r->capacity = (uint32_t)MIN(r->capacity, (uint64_t)g->block_count * g->block_tokens);
    }
    bool carries_state = r->groups[0].kind == WIRE_GROUP_RECURRENT;
    r->snapshot_count = carries_state ? own->snapshot_count : 0;
    if (r->snapshot_count)
        block_pool_init(&r->snapshots, r->snapshot_count);
    r->vectors = own->vectors;
    if (r->vectors.whole_prompts)
        r->capacity = MIN(r->capacity, own->max_step_tokens);
    r->caching = r->group_count == 1 && r->groups[0].kind != WIRE_GROUP_WINDOW &&
                 !r->vectors.whole_prompts && (!carries_state || r->snapshot_count);
    r->table_bytes = table_bytes(own);
    s->table_bytes += r->table_bytes;
    r->model->slot_total += r->slot_count;
    vec_reserve(&r->released_slots, r->slot_count);
    vec_reserve(&r->sealed_ids, r->groups[0].block_count);
    vec_reserve(&r->sealed_hashes, r->groups[0].block_count);
    vec_reserve(&r->hits, r->groups[0].block_count);
}

static bool vectors_are_same(const struct wire_vectors *a, const struct wire_vectors *b) {
    return a->pooling == b->pooling && a->width == b->width && a->normalize == b->normalize &&
           a->whole_prompts == b->whole_prompts && a->only == b->only && a->scores == b->scores &&
           a->bare == b->bare && a->softmax == b->softmax;
}

static bool geometry_is_same(const struct replica *r, const struct rank_capabilities *own) {
    if (!vectors_are_same(&r->vectors, &own->vectors) ||
        (own->vectors.whole_prompts && r->max_step_tokens != own->max_step_tokens) ||
        r->slot_count != own->slot_count || r->group_count != own->group_count ||
        r->max_context != own->max_context || r->steps_in_flight != own->steps_in_flight ||
        (r->groups[0].kind == WIRE_GROUP_RECURRENT && r->snapshot_count != own->snapshot_count))
        return false;
    for (uint32_t group = 0; group < r->group_count; group++) {
        const struct wire_kv_group *a = &r->groups[group], *b = &own->groups[group];
        if (a->kind != b->kind || a->block_tokens != b->block_tokens ||
            a->block_count != b->block_count || a->window_tokens != b->window_tokens)
            return false;
    }
    return true;
}

void capabilities_release(struct rank_capabilities *own) {
    vec_release(&own->held_blocks);
    vec_release(&own->held_hashes);
}

void capabilities_copy(struct rank_capabilities *own, const struct wire_hello *hello) {
    own->revision = hello->revision;
    own->fingerprint = hello->fingerprint;
    own->features = hello->features;
    own->slot_count = hello->slot_count;
    own->max_step_tokens = hello->max_step_tokens;
    own->max_context = hello->max_context;
    own->logits_width = hello->logits_width;
    own->steps_in_flight = MIN(hello->steps_in_flight, SCHED_MAX_STEPS_IN_FLIGHT);
    own->class_sensitive = hello->class_sensitive;
    own->vectors = hello->vectors;
    own->snapshot_count = hello->snapshot_count;
    own->drafts = hello->drafts;
    own->group_count = (uint32_t)hello->group_count;
    for (size_t i = 0; i < hello->group_count; i++)
        own->groups[i] = hello->groups[i];
    own->held_blocks.count = own->held_hashes.count = 0;
    size_t held = MIN(hello->held_blocks.count, hello->held_hashes.count);
    for (size_t i = 0; i < held; i++) {
        vec_push(&own->held_blocks, hello->held_blocks.items[i]);
        vec_push(&own->held_hashes, hello->held_hashes.items[i]);
    }
    own->comm_id_len = (uint32_t)MIN(hello->comm_id.len, sizeof own->comm_id);
    if (own->comm_id_len)
        memcpy(own->comm_id, hello->comm_id.data, own->comm_id_len);
}

/* ---- What the ranks have in common ---- */

static int differs(struct error *err, uint32_t rank, const char *what) {
    return error_set(err, ERR_INVALID, "rank %u of the replica has another %s than rank 0", rank,
                     what);
}

/* Narrows *all to what one more rank can do. */
static int capabilities_intersect(struct rank_capabilities *all,
                                  const struct rank_capabilities *one, uint32_t rank,
                                  struct error *err) {
    if (!u128_equal(all->revision, one->revision))
        return differs(err, rank, "revision of the model");
    if (all->logits_width != one->logits_width)
        return differs(err, rank, "width of the logits");
    if (all->group_count != one->group_count)
        return differs(err, rank, "number of KV groups");
    if (!vectors_are_same(&all->vectors, &one->vectors))
        return differs(err, rank, "pooling");
    all->features &= one->features;
    all->slot_count = MIN(all->slot_count, one->slot_count);
    all->max_step_tokens = MIN(all->max_step_tokens, one->max_step_tokens);
    all->max_context = MIN(all->max_context, one->max_context);
    all->steps_in_flight = MIN(all->steps_in_flight, one->steps_in_flight);
    all->class_sensitive = all->class_sensitive || one->class_sensitive;
    all->snapshot_count = MIN(all->snapshot_count, one->snapshot_count);
    all->drafts = MIN(all->drafts, one->drafts);
    for (uint32_t i = 0; i < all->group_count; i++) {
        struct wire_kv_group *a = &all->groups[i];
        const struct wire_kv_group *b = &one->groups[i];
        if (a->kind != b->kind || a->block_tokens != b->block_tokens ||
            a->window_tokens != b->window_tokens)
            return differs(err, rank, "geometry of KV blocks");
        a->block_count = MIN(a->block_count, b->block_count);
    }
    return 0;
}

/* The bits of a token come from all ranks together. */
static struct u128 joint_fingerprint(const struct replica *r) {
    struct u128 all[SCHED_MAX_RANKS];
    for (uint32_t i = 0; i < r->rank_count; i++)
        all[i] = r->ranks[i]->capabilities.fingerprint;
    return r->rank_count == 1 ? all[0] : hash128(all, r->rank_count * sizeof *all, r->stage_count);
}

/* Makes the replica what its ranks, all of them loaded, can do together. */
int replica_join(struct sched *s, struct replica *r, struct error *err) {
    struct rank_capabilities all = r->ranks[0]->capabilities; /* its vectors are not touched */
    for (uint32_t i = 1; i < r->rank_count; i++) {
        int code = capabilities_intersect(&all, &r->ranks[i]->capabilities, i, err);
        if (code)
            return code;
    }
    if (!geometry_is_same(r, &all)) {
        int code = check_tables(s, r, &all, err);
        if (code)
            return code;
        geometry_release(s, r);
        geometry_init(s, r, &all);
    }
    r->max_context = all.max_context;
    r->max_step_tokens = all.max_step_tokens;
    r->logits_width = all.logits_width;
    r->draft_max = r->stage_count == 1 ? all.drafts : 0;
    r->features = all.features;
    r->class_sensitive = all.class_sensitive;
    r->revision = all.revision;
    r->fingerprint = joint_fingerprint(r);
    return 0;
}

/* Into the prefix cache goes what every rank still holds: one that was replaced has lost its part
 * of everything. */
void replica_adopt_held(struct replica *r) {
    struct block_pool *pool = &r->pools[0];
    const struct rank_capabilities *first = &r->ranks[0]->capabilities;
    struct u128 *held = NULL;
    uint32_t *holders = NULL;
    if (r->rank_count > 1) {
        held = mem_calloc(pool->block_count, sizeof *held);
        holders = mem_calloc(pool->block_count, sizeof *holders);
    }
    for (uint32_t rank = 0; rank < r->rank_count && held; rank++) {
        const struct rank_capabilities *own = &r->ranks[rank]->capabilities;
        for (size_t i = 0; i < own->held_blocks.count; i++) {
            uint32_t block = own->held_blocks.items[i];
            if (block >= pool->block_count)
                continue;
            if (rank == 0)
                held[block] = own->held_hashes.items[i];
            holders[block] += u128_equal(held[block], own->held_hashes.items[i]);
        }
    }
    for (size_t i = 0; i < first->held_blocks.count; i++) {
        uint32_t block = first->held_blocks.items[i];
        if (block >= pool->block_count || (holders && holders[block] < r->rank_count))
            continue;
        block_pool_adopt(pool, block, first->held_hashes.items[i]);
    }
    mem_free(held);
    mem_free(holders);
}
