#include "scheduler/scheduler_main.h"

#include <stdio.h>

#include "base/exit_reason.h"
#include "base/log.h"
#include "http/http_metrics.h"
#include "scheduler/process.h"
#include "scheduler/scheduler_metrics.h"

#define ROW(flag, member, kind, ...)                                                               \
    {                                                                                              \
        .name = flag, .type = kind, .offset = offsetof(struct scheduler_settings, member),         \
        __VA_ARGS__                                                                                \
    }

static const struct option_row rows[] = {
    ROW("listen", listen, OPTION_STRING, .fallback = "ipc:///run/trireme/scheduler.sock",
        .help = "Where to listen for the others: ipc://PATH or tcp://HOST:PORT; several with "
                "commas between."),
    ROW("insecure-listen", insecure_listen, OPTION_BOOL,
        .help = "Allow tcp addresses that are not loopback. Nothing is encrypted: only for a "
                "network of your own."),
    ROW("run-dir", run_dir, OPTION_STRING, .fallback = "/run/trireme",
        .help = "Folder for the secret that block hashes are keyed with."),
    ROW("secret-file", secret_file, OPTION_STRING,
        .help = "That secret's file; default RUN-DIR/cache.key; made when missing."),
    ROW("admin-host", admin_host, OPTION_STRING, .fallback = "127.0.0.1",
        .help = "Address of the admin port."),
    ROW("admin-port", admin_port, OPTION_INT, .fallback = "-1", .min = -1, .max = 65535,
        .help = "Port of /health and /metrics; 0: any free one; -1: none."),
    ROW("queue-max", queue_max, OPTION_INT, .fallback = "1024", .min = 0, .max = 1000000,
        .unit = "sequences", .aliases = "--max-queued-requests --max-num-queued-reqs",
        .help = "New sequences that may wait; past it 429."),
    ROW("queue-wait", queue_wait_ms, OPTION_DURATION, .fallback = "10s", .min = 0, .max = 86400000,
        .unit = "ms",
        .help = "A new request that is expected to wait longer for its turn is 429; 0: no bound."),
    ROW("step-tokens", step_tokens, OPTION_INT, .max = 1 << 20, .unit = "tokens",
        .aliases = "-b --batch-size --max-prefill-tokens",
        .help = "Most tokens of a step; 0: what the worker takes."),
    ROW("chunk-tokens", chunk_tokens, OPTION_INT, .max = 1 << 20, .unit = "tokens",
        .aliases = "--chunked-prefill-size --long-prefill-token-threshold",
        .help = "Most prompt tokens of one sequence in a step; 0: no bound but the step's."),
    ROW("resume-credits", resume_credits, OPTION_INT, .fallback = "8", .min = 1, .max = 16384,
        .unit = "sequences",
        .help = "Resumed sequences that are recomputed at one time, each replica."),
    ROW("poison-deaths", poison_deaths, OPTION_INT, .fallback = "2", .min = 1, .max = 100,
        .help = "Faults of workers after which the requests they ran are tried apart."),
    ROW("share-prefixes", share_prefixes, OPTION_BOOL,
        .help =
            "Share cached prefixes between API keys, too. It spares work, and lets one key see by "
            "cached_tokens and time what another has asked."),
    ROW("heartbeat", heartbeat_ms, OPTION_DURATION, .fallback = "250ms", .min = 10, .max = 60000,
        .unit = "ms", .help = "Interval of heartbeats on the wire."),
    ROW("silence", silence_ms, OPTION_DURATION, .fallback = "1500ms", .min = 30, .max = 3600000,
        .unit = "ms",
        .help = "A peer not heard of for so long is dead; longer on networks that stall."),
    ROW("drain-timeout", drain_ms, OPTION_DURATION, .fallback = "30s", .min = 0, .max = 86400000,
        .unit = "ms", .help = "How long running requests may go on after SIGTERM."),
    ROW("start-grace", start_grace_ms, OPTION_DURATION, .fallback = "5s", .min = 0, .max = 3600000,
        .unit = "ms",
        .help =
            "After the start, requests for unknown models wait so long for workers to register."),
    ROW("model-grace", model_grace_ms, OPTION_DURATION, .fallback = "5m", .min = 0, .max = 86400000,
        .unit = "ms",
        .help = "A model without workers stays known so long; its resumed requests wait."),
    ROW("gateway-drop", gateway_drop_ms, OPTION_DURATION, .fallback = "10s", .min = 0,
        .max = 3600000, .unit = "ms",
        .help = "A silent gateway's requests are dropped after so long."),
    ROW("record-ttl", record_ttl_ms, OPTION_DURATION, .fallback = "60s", .min = 0, .max = 86400000,
        .unit = "ms",
        .help =
            "A stream that can be resumed (X-Conversation-Id) is kept so long without a client, "
            "and after its end."),
    ROW("tenant-streams", tenant_streams, OPTION_INT, .fallback = "4096", .min = 0, .max = 1000000,
        .unit = "streams",
        .help = "Streams of one API key that are kept so; past it the oldest go."),
    ROW("tenant-stream-bytes", tenant_stream_bytes, OPTION_SIZE, .fallback = "64m", .min = 0,
        .max = 1099511627776.0, .unit = "bytes", .help = "Their memory; past it the oldest go."),
    ROW("record-bytes", record_bytes, OPTION_SIZE, .fallback = "256m", .min = 0,
        .max = 1099511627776.0, .unit = "bytes", .help = "Memory for finished requests."),
    ROW("bundle-bytes", bundle_bytes, OPTION_SIZE, .fallback = "512m", .min = 0,
        .max = 1099511627776.0, .unit = "bytes",
        .help = "Memory for models' text files on their way to gateways."),
    ROW("stuck", stuck_ms, OPTION_DURATION, .fallback = "30s", .min = 100, .max = 3600000,
        .unit = "ms", .aliases = "--watchdog-timeout", .alias_unit = "s",
        .help = "No step is taken for stuck before so long."),
    ROW("log-level", log_level, OPTION_ENUM, .fallback = "info", .choices = "debug|info|warn|error",
        .help = "What is logged."),
    ROW("log-format", log_format, OPTION_ENUM, .fallback = "text", .choices = "text|json",
        .help = "How it is logged."),
};

const struct option_table scheduler_options = {
    .program = "trireme scheduler",
    .synopsis = "[OPTIONS]",
    .summary = "Decides who runs when and where; one for each deployment.",
    .rows = rows,
    .count = ARRAY_LEN(rows),
    .title = "Queues and steps (scheduler)"};

static const char *const END_TEXTS[] = {
    [PROCESS_DRAINED] = "stopped: all work has ended",
    [PROCESS_DRAIN_TIMEOUT] =
        "stopped: some work had not ended in time; gateways hand it to the next scheduler",
    [PROCESS_TERMINATED] = "stopped at once",
    [PROCESS_SUPERSEDED] = "stopped: superseded",
};

static int serve(const struct scheduler_settings *settings) {
    static struct process process;
    struct error err;
    if (settings->silence_ms <= settings->heartbeat_ms) {
        error_set(&err, ERR_INVALID, "--silence must be longer than --heartbeat");
        return exit_reason_leave(settings->run_dir, "scheduler", &err);
    }
    if (process_init(&process, settings, &err) != 0)
        return exit_reason_leave(settings->run_dir, "scheduler", &err);
    log_info("started epoch=%llu", (unsigned long long)link_server_epoch(process.link).number);
    enum process_end end = process_run(&process);
    process_release(&process);
    log_info("%s", END_TEXTS[end]);
    return end == PROCESS_SUPERSEDED;
}

int scheduler_main(int argc, char **argv) {
    struct scheduler_settings settings;
    struct error err;
    size_t positional_count;
    int outcome =
        option_parse(&scheduler_options, &settings, argc, argv, NULL, 0, &positional_count, &err);
    if (outcome == OPTION_HELP_PRINTED)
        return 0;
    if (outcome < 0) {
        fprintf(stderr, "trireme scheduler: %s\n", err.text);
        return EXIT_MISUSED;
    }
    log_init("scheduler", (enum log_level)settings.log_level, settings.log_format == 1);
    scheduler_metrics_register();
    http_metrics_register();
    int rc = serve(&settings);
    option_free(&scheduler_options, &settings);
    return rc;
}
