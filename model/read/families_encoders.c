/* Encoders, one row each (spec_read.h says what the columns mean). EmbeddingGemma stands beside
 * Gemma 3 in families.c. */
#include "model/read/spec_read.h"

/* What encoders share whose norms stand behind what they add to. */
#define POST_NORM_ENCODER                                                                          \
    .bidirectional = true, .token_types = "type_vocab_size", .places = PLACES_RESIDUAL,            \
    .final_norm = "", .embed_norm = "yes", .norm = NORM_LAYER, .norm_bias = "yes",                 \
    .kv_heads = KV_HEADS

/* BERT and what follows it. */
#define ENCODER_OPTIONS                                                                            \
    POST_NORM_ENCODER,                                                                             \
        .expects = "position_embedding_type=absolute is_decoder=false add_cross_attention=false",  \
        .learned_positions = "yes", .no_rope = true, .qkv_bias = "yes", .out_bias = "yes",         \
        .ffn = FFN_PLAIN, .ffn_bias = "yes"

#define BERT_DEFAULTS                                                                              \
    "{\"vocab_size\":30522,"                                                                       \
    "\"hidden_size\":768,"                                                                         \
    "\"num_hidden_layers\":12,"                                                                    \
    "\"num_attention_heads\":12,"                                                                  \
    "\"intermediate_size\":3072,"                                                                  \
    "\"max_position_embeddings\":512,"                                                             \
    "\"type_vocab_size\":2,"                                                                       \
    "\"hidden_act\":\"gelu\","                                                                     \
    "\"layer_norm_eps\":1e-12}"

/* RoBERTa's positions begin behind the padding token, 1. */
#define ROBERTA_OPTIONS                                                                            \
    ENCODER_OPTIONS,                                                                               \
        .defaults = "{\"vocab_size\":50265,"                                                       \
                    "\"hidden_size\":768,"                                                         \
                    "\"num_hidden_layers\":12,"                                                    \
                    "\"num_attention_heads\":12,"                                                  \
                    "\"intermediate_size\":3072,"                                                  \
                    "\"max_position_embeddings\":512,"                                             \
                    "\"type_vocab_size\":2,"                                                       \
                    "\"hidden_act\":\"gelu\","                                                     \
                    "\"layer_norm_eps\":1e-12}",                                                   \
        .position_offset = 2, .positions_inclusive = true

/* BERT with rotation in place of a table of positions, gated feed-forwards, and few biases. Its fields
 * have GPT-2's names. */
#define NOMIC_BERT_OPTIONS                                                                         \
    .defaults = "{\"vocab_size\":30528,"                                                           \
                "\"hidden_size\":768,"                                                             \
                "\"num_hidden_layers\":12,"                                                        \
                "\"num_attention_heads\":12,"                                                      \
                "\"intermediate_size\":3072,"                                                      \
                "\"max_position_embeddings\":8192,"                                                \
                "\"type_vocab_size\":2,"                                                           \
                "\"hidden_act\":\"silu\","                                                         \
                "\"rope_theta\":1000.0,"                                                           \
                "\"layer_norm_eps\":1e-12}",                                                       \
    .aliases = "hidden_size=n_embd num_hidden_layers=n_layer num_attention_heads=n_head "          \
               "intermediate_size=n_inner max_position_embeddings=n_positions "                    \
               "hidden_act=activation_function rope_theta=rotary_emb_base "                        \
               "layer_norm_eps=layer_norm_epsilon",                                                \
    .expects = "prenorm=false causal=false use_rms_norm=false rotary_emb_fraction=1 "              \
               "rotary_emb_interleaved=false parallel_block=false shared_ln=false "                \
               "parallel_block_tied_norm=* rotary_emb_scale_base=null rotary_scaling_factor=null " \
               "scale_attn_weights=true scale_attn_by_inverse_layer_idx=false "                    \
               "reorder_and_upcast_attn=* fused_bias_fc=* fused_dropout_add_ln=* "                 \
               "dense_seq_output=* use_flash_attn=* use_xentropy=* max_trained_positions=* "       \
               "mlp_fc2_bias=*",                                                                   \
    .qkv_bias = "qkv_proj_bias", .out_bias = "qkv_proj_bias", .ffn_bias = "mlp_fc1_bias",          \
    POST_NORM_ENCODER

/* Its class knows no layer_norm_eps and no position_embedding_type, which published files have. */
#define MODERNBERT_OPTIONS                                                                         \
    .defaults = "{\"vocab_size\":50368,"                                                           \
                "\"hidden_size\":768,"                                                             \
                "\"intermediate_size\":1152,"                                                      \
                "\"num_hidden_layers\":22,"                                                        \
                "\"num_attention_heads\":12,"                                                      \
                "\"hidden_activation\":\"gelu\","                                                  \
                "\"classifier_activation\":\"gelu\","                                              \
                "\"max_position_embeddings\":8192,"                                                \
                "\"norm_eps\":1e-05,"                                                              \
                "\"local_attention\":128,"                                                         \
                "\"global_rope_theta\":160000.0,"                                                  \
                "\"local_rope_theta\":10000.0}",                                                   \
    .aliases = "hidden_act:=hidden_activation sliding_window:=local_attention "                    \
               "rope_theta:=global_rope_theta rope_local_base_freq:=local_rope_theta",             \
    .expects = "layer_norm_eps=* position_embedding_type=* classifier_activation=* "               \
               "classifier_bias=* classifier_pooling=* decoder_bias=* "                            \
               "deterministic_flash_attn=* mlp_dropout=* reference_compile=* "                     \
               "repad_logits_with_grad=* sparse_prediction=* sparse_pred_ignore_index=*",          \
    .bidirectional = true, .norm = NORM_LAYER, .norm_bias = "norm_bias", .norm_eps = "norm_eps",   \
    .embed_norm = "yes", .first_bare = true, .window = WINDOW_SPACED, .local_rope = true,          \
    .qkv_bias = "attention_bias", .out_bias = "attention_bias", .ffn_bias = "mlp_bias",            \
    .kv_heads = KV_HEADS

const struct family ENCODER_FAMILIES[] = {
    {.architectures = "BertModel,BertForMaskedLM",
     .model_types = "bert",
     .name = "bert",
     .names = &BERT_NAMES,
     .defaults = BERT_DEFAULTS,
     ENCODER_OPTIONS},
    {.architectures = "BertForSequenceClassification",
     .model_types = "",
     .name = "bert-score",
     .names = &BERT_SCORE_NAMES,
     .score = SCORE_TANH,
     .defaults = BERT_DEFAULTS,
     ENCODER_OPTIONS},
    {.architectures = "JinaBertModel,JinaBertForMaskedLM",
     .model_types = "",
     .name = "jina-bert",
     .names = &JINA_BERT_NAMES,
     .defaults = BERT_DEFAULTS,
     .expects = "position_embedding_type=alibi feed_forward_type=geglu emb_pooler=mean "
                "is_decoder=false add_cross_attention=false attn_implementation=*",
     .alibi = "yes",
     .qkv_bias = "yes",
     .out_bias = "yes",
     .down_bias = "yes",
     POST_NORM_ENCODER},
    {.architectures = "RobertaModel,RobertaForMaskedLM,XLMRobertaModel,XLMRobertaForMaskedLM",
     .model_types = "roberta,xlm-roberta",
     .name = "roberta",
     .names = &BERT_NAMES,
     ROBERTA_OPTIONS},
    {.architectures = "RobertaForSequenceClassification,XLMRobertaForSequenceClassification",
     .model_types = "",
     .name = "roberta-score",
     .names = &ROBERTA_SCORE_NAMES,
     .score = SCORE_TANH,
     ROBERTA_OPTIONS},
    {.architectures = "NomicBertModel",
     .model_types = "nomic_bert",
     .name = "nomic-bert",
     .names = &NOMIC_BERT_NAMES,
     NOMIC_BERT_OPTIONS},
    {.architectures = "ModernBertModel,ModernBertForMaskedLM",
     .model_types = "modernbert",
     .name = "modernbert",
     .names = &MODERNBERT_NAMES,
     MODERNBERT_OPTIONS},
    {.architectures = "ModernBertForSequenceClassification",
     .model_types = "",
     .name = "modernbert-score",
     .names = &MODERNBERT_SCORE_NAMES,
     .score = SCORE_NORMED,
     .score_pooling = "classifier_pooling",
     .score_bias = "classifier_bias",
     MODERNBERT_OPTIONS},
};
const size_t ENCODER_FAMILY_COUNT = ARRAY_LEN(ENCODER_FAMILIES);
