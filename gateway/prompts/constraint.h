/*
 * constraint.h - what a request's answer must look like, as one structure (grammar/structure.h): its
 * schema, pattern, grammar or choice, calls of its tools where tool_choice wants them, and free
 * reasoning in front where the model thinks.
 *
 * It is compiled here once, so that what cannot be held is refused with 400 in the client's terms;
 * the worker compiles the same text for its vocabulary.
 *
 * Threading: pure, but for the cache, which has a lock.
 */
#ifndef GATEWAY_PROMPTS_CONSTRAINT_H
#define GATEWAY_PROMPTS_CONSTRAINT_H

#include "gateway/fields/genreq.h"
#include "text/parse/parse.h"
#include "text/tokenizer/tokenizer.h"

/* Structures that were compiled lately, by hash. */
struct constraint_cache;
/* Empty. Returns owned. */
struct constraint_cache *constraint_cache_new(void);
/* Frees what it keeps and clears the pointer. */
void constraint_cache_free(struct constraint_cache **cache);

struct constraint_model {
    const struct tokenizer *tokenizer;
    struct constraint_cache *cache;
    const struct reasoning_format *reasoning; /* the model's; NULL: none */
    const struct call_format *calls;          /* NULL: none */
    bool in_reasoning, in_call;               /* reasoning_is_open, call_is_open */
};

/* Whether the request has one at all. */
bool constraint_is_wanted(const struct genreq *g);
/* Appends the structure to out; nothing when none is wanted. 0, or -1 with *err filled. */
MUST_CHECK int constraint_make(const struct genreq *g, const struct constraint_model *model,
                               struct buf *out, struct api_error *err);

#endif
