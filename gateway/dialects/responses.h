/*
 * responses.h - OpenAI's responses (POST /v1/responses) as a dialect of the one generation request.
 *
 * On the way in, instructions and items (messages, function_call, function_call_output, reasoning)
 * become the messages of a chat; on the way out an answer is a list of items, whole or as numbered
 * events. An answer is kept in memory (response_store.h) unless `store` is false, so that another
 * request can go on from it. One that runs in the background has no client: what it writes goes to
 * the store, and whoever follows it reads there (response_calls.h).
 *
 * Source: platform.openai.com/docs/api-reference/responses and .../responses-streaming, and what
 * the openai package 3.54 reads.
 *
 * Threading: as genreq.h and answer.h; responses_resume from any thread.
 */
#ifndef GATEWAY_DIALECTS_RESPONSES_H
#define GATEWAY_DIALECTS_RESPONSES_H

#include "gateway/answers/answer.h"
#include "gateway/answers/response_store.h"

enum {
    RESPONSES_METADATA_MAX = 16, /* pairs, */
    RESPONSES_METADATA_KEY_MAX = 64,
    RESPONSES_METADATA_VALUE_MAX = 512,
    RESPONSES_REFERRED_MAX = 16 << 20, /* bytes looked up for items that an input names */
    RESPONSES_SEARCHED_MAX = 8 << 20,  /* bytes read to find them */
};

/* Fills g from a body that json_scan took. 0, or -1 with *err filled. */
MUST_CHECK int responses_parse(struct genreq *g, struct bytes body, struct api_error *err);

/* Makes g's messages of `input` (a raw value), after `instructions` (raw; empty: none), tools in
 * OpenAI's chat form, and the spans of g->kept that an answer to be kept needs. All in the arena.
 * 0, or -1 with *err filled. */
MUST_CHECK int responses_convert(struct genreq *g, struct bytes input, struct bytes instructions,
                                 struct api_error *err);

/* Puts items of kept responses in place of those that g's input only names, and the conversation
 * that g goes on from before its own messages; nothing when it names none. g->kept.input is still
 * there. 0, or -1 with *err filled. */
MUST_CHECK int responses_resume(struct genreq *g, struct response_store *store, struct u128 tenant,
                                struct api_error *err);

/* The number in a response's id; false: it is none. */
bool responses_id_parse(struct bytes id, struct u128 *number);

/* What an answer of this dialect holds beside its writer. */
struct responses_state;
/* Takes from g what outlives it; store: where the answer is kept, for this tenant, and where that is
 * zero in the room of this address. */
void responses_state_open(struct answer *a, const struct genreq *g, struct response_store *store,
                          struct u128 number, struct u128 tenant, struct u128 address);
void responses_state_free(struct responses_state **state); /* NULL inside is fine */

/* Puts an answer that is to run in the background into the store, as running. Returns a reference;
 * NULL: it does not fit. */
struct kept_response *responses_keep_running(struct answer *a);
/* What an answer in the background has written goes to the store. */
void responses_put(struct answer *a, struct bytes events);
/* Whether it was cancelled, or has left the store: nobody can read what it would make. */
bool responses_is_dropped(const struct answer *a);

extern const struct answer_form answer_responses;

#endif
