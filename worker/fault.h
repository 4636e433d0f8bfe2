/*
 * fault.h - leaves a mark when this process dies of its own doing.
 *
 * SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write the file fault-PID into the run folder, with
 * calls a signal handler may make, and die of the signal as before. A supervisor that did not start
 * this process cannot read its exit; the mark tells it that the end counts as a fault.
 */
#ifndef WORKER_FAULT_H
#define WORKER_FAULT_H

/* run_dir NULL or empty: nothing is left, nothing is caught. Once, before threads start. */
void fault_mark_install(const char *run_dir);

#endif
