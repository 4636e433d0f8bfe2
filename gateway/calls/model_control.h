/*
 * model_control.h - POST /models/load, /models/unload and /models/reload, as llama-server's router has them, and /models/add and
 * /models/remove: an operator's key (auth_is_admin) has a model's workers started or ended, or a model added or removed.
 *
 * The answers of the first say that it was passed on to the supervisors; /v1/models tells what became of it. Whoever adds a model
 * waits until it is loaded or cannot be, and is told why: a model that could not be added is listed nowhere. Whoever removes one
 * waits until its streams have ended.
 */
#ifndef GATEWAY_CALLS_MODEL_CONTROL_H
#define GATEWAY_CALLS_MODEL_CONTROL_H

#include "gateway/fields/field.h"
#include "gateway/generation/event_thread.h"
#include "http/http_server.h"

enum { MODEL_WAITERS_MAX = 16, MODEL_WAIT_MS = 3600000 };

extern const struct field_set fields_model_control;

/* 0: answered; -1 with *err filled: a key that may not, or no such model. */
MUST_CHECK int model_control(struct event_thread *thread, struct http_request *req,
                             struct u128 tenant, enum wire_wish wish, struct api_error *err);
/* 0: it is answered later; -1 with *err filled. */
MUST_CHECK int model_control_add(struct event_thread *thread, struct http_request *req,
                                 struct u128 tenant, struct api_error *err);
MUST_CHECK int model_control_remove(struct event_thread *thread, struct http_request *req,
                                    struct u128 tenant, struct api_error *err);
/* What became of one that is added or removed. */
void model_control_on_outcome(struct event_thread *thread, const struct mail *mail);
/* The scheduler is lost, and with it what it knew of those that wait: they are told. */
void model_control_on_lost(struct event_thread *thread);
/* The thread ends: so do those that wait. */
void model_control_end(struct event_thread *thread);

#endif
