#!/usr/bin/env python3
"""What a step of a mixture of experts on one H200 should take with the kernels of this tree: Qwen3-30B-A3B and gpt-oss-120b.

A prediction, not a measurement, as bench/gpu/step_model.py, whose machine and products of dense matrices it takes. Rows choose their
experts by chance, evenly: real ones do not, so more of them share experts. Prints tables in Markdown:
bench/gpu/mixture_model.py [--context N] [--lines]; --lines: each kernel of a layer.
"""
import math
import sys

import step_model
from step_model import COLUMNS, DRAM, EDGE, FIRST, L2, LIST, LONE, MERGE, MMA, NORMED_ROWS, PORT, REACH, ROTATION, SMS, WAYS, WGMMA, CLOCK, small

# width: of an expert; window: of every second layer; dense: weights that are no experts'; head: of the head.
MODELS = {
    "qwen3-30b-a3b, bf16": dict(
        layers=48, hidden=2048, heads=32, kv_heads=4, dim=128, vocab=151936, experts=128, top=8, width=768, window=None, norms=True,
        dense="bf16", head="bf16", kind="bf16"),
    "qwen3-30b-a3b, q4_k": dict(
        layers=48, hidden=2048, heads=32, kv_heads=4, dim=128, vocab=151936, experts=128, top=8, width=768, window=None, norms=True,
        dense="q4_k", head="q6_k", kind="q4_k"),
    "gpt-oss-120b, mxfp4": dict(
        layers=36, hidden=2880, heads=64, kv_heads=8, dim=64, vocab=201088, experts=128, top=4, width=2880, window=128, norms=False,
        dense="bf16", head="bf16", kind="mxfp4"),
}
# Blocks of an expert's product by rows of a slot (kernels/cuda/expert_mma.cu, expert_packed_hopper.cu): features, k of a stage, blocks an SM
# holds, clocks in which an SM issues a stage of one block. Of 16 bits: warps x instructions of the loop / 4 (docs/gpu-registers.md). In units: what
# a quarter issues for 64 k, four times (tests/machine_code_packed.py --experts --slots).
MMA_BLOCKS = {8: (32, 128, 5, 50), 32: (64, 64, 4, 96), 64: (64, 64, 3, 121), 128: (128, 32, 2, 198)}
UNIT_BLOCKS = {
    "mxfp4": {8: (64, 256, 2, 4 * 141), 16: (64, 256, 2, 4 * 156), 32: (64, 256, 2, 4 * 178), 64: (128, 256, 1, 4 * 405), 128: (128, 256, 1, 4 * 561)},
    "q4_k": {8: (64, 256, 2, 4 * 145), 16: (64, 256, 2, 4 * 172), 32: (64, 256, 2, 4 * 220), 64: (128, 256, 1, 4 * 561), 128: (128, 256, 1, 4 * 876)},
}
SHARED = 128 * CLOCK  # bytes a second of an SM's shared memory: ldmatrix reads a warp's features and rows anew for each 16 or 32 k
# What a block needs before its first weights are asked for: offsets and the expert's description out of L2 (0.6), then their first bytes. Blocks
# of the first wave have that while the kernel ahead runs; of later ones it passes beside the other blocks that their SM holds.
BEGINS = 0.7e-6 + FIRST
# A warp chooses a row's experts (kernels/cuda/route.cu): logits out of L2 (0.6), exponentials, a tree for each choice (150 clocks), then a lane each
# the weights: their logits out of L2 again (0.3), two sums in order out of shared memory (0.1).
CHOICE, CHOICES, WEIGHTS = 1.0e-6, 150 / CLOCK, 0.4e-6
# The block that has chosen sorts: masks, counts and first places over five barriers (0.05 each), an exchange of lanes, stores.
SORTED_AT_ONCE = 0.5e-6
# A block of its own: what is chosen out of L2 (0.6), the same, and for each further 512 pairs loads, an atomic, counts of bits and stores (0.15).
SORT, SORTED_PAIRS = 1.1e-6, (512, 0.15e-6)
# Past SORTED_ROWS a warp sorts an expert's pairs: 32 at a time it counts the lower ones (60 clocks), then finds its own (110).
SORT_ALL, SORTED_ALL, SORTED_ROWS = 1.0e-6, 170 / CLOCK, 512
ONCE_ROWS, ROUTE_SHARED = 32, 48 * 1024
# Of the rotation's kernel where it norms heads: squares of a warp's lanes, the root, a head's way through shared memory.
HEADS_NORMED = 0.2e-6
# Of a product with a gate: exponentials of the sums that a thread has, before its stores.
GATED = 0.1e-6
# Kernels of a layer whose time is a launch's and a few loads', and those of experts.
SMALL = ("rope, kv", "norms", "router", "choice, sort", "sort", "gather", "activation", "combine")
EXPERTS = ("experts' gate and up", "experts' down")
# Decode attention, a warp's instructions for 256 positions by head size (docs/gpu-registers.md).
DECODE = {64: 2885, 128: 3322}
# Prompt attention by head size: instructions of a warp that multiplies, without a mask, and of one that copies.
PROMPT = {64: (803 - 230, 177), 128: (653, 257)}


def chosen(m, rows):
    """Of one expert: the chance of each number of rows, 0 to rows (a row has an expert at most once)."""
    p, chances = m["top"] / m["experts"], []
    for n in range(rows + 1):
        log = math.lgamma(rows + 1) - math.lgamma(n + 1) - math.lgamma(rows - n + 1) + n * math.log(p) + (rows - n) * math.log1p(-p)
        chances.append(math.exp(log))
    return chances


def met(m, rows):
    """Experts that a step's rows meet."""
    return m["experts"] * (1 - (1 - m["top"] / m["experts"]) ** rows)


def tokens_of(m, rows):
    """Rows of a slot: multiply_experts of expert_mma.cu, of expert_packed_hopper.cu."""
    each = rows * m["top"] // m["experts"]
    if m["kind"] == "bf16":
        return 8 if each < 4 else 32 if each < 24 else 64 if each < 96 else 128
    return 8 if each < 4 else 16 if each < 10 else 32 if each < 24 else 64 if each < 48 else 128


def chosen_and_sorted(m, rows):
    """Kernels that choose experts and sort rows by them: name -> (seconds, what binds, launches)."""
    turns, pairs = math.ceil(rows / (SMS * 32)), rows * m["top"]
    choice = CHOICE + turns * m["top"] * CHOICES + WEIGHTS + EDGE
    shared = rows * (m["experts"] * 14 + m["top"] * 8) + m["experts"] * 8
    if rows <= ONCE_ROWS and shared <= ROUTE_SHARED:
        return {"choice, sort": (choice + SORTED_AT_ONCE, "one block", 1)}
    if rows <= SORTED_ROWS:
        sort = SORT + (math.ceil(pairs / SORTED_PAIRS[0]) - 1) * SORTED_PAIRS[1] + EDGE
        return {"choice, sort": (choice, "one warp a row", 1), "sort": (sort, "one block", 1)}
    sort = SORT_ALL + math.ceil(pairs / 32) * SORTED_ALL + EDGE
    return {"choice, sort": (choice, "one warp a row", 1), "sort": (sort, "one warp an expert", 1)}


def expert_product(m, features, cols, rows):
    """Seconds of all experts' products of a step, and the resource that binds."""
    t = tokens_of(m, rows)
    f, stage, resident, clocks = (MMA_BLOCKS if m["kind"] == "bf16" else UNIT_BLOCKS[m["kind"]])[t]
    each, pairs = step_model.weight_bytes(m["kind"]), rows * m["top"]
    slots = m["experts"] * sum(chance * math.ceil(n / t) for n, chance in enumerate(chosen(m, rows)))
    blocks = slots * math.ceil(features / f)
    per_sm = max(blocks / SMS, math.ceil(blocks / SMS) if blocks < SMS * resident else 0)
    stages = math.ceil(cols / stage)
    row_bytes = pairs / slots * cols * 2  # of x, that a block reads
    if m["kind"] == "bf16":  # a warp has 16 or 32 features: all its rows come out of shared memory for those
        warp = {8: (16, 8), 32: (16, 32), 64: (32, 32), 128: (32, 64)}[t]
        read = f * t / (warp[0] * warp[1]) * (warp[0] + warp[1]) * 2 * cols
        multiply = ("mma.sync", per_sm * 2 * f * t * cols / (MMA / SMS))
    else:  # a warpgroup has 64
        read = f / 64 * (64 * each + t * 2) * cols
        multiply = ("wgmma", per_sm * 2 * f * max(t, COLUMNS) * cols / (WGMMA / SMS))
    times = {
        "memory": (met(m, rows) * features * cols * each + pairs * (cols + features) * 2) / (DRAM * REACH) * per_sm / (blocks / SMS),
        "L2": blocks * (f * cols * each + row_bytes) / L2,
        "SM's port": per_sm * (f * cols * each + row_bytes) / PORT,
        "instructions": per_sm * stages * clocks / CLOCK,
        multiply[0]: multiply[1],
        "shared memory": per_sm * (read + f * cols * each + t * cols * 2) / SHARED,
    }
    binds = max(times, key=times.get)
    later = max(0, per_sm / resident - 1)  # blocks of a place behind the first
    begins = later * BEGINS * {1: 1, 2: 0.5}.get(resident, 0) if m["kind"] != "bf16" else 0
    return times[binds] + begins + EDGE, binds


def decode_attention(m, rows, context):
    """As step_model.attention; nothing of it passes beside the product of Q, K and V, behind which a kernel norms heads, where they are normed, and rotates."""
    steps = rows * m["kv_heads"] * math.ceil(context / 256)
    positions = min(context, 256)
    seconds = {
        "memory": rows * m["kv_heads"] * context * 2 * m["dim"] * 2 / (DRAM * REACH),
        "instructions": math.ceil(steps / SMS) * DECODE[m["dim"]] * WAYS * LONE / CLOCK,
        "SM's port": math.ceil(steps / SMS) * positions * 2 * m["dim"] * 2 / PORT,
    }
    binds = max(seconds, key=seconds.get)
    alone = min(seconds["SM's port"], seconds["instructions"]) if steps <= SMS else 0
    return seconds[binds] + alone + LIST + FIRST - min(ROTATION, LIST + FIRST) + (MERGE if context > 256 else 0) + EDGE, binds


def prompt_attention(m, rows, context):
    """As step_model.prompt_attention. A window: tiles outside of it are passed over."""
    multiply, copy = PROMPT[m["dim"]]
    tile = {
        "wgmma": 4 * 128 * 128 * m["dim"] / (WGMMA / SMS),
        "instructions": (2 * multiply + copy) / CLOCK,
        "exponentials": 128 * 128 / step_model.EXPONENTIALS / CLOCK,
    }
    binds = max(tile, key=tile.get)

    def layer(window):
        blocks = [math.ceil(min(context - rows + (i + 1) * 128, window) / 128) for i in range(math.ceil(rows / 128))]
        each = [count * tile[binds] + step_model.PROMPT_ENDS for count in blocks]
        return m["heads"] * sum(each) / SMS + sum(each) / len(each) / 2 + EDGE

    whole = layer(context)
    return (whole + layer(m["window"] + 128)) / 2 if m["window"] else whole, binds


def lines(m, rows, context, prompt=False):
    """Kernels of a layer: name -> (seconds, what binds, launches)."""
    hidden, width, pairs = m["hidden"], m["width"], rows * m["top"]
    heads = (m["heads"] + 2 * m["kv_heads"]) * m["dim"]
    folded = not prompt and rows <= NORMED_ROWS and m["dense"] == "bf16"  # the norm ahead of QKV, the residual's addition behind O
    out = {}

    def dense(name, features, cols, kind, normed=False):
        seconds, binds = step_model.product(features, cols, rows, kind, prompt, normed)
        out[name] = (seconds, binds, 1)

    dense("qkv", heads, hidden, m["dense"], folded)
    out["rope, kv"] = (small(rows, heads * 4) + (HEADS_NORMED if m["norms"] else 0), "launches", 1)
    if folded and not m["norms"]:
        out["rope, kv"] = (step_model.ROPED, "an exchange", 0)
    if prompt:
        out["attention"] = (*prompt_attention(m, rows, context), 1)
    else:
        whole = decode_attention(m, rows, context)
        some = decode_attention(m, rows, min(context, m["window"] or context))
        out["attention"] = ((whole[0] + some[0]) / 2, whole[1], 1)
    dense("o", hidden, m["heads"] * m["dim"], m["dense"])
    # Behind O the norm adds to the residual, or the products around it make it; the one ahead of QKV is made with the sum of experts, or by QKV's.
    out["norms"] = (2 * step_model.NORMED, "launches", 0) if folded else (small(rows, hidden * 12), "launches", 1)
    dense("router", m["experts"], hidden, "bf16", folded)
    out |= chosen_and_sorted(m, rows)
    out["gather"] = (small(pairs, hidden * (6 if folded else 4)), "launches", 1)
    gates = m["kind"] == "bf16"  # others have a kernel for the activation
    seconds, binds = expert_product(m, 2 * width, hidden, rows)
    out["experts' gate and up"] = (seconds + (GATED if gates else 0), binds, 1)
    if not gates:
        out["activation"] = (small(pairs, width * 6), "launches", 1)
    out["experts' down"] = (*expert_product(m, hidden, width, rows), 1)
    out["combine"] = (small(rows, (m["top"] * 2 + 8 + (0 if folded else 2)) * hidden), "launches", 1)
    return out


def head(m, rows):
    logits = step_model.product(m["vocab"], m["hidden"], rows, m["head"])[0]
    return logits + step_model.sampler(rows) * m["vocab"] / step_model.VOCAB + 5 * EDGE


def bytes_of(m, rows):
    """Weights that a step reads: (experts', all)."""
    experts = m["layers"] * met(m, rows) * 3 * m["hidden"] * m["width"] * step_model.weight_bytes(m["kind"])
    dense = m["layers"] * (2 * m["heads"] + 2 * m["kv_heads"]) * m["dim"] * m["hidden"] * step_model.weight_bytes(m["dense"])
    router = m["layers"] * m["experts"] * m["hidden"] * 2
    return experts, experts + dense + router + m["vocab"] * m["hidden"] * step_model.weight_bytes(m["head"])


def kv_bytes(m, rows, context):
    seen = context if not m["window"] else (context + min(context, m["window"])) / 2
    return m["layers"] * rows * seen * 2 * m["kv_heads"] * m["dim"] * 2


def operations(m, tokens):
    """Of a prompt: products of its layers, and attention."""
    weights = (2 * m["heads"] + 2 * m["kv_heads"]) * m["dim"] * m["hidden"] + 3 * m["top"] * m["hidden"] * m["width"] + m["experts"] * m["hidden"]
    seen = tokens / 2 if not m["window"] else (tokens / 2 + m["window"]) / 2
    return 2 * m["layers"] * weights * tokens, 4 * m["layers"] * m["heads"] * m["dim"] * seen * tokens


def step(m, rows, context):
    """Seconds, floor, launches, kernels of a layer. The floor: bytes by the copy's rate, or operations by wgmma's."""
    layer = lines(m, rows, context)
    seconds = m["layers"] * sum(s for s, _, _ in layer.values()) + head(m, rows)
    best = max((bytes_of(m, rows)[1] + kv_bytes(m, rows, context)) / DRAM, operations(m, rows)[0] / WGMMA)
    return seconds, best, m["layers"] * sum(n for _, _, n in layer.values()) + 8, layer


def prefill(m, tokens, chunk):
    seconds, layers = 0, {}
    for at in range(0, tokens, chunk):
        for name, (s, binds, _) in lines(m, chunk, at + chunk, True).items():
            seconds += m["layers"] * s
            layers[name] = (layers.get(name, (0, ""))[0] + m["layers"] * s, binds)
    return seconds, sum(operations(m, tokens)) / WGMMA, layers


def main():
    context = int(sys.argv[sys.argv.index("--context") + 1]) if "--context" in sys.argv else 1024
    if "--lines" in sys.argv:
        for name, m in MODELS.items():
            print(f"| {name}: us of a layer | 1 | 8 | 64 | 256 | binds at 1, at 64 |\n| --- | --- | --- | --- | --- | --- |")
            layers = [step(m, rows, context)[3] for rows in (1, 8, 64, 256)]
            for line in layers[0] | layers[3]:
                figures = " | ".join(f"{of[line][0] * 1e6:.1f}" if line in of else "-" for of in layers)
                binds = ", ".join(layers[i][line][1] if line in layers[i] else "-" for i in (0, 2))
                print(f"| {line} | {figures} | {binds} |")
            print()
        for name, m in MODELS.items():
            print(f"| {name}: ms of 8192 tokens | chunks of 2048 | 8192 | binds |\n| --- | --- | --- | --- |")
            both = [prefill(m, 8192, chunk)[2] for chunk in (2048, 8192)]
            for line in both[0]:
                print(f"| {line} | {both[0][line][0] * 1e3:.1f} | {both[1][line][0] * 1e3:.1f} | {both[1][line][1]} |")
            print()
        return
    print(f"| model, batch, context {context} | experts met | GB read | launches | predicted, ms | floor, ms | of the floor | small kernels, ms | experts over their bytes, ms (what binds) |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, m in MODELS.items():
        for rows in (1, 8, 64, 256):
            seconds, best, launches, layer = step(m, rows, context)
            read = (bytes_of(m, rows)[1] + kv_bytes(m, rows, context)) / 1e9
            between = m["layers"] * sum(layer[line][0] for line in SMALL if line in layer) * 1e3
            over = m["layers"] * sum(layer[line][0] for line in EXPERTS) * 1e3 - bytes_of(m, rows)[0] / DRAM * 1e3
            print(
                f"| {name}, {rows} | {met(m, rows):.0f} | {read:.2f} | {launches} | {seconds * 1e3:.2f} | {best * 1e3:.2f} | {best / seconds:.2f} "
                f"| {between:.2f} | {over:.2f} ({layer[EXPERTS[0]][1]}) |"
            )
        for chunk in (2048, 8192):
            seconds, best, layers = prefill(m, 8192, chunk)
            between, experts = (sum(layers[line][0] for line in of if line in layers) * 1e3 for of in (SMALL, EXPERTS))
            print(
                f"| {name}, prompt of 8192, chunks of {chunk} | - | - | - | {seconds * 1e3:.0f} | {best * 1e3:.0f} | {best / seconds:.2f} "
                f"| {between:.0f} | {experts:.0f} in all ({layers[EXPERTS[0]][1]}) |"
            )


if __name__ == "__main__":
    main()
