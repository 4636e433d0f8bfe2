"""Small bugs in C: where a text of C may be changed by one to three tokens, and to what.

What people get wrong: a comparison that is off by its edge, a constant off by one, && for ||, MIN for MAX, a sign,
a negation, a statement forgotten. Comments, strings, the preprocessor's lines, enums, sizes of arrays, and what only
says what must be true (CHECK, functions named ..._check) or is written to a log stay as they are; and settings of
functions named ..._default, which could as well be a little more or less.
"""
import re

TOKEN = re.compile(r"""
    (?P<skip>\s+|/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*)
  | (?P<text>L?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+\.\d*(?:[eE][+-]?\d+)?[fF]?|\.\d+(?:[eE][+-]?\d+)?[fF]?|\d+[uUlL]*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<mark>->|<<=|>>=|\.\.\.|&&|\|\||[<>=!+*/%&|^-]=|\+\+|--|<<|>>|.)
""", re.X | re.S | re.M)

# Each to what stands for it; one change a site.
MARKS = {"<": ["<=", ">"], "<=": ["<"], ">": [">=", "<"], ">=": [">"], "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
         "+=": ["-="], "-=": ["+="], "++": ["--"], "--": ["++"], "<<": [">>"], ">>": ["<<"]}
WORDS = {"MIN": ["MAX"], "MAX": ["MIN"], "true": ["false"], "false": ["true"]}
SPARED = re.compile(r"(CHECK\w*|_?[Ss]tatic_assert|assert|log_\w+|LOG_\w+|.*error_set\w*|error_fmt|snprintf)$")
NOT_A_STATEMENT = {"return", "goto", "if", "for", "while", "do", "switch", "case", "default", "else", "struct", "enum", "union", "static",
                   "const", "typedef", "extern", "void", "int", "char", "bool", "double", "float", "unsigned", "size_t"}


def tokens(text):
    """(kind, text, begin, end) of what is code."""
    return [(m.lastgroup, m.group(), m.start(), m.end()) for m in TOKEN.finditer(text) if m.lastgroup != "skip"]


def closing(toks, at):
    """The index of the bracket that closes the one at an index."""
    depth = 0
    for i in range(at, len(toks)):
        depth += (toks[i][1] in "([{") - (toks[i][1] in ")]}")
        if depth == 0:
            return i
    return len(toks) - 1


def spared(toks):
    """Indexes of what is said to people or only checked, of enums and of arrays' sizes."""
    out = set()
    for i in range(1, len(toks) - 1):
        kind, text = toks[i][:2]
        before, opens = toks[i - 1], toks[i + 1][1]
        if kind == "word" and SPARED.match(text) and opens == "(":
            out.update(range(i, closing(toks, i + 1) + 1))
        if text == "{" and "enum" in [t[1] for t in toks[max(0, i - 2):i]]:
            out.update(range(i, closing(toks, i) + 1))
        if kind == "word" and opens == "[" and (before[0] == "word" and before[1] != "return" or before[1] == ","):
            out.update(range(i, closing(toks, i + 1) + 1))
        if text.endswith(("_check", "_default")) and before[1] == "void":
            body = closing(toks, i + 1) + 1
            if toks[body][1] == "{":
                out.update(range(body, closing(toks, body) + 1))
    return out


def depths(toks):
    """How many braces are open at each token, and how many other brackets."""
    braces, others, out = 0, 0, []
    for _, text, _, _ in toks:
        braces += (text == "{") - (text == "}")
        others += (text in "([") - (text in ")]")
        out.append((braces, others))
    return out


def is_operand(token):
    return token[0] in ("number", "word") and token[1] != "return" or token[1] in (")", "]")


def off_by_one(text):
    m = re.fullmatch(r"(\d+)([uUlL]*)", text)
    if not m or len(m[1]) > 1 and m[1][0] == "0":
        return []
    return [f"{int(m[1]) + 1}{m[2]}"] + ([f"{int(m[1]) - 1}{m[2]}"] if int(m[1]) else [])


def statement_end(toks, at):
    """The index of the ';' that ends an expression statement which begins at an index; None: it is another thing."""
    if toks[at][0] != "word" or toks[at][1] in NOT_A_STATEMENT or toks[at + 1][0] == "word" or toks[at + 1][1] == "*":
        if toks[at][1] not in ("break", "continue"):
            return None
    if toks[at + 1][1] == ":":
        return None
    i = at
    while i < len(toks) and toks[i][1] != ";":
        if toks[i][1] in "{}":
            return None
        i = closing(toks, i) if toks[i][1] in "([" else i
        i += 1
    return i if i < len(toks) else None


def is_descriptor_test(toks, at):
    """Does "fd < 0" or "fd >= 0" stand around an index? Descriptor 0 is open from the start, so that one more or less is the same."""
    return (toks[at][1] in ("<", ">=") and toks[at + 1][1] == "0" and toks[at - 1][0] == "word"
            and re.fullmatch(r"(\w+_)?fd", toks[at - 1][1]) is not None)


def sites(text):
    """All changes: (begin, end, what comes in its place, what it is)."""
    toks = tokens(text)
    spare, depth, out = spared(toks), depths(toks), []
    for i in range(1, len(toks) - 1):
        kind, word, begin, end = toks[i]
        if i in spare or depth[i][0] == 0:
            continue
        before, after = toks[i - 1], toks[i + 1]
        if is_descriptor_test(toks, i):
            out += [(begin, end, ">", "operator")] if word == "<" else []
        elif kind == "number" and is_descriptor_test(toks, i - 1):
            pass
        elif kind == "mark" and word in MARKS:
            out += [(begin, end, new, "operator") for new in MARKS[word]]
        elif word in ("+", "-") and is_operand(before):
            out.append((begin, end, "-" if word == "+" else "+", "sign"))
        elif word == "!" and (is_operand(after) or after[1] == "("):
            out.append((begin, end, "", "negation"))
        elif kind == "word" and word in WORDS:
            out += [(begin, end, new, "word") for new in WORDS[word]]
        elif kind == "number":
            out += [(begin, end, new, "constant") for new in off_by_one(word)]
        if before[1] in (";", "{", "}", ")") and depth[i][1] == 0 and depth[i][0] > 0:
            stop = statement_end(toks, i)
            if stop:
                out.append((begin, toks[stop][3], ";", "statement removed"))
    return out


def function_begin(text, at):
    """Behind the brace that opens the function around an offset; None: no function is there."""
    toks = tokens(text)
    depth, found = 0, None
    for i, (_, word, begin, end) in enumerate(toks):
        if begin >= at:
            break
        if word == "{" and depth == 0:
            found = end if i and toks[i - 1][1] == ")" else None
        depth += (word == "{") - (word == "}")
    return found if depth else None


def noting(text, site, new):
    """The text with `new` at a site, and with a mark that the function around it ran, where there is one."""
    changed, begin = f"{text[:site[0]]}{new}{text[site[1]:]}", function_begin(text, site[0])
    if begin is None:
        return changed
    return f"{changed[:begin]} extern volatile unsigned char *mutants_note; *mutants_note = 1; {changed[begin:]}"
