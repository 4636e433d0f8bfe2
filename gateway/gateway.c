#include "gateway/gateway.h"

#include "base/clock.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"
#include "gateway/server.h"
#include "gateway/shard.h"

static void on_wake(void *ctx) { shard_collect(ctx); }

static bool wake(void *ctx, int shard_idx) {
    struct gateway *gw = ctx;
    pthread_mutex_lock(&gw->http_mutex);
    bool woken = gw->http && http_thread_post(gw->http, shard_idx, on_wake, gw->shards[shard_idx]);
    pthread_mutex_unlock(&gw->http_mutex);
    return woken;
}

static void on_models_changed(void *ctx) {
    struct gateway *gw = ctx;
    for (int i = 0; i < gw->shard_count; i++) mailbox_put(&gw->boxes[i], mail_new(MAIL_MODELS, 0, 0, 0, false));
    wire_wake(gw->wire);
}

/* From the pool's thread. */
static void on_prepared(void *ctx, struct prepare_job *job) {
    struct gateway *gw = ctx;
    struct mail *mail = mail_new(MAIL_PREPARED, 0, 0, 0, false);
    mail->job = job;
    mailbox_put(&gw->boxes[job->shard_idx], mail);
    wire_wake(gw->wire);
}

static int open_http(struct gateway *gw, struct error *err) {
    struct http_config config;
    http_config_init(&config);
    config.host = gw->settings.host;
    config.port = (uint16_t)gw->settings.port;
    config.thread_count = gw->shard_count;
    config.body_max_bytes = gw->settings.body_max;
    config.connections_max = (uint32_t)gw->settings.connections_max;
    config.share_port = gw->settings.share_port;
    config.high_water = 256 * 1024;
    config.low_water = 64 * 1024;
    config.write_timeout_ms = (uint32_t)gw->settings.slow_ms;
    server_install(gw, &config);
    gw->http = http_server_new(&config, err);
    return gw->http ? 0 : err->code;
}

static int open_wire(struct gateway *gw, struct error *err) {
    struct u128 instance = {0};
    if (gw->settings.instance && u128_parse(gw->settings.instance, &instance))
        return error_set(err, ERR_INVALID, "--instance must be 32 hex digits");
    struct wire_config config = {.endpoint = gw->settings.scheduler,
                                 .instance = instance,
                                 .models = gw->models,
                                 .boxes = gw->boxes,
                                 .box_count = gw->shard_count,
                                 .wake = wake,
                                 .ctx = gw};
    return wire_new(&gw->wire, &config, err);
}

/* What stands in for the models' own texts; checked here, so that a typing error is told at the start. */
static int read_text_settings(struct gateway *gw, struct text_settings *text, struct error *err) {
    enum { CHAT_TEMPLATE_BYTES_MAX = 1 << 20 };
    const struct gateway_settings *s = &gw->settings;
    int rc = s->chat_template ? file_read(s->chat_template, CHAT_TEMPLATE_BYTES_MAX, &gw->chat_template, err) : 0;
    *text = (struct text_settings){.chat_template = buf_bytes(&gw->chat_template),
                                   .reasoning_parser = s->reasoning_parser,
                                   .tool_call_parser = s->tool_call_parser,
                                   .trust_request_template = s->trust_request_template};
    return rc ? rc : text_settings_check(text, err);
}

int gateway_new(struct gateway **out, const struct gateway_settings *settings, struct error *err) {
    struct gateway *gw = mem_alloc(sizeof *gw);
    gw->settings = *settings;
    pulse_open(&gw->pulse, settings->run_dir, clock_ms());
    gw->shard_count = (int)settings->threads;
    pthread_mutex_init(&gw->http_mutex, NULL);
    gw->boxes = mem_calloc((size_t)gw->shard_count, sizeof *gw->boxes);
    gw->shards = mem_calloc((size_t)gw->shard_count, sizeof *gw->shards);
    struct text_settings text;
    int rc = read_text_settings(gw, &text, err);
    gw->models = model_table_new(&text, on_models_changed, gw);
    gw->pool = prepare_pool_new(on_prepared, gw);
    for (int i = 0; i < gw->shard_count; i++) {
        mailbox_init(&gw->boxes[i]);
        gw->shards[i] = shard_new(gw, i);
    }
    if (rc == 0) rc = auth_init(&gw->auth, settings->api_key, settings->api_key_file, err);
    if (rc == 0) rc = open_http(gw, err);
    if (rc == 0) rc = open_wire(gw, err);
    if (rc == 0) rc = http_server_start(gw->http, err);
    if (rc == 0) rc = wire_start(gw->wire, err);
    if (rc) gateway_free(&gw);
    *out = gw;
    return rc;
}

uint16_t gateway_port(const struct gateway *gw) { return http_server_port(gw->http); }

bool gateway_drain(struct gateway *gw) {
    log_info("draining open=%lld", (long long)atomic_load(&gw->open_count));
    atomic_store(&gw->draining, true);
    http_server_drain(gw->http);
    return http_server_wait_drained(gw->http, gw->settings.drain_ms);
}

/* First the clients' side (streams end, their cancels are queued), then the wire (sends them), then what both used. */
void gateway_free(struct gateway **gateway) {
    struct gateway *gw = *gateway;
    if (!gw) return;
    pthread_mutex_lock(&gw->http_mutex);
    struct http_server *http = gw->http;
    gw->http = NULL;
    pthread_mutex_unlock(&gw->http_mutex);
    if (http) http_server_free(&http);
    pulse_close(&gw->pulse);
    for (int i = 0; i < gw->shard_count; i++) shard_free(&gw->shards[i]);
    prepare_pool_free(&gw->pool);
    if (gw->wire) wire_stop(gw->wire);
    model_table_free(&gw->models);
    buf_release(&gw->chat_template);
    wire_free(&gw->wire);
    for (int i = 0; i < gw->shard_count; i++) mailbox_release(&gw->boxes[i]);
    mem_free(gw->boxes);
    mem_free(gw->shards);
    auth_release(&gw->auth);
    pthread_mutex_destroy(&gw->http_mutex);
    mem_free(gw);
    *gateway = NULL;
}
