#!/usr/bin/env python3
"""Renders random templates with our engine and with jinja2 in HF's settings, and compares: the same text, or errors in both.

    template_random.py --program BUILD/bin/text_render --count 20000 --seed 1

Needs: pip install jinja2==3.1.2 (see template_diff.py). A template is made of statements and expressions by a grammar; most are small,
so that an error in one does not hide the rest. Idiom makes what chat templates are made of; with --real DIR the expressions and tags of the
templates there are evaluated as well, with values of any kind for their variables. What is known to differ is in SKIP.
"""
import argparse
import datetime
import json
import random
import re
import subprocess
import sys

from pathlib import Path

from template_diff import NOW, environment, reference

VARS = {
    "s": "Some text, é\n  two  lines ", "w": "word", "empty": "", "h": "<a href='x'>b & \"c\"</a>", "n": 7, "z": 0, "neg": -3, "f": 2.5,
    "t": True, "no": False, "none_": None, "l": [3, 1, 2], "ls": ["b", "A", "c"], "e": [], "d": {"a": 1, "b": [1, 2], "items": 5, "k": "v"},
    "m": [{"role": "user", "content": "Hi", "n": 1}, {"role": "assistant", "content": "", "n": 2, "x": None},
          {"role": "user", "content": [{"type": "text", "text": "t"}], "n": 3}],
    "deep": {"a": {"b": {"c": [1, {"d": "x"}]}}},
}
# addresses, classes as text, and methods and filters that no prompt needs
SKIP = re.compile(r" at 0x|<class|<function|not supported|(?i:generator object)|pprint|Markup|64 bits")
FILTERS = """abs capitalize center(9) count d('x') default('y',true) dictsort e escape first float forceescape format(1) indent indent(2,true)
 int items join join('-') last length list lower max min reject('odd') rejectattr('n') replace('e','E') reverse round round(1) safe select
 select('string') selectattr('n','equalto',2) selectattr('role','in',['user']) slice(2) sort sort(reverse=true) string striptags sum title tojson tojson(indent=2) trim
 trim('x') truncate(5) truncate(5,true,'') unique upper urlencode wordcount map('upper') map(attribute='role') map(attribute='zz',default='q')
 batch(2) batch(2,'-') groupby('role') sum(attribute='n') sort(attribute='n') pprint attr('role')
 tojson(separators=(',',':')) tojson(sort_keys=true) join('/',attribute='role') min(attribute='n') tojson(ensure_ascii=true)""".split("\n")
FILTERS = [f for line in FILTERS for f in re.findall(r"[a-z]+(?:\((?:[^()]|\([^()]*\))*\))?", line)]
TESTS = """defined undefined none boolean true false integer float number string mapping iterable sequence callable odd even divisibleby(2) divisibleby(3)
 eq(1) equalto('word') ne(1) gt(1) ge(2) lt(3) le(2) in([1,2,'word']) lower upper sameas(none) escaped""".split()
METHODS = """upper() lower() strip() lstrip() rstrip() strip('x') split() split(',') split('e',1) rsplit(' ',1) startswith('S') endswith(('x','d')) replace('e','') title()
 capitalize() find('o') count('e') index('o') splitlines() isdigit() isalpha() isupper() islower() join(['a','b']) format(1,2) zfill(9) ljust(9) rjust(9,'*')
 center(9) partition(' ') rpartition(' ') swapcase() removeprefix('So') removesuffix('d') isspace() isalnum() istitle() expandtabs() items() keys() values()
 get('a') get('zz') get('zz',4) copy() index(1) isidentifier() casefold()""".split()
METHODS = re.findall(r"\w+\((?:[^()]|\([^()]*\))*\)", " ".join(METHODS))


TEXTS = ["", "a", "Hello, World", "  x y  ", "<think>\nplan\n</think>\n\nanswer", "line\n\nline two\n", "\u00e9\u00df\u0130\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
         "user", "assistant", "tool", "{\"a\": 1}", "'q' \"d\" \\\\", "a.b.c", "tab\tend\r\n", "42", "-7", "3.50", "1e5", "%s", "{}", "A-B_c", "\x7f\u2028"]
NUMBERS = [0, 1, -1, 2, 3, 7, 10, -3, 255, 2**31, 2**53, -2**63, 2**63 - 1, 0.0, -0.0, 0.1, 1.5, -2.5, 1e16, 1e15, 123456789.125, 1e-5, 1e-4, 1e100, 3.0]


def value(r, depth=2):
    """Data as a request has it."""
    k = r.randrange(12 if depth else 8)
    if k < 4:
        return r.choice(TEXTS)
    if k < 6:
        return r.choice(NUMBERS)
    if k == 6:
        return r.choice([True, False])
    if k == 7:
        return None
    if k < 10:
        return [value(r, depth - 1) for _ in range(r.randrange(4))]
    return {r.choice(["role", "content", "name", "type", "function", "arguments", "a", "b", "items", "id", "\u00e9", "text"]): value(r, depth - 1) for _ in range(r.randrange(4))}


def message(r):
    m = {"role": r.choice(["user", "assistant", "system", "tool", "ipython"]), "content": value(r) if r.random() < 0.2 else r.choice(TEXTS)}
    if r.random() < 0.3:
        arguments = {r.choice("abcx"): value(r, 1) for _ in range(r.randrange(3))}
        m["tool_calls"] = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments) if r.random() < 0.3 else arguments}}]
    if r.random() < 0.2:
        m["reasoning_content"] = r.choice(TEXTS)
    if r.random() < 0.2:
        m["content"] = [{"type": "text", "text": r.choice(TEXTS)}, {"type": "image"}]
    return m


class Idiom:
    """What chat templates are made of, put together at random."""

    def __init__(self, rng):
        self.r = rng

    def pick(self, *options):
        return self.r.choice(options)

    def text(self):
        return self.pick("m.content", "m['content']", "m.get('content')", "m.content or ''", "s", "t", "(m.content | default('', true))", "ns.text", "m.reasoning_content",
                         "messages[-1].content", "messages[0]['content']", "(s ~ i)", "(s + t)", "'%s|%5.2f|%d' % (s, f, i)", "'{:>5}|{}'.format(s, i)", "m.role", "'x' * i", "loop.index ~ ''", "n|string", "d|tojson")

    def number(self):
        return self.pick("i", "n", "loop.index", "loop.index0", "loop.revindex", "messages|length", "(i // 3)", "(i % -3)", "(-i // 2)", "(i ** 2)", "(n / 2)", "f", "(s|length)", "ns.count", "(i + f)", "(n * f)",
                           "n|int", "f|round(1)", "f|round", "(i|abs)", "'12'|int", "s|int(-1)", "s|float", "1_000", "(n - 1)", "f|int", "(f // 1)", "(f % 2)", "(l|sum)", "(i|float)", "-n")

    def sequence(self):
        return self.pick("messages", "l", "ls", "messages[1:]", "messages[:-1]", "messages[::-1]", "l[-2:]", "ls|sort", "l|sort(reverse=true)", "ls|unique|list", "d.items()|list", "d|items|list", "d|dictsort", "d.keys()|list",
                         "messages|selectattr('role','equalto','user')|list", "messages|rejectattr('tool_calls','defined')|list", "messages|map(attribute='role')|list", "messages|groupby('role')", "s.split()", "s.split('\\n')",
                         "s.splitlines()", "t.split('</think>')", "range(i)|list", "l|batch(2)|list", "l|slice(2)|list", "(ls|reverse|list)", "ls|map('upper')|list", "ls|select('in', s)|list", "ls|reject('equalto','a')|list",
                         "[s, t]", "[m, messages[0]]", "(l + ls)", "ls|sort(case_sensitive=true)", "messages|map(attribute='content', default='?')|list", "messages|sort(attribute='role')", "messages|unique(attribute='role')|list",
                         "ls|map('length')|list", "ls|map('replace','a','b')|list", "d.values()|list", "s|list", "m.tool_calls", "m.content", "messages|rejectattr('role','in',['user','tool'])|list", "(1, s, none)", "messages|map(attribute='content')|select('string')|list")

    def test(self):
        n, t, q = self.number, self.text, self.sequence
        return self.pick(lambda: f"{t()} is {self.pick('string', 'defined', 'none', 'mapping', 'iterable', 'sequence', 'undefined', 'not none', 'not defined', 'lower', 'upper', 'number', 'boolean', 'true', 'false')}",
                         lambda: f"{n()} {self.pick('<', '>', '<=', '>=', '==', '!=')} {n()}", lambda: f"{t()} {self.pick('==', '!=', 'in', 'not in', '<')} {self.pick(t(), q())}", lambda: f"{n()} is {self.pick('odd', 'even', 'divisibleby(3)', 'integer', 'float')}",
                         lambda: f"({self.test()}) {self.pick('and', 'or')} ({self.test()})", lambda: f"not ({self.test()})", lambda: self.pick("loop.first", "loop.last", "m.tool_calls", "tools", "tools is defined and tools", "loop.previtem", "loop.nextitem is defined", "messages", "d", "u is defined and u.x", "'a' in d", "'role' in m", "u", "add_generation_prompt", "enable_thinking is defined and enable_thinking is false"),
                         lambda: f"{q()}", lambda: f"{n()} in {q()}", lambda: f"{t()}.startswith({self.pick(repr('a'), repr('<think>'), t())})", lambda: f"{q()}|length {self.pick('>', '==', '<')} {n()}")()

    def index(self):
        return self.pick("0", "-1", "1", "-2", "i", "n", "loop.index0", "loop.index0 - 1", "(messages|length) - 1", "5", "-9")

    def expression(self):
        n, t, q = self.number, self.text, self.sequence
        return self.pick(
            lambda: f"{t()}|{self.pick('trim', 'upper', 'length', 'tojson', 'indent(2)', 'indent(2, true)', 'indent(4, first=true, blank=true)', 'replace(%r, %r)' % (self.pick('a', '', chr(92) + 'n'), self.pick('b', '')), 'title', 'capitalize', 'first', 'last', 'default(%r)' % 'x', 'wordcount', 'truncate(9)', 'escape', 'string', 'reverse', 'list', 'join(%r)' % '-', 'int', 'urlencode', 'safe', 'format(1)', 'striptags', 'center(9)')}",
            lambda: f"{t()}.{self.pick('strip()', 'lstrip()', 'rstrip()', 'upper()', 'split()', 'split(%r)[-1]' % '</think>', 'split(%r)[0]' % '<think>', 'rsplit(%r, 1)' % ' ', 'replace(%r, %r)' % ('a', 'bb'), 'replace(%r, %r, 1)' % ('l', ''), 'title()', 'startswith(%r)' % 'a', 'endswith((%r, %r))' % ('x', 'd'), 'find(%r)' % 'o', 'rfind(%r)' % 'o', 'count(%r)' % 'l', 'strip(%r)' % 'x ', 'lstrip(%r)' % chr(10), 'capitalize()', 'isdigit()', 'isalpha()', 'zfill(5)', 'join(ls)', 'partition(%r)' % ',', 'removeprefix(%r)' % 'a', 'encode' , 'splitlines(true)', 'index(%r)' % 'l', 'swapcase()', 'casefold()', 'isupper()', 'format(s, i=1)', 'translate({97: %r})' % 'z', 'expandtabs(4)')}",
            lambda: f"{t()}[{self.index()}]", lambda: f"{q()}[{self.index()}]", lambda: f"{self.pick(t, q)()}[{self.pick('', self.index())}:{self.pick('', self.index())}{self.pick('', '', ':2', ':-1', ':' + self.index())}]",
            lambda: f"{n()} {self.pick('+', '-', '*', '/', '//', '%', '**', '~')} {n()}", lambda: f"{t()} {self.pick('+', '~', '%', '*')} {self.pick(t, n, q)()}",
            lambda: f"{self.pick(q, n)()}|tojson{self.pick('', '(indent=2)', '(ensure_ascii=true)', '(sort_keys=true)', '(indent=1, sort_keys=true)', '(separators=(%r, %r))' % (',', ':'))}",
            lambda: f"{q()}|{self.pick('first', 'last', 'length', 'join', 'join(%r)' % ', ', 'join(%r, attribute=%r)' % (',', 'role'), 'sum', 'min', 'max', 'sum(attribute=%r)' % 'n', 'min(attribute=%r)' % 'role', 'max(case_sensitive=true)', 'string', 'list', 'random is defined' if self.r.random() < 0.02 else 'count', 'map(%r)|join' % 'string', 'map(attribute=%r)|list' % 'role.x', 'sort', 'unique|join', 'tojson', 'sum(start=1)', 'map(%r, 2)|list' % 'batch')}",
            lambda: f"({self.expression()} if {self.test()}{self.pick('', ' else ' + t())})", lambda: self.test(), n, t, q,
            lambda: f"d.{self.pick('a', 'get(%r)' % 'a', 'get(%r, 5)' % 'zz', 'items()', 'keys()', 'values()', 'items', 'b.c', 'zz', 'zz.y', 'pop', 'update')}", lambda: f"({self.test()}, {n()})",
            lambda: f"{n()}|{self.pick('round(2)', 'round(0, %r)' % 'ceil', 'round(1, %r)' % 'floor', 'abs', 'int', 'float', 'string', 'tojson', 'round(-1)')}", lambda: f"strftime_now({self.pick(repr('%Y-%m-%d'), repr('%d %B %Y, %H:%M:%S'), repr('%a %b %j %U %p %I %y %%'))})")()

    def tag(self, body):
        left, right = self.pick("", "-", "-"), self.pick("", "-", "-")
        return "{%" + left + " " + body + " " + right + "%}"

    def show(self):
        return "{{" + self.pick("", "-") + " " + self.expression() + " " + self.pick("", "-") + "}}"

    def body(self, depth):
        return "".join(self.statement(depth) + self.pick("", "", "\n", "\n    ", "<|x|>", " ") for _ in range(self.r.randrange(1, 4)))

    def statement(self, depth):
        b = lambda: self.body(depth - 1)
        if depth <= 0:
            return self.show()
        return self.pick(
            self.show, self.show, lambda: self.tag(f"if {self.test()}") + b() + self.pick("", self.tag(f"elif {self.test()}") + b()) + self.pick("", self.tag("else") + b()) + self.tag("endif"),
            lambda: self.tag(f"for m in {self.sequence()}{self.pick('', '', ' if ' + self.test())}") + b() + self.pick("", "", "{{ loop.index }}/{{ loop.length }}", "{{ loop.changed(m) }}", "{{ loop.cycle(1, 2) }}", "{{ loop.previtem }}", "{{ loop.nextitem }}", self.tag(f"if {self.test()}") + self.tag(self.pick("break", "continue")) + self.tag("endif")) + self.pick("", self.tag("else") + b()) + self.tag("endfor"),
            lambda: self.tag(f"for k, v in {self.pick('d.items()', 'd|items', 'd|dictsort', 'm.items()', '[(1, 2)]')}") + "{{ k }}={{ v }}" + b() + self.tag("endfor"),
            lambda: self.tag(f"set {self.pick('s', 't', 'i', 'l', 'x', 'ns.text', 'ns.count', 'ns.new', 'm', 'd')} = {self.expression()}"), lambda: self.tag("set s" + self.pick("", " | trim", " | upper")) + b() + self.tag("endset") + "{{ s }}",
            lambda: self.tag("set ns = namespace(count=" + self.number() + ", text=" + self.text() + ")"),
            lambda: self.tag("macro q(" + self.pick("x", "x, y=1", "x='d', y=x", "") + ")") + b() + self.pick("{{ x }}", "{{ x }}{{ y }}", "{{ varargs }}{{ kwargs }}", "{{ caller() }}") + self.tag("endmacro") + "{{ " + self.pick(f"q({self.expression()})", "q(1, 2)", "q(y=3)", "q()", "q(x=1)|trim", "q(1, 2, 3, z=4)") + " }}",
            lambda: self.tag("macro w()") + "[{{ caller(" + self.pick("", "1") + ") }}]" + self.tag("endmacro") + self.tag("call" + self.pick("", "(x)") + " w()") + b() + self.tag("endcall"),
            lambda: self.tag("for x in [[1, [2, [3]]], [4]] recursive") + self.pick("{{ x if x is number else loop(x) }}", "{{ loop(x) if x is iterable else x }}{{ loop.depth }}", "{{ loop.depth0 }}{{ loop(x) if x is not number }}") + self.tag("endfor"),
            lambda: self.tag("filter " + self.pick("trim", "upper", "indent(2)", "replace('a', 'b')")) + b() + self.tag("endfilter"), lambda: self.tag("with s = " + self.expression()) + b() + self.tag("endwith") + "{{ s }}",
            lambda: self.tag("generation") + b() + self.tag("endgeneration"), lambda: self.tag("block " + self.r.choice("abcdefgh") + str(self.r.randrange(10**6))) + b() + self.tag("endblock"),
            lambda: self.tag("autoescape " + self.pick("true", "false")) + b() + self.tag("endautoescape"))()

    def variables(self):
        r = self.r
        v = {"messages": [message(r) for _ in range(r.randrange(5))], "s": r.choice(TEXTS), "t": r.choice(TEXTS), "i": r.choice([0, 1, 2, 3, -2, True]), "n": r.choice(NUMBERS), "f": r.choice([x for x in NUMBERS if isinstance(x, float)]),
             "l": [r.choice(NUMBERS) for _ in range(r.randrange(4))], "ls": [r.choice(TEXTS) for _ in range(r.randrange(4))], "d": value(r) if r.random() < 0.1 else {r.choice(["a", "b", "items", "A", "\u00e9"]): value(r) for _ in range(r.randrange(4))},
             "m": message(r), "add_generation_prompt": r.random() < 0.5}
        if r.random() < 0.5:
            v["tools"] = [{"type": "function", "function": {"name": "f", "description": r.choice(TEXTS), "parameters": value(r)}}]
        if r.random() < 0.3:
            v["enable_thinking"] = r.random() < 0.5
        return v


class Real:
    """Expressions and conditions of real templates, with values of any kind for the names in them."""

    def __init__(self, folders):
        self.parts = set()
        for path in sorted(p for d in folders for p in Path(d).rglob("*.jinja")):
            source = path.read_text(errors="replace")
            self.parts |= {e.strip("-+ \n") for e in re.findall(r"\{\{(.*?)\}\}", source, re.S)}
            self.parts |= {e.strip("-+ \n") for e in re.findall(r"\{%[-+]?\s*(?:el)?if\s(.*?)%\}", source, re.S)}
            self.parts |= {e.split("=", 1)[1].strip("-+ \n") for e in re.findall(r"\{%[-+]?\s*set\s([^%]*?=.*?)%\}", source, re.S)}
        self.parts = sorted(p for p in self.parts if p)

    def make(self, r):
        part = r.choice(self.parts)
        names = set(re.findall(r"(?<![\w.'\"])[a-z_]\w*", part)) - {"loop", "range", "namespace", "dict", "raise_exception", "strftime_now", "true", "false", "none", "not", "and", "or", "in", "is", "if", "else"}
        variables = {n: [message(r) for _ in range(r.randrange(4))] if n == "messages" else message(r) if n in ("m", "message") and r.random() < 0.8 else value(r, 3) for n in names if r.random() < 0.9}
        source = "{{ " + part + " }}"
        if "loop" in part:
            source = "{% for x in [1, 2] %}" + source + "{% endfor %}"
        return source, variables


class Maker:
    def __init__(self, rng):
        self.r = rng
        self.names = list(VARS)

    def pick(self, *options):
        return self.r.choice(options)

    def name(self):
        return self.r.choice(self.names + ["undef", "loop", "x"])

    def literal(self):
        return self.pick("1", "0", "-2", "3.5", "'a'", "\"b c\"", "''", "true", "false", "none", "[]", "[1,2,3]", "['a','b']", "{}", "{'a':1}",
                         "(1,2)", "()", "1e3", "'\\n'", "'é'", "1_000", "0x1f")

    def expr(self, depth):
        if depth <= 0:
            return self.pick(self.name(), self.name(), self.literal())
        e = lambda: self.expr(depth - 1 - self.r.randrange(2))
        k = self.r.randrange(22)
        if k < 4:
            return f"{e()}|{self.r.choice(FILTERS)}"
        if k < 6:
            return f"({e()}) is {self.pick('', 'not ')}{self.r.choice(TESTS)}"
        if k < 8:
            return f"{self.pick(self.name(), '(' + e() + ')')}.{self.r.choice(METHODS)}"
        if k == 8:
            return f"{self.name()}.{self.pick('role', 'a', 'b', 'n', 'items', 'k', 'index', 'first', 'x')}"
        if k == 9:
            return f"{self.name()}[{e()}]"
        if k == 10:
            return f"{self.name()}[{self.pick('', '0', '1', '-1', '-2')}:{self.pick('', '1', '2', '-1')}{self.pick('', ':-1', ':2', ':1')}]"
        if k < 14:
            return f"({e()} {self.pick('+', '-', '*', '/', '//', '%', '**', '~', '==', '!=', '<', '>', '<=', '>=', 'and', 'or', 'in', 'not in', '~')} {e()})"
        if k == 14:
            return f"({e()} if {e()} else {e()})"
        if k == 15:
            return f"({e()} if {e()})"
        if k == 16:
            return f"(not {e()})"
        if k == 17:
            return f"[{e()}, {e()}]"
        if k == 18:
            return f"{{'k': {e()}, 'j': {e()}}}"
        if k == 19:
            return f"range({self.pick('3', '1,4', '4,0,-2', '0')})|list"
        if k == 20:
            return f"-({e()})"
        return f"{e()} < {e()} < {e()}"

    def ws(self):
        return self.pick("", "", "", "-", "+")

    def tag(self, body):
        left, right = self.pick("", "", "-", "+"), self.pick("", "", "-", "+")
        return "{%" + left + " " + body + " " + right + "%}"

    def text(self):
        return self.pick("", " ", "\n", "x", "a\n  ", "  b", "\n\n", "{", "}}", "é ", "# ")

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.r.randrange(1, 4)))

    def statement(self, depth):
        k = self.r.randrange(20 if depth > 0 else 8)
        e = lambda: self.expr(self.r.randrange(4))
        b = lambda: self.body(depth - 1)
        if k < 2:
            return self.text()
        if k < 7:
            left, right = self.pick("", "", "-"), self.pick("", "", "-")
            return "{{" + left + " " + e() + " " + right + "}}"
        if k == 7:
            return self.pick("{# c #}", "{#- c -#}\n", "  {# c\n #}\n", "{%- raw %} {{ x }} {% endraw -%}", "{% raw -%}\n{% x %}\n{%- endraw %}")
        if k < 10:
            out = self.tag(f"if {e()}") + b()
            if self.r.random() < 0.3:
                out += self.tag(f"elif {e()}") + b()
            if self.r.random() < 0.4:
                out += self.tag("else") + b()
            return out + self.tag("endif")
        if k < 13:
            target, source = self.pick(("x", e()), ("x", "m"), ("k, v", "d.items()"), ("x", "l"), ("a, b", "[(1,2),(3,4)]"), ("x", "range(4)"))
            more = self.pick("", "", "", " if x", " if loop_ is not defined", " recursive")
            inner = b() + self.pick("", "{{ loop.index }}", "{{ loop.first }}{{ loop.last }}", "{{ loop.revindex0 }}/{{ loop.length }}", "{{ loop.previtem }}",
                                    "{{ loop.nextitem is defined }}", "{{ loop.cycle('a','b') }}", "{{ loop.changed(x) }}", "{{ loop.depth0 }}",
                                    self.tag(f"if {e()}") + self.tag(self.pick("break", "continue")) + self.tag("endif"))
            out = self.tag(f"for {target} in {source}{more}") + inner
            if self.r.random() < 0.2:
                out += self.tag("else") + b()
            return out + self.tag("endfor")
        if k < 15:
            return self.tag(self.pick(f"set x = {e()}", f"set x, y = {self.pick('1, 2', 'l[:2]', e())}", f"set ns = namespace(a={e()})", "set ns.a = 5"))
        if k == 15:
            return self.tag(self.pick("set x", "set x | upper", "set x | trim")) + b() + self.tag("endset")
        if k == 16:
            call = self.pick("f()", "f(1)", "f(1, 2)", "f(b=3)", "f(1, z=2)", "f(1,2,3)", f"f({e()})", "f.name", "f.arguments", "f.catch_kwargs")
            return self.tag(self.pick("macro f(a, b=2)", "macro f()", "macro f(a='x')", "macro f(a, b=a)")) + b() + self.pick(
                "{{ a }}{{ b }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}") + self.tag("endmacro") + "{{ " + call + " }}"
        if k == 17:
            filters = self.pick("upper", "trim", "indent(2)", "replace('a', 'b')", "trim|upper", "tojson")
            return self.tag("filter " + filters) + b() + self.tag("endfilter")
        if k == 18:
            return self.tag(f"with x = {e()}{self.pick('', ', y = x')}") + b() + self.tag("endwith")
        return (self.tag("macro g(q)") + "[{{ q }}{{ caller(1) }}]" + self.tag("endmacro") + self.tag("call(u) g(" + e() + ")") + b() + "{{ u }}" + self.tag("endcall"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program", required=True)
    p.add_argument("--count", type=int, default=20000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=20)
    p.add_argument("--real", nargs="*", default=[], help="folders with templates")
    args = p.parse_args()
    env = environment()
    ours = subprocess.Popen([args.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    now = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())
    real = Real(args.real) if args.real else None
    same = rendered = skipped = 0
    for i in range(args.count):
        rng = random.Random(args.seed * 1000003 + i)
        kind = rng.randrange(3 if real else 2)
        if kind == 2:
            template, variables = real.make(rng)
        elif kind == 1:
            maker = Idiom(rng)
            template, variables = maker.body(rng.randrange(3)), maker.variables()
        else:
            template, variables = Maker(rng).body(2), VARS
        want = reference(env, template, variables)
        ours.stdin.write((json.dumps({"template": template, "vars": variables, "now": now}, ensure_ascii=False) + "\n").encode())
        ours.stdin.flush()
        line = ours.stdout.readline()
        assert line, f"our program died on {template!r}"
        got = json.loads(line)
        if got.get("text") == want.get("text") and ("text" in got) == ("text" in want):
            same += 1
            rendered += "text" in got
        elif SKIP.search(json.dumps(want) + json.dumps(got) + template):
            skipped += 1
        elif args.show > 0:
            args.show -= 1
            print(f"{template!r}\n    with {json.dumps(variables)[:200] if kind else '...'}\n    want {json.dumps(want)[:300]}\n    got  {json.dumps(got)[:300]}", file=sys.stderr)
    print(f"{same} of {args.count} as jinja2 ({rendered} rendered), {skipped} known to differ")
    sys.exit(0 if same + skipped == args.count else 1)


if __name__ == "__main__":
    main()
