#include "cli/merged_options.h"
#include "cli/state_file.h"
#include "cli/supervisor_internal.h"

#include "base/clock.h"
#include "base/exit_reason.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/loopback.h"
#include "base/pulse.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SCALE_DOWN_MS = 500, PULSE_EVERY_MS = 1000, PULSE_STILL_MIN_MS = 4000 };

static const struct supervisor_model *terms_of(const struct supervisor *s, uint32_t idx) {
    return models_terms(&s->models[models_of(s, idx)], models_place(s, idx));
}

static bool is_process(const struct child *c) {
    return c->state == CHILD_RUNNING || c->state == CHILD_STOPPING;
}

struct child *children_find(struct supervisor *s, int pid) {
    for (size_t i = 0; i < s->children.count; i++)
        if (is_process(s->children.items[i]) && s->children.items[i]->pid == pid)
            return s->children.items[i];
    return NULL;
}

uint32_t children_alive(const struct supervisor *s, enum child_role role) {
    uint32_t count = 0;
    for (size_t i = 0; i < s->children.count; i++)
        count += s->children.items[i]->role == role && is_process(s->children.items[i]);
    return count;
}

void children_save(struct supervisor *s) {
    struct state_file state = {.model_count = s->model_count};
    struct error err;
    for (uint32_t i = 0; i < state.model_count; i++)
        state.workers[i] = (struct state_workers){s->models[i].wanted, s->models[i].terms.count};
    for (size_t i = 0; i < s->children.count; i++) {
        const struct child *c = s->children.items[i];
        struct state_child row = {c->role,        c->idx,       c->pid,
                                  c->start_ticks, c->args_hash, c->instance};
        if (is_process(c))
            vec_push(&state.children, row);
    }
    bool failed = state_file_write(&state, s->config->run_dir, &err) != 0;
    if (failed && !s->unsaved)
        log_error("cannot remember the children: %s", err.text);
    s->unsaved = failed;
    state_file_release(&state);
}

/* `wanted` if it is free now, for 0 any that is; 0: it is not. It may be taken until the child binds
 * it; then the child ends and gets another. */
static int64_t free_port(int64_t wanted) {
    struct sockaddr_storage at;
    socklen_t len;
    int fd = loopback_bind((uint16_t)wanted, &at, &len);
    bool good = fd >= 0 && !listen(fd, 1);
    if (fd >= 0)
        close(fd);
    return good ? loopback_port(&at) : 0;
}

/* The port that a file of the run folder says; 0: none, or it is not free. */
static int64_t read_port(const char *path) {
    struct buf text;
    struct error err;
    buf_init(&text, 0);
    int64_t port = 0;
    if (file_exists(path) && file_read(path, 64, &text, &err) == 0)
        port = strtol(buf_text(&text), NULL, 10);
    buf_release(&text);
    return port > 0 && port <= UINT16_MAX ? free_port(port) : 0;
}

static void write_port(const char *path, int64_t port) {
    char text[32];
    struct error err;
    int len = snprintf(text, sizeof text, "%" PRId64 "\n", port);
    if (file_write_atomic(path, text, (size_t)len, 0600, &err))
        log_warn("an admin port will change at the next start: %s", err.text);
}

/* Drawn once: whoever scrapes it finds it again after a restart, of the child's or the
 * supervisor's. */
static int64_t kept_port(const struct supervisor *s, const struct child *c) {
    char name[64];
    snprintf(name, sizeof name, "admin-port-%s-%u", child_role_name(c->role), c->idx);
    char *path = path_join(s->config->run_dir, name);
    int64_t port = read_port(path), gateway_port = s->config->port;
    if (!port || port == gateway_port) {
        /* the system's own range may have the gateways' port in it, which they have not bound yet */
        do
            port = free_port(0);
        while (port && port == gateway_port);
        if (port)
            write_port(path, port);
    }
    mem_free(path);
    return port;
}

static int64_t admin_port(const struct supervisor *s, const struct child *c) {
    if (!s->config->admin_port)
        return kept_port(s, c);
    if (c->role == CHILD_WORKER && c->idx >= ADDED_BASE)
        return kept_port(s, c);
    return s->config->admin_port + (c->role == CHILD_WORKER ? 1 + (int64_t)c->idx : 0);
}

enum { GPUS_MAX = 64 }; /* as --gpu says; a worker takes it modulo how many there are */

/* The same replica of the same run folder has the same id for ever: the scheduler puts its ranks
 * together by it. */
static struct u128 replica_id(const struct supervisor *s, uint32_t idx, uint32_t rank_count) {
    uint32_t replica_idx = models_idx(s, models_of(s, idx), models_place(s, idx) / rank_count);
    struct buf text;
    buf_init(&text, 0);
    buf_addf(&text, "%s\n%u", s->config->run_dir, replica_idx);
    struct u128 id = hash128(text.data, text.len, 0);
    buf_release(&text);
    return id;
}

static void add_rank(const struct supervisor *s, const struct child *c, struct flags *a) {
    const struct supervisor_replicas *r = &terms_of(s, c->idx)->replicas;
    uint32_t count = supervisor_rank_count(r), place = models_place(s, c->idx) % count;
    char id[U128_TEXT_MAX];
    if (c->role != CHILD_WORKER || count == 1)
        return;
    u128_text(replica_id(s, c->idx, count), id);
    flags_add(a, "--replica=%s", id);
    flags_add(a, "--rank=%u", place % r->tp);
    flags_add(a, "--stage=%u", place / r->tp);
    if (r->stage_devices)
        flags_add(a, "--device=%s", r->stage_devices[place / r->tp]);
}

/* One after the other, model by model, as they were first configured. */
static uint32_t gpu_of(const struct supervisor *s, uint32_t idx) {
    uint32_t before = 0;
    for (uint32_t i = 0; i < models_of(s, idx); i++)
        before += s->models[i].terms.count;
    return (before + models_place(s, idx)) % GPUS_MAX;
}

static char *const *flags_of(const struct supervisor *s, enum child_role role, uint32_t idx) {
    return role == CHILD_WORKER ? terms_of(s, idx)->flags : s->config->roles[role].flags;
}

static bool takes_gpu(const struct supervisor *s, const struct child *c) {
    return c->role == CHILD_WORKER ? terms_of(s, c->idx)->takes_gpu
                                   : s->config->roles[c->role].takes_gpu;
}

/* What differs from one start to the next is only here. The first word is what ps shows: whose
 * child it is. */
static void build_argv(const struct supervisor *s, const struct child *c, struct flags *a) {
    const struct supervisor_role *role = &s->config->roles[c->role];
    char instance[U128_TEXT_MAX];
    u128_text(c->instance, instance);
    flags_add(a, "trireme(%s)", s->config->run_dir);
    flags_add(a, "%s", child_role_name(c->role));
    if (role->takes_admin_port)
        flags_add(a, "--admin-port=%" PRId64, admin_port(s, c));
    if (role->takes_name)
        flags_add(a, "--name=%s-%u", child_role_name(c->role), c->idx);
    if (role->takes_instance)
        flags_add(a, "--instance=%s", instance);
    if (takes_gpu(s, c))
        flags_add(a, "--gpu=%u", gpu_of(s, c->idx));
    if (c->role == CHILD_WORKER && terms_of(s, c->idx)->memory_sharers)
        flags_add(a, "--memory-sharers=%u", terms_of(s, c->idx)->memory_sharers);
    for (char *const *flag = flags_of(s, c->role, c->idx); flag && *flag; flag++)
        flags_add(a, "%s", *flag);
    add_rank(s, c, a);
    flags_end(a);
}

static uint64_t settings_hash(const struct supervisor *s, enum child_role role, uint32_t idx) {
    struct buf text;
    buf_init(&text, 0);
    buf_add_str(&text, child_role_name(role));
    if (role == CHILD_WORKER && s->configured_count > 1)
        buf_addf(&text, "\nof %u models", s->configured_count);
    for (char *const *flag = flags_of(s, role, idx); flag && *flag; flag++)
        buf_addf(&text, "\n%s", *flag);
    const char *secret = s->config->roles[role].secret;
    uint64_t hash = hash64(text.data, text.len, secret ? hash64(secret, strlen(secret), 1) : 0);
    buf_release(&text);
    return hash;
}

static struct child *add_child(struct supervisor *s, enum child_role role, uint32_t idx,
                               int64_t now_ms) {
    struct child *c = mem_alloc(sizeof *c);
    *c = (struct child){.role = role,
                        .idx = idx,
                        .pidfd = -1,
                        .start_at_ms = now_ms,
                        .args_hash = settings_hash(s, role, idx)};
    vec_push(&s->children, c);
    return c;
}

static void start(struct supervisor *s, struct child *c, int64_t now_ms) {
    struct flags a = {0};
    struct error err;
    int gate = -1;
    c->instance = random_u128();
    c->args_hash = settings_hash(s, c->role, c->idx);
    build_argv(s, c, &a);
    int rc = child_start(c, s->config->exe, a.words.items, s->config->roles[c->role].secret, &gate,
                         &err);
    if (!rc) {
        child_move(c, CHILD_RUNNING);
        c->started_ms = now_ms;
        c->pulse_ms = 0;
        children_save(s);
        rc = supervisor_watch(s, c->pidfd, SOURCE_CHILD, (uint32_t)c->pid, &err);
        child_open_gate(gate, true);
    }
    if (rc) {
        log_error("%s %u did not start: %s", child_role_name(c->role), c->idx, err.text);
        c->start_at_ms = now_ms + 1000;
    } else {
        log_info("%s %u started as process %d", child_role_name(c->role), c->idx, c->pid);
    }
    flags_release(&a);
}

void children_stop(struct supervisor *s, struct child *c, int64_t grace_ms, int64_t now_ms) {
    if (c->state == CHILD_WAITING)
        child_move(c, CHILD_GONE);
    if (c->state != CHILD_RUNNING)
        return;
    child_move(c, CHILD_STOPPING);
    c->kill_at_ms = now_ms + grace_ms;
    child_signal(c, SIGTERM);
    child_signal(c, SIGCONT); /* a stopped one would not hear it */
}

static void drop_gone(struct supervisor *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->children.count; i++) {
        if (s->children.items[i]->state == CHILD_GONE)
            mem_free(s->children.items[i]);
        else
            s->children.items[kept++] = s->children.items[i];
    }
    s->children.count = kept;
}

/* While draining, the roles of earlier phases and of this one are wanted no more, the later ones
 * still are. */
static bool is_wanted(const struct supervisor *s, enum child_role role, uint32_t idx) {
    if ((int)s->phase >= PHASE_GATEWAYS + (int)role)
        return false;
    if (role == CHILD_WORKER)
        return models_want_place(&s->models[models_of(s, idx)], models_place(s, idx));
    return idx < s->config->roles[role].count;
}

/* Above every place of the model that is wanted. */
static uint32_t place_end(const struct managed_model *m) {
    return MAX(m->base + m->wanted, m->before_base + m->before_count);
}

/* Gateways end with their last stream, and so do the workers of a model that is unloaded. One of a
 * model that has others is not waited for: its sequences go on elsewhere. */
static int64_t grace_of(const struct supervisor *s, enum child_role role, uint32_t idx) {
    if (role == CHILD_GATEWAY)
        return s->config->drain_ms;
    const struct managed_model *m = &s->models[models_of(s, idx)];
    if (s->phase == PHASE_SERVING && role == CHILD_WORKER && (!m->wanted || m->ends_streams))
        return s->config->drain_ms;
    return s->phase == PHASE_SERVING ? MIN(s->config->stop_ms, (int64_t)SCALE_DOWN_MS)
                                     : s->config->stop_ms;
}

/* The child that holds a place, or is about to leave it. */
static struct child *place_of(struct supervisor *s, enum child_role role, uint32_t idx) {
    for (size_t i = 0; i < s->children.count; i++) {
        struct child *c = s->children.items[i];
        if (c->role == role && c->idx == idx && c->state != CHILD_GONE)
            return c;
    }
    return NULL;
}

static void fill_place(struct supervisor *s, enum child_role role, uint32_t idx, int64_t now_ms) {
    if (is_wanted(s, role, idx) && !place_of(s, role, idx))
        add_child(s, role, idx, now_ms);
}

void children_want(struct supervisor *s, int64_t now_ms) {
    for (int role = 0; role < CHILD_ROLE_COUNT; role++) {
        for (size_t i = 0; i < s->children.count; i++) {
            struct child *c = s->children.items[i];
            if (c->role == (enum child_role)role && !is_wanted(s, c->role, c->idx))
                children_stop(s, c, grace_of(s, c->role, c->idx), now_ms);
        }
        for (uint32_t idx = 0; role != CHILD_WORKER && idx < s->config->roles[role].count; idx++)
            fill_place(s, (enum child_role)role, idx, now_ms);
    }
    uint32_t end = 0;
    for (uint32_t i = 0; i < s->model_count; i++)
        end = MAX(end, place_end(&s->models[i]));
    for (uint32_t place = 0; place < end; place++)
        for (uint32_t i = 0; i < s->model_count; i++)
            fill_place(s, CHILD_WORKER, models_idx(s, i, place), now_ms);
    drop_gone(s);
}

void children_turn(struct supervisor *s, int64_t now_ms) {
    for (size_t i = 0; i < s->children.count; i++) {
        struct child *c = s->children.items[i];
        if (c->state == CHILD_WAITING && c->start_at_ms <= now_ms)
            start(s, c, now_ms);
        if (c->state == CHILD_STOPPING && c->kill_at_ms <= now_ms) {
            log_warn("%s %u did not end when asked: killed", child_role_name(c->role), c->idx);
            c->kill_at_ms = INT64_MAX;
            child_signal(c, SIGKILL);
        }
    }
}

/* A late turn of our own, or a suspended machine, says nothing about the others: everybody begins
 * anew. */
static bool has_pulse(struct supervisor *s, struct child *c, bool late, int64_t now_ms) {
    uint64_t count;
    /* it shows none, or not yet */
    if (!pulse_read(s->config->run_dir, c->pid, &count))
        return true;
    if (late || !c->pulse_ms || count != c->pulse) {
        c->pulse = count;
        c->pulse_ms = now_ms;
    }
    return now_ms - c->pulse_ms < MAX(s->config->silence_ms, (int64_t)PULSE_STILL_MIN_MS);
}

void children_check_pulse(struct supervisor *s, int64_t now_ms) {
    if (now_ms - s->pulse_turn_ms < PULSE_EVERY_MS)
        return;
    bool late = now_ms - s->pulse_turn_ms > LATE_TURN_MS;
    s->pulse_turn_ms = now_ms;
    for (size_t i = 0; i < s->children.count; i++) {
        struct child *c = s->children.items[i];
        if (c->state != CHILD_RUNNING || has_pulse(s, c, late, now_ms))
            continue;
        log_error("%s %u (process %d) shows no pulse: killed", child_role_name(c->role), c->idx,
                  c->pid);
        c->pulse_ms = now_ms;
        child_signal(c, SIGKILL);
    }
}

int64_t children_next_ms(const struct supervisor *s) {
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < s->children.count; i++) {
        const struct child *c = s->children.items[i];
        if (c->state == CHILD_WAITING)
            due = MIN(due, c->start_at_ms);
        if (c->state == CHILD_STOPPING)
            due = MIN(due, c->kill_at_ms);
    }
    return due;
}

static void note_exit(struct supervisor *s, struct child_exit *e, int64_t now_ms) {
    e->at_ms = now_ms;
    s->exits[s->exit_count++ % EXIT_RING] = *e;
    supervisor_send_exit(s, e);
}

/* reason: the line that the child left, or NULL. */
static void give_up(struct supervisor *s, const struct child *c, const char *how,
                    const char *reason, int64_t now_ms) {
    if (s->phase != PHASE_SERVING)
        return;
    char ended[160];
    snprintf(ended, sizeof ended,
             "its worker ended again and again, at last with %s; the log says why", how);
    if (c->role == CHILD_WORKER && models_failed(s, models_of(s, c->idx), models_place(s, c->idx),
                                                 reason ? reason : ended, now_ms))
        return;
    if (reason)
        error_set(&s->failure, ERR_INVALID, "%s %u cannot start: %s", child_role_name(c->role),
                  c->idx, reason);
    else
        error_set(&s->failure, ERR_INVALID,
                  "%s %u cannot start: it ended %u times with %s; its own messages above say why",
                  child_role_name(c->role), c->idx, c->failed_starts, how);
    drain_begin(s, now_ms);
}

/* A gateway's pulse rises once it listens (a worker's while it still loads): then it can start, and
 * what keeps its successors from it, as another program on its port for a moment, passes. */
static bool has_served(const struct supervisor *s, const struct child *c) {
    uint64_t count;
    return c->role == CHILD_GATEWAY && pulse_read(s->config->run_dir, c->pid, &count) && count > 1;
}

static bool is_hopeless(struct supervisor *s, const struct child *c) {
    bool of_model =
        c->role == CHILD_WORKER && models_worker_ended(s, models_of(s, c->idx), c->gave_up);
    return of_model || child_is_hopeless(c);
}

void children_ended(struct supervisor *s, int pid, int64_t now_ms) {
    struct child *c = children_find(s, pid);
    struct child_exit e;
    char how[64], text[ERROR_TEXT_MAX];
    if (!c)
        return;
    const char *reason = exit_reason_take(s->config->run_dir, pid, text) ? text : NULL;
    bool was_stopping = c->state == CHILD_STOPPING;
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->pidfd, NULL);
    c->has_lived |= has_served(s, c);
    child_ended(c, s->config->run_dir, &e);
    child_exit_text(&e, how);
    note_exit(s, &e, now_ms);
    bool again = is_wanted(s, c->role, c->idx);
    if (again) {
        int64_t delay = was_stopping ? 0 : child_restart_delay(c, &e, now_ms);
        child_move(c, CHILD_WAITING);
        c->start_at_ms = now_ms + delay;
        if (!was_stopping && is_hopeless(s, c)) {
            c->start_at_ms = INT64_MAX; /* not while the others drain, either */
            give_up(s, c, how, reason, now_ms);
        } else if (!was_stopping)
            log_warn("%s %u (process %d) ended with %s%s%s: again in %" PRId64 " ms",
                     child_role_name(c->role), c->idx, pid, how, reason ? ": " : "",
                     reason ? reason : "", delay);
    } else {
        log_info("%s %u (process %d) ended with %s", child_role_name(c->role), c->idx, pid, how);
        child_move(c, CHILD_GONE);
        drop_gone(s);
    }
    children_save(s);
}

/* --- what an earlier supervisor left --- */

static void adopt_one(struct supervisor *s, const struct state_child *row, int64_t now_ms) {
    struct child *c = add_child(s, row->role, row->idx, now_ms);
    struct error err;
    c->instance = row->instance;
    c->args_hash = row->args_hash;
    if (child_adopt(c, row->pid, row->start_ticks) ||
        supervisor_watch(s, c->pidfd, SOURCE_CHILD, (uint32_t)c->pid, &err)) {
        struct child_exit e = {.role = row->role,
                               .instance = row->instance,
                               .pid = row->pid,
                               .fault = child_take_mark(s->config->run_dir, row->pid)};
        log_warn("%s %u (process %d) ended while no supervisor ran", child_role_name(row->role),
                 row->idx, row->pid);
        note_exit(s, &e, now_ms);
        return; /* stays WAITING, and is started */
    }
    child_move(c, CHILD_RUNNING);
    c->started_ms = now_ms;
    log_info("%s %u adopted as process %d", child_role_name(c->role), c->idx, c->pid);
    if (c->args_hash == settings_hash(s, c->role, c->idx))
        return;
    log_info("%s %u runs with other settings: it is replaced", child_role_name(c->role), c->idx);
    children_stop(s, c, c->role == CHILD_GATEWAY ? s->config->drain_ms : s->config->stop_ms,
                  now_ms);
}

/* Of a model that is not here any more: nobody would look after it. */
static void end_stranger(const struct state_child *row) {
    struct child c = {.role = row->role, .idx = row->idx, .pidfd = -1};
    if (child_adopt(&c, row->pid, row->start_ticks))
        return;
    log_warn("worker %u (process %d) has a model that is not served now: ended", row->idx,
             row->pid);
    child_signal(&c, SIGTERM);
    close(c.pidfd);
}

static bool any_runs(const struct supervisor *s) {
    for (size_t i = 0; i < s->children.count; i++)
        if (is_process(s->children.items[i]))
            return true;
    return false;
}

/* Where the workers of each model begin: a new revision's have other places than those before it. */
static void find_bases(struct supervisor *s, const struct state_file *state) {
    uint32_t least[SUPERVISOR_MODELS_MAX];
    for (uint32_t i = 0; i < s->model_count; i++)
        least[i] = WORKERS_MAX;
    for (size_t i = 0; i < state->children.count; i++) {
        const struct state_child *c = &state->children.items[i];
        uint32_t model = models_of(s, c->idx);
        if (c->role == CHILD_WORKER && model < s->model_count)
            least[model] = MIN(least[model], models_place(s, c->idx));
    }
    for (uint32_t i = 0; i < s->model_count; i++) {
        uint32_t ranks = supervisor_rank_count(&s->models[i].terms.replicas);
        if (least[i] < WORKERS_MAX)
            s->models[i].base = least[i] / ranks * ranks;
    }
}

void children_adopt(struct supervisor *s, int64_t now_ms) {
    struct state_file state;
    struct error err;
    if (state_file_read(&state, s->config->run_dir, &err))
        log_error("cannot adopt children: %s", err.text);
    for (uint32_t i = 0; i < state.model_count && state.model_count == s->model_count; i++)
        if (state.workers[i].configured == s->models[i].terms.count)
            s->models[i].wanted = MIN(state.workers[i].wanted, (uint32_t)WORKERS_MAX);
    find_bases(s, &state);
    for (size_t i = 0; i < state.children.count; i++)
        if (state.children.items[i].role == CHILD_WORKER &&
            !models_has(s, models_of(s, state.children.items[i].idx)))
            end_stranger(&state.children.items[i]);
        else
            adopt_one(s, &state.children.items[i], now_ms);
    for (uint32_t i = 0; i < s->configured_count && !any_runs(s); i++) {
        struct managed_model *m = &s->models[i]; /* begun anew, not gone on with */
        if (m->terms.on_demand || !m->wanted)
            m->wanted = m->terms.on_demand ? 0 : m->terms.count;
    }
    for (uint32_t i = 0; i < s->model_count; i++)
        s->models[i].later |= s->models[i].terms.on_demand;
    state_file_release(&state);
}
