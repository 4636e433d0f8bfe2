/*
 * turn.h - what an event thread does in one turn: it takes its mail, tries what was opened, and on
 * a tick looks at every generation's time.
 *
 * Callbacks of HTTP only read, list and arm (generation_open); what follows from it happens here.
 *
 * Threading: each call on the event thread that it is given.
 */
#ifndef GATEWAY_GENERATION_TURN_H
#define GATEWAY_GENERATION_TURN_H

#include "gateway/generation/event_thread.h"

/* Takes what waits in the mailbox. */
void turn_collect(struct event_thread *thread);
/* Tries the generation that was opened in this turn, if any. */
void turn_start_opened(struct event_thread *thread);
/* Every EVENT_THREAD_TICK_MS: begins a round over the generations, which goes on in turns of its own. */
void turn_tick(struct event_thread *thread);
/* Has a turn in which a long run goes on, where one waits for it. */
void turn_ask_for_piece(struct event_thread *thread);
/* Whether something of this thread waits for the next tick. */
bool turn_waits(const struct event_thread *thread);
/* After the thread's HTTP has ended: ends the generations that are left (probes). */
void turn_end(struct event_thread *thread);

#endif
