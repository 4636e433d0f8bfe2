/* Tokens become bytes for the client: chunks of a stream, or one object at the end. */
#include "base/clock.h"
#include "gateway/gateway_metrics.h"
#include "gateway/shard.h"
#include "gateway/stream.h"

#define METRIC(id) (&gateway_metrics[GATEWAY_METRIC_##id])

static void add_choice_usage(const struct choice *c, struct render_usage *u) {
    u->completion_tokens += c->token_count;
    u->reasoning_tokens += c->thought_count;
    u->reasons |= c->parser && c->parse.reasoning;
}

struct render_usage stream_usage(const struct stream *s) {
    struct render_usage u = {.other_fingerprint = s->other_fingerprint};
    for (uint32_t i = 0; i < s->part_count; i++) {
        const struct part *p = &s->parts[i];
        u.prompt_tokens += (uint32_t)p->prompt.count;
        u.cached_tokens += p->cached_tokens;
        for (uint32_t j = 0; j < p->delivery.choice_count; j++) add_choice_usage(&p->choices[j], &u);
    }
    return u;
}

void stream_begin(struct stream *s) {
    static const char type[] = "text/event-stream; charset=utf-8";
    const struct http_field fields[] = {
        {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}, {"X-Request-Id", s->render.id}};
    s->begun = true;
    http_stream_begin(s->http, 200, type, fields, ARRAY_LEN(fields));
    buf_reset(&s->shard->out);
    for (uint32_t i = 0; i < s->part_count; i++)
        for (uint32_t j = 0; j < s->parts[i].delivery.choice_count; j++)
            render_chunk_begin(&s->render, s->parts[i].choices[j].index, &s->shard->out);
    if (s->shard->out.len) stream_write(s);
}

/* ---- one token ---- */

static struct render_logprobs logprobs_of(const struct mail *mail, const struct mail_item *item, uint32_t token_idx,
                                          uint32_t *entry_at) {
    if (!mail->logprob_counts) return (struct render_logprobs){0};
    uint32_t count = mail->logprob_counts[item->token_at + token_idx];
    struct render_logprobs lp = {mail->logprob_ids + *entry_at, mail->logprob_values + *entry_at, count};
    *entry_at += count;
    return lp;
}

/* Adds a token's extras (log-probabilities, its id) to what the choice collects for its next event or its final answer.
 */
static void collect_extras(struct stream *s, struct choice *c, uint32_t id, const struct render_logprobs *lp) {
    const struct tokenizer *t = s->model->text->tokenizer;
    if (s->g.logprobs && lp->count) {
        render_logprobs_entry(s->g.dialect, t, lp, c->text_chars, &c->logprobs);
        c->text_chars += render_token_chars(t, id);
    }
    if (!s->g.return_token_ids) return;
    if (c->ids.len) buf_add_byte(&c->ids, ',');
    buf_add_u64(&c->ids, id);
}

/* Turns the collected extras into the members they are in JSON. */
static void render_extras(struct stream *s, struct choice *c) {
    struct shard *shard = s->shard;
    buf_reset(&shard->entries);
    buf_reset(&shard->extra);
    if (c->logprobs.len) render_logprobs_value(s->g.dialect, buf_bytes(&c->logprobs), &shard->entries);
    if (!s->g.return_token_ids) return;
    buf_add_str(&shard->extra, ",\"token_ids\":[");
    buf_add_bytes(&shard->extra, buf_bytes(&c->ids));
    buf_add_byte(&shard->extra, ']');
}

/* An event with the text in shard->piece and what was collected. */
static void add_event(struct stream *s, struct choice *c) {
    struct shard *shard = s->shard;
    struct render_usage usage;
    if (s->verbose) render_extras(s, c);
    if (s->render.continuous_usage) usage = stream_usage(s);
    struct render_text text = {buf_bytes(&shard->piece), buf_bytes(&c->reasoning), buf_bytes(&c->calls)};
    render_chunk_text(&s->render, c->index, &text, s->verbose ? buf_bytes(&shard->entries) : bytes_of(NULL, 0),
                      s->verbose ? buf_bytes(&shard->extra) : bytes_of(NULL, 0),
                      s->render.continuous_usage ? &usage : NULL, &shard->out);
    buf_reset(&c->reasoning);
    buf_reset(&c->calls);
    if (s->verbose) {
        buf_reset(&c->logprobs);
        buf_reset(&c->ids);
    }
}

/* Whether there is something to tell of a choice that streams. */
static bool has_news(const struct choice *c, const struct buf *text) {
    return text->len || c->reasoning.len || c->calls.len;
}

/* Feeds one token; true when the choice has ended with it (a stop string, or it is the stop token). */
static bool feed(struct stream *s, struct choice *c, uint32_t id, bool is_stop_token,
                 const struct render_logprobs *lp) {
    struct buf *text = s->g.stream ? &s->shard->piece : &c->text;
    if (s->g.stream) buf_reset(text);
    if (s->verbose) collect_extras(s, c, id, lp);
    bool ended = is_stop_token;
    if (is_stop_token)
        choice_push_stop(c, id, text);
    else
        ended = choice_push(c, id, text);
    if (s->g.stream && (s->verbose || has_news(c, text))) add_event(s, c);
    return ended;
}

/* The worker ended the choice without a stop token: what is held back comes out. */
static void end_choice(struct stream *s, struct choice *c, enum choice_finish finish) {
    struct buf *text = s->g.stream ? &s->shard->piece : &c->text;
    if (s->g.stream) buf_reset(text);
    choice_end(c, finish, text);
    if (s->g.stream && has_news(c, text)) add_event(s, c);
}

/* ---- a run ---- */

static void observe(struct stream *s, struct part *p, uint32_t choice, uint32_t token_count) {
    int64_t now_us = s->shard->now_us, before_us = p->token_us[choice];
    p->token_us[choice] = now_us;
    s->shard->output_tokens += token_count;
    if (before_us)
        metric_observe(METRIC(NEXT_TOKEN), (double)(now_us - before_us) * 1e-6);
    else
        metric_observe(METRIC(FIRST_TOKEN), (double)(now_us - s->start_us) * 1e-6);
}

static void note_replica(struct stream *s, struct part *p, const struct mail_item *item) {
    if (item->choice == 0 && !p->cached_known) {
        p->cached_known = true;
        p->cached_tokens = MIN(item->cached_count, (uint32_t)p->prompt.count);
    }
    if (item->flags & WIRE_DELTA_OTHER_FINGERPRINT) s->other_fingerprint = true;
    if (!u128_is_zero(item->fingerprint)) p->fingerprint = item->fingerprint;
}

/* Whether every choice ended so. */
static bool all_failed(const struct stream *s, enum choice_finish finish) {
    for (uint32_t i = 0; i < s->part_count; i++)
        for (uint32_t j = 0; j < s->parts[i].delivery.choice_count; j++)
            if (s->parts[i].choices[j].finish != finish) return false;
    return true;
}

static void finish_choice(struct stream *s, struct part *p, uint32_t choice, bool told) {
    struct choice *c = &p->choices[choice];
    delivery_finish(&p->delivery, choice, told);
    p->delivery.choices[choice].ask_ms = s->shard->now_ms; /* what is on its way already is no reason to cancel again */
    s->choices_open--;
    metric_add_label(METRIC(FINISHES), (int)c->finish - 1, 1);
    bool failed = c->finish == CHOICE_ERROR || c->finish == CHOICE_DEADLINE;
    if (!s->g.stream || !s->http || (failed && s->choices_open == 0 && all_failed(s, c->finish)))
        return; /* an error ends it */
    struct render_usage usage = stream_usage(s);
    render_chunk_finish(&s->render, c->index, choice_told_finish(c), &usage, &s->shard->out);
}

static enum choice_finish finish_of(uint32_t wire_finish) {
    switch (wire_finish) {
    case WIRE_FINISH_STOP: return CHOICE_STOP;
    case WIRE_FINISH_LENGTH: return CHOICE_LENGTH;
    case WIRE_FINISH_DEADLINE: return CHOICE_DEADLINE;
    default: return CHOICE_ERROR;
    }
}

/* Takes the run's new tokens. True when the gateway itself ended the choice (a stop string): the scheduler must be
 * told. */
static bool take_tokens(struct part *p, const struct mail *mail, const struct mail_item *item, uint32_t skip) {
    struct stream *s = p->stream;
    struct choice *c = &p->choices[item->choice];
    const uint32_t *ids = mail->tokens + item->token_at;
    uint32_t entry_at = item->logprobs_at;
    for (uint32_t i = 0; i < item->token_count; i++) {
        struct render_logprobs lp = logprobs_of(mail, item, i, &entry_at);
        if (i < skip) continue;
        bool is_last = i + 1 == item->token_count;
        delivery_take(&p->delivery, item->choice, ids[i]);
        bool is_stop_token = is_last && item->finish == WIRE_FINISH_STOP;
        if (feed(s, c, ids[i], is_stop_token, &lp)) return !(is_last && item->finish != WIRE_FINISH_NONE);
    }
    if (c->finish == CHOICE_RUNNING && item->finish != WIRE_FINISH_NONE) end_choice(s, c, finish_of(item->finish));
    return false;
}

static void take_run(struct part *p, const struct mail *mail, const struct mail_item *item, uint32_t skip) {
    struct stream *s = p->stream;
    struct choice *c = &p->choices[item->choice];
    if (item->token_count > skip) observe(s, p, item->choice, item->token_count - skip);
    if (s->http && s->g.stream && !s->begun) stream_begin(s);
    buf_reset(&s->shard->out);
    bool cancel = take_tokens(p, mail, item, skip);
    shard_ack(s->shard, p, item->choice);
    if (cancel) shard_cancel(s->shard, p->delivery.request, p->delivery.attempt, item->choice);
    if (c->finish != CHOICE_RUNNING) finish_choice(s, p, item->choice, !cancel);
    if (s->http && s->shard->out.len) stream_write(s);
    if (s->choices_open == 0) stream_complete(s);
}

void stream_on_run(struct part *p, const struct mail *mail, const struct mail_item *item) {
    struct shard *shard = p->stream->shard;
    struct delivery_run run = {mail->epoch, item->attempt,     item->choice,
                               item->index, item->token_count, item->finish != WIRE_FINISH_NONE};
    uint32_t skip;
    bool ask;
    switch (delivery_offer(&p->delivery, &run, shard->now_ms, &skip, &ask)) {
    case DELIVERY_TAKE:
        note_replica(p->stream, p, item);
        take_run(p, mail, item, skip);
        break;
    case DELIVERY_GAP:
        metric_add(METRIC(GAPS), 1);
        if (ask) stream_ask(p, item->choice);
        break;
    case DELIVERY_DUPLICATE:
        if (item->token_count) metric_add(METRIC(DUPLICATES), 1);
        break;
    case DELIVERY_STALE: metric_add(METRIC(STALE), 1); break;
    case DELIVERY_FINISHED:
        if (ask) shard_cancel(shard, p->delivery.request, p->delivery.attempt, item->choice);
        break;
    }
}

/* ---- the end ---- */

static void respond_full(struct stream *s) {
    struct shard *shard = s->shard;
    struct buf *out = &shard->out;
    struct render_usage usage = stream_usage(s);
    const struct http_field field = {"X-Request-Id", s->render.id};
    bool first = true;
    buf_reset(out);
    render_full_begin(&s->render, out);
    for (uint32_t i = 0; i < s->part_count; i++) {
        for (uint32_t j = 0; j < s->parts[i].delivery.choice_count; j++) {
            struct choice *c = &s->parts[i].choices[j];
            render_extras(s, c);
            struct render_text text = {buf_bytes(&c->text), buf_bytes(&c->reasoning), buf_bytes(&c->calls)};
            render_full_choice(&s->render, first, c->index, &text, buf_bytes(&shard->entries), buf_bytes(&shard->extra),
                               choice_told_finish(c), out);
            first = false;
        }
    }
    render_full_end(&s->render, &usage, out);
    http_respond(s->http, 200, "application/json", &field, 1, buf_bytes(out));
}

static void end_stream(struct stream *s) {
    struct render_usage usage = stream_usage(s);
    buf_reset(&s->shard->out);
    if (s->render.include_usage) render_chunk_usage(&s->render, &usage, &s->shard->out);
    render_done(&s->shard->out);
    http_stream_write(s->http, s->shard->out.data, s->shard->out.len);
    http_stream_end(s->http);
}

void stream_complete(struct stream *s) {
    struct api_error err;
    struct render_usage usage = stream_usage(s);
    void (*on_probe)(void *, bool) = s->on_probe;
    void *ctx = s->probe_ctx;
    if (all_failed(s, CHOICE_ERROR) || all_failed(s, CHOICE_DEADLINE)) {
        bool late = all_failed(s, CHOICE_DEADLINE);
        api_error_set(&err, late ? API_TIMEOUT : API_INTERNAL, NULL,
                      late ? "the request took longer than this server allows" : "the model failed on this request");
        stream_fail(s, &err);
        return;
    }
    if (s->http) {
        if (s->g.stream)
            end_stream(s);
        else
            respond_full(s);
        gateway_metrics_answer(200);
        metric_add(METRIC(PROMPT_TOKENS), usage.prompt_tokens);
        metric_add(METRIC(CACHED_TOKENS), usage.cached_tokens);
        metric_observe(METRIC(DURATION), (double)(s->shard->now_us - s->start_us) * 1e-6);
    }
    stream_drop(s);
    if (on_probe) on_probe(ctx, true);
}
