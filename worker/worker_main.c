#include "worker/worker_main.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/exit_reason.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/sandbox.h"
#include "http/admin.h"
#include "http/http_metrics.h"
#include "proto/link.h"
#include "worker/control.h"
#include "worker/fault.h"
#include "worker/worker_metrics.h"

struct worker {
    struct worker_settings settings;
    struct worker_progress progress;
    struct handoff *handoff;
    struct compute *compute;
    struct http_admin *admin;
    struct u128 instance, replica;
    int stop_fd;
    _Atomic bool ready;
};

static bool is_ready(void *ctx) {
    return atomic_load(&((struct worker *)ctx)->ready);
}

/* SIGTERM and SIGINT come as bytes to the control thread; blocked before any thread is made. */
static int open_stop_fd(struct error *err) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL))
        return error_set(err, ERR_IO, "cannot block signals");
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return fd >= 0 ? fd : error_set_errno(err, "cannot make a signalfd");
}

/* Its id is told, or made of the name that it is told. */
static void name_replica(struct worker *w) {
    const char *name = w->settings.replica;
    if (name && *name && u128_parse(name, &w->replica))
        w->replica = hash128(name, strlen(name), 0);
}

/* A rank may be counted through all stages: what begins the ranks has one number for each. */
static void count_stage(struct worker_settings *s) {
    if (s->stage || s->rank < s->tp || s->rank >= s->tp * s->pp)
        return;
    s->stage = s->rank / s->tp;
    s->rank %= s->tp;
}

static int check_settings(struct worker *w, struct error *err) {
    struct worker_settings *s = &w->settings;
    count_stage(s);
    if (!s->model)
        return error_set(err, ERR_INVALID, "no model: give --model FOLDER");
    if (!s->connect)
        return error_set(err, ERR_INVALID, "no scheduler: give --connect ENDPOINT");
    int rc = link_endpoints_check(s->connect, err);
    if (rc)
        return rc;
    w->instance = random_u128();
    if (s->instance && u128_parse(s->instance, &w->instance))
        return error_set(err, ERR_INVALID, "--instance '%s' is not 32 hex digits", s->instance);
    name_replica(w);
    if (s->tp * s->pp > 1 && u128_is_zero(w->replica))
        return error_set(err, ERR_INVALID, "--tp and --pp need --replica, the same for all ranks");
    if (s->block_tokens & (s->block_tokens - 1))
        return error_set(err, ERR_INVALID, "--block-tokens %lld is not 16, 32, 64, 128 or 256",
                         (long long)s->block_tokens);
    return 0;
}

/* Of the sandbox. NCCL looks for the network's interfaces and listens. */
static unsigned needs(const struct worker_settings *s) {
    return sandbox_need_of(s->connect) | (s->tp * s->pp > 1 ? SANDBOX_SOCKETS : 0);
}

static int start(struct worker *w, struct error *err) {
    int rc = w->stop_fd = open_stop_fd(err);
    if (rc < 0)
        return rc;
    fault_mark_install(w->settings.run_dir);
    metrics_register(worker_metrics, WORKER_METRIC_COUNT);
    http_metrics_register();
    if (w->settings.admin_port >= 0) {
        struct http_admin_config admin = {.host = w->settings.admin_host,
                                          .port = (uint16_t)w->settings.admin_port,
                                          .version = TRIREME_VERSION,
                                          .ready = is_ready,
                                          .ctx = w};
        rc = http_admin_start(&w->admin, &admin, err);
        if (rc)
            return rc;
        log_info("admin port %u", http_admin_port(w->admin));
    }
    sandbox_start(w->settings.sandbox, needs(&w->settings));
    w->handoff = handoff_new();
    return compute_start(&w->compute, &w->settings, w->handoff, &w->progress, err);
}

static int run(struct worker *w, struct error *err) {
    int rc = check_settings(w, err);
    if (!rc)
        rc = start(w, err);
    if (!rc) {
        struct control_config control = {.settings = &w->settings,
                                         .instance = w->instance,
                                         .replica = w->replica,
                                         .handoff = w->handoff,
                                         .compute = w->compute,
                                         .progress = &w->progress,
                                         .stop_fd = w->stop_fd,
                                         .ready = &w->ready};
        rc = control_run(&control, err);
    }
    compute_end(&w->compute);
    handoff_free(&w->handoff);
    http_admin_end(&w->admin);
    if (w->stop_fd > 0)
        close(w->stop_fd);
    return rc;
}

int worker_main(int argc, char **argv) {
    static struct worker w;
    struct error err = {0};
    size_t extra = 0;
    int rc = option_parse(&worker_options, &w.settings, argc, argv, NULL, 0, &extra, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (rc == OPTION_RUN) {
        log_init(w.settings.name, (enum log_level)w.settings.log_level, w.settings.log_format == 1);
        rc = run(&w, &err);
    }
    int code = rc < 0 ? exit_reason_leave(w.settings.run_dir, "worker", &err) : EXIT_DONE;
    option_free(&worker_options, &w.settings);
    return code;
}
