#!/usr/bin/env python3
"""Compares our GGUF files with llama.cpp, both ways, on the goldens of tests/goldens/models.

Ours: the golden's weights are drawn, `trireme convert` writes them as GGUF, llama.cpp computes the prompt's logits from that file. Theirs: the
converter of llama.cpp writes the same folder (with the config as transformers saves it, as published ones are) and `trireme logits` reads that
file. What a golden asks and llama.cpp's architecture does not know is taken out first (WITHOUT). Errors are relative to our logits of the folder,
which test_model_families holds to those of transformers; GELU is good for 1e-3, as ggml looks it up in halves.

    python3 tests/tools/llama_cpp_diff.py --source LLAMA.CPP [--build LLAMA.CPP/build/bin] [--ours] [--keys] [--fused]
                                     [--type q8_0] [GOLDEN...]

--source: a checkout of llama.cpp; --build: the folder of its libllama.so. --ours: only our files, which needs numpy alone; the other way needs
torch, transformers and gguf. --keys: prints in which keys and tensors the two files differ. --fused: its converter fuses queries, keys and values.
--type: the errors are those of files so quantised, against our logits of the same file. Exit code 1: a file of ours is refused or gives other logits there, or one of theirs here.
"""
import argparse, json, os, re, struct, subprocess, sys, tempfile, zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDENS = os.path.join(os.path.dirname(HERE), "goldens", "models")
sys.path[:0] = [GOLDENS, os.path.dirname(GOLDENS)]
from make import draw  # noqa: E402

TOLERANCE = 1e-4  # of f32 products in another order
GELU_TOLERANCE = 1e-3
GELU = {"bloom", "falcon", "gemma", "gemma2", "gemma3_text", "gemma3", "gpt2", "gpt_neox", "mpt", "phi", "starcoder2"}
OWN_KEYS = ("trireme.", "general.", "tokenizer.")

# What llama.cpp has no place for. set: fields of the config; drop: tensors; layers: which ones are taken, renumbered; shapes: what a dimension of
# tensors becomes. It reads no window of these architectures, has one form of what others leave open, and takes no biases where no published model
# has any.
NO_WINDOW = {"set": {"sliding_window": None}}
V3 = {"scoring_func": "sigmoid"}
GRANITE_4 = {"mamba_expand": 2, "mamba_d_conv": 4, "rms_norm_eps": 1e-6, "attention_multiplier": 0.3, "embedding_multiplier": 2.5,
             "residual_multiplier": 0.6, "logits_scaling": 1.7}
WITHOUT = {
    "arcee": {"set": {"mlp_bias": False}, "drop": r"mlp\..*bias"},
    "bamba": {"set": {"partial_rotary_factor": 1.0}},  # it turns whole heads where a part rotates
    "cohere": {"set": {"use_qk_norm": False, "attention_bias": False}, "drop": r"norm\.weight.*qk|[qk]_norm|attn\..*bias"},
    "cohere2": {"set": {"sliding_window_pattern": 4}},
    "deepseek_norm": {"set": {"norm_topk_prob": False, "moe_layer_freq": 1, "num_hidden_layers": 2}, "layers": [0, 2]},
    "deepseek_v2": {"set": {"num_hidden_layers": 27}, "layers": [0, 1] + [2] * 25},
    "deepseek_v2_groups": {"set": {"topk_method": "greedy", "n_group": 1, "topk_group": 1}},
    "deepseek_v3": {"set": {**V3, "rope_scaling": {"type": "yarn", "factor": 8, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                                                   "mscale_all_dim": 1.0, "original_max_position_embeddings": 32}}},
    "deepseek_v3_plain": {"set": {**V3, "attention_bias": False, "rope_interleave": True, "num_hidden_layers": 27}, "drop": r"attn\..*bias", "layers": [0, 1] + [2] * 25},
    "dots1": {"set": {**V3, "num_key_value_heads": 4, "attention_bias": False, "sliding_window": None}, "drop": r"attn\..*bias",
              "shapes": (r"[kv]_proj", 32, 64)},
    "ernie4_5": {"set": {"use_bias": False}, "drop": "bias"},
    "exaone4": {"set": {"sliding_window": None, "layer_types": ["full_attention"] * 4}},
    "falcon-7b": {"set": {"num_kv_heads": 1}},
    "falcon-11b": {"set": {"ffn_hidden_size": 256}, "shapes": (r"mlp", 80, 256)},
    "falcon-40b": {"set": {"bias": False}, "drop": r"(dense\w*|query_key_value)\.bias"},
    "gemma2": {"set": {"query_pre_attn_scalar": 24}},
    "gemma3": {"set": {"query_pre_attn_scalar": 24, "sliding_window_pattern": 6, "num_hidden_layers": 6}, "layers": [0, 1, 2, 0, 1, 2]},
    "gemma3-wrapped": {"set": {"query_pre_attn_scalar": 16, "num_hidden_layers": 6, "layer_types": ["sliding_attention"] * 5 + ["full_attention"]},
                       "layers": [0, 1, 0, 1, 0, 1]},
    "falcon_mamba": {"set": {"mixer_rms_eps": 1e-5}},
    "gpt_neox": {"set": {"rotary_emb_base": 10000}},
    "gpt_neox-serial": {"set": {"attention_bias": True}, "add": (r"(.*)\.(query_key_value|dense)\.weight", r"\1.\2.bias")},
    "gpt_oss": {"set": {"swiglu_limit": 7.0, "swiglu_alpha": 1.702, "rope_scaling": {"rope_type": "default"}}},  # it truncates YaRN's bounds
    "granite-hybrid": {"set": {**GRANITE_4, "shared_intermediate_size": 96}, "shapes": (r"shared_mlp", 224, 192, 112, 96)},
    "granite-hybrid-experts": {"set": GRANITE_4},
    "granite-hybrid-rope": {"set": {**GRANITE_4, "position_embedding_type": "nope", "shared_intermediate_size": 96},
                            "shapes": (r"shared_mlp", 160, 192, 80, 96)},
    "jamba": {"set": {"mamba_proj_bias": False, "num_experts_per_tok": 1, "mamba_expand": 2, "mamba_d_conv": 4}, "drop": r"(in|out)_proj\.bias"},
    "jamba-experts": {"set": {"mamba_expand": 2, "mamba_d_conv": 4}},
    "lfm2": {"set": {"conv_bias": False}, "drop": "bias"},
    "llama-dynamic": {"set": {"rope_scaling": None, "max_position_embeddings": 256}},
    "llama4": {"set": {"attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1, "no_rope_layer_interval": 4}},
    "mamba2": {"set": {"time_step_limit": [0.0, 1e9]}},
    "mistral": NO_WINDOW,
    "mixtral_window": NO_WINDOW,
    "mpt": {"set": {"architectures": ["MPTForCausalLM"], "attn_config": {"alibi": True, "clip_qkv": 1.5, "alibi_bias_max": 8}}},
    "nemotron_h": {"set": {"use_bias": False, "attention_bias": False, "time_step_min": 0.001}, "drop": r"(in|out|[qkvo])_proj\.bias"},
    "nemotron_h-experts": {"set": {"hybrid_override_pattern": "ME*E", "num_hidden_layers": 4, "n_group": 1, "topk_group": 1}, "layers": [0, 1, 2, 3]},
    "nemotron_h-latent": {"set": {"mlp_bias": False}, "drop": r"(shared_experts\.\w+|latent_proj)\.bias"},
    "olmo": {"set": {"attention_bias": False}, "drop": "bias"},
    "olmo3": {"set": {"rope_theta": 500000.0}},
    "olmoe": {"set": {"clip_qkv": None, "num_key_value_heads": 4}, "shapes": (r"[kv]_proj|k_norm", 24, 48)},
    "phi": {"set": {"intermediate_size": 256, "num_key_value_heads": 4}, "shapes": (r"fc|[kv]_proj", 112, 256, 32, 64)},
    "phi3": NO_WINDOW,
    "qwen2": {"set": {"use_sliding_window": False}},
    "qwen2_moe": {"set": {"mlp_only_layers": [], "num_hidden_layers": 2}, "layers": [0, 2]},
    "qwen3": {"set": {"attention_bias": False}, "drop": "bias"},
    "qwen3_moe": {"set": {"decoder_sparse_step": 1, "num_hidden_layers": 2}, "layers": [1, 1]},
    "qwen3_5": {"set": {"linear_value_head_dim": 16}, "shapes": (r"linear_attn", 112, 128, 48, 64, 12, 16)},
    "qwen3_next": {"set": {"linear_value_head_dim": 16, "mlp_only_layers": []}, "layers": [0, 1, 0, 3], "shapes": (r"linear_attn", 160, 192, 112, 128, 48, 64, 12, 16)},
    "seed_oss": {"set": {"attention_out_bias": False}, "drop": r"o_proj\.bias"},
    "smollm3": {"set": {"no_rope_layers": [1, 1, 1]}},
    "starcoder2": NO_WINDOW,
}
# What published configs say and classes of transformers do not keep.
PUBLISHED = {
    "bloom": {"seq_length": 2048},
    "cohere2": {"rotary_pct": 1.0},
    "glm": {"seq_length": 256, "layernorm_epsilon": 1.5625e-07},
    "gpt2": {"n_ctx": 160},
    "gpt_neox": {"rotary_pct": 0.25},
}
# What classes of transformers add that published configs do not say.
UNPUBLISHED = {"nemotron_h": ["num_experts_per_tok", "layers_block_type"]}
# Nothing of these is left.
NOT_THERE = {
    "mamba-odd": "only layers twice as wide as the hidden state",
    "mamba2-odd": "no convolution without a bias",
    "falcon-rw": "no such Falcon",
    "phi-norm": "no norms of queries and keys",
    "phi3-short": "takes the long factors where the context is not shorter than the prompt's",
}


def without(golden, changes):
    """The config and the tensors, changed."""
    config, tensors = json.loads(golden["config"]), []
    (config.get("text_config") or config).update(changes.get("set", {}))
    pattern, *pairs = changes.get("shapes", ("^$",))
    pairs = dict(zip(pairs[::2], pairs[1::2]))
    for name, shape, mean, sigma in golden["tensors"]:
        if "drop" in changes and re.search(changes["drop"], name):
            continue
        if re.search(pattern, name):
            shape = [pairs.get(d, d) for d in shape]
        layer = re.search(r"\.(\d+)\.", name)
        places = [i for i, source in enumerate(changes.get("layers", [])) if layer and int(layer[1]) == source]
        names = [name[:layer.start()] + f".{i}." + name[layer.end():] for i in places] if layer and "layers" in changes else [name]
        if "add" in changes and re.fullmatch(changes["add"][0], name):
            tensors.append([re.sub(*changes["add"], name), shape[:1], 0.0, 0.2])
        tensors += [[n, shape, mean, sigma] for n in names]
    return config, tensors


def write_folder(golden, folder):
    """The model as safetensors."""
    config, tensors = without(golden, WITHOUT.get(golden["name"], {}))
    header, data, at = {}, [], 0
    for name, shape, mean, sigma in tensors:
        values = np.ascontiguousarray(draw(golden["seed"], name, shape, mean, sigma), "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(values)]}
        data.append(values)
        at += len(values)
    text = json.dumps(header).encode()
    with open(folder + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))
    with open(folder + "/config.json", "w") as f:
        json.dump(config, f)
    return config


def run(command, text=""):
    """What a program prints; a RuntimeError with the last line of its complaint."""
    p = subprocess.run(command, input=text.encode(), capture_output=True, timeout=120)
    if p.returncode:
        lines = [line for line in p.stderr.decode(errors="replace").splitlines() if line.strip()] or [f"ended by {p.returncode}"]
        told = [line for line in lines if "error loading model:" in line or "GGML_ASSERT" in line or line.startswith("trireme")]
        raise RuntimeError((told or lines)[-1].strip()[-160:])
    return p.stdout


class Sides:
    """The programs of both sides."""

    def __init__(self, args, scratch):
        self.trireme, self.source, self.reader = args.trireme, args.source, scratch + "/logits"
        self.fused = args.fused
        build = args.build or args.source + "/build/bin"
        run(["cc", "-O1", f"-I{args.source}/include", f"-I{args.source}/ggml/include", HERE + "/llama_cpp_logits.c", "-o", self.reader,
             f"-L{build}", "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{build}"])

    def ours_of(self, path, ids):
        line = json.dumps({"ids": ids, "chunks": [len(ids)]})
        out = run([self.trireme, "logits", "--model", path, "--jsonl", "--compute", "f32", "--threads", "1"], line + "\n")
        return np.array(json.loads(out.splitlines()[0])["logits"])

    def theirs_of(self, path, ids):
        return np.frombuffer(run([self.reader, path], " ".join(map(str, ids))), "<f4").reshape(len(ids), -1)

    def convert(self, folder, out, kind):
        command = "quantize" if kind else "convert"
        run([self.trireme, command, "--model", folder, "--out", out] + (["--type", kind] if kind else []))

    def convert_there(self, folder, out):
        """With llama.cpp's converter, but for the vocabulary, which goldens lack."""
        from pathlib import Path
        if self.source not in sys.path:
            sys.path[:0] = [self.source, self.source + "/gguf-py"]
        import conversion, gguf, transformers, logging
        logging.disable(logging.ERROR)
        with open(folder + "/config.json") as f:
            config = json.load(f)
        try:
            saved = transformers.AutoConfig.from_pretrained(folder).to_dict()
        except ValueError:  # not a class of transformers
            saved = {}
        new = {k: v for k, v in config.items() if not saved.get("rope_parameters") or k not in ("rope_theta", "rope_scaling")}
        for field in UNPUBLISHED.get(config["model_type"], []):
            saved.pop(field, None)
        hparams = {**saved, **PUBLISHED.get(config["model_type"], {}), **new}
        vocab = (config.get("text_config") or config)["vocab_size"]
        with open(folder + "/config.json", "w") as f:
            json.dump(hparams, f)
        with open(folder + "/tokenizer.json", "w") as f:  # Gemma's counts it
            json.dump({"model": {"vocab": {str(i): i for i in range(vocab)}}, "added_tokens": []}, f)
        cls = conversion.get_model_class(conversion.get_model_architecture(hparams, conversion.ModelType.TEXT))

        def no_vocab(self):
            self._set_vocab_none()
            if not any("vocab_size" in key for kvs in self.gguf_writer.kv_data for key in kvs):
                self.gguf_writer.add_vocab_size(vocab)

        plain = type(cls.__name__, (cls,), {"set_vocab": no_vocab, "model_arch": cls.model_arch, "no_mtp": True})
        plain(Path(folder), gguf.LlamaFileType.ALL_F32, Path(out), eager=True, hparams=hparams, fuse_qkv=self.fused).write()


def error_of(got, want):
    return float(np.linalg.norm(got - want) / np.linalg.norm(want)) if np.isfinite(got).all() else float("inf")


def attempt(action):
    """Its number, or why there is none."""
    try:
        return action()
    except Exception as e:
        return f"{type(e).__name__ + ': ' if not isinstance(e, RuntimeError) else ''}{e}".splitlines()[0]


def contents(path):
    """Keys and tensors of a file, as text."""
    from gguf import GGUFReader
    reader, found = GGUFReader(path), {}
    for name, field in reader.fields.items():
        if not name.startswith(OWN_KEYS) and not name.startswith("GGUF."):
            found[name] = repr(field.contents())[:100]
    for t in reader.tensors:
        found[t.name] = f"{[int(d) for d in t.shape]} {t.tensor_type.name} {zlib.crc32(t.data.tobytes()):08x}"
    return found


def print_differences(ours, theirs):
    a, b = contents(ours), contents(theirs)
    for key in sorted(a.keys() | b.keys()):
        if a.get(key) != b.get(key):
            print(f"    {key}: ours {a.get(key, '-')}, theirs {b.get(key, '-')}")


def shown(value):
    return f"{value:.1e}" if isinstance(value, float) else "-" if value is None else value


def compare(sides, golden, args, scratch):
    """Errors of our file there, and of theirs here."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        ours, theirs, ids = folder + "/ours.gguf", folder + "/theirs.gguf", golden["tokens"]
        write_folder(golden, folder)
        want = sides.ours_of(folder, ids)
        failure = attempt(lambda: sides.convert(folder, ours, args.type))
        if failure:
            return [failure, None]
        if args.type:
            want = sides.ours_of(ours, ids)
        results = [attempt(lambda: error_of(sides.theirs_of(ours, ids), want)), None]
        if args.ours or args.type:
            return results
        failure = attempt(lambda: sides.convert_there(folder, theirs))
        if failure:
            return [results[0], "no converter: " + failure]
        results[1] = attempt(lambda: error_of(sides.ours_of(theirs, ids), want))
        if args.keys:
            print_differences(ours, theirs)
        return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("goldens", nargs="*")
    parser.add_argument("--source", required=True)
    parser.add_argument("--build")
    parser.add_argument("--trireme", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "release", "bin", "trireme"))
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--keys", action="store_true")
    parser.add_argument("--type")
    parser.add_argument("--fused", action="store_true")
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        sides = Sides(args, scratch)
        print("| golden | our file in llama.cpp | its file here |\n| --- | --- | --- |")
        for name in args.goldens or sorted(f[:-5] for f in os.listdir(GOLDENS) if f.endswith(".json")):
            with open(f"{GOLDENS}/{name}.json") as f:
                golden = json.load(f)
            if not golden["config"]:
                continue
            if name in NOT_THERE:
                print(f"| {name} | {NOT_THERE[name]} | |")
                continue
            results = compare(sides, golden, args, scratch)
            if isinstance(results[0], str) and "cannot be written as GGUF" in results[0]:
                continue
            tolerance = GELU_TOLERANCE if json.loads(golden["config"])["model_type"] in GELU else TOLERANCE
            judged = [r for r in results if r is not None and not str(r).startswith("no converter")]
            bad += any(not isinstance(r, float) or r > tolerance for r in judged)
            print(f"| {name} | " + " | ".join(shown(r) for r in results) + " |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
