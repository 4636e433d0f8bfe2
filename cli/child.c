#include "cli/child.h"

#include "base/exit_reason.h"
#include "base/pulse.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKOFF_FIRST_MS = 100, BACKOFF_MAX_MS = 5000, HEALTHY_MS = 10000 };
enum { EARLY_MS = 1000, EARLY_KILLS = 5, KILLED_BACKOFF_MAX_MS = 1000 };

static const char *const ROLE_NAMES[CHILD_ROLE_COUNT] = {"gateway", "scheduler", "worker"};

const char *child_role_name(enum child_role role) {
    return ROLE_NAMES[role];
}

/* Bit s: the state may become s. */
static const uint8_t LEGAL_MOVES[] = {
    [CHILD_WAITING] = 1 << CHILD_RUNNING | 1 << CHILD_GONE,
    [CHILD_RUNNING] = 1 << CHILD_STOPPING | 1 << CHILD_WAITING | 1 << CHILD_GONE,
    [CHILD_STOPPING] = 1 << CHILD_WAITING | 1 << CHILD_GONE,
    [CHILD_GONE] = 0,
};

void child_move(struct child *c, enum child_state to) {
    bool has_process = to == CHILD_RUNNING || to == CHILD_STOPPING;
    CHECK_MSG(LEGAL_MOVES[c->state] >> to & 1, "%s %u goes from state %d to %d",
              child_role_name(c->role), c->idx, (int)c->state, (int)to);
    CHECK(!has_process || (c->pidfd >= 0 && c->pid > 0));
    c->state = to;
}

int child_role_parse(const char *name, enum child_role *out) {
    for (int i = 0; i < CHILD_ROLE_COUNT; i++) {
        if (strcmp(name, ROLE_NAMES[i]))
            continue;
        *out = (enum child_role)i;
        return 0;
    }
    return ERR_INVALID;
}

/* State letter and start time of a process. The name in parentheses may hold anything, so fields
 * are counted from its end. */
static int read_stat(int pid, char *state, uint64_t *start_ticks) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ERR_NOT_FOUND;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return ERR_NOT_FOUND;
    text[n] = 0;
    const char *at = strrchr(text, ')');
    if (!at || at[1] != ' ')
        return ERR_INVALID;
    *state = at[2];
    at += 2;
    for (int field = 3; field < 22; field++) {
        at = strchr(at, ' ');
        if (!at)
            return ERR_INVALID;
        at++;
    }
    *start_ticks = strtoull(at, NULL, 10);
    return 0;
}

static int open_pidfd(int pid) {
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Between fork and exec: only what is safe with other threads' locks held. */
NORETURN static void become(const char *exe, char *const *argv, int input, int gate) {
    char go = 0;
    sigset_t none;
    setsid(); /* a terminal's Ctrl-C is the supervisor's alone: it ends its children in order */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_IGN); /* ends no gateway that is not yet as far as to wait for it */
    if (input < 0)
        input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input > 0)
        dup2(input, STDIN_FILENO);
    else if (input == 0) /* ours was closed */
        fcntl(input, F_SETFD, 0);
    while (read(gate, &go, 1) < 0 && errno == EINTR) {}
    if (go != 1)
        _exit(127);
    execv(exe, argv);
    _exit(126);
}

/* A file in memory that holds the text, at its beginning; negative: there is none. */
static int open_input(const char *text) {
    size_t len = strlen(text);
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || (pwrite(fd, text, len, 0) == (ssize_t)len))
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int child_start(struct child *c, const char *exe, char *const *argv, const char *input, int *gate,
                struct error *err) {
    int pipes[2], input_fd = input ? open_input(input) : -1;
    if ((input && input_fd < 0) || pipe2(pipes, O_CLOEXEC)) {
        int why = errno;
        if (input_fd >= 0)
            close(input_fd);
        errno = why;
        return error_set_errno(err, "cannot start '%s'", child_role_name(c->role));
    }
    int pid = fork();
    if (pid == 0) {
        close(pipes[1]);
        become(exe, argv, input_fd, pipes[0]);
    }
    int saved = errno;
    close(pipes[0]);
    if (input_fd >= 0)
        close(input_fd);
    char state;
    if (pid < 0 || (c->pidfd = open_pidfd(pid)) < 0 || read_stat(pid, &state, &c->start_ticks)) {
        if (pid >= 0)
            saved = errno;
        close(pipes[1]);
        if (pid > 0)
            waitpid(pid, NULL, 0);
        errno = saved;
        return error_set_errno(err, "cannot start '%s'", child_role_name(c->role));
    }
    fcntl(c->pidfd, F_SETFD, FD_CLOEXEC);
    c->pid = pid;
    c->is_ours = true;
    c->fenced = false;
    *gate = pipes[1];
    return 0;
}

void child_open_gate(int gate, bool go) {
    CHECK(gate >= 0);
    if (go)
        (void)!write(gate, "\1", 1);
    close(gate);
}

int child_adopt(struct child *c, int pid, uint64_t start_ticks) {
    CHECK(c->pidfd < 0);
    char state;
    uint64_t now_ticks;
    int fd = open_pidfd(pid);
    if (fd < 0)
        return ERR_NOT_FOUND;
    /* Looked at after the pidfd was opened: if it is the one, the pidfd is its. */
    if (read_stat(pid, &state, &now_ticks) || now_ticks != start_ticks || state == 'Z' ||
        state == 'X') {
        close(fd);
        return ERR_NOT_FOUND;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    c->pid = pid;
    c->pidfd = fd;
    c->start_ticks = start_ticks;
    c->is_ours = false;
    c->fenced = false;
    return 0;
}

void child_signal(const struct child *c, int sig) {
    if (c->pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, c->pidfd, sig, NULL, 0);
}

bool child_take_mark(const char *run_dir, int pid) {
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/fault-%d", run_dir, pid);
    return len > 0 && (size_t)len < sizeof path && unlink(path) == 0;
}

static bool is_fault_signal(int sig) {
    static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++)
        if (FAULTS[i] == sig)
            return true;
    return false;
}

void child_ended(struct child *c, const char *run_dir, struct child_exit *out) {
    siginfo_t info = {0};
    CHECK(c->pidfd >= 0 && c->pid > 0);
    *out = (struct child_exit){
        .role = c->role, .instance = c->instance, .pid = c->pid, .fenced = c->fenced};
    if (c->is_ours && waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED) == 0) {
        out->known = true;
        if (info.si_code == CLD_EXITED)
            out->code = info.si_status;
        else
            out->signal = info.si_status;
    }
    bool marked = child_take_mark(run_dir, c->pid);
    pulse_remove(run_dir, c->pid);
    out->fault = !c->fenced && (marked || is_fault_signal(out->signal));
    close(c->pidfd);
    c->pidfd = -1;
    c->pid = 0;
}

void child_exit_text(const struct child_exit *e, char out[64]) {
    const char *fault = e->fault ? " (a fault of its own)" : "";
    if (e->fenced)
        snprintf(out, 64, "fenced");
    else if (!e->known)
        snprintf(out, 64, "an end nobody saw%s", fault);
    else if (e->signal)
        snprintf(out, 64, "signal %d%s", e->signal, fault);
    else
        snprintf(out, 64, "exit code %d%s", e->code, fault);
}

int64_t child_restart_delay(struct child *c, const struct child_exit *e, int64_t now_ms) {
    bool killed = e->fenced || (e->signal && !e->fault);
    bool lived = now_ms - c->started_ms >= HEALTHY_MS;
    c->has_lived |= lived || !c->is_ours;
    if (lived)
        c->backoff_ms = 0;
    c->failed_starts = lived || !e->known || e->signal || !e->code ? 0 : c->failed_starts + 1;
    c->gave_up = e->known && !e->signal && !e->fault && exit_is_hopeless(e->code);
    c->early_kills = killed && now_ms - c->started_ms < EARLY_MS ? c->early_kills + 1 : 0;
    int64_t delay = c->backoff_ms;
    if (killed && c->early_kills <= EARLY_KILLS)
        return 0;
    c->backoff_ms = MIN(MAX(c->backoff_ms * 2, (int64_t)BACKOFF_FIRST_MS), (int64_t)BACKOFF_MAX_MS);
    return killed ? MIN(delay, (int64_t)KILLED_BACKOFF_MAX_MS) : delay;
}

bool child_is_hopeless(const struct child *c) {
    return !c->has_lived && (c->gave_up || c->failed_starts >= CHILD_FAILED_STARTS);
}
