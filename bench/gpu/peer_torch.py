"""The same shape under transformers with a static cache and torch.compile, random weights, bf16: decode steps at context 1024.

    peer_torch.py SHAPE DEVICE         (exit code 77: torch or transformers is not there)
"""
import json
import os
import sys
import time

SHAPE, DEVICE = sys.argv[1:3]
SHAPES = {  # hidden, layers, heads, kv heads, head size, ffn, vocab, tied, biases
    "qwen2.5-0.5b": (896, 24, 14, 2, 64, 4864, 151936, True, True),
    "llama-3.2-1b": (2048, 16, 32, 8, 64, 8192, 128256, True, False),
    "llama-3.1-8b": (4096, 32, 32, 8, 128, 14336, 128256, False, False),
}

try:
    import torch
    import transformers
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, StaticCache
except ImportError as e:
    print(f"not measured: {e}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("not measured: torch sees no GPU")
    sys.exit(77)


def figure(name, seconds):
    print(json.dumps({"kind": "figure", "step": os.environ.get("TRIREME_STEP", "peer"), "device": DEVICE, "commit": os.environ.get("TRIREME_COMMIT", "unknown"),
                      "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "name": name, "value": round(seconds * 1e6, 2), "unit": "us"},
                     separators=(",", ":")), flush=True)


def make_model():
    hidden, layers, heads, kv_heads, head_dim, ffn, vocab, tied, biases = SHAPES[SHAPE]
    common = dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim,
                  intermediate_size=ffn, vocab_size=vocab, tie_word_embeddings=tied, max_position_embeddings=8192)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen2ForCausalLM(Qwen2Config(**common)) if biases else LlamaForCausalLM(LlamaConfig(**common))
    return model.eval()


@torch.inference_mode()
def decode_seconds(model, step, batch, context, steps=32):
    cache = StaticCache(config=model.config, max_cache_len=context + 128)
    ids = torch.randint(0, 3000, (batch, 1), device="cuda")
    at = torch.arange(0, 256, device="cuda")
    for first in range(0, context, 256):  # fills the cache
        model(torch.randint(0, 3000, (batch, 256), device="cuda"), past_key_values=cache, cache_position=at + first, use_cache=True, logits_to_keep=1)
    position = torch.tensor([context], device="cuda")
    for i in range(8 + steps):
        if i == 8:
            torch.cuda.synchronize()
            began = time.monotonic()
        ids = step(ids, cache, position)
        position = position + 1
    torch.cuda.synchronize()
    return (time.monotonic() - began) / steps


def main():
    torch.manual_seed(0)
    model = make_model()

    def one(ids, cache, position):
        return model(ids, past_key_values=cache, cache_position=position, use_cache=True).logits[:, -1].argmax(-1, keepdim=True)
    compiled = torch.compile(one, mode="reduce-overhead", fullgraph=False)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    for batch in (1, 8, 32):
        try:
            figure(f"peer: decode, {SHAPE} bf16, batch {batch}, context 1024, torch.compile ({versions})",
                   decode_seconds(model, lambda i, c, p: compiled(i, c, p).clone(), batch, 1024))
        except Exception as e:  # a peer that fails is no failure of ours; the note says so
            print(f"batch {batch}: {type(e).__name__}: {str(e)[:200]}")


main()
