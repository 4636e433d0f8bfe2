/*
 * prepare_pool.h - long bodies are read, long prompts prepared and patterns compiled by the threads of
 * the work pool, so that no event thread stands still meanwhile.
 *
 * A job owns all it needs (its spans of the body are copied), so the request may end meanwhile: the
 * job is then done for nobody.
 *
 * Invariant: `generation` is read and written by the event thread alone; a thread of the pool touches
 * the other members, from prepare_pool_push until the job comes back as mail.
 *
 * Threading: prepare_pool_push from any event thread.
 */
#ifndef GATEWAY_PROMPTS_PREPARE_POOL_H
#define GATEWAY_PROMPTS_PREPARE_POOL_H

#include "gateway/generation/work_pool.h"
#include "gateway/prompts/prepare.h"

enum {
    PREPARE_LONG_BYTES = 32 * 1024, /* of prompt text: worth a hop to the other thread */
    PREPARE_LONG_BODY = 128 * 1024, /* of JSON: worth reading there */
};

struct generation;

struct prepare_job {
    struct work work;
    struct prepare_pool *pool;     /* borrowed */
    struct generation *generation; /* NULL: it ended */
    struct u128 resume; /* not zero: patterns for the stream that is asked for under this number */
    int thread_idx;
    struct buf body; /* owned; when not empty, g is read from it and points into it */
    /* borrowed; when there is a body, the model is looked up after reading */
    struct model_table *models;
    struct response_store *responses; /* and what the request goes on from is there, */
    struct u128 tenant;               /* under this key */
    struct genreq g;                  /* owned */
    /* a reference; NULL in the result: it is not there yet, nothing was prepared */
    struct served_model *model;
    uint64_t seed;
    struct prepared prepared; /* owned: the result */
    struct api_error err;     /* status 0: none */
};

struct prepare_pool;
/* Borrows the workers. done(ctx, job): from one of their threads; takes the job. */
struct prepare_pool *prepare_pool_new(struct work_pool *workers,
                                      void (*done)(void *ctx, struct prepare_job *job), void *ctx);
/* After the workers have ended. */
void prepare_pool_free(struct prepare_pool **pool);
/* Bytes of text that tokenizing g will look at. */
size_t prepare_cost(const struct genreq *g);
/* Is it too long for an event thread? By its text, or by what takes long though it is short: a
 * constraint, patterns, a template, texts that are sought in the whole vocabulary. */
bool prepare_takes_long(const struct genreq *g);
/* Takes g (its spans are copied into its arena) and a reference of its own to the model. NULL: too
 * many wait, and g is still the caller's. */
struct prepare_job *prepare_pool_push(struct prepare_pool *pool, struct genreq *g,
                                      struct u128 holder, struct served_model *model, uint64_t seed,
                                      int thread_idx, struct generation *generation);
/* The same, of a request that is to be read from the bytes of a body (copied). job: what is known
 * of it: its dialect (in g), models, responses, tenant, holder (in work), seed, thread_idx and
 * generation. NULL: too many wait. */
struct prepare_job *prepare_pool_push_body(struct prepare_pool *pool, const struct prepare_job *job,
                                           struct bytes body);
/* Patterns at which a stream ends, to be compiled (copied); known: thread_idx, resume, holder (in
 * work). False: too many wait. */
MUST_CHECK bool prepare_pool_push_patterns(struct prepare_pool *pool,
                                           const struct prepare_job *known, const struct genreq *g);
void prepare_job_free(struct prepare_job *job); /* NULL is fine */

#endif
