/*
 * supervisor_adds.c - models that a client of HTTP adds or removes: each by a process of its own, which runs `trireme load` or
 * `trireme remove`.
 *
 * So the same rules hold as for whoever types that command on this machine, a hub's name is downloaded without the supervisor's
 * waiting, and the reason that the command prints is the one that the client is told. The process ends with the supervisor.
 */
#include "cli/supervisor_internal.h"

#include "base/log.h"
#include "base/option.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

static void send_outcome(struct supervisor *s, const struct wire_outcome *outcome) {
    if (!supervisor_send_outcome(s, outcome))
        log_warn("a client is not told what became of its model: %.*s",
                 outcome->done ? 6 : (int)outcome->text.len,
                 outcome->done ? "loaded" : (const char *)outcome->text.data);
}

static void tell_outcome(struct supervisor *s, struct u128 ticket, bool done, const char *text) {
    send_outcome(s,
                 &(struct wire_outcome){.ticket = ticket, .done = done, .text = bytes_str(text)});
}

static void tell_unknown(struct supervisor *s, struct u128 ticket) {
    send_outcome(s, &(struct wire_outcome){
                        .ticket = ticket, .gone = true, .text = bytes_str(SUPERVISOR_WHICH)});
}

/* Between fork and exec: only what is safe with other threads' locks held. */
NORETURN static void become(const char *exe, char *const *argv, int out) {
    sigset_t none;
    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in >= 0)
        dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(exe, argv);
    _exit(126);
}

static int start(struct supervisor *s, uint32_t idx, const char *verb, const char *word,
                 struct error *err) {
    struct add_job *job = &s->adds[idx];
    int pipes[2];
    struct buf dir = {0};
    if (pipe2(pipes, O_CLOEXEC))
        return error_set_errno(err, "cannot start 'trireme %s'", verb);
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    buf_addf(&dir, "--run-dir=%s", s->config->run_dir);
    char end[] = "--", *verb_copy = mem_strdup(verb), *copy = mem_strdup(word);
    char *const argv[] = {mem_strdup(s->config->exe), verb_copy, dir.data, end, copy, NULL};
    int rc = supervisor_watch(s, pipes[0], SOURCE_ADD, idx, err);
    int pid = rc ? -1 : fork();
    if (pid == 0)
        become(s->config->exe, argv, pipes[1]);
    if (!rc && pid < 0)
        rc = error_set_errno(err, "cannot start 'trireme %s'", verb);
    close(pipes[1]);
    if (rc)
        close(pipes[0]);
    else
        *job = (struct add_job){.pid = pid, .fd = pipes[0]};
    mem_free(argv[0]);
    mem_free(verb_copy);
    mem_free(copy);
    buf_release(&dir);
    return rc;
}

void adds_begin(struct supervisor *s, const struct wire_want *want) {
    const char *verb = want->wish == WIRE_WISH_REMOVE ? "remove" : "load";
    struct error err;
    uint32_t idx = 0;
    char *word = mem_strndup((const char *)want->model.data, want->model.len);
    while (idx < ADDS_MAX && s->adds[idx].pid)
        idx++;
    if (s->phase != PHASE_SERVING)
        tell_outcome(s, want->ticket, false, "draining");
    else if (!option_is_word(want->model) || want->model.len >= CONTROL_LINE_MAX - 8)
        tell_outcome(s, want->ticket, false, "that is neither a path nor a hub's name");
    else if (want->wish == WIRE_WISH_REMOVE && !models_find(s, want->model))
        tell_unknown(s, want->ticket);
    else if (idx == ADDS_MAX)
        tell_outcome(s, want->ticket, false,
                     "other models are being added or removed; try again when that is done");
    else if (start(s, idx, verb, word, &err))
        tell_outcome(s, want->ticket, false, err.text);
    else {
        log_info("a client says %s model=%s", verb, word);
        s->adds[idx].ticket = want->ticket;
    }
    mem_free(word);
}

/* The last line that it printed, without the command's name. */
static const char *last_line(char *text) {
    static const char *const NAMES[] = {"trireme load: ", "trireme remove: "};
    size_t len = strlen(text);
    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        text[--len] = 0;
    while (len && text[len - 1] != '\n' && text[len - 1] != '\r')
        len--;
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (!strncmp(text + len, NAMES[i], strlen(NAMES[i])))
            return text + len + strlen(NAMES[i]);
    return text + len;
}

static void end(struct supervisor *s, struct add_job *job) {
    int status = 0;
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, job->fd, NULL);
    close(job->fd);
    while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR) {}
    bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const char *why = last_line(job->text);
    tell_outcome(s, job->ticket, done, done ? "" : *why ? why : "the command ended without a word");
    *job = (struct add_job){0};
}

void adds_read(struct supervisor *s, uint32_t idx) {
    struct add_job *job = &s->adds[idx];
    if (!job->pid)
        return;
    size_t half = sizeof job->text / 2;
    if (job->len > half) { /* a download's progress: the end is what counts */
        memmove(job->text, job->text + job->len - half, half);
        job->len = half;
    }
    ssize_t n = read(job->fd, job->text + job->len, sizeof job->text - 1 - job->len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    job->len += n > 0 ? (size_t)n : 0;
    job->text[job->len] = 0;
    if (n <= 0)
        end(s, job);
}

void adds_close(struct supervisor *s) {
    for (size_t i = 0; i < ADDS_MAX; i++) {
        struct add_job *job = &s->adds[i];
        if (!job->pid)
            continue;
        kill(job->pid, SIGKILL); /* not reaped yet: the number is its own */
        while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR) {}
        close(job->fd);
        *job = (struct add_job){0};
    }
}
