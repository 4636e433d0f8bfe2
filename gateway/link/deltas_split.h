/*
 * deltas_split.h - one Deltas message, cut into one mail for each event thread that owns some of
 * its requests.
 *
 * Two passes over the columns: count, then copy. One allocation a mail.
 */
#ifndef GATEWAY_LINK_DELTAS_SPLIT_H
#define GATEWAY_LINK_DELTAS_SPLIT_H

#include "gateway/link/mailbox.h"

/* Puts the mails into boxes[0, box_count); items of requests that belong to none are dropped. The
 * message was decoded: its columns agree. */
void deltas_split(const struct wire_deltas *deltas, struct epoch epoch, struct mailbox *boxes,
                  int box_count);

#endif
