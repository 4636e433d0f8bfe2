/*
 * sequence_state.h - where a sequence is, and the only calls that move it.
 *
 *     NEW ─► HELD ─► QUEUED ─► PLACED ─► RUNNING ─► DONE
 *                     ▲ │                   │
 *                     │ ▼                   ▼
 *                    PARKED ◄───────── PREEMPTED, RESTARTING, ENDING (rows in flight)
 *
 * A sequence leaves its slot in two moves when rows of it are in flight: first to one of the three
 * leaving states, which gets no new rows; when its last row has retired its blocks and its slot
 * return. Without rows in flight it leaves at once. A move that is not in the table of
 * sequence_state.c is a bug, and CHECKed.
 *
 * Invariants (sched_check asserts them):
 *   (1) What a state is on follows from it: HELD counts in its request's held_count, QUEUED is in
 *       its model's queue, PARKED in sched.parked, PLACED to ENDING in a slot of its replica.
 *   (2) HELD, QUEUED and PARKED count in waiting_new of sched and of its model, or in waiting_resumed if it
 *       ran before.
 *   (3) PREEMPTED, RESTARTING and ENDING have rows in flight, and count in leaving_count.
 *   (4) ENDING and DONE have a finish, the others have none and count in their request's
 *       open_count.
 */
#ifndef SCHEDULER_CORE_SEQUENCE_STATE_H
#define SCHEDULER_CORE_SEQUENCE_STATE_H

#include "scheduler/core/sequence.h"

/* It may not run, but waits for its turn, or for what keeps it from having one. */
static inline bool seq_is_waiting(const struct sequence *q) {
    return q->state >= SEQ_HELD && q->state <= SEQ_PARKED;
}
static inline bool seq_in_slot(const struct sequence *q) {
    return q->state >= SEQ_PLACED && q->state <= SEQ_ENDING;
}
/* In a slot, and gets no new rows. */
static inline bool seq_is_leaving(const struct sequence *q) {
    return q->state >= SEQ_PREEMPTED && q->state <= SEQ_ENDING;
}
static inline bool seq_is_over(const struct sequence *q) {
    return q->state >= SEQ_ENDING;
}
/* It ran before, here or under another scheduler. */
bool seq_is_resumed(const struct sequence *q);
/* May it run as far as its request and its gateway are concerned? */
bool seq_is_runnable(const struct sequence *q);

/* Of two of alike claim to their slots: the less important one gives way first, then the later. */
bool seq_gives_way_before(const struct sequence *a, const struct sequence *b);

/* What is new waits behind its sibling, which computes the prompt they share. */
void seq_hold(struct sched *s, struct sequence *q);
/* What is new or held goes where it belongs now: into its model's queue, or parked. */
void seq_enqueue(struct sched *s, struct sequence *q);
/* What is queued or parked goes where it belongs now; anything else stays where it is. */
void seq_requeue(struct sched *s, struct sequence *q);
/* What is queued can run nowhere now. */
void seq_park(struct sched *s, struct sequence *q);
/* Parked ones that may run are queued. */
void parked_review(struct sched *s);
/* The request's held sequences are enqueued. */
void siblings_release(struct sched *s, struct request *request);

/* What is queued or parked goes into a free slot of r. Of use to seq_place alone. */
void seq_enter_slot(struct sched *s, struct sequence *q, struct replica *r);
/* What is placed has its first row in a plan: the worker is told of it. */
void seq_admit(struct sched *s, struct sequence *q);
/* It has computed again what it had when it was placed: its replica's resume credit is free. */
void seq_resumed(struct sequence *q);
/* What is in a slot leaves it and is enqueued; tokens of rows in flight still count. If it is
 * leaving already it leaves as it was going to. */
void seq_preempt(struct sched *s, struct sequence *q);
/* Its output is what its gateway holds: copied, and computed from there, wherever it was; tokens of
 * rows in flight do not count any more. */
void seq_restart(struct sched *s, struct sequence *q, struct tokens output, float sampler_state);
/* Ends it, wherever it is; nothing happens if it is over. quiet: its gateway is told nothing
 * more. */
void seq_finish(struct sched *s, struct sequence *q, enum wire_finish finish, bool quiet);
/* What is new ended under another scheduler: it is done, quietly. Again, with a better finish, once
 * its request is validated. */
void seq_finished_before(struct sched *s, struct sequence *q, enum wire_finish finish);
/* A row of it has retired: if it is leaving and this was the last, it leaves. */
void seq_row_retired(struct sched *s, struct sequence *q);

/* For tests: the states that may follow this one, a bit each; and its name. */
unsigned seq_state_moves(enum seq_state state);
/* As the enum has it, for messages of failed checks. */
const char *seq_state_name(enum seq_state state);

#endif
