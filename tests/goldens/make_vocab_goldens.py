#!/usr/bin/env python3
"""Writes tests/goldens/text/forms: small vocabularies in other forms than tokenizer.json, and what their references make of some texts.

Needs: pip install sentencepiece==0.2.3 protobuf tiktoken==0.14.0. Training is deterministic; the files are committed so that tests need neither.
"""
import base64
import io
import itertools
import json
import os
import random
import sys
from pathlib import Path

import sentencepiece
import tiktoken

OUT = Path(__file__).parent / "text" / "forms"
CORPUS = """Three banks of oars pull one stroke at a time, and the ship is faster than the wind.
The rowers sing; the helmsman answers: "Pull, pull!" - 120 oars, 3 banks, 1 keel.
Die Ruderer singen, der Steuermann antwortet; größer als ein Fischerboot ist das Schiff.
Les rameurs chantent à la mer, et la mer répond. Été, forêt, œuvre, où ?
Гребцы поют, и кормчий отвечает им. Три ряда вёсел.
船は風より速い。漕ぎ手は歌う。三段の櫂。
if (x == 10) { return a[i] + b[j]; }  // a comment\tand a tab
aaaa aaaa aaa bbbb abab abababab 1000 2000 3000
""" * 4
TEXTS = ["", " ", "  ", "a", " a", "a ", "  two  spaces  ", "Three banks of oars", "the rowers sing", "größer Été œuvre", "船は風より速い", "Гребцы поют",
         "x == 10 // comment", "aaaaaaaa", "abababab", "1000000", "tab\there", "line\nline\r\n\nline", "<s> </s> <unk>", "<sep>", "a<sep>b", " <sep> ", "<0x41>",
         "\u2581", "a\u2581b", "é e\u0301 ﬁ ½ Ａ", "\u0000", "😀 👩\u200d👩", "日本", "\ufeffa", "don't", "pull\u3000pull", "ABC", "sing<sep><sep>sing", "ctrl<ctl>x", "ſ"]


def random_texts(count):
    rng = random.Random(5)
    chars = "ab te inoÉß船風😀Гр  \n\t.0<sep>\u2581\u0301"
    for _ in range(count):
        yield "".join(rng.choice(chars) for _ in range(rng.randrange(1, 30)))


def train(name, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS.splitlines()), model_writer=model, minloglevel=2, num_threads=1,
                                             hard_vocab_limit=False, **options)
    (OUT / f"{name}.model").write_bytes(model.getvalue())
    return model.getvalue()


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def with_unused(data, texts):
    """The model with some pieces of type UNUSED (5)."""
    out, at = b"", 0
    while at < len(data):
        assert data[at] in (0x0A, 0x12, 0x1A, 0x22, 0x2A)
        length, begin = varint(data, at + 1)
        body = data[begin:begin + length]
        if data[at] == 0x0A:
            n, text = varint(body, 1)
            if body[text:text + n].decode() in texts:
                body += b"\x18\x05"
                assert len(body) < 128
                out += bytes([0x0A, len(body)]) + body
                at = begin + length
                continue
        out += data[at:begin + length]
        at = begin + length
    return out


def sentencepiece_vectors(name, data):
    sp = sentencepiece.SentencePieceProcessor(model_proto=data)
    rng = random.Random(7)
    shown = [i for i in range(sp.vocab_size()) if not sp.is_control(i)]
    for text in TEXTS + list(random_texts(60)):
        pieces = sp.encode(text, return_type="proto").pieces
        before = list(itertools.accumulate((byte & 0xC0 != 0x80 for byte in text.encode()), initial=0))
        ids, offsets = [p.id for p in pieces], [before[at] for p in pieces for at in (p.begin, p.end)]
        yield {"file": f"{name}.model", "text": text, "flags": 0, "ids": ids, "offsets": offsets, "all": sp.decode(ids)}
    for _ in range(60):
        ids = [rng.choice(shown) for _ in range(rng.randrange(1, 8))]
        yield {"file": f"{name}.model", "ids": ids, "all": sp.decode(ids)}


def tiktoken_vectors():
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ranks = tiktoken._educational.bpe_train(CORPUS, 420, pattern, visualise=None)
    first = sorted(ranks, key=ranks.get)
    order = first[:256] + first[:-41:-1] + first[256:-40]  # ranks that no training gives: long tokens before their parts
    odd = {t: i for i, t in enumerate(order)}
    for name, table in (("small", ranks), ("odd_ranks", odd)):
        lines = [base64.b64encode(t) + b" %d" % r for t, r in sorted(table.items(), key=lambda x: x[1])]
        (OUT / f"{name}.tiktoken").write_bytes(b"\n".join(lines) + b"\n")
        t = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=table, special_tokens={})
        for text in TEXTS + list(random_texts(60)):
            ids = t.encode_ordinary(text)
            yield {"file": f"{name}.tiktoken", "text": text, "flags": 0, "ids": ids, "all": t.decode(ids)}


def main():
    import tiktoken._educational
    OUT.mkdir(exist_ok=True)
    rules = "\n".join(["41\t61", "FF21\t61", "BD\t31 2F 32", "FB01\t66 69", "3000\t20", "9\t20", "65 301\tE9", "DF\t73 73"]) + "\n"
    os.chdir(OUT)
    tsv = Path("rules.tsv")  # models keep its name
    tsv.write_text(rules)
    vectors = []
    bpe = train("bpe_bytes", model_type="bpe", vocab_size=420, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                user_defined_symbols=["<sep>"], control_symbols=["<ctl>"], allow_whitespace_only_pieces=True, split_digits=True)
    vectors += sentencepiece_vectors("bpe_bytes", bpe)
    unused = with_unused(bpe, {"\u2581the", "\u2581pull", "aa", "abab"})
    (OUT / "bpe_unused.model").write_bytes(unused)
    vectors += sentencepiece_vectors("bpe_unused", unused)
    vectors += sentencepiece_vectors("bpe_rules", train("bpe_rules", model_type="bpe", vocab_size=220, normalization_rule_tsv=str(tsv)))
    vectors += sentencepiece_vectors("unigram", train("unigram", model_type="unigram", vocab_size=230, normalization_rule_tsv=str(tsv),
                                                      user_defined_symbols=["<sep>", "ab"]))
    vectors += sentencepiece_vectors("unigram_bytes", train("unigram_bytes", model_type="unigram", vocab_size=420, byte_fallback=True, add_dummy_prefix=False,
                                                            normalization_rule_name="identity", remove_extra_whitespaces=False))
    vectors += sentencepiece_vectors("unigram_suffix", train("unigram_suffix", model_type="unigram", vocab_size=200, treat_whitespace_as_suffix=True,
                                                             normalization_rule_tsv=str(tsv)))
    vectors += sentencepiece_vectors("words", train("words", model_type="word", vocab_size=150, normalization_rule_tsv=str(tsv), user_defined_symbols=["<sep>"]))
    vectors += sentencepiece_vectors("words_bytes", train("words_bytes", model_type="word", vocab_size=420, byte_fallback=True, add_dummy_prefix=False,
                                                          normalization_rule_name="identity", remove_extra_whitespaces=False))
    tsv.unlink()
    vectors += tiktoken_vectors()
    with open(OUT / "vectors.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(v) for v in vectors) + "\n]\n")
    print(len(vectors), "vectors", file=sys.stderr)


main()
