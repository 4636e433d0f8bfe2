#include "scheduler/core/sequence.h"

#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/sequence_blocks.h"
#include "scheduler/core/sequence_state.h"

/* ---- Tokens ---- */

const uint32_t *seq_tokens(const struct sequence *q) {
    return q->words.cap ? q->words.items : q->request->prompt.ids;
}

static void own_tokens(struct sched *s, struct sequence *q) {
    if (q->words.cap)
        return;
    word_pool_reserve(&s->word_pool, &q->words, 0, q->prompt_count + 1);
    memcpy(q->words.items, q->request->prompt.ids, q->prompt_count * sizeof(uint32_t));
}

static void note_token(struct sequence *q, uint32_t token) {
    q->request->token_end = MAX(q->request->token_end, (uint64_t)token + 1);
}

void seq_set_output(struct sched *s, struct sequence *q, struct tokens output,
                    float sampler_state) {
    own_tokens(s, q);
    word_pool_reserve(&s->word_pool, &q->words, q->prompt_count,
                      q->prompt_count + (uint32_t)output.count + 1);
    if (output.count)
        memcpy(q->words.items + q->prompt_count, output.ids, output.count * sizeof(uint32_t));
    for (size_t i = 0; i < output.count; i++)
        note_token(q, output.ids[i]);
    q->token_count = q->prompt_count + (uint32_t)output.count;
    q->tokens_hi = q->token_count;
    if (q->replica)
        seq_load_review(q);
    q->logprob_base = (uint32_t)output.count;
    q->first_state = sampler_state;
}

float seq_sampler_state(const struct sequence *q, uint32_t count) {
    float state = q->first_state;
    CHECK(count <= seq_output_count(q));
    if (q->request->sampling.steering && count > q->logprob_base)
        memcpy(&state, q->sampler_states.items + (count - 1 - q->logprob_base), sizeof state);
    return state;
}

void seq_add_sampler_state(struct sched *s, struct sequence *q, float state) {
    uint32_t at = seq_output_count(q) - q->logprob_base;
    if (!q->request->sampling.steering)
        return;
    word_pool_reserve(&s->word_pool, &q->sampler_states, at, at + 1);
    memcpy(q->sampler_states.items + at, &state, sizeof state);
}

void seq_append(struct sched *s, struct sequence *q, uint32_t token) {
    word_pool_reserve(&s->word_pool, &q->words, q->token_count, q->token_count + 1);
    q->words.items[q->token_count++] = token;
    seq_load_review(q);
    note_token(q, token);
}

/* ---- In a slot ---- */

uint32_t seq_load(const struct sequence *q) {
    if (q->slot == SLOT_NONE)
        return 0;
    return REPLICA_ROW_LOAD +
           (q->token_count > q->computed_hi ? q->token_count - q->computed_hi : 0);
}

void seq_load_review(struct sequence *q) {
    uint32_t load = seq_load(q);
    struct replica *r = q->replica;
    r->load = r->load - q->load + load;
    r->prompt_count -= q->load > REPLICA_ROW_LOAD + 1;
    r->prompt_count += load > REPLICA_ROW_LOAD + 1;
    q->load = load;
}

/* Tokens from here on are this replica's. */
static void use_fingerprint(struct sequence *q, struct u128 fingerprint) {
    if (u128_equal(q->fingerprint, fingerprint))
        return;
    if (seq_output_count(q) && !u128_is_zero(q->fingerprint)) {
        q->older_fingerprint = q->fingerprint;
        q->fingerprint_from = seq_output_count(q);
    }
    q->fingerprint = fingerprint;
}

static uint32_t ms_since(const struct sched *s, int64_t at) {
    return (uint32_t)MIN(s->now - at, (int64_t)UINT32_MAX);
}

void seq_place(struct sched *s, struct sequence *q, struct replica *r) {
    bool first = !q->started;
    seq_enter_slot(s, q, r);
    own_tokens(s, q);
    q->computed_lo = q->computed_hi = seq_begin_blocks(s, q, r);
    q->tokens_hi = q->recompute_until = q->token_count;
    seq_load_review(q);
    q->max_total = MIN(q->prompt_count + q->request->max_tokens, r->capacity);
    q->planned = 0;
    draft_init(&q->draft);
    q->request->unbound_until = NEVER;
    use_fingerprint(q, r->fingerprint);
    s->counts.cached_tokens += q->computed_lo;
    if (first) {
        q->cached_count = MIN(q->computed_lo, q->prompt_count);
        q->queued_ms = q->request->fresh ? 0 : ms_since(s, q->request->submitted_at);
        s->counts.prompt_tokens += q->prompt_count;
        if (!request_is_probe(q->request)) { /* what clients asked, as the gateway counts prompts */
            r->model->counts.prefix_queries += q->prompt_count;
            r->model->counts.prefix_hits += q->cached_count;
        }
    }
    seq_tell_progress(s, q);
}

void seq_row_planned(struct sequence *q, uint64_t plan, uint32_t token_count, bool samples) {
    q->computed_hi += token_count;
    seq_load_review(q);
    q->tokens_hi += samples;
    q->rows_in_flight++;
    q->planned = plan;
}
