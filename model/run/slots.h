/*
 * slots.h - the device's tables of sequences (kernels/ops.h: slot_table) and the paged KV cache,
 * allocated once.
 *
 * The host puts sequences in, appends block ids and takes sequences out; prepare and sample do the
 * rest on the device. Callers check every id and count against the sizes here; the calls CHECK
 * them.
 */
#ifndef MODEL_SLOTS_H
#define MODEL_SLOTS_H

#include "model/model.h"

struct kv_cache {
    struct kv_geometry geometry;
    uint32_t block_count;
    void *base; /* device memory */
};

struct slots {
    struct device *dev;
    struct slot_table table;       /* device memory */
    struct kv_cache kv;            /* group 0 */
    const struct model_spec *spec; /* borrowed */
    /* device memory [slot_count, dims / 2] of tables that depend on the sequence's length (rope.h);
     * else NULL */
    float *inv_freq[SPEC_ROPES_MAX];
    /* device memory [slot_count + snapshot_count, kv.geometry.state_bytes], snapshots behind the
     * slots'; NULL: no layer has a state */
    void *state;
};

struct slot_admission {
    /* token_count, computed_count etc. as they shall begin; active set by the call */
    const struct slot_state *state;
    const uint32_t *tokens; /* [state->token_count] */
    const uint32_t *blocks; /* of group 0 */
    uint32_t block_count;
    const uint32_t *bias_ids; /* [state->bias_count] */
    const float *bias_values;
    struct bytes breakers; /* a bit for each token, as many as there are; read where dry is on */
};

/* Device memory for slot_count slots of up to max_context tokens, and block_count blocks of cache in
 * kv's shape; no slot is active. ERR_*: it does not suffice; slots is released then. */
MUST_CHECK int slots_init(struct slots *slots, const struct model *model,
                          const struct kv_geometry *kv, uint32_t slot_count, uint32_t max_context,
                          uint32_t block_count, struct error *err);
/* Frees the device memory; the stream must be idle. */
void slots_release(struct slots *slots);
/* Copies states within slots->state: sources[i] -> targets[i]; a snapshot's number is behind the
 * slots'. Host arrays, read before the call returns; no number is both source and target. */
void slots_copy_states(struct slots *slots, struct stream *stream, const uint32_t *sources,
                       const uint32_t *targets, uint32_t count);
/* Bytes slots_init allocates, KV cache not counted. */
uint64_t slots_bytes(uint32_t slot_count, uint32_t max_context, uint32_t vocab,
                     const struct kv_geometry *kv);

/* Puts a sequence into a slot: on the stream, so the host's arrays are read before the call returns.
 * Below max_context tokens, SLOT_BIAS_MAX biases and SLOT_STOPS_MAX stops, else it is a bug. */
void slots_admit(struct slots *slots, struct stream *stream, uint32_t slot,
                 const struct slot_admission *admission);
/* Appends blocks behind the `have` the slot has already. */
void slots_add_blocks(struct slots *slots, struct stream *stream, uint32_t slot, uint32_t have,
                      const uint32_t *blocks, uint32_t count);
/* Drafts of what follows, behind the `known` tokens it has: for the next step alone. Together below
 * max_context. */
void slots_draft(struct slots *slots, struct stream *stream, uint32_t slot, uint32_t known,
                 struct tokens drafts);
/* What `sample` does on the device that samples, told to one that does not: the token at idx is
 * known; the sequence goes on or has ended. */
void slots_accept(struct slots *slots, struct stream *stream, uint32_t slot, uint32_t idx,
                  uint32_t token, bool ended);
/* The sequence has ended without a token. */
void slots_end(struct slots *slots, struct stream *stream, uint32_t slot);
/* The slot is as before its first sequence; its tokens and blocks mean nothing. */
void slots_remove(struct slots *slots, struct stream *stream, uint32_t slot);

#endif
