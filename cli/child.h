/*
 * child.h - one process under the supervisor, begun by it or by an earlier one.
 *
 * A process is named by (pid, start time), which no other process ever has between two boots, and
 * is held by a pidfd, so no signal goes to a stranger who got the number later. A process that the
 * supervisor did not start itself cannot be waited for: its end is seen, not how it ended; a mark
 * that its fault handler left in the run folder tells the one thing that matters.
 *
 * Starting has a gate: the new process waits before exec until the supervisor has written it down.
 * A supervisor that dies in between closes the gate and the process exits, so every running child
 * is in the state file.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "base/base.h"
#include "base/error.h"

enum child_role { CHILD_GATEWAY, CHILD_SCHEDULER, CHILD_WORKER, CHILD_ROLE_COUNT };
/* "gateway", "scheduler" or "worker": the command that the child runs, too. */
const char *child_role_name(enum child_role role);
/* The reverse; ERR_INVALID for any other name. */
MUST_CHECK int child_role_parse(const char *name, enum child_role *out);

/*
 * Legal moves, which child_move checks:
 *   WAITING  -> RUNNING   it was started or adopted
 *   WAITING  -> GONE      it is no longer wanted
 *   RUNNING  -> STOPPING  it was asked to end
 *   RUNNING  -> WAITING   it ended and starts again
 *   RUNNING  -> GONE      it ended and is no longer wanted
 *   STOPPING -> WAITING   it ended; its place is wanted again, with other settings
 *   STOPPING -> GONE      it ended
 */
enum child_state { CHILD_WAITING, CHILD_RUNNING, CHILD_STOPPING, CHILD_GONE };

struct child {
    enum child_role role;
    uint32_t idx; /* among its role */
    enum child_state state;
    bool is_ours; /* begun by this process: can be waited for */
    bool fenced;  /* we killed it because the scheduler asked */
    int pid, pidfd;
    uint64_t start_ticks; /* field 22 of /proc/PID/stat */
    uint64_t args_hash;   /* of the settings it was begun with */
    struct u128 instance;
    int64_t started_ms, start_at_ms, kill_at_ms; /* monotonic */
    uint64_t pulse;                              /* the count last seen (base/pulse.h) */
    int64_t pulse_ms;                            /* when it last rose; 0: no pulse seen yet */
    int64_t backoff_ms;
    /* ends with an exit code of its own, in a row, each soon after its start */
    uint32_t failed_starts;
    uint32_t early_kills; /* in a row, each within a second of its start */
    bool gave_up;         /* it said itself that another start is of no use (base/exit_reason.h) */
    /* it can start: it was adopted, or once lived for ten seconds, or is a gateway that listened, or
     * a worker of a model of which all were ready */
    bool has_lived;
};

struct child_exit {
    enum child_role role;
    struct u128 instance;
    int pid;
    /* fault: its own doing (a fault's signal, or its mark), never a kill from outside */
    bool fenced, fault;
    bool known;       /* code or signal are known */
    int code, signal; /* signal 0: it exited with code */
    int64_t at_ms;
};

/* The only way to change a child's state. An illegal move is a bug: CHECK. A child that runs or stops
 * has a pid and a pidfd. */
void child_move(struct child *c, enum child_state to);

/* Starts exe with argv (NULL-terminated) behind the gate. input: what it reads on its standard
 * input, borrowed; NULL: nothing. Fills pid, pidfd, start_ticks, is_ours; returns the gate's
 * descriptor through *gate. */
MUST_CHECK int child_start(struct child *c, const char *exe, char *const *argv, const char *input,
                           int *gate, struct error *err);
/* Lets it run (true) or makes it exit (false). Closes the gate. */
void child_open_gate(int gate, bool go);
/* Takes hold of a running process; ERR_NOT_FOUND when it is gone, a zombie, or another process now
 * has its number. */
MUST_CHECK int child_adopt(struct child *c, int pid, uint64_t start_ticks);
/* Sends a signal through the pidfd, so never to a stranger; nothing happens when the child is
 * not running. */
void child_signal(const struct child *c, int sig);
/* After its pidfd became readable: how it ended. Releases the pidfd; consumes the mark in
 * run_dir. */
void child_ended(struct child *c, const char *run_dir, struct child_exit *out);
/* True, and removed, when a process left its mark in run_dir. */
bool child_take_mark(const char *run_dir, int pid);
/* One line for logs: "exit code 1", "signal 11 (a fault)". */
void child_exit_text(const struct child_exit *e, char out[64]);

/* When to start again after an end: at once the first time, then after 100 ms, doubling to 5 s;
 * anew after 10 s of life. What ended because somebody killed it from outside starts at once, for a
 * loop of crashes is what the wait is for; but what is killed within a second of its start more than
 * five times in a row (by the system that is out of memory) waits, too, up to a second. */
int64_t child_restart_delay(struct child *c, const struct child_exit *e, int64_t now_ms);
/* True when this child has never lived and gave up by itself, or ended by itself
 * CHILD_FAILED_STARTS times: settings, machine or model are wrong, and another try will not help.
 * Asked after child_restart_delay. */
enum { CHILD_FAILED_STARTS = 6 };
/* For a child that ended, after child_restart_delay. */
bool child_is_hopeless(const struct child *c);

#endif
