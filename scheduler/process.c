#include "scheduler/process.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "lease/lease.h"
#include "scheduler/cache_secret.h"
#include "scheduler/core/epoch.h"
#include "scheduler/scheduler_metrics.h"

enum { STATUS_MS = 1000, PUBLISH_MS = 20, ARENA_BYTES = 256 * 1024 };

/* ---- Peers of a role ---- */

void peer_list_remove(struct peer_list *list, struct u128 peer) {
    for (size_t i = 0; i < list->count; i++)
        if (u128_equal(list->items[i], peer))
            list->items[i--] = list->items[--list->count];
}

void peer_list_add(struct peer_list *list, struct u128 peer) {
    peer_list_remove(list, peer);
    vec_push(list, peer);
}

/* ---- Start ---- */

static int load_secret(const struct scheduler_settings *settings, struct hash_key *key,
                       struct error *err) {
    int rc = dir_make(settings->run_dir, 0700, err);
    char *path = settings->secret_file ? mem_strdup(settings->secret_file)
                                       : path_join(settings->run_dir, "cache.key");
    if (!rc)
        rc = cache_secret_load(path, key, err);
    mem_free(path);
    return rc;
}

static int make_core(struct process *p, struct error *err) {
    const struct scheduler_settings *s = p->settings;
    struct sched_config config;
    struct sched_sink sink = process_sink(p);
    sched_config_default(&config);
    int rc = load_secret(s, &config.cache_key, err);
    if (rc)
        return rc;
    config.waiting_max = (uint32_t)s->queue_max;
    if (s->queue_wait_ms == OPTION_WORD)
        config.wait_crowd = PROCESS_WAIT_CROWD; /* and the core's bound */
    else
        config.wait_max_ms = (int32_t)s->queue_wait_ms;
    config.step_tokens = (uint32_t)s->step_tokens;
    config.chunk_tokens = (uint32_t)s->chunk_tokens;
    config.drafts = (uint32_t)s->drafts;
    if (s->itl_target_ms == OPTION_WORD)
        config.itl_auto = true; /* up to the core's bound */
    else
        config.itl_target_ms = (int32_t)s->itl_target_ms;
    config.resume_credits = (uint32_t)s->resume_credits;
    config.poison_deaths = (uint32_t)s->poison_deaths;
    config.silence_drop_ms = (int32_t)s->gateway_drop_ms;
    config.start_grace_ms = (int32_t)s->start_grace_ms;
    config.model_grace_ms = (int32_t)s->model_grace_ms;
    config.record_ttl_ms = (int32_t)s->record_ttl_ms;
    config.stuck_floor_ms = (int32_t)s->stuck_ms;
    config.record_bytes = s->record_bytes;
    config.table_bytes = s->table_bytes;
    config.tenant_streams = (uint32_t)s->tenant_streams;
    config.tenant_stream_bytes = s->tenant_stream_bytes;
    config.isolate_tenants = !s->share_prefixes;
    p->core = sched_new(&config, &sink);
    return 0;
}

static int open_link(struct process *p, struct error *err) {
    const char *endpoints[PROCESS_ENDPOINTS_MAX];
    char *list = mem_strdup(p->settings->listen), *rest = list, *one;
    struct link_server_config config = {.endpoints = endpoints,
                                        .epoch = epoch_start(p->epoch_number - 1, random_u128()),
                                        .heartbeat_ms = p->settings->heartbeat_ms,
                                        .silence_ms = p->settings->silence_ms,
                                        .key_file = p->settings->key_file,
                                        .allow_keys = p->settings->allow_keys};
    while ((one = strsep(&rest, ",")) && config.endpoint_count < PROCESS_ENDPOINTS_MAX)
        if (*one)
            endpoints[config.endpoint_count++] = one;
    int rc = link_server_new(&p->link, &config, &process_link_calls, p, err);
    for (size_t i = 0; !rc && i < config.endpoint_count; i++)
        log_info("listening endpoint=%s", link_server_address(p->link, i));
    mem_free(list);
    return rc;
}

static bool is_ready(void *ctx) {
    struct process *p = ctx;
    return atomic_load(&p->ready) && clock_ms() - atomic_load(&p->turn_ms) < PROCESS_STUCK_MS;
}

static int open_admin(struct process *p, struct error *err) {
    if (p->settings->admin_port < 0)
        return 0;
    struct http_admin_config config = {.host = p->settings->admin_host,
                                       .port = (uint16_t)p->settings->admin_port,
                                       .version = TRIREME_VERSION,
                                       .ready = is_ready,
                                       .ctx = p};
    int rc = http_admin_start(&p->admin, &config, err);
    if (!rc)
        log_info("admin port host=%s port=%u", config.host, http_admin_port(p->admin));
    return rc;
}

static int open_signals(struct process *p, struct error *err) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread is made */
    signal(SIGPIPE, SIG_IGN);
    p->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return p->signal_fd >= 0 ? 0 : error_set_errno(err, "cannot take signals");
}

/* Others stand by while one leads. Each has an epoch above those before it, so what a leader says that was
 * paused and has lost its lease is not believed. */
static int take_lease(struct process *p, struct error *err) {
    const struct scheduler_settings *s = p->settings;
    char host[64] = "", holder[128];
    gethostname(host, sizeof host - 1);
    snprintf(holder, sizeof holder, "%s:%d", host, (int)getpid());
    const struct lease_config config = {.engine = s->lease,
                                        .name = s->lease_name,
                                        .holder = holder,
                                        .user = s->lease_user,
                                        .password_file = s->lease_password_file,
                                        .authority = s->lease_authority,
                                        .certificate = s->lease_certificate,
                                        .key = s->lease_key,
                                        .ttl_ms = s->lease_ttl_ms};
    uint64_t least = (uint64_t)wall_ms() + 1;
    p->epoch_number = least;
    if (!s->lease)
        return 0;
    int rc = lease_new(&p->lease, &config, err);
    if (!rc)
        rc = lease_take(p->lease, least, p->signal_fd, &p->epoch_number, err);
    if (!rc)
        log_info("leading lease=%s", s->lease);
    return rc;
}

/* The first chunk is kept over resets: results of large steps fit in it. */
static void warm_arena(struct arena *arena) {
    CHECK(arena_alloc(arena, ARENA_BYTES));
    arena_reset(arena);
}

int process_init(struct process *p, const struct scheduler_settings *settings, struct error *err) {
    struct bundle_relay_calls calls = process_bundle_calls(p);
    *p = (struct process){.settings = settings, .signal_fd = -1, .started_ms = clock_ms()};
    bundle_relay_init(&p->bundles, &calls, settings->bundle_bytes);
    warm_arena(&p->arena);
    run_clock_init(&p->clock, settings->heartbeat_ms, clock_ms());
    int rc = open_signals(p, err);
    if (!rc)
        rc = open_admin(p, err);
    if (!rc)
        rc = take_lease(p, err);
    if (!rc)
        rc = make_core(p, err);
    if (!rc)
        rc = open_link(p, err);
    if (rc)
        process_release(p);
    return rc;
}

void process_release(struct process *p) {
    http_admin_end(&p->admin);
    link_server_free(&p->link);
    lease_free(&p->lease);
    sched_free(&p->core);
    bundle_relay_release(&p->bundles);
    fence_ledger_release(&p->fences);
    want_ledger_release(&p->wants);
    ticket_ledger_release(&p->tickets);
    vec_release(&p->gateways);
    vec_release(&p->supervisors);
    arena_release(&p->arena);
    buf_release(&p->out);
    if (p->signal_fd >= 0)
        close(p->signal_fd);
    p->signal_fd = -1;
}

/* ---- Turns ---- */

static void take_signals(struct process *p) {
    struct signalfd_siginfo info;
    while (read(p->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (p->drain_until_ms) {
            p->end = PROCESS_TERMINATED;
            return;
        }
        if (p->lease) {
            p->end = PROCESS_HANDED_OVER;
            return;
        }
        log_info("draining");
        p->drain_until_ms = p->clock.now_ms + MAX(p->settings->drain_ms, (int64_t)1);
        p->status_due = true;
        sched_drain(p->core, p->clock.now_ms);
    }
}

static void finish_drain(struct process *p) {
    if (!p->drain_until_ms || p->end != PROCESS_RUNS)
        return;
    if (sched_is_idle(p->core))
        p->end = PROCESS_DRAINED;
    else if (p->clock.now_ms >= p->drain_until_ms)
        p->end = PROCESS_DRAIN_TIMEOUT;
}

static void publish(struct process *p) {
    struct sched_counts counts = sched_counts(p->core);
    scheduler_metrics_publish(&counts, link_server_stats(p->link), p->clock.late_count);
    atomic_store(&p->ready, counts.replicas_ready > 0 && !p->drain_until_ms);
    p->publish_ms = p->clock.now_ms + PUBLISH_MS;
    p->dirty = false;
}

static void tell_status(struct process *p) {
    uint64_t version = sched_status_version(p->core);
    if (!p->status_due && version == p->status_version && p->clock.now_ms < p->status_ms)
        return;
    process_send_status(p);
    bundle_relay_tick(&p->bundles, p->clock.now_ms);
    process_repeat_fences(p);
    p->status_due = false;
    p->status_version = version;
    p->status_ms = p->clock.now_ms + STATUS_MS;
}

void process_turn(struct process *p, int64_t timeout_ms) {
    link_server_wait(p->link, &p->signal_fd, NULL, 1, timeout_ms);
    int64_t now = run_clock_turn(&p->clock, clock_ms());
    take_signals(p);
    if (p->lease && !lease_is_held(p->lease)) {
        p->end = PROCESS_LEASE_LOST;
        return;
    }
    int64_t began_us = clock_us();
    p->core_ms = sched_run(p->core, now);
    process_send_wants(p);
    if (p->dirty)
        metric_observe(&scheduler_metrics[METRIC_PLAN_SECONDS],
                       (double)(clock_us() - began_us) / 1e6);
    tell_status(p);
    if (now >= p->publish_ms)
        publish(p);
    atomic_store(&p->turn_ms, clock_ms());
    finish_drain(p);
}

static int64_t next_turn_in(const struct process *p) {
    int64_t at = MIN(p->status_ms, p->core_ms);
    if (p->dirty)
        at = MIN(at, p->publish_ms);
    return MAX(at - p->clock.now_ms, (int64_t)0);
}

enum process_end process_run(struct process *p) {
    while (p->end == PROCESS_RUNS)
        process_turn(p, next_turn_in(p));
    return p->end;
}
