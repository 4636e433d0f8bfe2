/*
 * exit_reason.h - how a process tells the one that started it that another try is of no use.
 *
 * A child that cannot start leaves one line for the supervisor that started it (TRIREME_SUPERVISED is
 * set), the file reason-PID in the run folder. Where its settings, model or machine are wrong it ends
 * with EXIT_HOPELESS, and the supervisor ends with that line, so a person reads it once. Every other
 * failure (an address in use, memory that is short, a peer that is gone) may pass by itself and ends
 * with EXIT_FAILED: it is tried again, and the line is the reason that the supervisor logs.
 *
 * Threading: any thread.
 */
#ifndef BASE_EXIT_REASON_H
#define BASE_EXIT_REASON_H

#include "base/error.h"

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_MISUSED = 2,   /* options that cannot be read */
    EXIT_HOPELESS = 78, /* EX_CONFIG of sysexits.h */
};

/* True for the exit codes of a start that fails the same way each time. */
static inline bool exit_is_hopeless(int code) {
    return code == EXIT_MISUSED || code == EXIT_HOPELESS;
}

/* Reports a failed start, to call once and last: EXIT_HOPELESS for an error that cannot pass by
 * itself (ERR_INVALID, ERR_UNSUPPORTED, ERR_NOT_FOUND), EXIT_FAILED for all others. The text is left
 * in run_dir where somebody supervises, else it goes to stderr as "trireme NAME: text". run_dir may
 * be NULL. */
MUST_CHECK int exit_reason_leave(const char *run_dir, const char *name, const struct error *err);

/* From here on the processes that this one starts are supervised. */
void exit_reason_supervise(void);
/* The line that process pid left in run_dir; the file is removed. False when there is none. */
bool exit_reason_take(const char *run_dir, int pid, char out[ERROR_TEXT_MAX]);

#endif
