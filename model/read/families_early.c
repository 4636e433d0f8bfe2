/* Families from before Llama, GPT-2 to Falcon, one row each (spec_read.h says what the columns
 * mean). */
#include "model/read/spec_read.h"

const struct family EARLY_FAMILIES[] = {
    {.architectures = "FalconForCausalLM",
     .model_types = "falcon",
     .name = "falcon",
     .names = &FALCON_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":true,"
                 "\"hidden_act\":\"gelu\","
                 "\"multi_query\":true,"
                 "\"parallel_attn\":true}",
     .when = "new_decoder_architecture=true num_ln_in_parallel_attn=1",
     .parallel = "yes",
     .one_norm = true,
     .expects = "parallel_attn=* apply_residual_connection_post_layernorm=false ff_factor=4",
     .aliases = "intermediate_size:=ffn_hidden_size hidden_act=activation hidden_size=n_embed "
                "num_hidden_layers=n_layer "
                "num_attention_heads=n_head",
     .norm_bias = "yes",
     .norm_eps = "layer_norm_epsilon",
     .qkv_bias = "bias",
     .out_bias = "bias",
     .ffn = FFN_PLAIN,
     .ffn_bias = "bias",
     .ffn_factor = 4,
     .kv_heads = KV_FALCON,
     .alibi = "alibi",
     .alibi_scaled = true,
     .norm = NORM_LAYER},
    {.architectures = "FalconForCausalLM",
     .model_types = "falcon",
     .name = "falcon",
     .names = &FALCON_TWO_NORM_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":true,"
                 "\"hidden_act\":\"gelu\","
                 "\"multi_query\":true,"
                 "\"parallel_attn\":true}",
     .when = "new_decoder_architecture=true num_ln_in_parallel_attn=null|2",
     .parallel = "yes",
     .expects = "parallel_attn=* apply_residual_connection_post_layernorm=false ff_factor=4",
     .aliases = "intermediate_size:=ffn_hidden_size hidden_act=activation hidden_size=n_embed "
                "num_hidden_layers=n_layer "
                "num_attention_heads=n_head",
     .norm_bias = "yes",
     .norm_eps = "layer_norm_epsilon",
     .qkv_bias = "bias",
     .out_bias = "bias",
     .ffn = FFN_PLAIN,
     .ffn_bias = "bias",
     .ffn_factor = 4,
     .kv_heads = KV_FALCON,
     .alibi = "alibi",
     .alibi_scaled = true,
     .norm = NORM_LAYER},
    {.architectures = "FalconForCausalLM",
     .model_types = "falcon",
     .name = "falcon",
     .names = &FALCON_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":true,"
                 "\"hidden_act\":\"gelu\","
                 "\"multi_query\":true,"
                 "\"parallel_attn\":true}",
     .parallel = "parallel_attn",
     .one_norm = true,
     .expects =
         "num_ln_in_parallel_attn=* apply_residual_connection_post_layernorm=false ff_factor=4",
     .aliases = "intermediate_size:=ffn_hidden_size hidden_act=activation hidden_size=n_embed "
                "num_hidden_layers=n_layer "
                "num_attention_heads=n_head",
     .norm_bias = "yes",
     .norm_eps = "layer_norm_epsilon",
     .qkv_bias = "bias",
     .out_bias = "bias",
     .ffn = FFN_PLAIN,
     .ffn_bias = "bias",
     .ffn_factor = 4,
     .kv_heads = KV_FALCON,
     .alibi = "alibi",
     .alibi_scaled = true,
     .norm = NORM_LAYER},
    {.architectures = "GPT2LMHeadModel",
     .model_types = "gpt2",
     .name = "gpt2",
     .names = &GPT2_NAMES,
     .defaults = "{\"max_position_embeddings\":1024,"
                 "\"tie_word_embeddings\":true,"
                 "\"vocab_size\":50257,"
                 "\"hidden_size\":768,"
                 "\"num_hidden_layers\":12,"
                 "\"num_attention_heads\":12,"
                 "\"hidden_act\":\"gelu_new\","
                 "\"layer_norm_epsilon\":1e-05}",
     .aliases = "hidden_size=n_embd num_attention_heads=n_head num_hidden_layers=n_layer "
                "max_position_embeddings=n_positions intermediate_size:=n_inner "
                "hidden_act=activation_function",
     .expects = "reorder_and_upcast_attn=*",
     .norm_eps = "layer_norm_epsilon",
     .qkv_bias = "yes",
     .out_bias = "yes",
     .no_rope = true,
     .learned_positions = "yes",
     .ffn_factor = 4,
     .norm_bias = "yes",
     .ffn = FFN_PLAIN,
     .ffn_bias = "yes",
     .kv_heads = KV_HEADS,
     .norm = NORM_LAYER},
    {.architectures = "GPTNeoXForCausalLM",
     .model_types = "gpt_neox",
     .name = "gpt_neox",
     .names = &NEOX_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":false,"
                 "\"layer_norm_eps\":1e-05,"
                 "\"hidden_act\":\"gelu\","
                 "\"use_parallel_residual\":true,"
                 "\"attention_bias\":true}",
     .aliases = "partial_rotary_factor=rotary_pct rope_theta=rotary_emb_base",
     .parallel = "use_parallel_residual",
     .rotary_factor = 0.25,
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .norm_bias = "yes",
     .ffn = FFN_PLAIN,
     .ffn_bias = "yes",
     .kv_heads = KV_HEADS,
     .norm = NORM_LAYER},
    {.architectures = "GPTJForCausalLM",
     .model_types = "gptj",
     .name = "gptj",
     .names = &GPTJ_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":false,"
                 "\"hidden_act\":\"gelu_new\","
                 "\"layer_norm_epsilon\":1e-05,"
                 "\"rotary_dim\":64}",
     .aliases = "hidden_size=n_embd num_attention_heads=n_head num_hidden_layers=n_layer "
                "max_position_embeddings=n_positions intermediate_size:=n_inner "
                "hidden_act=activation_function",
     .expects = "rotary=true scale_attn_weights=true rope_theta=10000 rope_scaling=null "
                "rope_parameters=null",
     .norm_eps = "layer_norm_epsilon",
     .parallel = "yes",
     .one_norm = true,
     .rope_interleaved = true,
     .ffn_factor = 4,
     .head_bias = "yes",
     .norm_bias = "yes",
     .ffn = FFN_PLAIN,
     .ffn_bias = "yes",
     .kv_heads = KV_HEADS,
     .norm = NORM_LAYER},
    {.architectures = "OPTForCausalLM",
     .model_types = "opt",
     .name = "opt",
     .names = &OPT_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":true,"
                 "\"hidden_act\":\"relu\","
                 "\"enable_bias\":true}",
     .when = "do_layer_norm_before=false",
     .expects = "do_layer_norm_before=* layer_norm_elementwise_affine=true",
     .places = PLACES_RESIDUAL,
     .final_norm = "",
     .aliases = "intermediate_size:=ffn_dim hidden_act=activation_function",
     .qkv_bias = "enable_bias",
     .out_bias = "enable_bias",
     .no_rope = true,
     .learned_positions = "yes",
     .position_offset = 2,
     .norm_bias = "yes",
     .ffn = FFN_PLAIN,
     .ffn_bias = "enable_bias",
     .kv_heads = KV_HEADS,
     .norm = NORM_LAYER},
    {.architectures = "OPTForCausalLM",
     .model_types = "opt",
     .name = "opt",
     .names = &OPT_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":true,"
                 "\"hidden_act\":\"relu\","
                 "\"enable_bias\":true}",
     .expects = "do_layer_norm_before=* layer_norm_elementwise_affine=true",
     .final_norm = "!_remove_final_layer_norm",
     .aliases = "intermediate_size:=ffn_dim hidden_act=activation_function",
     .qkv_bias = "enable_bias",
     .out_bias = "enable_bias",
     .no_rope = true,
     .learned_positions = "yes",
     .position_offset = 2,
     .norm_bias = "yes",
     .ffn = FFN_PLAIN,
     .ffn_bias = "enable_bias",
     .kv_heads = KV_HEADS,
     .norm = NORM_LAYER},
    {.architectures = "BloomForCausalLM",
     .model_types = "bloom",
     .name = "bloom",
     .names = &BLOOM_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":true,"
                 "\"vocab_size\":250880,"
                 "\"hidden_size\":64,"
                 "\"num_hidden_layers\":2,"
                 "\"num_attention_heads\":8,"
                 "\"hidden_act\":\"gelu_pytorch_tanh\","
                 "\"layer_norm_epsilon\":1e-05}",
     .aliases = "hidden_size=n_embed num_attention_heads=n_head num_hidden_layers=n_layer "
                "max_position_embeddings=seq_length intermediate_size:=",
     .expects = "apply_residual_connection_post_layernorm=false hidden_size=* offset_alibi=*",
     .norm_eps = "layer_norm_epsilon",
     .qkv_bias = "yes",
     .out_bias = "yes",
     .alibi = "yes",
     .ffn_factor = 4,
     .embed_norm = "yes",
     .norm_bias = "yes",
     .ffn = FFN_PLAIN,
     .ffn_bias = "yes",
     .kv_heads = KV_HEADS,
     .norm = NORM_LAYER},
    {.architectures = "MptForCausalLM,MPTForCausalLM",
     .model_types = "mpt",
     .name = "mpt",
     .names = &MPT_NAMES,
     .defaults = "{\"max_position_embeddings\":2048,"
                 "\"tie_word_embeddings\":true,"
                 "\"vocab_size\":50368,"
                 "\"hidden_size\":2048,"
                 "\"num_hidden_layers\":24,"
                 "\"num_attention_heads\":16,"
                 "\"hidden_act\":\"gelu\","
                 "\"layer_norm_epsilon\":1e-05}",
     .aliases = "hidden_size=d_model num_attention_heads=n_heads num_hidden_layers=n_layers "
                "max_position_embeddings=max_seq_len intermediate_size:=",
     .expects = "no_bias=* learned_pos_emb=* norm_type=low_precision_layernorm "
                "attn_config/attn_type=multihead_attention "
                "attn_config/prefix_lm=false attn_config/qk_ln=false attn_config/alibi=true "
                "attn_config/alibi_bias_max=8 "
                "attn_config/attn_impl=* attn_config/attn_uses_sequence_id=false "
                "attn_config/attn_pdrop=* emb_pdrop=* "
                "resid_pdrop=* verbose=* init_config=* logit_scale=null embedding_fraction=1",
     .norm_eps = "layer_norm_epsilon",
     .alibi = "yes",
     .ffn = FFN_PLAIN,
     .ffn_factor = 4,
     .ffn_ratio = "expansion_ratio",
     .kv_heads = KV_HEADS,
     .norm = NORM_LAYER},
};
const size_t EARLY_FAMILY_COUNT = ARRAY_LEN(EARLY_FAMILIES);
