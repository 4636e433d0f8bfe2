"""Trains the demo model from nothing: python train.py --minutes 60

The text is generated as training goes, so no example is seen twice and there is nothing to download. The learning rate
follows the clock (a cosine over --minutes): a busy machine costs steps, never the shape of the schedule. The state is saved
every few minutes; the same command continues from it. Each save also writes a usable model to --out."""

import argparse
import glob
import math
import os
import random
import time

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import chats
import stories
import tokens
from model import CONFIG, Llama, export

HERE = os.path.dirname(os.path.abspath(__file__))
STEP_TOKENS = 4096                       # rows x length of one step
LENGTHS = [(512, 84), (1024, 11), (2048, 5)]   # row length, weight
USER_WEIGHT = 0.1                        # how much a token counts that the model will never have to write
VALIDATION_SEED = "validation"


class Documents:
    """Endless token documents [(id, weight), ...] from one seed: chats, plain stories, and, if given, pieces of other text."""

    def __init__(self, seed, tokenizer, extra=()):
        self.rng, self.tokenizer, self.extra = random.Random(seed), tokenizer, extra

    def text(self):
        roll = self.rng.random()
        if self.extra and roll < 0.05:
            text = self.rng.choice(self.extra)
            start = self.rng.randrange(max(1, len(text) - 1500))
            return "<|begin|>" + text[start:start + 1500]
        if roll < 0.16:
            return "<|begin|>" + stories.plain_story(self.rng) + "<|end|>"
        return tokens.render(chats.chat(self.rng))

    def batch(self, count):
        encoded = self.tokenizer.encode_batch([self.text() for _ in range(count)], add_special_tokens=False)
        return [weigh(e.ids) for e in encoded]


def weigh(ids):
    """ids -> (ids, weights): what a user or the system says counts little, the rest fully."""
    weights, weight = [], 1.0
    for token in ids:
        weights.append(weight)
        if token in (tokens.USER, tokens.SYSTEM):
            weight = USER_WEIGHT
        elif token == tokens.ASSISTANT:
            weight = 1.0
    return ids, weights


class Packer:
    """Rows of whole documents, each row begun by one: the longest that still fits comes next, so that little is padding."""

    def __init__(self, documents):
        self.documents, self.pool = documents, []

    def row(self, length):
        room, ids, weights = length + 1, [], []
        while room > 8:
            if len(self.pool) < 400:
                self.pool += self.documents.batch(600)
                self.documents.rng.shuffle(self.pool)
            index = self.choose(room, first=not ids)
            if index is None:
                break
            doc_ids, doc_weights = self.pool.pop(index)
            ids, weights = ids + doc_ids[:room], weights + doc_weights[:room]
            room = length + 1 - len(ids)
        return ids + [tokens.PAD] * room, weights + [0.0] * room

    def choose(self, room, first):
        """The first document of a row is any; the later ones are the longest of 60 that fit."""
        if first:
            return 0
        fitting = [i for i in range(60) if len(self.pool[i][0]) <= room]
        return max(fitting, key=lambda i: len(self.pool[i][0])) if fitting else None

    def rows(self, count, length):
        pairs = [self.row(length) for _ in range(count)]
        return torch.tensor([p[0] for p in pairs]), torch.tensor([p[1] for p in pairs])


def loss_of(net, ids, weights):
    """Mean loss of the weighted tokens, in nats."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = net(ids[:, :-1])
    losses = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    weights = weights[:, 1:].flatten()
    return (losses * weights).sum() / weights.sum()


def rate(step, done, peak):
    """Warm-up over the first steps, then a cosine over the share of the planned time that is `done`, down to a fiftieth."""
    return peak * min(1.0, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def make_optimizers(net):
    """Muon for the matrices of the layers (it learns to copy names in fewer steps), AdamW for the embedding and the norms."""
    matrices = [p for name, p in net.named_parameters() if p.dim() == 2 and "embed" not in name]
    norms = [p for p in net.parameters() if p.dim() != 2]
    groups = [{"params": [net.model.embed_tokens.weight], "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    return [torch.optim.Muon(matrices, lr=1e-3, momentum=0.95, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"), torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98), eps=1e-8)]


def save(path, net, optimizers, step, elapsed):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    torch.save({"net": net.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step, "elapsed": elapsed}, path + ".part")
    os.replace(path + ".part", path)


def validate(net, rows):
    net.eval()
    with torch.no_grad():
        value = sum(loss_of(net, ids, weights).item() for ids, weights in rows) / len(rows)
    net.train()
    return value


def read_extra(folder):
    texts = []
    for path in sorted(glob.glob(os.path.join(folder, "*.txt"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    return texts


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="how long to train, by the clock")
    parser.add_argument("--out", default=os.path.join(HERE, "model"), help="the model folder to write")
    parser.add_argument("--state", default=os.path.join(HERE, "state", "checkpoint.pt"), help="the checkpoint to write and to continue from")
    parser.add_argument("--save-minutes", type=float, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=3e-3, help="the highest learning rate")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="torch.compile: a third faster, needs a C++ compiler")
    parser.add_argument("--extra-text", help="a folder of *.txt to mix in, one part in twenty")
    return parser.parse_args()


def main():
    args = parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    if not os.path.exists(os.path.join(args.out, "tokenizer.json")):
        tokens.write_text_files(args.out)
    tokenizer = Tokenizer.from_file(os.path.join(args.out, "tokenizer.json"))
    net = Llama(dict(CONFIG, bos_token_id=tokens.BEGIN, eos_token_id=tokens.END, pad_token_id=tokens.PAD)).train()
    optimizers, step, elapsed = make_optimizers(net), 0, 0.0
    if os.path.exists(args.state):
        state = torch.load(args.state)
        net.load_state_dict(state["net"])
        for optimizer, saved in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        step, elapsed = state["step"], state["elapsed"]
    packer = Packer(Documents(f"{args.seed}-{step}", tokenizer, read_extra(args.extra_text) if args.extra_text else ()))
    held_out = Packer(Documents(VALIDATION_SEED, tokenizer))
    validation = [held_out.rows(8, 512) for _ in range(8)]
    print(f"{sum(p.numel() for p in net.parameters())} parameters, from step {step}", flush=True)
    train(args, net, optimizers, packer, validation, step, elapsed)


def train(args, net, optimizers, packer, validation, step, elapsed):
    began, saved, planned = time.time() - elapsed, time.time(), args.minutes * 60
    lengths, weights = zip(*LENGTHS)
    step_net = torch.compile(net, dynamic=False) if args.compile else net
    picks, mean = random.Random(f"lengths-{args.seed}-{step}"), None
    while time.time() - began < planned:
        length = picks.choices(lengths, weights)[0]
        ids, token_weights = packer.rows(STEP_TOKENS // length, length)
        now = rate(step, (time.time() - began) / planned, args.rate)
        for group in [group for optimizer in optimizers for group in optimizer.param_groups]:
            group["lr"] = now
        loss = loss_of(step_net, ids, token_weights)
        net.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        step += 1
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 50 == 0:
            print(f"step {step} minutes {(time.time() - began) / 60:.1f} loss {mean:.4f} rate {now:.2e} tokens {step * STEP_TOKENS / 1e6:.1f}M", flush=True)
        if time.time() - saved > args.save_minutes * 60:
            keep(args, net, optimizers, validation, step, time.time() - began)
            saved = time.time()
    keep(args, net, optimizers, validation, step, planned)


def keep(args, net, optimizers, validation, step, elapsed):
    save(args.state, net, optimizers, step, elapsed)
    export(net, args.out)
    print(f"step {step} saved, validation loss {validate(net, validation):.4f}", flush=True)


if __name__ == "__main__":
    main()
