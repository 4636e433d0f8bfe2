/*
 * exit_reason.h - how a process tells the one that started it that another try is of no use.
 *
 * A child whose settings, model or machine are wrong ends with EXIT_HOPELESS. Where a supervisor
 * started it (TRIREME_SUPERVISED is set), it leaves one line for it, the file reason-PID in the run
 * folder, and the supervisor ends with that line, so a person reads it once. Every other failure (an address in use, memory
 * that is short, a peer that is gone) may pass by itself and ends with EXIT_FAILED.
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

/* Reports a failed start, to call once and last. An error that cannot pass by itself (ERR_INVALID,
 * ERR_UNSUPPORTED, ERR_NOT_FOUND) is left in run_dir and gives EXIT_HOPELESS; all others give
 * EXIT_FAILED. What was not left for a supervisor goes to stderr as "trireme NAME: text". run_dir
 * may be NULL. */
MUST_CHECK int exit_reason_leave(const char *run_dir, const char *name, const struct error *err);

/* From here on the processes that this one starts are supervised. */
void exit_reason_supervise(void);
/* The line that process pid left in run_dir; the file is removed. False when there is none. */
bool exit_reason_take(const char *run_dir, int pid, char out[ERROR_TEXT_MAX]);

#endif
