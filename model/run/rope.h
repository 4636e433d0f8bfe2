/*
 * rope.h - rotary tables: from config to rope_spec, from rope_spec to inverse frequencies.
 *
 * Sources: Su et al. 2021 (RoPE); linear: Chen et al. 2023; dynamic: bloc97's NTK-aware scaling;
 * YaRN: Peng et al. 2023; LongRoPE: Ding et al. 2024; llama3: Llama 3.1's published rope scaling.
 */
#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H

#include "model/read/spec_read.h"

/* Reads the rotary options that hold for layers of `layer_type` ("full_attention", ...; NULL: of
 * all) and adds the table to the spec, unless an equal one is there; *idx: its index. */
MUST_CHECK int rope_read(struct spec_reader *r, uint32_t head_dim, const char *layer_type,
                         uint32_t *idx);
/* How rotary options say that queries are tempered, into a->temperature...; none: it stays 0. */
void rope_read_query_scale(struct spec_reader *r, struct attention_spec *a);
/* The index of a table of kind ROPE_NONE. */
MUST_CHECK int rope_none(struct spec_reader *r, uint32_t *idx);
/* Whether a table is another one for long sequences: dynamic NTK, LongRoPE. A sequence keeps the
 * table its prompt's length gives it, so that neither chunks nor a replay change a bit; the
 * reference implementations, which take the length of what they compute at once, agree up to where
 * an answer outgrows the original context. */
bool rope_depends_on_length(const struct rope_spec *rope);
/* Whether any table of the model does. */
bool spec_depends_on_length(const struct model_spec *spec);
/* inv_freq[dims / 2] of a rotary table, for sequences of `tokens` tokens (matters to ROPE_DYNAMIC
 * and ROPE_LONG). */
void rope_inv_freq(const struct rope_spec *rope, uint32_t tokens, float *inv_freq);

#endif
