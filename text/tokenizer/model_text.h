/*
 * model_text.h - the two large parts of tokenizer.json, vocabulary and merges, read in one linear
 * pass each.
 *
 * Both come as events of the strict reader and go straight into their tables: no text is kept.
 * Merges are looked up in batches whose memory accesses overlap.
 */
#ifndef TEXT_TOKENIZER_MODEL_TEXT_H
#define TEXT_TOKENIZER_MODEL_TEXT_H

#include "formats/json.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/vocab.h"

/* r is behind the '[' of [["token", score], ...], ids in order; *scores is owned by the caller. */
MUST_CHECK int model_read_scored(struct json_reader *r, struct vocab *v, double **scores,
                                 struct error *err);
/* r is behind the '{' of {"token": id, ...}. */
MUST_CHECK int model_read_vocab(struct json_reader *r, struct vocab *v, struct error *err);
/* r is behind the '[' of ["left right", ...] or [["left", "right"], ...]. Into b, which bpe_init
 * has not seen yet. v is sealed. prefix_len: bytes of continuing_subword_prefix, which joining
 * takes off the right side. */
MUST_CHECK int model_read_merges(struct json_reader *r, const struct vocab *v, size_t prefix_len,
                                 struct bpe *b, struct error *err);
/* Merges from strings "left right" that next() gives, at most count; merges of tokens that the
 * vocabulary lacks are passed over, as llama.cpp's never apply. */
typedef bool model_next_fn(void *ctx, struct bytes *out);
/* Adds `count` merges that `next` gives one by one; those of absent tokens are passed over. */
MUST_CHECK int model_take_merges(model_next_fn *next, void *ctx, size_t count,
                                 const struct vocab *v, struct bpe *b, struct error *err);

#endif
