#include "scheduler/core/admission.h"
#include "scheduler/core/block_share.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/sequence_blocks.h"
#include "scheduler/core/sequence_state.h"
#include "scheduler/core/snapshot.h"
#include "scheduler/core/step_share.h"
#include "scheduler/core/waiting.h"
#include "scheduler/core/worker.h"

#include <math.h>
#include <stdlib.h>

enum {
    CHUNK_LEAST = 32,  /* tokens of prompts for which a step is worth its time */
    BESIDE_LEAST = 16, /* the same, of a step that has other rows in any case */
    KEEP_LEAST_MS = 8, /* a step behind which the next plan is kept back, and */
    LEAD_DIVISOR = 4   /* the share of it that is left when it is sent */
};

struct step {
    struct replica *replica;
    struct flight *flight;
    uint32_t budget;    /* tokens left */
    uint32_t row_share; /* decode rows this plan may have */
    bool shared;        /* tenants have parts of it (step_share.h) */
    bool early;         /* nothing else is left to do: rows may follow their tokens closely */
};

/* ---- Room ---- */

/* Paused ones give way first, then the latest. */
static bool later(const struct sequence *a, const struct sequence *b) {
    const struct request *x = a->request, *y = b->request;
    if (x->paused != y->paused)
        return x->paused;
    if (x->arrival != y->arrival)
        return x->arrival > y->arrival;
    return a->choice > b->choice;
}

/* Of the same tenant, and both paused or neither: the lower priority gives way, then the later. */
static bool worse(const struct sequence *a, const struct sequence *b) {
    const struct request *x = a->request, *y = b->request;
    return x->tenant == y->tenant && x->paused == y->paused && seq_gives_way_before(a, b);
}

/* The tenant whose sequence came last gives way, by its least important one. It may be the one that
 * needs the room. */
static struct sequence *latest_victim(const struct replica *r, uint64_t number,
                                      struct sequence *needy) {
    struct sequence *victim = needy;
    for (uint32_t i = 0; i < r->running_count; i++)
        if (r->running[i]->planned != number && later(r->running[i], victim))
            victim = r->running[i];
    for (uint32_t i = 0; i < r->running_count; i++)
        if ((r->running[i]->planned != number || r->running[i] == needy) &&
            worse(r->running[i], victim))
            victim = r->running[i];
    return victim;
}

/* Of several tenants one that has more than its share gives way before who came last (block_share.h).
 * Its sequence may have a row in this plan already: then it leaves when that has retired. */
static struct sequence *choose_victim(const struct replica *r, uint64_t number,
                                      struct sequence *needy) {
    struct sequence *latest = latest_victim(r, number, needy);
    if (latest->request->paused || r->model->waiting.slotted < 2 || r->testing)
        return latest;
    uint32_t group = 0;
    while (group + 1 < r->group_count && r->pools[group].free_count)
        group++;
    struct sequence *victim = block_share_victim(r, block_share_count(r, group, NULL));
    return victim ? victim : latest;
}

/* Takes a sequence out to make room. One at a time: blocks of those that are leaving come back soon.
 * false: nothing has become free. */
static bool preempt_one(struct sched *s, struct replica *r, uint64_t number,
                        struct sequence *needy) {
    if (r->leaving_count)
        return false;
    struct sequence *victim = choose_victim(r, number, needy);
    seq_preempt(s, victim);
    return victim != needy && !seq_in_slot(victim);
}

static bool make_room(struct sched *s, struct step *step, struct sequence *q, uint32_t upto) {
    while (!seq_cover(s, q, upto))
        if (!preempt_one(s, step->replica, step->flight->number, q))
            return false;
    return true;
}

/* ---- Rows ---- */

static void add_new_blocks(struct plan_build *b, struct sequence *q, uint32_t row) {
    for (uint32_t group = 0; group < q->replica->group_count; group++) {
        struct block_table *table = &q->tables[group];
        for (; q->state != SEQ_PLACED && table->sent_count < table->count; table->sent_count++) {
            vec_push(&b->new_rows, row);
            vec_push(&b->new_groups, group);
            vec_push(&b->new_ids, table->ids.items[table->sent_count]);
        }
        table->sent_count = table->count;
    }
}

/* The last `draft_count` of the plan's drafts are the row's. */
static void add_row(struct sched *s, struct step *step, struct sequence *q, uint32_t token_count,
                    uint32_t draft_count) {
    struct flight *flight = step->flight;
    struct plan_build *b = &s->plan_build;
    uint32_t row = flight->row_count++;
    bool last = q->computed_hi + token_count == q->tokens_hi, embeds = request_embeds(q->request),
         samples = last && !embeds;
    flight->rows[row] = (struct flight_row){.sequence = q,
                                            .slot = q->slot,
                                            .token_count = token_count,
                                            .draft_count = draft_count,
                                            .snapshot = snapshot_take(s, q),
                                            .samples = samples,
                                            .embeds = last && embeds};
    flight->token_total += token_count + draft_count;
    flight->draft_total += draft_count;
    q->draft.in_flight = draft_count;
    vec_push(&b->row_slots, q->slot);
    vec_push(&b->row_token_counts, token_count);
    vec_push(&b->draft_counts, draft_count);
    add_new_blocks(b, q, row);
    if (q->state == SEQ_PLACED) {
        vec_push(&b->admitted, q);
        seq_admit(s, q);
    }
    seq_row_planned(q, flight->number, token_count, samples);
    uint32_t positions = token_count + draft_count;
    step->budget -= positions;
    q->request->tenant->served += quota_cost(q->request, positions);
    q->request->tenant->step_ms -=
        step->replica->cost.row_ms + step->replica->cost.token_ms * positions;
}

/* Is anything left of its tenant's part of the step? */
static bool has_share(const struct step *step, const struct sequence *q) {
    return !step->shared || q->request->tenant->step_ms > 0 || request_is_probe(q->request);
}

/* Whose last row is longest ago has one first. */
static int compare_turns(const void *a, const void *b) {
    const struct sequence *x = *(struct sequence *const *)a, *y = *(struct sequence *const *)b;
    if (x->planned != y->planned)
        return x->planned < y->planned ? -1 : 1;
    if (x->request->arrival != y->request->arrival)
        return x->request->arrival < y->request->arrival ? -1 : 1;
    return x->choice < y->choice ? -1 : x->choice > y->choice;
}

/*
 * Plans of a pipeline are its micro-batches: as many sequences in each as keep all stages equally
 * busy, and a sequence whose next token is still under way comes again only when its turn is due,
 * so that the first stage does not wait for the last.
 */
static bool is_due(const struct step *step, const struct sequence *q) {
    uint32_t stages = step->replica->stage_count;
    if (stages == 1 || q->tokens_hi == q->token_count)
        return true;
    return q->planned + stages <= step->flight->number || (step->early && q->rows_in_flight <= 1);
}

/* Drafts for a row of one token, as far as there is room that nobody has to give way for. */
static uint32_t add_drafts(struct sched *s, struct step *step, struct sequence *q) {
    struct plan_build *b = &s->plan_build;
    uint32_t had = (uint32_t)b->draft_tokens.count,
             most = MIN(step->replica->draft_max - had, step->budget - 1);
    if (!q->draft.due)
        return 0;
    vec_reserve(&b->draft_tokens, step->replica->draft_max);
    uint32_t count = draft_take(s, q, most, b->draft_tokens.items + had);
    if (count && !seq_cover(s, q, q->computed_hi + 1 + count))
        return 0;
    b->draft_tokens.count += count;
    return count;
}

/* One token each, beginning where the last step's budget ended. What has more to compute is
 * collected for chunks. */
static void add_decodes(struct sched *s, struct step *step) {
    struct replica *r = step->replica;
    uint32_t count = r->running_count, first = count ? r->cursor % count : 0;
    struct sequence **order = s->plan_build.order.items;
    for (uint32_t i = 0; i < count; i++)
        order[i] = r->running[(first + i) % count];
    r->cursor = 0;
    if (step->shared)
        qsort(order, count, sizeof *order, compare_turns);
    for (uint32_t i = 0; i < count; i++) {
        struct sequence *q = order[i];
        /* may have been preempted for one before it */
        if (q->replica != r || !step_may_run(r, q))
            continue;
        if (q->tokens_hi - q->computed_hi > 1) {
            q->overdue = admission_is_overdue(s, q);
            vec_push(&s->plan_build.prefills, q);
            continue;
        }
        if (!is_due(step, q) || !has_share(step, q) || q->draft.in_flight)
            continue;
        if (step->budget == 0 || step->flight->row_count == step->row_share) {
            if (r->cursor == 0)
                r->cursor = (first + i) % count;
            continue;
        }
        if (make_room(s, step, q, q->computed_hi + 1))
            add_row(s, step, q, 1, add_drafts(s, step, q));
    }
}

/* The tenant that has got least, its priorities, then what is overdue by arrival, then the least left to
 * compute: a short prompt does not wait behind a long one, but for one that has waited long. */
static bool chunk_before(const struct sequence *a, const struct sequence *b) {
    const struct request *x = a->request, *y = b->request;
    if (request_is_probe(x) != request_is_probe(y))
        return request_is_probe(x);
    if (x->tenant->served != y->tenant->served)
        return x->tenant->served < y->tenant->served;
    if (x->tenant != y->tenant)
        return x->tenant->idx < y->tenant->idx;
    if (x->priority != y->priority)
        return x->priority < y->priority;
    if (a->overdue != b->overdue)
        return a->overdue;
    uint32_t left_a = a->tokens_hi - a->computed_hi, left_b = b->tokens_hi - b->computed_hi;
    if (!a->overdue && left_a != left_b)
        return left_a < left_b;
    if (x->arrival != y->arrival)
        return x->arrival < y->arrival;
    return a->choice < b->choice;
}

static int compare_chunks(const void *a, const void *b) {
    const struct sequence *x = *(struct sequence *const *)a, *y = *(struct sequence *const *)b;
    return chunk_before(x, y) ? -1 : chunk_before(y, x);
}

static uint32_t chunk_of(const struct sched *s, const struct sequence *q, uint32_t most) {
    uint32_t left = q->tokens_hi - q->computed_hi;
    uint32_t bound = s->config.chunk_tokens ? s->config.chunk_tokens : UINT32_MAX;
    if (q->replica->vectors.whole_prompts)
        return left <= most ? left : 0;
    return MIN(MIN(left, snapshot_room(q)), MIN(bound, most));
}

/* What its tenant's part of the step has room for. Fewer tokens than CHUNK_LEAST are not worth a
 * row, and what cannot be cut comes whole. */
static uint32_t share_of(const struct step *step, const struct sequence *q) {
    double cost = step->replica->cost.token_ms, left = q->request->tenant->step_ms;
    if (!step->shared || step->replica->vectors.whole_prompts || left >= cost * step->budget)
        return step->budget;
    return MAX(left > 0 ? (uint32_t)(left / cost) : 0, (uint32_t)CHUNK_LEAST);
}

static void add_chunk(struct sched *s, struct step *step, struct sequence *q, uint32_t most) {
    if (q->replica != step->replica || seq_is_leaving(q) || q->planned == step->flight->number)
        return;
    uint32_t count = chunk_of(s, q, MIN(MIN(most, step->budget), share_of(step, q)));
    if (count && make_room(s, step, q, q->computed_hi + count))
        add_row(s, step, q, count, 0);
}

static struct sequence *oldest(struct sequence **items, size_t count) {
    struct sequence *best = items[0];
    for (size_t i = 1; i < count; i++)
        if (later(best, items[i]))
            best = items[i];
    return best;
}

/* A prompt passes a pipeline in pieces, so that its stages work at the same time. */
static uint32_t pipeline_chunk(const struct replica *r) {
    return MAX(r->max_step_tokens / r->stage_count, 32u);
}

double plan_step_target_ms(const struct sched *s, double rows_ms, uint32_t rows, uint32_t others) {
    double longest = s->config.itl_target_ms,
           wanted = rows_ms + rows_ms * MAX(2.0 * others / rows, 1);
    return s->config.itl_auto ? MIN(MAX(wanted, PLAN_STEP_LEAST_MS), longest) : longest;
}

uint32_t plan_chunk_tokens(const struct sched *s, const struct replica *r, uint32_t left,
                           uint32_t rows) {
    double cost = r->ms_per_prompt_token;
    if (r->vectors.whole_prompts)
        return left;
    if (r->stage_count > 1)
        return MIN(left, pipeline_chunk(r));
    if (!s->config.itl_target_ms || cost <= 0 || !rows)
        return left;
    uint32_t others = r->running_count > rows ? r->running_count - rows : 0;
    double rows_ms = step_cost_rows_ms(&r->cost, rows),
           target_ms = plan_step_target_ms(s, rows_ms, rows, others),
           ms = MAX(target_ms - rows_ms, rows_ms), most = MAX(ms / cost, (double)BESIDE_LEAST);
    return most < left ? (uint32_t)most : left;
}

/* Those that gave way to a decode row of this step are no longer here. */
static size_t drop_preempted(const struct replica *r, struct sequence **items, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (items[i]->replica == r && !seq_is_leaving(items[i]))
            items[kept++] = items[i];
    return kept;
}

/* The oldest is sure of a quarter (where prompts are not cut: of its all), so that short ones cannot
 * hold it up for ever; then in order. */
static void add_chunks(struct sched *s, struct step *step) {
    struct sequence **items = s->plan_build.prefills.items;
    size_t count = drop_preempted(step->replica, items, s->plan_build.prefills.count);
    step->budget = plan_chunk_tokens(s, step->replica, step->budget, step->flight->row_count);
    if (!count || !step->budget)
        return;
    struct sequence *first = oldest(items, count);
    uint32_t sure = step->replica->vectors.whole_prompts ? step->budget : (step->budget + 3) / 4;
    uint32_t kept = count > 1 ? chunk_of(s, first, sure) : 0;
    if (count > 1)
        qsort(items, count, sizeof *items, compare_chunks);
    step->budget -= kept;
    for (size_t i = 0; i < count && step->budget; i++)
        if (items[i] != first && has_share(step, items[i]))
            add_chunk(s, step, items[i], step->budget);
    step->budget += kept;
    add_chunk(s, step, first, step->budget);
    for (size_t i = 0; i < count && step->budget; i++)
        if (has_share(step, items[i]))
            add_chunk(s, step, items[i], step->budget);
}

/* ---- The message ---- */

static void build_admits(struct sched *s, const struct replica *r) {
    struct plan_build *b = &s->plan_build;
    size_t total = 0, at = 0;
    for (size_t i = 0; i < b->admitted.count; i++)
        for (uint32_t group = 0; group < r->group_count; group++)
            total += b->admitted.items[i]->tables[group].count;
    vec_reserve(&b->admit_groups, total);
    vec_reserve(&b->admit_ids, total);
    for (size_t i = 0; i < b->admitted.count; i++) {
        const struct sequence *q = b->admitted.items[i];
        const struct request *request = q->request;
        size_t first = at;
        for (uint32_t group = 0; group < r->group_count; group++)
            for (uint32_t k = 0; k < q->tables[group].count; k++, at++) {
                b->admit_groups.items[at] = group;
                b->admit_ids.items[at] = q->tables[group].ids.items[k];
            }
        struct wire_admit admit = {.slot = q->slot,
                                   .sequence = q->number,
                                   .request = request->id,
                                   .choice = q->choice,
                                   .tokens = {q->words.items, q->token_count},
                                   .prompt_count = q->prompt_count,
                                   .computed_count = q->computed_lo,
                                   .block_groups = {b->admit_groups.items + first, at - first},
                                   .block_ids = {b->admit_ids.items + first, at - first},
                                   .sampling = request->sampling,
                                   .stop_tokens = request->stop_tokens,
                                   .grammar = request->grammar_hash,
                                   .max_total = q->max_total,
                                   .kind = request->kind,
                                   .sampler_state = seq_sampler_state(q, seq_output_count(q))};
        vec_push(&b->admits, admit);
        snapshot_restore(s, b->admitted.items[i]);
    }
}

/* Seals whose block has meanwhile been taken for something else are left out. */
static void build_seals(struct sched *s, struct replica *r) {
    struct plan_build *b = &s->plan_build;
    for (size_t i = 0; i < r->sealed_ids.count; i++) {
        if (!u128_equal(block_pool_hash(&r->pools[0], r->sealed_ids.items[i]),
                        r->sealed_hashes.items[i]))
            continue;
        vec_push(&b->sealed_ids, r->sealed_ids.items[i]);
        vec_push(&b->sealed_hashes, r->sealed_hashes.items[i]);
    }
    r->sealed_ids.count = r->sealed_hashes.count = 0;
}

static void send_plan(struct sched *s, struct replica *r, const struct flight *flight) {
    struct plan_build *b = &s->plan_build;
    build_admits(s, r);
    build_seals(s, r);
    struct wire_plan plan = {
        .number = flight->number,
        .incarnation = r->ranks[0]->incarnation,
        .release_slots = {r->released_slots.items, r->released_slots.count},
        .admits = b->admits.items,
        .admit_count = b->admits.count,
        .op_kinds = {b->op_kinds.items, b->op_kinds.count},
        .op_groups = {b->op_groups.items, b->op_groups.count},
        .op_sources = {b->op_sources.items, b->op_sources.count},
        .op_targets = {b->op_targets.items, b->op_targets.count},
        .new_block_rows = {b->new_rows.items, b->new_rows.count},
        .new_block_groups = {b->new_groups.items, b->new_groups.count},
        .new_block_ids = {b->new_ids.items, b->new_ids.count},
        .row_slots = {b->row_slots.items, b->row_slots.count},
        .row_token_counts = {b->row_token_counts.items, b->row_token_counts.count},
        .draft_counts = {b->draft_counts.items, flight->draft_total ? b->draft_counts.count : 0},
        .draft_tokens = {b->draft_tokens.items, b->draft_tokens.count},
        .sealed_ids = {b->sealed_ids.items, b->sealed_ids.count},
        .sealed_hashes = {b->sealed_hashes.items, b->sealed_hashes.count},
    };
    const struct rank_capabilities *first = &r->ranks[0]->capabilities;
    if (flight->number == 1 && r->rank_count > 1)
        plan.comm_id = bytes_of(first->comm_id, first->comm_id_len);
    s->sink.plan(s->sink.ctx, (struct u128s){r->rank_ids, r->rank_count}, &plan);
    r->released_slots.count = 0;
}

static void reset(struct plan_build *b) {
    b->admits.count = b->row_slots.count = b->row_token_counts.count = b->draft_counts.count =
        b->draft_tokens.count = b->new_rows.count = b->new_groups.count = 0;
    b->op_kinds.count = b->op_groups.count = b->op_sources.count = b->op_targets.count = 0;
    b->new_ids.count = b->sealed_ids.count = b->sealed_hashes.count = b->prefills.count =
        b->admitted.count = 0;
}

uint32_t plan_step_tokens(const struct sched *s, const struct replica *r) {
    bool narrow = s->config.step_tokens && !r->vectors.whole_prompts;
    return narrow ? MIN(s->config.step_tokens, r->max_step_tokens) : r->max_step_tokens;
}

/* false: nothing to compute. */
static bool plan_one(struct sched *s, struct replica *r) {
    struct flight *flight = &r->flights[(r->flight_first + r->flight_count) % r->steps_in_flight];
    uint32_t budget = plan_step_tokens(s, r);
    flight->number = r->plan_number + 1;
    flight->row_count = flight->token_total = flight->draft_total = 0;
    flight->sent_at = s->now;
    vec_reserve(&s->plan_build.order, r->slot_count);
    for (int early = 0; early < 2 && flight->row_count == 0; early++) {
        struct step step = {.replica = r, .flight = flight, .budget = budget, .early = early};
        step.shared = step_share(s, r);
        step.row_share = (r->running_count + r->stage_count - 1) / r->stage_count;
        reset(&s->plan_build);
        add_decodes(s, &step);
        add_chunks(s, &step);
        if (r->stage_count == 1)
            break;
    }
    if (flight->row_count == 0)
        return false;
    flight->expected_ms = step_cost_ms(&r->cost, flight->row_count, flight->token_total);
    r->plan_number++;
    r->flight_count++;
    s->counts.steps++;
    r->model->counts.steps++;
    send_plan(s, r, flight);
    return true;
}

/* Until when the next plan is kept back. The stages of a pipeline are to be busy all the time. */
static int64_t kept_until(const struct sched *s, const struct replica *r) {
    if (!r->flight_count || r->stage_count > 1)
        return s->now;
    if (draft_holds(s, r))
        return NEVER;
    uint32_t last = (r->flight_first + r->flight_count - 1) % r->steps_in_flight;
    double ms = r->flights[last].expected_ms;
    if (llround(ms) < KEEP_LEAST_MS)
        return s->now;
    return replica_free_at(s, r) - llround(ms / LEAD_DIVISOR);
}

void plan_all(struct sched *s) {
    s->plan_at = NEVER;
    LIST_EACH(at, &s->to_plan) {
        struct replica *r = LIST_ITEM(at, struct replica, plan_link);
        int64_t until = s->now;
        while (replica_takes_plan(r) && (until = kept_until(s, r)) <= s->now)
            if (!plan_one(s, r))
                break;
        if (!replica_takes_plan(r))
            list_remove(&r->plan_link);
        else if (until > s->now)
            s->plan_at = MIN(s->plan_at, until);
    }
}

int64_t plan_next(const struct sched *s) {
    return s->plan_at;
}

void plan_release(struct sched *s) {
    struct plan_build *b = &s->plan_build;
    vec_release(&b->admits);
    vec_release(&b->row_slots);
    vec_release(&b->op_kinds);
    vec_release(&b->op_groups);
    vec_release(&b->op_sources);
    vec_release(&b->op_targets);
    vec_release(&b->row_token_counts);
    vec_release(&b->draft_counts);
    vec_release(&b->draft_tokens);
    vec_release(&b->new_rows);
    vec_release(&b->new_groups);
    vec_release(&b->new_ids);
    vec_release(&b->sealed_ids);
    vec_release(&b->admit_groups);
    vec_release(&b->admit_ids);
    vec_release(&b->sealed_hashes);
    vec_release(&b->prefills);
    vec_release(&b->order);
    vec_release(&b->sharers);
    vec_release(&b->admitted);
}
