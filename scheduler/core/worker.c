#include "scheduler/core/worker.h"
#include "scheduler/core/chain.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/place.h"

/* ---- Hello ---- */

static int group_check(const struct wire_hello *hello, const struct wire_kv_group *g,
                       struct error *err) {
    if (g->kind < WIRE_GROUP_FULL || g->kind > WIRE_GROUP_RECURRENT)
        return error_set(err, ERR_UNSUPPORTED, "unknown kind of KV group %d", (int)g->kind);
    if (g->block_tokens == 0 || g->block_tokens > CHAIN_MAX_BLOCK_TOKENS || g->block_count == 0 ||
        g->block_count > WIRE_MAX_BLOCKS)
        return error_set(err, ERR_INVALID, "a KV group of %u blocks of %u tokens is out of bounds",
                         g->block_count, g->block_tokens);
    uint64_t least =
        (uint64_t)g->window_tokens + hello->max_step_tokens + 2 * (uint64_t)g->block_tokens;
    if (g->kind == WIRE_GROUP_WINDOW && (uint64_t)g->block_count * g->block_tokens < least)
        return error_set(err, ERR_INVALID, "a window's KV group needs at least %llu tokens",
                         (unsigned long long)least);
    return 0;
}

static int hello_check(const struct wire_hello *hello, struct error *err) {
    uint64_t ranks = (uint64_t)hello->tp * hello->pp;
    if (u128_is_zero(hello->instance) || hello->model.len > WIRE_MAX_TEXT || ranks == 0 ||
        ranks > SCHED_MAX_RANKS || hello->rank >= hello->tp || hello->stage >= hello->pp)
        return error_set(err, ERR_INVALID,
                         "worker's place is out of bounds: rank %u of %u, stage %u of %u",
                         hello->rank, hello->tp, hello->stage, hello->pp);
    if (hello->state == WIRE_STATE_LOADING)
        return 0;
    if (hello->slot_count == 0 || hello->slot_count > WIRE_MAX_SLOTS ||
        hello->max_step_tokens == 0 || hello->max_context < 2 ||
        hello->max_context > WIRE_MAX_TOKENS || hello->logits_width == 0 ||
        hello->snapshot_count > WIRE_MAX_BLOCKS || hello->steps_in_flight == 0)
        return error_set(err, ERR_INVALID, "worker's sizes are out of bounds");
    if (hello->group_count == 0 || hello->group_count > SCHED_MAX_GROUPS)
        return error_set(err, ERR_UNSUPPORTED, "%zu KV groups; this scheduler takes 1 to %d",
                         hello->group_count, SCHED_MAX_GROUPS);
    for (size_t i = 0; i < hello->group_count; i++) {
        int code = group_check(hello, &hello->groups[i], err);
        if (code)
            return code;
    }
    return 0;
}

void worker_remove(struct sched *s, struct worker *worker) {
    worker->replica->ranks[worker->rank] = NULL;
    id_map_remove(&s->worker_ids, worker->instance);
    capabilities_release(&worker->capabilities);
    mem_free(worker);
}

static void fence(struct sched *s, struct replica *r, const struct worker *worker) {
    r->fenced = worker->instance;
    r->fence_until = s->now + s->config.fence_wait_ms;
    s->counts.fences++;
    s->sink.fence(s->sink.ctx, worker->instance, worker->pid);
}

void worker_ask(struct sched *s, struct worker *worker) {
    worker->asked_at = s->now;
    s->counts.reregistrations++;
    s->sink.reregister(s->sink.ctx, worker->instance);
}

/* One rank is gone or begins anew: the others wait for it in the middle of a step, and have slots
 * of a registration that is void. Those that were not used since they registered stay as they
 * are. */
static void ask_others(struct sched *s, struct replica *r, uint32_t rank) {
    for (uint32_t i = 0; i < r->rank_count && r->plan_number; i++) {
        struct worker *other = r->ranks[i];
        if (!other || i == rank || !other->registered || other->asked_at == s->now)
            continue;
        other->registered = false;
        worker_ask(s, other);
    }
    r->plan_number = 0;
}

/* Another process takes this rank over: the old one has to be gone before its memory is used
 * again. */
static void displace(struct sched *s, struct replica *r, uint32_t rank, struct u128 instance) {
    struct worker *old = r->ranks[rank];
    if (!old || u128_equal(old->instance, instance))
        return;
    fence(s, r, old);
    worker_remove(s, old);
}

static struct worker *worker_get(struct sched *s, struct replica *r, uint32_t rank,
                                 const struct wire_hello *hello) {
    struct worker *worker = id_map_get(&s->worker_ids, hello->instance);
    if (worker)
        return worker;
    worker = mem_alloc(sizeof *worker);
    *worker = (struct worker){
        .instance = hello->instance, .rank = rank, .replica = r, .asked_at = s->now - ASK_AGAIN_MS};
    id_map_put(&s->worker_ids, hello->instance, worker);
    r->ranks[rank] = worker;
    return worker;
}

static bool is_repeated(struct sched *s, const struct wire_hello *hello) {
    const struct worker *worker = id_map_get(&s->worker_ids, hello->instance);
    if (!worker)
        return false;
    if (hello->incarnation != worker->incarnation)
        return hello->incarnation < worker->incarnation;
    return !worker->loading || hello->state == WIRE_STATE_LOADING;
}

int sched_worker_hello(struct sched *s, int64_t now, const struct wire_hello *hello,
                       struct error *err) {
    sched_at(s, now);
    int code = hello_check(hello, err);
    if (code) { /* so is what it was registered as: its link forgets it */
        sched_worker_silent(s, now, hello->instance);
        return code;
    }
    if (is_repeated(s, hello)) {
        s->counts.stale_messages++;
        return 0;
    }
    struct u128 id = u128_is_zero(hello->replica) ? hello->instance : hello->replica;
    uint32_t rank = hello->stage * hello->tp + hello->rank;
    struct worker *moved = id_map_get(&s->worker_ids, hello->instance);
    if (moved && (!u128_equal(moved->replica->id, id) || moved->rank != rank))
        replica_free(s, moved->replica);
    struct model *model = model_get(s, hello->model);
    struct replica *r = replica_get(s, id, model, hello->tp * hello->pp, hello->pp);
    replica_fail(s, r, REPLICA_GATHERING, false);
    displace(s, r, rank, hello->instance);
    /* it lives, and begins anew */
    if (u128_equal(r->fenced, hello->instance))
        r->fenced = (struct u128){0};
    ask_others(s, r, rank);
    struct worker *worker = worker_get(s, r, rank, hello);
    worker->pid = hello->pid;
    worker->incarnation = hello->incarnation;
    worker->registered = true;
    worker->loading = hello->state == WIRE_STATE_LOADING;
    worker->idle_beats = 0;
    r->bundle = hello->bundle;
    r->bundle_bytes = hello->bundle_bytes;
    if (!model->max_capacity) { /* else gateways go by those that are loaded */
        model->bundle = hello->bundle;
        model->bundle_bytes = hello->bundle_bytes;
    }
    if (!worker->loading) {
        capabilities_copy(&worker->capabilities, hello);
        crash_survived(s, hello->instance);
    }
    code = replica_is_complete(r) ? replica_join(s, r, err) : 0;
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

/* ---- Events ---- */

void sched_blocks_lost(struct sched *s, int64_t now, struct u128 instance, uint32_t incarnation) {
    sched_at(s, now);
    struct worker *worker = id_map_get(&s->worker_ids, instance);
    if (!worker || (incarnation && incarnation != worker->incarnation) ||
        worker->replica->state != REPLICA_READY) {
        s->counts.stale_messages++;
        return;
    }
    struct replica *r = worker->replica;
    replica_fail(s, r, REPLICA_STALE, false);
    worker->registered = false;
    ask_others(s, r, worker->rank);
    r->asked_at = s->now; /* its Hello follows by itself; asked for when it does not */
}

void sched_worker_silent(struct sched *s, int64_t now, struct u128 instance) {
    sched_at(s, now);
    struct worker *worker = id_map_get(&s->worker_ids, instance);
    if (!worker)
        return;
    struct replica *r = worker->replica;
    replica_fail(s, r, REPLICA_DOWN, false);
    fence(s, r, worker);
    ask_others(s, r, worker->rank);
    worker_remove(s, worker);
    model_review(s, r->model);
}

static void fence_confirmed(struct sched *s, struct u128 instance) {
    for (size_t i = 0; i < s->replicas.count; i++) {
        struct replica *r = s->replicas.items[i];
        if (!u128_equal(r->fenced, instance))
            continue;
        r->fenced = (struct u128){0};
        replica_try_start(s, r);
    }
}

void sched_worker_exited(struct sched *s, int64_t now, const struct wire_exited *exited) {
    sched_at(s, now);
    if (u128_is_zero(exited->instance))
        return;
    struct worker *worker = id_map_get(&s->worker_ids, exited->instance);
    bool fault = exited->fault && exited->cause != WIRE_EXIT_FENCED;
    if (worker) {
        struct replica *r = worker->replica;
        bool attributable = fault && r->flight_count;
        s->counts.attributable_deaths += attributable;
        replica_fail(s, r, REPLICA_DOWN, attributable);
        ask_others(s, r, worker->rank);
        worker_remove(s, worker);
    }
    crash_explained(s, exited->instance, fault);
    fence_confirmed(s, exited->instance);
}

void sched_worker_drain(struct sched *s, int64_t now, struct u128 instance) {
    sched_at(s, now);
    struct worker *worker = id_map_get(&s->worker_ids, instance);
    if (worker)
        replica_drain(s, worker->replica);
}

/* A step is stuck when it takes far longer than its tokens explain by what this replica has shown
 * so far. */
static bool is_stuck(const struct sched *s, const struct replica *r,
                     const struct wire_heartbeat *beat) {
    if (beat->state != WIRE_STATE_STEPPING || r->state != REPLICA_READY || !r->flight_count)
        return false;
    double allowed = s->config.stuck_floor_ms + 20.0 * r->ms_per_token * beat->step_tokens;
    return beat->step_age_ms > allowed;
}

/* Plans are out, and it has nothing to do or only waits for another rank. */
static bool may_be_lost(const struct sched *s, const struct replica *r, const struct worker *worker,
                        const struct wire_heartbeat *beat) {
    bool waits =
        beat->state == WIRE_STATE_IDLE || (beat->waiting && beat->progress == worker->progress);
    return r->state == REPLICA_READY && r->flight_count && waits &&
           s->now - r->flights[r->flight_first].sent_at >= s->config.lost_plan_ms;
}

/* One rank of a pipeline may well be idle while another computes; not all of them. */
static bool all_are_idle(const struct replica *r) {
    for (uint32_t i = 0; i < r->rank_count; i++)
        if (!r->ranks[i] || r->ranks[i]->idle_beats < 2)
            return false;
    return true;
}

bool sched_worker_heartbeat(struct sched *s, int64_t now, struct u128 instance,
                            const struct wire_heartbeat *beat) {
    sched_at(s, now);
    struct worker *worker = id_map_get(&s->worker_ids, instance);
    if (!worker) {
        s->counts.reregistrations++;
        s->sink.reregister(s->sink.ctx, instance);
        return false;
    }
    struct replica *r = worker->replica;
    if (beat->state == WIRE_STATE_DRAINING) {
        replica_drain(s, r);
        if (!r->running_count && !r->flight_count && !replica_is_awaited(s, r) && s->sink.released)
            s->sink.released(s->sink.ctx, instance);
    }
    /* the Hello that said so was lost */
    bool loaded = worker->loading && beat->state != WIRE_STATE_LOADING;
    if (loaded && s->now - worker->asked_at >= ASK_AGAIN_MS)
        worker_ask(s, worker);
    worker->stuck_beats = is_stuck(s, r, beat) ? worker->stuck_beats + 1 : 0;
    if (worker->stuck_beats >=
        3) { /* one that was stopped and woke shows a long step, too, but ends it */
        s->counts.attributable_deaths++;
        replica_fail(s, r, REPLICA_DOWN, true);
        fence(s, r, worker);
        ask_others(s, r, worker->rank);
        worker_remove(s, worker);
        return true;
    }
    worker->idle_beats = may_be_lost(s, r, worker, beat) ? worker->idle_beats + 1 : 0;
    worker->progress = beat->progress;
    if (all_are_idle(r))
        replica_out_of_step(s, r);
    return true;
}
