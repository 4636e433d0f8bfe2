/*
 * lease.h - the right to lead, which one process has at a time, from an engine that grants it.
 *
 * A lease is held until it is given back, its holder dies, or the engine has not heard from the
 * holder for the lease's time to live. The holder stops a tenth of that time before the engine would
 * give the lease to another. A process may be paused at any point, though, so time alone cannot order
 * what old and new holders say. Therefore each grant has a number above those of all grants before
 * it, and the holder's messages carry that number (the scheduler's epoch).
 *
 * Invariants:
 *   (1) Two grants of one name never have the same number, and a later one has a higher one.
 *   (2) lease_is_held is false from the holder's deadline on, whatever the keeper's thread does: it
 *       compares with a clock that goes on while the machine sleeps. The time of day decides nothing.
 *   (3) What is stored and cannot be a grant's number (no digits, or further above `least` than
 *       LEASE_AHEAD_MAX) counts as none and is written over. So a wrong number cannot drive the
 *       numbers to their end.
 *   (4) A lease that was lost is not taken again by the same struct: its holder ends.
 *
 * Threading: lease_is_held from any thread; all else from the one that made it.
 */
#ifndef LEASE_LEASE_H
#define LEASE_LEASE_H

#include "base/error.h"

struct lease_config {
    /* "file:PATH", "etcd:URL[,URL...]" with the cluster's client addresses, or "kubernetes:[FOLDER]" with
     * the folder of a service account; none: the pod's own */
    const char *engine;
    const char *
        name; /* of what is led; etcd: the key; Kubernetes: the Lease, with '-' for what it may not have */
    const char *holder; /* for people who look at it */
    /* etcd, each may be NULL: who logs in, and the file of the password's one line; files in PEM: whose
     * certificates are believed (NULL: the system's), and our own with its key */
    const char *user, *password_file, *authority, *certificate, *key;
    int64_t ttl_ms; /* etcd, Kubernetes: how long it outlives a holder that says nothing; >= 1000 */
};

/* As EPOCH_AHEAD_MAX_MS: 139 years of milliseconds. */
#define LEASE_AHEAD_MAX (UINT64_C(1) << 42)

struct lease;

/* The folder of the service account that a Kubernetes lease uses, so that it is left readable; NULL: another
 * kind of lease. Borrowed from `engine`, or static. */
const char *lease_account(const char *engine);
/* Whether `engine` reads. */
MUST_CHECK int lease_check(const char *engine, struct error *err);
/* Keeps copies. ERR_INVALID; ERR_UNSUPPORTED: this build, or this machine, has no libcurl. */
MUST_CHECK int lease_new(struct lease **out, const struct lease_config *config, struct error *err);
/* Waits until it is granted: 0, and *number is the grant's, at least `least`. An engine that does not answer
 * is asked again and again. ERR_CLOSED: stop_fd (borrowed) became readable. */
MUST_CHECK int lease_take(struct lease *lease, uint64_t least, int stop_fd, uint64_t *number,
                          struct error *err);
/* Between lease_take and the deadline, which the keeper puts off. */
bool lease_is_held(const struct lease *lease);
/* Gives it back if it is held; another may take it at once. NULL in *lease is fine. */
void lease_free(struct lease **lease);

#endif
