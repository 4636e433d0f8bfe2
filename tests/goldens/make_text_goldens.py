#!/usr/bin/env python3
"""Makes tests/goldens/text/: small tokenizers of our own with vectors from HF tokenizers, and template cases with what jinja2 makes of them.

    make_text_goldens.py OUT_DIR [SHARED/chat_templates]

Needs: pip install tokenizers==0.23.3 jinja2==3.1.2. With the shared data it also writes units.json: jinja2's results for the unit cases there
whose expectation is another engine's. Deterministic.
"""
import json
import random
import sys
import unicodedata
from itertools import chain
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import template_diff  # noqa: E402  (the jinja2 environment)
from template_cases import CASES  # noqa: E402

SENTENCES = """
Three banks of oars pull one stroke at a time, and the ship moves as one.
The gateway turns text into tokens; the scheduler decides; the worker computes.
When the worker dies, its sequences go back to the queue with their tokens, and the stream continues.
Don't split "it's", we'll, they've, I'm, you'd or ISN'T in odd places. What's 3 + 14 = 17? 1,000,000.50!
def add(a, b):\n    return a + b\n\nprint(add(1, 2))  # 3
{"name": "trireme", "list": [1, 2, 3], "nested": {"deep": true, "none": null}}
Ein Schiff mit drei Ruderreihen; über die Brücke, größer als früher. Straße, Äpfel, Öl.
Le navire avance à la rame, même l'été où l'on dort. Ça va ? Très bien, merci !
Корабль идёт под вёслами, и волны бьются о борт. Привет, мир!
船は三段の櫂で進む。こんにちは世界。 你好，世界！我们一起划船。
안녕하세요, 세상. 배가 앞으로 나아갑니다.
مرحبا بالعالم ، السفينة تتحرك. שלום עולם
नमस्ते दुनिया, जहाज चलता है। สวัสดีชาวโลก
Emoji: 🙂🚣‍♀️🚣🏽 👩‍👩‍👧 flags 🇩🇪🇯🇵, math ∑∫√, arrows →⇒, quotes “curly” ‘single’ … and — dashes.
\tTabs\tand  double   spaces    end here.   \n\n\n  Next paragraph.\r\nWindows line.\r\n
http://example.org/path?query=value&other=1#part user@example.org C:\\temp\\file.txt
""".strip().split("\n")
SENTENCES = [s.encode().decode("unicode_escape").encode("latin-1").decode() if "\\" in s and s.isascii() else s for s in SENTENCES]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ODD = r"[A-Z]?[a-z]+|\d{2}|[^A-Za-z\d]"  # no scanner knows it: for the regex engine


def byte_level():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(SENTENCES * 4, trainers.BpeTrainer(vocab_size=640, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens(["<|begin|>", "<|end|>", "<|end|>ing"])
    t.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", t.token_to_id("<|begin|>"))])
    return t


def sentencepiece_like():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    words = [w for s in SENTENCES[:8] for w in ("▁" + s.replace(" ", "▁")).replace("▁", " ▁").split(" ") if w]
    t.train_from_iterator(words * 4, trainers.BpeTrainer(vocab_size=620, show_progress=False, special_tokens=specials, limit_alphabet=70))
    d = json.loads(t.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(d))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return t


def added_rules():
    """GPT-2's split behind digits, NFC, and added tokens with every rule."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(SENTENCES * 4, trainers.BpeTrainer(vocab_size=400, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken("<left>", lstrip=True, special=True), AddedToken("<right>", rstrip=True, special=True), AddedToken("<both>", lstrip=True, rstrip=True, special=True)])
    t.add_tokens([AddedToken("word", single_word=True, normalized=False), AddedToken("caf\u00e9", normalized=True), AddedToken("  ", normalized=True), AddedToken("    ", normalized=True)])
    return t


def metaspace():
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    t.train_from_iterator(SENTENCES[:8] * 4, trainers.BpeTrainer(vocab_size=300, show_progress=False, special_tokens=["<unk>", "<sep>"], limit_alphabet=60))
    return t


def odd_regex():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(ODD), "merged_with_next"), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(SENTENCES * 4, trainers.BpeTrainer(vocab_size=380, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def nested_regex():
    """Classes inside classes, intersections, an interval that Ruby repeats, then Falcon's digits behind ByteLevel."""
    pattern = r"[\p{Han}]+|[\p{Lu}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,2}+|[^(\s|[.,!?])]+|[^\S\n]+|\s"
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                                               pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9]{3}"), "isolated")])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(SENTENCES * 4, trainers.BpeTrainer(vocab_size=340, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def unigram():
    """T5's shape: Nmt and NFKC, Metaspace, Unigram. The trainers of Unigram and WordPiece give another vocabulary each run, so these are built."""
    tokens = sorted(metaspace().get_vocab().items(), key=lambda item: item[1])
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [(t, -2.0 - i / 16) for i, (t, _) in enumerate(tokens) if not t.startswith("<")]
    t = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.add_special_tokens(["<pad>", "</s>", "<unk>"])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return t


def wordpiece():
    words = sorted({w.strip(".,;:!?()'\"").lower() for s in SENTENCES[:8] for w in s.split()} - {""})
    letters = sorted({c for w in words for c in w})
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + letters + ["##" + c for c in letters] + [w for w in words if len(w) > 2][::2] + ["##ing", "##s", "##er", ".", ",", "!", "?"]
    t = Tokenizer(models.WordPiece({w: i for i, w in enumerate(dict.fromkeys(vocab))}, unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


BITS = ["<|begin|>", "<|end|>", "<|end|>ing", "<|en", "<left>", "<right>", "<both>", "word", "words", " word ", "cafe\u0301", "caf\u00e9", "  ", "    ", "     ", "<s>", "</s>", "<unk>",
        "<0x41>", "\u2581", "'s", "'LL", "'\u017f", "\n", "\r\n", "\t", "\u00a0", "0", "12", "123", "12345", "\u0663", "!", "!!!", "...", "a", "B", "\u00e9", "e\u0301", "\u4f60", "\U0001f642", "\U0001f469\u200d\U0001f467",
        "\u0301", "\x00", "\x7f", "\ufeff", "\u3000", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "-" * 70]


def byte_normalizer():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()])
    t.pre_tokenizer = pre_tokenizers.Split(Regex("\u0120?[^\u0120]+"), "isolated")
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(SENTENCES * 4, trainers.BpeTrainer(vocab_size=500, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens(["<|begin|>", "<|end|>"])
    return t


def scripts():
    """Every piece begins with a space, so ids show where the pieces are."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(SENTENCES * 4, trainers.BpeTrainer(vocab_size=320, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def script_texts(rng):
    yield from ["  ab \u3069\u3053", "\u65e5\u672c\u30fc\u30ab\u30bf \u304b\u306aabc", "a\u0378\u65e5", "\u0378 a", "ab 12, x", "\u30fc\u30fc", "\uff70a"]
    chars = [c for c in map(chr, range(0x110000)) if unicodedata.category(c)[0] in "LMNPS"]
    for _ in range(40):
        at = rng.randrange(len(chars))
        yield "".join(rng.choice([chars[rng.randrange(len(chars))], chars[min(at + rng.randrange(300), len(chars) - 1)], " ", "\u0378"]) for _ in range(20))


def texts(rng):
    yield from ["", " ", "  ", "\n", "a", " a", "Hello", " Hello world", "\ud7a3", "\U0010ffff"] + SENTENCES
    for _ in range(30):
        yield "".join(rng.choice(BITS) if rng.random() < 0.7 else rng.choice(SENTENCES)[rng.randrange(20):][:rng.randrange(12)] + rng.choice(["", " "])
                      for _ in range(rng.randrange(1, 12)))


def decoded(tokenizer, ids):
    text, skipped = tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids)
    return {"ids": ids, "all": text, **({"skipped": skipped} if skipped != text else {})}


def tokenizer_goldens(out):
    makers = {"byte_level": byte_level, "sentencepiece": sentencepiece_like, "added_rules": added_rules, "metaspace": metaspace, "odd_regex": odd_regex, "nested_regex": nested_regex, "unigram": unigram, "wordpiece": wordpiece, "byte_normalizer": byte_normalizer, "scripts": scripts}
    vectors = []
    for seed, (name, make) in enumerate(makers.items()):
        tokenizer = make()
        (out / f"{name}.tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
        rng = random.Random(seed)
        for text in chain(texts(rng), script_texts(rng) if name == "scripts" else []):
            flags = rng.randrange(4)
            tokenizer.encode_special_tokens = not flags & 2
            ids = tokenizer.encode(text, add_special_tokens=bool(flags & 1)).ids
            vectors.append({"tokenizer": name, "text": text, "flags": flags, **decoded(tokenizer, ids)})
        for _ in range(15):  # ids in any order: cut characters, byte runs
            ids = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randrange(1, 12))]
            if name == "sentencepiece":  # runs that are whole characters or none: see detokenizer.h
                ids = [i for i in ids if not 3 <= i < 259] + [3 + b for b in rng.choice([b"\xf0\x9f\x99\x82", b"\xc3\xa9", b"\xff"])]
            vectors.append({"tokenizer": name, **decoded(tokenizer, ids)})
    (out / "vectors.json").write_text("[\n" + ",\n".join(json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in vectors) + "\n]\n")


def template_goldens(out):
    env = template_diff.environment()
    done = [{"template": t, "vars": v, **template_diff.reference(env, t, v)} for t, v in CASES]
    (out / "templates.json").write_text("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in done) + "\n]\n")


def unit_goldens(out, root):
    env = template_diff.environment()
    results = {}
    for name in ("hf_jinja_units", "llama.cpp_jinja_cases"):
        for c in json.loads((root / "goldens" / f"{name}.json").read_text()):
            if not c["jinja2_agrees"] or ".pop(" in c["template"]:  # pop: the recorded variables are those after the render
                results[c["name"]] = template_diff.reference(env, c["template"], c["vars"])
    for c in json.loads((root / "goldens" / "hf_jinja_e2e.json").read_text())["cases"]:
        if not c["jinja2_agrees"]:
            results[c["name"]] = template_diff.reference(env, c["template"], c["vars"])
    (out / "units.json").write_text(json.dumps(results, indent=1) + "\n")


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    tokenizer_goldens(out)
    template_goldens(out)
    if len(sys.argv) > 2:
        unit_goldens(out, Path(sys.argv[2]))


main()
