/*
 * control.h - the control thread: the worker's end of the wire.
 *
 * Registers with the scheduler, first as loading, then with what the executor is and the blocks it
 * holds; vouches for the process by heartbeats that carry the compute thread's progress; passes
 * plans on and results back; serves chunks of the bundle.
 *
 * A registration's life: Hello(loading) while the compute thread loads or forgets the last
 * registration's slots; then Hello(idle) with held blocks; then plans. When it is lost (scheduler
 * gone, new epoch, plan refused), JOB_RESET goes to the compute thread and it begins again. Numbers
 * are the link's incarnations.
 *
 * Threading: the caller's thread; returns when the worker is to end.
 */
#ifndef WORKER_CONTROL_H
#define WORKER_CONTROL_H

#include "worker/compute.h"

struct control_config {
    const struct worker_settings *settings;
    struct u128 instance, replica; /* replica: zero for a worker alone */
    struct handoff *handoff;
    struct compute *compute;
    struct worker_progress *progress;
    /* readable when the process shall drain and end (signalfd); read by the control thread */
    int stop_fd;
    _Atomic bool *ready; /* loaded and registered: for the admin port */
};

/* 0: drained and asked to end. Negative: loading failed (err), the link could not be made. */
MUST_CHECK int control_run(const struct control_config *config, struct error *err);

#endif
