#include "gateway/generation/submission.h"

#include "gateway/link/scheduler_link.h"
#include "gateway/watch/gateway_metrics.h"
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
                               .max_tokens = prepared->max_tokens[prompt_idx],
                               .prompt_idx = prompt_idx};
    prepared->prompts[prompt_idx] = (struct token_vec){0};
    delivery_init(&sub->delivery, request, choice_count);
    sub->choices = mem_calloc(choice_count, sizeof *sub->choices);
    sub->token_us = mem_calloc(choice_count, sizeof *sub->token_us);
    submission_map_add(&thread->submissions, request, sub);
    config->begins_text = (prepared->echo && !prepared->hides_echo) ||
                          is_special_alone(config->tokenizer, &sub->prompt);
    for (uint32_t i = 0; i < choice_count; i++) {
        if (choice_init(&sub->choices[i], prompt_idx * choice_count + i, config, err))
            return err->code;
        sub->choices[i].echo_count = !prepared->echo       ? 0
                                     : prepared->echo_last ? prepared->echo_last
                                                           : (uint32_t)sub->prompt.count;
    }
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
    if (sub->long_runs)
        long_runs_drop(&sub->thread->long_runs, d->request);
    for (uint32_t i = 0; i < d->choice_count; i++)
        choice_release(&sub->choices[i]);
    mem_free(sub->choices);
    mem_free(sub->token_us);
    vec_release(&sub->prompt);
    delivery_release(d);
}

/* ---- to the scheduler ---- */

/* The first token of the prompt that is computed as output. */
static size_t echo_start(const struct submission *sub) {
    uint32_t last = sub->terms->prepared.echo_last;
    CHECK(last < sub->prompt.count);
    return last ? sub->prompt.count - last : 1;
}

static bool has_stop_token(const struct submission *sub) {
    const struct prepared *p = &sub->terms->prepared;
    for (size_t i = echo_start(sub); i < sub->prompt.count; i++)
        for (uint32_t k = 0; k < p->stop_token_count; k++)
            if (sub->prompt.items[i] == p->stop_tokens[k])
                return true;
    return false;
}

/* The prompt, or its end, as output. One with a stop token must not end there: the gateway looks for its end. */
static void submit_echo(const struct submission *sub, struct wire_submit *submit,
                        struct buf *grammar) {
    size_t start = echo_start(sub), forced = sub->prompt.count - start;
    for (size_t i = start; i < sub->prompt.count; i++) {
        if (i > start)
            buf_add_byte(grammar, ',');
        buf_add_u64(grammar, sub->prompt.items[i]);
    }
    submit->prompt.count = start;
    submit->max_tokens = MAX(sub->max_tokens + (uint32_t)forced, 1u);
    if (grammar->len) {
        submit->grammar_kind = WIRE_GRAMMAR_TOKENS;
        submit->grammar = buf_bytes(grammar);
    }
    if (has_stop_token(sub))
        submit->stop_tokens.count = 0;
}

static void send_submit(struct submission *sub) {
    const struct submit_terms *terms = sub->terms;
    const struct delivery *d = &sub->delivery;
    struct wire_choice choices[WIRE_MAX_CHOICES];
    bool emitted = false;
    for (uint32_t i = 0; i < d->choice_count; i++) {
        choices[i] = (struct wire_choice){.choice = i,
                                          .emitted = {d->choices[i].ids, d->choices[i].count},
                                          .finished = d->choices[i].finished,
                                          .sampler_state = d->choices[i].sampler_state};
        emitted |= d->choices[i].count > 0;
    }
    int64_t left_ms = terms->deadline_ms ? MAX(terms->deadline_ms - sub->thread->now_ms, 1) : 0;
    const struct auth_limits limits = auth_limits(&sub->thread->gw->auth, terms->tenant);
    struct wire_submit submit = {
        .request = d->request,
        .attempt = d->attempt,
        .kind = terms->prepared.kind ? terms->prepared.kind : WIRE_GENERATE,
        .model = bytes_str(terms->model->name),
        .prompt = {sub->prompt.items, sub->prompt.count},
        .sampling = terms->prepared.sampling,
        .stop_tokens = {terms->prepared.stop_tokens, terms->prepared.stop_token_count},
        .max_tokens = MAX(sub->max_tokens, 1u), /* of none wanted, one is dropped */
        .choices = choices,
        .choice_count = d->choice_count,
        .deadline_ms = (uint32_t)MIN(left_ms, UINT32_MAX),
        .priority = terms->priority,
        .tenant = terms->tenant,
        .share = terms->holder,
        .tenant_requests = limits.requests,
        .tenant_minute_tokens = limits.minute_tokens,
        .tenant_weight = limits.weight,
        .tenant_taken = sub->prompt_idx > 0 || terms->counted,
        .cache_salt = buf_bytes(&terms->cache_salt),
        .presentation = buf_bytes(&terms->presentation),
        .grammar_kind = terms->prepared.grammar.len ? WIRE_GRAMMAR_STRUCTURE : WIRE_GRAMMAR_NONE,
        .grammar = buf_bytes(&terms->prepared.grammar),
        .resumed = d->resumed,
        .resumable = terms->stream.len > 0,
        .stream = buf_bytes(&terms->stream),
        .bundle = terms->model->text->bundle,
        .progress = terms->progress};
    if (emitted) {
        submit.revision = terms->model->revision;
        submit.fingerprint = sub->fingerprint;
    }
    submit.sampling.min_tokens = MIN(submit.sampling.min_tokens, sub->max_tokens);
    if (terms->prepared.first_counts)
        submit.sampling.first_count = terms->prepared.first_counts[sub->prompt_idx];
    struct buf payload, echo = {0};
    buf_init(&payload, 0);
    if (terms->prepared.echo)
        submit_echo(sub, &submit, &echo);
    message_pack_submit(&submit, &payload);
    buf_release(&echo);
    uint64_t most = sub->thread->gw->settings.submit_max;
    sub->too_large = payload.len > (most ? most : (uint64_t)WIRE_MAX_FRAME);
    sub->no_memory = payload.failed;
    if (sub->too_large || sub->no_memory) {
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

void submission_go_on(struct submission *sub, bool paused) {
    CHECK(!delivery_is_done(&sub->delivery));
    delivery_retry(&sub->delivery);
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
        if (sub->thread->gw->settings.trusts_quiet)
            break;
        for (uint32_t i = 0; i < d->choice_count; i++)
            if (!d->choices[i].finished)
                outbox_ask(&sub->thread->outbox, d, i);
        break;
    case DELIVERY_NOTHING: break;
    }
}
