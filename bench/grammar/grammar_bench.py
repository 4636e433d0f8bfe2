"""Compiling constraints and making masks, ours beside xgrammar and llguidance in one run: microseconds of processor, with Llama 3's vocabulary.

    ./dev bench grammar [SCHEMAS]

The constraints are the MaskBench schemas of ../shared/data (SCHEMAS of them, drawn with a fixed seed; all without it) and a few patterns and
grammars. A mask is made before each token of each valid text, which our tokenizer cuts. No library keeps anything from one constraint to the
next. Ours counts one thread's processor time; the peers, which run in this process with one thread, the process's. A constraint counts for a
library if it compiles there; a mask if the library took all tokens so far. Needs, for the peers: pip install llguidance xgrammar torch transformers.
"""
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("TRIREME_SHARED") or ROOT.parent / "shared" / "data")
PROGRAM = (os.environ.get("BUILD_RELEASE") or str(ROOT / "build" / "release")) + "/bin/bench_grammar"
TOKENIZER = DATA / "tokenizers" / "llama3" / "tokenizer.derived.json"
QUICK = bool(os.environ.get("TRIREME_BENCH_QUICK"))
LISTS = "start: \"[\" item (\",\" item)* \"]\"\nitem: NAME \"=\" NUMBER\nNAME: /[a-z_]+/\nNUMBER: /[0-9]+/\n"
CALLS = r"""start: call ("\n" call)*
call: NAME "(" [args] ")"
args: value ("," " " value)*
value: NAME | NUMBER | STRING | "[" [args] "]" | call
NAME: /[a-z_][a-z0-9_]*/
NUMBER: /-?[0-9]+(\.[0-9]+)?/
STRING: /"[^"\\\n]*"/
"""
SUMS = r"""start: sum
sum: product (("+" | "-") product)*
product: atom (("*" | "/") atom)*
atom: NUMBER | "(" sum ")"
NUMBER: /[0-9]+(\.[0-9]+)?/
"""
GBNF = DATA / "structured" / "gbnf"
OTHERS = [
    ("regex", r"\d{3}-\d{4}( ext\. \d{1,4})?", ["555-1234 ext. 77"]),
    ("regex", r"[A-Z][a-z]+( [A-Z][a-z]+){1,3}, [A-Z]{2} \d{5}", ["San Luis Obispo, CA 93401"]),
    ("regex", r"(https?)://[a-z0-9.-]+\.[a-z]{2,6}(/[A-Za-z0-9._~-]*)*", ["https://example.org/a/b.html"]),
    ("regex", r"(positive|negative|neutral): .{1,200}", ["neutral: it does what it says, and little more than that."]),
    ("regex", r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"]),
    ("regex", r"[A-Za-z0-9._%+-]+@([A-Za-z0-9-]+\.)+[A-Za-z]{2,}", ["first.last@mail.example.com"]),
    ("gbnf", GBNF / "json.gbnf", ['{"a": [1, 2, {"b": null}], "c": "some text"}']),
    ("gbnf", GBNF / "arithmetic.gbnf", ["1+2*(3-x)=7\n"]),
    ("gbnf", GBNF / "list.gbnf", ["- milk\n- two loaves of bread\n"]),
    ("gbnf", GBNF / "chess.gbnf", ["1. e4 e5\n2. Nf3 Nc6\n"]),
    ("gbnf", GBNF / "english.gbnf", ["These are words, and so are those."]),
    ("lark", LISTS, ["[alpha=1,beta_two=22]"]),
    ("lark", CALLS, ['find(name, "a b", [1, -2.5])\nprint(len(x))']),
    ("lark", SUMS, ["1+2*(3-4.5)/6"]),
]
GROUPS = {"schema": "JSON Schema", "regex": "regex", "gbnf": "GBNF", "lark": "Lark"}


def constraints(count):
    rows = [json.loads(line) for line in (DATA / "structured" / "maskbench_subset.jsonl").open()]
    random.Random(7).shuffle(rows)
    for row in rows[:count]:
        texts = [json.dumps(t["data"], ensure_ascii=False) for t in row["tests"] if t["valid"]]
        yield "schema", json.dumps(row["schema"], ensure_ascii=False), texts
    for kind, source, texts in OTHERS:
        yield kind, source.read_text() if isinstance(source, Path) else source, texts


def us(begin):
    return (time.process_time_ns() - begin) / 1e3


class Llguidance:
    def __init__(self):
        import llguidance
        import llguidance.numpy
        from tokenizers import Tokenizer
        import llguidance.hf  # noqa: F401
        self.l, self.np = llguidance, llguidance.numpy
        self.t = llguidance.LLTokenizer(Tokenizer.from_file(str(TOKENIZER)).to_str())
        self.bits = self.np.allocate_token_bitmask(1, self.t.vocab_size)

    def compile(self, kind, source):
        m = self.l.LLMatcher
        make = {"schema": m.grammar_from_json_schema, "regex": m.grammar_from_regex, "lark": m.grammar_from_lark}.get(kind)
        grammar = make(source) if make else self.l.gbnf_to_lark.gbnf_to_lark(source)
        return grammar if make else m.grammar_from_lark(grammar)

    def start(self, grammar):
        m = self.l.LLMatcher(self.t, grammar)
        return None if m.is_error() else m

    def mask(self, m):
        self.np.fill_next_token_bitmask(m, self.bits)

    def take(self, m, token):
        return m.consume_token(token)


class Xgrammar:
    def __init__(self):
        import xgrammar
        self.x = xgrammar
        vocab = json.loads(TOKENIZER.read_text())
        table = {c: b for b, c in byte_letters().items()}
        count = max([*vocab["model"]["vocab"].values(), *(t["id"] for t in vocab["added_tokens"])]) + 1
        words = [b""] * count
        for word, i in vocab["model"]["vocab"].items():
            words[i] = bytes(table[c] for c in word)
        info = xgrammar.TokenizerInfo(words, vocab_type=xgrammar.VocabType.RAW, vocab_size=count, stop_token_ids=[count - 1])
        self.c = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.bits = xgrammar.allocate_token_bitmask(1, count)

    def compile(self, kind, source):
        if kind == "lark":
            raise ValueError("no Lark")
        return {"schema": lambda s: self.c.compile_json_schema(s, strict_mode=False), "regex": self.c.compile_regex, "gbnf": self.c.compile_grammar}[kind](source)

    def start(self, grammar):
        return self.x.GrammarMatcher(grammar, terminate_without_stop_token=True)

    def mask(self, m):
        m.fill_next_token_bitmask(self.bits)

    def take(self, m, token):
        return m.accept_token(token)


def byte_letters():
    """GPT-2's letters for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out = {b: chr(b) for b in plain}
    out.update({b: chr(256 + n) for n, b in enumerate(b for b in range(256) if b not in out)})
    return out


def measure(peer, kind, source, texts, told):
    """Adds to told what one constraint costs a peer."""
    begin = time.process_time_ns()
    try:
        grammar = peer.compile(kind, source)
        m = peer.start(grammar)
    except Exception:
        m = None
    if m is None:
        told["refused"] += 1
        return
    told["compile"].append(us(begin))
    for text in texts:
        m = peer.start(grammar)
        for token in text["ids"]:
            begin = time.process_time_ns()
            peer.mask(m)
            told["mask"].append(us(begin))
            if not peer.take(m, token):
                told["left"] += 1
                break


def row(name, told):
    def at(values, share):
        return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")
    c, m = told["compile"], told["mask"]
    return (f"| {name} | {at(c, .5) / 1e3:.2f} / {at(c, .99) / 1e3:.1f} / {max(c, default=0) / 1e3:.1f} | {at(m, .5):.1f} / {at(m, .99):.0f} / {max(m, default=0):.0f} "
            f"| {len(c)} of {len(c) + told['refused']} | {told['left']} |")


def main():
    if not TOKENIZER.exists():
        sys.exit("the shared data is not here")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5 if QUICK else None
    peers = {}
    for name, maker, package in (("llguidance", Llguidance, "llguidance"), ("xgrammar", Xgrammar, "xgrammar")):
        if not importlib.util.find_spec(package):
            print(f"{name}: not installed")
            continue
        try:
            peers[name] = maker()
        except ImportError as e:
            print(f"{name}: {e}")
    new = lambda: {"compile": [], "mask": [], "refused": 0, "left": 0}  # noqa: E731
    told, served, single, forced = {}, 0, 0, 0
    ours = subprocess.Popen([PROGRAM, str(TOKENIZER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for kind, source, texts in constraints(count):
        ours.stdin.write(json.dumps({"kind": kind, "source": source, "texts": texts}) + "\n")
        ours.stdin.flush()
        got = json.loads(ours.stdout.readline())
        group = GROUPS[kind]
        mine = told.setdefault((group, "trireme"), new())
        if got["compile_us"] < 0:
            mine["refused"] += 1
            continue
        mine["compile"].append(got["compile_us"])
        for text in got["texts"]:
            mine["mask"].extend(text["mask_us"])
            mine["left"] += not text["accepted"]
            served += text["served"]
            single += text["single"]
            forced += text["forced"]
        for name, peer in peers.items():
            measure(peer, kind, source, got["texts"], told.setdefault((group, name), new()))
    ours.stdin.close()
    ours.wait()
    print("| | compile, ms: p50 / p99 / max | mask, us: p50 / p99 / max | compiled | texts refused |\n| --- | --- | --- | --- | --- |")
    order = [(group, name) for group in GROUPS.values() for name in ("trireme", *peers) if (group, name) in told]
    for group, name in order:
        values = told[group, name]
        print(row(f"{group}, {name}", values))
    print(f"of {served} tokens as served, {single / max(served, 1):.1%} were the only ones that could come, and {forced / max(served, 1):.1%} lay in text that had to come")


if __name__ == "__main__":
    main()
