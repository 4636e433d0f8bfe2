#include "gateway/generation/outbox.h"

#include "gateway/link/scheduler_link.h"
#include "gateway/watch/gateway_metrics.h"
#include "proto/codec.h"

void outbox_init(struct outbox *o, struct scheduler_link *link) {
    *o = (struct outbox){.link = link};
}

void outbox_release(struct outbox *o) {
    vec_release(&o->acks);
}

static void send_message(struct outbox *o, enum wire_kind kind, const void *message) {
    struct buf payload;
    buf_init(&payload, 0);
    message_pack(kind, message, &payload);
    scheduler_link_send(o->link, kind, &payload);
}

/* ---- acknowledgements ---- */

void outbox_ack(struct outbox *o, struct delivery *d, uint32_t choice) {
    CHECK(choice < d->choice_count);
    struct delivery_choice *c = &d->choices[choice];
    if (c->ack_place)
        return;
    vec_push(&o->acks, ((struct ack_entry){.delivery = d, .choice = choice}));
    c->ack_place = (uint32_t)o->acks.count;
}

static void finish_ack(struct ack_entry *ack) {
    struct delivery *d = ack->delivery;
    *ack = (struct ack_entry){NULL, d->request, d->attempt, ack->choice,
                              delivery_ack_count(d, ack->choice)};
    d->choices[ack->choice].ack_place = 0;
}

void outbox_finish_acks(struct outbox *o, struct delivery *d, bool wanted) {
    for (uint32_t i = 0; i < d->choice_count; i++) {
        uint32_t place = d->choices[i].ack_place;
        if (!place)
            continue;
        CHECK(place <= o->acks.count && o->acks.items[place - 1].delivery == d);
        struct ack_entry *ack = &o->acks.items[place - 1];
        finish_ack(ack);
        if (!wanted)
            ack->request = (struct u128){0};
    }
}

void outbox_flush_acks(struct outbox *o, int64_t now_ms, bool force) {
    size_t room = o->acks.count, count = 0;
    if (!force && (!room || now_ms - o->acks_ms < OUTBOX_ACK_MS))
        return;
    o->acks_ms = now_ms;
    if (!room)
        return;
    struct u128 *requests = mem_calloc(room, sizeof *requests);
    uint32_t *attempts = mem_calloc(room, 3 * sizeof *attempts);
    uint32_t *choices = attempts + room;
    uint32_t *counts = choices + room;
    for (size_t i = 0; i < room; i++) {
        struct ack_entry *ack = &o->acks.items[i];
        if (ack->delivery)
            finish_ack(ack);
        if (u128_is_zero(ack->request))
            continue;
        requests[count] = ack->request;
        attempts[count] = ack->attempt;
        choices[count] = ack->choice;
        counts[count++] = ack->count;
    }
    const struct wire_ack message = {
        {requests, count}, {attempts, count}, {choices, count}, {counts, count}};
    if (count)
        send_message(o, WIRE_ACK, &message);
    mem_free(requests);
    mem_free(attempts);
    o->acks.count = 0;
}

/* ---- messages about one submission ---- */

void outbox_cancel(struct outbox *o, struct u128 request, uint32_t attempt, uint32_t choice) {
    send_message(o, WIRE_CANCEL, &(struct wire_cancel){request, attempt, choice, false});
}

void outbox_detach(struct outbox *o, struct u128 request, uint32_t attempt) {
    send_message(o, WIRE_CANCEL, &(struct wire_cancel){request, attempt, WIRE_ALL_CHOICES, true});
}

void outbox_attach(struct outbox *o, const struct wire_attach *attach) {
    send_message(o, WIRE_ATTACH, attach);
}

void outbox_cancel_unknown(struct outbox *o, struct u128 request, uint32_t attempt,
                           int64_t now_ms) {
    size_t slot = (request.hi ^ request.lo >> 8) % OUTBOX_UNKNOWN_MAX;
    metric_add(&gateway_metrics[GATEWAY_METRIC_STALE], 1);
    if (u128_equal(o->unknown[slot].request, request) &&
        now_ms - o->unknown[slot].at_ms < OUTBOX_UNKNOWN_AGAIN_MS)
        return;
    o->unknown[slot].request = request;
    o->unknown[slot].at_ms = now_ms;
    outbox_detach(o, request, attempt);
}

void outbox_ask(struct outbox *o, const struct delivery *d, uint32_t choice) {
    CHECK(choice < d->choice_count);
    const struct wire_resend resend = {d->request, d->attempt, choice, d->choices[choice].count};
    send_message(o, WIRE_RESEND, &resend);
}

void outbox_pause(struct outbox *o, const struct delivery *d, bool paused) {
    if (!delivery_is_done(d))
        send_message(o, WIRE_PAUSE, &(struct wire_pause){d->request, d->attempt, paused});
}
