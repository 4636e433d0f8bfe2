/* What the scheduler says of a generation: runs of tokens, rejections, and with the last choice the
 * end of it. */
#include <math.h>

#include "gateway/answers/answer_room.h"
#include "gateway/calls/health.h"
#include "gateway/generation/generation.h"
#include "gateway/generation/turn.h"
#include "gateway/watch/gateway_metrics.h"
#include "gateway/watch/key_metrics.h"
#include "gateway/watch/model_metrics.h"

#define METRIC(id) (&gateway_metrics[GATEWAY_METRIC_##id])

/* ---- the end ---- */

static void count_request(const struct generation *gen, const struct usage *usage) {
    const struct submission *sub = &gen->submissions[0];
    int64_t now_us = gen->thread->now_us;
    struct model_request r = {.prompt_tokens = usage->prompt_tokens,
                              .cached_tokens = usage->cached_tokens,
                              .output_tokens = usage->completion_tokens,
                              .choice_count = sub->delivery.choice_count,
                              .max_tokens = sub->max_tokens,
                              .duration_us = now_us - gen->start_us,
                              .queued_us = gen->first_us ? gen->queued_us : -1,
                              .prefill_us = gen->prefill_us,
                              .decode_us = gen->first_us ? now_us - gen->first_us : -1};
    for (uint32_t i = 0; i < gen->submission_count; i++)
        for (uint32_t j = 0; j < gen->submissions[i].delivery.choice_count; j++)
            r.longest = MAX(r.longest, gen->submissions[i].choices[j].token_count);
    model_metrics_request(gen->metrics, &r);
}

/* How all choices have ended. */
static const char *finish_text(const struct answer *a) {
    const char *text = NULL;
    for (uint32_t i = 0; i < a->submission_count; i++)
        for (uint32_t j = 0; j < a->submissions[i].delivery.choice_count; j++) {
            const char *one =
                choice_finish_text(choice_reported_finish(&a->submissions[i].choices[j]));
            if (text && strcmp(text, one) != 0)
                return "mixed";
            text = one;
        }
    return text ? text : "none";
}

static void fail_for_memory(struct generation *gen) {
    struct api_error err;
    api_error_out_of_memory(&err);
    generation_fail(gen, &err);
}

/* It has become shorter than was foreseen. */
static void give_spare_room(struct generation *gen) {
    uint64_t spare = gen->room - MIN(gen->room, gen->whole_bytes);
    answer_room_give(gen->thread->gw->room, gen->terms.holder, spare);
    gen->room -= spare;
}

/* All choices have finished. */
static void complete(struct generation *gen) {
    struct answer *a = &gen->answer;
    struct generation_probe probe = gen->probe;
    bool late = answer_all_ended(a, CHOICE_DEADLINE), embeds = gen->terms.prepared.kind;
    if (late || answer_all_ended(a, CHOICE_ERROR) ||
        (embeds && !answer_all_ended(a, CHOICE_STOP))) {
        struct api_error err;
        if (gen->stuck)
            api_error_set(&err, API_BAD_REQUEST, NULL,
                          "the answer cannot go on under its constraint: no token of this model "
                          "fits, or more than 512 of its alternatives are open at once");
        else
            api_error_set(&err, late ? API_TIMEOUT : API_INTERNAL, NULL,
                          late ? "the request took longer than this server allows"
                               : "the model failed on this request");
        generation_fail(gen, &err);
        return;
    }
    const char *finish = finish_text(a);
    if (answer_is_heard(a)) {
        struct usage usage = answer_usage(a);
        a->times.first_us = gen->first_us ? gen->first_us : gen->thread->now_us;
        a->times.end_us = gen->thread->now_us;
        give_spare_room(gen);
        if (a->stream) {
            answer_end(a);
        } else if (answer_whole(a, gen->thread->gw, gen->terms.holder, gen->room)) {
            gen->room = 0;
        } else {
            fail_for_memory(gen);
            return;
        }
        metric_add(METRIC(PROMPT_TOKENS), usage.prompt_tokens);
        metric_add(METRIC(CACHED_TOKENS), usage.cached_tokens);
        metric_observe(METRIC(DURATION), (double)(gen->thread->now_us - gen->start_us) * 1e-6);
        count_request(gen, &usage);
    }
    generation_end(gen, finish, 200);
    if (probe.done)
        probe.done(probe.ctx, true);
}

static enum model_finish model_finish(enum choice_finish finish) {
    switch (finish) {
    case CHOICE_LENGTH: return MODEL_FINISH_LENGTH;
    case CHOICE_ABORTED:
    case CHOICE_DEADLINE: return MODEL_FINISH_ABORT;
    case CHOICE_ERROR: return MODEL_FINISH_ERROR;
    default: return MODEL_FINISH_STOP;
    }
}

/* confirmed: the scheduler's own finish was taken. */
static void finish_choice(struct submission *sub, uint32_t choice, bool confirmed) {
    struct generation *gen = sub->generation;
    const struct choice *c = &sub->choices[choice];
    CHECK(gen->open_choices > 0);
    delivery_finish(&sub->delivery, choice, confirmed);
    /* what is on its way already is no reason to cancel again */
    sub->delivery.choices[choice].ask_ms = gen->thread->now_ms;
    gen->open_choices--;
    gen->ended_count += delivery_is_done(&sub->delivery);
    if (c->finish == CHOICE_ABORTED)
        gateway_metrics_cancelled(1);
    else
        metric_add_label(METRIC(FINISHES), (int)c->finish - 1, 1);
    if (gen->metrics)
        metric_add_label(&gen->metrics[MODEL_METRIC_SUCCESS], (int)model_finish(c->finish), 1);
    bool failed = c->finish == CHOICE_ERROR || c->finish == CHOICE_DEADLINE;
    if (failed && gen->open_choices == 0 && answer_all_ended(&gen->answer, c->finish))
        return; /* an error ends it */
    answer_finish_choice(&gen->answer, c);
}

/* ---- a run ---- */

static enum choice_finish finish_of(uint32_t wire_finish) {
    switch (wire_finish) {
    case WIRE_FINISH_STOP: return CHOICE_STOP;
    case WIRE_FINISH_LENGTH: return CHOICE_LENGTH;
    case WIRE_FINISH_DEADLINE: return CHOICE_DEADLINE;
    default: return CHOICE_ERROR;
    }
}

/* A run may be a whole stream that is resumed: what its client has no room for is asked for again
 * when it has read. */
static bool has_no_room(const struct generation *gen) {
    enum { ROOM_BYTES = 512 * 1024 }; /* past the server's high water, so that it tells of room */
    const struct answer *a = &gen->answer;
    return a->http && a->stream && gen->unread_bytes + a->scratch->out.len > ROOM_BYTES;
}

/* A vector that nobody asked for, or of another width than the model's, is none: the choice ends with
 * an error. */
static void take_vector(struct submission *sub, const struct mail *mail,
                        const struct mail_item *item) {
    struct answer *a = &sub->generation->answer;
    const struct submit_terms *terms = sub->terms;
    if (terms->prepared.kind && item->vector_width == terms->model->vectors.width)
        answer_take_vector(a, &sub->choices[item->choice], mail->vectors + item->vector_at,
                           item->vector_width);
}

/* Before the first token of a choice that echoes: the prompt's first, which has no probability. */
static void begin_echo(const struct submission *sub, struct answer *a, struct choice *c) {
    static const float NONE = NAN;
    if (c->echo_count == 0 || c->echo_count < sub->prompt.count)
        return;
    const uint32_t *id = &sub->prompt.items[0];
    (void)answer_feed(a, c, &(struct answer_token){.id = *id, .logprobs = {id, &NONE, 1}});
}

/* A stop token of which the scheduler was not told, as the prompt has it, too. */
static bool is_own_stop(const struct submission *sub, const struct choice *c, uint32_t id) {
    const struct prepared *p = &sub->terms->prepared;
    for (uint32_t i = 0; p->echo && c->echo_count == 0 && i < p->stop_token_count; i++)
        if (p->stop_tokens[i] == id)
            return true;
    return false;
}

/* Whether the choice has thought all that it may, and the next token does not end that itself. One
 * that begins to think again and again is left alone in the end. */
static bool must_stop_thinking(const struct submission *sub, struct choice *c, uint32_t id) {
    enum { CUTS_MAX = 8 };
    const struct prepared *p = &sub->terms->prepared;
    const struct token_vec *end = &p->thinking_end;
    if (!end->count || c->echo_count || c->cut_count == CUTS_MAX)
        return false;
    if (!choice_is_thinking(c) || c->thought_count < p->thinking_budget) {
        c->end_count = 0;
        return false;
    }
    if (c->end_count < end->count && id == end->items[c->end_count]) {
        c->end_count++;
        return false;
    }
    c->end_count = c->end_count < end->count ? c->end_count : 0;
    return c->token_count + (end->count - c->end_count) < sub->max_tokens;
}

/* Puts the end of the reasoning behind what is there. True: the answer has ended with it. */
static bool stop_thinking(struct submission *sub, uint32_t choice) {
    static const float CERTAIN = 0; /* the logarithm of 1: nothing else may come */
    const struct token_vec *end = &sub->terms->prepared.thinking_end;
    struct choice *c = &sub->choices[choice];
    bool ended = false;
    for (size_t i = c->end_count; i < end->count && !ended; i++) {
        const uint32_t *id = &end->items[i];
        delivery_take(&sub->delivery, choice, *id, sub->delivery.choices[choice].sampler_state);
        ended = answer_feed(&sub->generation->answer, c,
                            &(struct answer_token){.id = *id, .logprobs = {id, &CERTAIN, 1}});
    }
    c->end_count = 0;
    c->cut_count++;
    return ended;
}

/* llama.cpp's bound on time: it ends the answer once a line has ended. */
static bool is_out_of_time(const struct generation *gen, struct choice *c, uint32_t id) {
    int64_t most_us = gen->request.predict_ms * 1000;
    if (most_us <= 0)
        return false;
    struct bytes text = tokenizer_token_bytes(c->detok.tokenizer, id);
    c->has_line_end |= text.len && memchr(text.data, '\n', text.len);
    return c->has_line_end && gen->thread->now_us - gen->first_us > most_us;
}

/* Takes the run's tokens from `skip` on. True when the gateway itself ended the choice (a stop
 * string): the scheduler must be told. */
static bool take_tokens(struct submission *sub, const struct mail *mail,
                        const struct mail_item *item, uint32_t skip) {
    struct answer *a = &sub->generation->answer;
    struct choice *c = &sub->choices[item->choice];
    bool embeds = sub->terms->prepared.kind;
    struct mail_cursor cursor = mail_cursor_at(mail, item);
    struct mail_token t;
    for (uint32_t i = 0; mail_next_token(&cursor, &t); i++) {
        if (i < skip)
            continue;
        if (has_no_room(sub->generation)) {
            sub->generation->held = true;
            return false;
        }
        begin_echo(sub, a, c);
        if (must_stop_thinking(sub, c, t.id)) {
            bool ended = stop_thinking(sub, item->choice);
            sub->cut = !ended;
            return ended;
        }
        const struct answer_token token = {
            .id = t.id,
            .is_stop = (t.is_last && item->finish == WIRE_FINISH_STOP) || is_own_stop(sub, c, t.id),
            .logprobs = {t.logprob_ids, t.logprob_values, t.logprob_count}};
        delivery_take(&sub->delivery, item->choice, t.id, t.sampler_state);
        if (sub->max_tokens == 0 && c->echo_count == 0) { /* a prompt of one token, and no more */
            answer_end_choice(a, c, CHOICE_LENGTH);
            return item->finish == WIRE_FINISH_NONE;
        }
        if (answer_feed(a, c, &token))
            return !(t.is_last && item->finish != WIRE_FINISH_NONE);
        if (is_out_of_time(sub->generation, c, t.id)) {
            answer_end_choice(a, c, CHOICE_LENGTH);
            return !(t.is_last && item->finish != WIRE_FINISH_NONE);
        }
    }
    if (item->finish == WIRE_FINISH_CONSTRAINT)
        sub->generation->stuck = true;
    if (item->vector_width)
        take_vector(sub, mail, item);
    if (c->finish == CHOICE_RUNNING && item->finish != WIRE_FINISH_NONE)
        answer_end_choice(a, c,
                          embeds && item->finish == WIRE_FINISH_STOP
                              ? CHOICE_ERROR /* and has no vector */
                              : finish_of(item->finish));
    return false;
}

static void observe_latency(struct submission *sub, const struct mail_item *item) {
    uint32_t choice = item->choice;
    int64_t now_us = sub->thread->now_us, before_us = sub->token_us[choice];
    struct generation *gen = sub->generation;
    double seconds = (double)(now_us - (before_us ? before_us : gen->start_us)) * 1e-6;
    sub->token_us[choice] = now_us;
    metric_observe(before_us ? METRIC(NEXT_TOKEN) : METRIC(FIRST_TOKEN), seconds);
    if (gen->metrics && (before_us || !gen->first_us))
        metric_observe(
            &gen->metrics[before_us ? MODEL_METRIC_NEXT_TOKEN : MODEL_METRIC_FIRST_TOKEN], seconds);
    if (gen->first_us)
        return;
    gen->first_us = now_us;
    gen->queued_us = item->times_told ? item->queued_ms * INT64_C(1000) : -1;
    gen->prefill_us = item->prefill_ms * INT64_C(1000);
}

static void count_prompt(const struct submission *sub) {
    struct metric *metrics = sub->generation->metrics;
    if (!metrics)
        return;
    metric_add(&metrics[MODEL_METRIC_PROMPT_TOKENS], (int64_t)sub->prompt.count);
    metric_add(&metrics[MODEL_METRIC_CACHED_TOKENS], sub->cached_tokens);
    if (sub->generation->key_metrics)
        metric_add(&sub->generation->key_metrics[KEY_METRIC_PROMPT_TOKENS],
                   (int64_t)sub->prompt.count);
}

static void note_replica(struct submission *sub, const struct mail_item *item) {
    if (item->choice == 0 && !sub->cached_known) {
        sub->cached_known = true;
        sub->cached_tokens = MIN(item->cached_count, (uint32_t)sub->prompt.count);
        count_prompt(sub);
    }
    if (item->flags & WIRE_DELTA_OTHER_FINGERPRINT)
        sub->generation->answer.other_fingerprint = true;
    if (u128_is_zero(item->fingerprint))
        return;
    struct response_writer *writer = &sub->generation->answer.writer;
    if (u128_is_zero(writer->fingerprint))
        writer->fingerprint = item->fingerprint;
    sub->fingerprint = item->fingerprint;
}

enum { STEP_BYTES = 64 * 1024 }; /* of the room; smaller answers need none */

/* An answer in one piece has grown. False: there is no room for it. */
static bool take_room(struct generation *gen, uint64_t more) {
    uint64_t step = MAX(more, (uint64_t)STEP_BYTES);
    gen->whole_bytes += more;
    if (gen->whole_bytes <= gen->room + STEP_BYTES)
        return true;
    if (!answer_room_take(gen->thread->gw->room, gen->terms.holder, step))
        return false;
    gen->room += step;
    return true;
}

static int refuse_room(struct api_error *err) {
    api_error_set(err, API_UNAVAILABLE, NULL,
                  "there is no room for an answer as large as this one in one piece; stream it, or "
                  "ask for less");
    err->retry_after_ms = 1000;
    return -1;
}

/* Of an answer in one piece with log-probabilities: what its entries take at least, should it be as
 * long as it may be; one that may end early counts with 1024 tokens at most. */
static uint64_t foreseen_bytes(const struct generation *gen) {
    enum { ENTRY_BYTES = 16, USUAL_TOKENS = 1024 };
    const struct prepared *p = &gen->terms.prepared;
    uint64_t tokens = 0;
    if (!gen->request.logprobs || gen->answer.stream || gen->request.kept.background)
        return 0;
    for (uint32_t i = 0; i < p->prompt_count; i++) {
        uint32_t usual = MAX((uint32_t)USUAL_TOKENS, p->sampling.min_tokens);
        tokens += gen->request.ignore_eos ? p->max_tokens[i] : MIN(p->max_tokens[i], usual);
    }
    return tokens * (uint64_t)gen->request.choice_count * ENTRY_BYTES *
           (uint64_t)(1 + gen->request.top_logprobs);
}

int generation_reserve_room(struct generation *gen, struct api_error *err) {
    uint64_t bytes = foreseen_bytes(gen);
    if (bytes <= STEP_BYTES)
        return 0;
    if (!answer_room_take(gen->thread->gw->room, gen->terms.holder, bytes))
        return refuse_room(err);
    gen->room = bytes;
    return 0;
}

static void fail_for_room(struct generation *gen) {
    struct api_error err;
    refuse_room(&err);
    generation_fail(gen, &err);
}

/* Sends what the scratch holds; room: a stream that began with it went out whole. */
static void send_written(struct generation *gen, bool room) {
    const struct event_thread *thread = gen->thread;
    gen->unread_bytes += thread->scratch.out.len;
    if (!answer_flush(&gen->answer, thread->now_ms) || !room)
        generation_set_paused(gen, true);
    else
        gen->unread_bytes = 0;
}

/* How much of a prompt has been computed, for a client that asked. */
static void write_progress(struct submission *sub, uint32_t cached, uint32_t processed) {
    struct event_thread *thread = sub->thread;
    struct answer *a = &sub->generation->answer;
    int64_t begun_us = sub->prompt_begun_us ? sub->prompt_begun_us : a->times.submit_us;
    const struct prompt_progress p = {cached, processed, thread->now_us - begun_us};
    if (a->progress && answer_is_heard(a))
        a->form->progress(a, &sub->choices[0], &p, &thread->scratch.out);
}

/* A part of its prompt has been computed, or found in the cache. What another scheduler begins anew
 * is told once it is further than before. */
static void take_progress(struct submission *sub, const struct mail_item *item) {
    struct generation *gen = sub->generation;
    struct event_thread *thread = sub->thread;
    struct answer *a = &gen->answer;
    uint32_t processed = MIN(item->prompt_count, (uint32_t)sub->prompt.count);
    if (!a->progress || !answer_is_heard(a) || gen->paused || item->choice || sub->cached_known ||
        (sub->prompt_begun_us && processed <= sub->prompt_told))
        return;
    if (!sub->prompt_begun_us)
        sub->prompt_begun_us = thread->now_us;
    sub->prompt_told = processed;
    if (u128_is_zero(a->writer.fingerprint))
        a->writer.fingerprint = item->fingerprint; /* a chat's first chunk has it */
    bool room = a->begun || answer_begin(a, thread->now_ms);
    buf_reset(&thread->scratch.out);
    write_progress(sub, MIN(item->cached_count, processed), processed);
    send_written(gen, room);
}

/* The run is the next one of its choice. */
static void take_run(struct submission *sub, const struct mail *mail, const struct mail_item *item,
                     uint32_t skip) {
    struct generation *gen = sub->generation;
    struct event_thread *thread = gen->thread;
    struct answer *a = &gen->answer;
    const bool had_prompt = sub->cached_known;
    CHECK(gen->state == GENERATION_RUNNING);
    note_replica(sub, item);
    if (item->token_count > skip) {
        if (!gen->probe.done)
            thread->output_tokens += item->token_count - skip;
        health_note_token(thread);
        if (gen->metrics)
            metric_add(&gen->metrics[MODEL_METRIC_OUTPUT_TOKENS], item->token_count - skip);
        if (gen->key_metrics)
            metric_add(&gen->key_metrics[KEY_METRIC_OUTPUT_TOKENS], item->token_count - skip);
        if (!item->goes_on)
            observe_latency(sub, item);
    }
    bool room = true;
    if (answer_is_heard(a) && a->stream && !a->begun)
        room = answer_begin(a, thread->now_ms);
    buf_reset(&thread->scratch.out);
    if (sub->cached_known && !had_prompt)
        write_progress(sub, sub->cached_tokens, (uint32_t)sub->prompt.count);
    const struct choice *c = &sub->choices[item->choice];
    uint64_t before = answer_choice_bytes(c);
    bool cancel = take_tokens(sub, mail, item, skip);
    if ((a->http || a->gather) && !a->stream && !take_room(gen, answer_choice_bytes(c) - before)) {
        fail_for_room(gen);
        return;
    }
    outbox_ack(&thread->outbox, &sub->delivery, item->choice);
    if (cancel)
        outbox_cancel(&thread->outbox, sub->delivery.request, sub->delivery.attempt, item->choice);
    if (sub->choices[item->choice].finish != CHOICE_RUNNING)
        finish_choice(sub, item->choice, !cancel);
    else if (sub->cut)
        submission_go_on(sub, gen->paused);
    sub->cut = false;
    if (a->is_short || thread->scratch.out.failed) {
        fail_for_memory(gen);
        return;
    }
    send_written(gen, room);
    if (gen->open_choices == 0)
        complete(gen);
    else
        generation_submit_more(gen);
}

void generation_on_run(struct submission *sub, const struct mail *mail,
                       const struct mail_item *item) {
    struct event_thread *thread = sub->thread;
    const struct delivery_run run = {.epoch = mail->epoch,
                                     .attempt = item->attempt,
                                     .choice = item->choice,
                                     .index = item->index,
                                     .count = item->token_count,
                                     .finish = item->finish != WIRE_FINISH_NONE};
    uint32_t skip;
    bool ask;
    switch (delivery_accept(&sub->delivery, &run, thread->now_ms, &skip, &ask)) {
    case DELIVERY_TAKE: take_run(sub, mail, item, skip); break;
    case DELIVERY_GAP:
        if (sub->generation->held)
            break; /* it asks when there is room */
        if (sub->long_runs) {
            sub->missed = true; /* it asks when they are taken */
            break;
        }
        metric_add(METRIC(GAPS), 1);
        if (ask)
            outbox_ask(&thread->outbox, &sub->delivery, item->choice);
        break;
    case DELIVERY_DUPLICATE:
        if (item->token_count)
            metric_add(METRIC(DUPLICATES), 1);
        else if (item->flags & WIRE_DELTA_PROGRESS)
            take_progress(sub, item);
        break;
    case DELIVERY_STALE: metric_add(METRIC(STALE), 1); break;
    case DELIVERY_FINISHED:
        if (ask)
            outbox_cancel(&thread->outbox, sub->delivery.request, sub->delivery.attempt,
                          item->choice);
        break;
    }
}

bool generation_on_piece(struct submission *sub, const struct mail *mail,
                         const struct mail_item *piece) {
    struct event_thread *thread = sub->thread;
    struct u128 request = piece->request;
    generation_on_run(sub, mail, piece);
    if (submission_map_find(&thread->submissions, request) != sub)
        return false;
    const struct delivery *d = &sub->delivery;
    return piece->choice < d->choice_count && !d->choices[piece->choice].finished &&
           d->choices[piece->choice].count >= (uint64_t)piece->index + piece->token_count;
}

void generation_on_long_run_end(struct submission *sub) {
    CHECK(sub->long_runs > 0);
    if (--sub->long_runs || !sub->missed)
        return;
    sub->missed = false;
    sub->generation->held = true;
    if (!sub->generation->paused)
        generation_ask(sub->generation);
}

/* ---- its client reads, or wants no more ---- */

void generation_on_drained(struct generation *gen) {
    gen->unread_bytes = 0;
    generation_set_paused(gen, false);
    generation_ask(gen);
    for (uint32_t i = 0; i < gen->submission_count; i++)
        if (gen->submissions[i].long_runs)
            long_runs_wake(&gen->thread->long_runs, gen->submissions[i].delivery.request);
    turn_ask_for_piece(gen->thread);
}

/* Ends what still runs of a submission. */
static void abort_choices(struct submission *sub) {
    struct answer *a = &sub->generation->answer;
    struct delivery *d = &sub->delivery;
    for (uint32_t i = 0; i < d->choice_count; i++) {
        if (sub->choices[i].finish != CHOICE_RUNNING)
            continue;
        if (d->submitted)
            outbox_cancel(&sub->thread->outbox, d->request, d->attempt, i);
        answer_end_choice(a, &sub->choices[i], CHOICE_ABORTED);
        finish_choice(sub, i, false);
    }
}

void generation_abort(struct generation *gen) {
    struct answer *a = &gen->answer;
    struct event_thread *thread = gen->thread;
    if (gen->state != GENERATION_RUNNING || gen->terms.prepared.kind) { /* there is nothing of it */
        struct api_error err;
        api_error_set(&err, API_BAD_REQUEST, NULL, "the request was aborted, as its client asked");
        generation_fail(gen, &err);
        return;
    }
    if (answer_is_heard(a) && a->stream && !a->begun)
        (void)answer_begin(a, thread->now_ms);
    buf_reset(&thread->scratch.out);
    for (uint32_t i = 0; i < gen->submission_count; i++)
        abort_choices(&gen->submissions[i]);
    (void)answer_flush(a, thread->now_ms);
    complete(gen);
}

/* ---- rejections ---- */

static const struct {
    enum api_fault fault;
    const char *text;
} rejections[] = {
    [WIRE_REJECT_OVERLOADED] = {API_OVERLOADED, "the server is busy; try again later"},
    [WIRE_REJECT_NO_MODEL] = {API_MODEL_NOT_FOUND, "the model is not served any more"},
    [WIRE_REJECT_INVALID] = {API_BAD_REQUEST, "the request was refused"},
    [WIRE_REJECT_TOO_LONG] = {API_CONTEXT_LENGTH,
                              "the request does not fit this model's context or cache"},
    [WIRE_REJECT_DEADLINE] = {API_TIMEOUT, "the request took longer than this server allows"},
    [WIRE_REJECT_POISON] = {API_INTERNAL, "this request makes the model's process fail"},
    [WIRE_REJECT_DRAINING] = {API_UNAVAILABLE, "this server is shutting down"},
    [WIRE_REJECT_REVISION] = {API_UNAVAILABLE, "the model this answer began on is gone"},
    [WIRE_REJECT_UNSUPPORTED] = {API_UNSUPPORTED,
                                 "this model does not offer what the request asks for"},
    [WIRE_REJECT_UNKNOWN] = {API_INTERNAL, "the request was lost"},
    [WIRE_REJECT_TENANT_REQUESTS] = {API_OVERLOADED, "this API key has too many requests running"},
    [WIRE_REJECT_TENANT_TOKENS] = {API_OVERLOADED, "this API key has used its tokens a minute"},
    [WIRE_REJECT_OLD_WORKERS] = {API_UNSUPPORTED,
                                 "the workers of this model are too old for what the request "
                                 "asks for"},
};

/* The scheduler has no such model, or takes nothing, *now*: it may have just started. */
static bool may_come_back(const struct generation *gen, uint32_t code) {
    return (code == WIRE_REJECT_NO_MODEL || code == WIRE_REJECT_DRAINING) &&
           (gen->answer.begun || gen->thread->now_ms < gen->wait_until_ms);
}

/* For a bound of its key. */
static void count_refusal(const struct generation *gen, uint32_t code) {
    struct metric *key = gen->key_metrics;
    if (!key || (code != WIRE_REJECT_TENANT_REQUESTS && code != WIRE_REJECT_TENANT_TOKENS))
        return;
    bool tokens = code == WIRE_REJECT_TENANT_TOKENS;
    metric_add_label(&key[KEY_METRIC_REFUSED], tokens ? KEY_BOUND_TOKENS : KEY_BOUND_REQUESTS, 1);
}

void generation_on_reject(struct submission *sub, const struct mail_reject *reject) {
    struct generation *gen = sub->generation;
    struct api_error err;
    if (reject->attempt != sub->delivery.attempt || delivery_is_done(&sub->delivery))
        return;
    if (reject->code == WIRE_REJECT_MOVED) {
        api_error_stream_taken(&err);
        gen->terms.detach = true; /* whoever has it now goes on */
        generation_fail(gen, &err);
        return;
    }
    if (reject->code == WIRE_REJECT_UNKNOWN) {
        submission_resubmit(sub, gen->paused);
        return;
    }
    if (may_come_back(gen, reject->code)) {
        submission_retry(sub);
        return;
    }
    count_refusal(gen, reject->code);
    bool known = reject->code >= 1 && reject->code < ARRAY_LEN(rejections);
    size_t row = known ? reject->code : WIRE_REJECT_UNKNOWN;
    api_error_set(&err, rejections[row].fault, NULL, "%s",
                  reject->text[0] ? reject->text : rejections[row].text);
    if (reject->retry_after_ms)
        err.retry_after_ms = reject->retry_after_ms;
    generation_fail(gen, &err);
}
