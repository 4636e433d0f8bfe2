#!/usr/bin/env python3
"""Makes random tokenizer.json files from the parts that HF tokenizers knows and compares us with it: encode with and
without special tokens, offsets, decode.

    tokenizer_config_diff.py --program BUILD/bin/text_encode --count 300 [--seed 1]
    tokenizer_config_diff.py --write tests/goldens/text/configs.json --count 40     (HF's answers, for tests/unit/text/test_configs.c)

A file that HF takes and we refuse is counted apart. Needs: pip install tokenizers==0.23.3.
"""
import argparse
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from tokenizer_diff import BITS, Ours  # noqa: E402

LETTERS = list("abcdehilnorstuw .,'!-1230ABé") + ["\u2581", "\u0120", "#", "ß", "日", "</w>", "\u0301"]
WORDS = ["ab", "abc", "he", "the", "hello", "in", "ing", "lo", "low", "er", "lower", "12", "ll", "or", "wor", "ld", "'s", "..", "th", "re", "st", "nt"]


def pick(rng, *items):
    return rng.choice(items)


def pattern(rng):
    if rng.random() < 0.5:
        return {"String": pick(rng, "a", " ", "lo", "\u2581", "ab", "'", ".")}
    return {"Regex": pick(rng, r"\s+", r"[a-c]+", r"\d", r"\p{L}+", "x*", r"(?i:the)", " ", r"[^\s]")}


def normalizer(rng, depth=0):
    kind = rng.randrange(14 if depth < 2 else 12)
    if kind == 0:
        return {"type": pick(rng, "NFC", "NFD", "NFKC", "NFKD")}
    if kind == 1:
        return {"type": "Lowercase"}
    if kind == 2:
        return {"type": "Strip", "strip_left": rng.random() < 0.5, "strip_right": rng.random() < 0.5}
    if kind == 3:
        return {"type": "StripAccents"}
    if kind in (4, 5):
        return {"type": "Replace", "pattern": pattern(rng), "content": pick(rng, "", " ", "\u2581", "b", "ab")}
    if kind == 6:
        return {"type": "Prepend", "prepend": pick(rng, "\u2581", " ", "a")}
    if kind == 7:
        return {"type": "Nmt"}
    if kind == 8:
        return {"type": "BertNormalizer", "clean_text": rng.random() < 0.5, "handle_chinese_chars": rng.random() < 0.5,
                "strip_accents": pick(rng, None, True, False), "lowercase": rng.random() < 0.5}
    if kind < 12:
        return None if depth == 0 else {"type": "Lowercase"}
    return {"type": "Sequence", "normalizers": [normalizer(rng, depth + 1) or {"type": "NFC"} for _ in range(rng.randrange(0, 4))]}


def behavior(rng):
    return pick(rng, "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


def pre_tokenizer(rng, depth=0):
    kind = rng.randrange(14 if depth < 2 else 11)
    if kind == 0:
        return {"type": "Whitespace"}
    if kind == 1:
        return {"type": "WhitespaceSplit"}
    if kind == 2:
        return {"type": "Digits", "individual_digits": rng.random() < 0.5}
    if kind == 3:
        return {"type": "Punctuation", "behavior": behavior(rng)}
    if kind in (4, 5):
        return {"type": "Split", "pattern": pattern(rng), "behavior": behavior(rng), "invert": rng.random() < 0.3}
    if kind == 6:
        return {"type": "Metaspace", "replacement": pick(rng, "\u2581", "_"), "prepend_scheme": pick(rng, "always", "never", "first"), "split": rng.random() < 0.5}
    if kind == 7:
        return {"type": "CharDelimiterSplit", "delimiter": pick(rng, "a", " ", "-")}
    if kind == 8:
        return {"type": "BertPreTokenizer"}
    if kind == 9:
        return {"type": "ByteLevel", "add_prefix_space": rng.random() < 0.5, "trim_offsets": True, "use_regex": rng.random() < 0.5}
    if kind == 10:
        return {"type": "FixedLength", "length": rng.randrange(1, 6)} if rng.random() < 0.5 else (None if depth == 0 else {"type": "UnicodeScripts"})
    parts = [pre_tokenizer(rng, depth + 1) or {"type": "Whitespace"} for _ in range(rng.randrange(0, 4))]
    seen = False
    for p in list(parts):
        text = json.dumps(p)
        if "ByteLevel" in text:
            if seen or text.count("ByteLevel") > 1:
                parts.remove(p)
            seen = True
    return {"type": "Sequence", "pretokenizers": parts}


def decoder(rng, depth=0):
    kind = rng.randrange(14 if depth < 2 else 11)
    if kind == 0:
        return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    if kind == 1:
        return {"type": "ByteFallback"}
    if kind == 2:
        return {"type": "Fuse"}
    if kind == 3:
        return {"type": "Strip", "content": pick(rng, " ", "a", "\u2581"), "start": rng.randrange(3), "stop": rng.randrange(3)}
    if kind in (4, 5):
        return {"type": "Replace", "pattern": pattern(rng), "content": pick(rng, "", " ", "b", "ab")}
    if kind == 6:
        return {"type": "Metaspace", "replacement": pick(rng, "\u2581", "_"), "prepend_scheme": pick(rng, "always", "never", "first"), "split": True}
    if kind == 7:
        return {"type": "WordPiece", "prefix": pick(rng, "##", "a", ""), "cleanup": rng.random() < 0.5}
    if kind == 8:
        return {"type": "BPEDecoder", "suffix": pick(rng, "</w>", "a")}
    if kind == 9:
        return {"type": "CTC", "pad_token": pick(rng, "a", "<pad>"), "word_delimiter_token": pick(rng, "|", "b"), "cleanup": rng.random() < 0.5}
    if kind == 10:
        return None if depth == 0 else {"type": "Fuse"}
    return {"type": "Sequence", "decoders": [decoder(rng, depth + 1) or {"type": "Fuse"} for _ in range(rng.randrange(0, 5))]}


def bpe(rng):
    prefix, suffix = pick(rng, None, None, None, "##"), pick(rng, None, None, None, "</w>")
    vocab = {}
    for c in LETTERS:
        if len(c) == 1 and rng.random() < 0.95:
            for v in (c, (prefix or "") + c, c + (suffix or ""), (prefix or "") + c + (suffix or "")):
                vocab.setdefault(v, len(vocab))
    if rng.random() < 0.4:
        for b in range(256):
            vocab.setdefault(f"<0x{b:02X}>", len(vocab))
    vocab.setdefault("<unk>", len(vocab))
    merges = []
    names = [t for t in vocab if not t.startswith("<0x") and t != "<unk>"]
    for _ in range(rng.randrange(0, 60)):
        a, b = rng.choice(names), rng.choice(names)
        if prefix and not b.startswith(prefix) or " " in a + b or suffix and a.endswith(suffix):
            continue
        joined = a + b[len(prefix or ""):]
        if len(joined) > 20:
            continue
        if joined not in vocab:
            vocab[joined] = len(vocab)
            names.append(joined)
        merges.append([a, b])
    for w in WORDS:
        if rng.random() < 0.2:
            vocab.setdefault(w, len(vocab))
    return {"type": "BPE", "dropout": None, "unk_token": pick(rng, None, "<unk>"), "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix,
            "fuse_unk": rng.random() < 0.5, "byte_fallback": rng.random() < 0.5, "ignore_merges": rng.random() < 0.3, "vocab": vocab, "merges": merges}


def byte_bpe(rng):
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = [chr(b) for b in plain] + [chr(256 + i) for i in range(68)]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": rng.random() < 0.3, "vocab": {c: i for i, c in enumerate(chars)}, "merges": []}
    names = list("abcdehilnorst") + ["\u0120"]
    for _ in range(40):
        a, b = rng.choice(names), rng.choice(names)
        if a + b not in model["vocab"] and len(a + b) < 12:
            model["vocab"][a + b] = len(model["vocab"])
            names.append(a + b)
            model["merges"].append([a, b])
    return model


def other_model(rng):
    kind = rng.randrange(3)
    words = [w for w in WORDS + [c for c in LETTERS if len(c) == 1] if rng.random() < 0.9]
    if kind == 0:
        vocab = {w: i for i, w in enumerate(["[UNK]"] + words + ["##" + w for w in words if rng.random() < 0.6])}
        return {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": pick(rng, 100, 4), "vocab": vocab}
    if kind == 1:
        return {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(["<unk>"] + words)}, "unk_token": "<unk>"}
    pieces = ["<unk>"] + words + (["<0x%02X>" % b for b in range(256)] if rng.random() < 0.4 else [])
    return {"type": "Unigram", "unk_id": 0, "vocab": [[w, -rng.random() * 12] for w in pieces], "byte_fallback": rng.random() < 0.5}


def post_processor(rng, names, depth=0):
    kind, trim, space = rng.randrange(8 if depth < 2 else 6), rng.random() < 0.5, rng.random() < 0.5
    first, last = rng.choice(names), rng.choice(names)
    if kind == 0:
        return {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": trim, "use_regex": True}
    if kind == 1:
        return {"type": "BertProcessing", "sep": list(last), "cls": list(first)}
    if kind == 2:
        return {"type": "RobertaProcessing", "sep": list(last), "cls": list(first), "trim_offsets": trim, "add_prefix_space": space}
    if kind in (3, 4):
        around = [[{"SpecialToken": {"id": n, "type_id": 0}} for n, _ in part] for part in ([first] * rng.randrange(3), [last] * rng.randrange(2))]
        single = around[0] + [{"Sequence": {"id": "A", "type_id": 0}}] + around[1]
        return {"type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in (first, last)}}
    if kind == 5:
        return None if depth == 0 else {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": trim, "use_regex": True}
    return {"type": "Sequence", "processors": [post_processor(rng, names, depth + 1) for _ in range(rng.randrange(0, 3))]}


def template_last(post):
    """HF hands what TemplateProcessing makes on as so many sequences, or panics: behind it comes nothing."""
    text = json.dumps(post)
    behind = text.partition("TemplateProcessing")[2]
    return not any(t in behind for t in ("Processing", "ByteLevel"))


def config(rng):
    pre, dec = pre_tokenizer(rng), decoder(rng)
    byte_level = "ByteLevel" in json.dumps(pre) or "ByteLevel" in json.dumps(dec)
    model = byte_bpe(rng) if byte_level else bpe(rng) if rng.random() < 0.6 else other_model(rng)
    count = len(model["vocab"])
    added = []
    for i in range(rng.randrange(0, 4)):
        content = pick(rng, "<s>", "</s>", "[X]", "ab", "the", " lo", "é")
        if content in [a["content"] for a in added]:
            continue
        known = model["vocab"].get(content) if isinstance(model["vocab"], dict) else None
        added.append({"id": count + i if known is None else known, "content": content, "single_word": rng.random() < 0.2, "lstrip": rng.random() < 0.2,
                      "rstrip": rng.random() < 0.2, "normalized": rng.random() < 0.4, "special": rng.random() < 0.5})
    names = list(model["vocab"].items()) if isinstance(model["vocab"], dict) else [(n, i) for i, (n, _) in enumerate(model["vocab"])]
    # Sections of the file that a server takes no part in: transformers switches them off for each call.
    truncation = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    padding = {"strategy": {"Fixed": 40}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    post = post_processor(rng, names)
    while not template_last(post):
        post = post_processor(rng, names)
    return {"version": "1.0", "truncation": pick(rng, None, truncation), "padding": pick(rng, None, padding), "added_tokens": added, "normalizer": normalizer(rng), "pre_tokenizer": pre,
            "post_processor": post, "decoder": dec, "model": model}


def random_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 14)):
        roll = rng.random()
        parts.append(rng.choice(WORDS) if roll < 0.4 else rng.choice(LETTERS) if roll < 0.6 else rng.choice(BITS) if roll < 0.8 else
                     pick(rng, "<s>", "[X]", "</s>", " ", "  ", "\n", "HELLO", "É", "x"))
    return "".join(parts)


def falls_back_affixed(made):
    """Bytes of a prefix or suffix that fall back count in HF's offsets as if they stood in the text."""
    model = made["model"]
    return model.get("byte_fallback") and (model.get("end_of_word_suffix") or model.get("continuing_subword_prefix"))


def open_hf(text):
    hf = Tokenizer.from_str(text)
    hf.no_truncation()
    hf.no_padding()
    hf.encode_special_tokens = False
    return hf


def write(path, count, seed):
    """Some configurations with what HF makes of a few texts."""
    made, lines = 0, []
    while made < count:
        rng = random.Random(seed)
        seed += 1
        parts = config(rng)
        text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        if falls_back_affixed(parts) or "x*" in text or len(text) > 6000:  # where HF panics; and small files only
            continue
        try:
            hf = open_hf(text)
            cases = []
            for _ in range(6):
                t = random_text(rng)
                e = hf.encode(t, add_special_tokens=True)
                ids = e.ids
                odd = {i for i, a in hf.get_added_tokens_decoder().items() if hf.id_to_token(i) != a.content}
                back = [i for i in ids + [rng.randrange(hf.get_vocab_size())] if i not in odd]
                cases.append({"text": t, "ids": ids, "offsets": [n for o in e.offsets for n in o], "back": back, "decoded": hf.decode(back, skip_special_tokens=False)})
        except BaseException:
            continue
        lines.append(json.dumps({"config": text, "cases": cases}))
        made += 1
    Path(path).write_text("[\n" + ",\n".join(lines) + "\n]\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program")
    p.add_argument("--write")
    p.add_argument("--count", type=int, default=300)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=10)
    args = p.parse_args()
    if args.write:
        return write(args.write, args.count, args.seed)
    counts = {"same": 0, "encode": 0, "offsets": 0, "decode": 0, "refused by us": 0, "refused by HF": 0}
    shown = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seed, args.seed + args.count):
            rng = random.Random(seed)
            file = Path(folder) / "tokenizer.json"
            made = config(rng)
            file.write_text(json.dumps(made, ensure_ascii=False))
            try:
                hf = open_hf(file.read_text())
            except Exception:
                counts["refused by HF"] += 1
                continue
            refused = subprocess.run([args.program, str(file), "bench"], capture_output=True, text=True)
            if refused.returncode:
                counts["refused by us"] += 1
                if shown < args.show:
                    shown += 1
                    print(f"  seed {seed}: {refused.stderr.strip()[:200]}")
                continue
            encode, decode = [Ours(args.program, str(file), "encode", f) for f in (2, 3)], Ours(args.program, str(file), "decode", 0)
            offsets = [Ours(args.program, str(file), "offsets", f) for f in (2, 3)]
            wrong = None
            for round in range(25):
                text, special = random_text(rng), round & 1
                try:
                    e = hf.encode(text, add_special_tokens=bool(special))
                    want, want_offsets = e.ids, e.offsets
                except BaseException:
                    want, want_offsets = None, []
                got = encode[special].encode(text)
                if want != got:
                    wrong = wrong or ("encode", text, want, got)
                got, got_offsets = offsets[special].offsets(text)
                if want != got or (want_offsets != got_offsets and not falls_back_affixed(made)):
                    wrong = wrong or ("offsets", text, (want, want_offsets), (got, got_offsets))
                odd = {i for i, t in hf.get_added_tokens_decoder().items() if hf.id_to_token(i) != t.content}
                ids = [i for i in (want or []) + [rng.randrange(hf.get_vocab_size()) for _ in range(rng.randrange(3))] if i not in odd]
                try:
                    want = hf.decode(ids, skip_special_tokens=False)
                except BaseException:  # a panic of theirs
                    continue
                got = decode.decode(ids)
                if want != got:
                    wrong = wrong or ("decode", [hf.id_to_token(i) for i in ids], want, got)
            for o in encode + offsets + [decode]:
                o.close()
            counts[wrong[0] if wrong else "same"] += 1
            if wrong and shown < args.show:
                shown += 1
                parts = {k: made[k] for k in (("decoder",) if wrong[0] == "decode" else ("normalizer", "pre_tokenizer", "added_tokens", "post_processor"))}
                model = {k: v for k, v in made["model"].items() if k not in ("vocab", "merges")}
                print(f"  seed {seed} {wrong[0]} {wrong[1]!r} {[hf.id_to_token(i) for i in hf.encode(wrong[1]).ids] if wrong[0] == 'offsets' else ''}\n    want {wrong[2]!r}\n    got  {wrong[3]!r}\n    {json.dumps(parts)[:900]} {json.dumps(model)}")
    print(", ".join(f"{v} {k}" for k, v in counts.items()))
    sys.exit(1 if counts["encode"] + counts["offsets"] + counts["decode"] else 0)


if __name__ == "__main__":
    main()
