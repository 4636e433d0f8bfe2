#include "scheduler/scheduler_main.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/exit_reason.h"
#include "base/file_limit.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "base/sandbox.h"
#include "http/http_metrics.h"
#include "lease/lease.h"
#include "proto/link_key.h"
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
    ROW("key-file", key_file, OPTION_STRING, .help = LINK_KEY_FILE_HELP),
    ROW("allow-keys", allow_keys, OPTION_STRING, .help = LINK_ALLOW_KEYS_HELP),
    ROW("lease", lease, OPTION_STRING,
        .help =
            "Stand by for another scheduler, and lead when this is granted: etcd:URL[,URL...] "
            "or kubernetes: (a Lease of the pod's API server) over several hosts, file:/PATH on "
            "one. Peers name the addresses of all "
            "(docs/operating.md)."),
    ROW("lease-name", lease_name, OPTION_STRING, .fallback = "trireme/scheduler",
        .help =
            "What is led: the key in etcd, the name of the Lease; another one for each deployment."),
    ROW("lease-ttl", lease_ttl_ms, OPTION_DURATION, .fallback = "5s", .min = 1000, .max = 3600000,
        .unit = "ms",
        .help = "etcd, Kubernetes: so long after its last word a leader is given up."),
    ROW("lease-user", lease_user, OPTION_STRING, .help = "etcd: the user who logs in."),
    ROW("lease-password-file", lease_password_file, OPTION_STRING,
        .help = "etcd: file with the user's password."),
    ROW("lease-ca", lease_authority, OPTION_STRING,
        .help =
            "etcd: file of the certificates that its own are checked against (PEM); default: the "
            "system's, or those of SSL_CERT_FILE."),
    ROW("lease-cert", lease_certificate, OPTION_STRING,
        .help = "etcd: our certificate, where it asks for one (PEM)."),
    ROW("lease-key", lease_key, OPTION_STRING, .help = "etcd: the key of --lease-cert (PEM)."),
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
        .help = "New sequences that may wait for a model; past it 429, but for keys (or without "
                "keys addresses) with less than a share of them."),
    ROW("queue-wait", queue_wait_ms, OPTION_DURATION, .fallback = "auto", .word = "auto", .min = 0,
        .max = 86400000, .unit = "ms",
        .help =
            "A new request whose first token is expected to come later than alone by more than this is 429, unless in the "
            "last ten seconds there were never more than four; 0: no bound; auto: 10s, but up to 64 in all wait as long as "
            "it takes."),
    ROW("step-tokens", step_tokens, OPTION_INT, .max = 1 << 20, .unit = "tokens",
        .aliases = "-b --batch-size --max-prefill-tokens",
        .help = "Most tokens of a step; 0: what the worker takes."),
    ROW("chunk-tokens", chunk_tokens, OPTION_INT, .max = 1 << 20, .unit = "tokens",
        .aliases = "--chunked-prefill-size --long-prefill-token-threshold",
        .help = "Most prompt tokens of one sequence in a step; 0: no bound but the step's."),
    ROW("drafts", drafts, OPTION_INT, .fallback = "0", .max = 64, .unit = "tokens",
        .aliases = "--draft-max --speculative-num-draft-tokens --num-speculative-tokens",
        .help =
            "Most tokens that a step guesses ahead for a sequence (drafts): what followed where its last tokens stand earlier "
            "in it. The answer is the same, fewer steps make it. On the CPU alone, and not for models that carry a state. "
            "0: none."),
    ROW("itl-target", itl_target_ms, OPTION_DURATION, .fallback = "auto", .word = "auto", .min = 0,
        .max = 60000, .unit = "ms",
        .help =
            "Inter-token latency that answers should keep while prompts are computed beside them: "
            "prompts are cut so that a step takes no longer. Still, prompts have half of its time, and 16 "
            "tokens; 0: no bound; auto: 30ms to 100ms, as much time for each prompt as for two answers."),
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
    ROW("table-bytes", table_bytes, OPTION_SIZE, .fallback = "4g", .min = 1 << 20,
        .max = 1099511627776.0, .unit = "bytes",
        .help = "Memory for tables of the blocks that workers say they have (about 100 bytes a "
                "block); a worker past it is refused."),
    ROW("bundle-bytes", bundle_bytes, OPTION_SIZE, .fallback = "512m", .min = 0,
        .max = 1099511627776.0, .unit = "bytes",
        .help = "Memory for models' text files on their way to gateways."),
    ROW("stuck", stuck_ms, OPTION_DURATION, .fallback = "30s", .min = 100, .max = 3600000,
        .unit = "ms", .aliases = "--watchdog-timeout", .alias_unit = "s",
        .help = "No step is taken for stuck before so long."),
    ROW("sandbox", sandbox, OPTION_BOOL, .fallback = "true",
        .help =
            "Give up what the process does not need once it has started (no_new_privs, seccomp, "
            "Landlock)."),
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
    [PROCESS_HANDED_OVER] = "stopped: whoever stands by goes on",
    [PROCESS_LEASE_LOST] = "stopped: the lease is lost",
    [PROCESS_SUPERSEDED] = "stopped: superseded",
};

/* Before there are threads. */
static void give_up_files(const struct scheduler_settings *s) {
    const char *account = s->lease ? lease_account(s->lease) : NULL;
    char *token = account ? path_join(account, "token") : NULL;
    struct sandbox_place places[PROCESS_ENDPOINTS_MAX + 11] = {
        {s->run_dir, SANDBOX_WRITES_BELOW},
        {s->secret_file, SANDBOX_WRITES_FILE},
        {s->key_file, SANDBOX_READS_FILE},
        {s->allow_keys, SANDBOX_READS_FILE},
        {s->lease && !strncmp(s->lease, "file:", 5) ? s->lease + 5 : NULL, SANDBOX_WRITES_FILE},
        {token, SANDBOX_READS_FILE},
        {s->lease_password_file, SANDBOX_READS_FILE},
        {s->lease_authority, SANDBOX_READS_FILE},
        {s->lease_certificate, SANDBOX_READS_FILE},
        {s->lease_key, SANDBOX_READS_FILE},
        {getenv("SSL_CERT_FILE"), SANDBOX_READS_FILE}};
    size_t count = 11;
    char *list = mem_strdup(s->listen), *rest = list, *one;
    while ((one = strsep(&rest, ",")) && count < ARRAY_LEN(places))
        if (strncmp(one, "ipc://", 6) == 0)
            places[count++] = (struct sandbox_place){one + 6, SANDBOX_WRITES_FILE};
    sandbox_start_files(s->sandbox, places, count);
    mem_free(token);
    mem_free(list);
}

static int serve(const struct scheduler_settings *settings) {
    static struct process process;
    struct error err;
    if (settings->silence_ms <= settings->heartbeat_ms) {
        error_set(&err, ERR_INVALID, "--silence must be longer than --heartbeat");
        return exit_reason_leave(settings->run_dir, "scheduler", &err);
    }
    if (settings->lease && lease_check(settings->lease, &err))
        return exit_reason_leave(settings->run_dir, "scheduler", &err);
    give_up_files(settings);
    int rc = process_init(&process, settings, &err);
    if (rc == ERR_CLOSED && settings->lease) {
        log_info("%s", err.text);
        return 0;
    }
    if (rc)
        return exit_reason_leave(settings->run_dir, "scheduler", &err);
    /* names are looked up anew for each connection to the lease's engine */
    sandbox_start(settings->sandbox, settings->lease ? SANDBOX_SOCKETS : 0);
    log_info("started epoch=%llu", (unsigned long long)link_server_epoch(process.link).number);
    enum process_end end = process_run(&process);
    process_release(&process);
    log_info("%s", END_TEXTS[end]);
    return end == PROCESS_SUPERSEDED || end == PROCESS_LEASE_LOST;
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
    file_limit_raise(); /* libzmq ends a process that has no file left for a peer on ipc */
    int rc = serve(&settings);
    option_free(&scheduler_options, &settings);
    return rc;
}
