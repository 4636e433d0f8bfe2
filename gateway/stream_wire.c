/* A stream and the scheduler: Submit and what follows it, from attempt to attempt, and what becomes of rejections. */
#include "gateway/gateway_metrics.h"
#include "gateway/shard.h"
#include "gateway/stream.h"
#include "proto/codec.h"

#define METRIC(id) (&gateway_metrics[GATEWAY_METRIC_##id])

static void send_submit(struct part *p) {
    struct stream *s = p->stream;
    struct wire_choice choices[WIRE_MAX_CHOICES];
    struct delivery *d = &p->delivery;
    bool emitted = false;
    for (uint32_t i = 0; i < d->choice_count; i++) {
        choices[i] = (struct wire_choice){i, {d->choices[i].ids, d->choices[i].count}, d->choices[i].finished};
        emitted |= d->choices[i].count > 0;
    }
    int64_t left_ms = s->deadline_ms ? MAX(s->deadline_ms - s->shard->now_ms, 1) : 0;
    struct wire_submit submit = {.request = d->request,
                                 .attempt = d->attempt,
                                 .kind = WIRE_GENERATE,
                                 .model = bytes_str(s->model->name),
                                 .prompt = {p->prompt.items, p->prompt.count},
                                 .sampling = s->prepared.sampling,
                                 .stop_tokens = {s->prepared.stop_tokens, s->prepared.stop_token_count},
                                 .max_tokens = p->max_tokens,
                                 .choices = choices,
                                 .choice_count = d->choice_count,
                                 .deadline_ms = (uint32_t)MIN(left_ms, UINT32_MAX),
                                 .priority = (int32_t)s->g.priority,
                                 .tenant = s->tenant,
                                 .cache_salt = buf_bytes(&s->cache_salt),
                                 .presentation = buf_bytes(&s->presentation),
                                 .resumed = d->resumed};
    if (emitted) submit.revision = s->model->revision;
    if (emitted) submit.fingerprint = p->fingerprint;
    submit.sampling.min_tokens = MIN(submit.sampling.min_tokens, p->max_tokens);
    struct buf payload;
    buf_init(&payload, 0);
    wire_encode_submit(&submit, &payload);
    wire_send(s->shard->gw->wire, WIRE_SUBMIT, &payload);
}

void stream_submit_part(struct part *p) {
    struct shard *shard = p->stream->shard;
    if (!shard->registered) return;
    delivery_submitted(&p->delivery, shard->epoch, shard->now_ms);
    send_submit(p);
}

void stream_ask(struct part *p, uint32_t choice) {
    struct wire_resend resend = {p->delivery.request, p->delivery.attempt, choice, p->delivery.choices[choice].count};
    struct buf payload;
    buf_init(&payload, 0);
    wire_encode_resend(&resend, &payload);
    wire_send(p->stream->shard->gw->wire, WIRE_RESEND, &payload);
}

static void send_pause(struct stream *s) {
    for (uint32_t i = 0; i < s->part_count; i++) {
        struct wire_pause pause = {s->parts[i].delivery.request, s->parts[i].delivery.attempt, s->paused};
        struct buf payload;
        if (delivery_is_done(&s->parts[i].delivery)) continue;
        buf_init(&payload, 0);
        wire_encode_pause(&pause, &payload);
        wire_send(s->shard->gw->wire, WIRE_PAUSE, &payload);
    }
}

void stream_set_paused(struct stream *s, bool paused) {
    if (s->paused == paused) return;
    s->paused = paused;
    s->paused_ms = s->shard->now_ms;
    metric_add(METRIC(PAUSED), paused ? 1 : -1);
    send_pause(s);
}
void stream_resubmit(struct stream *s) {
    if (s->state != STREAM_RUNNING) return;
    for (uint32_t i = 0; i < s->part_count; i++) {
        struct part *p = &s->parts[i];
        if (delivery_is_done(&p->delivery)) continue;
        if (p->delivery.submitted) metric_add(METRIC(RESUBMITS), 1);
        delivery_restart(&p->delivery, s->shard->epoch);
        stream_submit_part(p);
    }
    if (s->paused) send_pause(s);
}

void stream_tick_part(struct part *p) {
    switch (delivery_due(&p->delivery, p->stream->shard->now_ms)) {
    case DELIVERY_SUBMIT: send_submit(p); break;
    case DELIVERY_ASK:
        for (uint32_t i = 0; i < p->delivery.choice_count; i++)
            if (!p->delivery.choices[i].finished) stream_ask(p, i);
        break;
    case DELIVERY_NOTHING: break;
    }
}

/* ---- rejections ---- */

static const struct {
    enum api_fault fault;
    const char *text;
} rejections[] = {
    [WIRE_REJECT_OVERLOADED] = {API_OVERLOADED, "the server is busy; try again later"},
    [WIRE_REJECT_NO_MODEL] = {API_MODEL_NOT_FOUND, "the model is not served any more"},
    [WIRE_REJECT_INVALID] = {API_BAD_REQUEST, "the request was refused"},
    [WIRE_REJECT_TOO_LONG] = {API_CONTEXT_LENGTH, "the request does not fit this model's context or cache"},
    [WIRE_REJECT_DEADLINE] = {API_TIMEOUT, "the request took longer than this server allows"},
    [WIRE_REJECT_POISON] = {API_INTERNAL, "this request makes the model's process fail"},
    [WIRE_REJECT_DRAINING] = {API_UNAVAILABLE, "this server is shutting down"},
    [WIRE_REJECT_REVISION] = {API_UNAVAILABLE, "the model this answer began on is gone"},
    [WIRE_REJECT_UNSUPPORTED] = {API_UNSUPPORTED, "this model does not offer what the request asks for"},
    [WIRE_REJECT_UNKNOWN] = {API_INTERNAL, "the request was lost"},
};

/* The scheduler has no such request or no such model *now*: it may have just started. Try again at the next tick. */
static void retry_part(struct part *p) {
    metric_add(METRIC(RESUBMITS), 1);
    delivery_retry(&p->delivery);
}

void stream_on_reject(struct part *p, const struct mail_reject *reject) {
    struct stream *s = p->stream;
    struct api_error err;
    if (reject->attempt != p->delivery.attempt || delivery_is_done(&p->delivery)) return;
    if (reject->code == WIRE_REJECT_UNKNOWN) {
        delivery_restart(&p->delivery, s->shard->epoch);
        metric_add(METRIC(RESUBMITS), 1);
        stream_submit_part(p);
        if (s->paused) send_pause(s);
        return;
    }
    bool may_come_back = reject->code == WIRE_REJECT_NO_MODEL || reject->code == WIRE_REJECT_DRAINING;
    if (may_come_back && (s->begun || s->shard->now_ms < s->wait_until_ms)) {
        retry_part(p);
        return;
    }
    bool known = reject->code >= 1 && reject->code < ARRAY_LEN(rejections);
    size_t row = known ? reject->code : WIRE_REJECT_UNKNOWN;
    api_error_set(&err, rejections[row].fault, NULL, "%s", reject->text[0] ? reject->text : rejections[row].text);
    if (reject->retry_after_ms) err.retry_after_ms = reject->retry_after_ms;
    stream_fail(s, &err);
}
