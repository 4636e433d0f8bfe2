/*
 * generation.h - one generation request, from its arrival to the last byte of its response.
 *
 * States: WAITING (no model yet, or its prompt is prepared elsewhere) -> RUNNING (submitted; tokens
 * come) -> gone. Whatever happens to scheduler and workers meanwhile, the response goes on from the
 * tokens that its submissions hold.
 *
 * The way in is generation_open: it lists the generation and no more; the turn (turn.h) then tries
 * it. The way out is answer.h.
 *
 * A generation belongs to its thread's list while it lives and ends exactly once (answered, failed,
 * or its client gone); ending frees it. Every function here may end the generation that it is
 * given, unless it says otherwise: the caller must not touch it afterwards.
 *
 * Without an HTTP request a generation is a probe: it makes a token for /health/e2e and reports to
 * a callback.
 *
 * Threading: its event thread.
 */
#ifndef GATEWAY_GENERATION_GENERATION_H
#define GATEWAY_GENERATION_GENERATION_H

#include "gateway/answers/answer.h"
#include "gateway/generation/presentation.h"
#include "gateway/link/mailbox.h"
#include "gateway/prompts/prepare_pool.h"
#include "gateway/watch/trace.h"

/* Submissions of one generation that the scheduler may have at a time: as many as one with text has
 * at most, so that one with a thousand inputs does not fill the queue. */
enum { GENERATION_SUBMITTED_MAX = GENREQ_PROMPTS_MAX };

enum generation_state { GENERATION_WAITING, GENERATION_RUNNING };

/* Told once how a probe ended. */
struct generation_probe {
    void (*done)(void *ctx, bool ok); /* NULL: no probe */
    void *ctx;
};

struct generation {
    struct generation *prev, *next;
    struct event_thread *thread; /* borrowed */
    enum generation_state state;
    struct generation_probe probe;
    struct genreq request;   /* owned: texts and lists while WAITING; numbers and flags stay */
    bool has_place;          /* of open_places.h; a probe has none */
    bool unread;             /* the body of a long request: read in the pool */
    struct prepare_job *job; /* in the pool's hands; NULL: none */
    struct buf body;         /* owned: of a long request; `request` points into it while WAITING */
    struct u128 number;      /* of response_id */
    char id[HTTP_REQUEST_ID_MAX + 1]; /* http_request_id; "": a probe */
    struct trace_context trace;
    struct submit_terms terms;
    struct submission *submissions; /* owned */
    uint32_t submission_count, open_choices;
    uint32_t submitted_count; /* the first so many went to the scheduler, */
    uint32_t ended_count;     /* and so many have ended */
    struct answer answer;
    /* of an answer in one piece: its bytes so far, and those taken for it of the gateway's room */
    uint64_t whole_bytes, room;
    bool held; /* tokens came that its client had no room for: they are asked for again */
    uint64_t unread_bytes; /* written since the client last had read enough */
    bool stuck;            /* a choice was ended by its constraint */
    bool paused;           /* the client does not read; the scheduler was told to make no more */
    int64_t start_us, wait_until_ms, paused_ms;
    struct metric *metrics;     /* of its model (model_metrics.h); NULL: none yet, or a probe */
    struct metric *key_metrics; /* of its key (key_metrics.h); NULL: it has no name, or none yet */
    int64_t first_us;           /* when its first token came; 0: none has */
    int64_t queued_us;          /* until it was first placed; -1: not told */
    int64_t prefill_us;         /* from there to its first token, as the scheduler tells */
};

/* Takes g (what it owns is moved) and lists it as thread->opened. -1 with *err filled, to be
 * answered: this server takes nothing more now. unread: g is empty but for its dialect, and req->body is to be read where
 * it holds nobody up. stream: what the client calls it, to resume it (copied; NULL: it will not).
 * req must not be used after a success. */
MUST_CHECK int generation_open(struct event_thread *thread, struct http_request *req,
                               struct genreq *g, bool unread, struct u128 tenant,
                               const struct bytes *stream, struct api_error *err);
/* 0: another request may be opened, and has its holder's place (open_places.h). -1 with *err filled. */
MUST_CHECK int generation_take_place(struct gateway *gw, struct u128 holder, struct api_error *err);
/* One of several that are answered together (gather.h); g->stream is not set. Takes g and body, which g
 * points into; borrows gather, whose place it shares, until it leaves. req: of all of them. It is to
 * be tried. */
struct generation *generation_open_gathered(struct event_thread *thread, struct http_request *req,
                                            struct genreq *g, struct buf *body, struct u128 tenant,
                                            struct gather *gather, uint32_t idx);
/* What is known of a stream that another gateway began. */
struct taken_up {
    struct genreq g; /* from its presentation; taken */
    struct presentation shown;
    struct wire_submit submit;           /* what the scheduler has of it; borrowed */
    struct served_model *model;          /* a reference, taken */
    const struct event_position *behind; /* borrowed: what its client has, and is left out */
    struct finder *stop_patterns;        /* of g's, compiled; taken. NULL: g has none */
    bool late;                           /* tokens may have come meanwhile, for nobody */
};
/* It goes on here, in the answer to req. */
void generation_take_up(struct event_thread *thread, struct http_request *req,
                        struct taken_up *from);
/* Asks for tokens that came when there was no room for them. Never ends it. */
void generation_ask(struct generation *gen);
/* Makes one token of `model` (empty: any) within timeout_ms; done is called once, perhaps from
 * inside this call. */
void generation_probe(struct event_thread *thread, struct bytes model, int64_t timeout_ms,
                      struct generation_probe probe);
/* Something that it waits for may have come. */
void generation_try(struct generation *gen);
/* The pool has prepared its prompt; the job stays the caller's, emptied. */
void generation_on_prepared(struct generation *gen, struct prepare_job *job);
/* A scheduler is there (a new one, or the same that had lost us). Never ends it. */
void generation_resubmit(struct generation *gen);
/* Time has passed: deadlines, repeated Submits, comments on a quiet stream. */
void generation_tick(struct generation *gen);
/* Before it is submitted, its request still there: takes the room (answer_room.h) that its
 * log-probabilities will need at least. Non-zero: there is none, and err says so. */
int generation_reserve_room(struct generation *gen, struct api_error *err);
/* Hands submissions to the scheduler, as many as it may have. Never ends it. */
void generation_submit_more(struct generation *gen);
/* A run of tokens for one of its submissions. */
void generation_on_run(struct submission *sub, const struct mail *mail,
                       const struct mail_item *item);
/* The piece of a long run, which waits at the submission (long_runs.h). Whether the rest of the run is
 * wanted: false if the submission has ended, has no room, or has taken nothing of the piece. */
bool generation_on_piece(struct submission *sub, const struct mail *mail,
                         const struct mail_item *piece);
/* A long run of it waits no more. Never ends it. */
void generation_on_long_run_end(struct submission *sub);
/* Its client has read what was written: what waits for that goes on. Never ends it. */
void generation_on_drained(struct generation *gen);
/* The scheduler will not run this attempt. */
void generation_on_reject(struct submission *sub, const struct mail_reject *reject);
/* Ends it, after its client was told or is gone: writes its line of the log, cancels what runs and
 * frees. finish: how its choices ended; status: what its client was told, 499 for one that left. */
void generation_end(struct generation *gen, const char *finish, int status);
/* As generation_end, its client having left: what still ran counts as cancelled. */
void generation_cancel(struct generation *gen);
/* Ends it with an error: the status if nothing was sent yet, else an event of the stream. */
void generation_fail(struct generation *gen, const struct api_error *err);
/* Its client asked on another connection that it ends: the answer is what there is so far. */
void generation_abort(struct generation *gen);
/* Has the scheduler stop (paused) or resume making tokens for it. Never ends it. */
void generation_set_paused(struct generation *gen, bool paused);

#endif
