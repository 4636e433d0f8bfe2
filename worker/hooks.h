/*
 * hooks.h - where a test program reaches into a worker, to make it fail at a chosen moment.
 *
 * The product sets none of them, and has no option or token that would. tests/hooks has the program
 * that does.
 *
 * Threading: set before any thread starts; called by the compute thread.
 */
#ifndef WORKER_HOOKS_H
#define WORKER_HOOKS_H

#include "proto/messages.h"

struct worker_hooks {
    /* The model is loaded, which took load_ms; nobody has been told. NULL: nothing. */
    void (*loaded)(int64_t load_ms);
    /* This plan is unpacked and will be computed next. NULL: nothing. */
    void (*plan)(const struct wire_plan *plan);
};
extern struct worker_hooks worker_hooks;

#endif
