"""The network: Llama's layout (RMS norm, rotary positions, grouped queries, gated feed-forward), plain PyTorch.

Parameter names are those of the checkpoint files, so export() only has to round and write them."""

import json
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 3072, "hidden_size": 256, "intermediate_size": 768,
    "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "hidden_act": "silu",
    "max_position_embeddings": 2048, "rope_theta": 10000.0, "rope_scaling": None, "rms_norm_eps": 1e-05, "tie_word_embeddings": True,
    "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "initializer_range": 0.02, "pretraining_tp": 1,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "torch_dtype": "bfloat16", "use_cache": True,
}


def rotary_tables(length, head_dim, theta):
    """cos and sin, [length, head_dim], the two halves of a head alike ("half rotation")."""
    frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), frequency)
    return torch.cat([angle.cos()] * 2, -1).float(), torch.cat([angle.sin()] * 2, -1).float()


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], -1) * sin


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.head_dim = c["head_dim"]
        hidden, kv = c["hidden_size"], c["num_key_value_heads"] * c["head_dim"]
        self.q_proj, self.o_proj = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.k_proj, self.v_proj = nn.Linear(hidden, kv, bias=False), nn.Linear(hidden, kv, bias=False)

    def forward(self, x, cos, sin):
        rows, length, hidden = x.shape
        q, k, v = (p(x).view(rows, length, -1, self.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(rows, length, hidden))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden, inner = c["hidden_size"], c["intermediate_size"]
        self.gate_proj, self.up_proj = nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (RMSNorm(c["hidden_size"], c["rms_norm_eps"]) for _ in range(2))
        self.self_attn, self.mlp = Attention(c), MLP(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config, self.model = c, Body(c)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(p, std=c["initializer_range"] / (math.sqrt(2 * c["num_hidden_layers"]) if last else 1))
        cos, sin = rotary_tables(c["max_position_embeddings"], c["head_dim"], c["rope_theta"])
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens):
        """tokens [rows, length] -> logits [rows, length, vocab_size]."""
        x = self.model.embed_tokens(tokens)
        if torch.is_autocast_enabled("cpu"):
            x = x.to(torch.bfloat16)
        cos, sin = (t[: tokens.shape[1]].to(x.dtype) for t in (self.cos, self.sin))
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def export(net, folder):
    """Writes config.json and model.safetensors, the weights rounded to bf16, each by rename so that a reader sees old or new."""
    os.makedirs(folder, exist_ok=True)
    write_json(os.path.join(folder, "config.json"), net.config)
    weights = {name: p.detach().to(torch.bfloat16).contiguous() for name, p in net.named_parameters()}
    part = os.path.join(folder, "model.safetensors.part")
    save_file(weights, part, metadata={"format": "pt"})
    os.chmod(part, 0o644)
    os.replace(part, os.path.join(folder, "model.safetensors"))


def load(folder):
    """The model of a folder in float32, its weights still those bf16 values."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        net = Llama(json.load(file))
    net.load_state_dict({name: w.float() for name, w in load_file(os.path.join(folder, "model.safetensors")).items()})
    return net.eval()
