/*
 * allowed_tools.h - tool_choice {"type": "allowed_tools"}: of a request's tools only some may be
 * called. The others are not shown to the model, so that it cannot call them.
 *
 * Source: platform.openai.com/docs/guides/function-calling (allowed tools).
 */
#ifndef GATEWAY_FIELDS_ALLOWED_TOOLS_H
#define GATEWAY_FIELDS_ALLOWED_TOOLS_H

#include "gateway/fields/field.h"

/* {"mode": "auto" or "required", "tools": [...]}: whether one must be called, and which may. */
MUST_CHECK int allowed_tools_read(struct field_reader *r, enum json_event first);
/* Once the tools are there in a chat's form: leaves those that are allowed, where the request said so.
 * One that is not among the tools is an error. */
MUST_CHECK int allowed_tools_apply(struct genreq *g, struct api_error *err);

#endif
