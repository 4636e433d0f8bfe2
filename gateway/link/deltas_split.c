#include "gateway/link/deltas_split.h"

#include "gateway/link/request_id.h"
#include "gateway/watch/gateway_metrics.h"

/* What each event thread gets of a message. */
struct split {
    struct {
        struct mail_size size;
        struct mail *mail;
    } threads[EVENT_THREADS_MAX];
};

enum { RUN_NONE = -1 };
#define RUN_FIRST ((struct run){.thread_idx = RUN_NONE}) /* before the first run */

/* A run of the message: its place in the columns. */
struct run {
    size_t item, token_at, entry_at, value_at;
    uint32_t token_count, entry_count, value_count; /* entries: of log-probabilities */
    int thread_idx;
};

/* Entries that a token's log-probabilities take in the columns. */
static uint32_t entries_of(uint32_t tops) {
    return tops == WIRE_NO_LOGPROBS ? 0 : tops + 1;
}

/* Walks the message run by run, beginning with RUN_FIRST. False: there is no further one. */
static bool next_run(const struct wire_deltas *d, struct run *r) {
    bool first = r->thread_idx == RUN_NONE;
    r->item = first ? 0 : r->item + 1;
    r->token_at += r->token_count;
    r->entry_at += r->entry_count;
    r->value_at += r->value_count;
    if (r->item == d->requests.count)
        return false;
    r->thread_idx = request_thread_idx(d->requests.items[r->item]);
    r->token_count = d->token_counts.items[r->item];
    r->entry_count = 0;
    r->value_count = d->vector_widths.count ? d->vector_widths.items[r->item] : 0;
    for (uint32_t i = 0; d->logprobs.tops.count && i < r->token_count; i++)
        r->entry_count += entries_of(d->logprobs.tops.items[r->token_at + i]);
    return true;
}

static void count_shares(struct split *s, const struct wire_deltas *d, int box_count) {
    memset(s->threads, 0, sizeof s->threads[0] * (size_t)box_count);
    for (struct run r = RUN_FIRST; next_run(d, &r);) {
        if (r.thread_idx >= box_count)
            continue;
        struct mail_size *size = &s->threads[r.thread_idx].size;
        size->items++;
        size->tokens += r.token_count;
        size->logprobs += r.entry_count;
        size->values += r.value_count;
    }
}

static void copy_run(struct mail *m, const struct wire_deltas *d, const struct run *r) {
    size_t i = r->item;
    CHECK(m->item_count < m->item_cap);
    struct mail_item *item = &m->items[m->item_count++];
    *item = (struct mail_item){.request = d->requests.items[i],
                               .attempt = d->attempts.items[i],
                               .choice = d->choices.items[i],
                               .index = d->indexes.items[i],
                               .token_count = r->token_count,
                               .finish = d->finishes.items[i],
                               .cached_count = d->cached_counts.items[i],
                               .flags = d->flags.items[i],
                               .token_at = m->token_count,
                               .logprobs_at = m->logprob_count,
                               .vector_at = m->vector_count,
                               .vector_width = r->value_count};
    if (d->fingerprints.count)
        item->fingerprint = d->fingerprints.items[i];
    if (d->queued_ms.count) {
        item->times_told = true;
        item->queued_ms = d->queued_ms.items[i];
        item->prefill_ms = d->prefill_ms.items[i];
    }
    if (d->prompt_counts.count)
        item->prompt_count = d->prompt_counts.items[i];
    if (r->token_count)
        memcpy(m->tokens + m->token_count, d->tokens.ids + r->token_at,
               r->token_count * sizeof(uint32_t));
    if (m->sampler_states && r->token_count)
        memcpy(m->sampler_states + m->token_count, d->sampler_states.items + r->token_at,
               r->token_count * sizeof(float));
    for (uint32_t k = 0; m->logprob_counts && k < r->token_count; k++)
        m->logprob_counts[m->token_count + k] = entries_of(d->logprobs.tops.items[r->token_at + k]);
    if (r->entry_count) {
        memcpy(m->logprob_ids + m->logprob_count, d->logprobs.ids.items + r->entry_at,
               r->entry_count * sizeof(uint32_t));
        memcpy(m->logprob_values + m->logprob_count, d->logprobs.values.items + r->entry_at,
               r->entry_count * sizeof(float));
    }
    if (r->value_count)
        memcpy(m->vectors + m->vector_count, d->vectors.items + r->value_at,
               r->value_count * sizeof(float));
    m->vector_count += r->value_count;
    m->token_count += r->token_count;
    m->logprob_count += r->entry_count;
}

void deltas_split(const struct wire_deltas *d, struct epoch epoch, struct mailbox *boxes,
                  int box_count) {
    struct split split, *s = &split;
    count_shares(s, d, box_count);
    for (int i = 0; i < box_count; i++) {
        if (!s->threads[i].size.items)
            continue;
        s->threads[i].size.has_logprobs = d->logprobs.tops.count > 0;
        s->threads[i].size.has_states = d->sampler_states.count > 0;
        s->threads[i].mail = mail_new(MAIL_DELTAS, &s->threads[i].size);
        s->threads[i].mail->epoch = epoch;
    }
    for (struct run r = RUN_FIRST; next_run(d, &r);)
        if (r.thread_idx < box_count)
            copy_run(s->threads[r.thread_idx].mail, d, &r);
    for (int i = 0; i < box_count; i++)
        if (s->threads[i].mail && !mailbox_push(&boxes[i], s->threads[i].mail))
            metric_add(&gateway_metrics[GATEWAY_METRIC_MAIL_DROPPED], 1);
}
