#!/usr/bin/env python3
"""What a step of Llama-3.1-8B on one H200 should take with the kernels of this tree, from bytes, instructions and launches.

A prediction, not a measurement. Each number below has its reason beside it and is to be replaced by what ./dev gpu --run
measures; the shapes are those that kernels/cuda/linear_hopper.cu and attention_decode.cuh choose. Prints a table in Markdown:
bench/gpu/step_model.py [--context N] [--weights bf16|fp8|fp8-128|int8|q8_0|q4_0|int4|q4_k|q6_k|mxfp4].
"""
import math
import sys

# The machine.
DRAM = 4.3e12  # bytes a second: PyTorch's copy on H200, of 4.8e12 on the data sheet
L2 = 5.5e12  # bytes a second from L2 to all SMs: between what is published for H100 reads that hit (5.5e12 to 7e12)
SMS, CLOCK = 132, 1.755e9
LANES = 128 * SMS * CLOCK  # instructions of single threads a second: four warps of 32 a clock and SM
MMA = 0.62 * 990e12  # operations a second by mma.sync, which reaches some 62 % of wgmma's rate on Hopper
REACH = 0.93  # of the DRAM rate, by a kernel whose copies are always under way
EDGE = 1.0e-6  # seconds a launch adds: ramp and drain that an early beginning does not hide (1.3e-6 in plain graphs)

# The model.
LAYERS, HIDDEN, FEED, VOCAB, HEADS, KV_HEADS, DIM = 32, 4096, 14336, 128256, 32, 8, 128
PRODUCTS = {
    "qkv": (HIDDEN + 2 * KV_HEADS * DIM, HIDDEN),
    "o": (HIDDEN, HIDDEN),
    "gate_up": (2 * FEED, HIDDEN),
    "down": (HIDDEN, FEED),
}
PORT = 64 * CLOCK * 0.8  # bytes a second that one SM takes from L2: 64 a clock, four fifths of it
WGMMA = 790e12  # operations a second of wgmma with large tiles: what torch reaches on H200; 8 to 64 columns take as long as 64
# Of the loops (docs/gpu-registers.md): issue slots of an SM's quarter for each stage of 64 k, (rows, warpgroups).
LOOP = {(8, 1): 142, (16, 1): 141, (32, 1): 141, (64, 1): 147, (64, 2): 247, (128, 1): 170, (128, 2): 264, (256, 2): 334}
# Quantised weights (linear_packed.cu): bytes a weight with its scales, and issue slots of an SM's quarter for each 64 k, both
# warpgroups that multiply, what a stage of 256 k takes beside, and the one that copies. By tests/machine_code_packed.py --slots.
PACKED = {
    "fp8": (1, {(8, 1): 162, (32, 1): 166, (64, 1): 176, (64, 2): 302, (128, 2): 319}),
    "fp8-128": (1, {(8, 1): 179, (32, 1): 200, (64, 1): 225, (64, 2): 399, (128, 2): 479}),
    "int8": (1, {(8, 1): 147, (32, 1): 150, (64, 1): 161, (64, 2): 272, (128, 2): 288}),
    "q8_0": (34 / 32, {(8, 1): 164, (32, 1): 193, (64, 1): 234, (64, 2): 421, (128, 2): 568}),
    "q4_0": (18 / 32, {(8, 1): 152, (32, 1): 181, (64, 1): 218, (64, 2): 392, (128, 2): 539}),
    "int4": (0.5 + 8 / 128, {(8, 1): 228, (32, 1): 323, (64, 1): 402, (64, 2): 780, (128, 2): 1116}),  # groups of 128, scales and zeros in f32
    "q4_k": (144 / 256, {(8, 1): 224, (32, 1): 316, (64, 1): 396, (64, 2): 700, (128, 2): 1012}),
    "q6_k": (210 / 256, {(8, 1): 223, (32, 1): 277, (64, 1): 348, (64, 2): 646, (128, 2): 929}),
    "mxfp4": (17 / 32, {(8, 1): 200, (32, 1): 230, (64, 1): 267, (64, 2): 492, (128, 2): 638}),
}
HEAD_OF = {"q8_0": "q8_0", "q4_0": "q6_k", "q4_k": "q6_k", "q6_k": "q6_k"}  # what files have it in; others: bf16
FP8_RATE = 1580e12  # operations a second of a floor for fp8 and int8; our products multiply in bf16


def weight_bytes(kind):
    return 2 if kind == "bf16" else PACKED[kind][0]


def packed_block_of(features, rows):
    """The same of linear_packed.cu: packed_shape."""
    if rows <= 32:
        return 8 if rows <= 8 else 32, 1
    pairs = math.ceil(features / 128)
    for tokens in (128, 64):
        if rows > tokens // 2 and pairs * math.ceil(rows / tokens) * 3 >= SMS * 2:
            return tokens, 2
    return 64, 1


def block_of(features, rows):
    """Rows and warpgroups (64 features each) of a block: linear_hopper_of."""
    for few in (8, 16, 32):
        if rows <= few:
            return few, 1
    tokens = 64 if rows <= 64 else 128 if rows <= 128 else 256
    pairs = features // 64 // 2
    wide = pairs * math.ceil(rows / tokens) * 3 >= SMS * 2
    if rows <= 64:
        return 64, 2 if wide else 1
    if rows > 128 and wide:
        return 256, 2
    return 128, 2 if pairs * math.ceil(rows / 128) * 9 >= SMS * 4 else 1


def product(features, cols, rows, kind="bf16"):
    """Seconds, and the resource that binds."""
    t, groups = block_of(features, rows) if kind == "bf16" else packed_block_of(features, rows)
    loop = LOOP if kind == "bf16" else PACKED[kind][1]
    f = 64 * groups
    blocks_n, blocks_t = math.ceil(features / f), math.ceil(rows / t)
    blocks = blocks_n * blocks_t
    each = weight_bytes(kind)
    weights = features * cols * each
    block_bytes = (f * each + min(t, rows) * 2) * cols  # rows that are not there are not read
    # The last wave may be partly empty, which matters where one SM's port, sums or instructions bind, not DRAM or L2.
    waves = math.ceil(blocks / SMS)
    stages = math.ceil(cols / 64)
    times = {
        "memory": (weights + rows * (cols + features) * 2) / (DRAM * REACH),
        "L2": blocks * block_bytes / L2,
        "SM's port": waves * block_bytes / PORT,
        "instructions": waves * stages * loop[(t, groups)] / CLOCK,
        "wgmma": waves * 2 * f * cols * max(t, 64) / (WGMMA / SMS),
    }
    binds = max(times, key=times.get)
    return times[binds] + EDGE, binds


def attention(rows, context):
    """Decode attention with its merge."""
    bytes_kv = rows * context * 2 * KV_HEADS * DIM * 2
    copies = bytes_kv / 16
    seconds = {"memory": bytes_kv / (DRAM * REACH), "instructions": copies * 45 / LANES}  # 340 for 8 copies a thread, with the sums
    binds = max(seconds, key=seconds.get)
    parts = rows * KV_HEADS * math.ceil(context / 256)
    return max(seconds[binds], 4e-6 * math.ceil(parts / (3 * SMS)) if parts < 3 * SMS else 0) + 2 * EDGE, binds


def small(rows, bytes_a_row):
    """Norms, rotation, activation: a block a row or less."""
    return max(1.2e-6, rows * bytes_a_row / (DRAM * REACH)) + EDGE


def step(rows, context, kind="bf16"):
    layer = {name: product(n, k, rows, kind) for name, (n, k) in PRODUCTS.items()}
    layer["attention"] = attention(rows, context)
    layer["norms"] = (2 * small(rows, HIDDEN * 12), "memory")
    layer["rope, kv"] = (small(rows, 6144 * 4), "memory")
    layer["act_mul"] = (small(rows, FEED * 6), "memory")
    total = LAYERS * sum(seconds for seconds, _ in layer.values())
    head = product(VOCAB, HIDDEN, rows, HEAD_OF.get(kind, "bf16"))[0]
    sampler = 40e-6 + rows * VOCAB * 4 * 3 / (DRAM * REACH)  # one block a row: three passes over the logits
    return total + head + sampler + 5 * EDGE, layer


def floor(rows, context, kind="bf16"):
    linear = LAYERS * sum(n * k for n, k in PRODUCTS.values())
    rate = FP8_RATE if kind.startswith(("fp8", "int8")) else 790e12
    head = VOCAB * HIDDEN
    kv = rows * context * LAYERS * 2 * KV_HEADS * DIM * 2
    head_bytes = head * weight_bytes(HEAD_OF.get(kind, "bf16"))
    return (
        max(linear * weight_bytes(kind) / DRAM, 2 * linear * rows / rate)
        + max(head_bytes / DRAM, 2 * head * rows / 790e12)
        + kv / DRAM
    )


def prefill(tokens, chunk=512, kind="bf16"):
    """Products as above, in chunks; attention by mma.sync over half of all pairs."""
    linear = LAYERS * sum(n * k for n, k in PRODUCTS.values())
    seconds = LAYERS * sum(product(n, k, chunk, kind)[0] for n, k in PRODUCTS.values()) * tokens / chunk
    pairs = 2 * tokens * tokens * HEADS * DIM * LAYERS
    return seconds + pairs / (MMA * 0.5), 2 * linear * tokens / 790e12 + pairs / 790e12


def main():
    context = int(sys.argv[sys.argv.index("--context") + 1]) if "--context" in sys.argv else 1024
    kind = sys.argv[sys.argv.index("--weights") + 1] if "--weights" in sys.argv else "bf16"
    print(f"| {kind}, batch, context {context} | predicted, ms | floor, ms | of the floor | largest loss |")
    print("| --- | --- | --- | --- | --- |")
    for rows in (1, 8, 64, 256):
        seconds, layer = step(rows, context, kind)
        best = floor(rows, context, kind)
        worst = max(PRODUCTS, key=lambda n: layer[n][0] - PRODUCTS[n][0] * PRODUCTS[n][1] * weight_bytes(kind) / DRAM)
        print(f"| {rows} | {seconds * 1e3:.2f} | {best * 1e3:.2f} | {best / seconds:.2f} | {worst}: {layer[worst][1]} |")
    seconds, best = prefill(8192, 512, kind)
    print(f"| prefill 8192, chunks of 512 | {seconds * 1e3:.0f} | {best * 1e3:.0f} | {best / seconds:.2f} | attention by mma.sync, chunks |")
    seconds, best = prefill(8192, 2048, kind)
    print(f"| prefill 8192, chunks of 2048 | {seconds * 1e3:.0f} | {best * 1e3:.0f} | {best / seconds:.2f} | attention by mma.sync |")


if __name__ == "__main__":
    main()
