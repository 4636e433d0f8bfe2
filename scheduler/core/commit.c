/* A step's result: checked whole against the plan it answers, then committed row by row. */
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/sequence_blocks.h"
#include "scheduler/core/sequence_state.h"
#include "scheduler/core/snapshot.h"
#include "scheduler/core/worker.h"

/* Entries of log-probabilities are consumed along with tokens; values of vectors row by row. */
struct cursor {
    size_t token, entry, value;
};

static size_t entries_of(const struct wire_logprobs *logprobs, size_t token) {
    if (token >= logprobs->tops.count || logprobs->tops.items[token] == WIRE_NO_LOGPROBS)
        return 0;
    return (size_t)logprobs->tops.items[token] + 1;
}

/* Do results of its rows in flight count no more? */
static bool is_void(const struct sequence *q) {
    return seq_is_over(q) || q->state == SEQ_RESTARTING;
}

/* The sequence has ended without a token. */
static bool is_failure(uint32_t finish) {
    return finish == WIRE_FINISH_ERROR || finish == WIRE_FINISH_CONSTRAINT;
}

static bool tokens_are_valid(const struct sequence *q, const struct wire_step_result *result,
                             size_t first, uint32_t count) {
    uint32_t stride = logprob_stride(q->request);
    for (size_t token = first; token < first + count; token++)
        if (result->tokens.ids[token] >= q->replica->logits_width ||
            (stride && entries_of(&result->logprobs, token) > (stride - 1) / 2))
            return false;
    return true;
}

static bool row_is_valid(const struct flight_row *row, const struct wire_step_result *result,
                         size_t at, size_t token) {
    const struct sequence *q = row->sequence;
    uint32_t count = result->token_counts.items[at], finish = result->finishes.items[at];
    if (result->slots.items[at] != row->slot || count > 1 + row->draft_count ||
        count > result->tokens.count - token)
        return false;
    if (is_void(q))
        return true;
    if (finish > WIRE_FINISH_CONSTRAINT || finish == WIRE_FINISH_CANCELLED ||
        finish == WIRE_FINISH_DEADLINE)
        return false;
    if (is_failure(finish))
        return count <= row->draft_count && tokens_are_valid(q, result, token, count);
    if (row->embeds)
        return count == 0 && finish == WIRE_FINISH_STOP &&
               result->vector_width == q->replica->vectors.width;
    if ((count != 0) != row->samples || (finish && !count))
        return false;
    return tokens_are_valid(q, result, token, count);
}

/* Values that come with a row. */
static size_t values_of(const struct flight_row *row, const struct wire_step_result *result,
                        size_t at) {
    bool any = row->embeds && result->finishes.items[at] == WIRE_FINISH_STOP;
    return any ? result->vector_width : 0;
}

static bool result_is_valid(const struct flight *flight, const struct wire_step_result *result) {
    size_t rows = flight->row_count;
    const struct wire_logprobs *logprobs = &result->logprobs;
    if (result->slots.count != rows || result->token_counts.count != rows ||
        result->finishes.count != rows)
        return false;
    if (logprobs->tops.count && logprobs->tops.count != result->tokens.count)
        return false;
    if (result->sampler_states.count && result->sampler_states.count != result->tokens.count)
        return false;
    struct cursor at = {0};
    for (size_t i = 0; i < rows; i++) {
        if (!row_is_valid(&flight->rows[i], result, i, at.token))
            return false;
        for (uint32_t k = 0; k < result->token_counts.items[i]; k++)
            at.entry += entries_of(logprobs, at.token++);
        at.value += values_of(&flight->rows[i], result, i);
    }
    return at.token == result->tokens.count && at.value == result->vectors.count &&
           (!logprobs->tops.count || at.entry <= MIN(logprobs->ids.count, logprobs->values.count));
}

static void commit_token(struct sched *s, struct sequence *q, const struct wire_step_result *result,
                         const struct cursor *at) {
    logprobs_append(s, q, &result->logprobs, at->token, at->entry);
    const struct f32s *states = &result->sampler_states;
    seq_add_sampler_state(s, q, states->count ? states->items[at->token] : 0);
    seq_append(s, q, result->tokens.ids[at->token]);
}

/* The first one was to come; each more is an accepted draft, computed with it. */
static void commit_tokens(struct sched *s, struct sequence *q,
                          const struct wire_step_result *result, struct cursor at, uint32_t count) {
    q->computed_lo += count - 1;
    q->computed_hi += count - 1;
    q->tokens_hi += count - 1;
    for (uint32_t k = 0; k < count; k++) {
        commit_token(s, q, result, &at);
        at.entry += entries_of(&result->logprobs, at.token++);
    }
    if (u128_is_zero(q->request->revision))
        q->request->revision = q->replica->revision;
    s->counts.output_tokens += count;
    q->replica->model->counts.output_tokens += count;
    quota_charge(s, q->request, count);
    seq_dirty(s, q);
}

static void commit_vector(struct sched *s, struct sequence *q, const float *values,
                          uint32_t width) {
    word_pool_reserve(&s->word_pool, &q->vector, 0, width);
    memcpy(q->vector.items, values, width * sizeof *values);
    q->vector_width = width;
}

static void commit_row(struct sched *s, const struct flight_row *row,
                       const struct wire_step_result *result, size_t i, const struct cursor *at) {
    struct sequence *q = row->sequence;
    uint32_t finish = result->finishes.items[i];
    q->rows_in_flight--;
    snapshot_finish_ops(s, row, !is_void(q) && !is_failure(finish));
    if (is_void(q)) {
        draft_drop(q);
        s->counts.wasted_rows++;
        return;
    }
    q->computed_lo += row->token_count;
    s->counts.computed_tokens += row->token_count + row->draft_count;
    q->replica->model->counts.step_tokens += row->token_count + row->draft_count;
    uint32_t count = result->token_counts.items[i];
    if (count)
        commit_tokens(s, q, result, *at, count);
    if (values_of(row, result, i))
        commit_vector(s, q, result->vectors.items + at->value, result->vector_width);
    if (q->recomputing && q->computed_lo + 1 >= q->recompute_until)
        seq_resumed(q);
    seq_seal(s, q);
    if (q->request->held_count && seq_shares_prompt(q))
        siblings_release(s, q->request);
    if (q->deaths)
        suspect_review(s, q);
    if (!finish && row->samples && q->token_count >= q->max_total)
        finish = WIRE_FINISH_LENGTH;
    if (count)
        draft_review(s, q, count);
    else
        seq_tell_progress(s, q);
    if (finish)
        seq_finish(s, q, finish, false);
}

/* What tokens of prompts added to a step, beyond its rows of one token. A few add nothing where the
 * weights have to be read anyway, so they tell nothing. */
static void observe_prompts(struct replica *r, const struct flight *flight, double step_ms) {
    enum { TOKENS_LEAST = 32 };
    uint32_t rows = 0;
    for (uint32_t i = 0; i < flight->row_count; i++)
        rows += flight->rows[i].token_count == 1;
    uint32_t tokens = flight->token_total - rows;
    if (tokens < TOKENS_LEAST)
        return;
    double ms = MAX(step_ms - step_cost_rows_ms(&r->cost, rows), 0.0) / tokens;
    if (r->ms_per_prompt_token == 0)
        r->ms_per_prompt_token = ms;
    r->ms_per_prompt_token += (ms - r->ms_per_prompt_token) * 0.2;
}

/* What was seen of the step in which a position was cheapest is forgotten so: by half in 3500 steps
 * with prompts. */
static const double DEARER = 1.0002;

static void observe_speed(struct replica *r, const struct flight *flight, uint64_t compute_us) {
    if (!flight->token_total)
        return;
    double step_ms = (double)MIN(compute_us, 3600u * 1000000u) / 1000.0,
           ms = step_ms / flight->token_total;
    if (r->ms_per_step == 0)
        r->ms_per_step = step_ms;
    r->ms_per_step += (step_ms - r->ms_per_step) * 0.1;
    r->ms_per_token = MAX(ms, r->ms_per_token * 0.99);
    if (r->cost.begun && !flight->draft_total) /* the first reads weights from the disk */
        observe_prompts(r, flight, step_ms);
    step_cost_observe(&r->cost, flight->row_count, flight->token_total, step_ms);
    if (flight->token_total - flight->draft_total - flight->row_count >= 32)
        r->ms_per_position = r->ms_per_position > 0 ? MIN(ms, r->ms_per_position * DEARER) : ms;
}

static const double MOST_ROW_POSITIONS = 1e6; /* though prompts seem to take no time */

/* The bucket of a step of so many positions. */
static uint32_t step_bucket(uint64_t positions) {
    uint32_t k = 0;
    while (k < WIRE_STEP_BUCKETS - 1 && positions > UINT64_C(1) << k)
        k++;
    return k;
}

static void commit(struct sched *s, struct replica *r, const struct flight *flight,
                   const struct wire_step_result *result) {
    struct cursor at = {0};
    struct model_counts *counts = &r->model->counts;
    uint64_t before = counts->step_tokens;
    r->flight_first = (r->flight_first + 1) % r->steps_in_flight;
    r->flight_count--;
    r->answered_at = s->now;
    replica_to_plan(s, r);
    for (uint32_t i = 0; i < flight->row_count; i++) {
        const struct flight_row *row = &flight->rows[i];
        struct sequence *q = row->sequence;
        commit_row(s, row, result, i, &at);
        for (uint32_t k = 0; k < result->token_counts.items[i]; k++)
            at.entry += entries_of(&result->logprobs, at.token++);
        at.value += values_of(row, result, i);
        if (q->rows_in_flight == 0)
            seq_row_retired(s, q);
    }
    counts->step_buckets[step_bucket(counts->step_tokens - before)].steps++;
    counts->compute_us += result->compute_us;
    observe_speed(r, flight, result->compute_us);
    if (r->ms_per_position > 0)
        r->row_positions = MIN(r->cost.extra_row_ms / r->ms_per_position, MOST_ROW_POSITIONS);
}

/* Rank 0 of the last stage. */
static uint32_t result_rank(const struct replica *r) {
    return (r->stage_count - 1) * (r->rank_count / r->stage_count);
}

int sched_step_result(struct sched *s, int64_t now, struct u128 instance,
                      const struct wire_step_result *result) {
    sched_at(s, now);
    struct worker *worker = id_map_get(&s->worker_ids, instance);
    struct replica *r = worker ? worker->replica : NULL;
    bool current = r && r->state == REPLICA_READY && r->flight_count &&
                   worker->rank == result_rank(r) &&
                   (!result->incarnation || result->incarnation == r->ranks[0]->incarnation);
    const struct flight *flight = current ? &r->flights[r->flight_first] : NULL;
    if (!current || result->plan_number < flight->number) {
        s->counts.stale_messages++;
        return 0;
    }
    if (result->plan_number != flight->number || !result_is_valid(flight, result)) {
        replica_out_of_step(s, r);
        return ERR_INVALID;
    }
    commit(s, r, flight, result);
    return 0;
}
