#include "gateway/submission.h"

#include "gateway/gateway_metrics.h"
#include "gateway/scheduler_link.h"
#include "proto/codec.h"

/* ---- life ---- */

static bool is_special_alone(const struct tokenizer *t, const struct token_vec *prompt) {
    for (size_t i = 0; i < prompt->count; i++)
        if (!tokenizer_is_special(t, prompt->items[i]))
            return false;
    return true;
}

int submission_init(struct submission *sub, struct generation *generation,
                    struct event_thread *thread, struct submit_terms *terms, struct u128 request,
                    uint32_t prompt_idx, uint32_t choice_count, struct choice_config *config,
                    struct error *err) {
    struct prepared *prepared = &terms->prepared;
    CHECK(prompt_idx < prepared->prompt_count && choice_count <= WIRE_MAX_CHOICES);
    *sub = (struct submission){.generation = generation,
                               .thread = thread,
                               .terms = terms,
                               .prompt = prepared->prompts[prompt_idx],
                               .max_tokens = prepared->max_tokens[prompt_idx]};
    prepared->prompts[prompt_idx] = (struct token_vec){0};
    delivery_init(&sub->delivery, request, choice_count);
    sub->choices = mem_calloc(choice_count, sizeof *sub->choices);
    sub->token_us = mem_calloc(choice_count, sizeof *sub->token_us);
    submission_map_add(&thread->submissions, request, sub);
    config->begins_text = is_special_alone(config->tokenizer, &sub->prompt);
    for (uint32_t i = 0; i < choice_count; i++)
        if (choice_init(&sub->choices[i], prompt_idx * choice_count + i, config, err))
            return err->code;
    return 0;
}

void submission_release(struct submission *sub) {
    struct delivery *d = &sub->delivery;
    struct outbox *outbox = &sub->thread->outbox;
    bool cancelled = !delivery_is_done(d) && d->submitted;
    if (cancelled && sub->terms->detach)
        outbox_detach(outbox, d->request, d->attempt);
    else if (cancelled)
        outbox_cancel(outbox, d->request, d->attempt, WIRE_ALL_CHOICES);
    outbox_finish_acks(outbox, d, !cancelled);
    submission_map_remove(&sub->thread->submissions, d->request);
    for (uint32_t i = 0; i < d->choice_count; i++)
        choice_release(&sub->choices[i]);
    mem_free(sub->choices);
    mem_free(sub->token_us);
    vec_release(&sub->prompt);
    delivery_release(d);
}

/* ---- to the scheduler ---- */

static void send_submit(struct submission *sub) {
    const struct submit_terms *terms = sub->terms;
    const struct delivery *d = &sub->delivery;
    struct wire_choice choices[WIRE_MAX_CHOICES];
    bool emitted = false;
    for (uint32_t i = 0; i < d->choice_count; i++) {
        choices[i] = (struct wire_choice){
            i, {d->choices[i].ids, d->choices[i].count}, d->choices[i].finished};
        emitted |= d->choices[i].count > 0;
    }
    int64_t left_ms = terms->deadline_ms ? MAX(terms->deadline_ms - sub->thread->now_ms, 1) : 0;
    struct wire_submit submit = {
        .request = d->request,
        .attempt = d->attempt,
        .kind = WIRE_GENERATE,
        .model = bytes_str(terms->model->name),
        .prompt = {sub->prompt.items, sub->prompt.count},
        .sampling = terms->prepared.sampling,
        .stop_tokens = {terms->prepared.stop_tokens, terms->prepared.stop_token_count},
        .max_tokens = sub->max_tokens,
        .choices = choices,
        .choice_count = d->choice_count,
        .deadline_ms = (uint32_t)MIN(left_ms, UINT32_MAX),
        .priority = terms->priority,
        .tenant = terms->tenant,
        .cache_salt = buf_bytes(&terms->cache_salt),
        .presentation = buf_bytes(&terms->presentation),
        .grammar_kind = terms->prepared.grammar.len ? WIRE_GRAMMAR_STRUCTURE : WIRE_GRAMMAR_NONE,
        .grammar = buf_bytes(&terms->prepared.grammar),
        .resumed = d->resumed,
        .resumable = terms->stream.len > 0,
        .stream = buf_bytes(&terms->stream)};
    if (emitted) {
        submit.revision = terms->model->revision;
        submit.fingerprint = sub->fingerprint;
    }
    submit.sampling.min_tokens = MIN(submit.sampling.min_tokens, sub->max_tokens);
    struct buf payload;
    buf_init(&payload, 0);
    message_pack_submit(&submit, &payload);
    uint64_t most = sub->thread->gw->settings.submit_max;
    sub->too_large = payload.len > (most ? most : (uint64_t)WIRE_MAX_FRAME);
    if (sub->too_large) {
        buf_release(&payload);
        return;
    }
    scheduler_link_send(sub->thread->outbox.link, WIRE_SUBMIT, &payload);
}

void submission_submit(struct submission *sub) {
    struct event_thread *thread = sub->thread;
    if (!thread->registered)
        return;
    delivery_submitted(&sub->delivery, thread->epoch, thread->now_ms);
    send_submit(sub);
}

void submission_resubmit(struct submission *sub, bool paused) {
    if (delivery_is_done(&sub->delivery))
        return;
    if (sub->delivery.submitted)
        metric_add(&gateway_metrics[GATEWAY_METRIC_RESUBMITS], 1);
    delivery_restart(&sub->delivery, sub->thread->epoch);
    submission_submit(sub);
    if (paused)
        outbox_pause(&sub->thread->outbox, &sub->delivery, true);
}

void submission_retry(struct submission *sub) {
    metric_add(&gateway_metrics[GATEWAY_METRIC_RESUBMITS], 1);
    delivery_retry(&sub->delivery);
}

void submission_tick(struct submission *sub) {
    struct delivery *d = &sub->delivery;
    switch (delivery_due(d, sub->thread->now_ms)) {
    case DELIVERY_SUBMIT: send_submit(sub); break;
    case DELIVERY_ASK:
        for (uint32_t i = 0; i < d->choice_count; i++)
            if (!d->choices[i].finished)
                outbox_ask(&sub->thread->outbox, d, i);
        break;
    case DELIVERY_NOTHING: break;
    }
}
