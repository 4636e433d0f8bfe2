/* gguf_names.h - name tables of GGUF files, by what is fused. */
#ifndef MODEL_GGUF_NAMES_H
#define MODEL_GGUF_NAMES_H

#include "model/names.h"

extern const struct name_table GGUF_NAMES;        /* q, k, v; gate, up */
extern const struct name_table GGUF_QKV_NAMES;    /* qkv; gate, up (or up alone) */
extern const struct name_table GGUF_FUSED_NAMES;  /* qkv; gate above up */
extern const struct name_table GGUF_FFN_NAMES;    /* q, k, v; gate above up */
extern const struct name_table GGUF_OSS_NAMES;    /* GPT-OSS: with sinks and biases */
extern const struct name_table GGUF_EXPERT_NAMES; /* q, k, v; experts, and a shared one */

#endif
