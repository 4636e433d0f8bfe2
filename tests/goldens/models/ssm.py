"""Families whose mixers carry a state, and their hybrids with attention, as tiny as their options allow."""
import numpy as np

from make import case

BASE = dict(vocab_size=96, hidden_size=64)


def config(architecture, model_type, **fields):
    return dict(architectures=[architecture], model_type=model_type, **{**BASE, **fields})


def hybrid(architecture, model_type, **fields):
    return config(architecture, model_type, **{**dict(intermediate_size=96, num_attention_heads=4, num_key_value_heads=2), **fields})


# decays between 0.05 and 2.7, steps of about 0.1 to 1, so that states remember some tens of positions
DECAYS = [(r"A_log$", -1.0, 0.8), (r"dt_bias$|dt_proj\.bias$", -1.0, 0.7), (r"\.D$", 0.5, 0.5), (r"conv1d\.weight$|conv\.weight$|conv_1d\.weight$", 0.1, 0.5),
          (r"x_proj\.weight$", 0.0, 0.3)]
ROUTED = [(r"gate\.weight$", 0.0, 0.4), (r"e_score_correction_bias$", 0.0, 0.2)]
MAMBA2 = dict(mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=16)

CASES = [
    case("mamba", config("MambaForCausalLM", "mamba", num_hidden_layers=3, state_size=16, conv_kernel=4, expand=2), draw=DECAYS),
    case("mamba-odd", config("MambaForCausalLM", "mamba", hidden_size=40, num_hidden_layers=2, state_size=11, conv_kernel=3, expand=3,
                             time_step_rank=5, use_bias=True, use_conv_bias=False, tie_word_embeddings=False, layer_norm_epsilon=1e-3),
         draw=DECAYS),
    case("falcon_mamba", config("FalconMambaForCausalLM", "falcon_mamba", num_hidden_layers=2, state_size=16, mixer_rms_eps=1e-2), draw=DECAYS),
    case("mamba2", config("Mamba2ForCausalLM", "mamba2", num_hidden_layers=3, num_heads=8, head_dim=16, n_groups=2, state_size=24,
                          time_step_limit=[0.05, 0.9], layer_norm_epsilon=1e-4), draw=DECAYS),
    case("mamba2-odd", config("Mamba2ForCausalLM", "mamba2", hidden_size=36, num_hidden_layers=2, num_heads=6, head_dim=18, expand=3, n_groups=3,
                              state_size=10, conv_kernel=2, use_bias=True, use_conv_bias=False, tie_word_embeddings=True, chunk_size=16),
         draw=DECAYS),
    case("jamba", hybrid("JambaForCausalLM", "jamba", num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=2, num_experts=1,
                         mamba_d_state=16, mamba_dt_rank=4, mamba_proj_bias=True, use_mamba_kernels=False), draw=DECAYS),
    case("bamba", hybrid("BambaForCausalLM", "bamba", num_hidden_layers=3, attn_layer_indices=[1], mamba_d_conv=3, attention_bias=True,
                         mlp_bias=True, **{**MAMBA2, "mamba_n_groups": 2}), draw=DECAYS),
    case("granite-hybrid", hybrid("GraniteMoeHybridForCausalLM", "granitemoehybrid", num_hidden_layers=3, layer_types=["mamba", "attention", "mamba"],
                                  num_local_experts=0, shared_intermediate_size=112, attention_multiplier=0.3, embedding_multiplier=2.5,
                                  residual_multiplier=0.6, logits_scaling=1.7, **MAMBA2), draw=DECAYS),
    case("granite-hybrid-rope", hybrid("GraniteMoeHybridForCausalLM", "granitemoehybrid", num_hidden_layers=3,
                                       layer_types=["mamba", "attention", "mamba"], num_local_experts=0, shared_intermediate_size=80,
                                       position_embedding_type="rope", **MAMBA2), draw=DECAYS),
    case("recurrent_gemma", hybrid("RecurrentGemmaForCausalLM", "recurrent_gemma", num_hidden_layers=4, intermediate_size=192, num_key_value_heads=1,
                                   lru_width=80, attention_window_size=19, conv1d_width=4, num_attention_heads=4, logits_soft_cap=8.0),
         draw=[(r"recurrent_param$", -2.0, 1.5), (r"norm\.weight$", 0.0, 0.2), (r"gate_weight$", 0.0, 0.25), (r"gate_bias$", 0.0, 0.5)] + DECAYS),
    case("lfm2", hybrid("Lfm2ForCausalLM", "lfm2", num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], conv_L_cache=4,
                        conv_bias=True, block_multiple_of=16, block_ffn_dim_multiplier=1.3, norm_eps=1e-4), draw=DECAYS),
    case("lfm2_moe", hybrid("Lfm2MoeForCausalLM", "lfm2_moe", num_hidden_layers=4, layer_types=["conv", "full_attention", "conv", "full_attention"],
                            conv_L_cache=3, norm_eps=1e-4, num_dense_layers=1, moe_intermediate_size=40, num_experts=6, num_experts_per_tok=3,
                            routed_scaling_factor=1.4), draw=[(r"expert_bias$", 0.0, 0.3)] + DECAYS),
    case("nemotron_h", hybrid("NemotronHForCausalLM", "nemotron_h", hybrid_override_pattern="M*-M-", num_hidden_layers=5, head_dim=20, mamba_num_heads=8,
                              mamba_head_dim=16, n_groups=2, ssm_state_size=16, time_step_min=0.2, use_bias=True, mlp_bias=True,
                              attention_bias=True), draw=DECAYS),
    case("qwen3_5", hybrid("Qwen3_5ForCausalLM", "qwen3_5_text", num_hidden_layers=4, head_dim=24, linear_num_value_heads=4, linear_num_key_heads=2,
                           linear_key_head_dim=16, linear_value_head_dim=12, linear_conv_kernel_dim=3,
                           layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"]),
         draw=[(r"linear_attn\.norm\.weight$", 1.0, 0.2), (r"norm\.weight$", 0.0, 0.2)] + DECAYS),
    case("qwen3_5_moe", config("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                               linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16, linear_value_head_dim=12, num_experts=4,
                               num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=40),
         draw=[(r"linear_attn\.norm\.weight$", 1.0, 0.2), (r"norm\.weight$", 0.0, 0.2), (r"mlp\.gate\.weight$", 0.0, 0.5)] + DECAYS,
         publish=lambda tensors: dict(tensors, **{"mtp.fc.weight": tensors["lm_head.weight"]})),
    case("jamba-experts", hybrid("JambaForCausalLM", "jamba", num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=1, num_experts=4,
                                 num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1, mamba_d_state=8, mamba_dt_rank=4,
                                 use_mamba_kernels=False), draw=[(r"router\.weight$", 0.0, 0.5)] + DECAYS),
    case("granite-hybrid-experts", hybrid("GraniteMoeHybridForCausalLM", "granitemoehybrid", num_hidden_layers=3,
                                          layer_types=["mamba", "attention", "mamba"], num_local_experts=4, num_experts_per_tok=2, intermediate_size=40,
                                          shared_intermediate_size=48, **MAMBA2), draw=[(r"router\.layer\.weight$", 0.0, 0.5)] + DECAYS),
    case("qwen3_next", hybrid("Qwen3NextForCausalLM", "qwen3_next", num_hidden_layers=4, head_dim=16, linear_num_value_heads=4, linear_num_key_heads=2,
                              linear_key_head_dim=16, linear_value_head_dim=12, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                              shared_expert_intermediate_size=40, mlp_only_layers=[2]),
         draw=[(r"linear_attn\.norm\.weight$", 1.0, 0.2), (r"norm\.weight$", 0.0, 0.2), (r"mlp\.gate\.weight$", 0.0, 0.5)] + DECAYS),
    case("falcon_h1", hybrid("FalconH1ForCausalLM", "falcon_h1", num_hidden_layers=2, intermediate_size=88, mamba_d_ssm=96, mamba_n_heads=6,
                             mamba_d_head=16, mamba_n_groups=2, mamba_d_state=12, embedding_multiplier=2.2, lm_head_multiplier=0.6,
                             key_multiplier=0.7, attention_in_multiplier=1.4, attention_out_multiplier=0.8, ssm_in_multiplier=1.25,
                             ssm_out_multiplier=0.6, ssm_multipliers=[0.7, 1.4, 0.8, 0.6, 0.5], mlp_multipliers=[0.7, 0.6], rope_theta=1e11),
         draw=DECAYS),
    case("falcon_h1-norm", hybrid("FalconH1ForCausalLM", "falcon_h1", num_hidden_layers=2, intermediate_size=72, num_key_value_heads=4,
                                  mamba_d_ssm=None, mamba_n_heads=8, mamba_n_groups=2, mamba_d_state=10, mamba_rms_norm=True,
                                  mamba_norm_before_gate=False, mamba_proj_bias=True, projectors_bias=True, attention_bias=True, mlp_bias=True,
                                  mamba_conv_bias=False, mamba_d_conv=3, attention_in_multiplier=0.8, ssm_in_multiplier=1.3,
                                  time_step_limit=[0.1, 0.9], tie_word_embeddings=True), draw=DECAYS),
    case("nemotron_h-experts", hybrid("NemotronHForCausalLM", "nemotron_h", hybrid_override_pattern="ME*E-", num_hidden_layers=5, head_dim=16,
                                      mamba_num_heads=4, mamba_head_dim=16, n_groups=1, ssm_state_size=12, n_routed_experts=8,
                                      num_experts_per_tok=3, moe_intermediate_size=40, moe_shared_expert_intermediate_size=56, n_group=4,
                                      topk_group=2, routed_scaling_factor=1.8), draw=ROUTED + DECAYS),
    case("nemotron_h-latent", hybrid("NemotronHForCausalLM", "nemotron_h", layers_block_type=["mamba", "moe", "attention", "moe"],
                                     head_dim=16, mamba_num_heads=4, mamba_head_dim=16, n_groups=2, ssm_state_size=12, n_routed_experts=4,
                                     num_experts_per_tok=2, moe_intermediate_size=40, moe_shared_expert_intermediate_size=48, moe_latent_size=24,
                                     mlp_bias=True, norm_topk_prob=False, num_hidden_layers=4), draw=ROUTED + DECAYS),
    case("rwkv4", config("RwkvForCausalLM", "rwkv", num_hidden_layers=3, attention_hidden_size=80, intermediate_size=112, context_length=256,
                         rescale_every=2, layer_norm_epsilon=1e-3),
         draw=[(r"time_decay$", -1.0, 1.0), (r"time_first$", 0.0, 0.5), (r"time_mix_\w+$", 0.5, 0.25)]),
]
