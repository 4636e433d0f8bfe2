#include "gateway/shard.h"

#include "base/clock.h"
#include "gateway/gateway_metrics.h"
#include "proto/codec.h"

struct shard *shard_new(struct gateway *gw, int idx) {
    struct shard *s = mem_alloc(sizeof *s);
    s->gw = gw;
    s->idx = idx;
    shard_set_now(s);
    return s;
}

void shard_free(struct shard **shard) {
    struct shard *s = *shard;
    if (!s) return;
    while (s->streams) stream_drop(s->streams); /* probes; the others ended with their connections */
    part_map_release(&s->parts);
    vec_release(&s->acks);
    buf_release(&s->out);
    buf_release(&s->piece);
    buf_release(&s->entries);
    buf_release(&s->extra);
    mem_free(s);
    *shard = NULL;
}

void shard_set_now(struct shard *s) {
    s->now_us = clock_us();
    s->now_ms = s->now_us / 1000;
}

/* ---- acknowledgements ---- */

void shard_ack(struct shard *s, struct part *part, uint32_t choice) {
    struct delivery_choice *c = &part->delivery.choices[choice];
    if (c->ack_place) return;
    vec_push(&s->acks, ((struct shard_ack){.part = part, .choice = choice}));
    c->ack_place = (uint32_t)s->acks.count;
}

static void settle(struct shard_ack *ack) {
    struct delivery *d = &ack->part->delivery;
    struct delivery_choice *c = &d->choices[ack->choice];
    *ack = (struct shard_ack){NULL, d->request, d->attempt, ack->choice, delivery_ack_count(d, ack->choice)};
    c->ack_place = 0;
}

void shard_settle_acks(struct shard *s, struct part *part, bool wanted) {
    for (uint32_t i = 0; i < part->delivery.choice_count; i++) {
        uint32_t place = part->delivery.choices[i].ack_place;
        if (!place) continue;
        struct shard_ack *ack = &s->acks.items[place - 1];
        settle(ack);
        if (!wanted) ack->request = (struct u128){0};
    }
}

static void send_acks(struct shard *s, size_t room) {
    struct u128 *requests = mem_calloc(room, sizeof *requests);
    uint32_t *attempts = mem_calloc(room, 3 * sizeof *attempts), *choices = attempts + room, *counts = choices + room;
    size_t count = 0;
    for (size_t i = 0; i < s->acks.count; i++) {
        struct shard_ack *ack = &s->acks.items[i];
        if (ack->part) settle(ack);
        if (u128_is_zero(ack->request)) continue;
        requests[count] = ack->request;
        attempts[count] = ack->attempt;
        choices[count] = ack->choice;
        counts[count++] = ack->count;
    }
    struct wire_ack ack = {{requests, count}, {attempts, count}, {choices, count}, {counts, count}};
    struct buf payload;
    buf_init(&payload, 0);
    wire_encode_ack(&ack, &payload);
    if (count) wire_send(s->gw->wire, WIRE_ACK, &payload);
    buf_release(&payload);
    mem_free(requests);
    mem_free(attempts);
}

void shard_flush_acks(struct shard *s) {
    s->acks_ms = s->now_ms;
    if (s->acks.count) send_acks(s, s->acks.count);
    s->acks.count = 0;
}

void shard_cancel(struct shard *s, struct u128 request, uint32_t attempt, uint32_t choice) {
    struct wire_cancel cancel = {request, attempt, choice};
    struct buf payload;
    buf_init(&payload, 0);
    wire_encode_cancel(&cancel, &payload);
    wire_send(s->gw->wire, WIRE_CANCEL, &payload);
}

/* ---- mail ---- */

/* Tokens for a request we have not: the scheduler did not hear that it ended. */
static void tell_ghost(struct shard *s, const struct mail_item *item) {
    size_t slot = (item->request.hi ^ item->request.lo >> 8) % SHARD_GHOSTS;
    metric_add(&gateway_metrics[GATEWAY_METRIC_STALE], 1);
    if (u128_equal(s->ghosts[slot].request, item->request) && s->now_ms - s->ghosts[slot].at_ms < SHARD_GHOST_MS)
        return;
    s->ghosts[slot].request = item->request;
    s->ghosts[slot].at_ms = s->now_ms;
    shard_cancel(s, item->request, item->attempt, WIRE_ALL_CHOICES);
}

static void on_deltas(struct shard *s, const struct mail *mail) {
    if (!s->registered || epoch_compare(mail->epoch, s->epoch) != 0) return;
    for (uint32_t i = 0; i < mail->item_count; i++) {
        struct part *p = part_map_find(&s->parts, mail->items[i].request);
        if (p)
            stream_on_run(p, mail, &mail->items[i]);
        else
            tell_ghost(s, &mail->items[i]);
    }
}

static void on_reject(struct shard *s, const struct mail *mail) {
    struct part *p = part_map_find(&s->parts, mail->reject.request);
    if (p && epoch_compare(mail->epoch, s->epoch) == 0) stream_on_reject(p, &mail->reject);
}

/* Calls visit for every stream; it may end the one it is given. */
static void each_stream(struct shard *s, void (*visit)(struct stream *)) {
    for (struct stream *stream = s->streams, *next; stream; stream = next) {
        next = stream->next;
        visit(stream);
    }
}

static void on_prepared(struct shard *s, struct mail *mail) {
    (void)s;
    if (mail->job->stream) stream_on_prepared(mail->job->stream, mail->job);
}

static void on_mail(struct shard *s, struct mail *mail) {
    switch (mail->kind) {
    case MAIL_DELTAS: on_deltas(s, mail); break;
    case MAIL_REJECT: on_reject(s, mail); break;
    case MAIL_REGISTERED:
        s->registered = true;
        s->epoch = mail->epoch;
        each_stream(s, stream_resubmit);
        break;
    case MAIL_LOST: s->registered = false; break;
    case MAIL_MODELS: each_stream(s, stream_try); break;
    case MAIL_PREPARED: on_prepared(s, mail); break;
    }
}

void shard_collect(struct shard *s) {
    shard_set_now(s);
    for (struct mail *mail = mailbox_take(&s->gw->boxes[s->idx]), *next; mail; mail = next) {
        next = mail->next;
        on_mail(s, mail);
        mail_free(mail);
    }
    if (s->output_tokens) metric_add(&gateway_metrics[GATEWAY_METRIC_OUTPUT_TOKENS], s->output_tokens);
    s->output_tokens = 0;
    if (s->acks.count && s->now_ms - s->acks_ms >= SHARD_ACK_MS) shard_flush_acks(s);
}

void shard_tick(struct shard *s) {
    shard_collect(s); /* so that nothing is asked of a scheduler already known to be gone */
    each_stream(s, stream_tick);
    shard_flush_acks(s);
}
