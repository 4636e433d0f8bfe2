#!/usr/bin/env python3
"""Makes tests/goldens/models/*.json: tiny random models, one or more a family, with the logits transformers gives in float32.

Only config, tokens and logits are committed. Weights are drawn by a counter-based generator of (seed, tensor name) that
tests/unit/model/golden.h has in C: word i of a tensor is Philox4x32-10(counter = (i / 4, 0, 0, 0), key = FNV-1a(name) ^ seed)[i % 4];
its four bytes' sum, less 510, times a float32 scale is nearly normal; plus a float32 mean.

Cases are entries of dense.py, moe.py, ssm.py, ... in this folder (CASES, made by case() below). Matrices are N(0, 1 / fan-in), norm
weights and biases are perturbed, so that every tensor matters. The tensors' names and shapes are those transformers saves.

    python3 tests/goldens/models/make.py [NAME...]        (needs torch, transformers 5, safetensors)
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch
import base64, glob, importlib.util, json, math, re, sys, tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from draw import SIGMA, bf16_round, words  # noqa: E402
GREEDY, LOGIT_ROWS, BF16_ROWS = 64, 14, 6
MARGIN = 5e-4  # a greedy step whose two best logits are nearer than this decides nothing: another seed is taken


def case(name, config, tokens=80, draw=(), publish=None, greedy=GREEDY, seed=1, attention="eager", model_class=None, chunk_exact=True,
         shapes=None, reference=None):
    """config: as a published config.json would spell it (with architectures and model_type). draw: (regex, mean, sigma) of tensor names
    that the rules below get wrong. publish: function of the tensors (name -> array, as transformers saves them) to the tensors of the
    file, for forms that published checkpoints have and transformers reads. model_class: name of the transformers class. reference:
    function of config, tensors and ids to float64 logits where transformers has no such model; shapes are then given too, and an empty
    config stands for no config.json."""
    return dict(name=name, config=config, tokens=tokens, draw=list(draw), publish=publish, greedy=greedy, seed=seed, attention=attention,
                model_class=model_class, chunk_exact=chunk_exact,
                shapes=shapes, reference=reference)


def rule(case, name, shape):
    """(mean, sigma) of a tensor."""
    for pattern, mean, sigma in case["draw"]:
        if re.search(pattern, name):
            return mean, sigma
    if name.endswith("bias") or name.endswith(".bias"):
        return 0.0, 0.2
    if len(shape) <= 1 or "norm" in name.rsplit(".", 2)[-2]:
        zero = case["config"].get("norm_offset_zero")  # never in a config; see draw
        return (0.0 if zero else 1.0), 0.2
    return 0.0, 1 / math.sqrt(shape[-1])


def draw(seed, name, shape, mean, sigma):
    count = int(np.prod(shape))
    w = words(seed, name, count)
    total = sum(((w >> s) & 255).astype(np.int64) for s in (0, 8, 16, 24)) - 510
    return (total.astype(np.float32) * np.float32(sigma / SIGMA) + np.float32(mean)).reshape(shape)


def load(case, tensors):
    """The model with these weights, read from a folder as any checkpoint is."""
    if case["reference"]:
        return lambda ids: case["reference"](case["config"], tensors, np.array(ids))
    import torch, transformers
    from safetensors.numpy import save_file
    with tempfile.TemporaryDirectory() as d:
        json.dump(case["config"], open(d + "/config.json", "w"))
        save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, d + "/model.safetensors", metadata={"format": "pt"})
        cls = getattr(transformers, case["model_class"] or case["config"]["architectures"][0])
        model, info = cls.from_pretrained(d, dtype=torch.float32, attn_implementation=case["attention"], output_loading_info=True)
    tied = {"lm_head.weight", "transformer.wte.weight"}
    assert not set(info["missing_keys"]) - tied and not info["unexpected_keys"] and not info["mismatched_keys"], info
    return model.eval()


def shapes_of(case):
    """name -> shape as transformers saves the model of this config."""
    import transformers, torch
    from safetensors import safe_open
    with tempfile.TemporaryDirectory() as d:
        json.dump(case["config"], open(d + "/config.json", "w"))
        config = transformers.AutoConfig.from_pretrained(d)
        cls = getattr(transformers, case["model_class"] or case["config"]["architectures"][0])
        torch.manual_seed(0)
        model = cls._from_config(config, attn_implementation="eager") if hasattr(cls, "_from_config") else cls(config)
        model.float().save_pretrained(d)
        shapes = {}
        for path in sorted(glob.glob(d + "/*.safetensors")):
            with safe_open(path, "np") as f:
                for k in f.keys():
                    shapes[k] = list(f.get_slice(k).get_shape())
        return shapes


def logits_of(model, ids):
    if not hasattr(model, "eval"):
        return model(ids)
    import torch
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double().numpy()


def greedy_of(model, ids, count):
    """The continuation, or None where a step decides nothing."""
    ids, out = list(ids), []
    for _ in range(count):
        row = logits_of(model, ids)[-1]
        best = np.sort(row)[-2:]
        if best[1] - best[0] < MARGIN * np.abs(row).max():
            return None
        out.append(int(row.argmax()))
        ids.append(out[-1])
    return out


def b64(x):
    return base64.b64encode(np.ascontiguousarray(x, dtype="<f4").tobytes()).decode()


def rows_of(count, n):
    """Some early ones, then spread to the last."""
    return sorted({0, 1, 2} | {round(i * (count - 1) / (n - 4)) for i in range(n - 3)})


def make(case):
    # a case with `publish` draws the published tensors and transformers reads those
    shapes = case["shapes"] or shapes_of(case)
    if case["publish"]:
        shapes = {k: list(v.shape) for k, v in case["publish"]({k: np.zeros(s, np.float32) for k, s in shapes.items()}).items()}
    config = case["config"]
    vocab = (config.get("text_config") or config).get("vocab_size") or shapes["embed_tokens.weight"][0]
    for seed in range(case["seed"], case["seed"] + 200):
        spec = [[name, shape] + list(rule(case, name, shape)) for name, shape in sorted(shapes.items())]
        tensors = {n: draw(seed, n, s, m, g) for n, s, m, g in spec}
        ids = [int(x) for x in words(seed, "tokens", case["tokens"]) % vocab]
        model = load(case, tensors)
        greedy = greedy_of(model, ids, case["greedy"])
        if greedy is not None:
            break
    else:
        raise SystemExit(f"{case['name']}: no seed gives a decided continuation")
    rows, rows16 = rows_of(len(ids), LOGIT_ROWS), rows_of(len(ids), BF16_ROWS)
    full = logits_of(model, ids)
    rounded = logits_of(load(case, {k: bf16_round(v.reshape(-1)).reshape(v.shape) for k, v in tensors.items()}), ids)
    import transformers
    golden = dict(name=case["name"], transformers=transformers.__version__, config=json.dumps(config) if config else "", seed=seed, vocab=vocab,
                  tensors=spec, tokens=ids, rows=rows, logits=b64(full[rows]), rows_bf16=rows16, logits_bf16=b64(rounded[rows16]),
                  greedy=greedy)
    with open(f"{HERE}/{case['name']}.json", "w") as f:
        lines = [f"  {json.dumps(k)}: " + ("[\n    " + ",\n    ".join(json.dumps(t) for t in v) + "\n  ]" if k == "tensors" else json.dumps(v))
                 for k, v in golden.items()]
        f.write("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{case['name']}: seed {seed}, {len(shapes)} tensors, |logits| {np.abs(full).max():.2f}", flush=True)


def cases():
    for path in sorted(glob.glob(HERE + "/*.py")):
        if os.path.basename(path) not in ("make.py", "table.py"):
            spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            yield from getattr(module, "CASES", [])


def main():
    sys.modules["make"] = sys.modules["__main__"]
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    wanted = sys.argv[1:]
    for c in cases():
        if not wanted or c["name"] in wanted:
            make(c)


if __name__ == "__main__":
    main()
