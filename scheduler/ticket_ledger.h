/*
 * ticket_ledger.h - wishes of gateways whose client waits for the outcome, and which supervisors were asked.
 *
 * Several supervisors may be asked, and one is enough to do it: a refusal counts when it is the last one's. A
 * supervisor that has gone never tells an outcome. When the last of those that were asked has gone, the gateway is
 * told so instead of letting its client wait.
 *
 * Pure, and bounded: past TICKETS_MAX the oldest is forgotten, whose client waits for its gateway's own bound.
 */
#ifndef SCHEDULER_TICKET_LEDGER_H
#define SCHEDULER_TICKET_LEDGER_H

#include "base/base.h"
#include "base/vec.h"

enum { TICKETS_MAX = 256 };

struct ticket_entry {
    struct u128 ticket, supervisor;
};

struct ticket_ledger {
    VEC(struct ticket_entry) entries; /* the one asked longest ago first */
};

/* Frees the list; a zeroed ledger is fine, and empty. */
void ticket_ledger_release(struct ticket_ledger *l);
/* This supervisor was asked. */
void ticket_ledger_add(struct ticket_ledger *l, struct u128 ticket, struct u128 supervisor);
/* This supervisor has not done it. true: it was the last that was asked, or nobody was. */
bool ticket_ledger_refused(struct ticket_ledger *l, struct u128 ticket, struct u128 supervisor);
/* The outcome is known: nobody waits any more. */
void ticket_ledger_done(struct ticket_ledger *l, struct u128 ticket);
/* This supervisor has gone. *each is called for every ticket that nobody is left to answer. */
void ticket_ledger_gone(struct ticket_ledger *l, struct u128 supervisor,
                        void (*each)(void *ctx, struct u128 ticket), void *ctx);

#endif
