/*
 * shard.h - which part of a model one rank of a replica has, and what the forward pass asks of the
 * other ranks.
 *
 * tp ranks share every layer of a stage, pp stages share the layers. A rank's own spec is derived
 * from the whole one: it has the stage's layers only, and in each the rank's heads, channels and
 * width; the forward pass walks it as if it were a small model, and adds up what the ranks of the
 * stage computed. What does not divide evenly is uneven (some ranks have one unit more); what
 * cannot be cut at all is computed whole on every rank, which needs no sum: mixers other than
 * attention with fewer heads than ranks, columns in the midst of a storage type's blocks.
 *
 * Units:
 *   attention            between KV heads, so that a rank has whole groups; with more ranks than KV heads a KV head is
 *                        held by several, who divide its query heads. Mamba 2 and the delta rule
 *                        likewise, their groups (key heads) standing for KV heads.
 *   latent attention     heads; the latents, and the cache of them, are everybody's.
 *   other mixers         channels, in multiples of SHARD_CHANNEL_UNIT; RG-LRU: the gates' blocks; RWKV-6 and 7: heads.
 *   feed-forward         width, in multiples of SHARD_WIDTH_UNIT (blocks of every storage type divide it).
 *   experts              each one's width, and the shared one's, in multiples of SHARD_CHANNEL_UNIT or a block; the
 *                        router is everybody's, so all choose the same experts.
 *   vocabulary           rows of the embedding and the head, in multiples of SHARD_VOCAB_UNIT. A rank's embedding of
 *                        another's token is zeros; the sum has them all.
 * Three mixers exchange in their midst: attention whose queries and keys are normed over all heads
 * sums their squares; Mamba 1 its product of step, B and C; Mamba 2, where a group of its norm
 * spans ranks, gathers what is normed (as a sum of rows that are zeros outside of the rank's own
 * channels).
 */
#ifndef MODEL_SHARD_H
#define MODEL_SHARD_H

#include "model/spec.h"

enum {
    SHARD_WIDTH_UNIT = 256,
    SHARD_VOCAB_UNIT = 64,
    SHARD_CHANNEL_UNIT = 64,
    SHARD_STAGES_MAX = 64
};

struct shard {
    uint32_t rank, tp, stage, pp;            /* all zero: the whole model */
    uint32_t stage_layers[SHARD_STAGES_MAX]; /* of each stage; all zero: as equal as can be */
    /* Values in a block of the files' storage types: columns are cut between blocks only. 0:
     * anywhere; UINT32_MAX: not at all. What cannot be cut so is computed whole by every rank. */
    uint32_t block;
};
struct shard_range {
    uint32_t first, count;
};

/* Ranks of a stage; 1 for NULL. */
static inline uint32_t shard_tp(const struct shard *s) {
    return s && s->tp ? s->tp : 1;
}
/* The stage that embeds tokens. */
static inline bool shard_is_first(const struct shard *s) {
    return !s || s->stage == 0;
}
/* The stage that has the head and samples. */
static inline bool shard_is_last(const struct shard *s) {
    return !s || s->stage + 1 >= s->pp;
}

/* Rank's part of [0, total), cut at multiples of unit, or one by one when there are fewer units
 * than ranks. May be empty. */
struct shard_range shard_cut(uint32_t total, uint32_t unit, uint32_t rank, uint32_t count);
/* Layers of this rank's stage. */
struct shard_range shard_layers(const struct shard *s, uint32_t layer_count);
/* Of heads in equal groups, those of this rank and their groups. */
void shard_groups(const struct shard *s, uint32_t head_count, uint32_t group_count,
                  struct shard_range *heads, struct shard_range *groups);
/* Query heads and KV heads of this rank. */
void shard_heads(const struct shard *s, const struct attention_spec *a, struct shard_range *heads,
                 struct shard_range *kv_heads);
/* This rank's columns of a feed-forward of so many. */
struct shard_range shard_width(const struct shard *s, uint32_t width);
/* This rank's rows of embedding and head. */
struct shard_range shard_vocab(const struct shard *s, uint32_t vocab);
/* Whether ranks divide this layer's mixer. */
bool shard_divides_mixer(const struct shard *s, const struct model_spec *spec, uint32_t layer);
/* The same of the mixer with a state, which is beside the other where there are two. */
bool shard_divides_state(const struct shard *s, const struct model_spec *spec, uint32_t layer);
/* The same of the feed-forward, or the experts. */
bool shard_divides_ffn(const struct shard *s, const struct model_spec *spec, uint32_t layer);
/* This rank's part of the heads of latent attention, where they are divided. */
struct shard_range shard_latent(const struct shard *s, uint32_t heads);
/* This rank's part of the width of an expert, where it is divided. */
struct shard_range shard_expert(const struct shard *s, uint32_t width);

/* What a rank has of a mixer with a state. heads and groups: as recurrent_spec has them. */
struct shard_state {
    struct shard_range channels, heads, groups;
};
/* Where that mixer is divided. */
struct shard_state shard_state(const struct shard *s, const struct layer_spec *layer);
/* Whether groups of Mamba 2's norm have channels of several ranks. */
bool shard_norm_spans(const struct shard *s, const struct model_spec *spec, uint32_t layer);
/* Activations in the widest rows that ranks add up, of a rank's own spec. */
uint32_t shard_sum_width(const struct model_spec *spec);

/* Turns the whole spec into this rank's; mixer_partial and ffn_partial of its layers are set.
 * whole->layers goes to the caller: *all_layers, to be freed with mem_free. ERR_UNSUPPORTED: more
 * ranks than attention heads or tokens, more stages than layers. */
MUST_CHECK int shard_spec(const struct shard *s, struct model_spec *spec,
                          struct layer_spec **all_layers, struct error *err);

/* What forward.h asks of the other ranks; everything in stream order, act or f32 device memory. */
struct rank_calls {
    /* x = the sum of the stage's ranks' x, [rows, width] of `type` (act or f32), in rank order. */
    void (*sum)(void *ctx, struct stream *s, void *x, uint32_t rows, uint32_t width,
                enum storage_type type);
    /* norm->delta = the sum of the stage's ranks' delta, act, and then op_rmsnorm, with the bits of
     * `sum` and rmsnorm. False: not of this shape, or not by these ranks; nothing has happened then,
     * and so it is on all of them. */
    bool (*norm)(void *ctx, struct stream *s, const struct op_rmsnorm *norm, bool pushed);
    /* Those whom a product with w is to give its out to, norm->delta, as op_linear.push; `norm` is then
     * the next call, pushed, and true. NULL: it is not to. */
    struct peers *(*pushes)(void *ctx, const struct op_rmsnorm *norm, const struct matrix *w);
    /* Whom a product with w, all rows of output class, is to add up with, to the residual
     * (op_linear.push and .residual): the same on all of them. NULL: it is not to. */
    struct peers *(*adds)(void *ctx, struct stream *s, const struct matrix *w, uint32_t rows);
    /* Rank 0 gets all parts of the logits: row i of rank r's part, f32 [rows, widths[r]], at all +
     * i * stride + firsts[r]. */
    void (*gather)(void *ctx, struct stream *s, float *all, size_t stride, const float *own,
                   uint32_t rows);
    void (*send)(void *ctx, struct stream *s, const float *x, size_t count);
    void (*receive)(void *ctx, struct stream *s, float *x, size_t count);
};

#endif
