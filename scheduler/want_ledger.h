/*
 * want_ledger.h - wishes of gateways that a model be loaded, unloaded or renewed, which no supervisor
 * was there to hear.
 *
 * A gateway has answered its client by then, and a supervisor may register a moment later: after a
 * start, or after a restart of the scheduler. A wish is kept for WANT_KEEP_MS; said again, it counts
 * from then.
 * Pure: time is an argument.
 */
#ifndef SCHEDULER_WANT_LEDGER_H
#define SCHEDULER_WANT_LEDGER_H

#include "base/base.h"
#include "base/vec.h"
#include "proto/messages.h"

enum { WANT_KEEP_MS = 60000, WANTS_MAX = 256 };

struct want_entry {
    char *model; /* owned */
    enum wire_wish wish;
    int64_t said_ms;
};

struct want_ledger {
    VEC(struct want_entry) entries; /* the one said longest ago first */
};

/* Frees the list; a zeroed ledger is fine, and empty. */
void want_ledger_release(struct want_ledger *l);
/* Copies the name. Past WANTS_MAX the oldest is forgotten. */
void want_ledger_add(struct want_ledger *l, int64_t now_ms, const struct wire_want *want);
/* Forgets all, after *each was called for every one that is not too old, the oldest first. */
void want_ledger_empty(struct want_ledger *l, int64_t now_ms,
                       void (*each)(void *ctx, const struct wire_want *want), void *ctx);

#endif
