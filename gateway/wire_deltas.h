/*
 * wire_deltas.h - one Deltas message, cut into one mail for each event thread that owns some of its requests.
 *
 * Two passes over the columns: count, then copy. One allocation a mail.
 */
#ifndef GATEWAY_WIRE_DELTAS_H
#define GATEWAY_WIRE_DELTAS_H

#include "gateway/mailbox.h"

enum { WIRE_SHARDS_MAX = 64 };

/* Puts the mails into boxes[0, box_count); items of requests that belong to none are dropped. The message was decoded:
 * its columns agree. */
void wire_split_deltas(const struct wire_deltas *deltas, struct epoch epoch, struct mailbox *boxes, int box_count);

#endif
