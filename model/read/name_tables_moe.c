/* Name tables of families with experts and latent attention (names.h). The second "%u" is the
 * expert. */
#include "model/read/names.h"

#define L "*layers.%u."
static const char *const IGNORED[] = {L "self_attn.rotary_emb.inv_freq", "*rotary_emb.inv_freq",
                                      "vision_model.%s", "multi_modal_projector.%s", NULL};

#define ENDS_AND_ATTENTION                                                                         \
    [ROLE_EMBED] = "*embed_tokens.weight", [ROLE_FINAL_NORM] = "*norm.weight",                     \
    [ROLE_HEAD] = "^lm_head.weight", [ROLE_MIXER_NORM] = L "input_layernorm.weight",               \
    [ROLE_FFN_NORM] = L "post_attention_layernorm.weight", [ROLE_Q] = L "self_attn.q_proj.weight", \
    [ROLE_K] = L "self_attn.k_proj.weight", [ROLE_V] = L "self_attn.v_proj.weight",                \
    [ROLE_OUT] = L "self_attn.o_proj.weight", [ROLE_Q_BIAS] = L "self_attn.q_proj.bias",           \
    [ROLE_K_BIAS] = L "self_attn.k_proj.bias", [ROLE_V_BIAS] = L "self_attn.v_proj.bias",          \
    [ROLE_OUT_BIAS] = L "self_attn.o_proj.bias", [ROLE_Q_NORM] = L "self_attn.q_norm.weight",      \
    [ROLE_K_NORM] = L "self_attn.k_norm.weight"

#define LATENT                                                                                     \
    [ROLE_LATENT_Q_DOWN] = L "self_attn.q_a_proj.weight",                                          \
    [ROLE_LATENT_Q_DOWN_BIAS] = L "self_attn.q_a_proj.bias",                                       \
    [ROLE_LATENT_Q_NORM] = L "self_attn.q_a_layernorm.weight",                                     \
    [ROLE_LATENT_Q_UP] = L "self_attn.q_b_proj.weight",                                            \
    [ROLE_LATENT_KV_DOWN] = L "self_attn.kv_a_proj_with_mqa.weight",                               \
    [ROLE_LATENT_KV_DOWN_BIAS] = L "self_attn.kv_a_proj_with_mqa.bias",                            \
    [ROLE_LATENT_KV_NORM] = L "self_attn.kv_a_layernorm.weight",                                   \
    [ROLE_LATENT_KV_UP] = L "self_attn.kv_b_proj.weight"

#define DENSE_FFN(at)                                                                              \
    [ROLE_GATE] = L at ".gate_proj.weight", [ROLE_UP] = L at ".up_proj.weight",                    \
    [ROLE_DOWN] = L at ".down_proj.weight", [ROLE_GATE_BIAS] = L at ".gate_proj.bias",             \
    [ROLE_UP_BIAS] = L at ".up_proj.bias", [ROLE_DOWN_BIAS] = L at ".down_proj.bias"

/* A tensor for each expert, or one of three dimensions for all. */
#define EXPERTS                                                                                    \
    [ROLE_ROUTER] = L "mlp.gate.weight",                                                           \
    [ROLE_ROUTER_CORRECTION] = L "mlp.gate.e_score_correction_bias",                               \
    [ROLE_EXPERT_GATE] = L "mlp.experts.%u.gate_proj.weight",                                      \
    [ROLE_EXPERT_UP] = L "mlp.experts.%u.up_proj.weight",                                          \
    [ROLE_EXPERT_DOWN] = L "mlp.experts.%u.down_proj.weight",                                      \
    [ROLE_EXPERTS_GATE_UP] = L "mlp.experts.gate_up_proj",                                         \
    [ROLE_EXPERTS_DOWN] = L "mlp.experts.down_proj"
#define SHARED(at)                                                                                 \
    [ROLE_SHARED_GATE] = L at ".gate_proj.weight", [ROLE_SHARED_UP] = L at ".up_proj.weight",      \
    [ROLE_SHARED_DOWN] = L at ".down_proj.weight"

/* Qwen, OLMoE. */
const struct name_table EXPERT_NAMES = {
    .patterns =
        {ENDS_AND_ATTENTION, DENSE_FFN("mlp"), EXPERTS,
         SHARED("mlp.shared_expert"), [ROLE_SHARED_SWITCH] = L "mlp.shared_expert_gate.weight"},
    .ignored = IGNORED,
};

/* DeepSeek, GLM-4.5: behind the last layer may lie one for drafting. */
const struct name_table DEEPSEEK_NAMES = {
    .patterns = {ENDS_AND_ATTENTION, LATENT, DENSE_FFN("mlp"), EXPERTS,
                 SHARED("mlp.shared_experts")},
    .ignored = IGNORED,
    .extra_layers = true,
};

const struct name_table MIXTRAL_NAMES = {
    .patterns = {ENDS_AND_ATTENTION, [ROLE_ROUTER] = L "block_sparse_moe.gate.weight",
                 [ROLE_ROUTER_CORRECTION] = L "block_sparse_moe.e_score_correction_bias",
                 [ROLE_EXPERT_GATE] = L "block_sparse_moe.experts.%u.w1.weight",
                 [ROLE_EXPERT_UP] = L "block_sparse_moe.experts.%u.w3.weight",
                 [ROLE_EXPERT_DOWN] = L "block_sparse_moe.experts.%u.w2.weight",
                 [ROLE_EXPERTS_GATE_UP] = L "block_sparse_moe.experts.gate_up_proj",
                 [ROLE_EXPERTS_DOWN] = L "block_sparse_moe.experts.down_proj"},
    .ignored = IGNORED,
    .extra_layers = true,
};

const struct name_table GRANITE_MOE_NAMES = {
    .patterns = {ENDS_AND_ATTENTION, [ROLE_ROUTER] = L "block_sparse_moe.router.layer.weight",
                 [ROLE_EXPERTS_GATE_UP] = L "block_sparse_moe.input_linear.weight",
                 [ROLE_EXPERTS_DOWN] = L "block_sparse_moe.output_linear.weight",
                 [ROLE_SHARED_GATE_UP] = L "shared_mlp.input_linear.weight",
                 [ROLE_SHARED_DOWN] = L "shared_mlp.output_linear.weight"},
    .ignored = IGNORED,
};

const struct name_table GPT_OSS_NAMES = {
    .patterns = {ENDS_AND_ATTENTION, [ROLE_SINKS] = L "self_attn.sinks",
                 [ROLE_ROUTER] = L "mlp.router.weight", [ROLE_ROUTER_BIAS] = L "mlp.router.bias",
                 [ROLE_EXPERTS_GATE_UP] = L "mlp.experts.gate_up_proj",
                 [ROLE_EXPERTS_DOWN] = L "mlp.experts.down_proj",
                 [ROLE_EXPERTS_GATE_UP_BIAS] = L "mlp.experts.gate_up_proj_bias",
                 [ROLE_EXPERTS_DOWN_BIAS] = L "mlp.experts.down_proj_bias",
                 [ROLE_EXPERTS_GATE_UP_BLOCKS] = L "mlp.experts.gate_up_proj_blocks",
                 [ROLE_EXPERTS_GATE_UP_SCALES] = L "mlp.experts.gate_up_proj_scales",
                 [ROLE_EXPERTS_DOWN_BLOCKS] = L "mlp.experts.down_proj_blocks",
                 [ROLE_EXPERTS_DOWN_SCALES] = L "mlp.experts.down_proj_scales"},
    .ignored = IGNORED,
    .experts_transposed = true,
};

const struct name_table LLAMA4_NAMES = {
    .patterns =
        {ENDS_AND_ATTENTION, DENSE_FFN("feed_forward"),
         SHARED("feed_forward.shared_expert"), [ROLE_ROUTER] = L "feed_forward.router.weight",
         [ROLE_EXPERTS_GATE_UP] = L "feed_forward.experts.gate_up_proj",
         [ROLE_EXPERTS_DOWN] = L "feed_forward.experts.down_proj"},
    .ignored = IGNORED,
    .experts_transposed = true,
};

/* oxidizr's: no prefix, nothing fused; state space layers have tables of their own
 * (name_tables_state.c). */
const struct name_table OXIDIZR_NAMES = {
    .patterns =
        {ENDS_AND_ATTENTION, DENSE_FFN("mlp"),
         SHARED("moe.shared_expert"), [ROLE_LATENT_Q_DOWN] = L "self_attn.w_dq.weight",
         [ROLE_LATENT_Q_UP] = L "self_attn.w_uq.weight",
         [ROLE_LATENT_Q_ROPE] = L "self_attn.w_qr.weight",
         [ROLE_LATENT_KV_DOWN] = L "self_attn.w_dkv.weight",
         [ROLE_LATENT_K_ROPE] = L "self_attn.w_kr.weight",
         [ROLE_LATENT_K_UP] = L "self_attn.w_uk.weight",
         [ROLE_LATENT_V_UP] = L "self_attn.w_uv.weight", [ROLE_ROUTER] = L "moe.router.gate.weight",
         [ROLE_EXPERT_GATE] = L "moe.experts.%u.gate_proj.weight",
         [ROLE_EXPERT_UP] = L "moe.experts.%u.up_proj.weight",
         [ROLE_EXPERT_DOWN] = L "moe.experts.%u.down_proj.weight"},
    .by_mixer = OXIDIZR_MIXER_NAMES,
};
