/* Dense decoders since Llama, one row each (spec_read.h says what the columns mean). */
#include "model/read/spec_read.h"

/* Gemma 3, and the same with positions that see what is behind them (EmbeddingGemma). */
#define GEMMA3_OPTIONS                                                                             \
    .defaults = "{\"max_position_embeddings\":131072,"                                             \
                "\"tie_word_embeddings\":true,"                                                    \
                "\"vocab_size\":262208,"                                                           \
                "\"hidden_size\":2304,"                                                            \
                "\"intermediate_size\":9216,"                                                      \
                "\"num_hidden_layers\":26,"                                                        \
                "\"num_attention_heads\":8,"                                                       \
                "\"num_key_value_heads\":4,"                                                       \
                "\"head_dim\":256,"                                                                \
                "\"hidden_act\":\"gelu_pytorch_tanh\","                                            \
                "\"sliding_window\":4096,"                                                         \
                "\"sliding_window_pattern\":6,"                                                    \
                "\"query_pre_attn_scalar\":256,"                                                   \
                "\"rope_theta\":1000000.0,"                                                        \
                "\"rope_local_base_freq\":10000.0}",                                               \
    .aliases = "hidden_act=hidden_activation", .places = PLACES_SANDWICH, .window = WINDOW_LISTED, \
    .local_rope = true, .qk_norm = QK_NORM_HEAD, .attention_scale_of = "query_pre_attn_scalar",    \
    .attention_cap = "attn_logit_softcapping", .logit_cap = "final_logit_softcapping",             \
    .norm_weight_offset = 1, .embed_scale = "sqrt_hidden", .qkv_bias = "attention_bias",           \
    .out_bias = "attention_bias"

const struct family FAMILIES[] = {
    {.architectures = "LlamaForCausalLM,LLaMAForCausalLM",
     .model_types = "llama",
     .name = "llama",
     .names = &LLAMA_NAMES,
     .aliases = "max_position_embeddings=max_sequence_length",
     .defaults = "{\"max_position_embeddings\":2048,\"tie_word_embeddings\":false}",
     .ffn_bias = "mlp_bias",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "ArceeForCausalLM",
     .model_types = "arcee",
     .name = "arcee",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":4096,"
                 "\"tie_word_embeddings\":false,"
                 "\"rms_norm_eps\":1e-05,"
                 "\"hidden_act\":\"relu2\"}",
     .ffn = FFN_PLAIN,
     .ffn_bias = "mlp_bias",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "CwmForCausalLM",
     .model_types = "cwm",
     .name = "cwm",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":131072,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":8,"
                 "\"head_dim\":128,"
                 "\"rms_norm_eps\":1e-05,"
                 "\"rope_theta\":1000000.0,"
                 "\"sliding_window\":8192,"
                 "\"sliding_window_pattern\":\"GLLL\"}",
     .window = WINDOW_LISTED,
     .ffn_bias = "mlp_bias"},
    {.architectures = "HeliumForCausalLM",
     .model_types = "helium",
     .name = "helium",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":4096,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":20,"
                 "\"head_dim\":128,"
                 "\"rms_norm_eps\":1e-08,"
                 "\"rope_theta\":100000.0}",
     .ffn_bias = "mlp_bias",
     .qkv_bias = "attention_bias",
     .rope_interleaved = true},
    {.architectures = "MistralForCausalLM",
     .model_types = "mistral",
     .name = "mistral",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":131072,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":8,"
                 "\"sliding_window\":4096}",
     .window = WINDOW_ALWAYS},
    {.architectures = "MinistralForCausalLM",
     .model_types = "ministral",
     .name = "ministral",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":131072,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":8,"
                 "\"sliding_window\":4096,"
                 "\"sliding_window_pattern\":1048576}",
     .window = WINDOW_LISTED},
    {.architectures = "Ministral3ForCausalLM",
     .model_types = "ministral3",
     .name = "ministral3",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":262144,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":8,"
                 "\"head_dim\":128,"
                 "\"rms_norm_eps\":1e-5}",
     .expects = "rope_parameters/max_position_embeddings=*",
     .rope_scales_queries = true,
     .window = WINDOW_ALWAYS},
    {.architectures = "Qwen2ForCausalLM",
     .model_types = "qwen2",
     .name = "qwen2",
     .names = &LLAMA_NAMES,
     .expects = "dual_chunk_attention_config=*",
     .defaults = "{\"max_position_embeddings\":32768,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":32,"
                 "\"sliding_window\":4096,"
                 "\"max_window_layers\":28}",
     .qkv_bias = "yes",
     .window = WINDOW_UPPER},
    {.architectures = "Qwen3ForCausalLM",
     .model_types = "qwen3",
     .name = "qwen3",
     .names = &LLAMA_NAMES,
     .expects = "dual_chunk_attention_config=*",
     .defaults = "{\"max_position_embeddings\":32768,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":32,"
                 "\"head_dim\":128,"
                 "\"sliding_window\":4096,"
                 "\"max_window_layers\":28}",
     .qk_norm = QK_NORM_HEAD,
     .window = WINDOW_UPPER,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "GemmaForCausalLM",
     .model_types = "gemma",
     .name = "gemma",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":8192,"
                 "\"tie_word_embeddings\":true,"
                 "\"num_key_value_heads\":16,"
                 "\"head_dim\":256,"
                 "\"hidden_act\":\"gelu_pytorch_tanh\"}",
     .expects = "hidden_activation=* use_bidirectional_attention=false",
     .gelu_is_tanh = true,
     .norm_weight_offset = 1,
     .embed_scale = "sqrt_hidden",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "Gemma2ForCausalLM",
     .model_types = "gemma2",
     .name = "gemma2",
     .names = &GEMMA2_NAMES,
     .defaults = "{\"max_position_embeddings\":8192,"
                 "\"tie_word_embeddings\":true,"
                 "\"num_key_value_heads\":4,"
                 "\"head_dim\":256,"
                 "\"hidden_act\":\"gelu_pytorch_tanh\","
                 "\"sliding_window\":4096,"
                 "\"sliding_window_pattern\":2,"
                 "\"query_pre_attn_scalar\":256,"
                 "\"attn_logit_softcapping\":50.0,"
                 "\"final_logit_softcapping\":30.0}",
     .aliases = "hidden_act=hidden_activation",
     .expects = "hidden_act=* cache_implementation=* use_bidirectional_attention=false "
                "sliding_window_size=*",
     .places = PLACES_SANDWICH,
     .window = WINDOW_LISTED,
     .attention_scale_of = "query_pre_attn_scalar",
     .attention_cap = "attn_logit_softcapping",
     .logit_cap = "final_logit_softcapping",
     .norm_weight_offset = 1,
     .embed_scale = "sqrt_hidden",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "VaultGemmaForCausalLM",
     .model_types = "vaultgemma",
     .name = "vaultgemma",
     .names = &GEMMA2_NAMES,
     .defaults = "{\"max_position_embeddings\":8192,"
                 "\"tie_word_embeddings\":true,"
                 "\"num_key_value_heads\":4,"
                 "\"head_dim\":256,"
                 "\"hidden_act\":\"gelu_pytorch_tanh\","
                 "\"sliding_window\":4096,"
                 "\"sliding_window_pattern\":2,"
                 "\"query_pre_attn_scalar\":256,"
                 "\"attn_logit_softcapping\":50.0,"
                 "\"final_logit_softcapping\":30.0}",
     .aliases = "hidden_act=hidden_activation",
     .expects = "hidden_act=*",
     .window = WINDOW_LISTED,
     .attention_scale_of = "query_pre_attn_scalar",
     .attention_cap = "attn_logit_softcapping",
     .logit_cap = "final_logit_softcapping",
     .norm_weight_offset = 1,
     .embed_scale = "sqrt_hidden",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "Gemma3TextModel",
     .when = "use_bidirectional_attention=true",
     .model_types = "gemma3_text",
     .name = "gemma3-embedding",
     .names = &GEMMA2_NAMES,
     .expects = "hidden_act=* cache_implementation=* use_bidirectional_attention=true",
     .bidirectional = true,
     GEMMA3_OPTIONS},
    {.architectures = "Gemma3ForCausalLM,Gemma3ForConditionalGeneration",
     .model_types = "gemma3_text",
     .name = "gemma3",
     .names = &GEMMA2_NAMES,
     .expects = "hidden_act=* cache_implementation=* use_bidirectional_attention=false",
     GEMMA3_OPTIONS},
    {.architectures = "Phi3ForCausalLM",
     .model_types = "phi3",
     .name = "phi3",
     .names = &PHI3_NAMES,
     .defaults = "{\"max_position_embeddings\":4096,"
                 "\"tie_word_embeddings\":false,"
                 "\"original_max_position_embeddings\":4096,"
                 "\"rms_norm_eps\":1e-05}",
     .expects = "original_max_position_embeddings=* full_attn_mod=1 interpolate_factor=1",
     .window = WINDOW_ALWAYS},
    {.architectures = "SmolLM3ForCausalLM",
     .model_types = "smollm3",
     .name = "smollm3",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":32768,"
                 "\"tie_word_embeddings\":true,"
                 "\"num_key_value_heads\":4,"
                 "\"rope_theta\":2000000.0}",
     .nope = NOPE_LISTED,
     .window = WINDOW_NOPE,
     .ffn_bias = "mlp_bias",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "GraniteForCausalLM",
     .model_types = "granite",
     .name = "granite",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":false,"
                 "\"attention_multiplier\":1.0}",
     .ffn_bias = "mlp_bias",
     .attention_scale = "attention_multiplier",
     .embed_scale = "embedding_multiplier",
     .residual_scale = "residual_multiplier",
     .logit_divisor = "logits_scaling",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "OlmoForCausalLM",
     .model_types = "olmo",
     .name = "olmo",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,\"tie_word_embeddings\":false}",
     .expects = "layer_norm_eps=1e-05",
     .norm = NORM_LAYER,
     .norm_plain = true,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "Olmo2ForCausalLM",
     .model_types = "olmo2",
     .name = "olmo2",
     .names = &OLMO2_NAMES,
     .defaults =
         "{\"max_position_embeddings\":2048,\"tie_word_embeddings\":false,\"rms_norm_eps\":1e-05}",
     .places = PLACES_POST,
     .qk_norm = QK_NORM_WHOLE,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "Olmo3ForCausalLM",
     .model_types = "olmo3",
     .name = "olmo3",
     .names = &OLMO2_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":false,"
                 "\"rms_norm_eps\":1e-05,"
                 "\"sliding_window\":4096,"
                 "\"sliding_window_pattern\":4,"
                 "\"rope_theta\":500000.0,"
                 "\"rope_local_base_freq\":500000.0}",
     .places = PLACES_POST,
     .qk_norm = QK_NORM_WHOLE,
     .window = WINDOW_LISTED,
     .local_rope = true,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "StableLmForCausalLM",
     .model_types = "stablelm",
     .name = "stablelm",
     .names = &STABLELM_NAMES,
     .expects = "rotary_scaling_factor=1",
     .aliases = "num_attention_heads=num_heads",
     .defaults = "{\"max_position_embeddings\":4096,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":32,"
                 "\"layer_norm_eps\":1e-05}",
     .norm_bias = "yes",
     .parallel = "use_parallel_residual",
     .one_norm = true,
     .qkv_bias = "use_qkv_bias",
     .qk_norm = QK_NORM_HEADS,
     .qk_norm_when = "qk_layernorm",
     .rotary_factor = 0.25,
     .norm = NORM_LAYER},
    {.architectures = "Starcoder2ForCausalLM",
     .model_types = "starcoder2",
     .name = "starcoder2",
     .names = &STARCODER2_NAMES,
     .expects = "mlp_type=default norm_type=layer_norm",
     .aliases = "norm_epsilon=layer_norm_epsilon",
     .defaults = "{\"max_position_embeddings\":4096,"
                 "\"tie_word_embeddings\":true,"
                 "\"num_key_value_heads\":2,"
                 "\"norm_epsilon\":1e-05,"
                 "\"hidden_act\":\"gelu_pytorch_tanh\","
                 "\"use_bias\":true}",
     .norm_bias = "yes",
     .norm_eps = "norm_epsilon",
     .qkv_bias = "use_bias",
     .out_bias = "use_bias",
     .ffn = FFN_PLAIN,
     .ffn_bias = "use_bias",
     .window = WINDOW_ALWAYS,
     .norm = NORM_LAYER},
    {.architectures = "CohereForCausalLM",
     .model_types = "cohere",
     .name = "cohere",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":8192,"
                 "\"tie_word_embeddings\":true,"
                 "\"layer_norm_eps\":1e-05,"
                 "\"logit_scale\":0.0625,"
                 "\"rope_theta\":500000.0}",
     .parallel = "yes",
     .one_norm = true,
     .qk_norm = QK_NORM_HEADS,
     .qk_norm_when = "use_qk_norm",
     .rope_interleaved = true,
     .logit_scale = "logit_scale",
     .norm = NORM_LAYER,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "Cohere2ForCausalLM",
     .model_types = "cohere2",
     .name = "cohere2",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":8192,"
                 "\"tie_word_embeddings\":true,"
                 "\"layer_norm_eps\":1e-05,"
                 "\"logit_scale\":0.0625,"
                 "\"sliding_window\":4096,"
                 "\"sliding_window_pattern\":4}",
     .expects =
         "cache_implementation=* rotary_pct=* use_embedding_sharing=* use_gated_activation=true "
         "use_parallel_block=true use_parallel_embedding=* position_embedding_type=* "
         "layer_switch=* "
         "order_of_interleaved_layers=*",
     .parallel = "yes",
     .one_norm = true,
     .rope_interleaved = true,
     .window = WINDOW_LISTED,
     .nope = NOPE_FULL,
     .logit_scale = "logit_scale",
     .norm = NORM_LAYER,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "GlmForCausalLM",
     .model_types = "glm",
     .name = "glm",
     .names = &GLM_NAMES,
     .defaults = "{\"max_position_embeddings\":131072,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":2,"
                 "\"head_dim\":128,"
                 "\"rms_norm_eps\":1.5625e-07,"
                 "\"attention_bias\":true}",
     .qkv_bias = "attention_bias",
     .rope_interleaved = true,
     .rotary_factor = 0.5},
    {.architectures = "Glm4ForCausalLM",
     .model_types = "glm4",
     .name = "glm4",
     .names = &GLM4_NAMES,
     .defaults = "{\"max_position_embeddings\":131072,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":2,"
                 "\"head_dim\":128,"
                 "\"rms_norm_eps\":1.5625e-07,"
                 "\"attention_bias\":true}",
     .places = PLACES_SANDWICH,
     .qkv_bias = "attention_bias",
     .rope_interleaved = true,
     .rotary_factor = 0.5},
    {.architectures = "Exaone4ForCausalLM",
     .model_types = "exaone4",
     .name = "exaone4",
     .names = &OLMO2_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":32,"
                 "\"rms_norm_eps\":1e-05,"
                 "\"sliding_window\":4096,"
                 "\"sliding_window_pattern\":4}",
     .places = PLACES_POST,
     .qk_norm = QK_NORM_HEAD,
     .window = WINDOW_LISTED,
     .nope = NOPE_FULL_MIXED},
    {.architectures = "SeedOssForCausalLM",
     .model_types = "seed_oss",
     .name = "seed_oss",
     .names = &LLAMA_NAMES,
     .defaults = "{\"max_position_embeddings\":524288,"
                 "\"tie_word_embeddings\":false,"
                 "\"num_key_value_heads\":8,"
                 "\"head_dim\":128,"
                 "\"attention_bias\":true}",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_out_bias",
     .ffn_bias = "mlp_bias",
     .expects = "residual_dropout=*"},
    {.architectures = "NemotronForCausalLM",
     .model_types = "nemotron",
     .name = "nemotron",
     .names = &LLAMA_NAMES,
     .aliases = "partial_rotary_factor=rope_percent",
     .defaults = "{\"max_position_embeddings\":4096,"
                 "\"tie_word_embeddings\":false,"
                 "\"norm_eps\":1e-05,"
                 "\"hidden_act\":\"relu2\"}",
     .norm_bias = "yes",
     .norm_eps = "norm_eps",
     .norm_weight_offset = 1,
     .ffn = FFN_PLAIN,
     .ffn_bias = "mlp_bias",
     .rotary_factor = 0.5,
     .norm = NORM_LAYER,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias"},
    {.architectures = "Ernie4_5ForCausalLM",
     .model_types = "ernie4_5",
     .name = "ernie4_5",
     .names = &LLAMA_NAMES,
     .expects = "compression_ratio=1",
     .defaults = "{\"max_position_embeddings\":131072,"
                 "\"tie_word_embeddings\":true,"
                 "\"num_key_value_heads\":2,"
                 "\"head_dim\":128,"
                 "\"rms_norm_eps\":1e-05,"
                 "\"rope_theta\":500000.0}",
     .qkv_bias = "use_bias",
     .out_bias = "use_bias",
     .ffn_bias = "use_bias",
     .rope_interleaved = true},
    {.architectures = "PhiForCausalLM",
     .model_types = "phi",
     .name = "phi",
     .names = &PHI_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":false,"
                 "\"layer_norm_eps\":1e-05,"
                 "\"hidden_act\":\"gelu_new\"}",
     .norm_bias = "yes",
     .parallel = "yes",
     .one_norm = true,
     .qkv_bias = "yes",
     .out_bias = "yes",
     .qk_norm = QK_NORM_HEAD,
     .qk_norm_when = "qk_layernorm",
     .ffn = FFN_PLAIN,
     .ffn_bias = "yes",
     .head_bias = "yes",
     .rotary_factor = 0.5,
     .norm = NORM_LAYER},
};
const size_t FAMILY_COUNT = ARRAY_LEN(FAMILIES);
