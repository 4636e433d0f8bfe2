#include "gateway/wire_deltas.h"

#include "gateway/gateway_metrics.h"
#include "gateway/wire.h"

/* What each event thread gets of a message. */
struct split {
    struct {
        uint32_t items, tokens, logprobs;
        struct mail *mail;
    } shards[WIRE_SHARDS_MAX];
};

/* Entries that a token's log-probabilities take in the columns. */
static uint32_t entries_of(uint32_t tops) { return tops == WIRE_NO_LOGPROBS ? 0 : tops + 1; }

static uint32_t entries_of_run(const struct wire_deltas *d, size_t token_at, uint32_t count) {
    uint32_t entries = 0;
    for (uint32_t i = 0; i < count; i++) entries += entries_of(d->logprobs.tops.items[token_at + i]);
    return entries;
}

static void count_shares(struct split *s, const struct wire_deltas *d, int box_count) {
    bool has_logprobs = d->logprobs.tops.count > 0;
    size_t token_at = 0;
    memset(s->shards, 0, sizeof s->shards[0] * (size_t)box_count);
    for (size_t i = 0; i < d->requests.count; i++) {
        int shard = wire_shard_of(d->requests.items[i]);
        uint32_t count = d->token_counts.items[i];
        if (shard < box_count) {
            s->shards[shard].items++;
            s->shards[shard].tokens += count;
            if (has_logprobs) s->shards[shard].logprobs += entries_of_run(d, token_at, count);
        }
        token_at += count;
    }
}

/* Copies a run's log-probabilities; returns how many entries of the message's columns they took. */
static uint32_t copy_logprobs(struct mail *m, const struct wire_deltas *d, size_t token_at, size_t entry_at,
                              uint32_t count) {
    uint32_t entries = entries_of_run(d, token_at, count);
    for (uint32_t i = 0; i < count; i++)
        m->logprob_counts[m->token_count + i] = entries_of(d->logprobs.tops.items[token_at + i]);
    if (entries) {
        memcpy(m->logprob_ids + m->logprob_count, d->logprobs.ids.items + entry_at, entries * sizeof(uint32_t));
        memcpy(m->logprob_values + m->logprob_count, d->logprobs.values.items + entry_at, entries * sizeof(float));
    }
    return entries;
}

static uint32_t copy_item(struct mail *m, const struct wire_deltas *d, size_t i, size_t token_at, size_t entry_at) {
    struct mail_item *item = &m->items[m->item_count++];
    uint32_t count = d->token_counts.items[i], entries = 0;
    *item = (struct mail_item){.request = d->requests.items[i],
                               .attempt = d->attempts.items[i],
                               .choice = d->choices.items[i],
                               .index = d->indexes.items[i],
                               .token_count = count,
                               .finish = d->finishes.items[i],
                               .cached_count = d->cached_counts.items[i],
                               .flags = d->flags.items[i],
                               .token_at = m->token_count,
                               .logprobs_at = m->logprob_count};
    if (d->fingerprints.count) item->fingerprint = d->fingerprints.items[i];
    if (count) memcpy(m->tokens + m->token_count, d->tokens.ids + token_at, count * sizeof(uint32_t));
    if (m->logprob_counts) entries = copy_logprobs(m, d, token_at, entry_at, count);
    m->token_count += count;
    m->logprob_count += entries;
    return entries;
}

static void copy_shares(struct split *s, const struct wire_deltas *d, int box_count) {
    bool has_logprobs = d->logprobs.tops.count > 0;
    size_t token_at = 0, entry_at = 0;
    for (size_t i = 0; i < d->requests.count; i++) {
        int shard = wire_shard_of(d->requests.items[i]);
        uint32_t count = d->token_counts.items[i];
        if (shard < box_count)
            entry_at += copy_item(s->shards[shard].mail, d, i, token_at, entry_at);
        else if (has_logprobs)
            entry_at += entries_of_run(d, token_at, count);
        token_at += count;
    }
}

void wire_split_deltas(const struct wire_deltas *d, struct epoch epoch, struct mailbox *boxes, int box_count) {
    struct split split, *s = &split;
    count_shares(s, d, box_count);
    for (int i = 0; i < box_count; i++) {
        if (!s->shards[i].items) continue;
        s->shards[i].mail = mail_new(MAIL_DELTAS, s->shards[i].items, s->shards[i].tokens, s->shards[i].logprobs,
                                     d->logprobs.tops.count > 0);
        s->shards[i].mail->epoch = epoch;
    }
    copy_shares(s, d, box_count);
    for (int i = 0; i < box_count; i++)
        if (s->shards[i].mail && !mailbox_put(&boxes[i], s->shards[i].mail))
            metric_add(&gateway_metrics[GATEWAY_METRIC_MAIL_DROPPED], 1);
}
