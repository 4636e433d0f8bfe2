#include "base/hash.h"
#include "scheduler/core/core.h"
#include "scheduler/core/deliver.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/models.h"
#include "scheduler/core/sequence_state.h"
#include "scheduler/core/timer.h"

#include <math.h>

/* ---- What came in ---- */

/* Whatever a gateway says: a logit over or times a penalty stays a number. */
#define PENALTY_LEAST 1e-3f
#define PENALTY_MOST  1e3f

/* Steering must not leave what a float holds in as many tokens as a sequence may have. */
#define STEERING_MOST 1e3f

static bool rules_are_valid(const struct wire_sampling *p) {
    bool adapts = p->steering == WIRE_STEERING_ADAPTIVE;
    return p->typical_p >= 0 && p->typical_p <= 1 && p->xtc_probability >= 0 &&
           p->xtc_probability <= 1 && p->xtc_threshold >= 0 && p->xtc_threshold <= 1 &&
           p->temperature_range >= 0 && p->temperature_exponent >= 0 && p->dry_multiplier >= 0 &&
           p->dry_base >= 0 && p->dry_breakers.len <= WIRE_MAX_TOKEN_BITS &&
           p->allowed.len <= WIRE_MAX_TOKEN_BITS && p->bad_words.count <= WIRE_MAX_BAD_WORDS &&
           fabsf(p->target) <= STEERING_MOST && p->rate >= 0 &&
           p->rate <= (adapts ? 0.99f : STEERING_MOST);
}

static bool sampling_is_valid(const struct wire_sampling *p) {
    const float all[] = {p->temperature,
                         p->top_p,
                         p->min_p,
                         p->top_n_sigma,
                         p->repetition_penalty,
                         p->presence_penalty,
                         p->frequency_penalty,
                         p->typical_p,
                         p->xtc_probability,
                         p->xtc_threshold,
                         p->temperature_range,
                         p->temperature_exponent,
                         p->dry_multiplier,
                         p->dry_base,
                         p->target,
                         p->rate};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (!isfinite(all[i]))
            return false;
    return p->temperature >= 0 && p->top_p > 0 && p->top_p <= 1 && p->min_p >= 0 && p->min_p < 1 &&
           p->top_n_sigma >= 0 && p->repetition_penalty >= PENALTY_LEAST &&
           p->repetition_penalty <= PENALTY_MOST && p->logprobs >= -1 &&
           p->logprobs <= WIRE_MAX_TOP_LOGPROBS && p->bias_ids.count == p->bias_values.count &&
           p->bias_ids.count <= WIRE_MAX_LOGIT_BIAS && rules_are_valid(p);
}

static bool choices_are_valid(const struct wire_submit *submit) {
    bool seen[WIRE_MAX_CHOICES] = {0}, open = submit->choice_count == 0,
         generates = submit->kind == WIRE_GENERATE;
    if (submit->choice_count > (generates ? (size_t)WIRE_MAX_CHOICES : 1))
        return false;
    for (size_t i = 0; i < submit->choice_count; i++) {
        const struct wire_choice *choice = &submit->choices[i];
        if (choice->choice >= WIRE_MAX_CHOICES || seen[choice->choice])
            return false;
        if (choice->emitted.count > (generates ? submit->max_tokens : 0))
            return false;
        seen[choice->choice] = true;
        open = open || !choice->finished;
    }
    return open;
}

enum wire_reject_code submit_check(const struct wire_submit *submit) {
    bool generates = submit->kind == WIRE_GENERATE;
    if (submit->adapter.len || submit->media_count || submit->sampler_state.len)
        return WIRE_REJECT_UNSUPPORTED;
    if (!generates && (submit->resumable || submit->grammar_kind != WIRE_GRAMMAR_NONE))
        return WIRE_REJECT_UNSUPPORTED;
    if (submit->prompt.count > WIRE_MAX_TOKENS)
        return WIRE_REJECT_TOO_LONG;
    bool valid = !u128_is_zero(submit->request) && submit->prompt.count &&
                 submit->max_tokens >= 1 && submit->max_tokens <= WIRE_MAX_TOKENS &&
                 submit->stop_tokens.count <= WIRE_MAX_STOP_TOKENS &&
                 submit->model.len <= WIRE_MAX_TEXT && submit->cache_salt.len <= WIRE_MAX_TEXT &&
                 submit->presentation.len <= WIRE_MAX_PRESENTATION &&
                 submit->stream.len <= WIRE_MAX_STREAM && submit->grammar.len <= WIRE_MAX_GRAMMAR &&
                 choices_are_valid(submit) && sampling_is_valid(&submit->sampling);
    return valid ? 0 : WIRE_REJECT_INVALID;
}

/* ---- Making ---- */

/* Copies an array into the request's blob; every copy starts at a multiple of 8. */
static void *keep(uint8_t **blob, const void *data, size_t bytes) {
    void *at = *blob;
    if (bytes)
        memcpy(at, data, bytes);
    *blob += (bytes + 7) & ~(size_t)7;
    return at;
}

static size_t blob_bytes(const struct wire_submit *submit) {
    const struct wire_sampling *s = &submit->sampling;
    size_t words = submit->prompt.count + submit->stop_tokens.count + 2 * s->bias_ids.count +
                   s->bad_words.count;
    return words * 4 + submit->model.len + submit->cache_salt.len + submit->presentation.len +
           submit->grammar.len + submit->stream.len + s->dry_breakers.len + s->allowed.len + 12 * 8;
}

/* Of a worker: without them it would pass over a part of the request and say nothing. */
static uint64_t features_needed(const struct wire_submit *submit) {
    return sampling_has_lists(&submit->sampling) ? WIRE_FEATURE_TOKEN_LISTS : 0;
}

/* The hash covers the kind too. The key keeps clients from making two grammars one. */
static struct u128 grammar_hash(const struct sched *s, const struct wire_submit *submit) {
    if (submit->grammar_kind == WIRE_GRAMMAR_NONE)
        return (struct u128){0};
    struct u128 hash =
        hash128_keyed(&s->config.cache_key, submit->grammar.data, submit->grammar.len);
    hash.lo += (uint64_t)submit->grammar_kind;
    hash.hi |= 1; /* never zero */
    return hash;
}

static void keep_all(struct request *request, const struct wire_submit *submit, uint8_t *blob) {
    size_t bias = submit->sampling.bias_ids.count;
    request->prompt = (struct tokens){keep(&blob, submit->prompt.ids, submit->prompt.count * 4),
                                      submit->prompt.count};
    request->stop_tokens =
        (struct u32s){keep(&blob, submit->stop_tokens.items, submit->stop_tokens.count * 4),
                      submit->stop_tokens.count};
    request->sampling = submit->sampling;
    request->sampling.bias_ids =
        (struct u32s){keep(&blob, submit->sampling.bias_ids.items, bias * 4), bias};
    request->sampling.bias_values =
        (struct f32s){keep(&blob, submit->sampling.bias_values.items, bias * 4), bias};
    struct bytes breakers = submit->sampling.dry_breakers;
    request->sampling.dry_breakers =
        bytes_of(keep(&blob, breakers.data, breakers.len), breakers.len);
    struct bytes allowed = submit->sampling.allowed;
    request->sampling.allowed = bytes_of(keep(&blob, allowed.data, allowed.len), allowed.len);
    struct u32s bad = submit->sampling.bad_words;
    request->sampling.bad_words = (struct u32s){keep(&blob, bad.items, bad.count * 4), bad.count};
    request->model_name =
        bytes_of(keep(&blob, submit->model.data, submit->model.len), submit->model.len);
    request->salt = bytes_of(keep(&blob, submit->cache_salt.data, submit->cache_salt.len),
                             submit->cache_salt.len);
    request->grammar =
        bytes_of(keep(&blob, submit->grammar.data, submit->grammar.len), submit->grammar.len);
    request->presentation = bytes_of(
        keep(&blob, submit->presentation.data, submit->presentation.len), submit->presentation.len);
    request->stream =
        bytes_of(keep(&blob, submit->stream.data, submit->stream.len), submit->stream.len);
}

/* What was resumed may have been complete already: its finish was lost with the scheduler
 * before. */
enum wire_finish seq_held_finish(const struct sequence *q) {
    const struct request *request = q->request;
    uint32_t output = seq_output_count(q);
    if (!output)
        return WIRE_FINISH_NONE;
    uint32_t last = seq_tokens(q)[q->token_count - 1];
    for (size_t i = 0; i < request->stop_tokens.count; i++)
        if (request->stop_tokens.items[i] == last && output > request->sampling.min_tokens)
            return WIRE_FINISH_STOP;
    bool full = output >= request->max_tokens ||
                (request->model && q->token_count >= request->model->max_capacity);
    return full ? WIRE_FINISH_LENGTH : WIRE_FINISH_NONE;
}

static void sequence_init(struct sched *s, struct sequence *q, struct request *request,
                          const struct wire_choice *choice, struct u128 fingerprint) {
    *q = (struct sequence){.request = request,
                           .number = ++s->next_sequence,
                           .choice = choice->choice,
                           .slot = SLOT_NONE,
                           .snapshot = BLOCK_NONE,
                           .prefill_ms = SEQ_NOT_TOLD,
                           .fingerprint = fingerprint,
                           .prompt_count = (uint32_t)request->prompt.count,
                           .token_count = (uint32_t)request->prompt.count,
                           .tokens_hi = (uint32_t)request->prompt.count};
    if (choice->emitted.count)
        seq_set_output(s, q, choice->emitted, choice->sampler_state);
    q->sent = q->acked = q->sent_high = (uint32_t)choice->emitted.count;
    if (choice->finished) {
        enum wire_finish finish = seq_held_finish(q);
        seq_finished_before(s, q, finish ? finish : WIRE_FINISH_CANCELLED);
    }
}

struct request *request_new(struct sched *s, struct gateway *gateway,
                            const struct wire_submit *submit) {
    static const struct wire_choice only = {0};
    size_t count = MAX(submit->choice_count, 1),
           head = sizeof(struct request) + count * sizeof(struct sequence);
    size_t bytes = head + blob_bytes(submit);
    struct request *request = mem_try_alloc(bytes);
    if (!request)
        return NULL;
    *request =
        (struct request){.id = submit->request,
                         .kind = submit->kind,
                         .attempt = submit->attempt,
                         .revision = submit->revision,
                         .tenant_id = submit->tenant,
                         .share_id = submit_share_id(submit),
                         .bundle = submit->bundle,
                         .max_tokens = submit->kind == WIRE_GENERATE ? submit->max_tokens : 0,
                         .priority = submit->priority,
                         .arrival = ++s->next_arrival,
                         .deadline_at = submit->deadline_ms ? s->now + submit->deadline_ms : NEVER,
                         .resumed = submit->resumed,
                         .resumable = submit->resumable,
                         .progress = submit->progress,
                         .features = features_needed(submit),
                         .grammar_kind = submit->grammar_kind,
                         .grammar_hash = grammar_hash(s, submit),
                         .open_count = (uint32_t)count,
                         .timer_idx = UINT32_MAX,
                         .retransmit_at = NEVER,
                         .probe_at = s->now + s->config.probe_ms,
                         .expire_at = NEVER,
                         .unbound_until = NEVER,
                         .own_bytes = bytes,
                         .sequence_count = (uint32_t)count};
    request->block_holder = block_holder(&s->config.cache_key, request->share_id);
    keep_all(request, submit, (uint8_t *)request + head);
    for (size_t i = 0; i < count; i++)
        sequence_init(s, &request->sequences[i], request,
                      submit->choice_count ? &submit->choices[i] : &only, submit->fingerprint);
    request_move(request, gateway);
    id_map_put(&s->request_ids, request->id, request);
    stream_name(s, request);
    quota_take(s, request, submit);
    s->counts.requests++;
    return request;
}

void request_move(struct request *request, struct gateway *gateway) {
    list_remove(&request->gateway_link);
    for (uint32_t i = 0; i < request->sequence_count; i++)
        list_remove(&request->sequences[i].dirty);
    request->gateway = gateway;
    list_push(&gateway->requests, &request->gateway_link);
}

/* ---- Its model ---- */

static bool below(const uint32_t *ids, size_t count, uint32_t width) {
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = MAX(most, ids[i]);
    return count == 0 || most < width;
}

static bool model_takes(const struct model *model, enum wire_request_kind kind) {
    const struct wire_vectors *v = &model->vectors;
    if (kind == WIRE_GENERATE)
        return !v->only;
    return v->pooling && v->scores == (kind == WIRE_SCORE);
}

static enum wire_reject_code fit_check(const struct request *request, const struct model *model) {
    bool valid = below(request->prompt.ids, request->prompt.count, model->logits_width) &&
                 below(request->sampling.bias_ids.items, request->sampling.bias_ids.count,
                       model->logits_width);
    for (uint32_t i = 0; i < request->sequence_count && valid; i++) {
        const struct sequence *q = &request->sequences[i];
        valid =
            below(seq_tokens(q) + request->prompt.count, seq_output_count(q), model->logits_width);
    }
    if (!valid)
        return WIRE_REJECT_INVALID;
    if (!model_takes(model, request->kind))
        return WIRE_REJECT_UNSUPPORTED;
    if (request->features & ~model->features)
        return WIRE_REJECT_OLD_WORKERS;
    uint32_t more = request_embeds(request) ? 0 : 1;
    return request->prompt.count + more > model->max_capacity ? WIRE_REJECT_TOO_LONG : 0;
}

void request_validate(struct sched *s, struct request *request) {
    if (request->validated || !request->model || !request->model->max_capacity)
        return;
    enum wire_reject_code code = fit_check(request, request->model);
    if (code) {
        request_reject(s, request, code);
        return;
    }
    request->validated = true;
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        struct sequence *q = &request->sequences[i];
        enum wire_finish finish = seq_held_finish(q);
        if (q->finish == WIRE_FINISH_NONE && finish)
            seq_finish(s, q, finish, false);
        else if (q->quiet && finish)
            seq_finished_before(s, q, finish); /* for whoever attaches */
    }
}

/* Those of it that wait count as the model's from now on. before: its tenant among those of no
 * known model; NULL: it was not there, and nothing of it waits. */
static void move_waiting(struct sched *s, const struct request *request, struct tenant *before) {
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        const struct sequence *q = &request->sequences[i];
        if (!seq_is_waiting(q) || seq_is_resumed(q))
            continue;
        CHECK(before && before->new_count);
        before->new_count--;
        s->waiting_unbound--;
        request->model->waiting_new++;
        request->tenant->new_count++;
    }
}

void request_bind(struct sched *s, struct request *request) {
    if (request->model || request->dropped || request->rejected)
        return;
    struct model *model = model_find(s, request->model_name);
    if (!model)
        return;
    struct tenant *before = request->tenant;
    request->model = model;
    request->tenant = waiting_tenant_ref(&model->waiting, request->share_id);
    request->unbound_until = NEVER;
    model->request_count++;
    move_waiting(s, request, before);
    if (before)
        waiting_tenant_unref(&s->unbound, before);
    request_validate(s, request);
}

void request_start(struct sched *s, struct request *request) {
    request_bind(s, request);
    if (request->dropped)
        return;
    if (!request->model) {
        bool starting = s->now - s->started_at < s->config.start_grace_ms;
        bool waits = request->resumed || request->attempt; /* its gateway was told once already */
        if (!waits && !starting) {
            request_reject(s, request, WIRE_REJECT_NO_MODEL);
            return;
        }
        request->unbound_until =
            waits ? s->now + s->config.model_grace_ms : s->started_at + s->config.start_grace_ms;
        request->tenant = waiting_tenant_ref(&s->unbound, request->share_id);
    }
    bool leads = true;
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        struct sequence *q = &request->sequences[i];
        if (q->finish != WIRE_FINISH_NONE)
            continue;
        if (leads)
            seq_enqueue(s, q);
        else
            seq_hold(s, q);
        leads = false;
    }
    timer_update(s, request);
}

/* Requests that waited for this model to be known, or for its geometry. */
void requests_bind_all(struct sched *s, struct model *model) {
    LIST_EACH(at, &s->parked) {
        struct request *request = LIST_ITEM(at, struct sequence, link)->request;
        if (request->model && (request->model != model || request->validated))
            continue;
        /* binding may take any of them off the list */
        vec_push(&s->scratch, LIST_ITEM(at, struct sequence, link));
    }
    for (size_t i = 0; i < s->scratch.count; i++) {
        request_bind(s, s->scratch.items[i]->request);
        if (!s->scratch.items[i]->request->dropped)
            request_validate(s, s->scratch.items[i]->request);
    }
    s->scratch.count = 0;
}

void requests_await_replica(struct sched *s, const struct model *model) {
    LIST_EACH(at, &s->parked) {
        struct request *request = LIST_ITEM(at, struct sequence, link)->request;
        if (request->model != model || request->validated || request->unbound_until != NEVER)
            continue;
        request->unbound_until = s->now + s->config.model_grace_ms;
        timer_update(s, request);
    }
}

double request_most_wait_ms(const struct sched *s, const struct request *request, bool crowded) {
    if (request->resumed || request_is_probe(request))
        return INFINITY;
    double most = crowded && s->config.wait_max_ms ? s->config.wait_max_ms : INFINITY;
    if (request->deadline_at != NEVER)
        most = MIN(most, (double)(request->deadline_at - s->now));
    return most;
}

/* ---- Ending ---- */

static void send_reject(struct sched *s, const struct model *model, struct u128 gateway,
                        struct u128 id, uint32_t attempt, enum wire_reject_code code,
                        uint32_t retry_ms) {
    static const char *const TEXTS[] = {
        [WIRE_REJECT_OVERLOADED] = "too many requests are waiting; try again later",
        [WIRE_REJECT_NO_MODEL] = "no such model",
        [WIRE_REJECT_INVALID] = "invalid request",
        [WIRE_REJECT_TOO_LONG] = "the prompt is longer than the model's context or cache",
        [WIRE_REJECT_DEADLINE] = "the request's time was over before it could begin",
        [WIRE_REJECT_POISON] = "the request makes the model's process fail",
        [WIRE_REJECT_DRAINING] = "the server is shutting down",
        [WIRE_REJECT_REVISION] = "the model this request began on is gone",
        [WIRE_REJECT_UNSUPPORTED] = "the request asks for something this server does not support",
        [WIRE_REJECT_UNKNOWN] = "no such request",
        [WIRE_REJECT_MOVED] = "another client has taken this stream up",
        [WIRE_REJECT_TENANT_REQUESTS] =
            "this API key has as many requests running as it may; try again when one has ended",
        [WIRE_REJECT_TENANT_TOKENS] =
            "this API key has used the tokens that it may use in a minute; try again later",
        [WIRE_REJECT_OLD_WORKERS] =
            "the workers of this model are older than this server and know of no allowed tokens "
            "and no bad words: start workers of its version, or ask without",
    };
    struct wire_reject reject = {
        .request = id, .attempt = attempt, .code = code, .text = bytes_str(TEXTS[code])};
    if (code == WIRE_REJECT_OVERLOADED) {
        /* by then all that waits now has begun */
        double wait = model ? admission_queue_ms(s, model) : 0;
        retry_ms = (uint32_t)MIN(MAX(wait, 1000.0), 600000.0);
    }
    reject.retry_after_ms = retry_ms;
    s->counts.rejected[code]++;
    s->sink.reject(s->sink.ctx, gateway, &reject);
}

void reject_send(struct sched *s, const struct model *model, struct u128 gateway, struct u128 id,
                 uint32_t attempt, enum wire_reject_code code) {
    send_reject(s, model, gateway, id, attempt, code, 0);
}

void reject_send_tenant(struct sched *s, struct u128 gateway, const struct wire_submit *submit,
                        enum wire_reject_code code, uint32_t retry_ms) {
    send_reject(s, NULL, gateway, submit->request, submit->attempt, code, retry_ms);
}

static void close_all(struct sched *s, struct request *request) {
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        struct sequence *q = &request->sequences[i];
        q->quiet = true;
        if (q->finish == WIRE_FINISH_NONE)
            seq_finish(s, q, WIRE_FINISH_CANCELLED, true);
        list_remove(&q->dirty);
    }
}

void request_reject(struct sched *s, struct request *request, enum wire_reject_code code) {
    if (request->dropped || request->rejected)
        return;
    if (request->gateway)
        reject_send(s, request->model, request->gateway->instance, request->id, request->attempt,
                    code);
    if (request->fresh)
        quota_undo(s, request);
    if (request->fresh || !request->gateway) {
        request_drop(s, request);
        return;
    }
    request->rejected = (uint8_t)code;
    request->backoff_ms = (uint32_t)s->config.retransmit_ms;
    request->retransmit_at = s->now + request->backoff_ms;
    close_all(s, request);
    timer_update(s, request);
}

static void trim_records(struct sched *s) {
    while (s->record_bytes > s->config.record_bytes && !list_is_empty(&s->records))
        request_forget(s, LIST_ITEM(s->records.next, struct request, record_link));
}

uint64_t request_bytes(const struct request *request) {
    uint64_t bytes = request->own_bytes + request->hashes.cap * sizeof(struct u128);
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        const struct sequence *q = &request->sequences[i];
        bytes +=
            4 * ((uint64_t)q->words.cap + q->logprobs.cap + q->vector.cap + q->sampler_states.cap);
    }
    return bytes;
}

void request_finished(struct sched *s, struct request *request) {
    quota_close(request);
    if (request->dropped)
        return;
    request->record_bytes = request_bytes(request);
    request->expire_at = s->now + s->config.record_ttl_ms;
    s->record_bytes += request->record_bytes;
    list_push(&s->records, &request->record_link);
    timer_update(s, request);
    if (request->resumable)
        stream_keep(s, request);
    trim_records(s);
}

bool request_is_owed(const struct request *request) {
    for (uint32_t i = 0; i < request->sequence_count; i++)
        if (seq_is_owed(&request->sequences[i]))
            return true;
    return false;
}

void request_review(struct sched *s, struct request *request) {
    if (!request->dropped && !request->rejected && !request->resumable && !request->open_count &&
        !request_is_owed(request))
        request_drop(s, request);
}

static void record_remove(struct sched *s, struct request *request) {
    if (!list_node_is_linked(&request->record_link))
        return;
    list_remove(&request->record_link);
    s->record_bytes -= request->record_bytes;
    request->record_bytes = 0;
}

void request_reopen(struct sched *s, struct request *request) {
    quota_reopen(request);
    record_remove(s, request);
    stream_reopen(s, request);
}

void request_detach(struct sched *s, struct request *request) {
    CHECK(request->resumable && !request->rejected);
    list_remove(&request->gateway_link);
    request->gateway = NULL;
    request_pause(s, request, false); /* nobody reads slowly any more */
    request->retransmit_at = NEVER;
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        list_remove(&request->sequences[i].dirty);
        seq_requeue(s, &request->sequences[i]);
    }
    stream_keep(s, request);
}

void request_rename(struct sched *s, struct request *request, struct u128 id) {
    id_map_remove(&s->request_ids, request->id);
    id_map_put(&s->request_ids, id, request);
    crash_rename(s, request->id, id);
    request->id = id;
}

void request_drop(struct sched *s, struct request *request) {
    if (request->dropped)
        return;
    request->dropped = true;
    quota_close(request);
    close_all(s, request);
    timer_remove(s, request);
    record_remove(s, request);
    stream_forget(s, request);
    list_remove(&request->gateway_link);
    list_remove(&request->fresh_link);
    id_map_remove(&s->request_ids, request->id);
    request->gateway = NULL;
    list_push(&s->dropped, &request->record_link);
}

void request_forget(struct sched *s, struct request *request) {
    if (request->gateway && request_is_owed(request))
        reject_send(s, request->model, request->gateway->instance, request->id, request->attempt,
                    WIRE_REJECT_UNKNOWN);
    request_drop(s, request);
}

static bool is_in_slot(const struct request *request) {
    for (uint32_t i = 0; i < request->sequence_count; i++)
        if (seq_in_slot(&request->sequences[i]))
            return true;
    return false;
}

void request_pause(struct sched *s, struct request *request, bool paused) {
    s->paused += paused;
    s->paused -= request->paused;
    request->paused = paused;
}

static void request_free(struct sched *s, struct request *request) {
    request_pause(s, request, false);
    list_remove(&request->record_link);
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        word_pool_put_back(&s->word_pool, &request->sequences[i].words);
        word_pool_put_back(&s->word_pool, &request->sequences[i].logprobs);
        word_pool_put_back(&s->word_pool, &request->sequences[i].vector);
        word_pool_put_back(&s->word_pool, &request->sequences[i].sampler_states);
    }
    quota_leave(s, request);
    if (request->tenant)
        waiting_tenant_unref(model_waiting(s, request->model), request->tenant);
    if (request->model)
        request->model->request_count--;
    vec_release(&request->hashes);
    mem_free(request);
}

void requests_sweep(struct sched *s, bool all) {
    LIST_EACH(at, &s->dropped) {
        struct request *request = LIST_ITEM(at, struct request, record_link);
        if (all || !is_in_slot(request))
            request_free(s, request);
    }
}
