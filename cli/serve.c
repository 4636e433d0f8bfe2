#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "cli/merged_options.h"
#include "cli/run_dir.h"
#include "cli/supervisor.h"
#include "formats/gguf.h"

#include "base/exit_reason.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"
#include "gateway/gateway_main.h"
#include "proto/link.h"
#include "scheduler/scheduler_main.h"
#include "worker/settings.h"

#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct serve_settings {
    const char *model, *host, *run_dir, *listen, *exe;
    const char *stage_devices;
    int64_t tp, pp;
    int64_t port, thread_count, worker_count, gateway_count, admin_port, drain_ms, stop_ms,
        silence_ms;
    int log_level, log_format;
};

#define AT(field) offsetof(struct serve_settings, field)
static const struct option_row ROWS[] = {
    {"model", 'm', OPTION_STRING, AT(model), NULL, .important = true, .aliases = "--model-path",
     .help = "Folder of the model; may also be given as the argument."},
    {"host", 0, OPTION_STRING, AT(host), "127.0.0.1", .important = true,
     .help = "Address to listen on."},
    {"port", 'p', OPTION_INT, AT(port), "8000", .min = 1, .max = 65535, .important = true,
     .help = "Port of the HTTP API."},
    {"workers", 'w', OPTION_INT, AT(worker_count), "1", .min = 1, .max = 1024,
     .aliases = "-dp --dp --data-parallel-size --dp-size",
     .help = "Workers: processes, or with --tp and --pp replicas of tp times pp processes."},
    {"tp", 0, OPTION_INT, AT(tp), "1", .min = 1, .max = 64, .unit = "ranks", .important = true,
     .aliases = "-tp --tensor-parallel-size --tp-size",
     .help = "Tensor parallel: so many processes divide each layer among them."},
    {"pp", 0, OPTION_INT, AT(pp), "1", .min = 1, .max = 64, .unit = "stages",
     .aliases = "-pp --pipeline-parallel-size --pp-size",
     .help = "Pipeline parallel: so many stages divide the layers among them."},
    {"stage-devices", 0, OPTION_STRING, AT(stage_devices), NULL,
     .help = "Device of each stage, as cuda,cpu; default: that of --device for all."},
    {"threads", 't', OPTION_INT, AT(thread_count), "0", .min = 0, .max = 1024,
     .help = "Threads that compute, in each worker; 0: one for each core."},
    {"gateways", 0, OPTION_INT, AT(gateway_count), "1", .min = 1, .max = 64,
     .aliases = "--api-server-count", .help = "Gateway processes; they share the port."},
    {"run-dir", 0, OPTION_STRING, AT(run_dir), NULL,
     .help = "Folder for sockets and state; default XDG_RUNTIME_DIR/trireme/PORT or "
             "/tmp/trireme-UID/PORT."},
    {"listen", 0, OPTION_STRING, AT(listen), "ipc",
     .help = "Where the scheduler listens for the others: ipc (a socket in the run folder) or "
             "tcp://127.0.0.1:PORT."},
    {"admin-port", 0, OPTION_INT, AT(admin_port), "0", .min = 0, .max = 64000,
     .help = "Admin port of the scheduler (health, metrics); the workers' follow it. 0: free ones, "
             "drawn once and kept in RUN-DIR/admin-port-ROLE-N."},
    {"drain-timeout", 0, OPTION_DURATION, AT(drain_ms), "30s", .min = 0, .max = 86400000,
     .unit = "ms", .aliases = "--shutdown-timeout", .alias_unit = "s",
     .help = "How long running streams may go on after SIGTERM."},
    {"stop-timeout", 0, OPTION_DURATION, AT(stop_ms), "5s", .min = 0, .max = 600000, .unit = "ms",
     .help = "Between SIGTERM and SIGKILL for schedulers and workers."},
    {"scheduler-silence", 0, OPTION_DURATION, AT(silence_ms), "15s", .min = 1000, .max = 600000,
     .unit = "ms",
     .help = "A scheduler not heard of, a worker or gateway without a pulse for so long is killed "
             "and started again."},
    {"log-level", 0, OPTION_ENUM, AT(log_level), "info", .choices = "debug|info|warn|error",
     .help = "What is logged."},
    {"log-format", 0, OPTION_ENUM, AT(log_format), "text", .choices = "text|json",
     .help = "How it is logged."},
    {"exe", 0, OPTION_STRING, AT(exe), NULL, .help = "Program of the children.", .hidden = true},
};

const struct option_table serve_options = {
    .program = "trireme serve",
    .synopsis = "[OPTIONS] [MODEL]",
    .summary = "Serves a model: starts gateways, a scheduler and workers, and looks after them.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .title = "Processes",
    .arguments = "model"};

static const struct option_table *const CHILD_TABLES[CHILD_ROLE_COUNT] = {
    &gateway_options, &scheduler_options, &worker_options};
/* Rows of the children that serve fills in itself. */
static const char *const DECIDED_HERE[] = {"instance", "share-port", "api-key-stdin", "scheduler",
                                           "connect",  "name",       "rank",          "stage",
                                           "replica",  NULL};

enum { RANKS_MAX = 64 };

struct serve {
    struct merged_options options;
    struct serve_settings *settings; /* at the head of the options' block */
    struct flags flags[CHILD_ROLE_COUNT];
    char *run_dir, *endpoint, *model, *exe; /* owned */
    char *api_key;                          /* owned */
    char *devices;                          /* owned: stage_devices, cut into words */
    const char *device_words[RANKS_MAX];
    int lock_fd;
    struct buf notes; /* of flags, one a line */
};

/* Only a first look: workers say what is wrong with a model. A folder of weights alone may be one,
 * too. */
static bool looks_like_model(const char *path) {
    static const char WEIGHTS[] = ".safetensors";
    char *gguf = gguf_path_of(path), *config = path_join(path, "config.json");
    bool good = gguf || file_exists(config);
    DIR *dir = good ? NULL : opendir(path);
    for (const struct dirent *e; dir && !good && (e = readdir(dir));) {
        size_t len = strlen(e->d_name), tail = sizeof WEIGHTS - 1;
        good = len > tail && !strcmp(e->d_name + len - tail, WEIGHTS);
    }
    if (dir)
        closedir(dir);
    mem_free(gguf);
    mem_free(config);
    return good;
}

static int find_model(struct serve *s, struct error *err) {
    const char *given = s->settings->model;
    if (!given)
        return error_set(err, ERR_INVALID,
                         "which model? give a folder or a .gguf file: trireme serve MODEL");
    s->model = realpath(given, NULL);
    if (!s->model)
        return error_set_errno(err, "cannot find the model '%s'", given);
    if (looks_like_model(s->model))
        return 0;
    return error_set(err, ERR_NOT_FOUND,
                     "'%s' is no model: neither a folder with config.json nor a GGUF file",
                     s->model);
}

static int find_exe(struct serve *s, struct error *err) {
    char path[4096];
    ssize_t len = s->settings->exe ? -1 : readlink("/proc/self/exe", path, sizeof path - 1);
    if (!s->settings->exe && len <= 0)
        return error_set_errno(err, "cannot find this program's own file");
    s->exe = s->settings->exe ? mem_strdup(s->settings->exe) : mem_strndup(path, (size_t)len);
    return 0;
}

static int find_endpoint(struct serve *s, struct error *err) {
    struct buf text;
    buf_init(&text, 0);
    if (!strcmp(s->settings->listen, "ipc"))
        buf_addf(&text, "ipc://%s/scheduler.sock", s->run_dir);
    else
        buf_add_str(&text, s->settings->listen);
    s->endpoint = text.data;
    return link_endpoint_check(s->endpoint, err);
}

static int prepare_place(struct serve *s, struct error *err) {
    s->run_dir = s->settings->run_dir ? mem_strdup(s->settings->run_dir)
                                      : run_dir_default(s->settings->port);
    int rc = run_dir_make(s->run_dir, err);
    if (!rc)
        rc = find_endpoint(s, err);
    return rc ? rc : run_dir_lock(s->run_dir, 3000, &s->lock_fd, err);
}

/* The ranks of a replica compute at the same time: they share the machine's CPUs. 0: one rank,
 * which takes all. */
static int64_t threads_of_a_rank(const struct serve_settings *s) {
    cpu_set_t set;
    int64_t ranks = s->tp * s->pp;
    if (ranks == 1 || sched_getaffinity(0, sizeof set, &set))
        return 0;
    return MAX(CPU_COUNT(&set) / ranks, 1);
}

static int find_devices(struct serve *s, struct error *err) {
    if (s->settings->tp * s->settings->pp > RANKS_MAX)
        return error_set(err, ERR_INVALID,
                         "--tp %" PRId64 " times --pp %" PRId64 " is more than %d ranks",
                         s->settings->tp, s->settings->pp, RANKS_MAX);
    if (!s->settings->stage_devices)
        return 0;
    s->devices = mem_strdup(s->settings->stage_devices);
    char *rest = s->devices, *one;
    int64_t count = 0;
    for (; (one = strsep(&rest, ",")); count++)
        if (count < RANKS_MAX)
            s->device_words[count] = one;
    if (count == s->settings->pp)
        return 0;
    return error_set(err, ERR_INVALID,
                     "--stage-devices '%s' names %" PRId64 " devices for --pp %" PRId64,
                     s->settings->stage_devices, count, s->settings->pp);
}

/* Options whose name differs from role to role or that serve knows better are put here; the rest is
 * passed on as given. */
static void build_flags(struct serve *s, enum child_role role) {
    static const char *const LEVELS[] = {"debug", "info", "warn", "error"};
    const struct option_table *table = CHILD_TABLES[role];
    struct flags *f = &s->flags[role];
    const char *endpoint = role == CHILD_SCHEDULER              ? "listen"
                           : option_table_has(table, "connect") ? "connect"
                                                                : "scheduler";
    flags_add(f, "--%s=%s", endpoint, s->endpoint);
    if (option_table_has(table, "run-dir"))
        flags_add(f, "--run-dir=%s", s->run_dir);
    flags_add(f, "--log-level=%s", LEVELS[s->settings->log_level]);
    flags_add(f, "--log-format=%s", s->settings->log_format ? "json" : "text");
    if (role == CHILD_GATEWAY) {
        flags_add(f, "--host=%s", s->settings->host);
        flags_add(f, "--port=%" PRId64, s->settings->port);
        flags_add(f, "--drain-timeout=%" PRId64 "ms", s->settings->drain_ms);
        if (s->settings->gateway_count > 1)
            flags_add(f, "--share-port");
    }
    if (role == CHILD_SCHEDULER)
        flags_add(f, "--drain-timeout=%" PRId64 "ms", s->settings->stop_ms);
    if (role == CHILD_WORKER) {
        flags_add(f, "--model=%s", s->model);
        int64_t threads =
            s->settings->thread_count ? s->settings->thread_count : threads_of_a_rank(s->settings);
        if (threads)
            flags_add(f, "--threads=%" PRId64, threads);
        if (s->settings->tp > 1)
            flags_add(f, "--tp=%" PRId64, s->settings->tp);
        if (s->settings->pp > 1)
            flags_add(f, "--pp=%" PRId64, s->settings->pp);
    }
    merged_options_flags(&s->options, table, f);
    flags_end(f);
}

/* Keys do not belong on a command line that every user of the machine can list, nor into the
 * environment of those who need none: the gateways read them from standard input. */
static void hide_api_key(struct serve *s) {
    static const char FLAG[] = "--api-key=";
    struct flags *f = &s->flags[CHILD_GATEWAY];
    for (size_t i = 0; i < f->words.count && f->words.items[i]; i++) {
        char *word = f->words.items[i];
        if (strncmp(word, FLAG, sizeof FLAG - 1))
            continue;
        s->api_key = mem_strdup(word + sizeof FLAG - 1);
        mem_free(word);
        f->words.items[i] = mem_strdup("--api-key-stdin");
        return;
    }
}

static bool flags_have(const struct flags *f, const char *flag) {
    for (size_t i = 0; i < f->words.count && f->words.items[i]; i++)
        if (!strncmp(f->words.items[i], flag, strlen(flag)))
            return true;
    return false;
}

static struct supervisor_config supervisor_config(const struct serve *s) {
    struct supervisor_config config = {.exe = s->exe,
                                       .run_dir = s->run_dir,
                                       .endpoint = s->endpoint,
                                       .drain_ms =
                                           /* the gateways count, this only backs it */
                                       s->settings->drain_ms + 1000,
                                       .stop_ms = s->settings->stop_ms,
                                       .silence_ms = s->settings->silence_ms,
                                       .admin_port = s->settings->admin_port};
    int64_t ranks = s->settings->tp * s->settings->pp;
    const int64_t counts[CHILD_ROLE_COUNT] = {s->settings->gateway_count, 1,
                                              s->settings->worker_count * ranks};
    config.replicas =
        (struct supervisor_replicas){.tp = (uint32_t)s->settings->tp,
                                     .pp = (uint32_t)s->settings->pp,
                                     .stage_devices = s->devices ? s->device_words : NULL};
    for (int role = 0; role < CHILD_ROLE_COUNT; role++) {
        struct supervisor_role *r = &config.roles[role];
        *r = (struct supervisor_role){.count = (uint32_t)counts[role],
                                      .flags = s->flags[role].words.items};
        r->takes_admin_port = option_table_has(CHILD_TABLES[role], "admin-port");
        r->takes_name = option_table_has(CHILD_TABLES[role], "name");
        r->takes_instance = option_table_has(CHILD_TABLES[role], "instance");
        r->takes_gpu =
            option_table_has(CHILD_TABLES[role], "gpu") && !flags_have(&s->flags[role], "--gpu=");
    }
    config.roles[CHILD_GATEWAY].secret = s->api_key;
    return config;
}

static void release(struct serve *s) {
    for (int role = 0; role < CHILD_ROLE_COUNT; role++)
        flags_release(&s->flags[role]);
    mem_free(s->run_dir);
    mem_free(s->endpoint);
    free(s->model);
    mem_free(s->exe);
    mem_free(s->devices);
    mem_free(s->api_key);
    merged_options_release(&s->options);
    buf_release(&s->notes);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
}

static int serve(struct serve *s) {
    struct error err;
    int rc = find_model(s, &err);
    if (!rc)
        rc = find_exe(s, &err);
    if (!rc)
        rc = find_devices(s, &err);
    if (!rc)
        rc = prepare_place(s, &err);
    if (rc) {
        log_error("%s", err.text);
        return 1;
    }
    for (int role = 0; role < CHILD_ROLE_COUNT; role++)
        build_flags(s, (enum child_role)role);
    hide_api_key(s);
    exit_reason_supervise();
    unsetenv("TRIREME_CONFIG"); /* what was in the file is passed on as flags */
    struct supervisor_config config = supervisor_config(s);
    log_info("serving model=%s url=http://%s:%" PRId64 " run_dir=%s", s->model, s->settings->host,
             s->settings->port, s->run_dir);
    if (supervisor_run(&config, &err) == 0)
        return 0;
    log_error("%s", err.text);
    return 1;
}

/* A line for each flag that was taken with a note. */
static void log_notes(struct buf *notes) {
    char *rest = notes->data;
    for (char *line; (line = rest ? strsep(&rest, "\n") : NULL);)
        if (*line)
            log_info("%s", line);
}

void serve_options_merge(struct merged_options *m, struct buf *notes) {
    merged_options_init(m, &serve_options, sizeof(struct serve_settings), CHILD_TABLES,
                        CHILD_ROLE_COUNT, DECIDED_HERE);
    m->table.foreign = foreign_flags;
    m->table.foreign_count = foreign_flag_count;
    m->table.notes = notes;
}

int serve_main(int argc, char **argv) {
    struct serve s = {.lock_fd = -1};
    struct error err;
    supervisor_block_signals();
    serve_options_merge(&s.options, &s.notes);
    s.settings = (struct serve_settings *)(void *)s.options.settings;
    int rc = option_parse(&s.options.table, s.settings, argc, argv, NULL, 0, NULL, &err);
    if (rc < 0)
        rc = command_misused("serve", &err);
    else if (rc == OPTION_HELP_PRINTED)
        rc = 0;
    else {
        log_init("serve", (enum log_level)s.settings->log_level, s.settings->log_format == 1);
        log_notes(&s.notes);
        rc = serve(&s);
    }
    release(&s);
    return rc;
}
