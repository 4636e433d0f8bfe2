#!/usr/bin/env python3
"""Compares families with transformers on random variations of the goldens' configs: `trireme logits` must agree, or refuse by name.

Each round takes a case of tests/goldens/models, changes its sizes (heads, groups, odd head sizes, widths), flips what the configuration
class knows as switches, leaves fields out (the class's defaults then hold) or spells them the other way (rope_theta and rope_scaling, or
rope_parameters), orders layers of several kinds anew, draws weights, and compares all logits, computed in chunks of any size. Files are one
or several, f32 or bf16. Every model is tried with the config as written and as transformers saves it.

    python3 tests/tools/model_diff.py [--rounds N] [--seed N] [--trireme PATH] [CASE...]     (needs torch and transformers)
"""
import argparse, collections, copy, dataclasses, glob, json, os, random, subprocess, sys, tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = os.path.dirname(os.path.abspath(__file__))
GOLDENS = os.path.join(os.path.dirname(HERE), "goldens", "models")
sys.path.insert(0, GOLDENS)
import make

TOLERANCE = 1e-4  # of a row's logits; a mixture may send single rows elsewhere, so nine rows of ten must hold it
ACTIVATIONS = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "quick_gelu"]
HIDDEN = ["hidden_size", "n_embd", "d_model", "n_embed"]
HEADS = ["num_attention_heads", "n_head", "n_heads"]
KV = ["num_key_value_heads", "num_kv_heads"]
WIDTHS = ["intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size",
          "shared_intermediate_size", "intermediate_size_mlp"]
# fields of a class that change no logits, or that say what a model is for
NO_SWITCH = {"use_cache", "output_attentions", "output_hidden_states", "return_dict", "output_router_logits", "is_encoder_decoder",
             "use_mamba_kernels", "use_bidirectional_attention", "is_decoder", "add_cross_attention", "use_mambapy", "tie_encoder_decoder",
             "use_falcon_mambapy", "alibi", "new_decoder_architecture", "multi_query", "mamba_proj_bias", "use_associative_scan",
             "apply_residual_connection_post_layernorm", "use_conv_bias", "conv_bias", "mamba_conv_bias", "reorder_and_upcast_attn"}
KEPT = {"architectures", "model_type", "vocab_size", "hidden_act", "layer_types", "num_hidden_layers", "max_position_embeddings", "n_positions",
        "rotary_dim", "pad_token_id", *HIDDEN, *HEADS, *KV, *WIDTHS}


def pick(config, names):
    return next((n for n in names if n in config), None)


def resize(rng, c):
    """Other counts of heads, head sizes, widths and layers."""
    hidden, heads, kv = pick(c, HIDDEN), pick(c, HEADS), pick(c, KV)
    if heads and hidden and "q_lora_rank" not in c and "kv_lora_rank" not in c:
        count = rng.choice([1, 2, 3, 4, 5, 6, 8])
        dim = rng.choice([8, 12, 14, 16, 18, 20, 24, 34])
        c[heads] = count
        if kv:
            c[kv] = rng.choice([d for d in range(1, count + 1) if count % d == 0])
        if "head_dim" in c and rng.random() < 0.7:
            c["head_dim"], c[hidden] = dim, rng.choice([count * dim, count * rng.randrange(4, 20) * 2])
        else:
            c.pop("head_dim", None)
            c[hidden] = count * dim
        if kv and rng.random() < 0.15:
            c.pop(kv)
    for w in WIDTHS:
        if c.get(w):
            c[w] = rng.randrange(9, 70) if rng.random() < 0.3 else 4 * rng.randrange(3, 30)
    if "layer_types" not in c and "num_hidden_layers" in c:
        c["num_hidden_layers"] = rng.randrange(1, 6)


def layers(rng, c):
    """Other orders of layers' kinds, and which have experts."""
    if isinstance(c.get("layer_types"), list) and "num_hidden_layers" in c and "no_rope_layers" not in c and rng.random() < 0.5:
        kinds = sorted(set(c["layer_types"]))
        c["num_hidden_layers"] = rng.randrange(1, 6)
        c["layer_types"] = [rng.choice(kinds) for _ in range(c["num_hidden_layers"])]
    for field, most in ("first_k_dense_replace", 3), ("decoder_sparse_step", 3), ("interleave_moe_layer_step", 2):
        if field in c and rng.random() < 0.5:
            c[field] = rng.randrange(field != "first_k_dense_replace", most + 1)
    if "mlp_only_layers" in c and rng.random() < 0.5:
        c["mlp_only_layers"] = [i for i in range(4) if rng.random() < 0.4]


def switches(rng, c, cls):
    """Truths of the class, epsilons, and activations."""
    for field in dataclasses.fields(cls):
        value = field.default
        if isinstance(value, bool) and field.name not in NO_SWITCH and rng.random() < 0.25:
            c[field.name] = not c.get(field.name, value)
        elif field.name.endswith("eps") or field.name.endswith("epsilon"):
            if rng.random() < 0.5:
                c[field.name] = rng.choice([1e-3, 1e-5, 1e-6, 1e-8])
        elif field.name in ("hidden_act", "hidden_activation", "activation_function", "activation") and rng.random() < 0.2:
            c[field.name] = rng.choice(ACTIVATIONS)


def rotary(rng, c):
    """Another rotary kind, or the same in the other spelling."""
    theta = c.get("rope_theta")
    scaling = c.get("rope_scaling")
    if "rope_parameters" in c or "rope_local_base_freq" in c or (scaling and "longrope" in scaling.values()):
        return
    if rng.random() < 0.4 and c["model_type"] not in ("gpt_oss", "olmo3"):
        kind = rng.choice(["default", "linear", "dynamic", "yarn", "llama3", None])
        scaling = kind and {"rope_type": kind}
        if kind in ("linear", "dynamic", "yarn", "llama3"):
            scaling["factor"] = rng.choice([2.0, 4.0, 8, 3.5])
        if kind in ("yarn", "llama3"):
            scaling["original_max_position_embeddings"] = rng.choice([16, 32, 64])
        if kind == "yarn":
            for name, values in dict(beta_fast=[32, 16.0], beta_slow=[1, 2], mscale=[1.0, 0.7], mscale_all_dim=[1.0, 0.5], attention_factor=[0.8],
                                     truncate=[False, True]).items():
                if rng.random() < 0.3:
                    scaling[name] = rng.choice(values)
        if kind == "llama3":
            scaling.update(low_freq_factor=1.0, high_freq_factor=4.0)
        theta = rng.choice([None, 10000.0, 500.0, 1e6, 10000])
    for name in ("rope_theta", "rope_scaling"):
        c.pop(name, None)
    if rng.random() < 0.5:
        if theta:
            c["rope_theta"] = theta
        if scaling:
            if rng.random() < 0.3:
                scaling = {("type" if k == "rope_type" else k): v for k, v in scaling.items()}
            c["rope_scaling"] = scaling
    elif theta or scaling:
        c["rope_parameters"] = dict(scaling or {})
        if "type" not in c["rope_parameters"]:
            c["rope_parameters"].setdefault("rope_type", "default")
        if theta:
            c["rope_parameters"]["rope_theta"] = theta


def drop(rng, c):
    """Leaves optional fields to the class."""
    for name in list(c):
        if name not in KEPT and not name.startswith("mamba") and isinstance(c[name], (bool, float, int)) and c[name] and rng.random() < 0.08 \
                and not any(part in name for part in ("expert", "rank", "dim", "state", "size", "window", "num", "n_")):
            c.pop(name)


def vary(rng, config, cls):
    c = copy.deepcopy(config)
    resize(rng, c)
    layers(rng, c)
    switches(rng, c, cls)
    if "rope_parameters" in {f.name for f in dataclasses.fields(cls)}:
        rotary(rng, c)
    drop(rng, c)
    return c


def build(case, config, seed, folder, bf16, shard):
    """A model of this config with drawn weights, saved: in bf16 what bf16 holds, in files of so many bytes."""
    import safetensors.torch, torch, transformers
    json.dump(config, open(folder + "/config.json", "w"))
    cls = getattr(transformers, case["model_class"] or config["architectures"][0])
    parsed = transformers.AutoConfig.from_pretrained(folder)
    torch.manual_seed(seed)
    model = cls._from_config(parsed, attn_implementation=case["attention"]).float().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            mean, sigma = make.rule(case, name, list(p.shape))
            values = torch.randn(p.shape) * sigma + mean
            p.copy_(values.bfloat16() if bf16 else values)
        for name, b in model.named_buffers():
            if "correction" in name:
                b.copy_(torch.randn(b.shape) * 0.3)
    model.save_pretrained(folder, max_shard_size=shard)
    if bf16:
        for name in glob.glob(folder + "/*.safetensors"):
            tensors = safetensors.torch.load_file(name)
            kept = {k: v if "correction" in k else v.bfloat16() for k, v in tensors.items()}
            safetensors.torch.save_file(kept, name, metadata={"format": "pt"})
    return model


def trireme(program, folder, ids, chunks):
    line = json.dumps({"ids": ids, "chunks": chunks})
    p = subprocess.run([program, "logits", "--model", folder, "--jsonl", "--compute", "f32", "--threads", "1"], input=line + "\n",
                       capture_output=True, text=True, timeout=60)
    if p.returncode:
        return None, p.stderr.strip().splitlines()[-1] if p.stderr.strip() else f"ended by {p.returncode}"
    return json.loads(p.stdout.splitlines()[0])["logits"], ""


def compare(got, want):
    """The share of rows within the tolerance, and the median row's error."""
    import torch
    got, want = torch.tensor(got, dtype=torch.float64), want.double()
    if got.shape != want.shape or not torch.isfinite(want).all():
        return None
    errors = (got - want).norm(dim=-1) / want.norm(dim=-1).clamp_min(1e-12)
    return (errors <= TOLERANCE).double().mean().item(), errors.median().item()


def cut(rng, count):
    """Chunks of a prompt."""
    chunks = []
    while sum(chunks) < count:
        chunks.append(min(rng.choice([1, 1, 2, 5, 16, 33, count]), count - sum(chunks)))
    return chunks


def round_of(rng, case, program, results):
    import torch, transformers
    cls = transformers.CONFIG_MAPPING[case["config"]["model_type"]]
    config = vary(rng, case["config"], cls)
    length = rng.choice([1, 7, 40, 90])
    length = min(length, config.get("max_position_embeddings", 90), config.get("n_positions", 90), config.get("max_seq_len", 90))
    with tempfile.TemporaryDirectory() as folder:
        try:
            model = build(case, config, rng.randrange(1 << 30), folder, rng.random() < 0.3, rng.choice(["5GB", "20KB"]))
            ids = [rng.randrange(config["vocab_size"]) for _ in range(length)]
            with torch.no_grad():
                want = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
        except Exception as e:
            results["no reference"] += 1
            return [("no reference", config, f"{type(e).__name__}: {str(e)[:150]}")]
        out = []
        saved = open(folder + "/config.json").read()
        for spelling, text in (("saved", saved), ("written", json.dumps(config))):
            open(folder + "/config.json", "w").write(text)
            got, why = trireme(program, folder, ids, cut(rng, length))
            shown = compare(got, want) if got else None
            kind = "refused" if not got else "no reference" if not shown else "equal" if shown[0] >= 0.9 else "DIFFERENT"
            results[kind] += 1
            out.append((kind, json.loads(text), f"{spelling}: {why or shown}"))
        return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trireme", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "release", "bin", "trireme"))
    parser.add_argument("--verbose", action="store_true", help="also what transformers itself cannot make")
    args = parser.parse_args()
    sys.modules.setdefault("make", make)
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    total, different = collections.Counter(), 0
    for case in make.cases():
        if case["reference"] or case["shapes"] or case["publish"] or (args.cases and case["name"] not in args.cases):
            continue
        results, notes = collections.Counter(), []
        for i in range(args.rounds):
            notes += round_of(random.Random(f"{args.seed} {case['name']} {i}"), case, args.trireme, results)
        print(f"{case['name']}: {dict(results)}", flush=True)
        seen = set()
        for kind, config, why in notes:
            if (kind == "equal") or (kind == "no reference" and not args.verbose) or (kind, why) in seen:
                continue
            seen.add((kind, why))
            print(f"  {kind}: {why}" + (f"\n    {json.dumps(config)}" if kind != "no reference" else ""), flush=True)
        total.update(results)
    print(f"all: {dict(total)}")
    return 1 if total["DIFFERENT"] else 0


if __name__ == "__main__":
    sys.exit(main())
