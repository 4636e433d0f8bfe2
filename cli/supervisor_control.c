#include "cli/supervisor_internal.h"

#include "base/clock.h"
#include "base/fsutil.h"
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATIENCE_MS = 30000 };

static int socket_address(const char *run_dir, struct sockaddr_un *out, struct error *err) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(out->sun_path, sizeof out->sun_path, "%s/control.sock", run_dir);
    if (len < (int)sizeof out->sun_path)
        return 0;
    return error_set(err, ERR_INVALID, "the run folder '%s' is too long for a socket's name",
                     run_dir);
}

int control_open(struct supervisor *s, struct error *err) {
    struct sockaddr_un at;
    for (int i = 0; i < CONTROLS_MAX; i++)
        s->controls[i].fd = -1;
    int rc = socket_address(s->config->run_dir, &at, err);
    if (rc)
        return rc;
    s->control_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    unlink(at.sun_path); /* we hold the folder's lock: whoever made it is dead */
    if (s->control_fd < 0 || bind(s->control_fd, (struct sockaddr *)&at, sizeof at) ||
        listen(s->control_fd, 8))
        return error_set_errno(err, "cannot listen on '%s'", at.sun_path);
    return supervisor_watch(s, s->control_fd, SOURCE_CONTROL, 0, err);
}

/* Taken out of epoll by name: a child between fork and exec still holds the description, and
 * closing alone would not do it. */
static void hang_up(struct supervisor *s, struct control *c) {
    if (c->fd >= 0) {
        epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
        close(c->fd);
    }
    *c = (struct control){.fd = -1};
}

void control_close(struct supervisor *s) {
    for (int i = 0; i < CONTROLS_MAX; i++)
        hang_up(s, &s->controls[i]);
    if (s->control_fd >= 0)
        close(s->control_fd);
    struct sockaddr_un at;
    if (s->control_fd >= 0 && !socket_address(s->config->run_dir, &at, NULL))
        unlink(at.sun_path);
    s->control_fd = -1;
}

static void reply(struct supervisor *s, struct control *c, const char *text) {
    (void)!send(c->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    hang_up(s, c);
}

void control_accept(struct supervisor *s, int64_t now_ms) {
    for (int fd; (fd = accept4(s->control_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        uint32_t idx = 0;
        while (idx < CONTROLS_MAX && s->controls[idx].fd >= 0)
            idx++;
        if (idx == CONTROLS_MAX || supervisor_watch(s, fd, SOURCE_CONNECTION, idx, NULL)) {
            close(fd);
            continue;
        }
        s->controls[idx] = (struct control){.fd = fd, .until_ms = now_ms + PATIENCE_MS};
    }
}

/* Every wanted worker runs and no other does. */
static bool scale_is_done(const struct supervisor *s) {
    uint32_t running = 0;
    for (size_t i = 0; i < s->children.count; i++) {
        const struct child *c = s->children.items[i];
        if (c->role != CHILD_WORKER)
            continue;
        if (c->state == CHILD_STOPPING)
            return false;
        running += c->state == CHILD_RUNNING;
    }
    return running == s->workers_wanted;
}

static void scale(struct supervisor *s, struct control *c, const char *text, int64_t now_ms) {
    char *end;
    unsigned long count = strtoul(text, &end, 10), ranks = supervisor_rank_count(s->config);
    if (end == text || *end || *text < '0' || *text > '9' || count < 1 ||
        count > WORKERS_MAX / ranks) {
        reply(s, c, "error the number of workers is a number from 1 to 1024\n");
        return;
    }
    if (s->phase != PHASE_SERVING) {
        reply(s, c, "error draining\n");
        return;
    }
    count *= ranks; /* of replicas, to processes */
    log_info("scaling workers from %u to %lu", s->workers_wanted, count);
    s->workers_wanted = (uint32_t)count;
    children_want(s, now_ms);
    children_save(s);
    c->waits_for_scale = true;
}

static void status(struct supervisor *s, struct control *c, int64_t now_ms) {
    static const char *const STATES[] = {"waiting", "running", "stopping", "gone"};
    struct buf out;
    buf_init(&out, 16384);
    buf_addf(&out, "ok %s, %s", s->phase == PHASE_SERVING ? "serving" : "draining",
             s->registered ? "scheduler answers" : "scheduler does not answer");
    for (size_t i = 0; i < s->children.count; i++) {
        const struct child *p = s->children.items[i];
        buf_addf(&out, "; %s %u %s process %d%s for %lld s", child_role_name(p->role), p->idx,
                 STATES[p->state], p->pid,
                 p->is_ours || p->state == CHILD_WAITING ? "" : " (adopted)",
                 (long long)(p->state == CHILD_WAITING ? 0 : now_ms - p->started_ms) / 1000);
    }
    buf_add_byte(&out, '\n');
    reply(s, c, out.failed ? "error too much to tell\n" : buf_text(&out));
    buf_release(&out);
}

static void command(struct supervisor *s, struct control *c, int64_t now_ms) {
    c->line[strcspn(c->line, "\r\n")] = 0;
    if (!strncmp(c->line, "scale ", 6))
        scale(s, c, c->line + 6, now_ms);
    else if (!strcmp(c->line, "status"))
        status(s, c, now_ms);
    else
        reply(s, c, "error commands are: scale N, status\n");
}

void control_read(struct supervisor *s, uint32_t idx, int64_t now_ms) {
    struct control *c = &s->controls[idx];
    if (c->fd < 0)
        return;
    char nothing[16]; /* while it waits for its answer it has nothing to say; it may hang up */
    ssize_t n = c->waits_for_scale ? recv(c->fd, nothing, sizeof nothing, 0)
                                   : recv(c->fd, c->line + c->len, sizeof c->line - 1 - c->len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(s, c);
        return;
    }
    if (c->waits_for_scale)
        return;
    c->len += (size_t)n;
    c->line[c->len] = 0;
    if (strchr(c->line, '\n'))
        command(s, c, now_ms);
    else if (c->len == sizeof c->line - 1)
        reply(s, c, "error the line is too long\n");
}

void control_turn(struct supervisor *s, int64_t now_ms) {
    for (int i = 0; i < CONTROLS_MAX; i++) {
        struct control *c = &s->controls[i];
        char text[64];
        if (c->fd < 0)
            continue;
        if (c->waits_for_scale && scale_is_done(s)) {
            snprintf(text, sizeof text, "ok %u workers\n",
                     s->workers_wanted / supervisor_rank_count(s->config));
            reply(s, c, text);
        } else if (now_ms >= c->until_ms) {
            reply(s, c,
                  c->waits_for_scale ? "error the workers are not yet what they should be\n"
                                     : "error too slow\n");
        }
    }
}

/* --- the other end --- */

static int read_reply(int fd, char *reply_text, size_t max, struct error *err) {
    size_t len = 0;
    int64_t until_ms = clock_ms() + PATIENCE_MS + 5000;
    while (len < max - 1 && !memchr(reply_text, '\n', len)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left_ms = until_ms - clock_ms();
        if (left_ms <= 0)
            return error_set(err, ERR_TIMEOUT, "the supervisor does not answer");
        int ready = poll(&p, 1, (int)left_ms);
        ssize_t n = ready > 0 ? recv(fd, reply_text + len, max - 1 - len, 0) : -1;
        if (n < 0 && (errno == EINTR || ready == 0))
            continue;
        if (n <= 0)
            return error_set(err, ERR_CLOSED, "the supervisor hung up");
        len += (size_t)n;
    }
    reply_text[len] = 0;
    reply_text[strcspn(reply_text, "\n")] = 0;
    return 0;
}

int supervisor_ask(const char *run_dir, const char *line, char *reply_text, size_t max,
                   struct error *err) {
    struct sockaddr_un at;
    int rc = socket_address(run_dir, &at, err);
    if (rc)
        return rc;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at))
        rc = error_set_errno(
            err, "no supervisor answers on '%s'; is trireme serve running with this --run-dir?",
            at.sun_path);
    char text[CONTROL_LINE_MAX + 2];
    int len = snprintf(text, sizeof text, "%s\n", line);
    if (!rc && send(fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        rc = error_set_errno(err, "cannot ask the supervisor");
    if (!rc)
        rc = read_reply(fd, reply_text, max, err);
    if (fd >= 0)
        close(fd);
    return rc;
}
