#include "scheduler/core/sequence_state.h"

#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/models.h"
#include "scheduler/core/place.h"
#include "scheduler/core/sequence_blocks.h"

#define BIT(state) (1u << (state))

bool seq_is_resumed(const struct sequence *q) {
    return q->started || q->request->resumed;
}

bool seq_is_runnable(const struct sequence *q) {
    const struct request *request = q->request;
    if (!request->model || !request->validated || request->paused)
        return false;
    return !request->gateway || !request->gateway->silent || request->resumable;
}

bool seq_gives_way_before(const struct sequence *a, const struct sequence *b) {
    const struct request *x = a->request, *y = b->request;
    if (x->priority != y->priority)
        return x->priority > y->priority;
    return x->arrival != y->arrival ? x->arrival > y->arrival : a->choice > b->choice;
}

/* ---- What being in a state means ---- */

static void count_waiting(struct sched *s, const struct sequence *q, int32_t by) {
    if (seq_is_resumed(q)) {
        s->waiting_resumed += (uint32_t)by;
        return;
    }
    s->waiting_new += (uint32_t)by;
    *model_waiting_new(s, q->request->model) += (uint32_t)by;
    if (q->request->tenant)
        q->request->tenant->new_count += (uint32_t)by;
}

static void enter_held(struct sched *s, struct sequence *q) {
    q->request->held_count++;
    count_waiting(s, q, 1);
}
static void leave_held(struct sched *s, struct sequence *q, enum seq_state to) {
    q->request->held_count--;
    count_waiting(s, q, -1);
}

static uint32_t recompute_cost(struct sched *s, struct sequence *q) {
    uint32_t cached = 0;
    struct model *model = q->request->model;
    for (size_t i = 0; i < model->replicas.count; i++) {
        struct replica *r = model->replicas.items[i];
        uint32_t found = r->state == REPLICA_READY ? prefix_find(s, q, r) : 0;
        cached = MAX(cached, found);
    }
    return q->token_count - cached;
}

static void enter_queue(struct sched *s, struct sequence *q) {
    if (seq_is_resumed(q))
        q->recompute_cost = recompute_cost(s, q);
    waiting_add(&q->request->model->waiting, q);
    admission_queued(s, q);
    count_waiting(s, q, 1);
}
static void leave_queue(struct sched *s, struct sequence *q, enum seq_state to) {
    waiting_remove(&q->request->model->waiting, q);
    count_waiting(s, q, -1);
}

static void enter_parked(struct sched *s, struct sequence *q) {
    list_push(&s->parked, &q->link);
    count_waiting(s, q, 1);
}
static void leave_parked(struct sched *s, struct sequence *q, enum seq_state to) {
    list_remove(&q->link);
    count_waiting(s, q, -1);
}

static void enter_slot(struct sched *s, struct sequence *q) {
    struct replica *r = q->replica;
    q->slot = r->free_slots[--r->free_slot_count];
    r->slots[q->slot] = q;
    q->run_idx = r->running_count;
    r->running[r->running_count++] = q;
    replica_to_plan(s, r);
    if (q->request->tenant->slot_count++ == 0) {
        r->slot_kept_until = MIN(r->slot_kept_until, s->now); /* it was kept for this one */
        r->model->waiting.slotted++;
    }
    q->recomputing = seq_is_resumed(q);
    r->resume_count += q->recomputing;
    q->started = true;
    q->placed_at = s->now;
    admission_enter(r->model, q);
    s->running++;
    seq_load_review(q);
}
static void leave_slot(struct sched *s, struct sequence *q, enum seq_state to) {
    struct replica *r = q->replica;
    r->leaving_count -= seq_is_leaving(q);
    if (to >= SEQ_PLACED && to <= SEQ_ENDING)
        return; /* into another state of a slot */
    CHECK(q->rows_in_flight == 0);
    seq_release_blocks(s, q);
    struct sequence *last = r->running[--r->running_count];
    r->running[q->run_idx] = last;
    bool was_only = --q->request->tenant->slot_count == 0;
    r->model->waiting.slotted -= was_only;
    /* a request after the other: the next one of this tenant finds a slot (place.c) */
    if (was_only && to == SEQ_DONE && r->running_count && !request_is_probe(q->request))
        s->slots_kept_until = r->slot_kept_until = s->now + s->config.share_linger_ms;
    last->run_idx = q->run_idx;
    r->slots[q->slot] = NULL;
    r->free_slots[r->free_slot_count++] = q->slot;
    if (q->state != SEQ_PLACED)
        vec_push(&r->released_slots, q->slot);
    r->resume_count -= q->recomputing;
    s->running--;
    s->counts.preemptions += to != SEQ_DONE;
    r->model->counts.preemptions += to != SEQ_DONE;
    admission_leave(r->model, q, s->now, to == SEQ_DONE);
    q->slot = SLOT_NONE;
    seq_load_review(q);
    q->replica = NULL;
    q->recomputing = false;
    q->computed_lo = q->computed_hi = 0;
    q->tokens_hi = q->token_count;
}
static void enter_leaving(struct sched *s, struct sequence *q) {
    CHECK(q->rows_in_flight);
    q->replica->leaving_count++;
}

static const struct {
    const char *name;
    unsigned next; /* states that may follow */
    void (*enter)(struct sched *s, struct sequence *q);
    void (*leave)(struct sched *s, struct sequence *q, enum seq_state to);
} states[SEQ_STATE_COUNT] = {
    [SEQ_NEW] = {"new", BIT(SEQ_HELD) | BIT(SEQ_QUEUED) | BIT(SEQ_PARKED) | BIT(SEQ_DONE), NULL,
                 NULL},
    [SEQ_HELD] = {"held", BIT(SEQ_QUEUED) | BIT(SEQ_PARKED) | BIT(SEQ_DONE), enter_held,
                  leave_held},
    [SEQ_QUEUED] = {"queued", BIT(SEQ_QUEUED) | BIT(SEQ_PARKED) | BIT(SEQ_PLACED) | BIT(SEQ_DONE),
                    enter_queue, leave_queue},
    [SEQ_PARKED] = {"parked", BIT(SEQ_QUEUED) | BIT(SEQ_PARKED) | BIT(SEQ_PLACED) | BIT(SEQ_DONE),
                    enter_parked, leave_parked},
    [SEQ_PLACED] = {"placed", BIT(SEQ_RUNNING) | BIT(SEQ_QUEUED) | BIT(SEQ_PARKED) | BIT(SEQ_DONE),
                    enter_slot, leave_slot},
    [SEQ_RUNNING] = {"running",
                     BIT(SEQ_PREEMPTED) | BIT(SEQ_RESTARTING) | BIT(SEQ_ENDING) | BIT(SEQ_QUEUED) |
                         BIT(SEQ_PARKED) | BIT(SEQ_DONE),
                     NULL, leave_slot},
    [SEQ_PREEMPTED] = {"preempted",
                       BIT(SEQ_RESTARTING) | BIT(SEQ_ENDING) | BIT(SEQ_QUEUED) | BIT(SEQ_PARKED) |
                           BIT(SEQ_DONE),
                       enter_leaving, leave_slot},
    [SEQ_RESTARTING] = {"restarting", BIT(SEQ_ENDING) | BIT(SEQ_QUEUED) | BIT(SEQ_PARKED),
                        enter_leaving, leave_slot},
    [SEQ_ENDING] = {"ending", BIT(SEQ_RESTARTING) | BIT(SEQ_DONE), enter_leaving, leave_slot},
    [SEQ_DONE] = {"done", BIT(SEQ_QUEUED) | BIT(SEQ_PARKED), NULL, NULL},
};

unsigned seq_state_moves(enum seq_state state) {
    return states[state].next;
}

const char *seq_state_name(enum seq_state state) {
    return states[state].name;
}

/* The only function that moves a sequence. */
static void seq_move(struct sched *s, struct sequence *q, enum seq_state to) {
    enum seq_state from = q->state;
    CHECK_MSG(states[from].next & BIT(to), "sequence goes from %s to %s", states[from].name,
              states[to].name);
    CHECK((q->finish != WIRE_FINISH_NONE) == (to >= SEQ_ENDING));
    if (states[from].leave)
        states[from].leave(s, q, to);
    q->request->open_count += from >= SEQ_ENDING;
    q->request->open_count -= to >= SEQ_ENDING;
    q->state = (uint8_t)to;
    if (states[to].enter)
        states[to].enter(s, q);
    s->moves_seen[from] |= BIT(to);
}

/* ---- Waiting ---- */

static enum seq_state where_it_waits(const struct sequence *q) {
    return q->group || !seq_is_runnable(q) ? SEQ_PARKED : SEQ_QUEUED;
}

void seq_hold(struct sched *s, struct sequence *q) {
    seq_move(s, q, SEQ_HELD);
}

void seq_enqueue(struct sched *s, struct sequence *q) {
    CHECK(q->state == SEQ_NEW || q->state == SEQ_HELD);
    seq_move(s, q, where_it_waits(q));
}

void seq_requeue(struct sched *s, struct sequence *q) {
    if (q->state == SEQ_QUEUED || q->state == SEQ_PARKED)
        seq_move(s, q, where_it_waits(q));
}

void seq_park(struct sched *s, struct sequence *q) {
    CHECK(q->state == SEQ_QUEUED);
    seq_move(s, q, SEQ_PARKED);
}

void parked_review(struct sched *s) {
    LIST_EACH(at, &s->parked) {
        struct sequence *q = LIST_ITEM(at, struct sequence, link);
        if (!q->group && seq_is_runnable(q))
            seq_requeue(s, q);
    }
}

void siblings_release(struct sched *s, struct request *request) {
    for (uint32_t i = 0; i < request->sequence_count && request->held_count; i++)
        if (request->sequences[i].state == SEQ_HELD)
            seq_enqueue(s, &request->sequences[i]);
}

/* ---- In a slot ---- */

void seq_enter_slot(struct sched *s, struct sequence *q, struct replica *r) {
    CHECK(!q->replica && r->free_slot_count);
    q->replica = r;
    seq_move(s, q, SEQ_PLACED);
}

void seq_admit(struct sched *s, struct sequence *q) {
    seq_move(s, q, SEQ_RUNNING);
}

void seq_resumed(struct sequence *q) {
    CHECK(q->recomputing && seq_in_slot(q));
    q->recomputing = false;
    q->replica->resume_count--;
}

/* ---- Out of it ---- */

/* By this leaving state, or past it at once when no row is in flight. */
static void leave_by(struct sched *s, struct sequence *q, enum seq_state leaving) {
    if (q->rows_in_flight == 0)
        seq_move(s, q, leaving == SEQ_ENDING ? SEQ_DONE : where_it_waits(q));
    else if (q->state != leaving)
        seq_move(s, q, leaving);
}

void seq_preempt(struct sched *s, struct sequence *q) {
    CHECK(seq_in_slot(q));
    leave_by(s, q, seq_is_leaving(q) ? q->state : SEQ_PREEMPTED);
}

void seq_row_retired(struct sched *s, struct sequence *q) {
    if (seq_is_leaving(q))
        leave_by(s, q, q->state);
}

void seq_restart(struct sched *s, struct sequence *q, struct tokens output, float sampler_state) {
    q->finish = WIRE_FINISH_NONE;
    if (q->request->open_count == 0)
        request_reopen(s, q->request);
    seq_set_output(s, q, output, sampler_state);
    if (seq_in_slot(q)) {
        leave_by(s, q, SEQ_RESTARTING);
        return;
    }
    q->started = q->started || q->state == SEQ_DONE; /* no new work, wherever it ran before */
    seq_move(s, q, where_it_waits(q));
}

void seq_finish(struct sched *s, struct sequence *q, enum wire_finish finish, bool quiet) {
    struct request *request = q->request;
    q->quiet = q->quiet || quiet;
    if (seq_is_over(q))
        return;
    q->finish = (uint8_t)finish;
    s->counts.finished[finish]++;
    suspect_clear(s, q);
    if (seq_in_slot(q))
        leave_by(s, q, SEQ_ENDING);
    else
        seq_move(s, q, SEQ_DONE);
    siblings_release(s, request);
    if (!q->quiet)
        seq_dirty(s, q);
    if (request->open_count == 0)
        request_finished(s, request);
}

void seq_finished_before(struct sched *s, struct sequence *q, enum wire_finish finish) {
    CHECK(q->state == SEQ_NEW || (q->state == SEQ_DONE && q->quiet));
    q->finish = (uint8_t)finish;
    q->quiet = true;
    if (q->state == SEQ_NEW)
        seq_move(s, q, SEQ_DONE);
}
