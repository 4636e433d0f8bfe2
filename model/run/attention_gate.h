/*
 * attention_gate.h - attention whose output is gated (Qwen3-Next): the file's query product has for
 * each head its query and a gate; out = attention * sigmoid(gate). Used by mixer_attention.c.
 */
#ifndef MODEL_ATTENTION_GATE_H
#define MODEL_ATTENTION_GATE_H

#include "model/run/attention_weights.h"
#include "model/run/layer_kinds.h"

/* w->q_gate: [all queries; all gates], w->kv: [keys; values]. q_own, kv_own: this rank's rows of
 * queries and of keys; count 0: all. */
MUST_CHECK int attention_gate_load(struct loader *l, uint32_t layer, const struct attention_spec *a,
                                   struct shard_range q_own, struct shard_range kv_own,
                                   struct attention_weights *w);
/* Values a row of its buffer: queries and gates, then keys and values. */
static inline size_t attention_gate_width(const struct attention_spec *a) {
    return a->output_gate ? (size_t)2 * (a->heads + a->kv_heads) * a->head_dim : 0;
}
/* qkv as the ungated product makes it. buffer: act [max_rows, attention_gate_width]. */
void attention_gate_product(struct forward *f, struct stream *s, const struct attention_spec *a,
                            const struct attention_weights *w, void *qkv, void *buffer);
/* mixed *= sigmoid(gate). */
void attention_gate_apply(struct forward *f, struct stream *s, const struct attention_spec *a,
                          void *mixed, const void *buffer);

#endif
