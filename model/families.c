/* The families, one row each (spec_read.h says what the columns mean). */
#include "model/spec_read.h"

#define DEFAULTS(...) "{" __VA_ARGS__ "}"

const struct family FAMILIES[] = {
    {.architectures = "LlamaForCausalLM",
     .model_types = "llama",
     .name = "llama",
     .names = &LLAMA_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,\"max_position_embeddings\":2048}",
     .qkv_bias = "attention_bias",
     .out_bias = "attention_bias",
     .ffn_bias = "mlp_bias"},
    {.architectures = "MistralForCausalLM",
     .model_types = "mistral",
     .name = "mistral",
     .names = &LLAMA_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,\"max_position_embeddings\":131072,\"num_key_value_heads\":8,"
                 "\"sliding_window\":4096}",
     .window = WINDOW_ALWAYS},
    {.architectures = "Qwen2ForCausalLM",
     .model_types = "qwen2",
     .name = "qwen2",
     .names = &LLAMA_NAMES,
     .defaults = "{\"tie_word_embeddings\":false,\"max_position_embeddings\":32768,\"num_key_value_heads\":32,"
                 "\"sliding_window\":4096,\"max_window_layers\":28}",
     .qkv_bias = "yes",
     .window = WINDOW_UPPER},

#include "model/families_state.inc.h"
};
const size_t FAMILY_COUNT = ARRAY_LEN(FAMILIES);
