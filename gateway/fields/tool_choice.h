/*
 * tool_choice.h - whether a request's tools may, must or must not be called, as chats say it.
 *
 * Source: platform.openai.com/docs/api-reference/chat (tool_choice).
 */
#ifndef GATEWAY_FIELDS_TOOL_CHOICE_H
#define GATEWAY_FIELDS_TOOL_CHOICE_H

#include "gateway/fields/field.h"

/* "none", "auto", "required", {"type": "function", "function": {"name": NAME}}, also without the inner
 * object, or {"type": "allowed_tools", ...}, which allowed_tools_apply() goes on with. */
MUST_CHECK int tool_choice_read(struct field_reader *r, enum json_event first);
/* Once all fields are read: a call that must come has tools, and one of a named function no other
 * constraint. 0, or -1 with *err filled. */
MUST_CHECK int tool_choice_check(const struct genreq *g, struct api_error *err);

#endif
