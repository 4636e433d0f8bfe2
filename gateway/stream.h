/*
 * stream.h - one generation request, from its arrival to the last byte of its answer (streamed or not).
 *
 * States: WAITING (no model yet, or no room) -> RUNNING (submitted; tokens come) -> gone. Whatever happens to scheduler
 * and workers meanwhile, the answer goes on from the tokens held here: `stream_resubmit` hands them to the next
 * scheduler.
 *
 * A request with several prompts (completions) is several requests on the wire: its *parts*. A part has a request id, a
 * delivery, and one choice for each of n.
 *
 * A stream belongs to its shard's list while it lives and ends exactly once (answered, failed, or its client gone);
 * ending frees it. Every function here may end the stream it is given; the caller must not touch it afterwards unless
 * told otherwise.
 *
 * Without an HTTP request a stream is a probe: it makes a token for /health/e2e and reports to a callback.
 */
#ifndef GATEWAY_STREAM_H
#define GATEWAY_STREAM_H

#include "gateway/delivery.h"
#include "gateway/mailbox.h"
#include "gateway/prepare_pool.h"
#include "gateway/render.h"
#include "http/http_server.h"

struct shard;
struct stream;

enum stream_state { STREAM_WAITING, STREAM_RUNNING };

struct part {
    struct stream *stream;
    struct delivery delivery;
    struct choice *choices;  /* owned: delivery.choice_count */
    int64_t *token_us;       /* owned: when each choice last got tokens */
    struct token_vec prompt; /* owned */
    uint32_t max_tokens, cached_tokens;
    bool cached_known;
    struct u128 fingerprint; /* of the replica that made the latest tokens; zero: none yet */
};

struct stream {
    struct stream *prev, *next;
    struct shard *shard;
    enum stream_state state;
    struct http_request *http; /* NULL: a probe */
    void (*on_probe)(void *ctx, bool ok);
    void *probe_ctx;
    struct genreq g; /* its texts and lists are there until it runs; numbers and flags stay */
    struct u128 tenant, number;
    struct prepare_job *job;    /* in the pool's hands; g's texts are there meanwhile */
    struct served_model *model; /* a reference, once prepared */
    struct prepared prepared;   /* its prompts have moved to the parts */
    struct render render;
    struct buf presentation, cache_salt;
    struct buf body;    /* of a long request, read elsewhere: g points into it while it waits */
    struct part *parts; /* owned */
    uint32_t part_count, choices_open;
    bool begun;           /* the response's head is out */
    bool paused, verbose; /* verbose: an event for each token, with or without text */
    bool other_fingerprint;
    int64_t start_us, deadline_ms, wait_until_ms, paused_ms;
    int64_t wrote_ms; /* when the client last got something */
};

/* Takes g. Answers at once when something is wrong with it. */
void stream_open(struct shard *shard, struct http_request *req, struct genreq *g, struct u128 tenant);
/* The same for a body too long to be read here. */
void stream_open_long(struct shard *shard, struct http_request *req, enum genreq_dialect dialect, struct u128 tenant);
/* One token of `model` (empty: any), within timeout_ms; on_probe is called once, perhaps from inside this call. */
void stream_probe(struct shard *shard, struct bytes model, int64_t timeout_ms, void (*on_probe)(void *ctx, bool ok),
                  void *ctx);
/* The pool has prepared its prompt; the job stays the caller's, emptied. */
void stream_on_prepared(struct stream *s, struct prepare_job *job);
/* Something it waits for may have come. */
void stream_try(struct stream *s);
/* A scheduler is there (a new one, or the same that had lost us): submits anew with the tokens held. */
void stream_resubmit(struct stream *s);
/* Time has passed: see the deadlines above. */
void stream_tick(struct stream *s);
/* A run of tokens for one of its parts. */
void stream_on_run(struct part *part, const struct mail *mail, const struct mail_item *item);
void stream_on_reject(struct part *part, const struct mail_reject *reject);
/* Ends it with an error: the status if nothing was sent yet, else an event of the stream. */
void stream_fail(struct stream *s, const struct api_error *err);

/* ---- between stream.c, stream_wire.c and stream_out.c ---- */

/* Hands a part to the scheduler, if there is one. */
void stream_submit_part(struct part *part);
/* What is due for a part: another Submit, a question. */
void stream_tick_part(struct part *part);
/* Has the scheduler stop or resume making tokens. */
void stream_set_paused(struct stream *s, bool paused);

/* Writes what is in shard->out to the client. */
void stream_write(struct stream *s);
/* Asks for a choice's tokens from the next index on. */
void stream_ask(struct part *part, uint32_t choice);
/* All choices have finished: ends the answer, frees the stream. */
void stream_complete(struct stream *s);
/* Cancels what runs and frees; says nothing to the client. */
void stream_drop(struct stream *s);
void stream_begin(struct stream *s);
struct render_usage stream_usage(const struct stream *s);

#endif
