/*
 * model_text.h - the two large parts of tokenizer.json, vocabulary and merges, read in one linear pass each.
 *
 * Both take raw JSON that a strict reader has already passed over (json_skip), so these walkers trust its grammar and
 * check only what the values mean. Merges are looked up in batches whose memory accesses overlap.
 */
#ifndef TEXT_TOKENIZER_MODEL_TEXT_H
#define TEXT_TOKENIZER_MODEL_TEXT_H

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/vocab.h"

/* [["token", score], ...], ids in order; *scores is owned by the caller. */
MUST_CHECK int model_read_scored(struct bytes raw, struct vocab *v, double **scores, struct error *err);
/* {"token": id, ...} */
MUST_CHECK int model_read_vocab(struct bytes raw, struct vocab *v, struct error *err);
/* ["left right", ...] or [["left", "right"], ...], into b, which bpe_init has not seen yet. v is sealed. prefix_len:
 * bytes of continuing_subword_prefix, which joining takes off the right side. */
MUST_CHECK int model_read_merges(struct bytes raw, const struct vocab *v, size_t prefix_len, struct bpe *b,
                                 struct error *err);
/* The same from strings "left right" that next() gives, at most count; merges of tokens that the vocabulary lacks are
 * passed over, as llama.cpp's never apply. */
typedef bool model_next_fn(void *ctx, struct bytes *out);
MUST_CHECK int model_take_merges(model_next_fn *next, void *ctx, size_t count, const struct vocab *v, struct bpe *b,
                                 struct error *err);

#endif
