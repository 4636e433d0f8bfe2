/*
 * supervisor_internal.h - the supervisor's state, for the supervisor*.c files only.
 *
 * supervisor.c is the loop and the order of a turn; _children.c starts, restarts and counts;
 * _wire.c speaks to the scheduler; _control.c answers commands; _drain.c ends everything.
 */
#ifndef CLI_SUPERVISOR_INTERNAL_H
#define CLI_SUPERVISOR_INTERNAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "cli/supervisor.h"
#include "proto/link.h"

enum { EXIT_RING = 64, CONTROLS_MAX = 8, CONTROL_LINE_MAX = 128, WORKERS_MAX = 1024 };
/* Between two turns: then it was the supervisor that slept, and the silence of others proves
 * nothing. */
enum { LATE_TURN_MS = 3000 };

enum phase { PHASE_SERVING, PHASE_GATEWAYS, PHASE_SCHEDULER, PHASE_WORKERS, PHASE_DONE };

/* A command's connection; a reply may have to wait for what was asked. */
struct control {
    int fd; /* -1: free */
    char line[CONTROL_LINE_MAX];
    size_t len;
    bool waits_for_scale;
    int64_t until_ms;
};

struct supervisor {
    const struct supervisor_config *config;
    VEC(struct child *) children; /* owned */
    uint32_t workers_wanted;
    uint64_t args_hash[CHILD_ROLE_COUNT];
    enum phase phase;
    struct error failure; /* why it gave up by itself; code 0: it did not */
    int epoll_fd, signal_fd, control_fd;
    struct control controls[CONTROLS_MAX];

    struct link_client *link; /* owned */
    bool registered;
    int64_t unheard_since_ms, turn_ms, pulse_turn_ms;
    struct arena arena;
    struct buf scratch;
    /* latest ends, to answer late Fences and to tell a new scheduler */
    struct child_exit exits[EXIT_RING];
    uint64_t exit_count;
};

/* What an epoll event means. The low bits carry an index or a child's pid. */
enum source { SOURCE_SIGNAL = 1, SOURCE_CONTROL, SOURCE_CONNECTION, SOURCE_CHILD };
MUST_CHECK int supervisor_watch(struct supervisor *s, int fd, enum source source, uint32_t id,
                                struct error *err);

/* _children.c */
void children_adopt(struct supervisor *s, int64_t now_ms);
void children_want(struct supervisor *s, int64_t now_ms); /* makes the list match what is wanted */
/* starts what is due, kills what was asked and is late */
void children_turn(struct supervisor *s, int64_t now_ms);
void children_ended(struct supervisor *s, int pid, int64_t now_ms);
/* Kills workers and gateways whose pulse has stood still for silence_ms. */
void children_check_pulse(struct supervisor *s, int64_t now_ms);
void children_stop(struct supervisor *s, struct child *c, int64_t grace_ms, int64_t now_ms);
struct child *children_find(struct supervisor *s, int pid);
uint32_t children_alive(const struct supervisor *s, enum child_role role);
void children_save(struct supervisor *s);
int64_t children_next_ms(const struct supervisor *s); /* INT64_MAX: nothing is due */

/* _wire.c */
MUST_CHECK int supervisor_link_open(struct supervisor *s, struct error *err);
void supervisor_send_exit(struct supervisor *s, const struct child_exit *e);
void supervisor_watch_scheduler(struct supervisor *s, int64_t now_ms);

/* _control.c */
MUST_CHECK int control_open(struct supervisor *s, struct error *err);
void control_close(struct supervisor *s);
void control_accept(struct supervisor *s, int64_t now_ms);
void control_read(struct supervisor *s, uint32_t idx, int64_t now_ms);
void control_turn(struct supervisor *s, int64_t now_ms);

/* _drain.c */
void drain_begin(struct supervisor *s, int64_t now_ms);
void drain_turn(struct supervisor *s, int64_t now_ms);

#endif
