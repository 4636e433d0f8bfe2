/* The name tables of the families (names.h). */
#include "model/read/names.h"

/* Old rotary buffers, and the parts of a wrapper that are not the text model. */
#define IGNORED_ALWAYS                                                                             \
    "*layers.%u.self_attn.rotary_emb.inv_freq", "*rotary_emb.inv_freq", "vision_tower.%s",         \
        "vision_model.%s", "multi_modal_projector.%s", "model.vision_tower.%s",                    \
        "model.multi_modal_projector.%s", "model.visual.%s", "visual.%s", "model.vision_model.%s", \
        NULL
static const char *const USUAL_IGNORED[] = {IGNORED_ALWAYS};

static const char *const DECODER_IGNORED[] = {"*h.%u.attn.bias", "*h.%u.attn.masked_bias", NULL};
static const char *const NEOX_IGNORED[] = {"*layers.%u.attention.bias",
                                           "*layers.%u.attention.masked_bias",
                                           "*layers.%u.attention.rotary_emb.inv_freq", NULL};

static const struct name_prefix TRANSFORMER[] = {{"transformer.", ""}, {"", ""}, {NULL, NULL}};
static const struct name_prefix NEOX[] = {{"gpt_neox.", ""}, {"", ""}, {NULL, NULL}};
static const struct name_prefix OPT[] = {
    {"model.decoder.", ""}, {"decoder.", ""}, {"", ""}, {NULL, NULL}};

/* A role's weight and bias (whose role must be the one given). */
#define BOTH(role, role_bias, name) [role] = name ".weight", [role_bias] = name ".bias"

#define L "*layers.%u."
#define ENDS                                                                                       \
    [ROLE_EMBED] = "*embed_tokens.weight", [ROLE_HEAD] = "^lm_head.weight",                        \
    [ROLE_HEAD_BIAS] = "^lm_head.bias"
#define QKV                                                                                        \
    BOTH(ROLE_Q, ROLE_Q_BIAS, L "self_attn.q_proj"),                                               \
        BOTH(ROLE_K, ROLE_K_BIAS, L "self_attn.k_proj"),                                           \
        BOTH(ROLE_V, ROLE_V_BIAS, L "self_attn.v_proj")
#define OUT BOTH(ROLE_OUT, ROLE_OUT_BIAS, L "self_attn.o_proj")
#define QK_NORMS(q, k)                                                                             \
    BOTH(ROLE_Q_NORM, ROLE_Q_NORM_BIAS, L "self_attn." q),                                         \
        BOTH(ROLE_K_NORM, ROLE_K_NORM_BIAS, L "self_attn." k)
#define GATED                                                                                      \
    BOTH(ROLE_GATE, ROLE_GATE_BIAS, L "mlp.gate_proj"),                                            \
        BOTH(ROLE_UP, ROLE_UP_BIAS, L "mlp.up_proj"),                                              \
        BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, L "mlp.down_proj")
#define FUSED_GATED                                                                                \
    [ROLE_GATE_UP] = L "mlp.gate_up_proj.weight", [ROLE_DOWN] = L "mlp.down_proj.weight"
#define FINAL(name) BOTH(ROLE_FINAL_NORM, ROLE_FINAL_NORM_BIAS, "*" name)
#define PRE(mixer, ffn)                                                                            \
    BOTH(ROLE_MIXER_NORM, ROLE_MIXER_NORM_BIAS, L mixer),                                          \
        BOTH(ROLE_FFN_NORM, ROLE_FFN_NORM_BIAS, L ffn)
#define POST(mixer, ffn) [ROLE_MIXER_POST] = L mixer ".weight", [ROLE_FFN_POST] = L ffn ".weight"

const struct name_table LLAMA_NAMES = {
    .patterns =
        {ENDS, QKV, OUT, QK_NORMS("q_norm", "k_norm"), GATED, FINAL("norm"),
         PRE("input_layernorm", "post_attention_layernorm"), [ROLE_SCORE_OUT] = "^score.weight"},
    .ignored = USUAL_IGNORED};
/* OLMo 2 and 3, EXAONE 4. */
const struct name_table OLMO2_NAMES = {
    .patterns = {ENDS, QKV, OUT, QK_NORMS("q_norm", "k_norm"), GATED, FINAL("norm"),
                 POST("post_attention_layernorm", "post_feedforward_layernorm")},
    .ignored = USUAL_IGNORED};
/* Gemma 2 and 3. */
const struct name_table GEMMA2_NAMES = {
    .patterns = {ENDS, QKV, OUT, QK_NORMS("q_norm", "k_norm"), GATED, FINAL("norm"),
                 PRE("input_layernorm", "pre_feedforward_layernorm"),
                 POST("post_attention_layernorm", "post_feedforward_layernorm")},
    .ignored = USUAL_IGNORED};
const struct name_table PHI3_NAMES = {
    .patterns = {ENDS, [ROLE_QKV] = L "self_attn.qkv_proj.weight", OUT, FUSED_GATED, FINAL("norm"),
                 PRE("input_layernorm", "post_attention_layernorm")},
    .ignored = USUAL_IGNORED};
const struct name_table STABLELM_NAMES = {
    .patterns = {ENDS, QKV, OUT, GATED,
                 FINAL("norm"), [ROLE_Q_NORM] = L "self_attn.q_layernorm.norms.%u.weight",
                 [ROLE_K_NORM] = L "self_attn.k_layernorm.norms.%u.weight",
                 PRE("input_layernorm", "post_attention_layernorm")},
    .ignored = USUAL_IGNORED,
    .head_norms = true};
const struct name_table PHI_NAMES = {
    .patterns = {ENDS, QKV, BOTH(ROLE_OUT, ROLE_OUT_BIAS, L "self_attn.dense"),
                 QK_NORMS("q_layernorm", "k_layernorm"), BOTH(ROLE_UP, ROLE_UP_BIAS, L "mlp.fc1"),
                 BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, L "mlp.fc2"), FINAL("final_layernorm"),
                 BOTH(ROLE_MIXER_NORM, ROLE_MIXER_NORM_BIAS, L "input_layernorm")},
    .ignored = USUAL_IGNORED};
const struct name_table STARCODER2_NAMES = {
    .patterns = {ENDS, QKV, OUT, BOTH(ROLE_UP, ROLE_UP_BIAS, L "mlp.c_fc"),
                 BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, L "mlp.c_proj"), FINAL("norm"),
                 PRE("input_layernorm", "post_attention_layernorm")},
    .ignored = USUAL_IGNORED};
const struct name_table GLM_NAMES = {
    .patterns = {ENDS, QKV, OUT, FUSED_GATED, FINAL("norm"),
                 PRE("input_layernorm", "post_attention_layernorm")},
    .ignored = USUAL_IGNORED};
const struct name_table GLM4_NAMES = {
    .patterns = {ENDS, QKV, OUT, FUSED_GATED, FINAL("norm"),
                 PRE("input_layernorm", "post_attention_layernorm"),
                 POST("post_self_attn_layernorm", "post_mlp_layernorm")},
    .ignored = USUAL_IGNORED};

/* ---- older decoders: layers are called h ---- */

#define H "*h.%u."
#define FALCON_COMMON                                                                              \
    [ROLE_EMBED] = "*word_embeddings.weight", [ROLE_HEAD] = "^lm_head.weight",                     \
    BOTH(ROLE_QKV, ROLE_QKV_BIAS, H "self_attention.query_key_value"),                             \
    BOTH(ROLE_OUT, ROLE_OUT_BIAS, H "self_attention.dense"),                                       \
    BOTH(ROLE_UP, ROLE_UP_BIAS, H "mlp.dense_h_to_4h"),                                            \
    BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, H "mlp.dense_4h_to_h"), FINAL("ln_f")
#define PRE_H(mixer, ffn)                                                                          \
    BOTH(ROLE_MIXER_NORM, ROLE_MIXER_NORM_BIAS, H mixer),                                          \
        BOTH(ROLE_FFN_NORM, ROLE_FFN_NORM_BIAS, H ffn)
static const char *const FALCON_IGNORED[] = {"*h.%u.self_attention.rotary_emb.inv_freq", NULL};

const struct name_table FALCON_NAMES = {
    .patterns = {FALCON_COMMON, PRE_H("input_layernorm", "post_attention_layernorm")},
    .prefixes = TRANSFORMER,
    .ignored = FALCON_IGNORED,
    .qkv = QKV_PER_GROUP};
const struct name_table FALCON_TWO_NORM_NAMES = {
    .patterns = {FALCON_COMMON, PRE_H("ln_attn", "ln_mlp")},
    .prefixes = TRANSFORMER,
    .ignored = FALCON_IGNORED,
    .qkv = QKV_PER_GROUP};
const struct name_table BLOOM_NAMES = {
    .patterns = {FALCON_COMMON,
                 BOTH(ROLE_EMBED_NORM, ROLE_EMBED_NORM_BIAS, "*word_embeddings_layernorm"),
                 PRE_H("input_layernorm", "post_attention_layernorm")},
    .prefixes = TRANSFORMER,
    .qkv = QKV_PER_HEAD};
const struct name_table GPT2_NAMES = {.patterns = {[ROLE_EMBED] = "*wte.weight",
                                                   [ROLE_HEAD] = "^lm_head.weight",
                                                   [ROLE_POSITIONS] = "*wpe.weight",
                                                   FINAL("ln_f"),
                                                   PRE_H("ln_1", "ln_2"),
                                                   BOTH(ROLE_QKV, ROLE_QKV_BIAS, H "attn.c_attn"),
                                                   BOTH(ROLE_OUT, ROLE_OUT_BIAS, H "attn.c_proj"),
                                                   BOTH(ROLE_UP, ROLE_UP_BIAS, H "mlp.c_fc"),
                                                   BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, H "mlp.c_proj")},
                                      .prefixes = TRANSFORMER,
                                      .ignored = DECODER_IGNORED,
                                      .transposed = true};
const struct name_table GPTJ_NAMES = {
    .patterns = {[ROLE_EMBED] = "*wte.weight",
                 BOTH(ROLE_HEAD, ROLE_HEAD_BIAS, "^lm_head"),
                 FINAL("ln_f"),
                 BOTH(ROLE_MIXER_NORM, ROLE_MIXER_NORM_BIAS, H "ln_1"),
                 [ROLE_Q] = H "attn.q_proj.weight",
                 [ROLE_K] = H "attn.k_proj.weight",
                 [ROLE_V] = H "attn.v_proj.weight",
                 [ROLE_OUT] = H "attn.out_proj.weight",
                 BOTH(ROLE_UP, ROLE_UP_BIAS, H "mlp.fc_in"),
                 BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, H "mlp.fc_out")},
    .prefixes = TRANSFORMER,
    .ignored = DECODER_IGNORED};
const struct name_table NEOX_NAMES = {
    .patterns = {[ROLE_EMBED] = "*embed_in.weight",
                 [ROLE_HEAD] = "^embed_out.weight",
                 FINAL("final_layer_norm"),
                 PRE("input_layernorm", "post_attention_layernorm"),
                 BOTH(ROLE_QKV, ROLE_QKV_BIAS, L "attention.query_key_value"),
                 BOTH(ROLE_OUT, ROLE_OUT_BIAS, L "attention.dense"),
                 BOTH(ROLE_UP, ROLE_UP_BIAS, L "mlp.dense_h_to_4h"),
                 BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, L "mlp.dense_4h_to_h")},
    .prefixes = NEOX,
    .ignored = NEOX_IGNORED,
    .qkv = QKV_PER_HEAD};
const struct name_table OPT_NAMES = {
    .patterns =
        {ENDS, QKV, [ROLE_POSITIONS] = "*embed_positions.weight",
         [ROLE_PROJECT_IN] = "*project_in.weight", [ROLE_PROJECT_OUT] = "*project_out.weight",
         FINAL("final_layer_norm"), PRE("self_attn_layer_norm", "final_layer_norm"),
         BOTH(ROLE_OUT, ROLE_OUT_BIAS, L "self_attn.out_proj"),
         BOTH(ROLE_UP, ROLE_UP_BIAS, L "fc1"), BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, L "fc2")},
    .prefixes = OPT};
#define B "*blocks.%u."
const struct name_table MPT_NAMES = {
    .patterns = {[ROLE_EMBED] = "*wte.weight",
                 [ROLE_HEAD] = "^lm_head.weight",
                 FINAL("norm_f"),
                 BOTH(ROLE_MIXER_NORM, ROLE_MIXER_NORM_BIAS, B "norm_1"),
                 BOTH(ROLE_FFN_NORM, ROLE_FFN_NORM_BIAS, B "norm_2"),
                 BOTH(ROLE_QKV, ROLE_QKV_BIAS, B "attn.Wqkv"),
                 BOTH(ROLE_OUT, ROLE_OUT_BIAS, B "attn.out_proj"),
                 BOTH(ROLE_UP, ROLE_UP_BIAS, B "ffn.up_proj"),
                 BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, B "ffn.down_proj")},
    .prefixes = TRANSFORMER};

/* ---- encoders: no head is served ---- */

static const struct name_prefix ENCODER[] = {
    {"bert.", ""}, {"roberta.", ""}, {"", ""}, {NULL, NULL}};
static const char *const ENCODER_IGNORED[] = {"*embeddings.position_ids",
                                              "*pooler.dense.weight",
                                              "*pooler.dense.bias",
                                              "cls.%s",
                                              "lm_head.%s",
                                              NULL};
#define E "*encoder.layer.%u."
#define ENCODER_ATTENTION                                                                          \
    [ROLE_EMBED] = "*embeddings.word_embeddings.weight",                                           \
    [ROLE_TOKEN_TYPES] = "*embeddings.token_type_embeddings.weight",                               \
    BOTH(ROLE_EMBED_NORM, ROLE_EMBED_NORM_BIAS, "*embeddings.LayerNorm"),                          \
    BOTH(ROLE_Q, ROLE_Q_BIAS, E "attention.self.query"),                                           \
    BOTH(ROLE_K, ROLE_K_BIAS, E "attention.self.key"),                                             \
    BOTH(ROLE_V, ROLE_V_BIAS, E "attention.self.value"),                                           \
    BOTH(ROLE_OUT, ROLE_OUT_BIAS, E "attention.output.dense"),                                     \
    BOTH(ROLE_MIXER_NORM, ROLE_MIXER_NORM_BIAS, E "attention.output.LayerNorm")
#define ENCODER_PATTERNS                                                                           \
    ENCODER_ATTENTION, [ROLE_POSITIONS] = "*embeddings.position_embeddings.weight",                \
                       BOTH(ROLE_UP, ROLE_UP_BIAS, E "intermediate.dense"),                        \
                       BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, E "output.dense"),                          \
                       BOTH(ROLE_FFN_NORM, ROLE_FFN_NORM_BIAS, E "output.LayerNorm")
const struct name_table BERT_NAMES = {
    .patterns = {ENCODER_PATTERNS}, .prefixes = ENCODER, .ignored = ENCODER_IGNORED};
/* BERT without positions; its feed-forward is gated, by the first half of one product. */
const struct name_table JINA_BERT_NAMES = {
    .patterns = {ENCODER_ATTENTION, [ROLE_GATE_UP] = E "mlp.gated_layers.weight",
                 BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, E "mlp.wo"),
                 BOTH(ROLE_FFN_NORM, ROLE_FFN_NORM_BIAS, E "mlp.layernorm")},
    .prefixes = ENCODER,
    .ignored = ENCODER_IGNORED};
static const char *const BERT_SCORE_IGNORED[] = {"*embeddings.position_ids", NULL};
const struct name_table BERT_SCORE_NAMES = {
    .patterns = {ENCODER_PATTERNS, BOTH(ROLE_SCORE_DENSE, ROLE_SCORE_DENSE_BIAS, "*pooler.dense"),
                 BOTH(ROLE_SCORE_OUT, ROLE_SCORE_OUT_BIAS, "classifier")},
    .prefixes = ENCODER,
    .ignored = BERT_SCORE_IGNORED};
const struct name_table ROBERTA_SCORE_NAMES = {
    .patterns = {ENCODER_PATTERNS,
                 BOTH(ROLE_SCORE_DENSE, ROLE_SCORE_DENSE_BIAS, "classifier.dense"),
                 BOTH(ROLE_SCORE_OUT, ROLE_SCORE_OUT_BIAS, "classifier.out_proj")},
    .prefixes = ENCODER,
    .ignored = ENCODER_IGNORED};

#define N "encoder.layers.%u."
const struct name_table NOMIC_BERT_NAMES = {
    .patterns = {[ROLE_EMBED] = "embeddings.word_embeddings.weight",
                 [ROLE_TOKEN_TYPES] = "embeddings.token_type_embeddings.weight",
                 BOTH(ROLE_EMBED_NORM, ROLE_EMBED_NORM_BIAS, "emb_ln"),
                 BOTH(ROLE_QKV, ROLE_QKV_BIAS, N "attn.Wqkv"),
                 BOTH(ROLE_OUT, ROLE_OUT_BIAS, N "attn.out_proj"),
                 BOTH(ROLE_MIXER_NORM, ROLE_MIXER_NORM_BIAS, N "norm1"),
                 BOTH(ROLE_UP, ROLE_UP_BIAS, N "mlp.fc11"),
                 BOTH(ROLE_GATE, ROLE_GATE_BIAS, N "mlp.fc12"),
                 BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, N "mlp.fc2"),
                 BOTH(ROLE_FFN_NORM, ROLE_FFN_NORM_BIAS, N "norm2")}};

static const struct name_prefix MODERNBERT[] = {{"model.", ""}, {"", ""}, {NULL, NULL}};
static const char *const MODERNBERT_IGNORED[] = {"head.%s", "decoder.%s", NULL};
#define MODERNBERT_PATTERNS                                                                        \
    [ROLE_EMBED] = "*embeddings.tok_embeddings.weight",                                            \
    BOTH(ROLE_EMBED_NORM, ROLE_EMBED_NORM_BIAS, "*embeddings.norm"),                               \
    BOTH(ROLE_QKV, ROLE_QKV_BIAS, L "attn.Wqkv"), BOTH(ROLE_OUT, ROLE_OUT_BIAS, L "attn.Wo"),      \
    BOTH(ROLE_MIXER_NORM, ROLE_MIXER_NORM_BIAS, L "attn_norm"),                                    \
    BOTH(ROLE_FFN_NORM, ROLE_FFN_NORM_BIAS, L "mlp_norm"),                                         \
    BOTH(ROLE_GATE_UP, ROLE_GATE_UP_BIAS, L "mlp.Wi"),                                             \
    BOTH(ROLE_DOWN, ROLE_DOWN_BIAS, L "mlp.Wo"), FINAL("final_norm")
const struct name_table MODERNBERT_NAMES = {
    .patterns = {MODERNBERT_PATTERNS}, .prefixes = MODERNBERT, .ignored = MODERNBERT_IGNORED};
const struct name_table MODERNBERT_SCORE_NAMES = {
    .patterns = {MODERNBERT_PATTERNS, BOTH(ROLE_SCORE_DENSE, ROLE_SCORE_DENSE_BIAS, "head.dense"),
                 BOTH(ROLE_SCORE_NORM, ROLE_SCORE_NORM_BIAS, "head.norm"),
                 BOTH(ROLE_SCORE_OUT, ROLE_SCORE_OUT_BIAS, "classifier")},
    .prefixes = MODERNBERT};
