/*
 * progress.h - one line that shows how far a long command is, on standard error and only where that
 * is a terminal; a pipe or a file sees nothing of it.
 *
 * Threading: one thread.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "base/base.h"

struct progress {
    const char *what; /* borrowed: "loading demo/model" */
    bool on_terminal;
    int64_t begin_ms, shown_ms;
};

/* Begins the clock and shows the line. */
void progress_begin(struct progress *p, const char *what);
/* Shows how much of total is done, at most ten times a second; total 0: only the time. */
void progress_show(struct progress *p, uint64_t done, uint64_t total);
/* Wipes the line. Returns the milliseconds since it was begun. */
int64_t progress_end(struct progress *p);

#endif
