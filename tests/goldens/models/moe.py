"""Mixtures of experts and latent attention (make.py says what an entry is)."""
import sys

import numpy as np
from make import case

SMALL = dict(vocab_size=97, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512, tie_word_embeddings=False)


def config(architecture, model_type, **fields):
    return {**SMALL, "architectures": [architecture], "model_type": model_type, **fields}


# tensors of experts stored [experts, in, out]
def transposed(width, hidden):
    return [(r"experts\.gate_up_proj$", 0.0, hidden ** -0.5), (r"experts\.down_proj$", 0.0, width ** -0.5)]


# routers that decide: logits of a spread of 2 or so; correction biases that matter
ROUTER = [(r"(gate|router|router\.layer)\.weight$", 0.0, 0.3), (r"e_score_correction_bias$", 0.0, 0.3)]


def fused(tensors, prefix, experts, gate="gate_proj", up="up_proj", down="down_proj"):
    """Per-expert tensors to the 3-D ones some writers store."""
    out = dict(tensors)
    names = [k for k in tensors if k.endswith(f".{prefix}.0.{gate}.weight")]
    for first in names:
        at = first[: -len(f".0.{gate}.weight")]
        take = lambda part: [out.pop(f"{at}.{e}.{part}.weight") for e in range(experts)]
        out[f"{at}.gate_up_proj"] = np.stack([np.concatenate(x) for x in zip(take(gate), take(up))])
        out[f"{at}.down_proj"] = np.stack(take(down))
    return out


CASES = [
    case("mixtral", config("MixtralForCausalLM", "mixtral", intermediate_size=40, num_local_experts=5, num_experts_per_tok=2,
                           rope_theta=1e6), draw=ROUTER),
    case("mixtral_window", config("MixtralForCausalLM", "mixtral", intermediate_size=24, num_local_experts=4, num_experts_per_tok=1,
                                  sliding_window=23, head_dim=16), draw=ROUTER),
    case("qwen2_moe", config("Qwen2MoeForCausalLM", "qwen2_moe", intermediate_size=56, moe_intermediate_size=20,
                             shared_expert_intermediate_size=36, num_experts=7, num_experts_per_tok=3, mlp_only_layers=[1]), draw=ROUTER),
    case("qwen3_moe", config("Qwen3MoeForCausalLM", "qwen3_moe", intermediate_size=56, moe_intermediate_size=24, num_experts=8,
                             num_experts_per_tok=3, decoder_sparse_step=2, head_dim=16, norm_topk_prob=True), draw=ROUTER),
    case("olmoe", config("OlmoeForCausalLM", "olmoe", intermediate_size=24, num_experts=8, num_experts_per_tok=3, clip_qkv=0.9),
         draw=ROUTER),
    case("granitemoe", config("GraniteMoeForCausalLM", "granitemoe", intermediate_size=24, num_local_experts=6, num_experts_per_tok=2,
                              embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=2.0),
         draw=ROUTER),
    case("granitemoeshared", config("GraniteMoeSharedForCausalLM", "granitemoeshared", intermediate_size=24, num_local_experts=6,
                                    num_experts_per_tok=2, shared_intermediate_size=28, attention_multiplier=0.25), draw=ROUTER),
    case("glm4_moe", config("Glm4MoeForCausalLM", "glm4_moe", intermediate_size=56, moe_intermediate_size=20, n_routed_experts=8,
                            num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.7, n_group=4,
                            topk_group=2, use_qk_norm=True, attention_bias=True, head_dim=16, num_nextn_predict_layers=0), draw=ROUTER),
    case("dots1", config("Dots1ForCausalLM", "dots1", intermediate_size=56, moe_intermediate_size=20, n_routed_experts=8,
                         num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=1, routed_scaling_factor=1.7, n_group=4,
                         topk_group=2, norm_topk_prob=True, attention_bias=True, head_dim=16, sliding_window=20, max_window_layers=2),
         draw=ROUTER),
    case("minimax_m2", config("MiniMaxM2ForCausalLM", "minimax_m2", intermediate_size=24, num_local_experts=8, num_experts_per_tok=3,
                              head_dim=16, rotary_dim=8, rope_theta=5e6), draw=ROUTER),
    case("gpt_oss", config("GptOssForCausalLM", "gpt_oss", intermediate_size=32, num_local_experts=5, num_experts_per_tok=2, head_dim=16,
                           sliding_window=20, num_hidden_layers=4,
                           rope_scaling=dict(rope_type="yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                             original_max_position_embeddings=64), rope_theta=150000.0, swiglu_limit=1.1, swiglu_alpha=1.4),
         draw=ROUTER + transposed(32, 48) + [(r"sinks$", 0.0, 1.5)]),
    case("llama4", config("Llama4ForCausalLM", "llama4_text", intermediate_size=24, intermediate_size_mlp=56, num_local_experts=4,
                          num_experts_per_tok=1, num_hidden_layers=4, interleave_moe_layer_step=2, head_dim=16, attention_chunk_size=24,
                          floor_scale=16, attn_scale=0.3, attn_temperature_tuning=True, no_rope_layer_interval=2, use_qk_norm=True),
         draw=ROUTER + transposed(24, 48)),
    case("deepseek_v2", config("DeepseekV2ForCausalLM", "deepseek_v2", intermediate_size=56, moe_intermediate_size=20, n_routed_experts=8,
                               num_experts_per_tok=3, n_shared_experts=2, first_k_dense_replace=1, kv_lora_rank=24, q_lora_rank=None,
                               qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, num_key_value_heads=4,
                               routed_scaling_factor=1.5), draw=ROUTER),
    case("deepseek_v2_groups", config("DeepseekV2ForCausalLM", "deepseek_v2", intermediate_size=56, moe_intermediate_size=20,
                                      n_routed_experts=12, num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=1,
                                      kv_lora_rank=24, q_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=16,
                                      num_key_value_heads=4, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                                      routed_scaling_factor=2.0,
                                      rope_scaling=dict(type="yarn", factor=4, beta_fast=32, beta_slow=1, mscale=0.707,
                                                        mscale_all_dim=0.707, original_max_position_embeddings=32)), draw=ROUTER),
    case("deepseek_v3", config("DeepseekV3ForCausalLM", "deepseek_v3", intermediate_size=56, moe_intermediate_size=20, n_routed_experts=12,
                               num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=1, kv_lora_rank=24, q_lora_rank=20,
                               qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=16, num_key_value_heads=4, n_group=4, topk_group=2,
                               routed_scaling_factor=2.5, num_nextn_predict_layers=0,
                               rope_scaling=dict(type="yarn", factor=8, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.2,
                                                 original_max_position_embeddings=32)), draw=ROUTER),
    case("deepseek_v3_plain", config("DeepseekV3ForCausalLM", "deepseek_v3", intermediate_size=56, moe_intermediate_size=20,
                                     n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=2, kv_lora_rank=20,
                                     q_lora_rank=None, qk_nope_head_dim=10, qk_rope_head_dim=12, v_head_dim=8, num_key_value_heads=4,
                                     n_group=1, topk_group=1, norm_topk_prob=False, routed_scaling_factor=1.0, rope_interleave=False,
                                     attention_bias=True, num_nextn_predict_layers=0), draw=ROUTER),
]


def first_deepseek():
    """DeepSeek-MoE, version 1, which transformers lacks: Llama with the mixture of the published code (Dai et al. 2024): softmax over
    all experts, the k best, their sum to one where norm_topk_prob, and shared experts for all."""
    import copy
    import torch
    import transformers
    from transformers.models.llama import modeling_llama as llama

    def mlp(config, width):
        own = copy.deepcopy(config)
        own.intermediate_size = width
        return llama.LlamaMLP(own)

    class Router(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(config.n_routed_experts, config.hidden_size))

    class Mixture(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config, width = config, config.moe_intermediate_size
            self.gate = Router(config)
            self.experts = torch.nn.ModuleList(mlp(config, width) for _ in range(config.n_routed_experts))
            self.shared_experts = mlp(config, width * config.n_shared_experts)

        def forward(self, x):
            scores = torch.nn.functional.linear(x, self.gate.weight).softmax(-1)
            weights, chosen = scores.topk(self.config.num_experts_per_tok)
            if self.config.norm_topk_prob:
                weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
            y = self.shared_experts(x)
            for b, t, k in torch.cartesian_prod(*(torch.arange(n) for n in chosen.shape)).tolist():
                y[b, t] = y[b, t] + weights[b, t, k] * self.experts[chosen[b, t, k]](x[b, t])
            return y

    class DeepseekConfig(transformers.LlamaConfig):
        model_type = "deepseek"

    class DeepseekForCausalLM(llama.LlamaForCausalLM):
        config_class = DeepseekConfig

        def __init__(self, config):
            super().__init__(config)
            for i, layer in enumerate(self.model.layers):
                if i >= config.first_k_dense_replace and i % config.moe_layer_freq == 0:
                    layer.mlp = Mixture(config)

    transformers.AutoConfig.register("deepseek", DeepseekConfig)
    sys.modules["transformers"].DeepseekForCausalLM = DeepseekForCausalLM
    fields = dict(intermediate_size=56, moe_intermediate_size=20, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
                  first_k_dense_replace=1, scoring_func="softmax")
    return [case("deepseek", config("DeepseekForCausalLM", "deepseek", moe_layer_freq=1, norm_topk_prob=False, **fields), draw=ROUTER),
            case("deepseek_norm", config("DeepseekForCausalLM", "deepseek", moe_layer_freq=2, norm_topk_prob=True, **fields), draw=ROUTER)]


CASES += first_deepseek()
