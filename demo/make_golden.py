"""Writes golden/golden.json: prompts, their token ids, and the greedy continuation that a right implementation finds.

The arithmetic is float32 on the bf16 weights. `margins` holds, for each generated token, the logit of the best token minus
that of the second: where it is small, another order of summing may rightly choose otherwise, and a test may stop there."""

import argparse
import hashlib
import os

import torch

import tokens
from check import HERE, Generator
from model import write_json

STEPS = 64
CHATS = {
    "chat_hello": [("user", "Hello!")],
    "chat_worker_dies": [("system", "You are a helpful assistant."), ("user", "What happens when a worker dies?")],
    "chat_story": [("user", "Tell me a story about a fox and the sea.")],
    "chat_turns": [("user", "What is Trireme?"), ("assistant", "Trireme is a server for large language models, written in C."), ("user", "What does the scheduler do?")],
}
PLAIN = {
    "plain_story": "Once upon a time",
    "plain_bytes": "Über die Brücke ging 日本 🚣 a small mouse, and",
}


@torch.no_grad()
def greedy(net, ids):
    """STEPS tokens and the margin of each; it goes on past <|end|>, so that every row has the same length."""
    out, margins = [], []
    for _ in range(STEPS):
        best = net(torch.tensor([ids + out]))[0, -1].topk(2)
        out.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 5))
    return out, margins


def golden(model, name, text, extra):
    ids = model.ids(text)
    out, margins = greedy(model.net, ids)
    stop = out.index(tokens.END) if tokens.END in out else None
    return {"name": name, **extra, "prompt": text, "prompt_ids": ids, "greedy_ids": out, "greedy_text": model.tokenizer.decode(out[:stop], skip_special_tokens=False), "end_at": stop, "margins": margins}


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.path.join(HERE, "model"))
    parser.add_argument("--out", default=os.path.join(HERE, "golden", "golden.json"))
    args = parser.parse_args()
    torch.set_num_threads(2)
    model = Generator(args.model)
    rows = [golden(model, name, tokens.render(turns, generate=True), {"messages": [{"role": r, "content": c} for r, c in turns]}) for name, turns in CHATS.items()]
    rows += [golden(model, name, "<|begin|>" + text, {"text": text}) for name, text in PLAIN.items()]
    os.makedirs(os.path.dirname(args.out), exist_ok=True)
    about = "Tokenize `prompt` with special tokens recognised and none added: prompt_ids. Greedy float32 on the bf16 weights, 64 steps, not stopped by <|end|> (its index is end_at)."
    write_json(args.out, {"about": about, "model_sha256": sha256(os.path.join(args.model, "model.safetensors")), "tokenizer_sha256": sha256(os.path.join(args.model, "tokenizer.json")), "steps": STEPS, "cases": rows})


if __name__ == "__main__":
    main()
