#include "scheduler/core/draft.h"

#include <math.h>

#include "scheduler/core/core.h"
#include "scheduler/core/sequence_state.h"

/* Of rate, so much is what was there before the last draft. */
static const double RATE_KEPT = 0.85;
static const double RATE_FIRST = 0.5;

void draft_init(struct sequence_draft *d) {
    *d = (struct sequence_draft){.rate = RATE_FIRST};
}

void draft_drop(struct sequence *q) {
    q->draft.from = q->draft.in_flight = 0;
    q->draft.due = false;
}

/* May its rows have any at all? What a constraint allows is made on the host, one token at a time. */
static bool is_able(const struct sched *s, const struct sequence *q) {
    const struct request *request = q->request;
    return s->config.drafts && q->replica->draft_max && q->state == SEQ_RUNNING &&
           !request_embeds(request) && !request_is_probe(request) &&
           u128_is_zero(request->grammar_hash) && !sampling_has_lists(&request->sampling) &&
           !q->deaths && q->token_count > q->prompt_count;
}

/* ---- Whether it pays ---- */

/* A draft costs a token's time. One that is accepted saves what its sequence's next row would cost: a row, a
 * token, and a share of what a step costs in any case. The share of drafts that has to be accepted for
 * that to be as much; 0 while all steps had a token for each row, for then nothing is known. */
static double rate_least(const struct replica *r) {
    const struct step_cost *cost = &r->cost;
    double saved = cost->step_ms / MAX(r->running_count, 1u) + cost->row_ms + cost->token_ms;
    if (!cost->begun || cost->most_tokens <= cost->most_rows)
        return 0;
    return saved > 0 ? cost->token_ms / saved : 1;
}

/* The k-th draft counts only if those before it do: rate to the power of k is to be the least. */
static uint32_t size_of(const struct sched *s, const struct sequence *q) {
    double least = rate_least(q->replica), rate = MIN(q->draft.rate, 0.99);
    if (rate <= least || least >= 1)
        return 0;
    double most = least > 0 ? log(least) / log(rate) : s->config.drafts;
    return (uint32_t)MIN(most, (double)s->config.drafts);
}

/* ---- Looking ---- */

static uint32_t match_length(const uint32_t *tokens, uint32_t count, uint32_t at, uint32_t most) {
    uint32_t length = 0;
    while (length < most && length < at && tokens[at - 1 - length] == tokens[count - 1 - length])
        length++;
    return length;
}

/* Behind the longest end of the tokens that stands in them earlier; the latest of those. 0: none. */
static uint32_t find(const uint32_t *tokens, uint32_t count) {
    uint32_t best = 0, length = DRAFT_MATCH_LEAST - 1,
             first = count > DRAFT_LOOK_BACK ? count - DRAFT_LOOK_BACK : 0;
    for (uint32_t at = count - 1; at > first && length < DRAFT_MATCH_MOST; at--) {
        if (tokens[at - 1] != tokens[count - 1])
            continue;
        uint32_t here = match_length(tokens, count, at, DRAFT_MATCH_MOST);
        if (here > length) {
            length = here;
            best = at;
        }
    }
    return best;
}

static void count_right(struct sequence_draft *d, bool right) {
    d->rate = d->rate * RATE_KEPT + (right ? 1 - RATE_KEPT : 0);
}

/* Of those in flight the first so many were right, and the next one was not; without any, the one that was not
 * computed. */
static void count_accepted(struct sched_counts *counts, struct sequence *q, uint32_t count) {
    struct sequence_draft *d = &q->draft;
    if (!d->in_flight) {
        if (d->from && count == 1)
            count_right(d, q->words.items[d->from] == q->words.items[q->token_count - 1]);
        return;
    }
    for (uint32_t i = 0; i + 1 < count; i++)
        count_right(d, true);
    if (count <= d->in_flight)
        count_right(d, false);
    counts->drafted_tokens += d->in_flight;
    counts->accepted_drafts += count - 1;
    d->in_flight = 0;
}

void draft_review(struct sched *s, struct sequence *q, uint32_t count) {
    struct sequence_draft *d = &q->draft;
    count_accepted(&s->counts, q, count);
    draft_drop(q);
    if (!is_able(s, q) || rate_least(q->replica) >= 1)
        return;
    d->from = find(q->words.items, q->token_count);
    d->due = d->from && size_of(s, q);
}

/* ---- In a plan ---- */

bool draft_holds(const struct sched *s, const struct replica *r) {
    if (!s->config.drafts || !r->draft_max || !r->flight_count)
        return false;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence_draft *d = &r->running[i]->draft;
        if (d->in_flight || (d->due && r->running[i]->rows_in_flight))
            return true;
    }
    return false;
}

uint32_t draft_take(const struct sched *s, const struct sequence *q, uint32_t most, uint32_t *out) {
    const struct sequence_draft *d = &q->draft;
    if (q->rows_in_flight)
        return 0;
    /* a token follows the last of them */
    uint32_t room = q->max_total - q->token_count - 1, known = q->token_count - d->from,
             count = MIN(MIN(size_of(s, q), most), room);
    for (uint32_t i = 0; i < count; i++)
        out[i] = i < known ? q->words.items[d->from + i] : out[i - known];
    return count;
}
