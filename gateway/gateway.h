/*
 * gateway.h - the gateway process as a whole: starting it, draining it, ending it.
 *
 * Floors, from the top down:
 *   server.h          routes: what a client may ask for
 *   turn.h, health.h  what an event thread does in a turn
 *   generation.h      one generation request
 *   answer.h          the way out: tokens to events and objects
 *   submission.h      one prompt of it, as the scheduler knows it
 *   event_thread.h    what the generations of one thread share
 *   outbox.h          what they tell the scheduler
 *   scheduler_link.h  the control thread; mailbox.h: what it tells the event threads
 *   genreq.h, prepare.h, delivery.h, choice.h, response.h: pure parts
 */
#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include "base/error.h"
#include "gateway/gateway_state.h"

/* Starts everything but signals. Copies *settings, borrows its texts. 0, with *out owned, or a code
 * with *err filled and *out NULL. */
MUST_CHECK int gateway_new(struct gateway **out, const struct gateway_settings *settings,
                           struct error *err);
/* The port that it listens on. */
uint16_t gateway_port(const struct gateway *gw);
/* Reads the certificate and the file of keys again when they have changed, or when asked to. What
 * there is none of is no matter. From one thread. */
void gateway_renew(struct gateway *gw, bool asked);
/* Takes nothing new, waits until running requests have ended or settings.drain_ms passed. True when
 * all ended. */
bool gateway_drain(struct gateway *gw);
/* Cuts what still runs. NULL in *gw is fine. */
void gateway_free(struct gateway **gw);

#endif
