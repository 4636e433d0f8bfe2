#include "scheduler/core/capabilities.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/request.h"
#include "scheduler/core/sequence_state.h"
#include "scheduler/core/worker.h"

#include <math.h>

static void set_state(struct sched *s, struct replica *r, enum replica_state state) {
    r->state = state;
    if (state == REPLICA_READY)
        list_remove(&r->unready_link);
    else if (!list_node_is_linked(&r->unready_link))
        list_push(&s->unready, &r->unready_link);
}

int64_t replica_free_at(const struct sched *s, const struct replica *r) {
    double ms = 0;
    if (!r->flight_count || r->stage_count > 1)
        return s->now;
    for (uint32_t i = 0; i < r->flight_count; i++)
        ms += r->flights[(r->flight_first + i) % r->steps_in_flight].expected_ms;
    int64_t began = MAX(r->flights[r->flight_first].sent_at, r->answered_at);
    return MAX(began + llround(ms), s->now);
}

void replica_to_plan(struct sched *s, struct replica *r) {
    if (!list_node_is_linked(&r->plan_link))
        list_push(&s->to_plan, &r->plan_link);
}

struct replica *replica_get(struct sched *s, struct u128 id, struct model *model,
                            uint32_t rank_count, uint32_t stage_count) {
    struct replica *r = id_map_get(&s->replica_ids, id);
    if (r && (r->model != model || r->rank_count != rank_count || r->stage_count != stage_count)) {
        replica_free(s, r); /* another service under the same name */
        r = NULL;
    }
    if (r)
        return r;
    r = mem_alloc(sizeof *r);
    *r = (struct replica){
        .id = id, .model = model, .rank_count = rank_count, .stage_count = stage_count};
    set_state(s, r, REPLICA_GATHERING);
    id_map_put(&s->replica_ids, id, r);
    vec_push(&model->replicas, r);
    vec_push(&s->replicas, r);
    return r;
}

/* ---- Starting ---- */

bool replica_is_complete(const struct replica *r) {
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (!r->ranks[i] || !r->ranks[i]->registered || r->ranks[i]->loading)
            return false;
    return true;
}

/* From registration to use: plan numbers, slots and pools begin anew. */
static void replica_start(struct sched *s, struct replica *r) {
    set_state(s, r, REPLICA_READY);
    r->draining = false;
    r->plan_number = 0;
    grammars_forget(r);
    r->flight_first = r->cursor = 0;
    r->free_slot_count = 0;
    for (uint32_t slot = r->slot_count; slot-- > 0;)
        r->free_slots[r->free_slot_count++] = slot;
    r->released_slots.count = r->sealed_ids.count = r->sealed_hashes.count = 0;
    pools_reset(r);
    if (r->caching)
        replica_adopt_held(r);
    for (uint32_t i = 0; i < r->rank_count; i++)
        r->rank_ids[i] = r->ranks[i]->instance;
    model_review(s, r->model);
    requests_bind_all(s, r->model);
    parked_review(s);
}

void replica_drain(struct sched *s, struct replica *r) {
    if (r->draining)
        return;
    r->draining = true;
    r->drain_arrival = s->next_arrival;
    model_review(s, r->model);
}

void replica_try_start(struct sched *s, struct replica *r) {
    if (r->state != REPLICA_GATHERING && r->state != REPLICA_FENCING)
        return;
    if (!replica_is_complete(r))
        return;
    set_state(s, r, u128_is_zero(r->fenced) ? REPLICA_GATHERING : REPLICA_FENCING);
    if (r->state == REPLICA_GATHERING)
        replica_start(s, r);
}

/* ---- Failing ---- */

static void collect_suspects(struct sched *s, struct replica *r) {
    s->scratch.count = 0;
    for (uint32_t i = 0; i < r->flight_count; i++) {
        struct flight *flight = &r->flights[(r->flight_first + i) % r->steps_in_flight];
        for (uint32_t row = 0; row < flight->row_count; row++) {
            struct sequence *q = flight->rows[row].sequence;
            if (q->rows_in_flight == 0)
                continue; /* seen in an earlier flight */
            q->rows_in_flight = 0;
            draft_drop(q);
            vec_push(&s->scratch, q);
        }
    }
    r->flight_count = 0;
}

static void sequence_lost_replica(struct sched *s, struct sequence *q) {
    q->rows_in_flight = 0;
    draft_drop(q);
    seq_preempt(s, q);
}

/*
 * The replica's registration is void. Its sequences requeue with the tokens committed; what was in
 * flight is lost. Attributable: a fault that a request may have caused, so those in flight become
 * suspects.
 */
void replica_fail(struct sched *s, struct replica *r, enum replica_state state, bool attributable) {
    bool was_ready = r->state == REPLICA_READY;
    set_state(s, r, state);
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
    while (r->running_count)
        sequence_lost_replica(s, r->running[r->running_count - 1]);
    pools_reset(r);
    r->released_slots.count = r->sealed_ids.count = r->sealed_hashes.count = 0;
    grammars_forget(r);
    r->down_since = s->now;
    if (was_ready)
        s->counts.deaths += state == REPLICA_DOWN;
    if (attributable)
        suspects_crashed(s, suspects, dangers, count);
    else if (state == REPLICA_DOWN ||
             r->rank_count > 1) /* a peer may tell of a death before the supervisor does */
        crash_remember(s, r, suspects, dangers, count);
    mem_free(suspects);
    mem_free(dangers);
    model_review(s, r->model);
}

void replica_free(struct sched *s, struct replica *r) {
    replica_fail(s, r, REPLICA_DOWN, false);
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (r->ranks[i])
            worker_remove(s, r->ranks[i]);
    geometry_release(s, r);
    struct model *model = r->model;
    for (size_t i = 0; i < model->replicas.count; i++)
        if (model->replicas.items[i] == r)
            model->replicas.items[i--] = model->replicas.items[--model->replicas.count];
    for (size_t i = 0; i < s->replicas.count; i++)
        if (s->replicas.items[i] == r)
            s->replicas.items[i--] = s->replicas.items[--s->replicas.count];
    list_remove(&r->unready_link);
    list_remove(&r->plan_link);
    id_map_remove(&s->replica_ids, r->id);
    vec_release(&r->released_slots);
    vec_release(&r->sealed_ids);
    vec_release(&r->sealed_hashes);
    vec_release(&r->hits);
    vec_release(&r->grammars);
    mem_free(r);
    model_review(s, model);
    if (model->replicas.count == 0)
        requests_await_replica(s, model);
}

void replica_out_of_step(struct sched *s, struct replica *r) {
    replica_fail(s, r, REPLICA_STALE, false);
    for (uint32_t i = 0; i < r->rank_count; i++) {
        if (!r->ranks[i])
            continue;
        r->ranks[i]->registered = false;
        worker_ask(s, r->ranks[i]);
    }
    r->asked_at = s->now;
}

/* ---- Time ---- */

static bool has_worker(const struct replica *r) {
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (r->ranks[i])
            return true;
    return false;
}

/* Ranks were asked to register anew, and have not; the asking may have been lost. */
static bool waits_for_ranks(const struct replica *r) {
    if (r->state == REPLICA_STALE)
        return true;
    for (uint32_t i = 0; i < r->rank_count && r->state == REPLICA_GATHERING; i++)
        if (r->ranks[i] && !r->ranks[i]->registered)
            return true;
    return false;
}

static void ask_ranks_again(struct sched *s, struct replica *r) {
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (r->ranks[i] && !r->ranks[i]->registered)
            worker_ask(s, r->ranks[i]);
    r->asked_at = s->now;
}

/* One that is gone is kept, with its tables, so that its model stays known; another replica does that
 * as well. Each start of a worker is a new one. */
static bool is_forgotten(const struct sched *s, const struct replica *r) {
    if (r->state != REPLICA_DOWN || has_worker(r))
        return false;
    for (size_t i = 0; i < r->model->replicas.count; i++)
        if (r->model->replicas.items[i]->state == REPLICA_READY)
            return true;
    return s->now - r->down_since >= s->config.model_grace_ms;
}

void replicas_run(struct sched *s) {
    LIST_EACH(at, &s->unready) {
        struct replica *r = LIST_ITEM(at, struct replica, unready_link);
        if (r->state == REPLICA_FENCING && r->fence_until <= s->now) {
            r->fenced = (struct u128){0};
            replica_try_start(s, r);
        }
        if (waits_for_ranks(r) && s->now - r->asked_at >= ASK_AGAIN_MS)
            ask_ranks_again(s, r);
        if (is_forgotten(s, r))
            replica_free(s, r);
    }
    LIST_EACH(at, &s->models) {
        struct model *model = LIST_ITEM(at, struct model, link);
        if (model->replicas.count == 0 && model->request_count == 0)
            model_free(s, model);
    }
}

/* When the first slot is no longer kept that somebody may wait for. */
static int64_t kept_slots_next(const struct sched *s) {
    int64_t next = NEVER;
    for (size_t i = 0; i < s->replicas.count && s->slots_kept_until > s->now; i++) {
        const struct replica *r = s->replicas.items[i];
        if (r->slot_kept_until > s->now && r->model->waiting.count)
            next = MIN(next, r->slot_kept_until);
    }
    return next;
}

int64_t replicas_next(const struct sched *s) {
    int64_t next = kept_slots_next(s);
    for (const struct list_node *at = s->unready.next; at != &s->unready; at = at->next) {
        const struct replica *r = LIST_ITEM(at, const struct replica, unready_link);
        if (r->state == REPLICA_FENCING)
            next = MIN(next, r->fence_until);
        if (waits_for_ranks(r))
            next = MIN(next, r->asked_at + ASK_AGAIN_MS);
        if (r->state == REPLICA_DOWN && !has_worker(r))
            next = MIN(next, r->down_since + s->config.model_grace_ms);
    }
    return next;
}
