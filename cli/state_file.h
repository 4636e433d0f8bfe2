/*
 * state_file.h - the supervisor's memory beyond its own death: DIR/children, rewritten whole at
 * each change.
 *
 *     trireme-children 1
 *     boot 5a3c...             (numbers of processes mean nothing after the next boot)
 *     workers 3 2              (wanted now; what the command line said; a line for each model)
 *     worker 0 4711 998877 00..instance..ff 0123456789abcdef
 *     ^role  ^idx ^pid ^start ticks         ^hash of the settings it was begun with
 *
 * A line that does not read ends the reading with an error, and the supervisor begins anew: it is
 * written by rename, so a cut one means somebody else's hand.
 */
#ifndef CLI_STATE_FILE_H
#define CLI_STATE_FILE_H

#include "base/vec.h"
#include "cli/supervisor.h"

struct state_child {
    enum child_role role;
    uint32_t idx;
    int pid;
    uint64_t start_ticks, args_hash;
    struct u128 instance;
};

struct state_file {
    struct state_workers {
        uint32_t wanted, configured;
    } workers[SUPERVISOR_MODELS_MAX]; /* of each model */
    uint32_t model_count;             /* 0: nothing is known */
    VEC(struct state_child) children;
};

/* Frees the list. */
void state_file_release(struct state_file *s);
/* 0 also when there is no file, or one of an earlier boot: then it is empty. */
MUST_CHECK int state_file_read(struct state_file *s, const char *run_dir, struct error *err);
/* Replaces the file atomically; ERR_IO when it cannot be written. */
MUST_CHECK int state_file_write(const struct state_file *s, const char *run_dir, struct error *err);

#endif
