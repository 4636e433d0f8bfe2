#include "scheduler/core/internal.h"

/* ---- Tokens ---- */

static void own_tokens(struct sched *s, struct sequence *q) {
    if (q->words.cap) return;
    uint32_t count = seq_prompt_count(q);
    store_reserve(&s->store, &q->words, 0, count + 1);
    memcpy(q->words.items, q->request->prompt.ids, count * sizeof(uint32_t));
}

void seq_set_output(struct sched *s, struct sequence *q, struct tokens output) {
    uint32_t prompt_count = seq_prompt_count(q);
    own_tokens(s, q);
    store_reserve(&s->store, &q->words, prompt_count, prompt_count + (uint32_t)output.count + 1);
    if (output.count) memcpy(q->words.items + prompt_count, output.ids, output.count * sizeof(uint32_t));
    q->token_count = prompt_count + (uint32_t)output.count;
    q->tokens_hi = q->token_count;
    q->logprob_base = (uint32_t)output.count;
}

void seq_append(struct sched *s, struct sequence *q, uint32_t token) {
    store_reserve(&s->store, &q->words, q->token_count, q->token_count + 1);
    q->words.items[q->token_count++] = token;
}

/* ---- Places ---- */

void seq_count(struct sched *s, struct sequence *q, enum counted counted) {
    if (q->counted == COUNTED_NEW) s->waiting_new--;
    if (q->counted == COUNTED_RESUMED) s->waiting_resumed--;
    q->counted = (uint8_t)counted;
    if (q->counted == COUNTED_NEW) s->waiting_new++;
    if (q->counted == COUNTED_RESUMED) s->waiting_resumed++;
}

static enum counted count_kind(const struct sequence *q) {
    return q->started || q->request->resumed ? COUNTED_RESUMED : COUNTED_NEW;
}

bool seq_is_runnable(const struct sequence *q) {
    const struct request *request = q->request;
    if (!request->model || !request->validated || request->paused) return false;
    return !request->gateway || !request->gateway->silent || request->resumable;
}

static uint32_t recompute_cost(struct sched *s, struct sequence *q) {
    uint32_t cached = 0;
    struct model *model = q->request->model;
    for (size_t i = 0; i < model->replicas.count; i++) {
        struct replica *r = model->replicas.items[i];
        if (r->state == REPLICA_READY) cached = MAX(cached, prefix_find(s, q, r));
    }
    return q->token_count - cached;
}

void seq_enqueue(struct sched *s, struct sequence *q) {
    CHECK(q->place == PLACE_NEW && q->finish == WIRE_FINISH_NONE);
    seq_count(s, q, count_kind(q));
    if (q->group || !seq_is_runnable(q)) {
        q->place = PLACE_PARKED;
        list_push(&s->parked, &q->link);
        return;
    }
    if (q->counted == COUNTED_RESUMED) q->recompute_cost = recompute_cost(s, q);
    q->place = PLACE_QUEUED;
    waiting_add(&q->request->model->waiting, q);
}

void seq_unqueue(struct sched *s, struct sequence *q) {
    if (q->place == PLACE_QUEUED) waiting_remove(&q->request->model->waiting, q);
    if (q->place == PLACE_PARKED) list_remove(&q->link);
    if (q->place == PLACE_HELD) q->request->held_count--;
    CHECK(q->place != PLACE_SLOT && q->place != PLACE_DONE);
    q->place = PLACE_NEW;
    seq_count(s, q, COUNTED_NOT);
}

void seq_requeue(struct sched *s, struct sequence *q) {
    if (q->place != PLACE_QUEUED && q->place != PLACE_PARKED) return;
    seq_unqueue(s, q);
    seq_enqueue(s, q);
}

void parked_review(struct sched *s) {
    LIST_EACH(at, &s->parked) {
        struct sequence *q = LINK_ITEM(at, struct sequence, link);
        if (!q->group && seq_is_runnable(q)) seq_requeue(s, q);
    }
}

void seq_hold(struct sched *s, struct sequence *q) {
    CHECK(q->place == PLACE_NEW);
    q->place = PLACE_HELD;
    q->request->held_count++;
    seq_count(s, q, count_kind(q));
}

void siblings_release(struct sched *s, struct request *request) {
    for (uint32_t i = 0; i < request->sequence_count && request->held_count; i++) {
        struct sequence *q = &request->sequences[i];
        if (q->place != PLACE_HELD) continue;
        seq_unqueue(s, q);
        seq_enqueue(s, q);
    }
}

/* ---- Blocks ---- */

static bool cover_group(struct sequence *q, struct store *store, uint32_t group, uint32_t upto) {
    struct replica *r = q->replica;
    struct block_table *table = &q->tables[group];
    uint32_t block_tokens = r->groups[group].block_tokens;
    uint32_t need = (upto + block_tokens - 1) / block_tokens;
    if (table->count >= need) return true;
    store_reserve(store, &table->ids, table->count, need);
    while (table->count < need) {
        uint32_t block = block_pool_take(&r->pools[group]);
        if (block == BLOCK_NONE) return false;
        table->ids.items[table->count++] = block;
    }
    return true;
}

bool seq_cover(struct sequence *q, struct store *store, uint32_t upto) {
    for (uint32_t group = 0; group < q->replica->group_count; group++)
        if (!cover_group(q, store, group, upto)) return false;
    return true;
}

/* Last block first, so that the start of a prompt stays cached longest. */
static void give_blocks(struct sched *s, struct sequence *q) {
    snapshot_let_go(q);
    for (uint32_t group = 0; group < q->replica->group_count; group++) {
        struct block_table *table = &q->tables[group];
        for (uint32_t i = table->count; i-- > table->first;)
            block_pool_put(&q->replica->pools[group], table->ids.items[i]);
        store_give(&s->store, &table->ids);
        *table = (struct block_table){0};
    }
}

static void drop_behind_window(struct sequence *q) {
    struct replica *r = q->replica;
    for (uint32_t group = 0; group < r->group_count; group++) {
        if (r->groups[group].kind != WIRE_GROUP_WINDOW) continue;
        struct block_table *table = &q->tables[group];
        uint32_t window = r->groups[group].window_tokens, block_tokens = r->groups[group].block_tokens;
        while (q->computed_lo > window && (table->first + 1) * block_tokens <= q->computed_lo - window) {
            block_pool_put(&r->pools[group], table->ids.items[table->first]);
            table->ids.items[table->first++] = BLOCK_NONE;
        }
    }
}

/* Names the blocks that are complete now, and tells siblings that the prompt they share is there. */
void seq_seal(struct sched *s, struct sequence *q) {
    struct replica *r = q->replica;
    drop_behind_window(q);
    if (!r->caching) {
        if (q->request->held_count) siblings_release(s, q->request);
        return;
    }
    uint32_t block_tokens = r->groups[0].block_tokens;
    if ((q->sealed_count + 1) * block_tokens <= q->computed_lo) request_hash(s, q->request, r);
    while ((q->sealed_count + 1) * block_tokens <= q->computed_lo) {
        uint32_t block = q->tables[0].ids.items[q->sealed_count];
        q->chain = seq_block_hash(s, q, r, q->chain, q->sealed_count++);
        if (!block_pool_seal(&r->pools[0], block, q->chain)) continue;
        vec_push(&r->sealed_ids, block);
        vec_push(&r->sealed_hashes, q->chain);
    }
    uint32_t shared = seq_prompt_count(q) / block_tokens * block_tokens; /* with a state: one row behind its snapshot */
    if (q->request->held_count && q->computed_lo >= (r->snapshot_count ? seq_prompt_count(q) : shared))
        siblings_release(s, q->request);
}

/* ---- Slots ---- */

static void take_hits(struct sched *s, struct sequence *q) {
    struct replica *r = q->replica;
    uint32_t hit_count = (uint32_t)r->hits.count;
    struct block_table *table = &q->tables[0];
    if (r->caching) request_hash(s, q->request, r); /* another replica may have been looked at last */
    q->chain = q->request->root;
    snapshot_hold(q);
    if (!hit_count) return;
    store_reserve(&s->store, &table->ids, 0, hit_count);
    for (uint32_t i = 0; i < hit_count; i++) {
        block_pool_ref(&r->pools[0], r->hits.items[i]);
        table->ids.items[i] = r->hits.items[i];
    }
    table->count = q->sealed_count = hit_count;
    q->chain = block_pool_hash(&r->pools[0], r->hits.items[hit_count - 1]);
}

static void take_fingerprint(struct sequence *q) {
    if (u128_equal(q->fingerprint, q->replica->fingerprint)) return;
    if (seq_output_count(q) && !u128_is_zero(q->fingerprint)) {
        q->older_fingerprint = q->fingerprint;
        q->fingerprint_from = seq_output_count(q);
    }
    q->fingerprint = q->replica->fingerprint;
}

static void take_slot(struct sched *s, struct sequence *q, struct replica *r) {
    q->place = PLACE_SLOT;
    q->replica = r;
    q->slot = r->free_slots[--r->free_slot_count];
    r->slots[q->slot] = q;
    q->run_idx = r->running_count;
    r->running[r->running_count++] = q;
    s->running++;
}

void seq_place(struct sched *s, struct sequence *q, struct replica *r) {
    CHECK(q->place == PLACE_NEW && r->free_slot_count);
    take_slot(s, q, r);
    own_tokens(s, q);
    take_hits(s, q);
    take_fingerprint(q);
    q->computed_lo = q->computed_hi = r->caching ? q->sealed_count * r->groups[0].block_tokens : 0;
    q->tokens_hi = q->recompute_until = q->token_count;
    q->planned = 0;
    q->max_total = MIN(seq_prompt_count(q) + q->request->max_tokens, r->capacity);
    q->recomputing = q->started || q->request->resumed;
    r->resume_count += q->recomputing;
    s->counts.cached_tokens += q->computed_lo;
    if (!q->started) {
        q->cached_count = MIN(q->computed_lo, seq_prompt_count(q));
        s->counts.prompt_tokens += seq_prompt_count(q);
    }
    q->started = true;
    q->request->unbound_until = NEVER;
    for (uint32_t group = 0; group < r->group_count; group++)
        if (r->groups[group].kind != WIRE_GROUP_WINDOW) CHECK(cover_group(q, &s->store, group, q->token_count));
    seq_seal(s, q);
}

void seq_leave(struct sched *s, struct sequence *q, enum leave leave) {
    CHECK(q->place == PLACE_SLOT);
    if (q->leave == LEAVE_NOT) q->replica->leaving_count++;
    q->leave = (uint8_t)MAX(q->leave, leave);
    if (q->rows_in_flight == 0) seq_leave_finish(s, q);
}

static void give_slot(struct sched *s, struct sequence *q) {
    struct replica *r = q->replica;
    struct sequence *last = r->running[--r->running_count];
    r->running[q->run_idx] = last;
    last->run_idx = q->run_idx;
    r->slots[q->slot] = NULL;
    r->free_slots[r->free_slot_count++] = q->slot;
    if (q->admitted) vec_push(&r->released_slots, q->slot);
    r->leaving_count--;
    r->resume_count -= q->recomputing;
    s->running--;
}

void seq_leave_finish(struct sched *s, struct sequence *q) {
    CHECK(q->leave != LEAVE_NOT && q->rows_in_flight == 0);
    give_blocks(s, q);
    give_slot(s, q);
    enum leave leave = q->leave;
    q->leave = LEAVE_NOT;
    q->replica = NULL;
    q->slot = SLOT_NONE;
    q->admitted = q->recomputing = false;
    q->computed_lo = q->computed_hi = q->sealed_count = 0;
    q->tokens_hi = q->token_count;
    q->place = leave == LEAVE_DONE ? PLACE_DONE : PLACE_NEW;
    if (leave != LEAVE_DONE) {
        s->counts.preemptions++;
        seq_enqueue(s, q);
    }
}

void seq_finish(struct sched *s, struct sequence *q, enum wire_finish finish, bool quiet) {
    q->quiet = q->quiet || quiet;
    if (q->finish != WIRE_FINISH_NONE) return;
    struct request *request = q->request;
    q->finish = (uint8_t)finish;
    s->counts.finished[finish]++;
    suspect_clear(s, q);
    if (q->place == PLACE_SLOT) {
        seq_leave(s, q, LEAVE_DONE);
    } else {
        seq_unqueue(s, q);
        q->place = PLACE_DONE;
    }
    if (request->held_count) siblings_release(s, request);
    if (!q->quiet) seq_dirty(s, q);
    if (--request->open_count == 0) request_finished(s, request);
}
