/* GGUF's names of tensors: one set for all architectures, but for what some of them fuse. */
#include "model/read/gguf_names.h"

static const char *const IGNORED[] = {"rope_freqs.weight",         "rope_factors_long.weight",
                                      "rope_factors_short.weight", "blk.%u.attn_rot_embd.weight",
                                      "blk.%u.rope_freqs.weight",  NULL};

/* BERT's pooler, which makes no embeddings */
static const char *const ENCODER_IGNORED[] = {"cls.weight", "cls.bias", NULL};

#define L "blk.%u."
#define COMMON                                                                                     \
    [ROLE_EMBED] = "token_embd.weight", [ROLE_EMBED_NORM] = "token_embd_norm.weight",              \
    [ROLE_EMBED_NORM_BIAS] = "token_embd_norm.bias", [ROLE_POSITIONS] = "position_embd.weight",    \
    [ROLE_FINAL_NORM] = "output_norm.weight", [ROLE_FINAL_NORM_BIAS] = "output_norm.bias",         \
    [ROLE_HEAD] = "output.weight", [ROLE_HEAD_BIAS] = "output.bias",                               \
    [ROLE_MIXER_NORM] = L "attn_norm.weight", [ROLE_MIXER_NORM_BIAS] = L "attn_norm.bias",         \
    [ROLE_MIXER_POST] = L "post_attention_norm.weight", [ROLE_FFN_NORM] = L "ffn_norm.weight",     \
    [ROLE_FFN_NORM_BIAS] = L "ffn_norm.bias", [ROLE_FFN_POST] = L "post_ffw_norm.weight",          \
    [ROLE_OUT] = L "attn_output.weight", [ROLE_OUT_BIAS] = L "attn_output.bias",                   \
    [ROLE_Q_NORM] = L "attn_q_norm.weight", [ROLE_K_NORM] = L "attn_k_norm.weight",                \
    [ROLE_Q_NORM_BIAS] = L "attn_q_norm.bias", [ROLE_K_NORM_BIAS] = L "attn_k_norm.bias",          \
    [ROLE_DOWN] = L "ffn_down.weight", [ROLE_DOWN_BIAS] = L "ffn_down.bias"
#define QKV_APART                                                                                  \
    [ROLE_Q] = L "attn_q.weight", [ROLE_K] = L "attn_k.weight", [ROLE_V] = L "attn_v.weight",      \
    [ROLE_Q_BIAS] = L "attn_q.bias", [ROLE_K_BIAS] = L "attn_k.bias",                              \
    [ROLE_V_BIAS] = L "attn_v.bias"
#define QKV_FUSED [ROLE_QKV] = L "attn_qkv.weight", [ROLE_QKV_BIAS] = L "attn_qkv.bias"
#define FFN_APART                                                                                  \
    [ROLE_GATE] = L "ffn_gate.weight", [ROLE_GATE_BIAS] = L "ffn_gate.bias",                       \
    [ROLE_UP] = L "ffn_up.weight", [ROLE_UP_BIAS] = L "ffn_up.bias"
#define FFN_FUSED [ROLE_GATE_UP] = L "ffn_up.weight", [ROLE_GATE_UP_BIAS] = L "ffn_up.bias"

const struct name_table GGUF_NAMES = {.patterns = {COMMON, QKV_APART, QKV_FUSED, FFN_APART},
                                      .ignored = IGNORED};
const struct name_table GGUF_QKV_NAMES = {.patterns = {COMMON, QKV_FUSED, FFN_APART},
                                          .ignored = IGNORED};
const struct name_table GGUF_FUSED_NAMES = {.patterns = {COMMON, QKV_FUSED, FFN_FUSED},
                                            .ignored = IGNORED};
const struct name_table GGUF_FFN_NAMES = {.patterns = {COMMON, QKV_APART, QKV_FUSED, FFN_FUSED},
                                          .ignored = IGNORED};

#define EXPERTS                                                                                    \
    [ROLE_ROUTER] = L "ffn_gate_inp.weight", [ROLE_ROUTER_BIAS] = L "ffn_gate_inp.bias",           \
    [ROLE_ROUTER_CORRECTION] = L "exp_probs_b.bias", [ROLE_EXPERT_GATE] = L "ffn_gate.%u.weight",  \
    [ROLE_EXPERT_UP] = L "ffn_up.%u.weight", [ROLE_EXPERT_DOWN] = L "ffn_down.%u.weight",          \
    [ROLE_EXPERTS_GATE_UP] = L "ffn_gate_up_exps.weight",                                          \
    [ROLE_EXPERTS_GATE] = L "ffn_gate_exps.weight", [ROLE_EXPERTS_UP] = L "ffn_up_exps.weight",    \
    [ROLE_EXPERTS_DOWN] = L "ffn_down_exps.weight",                                                \
    [ROLE_SHARED_GATE] = L "ffn_gate_shexp.weight", [ROLE_SHARED_UP] = L "ffn_up_shexp.weight",    \
    [ROLE_SHARED_DOWN] = L "ffn_down_shexp.weight",                                                \
    [ROLE_SHARED_SWITCH] = L "ffn_gate_inp_shexp.weight"
#define LATENT                                                                                     \
    [ROLE_Q] = L "attn_q.weight", [ROLE_LATENT_Q_DOWN] = L "attn_q_a.weight",                      \
    [ROLE_LATENT_Q_DOWN_BIAS] = L "attn_q_a.bias",                                                 \
    [ROLE_LATENT_Q_NORM] = L "attn_q_a_norm.weight", [ROLE_LATENT_Q_UP] = L "attn_q_b.weight",     \
    [ROLE_LATENT_KV_DOWN] = L "attn_kv_a_mqa.weight",                                              \
    [ROLE_LATENT_KV_DOWN_BIAS] = L "attn_kv_a_mqa.bias",                                           \
    [ROLE_LATENT_KV_NORM] = L "attn_kv_a_norm.weight", [ROLE_LATENT_KV_UP] = L "attn_kv_b.weight", \
    [ROLE_LATENT_K_UP] = L "attn_k_b.weight", [ROLE_LATENT_V_UP] = L "attn_v_b.weight"

#define STATE                                                                                      \
    [ROLE_IN] = L "ssm_in.weight", [ROLE_IN_BIAS] = L "ssm_in.bias",                               \
    [ROLE_CONV] = L "ssm_conv1d.weight", [ROLE_CONV_BIAS] = L "ssm_conv1d.bias",                   \
    [ROLE_STEP_PRODUCT] = L "ssm_x.weight", [ROLE_STEP] = L "ssm_dt.weight",                       \
    [ROLE_STEP_BIAS] = L "ssm_dt.bias", [ROLE_DECAY] = L "ssm_a", [ROLE_SKIP] = L "ssm_d",         \
    [ROLE_STEP_NORM] = L "ssm_dt_norm.weight", [ROLE_B_NORM] = L "ssm_b_norm.weight",              \
    [ROLE_C_NORM] = L "ssm_c_norm.weight", [ROLE_INNER_NORM] = L "ssm_norm.weight",                \
    [ROLE_MIX_OUT] = L "ssm_out.weight", [ROLE_MIX_OUT_BIAS] = L "ssm_out.bias"
const struct name_table GGUF_STATE_NAMES = {
    .patterns = {COMMON, QKV_APART, FFN_APART, EXPERTS, STATE}, .ignored = IGNORED};

#define DELTA                                                                                      \
    [ROLE_CONV] = L "ssm_conv1d.weight", [ROLE_STEP_BIAS] = L "ssm_dt.bias",                       \
    [ROLE_DECAY] = L "ssm_a", [ROLE_INNER_NORM] = L "ssm_norm.weight",                             \
    [ROLE_MIX_OUT] = L "ssm_out.weight"
#define DELTA_APART [ROLE_IN] = L "attn_qkv.weight", [ROLE_IN_Z] = L "attn_gate.weight"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored                                                                     \
    "-Woverride-init" /* tables that differ from the common one in a name or two */
const struct name_table GGUF_POST_NAMES = {
    .patterns =
        {COMMON, QKV_APART, QKV_FUSED,
         FFN_APART, [ROLE_FFN_NORM] = L "post_attention_norm.weight", [ROLE_MIXER_POST] = NULL},
    .ignored = IGNORED};
const struct name_table GGUF_POST_EXPERT_NAMES = {
    .patterns =
        {COMMON, QKV_APART, QKV_FUSED, FFN_APART,
         EXPERTS, [ROLE_FFN_NORM] = L "post_attention_norm.weight", [ROLE_MIXER_POST] = NULL},
    .ignored = IGNORED};
const struct name_table GGUF_TWO_NORM_NAMES = {
    .patterns = {COMMON, QKV_FUSED, FFN_APART, [ROLE_MIXER_NORM] = L "attn_norm_2.weight",
                 [ROLE_MIXER_NORM_BIAS] = L "attn_norm_2.bias",
                 [ROLE_FFN_NORM] = L "attn_norm.weight", [ROLE_FFN_NORM_BIAS] = L "attn_norm.bias"},
    .ignored = IGNORED};
const struct name_table GGUF_BLOCK_NAMES = {
    .patterns = {COMMON, QKV_APART, FFN_APART, EXPERTS,
                 STATE, [ROLE_FFN_NORM] = L "attn_norm.weight",
                 [ROLE_SHARED_UP_BIAS] = L "ffn_up_shexp.bias",
                 [ROLE_SHARED_DOWN_BIAS] = L "ffn_down_shexp.bias",
                 [ROLE_EXPERT_LATENT_IN] = L "ffn_latent_down.weight",
                 [ROLE_EXPERT_LATENT_IN_BIAS] = L "ffn_latent_down.bias",
                 [ROLE_EXPERT_LATENT_OUT] = L "ffn_latent_up.weight",
                 [ROLE_EXPERT_LATENT_OUT_BIAS] = L "ffn_latent_up.bias"},
    .ignored = IGNORED,
    .extra_layers = true};
#define DELTA_NORMS [ROLE_FFN_NORM] = L "post_attention_norm.weight", [ROLE_MIXER_POST] = NULL
const struct name_table GGUF_DELTA_NAMES = {
    .patterns = {COMMON, QKV_APART, FFN_APART, EXPERTS, DELTA, DELTA_NORMS,
                 DELTA_APART, [ROLE_IN_BETA] = L "ssm_ba.weight"},
    .ignored = IGNORED,
    .extra_layers = true};
const struct name_table GGUF_DELTA_FUSED_NAMES = {
    .patterns = {COMMON, QKV_APART, FFN_APART, EXPERTS, DELTA,
                 DELTA_NORMS, [ROLE_IN] = L "ssm_in.weight", [ROLE_IN_BETA] = L "ssm_ba.weight"},
    .ignored = IGNORED,
    .extra_layers = true};
const struct name_table GGUF_DELTA_TILED_NAMES = {
    .patterns =
        {COMMON, QKV_APART, FFN_APART, DELTA, DELTA_NORMS,
         DELTA_APART, [ROLE_IN_BETA] = L "ssm_beta.weight", [ROLE_IN_STEP] = L "ssm_alpha.weight"},
    .ignored = IGNORED,
    .extra_layers = true};
const struct name_table GGUF_LFM2_NAMES = {
    .patterns =
        {COMMON, QKV_APART, FFN_APART, [ROLE_EMBED_NORM] = NULL,
         [ROLE_FINAL_NORM] = "token_embd_norm.weight", [ROLE_IN] = L "shortconv.in_proj.weight",
         [ROLE_IN_BIAS] = L "shortconv.in_proj.bias", [ROLE_CONV] = L "shortconv.conv.weight",
         [ROLE_CONV_BIAS] = L "shortconv.conv.bias", [ROLE_MIX_OUT] = L "shortconv.out_proj.weight",
         [ROLE_MIX_OUT_BIAS] = L "shortconv.out_proj.bias"},
    .ignored = IGNORED};
#define ENCODER_NORMS                                                                              \
    [ROLE_TOKEN_TYPES] = "token_types.weight", [ROLE_MIXER_NORM] = L "attn_output_norm.weight",    \
    [ROLE_MIXER_NORM_BIAS] = L "attn_output_norm.bias",                                            \
    [ROLE_FFN_NORM] = L "layer_output_norm.weight",                                                \
    [ROLE_FFN_NORM_BIAS] = L "layer_output_norm.bias"
const struct name_table GGUF_ENCODER_NAMES = {
    .patterns = {COMMON, QKV_APART, QKV_FUSED, FFN_APART, ENCODER_NORMS},
    .ignored = ENCODER_IGNORED};
const struct name_table GGUF_ENCODER_FUSED_NAMES = {
    .patterns = {COMMON, QKV_APART, QKV_FUSED, FFN_FUSED, ENCODER_NORMS},
    .ignored = ENCODER_IGNORED};
const struct name_table GGUF_ENCODER_SCORE_NAMES = {
    .patterns = {
        COMMON, QKV_APART, QKV_FUSED, FFN_APART,
        ENCODER_NORMS, [ROLE_SCORE_DENSE] = "cls.weight", [ROLE_SCORE_DENSE_BIAS] = "cls.bias",
        [ROLE_SCORE_OUT] = "cls.output.weight", [ROLE_SCORE_OUT_BIAS] = "cls.output.bias"}};
#pragma GCC diagnostic pop
const struct name_table GGUF_RANK_NAMES = {
    .patterns = {COMMON, QKV_APART, QKV_FUSED, FFN_APART, [ROLE_SCORE_OUT] = "cls.output.weight"},
    .ignored = IGNORED};
const struct name_table GGUF_LATENT_NAMES = {.patterns = {COMMON, LATENT, FFN_APART, EXPERTS},
                                             .ignored = IGNORED};
const struct name_table GGUF_EXPERT_NAMES = {
    .patterns = {COMMON, QKV_APART, QKV_FUSED, FFN_APART, EXPERTS}, .ignored = IGNORED};
const struct name_table GGUF_OSS_NAMES = {
    .patterns = {[ROLE_EMBED] = "token_embd.weight",
                 [ROLE_FINAL_NORM] = "output_norm.weight",
                 [ROLE_HEAD] = "output.weight",
                 [ROLE_MIXER_NORM] = L "attn_norm.weight",
                 [ROLE_FFN_NORM] = L "post_attention_norm.weight",
                 [ROLE_OUT] = L "attn_output.weight",
                 [ROLE_OUT_BIAS] = L "attn_output.bias",
                 [ROLE_SINKS] = L "attn_sinks.weight",
                 [ROLE_EXPERTS_GATE_BIAS] = L "ffn_gate_exps.bias",
                 [ROLE_EXPERTS_UP_BIAS] = L "ffn_up_exps.bias",
                 [ROLE_EXPERTS_DOWN_BIAS] = L "ffn_down_exps.bias",
                 QKV_APART,
                 EXPERTS},
    .ignored = IGNORED};
