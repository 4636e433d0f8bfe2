/*
 * model_control.h - POST /models/load and /models/unload, as llama-server's router has them: an
 * operator's key (auth_is_admin) has a model's workers started or ended.
 *
 * The answer says that it was passed on to the supervisors; /v1/models tells what became of it.
 */
#ifndef GATEWAY_MODEL_CONTROL_H
#define GATEWAY_MODEL_CONTROL_H

#include "gateway/event_thread.h"
#include "gateway/field.h"
#include "http/http_server.h"

extern const struct field_set fields_model_control;

/* 0: answered; -1 with *err filled: a key that may not, or no such model. */
MUST_CHECK int model_control(struct event_thread *thread, struct http_request *req,
                             struct u128 tenant, enum wire_wish wish, struct api_error *err);

#endif
