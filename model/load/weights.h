/*
 * weights.h - the tensors of a model, by role, in device memory.
 *
 * Matrices stay in the storage type of the file. A device that reads host memory (the CPU) gets the
 * mapped file itself: merged products (Q, K, V; gate, up) are then segments of one matrix; another
 * device gets one packed copy. What has to be rearranged (transposed, or fused with interleaved
 * rows) is copied everywhere. Vectors (norms, biases) become f32.
 *
 * Invariants:
 *   (1) every tensor of the files is used, or on the family's list of tensors that carry nothing,
 *       else loading fails with its name;
 *   (2) every shape is what the spec says.
 *
 * The file set must stay open as long as the weights.
 */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "formats/safetensors.h"
#include "model/load/vector_head.h"
#include "model/run/shard.h"

struct norm_weights {
    const float *weight, *bias; /* f32 device memory; bias NULL: none */
};

struct layer_weights {
    /* [hidden]; as the layer's spec says */
    struct norm_weights mixer_norm, mixer_post, ffn_norm, ffn_post;
    /* mixer_norm with another scale, where there is a mixer beside */
    struct norm_weights beside_norm;
    /* of the layer's kinds (layer_kinds.h): struct attention_weights, ... */
    void *mixer, *beside, *ffn;
};

struct model_weights {
    struct device *dev; /* borrowed */
    /* [this rank's part of the vocabulary, embed_dim]; the same memory when tied */
    struct matrix embed, head;
    struct matrix positions; /* [learned_positions, hidden] */
    struct matrix types;     /* [token_types, hidden], where spec_adds_types; rows 0: none */
    struct matrix project_in, project_out;
    struct norm_weights embed_norm, final_norm;
    struct vector_head score;     /* a head that scores, owned; count 0: there is none */
    struct layer_weights *layers; /* owned */
    uint64_t byte_count;          /* of matrices and vectors */
    uint32_t fp8_cols;            /* of the widest product that rounds its x to fp8; 0: none does */
    enum storage_type main_type;  /* of the first matrix of a layer */
    struct weight_memory *memory; /* owned: what has to be given back */
};

/* Called now and then while loading, from the loading thread: bytes done of all. May be NULL. */
typedef void (*weights_progress_fn)(void *ctx, uint64_t done, uint64_t total);

struct packed_file;

/* spec: of the whole model; shard: the part to load, NULL for all (weights->layers is then of the
 * rank's stage); packed: where packed weights are kept, which then lives as long as the weights, or
 * NULL; packs_later: what is not kept there is left to weights_pack_next, on the CPU. Then *weights
 * stays where it is. */
MUST_CHECK int weights_load(struct model_weights *weights, const struct model_spec *spec,
                            const struct shard *shard, const struct safetensors *files,
                            struct device *dev, struct stream *stream, struct packed_file *packed,
                            bool packs_later, weights_progress_fn progress, void *ctx,
                            struct error *err);
/* The tensor of the head that writes, in the files, [vocab, embed_dim]: the embedding where that is
 * the head too; NULL: there is none. *bias [vocab]: NULL where the spec has none. */
const struct tensor *weights_head_tensor(const struct model_spec *spec,
                                         const struct safetensors *files,
                                         const struct tensor **bias);
/* Has the pages of the next segment that was left as in its file mapped, ahead of the first step. false:
 * none is left. May run beside nothing else that uses the weights. */
bool weights_fetch_next(struct model_weights *weights);
/* Whether something was left to weights_pack_next and still is. */
bool weights_are_unpacked(const struct model_weights *weights);
/* Puts the next segment that was left as in its file into the order of the device's kernels; products
 * have the same bits before and after. No operation that reads the weights may run. false: memory is
 * short, so it and those behind it stay as they are. */
bool weights_pack_next(struct model_weights *weights, struct stream *stream,
                       struct packed_file *packed);
/* Frees the device memory; no operation that reads it may run. weights may be zeroes. */
void weights_release(struct model_weights *weights);

#endif
