#include "model/names.h"

#include <ctype.h>
#include <stdio.h>

static const char *const LLAMA_IGNORED[] = {"model.layers.%u.self_attn.rotary_emb.inv_freq",
                                            "model.rotary_emb.inv_freq", NULL};

#define LAYER "model.layers.%u."
const struct name_table LLAMA_NAMES = {
    .patterns =
        {
            [ROLE_EMBED] = "model.embed_tokens.weight",
            [ROLE_FINAL_NORM] = "model.norm.weight",
            [ROLE_HEAD] = "lm_head.weight",
            [ROLE_MIXER_NORM] = LAYER "input_layernorm.weight",
            [ROLE_Q] = LAYER "self_attn.q_proj.weight",
            [ROLE_K] = LAYER "self_attn.k_proj.weight",
            [ROLE_V] = LAYER "self_attn.v_proj.weight",
            [ROLE_Q_BIAS] = LAYER "self_attn.q_proj.bias",
            [ROLE_K_BIAS] = LAYER "self_attn.k_proj.bias",
            [ROLE_V_BIAS] = LAYER "self_attn.v_proj.bias",
            [ROLE_OUT] = LAYER "self_attn.o_proj.weight",
            [ROLE_OUT_BIAS] = LAYER "self_attn.o_proj.bias",
            [ROLE_FFN_NORM] = LAYER "post_attention_layernorm.weight",
            [ROLE_GATE] = LAYER "mlp.gate_proj.weight",
            [ROLE_UP] = LAYER "mlp.up_proj.weight",
            [ROLE_DOWN] = LAYER "mlp.down_proj.weight",
            [ROLE_GATE_BIAS] = LAYER "mlp.gate_proj.bias",
            [ROLE_UP_BIAS] = LAYER "mlp.up_proj.bias",
            [ROLE_DOWN_BIAS] = LAYER "mlp.down_proj.bias",
        },
    .ignored = LLAMA_IGNORED,
};

void role_name(const struct name_table *names, enum weight_role role, uint32_t layer, char out[TENSOR_NAME_MAX]) {
    const char *pattern = names->patterns[role], *hole = strstr(pattern, "%u");
    if (!hole)
        snprintf(out, TENSOR_NAME_MAX, "%s", pattern);
    else
        snprintf(out, TENSOR_NAME_MAX, "%.*s%u%s", (int)(hole - pattern), pattern, layer, hole + 2);
}

static bool matches(const char *pattern, const char *name) {
    const char *hole = strstr(pattern, "%u");
    if (!hole) return !strcmp(pattern, name);
    size_t head = (size_t)(hole - pattern);
    if (strncmp(pattern, name, head) || !isdigit((unsigned char)name[head])) return false;
    name += head;
    while (isdigit((unsigned char)*name)) name++;
    return !strcmp(hole + 2, name);
}

bool name_is_ignored(const struct name_table *names, const char *name) {
    for (const char *const *p = names->ignored; p && *p; p++)
        if (matches(*p, name)) return true;
    return false;
}
