#!/usr/bin/env python3
"""Compares our tokenizer with the reference of its kind on many random, multilingual and adversarial texts: encode, offsets,
decode, streamed decode, spans of tokens in what a stream gives.

    tokenizer_diff.py --program BUILD/bin/text_encode --count 20000 [--seed 1] NAME=FILE ... [--corpus FILE ...]

FILE is a tokenizer.json (against HF tokenizers), a SentencePiece model (sentencepiece) or a .tiktoken file (tiktoken, with the pattern and
special tokens of NAME: cl100k_base, o200k_base, p50k_base, r50k_base, llama3, mistral_v3).
Needs: pip install tokenizers==0.23.3 sentencepiece==0.2.3 protobuf tiktoken==0.14.0. Prints one line for each tokenizer; exit code 1 when any text differs.
"""
import argparse
import base64
import itertools
import random
import struct
import subprocess
import sys
import unicodedata

SCRIPTS = [(0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x530, 0x58F), (0x590, 0x5F4), (0x600, 0x6FF),
           (0x900, 0x97F), (0xE00, 0xE7F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1E00, 0x1EFF), (0x2000, 0x206F), (0x2100, 0x214F),
           (0x2190, 0x21FF), (0x2460, 0x24FF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF),
           (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x1D400, 0x1D7FF), (0x1F300, 0x1F6FF), (0x20000, 0x2A6DF)]
BITS = ["'s", "'S", "'ll", "'LL", "'Re", "'\u017f", "'t", "don't", "\n", "\r\n", "\n\n", "\t", " ", "  ", "   ", "        ", "\u00a0", "\u3000",
        "\u2028", "\x85", "0", "1", "12", "123", "1234", "1,000.50", "\u0661\u0662", "\u00b2", "\u00bd", "!", "!!", "...", "//", "->", "==", "_", "__a",
        "e\u0301", "\u0301", "\u200d", "\u200b", "\ufeff", "\ufffd", "\u2581", "\u2581a", "\u0120", "<", ">", "<|", "|>", "</s>", "<s>", "<unk>", "<0x0A>",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\x00", "\x01", "\x7f", "http://a.b/c?d=e&f", "camelCaseWord",
        "SHOUTING", "x=1;y=2;", "{\"a\": [1, 2]}", "def f(x):\n    return x\n", "\ub728\u11a7", "\u1112\u1161\u11ab", "\u4f60\u597d", "\u3053\u3093\u306b\u3061\u306f", "\uc548\ub155",
        "\u0645\u0631\u062d\u0628\u0627", "\u041f\u0440\u0438\u0432\u0435\u0442", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35"]


def random_text(rng, specials, corpus):
    kind = rng.random()
    if kind < 0.25 and corpus:
        start = rng.randrange(len(corpus))
        return corpus[start:start + rng.randrange(1, 400)]
    parts = []
    for _ in range(rng.randrange(1, 30)):
        pick = rng.random()
        if pick < 0.35:
            parts.append(rng.choice(BITS))
        elif pick < 0.42 and specials:
            s = rng.choice(specials)
            parts.append(s if rng.random() < 0.8 else s[:rng.randrange(len(s))])
        elif pick < 0.55 and corpus:
            start = rng.randrange(len(corpus))
            parts.append(corpus[start:start + rng.randrange(1, 40)])
        elif pick < 0.60:
            parts.append(rng.choice(BITS) * rng.randrange(1, 70))
        elif pick < 0.65:
            parts.append(chr(rng.choice([c for c in (rng.randrange(0x110000) for _ in range(4)) if not 0xD800 <= c < 0xE000] or [65])))
        else:
            low, high = rng.choice(SCRIPTS)
            parts.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randrange(1, 8))))
        if rng.random() < 0.3:
            parts.append(" ")
    return "".join(parts)


def characters_before(text):
    """By byte; a character counts from its first one."""
    return list(itertools.accumulate((byte & 0xC0 != 0x80 for byte in text.encode()), initial=0))


def assigned(text):
    """Characters of Unicode versions that both sides know."""
    return "".join(c for c in text if unicodedata.category(c) != "Cn")


def trimmed(raw, span):
    """Without white space at its ends; an empty one wherever it lies."""
    piece = raw[span[0]:span[1]].decode(errors="replace")
    begin = span[0] + len(piece.encode()) - len(piece.lstrip().encode())
    end = span[1] - (len(piece.encode()) - len(piece.rstrip().encode()))
    return (begin, end) if begin < end else None


class Ours:
    def __init__(self, program, path, mode, flags):
        self.p = subprocess.Popen([program, path, mode, str(flags)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, n):
        data = self.p.stdout.read(n)
        assert len(data) == n, "our program died"
        return data

    def encode(self, text):
        raw = text.encode()
        self.p.stdin.write(struct.pack("<I", len(raw)) + raw)
        self.p.stdin.flush()
        count = struct.unpack("<I", self.read(4))[0]
        return None if count == 0xFFFFFFFF else list(struct.unpack(f"<{count}I", self.read(4 * count)))

    def offsets(self, text):
        """Of a process in that mode: ids and what each stands for."""
        ids = self.encode(text)
        numbers = struct.unpack(f"<{2 * len(ids or [])}I", self.read(8 * len(ids or [])))
        return ids, list(zip(numbers[::2], numbers[1::2]))

    def decode(self, ids):
        self.p.stdin.write(struct.pack(f"<I{len(ids)}I", len(ids), *ids))
        self.p.stdin.flush()
        return self.read(struct.unpack("<I", self.read(4))[0]).decode()

    def spans(self, ids):
        self.p.stdin.write(struct.pack(f"<I{len(ids)}I", len(ids), *ids))
        self.p.stdin.flush()
        numbers = struct.unpack(f"<{2 * len(ids)}I", self.read(4 + 8 * len(ids))[4:])
        return list(zip(numbers[::2], numbers[1::2]))

    def close(self):
        self.p.stdin.close()
        self.p.wait()


TEKKEN = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]",
          "<pad>", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"]


class HuggingFace:
    flags = (0, 1, 2, 3)  # 1 add special, 2 parse special
    hidden = frozenset()

    def __init__(self, path):
        from tokenizers import Tokenizer
        self.t = Tokenizer.from_file(path)
        self.added = [t.content for t in self.t.get_added_tokens_decoder().values()]
        self.vocab = self.t.get_vocab_size(with_added_tokens=True)
        # Added tokens that match normalized text and whose content the normalizer changes: HF 0.23 decodes them as the changed content and
        # does not skip them even when they are special (the normalized form is not in its set of specials). We give the content, and skip.
        self.odd = {i for i, t in self.t.get_added_tokens_decoder().items() if self.t.id_to_token(i) != t.content}

    def encode(self, text, flags):
        """Ids, and what each stands for: characters [begin, end) of text."""
        self.t.encode_special_tokens = not flags & 2
        e = self.t.encode(text, add_special_tokens=bool(flags & 1))
        return e.ids, e.offsets

    def spans(self, text):
        """Token spans in bytes of the text where encoding it loses nothing, else None; white space at their ends, which HF may trim, left out."""
        self.t.encode_special_tokens = True
        e = self.t.encode(text, add_special_tokens=False)
        if self.t.decode(e.ids, skip_special_tokens=False) != text:
            return None, None
        ends = [0]
        for c in text:
            ends.append(ends[-1] + len(c.encode()))
        return e.ids, [(ends[b], ends[e]) for b, e in e.offsets]

    def decode(self, ids, skip):
        return self.t.decode(ids, skip_special_tokens=bool(skip))

    def broken_run(self, ids):
        """A run of byte-fallback tokens that is no UTF-8 as a whole: there a stream may differ (detokenizer.h, invariant 2)."""
        run = bytearray()
        for t in [self.t.id_to_token(i) or "" for i in ids] + [""]:
            if len(t) == 6 and t.startswith("<0x") and t.endswith(">"):
                run.append(int(t[3:5], 16))
                continue
            try:
                run.decode()
            except UnicodeDecodeError:
                return True
            run.clear()
        return False


class SentencePiece:
    flags = (0, 1)
    odd = frozenset()

    def __init__(self, path):
        import sentencepiece
        self.t = sentencepiece.SentencePieceProcessor(model_file=path)
        self.vocab = self.t.vocab_size()
        self.hidden = {i for i in range(self.vocab) if self.t.is_control(i)}  # it never shows them; we do unless told to skip them
        self.added = [self.t.id_to_piece(i) for i in range(min(self.vocab, 1000))]

    def encode(self, text, flags):
        bos = self.t.bos_id()
        pieces = self.t.encode(text, return_type="proto").pieces  # offsets in bytes
        before = characters_before(text)
        first = [bos] if flags & 1 and bos >= 0 else []
        return first + [p.id for p in pieces], [(0, 0)] * len(first) + [(before[p.begin], before[p.end]) for p in pieces]

    def decode(self, ids, skip):
        return self.t.decode(ids)

    def broken_run(self, ids):
        return False


class Tiktoken:
    odd = hidden = frozenset()

    def __init__(self, name, path):
        import tiktoken
        import tiktoken_ext.openai_public as public
        upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
        rest = r"\s*[\r\n]+|\s+(?!\S)|\s+"
        o200k = "|".join([rf"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                          rf"[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", rest])
        tekken = "|".join([rf"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+", rf"[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*", r"\p{N}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", rest])
        cl100k = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + rest
        patterns = {"cl100k_base": cl100k, "llama3": cl100k, "o200k_base": o200k, "mistral_v3": tekken,
                    "p50k_base": public.r50k_pat_str, "r50k_base": public.r50k_pat_str}
        specials = {"cl100k_base": {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276},
                    "o200k_base": {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}, "p50k_base": {"<|endoftext|>": 50256}, "r50k_base": {"<|endoftext|>": 50256},
                    "llama3": {"<|begin_of_text|>": 128000, "<|end_of_text|>": 128001, "<|eot_id|>": 128009},
                    "mistral_v3": {s: i for i, s in enumerate(TEKKEN)} | {f"<SPECIAL_{i}>": i for i in range(14, 1000)}}[name]
        self.bos = {"llama3": [128000], "mistral_v3": [1]}.get(name, [])
        ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in open(path, "rb") if line.strip())}
        self.t = tiktoken.Encoding(name, pat_str=patterns[name], mergeable_ranks=ranks, special_tokens=specials)
        self.flags = (0, 1, 2, 3)
        self.added, self.special = list(specials), set(specials.values())
        self.vocab = min(max(ranks.values()) + 1, 1 << 24)
        self.first = min(ranks.values())

    def encode(self, text, flags):
        ids = self.t.encode(text, allowed_special="all") if flags & 2 else self.t.encode_ordinary(text)
        first = self.bos if flags & 1 else []
        # tiktoken tells where tokens begin only; a token ends with the character that its last byte is of
        spans, at, before = [(0, 0)] * len(first), 0, characters_before(text)
        for token, begin in zip(ids, self.t.decode_with_offsets(ids)[1]):
            at += len(self.t.decode_single_token_bytes(token))
            spans.append((begin, before[at]))
        return first + ids, spans

    def decode(self, ids, skip):
        return self.t.decode([i for i in ids if (i not in self.special if skip else i >= self.first or i in self.special)])

    def broken_run(self, ids):
        return False


def open_reference(name, path):
    head = open(path, "rb").read(64)
    if path.endswith(".json"):
        return HuggingFace(path)
    return SentencePiece(path) if head[:1] == b"\n" else Tiktoken(name, path)


def compare(name, path, args, corpus):
    reference = open_reference(name, path)
    added = reference.added
    rng = random.Random(args.seed)
    # flags: 0 plain, 1 add special, 2 parse special, 3 both
    ours = {f: Ours(args.program, path, "encode", f) for f in reference.flags}
    decode = {(m, f): Ours(args.program, path, m, f) for m in ("decode", "stream") for f in (0, 1)}
    vocab = reference.vocab
    odd = reference.odd
    passed_over = 0
    offsets = {f: Ours(args.program, path, "offsets", f) for f in reference.flags}
    wrong = {"encode": 0, "offsets": 0, "decode": 0, "stream": 0, "spans": 0}
    spans = Ours(args.program, path, "spans", 0) if isinstance(reference, HuggingFace) else None
    span_texts = 0
    shown = 0

    def report(kind, text, want, got):
        nonlocal shown
        wrong[kind] += 1
        if shown < args.show:
            shown += 1
            print(f"  {name} {kind}: {text!r}\n    want {want!r}\n    got  {got!r}", file=sys.stderr)

    for i in range(args.count):
        text = random_text(rng, added, corpus)
        if args.assigned_only:
            text = assigned(text)
        flags = reference.flags[i % len(reference.flags)]
        want, want_offsets = reference.encode(text, flags)
        got = ours[flags].encode(text)
        if want != got:
            report("encode", text, want, got)
        got, got_offsets = offsets[flags].offsets(text)
        if (want, want_offsets) != (got, got_offsets):
            report("offsets", text, want_offsets, got_offsets)
        ids = want if rng.random() < 0.6 else [rng.randrange(vocab) for _ in range(rng.randrange(0, 20))]
        if odd.intersection(ids):
            ids = [t for t in ids if t not in odd]
            passed_over += 1
        skip = i & 1
        if reference.hidden and not skip:
            ids = [t for t in ids if t not in reference.hidden]
        want_text = reference.decode(ids, skip)
        got_text = decode["decode", skip].decode(ids)
        if want_text != got_text:
            report("decode", ids, want_text, got_text)
        got_text = decode["stream", skip].decode(ids)
        if want_text != got_text and not reference.broken_run(ids):
            report("stream", ids, want_text, got_text)
        ids, want_spans = reference.spans(text) if spans and i % 4 == 0 else (None, None)
        if ids:
            raw = text.encode()
            got_spans = spans.spans(ids)
            span_texts += 1
            # A prefix that decoding takes off again has no text, or stands where a space was; HF gives it the first character.
            if any(trimmed(raw, w) != trimmed(raw, g) for w, g in zip(want_spans, got_spans) if g[0] < g[1] and trimmed(raw, g)):
                report("spans", text, want_spans, got_spans)
    for o in list(ours.values()) + list(offsets.values()) + list(decode.values()) + [spans] * bool(spans):
        o.close()
    print(f"{name}: {args.count} texts, different: {wrong['encode']} encoded, {wrong['offsets']} in offsets, {wrong['decode']} decoded, {wrong['stream']} streamed"
          + (f", {wrong['spans']} of {span_texts} in spans" if spans else "")
          + (f" ({passed_over} decoded without tokens that HF misnames)" if passed_over else ""), flush=True)
    return sum(wrong.values())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program", required=True)
    p.add_argument("--count", type=int, default=20000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=5)
    p.add_argument("--assigned-only", action="store_true")
    p.add_argument("--corpus", action="append", default=[])
    p.add_argument("tokenizers", nargs="+")
    args = p.parse_args()
    corpus = "".join(open(f, encoding="utf-8", errors="replace").read() for f in args.corpus)
    bad = 0
    for spec in args.tokenizers:
        name, path = spec.split("=", 1)
        bad += compare(name, path, args, corpus)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
