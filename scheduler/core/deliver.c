#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/timer.h"

enum { MESSAGE_TOKENS_MAX = 1 << 17 };

static bool has_finish(const struct sequence *q) {
    return q->finish != WIRE_FINISH_NONE;
}

bool seq_is_owed(const struct sequence *q) {
    return !q->quiet && q->acked < seq_output_count(q) + (has_finish(q) ? 1 : 0);
}

static bool has_unsent(const struct sequence *q) {
    return !q->quiet && (q->sent < seq_output_count(q) || (has_finish(q) && !q->finish_sent));
}

static bool owes_accepted(const struct sequence *q) {
    return q->accepted_due;
}

void seq_dirty(struct sched *s, struct sequence *q) {
    struct gateway *gateway = q->request->gateway;
    if (!gateway || gateway->silent || q->request->dropped || q->request->rejected ||
        list_node_is_linked(&q->dirty))
        return;
    if (has_unsent(q) || owes_accepted(q) || q->progress_due)
        list_push(&gateway->dirty, &q->dirty);
}

void seq_tell_progress(struct sched *s, struct sequence *q) {
    if (!q->request->progress || q->choice || q->quiet || seq_output_count(q) || has_finish(q))
        return;
    q->progress_due = true;
    seq_dirty(s, q);
}

void seq_rewind(struct sched *s, struct sequence *q, uint32_t index) {
    q->sent = MIN(q->sent, MIN(index, seq_output_count(q)));
    if (q->acked <= seq_output_count(q))
        q->finish_sent = false;
    seq_dirty(s, q);
}

/* ---- Log-probabilities: fixed stride a token: top, ids[1 + most], values[1 + most] ---- */

uint32_t logprob_stride(const struct request *request) {
    return request->sampling.logprobs < 0 ? 0 : 1 + 2 * (1 + (uint32_t)request->sampling.logprobs);
}

void logprobs_append(struct sched *s, struct sequence *q, const struct wire_logprobs *from,
                     size_t token_idx, size_t entry) {
    uint32_t stride = logprob_stride(q->request),
             at = (seq_output_count(q) - q->logprob_base) * stride;
    if (!stride)
        return;
    word_pool_reserve(&s->word_pool, &q->logprobs, at, at + stride);
    uint32_t *words = q->logprobs.items + at, most = (stride - 1) / 2;
    words[0] = token_idx < from->tops.count ? from->tops.items[token_idx] : WIRE_NO_LOGPROBS;
    if (words[0] == WIRE_NO_LOGPROBS)
        return;
    memcpy(words + 1, from->ids.items + entry, (words[0] + 1) * sizeof(uint32_t));
    memcpy(words + 1 + most, from->values.items + entry, (words[0] + 1) * sizeof(float));
}

static void add_logprobs(struct delta_build *b, const struct sequence *q, uint32_t index) {
    uint32_t stride = logprob_stride(q->request);
    const uint32_t *words = NULL;
    if (stride && index >= q->logprob_base)
        words = q->logprobs.items + (index - q->logprob_base) * stride;
    if (!words || words[0] == WIRE_NO_LOGPROBS) {
        vec_push(&b->tops, WIRE_NO_LOGPROBS);
        return;
    }
    uint32_t count = words[0] + 1, most = (stride - 1) / 2;
    vec_push(&b->tops, words[0]);
    vec_reserve(&b->ids, b->ids.count + count);
    vec_reserve(&b->values, b->values.count + count);
    memcpy(b->ids.items + b->ids.count, words + 1, count * sizeof(uint32_t));
    memcpy(b->values.items + b->values.count, words + 1 + most, count * sizeof(float));
    b->ids.count += count;
    b->values.count += count;
    b->any_logprobs = true;
}

/* ---- Building ---- */

/* Comes with its finish. */
static void add_vector(struct delta_build *b, const struct sequence *q, enum wire_finish finish) {
    uint32_t width = finish == WIRE_FINISH_STOP ? q->vector_width : 0;
    vec_push(&b->vector_widths, width);
    vec_reserve(&b->vectors, b->vectors.count + width);
    if (width)
        memcpy(b->vectors.items + b->vectors.count, q->vector.items, width * sizeof(float));
    b->vectors.count += width;
}

/* The states of messages where any sampler steers: one a token. */
static void add_states(struct delta_build *b, const struct sequence *q, uint32_t index,
                       uint32_t count) {
    bool steers = q->request->sampling.steering;
    for (uint32_t i = 0; i < count; i++)
        vec_push(&b->sampler_states, steers ? seq_sampler_state(q, index + i + 1) : 0);
    b->any_states |= steers && count;
}

static void add_item(struct delta_build *b, const struct sequence *q, uint32_t index,
                     uint32_t count, enum wire_finish finish, uint32_t flags) {
    const struct request *request = q->request;
    bool older = index < q->fingerprint_from;
    vec_push(&b->requests, request->id);
    vec_push(&b->attempts, request->attempt);
    vec_push(&b->choices, q->choice);
    vec_push(&b->indexes, index);
    vec_push(&b->token_counts, count);
    vec_push(&b->finishes, (uint32_t)finish);
    vec_push(&b->cached_counts, q->cached_count);
    vec_push(&b->flags, flags | (q->fingerprint_from && !older ? WIRE_DELTA_OTHER_FINGERPRINT : 0));
    vec_push(&b->fingerprints, older ? q->older_fingerprint : q->fingerprint);
    bool first = index == 0 && (count || (finish && q->vector_width));
    vec_push(&b->queued_ms, first ? q->queued_ms : 0);
    vec_push(&b->prefill_ms, first ? q->prefill_ms : 0);
    b->any_first |= first;
    const uint32_t *tokens = seq_tokens(q) + request->prompt.count + index;
    vec_reserve(&b->tokens, b->tokens.count + count);
    if (count)
        memcpy(b->tokens.items + b->tokens.count, tokens, count * sizeof *tokens);
    b->tokens.count += count;
    for (uint32_t i = 0; i < count; i++)
        add_logprobs(b, q, index + i);
    add_vector(b, q, finish);
    add_states(b, q, index, count);
    bool progress = flags & WIRE_DELTA_PROGRESS;
    vec_push(&b->prompt_counts, progress ? MIN(q->computed_lo, q->prompt_count) : 0);
    b->any_progress |= progress;
}

/* Times of events are those of the turn before: what came in this turn is told by the turn's. */
static void note_first_token(const struct sched *s, struct sequence *q) {
    int64_t placed_at = q->request->submitted_at + q->queued_ms;
    if (q->sent == 0 && (seq_output_count(q) || q->vector_width) && q->prefill_ms == SEQ_NOT_TOLD)
        q->prefill_ms = (uint32_t)MIN(s->now - placed_at, (int64_t)SEQ_NOT_TOLD - 1);
}

static void arm_retransmission(struct sched *s, struct request *request) {
    if (request->retransmit_at != NEVER)
        return;
    request->backoff_ms = (uint32_t)s->config.retransmit_ms;
    request->retransmit_at = s->now + request->backoff_ms;
    timer_update(s, request);
}

/* One sequence's items; a run stops where the fingerprint changes. false: the message is full, more
 * is left. */
static bool add_sequence(struct sched *s, struct sequence *q) {
    struct delta_build *b = &s->delta_build;
    if (owes_accepted(q)) {
        q->accepted_due = false;
        add_item(b, q, q->sent, 0, WIRE_FINISH_NONE, WIRE_DELTA_ACCEPTED);
    }
    if (q->progress_due && !has_unsent(q))
        add_item(b, q, q->sent, 0, WIRE_FINISH_NONE, WIRE_DELTA_PROGRESS);
    q->progress_due = false;
    note_first_token(s, q);
    while (has_unsent(q)) {
        if (b->tokens.count + b->vectors.count >= MESSAGE_TOKENS_MAX)
            return false;
        uint32_t end = seq_output_count(q);
        if (q->sent < q->fingerprint_from && q->fingerprint_from < end)
            end = q->fingerprint_from;
        end = MIN(end, q->sent + MESSAGE_TOKENS_MAX);
        bool last = end == seq_output_count(q) && has_finish(q);
        add_item(b, q, q->sent, end - q->sent, last ? q->finish : WIRE_FINISH_NONE, 0);
        q->sent = end;
        q->sent_high = MAX(q->sent_high, end + (last ? 1 : 0));
        q->finish_sent = q->finish_sent || last;
        arm_retransmission(s, q->request);
    }
    return true;
}

static void reset(struct delta_build *b) {
    b->requests.count = b->fingerprints.count = b->attempts.count = b->choices.count =
        b->indexes.count = 0;
    b->token_counts.count = b->finishes.count = b->cached_counts.count = b->flags.count =
        b->queued_ms.count = b->prefill_ms.count = b->tokens.count = 0;
    b->tops.count = b->ids.count = b->values.count = 0;
    b->vector_widths.count = b->vectors.count = b->sampler_states.count = 0;
    b->prompt_counts.count = 0;
    b->any_logprobs = b->any_first = b->any_states = b->any_progress = false;
}

static void send(struct sched *s, const struct gateway *gateway) {
    struct delta_build *b = &s->delta_build;
    if (!b->requests.count)
        return;
    struct wire_deltas deltas = {
        .requests = {b->requests.items, b->requests.count},
        .attempts = {b->attempts.items, b->attempts.count},
        .choices = {b->choices.items, b->choices.count},
        .indexes = {b->indexes.items, b->indexes.count},
        .token_counts = {b->token_counts.items, b->token_counts.count},
        .finishes = {b->finishes.items, b->finishes.count},
        .cached_counts = {b->cached_counts.items, b->cached_counts.count},
        .flags = {b->flags.items, b->flags.count},
        .tokens = {b->tokens.items, b->tokens.count},
        .fingerprints = {b->fingerprints.items, b->fingerprints.count},
    };
    if (b->any_logprobs)
        deltas.logprobs = (struct wire_logprobs){{b->tops.items, b->tops.count},
                                                 {b->ids.items, b->ids.count},
                                                 {b->values.items, b->values.count}};
    if (b->vectors.count) {
        deltas.vector_widths = (struct u32s){b->vector_widths.items, b->vector_widths.count};
        deltas.vectors = (struct f32s){b->vectors.items, b->vectors.count};
    }
    if (b->any_states)
        deltas.sampler_states = (struct f32s){b->sampler_states.items, b->sampler_states.count};
    if (b->any_first) {
        deltas.queued_ms = (struct u32s){b->queued_ms.items, b->queued_ms.count};
        deltas.prefill_ms = (struct u32s){b->prefill_ms.items, b->prefill_ms.count};
    }
    if (b->any_progress)
        deltas.prompt_counts = (struct u32s){b->prompt_counts.items, b->prompt_counts.count};
    s->sink.deltas(s->sink.ctx, gateway->instance, &deltas);
    reset(b);
}

void deliver_flush(struct sched *s) {
    LIST_EACH(at, &s->gateways) {
        struct gateway *gateway = LIST_ITEM(at, struct gateway, link);
        if (gateway->silent)
            continue;
        while (!list_is_empty(&gateway->dirty)) {
            struct sequence *q = LIST_ITEM(gateway->dirty.next, struct sequence, dirty);
            if (add_sequence(s, q))
                list_remove(&q->dirty);
            else
                send(s, gateway);
        }
        send(s, gateway);
    }
}

void deliver_release(struct sched *s) {
    struct delta_build *b = &s->delta_build;
    vec_release(&b->requests);
    vec_release(&b->fingerprints);
    vec_release(&b->attempts);
    vec_release(&b->choices);
    vec_release(&b->indexes);
    vec_release(&b->token_counts);
    vec_release(&b->finishes);
    vec_release(&b->cached_counts);
    vec_release(&b->flags);
    vec_release(&b->queued_ms);
    vec_release(&b->prefill_ms);
    vec_release(&b->tokens);
    vec_release(&b->tops);
    vec_release(&b->ids);
    vec_release(&b->values);
    vec_release(&b->vector_widths);
    vec_release(&b->vectors);
    vec_release(&b->sampler_states);
    vec_release(&b->prompt_counts);
}
