/* The name tables of the families (names.h). */
#include "model/names.h"

/* Old rotary buffers, and the parts of a wrapper that are not the text model. */
#define IGNORED_ALWAYS                                                                                                 \
    "*layers.%u.self_attn.rotary_emb.inv_freq", "*rotary_emb.inv_freq", "vision_tower.%s", "vision_model.%s",          \
        "multi_modal_projector.%s", "model.vision_tower.%s", "model.multi_modal_projector.%s", "model.visual.%s",      \
        "visual.%s", "model.vision_model.%s", NULL
static const char *const USUAL_IGNORED[] = {IGNORED_ALWAYS};

#define L "*layers.%u."
const struct name_table LLAMA_NAMES = {
    .patterns =
        {
            [ROLE_EMBED] = "*embed_tokens.weight",
            [ROLE_FINAL_NORM] = "*norm.weight",
            [ROLE_HEAD] = "^lm_head.weight",
            [ROLE_MIXER_NORM] = L "input_layernorm.weight",
            [ROLE_Q] = L "self_attn.q_proj.weight",
            [ROLE_K] = L "self_attn.k_proj.weight",
            [ROLE_V] = L "self_attn.v_proj.weight",
            [ROLE_Q_BIAS] = L "self_attn.q_proj.bias",
            [ROLE_K_BIAS] = L "self_attn.k_proj.bias",
            [ROLE_V_BIAS] = L "self_attn.v_proj.bias",
            [ROLE_OUT] = L "self_attn.o_proj.weight",
            [ROLE_OUT_BIAS] = L "self_attn.o_proj.bias",
            [ROLE_FFN_NORM] = L "post_attention_layernorm.weight",
            [ROLE_GATE] = L "mlp.gate_proj.weight",
            [ROLE_UP] = L "mlp.up_proj.weight",
            [ROLE_DOWN] = L "mlp.down_proj.weight",
            [ROLE_GATE_BIAS] = L "mlp.gate_proj.bias",
            [ROLE_UP_BIAS] = L "mlp.up_proj.bias",
            [ROLE_DOWN_BIAS] = L "mlp.down_proj.bias",
        },
    .ignored = USUAL_IGNORED,
};
