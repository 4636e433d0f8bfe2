/*
 * codec_check.c - what one field alone does not show: for each message, how its fields must fit
 * each other.
 *
 * The rows of codec_tables.c have checked every field for itself before these run.
 */
#include <math.h>

#include "proto/codec_tables.h"

static int bad(struct error *err, const char *message, const char *what) {
    return error_set(err, ERR_INVALID, "message '%s': %s", message, what);
}

static bool all_below(struct u32s column, uint32_t bound) {
    for (size_t i = 0; i < column.count; i++)
        if (column.items[i] >= bound)
            return false;
    return true;
}

static bool all_within(struct u32s column, uint32_t min, uint32_t max) {
    for (size_t i = 0; i < column.count; i++)
        if (column.items[i] < min || column.items[i] > max)
            return false;
    return true;
}

static bool sums_to(struct u32s column, uint64_t want) {
    uint64_t sum = 0;
    for (size_t i = 0; i < column.count; i++)
        sum += column.items[i];
    return sum == want;
}

static bool all_finite(struct f32s column) {
    for (size_t i = 0; i < column.count; i++)
        if (!isfinite(column.items[i]))
            return false;
    return true;
}

/* Takes numbers below WIRE_MAX_SLOTS, each once. */
struct number_set {
    uint64_t bits[WIRE_MAX_SLOTS / 64];
};

static bool set_take(struct number_set *set, uint32_t n) {
    uint64_t bit = UINT64_C(1) << (n % 64);
    if (set->bits[n / 64] & bit)
        return false;
    set->bits[n / 64] |= bit;
    return true;
}

static bool all_unique(struct u32s column) {
    struct number_set set = {0};
    for (size_t i = 0; i < column.count; i++)
        if (!set_take(&set, column.items[i]))
            return false;
    return true;
}

/* ---- Hello, Welcome ---- */

int check_kv_group(const void *message, struct error *err) {
    const struct wire_kv_group *g = message;
    if ((g->kind == WIRE_GROUP_WINDOW) != (g->window_tokens > 0))
        return bad(err, "kv_group", "a window group, and no other, has a window");
    return 0;
}

int check_vectors(const void *message, struct error *err) {
    const struct wire_vectors *v = message;
    if ((v->pooling != WIRE_POOLING_NONE) != (v->width > 0))
        return bad(err, "vectors", "vectors have a pooling and a width, or neither");
    if (v->bare && v->softmax)
        return bad(err, "vectors", "scores are bare or shares of one, not both");
    return v->pooling || (!v->whole_prompts && !v->only && !v->scores && !v->bare && !v->softmax)
               ? 0
               : bad(err, "vectors", "what is told of vectors needs a pooling");
}

static int check_worker_hello(const struct wire_hello *h, struct error *err) {
    if (!h->state)
        return bad(err, "hello", "a worker has a state");
    if (!h->incarnation)
        return bad(err, "hello", "incarnations begin at 1");
    if (h->rank >= h->tp || h->stage >= h->pp)
        return bad(err, "hello", "rank and stage lie below tp and pp");
    if (h->held_blocks.count != h->held_hashes.count)
        return bad(err, "hello", "held blocks and hashes differ in number");
    if (h->state == WIRE_STATE_LOADING)
        return 0;
    if (!h->slot_count || !h->max_step_tokens || !h->max_context || !h->logits_width ||
        !h->steps_in_flight || !h->group_count)
        return bad(err, "hello",
                   "a worker that is ready has slots, step tokens, context, logits, steps in "
                   "flight and groups");
    if (!all_below(h->held_blocks, h->groups[0].block_count))
        return bad(err, "hello", "a held block is not of group 0");
    return 0;
}

int check_hello(const void *message, struct error *err) {
    const struct wire_hello *h = message;
    if (u128_is_zero(h->instance))
        return bad(err, "hello", "a peer has an instance");
    return h->role == WIRE_ROLE_WORKER ? check_worker_hello(h, err) : 0;
}

int check_welcome(const void *message, struct error *err) {
    const struct wire_welcome *w = message;
    return w->silence_ms > w->heartbeat_ms
               ? 0
               : bad(err, "welcome", "silence is longer than a heartbeat");
}

int check_bundle_chunk(const void *message, struct error *err) {
    const struct wire_bundle_chunk *c = message;
    if (c->offset > c->total || c->data.len > c->total - c->offset)
        return bad(err, "bundle_chunk", "data goes past the total");
    return 0;
}

/* ---- Submit and what follows a request ---- */

/* Each step at most once. */
static bool order_is_valid(uint64_t order) {
    for (uint32_t seen = 0; order; order >>= 4) {
        uint32_t step = (uint32_t)(order & 15), bit = 1u << step;
        if (step < WIRE_SAMPLE_PENALTIES || step > WIRE_SAMPLE_XTC || seen & bit)
            return false;
        seen |= bit;
    }
    return true;
}

static int check_rules(const struct wire_sampling *s, struct error *err) {
    const float shares[] = {s->typical_p, s->xtc_probability, s->xtc_threshold};
    for (size_t i = 0; i < ARRAY_LEN(shares); i++)
        if (!(shares[i] >= 0 && shares[i] <= 1))
            return bad(err, "sampling", "typical_p or xtc is not in [0, 1]");
    if (s->temperature_range < 0 || s->dry_multiplier < 0 || s->dry_base < 0)
        return bad(err, "sampling", "a range, multiplier or base is negative");
    if (s->steering == WIRE_STEERING_ADAPTIVE && !(s->rate >= 0 && s->rate < 1))
        return bad(err, "sampling", "adaptive's rate is not in [0, 1)");
    if (!order_is_valid(s->order))
        return bad(err, "sampling", "the order has an unknown step, or one twice");
    return 0;
}

/* Lengths and the ids behind them come out even. */
static bool bad_words_are_whole(struct u32s words) {
    for (size_t i = 0; i < words.count; i += 1 + words.items[i])
        if (words.items[i] < 1 || words.items[i] > WIRE_BAD_WORD_TOKENS_MAX ||
            words.items[i] >= words.count - i)
            return false;
    return true;
}

int check_sampling(const void *message, struct error *err) {
    const struct wire_sampling *s = message;
    if (s->temperature < 0)
        return bad(err, "sampling", "temperature is negative");
    if (!(s->top_p > 0 && s->top_p <= 1))
        return bad(err, "sampling", "top_p is not in (0, 1]");
    if (!(s->min_p >= 0 && s->min_p < 1))
        return bad(err, "sampling", "min_p is not in [0, 1)");
    if (s->top_n_sigma < 0)
        return bad(err, "sampling", "top_n_sigma is negative");
    if (!(s->repetition_penalty > 0))
        return bad(err, "sampling", "repetition_penalty is not positive");
    if (s->bias_ids.count != s->bias_values.count)
        return bad(err, "sampling", "bias ids and values differ in number");
    for (size_t i = 0; i < s->bias_values.count; i++)
        if (!isfinite(s->bias_values.items[i]))
            return bad(err, "sampling", "a bias is not finite");
    if (!bad_words_are_whole(s->bad_words))
        return bad(err, "sampling", "bad words are not whole");
    return check_rules(s, err);
}

int check_submit(const void *message, struct error *err) {
    const struct wire_submit *s = message;
    struct number_set seen = {0};
    for (size_t i = 0; i < s->choice_count; i++)
        if (!set_take(&seen, s->choices[i].choice))
            return bad(err, "submit", "a choice is there twice");
    return 0;
}

int check_cancel(const void *message, struct error *err) {
    const struct wire_cancel *c = message;
    if (c->choice >= WIRE_MAX_CHOICES && c->choice != WIRE_ALL_CHOICES)
        return bad(err, "cancel", "no such choice");
    return 0;
}

int check_ack(const void *message, struct error *err) {
    const struct wire_ack *a = message;
    size_t count = a->requests.count;
    if (a->attempts.count != count || a->choices.count != count || a->counts.count != count)
        return bad(err, "ack", "columns differ in number");
    if (!all_below(a->choices, WIRE_MAX_CHOICES))
        return bad(err, "ack", "no such choice");
    return all_within(a->counts, 0, WIRE_MAX_TOKENS + 1)
               ? 0
               : bad(err, "ack", "a count is out of bounds");
}

int check_attach(const void *message, struct error *err) {
    const struct wire_attach *a = message;
    if (a->choices.count != a->indexes.count)
        return bad(err, "attach", "columns differ in number");
    if (!all_below(a->choices, WIRE_MAX_CHOICES) || !all_unique(a->choices))
        return bad(err, "attach", "a choice is out of bounds or there twice");
    return all_within(a->indexes, 0, WIRE_MAX_TOKENS)
               ? 0
               : bad(err, "attach", "an index is out of bounds");
}

/* ---- Deltas, Plan, StepResult ---- */

static int check_logprobs(const struct wire_logprobs *l, size_t token_count, const char *message,
                          struct error *err) {
    if (l->ids.count != l->values.count)
        return bad(err, message, "logprob ids and values differ in number");
    if (l->tops.count != 0 && l->tops.count != token_count)
        return bad(err, message, "logprob counts are not one a token");
    uint64_t sum = 0;
    for (size_t i = 0; i < l->tops.count; i++) {
        uint32_t top = l->tops.items[i];
        if (top == WIRE_NO_LOGPROBS)
            continue;
        if (top > WIRE_MAX_TOP_LOGPROBS)
            return bad(err, message, "too many logprobs for a token");
        sum += 1 + (uint64_t)top;
    }
    return sum == l->ids.count ? 0 : bad(err, message, "logprob counts do not add up");
}

int check_deltas(const void *message, struct error *err) {
    const struct wire_deltas *d = message;
    size_t count = d->requests.count;
    const struct u32s columns[] = {d->attempts, d->choices,       d->indexes, d->token_counts,
                                   d->finishes, d->cached_counts, d->flags};
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (columns[i].count != count)
            return bad(err, "deltas", "columns differ in number");
    if (d->fingerprints.count != 0 && d->fingerprints.count != count)
        return bad(err, "deltas", "fingerprints are not one an item");
    if ((d->queued_ms.count != 0 && d->queued_ms.count != count) ||
        d->prefill_ms.count != d->queued_ms.count)
        return bad(err, "deltas", "times of first tokens are not one an item");
    if (d->prompt_counts.count != 0 && d->prompt_counts.count != count)
        return bad(err, "deltas", "counts of prompts are not one an item");
    if (!sums_to(d->token_counts, d->tokens.count))
        return bad(err, "deltas", "token counts do not add up");
    if ((d->vector_widths.count != 0 && d->vector_widths.count != count) ||
        !sums_to(d->vector_widths, d->vectors.count))
        return bad(err, "deltas", "vectors do not add up");
    if (!all_finite(d->vectors))
        return bad(err, "deltas", "a vector is not finite");
    if (!all_below(d->choices, WIRE_MAX_CHOICES))
        return bad(err, "deltas", "no such choice");
    if (!all_within(d->indexes, 0, WIRE_MAX_TOKENS) ||
        !all_within(d->cached_counts, 0, WIRE_MAX_TOKENS) ||
        !all_within(d->prompt_counts, 0, WIRE_MAX_TOKENS))
        return bad(err, "deltas", "an index or count is out of bounds");
    if (!all_within(d->finishes, WIRE_FINISH_NONE, WIRE_FINISH_CONSTRAINT))
        return bad(err, "deltas", "no such finish");
    if (d->sampler_states.count != 0 && d->sampler_states.count != d->tokens.count)
        return bad(err, "deltas", "sampler states are not one a token");
    return check_logprobs(&d->logprobs, d->tokens.count, "deltas", err);
}

int check_admit(const void *message, struct error *err) {
    const struct wire_admit *a = message;
    if (!a->tokens.count)
        return bad(err, "admit", "a sequence has tokens");
    if (a->prompt_count > a->tokens.count || a->computed_count > a->tokens.count)
        return bad(err, "admit", "prompt or computed count goes past the tokens");
    if (a->block_groups.count != a->block_ids.count)
        return bad(err, "admit", "block columns differ in number");
    if (!all_below(a->block_groups, WIRE_MAX_GROUPS) || !all_below(a->block_ids, WIRE_MAX_BLOCKS))
        return bad(err, "admit", "a block or group is out of bounds");
    return 0;
}

static int check_plan_blocks(const struct wire_plan *p, struct error *err) {
    size_t count = p->new_block_rows.count;
    if (p->new_block_groups.count != count || p->new_block_ids.count != count)
        return bad(err, "plan", "new block columns differ in number");
    if (!all_below(p->new_block_rows, (uint32_t)p->row_slots.count))
        return bad(err, "plan", "a new block is for no row");
    if (!all_below(p->new_block_groups, WIRE_MAX_GROUPS) ||
        !all_below(p->new_block_ids, WIRE_MAX_BLOCKS))
        return bad(err, "plan", "a new block is out of bounds");
    count = p->op_kinds.count;
    if (p->op_groups.count != count || p->op_sources.count != count || p->op_targets.count != count)
        return bad(err, "plan", "operation columns differ in number");
    if (!all_within(p->op_kinds, WIRE_OP_COPY, WIRE_OP_RECEIVE))
        return bad(err, "plan", "no such operation");
    if (!all_below(p->op_groups, WIRE_MAX_GROUPS) || !all_below(p->op_sources, WIRE_MAX_BLOCKS) ||
        !all_below(p->op_targets, WIRE_MAX_BLOCKS))
        return bad(err, "plan", "an operation's block is out of bounds");
    if (p->sealed_ids.count != p->sealed_hashes.count)
        return bad(err, "plan", "sealed blocks and hashes differ in number");
    return all_below(p->sealed_ids, WIRE_MAX_BLOCKS)
               ? 0
               : bad(err, "plan", "a sealed block is out of bounds");
}

int check_plan(const void *message, struct error *err) {
    const struct wire_plan *p = message;
    if (!p->number)
        return bad(err, "plan", "plan numbers begin at 1");
    if (!all_below(p->release_slots, WIRE_MAX_SLOTS))
        return bad(err, "plan", "a released slot is out of bounds");
    if (p->row_token_counts.count != p->row_slots.count ||
        (p->row_drafts.count && p->row_drafts.count != p->row_slots.count) ||
        (p->draft_counts.count && p->draft_counts.count != p->row_slots.count))
        return bad(err, "plan", "row columns differ in number");
    if (!all_below(p->row_slots, WIRE_MAX_SLOTS) || !all_unique(p->row_slots))
        return bad(err, "plan", "a row's slot is out of bounds or there twice");
    if (!all_within(p->row_token_counts, 1, WIRE_MAX_TOKENS) ||
        !all_within(p->row_drafts, 0, WIRE_MAX_TOKENS) ||
        !all_within(p->draft_counts, 0, WIRE_MAX_TOKENS))
        return bad(err, "plan", "a row's token count is out of bounds");
    uint64_t drafts = 0;
    for (size_t i = 0; i < p->draft_counts.count; i++)
        drafts += p->draft_counts.items[i];
    if (drafts != p->draft_tokens.count)
        return bad(err, "plan", "drafts and their tokens differ in number");
    struct number_set admitted = {0};
    for (size_t i = 0; i < p->admit_count; i++)
        if (!set_take(&admitted, p->admits[i].slot))
            return bad(err, "plan", "a slot is admitted twice");
    return check_plan_blocks(p, err);
}

int check_step_result(const void *message, struct error *err) {
    const struct wire_step_result *r = message;
    size_t count = r->slots.count;
    if (r->token_counts.count != count || r->finishes.count != count)
        return bad(err, "step_result", "columns differ in number");
    if (!all_below(r->slots, WIRE_MAX_SLOTS))
        return bad(err, "step_result", "a slot is out of bounds");
    if (!sums_to(r->token_counts, r->tokens.count))
        return bad(err, "step_result", "token counts do not add up");
    if (!all_within(r->finishes, WIRE_FINISH_NONE, WIRE_FINISH_CONSTRAINT))
        return bad(err, "step_result", "no such finish");
    if (r->vector_width ? r->vectors.count % r->vector_width != 0 : r->vectors.count != 0)
        return bad(err, "step_result", "vectors are not of their width");
    if (!all_finite(r->vectors))
        return bad(err, "step_result", "a vector is not finite");
    if (r->sampler_states.count != 0 && r->sampler_states.count != r->tokens.count)
        return bad(err, "step_result", "sampler states are not one a token");
    return check_logprobs(&r->logprobs, r->tokens.count, "step_result", err);
}
