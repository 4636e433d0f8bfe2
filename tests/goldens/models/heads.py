"""Llamas of real head sizes and of one to eight query heads a KV head: what attention kernels of a GPU are cut for.

Embeddings are N(0, 1), as large as what a layer adds, as in trained models: with N(0, 1 / width) transformers' own bf16 differs from its
f32 by 1.25e-2 here, so that no bound of 1e-2 could be asked of anybody; with these it differs by 7e-3.
"""
from make import case


def config(head_dim, heads, kv_heads):
    return dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=512, rope_theta=10000.0,
                tie_word_embeddings=False)


CASES = [case(f"head{d}-gqa{h // g}", config(d, h, g), tokens=40, greedy=24, draw=[("embed_tokens", 0.0, 1.0)])
         for d, h, g in [(64, 4, 4), (64, 8, 4), (64, 8, 1), (80, 4, 2), (128, 2, 2), (128, 4, 2), (128, 4, 1), (128, 8, 1)]]
