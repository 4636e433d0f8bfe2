/*
 * presentation.h - what a gateway must know of a request, beside its tokens, to write its stream as
 * the gateway before would have: kept by the scheduler, which does not look at it.
 *
 * The form is JSON, so that a gateway of another version reads what it knows.
 */
#ifndef GATEWAY_GENERATION_PRESENTATION_H
#define GATEWAY_GENERATION_PRESENTATION_H

#include "gateway/fields/genreq.h"
#include "gateway/prompts/prepare.h"

struct presentation {
    struct u128 number; /* of the answer's id */
    int64_t created_s;
    bool in_reasoning, in_call;           /* how the prompt ended */
    struct bytes reasoning, calls, tools; /* names of formats, "none" or none; the tools as JSON */
};

/* Appends what g, which becomes the answer `number`, asks of its stream. */
void presentation_write(const struct genreq *g, const struct parse_config *parse,
                        struct u128 number, int64_t created_s, struct buf *out);
/* Reads it: fills *out and those members of *g (which is initialised here) that an answer reads;
 * texts are in g's arena. 0, or ERR_INVALID; g must be released either way. */
MUST_CHECK int presentation_read(struct bytes text, struct genreq *g, struct presentation *out,
                                 struct error *err);
/* What was prepared for the request that the scheduler has: its one prompt, and how it is sampled.
 * Copies; *out is released by the caller. */
void presentation_prepared(const struct wire_submit *s, struct prepared *out);
/* How the answer is read, as the gateway before found out from the prompt, into p. ERR_INVALID: its tools
 * make no sense here. */
MUST_CHECK int presentation_parse(const struct presentation *shown, struct prepared *p,
                                  struct error *err);

#endif
