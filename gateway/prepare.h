/*
 * prepare.h - a generation request meets its model: prompts become tokens, defaults and limits are
 * settled.
 *
 * Pure: reads the request and the model, fills a struct prepared, or says what is wrong with the
 * request. May be slow for long prompts (tokenizing), so it must not be called with a lock held.
 */
#ifndef GATEWAY_PREPARE_H
#define GATEWAY_PREPARE_H

#include "gateway/genreq.h"
#include "gateway/model_table.h"

struct prepared {
    struct token_vec *prompts; /* owned: one for each prompt */
    uint32_t *max_tokens;      /* owned: output tokens of each prompt's choices */
    uint32_t prompt_count;
    struct wire_sampling sampling; /* bias columns: owned by bias_ids, bias_values */
    uint32_t *bias_ids;            /* owned */
    float *bias_values;            /* owned */
    uint32_t stop_tokens[WIRE_MAX_STOP_TOKENS];
    uint32_t stop_token_count;
    struct buf grammar;              /* owned: what the answer must look like; empty: anything */
    struct parse_config parse;       /* how a chat's answer is read; all NULL: as it is */
    struct parse_tools *parse_tools; /* owned */
};

/* seed: what to use when the client gave none. 0, or -1 with *err filled; *p must be released
 * either way. */
MUST_CHECK int prepare(const struct genreq *g, const struct served_model *model, uint64_t seed,
                       struct prepared *p, struct api_error *err);
/* Appends a chat's rendered prompt, and to spots (may be NULL) where it spells control tokens that
 * are only text (text/guard.h). 0, or -1 with *err filled. */
MUST_CHECK int prepare_chat_text(const struct genreq *g, const struct text_model *text,
                                 struct buf *out, struct plain_spots *spots, struct api_error *err);
/* Why a model that was looked for cannot serve now; found is not MODEL_READY. Fills *err, returns
 * -1. */
int prepare_refuse_model(enum model_found found, struct bytes name, struct api_error *err);
/* Frees all it holds; a zeroed one is fine. */
void prepared_release(struct prepared *p);

#endif
