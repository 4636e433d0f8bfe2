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

enum { PATIENCE_MS = 30000, LOAD_PATIENCE_MS = 600000 };

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
    uint32_t running = 0, wanted = 0;
    for (uint32_t i = 0; i < s->model_count; i++)
        wanted += s->models[i].wanted;
    for (size_t i = 0; i < s->children.count; i++) {
        const struct child *c = s->children.items[i];
        if (c->role != CHILD_WORKER)
            continue;
        if (c->state == CHILD_STOPPING)
            return false;
        running += c->state == CHILD_RUNNING;
    }
    return running == wanted;
}

/* The model that a command names: " NAME", or the only one. NULL: there is none. */
static struct managed_model *find_model(struct supervisor *s, const char *text) {
    if (!*text)
        return s->model_count == 1 ? &s->models[0] : NULL;
    return *text == ' ' ? models_find(s, bytes_str(text + 1)) : NULL;
}

static void scale(struct supervisor *s, struct control *c, const char *text, int64_t now_ms) {
    char *end;
    struct managed_model *m = NULL;
    unsigned long count = strtoul(text, &end, 10);
    bool good = end != text && (!*end || *end == ' ') && *text >= '0' && *text <= '9';
    if (good && !(m = find_model(s, end))) {
        reply(s, c, SUPERVISOR_UNKNOWN "which model? scale N MODEL; trireme status lists them\n");
        return;
    }
    unsigned long ranks = m ? supervisor_rank_count(&m->terms.replicas) : 1;
    if (!good || count < 1 || count > WORKERS_MAX / ranks) {
        reply(s, c, "error the number of workers is a number from 1 to 1024\n");
        return;
    }
    if (s->phase != PHASE_SERVING) {
        reply(s, c, "error draining\n");
        return;
    }
    if (!m->wanted) {
        reply(s, c, "error this model is not loaded; trireme load MODEL does it\n");
        return;
    }
    if (m->before_count) {
        reply(s, c, "error a new revision of it is being loaded; try again when it is ready\n");
        return;
    }
    count *= ranks; /* of replicas, to processes */
    log_info("scaling workers from %u to %lu", m->wanted, count);
    m->wanted = (uint32_t)count;
    c->model = (uint32_t)(m - s->models);
    children_want(s, now_ms);
    children_save(s);
    c->waits_for = WAITS_FOR_SCALE;
}

/* The model that a line names; NULL: it names none, which was said. */
static struct managed_model *named_model(struct supervisor *s, struct control *c,
                                         const char *text) {
    struct managed_model *m = find_model(s, text);
    if (!m)
        reply(s, c,
              *text ? SUPERVISOR_UNKNOWN SUPERVISOR_WHICH "\n"
                    : SUPERVISOR_UNKNOWN "which model? trireme status lists them\n");
    return m;
}

static void reply_failure(struct supervisor *s, struct control *c, const struct error *err) {
    char answer[ERROR_TEXT_MAX + 16];
    snprintf(answer, sizeof answer, "error %s\n", err->text);
    reply(s, c, answer);
}

static void wait_for(struct supervisor *s, struct control *c, const struct managed_model *m,
                     enum waits_for what, int64_t now_ms) {
    c->model = (uint32_t)(m - s->models);
    c->waits_for = what;
    c->until_ms = now_ms + LOAD_PATIENCE_MS;
}

static void load_model(struct supervisor *s, struct control *c, struct managed_model *m,
                       int64_t now_ms) {
    struct error err;
    if (models_load(s, m, now_ms, &err)) {
        reply_failure(s, c, &err);
        m->leaves = m->is_new;
    } else {
        wait_for(s, c, m, WAITS_FOR_LOAD, now_ms);
    }
}

static void load(struct supervisor *s, struct control *c, const char *text, int64_t now_ms) {
    struct managed_model *m = named_model(s, c, text);
    if (m)
        load_model(s, c, m, now_ms);
}

static void add(struct supervisor *s, struct control *c, const char *word, int64_t now_ms) {
    struct managed_model *m;
    struct error err;
    if (models_add(s, word, &m, &err))
        reply_failure(s, c, &err);
    else
        load_model(s, c, m, now_ms);
}

static void reload(struct supervisor *s, struct control *c, const char *text, int64_t now_ms) {
    struct managed_model *m = named_model(s, c, text);
    struct error err;
    if (!m)
        return;
    if (models_reload(s, m, now_ms, &err))
        reply_failure(s, c, &err);
    else if (!m->wanted)
        reply(s, c, "ok it is not loaded now; the next load takes what is there\n");
    else
        wait_for(s, c, m, WAITS_FOR_RELOAD, now_ms);
}

static void unload(struct supervisor *s, struct control *c, const char *text, int64_t now_ms) {
    struct managed_model *m = named_model(s, c, text);
    if (!m)
        return;
    models_unload(s, m, now_ms);
    wait_for(s, c, m, WAITS_FOR_UNLOAD, now_ms);
}

static void remove_model(struct supervisor *s, struct control *c, const char *text,
                         int64_t now_ms) {
    struct managed_model *m = named_model(s, c, text);
    struct error err;
    if (!m)
        return;
    if (models_remove(s, m, now_ms, &err))
        reply_failure(s, c, &err);
    else
        wait_for(s, c, m, WAITS_FOR_REMOVE, now_ms);
}

static void add_model(const struct supervisor *s, const struct managed_model *m, struct buf *out) {
    buf_addf(out, "; model %s, %u running or waiting: %s", models_state(s, m), m->busy,
             m->terms.name);
    if (m->failed_ms)
        buf_addf(out, " (cannot be loaded: %.200s)", m->failure);
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
        if (p->role == CHILD_WORKER && s->model_count > 1)
            buf_addf(&out, " of %s", s->models[models_of(s, p->idx)].terms.name);
    }
    for (uint32_t i = 0; i < s->model_count; i++)
        if (s->models[i].terms.name)
            add_model(s, &s->models[i], &out);
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
    else if (!strncmp(c->line, "load", 4) && (!c->line[4] || c->line[4] == ' '))
        load(s, c, c->line + 4, now_ms);
    else if (!strncmp(c->line, "add ", 4))
        add(s, c, c->line + 4, now_ms);
    else if (!strncmp(c->line, "reload", 6) && (!c->line[6] || c->line[6] == ' '))
        reload(s, c, c->line + 6, now_ms);
    else if (!strncmp(c->line, "unload", 6) && (!c->line[6] || c->line[6] == ' '))
        unload(s, c, c->line + 6, now_ms);
    else if (!strncmp(c->line, "remove ", 7))
        remove_model(s, c, c->line + 6, now_ms);
    else
        reply(
            s, c,
            "error commands are: scale N [MODEL], load [MODEL], add [NAME=]PATH, reload [MODEL], unload [MODEL], "
            "remove MODEL, status\n");
}

void control_read(struct supervisor *s, uint32_t idx, int64_t now_ms) {
    struct control *c = &s->controls[idx];
    if (c->fd < 0)
        return;
    char nothing[16]; /* while it waits for its answer it has nothing to say; it may hang up */
    ssize_t n = c->waits_for ? recv(c->fd, nothing, sizeof nothing, 0)
                             : recv(c->fd, c->line + c->len, sizeof c->line - 1 - c->len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(s, c);
        return;
    }
    if (c->waits_for)
        return;
    c->len += (size_t)n;
    c->line[c->len] = 0;
    if (strchr(c->line, '\n'))
        command(s, c, now_ms);
    else if (c->len == sizeof c->line - 1)
        reply(s, c, "error the line is too long\n");
}

/* What the one who waits is told; false: not yet. */
static bool answer_of(const struct supervisor *s, const struct control *c, char *text,
                      size_t size) {
    const struct managed_model *m = &s->models[c->model];
    uint32_t count;
    switch (c->waits_for) {
    case WAITS_FOR_SCALE:
        count = m->wanted / supervisor_rank_count(&m->terms.replicas);
        snprintf(text, size, "ok %u worker%s\n", count, count == 1 ? "" : "s");
        return scale_is_done(s);
    case WAITS_FOR_LOAD:
        if (m->failed_ms)
            snprintf(text, size, "error %s\n", m->failure);
        else if (!m->wanted && !m->asked_ms)
            snprintf(text, size, "error %s\n",
                     m->had_no_room ? "there was no room for it within a minute: --models-max or "
                                      "--models-memory, and no other model on demand could go"
                                    : "it was unloaded again");
        else {
            snprintf(text, size, "ok loaded\n");
            return m->wanted && m->replicas_ready;
        }
        return true;
    case WAITS_FOR_RELOAD:
        if (m->failed_ms)
            snprintf(text, size, "error the revision before it stays: %s\n", m->failure);
        else
            snprintf(text, size, "ok new requests go to the new revision\n");
        return !m->before_count;
    case WAITS_FOR_UNLOAD: snprintf(text, size, "ok unloaded\n"); return !models_processes(s, m);
    case WAITS_FOR_REMOVE:
        snprintf(text, size, m->leaves ? "ok removed\n" : "error it was loaded again\n");
        return !m->leaves || !models_has_children(s, m);
    case WAITS_FOR_NOTHING: break;
    }
    return false;
}

void control_turn(struct supervisor *s, int64_t now_ms) {
    static const char *const LATE[] = {
        [WAITS_FOR_NOTHING] = "error too slow\n",
        [WAITS_FOR_SCALE] = "error the workers are not yet what they should be\n",
        [WAITS_FOR_LOAD] = "error it is not yet loaded; trireme status tells how far it is\n",
        [WAITS_FOR_RELOAD] = "error it is not yet loaded; the revision before it serves\n",
        [WAITS_FOR_UNLOAD] = "error it is not yet unloaded: its streams go on\n",
        [WAITS_FOR_REMOVE] = "error it is not yet removed: its streams go on\n",
    };
    for (int i = 0; i < CONTROLS_MAX; i++) {
        struct control *c = &s->controls[i];
        char text[ERROR_TEXT_MAX + 16];
        if (c->fd < 0)
            continue;
        if (answer_of(s, c, text, sizeof text))
            reply(s, c, text);
        else if (now_ms >= c->until_ms)
            reply(s, c, LATE[c->waits_for]);
    }
}

/* --- the other end --- */

static int read_reply(int fd, char *reply_text, size_t max, struct error *err) {
    size_t len = 0;
    int64_t until_ms = clock_ms() + LOAD_PATIENCE_MS + 5000; /* the supervisor is less patient */
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
        rc = error_set(err, ERR_IO,
                       "no supervisor answers on '%s' (%s); is trireme serve running with this "
                       "--run-dir or --port?",
                       at.sun_path, strerror(errno));
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
