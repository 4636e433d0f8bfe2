/*
 * sandbox.h - what a process gives up once it has started. An attacker who gets to run code in it
 * cannot start a program or another process, open a kind of socket that the process does not use,
 * signal or inspect other processes, or use the kernel's rarely used system calls.
 *
 * This is done with no_new_privs and a seccomp filter over all threads, those that already run
 * included. A refused call fails with EPERM (with ENOSYS where libraries then try another way), so no
 * process ends because of it. A table in sandbox.c lists what is refused. Everything else is allowed,
 * since GPU drivers, libc and ZeroMQ use calls that nobody has listed.
 *
 * Files are a second step, by Landlock, for processes that need few of them (sandbox_files.c). Such a
 * process may read what the system's libraries read and what its options name, and may write only to
 * its run folder and its cache. A worker reads weights from anywhere and a driver's devices, so it
 * keeps access to all files.
 */
#ifndef BASE_SANDBOX_H
#define BASE_SANDBOX_H

#include "base/error.h"

/* What the process goes on to need. Who listens from the start, and opens no socket later, needs
 * nothing. */
enum sandbox_need {
    SANDBOX_UNIX = 1, /* new sockets of the file system: links by ipc:// are made again when lost */
    SANDBOX_INET = 2, /* of the network: links by tcp:// */
    SANDBOX_LISTEN = 4, /* bind and listen */
    SANDBOX_SOCKETS = 8 /* all of that and of every kind: libraries that explore the network */
};

enum sandbox_use {
    SANDBOX_READS_FILE,  /* a file, and what lies in its folder: it may be replaced by another */
    SANDBOX_WRITES_FILE, /* the same, written; the folder is made when it is not there */
    SANDBOX_WRITES_BELOW /* a folder, made when it is not there, and what is below it */
};
struct sandbox_place {
    const char *path; /* NULL or empty: none */
    enum sandbox_use use;
};

/* Which files are left to this thread, and to those that it makes from now on: these, and what
 * libraries read of the system. Others fail with EACCES; so do places that are not there yet. 0; ERR_UNSUPPORTED: this kernel has no Landlock, and nothing was changed; else refused. */
MUST_CHECK int sandbox_enter_files(const struct sandbox_place *places, size_t count,
                                   struct error *err);

/* For the life of the process. 0; ERR_UNSUPPORTED: this kernel (or emulator, or container) has no
 * seccomp, and nothing was changed but no_new_privs; ERR_IO: refused for another reason. */
MUST_CHECK int sandbox_enter(unsigned needs, struct error *err);
/* sandbox_enter, unless `on` is false or this is a sanitizer's build; one line in the log where it
 * cannot be had. */
void sandbox_start(bool on, unsigned needs);
/* The same for sandbox_enter_files: before a process makes its threads. Where there is no Landlock
 * that is said at level debug, since many systems have none. */
void sandbox_start_files(bool on, const struct sandbox_place *places, size_t count);
/* The needs of the end of a link: SANDBOX_UNIX of ipc://, SANDBOX_INET of tcp://; of several addresses all
 * of theirs. */
unsigned sandbox_need_of(const char *endpoint);

#endif
