#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "cli/merged_options.h"
#include "cli/run_dir.h"
#include "cli/serve_models.h"
#include "cli/supervisor.h"

#include "base/exit_reason.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/loopback.h"
#include "base/url_host.h"
#include "gateway/gateway_main.h"
#include "proto/link.h"
#include "proto/link_key.h"
#include "scheduler/scheduler_main.h"
#include "worker/settings.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define AT(field) offsetof(struct serve_settings, field)
static const struct option_row ROWS[] = {
    {"model", 'm', OPTION_STRING, AT(model), NULL, .important = true, .list = true,
     .aliases = "--model-path -hf --hf-repo",
     .help = "Folder of the model, a GGUF file, or a hub's name for one (ORG/NAME, "
             "ORG/NAME:Q4_K_M, ollama:NAME); may also be given as the argument. Again for each "
             "further model, as NAME=PATH,OPTION=VALUE,...: what requests call it, and what its "
             "workers have of their own (docs/operating.md)."},
    {"host", 0, OPTION_STRING, AT(host), "127.0.0.1", .important = true,
     .help = "Address to listen on."},
    {"port", 'p', OPTION_INT, AT(port), "8000", .min = 1, .max = 65535, .important = true,
     .help = "Port of the HTTP API."},
    {"workers", 'w', OPTION_INT, AT(worker_count), "1", .min = 1, .max = 1024,
     .aliases = "-dp --dp --data-parallel-size --dp-size",
     .help = "Workers: processes, or with --tp and --pp replicas of tp times pp processes."},
    {"on-demand", 0, OPTION_BOOL, AT(on_demand), NULL,
     .help = "Load a model when a request needs it, and unload it when none has for --idle-unload "
             "or another needs its room; usually said of one: --model NAME=PATH,on-demand."},
    {"idle-unload", 0, OPTION_DURATION, AT(idle_unload_ms), "5m", .min = 0, .max = 604800000,
     .unit = "ms",
     .help =
         "Models on demand are unloaded after so long without a request; 0: only to make room."},
    {"models-max", 0, OPTION_INT, AT(models_max), "0", .min = 0, .max = SUPERVISOR_MODELS_MAX,
     .unit = "models",
     .help = "So many models are loaded at one time; for another the one on demand that was used "
             "longest ago is unloaded; 0: no bound."},
    {"models-memory", 0, OPTION_SIZE, AT(models_memory), "0", .unit = "bytes",
     .help = "Memory that loaded models may take together, each as --memory says; 0: no bound."},
    {"memory", 0, OPTION_SIZE, AT(memory), "0", .unit = "bytes",
     .help = "What a model counts for in --models-memory; 0: the size of its weight files, and "
             "--kv-bytes for each worker."},
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
             "tcp://127.0.0.1:PORT, which takes those alone whose keys are in --keys."},
    {"keys", 0, OPTION_STRING, AT(keys), NULL,
     .help = "For tcp: folder with the processes' keys (ROLE.key) and the list of those that are "
             "believed (allow); what is missing is made. Default: RUN-DIR/keys."},
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
static const char *const DECIDED_HERE[] = {
    "instance", "share-port", "api-key-stdin", "scheduler",  "connect",          "name", "rank",
    "stage",    "replica",    "key-file",      "allow-keys", "models-on-demand", NULL};

struct serve {
    struct merged_options options;
    struct serve_settings *settings; /* at the head of the options' block */
    struct flags flags[CHILD_ROLE_COUNT];
    struct serve_models models;
    int argc;
    char **argv;                    /* as given, to be read again for each model */
    char *run_dir, *endpoint, *exe; /* owned */
    char *api_key;                  /* owned */
    char *keys;                     /* owned: the folder; NULL: no tcp, no keys */
    char *key_file, *allow_keys;    /* owned: the supervisor's */
    int lock_fd;
    struct buf notes;  /* of flags, one a line */
    char *config_path; /* owned: of the environment; NULL: none */
    uint32_t
        configured_count; /* models that the command line names; those behind them were added */
};

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

/* One machine's tcp needs no configuration: its keys are made at the first start. */
static int make_keys(struct serve *s, struct error *err) {
    if (strncmp(s->endpoint, "tcp://", 6))
        return 0;
    s->keys = s->settings->keys ? mem_strdup(s->settings->keys) : path_join(s->run_dir, "keys");
    s->key_file = path_join(s->keys, "supervisor.key");
    s->allow_keys = path_join(s->keys, "allow");
    return link_keys_make(s->keys, err);
}

static int prepare_place(struct serve *s, struct error *err) {
    s->run_dir = s->settings->run_dir ? mem_strdup(s->settings->run_dir)
                                      : run_dir_default(s->settings->port);
    int rc = run_dir_make(s->run_dir, err);
    if (!rc)
        rc = find_endpoint(s, err);
    if (!rc)
        rc = run_dir_lock(s->run_dir, 3000, &s->lock_fd, err);
    return rc ? rc : make_keys(s, err);
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

static bool flags_have(const struct flags *f, const char *flag) {
    for (size_t i = 0; i < f->words.count && f->words.items[i]; i++)
        if (!strncmp(f->words.items[i], flag, strlen(flag)))
            return true;
    return false;
}

static void build_worker_flags(const struct serve_model *m, struct flags *f) {
    const struct serve_settings *settings = m->settings;
    int64_t threads = settings->thread_count ? settings->thread_count : threads_of_a_rank(settings);
    flags_add(f, "--model=%s", m->path);
    if (threads)
        flags_add(f, "--threads=%" PRId64, threads);
    if (settings->tp > 1)
        flags_add(f, "--tp=%" PRId64, settings->tp);
    if (settings->pp > 1)
        flags_add(f, "--pp=%" PRId64, settings->pp);
}

/* A worker registers its model by the first of its names, the gateways know them all. */
static void build_names(const struct serve *s, enum child_role role, const struct serve_model *m,
                        struct flags *f) {
    struct buf names = {0};
    serve_models_names(&s->models, &names);
    if (m && m->name)
        flags_add(f, "--served-model-name=%s", m->name);
    else if (m && m->public_name && !flags_have(f, "--served-model-name="))
        flags_add(f, "--served-model-name=%s", m->public_name);
    else if (role == CHILD_GATEWAY && names.len)
        flags_add(f, "--served-model-name=%s", buf_text(&names));
    else if (role == CHILD_GATEWAY && !flags_have(f, "--served-model-name=")) {
        /* requests that name no model go to it, also when others have been added */
        char name[WORKER_NAME_MAX];
        serve_model_public_name(&s->models.items[0], name);
        if (!strpbrk(name, ",;"))
            flags_add(f, "--served-model-name=%s", name);
    }
    buf_release(&names);
}

/* Options whose name differs from role to role or that serve knows better are put here; the rest is
 * passed on as given. */
static void build_flags(struct serve *s, enum child_role role, struct serve_model *model) {
    static const char *const LEVELS[] = {"debug", "info", "warn", "error"};
    const struct option_table *table = CHILD_TABLES[role];
    struct flags *f = model ? &model->flags : &s->flags[role];
    const char *endpoint = role == CHILD_SCHEDULER              ? "listen"
                           : option_table_has(table, "connect") ? "connect"
                                                                : "scheduler";
    flags_add(f, "--%s=%s", endpoint, s->endpoint);
    if (option_table_has(table, "run-dir"))
        flags_add(f, "--run-dir=%s", s->run_dir);
    if (s->keys) {
        flags_add(f, "--key-file=%s/%s.key", s->keys, child_role_name(role));
        flags_add(f, "--allow-keys=%s", s->allow_keys);
    }
    flags_add(f, "--log-level=%s", LEVELS[s->settings->log_level]);
    flags_add(f, "--log-format=%s", s->settings->log_format ? "json" : "text");
    if (role == CHILD_GATEWAY) {
        flags_add(f, "--host=%s", s->settings->host);
        flags_add(f, "--port=%" PRId64, s->settings->port);
        flags_add(f, "--drain-timeout=%" PRId64 "ms", s->settings->drain_ms);
        if (s->settings->gateway_count > 1)
            flags_add(f, "--share-port");
        if (serve_models_any_on_demand(&s->models))
            flags_add(f, "--models-on-demand");
    }
    if (role == CHILD_SCHEDULER)
        flags_add(f, "--drain-timeout=%" PRId64 "ms", s->settings->stop_ms);
    if (model) {
        flags_add(f, "--drain-timeout=%" PRId64 "ms", s->settings->drain_ms);
        build_worker_flags(model, f);
    }
    merged_options_flags(model ? &model->options : &s->options, table, f);
    if (role == CHILD_GATEWAY && serve_models_any_on_demand(&s->models) &&
        !flags_have(f, "--model-wait="))
        flags_add(f, "--model-wait=5m"); /* a large model takes its time to load */
    build_names(s, role, model, f);
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

static struct supervisor_model supervised(const struct serve *s, struct serve_model *m) {
    const struct serve_settings *settings = m->settings;
    if (!*m->called)
        serve_model_public_name(m, m->called);
    return (struct supervisor_model){
        .name = m->called,
        .flags = m->flags.words.items,
        .count = (uint32_t)(settings->worker_count * settings->tp * settings->pp),
        .replicas = {.tp = (uint32_t)settings->tp,
                     .pp = (uint32_t)settings->pp,
                     .stage_devices = m->devices ? m->device_words : NULL},
        .takes_gpu = !flags_have(&m->flags, "--gpu="),
        .memory_sharers = flags_have(&m->flags, "--memory-sharers=")
                              ? 0
                              : (uint32_t)serve_models_replicas(&s->models, m),
        .on_demand = settings->on_demand,
        .idle_unload_ms = settings->idle_unload_ms,
        .memory_bytes = serve_model_memory(m)};
}

static int renew(void *ctx, uint32_t model, struct supervisor_model *next, struct error *err) {
    struct serve *s = ctx;
    struct serve_model *m = &s->models.items[model];
    const struct flags *flags;
    int rc = serve_model_renew(m, &flags, err);
    if (rc)
        return rc;
    *next = supervised(s, m);
    next->flags = flags->words.items;
    return 0;
}

/* --- models that were not named at the start --- */

/* The words of those that were added, for a supervisor that goes on with their workers. */
static char *added_path(const struct serve *s) {
    return path_join(s->run_dir, "models-added");
}

static int find_added(struct serve *s, const char *word, uint32_t place, struct error *err) {
    if (s->config_path)
        setenv("TRIREME_CONFIG", s->config_path, 1);
    int rc = serve_models_add(&s->models, place, word, s->argc, s->argv, err);
    unsetenv("TRIREME_CONFIG");
    if (rc)
        return rc;
    struct serve_model *m = &s->models.items[place];
    build_flags(s, CHILD_WORKER, m);
    s->models.supervised[place] = supervised(s, m);
    return 0;
}

/* A line for each place behind those of the start; of a free one it is empty. */
static void save_added(const struct serve *s) {
    struct buf words = {0};
    struct error err;
    char *path = added_path(s);
    for (uint32_t i = s->configured_count; i < s->models.count; i++)
        buf_addf(&words, "%s\n", s->models.items[i].word ? s->models.items[i].word : "");
    if (file_write_atomic(path, words.data, words.len, 0600, &err))
        log_warn("which models were added is forgotten at the next start: %s", err.text);
    buf_release(&words);
    mem_free(path);
}

static int add(void *ctx, const char *word, uint32_t *model, struct supervisor_model *next,
               struct error *err) {
    struct serve *s = ctx;
    *model = serve_models_place(&s->models);
    int rc = find_added(s, word, *model, err);
    if (rc)
        return rc;
    save_added(s);
    *next = s->models.supervised[*model];
    return 0;
}

static void forget(void *ctx, uint32_t model) {
    struct serve *s = ctx;
    serve_models_remove(&s->models, model);
    s->models.supervised[model] = (struct supervisor_model){0};
    save_added(s);
}

/* Each at the place that it had: workers of it may run. One that is not found any more leaves its place free. */
static uint32_t find_added_before(struct serve *s) {
    struct buf words = {0};
    struct error err;
    char *path = added_path(s), *rest, *word;
    s->configured_count = s->models.count;
    if (file_exists(path) && file_read(path, 1 << 16, &words, &err))
        log_warn("models that were added before are not served: %s", err.text);
    rest = words.data;
    for (uint32_t place = s->configured_count; (word = rest ? strsep(&rest, "\n") : NULL); place++)
        if (*word && find_added(s, word, place, &err))
            log_warn("a model that was added before is not served: %s", err.text);
    buf_release(&words);
    mem_free(path);
    return s->models.count - s->configured_count;
}

static struct supervisor_config supervisor_config(struct serve *s) {
    struct supervisor_config config = {.exe = s->exe,
                                       .run_dir = s->run_dir,
                                       .endpoint = s->endpoint,
                                       .key_file = s->key_file,
                                       .allow_keys = s->allow_keys,
                                       .drain_ms =
                                           /* the gateways count, this only backs it */
                                       s->settings->drain_ms + 1000,
                                       .stop_ms = s->settings->stop_ms,
                                       .silence_ms = s->settings->silence_ms,
                                       .renew = renew,
                                       .add = add,
                                       .forget = forget,
                                       .renew_ctx = s,
                                       .admin_port = s->settings->admin_port,
                                       .port = s->settings->port};
    for (uint32_t i = 0; i < s->models.count; i++)
        s->models.supervised[i] = supervised(s, &s->models.items[i]);
    config.added_count = find_added_before(s);
    config.models = s->models.supervised;
    config.model_count = s->models.count;
    config.models_max = (uint32_t)s->settings->models_max;
    config.models_memory = s->settings->models_memory;
    const int64_t counts[CHILD_ROLE_COUNT] = {s->settings->gateway_count, 1, 0};
    for (int role = 0; role < CHILD_ROLE_COUNT; role++) {
        struct supervisor_role *r = &config.roles[role];
        *r = (struct supervisor_role){.count = (uint32_t)counts[role],
                                      .flags = s->flags[role].words.items};
        r->takes_admin_port = option_table_has(CHILD_TABLES[role], "admin-port");
        r->takes_name = option_table_has(CHILD_TABLES[role], "name");
        r->takes_instance = option_table_has(CHILD_TABLES[role], "instance");
    }
    config.roles[CHILD_GATEWAY].secret = s->api_key;
    return config;
}

static void release(struct serve *s) {
    for (int role = 0; role < CHILD_ROLE_COUNT; role++)
        flags_release(&s->flags[role]);
    mem_free(s->run_dir);
    mem_free(s->endpoint);
    mem_free(s->keys);
    mem_free(s->key_file);
    mem_free(s->allow_keys);
    serve_models_release(&s->models);
    mem_free(s->exe);
    mem_free(s->api_key);
    mem_free(s->config_path);
    merged_options_release(&s->options);
    buf_release(&s->notes);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
}

/* Below this a gateway, a scheduler or a worker ends in the middle of its start, again and again. */
enum { FILES_MIN = 64 };

/* Children inherit the limit. */
static int check_file_limit(struct error *err) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= FILES_MIN)
        return 0;
    const rlim_t had = limit.rlim_cur;
    limit.rlim_cur = FILES_MIN;
    if (limit.rlim_max >= FILES_MIN && !setrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    return error_set(
        err, ERR_LIMIT,
        "a process may open only %llu files, and a server needs %d for a start and one "
        "more for each connection; raise the limit (ulimit -n, LimitNOFILE=)",
        (unsigned long long)had, FILES_MIN);
}

/* A server on the loopback that nobody could ever reach is not started. */
static int check_loopback(const char *host, struct error *err) {
    uint16_t ignored;
    if (strcmp(host, "127.0.0.1") != 0 && strcmp(host, "localhost") != 0)
        return 0;
    return loopback_free_port(&ignored, err);
}

static int serve(struct serve *s) {
    struct error err;
    int rc = check_file_limit(&err);
    if (!rc)
        rc = check_loopback(s->settings->host, &err);
    if (!rc)
        rc = serve_models_find(&s->models, s->settings->model, s->argc, s->argv, &err);
    if (!rc)
        rc = find_exe(s, &err);
    if (!rc)
        rc = prepare_place(s, &err);
    if (rc) {
        log_error("%s", err.text);
        return 1;
    }
    build_flags(s, CHILD_GATEWAY, NULL);
    build_flags(s, CHILD_SCHEDULER, NULL);
    for (uint32_t i = 0; i < s->models.count; i++)
        build_flags(s, CHILD_WORKER, &s->models.items[i]);
    hide_api_key(s);
    exit_reason_supervise();
    s->config_path = getenv("TRIREME_CONFIG") ? mem_strdup(getenv("TRIREME_CONFIG")) : NULL;
    unsetenv("TRIREME_CONFIG"); /* what was in the file is passed on as flags */
    struct supervisor_config config = supervisor_config(s);
    const char *scheme = merged_options_text(&s->options, "tls-cert") ? "https" : "http";
    struct url_host host = url_host(s->settings->host);
    for (uint32_t i = 0; i < s->models.count; i++) {
        if (!s->models.items[i].path)
            continue; /* the place of one that was added before and is not found any more */
        log_info("serving model=%s url=%s://%s:%" PRId64 " run_dir=%s", s->models.items[i].path,
                 scheme, host.text, s->settings->port, s->run_dir);
    }
    rc = supervisor_run(&config, &err);
    char *added = added_path(s);
    unlink(added); /* they are served until this ends in order */
    mem_free(added);
    if (rc)
        log_error("%s", err.text);
    return rc ? 1 : 0;
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
    struct serve s = {.lock_fd = -1, .argc = argc, .argv = argv};
    struct error err;
    supervisor_block_signals();
    serve_options_merge(&s.options, &s.notes);
    s.settings = (struct serve_settings *)(void *)s.options.settings;
    int rc = option_parse(&s.options.table, s.settings, argc, argv, NULL, 0, NULL, &err);
    if (rc < 0)
        rc = command_misused("serve", NULL, NULL, &err);
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
