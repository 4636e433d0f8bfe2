#!/usr/bin/env python3
"""Writes tests/goldens/text/folders.json: small folders in the forms that older models have instead of tokenizer.json, and what HF transformers makes of
them (AutoTokenizer); of tekken.json what tiktoken does, as mistral_common uses it.

Needs: pip install transformers==5.23.0 tokenizers==0.23.3 tiktoken==0.14.0.
"""
import base64
import json
import tempfile
from pathlib import Path

import tiktoken
import tiktoken._educational
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoTokenizer

CORPUS = "the pull request was merged and the tests pass; \u4f60\u597d the caf\u00e9 has 1234 items, isn't it? def f(x): return x + 1\n" * 8
TEXTS = ["", " ", "the tests", " the  pull\n\nrequest", "caf\u00e9 cafe\u0301 1234567", "isn't it I'LL", "\u4f60\u597d\u3000x", "a<|endoftext|>b", "[CLS] the[MASK] [SEP]",
         "<s>the</s> <mask>", "<x> y <x>", "\u00c0\u00c9 THE Tests", "\U0001f600 ok\x00\x7f", "[INST] the [/INST]", "a\tb\r\nc", "\ub728\u11a7 \u1112\u1161\u11ab"]


def token(content, **rules):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True} | rules


def folders():
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator([CORPUS], vocab_size=340, special_tokens=["<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>"], show_progress=False)
    model = json.loads(bpe.to_str())["model"]
    vocab = json.dumps(model["vocab"], ensure_ascii=False)
    merges = "#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in model["merges"])
    files = {"vocab.json": vocab, "merges.txt": merges}
    yield "gpt2", files | {"config.json": '{"model_type": "gpt2"}', "tokenizer_config.json": '{"add_prefix_space": true, "add_bos_token": true, "bos_token": "<|endoftext|>"}'}
    added = {str(len(model["vocab"])): token("<x>", special=False, rstrip=True), str(len(model["vocab"]) + 1): token("<|im_start|>")}
    yield "qwen2", files | {"tokenizer_config.json": json.dumps({"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added, "eos_token": "<|im_start|>"})}
    yield "roberta", files | {"config.json": '{"model_type": "roberta"}', "tokenizer_config.json": '{"tokenizer_class": "RobertaTokenizer"}'}
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(c) for c in range(33, 127)] + ["##" + chr(c) for c in range(97, 123)] + \
        ["the", "##ing", "tests", "\u4f60", "cafe", "##12", "caf\u00e9"]
    words = {"vocab.txt": "".join(p + "\n" for p in pieces), "config.json": '{"model_type": "bert"}'}
    yield "bert", words
    yield "bert-cased", words | {"tokenizer_config.json": json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": False, "tokenize_chinese_chars": False})}


def cases(tokenizer):
    for text in TEXTS:
        for special in (False, True):
            e = tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
            yield {"text": text, "special": special, "ids": e["input_ids"], "offsets": [n for o in e["offset_mapping"] for n in o]}


def tekken():
    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ranks = tiktoken._educational.bpe_train(CORPUS, 320, pattern, visualise=None)
    vocab = [{"rank": r, "token_bytes": base64.b64encode(t).decode(), "token_str": t.decode(errors="replace")} for t, r in sorted(ranks.items(), key=lambda x: x[1])]
    config = {"pattern": pattern, "num_vocab_tokens": len(vocab), "default_vocab_size": 310 + 30, "default_num_special_tokens": 30, "version": "v3"}
    inner = {t: r for t, r in ranks.items() if r < 310}
    reference = tiktoken.Encoding("tekken", pat_str=pattern, mergeable_ranks=inner, special_tokens={})
    made = []
    for text in TEXTS:
        if "<s>" in text or "[INST]" in text:  # the file's special tokens, which mistral_common never looks for in a text
            continue
        ids = [1] + [r + 30 for r in reference.encode_ordinary(text)]
        made.append({"text": text, "special": True, "ids": ids})
    return {"name": "tekken", "files": {"tekken.json": json.dumps({"config": config, "vocab": vocab})}, "cases": made}


def main():
    made = []
    for name, files in folders():
        with tempfile.TemporaryDirectory() as folder:
            for file, text in files.items():
                (Path(folder) / file).write_text(text)
            made.append({"name": name, "files": files, "cases": list(cases(AutoTokenizer.from_pretrained(folder)))})
    made.append(tekken())
    lines = ",\n".join(json.dumps(f) for f in made)
    (Path(__file__).parent / "text" / "folders.json").write_text(f"[\n{lines}\n]\n")


main()
