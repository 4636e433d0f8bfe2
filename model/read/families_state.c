/* Families whose mixers carry a state, and hybrids of them with attention: one row each, with the
 * tables the rows point to (spec_read.h, state_read.h and moe_read.h say what the columns mean). */
#include "model/read/moe_read.h"
#include "model/read/state_read.h"

/* ---- layer types ---- */

static const struct layer_type GRANITE_HYBRID_TYPES[] = {
    {.name = "mamba", .mixer = MIXER_MAMBA2},
    {.name = "linear_attention", .mixer = MIXER_MAMBA2},
    {.name = "attention", .mixer = MIXER_ATTENTION},
    {.name = "full_attention", .mixer = MIXER_ATTENTION},
    {.name = NULL}};
static const struct layer_type QWEN_NEXT_TYPES[] = {
    {.name = "linear_attention", .mixer = MIXER_DELTA},
    {.name = "full_attention", .mixer = MIXER_ATTENTION},
    {.name = NULL}};
static const struct layer_type LFM2_TYPES[] = {{.name = "conv", .mixer = MIXER_SHORT_CONV},
                                               {.name = "full_attention", .mixer = MIXER_ATTENTION},
                                               {.name = NULL}};
static const struct layer_type RECURRENT_GEMMA_TYPES[] = {
    {.name = "recurrent", .mixer = MIXER_RGLRU},
    {.name = "attention", .mixer = MIXER_ATTENTION, .windowed = true},
    {.name = NULL}};
/* One block a layer. */
static const struct layer_type NEMOTRON_H_TYPES[] = {
    {.name = "mamba", .mixer = MIXER_MAMBA2, .letter = 'M', .own_ffn = true, .ffn = FFN_NONE},
    {.name = "linear_attention",
     .mixer = MIXER_MAMBA2,
     .letter = 'M',
     .own_ffn = true,
     .ffn = FFN_NONE},
    {.name = "attention",
     .mixer = MIXER_ATTENTION,
     .letter = '*',
     .own_ffn = true,
     .ffn = FFN_NONE},
    {.name = "full_attention",
     .mixer = MIXER_ATTENTION,
     .letter = '*',
     .own_ffn = true,
     .ffn = FFN_NONE},
    {.name = "mlp", .mixer = MIXER_NONE, .letter = '-', .own_ffn = true, .ffn = FFN_PLAIN},
    {.name = "moe", .mixer = MIXER_NONE, .letter = 'E', .own_ffn = true, .ffn = FFN_MOE},
    {.name = NULL}};
static const struct layer_type OXIDIZR_TYPES[] = {
    {.name = "mamba", .mixer = MIXER_MAMBA1, .own_ffn = true, .ffn = FFN_NONE},
    {.name = "mamba2", .mixer = MIXER_MAMBA2, .own_ffn = true, .ffn = FFN_NONE},
    {.name = "mamba3", .mixer = MIXER_MAMBA3, .own_ffn = true, .ffn = FFN_NONE},
    {.name = "latent_dense", .mixer = MIXER_LATENT, .own_ffn = true, .ffn = FFN_GATED},
    {.name = "latent_experts", .mixer = MIXER_LATENT, .own_ffn = true, .ffn = FFN_MOE},
    {.name = "attention_dense", .mixer = MIXER_ATTENTION, .own_ffn = true, .ffn = FFN_GATED},
    {.name = "attention_experts", .mixer = MIXER_ATTENTION, .own_ffn = true, .ffn = FFN_MOE},
    {.name = NULL}};

/* ---- what is particular about their mixers with a state ---- */

static const struct state_family MAMBA_STATE[] = {
    {.mixer = MIXER_MAMBA1, .width = "intermediate_size"}, {.mixer = MIXER_NONE}};
static const struct state_family FALCON_MAMBA_STATE[] = {{.mixer = MIXER_MAMBA1,
                                                          .width = "intermediate_size",
                                                          .dt_b_c_norms = true,
                                                          .eps = "mixer_rms_eps"},
                                                         {.mixer = MIXER_NONE}};
static const struct state_family JAMBA_STATE[] = {
    {.mixer = MIXER_MAMBA1, .dt_b_c_norms = true, .dt_b_c_weights = true}, {.mixer = MIXER_NONE}};
static const struct state_family MAMBA2_STATE[] = {{.mixer = MIXER_MAMBA2}, {.mixer = MIXER_NONE}};
/* The class limits the step by the smallest one drawn at the start, whatever time_step_limit says. */
static const struct state_family NEMOTRON_H_STATE[] = {{.mixer = MIXER_MAMBA2,
                                                        .free_width = true,
                                                        .step_low = "time_step_min",
                                                        .activation = "mamba_hidden_act"},
                                                       {.mixer = MIXER_NONE}};
static const struct state_family FALCON_H1_STATE[] = {{.mixer = MIXER_MAMBA2,
                                                       .width = "mamba_d_ssm",
                                                       .norm_when = "mamba_rms_norm",
                                                       .norm_first = "mamba_norm_before_gate",
                                                       .out_bias = "projectors_bias",
                                                       .scales = "ssm_multipliers"},
                                                      {.mixer = MIXER_NONE}};
static const struct multipliers FALCON_H1_MULTIPLIERS = {.key = "key_multiplier",
                                                         .mixer_in = "attention_in_multiplier",
                                                         .mixer_out = "attention_out_multiplier",
                                                         .beside_in = "ssm_in_multiplier",
                                                         .beside_out = "ssm_out_multiplier",
                                                         .ffn = "mlp_multipliers"};
static const struct state_family GRIFFIN_STATE[] = {{.mixer = MIXER_RGLRU}, {.mixer = MIXER_NONE}};
static const struct state_family LFM2_STATE[] = {{.mixer = MIXER_SHORT_CONV},
                                                 {.mixer = MIXER_NONE}};
static const struct state_family QWEN3_NEXT_STATE[] = {{.mixer = MIXER_DELTA, .fused = true},
                                                       {.mixer = MIXER_NONE}};
static const struct state_family QWEN3_5_STATE[] = {{.mixer = MIXER_DELTA}, {.mixer = MIXER_NONE}};
/* Mamba 2 and 3 stand behind a layer norm, and their own norm has one group. */
static const struct state_family OXIDIZR_STATE[] = {
    {.mixer = MIXER_MAMBA1,
     .width = "mamba1_width",
     .state_size = "mamba1_state_size",
     .taps = "mamba1_conv_kernel",
     .rank = "mamba1_rank",
     .conv_bias = "yes",
     .in_bias = "",
     .rising = true,
     .state_limit = 30},
    {.mixer = MIXER_MAMBA2,
     .free_width = true,
     .norm_whole = true,
     .norm = {.kind = NORM_LAYER, .bias = true, .eps = 1e-6f}},
    {.mixer = MIXER_MAMBA3,
     .norm_whole = true,
     .norm = {.kind = NORM_LAYER, .bias = true, .eps = 1e-6f}},
    {.mixer = MIXER_NONE}};

/* ---- their experts ---- */

static const struct moe_family JAMBA_MOE = {.layers = MOE_PERIODIC,
                                            .experts = "num_experts",
                                            .width = "intermediate_size",
                                            .dense_width = "intermediate_size",
                                            .score = ROUTE_SOFTMAX,
                                            .weight = ROUTE_BY_SCORE};
static const struct moe_family NEMOTRON_H_MOE = {.layers = MOE_ALL,
                                                 .experts = "n_routed_experts",
                                                 .width = "moe_intermediate_size",
                                                 .shared_width =
                                                     "moe_shared_expert_intermediate_size",
                                                 .score = ROUTE_SIGMOID,
                                                 .weight = ROUTE_BY_SCORE,
                                                 .renormalise = "norm_topk_prob",
                                                 .renormalise_eps = 1e-20f,
                                                 .scale = "routed_scaling_factor",
                                                 .correction = true,
                                                 .group_best = 2,
                                                 .plain = true,
                                                 .inner_bias = "mlp_bias",
                                                 .latent = "moe_latent_size"};
static const struct moe_family GRANITE_HYBRID_MOE = {.layers = MOE_IF_ANY,
                                                     .experts = "num_local_experts",
                                                     .width = "expert_width",
                                                     .dense_width = "intermediate_size",
                                                     .shared_width = "shared_intermediate_size",
                                                     .score = ROUTE_LOGIT,
                                                     .weight = ROUTE_BY_SOFTMAX};

/* The shared expert is there and added whatever shared_expert_enabled says. */
static const struct moe_family OXIDIZR_MOE = {.experts = "num_experts",
                                              .width = "intermediate_size",
                                              .shared_width = "intermediate_size",
                                              .score = ROUTE_LOGIT,
                                              .weight = ROUTE_BY_SOFTMAX};

/* ---- the rows ---- */

const struct family STATE_FAMILIES[] = {
    {.architectures = "MambaForCausalLM",
     .model_types = "mamba",
     .name = "mamba",
     .names = &MAMBA_NAMES,
     .expects = "d_inner=* d_model=* n_layer=* rms_norm=true",
     .defaults = "{\"tie_word_embeddings\":true,"
                 "\"max_position_embeddings\":131072,"
                 "\"layer_norm_epsilon\":1e-5}",
     .norm_eps = "layer_norm_epsilon",
     .mixer = MIXER_MAMBA1,
     .state = MAMBA_STATE,
     .no_ffn = true},
    {.architectures = "FalconMambaForCausalLM",
     .model_types = "falcon_mamba",
     .name = "falcon_mamba",
     .names = &MAMBA_NAMES,
     .defaults = "{\"tie_word_embeddings\":true,"
                 "\"max_position_embeddings\":131072,"
                 "\"layer_norm_epsilon\":1e-5}",
     .norm_eps = "layer_norm_epsilon",
     .mixer = MIXER_MAMBA1,
     .state = FALCON_MAMBA_STATE,
     .no_ffn = true},
    {.architectures = "Mamba2ForCausalLM",
     .model_types = "mamba2",
     .name = "mamba2",
     .names = &MAMBA2_NAMES,
     .expects = "norm_before_gate=* rms_norm=true intermediate_size=*",
     .aliases = "ssm_heads=num_heads ssm_head_dim=head_dim",
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":131072,"
                 "\"layer_norm_epsilon\":1e-5,"
                 "\"ssm_heads\":128,"
                 "\"ssm_head_dim\":64,"
                 "\"n_groups\":8,"
                 "\"state_size\":128}",
     .norm_eps = "layer_norm_epsilon",
     .mixer = MIXER_MAMBA2,
     .state = MAMBA2_STATE,
     .no_ffn = true},
    {.architectures = "JambaForCausalLM",
     .model_types = "jamba",
     .name = "jamba",
     .names = &JAMBA_NAMES,
     .aliases = "state_size=mamba_d_state conv_kernel=mamba_d_conv expand=mamba_expand "
                "time_step_rank=mamba_dt_rank "
                "use_conv_bias=mamba_conv_bias use_bias=mamba_proj_bias",
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":262144,"
                 "\"num_key_value_heads\":8,"
                 "\"attn_layer_period\":8,"
                 "\"attn_layer_offset\":4,"
                 "\"expert_layer_period\":2,"
                 "\"expert_layer_offset\":1,"
                 "\"num_experts\":16,"
                 "\"num_experts_per_tok\":2}",
     .no_rope = true,
     .ffn = FFN_MOE,
     .moe = &JAMBA_MOE,
     .mixer = MIXER_MAMBA1,
     .attention_period = "attn_layer_period",
     .attention_offset = "attn_layer_offset",
     .state = JAMBA_STATE},
    {.architectures = "BambaForCausalLM",
     .model_types = "bamba",
     .name = "bamba",
     .names = &BAMBA_NAMES,
     .expects = "attn_rotary_emb=*",
     .aliases = "ssm_heads=mamba_n_heads ssm_head_dim=mamba_d_head n_groups=mamba_n_groups "
                "state_size=mamba_d_state "
                "conv_kernel=mamba_d_conv expand=mamba_expand use_conv_bias=mamba_conv_bias "
                "use_bias=mamba_proj_bias",
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":262144,"
                 "\"num_key_value_heads\":8,"
                 "\"rms_norm_eps\":1e-5,"
                 "\"state_size\":256}",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .ffn_bias = "mlp_bias",
     .rotary_factor = 0.5,
     .mixer = MIXER_MAMBA2,
     .attention_listed = "attn_layer_indices",
     .state = MAMBA2_STATE},
    {.architectures = "GraniteMoeHybridForCausalLM",
     .model_types = "granitemoehybrid",
     .name = "granitemoehybrid",
     .names = &GRANITE_HYBRID_NAMES,
     .expects = "normalization_function=rmsnorm intermediate_size=* num_experts_per_tok=*",
     .aliases = "ssm_heads=mamba_n_heads ssm_head_dim=mamba_d_head n_groups=mamba_n_groups "
                "state_size=mamba_d_state "
                "conv_kernel=mamba_d_conv expand=mamba_expand use_conv_bias=mamba_conv_bias "
                "use_bias=mamba_proj_bias "
                "intermediate_size=shared_intermediate_size expert_width=intermediate_size",
     .defaults =
         "{\"tie_word_embeddings\":false,\"max_position_embeddings\":2048,\"state_size\":256,"
         "\"attention_multiplier\":1.0,\"intermediate_size\":1024,\"num_local_experts\":8}",
     .layer_types = GRANITE_HYBRID_TYPES,
     .mixer = MIXER_MAMBA2,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .nope = NOPE_TYPE,
     .attention_scale = "attention_multiplier",
     .embed_scale = "embedding_multiplier",
     .residual_scale = "residual_multiplier",
     .logit_divisor = "logits_scaling",
     .ffn = FFN_MOE,
     .moe = &GRANITE_HYBRID_MOE,
     .state = MAMBA2_STATE},
    {.architectures = "RecurrentGemmaForCausalLM",
     .model_types = "recurrent_gemma",
     .name = "recurrent_gemma",
     .names = &RECURRENT_GEMMA_NAMES,
     .expects = "embeddings_scale_by_sqrt_dim=true",
     .aliases = "sliding_window=attention_window_size hidden_act=hidden_activation "
                "sliding_window=attention_window",
     .defaults =
         "{\"tie_word_embeddings\":true,\"max_position_embeddings\":8192,\"num_key_value_heads\":1,"
         "\"sliding_window\":2048,\"hidden_activation\":\"gelu_pytorch_tanh\",\"logits_soft_cap\":"
         "30.0,"
         "\"block_types\":[\"recurrent\",\"recurrent\",\"attention\"],\"hidden_act\":\"gelu_pytorch_tanh\",\"intermediate_size\":7680}",
     .norm_weight_offset = 1,
     .window = WINDOW_ALWAYS,
     .qkv_bias = "attention_bias",
     .out_bias = "yes",
     .rotary_factor = 0.5,
     .ffn_bias = "yes",
     .embed_scale = "sqrt_hidden",
     .logit_cap = "logits_soft_cap",
     .layer_types = RECURRENT_GEMMA_TYPES,
     .types_field = "block_types",
     .types_repeat = true,
     .state = GRIFFIN_STATE,
     .ffn_halved = true,
     .embed_scale_bf16 = true},
    {.architectures = "NemotronHForCausalLM",
     .model_types = "nemotron_h",
     .name = "nemotron_h",
     .names = &NEMOTRON_H_NAMES,
     .aliases =
         "ssm_heads=mamba_num_heads ssm_head_dim=mamba_head_dim state_size=ssm_state_size "
         "n_groups=mamba_n_groups conv_kernel=mamba_d_conv expand=mamba_expand "
         "use_conv_bias=mamba_conv_bias "
         "time_step_min=mamba_dt_min hidden_act=mlp_hidden_act layer_norm_epsilon=rms_norm_eps "
         "layer_types=layers_block_type head_dim=attention_head_dim layer_norm_epsilon=norm_eps",
     .defaults =
         "{\"tie_word_embeddings\":false,\"max_position_embeddings\":4096,\"num_key_value_heads\":"
         "8,"
         "\"head_dim\":128,\"layer_norm_epsilon\":1e-5,\"n_groups\":8,\"time_step_min\":0.001,\"hidden_act\":\"relu2\","
         "\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":7688,"
         "\"moe_shared_expert_intermediate_size\":7688,\"norm_topk_prob\":true,\"n_group\":1,"
         "\"topk_group\":1,\"intermediate_size\":21504}",
     .norm_eps = "layer_norm_epsilon",
     .ffn_bias = "mlp_bias",
     .no_rope = true,
     .expects = "mamba_proj_bias=* attention_bias=* n_routed_experts=* n_shared_experts=* "
                "moe_intermediate_size=* "
                "moe_shared_expert_intermediate_size=* moe_latent_size=* "
                "moe_shared_expert_overlap=* n_group=* "
                "topk_group=* norm_topk_prob=* routed_scaling_factor=* num_experts_per_tok=* "
                "mtp_layers_block_type=* "
                "num_nextn_predict_layers=0 intermediate_size=*",
     .moe = &NEMOTRON_H_MOE,
     .layer_types = NEMOTRON_H_TYPES,
     .types_field = "layer_types",
     .layer_letters = "hybrid_override_pattern",
     .state = NEMOTRON_H_STATE},
    {.architectures = "FalconH1ForCausalLM",
     .model_types = "falcon_h1",
     .name = "falcon_h1",
     .names = &FALCON_H1_NAMES,
     .aliases = "ssm_heads=mamba_n_heads ssm_head_dim=mamba_d_head n_groups=mamba_n_groups "
                "state_size=mamba_d_state "
                "conv_kernel=mamba_d_conv expand=mamba_expand use_conv_bias=mamba_conv_bias "
                "use_bias=mamba_proj_bias",
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":8192,"
                 "\"num_key_value_heads\":8,"
                 "\"rms_norm_eps\":1e-5,"
                 "\"mamba_d_ssm\":1024,"
                 "\"mamba_norm_before_gate\":true,"
                 "\"state_size\":256}",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .ffn_bias = "mlp_bias",
     .embed_scale = "embedding_multiplier",
     .logit_scale = "lm_head_multiplier",
     .expects = "layers_block_type=* mamba_use_mlp=true mlp_expansion_factor=*",
     .beside = MIXER_MAMBA2,
     .state = FALCON_H1_STATE,
     .multipliers = &FALCON_H1_MULTIPLIERS},
    {.architectures = "Lfm2ForCausalLM",
     .model_types = "lfm2",
     .name = "lfm2",
     .names = &LFM2_NAMES,
     .expects = "block_dim=* block_use_swiglu=true conv_dim=* conv_dim_out=* use_pos_enc=true",
     .aliases = "intermediate_size=block_ff_dim num_attention_heads=num_heads "
                "tie_word_embeddings=tie_embedding "
                "norm_eps=block_norm_eps rope_theta=theta",
     .defaults = "{\"tie_word_embeddings\":true,"
                 "\"block_auto_adjust_ff_dim\":true,"
                 "\"max_position_embeddings\":128000,"
                 "\"num_key_value_heads\":8,"
                 "\"norm_eps\":1e-5,"
                 "\"rope_theta\":1000000.0,"
                 "\"hidden_size\":2560,"
                 "\"intermediate_size\":12288}",
     .norm_eps = "norm_eps",
     .layer_types = LFM2_TYPES,
     .qk_norm = QK_NORM_HEAD,
     .mixer = MIXER_SHORT_CONV,
     .attention_listed = "full_attn_idxs",
     .attention_unlisted = true,
     .state = LFM2_STATE,
     .ffn_two_thirds = "block_auto_adjust_ff_dim"},
    {.architectures = "Lfm2MoeForCausalLM",
     .model_types = "lfm2_moe",
     .name = "lfm2_moe",
     .names = &LFM2_MOE_NAMES,
     .expects = "use_expert_bias=true",
     .aliases = "tie_word_embeddings=tie_embedding first_k_dense_replace:=num_dense_layers",
     .defaults = "{\"tie_word_embeddings\":true,"
                 "\"max_position_embeddings\":128000,"
                 "\"num_attention_heads\":32,"
                 "\"num_key_value_heads\":8,"
                 "\"norm_eps\":1e-5,"
                 "\"rope_theta\":1000000.0,"
                 "\"intermediate_size\":7168,"
                 "\"moe_intermediate_size\":1792,"
                 "\"num_dense_layers\":2,"
                 "\"num_experts\":32,"
                 "\"num_experts_per_tok\":4,"
                 "\"norm_topk_prob\":true,"
                 "\"routed_scaling_factor\":1.0}",
     .norm_eps = "norm_eps",
     .layer_types = LFM2_TYPES,
     .qk_norm = QK_NORM_HEAD,
     .mixer = MIXER_SHORT_CONV,
     .attention_unlisted = true,
     .state = LFM2_STATE,
     .ffn = FFN_MOE,
     .moe = &LFM2_MOE},
    {.architectures = "Qwen3NextForCausalLM",
     .model_types = "qwen3_next",
     .name = "qwen3_next",
     .names = &QWEN3_NEXT_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":32768,"
                 "\"full_attention_interval\":4,\"head_dim\":256,"
                 "\"num_attention_heads\":16,"
                 "\"num_key_value_heads\":2,"
                 "\"num_experts\":512,"
                 "\"num_experts_per_tok\":10,"
                 "\"moe_intermediate_size\":512,"
                 "\"shared_expert_intermediate_size\":512,"
                 "\"norm_topk_prob\":true,"
                 "\"intermediate_size\":5632}",
     .norm_weight_offset = 1,
     .layer_types = QWEN_NEXT_TYPES,
     .mixer = MIXER_DELTA,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .qk_norm = QK_NORM_HEAD,
     .rotary_factor = 0.25,
     .output_gate = true,
     .ffn = FFN_MOE,
     .moe = &QWEN2_MOE,
     .attention_period = "full_attention_interval",
     .state = QWEN3_NEXT_STATE},
    {.architectures = "Qwen3_5ForCausalLM,Qwen3_5ForConditionalGeneration",
     .model_types = "qwen3_5_text,qwen3_5",
     .name = "qwen3_5",
     .names = &QWEN3_5_NAMES,
     .expects = "attn_output_gate=true mtp_num_hidden_layers=* mtp_use_dedicated_embeddings=* "
                "mamba_ssm_dtype=*",
     .defaults =
         "{\"tie_word_embeddings\":false,\"max_position_embeddings\":32768,\"full_attention_interval\":4,\"head_dim\":256,"
         "\"num_attention_heads\":16,\"num_key_value_heads\":4}",
     .norm_weight_offset = 1,
     .layer_types = QWEN_NEXT_TYPES,
     .mixer = MIXER_DELTA,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .qk_norm = QK_NORM_HEAD,
     .rotary_factor = 0.25,
     .output_gate = true,
     .attention_period = "full_attention_interval",
     .state = QWEN3_5_STATE},
    {.architectures = "Qwen3_5MoeForCausalLM,Qwen3_5MoeForConditionalGeneration",
     .model_types = "qwen3_5_moe_text,qwen3_5_moe",
     .name = "qwen3_5_moe",
     .names = &QWEN3_5_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"max_position_embeddings\":32768,"
                 "\"full_attention_interval\":4,\"head_dim\":256,"
                 "\"num_attention_heads\":16,"
                 "\"num_key_value_heads\":2,"
                 "\"num_experts\":256,"
                 "\"num_experts_per_tok\":8,"
                 "\"moe_intermediate_size\":512,"
                 "\"shared_expert_intermediate_size\":512}",
     .expects = "attn_output_gate=true mtp_num_hidden_layers=* mtp_use_dedicated_embeddings=* "
                "mamba_ssm_dtype=*",
     .norm_weight_offset = 1,
     .layer_types = QWEN_NEXT_TYPES,
     .mixer = MIXER_DELTA,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .qk_norm = QK_NORM_HEAD,
     .rotary_factor = 0.25,
     .output_gate = true,
     .ffn = FFN_MOE,
     .moe = &QWEN3_5_MOE,
     .attention_period = "full_attention_interval",
     .state = QWEN3_5_STATE},
    {.architectures = "RwkvForCausalLM",
     .model_types = "rwkv",
     .name = "rwkv",
     .names = &RWKV4_NAMES,
     .aliases = "max_position_embeddings=context_length",
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"rescale_every\":6,"
                 "\"max_position_embeddings\":1024,"
                 "\"layer_norm_epsilon\":1e-5}",
     .norm = NORM_LAYER,
     .norm_bias = "yes",
     .norm_eps = "layer_norm_epsilon",
     .embed_norm = "yes",
     .mixer = MIXER_RWKV4,
     .ffn = FFN_RWKV,
     .final_norm_eps = 1e-5f,
     .halved_every = "rescale_every"},
    {.architectures = "Rwkv6ForCausalLM",
     .model_types = "rwkv6",
     .name = "rwkv6",
     .names = &RWKV6_NAMES,
     .aliases = "max_position_embeddings=max_context_length max_position_embeddings=context_length",
     .defaults = "{\"tie_word_embeddings\":false,"
                 "\"rescale_every\":6,"
                 "\"max_position_embeddings\":131072,"
                 "\"layer_norm_epsilon\":1e-5,"
                 "\"vocab_size\":65536}",
     .norm = NORM_LAYER,
     .norm_bias = "yes",
     .norm_eps = "layer_norm_epsilon",
     .embed_norm = "yes",
     .mixer = MIXER_RWKV6,
     .ffn = FFN_RWKV,
     .expects = "num_attention_heads=* model_version=*",
     .final_norm_eps = 1e-5f,
     .halved_every = "rescale_every"},
    {.architectures = "RWKV7ForCausalLM,Rwkv7ForCausalLM",
     .model_types = "rwkv7",
     .name = "rwkv7",
     .names = &RWKV7_NAMES,
     .defaults =
         "{\"tie_word_embeddings\":false,\"max_position_embeddings\":2048,\"norm_eps\":1e-5,"
         "\"norm_bias\":true,\"norm_first\":true}",
     .norm = NORM_LAYER,
     .norm_bias = "norm_bias",
     .norm_eps = "norm_eps",
     .embed_norm = "norm_first",
     .mixer = MIXER_RWKV7,
     .ffn = FFN_RWKV,
     .expects =
         "attn_mode=* fuse_norm=* fuse_cross_entropy=* fuse_linear_cross_entropy=* use_l2warp=* "
         "hidden_act=sqrelu hidden_ratio=*"},
    {.architectures = "oxidizr",
     .model_types = "oxidizr",
     .name = "oxidizr",
     .names = &OXIDIZR_NAMES,
     .defaults =
         "{\"tie_word_embeddings\":false,\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-5,"
         "\"num_experts_per_tok\":2,\"rope_theta\":10000.0}",
     .aliases = "num_hidden_layers=num_layers max_position_embeddings=max_seq_len "
                "num_key_value_heads=num_kv_heads "
                "num_experts_per_tok=experts_per_tok",
     .mixer = MIXER_LATENT,
     .layer_types = OXIDIZR_TYPES,
     .state = OXIDIZR_STATE,
     .latent_apart = true,
     .expects = "shared_expert_enabled=* tokenizer_vocab=* mamba2_num_heads=* mamba2_head_dim=* "
                "mamba2_state_size=* "
                "mamba2_chunk_size=* mamba2_expand=* mamba2_conv_kernel=* mamba3_enabled=false "
                "mamba3_complex_rope=* mamba3_mimo_rank=* mamba3_use_conv=*",
     .ffn = FFN_MOE,
     .moe = &OXIDIZR_MOE},
};
const size_t STATE_FAMILY_COUNT = ARRAY_LEN(STATE_FAMILIES);
