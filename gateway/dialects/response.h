/*
 * response.h - an answer in the shapes of OpenAI's chat and completions endpoints: chunks of a
 * stream, or one object.
 *
 * A stream's chunks differ only in index, text and log-probabilities, so everything before them is
 * written once for each request (`head`) and a chunk is a handful of copies: no JSON tree, no
 * formatting of numbers but the index.
 *
 * system_fingerprint, OpenAI's name for what the answer's bits depend on, stands in an answer in one
 * piece and in those chunks of a stream that are one for each choice or stream: in all of them it
 * made the gateway 12 % slower.
 *
 * Every function appends to out and keeps nothing. Texts are valid UTF-8 and escaped here.
 *
 * Threading: one thread at a time per struct response_writer.
 */
#ifndef GATEWAY_DIALECTS_RESPONSE_H
#define GATEWAY_DIALECTS_RESPONSE_H

#include "gateway/answers/api_error.h"
#include "gateway/answers/choice.h"
#include "gateway/fields/genreq.h"

enum { RESPONSE_ID_MAX = 64 };

struct response_writer {
    enum genreq_dialect dialect;
    bool include_usage;    /* a last chunk with usage; "usage":null in the others */
    bool continuous_usage; /* usage in every chunk */
    bool bare_calls;       /* a call is told as OpenAI's older `function_call` */
    /* of the replica that makes the answer; zero: not known yet, and not told */
    struct u128 fingerprint;
    struct buf head; /* {"id":..,"object":..,"created":..,"model":..,"choices":[ */
    char id[RESPONSE_ID_MAX];
};

struct usage {
    uint32_t prompt_tokens, completion_tokens, cached_tokens;
    uint32_t reasoning_tokens; /* of completion_tokens, those that were thought */
    bool reasons;              /* reasoning was told from content */
    bool other_fingerprint;    /* part of the answer was made by a replica whose bits may differ */
};

/* Log-probabilities of one token, as the wire has them: the chosen token first, then the best
 * ones. */
struct token_logprobs {
    const uint32_t *ids;
    const float *values;
    uint32_t count; /* 1 + top; 0: none. A value that is no number: of a token without any */
};

/* The id that a response's body has: the dialect's prefix, then `number`. */
void response_id(enum genreq_dialect dialect, struct u128 number, char out[RESPONSE_ID_MAX]);
/* Its id is response_id of `number`. */
void response_init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                   struct u128 number, int64_t created_s, struct bytes model);
/* Frees the head. */
/* The answer says which service tier it had: ours. Before anything is written. */
void response_tell_tier(struct response_writer *r);
void response_release(struct response_writer *r);

/* Appends "usage":{...}. */
void response_usage(const struct usage *u, struct buf *out);

/* ---- a stream ---- */

/* What comes before any text of a choice (a chat's role). */
void response_chunk_begin(const struct response_writer *r, uint32_t index, struct buf *out);
/* A piece of an answer; of a chat also what was thought and called in it. */
struct response_text {
    struct bytes content, reasoning, calls; /* calls: objects of JSON, comma-separated */
};
/* A piece of text. logprobs: the value of the dialect's "logprobs" (NULL data: null). extra:
 * further members of the choice, beginning with a comma, or empty. usage: for continuous_usage,
 * else NULL. */
void response_chunk_text(const struct response_writer *r, uint32_t index,
                         const struct response_text *text, struct bytes logprobs,
                         struct bytes extra, const struct usage *usage, struct buf *out);
/* The last chunk of a choice. */
void response_chunk_finish(const struct response_writer *r, uint32_t index,
                           enum choice_finish finish, const struct usage *usage, struct buf *out);
/* The chunk without choices at the end of a stream, for include_usage; usage NULL: without it. */
void response_chunk_usage(const struct response_writer *r, const struct usage *usage,
                          struct buf *out);
/* An error as an event of a stream that has begun. */
void response_chunk_error(const struct api_error *err, struct buf *out);
void response_done(struct buf *out); /* data: [DONE] */

/* ---- one object ---- */

/* Everything before the choices. */
void response_full_begin(const struct response_writer *r, struct buf *out);
/* Choices in order of index. logprobs, extra as above. */
void response_full_choice(const struct response_writer *r, bool first, uint32_t index,
                          const struct response_text *text, struct bytes logprobs,
                          struct bytes extra, enum choice_finish finish, struct buf *out);
/* Everything behind the choices. */
void response_full_end(const struct response_writer *r, const struct usage *usage, struct buf *out);

/* ---- log-probabilities ---- */

/* What tokens are called in them. */
struct token_names {
    const struct tokenizer *tokenizer; /* borrowed */
    bool as_ids;                       /* token_id:ID, else their text */
};
/* Appends the entry of one token in the dialect's form (see response_logprobs_value); text_offset
 * for completions. */
void response_logprobs_entry(enum genreq_dialect dialect, const struct token_names *t,
                             const struct token_logprobs *lp, uint32_t text_offset,
                             struct buf *out);
/* Appends the entry of one token of a prompt, as vLLM's prompt_logprobs has it. */
void response_prompt_logprobs_entry(const struct tokenizer *t, const struct token_logprobs *lp,
                                    struct buf *out);
/* Appends the entry of one token of a prompt, as TGI's prefill has it, behind a comma if it is not
 * the first. */
void response_prefill_entry(const struct tokenizer *t, const struct token_logprobs *lp,
                            struct buf *out);
/* Makes the value of "logprobs" (of SGLang's: the tokens' triples, a newline, lists of those of the
 * alternatives; of TGI's: so with objects) from entries that response_logprobs_entry wrote one after another
 * (each ended by a newline). */
void response_logprobs_value(enum genreq_dialect dialect, struct bytes entries, struct buf *out);
/* The two lists of such a value of SGLang's or TGI's: of the tokens, and of their alternatives. Empty:
 * both are. */
void response_logprobs_split(struct bytes value, struct bytes *tokens, struct bytes *alternatives);
/* Characters of a token's text as it is shown in log-probabilities. */
uint32_t response_token_chars(const struct tokenizer *t, uint32_t id);

#endif
