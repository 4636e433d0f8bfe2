#include "gateway/gateway_main.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/exit_reason.h"
#include "base/file_limit.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "base/sandbox.h"
#include "gateway/access/auth.h"
#include "gateway/gateway.h"
#include "gateway/watch/gateway_metrics.h"
#include "gateway/watch/key_metrics.h"
#include "gateway/watch/model_metrics.h"
#include "http/http_metrics.h"
#include "proto/link.h"
#include "proto/link_key.h"
#include "text/tokenizer/fast/compiled.h"

#define AT(member) offsetof(struct gateway_settings, member)
static const struct option_row rows[] = {
    {.name = "host",
     .type = OPTION_STRING,
     .offset = AT(host),
     .fallback = "127.0.0.1",
     .help = "Address to listen on."},
    {.name = "port",
     .short_name = 'p',
     .type = OPTION_INT,
     .offset = AT(port),
     .fallback = "8080",
     .min = 0,
     .max = 65535,
     .help = "Port to listen on; 0 takes any free one and logs it."},
    {.name = "tls-cert",
     .type = OPTION_STRING,
     .offset = AT(tls_cert),
     .aliases = "--ssl-cert-file --ssl-certfile",
     .help = "File with the certificate (PEM, its chain behind it) to speak HTTPS with, beside "
             "--tls-key; read again when it changes. None: plain HTTP."},
    {.name = "tls-key",
     .type = OPTION_STRING,
     .offset = AT(tls_key),
     .aliases = "--ssl-key-file --ssl-keyfile",
     .help = "File with the private key of --tls-cert (PEM, without a passphrase)."},
    {.name = "http-threads",
     .type = OPTION_INT,
     .offset = AT(threads),
     .fallback = "2",
     .min = 1,
     .max = HTTP_THREADS_MAX,
     .aliases = "--threads-http",
     .help = "Event threads."},
    {.name = "scheduler",
     .type = OPTION_STRING,
     .offset = AT(scheduler),
     .fallback = "ipc:///run/trireme/scheduler.sock",
     .help = "Endpoint of the scheduler: ipc://PATH or tcp://HOST:PORT; several with commas "
             "between where one stands by for the other."},
    {.name = "key-file", .type = OPTION_STRING, .offset = AT(key_file), .help = LINK_KEY_FILE_HELP},
    {.name = "allow-keys",
     .type = OPTION_STRING,
     .offset = AT(allow_keys),
     .help = LINK_ALLOW_KEYS_HELP},
    {.name = "api-key",
     .type = OPTION_STRING,
     .offset = AT(api_key),
     .important = true,
     .secret = true,
     .help = "API keys that clients must send, comma-separated; none: open to all."},
    {.name = "api-key-stdin",
     .type = OPTION_BOOL,
     .offset = AT(api_key_stdin),
     .help = "The text of --api-key comes from standard input.",
     .hidden = true},
    {.name = "api-key-file",
     .type = OPTION_STRING,
     .offset = AT(api_key_file),
     .help = "File with API keys, one a line; read again when it has changed, or on SIGHUP."},
    {.name = "allow-hosts",
     .type = OPTION_STRING,
     .offset = AT(allow_hosts),
     .help = "Names by which clients may call a server on the loopback, beside localhost and its "
             "addresses, with commas between (behind a proxy: the public name); * checks none. "
             "Given, a server on other addresses checks them, too."},
    {.name = "allow-origins",
     .type = OPTION_STRING,
     .offset = AT(allow_origins),
     .aliases = "--allowed-origins",
     .help = "Web pages that may use this server from a browser: their origins, comma-separated, "
             "scheme://host[:port] each, or * for all; none: no page of another origin."},
    {.name = "request-timeout",
     .type = OPTION_DURATION,
     .offset = AT(request_timeout_ms),
     .fallback = "1h",
     .min = 0,
     .max = 86400000,
     .unit = "ms",
     .help = "Longest time a request may take; 0: no bound."},
    {.name = "model-wait",
     .type = OPTION_DURATION,
     .offset = AT(model_wait_ms),
     .fallback = "30s",
     .min = 0,
     .max = 3600000,
     .unit = "ms",
     .help = "How long a new request waits while no model or no scheduler is there, before it is "
             "answered 503."},
    {.name = "drain-timeout",
     .type = OPTION_DURATION,
     .offset = AT(drain_ms),
     .fallback = "30s",
     .min = 0,
     .max = 86400000,
     .unit = "ms",
     .aliases = "--shutdown-timeout",
     .alias_unit = "s",
     .help = "How long running requests may go on after SIGTERM."},
    {.name = "keep-alive",
     .type = OPTION_DURATION,
     .offset = AT(ping_ms),
     .fallback = "10s",
     .min = 100,
     .max = 3600000,
     .unit = "ms",
     .aliases = "--sse-ping-interval",
     .alias_unit = "s",
     .help = "A comment is sent on streams that were silent for so long."},
    {.name = "slow-client-timeout",
     .type = OPTION_DURATION,
     .offset = AT(slow_ms),
     .fallback = "60s",
     .min = 1000,
     .max = 86400000,
     .unit = "ms",
     .aliases = "-to --timeout",
     .alias_unit = "s",
     .help = "A stream whose client has not read for so long is cut."},
    {.name = "probe-timeout",
     .type = OPTION_DURATION,
     .offset = AT(probe_ms),
     .fallback = "1200ms",
     .min = 10,
     .max = 60000,
     .unit = "ms",
     .help = "Time /health/e2e gives a token to come."},
    {.name = "connections-max",
     .type = OPTION_INT,
     .offset = AT(connections_max),
     .fallback = "16384",
     .min = 1,
     .max = 1000000,
     .unit = "connections",
     .help =
         "Connections open at once (fewer where the process may not open so many files); past it 503."},
    {.name = "chat-template",
     .type = OPTION_STRING,
     .offset = AT(chat_template),
     .aliases = "--chat-template-file",
     .help = "File with a chat template (Jinja) to use instead of the model's own."},
    {.name = "trust-request-chat-template",
     .type = OPTION_BOOL,
     .offset = AT(trust_request_template),
     .help = "Take the field chat_template of requests: a template for that request alone."},
    {.name = "reasoning-parser",
     .type = OPTION_STRING,
     .offset = AT(reasoning_parser),
     .fallback = "auto",
     .aliases = "--reasoning-format",
     .alias_words = "none=none auto=auto deepseek=auto",
     .help = "How reasoning is told from content: auto (by the chat template), none, or a name of "
             "docs/parsers.md."},
    {.name = "tool-call-parser",
     .type = OPTION_STRING,
     .offset = AT(tool_call_parser),
     .fallback = "auto",
     .help = "How tool calls are read: auto (by the chat template), none, or a name of "
             "docs/parsers.md."},
    {.name = "served-model-name",
     .type = OPTION_STRING,
     .offset = AT(served_names),
     .important = true,
     .many = true,
     .aliases = "-a --alias",
     .help =
         "Names of the model, with commas or blanks between: workers register it by the first, "
         "which answers carry; the others lead to it. A gateway of several models takes a,b;c: b "
         "leads to a, and so do requests that name no model."},
    {.name = "models-on-demand",
     .type = OPTION_BOOL,
     .offset = AT(models_on_demand),
     .help = "Models of --served-model-name may be without workers: these are asked for when a "
             "request needs them."},
    {.name = "seed",
     .type = OPTION_INT,
     .offset = AT(seed),
     .fallback = "-1",
     .min = -1,
     .max = 9007199254740991.0,
     .aliases = "-s --random-seed",
     .help = "Seed of requests that bring none; -1: a new one for each."},
    {.name = "cache-dir",
     .type = OPTION_STRING,
     .offset = AT(cache_dir),
     .help =
         "Folder where vocabularies, and a worker's packed weights, are kept ready to be mapped "
         "by all processes of a user; default XDG_CACHE_HOME/trireme or ~/.cache/trireme, none: "
         "keep nothing."},
    {.name = "share-port",
     .type = OPTION_BOOL,
     .offset = AT(share_port),
     .help = "Several gateways listen on the same port; the kernel spreads the connections."},
    {.name = "instance",
     .type = OPTION_STRING,
     .offset = AT(instance),
     .help = "Identity of this process on the wire, 32 hex digits; default: random.",
     .hidden = true},
    {.name = "run-dir",
     .type = OPTION_STRING,
     .offset = AT(run_dir),
     .help = "Folder for the pulse that a supervisor watches.",
     .hidden = true},
    {.name = "priority-min",
     .type = OPTION_INT,
     .offset = AT(priority_min),
     .fallback = "0",
     .min = -1000000,
     .max = 1000000,
     .help = "Lowest priority that a request may ask for; lower numbers go first of a key's "
             "requests. Behind a key in --api-key-file stands its own: KEY priority-min=-10."},
    {.name = "key-requests",
     .type = OPTION_INT,
     .offset = AT(key_requests),
     .fallback = "0",
     .min = 0,
     .max = AUTH_REQUESTS_MAX,
     .unit = "requests",
     .help = "Generation requests that one API key may have at one time, at all gateways; past it "
             "429; 0: no bound. Without keys all clients are one. Behind a key in --api-key-file "
             "stands its own: KEY requests=8."},
    {.name = "key-tokens-per-minute",
     .type = OPTION_INT,
     .offset = AT(key_minute_tokens),
     .fallback = "0",
     .min = 0,
     .max = AUTH_MINUTE_TOKENS_MAX,
     .unit = "tokens",
     .help = "Tokens of prompts and output that one API key may use in a minute, at all gateways; "
             "past it 429 with Retry-After; 0: no bound. Behind a key in --api-key-file stands its "
             "own: KEY tokens-per-minute=60000."},
    {.name = "requests-max",
     .type = OPTION_INT,
     .offset = AT(open_max),
     .fallback = "16384",
     .min = 1,
     .max = 1000000,
     .unit = "requests",
     .help = "Generation requests open at once; past it 429, but for keys (or without keys "
             "addresses) with less than a share of them."},
    {.name = "body-max",
     .type = OPTION_SIZE,
     .offset = AT(body_max),
     .fallback = "16m",
     .min = 1024,
     .max = 256 << 20,
     .unit = "bytes",
     .help = "Largest request body; past it 413."},
    {.name = "responses-bytes",
     .type = OPTION_SIZE,
     .offset = AT(responses_bytes),
     .fallback = "64m",
     .min = 0,
     .max = 1099511627776.0,
     .unit = "bytes",
     .help = "Memory for answers of /v1/responses that clients may ask for again or go on from; "
             "past it the oldest leave. 0: none is kept."},
    {.name = "answers-max",
     .type = OPTION_SIZE,
     .offset = AT(answers_max),
     .fallback = "256m",
     .min = 1 << 20,
     .max = 1099511627776.0,
     .unit = "bytes",
     .help = "Memory for answers that are not streamed, until their clients have read them; past "
             "it 503. One key has at most as much as is free."},
    {.name = "sandbox",
     .type = OPTION_BOOL,
     .offset = AT(sandbox),
     .fallback = "true",
     .help = "Give up what the process does not need once it has started (no_new_privs, seccomp, "
             "Landlock)."},
    {.name = "otlp-endpoint",
     .type = OPTION_STRING,
     .offset = AT(otlp_endpoint),
     .help = "Collector of OpenTelemetry traces (OTLP/HTTP, JSON): http://HOST:PORT, to which "
             "/v1/traces is added; default OTEL_EXPORTER_OTLP_ENDPOINT, else none."},
    {.name = "trace-ratio",
     .type = OPTION_FLOAT,
     .offset = AT(trace_ratio),
     .fallback = "1",
     .min = 0,
     .max = 1,
     .help = "How many of the requests without a traceparent are traced; with one its flag says."},
    {.name = "log-level",
     .type = OPTION_ENUM,
     .offset = AT(log_level),
     .fallback = "info",
     .choices = "debug|info|warn|error",
     .help = "What is logged."},
    {.name = "log-format",
     .type = OPTION_ENUM,
     .offset = AT(log_format),
     .fallback = "text",
     .choices = "text|json",
     .help = "How it is logged."},
};

const struct option_table gateway_options = {
    .program = "trireme gateway",
    .synopsis = "[OPTIONS]",
    .summary = "Serves the HTTP API; stateless, any number may run.",
    .rows = rows,
    .count = ARRAY_LEN(rows),
    .title = "The HTTP API (gateway)"};

/* Blocked before any thread starts, so that only wait_for_end takes them. SIGHUP reads certificate
 * and keys again; without them there is nothing to do, and no reason to cut the streams. */
static void block_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

/* As many connections as the system lets us have files for: where accept fails, nobody has a share of
 * them, and the scheduler could not be reached again. */
static int64_t bound_connections(int64_t connections_max) {
    uint64_t limit = file_limit_raise();
    int64_t most = (int64_t)file_limit_clients(limit, (uint64_t)connections_max);
    if (most < connections_max)
        log_warn("only %llu files may be open, so %lld connections are taken, not %lld "
                 "(--connections-max); raise the limit (ulimit -n, LimitNOFILE=)",
                 (unsigned long long)limit, (long long)most, (long long)connections_max);
    return most;
}

static void wait_for_end(struct gateway *gw, const sigset_t *signals) {
    static const struct timespec LOOK = {.tv_sec = 2}; /* for files that have changed */
    bool has_files = gw->settings.tls_cert || gw->settings.api_key_file;
    for (;;) {
        int number = sigtimedwait(signals, NULL, has_files ? &LOOK : NULL);
        if (number == SIGTERM || number == SIGINT)
            return;
        gateway_renew(gw, number == SIGHUP);
    }
}

/* Before there are threads. */
static void give_up_files(const struct gateway_settings *s) {
    const struct sandbox_place places[] = {
        {s->run_dir, SANDBOX_WRITES_BELOW},    {compiled_folder(), SANDBOX_WRITES_BELOW},
        {s->key_file, SANDBOX_READS_FILE},     {s->allow_keys, SANDBOX_READS_FILE},
        {s->tls_cert, SANDBOX_READS_FILE},     {s->tls_key, SANDBOX_READS_FILE},
        {s->api_key_file, SANDBOX_READS_FILE}, {s->chat_template, SANDBOX_READS_FILE}};
    sandbox_start_files(s->sandbox, places, ARRAY_LEN(places));
}

static int serve(struct gateway_settings *settings) {
    struct gateway *gw;
    struct error err;
    sigset_t signals;
    block_signals(&signals);
    settings->connections_max = bound_connections(settings->connections_max);
    compiled_set_folder(settings->cache_dir);
    give_up_files(settings);
    if (link_endpoints_check(settings->scheduler, &err) || gateway_new(&gw, settings, &err))
        return exit_reason_leave(settings->run_dir, "gateway", &err);
    unsigned traces = settings->otlp_endpoint ? SANDBOX_INET : 0;
    sandbox_start(settings->sandbox, sandbox_need_of(settings->scheduler) | traces);
    log_info("listening host=%s port=%u tls=%s scheduler=%s", settings->host, gateway_port(gw),
             settings->tls_cert ? "on" : "off", settings->scheduler);
    wait_for_end(gw, &signals);
    bool drained = gateway_drain(gw);
    if (!drained)
        log_warn("streams were cut: they did not end in time");
    gateway_free(&gw);
    log_info("stopped");
    return drained ? 0 : 1;
}

/* Gateways of a supervisor are one to whoever scrapes their port. */
static void share_metrics(const struct gateway_settings *settings) {
    struct error err;
    if (settings->run_dir && metrics_share(settings->run_dir, "gateway-metrics", &err))
        log_warn("/metrics tells of this process alone: %s", err.text);
}

/* The variable that every program with OpenTelemetry knows; empty counts as not set. */
static void take_otlp_variable(struct gateway_settings *settings) {
    const char *endpoint = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    if (!settings->otlp_endpoint && endpoint && *endpoint)
        settings->otlp_endpoint = mem_strdup(endpoint); /* option_free's */
}

/* What a supervisor was given as --api-key: neither a command line nor the environment of others
 * has it. */
static int take_api_key(struct gateway_settings *settings, struct error *err) {
    enum { KEYS_BYTES_MAX = AUTH_KEYS_MAX * (AUTH_KEY_BYTES_MAX + 1) };
    struct buf text;
    if (!settings->api_key_stdin)
        return 0;
    buf_init(&text, 0);
    int rc = file_read_any("/dev/stdin", KEYS_BYTES_MAX, &text, err);
    if (!rc) {
        mem_free((char *)settings->api_key);
        settings->api_key = mem_strndup(buf_text(&text), text.len); /* option_free's */
    }
    buf_release(&text);
    return rc;
}

int gateway_main(int argc, char **argv) {
    enum { LARGE_BUFFER = 256 * 1024 };
    struct gateway_settings settings;
    struct error err;
    size_t positional;
    int outcome = option_parse(&gateway_options, &settings, argc, argv, NULL, 0, &positional, &err);
    if (outcome == OPTION_HELP_PRINTED)
        return 0;
    if (outcome < 0) {
        fprintf(stderr, "trireme gateway: %s\n", err.text);
        return EXIT_MISUSED;
    }
    /* Said once, it stays: left alone, it grows until large buffers are kept when they are freed. */
    mallopt(M_MMAP_THRESHOLD, LARGE_BUFFER);
    log_init("gateway", (enum log_level)settings.log_level, settings.log_format == 1);
    if (take_api_key(&settings, &err)) {
        log_error("cannot take the API keys: %s", err.text);
        option_free(&gateway_options, &settings);
        return 1;
    }
    take_otlp_variable(&settings);
    gateway_metrics_register();
    http_metrics_register();
    model_metrics_register();
    key_metrics_register();
    share_metrics(&settings);
    int rc = serve(&settings);
    option_free(&gateway_options, &settings);
    return rc;
}
