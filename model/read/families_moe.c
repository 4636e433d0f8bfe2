/* Families with experts, one row each, and the rows of their mixtures (spec_read.h and moe_read.h
 * say what the columns mean). */
#include "model/read/moe_read.h"

static const struct moe_family MIXTRAL_MOE = {.experts = "num_local_experts",
                                              .width = "intermediate_size",
                                              .score = ROUTE_SOFTMAX,
                                              .weight = ROUTE_BY_SCORE,
                                              .renormalise = "yes"};
const struct moe_family QWEN2_MOE = {.layers = MOE_STEP,
                                     .experts = "num_experts",
                                     .width = "moe_intermediate_size",
                                     .dense_width = "intermediate_size",
                                     .shared_width = "shared_expert_intermediate_size",
                                     .shared_gate = true,
                                     .score = ROUTE_SOFTMAX,
                                     .weight = ROUTE_BY_SCORE,
                                     .renormalise = "norm_topk_prob"};
const struct moe_family QWEN3_5_MOE = {.experts = "num_experts",
                                       .width = "moe_intermediate_size",
                                       .shared_width = "shared_expert_intermediate_size",
                                       .shared_gate = true,
                                       .score = ROUTE_SOFTMAX,
                                       .weight = ROUTE_BY_SCORE,
                                       .renormalise = "yes"};
static const struct moe_family QWEN3_MOE = {.layers = MOE_STEP,
                                            .experts = "num_experts",
                                            .width = "moe_intermediate_size",
                                            .dense_width = "intermediate_size",
                                            .score = ROUTE_SOFTMAX,
                                            .weight = ROUTE_BY_SCORE,
                                            .renormalise = "norm_topk_prob"};
static const struct moe_family OLMOE_MOE = {.experts = "num_experts",
                                            .width = "intermediate_size",
                                            .score = ROUTE_SOFTMAX,
                                            .weight = ROUTE_BY_SCORE,
                                            .renormalise = "norm_topk_prob"};
static const struct moe_family GRANITE_MOE = {.experts = "num_local_experts",
                                              .width = "intermediate_size",
                                              .shared_width = "shared_intermediate_size",
                                              .score = ROUTE_LOGIT,
                                              .weight = ROUTE_BY_SOFTMAX};
static const struct moe_family DEEPSEEK_MOE = {.layers = MOE_AFTER_FIRST,
                                               .experts = "n_routed_experts",
                                               .width = "moe_intermediate_size",
                                               .dense_width = "intermediate_size",
                                               .shared_count = "n_shared_experts",
                                               .score = ROUTE_SOFTMAX,
                                               .weight = ROUTE_BY_SCORE,
                                               .renormalise = "norm_topk_prob",
                                               .renormalise_eps = 1e-20f};
/* norm_topk_prob means nothing here: the reference implementation scales and never renormalises. */
static const struct moe_family DEEPSEEK_V2_MOE = {.layers = MOE_AFTER_FIRST,
                                                  .experts = "n_routed_experts",
                                                  .width = "moe_intermediate_size",
                                                  .dense_width = "intermediate_size",
                                                  .shared_count = "n_shared_experts",
                                                  .score = ROUTE_SOFTMAX,
                                                  .weight = ROUTE_BY_SCORE,
                                                  .scale = "routed_scaling_factor",
                                                  .group_best = 1,
                                                  .group_when = "topk_method=group_limited_greedy"};
/* DeepSeek-V3, GLM-4.5. */
static const struct moe_family DEEPSEEK_V3_MOE = {.layers = MOE_AFTER_FIRST,
                                                  .experts = "n_routed_experts",
                                                  .width = "moe_intermediate_size",
                                                  .dense_width = "intermediate_size",
                                                  .shared_count = "n_shared_experts",
                                                  .score = ROUTE_SIGMOID,
                                                  .weight = ROUTE_BY_SCORE,
                                                  .renormalise = "norm_topk_prob",
                                                  .renormalise_eps = 1e-20f,
                                                  .scale = "routed_scaling_factor",
                                                  .correction = true,
                                                  .group_best = 2};
static const struct moe_family MINIMAX_M2_MOE = {.experts = "num_local_experts",
                                                 .width = "intermediate_size",
                                                 .score = ROUTE_SIGMOID,
                                                 .weight = ROUTE_BY_SCORE,
                                                 .renormalise = "yes",
                                                 .correction = true};
const struct moe_family LFM2_MOE = {.layers = MOE_AFTER_FIRST,
                                    .experts = "num_experts",
                                    .width = "moe_intermediate_size",
                                    .dense_width = "intermediate_size",
                                    .score = ROUTE_SIGMOID,
                                    .weight = ROUTE_BY_SCORE,
                                    .renormalise = "norm_topk_prob",
                                    .renormalise_eps = 1e-6f,
                                    .scale = "routed_scaling_factor",
                                    .correction = true};
static const struct moe_family GPT_OSS_MOE = {.experts = "num_local_experts",
                                              .width = "intermediate_size",
                                              .score = ROUTE_LOGIT,
                                              .weight = ROUTE_BY_SOFTMAX,
                                              .router_bias = "yes",
                                              .expert_bias = "yes",
                                              .clamped = true};

static const struct moe_family LLAMA4_MOE = {.layers = MOE_LISTED,
                                             .experts = "num_local_experts",
                                             .width = "intermediate_size",
                                             .dense_width = "intermediate_size_mlp",
                                             .shared_width = "intermediate_size",
                                             .score = ROUTE_LOGIT,
                                             .weight = ROUTE_BY_SIGMOID,
                                             .weigh_input = true};
static const struct layer_type LLAMA4_TYPES[] = {
    {.name = "full_attention", .mixer = MIXER_ATTENTION},
    {.name = "chunked_attention", .mixer = MIXER_ATTENTION},
    {.name = NULL}};

const struct family MOE_FAMILIES[] = {
    {.architectures = "MixtralForCausalLM",
     .model_types = "mixtral",
     .name = "mixtral",
     .names = &MIXTRAL_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":131072,"
                 "\"num_key_value_heads\":8,"
                 "\"rms_norm_eps\":1e-5,"
                 "\"rope_theta\":1000000.0,"
                 "\"num_experts_per_tok\":2,"
                 "\"num_local_experts\":8}",
     .aliases = "num_local_experts=num_experts",
     .window = WINDOW_ALWAYS,
     .ffn = FFN_MOE,
     .moe = &MIXTRAL_MOE},
    {.architectures = "Qwen2MoeForCausalLM",
     .model_types = "qwen2_moe",
     .name = "qwen2_moe",
     .names = &EXPERT_NAMES,
     .expects = "dual_chunk_attention_config=*",
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":32768,"
                 "\"num_key_value_heads\":16,"
                 "\"sliding_window\":4096,"
                 "\"max_window_layers\":28,"
                 "\"qkv_bias\":true,"
                 "\"decoder_sparse_step\":1,"
                 "\"moe_intermediate_size\":1408,"
                 "\"shared_expert_intermediate_size\":5632,"
                 "\"num_experts_per_tok\":4,"
                 "\"num_experts\":60,"
                 "\"norm_topk_prob\":false}",
     .aliases = "num_experts=num_local_experts",
     .qkv_bias = "qkv_bias",
     .window = WINDOW_UPPER,
     .ffn = FFN_MOE,
     .moe = &QWEN2_MOE},
    {.architectures = "Qwen3MoeForCausalLM",
     .model_types = "qwen3_moe",
     .name = "qwen3_moe",
     .names = &EXPERT_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":32768,"
                 "\"num_key_value_heads\":4,"
                 "\"sliding_window\":4096,"
                 "\"decoder_sparse_step\":1,"
                 "\"moe_intermediate_size\":768,"
                 "\"num_experts_per_tok\":8,"
                 "\"num_experts\":128,"
                 "\"norm_topk_prob\":false}",
     .aliases = "num_experts=num_local_experts",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .qk_norm = QK_NORM_HEAD,
     .window = WINDOW_SWITCHED,
     .expects = "dual_chunk_attention_config=* max_window_layers=* "
                "shared_expert_intermediate_size=0 use_qk_norm=true",
     .ffn = FFN_MOE,
     .moe = &QWEN3_MOE},
    {.architectures = "OlmoeForCausalLM",
     .model_types = "olmoe",
     .name = "olmoe",
     .names = &EXPERT_NAMES,
     .defaults =
         "{\"tie_word_embeddings\":false,\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-5,"
         "\"num_experts_per_tok\":8,\"num_experts\":64,\"norm_topk_prob\":false}",
     .aliases = "num_experts=num_local_experts",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .qk_norm = QK_NORM_WHOLE,
     .ffn = FFN_MOE,
     .moe = &OLMOE_MOE},
    {.architectures = "GraniteMoeForCausalLM,GraniteMoeSharedForCausalLM",
     .model_types = "granitemoe,granitemoeshared",
     .name = "granitemoe",
     .aliases = "num_local_experts=num_experts",
     .names = &GRANITE_MOE_NAMES,
     .defaults =
         "{\"tie_word_embeddings\":false,\"max_position_embeddings\":2048,\"num_local_experts\":8,"
         "\"num_experts_per_tok\":2,\"shared_intermediate_size\":0,\"attention_multiplier\":1.0}",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .attention_scale = "attention_multiplier",
     .embed_scale = "embedding_multiplier",
     .residual_scale = "residual_multiplier",
     .logit_divisor = "logits_scaling",
     .ffn = FFN_MOE,
     .moe = &GRANITE_MOE},
    {.architectures = "Glm4MoeForCausalLM",
     .model_types = "glm4_moe",
     .name = "glm4_moe",
     .names = &DEEPSEEK_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":131072,"
                 "\"num_key_value_heads\":8,"
                 "\"rms_norm_eps\":1e-5,"
                 "\"moe_intermediate_size\":1408,"
                 "\"num_experts_per_tok\":8,"
                 "\"n_shared_experts\":1,"
                 "\"n_routed_experts\":128,"
                 "\"n_group\":1,"
                 "\"topk_group\":1,"
                 "\"first_k_dense_replace\":1,"
                 "\"norm_topk_prob\":true}",
     .aliases = "n_routed_experts=num_local_experts",
     .qkv_bias = "attention_bias",
     .qk_norm = QK_NORM_HEAD,
     .qk_norm_when = "use_qk_norm",
     .rotary_factor = 0.5,
     .expects = "num_nextn_predict_layers=* num_mtp_layers=*",
     .ffn = FFN_MOE,
     .moe = &DEEPSEEK_V3_MOE},
    {.architectures = "Dots1ForCausalLM",
     .model_types = "dots1",
     .name = "dots1",
     .names = &DEEPSEEK_NAMES,
     .expects = "scoring_func=* topk_method=noaux_tc moe_layer_freq=1",
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":2048,"
                 "\"num_key_value_heads\":32,"
                 "\"moe_intermediate_size\":1408,"
                 "\"n_group\":1,"
                 "\"topk_group\":1,"
                 "\"first_k_dense_replace\":0,"
                 "\"norm_topk_prob\":false,"
                 "\"sliding_window\":4096,"
                 "\"max_window_layers\":62}",
     .aliases = "n_routed_experts=num_local_experts",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .qk_norm = QK_NORM_HEAD,
     .window = WINDOW_FROM,
     .ffn = FFN_MOE,
     .moe = &DEEPSEEK_V3_MOE},
    {.architectures = "MiniMaxM2ForCausalLM",
     .model_types = "minimax_m2",
     .name = "minimax_m2",
     .names = &MIXTRAL_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":196608,"
                 "\"num_key_value_heads\":8,"
                 "\"head_dim\":128,"
                 "\"rope_theta\":5000000.0,"
                 "\"num_local_experts\":256,"
                 "\"num_experts_per_tok\":8}",
     .aliases = "num_local_experts=num_experts",
     .qk_norm = QK_NORM_WHOLE,
     .expects =
         "scoring_func=sigmoid use_routing_bias=true use_qk_norm=true qk_norm_type=per_layer "
         "shared_intermediate_size=0 attn_type_list=* mtp_transformer_layers=* num_mtp_modules=* "
         "use_mtp=* "
         "mlp_intermediate_size=* layernorm_full_attention_beta=1 "
         "layernorm_linear_attention_beta=1 "
         "layernorm_mlp_beta=1 shared_moe_mode=* max_model_len=*",
     .ffn = FFN_MOE,
     .moe = &MINIMAX_M2_MOE},
    {.architectures = "GptOssForCausalLM",
     .model_types = "gpt_oss",
     .name = "gpt_oss",
     .names = &GPT_OSS_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":131072,"
                 "\"num_key_value_heads\":8,"
                 "\"rms_norm_eps\":1e-5,"
                 "\"head_dim\":64,"
                 "\"sliding_window\":128,"
                 "\"sliding_window_pattern\":2,"
                 "\"attention_bias\":true,"
                 "\"num_local_experts\":128,"
                 "\"num_experts_per_tok\":4,"
                 "\"rope_theta\":150000.0}",
     .aliases = "num_local_experts=num_experts",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .window = WINDOW_LISTED,
     .sinks = true,
     .expects = "experts_per_token=* initial_context_length=*",
     .ffn = FFN_MOE,
     .moe = &GPT_OSS_MOE},
    {.architectures = "Llama4ForCausalLM,Llama4ForConditionalGeneration",
     .model_types = "llama4_text",
     .name = "llama4",
     .names = &LLAMA4_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":131072,"
                 "\"num_key_value_heads\":8,"
                 "\"head_dim\":128,"
                 "\"rms_norm_eps\":1e-5,"
                 "\"rope_theta\":500000.0,"
                 "\"intermediate_size\":8192,"
                 "\"intermediate_size_mlp\":16384,"
                 "\"num_experts_per_tok\":1,"
                 "\"num_local_experts\":16,"
                 "\"interleave_moe_layer_step\":1,"
                 "\"use_qk_norm\":true,"
                 "\"attention_chunk_size\":8192,"
                 "\"attn_temperature_tuning\":true,"
                 "\"floor_scale\":8192,"
                 "\"attn_scale\":0.1}",
     .aliases = "num_local_experts=num_experts",
     .layer_types = LLAMA4_TYPES,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .qk_norm = QK_NORM_HEAD,
     .qk_norm_when = "use_qk_norm",
     .qk_norm_plain = true,
     .rope_interleaved = true,
     .nope = NOPE_LISTED,
     .chunk = "attention_chunk_size",
     .temperature = "attn_temperature_tuning",
     .expects = "for_llm_compressor=* cache_implementation=*",
     .ffn = FFN_MOE,
     .moe = &LLAMA4_MOE},
    {.architectures = "DeepseekForCausalLM",
     .model_types = "deepseek",
     .name = "deepseek",
     .names = &DEEPSEEK_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":2048,"
                 "\"norm_topk_prob\":false}",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .expects = "scoring_func=softmax",
     .ffn = FFN_MOE,
     .moe = &DEEPSEEK_MOE},
    {.architectures = "DeepseekV2ForCausalLM",
     .model_types = "deepseek_v2",
     .name = "deepseek_v2",
     .names = &DEEPSEEK_NAMES,
     .defaults =
         "{\"tie_word_embeddings\":false,\"max_position_embeddings\":2048,\"kv_lora_rank\":512,"
         "\"q_lora_rank\":1536,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,"
         "\"n_routed_experts\":64,\"n_shared_experts\":2,\"moe_intermediate_size\":1407,"
         "\"topk_method\":\"greedy\"}",
     .aliases = "n_routed_experts=num_experts",
     .mixer = MIXER_LATENT,
     .qkv_bias = "attention_bias",
     .ffn_bias = "mlp_bias",
     .rope_interleaved = true,
     .expects = "scoring_func=softmax norm_topk_prob=* ep_size=1 moe_layer_freq=1",
     .ffn = FFN_MOE,
     .moe = &DEEPSEEK_V2_MOE},
    {.architectures = "DeepseekV3ForCausalLM",
     .model_types = "deepseek_v3",
     .name = "deepseek_v3",
     .names = &DEEPSEEK_NAMES,
     .defaults =
         "{\"tie_word_embeddings\":false,\"max_position_embeddings\":4096,\"kv_lora_rank\":512,"
         "\"q_lora_rank\":1536,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,"
         "\"n_routed_experts\":256,\"n_shared_experts\":1,\"moe_intermediate_size\":2048,"
         "\"num_experts_per_tok\":8,\"n_group\":8,\"topk_group\":4,\"first_k_dense_replace\":3,"
         "\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"rope_interleave\":true}",
     .aliases = "n_routed_experts=num_local_experts",
     .mixer = MIXER_LATENT,
     .qkv_bias = "attention_bias",
     .rope_interleaved_when = "rope_interleave",
     .expects = "scoring_func=sigmoid topk_method=noaux_tc ep_size=1 moe_layer_freq=1 "
                "num_nextn_predict_layers=* "
                "num_mtp_layers=*",
     .ffn = FFN_MOE,
     .moe = &DEEPSEEK_V3_MOE},
};
const size_t MOE_FAMILY_COUNT = ARRAY_LEN(MOE_FAMILIES);
