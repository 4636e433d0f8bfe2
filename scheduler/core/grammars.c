#include "scheduler/core/grammars.h"

#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/place.h"
#include "scheduler/core/sequence_state.h"
#include "scheduler/core/worker.h"

static struct replica_grammar *find(struct replica *r, struct u128 hash) {
    for (size_t i = 0; i < r->grammars.count; i++)
        if (u128_equal(r->grammars.items[i].hash, hash))
            return &r->grammars.items[i];
    return NULL;
}

static bool is_valid(const struct sched *s, const struct replica_grammar *g) {
    return g->ready && s->now - g->ready_at < GRAMMAR_VALID_MS;
}

static void set_turned_away(struct replica *r, bool turned_away) {
    r->model->turned_away_count += turned_away;
    r->model->turned_away_count -= r->grammar_turned_away;
    r->grammar_turned_away = turned_away;
}

/* For whom a replica has been asked and has not answered. */
struct askers {
    struct u128 tenants[GRAMMARS_ASKED_MAX];
    uint32_t count;
};

static void askers_of(const struct replica *r, struct askers *a) {
    a->count = 0;
    for (size_t i = 0; i < r->grammars.count && a->count < r->grammars_asked; i++)
        if (r->grammars.items[i].asked)
            a->tenants[a->count++] = r->grammars.items[i].tenant;
}

static bool may_ask(const struct askers *a, const struct request *request) {
    uint32_t own = 0;
    for (uint32_t i = 0; i < a->count; i++)
        own += u128_equal(a->tenants[i], request->tenant->id);
    return a->count < GRAMMARS_ASKED_MAX && own < GRAMMARS_TENANT_MAX;
}

/* A new entry; in a full table in the place of what was ready longest ago. What is asked for stays. */
static struct replica_grammar *make_room(struct replica *r, struct u128 hash) {
    struct replica_grammar *oldest = NULL;
    if (r->grammars.count < GRAMMARS_MAX) {
        vec_push(&r->grammars, (struct replica_grammar){.hash = hash});
        return &r->grammars.items[r->grammars.count - 1];
    }
    for (size_t i = 0; i < r->grammars.count; i++) {
        struct replica_grammar *g = &r->grammars.items[i];
        if (!g->asked && (!oldest || g->ready_at < oldest->ready_at))
            oldest = g;
    }
    CHECK(oldest);
    *oldest = (struct replica_grammar){.hash = hash};
    return oldest;
}

static void ask(struct sched *s, struct replica *r, struct replica_grammar *g,
                const struct request *request) {
    uint32_t last_stage = r->rank_count - r->rank_count / r->stage_count;
    struct wire_prepare prepare = {.resource = WIRE_RESOURCE_GRAMMAR,
                                   .subkind = request->grammar_kind,
                                   .hash = request->grammar_hash,
                                   .source = request->grammar};
    g->asked = true;
    g->tenant = request->tenant->id;
    r->grammars_asked++;
    s->sink.prepare(s->sink.ctx, (struct u128s){&r->rank_ids[last_stage], 1}, &prepare);
}

static void answered(struct replica *r, struct replica_grammar *g) {
    r->grammars_asked -= g->asked;
    g->asked = false;
}

bool grammar_is_ready(struct sched *s, struct replica *r, const struct request *request) {
    if (request->grammar_kind == WIRE_GRAMMAR_NONE)
        return true;
    struct replica_grammar *g = find(r, request->grammar_hash);
    bool valid = g && is_valid(s, g);
    if (g && (g->asked || (valid && s->now - g->ready_at < GRAMMAR_REFRESH_MS)))
        return valid;
    struct askers askers;
    askers_of(r, &askers);
    if (may_ask(&askers, request))
        ask(s, r, g ? g : make_room(r, request->grammar_hash), request);
    else if (!valid)
        set_turned_away(r, true);
    return valid;
}

bool grammar_is_awaited(struct sched *s, const struct request *request) {
    bool awaited = false;
    if (request->grammar_kind == WIRE_GRAMMAR_NONE)
        return false;
    for (size_t i = 0; i < request->model->replicas.count; i++) {
        struct replica *r = request->model->replicas.items[i];
        const struct replica_grammar *g = find(r, request->grammar_hash);
        if (r->state != REPLICA_READY)
            continue;
        if (g && is_valid(s, g))
            return false;
        awaited = awaited || (g && g->asked) || r->grammar_turned_away;
    }
    return awaited;
}

void grammars_forget(struct replica *r) {
    r->grammars.count = 0;
    r->grammars_asked = 0;
    set_turned_away(r, false);
}

/* Parked sequences of this grammar go on. */
static void wake(struct sched *s, struct u128 hash) {
    LIST_EACH(at, &s->parked) {
        struct sequence *q = LIST_ITEM(at, struct sequence, link);
        const struct request *request = q->request;
        if (request->grammar_kind != WIRE_GRAMMAR_NONE && u128_equal(request->grammar_hash, hash) &&
            !q->group && seq_is_runnable(q))
            seq_requeue(s, q);
    }
}

bool grammars_wake_next(struct sched *s, struct replica *r) {
    struct sequence *next = NULL;
    struct askers askers;
    bool waits = false;
    askers_of(r, &askers);
    if (!r->grammar_turned_away || askers.count == GRAMMARS_ASKED_MAX || !r->free_slot_count)
        return false;
    LIST_EACH(at, &s->parked) {
        struct sequence *q = LIST_ITEM(at, struct sequence, link);
        const struct request *request = q->request;
        if (request->model != r->model || request->grammar_kind == WIRE_GRAMMAR_NONE || q->group ||
            !seq_is_runnable(q) || (next && !waiting_before(q, next)) || !replica_fits(r, q))
            continue;
        const struct replica_grammar *g = find(r, request->grammar_hash);
        if (g && g->asked)
            continue;
        if (may_ask(&askers, request))
            next = q;
        else
            waits = true; /* until its tenant has an answer */
    }
    if (next)
        seq_requeue(s, next);
    else if (!waits)
        set_turned_away(r, false);
    return next;
}

static struct replica *replica_of(struct sched *s, struct u128 instance) {
    const struct worker *worker = id_map_get(&s->worker_ids, instance);
    return worker && worker->replica && worker->replica->state == REPLICA_READY ? worker->replica
                                                                                : NULL;
}

void sched_resource_ready(struct sched *s, int64_t now, struct u128 from,
                          const struct wire_ready *ready) {
    sched_at(s, now);
    struct replica *r = replica_of(s, from);
    struct replica_grammar *g = r ? find(r, ready->hash) : NULL;
    if (!g || ready->resource != WIRE_RESOURCE_GRAMMAR)
        return;
    answered(r, g);
    g->ready = true;
    g->ready_at = s->now;
    wake(s, ready->hash);
}

void sched_resource_failed(struct sched *s, int64_t now, struct u128 from,
                           const struct wire_failed *failed) {
    sched_at(s, now);
    struct replica *r = replica_of(s, from);
    struct replica_grammar *g = r ? find(r, failed->hash) : NULL;
    if (!g || failed->resource != WIRE_RESOURCE_GRAMMAR)
        return;
    answered(r, g);
    *g = r->grammars.items[--r->grammars.count];
    LIST_EACH(at, &s->parked) {
        struct request *request = LIST_ITEM(at, struct sequence, link)->request;
        if (request->grammar_kind != WIRE_GRAMMAR_NONE &&
            u128_equal(request->grammar_hash, failed->hash))
            vec_push(&s->scratch, LIST_ITEM(at, struct sequence, link));
    }
    for (size_t i = 0; i < s->scratch.count; i++)
        request_reject(s, s->scratch.items[i]->request, WIRE_REJECT_UNSUPPORTED);
    s->scratch.count = 0;
}
