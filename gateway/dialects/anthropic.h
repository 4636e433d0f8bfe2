/*
 * anthropic.h - Anthropic's messages (POST /v1/messages and /v1/messages/count_tokens) as a dialect
 * of the one generation request.
 *
 * On the way in the turns, their blocks and the tools become the messages and tools of OpenAI's
 * form, which chat templates take; on the way out an answer is a list of blocks (thinking, text,
 * tool_use), whole or as named events. Source: platform.claude.com/docs/en/api/messages and
 * .../build-with-claude/streaming, and what the anthropic package 2.12 reads.
 *
 * Threading: as genreq.h and answer.h.
 */
#ifndef GATEWAY_DIALECTS_ANTHROPIC_H
#define GATEWAY_DIALECTS_ANTHROPIC_H

#include "gateway/answers/answer.h"
#include "gateway/fields/genreq.h"

/* Fills g from a body that json_scan took. counts: its tokens are counted only, so 'max_tokens' may
 * be missing. 0, or -1 with *err filled. */
MUST_CHECK int anthropic_parse(struct genreq *g, struct bytes body, bool counts,
                               struct api_error *err);

/* Replaces g->messages and g->tools, raw as the client wrote them, by OpenAI's form, in the arena;
 * system: the raw value of "system", or empty. A last turn of the assistant is left open. 0, or -1
 * with *err filled. */
MUST_CHECK int anthropic_convert(struct genreq *g, struct bytes system, struct api_error *err);

extern const struct answer_form answer_anthropic;

#endif
