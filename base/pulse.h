/*
 * pulse.h - how a process shows the supervisor of its machine that it still runs: a counter in a
 * small file.
 *
 * The file pulse-PID in the run folder holds a count of eight bytes that rises at most once a
 * second while the loop that matters turns. Who watches compares counts and uses its own clock, so
 * a pause of the watcher or of the whole machine proves nothing by itself. A file and no pipe,
 * because a supervisor may find its children and not have started them.
 *
 * Threading: a struct pulse belongs to one thread.
 */
#ifndef BASE_PULSE_H
#define BASE_PULSE_H

#include "base/base.h"

struct pulse {
    int fd; /* -1: nobody asked for a pulse */
    uint64_t count;
    int64_t last_ms;
};

/* run_dir NULL or empty, or a folder that cannot be written: no pulse. Writes the first count. */
void pulse_open(struct pulse *p, const char *run_dir, int64_t now_ms);
/* To be called at least once a second; now_ms: monotonic. */
void pulse_beat(struct pulse *p, int64_t now_ms);
void pulse_close(struct pulse *p); /* the file stays: pulse_remove */

/* False when that process shows none. */
bool pulse_read(const char *run_dir, int pid, uint64_t *count);
/* Removes that process's file, if there is one. */
void pulse_remove(const char *run_dir, int pid);

#endif
