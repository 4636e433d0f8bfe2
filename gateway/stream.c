#include "gateway/stream.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "formats/json.h"
#include "gateway/gateway_metrics.h"
#include "gateway/server.h"
#include "gateway/shard.h"

#define METRIC(id) (&gateway_metrics[GATEWAY_METRIC_##id])

/* ---- life ---- */

static void part_release(struct shard *shard, struct part *p) {
    bool cancelled = !delivery_is_done(&p->delivery) && p->delivery.submitted;
    if (cancelled) shard_cancel(shard, p->delivery.request, p->delivery.attempt, WIRE_ALL_CHOICES);
    shard_settle_acks(shard, p, !cancelled);
    part_map_remove(&shard->parts, p->delivery.request);
    for (uint32_t i = 0; i < p->delivery.choice_count; i++) choice_release(&p->choices[i]);
    mem_free(p->choices);
    mem_free(p->token_us);
    vec_release(&p->prompt);
    delivery_release(&p->delivery);
}

static void unlink_stream(struct stream *s) {
    if (s->prev)
        s->prev->next = s->next;
    else
        s->shard->streams = s->next;
    if (s->next) s->next->prev = s->prev;
}

void stream_drop(struct stream *s) {
    struct shard *shard = s->shard;
    for (uint32_t i = 0; i < s->part_count; i++) part_release(shard, &s->parts[i]);
    mem_free(s->parts);
    if (s->state == STREAM_WAITING) metric_add(METRIC(WAITING), -1);
    if (s->paused) metric_add(METRIC(PAUSED), -1);
    metric_add(METRIC(OPEN), -1);
    atomic_fetch_sub(&shard->gw->open_count, 1);
    unlink_stream(s);
    if (s->job) s->job->stream = NULL;
    render_release(&s->render);
    buf_release(&s->presentation);
    buf_release(&s->cache_salt);
    buf_release(&s->body);
    prepared_release(&s->prepared);
    served_model_put(s->model);
    genreq_release(&s->g);
    mem_free(s);
}

static void on_closed(void *ctx, struct http_request *req) {
    struct stream *s = ctx;
    (void)req;
    shard_set_now(s->shard);
    gateway_metrics_answer(499);
    s->http = NULL;
    stream_drop(s);
}

static void on_drained(void *ctx, struct http_request *req) {
    struct stream *s = ctx;
    (void)req;
    shard_set_now(s->shard);
    stream_set_paused(s, false);
}

static const struct http_watch watch = {.on_closed = on_closed, .on_drained = on_drained};

static struct stream *stream_new(struct shard *shard, struct genreq *g) {
    struct gateway *gw = shard->gw;
    struct stream *s = mem_alloc(sizeof *s);
    s->shard = shard;
    s->g = *g;
    s->number = wire_request_id(shard->idx);
    s->start_us = shard->now_us;
    s->wrote_ms = shard->now_ms;
    s->wait_until_ms = shard->now_ms + gw->settings.model_wait_ms;
    if (gw->settings.request_timeout_ms) s->deadline_ms = shard->now_ms + gw->settings.request_timeout_ms;
    s->next = shard->streams;
    if (s->next) s->next->prev = s;
    shard->streams = s;
    atomic_fetch_add(&gw->open_count, 1);
    metric_add(METRIC(OPEN), 1);
    metric_add(METRIC(WAITING), 1);
    return s;
}

void stream_fail(struct stream *s, const struct api_error *err) {
    void (*on_probe)(void *, bool) = s->on_probe;
    void *ctx = s->probe_ctx;
    if (s->http && !s->begun) {
        server_respond_error(s->http, err);
    } else if (s->http) {
        buf_reset(&s->shard->out);
        render_chunk_error(err, &s->shard->out);
        render_done(&s->shard->out);
        http_stream_write(s->http, s->shard->out.data, s->shard->out.len);
        http_stream_end(s->http);
        gateway_metrics_answer(err->status);
    }
    stream_drop(s);
    if (on_probe) on_probe(ctx, false);
}

/* Whether another request may be opened. */
static bool may_open(struct gateway *gw, struct api_error *err) {
    if (atomic_load(&gw->draining)) {
        api_error_set(err, API_UNAVAILABLE, NULL, "this server is shutting down");
        return false;
    }
    if (atomic_load(&gw->open_count) < gw->settings.open_max) return true;
    api_error_set(err, API_OVERLOADED, NULL, "too many requests are open; try again later");
    return false;
}

static struct stream *open_http_stream(struct shard *shard, struct http_request *req, struct genreq *g,
                                       struct u128 tenant) {
    struct stream *s = stream_new(shard, g);
    s->http = req;
    s->tenant = tenant;
    s->start_us = req->start_us;
    http_request_watch(req, &watch, s);
    return s;
}

void stream_open(struct shard *shard, struct http_request *req, struct genreq *g, struct u128 tenant) {
    struct api_error err;
    metric_add_label(METRIC(REQUESTS), (int)g->dialect, 1);
    if (may_open(shard->gw, &err)) {
        stream_try(open_http_stream(shard, req, g, tenant));
        return;
    }
    genreq_release(g);
    server_respond_error(req, &err);
}

static uint64_t draw_seed(void) {
    uint64_t seed;
    random_bytes(&seed, sizeof seed);
    return seed;
}

static const char too_many_long[] = "too many long requests are waiting; try again later";

void stream_open_long(struct shard *shard, struct http_request *req, enum genreq_dialect dialect, struct u128 tenant) {
    struct api_error err;
    struct genreq g;
    metric_add_label(METRIC(REQUESTS), (int)dialect, 1);
    if (!may_open(shard->gw, &err)) {
        server_respond_error(req, &err);
        return;
    }
    genreq_init(&g, dialect);
    struct stream *s = open_http_stream(shard, req, &g, tenant);
    s->job = prepare_pool_put_body(shard->gw->pool, dialect, req->body, shard->gw->models, draw_seed(), shard->idx, s);
    if (s->job) return;
    api_error_set(&err, API_OVERLOADED, NULL, "%s", too_many_long);
    stream_fail(s, &err);
}

/* ---- from waiting to running ---- */

/* What whoever resumes the stream needs to render it: the dialect's view of the request, as JSON. */
static void write_presentation(struct stream *s, int64_t created_s) {
    struct json_writer w;
    json_writer_init(&w, &s->presentation);
    json_begin_object(&w);
    json_key(&w, "dialect");
    json_int(&w, s->g.dialect);
    json_key(&w, "id");
    json_string(&w, s->render.id);
    json_key(&w, "created");
    json_int(&w, created_s);
    json_key(&w, "model");
    json_string(&w, s->model->name);
    json_key(&w, "stream");
    json_bool(&w, s->g.stream);
    json_key(&w, "include_usage");
    json_bool(&w, s->g.include_usage);
    json_key(&w, "include_stop");
    json_bool(&w, s->g.include_stop_text);
    json_key(&w, "skip_special");
    json_bool(&w, s->g.skip_special_tokens);
    json_key(&w, "stops");
    json_begin_array(&w);
    for (uint32_t i = 0; i < s->g.stop_count; i++) json_string_bytes(&w, s->g.stops[i]);
    json_end_array(&w);
    json_end_object(&w);
}

static bool is_special_alone(const struct tokenizer *t, const struct token_vec *prompt) {
    for (size_t i = 0; i < prompt->count; i++)
        if (!tokenizer_is_special(t, prompt->items[i])) return false;
    return true;
}

static int make_part(struct stream *s, uint32_t part_idx, struct error *err) {
    struct part *p = &s->parts[part_idx];
    uint32_t n = (uint32_t)s->g.choice_count;
    struct choice_config config = {.tokenizer = s->model->text->tokenizer,
                                   .stops = s->g.stops,
                                   .stop_count = s->g.stop_count,
                                   .include_stop_text = s->g.include_stop_text,
                                   .skip_special = s->g.skip_special_tokens,
                                   .parse = &s->prepared.parse,
                                   .streams = s->g.stream,
                                   .one_call = !s->g.parallel_tool_calls,
                                   .hide_reasoning = !s->g.include_reasoning,
                                   .call_seed = s->number.lo ^ s->number.hi};
    p->stream = s;
    p->prompt = s->prepared.prompts[part_idx];
    config.begins_text = is_special_alone(config.tokenizer, &p->prompt);
    s->prepared.prompts[part_idx] = (struct token_vec){0};
    p->max_tokens = s->prepared.max_tokens[part_idx];
    delivery_init(&p->delivery, part_idx == 0 ? s->number : wire_request_id(s->shard->idx), n);
    p->choices = mem_calloc(n, sizeof *p->choices);
    p->token_us = mem_calloc(n, sizeof *p->token_us);
    part_map_put(&s->shard->parts, p->delivery.request, p);
    for (uint32_t i = 0; i < n; i++)
        if (choice_init(&p->choices[i], part_idx * n + i, &config, err)) return err->code;
    return 0;
}

/* It has become tokens and goes to the scheduler. */
static int submit(struct stream *s, struct api_error *api) {
    struct error err;
    int64_t created_s = wall_ms() / 1000;
    render_init(&s->render, s->g.dialect, s->g.stream, s->number, created_s, bytes_str(s->model->name));
    s->render.include_usage = s->g.include_usage;
    s->render.continuous_usage = s->g.continuous_usage;
    s->verbose = s->g.logprobs || s->g.return_token_ids;
    write_presentation(s, created_s);
    s->part_count = s->prepared.prompt_count;
    s->choices_open = s->part_count * (uint32_t)s->g.choice_count;
    s->parts = mem_calloc(s->part_count, sizeof *s->parts);
    for (uint32_t i = 0; i < s->part_count; i++)
        if (make_part(s, i, &err)) return api_error_set(api, API_BAD_REQUEST, "stop", "%s", err.text);
    buf_add_bytes(&s->cache_salt, s->g.cache_salt);
    genreq_release(&s->g); /* its texts have become tokens */
    buf_release(&s->body);
    s->state = STREAM_RUNNING;
    metric_add(METRIC(WAITING), -1);
    for (uint32_t i = 0; i < s->part_count; i++) stream_submit_part(&s->parts[i]);
    return 0;
}

void stream_on_prepared(struct stream *s, struct prepare_job *job) {
    s->job = NULL;
    genreq_release(&s->g);
    s->g = job->g;
    s->prepared = job->prepared;
    buf_release(&s->body); /* what g had of it was copied */
    s->body = job->body;
    job->body = (struct buf){0};
    arena_init(&job->g.arena, 0, 0);
    job->prepared = (struct prepared){0};
    struct api_error err = job->err;
    if (err.status) {
        stream_fail(s, &err);
    } else if (!job->model) {
        stream_try(s); /* its model is not here yet */
    } else {
        served_model_put(s->model);
        s->model = served_model_ref(job->model);
        if (submit(s, &err)) stream_fail(s, &err);
    }
}

/* The model is here. */
static int start(struct stream *s, struct api_error *api) {
    if (prepare_cost(&s->g) < PREPARE_LONG_BYTES)
        return prepare(&s->g, s->model, draw_seed(), &s->prepared, api) ? -1 : submit(s, api);
    s->job = prepare_pool_put(s->shard->gw->pool, &s->g, s->model, draw_seed(), s->shard->idx, s);
    return s->job ? 0 : api_error_set(api, API_OVERLOADED, NULL, "%s", too_many_long);
}

static int cannot_wait(struct stream *s, enum model_found found, struct api_error *err) {
    int name_len = (int)MIN(s->g.model.len, 100);
    const char *name = (const char *)s->g.model.data;
    switch (found) {
    case MODEL_UNKNOWN:
        return api_error_set(err, API_MODEL_NOT_FOUND, "model", "the model '%.*s' does not exist", name_len, name);
    case MODEL_AMBIGUOUS:
        return api_error_set(err, API_BAD_REQUEST, "model", "'model' is missing, and this server has several");
    case MODEL_BROKEN:
        return api_error_set(err, API_UNAVAILABLE, "model", "this model's tokenizer or template cannot be used");
    default: break;
    }
    if (s->shard->now_ms < s->wait_until_ms) return 0;
    err->status = 0;
    api_error_set(err, API_UNAVAILABLE, NULL, "no model is ready");
    err->retry_after_ms = 1000;
    return -1;
}

void stream_try(struct stream *s) {
    struct api_error err;
    if (s->state != STREAM_WAITING || s->job) return;
    enum model_found found = model_table_find(s->shard->gw->models, s->g.model, &s->model);
    int rc = found == MODEL_READY ? start(s, &err) : cannot_wait(s, found, &err);
    if (rc) stream_fail(s, &err);
}

/* ---- time passes ---- */

/* A comment keeps proxies and clients from giving up on a quiet stream. */
static void keep_alive(struct stream *s) {
    static const char ping[] = ": ping\n\n";
    if (!s->http || !s->g.stream || s->paused || s->shard->now_ms - s->wrote_ms < s->shard->gw->settings.ping_ms)
        return;
    if (!s->begun) stream_begin(s);
    buf_reset(&s->shard->out);
    buf_add_str(&s->shard->out, ping);
    stream_write(s);
}

static bool has_expired(const struct stream *s) { return s->deadline_ms && s->shard->now_ms >= s->deadline_ms; }

void stream_tick(struct stream *s) {
    struct shard *shard = s->shard;
    struct api_error err;
    if (has_expired(s)) {
        api_error_set(&err, API_TIMEOUT, NULL, "the request took longer than this server allows");
        stream_fail(s, &err);
        return;
    }
    if (s->paused && shard->now_ms - s->paused_ms > shard->gw->settings.slow_ms) {
        LOG_LIMITED(LOG_INFO, "stream cut: its client stopped reading");
        http_abort(s->http);
        gateway_metrics_answer(499);
        s->http = NULL;
        stream_drop(s);
        return;
    }
    if (s->state == STREAM_WAITING) {
        stream_try(s);
        return;
    }
    for (uint32_t i = 0; i < s->part_count && shard->registered; i++) stream_tick_part(&s->parts[i]);
    keep_alive(s);
}
/* ---- output ---- */

void stream_write(struct stream *s) {
    s->wrote_ms = s->shard->now_ms;
    if (!http_stream_write(s->http, s->shard->out.data, s->shard->out.len)) stream_set_paused(s, true);
}

/* ---- the probe of /health/e2e ---- */

void stream_probe(struct shard *shard, struct bytes model, int64_t timeout_ms, void (*on_probe)(void *ctx, bool ok),
                  void *ctx) {
    static const uint32_t first_id = 0;
    const struct genreq_prompt prompt = {.is_ids = true, .ids = {&first_id, 1}};
    struct genreq g;
    genreq_init(&g, GENREQ_COMPLETIONS);
    g.model = bytes_of(arena_copy(&g.arena, model.data, model.len), model.len);
    g.prompts = arena_copy(&g.arena, &prompt, sizeof prompt);
    g.prompt_count = 1;
    g.given = GENREQ_MAX_TOKENS | GENREQ_TEMPERATURE;
    g.max_tokens = 1;
    g.temperature = 0;
    g.ignore_eos = true;
    g.priority = INT16_MIN; /* it asks whether anything runs, not how long the queue is */
    struct stream *s = stream_new(shard, &g);
    s->on_probe = on_probe;
    s->probe_ctx = ctx;
    s->deadline_ms = shard->now_ms + timeout_ms;
    s->wait_until_ms = s->deadline_ms;
    stream_try(s);
}
