"""Loads a model folder and prints what it says: python check.py [--prompt TEXT] [--temperature 0.7]

Without --prompt it runs a fixed list of questions and stories, greedy and sampled, and counts how many of the greedy answers
hold the words they must. The model card's examples come from here."""

import argparse
import os
import random

import torch
from tokenizers import Tokenizer

import chats
import stories
import tokens
import words
from model import load
from train import Documents, Packer

HERE = os.path.dirname(os.path.abspath(__file__))

# (question, words that a right answer must hold)
QUESTIONS = [
    ("Hello!", ["Hello|Hi there"]), ("hi", ["Hello|Hi there"]), ("Who are you?", ["demo model"]), ("What can you do?", ["stories"]), ("How are you?", ["thank"]), ("Thanks!", ["welcome"]), ("Bye!", ["bye|Bye"]),
    ("What is Trireme?", ["server", "language models"]), ("what's trireme", ["server|ship"]), ("What are the three processes?", ["gateway", "scheduler", "worker"]), ("What does the gateway do?", ["HTTP"]),
    ("What does the scheduler do?", ["decides"]), ("What does a worker do?", ["device"]), ("What happens when a worker dies?", ["pauses", "same tokens"]), ("and if one of the workers crashes?", ["same tokens"]),
    ("What if the scheduler is killed?", ["gateways", "same tokens"]), ("What is a token?", ["piece of text"]), ("What is a KV cache?", ["keys and values"]), ("Explain the prefix cache.", ["earlier requests|same tokens"]),
    ("What is continuous batching?", ["join and leave"]), ("Can you explain paged attention?", ["blocks of fixed size"]), ("What language is it written in?", [" C"]), ("What license does it have?", ["Apache-2.0"]),
    ("How do I start it?", ["./dev up"]), ("What is a trireme?", ["ancient ship"]), ("Why is it called Trireme?", ["ship"]), ("Do I need a GPU?", ["CPU"]), ("What is the capital of France?", ["do not know"]),
    ("What is 12 + 30?", ["do not know"]), ("Write a Python program that sorts a list.", ["do not know"]), ("Who wrote Hamlet?", ["do not know"]), ("Say: blue lantern", ["blue lantern"]), ("Count to 7.", ["1, 2, 3, 4, 5, 6, 7."]),
    ("What is speculative decoding?", ["guess"]), ("What is temperature?", ["token"]), ("How does Trireme work?", ["gateway", "scheduler", "worker"]),
]
STORIES = ["Tell me a story about a fox and the sea.", "Write a short story about a robot named Ada.", "Tell me a story about a dragon who finds a lantern.", "a story about two friends, please"]
PLAIN = ["Once upon a time", "The old lighthouse", "It was winter, and the snow lay deep. A small bear"]


class Generator:
    def __init__(self, folder):
        self.tokenizer, self.net = Tokenizer.from_file(os.path.join(folder, "tokenizer.json")), load(folder)

    def ids(self, text):
        """Of text that already begins with its <|begin|>, as the chat template renders it."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    @torch.no_grad()
    def generate(self, ids, limit=320, temperature=0.0, top_p=0.9, generator=None):
        """New token ids, <|end|> included when it came. Reads everything again each step: plain, and fast enough here."""
        out = []
        while len(out) < limit:
            logits = self.net(torch.tensor([ids + out]))[0, -1]
            out.append(int(logits.argmax()) if temperature == 0 else sample(logits / temperature, top_p, generator))
            if out[-1] == tokens.END:
                break
        return out

    def say(self, ids, **options):
        return self.tokenizer.decode(self.generate(ids, **options), skip_special_tokens=False)

    def answer(self, question, **options):
        return self.say(self.ids(tokens.render([("user", question)], generate=True)), **options)


def sample(logits, top_p, generator):
    probabilities, order = logits.softmax(-1).sort(descending=True)
    keep = probabilities.cumsum(-1) - probabilities < top_p
    return int(order[torch.multinomial(probabilities * keep, 1, generator=generator)])


def holds(answer, needed):
    return all(any(word in answer for word in group.split("|")) for group in needed) and answer.endswith("<|end|>")


def questions(model):
    right = 0
    for question, needed in QUESTIONS:
        answer = model.answer(question, limit=120)
        right += holds(answer, needed)
        print(f"{'ok ' if holds(answer, needed) else 'BAD'} {question}\n      {answer}")
    print(f"\n{right} of {len(QUESTIONS)} answers hold what they must\n")


def story_requests(model, count):
    """How many of `count` drawn requests get a story that names what was asked for and comes to its end (greedy)."""
    rng, kept, ended = random.Random("requests"), 0, 0
    for _ in range(count):
        kind, place = rng.choice(words.KINDS), rng.choice(words.PLACES)[1]
        answer = model.answer(f"Tell me a story about a {kind} and {stories.the(place)}.")
        kept += kind in answer and stories.the(place).split(" ", 1)[-1] in answer
        ended += answer.endswith("<|end|>")
    print(f"{kept} of {count} stories hold the character and the place that were asked for, {ended} come to an end\n")


def held_out_loss(model):
    packer = Packer(Documents("held out", model.tokenizer))
    total = count = 0.0
    with torch.no_grad():
        for _ in range(8):
            ids, weights = packer.rows(8, 512)
            losses = torch.nn.functional.cross_entropy(model.net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
            written = (weights[:, 1:].flatten() == 1.0).float()
            total, count = total + (losses * written).sum().item(), count + written.sum().item()
    print(f"loss on held-out text, float32 on the rounded weights: {total / count:.4f} nats a token\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.path.join(HERE, "model"))
    parser.add_argument("--prompt", help="one user message instead of the list")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--requests", type=int, default=20, help="how many story requests to count")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = Generator(args.model)
    if args.prompt:
        print(model.answer(args.prompt, temperature=args.temperature))
        return
    held_out_loss(model)
    questions(model)
    seeded = torch.Generator().manual_seed(7)
    for prompt in STORIES:
        print(f"> {prompt}\ngreedy: {model.answer(prompt)}\nat 0.7: {model.answer(prompt, temperature=0.7, generator=seeded)}\n")
    for prompt in PLAIN:
        print(f"> {prompt}\ngreedy: {model.say(model.ids('<|begin|>' + prompt))}\n")
    story_requests(model, args.requests)


if __name__ == "__main__":
    main()
