"""Dense families, as tiny as their options allow."""
from make import case

BASE = dict(vocab_size=96, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=256, tie_word_embeddings=False)
OLD = dict(vocab_size=96, n_embd=48, n_layer=3, n_head=4, n_positions=160)
ZERO = [(r"norm\.weight$|layernorm\.weight$|_norm\.weight$", 0.0, 0.2)]  # weights stored less one
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)
LONG = dict(type="longrope", short_factor=[1.0, 1.1, 1.3, 1.6, 2.0, 2.5, 3.0, 4.0], long_factor=[1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0])


def config(architecture, model_type, *drop, **fields):
    c = dict(architectures=[architecture], model_type=model_type, **BASE)
    c.update(fields)
    return {k: v for k, v in c.items() if k not in drop}


def old(architecture, model_type, base=OLD, **fields):
    return dict(architectures=[architecture], model_type=model_type, **dict(base, **fields))


FALCON = dict(vocab_size=96, hidden_size=64, num_hidden_layers=3, num_attention_heads=4)
OPT = dict(vocab_size=96, hidden_size=48, ffn_dim=80, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=160)

CASES = [
    case("llama3", config("LlamaForCausalLM", "llama", head_dim=24, rope_theta=500000.0, tie_word_embeddings=True,
                          rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                            original_max_position_embeddings=32))),
    case("llama-yarn", config("LlamaForCausalLM", "llama", attention_bias=True, mlp_bias=True,
                              rope_parameters=dict(YARN, rope_theta=10000.0))),
    case("arcee", config("ArceeForCausalLM", "arcee", mlp_bias=True)),
    case("cwm", config("CwmForCausalLM", "cwm", head_dim=24, mlp_bias=True, num_hidden_layers=4, sliding_window=9, rms_norm_eps=1e-5,
                       layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"], rope_scaling=dict(
                           rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0,
                           original_max_position_embeddings=32))),
    case("cwm-pattern", config("CwmForCausalLM", "cwm", head_dim=16, num_hidden_layers=5, sliding_window=9, rope_parameters=dict(
        rope_type="default", rope_theta=5000.0))),
    case("helium", config("HeliumForCausalLM", "helium", head_dim=16, attention_bias=True, mlp_bias=True, pad_token_id=0)),
    case("mistral", config("MistralForCausalLM", "mistral", sliding_window=13, rms_norm_eps=1e-5)),
    case("ministral", config("MinistralForCausalLM", "ministral", sliding_window=13, head_dim=20,
                             layer_types=["full_attention", "sliding_attention", "sliding_attention"])),
    case("ministral3", config("Ministral3ForCausalLM", "ministral3", head_dim=24, sliding_window=None, rope_parameters=dict(
        YARN, type="yarn", rope_theta=5000.0, mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=16, llama_4_scaling_beta=0.5))),
    case("qwen2", config("Qwen2ForCausalLM", "qwen2", use_sliding_window=True, sliding_window=11, max_window_layers=1)),
    case("qwen3", config("Qwen3ForCausalLM", "qwen3", head_dim=24, attention_bias=True, rope_theta=1000000.0)),
    case("gemma", config("GemmaForCausalLM", "gemma", "tie_word_embeddings", head_dim=24, num_key_value_heads=1), draw=ZERO),
    case("gemma2", config("Gemma2ForCausalLM", "gemma2", "tie_word_embeddings", head_dim=24, sliding_window=9, query_pre_attn_scalar=20,
                          attn_logit_softcapping=1.5, final_logit_softcapping=2.0), draw=ZERO),
    case("vaultgemma", config("VaultGemmaForCausalLM", "vaultgemma", "tie_word_embeddings", head_dim=24, sliding_window=9,
                              query_pre_attn_scalar=20, attn_logit_softcapping=1.5, final_logit_softcapping=2.0, attention_bias=True),
         draw=ZERO),
    case("gemma3", config("Gemma3ForCausalLM", "gemma3_text", "tie_word_embeddings", head_dim=24, sliding_window=9,
                          sliding_window_pattern=3, rope_local_base_freq=100.0, rope_theta=5000.0,
                          rope_scaling=dict(rope_type="linear", factor=3.0)), draw=ZERO),
    case("gemma3-wrapped", dict(architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", vocab_size=96, hidden_size=64,
                                intermediate_size=112, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                hidden_activation="gelu_pytorch_tanh", layer_types=["sliding_attention", "full_attention"],
                                sliding_window=7, rope_parameters=dict(
                                    full_attention=dict(rope_type="default", rope_theta=4000.0),
                                    sliding_attention=dict(rope_type="default", rope_theta=50.0))), draw=ZERO),
    case("phi3", config("Phi3ForCausalLM", "phi3", sliding_window=17, partial_rotary_factor=0.75, pad_token_id=0)),
    case("phi3-short", config("Phi3ForCausalLM", "phi3", pad_token_id=0, max_position_embeddings=1024,
                              original_max_position_embeddings=200, rope_scaling=LONG)),
    case("phi3-long", config("Phi3ForCausalLM", "phi3", pad_token_id=0, max_position_embeddings=1024,
                             original_max_position_embeddings=48, rope_scaling=LONG)),
    case("llama-dynamic", config("LlamaForCausalLM", "llama", max_position_embeddings=64, head_dim=16,
                                 rope_scaling=dict(type="dynamic", factor=4.0)), tokens=90, greedy=0),
    case("smollm3", config("SmolLM3ForCausalLM", "smollm3", no_rope_layers=[1, 0, 1], pad_token_id=0, rope_scaling=YARN)),
    case("granite", config("GraniteForCausalLM", "granite", attention_bias=True, mlp_bias=True, embedding_multiplier=6.0,
                           residual_multiplier=0.4, attention_multiplier=0.3, logits_scaling=3.0)),
    case("olmo", config("OlmoForCausalLM", "olmo", clip_qkv=0.7, attention_bias=True)),
    case("olmo2", config("Olmo2ForCausalLM", "olmo2")),
    case("olmo3", config("Olmo3ForCausalLM", "olmo3", num_hidden_layers=4, sliding_window=9, rope_scaling=YARN, rope_theta=20000.0)),
    case("stablelm", config("StableLmForCausalLM", "stablelm", use_qkv_bias=True)),
    case("stablelm-parallel", config("StableLmForCausalLM", "stablelm", use_parallel_residual=True, qk_layernorm=True,
                                     partial_rotary_factor=0.5)),
    case("starcoder2", config("Starcoder2ForCausalLM", "starcoder2", "tie_word_embeddings", sliding_window=15)),
    case("cohere", config("CohereForCausalLM", "cohere", "tie_word_embeddings", use_qk_norm=True, attention_bias=True, logit_scale=0.3)),
    case("cohere2", config("Cohere2ForCausalLM", "cohere2", "tie_word_embeddings", num_hidden_layers=4, sliding_window=9,
                           sliding_window_pattern=2, rope_theta=5000.0)),
    case("glm", config("GlmForCausalLM", "glm", head_dim=16, pad_token_id=0)),
    case("glm4", config("Glm4ForCausalLM", "glm4", head_dim=24, pad_token_id=0, partial_rotary_factor=0.5)),
    case("exaone4", config("Exaone4ForCausalLM", "exaone4", num_hidden_layers=4, sliding_window=9, sliding_window_pattern=2)),
    case("seed_oss", config("SeedOssForCausalLM", "seed_oss", head_dim=20, attention_out_bias=True)),
    case("nemotron", config("NemotronForCausalLM", "nemotron", head_dim=16, attention_bias=True), draw=ZERO),
    case("ernie4_5", config("Ernie4_5ForCausalLM", "ernie4_5", "tie_word_embeddings", head_dim=16, use_bias=True)),
    case("phi", config("PhiForCausalLM", "phi")),
    case("phi-norm", config("PhiForCausalLM", "phi", qk_layernorm=True, partial_rotary_factor=0.25)),
    case("falcon-7b", old("FalconForCausalLM", "falcon", FALCON, alibi=False)),
    case("falcon-40b", old("FalconForCausalLM", "falcon", FALCON, new_decoder_architecture=True, num_kv_heads=2, bias=True)),
    case("falcon-11b", old("FalconForCausalLM", "falcon", FALCON, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1,
                           ffn_hidden_size=80)),
    case("falcon-rw", old("FalconForCausalLM", "falcon", FALCON, multi_query=False, parallel_attn=False, alibi=True, bias=True,
                          num_attention_heads=8), attention="sdpa"),  # eager adds ALiBi twice (transformers 5.23)
    case("gpt2", old("GPT2LMHeadModel", "gpt2")),
    case("gpt_neox", config("GPTNeoXForCausalLM", "gpt_neox", "num_key_value_heads", rotary_pct=0.5, rotary_emb_base=5000)),
    case("gpt_neox-serial", config("GPTNeoXForCausalLM", "gpt_neox", "num_key_value_heads", use_parallel_residual=False,
                                   attention_bias=False)),
    case("gptj", old("GPTJForCausalLM", "gptj", rotary_dim=8)),
    case("opt", old("OPTForCausalLM", "opt", OPT)),
    case("opt-350m", old("OPTForCausalLM", "opt", OPT, do_layer_norm_before=False, word_embed_proj_dim=32)),
    case("bloom", old("BloomForCausalLM", "bloom", dict(vocab_size=96, hidden_size=60, n_layer=3, n_head=6))),
    case("mpt", old("MptForCausalLM", "mpt", dict(vocab_size=96, d_model=60, n_layers=3, n_heads=6, max_seq_len=160),
                    attn_config=dict(alibi=True, clip_qkv=1.5))),
]
