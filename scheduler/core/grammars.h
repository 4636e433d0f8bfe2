/*
 * grammars.h - which constraints the replicas have compiled, as far as the scheduler knows.
 *
 * A sequence with a grammar is placed only where its grammar is ready, so no step waits for a
 * compilation: the replica is asked (Prepare, to the rank that samples) when a sequence could run
 * there, and the sequence is parked until an answer comes. What is ready stays so at the worker for
 * GRAMMAR_HOLD_MS (worker/grammar_store.h); here it counts for half of that, and is asked for again
 * before, while it is used.
 *
 * A replica compiles one grammar after another, in the order in which it was asked. So it is asked
 * for few at a time, for fewer still by one tenant, and what else is wanted stays here, where the order
 * is that of the queue: a client with many grammars that take long does not stand in front of one with
 * a single one.
 *
 * Invariants:
 *   (1) What a replica is known to have ends with its registration.
 *   (2) A sequence that is parked for its grammar has an answer coming from some replica, or one was
 *       turned away there (grammar_turned_away) while as many answers as may be were to come.
 *   (3) grammars_asked is the number of entries that are asked for, at most GRAMMARS_ASKED_MAX, and of
 *       one tenant at most GRAMMARS_TENANT_MAX.
 */
#ifndef SCHEDULER_CORE_GRAMMARS_H
#define SCHEDULER_CORE_GRAMMARS_H

#include "base/base.h"

struct sched;
struct replica;
struct request;

enum {
    GRAMMARS_MAX = 1024,       /* known of a replica */
    GRAMMARS_ASKED_MAX = 32,   /* of them, asked of it at a time */
    GRAMMARS_TENANT_MAX = 4,   /* of those, for the sake of one tenant */
    GRAMMAR_VALID_MS = 5000,   /* after Ready */
    GRAMMAR_REFRESH_MS = 2000, /* after Ready, when it is used */
};

struct replica_grammar {
    struct u128 hash;
    struct u128 tenant; /* for whom it was asked for last */
    int64_t ready_at;   /* of the last Ready */
    bool ready, asked;
};

/* Whether it may run there as far as its grammar is concerned; asks the replica where not. */
bool grammar_is_ready(struct sched *s, struct replica *r, const struct request *request);
/* No replica has it ready, and one was asked or will be: its sequences are to be parked. */
bool grammar_is_awaited(struct sched *s, const struct request *request);
/* One more may be asked of r, which has a free slot: queues the first in order of the sequences that
 * were parked without being asked for. False: there is none, or nothing may be asked. */
bool grammars_wake_next(struct sched *s, struct replica *r);
/* The replica registers anew. */
void grammars_forget(struct replica *r);

#endif
