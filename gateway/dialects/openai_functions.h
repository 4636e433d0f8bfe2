/*
 * openai_functions.h - OpenAI's older chats, with `functions` and `function_call` in place of tools.
 *
 * Nothing after the parser knows them: they become tools, a choice of one, and calls with their
 * results in the conversation. Of the answer alone it is remembered (genreq.bare_calls) that its one
 * call is told in the older form.
 *
 * Threading: pure.
 */
#ifndef GATEWAY_DIALECTS_OPENAI_FUNCTIONS_H
#define GATEWAY_DIALECTS_OPENAI_FUNCTIONS_H

#include "gateway/fields/field.h"

/* The fields `functions` and `function_call`. */
MUST_CHECK int functions_read(struct field_reader *r, enum json_event first);
MUST_CHECK int functions_read_choice(struct field_reader *r, enum json_event first);
/* Once all fields are read: messages, tools and the choice are in today's form. 0, or -1 with *err
 * filled: both forms were given, or memory is out. */
MUST_CHECK int functions_apply(struct genreq *g, struct api_error *err);
/* Of these the messages alone: `function_call` becomes a call, and the role `function` its result. */
MUST_CHECK int functions_convert_messages(struct genreq *g, struct api_error *err);

#endif
