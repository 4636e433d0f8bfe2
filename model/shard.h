/*
 * shard.h - which part of a model one rank of a replica has, and what the forward pass asks of the other ranks.
 *
 * tp ranks share every layer of a stage, pp stages share the layers. A rank's own spec is derived from the whole one:
 * it has the stage's layers only, and in each the rank's heads and width; the forward pass walks it as if it were a
 * small model, and adds up what the ranks of the stage computed. What does not divide is uneven (the first ranks have
 * one unit more); what has no rule here is computed whole on every rank, which needs no sum: mixers other than plain
 * attention, feed-forwards other than dense ones, attention with norms over all heads.
 *
 * Units: attention is cut between KV heads, so that a rank has whole groups; with more ranks than KV heads a KV head is
 * held by several, who divide its query heads. A feed-forward's width is cut in multiples of SHARD_WIDTH_UNIT (blocks
 * of every storage type divide it), the vocabulary in multiples of SHARD_VOCAB_UNIT. The embedding is held whole by the
 * first stage: it is looked up, not multiplied, and on the CPU it is the mapped file.
 */
#ifndef MODEL_SHARD_H
#define MODEL_SHARD_H

#include "model/spec.h"

enum { SHARD_WIDTH_UNIT = 256, SHARD_VOCAB_UNIT = 64, SHARD_STAGES_MAX = 64 };

struct shard {
    uint32_t rank, tp, stage, pp;            /* all zero: the whole model */
    uint32_t stage_layers[SHARD_STAGES_MAX]; /* of each stage; all zero: as equal as can be */
    /* Values in a block of the files' storage types: columns are cut between blocks only. 0: anywhere; UINT32_MAX: not
     * at all. What cannot be cut so is computed whole by every rank. */
    uint32_t block;
};
struct shard_range {
    uint32_t first, count;
};

static inline uint32_t shard_tp(const struct shard *s) { return s && s->tp ? s->tp : 1; }
static inline bool shard_is_first(const struct shard *s) { return !s || s->stage == 0; }
static inline bool shard_is_last(const struct shard *s) { return !s || s->stage + 1 >= s->pp; }

/* Rank's part of [0, total), cut at multiples of unit, or one by one when there are fewer units than ranks. May be
 * empty. */
struct shard_range shard_cut(uint32_t total, uint32_t unit, uint32_t rank, uint32_t count);
/* Layers of this rank's stage. */
struct shard_range shard_layers(const struct shard *s, uint32_t layer_count);
/* Query heads and KV heads of this rank. */
void shard_heads(const struct shard *s, const struct attention_spec *a, struct shard_range *heads,
                 struct shard_range *kv_heads);
struct shard_range shard_width(const struct shard *s, uint32_t width);
struct shard_range shard_vocab(const struct shard *s, uint32_t vocab);
/* Whether ranks divide this layer's mixer (feed-forward). */
bool shard_divides_mixer(const struct shard *s, const struct model_spec *spec, uint32_t layer);
bool shard_divides_ffn(const struct shard *s, const struct model_spec *spec, uint32_t layer);

/* Turns the whole spec into this rank's; mixer_partial and ffn_partial of its layers are set. whole->layers goes to the
 * caller: *all_layers, to be freed with mem_free. ERR_UNSUPPORTED: more ranks than heads, more stages than layers. */
MUST_CHECK int shard_spec(const struct shard *s, struct model_spec *spec, struct layer_spec **all_layers,
                          struct error *err);

/* What forward.h asks of the other ranks; everything in stream order, act or f32 device memory. */
struct rank_calls {
    /* x = the sum of the stage's ranks' x, act [count], in rank order. */
    void (*sum)(void *ctx, struct stream *s, void *x, size_t count);
    /* Rank 0 gets all parts of the logits: row i of rank r's part, f32 [rows, widths[r]], at all + i * stride +
     * firsts[r]. */
    void (*gather)(void *ctx, struct stream *s, float *all, size_t stride, const float *part, uint32_t rows);
    void (*send)(void *ctx, struct stream *s, const void *x, size_t count);
    void (*receive)(void *ctx, struct stream *s, void *x, size_t count);
};

#endif
