/*
 * layer_kinds.h - what a mixer or a feed-forward brings: a row of functions. The forward pass, the
 * loader and the memory plan walk these tables, so a new kind is a file and a line here.
 *
 * read fills its part of a layer's spec from the config (layer.mixer or layer.ffn.kind is set).
 * load takes its tensors and returns a struct of its own, allocated with loader_new. buffers says
 * what its step needs: it is called with base NULL for the size and with the scratch area at every
 * step, and must give the same addresses each time (areas of different layers may overlap). step
 * computes f->in -> f->out, act [rows, hidden] both.
 *
 * ends: of a kind whose step reads f->in by one product alone, made by forward_product_in or with
 * f->norm, and writes f->out by another alone, forward_product_out: the two matrices, each NULL where
 * that is not so. NULL: not at all.
 *
 * adds: whether the step adds what it makes to the residual, as f->sum says, where f->out is x; NULL: it
 * does not.
 *
 * kv_bytes: bytes of this layer in one cache block; NULL or 0: it has no keys and values.
 * state_bytes: what a slot keeps of this layer whatever its length (kernels/ops_state.h); NULL:
 * nothing.
 */
#ifndef MODEL_LAYER_KINDS_H
#define MODEL_LAYER_KINDS_H

#include "model/load/loader.h"
#include "model/read/state_read.h"
#include "model/run/forward.h"

struct layer_kind {
    const char *name;
    int (*read)(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
    int (*load)(struct loader *l, uint32_t layer, void **weights);
    size_t (*buffers)(const struct forward *f, const struct layer_spec *layer, char *base);
    void (*step)(struct forward *f, struct stream *s, uint32_t layer);
    void (*ends)(const struct forward *f, uint32_t layer, const struct matrix **first,
                 const struct matrix **last);
    bool (*adds)(const struct forward *f, uint32_t layer);
    size_t (*kv_bytes)(const struct ops *ops, const struct layer_spec *layer,
                       enum storage_type type, uint32_t block_tokens);
    size_t (*state_bytes)(const struct model_spec *spec, const struct layer_spec *layer);
    /* Every layer of a step uses what the first one keeps in f->first_values, so layers cannot be
     * divided into stages. */
    bool uses_first;
    /* NULL: always. Whether the device can. */
    int (*supports)(const struct device *dev, const struct layer_spec *layer,
                    enum storage_type weights, enum storage_type kv, uint32_t block_tokens,
                    struct error *err);
};

extern const struct layer_kind *const MIXERS[MIXER_KIND_COUNT]; /* NULL: not built */
extern const struct layer_kind *const FFNS[FFN_KIND_COUNT];

extern const struct layer_kind mixer_latent, ffn_moe;
extern const struct layer_kind mixer_attention, ffn_gated, ffn_plain;
extern const struct layer_kind mixer_mamba1, mixer_mamba2, mixer_mamba3, mixer_delta,
    mixer_short_conv, mixer_rglru, mixer_rwkv4, mixer_rwkv6, mixer_rwkv7, ffn_rwkv;

#endif
