/*
 * running.h - which servers run on this machine.
 *
 * The children of `trireme serve` go by the name "trireme(RUN_DIR)", which every user may read: so a
 * command finds the run folder that it was not told. Looked for are this user's servers, for root
 * everybody's, in folders that can be reached from here (not those of another container).
 *
 * Threading: none of its own; any thread.
 */
#ifndef CLI_RUNNING_H
#define CLI_RUNNING_H

#include "base/buf.h"
#include "base/error.h"

/* Appends the run folders, each once, a line each. */
void running_list(struct buf *out);
/* The one of `folders` (as running_list gives them) that a command means which was told none: the only
 * one, else that of the default port. Without any that is the default port's, too, where it will not
 * be answered. Returns owned; NULL: there are several, which the error names. */
char *running_choose(const char *folders, struct error *err);

#endif
