/*
 * event_ids.h - the events of a stream that may be resumed: each gets an id, and those that a client
 * has already are left out.
 *
 * What a stream says of one choice, and what it says of the answer as a whole (its first and last
 * events), depends on the tokens alone; in which order choices take turns does not. So an id counts
 * the events sent so far of the answer and of each choice: "id: 1-17", with three choices
 * "id: 3-17-20-9". The last id that a client saw (Last-Event-ID) says all that it has. With one
 * choice the whole stream is fixed, byte by byte, and a count of bytes says as much
 * (llama.cpp's GET /v1/stream/ID?from=N).
 *
 * Comments have no id and would spoil the count of bytes: such a stream has none.
 *
 * Threading: the event thread of its generation.
 */
#ifndef GATEWAY_ANSWERS_EVENT_IDS_H
#define GATEWAY_ANSWERS_EVENT_IDS_H

#include "base/buf.h"

enum { EVENT_IDS_MAX = 1 + 128, EVENT_ID_TEXT_MAX = EVENT_IDS_MAX * 11 };

/* What a client has of a stream: so many bytes, or so many events of each source; all zero: nothing. */
struct event_position {
    uint64_t bytes;
    uint32_t counts[EVENT_IDS_MAX]; /* of the answer, then of each choice */
    uint32_t count;                 /* of these; 0: by bytes */
};

struct event_ids {
    uint32_t *counts; /* owned; NULL: events have no ids */
    uint32_t count;
    uint64_t bytes;                /* written, or left out, so far */
    struct event_position *behind; /* owned: what is left out; NULL: nothing */
    struct buf scratch;
};

/* Reads an id ("3-17-20-9"). False: it is none. */
MUST_CHECK bool event_position_parse(struct bytes id, struct event_position *out);

/* Events get ids from now on; what *behind has is left out (NULL: nothing; copied). */
void event_ids_init(struct event_ids *ids, uint32_t choice_count,
                    const struct event_position *behind);
/* A zeroed one is fine. */
void event_ids_release(struct event_ids *ids);
static inline bool event_ids_are_on(const struct event_ids *ids) {
    return ids->counts != NULL;
}
/* Whether *position can be of a stream with so many choices. */
bool event_position_fits(const struct event_position *position, uint32_t choice_count);
/* out holds whole events from `from` on, of source 0 (the answer) or 1 + choice: they are numbered,
 * and those that the client has are taken out again. */
void event_ids_mark(struct event_ids *ids, uint32_t source, struct buf *out, size_t from);

#endif
