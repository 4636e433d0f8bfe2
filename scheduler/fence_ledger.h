/*
 * fence_ledger.h - fences that were asked for and not yet answered.
 *
 * The core asks once. A supervisor may be away just then, so the process keeps asking every
 * FENCE_AGAIN_MS until the end is told (Exited), the process says Hello again (it lives, and may
 * stay), or FENCE_GIVE_UP_MS have passed. Pure: time is an argument.
 */
#ifndef SCHEDULER_FENCE_LEDGER_H
#define SCHEDULER_FENCE_LEDGER_H

#include "base/base.h"
#include "base/vec.h"
#include "proto/messages.h"

enum { FENCE_AGAIN_MS = 1000, FENCE_GIVE_UP_MS = 120000 };

struct fence_entry {
    struct wire_fence fence;
    int64_t began_ms, due_ms;
};

struct fence_ledger {
    VEC(struct fence_entry) entries;
};

/* Frees the list; a zeroed ledger is fine, and empty. */
void fence_ledger_release(struct fence_ledger *l);
/* Asked for just now. */
void fence_ledger_add(struct fence_ledger *l, int64_t now_ms, const struct wire_fence *fence);
/* It has ended, or lives after all. */
void fence_ledger_confirm(struct fence_ledger *l, struct u128 instance);
/* The next fence that is due again, or NULL; each at most once a call round. Borrowed until the
 * next call. */
const struct wire_fence *fence_ledger_due(struct fence_ledger *l, int64_t now_ms);

#endif
