/* Name tables of families whose mixers carry a state (names.h). */
#include "model/read/names.h"
#include "model/spec.h"

#define L "*layers.%u."

static const struct name_prefix BACKBONE[] = {{"backbone.", ""}, {"", ""}, {0}};
static const struct name_prefix NEMOTRON_PREFIXES[] = {
    {"backbone.", ""}, {"model.", ""}, {"", ""}, {0}};

#define MAMBA_ROLES(at)                                                                            \
    [ROLE_IN] = at "in_proj.weight", [ROLE_IN_BIAS] = at "in_proj.bias",                           \
    [ROLE_CONV] = at "conv1d.weight", [ROLE_CONV_BIAS] = at "conv1d.bias",                         \
    [ROLE_DECAY] = at "A_log", [ROLE_SKIP] = at "D", [ROLE_MIX_OUT] = at "out_proj.weight",        \
    [ROLE_MIX_OUT_BIAS] = at "out_proj.bias"
#define MAMBA1_ROLES(at)                                                                           \
    [ROLE_STEP_PRODUCT] = at "x_proj.weight", [ROLE_STEP] = at "dt_proj.weight",                   \
    [ROLE_STEP_BIAS] = at "dt_proj.bias"
#define MAMBA2_ROLES(at) [ROLE_STEP_BIAS] = at "dt_bias", [ROLE_INNER_NORM] = at "norm.weight"
#define ATTENTION_ROLES(at)                                                                        \
    [ROLE_Q] = at "q_proj.weight", [ROLE_K] = at "k_proj.weight", [ROLE_V] = at "v_proj.weight",   \
    [ROLE_Q_BIAS] = at "q_proj.bias", [ROLE_K_BIAS] = at "k_proj.bias",                            \
    [ROLE_V_BIAS] = at "v_proj.bias", [ROLE_OUT] = at "o_proj.weight",                             \
    [ROLE_OUT_BIAS] = at "o_proj.bias"
#define GATED_ROLES(at)                                                                            \
    [ROLE_GATE] = at "gate_proj.weight", [ROLE_UP] = at "up_proj.weight",                          \
    [ROLE_DOWN] = at "down_proj.weight", [ROLE_GATE_BIAS] = at "gate_proj.bias",                   \
    [ROLE_UP_BIAS] = at "up_proj.bias", [ROLE_DOWN_BIAS] = at "down_proj.bias"

#define EXPERT_ROLES(at)                                                                           \
    [ROLE_EXPERT_GATE] = at "experts.%u.gate_proj.weight",                                         \
    [ROLE_EXPERT_UP] = at "experts.%u.up_proj.weight",                                             \
    [ROLE_EXPERT_DOWN] = at "experts.%u.down_proj.weight",                                         \
    [ROLE_EXPERTS_GATE_UP] = at "experts.gate_up_proj",                                            \
    [ROLE_EXPERTS_DOWN] = at "experts.down_proj"

const struct name_table MAMBA_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embeddings.weight",
                 [ROLE_FINAL_NORM] = "*norm_f.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "norm.weight",
                 MAMBA_ROLES(L "mixer."),
                 MAMBA1_ROLES(L "mixer.")},
    .prefixes = BACKBONE,
};

const struct name_table MAMBA2_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embeddings.weight",
                 [ROLE_FINAL_NORM] = "*norm_f.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "norm.weight",
                 MAMBA_ROLES(L "mixer."),
                 MAMBA2_ROLES(L "mixer.")},
    .prefixes = BACKBONE,
};

/* One block a layer: its norm is the mixer's or the feed-forward's. */
const struct name_table NEMOTRON_H_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embeddings.weight",
                 [ROLE_FINAL_NORM] = "*norm_f.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "norm.weight",
                 [ROLE_FFN_NORM] = L "norm.weight",
                 MAMBA_ROLES(L "mixer."),
                 MAMBA2_ROLES(L "mixer."),
                 ATTENTION_ROLES(L "mixer."),
                 GATED_ROLES(L "mixer."),
                 [ROLE_ROUTER] = L "mixer.gate.weight",
                 [ROLE_ROUTER_CORRECTION] = L "mixer.gate.e_score_correction_bias",
                 [ROLE_EXPERT_UP] = L "mixer.experts.%u.up_proj.weight",
                 [ROLE_EXPERT_DOWN] = L "mixer.experts.%u.down_proj.weight",
                 [ROLE_EXPERTS_UP] = L "mixer.experts.up_proj",
                 [ROLE_EXPERTS_DOWN] = L "mixer.experts.down_proj",
                 [ROLE_SHARED_UP] = L "mixer.shared_experts.up_proj.weight",
                 [ROLE_SHARED_DOWN] = L "mixer.shared_experts.down_proj.weight",
                 [ROLE_SHARED_UP_BIAS] = L "mixer.shared_experts.up_proj.bias",
                 [ROLE_SHARED_DOWN_BIAS] = L "mixer.shared_experts.down_proj.bias",
                 [ROLE_EXPERT_LATENT_IN] = L "mixer.fc1_latent_proj.weight",
                 [ROLE_EXPERT_LATENT_IN_BIAS] = L "mixer.fc1_latent_proj.bias",
                 [ROLE_EXPERT_LATENT_OUT] = L "mixer.fc2_latent_proj.weight",
                 [ROLE_EXPERT_LATENT_OUT_BIAS] = L "mixer.fc2_latent_proj.bias"},
    .prefixes = NEMOTRON_PREFIXES,
};

/* Attention and Mamba 2 beside each other in a layer. */
const struct name_table FALCON_H1_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embed_tokens.weight",
                 [ROLE_FINAL_NORM] = "*final_layernorm.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "input_layernorm.weight",
                 [ROLE_FFN_NORM] = L "pre_ff_layernorm.weight",
                 MAMBA_ROLES(L "mamba."),
                 MAMBA2_ROLES(L "mamba."),
                 ATTENTION_ROLES(L "self_attn."),
                 GATED_ROLES(L "feed_forward.")},
};

const struct name_table JAMBA_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embed_tokens.weight",
                 [ROLE_FINAL_NORM] = "*final_layernorm.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "input_layernorm.weight",
                 [ROLE_FFN_NORM] = L "pre_ff_layernorm.weight",
                 MAMBA_ROLES(L "mamba."),
                 MAMBA1_ROLES(L "mamba."),
                 [ROLE_STEP_NORM] = L "mamba.dt_layernorm.weight",
                 [ROLE_B_NORM] = L "mamba.b_layernorm.weight",
                 [ROLE_C_NORM] = L "mamba.c_layernorm.weight",
                 ATTENTION_ROLES(L "self_attn."),
                 [ROLE_ROUTER] = L "feed_forward.router.weight",
                 EXPERT_ROLES(L "feed_forward."),
                 GATED_ROLES(L "feed_forward.")},
};

const struct name_table BAMBA_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embed_tokens.weight",
                 [ROLE_FINAL_NORM] = "*final_layernorm.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "input_layernorm.weight",
                 [ROLE_FFN_NORM] = L "pre_ff_layernorm.weight",
                 MAMBA_ROLES(L "mamba."),
                 MAMBA2_ROLES(L "mamba."),
                 ATTENTION_ROLES(L "self_attn."),
                 GATED_ROLES(L "feed_forward.")},
};

const struct name_table GRANITE_HYBRID_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embed_tokens.weight",
                 [ROLE_FINAL_NORM] = "*norm.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "input_layernorm.weight",
                 [ROLE_FFN_NORM] = L "post_attention_layernorm.weight",
                 MAMBA_ROLES(L "mamba."),
                 MAMBA2_ROLES(L "mamba."),
                 ATTENTION_ROLES(L "self_attn."),
                 [ROLE_ROUTER] = L "block_sparse_moe.router.layer.weight",
                 [ROLE_EXPERTS_GATE_UP] = L "block_sparse_moe.input_linear.weight",
                 [ROLE_EXPERTS_DOWN] = L "block_sparse_moe.output_linear.weight",
                 [ROLE_SHARED_GATE_UP] = L "shared_mlp.input_linear.weight",
                 [ROLE_SHARED_DOWN] = L "shared_mlp.output_linear.weight",
                 [ROLE_GATE_UP] = L "shared_mlp.input_linear.weight",
                 [ROLE_DOWN] = L "shared_mlp.output_linear.weight"},
};

#define LFM2_ROLES                                                                                 \
    [ROLE_EMBED] = "*embed_tokens.weight", [ROLE_FINAL_NORM] = "*embedding_norm.weight",           \
    [ROLE_HEAD] = "^lm_head.weight", [ROLE_MIXER_NORM] = L "operator_norm.weight",                 \
    [ROLE_FFN_NORM] = L "ffn_norm.weight", [ROLE_IN] = L "conv.in_proj.weight",                    \
    [ROLE_IN_BIAS] = L "conv.in_proj.bias", [ROLE_CONV] = L "conv.conv.weight",                    \
    [ROLE_CONV_BIAS] = L "conv.conv.bias", [ROLE_MIX_OUT] = L "conv.out_proj.weight",              \
    [ROLE_MIX_OUT_BIAS] = L "conv.out_proj.bias", [ROLE_Q] = L "self_attn.q_proj.weight",          \
    [ROLE_K] = L "self_attn.k_proj.weight", [ROLE_V] = L "self_attn.v_proj.weight",                \
    [ROLE_OUT] = L "self_attn.out_proj.weight", [ROLE_Q_NORM] = L "self_attn.q_layernorm.weight",  \
    [ROLE_K_NORM] = L "self_attn.k_layernorm.weight", [ROLE_GATE] = L "feed_forward.w1.weight",    \
    [ROLE_UP] = L "feed_forward.w3.weight", [ROLE_DOWN] = L "feed_forward.w2.weight"

const struct name_table LFM2_NAMES = {.patterns = {LFM2_ROLES}};

const struct name_table LFM2_MOE_NAMES = {
    .patterns = {LFM2_ROLES, [ROLE_ROUTER] = L "feed_forward.gate.weight",
                 [ROLE_ROUTER_CORRECTION] = L "feed_forward.expert_bias",
                 [ROLE_EXPERT_GATE] = L "feed_forward.experts.%u.w1.weight",
                 [ROLE_EXPERT_UP] = L "feed_forward.experts.%u.w3.weight",
                 [ROLE_EXPERT_DOWN] = L "feed_forward.experts.%u.w2.weight",
                 [ROLE_EXPERTS_GATE_UP] = L "feed_forward.experts.gate_up_proj",
                 [ROLE_EXPERTS_DOWN] = L "feed_forward.experts.down_proj"},
};

/* What Qwen3-Next and Qwen3.5 have of experts. */
#define QWEN_EXPERT_ROLES                                                                          \
    EXPERT_ROLES(L "mlp."), [ROLE_ROUTER] = L "mlp.gate.weight",                                   \
                            [ROLE_SHARED_GATE] = L "mlp.shared_expert.gate_proj.weight",           \
                            [ROLE_SHARED_UP] = L "mlp.shared_expert.up_proj.weight",               \
                            [ROLE_SHARED_DOWN] = L "mlp.shared_expert.down_proj.weight",           \
                            [ROLE_SHARED_SWITCH] = L "mlp.shared_expert_gate.weight"
/* Their layers for drafting, and what sees images. */
static const char *const QWEN_IGNORED[] = {"mtp.%s", "model.visual.%s", "visual.%s", NULL};

const struct name_table QWEN3_NEXT_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embed_tokens.weight",
                 [ROLE_FINAL_NORM] = "*norm.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "input_layernorm.weight",
                 [ROLE_FFN_NORM] = L "post_attention_layernorm.weight",
                 [ROLE_IN] = L "linear_attn.in_proj_qkvz.weight",
                 [ROLE_IN_BETA] = L "linear_attn.in_proj_ba.weight",
                 [ROLE_CONV] = L "linear_attn.conv1d.weight",
                 [ROLE_STEP_BIAS] = L "linear_attn.dt_bias",
                 [ROLE_DECAY] = L "linear_attn.A_log",
                 [ROLE_INNER_NORM] = L "linear_attn.norm.weight",
                 [ROLE_MIX_OUT] = L "linear_attn.out_proj.weight",
                 ATTENTION_ROLES(L "self_attn."),
                 [ROLE_Q_NORM] = L "self_attn.q_norm.weight",
                 [ROLE_K_NORM] = L "self_attn.k_norm.weight",
                 QWEN_EXPERT_ROLES,
                 GATED_ROLES(L "mlp.")},
    .ignored = QWEN_IGNORED,
};

const struct name_table QWEN3_5_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embed_tokens.weight",
                 [ROLE_FINAL_NORM] = "*norm.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "input_layernorm.weight",
                 [ROLE_FFN_NORM] = L "post_attention_layernorm.weight",
                 [ROLE_IN] = L "linear_attn.in_proj_qkv.weight",
                 [ROLE_IN_Z] = L "linear_attn.in_proj_z.weight",
                 [ROLE_IN_BETA] = L "linear_attn.in_proj_b.weight",
                 [ROLE_IN_STEP] = L "linear_attn.in_proj_a.weight",
                 [ROLE_CONV] = L "linear_attn.conv1d.weight",
                 [ROLE_STEP_BIAS] = L "linear_attn.dt_bias",
                 [ROLE_DECAY] = L "linear_attn.A_log",
                 [ROLE_INNER_NORM] = L "linear_attn.norm.weight",
                 [ROLE_MIX_OUT] = L "linear_attn.out_proj.weight",
                 ATTENTION_ROLES(L "self_attn."),
                 [ROLE_Q_NORM] = L "self_attn.q_norm.weight",
                 [ROLE_K_NORM] = L "self_attn.k_norm.weight",
                 QWEN_EXPERT_ROLES,
                 GATED_ROLES(L "mlp.")},
    .ignored = QWEN_IGNORED,
};

const struct name_table RECURRENT_GEMMA_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embed_tokens.weight",
                 [ROLE_FINAL_NORM] = "*final_norm.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "temporal_pre_norm.weight",
                 [ROLE_FFN_NORM] = L "channel_pre_norm.weight",
                 [ROLE_IN] = L "temporal_block.linear_x.weight",
                 [ROLE_IN_BIAS] = L "temporal_block.linear_x.bias",
                 [ROLE_IN_Z] = L "temporal_block.linear_y.weight",
                 [ROLE_IN_Z_BIAS] = L "temporal_block.linear_y.bias",
                 [ROLE_MIX_OUT] = L "temporal_block.linear_out.weight",
                 [ROLE_MIX_OUT_BIAS] = L "temporal_block.linear_out.bias",
                 [ROLE_CONV] = L "temporal_block.conv_1d.weight",
                 [ROLE_CONV_BIAS] = L "temporal_block.conv_1d.bias",
                 [ROLE_INPUT_GATE] = L "temporal_block.rg_lru.input_gate_weight",
                 [ROLE_INPUT_GATE_BIAS] = L "temporal_block.rg_lru.input_gate_bias",
                 [ROLE_DECAY_GATE] = L "temporal_block.rg_lru.recurrent_gate_weight",
                 [ROLE_DECAY_GATE_BIAS] = L "temporal_block.rg_lru.recurrent_gate_bias",
                 [ROLE_DECAY] = L "temporal_block.rg_lru.recurrent_param",
                 ATTENTION_ROLES(L "temporal_block."),
                 GATED_ROLES(L "mlp_block.")},
};

#define B "*blocks.%u."
static const struct name_prefix RWKV_PREFIXES[] = {{"rwkv.", ""}, {"", ""}, {0}};
const struct name_table RWKV4_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embeddings.weight",
                 [ROLE_EMBED_NORM] = "*blocks.0.pre_ln.weight",
                 [ROLE_EMBED_NORM_BIAS] = "*blocks.0.pre_ln.bias",
                 [ROLE_FINAL_NORM] = "*ln_out.weight",
                 [ROLE_FINAL_NORM_BIAS] = "*ln_out.bias",
                 [ROLE_HEAD] = "^head.weight",
                 [ROLE_MIXER_NORM] = B "ln1.weight",
                 [ROLE_MIXER_NORM_BIAS] = B "ln1.bias",
                 [ROLE_FFN_NORM] = B "ln2.weight",
                 [ROLE_FFN_NORM_BIAS] = B "ln2.bias",
                 [ROLE_SHIFT_K] = B "attention.time_mix_key",
                 [ROLE_SHIFT_V] = B "attention.time_mix_value",
                 [ROLE_SHIFT_R] = B "attention.time_mix_receptance",
                 [ROLE_DECAY] = B "attention.time_decay",
                 [ROLE_SKIP] = B "attention.time_first",
                 [ROLE_K] = B "attention.key.weight",
                 [ROLE_V] = B "attention.value.weight",
                 [ROLE_R] = B "attention.receptance.weight",
                 [ROLE_MIX_OUT] = B "attention.output.weight",
                 [ROLE_FFN_SHIFT_K] = B "feed_forward.time_mix_key",
                 [ROLE_FFN_SHIFT_R] = B "feed_forward.time_mix_receptance",
                 [ROLE_UP] = B "feed_forward.key.weight",
                 [ROLE_FFN_R] = B "feed_forward.receptance.weight",
                 [ROLE_DOWN] = B "feed_forward.value.weight"},
    .prefixes = RWKV_PREFIXES,
};

/* Heads and channels as in RWKV-4, the vectors renamed. */
const struct name_table RWKV6_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embeddings.weight",
                 [ROLE_EMBED_NORM] = "*blocks.0.pre_ln.weight",
                 [ROLE_EMBED_NORM_BIAS] = "*blocks.0.pre_ln.bias",
                 [ROLE_FINAL_NORM] = "*ln_out.weight",
                 [ROLE_FINAL_NORM_BIAS] = "*ln_out.bias",
                 [ROLE_HEAD] = "^head.weight",
                 [ROLE_MIXER_NORM] = B "ln1.weight",
                 [ROLE_MIXER_NORM_BIAS] = B "ln1.bias",
                 [ROLE_FFN_NORM] = B "ln2.weight",
                 [ROLE_FFN_NORM_BIAS] = B "ln2.bias",
                 [ROLE_SHIFT_X] = B "attention.time_maa_x",
                 [ROLE_SHIFT_W] = B "attention.time_maa_w",
                 [ROLE_SHIFT_K] = B "attention.time_maa_k",
                 [ROLE_SHIFT_V] = B "attention.time_maa_v",
                 [ROLE_SHIFT_R] = B "attention.time_maa_r",
                 [ROLE_SHIFT_G] = B "attention.time_maa_g",
                 [ROLE_SHIFT_DOWN] = B "attention.time_maa_w1",
                 [ROLE_SHIFT_UP] = B "attention.time_maa_w2",
                 [ROLE_DECAY] = B "attention.time_decay",
                 [ROLE_DECAY_DOWN] = B "attention.time_decay_w1",
                 [ROLE_DECAY_UP] = B "attention.time_decay_w2",
                 [ROLE_SKIP] = B "attention.time_faaaa",
                 [ROLE_K] = B "attention.key.weight",
                 [ROLE_V] = B "attention.value.weight",
                 [ROLE_R] = B "attention.receptance.weight",
                 [ROLE_IN_Z] = B "attention.gate.weight",
                 [ROLE_INNER_NORM] = B "attention.ln_x.weight",
                 [ROLE_INNER_NORM_BIAS] = B "attention.ln_x.bias",
                 [ROLE_MIX_OUT] = B "attention.output.weight",
                 [ROLE_FFN_SHIFT_K] = B "feed_forward.time_maa_k",
                 [ROLE_FFN_SHIFT_R] = B "feed_forward.time_maa_r",
                 [ROLE_UP] = B "feed_forward.key.weight",
                 [ROLE_FFN_R] = B "feed_forward.receptance.weight",
                 [ROLE_DOWN] = B "feed_forward.value.weight"},
    .prefixes = RWKV_PREFIXES,
};

/* As flash-linear-attention saves it. */
#define LOW_RANK(role, at)                                                                         \
    [role] = L "attn." at ".lora.0.weight", [role + 1] = L "attn." at ".lora.2.weight"
const struct name_table RWKV7_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embeddings.weight",
                 [ROLE_EMBED_NORM] = "*layers.0.pre_norm.weight",
                 [ROLE_EMBED_NORM_BIAS] = "*layers.0.pre_norm.bias",
                 [ROLE_FINAL_NORM] = "*norm.weight",
                 [ROLE_FINAL_NORM_BIAS] = "*norm.bias",
                 [ROLE_HEAD] = "^lm_head.weight",
                 [ROLE_MIXER_NORM] = L "attn_norm.weight",
                 [ROLE_MIXER_NORM_BIAS] = L "attn_norm.bias",
                 [ROLE_FFN_NORM] = L "ffn_norm.weight",
                 [ROLE_FFN_NORM_BIAS] = L "ffn_norm.bias",
                 [ROLE_SHIFT_R] = L "attn.x_r",
                 [ROLE_SHIFT_W] = L "attn.x_w",
                 [ROLE_SHIFT_K] = L "attn.x_k",
                 [ROLE_SHIFT_V] = L "attn.x_v",
                 [ROLE_SHIFT_A] = L "attn.x_a",
                 [ROLE_SHIFT_G] = L "attn.x_g",
                 [ROLE_KEY_SCALE] = L "attn.k_k",
                 [ROLE_KEY_MIX] = L "attn.k_a",
                 [ROLE_SKIP] = L "attn.r_k",
                 [ROLE_R] = L "attn.r_proj.weight",
                 [ROLE_K] = L "attn.k_proj.weight",
                 [ROLE_V] = L "attn.v_proj.weight",
                 [ROLE_MIX_OUT] = L "attn.o_proj.weight",
                 LOW_RANK(ROLE_DECAY_DOWN, "w_lora"),
                 [ROLE_DECAY] = L "attn.w_lora.lora.2.bias",
                 LOW_RANK(ROLE_RATE_DOWN, "a_lora"),
                 [ROLE_RATE_BIAS] = L "attn.a_lora.lora.2.bias",
                 LOW_RANK(ROLE_VALUE_MIX_DOWN, "v_lora"),
                 [ROLE_VALUE_MIX_BIAS] = L "attn.v_lora.lora.2.bias",
                 LOW_RANK(ROLE_GATE_DOWN, "g_lora"),
                 [ROLE_INNER_NORM] = L "attn.g_norm.weight",
                 [ROLE_INNER_NORM_BIAS] = L "attn.g_norm.bias",
                 [ROLE_FFN_SHIFT_K] = L "ffn.x_k",
                 [ROLE_UP] = L "ffn.key.weight",
                 [ROLE_DOWN] = L "ffn.value.weight"},
};

/* ---- oxidizr's layers of each kind; their norm is among a layer's own tensors ---- */

static const struct name_table OXIDIZR_MAMBA1_NAMES = {
    .patterns = {[ROLE_MIXER_NORM] = L "norm.weight",
                 [ROLE_IN] = L "mamba.in_proj.weight",
                 [ROLE_CONV] = L "mamba.conv1d.weight",
                 [ROLE_CONV_BIAS] = L "mamba.conv1d.bias",
                 [ROLE_DECAY] = L "mamba.a_log",
                 [ROLE_SKIP] = L "mamba.d",
                 [ROLE_MIX_OUT] = L "mamba.out_proj.weight",
                 MAMBA1_ROLES(L "mamba.")},
};

static const struct name_table OXIDIZR_MAMBA2_NAMES = {
    .patterns = {[ROLE_MIXER_NORM] = L "mamba2.norm.weight",
                 [ROLE_MIXER_NORM_BIAS] = L "mamba2.norm.bias",
                 MAMBA_ROLES(L "mamba2.mixer."),
                 MAMBA2_ROLES(L "mamba2.mixer.")},
};

static const struct name_table OXIDIZR_MAMBA3_NAMES = {
    .patterns = {[ROLE_MIXER_NORM] = L "mamba3.norm.weight",
                 [ROLE_MIXER_NORM_BIAS] = L "mamba3.norm.bias",
                 [ROLE_B_NORM] = L "mamba3.mixer.bc_norm.weight",
                 [ROLE_BLEND] = L "mamba3.mixer.lambda_proj.weight",
                 [ROLE_BLEND_BIAS] = L "mamba3.mixer.lambda_proj.bias",
                 [ROLE_TURN] = L "mamba3.mixer.theta_proj.weight",
                 [ROLE_TURN_BIAS] = L "mamba3.mixer.theta_proj.bias",
                 [ROLE_B_BIAS] = L "mamba3.mixer.b_bias",
                 [ROLE_C_BIAS] = L "mamba3.mixer.c_bias",
                 [ROLE_MIMO_UP] = L "mamba3.mixer.mimo_x_up.weight",
                 [ROLE_MIMO_UP_BIAS] = L "mamba3.mixer.mimo_x_up.bias",
                 [ROLE_MIMO_DOWN] = L "mamba3.mixer.mimo_x_down.weight",
                 [ROLE_MIMO_DOWN_BIAS] = L "mamba3.mixer.mimo_x_down.bias",
                 MAMBA_ROLES(L "mamba3.mixer."),
                 MAMBA2_ROLES(L "mamba3.mixer.")},
};

const struct name_table *const OXIDIZR_MIXER_NAMES[MIXER_KIND_COUNT] = {
    [MIXER_MAMBA1] = &OXIDIZR_MAMBA1_NAMES,
    [MIXER_MAMBA2] = &OXIDIZR_MAMBA2_NAMES,
    [MIXER_MAMBA3] = &OXIDIZR_MAMBA3_NAMES};
