/*
 * gather_bodies.h - a body with lists where a request has one value, as a body for each request.
 *
 * What is no list stands in each of them. Nothing of a value is looked at.
 *
 * Threading: pure.
 */
#ifndef GATEWAY_ANSWERS_GATHER_BODIES_H
#define GATEWAY_ANSWERS_GATHER_BODIES_H

#include "base/buf.h"
#include "gateway/fields/genreq.h"

enum {
    GATHER_BODY_MAX = 4 << 20,   /* bytes of the body that is cut, */
    GATHER_BODIES_MAX = 16 << 20 /* and of what comes out */
};

/* Whether a body, which may be malformed, has such a list: SGLang's /generate. */
bool gather_is_wanted(struct bytes body);
/* bodies: zeroed, GENREQ_PROMPTS_MAX of them; *count are filled, owned by the caller also after a
 * failure. 0, or -1 with *err filled. */
MUST_CHECK int gather_cut(enum genreq_dialect dialect, struct bytes body, struct buf *bodies,
                          uint32_t *count, struct api_error *err);

#endif
