/*
 * prepare.h - a generation request meets its model: prompts become tokens, defaults and limits are
 * settled.
 *
 * Pure: reads the request and the model, fills a struct prepared, or says what is wrong with the
 * request. May be slow for long prompts (tokenizing), so it must not be called with a lock held.
 */
#ifndef GATEWAY_PROMPTS_PREPARE_H
#define GATEWAY_PROMPTS_PREPARE_H

#include "gateway/fields/genreq.h"
#include "gateway/models/model_table.h"
#include "grammar/finder.h"

/* Of a prompt that is echoed: they must fit a grammar. */
enum { ECHO_TOKENS_MAX = 100000 };

struct prepared {
    enum wire_request_kind kind; /* 0: GENERATE */
    struct token_vec *prompts;   /* owned: one for each prompt */
    uint32_t *max_tokens;        /* owned: output tokens of each prompt's choices */
    uint32_t *first_counts; /* owned: of prompts that are pairs (wire_sampling); NULL: none is */
    uint32_t prompt_count;
    /* its bias columns and breakers are owned by the next three */
    struct wire_sampling sampling;
    struct buf dry_breakers;
    uint32_t *bias_ids;         /* owned */
    float *bias_values;         /* owned */
    struct buf allowed;         /* owned: a bit for each token that may come; empty: all may */
    struct token_vec bad_words; /* owned: as the message has them */
    uint32_t stop_tokens[WIRE_MAX_STOP_TOKENS];
    uint32_t stop_token_count;
    struct finder *stop_patterns;    /* owned; NULL: none */
    bool echo;                       /* the prompt is computed as output (submission.h), */
    uint32_t echo_last;              /* of it so many at its end; 0: all but the first */
    bool hides_echo;                 /* for its log-probabilities alone: choices begin behind it */
    struct buf grammar;              /* owned: what the answer must look like; empty: anything */
    struct parse_config parse;       /* how a chat's answer is read; all NULL: as it is */
    struct parse_tools *parse_tools; /* owned */
    /* owned: what ends the reasoning once it has thinking_budget tokens; empty: it has no bound */
    struct token_vec thinking_end;
    uint32_t thinking_budget;
};

/* seed: what to use when the client gave none. 0, or -1 with *err filled; *p must be released
 * either way. */
MUST_CHECK int prepare(const struct genreq *g, const struct served_model *model, uint64_t seed,
                       struct prepared *p, struct api_error *err);
/* Text i alone, without tokens of the model's own. out is empty. */
int prepare_bare_text(const struct genreq *g, uint32_t i, const struct text_model *text,
                      struct token_vec *out, struct api_error *err);
/* The patterns at which an answer to g ends, into p. 0, or -1 with *err filled: one of them cannot be
 * sought. */
MUST_CHECK int prepare_stop_patterns(const struct genreq *g, struct prepared *p,
                                     struct api_error *err);
/* The tokens that end what is thought, where it has a bound, into p, whose `parse` is known. 0, or -1
 * with *err filled: this model's reasoning cannot be told, and the request names its bound. */
MUST_CHECK int prepare_thinking_end(const struct genreq *g, const struct text_model *text,
                                    struct prepared *p, struct api_error *err);
/* As a request is sampled that says nothing of it. p->sampling; *p must be released. */
void prepare_usual_sampling(const struct genreq *g, const struct text_model *text,
                            struct prepared *p);
/* 0: a text of so many bytes may have `most` tokens or fewer; -1 with *err filled: it has more, whatever
 * it says, so nobody need count them. */
MUST_CHECK int prepare_check_bytes(const struct served_model *m, size_t bytes, size_t most,
                                   const char *param, struct api_error *err);
/* The tokens of prompt i, which is no chat's: a text, or ids. Replaces nothing in *out, which is
 * empty. 0, or -1 with *err filled. */
MUST_CHECK int prepare_text(const struct genreq *g, uint32_t i, const struct text_model *text,
                            struct token_vec *out, struct api_error *err);
/* Leaves `most` tokens of a longer prompt, as g->truncate says. from: a text, of whose special
 * tokens at both ends none is cut; or NULL. */
void prepare_cut(const struct genreq *g, const struct tokenizer *t,
                 const struct genreq_prompt *from, size_t most, struct token_vec *ids);
/* 0: all ids are below the model's width. */
MUST_CHECK int prepare_check_ids(const uint32_t *ids, size_t count, const struct served_model *m,
                                 const char *param, struct api_error *err);
/* Appends a chat's rendered prompt, and to spots (may be NULL) where it spells control tokens that
 * are only text (text/guard.h). 0, or -1 with *err filled. */
MUST_CHECK int prepare_chat_text(const struct genreq *g, const struct text_model *text,
                                 struct buf *out, struct plain_spots *spots, struct api_error *err);
/* What the text library says of a field's text; rc: its code. Fills *api, returns -1. */
int prepare_refuse(struct api_error *api, const char *param, int rc, const struct error *err);
/* Why a model that was looked for cannot serve now; found is not MODEL_READY. Fills *err, returns
 * -1. */
int prepare_refuse_model(enum model_found found, struct bytes name, struct api_error *err);
/* Frees all it holds; a zeroed one is fine. */
void prepared_release(struct prepared *p);

#endif
