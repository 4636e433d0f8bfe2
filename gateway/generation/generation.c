#include "gateway/generation/generation.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/answers/answer_room.h"
#include "gateway/answers/gather.h"
#include "gateway/calls/ollama_models.h"
#include "gateway/calls/response_calls.h"
#include "gateway/dialects/embed.h"
#include "gateway/dialects/responses.h"
#include "gateway/fields/field.h"
#include "gateway/generation/generation_log.h"
#include "gateway/generation/open_places.h"
#include "gateway/generation/presentation.h"
#include "gateway/link/request_id.h"
#include "gateway/link/scheduler_link.h"
#include "gateway/watch/gateway_metrics.h"
#include "gateway/watch/key_metrics.h"
#include "gateway/watch/model_metrics.h"
#include "gateway/watch/request_log.h"

#define METRIC(id) (&gateway_metrics[GATEWAY_METRIC_##id])

/* ---- life ---- */

static void list_generation(struct generation *gen) {
    struct event_thread *thread = gen->thread;
    generation_list_add(&thread->generations, gen);
    atomic_fetch_add(&thread->gw->open_count, 1);
    metric_add(METRIC(OPEN), 1);
    metric_add(METRIC(WAITING), 1);
}

static void unlist_generation(struct generation *gen) {
    struct event_thread *thread = gen->thread;
    generation_list_remove(&thread->generations, gen);
    if (thread->opened == gen)
        thread->opened = NULL;
    if (gen->state == GENERATION_WAITING)
        metric_add(METRIC(WAITING), -1);
    if (gen->paused)
        metric_add(METRIC(PAUSED), -1);
    metric_add(METRIC(OPEN), -1);
    atomic_fetch_sub(&thread->gw->open_count, 1);
}

void generation_end(struct generation *gen, const char *finish, int status) {
    CHECK(gen->thread);
    if (*gen->id)
        generation_log(gen, finish, status);
    for (uint32_t i = 0; i < gen->submission_count; i++)
        submission_release(&gen->submissions[i]);
    mem_free(gen->submissions);
    unlist_generation(gen);
    if (gen->job)
        gen->job->generation = NULL;
    answer_room_give(gen->thread->gw->room, gen->terms.holder, gen->room);
    if (gen->has_place)
        open_places_give(gen->thread->gw->places, gen->terms.holder);
    answer_release(&gen->answer);
    buf_release(&gen->terms.presentation);
    buf_release(&gen->terms.cache_salt);
    buf_release(&gen->terms.stream);
    prepared_release(&gen->terms.prepared);
    served_model_put(gen->terms.model);
    buf_release(&gen->body);
    genreq_release(&gen->request);
    mem_free(gen);
}

void generation_cancel(struct generation *gen) {
    int64_t choices = gen->state == GENERATION_RUNNING ? gen->open_choices : 1;
    gen->answer.http = NULL;
    gen->terms.detach = gen->terms.stream.len > 0 && gen->state == GENERATION_RUNNING;
    if (*gen->id) { /* nobody waits for a probe */
        gateway_metrics_answer(499);
        gateway_metrics_cancelled(choices);
    }
    if (gen->metrics)
        metric_add_label(&gen->metrics[MODEL_METRIC_SUCCESS], MODEL_FINISH_ABORT, choices);
    generation_end(gen, gen->terms.detach ? "detached" : "cancelled", 499);
}

void generation_fail(struct generation *gen, const struct api_error *err) {
    struct generation_probe probe = gen->probe;
    struct api_error named = *err;
    int status = err->status;
    bool late = status == 504, moved = gen->terms.detach;
    if (gen->metrics) /* those that had ended are counted */
        metric_add_label(&gen->metrics[MODEL_METRIC_SUCCESS],
                         late || moved ? MODEL_FINISH_ABORT : MODEL_FINISH_ERROR,
                         gen->open_choices);
    field_name_as_asked(&gen->request, &named);
    answer_fail(&gen->answer, gen->request.dialect, &named);
    generation_end(gen, late ? "deadline" : moved ? "detached" : "error", status);
    if (probe.done)
        probe.done(probe.ctx, false);
}

static struct generation *generation_new(struct event_thread *thread, struct genreq *g) {
    const struct gateway_settings *settings = &thread->gw->settings;
    struct generation *gen = mem_alloc(sizeof *gen);
    gen->thread = thread;
    gen->request = *g;
    gen->number = request_id_new(thread->idx);
    gen->start_us = thread->now_us;
    gen->wait_until_ms = thread->now_ms + settings->model_wait_ms;
    if (settings->request_timeout_ms)
        gen->terms.deadline_ms = thread->now_ms + settings->request_timeout_ms;
    gen->answer.scratch = &thread->scratch;
    gen->answer.wrote_ms = thread->now_ms;
    list_generation(gen);
    return gen;
}

/* ---- the way in ---- */

static void on_closed(void *ctx, struct http_request *req) {
    struct generation *gen = ctx;
    (void)req;
    event_thread_set_now(gen->thread);
    generation_cancel(gen);
}

static void on_drained(void *ctx, struct http_request *req) {
    struct generation *gen = ctx;
    (void)req;
    event_thread_set_now(gen->thread);
    generation_on_drained(gen);
}

static const struct http_watch watch = {.on_closed = on_closed, .on_drained = on_drained};

int generation_take_place(struct gateway *gw, struct u128 holder, struct api_error *err) {
    if (atomic_load(&gw->draining))
        return api_error_set(err, API_UNAVAILABLE, NULL, "this server is shutting down");
    if (!open_places_take(gw->places, holder))
        return api_error_set(err, API_OVERLOADED, NULL,
                             "too many requests are open; try again later");
    return 0;
}

/* By its client, else as its body will name it. */
static void name_request(struct generation *gen, struct http_request *req) {
    char id[RESPONSE_ID_MAX];
    response_id(gen->request.dialect, gen->number, id);
    http_request_set_id(req, id);
    memcpy(gen->id, http_request_id(req), sizeof gen->id);
    request_log_take(req);
}

int generation_open(struct event_thread *thread, struct http_request *req, struct genreq *g,
                    bool unread, struct u128 tenant, const struct bytes *stream,
                    struct api_error *err) {
    CHECK(!thread->opened);
    metric_add_label(METRIC(REQUESTS), generation_dialect_label(g->dialect), 1);
    struct u128 holder = open_holder(tenant, req->address);
    if (generation_take_place(thread->gw, holder, err)) {
        genreq_release(g);
        return -1;
    }
    struct generation *gen = generation_new(thread, g);
    gen->has_place = true;
    gen->terms.holder = holder;
    gen->unread = unread;
    gen->terms.tenant = tenant;
    gen->answer.http = req;
    gen->start_us = req->start_us;
    name_request(gen, req);
    if (thread->gw->traces)
        trace_context_begin(&gen->trace, http_request_header(req, "traceparent"),
                            thread->gw->settings.trace_ratio);
    if (stream)
        buf_add_bytes(&gen->terms.stream, *stream);
    http_request_watch(req, &watch, gen);
    thread->opened = gen;
    return 0;
}

struct generation *generation_open_gathered(struct event_thread *thread, struct http_request *req,
                                            struct genreq *g, struct buf *body, struct u128 tenant,
                                            struct gather *gather, uint32_t idx) {
    CHECK(!g->stream && gather);
    metric_add_label(METRIC(REQUESTS), generation_dialect_label(g->dialect), 1);
    struct generation *gen = generation_new(thread, g);
    gen->body = *body;
    *body = (struct buf){0};
    gen->terms.holder = open_holder(tenant, req->address);
    gen->terms.tenant = tenant;
    gen->terms.counted = idx > 0;
    gen->answer.gather = gather;
    gen->answer.gather_idx = idx;
    gen->start_us = req->start_us;
    response_id(g->dialect, gen->number, gen->id);
    if (thread->gw->traces)
        trace_context_begin(&gen->trace, http_request_header(req, "traceparent"),
                            thread->gw->settings.trace_ratio);
    return gen;
}

void generation_probe(struct event_thread *thread, struct bytes model, int64_t timeout_ms,
                      struct generation_probe probe) {
    static const uint32_t first_id = 0;
    const struct genreq_prompt prompt = {.is_ids = true, .ids = {&first_id, 1}};
    struct genreq g;
    genreq_init(&g, GENREQ_COMPLETIONS);
    g.model = bytes_of(arena_copy(&g.arena, model.data, model.len), model.len);
    g.prompts = arena_copy(&g.arena, &prompt, sizeof prompt);
    g.prompt_count = g.prompts ? 1 : 0;
    g.given = GENREQ_MAX_TOKENS | GENREQ_TEMPERATURE;
    g.max_tokens = 1;
    g.temperature = 0;
    g.ignore_eos = true;
    g.probes = true;
    g.priority = WIRE_PRIORITY_PROBE; /* it asks whether anything runs, not how long the queue is */
    struct generation *gen = generation_new(thread, &g);
    gen->probe = probe;
    gen->terms.deadline_ms = thread->now_ms + timeout_ms;
    gen->wait_until_ms = gen->terms.deadline_ms;
    generation_try(gen);
}

/* ---- from waiting to running ---- */

static void init_answer(struct generation *gen, int64_t created_s) {
    const struct genreq *g = &gen->request;
    struct answer *a = &gen->answer;
    a->form = answer_form_of(g->dialect);
    a->form->init(&a->writer, g->dialect, g->stream, gen->number, created_s,
                  bytes_str(gen->terms.model->name));
    a->writer.bare_calls = g->bare_calls;
    if (g->service_tier && a->form == &answer_openai)
        response_tell_tier(&a->writer);
    embed_form_init(&a->embed, g, gen->terms.model);
    /* a stream that can be resumed has the same bytes each time, but a seed may be drawn anew */
    bool tells = !gen->terms.stream.len || a->form != &answer_openai;
    if (a->form->settings && tells)
        a->form->settings(a, g, &gen->terms.prepared.sampling);
    a->writer.include_usage = g->include_usage;
    a->writer.continuous_usage = g->continuous_usage;
    if (g->dialect == GENREQ_RESPONSES)
        responses_state_open(a, g, gen->thread->gw->responses, gen->number, gen->terms.tenant,
                             gen->terms.holder);
    a->stream = g->stream;
    a->logprobs = g->logprobs;
    a->token_ids = g->return_token_ids;
    a->tokens_as_ids = g->tokens_as_ids;
    /* a stream that can be resumed has the same bytes each time */
    a->timings = g->timings && !gen->terms.stream.len;
    a->progress = g->progress && g->stream && a->form->progress && !gen->terms.stream.len;
    gen->terms.progress = a->progress && !gen->terms.prepared.echo;
    a->top_logprobs =
        g->prompt_logprobs >= 0 ? (uint32_t)g->top_logprobs : (uint32_t)WIRE_MAX_TOP_LOGPROBS;
    a->prompt_logprobs = g->prompt_logprobs >= 0;
    a->top_prompt_logprobs = (uint32_t)MAX(g->prompt_logprobs, 0);
    a->prompt_logprobs_from = (uint32_t)MAX(g->prompt_logprobs_from, 0);
    a->hides_echo = gen->terms.prepared.hides_echo;
    a->best_count = g->best_of > g->choice_count ? (uint32_t)g->choice_count : 0;
    a->times.start_us = gen->start_us;
    a->times.submit_us = gen->thread->now_us;
}

/* Streams of one prompt alone can be resumed: a name that cannot be used is refused, and one of an
 * answer in one piece is passed over. */
static int check_resumable(struct generation *gen, struct api_error *err) {
    const struct genreq *g = &gen->request;
    struct submit_terms *terms = &gen->terms;
    if (!terms->stream.len)
        return 0;
    if (!g->stream || !gen->answer.form->has_ids) {
        buf_release(&terms->stream);
        return 0;
    }
    if (terms->prepared.echo)
        return api_error_set(err, API_UNSUPPORTED, "echo",
                             "a stream that echoes its prompt cannot be resumed: leave out 'echo', "
                             "or X-Conversation-Id");
    if (terms->prepared.max_tokens[0] == 0)
        return api_error_set(err, API_BAD_REQUEST, "max_tokens",
                             "a stream of no tokens cannot be resumed: leave out "
                             "X-Conversation-Id");
    if (terms->prepared.prompt_count > 1)
        return api_error_set(
            err, API_UNSUPPORTED, "prompt",
            "a stream of several prompts cannot be resumed: send one, or leave out "
            "X-Conversation-Id");
    if (g->predict_ms > 0)
        return api_error_set(err, API_UNSUPPORTED, "t_max_predict_ms",
                             "a stream that ends by the clock cannot be resumed: leave out "
                             "'t_max_predict_ms', or X-Conversation-Id");
    if (terms->presentation.len > WIRE_MAX_PRESENTATION)
        return api_error_set(err, API_TOO_LARGE, "tools",
                             "the tools are too large for a stream that can be resumed: make them "
                             "smaller, or leave out X-Conversation-Id");
    return 0;
}

/* first: the id of the first one. */
static int init_submissions(struct generation *gen, struct u128 first, struct error *err) {
    const struct genreq *g = &gen->request;
    const struct prepared *prepared = &gen->terms.prepared;
    struct choice_config config = {.tokenizer = gen->terms.model->text->tokenizer,
                                   .stops = g->stops,
                                   .stop_count = g->stop_count,
                                   .stop_patterns = prepared->stop_patterns,
                                   .include_stop_text = g->include_stop_text,
                                   .skip_special = g->skip_special_tokens,
                                   .parse = &prepared->parse,
                                   .streams = g->stream,
                                   .whole_calls = gen->answer.form->whole_calls,
                                   .one_call = !g->parallel_tool_calls,
                                   .bare_calls = g->bare_calls,
                                   .hide_reasoning = !g->include_reasoning,
                                   .call_seed = gen->number.lo ^ gen->number.hi};
    uint32_t choice_count = genreq_choices_made(g);
    gen->submissions = mem_calloc(prepared->prompt_count, sizeof *gen->submissions);
    gen->answer.submissions = gen->submissions;
    gen->open_choices = prepared->prompt_count * choice_count;
    for (uint32_t i = 0; i < prepared->prompt_count; i++) {
        struct u128 id = i == 0 ? first : request_id_new(gen->thread->idx);
        gen->answer.submission_count = ++gen->submission_count;
        int rc = submission_init(&gen->submissions[i], gen, gen->thread, &gen->terms, id, i,
                                 choice_count, &config, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int check_priority(const struct generation *gen, struct api_error *err) {
    struct gateway *gw = gen->thread->gw;
    int64_t least = auth_priority_min(&gw->auth, gen->terms.tenant, gw->settings.priority_min);
    if (gen->probe.done || gen->request.priority >= least)
        return 0;
    return api_error_set(err, API_BAD_REQUEST, "priority",
                         "'priority' must be at least %lld here: lower numbers go first",
                         (long long)least);
}

static int refuse_key(const char *name, struct api_error *api) {
    return api_error_set(api, API_FORBIDDEN, "model", "this API key may not use the model '%s'",
                         name);
}

static int check_model(const struct generation *gen, struct api_error *api) {
    const char *name = gen->terms.model->name;
    if (auth_allows_model(&gen->thread->gw->auth, gen->terms.tenant, name))
        return 0;
    return refuse_key(name, api);
}

/* The body's own name for it, where no header has one. */
static void take_request_id(struct generation *gen) {
    struct bytes id = gen->request.request_id;
    char text[HTTP_REQUEST_ID_MAX + 1];
    if (!id.len || (!gen->answer.http && !gen->answer.gather))
        return;
    memcpy(text, id.data, id.len);
    text[id.len] = 0;
    if (gen->answer.gather) {
        memcpy(gen->id, text, id.len + 1);
        return;
    }
    http_request_set_id(gen->answer.http, text);
    memcpy(gen->id, http_request_id(gen->answer.http), sizeof gen->id);
}

/* The client's own bound, if it is the nearer one. */
static void take_timeout(struct generation *gen) {
    struct submit_terms *terms = &gen->terms;
    double timeout_s = gen->request.timeout_s;
    if (timeout_s <= 0)
        return;
    int64_t waited_ms = (gen->thread->now_us - gen->start_us) / 1000;
    int64_t until_ms = gen->thread->now_ms - waited_ms + (int64_t)ceil(timeout_s * 1000);
    terms->deadline_ms = terms->deadline_ms ? MIN(terms->deadline_ms, until_ms) : until_ms;
}

/* It has become tokens and goes to the scheduler. 0, or -1 with *api filled. */
static int submit(struct generation *gen, struct api_error *api) {
    struct error err;
    int64_t created_s = wall_ms() / 1000;
    CHECK(gen->state == GENERATION_WAITING && gen->terms.model && !gen->submissions);
    take_request_id(gen);
    take_timeout(gen);
    init_answer(gen, created_s);
    if (gen->terms.stream.len)
        presentation_write(&gen->request, &gen->terms.prepared.parse, gen->number, created_s,
                           &gen->terms.presentation);
    if (check_resumable(gen, api))
        return -1;
    if (gen->terms.stream.len)
        event_ids_init(&gen->answer.ids, (uint32_t)gen->request.choice_count, NULL);
    if (init_submissions(gen, gen->number, &err))
        return api_error_set(api, API_BAD_REQUEST, "stop", "%s", err.text);
    if (check_priority(gen, api) || check_model(gen, api) || generation_reserve_room(gen, api))
        return -1;
    if (gen->request.kept.background && response_call_detach(gen, api))
        return -1;
    gen->terms.priority = (int32_t)gen->request.priority;
    buf_add_bytes(&gen->terms.cache_salt, gen->request.cache_salt);
    genreq_release(&gen->request); /* its texts have become tokens */
    buf_release(&gen->body);
    gen->state = GENERATION_RUNNING;
    if (*gen->id)
        gen->metrics = model_metrics_of(gen->terms.model->name);
    gen->key_metrics = auth_metrics(&gen->thread->gw->auth, gen->terms.tenant);
    if (gen->key_metrics)
        metric_add(&gen->key_metrics[KEY_METRIC_REQUESTS], 1);
    metric_add(METRIC(WAITING), -1);
    generation_submit_more(gen);
    return 0;
}

void generation_submit_more(struct generation *gen) {
    while (gen->submitted_count < gen->submission_count &&
           gen->submitted_count - gen->ended_count < GENERATION_SUBMITTED_MAX)
        submission_submit(&gen->submissions[gen->submitted_count++]);
}

void generation_on_prepared(struct generation *gen, struct prepare_job *job) {
    CHECK(gen->job == job && gen->state == GENERATION_WAITING);
    gen->job = NULL;
    genreq_release(&gen->request);
    gen->request = job->g;
    gen->terms.prepared = job->prepared;
    buf_release(&gen->body); /* what the request had of it was copied */
    gen->body = job->body;
    job->body = (struct buf){0};
    arena_init(&job->g.arena, 0, 0);
    job->prepared = (struct prepared){0};
    struct api_error err = job->err;
    if (err.status) {
        generation_fail(gen, &err);
    } else if (!job->model) {
        generation_try(gen); /* its model is not here yet */
    } else {
        served_model_put(gen->terms.model);
        gen->terms.model = served_model_ref(job->model);
        if (submit(gen, &err))
            generation_fail(gen, &err);
    }
}

/* ---- taken up from another gateway ---- */

static void copy_terms(struct generation *gen, const struct wire_submit *s) {
    struct submit_terms *terms = &gen->terms;
    terms->tenant = s->tenant;
    terms->priority = s->priority;
    terms->deadline_ms = s->deadline_ms ? gen->thread->now_ms + s->deadline_ms : 0;
    buf_add_bytes(&terms->cache_salt, s->cache_salt);
    buf_add_bytes(&terms->presentation, s->presentation);
    buf_add_bytes(&terms->stream, s->stream);
}

/* 0, or ERR_INVALID: this gateway cannot write such a stream. */
static int restore(struct generation *gen, const struct taken_up *from, struct error *err) {
    const struct wire_submit *s = &from->submit;
    uint32_t choice_count = (uint32_t)s->choice_count;
    struct api_error api;
    copy_terms(gen, s);
    presentation_prepared(s, &gen->terms.prepared);
    gen->terms.prepared.stop_patterns = from->stop_patterns;
    if (presentation_parse(&from->shown, &gen->terms.prepared, err))
        return ERR_INVALID;
    if (prepare_thinking_end(&gen->request, gen->terms.model->text, &gen->terms.prepared, &api))
        return error_set(err, ERR_INVALID, "%s", api.text);
    init_answer(gen, from->shown.created_s);
    if (!gen->answer.form->has_ids || !event_position_fits(from->behind, choice_count))
        return error_set(err, ERR_INVALID,
                         "the position is not of this stream; with several choices only "
                         "Last-Event-ID says what is there");
    event_ids_init(&gen->answer.ids, choice_count, from->behind);
    return init_submissions(gen, s->request, err);
}

void generation_take_up(struct event_thread *thread, struct http_request *req,
                        struct taken_up *from) {
    const struct wire_submit *s = &from->submit;
    struct error err;
    struct api_error api;
    CHECK(!from->stop_patterns == !from->g.stop_pattern_count);
    from->g.choice_count = (int64_t)s->choice_count;
    struct generation *gen = generation_new(thread, &from->g);
    gen->has_place = true;
    gen->terms.holder = open_holder(s->tenant, req->address);
    open_places_force(thread->gw->places, gen->terms.holder);
    gen->number = from->shown.number;
    gen->terms.model = from->model;
    gen->answer.http = req;
    gen->start_us = req->start_us;
    name_request(gen, req);
    http_request_watch(req, &watch, gen);
    gen->metrics = model_metrics_of(from->model->name);
    gen->key_metrics = auth_metrics(&thread->gw->auth, s->tenant);
    if (restore(gen, from, &err)) {
        api_error_set(&api, API_BAD_REQUEST, NULL, "%s", err.text);
        generation_fail(gen, &api);
        return;
    }
    genreq_release(&gen->request);
    gen->state = GENERATION_RUNNING;
    gen->submitted_count = gen->submission_count;
    metric_add(METRIC(WAITING), -1);
    delivery_attached(&gen->submissions[0].delivery, s->attempt, thread->epoch, thread->now_ms);
    gen->held = from->late;
    generation_ask(gen);
}

/* The seed of a request that may bring none. */
static uint64_t draw_seed(const struct gateway_settings *settings) {
    uint64_t seed;
    if (settings->seed >= 0)
        return (uint64_t)settings->seed;
    random_bytes(&seed, sizeof seed);
    return seed >> 11; /* told to clients, some of which know no integers past 2^53 */
}

static int check_job(const struct generation *gen, struct api_error *err) {
    if (gen->job)
        return 0;
    if (gen->request.arena.starved)
        return api_error_out_of_memory(err);
    return api_error_set(err, API_OVERLOADED, NULL,
                         "too many long requests are waiting; try again later");
}

/* The model is here. */
static int start(struct generation *gen, struct api_error *err) {
    struct event_thread *thread = gen->thread;
    if (prepare_takes_long(&gen->request)) {
        gen->job =
            prepare_pool_push(thread->gw->pool, &gen->request, gen->terms.holder, gen->terms.model,
                              draw_seed(&thread->gw->settings), thread->idx, gen);
        return check_job(gen, err);
    }
    if (prepare(&gen->request, gen->terms.model, draw_seed(&thread->gw->settings),
                &gen->terms.prepared, err))
        return -1;
    return submit(gen, err);
}

/* The body of a long request is read elsewhere. */
static int start_reading(struct generation *gen, struct api_error *err) {
    struct event_thread *thread = gen->thread;
    const struct prepare_job job = {.g.dialect = gen->request.dialect,
                                    .generation = gen,
                                    .thread_idx = thread->idx,
                                    .models = thread->gw->models,
                                    .responses = thread->gw->responses,
                                    .tenant = gen->terms.tenant,
                                    .work.tenant = gen->terms.holder,
                                    .seed = draw_seed(&thread->gw->settings)};
    gen->unread = false;
    gen->job = prepare_pool_push_body(thread->gw->pool, &job, gen->answer.http->body);
    return check_job(gen, err);
}

/* 0: it may wait. A key has no model loaded that it may not use. */
static int check_wait(const struct generation *gen, enum model_found found, struct api_error *err) {
    struct gateway *gw = gen->thread->gw;
    char own[MODEL_NAME_MAX], why[MODEL_FAILURE_MAX];
    if (found != MODEL_NOT_READY)
        return prepare_refuse_model(found, gen->request.model, err);
    if (model_table_own_name(gw->models, gen->request.model, own) &&
        !auth_allows_model(&gw->auth, gen->terms.tenant, own))
        return refuse_key(own, err);
    scheduler_link_want(gen->thread->gw->link, gen->request.model);
    if (model_table_failure(gw->models, gen->request.model, gen->thread->now_ms, why))
        return api_error_set(err, API_UNAVAILABLE, "model", "this model cannot be loaded: %s", why);
    if (gen->thread->now_ms < gen->wait_until_ms)
        return 0;
    prepare_refuse_model(found, gen->request.model, err);
    err->retry_after_ms = 1000;
    return -1;
}

/* Ollama's clients ask for nothing to have a model loaded. */
static bool asks_for_load(const struct generation *gen) {
    enum genreq_dialect dialect = gen->request.dialect;
    return (dialect == GENREQ_OLLAMA_CHAT || dialect == GENREQ_OLLAMA_GENERATE) &&
           genreq_asks_nothing(&gen->request);
}

static int finish_load(struct generation *gen, struct api_error *err) {
    if (check_model(gen, err) || ollama_load(gen->thread, gen->answer.http, &gen->request, err))
        return -1;
    gen->answer.http = NULL;
    generation_end(gen, "load", 200);
    return 0;
}

void generation_try(struct generation *gen) {
    struct api_error err;
    int rc;
    if (gen->state != GENERATION_WAITING || gen->job)
        return;
    if (gen->unread) {
        rc = start_reading(gen, &err);
    } else {
        enum model_found found =
            model_table_find(gen->thread->gw->models, gen->request.model, &gen->terms.model);
        rc = found != MODEL_READY ? check_wait(gen, found, &err)
             : asks_for_load(gen) ? finish_load(gen, &err)
                                  : start(gen, &err);
    }
    if (rc)
        generation_fail(gen, &err);
}

/* ---- while it runs ---- */

void generation_set_paused(struct generation *gen, bool paused) {
    if (gen->paused == paused)
        return;
    gen->paused = paused;
    gen->paused_ms = gen->thread->now_ms;
    metric_add(METRIC(PAUSED), paused ? 1 : -1);
    for (uint32_t i = 0; i < gen->submission_count; i++)
        outbox_pause(&gen->thread->outbox, &gen->submissions[i].delivery, paused);
}

void generation_ask(struct generation *gen) {
    if (!gen->held)
        return;
    gen->held = false;
    for (uint32_t i = 0; i < gen->submission_count; i++)
        for (uint32_t k = 0; k < gen->submissions[i].delivery.choice_count; k++)
            if (!gen->submissions[i].delivery.choices[k].finished)
                outbox_ask(&gen->thread->outbox, &gen->submissions[i].delivery, k);
}

void generation_resubmit(struct generation *gen) {
    if (gen->state != GENERATION_RUNNING)
        return;
    for (uint32_t i = 0; i < gen->submitted_count; i++)
        submission_resubmit(&gen->submissions[i], gen->paused);
}

static void keep_alive(struct generation *gen) {
    struct answer *a = &gen->answer;
    int64_t now_ms = gen->thread->now_ms;
    if (!a->http || !a->stream || gen->paused || event_ids_are_on(&a->ids) ||
        now_ms - a->wrote_ms < gen->thread->gw->settings.ping_ms)
        return;
    bool room = a->begun || answer_begin(a, now_ms);
    if (!answer_ping(a, now_ms) || !room)
        generation_set_paused(gen, true);
}

/* The client stopped reading long ago. */
static void cut(struct generation *gen) {
    LOG_LIMITED(LOG_INFO, "stream cut: its client stopped reading");
    http_abort(gen->answer.http);
    generation_cancel(gen);
}

/* With prompt and tokens so far a submission may have outgrown a frame. Sent, it would end the
 * connection of all others, again and again. 0: none has. */
static int check_sizes(const struct generation *gen, struct api_error *err) {
    for (uint32_t i = 0; i < gen->submission_count; i++) {
        if (gen->submissions[i].no_memory)
            return api_error_out_of_memory(err);
        if (gen->submissions[i].too_large)
            return api_error_set(err, API_TOO_LARGE, NULL,
                                 "the request, with the answer so far, is larger than this server "
                                 "can hand on");
    }
    return 0;
}

void generation_tick(struct generation *gen) {
    struct event_thread *thread = gen->thread;
    struct api_error err;
    if (responses_is_dropped(&gen->answer) || gather_is_over(gen->answer.gather)) {
        generation_cancel(gen);
        return;
    }
    if (gen->terms.deadline_ms && thread->now_ms >= gen->terms.deadline_ms) {
        api_error_set(&err, API_TIMEOUT, NULL, "the request took longer than this server allows");
        generation_fail(gen, &err);
        return;
    }
    if (gen->paused && thread->now_ms - gen->paused_ms > thread->gw->settings.slow_ms) {
        cut(gen);
        return;
    }
    if (gen->state == GENERATION_WAITING) {
        generation_try(gen);
        return;
    }
    if (check_sizes(gen, &err)) {
        generation_fail(gen, &err);
        return;
    }
    for (uint32_t i = 0; i < gen->submitted_count && thread->registered; i++)
        submission_tick(&gen->submissions[i]);
    keep_alive(gen);
}
