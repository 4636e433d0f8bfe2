/*
 * resume.h - GET /v1/stream/ID: a client comes back for a stream, here or at another gateway.
 *
 * A client that sent X-Conversation-Id with its request may ask for its stream again, from where it
 * has it (event_ids.h), at any gateway and with the same key. The scheduler has the request and its
 * tokens; this asks for it (Attach), waits for the answer and for the model, and then hands over to
 * a generation, which writes the stream anew from its first token on.
 *
 * A request that comes back while its first connection is still open takes the stream over: the
 * other one is told so, by a 409 or a last event, and ends.
 *
 * Threading: the event thread of the request.
 */
#ifndef GATEWAY_GENERATION_RESUME_H
#define GATEWAY_GENERATION_RESUME_H

#include "gateway/answers/api_error.h"
#include "gateway/generation/event_thread.h"

struct mail;
struct prepare_job;

/* The name that a client gave in X-Conversation-Id; *name empty: none. 0, or -1 with *err filled:
 * it cannot be one. */
MUST_CHECK int resume_name(const struct http_request *req, struct bytes *name,
                           struct api_error *err);
/* Whether a request asks again, by Last-Event-ID, for what it has begun: the stream of *name. */
bool resume_is_asked(const struct http_request *req, struct bytes *name);
/* Answers req with the stream of this name, from where Last-Event-ID or ?from= say. 0, or -1 with
 * *err filled, to be answered. */
MUST_CHECK int resume_open(struct event_thread *thread, struct http_request *req,
                           struct u128 tenant, struct bytes name, struct api_error *err);
/* Ends the stream of this name, whoever reads it, and answers 204; 404 and errors as
 * resume_open. */
MUST_CHECK int resume_give_up(struct event_thread *thread, struct http_request *req,
                              struct u128 tenant, struct bytes name, struct api_error *err);
/* Whether a stream is asked for under this request's number. */
bool resume_is_waiting(const struct event_thread *thread, struct u128 request);
/* The scheduler has the stream: answers who waits for it. Takes mail->submit. */
void resume_on_attached(struct event_thread *thread, struct mail *mail);
/* The patterns at which a stream ends are compiled, or err of the job says why not. Takes them. */
void resume_on_patterns(struct event_thread *thread, struct prepare_job *job);
/* The scheduler does not have it: answers 404. */
void resume_on_reject(struct event_thread *thread, const struct mail *mail);
/* Another scheduler is there: what the one before said does not count. */
void resume_restart(struct event_thread *thread);
/* Time has passed, or a model came. */
void resume_tick(struct event_thread *thread);
/* Ends all that wait, without an answer. */
void resume_end(struct event_thread *thread);

#endif
