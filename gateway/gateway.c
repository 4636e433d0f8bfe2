#include "gateway/gateway.h"

#include "base/clock.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"
#include "gateway/answers/answer_room.h"
#include "gateway/answers/response_store.h"
#include "gateway/generation/event_thread.h"
#include "gateway/generation/open_places.h"
#include "gateway/generation/turn.h"
#include "gateway/link/scheduler_link.h"
#include "gateway/prompts/prepare_pool.h"
#include "gateway/server.h"
#include "gateway/watch/trace_export.h"
#include "http/http_tls.h"

enum {
    ANSWERS_BYTES = 256 << 20, /* of whole answers, where nothing else is said */
    WATCHERS_MAX = 1024        /* 64 KB each, where they do not read */
};

static void on_wake(void *ctx) {
    turn_collect(ctx);
}

static bool wake(void *ctx, int thread_idx) {
    struct gateway *gw = ctx;
    pthread_mutex_lock(&gw->http_mutex);
    bool woken =
        gw->http && http_thread_post(gw->http, thread_idx, on_wake, gw->threads[thread_idx]);
    pthread_mutex_unlock(&gw->http_mutex);
    return woken;
}

static void on_models_changed(void *ctx) {
    struct gateway *gw = ctx;
    for (int i = 0; i < gw->thread_count; i++)
        mailbox_push(&gw->boxes[i], mail_new(MAIL_MODELS, NULL));
    scheduler_link_wake(gw->link);
}

/* From the pool's thread. */
static void on_prepared(void *ctx, struct prepare_job *job) {
    struct gateway *gw = ctx;
    struct mail *mail = mail_new(MAIL_PREPARED, NULL);
    mail->job = job;
    mailbox_push(&gw->boxes[job->thread_idx], mail);
    scheduler_link_wake(gw->link);
}

static int open_tls(struct gateway *gw, struct error *err) {
    const char *certificate = gw->settings.tls_cert, *key = gw->settings.tls_key;
    if (!certificate && !key)
        return 0;
    if (!certificate || !key)
        return error_set(err, ERR_INVALID, "--tls-cert and --tls-key come together: %s is missing",
                         certificate ? "--tls-key" : "--tls-cert");
    return http_tls_new(&gw->tls, certificate, key, err);
}

static int open_http(struct gateway *gw, struct error *err) {
    struct http_config config;
    http_config_init(&config);
    config.tls = gw->tls;
    config.host = gw->settings.host;
    config.port = (uint16_t)gw->settings.port;
    config.thread_count = gw->thread_count;
    config.body_max_bytes = gw->settings.body_max;
    /* one holder of bodies may have half of the room: the largest body fits in it */
    config.bodies_max_bytes = MAX(config.bodies_max_bytes, 2 * gw->settings.body_max);
    config.connections_max = (uint32_t)gw->settings.connections_max;
    config.share_port = gw->settings.share_port;
    config.high_water = 24 * 1024; /* a slow reader has less than 64 KB in all */
    config.low_water = 8 * 1024;
    config.write_timeout_ms = (uint32_t)gw->settings.slow_ms;
    server_install(gw, &config);
    gw->http = http_server_new(&config, err);
    return gw->http ? 0 : err->code;
}

static int open_link(struct gateway *gw, struct error *err) {
    struct u128 instance = {0};
    if (gw->settings.instance && u128_parse(gw->settings.instance, &instance))
        return error_set(err, ERR_INVALID, "--instance must be 32 hex digits");
    struct scheduler_link_config config = {.endpoint = gw->settings.scheduler,
                                           .key_file = gw->settings.key_file,
                                           .allow_keys = gw->settings.allow_keys,
                                           .instance = instance,
                                           .models = gw->models,
                                           .boxes = gw->boxes,
                                           .box_count = gw->thread_count,
                                           .wake = wake,
                                           .ctx = gw};
    return scheduler_link_new(&gw->link, &config, err);
}

/* What stands in for the models' own texts; checked here, so that a typing error is told at the
 * start. */
static int read_text_settings(struct gateway *gw, struct text_settings *text, struct error *err) {
    enum { CHAT_TEMPLATE_BYTES_MAX = 1 << 20 };
    const struct gateway_settings *s = &gw->settings;
    int rc = s->chat_template
                 ? file_read_any(s->chat_template, CHAT_TEMPLATE_BYTES_MAX, &gw->chat_template, err)
                 : 0;
    *text = (struct text_settings){.chat_template = buf_bytes(&gw->chat_template),
                                   .reasoning_parser = s->reasoning_parser,
                                   .tool_call_parser = s->tool_call_parser,
                                   .trust_request_template = s->trust_request_template,
                                   .served_names = s->served_names,
                                   .on_demand = s->models_on_demand};
    return rc ? rc : text_settings_check(text, err);
}

int gateway_new(struct gateway **out, const struct gateway_settings *settings, struct error *err) {
    struct gateway *gw = mem_alloc(sizeof *gw);
    gw->settings = *settings;
    pulse_open(&gw->pulse, settings->run_dir, clock_ms());
    gw->thread_count = (int)settings->threads;
    pthread_mutex_init(&gw->http_mutex, NULL);
    gw->boxes = mem_calloc((size_t)gw->thread_count, sizeof *gw->boxes);
    gw->threads = mem_calloc((size_t)gw->thread_count, sizeof *gw->threads);
    struct text_settings text;
    int rc = read_text_settings(gw, &text, err);
    gw->models = model_table_new(&text, on_models_changed, gw);
    gw->responses = response_store_new(settings->responses_bytes);
    gw->workers = work_pool_new(0);
    gw->room = answer_room_new(settings->answers_max ? settings->answers_max : ANSWERS_BYTES);
    gw->places = open_places_new((uint64_t)settings->open_max);
    gw->watchers = open_places_new(settings->watchers_max ? settings->watchers_max : WATCHERS_MAX);
    gw->pool = prepare_pool_new(gw->workers, on_prepared, gw);
    for (int i = 0; i < gw->thread_count; i++)
        mailbox_init(&gw->boxes[i]);
    if (rc == 0)
        rc = auth_init(&gw->auth, settings->api_key, settings->api_key_file, err);
    gw->auth.limits = (struct auth_limits){.requests = (uint32_t)settings->key_requests,
                                           .minute_tokens = (uint32_t)settings->key_minute_tokens};
    if (rc == 0)
        rc = cors_init(&gw->cors, settings->allow_origins, err);
    if (rc == 0)
        rc = hosts_init(&gw->hosts, settings->host, settings->allow_hosts, err);
    if (rc == 0)
        rc = open_tls(gw, err);
    if (rc == 0 && settings->otlp_endpoint)
        rc = trace_export_new(&gw->traces, settings->otlp_endpoint, err);
    if (rc == 0)
        rc = open_http(gw, err);
    if (rc == 0)
        rc = open_link(gw, err);
    for (int i = 0; rc == 0 && i < gw->thread_count; i++)
        gw->threads[i] = event_thread_new(gw, i);
    if (rc == 0)
        rc = http_server_start(gw->http, err);
    if (rc == 0 && gw->traces)
        rc = trace_export_start(gw->traces, err);
    if (rc == 0)
        rc = scheduler_link_start(gw->link, err);
    if (rc)
        gateway_free(&gw);
    *out = gw;
    return rc;
}

uint16_t gateway_port(const struct gateway *gw) {
    return http_server_port(gw->http);
}

static void renew_certificate(struct gateway *gw, bool asked) {
    struct error err;
    if (!gw->tls || (!asked && !http_tls_changed(gw->tls)))
        return;
    if (http_tls_reload(gw->tls, &err))
        log_error("the TLS certificate of before stays: %s", err.text);
    else
        log_info("new connections have the TLS certificate as it is now file=%s",
                 gw->settings.tls_cert);
}

static void renew_keys(struct gateway *gw, bool asked) {
    struct error err;
    if (!gw->auth.path || (!asked && !auth_changed(&gw->auth)))
        return;
    if (auth_reload(&gw->auth, &err))
        log_error("the API keys of before stay: %s", err.text);
    else
        log_info("requests have the API keys as they are now count=%zu file=%s",
                 gw->auth.keys.count, gw->auth.path);
}

void gateway_renew(struct gateway *gw, bool asked) {
    renew_certificate(gw, asked);
    renew_keys(gw, asked);
}

bool gateway_drain(struct gateway *gw) {
    log_info("draining open=%lld", (long long)atomic_load(&gw->open_count));
    atomic_store(&gw->draining, true);
    http_server_drain(gw->http);
    return http_server_wait_drained(gw->http, gw->settings.drain_ms);
}

/* First the clients' side (streams end, their cancels are queued), then the wire (sends them), then
 * what both used. */
void gateway_free(struct gateway **gateway) {
    struct gateway *gw = *gateway;
    if (!gw)
        return;
    pthread_mutex_lock(&gw->http_mutex);
    struct http_server *http = gw->http;
    gw->http = NULL;
    pthread_mutex_unlock(&gw->http_mutex);
    if (http)
        http_server_free(&http);
    http_tls_free(&gw->tls);
    pulse_close(&gw->pulse);
    for (int i = 0; i < gw->thread_count; i++) {
        if (gw->threads[i])
            turn_end(gw->threads[i]);
        event_thread_free(&gw->threads[i]);
    }
    work_pool_free(&gw->workers);
    prepare_pool_free(&gw->pool);
    response_store_free(&gw->responses);
    if (gw->link)
        scheduler_link_stop(gw->link);
    trace_export_free(&gw->traces);
    model_table_free(&gw->models);
    buf_release(&gw->chat_template);
    buf_release(&gw->openapi);
    scheduler_link_free(&gw->link);
    for (int i = 0; i < gw->thread_count; i++)
        mailbox_release(&gw->boxes[i]);
    mem_free(gw->boxes);
    mem_free(gw->threads);
    answer_room_free(&gw->room);
    open_places_free(&gw->places);
    open_places_free(&gw->watchers);
    auth_release(&gw->auth);
    cors_release(&gw->cors);
    hosts_release(&gw->hosts);
    pthread_mutex_destroy(&gw->http_mutex);
    mem_free(gw);
    *gateway = NULL;
}
