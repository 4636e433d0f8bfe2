/*
 * step_share.h - how much of a step each tenant may have.
 *
 * Rows of all tenants are computed in one step, and nobody has the next token before the whole of it
 * is done. So what one tenant puts into steps is what another waits for. With tenants of weights w in
 * a step, none is slowed down by the others to more than (sum of w) / w of what a step of its own
 * rows alone would take: a step is no longer than that (step_cost.h), and what is left of it beside
 * those that want little is shared by those that want more, by their weights. Where more rows cost
 * little, as on most accelerators, this bounds nothing. A tenant that is alone is not bounded, but
 * for a moment (share_linger_ms) after another was there: who asks for one thing after the other
 * would find long steps under way each time.
 *
 * A part is used up to the last row or piece of a prompt that begins in it, and the oldest prompt has
 * a piece in each step (plan.c); rows for which there is no room have theirs in the steps after.
 * Steps of a pipeline, which are parts of a batch, are not shared out.
 */
#ifndef SCHEDULER_CORE_STEP_SHARE_H
#define SCHEDULER_CORE_STEP_SHARE_H

#include "scheduler/core/replica.h"

/* May it have a row in a step of this replica: something is left to compute that is not in flight, or
 * follows from what is. */
bool step_may_run(const struct replica *r, const struct sequence *q);

/* How long the replica's next step may be is shared out: each tenant's step_ms. false: there is no
 * bound, and step_ms means nothing. O(1) for who is alone; else O(running), and O(sharers) again for
 * those that want little. */
bool step_share(struct sched *s, struct replica *r);

#endif
