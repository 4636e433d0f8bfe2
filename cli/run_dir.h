/*
 * run_dir.h - the folder where one running system keeps its sockets, its lock and its children's
 * numbers.
 *
 * Mode 0700 and ours, or it is refused: whoever may enter it may speak to the processes. Short,
 * because a socket's name has at most 107 bytes. The lock is held as long as the supervisor lives
 * (flock on DIR/lock).
 */
#ifndef CLI_RUN_DIR_H
#define CLI_RUN_DIR_H

#include "base/base.h"
#include "base/error.h"

enum { RUN_DIR_MAX = 64, SOCKET_NAME_MAX = 107 };

/* $XDG_RUNTIME_DIR/trireme/PORT, else /tmp/trireme-UID/PORT. Returns owned. */
char *run_dir_default(int64_t port);
/* Makes and checks it, and each folder on the way: nobody else but root may be able to put another in
 * its place. Its last part is no link. */
MUST_CHECK int run_dir_make(const char *path, struct error *err);
/* Waits up to wait_ms for an earlier holder to die. Fills *fd. */
MUST_CHECK int run_dir_lock(const char *path, int64_t wait_ms, int *fd, struct error *err);

#endif
