/* gguf_names.h - name tables of GGUF files, by what is fused. */
#ifndef MODEL_GGUF_NAMES_H
#define MODEL_GGUF_NAMES_H

#include "model/read/names.h"

extern const struct name_table GGUF_NAMES;        /* q, k, v, or qkv; gate, up */
extern const struct name_table GGUF_QKV_NAMES;    /* qkv; gate, up (or up alone) */
extern const struct name_table GGUF_FUSED_NAMES;  /* qkv; gate above up */
extern const struct name_table GGUF_FFN_NAMES;    /* q, k, v; gate above up */
extern const struct name_table GGUF_OSS_NAMES;    /* GPT-OSS: with sinks and biases */
extern const struct name_table GGUF_EXPERT_NAMES; /* q, k, v; experts, and a shared one */
extern const struct name_table GGUF_LATENT_NAMES; /* latent attention; the same */
/* The feed-forward's norm is called post_attention_norm. */
extern const struct name_table GGUF_POST_NAMES, GGUF_POST_EXPERT_NAMES;
/* Mamba 1 and 2, and attention; the feed-forwards of above */
extern const struct name_table GGUF_STATE_NAMES;
/* the same where a layer is one block behind attn_norm */
extern const struct name_table GGUF_BLOCK_NAMES;
/* Delta rule, z and the rest of the fused product apart; all of it fused, as files once were; beta
 * and step apart too, value heads in rounds. The feed-forward's norm is called
 * post_attention_norm. */
extern const struct name_table GGUF_DELTA_NAMES, GGUF_DELTA_FUSED_NAMES, GGUF_DELTA_TILED_NAMES;
/* short convolutions; the final norm is called token_embd_norm */
extern const struct name_table GGUF_LFM2_NAMES;
/* Encoders with their norms behind what they add to: of BERT and its kin; with a head that scores. */
extern const struct name_table GGUF_ENCODER_NAMES, GGUF_ENCODER_FUSED_NAMES,
    GGUF_ENCODER_SCORE_NAMES;
/* GGUF_NAMES, with a head that scores in place of one that writes */
extern const struct name_table GGUF_RANK_NAMES;
/* qkv; attn_norm_2 is the attention's, attn_norm the other */
extern const struct name_table GGUF_TWO_NORM_NAMES;

#endif
