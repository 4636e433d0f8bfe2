#include "gateway/answers/answer.h"

#include "gateway/answers/error_response.h"
#include "gateway/answers/gather.h"
#include "gateway/answers/whole_body.h"
#include "gateway/dialects/anthropic.h"
#include "gateway/dialects/embed.h"
#include "gateway/dialects/labels.h"
#include "gateway/dialects/responses.h"
#include "gateway/dialects/sglang.h"
#include "gateway/dialects/tgi.h"
#include "gateway/watch/gateway_metrics.h"

#include <inttypes.h>
#include <math.h>

void answer_release(struct answer *a) {
    gather_leave(&a->gather);
    response_release(&a->writer);
    buf_release(&a->verbose);
    buf_release(&a->shown_fields);
    responses_state_free(&a->responses);
    sglang_state_free(&a->sglang);
    tgi_state_free(&a->tgi);
    event_ids_release(&a->ids);
    buf_release(&a->embed.texts);
    vec_release(&a->embed.text_ends);
}

const struct answer_form *answer_form_of(enum genreq_dialect dialect) {
    static const struct answer_form *const FORMS[GENREQ_DIALECT_COUNT] = {
        [GENREQ_CHAT] = &answer_openai,
        [GENREQ_COMPLETIONS] = &answer_openai,
        [GENREQ_MESSAGES] = &answer_anthropic,
        [GENREQ_OLLAMA_CHAT] = &answer_ollama,
        [GENREQ_OLLAMA_GENERATE] = &answer_ollama,
        [GENREQ_RESPONSES] = &answer_responses,
        [GENREQ_COMPLETION] = &answer_llama,
        [GENREQ_INFILL] = &answer_llama,
        [GENREQ_EMBEDDINGS] = &answer_embeddings,
        [GENREQ_LLAMA_EMBEDDING] = &answer_llama_embedding,
        [GENREQ_OLLAMA_EMBED] = &answer_ollama_embed,
        [GENREQ_OLLAMA_EMBEDDINGS] = &answer_ollama_embed,
        [GENREQ_RERANK] = &answer_rerank,
        [GENREQ_SCORE] = &answer_score,
        [GENREQ_POOLING] = &answer_pooling,
        [GENREQ_CLASSIFY] = &answer_classify,
        [GENREQ_COHERE_EMBED] = &answer_cohere_embed,
        [GENREQ_GENERATE] = &answer_sglang,
        [GENREQ_TGI] = &answer_tgi,
        [GENREQ_TGI_STREAM] = &answer_tgi,
        [GENREQ_TGI_ROOT] = &answer_tgi,
        [GENREQ_TOKENS] = &answer_tokens,
        [GENREQ_ENCODE] = &answer_encode,
        [GENREQ_GENERATIVE_SCORING] = &answer_labels,
        [GENREQ_LABEL_SCORES] = &answer_labels,
        [GENREQ_PPL] = &answer_labels,
    };
    CHECK((size_t)dialect < ARRAY_LEN(FORMS));
    return FORMS[dialect];
}

/* ---- what all choices say ---- */

const struct submission *answer_submission_of(const struct answer *a, const struct choice *c) {
    const struct submission *sub = a->submissions;
    while (c < sub->choices || c >= sub->choices + sub->delivery.choice_count)
        sub++;
    return sub;
}

struct usage answer_usage(const struct answer *a) {
    struct usage u = {.other_fingerprint = a->other_fingerprint};
    for (uint32_t i = 0; i < a->submission_count; i++) {
        const struct submission *sub = &a->submissions[i];
        u.prompt_tokens += (uint32_t)sub->prompt.count;
        u.cached_tokens += sub->cached_tokens;
        for (uint32_t j = 0; j < sub->delivery.choice_count; j++) {
            const struct choice *c = &sub->choices[j];
            u.completion_tokens += c->token_count;
            u.reasoning_tokens += c->thought_count;
            u.reasons |= c->parser && c->parse.reasoning;
        }
    }
    return u;
}

static void add_timing(const char *kind, uint32_t count, int64_t us, struct buf *out) {
    double ms = (double)MAX(us, 1) / 1000; /* the clock is read once a turn */
    buf_addf(out, "\"%s_n\":%u,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.3f,\"%s_per_second\":%.3f",
             kind, count, kind, ms, kind, count ? ms / count : 0, kind, count * 1000.0 / ms);
}

void answer_write_timings(const struct answer *a, struct buf *out) {
    const struct answer_times *t = &a->times;
    struct usage u = answer_usage(a);
    buf_addf(out, ",\"timings\":{\"cache_n\":%u,", u.cached_tokens);
    add_timing("prompt", u.prompt_tokens - u.cached_tokens, t->first_us - t->submit_us, out);
    buf_add_byte(out, ',');
    add_timing("predicted", u.completion_tokens, t->end_us - t->first_us, out);
    buf_add_byte(out, '}');
}

void answer_write_progress(const struct answer *a, const struct choice *c,
                           const struct prompt_progress *p, struct buf *out) {
    buf_addf(
        out,
        ",\"prompt_progress\":{\"total\":%zu,\"cache\":%u,\"processed\":%u,\"time_ms\":%" PRId64
        "}",
        answer_submission_of(a, c)->prompt.count, p->cached, p->processed, p->us / 1000);
}

bool answer_all_ended(const struct answer *a, enum choice_finish finish) {
    for (uint32_t i = 0; i < a->submission_count; i++)
        for (uint32_t j = 0; j < a->submissions[i].delivery.choice_count; j++)
            if (a->submissions[i].choices[j].finish != finish)
                return false;
    return true;
}

/* ---- the client ---- */

/* The form has written events of a source behind `from`. */
static void mark(struct answer *a, uint32_t source, size_t from) {
    if (event_ids_are_on(&a->ids))
        event_ids_mark(&a->ids, source, &a->scratch->out, from);
}

bool answer_flush(struct answer *a, int64_t now_ms) {
    const struct buf *out = &a->scratch->out;
    if (!answer_is_heard(a) || !out->len)
        return true;
    CHECK(a->begun);
    a->wrote_ms = now_ms;
    if (a->background) {
        responses_put(a, buf_bytes(out));
        return true;
    }
    return http_stream_write(a->http, out->data, out->len);
}

bool answer_begin(struct answer *a, int64_t now_ms) {
    const struct http_field fields[] = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    CHECK(answer_is_heard(a) && a->stream && !a->begun);
    a->begun = true;
    if (a->http)
        http_stream_begin(a->http, 200, a->form->stream_type, fields, ARRAY_LEN(fields));
    buf_reset(&a->scratch->out);
    a->form->begin(a, &a->scratch->out);
    mark(a, 0, 0);
    return answer_flush(a, now_ms);
}

bool answer_ping(struct answer *a, int64_t now_ms) {
    buf_reset(&a->scratch->out);
    buf_add_str(&a->scratch->out, a->form->ping);
    return answer_flush(a, now_ms);
}

/* ---- one token ---- */

/* Whether a stream has an event for each token, with or without text. */
static bool is_verbose(const struct answer *a) {
    return a->logprobs || a->token_ids;
}

/* Adds a token's extras (log-probabilities, its id) to what the choice collects for its next event
 * or its final object. */
static void collect_extras(struct answer *a, struct choice *c, const struct answer_token *token) {
    const struct tokenizer *t = c->detok.tokenizer;
    if (a->logprobs && token->logprobs.count) {
        struct token_logprobs shown = token->logprobs;
        shown.count = MIN(shown.count, 1 + a->top_logprobs);
        const struct token_names names = {t, a->tokens_as_ids};
        response_logprobs_entry(a->writer.dialect, &names, &shown, c->text_chars, &c->logprobs);
        if (!(c->detok.flags & DETOKENIZE_SKIP_SPECIAL && tokenizer_is_special(t, token->id)))
            c->text_chars += response_token_chars(t, token->id);
    }
    if (!a->token_ids || c->echo_count)
        return;
    if (c->ids.len)
        buf_add_byte(&c->ids, ',');
    buf_add_u64(&c->ids, token->id);
}

void answer_write_extras(struct answer *a, const struct choice *c) {
    struct scratch *s = a->scratch;
    buf_reset(&s->entries);
    buf_reset(&s->extra);
    if (c->logprobs.len)
        response_logprobs_value(a->writer.dialect, buf_bytes(&c->logprobs), &s->entries);
    if (a->token_ids) {
        buf_add_str(&s->extra, ",\"token_ids\":[");
        buf_add_bytes(&s->extra, buf_bytes(&c->ids));
        buf_add_byte(&s->extra, ']');
    }
    a->is_short |= s->entries.failed || s->extra.failed;
}

/* By the mean of their tokens' log-probabilities, as OpenAI has it; of equals the earlier one. */
static bool is_better(const struct choice *a, const struct choice *b) {
    double x = a->logprob_sum / MAX(a->token_count, 1u),
           y = b->logprob_sum / MAX(b->token_count, 1u);
    return x > y || (x == y && a->index < b->index);
}

const struct choice *answer_shown(const struct answer *a, uint32_t submission, uint32_t k,
                                  uint32_t *index) {
    const struct submission *sub = &a->submissions[submission];
    uint32_t made = sub->delivery.choice_count, shown = a->best_count ? a->best_count : made;
    if (k >= shown)
        return NULL;
    *index = submission * shown + k;
    for (uint32_t i = 0; i < made && a->best_count; i++) {
        uint32_t before = 0;
        for (uint32_t j = 0; j < made; j++)
            before += is_better(&sub->choices[j], &sub->choices[i]);
        if (before == k)
            return &sub->choices[i];
    }
    return &sub->choices[k];
}

/* A token of the prompt, which every choice of it computes: the first one keeps it. */
static void note_prompt_token(const struct answer *a, struct choice *c,
                              const struct token_logprobs *lp) {
    const struct submission *sub = a->submissions, *end = sub + a->submission_count;
    while (sub < end && c != sub->choices)
        sub++;
    if (sub == end)
        return;
    if (genreq_scores_tokens(a->writer.dialect)) {
        if (lp->count && !isnan(lp->values[0])) /* the first of a text has none */
            c->logprob_sum += (double)lp->values[0];
        return;
    }
    struct token_logprobs shown = *lp;
    shown.count = MIN(shown.count, 1 + a->top_prompt_logprobs);
    const bool is_named = a->writer.dialect == GENREQ_GENERATE || genreq_is_tgi(a->writer.dialect);
    if (is_named && !lp->count) /* it came without; an entry begins with the token's own */
        return;
    if (a->writer.dialect == GENREQ_GENERATE) {
        static const float NONE = NAN; /* where SGLang begins, it tells the token alone */
        size_t place = sub->prompt.count - c->echo_count;
        if (place == a->prompt_logprobs_from)
            shown = (struct token_logprobs){lp->ids, &NONE, 1};
        const struct token_names names = {c->detok.tokenizer, a->tokens_as_ids};
        if (place >= a->prompt_logprobs_from)
            response_logprobs_entry(GENREQ_GENERATE, &names, &shown, 0, &c->prompt_logprobs);
        return;
    }
    if (genreq_is_tgi(a->writer.dialect))
        response_prefill_entry(c->detok.tokenizer, &shown, &c->prompt_logprobs);
    else
        response_prompt_logprobs_entry(c->detok.tokenizer, &shown, &c->prompt_logprobs);
}

/* An event with the text in scratch->piece and what was collected. */
static void add_event(struct answer *a, struct choice *c) {
    struct scratch *s = a->scratch;
    struct bytes logprobs = {0}, extra = {0};
    if (is_verbose(a)) {
        answer_write_extras(a, c);
        logprobs = buf_bytes(&s->entries);
        extra = buf_bytes(&s->extra);
        buf_reset(&c->logprobs);
        buf_reset(&c->ids);
    }
    const struct response_text text = {buf_bytes(&s->piece), buf_bytes(&c->reasoning),
                                       buf_bytes(&c->calls)};
    size_t from = s->out.len;
    a->form->text(a, c, &text, logprobs, extra, &s->out);
    mark(a, 1 + c->index, from);
    buf_reset(&c->reasoning);
    buf_reset(&c->calls);
}

/* Where the next text of a choice goes. */
static struct buf *begin_text(struct answer *a, struct choice *c) {
    if (!a->stream)
        return &c->text;
    buf_reset(&a->scratch->piece);
    return &a->scratch->piece;
}

/* Whether there is something to say of a choice that streams. */
static bool has_news(const struct choice *c, const struct buf *text) {
    return text->len || c->reasoning.len || c->calls.len;
}

/* Before buffers are emptied for what follows. */
static void note_failures(struct answer *a, const struct choice *c) {
    a->is_short |= choice_is_short(c) || (a->stream && a->scratch->piece.failed);
}

bool answer_feed(struct answer *a, struct choice *c, const struct answer_token *token) {
    CHECK(c->finish == CHOICE_RUNNING);
    if (c->echo_count && a->prompt_logprobs)
        note_prompt_token(a, c, &token->logprobs);
    if (c->echo_count && a->hides_echo) {
        c->echo_count--;
        note_failures(a, c);
        return false;
    }
    if (a->best_count && !c->echo_count && token->logprobs.count)
        c->logprob_sum += (double)token->logprobs.values[0];
    struct buf *text = begin_text(a, c);
    if (is_verbose(a))
        collect_extras(a, c, token);
    bool ended = true;
    if (token->is_stop)
        choice_push_stop(c, token->id, text);
    else
        ended = choice_push(c, token->id, text);
    note_failures(a, c);
    if (a->stream && (is_verbose(a) || has_news(c, text)))
        add_event(a, c);
    return ended;
}

void answer_end_choice(struct answer *a, struct choice *c, enum choice_finish finish) {
    CHECK(c->finish == CHOICE_RUNNING);
    struct buf *text = begin_text(a, c);
    choice_end(c, finish, text);
    note_failures(a, c);
    if (a->stream && has_news(c, text))
        add_event(a, c);
}

void answer_take_vector(struct answer *a, struct choice *c, const float *values, uint32_t width) {
    CHECK(c->finish == CHOICE_RUNNING && !a->stream && !c->text.len);
    embed_write(&a->embed, values, width, &c->text);
    note_failures(a, c);
    c->finish = CHOICE_STOP;
}

void answer_finish_choice(struct answer *a, const struct choice *c) {
    CHECK(c->finish != CHOICE_RUNNING);
    if (!a->stream || !answer_is_heard(a))
        return;
    size_t from = a->scratch->out.len;
    a->form->finish(a, c, &a->scratch->out);
    mark(a, 1 + c->index, from);
}

/* ---- the end ---- */

/* The request is not ours any more. */
static struct http_request *leave(struct answer *a) {
    struct http_request *http = a->http;
    a->http = NULL;
    return http;
}

uint64_t answer_choice_bytes(const struct choice *c) {
    return (uint64_t)c->text.len + c->logprobs.len + c->ids.len + c->reasoning.len + c->calls.len +
           c->prompt_logprobs.len;
}

bool answer_whole(struct answer *a, struct gateway *gw, struct u128 tenant, uint64_t room) {
    struct buf *out = &a->scratch->out;
    CHECK(answer_is_heard(a) && !a->stream);
    buf_reset(out);
    a->form->whole(a, out);
    if (a->is_short || out->failed)
        return false;
    if (a->gather)
        gather_put(a->gather, a->gather_idx, buf_bytes(out), room);
    else if (!a->background)
        whole_body_send(gw, leave(a), out, tenant, room);
    return true;
}

void answer_end(struct answer *a) {
    struct buf *out = &a->scratch->out;
    CHECK(answer_is_heard(a) && a->begun);
    buf_reset(out);
    a->form->end(a, out);
    mark(a, 0, 0);
    if (a->background)
        return;
    http_stream_write(a->http, out->data, out->len);
    http_stream_end(leave(a));
    gateway_metrics_answer(200);
}

void answer_softmax(double *values, uint32_t count) {
    double most = values[0], sum = 0;
    for (uint32_t i = 1; i < count; i++)
        most = MAX(most, values[i]);
    for (uint32_t i = 0; i < count; i++) {
        values[i] = exp(values[i] - most);
        sum += values[i];
    }
    for (uint32_t i = 0; i < count; i++)
        values[i] /= sum;
}

void answer_fail(struct answer *a, enum genreq_dialect dialect, const struct api_error *err) {
    struct buf *out = &a->scratch->out;
    if (!answer_is_heard(a))
        return;
    if (a->gather) {
        gather_fail(a->gather, err);
        return;
    }
    if (!a->begun && !a->background) {
        error_respond_in(leave(a), dialect, err);
        return;
    }
    buf_reset(out);
    a->form->error(a, err, out);
    if (a->background)
        return;
    http_stream_write(a->http, out->data, out->len);
    http_stream_end(leave(a));
    gateway_metrics_answer(err->status);
}
