"""Dense families, as tiny as their options allow."""
from make import case

BASE = dict(vocab_size=96, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=256, tie_word_embeddings=False)


def config(architecture, model_type, **fields):
    c = dict(architectures=[architecture], model_type=model_type, **BASE)
    c.update(fields)
    return {k: v for k, v in c.items() if v != "drop"}


CASES = [
    case("llama3", config("LlamaForCausalLM", "llama", head_dim=24, rope_theta=500000.0, tie_word_embeddings=True,
                          rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                            original_max_position_embeddings=32))),
    case("llama-yarn", config("LlamaForCausalLM", "llama", attention_bias=True, mlp_bias=True,
                              rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                                   original_max_position_embeddings=32))),
    case("mistral", config("MistralForCausalLM", "mistral", sliding_window=13, rms_norm_eps=1e-5)),
    case("qwen2", config("Qwen2ForCausalLM", "qwen2", use_sliding_window=True, sliding_window=11, max_window_layers=1)),
]
