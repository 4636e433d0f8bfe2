/*
 * stop.h - stop strings in a stream of text.
 *
 * Text that may be the beginning of a stop string is held back until it is decided. The match is
 * the one that ends first in the text; of several that end at the same byte the longest. So the
 * result does not depend on how the text was cut into pieces.
 *
 * Invariant: what was put out + what is held back == what was pushed, until a match. The held part
 * is shorter than the longest stop string.
 *
 * Threading: one thread at a time per matcher.
 */
#ifndef TEXT_STOP_H
#define TEXT_STOP_H

#include "base/buf.h"
#include "base/error.h"

enum { STOP_STRINGS_MAX = 64, STOP_BYTES_MAX = 4096 };

struct stop_string;
struct stop {
    struct stop_string *strings; /* owned */
    size_t string_count;
    struct buf held;
    size_t matched_idx; /* of the match, when matched */
    bool include;       /* keep the stop string in the output */
    bool matched;
};

/* Copies the strings. Empty strings are ERR_INVALID; more than STOP_STRINGS_MAX, or one longer than
 * STOP_BYTES_MAX, ERR_LIMIT. count 0 is fine: then everything passes through at once. On error
 * nothing is owned. */
MUST_CHECK int stop_init(struct stop *s, const struct bytes *strings, size_t count, bool include,
                         struct error *err);
/* Gives back what is held; s may be initialised again. */
void stop_release(struct stop *s);
/* Takes the next piece of text; appends to out what is decided. True when a stop string is complete
 * (also on later calls, which append nothing). */
bool stop_push(struct stop *s, struct bytes text, struct buf *out);
/* The stop string that is complete; empty: none is. Borrowed from s. */
struct bytes stop_match(const struct stop *s);
/* The stream has ended otherwise: appends what was held back. */
void stop_flush(struct stop *s, struct buf *out);

#endif
