#!/usr/bin/env python3
"""Writes unicode_data.h: the class of every code point as runs, for text/unicode.c.

Needs: pip install unicodedata2==16.0.0 tokenizers==0.23.3. Unicode 16.0 is what the regular expressions of HF tokenizers 0.23
know. Membership in \\w is asked of their Whitespace pre-tokenizer, which runs on the regex crate, as the rules of added tokens do; membership
in \\s of their regular expressions, scripts of their UnicodeScripts pre-tokenizer; the rest comes from the character database.
"""
import sys
import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
WORD, SPACE = 1 << 5, 1 << 6


def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = set()
    for first in range(0, 0x110000, 16384):
        text = "".join(chr(c) for c in range(first, first + 16384) if not 0xD800 <= c < 0xE000)
        for piece, _ in split.pre_tokenize_str(text):
            found.update(map(ord, piece))
    return found


def word_members():
    whitespace, found = pre_tokenizers.Whitespace(), set()
    for first in range(0, 0x110000, 16384):
        chars = [c for c in range(first, first + 16384) if not 0xD800 <= c < 0xE000]
        text = " ".join("a" + chr(c) for c in chars)  # "ac" stays together when c is a word character
        found.update(ord(piece[1]) for piece, _ in whitespace.pre_tokenize_str(text) if len(piece) == 2 and piece[0] == "a")
    return found


def young(chars):
    """Characters whose category HF's own rules (Punctuation, BertNormalizer; tables of Unicode 8) do not know yet, or know as another one."""
    punctuation, clean = pre_tokenizers.Punctuation(), normalizers.BertNormalizer(True, False, False, False)
    accents = normalizers.BertNormalizer(False, False, True, False)
    for c in chars:
        ch, kind = chr(c), unicodedata2.category(chr(c))
        if kind[0] == "P" and c >= 128 and len(punctuation.pre_tokenize_str("a" + ch + "b")) == 1:
            yield c
        elif kind == "Cf" and ch in clean.normalize_str("a" + ch):
            yield c
        elif kind == "Mn" and ch in accents.normalize_str("a" + ch):
            yield c


def scripts():
    """(first code point, script) of every run, as HF's UnicodeScripts has them: 0 for what takes any neighbour's."""
    split = pre_tokenizers.UnicodeScripts().pre_tokenize_str
    chars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    own = {c for c in chars if split(c)}
    firsts = {piece[0] for piece, _ in split("".join(c for c in chars if c in own))}
    examples, runs, script = [], [], 0
    for c in chars:
        if c in firsts:  # another script than the character before
            script = next((i for i, e in enumerate(examples, 1) if len(split(e + c)) == 1), 0)
            if not script:
                examples.append(c)
                script = len(examples)
        now = script if c in own else 0
        if not runs or runs[-1][1] != now:
            runs.append((ord(c), now))
    assert len(examples) < 256
    return runs


def as_runs(chars):
    runs = []
    for c in chars:
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return runs


def add_packed(out, items):
    line = ""
    for item in items:
        if len(line) + len(item) > 118:
            out.append(line)
            line = ""
        line += item
    out += [line, "};"]


def main():
    assert unicodedata2.unidata_version == "16.0.0"
    word, space = word_members(), members(r"\s")
    runs = []
    for c in range(0x110000):
        k = CATEGORIES.index(unicodedata2.category(chr(c)))
        k |= (WORD if c in word else 0) | (SPACE if c in space else 0)
        if not runs or runs[-1][1] != k:
            runs.append((c, k))
    out = ["/* Made by make_unicode_data.py from Unicode 16.0; do not edit. */", "/* clang-format off */",
           "static const uint32_t UNICODE_RUNS[] = { /* first code point << 8 | class; up to the next run */"]
    add_packed(out, (f"0x{c << 8 | k:x}," for c, k in runs))
    out += ["", "static const uint32_t UNICODE_YOUNG[][2] = { /* punctuation, marks and format characters younger than Unicode 8 */"]
    young_runs = as_runs(young(c for c in range(0x110000) if not 0xD800 <= c < 0xE000))
    add_packed(out, (f"{{0x{first:x},0x{last:x}}}," for first, last in young_runs))
    out += ["", "static const uint32_t UNICODE_SCRIPTS[] = { /* first code point << 8 | script; up to the next run */"]
    add_packed(out, (f"0x{c << 8 | script:x}," for c, script in scripts()))
    out.append("/* clang-format on */")
    open(sys.argv[1] if len(sys.argv) > 1 else "unicode_data.h", "w").write("\n".join(out) + "\n")


main()
