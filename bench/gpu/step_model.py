#!/usr/bin/env python3
"""What a step of Llama-3.1-8B on one H200 should take with the kernels of this tree, from bytes, instructions and launches.

A prediction, not a measurement. Each number below has its reason beside it and is to be replaced by what ./dev gpu --run
measures; the shapes are those that kernels/cuda/linear_hopper.cu and attention_decode.cuh choose. Prints a table in Markdown:
bench/gpu/step_model.py [--context N] [--weights bf16|fp8|fp8-128|fp8-fp8|int8|q8_0|q4_0|int4|q4_k|q6_k|mxfp4] [--losses] [--ranks N]
[--prompt-cache bf16|fp8|int8]. --goals: all that has a goal beside it, the furthest from it first.
"""
import math
import sys

# The machine.
DRAM = 4.3e12  # bytes a second: PyTorch's copy on H200, of 4.8e12 on the data sheet
L2 = 5.5e12  # bytes a second from L2 to all SMs: between what is published for H100 reads that hit (5.5e12 to 7e12)
SMS, CLOCK = 132, 1.755e9
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
PEERS = 2.65e12 / SMS  # bytes a second that one SM reads from others' shared memory in clusters of four (published for H100)
SPLITS = 0.5e-6  # two barriers of a cluster (0.1 each), the first load from a neighbour (0.12), the way out
EXCHANGE = 0.5e-6  # two barriers of a cluster and a load from each of seven neighbours
WGMMA = 790e12  # operations a second of wgmma with large tiles: what torch reaches on H200
# Columns that fewer take as long as. An assumption to be measured first: by mma.sync a quarter of an SM does its share of 8 columns in 6.4
# clocks, a fifth of what 64 take by wgmma, so wgmma is given 16 clocks, its rate with 32. If 8 took as long as 64, four bits would wait for it.
COLUMNS = 32
# Of the loops (docs/gpu-registers.md): issue slots of an SM's quarter for each stage of 64 k, (rows, warpgroups); normed: of 8 rows of the
# residual, by the product that norms them.
LOOP = {(8, 1): 153, "normed": 199, (16, 1): 149, (32, 1): 155, (64, 1): 201, (64, 2): 311, (128, 1): 215, (128, 2): 329, (256, 2): 384}
# Quantised weights (linear_packed.cu): bytes a weight with its scales, and issue slots of an SM's quarter for each 64 k, both
# warpgroups that multiply, what a stage of 256 k takes beside, and the one that copies; normed: of 8 rows of the residual. By
# tests/machine_code_packed.py --slots; of 8 rows with the ways of whole tiles and of halves, of which a product goes one.
PACKED = {
    "fp8": (1, {(8, 1): 176, "normed": 198, (32, 1): 166, (64, 1): 187, (64, 2): 330, (128, 2): 348}),
    "fp8-128": (1, {(8, 1): 202, "normed": 224, (32, 1): 205, (64, 1): 242, (64, 2): 444, (128, 2): 518}),
    # activations in fp8 too (linear_fp8.cu, --compute fp8), by tests/machine_code_fp8.py --slots; the warp that copies with its ways
    # of all clusters, of which a block goes one
    "fp8-fp8": (1, {(8, 1): 132, (32, 1): 138, (64, 1): 147, (64, 2): 216, (128, 2): 256}),
    "int8": (1, {(8, 1): 162, "normed": 183, (32, 1): 151, (64, 1): 171, (64, 2): 300, (128, 2): 318}),
    "q8_0": (34 / 32, {(8, 1): 196, "normed": 220, (32, 1): 192, (64, 1): 245, (64, 2): 446, (128, 2): 590}),
    "q4_0": (18 / 32, {(8, 1): 122, (32, 1): 157, (64, 1): 228, (64, 2): 412, (128, 2): 554}),
    "int4": (0.5 + 8 / 128, {(8, 1): 116, (32, 1): 129, (64, 1): 170, (64, 2): 294, (128, 2): 359}),  # groups of 128, scales and zeros in f32
    "q4_k": (144 / 256, {(8, 1): 145, (32, 1): 232, (64, 1): 321, (64, 2): 596, (128, 2): 908}),
    "q6_k": (210 / 256, {(8, 1): 216, (32, 1): 274, (64, 1): 359, (64, 2): 672, (128, 2): 948}),
    "mxfp4": (17 / 32, {(8, 1): 144, (32, 1): 179, (64, 1): 252, (64, 2): 462, (128, 2): 604}),
}
MINIMA = ("q4_k",)  # whose blocks each sum x up for themselves
# Of up to 8 rows and a split of k up to WHOLE_K, weights of four bits (linear_packed_few.cu), whose x is in shared memory before the loop
# begins: the warp that multiplies and the one warp that copies. By tests/machine_code_packed.py --few --table: 84 and 194 for two stages, 97
# and 50, 106 and 49, 119 and 50 for one.
FEW = {"int4": 84 + 194 / 2 / 4, "q4_0": 97 + 50 / 4, "q4_k": 106 + 49 / 4, "mxfp4": 119 + 50 / 4}
WHOLE_K = 4096
# Issue slots of a quarter for a block's x, of two warps each: copies (two for each of 8 rows, zeros too, with three instructions beside), or
# loads, factor and zeros of rows that are not there (110) and a row to norm (85, a fourth of that loop); sums for minima (8 tiles of 14).
COPIED, NORMED_FIRST, NORMED_ROW, SUMMED = 2 * 16 * 4, 2 * 110, 2 * 85, 2 * 8 * 14
ROPED_BY_TWO = 0.3e-6  # of ROPED's: a barrier of a cluster and a load from the neighbour in place of a barrier of the block
HEAD_OF = {"q8_0": "q8_0", "q4_0": "q6_k", "q4_k": "q6_k", "q6_k": "q6_k"}  # what files have it in; others: bf16
# Decode attention with head size 128 (attention_decode.cuh), by the cache's type: bytes a value, positions of a step, a warp's
# instructions for it with all ways through the code (docs/gpu-registers.md). One block of four warps an SM: 140 KB of it.
ATTENTION = {"bf16": (2, 256, 3322), "fp8": (1, 256, 4847), "int8": (1, 256, 5584)}
WAYS = 2 / 3  # of these instructions, that a full step takes: no mask, one of two ways over V
LONE = 2  # clocks from one instruction to the next of a warp that has a quarter of the SM to itself
LIST = 1.0e-6  # the list of tasks: positions from L2 (0.4), two prefix sums with their barriers
FIRST = 0.8e-6  # from the first copy asked for to the first byte there, out of DRAM
ROTATION = 1.2e-6  # rotation and cache write: loads, a few operations, stores
NORMED_ROWS = 8  # up to so many rows the products around a norm make it, of weights of 16, 8 and 4 bits (linear_hopper.cuh), and read x in f32
# The same of weights of 8 bits and of 4, of a matrix with more blocks than SMs: gate and up.
WIDE_NORMED_ROWS, WIDE_NORMED_FOURS = 6, 4
# Of them, for each norm: squares from L2, which come beside x (0.15), sums of a warp and the root (0.1), before the first x is there; and
# the squares of the product ahead, three exchanges of lanes (0.05). The residual comes while the splits meet.
NORMED = 0.3e-6
# Of them, for the rotation and cache write in QKV's product: angles and places come beside x; an exchange over shared memory with a barrier
# of the block (0.05), stores (0.1).
ROPED = 0.15e-6
# Prompt attention with head size 128 (attention_prompt_hopper.cuh), a block of 128 rows of a head and a tile of 128 positions:
# instructions of a warp that multiplies, without those of a mask (230 of 883), and of one that copies; a quarter of the SM has two of
# the former and one of the latter. A block's first tile is scored, and its last summed, with nothing beside; its queries and first
# keys come with nothing beside, too.
PROMPT_ROWS, PROMPT_TILE = 128, 128
# By the cache's type; of one of 8 bits, which is turned on its way, without what begins another sequence's rows (some 350).
PROMPT_LOOPS = {"bf16": (653, 257), "fp8": (653, 890), "int8": (757, 1000)}
PROMPT_ENDS = 2.5e-6  # rows and queries (1.0), the first keys (0.5), exponentials of one tile, a product, the way out
EXPONENTIALS = 16  # of an SM in a clock
MERGE = 1.5e-6  # a split to scratch, a release, an atomic and the loads of the last block, each by way of L2
# Ranks whose GPUs write to each other's memory (kernels/cuda/peers.cu).
NVLINK = 0.8 * 450e9  # bytes a second each way of an H200's links, of 450e9 on the data sheet: stores of 16 bytes, with their headers
# A store that leaves the chip and its answer, which the release waits for (1.0), the flag's way (0.5), the poll that finds it (0.4), two
# barriers of a block and the loads of what came, out of L2 (0.6).
HOP = 2.5e-6
# A sum with the residual's addition and the norm behind it in the same kernel, without flags (kernels/cuda/peers_norm.cu): the way of a store
# (0.5), the poll that finds it (0.4), loads before and after (0.4), squares over the block, root, weights, stores (0.3). The second shot of
# three ranks and more: way, poll and loads again. The places of up to NORM_BLOCKS blocks hold NORM_PLACE bytes each.
NORM_HOP, SECOND_SHOT = 1.6e-6, 1.1e-6
NORM_BLOCKS, NORM_PLACE = 64, 32 * 1024
# Of it, with up to PUSHED_ROWS rows, where the product ahead has pushed its sums (kernels/cuda/peers_push.cuh): the turn and the stores, before
# that product ends (0.2); the way and the bytes while it ends and the norm's kernel begins (EDGE); then values that are there out of L2 (0.3),
# squares and so on (0.3). One shot only.
PUSHED_ROWS, PUSHED_HOP, WAY = 64, 0.8e-6, 0.5e-6
ONE_SHOT_MORE = 400 * 1024  # bytes: wants_two_shots of peers_norm.cu
# Where that product adds up, too (put_added of peers_push.cuh, up to NORMED_ROWS rows): turn and stores (0.2), the way (0.5), the poll that finds
# it (0.4), before the product ends; the product behind has asked for its weights by then. No launch; the norm is NORMED.
ADDED_HOP = 1.1e-6
NCCL_SUM = 22e-6  # send and receive in a group (20), then the addition: what it was before
FP8_RATE = 1580e12  # operations a second of fp8 and int8, twice those of bf16: of their floor, and of fp8-fp8; else we multiply in bf16


def weight_bytes(kind):
    return 2 if kind == "bf16" else PACKED[kind][0]


def splits_of(features, cols):
    """Into how many splits the k of output rows is cut: feature_splits of linear.cuh."""
    tiles = features // 64
    return 1 if tiles > 66 or cols < 2048 else 2 if cols < 4096 or 34 <= tiles <= 48 else 4


def packed_block_of(features, rows, splits):
    """The same of linear_packed.cu: packed_shape."""
    if rows <= 32:
        return 8 if rows <= 8 else 32, 1
    pairs = math.ceil(features / 128) * splits
    for tokens in (128, 64):
        if rows > tokens // 2 and pairs * math.ceil(rows / tokens) * 3 >= SMS * 2:
            return tokens, 2
    return 64, 1


def block_of(features, rows, splits):
    """Rows and warpgroups (64 features each) of a block: linear_hopper_of."""
    for few in (8, 16, 32):
        if rows <= few:
            return few, 1
    tokens = 64 if rows <= 64 else 128 if rows <= 128 else 256
    pairs = features // 64 // 2 * splits
    wide = pairs * math.ceil(rows / tokens) * 3 >= SMS * 2
    if rows <= 64:
        return 64, 2 if wide else 1
    if rows > 128 and wide:
        return 256, 2
    return 128, 2 if pairs * math.ceil(rows / 128) * 9 >= SMS * 4 else 1


def few(cols, rows, splits, kind):
    """Whether x lies in shared memory whole: packed_few_takes of linear_packed_few.cu."""
    return kind in FEW and rows <= 8 and math.ceil(math.ceil(cols / 256) / splits) * 256 <= WHOLE_K


def product(features, cols, rows, kind="bf16", prompt=False, normed=False):
    """Seconds, and the resource that binds. normed: x is the residual, which the warps that copy norm on its way."""
    splits = 1 if prompt else splits_of(features, cols)
    t, groups = (block_of if kind == "bf16" else packed_block_of)(features, rows, splits)
    loop = LOOP if kind == "bf16" else PACKED[kind][1]
    f = 64 * groups
    blocks_n, blocks_t = math.ceil(features / f), math.ceil(rows / t)
    blocks, cols_of_split = blocks_n * blocks_t * splits, math.ceil(cols / splits)
    each = weight_bytes(kind)
    weights = features * cols * each
    # Two blocks with the same rows share x (a cluster): each brings half from L2, the other half comes from its neighbour.
    pair = t >= 64 and features // 64 % (2 * groups) == 0 and kind not in MINIMA
    # Rows that are not there are not read, but those of whole tiles are; the norm's weights are.
    x_bytes = t if kind == "fp8-fp8" else min(t, rows) * (4 if normed else 2) + 4 * normed
    # Four share weights too, two and two.
    four = kind == "fp8-fp8" and pair and t == 128 and splits == 1 and blocks_t % 2 == 0
    block_bytes = (f * each + x_bytes) * cols_of_split
    from_l2 = (f * each / (2 if four else 1) + x_bytes / (2 if pair else 1)) * cols_of_split
    # The last wave may be partly empty, which matters where one SM's port, sums or instructions bind, not DRAM or L2.
    waves = math.ceil(blocks / SMS)
    stages = math.ceil(cols_of_split / 64)
    slots, ahead = loop["normed" if normed and "normed" in loop else (t, groups)], 0
    if few(cols, rows, splits, kind):
        slots = FEW[kind]
        ahead = (NORMED_FIRST + NORMED_ROW * rows if normed else COPIED) + (SUMMED if kind in MINIMA else 0)
    times = {
        "memory": (weights + rows * (cols + features) * 2) / (DRAM * REACH),
        "L2": blocks * from_l2 / L2,
        "SM's port": waves * block_bytes / PORT,
        "instructions": waves * (stages * slots + ahead) / CLOCK,
        "wgmma": waves * 2 * f * cols_of_split * max(t, COLUMNS) / ((FP8_RATE if kind == "fp8-fp8" else WGMMA) / SMS),
    }
    binds = max(times, key=times.get)
    # Splits hand their sums over: to the block's own shared memory, then all but a split's own from its neighbours.
    sums = f * t * 4
    turns = math.ceil(blocks / (SMS * (2 if t <= (64 if kind == "bf16" else 32) else 1)))
    merge = (sums / (128 * CLOCK) + sums * (splits - 1) / splits / PEERS + SPLITS) * turns if splits > 1 else 0
    # Activations are rounded to fp8 by a kernel of their own, a block a row.
    rounding = small(rows, cols * 3) if kind == "fp8-fp8" else 0
    return times[binds] + merge + EDGE + rounding, binds


def folds(rows, kind, features=0):
    """Whether a product makes its part of a norm: cuda_folds_norm of linear.cu. features: of one that norms x."""
    wide = WIDE_NORMED_FOURS if kind in FEW else WIDE_NORMED_ROWS
    most = wide if kind != "bf16" and features // 64 > 132 else NORMED_ROWS
    return rows <= most and (kind in FEW or "normed" in (LOOP if kind == "bf16" else PACKED[kind][1]))


def ropes(rows, kind):
    """Whether they make rotation and cache write: cuda_folds_rope."""
    return folds(rows, kind)


def roped(kind):
    """Seconds that the rotation takes in QKV's product."""
    return ROPED_BY_TWO if kind in FEW else ROPED


def early(rows, steps, alone, memory, kind, ranks=1):
    """Seconds of decode attention that pass beside the kernels ahead of it: its blocks begin where there is room for their 140 KB.

    With no more tasks than SMs that have no block of QKV's product (blocks are spread over SMs one by one), list, first bytes and
    copies are done when Q is there, though their bytes come beside that product's weights; else blocks begin as that product's end,
    and have the time of the rotation, where it has a kernel.
    """
    features, cols = PRODUCTS["qkv"][0] // ranks, PRODUCTS["qkv"][1]
    splits = splits_of(features, cols)
    t, groups = (block_of if kind == "bf16" else packed_block_of)(features, rows, splits)
    taken = math.ceil(features / (64 * groups)) * math.ceil(rows / t) * splits
    if steps <= SMS - taken:
        return LIST + FIRST + alone - memory
    return 0 if ropes(rows, kind) else min(ROTATION, LIST + FIRST)


def attention(rows, context, cache="bf16", kind="bf16", ranks=1):
    """Decode attention with its merge. Tasks are splits of 256 positions (of 1024 beyond 16384) of a row and KV head; ranks divide the heads,
    which makes fewer tasks, not shorter ones."""
    size, positions, instructions = ATTENTION[cache]
    steps = rows * KV_HEADS // ranks * math.ceil(context / positions)
    seconds = {
        "memory": steps * positions * 2 * DIM * size / (DRAM * REACH),
        "instructions": math.ceil(steps / SMS) * instructions * WAYS * LONE / CLOCK,
        "SM's port": math.ceil(steps / SMS) * positions * 2 * DIM * size / PORT,
    }
    binds = max(seconds, key=seconds.get)
    # With one step a block nothing overlaps: all of K and V comes, then they are computed with.
    alone = min(seconds["SM's port"], seconds["instructions"]) if steps <= SMS else 0
    beside = early(rows, steps, alone, seconds["memory"], kind, ranks)
    return seconds[binds] + alone + LIST + FIRST - beside + (MERGE if context > positions else 0) + EDGE, binds


def small(rows, bytes_a_row):
    """Norms, rotation, activation: a block a row or less."""
    return max(ROTATION, rows * bytes_a_row / (DRAM * REACH)) + EDGE


def sampler(rows, passes=5, exchanges=3):
    """sample.cu: passes over the logits by one block a row, by a cluster of eight for up to 32 rows; exchanges between its blocks.

    With a temperature alone: five passes (finite twice, scaled in two, drawn) and three exchanges. Top-k and top-p make them 12 and
    18: six histograms, each with five barriers.
    """
    blocks = 8 if rows <= 32 else 1
    turns = math.ceil(rows * blocks / SMS)
    here = passes * VOCAB * 4 / blocks / PORT + (exchanges * EXCHANGE if blocks > 1 else 0)
    return max(turns * here, rows * VOCAB * 4 * passes / L2) + 3e-6 + EDGE


def exchange(rows, ranks):
    """A sum over ranks (kernels/cuda/peers.cu): x and the others' values through this GPU's memory system, as many bytes over NVLink each way
    for each other rank, and the hop: push, fence, flag, the poll that sees it. With three ranks and more a long sum takes two hops."""
    size = rows * HIDDEN * 2
    one = HOP + size * (ranks - 1) / NVLINK
    two = 2 * HOP + 2 * size * (ranks - 1) / ranks / NVLINK
    return (min(one, two) if ranks > 2 else one) + size * (ranks + 2) / L2 + EDGE


def adds_up(features, cols, rows, kind):
    """Whether such a product adds up: cuda_adds_up of linear.cu."""
    return folds(rows, kind) and features // 64 * splits_of(features, cols) <= 2 * SMS


def gather(rows, ranks):
    """The parts of the logits to the first rank, and to their places."""
    size = rows * VOCAB * 4 * (ranks - 1) / ranks
    return HOP + size / NVLINK + 2 * size / L2 + EDGE


def exchange_norm(rows, ranks, pushes=True):
    """A sum, the residual's addition and the norm in one kernel. While it waits for others the product behind asks for its weights, whose
    first bytes are there after FIRST: the rest of the way is not lost. pushes: the product ahead may give its sums to the others."""
    if math.ceil(rows / NORM_BLOCKS) * HIDDEN * 2 > NORM_PLACE:
        return exchange(rows, ranks) + small(rows, HIDDEN * 12)
    size = rows * HIDDEN * 2
    if pushes and rows <= PUSHED_ROWS and size * (ranks - 1) * (ranks - 2) / ranks <= ONE_SHOT_MORE:
        late = max(0, WAY + size * (ranks - 1) / NVLINK - EDGE)
        return min(PUSHED_HOP, FIRST) + late + size * (ranks + 2) / L2 + rows * HIDDEN * 12 / (DRAM * REACH) + EDGE
    one = NORM_HOP + size * (ranks - 1) / NVLINK
    two = NORM_HOP + SECOND_SHOT + 2 * size * (ranks - 1) / ranks / NVLINK
    hop = min(one, two) if ranks > 2 else one
    return hop - (NORM_HOP - FIRST) + size * (ranks + 2) / L2 + rows * HIDDEN * 12 / (DRAM * REACH) + EDGE


def divided(rows, context, ranks, kind="bf16", apart=False, pushes=True, adds=True):
    """Of a replica of several ranks: (seconds, of them sums with their norms and gather, the floor of one rank's share). Narrower products,
    embedding and head divided; two sums a layer and one for the embedding, each but the last with the norm behind it, in one kernel, or apart,
    or, up to eight rows, in the products around them. Launches as with graphs."""
    shapes = {"qkv": (6144 // ranks, 4096), "out": (4096, 4096 // ranks), "gate_up": (28672 // ranks, 4096), "down": (4096, 14336 // ranks)}
    adds = adds and not apart and all(adds_up(*shapes[name], rows, kind) for name in ("out", "down")) and folds(rows, kind, shapes["gate_up"][0])
    normed = {name: adds and folds(rows, kind, shapes[name][0]) for name in ("qkv", "gate_up")}
    layer = sum(product(*shape, rows, kind, normed=normed.get(name, False))[0] for name, shape in shapes.items())
    layer += attention(rows, context, kind=kind, ranks=ranks)[0] + (roped(kind) if ropes(rows, kind) else small(rows, 6144 * 4 / ranks))
    with_norm = exchange(rows, ranks) + small(rows, HIDDEN * 12) if apart else exchange_norm(rows, ranks, pushes)
    if adds:
        late = min(ADDED_HOP, FIRST) + rows * HIDDEN * 2 * (ranks - 1) / NVLINK
        with_norm = late + NORMED
    sums = 2 * LAYERS * with_norm + exchange(rows, ranks) + small(rows, HIDDEN * 12) + gather(rows, ranks)
    head = product(VOCAB // ranks, HIDDEN, rows, HEAD_OF.get(kind, "bf16"))[0]
    return LAYERS * layer + head + sampler(rows) + 5 * EDGE + sums, sums, floor(rows, context, kind) / ranks


def step(rows, context, kind="bf16"):
    normed = {name: folds(rows, kind, PRODUCTS[name][0]) for name in ("qkv", "gate_up")}
    layer = {name: product(*shape, rows, kind, normed=normed.get(name, False)) for name, shape in PRODUCTS.items()}
    layer["attention"] = attention(rows, context, kind=kind)
    norms = sum(NORMED if of else small(rows, HIDDEN * 12) for of in normed.values())
    layer["norms"] = (norms, "squares from L2" if all(normed.values()) else "memory")
    layer["rope, kv"] = (roped(kind), "an exchange") if ropes(rows, kind) else (small(rows, 6144 * 4), "memory")
    total = LAYERS * sum(seconds for seconds, _ in layer.values())
    head = product(VOCAB, HIDDEN, rows, HEAD_OF.get(kind, "bf16"))[0]
    return total + head + sampler(rows) + 5 * EDGE, layer


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


def prompt_attention(rows, context, mma=False, cache="bf16"):
    """Seconds of attention of the last `rows` of `context` positions of one prompt, and the resource that binds."""
    pairs = rows * (context - rows) + rows * (rows + 1) // 2
    if mma:  # attention_prompt.cu: half of what mma.sync reaches
        return 4 * pairs * HEADS * DIM / (MMA * 0.5) + EDGE, "mma.sync"
    multiply, copy = PROMPT_LOOPS[cache]
    tile = {
        "wgmma": 4 * PROMPT_ROWS * PROMPT_TILE * DIM / (WGMMA / SMS),
        "instructions": (2 * multiply + copy) / CLOCK,
        "exponentials": PROMPT_ROWS * PROMPT_TILE / EXPONENTIALS / CLOCK,
        "SM's port": PROMPT_TILE * DIM * 4 / PORT,
    }
    binds = max(tile, key=tile.get)
    blocks = [math.ceil(min(context, context - rows + (i + 1) * PROMPT_ROWS) / PROMPT_TILE) for i in range(math.ceil(rows / PROMPT_ROWS))]
    each = [count * tile[binds] + PROMPT_ENDS for count in blocks]
    # The longest blocks begin first; as they end SMs wait for the last ones, on average half of a block.
    return HEADS * sum(each) / SMS + sum(each) / len(each) / 2 + EDGE, binds


def prefill(tokens, chunk=512, kind="bf16", mma=False, cache="bf16"):
    """Products as above and attention, in chunks."""
    linear = LAYERS * sum(n * k for n, k in PRODUCTS.values())
    seconds = LAYERS * sum(product(*shape, chunk, kind, True)[0] for shape in PRODUCTS.values()) * tokens / chunk
    seconds += LAYERS * sum(prompt_attention(chunk, at + chunk, mma, cache)[0] for at in range(0, tokens, chunk))
    pairs = 2 * tokens * tokens * HEADS * DIM * LAYERS
    return seconds, 2 * linear * tokens / 790e12 + pairs / 790e12


def losses(rows, context, kind):
    """Each line of a step: (milliseconds over its floor, name, what binds, microseconds a launch), the largest first."""
    layer, rate = step(rows, context, kind)[1], FP8_RATE if kind.startswith(("fp8", "int8")) else 790e12
    best = {name: max(n * k * weight_bytes(kind) / DRAM, 2 * n * k * rows / rate) for name, (n, k) in PRODUCTS.items()}
    best["attention"] = rows * context * 2 * KV_HEADS * DIM * 2 / DRAM
    lines = [(LAYERS * (seconds - best.get(name, 0)) * 1e3, name, binds, seconds * 1e6) for name, (seconds, binds) in layer.items()]
    return sorted(lines + [(sampler(rows) * 1e3, "sampler", "passes over the logits", sampler(rows) * 1e6)], reverse=True)


# Of the floor, by weights and batch; of half the floor, by batch; milliseconds, by weights (8192 tokens of a prompt).
GOALS = {
    "bf16": {1: 0.86, 8: 0.86, 64: 0.84, 256: 0.86},
    "fp8": {1: 0.80, 8: 0.80, 64: 0.78, 256: 0.78},
    "fp8-fp8": {256: 0.78},
    "fp8-128": {1: 0.80, 8: 0.80, 64: 0.78},
    "q8_0": {1: 0.80, 8: 0.80, 64: 0.78},
    "int4": {1: 0.70, 8: 0.70},
    "q4_k": {1: 0.70, 8: 0.70},
}
GOALS_OF_TWO = {1: 0.80, 8: 0.80, 64: 0.80, 256: 0.80}
GOALS_OF_PROMPTS = {"bf16": 200, "fp8": 200, "fp8-fp8": 130}


def goals(context):
    """Of each goal (what is reached of it, the goal, what has it, milliseconds over it)."""
    for kind, of_batch in GOALS.items():
        for rows, goal in of_batch.items():
            seconds, best = step(rows, context, kind)[0], floor(rows, context, kind)
            yield best / seconds / goal, f"{goal:.2f}", f"{best / seconds:.2f}", f"{kind}, batch {rows}", (seconds - best / goal) * 1e3
    for rows, goal in GOALS_OF_TWO.items():
        seconds, _, best = divided(rows, context, 2)
        yield best / seconds / goal, f"{goal:.2f}", f"{best / seconds:.2f}", f"bf16, two ranks, batch {rows}", (seconds - best / goal) * 1e3
    for kind, goal in GOALS_OF_PROMPTS.items():
        seconds = prefill(8192, 2048, kind)[0] * 1e3
        yield goal / seconds, f"{goal} ms", f"{seconds:.0f} ms", f"{kind}, 8192 tokens of a prompt", seconds - goal


def main():
    context = int(sys.argv[sys.argv.index("--context") + 1]) if "--context" in sys.argv else 1024
    kind = sys.argv[sys.argv.index("--weights") + 1] if "--weights" in sys.argv else "bf16"
    cache = sys.argv[sys.argv.index("--prompt-cache") + 1] if "--prompt-cache" in sys.argv else "bf16"
    if "--goals" in sys.argv:
        print("| what | predicted | goal | of the goal | ms over it |\n| --- | --- | --- | --- | --- |")
        for reached, goal, predicted, what, over in sorted(goals(context)):
            print(f"| {what} | {predicted} | {goal} | {reached:.2f} | {max(over, 0):.2f} |")
        return
    if "--losses" in sys.argv:
        print("| batch | lost, ms | line | a launch, us | binds |\n| --- | --- | --- | --- | --- |")
        for rows in (1, 8, 64, 256):
            for lost, name, binds, us in losses(rows, context, kind):
                print(f"| {rows} | {lost:.2f} | {name} | {us:.1f} | {binds} |")
        return
    if "--ranks" in sys.argv:
        ranks = int(sys.argv[sys.argv.index("--ranks") + 1])
        print(f"| {kind}, {ranks} ranks, batch | predicted, ms | of it sums and norms | by one kernel | apart | with NCCL's | floor of a share, ms | of the floor | one GPU, ms |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for rows in (1, 8, 64, 256):
            seconds, sums, best = divided(rows, context, ranks, kind)
            apart = divided(rows, context, ranks, kind, True)[0]
            later = divided(rows, context, ranks, kind, pushes=False, adds=False)[0]
            calls = 2 * LAYERS + 1
            nccl = apart - calls * exchange(rows, ranks) - gather(rows, ranks) + calls * (NCCL_SUM + rows * HIDDEN * 2 / NVLINK) + NCCL_SUM
            alone = step(rows, context, kind)[0]
            figures = " | ".join(f"{f * 1e3:.2f}" for f in (seconds, sums, later, apart, nccl, best))
            print(f"| {rows} | {figures} | {best / seconds:.2f} | {alone * 1e3:.2f} |")
        return
    print(f"| {kind}, batch, context {context} | predicted, ms | floor, ms | of the floor | largest loss |")
    print("| --- | --- | --- | --- | --- |")
    for rows in (1, 8, 64, 256):
        seconds, layer = step(rows, context, kind)
        best = floor(rows, context, kind)
        worst = max(PRODUCTS, key=lambda n: layer[n][0] - PRODUCTS[n][0] * PRODUCTS[n][1] * weight_bytes(kind) / DRAM)
        print(f"| {rows} | {seconds * 1e3:.2f} | {best * 1e3:.2f} | {best / seconds:.2f} | {worst}: {layer[worst][1]} |")
    for chunk, mma in ((512, False), (2048, False), (2048, True)):
        seconds, best = prefill(8192, chunk, kind, mma, cache)
        layer = {name: product(*shape, chunk, kind, True) for name, shape in PRODUCTS.items()}
        worst = max(PRODUCTS, key=lambda n: layer[n][0] - 2 * PRODUCTS[n][0] * PRODUCTS[n][1] * chunk / 790e12)
        what = "attention: mma.sync" if mma else f"{worst}: {layer[worst][1]}"
        name = f"prefill 8192, chunks of {chunk}" + (", TRIREME_PROMPT_ATTENTION=mma" if mma else "")
        print(f"| {name} | {seconds * 1e3:.0f} | {best * 1e3:.0f} | {best / seconds:.2f} | {what} |")


if __name__ == "__main__":
    main()
