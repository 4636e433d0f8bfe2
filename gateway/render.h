/*
 * render.h - an answer in the shapes of OpenAI's chat and completions endpoints: chunks of a stream, or one object.
 *
 * A stream's chunks differ only in index, text and log-probabilities, so everything before them is written once for
 * each request (`head`) and a chunk is a handful of copies: no JSON tree, no formatting of numbers but the index.
 *
 * Every function appends to out and keeps nothing. Texts are valid UTF-8 and escaped here.
 *
 * Threading: one thread at a time per struct render.
 */
#ifndef GATEWAY_RENDER_H
#define GATEWAY_RENDER_H

#include "gateway/api_error.h"
#include "gateway/choice.h"
#include "gateway/genreq.h"

struct render {
    enum genreq_dialect dialect;
    bool include_usage;    /* a last chunk with usage; "usage":null in the others */
    bool continuous_usage; /* usage in every chunk */
    struct buf head;       /* {"id":..,"object":..,"created":..,"model":..,"choices":[ */
    char id[64];
};

struct render_usage {
    uint32_t prompt_tokens, completion_tokens, cached_tokens;
    uint32_t reasoning_tokens; /* of completion_tokens, those that were thought */
    bool reasons;              /* reasoning was told from content */
    bool other_fingerprint;    /* part of the answer was made by a replica whose bits may differ */
};

/* Log-probabilities of one token, as the wire has them: the chosen token first, then the best ones. */
struct render_logprobs {
    const uint32_t *ids;
    const float *values;
    uint32_t count; /* 1 + top; 0: none */
};

/* `number` becomes the id, after the dialect's prefix. */
void render_init(struct render *r, enum genreq_dialect dialect, bool stream, struct u128 number, int64_t created_s,
                 struct bytes model);
void render_release(struct render *r);

/* ---- a stream ---- */

/* What comes before any text of a choice (a chat's role). */
void render_chunk_begin(const struct render *r, uint32_t index, struct buf *out);
/* A piece of an answer; of a chat also what was thought and called in it. */
struct render_text {
    struct bytes content, reasoning, calls; /* calls: objects of JSON, comma-separated */
};
/* A piece of text. logprobs: the value of the dialect's "logprobs" (NULL data: null). extra: further members of the
 * choice, beginning with a comma, or empty. usage: for continuous_usage, else NULL. */
void render_chunk_text(const struct render *r, uint32_t index, const struct render_text *text, struct bytes logprobs,
                       struct bytes extra, const struct render_usage *usage, struct buf *out);
/* The last chunk of a choice. */
void render_chunk_finish(const struct render *r, uint32_t index, enum choice_finish finish,
                         const struct render_usage *usage, struct buf *out);
void render_chunk_usage(const struct render *r, const struct render_usage *usage, struct buf *out);
void render_chunk_error(const struct api_error *err, struct buf *out);
void render_done(struct buf *out); /* data: [DONE] */

/* ---- one object ---- */

void render_full_begin(const struct render *r, struct buf *out);
/* Choices in order of index. logprobs, extra as above. */
void render_full_choice(const struct render *r, bool first, uint32_t index, const struct render_text *text,
                        struct bytes logprobs, struct bytes extra, enum choice_finish finish, struct buf *out);
void render_full_end(const struct render *r, const struct render_usage *usage, struct buf *out);

/* ---- log-probabilities ---- */

/* Appends the entry of one token in the dialect's form (see render_logprobs_value); text_offset for completions. */
void render_logprobs_entry(enum genreq_dialect dialect, const struct tokenizer *t, const struct render_logprobs *lp,
                           uint32_t text_offset, struct buf *out);
/* Makes the value of "logprobs" from entries that render_logprobs_entry wrote one after another (each ended by a
 * newline). */
void render_logprobs_value(enum genreq_dialect dialect, struct bytes entries, struct buf *out);
/* Characters of a token's text as it is shown in log-probabilities. */
uint32_t render_token_chars(const struct tokenizer *t, uint32_t id);

#endif
