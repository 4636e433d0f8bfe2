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

#include "gateway/calls/call.h"
#include "gateway/fields/field.h"

enum { MODEL_WAITERS_MAX = 16, MODEL_WAIT_MS = 3600000 };

extern const struct field_set fields_model_control;

/* All of these are handlers (call.h). They refuse a key that may not, and a model that is unknown. */
int model_control_load(const struct call *c, struct api_error *err);
int model_control_reload(const struct call *c, struct api_error *err);
int model_control_unload(const struct call *c, struct api_error *err);
/* Answered later, when it is known what became of it. */
int model_control_add(const struct call *c, struct api_error *err);
int model_control_remove(const struct call *c, struct api_error *err);

/* What became of one that is added or removed. */
void model_control_on_outcome(struct event_thread *thread, const struct mail *mail);
/* The scheduler is lost, and with it what it knew of those that wait: they are told. */
void model_control_on_lost(struct event_thread *thread);
/* The thread ends: so do those that wait. */
void model_control_end(struct event_thread *thread);

#endif
