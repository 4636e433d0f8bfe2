/*
 * gather.h - several requests in one body, answered in one piece: SGLang's /generate with a list for
 * what is one value elsewhere (`sampling_params`, `rid`, ...), and vLLM's /v1/chat/completions/batch.
 *
 * The body is cut into one for each request (gather_bodies.h); each becomes a generation without an
 * HTTP request, and gather_put takes its answer. The last one to come sends them all. The first that
 * fails answers for all, and the others are cancelled by their next tick: no generation ends another.
 *
 * Invariants:
 *   (1) It lives until the last of its generations has ended; each has left it once.
 *   (2) http is NULL once it was answered, or its client is gone: gather_is_over.
 *
 * Threading: the event thread of its request.
 */
#ifndef GATEWAY_ANSWERS_GATHER_H
#define GATEWAY_ANSWERS_GATHER_H

#include "gateway/fields/genreq.h"
#include "gateway/generation/event_thread.h"

struct gather;

/* Opens a generation for each request of req's body. 0: req is answered, or will be; -1: *err is to be
 * answered. Ends no generation but its own. */
MUST_CHECK int gather_open(struct event_thread *thread, struct http_request *req,
                           enum genreq_dialect dialect, struct u128 tenant, struct api_error *err);
/* The answer to request `idx` is there (copied); the room that its tenant has for it goes along. */
void gather_put(struct gather *gather, uint32_t idx, struct bytes answer, uint64_t room);
/* A request has failed: so have all, unless they are over. */
void gather_fail(struct gather *gather, const struct api_error *err);
/* Nobody waits for it any more. */
bool gather_is_over(const struct gather *gather);
/* A generation has ended, in whatever way; *gather becomes NULL (it may be so already). */
void gather_leave(struct gather **gather);

#endif
