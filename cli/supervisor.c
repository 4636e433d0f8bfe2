#include "cli/supervisor_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { TURN_MAX_MS = 1000, EVENTS_MAX = 64 };

static const int SIGNALS[] = {SIGTERM, SIGINT, SIGHUP};

static void signal_set(sigset_t *set) {
    sigemptyset(set);
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        sigaddset(set, SIGNALS[i]);
}

void supervisor_block_signals(void) {
    sigset_t set;
    signal_set(&set);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    signal(SIGPIPE, SIG_IGN);
}

int supervisor_watch(struct supervisor *s, int fd, enum source source, uint32_t id,
                     struct error *err) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)source << 32 | id};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    return error_set_errno(err, "cannot watch a descriptor");
}

static int open_loop(struct supervisor *s, struct error *err) {
    sigset_t set;
    signal_set(&set);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (s->epoll_fd < 0 || s->signal_fd < 0)
        return error_set_errno(err, "cannot make an event loop");
    return supervisor_watch(s, s->signal_fd, SOURCE_SIGNAL, 0, err);
}

/* Gateways read their certificate and keys again. */
static void reread_files(struct supervisor *s) {
    for (size_t i = 0; i < s->children.count; i++)
        if (s->children.items[i]->role == CHILD_GATEWAY)
            child_signal(s->children.items[i], SIGHUP);
}

static void read_signals(struct supervisor *s, int64_t now_ms) {
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            reread_files(s);
            continue;
        }
        log_info("asked to end signal=%u", info.ssi_signo);
        drain_begin(s, now_ms);
    }
}

static void take_events(struct supervisor *s, int64_t now_ms) {
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(s->epoll_fd, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        uint32_t id = (uint32_t)events[i].data.u64;
        switch ((enum source)(events[i].data.u64 >> 32)) {
        case SOURCE_SIGNAL: read_signals(s, now_ms); break;
        case SOURCE_CONTROL: control_accept(s, now_ms); break;
        case SOURCE_CONNECTION: control_read(s, id, now_ms); break;
        case SOURCE_ADD: adds_read(s, id); break;
        case SOURCE_CHILD: children_ended(s, (int)id, now_ms); break;
        }
    }
}

/* One turn: what happened, then what is due. */
static void turn(struct supervisor *s) {
    int64_t now_ms = clock_ms();
    take_events(s, now_ms);
    supervisor_watch_scheduler(s, now_ms);
    drain_turn(s, now_ms);
    models_turn(s, now_ms);
    children_check_pulse(s, now_ms);
    children_turn(s, now_ms);
    control_turn(s, now_ms);
    models_tell_outcomes(s);
    models_forget_leaving(s);
    if (s->unsaved)
        children_save(s);
    s->turn_ms = now_ms;
}

static int64_t wait_ms(const struct supervisor *s) {
    int64_t due = children_next_ms(s), now_ms = clock_ms();
    return due <= now_ms ? 0 : MIN(due - now_ms, (int64_t)TURN_MAX_MS);
}

static void release(struct supervisor *s) {
    link_client_free(&s->link);
    control_close(s);
    adds_close(s);
    for (size_t i = 0; i < s->children.count; i++) {
        if (s->children.items[i]->pidfd >= 0)
            close(s->children.items[i]->pidfd);
        mem_free(s->children.items[i]);
    }
    vec_release(&s->children);
    arena_release(&s->arena);
    buf_release(&s->scratch);
    if (s->signal_fd >= 0)
        close(s->signal_fd);
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
}

int supervisor_run(const struct supervisor_config *config, struct error *err) {
    struct supervisor s = {
        .config = config, .epoll_fd = -1, .signal_fd = -1, .control_fd = -1, .turn_ms = clock_ms()};
    s.unheard_since_ms = s.turn_ms;
    models_init(&s);
    arena_init(&s.arena, 1 << 20, 4096);
    buf_init(&s.scratch, 0);
    int rc = open_loop(&s, err);
    if (!rc)
        rc = control_open(&s, err);
    if (!rc)
        rc = supervisor_link_open(&s, err);
    if (rc)
        goto out;
    children_adopt(&s, s.turn_ms);
    children_want(&s, s.turn_ms);
    children_turn(&s, s.turn_ms);
    while (s.phase != PHASE_DONE) {
        link_client_wait(s.link, &s.epoll_fd, NULL, 1, wait_ms(&s));
        turn(&s);
    }
    if (s.failure.code)
        rc = error_set(err, s.failure.code, "%s", s.failure.text);
    else
        log_info("drained");
out:
    release(&s);
    return rc;
}
